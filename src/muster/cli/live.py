"""The cluster of now as documents: what `plan`, `explain`, `snapshot` and `group` read when no file is named.

Everything is only read. What comes out are the same `Source`s that files give, so nothing behind this knows the
difference. The lists are not of one moment: each is the truth of when it was asked for.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from muster.api.cluster import POD_GROUP_ANNOTATION
from muster.api.documents import Problem
from muster.api.kinds import (
    CORE_KINDS,
    DEVICE_CLASS,
    NAMESPACE,
    NATIVE_POD_GROUP,
    OPTIONAL_KINDS,
    POD_GROUP,
    QUEUE,
    RESOURCE_INTERFACE,
    TOPOLOGY,
    Kind,
    kind_of,
)
from muster.cli.files import Source
from muster.cli.grouping import groupable
from muster.cli.judging import check_all, name_of
from muster.cli.options import Server
from muster.cli.owners import Known, Missing, Owners, together, typed
from muster.cli.render import plain
from muster.config import Config
from muster.errors import ApiError, Forbidden, NotFound, UsageError
from muster.kube.client import Client, Limits
from muster.kube.connection import Connection
from muster.kube.discovery import Discovery
from muster.kube.kubeconfig import connect
from muster.kube.kubeconfig import load as read_kubeconfig
from muster.kube.resources import Resource, Unread

POD, NODE, PRIORITY_CLASS, BUDGET = CORE_KINDS[:4]
INSTALL = "muster crds | kubectl apply --server-side -f -"
# What is read, and what it means when it may not be; nothing: it can't be done without.
Kinds = Mapping[Kind, str]
_CLUSTER: Kinds = {
    NODE: "",
    POD: "",
    POD_GROUP: "",
    QUEUE: "every queue counts as there, and without limit",
    TOPOLOGY: "gangs that require a level of one are held",
    RESOURCE_INTERFACE: "workloads become gangs by the built-in interfaces alone",
    PRIORITY_CLASS: "classes that are not built in count as unknown",
    BUDGET: "evictions may be shown that a budget would forbid",
    NAMESPACE: "anti-affinity that selects namespaces counts as if it selected all",
}
_GROUPING: Kinds = {
    POD: "",
    POD_GROUP: "those that are there already look like new ones",
    RESOURCE_INTERFACE: _CLUSTER[RESOURCE_INTERFACE],
    PRIORITY_CLASS: _CLUSTER[PRIORITY_CLASS],
}
_ENDED = ("Succeeded", "Failed")
_PAGE = 2_000
_QUIET_S, _REDRAW_S = 1.0, 0.2
_WIPE = "\r\x1b[K"

T = TypeVar("T")


class Fetched(NamedTuple):
    """A cluster as documents, what to say about it, and the owners that may not be read."""

    sources: list[Source]
    notes: list[str]
    forbidden: frozenset[Missing] = frozenset()
    # The kinds that may not be read.
    hidden: tuple[Kind, ...] = ()
    # Kinds that pods refer to and that can't be read, with the reason.
    closed: Mapping[str, str] = MappingProxyType({})


def connected(
    server: Server, otherwise: str = "name files, folders or - with -f, for example -f examples"
) -> Connection:
    """The way to the cluster that is meant. Raises UsageError; `otherwise` is what else could be done."""
    path = Path(server.kubeconfig).expanduser() if server.kubeconfig else None
    in_pod = bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and not server.context
    if path is None and not in_pod and read_kubeconfig() is None:
        hint = "; or ".join(filter(None, (otherwise, "for a live cluster set KUBECONFIG or use --kubeconfig")))
        raise UsageError("nothing to read: there is no kubeconfig", hint)
    return connect(path, server.context)


def open_client(connection: Connection) -> Client:
    """A client for somebody who waits: it does not try for long."""
    return Client(connection, limits=Limits(attempts=3))


def fetch_cluster(connection: Connection, config: Config, beside: Sequence[Source] = ()) -> Fetched:
    """Everything that a cycle looks at, with the owners of pods that have no gang yet. `beside` are objects that are
    assumed to be there too. Raises UsageError or ApiError.
    """
    return run_alone(_fetch(connection, config, _CLUSTER, beside=beside))


def at_home(source: Source, namespace: str) -> Source:
    """What names no namespace is in that of the context, as for kubectl."""
    kind, metadata = kind_of(source.value), _part(source.value, "metadata") if source.value else {}
    if metadata.get("namespace") or (isinstance(kind, Kind) and not kind.namespaced) or not metadata:
        return source
    return source._replace(value={**source.value, "metadata": {**metadata, "namespace": namespace}})


def fetch_workloads(server: Server, config: Config, namespace: str, *, everywhere: bool) -> Fetched:
    """Our pods of one namespace, or of all, with their owners and PodGroups. Raises UsageError or ApiError."""
    connection = connected(server)
    chosen = "" if everywhere else namespace or connection.namespace
    found = run_alone(_fetch(connection, config, _GROUPING, namespace=chosen, members=True))
    if chosen and not any(_is(source, POD) for source in found.sources):
        found.notes.append(f"no pods in namespace {chosen}: -n chooses another, -A takes all")
    return found


async def _fetch(
    connection: Connection,
    config: Config,
    kinds: Kinds,
    *,
    namespace: str = "",
    beside: Sequence[Source] = (),
    members: bool = False,
) -> Fetched:
    """Lists, then owners; with `members` also the owners of pods that have a gang."""
    file = f"context {connection.context}"
    async with open_client(connection) as client, _progress(connection.server) as progress:
        lists = await together(read_list(client, kind, namespace, file, progress) for kind in kinds)
        found = [source for one in lists if isinstance(one, list) for source in one]
        refused = {kind: one for kind, one in zip(kinds, lists, strict=True) if isinstance(one, ApiError)}
        notes = list(_about(refused, kinds))
        closed: dict[str, str] = {}
        if kinds is _CLUSTER:
            discovery = Discovery(client)
            referred = await together(_read_referred(client, discovery, kind, file, closed) for kind in OPTIONAL_KINDS)
            found += [source for one in referred for source in one]
        progress["owners of pods"] = "..."
        owners = await _owners(client, [*found, *beside], config, file, members=members)
    hidden = tuple(kind for kind, error in refused.items() if isinstance(error, Forbidden))
    notes += owners.notes()
    return Fetched([*found, *owners.sources], notes, frozenset(owners.forbidden), hidden, closed)


async def _read_referred(
    client: Client, discovery: Discovery, kind: Kind, file: str, closed: dict[str, str]
) -> list[Source]:
    """All objects of a kind that pods refer to; why there are none goes to `closed`. A cluster may lack the kind."""
    served: Resource | None = Resource(kind.api_version, kind.name, kind.plural, kind.namespaced)
    if kind is NATIVE_POD_GROUP:
        served = await discovery.find_served(f"{kind.group}/*", kind.name)
    if served is not None:
        try:
            listing = await client.list(served, limit=_PAGE)
        except Forbidden:
            closed[kind.resource] = f"you may not list {kind.resource}"
            return []
        except NotFound:
            pass
        else:
            unread = [_unread(one, file) for one in listing.unread]
            return [*(Source(file, 0, typed(item, served), []) for item in listing.items), *unread]
    if kind is not DEVICE_CLASS:
        # Where there are no classes of devices, none offers anything.
        closed[kind.resource] = f"this API server does not serve {kind.resource}"
    return []


async def read_list(
    client: Client, kind: Kind, namespace: str = "", file: str = "", progress: dict[str, str] | None = None
) -> list[Source] | Forbidden | NotFound:
    """All objects of a kind. That it may not be read, and that it is not installed, are answers too."""
    progress = {} if progress is None else progress
    progress[kind.plural] = "..."
    documents = Resource(kind.api_version, kind.name, kind.plural, kind.namespaced)
    try:
        listing = await client.list(documents, namespace if kind.namespaced else "", limit=_PAGE)
    except Forbidden as error:
        return error
    except NotFound as error:
        if kind.ours:
            return error
        raise UsageError(
            f"{client.connection.server} has no {kind.plural} of {kind.api_version}",
            "is this the API server of a Kubernetes cluster of today?",
        ) from None
    finally:
        progress.pop(kind.plural)
    unread = [_unread(one, file) for one in listing.unread]
    return [*(Source(file, 0, typed(item, documents), []) for item in listing.items), *unread]


def _unread(one: Unread, file: str) -> Source:
    who = "/".join(filter(None, (one.metadata.namespace, one.metadata.name)))
    return Source(file, 0, None, [Problem(one.why.path, f"{who}: {one.why.message}", one.why.hint)])


def _about(refused: Mapping[Kind, ApiError], kinds: Kinds) -> Iterator[str]:
    """What is not installed or may not be read, and what that means. Raises UsageError when nothing is left to do."""
    vital = [error.call for kind, error in refused.items() if isinstance(error, Forbidden) and not kinds[kind]]
    if vital:
        where = f"namespace {vital[0].namespace}" if vital[0].namespace else "the whole cluster"
        what = ", ".join(call.resource for call in vital)
        raise UsageError(
            f"not allowed to list {what} in {where}, and nothing true can be said without",
            f"ask for the verb list on {what}; muster doctor lists every missing right",
        )
    missing = [kind.name for kind, error in refused.items() if isinstance(error, NotFound)]
    if missing:
        yield f"{', '.join(missing)} not installed here: {INSTALL}"
    for kind, error in refused.items():
        if isinstance(error, Forbidden):
            yield f"{kind.plural} may not be read (it takes the verb list on {kind.plural}): {kinds[kind]}"


async def _owners(client: Client, found: Sequence[Source], config: Config, file: str, *, members: bool) -> Owners:
    """The owners of our pods that have no gang, or of all of ours."""
    owners = Owners(client, file)
    pods = [one for one in found if _is(one, POD) and _is_to_group(one.value, config, members=members)]
    if pods:
        known = Known(forbidden=owners.forbidden)
        others = [one for one in found if kind_of(one.value) not in (POD, NODE)]
        interfaces = check_all([one for one in others if _is(one, RESOURCE_INTERFACE)], config, strict=False)
        only = {name_of(one.value)[::-1] for one in pods}
        trial = groupable([*others, *pods], interfaces, config, only=only, lookup=known)
        await owners.find(trial.grouper, trial.pods, known)
    return owners


def _is(source: Source, kind: Kind) -> bool:
    return kind_of(source.value) == kind


def _is_to_group(pod: dict[str, Any], config: Config, *, members: bool) -> bool:
    spec, status, metadata = (_part(pod, name) for name in ("spec", "status", "metadata"))
    if spec.get("schedulerName") not in config.scheduler_names:
        return False
    annotations = _part(metadata, "annotations")
    return members or not (annotations.get(POD_GROUP_ANNOTATION) or status.get("phase") in _ENDED)


def _part(document: Any, name: str) -> Mapping[str, Any]:
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def run_alone(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work` in a loop of its own."""
    found: list[T] = []

    async def kept() -> None:
        # asyncio.run puts the result of its task into words, which takes seconds when it is a whole cluster.
        found.append(await work)

    asyncio.run(kept())
    return found[0]


@asynccontextmanager
async def _progress(server: str) -> AsyncIterator[dict[str, str]]:
    """What is being read, told on a terminal once it takes longer than a moment."""
    waits: dict[str, str] = {}
    task = asyncio.ensure_future(_draw(server, waits)) if sys.stderr is not None and sys.stderr.isatty() else None
    try:
        yield waits
    finally:
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _draw(server: str, waits: Mapping[str, str]) -> None:
    await asyncio.sleep(_QUIET_S)
    try:
        while True:
            text = f"reading {server}: {', '.join(waits) or 'nearly there'} ..."
            sys.stderr.write(_WIPE + plain(text)[:120])
            sys.stderr.flush()
            await asyncio.sleep(_REDRAW_S)
    finally:
        sys.stderr.write(_WIPE)
        sys.stderr.flush()
