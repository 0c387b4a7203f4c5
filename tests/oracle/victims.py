"""Who may be evicted for whom, tried out: every set of pods, by the words of SPEC §6, §7, §8, §11. Slow and obvious.

`Cluster.faults` judges what a plan does to others. `Cluster.answers` finds, for one pending gang, every set of pods
whose eviction is allowed and makes room for it.
"""

import copy
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import ceil
from typing import Any

from oracle import enumerate as tried
from oracle.gangs import Document, Gang, Member, charge_of, gangs_of, plain
from oracle.problem import GANG, LEAF, Problem, amount, asked_by, read
from oracle.queues import ENDLESS, NOTHING, Charge, Tree, plus, read_queues, total

CONSOLIDATE, RECLAIM, PREEMPT, STALE = "consolidate", "reclaim", "preempt", "stale"
ENDED = ("Succeeded", "Failed")
SOME_TIME = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Leaving:
    """A pod that is evicted: by an action, for a gang or nobody, with room kept on a node when it is moved."""

    pod: str
    action: str
    beneficiary: str = ""
    to: str = ""


@dataclass
class Done:
    """What a plan does: pods that are sent to a node (or only nominated to it), and pods that go."""

    sent: dict[str, tuple[str, bool]]
    evicted: list[Leaving]

    def going(self, *actions: str) -> set[str]:
        """The pods that go by these actions."""
        return {one.pod for one in self.evicted if one.action in actions}


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


@dataclass
class Cluster:
    """Everything that is written, at one moment."""

    documents: list[Document]
    now: int
    gangs: dict[str, Gang]
    queues: Tree
    budgets: list[tuple[frozenset[str], int]] = field(default_factory=list)

    @cached_property
    def gang_of(self) -> dict[str, Gang]:
        """By the name of a placed pod."""
        return {member.name: gang for gang in self.gangs.values() for member in gang.placed}

    @cached_property
    def member(self) -> dict[str, Member]:
        """Placed and waiting pods by name."""
        return {one.name: one for gang in self.gangs.values() for one in [*gang.placed, *gang.waiting]}

    def charged(self, gang: Gang) -> bool:
        """Whether the gang has a queue that counts what it holds."""
        return gang.queue in self.queues.queues and gang.queue not in self.queues.broken

    def held(self, gang: Gang) -> bool:
        """Whether its queue keeps the gang from being tried."""
        if not self.charged(gang):
            return True
        allowed = self.queues.queues[gang.queue].namespaces
        return bool(self.queues.children(gang.queue)) or not ({"*", "default"} & set(allowed))

    def allocated(self, charge_of_gang: Any) -> dict[str, Charge]:
        """Per queue what `charge_of_gang` says that its gangs have, summed up to the top."""
        found = dict.fromkeys(self.queues.queues, NOTHING)
        for gang in self.gangs.values():
            if self.charged(gang):
                for name in self.queues.path(gang.queue):
                    found[name] = plus(found[name], charge_of_gang(gang))
        return found

    @cached_property
    def holds(self) -> dict[str, Charge]:
        """What the placed pods of every queue hold."""
        return self.allocated(lambda gang: total(one.charge for one in gang.placed))

    @cached_property
    def shares(self) -> dict[str, Charge]:
        """What every queue is due."""
        demand: dict[str, Charge] = {}
        for gang in self.gangs.values():
            if self.charged(gang):
                asks = gang.waiting if gang.ready() and not self.held(gang) else []
                mine = total(one.charge for one in [*gang.placed, *asks])
                demand[gang.queue] = plus(demand.get(gang.queue, NOTHING), mine)
        return self.queues.shares(self.capacity, demand)

    @cached_property
    def capacity(self) -> Charge:
        """What nodes have, without what pods hold that are in no gang."""
        found = NOTHING
        nodes = {one["metadata"]["name"] for one in self.documents if one["kind"] == "Node"}
        for one in self.documents:
            if one["kind"] == "Node":
                asks = {key: value for key, value in one["status"]["allocatable"].items() if key != "pods"}
                found = plus(found, charge_of({"spec": {"containers": [{"resources": {"requests": asks}}]}}))
            elif one["kind"] == "Pod" and not one["metadata"].get("annotations", {}).get(GANG):
                ended = one.get("status", {}).get("phase") in ENDED
                if one["spec"].get("nodeName") in nodes and not ended:
                    found = plus(found, charge_of(one), -1)
        return found

    # What a plan does to others.

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
        wrong += self._of_budgets(set(names))
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

    def too_early(self, gang: Gang) -> bool:
        """Whether the gang must wait before others go for it."""
        return gang.delay > 0 and (self.now - gang.since) / 1e9 < gang.delay

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

    def safe(self, gang: Gang, action: str, beneficiary: Gang, going: Collection[str]) -> bool:
        """Whether the gang's minimum would go, and is protected by its start."""
        left = [member for member in gang.placed if member.name not in going]
        if gang.met(left) or not gang.started or not self.charged(gang):
            return False
        same = action == PREEMPT or (action == CONSOLIDATE and gang.queue == beneficiary.queue)
        runtime = self.queues.runtime(gang.queue, "preempt_runtime" if same else "reclaim_runtime")
        return (self.now - gang.started) / 1e9 < runtime

    def _of_stale(self, gang: Gang, going: set[str], placed: list[Member]) -> list[str]:
        """Stale is what is below its minimum, from the root down, whole; and for long enough."""
        if gang.grace < 0:
            return [f"{gang.name} is never stale"]
        wrong, open_rows, explained = [], [""], set()
        for name in open_rows:
            if gang.met(placed, name):
                open_rows += gang.problem.children.get(name, [])
                continue
            mine = {member.name for member in gang.below(name, placed)}
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

    def _of_budgets(self, going: set[str]) -> list[str]:
        return [
            f"{len(selected & going)} pods of {sorted(selected)} go, {allowed} may"
            for selected, allowed in self.budgets
            if len(selected & going) > allowed
        ]

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

    def _without(self, gone: set[str]) -> dict[str, Charge]:
        return self.allocated(lambda gang: total(one.charge for one in gang.placed if one.name not in gone))

    def may_reclaim(
        self,
        gang: Gang,
        asked: Charge,
        going: Iterable[str],
        mine: dict[str, Charge] | None = None,
        theirs: dict[str, Charge] | None = None,
        *,
        strict: bool = False,
    ) -> bool:
        """Whether these pods may go for a gang of another queue that asks for so much.

        Units go one after the other, the smallest first. `strict`: so by every reading of the rule. What goes whole
        goes pod by pod as far as it is surplus, larger ones first, and all by one and the same of the two rules.
        """
        mine, theirs = mine or self.holds, dict(theirs or self.holds)
        units = self.units_of(going, peeled=strict)
        size = {id(unit): total(one.charge for one in unit)[::-1] for unit in units}
        units.sort(key=lambda unit: size[id(unit)], reverse=strict)
        units.sort(key=lambda unit: strict and len(unit) > 1)
        results = []
        for rules in ((self.shares,), (self._quotas,)) if strict else ((self.shares, self._quotas),):
            left = dict(theirs)
            results.append(all(self._unit_may_go(gang, asked, unit, mine, left, rules) for unit in units))
        return any(results)

    @cached_property
    def _quotas(self) -> dict[str, Charge]:
        return {name: queue.quota for name, queue in self.queues.queues.items()}

    def _unit_may_go(
        self,
        gang: Gang,
        asked: Charge,
        unit: list[Member],
        mine: dict[str, Charge],
        theirs: dict[str, Charge],
        rules: tuple[dict[str, Charge], ...],
    ) -> bool:
        victim = self.gang_of[unit[0].name]
        freed = total(one.charge for one in unit)
        ours, others = self.queues.apart(gang.queue, victim.queue)
        allowed = False
        for due in rules:
            within = all(mine[name][at] + asked[at] <= due[name][at] for name in ours for at in range(3) if asked[at])
            both = [at for at in range(3) if asked[at] and freed[at]]
            above = all(any(theirs[name][at] > due[name][at] for at in both) for name in others)
            allowed = allowed or (within and above)
        for name in self.queues.path(victim.queue):
            theirs[name] = plus(theirs[name], freed, -1)
        return allowed

    def units_of(self, going: Iterable[str], *, peeled: bool = False) -> list[list[Member]]:
        """The units of a set of victims."""
        going = set(going)
        hit = [gang for gang in self.gangs.values() if any(one.name in going for one in gang.placed)]
        return [unit for gang in hit for unit in gang.units(going, peeled=peeled)]

    def _came(self, done: Done) -> dict[str, Charge]:
        return self.allocated(lambda gang: total(one.charge for one in gang.waiting if one.name in done.sent))

    def _of_queues(self, done: Done) -> list[str]:
        """No decision raises a queue above its limit, or its non-preemptible part above quota (invariant 7)."""
        gone = done.going(*ACTIONS)
        back = {one.pod for one in done.evicted if one.to}

        def stays(gang: Gang) -> list[Member]:
            return [one for one in gang.placed if one.name not in gone or one.name in back]

        def after(gang: Gang) -> list[Member]:
            return [*stays(gang), *(one for one in gang.waiting if one.name in done.sent)]

        def firm(gang: Gang, placed: list[Member]) -> Charge:
            names = gang.firm(placed)
            return total(one.charge for one in placed if one.name in names)

        wrong = []
        for what, before, now, most in (
            (
                "limit",
                self.allocated(lambda gang: total(one.charge for one in stays(gang))),
                self.allocated(lambda gang: total(one.charge for one in after(gang))),
                "limit",
            ),
            (
                "quota",
                self.allocated(lambda gang: firm(gang, stays(gang))),
                self.allocated(lambda gang: firm(gang, after(gang))),
                "quota",
            ),
        ):
            for name, queue in self.queues.queues.items():
                for at in range(3):
                    if now[name][at] > getattr(queue, most)[at] and now[name][at] > before[name][at]:
                        wrong.append(f"queue {name} is raised to {now[name]}, above its {what} {getattr(queue, most)}")
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

    def answers(self, name: str, action: str, *, strict: bool = True) -> list[Answer]:
        """Every set of victims that the action allows and that makes the gang's minimum fit."""
        gang = self.gangs[name]
        if self.held(gang) or not gang.ready() or self.too_early(gang):
            return []
        found = []
        for going in self._sets(gang, action):
            if going and self._enough(gang, going, action, strict):
                found.append(Answer(going, self.rank(going)))
        return found

    def fits(self, name: str) -> bool:
        """Whether the minimum fits when nobody is evicted."""
        return self._enough(self.gangs[name], frozenset(), PREEMPT, True)

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
        return victim.queue != gang.queue if action == RECLAIM else True

    def _movable(self, victim: Gang, action: str) -> list[Member]:
        firm = victim.firm(victim.placed)
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

    def _enough(self, gang: Gang, going: frozenset[str], action: str, strict: bool) -> bool:
        """Whether the gang's minimum fits without these pods, within its queue, and by the rules of the action."""
        documents = [one for one in self.documents if one["kind"] != "Pod" or one["metadata"]["name"] not in going]
        problem = _problem(documents, gang.name)
        for placed in tried.placements(problem):
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


ACTIONS = (CONSOLIDATE, RECLAIM, PREEMPT, STALE)


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


def _budget(document: Document, gangs: dict[str, Gang]) -> tuple[frozenset[str], int]:
    """The placed pods that a budget is about, and how many of them may go."""
    spec, wanted = document["spec"], set(document["spec"]["selector"]["matchLabels"].items())
    placed = [one for gang in gangs.values() for one in gang.placed if wanted <= set(one.labels)]
    allowed = document.get("status", {}).get("disruptionsAllowed")
    if allowed is None and "minAvailable" in spec:
        allowed = len(placed) - _share(spec["minAvailable"], len(placed))
    elif allowed is None:
        allowed = _share(spec.get("maxUnavailable", 0), len(placed))
    return frozenset(one.name for one in placed), max(0, allowed)


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


def minimal(answers: list[Answer]) -> list[Answer]:
    """Those from which nothing can be spared."""
    return [one for one in answers if not any(other.pods < one.pods for other in answers)]


__all__ = ["ACTIONS", "ENDLESS", "Answer", "Cluster", "Done", "Leaving", "ending", "minimal", "moved", "of", "plain"]
