"""Workloads whose parts start in an order, while all of them run: an urgent pod takes a gang whole, and no part of one.

Each file has one node that is full, the workload as its operator runs it, and a pod of one CPU and a higher priority.
"""

import json
from pathlib import Path

import pytest

from muster.cli.main import main

FILES = sorted((Path(__file__).parent / "running").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_part_of_a_running_gang_goes_alone(path, capsys):
    """The leader, the launcher or the driver is not surplus, though it alone was enough to start."""
    with pytest.raises(SystemExit):
        main(["plan", "-f", str(path), "-o", "json"])
    plan = json.loads(capsys.readouterr().out)
    assert plan["evictions"]
    gangs = {one["name"]: one["subGroups"][0]["pods"] for one in plan["podGroups"] if "urgent" not in one["name"]}
    assert all(pods["placed"] in (0, pods["total"]) for pods in gangs.values()), gangs


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nor_does_one_that_an_earlier_version_grouped(path, capsys, tmp_path):
    """Its PodGroup says nothing of it; the grouper of this version would add that, so a plan from files has it too."""
    with pytest.raises(SystemExit):
        main(["group", "-f", str(path), "-o", "json"])
    grouped = json.loads(capsys.readouterr().out)
    documents = {
        (one["kind"], one["metadata"]["name"]): one for one in map(json.loads, path.read_text().split("\n---\n"))
    }
    for pod in (one for one in grouped["pods"] if one["name"] != "urgent"):
        metadata = documents["Pod", pod["name"]]["metadata"]
        metadata.setdefault("annotations", {})["pod-group-name"] = pod["podGroup"]
        metadata["labels"]["kai.scheduler/subgroup-name"] = pod["subGroup"]
    groups = [one for one in grouped["podGroups"] if "urgent" not in one["metadata"]["name"]]
    for group in groups:
        del group["metadata"]["annotations"]["muster.dev/keep"]
    file = tmp_path / "before.yaml"
    file.write_text("\n---\n".join(map(json.dumps, [*documents.values(), *groups])))
    with pytest.raises(SystemExit):
        main(["plan", "-f", str(file), "-o", "json"])
    said = capsys.readouterr()
    gangs = {one["name"]: one["subGroups"][0]["pods"] for one in json.loads(said.out)["podGroups"]}
    assert all(pods["placed"] in (0, pods["total"]) for pods in gangs.values()), gangs
    assert "of an earlier version taken as the grouper writes it now: muster.dev/keep" in said.err
