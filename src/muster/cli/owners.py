"""Owners of pods out of a cluster: asked for when the grouper misses them, each once, and only those.

Interfaces can refer to further objects; they come the same way. What may not be read is known to be there.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from muster.cli.files import Source
from muster.cli.judging import name_of, plural
from muster.errors import ApiError, BadObject, Forbidden, NotFound, Unauthorized, Unreachable
from muster.grouping.grouper import Grouper
from muster.grouping.model import Object
from muster.grouping.owners import MOST_LINKS, Absence, Objects, Wanted, metadata_of
from muster.kube.client import Client
from muster.kube.discovery import Discovery
from muster.kube.resources import Resource

# One list is cheaper than so many objects one by one.
_MOST_GETS = 50
_PAGE = 2_000
# The longest chain of owners, and what interfaces refer to from there.
_ROUNDS = 2 * MOST_LINKS

T = TypeVar("T")


class Missing(NamedTuple):
    """An object that is looked for by name, or all objects of a kind that carry labels."""

    api_version: str
    kind: str
    namespace: str
    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    all: bool = False


class Known(Objects):
    """A lookup in documents that remembers what was missed, and knows what may not be read."""

    def __init__(self, *, forbidden: Set[Missing] = frozenset()) -> None:
        super().__init__()
        self._forbidden = forbidden
        self.missing: set[Missing] = set()

    def get(self, wanted: Wanted) -> Object | Absence:
        """The object; FORBIDDEN when it is known that it may not be read."""
        found = super().get(wanted)
        if found is not Absence.NOT_SEEN:
            return found
        missed = Missing(*wanted[:4])
        self.missing.add(missed)
        return Absence.FORBIDDEN if missed in self._forbidden else found

    def select(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str]
    ) -> Sequence[Object] | Absence:
        """All objects of the kind that carry the labels."""
        missed = Missing(api_version, kind, namespace, labels=tuple(sorted(labels.items())), all=True)
        if missed in self._forbidden:
            return Absence.FORBIDDEN
        self.missing.add(missed)
        return super().select(api_version, kind, namespace, labels)


@dataclass
class Owners:
    """What is asked of one cluster, and what came of it."""

    client: Client
    file: str
    sources: list[Source] = field(default_factory=list)
    forbidden: set[Missing] = field(default_factory=set)
    # Kind → why objects of it were not read.
    _trouble: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._discovery = Discovery(self.client)

    async def find(self, grouper: Grouper, pods: Sequence[Object], known: Known) -> None:
        """Groups the pods on trial, again and again, until nothing new is missed."""
        # Siblings have the same owners; what they refer to beyond that may differ.
        siblings = {_owner_of(pod): pod for pod in pods}
        asked: set[Missing] = set()
        some: Sequence[Object] = list(siblings.values())
        for _ in range(_ROUNDS):
            known.missing.clear()
            grouper.group(some)
            wanted = known.missing - asked
            if not wanted and len(some) == len(pods):
                return
            if not wanted:
                some = pods
            asked |= wanted
            by_kind: dict[tuple[str, str], list[Missing]] = {}
            for one in sorted(wanted):
                by_kind.setdefault((one.api_version, one.kind), []).append(one)
            for documents in await together(self._of_kind(*one) for one in by_kind.items()):
                known.take(documents)
                self.sources += [Source(self.file, 0, document, []) for document in documents]

    def notes(self) -> list[str]:
        """What could not be read, a line a kind."""
        return [f"{kind}: {why}" for kind, why in sorted(self._trouble.items())]

    async def _of_kind(self, what: tuple[str, str], wanted: Sequence[Missing]) -> list[dict[str, Any]]:
        """What there is of one kind. What may not be read is noted, what can't be read now is told."""
        try:
            kind = await self._discovery.find_served(*what)
            if kind is None:
                return []
            single = [one for one in wanted if not one.all]
            found = await self._listed(kind, single) if len(single) > _MOST_GETS else None
            if found is None:
                found = [one for one in await together(self._one(kind, one) for one in single) if one is not None]
            for one in wanted:
                found += await self._selected(kind, one) if one.all else []
            return [typed(document, kind) for document in found]
        except (Unreachable, Unauthorized):
            raise
        except Forbidden as error:
            self.forbidden.update(wanted)
            self._may_not(what[1], error)
        except ApiError as error:
            self._trouble[what[1]] = f"{error.message}; {plural(len(wanted), 'object')} not read"
        return []

    def _may_not(self, kind: str, error: Forbidden) -> None:
        call = error.call
        self._trouble[kind] = (
            f"may not be read (it takes the verb {call.verb} on {call.resource}); its pods may stay without a gang here"
        )

    async def _one(self, kind: Resource, wanted: Missing) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = await self.client.get(kind, wanted.namespace, wanted.name)
            return found
        except NotFound:
            return None
        except (Unreachable, Unauthorized):
            raise
        except Forbidden as error:
            self.forbidden.add(wanted)
            self._may_not(kind.name, error)
        except (ApiError, BadObject) as error:
            self._trouble[kind.name] = error.message
        return None

    async def _listed(self, kind: Resource, wanted: Sequence[Missing]) -> list[dict[str, Any]] | None:
        """Those that are wanted, out of all; None when that may not be asked."""
        spaces = {one.namespace for one in wanted} if kind.namespaced else {""}
        try:
            listing = await self.client.list(kind, spaces.pop() if len(spaces) == 1 else "", limit=_PAGE)
        except Forbidden:
            return None
        names = {(one.namespace if kind.namespaced else "", one.name) for one in wanted}
        return [item for item in listing.items if _place(item, namespaced=kind.namespaced) in names]

    async def _selected(self, kind: Resource, wanted: Missing) -> list[dict[str, Any]]:
        selector = ",".join(f"{key}={value}" for key, value in wanted.labels)
        namespace = wanted.namespace if kind.namespaced else ""
        return (await self.client.list(kind, namespace, label_selector=selector, limit=_PAGE)).items


def typed(item: dict[str, Any], kind: Resource) -> dict[str, Any]:
    """The object, saying what it is (in lists of many kinds objects do not), without who wrote which field."""
    metadata = item.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return {"apiVersion": kind.api_version, "kind": kind.name, **item}


def _owner_of(pod: Object) -> str:
    """Who owns the pod, by uid; nobody's pod stands for itself."""
    references = metadata_of(pod).get("ownerReferences")
    first = references[0] if isinstance(references, list) and references else None
    return str(first.get("uid")) if isinstance(first, dict) else str(metadata_of(pod).get("uid"))


def _place(item: dict[str, Any], *, namespaced: bool) -> tuple[str, str]:
    name, namespace = name_of(item)
    return namespace if namespaced else "", name


async def together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results, in order. When one fails the others end."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
