"""Which classifiers can claim the same pod. Conditions on different labels are independent, so it is decided label by
label: what one allows there and what the other allows.

Values that only the workload gives are not known. A label with such a value on one side tells nothing, unless both ask
for the very same thing.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from muster.api.documents import shown
from muster.grouping.model import Condition

# So many labels of pairs are compared for one interface; the time for that is a fraction of a second.
BUDGET = 1_000_000
_MOST_SHOWN = 4


class Allowed(NamedTuple):
    """What a classifier allows on one label: no label, these values, or (with `others`) all values but these."""

    absent: bool
    values: frozenset[str]
    others: bool

    def both(self, other: "Allowed") -> "Allowed":
        """What two of them allow together."""
        absent = self.absent and other.absent
        if self.others and other.others:
            return Allowed(absent, self.values | other.values, True)
        if self.others:
            return Allowed(absent, other.values - self.values, False)
        if other.others:
            return Allowed(absent, self.values - other.values, False)
        return Allowed(absent, self.values & other.values, False)

    @property
    def nothing(self) -> bool:
        """Whether no pod can meet this."""
        return not self.absent and not self.others and not self.values


ANYTHING = Allowed(True, frozenset(), True)


class Claim(NamedTuple):
    """A classifier by labels. `unknown` are the conditions whose value the workload gives, as far as they can be told
    apart.
    """

    allowed: Mapping[str, Allowed]
    unknown: Mapping[str, frozenset[Hashable]]

    @property
    def impossible(self) -> str:
        """A label whose conditions exclude each other, or nothing."""
        return next((key for key, allowed in self.allowed.items() if allowed.nothing), "")


class Meeting(NamedTuple):
    """Two classifiers, by number, that claim the same pods, and these in words."""

    first: int
    second: int
    pods: str


def claim_of(conditions: Iterable[tuple[Condition, Hashable]]) -> Claim:
    """What conditions claim together; with each goes what its value means, when that is not known."""
    allowed: dict[str, Allowed] = {}
    unknown: defaultdict[str, set[Hashable]] = defaultdict(set)
    for condition, meaning in conditions:
        if condition.question is not None:
            unknown[condition.key].add((condition.operator, meaning))
        else:
            found = allowed_by(condition.operator, condition.values)
            allowed[condition.key] = allowed.get(condition.key, ANYTHING).both(found)
    return Claim(allowed, {key: frozenset(meanings) for key, meanings in unknown.items()})


def allowed_by(operator: str, values: Iterable[str]) -> Allowed:
    """What one condition allows. A label that is not there differs from every value."""
    match operator:
        case "Equals" | "In":
            return Allowed(False, frozenset(values), False)
        case "NotEquals" | "NotIn":
            return Allowed(True, frozenset(values), True)
        case "Exists":
            return Allowed(False, frozenset(), True)
    return Allowed(True, frozenset(), False)


def meet(one: Claim, other: Claim) -> bool:
    """Whether pods that both claim are known to be possible."""
    for key in one.unknown.keys() | other.unknown.keys():
        shared = (key in one.allowed or key in one.unknown) and (key in other.allowed or key in other.unknown)
        same = one.unknown.get(key) == other.unknown.get(key) and one.allowed.get(key) == other.allowed.get(key)
        if shared and not same:
            return False
    fewer, more = (one, other) if len(one.allowed) <= len(other.allowed) else (other, one)
    return not any(
        key in more.allowed and allowed.both(more.allowed[key]).nothing for key, allowed in fewer.allowed.items()
    )


def in_words(one: Claim, other: Claim) -> str:
    """The pods that two claims share: `role=a, index=…`."""
    found, without = [], []
    for key in dict.fromkeys((*one.allowed, *one.unknown, *other.allowed, *other.unknown)):
        allowed = one.allowed.get(key, ANYTHING).both(other.allowed.get(key, ANYTHING))
        if key in one.unknown or key in other.unknown:
            found.append(f"{shown(key)[1:-1]}=…")
        elif not allowed.others and allowed.values:
            found.append(f"{shown(key)[1:-1]}={shown(min(allowed.values))[1:-1]}")
        elif not allowed.absent:
            found.append(f"some {shown(key)[1:-1]}")
        else:
            without.append(f"without {shown(key)[1:-1]}")
    words = found or without
    return ", ".join([*words[:_MOST_SHOWN], *(["…"] if len(words) > _MOST_SHOWN else [])])


class Comparison:
    """Compares the classifiers of one interface, as many as the budget allows."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget

    @property
    def incomplete(self) -> bool:
        """Whether some were not compared."""
        return self._budget < 0

    def meetings(
        self, claims: Sequence[Claim], matters: Callable[[int, int], bool] = lambda first, second: True
    ) -> Iterator[Meeting]:
        """For each claim, the first one before it that claims some of the same pods, where that matters."""
        key, weights = _telling(claims), [_weight(claim) for claim in claims]
        by_value: defaultdict[str, list[int]] = defaultdict(list)
        others: list[int] = []
        for second, claim in enumerate(claims):
            wanted = _demanded(claim, key)
            before: Iterable[int] = range(second)
            if wanted is not None:
                # Lazily: who meets somebody early is not compared with all.
                before = heapq.merge(others, *(by_value[value] for value in wanted if value in by_value))
            for first in before:
                self._budget -= weights[first] + weights[second]
                if self._budget < 0:
                    return
                if meet(claims[first], claim) and matters(first, second):
                    yield Meeting(first, second, in_words(claims[first], claim))
                    break
            for value in wanted or ():
                by_value[value].append(second)
            if wanted is None:
                others.append(second)


def _weight(claim: Claim) -> int:
    """What it takes to look at a claim; values are compared more quickly than labels."""
    return 1 + len(claim.allowed) + len(claim.unknown) + sum(len(one.values) for one in claim.allowed.values()) // 8


def _telling(claims: Sequence[Claim]) -> str:
    """The label that leaves the fewest pairs to compare: claims that demand different values of it never meet."""
    demands: defaultdict[str, Counter[str]] = defaultdict(Counter)
    demanding: Counter[str] = Counter()
    for claim in claims:
        for key in claim.allowed:
            wanted = _demanded(claim, key)
            if wanted is not None:
                demands[key].update(wanted)
                demanding[key] += 1

    def pairs(key: str) -> int:
        return (len(claims) - demanding[key]) * len(claims) + sum(many * many for many in demands[key].values())

    return min(sorted(demands), key=pairs, default="")


def _demanded(claim: Claim, key: str) -> frozenset[str] | None:
    """The values of a label of which a pod must have one; None when it need not."""
    allowed = claim.allowed.get(key)
    return None if allowed is None or allowed.others or allowed.absent or key in claim.unknown else allowed.values
