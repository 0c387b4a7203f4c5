"""Keeps the house style honest: what is said in DESIGN and README is true of the tree."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from muster.cli.main import _COMMANDS
from muster.config import in_words, known_keys

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MODULES = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "bench").rglob("*.py"))]
PAGES = sorted(
    page for page in ROOT.rglob("*.md") if not any(part.startswith(".") for part in page.relative_to(ROOT).parts)
)
CORE = ("model", "api", "grouping", "snapshot", "plan", "decisions")

FUNCTION_LINES = 60
# path:function → why it may be longer. Keep this list short.
LONGER: dict[str, str] = {}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_every_module_opens_with_a_sentence(path):
    says = ast.get_docstring(parsed(path))
    assert says, "say in one or two sentences what this module is"
    assert re.search(r"[.?:]", says)


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_every_class_and_public_function_says_what_it_is(path):
    """Names that others use carry a docstring; commands have theirs as help text."""
    bare = [
        node.name
        for node in parsed(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert bare == []


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_rooms_have_honest_names(path):
    """No room for what has no other place."""
    words = {word for part in path.relative_to(ROOT).with_suffix("").parts for word in re.split(r"[_.]", part)}
    assert not words & {"util", "utils", "common", "helper", "helpers", "base", "manager", "misc", "shared"}


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_functions_are_short(path):
    long = [
        f"{relative(path)}:{node.name}"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES
    ]
    assert [name for name in long if name not in LONGER] == []


def test_exceptions_are_still_needed():
    """A reason for a long function goes when the function is short again."""
    for name, reason in LONGER.items():
        path, _, function = name.partition(":")
        assert reason
        lengths = [
            (node.end_lineno or 0) - node.lineno + 1
            for node in ast.walk(parsed(ROOT / path))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
        ]
        assert max(lengths, default=0) > FUNCTION_LINES


@pytest.mark.parametrize("path", [path for path in SOURCES if path.parts[len(ROOT.parts) + 2] in CORE], ids=relative)
def test_the_core_never_asks_for_the_time(path):
    """import-linter forbids the clock modules; datetime is needed as a type, its clock is not."""
    asked = {
        node.attr
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}
    }
    opened = {
        node.func.id
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"open", "print", "input"}
    }
    assert not asked | opened


# What the core may import from outside: nothing of it knows a clock, randomness, a log, a file or the network.
CORE_IMPORTS = {
    *("bisect", "collections", "contextlib", "copy", "dataclasses", "datetime", "difflib", "enum", "fractions"),
    *("functools", "hashlib", "heapq"),
    *("itertools", "json", "math", "operator", "re", "typing", "msgspec", "numpy", "yaml", "muster"),
}
# The catalog is part of the program as its modules are, and is read the way they are.
READS_ITS_OWN_DATA = {"src/muster/grouping/built_in.py": {"importlib"}}
# What of api the plan may see: trees of rows, no objects.
PLAN_IMPORTS = {"muster.model", "muster.api.once", "muster.api.tree", "muster.snapshot", "muster.plan", "muster.errors"}


def imports(path: Path) -> set[str]:
    """All modules that a file imports, with their full names."""
    found: set[str] = set()
    for item in ast.walk(parsed(path)):
        if isinstance(item, ast.Import):
            found.update(alias.name for alias in item.names)
        elif isinstance(item, ast.ImportFrom) and item.module:
            found.update({item.module, *(f"{item.module}.{alias.name}" for alias in item.names)})
    return found


@pytest.mark.parametrize("path", [path for path in SOURCES if path.parts[len(ROOT.parts) + 2] in CORE], ids=relative)
def test_the_core_imports_nothing_but_this(path):
    """An allow-list where import-linter can only forbid what somebody thought of."""
    outside = {name.partition(".")[0] for name in imports(path)}
    assert outside <= CORE_IMPORTS | READS_ITS_OWN_DATA.get(relative(path), set())
    assert not {name for name in imports(path) if name.startswith("numpy.random")}
    if path.parts[len(ROOT.parts) + 2] == "plan":
        ours = {name for name in imports(path) if name.startswith("muster.")}
        assert all(any(name.startswith(allowed) for allowed in PLAN_IMPORTS) for name in ours)


def test_every_folder_of_modules_is_a_package():
    """import-linter does not see a module in a folder without __init__.py."""
    folders = {path.parent for path in SOURCES}
    assert [folder for folder in folders if not (folder / "__init__.py").exists() and folder != ROOT / "src"] == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_relative_links_resolve(page):
    """Every link to a file, and to a heading in it, has something to point at."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        name, _, heading = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        if heading:
            assert heading in headings(file), target


def headings(page: Path) -> set[str]:
    """The anchors that a Markdown reader makes."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower().replace("`", "")).replace(" ", "-") for text in found}


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_commands_in_pages_exist(page):
    """What a page tells people to run is there: make targets and muster's commands."""
    text = page.read_text()
    blocks = [re.sub(r" #.*", "", block) for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)]
    code = "\n".join(blocks + re.findall(r"`([^`\n]+)`", text))
    for target in re.findall(r"\bmake ([a-z0-9-]+)", code):
        assert target in make_targets(), f"make {target}"
    for command in re.findall(r"(?:^|\W)muster ([a-z]+)\b", code):
        assert command in _COMMANDS, f"muster {command}"


def test_every_make_target_is_in_the_help():
    """`make help` lists every door; lint is a part of check."""
    said = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert make_targets() - said == {"lint"}
    assert {"setup", "demo", "test", "check", "e2e", "bench", "fix", "lock", "help"} <= said


def test_ci_runs_what_the_readme_says():
    readme = re.findall(r"^make test", (ROOT / "README.md").read_text(), re.MULTILINE)
    script = (ROOT / ".ci" / "run").read_text()
    assert readme
    assert "\nmake test\n" in script
    assert "\nmake lint\n" in script
    assert "\nmake e2e\n" in script


def test_the_reference_lists_every_setting_and_command():
    reference = (ROOT / "docs" / "reference.md").read_text()
    for key, default in known_keys().items():
        row = re.search(rf"^\| `{re.escape(key)}` \| `?([^|`]+)`? \|", reference, re.MULTILINE)
        assert row, key
        assert row[1].strip() == in_words(default)
    for command in _COMMANDS:
        assert f"| `{command}" in reference


def test_every_decision_is_listed():
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"\]\((\d{4}-[^)]+)\)", (folder / "README.md").read_text())
    assert listed == sorted(page.name for page in folder.glob("[0-9]*.md"))


def test_the_lock_names_versions_and_no_hosts():
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert not re.search(r"^(-i|--index|--extra-index|--find-links)", lock, re.MULTILINE)
    pinned = set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    assert {re.split(r"[><=]", name)[0] for name in wanted} <= pinned


def test_every_layer_of_the_design_has_its_contract():
    """The layers in pyproject.toml are the rooms of src/muster, and ARCHITECTURE.md shows all of them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [re.sub(r"[() ]", "", name) for layer in contracts[0]["layers"] for name in layer.split("|")]
    rooms = {path.name for path in (ROOT / "src" / "muster").iterdir() if (path / "__init__.py").exists()}
    assert rooms <= set(layers)
    shown = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    assert all(layer in shown for layer in layers)


def test_nothing_generated_or_personal_is_kept():
    """Tracked files hold no path of somebody's machine and no build product."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True).stdout.split("\0")
    assert "README.md" in tracked or not (ROOT / ".git").exists()
    assert not [name for name in tracked if re.search(r"(\.pyc|\.egg-info|/\.venv/|\.orig|~)$", name)]
    for name in filter(None, tracked):
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".yaml", ".lock", ""} and path.is_file():
            assert not re.search(r"/(home|root|Users)/\w", path.read_text(errors="replace")), name
