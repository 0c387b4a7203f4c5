"""What has joined is told: in the tree of `muster explain`, in its document and in that of `muster plan`."""

import json

import pytest
import yaml

from muster.cli.main import main
from short_forms import documents_of

LEADER = {"gang": "g", "subGroup": "leader", "on": "n"}
PARTS = [{"name": "leader", "minMember": 1}, {"name": "workers", "minMember": 2}]
GANG = {
    "nodes": [{"name": "n", "gpus": 9}],
    "gangs": {"g": {"minSubGroup": 1, "subGroups": PARTS}},
    "pods": [LEADER, {"gang": "g", "subGroup": "workers", "count": 2, "on": "n"}],
}
KEPT = {**GANG, "keep": {"g": "."}}
LOST = {**KEPT, "history": {"g": {"joined": ["leader", "workers"], "lost": ["workers"]}}, "pods": [LEADER]}
JOINED = "leader, workers have joined and go only with the gang"


@pytest.fixture
def said(tmp_path, capsys):
    def run(objects, *words):
        file = tmp_path / "cluster.yaml"
        file.write_text(yaml.safe_dump_all(documents_of(objects)))
        with pytest.raises(SystemExit):
            main([*words, "-f", str(file)])
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    ("objects", "lines"),
    [
        pytest.param(KEPT, [JOINED], id="both have joined"),
        pytest.param(
            LOST, [JOINED, "workers: pods are lost and none waits, so no staleness clock runs"], id="one lost its pods"
        ),
        pytest.param(GANG, [], id="nothing is kept together"),
    ],
)
def test_explain_says_what_goes_only_together(said, objects, lines):
    out = said(objects, "explain", "default/g")
    assert all(line in out for line in lines)
    assert ("joined" in out) is bool(lines)


@pytest.mark.parametrize("words", [("plan", "-o", "json"), ("explain", "default/g", "-o", "json")])
def test_documents_have_it_where_children_are_kept(said, words):
    for objects, joined in ((KEPT, [None, True, True]), (GANG, [None, None, None])):
        found = json.loads(said(objects, *words))
        gang = found["podGroups"][0] if "podGroups" in found else found
        assert [one.get("joined") for one in gang["subGroups"]] == joined


@pytest.mark.parametrize("redact", [[], ["--no-redact"]], ids=["redacted", "whole"])
def test_a_snapshot_has_what_is_kept_together(said, tmp_path, capsys, redact):
    """An urgent pod takes the whole gang, in the plan as in its replay."""
    gangs = {**GANG["gangs"], "u": {"priorityClassName": "build"}}
    full = {**KEPT, "nodes": [{"name": "n", "gpus": 3}], "gangs": gangs, "pods": [*GANG["pods"], {"gang": "u"}]}
    planned = said(full, "plan", "-o", "json")
    assert len(json.loads(planned)["evictions"]) == 3
    recorded = said(full, "snapshot", *redact)
    file = tmp_path / "cycle.json"
    file.write_text(recorded)
    with pytest.raises(SystemExit):
        main(["replay", str(file), "-o", "json"])
    assert capsys.readouterr().out == planned
