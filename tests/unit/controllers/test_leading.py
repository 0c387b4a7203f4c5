"""Who may act: who leads, knows what is there, and is not about to end; and nobody else writes anything."""

import asyncio
import io
import json
from contextlib import suppress

import pytest

from muster.controllers.leading import Leading
from muster.errors import Call, Unreachable
from muster.kube.lease import Election
from muster.telemetry import Log, Metrics
from unit.kube.playing import Played, VirtualClock, playing, refusal, virtually
from unit.kube.test_lease import Leases, Way

BIND = Call("create", "pods/binding", "ns", "p", write=True)
LEASE = Call("patch", "leases", "ns", "l", write=True)
BUNDLE = Call("patch", "validatingwebhookconfigurations", "", "muster", write=True)


class Candidate:
    """One process of several, as far as leading goes."""

    def __init__(self, leases, name):
        self.way, self.stream, self.metrics = Way(leases), io.StringIO(), Metrics()
        self.election = Election(playing(Played(self.way), VirtualClock(), jitter=0.5), "ns", "l", name)
        self.leading = Leading(self.election, log=Log(self.stream, human=False), metrics=self.metrics)
        self.compared, self.woken, self.synced, self.slow_s = 0, 0, True, 0.0
        self.task = None

    def start(self):
        self.task = asyncio.create_task(self.leading.run(lambda: self.synced, self, self.wake))

    def wake(self):
        self.woken += 1

    async def compare(self):
        await asyncio.sleep(self.slow_s)
        self.compared += 1

    async def end(self):
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task

    def leads(self):
        return self.metrics.registry.get_sample_value("muster_leader")

    def said(self):
        return [json.loads(line)["message"] for line in self.stream.getvalue().splitlines()]


def test_who_takes_over_reads_the_cluster_before_it_acts():
    async def run():
        first = Candidate(Leases(), "first")
        first.slow_s = 3.0
        first.start()
        await first.election.elected()
        await asyncio.sleep(2.0)
        assert (first.leads(), first.leading.may_act()) == (1, False)
        await asyncio.sleep(2.0)
        assert first.leading.may_act()
        assert (first.compared, first.woken) == (1, 1)
        await first.end()

    virtually(run())


def test_who_lists_for_the_first_time_compares_too():
    """The one before may have led until after that list; and only one of the kinds may have been missing."""

    async def run():
        first = Candidate(Leases(), "first")
        first.synced = False
        first.start()
        await asyncio.sleep(5.0)
        assert not first.leading.may_act()
        assert first.compared == 0
        first.synced = True
        await asyncio.sleep(0.1)
        assert first.leading.may_act()
        assert first.compared == 1
        await first.end()

    virtually(run())


def test_who_could_not_compare_does_not_act_although_its_lease_lapsed_and_came_back():
    async def run():
        first = Candidate(Leases(), "first")
        away = True

        async def compare():
            if away:
                raise Unreachable(Call("list", "pods"), "no connection", sent=False)
            first.compared += 1

        first.compare = compare
        first.start()
        await first.election.elected()
        first.way.cut = True
        await asyncio.sleep(25.0)
        assert first.leads() == 0
        first.way.cut = False
        await asyncio.sleep(10.0)
        assert (first.leads(), first.leading.may_act()) == (1, False)
        away = False
        await asyncio.sleep(2.0)
        assert (first.compared, first.leading.may_act()) == (1, True)
        await first.end()

    virtually(run())


def test_who_never_led_does_not_say_that_it_does():
    async def run():
        first = Candidate(Leases(), "first")

        async def ends():
            await asyncio.sleep(1.0)

        first.election.run = ends
        first.start()
        await asyncio.wait_for(first.task, 5.0)
        assert "leading" not in first.said()

    virtually(run())


def test_who_stands_by_writes_nothing_but_the_lease_and_its_certificate():
    async def run():
        leases = Leases()
        first, second = Candidate(leases, "first"), Candidate(leases, "second")
        first.start()
        await first.election.elected()
        second.start()
        await asyncio.sleep(5.0)
        assert second.leads() == 0
        assert not second.leading.may_act()
        assert await second.leading.guard(BIND) == "this process does not lead any more"
        assert await second.leading.guard(LEASE) == await second.leading.guard(BUNDLE) == ""
        assert await first.leading.guard(BIND) == ""
        assert second.said() == ["standing by"]
        await first.end()
        await second.end()

    virtually(run())


def test_who_is_about_to_end_begins_nothing_and_ends_what_it_began():
    async def run():
        leases = Leases()
        first, second = Candidate(leases, "first"), Candidate(leases, "second")
        first.start()
        await first.election.elected()
        second.start()
        await asyncio.sleep(5.0)
        first.leading.stop()
        assert not first.leading.may_act()
        assert await first.leading.guard(BIND) == ""
        await first.end()
        assert await first.leading.guard(BIND)
        began = asyncio.get_running_loop().time()
        while not second.leading.may_act():
            await asyncio.sleep(0.05)
        assert asyncio.get_running_loop().time() - began <= 1.2
        await second.end()

    virtually(run())


def test_who_was_killed_is_followed_within_twenty_seconds():
    async def run():
        leases = Leases()
        first, second = Candidate(leases, "first"), Candidate(leases, "second")
        first.start()
        await first.election.elected()
        second.start()
        await asyncio.sleep(9.0)
        first.way.cut = True
        began = asyncio.get_running_loop().time()
        while not second.leading.may_act():
            assert not (first.leading.may_act() and second.election.is_leader())
            await asyncio.sleep(0.05)
        assert asyncio.get_running_loop().time() - began <= 18.0
        await second.end()
        await first.end()

    virtually(run())


def test_a_defect_while_catching_up_ends_it_and_gives_the_lease_back():
    async def run():
        leases = Leases()
        first = Candidate(leases, "first")

        async def broken():
            raise ZeroDivisionError

        first.compare = broken
        first.start()
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(first.task, 5.0)
        assert leases.lease["spec"]["holderIdentity"] == ""

    virtually(run())


def test_a_long_outage_ends_nobody_nothing_is_written_meanwhile_and_all_goes_on_afterwards():
    async def run():
        first = Candidate(Leases(), "first")
        first.start()
        await asyncio.sleep(1.0)
        assert first.leading.may_act()
        first.way.cut = True
        await asyncio.sleep(7_200.0)
        assert not first.leading.may_act()
        assert await first.leading.guard(BIND)
        first.way.cut = False
        await asyncio.sleep(5.0)
        assert first.leading.may_act()
        assert first.woken == 2
        assert first.said() == [
            "leading",
            "the Lease was not renewed in time: nothing is written until it is",
            "leading again",
        ]
        await first.end()

    virtually(run())


def test_a_lost_lease_ends_it():
    async def run():
        leases = Leases()
        first = Candidate(leases, "first")
        first.start()
        await first.election.elected()
        leases.lease["spec"]["holderIdentity"] = "thief"
        leases.lease["metadata"]["resourceVersion"] = "99"
        await asyncio.wait_for(first.task, 5.0)
        assert first.leads() == 0
        assert await first.leading.guard(BIND)

    virtually(run())


def test_without_an_election_this_is_the_only_one():
    async def run():
        leading = Leading(None)
        assert leading.may_act()
        assert await leading.guard(BIND) == ""
        leading.stop()
        assert not leading.may_act()

    virtually(run())


def test_a_lease_whose_namespace_is_not_there_is_said_with_what_to_do():
    class Nowhere(Leases):
        def handle(self, request):
            return refusal(404, "NotFound")

    async def run():
        first = Candidate(Nowhere(), "first")
        first.start()
        await asyncio.sleep(100.0)
        (line,) = map(json.loads, first.stream.getvalue().splitlines())
        assert line["message"] == "the Lease can't be taken"
        assert line["hint"] == (
            "create the namespace ns, or name another with --lease-namespace; a single process does without the Lease: "
            "--no-leader-election"
        )
        await first.end()

    virtually(run())


def test_a_lease_that_may_not_be_written_is_said_once():
    async def run():
        first = Candidate(Leases(), "first")
        first.way.cut = True
        first.start()
        await asyncio.sleep(100.0)
        assert first.said() == ["the Lease can't be taken"]
        first.way.cut = False
        await asyncio.wait_for(first.election.elected(), 10.0)
        assert first.election.is_leader()
        await first.end()

    virtually(run())
