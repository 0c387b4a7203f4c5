"""The people of a story in real time, inside the event loop of the playground; called from the thread that tells it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TypeVar

from muster.cli.installation import NAMESPACE
from muster.cli.roles import user_name
from muster.cli.story.sender import Interrupted
from muster.embedded.server import Server
from muster.embedded.store import Change
from muster.sim.people import People
from muster.sim.story import Happening, Story

# So long after a change operators have noticed it.
NOTICE_S = 0.02
_PATIENCE_S = 30.0
T = TypeVar("T")


class Cast:
    """People, and the operators that act whenever something has changed."""

    def __init__(self, story: Story, server: Server) -> None:
        self.server = server
        self._loop = asyncio.get_running_loop()
        begun_s = self._loop.time()
        self._people = People(
            *(story, server, lambda: self._loop.time() - begun_s, self._later, lambda text: None),
            strict=True,
            muster=user_name(NAMESPACE),
        )
        self._is_noticed = True
        self._trouble: Exception | None = None
        self._forget = server.core.store.subscribe(self._changed)

    def close(self) -> None:
        """Nobody acts any more."""
        self._forget()
        self._people.close()

    def begin(self) -> None:
        """Everything that is there at first."""
        self._people.begin()

    def happen(self, one: Happening) -> None:
        """What happens now."""
        self._people.happen(one)

    def call(self, do: Callable[[], T]) -> T:
        """The result of something that is done in the loop, for another thread. Raises Interrupted when that ended."""
        waiting: Future[T] = Future()

        def done() -> None:
            try:
                waiting.set_result(do())
            except Exception as error:  # whoever asked hears of it
                waiting.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(done)
            found = waiting.result(_PATIENCE_S)
        except (RuntimeError, CancelledError, TimeoutError) as error:
            raise Interrupted(f"the playground has ended: {error}") from None
        self.check()
        return found

    def check(self) -> None:
        """Raises what went wrong while nobody asked."""
        if self._trouble is not None:
            raise self._trouble

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        self._loop.call_later(seconds, self._guarded, do)

    def _changed(self, _: Change) -> None:
        if self._is_noticed:
            self._is_noticed = False
            self._loop.call_later(NOTICE_S, self._act)

    def _act(self) -> None:
        self._is_noticed = True
        self._guarded(self._people.act)

    def _guarded(self, do: Callable[[], None]) -> None:
        """What goes wrong is told to whoever asks next."""
        try:
            do()
        except Exception as error:
            self._trouble = self._trouble or error
