"""Who may be evicted for whom, tried out: every set of pods, by the words of SPEC §8 and §11. Slow and obvious.

`Cluster.faults` judges what a plan does to others. `Cluster.answers` finds, for one pending gang, every set of pods
whose eviction is allowed and makes room for it.
"""

import copy
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any

from oracle import enumerate as tried
from oracle.gangs import Document, Gang, Member, gangs_of, plain
from oracle.problem import GANG, LEAF, Problem, amount, asked_by, read
from oracle.queues import plus, read_queues, total
from oracle.rights import ACTIONS, CONSOLIDATE, ENDED, PREEMPT, RECLAIM, STALE, Done, Leaving, Rights

SOME_TIME = "2026-01-01T00:00:00Z"


def ending(document: Document) -> Document:
    """The pod while it terminates."""
    return {**document, "metadata": {**document["metadata"], "deletionTimestamp": SOME_TIME}}


def moved(document: Document, to: str) -> list[Document]:
    """The pod's successor on the node that is kept for it, if there is one."""
    if not to:
        return []
    metadata = {**document["metadata"], "name": document["metadata"]["name"] + ".moved"}
    return [{**document, "metadata": metadata, "spec": {**document["spec"], "nodeName": to}}]


@dataclass(frozen=True)
class Answer:
    """A set of victims that is allowed and enough, and what it counts for (smaller is better)."""

    pods: frozenset[str]
    rank: tuple[Any, ...]


class Cluster(Rights):
    """Everything that is written, at one moment: what a plan does to others, and who could go for one gang."""

    def faults(self, done: Done) -> list[str]:
        """Invariants 5, 6 and 7, and 1 as far as what goes and comes is concerned."""
        names = [one.pod for one in done.evicted]
        wrong = [f"{name} is evicted twice" for name in sorted(set(names)) if names.count(name) > 1]
        wrong += [f"{name} is evicted and not placed" for name in names if name not in self.gang_of]
        if wrong:
            return wrong
        for one in done.evicted:
            wrong += [f"{one.pod}: {fault}" for fault in self._of_one(one, done)]
        for gang in self.gangs.values():
            wrong += self._of_gang(gang, done)
        wrong += self._of_budgets(set(names), done)
        wrong += self._of_reclaims(done)
        return wrong + self._of_queues(done) + self._of_room(done)

    def _of_one(self, one: Leaving, done: Done) -> list[str]:
        """Whether this pod may go for this gang at all."""
        if one.action == STALE:
            return ["goes for nobody, and somebody is named"] if one.beneficiary else []
        if one.action not in (CONSOLIDATE, RECLAIM, PREEMPT):
            return [f"what is {one.action}?"]
        victim, gang = self.gang_of[one.pod], self.gangs.get(one.beneficiary)
        if gang is None:
            return ["goes for nobody"]
        wrong = []
        mine = [pod for pod in done.sent if pod in {member.name for member in gang.waiting}]
        if not any(done.sent[pod][1] for pod in mine):
            wrong.append(f"goes for {gang.name}, which gets no room by it")
        after = [*gang.placed, *(self.member[pod] for pod in mine)]
        if not gang.met([member for member in after if member.name not in done.going(*ACTIONS)]):
            wrong.append(f"goes for {gang.name}, which is below its minimum all the same")
        if gang is victim:
            wrong.append("goes for its own gang")
        if self.too_early(gang):
            wrong.append(f"{gang.name} has not waited for long enough to evict others")
        if one.action == PREEMPT and (victim.queue != gang.queue or victim.priority >= gang.priority):
            wrong.append(f"is preempted by {gang.name} of queue {gang.queue} and priority {gang.priority}")
        if one.action == RECLAIM and victim.queue == gang.queue:
            wrong.append("is reclaimed inside its own queue")
        if one.action == CONSOLIDATE and not (one.to and self.member[one.pod].controlled):
            wrong.append("is moved, and has nowhere to go or nobody who makes it anew")
        if one.action != CONSOLIDATE and one.to:
            wrong.append("is not moved, but room is kept for it")
        return wrong

    def _of_gang(self, gang: Gang, done: Done) -> list[str]:
        """Whether what goes of a gang leaves it whole (invariant 5)."""
        mine = {member.name for member in gang.placed}
        going = done.going(CONSOLIDATE, RECLAIM, PREEMPT) & mine
        bound = [member for member in gang.waiting if member.name in done.sent and not done.sent[member.name][1]]
        wrong = gang.broken_by(going, bound) if going else []
        for one in done.evicted:
            if one.pod in going and self.safe(gang, one.action, self.gangs[one.beneficiary], going):
                wrong.append(f"{gang.name} has not run for long enough to lose its minimum by {one.action}")
                break
        wrong += self._of_moves(gang, done)
        stale = done.going(STALE) & mine
        left = [member for member in gang.placed if member.name not in going]
        return wrong + (self._of_stale(gang, stale, [*left, *bound]) if stale else [])

    def _of_moves(self, gang: Gang, done: Done) -> list[str]:
        """Whether moved pods may go where they are sent, and do not tear apart what lies together."""
        problem, wrong = gang.problem, []
        to = {one.pod: one.to for one in done.evicted if one.to and self.gang_of[one.pod] is gang}
        for member in problem.members:
            if member.name in to and not problem.may_go(member, problem.machines[to[member.name]]):
                wrong.append(f"{member.name} may not go to {to[member.name]}")
        stays = [one for one in problem.members if one.name not in done.going(*ACTIONS) or one.name in to]
        for together in problem.together if to else ():
            before = problem.domains(together, {})
            nodes = {to.get(one.name, one.node) for one in stays if one.leaf in together.leaves} & set(problem.machines)
            after = {problem.domain(together, problem.machines[node]) for node in nodes}
            if len(before) == 1 and (len(after) > 1 or None in after):
                wrong.append(f"{gang.name} is torn apart: {sorted(map(str, after))}")
        return wrong

    def _of_stale(self, gang: Gang, going: set[str], placed: list[Member]) -> list[str]:
        """Stale is what is below its minimum, from the root down, whole; and for long enough."""
        if gang.grace < 0:
            return [f"{gang.name} is never stale"]
        wrong, open_rows, explained = [], [""], set()
        joined = gang.joined(gang.placed)
        for name in open_rows:
            if gang.met(placed, name):
                open_rows += gang.problem.children.get(name, [])
                continue
            top = name
            if name in joined:
                waits = gang.below(name, [one for one in gang.waiting if one not in placed])
                while waits and top and (top in joined or not _stands_without(gang, top)):
                    top = gang.above(top)
                if not waits:
                    continue
            mine = {member.name for member in gang.below(top, placed)}
            if not mine & going:
                continue
            explained |= mine
            since = gang.stale_since.get(name, 0)
            if mine - going:
                wrong.append(f"a part of what is stale in {gang.name} stays: {sorted(mine - going)}")
            if gang.grace > 0 and (not since or (self.now - since) / 1e9 < gang.grace):
                wrong.append(f"{name or gang.name} is not stale for long enough")
            if sum(gang.terminating.get(leaf, 0) for leaf in gang.problem.leaves(name)):
                wrong.append(f"{name or gang.name} misses a pod that still terminates")
        return wrong + ([f"{sorted(going - explained)} are not stale"] if going - explained else [])

    def _of_reclaims(self, done: Done) -> list[str]:
        """What must hold whatever else the cycle placed in the meantime; evictions stand in their order (SPEC §8)."""
        wrong = []
        for name in sorted({one.beneficiary for one in done.evicted if one.action == RECLAIM}):
            gang = self.gangs[name]
            sent = [member.charge for member in gang.waiting if member.name in done.sent]
            # Of several surplus pods one asked for it; others may have come by what was left over then.
            asked = min(sent, key=lambda charge: charge[::-1]) if gang.met(gang.placed) and sent else total(sent)
            going = [one.pod for one in done.evicted if one.action == RECLAIM and one.beneficiary == name]
            names = [one.pod for one in done.evicted]
            before, others = set(names[: names.index(going[0])]), set(names) - set(going)
            came, held = self._came(done), self._without(before)
            theirs = {queue: plus(held[queue], came[queue]) for queue in held}
            if not self.may_reclaim(gang, asked, going, self._without(others), theirs):
                wrong.append(f"{sorted(going)} may not be reclaimed for {name}")
        return wrong

    def _of_room(self, done: Done) -> list[str]:
        """No node is given away twice: neither as it is now, nor when all that goes is gone."""
        wrong = []
        gone = {one.pod: one for one in done.evicted}
        for soon in (False, True):
            room = {one["metadata"]["name"]: dict(_amounts(one)) for one in self.documents if one["kind"] == "Node"}
            touched = set()
            for pod in (one for one in self.documents if one["kind"] == "Pod"):
                name = pod["metadata"]["name"]
                node, nominated = done.sent.get(name, ("", False))
                on = [pod["spec"].get("nodeName", "")]
                if node and (soon or not nominated):
                    on = [node]
                    touched.add(node)
                ended = pod.get("status", {}).get("phase") in ENDED
                if ended or (soon and "deletionTimestamp" in pod["metadata"]):
                    on = []
                if soon and name in gone:
                    on = [gone[name].to]
                    touched.add(gone[name].to)
                for machine in on:
                    for resource, asked in asked_by(pod).items() if machine in room else ():
                        room[machine][resource] = room[machine].get(resource, 0) - asked
            when = "when what goes is gone" if soon else "now"
            for node in sorted(touched & set(room)):
                wrong += [f"{node} is over-committed in {what} {when}" for what, left in room[node].items() if left < 0]
        return wrong

    # Who could go for one gang.

    def answers(self, name: str, action: str, *, strict: bool = True, extra: str = "") -> list[Answer]:
        """Every set of victims that the action allows and that makes the gang's minimum fit, or one `extra` pod."""
        gang = self.gangs[name]
        if self.held(gang) or not gang.ready() or self.too_early(gang):
            return []
        found = []
        for going in self._sets(gang, action):
            if going and self._enough(gang, going, action, strict, extra):
                found.append(Answer(going, self.rank(going)))
        return found

    def fits(self, name: str, extra: str = "") -> bool:
        """Whether the minimum, or one `extra` pod, fits when nobody is evicted."""
        return self._enough(self.gangs[name], frozenset(), PREEMPT, True, extra)

    def rank(self, going: Collection[str]) -> tuple[Any, ...]:
        """Surplus before minimums, the lowest highest priority, the smallest unit, fewest pods, youngest."""
        hit = {self.gang_of[pod].name: self.gang_of[pod] for pod in going}.values()
        falls = any(gang.kind(going) == 3 for gang in hit)
        kind, priority = max(gang.kind(going) for gang in hit), max(gang.priority for gang in hit)
        return falls, priority, kind, len(going), -min(gang.created for gang in hit)

    def units(self, name: str, action: str) -> int:
        """No fewer than the units there are to choose from: every pod that may go, every child and gang of them."""
        eligible = [gang for gang in self.gangs.values() if self._eligible(self.gangs[name], gang, action)]
        movable = [gang for gang in eligible if self._movable(gang, action)]
        return sum(len(self._movable(gang, action)) + len(gang.rows()) for gang in movable)

    def _eligible(self, gang: Gang, victim: Gang, action: str) -> bool:
        if victim is gang or not victim.placed:
            return False
        if action == PREEMPT:
            return victim.queue == gang.queue and victim.priority < gang.priority
        if action == RECLAIM:
            return victim.queue != gang.queue
        # Who is moved must come back.
        return victim.met(victim.placed) and not self.held(victim) and not self.over_limit(victim)

    def _movable(self, victim: Gang, action: str) -> list[Member]:
        firm = victim.firm(victim.placed)
        if victim.preemptibility == "semi-preemptible" and not victim.met(victim.placed):
            # What was its core nobody may know any more; nobody has to take it.
            return []
        return [one for one in victim.placed if one.name not in firm and (action != CONSOLIDATE or one.controlled)]

    def _sets(self, gang: Gang, action: str) -> Iterator[frozenset[str]]:
        """Every set of pods that may go together, as far as trees, runtimes and budgets are concerned."""
        choices = []
        for victim in self.gangs.values():
            if self._eligible(gang, victim, action):
                choices.append(
                    [
                        some
                        for some in _newest_first(self._movable(victim, action))
                        if not some or (not victim.broken_by(some) and not self.safe(victim, action, gang, some))
                    ]
                )
        for chosen in product(*choices):
            going = frozenset().union(*chosen)
            if not self._of_budgets(set(going)):
                yield going

    def _enough(self, gang: Gang, going: frozenset[str], action: str, strict: bool, extra: str = "") -> bool:
        """Whether the gang's minimum fits without these pods, within its queue, and by the rules of the action."""
        documents = [one for one in self.documents if one["kind"] != "Pod" or one["metadata"]["name"] not in going]
        problem = _problem(documents, gang.name)
        for placed in tried.all_of(problem, {extra}) if extra else tried.placements(problem):
            asked = total(self.member[pod].charge for pod in placed)
            if not self._queue_allows(gang, placed, going if action != CONSOLIDATE else frozenset()):
                continue
            if action == RECLAIM and going and not self.may_reclaim(gang, asked, going, strict=strict):
                continue
            if action == CONSOLIDATE and going and not self._all_return(documents, gang, placed, going):
                continue
            return True
        return False

    def _queue_allows(self, gang: Gang, placed: dict[str, str], going: frozenset[str]) -> bool:
        sent = Done({pod: (node, True) for pod, node in placed.items()}, [Leaving(pod, PREEMPT) for pod in going])
        return not self._of_queues(sent)

    def _all_return(self, documents: list[Document], gang: Gang, placed: dict[str, str], going: frozenset[str]) -> bool:
        """Whether every pod that is moved has a place beside the gang's."""
        there = [
            {**one, "spec": {**one["spec"], "nodeName": placed[one["metadata"]["name"]]}}
            if one["kind"] == "Pod" and one["metadata"]["name"] in placed
            else one
            for one in documents
        ]
        hit = sorted({self.gang_of[pod].name for pod in going})
        away = [one for one in self.documents if one["kind"] == "Pod" and one["metadata"]["name"] in going]
        return _return(there, hit, away)


def of(documents: list[Document], now: int) -> Cluster | None:
    """The cluster that the documents tell of; None when they tell of something that the oracle does not know."""
    if not all(map(plain, documents)):
        return None
    gangs = gangs_of(documents)
    topologies = {one["metadata"]["name"] for one in documents if one["kind"] == "Topology"}
    for one in documents:
        annotations = one["metadata"].get("annotations", {})
        if one["kind"] == "Pod" and annotations.get(GANG) and one["spec"].get("nodeName"):
            gang = gangs.get(annotations[GANG])
            leaf = one["metadata"].get("labels", {}).get(LEAF, "")
            if gang is None or (gang.problem.children and leaf not in gang.problem.leaves()):
                return None
        if one["kind"] == "PodGroup" and not topologies and "TopologyLevel" in str(one["spec"]):
            return None
    budgets = [_budget(one, gangs) for one in documents if one["kind"] == "PodDisruptionBudget"]
    return Cluster(documents, now, gangs, read_queues(documents, {gang.queue for gang in gangs.values()}), budgets)


def _stands_without(gang: Gang, name: str) -> bool:
    """Whether everything above a tree node keeps its minimum without it."""
    gone = gang.below(name, gang.placed)
    left = [member for member in gang.placed if member not in gone]
    while name:
        name = gang.above(name)
        if not gang.met(left, name):
            return False
    return True


def _budget(document: Document, gangs: dict[str, Gang]) -> tuple[frozenset[str], int, str]:
    """The placed pods that a budget is about, how many of them may go, and its name."""
    spec, wanted = document["spec"], set(document["spec"]["selector"]["matchLabels"].items())
    placed = [one for gang in gangs.values() for one in gang.placed if wanted <= set(one.labels)]
    allowed = document.get("status", {}).get("disruptionsAllowed")
    if allowed is None and "minAvailable" in spec:
        allowed = len(placed) - _share(spec["minAvailable"], len(placed))
    elif allowed is None:
        allowed = _share(spec.get("maxUnavailable", 0), len(placed))
    name = f"{document['metadata'].get('namespace', 'default')}/{document['metadata']['name']}"
    return frozenset(one.name for one in placed), max(0, allowed), name


def _share(stated: int | str, pods: int) -> int:
    return ceil(int(stated.rstrip("%")) * pods / 100) if isinstance(stated, str) else stated


def _amounts(node: Document) -> dict[str, int]:
    return {name: amount(value) for name, value in node["status"]["allocatable"].items()}


def _problem(documents: list[Document], gang: str) -> Problem:
    """The gang's question once all that terminates is gone."""
    mine = [one for one in documents if one["kind"] != "PodGroup" or one["metadata"]["name"] == gang]
    return read(mine, soon=True)


def _newest_first(members: list[Member]) -> Iterator[frozenset[str]]:
    """Every subset; of pods that are alike, the newest."""
    alike: dict[str, list[str]] = {}
    for member in sorted(members, key=lambda one: one.age, reverse=True):
        alike.setdefault(member.look, []).append(member.name)
    for counts in product(*(range(len(names) + 1) for names in alike.values())):
        yield frozenset(name for names, count in zip(alike.values(), counts, strict=True) for name in names[:count])


def _return(documents: list[Document], gangs: list[str], away: list[Document]) -> bool:
    """Whether pods that were moved all fit somewhere, gang after gang."""
    if not gangs:
        return True
    mine = [one for one in away if one["metadata"]["annotations"][GANG] == gangs[0]]
    waiting = copy.deepcopy(mine)
    for one in waiting:
        del one["spec"]["nodeName"]
        one.pop("status", None)
    problem = _problem([*documents, *waiting], gangs[0])
    names = {one["metadata"]["name"] for one in waiting}
    for placed in tried.all_of(problem, names):
        back = copy.deepcopy(waiting)
        for one in back:
            one["spec"]["nodeName"] = placed[one["metadata"]["name"]]
        if _return([*documents, *back], gangs[1:], away):
            return True
    return False


__all__ = ["Answer", "Cluster", "Done", "Leaving", "ending", "moved", "of", "plain"]
