"""Fair share: what every queue is due, top down (SPEC §7)."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from math import lcm

from muster.api.tree import NONE
from muster.snapshot.queues import UNLIMITED, Queues


def fair_shares(
    queues: Queues, capacity: Sequence[int], demand: Sequence[Sequence[int]], pieces: Sequence[int] = ()
) -> list[tuple[int, ...]]:
    """Per queue and charge what it is due, in base units.

    `demand[queue]` is what the gangs charged to the queue itself hold and ask for; that of a queue with children comes
    from them. Per charge, all pods ask for whole `pieces` (1 without them): a part of a piece is of use to no queue.
    """
    columns = []
    for charge, has in enumerate(capacity):
        piece = pieces[charge] if pieces else 1
        due = _shares(_Charge(queues, charge, piece), has // piece, [own[charge] // piece for own in demand])
        columns.append([one * piece for one in due])
    return list(zip(*columns, strict=True))


class _Charge:
    """The queues with what each may have of one charge, in whole pieces."""

    def __init__(self, queues: Queues, charge: int, piece: int) -> None:
        self.queues, self._piece = queues, piece
        self._quotas: list[int] = queues.quota[:, charge].tolist()
        self.limits = [int(one) // piece for one in queues.limit[:, charge].tolist()]
        self.weights = [weights[charge] for weights in queues.weights]

    def quota(self, row: int, has: int) -> int:
        """The quota of a queue whose parent has so many pieces."""
        quota = self._quotas[row]
        return has if quota >= UNLIMITED else quota // self._piece

    def claim(self, row: int, has: int) -> Fraction:
        """What siblings divide guarantees by: the quota; for an unlimited one what the parent has, times the weight."""
        quota = self._quotas[row]
        return has * self._piece * self.weights[row] if quota >= UNLIMITED else Fraction(quota)


def quota_of(queues: Queues, row: int, charge: int, has: int) -> int:
    """The quota of a queue whose parent (at the top: the cluster) has so much; an unlimited one is all of that."""
    quota = int(queues.quota[row, charge])
    return has if quota >= UNLIMITED else quota


def _shares(one: _Charge, capacity: int, demand: Sequence[int]) -> list[int]:
    """The cluster is divided among the top queues, then the share of each queue among those below it."""
    queues, wanted = one.queues, _wanted(one, demand)
    due = [0] * len(wanted)
    # Parents come first, so that a queue's share is known when its children divide it.
    for parent in (NONE, *range(len(due))):
        siblings = queues.children.get(parent, ())
        has = capacity if parent == NONE else due[parent]
        if siblings and has > 0:
            _divide(one, siblings, has, wanted, due)
    return due


def _wanted(one: _Charge, demand: Sequence[int]) -> list[int]:
    """Per queue: what it could use, its own gangs and the queues below together, at most its limit."""
    wanted = list(demand)
    for row in range(len(wanted) - 1, -1, -1):
        wanted[row] = min(wanted[row], one.limits[row])
        if one.queues.parent_of[row] != NONE:
            wanted[one.queues.parent_of[row]] += wanted[row]
    return wanted


def _divide(one: _Charge, siblings: Sequence[int], has: int, wanted: Sequence[int], due: list[int]) -> None:
    """What the parent has: first the guarantees, in proportion to the quotas where they exceed it; then the rest,
    higher priorities first, by weight.
    """
    queues = one.queues
    guaranteed = {row: min(one.quota(row, has), wanted[row]) for row in siblings}
    rest = has - sum(guaranteed.values())
    if rest >= 0:
        for row, amount in guaranteed.items():
            due[row] = amount
    else:
        claims = {row: one.claim(row, has) for row in siblings}
        rest = has - _raise(queues, claims, has, guaranteed, due)
        # What guarantees something without a claim is an unlimited quota of weight 0: it comes after the others.
        claims = {row: Fraction(1) for row in siblings if not claims[row]}
        rest -= _raise(queues, claims, rest, guaranteed, due)
    ranks = sorted(siblings, key=lambda row: -queues.priorities[row])
    for _, rows in groupby(ranks, key=lambda row: queues.priorities[row]):
        rest -= _raise(queues, {row: one.weights[row] for row in rows}, rest, wanted, due)


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
