"""What everybody has and may do: shares, limits, runtimes, budgets, and who may reclaim from whom (SPEC §6, §7, §8)."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd
from typing import Any

from oracle.gangs import Document, Gang, Member, charge_of
from oracle.problem import GANG
from oracle.queues import ENDLESS, NOTHING, PARTS, Charge, Tree, plus, total

CONSOLIDATE, RECLAIM, PREEMPT, STALE = ACTIONS = ("consolidate", "reclaim", "preempt", "stale")
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Leaving:
    """A pod that is evicted: by an action, for a gang or nobody, with room kept on a node when it is moved."""

    pod: str
    action: str
    beneficiary: str = ""
    to: str = ""
    # Disruption budgets that it is deleted over, `namespace/name`.
    ignored: tuple[str, ...] = ()


@dataclass
class Done:
    """What a plan does: pods that are sent to a node (or only nominated to it), and pods that go."""

    sent: dict[str, tuple[str, bool]]
    evicted: list[Leaving]

    def going(self, *actions: str) -> set[str]:
        """The pods that go by these actions."""
        return {one.pod for one in self.evicted if one.action in actions}


@dataclass
class Rights:
    """Everything that is written, at one moment."""

    documents: list[Document]
    now: int
    gangs: dict[str, Gang]
    queues: Tree
    # The placed pods that a budget is about, how many of them may go, and its name.
    budgets: list[tuple[frozenset[str], int, str]] = field(default_factory=list)

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
        """Whether its queue or its priority keeps the gang from being tried."""
        if gang.refused or not self.charged(gang):
            return True
        allowed = self.queues.queues[gang.queue].namespaces
        return bool(self.queues.children(gang.queue)) or not ({"*", "default"} & set(allowed))

    def over_limit(self, gang: Gang) -> bool:
        """Whether the gang's queue, or one above it, has more than it may have."""
        above = [(self.holds[name], self.queues.queues[name].limit) for name in self.queues.path(gang.queue)]
        return any(held > most for has, limit in above for held, most in zip(has, limit, strict=True))

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
        pieces = [member.charge[2] for gang in self.gangs.values() for member in [*gang.placed, *gang.waiting]]
        return self.queues.shares(self.capacity, demand, gcd(PARTS, *pieces))

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

    def too_early(self, gang: Gang) -> bool:
        """Whether the gang must wait before others go for it."""
        return gang.delay > 0 and (self.now - gang.since) / 1e9 < gang.delay

    def safe(self, gang: Gang, action: str, beneficiary: Gang, going: Collection[str]) -> bool:
        """Whether the gang's minimum would go, and is protected by its start."""
        left = [member for member in gang.placed if member.name not in going]
        if gang.met(left) or not gang.started or not self.charged(gang):
            return False
        same = action == PREEMPT or (action == CONSOLIDATE and gang.queue == beneficiary.queue)
        runtime = self.queues.runtime(gang.queue, "preempt_runtime" if same else "reclaim_runtime")
        # A start that lies minutes ahead is not believed.
        return -300 < (self.now - gang.started) / 1e9 < runtime

    def _of_budgets(self, going: set[str], done: Done | None = None) -> list[str]:
        """Budgets hold, but for what is deleted over them: by right, and only where they do not allow it."""
        over = {one.pod: one for one in (done.evicted if done is not None else ()) if one.ignored}
        wrong = []
        for selected, allowed, name in self.budgets:
            drawn = selected & going
            ignoring = {pod for pod in drawn if pod in over and name in over[pod].ignored}
            if len(drawn - ignoring) > allowed:
                wrong.append(f"{len(drawn)} pods of {sorted(selected)} go, {allowed} may")
            if len(drawn) <= allowed and ignoring:
                wrong.append(f"{sorted(ignoring)} are deleted over {name}, which allows it")
        return wrong + [fault for one in over.values() if done is not None for fault in self._unowed(one, done)]

    def _unowed(self, one: Leaving, done: Done) -> list[str]:
        """What is wrong with passing over budgets: only a reclaim, for a queue that says so, within its quota."""
        gang, victim = self.gangs[one.beneficiary], self.gang_of[one.pod]
        ours, _ = self.queues.apart(gang.queue, victim.queue)
        sent = [member.charge for member in gang.waiting if member.name in done.sent]
        asked = min(sent, key=lambda charge: charge[::-1]) if gang.met(gang.placed) and sent else total(sent)
        within = all(
            self.holds[name][at] + more <= self.queues.queues[name].quota[at]
            for name in ours
            for at, more in enumerate(asked)
            if more
        )
        asks = any(self.queues.queues[name].ignores_budgets for name in ours)
        return [] if one.action == RECLAIM and asks and within else [f"{one.pod} is deleted over a budget, by no right"]

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
        if not self.queues.written:
            return False
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
        """An unlimited quota is what the parent has, at the top what the cluster has."""
        found = {}
        for name, queue in self.queues.queues.items():
            has = self.shares.get(queue.parent, self.capacity)
            cpu, memory, gpu = (own if own < ENDLESS else all_ for own, all_ in zip(queue.quota, has, strict=True))
            found[name] = (cpu, memory, gpu)
        return found

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

    def _without(self, gone: set[str]) -> dict[str, Charge]:
        return self.allocated(lambda gang: total(one.charge for one in gang.placed if one.name not in gone))

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

        def there(gang: Gang) -> list[Member]:
            """Also what goes, until it is gone."""
            return [*gang.placed, *gang.leaving]

        def bound(gang: Gang) -> list[Member]:
            return [one for one in gang.waiting if one.name in done.sent and not done.sent[one.name][1]]

        def firm_there(gang: Gang, placed: list[Member]) -> Charge:
            """What leaves is core as far as those that are placed are not enough."""
            younger = [replace(one, created=2**62) for one in gang.leaving]
            names = gang.firm([*gang.placed, *younger]) & {one.name for one in gang.leaving}
            return plus(firm(gang, placed), total(one.charge for one in gang.leaving if one.name in names))

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
            (
                "limit until pods are gone",
                self.allocated(lambda gang: total(one.charge for one in there(gang))),
                self.allocated(lambda gang: total(one.charge for one in [*there(gang), *bound(gang)])),
                "limit",
            ),
            (
                "quota until pods are gone",
                self.allocated(lambda gang: firm_there(gang, gang.placed)),
                self.allocated(lambda gang: firm_there(gang, [*gang.placed, *bound(gang)])),
                "quota",
            ),
        ):
            for name, queue in self.queues.queues.items():
                for at in range(3):
                    if now[name][at] > getattr(queue, most)[at] and now[name][at] > before[name][at]:
                        wrong.append(f"queue {name} is raised to {now[name]}, above its {what} {getattr(queue, most)}")
        return wrong
