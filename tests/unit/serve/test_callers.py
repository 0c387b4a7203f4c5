"""Who looks at the page of a cluster: the API server says who they are and what they may list, and nobody else does."""

import asyncio
import json
from collections import Counter

import pytest

from muster.errors import ApiError
from muster.serve.page import callers as module
from muster.serve.page.callers import ClusterCallers
from muster.serve.views.seeing import Rights
from unit.kube.playing import Played, answer, playing, refusal, virtually

ANNA = {"username": "anna", "uid": "7", "groups": ["dev", "system:authenticated"], "extra": {"scope": ["a"]}}


class Server:
    """Knows tokens, and what whoever has one may list: `plural`, or `plural/namespace`."""

    def __init__(self, allowed=(), users=None):
        self.allowed, self.users = set(allowed), {"good": ANNA} if users is None else users
        self.asked, self.specs, self.down = Counter(), [], False
        self.transport = Played(self.reply)
        self.callers = ClusterCallers(playing(self.transport, attempts=1))

    async def reply(self, request):
        if self.down:
            return refusal(503)
        await asyncio.sleep(0.01)
        body = json.loads(request.body)
        self.asked[body["kind"]] += 1
        self.specs.append(body["spec"])
        assert request.method == "POST"
        if body["kind"] == "TokenReview":
            assert request.path == "/apis/authentication.k8s.io/v1/tokenreviews"
            user = self.users.get(body["spec"]["token"])
            return answer({"status": {"authenticated": user is not None, **({"user": user} if user else {})}}, 201)
        assert request.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        about = body["spec"]["resourceAttributes"]
        assert about["verb"] == "list"
        what = "/".join(filter(None, (about["resource"], about["namespace"])))
        return answer({"status": {"allowed": what in self.allowed}}, 201)

    def rights(self, token="good", namespaces=("a", "b"), first=()):  # noqa: S107 (no secret)
        return self.callers.rights(token, namespaces, first)


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (["podgroups", "nodes", "queues"], Rights()),
        (["podgroups"], Rights(None, nodes=False, queues=False)),
        (["podgroups/a"], Rights(frozenset("a"), nodes=False, queues=False)),
        (["podgroups/a", "podgroups/b", "nodes"], Rights(frozenset("ab"), nodes=True, queues=False)),
        (["podgroups/elsewhere", "queues"], Rights(frozenset(), nodes=False, queues=True)),
        ([], Rights(frozenset(), nodes=False, queues=False)),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else "",
)
def test_the_callers_own_rights_decide(allowed, expected):
    assert virtually(Server(allowed).rights()) == expected


@pytest.mark.parametrize("token", ["bad", "ä", "a\nb", "\udc80"], ids=ascii)
def test_a_token_that_nobody_knows_is_nobodys(token):
    server = Server(["podgroups", "nodes", "queues"])
    assert virtually(server.rights(token)) is None
    assert not server.asked["SubjectAccessReview"]


@pytest.mark.parametrize(
    "said",
    [
        *({}, {"status": None}, {"status": {"authenticated": "yes", "user": ANNA}}, {"status": {"user": ANNA}}),
        *({"status": {"authenticated": True}}, {"status": {"authenticated": True, "user": {"username": ""}}}),
        {"status": {"authenticated": True, "user": "anna"}},
    ],
    ids=str,
)
def test_only_a_plain_yes_is_one(said):
    async def reply(request):
        return answer(said, 201)

    assert virtually(ClusterCallers(playing(Played(reply))).rights("good", ())) is None


def test_a_denial_is_one_whatever_else_is_said():
    async def reply(request):
        if b"TokenReview" in request.body:
            return answer({"status": {"authenticated": True, "user": ANNA}}, 201)
        return answer({"status": {"allowed": True, "denied": True}}, 201)

    assert virtually(ClusterCallers(playing(Played(reply))).rights("good", ("a",))) == Rights(
        frozenset(), nodes=False, queues=False
    )


def test_the_server_is_asked_about_all_that_it_said_of_somebody():
    server = Server(["podgroups"])
    virtually(server.rights())
    spec = next(one for one in server.specs if one.get("resourceAttributes", {}).get("resource") == "podgroups")
    assert (spec["user"], spec["groups"], spec["uid"], spec["extra"]) == ("anna", ANNA["groups"], "7", {"scope": ["a"]})
    assert spec["resourceAttributes"] == {
        "verb": "list",
        "group": "scheduling.run.ai",
        "resource": "podgroups",
        "namespace": "",
        "version": "v2alpha2",
    }


def test_an_answer_counts_for_a_minute():
    server = Server(["podgroups/a"])

    async def work():
        await server.rights()
        first = server.asked.copy()
        assert first == {"TokenReview": 1, "SubjectAccessReview": 5}
        assert await server.rights() == Rights(frozenset("a"), nodes=False, queues=False)
        assert server.asked == first
        # Of a namespace that is new, that alone is asked.
        await server.rights(namespaces=("a", "b", "c"))
        assert server.asked["SubjectAccessReview"] == 6
        await asyncio.sleep(module.KEEP_S + 1)
        server.users.clear()
        assert await server.rights() is None

    virtually(work())


def test_a_no_counts_for_a_minute_too():
    server = Server()

    async def work():
        for _ in range(10):
            assert await server.rights("bad") is None
        assert server.asked["TokenReview"] == 1

    virtually(work())


def test_many_requests_at_once_ask_once():
    server = Server(["podgroups", "nodes", "queues"])

    async def work():
        found = await asyncio.gather(*(server.rights() for _ in range(20)))
        assert found == [Rights()] * 20
        assert server.asked == {"TokenReview": 1, "SubjectAccessReview": 3}

    virtually(work())
    assert not server.callers._turns


def test_so_many_are_remembered_and_no_token_is(monkeypatch):
    monkeypatch.setattr(module, "MOST_CALLERS", 3)
    monkeypatch.setattr(module, "MOST_STRANGERS", 4)
    server = Server(["podgroups"], {f"good-{number}": ANNA for number in range(10)})

    async def work():
        for number in range(10):
            await server.rights(f"bad-{number}")
            await server.rights(f"good-{number}")
        assert (len(server.callers._known), len(server.callers._strangers)) == (3, 4)
        for kept in (server.callers._known, server.callers._strangers):
            assert "bad" not in repr(kept)
            assert "good" not in repr(kept)

    virtually(work())


def test_strangers_push_nobody_out():
    """However many tokens somebody makes up: who is known is not asked about again, and does not wait behind them."""
    server = Server(["podgroups/a"])

    async def work():
        await server.rights()
        before = server.asked["SubjectAccessReview"]
        strangers = [asyncio.ensure_future(server.rights(f"bad-{number}")) for number in range(600)]
        await asyncio.sleep(0)
        assert (await server.rights(namespaces=("a", "new"))).namespaces == frozenset("a")
        assert server.asked["TokenReview"] < 20
        assert await asyncio.gather(*strangers) == [None] * 600
        await server.rights()
        assert server.asked["SubjectAccessReview"] == before + 1

    virtually(work())


def test_of_many_namespaces_all_are_asked_about_in_time(monkeypatch):
    """Some in each request, and it is said of how many it is not known yet. What was allowed comes first then."""
    monkeypatch.setattr(module, "MOST_NAMESPACES", 3)
    server, spaces = Server(["podgroups/g", "podgroups/h"]), tuple("abcdefgh")

    async def work():
        found = [await server.rights(namespaces=spaces) for _ in range(3)]
        assert [(one.namespaces, one.unasked) for one in found] == [
            (frozenset(), 5),
            (frozenset(), 2),
            (frozenset("gh"), 0),
        ]
        await asyncio.sleep(module.KEEP_S + 1)
        assert (await server.rights(namespaces=spaces)).namespaces == frozenset("gh")
        # Those that somebody asks for are known at once.
        server.allowed |= {"podgroups/z"}
        await asyncio.sleep(module.KEEP_S + 1)
        assert (await server.rights(namespaces=spaces, first=("z",))).namespaces == frozenset("ghz")

    virtually(work())


def test_every_namespace_has_its_turn_though_answers_go_stale(monkeypatch):
    """Who asks once a minute gets to the last one too: what was refused is asked again after what never was."""
    monkeypatch.setattr(module, "MOST_NAMESPACES", 3)
    server, spaces = Server(["podgroups/h"]), tuple("abcdefgh")

    async def work():
        for _ in range(2):
            assert (await server.rights(namespaces=spaces)).namespaces == frozenset()
            await asyncio.sleep(module.KEEP_S + 1)
        assert (await server.rights(namespaces=spaces)).namespaces == frozenset("h")

    virtually(work())


def test_a_right_stays_when_the_last_gang_of_its_namespace_went():
    """And goes when it is taken."""
    server = Server(["podgroups/a"])

    async def work():
        await server.rights()
        for _ in range(3):
            await asyncio.sleep(module.KEEP_S + 1)
            assert (await server.rights(namespaces=("b",))).namespaces == frozenset("a")
        server.allowed.clear()
        await asyncio.sleep(module.KEEP_S + 1)
        assert (await server.rights(namespaces=("b",))).namespaces == frozenset()

    virtually(work())


def test_when_nobody_can_say_nobody_is_let_in():
    server = Server(["podgroups"])

    async def work():
        server.down = True
        with pytest.raises(ApiError):
            await server.rights()
        server.down = False
        # That is not remembered.
        assert (await server.rights()).namespaces is None

    virtually(work())
