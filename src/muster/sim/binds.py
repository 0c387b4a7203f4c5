"""Judges binds (SPEC §11.1–4, 7): each when it takes effect, and those of a gang that were sent together as one.

What others did a moment ago excuses a process that could not have seen it. What muster itself did excuses nothing.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from muster.api.tree import NONE, satisfied
from muster.kube.client import Limits
from muster.sim import facts, volumes
from muster.sim.apart import document_of, means, terms_of
from muster.sim.books import CHARGES, NODES, PODS, Books, charge_of, charged, is_muster, shown, summed
from muster.sim.facts import PLACED, SUCCEEDED, WAITING, Document, Group, Key, Member, Node
from muster.sim.sight import Sight
from muster.sim.wire import UNSENT

# So long after the first bind of a decision the last one has left, unless there are more than may go at a time; then
# they wait for answers.
TOGETHER_S = 0.02
AT_A_TIME, PATIENCE_S = 32, 12.0
# So long a request may be under way.
UNDER_WAY_S = 17.0
# A conflict says no more than no answer, or a 5xx: the pod may be bound, even by us.
_OPEN = 409
# After these a client tries again, so often in all.
LATER, MOST_TRIES = (UNSENT, 429), Limits().attempts
# Told of a broken rule: which, and how.
Broken = Callable[[str, str], None]


class Sent(NamedTuple):
    """A bind on its way, until its process knows what became of it, and whether it was done. `pod` is its key."""

    process: int
    at_s: float
    node: str
    pod: Key = ("", "")
    known_s: float = float("inf")
    done: bool = False
    # It was under way when its process ended.
    orphan: bool = False


class Decision(NamedTuple):
    """Binds of one gang that one process sent at a time."""

    process: int
    gang: Key
    at_s: float
    pods: dict[str, Member]


class Binds:
    """All binds of a story. A check answers with what is wrong, given how things stood at a moment (None: now)."""

    def __init__(self, books: Books, sight: Sight, broken: Broken, *, elects: bool = True) -> None:
        self._books, self._sight, self._broken, self._elects = books, sight, broken, elects
        # By uid, all that was sent for a pod; and decisions that are not judged yet.
        self._sent: dict[str, list[Sent]] = {}
        self._open: dict[tuple[int, Key], Decision] = {}
        # Per process: the pods whose binds were not answered yet, and those whose answer left it open.
        self._unanswered: dict[int, set[str]] = {}
        self._open_still: dict[int, set[str]] = {}
        # When each process sent binds.
        self._times: dict[int, list[float]] = {}
        # When a bind was last sent for a gang.
        self.last_s: dict[Key, float] = {}
        # Pods that muster told to go, since when.
        self.evicted: dict[str, float] = {}

    # What is told.

    def send(self, process: int, pod: Member, node: str, now_s: float) -> None:
        """A bind leaves a process."""
        is_again = self._tries(process, pod.uid) > 0
        self._sent.setdefault(pod.uid, []).append(Sent(process, now_s, node, pod.key))
        self._unanswered.setdefault(process, set()).add(pod.uid)
        self._times.setdefault(process, []).append(now_s)
        if pod.gang is None:
            self._broken("§11.4", f"pod {_name(pod)} is bound to {node} and belongs to no gang")
            return
        self.last_s[pod.gang] = now_s
        if is_again:
            # The client repeats what the server was too busy for.
            return
        decision = self._open.get((process, pod.gang))
        if decision is None:
            decision = self._open[process, pod.gang] = Decision(process, pod.gang, now_s, {})
        decision.pods[pod.uid] = pod

    def answered(self, process: int, uid: str, status: int | None, now_s: float) -> None:
        """An answer to a bind reaches a process."""
        if status in LATER and self._tries(process, uid) < MOST_TRIES:
            # The client sends it again by itself: nobody decides anew, and nobody knows more.
            return
        self._unanswered.get(process, set()).discard(uid)
        if status is not None and status != _OPEN and status < 500:
            self._learned(process, uid, now_s, done=200 <= status < 300)
        else:
            self._open_still.setdefault(process, set()).add(uid)

    def planned(self, process: int, pods: Collection[Key], now_s: float) -> None:
        """A process has decided to bind pods. What it had sent for them before it does not send again: a client gives
        up without an answer when its process does not lead any more.
        """
        for key in pods:
            pod = self._books.pods.get(key)
            if pod is not None and self._tries(process, pod.uid):
                self._learned(process, pod.uid, now_s, done=False)

    def _tries(self, process: int, uid: str) -> int:
        """How often it was sent since somebody decided so."""
        return sum(one.process == process and one.known_s == float("inf") for one in self._sent.get(uid, ()))

    def read(self, process: int, namespace: str | None, name: str | None, now_s: float) -> None:
        """A process has read a pod, or all of a namespace: it knows what became of its binds there. What is still under
        way may yet be done.
        """
        for uid in sorted(self._open_still.get(process, ())) if namespace is not None else ():
            key = self._sent[uid][-1].pod
            if key[0] == namespace and name in (None, key[1]):
                pod = self._books.pods.get(key)
                self._learned(process, uid, now_s, done=pod is not None and pod.uid == uid and bool(pod.node))
        there = (pod for key, pod in self._books.pods.items() if key[0] == namespace and name in (None, key[1]))
        for pod in there if namespace is not None and self.evicted else ():
            if pod.state == PLACED:
                # It was told to go, and stays.
                self.evicted.pop(pod.uid, None)

    def _learned(self, process: int, uid: str, now_s: float, *, done: bool) -> None:
        self._open_still.get(process, set()).discard(uid)
        self._sent[uid] = [
            one._replace(known_s=now_s, done=done) if one.process == process and one.known_s > now_s else one
            for one in self._sent[uid]
        ]

    def tick(self, now_s: float) -> None:
        """Time has gone on: decisions that were sent are judged."""
        for key, decision in list(self._open.items()):
            if now_s > decision.at_s + TOGETHER_S and now_s > self._until_s(decision):
                del self._open[key]
                self._judge(decision)

    def ended(self, process: int, now_s: float) -> None:
        """What a process did not live to send says nothing."""
        for key in [key for key in self._open if key[0] == process]:
            del self._open[key]
        for uid in sorted(self._unanswered.pop(process, set()) | self._open_still.pop(process, set())):
            self._learned(process, uid, now_s, done=False)
            last = self._sent[uid][-1]
            self._sent[uid][-1] = last._replace(orphan=last.process == process)

    def settle(self) -> None:
        """It is over: everything is judged."""
        for decision in self._open.values():
            self._judge(decision)
        self._open.clear()

    def take_effect(self, pod: Member, now_s: float) -> None:
        """A pod has its node."""
        sent = self._last_sent(pod, now_s)
        since_s = self._sight.since_s(sent.process, sent.at_s)
        # Watches of different kinds are not equally late: a fresh one is no excuse for what another did not show.
        nodes_s, pods_s = (self._sight.since_s(sent.process, sent.at_s, kinds=(kind,)) for kind in (NODES, PODS))
        sent_at = f"pod {_name(pod)} is bound to {pod.node} (sent at {sent.at_s:.3f} s)"
        alone = (
            *(("S1", self._room(pod, nodes_s, pods_s)), ("§11.2", self._shape(pod, nodes_s))),
            ("§11.13", self._kept_away(pod, nodes_s, pods_s)),
        )
        for rule, says in alone:
            if says:
                self._broken(rule, f"{sent_at}: {says}")
        checks: tuple[tuple[str, Callable[[Member, float | None], str]], ...] = (
            ("S3", lambda one, moment: self._together(one, moment, since_s)),
            ("S7", self._limits),
            ("§4", self._held),
        )
        for rule, check in checks:
            says = check(pod, None)
            if says and all(check(pod, moment) for moment in self._books.moments(since_s)):
                self._broken(rule, f"{sent_at}: {says}")

    def is_orphan(self, uid: str, node: str) -> bool:
        """Whether the last one that sent a pod to this node ended while that was under way: nobody else can know of it.

        Without a Lease nobody waits until what a dead process has sent can't arrive any more.
        """
        found = [one for one in self._sent.get(uid, ()) if one.node == node]
        return bool(found) and found[-1].orphan and not self._elects

    def flying(
        self, members: Mapping[str, Member], process: int, at_s: float, *, for_sure: bool = False
    ) -> dict[str, Member]:
        """Those of a gang's pods that waited, and that a process had sent on their way without having heard of it, or
        having heard that it was done, whatever its watches have shown since; `for_sure`: only these. Each has the node
        that it was sent to.
        """
        found: dict[str, Member] = {}
        for uid, pod in members.items():
            for one in self._sent.get(uid, ()) if pod.state == WAITING else ():
                if one.process == process and one.at_s <= at_s and (one.done or at_s <= one.known_s):
                    if for_sure and not (one.done and one.known_s <= at_s):
                        continue
                    found[uid] = pod._replace(node=one.node)
        return found

    def was_sent(self, uid: str, process: int, since_s: float, until_s: float) -> bool:
        """Whether a process has sent a pod on its way in this time."""
        return any(one.process == process and since_s < one.at_s <= until_s for one in self._sent.get(uid, ()))

    def _last_sent(self, pod: Member, now_s: float) -> Sent:
        """The bind that took effect; of several, the first that may be it."""
        found = [one for one in self._sent.get(pod.uid, ()) if one.node == pod.node]
        recent = [one for one in found if now_s - one.at_s < UNDER_WAY_S] or found[-1:]
        return recent[0] if recent else Sent(NONE, now_s, pod.node)

    def _until_s(self, decision: Decision) -> float:
        times = self._times[decision.process]
        crowd = sum(decision.at_s - PATIENCE_S <= at_s <= decision.at_s + TOGETHER_S for at_s in times)
        return decision.at_s + (PATIENCE_S if crowd >= AT_A_TIME else TOGETHER_S)

    # One bind.

    def _room(self, pod: Member, nodes_s: float, pods_s: float) -> str:
        """§11.1: no node is over-committed, as it and its pods were seen. Own pods that hold room now did so when it
        was decided.
        """
        known = self._books.holders[pod.node]
        own, first = [one for one in known.now.values() if is_muster(one.by)], ""
        for node, held in product(self._seen_nodes(pod.node, nodes_s), known.since(pods_s)):
            others = [one for one in held.values() if not is_muster(one.by)]
            wrong = _over(node, pod, [*own, *others])
            if not wrong:
                return ""
            first = first or wrong
        return first

    def _shape(self, pod: Member, nodes_s: float) -> str:
        """§11.2 and §12: the pod's own rules, those of the node as it was seen, and host ports."""
        if pod.spec.get("schedulingGates"):
            return "it has scheduling gates"
        if field := facts.not_known(pod.spec):
            return f"muster does not know {field} and has to hold it"
        if any(facts.ports_of(pod.spec)):
            for one in self._books.holders[pod.node].now.values():
                taken = facts.clash(pod.spec, one.spec) if one.uid != pod.uid else None
                if taken is not None:
                    return f"the port {taken.number} is taken by {_name(one)}"
        store, space = self._books.store, pod.key[0]
        said = [
            facts.forbids(node, pod.spec) or volumes.forbids(store, space, pod.spec, node)
            if node is not None
            else "the node is not there"
            for node in self._seen_nodes(pod.node, nodes_s)
        ]
        return said[0] if all(said) else ""

    def _kept_away(self, pod: Member, nodes_s: float, pods_s: float) -> str:
        """§12: the required anti-affinity of pods that were seen on their nodes, as those were seen. Of namespaces only
        the names are known here.
        """
        me = document_of(pod)
        for one in self._books.pods.values():
            if one.uid == pod.uid or not one.holds or not (terms := terms_of(one.spec)):
                continue
            seen = self._books.holders[one.node].since(pods_s)
            if not all(any(other.uid == one.uid for other in held.values()) for held in seen):
                continue
            pairs = list(product(self._seen_nodes(pod.node, nodes_s), self._seen_nodes(one.node, nodes_s)))
            for term in terms:
                same = all(_is_shared(term["topologyKey"], *pair) for pair in pairs)
                if same and means(term, document_of(one), me, {}):
                    return f"the anti-affinity of {_name(one)} on {one.node} forbids its {term['topologyKey']}"
        return ""

    def _seen_nodes(self, name: str, since_s: float) -> list[Node | None]:
        """A node as it is, and as it was since then."""
        known = self._books.nodes.get(name)
        return list(known.since(since_s)) if known is not None else [None]

    def _together(self, pod: Member, moment: float | None, since_s: float) -> str:
        """§11.3: one domain of every required level, counting all placed pods, by the labels of that moment; watches of
        Topologies and of nodes are not equally late.
        """
        said = [self._apart(pod, moment, topologies) for topologies in self._books.topologies.since(since_s)]
        return said[0] if all(said) else ""

    def _apart(self, pod: Member, moment: float | None, topologies: Mapping[str, Document]) -> str:
        group = self._gang_of(pod, moment)
        if group is None or group.tree is None:
            return "its gang is not there"
        leaf = group.leaf_of(pod)
        holds = [hold for hold in group.holds if leaf in hold.leaves]
        if not holds:
            return ""
        if self._books.node(pod.node, moment) is None:
            return "the node is not there"
        placed = list(self._books.decided(group.key, moment))
        for hold in holds:
            labels = facts.labels_of(hold.constraint, topologies)
            if labels is None:
                return f"nobody has the required level {hold.constraint.required} of {hold.says}"
            found: dict[tuple[str, ...] | None, str] = {}
            for one in placed:
                node = self._books.node(one.node, moment)
                if group.leaf_of(one) in hold.leaves and node is not None:
                    found.setdefault(facts.domain_of(node, labels), f"{_name(one)} on {one.node}")
            if len(found) > 1 or None in found:
                where = ", ".join(f"{'/'.join(domain or ('none',))} ({who})" for domain, who in found.items())
                return f"{hold.says} requires one {hold.constraint.required} and lies in {where}"
        return ""

    def _limits(self, pod: Member, moment: float | None) -> str:
        """§11.7: no queue above its limit, at every ancestor."""
        books = self._books
        group = self._gang_of(pod, moment)
        if group is None:
            return "its gang is not there"
        more = {charge_of(resource) for resource in pod.asks} - {""}
        for queue in books.path(books.queue_of(group, moment), moment):
            ends = {charge: books.bound(queue, charge, "limit", moment) for charge in CHARGES if charge in more}
            if not any(end is not None for end in ends.values()):
                continue
            gangs = [one for key in self._below(queue, moment) for one in books.decided(key, moment)]
            used = charged([*gangs, *books.strays(queue, moment), *books.leaving(queue, moment)])
            for charge, end in ends.items():
                if end is not None and used[charge] > end:
                    said = f"queue {queue} then has {shown(charge, used[charge])}"
                    return f"{said}, its limit is {shown(charge, end, bare=True)}"
        return ""

    def _held(self, pod: Member, moment: float | None) -> str:
        """§4, §7: of a gang that is invalid, or whose queue is none, nothing is placed; nor what is set aside."""
        books = self._books
        group = self._gang_of(pod, moment)
        if group is None:
            return "its gang is not there"
        if group.wrong:
            return f"its gang is invalid: {group.wrong}"
        if group.leaf_of(pod) == NONE:
            return f"it is set aside: no leaf is called {pod.label}"
        if books.priority(group, moment) < books.priority_asked(group, moment):
            return f"its gang asks for the priority {books.priority_asked(group, moment)}, which is not allowed there"
        queues = books.queues.at(moment)
        if not queues:
            return ""
        mine = books.queue_of(group, moment)
        if not books.path(mine, moment):
            return f"its queue {mine} does not lead to a top queue"
        if any((one.get("spec") or {}).get("parentQueue") == mine for one in queues.values()):
            return f"its queue {mine} is not a leaf"
        allowed = queues[mine]["metadata"]["annotations"].get(facts.ALLOWED, "*")
        names = {one.strip() for one in allowed.split(",")}
        return "" if names & {"*", group.key[0]} else f"its queue {mine} is not for {group.key[0]}"

    def _gang_of(self, pod: Member, moment: float | None) -> Group | None:
        """The gang of a pod; one that came later than what is asked of that moment is as it is: watches of different
        kinds are not equally late.
        """
        if pod.gang is None:
            return None
        return self._books.group(pod.gang, moment) or self._books.group(pod.gang)

    def _below(self, queue: str, moment: float | None) -> Iterator[Key]:
        """The gangs that are charged to a queue or one below it."""
        for key in self._books.members:
            group = self._books.group(key, moment)
            if group is not None and queue in self._books.path(self._books.queue_of(group, moment), moment):
                yield key

    # A decision.

    def _judge(self, decision: Decision) -> None:
        """§11.4: no bind for a gang that is not satisfied after it; §11.7 for what may not be evicted."""
        since_s = self._sight.since_s(decision.process, decision.at_s)
        known = self._books.groups.get(decision.gang)
        said: list[tuple[str, str]] = []
        for group in known.since(since_s) if known is not None else ():
            if group is not None and group.tree is not None:
                wrong = self._unfinished_however(decision, group, since_s)
                if wrong is None:
                    break
                said.append(wrong)
        else:
            names = ", ".join(sorted(pod.key[1] for pod in decision.pods.values()))
            what = f"gang {'/'.join(decision.gang)}: binds of {names} were sent at {decision.at_s:.3f} s"
            rule, wrong_words = said[0] if said else ("§11.4", "and there is no such gang")
            self._broken(rule, f"{what}, {wrong_words}")
        over = self._over_quota(decision, None)
        if over and all(self._over_quota(decision, moment) for moment in self._books.moments(since_s)):
            self._broken("S7", f"gang {'/'.join(decision.gang)}, bound at {decision.at_s:.3f} s: {over}")

    def _unfinished_however(self, decision: Decision, group: Group, since_s: float) -> tuple[str, str] | None:
        """What lacks its minimum in every state of its pods since then; None: there is one in which nothing does.

        What was sent and not heard of counts in each of them: of one that is gone by now others may be known already.
        """
        known, first = self._books.members.get(decision.gang), None
        states = list(known.since(since_s)) if known is not None else [dict[str, Member]()]
        waited = {uid: pod for state in states for uid, pod in state.items() if pod.state == WAITING}
        flying = self.flying(waited, decision.process, decision.at_s)
        for members in states:
            there = {**flying, **self._seen_there(decision, members, since_s)}
            wrong = self._unfinished(decision, group, there)
            if wrong is None:
                return None
            first = first or wrong
        return first

    def _unfinished(self, decision: Decision, group: Group, there: Mapping[str, Member]) -> tuple[str, str] | None:
        """What lacks its minimum with all that was sent; None: nothing does."""
        tree = group.tree
        assert tree is not None
        counts = [0] * len(tree.nodes)
        for pod in there.values():
            leaf = group.leaf_of(pod)
            if leaf != NONE:
                counts[leaf] += 1
        met = satisfied(tree, counts)
        if not met[0]:
            return "§11.4", f"and its minimum is not placed with them: {_counted(group, counts)}"
        for pod in decision.pods.values():
            row = group.leaf_of(pod)
            while row > 0:
                if not met[row]:
                    return (
                        "§5.4",
                        f"and {tree.nodes[row].name} has not its minimum with them: {_counted(group, counts)}",
                    )
                row = tree.nodes[row].parent
        return None

    def _seen_there(self, decision: Decision, members: Mapping[str, Member], since_s: float) -> Mapping[str, Member]:
        """What whoever decided may have counted in a state of its pods, beside those under way: placed, or sent now."""
        found, now = dict(decision.pods), self._books.gang(decision.gang)
        for uid, pod in members.items():
            if uid in found or (self.evicted.get(uid, decision.at_s) < decision.at_s and members is not now):
                # Who was told to go, and went, is known to have gone.
                continue
            if pod.state == SUCCEEDED or (pod.state == PLACED and self._stood(pod, since_s)):
                found[uid] = pod
        return found

    def _stood(self, pod: Member, since_s: float) -> bool:
        known = self._books.nodes.get(pod.node)
        return known is not None and any(node is not None for node in known.since(since_s))

    def _over_quota(self, decision: Decision, moment: float | None) -> str:
        """The non-preemptible part of a queue above its quota, where the decision raised it."""
        books = self._books
        group = books.group(decision.gang, moment)
        if group is None or group.tree is None:
            return ""
        sent = {uid for one in self._open.values() if one.at_s == decision.at_s for uid in one.pods} | set(
            decision.pods
        )
        before = charged(self._firm(group, sent - set(decision.pods), moment, without=decision.pods))
        after = charged(self._firm(group, sent, moment))
        rising = [charge for charge in CHARGES if after[charge] > before[charge]]
        for queue in books.path(books.queue_of(group, moment), moment):
            ends = {charge: books.bound(queue, charge, "quota", moment) for charge in rising}
            if not any(end is not None for end in ends.values()):
                continue
            firm = list(books.leaving_firm(queue, moment))
            for key in self._below(queue, moment):
                other = books.group(key, moment)
                if other is not None and other.tree is not None:
                    firm += self._firm(other, sent, moment)
            used = charged(firm)
            for charge, end in ends.items():
                if end is not None and used[charge] > end:
                    said = f"the non-preemptible part of queue {queue} is {shown(charge, used[charge])}"
                    return f"{said}, its quota is {shown(charge, end, bare=True)}"
        return ""

    def _firm(
        self, group: Group, sent: Collection[str], moment: float | None, without: Collection[str] = ()
    ) -> list[Member]:
        """What may not be evicted of a gang, with what was sent: that comes after what was there."""
        found: dict[int, list[Member]] = {}
        pods = {one.uid: one for one in self._books.decided(group.key, moment)}
        pods |= {uid: one for uid, one in self._books.gang(group.key).items() if uid in sent and one.state == WAITING}
        for pod in sorted(pods.values(), key=lambda one: (one.uid in sent, one.age)):
            leaf = group.leaf_of(pod)
            if leaf != NONE and pod.uid not in without:
                found.setdefault(leaf, []).append(pod)
        return self._books.firm(group, found, moment)


def is_refused(status: int | None) -> bool:
    """Whether an answer says that nothing was done, and nothing will be: it was refused, or never left."""
    return status is not None and 300 <= (status or 300) < 500 and status != _OPEN


def _is_shared(label: str, here: Node | None, there: Node | None) -> bool:
    """Whether two nodes have the same value of a label."""
    if here is None or there is None or label not in here.labels:
        return False
    return here.labels[label] == there.labels.get(label)


def _over(node: Node | None, pod: Member, holders: list[Member]) -> str:
    """What a node has too little of, of what a pod asks for."""
    if node is None:
        return "the node is not there"
    held = summed(holders)
    for resource in pod.asks:
        has = node.has.get(resource, 0)
        if held[resource] > has:
            return f"its pods ask for {held[resource]} of {resource}, it has {has}: {_names(holders)}"
    return ""


def _counted(group: Group, counts: list[int]) -> str:
    """Per leaf: how many there are of how many."""
    tree = group.tree
    assert tree is not None
    return ", ".join(f"{tree.nodes[row].name or 'pods'} {counts[row]}/{tree.nodes[row].minimum}" for row in tree.leaves)


def _name(pod: Member) -> str:
    return "/".join(pod.key)


def _names(pods: list[Member]) -> str:
    return ", ".join(sorted(_name(pod) for pod in pods))
