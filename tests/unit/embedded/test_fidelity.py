"""The embedded server answers as a real API server did when it was asked the same (tests/fidelity/recorded.json)."""

import json

import pytest

from fidelity.play import play
from fidelity.record import comparable, recorded
from fidelity.sides import embedded, fresh
from fidelity.stories import BY_NAME, STORIES

RECORD = recorded()


def test_every_story_is_recorded_and_they_are_at_least_200_requests() -> None:
    """Who adds a story records it: `python -m fidelity.record`."""
    assert set(RECORD) == set(BY_NAME)
    assert all(len(RECORD[story.name]) == sum(step.compare for step in story.steps) for story in STORIES)
    assert sum(len(answers) for answers in RECORD.values()) >= 200


@pytest.mark.parametrize("name", list(BY_NAME))
def test_the_embedded_server_answers_like_a_real_one(name: str) -> None:
    """Same code, same warnings, same body, for each request of a story."""
    story = BY_NAME[name]
    server = fresh(eager=False)
    answers = comparable(play(story, embedded(server), server.settle))
    steps = [step for step in story.steps if step.compare]
    for step, mine, real in zip(steps, answers, RECORD[name], strict=True):
        assert mine == real, f"{step.method} {step.path} {json.dumps(step.body)}"


def test_the_comparison_sees_a_difference() -> None:
    """A story in which one answer is another one is not the same."""
    story = BY_NAME["leases"]
    server = fresh(eager=False)
    send = embedded(server)
    changed = comparable(
        play(
            story,
            lambda method, path, headers, body: send(method, path, headers, body.replace(b'"x"', b'"w"')),
            server.settle,
        )
    )
    assert changed != RECORD["leases"]
