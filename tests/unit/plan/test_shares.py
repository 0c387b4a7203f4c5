"""Fair share: the guarantee to each, the rest by priority and weight, what is left by remainder, age and name."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.tree import NONE
from muster.plan.shares import fair_shares
from muster.snapshot.queues import CHARGES, UNLIMITED, Queues
from oracle import queues as oracle

EACH = len(CHARGES)


class Q(NamedTuple):
    """A queue of the tables; amounts are whole devices, -1 for no end."""

    demand: int = 0
    quota: int = 0
    limit: int = -1
    weight: str | int = 1
    priority: int = 100
    under: str = ""
    born: int = 0


def arrays(queues: dict[str, Q]) -> Queues:
    """The queues in the order in which they are given, all charges alike."""
    row_of = {name: row for row, name in enumerate(queues)}
    ends = {
        which: np.array(
            [[UNLIMITED if (end := getattr(queue, which)) < 0 else end] * EACH for queue in queues.values()],
            dtype=np.int64,
        ).reshape(len(queues), EACH)
        for which in ("quota", "limit")
    }
    return Queues(
        names=tuple(queues),
        parent_of=tuple(row_of[queue.under] if queue.under else NONE for queue in queues.values()),
        priorities=tuple(queue.priority for queue in queues.values()),
        created_ns=tuple(queue.born for queue in queues.values()),
        weights=tuple((Fraction(queue.weight),) * EACH for queue in queues.values()),
        **ends,
    )


def shares(capacity: int, queues: dict[str, Q]) -> dict[str, int]:
    """What each is due; all charges must say the same."""
    found = fair_shares(arrays(queues), (capacity,) * EACH, [(queue.demand,) * EACH for queue in queues.values()])
    assert all(len(set(due)) == 1 for due in found)
    return {name: due[0] for name, due in zip(queues, found, strict=True)}


GUARANTEES = [
    pytest.param(10, {}, {}, id="nobody"),
    pytest.param(10, {"a": Q(4)}, {"a": 4}, id="alone, and there is enough"),
    pytest.param(10, {"a": Q(14)}, {"a": 10}, id="alone, and there is too little"),
    pytest.param(10, {"a": Q(0, quota=5)}, {"a": 0}, id="no demand, no share"),
    pytest.param(
        10, {"a": Q(10, quota=6), "b": Q(10)}, {"a": 8, "b": 2}, id="the quota first, then the rest by halves"
    ),
    pytest.param(
        10, {"a": Q(2, quota=6), "b": Q(10)}, {"a": 2, "b": 8}, id="a guarantee that is not asked for is lent"
    ),
    pytest.param(10, {"a": Q(6, quota=6), "b": Q(10)}, {"a": 6, "b": 4}, id="a demand that is just the quota"),
    pytest.param(
        10, {"a": Q(10, quota=-1), "b": Q(10)}, {"a": 10, "b": 0}, id="an unlimited quota takes all it asks for"
    ),
    pytest.param(
        10, {"a": Q(3, quota=-1), "b": Q(10)}, {"a": 3, "b": 7}, id="an unlimited quota takes no more than that"
    ),
    pytest.param(
        10, {"a": Q(10, quota=-1), "b": Q(10, quota=-1)}, {"a": 5, "b": 5}, id="two unlimited quotas promise too much"
    ),
    pytest.param(
        10, {"a": Q(8, quota=8), "b": Q(8, quota=8)}, {"a": 5, "b": 5}, id="equal quotas that promise too much"
    ),
    pytest.param(
        10,
        {"a": Q(20, quota=12), "b": Q(20, quota=8)},
        {"a": 6, "b": 4},
        id="quotas that promise too much are cut in proportion",
    ),
    pytest.param(
        10,
        {"a": Q(2, quota=12), "b": Q(20, quota=8), "c": Q(20, quota=24)},
        {"a": 2, "b": 2, "c": 6},
        id="what one does not ask for of its part goes to the others, in proportion",
    ),
    pytest.param(
        10,
        {"a": Q(20, quota=12, limit=3), "b": Q(20, quota=8)},
        {"a": 3, "b": 7},
        id="a limit below the part of a quota that is cut",
    ),
    pytest.param(
        10,
        {"a": Q(20, quota=12, priority=200), "b": Q(20, quota=12), "c": Q(20, priority=300)},
        {"a": 5, "b": 5, "c": 0},
        id="priorities mean nothing among guarantees",
    ),
    pytest.param(
        10,
        {"a": Q(8, quota=8), "b": Q(8, quota=8), "c": Q(5)},
        {"a": 5, "b": 5, "c": 0},
        id="quotas that promise too much leave nothing for the third",
    ),
    pytest.param(
        10,
        {"a": Q(3, quota=8), "b": Q(3, quota=8), "c": Q(10)},
        {"a": 3, "b": 3, "c": 4},
        id="quotas that promise too much, little of it asked for",
    ),
    pytest.param(0, {"a": Q(5, quota=3), "b": Q(5)}, {"a": 0, "b": 0}, id="no capacity: a guarantee of nothing"),
    pytest.param(0, {"a": Q(5)}, {"a": 0}, id="no capacity, no quota"),
]

# 4 GPUs, of which a asks for 4 and b for 2; and whom else there is.
UNLIMITED_QUOTAS = [
    *(
        pytest.param(
            4,
            {"p": Q(quota=-1), "a": Q(4, under="p", quota=quota), "b": Q(2, under="p", quota=quota)},
            {"p": 4, "a": 2, "b": 2},
            id=f"below an unlimited parent, quotas of {quota}",
        )
        for quota in (0, 1, -1, 4)
    ),
    *(
        pytest.param(
            4, {"a": Q(4, quota=quota), "b": Q(2, quota=quota)}, {"a": 2, "b": 2}, id=f"at the top, quotas of {quota}"
        )
        for quota in (0, 1, -1, 4)
    ),
    pytest.param(
        8,
        {"a": Q(8, quota=-1), "b": Q(8, quota=-1, weight=3)},
        {"a": 2, "b": 6},
        id="unlimited quotas are divided by weight",
    ),
    pytest.param(
        9, {"a": Q(9, quota=-1), "b": Q(9, quota=9)}, {"a": 5, "b": 4}, id="an unlimited quota is all there is"
    ),
    pytest.param(
        12, {"a": Q(12, quota=-1), "b": Q(12, quota=4)}, {"a": 9, "b": 3}, id="beside a quota it counts as all there is"
    ),
    pytest.param(
        12,
        {"a": Q(12, quota=-1), "b": Q(99, quota=4)},
        {"a": 9, "b": 3},
        id="demand does not raise what a quota counts",
    ),
    pytest.param(
        10,
        {"a": Q(10, quota=-1, weight="0.1"), "b": Q(10, quota=4)},
        {"a": 6, "b": 4},
        id="a small weight does not make the quota of another one larger",
    ),
    pytest.param(
        10,
        {"a": Q(10, quota=-1, weight=0), "b": Q(10, quota=4)},
        {"a": 6, "b": 4},
        id="an unlimited quota of weight 0 comes after the others",
    ),
    pytest.param(
        9,
        {"a": Q(9, quota=-1, weight=0), "b": Q(9, quota=-1, weight=0), "c": Q(3, quota=-1)},
        {"a": 3, "b": 3, "c": 3},
        id="unlimited quotas of weight 0 are alike",
    ),
    pytest.param(
        12,
        {"p": Q(limit=6), "a": Q(9, under="p", quota=-1), "b": Q(9, under="p", quota=3), "o": Q(9)},
        {"p": 6, "a": 4, "b": 2, "o": 6},
        id="what the parent has is its share",
    ),
]

LIMITS = [
    pytest.param(10, {"a": Q(10, limit=0), "b": Q(10)}, {"a": 0, "b": 10}, id="limit 0 allows nothing"),
    pytest.param(10, {"a": Q(10, limit=0, quota=-1)}, {"a": 0}, id="limit 0 allows nothing of an unlimited quota"),
    pytest.param(10, {"a": Q(10, limit=-1)}, {"a": 10}, id="limit -1 ends nothing"),
    pytest.param(10, {"a": Q(10, quota=6, limit=4), "b": Q(10)}, {"a": 4, "b": 6}, id="a limit below the quota wins"),
    pytest.param(10, {"a": Q(10, limit=3), "b": Q(10)}, {"a": 3, "b": 7}, id="a limit ends the share of the rest"),
    pytest.param(10, {"a": Q(10, quota=4, limit=4), "b": Q(10)}, {"a": 4, "b": 6}, id="a limit that is just the quota"),
    pytest.param(10, {"a": Q(10, quota=4, limit=6), "b": Q(10)}, {"a": 6, "b": 4}, id="a limit above the quota"),
    pytest.param(10, {"a": Q(10, limit=3), "b": Q(2)}, {"a": 3, "b": 2}, id="what nobody can use stays"),
]

WEIGHTS = [
    pytest.param(10, {"a": Q(10), "b": Q(10)}, {"a": 5, "b": 5}, id="equal weights, equal shares"),
    pytest.param(8, {"a": Q(10), "b": Q(10, weight=3)}, {"a": 2, "b": 6}, id="one to three"),
    pytest.param(
        8, {"a": Q(10, weight="0.5"), "b": Q(10, weight="1.5")}, {"a": 2, "b": 6}, id="one to three in halves"
    ),
    pytest.param(9, {"a": Q(10, weight="0.1"), "b": Q(10, weight="0.2")}, {"a": 3, "b": 6}, id="tenths are exact"),
    pytest.param(10, {"a": Q(10, weight=0), "b": Q(3)}, {"a": 0, "b": 3}, id="weight 0 gets none of the rest"),
    pytest.param(10, {"a": Q(10, quota=4, weight=0), "b": Q(10)}, {"a": 4, "b": 6}, id="weight 0 keeps its guarantee"),
    pytest.param(10, {"a": Q(10, weight=0), "b": Q(10, weight=0)}, {"a": 0, "b": 0}, id="weight 0 everywhere"),
    pytest.param(
        12,
        {"a": Q(6, weight=3), "b": Q(10)},
        {"a": 6, "b": 6},
        id="who needs less than his weight gives leaves the rest",
    ),
    pytest.param(9, {"a": Q(3), "b": Q(10), "c": Q(10)}, {"a": 3, "b": 3, "c": 3}, id="who needs just his share"),
    pytest.param(
        12,
        {"a": Q(1), "b": Q(3), "c": Q(10), "d": Q(10)},
        {"a": 1, "b": 3, "c": 4, "d": 4},
        id="what one leaves is enough for the next",
    ),
    pytest.param(
        16,
        {"a": Q(10, quota=4), "b": Q(10, weight=2)},
        {"a": 8, "b": 8},
        id="weight divides only what is beyond the guarantees",
    ),
    pytest.param(
        10,
        {"a": Q(10, weight=10**300), "b": Q(10, weight=Fraction(1, 10**300))},
        {"a": 10, "b": 0},
        id="weights far apart",
    ),
]

LEFTOVERS = [
    pytest.param(10, {"a": Q(10), "b": Q(10, weight=2)}, {"a": 3, "b": 7}, id="the largest remainder"),
    pytest.param(5, {"a": Q(5, born=2), "b": Q(5, born=1)}, {"a": 2, "b": 3}, id="equal remainders: the older"),
    pytest.param(5, {"a": Q(5, born=2), "b": Q(5)}, {"a": 2, "b": 3}, id="without a date as old as can be"),
    pytest.param(5, {"a": Q(5, born=1), "b": Q(5, born=1)}, {"a": 3, "b": 2}, id="equally old: by name"),
    pytest.param(
        10, {"a": Q(10, born=1), "b": Q(10, weight=2, born=2)}, {"a": 3, "b": 7}, id="the remainder before the age"
    ),
    pytest.param(5, {"a": Q(5), "b": Q(5), "c": Q(5)}, {"a": 2, "b": 2, "c": 1}, id="two units for three"),
    pytest.param(
        10, {"a": Q(1), "b": Q(10), "c": Q(10)}, {"a": 1, "b": 5, "c": 4}, id="one unit after somebody was satisfied"
    ),
    pytest.param(1, {"a": Q(1, born=3), "b": Q(1, born=2), "c": Q(1, born=1)}, {"a": 0, "b": 0, "c": 1}, id="one unit"),
    pytest.param(
        2**60 + 1,
        {"a": Q(2**60), "b": Q(2**60)},
        {"a": 2**59 + 1, "b": 2**59},
        id="no unit is lost in amounts that no float holds",
    ),
]

PRIORITIES = [
    pytest.param(10, {"a": Q(10), "b": Q(10, priority=200)}, {"a": 0, "b": 10}, id="the higher one first"),
    pytest.param(10, {"a": Q(10), "b": Q(4, priority=200)}, {"a": 6, "b": 4}, id="what it leaves goes on"),
    pytest.param(
        10, {"a": Q(10, quota=3), "b": Q(20, priority=200)}, {"a": 3, "b": 7}, id="guarantees come before priorities"
    ),
    pytest.param(
        10, {"a": Q(10), "b": Q(10, priority=200, weight=0)}, {"a": 10, "b": 0}, id="a priority without weight"
    ),
    pytest.param(
        10, {"a": Q(3, priority=300), "b": Q(3, priority=200), "c": Q(10)}, {"a": 3, "b": 3, "c": 4}, id="three of them"
    ),
    pytest.param(10, {"a": Q(10, priority=-1), "b": Q(10, priority=0)}, {"a": 0, "b": 10}, id="below zero"),
    pytest.param(
        10,
        {"a": Q(9, priority=200, limit=2), "b": Q(9, priority=200, limit=3), "c": Q(10)},
        {"a": 2, "b": 3, "c": 5},
        id="limits of the higher ones leave something",
    ),
    pytest.param(
        10,
        {"a": Q(9, priority=200), "b": Q(9, priority=200, weight=4), "c": Q(10, weight=100)},
        {"a": 2, "b": 8, "c": 0},
        id="weights count only among equals",
    ),
]

NESTED = [
    pytest.param(
        10,
        {"p": Q(), "a": Q(10, under="p"), "b": Q(10, under="p"), "o": Q(10)},
        {"p": 5, "a": 3, "b": 2, "o": 5},
        id="a parent's share is divided below it",
    ),
    pytest.param(
        10,
        {"p": Q(quota=8), "a": Q(10, under="p"), "b": Q(10, under="p"), "o": Q(10)},
        {"p": 9, "a": 5, "b": 4, "o": 1},
        id="a parent's quota",
    ),
    pytest.param(
        10,
        {"p": Q(limit=4), "a": Q(10, under="p"), "b": Q(10, under="p"), "o": Q(10)},
        {"p": 4, "a": 2, "b": 2, "o": 6},
        id="a parent's limit",
    ),
    pytest.param(
        10,
        {"p": Q(), "a": Q(10, under="p", limit=2), "o": Q(10)},
        {"p": 2, "a": 2, "o": 8},
        id="a child's limit cuts what the parent asks for",
    ),
    pytest.param(
        10,
        {"p": Q(quota=6), "a": Q(10, under="p", quota=4), "b": Q(10, under="p", quota=2), "o": Q(10, quota=4)},
        {"p": 6, "a": 4, "b": 2, "o": 4},
        id="guarantees that add up",
    ),
    pytest.param(
        10,
        {"p": Q(limit=3), "a": Q(5, under="p", quota=5), "b": Q(5, under="p")},
        {"p": 3, "a": 3, "b": 0},
        id="a child's guarantee is no more than the parent's share",
    ),
    pytest.param(
        10,
        {"p": Q(quota=4), "a": Q(4, under="p", quota=4), "b": Q(4, under="p", quota=4), "o": Q(10)},
        {"p": 7, "a": 4, "b": 3, "o": 3},
        id="children that were promised more than the parent has",
    ),
    pytest.param(
        10,
        {"p": Q(), "a": Q(0, under="p"), "b": Q(10, under="p"), "o": Q(10)},
        {"p": 5, "a": 0, "b": 5, "o": 5},
        id="an idle child leaves its part to its sibling, not to the uncle",
    ),
    pytest.param(
        10,
        {"p": Q(), "a": Q(10, under="p", priority=500), "b": Q(10, under="p"), "o": Q(10)},
        {"p": 5, "a": 5, "b": 0, "o": 5},
        id="a child's priority counts among its siblings only",
    ),
    pytest.param(
        12,
        {"p": Q(weight=2), "a": Q(20, under="p"), "b": Q(20, under="p", weight=3), "o": Q(20)},
        {"p": 8, "a": 2, "b": 6, "o": 4},
        id="weights at two levels",
    ),
    pytest.param(
        10,
        {"r": Q(limit=3), "p": Q(limit=5, under="r"), "a": Q(10, under="p")},
        {"r": 3, "p": 3, "a": 3},
        id="the narrowest limit of three levels, at the top",
    ),
    pytest.param(
        10,
        {"r": Q(limit=7), "p": Q(limit=5, under="r"), "a": Q(10, under="p", limit=2), "b": Q(1, under="p")},
        {"r": 3, "p": 3, "a": 2, "b": 1},
        id="the narrowest limit of three levels, at the bottom",
    ),
    pytest.param(
        10,
        {"p": Q(4), "a": Q(2, under="p"), "o": Q(10)},
        {"p": 5, "a": 2, "o": 5},
        id="what is charged to a parent itself is demand too",
    ),
    pytest.param(
        10,
        {"p": Q(quota=-1), "a": Q(4, under="p", weight=0), "b": Q(9, under="p", quota=1), "o": Q(10)},
        {"p": 10, "a": 0, "b": 9, "o": 0},
        id="an unlimited parent is due what its children ask for, also what they can't get",
    ),
]


@pytest.mark.parametrize(
    ("capacity", "queues", "due"),
    [*GUARANTEES, *UNLIMITED_QUOTAS, *LIMITS, *WEIGHTS, *LEFTOVERS, *PRIORITIES, *NESTED],
)
def test_shares(capacity, queues, due):
    """Worked by hand from SPEC §7."""
    assert shares(capacity, queues) == due


def test_charges_are_independent():
    """Cores to whom they were promised, bytes to whom has the weight, devices to whom asks for any."""
    queues = Queues(
        names=("a", "b"),
        parent_of=(NONE, NONE),
        priorities=(100, 100),
        created_ns=(0, 0),
        quota=np.array([[4000, 0, 0], [0, 0, 0]], dtype=np.int64),
        limit=np.array([[UNLIMITED, UNLIMITED, UNLIMITED], [UNLIMITED, UNLIMITED, 3]], dtype=np.int64),
        weights=((Fraction(0), Fraction(1), Fraction(1)), (Fraction(1), Fraction(3), Fraction(1))),
    )
    found = fair_shares(queues, (6000, 10**9, 8), [(9000, 10**9, 0), (9000, 10**9, 5)])
    assert found == [(4000, 250_000_000, 0), (2000, 750_000_000, 3)]


AMOUNTS = st.integers(0, 30)
QUEUES = st.lists(
    st.builds(
        Q,
        demand=AMOUNTS,
        quota=st.integers(-1, 20),
        limit=st.integers(-1, 30),
        weight=st.sampled_from(["0", "1", "2", "0.5", "0.1", "3.3"]),
        priority=st.sampled_from([100, 200]),
        born=st.integers(0, 2),
        under=st.just(""),
    ),
    max_size=9,
)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Q]:
    """Queues in any nesting."""
    found: dict[str, Q] = {}
    for number, queue in enumerate(draw(QUEUES)):
        found[f"q{number}"] = queue._replace(under=draw(st.sampled_from(["", "", *found])))
    return found


def wanted(queues: dict[str, Q], name: str) -> int:
    """What a queue can use, with all below it."""
    below = sum(wanted(queues, child) for child, queue in queues.items() if queue.under == name)
    return min(ended(queues[name].limit), queues[name].demand + below)


def ended(amount: int) -> int:
    return UNLIMITED if amount < 0 else amount


def quota_of(queue: Q, has: int) -> int:
    """The quota of a queue whose parent has so much."""
    return has if queue.quota < 0 else queue.quota


def guaranteed(queues: dict[str, Q], name: str, has: int) -> int:
    return min(quota_of(queues[name], has), wanted(queues, name))


def families(capacity: int, queues: dict[str, Q], due: dict[str, int]) -> list[tuple[int, list[str]]]:
    """What there is for siblings, and they."""
    found = [(capacity, [name for name, queue in queues.items() if not queue.under])]
    return found + [
        (due[parent], [name for name, queue in queues.items() if queue.under == parent]) for parent in queues
    ]


@given(st.integers(0, 60), trees())
def test_siblings_are_due_no_more_than_their_parent(capacity, queues):
    """At every level no more than there is; to each at least its guarantee where there is enough for all guarantees."""
    due = shares(capacity, queues)
    for has, siblings in families(capacity, queues, due):
        promised = {name: guaranteed(queues, name, has) for name in siblings}
        assert sum(due[name] for name in siblings) <= has
        for name in siblings:
            assert due[name] <= wanted(queues, name)
            assert due[name] >= promised[name] if sum(promised.values()) <= has else due[name] <= promised[name]


@given(st.integers(0, 60), trees())
def test_nothing_stays_that_somebody_could_use(capacity, queues):
    """While a queue with weight could use more, its family has used up all; and a lower priority got nothing extra."""
    due = shares(capacity, queues)
    for has, siblings in families(capacity, queues, due):
        hungry = [name for name in siblings if due[name] < wanted(queues, name) and Fraction(queues[name].weight)]
        if hungry:
            assert sum(due[name] for name in siblings) == has
            highest = max(queues[name].priority for name in hungry)
            for name in siblings:
                assert queues[name].priority >= highest or due[name] <= guaranteed(queues, name, has)


@given(st.integers(0, 60), trees())
def test_what_is_divided_is_level(capacity, queues):
    """Of those that could use more, none is a whole unit above or below another per weight: of the guarantees where
    there is not enough for all of them, else of the rest among equals in priority.
    """
    due = shares(capacity, queues)
    for has, siblings in families(capacity, queues, due):
        promised = {name: guaranteed(queues, name, has) for name in siblings}
        cut = sum(promised.values()) > has
        levels: dict[int, list[tuple[Fraction, Fraction]]] = {}
        for name in siblings:
            queue = queues[name]
            weight = Fraction(queue.weight)
            claim = (has * weight if queue.quota < 0 else Fraction(queue.quota)) if cut else weight
            if claim and due[name] < (promised[name] if cut else wanted(queues, name)):
                extra = due[name] - (0 if cut else promised[name])
                levels.setdefault(0 if cut else queue.priority, []).append(((extra - 1) / claim, (extra + 1) / claim))
        for level in levels.values():
            assert max(low for low, _ in level) < min(high for _, high in level)


@given(st.integers(0, 60), trees(), st.randoms(use_true_random=False))
def test_order_means_nothing(capacity, queues, random):
    """Siblings, and whole families, in any order."""
    names = list(queues)
    random.shuffle(names)
    ordered: dict[str, Q] = {}
    while len(ordered) < len(queues):
        ordered |= {name: queues[name] for name in names if not queues[name].under or queues[name].under in ordered}
    assert shares(capacity, ordered) == shares(capacity, queues)


@given(st.integers(0, 60), trees(), st.permutations([f"q{number}" for number in range(9)]))
def test_names_mean_nothing_where_ages_differ(capacity, queues, names):
    """Where ages tell queues apart, names mean nothing."""
    new = dict(zip([f"q{number}" for number in range(9)], names, strict=True)) | {"": ""}
    renamed = {new[name]: queue._replace(under=new[queue.under], born=int(name[1:])) for name, queue in queues.items()}
    aged = {name: queue._replace(born=int(name[1:])) for name, queue in queues.items()}
    assert shares(capacity, renamed) == {new[name]: due for name, due in shares(capacity, aged).items()}


@given(st.integers(1, 60), st.integers(1, 5), trees())
def test_the_unit_means_nothing(capacity, times, queues):
    """In smaller units the share of a top queue is the same but for one unit of rounding."""
    finer = {
        name: queue._replace(
            demand=queue.demand * times,
            quota=queue.quota * times if queue.quota > 0 else queue.quota,
            limit=queue.limit * times if queue.limit > 0 else queue.limit,
        )
        for name, queue in queues.items()
    }
    coarse, fine = shares(capacity, queues), shares(capacity * times, finer)
    for name, queue in queues.items():
        if not queue.under:
            assert abs(coarse[name] - Fraction(fine[name], times)) < 1 + Fraction(1, times)


@given(st.integers(0, 60), st.integers(0, 60), trees())
def test_where_there_is_more_no_queue_is_due_less(capacity, more, queues):
    """But for the unit that may be left over elsewhere."""
    before, after = shares(capacity, queues), shares(capacity + more, queues)
    tops = [name for name, queue in queues.items() if not queue.under]
    assert sum(before[name] for name in tops) <= sum(after[name] for name in tops)
    for name in tops:
        assert before[name] <= after[name] + 1


@given(st.integers(0, 60), QUEUES, st.integers(0, 8), st.integers(1, 30))
def test_asking_for_more_takes_nothing_that_others_are_due(capacity, given_queues, at, more):
    """A queue that asks for more than its share already gets no more by asking for still more."""
    queues = {f"q{number}": queue for number, queue in enumerate(given_queues)}
    name = f"q{at}"
    before = shares(capacity, queues)
    if name in queues and before[name] < wanted(queues, name):
        asks = {**queues, name: queues[name]._replace(demand=queues[name].demand + more)}
        # Where its guarantee is what it asked for, and there was no rest for it, more of that is guaranteed now.
        quota = quota_of(queues[name], capacity)
        if queues[name].demand >= min(quota, ended(queues[name].limit)):
            assert shares(capacity, asks) == before
        else:
            assert shares(capacity, asks)[name] >= before[name]


@given(st.integers(0, 60), trees())
def test_shares_are_what_an_obvious_program_gives(capacity, queues):
    """Against the oracle, which finds the level of each step by its definition."""
    tree = oracle.Tree(
        {
            name: oracle.Queue(
                name,
                queue.under,
                queue.priority,
                queue.born,
                (oracle.ENDLESS if queue.quota < 0 else queue.quota,) * EACH,
                (oracle.ENDLESS if queue.limit < 0 else queue.limit,) * EACH,
                (Fraction(queue.weight),) * EACH,
            )
            for name, queue in queues.items()
        },
        written=True,
    )
    found = tree.shares((capacity,) * EACH, {name: (queue.demand,) * EACH for name, queue in queues.items()})
    assert shares(capacity, queues) == {name: found[name][0] for name in queues}
