"""Certificates: what is issued, who trusts whom, and a rotation that nobody who is connected notices."""

import asyncio
import io
import os
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from muster.serve.server import listening
from muster.serve.webhook.certificates import (
    MOST_AUTHORITIES,
    Authority,
    FromFiles,
    SelfSigned,
    Served,
    authorities_in,
    keep_fresh,
    merged_bundle,
    read_pair,
    service_names,
)
from muster.telemetry import Log, Metrics
from unit.serve.serving import START, SetClock, lines_of

DAY = timedelta(days=1)
NAMES = ["127.0.0.1", "localhost", *service_names("muster", "muster-system")]


def certificate_of(pair):
    return x509.load_pem_x509_certificate(pair.chain)


@asynccontextmanager
async def tls_server(served: Served):
    """Says over TLS which connection this is."""

    async def hello(request):
        return web.Response(text=str(request.transport.get_extra_info("peername")))

    app = web.Application()
    app.router.add_get("/", hello)
    async with listening(app, "127.0.0.1", 0, Log(io.StringIO()), served.context) as port:
        yield port


async def serial_seen_on(port: int, bundle: bytes) -> int:
    """The serial number that a new connection is shown, if it trusts what it sees."""
    context = ssl.create_default_context(cadata=bundle.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="127.0.0.1")
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return x509.load_der_x509_certificate(found).serial_number


def test_what_is_issued():
    """P-256, all names and addresses, for servers only, by an authority that signs servers only."""
    authority = Authority("pod-1", START)
    found = certificate_of(authority.issue([*NAMES, "fd00::1"], START))
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "muster.muster-system.svc" in names.get_values_for_type(x509.DNSName)
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "fd00::1"]
    assert isinstance(found.public_key(), ec.EllipticCurvePublicKey)
    assert isinstance(found.public_key().curve, ec.SECP256R1)
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    above = x509.load_pem_x509_certificate(authority.pem)
    found.verify_directly_issued_by(above)
    assert above.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert b"PRIVATE" not in authority.pem
    assert found.not_valid_before_utc < START, "a clock that is a little behind takes it too"


def test_a_certificate_does_not_outlive_its_authority():
    authority = Authority("pod-1", START, 10 * DAY)
    assert authority.issue(NAMES, START + 9 * DAY).not_after == START + 10 * DAY


def test_renewed_at_two_thirds():
    """Not before, and then at once; the authority stays."""
    source = SelfSigned(NAMES, "pod-1", certificate_lives=30 * DAY)
    first = source.pair(START)
    assert source.pair(START + 19.9 * DAY) is first
    second = source.pair(START + 20 * DAY)
    assert certificate_of(second).serial_number != certificate_of(first).serial_number
    assert len(source.authorities(START + 20 * DAY)) == 1


def test_a_new_authority_signs_when_it_is_known():
    """At two thirds of its life a second one is announced; it signs when the bundle has it, and not before."""
    source = SelfSigned(NAMES, "pod-1", authority_lives=90 * DAY, certificate_lives=9 * DAY)
    (old,) = source.authorities(START)
    at = START + 61 * DAY
    both = source.authorities(at)
    assert both[0] == old
    assert len(both) == 2
    source.seen(old, at)
    certificate_of(source.pair(at)).verify_directly_issued_by(x509.load_pem_x509_certificate(old))
    source.seen(b"".join(both), at)
    certificate_of(source.pair(at)).verify_directly_issued_by(x509.load_pem_x509_certificate(both[1]))
    assert source.authorities(at) == [both[1]]
    assert source.problem == ""


def test_an_authority_that_ended_is_replaced_even_unseen():
    """A machine that slept for a year: nothing is trusted any more, so waiting would help nobody."""
    source = SelfSigned(NAMES, "pod-1")
    (old,) = source.authorities(START)
    source.seen(old, START)
    at = START + 400 * DAY
    assert source.pair(at).not_after > at
    assert "caBundle" in source.problem


def test_a_replica_is_ready_when_its_authority_is_known():
    source = SelfSigned(NAMES, "pod-1")
    served = Served(source, START)
    assert "not in the caBundle" in served.problem(START)
    source.seen(b"garbage", START)
    assert "not in the caBundle" in served.problem(START)
    source.seen(merged_bundle(b"", source.authorities(START), START), START)
    assert served.problem(START) == ""


# The bundle.


def test_replicas_find_their_place_beside_each_other():
    """Whoever writes last loses nobody, and when all are there nothing is written any more."""
    a, b = Authority("a", START), Authority("b", START)
    bundle = merged_bundle(b"", [a.pem], START)
    bundle = merged_bundle(bundle, [b.pem], START)
    assert {one.serial_number for one in authorities_in(bundle)} == {
        x509.load_pem_x509_certificate(one.pem).serial_number for one in (a, b)
    }
    assert merged_bundle(bundle, [a.pem], START) is bundle
    assert merged_bundle(bundle, [b.pem], START) is bundle


def test_what_ended_goes_and_what_is_not_ours_stays():
    over = Authority("gone", START - 20 * DAY, 10 * DAY)
    source_ca = _foreign()
    ours = Authority("a", START)
    bundle = merged_bundle(over.pem + source_ca, [ours.pem], START)
    assert authorities_in(bundle) == authorities_in(source_ca) + authorities_in(ours.pem)
    assert merged_bundle(b"no certificate at all", [ours.pem], START) == ours.pem


def test_a_bundle_does_not_grow_for_ever():
    """A replica that starts over and over pushes out its dead, and each living one puts itself back."""
    living = Authority("living", START)
    bundle = living.pem
    for minute in range(40):
        now = START + timedelta(minutes=minute + 1)
        bundle = merged_bundle(bundle, [Authority("restarts", now).pem], now)
        bundle = merged_bundle(bundle, [living.pem], now)
        found = authorities_in(bundle)
        assert len(found) <= MOST_AUTHORITIES
        assert x509.load_pem_x509_certificate(living.pem) in found
        newest = max(found, key=lambda one: one.not_valid_before_utc)
        assert newest.not_valid_before_utc == now - timedelta(hours=1)


def test_a_replica_that_starts_over_and_over_pushes_out_nobody_who_is_well():
    """Its own dead go first: until a living one looked again, API servers would not trust it."""
    living = [Authority(f"living-{number}", START) for number in range(4)]
    bundle = b"".join(one.pem for one in living)
    for minute in range(40):
        now = START + timedelta(minutes=minute + 1)
        bundle = merged_bundle(bundle, [Authority("restarts", now).pem], now)
        assert {one.serial_number for one in authorities_in(bundle)} >= {
            x509.load_pem_x509_certificate(one.pem).serial_number for one in living
        }
        assert len(authorities_in(bundle)) <= MOST_AUTHORITIES
    # And when many of other names look at it.
    bundle = merged_bundle(bundle, [Authority("new", START + DAY).pem], START + DAY)
    assert {x509.load_pem_x509_certificate(one.pem) for one in living} <= set(authorities_in(bundle))


def _foreign() -> bytes:
    """An authority that somebody else put there."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "corporate")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(7).not_valid_before(START).not_valid_after(START + 365 * DAY)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


# Files.


def write(folder, pair, *, key=True):
    (folder / "tls.crt").write_bytes(pair.chain)
    if key:
        (folder / "tls.key").write_bytes(pair.key)


def test_files_are_read_again_when_they_change(tmp_path):
    authority = Authority("a", START)
    first, second = (authority.issue(NAMES, START) for _ in range(2))
    source = FromFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    assert source.pair(START) is None
    assert "tls.crt can't be read: No such file" in source.problem
    write(tmp_path, first)
    assert source.pair(START).key == first.key
    assert source.problem == ""
    assert source.pair(START) is source.pair(START)
    write(tmp_path, second)
    assert source.pair(START).key == second.key


@pytest.mark.parametrize("half", ["certificate", "nothing", "garbage", "torn", "gone"])
def test_half_a_pair_is_not_used(tmp_path, half):
    """The one before goes on, it is told, and the whole one is taken when it comes."""
    authority = Authority("a", START)
    first, second = (authority.issue(NAMES, START) for _ in range(2))
    write(tmp_path, first)
    source = FromFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    served = Served(source, START)
    key = tmp_path / "tls.key"
    {
        "certificate": lambda: write(tmp_path, second, key=False),
        "nothing": lambda: key.write_bytes(b""),
        "garbage": lambda: key.write_bytes(b"\x00" * 2_000_000),
        "torn": lambda: (tmp_path / "tls.crt").write_bytes(second.chain[:200]),
        "gone": key.unlink,
    }[half]()
    assert served.refresh(START) is False
    assert served.pair.key == first.key
    assert "tls." in served.problem(START)
    write(tmp_path, second)
    assert served.refresh(START) is True
    assert (served.pair.key, served.problem(START)) == (second.key, "")


def test_the_symbolic_links_of_a_mounted_secret(tmp_path):
    """The kubelet swaps one link, and both files change at once."""
    authority = Authority("a", START)
    pairs = [authority.issue(NAMES, START) for _ in range(2)]
    for at, pair in enumerate(pairs):
        (tmp_path / f"v{at}").mkdir()
        write(tmp_path / f"v{at}", pair)
    (tmp_path / "data").symlink_to("v0")
    source = FromFiles(tmp_path / "data" / "tls.crt", tmp_path / "data" / "tls.key")
    assert source.pair(START).key == pairs[0].key
    (tmp_path / "next").symlink_to("v1")
    os.replace(tmp_path / "next", tmp_path / "data")
    assert source.pair(START).key == pairs[1].key


def test_a_certificate_that_ended_is_told(tmp_path):
    write(tmp_path, Authority("a", START).issue(NAMES, START))
    source = FromFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    served = Served(source, START)
    assert "ended at 2026-01-31T00:00:00Z" in served.problem(START + 31 * DAY)


def test_a_key_with_a_password_is_told_and_never_asked_for():
    pair = Authority("a", START).issue(NAMES, START)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key = serialization.load_pem_private_key(pair.key, None)
    locked = key.private_bytes(*form, serialization.BestAvailableEncryption(b"x"))
    with pytest.raises(ValueError, match="without a password"):
        read_pair(pair.chain, locked)


def test_keys_are_not_printed():
    assert "PRIVATE" not in repr(Authority("a", START).issue(NAMES, START))


# Live.


def test_rotation_under_live_connections():
    """Open connections go on, new ones see the new certificate, and there is no moment without one."""

    async def run():
        now = datetime.now(UTC)
        source = SelfSigned(NAMES, "pod-1")
        served = Served(source, now)
        bundle = b"".join(source.authorities(now))
        async with tls_server(served) as port:
            before = await serial_seen_on(port, bundle)
            context = ssl.create_default_context(cadata=bundle.decode())
            connector = aiohttp.TCPConnector(ssl=context, limit=1)
            async with aiohttp.ClientSession(connector=connector) as session:
                answers, stop, ports = [], asyncio.Event(), set()

                async def ask():
                    while not stop.is_set():
                        async with session.get(f"https://127.0.0.1:{port}/") as answer:
                            answers.append(answer.status)
                            ports.add(await answer.text())

                asking = asyncio.create_task(ask())
                serials = set()
                for _ in range(10):
                    await asyncio.sleep(0.01)
                    source._pair = None
                    assert served.refresh(now)
                    serials.add(await serial_seen_on(port, bundle))
                stop.set()
                await asking
        return before, serials, answers, ports

    before, serials, answers, ports = asyncio.run(run())
    assert len(serials) == 10
    assert before not in serials
    assert set(answers) == {200}
    assert len(answers) > 10
    assert len(ports) == 1, "the connection of before was used all the time"


def test_a_new_authority_reaches_who_reads_the_bundle():
    """Through a change of authority, whoever trusts the bundle of the moment gets in at every step."""

    async def run():
        now = datetime.now(UTC)
        # Its life began long ago as far as the source knows; TLS itself looks at the real clock.
        source = SelfSigned(NAMES, "pod-1", authority_lives=90 * DAY, certificate_lives=80 * DAY)
        served = Served(source, now - 61 * DAY)
        bundle = merged_bundle(b"", source.authorities(now - 61 * DAY), now)
        source.seen(bundle, now - 61 * DAY)
        async with tls_server(served) as port:
            seen = [await serial_seen_on(port, bundle)]
            bundle = merged_bundle(bundle, source.authorities(now), now)
            assert len(authorities_in(bundle)) == 2
            served.refresh(now)
            seen.append(await serial_seen_on(port, bundle))
            source.seen(bundle, now)
            served.refresh(now)
            seen.append(await serial_seen_on(port, bundle))
            with pytest.raises(ssl.SSLCertVerificationError):
                await serial_seen_on(port, Authority("other", now).pem)
        return seen

    seen = asyncio.run(run())
    assert len(set(seen)) == 3


def test_it_is_looked_after_for_ever():
    """A change and a problem are told once each; the metric says when it ends."""

    class Stops(Exception):
        pass

    class Clock(SetClock):
        async def sleep(self, seconds):
            await super().sleep(seconds)
            if self.at_s > 25 * 86_400:
                raise Stops

    clock, stream, metrics, renewed = Clock(), io.StringIO(), Metrics(), []
    source = SelfSigned(NAMES, "pod-1")
    served = Served(source, clock.wall())
    keeping = keep_fresh(
        served, clock, Log(stream), metrics, every_s=3_600, renewed=lambda: renewed.append(clock.wall())
    )
    with pytest.raises(Stops):
        asyncio.run(keeping)
    assert renewed == [START + 20 * DAY]
    words = [one["message"] for one in lines_of(stream)]
    assert words == ["the serving certificate needs attention", "a new serving certificate is in use"]
    expiry = metrics.registry.get_sample_value("muster_webhook_certificate_expiry_timestamp_seconds")
    assert expiry == (START + 50 * DAY).timestamp()
