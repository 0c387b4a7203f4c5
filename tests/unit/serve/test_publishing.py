"""The authority in the webhook configuration: added beside others, put back when it is gone, told when it can't be."""

import asyncio
import base64
import copy
import io

import pytest

from muster.errors import Call, Conflict, Forbidden, Invalid, NotFound, ServerFault
from muster.serve.webhook.certificates import Authority, SelfSigned, authorities_in, merged_bundle
from muster.serve.webhook.publishing import Publisher, bundle_patch, bundles_in
from muster.telemetry import Log
from unit.serve.serving import START, SetClock, lines_of

CALL = Call("patch", "validatingwebhookconfigurations", "", "muster", write=True)


def configuration(*bundles: bytes | None):
    hooks = [{"name": f"h{at}", "clientConfig": {}} for at in range(len(bundles))]
    for hook, bundle in zip(hooks, bundles, strict=True):
        if bundle is not None:
            hook["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
    return {"metadata": {"name": "muster", "resourceVersion": "1"}, "webhooks": hooks}


class Server:
    """One configuration behind a client; `events` happen before the patches, one each."""

    def __init__(self, document, *events):
        self.document, self.events, self.patches = document, list(events), 0

    async def get(self, *_):
        if isinstance(self.document, Exception):
            raise self.document
        return copy.deepcopy(self.document)

    async def patch(self, _kind, _namespace, _name, body, content):
        assert content == "application/json-patch+json"
        event = self.events.pop(0) if self.events else None
        if isinstance(event, Exception):
            raise event
        if event is not None:
            event(self)
        version, *changes = body
        assert version["path"] == "/metadata/resourceVersion"
        if version["value"] != self.document["metadata"]["resourceVersion"]:
            raise Conflict(CALL, "another version")
        for change in changes:
            self.document["webhooks"][int(change["path"].split("/")[2])]["clientConfig"]["caBundle"] = change["value"]
        self.change()

    def change(self):
        self.patches += 1
        self.document["metadata"]["resourceVersion"] += "1"


def publisher(server, source=None, stream=None):
    source = source or SelfSigned(["a"], "pod-1")
    return Publisher(server, "muster", source, SetClock(), Log(stream or io.StringIO())), source


def test_it_is_added_to_every_webhook_and_then_left_alone():
    server = Server(configuration(None, b""))
    one, source = publisher(server)
    assert "not looked at" in one.problem
    asyncio.run(one.look())
    (pem,) = source.authorities(START)
    assert bundles_in(server.document) == [pem, pem]
    assert one.problem == ""
    asyncio.run(one.look())
    assert server.patches == 1


def test_what_others_wrote_meanwhile_is_kept():
    """Between reading and writing another replica came: a conflict, and then both are there."""
    other = Authority("pod-2", START)

    def came(server):
        server.document["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(other.pem).decode()
        server.change()

    server = Server(configuration(b""), came)
    one, source = publisher(server)
    asyncio.run(one.look())
    assert one.problem == ""
    (bundle,) = bundles_in(server.document)
    assert set(authorities_in(bundle)) == set(authorities_in(other.pem + source.authorities(START)[0]))


def test_a_reset_is_put_back():
    server = Server(configuration(b""))
    one, source = publisher(server)
    asyncio.run(one.look())
    server.document = configuration(b"")
    asyncio.run(one.look())
    assert bundles_in(server.document) == source.authorities(START)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        pytest.param(NotFound(CALL, "no"), "there is no ValidatingWebhookConfiguration muster", id="missing"),
        pytest.param(Forbidden(CALL, "may not patch", "add the right"), "may not patch; add the right", id="forbidden"),
        pytest.param({"metadata": {}, "webhooks": "none"}, "not in the caBundle", id="no webhooks"),
        pytest.param([], "not in the caBundle", id="nonsense"),
    ],
)
def test_what_is_in_the_way_is_said(document, words):
    one, _ = publisher(Server(document))
    asyncio.run(one.look())
    assert words in one.problem


@pytest.mark.parametrize(
    ("document", "ready"),
    [
        pytest.param(NotFound(CALL, "no"), True, id="missing"),
        pytest.param(Forbidden(CALL, "may not patch"), True, id="forbidden"),
        pytest.param({"metadata": {}, "webhooks": []}, True, id="no webhooks"),
        pytest.param(ServerFault(CALL, "broken"), False, id="not known yet"),
        pytest.param(configuration(b""), True, id="published"),
    ],
)
def test_nobody_is_unready_for_a_webhook_that_is_not_there(document, ready):
    one, _ = publisher(Server(document))
    assert one.unready
    asyncio.run(one.look())
    assert (one.unready == "") == ready


def test_who_is_asked_and_not_trusted_is_not_ready():
    """A configuration that appears later, and that somebody keeps from being patched."""
    server = Server(NotFound(CALL, "no"), *[Conflict(CALL, "no")] * 50)
    one, _ = publisher(server)
    asyncio.run(one.look())
    assert one.unready == ""
    server.document = configuration(b"")
    asyncio.run(one.look())
    assert "others keep changing" in one.unready


def test_endless_conflicts_end():
    server = Server(configuration(b""), *[Conflict(CALL, "no")] * 50)
    one, _ = publisher(server)
    asyncio.run(one.look())
    assert "others keep changing" in one.problem


def test_what_the_server_takes_for_wrong_is_said_in_its_own_words():
    server = Server(configuration(b""), *[Invalid(CALL, "caBundle is too long")] * 50)
    one, _ = publisher(server)
    asyncio.run(one.look())
    assert "caBundle is too long" in one.problem
    assert "others keep changing" not in one.problem


def test_a_webhook_that_went_between_reading_and_writing_is_no_refusal():
    server = Server(configuration(b"", b""), Invalid(CALL, "there is no /webhooks/1"))
    one, _ = publisher(server)
    asyncio.run(one.look())
    assert one.problem == ""


def test_a_problem_is_logged_once():
    class Stops(Exception):
        pass

    class Clock(SetClock):
        async def sleep(self, seconds):
            await super().sleep(seconds)
            if self.at_s > 300:
                raise Stops

    stream = io.StringIO()
    source = SelfSigned(["a"], "pod-1")
    one = Publisher(Server(NotFound(CALL, "no")), "muster", source, Clock(), Log(stream))
    with pytest.raises(Stops):
        asyncio.run(one.run())
    assert len(lines_of(stream)) == 1


def test_the_patch_names_the_version():
    authority = Authority("a", START)
    first, *rest = bundle_patch(configuration(b"", authority.pem), [authority.pem], START)
    assert first == {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}
    assert [one["path"] for one in rest] == ["/webhooks/0/clientConfig/caBundle"]
    assert bundle_patch(configuration(merged_bundle(b"", [authority.pem], START)), [authority.pem], START) == []
