"""Older spellings of a PodGroup become the normal one, and every change is told.

It works on the document, not on the struct, so that nothing it does not know is lost. Where an older form can mean two
things it asks instead of guessing, and leaves that object as it was.
"""

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

from muster.api.documents import Problem, child_path
from muster.api.kinds import POD_GROUP, kind_of, read_object
from muster.api.podgroup import IGNORED_FIELDS, PodGroup
from muster.api.tree import Tree, minimum_pods
from muster.api.validation import ERROR, Context, validate
from muster.api.validation.podgroup import tree_of

PODS, SUBGROUPS = "pods", "subgroups"


class Change(NamedTuple):
    """Something that was rewritten, at the path it had before."""

    path: str
    message: str


class Migrated(NamedTuple):
    """The document in its new form. With questions it is the old one: somebody has to decide first."""

    document: Any
    changes: list[Change]
    questions: list[Problem]


def migrate(document: Any, counts: str = PODS) -> Migrated:
    """A PodGroup in the normal spelling; anything else comes back as it is.

    `counts` says what minMember on a root or branch counts in this document: pods, as muster reads it, or direct
    children, as an older design had it.
    """
    if kind_of(document) is not POD_GROUP or not isinstance(document.get("spec"), dict):
        return Migrated(document, [], [])
    work = _Migration(copy.deepcopy(document), counts)
    work.run()
    if work.questions:
        return Migrated(document, [], work.questions)
    return Migrated(work.document, work.changes, [])


class _Migration:
    """One document under way. Each step reads the document again, so the steps do not depend on each other."""

    def __init__(self, document: dict[str, Any], counts: str) -> None:
        self.document = document
        self.spec: dict[str, Any] = document["spec"]
        self.counts = counts
        self.changes: list[Change] = []
        self.questions: list[Problem] = []

    def run(self) -> None:
        self._respell_subgroups()
        self._drop_ignored()
        tree = self._tree()
        if tree is not None:
            self._settle_minimums(tree)
            if not self._constraints_are_wrong():
                self._move_constraints()
                self._lift_sets(tree)
                self._lift_global(tree)
                self._drop_empty()

    def _constraints_are_wrong(self) -> bool:
        """What contradicts itself is not moved about: validation says what is wrong with it where it stands."""
        found = validate(self.document, Context(), strict=False).violations
        return any(one.severity == ERROR and one.path.startswith("spec.topologyConstraints") for one in found)

    def _tree(self) -> Tree | None:
        group, _ = read_object(self.document, POD_GROUP, strict=False)
        assert isinstance(group, PodGroup)
        return tree_of(group)

    def _subgroups(self) -> list[dict[str, Any]]:
        found = self.spec.get("subGroups")
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    def _respell_subgroups(self) -> None:
        if self.spec.get("subgroups") is None:
            return
        if self.spec.get("subGroups") is not None:
            message = "subGroups and subgroups are both set, and only one can be the tree"
            self.questions.append(Problem("spec.subgroups", message, "remove one of them"))
            return
        self.document["spec"] = self.spec = {
            ("subGroups" if key == "subgroups" else key): value
            for key, value in self.spec.items()
            if key != "subGroups"
        }
        self.changes.append(Change("spec.subgroups", "spelled subGroups"))

    def _drop_ignored(self) -> None:
        for name in IGNORED_FIELDS:
            if self.spec.pop(name, None) is not None:
                self.changes.append(Change(f"spec.{name}", "removed: it was ignored"))

    def _settle_minimums(self, tree: Tree) -> None:
        by_name = {one.get("name"): one for one in self._subgroups()}
        pods = minimum_pods(tree)
        for row, node in enumerate(tree.nodes):
            if node.children:
                below = [pods[child] for child in node.children]
                self._settle(self.spec if row == 0 else by_name[node.name], node.path, node.name, below)

    def _settle(self, written: dict[str, Any], path: str, name: str, below: Sequence[int]) -> None:
        """Leaves one of minMember and minSubGroup on a root or branch whose children ask for `below` pods."""
        members, children = written.get("minMember"), written.get("minSubGroup")
        who = name or "the PodGroup"
        if type(members) is not int:
            return
        if members == 0:
            del written["minMember"]
            self.changes.append(Change(f"{path}.minMember", "removed: 0 on a node with children means unset"))
        elif children is not None:
            self._settle_both(written, path, who, below)
        elif self.counts == SUBGROUPS:
            if members > len(below):
                message = f"minMember: {members} of {who} can't count its {len(below)} children"
                hint = "does it count pods? Then run without --counts subgroups"
                self.questions.append(Problem(f"{path}.minMember", message, hint))
                return
            _replace(written, "minMember", "minSubGroup", members)
            self.changes.append(Change(f"{path}.minMember", f"minMember: {members} became minSubGroup: {members}"))
        elif members == sum(below):
            self._drop_members(written, path, f"{members} pods is what its {len(below)} children ask for, all required")
        elif path == "spec":
            self._settle_floor(written, members, below)
        else:
            message = f"minMember: {members} of {who} is not the {sum(below)} pods of its {len(below)} children"
            hint = (
                f"write minSubGroup: how many of its {len(below)} children are needed, or leave it out for all; if "
                "minMember counts children here, run with --counts subgroups"
            )
            self.questions.append(Problem(f"{path}.minMember", message, hint))

    def _settle_both(self, written: dict[str, Any], path: str, who: str, below: Sequence[int]) -> None:
        members, children = written["minMember"], written["minSubGroup"]
        sensible = type(children) is int and 0 < children <= len(below)
        implied = sum(sorted(below)[:children]) if sensible else 0
        if sensible and members == implied:
            self._drop_members(written, path, f"minSubGroup: {children} asks for these {members} pods already")
        else:
            message = f"{who} sets minMember: {members} and minSubGroup: {children}, which asks for {implied} pods"
            hint = (
                f"which one is meant? Remove minMember to need {children} of {len(below)} children ({implied} pods), "
                "or remove minSubGroup and write the minimum of pods into the leaves"
            )
            self.questions.append(Problem(f"{path}.minMember", message, hint))

    def _settle_floor(self, written: dict[str, Any], members: int, below: Sequence[int]) -> None:
        if members > sum(below) or members <= len(below):
            # A real floor is the normal form. A small one may have been meant to count children: validation says so.
            return
        self._drop_members(written, "spec", f"the {sum(below)} pods of the children, all required, are more")

    def _drop_members(self, written: dict[str, Any], path: str, why: str) -> None:
        members = written.pop("minMember")
        self.changes.append(Change(f"{path}.minMember", f"minMember: {members} removed: {why}"))

    def _move_constraints(self) -> None:
        """topologyConstraints.subGroups[name] goes onto the SubGroup."""
        older = self.spec.get("topologyConstraints")
        by_name = older.get("subGroups") if isinstance(older, dict) else None
        if not isinstance(older, dict) or not isinstance(by_name, dict):
            return
        subgroups = {one.get("name"): one for one in self._subgroups()}
        for name in list(by_name):
            path = child_path("spec.topologyConstraints.subGroups", name)
            target = subgroups.get(name)
            assert target is not None, "validation has looked"
            target["topologyConstraint"] = by_name.pop(name)
            self.changes.append(Change(path, f"moved to topologyConstraint of {name}"))

    def _lift_sets(self, tree: Tree) -> None:
        """A set of all children of one node is a constraint of that node."""
        older = self.spec.get("topologyConstraints")
        sets = older.get("subGroupSets") if isinstance(older, dict) else None
        if not isinstance(sets, list):
            return
        row_of = tree.row_of
        by_name = {one.get("name"): one for one in self._subgroups()}
        kept = []
        for index, one in enumerate(sets):
            members = one.get("subGroups") if isinstance(one, dict) else None
            rows = {row_of.get(name, -1) for name in members} if isinstance(members, list) else {-1}
            parents = {tree.nodes[row].parent for row in rows if row > 0}
            parent = tree.nodes[parents.pop()] if len(parents) == 1 else None
            target = None
            if parent is not None and rows == set(parent.children):
                target = by_name[parent.name] if parent.name else self.spec
            if target is None or target.get("topologyConstraint") or not _has_level(one.get("constraint")):
                kept.append(one)
                continue
            assert parent is not None
            target["topologyConstraint"] = one["constraint"]
            where = f"topologyConstraint of {parent.name or 'the PodGroup'}, which has just these children"
            self.changes.append(Change(f"spec.topologyConstraints.subGroupSets[{index}]", f"moved to {where}"))
        assert isinstance(older, dict)
        older["subGroupSets"] = kept

    def _lift_global(self, tree: Tree) -> None:
        """A global constraint that covers all pods is a constraint of the PodGroup."""
        constraint = tree.nodes[0].constraint
        if constraint is None or constraint.path != "spec.topologyConstraints.global":
            return
        if self.spec.get("topologyConstraint"):
            # A set was lifted to the root: both hold all pods, and only one can stand there.
            return
        self.spec["topologyConstraint"] = self.spec["topologyConstraints"].pop("global")
        self.changes.append(Change(constraint.path, "moved to topologyConstraint of the PodGroup: it covers all pods"))

    def _drop_empty(self) -> None:
        """What the moves left empty goes without a word; what was empty before is told."""
        older = self.spec.get("topologyConstraints")
        if not isinstance(older, dict):
            return
        path = "spec.topologyConstraints"
        for key in [key for key, value in older.items() if not value]:
            del older[key]
            if not any(change.path.startswith(f"{path}.{key}") for change in self.changes):
                self.changes.append(Change(f"{path}.{key}", "removed: it was empty"))
        if not older:
            del self.spec["topologyConstraints"]
            if not any(change.path.startswith(path) for change in self.changes):
                self.changes.append(Change(path, "removed: it was empty"))


def _has_level(constraint: Any) -> bool:
    levels = ("requiredTopologyLevel", "preferredTopologyLevel")
    return isinstance(constraint, dict) and any(constraint.get(level) for level in levels)


def _replace(written: dict[str, Any], old: str, new: str, value: Any) -> None:
    """Puts the new field where the old one stood."""
    items = [(new, value) if key == old else (key, item) for key, item in written.items() if key != new]
    written.clear()
    written.update(items)
