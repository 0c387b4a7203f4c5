"""What the page shows of a scene: nodes with their slots, gangs with trees and pods, queues with who waits."""

import pytest

from muster.api.podgroup import PodGroupStatus
from muster.decisions.explanation import document_of, explain
from muster.decisions.status import status_of
from muster.serve.page.keeping import looks_the_same
from muster.serve.views.frame import frame_of, gangs_of, view_of
from muster.serve.views.scene import scene_of
from small_cluster import GPU, TOPOLOGY, gang, node, pod
from unit.serve.scenes import HERE, Stage, encoded, pods_of, slots_on

RACKED = {"topology": "dc", "requiredTopologyLevel": "rack"}
SOON = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
PRIORITY = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
HIGH = {"priorityClassName": "high"}
NASTY = "<img src=x onerror=alert(1)>"


def frame(*documents, **how):
    return frame_of(Stage(*documents).cycle(**how), HERE, 7)


def queue(name, parent="", quota=-1, limit=-1):
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"parentQueue": parent, "resources": {"gpu": {"quota": quota, "limit": limit}}},
    }


def test_a_frame_says_where_it_comes_from():
    found = frame(node("n", 4), decision="9f3c-41")
    assert {key: found[key] for key in ("version", "decision", "at", "source", "unit", "topologies")} == {
        "version": 7,
        "decision": "9f3c-41",
        "at": "2026-01-01T00:00:01Z",
        "source": {"kind": "file", "name": "a test"},
        "unit": {"resource": GPU, "name": "GPU"},
        "topologies": [],
    }
    assert found["nodes"] == {
        "n": {"paths": [], "slots": 4, "free": 4, "others": 0, "state": "ready", "why": ""},
    }
    assert (found["gangs"], found["queues"]) == ({}, {})
    assert found["summary"] == {"gangs": 0, "running": 0, "pending": 0, "nodes": 1, "slots": 4, "free": 4}


def test_an_empty_world_is_a_frame_too():
    found = frame()
    assert found["unit"] == {"resource": "cpu", "name": "CPU"}
    assert found["summary"] == {"gangs": 0, "running": 0, "pending": 0, "nodes": 0, "slots": 0, "free": 0}


def test_without_nodes_the_unit_is_what_is_asked_for():
    """Who asks for GPUs is not told of CPUs; nodes that come change nothing in that."""
    stage = Stage(gang(), pod("g-0"))
    assert frame_of(stage.cycle(), HERE)["unit"] == {"resource": GPU, "name": "GPU"}
    stage.apply(node("n", 4))
    found = frame_of(stage.cycle(), HERE)
    assert (found["unit"]["resource"], found["summary"]["slots"]) == (GPU, 4)


def has(name, **allocatable):
    return node(name, 0, status={"allocatable": {key.replace("_", "/"): value for key, value in allocatable.items()}})


@pytest.mark.parametrize(
    ("nodes", "unit", "slots"),
    [
        pytest.param([has("a", cpu="1500m")], ("cpu", "CPU"), [1.5], id="no devices"),
        pytest.param([has("a", cpu="4", x_tpu=2), has("b", cpu="4")], ("x/tpu", "tpu"), [2, 0], id="some device"),
        pytest.param(
            [has("a", cpu="4", y_eni=54), has("b", cpu="4", y_eni=54)], ("cpu", "CPU"), [4, 4], id="nobody asks for it"
        ),
        pytest.param([has("a", x_tpu=9, y_gpu=1), has("b", x_tpu=9)], ("y/gpu", "GPU"), [1, 0], id="GPUs first"),
        pytest.param(
            [has("a", x_gpu=1), has("b", y_gpu=2), has("c", y_gpu=3)], ("y/gpu", "GPU"), [1, 2, 3], id="of all makers"
        ),
    ],
)
def test_what_a_slot_is(nodes, unit, slots):
    """GPUs where there are any, of all makers alike, as in queues; else the device that most nodes have of those that
    a gang asks for: device plugins also count what is no place for a pod.
    """
    found = frame(*nodes, gang(), asks("g-0", "x/tpu"))
    assert tuple(found["unit"].values()) == unit
    assert [one["slots"] for one in found["nodes"].values()] == slots


def asks(name, resource):
    return pod(name, containers=[{"resources": {"requests": {resource: 1}}}])


def test_the_unit_outlives_the_gang_that_asked_for_it():
    """The map is not laid out anew because the last gang of the day is gone; it is when the nodes lose the device."""
    stage = Stage(has("a", cpu="4", x_tpu=2), gang(), asks("g-0", "x/tpu"))
    assert stage.cycle().unit.resource == "x/tpu"
    stage.delete(gang(), asks("g-0", "x/tpu"))
    assert stage.cycle().unit.resource == "x/tpu"
    stage.apply(has("a", cpu="4"))
    assert stage.cycle().unit.resource == "cpu"


def test_paths_of_nodes():
    """Names, not labels, as deep as the node is labelled; null for a node that is in no domain."""
    found = frame(TOPOLOGY, node("a", 1, rack="r/1"), node("b", 1), node("c", 1, metadata={"name": "c"}))
    assert found["topologies"] == [{"name": "dc", "levels": ["zone", "rack"], "labels": ["t/zone", "t/rack"]}]
    assert {name: one["paths"] for name, one in found["nodes"].items()} == {
        "a": [["a", "r/1"]],
        "b": [["a"]],
        "c": [None],
    }


def test_nodes_that_take_nobody_say_why():
    down = {
        "allocatable": {GPU: 1},
        "conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "no word"}],
    }
    found = frame(node("a", 1, spec={"unschedulable": True}), node("b", 1, spec={"unschedulable": True}, status=down))
    assert {name: (one["state"], one["why"]) for name, one in found["nodes"].items()} == {
        "a": ("cordoned", "it takes no new pods until kubectl uncordon a"),
        "b": ("notReady", "NodeStatusUnknown: no word"),
    }
    assert (found["summary"]["slots"], found["summary"]["free"]) == (2, 0)


FULL = (
    *(TOPOLOGY, node("n1", 8, rack="r1"), node("n2", 8, rack="r2")),
    *(gang("run", minMember=2), *(pod(f"run-{i}", "run", nodeName="n1") for i in range(3))),
    *(gang("new", minMember=2), *(pod(f"new-{i}", "new") for i in range(3))),
    pod("stranger", "", gpus=2, nodeName="n1"),
)


def test_pods_stand_where_they_are_or_go():
    """The oldest of a leaf are its core; those of this cycle are being bound."""
    found = frame(*FULL)
    assert pods_of(found, "default/run") == {
        ("run-0", "core"): "n1",
        ("run-1", "core"): "n1",
        ("run-2", "surplus"): "n1",
    }
    assert [pod[3:] for pod in found["gangs"]["default/new"]["pods"]] == [[1, "binding"]] * 3
    flying = frame(*FULL, flying=[("default", "run-1")])
    assert ("run-1", "binding") in pods_of(flying, "default/run")


def test_slots_are_free_others_and_pods():
    """Of every node: what is listed, what strangers hold, what is left when this cycle's pods are bound."""
    found = frame(*FULL)
    for name, one in found["nodes"].items():
        assert one["slots"] == one["free"] + one["others"] + slots_on(found, name)
    assert found["nodes"]["n1"]["others"] == 2
    assert found["summary"] == {"gangs": 2, "running": 2, "pending": 0, "nodes": 2, "slots": 16, "free": 8}


def test_a_node_with_more_on_it_than_it_has_is_full():
    found = frame(node("n", 1), gang(), pod("g-0", gpus=3, nodeName="n"))
    assert found["nodes"]["n"] == {"paths": [], "slots": 1, "free": 0, "others": 0, "state": "ready", "why": ""}


def test_fractions_of_a_core_are_slots_too():
    """Where there are no devices, slots are cores."""
    small = pod("g-0", nodeName="n", containers=[{"resources": {"requests": {"cpu": "250m"}}}])
    found = frame(has("n", cpu="2"), gang(), small)
    assert found["gangs"]["default/g"]["pods"] == [["g-0", "n", 0, 0.25, "core"]]
    assert (found["nodes"]["n"]["free"], found["summary"]["free"]) == (1.75, 1.75)


def test_who_terminates_is_seen_leaving():
    """A plan only counts them; they hold their room until they are gone."""
    found = frame(
        node("n", 4),
        gang(),
        pod("g-0", nodeName="n"),
        pod("g-1", nodeName="n", metadata=SOON | {"name": "g-1", "annotations": {"pod-group-name": "g"}}),
    )
    assert pods_of(found, "default/g") == {("g-0", "core"): "n", ("g-1", "leaving"): "n"}
    assert (found["nodes"]["n"]["free"], found["nodes"]["n"]["others"]) == (2, 0)


def test_who_is_told_to_go_by_this_cycle_stands_there_once():
    """The world counts him as terminating from the moment that it is sent; the plan still has him."""
    first = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    going = pod("low-1", "low", nodeName="n")
    going["metadata"] |= SOON
    stage = Stage(node("n", 2), first, gang("low"), pod("low-0", "low", nodeName="n"), going)
    stage.apply(gang("top", minMember=2, priorityClassName="high"), pod("top-0", "top"), pod("top-1", "top"))
    plan = stage.cycle().plan
    sent = pod("low-0", "low", nodeName="n")
    sent["metadata"] |= SOON
    stage.apply(sent)
    found = frame_of(scene_of(plan, stage.world, decision="d"), HERE)
    assert [one[0] for one in found["gangs"]["default/low"]["pods"]] == ["low-0", "low-1"]
    assert found["nodes"]["n"]["others"] == 0


def test_another_unit_is_another_amount():
    """Devices that come later make a slot something else, also of who terminates."""
    going = pod("g-1", nodeName="n", containers=[{"resources": {"requests": {"cpu": "2"}}}])
    going["metadata"] |= SOON
    stage = Stage(has("n", cpu="8"), gang(), pod("g-0", nodeName="n", containers=[{}]), going)
    before = view_of(stage.cycle())
    assert before.gangs["default/g"]["pods"][1][3] == 2
    stage.apply(has("n", cpu="8", x_gpu=4))
    now = view_of(stage.cycle(), before)
    assert now.changes.unit
    assert now.gangs["default/g"]["pods"][1][3] == 0


def test_room_that_is_waited_for_is_nominated():
    found = frame(
        *(node("n", 2), gang(minMember=2), pod("g-0"), pod("g-1")),
        pod("old", "", nodeName="n", metadata=SOON),
    )
    assert set(pods_of(found, "default/g")) == {("g-0", "nominated"), ("g-1", "nominated")}
    assert found["nodes"]["n"] | {"free": 1, "others": 1} == found["nodes"]["n"]
    assert found["gangs"]["default/g"]["state"] == "pending"


def test_who_is_evicted_is_leaving_and_his_gang_with_him():
    first = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    found = frame(
        *(node("n", 2), first, gang("low", minMember=2)),
        *(pod(f"low-{i}", "low", nodeName="n") for i in range(2)),
        *(gang("top", minMember=2, priorityClassName="high"), pod("top-0", "top"), pod("top-1", "top")),
    )
    assert pods_of(found, "default/low") == {("low-0", "leaving"): "n", ("low-1", "leaving"): "n"}
    assert pods_of(found, "default/top") == {("top-0", "nominated"): "n", ("top-1", "nominated"): "n"}
    low = found["gangs"]["default/low"]
    assert (low["state"], low["reason"]) == ("leaving", "Evicted")
    assert found["nodes"]["n"]["free"] == 0


TREE = {
    "minSubGroup": 1,
    "subGroups": [
        {"name": "a", "minMember": 2, "topologyConstraint": {"topology": "dc", "preferredTopologyLevel": "t/rack"}},
        {"name": "b", "minMember": 2},
    ],
    "topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "zone"},
}


def test_a_tree_says_what_it_has_and_needs():
    stage = Stage(
        *(TOPOLOGY, node("n1", 2, rack="r1"), gang(**TREE), *(pod(f"g-{i}", leaf="a") for i in range(2))),
        *(pod(f"h-{i}", leaf="b") for i in range(2)),
    )
    found = frame_of(stage.cycle(), HERE)["gangs"]["default/g"]
    assert (found["state"], found["verdict"], found["satisfied"]) == ("partial", "Placed", True)
    root, a, b = found["tree"]
    assert {key: root[key] for key in ("name", "parent", "minimum", "of", "have", "pending", "total", "optional")} == {
        "name": "",
        "parent": -1,
        "minimum": 1,
        "of": "subGroups",
        "have": 2,
        "pending": 2,
        "total": 4,
        "optional": False,
    }
    assert (root["required"], root["preferred"], root["topology"], root["domain"]) == ("zone", None, "dc", "a")
    assert (a["required"], a["preferred"], a["domain"], a["preferredMet"]) == (None, "rack", "a/r1", True)
    assert [(row["of"], row["optional"], row["core"], row["satisfied"]) for row in (a, b)] == [
        ("pods", True, True, True),
        ("pods", True, False, False),
    ]
    assert b["reasons"][0]["code"] == found["reason"]


@pytest.mark.parametrize(
    ("documents", "state", "reason"),
    [
        pytest.param([gang(), pod("g-0", nodeName="n")], "running", None, id="running"),
        pytest.param([gang(), pod("g-0", gpus=9)], "pending", "InsufficientResources", id="pending"),
        pytest.param([gang(minMember=2), pod("g-0")], "held", "WaitingForPods", id="held"),
        pytest.param([gang(), pod("g-0", status={"phase": "Succeeded"})], "finished", None, id="finished"),
        pytest.param(
            [gang(), pod("g-0", nodeName="n"), pod("g-1", gpus=9)], "partial", "InsufficientResources", id="partial"
        ),
    ],
)
def test_states_in_one_word(documents, state, reason):
    found = frame(node("n", 4), *documents)["gangs"]["default/g"]
    assert (found["state"], found["reason"]) == (state, reason)


def test_below_its_minimum_by_a_loss_is_stale_as_its_status_says():
    """One word for one state: that of the phase; neither running nor pending."""
    stage = Stage(
        node("n", 4), gang(minMember=2), *(lost := [pod("g-0", nodeName="n"), pod("g-1", nodeName="n")]), gang("h")
    )
    stage.cycle()
    stage.delete(lost[1])
    scene = stage.cycle()
    assert status_of(scene.plan, 0, PodGroupStatus()).phase == "Stale"
    found = frame_of(scene, HERE)
    assert [one["state"] for one in found["gangs"].values()] == ["stale", "held"]
    counts = {"gangs": 2, "running": 0, "pending": 0, "held": 1, "stale": 1}
    assert found["summary"] == {**counts, "nodes": 1, "slots": 4, "free": 3}


def test_who_would_fit_does_not_count_as_pending():
    """Of a plan that nobody acts on."""
    found = frame(node("n", 2), gang(), pod("g-0"), decision="")
    assert found["gangs"]["default/g"]["state"] == "fits"
    counts = {"gangs": 1, "running": 0, "pending": 0, "fits": 1}
    assert found["summary"] == {**counts, "nodes": 1, "slots": 2, "free": found["summary"]["free"]}


def test_surplus_in_line_is_counted_apart():
    """As many stand in lines as the summary and the states tell."""
    found = frame(
        *(node("n", 2), gang(), pod("g-0", nodeName="n"), pod("g-1", gpus=9)),
        *(gang("h"), pod("h-0", "h", gpus=9), gang("i"), pod("i-0", "i", nodeName="n")),
    )
    assert (found["summary"]["running"], found["summary"]["pending"], found["summary"]["surplus"]) == (2, 1, 1)
    assert len(found["queues"]["default-queue"]["waiting"]) == 2


def test_counts_and_words_are_those_of_explain():
    """Have, minimum and total, reasons and the message are what `muster explain -o json` prints."""
    stage = Stage(
        *FULL, gang("big", topologyConstraint=RACKED, minMember=9), *(pod(f"big-{i}", "big") for i in range(9))
    )
    plan = stage.cycle(decision="").plan
    found = frame_of(stage.scene, HERE)["gangs"]
    for number, one in enumerate(plan.snapshot.gangs):
        document = document_of(explain(plan, number, ()), plan.snapshot)
        mine = found["/".join(one.key)]
        assert mine["message"] == document["message"]
        assert mine["position"] == document["queue"]["position"]
        keys = ("name", "have", "minimum", "total", "satisfied", "core", "domain", "preferredMet", "reasons")
        assert [{key: row[key] for key in keys} for row in mine["tree"]] == document["subGroups"]


def test_what_is_being_bound_is_not_told_as_a_question():
    """A page beside a scheduler that acts says so."""
    assert "so far nobody" in frame(*FULL, decision="")["gangs"]["default/new"]["message"]
    assert frame(*FULL, decision="d")["gangs"]["default/new"]["message"] == "3 pods are being bound"


@pytest.mark.parametrize(("decision", "state"), [("d", "running"), ("", "fits")])
def test_a_gang_that_nobody_binds_does_not_run(decision, state):
    """Where the plan is only asked: what has its minimum on nodes runs, what would get it fits."""
    found = frame(*FULL, decision=decision)
    assert found["gangs"]["default/run"]["state"] == "running"
    assert found["gangs"]["default/new"]["state"] == state
    fits = int(state == "fits")
    assert (found["summary"]["running"], found["summary"].get("fits", 0)) == (2 - fits, fits)


def test_queues_show_shares_and_lines():
    found = frame(
        *(node("n", 3), queue("top", quota=3), queue("a", "top", quota=2, limit=3), queue("lost", "nowhere")),
        *(gang("run", queue="a", minMember=1), pod("run-0", "run", nodeName="n"), pod("run-1", "run", nodeName="n")),
        *(gang("x", queue="a", minMember=2), pod("x-0", "x"), pod("x-1", "x")),
        *(gang("y", queue="a", minMember=2), pod("y-0", "y"), pod("y-1", "y")),
    )
    assert {name: (one["parent"], one["depth"], one["order"]) for name, one in found["queues"].items()} == {
        "top": (None, 0, 0),
        "a": ("top", 1, 1),
        "lost": (None, 0, 2),
    }
    (share,) = found["queues"]["a"]["shares"]
    assert {key: share[key] for key in ("resource", "allocated", "surplus", "awaited", "quota", "limit")} == {
        "resource": "gpu",
        "allocated": 2,
        "surplus": 1,
        "awaited": 0,
        "quota": 2,
        "limit": 3,
    }
    assert found["queues"]["top"]["shares"][0]["surplus"] == 1
    assert found["queues"]["top"]["shares"][0]["limit"] is None
    assert found["queues"]["a"]["waiting"] == ["default/x", "default/y"]
    assert [found["gangs"][name]["position"] for name in ("default/run", "default/x", "default/y")] == [None, 1, 2]
    assert "nowhere" in found["queues"]["lost"]["problem"]


def test_surplus_that_nobody_may_take_is_told_apart():
    """Of the surplus of a queue: what of it is not preemptible, also for the queues above. Of a gang that is
    semi-preemptible only the core is not.
    """
    found = frame(
        *(node("n0", 8), node("n1", 8), queue("top", quota=12), queue("team", "top", quota=12)),
        gang("hard", minMember=3, queue="team", preemptibility="non-preemptible"),
        *(pod(f"h{i}", "hard", nodeName="n0") for i in range(6)),
        gang("soft", minMember=3, queue="team", preemptibility="preemptible"),
        *(pod(f"s{i}", "soft", nodeName="n1") for i in range(4)),
        gang("semi", minMember=1, queue="team", preemptibility="semi-preemptible"),
        *(pod(f"m{i}", "semi", nodeName="n1") for i in range(3)),
    )
    for name in ("team", "top"):
        (share,) = found["queues"][name]["shares"]
        assert (share["allocated"], share["nonPreemptible"]) == (13, 7)
        assert (share["surplus"], share["surplusNonPreemptible"]) == (6, 3)


def test_what_is_awaited_comes_on_top_of_what_is_allocated():
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    found = frame(
        *(node("n", 2), high, queue("q", quota=4), gang("low", queue="q")),
        *(pod(f"low-{i}", "low", nodeName="n") for i in range(2)),
        *(gang("top", queue="q", priorityClassName="high"), pod("top-0", "top")),
    )
    (share,) = found["queues"]["q"]["shares"]
    assert (share["allocated"], share["awaited"], share["requested"]) == (1, 1, 3)


def test_every_part_of_a_tree_says_how_many_pods_it_needs():
    """As the scheduler counts them: any k children, floors, leaves."""
    parts = [
        {"name": "front", "minMember": 2},
        {"name": "back", "minMember": 1},
        {"name": "spare", "minMember": 5},
    ]
    found = frame(node("n", 2), gang(minMember=None, minSubGroup=2, subGroups=parts))["gangs"]["default/g"]["tree"]
    assert {one["name"]: one["minimumPods"] for one in found} == {"": 3, "front": 2, "back": 1, "spare": 5}


def test_what_comes_in_this_cycle_is_core_and_surplus_too():
    found = frame(node("n", 3), queue("q", quota=3), gang(queue="q", minMember=1), *(pod(f"g-{i}") for i in range(3)))
    assert found["queues"]["q"]["shares"][0] | {"allocated": 3, "surplus": 2} == found["queues"]["q"]["shares"][0]


def test_queues_that_nobody_wrote_down_have_lines_and_what_they_hold():
    """How many gangs are in each and what those hold; a pod that leaves holds nothing of its queue."""
    going = pod("h-2", "h", nodeName="n")
    going["metadata"] |= SOON
    found = frame(
        *(node("n", 6), gang(queue="q"), pod("g-0", gpus=9), gang("h", queue="q", minMember=1)),
        *(pod("h-0", "h", gpus=2, nodeName="n"), pod("h-1", "h"), going, gang("i", queue="r"), pod("i-0", "i", gpus=9)),
    )
    assert found["queues"]["q"] == {
        "parent": None,
        "depth": 0,
        "order": 0,
        "problem": "",
        "gangs": 2,
        "held": 3,
        "shares": [],
        "waiting": ["default/g"],
    }
    assert (found["queues"]["r"]["gangs"], found["queues"]["r"]["held"]) == (1, 0)


def test_a_queue_has_a_name_for_people():
    """It is shown when there is one, and a change of it is a change of the frame."""
    named = queue("q", quota=3)
    named["spec"]["displayName"] = "Research"
    stage = Stage(node("n", 1), named, queue("r", quota=1))
    before = stage.cycle()
    found = frame_of(before, HERE)["queues"]
    assert (found["q"]["displayName"], "displayName" in found["r"]) == ("Research", False)
    assert "held" not in found["q"]
    named["spec"]["displayName"] = "Development"
    stage.apply(named)
    assert not looks_the_same(before, stage.cycle())


@pytest.mark.parametrize(("preemptibility", "firm"), [("preemptible", 0), ("semi-preemptible", 1)])
def test_queues_hold_what_nobody_was_told_to_give_up(preemptibility, firm):
    """The shares of a plan count its evictions; where those were not ordered, everybody still has what they have."""
    documents = (
        *(node("n", 2), PRIORITY, queue("top", quota=2), queue("q", "top", quota=2)),
        *(gang("low", queue="q", minMember=1, preemptibility=preemptibility), gang("high", queue="q", **HIGH)),
        *(pod("low-0", "low", nodeName="n"), pod("low-1", "low", nodeName="n"), pod("high-0", "high")),
    )
    ordered, withheld = frame(*documents), frame(*documents, going=())
    for name in ("q", "top"):
        (then,), (now,) = (found["queues"][name]["shares"] for found in (ordered, withheld))
        assert (then["allocated"], now["allocated"], now["surplus"]) == (1, 2, 1)
        assert (now["nonPreemptible"], now["awaited"]) == (firm, 1)


def test_who_is_not_moved_after_all_is_there_and_not_awaited():
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    movable = [pod(f"{name}-0", name, gpus=2, nodeName=where) for name, where in (("a", "n1"), ("b", "n2"))]
    for one in movable:
        one["metadata"]["ownerReferences"] = [owner]
    documents = (
        *(node("n1", 4), node("n2", 4), queue("q", quota=8), gang("c", queue="q"), pod("c-0", "c", gpus=4)),
        *(gang("a", queue="q"), gang("b", queue="q"), *movable),
    )
    found = [frame(*documents, **how)["queues"]["q"]["shares"][0] for how in ({}, {"going": ()})]
    # One moves and is not back yet; c is to get its room.
    assert [(one["allocated"], one["awaited"]) for one in found] == [(2, 6), (4, 4)]


def test_names_stay_as_they_are():
    """What looks like markup is a name: nothing is escaped, cut or lost on the way."""
    found = frame(
        *(TOPOLOGY, node(NASTY, 2, zone=NASTY, rack=NASTY)),
        *(gang(NASTY, queue=NASTY), pod(NASTY, NASTY, nodeName=NASTY), pod("p", NASTY, gpus=9)),
    )
    assert found["nodes"][NASTY]["paths"] == [[NASTY, NASTY]]
    assert found["gangs"][f"default/{NASTY}"]["pods"] == [[NASTY, NASTY, 0, 1, "core"]]
    assert NASTY in found["queues"]


def test_a_frame_is_json_and_always_the_same():
    """Made twice, and made from a view before, it is the same to the byte."""
    one, other = Stage(*FULL).cycle(), Stage(*reversed(FULL)).cycle()
    assert encoded(frame_of(one, HERE)) == encoded(frame_of(other, HERE))


def test_what_did_not_change_is_the_same_document():
    stage = Stage(*(one for one in FULL if not one["metadata"]["name"].startswith("new")))
    before = view_of(stage.cycle())
    stage.apply(gang("more"), pod("more-0", "more"))
    now = view_of(stage.cycle(), before)
    assert now.gangs["default/run"] is before.gangs["default/run"]
    assert now.changes.gangs == {"default/more"}
    assert now.changes.nodes == set(pods_of({"gangs": now.gangs}, "default/more").values())
    assert (now.changes.topologies, now.changes.unit) == (False, False)


def test_some_gangs_alone():
    scene = Stage(*FULL).cycle()
    assert gangs_of(scene, {("default", "new")}) == {"default/new": frame_of(scene, HERE)["gangs"]["default/new"]}


def test_a_scene_takes_over_what_stayed():
    stage = Stage(*FULL)
    before = stage.cycle()
    now = stage.cycle()
    assert now.nodes is before.nodes
    assert encoded(frame_of(now, HERE)) == encoded(frame_of(scene_of(now.plan, stage.world, decision="d"), HERE))
