"""The client: what one can ask of an API server, with limits, timeouts and the rules of what may be asked twice.

A read is repeated when it failed. A write is repeated only when it certainly did nothing: it was never sent, or the
server told us to come later. Any other failure of a write is `unknown`, and only reading back tells.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Literal, NamedTuple, Self

import msgspec

from muster import __version__
from muster.api.model import Metadata
from muster.errors import (
    ApiError,
    BadObject,
    BudgetRefused,
    Call,
    Gone,
    Invalid,
    ServerFault,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    UsageError,
)
from muster.kube.answers import failure
from muster.kube.backoff import Backoff
from muster.kube.clock import Clock, SystemClock
from muster.kube.connection import Connection
from muster.kube.credentials import Secret
from muster.kube.resources import PODS, AnyKind, Unread, metadata_of, read_as, read_or_tell, resource_path
from muster.kube.transport import Answer, HttpTransport, Request, Stream, TooLarge, Transport, Unanswered

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

# How servers in Go and proxies on the way answer a request that is not encrypted.
_WANTS_TLS = (b"sent an HTTP request to an HTTPS server", b"plain HTTP request was sent to HTTPS port")

# What never waits for what: each lane has its own number of requests at a time.
Lane = Literal["read", "write", "bind", "evict", "event", "lease"]
# Told of every answer, for metrics: what was asked, the status (0 is no answer), and the seconds it took.
Observe = Callable[[Call, int, float], None]
# Asked right before anything is written: why it must not be; empty when it may.
Guard = Callable[[Call], Awaitable[str]]


class Limits(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How much at a time in each lane, how long, and how large."""

    reads: int = 16
    writes: int = 16
    binds: int = 32
    evictions: int = 16
    events: int = 4
    leases: int = 2
    read_timeout_s: float = 15.0
    list_timeout_s: float = 60.0
    write_timeout_s: float = 15.0
    bind_timeout_s: float = 10.0
    # How much longer we wait than we ask the server to try.
    grace_s: float = 2.0
    # A server sends a bookmark every minute.
    watch_idle_s: float = 90.0
    attempts: int = 5
    # A longer Retry-After is for the caller to decide about.
    longest_wait_s: float = 30.0
    max_response_bytes: int = 256 * 1024 * 1024
    max_line_bytes: int = 16 * 1024 * 1024


class Listing(NamedTuple):
    """All objects of a list, those that could not be read, and the version of which it is the truth."""

    items: list[Any]
    unread: list[Unread]
    resource_version: str


class _ListMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, frozen=True, kw_only=True):
    metadata: _ListMetadata = _ListMetadata()
    items: list[msgspec.Raw] | None = None


class Client:
    """One API server. Use it as a context; what runs when it closes is cut off."""

    def __init__(
        self,
        connection: Connection,
        *,
        transport: Transport | None = None,
        clock: Clock | None = None,
        limits: Limits | None = None,
        field_manager: str = "muster",
        jitter: Callable[[], float] = random.random,
        observe: Observe | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.connection = connection
        self.clock: Clock = clock or SystemClock()
        self.limits = limits or Limits()
        self.jitter = jitter
        self.field_manager = field_manager
        self.guard = guard
        self.observe: Observe = observe or (lambda call, status, seconds: None)
        self._transport: Transport = transport or HttpTransport(connection)
        self._agent = ("User-Agent", f"muster/{__version__}")
        sizes = self.limits
        self._lanes: dict[Lane, asyncio.Semaphore] = {
            "read": asyncio.Semaphore(sizes.reads),
            "write": asyncio.Semaphore(sizes.writes),
            "bind": asyncio.Semaphore(sizes.binds),
            "evict": asyncio.Semaphore(sizes.evictions),
            "event": asyncio.Semaphore(sizes.events),
            # So that a lease is renewed in time whatever else waits.
            "lease": asyncio.Semaphore(sizes.leases),
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport.close()

    # Reading

    async def get(self, kind: AnyKind, namespace: str, name: str, *, lane: Lane = "read") -> Any:
        """One object, as it is now. Raises NotFound, or BadObject when it can't be read."""
        call = Call("get", kind.plural, namespace, name)
        answer = await self._call(call, "GET", self._path(call, kind), lane=lane)
        return read_as(kind, answer.body)

    async def list(
        self,
        kind: AnyKind,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        consistent: bool = True,
        attempts: int | None = None,
    ) -> Listing:
        """All objects, page by page. `consistent` is the truth of now; else what a cache of the server holds, which
        may be old. When a page comes too late for the server, the list starts again, at last in one piece.
        """
        call = Call("list", kind.plural, namespace)
        params = {"labelSelector": label_selector, "fieldSelector": field_selector}
        if not consistent:
            params["resourceVersion"] = "0"
        params = {key: value for key, value in params.items() if value}
        for size in (limit, limit):
            try:
                return await self._pages(call, kind, params, size, attempts)
            except Gone:
                continue
        return await self._pages(call, kind, params, 0, attempts)

    async def _pages(
        self, call: Call, kind: AnyKind, params: dict[str, str], limit: int, attempts: int | None
    ) -> Listing:
        listing = Listing([], [], "")
        token = ""
        while True:
            asked = {**params, **({"limit": str(limit)} if limit else {}), **({"continue": token} if token else {})}
            if token:
                # The token says of which version the list is.
                asked.pop("resourceVersion", None)
            timeout_s = self.limits.list_timeout_s
            path = self._path(call, kind)
            answer = await self._call(call, "GET", path, params=asked, timeout_s=timeout_s, attempts=attempts)
            page = _read_page(call, answer)
            for raw in page.items or ():
                found = read_or_tell(kind, raw)
                (listing.unread if isinstance(found, Unread) else listing.items).append(found)
            if page.metadata.continue_token in ("", token):
                return listing._replace(resource_version=page.metadata.resource_version)
            token = page.metadata.continue_token

    async def get_path(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """What stands at any path, such as /version or /apis."""
        return (await self._call(Call("get", path), "GET", path, params=params or {})).body

    async def review(self, kind: AnyKind, body: Any) -> Any:
        """The answer to a question that is a POST and changes nothing, such as a SubjectAccessReview."""
        call = Call("create", kind.plural)
        answer = await self._call(call, "POST", self._path(call, kind), body=msgspec.json.encode(body))
        return read_as(kind, answer.body)

    async def rehearse(self, kind: AnyKind, namespace: str, body: Any) -> None:
        """What the server would say to a create, admission included; nothing is made. Raises what it says."""
        call = Call("create", kind.plural, namespace)
        data, params = msgspec.json.encode(body), {"dryRun": "All"}
        await self._call(call, "POST", self._path(call, kind), params=params, body=data, attempts=1)

    @asynccontextmanager
    async def open_watch(self, kind: AnyKind, namespace: str, params: Mapping[str, str]) -> AsyncIterator[Stream]:
        """The stream of a watch. Raises what a read raises; is never repeated and has no lane."""
        call = Call("watch", kind.plural, namespace)
        path = self._path(call, kind)
        for renewed in (False, True):
            secret = await self._secret(call)
            request = self._request("GET", path, {**params, "watch": "true"}, None, "", secret)
            began_s = self.clock.now_s()
            try:
                async with self._transport.stream(request, self.limits.watch_idle_s) as stream:
                    self.observe(call, stream.status, self.clock.now_s() - began_s)
                    if stream.status == 200:
                        yield stream
                        return
                    answer = Answer(stream.status, stream.headers, await _beginning(stream))
            except (Unanswered, UsageError) as error:
                self.observe(call, 0, self.clock.now_s() - began_s)
                raise _unreachable(call, error) from None
            refused = self._refused(call, answer)
            if renewed or not await self._renewed(refused, secret):
                raise refused

    # Writing

    async def create(self, kind: AnyKind, namespace: str, body: Any, *, lane: Lane = "write") -> Metadata:
        """Makes an object. Raises AlreadyExists."""
        call = Call("create", kind.plural, namespace, write=True)
        return await self._write(call, "POST", self._path(call, kind), body, lane=lane)

    async def patch(
        self,
        kind: AnyKind,
        namespace: str,
        name: str,
        body: Any,
        *,
        content: str = MERGE,
        subresource: str = "",
        lane: Lane = "write",
    ) -> Metadata:
        """Changes the fields that are named. With metadata.resourceVersion in it, only that version (else Conflict)."""
        call = Call("patch", _with(kind.plural, subresource), namespace, name, write=True)
        return await self._write(call, "PATCH", self._path(call, kind), body, content=content, lane=lane)

    async def patched(
        self, kind: AnyKind, namespace: str, name: str, body: Any, *, content: str = MERGE, subresource: str = ""
    ) -> Any:
        """As `patch`, and gives the object as it is now; None when it can't be read."""
        call = Call("patch", _with(kind.plural, subresource), namespace, name, write=True)
        answer = await self._answer(call, "PATCH", self._path(call, kind), body, content=content)
        with suppress(BadObject):
            return read_as(kind, answer.body)
        return None

    async def apply(
        self, kind: AnyKind, namespace: str, name: str, body: Any, *, subresource: str = "", force: bool = False
    ) -> Metadata:
        """Server-side apply: these fields are ours and have these values; ours that are not named go.

        A field of somebody else's is a Conflict, unless `force` takes it.
        """
        call = Call("patch", _with(kind.plural, subresource), namespace, name, write=True)
        params = {"force": "true" if force else "false"}
        return await self._write(call, "PATCH", self._path(call, kind), body, content=APPLY, params=params)

    async def delete(
        self,
        kind: AnyKind,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        version: str = "",
        grace_s: int | None = None,
        lane: Lane = "write",
    ) -> None:
        """Deletes the object with this UID, in this version if one is named. Another one of that name is a Conflict."""
        call = Call("delete", kind.plural, namespace, name, write=True)
        options = _delete_options(uid, grace_s, dry_run=False)
        if version:
            options["preconditions"] = {**options.get("preconditions", {}), "resourceVersion": version}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        await self._write(call, "DELETE", self._path(call, kind), body, lane=lane)

    async def bind(
        self,
        namespace: str,
        pod: str,
        uid: str,
        node: str,
        *,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Sends the pod with this UID to a node. Bound already, or another pod by now: Conflict.

        The server does not look whether there is such a node.
        """
        call = Call("create", "pods/binding", namespace, pod, write=True)
        metadata: dict[str, Any] = {"name": pod, "namespace": namespace, "uid": uid}
        if annotations:
            metadata["annotations"] = annotations
        if labels:
            metadata["labels"] = labels
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        timeout_s = self.limits.bind_timeout_s
        await self._write(call, "POST", self._path(call, PODS), body, lane="bind", timeout_s=timeout_s)

    async def evict(
        self, namespace: str, pod: str, uid: str, *, grace_s: int | None = None, dry_run: bool = False
    ) -> None:
        """Evicts the pod with this UID. BudgetRefused when a PodDisruptionBudget does not allow it now."""
        call = Call("create", "pods/eviction", namespace, pod, write=True)
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": _delete_options(uid, grace_s, dry_run=dry_run),
        }
        params = {"dryRun": "All"} if dry_run else {}
        await self._write(call, "POST", self._path(call, PODS), body, lane="evict", params=params)

    # One request

    async def _write(self, call: Call, method: str, path: str, body: Any, **how: Any) -> Metadata:
        return metadata_of((await self._answer(call, method, path, body, **how)).body)

    async def _answer(
        self,
        call: Call,
        method: str,
        path: str,
        body: Any,
        *,
        content: str = JSON,
        lane: Lane = "write",
        params: Mapping[str, str] | None = None,
        timeout_s: float = 0.0,
    ) -> Answer:
        timeout_s = timeout_s or self.limits.write_timeout_s
        # The server gives up before we do: what has no answer by then does not happen any later.
        asked = {"fieldManager": self.field_manager, "timeout": f"{timeout_s:g}s", **(params or {})}
        if method == "DELETE":
            del asked["fieldManager"]
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self._call(
            call,
            method,
            path,
            params=asked,
            body=data,
            content=content,
            lane=lane,
            timeout_s=timeout_s + self.limits.grace_s,
        )

    async def _call(
        self,
        call: Call,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content: str = "",
        lane: Lane = "read",
        timeout_s: float = 0.0,
        attempts: int | None = None,
    ) -> Answer:
        """The answer, or an ApiError. A failed attempt keeps its place in the lane while it waits: a server that is
        too busy gets less to do.
        """
        backoff = Backoff(self.jitter)
        attempts = attempts or self.limits.attempts
        renewed = False
        async with self._lanes[lane]:
            while True:
                secret = await self._secret(call)
                request = self._request(method, path, params or {}, body, content, secret)
                try:
                    return await self._once(call, request, timeout_s or self.limits.read_timeout_s)
                except Unauthorized as error:
                    if renewed or not await self._renewed(error, secret):
                        raise
                    renewed = True
                except ApiError as error:
                    if not _worth_repeating(error) or backoff.failures + 1 >= attempts:
                        raise
                    if (error.retry_after_s or 0.0) > self.limits.longest_wait_s:
                        raise
                    await self.clock.sleep(backoff.next_s(error.retry_after_s))

    async def _once(self, call: Call, request: Request, timeout_s: float) -> Answer:
        if call.write and self.guard is not None:
            # What waited for its place in a lane may be nobody's business any more.
            why = await self.guard(call)
            if why:
                raise Unreachable(call, f"can't {call}: {why}", sent=False, lasting=True)
        began_s, status = self.clock.now_s(), 0
        try:
            answer = await self._transport.request(request, timeout_s, self.limits.max_response_bytes)
            status = answer.status
        except (Unanswered, UsageError) as error:
            raise _unreachable(call, error) from None
        except TooLarge as error:
            raise ServerFault(call, f"can't {call}: {error.message}", "ask for less, or raise the limit") from None
        finally:
            self.observe(call, status, self.clock.now_s() - began_s)
        if answer.status >= 300:
            raise self._refused(call, answer)
        return answer

    def _refused(self, call: Call, answer: Answer) -> ApiError:
        if answer.status == 400 and any(words in answer.body[:1000] for words in _WANTS_TLS):
            message = f"can't {call}: {self.connection.server} wants HTTPS"
            return Unreachable(call, message, "write https:// in the kubeconfig", sent=False, lasting=True)
        return failure(call, answer)

    def _request(
        self, method: str, path: str, params: Mapping[str, str], body: bytes | None, content: str, secret: Secret
    ) -> Request:
        headers = [("Accept", JSON), self._agent, *self.connection.credentials.headers(secret)]
        if body is not None:
            headers.append(("Content-Type", content or JSON))
        return Request(method, path, params, headers, body, secret.pair)

    def _path(self, call: Call, kind: AnyKind) -> str:
        try:
            return resource_path(kind, call.namespace, call.name, call.resource.partition("/")[2])
        except BadObject as error:
            raise Invalid(call, f"can't {call.verb} {call.resource}: {error.message}") from None

    async def _secret(self, call: Call) -> Secret:
        try:
            return await self.connection.credentials.secret()
        except UsageError as error:
            raise Unauthorized(call, f"can't {call}: {error.message}", error.hint) from None

    async def _renewed(self, error: ApiError, secret: Secret) -> bool:
        """Whether to ask once more because the credentials changed. A refusal that stands gets its advice."""
        if not isinstance(error, Unauthorized) or error.status != 401:
            return False
        error.hint = error.hint or self.connection.credentials.advice(secret)
        try:
            return await self.connection.credentials.renewed(secret)
        except UsageError as failed:
            error.hint = f"{failed.message}; {failed.hint}"
            return False


def _worth_repeating(error: ApiError) -> bool:
    if isinstance(error, TooManyRequests):
        return not isinstance(error, BudgetRefused)
    if isinstance(error, Unreachable):
        return not error.unknown and not error.lasting
    # Without a status it is our own limit that says no.
    return isinstance(error, ServerFault) and not error.call.write and error.status > 0


def _unreachable(call: Call, error: Unanswered | UsageError) -> Unreachable:
    # A UsageError is a certificate or an authority that can't be used: nothing was sent.
    sent, lasting = (error.sent, error.lasting) if isinstance(error, Unanswered) else (False, True)
    return Unreachable(call, f"can't {call}: {error.message}", error.hint, sent=sent, lasting=lasting)


def _read_page(call: Call, answer: Answer) -> _Page:
    try:
        return msgspec.json.decode(answer.body, type=_Page)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ServerFault(call, f"can't {call}: the answer is not a list: {error}") from None


async def _beginning(stream: Stream) -> bytes:
    """The start of an answer that is an error: enough for its sentence."""
    parts: list[bytes] = []
    size = 0
    async with aclosing(stream.chunks) as chunks:
        async for chunk in chunks:
            parts.append(chunk)
            size += len(chunk)
            if size > 64 * 1024:
                break
    return b"".join(parts)


def _delete_options(uid: str, grace_s: int | None, *, dry_run: bool) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def _with(plural: str, subresource: str) -> str:
    return f"{plural}/{subresource}" if subresource else plural
