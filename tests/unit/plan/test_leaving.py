"""The checker finds every wrong eviction and every queue that is raised too far (SPEC §11.5, 6, 7), and no right one.

What it refuses leaves its account as it was.
"""

from dataclasses import replace

import numpy as np
import pytest

from muster.plan.invariants import Checker
from muster.plan.outcome import Action, Placement
from short_forms import going, lone, merged, number_of, snapshot_of

PREEMPT, RECLAIM, CONSOLIDATE = Action.PREEMPT, Action.RECLAIM, Action.CONSOLIDATE
TREE = {"minSubGroup": 1, "subGroups": [{"name": "x", "minMember": 2}, {"name": "y", "minMember": 2}]}
RACK = {"topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "rack"}}
BASE = {
    "topologies": {"dc": ["zone", "rack"]},
    "nodes": [
        {"name": "full", "gpus": 4, "zone": "z", "rack": "r1"},
        {"name": "home", "gpus": 4, "zone": "z", "rack": "r1"},
        {"name": "away", "gpus": 4, "zone": "z", "rack": "r2"},
        {"name": "shut", "gpus": 4, "zone": "z", "rack": "r1", "cordoned": True},
    ],
    "queues": {"q": {}, "r": {}},
    "gangs": {"g": {"minMember": 1, "queue": "q", "priorityClassName": "train"}},
    "pods": [{"gang": "g", "count": 3, "gpus": 2}],
}


def fresh(*victims, **changes):
    return snapshot_of(merged(BASE, *victims, changes))


def sent(snapshot, name, node, count=1, first=0, nominated=True):
    """The next pods of a gang on a node."""
    place = snapshot.nodes.index(node)
    pods = tuple(range(first, first + count))
    return [Placement(number_of(snapshot, name), 0, pods, (place,) * count, nominated)]


def faults(checker, snapshot, evictions, *, node="full", count=1, first=0):
    """What is wrong with it that these go and pods of g come."""
    return checker.faults(number_of(snapshot, "g"), sent(snapshot, "g", node, count, first), evictions)


def flat(name="v", count=2, minimum=2, on="full", **spec):
    return {
        "gangs": {name: {"minMember": minimum, "queue": "q", **spec}},
        "pods": [{"gang": name, "count": count, "on": on}],
    }


def tree(pods="x0 x1 y0 y1", **spec):
    return {
        "gangs": {"v": {**TREE, "queue": "q", **spec}},
        "pods": [
            {"gang": "v", "subGroup": pod[0], "name": pod, "on": "full", "age": 9 - int(pod[1])} for pod in pods.split()
        ],
    }


FILL = lone("f1 f2", "full", queue="q", preemptibility="non-preemptible")
SEMI, FIRM = {"preemptibility": "semi-preemptible"}, {"preemptibility": "non-preemptible"}

KEEP = {"keep": {"v": "."}}
CASES = [
    pytest.param([tree(), KEEP], "y0 y1", PREEMPT, {}, "goes without", id="a joined child"),
    pytest.param([tree("x0 x1 x2 y0 y1"), KEEP], "x2 y0", PREEMPT, {}, "goes without", id="a part of a joined child"),
    pytest.param([tree("x0 x1 x2 y0 y1"), KEEP], "x2 x1", PREEMPT, {}, "goes without", id="more than its extra pods"),
    pytest.param([tree("x0 x1 x2 x3"), KEEP], "x3 x2", PREEMPT, {}, "", id="extra pods of a joined child"),
    pytest.param([tree(), KEEP], "x0 x1 y0 y1", PREEMPT, {}, "", id="all that has joined"),
    pytest.param(
        [tree("x0 x1 y0"), KEEP, {"history": {"v": {"joined": ["y"]}}}, lone("f1", "full", queue="q")],
        "y0 f1",
        PREEMPT,
        {},
        "goes without",
        id="what is left of a joined child",
    ),
    pytest.param([flat(), FILL], "v-0 v-1", PREEMPT, {}, "", id="a gang, whole"),
    pytest.param([flat(count=4)], "v-3 v-2", PREEMPT, {}, "", id="surplus"),
    pytest.param([flat(count=4)], "v-0 v-1", PREEMPT, {}, "", id="any pods beyond the minimum"),
    pytest.param([flat(count=3), FILL], "v-1 v-2", PREEMPT, {}, "half of a minimum", id="a part of the minimum"),
    pytest.param([flat(), FILL], "v-0 v-0 v-1", PREEMPT, {}, "evicted twice", id="twice"),
    pytest.param([flat(**FIRM), FILL], "v-0 v-1", PREEMPT, {}, "is not preemptible", id="what is not preemptible"),
    pytest.param([flat(count=4, **SEMI)], "v-3 v-2", PREEMPT, {}, "", id="surplus of a semi-preemptible gang"),
    pytest.param([flat(count=4, **SEMI)], "v-3 v-0", PREEMPT, {}, "of its core", id="one of its oldest pods"),
    pytest.param([flat(**SEMI), FILL], "v-0 v-1", PREEMPT, {}, "of its core", id="all of a semi-preemptible gang"),
    pytest.param([tree()], "y0 y1", PREEMPT, {}, "", id="a child, whole"),
    pytest.param([tree()], "y0", PREEMPT, {}, "half of a minimum", id="half of a child"),
    pytest.param([tree()], "x0 x1", PREEMPT, {}, "", id="either child of a preemptible gang"),
    pytest.param([tree(**SEMI)], "y0 y1", PREEMPT, {}, "", id="the surplus child"),
    pytest.param([tree(**SEMI)], "x0 x1", PREEMPT, {}, "of its core", id="the core child"),
    pytest.param([tree("x0 x1 y0"), lone("f1", "full", queue="q")], "y0 f1", PREEMPT, {}, "", id="a leftover"),
    pytest.param(
        [tree("x0 x1 y0"), lone("f1", "full", queue="q")], "x0 f1", PREEMPT, {}, "half", id="beside leftovers"
    ),
    pytest.param([lone("v w", "full", gpus=2, queue="q")], "v", PREEMPT, {"whom": ""}, "for nobody", id="for nobody"),
    pytest.param([lone("v w", "full", gpus=2, queue="q")], "v", PREEMPT, {"whom": "w"}, "for nobody", id="for another"),
    pytest.param(
        [lone("v w", "full", gpus=2, queue="q", priorityClassName="train")],
        "v",
        PREEMPT,
        {},
        "preempted by one that may not",
        id="an equal priority",
    ),
    pytest.param([lone("v w", "full", gpus=2, queue="r")], "v", PREEMPT, {}, "one that may not", id="another queue"),
    pytest.param([lone("v w", "full", gpus=2, queue="r")], "v", RECLAIM, {}, "", id="reclaim from another queue"),
    pytest.param(
        [lone("v w", "full", gpus=2, queue="q")], "v", RECLAIM, {}, "inside its own queue", id="inside its queue"
    ),
    pytest.param([lone("v w", "full", gpus=2, queue="q")], "v", CONSOLIDATE, {"to": "home"}, "", id="moved"),
    pytest.param([lone("v w", "full", gpus=2, queue="q")], "v", CONSOLIDATE, {}, "moved nowhere", id="moved nowhere"),
    pytest.param(
        [lone("v w", "full", gpus=2, queue="q")],
        "v",
        PREEMPT,
        {"to": "home"},
        "moved nowhere",
        id="not moved, and kept",
    ),
    pytest.param(
        [lone("v w", "full", gpus=2, queue="q")],
        "v",
        CONSOLIDATE,
        {"to": "shut"},
        "has no place",
        id="where it may not go",
    ),
    pytest.param(
        [lone("v w", "full", gpus=2, queue="q"), lone("h", "home", gpus=3, queue="q")],
        "v",
        CONSOLIDATE,
        {"to": "home"},
        "has no place",
        id="where no room is",
    ),
    pytest.param(
        [lone("v w", "full", gpus=2, queue="q")], "v", CONSOLIDATE, {"to": "full"}, "has no place", id="where g goes"
    ),
    pytest.param(
        [lone("v w", "full", gpus=2, queue="q"), lone("h", "home", gpus=1, queue="q")],
        "v w",
        CONSOLIDATE,
        {"to": "home"},
        "has no place",
        id="two where one has room",
    ),
    pytest.param([flat(**RACK), FILL], "v-0 v-1", CONSOLIDATE, {"to": "away"}, "", id="moved to another rack together"),
    pytest.param(
        [flat(count=3, minimum=1, **RACK)], "v-2", CONSOLIDATE, {"to": "home"}, "", id="moved inside its rack"
    ),
    pytest.param(
        [flat(count=3, minimum=1, **RACK)], "v-2", CONSOLIDATE, {"to": "away"}, "moved apart", id="moved apart"
    ),
    pytest.param(
        [lone("v w", "full", gpus=2, queue="nowhere")],
        "v",
        CONSOLIDATE,
        {"to": "home"},
        "would not come back",
        id="held",
    ),
    pytest.param([lone("v w", "full", gpus=2, queue="q")], "", PREEMPT, {}, "not enough", id="room that nobody leaves"),
    pytest.param([lone("v w", "full", gpus=2, queue="q")], "v", PREEMPT, {"count": 2}, "not enough", id="too little"),
    pytest.param(
        [lone("v w", "full", gpus=2, queue="q")], "v", PREEMPT, {"node": "shut"}, "may not go", id="elsewhere"
    ),
]


@pytest.mark.parametrize(("victims", "pods", "action", "how", "says"), CASES)
def test_a_wrong_eviction_is_found_and_a_right_one_is_not(victims, pods, action, how, says):
    """And what was refused is not entered: afterwards a right decision passes, and the room is what it was."""
    snapshot = fresh(*victims)
    checker = Checker(snapshot)
    before = checker.room.copy()
    evictions = going(snapshot, pods, action, how.get("whom", "g"), how.get("to", ""))
    found = faults(checker, snapshot, evictions, node=how.get("node", "full"), count=how.get("count", 1))
    if not says:
        assert found == []
        again = faults(checker, snapshot, evictions, first=1)
        assert any("twice" in fault for fault in again), "who has gone can't go again"
        return
    assert any(says in fault for fault in found), found
    assert np.array_equal(checker.room, before)
    number = number_of(snapshot, "g")
    assert checker.faults(number, sent(snapshot, "g", "away", 2, nominated=False)) == []
    assert any("once" in fault for fault in checker.faults(number, sent(snapshot, "g", "home", nominated=False)))


def test_who_has_left_before_counts():
    """Half of a minimum is found also when it goes in two decisions; and the last of a gang may follow."""
    snapshot = fresh(flat(count=4, minimum=2))
    checker = Checker(snapshot)
    assert faults(checker, snapshot, going(snapshot, "v-2 v-3", PREEMPT, "g")) == []
    half = going(snapshot, "v-1", PREEMPT, "g")
    assert any("half" in fault for fault in faults(checker, snapshot, half, node="home", first=1))
    assert faults(checker, snapshot, going(snapshot, "v-0 v-1", PREEMPT, "g"), first=1) == []


def test_room_of_those_who_leave_is_not_there_yet():
    """Who comes is nominated: to bind at once into their room is over-committing."""
    snapshot = fresh(lone("v w", "full", gpus=2, queue="q"))
    number, evictions = number_of(snapshot, "g"), going(snapshot, "v", PREEMPT, "g")
    found = Checker(snapshot).faults(number, sent(snapshot, "g", "full", nominated=False), evictions)
    assert any("not enough" in fault for fault in found)


def test_kept_room_is_taken():
    """Where a moved pod goes nobody else does, now or when others have left."""
    for nominated in (False, True):
        snapshot = fresh(lone("v w", "full", gpus=2, queue="q"), lone("h", "home", gpus=2, queue="q"))
        checker = Checker(snapshot)
        assert faults(checker, snapshot, going(snapshot, "v", CONSOLIDATE, "g", to="home")) == []
        more = sent(snapshot, "g", "home", 1, 1, nominated=nominated)
        assert any("not enough" in fault for fault in checker.faults(number_of(snapshot, "g"), more))


WEB = {"app": "web"}


@pytest.mark.parametrize(
    ("allowed", "pods", "says"),
    [
        pytest.param(2, "v w", "", id="as many as it allows"),
        pytest.param(1, "v w", "overdrawn", id="more"),
        pytest.param(0, "v", "overdrawn", id="none"),
    ],
)
@pytest.mark.parametrize("stale", [False, True], ids=["for g", "stale"])
def test_disruption_budgets_are_counted(allowed, pods, says, stale):
    """For voluntary evictions and for stale ones; and what is refused draws nothing."""
    budgets = {"b": {"selects": WEB, "allowed": allowed}}
    spec = {"minMember": 3 if stale else 1, "queue": "q"}
    found = {
        "gangs": dict.fromkeys("vw", spec),
        "pods": [{"gang": n, "name": n, "gpus": 2, "on": "full", "labels": WEB} for n in "vw"],
    }
    snapshot = fresh(found, budgets=budgets)
    checker = Checker(snapshot)

    def judged(names):
        if stale:
            return checker.faults_of_stale(going(snapshot, names, Action.STALE))
        return faults(checker, snapshot, going(snapshot, names, PREEMPT, "g"))

    wrong = judged(pods)
    assert any(says in fault for fault in wrong) if says else wrong == []
    if says and allowed:
        assert judged("v") == []
        assert any("overdrawn" in fault for fault in judged("w")), "what was drawn before counts"


@pytest.mark.parametrize(
    ("spec", "there", "pods", "row", "says"),
    [
        pytest.param({"minMember": 3}, "0 1", "0 1", "", "", id="a broken gang, whole"),
        pytest.param({"minMember": 3}, "0 1", "0", "", "healthy, or does not go whole", id="a part of it"),
        pytest.param({"minMember": 2}, "0 1", "0 1", "", "healthy", id="a healthy gang"),
        pytest.param({"minMember": 2}, "0 1 2", "2", "", "healthy", id="surplus of a healthy gang"),
        pytest.param(TREE, "x0 x1 y0", "y0", "y", "", id="a broken child"),
        pytest.param(TREE, "x0 x1 y0", "x0 x1 y0", "", "healthy", id="with its healthy sibling"),
        pytest.param(TREE, "x0 x1 y0 y1", "y0 y1", "y", "healthy", id="a healthy child"),
        pytest.param(TREE, "x0 y0", "y0", "y", "all of it lacks", id="a child of a broken gang"),
        pytest.param(TREE, "x0 y0", "x0 y0", "", "", id="the broken gang"),
        pytest.param({"minMember": 3, **FIRM}, "0 1", "0 1", "", "", id="what is not preemptible, too"),
        pytest.param({**TREE, **SEMI}, "x0 y0", "x0 y0", "", "", id="a core that is broken"),
    ],
)
def test_stale_is_what_is_broken_and_all_of_it(spec, there, pods, row, says):
    """Everything below a tree node that lacks its minimum, where all around it has its own; and nothing else."""
    found = [
        {"gang": "v", "name": f"p{one}", "on": "full", **({"subGroup": one[0]} if one[0].isalpha() else {})}
        for one in there.split()
    ]
    snapshot = fresh({"gangs": {"v": {**spec, "queue": "q"}}, "pods": found})
    checker = Checker(snapshot)
    evictions = going(snapshot, " ".join(f"p{one}" for one in pods.split()), Action.STALE, row=row)
    wrong = checker.faults_of_stale(evictions)
    assert any(says in fault for fault in wrong) if says else wrong == []
    again = checker.faults_of_stale(evictions)
    assert any("twice" in fault for fault in again) if not says else again == wrong, "only what stands is entered"


def test_room_of_what_is_stale_can_be_waited_for():
    """Whoever is nominated there after it is right."""
    snapshot = fresh(
        {"gangs": {"v": {"minMember": 3, "queue": "q"}}, "pods": [{"gang": "v", "count": 2, "gpus": 2, "on": "full"}]}
    )
    checker = Checker(snapshot)
    assert checker.faults_of_stale(going(snapshot, "v-0 v-1", Action.STALE)) == []
    assert faults(checker, snapshot, [], count=2) == []


LIMITED = {
    "queues": {"p": {"limit": 8, "quota": 4}, "q": {"parent": "p", "limit": 6, "quota": -1}, "r": {"parent": "p"}}
}
ASIDE = {
    "gangs": {"v": {"subGroups": [{"name": "a", "minMember": 1}], "queue": "q"}},
    "pods": [{"gang": "v", "count": 2, "gpus": 3, "on": "full"}],
}


@pytest.mark.parametrize(
    ("parts", "pods", "count", "says", "fits"),
    [
        pytest.param([lone("v w", "full", gpus=2, queue="q")], "", 1, "", False, id="within its limit"),
        pytest.param(
            [lone("v w", "full", gpus=2, queue="q")], "", 2, "q is raised above its limit", True, id="above it"
        ),
        pytest.param([lone("v w", "full", gpus=2, queue="q")], "v", 2, "", False, id="others of it leave"),
        pytest.param([lone("v w", "full", gpus=3, queue="r")], "", 1, "", False, id="within the limit above"),
        pytest.param(
            [lone("v w", "full", gpus=3, queue="r")], "", 2, "p is raised above its limit", True, id="above that"
        ),
        pytest.param([lone("v w", "full", gpus=3, queue="q")], "", 1, "above its limit", False, id="full"),
        pytest.param([ASIDE], "", 1, "above its limit", False, id="full of those that are set aside"),
    ],
)
def test_a_queue_is_not_raised_above_its_limit(parts, pods, count, says, fits):
    """At the queue and at all above it; who leaves counts, and who is refused is not charged: then one more `fits`."""
    snapshot = fresh(LIMITED, *parts, nodes=[{"name": "n", "gpus": 99}])
    checker = Checker(snapshot)
    wrong = faults(checker, snapshot, going(snapshot, pods, PREEMPT, "g"), node="n", count=count)
    assert any(says in fault for fault in wrong) if says else wrong == []
    assert bool(faults(checker, snapshot, [], node="n", first=2)) is not fits, "what was refused is not charged"


@pytest.mark.parametrize(
    ("kind", "bound", "of"),
    [
        pytest.param("preemptible", {"limit": 6}, "above its limit until", id="a limit"),
        pytest.param("non-preemptible", {"quota": 6}, "too large until", id="a quota"),
        pytest.param("semi-preemptible", {"quota": 6}, "too large until", id="a core"),
        pytest.param("preemptible", {"quota": 4}, "", id="what is preemptible has no quota"),
        pytest.param("preemptible", {"limit": 7}, "", id="a limit that is large enough"),
    ],
)
def test_beside_pods_that_leave_less_is_bound_and_as_much_is_nominated(kind, bound, of):
    gang = {"minMember": 3, "queue": "q", "preemptibility": kind}
    snapshot = fresh(
        {
            "queues": {"q": bound},
            "gangs": {"g": {"minMember": 2, "preemptibility": kind, "queue": "q"}, "v": gang},
            "pods": [{"gang": "v", "count": 3, "on": "full", "terminating": True}],
        }
    )
    judged = Checker(snapshot).faults(number_of(snapshot, "g"), sent(snapshot, "g", "home", 2, nominated=False))
    assert (of in " ".join(judged)) if of else not judged
    assert Checker(snapshot).faults(number_of(snapshot, "g"), sent(snapshot, "g", "home", 2)) == []


def test_who_is_moved_still_counts_in_its_queue():
    """It comes back: the limit is not free for others meanwhile."""
    snapshot = fresh(LIMITED, lone("v w", "full", gpus=2, queue="q"), {"queues": {"q": {"limit": 4}}})
    evictions = going(snapshot, "v", CONSOLIDATE, "g", to="home")
    assert any("above its limit" in fault for fault in faults(Checker(snapshot), snapshot, evictions))
    gone = going(snapshot, "v", PREEMPT, "g")
    assert faults(Checker(snapshot), snapshot, gone) == []


@pytest.mark.parametrize(
    ("kind", "counts", "says"),
    [
        pytest.param("non-preemptible", [1, 1], "", id="within its quota"),
        pytest.param("non-preemptible", [3], "above its quota", id="above it at once"),
        pytest.param("non-preemptible", [1, 1, 1], "above its quota", id="above it one by one"),
        pytest.param("semi-preemptible", [1, 2], "", id="only the core counts"),
        pytest.param("preemptible", [3], "", id="nothing of it counts"),
    ],
)
def test_what_is_not_preemptible_is_not_raised_above_the_quota(kind, counts, says):
    """At every queue of the path, also in several decisions."""
    gang = {"g": {**BASE["gangs"]["g"], "preemptibility": kind}}
    snapshot = fresh(LIMITED, {"gangs": gang}, nodes=[{"name": "n", "gpus": 99}])
    checker, first, wrong = Checker(snapshot), 0, []
    for count in counts:
        assert wrong == []
        wrong = faults(checker, snapshot, [], node="n", count=count, first=first)
        first += count
    assert any(says in fault for fault in wrong) if says else wrong == []


def lone_sent(snapshot, names, node, nominated):
    place = snapshot.nodes.index(node)
    return [Placement(number_of(snapshot, name), 0, (0,), (place,), nominated) for name in names.split()]


@pytest.mark.parametrize(
    ("names", "pods", "whom", "node", "says"),
    [
        pytest.param("a b", "v w", "a", "full", "", id="two for two"),
        pytest.param("a b", "v", "a", "full", "not enough", id="too little room"),
        pytest.param("a b", "v w", "g", "full", "for nobody", id="for one who does not come"),
        pytest.param("a b", "f v w", "a", "full", "is not preemptible", id="what is not preemptible"),
        pytest.param("a a", "v w", "a", "full", "twice", id="one gang twice"),
        pytest.param("a b", "v w", "a", "shut", "may not go", id="where it may not go"),
        pytest.param("a g", "v w", "a", "full", "not just one pod", id="a gang of three"),
        pytest.param("a b c", "v w f2", "a", "full", "above its limit", id="more than the queue may have"),
    ],
)
def test_gangs_of_one_pod_are_judged_many_at_a_time(names, pods, whom, node, says):
    """By the same rules; all of them or none: what is refused is not entered, for rooms, queues and gangs."""
    waits = lone("a b c", queue="q", gpus=2, priorityClassName="train")
    victims = lone("v w", "full", queue="q", gpus=2)
    firm = merged(lone("f", "away", queue="q", gpus=1, **FIRM), lone("f2", "home", queue="r", gpus=4))
    snapshot = fresh(waits, victims, firm, queues={"q": {"limit": 5}, "r": {}})
    shape = snapshot.gangs[number_of(snapshot, "a")].waiting[0].shape
    checker = Checker(snapshot)
    before = checker.room.copy()
    evictions = going(snapshot, pods, PREEMPT, whom)
    if says == "above its limit":
        evictions = [*going(snapshot, "v w", PREEMPT, whom), *going(snapshot, "f2", RECLAIM, whom)]
        placements = [*lone_sent(snapshot, "a b", "full", True), *lone_sent(snapshot, "c", "home", True)]
    else:
        placements = lone_sent(snapshot, names, node, True)
    wrong = checker.faults_of_lone_pods(shape, placements, evictions, nominated=True)
    assert any(says in fault for fault in wrong) if says else wrong == []
    if not says:
        assert checker.faults_of_lone_pods(shape, placements[:1], nominated=True), "nobody comes twice"
        return
    assert np.array_equal(checker.room, before)
    right = going(snapshot, "v w", PREEMPT, "b")
    assert checker.faults_of_lone_pods(shape, lone_sent(snapshot, "b a", "full", True), right, nominated=True) == []


IGNORES = {"annotations": {"muster.dev/reclaim-policy": "IgnoreBudgets"}}


def owed(q, *, allowed=0, pods=2, **more):
    """A gang of queue q, which pods of queue r are to leave room for; a budget lets so many of them go."""
    found = {
        "queues": {"q": q, "r": {"quota": 0}, **more.pop("queues", {})},
        "gangs": {"v": {"minMember": 2, "queue": more.pop("theirs", "r")}},
        "pods": [{"gang": "v", "count": pods, "on": "full", "labels": WEB}],
        "budgets": {"b": {"selects": WEB, "allowed": allowed}},
    }
    return fresh(found, lone("f1 f2", "full", queue="r", preemptibility="non-preemptible"))


def passing(snapshot, action=RECLAIM, *, passed="v-0 v-1"):
    names = passed.split()
    evictions = going(snapshot, "v-0 v-1", action, "g")
    pods = [snapshot.gangs[one.gang].placed[one.leaf].pods[one.pod] for one in evictions]
    guard = snapshot.budgets.index("default/b")
    return [one._replace(passed=(guard,) if pod in names else ()) for one, pod in zip(evictions, pods, strict=True)]


@pytest.mark.parametrize(
    ("snapshot", "how", "says"),
    [
        pytest.param(owed({"quota": 2, **IGNORES}), {}, "", id="owed within quota, by a queue that ignores budgets"),
        pytest.param(owed(IGNORES), {}, "", id="a quota without end"),
        pytest.param(owed({"quota": 2}), {}, "of v is passed over", id="no queue asks for it"),
        pytest.param(owed({"quota": 1, **IGNORES}), {}, "more than the quota of q", id="beyond its quota"),
        pytest.param(owed({"quota": 2, **IGNORES}), {"passed": "v-0"}, "is overdrawn", id="one of two is evicted"),
        pytest.param(owed({"quota": 2, **IGNORES}, allowed=2), {}, "that allows it", id="the budget allows it"),
        pytest.param(
            owed({"quota": 2, **IGNORES}, allowed=1), {"passed": "v-0 v-1"}, "", id="the budget allows a part of it"
        ),
        pytest.param(
            owed({"quota": 2, **IGNORES}, theirs="q"), {"action": PREEMPT}, "of v is passed over", id="preempted"
        ),
        pytest.param(
            owed(
                {"quota": 2, "parent": "top"},
                queues={"top": IGNORES, "near": {"parent": "top", "quota": 0}},
                theirs="near",
            ),
            {},
            "of v is passed over",
            id="only the queue that both share asks for it",
        ),
        pytest.param(
            owed({"quota": 2, "parent": "top"}, queues={"top": {**IGNORES, "quota": 2}}), {}, "", id="its parent asks"
        ),
        pytest.param(
            owed({"quota": 2, "parent": "top", **IGNORES}, queues={"top": {"quota": 1}}),
            {},
            "more than the quota of top",
            id="beyond the quota of its parent",
        ),
        pytest.param(
            replace(owed({"quota": 2, **IGNORES}), may_delete=False), {}, "of v is passed over", id="nothing is deleted"
        ),
    ],
)
def test_budgets_are_passed_over_by_right_only(snapshot, how, says):
    found = faults(Checker(snapshot), snapshot, passing(snapshot, **how))
    assert found == [] if not says else any(says in fault for fault in found), found


def test_a_pod_that_cant_be_evicted_now_is_passed_over_by_nobody():
    """What stands for it is no budget that somebody wrote."""
    snapshot = owed({"quota": 2, **IGNORES})
    unwritten = replace(snapshot, budgets=("",) * len(snapshot.budgets))
    found = faults(Checker(unwritten), unwritten, passing(snapshot))
    assert any("of v is passed over" in fault for fault in found), found
