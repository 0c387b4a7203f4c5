"""Real HTTP on loopback: connections that break, answers that are too large or too late, TLS and certificates."""

import asyncio
import datetime
import gzip
import ipaddress
import ssl
import time
from contextlib import aclosing

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from muster import errors
from muster.kube.client import Client
from muster.kube.clock import SystemClock
from muster.kube.connection import Connection, Tls
from muster.kube.credentials import Credentials, Files, Fixed, KeyPair, Secret
from muster.kube.resources import PODS
from muster.kube.watch import Added, Listed, Restarted, watch
from unit.kube.playing import THINGS, HastyClock, connection_to, line, served, spoken, thing


def talking(handler, work, **options):
    """What `work(client)` returns or raises, against a real server that answers with `handler`."""

    async def run():
        async with served(handler) as server, spoken(server, **options) as client:
            try:
                return await work(client)
            except errors.MusterError as error:
                return error

    return asyncio.run(run())


def test_a_path_in_front_of_the_api_is_kept():
    """Some servers live below a path of a larger one."""
    seen = []

    async def handler(request):
        seen.append(request.raw_path)
        return web.json_response(thing("x", 1))

    async def run():
        async with served(handler) as server:
            client = Client(connection_to(f"{server}/k8s/clusters/c-1"))
            async with client:
                await client.get(THINGS, "a", "system:x")

    asyncio.run(run())
    assert seen == ["/k8s/clusters/c-1/api/v1/namespaces/a/things/system:x"]


def test_a_proxy_is_used_where_one_is_named():
    seen = []

    async def handler(request):
        seen.append(request.headers["Host"])
        return web.json_response(thing("x", 1))

    async def run():
        async with served(handler) as proxy:
            client = Client(connection_to("http://far.invalid:6443")._replace(proxy=proxy))
            async with client:
                await client.get(THINGS, "a", "x")

    asyncio.run(run())
    assert seen == ["far.invalid:6443"]


def test_selectors_are_encoded():
    seen = []

    async def handler(request):
        seen.append(dict(request.query))
        return web.json_response({"items": []})

    talking(handler, lambda client: client.list(THINGS, label_selector="a in (b,c),d!=e+f&g=ä"))
    assert seen[0]["labelSelector"] == "a in (b,c),d!=e+f&g=ä"


@pytest.mark.parametrize(
    ("work", "tries"),
    [
        (lambda client: client.bind("a", "p", "u", "n"), 1),
        (lambda client: client.delete(PODS, "a", "p", uid="u"), 1),
        (lambda client: client.patch(PODS, "a", "p", {}), 1),
        (lambda client: client.get(PODS, "a", "p"), 5),
    ],
    ids=["bind", "delete", "patch", "get"],
)
def test_a_connection_that_breaks_after_the_request_leaves_a_write_unknown(work, tries):
    """Nobody on the way repeats a write, not even a DELETE on a connection that was open before."""
    seen = []

    async def handler(request):
        if "warm" in request.path:
            return web.json_response(thing("warm", 1))
        await request.read()
        seen.append(request.method)
        request.transport.abort()
        return web.Response()

    async def after_another(client):
        await client.get(PODS, "a", "warm")
        await work(client)

    error = talking(handler, after_another)
    assert isinstance(error, errors.Unreachable)
    assert error.unknown == (tries == 1)
    assert len(seen) == tries


def test_a_server_that_is_not_there_did_nothing():
    async def run():
        clock = HastyClock()
        async with spoken("http://127.0.0.1:1", clock) as client:
            with pytest.raises(errors.Unreachable) as raised:
                await client.bind("a", "p", "u", "n")
            assert not raised.value.unknown
            assert len(clock.slept) == 4
            assert "127.0.0.1:1" in raised.value.message

    asyncio.run(run())


def test_a_slow_answer_leaves_a_write_unknown():
    async def handler(request):
        await asyncio.sleep(5)
        return web.Response()

    began = time.monotonic()
    error = talking(handler, lambda client: client.bind("a", "p", "u", "n"), bind_timeout_s=0.03, grace_s=0.0)
    assert isinstance(error, errors.Unreachable)
    assert error.unknown
    assert time.monotonic() - began < 2.0


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_answer_is_not_taken(chunked):
    async def handler(request):
        response = web.StreamResponse()
        if not chunked:
            response.content_length = 5_000_000
        await response.prepare(request)
        for _ in range(50):
            await response.write(b"x" * 100_000)
        return response

    error = talking(handler, lambda client: client.get(THINGS, "a", "x"), max_response_bytes=1_000_000)
    assert isinstance(error, errors.ServerFault)
    assert "1,000,000" in error.message


def test_an_answer_that_breaks_off_is_asked_for_again():
    seen = []

    async def handler(request):
        seen.append(request)
        if len(seen) > 1:
            return web.json_response(thing("x", 1))
        response = web.StreamResponse()
        response.content_length = 100
        await response.prepare(request)
        await response.write(b'{"metadata"')
        request.transport.abort()
        return response

    found = talking(handler, lambda client: client.get(THINGS, "a", "x"))
    assert found["metadata"]["name"] == "x"
    assert len(seen) == 2


def test_compression_is_neither_asked_for_nor_undone():
    """A small answer must not become a huge one."""

    async def handler(request):
        assert "Accept-Encoding" not in request.headers
        return web.Response(body=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})

    assert isinstance(talking(handler, lambda client: client.get(THINGS, "a", "x")), errors.BadObject)


def test_credentials_do_not_follow_a_redirect():
    seen = []

    async def handler(request):
        seen.append(request.path)
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    credentials = Credentials(Fixed(Secret("token")))
    error = talking(handler, lambda client: client.get(THINGS, "a", "x"), credentials=credentials)
    assert type(error) is errors.ApiError
    assert len(seen) == 1


def test_a_watch_over_http_goes_on_after_a_cut_in_the_middle_of_a_line_and_closes_its_connection():
    streams = []
    heard, ended = asyncio.Event(), asyncio.Event()

    async def handler(request):
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [thing("a", 1)]})
        streams.append(request.query["resourceVersion"])
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        if len(streams) == 1:
            second = line("ADDED", thing("c", 3))
            await response.write(line("ADDED", thing("b", 2)) + second[: len(second) // 2])
            await heard.wait()
            request.transport.abort()
            return response
        await response.write(line("ADDED", thing("c", 3)))
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()
        return response

    async def follow(client):
        seen = []
        async with aclosing(watch(client, THINGS)) as values:
            async for value in values:
                seen.append(value)
                if isinstance(value, Added):
                    heard.set()
                    if value.object["metadata"]["name"] == "c":
                        break
        await asyncio.wait_for(ended.wait(), 20)
        return seen

    seen = talking(handler, follow)
    assert [type(value) for value in seen] == [Listed, Added, Restarted, Added]
    assert streams == ["1", "2"]


def test_cancelling_a_watch_leaves_nothing_open():
    started = asyncio.Event()

    async def handler(request):
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(line("ADDED", thing("b", 2)))
        started.set()
        await asyncio.sleep(30)
        return response

    async def follow(client):
        async def consume():
            async for _ in watch(client, THINGS):
                pass

        task = asyncio.create_task(consume())
        await started.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return client._transport._pool._running

    assert talking(handler, follow) == 0


# TLS


class Authority:
    """A certificate authority for one test."""

    def __init__(self):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign("authority", self.key.public_key(), ca=True)

    def _sign(self, name, public, *, ca=False, names=(), days=1):
        now = datetime.datetime.now(datetime.UTC)
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=2))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    @property
    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def pair(self, name, *names, days=1):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(name, key.public_key(), names=names, days=days)
        return KeyPair(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )


@pytest.fixture(scope="module")
def authority():
    return Authority()


def server_context(authority, folder, *names):
    pair = authority.pair("server", *names)
    file = folder / "server.pem"
    file.write_bytes(pair.certificate + pair.key)
    trusted = folder / "clients.pem"
    trusted.write_bytes(authority.pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=trusted)
    context.load_cert_chain(file)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


async def who(request):
    """An API server that says whom it sees."""
    shown = request.transport.get_extra_info("peercert")
    names = [value for part in shown["subject"] for _, value in part] if shown else ["nobody"]
    return web.json_response({"metadata": {"name": names[0]}})


def secure(context, tls, credentials, work):
    async def run():
        async with served(who, context) as server:
            client = Client(Connection(server, tls, credentials), clock=HastyClock(), jitter=lambda: 1.0)
            async with client:
                try:
                    return await work(client)
                except errors.ApiError as error:
                    # What does not pass by itself is not tried again.
                    assert client.clock.slept == []
                    return error

    return asyncio.run(run())


async def my_name(client):
    return (await client.get(THINGS, "a", "x"))["metadata"]["name"]


def test_a_client_certificate_says_who_we_are(authority, tmp_path):
    context = server_context(authority, tmp_path, LOOPBACK)
    credentials = Credentials(Fixed(Secret("", authority.pair("alice"))))
    assert secure(context, Tls(authority.pem), credentials, my_name) == "alice"
    assert secure(context, Tls(authority.pem), Credentials(Fixed(Secret())), my_name) == "nobody"


def test_a_renewed_certificate_is_shown_on_new_connections(authority, tmp_path):
    context = server_context(authority, tmp_path, LOOPBACK)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def write(name):
        pair = authority.pair(name)
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)

    write("before")

    class Jumping(SystemClock):
        ahead_s = 0.0

        def now_s(self):
            return super().now_s() + self.ahead_s

    clock = Jumping()

    async def work(client):
        names = [await my_name(client)]
        write("after")
        names.append(await my_name(client))
        clock.ahead_s = 61.0
        names.append(await my_name(client))
        # A file that is just being written is not used: the last pair that worked is.
        key.write_bytes(b"half")
        clock.ahead_s = 122.0
        names.append(await my_name(client))
        return names

    credentials = Credentials(Files(clock, pair=(certificate, key)))
    assert secure(context, Tls(authority.pem), credentials, work) == ["before", "before", "after", "after"]


@pytest.mark.parametrize(
    ("tls", "trusted"),
    [
        (lambda authority: Tls(authority.pem), False),
        (lambda authority: Tls(authority.pem, server_name="api.example"), True),
        (lambda authority: Tls(Authority().pem, server_name="api.example"), False),
        (lambda authority: Tls(insecure=True), True),
        (lambda authority: Tls(), False),
    ],
    ids=["another name", "tls-server-name", "another authority", "insecure", "system authorities"],
)
def test_the_server_must_prove_its_name(authority, tmp_path, tls, trusted):
    context = server_context(authority, tmp_path, x509.DNSName("api.example"))
    found = secure(context, tls(authority), Credentials(Fixed(Secret())), my_name)
    if trusted:
        assert found == "nobody"
    else:
        assert isinstance(found, errors.Unreachable)
        assert "not trusted" in found.message
        assert not found.sent
        assert found.lasting


def test_a_renewed_authority_is_read_again(authority, tmp_path):
    context = server_context(authority, tmp_path, LOOPBACK)
    file = tmp_path / "ca.crt"
    file.write_bytes(Authority().pem)

    async def work(client):
        with pytest.raises(errors.Unreachable):
            await my_name(client)
        file.write_bytes(authority.pem)
        return await my_name(client)

    assert secure(context, Tls(authorities_file=file), Credentials(Fixed(Secret())), work) == "nobody"


def test_an_authority_that_went_away_is_an_error_of_the_request(authority, tmp_path):
    context = server_context(authority, tmp_path, LOOPBACK)
    error = secure(context, Tls(authorities_file=tmp_path / "none"), Credentials(Fixed(Secret())), my_name)
    assert isinstance(error, errors.Unreachable)
    assert str(tmp_path / "none") in error.message


def test_a_refused_certificate_tells_until_when_it_was_valid(authority):
    credentials = Credentials(Fixed(Secret("", authority.pair("alice", days=-1))), origin="user alice")

    async def run():
        async with served(_refused) as server:
            client = Client(Connection(server, None, credentials), clock=HastyClock())
            async with client:
                with pytest.raises(errors.Unauthorized) as raised:
                    await client.get(THINGS, "a", "x")
                return raised.value.hint

    hint = asyncio.run(run())
    assert hint.startswith("user alice: the client certificate is valid until 20")


async def _refused(request):
    return web.json_response({"message": "Unauthorized"}, status=401)


def test_a_server_that_does_not_even_begin_a_stream_is_given_up(monkeypatch):
    """Found by the simulation: for a minute and a half nobody was heard, because one opening of a watch was lost."""
    monkeypatch.setattr("muster.kube.transport.OPEN_S", 0.05)

    async def handler(request):
        if "watch" in request.query:
            await asyncio.sleep(30)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})

    async def work(client):
        async with aclosing(watch(client, THINGS)) as changes:
            return [await anext(changes), await anext(changes)]

    listed, restarted = talking(handler, work)
    assert isinstance(listed, Listed)
    assert restarted.cause == "unreachable"
