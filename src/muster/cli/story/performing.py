"""Plays a tale on a playground: what happens, what is shown, and which claims come true. It has a thread of its own."""

import threading
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from msgspec import structs

from muster.cli.explain import lines_of
from muster.cli.installation import NAMESPACE
from muster.cli.judging import plural
from muster.cli.roles import user_name
from muster.cli.story.cast import Cast
from muster.cli.story.evidence import always, faults_of, told
from muster.cli.story.kubectl import requests_of
from muster.cli.story.racks import Letters, map_of
from muster.cli.story.sender import Interrupted, Sender
from muster.cli.story.tale import Act, Chapter, Operated, Tale, filled
from muster.cli.story.telling import Result, Teller, kubectl_rows, tree_rows
from muster.cli.story.witness import Witness
from muster.decisions.explanation import Explanation
from muster.errors import UsageError
from muster.kube.rights import LEASE_NAME
from muster.plan.outcome import Plan
from muster.sim import stage
from muster.sim.expecting import Seen, look
from muster.sim.loading import takes
from muster.sim.objects import GPU, Objects
from muster.sim.scenario import BadScenario
from muster.sim.steps import Steps
from muster.sim.story import Happening, Story

Explain = Callable[[str], tuple[Explanation, Plan]]
# So long nothing may move before a claim counts as true, and before a step of a scenario is judged.
STILL_S, REST_S = 0.4, 2.0
# So long a step of a scenario may take.
_LONGEST_S = 20.0
_LOOK_S = 0.1
_ALWAYS = "What always holds"
_AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_TABLES = {"gangs": ("PodGroup", "kubectl get pg"), "queues": ("Queue", "kubectl get queues")}


class Performance:
    """One telling of a tale. `explain` is what `muster explain` finds out; `pause_s` is the time to read a chapter."""

    def __init__(
        self,
        tale: Tale,
        cast: Cast,
        send: Sender,
        witness: Witness,
        teller: Teller,
        explain: Explain,
        *,
        pause_s: float = 0.0,
    ) -> None:
        self._tale, self._cast, self._send, self._witness = tale, cast, send, witness
        self._teller, self._explain, self._pause_s = teller, explain, pause_s
        self._stage = stage.Stage(send)
        self._letters = Letters()
        self._stopped = threading.Event()
        self._begun_s = time.monotonic()
        self.results: list[Result] = []

    def stop(self) -> None:
        """Nobody listens any more: the next wait ends it."""
        self._stopped.set()
        self._witness.stirred.set()

    @property
    def held(self) -> bool:
        """Whether all claims are true that were made."""
        return all(one.held for one in self.results)

    def begin(self, url: str, namespace: str) -> None:
        """What there is at first, and muster at work on it; each is told."""
        self._teller.ready(f"control plane at {url}")
        while not self._witness.is_watching:
            self._pause(_LOOK_S)
        if not self._tale.steps:
            self._cast.call(self._cast.begin)
            self._teller.ready(_there(self._look()))
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE_NAME}"
        while not (self._send("GET", lease)[1].get("spec") or {}).get("holderIdentity"):
            self._teller.progress("muster asks for its Lease")
            self._pause(_LOOK_S)
        self._teller.ready("muster schedules")

    def run(self) -> None:
        """The whole tale. Raises Interrupted when it was stopped."""
        self._begun_s = time.monotonic()
        if self._tale.steps and not self._tale.chapters:
            self._take_by_take()
        else:
            self._chapter_by_chapter()
        if self.held:
            self._teller.title(_ALWAYS)
            for says, wrong, seen in always(self._look()):
                self._tell(Result(_ALWAYS, says, not wrong, seen, tuple(wrong)))

    # Chapters and acts.

    def _chapter_by_chapter(self) -> None:
        chapters = self._tale.chapters
        for number, chapter in enumerate(chapters, start=1):
            if number > 1:
                self._pause(self._pause_s)
            self._teller.title(chapter.title, f"{number} of {len(chapters)}" if len(chapters) > 1 else "")
            if chapter.says:
                self._teller.says(filled(chapter.says, self._place))
            for act in chapter.acts:
                self._play(act, chapter)
                if not self.held:
                    self._break_off(chapter, act)
                    return

    def _play(self, act: Act, chapter: Chapter) -> None:
        self._wait_until(act.at)
        if act.says:
            self._teller.line()
            self._teller.says(filled(act.says, self._place))
        if not chapter.clocked:
            self._witness.begin()
        if act.explain:
            self._mend(act)
        self._apply(act)
        places = {word: [filled(one, self._place) for one in getattr(act, word)] for word in ("fail", "recover")}
        self._cast.call(lambda: self._cast.happen(structs.replace(act, apply=Objects(), **places)))
        self._claims(act, chapter)
        for what in act.show:
            self._show(what)

    def _wait_until(self, at_s: float) -> None:
        """A second of the story."""
        while (left_s := self._begun_s + at_s - time.monotonic()) > 0.0:
            self._cast.check()
            self._teller.progress(f"waiting for second {at_s:g}")
            self._pause(min(left_s, _LOOK_S))

    def _apply(self, act: Act) -> None:
        """What a user would do with kubectl, over HTTPS."""
        for document in stage.in_order(act.apply.all()):
            self._create(document)
        for one in act.operates:
            self._operate(one)

    def _create(self, document: dict[str, Any]) -> dict[str, Any]:
        code, made = self._send("POST", self._folder(document), stage.accepted(document))
        if code >= 300:
            what = f"{document['kind']} {document['metadata']['name']}"
            raise BadScenario(f"{what} is refused: {made.get('message', made)}")
        found: dict[str, Any] = made
        return found

    def _folder(self, document: dict[str, Any]) -> str:
        """Where objects of a kind are, as the server says."""
        version, kind = document["apiVersion"], document["kind"]
        root = "/api/v1" if version == "v1" else f"/apis/{version}"
        code, found = self._send("GET", root)
        served = [one for one in found.get("resources", ()) if one["kind"] == kind and "/" not in one["name"]]
        if code >= 300 or not served:
            raise BadScenario(f"no kind {kind} of {version} is served here", "apply its CustomResourceDefinition first")
        space = f"/namespaces/{document['metadata'].get('namespace') or stage.SPACE}" if served[0]["namespaced"] else ""
        return f"{root}{space}/{served[0]['name']}"

    def _operate(self, one: Operated) -> None:
        """A workload comes, and its operator makes the pods."""
        made = self._create(one.workload)
        owner = {key: made[key] for key in ("apiVersion", "kind")}
        owner |= {"name": made["metadata"]["name"], "uid": made["metadata"]["uid"], "controller": True}
        for pods in one.pods:
            for pod in pods.documents():
                metadata = {**pod["metadata"], "ownerReferences": [owner]}
                self._create({**pod, "metadata": metadata})

    # What is explained, claimed and shown.

    def _mend(self, act: Act) -> None:
        """The explanation of a gang, and one of its remedies carried out as it is printed."""
        self._teller.progress(f"explaining {act.explain}")
        found, made = self._explain(act.explain)
        self._teller.does(f"muster explain {'/'.join(found.gang.key)}")
        for line in lines_of(found, made):
            self._teller.text(f"  {line.text}" if line.text else "", line.style)
        if not act.remedy:
            return
        chosen = [one for one in found.helps if one.kind == act.remedy]
        if not chosen:
            raise BadScenario(f"no remedy of the kind {act.remedy} is proposed for {act.explain}")
        self._pause(self._pause_s)
        self._teller.does(chosen[0].command)
        for request in requests_of(chosen[0].command):
            code, answer = self._send(request.method, request.path, request.body, request.content_type)
            if code >= 300:
                raise UsageError(f"{chosen[0].command}: {answer.get('message', answer)}")

    def _claims(self, act: Act, chapter: Chapter) -> None:
        """Waits until all claims of an act are true at once and nothing moves, or until its time is over."""
        if not act.claims:
            return
        until_s = time.monotonic() + act.within
        while True:
            still = self._rest(STILL_S, until_s, act.claims[0].says)
            seen = self._look()
            found = [faults_of(claim, seen, self._witness) for claim in act.claims]
            if (still and not any(found)) or time.monotonic() >= until_s:
                break
        moves = [] if still else [f"something still moves after {act.within:g} s"]
        self._teller.line()
        for claim, faults in zip(act.claims, found, strict=True):
            wrong = tuple(faults or moves)
            self._tell(Result(chapter.title, claim.says, not wrong, told(claim, seen, self._witness), wrong))

    def _rest(self, still_s: float, until_s: float, text: str) -> bool:
        """Waits until nothing has moved for so long; whether that came about in time."""
        since_s = time.monotonic()
        while time.monotonic() < since_s + still_s:
            if time.monotonic() >= until_s:
                return False
            self._cast.check()
            self._teller.progress(f"waiting until {text}")
            self._pause(_LOOK_S)
            if self._witness.stirred.is_set():
                self._witness.stirred.clear()
                since_s = time.monotonic()
        return True

    def _tell(self, result: Result) -> None:
        self.results.append(result)
        self._teller.claim(result)

    def _break_off(self, chapter: Chapter, act: Act) -> None:
        """What follows builds on what did not come true: it is not told."""
        self._teller.line()
        self._teller.line(("  The story ends here: what follows builds on this.", {"fg": "red"}))
        self._show("gangs")
        rest = [(chapter, one) for one in chapter.acts[chapter.acts.index(act) + 1 :]]
        later = self._tale.chapters[self._tale.chapters.index(chapter) + 1 :]
        rest += [(other, one) for other in later for one in other.acts]
        self.results += [Result(other.title, claim.says, None) for other, one in rest for claim in one.claims]

    def _show(self, what: str) -> None:
        if what in _TABLES:
            kind, command = _TABLES[what]
            code, table = self._send.asked("GET", stage.folder_of(kind), None, "", _AS_TABLE)
            if code == 200 and table["rows"]:
                self._teller.does(command)
                self._teller.table(kubectl_rows(table))
            return
        seen = self._look()
        if what == "map":
            found = map_of(seen.nodes, seen.pods, seen.topologies, self._letters)
            if found is not None:
                self._teller.map(found)
            return
        for group in seen.groups:
            if _is_like(group, what):
                self._teller.line()
                self._teller.table(tree_rows(group))

    def _look(self) -> Seen:
        return look(self._send, self._witness.bound, self._witness.evicted)

    def _place(self, gang: str, sub_group: str) -> str:
        """The last part of the domain that a subgroup lies in."""
        for group in self._look().groups:
            rows = (group.get("status") or {}).get("subGroups") or ()
            for row in rows if _is_like(group, gang) else ():
                if row["name"] == sub_group and row.get("domain"):
                    return str(row["domain"]).rpartition("/")[2]
        raise BadScenario(f"{gang}/{sub_group} lies in no domain", "name a subgroup that is placed and constrained")

    def _pause(self, seconds: float) -> None:
        if self._stopped.wait(max(0.0, seconds)):
            raise Interrupted("the story was stopped")

    # Scenario files.

    def _take_by_take(self) -> None:
        """Each step of a scenario once, in as many playings as it takes; see `takes`."""
        found = takes(self._tale)
        for number, take in enumerate(found, start=1):
            title = self._tale.claim + (f" (playing {number} of {len(found)})" if len(found) > 1 else "")
            self._teller.title(title)
            if number > 1:
                self._cast.call(self._clear)
                self._rest(STILL_S, time.monotonic() + 10.0, "the cluster is cleared")
            elif self._tale.why:
                self._teller.says(self._tale.why)
            steps = Steps(take.story.steps, self._cast.server, muster=user_name(NAMESPACE))
            for at, step in enumerate(take.story.steps):
                if step.says:
                    self._teller.says(step.says)
                self._cast.call(partial(self._step, take.story, steps, at))
                still = self._rest(REST_S, time.monotonic() + _LONGEST_S, "nothing moves any more")
                faults = self._cast.call(partial(steps.judge, at))
                faults += [] if still else [f"something still moves after {_LONGEST_S:g} s"]
                left_out = steps.left_out(at)
                says = f"step {take.numbers[at]} is as expected" + (f" ({left_out})" if left_out else "")
                self._tell(Result(self._tale.claim, says, not faults, "", tuple(faults)))
            self._cast.call(steps.end)
        for what in ("gangs", "map"):
            self._show(what)

    def _step(self, story: Story, steps: Steps, at: int) -> None:
        """All that a step brings comes at one instant."""
        if at == 0:
            there = Objects(**{name: getattr(story, name) for name in Objects.__struct_fields__})
            self._cast.happen(Happening(at=0.0, apply=there))
        steps.happen(at)

    def _clear(self) -> None:
        """All that a story brought is gone."""
        send = stage.sender(self._cast.server)
        for kind in ("Pod", "PodGroup", "Topology", "Node", "PodDisruptionBudget", "Queue"):
            for one in send("GET", stage.folder_of(kind, ""))[1]["items"]:
                space, name = one["metadata"].get("namespace", ""), one["metadata"]["name"]
                if not one["metadata"].get("labels", {}).get("app.kubernetes.io/part-of") or kind != "Queue":
                    send("DELETE", f"{stage.folder_of(kind, space)}/{name}?gracePeriodSeconds=0")


def _there(seen: Seen) -> str:
    """The cluster in a line."""
    gpus = {str(((one.get("status") or {}).get("allocatable") or {}).get(GPU, "0")) for one in seen.nodes}
    said = [plural(len(seen.nodes), "node") + (f" of {gpus.pop()} GPUs" if len(gpus) == 1 else "")]
    levels = [one["nodeLabel"] for topology in seen.topologies[:1] for one in topology["spec"]["levels"]]
    labels = [one["metadata"].get("labels") or {} for one in seen.nodes]
    for at, level in enumerate(levels, start=1):
        paths = {tuple(one.get(label, "") for label in levels[:at]) for one in labels}
        said.append(plural(sum(all(path) for path in paths), level.rpartition("/")[2]))
    queues = sorted(one["metadata"]["name"] for one in seen.queues)
    return f"{', '.join(said)}; queues: {', '.join(queues)}"


def _is_like(group: dict[str, Any], pattern: str) -> bool:
    name = group["metadata"]["name"]
    return fnmatchcase(name, pattern) or fnmatchcase(f"{group['metadata'].get('namespace')}/{name}", pattern)
