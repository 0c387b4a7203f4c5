"""People: operators keep their workloads whole, nodes come and go with their pods, all happens as it is written."""

import pytest

from muster.sim.scenario import BadScenario
from sim.town import Town

NODES = [{"name": "n", "count": 2, "rack": "r1"}, {"name": "m", "rack": "r2"}]


def gang(minimum=2, pods=2, **more):
    return {"gang": {"minMember": minimum}, "pods": {"": pods}, **more}


def tree(**more):
    parts = [{"name": "x", "minMember": 1}, {"name": "y", "minMember": 1}]
    return {"gang": {"subGroups": parts}, "pods": {"x": 1, "y": 2}, **more}


# Operators.


def test_an_operator_makes_the_pods_of_each_leaf():
    town = Town(nodes=NODES, workloads={"a": tree(cpus=2, grace=7, startsAfter=1.5)})
    assert town.pods() == ["a-x-0", "a-y-0", "a-y-1"]
    pod = town.pod("a-y-1")
    assert pod["metadata"]["annotations"]["pod-group-name"] == "a"
    assert pod["metadata"]["annotations"]["embedded.muster.dev/start-after"] == "1500ms"
    assert pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] == "y"
    assert pod["spec"]["schedulerName"] == "kai-scheduler"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 7
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "1", "cpu": "2"}
    assert pod["metadata"]["ownerReferences"][0]["controller"] is True


def test_a_pod_that_goes_is_made_anew_under_another_name():
    town = Town(nodes=NODES, workloads={"a": gang()})
    town.delete("/api/v1/namespaces/default/pods/a-0")
    town.delete("/api/v1/namespaces/default/pods/a-0.2")
    assert town.pods() == ["a-0.3", "a-1"]


def test_a_successor_comes_while_the_one_before_still_goes():
    town = Town(nodes=NODES, workloads={"a": gang(grace=5)})
    town.bind(a_0="n-0")
    town.delete("/api/v1/namespaces/default/pods/a-0")
    assert town.pods() == ["a-0", "a-0.2", "a-1"]
    town.until(6)
    assert town.pods() == ["a-0.2", "a-1"]


def test_with_the_same_names_a_successor_comes_when_the_one_before_is_gone():
    town = Town(nodes=NODES, workloads={"a": gang(grace=5, sameNames=True)})
    town.bind(a_0="n-0")
    before = town.pod("a-0")["metadata"]["uid"]
    town.delete("/api/v1/namespaces/default/pods/a-0")
    assert town.pods() == ["a-0", "a-1"]
    assert town.pod("a-0")["metadata"]["uid"] == before
    town.until(6)
    assert town.pod("a-0")["metadata"]["uid"] != before


def test_a_pod_that_failed_has_a_successor_and_lies_there_until_that_one_has_failed_too():
    town = Town(nodes=NODES, workloads={"a": gang()})
    town.bind(a_0="n-0")
    town.happen(**{"break": ["a-0"]})
    assert (town.pods(), town.pods("Failed")) == (["a-0", "a-0.2", "a-1"], ["a-0"])
    town.bind(**{"a_0.2": "n-0"})
    town.happen(**{"break": ["a-0.2"]})
    assert (town.pods(), town.pods("Failed")) == (["a-0.2", "a-0.3", "a-1"], ["a-0.2"])


def test_with_the_same_names_a_pod_that_failed_is_deleted_first():
    town = Town(nodes=NODES, workloads={"a": gang(sameNames=True)})
    town.bind(a_0="n-0")
    town.happen(**{"break": ["a-0"]})
    assert (town.pods(), town.pods("Failed")) == (["a-0", "a-1"], [])


def test_a_pod_that_succeeded_has_done_its_part():
    town = Town(nodes=NODES, workloads={"a": gang(runFor=3)})
    town.bind(a_0="n-0")
    town.until(4)
    assert (town.pods(), town.pods("Succeeded")) == (["a-0", "a-1"], ["a-0"])


def test_who_makes_nobody_anew_leaves_it_at_that():
    town = Town(nodes=NODES, workloads={"a": gang(makesAnew=False)})
    town.delete("/api/v1/namespaces/default/pods/a-0")
    town.until(5)
    assert town.pods() == ["a-1"]


def test_a_slow_operator_makes_one_pod_after_the_other():
    town = Town(nodes=NODES, workloads={"a": gang(pods=3, pace=2)})
    assert town.pods() == ["a-0"]
    town.until(2.5)
    assert town.pods() == ["a-0", "a-1"]
    town.until(20)
    assert town.pods() == ["a-0", "a-1", "a-2"]


def test_scaling_adds_pods_and_takes_the_last_ones_away():
    town = Town(nodes=NODES, workloads={"a": gang(pods=2)})
    town.happen(scale={"a": {"": 4}})
    assert town.pods() == ["a-0", "a-1", "a-2", "a-3"]
    town.happen(scale={"a": {"": 1}})
    assert town.pods() == ["a-0"]


def test_all_of_a_workload_that_is_deleted_goes_and_nothing_comes_back():
    town = Town(nodes=NODES, workloads={"a": gang(), "b": gang(), "j": {"pods": {"": 2}}})
    town.happen(delete=["workload/a", "workload/j"])
    town.until(5)
    assert town.pods() == ["b-0", "b-1"]
    assert town.group("a") is None
    assert [one["metadata"]["name"] for one in town.server.core.store.list("configmaps").items] == ["b"]


def test_a_podgroup_that_somebody_deletes_is_made_again_as_it_was_last():
    town = Town(nodes=NODES, workloads={"a": gang()})
    town.happen(change={"podgroup/a": {"spec": {"minMember": 1}}})
    before = town.group("a")
    town.happen(delete=["podgroup/default/a"])
    now = town.group("a")
    assert now["spec"] == before["spec"] == {"minMember": 1}
    assert now["metadata"]["uid"] != before["metadata"]["uid"]
    assert town.pods() == ["a-0", "a-1"]


def test_a_job_is_left_to_its_controller_and_to_the_grouper():
    town = Town(nodes=NODES, workloads={"j": {"pods": {"": 2}, "labels": {"kai.scheduler/queue": "q"}}})
    assert len(town.pods()) == 2
    pod = town.pod(town.pods()[0])
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "Job"
    assert "pod-group-name" not in pod["metadata"].get("annotations", {})
    assert pod["metadata"]["labels"]["kai.scheduler/queue"] == "q"
    town.happen(scale={"j": {"": 1}})
    assert len(town.pods()) == 1


def test_an_operator_that_is_refused_says_so_once_and_asks_again():
    town = Town(nodes=NODES, workloads={"a": gang(spec={"priorityClassName": "gold"})})
    town.until(5)
    assert town.pods() == []
    assert len([one for one in town.said if "refused" in one]) == 1
    gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 7}
    town.happen(apply={"documents": [gold]})
    town.until(7)
    assert town.pods() == ["a-0", "a-1"]


def test_once_it_is_calm_nobody_is_made_in_the_place_of_one_that_fails_by_itself():
    town = Town(nodes=NODES, workloads={"a": gang(runFor=3, exit=1)})
    town.people.calm()
    town.bind(a_0="n-0")
    town.until(10)
    assert (town.pods(), town.pods("Failed")) == (["a-0", "a-1"], ["a-0"])
    town.delete("/api/v1/namespaces/default/pods/a-1")
    assert town.pods() == ["a-0", "a-1.2"]


def test_a_workload_in_another_namespace_brings_the_namespace():
    town = Town(nodes=NODES, workloads={"a": gang(namespace="team")})
    assert town.pod("a-0", "team")["metadata"]["namespace"] == "team"


def test_single_pods_that_are_evicted_have_successors_and_those_that_are_deleted_have_none():
    pods = [{"gang": "g", "count": 3, "on": "n-0"}, {"gang": "g", "name": "loose", "on": "n-1", "controlled": False}]
    town = Town(nodes=NODES, gangs={"g": {"minMember": 1}}, pods=pods)
    for name in ("g-0", "loose"):
        town.send("POST", f"/api/v1/namespaces/default/pods/{name}/eviction", {"metadata": {"name": name}})
    town.happen(delete=["pod/g-1"], remove=["g-2"])
    assert town.pods() == ["g-0.2", "g-2.2"]
    assert "nodeName" not in town.pod("g-0.2")["spec"]


# Nodes.


def ready(node):
    return next(one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready")


def test_pods_of_a_node_that_failed_are_lost_after_a_while():
    town = Town(nodes=NODES, lostAfter=10, workloads={"a": gang(grace=3)})
    town.bind(a_0="n-0", a_1="m")
    town.happen(fail=["n-0"])
    assert ready(town.node("n-0")) == "Unknown"
    town.until(9)
    assert town.pods() == ["a-0", "a-1"]
    town.until(11)
    assert town.pod("a-0")["metadata"]["deletionTimestamp"]
    town.until(20)
    assert town.pods() == ["a-0.2", "a-1"]


def test_pods_of_a_node_that_answers_again_in_time_stay():
    town = Town(nodes=NODES, lostAfter=10, workloads={"a": gang()})
    town.bind(a_0="n-0")
    town.happen(fail=["n-0"])
    town.until(8)
    town.happen(recover=["n-0"])
    town.until(60)
    assert town.pods() == ["a-0", "a-1"]
    assert ready(town.node("n-0")) == "True"
    assert not town.node("n-0")["spec"].get("taints")


def test_who_is_sent_to_a_node_that_failed_never_runs_and_is_lost_too():
    town = Town(nodes=NODES, lostAfter=10, workloads={"a": gang(sameNames=True)})
    town.happen(fail=["n-0"])
    town.until(5)
    town.bind(a_0="n-0")
    uid = town.pod("a-0")["metadata"]["uid"]
    town.until(14)
    assert town.pod("a-0")["status"]["phase"] == "Pending"
    town.until(22)
    assert town.pod("a-0")["metadata"]["uid"] != uid


def test_pods_of_a_node_that_vanished_are_collected_and_it_returns_as_it_was():
    town = Town(nodes=NODES, lostAfter=10, workloads={"a": gang(grace=60)})
    town.bind(a_0="n-0")
    labels, uid = town.node("n-0")["metadata"]["labels"], town.node("n-0")["metadata"]["uid"]
    town.happen(vanish=["n-0"])
    town.until(9)
    assert "a-0" in town.pods()
    town.until(11)
    assert town.pods() == ["a-0.2", "a-1"]
    town.happen(recover=["n-0"])
    assert town.node("n-0")["metadata"]["labels"] == labels
    assert town.node("n-0")["metadata"]["uid"] != uid
    assert ready(town.node("n-0")) == "True"


def test_a_node_that_is_back_under_its_name_in_time_keeps_its_pods():
    town = Town(nodes=NODES, lostAfter=10, workloads={"a": gang()})
    town.bind(a_0="n-0")
    town.happen(vanish=["n-0"])
    town.until(5)
    town.happen(recover=["n-0"])
    town.until(60)
    assert town.pods() == ["a-0", "a-1"]


def test_nodes_are_named_by_pattern_and_by_label():
    town = Town(nodes=NODES)
    town.happen(cordon=["rack=r1"])
    assert [town.node(name)["spec"].get("unschedulable") for name in ("n-0", "n-1", "m")] == [True, True, None]
    town.happen(uncordon=["n-*"], change={"node/m": {"metadata": {"labels": {"rack": ""}}}})
    assert not town.node("n-0")["spec"].get("unschedulable")
    town.happen(fail=["rack="])
    assert (ready(town.node("m")), ready(town.node("n-0"))) == ("Unknown", "True")


# What was written.


def test_only_pods_that_run_can_end():
    town = Town(nodes=NODES, workloads={"a": gang(pods=3)})
    town.bind(a_0="n-0", a_1="m")
    town.happen(fail=["m"])
    town.happen(finish=["a-*"])
    assert town.pods("Succeeded") == ["a-0"]
    assert len([one for one in town.said if "can't end" in one]) == 2


def test_objects_come_change_and_go():
    town = Town(nodes=NODES, queues={"q": {"quota": 1}})
    town.happen(apply={"queues": {"q": {"quota": 5}}, "nodes": [{"name": "new"}]})
    queue = town.send("GET", "/apis/scheduling.run.ai/v2/queues/q")[1]
    assert queue["spec"]["resources"]["gpu"]["quota"] == 5
    assert town.node("new")
    town.happen(delete=["queue/q", "node/new"])
    assert town.send("GET", "/apis/scheduling.run.ai/v2/queues/q")[0] == 404


def test_the_status_of_an_object_is_changed_too():
    town = Town(nodes=NODES)
    town.happen(change={"node/m": {"status": {"allocatable": {"nvidia.com/gpu": "1"}}}})
    assert town.node("m")["status"]["allocatable"]["nvidia.com/gpu"] == "1"


@pytest.mark.parametrize(
    ("what", "path"),
    [
        ({"fail": ["m", "nix"]}, "fail[1]: no node is called nix"),
        ({"remove": ["nix-*"]}, "remove[0]: no pod is called nix-*"),
        ({"break": ["nix"]}, "break[0]: no pod is called nix"),
        ({"scale": {"nix": {"": 1}}}, "scale.nix: there is no such workload"),
        ({"delete": ["workload/nix"]}, "delete[0]: no workload is called nix"),
        ({"delete": ["queue/nix"]}, "delete[0]: no queue is called nix"),
        ({"delete": ["nix/nix"]}, "delete[0]: no kind is called nix"),
        ({"change": {"podgroup/nix": {}}}, "change.podgroup/nix: no podgroup is called nix"),
        ({"apply": {"documents": [{"apiVersion": "v9", "kind": "Nix", "metadata": {"name": "x"}}]}}, "nix/x: no kind"),
        ({"apply": {"queues": {"q": {"quota": -7}}}}, "queue/q: "),
    ],
)
def test_what_is_not_there_is_an_error_in_a_file_and_a_line_in_the_trace_of_a_seed(what, path):
    happens = [{"at": 0, "cordon": ["m"]}, {"at": 1, **what}]
    town = Town(nodes=NODES, happens=happens)
    with pytest.raises(BadScenario) as error:
        town.people.happen(town.story.happens[1])
    assert f"happens[1].{path}" in str(error.value)
    town = Town(strict=False, nodes=NODES, happens=happens)
    town.people.happen(town.story.happens[1])
    assert any(path in one for one in town.said)


def test_the_same_story_is_the_same_to_the_last_byte():
    def story():
        town = Town(nodes=NODES, lostAfter=4, workloads={"a": tree(), "b": gang(pace=1), "j": {"pods": {"": 2}}})
        town.bind(a_x_0="n-0", a_y_0="n-1")
        town.happen(fail=["n-0"], scale={"b": {"": 3}}, delete=["podgroup/a"])
        town.until(30)
        return [one for kind in ("pods", "nodes", "configmaps") for one in town.server.core.store.list(kind).items]

    assert story() == story()


# Workloads that no API server takes.


@pytest.mark.parametrize(
    ("name", "workload", "words"),
    [
        ("a", {"gang": {"minMember": "4"}, "pods": {"": 1}}, "the story.workloads.a: PodGroup.*minMember"),
        ("BAD NAME", gang(), "the story.workloads.BAD NAME: .*RFC 1123"),
        ("a", gang(namespace="No Where"), "the story.workloads.a.namespace: .*RFC 1123"),
        ("a", gang(spec={"containers": 5}), "the story.workloads.a: .*spec.containers"),
        ("a", {"pods": {"": 1}, "spec": {"containers": 5}}, "the story.workloads.a: .*spec.containers"),
        ("a", {"gang": {"minMember": 1}, "pods": {"x": 2}}, 'workloads.a.pods: there is no leaf "x"'),
        ("a", {"pods": {"x": 2}}, 'workloads.a.pods: there is no leaf "x"'),
        ("a", {**tree(), "pods": {"": 2}}, 'workloads.a.pods: there is no leaf ""'),
    ],
)
def test_a_workload_that_no_server_takes_or_whose_leaf_is_not_there_is_an_error(name, workload, words):
    with pytest.raises(BadScenario, match=words):
        Town(nodes=NODES, workloads={name: workload})
    Town(nodes=NODES, workloads={name: workload}, strict=False)


def test_a_leaf_that_is_not_there_can_not_be_scaled():
    town = Town(nodes=NODES, workloads={"a": gang(), "t": tree()})
    town.happen(scale={"t": {"x": 2}})
    for name, leaf in (("a", "x"), ("t", "z"), ("t", "")):
        with pytest.raises(BadScenario, match=rf'scale.{name}: there is no leaf "{leaf}"'):
            town.happen(scale={name: {leaf: 3}})


def test_what_is_refused_later_names_the_workload_where_it_came():
    town = Town(nodes=NODES)
    with pytest.raises(BadScenario, match=r"happens.*workloads.b: Pod"):
        town.happen(workloads={"b": gang(spec={"containers": []})})
