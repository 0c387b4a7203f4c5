"""Time: what takes too long is ended, and what ends leaves nothing behind."""

import asyncio

import pytest

from muster.kube.backoff import Backoff, doubled_s
from muster.kube.clock import SystemClock, micro_time, within
from unit.kube.playing import VirtualClock, virtually


def test_work_that_ends_in_time_gives_its_result():
    async def run():
        assert await within(VirtualClock(), 5.0, asyncio.sleep(4.0, "done")) == "done"
        assert len(asyncio.all_tasks()) == 1

    virtually(run())


def test_work_that_takes_too_long_is_cancelled():
    ended = []

    async def work():
        try:
            await asyncio.sleep(100.0)
        finally:
            ended.append(asyncio.get_running_loop().time())

    async def run():
        with pytest.raises(TimeoutError):
            await within(VirtualClock(), 5.0, work())
        assert len(asyncio.all_tasks()) == 1

    virtually(run())
    assert ended == [5.0]


def test_cancelling_the_one_who_waits_cancels_the_work():
    async def run():
        task = asyncio.create_task(within(VirtualClock(), 5.0, asyncio.sleep(100.0)))
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    virtually(run())


def test_an_error_of_the_work_is_raised():
    async def broken():
        raise KeyError("x")

    with pytest.raises(KeyError):
        virtually(within(VirtualClock(), 5.0, broken()))


def test_the_clock_of_the_machine():
    clock = SystemClock()
    first = clock.now_s()
    assert clock.now_s() >= first
    assert micro_time(clock.wall()).endswith("Z")
    asyncio.run(clock.sleep(0.0))


def test_a_wait_stays_the_longest_however_often_it_was_doubled():
    """Somebody's webhook refuses for days."""
    assert [doubled_s(0.1, times, 30.0) for times in (0, 1, 2, 8, 9, 1024, 10**6)] == [0.1, 0.2, 0.4, 25.6] + [30.0] * 3


def test_waits_double_up_to_the_cap_and_are_never_shorter_than_half():
    for jitter, factor in ((0.0, 0.5), (1.0, 1.0)):
        backoff = Backoff(lambda jitter=jitter: jitter, first_s=1.0, cap_s=5.0)
        assert [backoff.next_s() for _ in range(5)] == [factor * wait for wait in (1.0, 2.0, 4.0, 5.0, 5.0)]
        assert backoff.next_s(60.0) > 60.0
        backoff.reset()
        assert backoff.next_s() == factor
