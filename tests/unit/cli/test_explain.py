"""`muster explain`: a few words for the simple cases, the whole story for the others, and commands that work."""

import json
import shlex
from pathlib import Path

import pytest
import yaml

from muster.cli import render

ROOT = Path(__file__).parents[3]
CLUSTER, INFERENCE = ROOT / "examples" / "cluster", ROOT / "examples" / "inference.yaml"
GPU = "nvidia.com/gpu"
RACK = {"topology": "dc", "requiredTopologyLevel": "rack"}
TOPOLOGY = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "dc"},
    "spec": {"levels": [{"nodeLabel": "example.com/zone"}, {"nodeLabel": "example.com/rack", "alias": "rack"}]},
}
QUEUE = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "train"}, "spec": {}}
SOME_TIME = "2026-01-01T00:00:00Z"


def node(name="n", gpus=4, zone="z", rack="r", **spec):
    labels = {"example.com/zone": zone, "example.com/rack": rack}
    has = {"cpu": "8", GPU: str(gpus)}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": {"allocatable": has}}


def pods(count, gpus=1, leaf="", on="", gang="g", first=0, metadata=None, **spec):
    """Pods of a gang, or with an empty gang of another scheduler."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "-".join(filter(None, [gang or "stranger", leaf, str(number)])),
                "annotations": {"pod-group-name": gang} if gang else {},
                "labels": {"kai.scheduler/subgroup-name": leaf} if leaf else {},
                **(metadata or {}),
            },
            "spec": {
                "containers": [{"resources": {"requests": {GPU: str(gpus)}}}],
                **({"nodeName": on} if on else {}),
                **({} if gang else {"schedulerName": "default-scheduler"}),
                **spec,
            },
        }
        for number in range(first, first + count)
    ]


def gang(name="g", **spec):
    metadata = {"name": name}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def written(documents):
    return "---\n".join(json.dumps(one) + "\n" for one in documents)


@pytest.fixture
def explain(muster):
    def run(*documents, args=(), name="g", form="table"):
        return muster("explain", name, "-f", "-", "-o", form, *args, stdin=written(documents))

    return run


SIMPLE = [
    pytest.param(
        [node(gpus=3), gang(minMember=4), *pods(4)],
        "default/g · Infeasible · InsufficientResources",
        ["needs room for 4 pods of 1 × nvidia.com/gpu", "there is room for 3", "✗ room", "lower minMember of the gang"],
        id="not enough anywhere",
    ),
    pytest.param(
        [node(), gang(minMember=1), *pods(1, nodeSelector={"disk": "ssd"})],
        "default/g · Infeasible · InsufficientResources",
        ["may not take it", "nodeSelector", "no single change"],
        id="no node may take it, by selector",
    ),
    pytest.param(
        [node(taints=[{"key": "dedicated", "effect": "NoSchedule"}]), gang(minMember=1), *pods(1)],
        "default/g · Infeasible · InsufficientResources",
        ["may not take it", "tolerations"],
        id="no node may take it, by taint",
    ),
    pytest.param(
        [node(unschedulable=True), gang(minMember=1), *pods(1)],
        "default/g · Infeasible · InsufficientResources",
        ["cordoned", "1  uncordon n", "kubectl uncordon n"],
        id="behind a cordon",
    ),
    pytest.param(
        [node(gpus=8), gang(minMember=1), *pods(1, gpus=9)],
        "default/g · Infeasible · InsufficientResources",
        ["large enough even when empty", "no single change"],
        id="larger than any node",
    ),
    pytest.param(
        [node(), gang(minMember=3), *pods(1)],
        "default/g · Held · WaitingForPods",
        ["1 of 3 pods of the gang are there", "2 missing", "✗ 1 pod, 3 needed", "- room"],
        id="waits for pods",
    ),
    pytest.param(
        [node(), gang(minMember=3), *pods(1), *pods(2, first=1, schedulingGates=[{"name": "x"}])],
        "default/g · Held · WaitingForPods",
        ["take the scheduling gates off 2 of its pods"],
        id="gated pods",
    ),
    pytest.param(
        [node(), QUEUE, gang(minMember=1, queue="tarin"), *pods(1)],
        "default/g · Held · QueueNotFound",
        ["the queue tarin does not exist", "✓ spec", "✗ queue tarin   ✓ topology", "- room"],
        id="unknown queue",
    ),
    pytest.param(
        [node(), gang(minMember=1, topologyConstraint=RACK), *pods(1)],
        "default/g · Held · TopologyNotFound",
        ["the Topology dc does not exist", "✗ topology"],
        id="unknown Topology",
    ),
    pytest.param(
        [node(), TOPOLOGY, gang(minMember=1, topologyConstraint={**RACK, "requiredTopologyLevel": "row"}), *pods(1)],
        "default/g · Held · LevelNotFound",
        ["has no level row", "example.com/zone, example.com/rack", "✗ topology"],
        id="unknown level",
    ),
    pytest.param(
        [node(), gang(minMember=-1), *pods(1)],
        "default/g · Held · Invalid",
        ["spec.minMember", "muster validate", "✗ spec"],
        id="invalid",
    ),
    pytest.param(
        [node(), gang(minMember=1), *pods(1, topologySpreadConstraints=[{"maxSkew": 1}])],
        "default/g · Held · Unsupported",
        ["the pod g-0 uses spec.topologySpreadConstraints", "✗ supported"],
        id="unsupported field",
    ),
    pytest.param(
        [
            *(TOPOLOGY, node("a", rack="r1"), node("b", rack="r2"), gang(minMember=3, topologyConstraint=RACK)),
            *(*pods(1, on="a"), *pods(1, on="b", first=1), *pods(1, first=2)),
        ],
        "default/g · Infeasible · TopologyDrift",
        ["lie in 2 domains where one rack is required", "proof", "hold the gang in one zone instead of one rack"],
        id="drift",
    ),
    pytest.param(
        [node(gpus=4), gang(minMember=2), *pods(2)],
        "default/g · Placed",
        ["it fits: a cycle now binds 2 pods", "✓ room"],
        id="placed",
    ),
]


@pytest.mark.parametrize(("documents", "title", "words"), SIMPLE)
def test_the_simple_cases(explain, documents, title, words):
    """What is wrong stands in the first line, where and how to mend it below it; nothing that does not belong there."""
    run = explain(*documents)
    assert run.out.splitlines()[0] == title
    for word in words:
        assert word in run.out
    placed = "Placed" in title
    assert run.code == (0 if placed else 1)
    if "Held" in title or placed:
        assert "would fix it" not in run.out
        assert "no single change" not in run.out
        assert "proof" not in run.out


@pytest.mark.parametrize(("documents", "title", "words"), SIMPLE)
def test_the_same_as_data(explain, documents, title, words):
    """JSON and YAML say the same; the keys are always there."""
    run = explain(*documents, form="json")
    assert list(run.json) == [
        *("namespace", "name", "verdict", "satisfied", "message", "checks", "subGroups", "proof", "steps"),
        *("nearest", "waitsFor", "queue", "loses", "displaces", "notes", "remedies"),
    ]
    assert title.split(" · ")[1] == run.json["verdict"]
    checked = ["spec", "queue", "topology", "supported", "pods", *(["quota"] if QUEUE in documents else []), "room"]
    assert [one["name"] for one in run.json["checks"]] == checked
    assert yaml.safe_load(explain(*documents, form="yaml").out) == run.json
    assert run.err == ""


def test_the_search_budget(explain):
    """A gang that could not be decided says that nothing was ruled out, and how far the search came."""
    sizes = [5, 8, 5, 3, 5, 8, 9, 9, 9, 8, 9, 2, 8, 8, 7, 7, 3, 5, 9, 8]
    hard = [one for number, gpus in enumerate(sizes) for one in pods(1, gpus=gpus, first=number)]
    for number, one in enumerate(hard):
        one["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{3 + number * 7 % 9}"
    total, cpus = sum(sizes), sum(3 + number * 7 % 9 for number in range(len(sizes)))
    nodes = [node(f"n{number}", gpus=-(-total // 4)) for number in range(4)]
    for one in nodes:
        one["status"]["allocatable"]["cpu"] = str(-(-cpus // 4))
    run = explain(*nodes, gang(minMember=len(hard)), *hard, args=("--set", "search.stepsPerGang=500"))
    assert run.out.startswith("default/g · Undecided · SearchBudgetSpent")
    assert "none: the search stopped after" in run.out
    assert run.code == 1


def test_a_gang_that_runs_says_so_in_one_line(muster):
    run = muster("explain", "monthly", "-f", CLUSTER)
    assert run.code == 0
    assert run.out.splitlines()[:2] == ["default/monthly · Placed", "  all 16 pods are placed, in zone-b/block-3"]
    assert "would fix it" not in run.out


FRAGMENTED = [
    *(TOPOLOGY, node("a1", 4, rack="r1"), node("a2", 4, rack="r1"), node("b1", 4, rack="r2"), node("b2", 3, rack="r2")),
    gang(
        subGroups=[
            {"name": "decode", "minMember": 8, "topologyConstraint": RACK},
            {"name": "router", "minMember": 1},
        ]
    ),
    *(*pods(8, leaf="decode"), *pods(1, leaf="router")),
    gang("busy", minMember=1, preemptibility="preemptible"),
    *(*pods(1, gang="busy", on="b1"), *pods(2, gang="busy", on="a2", first=1), *pods(1, gang="", on="b2")),
]

FRAGMENTED_TEXT = """\
default/g · Infeasible · TopologyFragmented
  decode needs room for 8 pods of 1 × nvidia.com/gpu in one rack: the total (11 in all) is enough, no single rack is
  nearest z/r1: 6 of 8
  free room for 2 more there, or relax the level

  ✓ spec   ✓ queue default-queue   ✓ topology   ✓ supported   ✓ 9 pods, 9 needed   ✗ room

              HAVE   MINIMUM          TOTAL   STATE           DOMAIN
  default/g   0      all 2 required   9       below minimum   -
  ├─ decode   0      8                8       below minimum   -
  └─ router   0      1                1       below minimum   -

  proof
    counted twice: decode needs room for 8 pods of 1 × nvidia.com/gpu in one rack, and the best left, z/r1, has 6

  nearest
    z/r1   ████████████░░░░   6 of 8   for decode   held by default/busy (2 pods)
    z/r2   ██████████░░░░░░   5 of 8   for decode   held by default/busy (1 pod), 1 pod of others

  takes no room from others
    preempt: nothing of a lower priority that may be evicted runs in queue default-queue

  would fix it (each one was tried)
    1  evict surplus of default/busy (busy-1, busy-2)
       muster evict --for default/g --dry-run=none
    2  hold decode in one zone instead of one rack
       kubectl patch podgroups.scheduling.run.ai -n default g --type=json -p '[{"op": "add", "path": \
"/spec/subGroups/0/topologyConstraint/requiredTopologyLevel", "value": "example.com/zone"}]'
    3  lower minMember of decode from 8 to 6
       kubectl patch podgroups.scheduling.run.ai -n default g --type=json -p '[{"op": "add", "path": \
"/spec/subGroups/0/minMember", "value": 6}]'
"""


def test_a_fragmented_cluster_is_told_in_full(explain):
    """The whole page, to the letter: tree, proof, nearest domains with who holds them, and three remedies."""
    run = explain(*FRAGMENTED)
    assert run.out == FRAGMENTED_TEXT
    assert run.err == "next: muster explain default/g -f - -o json\n"


SURPLUS_TEXT = """\
default/inference-service · Placed · prefill-3 waits: TopologyFragmented
  prefill-3 needs room for 8 pods of 1 × nvidia.com/gpu, 2 CPU, 8Gi memory in one rack: the total (10 in all) is \
enough, no single rack is
  nearest zone-a/block-2/rack-4: 6 of 8
  free room for 2 more there, or relax the level

  ✓ spec   ✓ queue inference   ✓ topology   ✓ supported   ✓ 32 pods, 24 needed   ✓ room

                              HAVE   MINIMUM      TOTAL   STATE              DOMAIN
  default/inference-service   24     any 3 of 4   32      satisfied (core)   -
  ├╌ prefill-0                8      8            8       satisfied (core)   zone-a/block-1/rack-1
  ├╌ prefill-1                8      8            8       satisfied (core)   zone-a/block-1/rack-2
  ├╌ prefill-2                8      8            8       satisfied (core)   zone-a/block-2/rack-3
  └╌ prefill-3                0      8            8       below minimum      -

  nearest
    zone-a/block-2/rack-4   ████████████░░░░   6 of 8   for prefill-3   held by 1 pod of others

  would fix it (each one was tried)
    1  prefer one rack for prefill-3 instead of requiring it
"""


def test_an_optional_child_that_waits_is_what_it_is_about(muster):
    """The gang serves; the text and the remedies are about the fourth replica."""
    run = muster("explain", "inference-service", "-f", CLUSTER, "--add", INFERENCE)
    assert run.code == 0
    assert run.out.startswith(SURPLUS_TEXT)
    assert "lower minMember of prefill-3 from 8 to 6" in run.out
    assert "3  clear n4a of other pods: 1 pod of others" in run.out


NOMINATED = [
    *(node("a", 2), node("b", 2), gang(minMember=3), *pods(3)),
    *pods(1, gpus=2, gang="", on="a", metadata={"deletionTimestamp": SOME_TIME}),
    *pods(1, gpus=0, gang="", on="a", first=1, metadata={"deletionTimestamp": SOME_TIME}),
]

NOMINATED_TEXT = """\
default/g · Placed · WaitingForRoom
  the gang waits for terminating pods to leave
  their room is reserved for it
  nothing to do

  ✓ spec   ✓ queue default-queue   ✓ topology   ✓ supported   ✓ 3 pods, 3 needed   ✓ room once pods have left

              HAVE   MINIMUM   TOTAL   STATE           DOMAIN
  default/g   0      3         3       below minimum   -

  waits for pods to leave
    a   default/stranger-0
"""


def test_who_must_leave_is_named(explain):
    """A nominated gang names the terminating pods that it waits for, with their nodes; not those that hold nothing."""
    run = explain(*NOMINATED)
    assert run.out == NOMINATED_TEXT
    assert run.code == 0
    data = explain(*NOMINATED, form="json").json
    assert data["waitsFor"] == [{"node": "a", "pods": ["default/stranger-0"]}]
    assert (data["satisfied"], data["remedies"]) == (False, [])


def test_a_tree_shows_what_is_needed_and_where(explain):
    """Have, minimum and total of every tree node, the domain of the constrained ones, core, surplus, dashed lines."""
    leaf = {"minMember": 1, "topologyConstraint": RACK}
    run = explain(
        *(TOPOLOGY, node("a", 1, rack="r1"), node("b", 2, rack="r2")),
        gang(minSubGroup=1, subGroups=[{"name": "x", **leaf}, {"name": "y", **leaf}, {"name": "big", "minMember": 9}]),
        *(*pods(1, leaf="x"), *pods(2, leaf="y"), *pods(9, leaf="big")),
    )
    assert "  default/g   3      any 1 of 3   12      satisfied (core)      -" in run.out
    assert "  ├╌ x        1      1            1       satisfied (core)      z/r1" in run.out
    assert "  ├╌ y        2      1            2       satisfied (surplus)   z/r2" in run.out
    assert "  └╌ big      0      9            9       below minimum         -" in run.out
    assert "big waits: InsufficientResources" in run.out.splitlines()[0]


def test_all_else_that_there_is_to_say(explain):
    """Pods set aside and surplus that waits stand below the first reason."""
    run = explain(
        *(node(gpus=2), gang(subGroups=[{"name": "x", "minMember": 1}, {"name": "y", "minMember": 1}])),
        *(*pods(5, leaf="x"), *pods(1, leaf="y"), *pods(1, first=9)),
    )
    assert run.code == 0
    assert "  also\n" in run.out
    assert "SetAside" in run.out


LEAVES = [{"name": "x", "minMember": 3}, {"name": "y", "minMember": 1}]
LONG = "1" * 63


@pytest.mark.parametrize(
    ("spec", "leaf", "pointer"),
    [
        pytest.param(
            {"subGroups": [{**LEAVES[0], "topologyConstraint": RACK}, LEAVES[1]]},
            "x",
            "/spec/subGroups/0/topologyConstraint",
            id="on a SubGroup",
        ),
        pytest.param(
            {"subgroups": [{**LEAVES[0], "topologyConstraint": RACK}, LEAVES[1]]},
            "x",
            "/spec/subgroups/0/topologyConstraint",
            id="the deprecated spelling",
        ),
        pytest.param(
            {"subGroups": LEAVES, "topologyConstraints": {"subGroups": {"x": RACK}}},
            "x",
            "/spec/topologyConstraints/subGroups/x",
            id="by name",
        ),
        pytest.param(
            {"subGroups": [{"name": LONG, "minMember": 3}], "topologyConstraints": {"subGroups": {LONG: RACK}}},
            LONG,
            f"/spec/topologyConstraints/subGroups/{LONG}",
            id="by a long name that begins with a digit",
        ),
        pytest.param(
            {
                "subGroups": [{"name": "x", "minMember": 2}, {"name": "y", "minMember": 1}],
                "topologyConstraints": {"subGroupSets": [{"subGroups": ["x", "y"], "constraint": RACK}]},
            },
            "x",
            "/spec/topologyConstraints/subGroupSets/0/constraint",
            id="on a set",
        ),
        pytest.param(
            {"subGroups": LEAVES, "topologyConstraints": {"global": RACK}},
            "x",
            "/spec/topologyConstraints/global",
            id="global",
        ),
        pytest.param({"minMember": 3, "topologyConstraint": RACK}, "", "/spec/topologyConstraint", id="on the root"),
    ],
)
def test_a_patch_points_at_the_field_as_it_is_spelled(explain, spec, leaf, pointer):
    """A JSON pointer into this very object, whichever way its constraint is written."""
    second = pods(1, leaf="y") if "y" in json.dumps(spec) else []
    documents = [TOPOLOGY, node("a", 2, rack="r1"), node("b", 2, rack="r2"), gang(**spec), *pods(3, leaf=leaf), *second]
    data = explain(*documents, form="json").json
    (relax,) = [one for one in data["remedies"] if one["kind"] == "relax"]
    words = shlex.split(relax["command"])
    assert words[:6] == ["kubectl", "patch", "podgroups.scheduling.run.ai", "-n", "default", "g"]
    assert words[6:8] == ["--type=json", "-p"]
    (change,) = json.loads(words[8])
    assert change == {"op": "add", "path": f"{pointer}/requiredTopologyLevel", "value": "example.com/zone"}
    for lower in (one for one in data["remedies"] if one["kind"] == "lower"):
        (change,) = json.loads(shlex.split(lower["command"])[8])
        field = "subgroups" if "subgroups" in spec else "subGroups"
        assert change["path"] in ("/spec/minMember", f"/spec/{field}/0/minMember")


def test_a_floor_is_lowered_as_a_number_of_pods(explain):
    """minMember of a root with SubGroups counts pods; minSubGroup beside it would be refused."""
    leaves = [{"name": "x", "minMember": 1}, {"name": "y", "minMember": 1}]
    data = explain(
        *(node(gpus=3), gang(minMember=4, subGroups=leaves), *pods(2, leaf="x"), *pods(2, leaf="y")), form="json"
    ).json
    (lower,) = [one for one in data["remedies"] if one["kind"] == "lower"]
    assert lower["message"] == "lower minMember of the gang from 4 to 3"
    assert '"path": "/spec/minMember", "value": 3' in lower["command"]


def test_hostile_names_stay_harmless(explain):
    """Control characters never reach the terminal; a shell reads every name as one word."""
    evil = "n\x1b[31m'; reboot; '"
    crowd = [gang("busy", minMember=1), *pods(2, gang="busy", on="m")]
    crowd[2]["metadata"]["name"] = evil
    documents = [node(evil, 1, unschedulable=True), node("m", 3), *crowd, gang(minMember=2), *pods(2)]
    run = explain(*documents)
    assert "\x1b" not in run.out + run.err
    assert run.code == 1
    found = {one["kind"]: one["command"] for one in explain(*documents, form="json").json["remedies"]}
    assert shlex.split(found["uncordon"]) == ["kubectl", "uncordon", evil]
    assert shlex.split(found["evict"]) == ["muster", "evict", "--for", "default/g", "--dry-run=none"]
    held = explain(*pods(1, gang=evil), gang(evil, minMember=1), name=evil)
    assert "\x1b" not in held.out + held.err
    assert held.code == 1


def test_a_terminal_without_unicode(explain, monkeypatch):
    """Signs that it can't show are written otherwise."""
    for module in ("render", "explain"):
        monkeypatch.setattr(f"muster.cli.{module}.signs", lambda: render._ASCII)
    for documents in (FRAGMENTED, NOMINATED, *(case.values[0] for case in SIMPLE)):
        out = explain(*documents).out
        assert out.isascii()
    out = explain(*FRAGMENTED).out
    assert "ok spec" in out
    assert "NO room" in out
    assert "z/r1   ############....   6 of 8" in out
    assert "`-- router" in out


def test_no_colour_where_nobody_wants_it(explain):
    assert "\x1b" not in explain(*FRAGMENTED).out


@pytest.mark.parametrize(
    ("args", "name", "words"),
    [
        pytest.param([], "defualt/g", ["there is no gang defualt/g", "did you mean default/g?"], id="nearly right"),
        pytest.param([], "nobody", ["there is no gang nobody", "default/busy"], id="unknown"),
        pytest.param(["--now", "soon"], "g", ["is not a time"], id="time"),
        pytest.param(["--add", "no-such-file"], "g", ["can't read no-such-file"], id="file"),
        pytest.param(["--set", "placement.strategy=random"], "g", ["binpack, spread"], id="setting"),
    ],
)
def test_wrong_usage(explain, args, name, words):
    """Exit code 2, what is wrong, and what would be right."""
    run = explain(*FRAGMENTED, args=args, name=name)
    assert (run.code, run.out) == (2, "")
    for word in words:
        assert word in run.err


def test_the_name_is_needed(muster):
    assert muster("explain", "-f", CLUSTER).code == 2


def test_equal_input_in_any_order_is_equal_output(explain):
    outputs = {
        explain(*order, form="json").out for order in (FRAGMENTED, FRAGMENTED[::-1], FRAGMENTED[7:] + FRAGMENTED[:7])
    }
    assert len(outputs) == 1
