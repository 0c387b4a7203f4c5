"""Plays a scenario: documents come and go, cycles are run, and what was expected is compared with what was said."""

from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from muster.api.kinds import kind_of, read_object
from muster.plan.cycle import Memory, Policy, schedule
from muster.plan.outcome import ACTIONS, Plan
from muster.plan.reasons import Code
from muster.sim.objects import BEGIN, at
from muster.sim.scenario import Scenario, Step
from muster.snapshot.arrays import Gang
from muster.snapshot.build import Builder, build
from muster.snapshot.world import World
from oracle import victims
from oracle.engine import said
from oracle.problem import read
from scenarios.carry import Document, Key, carried_out, evicted_of, first_name, gone, key_of, sent_of
from scenarios.judge import Judge, members_of

# How long a story goes on after its end: a cycle every ten seconds, until ten of them have changed nothing. Until then
# so many cycles may change something; and when only time made things move again (a grace period, a protection that
# ends), so many more, a few times.
PAUSE, CALM, RESTLESS, AGAIN = 10, 10, 12, 3


class Story:
    """The documents as they are now, a builder that follows them, and the last plan."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.documents: dict[Key, Document] = {}
        self.now = 0
        self._world = World()
        self._builder = Builder(self._world)
        self.plan: Plan | None = None
        self._policy, self._memory = Policy(), Memory()
        # How often the oracle looked at what was sent for a gang, and at what a plan does to others.
        self.judged = 0
        self.judged_evictions = 0
        for document in scenario.all():
            self._apply(document)

    def play(self, see: Callable[[Plan], object] = lambda plan: None) -> None:
        """All steps; the first thing that is not as expected is an AssertionError that says which step."""
        for number, step in enumerate(self.scenario.steps, start=1):
            self._happen(step)
            snapshot = self._builder.build(self.now_ns)
            self.plan, _ = schedule(snapshot, self._policy)
            see(self.plan)
            remembering, self._memory = schedule(snapshot, self._policy, self._memory)
            faults = [*Judge(self.plan, self.documents).faults(step.expect), *self.wrong()]
            faults += [f"with memory: {one}" for one in unlike(done_by(remembering), done_by(self.plan))]
            assert faults == [], f"step {number} {step.says}: " + "; ".join(faults)

    @property
    def now_ns(self) -> int:
        """The time of the story as a snapshot has it."""
        return (int(BEGIN.timestamp()) + self.now) * 10**9

    def _happen(self, step: Step) -> None:
        for pattern in step.delete:
            self._delete(pattern)
        if step.bind:
            self._carry_out()
        if step.now is not None:
            assert step.now >= self.now, "time does not go back"
            self.now = step.now
        if step.gone:
            self._end()
        for document in step.apply.all():
            self._apply(self._as_before(document))
        assert set(step.actions or ()) <= set(ACTIONS), f"actions are {ACTIONS}"
        policy = Policy() if step.actions is None else Policy(actions=frozenset(step.actions))
        if policy != self._policy:
            self._policy, self._memory = policy, Memory()

    def rest(self, see: Callable[[Plan], object] = lambda plan: None) -> None:
        """The story goes on by itself and must come to rest: nobody is evicted again and again (SPEC §8)."""
        assert self.plan is not None
        self._policy, memory = Policy(), Memory()
        calm, restless, again, told = 0, 0, 0, [self._told([])]
        while calm < CALM:
            changed = [*self._carry_out(), *self._end()]
            self.now += PAUSE
            self.plan, memory = schedule(self._builder.build(self.now_ns), self._policy, memory)
            see(self.plan)
            told.append(self._told(changed))
            if changed:
                faults = self.wrong(remembers=True)
                assert faults == [], f"{self.now} s, after the end: " + "; ".join(faults)
                again, restless = again + (calm > 0), (0 if calm else restless) + 1
                assert max(restless - RESTLESS, again - AGAIN) <= 0, self._restless(told)
            calm = 0 if changed else calm + 1

    def _told(self, changed: list[str]) -> list[str]:
        assert self.plan is not None
        sends = {pod: node for (_, pod), node in sent_of(self.plan).items()}
        lines = [
            f"{pod} {'is nominated to' if nominated else 'goes to'} {node}" for pod, (node, nominated) in sends.items()
        ]
        return [f"at {self.now} s", *changed, *sorted(lines), *(f"evicts {one}" for one in evicted_of(self.plan))]

    def _restless(self, told: list[list[str]]) -> str:
        """Who goes and comes, and the last cycles."""
        evicted = [line.split()[1] for lines in told for line in lines if line.startswith("evicts ")]
        often = Counter(first_name(pod)[0] for pod in evicted)
        who = (
            ", ".join(f"{name} ({times} times)" for name, times in sorted(often.items()) if times > 1) or "nobody twice"
        )
        return f"it does not come to rest; evicted again and again: {who}\n" + "\n".join(map(str, told[-8:]))

    def _apply(self, document: Document) -> None:
        _take(self._world, document)
        self.documents[key_of(document)] = document

    def _as_before(self, document: Document) -> Document:
        """A PodGroup that comes again with another spec is still as old as it was, and keeps its status."""
        before = self.documents.get(key_of(document))
        if document["kind"] != "PodGroup" or before is None or "status" in document:
            return document
        kept = {name: value for name, value in before["metadata"].items() if name not in document["metadata"]}
        status = {"status": before["status"]} if "status" in before else {}
        return {**document, "metadata": {**document["metadata"], **kept}, **status}

    def _delete(self, pattern: str) -> None:
        kind, _, rest = pattern.partition("/")
        namespace, _, name = rest.rpartition("/")
        found = [
            key
            for key in self.documents
            if key[0].lower() == kind.lower() and key[1] == (namespace or "default") and fnmatchcase(key[2], name)
        ]
        assert found, f"nothing to delete: {pattern}"
        for key in found:
            self._remove(key)

    def _remove(self, key: Key) -> None:
        _take(self._world, self.documents.pop(key), deleted=True)

    def _carry_out(self) -> list[str]:
        """The last plan has happened; gives what changed."""
        assert self.plan is not None, "there is no plan to carry out yet"
        changed = carried_out(self.plan, self.documents)
        for document in changed:
            self._apply(document)
        return [f"{document['kind']} {document['metadata']['name']} changed" for document in changed]

    def _end(self) -> list[str]:
        """What was terminating is gone, and controllers make anew what they miss; gives what changed."""
        ended, successors = gone(self.documents, at(self.now))
        for key in ended:
            self._remove(key)
        for document in successors:
            self._apply(document)
        made = [f"{document['metadata']['name']} is made" for document in successors]
        return [*(f"{key[2]} is gone" for key in ended), *made]

    def wrong(self, *, remembers: bool = False) -> list[str]:
        """Whatever is expected: the order of documents means nothing, and neither the oracle nor the check that stands
        behind every decision finds a fault (SPEC §11).

        A plan that `remembers` may give the reason of an earlier no, which is true still, but not of today.
        """
        assert self.plan is not None
        backwards = World()
        for document in reversed(list(self.documents.values())):
            _take(backwards, document)
        again, _ = schedule(build(backwards, self.now_ns), self._policy)
        what, telling = ("a fresh start", done_by) if remembers else ("another order of documents", said)
        wrong = [f"{what}: {one}" for one in unlike(telling(self.plan), telling(again))]
        wrong += [fault for gang in self.plan.snapshot.gangs for fault in self._faults(gang)]
        reasons = [reason for one in self.plan.outcomes for reason in one.reasons]
        wrong += [f"it refuses itself: {one.detail}" for one in reasons if one.code == Code.SCHEDULER_ERROR]
        return wrong + self._unlawful()

    def _faults(self, gang: Gang) -> list[str]:
        """The oracle's check of what is sent for a gang, the rest of the plan being carried out."""
        assert self.plan is not None
        sent = sent_of(self.plan)
        mine = {name: node for (space, name), (node, _) in sent.items() if (space, name) in members_of(gang)}
        if not mine or not all(map(victims.plain, self.documents.values())):
            return []
        evicted = {one.pod: one for one in evicted_of(self.plan)}
        others = []
        for (kind, space, name), document in self.documents.items():
            if kind == "PodGroup" and name != gang.key[1]:
                continue
            if kind == "Pod" and (space, name) in sent and name not in mine:
                others.append({**document, "spec": {**document["spec"], "nodeName": sent[space, name][0]}})
            elif kind == "Pod" and (space, name) in evicted:
                others += [victims.ending(document), *victims.moved(document, evicted[space, name].to)]
            else:
                others.append(document)
        self.judged += 1
        waited = any(nominated for _, nominated in sent.values())
        return [f"{gang.key[1]}: {fault}" for fault in read(others, soon=waited).faults(mine)]

    def _unlawful(self) -> list[str]:
        """The oracle's check of what the plan does to others, and to queues."""
        assert self.plan is not None
        cluster = victims.of(list(self.documents.values()), self.now_ns)
        if cluster is None:
            return []
        self.judged_evictions += bool(self.plan.evictions)
        done = victims.Done(
            sent={pod: where for (_, pod), where in sent_of(self.plan).items()},
            evicted=[
                victims.Leaving(
                    one.pod[1], one.action, one.beneficiary[1] if one.beneficiary else "", one.to, one.ignored
                )
                for one in evicted_of(self.plan)
            ],
        )
        return cluster.faults(done)


def done_by(plan: Plan) -> dict[str, Any]:
    """All of a plan but its reasons: who remembers a no may give the reason of then."""
    found = said(plan)
    for outcome in found["outcomes"].values():
        del outcome["reasons"]
    return found


def unlike(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two plans differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted({*one, *other})
        return [line for key in keys for line in unlike(one.get(key), other.get(key), f"{path}/{key}")]
    return [] if one == other else [f"{path} is {one}, not {other}"]


def _take(world: World, document: Document, *, deleted: bool = False) -> None:
    found, problems = read_object(document, kind_of(document))
    world.apply(found, deleted=deleted, error=f"{problems[0].path} {problems[0].message}" if problems else "")
