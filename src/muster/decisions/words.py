"""Sentences: the one place where a reason becomes words. Conditions, events, commands and the page say the same.

A sentence is `<what is missing> · <where it is nearest> · <what would fix it>`, and never over 250 characters.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from muster.api.cluster import SUBGROUP_LABEL
from muster.api.nearest import Nearest
from muster.api.priorities import MAX_PRIORITY_ANNOTATION
from muster.api.tree import NONE
from muster.decisions.amounts import charge_alone, charge_in_words, counted, listed
from muster.errors import DEFECT
from muster.model.reasons import Code, Numbers, rank_of, row_of
from muster.plan.outcome import LEAVING, Action, Outcome, Reason, Verdict
from muster.snapshot.arrays import Counts, Gang, Snapshot
from muster.snapshot.gangs import WAITS_FOR_PROMISED

LONGEST = 250

_BETWEEN = " · "
_LONG_NAME, _LONG_PATH = 40, 60


class Told(NamedTuple):
    """A reason that people are told, and how many more there are of the same code about the same tree node."""

    reason: Reason
    others: int


def told(outcome: Outcome) -> list[Told]:
    """The reasons in the order of their precedence, then of the tree; one for each code and tree node."""
    kept: dict[tuple[str, int], Told] = {}
    for reason in outcome.reasons:
        first = kept.get((reason.code, reason.row))
        kept[reason.code, reason.row] = Told(reason, 0) if first is None else first._replace(others=first.others + 1)
    return sorted(kept.values(), key=lambda one: (rank_of(one.reason.code), one.reason.row))


def waits(outcome: Outcome) -> bool:
    """Whether a gang lacks its minimum; also when room is reserved for it that others have to leave first."""
    return outcome.verdict is not Verdict.PLACED or not outcome.satisfied


def foremost(outcome: Outcome) -> Told | None:
    """The reason to show when there is room for one: what keeps the gang from its minimum before anything else."""
    reasons = told(outcome)
    if outcome.verdict is not Verdict.PLACED:
        # Where pods are missing, those that are there and can't be counted are what somebody can mend.
        missing = any(one.reason.code == Code.WAITING_FOR_PODS for one in reasons)
        reasons.sort(key=lambda one: one.reason.surplus or _is_remark(one.reason.code, missing=missing))
    return reasons[0] if reasons else None


def _is_remark(code: str, *, missing: bool) -> bool:
    row = row_of(code)
    return row.is_remark and not (missing and row.about_pods)


def sentence(reason: Reason, gang: Gang, snapshot: Snapshot, others: int = 0, *, sent: bool = True) -> str:
    """Why something waits, in one sentence. `others` is how many more reasons there are like it.

    `sent`: what the plan does is done; else it would be.
    """
    row, make = row_of(reason.code), _SENTENCES.get(reason.code)
    about = _About(reason, gang, snapshot, others, sent=sent)
    if row.says is not None:
        parts = [part.format_map(about) for part in row.says]
    else:
        parts = list(make(about)) if make is not None else [reason.code, reason.detail]
    if row.numbers is Numbers.SLOTS and (why := _kept_away(about)):
        parts[1] = f"{parts[1]}; {why}" if parts[1] else why
    return fitted(parts)


def fitted(parts: Collection[str]) -> str:
    """The parts that say something, joined, the longest of them shortened until all fit."""
    parts = [" ".join(part.split()) for part in parts if part]
    while len(_BETWEEN.join(parts)) > LONGEST:
        over = len(_BETWEEN.join(parts)) - LONGEST
        longest = max(range(len(parts)), key=lambda index: len(parts[index]))
        kept = max(len(parts[longest]) - over - 1, len(parts[longest]) // 2, 1)
        parts[longest] = parts[longest][:kept].rstrip() + "…"
    return _BETWEEN.join(parts)


class _About:
    """A reason with everything around it, in words."""

    def __init__(self, reason: Reason, gang: Gang, snapshot: Snapshot, others: int, *, sent: bool = True) -> None:
        self.reason, self.gang, self.snapshot, self.others, self.sent = reason, gang, snapshot, others, sent
        self.node = gang.tree.nodes[reason.row]
        self.who = shortened(self.node.name or "the gang")
        self.path = path_of(reason, snapshot)

    def __getitem__(self, name: str) -> str:
        """What a sentence of the table may name."""
        match name:
            case "detail" | "pod":
                found: str = getattr(self.reason, name)
                return found
            case "best":
                return f"{self.reason.best:,}"
            case "namespace":
                return self.gang.key[0]
            case "preemptibility":
                return self.gang.preemptibility
            case "more":
                return _and_more("", self.others)
            case _:
                return str(getattr(self, name))

    @property
    def level(self) -> str:
        """The level of the failed constraint: its label without the prefix."""
        reason = self.reason
        if reason.topology == NONE or reason.level == NONE:
            return ""
        return self.snapshot.topologies[reason.topology].labels[reason.level].rpartition("/")[2]

    @property
    def room(self) -> str:
        """What room is asked for."""
        return counted(self.reason.asked, self.reason.dimension, self.snapshot)

    @property
    def nearest(self) -> str:
        """The domain that comes nearest, with what it has."""
        path = self.path if len(self.path) <= _LONG_PATH else "…" + self.path[1 - _LONG_PATH :]
        return f"{path}: {self.reason.best:,} of {self.reason.asked:,}" if path else ""

    @property
    def around(self) -> str:
        """The wider domain that it is kept in."""
        reason = self.reason
        if reason.around is None or reason.topology == NONE:
            return ""
        path = self.snapshot.domain_path(reason.topology, *reason.around)
        return path if len(path) <= _LONG_PATH else "…" + path[1 - _LONG_PATH :]

    @property
    def queue(self) -> str:
        """The queue that it is about: the one that says no, else the gang's own."""
        names = self.snapshot.queues.names
        return shortened(names[self.reason.queue] if 0 <= self.reason.queue < len(names) else self.gang.queue)

    @property
    def tie(self) -> str:
        """The claim that leaves only some nodes to the pods that it is about, or to others of the gang."""
        ties, dimension = self.snapshot.ties, self.reason.dimension
        if dimension is not None and dimension.shape in ties:
            return ties[dimension.shape]
        below = range(self.reason.row, self.gang.tree.ends[self.reason.row])
        return next((ties[one.shape] for one in self.gang.waiting if one.leaf in below and one.shape in ties), "")

    @property
    def missing(self) -> int:
        return max(self.reason.asked - self.reason.best, 0)


def shortened(name: str) -> str:
    """A name of which a sentence may well have the beginning only: the numbers behind it must stay."""
    return name if len(name) <= _LONG_NAME else name[: _LONG_NAME - 1] + "…"


def path_of(reason: Reason, snapshot: Snapshot) -> str:
    """The domain that a reason names, as a path."""
    if NONE in (reason.topology, reason.level, reason.domain):
        return ""
    return snapshot.domain_path(reason.topology, reason.level, reason.domain)


def _kept_away(about: _About) -> str:
    """How many nodes the anti-affinity of other pods forbids, and whose it is, of one of them."""
    snapshot, dimension = about.snapshot, about.reason.dimension
    shapes = {batch.shape for batch in about.gang.waiting} if dimension is None else {dimension.shape}
    found = [(int(one.staying.sum()), one.by) for shape in shapes if (one := snapshot.repelled.get(shape)) is not None]
    nodes, by = max(found, default=(0, ""))
    return f"anti-affinity of other pods ({by}) forbids {nodes:,} of {len(snapshot.nodes):,} nodes" if nodes else ""


def _no_node(about: _About) -> tuple[str, str]:
    """Why no node at all would take such a pod, and what to do; nothing when some node would, were it empty."""
    snapshot, dimension = about.snapshot, about.reason.dimension
    allowed = snapshot.allowed.get(dimension.shape) if dimension is not None else None
    if allowed is None or dimension is None or about.reason.best:
        return "", ""
    if dimension.shape in snapshot.unoffered:
        names = list(snapshot.unoffered[dimension.shape])
        return f"no node offers {listed([shortened(name) for name in names])}", (
            "ask for what nodes have, or add nodes that offer it"
        )
    if not allowed.any():
        if dimension.shape in snapshot.behind_cordons and snapshot.behind_cordons[dimension.shape].any():
            return "the nodes that may take it are cordoned", "uncordon one of them"
        nobody = (
            "the only node may not take it" if len(allowed) == 1 else f"none of the {len(allowed):,} nodes may take it"
        )
        if about.tie:
            return nobody, "add nodes that reach the volume, or check nodeSelector, affinity and tolerations"
        return nobody, "check its nodeSelector, affinity and tolerations, and whether the nodes are ready"
    ask = snapshot.asks[dimension.shape]
    if not (snapshot.allocatable[allowed] >= ask).all(axis=1).any():
        return "no node that may take it is large enough even when empty", "ask for less per pod, or add larger nodes"
    return "", ""


def _insufficient(about: _About) -> list[str]:
    level = about.level
    if not about.snapshot.nodes:
        where = f" in one {level}" if level else ""
        return [f"{about.who} needs room for {about.room}{where}", "there is no node at all", "add nodes"]
    if level and about.reason.dimension is None:
        what = f"{about.who} needs {about.room} in one {level}, and no node lies in any {level} that it may use"
        return [what, "label the nodes, or relax requiredTopologyLevel"]
    what = f"{about.who} needs room for {about.room}" + (
        f" in one {level}; in all there is too little" if level else ""
    )
    nobody, remedy = _no_node(about)
    nearest = f"nearest {about.nearest}" if about.path else f"there is room for {about.reason.best:,}"
    return [what, nobody or nearest, about.tie, remedy or "add nodes, or free room"]


def _not_enough_in_domain(about: _About) -> list[str]:
    level, around = about.level, about.around
    here = f"the {level} of the gang's placed pods"
    if around and around != about.path:
        here = f"one {level} of {around}, where placed pods of the gang are"
    what = f"{about.who} needs room for {about.room} in {here}"
    where = about.nearest or f"no {level} is left to it"
    return [what, where, about.tie, f"free room for {about.missing:,} more there, or start the gang anew elsewhere"]


def _fragmented(about: _About) -> list[str]:
    level = about.level
    if not level or not about.path or not about.missing:
        return _no_arrangement(about)
    remedy = f"free room for {about.missing:,} more there, or relax the level"
    what = f"{about.who} needs room for {about.room} in one {level}"
    if about.around and about.around != about.path:
        what = f"{what} of {about.around}, beside the rest of the gang"
        return [what, f"best left {about.nearest}", about.tie, remedy]
    if about.around:
        return [f"{what}, beside the rest of the gang", f"best left {about.nearest}", about.tie, remedy]
    total = f" ({about.reason.total:,} in all)" if about.reason.total is not None else ""
    what = f"{what}: the total{total} is enough, no single {level} is"
    return [what, f"nearest {about.nearest}", about.tie, remedy]


def _no_arrangement(about: _About) -> list[str]:
    return [
        f"the parts of {about.who} fit one by one, but not together",
        "every arrangement was tried",
        about.tie,
        "free room" + (", or relax a requiredTopologyLevel" if about.gang.holds else ", or ask for less per pod"),
    ]


def _search_budget(about: _About) -> list[str]:
    reason = about.reason
    ways = f"; {reason.ruled_out:,} of the ways to choose its parts are ruled out" if reason.ruled_out else ""
    spent = f" in {reason.steps:,} steps" if reason.steps else ""
    return [
        f"no place for {about.who} was found{spent}, and it is not proved that there is none{ways}",
        "it rests until the gang or the room changes"
        if reason.rests
        else "the search goes on in one of the next cycles",
        "or raise search.stepsPerGang and search.stepsPerCycle",
    ]


def _waiting_for_pods(about: _About) -> list[str]:
    reason = about.reason
    counts = about.gang.counts.get(reason.row, Counts())
    gated, failed = counts.gated, counts.failed
    unread = sum(note.code == Code.BAD_POD and note.row == reason.row for note in about.gang.notes)
    remedy = f"take the scheduling gates off {gated:,} of its pods" if gated else "its controller must create them"
    if failed and not gated:
        # Whether its Job is over nobody here knows: only that these did not come back yet.
        remedy = f"{failed:,} failed: its controller must create others; if it has given up, delete the workload"
    if unread:
        remedy = f"mend {unread:,} of its pods that can't be read"
    if not reason.asked:
        return [f"{about.who} has fewer pods than its minimum", remedy]
    return [
        f"{reason.best:,} of {reason.asked:,} pods of {about.who} are there",
        f"{about.missing:,} missing",
        remedy,
    ]


def _waiting_for_room(about: _About) -> list[str]:
    if about.reason.detail == Action.REQUEST:
        what = f"{about.who} waits for pods to be evicted that an EvictionRequest names"
        return [what, "their room is reserved for it", "kubectl get evictionrequests -A shows until when"]
    if about.reason.detail == LEAVING:
        what = f"{about.who} waits for terminating pods that its queue is charged for to leave"
        return [what, "limit and quota count them until they are gone; room is reserved for it", "nothing to do"]
    if about.reason.detail:
        what = f"{about.who} {WAITS_FOR_PROMISED}"
        return [
            what,
            f"the first of them is {about.reason.detail}",
            "their scheduler binds them, or gives the room back",
        ]
    return [f"{about.who} waits for terminating pods to leave", "their room is reserved for it", "nothing to do"]


def _evicted(about: _About) -> list[str]:
    action, winner = about.reason.detail, about.reason.pod
    one, all_of_them = ("is", "are") if about.sent else ("would be", "would be")
    if action == Action.STALE:
        what = f"{about.who} lost what its minimum needs and did not get it back in time"
        return [what, f"what is left of it {one} evicted", "its controller makes it anew"]
    if action == Action.CONSOLIDATE:
        what = f"pods of {about.who} {all_of_them} moved to make room for {winner}"
        return [_and_more(what, about.others), "room is kept for those that come in their place", "nothing to do"]
    what = f"pods of {about.who} {all_of_them} evicted for {winner or 'others'}" + (f" ({action})" if action else "")
    return [_and_more(what, about.others), "", "they wait again when their controller has made them anew"]


def _queue_not_found(about: _About) -> list[str]:
    name, field = about.reason.detail, about.gang.queue_field
    meant = Nearest(about.snapshot.queues.names).to(name)
    remedy = f"create it, or name one that does in {field}"
    return [f"the queue {name} does not exist", f"did you mean {meant}?" if meant else "", remedy]


def _queue_not_leaf(about: _About) -> list[str]:
    queues = about.snapshot.queues
    below = [queues.names[row] for row in queues.children.get(queues.row_of.get(about.gang.queue, NONE), ())]
    what = f"the queue {about.queue} has queues below it: gangs are charged to the lowest ones"
    return [what, "", f"name one of them in spec.queue: {listed(below)}" if below else "name one of them in spec.queue"]


def _queue_orphaned(about: _About) -> list[str]:
    return _orphaned(about.queue, about.reason.detail)


def _queue_cycle(about: _About) -> list[str]:
    return _in_a_cycle(about.queue, about.reason.detail)


def _queue_invalid(about: _About) -> list[str]:
    return _unread(about.queue, about.reason.detail)


def _orphaned(queue: str, missing: str) -> list[str]:
    what = f"{f'the queue {missing}' if missing else 'a queue'} above the queue {queue} does not exist"
    return [what, "nothing can be charged to it", "create the missing one, or mend spec.parentQueue"]


def _in_a_cycle(queue: str, cycle: str) -> list[str]:
    return [f"the queues above {queue} form a cycle", cycle, "take spec.parentQueue out of one of them"]


def _unread(queue: str, error: str) -> list[str]:
    return [f"queue {queue} can't be read, or one above it", error, "muster validate says everything"]


def queue_in_words(queue: str, code: str, detail: str) -> str:
    """Why nothing can be charged to a queue, in one sentence."""
    parts: dict[str, Callable[[str, str], list[str]]] = {
        Code.QUEUE_ORPHANED: _orphaned,
        Code.QUEUE_CYCLE: _in_a_cycle,
        Code.QUEUE_INVALID: _unread,
    }
    return fitted(parts[code](queue, detail))


def _over_limit(about: _About) -> list[str]:
    reason, (asked, left, most) = about.reason, _of_the_queue(about)
    what = f"{about.who} needs {asked}, and the limit of queue {about.queue} is {most}"
    more = f"raise the limit to at least {_enough(reason)}"
    if reason.asked > (reason.total or 0):
        return [what, f"{left} left of it", f"{more}, or ask for less"]
    return [what, f"{left} left of it", f"wait until others of the queue end, or {more}"]


def _over_quota(about: _About) -> list[str]:
    asked, left, most = _of_the_queue(about)
    what = f"what may not be evicted of {about.who} needs {asked}, and the quota of queue {about.queue} is {most}"
    remedy = f"raise the quota to at least {_enough(about.reason)}, or make it preemptible"
    return [what, f"{left} left of it", remedy]


def _waiting_for_quota(about: _About) -> list[str]:
    asked, left, most = _of_the_queue(about)
    what = f"what may not be evicted of {about.who} needs {asked} of the quota of queue {about.queue}"
    taken = f"{left} left of {most}: gangs that may not be evicted hold the rest"
    remedy = f"wait for them, raise the quota to at least {_enough(about.reason)}, or make it preemptible"
    return [what, taken, remedy]


def _of_the_queue(about: _About) -> tuple[str, str, str]:
    """What is asked of a queue, what is left, and what it has at most."""
    reason = about.reason
    if reason.charge == NONE:
        return f"{reason.asked:,}", f"{reason.best:,}", f"{reason.total or 0:,}"
    asked, left, most = reason.asked, reason.best, reason.total or 0
    return charge_in_words(reason.charge, asked), charge_alone(reason.charge, left), charge_alone(reason.charge, most)


def _enough(reason: Reason) -> str:
    """The limit or quota with which as much as is asked for would be left."""
    amount = (reason.total or 0) - reason.best + reason.asked
    return charge_alone(reason.charge, amount) if reason.charge != NONE else f"{amount:,}"


def _priority_not_allowed(about: _About) -> list[str]:
    reason, namespace = about.reason, about.gang.key[0]
    name = shortened(reason.detail)
    if reason.total is not None:
        what = f"the priority {reason.asked:,}{f' of {name}' if name else ' of the default class'} is above what queue "
        queue, own = _bounding_queue(about, reason.total), about.queue
        what += f"{queue} admits" + (f" to queue {own}" if queue != own else "")
        remedy = f"name a lower class in spec.priorityClassName, or raise {MAX_PRIORITY_ANNOTATION} of the Queue"
        return [what, f"at most {reason.total:,}", remedy]
    what = f"the system class {name} counts only where every pod of the gang has it in spec.priorityClassName"
    if reason.pod:
        return [what, f"the pod {reason.pod} has not", "set it in the pod template, or name another class"]
    what = f"the system class {name} may not be used in the namespace {namespace}"
    return [
        what,
        "",
        "name another class in spec.priorityClassName, or add the namespace to priorities.systemNamespaces",
    ]


def _bounding_queue(about: _About, most: int) -> str:
    """The queue of the gang's path that says the bound, from its own upwards."""
    queues = about.snapshot.queues
    path = queues.paths[queues.row_of[about.gang.queue]] if about.gang.queue in queues.row_of else ()
    return next((shortened(queues.names[row]) for row in path if queues.max_priorities[row] == most), about.queue)


def _unsupported(about: _About) -> list[str]:
    if about.reason.remedy:
        what = f"the pod {about.reason.pod} is held: {about.reason.detail}"
        return [_and_more(what, about.others), "", about.reason.remedy]
    if not about.reason.pod:
        what = f"whether a node is forbidden to it depends on {about.reason.detail}"
        return [what, "as far as it is known, there is no room", "muster doctor says which rights are missing"]
    what = f"the pod {about.reason.pod} uses {about.reason.detail}, which muster can't honour yet"
    return [_and_more(what, about.others), "the gang is not placed wrongly but not at all", "take it out of the pod"]


def _set_aside(about: _About) -> list[str]:
    reason, tree = about.reason, about.gang.tree
    label = f"has the label {SUBGROUP_LABEL}: {reason.detail}" if reason.detail else f"has no label {SUBGROUP_LABEL}"
    leaves = [tree.nodes[leaf].name for leaf in tree.leaves]
    listed = ", ".join(leaves[:3]) + (", …" if len(leaves) > 3 else "")
    return [_and_more(f"set aside: the pod {reason.pod} {label}", about.others), "", f"set it to a leaf: {listed}"]


def _not_admitted(about: _About) -> list[str]:
    pod, queue = f"the pod {about.reason.pod}", about.reason.detail
    what = (
        f"{pod} was bound for another gang, and is charged to queue {queue}" if queue else f"muster did not bind {pod}"
    )
    return [_and_more(what, about.others), "it holds its room and does not count", "delete it: its successor counts"]


def _not_tried(about: _About) -> list[str]:
    what = f"{about.who} is below its minimum, and no free room is given away in this cycle"
    return [what, "", about.reason.detail or f"add {Action.ALLOCATE} to the actions"]


def _scheduler_error(about: _About) -> list[str]:
    what = f"a {DEFECT} keeps {about.who} from being planned; other gangs are not affected"
    return [what, about.reason.detail, "it is tried again after a while; report it with muster snapshot"]


def _and_more(what: str, others: int) -> str:
    return f"{what} (and {others:,} more)" if others else what


_SENTENCES: dict[str, Callable[[_About], Collection[str]]] = {
    Code.QUEUE_NOT_FOUND: _queue_not_found,
    Code.QUEUE_NOT_LEAF: _queue_not_leaf,
    Code.QUEUE_ORPHANED: _queue_orphaned,
    Code.QUEUE_CYCLE: _queue_cycle,
    Code.QUEUE_INVALID: _queue_invalid,
    Code.PRIORITY_NOT_ALLOWED: _priority_not_allowed,
    Code.UNSUPPORTED: _unsupported,
    Code.SET_ASIDE: _set_aside,
    Code.NOT_ADMITTED: _not_admitted,
    Code.NOT_TRIED: _not_tried,
    Code.WAITING_FOR_PODS: _waiting_for_pods,
    Code.OVER_LIMIT: _over_limit,
    Code.OVER_QUOTA: _over_quota,
    Code.WAITING_FOR_QUOTA: _waiting_for_quota,
    Code.INSUFFICIENT: _insufficient,
    Code.NOT_ENOUGH_IN_DOMAIN: _not_enough_in_domain,
    Code.FRAGMENTED: _fragmented,
    Code.NO_ARRANGEMENT: _no_arrangement,
    Code.SEARCH_BUDGET: _search_budget,
    Code.WAITING_FOR_ROOM: _waiting_for_room,
    Code.EVICTED: _evicted,
    Code.SCHEDULER_ERROR: _scheduler_error,
}
