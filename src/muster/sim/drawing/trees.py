"""Draws trees: the specs of gangs of every form, and how many pods each leaf has.

A form is one small function of the dice and the most pods that it may have. To add one, write it and give it a weight.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from muster.sim.drawing.dice import Dice

Document = dict[str, Any]


class Tree(NamedTuple):
    """A spec without queue, priority and levels; pods per leaf ("" when it has no subgroups)."""

    spec: Document
    pods: dict[str, int]


Form = Callable[[Dice, int], Tree]


def flat(dice: Dice, most: int) -> Tree:
    """All pods or none."""
    count = dice.whole(1, min(most, 8))
    return Tree({"minMember": count}, {"": count})


def elastic(dice: Dice, most: int) -> Tree:
    """Some pods are needed, more are welcome."""
    count = dice.whole(2, min(most, 8))
    return Tree({"minMember": dice.whole(1, count - 1)}, {"": count})


def leader(dice: Dice, most: int) -> Tree:
    """One leader and its workers, of which some may be spare."""
    count = dice.whole(1, min(most - 1, 6))
    parts = [_leaf("leader", 1), _leaf("workers", dice.whole(1, count))]
    return Tree({"subGroups": parts}, {"leader": 1, "workers": count})


def replicas(dice: Dice, most: int) -> Tree:
    """Equal replicas, of which a few are enough."""
    size = dice.whole(1, min(3, max(1, most // 3)))
    count = dice.whole(2, max(2, min(4, most // size)))
    parts = [_leaf(f"r{number}", size) for number in range(count)]
    return Tree({"minSubGroup": dice.whole(1, count), "subGroups": parts}, {one["name"]: size for one in parts})


def disaggregated(dice: Dice, most: int) -> Tree:
    """Prefill replicas, of which some are needed, and a decode part."""
    size = dice.whole(1, min(2, max(1, most // 4)))
    count = dice.whole(2, 3)
    parts = [_leaf(f"prefill-{number}", size, "prefill") for number in range(count)]
    decode = dice.whole(1, max(1, min(4, most - size * count)))
    branch = {"name": "prefill", "minSubGroup": dice.whole(1, count)}
    spec = {"subGroups": [branch, *parts, _leaf("decode", dice.whole(1, decode))]}
    return Tree(spec, {**{one["name"]: size for one in parts}, "decode": decode})


def nested(dice: Dice, most: int) -> Tree:
    """Replicas of a leader and workers each, of which some are needed."""
    count, workers = dice.whole(2, 3), dice.whole(1, max(1, min(2, most // 3 - 1)))
    parts: list[Document] = []
    pods: dict[str, int] = {}
    for number in range(count):
        name = f"r{number}"
        parts += [{"name": name}, _leaf(f"{name}-leader", 1, name), _leaf(f"{name}-workers", workers, name)]
        pods |= {f"{name}-leader": 1, f"{name}-workers": workers + dice.whole(0, 1)}
    return Tree({"minSubGroup": dice.whole(1, count), "subGroups": parts}, pods)


def deep(dice: Dice, most: int) -> Tree:
    """Two branches of replicas; at each of them some are needed."""
    size = dice.whole(1, max(1, min(2, most // 5)))
    parts: list[Document] = []
    pods: dict[str, int] = {}
    for branch in ("east", "west"):
        count = dice.whole(1, 3)
        parts.append({"name": branch, "minSubGroup": dice.whole(1, count)})
        for number in range(count):
            parts.append(_leaf(f"{branch}-{number}", size, branch))
            pods[f"{branch}-{number}"] = size
    return Tree({"minSubGroup": dice.whole(1, 2), "subGroups": parts}, pods)


def floor(dice: Dice, most: int) -> Tree:
    """Every part is needed, and so many pods in all, from whichever part."""
    counts = [dice.whole(1, max(1, min(4, most // 2))) for _ in range(2)]
    minimums = [dice.whole(1, count) for count in counts]
    parts = [_leaf(name, minimum) for name, minimum in zip("ab", minimums, strict=True)]
    spec = {"minMember": dice.whole(sum(minimums), sum(counts)), "subGroups": parts}
    return Tree(spec, dict(zip("ab", counts, strict=True)))


def invalid(dice: Dice, most: int) -> Tree:
    """What nobody may write, and somebody does: it must not hurt anybody else."""
    tree = dice.one_of([elastic, leader, replicas])(dice, max(most, 4))
    return dice.one_of(
        [
            Tree({**tree.spec, "minSubGroup": 9}, tree.pods),
            Tree({"minMember": 0}, {"": 2}),
            Tree({"subGroups": [_leaf("a", 1, "nobody")]}, {"a": 1}),
            Tree({"subGroups": [_leaf("a", 1, "b"), {"name": "b", "parent": "a"}]}, {"a": 1}),
        ]
    )


TREES: dict[Form, float] = {
    flat: 18,
    elastic: 18,
    leader: 12,
    replicas: 16,
    disaggregated: 10,
    nested: 12,
    deep: 5,
    floor: 6,
    invalid: 2,
}


def _leaf(name: str, minimum: int, parent: str = "") -> Document:
    return {"name": name, "minMember": minimum, **({"parent": parent} if parent else {})}


# Levels.


def hold(dice: Dice, tree: Tree, topologies: dict[str, list[str]]) -> Document:
    """The spec with required and preferred levels, at the root and below, the narrower the deeper."""
    levels = topologies["t"]
    row = dice.whole(0, len(levels) - 1)
    spec = dict(tree.spec)
    root = _constraint(dice, topologies, row, "at the root")
    if root:
        spec["topologyConstraint"] = root
    parts = spec.get("subGroups", [])
    tops = [one["name"] for one in parts if not one.get("parent")]
    if not tops:
        return spec
    way = dice.weighted({"each": 70, "one": 12, "set": 10, "global": 8})
    narrow = dice.whole(row, len(levels) - 1) if root else dice.whole(0, len(levels) - 1)
    if way in ("each", "one"):
        below = _constraint(dice, topologies, narrow, "below")
        meant = tops if way == "each" else [dice.one_of(tops)]
        spec["subGroups"] = [_held(one, below) if one["name"] in meant else one for one in parts]
    elif way == "set" and len(tops) > 1:
        below = _constraint(dice, topologies, narrow, "below")
        members = dice.some_of(tops, dice.whole(2, len(tops)))
        if below:
            spec["topologyConstraints"] = {"subGroupSets": [{"subGroups": sorted(members), "constraint": below}]}
    elif way == "global" and "topologyConstraint" in spec:
        spec["topologyConstraints"] = {"global": spec.pop("topologyConstraint")}
    return spec


def _held(part: Document, constraint: Document) -> Document:
    return {**part, "topologyConstraint": constraint} if constraint else part


def _constraint(dice: Dice, topologies: dict[str, list[str]], row: int, where: str) -> Document:
    found: Document = {}
    name, levels = "t", topologies["t"]
    if "power" in topologies and dice.has("the other topology"):
        name, levels = "power", topologies["power"]
        row = 0
    if dice.has(f"required {where}"):
        found["requiredTopologyLevel"] = levels[row]
    if dice.has(f"preferred {where}"):
        found["preferredTopologyLevel"] = levels[min(row + dice.whole(0, 1), len(levels) - 1)]
    if found and (len(topologies) > 1 or dice.has("the topology is named")):
        found["topology"] = name
    return found
