"""Random problems as documents: small clusters of three levels, trees of mixed leaves, some pods placed already."""

from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st

LEVELS = ("zone", "block", "rack")
# A second Topology: other labels, crossing the first.
CABLES = ("spine", "switch")
LABELS = {"dc": LEVELS, "net": CABLES}
GROUP = "scheduling.run.ai/v2alpha2"
GPU = "gpu.example.com/gpu"
TAINT = {"key": "dedicated", "value": "x"}
SOME_TIME = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Size:
    """How large problems get, and what they may use."""

    nodes: int = 5
    pods: int = 6
    leaves: int = 4
    depth: int = 2
    terminating: bool = False
    preferred: bool = False


SMALL = Size()
LARGE = Size(nodes=12, pods=18, leaves=8, depth=3)


def node(
    name: str,
    gpus: int,
    *path: str,
    cpus: int = 64,
    pods: int = 110,
    cordoned: bool = False,
    taint: str = "",
    **labels: str,
) -> dict[str, Any]:
    """A node at a path of the topology."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**dict(zip(LEVELS, path, strict=False)), **labels}},
        "spec": {
            **({"unschedulable": True} if cordoned else {}),
            **({"taints": [{**TAINT, "effect": taint}]} if taint else {}),
        },
        "status": {"allocatable": {GPU: str(gpus), "cpu": str(cpus), "pods": str(pods)}},
    }


def pod(
    name: str,
    leaf: str = "",
    gpus: int = 1,
    cpus: int = 1,
    on: str = "",
    phase: str = "",
    *,
    gang: str = "g",
    terminating: bool = False,
    tolerates: bool = False,
    **selector: str,
) -> dict[str, Any]:
    """A pod of the gang g, or with an empty gang one of another scheduler."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": {"pod-group-name": gang} if gang else {},
            "labels": {"kai.scheduler/subgroup-name": leaf} if leaf else {},
            **({"deletionTimestamp": SOME_TIME} if terminating else {}),
        },
        "spec": {
            "containers": [{"resources": {"requests": {GPU: str(gpus), "cpu": str(cpus)}}}],
            **({} if gang else {"schedulerName": "default-scheduler"}),
            **({"nodeName": on} if on else {}),
            **({"nodeSelector": selector} if selector else {}),
            **({"tolerations": [TAINT]} if tolerates else {}),
        },
        **({"status": {"phase": phase}} if phase else {}),
    }


def topology(name: str = "dc") -> dict[str, Any]:
    """One of the two Topologies: zone, block, rack; or spine, switch."""
    levels = [{"nodeLabel": label} for label in LABELS[name]]
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def group(**spec: Any) -> dict[str, Any]:
    """The gang g."""
    return {"apiVersion": GROUP, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


def one_in(draw: st.DrawFn, times: int) -> bool:
    """True about once in so many times."""
    return draw(st.integers(0, times - 1)) == 0


@st.composite
def clusters(draw: st.DrawFn, most: int) -> list[dict[str, Any]]:
    """Up to `most` nodes, some without all labels, some cordoned or tainted."""
    nodes = []
    for index in range(draw(st.integers(1, most))):
        path = [draw(st.sampled_from("ab")), draw(st.sampled_from("xy")), draw(st.sampled_from("12"))]
        labelled = draw(st.sampled_from([3, 3, 3, 3, 3, 2, 0]))
        cables = {"spine": draw(st.sampled_from("st")), "switch": draw(st.sampled_from("uv"))}
        nodes.append(
            node(
                f"n{index}",
                draw(st.sampled_from([0, 1, 2, 3, 4, 8])),
                *path[:labelled],
                cpus=draw(st.sampled_from([1, 2, 4, 64])),
                pods=draw(st.sampled_from([1, 2, 110, 110])),
                cordoned=one_in(draw, 12),
                taint=draw(st.sampled_from(["", "", "", "", "", "NoSchedule", "NoExecute", "PreferNoSchedule"])),
                **(cables if not one_in(draw, 8) else {}),
            )
        )
    return nodes


@st.composite
def constraints(draw: st.DrawFn, size: Size) -> dict[str, Any]:
    """Nothing, or a TopologyConstraint with a required level, a preferred one or both."""
    if draw(st.integers(0, 4)) < 2:
        return {}
    name = draw(st.sampled_from(["dc", "dc", "dc", "net"]))
    found = {"topology": name, "requiredTopologyLevel": draw(st.sampled_from(LABELS[name]))}
    if size.preferred and draw(st.booleans()):
        found["preferredTopologyLevel"] = draw(st.sampled_from(LABELS[name]))
        if draw(st.booleans()):
            del found["requiredTopologyLevel"]
    return found


def _held(constraint: dict[str, Any]) -> dict[str, Any]:
    return {"topologyConstraint": constraint} if constraint else {}


@st.composite
def trees(draw: st.DrawFn, size: Size, most_pods: int) -> dict[str, Any]:
    """The spec of a gang: SubGroups to some depth, any k of n, a floor, sets, a global constraint."""
    subgroups: list[dict[str, Any]] = []
    children: dict[str, list[str]] = {"": []}
    leaves, needed = 0, 0

    def grow(parent: str, depth: int) -> None:
        nonlocal leaves, needed
        for _ in range(draw(st.integers(1, 4 if depth == 1 else 3))):
            if leaves >= size.leaves or needed >= most_pods:
                return
            name = f"{parent}-{len(children[parent])}" if parent else f"s{len(children[''])}"
            children.setdefault(parent, []).append(name)
            entry: dict[str, Any] = {"name": name, **({"parent": parent} if parent else {})}
            subgroups.append({**entry, **_held(draw(constraints(size)))})
            if depth < size.depth and draw(st.integers(0, 2)) == 0:
                children[name] = []
                grow(name, depth + 1)
                if children[name] and draw(st.booleans()):
                    here = next(one for one in subgroups if one["name"] == name)
                    here["minSubGroup"] = draw(st.integers(1, len(children[name])))
            if not children.get(name):
                children.pop(name, None)
                minimum = min(draw(st.sampled_from([1, 1, 2, 3])), max(1, most_pods - needed))
                next(one for one in subgroups if one["name"] == name)["minMember"] = minimum
                leaves, needed = leaves + 1, needed + minimum

    spec: dict[str, Any] = _held(draw(constraints(size)))
    if one_in(draw, 6):
        return {**spec, "minMember": draw(st.integers(1, max(1, most_pods - 1)))}
    grow("", 1)
    spec["subGroups"] = subgroups
    choice = draw(st.sampled_from(["all", "all", "some", "floor"]))
    if choice == "some":
        spec["minSubGroup"] = draw(st.integers(1, len(children[""])))
    elif choice == "floor":
        spec["minMember"] = draw(st.integers(1, needed + 2))
    older = draw(_older(size, children))
    return {**spec, **({"topologyConstraints": older} if older else {})}


@st.composite
def _older(draw: st.DrawFn, size: Size, children: dict[str, list[str]]) -> dict[str, Any]:
    """Sets of siblings, and a constraint for what nothing else holds."""
    found: dict[str, Any] = {}
    sets = []
    for below in children.values():
        if len(below) > 1 and one_in(draw, 3):
            first = draw(st.integers(0, len(below) - 2))
            members = below[first : draw(st.integers(first + 2, len(below)))]
            constraint = draw(constraints(size))
            if constraint:
                sets.append({"subGroups": members, "constraint": constraint})
    if sets:
        found["subGroupSets"] = sets
    if one_in(draw, 6):
        constraint = draw(constraints(size))
        if constraint:
            found["global"] = constraint
    return found


@st.composite
def _shapes(draw: st.DrawFn) -> dict[str, Any]:
    """What a pod asks for."""
    return {
        "gpus": draw(st.sampled_from([0, 1, 1, 1, 2, 3, 4])),
        "cpus": draw(st.sampled_from([0, 1, 1, 1, 2])),
        "tolerates": one_in(draw, 3),
        **({"zone": draw(st.sampled_from("ab"))} if one_in(draw, 10) else {}),
    }


@st.composite
def members(draw: st.DrawFn, spec: dict[str, Any], nodes: list[str], size: Size) -> list[dict[str, Any]]:
    """Pods of the gang, mostly of one shape per leaf; some are placed, have succeeded or are terminating."""
    parents = {one.get("parent") for one in spec.get("subGroups", [])}
    leaves = [(one["name"], one["minMember"]) for one in spec.get("subGroups", []) if one["name"] not in parents]
    pods: list[dict[str, Any]] = []
    states = ["", "", "", "", "", "placed", "succeeded", *(["terminating", "failed"] if size.terminating else [])]
    fewest = -1 if one_in(draw, 10) else 0
    for leaf, minimum in leaves or [("", spec["minMember"])]:
        usual = draw(_shapes())
        missing = minimum + draw(st.sampled_from([0, 0, 0, 1, 1, 2, fewest]))
        while missing > 0 and len(pods) < size.pods + 4:
            state = draw(st.sampled_from(states))
            on = draw(st.sampled_from(nodes)) if state in ("placed", "terminating") else ""
            phase = {"placed": "Running", "succeeded": "Succeeded", "failed": "Failed"}.get(state, "")
            shape = draw(_shapes()) if one_in(draw, 5) else usual
            pods.append(pod(f"p{len(pods):02}", leaf, on=on, phase=phase, terminating=state == "terminating", **shape))
            missing -= state not in ("terminating", "failed")
    return pods


@st.composite
def problems(draw: st.DrawFn, size: Size = SMALL) -> list[dict[str, Any]]:
    """A cluster, a gang, its pods, and pods of others."""
    nodes = draw(clusters(size.nodes))
    names = [one["metadata"]["name"] for one in nodes]
    spec = draw(trees(size, size.pods))
    pods = draw(members(spec, names, size))
    for index in range(draw(st.integers(0, 3)) if size.terminating else int(one_in(draw, 3))):
        terminating = size.terminating and draw(st.integers(0, 2)) > 0
        where, gpus = draw(st.sampled_from(names)), draw(st.sampled_from([0, 1, 2, 4]))
        pods.append(pod(f"o{index}", "", gpus, 1, where, "Running", gang="", terminating=terminating))
    return [*nodes, topology("dc"), topology("net"), group(**spec), *pods]


@st.composite
def tight(draw: st.DrawFn, size: Size = LARGE) -> list[dict[str, Any]]:
    """A gang that fits exactly, as it was built; then perhaps a device moves, and what is not needed is added.

    These are the ones that have to be searched for: counting alone rarely decides them.
    """
    places = [
        (name, "z", block, f"{block}{rack}")
        for name, (block, rack) in (
            (f"n{index}", draw(st.tuples(st.sampled_from("xy"), st.sampled_from("12"))))
            for index in range(draw(st.integers(2, size.nodes)))
        )
    ]
    second = draw(st.booleans())
    have = {place[0]: [0, 0] for place in places}
    pods: list[dict[str, Any]] = []
    subgroups: list[dict[str, Any]] = []
    sizes = draw(st.sampled_from([(1,), (1, 2, 4), (1, 3), (2, 3), (2, 3, 5)]))

    def one(leaf: str, where: list[str]) -> None:
        gpus = draw(st.sampled_from(sizes))
        cpus = draw(st.sampled_from([1, 2])) if second else 0
        if where:
            mine = have[draw(st.sampled_from(where))]
            mine[0], mine[1] = mine[0] + gpus, mine[1] + cpus
        pods.append(pod(f"p{len(pods):02}", leaf, gpus, cpus))

    needed = 0
    for index in range(draw(st.integers(1, size.leaves))):
        level = draw(st.sampled_from(["rack", "rack", "block", ""]))
        decoy = one_in(draw, 5) and index > 0
        anchor = draw(st.sampled_from(places))
        at = {"rack": 3, "block": 2, "": 1}[level]
        where = [] if decoy else [place[0] for place in places if place[at] == anchor[at]]
        minimum = draw(st.integers(1, 3))
        if len(pods) + minimum > size.pods:
            break
        constraint = {"topology": "dc", "requiredTopologyLevel": level} if level else {}
        subgroups.append({"name": f"l{index}", "minMember": minimum, **_held(constraint)})
        for _ in range(minimum):
            one(f"l{index}", where)
        if one_in(draw, 4):
            one(f"l{index}", [])
        needed += not decoy
    for _ in range(draw(st.integers(0, 3))):
        taken, given = (draw(st.sampled_from(places))[0] for _ in range(2))
        some = min(have[taken][0], draw(st.sampled_from([1, 1, 2])))
        have[taken][0], have[given][0] = have[taken][0] - some, have[given][0] + some
    nodes = [node(name, have[name][0], *path, cpus=have[name][1]) for name, *path in places]
    root = {"minSubGroup": needed} if needed < len(subgroups) else {}
    return [*nodes, topology("dc"), group(subGroups=subgroups, **root), *draw(st.permutations(pods))]


def planted(random: Random) -> list[dict[str, Any]]:
    """Up to 30 nodes and a tree of branches that was laid out on them exactly; then a few devices move."""
    shape = [random.choice([1, 2]), random.choice([1, 2, 3]), random.choice([1, 2, 3])]
    places = [
        (f"n{index:02}", *(f"{level}{random.randrange(most)}" for level, most in zip("zbr", shape, strict=True)))
        for index in range(random.randint(6, 30))
    ]
    sizes = random.choice([(1,), (1, 2, 4), (1, 2, 4, 8), (2, 3), (1, 3, 5), (2, 3, 5, 7)])
    second = random.random() < 0.4
    have = {place[0]: [0, 0] for place in places}
    subgroups: list[dict[str, Any]] = []
    pods: list[dict[str, Any]] = []

    def inside(level: str, around: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
        depth = LEVELS.index(level) + 2 if level else 1
        anchor = random.choice(around)
        return [place for place in around if place[1:depth] == anchor[1:depth]]

    def ask() -> tuple[int, int]:
        return random.choice(sizes), random.choice([1, 2, 3]) if second else 0

    def fill(leaf: str, minimum: int, where: list[tuple[str, ...]]) -> None:
        asked = ask()
        for _ in range(minimum):
            asked = ask() if random.random() < 0.2 else asked
            pods.append(pod(f"p{len(pods):03}", leaf, *asked))
            if where:
                mine = have[random.choice(where)[0]]
                mine[0], mine[1] = mine[0] + asked[0], mine[1] + asked[1]
        if random.random() < 0.2:
            pods.append(pod(f"p{len(pods):03}", leaf, *ask()))

    level = random.choice(["", "", "zone", "block"])
    spec = _required(level)
    whole = inside(level, places)
    for number in range(random.randint(1, 4)):
        level = random.choice(["", "block", "zone", "rack"])
        branch: dict[str, Any] = {"name": f"b{number}", **_required(level)}
        around, leaves, spare = inside(level, whole), random.randint(1, 4), 0
        subgroups.append(branch)
        for leaf in range(leaves):
            level, minimum = random.choice(["", "rack", "rack", "block"]), random.randint(1, 4)
            name = f"b{number}-{leaf}"
            subgroups.append({"name": name, "parent": f"b{number}", "minMember": minimum, **_required(level)})
            decoy = leaf > 0 and random.random() < 0.15
            fill(name, minimum, [] if decoy else inside(level, around))
            spare += decoy
        if spare:
            branch["minSubGroup"] = leaves - spare
    for _ in range(random.randint(0, 4)):
        taken, given = random.choice(places)[0], random.choice(places)[0]
        some = min(have[taken][0], random.choice([1, 1, 2]))
        have[taken][0], have[given][0] = have[taken][0] - some, have[given][0] + some
    random.shuffle(pods)
    nodes = [node(name, have[name][0], *path, cpus=have[name][1] if second else 64) for name, *path in places]
    return [*nodes, topology("dc"), group(subGroups=subgroups, **spec), *pods]


def _required(level: str) -> dict[str, Any]:
    return _held({"topology": "dc", "requiredTopologyLevel": level} if level else {})
