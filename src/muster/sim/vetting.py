"""The objects that people wrote into a story have the shape that whoever plays them relies on; that is said as it is
read. What else an API server may refuse is said when it does.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from msgspec import structs

from muster.api.documents import Problem, shown
from muster.api.kinds import OUR_KINDS, POD_GROUP, Unknown, kind_of, read_core, read_object
from muster.sim.objects import GROUP, Document, History, Objects
from muster.sim.scenario import BadScenario
from muster.sim.story import Happening, Workload

_DEFINITION = "CustomResourceDefinition"
_OURS = {f"{kind.plural}.{kind.group}" for kind in OUR_KINDS}
# What of an object is read before an API server has seen it.
_NEEDED = {"Pod": ("containers",), "PodDisruptionBudget": ()}
_HOW = "write a Kubernetes object: apiVersion, kind, metadata with a name, and what else it has"


def vet_object(value: Any, where: str) -> None:
    """One full document. Raises BadScenario."""
    for problem in _problems(value):
        raise BadScenario(f"{where}: {_said(problem)}", problem.hint or _HOW)


def vet_objects(objects: Objects, where: str) -> None:
    """All that there is, or comes, in short forms and as documents; `where` ends with a dot. Raises BadScenario."""
    for name, spec in objects.gangs.items():
        vet_gang(spec, f"{where}gangs.{name}")
    # Equal ones are looked at once.
    for row, some in enumerate(objects.pods):
        vet_object(structs.replace(some, count=None).documents()[0], f"{where}pods[{row}]")
    for row, value in enumerate(objects.documents):
        vet_object(value, f"{where}documents[{row}]")
    for name, history in objects.history.items():
        vet_object(_with(objects.gangs[name], history), f"{where}history.{name}")


def vet_workloads(workloads: dict[str, Workload], where: str) -> None:
    """Their gangs; `where` ends with a dot. Raises BadScenario."""
    for name, workload in workloads.items():
        if workload.gang is not None:
            vet_gang(workload.gang, f"{where}workloads.{name}.gang")


def vet_happening(one: Happening, where: str) -> None:
    """What comes in it, and what goes. Raises BadScenario."""
    vet_objects(one.apply, f"{where}.apply.")
    vet_workloads(one.workloads, f"{where}.")
    named = [(f"delete[{row}]", pattern) for row, pattern in enumerate(one.delete)]
    for word, pattern in (*named, *((f"change.{pattern}", pattern) for pattern in one.change)):
        if pattern.partition("/")[0].lower() == _DEFINITION.lower():
            hint = "name objects of a kind, such as podgroup/*"
            raise BadScenario(f"{where}.{word}: the kinds of the cluster stay as they are in a story", hint)
    for pattern, patch in one.change.items():
        _vet_patch(pattern, patch, f"{where}.change.{pattern}")


def _vet_patch(pattern: str, patch: Document, where: str) -> None:
    """A patch of an object of ours has no field that nobody knows; the rest of it is for the server to refuse."""
    for kind in OUR_KINDS:
        if kind.name.lower() == pattern.partition("/")[0].lower():
            whole = {"metadata": {"name": "any"}, "spec": patch.get("spec")}
            lenient = read_object(whole, kind, strict=False)[1]
            for problem in read_object(whole, kind)[1]:
                if problem not in lenient:
                    raise BadScenario(f"{where}: {_said(problem)}", problem.hint)


def vet_gang(spec: Document, where: str) -> None:
    """The spec of a PodGroup: a field that nobody knows is an error (SPEC §2). Raises BadScenario."""
    for problem in _problems(_with(spec)):
        raise BadScenario(f"{where}: {_said(problem).removeprefix('spec.')}", problem.hint)


def leaves_of(spec: Document) -> set[str]:
    """The names under which pods are in a gang; "" alone when it has no SubGroups."""
    below = spec.get("subGroups") or spec.get("subgroups") or []
    return {one["name"] for one in below} - {one.get("parent") for one in below} if below else {""}


def _with(spec: Document, history: History | None = None) -> Document:
    group: Document = {"apiVersion": GROUP, "kind": POD_GROUP.name, "metadata": {"name": "any"}, "spec": spec}
    return group if history is None else history.onto(group)


def _said(problem: Problem) -> str:
    return f"{problem.path} {problem.message}".strip()


def _problems(value: Any) -> Iterator[Problem]:
    kind = kind_of(value)
    if isinstance(kind, Unknown) and kind.problem is not None:
        yield kind.problem
        return
    if "items" in value and value["kind"].endswith("List"):
        yield Problem("", f"a {value['kind']} is no object", "write its items, one by one")
    yield from _shape(value)
    if not isinstance(kind, Unknown):
        # Whether an amount of a pod can be read is for muster to see: one that can't costs only itself.
        read = read_object if kind.ours else read_core
        yield from read(value, kind)[1]
    if value["kind"] == _DEFINITION and value["metadata"]["name"] in _OURS:
        yield Problem(
            "", f"{value['metadata']['name']} is there already, and stays as it is in a story", "leave it out"
        )


def _shape(value: Document) -> Iterator[Problem]:
    """What every object has, and what is read of one before a server has seen it."""
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        yield Problem("metadata", "is missing or no mapping", "write metadata: {name: …}")
        return
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        yield Problem("metadata.name", "is missing or not text", "write metadata: {name: …}")
    if not isinstance(metadata.get("namespace") or "", str):
        yield Problem("metadata.namespace", f"must be text, not {shown(metadata['namespace'])}")
    yield from _typed(metadata, ("labels", "annotations"), dict, "metadata.")
    yield from _typed(metadata, ("ownerReferences",), list, "metadata.")
    if not all(isinstance(one, dict) for one in metadata.get("ownerReferences") or ()):
        yield Problem("metadata.ownerReferences", "must be a list of mappings")
    born = metadata.get("creationTimestamp")
    if born is not None and not _is_time(born):
        yield Problem("metadata.creationTimestamp", f"{shown(born)} is no time", "write it as 2026-01-01T00:00:00Z")
    yield from _typed(value, ("status",), dict)
    needed = _NEEDED.get(value["kind"])
    if needed is None:
        return
    if not isinstance(value.get("spec"), dict):
        yield Problem("spec", "is missing or no mapping")
        return
    for field in needed:
        if not isinstance(value["spec"].get(field), list):
            yield Problem(f"spec.{field}", "is missing or no list")


def _typed(value: Document, fields: Iterable[str], kind: type, path: str = "") -> Iterator[Problem]:
    for field in fields:
        if not isinstance(value.get(field, kind()), kind) and value[field] is not None:
            word = "mapping" if kind is dict else "list"
            yield Problem(f"{path}{field}", f"must be a {word}, not {shown(value[field])}")


def _is_time(value: Any) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False
