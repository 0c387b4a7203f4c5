"""A gang on a cluster, read from Kubernetes documents by a program of its own, and the check of a placement of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

UNITS = {"m": 1, "": 1000, "Gi": 2**30 * 1000}


def amount(text: Any) -> int:
    """Thousandths; the instances use nothing but plain numbers, m and Gi."""
    text = str(text)
    for suffix in ("Gi", "m"):
        if text.endswith(suffix):
            return int(text.removesuffix(suffix)) * UNITS[suffix]
    return int(text) * 1000


@dataclass
class Machine:
    """A node, with what it has and who it is."""

    name: str
    room: dict[str, int]
    labels: dict[str, str]
    usable: bool = True


@dataclass
class Member:
    """A pod of the gang: where it belongs, what it asks for, and where it is if it is placed."""

    name: str
    leaf: str
    ask: dict[str, int]
    selector: dict[str, str]
    node: str = ""
    succeeded: bool = False

    def same_as(self) -> tuple[Any, ...]:
        """What makes two waiting pods interchangeable."""
        return self.leaf, tuple(sorted(self.ask.items())), tuple(sorted(self.selector.items()))


@dataclass
class Together:
    """Leaves whose pods share one domain: the nodes with equal values of all these labels."""

    leaves: frozenset[str]
    labels: tuple[str, ...]


@dataclass
class Problem:
    """Everything that decides whether the minimum of a gang fits."""

    machines: dict[str, Machine]
    members: list[Member]
    children: dict[str, list[str]]
    minimum: dict[str, int]
    floor: int
    together: list[Together] = field(default_factory=list)

    def free(self) -> dict[str, dict[str, int]]:
        """Room that is left beside the pods of the gang that are placed already."""
        left = {name: dict(machine.room) for name, machine in self.machines.items()}
        for member in self.members:
            if member.node in left and not member.succeeded:
                for resource, asked in member.ask.items():
                    left[member.node][resource] = left[member.node].get(resource, 0) - asked
        return left

    def may_go(self, member: Member, machine: Machine) -> bool:
        """Whether the pod's own rules allow the node."""
        return machine.usable and all(machine.labels.get(key) == value for key, value in member.selector.items())

    def domain(self, together: Together, machine: Machine) -> tuple[str, ...] | None:
        """The domain that a node is in, or none."""
        values = [machine.labels.get(label) for label in together.labels]
        return None if None in values else tuple(str(value) for value in values)

    def satisfied(self, counted: Mapping[str, int], name: str = "") -> bool:
        """SPEC §1, word for word."""
        below = self.children.get(name, [])
        if not below:
            return counted.get(name, 0) >= self.minimum[name]
        met = sum(self.satisfied(counted, child) for child in below) >= self.minimum[name]
        return met and (name != "" or sum(counted.values()) >= self.floor)

    def counted(self, placed: Mapping[str, str]) -> dict[str, int]:
        """Pods per leaf that count: those placed before, those that succeeded, and those that `placed` places."""
        found: dict[str, int] = {}
        for member in self.members:
            if member.succeeded or member.node in self.machines or member.name in placed:
                found[member.leaf] = found.get(member.leaf, 0) + 1
        return found

    def faults(self, placed: Mapping[str, str]) -> list[str]:
        """What is wrong with sending these pods to these nodes; nothing when it is a placement of the minimum."""
        wrong = []
        left = self.free()
        by_name = {member.name: member for member in self.members}
        for name, node in placed.items():
            member = by_name[name]
            if member.node or member.succeeded:
                wrong.append(f"{name} is not waiting")
            if not self.may_go(member, self.machines[node]):
                wrong.append(f"{name} may not go to {node}")
            for resource, asked in member.ask.items():
                left[node][resource] = left[node].get(resource, 0) - asked
                if asked and left[node][resource] < 0:
                    wrong.append(f"{node} has not enough {resource}")
        for together in self.together:
            touched = any(by_name[name].leaf in together.leaves for name in placed)
            nodes = [placed.get(member.name, member.node) for member in self.members if member.leaf in together.leaves]
            held = {self.domain(together, self.machines[node]) for node in nodes if node in self.machines}
            if touched and (len(held) > 1 or None in held):
                wrong.append(f"{sorted(together.leaves)} lie in {held}")
        if not self.satisfied(self.counted(placed)):
            wrong.append("the minimum is not met")
        return wrong


def read(documents: list[dict[str, Any]]) -> Problem:
    """The problem that a list of documents states: nodes, one Topology, one PodGroup, its pods."""
    of = {kind: [one for one in documents if one["kind"] == kind] for kind in ("Node", "Topology", "PodGroup", "Pod")}
    machines = {}
    for one in of["Node"]:
        room = {name: amount(value) for name, value in one["status"]["allocatable"].items()}
        usable = not one.get("spec", {}).get("unschedulable")
        labels = one["metadata"].get("labels", {})
        machines[one["metadata"]["name"]] = Machine(one["metadata"]["name"], room, labels, usable)
    (group,) = of["PodGroup"]
    subgroups = group["spec"].get("subGroups", [])
    members = [_member(one, bool(subgroups)) for one in of["Pod"]]
    children: dict[str, list[str]] = {}
    for one in subgroups:
        children.setdefault(one.get("parent", ""), []).append(one["name"])
    minimum, floor = {}, 0
    for name, written in [("", group["spec"]), *((one["name"], one) for one in subgroups)]:
        if name in children:
            minimum[name] = written.get("minSubGroup", len(children[name]))
        else:
            minimum[name] = written.get("minMember", 1)
    if subgroups and "minSubGroup" not in group["spec"]:
        floor = group["spec"].get("minMember", 0)
    labels = [level["nodeLabel"] for topology in of["Topology"] for level in topology["spec"]["levels"]]
    return Problem(machines, members, children, minimum, floor, _together(group["spec"], children, labels))


def _member(pod: dict[str, Any], named: bool) -> Member:
    ask = {"pods": 1000}
    for container in pod["spec"]["containers"]:
        for name, value in container["resources"]["requests"].items():
            ask[name] = ask.get(name, 0) + amount(value)
    return Member(
        pod["metadata"]["name"],
        pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] if named else "",
        ask,
        pod["spec"].get("nodeSelector", {}),
        pod["spec"].get("nodeName", ""),
        pod.get("status", {}).get("phase") == "Succeeded",
    )


def _together(spec: dict[str, Any], children: dict[str, list[str]], labels: list[str]) -> list[Together]:
    def leaves(name: str) -> frozenset[str]:
        below = children.get(name, [])
        return frozenset().union(*(leaves(child) for child in below)) if below else frozenset({name})

    def until(level: str) -> tuple[str, ...]:
        return tuple(labels[: labels.index(level) + 1])

    found = []
    for name, written in [("", spec), *((one["name"], one) for one in spec.get("subGroups", []))]:
        level = written.get("topologyConstraint", {}).get("requiredTopologyLevel")
        if level:
            found.append(Together(leaves(name), until(level)))
    for one in spec.get("topologyConstraints", {}).get("subGroupSets", []):
        level = one["constraint"].get("requiredTopologyLevel")
        if level:
            held = frozenset().union(*(leaves(name) for name in one["subGroups"]))
            found.append(Together(held, until(level)))
    return found
