"""The package h2, which is strict about what it hears: trailers both ways, padding, windows of single bytes, pings, resets, an end in order."""

import socket
import sys
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings

address = urlsplit(sys.argv[1])


class Peer:
    def __init__(self, window=65535):
        self.socket = socket.create_connection((address.hostname, address.port), timeout=60)
        self.state = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.state.local_settings = h2.settings.Settings(
            initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window}
        )
        self.heard = []
        self.state.initiate_connection()
        self.send()

    def send(self):
        self.socket.sendall(self.state.data_to_send())

    def ask(self, path, method="GET", end=True):
        stream = self.state.get_next_available_stream_id()
        fields = [(":method", method), (":scheme", "http"), (":path", path), (":authority", address.netloc)]
        self.state.send_headers(stream, fields, end_stream=end)
        self.send()
        return stream

    def event(self):
        while not self.heard:
            received = self.socket.recv(65536)
            assert received, "the server left"
            self.heard += self.state.receive_data(received)
            self.send()
        return self.heard.pop(0)

    def wait_for(self, kind):
        while True:
            event = self.event()
            if isinstance(event, kind):
                return event

    def reply(self, stream):
        """Head, body and trailers; what has come of the body is granted again."""
        head, body, trailers = {}, b"", {}
        while True:
            event = self.event()
            if isinstance(event, h2.events.DataReceived):
                body += event.data
                if event.flow_controlled_length:
                    self.state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    self.send()
            elif isinstance(event, h2.events.ResponseReceived):
                head = dict(event.headers)
            elif isinstance(event, h2.events.TrailersReceived):
                trailers = dict(event.headers)
            elif isinstance(event, h2.events.StreamEnded) and event.stream_id == stream:
                return head, body, trailers
            assert not isinstance(event, h2.events.StreamReset), event


def numbered(length):
    return b"".join(number.to_bytes(4, "big") for number in range((length + 3) // 4))[:length]


peer = Peer()
head, body, trailers = peer.reply(peer.ask("/bytes/300000"))
assert head[":status"] == "200" and body == numbered(300000), head

# Both directions at the same time: each piece is answered before the next one is said.
stream = peer.ask("/echo", "POST", end=False)
for piece in (b"one", b"two", b"three" * 1000):
    peer.state.send_data(stream, piece, pad_length=200)
    peer.send()
    heard = b""
    while len(heard) < len(piece):
        heard += peer.wait_for(h2.events.DataReceived).data
    assert heard == piece, heard
peer.state.send_headers(stream, [("x-sum", "42")], end_stream=True)
peer.send()
assert dict(peer.wait_for(h2.events.TrailersReceived).headers) == {"x-sum": "42"}

peer.state.ping(b"abcdefgh")
peer.send()
assert peer.wait_for(h2.events.PingAckReceived).ping_data == b"abcdefgh"

# Streams that are given up leave nothing behind.
for _ in range(50):
    peer.state.reset_stream(peer.ask("/slow/50000"), h2.errors.ErrorCodes.CANCEL)
assert peer.reply(peer.ask("/"))[1] == b"hello by HTTP/2.0\n"

# A window of a single byte.
drop = Peer(window=1)
assert drop.reply(drop.ask("/bytes/50"))[1] == numbered(50)

# What breaks the rules of a stream ends the stream, what breaks those of the connection ends it with a reason.
stream = peer.ask("/sum", "POST", end=False)
peer.socket.sendall(b"\x00\x00\x04\x08\x00" + stream.to_bytes(4, "big") + b"\x00\x00\x00\x00")
assert peer.wait_for(h2.events.StreamReset).error_code == h2.errors.ErrorCodes.PROTOCOL_ERROR
peer.socket.sendall(b"\x00\x00\x04\x08\x00" + b"\x00\x00\x00\x00" + b"\x00\x00\x00\x00")
assert peer.wait_for(h2.events.ConnectionTerminated).error_code == h2.errors.ErrorCodes.PROTOCOL_ERROR
