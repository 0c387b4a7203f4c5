"""What would make a gang fit: which changes are proposed, in which order, and which never are."""

import json

import pytest

from muster.api.tree import NONE
from muster.plan.cycle import Policy, schedule
from muster.plan.outcome import Verdict
from muster.plan.remedies import EVICT, FREE, LOWER, RELAX, UNCORDON, remedies
from muster.snapshot.build import build
from muster.snapshot.draining import draining_of
from oracle.engine import world_of
from oracle.instances import GPU, group, node, pod, topology

RACK = {"topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "rack"}}


def gang(name, **spec):
    found = group(**spec)
    found["metadata"]["name"] = name
    return found


def looked_for(documents, policy=None, **more):
    """The plan, and the remedies for the gang g, by kind."""
    plan, _ = schedule(build(world_of(documents), 0), policy)
    number = next(at for at, one in enumerate(plan.snapshot.gangs) if one.key == ("default", "g"))
    return plan, {one.kind: one for one in remedies(plan, number, policy, **more)}


def victims(plan, remedy):
    """The pods that a remedy evicts."""
    return [plan.snapshot.gangs[one.gang].placed[one.leaf].pods[one.pod] for one in remedy.victims]


def nodes(plan, remedy):
    return [plan.snapshot.nodes[one] for one in remedy.nodes]


def test_a_cordon_is_lifted_from_as_few_nodes_as_will_do():
    """Three nodes are cordoned and one is needed; one that is too small is not proposed."""
    cordoned = [node("a", 1, cordoned=True), node("b", 4, cordoned=True), node("c", 4, cordoned=True)]
    plan, found = looked_for([*cordoned, group(minMember=2), pod("p", gpus=3), pod("q", gpus=1)])
    assert len(found[UNCORDON].nodes) == 1
    assert nodes(plan, found[UNCORDON])[0] in "bc"


BUSY = [gang("busy", minMember=1), *(pod(f"busy-{i}", "", on="n", phase="Running", gang="busy") for i in range(4))]


def test_only_as_much_surplus_as_is_needed_is_evicted():
    """Of four pods three are surplus; two of them make room, and the oldest, which is core, stays."""
    plan, found = looked_for([node("n", 4), *BUSY, group(minMember=1), pod("p", gpus=2)])
    assert len(found[EVICT].victims) == 2
    assert "busy-0" not in victims(plan, found[EVICT])


@pytest.mark.parametrize(
    ("other", "mine"),
    [
        pytest.param({"preemptibility": "non-preemptible"}, {}, id="not preemptible"),
        pytest.param({"priorityClassName": "train"}, {}, id="a higher priority, which would take the room right back"),
        pytest.param({"minMember": 4}, {}, id="no surplus"),
        pytest.param({"minSubGroup": 1}, {}, id="invalid"),
    ],
)
def test_others_keep_what_is_theirs(other, mine):
    """Nobody is evicted for whom the room would not stay free, or who may not be."""
    busy = [gang("busy", **{"minMember": 1, **other}), *BUSY[1:]]
    _, found = looked_for([node("n", 4), *busy, group(minMember=1, **mine), pod("p", gpus=2)])
    assert EVICT not in found


def test_a_surplus_child_leaves_whole():
    """One of two children is needed: the other goes with all its pods."""
    leaves = [{"name": name, "minMember": 2} for name in ("x", "y")]
    running = [pod(f"{leaf}{i}", leaf, on="n", phase="Running", gang="two") for leaf in "xy" for i in range(2)]
    two = gang("two", minSubGroup=1, subGroups=leaves)
    plan, found = looked_for([node("n", 4), two, *running, group(minMember=1), pod("p")])
    assert sorted(victims(plan, found[EVICT])) == ["y0", "y1"]


def test_a_level_is_relaxed_no_further_than_needed():
    """Two racks of one block: the block is enough, the zone need not be asked for."""
    racks = [node("a", 1, "z", "b", "r1"), node("b", 1, "z", "b", "r2"), node("c", 1, "z", "c", "r3")]
    _, found = looked_for([topology(), *racks, group(minMember=2, **RACK), pod("p"), pod("q")])
    assert (found[RELAX].before, found[RELAX].level) == (2, 1)


def test_a_level_that_can_not_be_kept_at_all_is_only_preferred():
    """Nodes in two zones."""
    zones = [node("a", 1, "y", "b", "r"), node("b", 1, "z", "b", "r")]
    _, found = looked_for([topology(), *zones, group(minMember=2, **RACK), pod("p"), pod("q")])
    assert (found[RELAX].before, found[RELAX].level) == (2, NONE)


def test_the_largest_minimum_that_fits():
    """Of five pods three fit."""
    _, found = looked_for([node("n", 3), group(minMember=5), *(pod(f"p{i}") for i in range(5))])
    assert (found[LOWER].before, found[LOWER].level) == (5, 3)


def test_a_floor_is_lowered_not_below_what_the_children_need():
    leaves = [{"name": "x", "minMember": 2}, {"name": "y", "minMember": 1}]
    pods = [pod(f"{leaf}{i}", leaf) for leaf in "xy" for i in range(3)]
    _, found = looked_for([node("n", 4), group(minMember=6, subGroups=leaves), *pods])
    assert (found[LOWER].row, found[LOWER].before, found[LOWER].level) == (0, 6, 4)
    _, found = looked_for([node("n", 2), group(minMember=6, subGroups=leaves), *pods])
    assert found == {}


def test_nodes_are_emptied_of_others_and_never_of_the_gang():
    """The node with the gang's own pod is left alone, and one that is in nobody's way."""
    room = [node("a", 2), node("b", 2), node("c", 2)]
    own = pod("p0", on="a", phase="Running")
    others = [pod(f"o{name}", gpus=1, on=name, phase="Running", gang="") for name in "abc"]
    plan, found = looked_for([*room, *others, group(minMember=2), own, pod("p1", gpus=2)])
    assert len(nodes(plan, found[FREE])) == 1
    assert nodes(plan, found[FREE]) != ["a"]


def test_room_that_this_cycle_gives_away_is_not_given_again():
    """Emptying a node that another gang is bound to now would not help: that gang is bound there again."""
    first = [gang("first", minMember=1, priorityClassName="train"), pod("f", gpus=2, gang="first")]
    stranger = pod("o", gpus=1, on="n", phase="Running", gang="")
    _, found = looked_for([node("n", 3), stranger, *first, group(minMember=1), pod("p", gpus=2)])
    assert found == {}


def test_who_comes_first_is_served_first():
    """The node that is uncordoned goes to a gang of a higher priority: that is no remedy for this one."""
    first = [gang("first", minMember=1, priorityClassName="train"), pod("f", gpus=2, gang="first")]
    _, found = looked_for([node("n", 2, cordoned=True), *first, group(minMember=1), pod("p", gpus=2)])
    assert found == {}
    _, found = looked_for([node("n", 4, cordoned=True), *first, group(minMember=1), pod("p", gpus=2)])
    assert list(found) == [UNCORDON]


def test_the_gentlest_three_come_first():
    """Uncordon, evict, relax, lower, free: in this order, and no more than three."""
    tight = [node("a", 2, "z", "b", "r1"), node("b", 1, "z", "b", "r2"), node("c", 4, "z", "c", "r3", cordoned=True)]
    busy = [gang("busy", minMember=1), pod("busy-0", gpus=0, on="b", phase="Running", gang="busy")]
    busy.append(pod("busy-1", on="a", phase="Running", gang="busy"))
    documents = [topology(), *tight, *busy, group(minMember=2, **RACK), pod("p"), pod("q")]
    assert list(looked_for(documents)[1]) == [UNCORDON, EVICT, RELAX]
    assert list(looked_for(documents, most=9)[1]) == [UNCORDON, EVICT, RELAX, LOWER, FREE]
    assert list(looked_for(documents, most=1)[1]) == [UNCORDON]


@pytest.mark.parametrize(
    ("documents", "verdict"),
    [
        pytest.param([node("n", 2), group(minMember=1), pod("p")], Verdict.PLACED, id="placed"),
        pytest.param([node("n", 2), group(minMember=2), pod("p")], Verdict.HELD, id="waits for pods"),
        pytest.param([node("n", 2), group(minSubGroup=1), pod("p")], Verdict.HELD, id="invalid"),
        pytest.param(
            [node("n", 1), group(minMember=1), pod("p"), pod("q")], Verdict.PLACED, id="extra pods that do not fit"
        ),
        pytest.param(
            [node("n", 1), group(minMember=1), pod("p"), pod("o", on="n", phase="Running", gang="", terminating=True)],
            Verdict.PLACED,
            id="waits for room",
        ),
    ],
)
def test_nothing_is_proposed_where_nothing_helps(documents, verdict):
    """Held, placed, nominated: there is nothing to change, or not by us."""
    plan, found = looked_for(documents)
    assert plan.of(("default", "g"))[1].verdict is verdict
    assert found == {}


def test_an_optional_child_that_waits_is_what_it_is_about():
    """The gang is satisfied; its second child is what is made to fit, and one that lacks pods is passed over."""
    leaves = [{"name": name, "minMember": 2} for name in ("x", "y", "z")]
    pods = [pod("x0", "x"), pod("x1", "x"), pod("y0", "y"), pod("z0", "z"), pod("z1", "z")]
    plan, found = looked_for([node("n", 3), group(minSubGroup=1, subGroups=leaves), *pods])
    assert plan.of(("default", "g"))[1].satisfied
    assert list(found) == [LOWER]
    assert (found[LOWER].row, found[LOWER].level) == (3, 1)


def test_the_work_is_bounded(monkeypatch):
    """However many levels, leaves and nodes there are, there is an end to trying."""
    tried = []

    def counted(*args):
        tried.append(1)
        return schedule(*args)

    monkeypatch.setattr("muster.plan.remedies.schedule", counted)
    leaves = [{"name": f"l{i}", "minMember": 3, **RACK} for i in range(40)]
    racks = [node(f"n{i:02}", 3, "z", f"b{i}", f"r{i}") for i in range(39)]
    pods = [pod(f"l{i}-{j}", f"l{i}") for i in range(40) for j in range(3)]
    looked_for([topology(), *racks, group(subGroups=leaves), *pods])
    assert len(tried) < 300


def test_who_is_too_dear_to_run_again_is_told(monkeypatch):
    """When those before cost too many steps, the remedy says that it was tried without them."""
    monkeypatch.setattr("muster.plan.remedies._MOST_BEFORE", -1)
    _, found = looked_for([node("n", 3), group(minMember=5), *(pod(f"p{i}") for i in range(5))])
    assert not found[LOWER].in_turn


def test_a_policy_is_kept_to():
    """The strategy of the cycle is that of the trials."""
    documents = [node("n", 3), group(minMember=5), *(pod(f"p{i}") for i in range(5))]
    assert LOWER in looked_for(documents, Policy(strategy="spread", steps_per_gang=10))[1]


def test_a_node_that_this_cycle_fills_is_not_the_one_to_empty():
    """Of two full nodes one goes to another gang right now: the other is proposed."""
    first = [gang("first", minMember=1, priorityClassName="train"), pod("f", gpus=2, gang="first")]
    stranger = pod("o", gpus=2, on="m", phase="Running", gang="")
    plan, found = looked_for([node("a", 2), node("m", 2), stranger, *first, group(minMember=1), pod("p", gpus=2)])
    assert nodes(plan, found[FREE]) == ["m"]


def test_pods_that_terminate_are_not_deleted_again():
    """A node is emptied by those that stay; the gang's own pod that still leaves keeps its room for now."""
    own = pod("p0", gpus=1, on="a", phase="Running", terminating=True)
    others = [pod(f"o{name}", gpus=1, on=name, phase="Running", gang="") for name in "ab"]
    plan, found = looked_for([node("a", 2), node("b", 2), own, *others, group(minMember=1), pod("p1", gpus=2)])
    assert nodes(plan, found[FREE]) == ["b"]


def queue(name, quota):
    spec = {"resources": {"gpu": {"quota": quota, "limit": -1}}}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def with_gpus(documents):
    """The same, with devices that queues count."""
    return json.loads(json.dumps(documents).replace(GPU, "nvidia.com/gpu"))


@pytest.mark.parametrize(("quota", "lasts"), [(4, False), (2, True)], ids=["owed to the others", "its own share"])
def test_who_would_be_owed_the_room_gets_it_back(quota, lasts):
    """Two queues, and the surplus of one is in the way of the other. Where it is within its quota, its replacements
    would reclaim the room from the gang: that is no remedy.
    """
    queues = [queue("theirs", quota), queue("mine", 4 - quota)]
    busy = [gang("busy", minMember=1, queue="theirs"), *BUSY[1:]]
    documents = with_gpus([*queues, node("n", 4), *busy, group(minMember=1, queue="mine"), pod("p", gpus=2)])
    # Without evictions by the scheduler itself, which would serve the gang in the second case.
    _, found = looked_for(documents, Policy(actions=frozenset({"allocate"})) if lasts else None)
    assert (EVICT in found) is lasts


def test_an_owner_of_the_same_priority_does_not_get_it_back():
    """Its gang is older, and its turn comes first; the room is reserved."""
    busy = [{**BUSY[0], "metadata": {**BUSY[0]["metadata"], "creationTimestamp": "2020-01-01T00:00:00Z"}}, *BUSY[1:]]
    mine = group(minMember=1)
    mine["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    _, found = looked_for([node("n", 4), *busy, mine, pod("p", gpus=2)])
    assert len(found[EVICT].victims) == 2


def test_pods_that_a_budget_keeps_are_passed_over():
    """Of two gangs with surplus the pods of one are guarded."""
    other = [gang("other", minMember=1), *(pod(f"other-{i}", on="m", phase="Running", gang="other") for i in range(4))]
    for one in other[1:]:
        one["metadata"]["labels"] = {"app": "other"}
    spec = {"selector": {"matchLabels": {"app": "other"}}, "maxUnavailable": 0}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    room = [node("n", 4), node("m", 4)]
    plan, found = looked_for([*room, *BUSY, *other, budget, group(minMember=1), pod("p", gpus=2)])
    assert {name.partition("-")[0] for name in victims(plan, found[EVICT])} == {"busy"}


def test_cleared_nodes_are_filled_again_by_who_comes_first():
    """An older gang of the same priority has a pod on the node: created again, it takes the room before this one."""
    old = gang("old", minMember=1)
    old["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    mine = group(minMember=1)
    mine["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    runs = pod("o", gpus=2, on="n", phase="Running", gang="old")
    _, found = looked_for([node("n", 2), old, runs, mine, pod("p", gpus=2)])
    assert FREE not in found
    old["metadata"]["creationTimestamp"] = "2027-01-01T00:00:00Z"
    _, found = looked_for([node("n", 2), old, runs, mine, pod("p", gpus=2)])
    assert FREE in found


def test_what_a_drain_leaves_is_not_free():
    """A DaemonSet holds a device of every node; a pod without a controller is deleted only by force."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    daemon = pod("d", gpus=1, on="n", phase="Running", gang="")
    daemon["metadata"]["ownerReferences"] = [owner]
    bare = pod("o", gpus=1, on="n", phase="Running", gang="")
    documents = [node("n", 3), daemon, bare]
    draining = draining_of(world_of(documents))
    _, found = looked_for([*documents, group(minMember=1), pod("p", gpus=3)], draining=draining)
    assert FREE not in found
    _, found = looked_for([*documents, group(minMember=1), pod("p", gpus=2)], draining=draining)
    assert found[FREE].forced
