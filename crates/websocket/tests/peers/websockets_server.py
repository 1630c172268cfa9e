"""An echo server of the package `websockets`: prints its address, and ends with its input."""

import asyncio, sys
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed


async def echo(socket):
    try:
        while True:
            message = await socket.recv()
            await socket.send(message)
            if message == "fragments":
                await socket.send(iter(["in ", "three ", "fragments"]))
            if message == "close":
                await socket.close(4321, "as you wish")
    except ConnectionClosed:
        pass


async def main():
    async with serve(echo, "127.0.0.1", 0, max_size=None, subprotocols=["echo"]) as server:
        print("ws://127.0.0.1:%d/" % server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
