"""httpx by HTTP/2: bodies both ways, many requests at a time, and requests that are given up."""

import asyncio
import struct
import sys

import httpx

plain, secure = sys.argv[1:]


def numbered(length):
    return b"".join(struct.pack(">I", number) for number in range((length + 3) // 4))[:length]


def one_after_the_other():
    body = numbered(2_000_000)
    pieces = (body[start : start + 1000] for start in range(0, len(body), 1000))
    with httpx.Client(http2=True, verify=False, timeout=60) as client:
        reply = client.get(secure)
        assert reply.http_version == "HTTP/2" and reply.text == "hello by HTTP/2.0\n", reply
        assert client.get(f"{secure}bytes/2000000").content == body
        assert client.post(f"{secure}echo", content=body).content == body
        assert client.post(f"{secure}echo", content=pieces).content == body
        assert client.post(f"{secure}early", content=b"few bytes").status_code == 403
        with client.stream("GET", f"{secure}bytes/30000000") as reply:
            next(reply.iter_bytes())
        assert client.get(secure).status_code == 200
    with httpx.Client(http1=False, http2=True, timeout=60) as client:
        assert client.get(plain).text == "hello by HTTP/2.0\n"
    with httpx.Client(verify=False, timeout=60) as client:
        assert client.get(secure).text == "hello by HTTP/1.1\n"


async def many_at_a_time():
    limits = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(http2=True, verify=False, timeout=60, limits=limits) as client:
        await client.get(secure)
        replies = await asyncio.gather(*[client.get(f"{secure}bytes/{number}000") for number in range(150)])
        assert all(reply.content == numbered(number * 1000) for number, reply in enumerate(replies))
        bodies = [numbered(number * 1000) for number in range(150)]
        replies = await asyncio.gather(*[client.post(f"{secure}echo", content=body) for body in bodies])
        assert all(reply.content == body for body, reply in zip(bodies, replies))
        given_up = [asyncio.create_task(client.get(f"{secure}slow/50000")) for _ in range(50)]
        await client.get(f"{secure}slow/100")
        for task in given_up:
            task.cancel()
        assert (await client.get(secure)).status_code == 200


one_after_the_other()
asyncio.run(many_at_a_time())
