"""Gangs of one pod that follow one another: served many at a time, with the same result as one by one."""

import pytest

from muster.model.reasons import Code
from muster.plan.cycle import Policy, schedule
from muster.plan.evictor import Evictor
from muster.plan.lone import Lone
from muster.plan.outcome import ACTIONS, Action, Verdict
from oracle.engine import said
from scenarios.story import unlike
from short_forms import gone, lone, merged, number_of, snapshot_of

HIGH, MIDDLE = {"priorityClassName": "build-preemptible"}, {"priorityClassName": "train"}
STAY = frozenset(ACTIONS) - {Action.CONSOLIDATE}
ALLOCATE = frozenset([Action.ALLOCATE])


def named(letter, count):
    return " ".join(f"{letter}{index:02}" for index in range(count))


def small(count, first=0, gpus=1):
    return {"nodes": [{"name": f"n{index:02}", "gpus": gpus} for index in range(first, first + count)]}


def victims(count, queue="q", gpus=1, **spec):
    """One on each of the first nodes."""
    return merged(*(lone(f"v{index:02}", f"n{index:02}", queue=queue, gpus=gpus, **spec) for index in range(count)))


def planned(objects, actions=frozenset(ACTIONS), *, alone=False):
    """The plan; `alone`: when every gang of one pod is tried by itself."""
    snapshot = snapshot_of(objects)
    with pytest.MonkeyPatch.context() as patch:
        if alone:
            patch.setattr(Lone, "serve", lambda self, turn, line, alone: alone(turn.gang))
        return schedule(snapshot, Policy(actions=actions))[0]


def verdict(plan, name):
    return plan.outcomes[number_of(plan.snapshot, name)].verdict


Q = {"queues": {"q": {"quota": -1}}}


@pytest.mark.parametrize(
    ("objects", "actions", "bound", "nominated"),
    [
        pytest.param(merged(Q, small(3, gpus=2), lone(named("w", 4), queue="q")), ALLOCATE, 4, 0, id="all of them fit"),
        pytest.param(merged(Q, small(2), lone(named("w", 5), queue="q")), ALLOCATE, 2, 0, id="some of them fit"),
        pytest.param(merged(small(2), lone(named("w", 5))), ALLOCATE, 2, 0, id="without queues"),
        pytest.param(
            merged({"queues": {"q": {"limit": 3, "quota": -1}}}, small(9), lone(named("w", 5), queue="q")),
            ALLOCATE,
            3,
            0,
            id="the limit of the queue",
        ),
        pytest.param(
            merged(
                {"queues": {"q": {"quota": 2}}},
                small(9),
                lone(named("w", 4), queue="q", preemptibility="non-preemptible"),
            ),
            ALLOCATE,
            2,
            0,
            id="the quota of the queue",
        ),
        pytest.param(
            merged(
                {"queues": {"a": {"quota": 0, "weight": 3}, "b": {"quota": 0}}},
                small(4),
                lone(named("a", 4), queue="a"),
                lone(named("b", 4), queue="b"),
            ),
            ALLOCATE,
            4,
            0,
            id="queues in turn",
        ),
        pytest.param(
            merged(Q, small(14), victims(14), lone(named("w", 3), queue="q", **HIGH)), STAY, 0, 3, id="victims"
        ),
        pytest.param(merged(small(14), victims(14, ""), lone(named("w", 3), **HIGH)), STAY, 0, 3, id="without queues"),
        pytest.param(
            merged(
                {"queues": {"q": {"limit": 14, "quota": -1}}}, small(14), victims(14), lone("w0 w1", queue="q", **HIGH)
            ),
            STAY,
            0,
            2,
            id="victims make way in the limit",
        ),
        pytest.param(
            merged(
                {"queues": {"q": {"quota": 2}, "r": {"quota": 0}}},
                small(14),
                victims(14, "r"),
                lone(named("w", 4), queue="q"),
            ),
            STAY,
            0,
            4,
            id="reclaim",
        ),
    ],
)
def test_many_at_a_time_come_to_the_same_as_one_by_one(objects, actions, bound, nominated):
    """Bindings, verdicts, reasons, queues: all is equal, and as many go."""
    many, single = planned(objects, actions), planned(objects, actions, alone=True)
    assert sum(not one.nominated for one in many.placements) == bound
    assert sum(one.nominated for one in many.placements) == nominated
    assert len(many.evictions) == len(single.evictions) == nominated
    found, expected = said(many), said(single)
    for told in (found, expected):
        for key in ("evicted", "nominated"):
            del told[key]
        if nominated:
            del told["outcomes"]
    assert unlike(found, expected) == []


def test_who_fits_nowhere_does_not_cost_its_queue_its_turn():
    """Lone pods that are refused charge nothing: the next gang of their queue comes when it would without them."""
    nowhere = {"nodeSelector": {"no": "where"}}
    objects = merged(
        {"nodes": [{"name": "n", "gpus": 2}]},
        {"queues": {"a": {"priority": 200, "quota": 2}, "b": {"quota": 2}}},
        lone("l0 l1 l2", queue="a", spec=nowhere, **HIGH),
        {"gangs": {name: {"minMember": 2, "queue": name} for name in "ab"}},
        {"pods": [{"gang": name, "count": 2} for name in "ab"]},
    )
    plan = planned(objects, ALLOCATE)
    assert (verdict(plan, "a"), verdict(plan, "b")) == (Verdict.PLACED, Verdict.INFEASIBLE)


@pytest.mark.parametrize("first", ["a", "b"])
def test_lone_pods_of_several_queues_each_face_what_is_set_aside_for_others(first):
    """Room that is reserved for a gang of queue a is open to a higher priority of a, and never to queue b."""
    objects = merged(
        {"nodes": [{"name": "n", "gpus": 2}]},
        {"queues": {name: {"quota": 3, "priority": 200 if name == first else 100} for name in "ab"}},
        lone("ha", queue="a", **HIGH),
        lone("hb", queue="b", **HIGH),
        # So that queue a asks for more than its share, and b comes after ha.
        lone("more", queue="a", spec={"nodeSelector": {"no": "where"}}),
        {"gangs": {"r": {"minMember": 2, "queue": "a"}}},
    )
    documents = merged(objects, {"documents": [_nominated(f"r-{at}", "r", "n") for at in range(2)]})
    plan = planned(documents, ALLOCATE)
    placed = {plan.snapshot.gangs[one.gang].key[1] for one in plan.placements if not one.nominated}
    assert placed == {"ha"}


def _nominated(name, gang, node):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"pod-group-name": gang}},
        "spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]},
        "status": {"nominatedNodeName": node},
    }


@pytest.mark.parametrize("actions", [STAY, frozenset(ACTIONS), frozenset(["allocate", "preempt"])])
def test_nobody_goes_for_room_that_comes_free_by_itself(actions):
    """Two pods terminate, two wait, and many could be preempted: nobody is."""
    objects = merged(
        Q,
        small(16),
        victims(14, controlled=False),
        {"pods": [{"name": f"old{at}", "on": f"n{at}", "terminating": True} for at in (14, 15)]},
        lone("w0 w1", queue="q", **HIGH),
    )
    plan = planned(objects, actions)
    assert plan.evictions == ()
    assert [one.nominated for one in plan.placements] == [True, True]
    assert {reason.code for one in ("w0", "w1") for reason in plan.outcomes[number_of(plan.snapshot, one)].reasons} == {
        Code.WAITING_FOR_ROOM
    }


def test_who_goes_for_many_is_needed():
    """The last node's pods free more than is wanted: only as much goes as is needed."""
    objects = merged(
        Q,
        small(12, gpus=2),
        {"nodes": [{"name": "z", "gpus": 4}]},
        victims(12, gpus=2),
        lone("w1", "z", queue="q"),
        lone("w3", "z", queue="q", gpus=3, **MIDDLE),
        lone(named("h", 13), queue="q", gpus=2, **HIGH),
    )
    plan = planned(objects, STAY)
    assert len(plan.placements) == 13
    assert gone(plan.snapshot, plan.evictions) == [*named("v", 12).split(), "w3"]


def test_disruption_budgets_are_drawn_once():
    """Thirteen pods of a budget of thirteen go, and one that no budget guards: nothing is drawn twice."""
    web = {"labels": {"app": "web"}}
    objects = merged(
        Q,
        small(13),
        {"nodes": [{"name": "z", "gpus": 2}]},
        victims(13, **web),
        lone("w", "z", queue="q", gpus=2, **MIDDLE),
        lone(named("h", 14), queue="q", **HIGH),
    )
    for allowed, served in ((13, 14), (12, 14), (5, 7)):
        plan = planned({**objects, "budgets": {"b": {"selects": {"app": "web"}, "allowed": allowed}}}, STAY)
        guarded = [pod for pod in gone(plan.snapshot, plan.evictions) if pod.startswith("v")]
        assert (len(guarded), len(plan.placements)) == (min(allowed, served - 1 if allowed == 13 else allowed), served)


def test_surplus_goes_before_minimums_for_many_too():
    """Where surplus pods are in the way, no whole gang goes for lone pods (SPEC §8)."""
    objects = merged(
        Q,
        small(16),
        victims(13, **MIDDLE),
        {"gangs": {"s": {"minMember": 1, "queue": "q"}}},
        {"pods": [{"gang": "s", "name": f"s{at}", "on": f"n{at}", "age": 20 - at} for at in (13, 14, 15)]},
        lone("w0 w1", queue="q", **HIGH),
    )
    plan = planned(objects, STAY)
    assert len(plan.placements) == 2
    assert all(pod.startswith("s") for pod in gone(plan.snapshot, plan.evictions))


def test_many_are_really_served_at_once(monkeypatch):
    """Fourteen victims for three gangs: one search for all of them."""
    asked = []
    for name in ("find", "find_many"):
        real = getattr(Evictor, name)
        monkeypatch.setattr(Evictor, name, lambda *args, real=real, name=name: asked.append(name) or real(*args))
    plan = planned(merged(Q, small(14), victims(14), lone(named("w", 3), queue="q", **HIGH)), STAY)
    assert len(plan.placements) == 3
    assert asked == ["find_many"]


def test_many_are_owed_over_a_budget_before_any_of_their_own_queue_goes():
    """Thirteen pods of a budget that lets none go: each is deleted for a gang of a queue that ignores budgets, though
    lower priorities run in that queue.
    """
    queues = {"q": {"annotations": {"muster.dev/reclaim-policy": "IgnoreBudgets"}}, "r": {"quota": 0}}
    objects = merged(
        {"queues": queues, "budgets": {"b": {"selects": {"app": "web"}, "allowed": 0}}},
        small(14),
        victims(13, queue="r", labels={"app": "web"}),
        lone("low", "n13", queue="q"),
        lone(named("h", 13), queue="q", **MIDDLE),
    )
    plan = planned(objects, STAY)
    assert gone(plan.snapshot, plan.evictions) == sorted(named("v", 13).split())
    assert {(one.action, one.passed) for one in plan.evictions} == {
        ("reclaim", (plan.snapshot.budgets.index("default/b"),))
    }
