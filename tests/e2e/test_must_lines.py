"""The lines that must come out as said, on a real API server with nodes that nobody stands behind, as muster settles.

A line of the engine and queue issues is a scenario file; its objects are put on the control plane, `muster run` works
under its own account, and when nothing moves any more the cluster must show what the line says. `then` says it where
one cycle is not the end: where somebody is evicted, made anew, and somebody else bound. On the way every bind and
eviction is recorded and judged, whatever the line is about.
"""

from pathlib import Path

import pytest

from e2e.plane import ControlPlane, gate, stage, wait_until
from e2e.plane.lines import CALM_S, ENGINE, QUEUES, played
from e2e.plane.recorder import Recorder
from e2e.plane.shown import Shown
from e2e.plane.workloads import Workload, allow, define, expected, fixture
from e2e.plane.world import Document, World, folder_of
from muster.api import documents
from muster.sim.objects import LEVELS, Nodes, Objects, Pods, QueueEntry
from unit.api.test_issue_examples import INVALID as SAID

gate.require()

EXAMPLES = Path(__file__).parents[1] / "unit" / "api" / "examples"
TWO_LEVELS = {"decode-leaders": 1, "decode-workers": 4, "prefill-leaders": 1, "prefill-workers": 4}


@pytest.fixture(scope="module")
def plane(request):
    gate.obtain(request.config)
    with ControlPlane(controllers=["clusterrole-aggregation-controller"]) as found:
        stage.install(found)
        yield found


@pytest.fixture(scope="module")
def muster(plane, tmp_path_factory):
    """One process for all lines, under its own account."""
    account = plane.service_account_kubeconfig(stage.NAMESPACE, "muster")
    with stage.running(account, tmp_path_factory.mktemp("muster"), "--no-leader-election") as found:
        wait_until(found.log, 30, "muster run")
        yield found


@pytest.fixture(scope="module")
def recorder(plane):
    found = Recorder(plane)
    yield found
    found.close()


@pytest.fixture
def world(plane, muster, recorder):
    found = World(plane, recorder)
    found.clear()
    assert muster.process.poll() is None, muster.log()
    yield found
    assert muster.process.poll() is None, muster.log()


@pytest.mark.parametrize("line", ENGINE, ids=lambda line: line.name)
def test_a_line_of_the_engine(world, line):
    played(world, line)


@pytest.mark.parametrize("line", QUEUES, ids=lambda line: line.name)
def test_a_line_of_the_queues(world, line):
    played(world, line)


def test_a_pod_that_is_set_aside_says_so_and_its_siblings_are_bound(world):
    """Its label names no subgroup any more: a condition and an Event on the pod itself."""
    gangs = {"g": {"subGroups": [{"name": "replica-0", "minMember": 2}]}}
    world.put(Objects(nodes=[Nodes(name="n", gpus=4)], gangs=gangs).all())
    world.put([*pods_of("g", {"replica-0": 2}), *Pods(gang="g", sub_group="replica-3", name="stray").documents()])

    def told() -> tuple[str, str, str]:
        (pod,) = [one for one in world.objects("Pod") if one["metadata"]["name"] == "stray"]
        conditions = {one["type"]: one for one in pod["status"].get("conditions", [])}
        found = conditions.get("muster.dev/Accepted", {})
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")

    placed(world, {"g": "2/2/2"})
    wait_until(lambda: told()[:2] == ("False", "SetAside"), 30, "the condition")
    assert "replica-3" in told()[2]
    wait_until(lambda: "SetAside" in {one["reason"] for one in events_about(world, "stray")}, 30, "the Event")


def events_about(world: World, name: str) -> list[Document]:
    return [one for one in world.events() if one["regarding"]["name"] == name]


# Of each valid example of the foundation: the leaves of which one pod is missing, then none; what its PODS then say.
MINIMUMS: dict[str, tuple[dict[str, int], str]] = {
    "any-3-of-4": ({"prefill-0": 8, "prefill-2": 8, "prefill-3": 8}, "24/24/24"),
    "two-levels": (TWO_LEVELS, "10/10/10"),
    "two-levels-unset": (TWO_LEVELS, "10/10/10"),
    "floor-of-all-leaves": ({f"prefill-{number}": 8 for number in range(4)}, "32/32/32"),
    "floor-beyond-the-leaves": ({"decode-workers": 4, "rest": 6}, "10/10/10"),
    "older-counts-replicas": ({f"replica-{number}": 3 for number in (1, 2, 3)}, "9/9/9"),
    "zone-block-rack": ({"api-server": 1, "prefill": 3, "decode": 5}, "9/9/9"),
    "set-in-one-block": ({"decode-leaders": 1, "decode-workers": 4, "router": 1}, "6/6/6"),
    "topology-by-annotation": ({"decode": 4, "prefill": 2}, "6/6/6"),
    "deprecated-spelling": ({"decode": 4, "prefill": 2}, "6/6/6"),
}
INVALID = sorted(path.stem for path in EXAMPLES.iterdir() if path.stem not in MINIMUMS)


def example(name: str) -> Document:
    (read,) = documents.read((EXAMPLES / f"{name}.yaml").read_bytes())
    return read.value


def pods_of(gang: str, leaves: dict[str, int]) -> list[Document]:
    return [one for leaf, count in leaves.items() for one in Pods(gang=gang, sub_group=leaf, count=count).documents()]


def room() -> list[Document]:
    """A hall with two blocks of two racks, by the names that the examples use."""
    racks = [(f"b{block}", f"r{rack}") for block in range(2) for rack in range(2)]
    nodes = [Nodes(name=f"{block}-{rack}", count=2, gpus=64, zone="z", block=block, rack=rack) for block, rack in racks]
    found = [one for some in nodes for one in some.documents()]
    for one in found:
        one["metadata"]["labels"] |= {f"topology/{level}": one["metadata"]["labels"][level] for level in LEVELS}
    levels = {"dc": "", "datacenter-topology": "", "cluster-topology": "topology/"}
    return found + Objects(topologies={name: [f"{at}{one}" for one in LEVELS] for name, at in levels.items()}).all()


def shown(world: World) -> dict[str, Document]:
    return {one["metadata"]["name"]: one.get("status", {}) for one in world.objects("PodGroup")}


def test_every_valid_example_waits_for_its_minimum_and_is_bound_whole(world):
    """One pod less than the minimum: nobody is bound. The last one comes: all are, and no other pod was needed."""
    world.put([*room(), *map(example, MINIMUMS)])
    pods = {name: pods_of(name, leaves) for name, (leaves, _) in MINIMUMS.items()}
    world.put(one for some in pods.values() for one in some[:-1])
    reasons = dict.fromkeys(MINIMUMS, "WaitingForPods")
    wait_until(lambda: {name: one.get("reason") for name, one in shown(world).items()} == reasons, 30, "reasons")
    wait_until(lambda: world.recorder.calm_s >= CALM_S, 30, "calm")
    assert world.recorder.bound == []
    world.put(some[-1] for some in pods.values())
    placed(world, {name: pods for name, (_, pods) in MINIMUMS.items()})
    assert len(world.recorder.bound) == sum(map(len, pods.values()))


def placed(world: World, said: dict[str, str]) -> None:
    """All of these gangs are scheduled, with this in the column PODS; and nothing has happened that must not."""
    wait_until(lambda: {name: one.get("podsSummary") for name, one in shown(world).items()} == said, 30, f"{said}")
    assert {one["phase"] for one in shown(world).values()} == {"Scheduled"}
    wait_until(lambda: world.recorder.calm_s >= CALM_S, 30, "calm")
    assert Shown(world, []).never() == []


def test_no_invalid_example_gets_in_or_it_is_told_and_costs_nobody_anything(plane, world):
    """Without a webhook the API server refuses what its schema can know; the rest is told by muster, field by field."""
    good = pods_of("two-levels", TWO_LEVELS)
    world.put([*room(), *good])
    accepted = []
    for name in INVALID:
        answer = plane.request("POST", folder_of("PodGroup"), example(name))
        if answer.status == 201:
            accepted.append(name)
        else:
            assert answer.status == 422, (name, answer)
            assert "spec" in answer.body["message"], name
    assert len(accepted) < len(INVALID)
    world.put(one for name in accepted for one in pods_of(name, {"prefill-0": 8, "decode-leaders": 1, "decode": 4}))
    world.put([example("two-levels")])
    for name in accepted:
        wait_until(lambda name=name: shown(world)[name].get("phase") == "Invalid", 30, f"the status of {name}")
        (told,) = [one for one in shown(world)[name]["conditions"] if one["type"] == "Accepted"]
        assert (told["status"], told["reason"]) == ("False", "Invalid")
        assert any(path in told["message"] for severity, path, _ in SAID[name] if severity == "error"), told
    wait_until(lambda: shown(world)["two-levels"].get("phase") == "Scheduled", 30, "the valid gang")
    wait_until(lambda: world.recorder.calm_s >= CALM_S, 30, "calm")
    assert sorted(one.pod[1] for one in world.recorder.bound) == sorted(one["metadata"]["name"] for one in good)


def test_what_migrate_makes_of_older_forms_is_taken_and_scheduled(world, tmp_path):
    """The full Dynamo example, and minMember where children were counted."""
    queue = Objects(queues={"inference": QueueEntry(quota=-1)}).all()
    classes = [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "inference-high"}}]
    world.put([*room(), *queue, {**classes[0], "value": 125}])
    leaves = {
        "dynamo": {"prefill-0": 8, "prefill-1": 8, "prefill-3": 8, "decode-1": 4},
        "older-counts-replicas": {"replica-1": 3, "replica-3": 3},
        "older-counts-root-1": {"prefill-leaders": 1, "prefill-workers": 4},
        "older-counts-root-2": TWO_LEVELS,
    }
    for name, pods in leaves.items():
        counts = () if name == "dynamo" else ("--counts", "subgroups")
        migrated = stage.muster("migrate", "-f", EXAMPLES / f"{name}.yaml", *counts)
        (read,) = documents.read(migrated.encode())
        world.put([read.value, *pods_of(name, pods)])
    stage.muster("migrate", "-f", EXAMPLES / "both-and-they-differ.yaml", code=1)
    said = {name: f"{sum(pods.values())}/{sum(pods.values())}/{sum(pods.values())}" for name, pods in leaves.items()}
    placed(world, said)
    world.delete("priorityclass/inference-high")


RAY, LWS, FUSION = "ray.io", "leaderworkerset.x-k8s.io", "fusion.example.org"
PLURALS = {
    "RayCluster": "rayclusters",
    "LeaderWorkerSet": "leaderworkersets",
    "Experiment": "experiments",
    "SiteRun": "siteruns",
    "RackRun": "rackruns",
}


@pytest.fixture(scope="module")
def kinds(plane):
    """Kinds that the cluster knows by name only; muster may read the last group because somebody has allowed it."""
    for group, names in ((RAY, ["RayCluster"]), (LWS, ["LeaderWorkerSet"]), (FUSION, list(PLURALS)[2:])):
        for name in names:
            define(plane, group, name, PLURALS[name])
    allow(plane, FUSION, *list(PLURALS.values())[2:])
    # The grouper names no class that is not there.
    for name, value in (("train", 50), ("build", 100)):
        plane.kubectl("create", "priorityclass", name, f"--value={value}")


@pytest.fixture
def workload(plane, kinds, world):
    yield Workload(plane, PLURALS)
    plane.kubectl("delete", "resourceinterfaces,statefulsets", "--all")
    for name in PLURALS.values():
        plane.kubectl("delete", name, "--all")


def large(name: str, count: int, gpus: int, **more: str) -> list[Document]:
    found = Nodes(name=name, count=count, gpus=gpus, cpus=512, **more).documents()
    for one in found:
        one["status"]["allocatable"]["memory"] = "4096Gi"
    return found


def grouped(world: World, workload: Workload, case: str) -> None:
    """The one PodGroup is the one that the fixture expects, and so is every pod's place in it."""
    said = expected(case)
    (wanted,) = said["podGroups"]
    born = next(uid for uid in workload.uids if uid and uid in wanted["metadata"]["name"])
    name = wanted["metadata"]["name"].replace(born, workload.uids[born])

    def is_so() -> bool:
        groups = {one["metadata"]["name"]: one for one in world.objects("PodGroup")}
        pods = {one["metadata"]["name"]: one["metadata"] for one in world.objects("Pod")}
        places = {
            one["name"]: (
                pods[one["name"]].get("annotations", {}).get("pod-group-name"),
                pods[one["name"]]["labels"].get("kai.scheduler/subgroup-name", ""),
            )
            for one in said["pods"]
        }
        spec = {key: value for key, value in groups.get(name, {}).get("spec", {}).items() if key in wanted["spec"]}
        return spec == wanted["spec"] and all(places[one["name"]] == (name, one["subGroup"]) for one in said["pods"])

    # A kind that was defined a moment ago is not looked for all the time.
    wait_until(is_so, 90, f"{name} as in {case}")
    assert [one["metadata"]["name"] for one in world.objects("PodGroup")] == [name]


def test_the_raycluster_of_the_design_is_whole_before_any_worker_exists(world, workload):
    """Head 1, gpu-workers 4, gpu-shmorkers 4, all required; nobody is bound until all of them are there."""
    case = "users/design-003-raycluster"
    world.put(large("n", 2, 8))
    workload.put(fixture(case))
    grouped(world, workload, case)
    (name,) = shown(world)
    wait_until(lambda: shown(world)[name].get("podsSummary") == "0/9/1", 30, "the gang waits")
    assert shown(world)[name]["reason"] == "WaitingForPods"
    workload.put([one for one in fixture(f"{case}/then-1-the-workers-come") if one["kind"] == "Pod"])
    placed(world, {name: "9/9/9"})


def test_three_of_four_replicas_of_a_leaderworkerset_start_by_a_users_interface(world, workload):
    """Four branches with a leader and five workers each; there is room for three."""
    case = "users/leaderworkerset-as-one-gang"
    world.put([*large("n", 18, 8), *Objects(queues={"serving": QueueEntry(quota=-1)}).all()])
    workload.put(fixture(case))
    grouped(world, workload, case)
    (name,) = shown(world)
    placed(world, {name: "18/18/24"})
    rows = {row["name"]: row["satisfied"] for row in shown(world)[name]["subGroups"] if row["children"].get("total")}
    assert rows == {"": True, "replica-0": True, "replica-1": True, "replica-2": True, "replica-3": False}


def test_a_kind_that_nobody_knows_becomes_a_tree_of_three_levels(world, workload):
    case = "users/unknown-kind-three-levels"
    topology = Objects(topologies={"plant": ["hall", "rack"]}, queues={"physics": QueueEntry(quota=-1)})
    racks = [large(f"n{number}", 1, 32, rack=f"r{number}", labels={"hall": "h"}) for number in range(3)]
    world.put([*(one for some in racks for one in some), *topology.all()])
    workload.put(fixture(case))
    grouped(world, workload, case)
    (name,) = shown(world)
    placed(world, {name: "11/3/11"})


# What a hostile ResourceInterface says, and where.
HOSTILE = {
    "an endless range": {"foreach": "range(1e12) as $i"},
    "a million items": {"foreach": "range(1000000) as $i"},
    "the environment": {"minReplicasPath": ["$ENV.HOME"]},
    "nested brackets": {"minReplicasPath": ["[" * 100_000]},
    "a name of control characters": {"componentName": "a\u0000\u0007b"},
}


@pytest.mark.parametrize("entry", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_interface_is_refused_and_costs_nobody_anything(plane, world, workload, entry):
    """By the API server, or by a condition that says where; pods of the kind wait, and other gangs are bound."""
    usual = {"componentName": "w", "podClassifier": {"matchLabels": {"a": "b"}}, "minReplicas": 1}
    groups = [{"name": "g", "subgroups": [{**usual, **entry}]}]
    spec = {"targetGVK": {"group": RAY, "version": "v1", "kind": "RayCluster"}, "gangScheduling": {"podGroups": groups}}
    interface = {"apiVersion": "kai.scheduler/v1", "kind": "ResourceInterface", "metadata": {"name": "hostile"}}
    folder = "/apis/kai.scheduler/v1/resourceinterfaces"
    answer = plane.request("POST", folder, {**interface, "spec": spec})
    if answer.status != 201:
        assert answer.status == 422, answer
        assert "gangScheduling" in answer.body["message"]
    else:

        def told() -> Document:
            conditions = plane.request("GET", f"{folder}/hostile").body.get("status", {}).get("conditions", [])
            return next((one for one in conditions if one["type"] == "Accepted"), {})

        wait_until(told, 30, "a condition")
        assert told()["status"] == "False"
        assert "spec.gangScheduling.podGroups[0].subgroups[0]" in told()["message"]
    world.put([*Nodes(name="n", gpus=2).documents(), *Objects(gangs={"g": {"minMember": 2}}).all()])
    world.put(Pods(gang="g", count=2).documents())
    placed(world, {"g": "2/2/2"})
