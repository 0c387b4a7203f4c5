"""Queues as arrays: who is below whom, exact amounts, and what is wrong with a queue."""

import math
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.model import Metadata
from muster.api.queue import UNLIMITED as NO_END
from muster.api.queue import Queue, QueueResource, QueueResources, QueueSpec, entitlement_of
from muster.api.tree import NONE
from muster.snapshot.queues import CHARGES, PARTS, UNLIMITED, Costs, Problem, Standing, queues_of
from muster.snapshot.times import since_epoch_ns
from oracle.instances import GPU

SOME_TIME = datetime(2026, 1, 31, tzinfo=UTC)
ALLOWED = "kai.scheduler/allowed-namespaces"


def queue(name, under="", *, allowed=None, most=None, created=None, **spec) -> Queue:
    stated = {ALLOWED: allowed, "muster.dev/max-priority": most}
    annotations = {name: text for name, text in stated.items() if text is not None}
    metadata = Metadata(name=name, annotations=annotations, creation_timestamp=created)
    return Queue(metadata=metadata, spec=QueueSpec(parent_queue=under, **spec))


def named(*queues: Queue) -> dict[str, Queue]:
    return {one.metadata.name: one for one in queues}


def gpu(**amounts) -> QueueResources:
    return QueueResources(gpu=QueueResource(**amounts))


@pytest.mark.parametrize(
    ("name", "stated", "expected"),
    [
        pytest.param("cpu", None, (NO_END, NO_END, 1), id="a resource that is not named is unlimited"),
        pytest.param("cpu", QueueResource(), (0, NO_END, 1), id="fields that are not there: no quota, no limit"),
        pytest.param("cpu", QueueResource(quota=1500), (1500, NO_END, 1), id="cpu is in millicores"),
        pytest.param("memory", QueueResource(limit=2), (0, 2_000_000, 1), id="memory is in 10^6 bytes"),
        pytest.param(
            "gpu", QueueResource(quota=8, limit=16), (8 * PARTS, 16 * PARTS, 1), id="gpu is in parts of a device"
        ),
        pytest.param("gpu", QueueResource(quota=-1, limit=-1), (NO_END, NO_END, 1), id="-1 is no end"),
        pytest.param("gpu", QueueResource(quota=0, limit=0), (0, 0, 1), id="0 is nothing"),
        pytest.param("gpu", QueueResource(quota=1.9), (38_304, NO_END, 1), id="tenths of a device"),
        pytest.param("gpu", QueueResource(limit=0.142857), (0, 2_879, 1), id="less than a seventh is rounded down"),
        pytest.param("gpu", QueueResource(limit=0.143), (0, 2_882, 1), id="more than a seventh holds one"),
        pytest.param("memory", QueueResource(quota=0.1), (100_000, NO_END, 1), id="a tenth is a tenth"),
        pytest.param("memory", QueueResource(quota=4.35), (4_350_000, NO_END, 1), id="not what the float nearly is"),
        pytest.param(
            "gpu", QueueResource(over_quota_weight=0.1), (0, NO_END, Fraction(1, 10)), id="a weight of a tenth"
        ),
        pytest.param("gpu", QueueResource(over_quota_weight=0), (0, NO_END, 0), id="a weight of nothing"),
        pytest.param("gpu", QueueResource(over_quota_weight=-3), (0, NO_END, 0), id="a weight below nothing"),
        pytest.param("gpu", QueueResource(quota=-0.5, limit=-7), (NO_END, NO_END, 1), id="below zero is no end"),
        pytest.param(
            "gpu",
            QueueResource(quota=math.inf, limit=math.nan, over_quota_weight=math.nan),
            (NO_END, NO_END, 1),
            id="no numbers",
        ),
    ],
)
def test_amounts_are_exact(name, stated, expected):
    assert entitlement_of(name, stated) == expected


@given(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from(CHARGES))
def test_any_number_is_an_amount(number, name):
    """Whatever was written fits the arrays."""
    resources = QueueResources(**{name: QueueResource(quota=number, limit=number, over_quota_weight=number)})
    found = queues_of(named(queue("q", resources=resources)), ())
    column = CHARGES.index(name)
    assert 0 <= found.quota[0, column] <= UNLIMITED
    assert found.limit[0, column] == found.quota[0, column]
    assert found.weights[0][column] >= 0


@pytest.mark.parametrize(
    ("resource", "charge"),
    [
        ("cpu", 0),
        ("memory", 1),
        (GPU, 2),
        ("amd.com/gpu", 2),
        ("gpu", NONE),
        ("nvidia.com/gpu.shared", 2),
        ("nvidia.com/mig-1g.5gb", 2),
        ("pods", NONE),
        ("ephemeral-storage", NONE),
        ("hugepages-2Mi", NONE),
    ],
)
def test_what_queues_count(resource, charge):
    assert Costs().of(resource).charge == charge


def test_parents_stand_before_their_children():
    """And siblings in the order of their names, however they came."""
    found = queues_of(named(*(queue(*one) for one in (("b", "r"), ("z",), ("a", "r"), ("c", "b"), ("r",)))), ())
    assert found.names == ("r", "a", "b", "c", "z")
    assert found.parent_of == (NONE, 0, 0, 2, NONE)
    assert found.paths == ((0,), (1, 0), (2, 0), (3, 2, 0), (4,))
    assert found.children == {NONE: (0, 4), 0: (1, 2), 2: (3,)}
    assert found.row_of["c"] == 3
    assert found.written


def test_what_a_queue_says_reaches_the_arrays():
    resources = QueueResources(
        cpu=QueueResource(quota=1000, limit=2000, over_quota_weight=2.5), memory=QueueResource(quota=1e300)
    )
    found = queues_of(named(queue("q", priority=7, resources=resources, created=SOME_TIME), queue("r")), ())
    assert found.quota.tolist() == [[1000, UNLIMITED, UNLIMITED], [UNLIMITED] * 3]
    assert found.limit.tolist() == [[2000, UNLIMITED, UNLIMITED], [UNLIMITED] * 3]
    assert found.weights == ((Fraction(5, 2), 1, 1), (1, 1, 1))
    assert found.priorities == (7, 100)
    assert found.created_ns == (since_epoch_ns(SOME_TIME), 0)


@pytest.mark.parametrize(
    ("top", "middle", "bottom", "seconds"),
    [
        pytest.param(None, None, None, 0, id="nobody says"),
        pytest.param("10s", None, None, 10, id="the top says"),
        pytest.param("10s", "20s", None, 20, id="the nearest above"),
        pytest.param("10s", "20s", "30s", 30, id="its own"),
        pytest.param("10s", "0s", None, 0, id="none at all is a value too"),
        pytest.param("10s", None, "-5s", 0, id="below zero is none at all"),
        pytest.param("10s", "soon", None, 10, id="what can't be read says nothing"),
    ],
)
@pytest.mark.parametrize("field", ["preempt_min_runtime", "reclaim_min_runtime"])
def test_the_nearest_runtime_counts(field, top, middle, bottom, seconds):
    found = queues_of(
        named(queue("t", **{field: top}), queue("m", "t", **{field: middle}), queue("b", "m", **{field: bottom})), ()
    )
    other = {"preempt_min_runtime": "reclaim_min_runtime", "reclaim_min_runtime": "preempt_min_runtime"}[field]
    assert getattr(found, f"{field}_ns")[found.row_of["b"]] == seconds * 10**9
    assert getattr(found, f"{other}_ns") == (0, 0, 0)


def test_without_queues_every_name_is_one():
    """Without end, side by side, and not written down."""
    found = queues_of({}, ["b", "a", "b"])
    assert found.names == ("a", "b")
    assert found.parent_of == (NONE, NONE)
    assert found.quota.tolist() == found.limit.tolist() == [[UNLIMITED] * 3] * 2
    assert found.weights == ((1, 1, 1),) * 2
    assert found.priorities == (100, 100)
    assert not found.written
    assert queues_of({}, []).quota.shape == (0, len(CHARGES))
    assert Standing({}).problem_of("anything", "anywhere") is None


TREE = (
    *(queue("top"), queue("leaf", "top"), queue("lone")),
    *(queue("orphan", "gone"), queue("below-orphan", "orphan")),
    *(queue("a", "b"), queue("b", "c"), queue("c", "a"), queue("below-a", "a"), queue("deep", "below-a")),
    queue("own", "own"),
)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("leaf", None, id="a leaf"),
        pytest.param("lone", None, id="a top queue without children"),
        pytest.param("nowhere", ("QueueNotFound", "nowhere"), id="missing"),
        pytest.param("", ("QueueNotFound", ""), id="no name"),
        pytest.param("top", ("QueueNotLeaf", "top"), id="has children"),
        pytest.param("orphan", ("QueueOrphaned", "gone"), id="its parent is missing: also when it has children"),
        pytest.param("below-orphan", ("QueueOrphaned", "gone"), id="a queue far above is missing"),
        pytest.param("a", ("QueueCycle", "a → b → c → a"), id="in a cycle"),
        pytest.param("b", ("QueueCycle", "b → c → a → b"), id="in the same cycle"),
        pytest.param("deep", ("QueueCycle", "a → b → c → a"), id="below a cycle"),
        pytest.param("own", ("QueueCycle", "own → own"), id="its own parent"),
    ],
)
def test_what_is_wrong_with_a_queue(name, problem):
    assert Standing(named(*TREE)).problem_of(name, "default") == (problem and Problem(*problem))


def test_queues_without_a_way_up_are_not_counted():
    found = queues_of(named(*TREE), ())
    assert found.names == ("lone", "top", "leaf")


def test_a_queue_without_a_name_is_nobodys_parent():
    """Such an object comes from a broken file; an empty parent still is none."""
    found = Standing(named(queue(""), queue("a")))
    assert found.problem_of("a", "default") is None
    assert found.arrays.names == ("a",)


def test_a_long_cycle_is_told_in_part():
    ring = named(*(queue(f"q{number}", f"q{(number + 1) % 50}") for number in range(50)))
    problem = Standing(ring).problem_of("q7", "default")
    assert problem is not None
    assert problem.code == "QueueCycle"
    assert "… 45 more …" in problem.detail


def test_deep_trees_are_walked_not_recursed_into():
    chain = named(*(queue(f"q{number:05}", f"q{number - 1:05}" if number else "") for number in range(3000)))
    standing = Standing(chain)
    assert standing.problem_of("q02999", "default") is None
    assert standing.arrays.parent_of == tuple(range(NONE, 2999))


@pytest.mark.parametrize(
    ("allowed", "namespace", "may"),
    [
        pytest.param(None, "x", True, id="nothing said: all"),
        pytest.param("*", "x", True, id="all"),
        pytest.param("a, *", "x", True, id="all beside one"),
        pytest.param("x", "x", True, id="this one"),
        pytest.param("a,x,b", "x", True, id="among others"),
        pytest.param(" a , x ", "x", True, id="spaces mean nothing"),
        pytest.param("a", "x", False, id="another"),
        pytest.param("xx", "x", False, id="not by the beginning of a name"),
        pytest.param("", "x", False, id="an empty list names nobody"),
        pytest.param(",", "x", False, id="nor does a comma"),
    ],
)
def test_namespaces_that_may_use_a_queue(allowed, namespace, may):
    found = Standing(named(queue("q", allowed=allowed))).problem_of("q", namespace)
    assert found == (None if may else Problem("QueueForbidden", "q"))


def test_only_the_gangs_own_queue_is_asked():
    """What a queue above allows is for its own gangs."""
    found = Standing(named(queue("top", allowed="a"), queue("leaf", "top")))
    assert found.problem_of("leaf", "b") is None


CLASSES = {"train": 50, "build": 100}


@pytest.mark.parametrize(
    ("top", "leaf", "most"),
    [
        pytest.param(None, None, None, id="any"),
        pytest.param(None, "7", 7, id="a number"),
        pytest.param(None, "-7", -7, id="below zero"),
        pytest.param(None, "train", 50, id="a class"),
        pytest.param("train", None, 50, id="that of the parent"),
        pytest.param("train", "build", 50, id="the lower one is the parent's"),
        pytest.param("build", "7", 7, id="the lower one is its own"),
    ],
)
def test_the_highest_priority_that_a_queue_admits(top, leaf, most):
    """A limit holds at every ancestor, and so does this."""
    standing = Standing(named(queue("top", most=top), queue("q", "top", most=leaf)), classes=CLASSES)
    assert standing.max_priority_of("q") == most
    assert standing.problem_of("q", "default") is None
    assert standing.max_priority_of("nowhere") is None


@pytest.mark.parametrize(
    ("most", "words"),
    [
        pytest.param("1.5", "must be an integer of 32 bits", id="unreadable"),
        pytest.param("trian", "the PriorityClass trian does not exist", id="no such class"),
    ],
)
def test_a_bound_that_is_not_known_admits_nothing(most, words):
    """Neither the queue nor those below it: what it allows nobody knows."""
    standing = Standing(named(queue("top", most=most), queue("q", "top"), queue("other")), classes=CLASSES)
    problem = standing.problem_of("q", "default")
    assert problem is not None
    assert problem.code == "QueueInvalid"
    assert words in problem.detail
    assert standing.problem_of("other", "default") is None


def test_without_knowing_classes_their_names_are_no_fault():
    standing = Standing(named(queue("q", most="trian")))
    assert standing.problem_of("q", "default") is None
    assert standing.max_priority_of("q") is None
