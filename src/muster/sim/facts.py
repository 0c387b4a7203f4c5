"""What pods, nodes, gangs and queues say, read from their documents by code that nothing else uses.

The judge shares with muster how PodGroups are read and validated, what trees, quantities, durations and the built-in
priorities mean, and nothing that decides.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from muster.api.cluster import BUILT_IN_PRIORITIES
from muster.api.duration import parse_ns
from muster.api.kinds import POD_GROUP, read_object
from muster.api.podgroup import PodGroup
from muster.api.quantity import base_units, held_units
from muster.api.tree import NONE, Constraint, Tree
from muster.api.validation.context import Context
from muster.api.validation.podgroup import check
from muster.api.validation.violation import ERROR, Report
from muster.errors import BadObject

Document = dict[str, Any]
Key = tuple[str, str]
Amounts = Mapping[str, int]

SCHEDULERS = ("kai-scheduler",)
GANG, SUBGROUP, SKIP = "pod-group-name", "kai.scheduler/subgroup-name", "kai.scheduler/skip-podgrouper"
ADMITTED = "muster.dev/admitted"
ALLOWED = "kai.scheduler/allowed-namespaces"
DEFAULT_QUEUE = "default-queue"
WAITING, GATED, PLACED, LEAVING, SUCCEEDED, FAILED = "waiting", "gated", "placed", "leaving", "succeeded", "failed"
PREEMPTIBLE, FIRM, SEMI = "preemptible", "non-preemptible", "semi-preemptible"
_FIRM_FROM, _GRACE_S, _PODS_OF_A_NODE = 100, 60.0, 110
_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104


class Member(NamedTuple):
    """A pod. `by` is who sent it to its node; `asks` is what it takes there, in base units."""

    key: Key
    uid: str
    created: str
    ours: bool
    gang: Key | None
    label: str | None
    state: str
    node: str
    nominated: str
    by: str
    asks: Amounts
    spec: Document
    # The queue that it is charged to, and the UID of the gang that it was bound for; none when it has no mark.
    mark: tuple[str, str] | None = None
    labels: Mapping[str, str] = {}

    @property
    def holds(self) -> bool:
        """Whether it takes room on its node."""
        return bool(self.node) and self.state in (PLACED, LEAVING)

    @property
    def age(self) -> tuple[str, str]:
        """Older ones are smaller."""
        return self.created, self.key[1]


class Node(NamedTuple):
    """A node."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Document, ...]
    ready: bool
    has: Amounts


class Port(NamedTuple):
    """A port of a node; no address stands for all of them."""

    protocol: str
    number: int
    address: str


class Hold(NamedTuple):
    """Leaves whose pods share a domain of a required level."""

    leaves: frozenset[int]
    constraint: Constraint
    says: str


class Group(NamedTuple):
    """A PodGroup. `tree` is None when its SubGroups make none, `wrong` says what is wrong with it."""

    key: Key
    uid: str
    spec: Document
    status: Document
    annotations: Mapping[str, str]
    tree: Tree | None
    holds: tuple[Hold, ...]
    wrong: str

    @property
    def queue(self) -> str:
        """The queue that it names."""
        return str(self.spec.get("queue") or DEFAULT_QUEUE)

    @property
    def kept(self) -> list[Document]:
        """The room that is kept for pods of it that were moved."""
        return list(self.status.get("kept") or ())

    @property
    def grace_s(self) -> float:
        """How long it may be below its minimum; negative: for ever."""
        stated = self.spec.get("stalenessGracePeriod")
        try:
            return _GRACE_S if stated is None else parse_ns(stated) / 10**9
        except BadObject:
            return _GRACE_S

    def leaf_of(self, pod: Member) -> int:
        """The leaf of a pod; NONE when it is set aside."""
        return NONE if self.tree is None else self.tree.leaf_of(pod.label)


def member_of(document: Document, by: str, asks: Amounts | None = None) -> Member:
    """A pod as its document says. What it asks for never changes, and may be known."""
    metadata, spec, status = document["metadata"], document.get("spec") or {}, document.get("status") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    ours = spec.get("schedulerName") in SCHEDULERS
    name = annotations.get(GANG, "")
    return Member(
        key=(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        created=metadata.get("creationTimestamp") or "",
        ours=ours,
        gang=(metadata["namespace"], name) if ours and name else None,
        label=labels.get(SUBGROUP),
        state=_state(metadata, spec, status),
        node=spec.get("nodeName") or "",
        nominated=status.get("nominatedNodeName") or "",
        by=by,
        asks=asks_of(spec) if asks is None else asks,
        spec=spec,
        mark=_mark(annotations.get(ADMITTED)),
        labels=labels,
    )


def _mark(text: str | None) -> tuple[str, str] | None:
    queue, slash, uid = (text or "").rpartition("/")
    return (queue, uid) if slash and queue and uid else None


def _state(metadata: Document, spec: Document, status: Document) -> str:
    phase = status.get("phase")
    if phase in ("Succeeded", "Failed"):
        return SUCCEEDED if phase == "Succeeded" else FAILED
    if metadata.get("deletionTimestamp"):
        return LEAVING
    if spec.get("nodeName"):
        return PLACED
    return GATED if spec.get("schedulingGates") else WAITING


def asks_of(spec: Document) -> Amounts:
    """What a pod takes of a node: its containers together, or the largest of those that only start it."""
    together, sidecars, largest = dict[str, int](), dict[str, int](), dict[str, int]()
    for container in spec.get("containers") or ():
        _add(together, _stated(container.get("resources")))
    for container in spec.get("initContainers") or ():
        own = dict(_stated(container.get("resources")))
        if container.get("restartPolicy") == "Always":
            _add(sidecars, own)
            own = dict(sidecars)
        else:
            _add(own, sidecars)
        largest = {name: max(own.get(name, 0), largest.get(name, 0)) for name in (*own, *largest)}
    _add(together, sidecars)
    asked = {name: max(together.get(name, 0), largest.get(name, 0)) for name in (*together, *largest)}
    if spec.get("resources"):
        whole = _stated(spec["resources"])
        asked.update({name: one for name, one in whole.items() if name in ("cpu", "memory")})
    _add(asked, _amounts(spec.get("overhead") or {}))
    return {**{name: amount for name, amount in asked.items() if amount > 0}, "pods": 1}


def _stated(resources: Document | None) -> Amounts:
    resources = resources or {}
    return {**_amounts(resources.get("limits") or {}), **_amounts(resources.get("requests") or {})}


def _amounts(stated: Document, units: Callable[[str, Any], int] = base_units) -> Amounts:
    found = {}
    for name, amount in stated.items():
        try:
            found[name] = units(name, amount)
        except BadObject:
            continue
    return found


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def node_of(document: Document) -> Node:
    """A node as its document says."""
    metadata, spec, status = document["metadata"], document.get("spec") or {}, document.get("status") or {}
    taints = list(spec.get("taints") or ())
    if spec.get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    ready = [one.get("status") == "True" for one in status.get("conditions") or () if one.get("type") == "Ready"]
    stated = status.get("allocatable") or status.get("capacity") or {}
    has = {"pods": _PODS_OF_A_NODE, **_amounts(stated, held_units)}
    return Node(metadata["name"], metadata.get("labels") or {}, tuple(taints), all(ready), has)


def forbids(node: Node, spec: Document) -> str:
    """Why a pod may not go to a node, whatever room there is; empty: it may."""
    if not node.ready:
        return "the node is not ready"
    for label, value in (spec.get("nodeSelector") or {}).items():
        if node.labels.get(label) != value:
            return f"its nodeSelector asks for {label}={value}, the node has {node.labels.get(label)}"
    affinity = spec.get("affinity") or {}
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None and not any(_meets(node, term) for term in required.get("nodeSelectorTerms") or ()):
        return "no term of its required node affinity holds"
    for taint in node.taints:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not _tolerated(taint, spec.get("tolerations") or ()):
            return f"it does not tolerate the taint {taint['key']}"
    return ""


def _meets(node: Node, term: Document) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    by_label = not expressions or meets_labels(node, term)
    return by_label and all(one["key"] == "metadata.name" and _holds(node.name, one) for one in fields)


def meets_labels(node: Node, term: Document) -> bool:
    """Whether the labels of a node are as a term of a selector wants them."""
    expressions = term.get("matchExpressions") or ()
    return bool(expressions) and all(_holds(node.labels.get(one["key"]), one) for one in expressions)


def _holds(value: str | None, requirement: Document) -> bool:
    operator = str(requirement["operator"])
    values: list[str] = requirement.get("values") or []
    if operator in ("In", "NotIn"):
        return (value in values) == (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    try:
        return int(value or "") > int(values[0]) if operator == "Gt" else int(value or "") < int(values[0])
    except (ValueError, IndexError):
        return False


def _tolerated(taint: Document, tolerations: Any) -> bool:
    for one in tolerations:
        if one.get("effect") and one["effect"] != taint.get("effect"):
            continue
        if one.get("operator") == "Exists":
            if one.get("key", "") in ("", taint["key"]):
                return True
        elif one.get("key") == taint["key"] and one.get("value", "") == taint.get("value", ""):
            return True
    return False


def ports_of(spec: Document) -> Iterator[Port]:
    """The ports of its node that a pod takes."""
    for container in spec.get("containers") or ():
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else 0)
            address = port.get("hostIP") or ""
            if number:
                yield Port(port.get("protocol") or "TCP", number, "" if address == _EVERY_ADDRESS else address)


def clash(one: Document, other: Document) -> Port | None:
    """A port of a node that two pods want both."""
    for mine in ports_of(one):
        for theirs in ports_of(other):
            same = mine[:2] == theirs[:2]
            if same and (mine.address == theirs.address or not mine.address or not theirs.address):
                return mine
    return None


def is_readable(spec: Document) -> bool:
    """Whether everything that a pod asks for is a quantity."""
    try:
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            for amounts in (container.get("resources") or {}).values():
                for name, amount in amounts.items() if isinstance(amounts, dict) else ():
                    base_units(name, amount)
    except BadObject:
        return False
    return True


def not_known(spec: Document) -> str:
    """The first rule of a pod that muster must hold it for, because it does not know it (SPEC §12)."""
    affinity = spec.get("affinity") or {}
    for name in ("podAffinity", "podAntiAffinity"):
        if (affinity.get(name) or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
            return f"affinity.{name}"
    if any(one.get("whenUnsatisfiable") != "ScheduleAnyway" for one in spec.get("topologySpreadConstraints") or ()):
        return "topologySpreadConstraints"
    if spec.get("resourceClaims"):
        return "resourceClaims"
    return "workloadRef" if spec.get("workloadRef") else ""


def group_of(document: Document) -> Group:
    """A PodGroup as its document says."""
    metadata = document["metadata"]
    found, problems = read_object(document, POD_GROUP, strict=False)
    assert isinstance(found, PodGroup)
    report = Report([])
    tree = check(found, report, Context())
    wrong = [one.message for one in report.violations if one.severity == ERROR] + [one.message for one in problems]
    return Group(
        key=(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        spec=document.get("spec") or {},
        status=document.get("status") or {},
        annotations=metadata.get("annotations") or {},
        tree=tree,
        holds=tuple(_required(tree)) if tree is not None else (),
        wrong=wrong[0] if wrong else "",
    )


def _required(tree: Tree) -> Iterator[Hold]:
    """Every required level, and the leaves that it holds together."""
    for row, node in enumerate(tree.nodes):
        if node.constraint is not None and node.constraint.required:
            yield Hold(frozenset(tree.leaves_below(row)), node.constraint, node.name or "the gang")
    for together in tree.together:
        if together.constraint.required:
            leaves = frozenset(leaf for row in together.members for leaf in tree.leaves_below(row))
            yield Hold(leaves, together.constraint, "a set of " + tree.nodes[together.members[0]].name)


def labels_of(constraint: Constraint, topologies: Mapping[str, Document]) -> list[str] | None:
    """The node labels that tell the domains of a required level apart, the widest first; None: no such level."""
    if constraint.topology:
        topology = topologies.get(constraint.topology)
    else:
        topology = next(iter(topologies.values())) if len(topologies) == 1 else None
    levels = ((topology or {}).get("spec") or {}).get("levels") or []
    labels = [one["nodeLabel"] for one in levels]
    for names in (labels, [one.get("alias") for one in levels], [one.rpartition("/")[2] for one in labels]):
        if constraint.required in names:
            return labels[: names.index(constraint.required) + 1]
    return None


def domain_of(node: Node, labels: list[str]) -> tuple[str, ...] | None:
    """The domain of a node; None when it lacks one of the labels."""
    found = [node.labels.get(label) for label in labels]
    return None if None in found else tuple(map(str, found))


def preemptibility_of(group: Group, priority: int) -> str:
    """What may be evicted of a gang: as it says, else by the priority that counts; of one that runs never less than it
    was admitted with.
    """
    stated = str(group.spec.get("preemptibility") or (FIRM if priority >= _FIRM_FROM else PREEMPTIBLE))
    admitted = str(group.status.get("admittedPreemptibility") or stated)
    return min(stated, admitted, key=(PREEMPTIBLE, SEMI, FIRM).index)


def priority_asked(name: str, classes: Mapping[str, Document]) -> int:
    """The value of a class; of one that there is not, that of the default class, else 0."""
    if name in classes:
        return int(classes[name].get("value", 0))
    if name in BUILT_IN_PRIORITIES:
        return BUILT_IN_PRIORITIES[name]
    return min((int(one.get("value", 0)) for one in classes.values() if one.get("globalDefault")), default=0)
