"""The same requests give the same bytes in every process: nothing depends on the order of a set."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
PLAYED = """
import json
from unit.embedded.asked import SCHEMA, widget
from unit.embedded.stories import STORIES
from muster.embedded.applying import apply
from muster.embedded.schema import Schema

schema = Schema(SCHEMA, status=True)
for story, steps in STORIES.items():
    document = None
    for step in steps:
        if step.verb in ("apply", "force") and step.body["kind"] == "Widget" and not step.door:
            try:
                document = apply(
                    document, step.body, manager=step.manager, force=step.verb == "force", schema=schema, time="t"
                )
            except Exception as refused:
                print(refused)
    print(json.dumps(document))
"""


def test_the_seed_of_hashes_is_not_seen_in_any_answer() -> None:
    said = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(TESTS)}
        done = subprocess.run(
            [sys.executable, "-c", PLAYED], env=environment, capture_output=True, text=True, check=True
        )
        said.add(done.stdout)
    assert len(said) == 1
    assert "managedFields" in said.pop()
