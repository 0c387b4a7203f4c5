"""docs/grouping.md is true: every transcript comes out as it stands there, and its tables leave nothing out."""

import re
import shutil
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import yaml

from muster.api import interface
from muster.grouping import annotations, metadata, segments
from muster.grouping.built_in import built_in_interfaces
from muster.grouping.language.expression import compile as compile_expression
from muster.grouping.language.limits import DEFAULT
from muster.grouping.language.refusals import FUNCTIONS
from muster.grouping.names import dns_label

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "grouping.md").read_text()
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A line that stands for any number of lines.
MORE = "…"


class Transcript(NamedTuple):
    """A command, what it prints, and the files that the page had the reader save before it."""

    command: str
    shown: str
    files: dict[str, str]


def transcripts(page):
    files = {}
    for language, text in BLOCK.findall(page):
        saved = re.match(r"# (\S+\.yaml)\n", text) if language == "yaml" else None
        if saved:
            files = {**files, saved[1]: text}
        elif text.startswith("$ "):
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                yield Transcript(command, shown, files)


def excerpts(page):
    """Parts of files that the page shows: `# of FILE`."""
    for language, text in BLOCK.findall(page):
        found = re.match(r"# of (\S+\.yaml)\n(.*)", text, re.DOTALL) if language == "yaml" else None
        if found:
            yield found[1], found[2]


def section(title):
    return re.search(rf"^##+ {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]


def rows(text):
    """The cells of all tables, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    heads = {index for index, line in enumerate(lines) if re.fullmatch(r"[|\s-]+", line)}
    kept = [line for index, line in enumerate(lines) if index not in heads and index + 1 not in heads]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in kept]


def matches(shown, printed):
    """Whether the output is what is shown, where a line … stands for any lines."""
    lines = [".*" if line == MORE else re.escape(line.rstrip()) + "\n" for line in shown.splitlines()]
    plain = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return re.fullmatch("".join(lines), plain, re.DOTALL) is not None


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The root of the repository as far as the page needs it, where the reader may save files."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("one", list(transcripts(PAGE)), ids=lambda one: one.command)
def test_a_transcript_is_true(muster, here, one):
    """What the page shows is what is printed: data first, then what is said about it."""
    for name, text in one.files.items():
        (here / name).write_text(text)
    name, *arguments = one.command.split()
    assert name == "muster"
    done = muster(*arguments)
    printed = done.out + done.err
    assert matches(one.shown, printed), printed


INTERFACES = [
    text for _, text in BLOCK.findall(PAGE) if "kind: ResourceInterface" in text and "# wrong.yaml" not in text
]


@pytest.mark.parametrize("text", INTERFACES)
def test_an_interface_of_the_page_is_valid(muster, text):
    assert muster("validate", "-f", "-", "-o", "json", stdin=text).json == []


def test_there_are_transcripts_of_every_step():
    """The ten minutes: the kind without an interface, flat, a tree, explained, finished, tested, refused, planned."""
    commands = [one.command for one in transcripts(PAGE)]
    assert len(commands) >= 8
    assert {command.split()[1] for command in commands} == {"group", "plan", "validate"}
    assert any("--test" in command for command in commands)
    assert any("--explain" in command for command in commands)


@pytest.mark.parametrize(("file", "text"), list(excerpts(PAGE)))
def test_an_excerpt_stands_in_its_file(file, text):
    assert text in (ROOT / file).read_text()


@pytest.mark.parametrize("one", list(transcripts(README)), ids=lambda one: one.command)
def test_a_transcript_of_the_readme_is_true(muster, monkeypatch, one):
    """There lines are broken to fit, and only data is shown."""
    monkeypatch.chdir(ROOT)
    printed = muster(*one.command.split()[1:]).out
    parts = [" ".join(part.split()) for part in re.split(rf"^{MORE}$", one.shown, flags=re.MULTILINE)]
    assert re.fullmatch(".*".join(map(re.escape, parts)), " ".join(printed.split())), printed


def test_every_kind_of_the_catalog_is_listed():
    """And no other; with Skip where it steps aside."""
    listed = {(kind, group): gang.startswith("Skip") for kind, group, gang in rows(section("The kinds that are known"))}
    catalog = {}
    for one in built_in_interfaces():
        group, version = one.target.group or "core", one.target.version
        catalog[one.target.kind, group if version == "*" else f"{group}/{version}"] = one.action == interface.SKIP
    assert listed == catalog


def test_every_kind_with_segments_is_listed():
    text = section("Annotations on the workload").partition("### Segments")[2]

    def is_cut(entry):
        return entry.segments is not None or any(is_cut(child) for child in getattr(entry, "children", ()))

    for one in built_in_interfaces():
        entries = [entry for template in one.templates for entry in (template, *template.entries)]
        assert any(is_cut(entry) for entry in entries) == (re.search(rf"\b{one.target.kind}\b", text) is not None)


def test_every_field_is_listed():
    structs = [
        *(interface.ResourceInterfaceSpec, interface.GangScheduling, interface.GroupTemplate, interface.Component),
        *(interface.Segments, interface.TopologyPaths, interface.PodClassifier, interface.MatchExpression),
        *(interface.Defaults, interface.Selection, interface.Reference, interface.Lookup, interface.KindReference),
    ]
    listed = " ".join(first for first, *_ in rows(section("Fields")))
    for struct in structs:
        for field in msgspec.structs.fields(struct):
            assert re.search(rf"\b{field.encode_name}\b", listed), f"{struct.__name__}.{field.encode_name}"
    assert all(f"`{operator}`" in section("Fields") for operator in interface.OPERATORS)


JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "uid": "u"},
    "spec": {"parallelism": 4, "completions": 4, "completionMode": "Indexed"},
}


@pytest.mark.parametrize("example", [first.strip("`") for first, *_ in rows(section("Annotations on the workload"))])
def test_an_annotation_does_something(muster, here, example):
    """The example of every annotation is accepted without a warning, and makes a difference."""
    key, _, value = example.partition(": ")
    value = value.strip('"')
    of_tree = ".root." in key
    file = "examples/grouping/assistant/service.yaml"
    document = yaml.safe_load((here / file).read_text()) if of_tree else JOB
    more = {} if "segment-topology" not in key else {segments.SIZE_ANNOTATION: "2"}
    if "topology" in key:
        more["kai.scheduler/topology-required-placement"] = "zone"
    found = []
    for notes in (more, {**more, key: value}):
        changed = {**document, "metadata": {**document["metadata"], "annotations": notes}}
        (here / "workload.yaml").write_text(yaml.safe_dump(changed))
        done = muster("group", "-f", "workload.yaml", "-f", "examples/grouping/interface.yaml", "-o", "json")
        assert (done.code, done.json["errors"], done.json["warnings"]) == (0, [], [])
        found.append([one["spec"] for one in done.json["podGroups"]])
    assert found[0] != found[1]


def test_every_annotation_is_listed():
    listed = [first for first, *_ in rows(section("Annotations on the workload"))]
    known = {f"kai.scheduler/{word}" for word in (*annotations.VERBS, *annotations._OF_ROOT)}
    known |= {segments.SIZE_ANNOTATION, segments.REQUIRED_ANNOTATION, segments.PREFERRED_ANNOTATION}
    known |= {metadata.PREEMPTIBILITY, metadata.DELAY_ANNOTATION, metadata.GRACE_ANNOTATION}
    known |= {metadata.INTERFACE_ANNOTATION, metadata.SKIP_ANNOTATION, annotations.TOPOLOGY_ANNOTATION}
    assert [name for name in sorted(known) if not any(name in one for one in listed)] == []


LANGUAGE, _, RECIPES = section("Expressions").partition("| to get | write |")


@pytest.mark.parametrize("text", [last.strip("`") for _, last in rows(RECIPES)])
def test_a_recipe_is_an_expression(text):
    assert compile_expression(text).text == text


def test_every_function_is_listed():
    (listed,) = [last.strip("`") for first, last in rows(LANGUAGE) if first == "functions"]
    assert sorted([*listed.split(), "not"]) == sorted(FUNCTIONS)


def test_the_limits_are_those_of_the_configuration():
    text = section("Expressions")
    for limit in msgspec.structs.asdict(DEFAULT).values():
        assert f"{limit:,}" in text


def test_a_name_on_the_page_comes_out_so():
    before, after = re.search(r"`(\S+)` becomes `(\S+)`", section("Names")).groups()
    assert dns_label(before) == after
