"""What the browser loads: little, all of it ours, and all of it in the package."""

import gzip
import re
from pathlib import Path

import pytest

from muster.serve.page.assets import STATIC

ROOT = Path(__file__).parents[3]
FILES = {one.name: one.read_text(encoding="utf-8") for one in STATIC.iterdir()}
IMPORT = re.compile(r'^import\s[^"]*"\./([\w.-]+)"', re.MULTILINE)
LATER = re.compile(r'\bimport\("\./([\w.-]+)"\)')
# Names of XML's vocabularies: nothing is fetched from there.
VOCABULARIES = ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml")
FIRST_BYTES, ALL_BYTES = 60_000, 92_000


def loaded(*wanted, later=False):
    """What index.html loads, these modules, and all that they need; `later`: also what is loaded when it is wanted."""
    found = {"index.html", *re.findall(r'(?:href|src)="([\w.-]+)"', FILES["index.html"]), *wanted}
    waiting = [name for name in found if name.endswith(".js")]
    while waiting:
        text = FILES[waiting.pop()]
        for name in [*IMPORT.findall(text), *(LATER.findall(text) if later else ())]:
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


@pytest.mark.parametrize(
    ("names", "most"),
    [
        pytest.param(loaded("map.js"), FIRST_BYTES, id="until the map is there"),
        pytest.param(loaded(later=True), ALL_BYTES, id="with every view"),
    ],
)
def test_the_page_is_small(names, most):
    """Compressed as it is sent."""
    sizes = {name: len(gzip.compress(FILES[name].encode())) for name in names}
    assert sum(sizes.values()) < most, sorted(sizes.items(), key=lambda one: -one[1])


def test_every_file_is_used():
    assert set(FILES) == loaded(later=True)


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_is_fetched_from_elsewhere(name):
    """No address of others, and nothing of others: what is vendored would need its licence and checksum beside it."""
    text = FILES[name]
    for vocabulary in VOCABULARIES:
        text = text.replace(vocabulary, "")
    assert not re.search(r"\b(?:https?|wss?)://(?!127\.0\.0\.1|localhost)|@import|\burl\((?!data:|#)", text), name
    assert not re.search(r"copyright|licen[cs]ed? under|@license|sourceMappingURL", text, re.IGNORECASE), name


@pytest.mark.parametrize("name", sorted(name for name in FILES if name.endswith((".js", ".html"))))
def test_text_is_never_markup(name):
    """Whatever a cluster says becomes text, never elements, code or a style sheet."""
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|setHTML|DOMParser|document\.write|srcdoc"
        r"|\beval\b|new Function|cssText|insertRule|setAttribute\(\s*[\"'](?:style|on)|javascript:"
        r"|\s(?:style|on\w+)=\"|<style|document\.cookie|postMessage"
    )
    found = re.search(forbidden, FILES[name])
    assert found is None, f"{name}: {found and found[0]}"


def test_modules_are_small_rooms():
    for name, text in FILES.items():
        lines = text.splitlines()
        assert len(lines) <= 500, name
        assert max(map(len, lines)) <= 120 or name == "index.html", name


def test_the_pictures_of_the_readme_are_there():
    """All of them, light and dark, none that nobody sees, and none that is heavy. `make pictures` makes them."""
    wanted = set(re.findall(r'docs/pictures/([\w-]+\.png)"', (ROOT / "README.md").read_text(encoding="utf-8")))
    there = {file.name: file.stat().st_size for file in (ROOT / "docs" / "pictures").iterdir()}
    assert wanted == set(there) != set()
    assert all(name.replace("-light", "-dark") in wanted for name in wanted)
    assert max(there.values()) < 250_000
