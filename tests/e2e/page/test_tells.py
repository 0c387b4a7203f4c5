"""What the page tells of what it can't show as it is: files with errors, other topologies, strange names, no dates."""

import re

import pytest
from playwright.sync_api import expect

from e2e.page.looking import Looking


@pytest.fixture
def wrong(served, look) -> Looking:
    return look().open(served("wrong").address)


@pytest.fixture
def two_ways(served, look) -> Looking:
    return look().open(served("two_ways").address)


def test_what_is_wrong_with_the_files_is_on_the_page(wrong):
    """Folded into a line that names the first; open, it has everything, with the command for more; and it can go."""
    notes = wrong.part("notes")
    expect(notes.locator("summary")).to_contain_text("3 notes about what was read")
    expect(notes.locator("summary")).to_contain_text(re.compile(r"PodGroup default/bad has errors .*json, document 1"))
    expect(notes.locator("li").first).to_be_hidden()
    notes.locator("summary").click()
    expect(notes.locator("li").first).to_contain_text("minMember")
    expect(notes).to_contain_text("other kinds: Deployment")
    expect(notes.locator("code")).to_contain_text("muster validate -f ")
    notes.get_by_role("button", name="Dismiss").click()
    expect(notes).to_be_hidden()
    wrong.go("#/queues")
    expect(wrong.part("queue-row").first).to_be_visible()
    expect(notes).to_be_hidden()


def test_where_nothing_is_wrong_nothing_is_told(small):
    expect(small.part("notes")).to_be_hidden()


def test_a_gang_of_another_topology_leads_there(two_ways):
    two_ways.go("#/gang/default/fed")
    note = two_ways.part("topology-note")
    expect(note).to_have_text("shown in dc; its levels are of power: switch")
    note.click()
    expect(note).to_have_count(0)
    assert "topology=power" in two_ways.hash
    expect(two_ways.page.get_by_label("Topology", exact=True)).to_have_value("power")
    two_ways.go("#/gang/default/racked?topology=dc")
    expect(two_ways.page.get_by_label("Topology", exact=True)).to_have_value("dc")
    expect(note).to_have_count(0)


def test_a_topology_that_is_not_there_is_said(two_ways):
    two_ways.go("#/map?topology=nowhere")
    expect(two_ways.part("topology-note")).to_have_text("there is no Topology nowhere: shown in dc")
    two_ways.go("#/map?topology=power")
    expect(two_ways.part("topology-note")).to_have_count(0)


def test_gangs_without_a_date_have_lanes(two_ways):
    """They run now, so they run over all that is shown; since when, nobody says."""
    two_ways.go("#/timeline")
    stretch = two_ways.page.locator(".lane[data-gang='default/racked'] .stretch.run")
    expect(stretch).to_have_attribute("title", "runs (not known since when)")
    assert stretch.bounding_box()["width"] > 200


def test_queues_that_nobody_wrote_down_say_what_is_in_them(two_ways):
    two_ways.go("#/queues")
    expect(two_ways.part("queue-row").first).to_contain_text("1 gang · 8 GPU allocated")


def test_a_queue_is_called_what_people_call_it(wrong):
    wrong.go("#/queues")
    expect(wrong.part("queue-row").first).to_contain_text("Research")
    wrong.go("#/queue/named")
    expect(wrong.page.locator(".crumbs")).to_contain_text("Research")


def test_the_numbers_above_are_those_of_the_lines(wrong):
    """Of one gang only surplus waits; one is held, which stands in no line."""
    expect(wrong.page.get_by_label("Summary")).to_contain_text("1 with surplus that waits")
    expect(wrong.page.get_by_label("Summary")).to_contain_text("1 held")
    wrong.go("#/queues")
    expect(wrong.part("in-line")).to_contain_text("1 gang waits in line, only with surplus; not in line: 1 held")


def test_long_names_stay_in_their_panel_and_turn_nothing_round(wrong):
    for gang in ("good", "late"):
        wrong.go(f"#/gang/default/{gang}")
        expect(wrong.part("tree-row").first).to_be_visible()
        wrong.page.wait_for_timeout(300)
        side = wrong.page.locator("aside.side")
        assert side.evaluate("(one) => one.scrollWidth <= one.clientWidth"), gang
        out = """(side) => [...side.querySelectorAll("span, code, bdi, b")].filter((one) => {
          const {unicodeBidi, display} = getComputedStyle(one);
          return one.textContent.includes("AAA") && display.startsWith("inline") && unicodeBidi !== "isolate";
        }).map((one) => one.outerHTML)"""
        assert side.evaluate(out) == []


def test_rows_are_links(small):
    """They can be opened in another tab."""
    small.go("#/gangs")
    link = small.gang_row("default/serve").get_by_role("link")
    expect(link).to_have_attribute("href", "#/gang/default/serve")
    with small.page.context.expect_page() as other:
        link.click(button="middle")
    other.value.wait_for_url("**/#/gang/default/serve")
    other.value.close()
    assert small.hash.startswith("#/gangs")
    link.click()
    expect(small.map).to_have_attribute("data-selected", "default/serve")


@pytest.mark.parametrize("width", [1440, 880])
def test_headings_stand_over_what_they_sort(served, look, width):
    """Each over a cell of the rows that can be seen, at the same edge."""
    looking = look(viewport={"width": width, "height": 900}).open(served("small").address, "#/gangs")
    expect(looking.part("gang-row").first).to_be_visible()
    edges = """() => {
      const at = (row) => Object.fromEntries([...row.children].filter((one) => one.checkVisibility()).map((one) => {
        const {left, right} = one.getBoundingClientRect();
        return [one.className.replace("cell ", ""), [Math.round(left), Math.round(right)]];
      }));
      return [at(document.querySelector(".row.head")), at(document.querySelector(".gang-row"))];
    }"""
    heads, cells = looking.page.evaluate(edges)
    assert heads == cells
    assert ("c-priority" in heads) == (width == 880)
