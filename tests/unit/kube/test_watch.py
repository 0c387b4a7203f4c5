"""The watch: whatever happens to the streams, the consumer ends up with what the server has."""

import asyncio
import random
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster import errors
from muster.api.kinds import CORE_KINDS
from muster.kube.resources import Unread
from muster.kube.transport import Unanswered
from muster.kube.watch import CAUSES, Added, Bookmark, Deleted, Listed, Modified, Restarted, watch
from unit.kube.playing import (
    THINGS,
    Played,
    Store,
    VirtualClock,
    answer,
    line,
    playing,
    refusal,
    status,
    thing,
    virtually,
)

POD = CORE_KINDS[0]


def listing(*things, version=1):
    return answer({"metadata": {"resourceVersion": str(version)}, "items": list(things)})


def followed(lists, streams, until, kind=THINGS, clock=None, **options):
    """All values until `until(value)`, and the transport. Lists and streams come one after the other; the last of each
    stays.
    """
    limits = options.pop("limits", {})

    async def whole(request):
        step = lists.pop(0) if len(lists) > 1 else lists[0]
        if isinstance(step, Exception):
            raise step
        return step

    async def chunks(request):
        steps = streams.pop(0) if len(streams) > 1 else streams[0]
        for step in steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                yield step

    transport = Played(whole, chunks)

    async def run():
        seen = []
        async with playing(transport, clock, **limits) as client:
            async with aclosing(watch(client, kind, **options)) as values:
                async for value in values:
                    seen.append(value)
                    if until(seen):
                        break
            assert transport.open_streams == 0
        return seen

    return virtually(run()), transport


def kinds(seen):
    return [type(value).__name__ for value in seen]


def versions(transport):
    """Where each stream began; a list is a dash."""
    return [request.params["resourceVersion"] if "watch" in request.params else "-" for request in transport.requests]


def count(number):
    return lambda seen: len(seen) == number


def test_first_everything_then_every_change():
    stream = [
        line("ADDED", thing("b", 2)) + line("MODIFIED", thing("b", 3)),
        line("DELETED", thing("a", 4)) + line("BOOKMARK", thing("", 9)),
    ]
    seen, transport = followed([listing(thing("a", 1))], [stream], count(5))
    assert seen[0] == Listed([thing("a", 1)], [], "1")
    assert seen[1:] == [Added(thing("b", 2)), Modified(thing("b", 3)), Deleted(thing("a", 4)), Bookmark("9")]
    assert transport.requests[1].params["allowWatchBookmarks"] == "true"
    assert transport.requests[1].params["resourceVersion"] == "1"
    assert transport.requests[1].params["timeoutSeconds"] == "600"


def test_a_plain_end_goes_on_from_the_last_version_at_once():
    """The API server ends the watch of a client that lags; nothing is lost by that."""
    clock = VirtualClock()
    streams = [[line("ADDED", thing("b", 2))], [line("BOOKMARK", thing("", 7))], [line("ADDED", thing("c", 8)), 1e6]]
    seen, transport = followed([listing()], streams, count(6), clock=clock)
    assert kinds(seen) == ["Listed", "Added", "Restarted", "Bookmark", "Restarted", "Added"]
    assert seen[2] == Restarted("end")
    assert versions(transport) == ["-", "1", "2", "7"]
    assert clock.slept == []


def test_half_a_line_is_no_line():
    second = line("ADDED", thing("c", 3))
    for cut in (1, len(second) // 2, len(second) - 1):
        streams = [[line("ADDED", thing("b", 2)), second[:cut]], [second, 1e6]]
        seen, transport = followed([listing()], streams, count(4))
        assert kinds(seen) == ["Listed", "Added", "Restarted", "Added"]
        assert versions(transport) == ["-", "1", "2"]


def test_lines_may_be_cut_anywhere():
    whole = line("ADDED", thing("ä", 2)) + line("MODIFIED", thing("ä", 3))
    for size in (1, 7, len(whole) // 2 + 5, len(whole)):
        streams = [[*(whole[at : at + size] for at in range(0, len(whole), size)), 1e6]]
        seen, _ = followed([listing()], streams, count(3))
        assert kinds(seen) == ["Listed", "Added", "Modified"]


GONE = line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})


@pytest.mark.parametrize("gone", [GONE, refusal(410, "Expired")], ids=["in the stream", "as status"])
def test_a_version_that_is_too_old_lists_again(gone):
    clock = VirtualClock()
    streams = [[gone], [line("ADDED", thing("c", 9)), 1e6]]
    seen, transport = followed([listing(), listing(thing("b", 8), version=8)], streams, count(4), clock=clock)
    assert kinds(seen) == ["Listed", "Restarted", "Listed", "Added"]
    assert seen[1].cause == "gone"
    assert versions(transport) == ["-", "1", "-", "8"]
    assert clock.slept == [0.2]


def test_a_version_that_is_always_too_old_makes_no_hot_loop():
    clock = VirtualClock()
    _seen, _ = followed([listing()], [[line("ADDED", thing("b", 2)), GONE]], count(30), clock=clock)
    assert clock.slept[:4] == [0.2, 0.4, 0.8, 1.6]
    assert max(clock.slept) == 15.0


@pytest.mark.parametrize(
    "junk",
    [b"not json\n", b'{"type":"ADDED"\n', b"[1]\n", b'{"type":5}\n', b"\xff\n", b"[" * 50_000 + b"\n"],
    ids=["text", "half", "list", "number", "bytes", "deep"],
)
def test_a_line_that_is_no_event_costs_only_itself(junk):
    seen, _ = followed([listing()], [[junk, line("ADDED", thing("b", 2)), 1e6]], count(3))
    assert kinds(seen) == ["Listed", "Unread", "Added"]
    assert junk.startswith(seen[1].raw[:10])


def test_an_event_of_an_unknown_type_is_shown_and_passed_over():
    seen, _ = followed([listing()], [[line("PATCHED", thing("b", 2)), line("ADDED", thing("c", 3)), 1e6]], count(3))
    assert kinds(seen) == ["Listed", "Unread", "Added"]
    assert seen[1].metadata.name == "b"


def test_an_object_that_cannot_be_read_says_who_it_is():
    bad = {"metadata": {"name": "b", "uid": "u", "resourceVersion": "5"}, "spec": {"containers": 7}}
    streams = [[line("MODIFIED", bad)], [line("ADDED", thing("c", 6)), 1e6]]
    seen, transport = followed([listing(bad)], streams, count(4), kind=POD)
    assert kinds(seen) == ["Listed", "Unread", "Restarted", "Added"]
    assert seen[0].unread[0].metadata.uid == "u"
    assert (seen[1].change, seen[1].metadata.uid) == ("MODIFIED", "u")
    assert versions(transport) == ["-", "1", "5"]


def test_a_line_that_is_too_long_is_not_kept():
    long = line("ADDED", thing("b", 2, text="x" * 9000))
    chunks = [long[:3000], long[3000:6000], long[6000:] + line("ADDED", thing("c", 3)), 1e6]
    seen, _ = followed([listing()], [chunks], count(3), limits={"max_line_bytes": 5000})
    assert kinds(seen) == ["Listed", "Unread", "Added"]
    assert seen[2].object["metadata"]["name"] == "c"


def test_an_object_without_a_version_does_not_move_us():
    streams = [[line("ADDED", thing("b", 4)), line("ADDED", {"metadata": {"name": "c"}})], [1e6]]
    _, transport = followed([listing()], [*streams[:1], [line("BOOKMARK", thing("", 5)), 1e6]], count(5))
    assert versions(transport) == ["-", "1", "4"]


def test_duplicates_and_older_events_are_passed_on():
    stream = [line("ADDED", thing("b", 4)) * 2 + line("MODIFIED", thing("b", 3)), 1e6]
    seen, _ = followed([listing()], [stream], count(4))
    assert [value.object["metadata"]["resourceVersion"] for value in seen[1:]] == ["4", "4", "3"]


def test_silence_is_taken_for_a_lost_connection():
    """A connection that nobody ends looks like one on which nothing happens; a bookmark comes every minute."""
    seen, transport = followed(
        [listing()], [[line("ADDED", thing("b", 2)), 1e6], [line("ADDED", thing("c", 3)), 1e6]], count(4)
    )
    assert seen[2].cause == "unreachable"
    assert versions(transport) == ["-", "1", "2"]


@pytest.mark.parametrize(
    ("refused", "cause"),
    [
        (refusal(403, "Forbidden"), "forbidden"),
        (refusal(404, "NotFound"), "not-found"),
        (refusal(401, "Unauthorized"), "unauthorized"),
        (refusal(429, "TooManyRequests", Retry_After="7"), "throttled"),
        (refusal(500, "InternalError"), "fault"),
        (Unanswered("connection refused", sent=False), "unreachable"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_list_that_fails_is_told_and_tried_again(refused, cause):
    clock = VirtualClock()
    seen, _ = followed([refused, refused, listing()], [[1e6]], count(3), clock=clock)
    assert kinds(seen) == ["Restarted", "Restarted", "Listed"]
    assert seen[0].cause == cause
    assert cause in CAUSES
    assert isinstance(seen[0].error, errors.ApiError)
    assert clock.slept == ([0.2, 0.4] if cause != "throttled" else [7.2, 7.4])


def test_streams_that_bring_only_junk_make_no_hot_loop():
    clock = VirtualClock()
    followed([listing()], [[b"junk\n"]], count(9), clock=clock)
    assert clock.slept == [0.2, 0.4, 0.8]


def test_a_server_that_wants_no_wait_gets_some_all_the_same():
    clock = VirtualClock()
    followed([refusal(429, Retry_After="0")], [[1e6]], count(4), clock=clock)
    assert clock.slept == [0.2, 0.4, 0.8]


def test_nobody_sends_a_watch_to_sleep_for_an_hour():
    clock = VirtualClock()
    followed([refusal(429, Retry_After="3600"), listing()], [[1e6]], count(2), clock=clock)
    assert 30.0 <= clock.slept[0] < 31.0


def test_after_an_outage_of_two_hours_it_goes_on_from_where_it_was_within_half_a_minute():
    """A server that is away says nothing about versions, so nobody lists 50,000 pods when it returns."""

    async def run():
        async def whole(request):
            return listing()

        async def chunks(request):
            now = asyncio.get_running_loop().time()
            if 10.0 <= now < 7210.0:
                raise Unanswered("connection refused", sent=False)
            yield line("ADDED", thing("b", int(now) + 2))
            await asyncio.sleep(max(0.0, 10.0 - now) if now < 10.0 else 1e6)

        transport = Played(whole, chunks)
        async with playing(transport) as client, aclosing(watch(client, THINGS)) as values:
            async for value in values:
                if isinstance(value, Added) and asyncio.get_running_loop().time() > 100.0:
                    break
        assert asyncio.get_running_loop().time() <= 7240.0
        assert versions(transport).count("-") == 1
        assert len(transport.requests) < 600

    virtually(run())


def test_a_server_that_keeps_failing_over_a_version_gets_a_new_list():
    """Such as a version from before a restore, of which it says that it is too large."""
    failing = [refusal(504, "Timeout")]
    streams = [failing, failing, failing, [line("ADDED", thing("b", 2)), 1e6]]
    _seen, transport = followed([listing(), listing(version=40)], streams, lambda seen: isinstance(seen[-1], Added))
    assert versions(transport) == ["-", "1", "1", "1", "-", "40"]


def test_waits_start_again_after_a_good_stream():
    clock = VirtualClock()
    refused = [refusal(500)]
    streams = [refused, refused, [line("ADDED", thing("b", 2)), 60.0], refused, [1e6]]
    streams[-1] = [line("ADDED", thing("c", 3)), 1e6]
    followed([listing()], streams, lambda seen: seen[-1] == Added(thing("c", 3)), clock=clock)
    assert clock.slept == [0.2, 0.4, 0.2]


def test_a_quiet_stream_that_ends_after_a_while_is_no_failure():
    clock = VirtualClock()
    streams = [[b"\n", 80.0], [b"\n", 80.0], [line("ADDED", thing("c", 3)), 1e6]]
    followed([listing()], streams, lambda seen: isinstance(seen[-1], Added), clock=clock)
    assert clock.slept == []


def test_the_first_list_may_be_old_and_later_ones_may_not():
    _seen, transport = followed([listing()], [[GONE], [1e6]], count(3), consistent=False)
    lists = [request.params for request in transport.requests if "watch" not in request.params]
    assert lists[0]["resourceVersion"] == "0"
    assert "resourceVersion" not in lists[1]


# The property


class Chaos:
    """A server that does everything at once: cuts, duplicates, junk, compaction, refusals."""

    def __init__(self, store, seed):
        self.store = store
        self.random = random.Random(seed)  # noqa: S311
        self.calm = False

    def _chance(self, likelihood):
        return not self.calm and self.random.random() < likelihood

    async def whole(self, request):
        await asyncio.sleep(self.random.random())
        if self._chance(0.3):
            raise self.random.choice([Unanswered("cut"), Unanswered("refused", sent=False)])
        if self._chance(0.2):
            return refusal(self.random.choice([429, 500, 503, 410]))
        return answer(self.store.listing())

    async def chunks(self, request):
        version = int(request.params["resourceVersion"])
        if self._chance(0.2):
            yield refusal(self.random.choice([410, 429, 500, 504]))
            return
        if version < self.store.oldest and self.random.random() < 0.5:
            yield refusal(410, "Expired")
            return
        while True:
            if version < self.store.oldest:
                yield line("ERROR", status(410, "Expired"))
                return
            for at, change, found in self.store.since(version):
                data = line(change, found)
                if self._chance(0.05):
                    raise Unanswered("cut")
                if self._chance(0.05):
                    yield data[: self.random.randrange(len(data))]
                    return
                if self._chance(0.05):
                    yield b"junk\n"
                yield data
                if self._chance(0.2):
                    yield data
                version = at
            if self._chance(0.1):
                yield line("BOOKMARK", thing("", version))
            if self._chance(0.1):
                return
            changed = self.store.changed
            await changed.wait()


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_whatever_happens_the_final_state_is_the_servers(seed, steps):
    """Cuts, half lines, duplicates, junk, 410 both ways, 429, 5xx, compaction: nothing is lost and nothing stays."""

    async def run():
        store, known = Store(), {}
        chaos = Chaos(store, seed)
        chance = random.Random(seed)  # noqa: S311

        async def consume(client):
            async with aclosing(watch(client, THINGS)) as values:
                async for value in values:
                    if isinstance(value, Listed):
                        known.clear()
                        known.update({item["metadata"]["name"]: item for item in value.items})
                    elif isinstance(value, Added | Modified):
                        known[value.object["metadata"]["name"]] = value.object
                    elif isinstance(value, Deleted):
                        known.pop(value.object["metadata"]["name"], None)
                    else:
                        assert isinstance(value, Bookmark | Restarted | Unread)

        transport = Played(chaos.whole, chaos.chunks)
        async with playing(transport) as client:
            task = asyncio.create_task(consume(client))
            for number in range(steps):
                name = f"t{chance.randrange(5)}"
                if name in store.things and chance.random() < 0.4:
                    store.remove(name)
                else:
                    store.put(name, number=number)
                if chance.random() < 0.1:
                    store.compact()
                await asyncio.sleep(chance.random() * 3.0)
            chaos.calm = True
            await asyncio.sleep(300.0)
            store.put("last")
            await asyncio.sleep(60.0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert transport.open_streams == 0
        assert known == store.things

    virtually(run())
