"""What we show the API server to say who we are: a token, a client certificate, or both; fixed, from files that
rotate, or from a plugin.
"""

import os
import ssl
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from muster.errors import UsageError
from muster.kube.clock import Clock

# A token of a service account lasts an hour at least; the kubelet renews it well before.
REREAD_S = 60.0
# While files can't be read, or do not belong together because they are just being replaced.
_RETRY_S = 1.0
_MAX_SECRET_BYTES = 1024 * 1024

Headers = Sequence[tuple[str, str]]


class KeyPair(NamedTuple):
    """A client certificate and its key, in PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "KeyPair(…)"


class Secret(NamedTuple):
    """What is shown: a bearer token, a key pair, both or neither. It never prints itself."""

    token: str = ""
    pair: KeyPair | None = None

    def __repr__(self) -> str:
        return "Secret(…)"


class Source(Protocol):
    """Where a secret comes from."""

    async def current(self) -> Secret:
        """The secret of now. Raises UsageError when there is none."""
        ...

    async def renewed(self, refused: Secret) -> bool:
        """The server refused this one: whether there is another by now."""
        ...


class Fixed:
    """A secret that stands in the kubeconfig and never changes."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret

    async def current(self) -> Secret:
        """Always the same."""
        return self._secret

    async def renewed(self, refused: Secret) -> bool:
        """There is no other."""
        return False


class Files:
    """A secret in files that somebody else renews: read again every minute, and when the server refuses it."""

    def __init__(self, clock: Clock, *, token: Path | None = None, pair: tuple[Path, Path] | None = None) -> None:
        self._clock = clock
        self._token = token
        self._pair = pair
        self._secret: Secret | None = None
        self._read_at_s = 0.0

    async def current(self) -> Secret:
        """The secret as it was read at most a minute ago. While a file is away the last one read is used."""
        now_s = self._clock.now_s()
        if self._secret is None or now_s - self._read_at_s >= REREAD_S:
            self._read_at_s = now_s
            try:
                self._secret = self.read()
            except UsageError:
                if self._secret is None:
                    raise
                self._read_at_s += _RETRY_S - REREAD_S
        return self._secret

    async def renewed(self, refused: Secret) -> bool:
        """Reads again now."""
        self._secret = self.read()
        self._read_at_s = self._clock.now_s()
        return self._secret != refused

    def read(self) -> Secret:
        """The secret as it stands in the files now. Raises UsageError."""
        token = ""
        if self._token is not None:
            token = read_secret(self._token, "the token").decode("utf-8", "replace").strip()
            if not token or not token.isascii() or not token.isprintable():
                raise UsageError(f"{self._token}: this is no token", "it must be one line of text")
        pair = None
        if self._pair is not None:
            certificate, key = self._pair
            pair = KeyPair(
                read_secret(certificate, "the client certificate"),
                read_secret(key, "the key of the client certificate"),
            )
            if self._secret is None or self._secret.pair != pair:
                load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), pair)
        return Secret(token, pair)


def read_secret(path: Path, what: str) -> bytes:
    """A small file. Raises UsageError that names it."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_SECRET_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"{path}: can't read {what}: {error.strerror or error}", "mend the path or its rights"
        ) from None
    if len(data) > _MAX_SECRET_BYTES:
        raise UsageError(f"{path}: {what} is larger than {_MAX_SECRET_BYTES:,} bytes", "this must be another file")
    return data


def load_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Makes connections of this context show our certificate. Raises UsageError when the two do not fit.

    Python reads a certificate from a file only. Where there is memory that looks like one, no key meets a disk.
    """
    both = pair.certificate.rstrip() + b"\n" + pair.key
    try:
        if sys.platform == "linux":
            with open(os.memfd_create("muster", os.MFD_CLOEXEC), "wb") as file:
                file.write(both)
                file.flush()
                context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=_no_password)
        else:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "pair.pem"
                path.touch(mode=0o600)
                path.write_bytes(both)
                context.load_cert_chain(path, password=_no_password)
    except (ssl.SSLError, ValueError, OSError) as error:
        what = f"the client certificate and its key can't be used: {error}"
        raise UsageError(what, "both must be PEM, belong together, and the key must have no password") from None


def _no_password() -> str:
    # Else OpenSSL asks on the terminal.
    raise ValueError("the key has a password")


class Credentials:
    """Who we are to one server: a source of secrets, and headers that always go along."""

    def __init__(self, source: Source, headers: Headers = (), *, origin: str = "") -> None:
        self._source = source
        self._headers = tuple(headers)
        # Where they come from, for the sentence that says they were refused.
        self.origin = origin

    async def secret(self) -> Secret:
        """The secret of now. Raises UsageError when it can't be had."""
        return await self._source.current()

    def headers(self, secret: Secret) -> list[tuple[str, str]]:
        """The headers of a request."""
        if not secret.token:
            return list(self._headers)
        return [*self._headers, ("Authorization", f"Bearer {secret.token}")]

    async def renewed(self, refused: Secret) -> bool:
        """The server refused this secret: whether it is worth asking again with the secret of now."""
        return await self._source.renewed(refused)

    def advice(self, secret: Secret) -> str:
        """How to mend that these were refused."""
        expired = _expiry(secret.pair) if secret.pair else ""
        where = self.origin or "the credentials"
        return f"{where}: {expired or 'log in again, or renew them'}"


ANONYMOUS = Credentials(Fixed(Secret()), origin="no credentials were given")


def _expiry(pair: KeyPair) -> str:
    try:
        # Only somebody who was refused needs to know, and the import takes longer than a request.
        from cryptography import x509

        until = x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc
    except (ImportError, ValueError):
        return ""
    return f"the client certificate is valid until {until:%Y-%m-%d %H:%M} UTC; renew it if that is over"
