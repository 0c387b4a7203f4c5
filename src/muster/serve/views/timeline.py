"""What happened to gangs from one cycle to the next, as marks on their lanes. Pure.

A mark stands where something became different. What a plan says again because nobody did it yet is not told again.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from muster.api.tree import NONE, minimum_in_words
from muster.decisions.amounts import moment, pods_in_words
from muster.decisions.explanation import message_of, placed_in_words
from muster.decisions.losses import losses, why_evicted
from muster.decisions.words import foremost, sentence
from muster.plan.outcome import Action, Code, Outcome, Plan, Verdict
from muster.serve.views.scene import Numbers, Scene, numbers_then
from muster.snapshot.arrays import Gang, Key, Snapshot

CREATED, PLACED, BOUND, WAITING, EVICTED = "created", "placed", "bound", "waiting", "evicted"
MOVED, STALE, SATISFIED, BELOW, GONE = "moved", "stale", "satisfied", "below", "gone"
# In which of one gang stand that happened in one cycle.
_ORDER = (GONE, CREATED, EVICTED, MOVED, STALE, BELOW, WAITING, BOUND, PLACED, SATISFIED)
# Who is meant where a caller may not know it.
SOMEBODY = "a gang of others"


class Mark(NamedTuple):
    """Something that happened to a gang: so many pods of it, by an action, for the gang `beneficiary`.

    `discreet` says the same without naming another gang.
    """

    gang: str
    kind: str
    text: str
    discreet: str
    pods: int = 0
    action: str | None = None
    beneficiary: str | None = None


class _Pair(NamedTuple):
    """A gang then and now, each by number; NONE where it was not, or is not."""

    key: Key
    then: int
    now: int


def marks_between(before: Scene | None, now: Scene, then: Numbers | None = None) -> tuple[Mark, ...]:
    """What happened from one scene to the next, by gang. The first scene tells what its own plan does and says.

    `then` are the numbers that the gangs had before, where they are known.
    """
    found = [*_losses(before, now), *_placed(before, now)]
    for pair in _changed(before, now, numbers_then(now, before) if then is None else then):
        found += _of_gang(pair, before, now)
    if before is not None:
        found += _bound(before, now)
    order = {
        kind: at for at, kind in enumerate((GONE, CREATED, EVICTED, MOVED, STALE, BELOW, PLACED, BOUND, SATISFIED))
    }
    return tuple(sorted(found, key=lambda mark: (mark.gang, order.get(mark.kind, len(order)))))


def mark_document(mark: Mark, version: int, at_ns: int, *, discreet: bool = False) -> dict[str, Any]:
    """The mark as the browser gets it; `discreet`, without naming another gang."""
    return {
        "version": version,
        "at": moment(at_ns),
        "gang": mark.gang,
        "kind": mark.kind,
        "text": mark.discreet if discreet else mark.text,
        "pods": mark.pods,
        "by": mark.action,
        "for": None if discreet else mark.beneficiary,
    }


def _changed(before: Scene | None, now: Scene, then: Numbers) -> Iterator[_Pair]:
    """The gangs that may be different."""
    gangs, outcomes = now.plan.snapshot.gangs, list(now.plan.outcomes)
    if before is None:
        yield from (_Pair(gang.key, NONE, number) for number, gang in enumerate(gangs))
        return
    gangs_then, outcomes_then = before.plan.snapshot.gangs, list(before.plan.outcomes)
    # Those that are gone, or were made anew.
    left = set(range(len(gangs_then))).difference(was for was in then if was is not None)
    by_key = {gangs_then[number].key: number for number in left}
    for number, was in enumerate(then):
        if was is None:
            yield _Pair(gangs[number].key, by_key.pop(gangs[number].key, NONE), number)
        elif outcomes_then[was] is not outcomes[number]:
            yield _Pair(gangs[number].key, was, number)
    for key, number in by_key.items():
        yield _Pair(key, number, NONE)


def _of_gang(pair: _Pair, before: Scene | None, now: Scene) -> Iterator[Mark]:
    name = "/".join(pair.key)
    if pair.now == NONE:
        assert before is not None
        placed = before.plan.outcomes[pair.then].rows[0].placed
        words = f"gone, with {pods_in_words(placed)} placed" if placed else "gone"
        yield Mark(name, GONE, words, words, placed)
        return
    plan = now.plan
    gang, outcome = plan.snapshot.gangs[pair.now], plan.outcomes[pair.now]
    was = before.plan.outcomes[pair.then] if before is not None and pair.then != NONE else None
    if was is None and before is not None:
        words = f"created in queue {gang.queue}: {minimum_in_words(gang.tree)}"
        yield Mark(name, CREATED, words, words)
    if _stale_rows(outcome) - (_stale_rows(was) if was is not None else set()):
        yield _why(STALE, gang, outcome, plan.snapshot)
    if was is not None and was.satisfied != outcome.satisfied:
        if outcome.satisfied:
            words = placed_in_words(outcome, plan.snapshot, 0)
            yield Mark(name, SATISFIED, words, words, outcome.rows[0].placed)
        else:
            yield _why(BELOW, gang, outcome, plan.snapshot, outcome.rows[0].placed)
    elif _waits(outcome) and _code(outcome) != (_code(was) if was is not None else None):
        yield _why(WAITING, gang, outcome, plan.snapshot, outcome.rows[0].pending)


def _stale_rows(outcome: Outcome) -> set[int]:
    return {row for row, counts in enumerate(outcome.rows) if counts.stale_since_ns}


def _waits(outcome: Outcome) -> bool:
    """Whether a gang lacks its minimum; also when room is reserved for it that others have to leave first."""
    return outcome.verdict is not Verdict.PLACED or not outcome.satisfied


def _code(outcome: Outcome) -> str | None:
    first = foremost(outcome)
    return first.reason.code if first is not None else None


def _why(kind: str, gang: Gang, outcome: Outcome, snapshot: Snapshot, pods: int = 0) -> Mark:
    """A mark with the foremost reason in words."""
    name, first = "/".join(gang.key), foremost(outcome)
    said = message_of(gang, outcome, snapshot, 0)
    if first is None or first.reason.code != Code.EVICTED or not first.reason.pod:
        return Mark(name, kind, said, said, pods)
    discreet = sentence(first.reason._replace(pod=SOMEBODY), gang, snapshot, first.others)
    return Mark(name, kind, said, discreet, pods, first.reason.detail, first.reason.pod)


def _losses(before: Scene | None, now: Scene) -> Iterator[Mark]:
    """Who is evicted, or moved, by whom and for whom; once, though a plan may say so until it is done."""
    known = _evicted(before.plan) if before is not None else frozenset()
    for loss in losses(now.plan):
        namespace = loss.loser.partition("/")[0]
        new = [pod for pod in loss.pods if (namespace, pod, loss.action, loss.winner) not in known]
        if new:
            kind = MOVED if loss.action == Action.CONSOLIDATE else EVICTED
            discreet = why_evicted(loss._replace(winner=SOMEBODY if loss.winner is not None else None))
            yield Mark(loss.loser, kind, why_evicted(loss), discreet, len(new), loss.action, loss.winner)


def _evicted(plan: Plan) -> frozenset[tuple[str, str, str, str | None]]:
    gangs = plan.snapshot.gangs
    return frozenset(
        (
            gangs[one.gang].key[0],
            gangs[one.gang].placed[one.leaf].pods[one.pod],
            one.action,
            "/".join(gangs[one.beneficiary].key) if one.beneficiary != NONE else None,
        )
        for one in plan.evictions
    )


def _placed(before: Scene | None, now: Scene) -> Iterator[Mark]:
    """Pods for which this cycle finds a place, and the one before did not find the same."""
    known = _places(before.plan) if before is not None else {}
    for key, places in _places(now.plan).items():
        new = places - known.get(key, frozenset())
        if new:
            _, outcome = now.plan.of(key)
            words = placed_in_words(outcome, now.plan.snapshot, len(new), sent=bool(now.decision))
            yield Mark("/".join(key), PLACED, words, words, len(new), Action.ALLOCATE)


def _places(plan: Plan) -> Mapping[Key, frozenset[tuple[str, str]]]:
    """Per gang: the pods that go to a node now, each with the node."""
    found: dict[Key, set[tuple[str, str]]] = {}
    for one in plan.placements:
        if not one.nominated:
            gang = plan.snapshot.gangs[one.gang]
            names, nodes = gang.waiting[one.batch].pods, plan.snapshot.nodes
            places = ((names[pod], nodes[node]) for pod, node in zip(one.pods, one.nodes, strict=True))
            found.setdefault(gang.key, set()).update(places)
    return {key: frozenset(places) for key, places in found.items()}


def _bound(before: Scene, now: Scene) -> Iterator[Mark]:
    """Pods that were on their way to a node and are there."""
    coming: dict[Key, set[str]] = {key: set(pods) for key, pods in before.flying.items()}
    for key, places in _places(before.plan).items():
        coming.setdefault(key, set()).update(pod for pod, _ in places)
    for key, pods in coming.items():
        there = (pods & _placed_pods(now.plan, key)) - now.flying.get(key, frozenset())
        if there:
            words = f"{pods_in_words(len(there))} {'is' if len(there) == 1 else 'are'} bound"
            yield Mark("/".join(key), BOUND, words, words, len(there))


def _placed_pods(plan: Plan, key: Key) -> frozenset[str]:
    try:
        gang, _ = plan.of(key)
    except KeyError:
        return frozenset()
    return frozenset(pod for here in gang.placed.values() for pod in here.pods)
