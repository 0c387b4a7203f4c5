"""Virtual time: what is due comes in order, a frozen process stands still, a dropped one is gone."""

import asyncio
from collections.abc import Iterator

import pytest

from muster.sim.machine import Machine, Stuck, VirtualLoop


def unheard(error: BaseException | None, what: str) -> None:
    """Nothing fails unheard here."""
    raise AssertionError(what) from error


def told(machine: Machine, loop: VirtualLoop, said: list[str], name: str, *pauses_s: float) -> None:
    """A process that says when it wakes."""

    async def live() -> None:
        for pause_s in pauses_s:
            await asyncio.sleep(pause_s)
            said.append(f"{name} {machine.now_s:g}")

    loop.create_task(live())


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine()
    yield made
    made.close()


def test_time_jumps_to_what_comes_next_and_loops_share_it(machine: Machine) -> None:
    said: list[str] = []
    told(machine, machine.loop(unheard), said, "a", 5, 100)
    told(machine, machine.loop(unheard), said, "b", 1, 1, 1000)
    machine.later(2.5, lambda: said.append("people"))
    machine.run(200)
    assert said == ["b 1", "b 2", "people", "a 5", "a 105"]
    assert machine.now_s == 200


def test_a_frozen_process_wakes_late_and_others_go_on(machine: Machine) -> None:
    said: list[str] = []
    frozen = machine.loop(unheard)
    told(machine, frozen, said, "frozen", 1, 1)
    told(machine, machine.loop(unheard), said, "other", 3)
    frozen.frozen_until_s = 10.0
    machine.run(20)
    assert said == ["other 3", "frozen 10", "frozen 11"] or said == ["other 3", "frozen 11", "frozen 12"]


def test_a_dropped_process_never_gets_another_turn(machine: Machine) -> None:
    said: list[str] = []
    loop = machine.loop(unheard)
    told(machine, loop, said, "a", 1, 1)
    machine.run(1.5)
    machine.drop(loop)
    machine.run(10)
    assert said == ["a 1"]
    loop.leave()


def test_a_process_that_never_waits_is_stuck(machine: Machine) -> None:
    loop = machine.loop(unheard)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    loop.create_task(spin())
    with pytest.raises(Stuck, match="turns at second 0"):
        machine.run(1)


def test_at_one_moment_things_happen_in_the_order_in_which_they_were_asked_for(machine: Machine) -> None:
    said: list[str] = []
    for name in "abc":
        machine.later(1, lambda name=name: said.append(name))
    machine.run(1)
    assert said == ["a", "b", "c"]
