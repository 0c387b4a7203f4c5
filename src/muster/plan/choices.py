"""Every choice of a few units, in the order of how much harm it does (SPEC §8)."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, product

from muster.plan.outcome import UnitKind
from muster.plan.units import Flags, Table


def ranked(numbers: Sequence[int], table: Table, enough: Flags) -> list[int]:
    """All choices of some units that may be enough, as bits, in the order of their rank.

    The units stand in the order of their age.
    Of two choices the one whose oldest is younger is better; which is to say, the one that is the smaller number.
    """
    spots: dict[tuple[int, int, int], int] = {}
    pods, kinds, priorities = [0], [0], [-(2**62)]
    for number in numbers:
        unit = table[number]
        mine = 0
        for leaf, at in table.spots(number):
            mine |= 1 << spots.setdefault((unit.gang, leaf, at), len(spots))
        kind, priority = int(table.kind[number]), int(table.priority[number])
        pods += [before | mine for before in pods]
        kinds += [max(before, kind) for before in kinds]
        priorities += [max(before, priority) for before in priorities]
    whole = UnitKind.WHOLE_GANG

    def rank(chosen: int) -> tuple[bool, int, int, int, int]:
        kind = kinds[chosen]
        return kind == whole, priorities[chosen], kind, pods[chosen].bit_count(), chosen

    return sorted((chosen for chosen in _choices(numbers, table) if enough[chosen]), key=rank)


def units_in(chosen: int, numbers: Sequence[int]) -> list[int]:
    """The units of a choice that is given as bits."""
    return [number for at, number in enumerate(numbers) if chosen >> at & 1]


def hopeful(
    choices: Sequence[list[int]],
    numbers: Sequence[int],
    legal: Callable[[list[int]], bool],
    gives: Callable[[list[int]], bool],
) -> Iterator[list[int]]:
    """Those of many choices of some units that are `legal`, in their order; without those that do not give enough room
    even with all that may go beside them. What `gives` enough does so with more, too.
    """
    if not choices:
        return
    needed = {one for one in numbers if not gives([other for other in numbers if other != one])}
    allowed = [some for some in choices if needed.issubset(some) and legal(some)]
    largest: list[frozenset[int]] = []
    for one in sorted(map(frozenset, allowed), key=len, reverse=True):
        if not any(one <= other for other in largest):
            largest.append(one)
    known: dict[frozenset[int], bool] = {}
    for some in allowed:
        above = [other for other in largest if other.issuperset(some)]
        # What is known first: each answer may cost a search.
        for other in sorted(above, key=lambda one: not known.get(one, False)):
            if other not in known:
                known[other] = gives(sorted(other))
            if known[other]:
                yield some
                break


def _choices(numbers: Sequence[int], table: Table) -> Iterator[int]:
    """All choices of some units, as bits; of units that are alike the youngest go first."""
    classes: dict[object, list[int]] = {}
    for at, number in enumerate(numbers):
        classes.setdefault(table.alike(number), []).append(1 << at)
    beginnings = [list(accumulate(bits, initial=0)) for bits in classes.values()]
    return (chosen for parts in product(*beginnings) if (chosen := sum(parts)))
