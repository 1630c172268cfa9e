"""Calls of gRPC, each kind of them, by grpcio: `grpc_text.py ADDRESS`. Messages are written by hand, so that nothing has to be generated."""

import sys
import threading

import grpc

channel = grpc.insecure_channel(sys.argv[1])


def encode(text):
    """A `Line`: field 1, a string."""
    data = text.encode()
    length, size = b"", len(data)
    while size > 127:
        length, size = length + bytes([size % 128 + 128]), size // 128
    return b"\x0a" + length + bytes([size]) + data if data else b""


def decode(data):
    if not data:
        return ""
    assert data[0] == 0x0A, data
    at = 1
    while data[at] > 127:
        at += 1
    return data[at + 1 :].decode()


def method(name, kind):
    return kind(f"/netwright.text.Text/{name}", request_serializer=encode, response_deserializer=decode)


upper = method("Upper", channel.unary_unary)
split = method("Split", channel.unary_stream)
join = method("Join", channel.stream_unary)
echo = method("Echo", channel.stream_stream)

# One request, one reply; metadata in the head, the status in the trailers.
reply, call = upper.with_call("grüße", timeout=60, metadata=[("x-tag", "42")])
assert reply == "GRÜSSE", reply
assert call.code() == grpc.StatusCode.OK
assert ("x-tag", "42") in [tuple(pair) for pair in call.initial_metadata()], call.initial_metadata()

# A refusal has nothing but trailers.
for asked, code in [("", grpc.StatusCode.INVALID_ARGUMENT), ("x" * 5_000_000, grpc.StatusCode.OUT_OF_RANGE)]:
    try:
        upper(asked, timeout=60)
        raise AssertionError("it should have been refused")
    except grpc.RpcError as error:
        assert error.code() == code, error
        assert asked or error.details() == "an empty line has no capitals", error
for path in ["/netwright.text.Text/Nothing", "/nobody.Knows/It"]:
    try:
        channel.unary_unary(path)(b"", timeout=60)
        raise AssertionError("nobody answers that")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error

# Streams of replies, and of requests.
words = [f"word{number}" for number in range(1000)]
assert list(split(" ".join(words), timeout=60)) == words
assert join(iter(words), timeout=60) == "".join(words)
long = "x" * 1_000_000
assert upper(long, timeout=60) == long.upper()
assert join(iter([long] * 3), timeout=60) == long * 3

# Both ways at the same time: nothing is said before what was said last has come back.
come_back = threading.Semaphore(0)


def talk():
    for number in range(100):
        yield f"line {number}"
        assert come_back.acquire(timeout=60), f"line {number} does not come back"


heard = []
for line in echo(talk(), timeout=120):
    heard.append(line)
    come_back.release()
assert heard == [f"line {number}" for number in range(100)], heard

# A stream that fails in its midst: what came before is there, and then the status.
heard = []
try:
    for line in echo(iter(["one", "two", "stop", "three"]), timeout=60):
        heard.append(line)
    raise AssertionError("it should have been aborted")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.ABORTED and error.details() == "as you wish", error
assert heard == ["one", "two"], heard

# A call that is given up, beside others that go on.
given_up = echo(talk(), timeout=60)
assert next(given_up) == "line 0"
given_up.cancel()
calls = [upper.future(f"line {number}", timeout=60) for number in range(300)]
assert [call.result() for call in calls] == [f"LINE {number}" for number in range(300)]

# A deadline that passes ends the call, not the connection.
try:
    for _ in echo(talk(), timeout=0.2):
        pass
    raise AssertionError("nobody answers line 1")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
assert upper("still here", timeout=60) == "STILL HERE"
channel.close()
