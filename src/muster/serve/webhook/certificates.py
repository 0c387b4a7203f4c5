"""Serving certificates: made here and renewed at two thirds of their life, or read from files and read again.

Every replica is its own authority. Its keys are made in memory and never leave it; the certificate of the authority, no
secret, is added to the `caBundle` of the webhook configuration beside those of the other replicas. So no right on any
Secret is needed, and replicas have nothing to agree on: just one right, to patch one webhook configuration by name.
"""

import datetime
import ipaddress
import os
import ssl
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster.kube.clock import Clock
from muster.telemetry import Log, Metrics

# What our authorities are called, so that they are found again in a bundle.
ORGANIZATION = "muster-webhook"
AUTHORITY_LIVES, CERTIFICATE_LIVES = timedelta(days=365), timedelta(days=30)
# Clocks differ: a certificate is valid from a little before it was made.
SKEW = timedelta(hours=1)
# Replicas, those that ended lately, and new authorities of both. Each sees to it that its own is there.
MOST_AUTHORITIES, _MOST_OF_ONE = 16, 2
MAX_FILE_BYTES = 1024 * 1024


class Pair(NamedTuple):
    """A serving certificate (with those above it) and its key, as PEM, and when it ends."""

    chain: bytes
    key: bytes
    not_before: datetime.datetime
    not_after: datetime.datetime

    def is_due(self, now: datetime.datetime) -> bool:
        """Whether two thirds of its life are over."""
        return now >= self.not_before + (self.not_after - self.not_before) * 2 / 3

    def __repr__(self) -> str:
        return f"Pair(until {self.not_after})"


class Authority:
    """A self-signed authority (ECDSA P-256) whose key is in memory only."""

    def __init__(self, replica: str, now: datetime.datetime, lives: timedelta = AUTHORITY_LIVES) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
                x509.NameAttribute(NameOID.COMMON_NAME, (replica or "muster")[:64]),
            ]
        )
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        made = _builder(self._name, self._name, self._key, now, now + lives)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        made = made.add_extension(usage, critical=True)
        key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self._certificate = made.add_extension(key_id, critical=False).sign(self._key, hashes.SHA256())
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)
        self.not_before, self.not_after = now, now + lives

    def is_due(self, now: datetime.datetime) -> bool:
        """Whether two thirds of its life are over."""
        return now >= self.not_before + (self.not_after - self.not_before) * 2 / 3

    def issue(self, names: Sequence[str], now: datetime.datetime, lives: timedelta = CERTIFICATE_LIVES) -> Pair:
        """A serving certificate for DNS names and addresses, with its own key. It ends with its authority."""
        assert names, "a serving certificate needs a name"
        key = ec.generate_private_key(ec.SECP256R1())
        until = min(now + lives, self.not_after)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
        usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
        made = _builder(subject, self._name, key, now, until)
        made = made.add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        made = made.add_extension(usage, critical=True)
        above = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = made.add_extension(above, critical=False).sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), private, now, until)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    until: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(until)
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def service_names(service: str, namespace: str) -> list[str]:
    """The names that the API server may call a Service by; it uses the first."""
    return [f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", f"{service}.{namespace}", service]


# The bundle: a value that the caller reads from, and patches into, the webhook configuration.


def authorities_in(bundle: bytes) -> list[x509.Certificate]:
    """The certificates of a bundle; none when it can't be read."""
    try:
        return x509.load_pem_x509_certificates(bundle) if bundle.strip() else []
    except ValueError:
        return []


def merged_bundle(there: bytes, ours: Sequence[bytes], now: datetime.datetime) -> bytes:
    """What the bundle should be: ours, the other replicas' that are not over, and whatever else somebody put there.

    Equal to `there`, to the byte, when nothing is to be done: two replicas that look at each other come to rest.
    """
    own = {certificate for pem in ours for certificate in x509.load_pem_x509_certificates(pem)}
    known = authorities_in(there)
    foreign = [one for one in known if not _is_replicas(one)]
    replicas = {one for one in known if _is_replicas(one) and one.not_valid_after_utc > now} - own
    kept = {*own, *_likely_alive(replicas, own)[: max(0, MOST_AUTHORITIES - len(own))]}
    if set(known) == {*foreign, *kept} and len(known) == len({*known}):
        return there
    order = sorted(kept, key=_age)
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in [*dict.fromkeys(foreign), *order])


def _likely_alive(replicas: Collection[x509.Certificate], own: Collection[x509.Certificate]) -> list[x509.Certificate]:
    """Those that are most likely in use first. A replica has one authority, or two while it changes; what else has its
    name was left behind when it was started anew. Of different names the older ones are likelier to be over.
    """
    named = Counter(one.subject for one in own)
    current: list[x509.Certificate] = []
    left: list[x509.Certificate] = []
    for one in sorted(replicas, key=_age, reverse=True):
        (current if named[one.subject] < _MOST_OF_ONE else left).append(one)
        named[one.subject] += 1
    return current + left


def _age(certificate: x509.Certificate) -> tuple[datetime.datetime, int]:
    return certificate.not_valid_before_utc, certificate.serial_number


def _is_replicas(certificate: x509.Certificate) -> bool:
    said = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return certificate.subject == certificate.issuer and any(one.value == ORGANIZATION for one in said)


# Where certificates come from.


class Source(Protocol):
    """Gives the pair to serve now, and what is wrong."""

    @property
    def problem(self) -> str:
        """What is wrong, in a sentence; empty when nothing is."""
        ...

    def pair(self, now: datetime.datetime) -> Pair | None:
        """The pair to serve; None when there was none so far."""
        ...


class SelfSigned:
    """Certificates of an own authority. A new authority signs only when it was seen in the bundle, which takes time.

    `authorities` are to be in the bundle; `seen` says what is.
    """

    def __init__(
        self,
        names: Sequence[str],
        replica: str,
        *,
        authority_lives: timedelta = AUTHORITY_LIVES,
        certificate_lives: timedelta = CERTIFICATE_LIVES,
    ) -> None:
        self._names, self._replica = list(names), replica
        self._authority_lives, self._certificate_lives = authority_lives, certificate_lives
        self._authority: Authority | None = None
        self._next: Authority | None = None
        self._pair: Pair | None = None
        self._published = False

    @property
    def problem(self) -> str:
        """A replica whose authority nobody knows is not asked anything yet."""
        return "" if self._published else "its authority is not in the caBundle of the webhook configuration yet"

    def authorities(self, now: datetime.datetime) -> list[bytes]:
        """Those that the bundle must have: the one that signs, and the one that will."""
        self.pair(now)
        return [one.pem for one in (self._authority, self._next) if one is not None]

    def seen(self, bundle: bytes, now: datetime.datetime) -> None:
        """What the API server has as the bundle. Call it some seconds after a change: API servers learn of it late."""
        self.pair(now)
        there = authorities_in(bundle)
        if self._next is not None and x509.load_pem_x509_certificate(self._next.pem) in there:
            self._authority, self._next, self._pair = self._next, None, None
        assert self._authority is not None
        self._published = x509.load_pem_x509_certificate(self._authority.pem) in there

    def pair(self, now: datetime.datetime) -> Pair:
        """The pair to serve, a new one when it is time."""
        if self._authority is None or now >= self._authority.not_after:
            # Nothing is trusted any more, so nothing is lost by not waiting.
            self._authority, self._next = self._next or Authority(self._replica, now, self._authority_lives), None
            self._pair, self._published = None, False
        elif self._authority.is_due(now) and self._next is None:
            self._next = Authority(self._replica, now, self._authority_lives)
        if self._pair is None or self._pair.is_due(now):
            self._pair = self._authority.issue(self._names, now, self._certificate_lives)
        return self._pair


class FromFiles:
    """Certificates that somebody else puts into files, such as cert-manager: read again when they change.

    Half of a pair, or a pair that does not fit together, is not used: the one before goes on.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._paths = certificate, key
        self._read: tuple[tuple[int, ...], ...] | None = None
        self._pair: Pair | None = None
        self._problem = ""

    @property
    def problem(self) -> str:
        """What was wrong when the files were read."""
        return self._problem

    def pair(self, now: datetime.datetime) -> Pair | None:
        """The pair of the last time when the files were right."""
        try:
            state = tuple(_state(path) for path in self._paths)
            if state != self._read or self._problem:
                found = read_pair(*(_content(path) for path in self._paths))
                # They may have changed while we read: then it is looked at again next time.
                self._read = state if state == tuple(_state(path) for path in self._paths) else None
                self._pair, self._problem = found, ""
        except OSError as error:
            self._problem = f"{error.filename or self._paths[0]} can't be read: {error.strerror or error}"
        except ValueError as error:
            self._problem = f"{self._paths[0]} and {self._paths[1]}: {error}; the pair before is used"
        if not self._problem and self._pair is not None and now >= self._pair.not_after:
            self._problem = f"the certificate in {self._paths[0]} ended at {self._pair.not_after:%Y-%m-%dT%H:%M:%SZ}"
        return self._pair


def _state(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"{path.name} has more than {MAX_FILE_BYTES:,} bytes")
    return data


def read_pair(chain: bytes, key: bytes) -> Pair:
    """A certificate and the key that belongs to it. Raises ValueError that says what is wrong."""
    try:
        certificate = x509.load_pem_x509_certificates(chain)[0]
    except ValueError:
        raise ValueError("there is no certificate (PEM)") from None
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("there is no private key (PEM, without a password)") from None
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    if private.public_key().public_bytes(*form) != certificate.public_key().public_bytes(*form):
        raise ValueError("the key is not that of the certificate")
    return Pair(chain, key, certificate.not_valid_before_utc, certificate.not_valid_after_utc)


# Into the running server.


class Served:
    """A TLS context that always has the current pair. Connections that are open keep theirs, new ones get the new."""

    def __init__(self, source: Source, now: datetime.datetime) -> None:
        self.context = _context()
        self._source = source
        self._loaded: Pair | None = None
        self._problem = ""
        self.refresh(now)

    @property
    def pair(self) -> Pair | None:
        """What is served now."""
        return self._loaded

    def problem(self, now: datetime.datetime) -> str:
        """Nothing to serve, served too long, or what the source says."""
        return self.trouble(now) or self._source.problem

    def trouble(self, now: datetime.datetime) -> str:
        """What is wrong with what is served, whatever comes next: nothing is, or it is over, or can't be used."""
        if self._loaded is None:
            return self._source.problem or self._problem or "there is no certificate to serve"
        if now >= self._loaded.not_after:
            return f"the certificate ended at {self._loaded.not_after:%Y-%m-%dT%H:%M:%SZ}"
        return self._problem

    def refresh(self, now: datetime.datetime) -> bool:
        """Takes what the source has. True when something new is served. A pair that TLS refuses is not taken."""
        pair = self._source.pair(now)
        if pair is None or pair == self._loaded:
            return False
        try:
            # On the live context a failure in the middle would leave neither the old nor the new.
            _load(_context(), pair)
            _load(self.context, pair)
        except (ssl.SSLError, OSError) as error:
            self._problem = f"the certificate can't be used: {error}"
            return False
        self._loaded, self._problem = pair, ""
        return True


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    with _as_file(pair.key + b"\n" + pair.chain) as path:
        # Without a callback, OpenSSL would ask the terminal for the password of a key that has one.
        context.load_cert_chain(path, password=lambda: "")


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """TLS takes names of files only. In memory where that is possible: no disk is needed, and no key lies on one."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("muster-certificate", os.MFD_CLOEXEC)
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{number}"
        return
    with tempfile.NamedTemporaryFile() as named:
        named.write(data)
        named.flush()
        yield named.name


async def keep_fresh(
    served: Served,
    clock: Clock,
    log: Log,
    metrics: Metrics,
    *,
    every_s: float = 10.0,
    renewed: Callable[[], None] = lambda: None,
    problem_at: Callable[[datetime.datetime], str] | None = None,
) -> None:
    """Looks after the certificate, for ever. A change and a problem are logged once each.

    `problem_at` says what counts as one; else everything does.
    """
    told = ""
    while True:
        try:
            if served.refresh(clock.wall()) and served.pair is not None:
                log.info("a new serving certificate is in use", until=served.pair.not_after)
                renewed()
            problem = (problem_at or served.problem)(clock.wall())
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if served.pair is not None:
            metrics.certificate_expiry.set(served.pair.not_after.timestamp())
        if problem and problem != told:
            log.warning("the serving certificate needs attention", problem=problem)
        told = problem
        await clock.sleep(every_s)
