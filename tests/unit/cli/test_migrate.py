"""`muster migrate`: every older form of the foundation issue, what it becomes, and when it asks instead."""

import pytest
import yaml

from muster.api.documents import read
from muster.api.tree import minimum_pods, normal_form
from muster.api.validation import Context
from muster.api.validation import validate as judge

HEAD = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: g}\nspec:\n"

DYNAMO = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  name: dynamo-inference
  annotations: {kai.scheduler/topology: datacenter-topology}
spec:
  queue: inference
  preemptibility: semi-preemptible
  minMember: %d
  minSubGroup: 2
  subGroups:
    - {name: prefill, minMember: %d, minSubGroup: 3, topologyConstraint: {requiredTopologyLevel: zone}}
    - {name: prefill-0, parent: prefill, minMember: 8, topologyConstraint: {requiredTopologyLevel: rack}}
    - {name: prefill-1, parent: prefill, minMember: 8, topologyConstraint: {requiredTopologyLevel: rack}}
    - {name: prefill-2, parent: prefill, minMember: 8, topologyConstraint: {requiredTopologyLevel: rack}}
    - {name: prefill-3, parent: prefill, minMember: 8, topologyConstraint: {requiredTopologyLevel: rack}}
    - {name: decode, minMember: 4, minSubGroup: 1, topologyConstraint: {requiredTopologyLevel: zone}}
    - {name: decode-0, parent: decode, minMember: 4, topologyConstraint: {requiredTopologyLevel: rack}}
    - {name: decode-1, parent: decode, minMember: 4, topologyConstraint: {requiredTopologyLevel: rack}}
"""

LEADERS_AND_WORKERS = (
    HEAD
    + """
  minMember: %d
  subGroups:
    - {name: decode, minMember: 2}
    - {name: decode-workers, parent: decode, minMember: 4}
    - {name: decode-leaders, parent: decode, minMember: 1}
    - {name: prefill, minMember: 2}
    - {name: prefill-workers, parent: prefill, minMember: 4}
    - {name: prefill-leaders, parent: prefill, minMember: 1}
  topologyConstraints:
    subGroups:
      decode-workers: {requiredTopologyLevel: rack}
      decode-leaders: {requiredTopologyLevel: rack}
    subGroupSets:
      - {subGroups: [decode-workers, decode-leaders], constraint: {requiredTopologyLevel: block}}
"""
)

REPLICAS = (
    HEAD
    + """
  minMember: %d
  subGroups:
    - {name: replica-1, minMember: 3}
    - {name: replica-2, minMember: 3}
    - {name: replica-3, minMember: 3}
"""
)


def migrated(run):
    """The objects that came out."""
    return [document.value for document in read(run.out.encode())]


def minimums(spec):
    found = {"": (spec.get("minMember"), spec.get("minSubGroup"))}
    found.update({one["name"]: (one.get("minMember"), one.get("minSubGroup")) for one in spec["subGroups"]})
    return found


def test_the_full_dynamo_example(muster):
    """Doubled nodes are errors; each minMember equals the implied pods, so it is dropped, and the result is valid."""
    before = muster("validate", "-f", "-", "-o", "json", stdin=DYNAMO % (28, 24)).json
    doubled = [row["path"] for row in before if row["severity"] == "error"]
    assert doubled == [
        f"{path}.{field}"
        for path in ("spec", "spec.subGroups[0]", "spec.subGroups[5]")
        for field in ("minMember", "minSubGroup")
    ]
    run = muster("migrate", "-f", "-", stdin=DYNAMO % (28, 24))
    assert run.code == 0
    spec = migrated(run)[0]["spec"]
    assert minimums(spec) == {
        "": (None, 2),
        "prefill": (None, 3),
        **{f"prefill-{i}": (8, None) for i in range(4)},
        "decode": (None, 1),
        **{f"decode-{i}": (4, None) for i in range(2)},
    }
    assert [line.split(":")[0].split()[-1] for line in run.err.splitlines() if "changed  " in line] == [
        "spec.minMember",
        "spec.subGroups[0].minMember",
        "spec.subGroups[5].minMember",
    ]
    after = judge(migrated(run)[0], Context())
    assert after.violations == []
    assert minimum_pods(normal_form(after.object))[0] == 28


def test_a_minimum_that_is_not_the_implied_one_stops_and_asks(muster):
    """30 pods over three replicas of 8: somebody has to decide, and the object comes out as it was."""
    run = muster("migrate", "-f", "-", stdin=DYNAMO % (28, 30))
    assert run.code == 1
    assert "decide   spec.subGroups[0].minMember: prefill sets minMember: 30 and minSubGroup: 3" in run.err
    assert "24 pods" in run.err
    assert migrated(run) == [yaml.safe_load(DYNAMO % (28, 30))]


@pytest.mark.parametrize("root", [2, 1])
def test_older_counts_of_children_on_root_and_branches(muster, root):
    """With --counts subgroups, minMember on roots and branches becomes minSubGroup; leaves keep theirs."""
    run = muster("migrate", "-f", "-", "--counts", "subgroups", stdin=LEADERS_AND_WORKERS % root)
    assert run.code == 0
    spec = migrated(run)[0]["spec"]
    assert minimums(spec) == {
        "": (None, root),
        "decode": (None, 2),
        "decode-workers": (4, None),
        "decode-leaders": (1, None),
        "prefill": (None, 2),
        "prefill-workers": (4, None),
        "prefill-leaders": (1, None),
    }
    assert "topologyConstraints" not in spec
    assert spec["subGroups"][0]["topologyConstraint"] == {"requiredTopologyLevel": "block"}
    assert spec["subGroups"][1]["topologyConstraint"] == {"requiredTopologyLevel": "rack"}


def test_two_of_three_replicas(muster):
    run = muster("migrate", "-f", "-", "--counts", "subgroups", stdin=REPLICAS % 2)
    assert run.code == 0
    assert minimums(migrated(run)[0]["spec"])[""] == (None, 2)


def test_children_can_not_be_more_than_there_are(muster):
    run = muster("migrate", "-f", "-", "--counts", "subgroups", stdin=REPLICAS % 4)
    assert run.code == 1
    assert "minMember: 4 of the PodGroup can't count its 3 children" in run.err


@pytest.mark.parametrize(
    ("members", "left"),
    [
        pytest.param(9, None, id="exactly the minimums: dropped"),
        pytest.param(7, None, id="less than the minimums: dropped, it adds nothing"),
        pytest.param(12, 12, id="more than the minimums: a real floor, kept"),
        pytest.param(2, 2, id="no more than the children: may count them, kept and warned about"),
    ],
)
def test_root_minimum_beside_subgroups(muster, members, left):
    """A root's minMember that adds nothing goes; one that has a meaning, or may have another one, stays."""
    run = muster("migrate", "-f", "-", stdin=REPLICAS % members)
    assert run.code == 0
    assert minimums(migrated(run)[0]["spec"])[""] == (left, None)


@pytest.mark.parametrize(
    ("members", "code"),
    [pytest.param(5, 0, id="all pods of its children"), pytest.param(3, 1, id="something else")],
)
def test_branch_minimum(muster, members, code):
    """A branch's minMember that is what all children ask for goes; any other has two readings."""
    text = (
        HEAD
        + f"""
  subGroups:
    - {{name: decode, minMember: {members}}}
    - {{name: leaders, parent: decode, minMember: 1}}
    - {{name: workers, parent: decode, minMember: 4}}
"""
    )
    run = muster("migrate", "-f", "-", stdin=text)
    assert run.code == code
    assert ("decide   spec.subGroups[0].minMember" in run.err) == bool(code)


def test_spelling_and_ignored_fields(muster):
    text = HEAD + "  parallelism: 3\n  subgroups: [{name: a, minMember: 1}]\n  queue: q\n"
    run = muster("migrate", "-f", "-", stdin=text)
    assert run.code == 0
    assert migrated(run)[0]["spec"] == {"subGroups": [{"name": "a", "minMember": 1}], "queue": "q"}


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        pytest.param(
            "{global: {requiredTopologyLevel: zone}}",
            {"topologyConstraint": {"requiredTopologyLevel": "zone"}},
            id="global over all pods: on the root",
        ),
        pytest.param(
            "{global: {requiredTopologyLevel: zone}, subGroups: {a: {requiredTopologyLevel: rack}}}",
            {"topologyConstraints": {"global": {"requiredTopologyLevel": "zone"}}},
            id="global over some pods: stays",
        ),
        pytest.param(
            "{subGroupSets: [{subGroups: [a, b], constraint: {requiredTopologyLevel: rack}}]}",
            {
                "topologyConstraints": {
                    "subGroupSets": [{"subGroups": ["a", "b"], "constraint": {"requiredTopologyLevel": "rack"}}]
                }
            },
            id="set of some children: stays",
        ),
        pytest.param(
            "{subGroupSets: [{subGroups: [c, a, b], constraint: {requiredTopologyLevel: rack}}]}",
            {"topologyConstraint": {"requiredTopologyLevel": "rack"}},
            id="set of all children: on their parent",
        ),
    ],
)
def test_older_constraints(muster, constraints, expected):
    """Constraints move onto the tree where the tree can say the same, and stay beside it where not."""
    leaves = "  subGroups: [{name: a, minMember: 1}, {name: b, minMember: 1}, {name: c, minMember: 1}]\n"
    run = muster("migrate", "-f", "-", stdin=f"{HEAD}  topologyConstraints: {constraints}\n{leaves}")
    assert run.code == 0
    spec = migrated(run)[0]["spec"]
    assert {key: value for key, value in spec.items() if key != "subGroups"} == expected


def test_what_does_not_change_comes_out_as_it_was_written(muster):
    """Other documents keep every byte: comments, and scalars that kubectl reads its own way."""
    other = "# mine\napiVersion: apps/v1\nkind: DaemonSet\nspec: {mode: 0644, on: yes}  # kept\n"
    good = "---\n# a comment\n" + HEAD + "  minMember: 1\n"
    old = "---\n" + HEAD + "  subgroups: [{name: a, minMember: 1}]\n"
    run = muster("migrate", "-f", "-", stdin=other + good + old)
    assert run.code == 0
    assert run.out.startswith("---\n" + other + good + "---\n")
    assert migrated(run)[2]["spec"] == {"subGroups": [{"name": "a", "minMember": 1}]}


def test_what_changes_keeps_what_migrate_does_not_know(muster):
    text = HEAD + "  subgroups: [{name: a, minMember: 1}]\n  unknown: {x: [1, 2.5, null], y: '0123', n: 'on'}\n"
    run = muster("migrate", "-f", "-", stdin=text)
    assert migrated(run)[0]["spec"]["unknown"] == {"x": [1, 2.5, None], "y": "0123", "n": "on"}
    assert next(iter(yaml.safe_load_all(run.out)))["spec"]["unknown"]["n"] == "on"
    assert run.code == 1, "the unknown field is an error that migration does not mend"
    assert "spec.unknown" in run.err


def test_doubtful_scalars_are_not_written_again(muster):
    """Writing the object anew would choose between two readings: somebody has to."""
    text = HEAD + "  queue: on\n  subgroups: [{name: a, minMember: 1}]\n"
    run = muster("migrate", "-f", "-", stdin=text)
    assert run.code == 1
    assert "decide   spec.queue: unquoted on is true to kubectl" in run.err
    assert run.out == "---\n" + text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: t}\nspec: {levels: []}\n", id="t"
        ),
        pytest.param("apiVersion: scheduling.run.ai/v2alpha2\nkind: Podgroup\n", id="misspelled kind"),
        pytest.param("hello", id="no object"),
        pytest.param("a: [", id="no YAML"),
    ],
)
def test_what_is_still_invalid_exits_with_1(muster, text):
    run = muster("migrate", "-f", "-", stdin=text)
    assert run.code == 1
    assert "still invalid" in run.err


def test_a_set_without_a_level_is_left_alone(muster):
    """It hands a topology down to its members; on the root it would hand it to everybody."""
    text = HEAD.replace("{name: g}", "{name: g, annotations: {kai.scheduler/topology: t1}}") + (
        "  subGroups: [{name: a, minMember: 3}, {name: b, minMember: 3}]\n"
        "  topologyConstraints:\n"
        "    global: {requiredTopologyLevel: rack}\n"
        "    subGroupSets: [{subGroups: [a, b], constraint: {topology: t2}}]\n"
    )
    spec = migrated(muster("migrate", "-f", "-", stdin=text))[0]["spec"]
    assert spec["topologyConstraint"] == {"requiredTopologyLevel": "rack"}
    assert len(spec["topologyConstraints"]["subGroupSets"]) == 1


def test_constraints_that_contradict_each_other_are_not_moved(muster):
    """One SubGroup in two sets is an error before and after."""
    text = HEAD + (
        "  subGroups: [{name: a, minMember: 1}, {name: b, minMember: 1}]\n"
        "  topologyConstraints:\n"
        "    subGroupSets:\n"
        "      - {subGroups: [a, b], constraint: {requiredTopologyLevel: rack}}\n"
        "      - {subGroups: [a], constraint: {requiredTopologyLevel: zone}}\n"
    )
    run = muster("migrate", "-f", "-", stdin=text)
    assert run.code == 1
    assert "a is already in subGroupSets[0]" in run.err


def test_json_is_a_list_that_kubectl_takes(muster):
    run = muster("migrate", "-f", "-", "-o", "json", stdin=HEAD + "  minMember: 1\n")
    assert run.json["kind"] == "List"
    assert [item["kind"] for item in run.json["items"]] == ["PodGroup"]


def test_what_is_no_kind_of_ours_is_named_and_is_no_success(muster, tmp_path):
    """Somebody who hands over a Job believes afterwards that something was done with it."""
    file = tmp_path / "job.yaml"
    file.write_text("apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: train-}\n")
    done = muster("migrate", "-f", file)
    assert done.code == 1
    assert "only PodGroups have older spellings, and this is Job (1)" in done.err
    assert f"next: muster group -f {file}" in done.err
    assert done.out == f"---\n{file.read_text()}"


def test_other_kinds_beside_a_podgroup_are_left_alone(muster, tmp_path):
    file = tmp_path / "both.yaml"
    text = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 1}\n"
    file.write_text(f"{text}---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\n")
    done = muster("migrate", "-f", file)
    assert done.code == 0
    assert "left alone: Job (1)" in done.err
