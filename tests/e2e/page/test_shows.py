"""What the page answers: what runs where, what waits, why, and what would help."""

import re

from playwright.sync_api import expect

from e2e.page.clusters import newcomer, pusher


def test_the_map_has_every_node(small):
    assert small.drawn(8) == 8
    frame = small.api("/api/frame")
    for name, facts in frame["nodes"].items():
        box = small.where(name)
        assert box["w"] > 0, name
        assert box["h"] > 0, name
        assert facts["slots"] == 8


def test_a_domain_is_a_box_around_its_nodes(small):
    """Nodes of one rack are nearer to each other than to those of another zone, and no two overlap."""
    boxes = {name: small.where(name) for name in small.api("/api/frame")["nodes"]}
    for name, one in boxes.items():
        for other, two in boxes.items():
            apart = (
                one["x"] + one["w"] <= two["x"] + 0.5
                or two["x"] + two["w"] <= one["x"] + 0.5
                or one["y"] + one["h"] <= two["y"] + 0.5
                or two["y"] + two["h"] <= one["y"] + 0.5
            )
            assert name == other or apart, (name, other)

    def distance(one, two):
        return abs(boxes[one]["x"] - boxes[two]["x"]) + abs(boxes[one]["y"] - boxes[two]["y"])

    assert distance("n00", "n01") < distance("n00", "n31")


def test_every_gang_is_in_the_list(small):
    small.go("#/gangs")
    for name in ("serve", "holds", "more", "waits"):
        expect(small.gang_row(f"default/{name}")).to_be_visible()
    expect(small.gang_row("default/waits")).to_contain_text("waits")


def test_the_list_is_filtered_by_the_search_box(small):
    small.go("#/gangs")
    expect(small.part("gang-row")).to_have_count(4)
    small.press("/")
    small.page.keyboard.type("wai")
    expect(small.part("gang-row")).to_have_count(1)
    expect(small.gang_row("default/waits")).to_be_visible()
    small.part("search").fill("")
    expect(small.part("gang-row")).to_have_count(4)


def test_a_gang_is_selected_in_the_list(small):
    small.go("#/gangs")
    small.gang_row("default/serve").click()
    expect(small.map).to_have_attribute("data-selected", "default/serve")
    assert small.hash.startswith("#/gang/default/serve")


def test_a_gang_is_selected_on_the_map(small):
    small.point_at("n10", click=True)
    expect(small.map).to_have_attribute("data-selected", "default/holds")
    assert small.hash.startswith("#/gang/default/holds")


def test_the_nodes_of_a_selected_gang_stand_out(small):
    """Its own keep their colour, the rest fades: seen in the pixels of a node of its own and of another gang."""
    before = {name: colours(small, name) for name in ("n00", "n10")}
    small.go("#/gang/default/serve")
    expect(small.map).to_have_attribute("data-selected", "default/serve")
    small.page.wait_for_timeout(400)
    after = {name: colours(small, name) for name in ("n00", "n10")}
    assert strength(after["n00"]) > 1.5 * strength(after["n10"])
    assert strength(after["n10"]) < strength(before["n10"])


def colours(looking, node):
    """The pixels of a node's box as somebody sees them, as [r, g, b] of every fourth."""
    read = """(node) => {
      const canvas = document.querySelector("[data-testid=map]"), {x, y, w, h} = window.musterMap.where(node);
      const stage = canvas.getBoundingClientRect(), scale = canvas.width / stage.width;
      const seen = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {willReadFrequently: true});
      seen.fillStyle = "white";
      seen.fillRect(0, 0, canvas.width, canvas.height);
      for (const one of canvas.parentElement.querySelectorAll("canvas")) seen.drawImage(one, 0, 0);
      const box = [x - stage.left, y - stage.top, w, h].map((one) => Math.round(one * scale));
      const data = seen.getImageData(...box).data;
      const found = [];
      for (let at = 0; at < data.length; at += 16) found.push([data[at], data[at + 1], data[at + 2]]);
      return found;
    }"""
    return looking.page.evaluate(read, node)


def strength(pixels):
    """How colourful they are in the mean."""
    return sum(max(one) - min(one) for one in pixels) / len(pixels)


def test_the_tree_of_a_gang(small):
    small.go("#/gang/default/serve")
    row = small.part("tree-row").first
    expect(row).to_be_visible()
    expect(row).to_contain_text("4")
    expect(row).to_contain_text("rack-0")


def test_a_waiting_gang_explains_itself(small):
    """The rung that fails, the nearest domains as bars, and tested remedies with the command to copy."""
    small.go("#/gang/default/waits")
    expect(small.part("check").first).to_be_visible()
    goods = [one.get_attribute("data-good") for one in small.part("check").all()]
    assert goods.count("false") == 1
    assert goods.index("false") == len(goods) - 1
    expect(small.part("near")).to_have_count(3)
    expect(small.part("near").first).to_contain_text("rack-1")
    expect(small.part("near").first).to_contain_text("3")
    expect(small.part("near").first).to_contain_text("4")
    remedies = small.part("remedy")
    expect(remedies).to_have_count(3)
    expect(remedies.first).to_contain_text("kubectl uncordon n31")
    expect(small.page.get_by_text("counted twice").first).to_be_visible()


def test_a_command_is_copied(served, look):
    looking = look(permissions=["clipboard-read", "clipboard-write"]).open(served("small").address)
    looking.go("#/gang/default/waits")
    remedy = looking.part("remedy").first
    remedy.get_by_role("button").first.click()
    expect(remedy.get_by_text(re.compile("copied", re.IGNORECASE)).first).to_be_visible()
    assert looking.page.evaluate("navigator.clipboard.readText()") == "kubectl uncordon n31"


def test_what_if_shows_a_ghost_and_changes_nothing(small):
    before = small.api("/api/frame")
    small.go("#/whatif")
    small.part("whatif-text").fill(newcomer())
    small.part("whatif-go").click()
    expect(small.part("whatif-result")).to_contain_text("newcomer")
    expect(small.map).to_have_attribute("data-ghosts", "2")
    assert small.api("/api/frame") == before
    assert "default/newcomer" not in before["gangs"]
    small.part("whatif-clear").click()
    expect(small.map).to_have_attribute("data-ghosts", "0")


def test_a_manifest_can_be_dropped(small):
    """As a file, from a folder."""
    small.go("#/whatif")
    drop = """(box, text) => {
      const dropped = new DataTransfer();
      dropped.items.add(new File([text], "newcomer.yaml", {type: "application/yaml"}));
      for (const kind of ["dragenter", "dragover", "drop"])
        box.dispatchEvent(new DragEvent(kind, {dataTransfer: dropped, bubbles: true, cancelable: true}));
    }"""
    small.part("whatif-text").evaluate(drop, newcomer())
    expect(small.part("whatif-result")).to_contain_text("newcomer")
    expect(small.map).to_have_attribute("data-ghosts", "2")


def test_what_if_names_who_would_go(small):
    small.go("#/whatif")
    small.part("whatif-text").fill(pusher())
    small.part("whatif-go").click()
    result = small.part("whatif-result")
    expect(result).to_contain_text("holds")
    expect(result).to_contain_text("preempt")
    expect(small.map).to_have_attribute("data-ghosts", "4")


def test_what_if_says_what_is_wrong_with_a_manifest(small):
    small.go("#/whatif")
    for text in ("kind: [", "just words", "apiVersion: v1\nkind: Unheard\nmetadata: {name: x}\n"):
        small.part("whatif-text").fill(text)
        with small.forgiving(r"status of 4\d\d"):
            small.part("whatif-go").click()
            expect(small.part("whatif-result").or_(small.part("problem")).first).to_be_visible()
    expect(small.map).to_have_attribute("data-ghosts", "0")


def test_queues(small):
    small.go("#/queues")
    rows = small.part("queue-row")
    expect(rows).to_have_count(3)
    training = rows.filter(has_text="training")
    expect(training).to_contain_text("24")
    expect(training).to_contain_text("22")
    expect(small.page.get_by_text("waits").first).to_be_visible()


IN_SIGHT = """(node) => {
  const {x, y, w, h} = window.musterMap.where(node);
  const {left, right, top, bottom} = document.querySelector("[data-testid=map]").getBoundingClientRect();
  return x + w / 2 > left && x + w / 2 < right && y + h / 2 > top && y + h / 2 < bottom;
}"""


def test_a_gang_that_is_chosen_comes_into_sight(small):
    """Whoever looks at another corner of the map sees the gang that they choose, and not a faded map."""
    small.go("#/map")
    corner = small.page.evaluate("() => window.musterMap.where('n31')")
    small.page.mouse.move(corner["x"] + corner["w"] / 2, corner["y"] + corner["h"] / 2)
    for _ in range(4):
        small.page.mouse.wheel(0, -400)
    small.page.wait_for_function(f"() => !({IN_SIGHT})('n00')")
    small.go("#/gang/default/serve")
    small.page.wait_for_function(f"() => ({IN_SIGHT})('n00')")
