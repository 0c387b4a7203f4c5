"""`muster plan --html`: the plan as one file, with the reasons of everybody who waits."""

import json
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
# It asks for more than any node has.
LARGE = (
    "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: large}\nspec: {minMember: 1}\n---\n"
    "apiVersion: v1\nkind: Pod\nmetadata: {name: large-0, annotations: {pod-group-name: large}}\n"
    "spec: {containers: [{resources: {requests: {nvidia.com/gpu: 100}}}]}\n"
)


@pytest.fixture
def page(muster, tmp_path):
    """What a plan says, and what is in its page."""

    def plan(*args, **more):
        file = tmp_path / "page.html"
        told = muster("plan", *args, "--html", file, **more)
        assert f"wrote {file}" in told.err
        text = file.read_text(encoding="utf-8")
        return told, json.loads(re.search(r'id="frozen">(.*?)</script>', text, re.DOTALL)[1]), text

    return plan


def test_the_page_has_the_plan_and_the_reasons(page):
    told, held, text = page("-f", EXAMPLES / "cluster", "--add", EXAMPLES / "inference.yaml")
    assert told.code == 0
    assert "default/inference-service" in told.out
    frame = held["frame"]
    assert frame["source"]["kind"] == "frozen"
    assert set(frame["gangs"]) == set(held["explanations"]) == {"default/inference-service", "default/monthly"}
    assert len(frame["nodes"]) == frame["summary"]["nodes"]
    found = held["explanations"]["default/inference-service"]
    cluster, added = (EXAMPLES / name for name in ("cluster", "inference.yaml"))
    assert found["command"] == f"muster explain default/inference-service -f {cluster} --add {added}"
    assert f"<title>muster plan -f {cluster} --add {added}</title>" in text
    assert set(held["timeline"]["lanes"]) <= set(frame["gangs"])
    assert held["decisions"][str(frame["version"])]["bindings"]


def test_a_command_says_what_was_assumed(page):
    """`muster explain` can't drain a node, so the plan is what says the same."""
    _, held, _ = page("-f", EXAMPLES / "cluster", "--drain", "n1a")
    commands = {one["command"] for one in held["explanations"].values()}
    assert commands == {f"muster plan -f {EXAMPLES / 'cluster'} --drain n1a"}


def test_who_waits_is_explained_first(page, monkeypatch):
    monkeypatch.setattr("muster.cli.freezing._MOST_EXPLAINED", 1)
    told, held, _ = page("-f", EXAMPLES / "cluster", "--add", "-", stdin=LARGE)
    assert list(held["explanations"]) == ["default/large"]
    assert "the page explains 1 gang, those that wait first" in told.err


# It may go where it is wanted once somebody has left: it is placed as far as the plan goes, and waits.
LATER = (
    "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: 4}}\n---\n"
    "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: a}\nspec: {minMember: 1}\n---\n"
    "apiVersion: v1\nkind: Pod\nmetadata: {name: a-0, annotations: {pod-group-name: a}}\n"
    "spec: {nodeName: n, containers: [{resources: {requests: {cpu: 1}}}]}\n---\n"
    "apiVersion: v1\nkind: Pod\nmetadata: {name: old, deletionTimestamp: '2026-01-01T00:00:00Z'}\n"
    "spec: {nodeName: n, containers: [{resources: {requests: {cpu: 3}}}]}\n---\n"
    "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: later}\nspec: {minMember: 1}\n---\n"
    "apiVersion: v1\nkind: Pod\nmetadata: {name: later-0, annotations: {pod-group-name: later}}\n"
    "spec: {schedulerName: kai-scheduler, containers: [{resources: {requests: {cpu: 2}}}]}\n"
)


def test_who_waits_for_room_waits(page, monkeypatch):
    """Though its verdict is that it is placed; and the explanation names the pods that must leave first."""
    monkeypatch.setattr("muster.cli.freezing._MOST_EXPLAINED", 1)
    _, held, _ = page("-f", "-", stdin=LATER)
    assert list(held["explanations"]) == ["default/later"]
    assert held["explanations"]["default/later"]["verdict"] == "Placed"
    assert held["explanations"]["default/later"]["waitsFor"] == [{"node": "n", "pods": ["default/old"]}]


def test_a_file_that_can_not_be_written_is_said(muster, tmp_path):
    told = muster("plan", "-f", EXAMPLES / "cluster", "--html", tmp_path / "no" / "page.html")
    assert told.code == 2
    assert "can't write" in told.err


def test_a_page_is_a_file(muster, tmp_path, monkeypatch):
    """Elsewhere - is a stream; here the plan is on it."""
    monkeypatch.chdir(tmp_path)
    told = muster("plan", "-f", EXAMPLES / "cluster", "--html", "-")
    assert told.code == 2
    assert "name a file" in told.err
    assert list(tmp_path.iterdir()) == []


def test_what_could_not_be_read_is_in_the_page(page, tmp_path):
    """Who gets the file has not seen what was said on the terminal."""
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: x}\n"
    )
    _, held, _ = page("-f", EXAMPLES / "cluster", "-f", bad)
    (note,) = held["frame"]["reading"]["notes"]
    assert (note["what"], note["where"]) == ("PodGroup default/g has errors", f"{bad}, document 1")
    assert "spec.minMember" in note["says"][0]
