"""Every rule of SPEC §4 as a request to the webhook: for its tests alone, and for those with a real API server."""

from typing import Any

import pytest

from muster.api.kinds import POD_GROUP, QUEUE, TOPOLOGY, read_object
from muster.api.podgroup import GROUPER_ANNOTATION
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.api.validation import Context
from unit.serve.serving import asked


def written(kind: Any, name: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": spec, **more}


def gang(**spec: Any) -> dict[str, Any]:
    return written(POD_GROUP, "g", spec)


def queue(name: str, parent: str = "", **gpu: float) -> dict[str, Any]:
    resources = {"resources": {"gpu": gpu}} if gpu else {}
    return written(QUEUE, name, {**({"parentQueue": parent} if parent else {}), **resources})


def topology(*labels: str, name: str = "dc") -> dict[str, Any]:
    return written(TOPOLOGY, name, {"levels": [{"nodeLabel": label} for label in labels]})


def interface(**spec: Any) -> dict[str, Any]:
    target = {"group": "ray.io", "version": "v1", "kind": "RayCluster"}
    return {
        "apiVersion": "kai.scheduler/v1",
        "kind": "ResourceInterface",
        "metadata": {"name": "ray"},
        "spec": {"targetGVK": target, **spec},
    }


def leaf(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "minMember": 2, **more}


def branch(name: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, **more}, leaf(f"{name}-0", parent=name), leaf(f"{name}-1", parent=name)]


def structs(kind: Any, *documents: dict[str, Any]) -> dict[str, Any]:
    return {one["metadata"]["name"]: read_object(one, kind)[0] for one in documents}


QUEUES: dict[str, Queue] = structs(
    QUEUE, queue("default-queue"), queue("dept", quota=4), queue("team", "dept", quota=4)
)
TOPOLOGIES: dict[str, Topology] = structs(
    TOPOLOGY, topology("t/zone", "t/rack"), topology("a/rack", "b/rack", name="twins")
)
KNOWN = Context(
    topologies=TOPOLOGIES, queues=QUEUES, priority_classes={"train": 50, "system-node-critical": 2_000_001_000}
)
AT = "spec.subGroups[0]"
RACK = {"topology": "dc", "requiredTopologyLevel": "rack"}
SEMI = {"preemptibility": "semi-preemptible"}
PLACED = {"subGroups": [{"name": "", "pods": {"total": 4, "placed": 2}}]}
PAIR = [leaf("a"), leaf("b")]
GROUPED = {"annotations": {GROUPER_ANNOTATION: "name: w"}}


def raised(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A semi-preemptible gang that runs gets another spec."""
    return asked(gang(**SEMI, **new), "UPDATE", {**gang(**SEMI, **old), "status": PLACED})


def sets(*members: list[str]) -> dict[str, Any]:
    return {"subGroupSets": [{"subGroups": names, "constraint": RACK} for names in members]}


# The request, the field of a cause, words of its message.
ERRORS: list[Any] = [
    pytest.param(asked(gang(subGroups=[{"minMember": 1}])), f"{AT}.name", "is missing", id="name missing"),
    pytest.param(asked(gang(subGroups=[leaf("Not_a_label")])), f"{AT}.name", "DNS label", id="name no DNS label"),
    pytest.param(asked(gang(subGroups=[leaf("a" * 64)])), f"{AT}.name", "63", id="name too long"),
    pytest.param(asked(gang(subGroups=[leaf("a"), leaf("a")])), "spec.subGroups[1].name", "already", id="name twice"),
    pytest.param(asked(gang(subGroups=[leaf("a", parent="b")])), f"{AT}.parent", "no SubGroup", id="parent unknown"),
    pytest.param(
        asked(gang(subGroups=[leaf("a", parent="b"), leaf("b", parent="a")])), f"{AT}.parent", "a → b → a", id="cycle"
    ),
    pytest.param(
        asked(gang(minMember=2, minSubGroup=1, subGroups=[leaf("a")])), "spec.minMember", "both set", id="both minimums"
    ),
    pytest.param(
        asked(gang(subGroups=branch("x", minMember=2, minSubGroup=1))),
        f"{AT}.minSubGroup",
        "both set",
        id="both minimums of a branch",
    ),
    pytest.param(asked(gang(subGroups=[{"name": "a"}])), f"{AT}.minMember", "is missing", id="leaf without minMember"),
    pytest.param(
        asked(gang(subGroups=[{"name": "a", "minSubGroup": 1}])), f"{AT}.minSubGroup", "leaf", id="leaf, minSubGroup"
    ),
    pytest.param(
        asked(gang(subGroups=branch("x", minMember=2))), f"{AT}.minMember", "minSubGroup: 1", id="branch, minMember"
    ),
    pytest.param(asked(gang(minSubGroup=1)), "spec.minSubGroup", "no SubGroups", id="minSubGroup on a flat root"),
    pytest.param(
        asked(gang(minSubGroup=2, subGroups=[leaf("a")])), "spec.minSubGroup", "2 is more than", id="too many"
    ),
    pytest.param(
        asked(gang(subGroups=branch("x", minSubGroup=3))),
        f"{AT}.minSubGroup",
        "3 is more than",
        id="too many below",
    ),
    pytest.param(asked(gang(minMember=-1)), "spec.minMember", "negative", id="negative"),
    pytest.param(
        asked(gang(minSubGroup=-1, subGroups=[leaf("a")])), "spec.minSubGroup", "negative", id="negative minSubGroup"
    ),
    pytest.param(
        asked(gang(subGroups=[leaf("a", minMember=-1)])), f"{AT}.minMember", "negative", id="negative of a leaf"
    ),
    pytest.param(asked(gang(minMember=0)), "spec.minMember", "always satisfied", id="zero"),
    pytest.param(
        asked(gang(subGroups=[leaf("a", minMember=0)])), f"{AT}.minMember", "always satisfied", id="zero of a leaf"
    ),
    pytest.param(
        asked(gang(minSubGroup=0, subGroups=[leaf("a")])), "spec.minSubGroup", "always satisfied", id="zero minSubGroup"
    ),
    pytest.param(
        asked(gang(subGroups=[leaf("a")], topologyConstraints=sets(["b"]))),
        "spec.topologyConstraints.subGroupSets[0].subGroups[0]",
        "no SubGroup",
        id="set of nobody",
    ),
    pytest.param(
        asked(gang(subGroups=[*branch("x"), leaf("a")], topologyConstraints=sets(["x-0", "a"]))),
        "spec.topologyConstraints.subGroupSets[0].subGroups[1]",
        "different parents",
        id="set across parents",
    ),
    pytest.param(
        asked(gang(subGroups=[leaf("a"), leaf("b")], topologyConstraints=sets(["a"], ["a", "b"]))),
        "spec.topologyConstraints.subGroupSets[1].subGroups[0]",
        "already in",
        id="in two sets",
    ),
    pytest.param(
        asked(gang(subGroups=[leaf("a", topologyConstraint=RACK)], topologyConstraints={"subGroups": {"a": RACK}})),
        "spec.topologyConstraints.subGroups.a",
        "two constraints",
        id="two constraints",
    ),
    pytest.param(asked(gang(preemptibility="maybe")), "spec.preemptibility", "semi-preemptible", id="preemptibility"),
    pytest.param(asked(gang(schedulingBackoff=7)), "spec.schedulingBackoff", "-1", id="backoff"),
    pytest.param(asked(gang(preemptionDelay="soon")), "spec.preemptionDelay", "duration", id="duration"),
    pytest.param(asked(gang(stalenessGracePeriod="5 min")), "spec.stalenessGracePeriod", "duration", id="grace period"),
    pytest.param(asked(gang(minMember="4")), "spec.minMember", "whole number", id="type"),
    pytest.param(asked(gang(minMembers=4)), "spec.minMembers", "did you mean minMember?", id="unknown field"),
    pytest.param(
        asked(gang(subGroups=[leaf("a", partent="b")])),
        f"{AT}.partent",
        "did you mean parent?",
        id="unknown below",
    ),
    pytest.param(asked(gang(subGroups=[leaf("a")] * 10_001)), "spec.subGroups", "10,000", id="too many SubGroups"),
    pytest.param(
        asked(gang(subGroups=[leaf(f"g{at}", **({"parent": f"g{at - 1}"} if at else {})) for at in range(65)])),
        "spec.subGroups[64]",
        "levels deep",
        id="too deep",
    ),
    pytest.param(
        asked(gang(subGroups=[leaf(f"{at:063}", topologyConstraint=RACK) for at in range(8_000)])),
        "the object",
        "the limit is 1,048,576",
        id="1 MiB",
    ),
    pytest.param(
        raised({"minMember": 2}, {"minMember": 3}), "spec.minMember", "semi-preemptible", id="raised minMember"
    ),
    pytest.param(
        raised({"minSubGroup": 1, "subGroups": PAIR}, {"minSubGroup": 2, "subGroups": PAIR}),
        "spec.minSubGroup",
        "semi-preemptible",
        id="raised minSubGroup",
    ),
    pytest.param(
        raised({"minSubGroup": 1, "subGroups": PAIR}, {"subGroups": PAIR}),
        "spec.minSubGroup",
        "semi-preemptible",
        id="a minSubGroup taken out",
    ),
    pytest.param(
        raised({"subGroups": PAIR[:1]}, {"subGroups": PAIR}),
        "spec.minSubGroup",
        "semi-preemptible",
        id="a required child more",
    ),
    pytest.param(asked(topology("t/zone", "t/zone")), "spec.levels[1].nodeLabel", "already", id="label twice"),
    pytest.param(
        asked(topology("kubernetes.io/hostname", "t/zone")), "spec.levels[0].nodeLabel", "narrowest", id="hostname"
    ),
    pytest.param(asked(topology()), "spec.levels", "1 to 16 items", id="no level"),
    pytest.param(
        asked(topology(*(f"t/{at}" for at in range(17)))), "spec.levels", "1 to 16 items", id="too many levels"
    ),
    pytest.param(
        asked(topology("t/rack"), "UPDATE", topology("t/zone")), "spec.levels", "stay as they were", id="immutable"
    ),
    pytest.param(asked(queue("dept", "team"), "UPDATE", queue("dept")), "spec.parentQueue", "cycle", id="queue cycle"),
    pytest.param(asked(queue("dept"), "DELETE"), "metadata.name", "has child queues: team", id="queue with children"),
    pytest.param(asked(queue("q", quota=-3)), "spec.resources.gpu.quota", "-1", id="queue amount"),
    pytest.param(
        asked(interface(targetGVK={"kind": "Secret", "version": "v1", "group": ""})),
        "spec.targetGVK.kind",
        "no target",
        id="interface target",
    ),
    pytest.param(asked(interface(let={"a": "$ENV"})), "spec.let.a", "environment", id="an expression"),
]
# The request, words of a warning.
WARNINGS: list[Any] = [
    pytest.param(asked(gang(minMember=4, subGroups=[leaf("a"), leaf("b")])), "is a floor", id="floor"),
    pytest.param(
        asked(written(POD_GROUP, "g", {"minMember": 0}, metadata=GROUPED)), "always satisfied", id="zero of the grouper"
    ),
    pytest.param(asked(gang(subgroups=[leaf("a")])), "spec.subgroups: is the deprecated", id="older spelling"),
    pytest.param(asked(gang(topologyConstraint={"requiredTopologyLevel": "rack"})), "no topology", id="no topology"),
    pytest.param(
        asked(gang(topologyConstraint={"topology": "twins", "requiredTopologyLevel": "rack"})),
        "a/rack",
        id="a level by two names",
    ),
    pytest.param(asked(gang(topologyConstraint={**RACK, "topology": "no"})), '"no"', id="topology unknown"),
    pytest.param(asked(gang(topologyConstraint={**RACK, "requiredTopologyLevel": "row"})), '"row"', id="level unknown"),
    pytest.param(asked(gang(topologyConstraint={"topology": "dc"})), "no level", id="no level"),
    pytest.param(
        asked(gang(topologyConstraint={**RACK, "preferredTopologyLevel": "zone"})), "wider than", id="preferred wider"
    ),
    pytest.param(
        asked(
            gang(
                topologyConstraint=RACK,
                subGroups=[leaf("a", topologyConstraint={"requiredTopologyLevel": "zone"})],
            )
        ),
        "requires zone, wider than rack",
        id="child wider",
    ),
    pytest.param(asked(gang(queue="nowhere")), 'the queue "nowhere" does not exist', id="queue missing"),
    pytest.param(asked(gang(priorityClassName="no")), 'PriorityClass "no" does not exist', id="class missing"),
    pytest.param(
        asked(gang(priorityClassName="system-node-critical")),
        "may not be used in the namespace default",
        id="a system class of a tenant",
    ),
    pytest.param(asked(gang(parallelism=3)), "spec.parallelism: is ignored", id="ignored field"),
    pytest.param(asked(queue("q", "nowhere")), 'the queue "nowhere" does not exist', id="parent missing"),
    pytest.param(asked(queue("new", "dept", quota=1)), "sum up to 5", id="quota sum"),
]
