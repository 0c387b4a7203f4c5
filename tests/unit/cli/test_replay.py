"""`muster snapshot` and `muster replay`: the same plan from one file, bit for bit, and what is not in that file."""

import gzip
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
SECRETIVE = """
apiVersion: v1
kind: Node
metadata: {name: n, labels: {disk: ssd, owner: alice, zone: z1}, annotations: {note: private}}
status:
  allocatable: {cpu: 8, nvidia.com/gpu: 4}
  conditions: [{type: Ready, status: "True", message: hello from the kubelet}]
---
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: t}
spec: {levels: [{nodeLabel: zone}]}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: g, annotations: {kai.scheduler/topology: t, kai.scheduler/top-owner-metadata: "who: bob"}}
spec: {minMember: 1, topologyConstraint: {requiredTopologyLevel: zone}}
status: {startTime: "2026-01-31T12:00:00Z", phase: Running, subGroups: [{name: "", core: true, message: private}]}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: broken}
spec: {minMember: -1}
---
apiVersion: v1
kind: Pod
metadata: {name: g-0, creationTimestamp: "2026-01-31T12:00:00.123456Z", labels: {team: crimson, app: web},
           annotations: {pod-group-name: g, notes: private}}
spec:
  nodeSelector: {disk: ssd}
  containers:
    - name: my-model
      image: registry/private:1
      env: [{name: TOKEN, value: private}]
      resources: {requests: {cpu: 100m, nvidia.com/gpu: 1}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: default-queue}
spec: {displayName: private}
"""

# What rules of pods look at.
RULES = """
apiVersion: v1
kind: Node
metadata: {name: n, labels: {kubernetes.io/hostname: n}}
status: {allocatable: {cpu: 8}}
---
apiVersion: v1
kind: Pod
metadata: {name: shrinks, labels: {team: crimson}}
spec: {nodeName: n, containers: [{name: my-model, resources: {requests: {cpu: 1}}}]}
status: {containerStatuses: [{name: my-model, allocatedResources: {cpu: 4}, resources: {requests: {cpu: 5}}}]}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: g}
spec: {minMember: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: g, annotations: {pod-group-name: g}}
spec: {containers: [{name: my-model, resources: {requests: {cpu: 4}}}]}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: small}
spec: {minMember: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: small, annotations: {pod-group-name: small}}
spec: {containers: [{resources: {requests: {cpu: 1}}}]}
"""

# What pods refer to: a volume of one zone, a claim that is not there, a group of Kubernetes, a class of devices.
REFERRED = """
apiVersion: v1
kind: Node
metadata: {name: near, labels: {topology.kubernetes.io/zone: z1, rack: r1, owner: alice}}
status: {allocatable: {cpu: 8}}
---
apiVersion: v1
kind: Node
metadata: {name: far, labels: {topology.kubernetes.io/zone: z2, rack: r2}}
status: {allocatable: {cpu: 8}}
---
apiVersion: v1
kind: Node
metadata: {name: regional, labels: {topology.kubernetes.io/region: z2, rack: r2}}
status: {allocatable: {cpu: 8}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c, labels: {team: crimson}, annotations: {pv.kubernetes.io/bind-completed: "yes", note: private}}
spec: {volumeName: v}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: of-strangers}
spec: {volumeName: private}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: v, labels: {topology.kubernetes.io/zone: z2, team: crimson}}
spec:
  csi: {driver: d, volumeHandle: private}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: rack, operator: In, values: [r2]}]}]}}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: native}
spec: {schedulingPolicy: {gang: {minCount: 2}}, resourceClaims: [{name: private}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: fpga, labels: {team: crimson}}
spec: {extendedResourceName: a.io/fpga, selectors: [{cel: {expression: private}}]}
""" + "".join(
    f"""---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {{name: {name}}}
spec: {{minMember: 1}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, annotations: {{pod-group-name: {name}}}}}
spec: {{{spec}}}
"""
    for name, spec in {
        "bound": "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]",
        "missing": "volumes: [{name: v, persistentVolumeClaim: {claimName: nowhere}}]",
        "native": "schedulingGroup: {podGroupName: native}",
        "device": "containers: [{resources: {limits: {a.io/fpga: 1}}}]",
    }.items()
)

NOW = "2026-01-31T12:00:00Z"
# Everything that decides about evictions: budgets, namespaces of a queue, runtimes, delays, clocks, kept room, owners.
SHARED = """
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {nvidia.com/gpu: 4}}
---
apiVersion: v1
kind: Node
metadata: {name: b}
status: {allocatable: {nvidia.com/gpu: 4}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: budget, annotations: {note: private}}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: shared}
spec: {displayName: private, preemptMinRuntime: 10m, resources: {gpu: {quota: 4}}}
status: {requested: {gpu: 77}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: closed, annotations: {kai.scheduler/allowed-namespaces: "team-x", note: private}}
"""
WEB = [("web", "minMember: 1, preemptibility: preemptible", "", "startTime: 2026-01-31T10:00:00Z"), 4, "a"]
STORY = [
    WEB,
    [("young", "minMember: 2, preemptibility: preemptible", "", "startTime: 2026-01-31T11:55:00Z"), 2, "b"],
    [
        (
            "moved",
            "minMember: 1, preemptibility: preemptible",
            "",
            'admittedQueue: default-queue, kept: [{"subGroup":"","node":"b","requests":{"nvidia.com/gpu":1},'
            '"since":"2026-01-31T11:59:00Z"}]',
        ),
        0,
        "",
    ],
    [
        (
            "late",
            "minMember: 2, priorityClassName: train, preemptionDelay: 5m",
            "",
            "conditions: [{type: Scheduled, status: 'False', reason: Unschedulable, message: private, "
            "lastTransitionTime: 2026-01-31T11:58:00Z}]",
        ),
        2,
        "",
    ],
    [("high", "minMember: 4, priorityClassName: build-preemptible", "", ""), 4, ""],
    [("poor", "minMember: 1, preemptibility: preemptible", "", ""), 1, ""],
    [
        (
            "broken",
            "minMember: 2, preemptibility: preemptible, stalenessGracePeriod: 2m",
            "",
            'subGroups: [{name: "", satisfied: false, minimum: 2, message: private, pods: {placed: 1, total: 2}, '
            "staleSince: 2026-01-31T11:57:00Z}]",
        ),
        1,
        "b",
    ],
    [("elsewhere", "minMember: 1, queue: closed", "", ""), 1, ""],
]


def told(story):
    """The story as documents."""
    text = SHARED
    for (name, spec, annotations, status), count, on in story:
        queue = "" if "queue:" in spec else ", queue: shared"
        text += (
            f"---\napiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\n"
            f"metadata: {{name: {name}, annotations: {{note: private{', ' + annotations if annotations else ''}}}}}\n"
            f"spec: {{{spec}{queue}}}\n" + (f"status: {{{status}}}\n" if status else "")
        )
        for number in range(count):
            text += (
                f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}-{number}, "
                f"labels: {{app: {name}, team: crimson}}, annotations: {{pod-group-name: {name}}}, "
                "ownerReferences: [{kind: ReplicaSet, name: owner, controller: true}]}\n"
                "spec: {containers: [{resources: {requests: {nvidia.com/gpu: 1}}}]"
                + (f", nodeName: {on}" if on else "")
                + "}\n"
            )
    return text


@pytest.fixture
def kept(muster, tmp_path):
    """Takes a snapshot of a text and gives the file."""

    def keep(text, *args, name="cycle.json"):
        file = tmp_path / name
        run = muster("snapshot", "-f", "-", "--to", file, *args, stdin=text)
        assert run.code in (0, 1)
        assert run.out == ""
        return file

    return keep


@pytest.mark.parametrize("name", ["cycle.json", "cycle.json.gz"])
@pytest.mark.parametrize("redact", [[], ["--no-redact"]], ids=["redacted", "whole"])
@pytest.mark.parametrize(
    "source", [SECRETIVE, RULES, REFERRED, EXAMPLES], ids=["text", "rules", "referred", "examples"]
)
def test_the_same_plan_bit_for_bit(muster, tmp_path, source, redact, name):
    """Every form of the output, and the exit code, are those of `plan` on the original."""
    given = ("-f", source) if isinstance(source, Path) else ("-f", "-")
    stdin = "" if isinstance(source, Path) else source
    muster("snapshot", *given, "--to", tmp_path / name, *redact, stdin=stdin)
    for form in ("json", "yaml", "name"):
        original = muster("plan", *given, "-o", form, stdin=stdin)
        again = muster("replay", tmp_path / name, "-o", form)
        assert again.out == original.out != ""
        assert again.code == original.code


@pytest.mark.parametrize("redact", [[], ["--no-redact"]], ids=["redacted", "whole"])
@pytest.mark.parametrize("now", [NOW, "2026-01-31T12:06:00Z", "2026-01-31T13:00:00Z"])
@pytest.mark.parametrize("left_out", [None, *range(len(STORY))])
def test_evictions_are_the_same_bit_for_bit(muster, tmp_path, left_out, now, redact):
    """Whatever decides who goes for whom is in the file: at every time, and whoever of the story is left out."""
    text = told([one for at, one in enumerate(STORY) if at != left_out])
    original = muster("plan", "-f", "-", "--now", now, "-o", "json", stdin=text)
    muster("snapshot", "-f", "-", "--now", now, "--to", tmp_path / "cycle.json", *redact, stdin=text)
    again = muster("replay", tmp_path / "cycle.json", "-o", "json")
    assert (again.out, again.code) == (original.out, original.code)
    assert "QueueForbidden" in original.out or left_out == len(STORY) - 1
    if not redact:
        kept = (tmp_path / "cycle.json").read_text()
        for word in ("private", "crimson", "77"):
            assert word not in kept


def test_a_snapshot_of_a_snapshot_is_the_same(muster, kept, tmp_path):
    """The same input gives the same bytes, on stdout and in a file."""
    file = kept(SECRETIVE, "--now", "2026-01-31T12:00:00Z")
    run = muster("snapshot", "-f", "-", "--now", "2026-01-31T12:00:00Z", stdin=SECRETIVE)
    assert run.out == file.read_text()
    assert json.loads(run.out)["now"] == "2026-01-31T12:00:00Z"
    packed = kept(SECRETIVE, "--now", "2026-01-31T12:00:00Z", name="cycle.json.gz")
    assert gzip.decompress(packed.read_bytes()) == file.read_bytes()


def test_what_is_left_out(kept):
    """Nothing that muster does not read is ever in the file; redacted, nothing that nothing refers to either."""
    text = kept(SECRETIVE).read_text()
    for word in ("private", "alice", "bob", "crimson", "my-model", "TOKEN", "kubelet"):
        assert word not in text
    for word in ("ssd", "z1", "web", "g-0", "startTime"):
        assert word in text
    rules = kept(RULES).read_text()
    for word in ("crimson", "my-model"):
        assert word not in rules
    referred = kept(REFERRED).read_text()
    for word in ("crimson", "private", "of-strangers", "alice"):
        assert word not in referred
    whole = kept(SECRETIVE, "--no-redact").read_text()
    assert "alice" in whole
    assert "my-model" in whole
    for word in ("TOKEN", "registry"):
        assert word not in whole


def test_the_configuration_travels_with_it(muster, kept, monkeypatch):
    """What is set where the file is replayed changes nothing."""
    text = "".join(
        f"---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus: {{allocatable: {{gpu: 2}}}}\n"
        for name in ("a", "b")
    )
    text += "---\napiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 2}\n"
    for number in range(2):
        text += (
            f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: g-{number}, annotations: {{pod-group-name: g}}}}\n"
            "spec: {schedulerName: mine, containers: [{resources: {requests: {gpu: 1}}}]}\n"
        )
    file = kept(text, "--set", "placement.strategy=spread", "--set", "schedulerNames=mine")
    monkeypatch.setenv("MUSTER_PLACEMENT_STRATEGY", "binpack")
    run = muster("replay", file, "-o", "json")
    assert {one["node"] for one in run.json["bindings"]} == {"a", "b"}


def test_an_invalid_gang_stays_invalid(muster, kept):
    run = muster("replay", kept(SECRETIVE), "-o", "json")
    assert run.code == 1
    (broken,) = [one for one in run.json["podGroups"] if one["name"] == "broken"]
    assert [one["code"] for one in broken["reasons"]] == ["Invalid"]


def test_replay_says_what_to_do_next(muster, kept):
    run = muster("replay", kept(SECRETIVE))
    assert run.err.splitlines()[-1].startswith("next: muster replay ")
    assert "default/g" in run.out


def test_standard_input(muster, kept):
    file = kept(SECRETIVE)
    assert muster("replay", "-", "-o", "json", stdin=file.read_bytes()).out == muster("replay", file, "-o", "json").out


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"", "is not a snapshot", id="empty"),
        pytest.param(b"apiVersion: v1\n", "is not a snapshot", id="YAML"),
        pytest.param(b'{"kind": "List"}', "is not a snapshot", id="other JSON"),
        pytest.param(b'["muster-snapshot"]', "is not a snapshot", id="a list"),
        pytest.param(b"[" * 100_000, "is not a snapshot", id="deep"),
        pytest.param(b"\xff\xfe", "is not a snapshot", id="no text"),
        pytest.param(b'{"format": "muster-snapshot", "version": 99}', "has version 99", id="newer"),
        pytest.param(b'{"format": "muster-snapshot", "version": 1}', "is damaged", id="parts missing"),
        pytest.param(b'{"format": "muster-snapshot", "version": 1, "now": 5}', "is damaged", id="wrong type"),
        pytest.param(b"\x1f\x8bnonsense", "is damaged", id="broken compression"),
        pytest.param(gzip.compress(b" " * 1000)[:-9], "is damaged", id="cut off"),
        pytest.param(
            b'{"format": "muster-snapshot", "version": 1, "now": "", "nowNs": 0, "config": {"placement": {"x": 1}}}',
            "placement.x is not a known field",
            id="bad configuration",
        ),
    ],
)
def test_files_that_are_no_snapshot(muster, tmp_path, data, words):
    """A sentence that says what is wrong and what to do, and exit code 2."""
    file = tmp_path / "file"
    file.write_bytes(data)
    run = muster("replay", file)
    assert (run.code, run.out) == (2, "")
    assert words in run.err
    assert "→" in run.err


def test_a_small_file_that_becomes_a_giant_is_refused(muster, tmp_path):
    file = tmp_path / "bomb.gz"
    file.write_bytes(gzip.compress(b" " * 10_000_000))
    run = muster("replay", file, "--set", "input.maxFileBytes=1000000")
    assert run.code == 2
    assert "more than 1,000,000 bytes" in run.err


def test_a_file_that_can_not_be_written(muster):
    run = muster("snapshot", "-f", "-", "--to", "no-such-folder/x.json", stdin=SECRETIVE)
    assert run.code == 2
    assert "can't write no-such-folder/x.json" in run.err


def test_numbers_beyond_64_bits_do_not_break_the_file(muster, kept):
    """Whoever reads the file reads the same."""
    text = SECRETIVE.replace("spec:\n  nodeSelector", "spec:\n  priority: 99999999999999999999999\n  nodeSelector")
    run = muster("replay", kept(text), "-o", "json")
    assert run.code in (0, 1)
