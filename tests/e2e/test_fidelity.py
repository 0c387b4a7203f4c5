"""A real API server and the embedded one answer the same requests alike."""

import time
from collections.abc import Iterator

import pytest

from e2e.plane import ControlPlane, gate
from fidelity.play import play
from fidelity.record import comparable, recorded
from fidelity.sides import embedded, fresh, real
from fidelity.stories import BY_NAME

gate.require()


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane without controllers: only what the API server itself does is compared."""
    with ControlPlane() as started:
        yield started


@pytest.mark.parametrize("name", list(BY_NAME))
def test_both_servers_tell_the_same_story(plane: ControlPlane, name: str) -> None:
    """The embedded server answers as the real one does now, and the real one as it did when it was recorded."""
    server = fresh(eager=False)
    mine = comparable(play(BY_NAME[name], embedded(server), server.settle))
    theirs = comparable(play(BY_NAME[name], real(plane.connection), lambda: time.sleep(0.1)))
    assert theirs == recorded()[name], "record again: python -m fidelity.record"
    assert mine == theirs
