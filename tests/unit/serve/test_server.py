"""The ports: who says nothing is shown out, who comes in too great numbers stays out, and nonsense is one line."""

import asyncio
import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from muster.accepting import Limits
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

    served(work, limits=Limits(patience_s=0.3))


async def idle(port, number):
    """Connections on which a request was answered, and that are kept for nothing."""
    kept = []
    for _ in range(number):
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(GET)
        await reader.readuntil(b"ok")
        kept.append((reader, writer))
    return kept


def is_open(reader):
    return not reader.at_eof()


@pytest.mark.parametrize("limits", [Limits(most=40, most_of_one=40), Limits(most_of_one=40)], ids=["in all", "of one"])
@pytest.mark.parametrize("asks", [True, False], ids=["idle", "silent"])
def test_a_probe_is_answered_whatever_is_kept_open(limits, asks):
    """An idle or silent connection makes room for a new one: that which is idle for the longest time goes first."""

    async def work(port):
        kept = await idle(port, 40) if asks else [await asyncio.open_connection(HOST, port) for _ in range(40)]
        answers = [await asyncio.wait_for(said(port, GET), 3) for _ in range(14)]
        assert [one[-2:] for one in answers] == [b"ok"] * 14
        gone = [number for number, (reader, _) in enumerate(kept) if not is_open(reader)]
        # Probes that have gone make room too, once the server hears of it.
        assert 1 <= len(gone) <= 14
        assert gone == list(range(len(gone)))
        for _, writer in kept:
            writer.close()

    served(work, limits=limits)


def test_a_connection_that_is_idle_ends_by_itself():
    """Also one that dribbles a second request."""

    async def work(port):
        (reader, writer), (other, slow) = await idle(port, 2)

        async def dribble():
            while not other.at_eof() and other.exception() is None:
                slow.write(b"G")
                await asyncio.sleep(0.05)

        dribbling = asyncio.create_task(dribble())
        assert await asyncio.wait_for(reader.read(), 3) == b""
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(other.read(), 3) == b""
        await dribbling
        writer.close()
        slow.close()

    served(work, limits=Limits(idle_s=0.4))


def test_a_request_without_its_body_is_idle():
    """It makes room for others, and ends in time; a request that is complete stays until it is answered."""

    async def run():
        release = asyncio.Event()

        async def take(request):
            await request.read()
            await release.wait()
            return web.Response(text="taken")

        app = web.Application()
        app.router.add_post("/", take)
        whole = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
        async with listening(app, HOST, 0, Log(io.StringIO()), limits=Limits(most=8, patience_s=30)) as port:
            busy = [await asyncio.open_connection(HOST, port) for _ in range(7)]
            for _, writer in busy:
                writer.write(whole + b"ab")
            slow, half = await asyncio.open_connection(HOST, port)
            half.write(whole + b"a")
            await asyncio.sleep(0.2)
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(whole + b"ab")
            assert await asyncio.wait_for(slow.read(), 3) == b""
            # All eight are at work now: there is no room to make.
            late, other = await asyncio.open_connection(HOST, port)
            assert await asyncio.wait_for(late.read(), 3) == b""
            release.set()
            for one, _ in [*busy, (reader, writer)]:
                await asyncio.wait_for(one.readuntil(b"taken"), 3)
            for _, one in [*busy, (reader, writer), (slow, half), (late, other)]:
                one.close()

    asyncio.run(run())


def test_no_file_descriptor_is_left(tmp_path):
    """Connections beyond what the process may open cost a few lines and no processor time, and probes are answered."""
    program = tmp_path / "served.py"
    program.write_text(SERVED)
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        port = int(process.stdout.readline())
        kept = []
        try:
            for _ in range(100):
                kept.append(socket.create_connection((HOST, port), 5))
            began_s = cpu_s(process.pid)
            answers = [asyncio.run(said(port, GET)) for _ in range(5)]
            time.sleep(2)
            assert cpu_s(process.pid) - began_s < 0.8
        finally:
            for one in kept:
                one.close()
            process.terminate()
        log = process.stderr.read()
    assert [one[-2:] for one in answers] == [b"ok"] * 5
    assert b"can't be accepted now" in log
    assert len(log) < 20_000
    assert all(json.loads(line) for line in log.splitlines())


SERVED = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from muster.accepting import Limits
from muster.serve.server import listening, status_app
from muster.telemetry import Log, Metrics

async def main():
    log = Log(sys.stderr)
    with log.as_only():
        async with listening(status_app(Metrics()), "127.0.0.1", 0, log, limits=Limits(share=9)) as port:
            print(port, flush=True)
            await asyncio.Event().wait()

asyncio.run(main())
"""


def cpu_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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

    (first, second), stream = served(work, limits=Limits(patience_s=0.5))
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
