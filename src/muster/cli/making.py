"""The pods of workloads that are only assumed: what Kubernetes' own controllers would make of a Job or a StatefulSet.

They are made by the controllers of the embedded server, on one that nobody else sees. Names are the same each time.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from muster.cli.files import Source
from muster.cli.judging import name_of, plural
from muster.embedded.mirror import Caller, Document
from muster.embedded.server import Server
from muster.embedded.store import Store
from muster.embedded.workloads import Workloads
from muster.snapshot.world import World

# Kind, namespace and name of what owns pods.
Owner = tuple[str, str, str]
# So many pods are made in all; a larger workload is passed over.
MOST_PODS = 5_000
_HEX = 16**12


class _Kind(NamedTuple):
    """Where objects of the kind are, what says how many pods there are, and what is assumed of it."""

    folder: str
    plural: str
    counts: tuple[str, ...]
    assumed: Document


_KINDS = {
    ("batch/v1", "Job"): _Kind("/apis/batch/v1", "jobs", ("parallelism", "completions"), {"suspend": False}),
    ("apps/v1", "StatefulSet"): _Kind(
        "/apis/apps/v1", "statefulsets", ("replicas",), {"podManagementPolicy": "Parallel"}
    ),
}


class Made(NamedTuple):
    """What comes, with pods; and what there is to say about it."""

    sources: list[Source]
    notes: list[str]


def with_pods(coming: Sequence[Source], owned: Collection[Owner], schedulers: Sequence[str]) -> Made:
    """What comes, and for Jobs and StatefulSets without pods those that their controllers would make. Whoever is
    `owned` has pods already; `schedulers` are ours.
    """
    having = {*owned, *owners_in(one.value for one in coming)}
    lacking = [one for one in coming if _kind_of(one.value) is not None and _owner(one.value) not in having]
    if not lacking:
        return Made(list(coming), [])
    bench = _Bench()
    found, notes = {id(one): one for one in coming}, []
    for one in lacking:
        found[id(one)], note = bench.place(one)
        notes.append(note)
    pods = [Source(lacking[0].file, 0, pod, []) for pod in bench.pods()]
    if pods:
        notes.append(f"{plural(len(pods), 'pod')} assumed for {_named(lacking)}, as the controllers would make them")
    strangers = sorted({str(pod.value["spec"].get("schedulerName")) for pod in pods} - set(schedulers))
    if strangers:
        notes.append(
            f"pods for {strangers[0]} are not muster's: spec.template.spec.schedulerName should be {schedulers[0]}"
        )
    return Made([*found.values(), *pods], [note for note in notes if note])


def can_have_pods(document: Any) -> bool:
    """Whether pods are made for a workload of this kind; where there are none, a note says why."""
    return _kind_of(document) is not None


def asks_for_none(document: Any) -> bool:
    """Whether a workload of which pods can be made asks for no pod."""
    kind = _kind_of(document)
    spec = document.get("spec") if kind is not None else None
    return kind is not None and isinstance(spec, dict) and _count(spec, kind) == 0


def owners_in(documents: Iterable[Any]) -> Iterator[Owner]:
    """Who owns the pods among some documents."""
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "Pod":
            metadata = document.get("metadata")
            references = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
            for one in references if isinstance(references, list) else ():
                if isinstance(one, dict):
                    yield str(one.get("kind")), name_of(document)[1], str(one.get("name"))


def owners_of(world: World) -> Iterator[Owner]:
    """Who owns the pods of a world."""
    for (namespace, _), facts in world.pods.items():
        for one in facts.pod.metadata.owner_references:
            yield one.kind, namespace, one.name


class _Bench:
    """A server without a socket, and the controllers on it."""

    def __init__(self) -> None:
        numbers = itertools.count(1)
        self._server = Server(
            Store(),
            clock=lambda: 0.0,
            new_uid=lambda: f"00000000-0000-4000-8000-{next(numbers) % _HEX:012x}",
            suffix=lambda: f"{next(numbers) % 16**5:05x}",
        )
        self._send = Caller(self._server, "muster").send
        self._left = MOST_PODS

    def place(self, source: Source) -> tuple[Source, str]:
        """A workload comes; it has a uid then, for its pods to name. Or why not."""
        document, kind = source.value, _kind_of(source.value)
        assert kind is not None
        title = f"{document['kind']} {'/'.join(_owner(document)[1:])}"
        metadata, spec = dict(document["metadata"]), document.get("spec")
        if not isinstance(spec, dict):
            return source, f"{title}: no pods are assumed: it has no spec"
        pods = _count(spec, kind)
        if pods > self._left:
            many = f"there would be {pods:,}, and {MOST_PODS:,} in all is the most"
            return source, f"{title}: no pods are assumed: {many}"
        self._left -= pods
        metadata["namespace"] = _owner(document)[1]
        for name in ("uid", "resourceVersion", "ownerReferences", "finalizers"):
            metadata.pop(name, None)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": metadata["namespace"]}}
        self._send("POST", "/api/v1/namespaces", space)
        body = {**document, "metadata": metadata, "spec": {**spec, **kind.assumed}}
        folder = f"{kind.folder}/namespaces/{metadata['namespace']}/{kind.plural}"
        code, made = self._send("POST", folder, body)
        if code != 201:
            return source, f"{title}: no pods are assumed: {made.get('message', code)}"
        refused = self._rehearse(made)
        if refused:
            return source, f"{title}: no pods are assumed: {refused}"
        known = {**document["metadata"], "namespace": metadata["namespace"], "uid": made["metadata"]["uid"]}
        return source._replace(value={**document, "metadata": known}), ""

    def _rehearse(self, workload: Document) -> str:
        """Why no pod of the workload could be made; nothing when it could. Its priority class may be in the cluster: so
        there is one of that name here.
        """
        namespace, template = workload["metadata"]["namespace"], workload["spec"]["template"]
        named = template["spec"].get("priorityClassName")
        if named:
            priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": named}}
            self._send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {**priority, "value": 0})
        metadata = {**(template.get("metadata") or {}), "generateName": "p-"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        code, said = self._send("POST", f"/api/v1/namespaces/{namespace}/pods", pod, query={"dryRun": "All"})
        return "" if code == 201 else str(said.get("message", code))

    def pods(self) -> list[Document]:
        """The pods that are made. What their priority is says the class that they name."""
        workloads = Workloads(self._server)
        # The controllers make a bounded number of pods in a step.
        before = -1
        while before != self._server.core.store.revision:
            before = self._server.core.store.revision
            workloads.step(0.0)
        workloads.close()
        found: list[Document] = self._send("GET", "/api/v1/pods")[1]["items"]
        for pod in found:
            pod["spec"].pop("priority", None)
        return [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in found]


def _kind_of(document: Any) -> _Kind | None:
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict) or not name_of(document)[0]:
        return None
    return _KINDS.get((str(document.get("apiVersion")), str(document.get("kind"))))


def _owner(document: Document) -> Owner:
    name, namespace = name_of(document)
    return document["kind"], namespace, name


def _count(spec: Document, kind: _Kind) -> int:
    """How many pods there are at a time."""
    stated = [spec.get(name) for name in kind.counts]
    return min((one for one in stated if isinstance(one, int)), default=1)


def _named(sources: Sequence[Source]) -> str:
    first = "/".join((sources[0].value["kind"], name_of(sources[0].value)[0]))
    return first if len(sources) == 1 else f"{first} and {plural(len(sources) - 1, 'more workload')}"
