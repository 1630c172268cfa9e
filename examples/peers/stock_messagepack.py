"""Asks a messagepack_server what things cost: python3 stock_messagepack.py HOST:PORT

Needs the package `msgpack`. Each message has its length in front, in four bytes.
"""

import socket
import struct
import sys

import msgpack


def main(address):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        stream = connection.makefile("rb")

        def send(*values):
            frames = [msgpack.packb(value) for value in values]
            connection.sendall(b"".join(struct.pack(">I", len(frame)) + frame for frame in frames))

        def receive():
            (length,) = struct.unpack(">I", stream.read(4))
            return msgpack.unpackb(stream.read(length))

        send({"id": 1, "item": "gear", "count": 3})
        assert receive() == {"id": 1, "cents": 5997}
        send({"id": 2**64 - 1, "item": "mönd"})
        assert receive() == {"id": 2**64 - 1, "cents": None}, "a count that is missing is one"
        send([3, "bolt", 2])
        assert receive() == {"id": 3, "cents": 24}, "fields without names, by their places"
        send({"id": 4, "more": [1.5, {"deep": [b"bytes", None]}], "item": "nut", "count": 2})
        assert receive() == {"id": 4, "cents": 10}, "a field that nobody knows is skipped"
        send(*({"id": number, "item": "nut", "count": number} for number in range(500)))
        for number in range(500):
            assert receive() == {"id": number, "cents": 5 * number}

        # A frame that is no message ends the connection, because the example takes care of no error.
        send("what?")
        assert stream.read() == b""
    print("ok: msgpack")


main(sys.argv[1])
