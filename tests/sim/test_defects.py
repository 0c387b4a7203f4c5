"""A defect of muster is told, wherever in a process it shows itself; a mistake of the simulation ends it."""

import asyncio

import msgspec
import pytest

from muster.controllers.comparer import Comparer
from muster.controllers.loop import Loop
from muster.controllers.process import Process
from muster.sim.judging import Judge
from muster.sim.play import play
from muster.sim.story import Story

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
