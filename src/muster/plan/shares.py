"""Fair share: what every queue is due, top down (SPEC §7)."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from math import lcm

from muster.api.tree import NONE
from muster.snapshot.queues import UNLIMITED, Queues


def fair_shares(queues: Queues, capacity: Sequence[int], demand: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Per queue and charge what it is due, in base units.

    `demand[queue]` is what the gangs charged to the queue itself hold and ask for; that of a queue with children comes
    from them.
    """
    columns = [_shares(queues, charge, capacity[charge], demand) for charge in range(len(capacity))]
    return list(zip(*columns, strict=True))


def _shares(queues: Queues, charge: int, capacity: int, demand: Sequence[Sequence[int]]) -> list[int]:
    """One charge: the cluster is divided among the top queues, then the share of each queue among those below it."""
    wanted = _wanted(queues, charge, demand)
    due = [0] * len(wanted)
    # Parents come first, so that a queue's share is known when its children divide it.
    for parent in (NONE, *range(len(due))):
        siblings = queues.children.get(parent, ())
        has = capacity if parent == NONE else due[parent]
        if siblings and has > 0:
            _divide(queues, charge, siblings, has, wanted, due)
    return due


def _wanted(queues: Queues, charge: int, demand: Sequence[Sequence[int]]) -> list[int]:
    """Per queue: what it could use, its own gangs and the queues below together, at most its limit."""
    limits: list[int] = queues.limit[:, charge].tolist()
    wanted = [int(own[charge]) for own in demand]
    for row in range(len(wanted) - 1, -1, -1):
        wanted[row] = min(wanted[row], limits[row])
        if queues.parent_of[row] != NONE:
            wanted[queues.parent_of[row]] += wanted[row]
    return wanted


def _divide(
    queues: Queues, charge: int, siblings: Sequence[int], has: int, wanted: Sequence[int], due: list[int]
) -> None:
    """What the parent has: first the guarantees, in proportion to the quotas where they exceed it; then the rest,
    higher priorities first, by weight.
    """
    guaranteed = {row: min(quota_of(queues, row, charge, has), wanted[row]) for row in siblings}
    claims = {row: _claim(queues, row, charge, has) for row in siblings}
    rest = has - _raise(queues, claims, has, guaranteed, due)
    # What guarantees something without a claim is an unlimited quota of weight 0: it comes after the others.
    claims = {row: Fraction(1) for row in siblings if not claims[row]}
    rest -= _raise(queues, claims, rest, guaranteed, due)
    ranks = sorted(siblings, key=lambda row: -queues.priorities[row])
    for _, rows in groupby(ranks, key=lambda row: queues.priorities[row]):
        rest -= _raise(queues, {row: queues.weights[row][charge] for row in rows}, rest, wanted, due)


def quota_of(queues: Queues, row: int, charge: int, has: int) -> int:
    """The quota of a queue whose parent (at the top: the cluster) has so much; an unlimited one is all of that."""
    quota = int(queues.quota[row, charge])
    return has if quota >= UNLIMITED else quota


def _claim(queues: Queues, row: int, charge: int, has: int) -> Fraction:
    """What siblings divide their guarantees by: the quota; for an unlimited one the parent's share times the weight."""
    quota = int(queues.quota[row, charge])
    return has * queues.weights[row][charge] if quota >= UNLIMITED else Fraction(quota)


def _raise(
    queues: Queues,
    weight_of: Mapping[int, Fraction],
    rest: int,
    most: Mapping[int, int] | Sequence[int],
    due: list[int],
) -> int:
    """Raises shares evenly per weight, none above its `most`, until the rest is spent. Returns what that took."""
    rows = [row for row, weight in weight_of.items() if weight > 0 and due[row] < most[row]]
    if not rows or rest <= 0:
        return 0
    before = rest
    weights = _whole([weight_of[row] for row in rows])
    total = sum(weights)
    # By need per weight. Fractions of these denominators that differ at all differ by as much as the shift shows.
    shift = 2 * max(weights).bit_length()
    needs = [most[row] - due[row] for row in rows]
    order = sorted(range(len(rows)), key=lambda at: (needs[at] << shift) // weights[at])
    for place, at in enumerate(order):
        if needs[at] * total > rest * weights[at]:
            # None of those after this one gets all that it needs.
            for row, given in _to_the_last(queues, [(rows[one], weights[one]) for one in order[place:]], rest, total):
                due[row] += given
            return before
        due[rows[at]] += needs[at]
        rest -= needs[at]
        total -= weights[at]
    return before - rest


def _to_the_last(
    queues: Queues, weighted: Sequence[tuple[int, int]], rest: int, total: int
) -> Iterator[tuple[int, int]]:
    """The rest by weight among queues of which each needs more: whole units, then single ones by largest remainder."""
    portions = [(row, *divmod(rest * weight, total)) for row, weight in weighted]
    single = rest - sum(units for _, units, _ in portions)
    portions.sort(key=lambda one: (-one[2], queues.created_ns[one[0]], queues.names[one[0]]))
    for place, (row, units, _) in enumerate(portions):
        yield row, units + (place < single)


def _whole(weights: Sequence[Fraction]) -> list[int]:
    """Whole numbers in the same proportion."""
    common = lcm(*(weight.denominator for weight in weights))
    return [weight.numerator * (common // weight.denominator) for weight in weights]
