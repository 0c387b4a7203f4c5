"""Writes recorded.json: what a real API server answers to every story.

`PYTHONPATH=src:tests .venv/bin/python -m fidelity.record` starts a control plane for it (docs/e2e.md).
"""

import json
import time
from pathlib import Path
from typing import Any

from e2e.plane import ControlPlane
from fidelity.play import Played, play
from fidelity.sides import real
from fidelity.stories import STORIES

RECORD = Path(__file__).with_name("recorded.json")


def comparable(played: list[Played]) -> list[Any]:
    """Answers as JSON has them."""
    found: list[Any] = json.loads(json.dumps([list(one) for one in played]))
    return found


def recorded() -> dict[str, list[Any]]:
    """What was recorded, by the name of the story."""
    found: dict[str, list[Any]] = json.loads(RECORD.read_text())
    return found


def ask(plane: ControlPlane) -> dict[str, list[Any]]:
    """The answers of a control plane to all stories."""
    return {story.name: comparable(play(story, real(plane.connection), lambda: time.sleep(0.1))) for story in STORIES}


def main() -> None:
    """Record."""
    with ControlPlane() as plane:
        found = ask(plane)
    lines = []
    for name, answers in found.items():
        rows = ",\n".join(f"  {json.dumps(one, sort_keys=True, separators=(',', ':'))}" for one in answers)
        lines.append(f" {json.dumps(name)}: [\n{rows}\n ]")
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
