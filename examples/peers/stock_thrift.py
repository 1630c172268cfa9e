"""Calls a thrift_server: python3 stock_thrift.py HOST:PORT [compact]

Needs the package `thrift`. Does by hand what the Thrift compiler would generate of stock.thrift.
"""

import sys

from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.protocol import TBinaryProtocol, TCompactProtocol
from thrift.transport import TSocket, TTransport


class NoSuchItem(Exception):
    pass


class Stock:
    def __init__(self, protocol):
        self.protocol = protocol
        self.sequence = 0

    def send(self, method, item, count):
        out = self.protocol
        self.sequence += 1
        out.writeMessageBegin(method, TMessageType.CALL, self.sequence)
        out.writeStructBegin("price_args")
        out.writeFieldBegin("item", TType.STRING, 1)
        out.writeString(item)
        out.writeFieldEnd()
        out.writeFieldBegin("count", TType.I32, 2)
        out.writeI32(count)
        out.writeFieldEnd()
        # Of a newer version of the service: to be skipped.
        out.writeFieldBegin("tags", TType.LIST, 9)
        out.writeListBegin(TType.STRING, 2)
        out.writeString("one")
        out.writeString("two")
        out.writeListEnd()
        out.writeFieldEnd()
        out.writeFieldStop()
        out.writeStructEnd()
        out.writeMessageEnd()
        out.trans.flush()
        return self.sequence

    def receive(self, method, sequence):
        read = self.protocol
        name, kind, number = read.readMessageBegin()
        assert (name, number) == (method, sequence), (name, number)
        if kind == TMessageType.EXCEPTION:
            error = TApplicationException()
            error.read(read)
            read.readMessageEnd()
            raise error
        assert kind == TMessageType.REPLY
        cents = missing = None
        read.readStructBegin()
        while True:
            _, field_type, field = read.readFieldBegin()
            if field_type == TType.STOP:
                break
            if (field, field_type) == (0, TType.I64):
                cents = read.readI64()
            elif (field, field_type) == (1, TType.STRUCT):
                read.readStructBegin()
                _, field_type, field = read.readFieldBegin()
                assert (field, field_type) == (1, TType.STRING)
                missing = read.readString()
                read.readFieldEnd()
                assert read.readFieldBegin()[1] == TType.STOP
                read.readStructEnd()
            else:
                read.skip(field_type)
            read.readFieldEnd()
        read.readStructEnd()
        read.readMessageEnd()
        if missing is not None:
            raise NoSuchItem(missing)
        return cents

    def price(self, item, count, method="price"):
        return self.receive(method, self.send(method, item, count))


def main(address, protocol):
    host, port = address.rsplit(":", 1)
    socket = TSocket.TSocket(host, int(port))
    socket.setTimeout(20_000)
    transport = TTransport.TFramedTransport(socket)
    stock = Stock(protocol(transport))
    transport.open()

    assert stock.price("gear", 3) == 5997
    assert stock.price("bolt", 2**31 - 1) == 12 * (2**31 - 1)
    try:
        stock.price("mönd", 1)
        raise AssertionError("should be missing")
    except NoSuchItem as missing:
        assert str(missing) == "mönd"
    try:
        stock.price("nut", 1, method="steal")
        raise AssertionError("should be unknown")
    except TApplicationException as unknown:
        assert unknown.type == TApplicationException.UNKNOWN_METHOD, unknown
    calls = [(number, stock.send("price", "nut", number)) for number in range(500)]
    for number, sequence in calls:
        assert stock.receive("price", sequence) == 5 * number
    transport.close()
    print("ok: thrift", "compact" if protocol is TCompactProtocol.TCompactProtocol else "binary")


main(
    sys.argv[1],
    TCompactProtocol.TCompactProtocol if "compact" in sys.argv[2:] else TBinaryProtocol.TBinaryProtocol,
)
