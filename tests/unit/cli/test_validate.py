"""`muster validate`: what is printed, where, in which form, and with which exit code."""

import json
import os
from pathlib import Path

import pytest

HEAD = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: %s}\nspec:\n"
GOOD = HEAD % "good" + "  minMember: 2\n"
FLOOR = HEAD % "floor" + "  minMember: 9\n  subGroups: [{name: a, minMember: 1}, {name: b, minMember: 1}]\n"
BAD = HEAD % "bad" + "  minmember: 2\n  minSubGroup: 1\n"
THREE = HEAD % "three" + (
    "  minSubGroup: 5\n"
    "  subGroups:\n"
    "    - {name: a, minMember: 1}\n"
    "    - {name: a, minMember: 1}\n"
    "    - {name: b, parent: nowhere, minMember: 1}\n"
)
TOPOLOGY = (
    "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: dc}\n"
    "spec: {levels: [{nodeLabel: t/zone}, {nodeLabel: t/rack}]}\n"
)
RACKED = HEAD % "racked" + "  topologyConstraint: {topology: dc, requiredTopologyLevel: rak}\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(GOOD, 0, id="valid"),
        pytest.param(FLOOR, 0, id="warnings alone"),
        pytest.param(BAD, 1, id="errors"),
        pytest.param("a: [\n", 1, id="not YAML"),
        pytest.param("", 2, id="nothing"),
        pytest.param("apiVersion: v1\nkind: Service\n", 0, id="other kinds only"),
        pytest.param("apiVersion: scheduling.run.ai/v2alpha1\nkind: PodGroup\n", 1, id="our kind, unknown version"),
        pytest.param("apiVersion: scheduling.run.ai/v2alpha2\nkind: Podgroup\n", 1, id="our kind, misspelled"),
        pytest.param("apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n", 0, id="somebody else's PodGroup"),
        pytest.param("just text", 1, id="no object"),
        pytest.param("kind: PodGroup\n", 1, id="no apiVersion"),
    ],
)
def test_exit_code(muster, text, code):
    """0 when nothing is wrong or only warned about, 1 when something is invalid, 2 when there is nothing to judge."""
    assert muster("validate", "-f", "-", stdin=text).code == code


def test_json_has_exactly_the_promised_fields_and_order(muster, tmp_path):
    """`-o json` is the list of SPEC §10, in the order of the input, documents from 1."""
    file = tmp_path / "groups.yaml"
    file.write_text("---\n" + GOOD + "---\n" + BAD + "---\n" + FLOOR)
    run = muster("validate", "-f", file, "-o", "json")
    assert run.code == 1
    assert [list(row) for row in run.json] == [
        ["file", "document", "kind", "name", "severity", "path", "message", "hint"]
    ] * len(run.json)
    assert [(row["document"], row["name"], row["severity"], row["path"]) for row in run.json] == [
        (2, "bad", "error", "spec.minmember"),
        (2, "bad", "error", "spec.minSubGroup"),
        (3, "floor", "warning", "spec.minMember"),
    ]
    assert run.json[0]["file"] == str(file)
    assert run.json[0]["hint"] == "did you mean minMember?"


def test_json_of_a_valid_input_is_an_empty_list(muster):
    assert muster("validate", "-f", "-", "-o", "json", stdin=GOOD).json == []


def test_three_errors_in_one_answer(muster):
    """A duplicate name, a missing parent and a minSubGroup that is too large are all told at once."""
    rows = muster("validate", "-f", "-", "-o", "json", stdin=THREE).json
    assert sorted(row["path"] for row in rows) == [
        "spec.minSubGroup",
        "spec.subGroups[1].name",
        "spec.subGroups[2].parent",
    ]
    assert {row["severity"] for row in rows} == {"error"}


def test_one_bad_document_does_not_cost_the_others(muster, tmp_path):
    """A document that is no YAML is one error; those before and after it are judged."""
    file = tmp_path / "mixed.yaml"
    file.write_text(GOOD + "---\nfoo: [\n---\n" + FLOOR + "---\n- *alias\n")
    rows = muster("validate", "-f", file, "-o", "json").json
    assert [(row["document"], row["severity"], row["path"]) for row in rows] == [
        (2, "error", ""),
        (3, "warning", "spec.minMember"),
        (4, "error", ""),
    ]


def test_lists_are_taken_apart(muster):
    """`kind: List` and typed lists are judged item by item, with paths as in the item."""
    items = [json.loads(json.dumps({"metadata": {"name": f"g{i}"}, "spec": {"minMember": i - 1}})) for i in range(3)]
    for item in items:
        item.update(apiVersion="scheduling.run.ai/v2alpha2", kind="PodGroup")
    whole = {"apiVersion": "v1", "kind": "List", "items": items}
    rows = muster("validate", "-f", "-", "-o", "json", stdin=json.dumps(whole)).json
    assert [(row["document"], row["name"], row["path"]) for row in rows] == [
        (1, "g0", "spec.minMember"),
        (1, "g1", "spec.minMember"),
    ]


def test_folders_are_read_with_all_below_in_the_order_of_names(muster, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.yml").write_text(BAD)
    (tmp_path / "one.yaml").write_text(BAD)
    (tmp_path / "three.json").write_text('{"apiVersion": "v1"}')
    (tmp_path / "notes.txt").write_text("not read")
    rows = muster("validate", "-f", tmp_path, "-o", "json").json
    assert list(dict.fromkeys(Path(row["file"]).name for row in rows)) == ["two.yml", "one.yaml", "three.json"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        pytest.param([], "nothing to read", id="no -f"),
        pytest.param(["-f", "no-such-file.yaml"], "can't read no-such-file.yaml", id="missing file"),
        pytest.param(["-f", "x", "-o", "xml"], "xml", id="unknown form"),
        pytest.param(["-f", "-", "--set", "a=1"], "not a known key", id="unknown key"),
        pytest.param(["--bogus"], "--bogus", id="unknown option"),
    ],
)
def test_wrong_usage_exits_2_with_a_sentence(muster, args, words):
    run = muster("validate", *args)
    assert run.code == 2
    assert words in run.err
    assert "Traceback" not in run.err
    assert run.out == ""


def test_objects_are_judged_together(muster):
    """A PodGroup knows the Topologies of the same input; without any, it is not told that they are missing."""
    alone = muster("validate", "-f", "-", "-o", "json", stdin=RACKED).json
    together = muster("validate", "-f", "-", "-o", "json", stdin=RACKED + "---\n" + TOPOLOGY).json
    assert alone == []
    assert [(row["severity"], row["path"], row["hint"]) for row in together] == [
        ("warning", "spec.topologyConstraint.requiredTopologyLevel", "did you mean rack?")
    ]


def test_the_same_object_twice_is_told(muster):
    rows = muster("validate", "-f", "-", "-o", "json", stdin=GOOD + "---\n" + GOOD).json
    assert [(row["document"], row["severity"], row["path"]) for row in rows] == [(2, "warning", "metadata.name")]


def test_the_table_says_minimum_and_next_step(muster):
    run = muster("validate", "-f", "-", stdin=HEAD % "g" + "  minSubGroup: 1\n  subGroups: [{name: a, minMember: 3}]\n")
    assert "PodGroup default/g: valid; minimum 3 pods, all 1 required" in run.out
    assert "1 object: 1 valid, 0 invalid" in run.err
    assert "next: kubectl apply -f -" in run.err


def test_other_kinds_are_skipped_with_a_note(muster):
    run = muster("validate", "-f", "-", stdin="apiVersion: v1\nkind: Service\n---\n" + GOOD)
    assert "skipped 1 object of other kinds: Service (1)" in run.err


def test_names_of_invalid_objects(muster):
    run = muster("validate", "-f", "-", "-o", "name", stdin=GOOD + "---\n" + BAD)
    assert run.out == "podgroup.scheduling.run.ai/bad\n"


def test_no_strict_does_not_mind_unknown_fields(muster):
    text = HEAD % "x" + "  minMember: 1\n  surprise: 1\n"
    assert muster("validate", "-f", "-", stdin=text).code == 1
    assert muster("validate", "-f", "-", "--no-strict", stdin=text).code == 0


def test_hostile_names_do_not_reach_the_terminal(muster):
    """Escape sequences and direction marks are shown, not obeyed."""
    text = json.dumps(
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "\x1b[31mred\u202e"},
            "spec": {"subGroups": [{"name": "\x1b]0;title\x07", "minMember": 1}], "\x1b[2J": 1},
        }
    )
    run = muster("validate", "-f", "-", stdin=text)
    assert run.code == 1
    assert not {"\x1b", "\x07", "\u202e"} & set(run.out + run.err)


def test_trees_are_drawn(muster):
    """Optional children hang on dashed lines, constraints and sets stand beside the nodes that they hold."""
    text = HEAD % "t" + (
        "  minSubGroup: 1\n"
        "  topologyConstraint: {topology: dc, requiredTopologyLevel: zone}\n"
        "  subGroups:\n"
        "    - {name: a}\n"
        "    - {name: a-1, parent: a, minMember: 1}\n"
        "    - {name: a-2, parent: a, minMember: 4}\n"
        "    - {name: a-3, parent: a, minMember: 4}\n"
        "    - {name: b, minMember: 2}\n"
        "  topologyConstraints:\n"
        "    subGroupSets: [{subGroups: [a-1, a-2], constraint: {requiredTopologyLevel: rack}}]\n"
    )
    out = muster("validate", "-f", "-", "--tree", stdin=text).out.splitlines()
    assert [line.rstrip() for line in out[1:]] == [
        "  minimum 2 pods, any 1 of 2  in one zone of dc",
        "  ├╌ a        all 3 required (9 pods)",
        "  │  ├─ a-1   1 pod",
        "  │  ├─ a-2   4 pods",
        "  │  └─ a-3   4 pods",
        "  └╌ b        2 pods",
        "  together in one rack of dc: a-1, a-2",
    ]


@pytest.mark.parametrize("word", ["yes", "on", "n", "0644", "1_000"])
def test_what_kubectl_would_read_differently_is_an_error(muster, word):
    """The API server would get a boolean or a number: the author has to put it in quotes."""
    rows = muster("validate", "-f", "-", "-o", "json", stdin=HEAD % "g" + f"  minMember: 1\n  queue: {word}\n").json
    assert [(row["severity"], row["path"]) for row in rows] == [("error", "spec.queue")]
    assert f'write "{word}"' in rows[0]["hint"]
    assert muster("validate", "-f", "-", stdin=HEAD % "g" + f'  minMember: 1\n  queue: "{word}"\n').code == 0


def test_other_kinds_may_hold_what_they_like(muster):
    assert (
        muster("validate", "-f", "-", stdin="apiVersion: apps/v1\nkind: DaemonSet\nspec: {a: 0644, b: yes}\n").code == 0
    )


def test_a_folder_gives_regular_files_only(muster, tmp_path):
    """A pipe in a folder would wait for ever, a dangling link leads nowhere."""
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "a.YAML").write_text(GOOD)
    run = muster("validate", "-f", tmp_path, "-f", tmp_path / "a.YAML")
    assert run.code == 0
    assert "1 object: 1 valid" in run.err


def test_a_list_without_a_list(muster):
    assert muster("validate", "-f", "-", stdin="apiVersion: v1\nkind: List\nitems: 3\n").code == 1


def test_names_can_not_forge_lines(muster):
    """A name with a newline stays on its line."""
    text = json.dumps(
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "x\nPodGroup default/evil: valid"},
            "spec": {},
        }
    )
    out = muster("validate", "-f", "-", stdin=text).out
    assert not any(line.startswith("PodGroup default/evil") for line in out.splitlines())


def test_the_next_step_can_be_pasted(muster, tmp_path):
    file = tmp_path / "a b.yaml"
    file.write_text(GOOD)
    assert f"next: kubectl apply -f '{file}'" in muster("validate", "-f", file).err


def test_what_is_too_much_is_read_in_part_and_told(muster):
    """Documents and items beyond the limit are one error; those within it are judged."""
    documents = "---\n".join([GOOD] * 4)
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Service"}] * 4})
    for text in (documents, items):
        run = muster("validate", "-f", "-", "-o", "json", "--set", "input.maxDocuments=3", stdin=text)
        assert [row["message"] for row in run.json if "the rest is not read" in row["message"]]
        assert run.code == 1
        assert muster("validate", "-f", "-", "--set", "input.maxDocuments=4", stdin=text).code == 0


RUNNING = HEAD % "g" + (
    "  preemptibility: semi-preemptible\n"
    "  minSubGroup: 2\n"
    "  subGroups: [{name: a, minMember: 1}, {name: b, minMember: 1}, {name: c, minMember: 1}]\n"
)
STATUS = 'status: {subGroups: [{name: "", satisfied: true, pods: {placed: 3, total: 3}}]}\n'


def changed(before, after):
    return RUNNING.replace(before, after)


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        pytest.param(RUNNING + STATUS, changed("minSubGroup: 2", "minSubGroup: 3"), "spec.minSubGroup", id="raised"),
        pytest.param(RUNNING + STATUS, changed("  minSubGroup: 2\n", ""), "spec.minSubGroup", id="taken out"),
        pytest.param(
            RUNNING + STATUS, changed("a, minMember: 1", "a, minMember: 2"), "spec.subGroups[0].minMember", id="leaf"
        ),
        pytest.param(RUNNING + STATUS, changed("minSubGroup: 2", "minSubGroup: 1"), "", id="lowered"),
        pytest.param(RUNNING + STATUS, RUNNING, "", id="the same"),
        pytest.param(RUNNING, changed("minSubGroup: 2", "minSubGroup: 3"), "", id="nothing of it runs"),
        pytest.param(
            RUNNING.replace("semi-preemptible", "preemptible") + STATUS,
            changed("minSubGroup: 2", "minSubGroup: 3"),
            "",
            id="not semi-preemptible",
        ),
        pytest.param(
            (RUNNING + STATUS).replace("{name: g}", "{name: g, namespace: other}"),
            changed("minSubGroup: 2", "minSubGroup: 3"),
            "",
            id="in another namespace",
        ),
        pytest.param(TOPOLOGY, TOPOLOGY.replace("t/rack", "t/row"), "spec.levels", id="levels of a Topology"),
    ],
)
def test_a_change_is_judged_against_what_is_there(muster, tmp_path, old, new, path):
    """Raising a minimum of a running semi-preemptible gang is refused, lowering it works; levels stay as they are."""
    file = tmp_path / "now.yaml"
    file.write_text(old)
    run = muster("validate", "--old", file, "-f", "-", "-o", "json", stdin=new)
    found = [row["path"] for row in run.json if row["severity"] == "error"]
    assert (run.code, bool(found)) == ((1, True) if path else (0, False))
    assert all(one.startswith(path) for one in found)
    assert muster("validate", "-f", "-", stdin=new).code == 0


def test_what_runs_may_come_from_a_pipe(muster, tmp_path):
    """A List, as kubectl prints it; what is to come may stand in a file."""
    file = tmp_path / "new.yaml"
    file.write_text(changed("minSubGroup: 2", "minSubGroup: 3"))
    item = (RUNNING + STATUS).replace("\n", "\n  ").rstrip()
    run = muster("validate", "--old", "-", "-f", file, stdin=f"apiVersion: v1\nkind: List\nitems:\n- {item}\n")
    assert run.code == 1
    assert "raises the minimum of the PodGroup from any 2 of 3 (2 pods) to all 3 required (3 pods)" in run.out
    assert run.err.splitlines()[-1] == f"next: mend the errors, then muster validate -f {file} --old -"


def test_what_is_new_or_has_no_status_is_told(muster, tmp_path):
    """So that nobody takes silence for a yes."""
    file = tmp_path / "now.yaml"
    file.write_text(RUNNING)
    run = muster("validate", "--old", file, "-f", "-", stdin=RUNNING + "---\n" + GOOD + "---\n" + FLOOR)
    assert "note: PodGroup default/good and 1 more object not in --old: judged as new" in run.err
    assert "note: PodGroup default/g in --old without a status: no pod of it counts as placed" in run.err


@pytest.mark.parametrize(
    ("old", "words"),
    [
        pytest.param("-", "standard input can't be both -f and --old", id="both from standard input"),
        pytest.param("no-such", "can't read no-such", id="not there"),
        pytest.param("broken.yaml", "document 1", id="not YAML"),
    ],
)
def test_what_is_there_must_be_readable(muster, tmp_path, monkeypatch, old, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.yaml").write_text("a: [\n")
    run = muster("validate", "--old", old, "-f", "-", stdin=GOOD)
    assert (run.code, run.out) == (2, "")
    assert words in run.err
