"""How the page behaves: addresses, keyboard, light and dark, empty states, small screens."""

import re

import pytest
from playwright.sync_api import expect

from e2e.page import clusters
from e2e.page.serving import Serving

VIEWS = ("map", "gangs", "queues", "timeline", "whatif")


@pytest.mark.parametrize("view", [*VIEWS, "gang/default/waits", "queue/training"])
def test_every_view_has_an_address(served, look, view):
    """Somebody who has signed in opens it directly, reloads it, and is where they were."""
    serving, looking = served("small"), look()
    looking.open(serving.address)
    looking.page.goto("about:blank")
    looking.page.goto(f"{serving.origin}/#/{view}")
    signs = {"map": "map", "gangs": "gang-row", "queues": "queue-row", "timeline": "lane", "whatif": "whatif-text"}
    signs |= {"gang/default/waits": "check", "queue/training": "waiting"}
    expect(looking.part(signs[view]).first).to_be_visible()
    looking.page.reload()
    expect(looking.part(signs[view]).first).to_be_visible()
    assert looking.hash.startswith(f"#/{view}")


def test_back_and_forth(small):
    small.go("#/gangs")
    small.gang_row("default/serve").click()
    expect(small.map).to_have_attribute("data-selected", "default/serve")
    small.page.go_back()
    expect(small.gang_row("default/serve")).to_be_visible()
    assert small.hash.startswith("#/gangs")
    small.page.go_forward()
    expect(small.map).to_have_attribute("data-selected", "default/serve")


def test_the_token_does_not_stay_in_the_address(served, look):
    serving = served("small")
    looking = look().open(serving.address)
    assert serving.token not in looking.page.url


def test_views_have_keys(small):
    for key, view in (("g", "gangs"), ("q", "queues"), ("t", "timeline"), ("w", "whatif"), ("m", "map")):
        small.press(key)
        small.page.wait_for_function("(view) => location.hash.startsWith(`#/${view}`)", arg=view)
    small.press("?")
    expect(small.part("help")).to_be_visible()
    small.press("Escape")
    expect(small.part("help")).to_be_hidden()


def test_keys_are_letters_where_somebody_writes(small):
    small.go("#/gangs")
    small.part("search").click()
    small.page.keyboard.type("mqt")
    assert small.hash.startswith("#/gangs")
    expect(small.part("search")).to_have_value("mqt")


def test_a_gang_is_reached_by_the_keyboard_alone(small):
    small.press("g")
    expect(small.part("gang-row").first).to_be_visible()
    small.press("j", "j", "Enter")
    small.page.wait_for_function("() => location.hash.startsWith('#/gang/')")
    expect(small.map).to_have_attribute("data-selected", re.compile("default/"))


def test_the_focus_can_be_seen(small):
    small.press("Tab")
    style = small.page.evaluate(
        "(() => { const s = getComputedStyle(document.activeElement);"
        " return [s.outlineStyle, s.outlineWidth, s.boxShadow] })()"
    )
    assert style[0] != "none" or style[2] != "none", style


def test_the_map_moves_by_the_keyboard(small):
    before = small.where("n00")
    small.map.focus()
    small.press("+", "+")
    small.page.wait_for_function("(width) => window.musterMap.where('n00').w > width * 1.2", arg=before["w"])
    near = small.where("n00")
    small.press("ArrowRight")
    small.page.wait_for_function("(x) => Math.abs(window.musterMap.where('n00').x - x) > 5", arg=near["x"])
    small.press("0")
    small.page.wait_for_function("(width) => Math.abs(window.musterMap.where('n00').w - width) < 2", arg=before["w"])


def test_the_wheel_zooms_and_dragging_pans(small):
    before = small.where("n00")
    small.point_at("n00")
    small.page.mouse.wheel(0, -400)
    small.page.wait_for_function("(width) => window.musterMap.where('n00').w > width * 1.1", arg=before["w"])
    near, frame = small.where("n00"), small.map.bounding_box()
    small.page.mouse.move(frame["x"] + 300, frame["y"] + 300)
    small.page.mouse.down()
    small.page.mouse.move(frame["x"] + 360, frame["y"] + 340, steps=4)
    small.page.mouse.up()
    small.page.wait_for_function("(x) => Math.abs(window.musterMap.where('n00').x - x - 60) < 8", arg=near["x"])
    assert small.hash.startswith("#/map"), "dragging selects nobody"


def test_what_is_under_the_mouse_is_told(small):
    small.point_at("n00")
    tip = small.part("tooltip")
    expect(tip).to_be_visible()
    expect(tip).to_contain_text("n00")


def test_the_selection_is_said_to_who_can_not_see_it(small):
    small.go("#/gang/default/serve")
    expect(small.page.locator("[aria-live]").filter(has_text="serve").first).to_be_attached()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(served, look, scheme):
    """As the system has it, until somebody wants the other; that is kept."""
    looking = look(color_scheme=scheme).open(served("small").address)
    dark = "(() => { const c = getComputedStyle(document.body).backgroundColor.match(/\\d+/g); return +c[0] < 128 })()"
    assert looking.page.evaluate(dark) == (scheme == "dark")
    looking.part("theme").click()
    assert looking.page.evaluate(dark) == (scheme == "light")
    looking.page.reload()
    looking.drawn()
    assert looking.page.evaluate(dark) == (scheme == "light")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read(served, look, scheme):
    """Contrast of 4.5 to 1 for the words of every view (WCAG 2.2, 1.4.3)."""
    looking = look(color_scheme=scheme).open(served("small").address)
    faint = set()
    for view in (*VIEWS, "gang/default/waits"):
        looking.go(f"#/{view}")
        looking.page.wait_for_timeout(300)
        faint |= set(looking.page.evaluate(FAINT))
    assert faint == set()


FAINT = """() => {
  const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n };
  const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3]));
  const light = (c) => c.map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    const chain = [];
    for (let at = element; at; at = at.parentElement) chain.unshift(at);
    return chain.reduce((below, at) => over(parse(getComputedStyle(at).backgroundColor), below), [255, 255, 255]);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, box = element.getBoundingClientRect();
    if (!walker.currentNode.data.trim() || !element.checkVisibility({opacityProperty: true, visibilityProperty: true}))
      continue;
    if (box.width < 2 || box.height < 2 || element.closest("[disabled], script, option, .off-screen")) continue;
    const back = behind(element), words = over(parse(getComputedStyle(element).color), back);
    const [high, low] = [light(words), light(back)].sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) found.push(`${element.tagName}.${element.className} ${contrast.toFixed(1)} `
      + walker.currentNode.data.trim().slice(0, 30));
  }
  return [...new Set(found)].slice(0, 12);
}"""


def test_every_control_has_a_name(small):
    """For who hears the page."""
    nameless = """() => [...document.querySelectorAll("button, input, textarea, select, canvas, a[href]")]
      .filter((one) => one.checkVisibility() && !one.closest("[aria-hidden=true]"))
      .filter((one) => !one.getAttribute("aria-label") && !one.getAttribute("aria-labelledby") && !one.title
        && !one.textContent.trim() && !one.labels?.length)
      .map((one) => one.outerHTML.slice(0, 120))"""
    for view in (*VIEWS, "gang/default/waits"):
        small.go(f"#/{view}")
        small.page.wait_for_timeout(200)
        assert small.page.evaluate(nameless) == [], view


def test_a_narrow_screen_shows_it_too(served, look):
    looking = look(viewport={"width": 420, "height": 800}).open(served("small").address)
    for view in (*VIEWS, "gang/default/waits"):
        looking.go(f"#/{view}")
        looking.page.wait_for_timeout(200)
        wide = looking.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 421, f"{view} is {wide} wide"


def test_a_cluster_without_anything_says_what_to_do(look, tmp_path):
    file = clusters.write(tmp_path / "empty.json", [clusters.node("alone")])
    with Serving("ui", "-f", file, "--port", 0, home=tmp_path) as serving:
        looking = look().open(serving.address)
        for view in ("gangs", "queues", "timeline"):
            looking.go(f"#/{view}")
            expect(looking.part("empty").locator("visible=true").first).to_be_visible()


def test_an_address_of_nobody_says_so(small):
    with small.forgiving("404"):
        small.go("#/gang/default/nobody")
        expect(small.part("problem").or_(small.part("empty")).locator("visible=true").first).to_be_visible()
