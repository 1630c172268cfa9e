"""A client of the package `websockets` at an echo server of ours: python websockets_client.py URL"""

import asyncio, os, sys
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

URL = sys.argv[1]
TEXTS = ["", "grüße", "κόσμε" * 1000, "x" * 300_000]


async def rounds(compression):
    async with connect(URL, compression=compression, subprotocols=["other", "echo"], max_size=None) as socket:
        assert socket.subprotocol == "echo", socket.subprotocol
        agreed = socket.response.headers.get("Sec-WebSocket-Extensions")
        assert bool(agreed) == bool(compression), agreed
        for message in TEXTS + [os.urandom(n) for n in (0, 1, 125, 126, 65535, 65536, 500_000)]:
            await socket.send(message)
            assert await socket.recv() == message
        await socket.send(iter(["in ", "three ", "fragments"]))
        assert await socket.recv() == "in three fragments"
        await (await socket.ping(b"payload"))
    assert socket.close_code == 1000, socket.close_code


async def too_big():
    async with connect(URL, compression=None) as socket:
        await socket.send(b"x" * (2 << 20))
        try:
            await socket.recv()
        except ConnectionClosed as closed:
            assert closed.rcvd.code == 1009, closed
            return
        raise AssertionError("not refused")


async def main():
    for compression in ("deflate", None):
        await rounds(compression)
    await too_big()

asyncio.run(asyncio.wait_for(main(), 60))
