"""Random problems as documents: small clusters of three levels, trees of mixed leaves, some pods placed already."""

from typing import Any

from hypothesis import strategies as st

LEVELS = ("zone", "block", "rack")
GROUP = "scheduling.run.ai/v2alpha2"


def node(name: str, gpus: int, *path: str, cpus: int = 64, pods: int = 110, cordoned: bool = False) -> dict[str, Any]:
    """A node at a path of the topology."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(zip(LEVELS, path, strict=False))},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {"allocatable": {"gpu.example.com/gpu": str(gpus), "cpu": str(cpus), "pods": str(pods)}},
    }


def pod(
    name: str, leaf: str = "", gpus: int = 1, cpus: int = 1, on: str = "", phase: str = "", **selector: str
) -> dict:
    """A pod of the gang g."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": {"pod-group-name": "g"},
            "labels": {"kai.scheduler/subgroup-name": leaf} if leaf else {},
        },
        "spec": {
            "containers": [{"resources": {"requests": {"gpu.example.com/gpu": str(gpus), "cpu": str(cpus)}}}],
            **({"nodeName": on} if on else {}),
            **({"nodeSelector": selector} if selector else {}),
        },
        **({"status": {"phase": phase}} if phase else {}),
    }


def topology() -> dict[str, Any]:
    """The one Topology: zone, block, rack."""
    levels = [{"nodeLabel": label} for label in LEVELS]
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "dc"},
        "spec": {"levels": levels},
    }


def group(**spec: Any) -> dict[str, Any]:
    """The gang g."""
    return {"apiVersion": GROUP, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


@st.composite
def clusters(draw: st.DrawFn, most: int) -> list[dict[str, Any]]:
    """Up to `most` nodes, some without all labels, some cordoned."""
    nodes = []
    for index in range(draw(st.integers(1, most))):
        path = [draw(st.sampled_from("ab")), draw(st.sampled_from("xy")), draw(st.sampled_from("12"))]
        labelled = draw(st.sampled_from([3, 3, 3, 3, 3, 2, 0]))
        nodes.append(
            node(
                f"n{index}",
                draw(st.sampled_from([0, 1, 2, 3, 4, 8])),
                *path[:labelled],
                cpus=draw(st.sampled_from([1, 2, 4, 64])),
                pods=draw(st.sampled_from([1, 2, 110, 110])),
                cordoned=draw(st.integers(0, 9)) == 0,
            )
        )
    return nodes


@st.composite
def constraints(draw: st.DrawFn) -> dict[str, Any]:
    """No constraint, or a required level."""
    level = draw(st.sampled_from(["", "", *LEVELS]))
    return {"topologyConstraint": {"topology": "dc", "requiredTopologyLevel": level}} if level else {}


@st.composite
def problems(draw: st.DrawFn, most_nodes: int = 5, most_pods: int = 6) -> list[dict[str, Any]]:
    """A cluster, a gang of one or two levels, and its pods, of which some are placed or have succeeded."""
    nodes = draw(clusters(most_nodes))
    subgroups: list[dict[str, Any]] = []
    leaves: list[str] = []
    for index in range(draw(st.integers(0, 3))):
        below = draw(st.sampled_from([0, 0, 1, 2]))
        name = f"s{index}"
        if below:
            counted = {"minSubGroup": draw(st.integers(1, below))} if draw(st.booleans()) else {}
            subgroups.append({"name": name, **counted, **draw(constraints())})
        names = [f"{name}-{leaf}" for leaf in range(below)] or [name]
        for leaf in names:
            parent = {"parent": name} if below else {}
            minimum = draw(st.integers(1, 3))
            subgroups.append({"name": leaf, **parent, "minMember": minimum, **draw(constraints())})
        leaves += names
    spec: dict[str, Any] = {**draw(constraints())}
    roots = [one["name"] for one in subgroups if "parent" not in one]
    if subgroups:
        spec["subGroups"] = subgroups
        choice = draw(st.sampled_from(["all", "some", "floor"]))
        if choice == "some":
            spec["minSubGroup"] = draw(st.integers(1, len(roots)))
        elif choice == "floor":
            spec["minMember"] = draw(st.integers(1, most_pods))
        if len(roots) > 1 and draw(st.integers(0, 2)) == 0:
            level = draw(st.sampled_from(LEVELS))
            constraint = {"topology": "dc", "requiredTopologyLevel": level}
            spec["topologyConstraints"] = {"subGroupSets": [{"subGroups": roots[:2], "constraint": constraint}]}
    else:
        spec["minMember"] = draw(st.integers(1, most_pods))
    pods = []
    for index in range(draw(st.integers(1, most_pods))):
        leaf = draw(st.sampled_from(leaves)) if leaves else ""
        state = draw(st.sampled_from(["", "", "", "", "placed", "succeeded"]))
        on = draw(st.sampled_from([one["metadata"]["name"] for one in nodes])) if state == "placed" else ""
        selector = {"zone": draw(st.sampled_from("ab"))} if draw(st.integers(0, 5)) == 0 else {}
        gpus, cpus = draw(st.sampled_from([0, 1, 1, 2, 3, 4])), draw(st.sampled_from([0, 1, 1, 2]))
        phase = {"": "", "placed": "Running", "succeeded": "Succeeded"}[state]
        pods.append(pod(f"p{index}", leaf, gpus, cpus, on, phase, **selector))
    return [*nodes, topology(), group(**spec), *pods]
