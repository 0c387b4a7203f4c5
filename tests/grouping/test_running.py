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
