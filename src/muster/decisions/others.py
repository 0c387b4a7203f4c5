"""What a what-if means for everybody else: two plans, gang by gang."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from muster.decisions.plan import Evict
from muster.plan.outcome import Plan, Verdict
from muster.snapshot.arrays import Key


class Lot(NamedTuple):
    """What becomes of a gang in one plan: the verdict, and its placed pods after the cycle."""

    verdict: Verdict
    placed: int


class Change(NamedTuple):
    """A gang that fares differently, and how many of its pods are evicted then."""

    key: Key
    before: Lot
    after: Lot
    evicted: int


def others(before: Plan, after: Plan, meant: Collection[Key], evictions: Iterable[Evict] = ()) -> Iterator[Change]:
    """Every gang that is in both plans, is not `meant` itself, and fares differently; in the order of their names.

    `evictions` are those that were decided beside the second plan.
    """
    beside = Counter(pod for pod in ((one.namespace, one.pod) for one in evictions))
    was = {gang.key: number for number, gang in enumerate(before.snapshot.gangs)}
    gone_before, gone = _evicted(before), _evicted(after)
    for number, gang in enumerate(after.snapshot.gangs):
        if gang.key in meant or gang.key not in was:
            continue
        at = was[gang.key]
        lots = Lot(*_lot(before, at)), Lot(*_lot(after, number))
        drained = sum(beside[gang.key[0], pod] for batch in gang.waiting for pod in batch.pods) if beside else 0
        evicted = gone[number] + drained
        if lots[0] != lots[1] or evicted != gone_before[at]:
            yield Change(gang.key, *lots, evicted)


def _lot(plan: Plan, number: int) -> tuple[Verdict, int]:
    outcome = plan.outcomes[number]
    return outcome.verdict, outcome.rows[0].placed


def _evicted(plan: Plan) -> Counter[int]:
    return Counter(one.gang for one in plan.evictions)


def documents_of(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """As `muster plan -o json` prints them."""
    return [
        {
            "namespace": one.key[0],
            "name": one.key[1],
            "before": {"verdict": one.before.verdict.value, "placed": one.before.placed},
            "after": {"verdict": one.after.verdict.value, "placed": one.after.placed},
            "evicted": one.evicted,
        }
        for one in changes
    ]
