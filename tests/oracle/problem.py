"""A gang on a cluster, read from Kubernetes documents by a program of its own, and the check of a placement of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

UNITS = {"m": 1, "": 1000, "Gi": 2**30 * 1000}
GANG, LEAF = "pod-group-name", "kai.scheduler/subgroup-name"
UNMET = "the minimum is not met"


def amount(text: Any) -> int:
    """Thousandths; the instances use nothing but plain numbers, m and Gi."""
    text = str(text)
    for suffix in ("Gi", "m"):
        if text.endswith(suffix):
            return int(text.removesuffix(suffix)) * UNITS[suffix]
    return int(text) * 1000


@dataclass
class Machine:
    """A node, with what it has for this gang and who it is."""

    name: str
    room: dict[str, int]
    labels: dict[str, str]
    usable: bool = True
    taints: tuple[tuple[str, str], ...] = ()


@dataclass
class Member:
    """A pod of the gang: where it belongs, what it asks for, and where it is if it is placed."""

    name: str
    leaf: str
    ask: dict[str, int]
    selector: dict[str, str]
    node: str = ""
    succeeded: bool = False
    tolerated: frozenset[tuple[str, str]] = frozenset()

    def same_as(self) -> tuple[Any, ...]:
        """What makes two waiting pods interchangeable."""
        asked, chosen = tuple(sorted(self.ask.items())), tuple(sorted(self.selector.items()))
        return self.leaf, asked, chosen, tuple(sorted(self.tolerated))


@dataclass
class Together:
    """Leaves whose pods share one domain: the nodes with equal values of all these labels."""

    leaves: frozenset[str]
    labels: tuple[str, ...]


@dataclass
class Problem:
    """Everything that decides whether the minimum of a gang fits.

    `goal` is the tree node whose minimum is asked for: the root, or a child that is wanted as surplus.
    """

    machines: dict[str, Machine]
    members: list[Member]
    children: dict[str, list[str]]
    minimum: dict[str, int]
    floor: int
    together: list[Together] = field(default_factory=list)
    # What is preferred, by the tree node that it stands on.
    preferred: dict[str, Together] = field(default_factory=dict)
    goal: str = ""

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
        chosen = all(machine.labels.get(key) == value for key, value in member.selector.items())
        return machine.usable and chosen and all(taint in member.tolerated for taint in machine.taints)

    def domain(self, together: Together, machine: Machine) -> tuple[str, ...] | None:
        """The domain that a node is in, or none."""
        values = [machine.labels.get(label) for label in together.labels]
        return None if None in values else tuple(str(value) for value in values)

    def leaves(self, name: str = "") -> frozenset[str]:
        """The leaves below a tree node."""
        below = self.children.get(name, [])
        return frozenset().union(*(self.leaves(child) for child in below)) if below else frozenset({name})

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

    def waiting(self) -> list[Member]:
        """Pods that could be placed."""
        return [member for member in self.members if not member.node and not member.succeeded]

    def ready(self) -> bool:
        """Whether the pods that exist are enough for the minimum."""
        return self.satisfied(self.counted({member.name: "" for member in self.waiting()}), self.goal)

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
            held = self.domains(together, placed)
            if touched and (len(held) > 1 or None in held):
                wrong.append(f"{sorted(together.leaves)} lie in {held}")
        if not self.satisfied(self.counted(placed), self.goal):
            wrong.append(UNMET)
        return wrong

    def domains(self, together: Together, placed: Mapping[str, str]) -> set[tuple[str, ...] | None]:
        """The domains that the pods of some leaves are in."""
        nodes = [placed.get(member.name, member.node) for member in self.members if member.leaf in together.leaves]
        return {self.domain(together, self.machines[node]) for node in nodes if node in self.machines}

    def after(self, placed: Mapping[str, str], goal: str = "") -> "Problem":
        """The same when these pods are placed, asked about another tree node."""
        members = [replace(member, node=placed.get(member.name, member.node)) for member in self.members]
        return replace(self, members=members, goal=goal)

    def wanted(self) -> list[str]:
        """Children that are not satisfied although all around them is: each is a unit of surplus."""
        counted = self.counted({})
        open_names, found = [""], []
        while open_names:
            for child in self.children.get(open_names.pop(), []):
                (open_names if self.satisfied(counted, child) else found).append(child)
        return found

    def extra(self) -> list[Member]:
        """Waiting pods of leaves that are satisfied, as all around them is: each is a unit of surplus."""
        counted, missing = self.counted({}), self.wanted()
        barred = frozenset().union(*(self.leaves(name) for name in missing)) if missing else frozenset()
        whole = self.satisfied(counted)
        return [member for member in self.waiting() if whole and member.leaf not in barred]


def read(documents: list[dict[str, Any]], *, soon: bool = False) -> Problem:
    """The problem that a list of documents states: nodes, Topologies, one PodGroup, pods of it and of others.

    With `soon`, as it will be when the terminating pods are gone.
    """
    of = {kind: [one for one in documents if one["kind"] == kind] for kind in ("Node", "Topology", "PodGroup", "Pod")}
    machines = {one["metadata"]["name"]: _machine(one) for one in of["Node"]}
    (group,) = of["PodGroup"]
    if "subgroups" in group["spec"]:
        group = {**group, "spec": {**group["spec"], "subGroups": group["spec"]["subgroups"]}}
    subgroups = group["spec"].get("subGroups", [])
    parents = {one.get("parent") for one in subgroups}
    known = {one["name"] for one in subgroups if one["name"] not in parents}
    members = []
    for one in of["Pod"]:
        terminating = "deletionTimestamp" in one["metadata"]
        ended = one.get("status", {}).get("phase") in ("Succeeded", "Failed")
        # A pod that names no leaf is set aside: it is in nobody's gang.
        ours = one["metadata"].get("annotations", {}).get(GANG) == group["metadata"]["name"]
        ours = ours and (not subgroups or one["metadata"].get("labels", {}).get(LEAF) in known)
        if ours and not terminating:
            if one.get("status", {}).get("phase") != "Failed":
                members.append(_member(one, bool(subgroups)))
        elif not ended and not (terminating and soon):
            _occupy(machines, one)
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
    problem = Problem(machines, members, children, minimum, floor)
    _hold(problem, group, of["Topology"])
    return problem


def _machine(node: dict[str, Any]) -> Machine:
    room = {name: amount(value) for name, value in node["status"]["allocatable"].items()}
    taints = tuple(
        (one["key"], one.get("value", ""))
        for one in node.get("spec", {}).get("taints", [])
        if one["effect"] != "PreferNoSchedule"
    )
    usable = not node.get("spec", {}).get("unschedulable")
    return Machine(node["metadata"]["name"], room, node["metadata"].get("labels", {}), usable, taints)


def asked_by(pod: dict[str, Any]) -> dict[str, int]:
    """What a pod takes of a node."""
    ask = {"pods": 1000}
    for container in pod["spec"]["containers"]:
        for name, value in container["resources"]["requests"].items():
            ask[name] = ask.get(name, 0) + amount(value)
    return ask


def _occupy(machines: dict[str, Machine], pod: dict[str, Any]) -> None:
    machine = machines.get(pod["spec"].get("nodeName", ""))
    if machine is not None:
        for resource, asked in asked_by(pod).items():
            machine.room[resource] = machine.room.get(resource, 0) - asked


def _member(pod: dict[str, Any], named: bool) -> Member:
    return Member(
        pod["metadata"]["name"],
        pod["metadata"]["labels"][LEAF] if named else "",
        asked_by(pod),
        pod["spec"].get("nodeSelector", {}),
        pod["spec"].get("nodeName", ""),
        pod.get("status", {}).get("phase") == "Succeeded",
        frozenset((one["key"], one.get("value", "")) for one in pod["spec"].get("tolerations", [])),
    )


def _hold(problem: Problem, group: dict[str, Any], topologies: list[dict[str, Any]]) -> None:
    """Every constraint, whichever way it is spelled, and whosever Topology it inherits (SPEC §3)."""
    spec = group["spec"]
    older = spec.get("topologyConstraints", {})
    written = [("", spec), *((one["name"], one) for one in spec.get("subGroups", []))]
    own = {name: one["topologyConstraint"] for name, one in written if "topologyConstraint" in one}
    own.update(older.get("subGroups", {}))
    sets = older.get("subGroupSets", [])
    parent = {child: name for name, below in problem.children.items() for child in below}
    covered: set[str] = set()

    def inherited(name: str | None) -> str:
        """The Topology that stands on a tree node, on the set around it, or on one further up."""
        while name is not None:
            around = [one["constraint"] for one in sets if name in one["subGroups"]]
            for constraint in (own.get(name, {}), *around):
                if constraint.get("topology"):
                    return str(constraint["topology"])
            name = parent.get(name)
        annotation = group["metadata"].get("annotations", {}).get("kai.scheduler/topology", "")
        return annotation or (topologies[0]["metadata"]["name"] if len(topologies) == 1 else "")

    def hold(leaves: frozenset[str], constraint: dict[str, Any], above: str | None, name: str | None = None) -> None:
        topology = constraint.get("topology") or inherited(above)
        required, preferred = (_labels(topologies, topology, constraint.get(f"{how}TopologyLevel")) for how in _HOWS)
        if any(constraint.get(f"{how}TopologyLevel") for how in _HOWS):
            covered.update(leaves)
        if required:
            problem.together.append(Together(leaves, required))
        if preferred and name is not None:
            problem.preferred[name] = Together(leaves, preferred)

    for name, constraint in own.items():
        hold(problem.leaves(name), constraint, name, name)
    for one in sets:
        below = frozenset().union(*(problem.leaves(name) for name in one["subGroups"]))
        hold(below, one["constraint"], parent.get(one["subGroups"][0]))
    rest = problem.leaves() - covered
    if "global" in older and rest:
        hold(rest, older["global"], "", "" if rest == problem.leaves() else None)


_HOWS = ("required", "preferred")


def _labels(topologies: list[dict[str, Any]], topology: str, level: str | None) -> tuple[str, ...]:
    """The node labels down to a level that is named by label, by alias or by the last part; none if there is none."""
    for one in topologies:
        levels = one["spec"]["levels"] if one["metadata"]["name"] == topology and level else []
        for means in (
            lambda at: at["nodeLabel"],
            lambda at: at.get("alias"),
            lambda at: at["nodeLabel"].rpartition("/")[2],
        ):
            found = [number for number, at in enumerate(levels) if means(at) == level]
            if found:
                return tuple(at["nodeLabel"] for at in levels[: found[0] + 1])
    return ()
