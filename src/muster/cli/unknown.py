"""Workloads that come without their pods: what becomes of them can't be said (SPEC §10, verdict Unknown).

muster makes the pods of Jobs and StatefulSets as their controllers would. Of other workloads it knows the gang, not yet
the pods.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from muster.api.kinds import Unknown as Foreign
from muster.api.kinds import kind_of
from muster.cli.files import Source
from muster.cli.judging import name_of
from muster.cli.making import asks_for_none
from muster.grouping.registry import Registry
from muster.snapshot.world import World
from muster.telemetry import printable

# Kind, namespace and name of an object.
Place = tuple[str, str, str]


class Unknown(NamedTuple):
    """A workload whose pods can't be known."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def message(self) -> str:
        """What is missing, and what to do."""
        return (
            "its pods are not in the input, and muster can't say which pods its controller will make; "
            "add the pods too, or apply it and ask then: muster explain names what it waits for"
        )

    @property
    def title(self) -> str:
        """The workload in words, without characters that command a terminal."""
        return printable(f"{self.kind} {self.namespace}/{self.name}")

    def document(self) -> dict[str, str]:
        """As `plan -o json` shows it."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "verdict": "Unknown",
            "message": self.message,
        }


def without_pods(
    coming: Sequence[Source], given: Sequence[Source], world: World, registry: Callable[[], Registry]
) -> tuple[Unknown, ...]:
    """Of what comes, the workloads that have no pod and ask for some."""
    candidates = [
        one.value
        for one in coming
        if isinstance(one.value, dict) and isinstance(kind_of(one.value), Foreign) and not asks_for_none(one.value)
    ]
    if not candidates:
        return ()
    having = _owners(world, [*given, *coming])
    known = registry()
    found = {
        _place(one): Unknown(str(one.get("apiVersion")), *_place(one))
        for one in candidates
        if _place(one) not in having and _makes_pods(one, known)
    }
    return tuple(found[place] for place in sorted(found))


def _makes_pods(document: dict[str, Any], registry: Registry) -> bool:
    """Whether a kind is a workload: some ResourceInterface is for it, or it holds a template of pods."""
    if registry.candidates(str(document.get("apiVersion")), str(document.get("kind"))).interfaces:
        return True
    found: Any = document
    for field in ("spec", "template", "spec", "containers"):
        found = found.get(field) if isinstance(found, dict) else None
    return isinstance(found, list)


def _place(document: dict[str, Any]) -> Place:
    name, namespace = name_of(document)
    return str(document.get("kind")), namespace, name


def _owners(world: World, sources: Sequence[Source]) -> set[Place]:
    """Everything that has pods, directly or through what it owns."""
    documents = {_place(one.value): one.value for one in sources if isinstance(one.value, dict)}
    waiting = [
        (one.kind, namespace, one.name)
        for (namespace, _), facts in world.pods.items()
        for one in facts.pod.metadata.owner_references
    ]
    # The owner of a gang has the gang's pods, also where what stands between them is not known here.
    waiting += [
        (one.kind, key[0], one.name)
        for key in world.members
        if key in world.groups
        for one in world.groups[key].metadata.owner_references
    ]
    found: set[Place] = set()
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            waiting += [(kind, place[1], name) for kind, name in _references(documents.get(place))]
    return found


def _references(document: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    metadata = document.get("metadata") if document else None
    references = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    for one in references if isinstance(references, list) else ():
        if isinstance(one, dict):
            yield str(one.get("kind")), str(one.get("name"))
