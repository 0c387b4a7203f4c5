"""What reading, judging and normalising objects costs, at the sizes that the limits allow."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.measure import Case, Run
from muster.api import quantity
from muster.api.cluster import Pod
from muster.api.crd import custom_resource_definitions
from muster.api.documents import read
from muster.api.kinds import decode
from muster.api.podgroup import PodGroup
from muster.api.tree import core, minimum_pods, normal_form, satisfied
from muster.api.validation import Context, validate
from muster.api.writing import write_yaml

EXAMPLES = str(Path(__file__).parents[1] / "examples")
COMMANDS = {
    "muster --help (process)": ["--help"],
    "muster validate -f examples (process)": ["validate", "-f", EXAMPLES],
    "muster crds (process)": ["crds"],
}


SECTION = "Reading and judging objects"


def _case(what: str, run: Callable[[], object], count: int = 1, unit: str = "") -> Case:
    return Case(what, lambda: Run(lambda _: run()), count, unit, peak=True, section=SECTION)


def group(replicas: int, leaves: int) -> dict[str, Any]:
    """A PodGroup of `replicas` branches with `leaves` leaves each, most of them needed."""
    subgroups: list[dict[str, Any]] = []
    for replica in range(replicas):
        subgroups.append({"name": f"r{replica}", "minSubGroup": leaves})
        subgroups += [
            {
                "name": f"r{replica}-l{leaf}",
                "parent": f"r{replica}",
                "minMember": 4,
                "topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "rack"},
            }
            for leaf in range(leaves)
        ]
    spec = {"minSubGroup": max(1, replicas * 3 // 4), "subGroups": subgroups}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "bench"},
        "spec": spec,
    }


def hostile(count: int) -> dict[str, Any]:
    """A PodGroup in which every SubGroup has several mistakes."""
    document = group(1, 1)
    document["spec"] = {
        "minSubGroup": count + 1,
        "subGroups": [
            {"name": f"S{i}", "parent": f"nobody{i}", "minMember": "3", "minmember": 1} for i in range(count)
        ],
    }
    return document


POD = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "prefill-0-3",
            "namespace": "default",
            "uid": "0f0e0d0c-1111-2222-3333-444455556666",
            "labels": {"kai.scheduler/subgroup-name": "prefill-0", "app": "inference"},
            "annotations": {"pod-group-name": "inference-service"},
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "u"}],
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:labels": {}}}}] * 3,
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/inference:1",
                    "env": [{"name": f"V{i}", "value": "x" * 30} for i in range(10)],
                    "resources": {"requests": {"cpu": "4", "memory": "32Gi"}, "limits": {"nvidia.com/gpu": "8"}},
                }
            ],
            "volumes": [
                {
                    "name": "kube-api-access-x",
                    "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]},
                }
            ],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": name, "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"}
                for name in ("PodScheduled", "Initialized", "ContainersReady", "Ready", "PodReadyToStartContainers")
            ],
        },
    }
).encode()


def cases() -> Iterator[Case]:
    """All measurements of this layer."""
    small, large = group(4, 2), group(1000, 9)
    yaml_text = write_yaml([group(400, 9)]).encode()
    yield _case(f"read {len(yaml_text) / 2**20:.2f} MiB of YAML", lambda: read(yaml_text), len(yaml_text), "B")
    json_text = json.dumps(group(750, 9)).encode()
    yield _case(f"read {len(json_text) / 2**20:.2f} MiB of JSON", lambda: read(json_text), len(json_text), "B")
    yield _case("decode a watched pod, 1000 times", lambda: [decode(POD, Pod) for _ in range(1000)], 1000, "pods")
    yield _case("judge a PodGroup of 12 SubGroups", lambda: validate(small, Context()), 1, "objects")
    yield _case("judge a PodGroup of 10,000 SubGroups", lambda: validate(large, Context()), 10_000, "SubGroups")
    worst = hostile(10_000)
    yield _case("judge 10,000 SubGroups with 4 mistakes each", lambda: validate(worst, Context()), 10_000, "SubGroups")
    found = validate(large, Context()).object
    assert isinstance(found, PodGroup)
    tree = normal_form(found)
    pods = [4] * len(tree.nodes)
    none = [0] * len(tree.nodes)
    yield _case("normal form of 10,000 SubGroups", lambda: normal_form(found), 10_000, "SubGroups")
    yield _case("satisfied, 10,000 SubGroups", lambda: satisfied(tree, pods), 10_000, "SubGroups")
    yield _case("minimum in pods, 10,000 SubGroups", lambda: minimum_pods(tree), 10_000, "SubGroups")
    yield _case("core, 10,000 SubGroups", lambda: core(tree, pods, none), 10_000, "SubGroups")
    texts = [f"{n}{suffix}" for n in range(250) for suffix in ("m", "Gi", "", "e3")]

    def parse_all() -> None:
        quantity._parse.cache_clear()
        for text in texts:
            quantity.milli(text)

    yield _case("1000 distinct quantities", parse_all, 1000, "quantities")
    yield _case("generate the CRDs", custom_resource_definitions)
