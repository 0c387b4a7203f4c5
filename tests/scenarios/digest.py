"""Prints every plan of every scenario, so that two processes can be compared: `python -m scenarios.digest` in tests."""

import json
import sys
from contextlib import suppress
from pathlib import Path

from muster.sim.scenario import load
from oracle.engine import said
from scenarios.story import Story


def plans() -> list[object]:
    """The plans of all steps of all files, as far as they come out as expected."""
    found: list[object] = []
    for path in sorted(Path(__file__).parent.glob("*.yaml")):
        with suppress(AssertionError):
            Story(load(path)).play(lambda plan: found.append(said(plan)))
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(plans()))
