"""Fair share: what every queue is due, top down (SPEC §7)."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from math import lcm

from muster.api.tree import NONE
from muster.snapshot.queues import Queues


def fair_shares(queues: Queues, capacity: Sequence[int], demand: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Per queue and charge what it is due, in base units.

    `demand[queue]` is what the gangs charged to the queue itself hold and ask for; that of a queue with children comes
    from them.
    """
    columns = [_shares(queues, charge, capacity[charge], demand) for charge in range(len(capacity))]
    return list(zip(*columns, strict=True))


def _shares(queues: Queues, charge: int, capacity: int, demand: Sequence[Sequence[int]]) -> list[int]:
    """One charge: the cluster goes to the top queues, then what each queue is due to those below it."""
    wanted = _wanted(queues, charge, demand)
    quotas: list[int] = queues.quota[:, charge].tolist()
    # The guarantee is kept also where there is less than was promised.
    due = [min(quota, want) for quota, want in zip(quotas, wanted, strict=True)]
    # Parents come first, so that a queue's share is known when its children divide it.
    for parent in (NONE, *range(len(due))):
        siblings = queues.children.get(parent, ())
        if siblings:
            rest = (capacity if parent == NONE else due[parent]) - sum(due[row] for row in siblings)
            _divide(queues, charge, siblings, rest, wanted, due)
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
    queues: Queues, charge: int, siblings: Sequence[int], rest: int, wanted: Sequence[int], due: list[int]
) -> None:
    """Adds to what siblings are due: the rest beyond the guarantees, higher priorities first, by weight."""
    open_ = [row for row in siblings if due[row] < wanted[row] and queues.weights[row][charge] > 0]
    open_.sort(key=lambda row: -queues.priorities[row])
    for _, rows in groupby(open_, key=lambda row: queues.priorities[row]):
        if rest <= 0:
            return
        for row, given in _by_weight(queues, charge, list(rows), rest, wanted, due):
            due[row] += given
            rest -= given


def _by_weight(
    queues: Queues, charge: int, rows: Sequence[int], rest: int, wanted: Sequence[int], due: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """How much of the rest each of these queues gets; all of it, unless all of them get what they need."""
    weights = _whole([queues.weights[row][charge] for row in rows])
    total = sum(weights)
    # By need per weight. Fractions of these denominators that differ at all differ by as much as the shift shows.
    shift = 2 * max(weights).bit_length()
    needs = [wanted[row] - due[row] for row in rows]
    order = sorted(range(len(rows)), key=lambda at: (needs[at] << shift) // weights[at])
    for place, at in enumerate(order):
        if needs[at] * total > rest * weights[at]:
            # Nor does anybody after this one get all that he needs.
            yield from _to_the_last(queues, [(rows[one], weights[one]) for one in order[place:]], rest, total)
            return
        yield rows[at], needs[at]
        rest -= needs[at]
        total -= weights[at]


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
