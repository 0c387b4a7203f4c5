"""Judges evictions (SPEC §8, §11.5, 6): those that a process sends after it read the pods are one decision.

Whether they were right is asked of every state between the reading and the sending: one will do.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from muster.api.tree import NONE, satisfied
from muster.sim.binds import LATER, MOST_TRIES, UNDER_WAY_S, Binds, is_refused
from muster.sim.books import Books, summed
from muster.sim.facts import (
    FIRM,
    PLACED,
    SEMI,
    WAITING,
    Group,
    Key,
    Member,
    preemptibility_of,
)
from muster.sim.sight import Sight
from muster.sim.staleness import Look, Staleness, is_there

# So long a reading is good for, while room is being reserved; so long after the last of them all evictions have left.
READ_S, TOGETHER_S = 60.0, 12.0
# Who ends so soon after its first eviction may have had more to send.
_HALFWAY_S = 2.0
# So soon a client sends again what the server was too busy for. Who decides anew leaves the pod alone for longer.
_AGAIN_S = 3.0
Broken = Callable[[str, str], None]


class Decision(NamedTuple):
    """Evictions that a process sent after one reading of the pods at `read_s`, by gang and uid."""

    process: int
    read_s: float
    at_s: float
    pods: dict[Key, dict[str, Member]]
    # How much later than it happened the process may have seen something.
    lag_s: float = 0.0
    # By uid: when it was sent for the first time.
    sent: Mapping[str, float] = {}
    # Whether the process ended so soon that it may have had more to send; and whether more were to go by its plans.
    ended: bool = False
    cut_short: bool = False


class Evictions:
    """All evictions of a story."""

    def __init__(self, books: Books, sight: Sight, binds: Binds, broken: Broken) -> None:
        self._books, self._sight, self._binds, self._broken = books, sight, binds, broken
        self._staleness = Staleness(books, sight)
        # When each process asked for a consistent list of the pods of a namespace.
        self._read: dict[tuple[int, str], float] = {}
        self._open: dict[int, Decision] = {}
        # By uid: when it was told to go, and when it was known that it was refused.
        self._sent: dict[str, float] = {}
        self._refused: dict[str, float] = {}
        # By uid: when it was written on a pod that it goes. It is deleted when that is answered with a yes.
        self._announced: dict[str, float] = {}
        # By process and uid: how often it was sent since somebody decided so, and when the answer was "later".
        self._tries: dict[tuple[int, str], tuple[int, float]] = {}
        # By process and pod: when it was last planned that it goes.
        self._planned: dict[tuple[int, Key], float] = {}

    # What is told.

    def planned(self, process: int, pods: Collection[Key], now_s: float) -> None:
        """A process has decided that pods go; which of them it tells so is another matter."""
        for pod in pods:
            self._planned[process, pod] = now_s

    def read(self, process: int, namespace: str, asked_s: float, now_s: float) -> None:
        """A process has read the pods of a namespace, as they were after it asked for them."""
        decision = self._open.get(process)
        if decision is not None and decision.at_s < now_s:
            self._close(process)
        self._read[process, namespace] = asked_s

    def send(self, process: int, pod: Member, now_s: float) -> None:
        """An eviction leaves a process."""
        self._sent[pod.uid] = self._binds.evicted[pod.uid] = now_s
        self._refused.pop(pod.uid, None)
        tries, later_s = self._tries.get((process, pod.uid), (0, 0.0))
        is_again = 0 < tries < MOST_TRIES and later_s <= now_s < later_s + _AGAIN_S
        self._tries[process, pod.uid] = tries + 1 if is_again else 1, float("inf")
        if is_again:
            # The client repeats what the server was too busy for: it belongs to the decision that it was sent with.
            return
        name = "/".join(pod.key)
        if pod.gang is None:
            self._broken("§8", f"pod {name} is evicted and belongs to no gang")
            return
        read_s = self._read.get((process, pod.key[0]))
        if read_s is None or now_s - read_s > READ_S:
            when = "never" if read_s is None else f"at {read_s:.3f} s"
            self._broken("S6", f"pod {name} is evicted, and muster-{process} read the pods of its namespace {when}")
            read_s = now_s
        decision = self._open.get(process)
        if decision is None:
            lag_s = now_s - self._sight.since_s(process, now_s, now_s - read_s)
            decision = self._open[process] = Decision(process, read_s, now_s, {}, lag_s)
        decision.pods.setdefault(pod.gang, {})[pod.uid] = pod
        self._open[process] = decision._replace(sent={pod.uid: now_s, **decision.sent})

    def announced(self, uid: str, now_s: float) -> None:
        """A process writes on a pod that it goes."""
        self._announced[uid] = now_s

    def answered(self, process: int, uid: str, status: int | None, now_s: float) -> None:
        """An answer to an eviction reaches a process."""
        tries, _ = self._tries.pop((process, uid), (0, 0.0))
        if status in LATER:
            self._tries[process, uid] = tries, now_s
        if is_refused(status):
            self._refused[uid] = now_s
            self._binds.evicted.pop(uid, None)

    def tick(self, now_s: float) -> None:
        """Time has gone on."""
        for process, decision in list(self._open.items()):
            if now_s > decision.at_s + TOGETHER_S:
                self._close(process)

    def ended(self, process: int, now_s: float) -> None:
        """A process may have ended in the middle of a decision."""
        self._tries = {key: known for key, known in self._tries.items() if key[0] != process}
        decision = self._open.get(process)
        if decision is not None:
            ended = now_s - decision.at_s < _HALFWAY_S
            cut_short = ended and self._had_more_to_send(decision)
            self._open[process] = decision._replace(ended=ended, cut_short=cut_short)
            self._close(process)
        self._planned = {key: at_s for key, at_s in self._planned.items() if key[0] != process}

    def _had_more_to_send(self, decision: Decision) -> bool:
        """Whether anybody else was to go by what was planned since the pods could have been read."""
        sent = {pod.key for pods in decision.pods.values() for pod in pods.values()}
        return any(
            process == decision.process and at_s > decision.at_s - READ_S and pod not in sent
            for (process, pod), at_s in self._planned.items()
        )

    def settle(self) -> None:
        """It is over: everything is judged."""
        for process in list(self._open):
            self._close(process)

    def _close(self, process: int) -> None:
        decision = self._open.pop(process)
        for gang, pods in decision.pods.items():
            wrong = self._wrong(decision, gang, pods)
            if wrong is not None:
                names = ", ".join(sorted(pod.key[1] for pod in pods.values()))
                said = f"gang {'/'.join(gang)}: evictions of {names} were sent at {decision.at_s:.3f} s, {wrong[1]}"
                self._broken(wrong[0], said)

    # What is judged.

    def _wrong(self, decision: Decision, gang: Key, pods: dict[str, Member]) -> tuple[str, str] | None:
        """The rule that is broken however things stood; None: there is a state in which all was right."""
        first: tuple[str, str] | None = None
        for moment in self._moments(decision):
            wrong = self._wrong_at(decision, gang, pods, moment)
            if wrong is None:
                return None
            first = first or wrong
        return first

    def _moments(self, decision: Decision) -> Iterator[float]:
        """The moment of sending, and all before it back to the reading."""
        yield decision.at_s
        for moment in self._books.moments(decision.read_s):
            if moment is not None and moment <= decision.at_s:
                yield moment

    def _wrong_at(
        self, decision: Decision, gang: Key, pods: dict[str, Member], moment: float
    ) -> tuple[str, str] | None:
        """Right both with the pods that are on their way and without those that may not come."""
        group = self._books.group(gang, moment)
        loose = {uid for uid, pod in pods.items() if self._is_loose(pod, moment)}
        if loose == pods.keys():
            return self._for_nobody(decision, gang, moment, loose=True)
        if group is None or group.tree is None:
            return "§11.5", "and there is no such gang"
        members, first = self._books.gang(gang, moment), None
        flying = self._binds.flying(members, decision.process, moment)
        sure = self._binds.flying(members, decision.process, moment, for_sure=True)
        # Pods are read before anybody goes, nodes are not: those that are gone may be seen a little longer.
        for late_s in dict.fromkeys((0.0, decision.lag_s)):
            states = [self._placed(group, more, moment, late_s) for more in ((flying, sure) if flying else (flying,))]
            wrong = [self._wrong_with(group, decision, placed, pods, moment) for placed in states]
            found = next((one for one in wrong if one is not None), None)
            if found is None:
                return None
            first = first or found
        return first

    def _is_loose(self, pod: Member, moment: float) -> bool:
        """Whether no gang counts a pod that muster bound: it was bound for another one, or has no place in its own."""
        group = self._books.group(pod.gang, moment) if pod.gang is not None else None
        if pod.mark is None or not pod.node:
            return False
        return not self._books.is_of(pod, moment) or (group is not None and group.leaf_of(pod) == NONE)

    def _wrong_with(
        self, group: Group, decision: Decision, placed: dict[str, Member], pods: dict[str, Member], moment: float
    ) -> tuple[str, str] | None:
        """Right for somebody else, or because of staleness."""
        gone = {uid for uid in pods if uid in placed}
        wrong = self._unlawful(group, decision, placed, gone, moment)
        if wrong is None:
            return None
        # As it was, and as it was seen by one whose watches were late; and with what was sent at that moment.
        sent = self._binds.flying(self._books.gang(group.key, moment), decision.process, decision.at_s)
        looks = (Look(decision.process, decision.at_s, lag_s) for lag_s in (0.0, decision.lag_s))
        for look, come in product(looks, ((), sent.values())):
            stale = self._staleness.rows(group, look, come)
            if not self._unlawful_beside(stale, group, decision, placed, gone, moment):
                return None
        return wrong

    def _unlawful_beside(
        self,
        stale: list[int],
        group: Group,
        decision: Decision,
        placed: dict[str, Member],
        gone: set[str],
        moment: float,
    ) -> tuple[str, str] | None:
        """What is wrong with evictions beside those of stale tree nodes, which go whole."""
        assert group.tree is not None
        for row in stale:
            leaves = group.tree.leaves_below(row)
            there = {uid for uid, pod in placed.items() if group.leaf_of(pod) in leaves}
            stay = {uid for uid in there - gone - self._leaving(decision) if placed[uid].state == PLACED}
            if there & gone and (decision.cut_short or not stay):
                gone = gone - there
                placed = {uid: pod for uid, pod in placed.items() if uid not in there}
        return self._unlawful(group, decision, placed, gone, moment)

    def _unlawful(
        self,
        group: Group,
        decision: Decision,
        placed: dict[str, Member],
        gone: set[str],
        moment: float,
    ) -> tuple[str, str] | None:
        """What is wrong with evictions for somebody else."""
        if not gone:
            return None
        if group.wrong:
            return "§11.5", f"and it is invalid: {group.wrong}"
        firm = self._firm(group, list(placed.values()), gone, moment)
        if firm:
            return "S5", firm
        more = gone | (self._leaving(decision) & placed.keys())
        halved = "" if decision.cut_short else self._halved(group, placed, gone, moment)
        if halved and (more == gone or self._halved(group, placed, more, moment)):
            return "S5", halved
        return self._for_nobody(decision, group.key, moment)

    def _placed(self, group: Group, flying: Mapping[str, Member], moment: float, late_s: float) -> dict[str, Member]:
        """Placed pods as the process had to count them: also those that it has sent on their way, and those on nodes
        that it saw so late.
        """
        return {
            uid: pod
            for uid, pod in self._books.gang(group.key, moment).items()
            if group.leaf_of(pod) != NONE
            and (pod.state == PLACED or uid in flying)
            and self._books.is_of(pod, moment)
            and is_there(self._books, flying.get(uid, pod).node, moment, late_s)
        }

    def _leaving(self, decision: Decision) -> set[str]:
        """Pods that were told to go before, and may not have heard it yet."""
        return self._going(decision, decision.at_s)

    def _going(self, decision: Decision, until_s: float) -> set[str]:
        """Pods that were told to go until then, as far as whoever decided could believe it when it read the pods."""
        never_s = float("inf")
        return {
            uid
            for uid, at_s in self._sent.items()
            if decision.at_s - UNDER_WAY_S < at_s <= until_s and self._refused.get(uid, never_s) >= decision.read_s
        }

    # Evictions for somebody.

    def _firm(self, group: Group, placed: list[Member], gone: set[str], moment: float) -> str:
        """Pods that are nobody's to evict."""
        what = preemptibility_of(group, self._books.priority(group, moment))
        if what == FIRM:
            return "and it is non-preemptible, and not stale"
        if what != SEMI:
            return ""
        by_leaf: dict[int, list[Member]] = {}
        for pod in sorted(placed, key=lambda one: one.age):
            by_leaf.setdefault(group.leaf_of(pod), []).append(pod)
        core = self._books.core(group, by_leaf, moment)
        names = ", ".join(sorted(pod.key[1] for pod in placed if pod.uid in core & gone))
        return f"and {names} is core of a semi-preemptible gang that is not stale" if names else ""

    def _halved(self, group: Group, placed: dict[str, Member], gone: set[str], moment: float) -> str:
        """What was satisfied stays so, or goes whole; what is below its minimum goes whole, or not at all."""
        tree = group.tree
        assert tree is not None
        have = [0] * len(tree.nodes)
        left = [0] * len(tree.nodes)
        for uid, pod in placed.items():
            have[group.leaf_of(pod)] += 1
            left[group.leaf_of(pod)] += uid not in gone
        succeeded = self._books.succeeded(group, moment)
        met = satisfied(tree, [one + more for one, more in zip(have, succeeded, strict=True)])
        after = satisfied(tree, [one + more for one, more in zip(left, succeeded, strict=True)])
        for row in range(len(left) - 1, 0, -1):
            left[tree.nodes[row].parent] += left[row]
        if not met[0]:
            return f"and it is below its minimum and {left[0]} pods stay" if left[0] else ""
        for row, node in enumerate(tree.nodes):
            # What is inside a broken child is left over, whatever it is.
            met[row] = met[row] and (node.parent == NONE or met[node.parent])
            if met[row] and not after[row] and left[row]:
                return f"and {node.name or 'it'} is left with {left[row]} pods, below its minimum"
        losing = {group.leaf_of(placed[uid]) for uid in gone}
        joined = self._books.joined(group, have, moment, self._books.left(group, moment))
        for row, is_joined in enumerate(joined):
            loses = not losing.isdisjoint(tree.leaves_below(row))
            if is_joined and loses and not after[row] and left[tree.nodes[row].parent]:
                return f"and {tree.nodes[row].name} goes without what it has joined"
        return ""

    def _for_nobody(
        self, decision: Decision, loser: Key, moment: float, *, loose: bool = False
    ) -> tuple[str, str] | None:
        """§11.6: somebody whose minimum is then placed has room reserved on nodes that have it, once these are gone.

        Pods that are `loose` may go for the gang that they name. Their priority is not known here.
        """
        why = "no gang has room reserved"
        # Decisions that were reserved for at the same time look like one: each is judged when its own was sent.
        at_s = min((decision.sent[uid] for uid in decision.pods[loser]), default=decision.at_s)
        decision = decision._replace(at_s=max(at_s, decision.at_s))
        for gang, known in self._books.groups.items():
            # What it says may have become something else while room was reserved for it.
            for group in known.between(decision.read_s, decision.at_s) if gang != loser or loose else ():
                wrong = self._unhelped(group, decision, moment) if group is not None else None
                if wrong == "" and group is not None and not loose:
                    wrong = self._no_right(group, loser, decision)
                if wrong == "":
                    return None
                why = wrong or why
        return "§11.6", f"for nobody: {why}"

    def _no_right(self, group: Group, loser: Key, decision: Decision) -> str:
        """§8: in one queue only who has the higher priority takes room; who is moved keeps room elsewhere. What may be
        reclaimed from another queue the judge does not know: the oracle of the tests does.
        """
        books, at_s = self._books, decision.at_s
        for other in books.groups[loser].between(decision.read_s, at_s):
            if (
                other is None
                or books.queue_of(other, at_s) != books.queue_of(group, at_s)
                or other.kept
                or books.priority(other, at_s) < books.priority(group, at_s)
            ):
                return ""
        return f"{'/'.join(group.key)} is in the same queue and has no higher priority"

    def _unhelped(self, group: Group, decision: Decision, moment: float) -> str | None:
        """Why a gang that has room reserved is not placed by these evictions; empty: it is. None: it has none."""
        books, at_s, counted = self._books, decision.at_s, list[Member]()
        # What it has reserved itself a process knows before anybody sees it.
        reserved = books.gang(group.key, at_s)
        waiting = [
            pod._replace(nominated=pod.nominated or reserved.get(uid, pod).nominated)
            for uid, pod in books.gang(group.key, moment).items()
            if pod.state == WAITING
        ]
        # Who was sent on its way goes there, whatever was reserved for it before.
        flying = self._binds.flying(books.gang(group.key, moment), decision.process, at_s)
        nominated = [pod for pod in waiting if pod.nominated and group.leaf_of(pod) != NONE and pod.uid not in flying]
        if not nominated or group.tree is None:
            return None
        for pod in waiting:
            # Binds may wait until those have gone on whose part of the queue they count.
            since_s, until_s = at_s - UNDER_WAY_S, at_s + TOGETHER_S
            if pod.nominated or self._binds.was_sent(pod.uid, decision.process, since_s, until_s):
                counted.append(pod)
        counts = books.present(group, moment)
        for pod in counted:
            if group.leaf_of(pod) != NONE:
                counts[group.leaf_of(pod)] += 1
        if decision.ended:
            # Of one that died in the middle of it nobody knows who else was to go.
            return ""
        name = "/".join(group.key)
        if not satisfied(group.tree, counts)[0]:
            return f"{name} has room reserved for less than its minimum"
        lacking = self._lacking(nominated, flying, decision, moment)
        return f"{name} has room reserved, and {lacking}" if lacking else ""

    def _lacking(self, waiting: list[Member], flying: dict[str, Member], decision: Decision, moment: float) -> str:
        """The node that has no room for those that wait for it, when all have come that were sent to it and all have
        gone that are told to.
        """
        books, going = self._books, self._going(decision, decision.at_s + UNDER_WAY_S)
        # A pod that was to be deleted with them counts, as one does whose eviction is refused.
        until_s = decision.at_s + UNDER_WAY_S
        going |= {uid for uid, at_s in self._announced.items() if decision.read_s <= at_s <= until_s}
        for name in sorted({pod.nominated for pod in waiting}):
            node = books.node(name, moment)
            if node is None:
                return f"{name} is not there"
            known = books.holders.get(name)
            here = known.at(moment).values() if known is not None else ()
            there = [pod for pod in here if pod.state == PLACED]
            there += [pod for pod in flying.values() if pod.node == name]
            stay = [pod for pod in there if pod.uid not in going]
            come = [pod for pod in waiting if pod.nominated == name]
            asked = summed([*stay, *come])
            for resource in summed(come):
                lack = asked[resource] - node.has.get(resource, 0)
                if lack > 0:
                    return f"{name} would still lack {lack} of {resource}"
        return ""
