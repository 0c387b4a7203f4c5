"""Documents that others write are read back as they were, and arbitrary bytes never break the reader."""

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.api import documents
from muster.api.scalars import plain_scalar
from muster.api.writing import write_yaml
from muster.errors import UnreadableInput

# PyYAML writes YAML 1.1: a text such as 1e3 or 0o17 is a number in YAML 1.2, and stands there without quotes.
words = st.text(max_size=12).filter(lambda text: isinstance(plain_scalar(text), str) or text == "")
texts = st.one_of(
    words, st.sampled_from(["yes", "null", "true", "---", "- a", "a: b", "#", "2026-01-31", "007", "0x", "~"])
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), texts)
data = st.recursive(
    scalars,
    lambda below: st.one_of(st.lists(below, max_size=4), st.dictionaries(texts, below, max_size=4)),
    max_leaves=12,
)
objects = st.dictionaries(texts, data, min_size=1, max_size=4)

# Pieces that mean something to a YAML or JSON parser, so that random sequences of them reach far into it.
PIECES = re.findall(
    r"\S+",
    """
--- ... { } [ ] , : ? - # % & * ! | > ' " \\ ~ = << a 1 -1 1.5 1e999 true null yes kind List [[[[ {{{{ "a" 'b' "a":
&a *a !!str !!binary !x %YAML \\ud800 \\x00 NaN Infinity 0o7 0x1 a: - a? |- >+ // <a> @ `
""",
)
SPACES = [" ", "\n", "\n  ", "\r\n", "\r", "\t", "\x00", "\x85", "\u2028", "\ufeff", "\ud7ff", "😀"]


def plain(found: list[documents.Document]) -> list[tuple[Any, list[documents.Problem]]]:
    """Values and problems; a value's repr tells 1 from 1.0 and True, and equals itself where it holds a NaN."""
    return [(repr(document.value), document.problems) for document in found]


@given(st.lists(data, min_size=1, max_size=4), st.booleans())
def test_yaml_is_read_back(values: list[Any], flow: bool) -> None:
    """What a YAML library writes is what is read, document by document."""
    text = yaml.safe_dump_all(values, sort_keys=False, explicit_start=True, default_flow_style=flow)
    assert plain(documents.read(text.encode())) == [(repr(value), []) for value in values]


@given(st.lists(objects, min_size=1, max_size=3), st.sampled_from([None, 0, 2]), st.booleans())
def test_json_is_read_back(values: list[Any], indent: int | None, ascii_only: bool) -> None:
    """What a JSON library writes is what is read, one object after the other, and between markers."""
    written = [json.dumps(value, indent=indent, ensure_ascii=ascii_only) for value in values]
    for between in ("\n", "", "\n---\n"):
        found = documents.read(between.join(written).encode())
        assert plain(found) == [(repr(value), []) for value in values]
        assert [document.number for document in found] == list(range(1, len(values) + 1))


@given(st.lists(data, min_size=1, max_size=4))
def test_what_we_write_is_read_back_by_all(values: list[Any]) -> None:
    """What muster writes means the same to itself and to a reader of YAML 1.1."""
    text = write_yaml(values)
    assert plain(documents.read(text.encode())) == [(repr(value), []) for value in values]
    assert repr(list(yaml.safe_load_all(text))) == repr(values)


@given(st.lists(objects, max_size=2), st.lists(objects, max_size=2), st.sampled_from(["[", "a: b: c", "*x", "{"]))
def test_one_bad_document_costs_no_other(before: list[Any], after: list[Any], bad: str) -> None:
    """Whatever stands before and behind a document that can't be read is read."""
    chunks = [*(yaml.safe_dump(value, sort_keys=False) for value in before), bad, *map(json.dumps, after)]
    found = documents.read("\n---\n".join(chunks).encode())
    assert [repr(document.value) for document in found] == [*map(repr, before), "None", *map(repr, after)]


def checked(source: bytes) -> None:
    found = documents.read(source)
    lines = source.count(b"\n") + 1
    assert [document.number for document in found] == list(range(1, len(found) + 1))
    assert [document.line for document in found] == sorted(document.line for document in found)
    assert all(1 <= document.line <= lines for document in found)
    assert all("".join(problem[:3]).isprintable() for document in found for problem in document.problems)


@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(["", *SPACES])), max_size=24))
def test_any_text_is_read_or_said_to_be_wrong(pieces: list[tuple[str, str]]) -> None:
    """Documents are numbered in order, their lines are in the file, and every problem can be printed."""
    checked("".join(piece + space for piece, space in pieces).encode())


@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(["", *SPACES])), max_size=24))
def test_any_json_is_read_or_said_to_be_wrong(pieces: list[tuple[str, str]]) -> None:
    """The same for what starts like JSON, before and after a document that is."""
    text = "".join(piece + space for piece, space in pieces)
    checked(f'{{"a": 1}} {text}'.encode())
    checked(f'{{{text} {{"a": 1}}'.encode())


@given(st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode)))
def test_any_bytes_are_read_or_refused(source: bytes) -> None:
    """Bytes are documents, or UnreadableInput when they are no UTF-8, and nothing else."""
    try:
        source.decode()
    except UnicodeDecodeError:
        with pytest.raises(UnreadableInput):
            documents.read(source)
    else:
        checked(source)
