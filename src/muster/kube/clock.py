"""Time as a parameter: what the client, the watch and the lease ask, so that a simulation can answer."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """Deadlines go by `now_s`, which never jumps; `wall` is only ever written into objects."""

    def now_s(self) -> float:
        """Seconds since some moment; never goes back."""
        ...

    def wall(self) -> datetime:
        """The date and time that people read."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now_s(self) -> float:
        """Seconds since the machine started. Time that it slept counts too: the lease went on ageing meanwhile."""
        if hasattr(time, "CLOCK_BOOTTIME"):
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.monotonic()

    def wall(self) -> datetime:
        """The date and time, in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait, and let others run."""
        await asyncio.sleep(seconds)


def micro_time(moment: datetime) -> str:
    """A moment as Kubernetes writes a MicroTime."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, or TimeoutError when it takes longer by this clock. The work is cancelled then."""
    task = asyncio.ensure_future(work)
    alarm = asyncio.ensure_future(clock.sleep(max(0.0, seconds)))
    try:
        await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        for started in (task, alarm):
            if not started.done():
                started.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await started
