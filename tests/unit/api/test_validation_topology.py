"""The rules of a Topology and of the constraints that name one (SPEC §2, §3, §4), both sides of each."""

from typing import Any

import pytest

from muster.api.kinds import TOPOLOGY, read_object
from muster.api.topology import Topology
from muster.api.validation import Context, Violation, validate

E, W = "error", "warning"
Spec = dict[str, Any]
# Severity, path, a word of the message, a word of the hint.
Expected = tuple[str, str, str, str]


def check(found: list[Violation], expected: list[Expected]) -> None:
    """Exactly these violations, in any order, each with its word and its hint."""
    assert sorted((one.severity, one.path) for one in found) == sorted(one[:2] for one in expected), found
    for severity, path, word, hint in expected:
        same_place = [one for one in found if (one.severity, one.path) == (severity, path)]
        assert any(word in one.message and hint in one.hint for one in same_place), same_place


def topology(*levels: Any, name: str = "dc") -> dict[str, Any]:
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": list(levels)},
    }


def level(label: Any, alias: str = "") -> dict[str, Any]:
    return {"nodeLabel": label, **({"alias": alias} if alias else {})}


ZONE, BLOCK, RACK, HOST = (level(f"example.com/{name}") for name in ("zone", "block", "rack", "host"))
HOSTNAME = level("kubernetes.io/hostname")


@pytest.mark.parametrize(
    ("broken", "expected", "legal"),
    [
        pytest.param(topology(), [(E, "spec.levels", "1 to 16", "")], topology(ZONE), id="no level"),
        pytest.param(
            topology(*(level(f"l{at}") for at in range(17))),
            [(E, "spec.levels", "17", "")],
            topology(*(level(f"l{at}") for at in range(16))),
            id="17 levels",
        ),
        pytest.param(
            {**topology(), "spec": {}}, [(E, "spec.levels", "missing", "")], topology(ZONE), id="levels missing"
        ),
        pytest.param({**topology(), "spec": None}, [(E, "spec", "missing", "")], topology(ZONE), id="spec missing"),
        pytest.param(
            topology(ZONE, {"alias": "rack"}),
            [(E, "spec.levels[1].nodeLabel", "missing", "")],
            topology(ZONE, level("r", "rack")),
            id="label missing",
        ),
        pytest.param(
            topology(level("")), [(E, "spec.levels[0].nodeLabel", "empty", "")], topology(level("0")), id="label empty"
        ),
        pytest.param(
            topology(level("a b")),
            [(E, "spec.levels[0].nodeLabel", "label key", "")],
            topology(level("b.c-d/E_f.g")),
            id="label is no label key",
        ),
        pytest.param(
            topology(level("a/b/c")),
            [(E, "spec.levels[0].nodeLabel", "label key", "")],
            topology(level("a/b")),
            id="two slashes",
        ),
        pytest.param(
            topology(ZONE, RACK, ZONE),
            [(E, "spec.levels[2].nodeLabel", "spec.levels[0]", "own")],
            topology(ZONE, RACK, BLOCK),
            id="label not unique",
        ),
        pytest.param(
            topology(ZONE, HOSTNAME, RACK),
            [(E, "spec.levels[1].nodeLabel", "narrowest", "end")],
            topology(ZONE, RACK, HOSTNAME),
            id="hostname not last",
        ),
        pytest.param(
            topology(HOSTNAME, HOSTNAME),
            [(E, "spec.levels[0].nodeLabel", "narrowest", ""), (E, "spec.levels[1].nodeLabel", "already", "")],
            topology(HOSTNAME),
            id="hostname twice",
        ),
        pytest.param(
            topology({**ZONE, "aliases": "z"}),
            [(E, "spec.levels[0].aliases", "known field", "did you mean alias?")],
            topology({**ZONE, "alias": "z"}),
            id="unknown field",
        ),
        pytest.param(
            topology({**ZONE, "alias": 5}),
            [(E, "spec.levels[0].alias", "text", "")],
            topology({**ZONE, "alias": "5"}),
            id="wrong type",
        ),
        pytest.param(
            topology(ZONE, 5, RACK),
            [(E, "spec.levels[1]", "mapping", "")],
            topology(ZONE, level("5"), RACK),
            id="a level that is none keeps its place",
        ),
        pytest.param(
            topology(ZONE, name="Data_Center"),
            [(E, "metadata.name", "DNS name", "")],
            topology(ZONE, name="data-center"),
            id="bad name",
        ),
    ],
)
def test_a_topology_and_the_nearest_legal_one(
    broken: dict[str, Any], expected: list[Expected], legal: dict[str, Any]
) -> None:
    """Levels 1 to 16, labels unique, hostname only last (SPEC §2)."""
    check(validate(broken, Context()).violations, expected)
    assert validate(legal, Context()).violations == []


def test_too_many_levels_that_are_none_are_an_answer() -> None:
    """A list that is too long is never read past its checks."""
    found = validate(topology(*[1] * 17), Context()).violations
    assert "spec.levels" in {one.path for one in found}
    assert {one.severity for one in found} == {E}


def test_an_alias_that_stands_twice_is_a_warning() -> None:
    """No constraint can use it: two levels answer to it."""
    twice = topology(level("a", "x"), level("b", "x"))
    check(validate(twice, Context()).violations, [(W, "spec.levels[1].alias", "spec.levels[0]", "own")])


@pytest.mark.parametrize(
    ("new", "immutable"),
    [
        pytest.param(topology(ZONE, RACK), False, id="the same"),
        pytest.param(topology(ZONE, level("example.com/rack", "r")), False, id="an alias may come"),
        pytest.param(topology(ZONE, BLOCK), True, id="another label"),
        pytest.param(topology(RACK, ZONE), True, id="another order"),
        pytest.param(topology(ZONE, RACK, HOSTNAME), True, id="a level more"),
        pytest.param(topology(ZONE), True, id="a level less"),
    ],
)
def test_labels_are_immutable_once_created(new: dict[str, Any], immutable: bool) -> None:
    """An update keeps the labels; a create is free."""
    old = topology(ZONE, RACK)
    expected = [(E, "spec.levels", "stay as they were created", "new Topology")] if immutable else []
    check(validate(new, Context(), old).violations, expected)
    check(validate(new, Context()).violations, [])


def test_a_changed_label_is_told_beside_a_field_that_could_not_be_read() -> None:
    """One mistake hides no other."""
    new = topology(ZONE, {**BLOCK, "alias": 5})
    check(
        validate(new, Context(), topology(ZONE, RACK)).violations,
        [(E, "spec.levels[1].alias", "text", ""), (E, "spec.levels", "stay as they were created", "")],
    )


# Constraints.


def known(*written: dict[str, Any]) -> Context:
    topologies: dict[str, Topology] = {}
    for one in written:
        found, problems = read_object(one, TOPOLOGY)
        assert problems == []
        topologies[found.metadata.name] = found
    return Context(topologies=topologies)


DC = known(topology(ZONE, BLOCK, RACK, HOST))
TWO = known(
    topology(ZONE, BLOCK, RACK, HOST), topology(level("rail.io/spine", "spine"), level("rail.io/leaf"), name="rail")
)


def judge(spec: Spec, context: Context = DC, annotation: str = "dc") -> list[Violation]:
    annotations = {"kai.scheduler/topology": annotation} if annotation else {}
    metadata = {"name": "gang", "annotations": annotations}
    document = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    return validate(document, context).violations


def sub(name: str, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": name, **({} if parent is None else {"parent": parent}), **fields}


def leaf(name: str, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    return sub(name, parent, minMember=1, **fields)


def held(required: str = "", preferred: str = "", topology: str = "") -> dict[str, Any]:
    fields = {"topology": topology, "requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
    return {"topologyConstraint": {name: value for name, value in fields.items() if value}}


def of_set(*members: str, required: str = "block") -> dict[str, Any]:
    return {"subGroups": list(members), "constraint": {"requiredTopologyLevel": required}}


def sets(*written: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"topologyConstraints": {"subGroupSets": list(written), **more}}


SETS = "spec.topologyConstraints.subGroupSets"
PAIR = [leaf("a"), leaf("b"), leaf("c"), leaf("d")]
TWO_PARENTS = [sub("x"), leaf("x0", "x"), leaf("x1", "x"), sub("y"), leaf("y0", "y"), leaf("y1", "y")]


@pytest.mark.parametrize(
    ("broken", "expected", "legal"),
    [
        pytest.param(
            {"subGroups": PAIR, **sets(of_set("a", "e"))},
            [(E, f"{SETS}[0].subGroups[1]", '"e"', "")],
            {"subGroups": PAIR, **sets(of_set("a", "b"))},
            id="a member that does not exist",
        ),
        pytest.param(
            {"subGroups": [leaf("workers"), leaf("leaders")], **sets(of_set("worker", "leaders"))},
            [(E, f"{SETS}[0].subGroups[0]", '"worker"', "did you mean workers?")],
            {"subGroups": [leaf("workers"), leaf("leaders")], **sets(of_set("workers", "leaders"))},
            id="a misspelled member",
        ),
        pytest.param(
            {"minMember": 1, **sets(of_set("a"))},
            [(E, f"{SETS}[0].subGroups[0]", '"a"', "")],
            {"minMember": 1, "topologyConstraints": {"global": {"requiredTopologyLevel": "block"}}},
            id="a set in a flat gang",
        ),
        pytest.param(
            {"subGroups": TWO_PARENTS, **sets(of_set("x0", "x1", "y0"))},
            [(E, f"{SETS}[0].subGroups[2]", "x and y", "one parent")],
            {"subGroups": TWO_PARENTS, **sets(of_set("x0", "x1"), of_set("y0"))},
            id="members of two parents",
        ),
        pytest.param(
            {"subGroups": TWO_PARENTS, **sets(of_set("x", "y0"))},
            [(E, f"{SETS}[0].subGroups[1]", "the PodGroup and y", "")],
            {"subGroups": TWO_PARENTS, **sets(of_set("x", "y"))},
            id="a branch and another's child",
        ),
        pytest.param(
            {"subGroups": PAIR, **sets(of_set("a", "b"), of_set("b", "c"), of_set("b", "d"))},
            [
                (E, f"{SETS}[1].subGroups[0]", "subGroupSets[0]", "at most one"),
                (E, f"{SETS}[2].subGroups[0]", "subGroupSets[0]", "at most one"),
            ],
            {"subGroups": PAIR, **sets(of_set("a", "b"), of_set("c", "d"))},
            id="a member of two sets",
        ),
        pytest.param(
            {"subGroups": PAIR, **sets(of_set())},
            [(E, f"{SETS}[0].subGroups", "", "")],
            {"subGroups": PAIR, **sets(of_set("a"))},
            id="a set without members",
        ),
        pytest.param(
            {
                "subGroups": [leaf("a", **held("rack")), leaf("b")],
                "topologyConstraints": {"subGroups": {"a": {"requiredTopologyLevel": "rack"}}},
            },
            [(E, "spec.topologyConstraints.subGroups.a", "two constraints", "keep one")],
            {
                "subGroups": [leaf("a", **held("rack")), leaf("b")],
                "topologyConstraints": {"subGroups": {"b": {"requiredTopologyLevel": "rack"}}},
            },
            id="two constraints on one node",
        ),
        pytest.param(
            {
                "subGroups": [leaf("0a", **held("rack"))],
                "topologyConstraints": {"subGroups": {"0a": {"preferredTopologyLevel": "rack"}}},
            },
            [(E, 'spec.topologyConstraints.subGroups["0a"]', "two constraints", "")],
            {
                "subGroups": [leaf("0a", topologyConstraint={})],
                "topologyConstraints": {"subGroups": {"0a": {"preferredTopologyLevel": "rack"}}},
            },
            id="an empty constraint is none",
        ),
        pytest.param(
            {"subGroups": PAIR, "topologyConstraints": {"subGroups": {"e": {"requiredTopologyLevel": "rack"}}}},
            [(E, "spec.topologyConstraints.subGroups.e", '"e"', "")],
            {"subGroups": PAIR, "topologyConstraints": {"subGroups": {"d": {"requiredTopologyLevel": "rack"}}}},
            id="a constraint on a SubGroup that does not exist",
        ),
        pytest.param(
            {"subGroups": PAIR, "topologyConstraints": {"global": {"level": "rack"}}},
            [(E, "spec.topologyConstraints.global.level", "known field", "")],
            {"subGroups": PAIR, "topologyConstraints": {"global": {"requiredTopologyLevel": "rack"}}},
            id="unknown field of a constraint",
        ),
    ],
)
def test_where_constraints_stand(broken: Spec, expected: list[Expected], legal: Spec) -> None:
    """Members exist, share a parent and are in one set; a node has one constraint (SPEC §3)."""
    check(judge(broken), expected)
    check(judge(legal), [])


def test_a_member_that_stands_twice_in_one_set_is_no_error() -> None:
    """It is in one set only, so it is a warning."""
    found = judge({"subGroups": PAIR, **sets(of_set("a", "b", "a"))})
    check(found, [(W, f"{SETS}[0].subGroups[2]", "twice", "")])


def test_a_set_and_its_members_may_both_be_constrained() -> None:
    """The set is a node of its own."""
    spec = {"subGroups": [leaf("a", **held("rack")), leaf("b", **held("rack"))], **sets(of_set("a", "b"))}
    check(judge(spec), [])


ROOT = "spec.topologyConstraint"


@pytest.mark.parametrize(
    ("spec", "context", "annotation", "expected"),
    [
        pytest.param(held("rack"), Context(), "", [(W, f"{ROOT}.topology", "no topology", "name one")], id="unnamed"),
        pytest.param(held("rack"), Context(), "dc", [], id="named by the annotation; nothing is known"),
        pytest.param(held("rack", topology="dc"), Context(), "", [], id="named; nothing is known"),
        pytest.param(held("rack"), DC, "", [], id="unnamed: the cluster's only Topology"),
        pytest.param(
            held("rack"), known(), "", [(W, f"{ROOT}.topology", "no topology", "")], id="unnamed, the cluster has none"
        ),
        pytest.param(
            held("rack"),
            TWO,
            "",
            [(W, f"{ROOT}.topology", "2 to choose from", "name one")],
            id="unnamed, there are two",
        ),
        pytest.param({"minMember": 1}, known(), "", [], id="no constraint needs no topology"),
        pytest.param(
            held("rack", topology="dcc"),
            DC,
            "",
            [(W, f"{ROOT}.topology", '"dcc"', "did you mean dc?")],
            id="unknown topology",
        ),
        pytest.param(
            held("rack"), TWO, "far", [(W, f"{ROOT}.topology", '"far"', "held")], id="unknown topology, by annotation"
        ),
        pytest.param(
            held("rak"),
            DC,
            "dc",
            [(W, f"{ROOT}.requiredTopologyLevel", '"rak"', "did you mean")],
            id="unknown required level",
        ),
        pytest.param(
            held(preferred="row"),
            DC,
            "dc",
            [(W, f"{ROOT}.preferredTopologyLevel", '"row"', "example.com/zone")],
            id="unknown preferred level; the hint names those there are",
        ),
        pytest.param(
            held("row", "aisle"),
            DC,
            "dc",
            [(W, f"{ROOT}.requiredTopologyLevel", "row", ""), (W, f"{ROOT}.preferredTopologyLevel", "aisle", "")],
            id="both levels unknown",
        ),
        pytest.param(held("example.com/rack"), DC, "dc", [], id="level by label"),
        pytest.param(held("spine", topology="rail"), TWO, "", [], id="level by alias"),
        pytest.param(held("leaf", topology="rail"), TWO, "", [], id="level by suffix"),
        pytest.param(
            {"minMember": 1, **held(topology="dc")},
            DC,
            "",
            [(W, ROOT, "no level", "requiredTopologyLevel")],
            id="a topology without a level",
        ),
        pytest.param(
            {**held(topology="dc"), "subGroups": [leaf("a")]},
            DC,
            "",
            [(W, ROOT, "no level", "")],
            id="a topology without a level that nobody inherits",
        ),
        pytest.param(
            {**held(topology="dc"), "subGroups": [sub("b"), leaf("a", "b", **held("rack"))]},
            TWO,
            "",
            [],
            id="a topology without a level that is inherited",
        ),
        pytest.param({"minMember": 1, **held()}, DC, "", [], id="an empty constraint"),
        pytest.param(
            {"subGroups": [leaf("a", **held(topology="dc"))]},
            DC,
            "",
            [(W, "spec.subGroups[0].topologyConstraint", "no level", "")],
            id="a topology without a level at a leaf",
        ),
        pytest.param(
            {"subGroups": PAIR, **sets({"subGroups": ["a"], "constraint": {"topology": "dc"}})},
            DC,
            "",
            [(W, f"{SETS}[0].constraint", "no level", "")],
            id="a topology without a level at a set",
        ),
        pytest.param(
            held("rack"),
            known(topology(level("a/rack"), level("b/rack"))),
            "dc",
            [(W, f"{ROOT}.requiredTopologyLevel", "a/rack and b/rack", "whole label")],
            id="a level name that two levels answer to",
        ),
        pytest.param(
            held("b/rack"),
            known(topology(level("a/rack"), level("b/rack"))),
            "dc",
            [],
            id="the whole label is one level",
        ),
        pytest.param(
            {"subgroups": [leaf("a", **held("row"))]},
            DC,
            "dc",
            [
                (W, "spec.subgroups", "deprecated", ""),
                (W, "spec.subgroups[0].topologyConstraint.requiredTopologyLevel", "row", ""),
            ],
            id="in the older spelling of the list",
        ),
        pytest.param(
            {"subGroups": PAIR, "topologyConstraints": {"subGroups": {"b": {"requiredTopologyLevel": "row"}}}},
            DC,
            "dc",
            [(W, "spec.topologyConstraints.subGroups.b.requiredTopologyLevel", "row", "")],
            id="by name",
        ),
        pytest.param(
            {"subGroups": [leaf("0a")], "topologyConstraints": {"subGroups": {"0a": {"requiredTopologyLevel": "row"}}}},
            DC,
            "dc",
            [(W, 'spec.topologyConstraints.subGroups["0a"].requiredTopologyLevel', "row", "")],
            id="by a name that starts with a digit",
        ),
        pytest.param(
            {"subGroups": PAIR, **sets(of_set("a", "b", required="row"))},
            DC,
            "dc",
            [(W, f"{SETS}[0].constraint.requiredTopologyLevel", "row", "")],
            id="in a set, once",
        ),
        pytest.param(
            {"subGroups": PAIR, **sets(of_set("a", "b"), **{"global": {"requiredTopologyLevel": "row"}})},
            DC,
            "dc",
            [(W, "spec.topologyConstraints.global.requiredTopologyLevel", "row", "")],
            id="global",
        ),
        pytest.param(
            {"subGroups": [leaf("a", **held("row")), leaf("b", **held("aisle", topology="far"))]},
            DC,
            "dc",
            [
                (W, "spec.subGroups[0].topologyConstraint.requiredTopologyLevel", "row", ""),
                (W, "spec.subGroups[1].topologyConstraint.topology", "far", ""),
            ],
            id="every node is told",
        ),
    ],
)
def test_what_constraints_name(spec: Spec, context: Context, annotation: str, expected: list[Expected]) -> None:
    """The Topology may come later: a warning at admission, never an error."""
    check(judge(spec, context, annotation), expected)


LEAF = "spec.subGroups[0].topologyConstraint.requiredTopologyLevel"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            held("rack", "block"),
            [(W, f"{ROOT}.preferredTopologyLevel", "wider", "adds nothing")],
            id="preferred wider",
        ),
        pytest.param(held("rack", "rack"), [], id="preferred the same"),
        pytest.param(held("rack", "host"), [], id="preferred narrower"),
        pytest.param(
            {**held("rack"), "subGroups": [leaf("a", **held("block"))]},
            [(W, LEAF, "wider than rack", "adds nothing")],
            id="child wider",
        ),
        pytest.param({**held("rack"), "subGroups": [leaf("a", **held("rack"))]}, [], id="child the same"),
        pytest.param({**held("rack"), "subGroups": [leaf("a", **held("host"))]}, [], id="child narrower"),
        pytest.param(
            {**held("rack"), "subGroups": [leaf("a", **held(preferred="block"))]}, [], id="a preference is not required"
        ),
        pytest.param(
            {**held(preferred="rack"), "subGroups": [leaf("a", **held("block"))]}, [], id="nor is an ancestor's"
        ),
        pytest.param(
            {**held("rack"), "subGroups": [leaf("a", "b", **held("zone")), sub("b")]},
            [(W, LEAF, "wider than rack", "")],
            id="grandchild wider, past a branch without a constraint",
        ),
        pytest.param(
            {**held("block"), "subGroups": [leaf("a", "b", **held("block")), sub("b", **held("rack"))]},
            [(W, LEAF, "wider than rack", "")],
            id="wider than the nearest ancestor only",
        ),
        pytest.param(
            {
                **held("rack"),
                "subGroups": [
                    leaf("a", "c", **held("zone")),
                    sub("b", **held(preferred="rack")),
                    sub("c", "b", **held(preferred="host")),
                ],
            },
            [(W, LEAF, "wider than rack", "")],
            id="wider than the root, past two preferences",
        ),
        pytest.param(
            {
                **held("rack"),
                "subGroups": [
                    leaf("a", "c", **held("zone", topology="dc")),
                    sub("b", **held("spine", topology="rail")),
                    sub("c", "b", **held("leaf", topology="rail")),
                ],
            },
            [(W, LEAF, "wider than rack", "")],
            id="wider than the root, past two levels of another Topology",
        ),
        pytest.param(
            {
                **held("rack"),
                "subGroups": [
                    leaf("a", "c", **held("block")),
                    sub("b", **held("zone")),
                    sub("c", "b", **held("zone")),
                ],
            },
            [
                (W, LEAF, "wider than rack", ""),
                (W, "spec.subGroups[1].topologyConstraint.requiredTopologyLevel", "wider than rack", ""),
                (W, "spec.subGroups[2].topologyConstraint.requiredTopologyLevel", "wider than rack", ""),
            ],
            id="wider than the root, past two that are wider still",
        ),
        pytest.param(
            {**held("rack"), "subGroups": [leaf("a", **held("spine", topology="rail"))]},
            [],
            id="levels of two Topologies are not compared",
        ),
        pytest.param(
            {"subGroups": [leaf("a", **held("zone")), leaf("b")], **sets(of_set("a", "b", required="rack"))},
            [(W, LEAF, "wider than rack", "")],
            id="member wider than its set",
        ),
        pytest.param(
            {"subGroups": [sub("x", **held("rack")), leaf("a", "x"), leaf("b", "x")], **sets(of_set("a", "b"))},
            [(W, f"{SETS}[0].constraint.requiredTopologyLevel", "wider than rack", "")],
            id="set wider than its members' parent",
        ),
        pytest.param(
            {
                "subGroups": [sub("x", **held("block")), leaf("a", "x"), leaf("b", "x")],
                **sets(of_set("a", "b", required="rack")),
            },
            [],
            id="set narrower than its members' parent",
        ),
        pytest.param(
            {"subGroups": [leaf("a", **held("zone")), leaf("b", **held("rack"))]}, [], id="siblings are not compared"
        ),
    ],
)
def test_levels_narrow_from_the_root_down(spec: Spec, expected: list[Expected]) -> None:
    """A preferred level wider than the required one, or a level wider than an ancestor's, adds nothing."""
    check(judge(spec, TWO), expected)


def test_the_only_topology_is_the_same_by_name_and_without() -> None:
    """A root that means the cluster's only Topology and a child that names it are compared."""
    spec = {**held("rack"), "subGroups": [leaf("a", **held("zone", topology="dc"))]}
    check(judge(spec, DC, annotation=""), [(W, LEAF, "wider than rack", "")])


def test_constraints_are_judged_below_an_unsound_tree_too() -> None:
    """Sets and doubled constraints need no tree: they are told beside a duplicate name."""
    spec = {
        "subGroups": [leaf("a", **held("rack")), leaf("a"), leaf("b")],
        **sets(of_set("a", "z"), subGroups={"a": {"requiredTopologyLevel": "rack"}}),
    }
    check(
        judge(spec),
        [
            (E, "spec.subGroups[1].name", "already", ""),
            (E, f"{SETS}[0].subGroups[1]", '"z"', ""),
            (E, "spec.topologyConstraints.subGroups.a", "two constraints", ""),
        ],
    )


def test_a_constraint_that_could_not_be_read_has_no_follow_ups() -> None:
    """A topology of the wrong type is not a missing one, whatever the SubGroup is called."""
    by_name = {name: {"topology": 5, "requiredTopologyLevel": "rack"} for name in ("a", "0a")}
    spec = {"subGroups": [leaf("a"), leaf("0a")], "topologyConstraints": {"subGroups": by_name}}
    check(
        judge(spec, TWO, ""),
        [
            (E, "spec.topologyConstraints.subGroups.a.topology", "text", ""),
            (E, 'spec.topologyConstraints.subGroups["0a"].topology', "text", ""),
        ],
    )
