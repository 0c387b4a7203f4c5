"""The ledger: whatever is taken, given back and rewound, what fits is what a fresh count says."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.plan.ledger import Ledger, Taking
from muster.snapshot.build import build
from oracle.engine import world_of
from oracle.instances import group, node, pod

SHAPES = [{"gpus": 1, "cpus": 0}, {"gpus": 2, "cpus": 3}, {"gpus": 0, "cpus": 1}, {"gpus": 1, "cpus": 1, "zone": "a"}]


def snapshot_of(nodes=24, releasing=False):
    """Nodes enough that small changes are counted node by node and large ones anew."""
    waiting = [pod(f"p{index}", **shape) for index, shape in enumerate(SHAPES)]
    old = [pod("old", gpus=2, cpus=1, on="n00", terminating=True, gang="")] if releasing else []
    machines = [node(f"n{index:02}", index % 5, "ab"[index % 2], cpus=index % 7) for index in range(nodes)]
    return build(world_of([*machines, group(minMember=1), *waiting, *old]), 0)


SNAPSHOT = snapshot_of()
NODES = len(SNAPSHOT.nodes)


def recount(snapshot, taken, shape):
    """Copies that fit, from the snapshot's own amounts."""
    free = snapshot.free.copy()
    for taking in taken:
        for where, count in zip(taking.nodes, taking.counts, strict=True):
            free[where] -= count * snapshot.asks[taking.shape]
    ask = snapshot.asks[shape]
    copies = np.min([free[:, column] // ask[column] for column in np.flatnonzero(ask)], axis=0)
    return np.where(snapshot.allowed[shape], np.maximum(copies, 0), 0).tolist()


TAKINGS = st.builds(
    lambda shape, nodes, count: Taking(
        shape, np.array(sorted(nodes), dtype=np.intp), np.full(len(nodes), count, dtype=np.int64)
    ),
    st.sampled_from(sorted(SNAPSHOT.allowed)),
    st.sets(st.integers(0, NODES - 1), min_size=1, max_size=4),
    st.integers(1, 2),
)
MOVES = st.lists(
    st.one_of(st.tuples(st.just("take"), TAKINGS), st.tuples(st.sampled_from(["mark", "rewind", "ask"]), st.none())),
    max_size=25,
)


@given(MOVES)
def test_what_fits_is_what_a_fresh_count_says(moves):
    """After any takes, marks and rewinds, asked about at any time."""
    ledger, taken, marks = Ledger(SNAPSHOT), [], []
    for move, taking in moves:
        if move == "take":
            ledger.take(taking)
            taken.append(taking)
        elif move == "mark":
            marks.append((ledger.mark(), len(taken)))
        elif move == "rewind" and marks:
            mark, length = marks.pop()
            ledger.rewind(mark)
            del taken[length:]
        for shape in sorted(SNAPSHOT.allowed) if move == "ask" else ():
            assert ledger.fits(shape).tolist() == recount(SNAPSHOT, taken, shape)
    for shape in sorted(SNAPSHOT.allowed):
        assert ledger.fits(shape).tolist() == recount(SNAPSHOT, taken, shape)


def test_since_tells_what_was_taken():
    ledger = Ledger(SNAPSHOT)
    one = Taking(0, np.array([1]), np.array([1]))
    ledger.take(one)
    mark = ledger.mark()
    two = Taking(1, np.array([2, 3]), np.array([1, 2]))
    ledger.take(two)
    assert list(ledger.since(mark)) == [two]
    assert two.pods == [2, 3, 3]


def test_what_is_given_back_can_be_taken_again():
    ledger, taking = Ledger(SNAPSHOT), Taking(0, np.array([4]), np.array([3]))
    before = ledger.fits(0).tolist()
    ledger.take(taking)
    assert ledger.fits(0).tolist() != before
    ledger.give_back(taking)
    assert ledger.fits(0).tolist() == before


def test_room_of_terminating_pods_counts_only_when_asked():
    snapshot = snapshot_of(releasing=True)
    shape = min(snapshot.allowed)
    now, soon = Ledger(snapshot).fits(shape), Ledger(snapshot, releasing=True).fits(shape)
    assert (now <= soon).all()
    assert now[0] == 0


def test_large_amounts_stay_exact():
    """Bytes of memory do not fit 32 bits; what fits is the same."""
    waiting = pod("p", gpus=1)
    waiting["spec"]["containers"][0]["resources"]["requests"]["memory"] = str(3 * 2**40 + 1)
    machine = node("n", 8)
    machine["status"]["allocatable"]["memory"] = str(9 * 2**40 + 2)
    snapshot = build(world_of([machine, group(minMember=1), waiting]), 0)
    assert Ledger(snapshot).fits(0).tolist() == [2]
