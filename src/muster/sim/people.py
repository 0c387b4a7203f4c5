"""Everybody in a cluster but muster and its kubelets: users, operators, the node lifecycle. They carry out a story.

They act by requests to the embedded server. Time comes in as `later`, so that a story can be played in virtual time as
well as live.
"""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

from muster.api.documents import shown
from muster.api.kinds import CORE_KINDS, OPTIONAL_KINDS, OUR_KINDS
from muster.embedded.kinds import Resource
from muster.embedded.mirror import MERGE
from muster.embedded.objects import timestamp
from muster.embedded.server import Server
from muster.embedded.store import Change, Key
from muster.errors import MusterError
from muster.sim import stage
from muster.sim.objects import Document, Objects
from muster.sim.operators import Operators
from muster.sim.outages import Outages
from muster.sim.scenario import BadScenario
from muster.sim.story import Happening, Story, Workload
from muster.sim.successors import Successors
from muster.sim.vetting import leaves_of

SPACE = "default"
_DONE = ("Succeeded", "Failed")
_READ = {kind.name for kind in (*CORE_KINDS, *OPTIONAL_KINDS, *OUR_KINDS)}


class People:
    """Plays the part of people in one story.

    `now` is the second of the story; `later(seconds, do)` does something so much later; `say` is a line of the trace.
    `strict` (else: when the story has a claim, as files do): what is named and not there is an error with its path.
    `muster` is the name of a muster that is at work already.
    """

    def __init__(
        self,
        story: Story,
        server: Server,
        now: Callable[[], float],
        later: Callable[[float, Callable[[], None]], None],
        say: Callable[[str], None],
        *,
        strict: bool | None = None,
        muster: str = "",
    ) -> None:
        self._story, self._server, self._say = story, server, say
        self._now = now
        self._strict = bool(story.claim) if strict is None else strict
        self._stage = stage.on(server, muster=muster)
        self._send = stage.sender(server)
        self._kubelet = stage.sender(server, "kubelet")
        self._operators = Operators(server, later, say, self._wrong)
        self._outages = Outages(server, later, story.lost_after)
        self._successors = Successors(server)
        self._path = ""
        # Where in the file each workload stands that has come.
        self._places: dict[str, str] = {}
        self.close = server.core.store.subscribe(self._changed)

    # The contract with those who play a story.

    def begin(self) -> None:
        """Everything that is there at first."""
        self._path = "the story"
        self._apply(self._story)
        self._take(self._story.workloads)

    def happen(self, one: Happening) -> None:
        """What happens now; processes, watches and the server itself are not people's business."""
        self._path = next((f"happens[{row}]" for row, each in enumerate(self._story.happens) if each is one), "happens")
        for row, pattern in enumerate(one.delete):
            self._delete(pattern, f"delete[{row}]")
        self._apply(one.apply)
        self._take(one.workloads)
        for pattern, patch in one.change.items():
            self._change(pattern, patch)
        self._scale(one.scale)
        for word, do in (
            ("fail", self._outages.fail),
            ("recover", self._outages.recover),
            ("vanish", self._outages.vanish),
            ("cordon", lambda name: self._outages.cordon(name, True)),
            ("uncordon", lambda name: self._outages.cordon(name, False)),
        ):
            for row, pattern in enumerate(getattr(one, word)):
                for name in self._nodes(pattern, f"{word}[{row}]", word == "recover"):
                    self._say(f"{word} {name}")
                    do(name)
        for word, end in (("finish", self._finish), ("break_", self._break), ("remove", self._remove)):
            for row, pattern in enumerate(getattr(one, word)):
                for pod in self._pods(pattern, f"{word.rstrip('_')}[{row}]"):
                    end(pod)

    def act(self) -> None:
        """Operators make what is missing."""
        self._operators.act()
        self._successors.act()

    def calm(self) -> None:
        """The story has lasted. Nothing happens any more but what operators do about it."""
        self._operators.calm()

    # Inside.

    def _changed(self, change: Change) -> None:
        self._operators.changed(change)
        self._outages.changed(change)
        self._successors.changed(change)

    def _fault(self, where: str, what: str) -> None:
        """Somebody names what is not there, or is refused: an error in a file, a line in the trace of a seed."""
        if self._strict:
            raise BadScenario(f"{self._path}{'.' if where else ''}{where}: {what}")
        self._say(f"{where}: {what}" if where else what)

    def _wrong(self, name: str, what: str) -> None:
        """No API server takes a workload as it is; the timeline has it already."""
        if self._strict:
            raise BadScenario(f"{self._places[name]}: {what}", "no API server takes it so: mend the workload")

    def _apply(self, objects: Objects) -> None:
        for document in stage.in_order(objects.all()):
            kind, metadata = document["kind"], document["metadata"]
            try:
                if kind in _READ or kind == "Namespace":
                    self._stage.put([document])
                else:
                    self._put(document)
            except MusterError as error:
                self._fault(f"{kind.lower()}/{metadata['name']}", error.message)

    def _put(self, document: Document) -> None:
        """Of a kind that muster does not read: as `kubectl apply` of a file does it, more or less."""
        kind, name = document["kind"], document["metadata"]["name"]
        resource = self._server.core.kinds.of(document["apiVersion"], kind)
        if resource is None:
            raise stage.NotTaken(f"no kind {kind} of {document['apiVersion']} is served here")
        space = document["metadata"].get("namespace") or SPACE
        self._ensure(space)
        folder = _folder(resource, space)
        code, answer = self._send("POST", folder, document)
        if code == 409:
            code, answer = self._send("PATCH", f"{folder}/{name}", document, MERGE)
        if code >= 300:
            raise stage.NotTaken(answer["message"])

    def _take(self, workloads: dict[str, Workload]) -> None:
        for name, workload in workloads.items():
            self._places[name] = f"{self._path}.workloads.{name}"
            try:
                self._ensure(workload.namespace)
            except stage.NotTaken as error:
                self._fault(f"workloads.{name}.namespace", error.message)
            leaves = {""} if workload.gang is None else leaves_of(workload.gang)
            self._check_leaves(workload.pods, leaves, f"workloads.{name}.pods")
            self._operators.take(name, workload)

    def _check_leaves(self, counts: dict[str, int], leaves: set[str], where: str) -> None:
        strangers = sorted(set(counts) - leaves)
        if strangers and self._strict:
            hint = f"there is: {', '.join(map(shown, sorted(leaves)))}"
            raise BadScenario(f"{self._path}.{where}: there is no leaf {shown(strangers[0])}", hint)

    def _ensure(self, space: str) -> None:
        if self._server.core.store.get(Key("namespaces", "", space)) is None:
            document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
            code, answer = self._send("POST", "/api/v1/namespaces", document)
            if code >= 300:
                raise stage.NotTaken(answer["message"])

    def _delete(self, pattern: str, where: str) -> None:
        kind, _, wanted = pattern.partition("/")
        if kind == "workload":
            names = [name for name in self._operators if fnmatchcase(name, wanted)]
            for name in names:
                self._say(f"workload {name} is deleted")
                self._operators.drop(name)
            if not names:
                self._fault(where, f"no workload is called {wanted}")
            return
        for resource, document in self._found(pattern, where):
            self._say(f"delete {kind}/{document['metadata']['name']}")
            if kind == "node":
                self._outages.vanish(document["metadata"]["name"])
                continue
            code, answer = self._send("DELETE", _path(resource, document), {"propagationPolicy": "Background"})
            if code >= 300:
                self._fault(where, answer["message"])

    def _change(self, pattern: str, patch: Document) -> None:
        for resource, document in self._found(pattern, f"change.{pattern}"):
            code, answer = self._send("PATCH", _path(resource, document), patch, MERGE)
            if code >= 300:
                self._fault(f"change.{pattern}", answer["message"])
            elif "status" in patch and resource.has_status:
                self._send("PATCH", f"{_path(resource, document)}/status", {"status": patch["status"]}, MERGE)

    def _scale(self, scale: dict[str, dict[str, int]]) -> None:
        for name, counts in scale.items():
            if name in self._operators:
                self._check_leaves(counts, self._operators.leaves(name), f"scale.{name}")
                self._say(f"scale {name} to {', '.join(f'{leaf or name} {n}' for leaf, n in counts.items())}")
                self._operators.scale(name, counts)
            else:
                self._fault(f"scale.{name}", "there is no such workload")

    # Who is meant.

    def _found(self, pattern: str, where: str) -> list[tuple[Resource, Document]]:
        """Objects by `kind/name` or `kind/namespace/name`."""
        kind, _, rest = pattern.partition("/")
        space, _, name = rest.rpartition("/")
        for resource in self._server.core.kinds:
            if resource.kind.lower() == kind.lower() and "list" in resource.verbs:
                break
        else:
            self._fault(where, f"no kind is called {kind}")
            return []
        listed = self._server.core.store.list(resource.stored, (space or SPACE) if resource.namespaced else "")
        found = [(resource, one) for one in listed.items if fnmatchcase(one["metadata"]["name"], name)]
        if not found:
            self._fault(where, f"no {kind} is called {rest}")
        return found

    def _nodes(self, pattern: str, where: str, returning: bool) -> list[str]:
        """Names of nodes, by their name or by `label=value`; those that have vanished can only return."""
        label, marked, value = pattern.partition("=")
        found = []
        for node in self._server.core.store.list("nodes").items:
            name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
            if fnmatchcase(labels[label], value) if marked and label in labels else fnmatchcase(name, pattern):
                found.append(name)
        if returning:
            found += [name for name in self._outages.vanished if fnmatchcase(name, pattern) and name not in found]
        if not found:
            self._fault(where, f"no node is called {pattern}")
        return found

    def _pods(self, pattern: str, where: str) -> list[Document]:
        """Pods by name in any namespace, or by namespace/name."""
        space, _, name = pattern.rpartition("/")
        listed: Iterable[Document] = self._server.core.store.list("pods", space).items
        found = [pod for pod in listed if fnmatchcase(pod["metadata"]["name"], name)]
        if not found:
            self._fault(where, f"no pod is called {pattern}")
        return found

    # What becomes of pods.

    def _finish(self, pod: Document) -> None:
        self._end(pod, 0)

    def _break(self, pod: Document) -> None:
        self._end(pod, 1)

    def _end(self, pod: Document, code: int) -> None:
        """Its containers end, and its kubelet says so; of a pod that no kubelet has nobody can say anything."""
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName") or ""
        status = pod.get("status") or {}
        if not node or status.get("phase") in _DONE or self._outages.is_silent(node):
            self._say(f"{name} does not run: it can't end")
            return
        now = timestamp(self._server.core.clock())
        reason = "PodCompleted" if code == 0 else "PodFailed"
        over: dict[str, Any] = {"status": "False", "reason": reason, "lastTransitionTime": now}
        body = {
            "phase": "Succeeded" if code == 0 else "Failed",
            "conditions": [{"type": kind, **over} for kind in ("Ready", "ContainersReady")],
            "containerStatuses": [_ended(one, code, now) for one in pod["spec"]["containers"]],
        }
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}/status"
        self._kubelet("PATCH", path, {"metadata": {"uid": pod["metadata"]["uid"]}, "status": body}, stage.BY_TYPE)

    def _remove(self, pod: Document) -> None:
        metadata = pod["metadata"]
        self._successors.expect(metadata["uid"])
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._send("DELETE", path, {"preconditions": {"uid": metadata["uid"]}})


def _ended(container: Document, code: int, now: str) -> Document:
    reason = "Completed" if code == 0 else "Error"
    end = {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}
    found = {"name": container["name"], "image": container.get("image", ""), "imageID": "", "ready": False}
    return {**found, "started": False, "restartCount": 0, "state": {"terminated": end}, "lastState": {}}


def _folder(resource: Resource, space: str) -> str:
    inside = f"namespaces/{space}/" if resource.namespaced else ""
    return f"/{resource.path}/{inside}{resource.plural}"


def _path(resource: Resource, document: Document) -> str:
    metadata = document["metadata"]
    return f"{_folder(resource, metadata.get('namespace') or SPACE)}/{metadata['name']}"
