"""Leader election: never two at a time, whoever hangs, dies, lies about the time or comes back."""

import asyncio
import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster import errors
from muster.kube.lease import MARKED_ANNOTATION, Election, Timing
from muster.kube.transport import Unanswered
from unit.kube.playing import Played, VirtualClock, answer, playing, refusal, status, virtually


class Leases:
    """The one Lease of a server; each candidate has its own way to it, which can hang or break."""

    def __init__(self):
        self.version = 0
        self.lease = None
        self.writes = 0

    def handle(self, request):
        if request.method == "GET":
            return answer(self.lease) if self.lease else refusal(404, "NotFound")
        body = json.loads(request.body)
        if request.method == "POST":
            if self.lease:
                return refusal(409, "AlreadyExists")
            self.lease = body
        else:
            assert request.method == "PATCH"
            if not self.lease:
                return refusal(404, "NotFound")
            if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                return refusal(409, "Conflict")
            self.lease = {**self.lease, "spec": {**self.lease["spec"], **body["spec"]}}
        self.version += 1
        self.writes += 1
        notes = {**self.lease["metadata"].get("annotations", {}), **body["metadata"].get("annotations", {})}
        self.lease["metadata"] = {"name": "l", "resourceVersion": str(self.version), "annotations": notes}
        return answer(self.lease)


class Way:
    """From one candidate to the server."""

    def __init__(self, leases, delay_s=0.01):
        self.leases = leases
        self.delay_s = delay_s
        self.cut = False
        self.deaf = False

    async def __call__(self, request):
        if self.cut:
            raise Unanswered("connection refused", sent=False)
        await asyncio.sleep(self.delay_s)
        found = self.leases.handle(request)
        if self.deaf:
            # It happened, and nobody hears of it.
            await asyncio.sleep(1e5)
        await asyncio.sleep(self.delay_s)
        return found


def candidate(leases, name, skew_s=0.0, **options):
    way = Way(leases)
    client = playing(Played(way), VirtualClock(skew_s), jitter=0.5)
    return Election(client, "ns", "l", name, **options), way


def now():
    return asyncio.get_running_loop().time()


async def ended(task):
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_the_first_one_leads_and_keeps_leading():
    async def run():
        leases = Leases()
        first, _ = candidate(leases, "first")
        assert not first.is_leader()
        task = asyncio.create_task(first.run())
        await first.elected()
        for _ in range(100):
            await asyncio.sleep(1.0)
            assert first.is_leader()
        spec = leases.lease["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("first", 15, 0)
        assert spec["acquireTime"] < spec["renewTime"]
        assert 45 <= leases.writes <= 52
        await ended(task)

    virtually(run())


def older(leases, name):
    """A candidate of a version that does not know admission marks."""
    election, way = candidate(leases, name)
    election._noting = lambda record: record
    return election, way


@pytest.mark.parametrize(
    ("between", "known"),
    [((), True), ((candidate,), True), ((older,), False), ((older, older), False), ((candidate, older), False)],
    ids=["at once", "one that knows marks", "an older one", "two older ones", "an older one after that"],
)
@pytest.mark.parametrize("dies", [False, True], ids=["gives it back", "dies"])
def test_that_all_pods_have_marks_is_handed_on_from_leader_to_leader(between, known, dies):
    """Who leads after one that did not know marks has to look again: that one has bound pods without them."""

    async def run():
        leases = Leases()

        async def lead(candidate, name):
            election, way = candidate(leases, name)
            task = asyncio.create_task(election.run())
            await election.elected()
            knew, election.is_marked = election.is_marked, True
            await asyncio.sleep(10.0)
            way.cut = dies
            await ended(task)
            return knew

        assert not await lead(candidate, "first")
        for number, one in enumerate(between):
            await lead(one, f"between-{number}")
        assert await lead(candidate, "last") == known
        assert await lead(candidate, "after the last")

    virtually(run())


@pytest.mark.parametrize("text", ["", "x", "-1", "1e3", "0" * 10, None, 3], ids=repr)
def test_a_term_that_can_not_be_read_is_none(text):
    async def run():
        leases = Leases()
        first, _ = candidate(leases, "first")
        leases.lease = {"metadata": {"annotations": {MARKED_ANNOTATION: text}, "resourceVersion": "0"}, "spec": {}}
        task = asyncio.create_task(first.run())
        await first.elected()
        assert not first.is_marked
        await ended(task)

    virtually(run())


def test_a_graceful_end_hands_over_at_once():
    async def run():
        leases = Leases()
        first, _ = candidate(leases, "first")
        second, _ = candidate(leases, "second")
        one = asyncio.create_task(first.run())
        await first.elected()
        two = asyncio.create_task(second.run())
        await asyncio.sleep(20.0)
        assert second.holder == "first"
        await ended(one)
        assert not first.is_leader()
        assert leases.lease["spec"]["holderIdentity"] == ""
        began = now()
        await second.elected()
        assert now() - began <= 1.1
        assert leases.lease["spec"]["leaseTransitions"] == 1
        await ended(two)

    virtually(run())


def test_an_end_in_the_middle_of_a_renewal_hands_over_at_once_too():
    """The server has done the renewal; only its answer comes too late for us."""

    async def run():
        leases = Leases()
        first, way = candidate(leases, "first")
        second, _ = candidate(leases, "second")
        one = asyncio.create_task(first.run())
        await first.elected()
        two = asyncio.create_task(second.run())
        way.delay_s = 0.3
        writes = leases.writes
        while leases.writes == writes:
            await asyncio.sleep(0.05)
        began = now()
        await ended(one)
        await second.elected()
        assert now() - began <= 2.5
        await ended(two)

    virtually(run())


def test_an_end_after_somebody_else_took_the_lease_leaves_it_alone():
    async def run():
        leases = Leases()
        first, _ = candidate(leases, "first")
        one = asyncio.create_task(first.run())
        await first.elected()
        leases.lease = {"metadata": {"name": "l", "resourceVersion": "99"}, "spec": {"holderIdentity": "thief"}}
        await ended(one)
        assert leases.lease["spec"]["holderIdentity"] == "thief"

    virtually(run())


def test_a_writer_that_waits_for_a_renewal_does_not_take_back_what_was_given_back():
    async def run():
        leases = Leases()
        first, way = candidate(leases, "first")
        one = asyncio.create_task(first.run())
        await first.elected()
        way.delay_s = 0.2
        # The machine slept, and several want to write at once when the end comes.
        first._beat_s -= 6.0
        writers = [asyncio.create_task(first.may_write()) for _ in range(3)]
        await asyncio.sleep(0.1)
        await ended(one)
        assert await asyncio.gather(*writers) == [False] * 3
        assert leases.lease["spec"]["holderIdentity"] == ""
        assert not await first.may_write()
        assert not first.is_leader()
        await asyncio.sleep(30.0)
        assert leases.lease["spec"]["holderIdentity"] == ""

    virtually(run())


def test_who_waits_and_ends_leaves_the_lease_alone():
    async def run():
        leases = Leases()
        first, _ = candidate(leases, "first")
        # It looks so often that it knows the version that it would write over.
        second, _ = candidate(leases, "second", timing=Timing(look_period_s=0.2))
        one = asyncio.create_task(first.run())
        await first.elected()
        two = asyncio.create_task(second.run())
        await asyncio.sleep(5.0)
        writes = leases.writes
        assert second._version == leases.lease["metadata"]["resourceVersion"]
        await ended(two)
        assert leases.writes == writes
        assert leases.lease["spec"]["holderIdentity"] == "first"
        await ended(one)

    virtually(run())


def test_what_a_slow_server_takes_is_not_ours():
    """The deadline runs from before the request was sent: when the server wrote the Lease nobody knows."""

    async def run():
        first, way = candidate(Leases(), "first")
        way.delay_s = 1.0
        task = asyncio.create_task(first.run())
        await first.elected()
        # Two requests, two seconds each.
        assert now() == pytest.approx(4.0)
        assert first.remaining_s == pytest.approx(6.0)
        await ended(task)

    virtually(run())


def test_a_dead_leader_is_replaced_after_the_lease_by_our_own_clock():
    """The wall clocks of the two are hours apart; only what each sees change counts."""

    async def run():
        leases = Leases()
        first, way = candidate(leases, "first", skew_s=36_000.0)
        second, _ = candidate(leases, "second", skew_s=-36_000.0)
        one = asyncio.create_task(first.run())
        await first.elected()
        two = asyncio.create_task(second.run())
        await asyncio.sleep(5.0)
        way.cut = True
        died = now()
        await second.elected()
        assert 13.0 <= now() - died <= 15.0 + 5.0
        assert not first.is_leader()
        # The dead one returns, and sees that it is too late.
        way.cut = False
        await asyncio.wait_for(one, 5.0)
        assert leases.lease["spec"]["holderIdentity"] == "second"
        await ended(two)

    virtually(run())


def test_a_look_that_was_long_on_its_way_counts_from_when_it_came():
    """It shows a Lease that was renewed after we asked, and whose holder leads on without another renewal."""

    async def run():
        leases = Leases()
        first, broken = candidate(leases, "first")
        second, slow = candidate(leases, "second")
        one = asyncio.create_task(first.run())
        await first.elected()
        slow.delay_s = 9.0
        two = asyncio.create_task(second.run())
        await asyncio.sleep(1.0)
        slow.delay_s = 0.01
        while second.holder != "first":
            await asyncio.sleep(0.05)
        broken.cut = True
        seen = now()
        await second.elected()
        assert not first.is_leader()
        assert 14.9 <= now() - seen <= 16.0
        await ended(one)
        await ended(two)

    virtually(run())


@pytest.mark.parametrize("fault", ["cut", "deaf"])
def test_who_cannot_renew_stops_leading_at_the_deadline_even_while_a_renewal_hangs(fault):
    async def run():
        leases = Leases()
        first, way = candidate(leases, "first")
        task = asyncio.create_task(first.run())
        await first.elected()
        await asyncio.sleep(5.0)
        setattr(way, fault, True)
        broke = now()
        while first.is_leader():
            await asyncio.sleep(0.05)
        assert 7.9 <= now() - broke <= 10.1
        assert not await first.may_write()
        await asyncio.sleep(10.0)
        assert isinstance(first.last_error, errors.Unreachable | TimeoutError)
        assert not first.is_leader()
        await ended(task)

    virtually(run())


def test_a_renewal_whose_answer_was_lost_is_found_again():
    async def run():
        leases = Leases()
        first, way = candidate(leases, "first")
        task = asyncio.create_task(first.run())
        await first.elected()
        for _ in range(5):
            way.deaf = True
            await asyncio.sleep(3.0)
            way.deaf = False
            for _ in range(100):
                await asyncio.sleep(0.1)
                assert first.is_leader()
        assert leases.lease["spec"]["leaseTransitions"] == 0
        await ended(task)

    virtually(run())


def test_a_short_trouble_is_survived():
    async def run():
        leases = Leases()
        first, way = candidate(leases, "first")
        task = asyncio.create_task(first.run())
        await first.elected()
        for _ in range(10):
            way.cut = True
            await asyncio.sleep(5.0)
            way.cut = False
            await asyncio.sleep(5.0)
            assert first.is_leader()
        await ended(task)

    virtually(run())


def test_a_stolen_lease_is_noticed_with_the_next_renewal():
    async def run():
        leases = Leases()
        first, _ = candidate(leases, "first")
        task = asyncio.create_task(first.run())
        await first.elected()
        leases.lease["spec"]["holderIdentity"] = "thief"
        leases.lease["metadata"]["resourceVersion"] = "99"
        await asyncio.wait_for(task, 3.0)
        assert not first.is_leader()
        assert first.holder == "thief"
        assert leases.lease["spec"]["holderIdentity"] == "thief"

    virtually(run())


def test_a_deleted_lease_is_made_again():
    async def run():
        leases = Leases()
        first, _ = candidate(leases, "first")
        task = asyncio.create_task(first.run())
        await first.elected()
        leases.lease = None
        await asyncio.sleep(5.0)
        assert first.is_leader()
        assert leases.lease["spec"]["holderIdentity"] == "first"
        await ended(task)

    virtually(run())


@pytest.mark.parametrize("spec", [None, 3, {}, {"holderIdentity": 7, "leaseDurationSeconds": "x", "renewTime": []}])
def test_a_strange_lease_is_taken_over(spec):
    async def run():
        leases = Leases()
        leases.lease = {"metadata": {"name": "l", "resourceVersion": "0"}, "spec": spec}
        if not isinstance(spec, dict):
            leases.lease["spec"] = {}
        first, _ = candidate(leases, "first")
        task = asyncio.create_task(first.run())
        await asyncio.wait_for(first.elected(), 1.0)
        assert first.is_leader()
        assert leases.lease["spec"]["holderIdentity"] == "first"
        await ended(task)

    virtually(run())


def test_a_denied_lease_is_tried_for_ever_and_says_why():
    async def run():
        async def denied(request):
            return answer(status(403, "Forbidden", "no"), 403)

        election = Election(playing(Played(denied)), "ns", "l", "first")
        task = asyncio.create_task(election.run())
        await asyncio.sleep(600.0)
        assert not election.is_leader()
        assert isinstance(election.last_error, errors.Forbidden)
        assert election.last_error.call.resource == "leases"
        await ended(task)

    virtually(run())


class Stopped(VirtualClock):
    """The clock of a process that can be stopped: time goes on, and nobody of it runs."""

    gone_s = 0.0

    def now_s(self):
        return super().now_s() + self.gone_s


def stoppable(leases, name):
    clock = Stopped()
    way = Way(leases)
    return Election(playing(Played(way), clock, jitter=0.5), "ns", "l", name), way, clock


@pytest.mark.parametrize("gap_s", [0.5, 6.0, 9.0])
def test_after_a_gap_the_lease_is_renewed_before_anything_is_written(gap_s):
    async def run():
        leases = Leases()
        first, _, clock = stoppable(leases, "first")
        task = asyncio.create_task(first.run())
        await first.elected()
        assert await first.may_write()
        writes = leases.writes
        clock.gone_s += gap_s
        assert first.is_leader()
        # Many ask at once, and one looks.
        assert all(await asyncio.gather(*(first.may_write() for _ in range(50))))
        assert leases.writes - writes == (gap_s > 5.0)
        assert await first.may_write()
        assert leases.writes - writes == (gap_s > 5.0)
        await ended(task)

    virtually(run())


def test_after_a_gap_in_which_somebody_took_over_nothing_is_written():
    async def run():
        leases = Leases()
        first, _, clock = stoppable(leases, "first")
        task = asyncio.create_task(first.run())
        await first.elected()
        clock.gone_s += 6.0
        leases.lease["spec"]["holderIdentity"] = "thief"
        leases.lease["metadata"]["resourceVersion"] = "99"
        # By its own clock it could still think that it leads.
        assert first.is_leader()
        assert not await first.may_write()
        assert not first.is_leader()
        await asyncio.wait_for(task, 3.0)
        assert leases.lease["spec"]["holderIdentity"] == "thief"

    virtually(run())


def test_after_a_gap_without_an_answer_nothing_is_written():
    async def run():
        leases = Leases()
        first, way, clock = stoppable(leases, "first")
        task = asyncio.create_task(first.run())
        await first.elected()
        clock.gone_s += 6.0
        way.cut = True
        assert not await first.may_write()
        way.cut = False
        assert await first.may_write()
        await ended(task)

    virtually(run())


def test_a_process_that_stood_still_for_longer_than_its_deadline_does_not_lead_when_it_wakes():
    async def run():
        first, _, clock = stoppable(Leases(), "first")
        task = asyncio.create_task(first.run())
        await first.elected()
        clock.gone_s += 11.0
        assert not first.is_leader()
        assert not await first.may_write()
        await ended(task)

    virtually(run())


@pytest.mark.parametrize("fault", ["cut", "deaf"])
def test_an_outage_of_hours_ends_nobody_and_who_led_leads_again(fault):
    """The Lease is still ours: nobody led meanwhile, so nothing was missed."""

    async def run():
        leases = Leases()
        first, way = candidate(leases, "first")
        task = asyncio.create_task(first.run())
        await first.elected()
        setattr(way, fault, True)
        await asyncio.sleep(7_200.0)
        assert not first.is_leader()
        assert not task.done()
        setattr(way, fault, False)
        began = now()
        while not first.is_leader():
            await asyncio.sleep(0.05)
        assert now() - began <= 8.0
        assert leases.lease["spec"]["leaseTransitions"] == 0
        await ended(task)

    virtually(run())


@pytest.mark.parametrize("left", ["held", "given back", "expired"])
def test_who_was_followed_by_another_does_not_lead_again_as_if_nothing_had_been(left):
    """Whatever became of the other one: what it did is not known here, and this process starts anew."""

    async def run():
        leases = Leases()
        first, way = candidate(leases, "first")
        task = asyncio.create_task(first.run())
        await first.elected()
        way.cut = True
        await asyncio.sleep(20.0)
        leases.lease["spec"].update(holderIdentity="" if left == "given back" else "other", leaseTransitions=1)
        leases.lease["metadata"]["resourceVersion"] = "99"
        await asyncio.sleep(300.0 if left == "expired" else 1.0)
        writes = leases.writes
        way.cut = False
        await asyncio.wait_for(task, 10.0)
        assert leases.writes == writes
        assert not first.is_leader()

    virtually(run())


@pytest.mark.parametrize("body", [b"[]", b"<html>", b"", b"\xff"])
def test_an_answer_that_nobody_can_read_is_tried_again(body):
    async def run():
        leases = Leases()
        first, way = candidate(leases, "first")
        broken = True

        async def answered(request):
            return answer(body) if broken else await way(request)

        first._client._transport = Played(answered)
        task = asyncio.create_task(first.run())
        await asyncio.sleep(20.0)
        assert not task.done()
        assert not first.is_leader()
        broken = False
        await asyncio.wait_for(first.elected(), 5.0)
        await ended(task)

    virtually(run())


def test_times_that_would_allow_two_leaders_are_refused():
    for times in ((10.0, 10.0, 2.0), (15.0, 10.0, 9.0), (15.0, 20.0, 2.0)):
        with pytest.raises(AssertionError):
            Timing(*times).check()


# Minutes of virtual time each.
@settings(max_examples=max(1, settings().max_examples // 6))
@given(st.data())
def test_there_are_never_two_leaders(data):
    """Three candidates; ways that hang, break, lose answers; ends and returns; at no moment do two lead."""

    async def run():
        leases = Leases()
        fields = [candidate(leases, f"c{number}", skew_s=number * 1000.0) for number in range(3)]
        tasks = [asyncio.create_task(election.run()) for election, _ in fields]
        draw = data.draw

        async def watch():
            while True:
                leaders = [election.identity for election, _ in fields if election.is_leader()]
                assert len(leaders) <= 1, leaders
                await asyncio.sleep(1.0)

        watcher = asyncio.create_task(watch())
        for _ in range(draw(st.integers(1, 8))):
            number = draw(st.integers(0, 2))
            way = fields[number][1]
            deed = draw(st.sampled_from(["cut", "deaf", "heal", "slow", "end", "start"]))
            if deed == "heal":
                way.cut = way.deaf = False
                way.delay_s = 0.01
            elif deed == "slow":
                way.delay_s = draw(st.sampled_from([3.0, 9.0]))
            elif deed == "end":
                await ended(tasks[number])
            elif deed == "start" and tasks[number].done():
                tasks[number] = asyncio.create_task(fields[number][0].run())
            elif deed in ("cut", "deaf"):
                setattr(way, deed, True)
            await asyncio.sleep(draw(st.floats(0.0, 20.0)))
        assert not watcher.done() or watcher.result()
        for number, (election, way) in enumerate(fields):
            way.cut = way.deaf = False
            way.delay_s = 0.01
            if tasks[number].done():
                tasks[number] = asyncio.create_task(election.run())
        await asyncio.sleep(60.0)
        if all(task.done() for task in tasks):
            raise AssertionError("nobody is left")
        assert sum(election.is_leader() for election, _ in fields) == 1
        await ended(watcher)
        for task in tasks:
            await ended(task)

    virtually(run())
