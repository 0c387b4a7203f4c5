"""The rules of our kinds that an API server checks by itself, each as CEL for a real one and as a function for ours.

They are the part of SPEC §4 that fits an API server's cost limits; `validation` has all of them. A rule stands beside
the struct it is about, so every place that the struct is used carries it. What a rule is asked about has passed the
schema: types are right and required fields are there.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from muster.api import evictionrequest, interface, podgroup, queue, topology

Value = Mapping[str, Any]


class Rule(NamedTuple):
    """A rule in CEL, what is said when it is broken, and the same rule as a function of the value and the old value."""

    text: str
    says: str
    holds: Callable[[Value, Any], bool]


def _labels(spec: Value) -> list[str]:
    return [level["nodeLabel"] for level in spec["levels"]]


def _hostname_is_last(spec: Value) -> bool:
    labels = _labels(spec)
    return topology.HOSTNAME not in labels or labels[-1] == topology.HOSTNAME


def _enough_below_root(field: str) -> Rule:
    def holds(spec: Value, _: Any) -> bool:
        below = spec.get(field) or ()
        return not below or spec.get("minSubGroup", 0) <= sum(not one.get("parent") for one in below)

    return Rule(
        f"!has(self.minSubGroup) || !has(self.{field}) || size(self.{field}) == 0 || self.minSubGroup <= "
        f"self.{field}.filter(g, !has(g.parent) || g.parent == '').size()",
        "minSubGroup is more than the number of SubGroups directly below the PodGroup",
        holds,
    )


def _amount(field: str) -> Rule:
    return Rule(
        f"!has(self.{field}) || self.{field} >= 0.0 || self.{field} == -1.0",
        f"{field} is -1 (unlimited) or 0 or more",
        lambda amounts, _: amounts.get(field, 0) >= 0 or amounts[field] == -1,
    )


_ONE_MINIMUM = Rule(
    "!has(self.minMember) || self.minMember == 0 || !has(self.minSubGroup)",
    "minMember and minSubGroup can't both be set: pods are counted in leaves, children in branches",
    lambda group, _: not group.get("minMember") or "minSubGroup" not in group,
)
RULES: dict[type, list[Rule]] = {
    podgroup.PodGroupSpec: [
        _ONE_MINIMUM,
        Rule(
            "!has(self.subGroups) || !has(self.subgroups)",
            "subGroups and subgroups can't both be set: keep subGroups",
            lambda spec, _: "subGroups" not in spec or "subgroups" not in spec,
        ),
        Rule(
            "!has(self.minSubGroup) || (has(self.subGroups) && size(self.subGroups) > 0) || "
            "(has(self.subgroups) && size(self.subgroups) > 0)",
            "minSubGroup counts SubGroups, and there are none: write minMember instead",
            lambda spec, _: "minSubGroup" not in spec or bool(spec.get("subGroups") or spec.get("subgroups")),
        ),
        _enough_below_root("subGroups"),
        _enough_below_root("subgroups"),
    ],
    podgroup.SubGroup: [
        _ONE_MINIMUM,
        Rule(
            "!has(self.parent) || self.parent != self.name",
            "a SubGroup can't be its own parent",
            lambda group, _: "parent" not in group or group["parent"] != group["name"],
        ),
    ],
    topology.TopologySpec: [
        Rule(
            "self.levels.all(a, self.levels.exists_one(b, b.nodeLabel == a.nodeLabel))",
            "every level needs a nodeLabel of its own",
            lambda spec, _: len(set(_labels(spec))) == len(_labels(spec)),
        ),
        Rule(
            f"!self.levels.exists(a, a.nodeLabel == '{topology.HOSTNAME}') || "
            f"self.levels[size(self.levels) - 1].nodeLabel == '{topology.HOSTNAME}'",
            f"{topology.HOSTNAME} is the narrowest level there is: it comes last",
            lambda spec, _: _hostname_is_last(spec),
        ),
        Rule(
            "self.levels.map(a, a.nodeLabel) == oldSelf.levels.map(a, a.nodeLabel)",
            "the labels of a Topology stay as they were created: create a new one",
            lambda spec, old: old is None or _labels(spec) == _labels(old),
        ),
    ],
    evictionrequest.EvictionRequestSpec: [
        Rule(
            "self == oldSelf",
            "an EvictionRequest stays as it was created: create a new one",
            lambda spec, old: old is None or spec == old,
        ),
    ],
    queue.QueueResource: [_amount("quota"), _amount("limit")],
    queue.Queue: [
        Rule(
            "!has(self.spec) || !has(self.spec.parentQueue) || self.spec.parentQueue != self.metadata.name",
            "a queue can't be its own parent",
            lambda one, _: one.get("spec", {}).get("parentQueue") != one["metadata"]["name"],
        )
    ],
    interface.KindReference: [
        Rule(
            "(has(self.group) && self.group != '') || !(self.kind in ['Secret', 'ConfigMap'])",
            "Secrets and ConfigMaps can't be read: their content could leak into names and labels",
            lambda kind, _: bool(kind.get("group")) or kind["kind"] not in ("Secret", "ConfigMap"),
        )
    ],
    interface.Reference: [
        Rule(
            "has(self.lookup) != has(self.list)",
            "a reference needs either lookup or list",
            lambda reference, _: ("lookup" in reference) != ("list" in reference),
        )
    ],
}

# What answers each rule, by its text.
CHECKS: dict[str, Callable[[Any, Any], bool]] = {rule.text: rule.holds for rules in RULES.values() for rule in rules}
