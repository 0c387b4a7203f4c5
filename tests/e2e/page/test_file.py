"""`muster plan --html`: one file with the map and the reasons, opened without a server."""

import json
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from e2e.page import clusters
from e2e.page.clusters import CLOSING, HOSTILE
from e2e.page.serving import ROOT
from e2e.page.test_safety import obeys_nothing


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """The page of a cluster, as a file; what its policy stops and what it asks for is complained about."""

    def write(name, *more):
        folder = tmp_path_factory.mktemp(name)
        given = clusters.write(folder / "cluster.json", getattr(clusters, name)())
        page = folder / "page.html"
        command = [sys.executable, "-m", "muster", "plan", "-f", given, "--html", page, *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
        assert "Traceback" not in done.stderr, done.stderr
        return page

    return write


def opened(look, page):
    """Whoever looks at it has no network."""
    looking = look(offline=True).open(page.as_uri())
    looking.page.on("request", lambda request: looking.complaints.append(f"asked for {request.url}"))
    return looking


def test_the_map_and_the_reasons_are_in_it(frozen, look):
    looking = opened(look, frozen("small"))
    assert looking.drawn(8) == 8
    looking.go("#/gangs")
    expect(looking.part("gang-row")).to_have_count(4)
    looking.gang_row("default/waits").click()
    expect(looking.map).to_have_attribute("data-selected", "default/waits")
    expect(looking.part("near")).to_have_count(3)
    expect(looking.part("remedy").first).to_contain_text("kubectl uncordon n31")
    looking.go("#/gang/default/serve")
    expect(looking.part("tree-row").first).to_contain_text("rack-0")
    looking.go("#/queues")
    expect(looking.part("queue-row")).to_have_count(3)


def test_every_view_of_it_says_something(frozen, look):
    looking = opened(look, frozen("small"))
    for view in ("map", "gangs", "queues", "timeline", "whatif", "gang/default/holds", "gang/default/nobody"):
        looking.go(f"#/{view}")
        looking.page.wait_for_timeout(200)
        assert looking.page.evaluate("document.querySelector('main')?.innerText.trim() ?? document.body.innerText")


def test_its_decision_is_in_it(frozen, look):
    """What the cycle bound can be read from a mark."""
    looking = opened(look, frozen("small"))
    looking.go("#/timeline")
    looking.part("mark").first.click()
    expect(looking.page.get_by_label("Decision", exact=True)).to_contain_text("waits")
    expect(looking.part("problem").locator("visible=true")).to_have_count(0)


def test_names_that_are_markup_stay_text_in_it(frozen, look):
    looking = opened(look, frozen("hostile"))
    for view in ("map", "gangs", "queues", "gang/default/waits", "gang/default/lost"):
        looking.go(f"#/{view}")
        looking.page.wait_for_timeout(200)
        obeys_nothing(looking)
    looking.go("#/gangs")
    expect(looking.gang_row(f"{HOSTILE}/{HOSTILE}")).to_be_visible()
    held = json.loads(looking.page.locator("#frozen").text_content() or "")
    assert CLOSING in held["frame"]["gangs"]["default/lost"]["queue"]


def test_a_what_if_can_be_kept(frozen, look, tmp_path):
    manifest = tmp_path / "newcomer.yaml"
    manifest.write_text(clusters.newcomer())
    looking = opened(look, frozen("small", "--add", manifest))
    looking.go("#/gang/default/newcomer")
    expect(looking.map).to_have_attribute("data-selected", "default/newcomer")
