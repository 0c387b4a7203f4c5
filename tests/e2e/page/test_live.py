"""The page while things happen: the demo told from its beginning, and a server that goes away and comes back."""

import re

import pytest
from playwright.sync_api import expect

from e2e.page.clusters import gang, node, pod, topology, write
from e2e.page.serving import Serving

GANGS = ("inference", "monthly", "pretrain", "sweep", "finetune")


@pytest.fixture(scope="module")
def told(demo):
    """The demo with its story behind it."""
    demo.line(r"next: |export KUBECONFIG")
    return demo


def test_the_story_appears_on_the_page_as_it_is_told(demo, look):
    """Opened at its beginning, the page shows every gang when it comes, without being loaded again."""
    looking = look().open(demo.address)
    assert looking.drawn(64) == 64
    looking.page.evaluate("window.unloaded = false")
    looking.go("#/gangs")
    for name in GANGS:
        expect(looking.gang_row(f"default/{name}")).to_be_visible(timeout=120_000)
    demo.line(r"next: |export KUBECONFIG")
    frame = looking.api("/api/frame")
    assert frame["source"]["kind"] == "demo"
    assert {f"default/{name}" for name in GANGS} < set(frame["gangs"])
    assert {one["state"] for one in frame["gangs"].values()} <= {"running", "partial"}
    # What the page made of deltas is what the server has.
    looking.go("#/map")
    for name in GANGS:
        shown, there = looking.slots_of(f"default/{name}"), frame["gangs"][f"default/{name}"]["pods"]
        assert count(shown) == sum(slots for _, _, _, slots, state in there if state != "nominated"), name
    assert looking.page.evaluate("window.unloaded") is False


def count(slots):
    """How many slots of the map are those of pods that hold them."""
    return sum(one["to"] - one["from"] for one in slots if one["state"] != "nominated")


def test_every_gang_of_the_story_has_a_lane(told, look):
    looking = look().open(told.address, "#/timeline")
    for name in GANGS:
        expect(looking.part("lane").filter(has_text=name).first).to_be_visible()
    expect(looking.part("mark").first).to_be_attached()


def test_a_lane_shows_that_its_gang_runs(told, look):
    """In whatever colour."""
    looking = look().open(told.address, "#/timeline")
    expect(looking.part("lane").first).to_be_visible()
    seen = """() => [...document.querySelectorAll("[data-testid=lane]")].filter((lane) =>
      [...lane.querySelectorAll(".stretch.run")].every((one) =>
        one.offsetWidth < 1 || /rgba\\(0, 0, 0, 0\\)|transparent/.test(getComputedStyle(one).backgroundColor)))
      .map((lane) => lane.textContent)"""
    assert looking.page.evaluate(seen) == []


def test_the_past_can_be_looked_at(told, look):
    """Scrubbed to before the sweep came, it is not there; back at now, it is."""
    looking = look().open(told.address, "#/timeline")
    line = looking.api("/api/timeline")
    came = min(mark["version"] for mark in line["lanes"]["default/sweep"]["marks"])
    before = max(version for version, _, _ in line["cycles"] if version < came)
    looking.go(f"#/gangs?at={before}")
    expect(looking.gang_row("default/pretrain")).to_be_visible()
    expect(looking.gang_row("default/sweep")).to_have_count(0)
    looking.part("now").click()
    expect(looking.gang_row("default/sweep")).to_be_visible()
    assert "at=" not in looking.hash


def test_scrubbing_back_and_forth(told, look):
    looking = look().open(told.address, "#/timeline")
    scrub = looking.part("scrub")
    expect(scrub).to_be_visible()
    scrub.focus()
    looking.press("Home")
    looking.page.wait_for_function("() => location.hash.includes('at=')")
    first = looking.hash
    looking.press("ArrowRight", "ArrowRight")
    looking.page.wait_for_function("(first) => location.hash !== first", arg=first)
    looking.press("End")
    looking.page.wait_for_function("() => !location.hash.includes('at=')")


def test_a_mark_shows_its_decision(told, look):
    """The box names the decision, who goes for whom, and why; as the API has it."""
    looking = look().open(told.address, "#/timeline")
    lane = looking.part("lane").filter(has_text="sweep").first
    expect(lane).to_be_visible()
    line = looking.api("/api/timeline")
    kinds = [mark["kind"] for mark in line["lanes"]["default/sweep"]["marks"]]
    assert "evicted" in kinds
    mark = lane.locator("[data-testid=mark][data-kind=evicted]").last
    version = mark.get_attribute("data-version")
    mark.click()
    decided = looking.api(f"/api/decisions/{version}?gang=default/sweep")
    lost = [one for one in decided["evictions"] if one["gang"] == "default/sweep"]
    box = looking.page.locator("aside[aria-label=Decision]")
    expect(box).to_be_visible()
    expect(box).to_contain_text(f"decision {decided['decision']}")
    expect(box).to_contain_text(f"evicted {len(decided['evictions'])} pod")
    expect(box).to_contain_text(lost[0]["why"])


def test_an_old_address_says_that_it_is_not_kept(told, look):
    """Without asking for it: the console of the browser stays empty."""
    looking = look().open(told.address)
    looking.go("#/map?at=999999")
    expect(looking.part("problem").locator("visible=true").first).to_be_visible()


# Lost and found.


def cluster(path, *names):
    items = [topology("zone"), *(node(f"n{number}", zone="z") for number in range(4))]
    for name in names:
        items += [gang(name, minMember=1), pod(f"{name}-0", name, 1)]
    return write(path, items)


def test_a_server_that_comes_back_is_followed_again(look, tmp_path):
    """The connection is told to be lost; the page stays, asks from where it was, and shows what is new."""
    file = cluster(tmp_path / "cluster.json", "first")
    serving = Serving("ui", "-f", file, "--port", 0, home=tmp_path)
    looking = look()
    try:
        looking.open(serving.address, "#/gangs")
        expect(looking.gang_row("default/first")).to_be_visible()
        asked = []
        looking.page.on("request", lambda request: asked.append(request) if "/api/events" in request.url else None)
        with looking.forgiving("ERR_", "Failed to load", "401", "network error"):
            serving.kill()
            expect(looking.part("connection")).to_contain_text(re.compile("lost|reconnect|again", re.IGNORECASE))
            expect(looking.gang_row("default/first")).to_be_visible()
            cluster(file, "first", "second")
            serving = Serving("ui", "-f", file, "--port", serving.port, home=tmp_path)
            looking.page.evaluate("(token) => localStorage.setItem('muster.token', token)", serving.token)
            expect(looking.gang_row("default/second")).to_be_visible()
            looking.is_live()
        assert asked
        assert asked[-1].headers.get("last-event-id", "").isdigit() or "since=" in asked[-1].url
    finally:
        serving.stop()


def test_the_address_of_the_next_start_can_be_pasted_into_the_open_page(look, tmp_path):
    """Only what stands behind # changes then: nothing is loaded anew, and all the same the token does not stay."""
    file = cluster(tmp_path / "cluster.json", "first")
    serving = Serving("ui", "-f", file, "--port", 0, home=tmp_path)
    looking = look()
    try:
        looking.open(serving.address, "#/gangs")
        expect(looking.gang_row("default/first")).to_be_visible()
        with looking.forgiving("ERR_", "Failed to load", "401", "network error"):
            serving.kill()
            cluster(file, "second")
            serving = Serving("ui", "-f", file, "--port", serving.port, home=tmp_path)
            # Refused, as long as only the old token is there.
            expect(looking.part("sign-in")).to_be_visible()
            expect(looking.part("sign-in")).to_contain_text("This token was refused")
            looking.press("m")
            expect(looking.part("map")).to_be_hidden()
            looking.page.evaluate("(token) => { location.hash = `#token=${token}`; }", serving.token)
            looking.is_live()
            looking.go("#/gangs")
            expect(looking.gang_row("default/second")).to_be_visible()
            expect(looking.gang_row("default/first")).to_have_count(0)
        assert serving.token not in looking.page.url
        assert serving.token not in looking.page.content()
        looking.page.go_back()
        assert serving.token not in looking.page.url
    finally:
        serving.stop()


# What every stream of events brings, as text, in window.heard.
HEAR = """window.heard = [];
const asked = window.fetch;
window.fetch = async (...how) => {
  const answer = await asked(...how);
  if (!String(how[0]).includes("events") || !answer.ok) return answer;
  const [one, two] = answer.body.tee();
  const at = window.heard.push("") - 1;
  two.pipeThrough(new TextDecoderStream()).pipeTo(new WritableStream({write: (text) => { window.heard[at] += text; }}))
    .catch(() => {});
  return new Response(one, {status: answer.status, headers: answer.headers});
};
"""


def test_a_stream_that_breaks_is_resumed_where_it_was(told, look):
    """By Last-Event-ID: the server sends what is new, and not everything again."""
    looking = look()
    looking.page.add_init_script(HEAR)
    asked = []

    def listen(route):
        asked.append(route.request.headers.get("last-event-id"))
        if len(asked) == 1:
            route.abort()
        else:
            route.continue_()

    looking.page.route("**/api/events*", listen)
    with looking.forgiving("ERR_FAILED", "Failed to load"):
        looking.open(told.address)
        looking.is_live()
        looking.page.wait_for_timeout(1000)
    version = looking.api("/api/frame")["version"]
    assert len(asked) == 2
    assert int(asked[1]) <= version
    (heard,) = looking.page.evaluate("window.heard")
    assert "retry: " in heard
    assert "event: frame" not in heard


def test_a_refusal_while_following_is_told(told, look):
    """What the server says, and what to do about it; until it lets one follow."""
    looking = look()
    said = {"error": "too many are watching", "hint": "close a tab of the page"}
    refused = []

    def refuse(route):
        refused.append(route)
        if len(refused) < 3:
            route.fulfill(status=503, json=said)
        else:
            route.continue_()

    looking.page.route("**/api/events*", refuse)
    with looking.forgiving("503", "Failed to load"):
        looking.open(told.address)
        expect(looking.part("problem").filter(has_text=said["hint"])).to_be_visible()
        looking.is_live()
        expect(looking.part("problem").filter(has_text=said["hint"])).to_have_count(0)


def test_one_step_back_ends_at_the_oldest_that_is_kept(told, look):
    looking = look().open(told.address)
    first = looking.api("/api/timeline")["first"]
    looking.go(f"#/map?at={first}")
    expect(looking.page.locator(".past")).to_contain_text(f"version {first},")
    looking.press("[", "[")
    looking.page.wait_for_timeout(500)
    assert f"at={first}" in looking.hash
    expect(looking.part("problem").locator("visible=true")).to_have_count(0)
