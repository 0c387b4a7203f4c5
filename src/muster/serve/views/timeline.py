"""What happened to gangs from one cycle to the next, as marks on their lanes. Pure.

A mark stands where something became different. What a plan says again because nobody did it yet is not told again.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from muster.api.once import once
from muster.api.tree import NONE, minimum_in_words
from muster.decisions.amounts import moment, pods_in_words
from muster.decisions.explanation import message_of, placed_in_words
from muster.decisions.losses import Loss, losses, why_evicted
from muster.decisions.words import foremost, sentence, waits
from muster.model.reasons import Code
from muster.plan.outcome import Action, Outcome, Plan
from muster.serve.views.gangs import says_the_same
from muster.serve.views.scene import Numbers, Scene, as_ordered, numbers_then
from muster.snapshot.arrays import Gang, Key, Snapshot

CREATED, PLACED, BOUND, WAITING, EVICTED = "created", "placed", "bound", "waiting", "evicted"
MOVED, STALE, SATISFIED, BELOW, GONE = "moved", "stale", "satisfied", "below", "gone"
# In which of one gang stand that happened in one cycle.
_ORDER = (GONE, CREATED, EVICTED, MOVED, STALE, BELOW, PLACED, BOUND, SATISFIED, WAITING)
# Who is meant where a caller may not know it.
SOMEBODY = "a gang of others"


class Mark:
    """Something that happened to a gang: so many pods of it, by an action, for the gang `beneficiary`.

    `would`: the plan has it so, and nobody acts on it. `says` gives the words for it, and the same without naming
    another gang; they are made when somebody reads them.
    """

    def __init__(
        self,
        gang: str,
        kind: str,
        says: Callable[[], tuple[str, str]],
        pods: int = 0,
        action: str | None = None,
        beneficiary: str | None = None,
        *,
        would: bool = False,
    ) -> None:
        self.gang, self.kind, self.pods, self.action, self.beneficiary = gang, kind, pods, action, beneficiary
        self.would, self._says = would, says

    @once
    def _words(self) -> tuple[str, str]:
        return self._says()

    @property
    def text(self) -> str:
        """What happened, in words."""
        return self._words[0]

    @property
    def discreet(self) -> str:
        """The same without naming another gang."""
        return self._words[1]


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
    was, here = _unmoved(before) if before is not None else None, _unmoved(now)
    for pair in _changed(was, here, numbers_then(now, before) if then is None else then):
        found += _of_gang(pair, was, here)
    if before is not None:
        found += _bound(before, now)
    return tuple(sorted(found, key=lambda mark: (mark.gang, _ORDER.index(mark.kind))))


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
        **({"would": True} if mark.would else {}),
    }


def _said(words: str) -> Callable[[], tuple[str, str]]:
    return lambda: (words, words)


def _unmoved(scene: Scene) -> Scene:
    """The scene as far as it came true: where nobody acts on the plan, everybody keeps what they have."""
    return scene if scene.decision else scene._replace(plan=as_ordered(scene.plan, ()))


def _is_told(before: Scene, now: Scene) -> bool:
    """Whether what was told of the plan before is not to be told again: it was done, or nobody does it now either."""
    return bool(before.decision or not now.decision)


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
        elif not says_the_same(outcomes_then[was], outcomes[number]):
            yield _Pair(gangs[number].key, was, number)
    for key, number in by_key.items():
        yield _Pair(key, number, NONE)


def _of_gang(pair: _Pair, before: Scene | None, now: Scene) -> Iterator[Mark]:
    name = "/".join(pair.key)
    if pair.now == NONE:
        assert before is not None
        placed = before.plan.outcomes[pair.then].rows[0].placed
        yield Mark(name, GONE, _said(f"gone, with {pods_in_words(placed)} placed" if placed else "gone"), placed)
        return
    snapshot = now.plan.snapshot
    gang, outcome = snapshot.gangs[pair.now], now.plan.outcomes[pair.now]
    was = before.plan.outcomes[pair.then] if before is not None and pair.then != NONE else None
    if was is None and before is not None:
        yield Mark(name, CREATED, _said(f"created in queue {gang.queue}: {minimum_in_words(gang.tree)}"))
    if _stale_rows(outcome) - (_stale_rows(was) if was is not None else set()):
        yield _why(STALE, gang, outcome, snapshot)
    if was is not None and was.satisfied != outcome.satisfied:
        placed = outcome.rows[0].placed
        if outcome.satisfied:
            yield Mark(name, SATISFIED, lambda: (placed_in_words(outcome, snapshot, 0),) * 2, placed)
        else:
            yield _why(BELOW, gang, outcome, snapshot, placed)
    elif waits(outcome) and _code(outcome) != (_code(was) if was is not None else None):
        yield _why(WAITING, gang, outcome, snapshot, outcome.rows[0].pending)


def _stale_rows(outcome: Outcome) -> set[int]:
    return {row for row, counts in enumerate(outcome.rows) if counts.stale_since_ns}


def _code(outcome: Outcome) -> str | None:
    first = foremost(outcome)
    return first.reason.code if first is not None else None


def _why(kind: str, gang: Gang, outcome: Outcome, snapshot: Snapshot, pods: int = 0) -> Mark:
    """A mark with the foremost reason in words."""
    name, first = "/".join(gang.key), foremost(outcome)
    if first is None or first.reason.code != Code.EVICTED or not first.reason.pod:
        return Mark(name, kind, lambda: (message_of(gang, outcome, snapshot, 0),) * 2, pods)

    def says() -> tuple[str, str]:
        discreet = sentence(first.reason._replace(pod=SOMEBODY), gang, snapshot, first.others)
        return message_of(gang, outcome, snapshot, 0, sent=True), discreet

    return Mark(name, kind, says, pods, first.reason.detail, first.reason.pod)


def _losses(before: Scene | None, now: Scene) -> Iterator[Mark]:
    """Who is evicted, or moved, by whom and for whom; once, though a plan may say so until it is done."""
    known = _evicted(before.plan) if before is not None and _is_told(before, now) else frozenset()
    for loss in losses(now.plan):
        namespace = loss.loser.partition("/")[0]
        new = [pod for pod in loss.pods if (namespace, pod, loss.action, loss.winner) not in known]
        if new:
            yield _loss(loss, len(new), would=not now.decision)


def _loss(loss: Loss, pods: int, *, would: bool) -> Mark:
    def says() -> tuple[str, str]:
        verb = "would be " if would else ""
        discreet = why_evicted(loss._replace(winner=SOMEBODY if loss.winner is not None else None))
        return verb + why_evicted(loss), verb + discreet

    kind = MOVED if loss.action == Action.CONSOLIDATE else EVICTED
    return Mark(loss.loser, kind, says, pods, loss.action, loss.winner, would=would)


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
    known = _places(before.plan) if before is not None and _is_told(before, now) else {}
    for key, places in _places(now.plan).items():
        new = len(places - known.get(key, frozenset()))
        if new:
            yield _found(now, key, new)


def _found(now: Scene, key: Key, new: int) -> Mark:
    _, outcome = now.plan.of(key)
    sent, snapshot = bool(now.decision), now.plan.snapshot

    def says() -> tuple[str, str]:
        return (placed_in_words(outcome, snapshot, new, sent=sent),) * 2

    return Mark("/".join(key), PLACED, says, new, Action.ALLOCATE, would=not sent)


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
    """Pods that were on their way to a node and are there. What was told to leave and stays is no such pod."""
    coming: dict[Key, set[str]] = {key: set(pods) for key, pods in before.flying.items()}
    for key, places in _places(before.plan).items():
        coming.setdefault(key, set()).update(pod for pod, _ in places)
    for key, pods in coming.items():
        there = (pods & _placed_pods(now.plan, key)) - now.flying.get(key, frozenset())
        if there:
            words = f"{pods_in_words(len(there))} {'is' if len(there) == 1 else 'are'} bound"
            yield Mark("/".join(key), BOUND, _said(words), len(there))


def _placed_pods(plan: Plan, key: Key) -> frozenset[str]:
    try:
        gang, _ = plan.of(key)
    except KeyError:
        return frozenset()
    return frozenset(pod for here in gang.placed.values() for pod in here.pods)
