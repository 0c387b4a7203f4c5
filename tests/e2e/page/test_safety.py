"""The page obeys nobody but who has the token, and nothing that it shows."""

import http.client
import json
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from e2e.page.clusters import CLOSING, HOSTILE, gang, pod

VIEWS = (
    "map",
    "gangs",
    "queues",
    "timeline",
    "whatif",
    "gang/default/waits",
    "gang/default/lost",
    "gang/default/placed",
)


def test_names_that_are_markup_stay_text(served, look):
    """In every view, in the tooltip, in the explanation, in a what-if."""
    looking = look().open(served("hostile").address)
    looking.drawn(3)
    hostile = "/".join(map(encoded, (HOSTILE, HOSTILE)))
    for view in (*VIEWS, f"gang/{hostile}", f"queue/{encoded(HOSTILE)}", f"queue/{encoded(CLOSING)}"):
        with looking.forgiving("404"):
            looking.go(f"#/{view}")
            looking.page.wait_for_timeout(200)
            obeys_nothing(looking)
    looking.go("#/gangs")
    expect(looking.gang_row(f"{HOSTILE}/{HOSTILE}")).to_be_visible()
    assert HOSTILE in looking.gang_row(f"{HOSTILE}/{HOSTILE}").inner_text()
    looking.gang_row(f"{HOSTILE}/{HOSTILE}").click()
    expect(looking.page.get_by_text("the PodGroup is invalid").first).to_be_visible()
    looking.go("#/map")
    looking.point_at(f"{HOSTILE}0")
    expect(looking.part("tooltip")).to_contain_text(HOSTILE)
    obeys_nothing(looking)


def test_names_that_every_object_has_are_names_like_others(served, look):
    looking = look().open(served("hostile").address)
    assert looking.drawn(4) == 4
    assert looking.where("__proto__")["w"] > 0
    for name in ("constructor", "__proto__"):
        for view in ("map", "gangs", "queues", "timeline", f"gang/{name}/{name}"):
            looking.go(f"#/{view}")
            looking.page.wait_for_timeout(150)
        expect(looking.part("tree-row").first).to_contain_text(name)
        with looking.forgiving("404"):
            looking.go(f"#/queue/{name}")
            looking.page.wait_for_timeout(150)
    looking.go("#/gangs")
    for key in ("constructor/constructor", "__proto__/__proto__"):
        expect(looking.gang_row(key)).to_be_visible()


def test_a_manifest_that_is_markup_stays_text(served, look):
    looking = look().open(served("hostile").address)
    looking.go("#/whatif")
    added = [gang(f"x{HOSTILE}", queue="good", minMember=1), pod(HOSTILE, f"x{HOSTILE}", 1)]
    added += [gang("fine", queue="good", minMember=1), pod(f"y{HOSTILE}", "fine", 1)]
    for text in ("\n---\n".join(map(json.dumps, added)), HOSTILE, f"kind: '{CLOSING}'"):
        looking.part("whatif-text").fill(text)
        with looking.forgiving(r"status of 4\d\d"):
            looking.part("whatif-go").click()
            expect(looking.part("whatif-result").or_(looking.part("problem")).first).to_be_visible()
            looking.page.wait_for_timeout(200)
        obeys_nothing(looking)


def encoded(text):
    return quote(text, safe="")


def obeys_nothing(looking):
    """No element came out of a name, and no handler."""
    found = looking.page.evaluate("""() => [...document.querySelectorAll("*")].filter((one) =>
      one.matches("img, b[onmouseover], body script:not([src]):not([type='application/json'])")
      || [...one.attributes].some((attribute) => attribute.name.startsWith("on"))).map((one) => one.outerHTML)""")
    assert found == []


def test_without_a_token_there_is_a_sign_in(served, look):
    """It says where to find the address, refuses what is wrong, and takes what is right."""
    serving, looking = served("small"), look()
    looking.origin = serving.origin
    with looking.forgiving("401"):
        looking.page.goto(f"{serving.origin}/#/queues")
        expect(looking.part("sign-in")).to_be_visible()
        expect(looking.part("sign-in")).to_contain_text("muster")
        expect(looking.part("queue-row")).to_have_count(0)
        looking.part("token").fill("wrong")
        looking.press("Enter")
        expect(looking.part("sign-in")).to_be_visible()
    looking.part("token").fill(serving.token)
    looking.press("Enter")
    expect(looking.part("queue-row").first).to_be_visible()
    expect(looking.part("sign-in")).to_be_hidden()


def test_a_token_of_a_cluster_stays_in_its_tab(served, look):
    """Where the rights of a cluster decide, the page asks for a Kubernetes token and keeps it as long as the tab."""
    serving, looking = served("small"), look()
    looking.origin = serving.origin
    session = {"mode": "cluster", "source": {"kind": "live", "name": "x"}, "version": "0", "run": "1"}
    looking.page.route("**/api/session", lambda route: route.fulfill(json=session))
    with looking.forgiving("401"):
        looking.page.goto(f"{serving.origin}/#/queues")
        expect(looking.part("sign-in")).to_contain_text("kubectl create token")
        looking.part("token").fill(serving.token)
        looking.press("Enter")
        expect(looking.part("queue-row").first).to_be_visible()
    kept = looking.page.evaluate("[JSON.stringify({...localStorage}), JSON.stringify({...sessionStorage})]")
    assert serving.token not in kept[0]
    assert serving.token in kept[1]
    assert looking.page.context.cookies() == []


def ask(serving, path, method="GET", **headers):
    """What the server answers to somebody who is no browser; the path goes out as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", int(serving.port), timeout=20)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/api/frame", "/api/events", "/api/timeline", "/api/gangs/default/waits/explanation"])
def test_nothing_is_said_without_the_token(served, path):
    assert ask(served("small"), path)[0] == 401
    assert ask(served("small"), path, Authorization="Bearer wrong")[0] == 401


def test_another_host_or_origin_is_refused(served):
    """A page of somebody else in the same browser, or a name that was made to mean this address."""
    serving = served("small")
    good = {"Authorization": f"Bearer {serving.token}"}
    assert ask(serving, "/api/frame", **good)[0] == 200
    assert ask(serving, "/api/frame", Host="evil.example", **good)[0] in (400, 403, 421)
    assert ask(serving, "/", Host="evil.example")[0] in (400, 403, 421)
    assert ask(serving, "/api/frame", Origin="http://evil.example", **good)[0] == 403


def test_the_policy_is_strict(served):
    status, headers, body = ask(served("small"), "/")
    assert status == 200
    allowed = headers["Content-Security-Policy"]
    policy = {name: value for name, _, value in (part.strip().partition(" ") for part in allowed.split(";"))}
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in allowed
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert served("small").token.encode() not in body


def test_the_page_is_only_read(served):
    serving = served("small")
    good = {"Authorization": f"Bearer {serving.token}"}
    for method in ("PUT", "PATCH", "DELETE", "POST"):
        assert ask(serving, "/api/frame", method, **good)[0] in (404, 405)
    for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fconfig.py", "/static/../page.py"):
        assert ask(serving, path, **good)[0] in (400, 403, 404)
