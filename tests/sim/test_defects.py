"""A defect of muster is told, wherever in a process it shows itself; a mistake of the simulation ends it."""

import asyncio

import msgspec
import pytest

from muster.controllers.comparer import Comparer
from muster.controllers.grouper import GrouperLoop
from muster.controllers.loop import Loop
from muster.controllers.process import Process
from muster.plan.cycle import _Cycle
from muster.plan.invariants import Checker
from muster.sim.judging import Judge
from muster.sim.play import play
from muster.sim.story import Story
from muster.snapshot import build

GANG = {
    "nodes": [{"name": "n", "count": 2, "gpus": 4}],
    "workloads": {"g": {"gang": {"minMember": 2}, "pods": {"": 2}}},
    "lasts": 30,
}


def broken(**more) -> list[str]:
    return [f"{one.rule}: {one.says}" for one in play(msgspec.convert({**GANG, **more}, Story)).violations]


def test_without_one_there_is_nothing_to_tell():
    assert broken() == []


def test_a_part_that_ends_by_itself(monkeypatch):
    async def ends(self):
        await asyncio.sleep(5)

    monkeypatch.setattr(Comparer, "run", ends)
    assert "ends ended by itself" in broken()[0]


def test_a_process_that_raises(monkeypatch):
    async def raises(self, stop, beside=()):
        await asyncio.sleep(5)
        raise RuntimeError("a mistake")

    monkeypatch.setattr(Process, "run", raises)
    assert "defect: muster-0 ended: RuntimeError: a mistake" in broken()


def test_an_orderly_end_that_raises(monkeypatch):
    async def raises(self, events):
        raise RuntimeError("a mistake")

    monkeypatch.setattr(Process, "_hand_over", raises)
    said = broken(happens=[{"at": 10, "stop": [0]}, {"at": 20, "start": [0]}])
    assert said == ["defect: muster-0 ended: RuntimeError: a mistake"]


def test_a_part_that_fails_while_it_ends(monkeypatch):
    async def fails(self):
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("a mistake")

    monkeypatch.setattr(Comparer, "run", fails)
    said = broken(happens=[{"at": 10, "stop": [0]}, {"at": 20, "start": [0]}])
    assert said == ["defect: muster-0 ended: RuntimeError: a mistake"]


@pytest.mark.parametrize("where", ["callback", "task"])
def test_what_nobody_waits_for(monkeypatch, where):
    runs = Loop.run

    def callback():
        raise RuntimeError("a mistake")

    async def task():
        raise RuntimeError("a mistake")

    async def run(self):
        loop = asyncio.get_running_loop()
        if where == "task":
            loop.call_soon(asyncio.ensure_future, task())
        else:
            loop.call_later(3, callback)
        await runs(self)

    monkeypatch.setattr(Loop, "run", run)
    said = broken()
    assert len(said) == 1
    assert said[0].startswith("defect: muster-0: ")
    assert said[0].endswith("RuntimeError: a mistake")


def test_a_mistake_of_the_judge_is_not_muster_s(monkeypatch):
    def raises(self, *told):
        raise KeyError("the judge")

    monkeypatch.setattr(Judge, "_writes_pod", raises)
    with pytest.raises(KeyError, match="the judge"):
        broken()


def test_a_gang_whose_turn_raises(monkeypatch):
    """Its status has a reason, and a fresh scheduler has the same: that is no excuse."""

    def raises(self, state):
        raise ValueError("a mistake")

    monkeypatch.setattr(_Cycle, "_try_minimum", raises)
    said = broken()
    assert "defect: muster-0 planned, gang default/g: ValueError: a mistake" in said
    assert any(one.startswith("defect: muster-0 writes of gang default/g: ") for one in said)


def test_a_plan_that_its_own_checker_refuses(monkeypatch):
    monkeypatch.setattr(Checker, "faults", lambda self, *about, **more: ["a mistake"])
    assert "defect: muster-0 planned, gang default/g: a mistake" in broken()


def test_a_gang_that_can_t_be_read(monkeypatch):
    """It is not tried: the log and its status say so."""
    reads = build.gang_of

    def raises(key, group, members, *more):
        if members:
            raise ValueError("a mistake")
        return reads(key, group, members, *more)

    monkeypatch.setattr(build, "gang_of", raises)
    logged, written = broken()[:2]
    assert "an object is left out: this is a defect in muster" in logged
    assert 'object="PodGroup default/g" error="ValueError: a mistake"' in logged
    assert written.startswith("defect: muster-0 writes of gang default/g: ")
    assert "a defect in muster keeps the gang from being planned; other gangs are not affected" in written


@pytest.mark.parametrize("pods", [1, 2])
def test_pods_that_are_grouped_only_at_the_second_try(monkeypatch, pods):
    """Alone or together with others: the next look heals it, and it is told all the same."""
    groups, seen = GrouperLoop._group, set()

    def group(self, batch):
        if set(batch) - seen:
            seen.update(batch)
            raise KeyError("a mistake")
        return groups(self, batch)

    monkeypatch.setattr(GrouperLoop, "_group", group)
    said = broken(workloads={"j": {"pods": {"": pods}}})
    assert said[0].startswith("defect: muster-0: ")
    assert "can't be grouped" in said[0]
