"""The ports: who says nothing is shown out, who comes in too great numbers stays out, and nonsense is one line."""

import asyncio
import io

import aiohttp
import pytest
from aiohttp import web

from muster.serve.server import listening, status_app
from muster.telemetry import Log, Metrics
from unit.serve.serving import lines_of

HOST = "127.0.0.1"
GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


def served(work, **limits):
    stream = io.StringIO()

    async def run():
        async with listening(status_app(Metrics()), HOST, 0, Log(stream), **limits) as port:
            return await work(port)

    return asyncio.run(run()), stream


async def said(port, *parts, wait_s=5.0):
    """What comes back until the server closes, or nothing more comes."""
    reader, writer = await asyncio.open_connection(HOST, port)
    for part in parts:
        writer.write(part)
        await asyncio.sleep(0.02)
    found = b""
    try:
        while part := await asyncio.wait_for(reader.read(65536), wait_s):
            found += part
            if b"\r\n\r\nok" in found:
                break
    except ConnectionError:
        pass
    finally:
        writer.close()
    return found


@pytest.mark.parametrize("start", [b"", b"GET /livez HT", b"GET /livez HTTP/1.1\r\nHost: x\r\nA: "], ids=ascii)
def test_who_says_nothing_is_shown_out(start):
    """Whole requests are answered meanwhile, and a connection that asked before may be quiet."""

    async def work(port):
        silent = asyncio.create_task(said(port, start))
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(GET)
        await reader.readuntil(b"ok")
        assert await asyncio.wait_for(silent, 3) == b""
        writer.write(GET)
        await asyncio.wait_for(reader.readuntil(b"ok"), 3)
        writer.close()

    served(work, patience_s=0.3)


def test_so_many_connections_and_no_more():
    async def work(port):
        kept = [await asyncio.open_connection(HOST, port) for _ in range(5)]
        # The server hears of who came and went when it gets to it.
        async with asyncio.timeout(30):
            while await said(port, GET) != b"":
                pass
            for _, writer in kept:
                writer.close()
            while not (await said(port, GET)).endswith(b"ok"):
                pass

    served(work, most_connections=5)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00" * 10_000,
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nA: " + b"b" * 20_000 + b"\r\n\r\n",
        b"POST /livez HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nzz\r\n",
        b"GET /\x1b[2J HTTP/1.1\r\n\r\n",
    ],
    ids=lambda one: ascii(one[:20]),
)
def test_garbage_costs_one_line(garbage):
    """No traceback to whoever sent it; each line of the log stays a line; the next one is served."""

    async def work(port):
        first = await said(port, garbage, wait_s=1.0) if garbage[0] != 0x16 else await said(port, garbage, b"\r\n\r\n")
        return first, await said(port, GET)

    (first, second), stream = served(work, patience_s=0.5)
    assert b"Traceback" not in first
    # aiohttp shows the sender what it could not read.
    assert len(first) < 5 * len(garbage) + 2_000
    assert second.endswith(b"ok")
    assert all(len(str(line)) < 6_000 for line in lines_of(stream))


def test_what_is_under_way_is_finished():
    """At the end of the block an answer that was begun is sent."""

    async def run():
        started = asyncio.Event()

        async def slow(_):
            started.set()
            await asyncio.sleep(0.3)
            return web.Response(text="done")

        app = web.Application()
        app.router.add_get("/", slow)
        async with aiohttp.ClientSession() as session:

            async def ask(port):
                async with session.get(f"http://{HOST}:{port}/") as answer:
                    return await answer.text()

            async with listening(app, HOST, 0, Log(io.StringIO())) as port:
                asking = asyncio.create_task(ask(port))
                await started.wait()
            return await asking

    assert asyncio.run(run()) == "done"
