"""From a document to a struct: every mismatch with its path, its message and how to mend it, all of them at once."""

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.api.cluster import Pod
from muster.api.documents import Problem
from muster.api.kinds import (
    CORE_KINDS,
    OUR_KINDS,
    POD_GROUP,
    QUEUE,
    RESOURCE_INTERFACE,
    TOPOLOGY,
    Kind,
    Unknown,
    decode,
    kind_of,
    read_object,
)
from muster.api.podgroup import MAX_SUBGROUPS, PodGroup, SubGroup
from muster.api.queue import Queue
from muster.errors import BadObject

POD, NODE, PRIORITY_CLASS, BUDGET = CORE_KINDS[:4]
DNS_LABEL = "must be a DNS label: at most 63 of a-z, 0-9 and '-', starting and ending with a letter or digit"
TIME = "must be a time such as 2026-01-31T12:00:00Z"


def told(found: Problem, expected: tuple) -> tuple:
    """The problem as far as the table tells it; where the table has no hint, any hint will do but none will not."""
    assert found.hint
    return tuple(found[: len(expected)])


def problems_of(kind: Kind, document: dict[str, Any], *, strict: bool = True) -> list[Problem]:
    """Where each problem is, what it is, and how to mend it."""
    return [Problem(*problem[:3]) for problem in read_object(document, kind, strict=strict)[1]]


def in_spec(kind: Kind, **fields: Any) -> list[Problem]:
    """The problems of a spec, with paths inside it."""
    found = problems_of(kind, {"spec": fields})
    assert all(problem.path.startswith("spec.") for problem in found)
    return [problem._replace(path=problem.path.removeprefix("spec.")) for problem in found]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param(
            {"minMember": "3"},
            ("minMember", 'must be a whole number, not "3"', "remove the quotes: 3"),
            id="number-in-quotes",
        ),
        pytest.param({"minMember": 3.0}, ("minMember", "must be a whole number, not 3.0", "write 3"), id="float"),
        pytest.param({"minMember": 3.5}, ("minMember", "must be a whole number, not 3.5"), id="no-whole-number"),
        pytest.param({"minMember": True}, ("minMember", "must be a whole number, not true"), id="true-is-no-number"),
        pytest.param(
            {"minMember": "a" * 99}, ("minMember", f'must be a whole number, not "{"a" * 57}..."'), id="long-text"
        ),
        pytest.param({"minMember": [1]}, ("minMember", "must be a whole number, not a list"), id="list-for-a-number"),
        pytest.param({"minMember": -1}, ("minMember", "must not be negative"), id="negative"),
        pytest.param({"minMember": 2**31}, ("minMember", "must not be over 2147483647"), id="over-int32"),
        pytest.param({"minMember": 10**400}, ("minMember", "must not be over 2147483647"), id="huge"),
        pytest.param(
            {"schedulingBackoff": 0}, ("schedulingBackoff", "must be one of -1, 1, not 0"), id="number-of-a-few"
        ),
        pytest.param({"queue": 7}, ("queue", "must be text, not 7", "put it in quotes"), id="number-for-text"),
        pytest.param({"queue": 1.5}, ("queue", "must be text, not 1.5", "put it in quotes"), id="float-for-text"),
        pytest.param({"queue": False}, ("queue", "must be text, not false", "put it in quotes"), id="bool-for-text"),
        pytest.param({"queue": {"name": "a"}}, ("queue", "must be text, not a mapping"), id="mapping-for-text"),
        pytest.param(
            {"queue": "q" * 254}, ("queue", "must have at most 253 characters; this has 254 characters"), id="too-long"
        ),
        pytest.param(
            {"preemptibility": "preemptable"},
            (
                "preemptibility",
                'must be one of preemptible, non-preemptible, semi-preemptible, not "preemptable"',
                "did you mean preemptible?",
            ),
            id="misspelled-word",
        ),
        pytest.param(
            {"preemptibility": "x"},
            ("preemptibility", 'must be one of preemptible, non-preemptible, semi-preemptible, not "x"'),
            id="unknown-word",
        ),
        pytest.param(
            {"markUnschedulable": "true"},
            ("markUnschedulable", 'must be true or false, not "true"', "write true or false, without quotes"),
            id="bool-in-quotes",
        ),
        pytest.param(
            {"markUnschedulable": 1},
            ("markUnschedulable", "must be true or false, not 1", "write true or false, without quotes"),
            id="number-for-bool",
        ),
        pytest.param(
            {"preemptionDelay": 30},
            ("preemptionDelay", "must be text, not 30", 'write "30s"'),
            id="duration-without-unit",
        ),
        pytest.param(
            {"preemptionDelay": "30 s"},
            ("preemptionDelay", "'30 s' is not a duration", "write it as 30s, 5m or 1h30m"),
            id="no-duration",
        ),
        pytest.param(
            {"subGroups": {"name": "a"}},
            ("subGroups", "must be a list, not a mapping", "write it as a list, one item a line, each after '- '"),
            id="mapping-for-a-list",
        ),
        pytest.param({"subGroups": ["a"]}, ("subGroups[0]", 'must be a mapping, not "a"'), id="text-for-a-mapping"),
        pytest.param({"subGroups": [None]}, ("subGroups[0]", "must be a mapping, not null"), id="null-in-a-list"),
        pytest.param({"subGroups": [{}]}, ("subGroups[0].name", "is missing"), id="required"),
        pytest.param({"subGroups": [{"name": None}]}, ("subGroups[0].name", "is missing"), id="required-and-null"),
        pytest.param({"subGroups": [{"name": ""}]}, ("subGroups[0].name", "must not be empty"), id="empty"),
        pytest.param({"subGroups": [{"name": "A"}]}, ("subGroups[0].name", f'{DNS_LABEL}, not "A"'), id="pattern"),
        pytest.param(
            {"subGroups": [{"name": "a" * 64}]},
            ("subGroups[0].name", f"{DNS_LABEL}; this has 64 characters"),
            id="too-long-name",
        ),
        pytest.param(
            {"subGroups": [{"name": "a\n"}]},
            ("subGroups[0].name", f'{DNS_LABEL}, not "a\\n"'),
            id="line-break-at-the-end",
        ),
        pytest.param(
            {"subGroups": [{"name": "a"}] * (MAX_SUBGROUPS + 1)},
            ("subGroups", "must have at most 10,000 items, not 10,001"),
            id="too-many-items",
        ),
        pytest.param(
            {"topologyConstraints": {"subGroups": {str(number): {} for number in range(MAX_SUBGROUPS + 1)}}},
            ("topologyConstraints.subGroups", "must have at most 10,000 entries, not 10,001"),
            id="too-many-entries",
        ),
        pytest.param(
            {"topologyConstraints": {"subGroups": {"a.b": {"topology": 1}}}},
            ('topologyConstraints.subGroups["a.b"].topology', "must be text, not 1", "put it in quotes"),
            id="key-with-a-dot",
        ),
        pytest.param(
            {"topologyConstraints": {"subGroupSets": [{"subGroups": [], "constraint": {}}]}},
            ("topologyConstraints.subGroupSets[0].subGroups", "must have 1 to 10,000 items, not 0"),
            id="too-few-items",
        ),
        pytest.param(
            {"minMembers": 3}, ("minMembers", "is not a known field", "did you mean minMember?"), id="unknown-field"
        ),
        pytest.param(
            {"subgroup": []}, ("subgroup", "is not a known field", "did you mean subGroups?"), id="other-spelling"
        ),
        pytest.param({"zzz": {"a": 1}}, ("zzz", "is not a known field"), id="nothing-like-it"),
        pytest.param(
            {"topologyConstraint": {"requiredTopologyLevl": "rack"}},
            ("topologyConstraint.requiredTopologyLevl", "is not a known field", "did you mean requiredTopologyLevel?"),
            id="unknown-field-below",
        ),
    ],
)
def test_one_mismatch(fields: dict[str, Any], problem: tuple[str, ...]) -> None:
    """One thing that is wrong with the spec of a PodGroup is one problem."""
    assert [told(one, problem) for one in in_spec(POD_GROUP, **fields)] == [problem]


@pytest.mark.parametrize(
    ("kind", "document", "problem"),
    [
        pytest.param(
            QUEUE,
            {"spec": {"resources": {"cpu": {"quota": "10"}}}},
            ("spec.resources.cpu.quota", 'must be a number, not "10"', "remove the quotes: 10"),
            id="number",
        ),
        pytest.param(
            QUEUE,
            {"spec": {"resources": {"cpu": {"quota": float("nan")}}}},
            ("spec.resources.cpu.quota", "must be a number, not nan"),
            id="nan",
        ),
        pytest.param(
            QUEUE,
            {"spec": {"resources": {"cpu": {"limit": float("inf")}}}},
            ("spec.resources.cpu.limit", "must be a number, not inf"),
            id="infinite",
        ),
        pytest.param(
            QUEUE,
            {"spec": {"resources": {"cpu": {"quota": 10**400}}}},
            ("spec.resources.cpu.quota", "must not be over 9223372036854775807"),
            id="number-beyond-floats",
        ),
        pytest.param(
            QUEUE,
            {"spec": {"resources": {"gpu": {"quota": -2}}}},
            ("spec.resources.gpu.quota", "must not be less than -1"),
            id="under-the-minimum",
        ),
        pytest.param(
            POD_GROUP,
            {"metadata": {"labels": {"version": 1}}},
            ("metadata.labels.version", "must be text, not 1", "put it in quotes"),
            id="label-without-quotes",
        ),
        pytest.param(
            POD_GROUP, {"metadata": {"labels": []}}, ("metadata.labels", "must be a mapping, not a list"), id="map"
        ),
        pytest.param(
            POD_GROUP,
            {"metadata": {"creationTimestamp": "yesterday"}},
            ("metadata.creationTimestamp", f'{TIME}, not "yesterday"', "write it as 2026-01-31T12:00:00Z"),
            id="no-time",
        ),
        pytest.param(
            POD_GROUP,
            {"metadata": {"creationTimestamp": "2026-01-31T12:00:00"}},
            ("metadata.creationTimestamp", f'{TIME}, not "2026-01-31T12:00:00"', "write it as 2026-01-31T12:00:00Z"),
            id="time-without-zone",
        ),
        pytest.param(
            POD_GROUP,
            {"metadata": {"creationTimestamp": 1769860800}},
            ("metadata.creationTimestamp", f"{TIME}, not 1769860800", "write it as 2026-01-31T12:00:00Z"),
            id="time-as-a-number",
        ),
        pytest.param(POD_GROUP, {"metadata": "a"}, ("metadata", 'must be a mapping, not "a"'), id="metadata-is-text"),
        pytest.param(POD_GROUP, {"spec": [1]}, ("spec", "must be a mapping, not a list"), id="spec-is-a-list"),
        pytest.param(TOPOLOGY, {"spec": 5}, ("spec", "must be a mapping, not 5"), id="required-spec-is-a-number"),
        pytest.param(TOPOLOGY, {}, ("spec", "is missing"), id="spec-missing"),
        pytest.param(TOPOLOGY, {"spec": None}, ("spec", "is missing"), id="spec-null"),
        pytest.param(TOPOLOGY, {"spec": {}}, ("spec.levels", "is missing"), id="required-list-missing"),
        pytest.param(
            TOPOLOGY, {"spec": {"levels": []}}, ("spec.levels", "must have 1 to 16 items, not 0"), id="no-levels"
        ),
        pytest.param(
            TOPOLOGY,
            {"spec": {"levels": [{"nodeLabel": "a b"}]}},
            ("spec.levels[0].nodeLabel", 'must be a label key such as topology.example.com/rack, not "a b"'),
            id="label-key",
        ),
        pytest.param(
            RESOURCE_INTERFACE,
            {"spec": {"targetGVK": {"kind": "Job"}, "references": [{"name": "a b", "gvk": {"kind": "X"}}]}},
            ("spec.references[0].name", 'must be of the form ^[A-Za-z_][A-Za-z0-9_]*$, not "a b"'),
            id="pattern-without-words",
        ),
        pytest.param(
            RESOURCE_INTERFACE,
            {"spec": {"targetGVK": {"kind": "Job"}, "let": {"a": "x" * 4097}}},
            ("spec.let.a", "must have at most 4096 characters; this has 4,097 characters"),
            id="long-value-in-a-map",
        ),
        pytest.param(
            RESOURCE_INTERFACE,
            {
                "spec": {
                    "targetGVK": {"kind": "Job"},
                    "gangScheduling": {"podGroups": [{"name": "a", "minMember": 1.5}]},
                }
            },
            ("spec.gangScheduling.podGroups[0].minMember", "must be a whole number or text, not 1.5"),
            id="neither-of-two-types",
        ),
        pytest.param(
            RESOURCE_INTERFACE,
            {
                "spec": {
                    "targetGVK": {"kind": "Job"},
                    "gangScheduling": {"podGroups": [{"name": "a", "minMemberPath": ["x", 1]}]},
                }
            },
            ("spec.gangScheduling.podGroups[0].minMemberPath[1]", "must be text, not 1", "put it in quotes"),
            id="one-of-two-types-with-a-bad-item",
        ),
        pytest.param(
            POD,
            {"spec": {"containers": [{"resources": {"requests": {"cpu": True}}}]}},
            ("spec.containers[0].resources.requests.cpu", "must be text or a whole number or a number, not true"),
            id="bool-as-an-amount",
        ),
        pytest.param(
            NODE, {"spec": {"taints": [{"key": "a"}]}}, ("spec.taints[0].effect", "is missing"), id="core-required"
        ),
        pytest.param(
            PRIORITY_CLASS,
            {"value": "5"},
            ("value", 'must be a whole number, not "5"', "remove the quotes: 5"),
            id="top",
        ),
        pytest.param(
            PRIORITY_CLASS, {"value": 2**63}, ("value", "must not be over 9223372036854775807"), id="over-int64"
        ),
        pytest.param(
            POD_GROUP, {"spce": {}}, ("spce", "is not a known field", "did you mean spec?"), id="unknown-at-the-top"
        ),
    ],
)
def test_one_mismatch_of_another_kind(kind: Kind, document: dict[str, Any], problem: tuple[str, ...]) -> None:
    """The same in metadata, at the top, and in the other kinds; a struct comes out all the same."""
    assert [told(one, problem) for one in problems_of(kind, document)] == [problem]
    assert isinstance(read_object(document, kind)[0], kind.struct)


def test_everything_at_once() -> None:
    """Problems do not hide each other, and come in the order of the document."""
    document = {
        "kin": "PodGroup",
        "metadata": {"name": 1},
        "spec": {
            "minMember": "1",
            "nope": 1,
            "subGroups": [{"name": "a"}, 2, {"name": "b", "minMember": -1, "oops": 1}, {"parent": "a"}],
        },
    }
    assert [problem.path for problem in problems_of(POD_GROUP, document)] == [
        "kin",
        "metadata.name",
        "spec.minMember",
        "spec.nope",
        "spec.subGroups[1]",
        "spec.subGroups[2].minMember",
        "spec.subGroups[2].oops",
        "spec.subGroups[3].name",
    ]


def test_what_is_right_is_kept() -> None:
    """Bad values are left out, and everything around them is in the struct."""
    document = {
        "metadata": {"name": "a", "labels": {"x": [1], "y": "z"}, "creationTimestamp": "2026-01-31T12:00:00Z"},
        "spec": {"minMember": "2", "queue": "q"},
    }
    found, problems = read_object(document, POD_GROUP)
    assert [problem.path for problem in problems] == ["metadata.labels.x", "spec.minMember"]
    assert (found.metadata.name, found.metadata.labels) == ("a", {"y": "z"})
    assert found.metadata.creation_timestamp == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert (found.spec.min_member, found.spec.queue) == (None, "q")


def test_names_are_kept() -> None:
    """A name of the wrong form is said to be wrong, and what refers to it still finds it."""
    found, problems = read_object({"spec": {"subGroups": [{"name": "B"}, {"name": 7}, {"name": "x" * 254}]}}, POD_GROUP)
    assert [problem.path for problem in problems] == [f"spec.subGroups[{index}].name" for index in range(3)]
    assert [subgroup.name for subgroup in found.spec.sub_groups] == ["B", "7", ""]


def test_objects_in_a_list_keep_their_places() -> None:
    """An item that is no object becomes an empty one, so that later paths stay true; other items are left out."""
    found, _ = read_object({"spec": {"subGroups": [1, {"name": "a"}, None, {"name": "b"}]}}, POD_GROUP)
    assert found.spec.sub_groups == [SubGroup(name=""), SubGroup(name="a"), SubGroup(name=""), SubGroup(name="b")]
    sets = {"subGroupSets": [{"subGroups": ["a", [1], "b"]}]}
    found, _ = read_object({"spec": {"topologyConstraints": sets}}, POD_GROUP)
    assert found.spec.topology_constraints.sub_group_sets[0].sub_groups == ["a", "b"]


def test_what_is_too_long_is_cut() -> None:
    """Of a list or mapping over its limit, as much is read as it may hold, and what is wrong with that is said."""
    found, problems = read_object({"spec": {"levels": [{"nodeLabel": "a"}, 1] * 9}}, TOPOLOGY)
    assert [level.node_label for level in found.spec.levels] == ["a", ""] * 8
    assert [problem.path for problem in problems] == ["spec.levels", *(f"spec.levels[{i}]" for i in range(1, 16, 2))]
    older = {"subGroups": {str(i): {} if i % 2 else 1 for i in range(MAX_SUBGROUPS + 5)}}
    found, problems = read_object({"spec": {"topologyConstraints": older}}, POD_GROUP)
    assert len(found.spec.topology_constraints.sub_groups) == MAX_SUBGROUPS // 2
    assert len(problems) == 1 + MAX_SUBGROUPS // 2


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        pytest.param(POD_GROUP, {"metadata": None, "spec": None, "status": None, "nope": None}, id="top"),
        pytest.param(
            POD_GROUP, {"spec": {"minMember": None, "subGroups": None, "topologyConstraints": None}}, id="spec"
        ),
        pytest.param(POD_GROUP, {"metadata": {"labels": {"a": None}, "creationTimestamp": None}}, id="map"),
        pytest.param(
            QUEUE, {"spec": {"resources": {"cpu": {"quota": None, "limit": None}, "gpu": None}}}, id="with-default"
        ),
        pytest.param(POD, {"spec": {"containers": [{"resources": {"requests": {"cpu": None}}}]}}, id="core"),
    ],
)
def test_null_is_absent(kind: Kind, document: dict[str, Any]) -> None:
    """A field that is null is a field that is not there."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without(item) for key, item in value.items() if item is not None}
        return [without(item) for item in value] if isinstance(value, list) else value

    assert read_object(document, kind) == read_object(without(document), kind)
    assert problems_of(kind, document) == []


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        pytest.param(POD_GROUP, {"metadata": {"managedFields": [], "name": "a"}}, id="metadata"),
        pytest.param(POD_GROUP, {"status": {"schedulingConditions": [], "phase": "Running"}}, id="status"),
        pytest.param(TOPOLOGY, {"spec": {"levels": [{"nodeLabel": "a"}]}, "status": {"any": 1}}, id="status-of-none"),
        pytest.param(
            POD, {"spec": {"dnsPolicy": "ClusterFirst", "containers": [{"image": "x"}]}, "extra": 1}, id="pod"
        ),
        pytest.param(NODE, {"spec": {"podCIDR": "10.0.0.0/24"}}, id="node"),
        pytest.param(PRIORITY_CLASS, {"description": "x", "value": 1}, id="priority-class"),
        pytest.param(BUDGET, {"spec": {"unhealthyPodEvictionPolicy": "x"}}, id="budget"),
    ],
)
def test_lenient(kind: Kind, document: dict[str, Any]) -> None:
    """Unknown fields in metadata, in status and in core kinds are no concern of ours."""
    assert problems_of(kind, document, strict=True) == []


def test_no_strict() -> None:
    """Without strictness unknown fields are dropped in silence, and wrong types are still said."""
    document = {"x": 1, "spec": {"y": 1, "subGroups": [{"name": "a", "z": 1}], "minMember": "1"}}
    assert [problem.path for problem in problems_of(POD_GROUP, document, strict=False)] == ["spec.minMember"]
    assert len(problems_of(POD_GROUP, document)) == 3, "beside the spec only what looks misspelled is told"


@pytest.mark.parametrize("kind", [*OUR_KINDS, *CORE_KINDS], ids=lambda kind: kind.name)
def test_every_kind_is_known_by_its_names(kind: Kind) -> None:
    """apiVersion and kind lead to the kind."""
    assert kind_of({"apiVersion": kind.api_version, "kind": kind.name}) is kind


@pytest.mark.parametrize(
    ("document", "unknown"),
    [
        pytest.param(
            {"apiVersion": "scheduling.run.ai/v1", "kind": "PodGroup"},
            Unknown(
                "scheduling.run.ai/v1",
                "PodGroup",
                Problem("apiVersion", 'PodGroup is not in "scheduling.run.ai/v1"', "write scheduling.run.ai/v2alpha2"),
            ),
            id="other-version",
        ),
        pytest.param(
            {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "Podgroup"},
            Unknown(
                "scheduling.run.ai/v2alpha2",
                "Podgroup",
                Problem("kind", '"Podgroup" is not a known kind', "did you mean PodGroup?"),
            ),
            id="misspelled",
        ),
        pytest.param(
            {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard"},
            Unknown("kai.scheduler/v1", "SchedulingShard", None),
            id="of-our-groups-but-not-ours",
        ),
        pytest.param(
            {"apiVersion": "apps/v1", "kind": "Deployment"}, Unknown("apps/v1", "Deployment", None), id="not-ours"
        ),
        pytest.param(
            {"apiVersion": "v1"},
            Unknown("", "", Problem("kind", "is missing or not text", "every object starts with apiVersion and kind")),
            id="no-kind",
        ),
        pytest.param(
            {"kind": "Pod", "apiVersion": 1},
            Unknown(
                "",
                "Pod",
                Problem("apiVersion", "is missing or not text", "every object starts with apiVersion and kind"),
            ),
            id="version-is-a-number",
        ),
        pytest.param([1], Unknown("", "", Problem("", "is not a Kubernetes object but a list")), id="list"),
        pytest.param("x", Unknown("", "", Problem("", 'is not a Kubernetes object but "x"')), id="text"),
        pytest.param(None, Unknown("", "", Problem("", "is not a Kubernetes object but null")), id="null"),
    ],
)
def test_unknown_kinds(document: Any, unknown: Unknown) -> None:
    """A kind that is not ours is skipped, unless it was meant to be one of ours."""
    assert kind_of(document) == unknown


def test_decode_is_lenient() -> None:
    """A watched object keeps what we know of it."""
    found = decode(b'{"kind": "PodGroup", "extra": 1, "spec": {"minMember": 2, "new": 1}}', PodGroup)
    assert found.spec.min_member == 2


@pytest.mark.parametrize(
    ("data", "path", "message"),
    [
        pytest.param(
            b'{"spec": {"subGroups": [{"name": 1}]}}', "spec.subGroups[0].name", "Expected `str`, got `int`", id="type"
        ),
        pytest.param(b'{"spec": 1}', "spec", "Expected `object`, got `int`", id="top"),
        pytest.param(b"[]", "", "Expected `object`, got `array`", id="no-object"),
        pytest.param(b"{", "", "not a JSON object", id="cut-off"),
        pytest.param(b'{"spec": {"queue": "\xff"}}', "", "not a JSON object", id="no-utf-8"),
        pytest.param(b'{"x":' * 100_000, "", "not a JSON object", id="deep"),
    ],
)
def test_decode_refuses(data: bytes, path: str, message: str) -> None:
    """A watched object of another form is BadObject, with the path of what is wrong."""
    with pytest.raises(BadObject) as refused:
        decode(data, PodGroup)
    assert refused.value.path == path
    assert refused.value.message.startswith(message)


def test_nearest_is_bounded() -> None:
    """Hints cost something, so a spec with thousands of unknown fields gets a few of them."""
    document = {"spec": {f"minMembr{number}": 1 for number in range(5000)}}
    problems = problems_of(POD_GROUP, document)
    assert len(problems) == 5000
    assert 1 <= sum("did you mean" in problem.hint for problem in problems) <= 32


def test_the_structs_of_a_shape_are_their_own_kind() -> None:
    """A queue is read as a Queue."""
    found, problems = read_object({"metadata": {"name": "a"}, "spec": {"resources": {"cpu": {"quota": 5}}}}, QUEUE)
    assert problems == []
    assert isinstance(found, Queue)
    assert found.spec.resources.cpu.quota == 5


def test_a_watched_object_may_say_null() -> None:
    """Null is the same as absent, also for the fast decoder; a wrong type is still an error with its path."""
    data = b'{"metadata": {"name": "p", "labels": null}, "spec": {"containers": null, "nodeName": null}}'
    assert decode(data, Pod) == decode(b'{"metadata": {"name": "p"}}', Pod)
    with pytest.raises(BadObject) as error:
        decode(b'{"metadata": {"name": 5, "labels": null}}', Pod)
    assert error.value.path == "metadata.name"


def test_amounts_are_quantities() -> None:
    """What Kubernetes would refuse is told where it stands."""
    container = {"resources": {"requests": {"cpu": "abc", "memory": "1Gi", "gpu": 2}}}
    (problem,) = problems_of(POD, {"spec": {"containers": [container]}})
    assert problem.path == "spec.containers[0].resources.requests.cpu"
