"""`muster plan`: what goes where, what-ifs, every form of the output, and the exit code."""

import json
from pathlib import Path

import pytest

from muster.api.documents import Limits
from muster.cli.cluster import load, policy_of
from muster.config import Config
from muster.plan.cycle import Policy

ROOT = Path(__file__).parents[3]
CLUSTER, INFERENCE = ROOT / "examples" / "cluster", ROOT / "examples" / "inference.yaml"
HEAD = "---\napiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: %s}\nspec: {minMember: %d}\n"


def node(name="n", gpus=4, labels="{}"):
    return (
        f"---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {labels}}}\n"
        f"status: {{allocatable: {{cpu: 8, nvidia.com/gpu: {gpus}}}}}\n"
    )


def pods(gang, count, gpus=1, on="", first=0, scheduler=""):
    """Pods of a gang, with a node when they run."""
    text = ""
    for number in range(first, first + count):
        text += (
            f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {gang or 'lone'}-{number}"
            + (f", annotations: {{pod-group-name: {gang}}}" if gang else "")
            + f"}}\nspec:\n  containers: [{{resources: {{requests: {{nvidia.com/gpu: {gpus}}}}}}}]\n"
            + (f"  nodeName: {on}\n" if on else "")
            + (f"  schedulerName: {scheduler}\n" if scheduler else "")
        )
    return text


def gang(name="g", minimum=2, count=None, **more):
    return HEAD % (name, minimum) + pods(name, minimum if count is None else count, **more)


def bound(run):
    return {one["pod"]: one["node"] for one in run.json["bindings"]}


def verdicts(run):
    return {one["name"]: one["verdict"] for one in run.json["podGroups"]}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(node() + gang(), 0, id="fits"),
        pytest.param(node(gpus=1) + gang(), 1, id="does not fit"),
        pytest.param(node(gpus=1) + gang(count=1), 0, id="not ready is not below its minimum by our fault"),
        pytest.param(node(gpus=2) + gang(count=5), 0, id="surplus that does not fit"),
        pytest.param(node() + HEAD % ("bad", -1), 1, id="invalid"),
        pytest.param(node() + gang() + "---\na: [\n", 1, id="a document that can't be read"),
        pytest.param(node() + "---\napiVersion: v1\nkind: Service\n", 0, id="nothing to place"),
        pytest.param("", 2, id="nothing at all"),
    ],
)
def test_exit_code(muster, text, code):
    """0 when every gang whose pods are there has its minimum, 1 when one has not, 2 when there is nothing to plan."""
    run = muster("plan", "-f", "-", "-o", "json", stdin=text)
    assert run.code == code
    assert "Traceback" not in run.err


def test_the_example_comes_out_as_the_readme_says(muster):
    """Three replicas have their racks, the fourth says which rack is nearest; the gang serves."""
    run = muster("plan", "-f", CLUSTER, "--add", INFERENCE)
    assert run.code == 0
    assert "default/inference-service   Placed    24/24/32" in run.out
    assert "TopologyFragmented (prefill-3)" in run.out
    assert "zone-a/block-2/rack-4: 6 of 8" in run.out
    assert "  zone-a/block-1/rack-1   prefill-0 ×8   n1a ×4  n1b ×4" in run.out
    assert run.err.splitlines()[-1].startswith("next: muster ")


def test_offline_defaults(muster):
    """No namespace is default, no phase waits, with a node it runs; no schedulerName is ours; any queue exists."""
    text = node(gpus=3) + HEAD % ("g", 2) + pods("g", 1, on="n") + pods("g", 1, first=1)
    run = muster(
        "plan", "-f", "-", "-o", "json", stdin=text.replace("{minMember: 2}", "{minMember: 2, queue: none-such}")
    )
    assert bound(run) == {"g-1": "n"}
    (found,) = run.json["podGroups"]
    assert found["namespace"] == "default"
    assert found["subGroups"][0]["pods"] == {"total": 2, "placed": 2, "pending": 0}


def test_what_if_a_gang_came_too(muster, tmp_path):
    """With --add the answer is about what was added: another gang that waits does not make it a no."""
    (tmp_path / "cluster.yaml").write_text(node(gpus=4) + gang("big", 8))
    (tmp_path / "small.yaml").write_text(gang("small", 2))
    (tmp_path / "huge.yaml").write_text(gang("huge", 5))
    (tmp_path / "half.yaml").write_text(gang("half", 5, count=1))
    (tmp_path / "node.yaml").write_text(node("m", 8))
    cluster = ("plan", "-f", tmp_path / "cluster.yaml", "-o", "json")
    assert muster(*cluster).code == 1
    run = muster(*cluster, "--add", tmp_path / "small.yaml")
    assert (run.code, verdicts(run)) == (0, {"big": "Infeasible", "small": "Placed"})
    assert muster(*cluster, "--add", tmp_path / "huge.yaml").code == 1
    assert muster(*cluster, "--add", tmp_path / "half.yaml").code == 1
    assert muster(*cluster, "--add", tmp_path / "small.yaml", "--add", tmp_path / "huge.yaml").code == 1
    run = muster(*cluster, "--add", tmp_path / "node.yaml")
    assert (run.code, verdicts(run)) == (0, {"big": "Placed"})


def test_what_if_a_node_were_drained(muster):
    """Its pods of ours wait again and are listed; they find another node, or the gang says why not."""
    text = node("a", 2) + node("b", 2) + HEAD % ("g", 2) + pods("g", 2, on="a")
    text += pods("", 1, on="a", scheduler="default-scheduler")
    run = muster("plan", "-f", "-", "--drain", "a", "-o", "json", stdin=text)
    assert run.code == 0
    assert run.json["evictions"] == [
        {"namespace": "default", "pod": f"g-{number}", "action": "drain", "for": None} for number in range(2)
    ]
    assert bound(run) == {"g-0": "b", "g-1": "b"}
    assert "1 pod of other schedulers on a left too" in run.err
    run = muster("plan", "-f", "-", "--drain", "a", "--drain", "b", "-o", "json", stdin=text)
    assert run.code == 1
    assert "cordoned" in run.json["podGroups"][0]["reasons"][0]["message"]


def test_what_if_a_gang_were_gone(muster):
    """The gang and its pods are not there, and others have their room."""
    text = node(gpus=2) + HEAD % ("old", 2) + pods("old", 2, on="n") + gang("new", 2)
    assert muster("plan", "-f", "-", stdin=text).code == 1
    for name in ("old", "default/old"):
        run = muster("plan", "-f", "-", "--without", name, "-o", "json", stdin=text)
        assert (run.code, verdicts(run)) == (0, {"new": "Placed"})


@pytest.mark.parametrize(
    ("args", "words"),
    [
        pytest.param(["--drain", "othr"], ["there is no node othr", "did you mean other?"], id="node"),
        pytest.param(["--without", "defualt/g"], ["there is no gang defualt/g", "did you mean default/g?"], id="gang"),
        pytest.param(["--actions", "alocate"], ["not an action", "did you mean allocate?"], id="action"),
        pytest.param(["--actions", ","], ["--actions names none"], id="no action"),
        pytest.param(["--now", "yesterday"], ["is not a time", "2026-01-31T12:00:00Z"], id="time"),
        pytest.param(["--now", "2026-01-31T12:00:00"], ["is not a time"], id="time without a zone"),
        pytest.param(["--add", "no-such-file"], ["can't read no-such-file"], id="file"),
        pytest.param(["--set", "placement.strategy=random"], ["binpack, spread"], id="setting"),
    ],
)
def test_wrong_usage(muster, args, words):
    """Exit code 2, what is wrong, and the nearest thing that would be right."""
    run = muster("plan", "-f", "-", *args, stdin=node("n") + node("other") + gang())
    assert (run.code, run.out) == (2, "")
    for word in words:
        assert word in run.err


def test_a_name_in_two_namespaces_must_be_said_in_full(muster):
    text = "".join(
        HEAD.replace("{name: %s}", f"{{name: %s, namespace: {space}}}") % ("g", 1) for space in ("one", "two")
    )
    run = muster("plan", "-f", "-", "--without", "g", stdin=text)
    assert run.code == 2
    assert "one/g, two/g" in run.err
    assert muster("plan", "-f", "-", "--without", "one/g", stdin=text).code == 0


def test_an_invalid_gang_is_held_and_stops_nobody(muster):
    text = node() + gang("good") + gang("bad").replace("{minMember: 2}", "{minMember: 2, minmember: 3}")
    run = muster("plan", "-f", "-", "-o", "json", stdin=text)
    assert run.code == 1
    assert verdicts(run) == {"bad": "Held", "good": "Placed"}
    assert run.json["podGroups"][0]["reasons"][0]["code"] == "Invalid"
    assert "spec.minmember is not a known field" in run.json["podGroups"][0]["reasons"][0]["message"]
    assert "error    spec.minmember: is not a known field" in run.err
    assert muster("plan", "-f", "-", "--no-strict", stdin=text).code == 0


def test_a_pod_that_can_not_be_read_is_left_out(muster):
    """Placing it without half of its rules could be wrong; its siblings are told that one is missing."""
    text = (
        node() + gang().replace("schedulerName", "x") + pods("h", 1).replace("spec:\n", "spec:\n  nodeSelector: ssd\n")
    )
    run = muster("plan", "-f", "-", "-o", "json", stdin=text + HEAD % ("h", 1))
    assert run.code == 1
    assert verdicts(run) == {"g": "Placed", "h": "Held"}
    assert "spec.nodeSelector: must be a mapping" in run.err


def test_a_pod_with_a_bad_amount_says_so(muster):
    run = muster("plan", "-f", "-", "-o", "json", stdin=node() + gang().replace("gpu: 1}", "gpu: many}", 1))
    assert {one["code"] for one in run.json["podGroups"][0]["reasons"]} == {"BadPod", "WaitingForPods"}


def test_notes_about_what_is_not_planned(muster):
    text = gang() + pods("gone", 2) + pods("", 1, scheduler="kai-scheduler") + pods("g", 1, on="nowhere", first=7)
    run = muster("plan", "-f", "-", stdin=text)
    assert "note: no nodes in the input" in run.err
    assert "note: 2 pods of PodGroup default/gone, which is not in the input" in run.err
    assert "note: 1 pod without a gang grouped into 1 PodGroup by owner: muster group says how" in run.err
    assert "note: 1 pod (default/g-7) on nodes that are not in the input" in run.err


def test_nothing_is_placed_without_allocate(muster):
    text = node(gpus=8) + gang("idle", 2) + HEAD % ("runs", 1) + pods("runs", 1, on="n") + pods("runs", 2, first=1)
    run = muster("plan", "-f", "-", "--actions", "stale,preempt", "-o", "json", stdin=text)
    assert run.json["bindings"] == []
    assert verdicts(run) == {"idle": "Held", "runs": "Placed"}
    assert [one["code"] for one in run.json["podGroups"][0]["reasons"]] == ["NotTried"]
    assert run.json["podGroups"][1]["subGroups"][0]["pods"] == {"total": 3, "placed": 1, "pending": 2}
    assert "allocate is not among the actions" in run.err
    assert run.code == 1


def test_scheduler_names_are_a_setting(muster):
    text = node() + HEAD % ("g", 1) + pods("g", 1, scheduler="other")
    assert bound(muster("plan", "-f", "-", "-o", "json", stdin=text)) == {}
    run = muster("plan", "-f", "-", "-o", "json", "--set", "schedulerNames=kai-scheduler,other", stdin=text)
    assert bound(run) == {"g-0": "n"}


def test_the_strategy_is_a_setting(muster):
    text = node("a", 4) + node("b", 4) + gang("g", 2)
    assert set(bound(muster("plan", "-f", "-", "-o", "json", stdin=text)).values()) == {"a"}
    run = muster("plan", "-f", "-", "-o", "json", "--set", "placement.strategy=spread", stdin=text)
    assert set(bound(run).values()) == {"a", "b"}


def test_the_defaults_of_the_configuration_are_those_of_the_engine():
    assert policy_of(Config()) == Policy()


def test_forms(muster):
    """json and yaml are the same data; name lists bound pods; wide shows every tree node."""
    import yaml

    args = ("plan", "-f", CLUSTER, "-f", INFERENCE)
    made = muster(*args, "-o", "json").json
    assert yaml.safe_load(muster(*args, "-o", "yaml").out) == made
    names = muster(*args, "-o", "name").out.splitlines()
    assert names == [f"pod/default/{one['pod']}" for one in made["bindings"]]
    wide = muster(*args, "-o", "wide").out
    assert "  prefill-2                 core      8/8/8      zone-a/block-2/rack-3" in wide
    assert "  prefill-3                 waits     0/8/8" in wide


def test_equal_input_in_any_order_is_equal_output(muster):
    documents = (node("a", 2) + node("b", 3) + gang("g", 3) + gang("h", 2)).split("---\n")[1:]
    outputs = {
        muster("plan", "-f", "-", "-o", "json", stdin="---\n".join(order)).out
        for order in (documents, documents[::-1], documents[3:] + documents[:3])
    }
    assert len(outputs) == 1


def test_a_picture_stays_small(muster):
    """A gang on many nodes is drawn in at most twelve lines, with and without a Topology."""
    topology = (
        "---\napiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: t}\n"
        "spec: {levels: [{nodeLabel: zone}, {nodeLabel: rack}]}\n"
    )
    racks = "".join(node(f"n{i:03}", 1, f"{{zone: z{i % 2}, rack: r{i // 2}}}") for i in range(200))
    many = "".join(node(f"n{i:03}", 1, f"{{zone: z{i}, rack: r}}") for i in range(200))
    for text in (racks + topology, many + topology, racks):
        run = muster("plan", "-f", "-", stdin=text + gang("g", 150))
        assert run.code == 0
        lines = run.out.split("\n\n")[-1].rstrip().splitlines()
        assert lines[0] == "default/g: 150 pods placed on 150 nodes"
        assert 2 <= len(lines) <= 13


def test_hostile_names_do_not_reach_the_terminal(muster):
    text = node() + gang().replace("name: g}", 'name: "g\\u001b[31m"}').replace(
        "group-name: g}", 'group-name: "g\\u001b[31m"}'
    )
    for form in ("table", "wide", "name"):
        run = muster("plan", "-f", "-", "-o", form, stdin=text)
        assert "\x1b" not in run.out + run.err


def test_pods_are_read_fast_and_the_same(tmp_path):
    """What the fast way refuses is read the slow way: a null is the same as absent."""
    text = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "PodList",
            "items": [
                {"metadata": {"name": "a", "labels": None}, "spec": {"nodeName": None, "containers": []}},
                {"metadata": {"name": "b"}, "spec": {"containers": []}},
            ],
        }
    )
    file = tmp_path / "pods.json"
    file.write_text(text)
    world = load([str(file)], Config(input=Limits())).world
    assert world.pods["default", "a"].shape == world.pods["default", "b"].shape


def test_a_shared_gpu_whose_weight_is_not_set_is_noted_once_per_queue(muster):
    """A note says what it counts as, and how to set it; with a weight of its own there is none."""
    text = (node() + gang(minimum=2) + gang("h", minimum=1)).replace("nvidia.com/gpu", "x.com/gpu.shared")
    run = muster("plan", "-f", "-", stdin=text)
    assert run.err.count("x.com/gpu.shared counts as a whole GPU each") == 1
    assert "queue default-queue: " in run.err
    weights = '[{"resource": "*.shared", "weight": "1/8"}]'
    assert "counts as" not in muster("plan", "-f", "-", "--set", f"queues.gpuWeights={weights}", stdin=text).err
