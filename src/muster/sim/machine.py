"""Virtual time: one heap of what is to be done when, and an event loop for each process that takes its turns in it.

Time jumps to whatever comes next. A loop that is frozen gets no turns until it thaws, whatever is due in it: so a
process stands still that was stopped, or whose machine slept. A loop that was dropped gets none any more: kill -9.
"""

import asyncio
import heapq
import itertools
from asyncio import BaseEventLoop, events
from collections import deque
from collections.abc import Callable
from typing import Any

Do = Callable[[], object]
# Told of an exception that nobody caught, and what it was in.
Failed = Callable[[BaseException | None, str], None]
# So many turns at one moment are no work any more: somebody runs in circles.
MOST_TURNS = 50_000


class Stuck(Exception):
    """Time does not go on: a process never waits."""


class Machine:
    """The time, and everything that waits for it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[tuple[float, int, Do]] = []
        self._order = itertools.count()
        self._loops: list[VirtualLoop] = []
        # What went wrong in the simulation itself, wherever it was noticed.
        self._mistake: BaseException | None = None

    def later(self, seconds: float, do: Do) -> None:
        """Something is done so much later."""
        heapq.heappush(self._heap, (self.now_s + max(seconds, 0.0), next(self._order), do))

    def mistaken(self, mistake: BaseException) -> None:
        """Something is wrong here and not in a process: it ends the run, whoever would have caught it."""
        self._mistake = self._mistake or mistake

    def loop(self, failed: "Failed") -> "VirtualLoop":
        """A loop for another process. `failed` is told of what nobody in it catches."""
        made = VirtualLoop(self, failed)
        self._loops.append(made)
        return made

    def drop(self, loop: "VirtualLoop") -> None:
        """The loop gets no more turns."""
        self._loops.remove(loop)

    def close(self) -> None:
        """Whoever still lives is left alone."""
        while self._loops:
            self._loops.pop().leave()

    def run(self, until_s: float) -> None:
        """All that happens until then. Raises Stuck."""
        turns = 0
        while True:
            when_s, loop = self._next()
            if when_s > until_s:
                break
            turns = 0 if when_s > self.now_s else turns + 1
            if turns > MOST_TURNS:
                raise Stuck(f"{MOST_TURNS:,} turns at second {self.now_s:.3f}")
            self.now_s = max(self.now_s, when_s)
            if loop is None:
                heapq.heappop(self._heap)[2]()
            else:
                loop.turn()
            if self._mistake is not None:
                raise self._mistake
        self.now_s = max(self.now_s, until_s)

    def _next(self) -> tuple[float, "VirtualLoop | None"]:
        """Who is next, and when; the heap before loops, and loops in the order in which they were made."""
        when_s, found = self._heap[0][0] if self._heap else float("inf"), None
        for loop in self._loops:
            due_s = loop.due_s()
            if due_s < when_s:
                when_s, found = due_s, loop
        return when_s, found


class _Nothing:
    """No file, no socket: nothing ever comes from outside."""

    def select(self, timeout: float | None) -> list[Any]:
        return []


class VirtualLoop(BaseEventLoop):
    """An event loop in virtual time. It never waits: `Machine` gives it turns."""

    # Of the loop that it is made from: what is ready, and a heap of timers.
    _ready: deque[Any]
    _scheduled: list[Any]
    _timer_cancelled_count: int

    def __init__(self, machine: Machine, failed: Failed) -> None:
        super().__init__()
        self._machine = machine
        self._selector = _Nothing()
        self._clock_resolution = 1e-9
        self.frozen_until_s = 0.0
        self.set_exception_handler(lambda _, told: failed(told.get("exception"), str(told.get("message"))))

    def time(self) -> float:
        """The time of the machine."""
        return self._machine.now_s

    def due_s(self) -> float:
        """When there is something to do next; never: infinity."""
        if self._ready:
            return max(self._machine.now_s, self.frozen_until_s)
        while self._scheduled and self._scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(self._scheduled)._scheduled = False
        if not self._scheduled:
            return float("inf")
        return max(float(self._scheduled[0]._when), self._machine.now_s, self.frozen_until_s)

    def turn(self) -> None:
        """Everything that is ready now, once."""
        events._set_running_loop(self)
        try:
            self._run_once()  # type: ignore[attr-defined]
        finally:
            events._set_running_loop(None)

    def leave(self) -> None:
        """Its tasks end without having been heard: after the story, so that nothing of them is left."""
        for _ in range(100):
            tasks = asyncio.all_tasks(self)
            if not tasks:
                break
            # Again and again: some have something to say at the end, and wait for an answer.
            for task in tasks:
                task.cancel()
            self.turn()
        self.close()

    def _process_events(self, event_list: list[Any]) -> None:
        """Nothing came from outside."""

    def _write_to_self(self) -> None:
        """Nobody waits who had to be woken."""
