"""Every scenario file plays through the whole system: the real controllers over the embedded server, in virtual time.

What a step expects of one cycle is compared with the state that the cluster settles in, and the invariants hold on the
way. The same as `muster simulate -f tests/scenarios`.
"""

from collections import Counter
from pathlib import Path

import pytest

from muster.sim.loading import load, takes
from muster.sim.play import play

FILES = sorted((Path(__file__).parents[1] / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path):
    for take in takes(load(path)):
        outcome = play(take.story)
        says = [f"{one.rule} at {one.at_s:.1f} s: {one.says}" for one in outcome.violations]
        assert says == [], f"muster simulate -f tests/scenarios/{path.name} (steps {take.numbers})"


def test_nearly_every_step_is_compared():
    """Files that are about a single cycle say so; of the others every step is judged in exactly one take."""
    steps, judged, left = Counter(), Counter(), []
    for path in FILES:
        story = load(path)
        steps[path.stem] = len(story.steps)
        left += [path.stem for step in story.steps if step.fleeting or step.actions is not None]
        for take in takes(story):
            expected = [step for step in take.story.steps if step.expect != type(step.expect)()]
            judged[path.stem] += len(expected)
    assert judged == steps
    assert sum(steps.values()) >= 500
    # The same part as when there were 424 steps.
    assert len(left) <= sum(steps.values()) * 14 / 424
