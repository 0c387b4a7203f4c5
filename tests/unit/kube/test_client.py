"""The client against answers of all kinds: what is asked, what is repeated, and what is concluded."""

import asyncio
import json

import msgspec
import pytest

from muster import errors
from muster.api.kinds import CORE_KINDS, POD_GROUP, TOPOLOGY
from muster.kube.client import JSON_PATCH, STRATEGIC
from muster.kube.credentials import Credentials, Secret
from muster.kube.resources import Resource
from muster.kube.transport import TooLarge, Unanswered
from unit.kube.playing import (
    THINGS,
    HastyClock,
    Played,
    answer,
    playing,
    refusal,
    scripted,
    status,
    thing,
    virtually,
)

POD = CORE_KINDS[0]
NEVER_SENT = Unanswered("connection refused", sent=False)
LOST = Unanswered("the connection broke")


def page(*names, more="", version="7"):
    return answer({"metadata": {"resourceVersion": version, "continue": more}, "items": [thing(n, 1) for n in names]})


def names(listing):
    return [item["metadata"]["name"] for item in listing.items]


def asked(work, *steps, clock=None, **limits):
    """What `work` returns or raises, and the transport that it spoke to."""
    transport = scripted(*steps)

    async def run():
        async with playing(transport, clock, **limits) as client:
            try:
                return await work(client)
            except errors.MusterError as error:
                return error

    return virtually(run()), transport


def test_get_decodes_into_the_struct_of_the_kind():
    found, transport = asked(
        lambda client: client.get(POD, "a", "p"), answer({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}})
    )
    assert found.spec.node_name == "n"
    assert transport.requests[0].path == "/api/v1/namespaces/a/pods/p"
    assert transport.closed


@pytest.mark.parametrize(
    ("kind", "namespace", "path"),
    [
        (POD, "", "/api/v1/pods"),
        (POD, "a", "/api/v1/namespaces/a/pods"),
        (POD_GROUP, "a", f"/apis/{POD_GROUP.api_version}/namespaces/a/podgroups"),
        (TOPOLOGY, "", f"/apis/{TOPOLOGY.api_version}/topologies"),
        (TOPOLOGY, "ignored", f"/apis/{TOPOLOGY.api_version}/topologies"),
        (Resource("ray.io/v1", "RayCluster", "rayclusters"), "a", "/apis/ray.io/v1/namespaces/a/rayclusters"),
    ],
)
def test_paths(kind, namespace, path):
    _, transport = asked(lambda client: client.list(kind, namespace), page())
    assert transport.requests[0].path == path


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a%2fb", "x" * 2000])
def test_a_name_never_becomes_another_path(name):
    error, transport = asked(lambda client: client.get(POD, "a", name))
    assert isinstance(error, errors.Invalid)
    assert transport.requests == []


def test_a_list_goes_through_all_pages_of_one_version():
    listing, transport = asked(
        lambda client: client.list(THINGS, "a", label_selector="x=y", field_selector="z", limit=2),
        page("a", "b", more="t1"),
        page("c", more="t2"),
        page("d", version="9"),
    )
    assert names(listing) == ["a", "b", "c", "d"]
    assert listing.resource_version == "9"
    assert [dict(request.params).get("continue") for request in transport.requests] == [None, "t1", "t2"]
    assert all(request.params["labelSelector"] == "x=y" for request in transport.requests)


def test_an_expired_continue_token_starts_the_list_again():
    """Half of an old list and half of a new one are no list."""
    listing, transport = asked(
        lambda client: client.list(THINGS), page("a", more="t"), refusal(410, "Expired"), page("b", "c", version="8")
    )
    assert names(listing) == ["b", "c"]
    assert "continue" not in transport.requests[2].params


def test_a_list_that_expires_again_and_again_is_asked_for_in_one_piece():
    steps = [page("a", more="t"), refusal(410), page("a", more="t"), refusal(410), page("a", "b")]
    listing, transport = asked(lambda client: client.list(THINGS), *steps)
    assert names(listing) == ["a", "b"]
    assert "limit" not in transport.requests[-1].params


def test_a_list_from_the_cache_says_so_and_its_next_pages_do_not():
    _, transport = asked(lambda client: client.list(THINGS, consistent=False), page("a", more="t"), page("b"))
    assert transport.requests[0].params["resourceVersion"] == "0"
    assert "resourceVersion" not in transport.requests[1].params


def test_a_server_that_repeats_its_token_does_not_hold_us_for_ever():
    listing, _ = asked(lambda client: client.list(THINGS), page("a", more="t"), page("b", more="t"))
    assert names(listing) == ["a", "b"]


def test_one_bad_object_costs_no_other():
    items = [{"metadata": {"name": "good"}}, {"metadata": {"name": "bad", "uid": "u"}, "spec": 3}, 17]
    body = answer({"metadata": {"resourceVersion": "5"}, "items": items})
    listing, _ = asked(lambda client: client.list(POD), body)
    assert [pod.metadata.name for pod in listing.items] == ["good"]
    assert [(bad.metadata.name, bad.metadata.uid) for bad in listing.unread] == [("bad", "u"), ("", "")]
    assert "spec" in listing.unread[0].why.path


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"items": 3}', b"\xff", b"[" * 100_000])
def test_what_is_no_list_is_a_fault_of_the_server(body):
    error, _ = asked(lambda client: client.list(THINGS), answer(body))
    assert isinstance(error, errors.ServerFault)
    assert not error.unknown


def test_an_empty_list_may_have_null_items():
    listing, _ = asked(lambda client: client.list(THINGS), answer({"metadata": {}, "items": None}))
    assert listing.items == []


def test_raw_objects_stay_bytes():
    raw = Resource("v1", "Thing", "things", struct=msgspec.Raw)
    listing, _ = asked(lambda client: client.list(raw), page("a"))
    assert json.loads(bytes(listing.items[0]))["metadata"]["name"] == "a"


STATUSES = [
    (400, "BadRequest", errors.Invalid, False),
    (401, "Unauthorized", errors.Unauthorized, False),
    (403, "Forbidden", errors.Forbidden, False),
    (404, "NotFound", errors.NotFound, False),
    (405, "MethodNotAllowed", errors.ApiError, False),
    (409, "Conflict", errors.Conflict, False),
    (409, "AlreadyExists", errors.AlreadyExists, False),
    (410, "Expired", errors.Gone, False),
    (413, "RequestEntityTooLarge", errors.Invalid, False),
    (422, "Invalid", errors.Invalid, False),
    (500, "InternalError", errors.ServerFault, True),
    (503, "ServiceUnavailable", errors.ServerFault, True),
    (504, "Timeout", errors.ServerFault, True),
    (302, "", errors.ApiError, False),
]


@pytest.mark.parametrize(("code", "reason", "kind", "unknown"), STATUSES, ids=str)
def test_every_status_of_a_write_has_its_error_and_is_sent_once(code, reason, kind, unknown):
    """A write that the server answered is never repeated on its own; 5xx leaves open whether it happened."""
    error, transport = asked(lambda client: client.bind("a", "p", "u", "n"), refusal(code, reason))
    assert type(error) is kind
    assert (error.status, error.reason, error.unknown) == (code, reason, unknown)
    assert len(transport.requests) == 1


def test_a_status_with_strange_fields_keeps_its_reason():
    told = {"code": 409, "reason": "AlreadyExists", "message": None, "details": {"causes": 3}}
    error, _ = asked(lambda client: client.create(THINGS, "a", {}), answer(told, 409))
    assert isinstance(error, errors.AlreadyExists)
    assert error.message == "can't create things in namespace a: the API server answered 409"


def test_every_answer_is_observed():
    seen = []

    async def run():
        client = playing(scripted(refusal(500), LOST, answer(thing("x", 1))))
        client.observe = lambda call, code, seconds: seen.append((call.verb, call.resource, code, seconds))
        await client.get(THINGS, "a", "x")

    virtually(run())
    assert seen == [("get", "things", 500, 0.0), ("get", "things", 0, 0.0), ("get", "things", 200, 0.0)]


def test_a_guard_is_asked_before_each_write_and_what_it_refuses_is_never_sent():
    """Also of those that waited for their place: ten binds, one at a time, and in the middle we lead no more."""
    asked_about, sent = [], []

    async def guard(call):
        asked_about.append(call.name)
        return "" if len(asked_about) <= 4 else "somebody else leads"

    async def answered(request):
        sent.append(request.path)
        await asyncio.sleep(1.0)
        return answer({})

    async def run():
        client = playing(Played(answered), binds=1)
        client.guard = guard
        binds = (client.bind("a", f"p{number}", "u", "n") for number in range(10))
        found = await asyncio.gather(*binds, return_exceptions=True)
        await client.get(THINGS, "a", "x")
        return found

    found = virtually(run())
    assert found[:4] == [None] * 4
    assert {type(error) for error in found[4:]} == {errors.Unreachable}
    assert {error.unknown for error in found[4:]} == {False}
    assert "somebody else leads" in found[4].message
    assert len(asked_about) == 10
    assert len(sent) == 5


def test_forbidden_names_the_verb_the_resource_and_the_namespace():
    error, _ = asked(lambda client: client.bind("team-a", "p", "u", "n"), refusal(403, "Forbidden"))
    assert "create pods/binding p in namespace team-a" in error.message
    assert "create on pods/binding in namespace team-a" in error.hint
    error, _ = asked(lambda client: client.list(TOPOLOGY), refusal(403, "Forbidden"))
    assert "list on topologies in the whole cluster" in error.hint


@pytest.mark.parametrize("body", [b"<html>Bad gateway\x1b[31m</html>", b"", b"\xff\xfe", b"x" * 10**6, b"[" * 10**5])
def test_whatever_a_proxy_says_becomes_one_plain_sentence(body):
    error, _ = asked(lambda client: client.bind("a", "p", "u", "n"), answer(body, 502))
    assert isinstance(error, errors.ServerFault)
    assert error.message.isprintable()
    assert len(error.message) < 1200


def test_a_read_is_repeated_with_growing_waits():
    clock = HastyClock()
    found, transport = asked(
        lambda client: client.get(THINGS, "a", "x"), refusal(500), LOST, NEVER_SENT, answer(thing("x", 1)), clock=clock
    )
    assert found["metadata"]["name"] == "x"
    assert clock.slept == [0.1, 0.2, 0.4]
    assert len(transport.requests) == 4


def test_a_read_is_given_up_at_last():
    error, transport = asked(lambda client: client.get(THINGS, "a", "x"), *[refusal(500)] * 9)
    assert isinstance(error, errors.ServerFault)
    assert len(transport.requests) == 5


@pytest.mark.parametrize(("lost", "requests"), [(LOST, 1), (NEVER_SENT, 5)], ids=["sent", "never sent"])
def test_a_write_without_an_answer_is_unknown_unless_it_was_never_sent(lost, requests):
    error, transport = asked(lambda client: client.bind("a", "p", "u", "n"), *[lost] * 9)
    assert isinstance(error, errors.Unreachable)
    assert error.unknown == (lost is LOST)
    assert len(transport.requests) == requests


def test_a_read_without_an_answer_is_never_unknown():
    error, _ = asked(lambda client: client.get(THINGS, "a", "x"), *[LOST] * 9)
    assert isinstance(error, errors.Unreachable)
    assert not error.unknown


def test_a_busy_server_is_asked_again_when_it_says():
    """429 did nothing, so a write may come again too; never sooner than the server wants."""
    clock = HastyClock()
    told = {**status(429, "TooManyRequests"), "details": {"retryAfterSeconds": 3}}
    _, transport = asked(
        lambda client: client.bind("a", "p", "u", "n"),
        refusal(429, Retry_After="2"),
        answer(told, 429),
        refusal(429),
        answer(status(201), 201),
        clock=clock,
    )
    assert len(transport.requests) == 4
    assert 2.0 <= clock.slept[0] < 3.0 <= clock.slept[1] < 4.0
    assert clock.slept[2] == 0.4


def test_a_very_long_wait_is_for_the_caller_to_decide():
    error, transport = asked(lambda client: client.get(THINGS, "a", "x"), refusal(429, Retry_After="86400"))
    assert isinstance(error, errors.TooManyRequests)
    assert error.retry_after_s == 3600.0
    assert len(transport.requests) == 1


@pytest.mark.parametrize("told", ["soon", "-1", "1e9", "9" * 50, "Wed, 21 Oct 2026 07:28:00 GMT", "²"])
def test_a_strange_retry_after_is_none(told):
    clock = HastyClock()
    asked(lambda client: client.get(THINGS, "", "x"), refusal(429, Retry_After=told), answer({}), clock=clock)
    assert clock.slept == [0.1]


def test_a_disruption_budget_is_no_reason_to_ask_again():
    told = status(
        429, "TooManyRequests", "Cannot evict pod", causes=[{"reason": "DisruptionBudget", "message": "pdb x"}]
    )
    error, transport = asked(lambda client: client.evict("a", "p", "u"), answer(told, 429, Retry_After="1"))
    assert isinstance(error, errors.BudgetRefused)
    assert "pdb x" in error.message
    assert len(transport.requests) == 1


def test_bind_names_the_incarnation():
    _, transport = asked(
        lambda client: client.bind("a", "p", "u1", "n", annotations={"k": "v"}), answer(status(201), 201)
    )
    request = transport.requests[0]
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/a/pods/p/binding")
    assert json.loads(request.body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "a", "uid": "u1", "annotations": {"k": "v"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }
    assert request.params == {"fieldManager": "muster", "timeout": "10s"}


def test_evict_names_the_incarnation():
    _, transport = asked(lambda client: client.evict("a", "p", "u1", grace_s=0, dry_run=True), answer(status(201), 201))
    request = transport.requests[0]
    assert request.path == "/api/v1/namespaces/a/pods/p/eviction"
    assert json.loads(request.body)["deleteOptions"] == {
        "preconditions": {"uid": "u1"},
        "gracePeriodSeconds": 0,
        "dryRun": ["All"],
    }
    assert request.params["dryRun"] == "All"


def test_delete_names_the_incarnation():
    _, transport = asked(lambda client: client.delete(POD, "a", "p", uid="u1", grace_s=5), answer(status(200)))
    request = transport.requests[0]
    assert request.method == "DELETE"
    assert json.loads(request.body)["preconditions"] == {"uid": "u1"}
    assert "fieldManager" not in request.params


def header(request, name):
    return [text for key, text in request.headers if key == name]


def test_apply_is_ours_and_takes_nothing_by_default():
    _, transport = asked(
        lambda client: client.apply(POD_GROUP, "a", "g", {"status": {}}, subresource="status"), answer(thing("g", 4))
    )
    request = transport.requests[0]
    assert request.path.endswith("/podgroups/g/status")
    assert header(request, "Content-Type") == ["application/apply-patch+yaml"]
    assert request.params["fieldManager"] == "muster"
    assert request.params["force"] == "false"


@pytest.mark.parametrize("content", [STRATEGIC, JSON_PATCH])
def test_patches(content):
    found, transport = asked(
        lambda client: client.patch(POD, "a", "p", [], content=content, subresource="status"), answer(thing("p", 4))
    )
    assert found.resource_version == "4"
    assert header(transport.requests[0], "Content-Type") == [content]


def test_a_write_that_happened_is_no_failure_because_the_answer_reads_badly():
    body = {"metadata": {"name": "g", "resourceVersion": "4", "labels": 3}, "spec": "?"}
    found, _ = asked(lambda client: client.patch(POD_GROUP, "a", "g", {}), answer(body))
    assert (found.name, found.resource_version) == ("g", "4")


def test_an_answer_that_is_too_large_is_a_fault():
    error, transport = asked(lambda client: client.get(THINGS, "a", "x"), TooLarge("the answer is larger"))
    assert isinstance(error, errors.ServerFault)
    assert len(transport.requests) == 1


class Rotating:
    """Tokens one after the other; the server refuses some."""

    def __init__(self, *tokens):
        self.tokens = list(tokens)

    async def current(self):
        if not self.tokens:
            raise errors.UsageError("the plugin failed", "log in")
        return Secret(self.tokens[0])

    async def renewed(self, refused):
        if self.tokens[0] == refused.token:
            self.tokens.pop(0)
        return (await self.current()).token != refused.token


def with_tokens(*tokens, steps):
    transport = scripted(*steps)

    async def run():
        client = playing(transport)
        client.connection = client.connection._replace(credentials=Credentials(Rotating(*tokens), origin="user x"))
        try:
            return await client.get(THINGS, "a", "x")
        except errors.ApiError as error:
            return error

    return virtually(run()), [header(request, "Authorization") for request in transport.requests]


def test_a_refused_token_is_renewed_once():
    found, sent = with_tokens("old", "new", steps=[refusal(401), answer(thing("x", 1))])
    assert found["metadata"]["name"] == "x"
    assert sent == [["Bearer old"], ["Bearer new"]]


def test_a_token_that_is_refused_again_is_an_error_with_advice():
    error, sent = with_tokens("old", "new", "newer", steps=[refusal(401), refusal(401)])
    assert isinstance(error, errors.Unauthorized)
    assert len(sent) == 2


def test_the_same_token_is_not_shown_twice():
    error, sent = with_tokens("old", "old", steps=[refusal(401)])
    assert isinstance(error, errors.Unauthorized)
    assert "user x" in error.hint
    assert len(sent) == 1


def test_without_credentials_nothing_is_sent():
    error, sent = with_tokens(steps=[])
    assert isinstance(error, errors.Unauthorized)
    assert "the plugin failed" in error.message
    assert not error.unknown
    assert sent == []


def test_lanes_are_bounded_and_do_not_wait_for_each_other():
    """A hundred binds are at most 32 at a time; a lease is renewed while all of them hang."""
    running, most = 0, 0

    async def slowly(request):
        nonlocal running, most
        if "binding" not in request.path:
            return answer(thing("l", 1))
        running, most = running + 1, max(most, running + 1)
        await asyncio.sleep(1.0)
        running -= 1
        return answer(status(201), 201)

    async def run():
        async with playing(Played(slowly)) as client, asyncio.TaskGroup() as group:
            for number in range(100):
                group.create_task(client.bind("a", f"p{number}", "u", "n"))
            await asyncio.sleep(0.5)
            await client.get(THINGS, "a", "l", lane="lease")
            assert asyncio.get_running_loop().time() == 0.5
            assert running == 32

    virtually(run())
    assert most == 32


def test_a_cancelled_request_gives_its_place_back():
    async def never(request):
        await asyncio.Event().wait()

    async def run():
        async with playing(Played(never), binds=1) as client:
            for _ in range(3):
                task = asyncio.create_task(client.bind("a", "p", "u", "n"))
                await asyncio.sleep(0.1)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert not client._lanes["bind"].locked()

    virtually(run())


def test_a_server_that_wants_https_is_told_by_its_address_and_asked_once():
    async def run():
        transport = scripted(*[answer(b"Client sent an HTTP request to an HTTPS server.\n", 400)] * 2)
        client = playing(transport, HastyClock())
        with pytest.raises(errors.Unreachable, match="http://play wants HTTPS") as caught:
            await client.create(POD, "ns", {})
        assert (caught.value.unknown, caught.value.hint) == (False, "write https:// in the kubeconfig")
        assert len(transport.requests) == 1

    virtually(run())
