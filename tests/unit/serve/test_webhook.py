"""The webhook over HTTP: every rule of SPEC §4 once, what it lets pass, and bodies that nobody should send."""

import asyncio
import gzip
import json
import threading
import time
from typing import Any

import pytest

from muster.api.kinds import POD_GROUP
from muster.api.validation import Context, Settings, Violation, violation
from muster.serve.webhook import answers as module
from muster.serve.webhook.answers import (
    LONGEST_HINTED,
    LONGEST_WARNING,
    MAX_BODY_BYTES,
    MOST_CAUSES,
    MOST_WARNINGS,
    review,
    warnings_of,
)
from unit.serve.rules import AT, ERRORS, KNOWN, WARNINGS, gang, interface, leaf, queue, topology, written
from unit.serve.serving import asked, lines_of, webhook_on_loopback


def with_server(work, context: Context | None = KNOWN, **settings):
    async def run():
        async with webhook_on_loopback(context, **settings) as serving:
            return await work(serving)

    return asyncio.run(run())


@pytest.mark.parametrize(("request_", "field", "words"), ERRORS)
def test_every_error_of_the_spec_is_refused(request_: dict[str, Any], field: str, words: str) -> None:
    """Once through HTTP: the field, the words, 422, and the same in one message."""
    response = with_server(lambda serving: serving.ask(request_))
    assert response["allowed"] is False
    status = response["status"]
    assert (status["code"], status["reason"], status["status"]) == (422, "Invalid", "Failure")
    causes = [one for one in status["details"]["causes"] if one["field"] == field]
    assert any(words in one["message"] for one in causes), status
    assert words in status["message"]


@pytest.mark.parametrize(("request_", "words"), WARNINGS)
def test_every_warning_of_the_spec_is_passed_on(request_: dict[str, Any], words: str) -> None:
    response = with_server(lambda serving: serving.ask(request_))
    assert response["allowed"] is True
    assert "status" not in response
    assert any(words in one for one in response["warnings"]), response
    assert all(len(one) <= LONGEST_HINTED and one.isprintable() for one in response["warnings"])


@pytest.mark.parametrize(
    "document",
    [gang(minMember=4), queue("q"), topology("t/zone", "t/rack"), interface()],
    ids=["PodGroup", "Queue", "Topology", "ResourceInterface"],
)
def test_what_is_right_passes(document: dict[str, Any]) -> None:
    """Nothing but yes, with and without knowledge of the cluster, for every operation."""
    calls = [
        asked(document),
        asked(document, "UPDATE", document),
        asked(document, "DELETE"),
        asked(document, dryRun=True),
    ]
    for context in (KNOWN, None):
        for call in calls:
            response = with_server(lambda serving, call=call: serving.ask(call), context)
            assert response["allowed"] is True
            assert "status" not in response


def test_all_violations_stand_in_one_message() -> None:
    status = review(asked(gang(minMember=-1, preemptibility="maybe", subGroups=[leaf("a", parent="b")])), KNOWN)
    message = status["response"]["status"]["message"]
    assert [field in message for field in ("spec.minMember", "spec.preemptibility", f"{AT}.parent")] == [True] * 3


def test_an_answer_is_bounded() -> None:
    """However much is wrong with an object, and however long its names."""
    broken = [{"name": "X" * 300, "parent": "Y" * 300} for _ in range(2_000)]
    response = review(asked(gang(subGroups=broken)), KNOWN)["response"]
    status = response["status"]
    assert len(json.dumps(response)) < 32_000
    assert len(status["details"]["causes"]) == MOST_CAUSES + 1
    assert "validation stopped after 25 errors: muster validate -f FILE shows all" in status["message"]
    many = [Violation("warning", f"spec.a[{at}]", "m" * 300, "h" * 50) for at in range(50)]
    assert len(warnings_of(many)) == MOST_WARNINGS
    assert "41 more warnings" in warnings_of(many)[-1]


def test_of_a_long_warning_the_hint_goes_first() -> None:
    assert warnings_of([Violation("warning", "a", "short", "hint")]) == ["a: short (hint)"]
    assert warnings_of([Violation("warning", "a", "m" * 100, "h" * 50)]) == [f"a: {'m' * 100} ({'h' * 50})"]
    assert warnings_of([Violation("warning", "a", "m" * 100, "h" * 200)]) == ["a: " + "m" * 100]
    # The API server cuts the sum of all at 4096.
    assert MOST_WARNINGS * LONGEST_HINTED < 4096
    assert warnings_of([Violation("warning", "a", "m" * 300, "h")])[0].endswith("m…")


def test_zero_minimums_go_by_the_configuration() -> None:
    for setting, allowed in (("Deny", False), ("Warn", True), ("Allow", True)):
        context = Context(settings=Settings(zero_minimum=setting), admission=True)
        assert review(asked(gang(minMember=0)), context)["response"]["allowed"] is allowed


@pytest.mark.parametrize(
    ("call", "words"),
    [
        pytest.param(asked({"apiVersion": "v1", "kind": "Pod", "metadata": {}}), "v1 Pod", id="pod"),
        pytest.param(asked({"apiVersion": "apps/v9", "kind": "Thing"}), "apps/v9 Thing", id="somebody's"),
        pytest.param(asked({"apiVersion": "scheduling.run.ai/v1", "kind": "PodGroup"}), "write", id="another version"),
        pytest.param(asked({"metadata": {}}), "apiVersion", id="no kind"),
        pytest.param(asked({"apiVersion": "\x1b[2J\n", "kind": "<script>"}), "did not judge", id="hostile"),
    ],
)
def test_what_it_does_not_know_it_does_not_block(call: dict[str, Any], words: str) -> None:
    response = with_server(lambda serving: serving.ask(call))
    assert response["allowed"] is True
    (warning,) = response["warnings"]
    assert words in warning
    assert warning.isprintable()
    assert len(warning) <= LONGEST_WARNING


def test_subresources_are_not_judged() -> None:
    """The status of a gang is the scheduler's, and its absence of errors is nobody's precondition."""
    assert review(asked(gang(minMember=-1), subResource="status"), KNOWN)["response"]["allowed"] is True


def test_what_goes_away_is_let_go() -> None:
    """An invalid object that is being deleted loses its finalizers, so that its namespace can end."""
    going = written(POD_GROUP, "g", {"minMember": -1}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert review(asked(going, "UPDATE", gang(minMember=1)), KNOWN)["response"]["allowed"] is True


def test_a_label_on_an_object_that_was_wrong_before_is_no_new_error() -> None:
    """It is told as a warning; a change of the spec must mend it."""
    old = gang(minMember=-1)
    new = written(POD_GROUP, "g", {"minMember": -1}, metadata={"labels": {"a": "b"}})
    response = review(asked(new, "UPDATE", old), KNOWN)["response"]
    assert response["allowed"] is True
    assert "spec.minMember" in response["warnings"][0]
    changed = gang(minMember=-1, queue="team")
    assert review(asked(changed, "UPDATE", old), KNOWN)["response"]["allowed"] is False


HOSTILE: list[Any] = [
    pytest.param(b"", 400, "not JSON", id="nothing"),
    pytest.param(b"{", 400, "not JSON", id="half"),
    pytest.param(b"\xff\xfe", 400, "not JSON", id="no text"),
    pytest.param(b"[" * 200_000, 400, "not JSON", id="deep, unclosed"),
    pytest.param(b"[" * 100_000 + b"]" * 100_000, 400, "not JSON: it is nested too deep", id="deep"),
    pytest.param(b"null", 400, "not an AdmissionReview", id="null"),
    pytest.param(b"[]", 400, "not an AdmissionReview", id="list"),
    pytest.param(b'{"kind": ["AdmissionReview"]}', 400, "not an AdmissionReview", id="kind is a list"),
    pytest.param(b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}', 400, "v1beta1", id="older"),
    pytest.param(json.dumps({**asked({}), "request": "x"}).encode(), 400, "no request", id="request is text"),
    pytest.param(json.dumps(asked({}, uid="")).encode(), 400, "uid", id="no uid"),
    pytest.param(json.dumps(asked({}, uid="u" * 300)).encode(), 400, "uid", id="long uid"),
    pytest.param(json.dumps(asked({}, uid={"a": 1})).encode(), 400, "uid", id="uid is a mapping"),
    pytest.param(json.dumps(asked({}, operation="EAT")).encode(), 400, '"EAT"', id="operation"),
    pytest.param(json.dumps(asked({}, operation={})).encode(), 400, "a mapping", id="operation is a mapping"),
    pytest.param(json.dumps(asked("text")).encode(), 400, "request.object", id="object is text"),
    pytest.param(json.dumps(asked(None, "DELETE")).encode(), 400, "request.oldObject", id="nothing to delete"),
    pytest.param(b" " * (MAX_BODY_BYTES + 1), 413, "more than 3,145,728 bytes", id="too large"),
    pytest.param(json.dumps(asked(gang(minMember=10**400))).encode(), 200, "2147483647 or less", id="a huge number"),
    pytest.param(json.dumps(asked(gang(queue="\ud800"))).encode(), 400, "not JSON", id="half a character"),
    pytest.param(json.dumps(asked({**gang(), "metadata": "x"})).encode(), 200, "metadata", id="metadata is text"),
    pytest.param(json.dumps(asked({**gang(), "spec": [1]})).encode(), 200, "spec", id="spec is a list"),
    pytest.param(
        json.dumps(asked(gang(), "UPDATE", {"spec": 7, "metadata": 9})).encode(),
        200,
        '"allowed":true',
        id="old is nonsense",
    ),
    pytest.param(json.dumps(asked(gang(__proto__="\x1b[31m../"))).encode(), 200, "__proto__", id="names"),
]


@pytest.mark.parametrize(("body", "status", "words"), HOSTILE)
def test_a_hostile_body_gets_a_sentence(body: bytes, status: int, words: str) -> None:
    """One line, no traceback, and the server serves on."""

    async def run(serving):
        answered = await serving.post(body)
        assert (await serving.ask(asked(gang(minMember=1))))["allowed"] is True
        return answered, lines_of(serving.log)

    (code, text), logged = with_server(run)
    assert code == status, text
    assert words in text
    assert "Traceback" not in text
    assert text.rstrip("\n").isprintable()
    assert len(text) < 2_000
    assert not [one for one in logged if one["level"] == "error"], logged


def test_only_json_by_post() -> None:
    async def run(serving):
        body = json.dumps(asked(gang())).encode()
        found = [(await serving.post(body, **{"Content-Type": "text/plain"}))[0]]
        found.append((await serving.post(gzip.compress(body), **{"Content-Encoding": "gzip"}))[0])
        for method, path in (("GET", "/validate"), ("POST", "/elsewhere")):
            async with serving.session.request(method, f"http://127.0.0.1:{serving.port}{path}") as answer:
                found.append(answer.status)
        return found

    assert with_server(run) == [415, 415, 405, 404]


def test_our_own_defect_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The object passes with a warning, and the log says so."""

    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a defect\nin two lines")

    monkeypatch.setattr(module, "validate", broken)

    async def run(serving):
        return await serving.ask(asked(gang())), lines_of(serving.log)

    response, logged = with_server(run)
    assert response["allowed"] is True
    assert "internal error" in response["warnings"][0]
    assert "ZeroDivisionError: a defect\nin two lines" in [one.get("error") for one in logged]


def test_the_loop_lives_while_a_large_object_is_judged() -> None:
    """10,000 SubGroups, all wrong: judged aside, so that others are answered meanwhile."""
    large = asked(gang(subGroups=[{"name": f"A{at}", "parent": f"b{at}"} for at in range(10_000)]))

    async def run(serving):
        async def late() -> float:
            worst = 0.0
            while not done.is_set():
                # The time of this thread: on a busy machine others take from it, and that is not what is asked.
                began = time.thread_time()
                await asyncio.sleep(0.01)
                worst = max(worst, time.thread_time() - began)
            return worst

        done = asyncio.Event()
        watching = asyncio.create_task(late())
        response = await serving.ask(large)
        done.set()
        return response, await watching

    response, worst_s = with_server(run)
    assert response["allowed"] is False
    assert worst_s < 0.5


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(gang(subGroups=[leaf(f"s{at}", minMember="x", foo=1) for at in range(9_000)]), id="fields"),
        pytest.param(gang(subGroups=[leaf("a", parent="b", minSubGroup=1) for _ in range(9_000)]), id="rules"),
        pytest.param(gang(**{f"minMembr{at}": at for at in range(20_000)}), id="unknown fields"),
    ],
)
def test_the_search_for_errors_ends_after_the_first_ones(document, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 1 MB object with thousands of errors costs four clients that send it in a loop little of the webhook's time."""
    made = []
    monkeypatch.setattr(violation, "Violation", lambda *said: made.append(said) or Violation(*said))
    created = review(asked(document), KNOWN)["response"]
    updated = review(asked(document, "UPDATE", document), KNOWN)["response"]
    assert created["status"]["message"].endswith(
        "validation stopped after 25 errors: muster validate -f FILE shows all"
    )
    assert updated["allowed"] is True
    assert 2 * MOST_CAUSES < len(made) < 10 * MOST_CAUSES


def test_a_status_that_can_not_be_read_hides_no_error() -> None:
    """The search ends after 25 errors, and what is wrong with a status is none."""
    document = {**gang(minMember=-1), "status": {"subGroups": [{"name": 1, "pods": 2} for _ in range(100)]}}
    response = review(asked(document), KNOWN)["response"]
    assert response["allowed"] is False
    assert "spec.minMember" in response["status"]["message"]


def test_large_objects_wait_for_each_other_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a large review takes its time, small ones are answered."""
    judge = module.judge
    begun, over = threading.Event(), threading.Event()

    def slow(request: Any, context: Any) -> Any:
        if len(request.object["spec"]["subGroups"]) > 1:
            begun.set()
            over.wait(60.0)
        return judge(request, context)

    monkeypatch.setattr(module, "judge", slow)

    async def run(serving):
        many = [leaf(f"s{at}") for at in range(4_000)]
        large = [asyncio.create_task(serving.ask(asked(gang(subGroups=many)))) for _ in range(4)]
        try:
            assert await asyncio.to_thread(begun.wait, 30.0)
            small = [await serving.ask(asked(gang(subGroups=[leaf("a")]))) for _ in range(8)]
        finally:
            over.set()
        return small, [await one for one in large]

    small, large = with_server(run, deadline_s=60.0)
    assert [one["allowed"] for one in (*small, *large)] == [True] * 12


def test_who_would_wait_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker, nobody may wait: the second is refused at once, and the first given up at its deadline."""
    judge = module.judge
    begun, over = threading.Event(), threading.Event()

    def slow(*args: Any) -> Any:
        begun.set()
        over.wait(60.0)
        return judge(*args)

    monkeypatch.setattr(module, "judge", slow)

    async def run(serving):
        serving.url += "?timeout=1s"
        body = json.dumps(asked(gang()))
        first = asyncio.create_task(serving.post(body))
        try:
            assert await asyncio.to_thread(begun.wait, 30.0)
            second = await serving.post(body)
            return second, await first
        finally:
            over.set()

    second, first = with_server(run, workers=1, most_waiting=0)
    assert second[0] == 503
    assert "under way already" in second[1]
    assert first[0] == 503
    assert "took too long" in first[1]


async def answered(serving, status: int, call: dict[str, Any]) -> Any:
    """The first answer with this status: the server hears of who came and went when it gets to it."""
    async with asyncio.timeout(30.0):
        while (found := await serving.post(json.dumps(call)))[0] != status:
            await asyncio.sleep(0.02)
    return found


def test_bodies_in_memory_are_bounded() -> None:
    """Those who are slow to send hold no more than so many bytes; who is small comes through when they are gone."""

    async def run(serving):
        head = "POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n"
        slow = [await asyncio.open_connection("127.0.0.1", serving.port) for _ in range(2)]
        for _, writer in slow:
            writer.write(head.encode())
        refused = await answered(serving, 503, asked(gang(queue="x" * 300_000)))
        small = (await serving.ask(asked(gang(minMember=1))))["allowed"]
        for _, writer in slow:
            writer.close()
        return refused, small, await answered(serving, 200, asked(gang(queue="x" * 300_000, minMember=1)))

    refused, small, after = with_server(run, most_bytes=2 * MAX_BODY_BYTES)
    assert refused[0] == 503
    assert small is True
    assert after[0] == 200


def test_a_body_that_never_comes_is_given_up() -> None:
    async def run(serving):
        reader, writer = await asyncio.open_connection("127.0.0.1", serving.port)
        head = "POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        writer.write(head.encode())
        line = await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        return line

    assert b"503" in with_server(run, deadline_s=0.2)


def test_reviews_are_counted_by_kind_and_result() -> None:
    async def run(serving):
        await serving.ask(asked(gang(minMember=1)))
        await serving.ask(asked(gang(minMember=-1)))
        await serving.ask(asked({"apiVersion": "a", "kind": "x" * 900}))
        await serving.post("{")
        one = serving.metrics.registry.get_sample_value
        labels = [("PodGroup", "CREATE", "allowed"), ("PodGroup", "CREATE", "denied"), ("none", "CREATE", "unjudged")]
        labels.append(("none", "none", "error"))
        names = ("kind", "operation", "result")
        return [one("muster_webhook_requests_total", dict(zip(names, values, strict=True))) for values in labels]

    assert with_server(run) == [1, 1, 1, 1]
