"""Events: one for each change of what is said, counted when it is said again, and never a burden to who says it."""

import asyncio
import json
import re
from contextlib import suppress

import pytest

from muster.kube.events import WARNING, EventRecorder, Rates, Regarding
from unit.kube.playing import Played, answer, playing, refusal, virtually

GANG = Regarding("muster.dev/v1", "PodGroup", "team-a", "train", "u1")


def recorded(say, respond=None, **rates):
    """The requests after `say(recorder)` and a minute, and the recorder."""

    async def whole(request):
        found = respond(request) if respond else None
        return found or answer({"metadata": {"name": "e"}}, 201)

    transport = Played(whole)

    async def run():
        async with playing(transport) as client:
            recorder = EventRecorder(client, instance="muster-0", rates=Rates(**rates))
            task = asyncio.create_task(recorder.run())
            await asyncio.sleep(0)
            await say(recorder)
            await asyncio.sleep(120.0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            return recorder

    recorder = virtually(run())
    return [(request.method, json.loads(request.body)) for request in transport.requests], recorder, transport


def test_an_event_is_complete():
    async def say(recorder):
        recorder.record(GANG, "InsufficientResources", "8 GPUs are missing", kind=WARNING, action="Scheduling")

    (request,), _, transport = recorded(say)
    method, body = request
    assert method == "POST"
    assert transport.requests[0].path == "/apis/events.k8s.io/v1/namespaces/team-a/events"
    assert re.fullmatch(r"train\.[0-9a-f]{12,16}", body["metadata"].pop("name"))
    assert re.fullmatch(r"2026-01-01T00:00:00\.\d{6}Z", body.pop("eventTime"))
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "team-a"},
        "reportingController": "muster.dev/scheduler",
        "reportingInstance": "muster-0",
        "action": "Scheduling",
        "reason": "InsufficientResources",
        "regarding": {
            "apiVersion": "muster.dev/v1",
            "kind": "PodGroup",
            "namespace": "team-a",
            "name": "train",
            "uid": "u1",
        },
        "note": "8 GPUs are missing",
        "type": "Warning",
    }


def test_the_same_again_is_counted_and_rarely_written():
    """One event per change of reason, however often a cycle says it; the count follows every few minutes."""

    async def say(recorder):
        for second in range(1200):
            recorder.record(GANG, "WaitingForQuota", f"waiting for {second} s")
            await asyncio.sleep(1.0)

    requests, recorder, _ = recorded(say)
    assert [method for method, _ in requests] == ["POST", "PATCH", "PATCH", "PATCH"]
    assert requests[1][1]["series"]["count"] == 301
    assert not recorder.dropped


def test_every_change_of_reason_is_an_event():
    async def say(recorder):
        for reason in ("A", "A", "B", "B", "C"):
            recorder.record(GANG, reason, "x")
            await asyncio.sleep(1.0)

    requests, _, _ = recorded(say)
    assert [body["reason"] for _, body in requests] == ["A", "B", "C"]


def test_what_still_waits_is_not_queued_twice():
    async def say(recorder):
        for _ in range(50):
            recorder.record(GANG, "A", "x")

    requests, recorder, _ = recorded(say)
    assert len(requests) == 1
    assert requests[0][1]["series"]["count"] == 50
    assert not recorder.dropped


def test_a_key_tells_what_of_a_note_is_news():
    async def say(recorder):
        for key in ("rack", "rack", "zone"):
            recorder.record(GANG, "TopologyFragmented", f"no {key}", key=key)
            await asyncio.sleep(1.0)

    requests, _, _ = recorded(say)
    assert [body["note"] for _, body in requests] == ["no rack", "no zone"]


def test_what_was_said_before_comes_back_as_a_count():
    async def say(recorder):
        for reason in ("A", "B", "A"):
            recorder.record(GANG, reason, "x")
            await asyncio.sleep(1.0)

    requests, _, _ = recorded(say)
    assert [method for method, _ in requests] == ["POST", "POST", "PATCH"]
    assert requests[2][1]["series"]["count"] == 2


def test_an_event_that_expired_is_made_again():
    async def say(recorder):
        for reason in ("A", "B", "A"):
            recorder.record(GANG, reason, "x")
            await asyncio.sleep(1.0)

    requests, _, _ = recorded(say, lambda request: refusal(404) if request.method == "PATCH" else None)
    assert [method for method, _ in requests] == ["POST", "POST", "PATCH", "POST"]
    assert requests[3][1]["metadata"]["name"] != requests[0][1]["metadata"]["name"]
    assert "series" not in requests[3][1]


def test_an_object_that_changes_all_the_time_is_slowed_down_and_others_are_not():
    other = GANG._replace(name="other", uid="u2")

    async def say(recorder):
        for number in range(100):
            recorder.record(GANG, f"R{number}", "x")
        recorder.record(other, "A", "x")

    requests, recorder, _ = recorded(say)
    assert len(requests) == 16
    assert recorder.dropped == {"rate": 85}


def test_the_queue_is_bounded_and_recording_never_waits():
    async def say(recorder):
        for number in range(5000):
            recorder.record(GANG._replace(name=f"g{number}", uid=f"u{number}"), "A", "x")

    requests, recorder, _ = recorded(say, queued=100)
    assert len(requests) == 100
    assert recorder.dropped == {"queue": 4900}


def test_what_is_said_of_thousands_of_pods_leaves_room_for_what_is_said_of_their_gang():
    async def say(recorder):
        for number in range(500):
            recorder.record(Regarding("v1", "Pod", "team-a", f"p{number}", f"u{number}"), "FailedScheduling", "x")
        recorder.record(GANG, "A", "x")

    requests, recorder, _ = recorded(say, queued=100)
    assert [body["regarding"]["kind"] for _, body in requests] == ["Pod"] * 50 + ["PodGroup"]
    assert recorder.dropped == {"queue": 450}


def test_memory_is_bounded():
    async def say(recorder):
        for number in range(500):
            recorder.record(GANG._replace(name=f"g{number}", uid=f"u{number}"), "A", "x")
            await asyncio.sleep(0.01)

    _, recorder, _ = recorded(say, remembered=50)
    assert max(len(recorder._entries), len(recorder._current), len(recorder._buckets)) == 50


def test_a_refusal_costs_one_event():
    async def say(recorder):
        recorder.record(GANG, "A", "x")
        recorder.record(GANG._replace(name="broken \ud800", uid="u3"), "A", "note \ud800")
        await asyncio.sleep(1.0)
        recorder.record(GANG._replace(name="fine", uid="u2"), "A", "x")

    def respond(request):
        return refusal(403, "Forbidden") if b'"train"' in request.body else None

    requests, recorder, _ = recorded(say, respond)
    assert [body["regarding"]["name"] for _, body in requests] == ["train", "fine"]
    assert recorder.dropped == {"failed": 2}


def test_what_the_server_would_refuse_is_not_sent():
    """Notes of at most 1,024 bytes, names that are names, a namespace for what has none."""
    about = Regarding("v1", "Node", "", "Ä_" * 200, "u")

    async def say(recorder):
        recorder.record(about, "r" * 500, "ä" * 2000, action="a" * 500)

    (request,), _, transport = recorded(say)
    body = request[1]
    assert len(body["note"].encode()) == 1024
    assert len(body["reason"]) == len(body["action"]) == 128
    assert re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", body["metadata"]["name"])
    assert len(body["metadata"]["name"]) <= 253
    assert "/namespaces/default/" in transport.requests[0].path
    assert "namespace" not in body["regarding"]


def test_what_waits_is_written_at_the_end_for_a_while():
    async def run():
        transport = Played(lambda request: asyncio.sleep(1.0, answer({}, 201)))
        recorder = EventRecorder(playing(transport), instance="i")
        for number in range(20):
            recorder.record(GANG._replace(name=f"g{number}"), "A", "x")
        await recorder.drain(4.5)
        return len(transport.requests)

    assert virtually(run()) == 5


def test_a_write_that_hangs_does_not_hold_up_the_end():
    async def run():
        transport = Played(lambda request: asyncio.sleep(1e5, answer({}, 201)))
        recorder = EventRecorder(playing(transport), instance="i")
        recorder.record(GANG, "A", "x")
        await recorder.drain(0.3)
        return asyncio.get_running_loop().time()

    assert virtually(run()) == pytest.approx(0.3)
