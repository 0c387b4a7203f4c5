"""Threads in which questions are answered one after the other: the line is short, and who has gone is passed over."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from muster.serve.page.gate import Refused

# So many may wait for an answer beside the one that is being answered, and so long.
MOST_WAITING, ANSWER_S = 4, 60.0

T = TypeVar("T")


class Lane:
    """One thread, and those who wait for it."""

    def __init__(self, name: str) -> None:
        self._name, self._asked = name, 0
        self._thread: ThreadPoolExecutor | None = None

    def open(self) -> None:
        """The server begins."""
        self._thread = ThreadPoolExecutor(1, self._name)

    def close(self) -> None:
        """The server stops. What is under way ends by itself; nobody waits for it."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def answer(self, work: Callable[[], T], is_gone: Callable[[], bool]) -> T:
        """What comes of some work, unless who asked has gone before its turn.

        Raises Refused when too many wait already, TimeoutError when it takes too long.
        """
        if self._asked > MOST_WAITING:
            raise Refused(429, "others are asking too", "try again in some seconds", {"Retry-After": "3"})

        def unless_gone() -> T:
            if is_gone():
                raise Refused(408, "nobody waits for the answer any more")
            return work()

        self._asked += 1
        asked = asyncio.get_running_loop().run_in_executor(self._thread, unless_gone)
        # It counts until it has ended, whether or not somebody still waits for it.
        asked.add_done_callback(self._answered)
        return await asyncio.wait_for(asyncio.shield(asked), ANSWER_S)

    def _answered(self, asked: "asyncio.Future[T]") -> None:
        self._asked -= 1
        if not asked.cancelled():
            asked.exception()
