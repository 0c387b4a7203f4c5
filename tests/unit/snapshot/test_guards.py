"""Disruption budgets: whom they select, how many may go, and that their numbers stay."""

import pytest

from muster.api.cluster import (
    LabelRequirement,
    LabelSelector,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodSpec,
)
from muster.api.model import Metadata
from muster.snapshot.guards import Guards, may_go, selects
from muster.snapshot.world import World

WEB = LabelSelector(match_labels={"app": "web"})


def budget(selector=WEB, *, allowed=None, **spec) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        spec=PodDisruptionBudgetSpec(selector=selector, **spec),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def asks(operator, *values, key="app") -> LabelSelector:
    return LabelSelector(match_expressions=[LabelRequirement(key=key, operator=operator, values=list(values))])


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        pytest.param(None, {"app": "web"}, False, id="no selector: nobody"),
        pytest.param(LabelSelector(), {}, True, id="an empty selector: everybody"),
        pytest.param(WEB, {"app": "web", "tier": "1"}, True, id="the label"),
        pytest.param(WEB, {"app": "db"}, False, id="another value"),
        pytest.param(WEB, {}, False, id="no label"),
        pytest.param(LabelSelector(match_labels={"app": "web", "tier": "1"}), {"app": "web"}, False, id="one of two"),
        pytest.param(asks("In", "web", "db"), {"app": "db"}, True, id="In"),
        pytest.param(asks("In", "web"), {}, False, id="In, no label"),
        pytest.param(asks("NotIn", "web"), {"app": "db"}, True, id="NotIn"),
        pytest.param(asks("NotIn", "web"), {}, True, id="NotIn, no label"),
        pytest.param(asks("NotIn", "web"), {"app": "web"}, False, id="NotIn, but it is"),
        pytest.param(asks("Exists"), {"app": ""}, True, id="Exists, empty"),
        pytest.param(asks("Exists"), {}, False, id="Exists, no label"),
        pytest.param(asks("DoesNotExist"), {}, True, id="DoesNotExist"),
        pytest.param(asks("DoesNotExist"), {"app": "web"}, False, id="DoesNotExist, but it does"),
        pytest.param(asks("Gt", "1"), {"app": "2"}, False, id="an operator that nobody knows"),
    ],
)
def test_selectors(selector, labels, selected):
    """By itself, and among the budgets of a namespace."""
    assert selects(selector, labels) is selected
    guards = Guards()
    guards.update({("a", "x"): budget(selector)})
    assert guards.of("a", labels) == ((0,) if selected else ())
    assert guards.of("b", labels) == ()


@pytest.mark.parametrize(
    ("spec", "placed", "goes"),
    [
        pytest.param({"min_available": 2}, 5, 3, id="the least"),
        pytest.param({"min_available": 5}, 5, 0, id="the least is all"),
        pytest.param({"min_available": 9}, 5, 0, id="the least is more than there is"),
        pytest.param({"min_available": "50%"}, 5, 2, id="half of five, rounded up, stays"),
        pytest.param({"min_available": "100%"}, 5, 0, id="all stay"),
        pytest.param({"min_available": "0%"}, 5, 5, id="none need stay"),
        pytest.param({"max_unavailable": 2}, 5, 2, id="the most"),
        pytest.param({"max_unavailable": 0}, 5, 0, id="nobody"),
        pytest.param({"max_unavailable": 9}, 5, 5, id="more than there are"),
        pytest.param({"max_unavailable": "50%"}, 5, 3, id="half of five, rounded up, goes"),
        pytest.param({"max_unavailable": "1%"}, 5, 1, id="a hundredth of five is one"),
        pytest.param({"max_unavailable": "50%"}, 0, 0, id="of nobody"),
        pytest.param({"max_unavailable": 1, "min_available": 0}, 5, 1, id="both: the most counts"),
        pytest.param({}, 5, 5, id="nothing said"),
        pytest.param({"min_available": "half"}, 5, 0, id="what can't be read protects all"),
        pytest.param({"max_unavailable": "-10%"}, 5, 0, id="nor can a percentage below zero"),
        pytest.param({"min_available": "2"}, 5, 0, id="a number as text is no percentage"),
        pytest.param({"max_unavailable": -3}, 5, 0, id="the most below zero"),
        pytest.param({"min_available": -3}, 5, 5, id="the least below zero"),
        pytest.param({"min_available": "9" * 500 + "%"}, 5, 0, id="digits without end"),
    ],
)
def test_how_many_may_go(spec, placed, goes):
    assert may_go(budget(**spec), placed) == goes


def pod(name, node="n", namespace="a", app="web") -> Pod:
    return Pod(metadata=Metadata(name=name, namespace=namespace, labels={"app": app}), spec=PodSpec(node_name=node))


def disruptions(budgets, *pods) -> tuple[int, ...]:
    guards, world = Guards(), World()
    for one in pods:
        world.apply(one)
    guards.update(budgets)
    return guards.disruptions(world.pods.values(), {"n": 0})


def test_the_status_counts():
    """Also where the spec would say something else; below zero nobody may go."""
    assert disruptions({("a", "x"): budget(allowed=2, min_available=9), ("a", "y"): budget(allowed=-1)}) == (2, 0)


def test_without_status_placed_pods_are_counted():
    """Whoever scheduled them; not those of other namespaces, without a node or on one that is gone."""
    pods = [pod("1"), pod("2"), pod("3"), pod("4", ""), pod("5", "gone"), pod("6", namespace="b"), pod("7", app="db")]
    assert disruptions({("a", "x"): budget(min_available=1), ("a", "y"): budget(allowed=0)}, *pods) == (2, 0)


def test_pods_may_count_in_several():
    guards = Guards()
    guards.update({("a", "x"): budget(), ("a", "y"): budget(asks("Exists")), ("a", "z"): budget(LabelSelector())})
    assert guards.of("a", {"app": "web"}) == (0, 1, 2)
    assert guards.of("a", {"app": "db"}) == (1, 2)
    assert guards.of("a", {}) == (2,)


def test_numbers_stay():
    """What goes leaves its number to the next that comes; nobody else's changes."""
    guards = Guards()
    names = {name: budget(LabelSelector(match_labels={"app": name}), allowed=at) for at, name in enumerate("abcd", 1)}
    guards.update({("n", "b"): names["b"], ("n", "c"): names["c"]})
    assert guards.disruptions((), ()) == (2, 3)
    guards.update({("n", "a"): names["a"], ("n", "b"): names["b"], ("n", "c"): names["c"]})
    assert guards.disruptions((), ()) == (2, 3, 1)
    guards.update({("n", "a"): names["a"], ("n", "c"): names["c"]})
    assert guards.disruptions((), ()) == (0, 3, 1)
    assert guards.of("n", {"app": "b"}) == ()
    guards.update({("n", "a"): names["a"], ("n", "c"): names["c"], ("m", "d"): names["d"]})
    assert guards.disruptions((), ()) == (4, 3, 1)
    assert [guards.of("n", {"app": name}) for name in "ac"] == [(2,), (1,)]
    assert guards.of("m", {"app": "d"}) == (0,)


def test_names_of_budgets():
    """A budget that stands for pods which can't go now has none, and so nobody passes over it."""
    guards = Guards()
    guards.update({("a", "x"): budget(), ("a", "y"): budget()}, [("a", "stuck")])
    assert sorted(guards.names) == ["", "a/x", "a/y"]
    assert guards.names[guards.staying(("a", "stuck"))[0]] == ""
    guards.update({("a", "y"): budget()})
    assert sorted(guards.names) == ["", "", "a/y"]
