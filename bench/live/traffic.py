"""What this process does on the wire: it makes objects with many clients, and sees binds on a watch, cheaply."""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import msgspec

from bench.live.objects import NAMESPACE, Thing

CLIENTS = 32
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
# The API server shows just the pods that have a node: the first sight of one is its bind.
_BOUND = {"fieldSelector": "spec.nodeName!=", "watch": "true"}


class _Metadata(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str = ""
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _Spec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    node_name: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel", gc=False):
    phase: str = ""


class _Object(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Event(msgspec.Struct, frozen=True, rename="camel", gc=False):
    type: str = ""
    object: _Object = _Object()


class _List(msgspec.Struct, frozen=True, rename="camel", gc=False):
    metadata: _Metadata = _Metadata()
    items: list[_Object] = []


_EVENT, _LIST = msgspec.json.Decoder(_Event), msgspec.json.Decoder(_List)


class Broken(Exception):
    """The API server did not do what a measurement needs; the message is what it said."""


class Traffic:
    """Requests to one API server as the admin, who is never throttled. Use it as a context."""

    def __init__(self, url: str, ca: Path, certificate: tuple[Path, Path]) -> None:
        self._url = url
        tls = ssl.create_default_context(cafile=str(ca))
        tls.load_cert_chain(*certificate)
        self._session = aiohttp.ClientSession(
            url,
            connector=aiohttp.TCPConnector(ssl=tls, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=300),
            read_bufsize=2**18,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def create(self, thing: Thing) -> None:
        """One object."""
        body = msgspec.json.encode(thing.document)
        headers = {"Content-Type": "application/json"}
        async with self._session.post(thing.path, data=body, headers=headers) as answer:
            said = await answer.read()
        if answer.status != 201:
            raise Broken(f"POST {thing.path}: {answer.status} {said[:300].decode(errors='replace')}")

    async def create_all(self, things: Iterable[Thing], clients: int = CLIENTS) -> None:
        """All of them, as fast as that many clients can."""
        await self.each([[thing] for thing in things], clients)

    async def each(self, batches: Iterable[Sequence[Thing]], clients: int = CLIENTS) -> None:
        """Every batch by one client, its objects in order."""
        left = iter(batches)

        async def client() -> None:
            for batch in left:
                for thing in batch:
                    await self.create(thing)

        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(clients):
                    tasks.create_task(client())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def listed(self, path: str, **params: str) -> list[_Object]:
        """All objects of a collection: name, node, phase."""
        found: list[_Object] = []
        token = ""
        while True:
            asked = {**params, "limit": "2000", **({"continue": token} if token else {})}
            async with self._session.get(path, params=asked) as answer:
                said = await answer.read()
            if answer.status != 200:
                raise Broken(f"GET {path}: {answer.status} {said[:300].decode(errors='replace')}")
            page = _LIST.decode(said)
            found += page.items
            token = page.metadata.continue_token
            if not token:
                return found

    async def nodes_of(self) -> dict[str, str]:
        """Where each pod is; empty: nowhere."""
        return {one.metadata.name: one.spec.node_name for one in await self.listed(_PODS)}

    async def version(self) -> str:
        """The version to watch from: what is there now is old."""
        async with self._session.get(_PODS, params={"limit": "1"}) as answer:
            return str(_LIST.decode(await answer.read()).metadata.resource_version)

    async def watch(self, version: str, seen: Callable[[str, str], None]) -> None:
        """Tells of every pod that has a node since `version`, until it is cancelled.

        Under load the API server ends watches as it likes; they go on from where they stopped.
        """
        while True:
            params = {**_BOUND, "resourceVersion": version, "timeoutSeconds": "3600"}
            try:
                async with self._session.get(_PODS, params=params) as answer:
                    if answer.status != 200:
                        raise Broken(f"watching pods: {answer.status} {(await answer.read())[:300]!r}")
                    version = await self._follow(answer, version, seen)
            except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError):
                continue

    async def _follow(self, answer: aiohttp.ClientResponse, version: str, seen: Callable[[str, str], None]) -> str:
        rest = b""
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = _EVENT.decode(line)
                if event.type == "ERROR":
                    raise Broken(f"watching pods: {line[:300].decode(errors='replace')}")
                version = event.object.metadata.resource_version
                seen(event.object.metadata.name, event.object.spec.node_name)
        return version


class Binds:
    """The binds that were seen, each with the moment (time.monotonic) of its first sight."""

    def __init__(self) -> None:
        self.at_s: dict[str, float] = {}
        self._changed = asyncio.Event()

    def see(self, pod: str, node: str) -> None:
        """A pod with a node came by."""
        if node and pod not in self.at_s:
            self.at_s[pod] = time.monotonic()
            self._changed.set()

    async def wait(self, done: Callable[[], bool], within_s: float, alive: Callable[[], bool]) -> bool:
        """Until it is so. False: it is not, and nothing was bound for `within_s`, or nobody is alive who could."""
        last_s = time.monotonic()
        while not done():
            self._changed.clear()
            try:
                async with asyncio.timeout(1.0):
                    await self._changed.wait()
                last_s = time.monotonic()
            except TimeoutError:
                if time.monotonic() - last_s > within_s or not alive():
                    return done()
        return True
