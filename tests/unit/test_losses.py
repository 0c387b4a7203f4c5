"""Evictions in words: what goes at once, by which action, for whom, and why these. Plans are made by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.tree import NONE
from muster.decisions.explanation import document_of as explanation_of
from muster.decisions.explanation import explain
from muster.decisions.losses import losses, why_evicted
from muster.decisions.plan import Evict, Nominate, decide, document_of
from muster.decisions.words import LONGEST
from muster.plan.outcome import Action, Eviction, Ground, Measured, Placement, UnitKind
from muster.plan.proof import Certificate
from muster.snapshot.queues import CHARGES, PARTS
from small_cluster import gang, node, planned, pod

REPLICAS = [{"name": f"decode-{number}", "minMember": 2} for number in range(4)]


def queue(name, parent="", **gpu):
    spec = {"parentQueue": parent} if parent else {}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {**spec, **({"resources": {"gpu": gpu}} if gpu else {})},
    }


# One gang of four replicas runs in queue a; one waits there with a higher priority, one in queue b.
PLAN = planned(
    *(node("n1", 8), node("n2", 2), queue("a", quota=2), queue("b", quota=6)),
    gang("runs", queue="a", priorityClassName="train", preemptibility="preemptible", minSubGroup=2, subGroups=REPLICAS),
    *(pod(f"runs-{leaf}-{at}", "runs", f"decode-{leaf}", nodeName="n1") for leaf in range(4) for at in range(2)),
    *(gang("other", queue="b", minMember=9, preemptibility="preemptible"), *(pod(f"o-{i}", "other") for i in range(9))),
    gang("better", queue="a", minMember=9, preemptibility="preemptible", priorityClassName="build-preemptible"),
    *(pod(f"better-{i}", "better") for i in range(9)),
)
NUMBER = {one.key[1]: number for number, one in enumerate(PLAN.snapshot.gangs)}
RUNS, OTHER, BETTER = NUMBER["runs"], NUMBER["other"], NUMBER["better"]
LEAF = {node.name: row for row, node in enumerate(PLAN.snapshot.gangs[RUNS].tree.nodes)}
NODE = {name: row for row, name in enumerate(PLAN.snapshot.nodes)}


def evicting(*evictions):
    return replace(PLAN, evictions=evictions)


def of(leaf, at, action, beneficiary=NONE, **more):
    return Eviction(RUNS, LEAF[leaf], at, action, beneficiary, **more)


def only(*evictions):
    (loss,) = losses(evicting(*evictions))
    return loss


GPU = CHARGES.index("gpu")
A, B = (PLAN.snapshot.queues.row_of[name] for name in "ab")
BY_SHARE = Ground(False, (Measured(A, GPU, 8 * PARTS, 3 * PARTS),), (Measured(B, GPU, 5 * PARTS, 7 * PARTS),))
REPLICA = [
    of("decode-3", at, Action.RECLAIM, OTHER, kind=UnitKind.SURPLUS_CHILD, row=LEAF["decode-3"], ground=BY_SHARE)
    for at in (0, 1)
]


@pytest.mark.parametrize(
    ("evictions", "words"),
    [
        pytest.param(
            [of("decode-3", 1, Action.PREEMPT, BETTER, kind=UnitKind.SURPLUS_POD, row=LEAF["decode-3"], considered=1)],
            "preempted for default/better: a surplus pod of decode-3 · priority 75 comes before 50 in queue a · "
            "nothing else could go",
            id="a surplus pod is preempted",
        ),
        pytest.param(
            [
                of("decode-3", at, Action.PREEMPT, BETTER, kind=UnitKind.SURPLUS_POD, row=LEAF["decode-3"])
                for at in range(2)
            ],
            "preempted for default/better: 2 surplus pods of decode-3 · priority 75 comes before 50 in queue a",
            id="pods of one leaf are told together",
        ),
        pytest.param(
            [one._replace(considered=7, exact=True) for one in REPLICA],
            "reclaimed for default/other: the surplus replica decode-3 (2 pods) · a held 8 GPU, its fair share is 3; "
            "b comes to 5 GPU, its fair share is 7 · 7 units could go, every choice of them was looked at",
            id="a replica is reclaimed",
        ),
        pytest.param(
            [of("decode-2", 0, Action.PREEMPT, BETTER, kind=UnitKind.LEFTOVER, row=LEAF["decode-2"], considered=40)],
            "preempted for default/better: a leftover pod of decode-2 · priority 75 comes before 50 in queue a · "
            "40 units could go, not every choice of them was looked at",
            id="a leftover, found by a heuristic",
        ),
        pytest.param(
            [of(f"decode-{leaf}", at, Action.PREEMPT, BETTER) for leaf in range(4) for at in range(2)],
            "preempted for default/better: the whole gang (8 pods) · priority 75 comes before 50 in queue a",
            id="the whole gang",
        ),
        pytest.param(
            [
                of(
                    "decode-3", at, Action.CONSOLIDATE, BETTER, kind=UnitKind.SURPLUS_CHILD, row=LEAF["decode-3"]
                )._replace(to=NODE["n2"])
                for at in range(2)
            ],
            "moved for default/better: the surplus replica decode-3 (2 pods) · room is kept for them on n2",
            id="moved",
        ),
    ],
)
def test_why_these(evictions, words):
    """By which action, for whom, what goes; what allows it; how it was chosen."""
    loss = only(*evictions)
    assert why_evicted(loss) == words
    assert loss.loser == "default/runs"


def stale(since_ns, row, **more):
    """The plan a minute and a half after second 10, with a tree node that is stale since then."""
    snapshot = replace(PLAN.snapshot, now_ns=100 * 10**9)
    rows = list(PLAN.outcomes[RUNS].rows)
    rows[row] = rows[row]._replace(satisfied=False, stale_since_ns=since_ns)
    outcomes = list(PLAN.outcomes)
    outcomes[RUNS] = replace(outcomes[RUNS], rows=tuple(rows))
    gone = Eviction(RUNS, LEAF["decode-3"], 0, Action.STALE, row=row, **more)
    return replace(PLAN, snapshot=snapshot, outcomes=outcomes, evictions=(gone,))


def test_what_is_stale_says_since_when():
    """The clock and the grace period; nobody gets anything for it."""
    (loss,) = losses(stale(10 * 10**9, LEAF["decode-3"]))
    assert (loss.winner, loss.beneficiary) == (None, NONE)
    assert why_evicted(loss) == (
        "evicted as stale: what is left of decode-3 (1 pod) · below its minimum by a loss since 1970-01-01T00:00:10Z, "
        "for 90s; its grace period is 60s · give it back what it lost, or raise stalenessGracePeriod"
    )
    (loss,) = losses(stale(0, 0))
    assert "what is left of the gang (1 pod) · below its minimum by a loss; its grace period is 60s" in why_evicted(
        loss
    )


def reclaimed(*documents):
    """What the plan itself comes to: the sentences, by the first pod that goes."""
    plan = planned(*documents)
    found = {loss.pods[0]: loss for loss in losses(plan)}
    assert {loss.action for loss in found.values()} == {Action.RECLAIM}
    for one in plan.evictions:
        assert all(row.has > row.due for row in one.ground.above)
        assert all(row.has <= row.due for row in one.ground.within)
    return {pod: loss.why for pod, loss in found.items()}


def running(name, on, queue="a", **spec):
    return gang(name, queue=queue, preemptibility="preemptible", **spec), pod(f"{name}-0", name, nodeName=on)


def test_the_numbers_are_those_of_the_turn():
    """Not those of the beginning or the end of the cycle: who comes second finds queues as the first has left them."""
    why = reclaimed(
        *(node("n", 4), queue("a", quota=1), queue("b", quota=3)),
        *(one for at in range(4) for one in running(f"a{at}", "n")),
        *(gang("b0", queue="b", minMember=1), pod("b0-0", "b0")),
        *(gang("b1", queue="b", minMember=2), pod("b1-0", "b1"), pod("b1-1", "b1")),
    )
    assert sorted(why.values()) == [
        "a held 3 GPU, its fair share is 1; b comes to 3 GPU, its fair share is 3",
        "a held 3 GPU, its fair share is 1; b comes to 3 GPU, its fair share is 3",
        "a held 4 GPU, its fair share is 1; b comes to 1 GPU, its fair share is 3",
    ]


def test_queues_of_departments_are_told_up_to_what_they_share():
    """The own queue, and the one below the common one: both have to have too much, or to stay within it."""
    why = reclaimed(
        *(node("n", 8), queue("left", quota=4), queue("right", quota=4)),
        *(queue("a", "left", quota=1), queue("idle", "left", quota=3), queue("b", "right", quota=4)),
        *(one for at in range(6) for one in running(f"a{at}", "n")),
        *(one for at in range(2) for one in running(f"i{at}", "n", "idle")),
        *(gang("g", queue="b", minMember=1), pod("g-0", gpus=3)),
    )
    assert set(why.values()) == {
        "a held 6 GPU, its fair share is 3 (left: 8 GPU of 5); "
        "b comes to 3 GPU, its fair share is 3 (right: 3 GPU of 3)"
    }
    assert len(why) == 3


def test_what_is_told_is_what_was_asked_for_and_freed():
    """A queue with too much of one thing is no reason for those who lose another."""
    documents = [node("n", 4), queue("a", quota=0), queue("b", quota=4)]
    documents[1]["spec"]["resources"]["cpu"] = {"quota": 0}
    ask = {"containers": [{"resources": {"requests": {"cpu": "8", "nvidia.com/gpu": 1}}}]}
    for at in range(4):
        documents += running(f"a{at}", "n")
        documents[-1]["spec"].update(ask)
    documents += [gang("g", queue="b", minMember=1), pod("g-0")]
    documents[-1]["spec"]["containers"] = [{"resources": {"requests": {"cpu": "8"}}}]
    assert set(reclaimed(*documents).values()) == {
        "a held 32 CPU, its fair share is 24; b comes to 8 CPU, its fair share is 8"
    }


def test_whoever_goes_by_quota_is_told_so():
    """Two go by the fair share; the third, with which the queue falls below that, by the quota."""
    why = reclaimed(
        *(node("n1", 4), node("n2", 4), queue("a", quota=1), queue("b", quota=6)),
        *(one for at in range(6) for one in running(f"a{at}", f"n{1 + at // 3}")),
        *(gang("big", queue="b", minMember=1), pod("big-0", "big", gpus=4)),
    )
    by_share = "a held 6 GPU, its fair share is 4; b comes to 4 GPU, its fair share is 4"
    by_quota = "a held 6 GPU, its quota is 1; b comes to 4 GPU, its quota is 6"
    assert sorted(why.values()) == [by_share, by_share, by_quota]


def test_pods_of_one_leaf_by_different_rights_are_told_apart():
    by_quota = Ground(True, (Measured(A, GPU, 8 * PARTS, 2 * PARTS),), (Measured(B, GPU, 5 * PARTS, 6 * PARTS),))
    evictions = [
        of("decode-3", at, Action.RECLAIM, OTHER, kind=UnitKind.SURPLUS_POD, row=LEAF["decode-3"], ground=ground)
        for at, ground in enumerate((by_quota, BY_SHARE))
    ]
    found = losses(evicting(*evictions))
    assert [(loss.pods, loss.why) for loss in found] == [
        (("runs-3-1",), "a held 8 GPU, its fair share is 3; b comes to 5 GPU, its fair share is 7"),
        (("runs-3-0",), "a held 8 GPU, its quota is 2; b comes to 5 GPU, its quota is 6"),
    ]


def test_the_document_lists_evictions_by_pod_with_the_beneficiary():
    """Merged with those that came from elsewhere and sorted; nobody is `for` a stale one."""
    plan = evicting(*reversed(REPLICA), of("decode-0", 0, Action.STALE))
    document = document_of(plan, [Evict("default", "a-0", "drain")])
    assert document["evictions"] == [
        {"namespace": "default", "pod": "a-0", "action": "drain", "for": None},
        {"namespace": "default", "pod": "runs-0-0", "action": "stale", "for": None},
        {"namespace": "default", "pod": "runs-3-0", "action": "reclaim", "for": "default/other"},
        {"namespace": "default", "pod": "runs-3-1", "action": "reclaim", "for": "default/other"},
    ]


def test_a_moved_pod_is_nominated_under_its_old_name():
    """Its successor's room is reserved: whoever reads the plan sees where to."""
    moved = of("decode-3", 1, Action.CONSOLIDATE, BETTER, to=NODE["n2"])
    decisions = decide(evicting(moved))
    assert Nominate("default", "runs-3-1", "n2") in decisions
    assert Evict("default", "runs-3-1", "consolidate", "default/better") in decisions
    assert {"namespace": "default", "pod": "runs-3-1", "node": "n2"} in document_of(evicting(moved))["nominations"]


def explained(plan, number):
    return explain(plan, number, ())


def test_both_sides_are_told():
    """The loser: which pods, for whom, why these. The winner: whom it displaces, and which pods it waits for."""
    plan = evicting(*REPLICA)
    loser, winner, third = (explained(plan, number) for number in (RUNS, OTHER, BETTER))
    assert [loss.pods for loss in loser.loses] == [("runs-3-0", "runs-3-1")]
    assert loser.displaces == ()
    assert winner.displaces == loser.loses
    assert (winner.loses, third.loses, third.displaces) == ((), (), ())
    document = explanation_of(loser, plan.snapshot)
    assert document["displaces"] == []
    assert document["loses"] == [
        {
            "gang": "default/runs",
            "pods": ["runs-3-0", "runs-3-1"],
            "action": "reclaim",
            "for": "default/other",
            "message": why_evicted(loser.loses[0]),
        }
    ]
    assert explanation_of(winner, plan.snapshot)["displaces"] == document["loses"]


def test_who_is_evicted_is_waited_for():
    """A nominated gang names the pods that this very cycle sends away from its nodes."""
    plan = planned(
        *(node("n", 2), gang("old", preemptibility="preemptible"), pod("old-0", "old", gpus=2, nodeName="n")),
        *(gang("new", priorityClassName="train", minMember=2), pod("new-0", "new"), pod("new-1", "new")),
    )
    old, new = (next(n for n, one in enumerate(plan.snapshot.gangs) if one.key[1] == name) for name in ("old", "new"))
    plan = replace(
        plan,
        placements=(Placement(new, 0, (0, 1), (0, 0), True),),
        evictions=(Eviction(old, 0, 0, Action.PREEMPT, new),),
    )
    assert explained(plan, new).waits == (("n", ("default/old-0",)),)


def test_a_proof_is_counted_again_in_the_room_that_evictions_leave():
    """Room that is given back counts, and so does room that is kept for moved pods."""
    plan = planned(
        *(node("a", 2), node("b", 0), gang("old", preemptibility="preemptible"), pod("old-0", "old", nodeName="a")),
        *(gang("g", minMember=4, preemptibility="preemptible"), *(pod(f"g-{i}") for i in range(4))),
    )
    number = {one.key[1]: at for at, one in enumerate(plan.snapshot.gangs)}
    assert isinstance(plan.outcomes[number["g"]].proof, Certificate)
    assert explained(plan, number["g"]).proof.startswith("counted twice: ")
    gone = Eviction(number["old"], 0, 0, Action.STALE)
    assert explained(replace(plan, evictions=(gone,)), number["g"]).proof.startswith("counted twice: ")
    small = planned(
        *(node("a", 2), gang("old", preemptibility="preemptible"), pod("old-0", "old", nodeName="a")),
        *(gang("g", minMember=2, preemptibility="preemptible"), pod("g-0"), pod("g-1")),
    )
    number = {one.key[1]: at for at, one in enumerate(small.snapshot.gangs)}
    gone = Eviction(number["old"], 0, 0, Action.STALE)
    assert explained(replace(small, evictions=()), number["g"]).proof.startswith("counted twice: ")
    assert explained(replace(small, evictions=(gone,)), number["g"]).proof.startswith("counted: ")


LONG = planned(
    *(node("n" * 253, 8), queue("q" * 253, quota=1), queue("r" * 253, quota=1)),
    gang("g" * 63, queue="q" * 253, subGroups=[{"name": "a" * 63, "minMember": 1}]),
    *(pod(f"{'p' * 60}{at}", "g" * 63, "a" * 63, nodeName="n" * 253) for at in range(3)),
    *(gang("h" * 63, queue="r" * 253), pod("h-0", "h" * 63)),
)


@given(
    st.sampled_from([Action.CONSOLIDATE, Action.RECLAIM, Action.PREEMPT, Action.STALE]),
    st.sampled_from(list(UnitKind)),
    st.integers(0, 10**9),
    st.booleans(),
)
def test_no_sentence_is_too_long(action, kind, considered, exact):
    """Whatever names are like, a sentence has at most 250 characters on one line and keeps its three parts."""
    row = 0 if kind is UnitKind.WHOLE_GANG else 1
    beneficiary = NONE if action == Action.STALE else 1
    to = 0 if action == Action.CONSOLIDATE else NONE
    sides = tuple(tuple(Measured(queue, GPU, 3 * PARTS, 1 * PARTS) for queue in rows) for rows in ((0, 1), (1, 0)))
    ground = Ground(True, *sides) if action == Action.RECLAIM else None
    gone = [Eviction(0, 1, at, action, beneficiary, kind, row, to, considered, exact, ground) for at in range(3)]
    (loss,) = losses(replace(LONG, evictions=tuple(gone)))
    message = why_evicted(loss)
    assert len(message) <= LONGEST
    assert "\n" not in message
    assert message.count(" · ") == 1 + bool(loss.choice)
    if action == Action.RECLAIM:
        assert "held 3 GPU, its quota is 1" in message


def test_what_is_deleted_over_a_budget_says_so_in_words_and_data():
    """Apart from what is evicted; and where nothing is, nothing is said."""
    b = PLAN.snapshot.queues.row_of["b"]
    asks = tuple(row == b for row in range(len(PLAN.snapshot.queues.names)))
    queues = replace(PLAN.snapshot.queues, ignores_budgets=asks)
    snapshot = replace(PLAN.snapshot, queues=queues, budgets=("default/never", "default/other"))
    first, second = REPLICA
    plan = replace(PLAN, snapshot=snapshot, evictions=(first._replace(passed=(0,)), second))
    kept, deleted = sorted(losses(plan), key=lambda loss: loss.ignored)
    over = "deleted although default/never allows no eviction: queue b has IgnoreBudgets"
    assert over in why_evicted(deleted)
    assert "deleted" not in why_evicted(kept)
    said = {one["pod"]: one for one in document_of(plan)["evictions"]}
    assert said["runs-3-0"]["ignoredBudgets"] == ["default/never"]
    assert list(said["runs-3-1"]) == ["namespace", "pod", "action", "for"]
