"""Python's `websockets` talks to `netwright serve ws-echo`, in clear and in TLS."""

import asyncio
import ssl
import sys

from websockets.asyncio.client import connect


async def talk(url):
    trust = None
    if url.startswith("wss:"):
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    for compression in ("deflate", None):
        async with connect(url, ssl=trust, compression=compression, max_size=None, open_timeout=30) as socket:
            for message in ("hello", "", "grüße " * 10_000, b"", bytes(range(256)) * 10_000):
                await socket.send(message)
                assert await socket.recv() == message
            await socket.send(["in ", "several ", "pieces"])
            assert await socket.recv() == "in several pieces"
            await (await socket.ping())
            many = [f"number {number}" for number in range(1_000)]
            sender = asyncio.create_task(send_all(socket, many))
            assert [await socket.recv() for _ in many] == many
            await sender
        assert socket.close_code == 1000


async def send_all(socket, messages):
    for message in messages:
        await socket.send(message)


for url in sys.argv[1:]:
    asyncio.run(asyncio.wait_for(talk(url), 60))
