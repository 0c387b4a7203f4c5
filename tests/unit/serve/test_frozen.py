"""The page in one file: what it may do is what is in it, and what it shows can't end the block that it stands in."""

import base64
import hashlib
import json
import re
import subprocess

import pytest
from playwright._impl._driver import compute_driver_executable

from muster.serve.page.assets import STATIC
from muster.serve.page.frozen import bundle, frozen
from muster.serve.page.history import History
from small_cluster import gang, node, pod
from unit.serve.scenes import HERE, Stage

INDEX = """<!doctype html>
<html lang="en"><head>
<meta charset="utf-8">
<title>muster</title>
<link rel="stylesheet" href="style.css">
<link rel="modulepreload" href="dom.js">
<script type="module" src="main.js"></script>
</head><body><main></main></body></html>
"""
MODULES = {
    "index.html": INDEX,
    "style.css": "body { color: red }\n",
    "main.js": 'import { h as make,\n  later } from "./dom.js";\nimport * as all from "./dom.js";\n'
    'import "./side.js";\n'
    'const lazy = () => import("./lazy.js");\nmake("</script><!--");\n',
    "dom.js": "export function h(tag) {}\nexport async function later() {}\nexport const A = 1;\nconst b = 2;\n"
    "export { b };\n",
    "side.js": "window.side = 1;\n",
    "lazy.js": 'import { h } from "./dom.js";\nexport class Panel {}\n',
}


@pytest.fixture
def static(tmp_path):
    def write(**changes):
        for name, text in {**MODULES, **{key.replace("_", "."): value for key, value in changes.items()}}.items():
            (tmp_path / name).write_text(text)
        return tmp_path

    return write


def test_modules_become_one_script(static):
    found = bundle("main.js", static())
    assert not re.search(r"^(import|export)\b", found, re.MULTILINE)
    for line in (
        'const { h: make,\n  later } = need("dom.js");',
        'const all = need("dom.js");',
        'need("side.js");',
        'const lazy = () => Promise.resolve().then(() => need("lazy.js"));',
        "h: {enumerable: true, get: () => h}",
        "b: {enumerable: true, get: () => b}",
        "\nclass Panel {}\n",
        "\nasync function later() {}\n",
    ):
        assert line in found
    assert {f'"{name}": (gives)' in found for name in MODULES if name.endswith(".js")} == {True}
    assert found.endswith('need("main.js");\n')


@pytest.mark.parametrize(
    "line",
    [
        "export default 3;",
        "export let changing = 1;",
        "export const { a } = {};",
        'export * from "./dom.js";',
        'export { h as other } from "./dom.js";',
        "export { a as b };",
        'import plain from "./dom.js";',
        'import { h } from "https://example.com/x.js";',
        "const here = import.meta.url;",
        "const found = import(name);",
    ],
)
def test_a_form_that_is_not_known_is_refused(static, line):
    """Rather than frozen into something else."""
    with pytest.raises(AssertionError, match=r"side\.js"):
        bundle("main.js", static(side_js=line + "\n"))


def test_only_what_is_in_the_file_may_run(static):
    """The policy names the script and the style by what is in them; nothing can be fetched."""
    text = frozen({"frame": {}}, static=static())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1].replace("&#x27;", "'")
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    scripts, styles = (
        re.findall(r"<script type=module>(.*?)</script>", text, re.DOTALL),
        re.findall(r"<style>(.*?)</style>", text, re.DOTALL),
    )
    for source, found in (("script-src", scripts), ("style-src", styles)):
        digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in found]
        assert parts[source] == " ".join(f"'sha256-{one}'" for one in digests)
        assert len(found) == 1
    assert parts["default-src"] == "'none'"
    assert "connect-src" not in parts
    assert not re.search(r"<link|\ssrc=", text)
    assert text.index("Content-Security-Policy") < text.index("<style>") < text.index("<script")


HOSTILE = ["</script><script>alert(1)</script>", "<!--<script>", "\u2028\u2029", "]]>", "'\"`\\", "\x00\x7f", "\ud7ff"]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_shown_can_not_get_out(static, name):
    shown = {"frame": {"gangs": {name: {"message": name}}}}
    text = frozen(shown, title=name, static=static())
    block = re.search(r'<script type="application/json" id="frozen">(.*?)</script>', text, re.DOTALL)[1]
    assert "<" not in block
    assert json.loads(block) == shown
    assert text.count("<script") == text.count("</script") == 2


def test_the_page_that_is_served_can_be_frozen():
    """Every module of it, with the forms that are known."""
    text = frozen({"frame": {}})
    modules = [one.name for one in STATIC.iterdir() if one.name.endswith(".js")]
    assert modules
    for name in modules:
        assert f'"{name}": (gives)' in text, f"{name} is needed by nobody"


def test_a_decision_of_one_gang_is_that_of_the_server():
    """A file holds the decision of everybody; what the page takes out of it for one gang is what a server would say."""
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    history = History(HERE)
    stage = Stage(
        *(node("n", 2), high, gang("low", minMember=2), *(pod(f"low-{i}", "low", nodeName="n") for i in range(2))),
        *(
            gang("top", priorityClassName="high"),
            pod("top-0", "top", gpus=2),
            node("m", 1),
            gang("new"),
            pod("new-0", "new"),
        ),
    )
    history.note(stage.cycle())
    everybody = history.decision(1)
    assert everybody["evictions"]
    assert everybody["bindings"]
    gangs = list(history.timeline()["lanes"])
    held = {"frame": {"version": 1}, "decisions": {"1": everybody}}
    script = f"""import {{heldAnswer}} from {json.dumps(STATIC.joinpath("delta.js").as_uri())};
      const ask = (gang) => heldAnswer({json.dumps(held)}, `decisions/1?gang=${{encodeURIComponent(gang)}}`);
      console.log(JSON.stringify({json.dumps(gangs)}.map(ask)));"""
    executable, _ = compute_driver_executable()
    command = [executable, "--input-type=module", "-e", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [history.decision(1, gang) for gang in gangs]
