"""Who may ask the page anything: the name it was called by, where the question comes from, and whose token it brings.

A name that leads to this machine can be anybody's (DNS rebinding), so only known names are answered. What another site
asks in somebody's browser is refused by its Origin, and could not know the token.
"""

import hmac
import ipaddress
import secrets
from collections.abc import Collection, Mapping
from typing import Protocol

from aiohttp import web

from muster.serve.views.seeing import EVERYTHING, Rights

METHODS = ("GET", "HEAD", "POST")
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_LONGEST_TOKEN = 16 * 1024


class Refused(Exception):
    """A request is refused, in words."""

    def __init__(self, status: int, message: str, hint: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.hint, self.headers = status, message, hint, dict(headers or {})


class Callers(Protocol):
    """Knows who comes with a token. `mode` says which sign-in the page shows: `token` or `cluster`."""

    mode: str

    async def rights(self, token: str, namespaces: Collection[str], first: Collection[str] = ()) -> Rights | None:
        """What the one with this token may see, as far as these namespaces go; None: nobody knows the token.

        When they are too many, those of `first` are asked about, and some of the rest. Raises ApiError when whoever
        knows can't be asked.
        """
        ...


class OneToken:
    """Whoever has the token of this process may see everything that it sees."""

    mode = "token"

    def __init__(self, token: str = "") -> None:
        self.token = token or secrets.token_urlsafe(24)

    async def rights(self, token: str, namespaces: Collection[str], first: Collection[str] = ()) -> Rights | None:
        """Everything or nothing."""
        given, own = (text.encode("utf-8", "surrogateescape") for text in (token, self.token))
        return EVERYTHING if hmac.compare_digest(given, own) else None


class Names:
    """The names that the page answers to.

    `port` is that which is listened on; None: any, because somebody forwards a port of theirs.
    """

    def __init__(self, hosts: Collection[str] = (), *, listens: str = "", port: int | None = None) -> None:
        own = [*LOOPBACK, *([bracketed(listens)] if _is_address(listens) else [])]
        self._own, self._port = frozenset(own), port
        self._hosts = frozenset(host.lower() for host in hosts)

    def knows(self, host: str) -> bool:
        """Whether a Host header names us."""
        name, port = _split(host.lower())
        if name in self._hosts or host.lower() in self._hosts:
            return True
        return name in self._own and (self._port is None or (port or "80") == str(self._port))

    def refusal(self, request: web.Request) -> str:
        """Why a request is not for us; empty when it is."""
        host = request.headers.get("Host", "")
        if len(request.headers.getall("Host", [])) != 1 or not self.knows(host):
            return "the page does not go by that name"
        origin = request.headers.get("Origin")
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            return "the request comes from another site"
        site = request.headers.get("Sec-Fetch-Site", "none")
        if request.path.startswith("/api/") and site not in ("none", "same-origin"):
            return "the request comes from another site"
        return ""


def token_of(request: web.Request) -> str:
    """The token that a request brings; empty when it brings none."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and len(token) <= _LONGEST_TOKEN else ""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host.strip("[]")).is_loopback


def bracketed(host: str) -> str:
    """An address as it stands in a URL."""
    return f"[{host.strip('[]')}]" if ":" in host else host


def _is_address(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


def _split(host: str) -> tuple[str, str]:
    """Name and port of a Host header; an IPv6 address is in brackets."""
    name, colon, port = host.rpartition(":")
    return (name, port) if colon and not host.endswith("]") else (host, "")
