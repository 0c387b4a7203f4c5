"""Migration never changes what an object means: the old and the new form are satisfied and held together alike."""

import copy
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from muster.api.kinds import POD_GROUP, read_object
from muster.api.migration import PODS, SUBGROUPS, migrate
from muster.api.tree import Tree, normal_form, satisfied
from muster.api.validation import Context, validate

LEVELS = st.sampled_from(["", "zone", "rack"])


@st.composite
def constraints(draw: st.DrawFn) -> dict[str, str]:
    level = draw(LEVELS)
    made = (
        {"requiredTopologyLevel": level} if level else draw(st.sampled_from([{"preferredTopologyLevel": "rack"}, {}]))
    )
    topology = draw(st.sampled_from(["", "dc", "other"]))
    return {**made, "topology": topology} if topology else made


@st.composite
def minimums(draw: st.DrawFn, children: int, right: bool, root: bool) -> dict[str, int]:
    """minMember and minSubGroup of a node with children: one of them and in range, or anything."""
    if not right:
        return draw(st.fixed_dictionaries({}, optional={f: st.integers(0, 12) for f in ("minMember", "minSubGroup")}))
    choices = [st.just({}), st.builds(lambda count: {"minSubGroup": count}, st.integers(1, children))]
    if root:
        choices.append(st.builds(lambda count: {"minMember": count}, st.integers(1, 30)))
    return draw(st.one_of(choices))


@st.composite
def documents(draw: st.DrawFn, right: bool = False) -> dict[str, Any]:
    """PodGroups of one or two levels in every older spelling; `right` ones are nearly always valid."""
    subgroups: list[dict[str, Any]] = []
    branches = draw(st.integers(1, 3))
    for index in range(branches):
        leaves = draw(st.integers(0, 3))
        counted = {"minMember": draw(st.integers(int(right), 4))}
        branch = {"name": f"b{index}", **(draw(minimums(leaves, right, False)) if leaves else counted)}
        subgroups.append(branch)
        subgroups += [
            {"name": f"b{index}-{leaf}", "parent": f"b{index}", "minMember": draw(st.integers(int(right), 4))}
            for leaf in range(leaves)
        ]
    names = [one["name"] for one in subgroups]
    for one in subgroups:
        if draw(st.integers(0, 3)) == 0:
            one["topologyConstraint"] = draw(constraints())
    free = [one["name"] for one in subgroups if "topologyConstraint" not in one] if right else names
    parent = draw(st.sampled_from(["", *(f"b{index}" for index in range(branches))]))
    siblings = [one["name"] for one in subgroups if one.get("parent", "") == parent] if right else names
    older: dict[str, Any] = {}
    if draw(st.booleans()):
        older["global"] = draw(constraints())
    if free and draw(st.booleans()):
        older["subGroups"] = draw(st.dictionaries(st.sampled_from(free), constraints(), max_size=2))
    if siblings and draw(st.booleans()):
        members = draw(st.lists(st.sampled_from(siblings), min_size=1, unique=True))
        older["subGroupSets"] = [{"subGroups": members, "constraint": draw(constraints())}]
    spec: dict[str, Any] = {
        draw(st.sampled_from(["subGroups", "subgroups"])): subgroups,
        **draw(minimums(branches, right, True)),
        **({"topologyConstraints": older} if older else {}),
        **({"topologyConstraint": draw(constraints())} if draw(st.integers(0, 3)) == 0 else {}),
    }
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "labels": {"keep": "me"}},
        "spec": spec,
    }


def tree_of(document: dict[str, Any]) -> Tree:
    return normal_form(read_object(document, POD_GROUP)[0])


def held(tree: Tree) -> set[tuple[frozenset[str], str, str, str]]:
    """What is held together, as sets of leaves: it does not matter where that is written."""
    below: list[set[str]] = [set() for _ in tree.nodes]
    for row in range(len(tree.nodes) - 1, -1, -1):
        node = tree.nodes[row]
        if not node.children:
            below[row].add(node.name)
        if node.parent >= 0:
            below[node.parent] |= below[row]
    found = set()
    for row, node in enumerate(tree.nodes):
        if node.constraint is not None:
            found.add((frozenset(below[row]), *node.constraint[:3]))
    for hold in tree.together:
        leaves = frozenset(name for row in hold.members for name in below[row])
        found.add((leaves, *hold.constraint[:3]))
    return found


@given(documents(right=True), st.data())
def test_a_valid_object_means_the_same_after_migration(document, data):
    """Same leaves, satisfied by the same pods, held together alike."""
    assume(validate(document, Context()).valid)
    result = migrate(document)
    assert not result.questions
    before, after = tree_of(document), tree_of(result.document)
    assert [node.name for node in before.nodes] == [node.name for node in after.nodes]
    pods = data.draw(st.lists(st.integers(0, 6), min_size=len(before.nodes), max_size=len(before.nodes)))
    assert satisfied(before, pods) == satisfied(after, pods)
    assert held(before) == held(after)
    assert validate(result.document, Context()).valid


@given(documents(), st.sampled_from([PODS, SUBGROUPS]))
def test_migration_ends(document, counts):
    """What came out needs no further migration, the input is left alone, and metadata is not touched."""
    untouched = copy.deepcopy(document)
    result = migrate(document, counts)
    assert document == untouched
    assert result.document["metadata"] == document["metadata"]
    if result.questions:
        assert result.document == document
    else:
        again = migrate(result.document, counts)
        assert (again.document, again.changes) == (result.document, [])
        assert bool(result.changes) == (result.document != document)


@given(documents())
def test_counts_of_subgroups_leave_no_pods_on_branches(document):
    """With --counts subgroups no root or branch counts pods afterwards."""
    result = migrate(document, SUBGROUPS)
    if result.questions or "subGroups" not in result.document["spec"]:
        return
    parents = {one.get("parent") for one in result.document["spec"]["subGroups"]}
    for one in result.document["spec"]["subGroups"]:
        assert one["name"] not in parents or "minMember" not in one
    if parents:
        assert "minMember" not in result.document["spec"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "minMember",
                        "minSubGroup",
                        "subGroups",
                        "subgroups",
                        "name",
                        "parent",
                        "topologyConstraints",
                        "global",
                        "subGroupSets",
                        "constraint",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_nothing_that_is_a_document_makes_it_fail(spec):
    """Whatever stands in the spec, migrate answers."""
    document = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "spec": spec}
    result = migrate(document)
    assert result.document is not None
