"""Bytes become documents: what is read, what is refused, and that one bad document never costs another."""

import math

import pytest

from muster.api.documents import Document, Limits, Problem, child_path, read, shown
from muster.api.scalars import plain_scalar
from muster.errors import UnreadableInput

KEEP_ONE = "keep one"
SPLIT = "write the values out, or split the document"
MERGE, MERGE_HINT = "<< takes one alias of a mapping", "write <<: *name, or write the entries out"
A, X = [1, {"b": "t"}], {"b": 1, "c": 2}
# Each line repeats the one above ten times.
BILLION = b"a: &a [x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (n, n, b", ".join([b"*%c" % (n - 1)] * 10)) for n in range(98, 108)
)
TOO_DEEP = "no Kubernetes object needs that"


def values(data: bytes, limits: Limits | None = None) -> list[object]:
    """The values of documents of which none has a problem."""
    found = read(data, limits)
    assert [document.problems for document in found] == [[]] * len(found)
    return [document.value for document in found]


def only(data: bytes, limits: Limits | None = None) -> Document:
    [document] = read(data, limits)
    return document


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"a: 1", [{"a": 1}], id="one"),
        pytest.param(b"", [], id="nothing"),
        pytest.param(b" \n\t\n", [], id="white-space"),
        pytest.param(b"# only a comment", [], id="comment"),
        pytest.param(b"---\n---\n# x\n---\na: 1\n---\n", [{"a": 1}], id="empty-ones-do-not-count"),
        pytest.param(b"--- # x\na: 1\n--- # y\nb: 2", [{"a": 1}, {"b": 2}], id="comment-after-the-marker"),
        pytest.param(b"--- {a: 1}\n---\tb", [{"a": 1}, "b"], id="value-after-the-marker"),
        pytest.param(b"a: 1\n---\nb: 2\n...\n", [{"a": 1}, {"b": 2}], id="dots-at-the-end"),
        pytest.param(b"a: 1\n...\nb: 2\n...\n---\nc: 3", [{"a": 1}, {"b": 2}, {"c": 3}], id="dots-between"),
        pytest.param(b"%YAML 1.2\n---\na: 1\n...\n%YAML 1.2\n---\nb: 2", [{"a": 1}, {"b": 2}], id="directives"),
        pytest.param(b"a: |\n  ---\n  ...\n  x\n", [{"a": "---\n...\nx\n"}], id="markers-in-a-block"),
        pytest.param(b"a: ---\nb: '---'\n----: 1", [{"a": "---", "b": "---", "----": 1}], id="dashes-as-text"),
        pytest.param(b"a: 1\r\n---\r\nb: |\r\n  x\r\n  y\r\n", [{"a": 1}, {"b": "x\ny\n"}], id="crlf"),
        pytest.param(b"\xef\xbb\xbfa: 1", [{"a": 1}], id="bom"),
        pytest.param(b'\xef\xbb\xbf{"a": 1}', [{"a": 1}], id="bom-before-json"),
        pytest.param("ä: ö 😀".encode(), [{"ä": "ö 😀"}], id="unicode"),
        pytest.param(b"a: &x 1\nb: &y {c: 2}", [{"a": 1, "b": {"c": 2}}], id="an-anchor-alone-is-harmless"),
        pytest.param(b"a: &x [1, {b: t}]\nc: *x\nd: [*x]", [{"a": A, "c": A, "d": [A]}], id="aliases"),
        pytest.param(b"a: &x 1\nb: &x 2\nc: *x", [{"a": 1, "b": 2, "c": 2}], id="the-last-anchor-counts"),
        pytest.param(b"a: &x {b: &y t}\nc: *y", [{"a": {"b": "t"}, "c": "t"}], id="an-anchor-inside-of-another"),
        pytest.param(b"a: &x {b: 1, c: 2}\nd: {c: 3, <<: *x}", [{"a": X, "d": {"c": 3, "b": 1}}], id="merge"),
        pytest.param(b"a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", [{"a": X, "d": {"c": 3, "b": 1}}], id="merge-first"),
        pytest.param(b'"<<": 1', [{"<<": 1}], id="a-quoted-key-merges-nothing"),
        pytest.param(
            b"a: !!str 1\nb: !!int 2\nc: !!map {}\nd: !!seq []", [{"a": "1", "b": 2, "c": {}, "d": []}], id="tags"
        ),
        pytest.param(b"'1': a\n\"true\": b\n'': c", [{"1": "a", "true": "b", "": "c"}], id="quoted-keys"),
        pytest.param(b"yes: on\nno: off\ny: n", [{"yes": "on", "no": "off", "y": "n"}], id="words-of-yaml-1.1"),
        pytest.param(b"a: 'true'\nb: \"1\"\nc: |-\n  1", [{"a": "true", "b": "1", "c": "1"}], id="quoted-is-text"),
        pytest.param(b"{a: 1, b: [x, y]}", [{"a": 1, "b": ["x", "y"]}], id="flow-style-is-no-json"),
        pytest.param(b'{"a": 1,}', [{"a": 1}], id="flow-style-with-a-comma"),
        pytest.param(b'{"a": 1}', [{"a": 1}], id="json"),
        pytest.param(b'{"a": 1}{"b": 2}\n \t{"c": 3}', [{"a": 1}, {"b": 2}, {"c": 3}], id="json-stream"),
        pytest.param(b'{"a": 1}\n---\n{"b": 2}', [{"a": 1}, {"b": 2}], id="json-between-markers"),
        pytest.param(b'a: 1\n---\n{"b": "\\ud83d\\ude00"}', [{"a": 1}, {"b": "😀"}], id="json-after-yaml"),
        pytest.param(b'# x\n{"a": 1}\n# y\n{"b": 2}\n# {', [{"a": 1}, {"b": 2}], id="comments-around-json"),
        pytest.param(b"---{a: 1}", [{"---{a": "1}"}], id="no-marker-without-a-space"),
    ],
)
def test_values(data: bytes, expected: list[object]) -> None:
    """Every document is there once, in order, and means what YAML 1.2 or JSON says."""
    assert values(data) == expected
    assert [document.number for document in read(data)] == list(range(1, len(expected) + 1))


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        pytest.param(b"a: 1\n---\nb: 2\n\n---\nc: 3", [1, 2, 5], id="yaml"),
        pytest.param(b"\n\n---\n\n---\na: 1", [5], id="after-empty-ones"),
        pytest.param(b'{"a":\n1}\n{"b": 2}\n\n{"c": 3}', [1, 3, 5], id="json"),
        pytest.param(b'a: 1\n---\n\n{"b": 2}\n{"c": 3}', [1, 4, 5], id="both"),
    ],
)
def test_lines(data: bytes, lines: list[int]) -> None:
    """A document knows the line on which it starts."""
    assert [document.line for document in read(data)] == lines


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((word, word) for word in ("yes", "No", "on", "OFF", "y", "nULL", "tRUE", "none", "nil")),
        *((word, word) for word in ("2026-01-31", "2026-01-31T12:00:00Z", "12:30", "1:30:00", "=", "<<")),
        *((word, int(word)) for word in ("0", "-0", "+7", "42", "-17", "1" + "0" * 30)),
        *((word, word) for word in ("00", "007", "-012", "08.5", "0123e4", "1_000", "0b11", "0x", "0o8", "-0x1")),
        *((word, int(word, 0)) for word in ("0x1F", "0xffffffffffffffff", "0o17")),
        *((word, float(word)) for word in ("1.5", "-.5", "+0.25", "1.", "1e3", "1E-3", "0.0", "12.5e+03")),
        *((word, word) for word in (".", "-", "e3", "1e", "1.5.2", "+", "500m", "8Gi", "9" * 41, "1e12345")),
        *((word, math.inf) for word in (".inf", ".Inf", "+.INF", "1e9999")),
        ("-.inf", -math.inf),
        *((word, word) for word in ("inf", "nan", "NaN", "Infinity", "-inf")),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_plain_scalars(text: str, value: object) -> None:
    """Unquoted words mean what YAML 1.2 says; leading zeros, dates and the words of YAML 1.1 stay text."""
    found = plain_scalar(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("data", [b"a: .nan", b"a: .NaN", b'{"a": NaN}'], ids=repr)
def test_nan(data: bytes) -> None:
    """Not a number is a number that no check can compare: it is read, and refused by type later."""
    [value] = values(data)
    assert math.isnan(value["a"])


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(
            b"a: &x 1\n---\nb: *x",
            Problem("", "line 3: the alias *x repeats nothing", "write &x at a value above it"),
            id="alias of another document",
        ),
        pytest.param(
            b"a: &x [*x]",
            Problem("", "line 1: the alias *x is inside of the value that it repeats", "write &x at a value above it"),
            id="alias in a circle",
        ),
        pytest.param(
            BILLION, Problem("", "line 6: aliases repeat more than 100,000 values", SPLIT), id="billion laughs"
        ),
        pytest.param(
            b"a: &x " + b"t" * 200_000 + b"\nb: [" + b"*x, " * 40 + b"]",
            Problem("", "line 2: aliases repeat more than 100,000 values", SPLIT),
            id="a long text often",
        ),
        pytest.param(
            b"a: &x " + b"[" * 60 + b"]" * 60 + b"\nb: " + b"[" * 50 + b"*x" + b"]" * 50,
            Problem("", "line 2: nested more than 100 levels deep", "no Kubernetes object needs that"),
            id="deep by an alias",
        ),
        pytest.param(b"<<: {a: 1}", Problem("", f"line 1: {MERGE}", MERGE_HINT), id="merge of no alias"),
        pytest.param(b"a: &x {}\nb: {<<: [*x]}", Problem("", f"line 2: {MERGE}", MERGE_HINT), id="merge of a list"),
        pytest.param(b"a: &x {}\nb: {<<: *x, <<: *x}", Problem("", f"line 2: {MERGE}", MERGE_HINT), id="two merges"),
        pytest.param(b"a: &x 1\nb: {<<: *x}", Problem("", f"line 2: {MERGE}", MERGE_HINT), id="merge of a number"),
        pytest.param(
            b"a:\n  b: !!binary aGk=",
            Problem("", 'line 2: the tag "tag:yaml.org,2002:binary" is not allowed', "write plain data"),
            id="binary",
        ),
        pytest.param(
            b"a: !!python/object/apply:os.system ['true']",
            Problem(
                "",
                'line 1: the tag "tag:yaml.org,2002:python/object/apply:os.system" is not allowed',
                "write plain data",
            ),
            id="python-object",
        ),
        pytest.param(
            b"a: !secret x", Problem("", 'line 1: the tag "!secret" is not allowed', "write plain data"), id="own-tag"
        ),
        pytest.param(
            b"!!set {a: }",
            Problem("", 'line 1: the tag "tag:yaml.org,2002:set" is not allowed', "write plain data"),
            id="set",
        ),
        pytest.param(b"1: a", Problem("", "line 1: the key 1 is not text", "put the key in quotes"), id="number-key"),
        pytest.param(
            b"a: {true: b}", Problem("", "line 1: the key true is not text", "put the key in quotes"), id="key"
        ),
        pytest.param(b"~: a", Problem("", "line 1: the key null is not text", "put the key in quotes"), id="null-key"),
        pytest.param(
            b"? [a]\n: b", Problem("", "line 1: the key a list is not text", "put the key in quotes"), id="list-key"
        ),
        pytest.param(
            b"? {a: 1}\n: b",
            Problem("", "line 1: the key a mapping is not text", "put the key in quotes"),
            id="mapping-key",
        ),
        pytest.param(
            b"a: 1\r---\rb: 2",
            Problem("", "line 2: a second document starts here", "put --- on a line of its own"),
            id="marker-after-a-lone-return",
        ),
        pytest.param(
            "a: 1\u2028---\u2028b: 2".encode(),
            Problem("", "line 2: a second document starts here", "put --- on a line of its own"),
            id="marker-after-a-line-separator",
        ),
        pytest.param(
            b'{"a": "\\ud800"}',
            Problem("", "text holds half of a surrogate pair, which is no character"),
            id="lone-surrogate",
        ),
        pytest.param(
            b'{"a": [{"\\udfff": 1}]}',
            Problem("", "text holds half of a surrogate pair, which is no character"),
            id="lone-surrogate-in-a-key",
        ),
        pytest.param(
            b'a: "\\ud800"',
            Problem("", "not YAML: line 1, column 7: found invalid Unicode character escape code"),
            id="lone-surrogate-in-yaml",
        ),
        pytest.param(
            b"a: 1\n---\nb: [1\nc: 2",
            Problem("", "not YAML: line 4, column 2: did not find expected ',' or ']'"),
            id="bracket-left-open",
        ),
        pytest.param(
            b"a: b: c",
            Problem("", "not YAML: line 1, column 5: mapping values are not allowed in this context"),
            id="two-colons",
        ),
        pytest.param(
            b"a:\n\t- b",
            Problem("", "not YAML: line 2, column 1: found character that cannot start any token"),
            id="tab",
        ),
        pytest.param(
            b"a: x\x00y",
            Problem("", 'not YAML: "unacceptable character #x0000: control characters are not..."'),
            id="null-byte",
        ),
        pytest.param(
            b'{"a": 1}\n{"b" 2}',
            Problem("", "not JSON: line 2, column 6: Expecting ':' delimiter"),
            id="json",
        ),
    ],
)
def test_refused(data: bytes, problem: Problem) -> None:
    """A document that can't be read has no value and one problem, which says where and what to do."""
    document = read(data)[-1]
    assert document.value is None
    assert [one._replace(hint=one.hint if problem.hint else "") for one in document.problems] == [problem]
    assert document.problems[0].hint or problem.message.startswith(("text", "not JSON"))


@pytest.mark.parametrize(
    ("data", "value", "paths"),
    [
        pytest.param(b"a: 1\na: 2", {"a": 1}, ["a"], id="top"),
        pytest.param(b"a: {b: 1, b: 2, b: 3}", {"a": {"b": 1}}, ["a.b", "a.b"], id="three-times"),
        pytest.param(b"a:\n- b: 1\n- b: 1\n  b: {c: 1}", {"a": [{"b": 1}, {"b": 1}]}, ["a[1].b"], id="in-a-list"),
        pytest.param(b"a: {b: 1}\na: {c: 1, c: 2}", {"a": {"b": 1}}, ["a.c", "a"], id="in-one-that-does-not-count"),
        pytest.param(b'a.b/c: 1\n"a.b/c": 2', {"a.b/c": 1}, ['["a.b/c"]'], id="key-with-dots"),
        pytest.param(b'{"a": 1, "a": 2}', {"a": 1}, ["a"], id="json-top"),
        pytest.param(b'{"a": [{}, {"b": 1, "b": 2}]}', {"a": [{}, {"b": 1}]}, ["a[1].b"], id="json-in-a-list"),
        pytest.param(b'{"a": {}, "a": {"b": 1, "b": 2}}', {"a": {}}, ["a"], id="json-in-one-that-does-not-count"),
    ],
)
def test_duplicate_keys(data: bytes, value: object, paths: list[str]) -> None:
    """A key that stands twice is a problem at its path; the first one counts, and the document is read."""
    document = only(data)
    assert document.value == value
    assert sorted(problem.path for problem in document.problems) == sorted(paths)
    assert {problem.hint for problem in document.problems} == {KEEP_ONE}
    assert all(problem.message.endswith("stands twice") for problem in document.problems)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b"---\nb: [1\n", id="yaml"),
        pytest.param(b"---\nb: *x\n", id="alias"),
        pytest.param(b"---\n" + b"- " * 200 + b"x\n", id="deep-yaml"),
        pytest.param(b"---\nb: \x00\n", id="null-byte"),
        pytest.param(b"--- 'b\n", id="quote-left-open"),
        pytest.param(b'---\n{"b" 1}\n', id="json"),
    ],
)
def test_one_bad_document_of_yaml_costs_no_other(bad: bytes) -> None:
    """The documents around one that can't be read are read."""
    assert [document.value for document in read(b"a: 1\n" + bad + b"---\nc: 3")] == [{"a": 1}, None, {"c": 3}]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b'{"b": }', id="no-value"),
        pytest.param(b'{"b": 1,}', id="comma"),
        pytest.param(b"{b: 1}", id="no-quotes"),
        pytest.param(b'{"b": [1, 2}', id="bracket-left-open"),
        pytest.param(b'{\n "b: 1,\n "c": 2\n}', id="quote-left-open"),
        pytest.param(b'{"}": }', id="bracket-in-text"),
        pytest.param(b'{"b": "\\""; }', id="quote-in-text"),
        pytest.param(b'{"b": ' * 5000 + b"1" + b"}" * 5000, id="too-deep-to-read"),
        pytest.param(b'{"b": ' * 200 + b"1" + b"}" * 200, id="too-deep"),
        pytest.param(b'{"b": ' + b"9" * 5000 + b"}", id="number-too-long"),
        pytest.param(b'{"b": "\\ud800"}', id="lone-surrogate"),
    ],
)
def test_one_bad_document_of_json_costs_no_other(bad: bytes) -> None:
    """The JSON documents around one that can't be read are read, whether it comes first or not."""
    tail = b'\n{"c": 3}\n{"d": 4}'
    assert [document.value for document in read(b'{"a": 1}\n' + bad + tail)] == [{"a": 1}, None, {"c": 3}, {"d": 4}]
    assert [document.value for document in read(bad + tail)] == [None, {"c": 3}, {"d": 4}]


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        pytest.param(b"{a: ", b"}", id="yaml-mapping"),
        pytest.param(b"[", b"]", id="yaml-list"),
        pytest.param(b"- ", b"", id="yaml-block"),
        pytest.param(b'{"a": ', b"}", id="json-object"),
    ],
)
def test_depth(opening: bytes, closing: bytes) -> None:
    """As many levels as the limit says are read, one more is refused, whatever they are written in."""
    for inner in (b"1", b"{}"):
        nested = 5 - inner.count(b"{")
        assert only(opening * nested + inner + closing * nested, Limits(max_depth=5)).problems == []
        document = only(opening * (nested + 1) + inner + closing * (nested + 1), Limits(max_depth=5))
        assert document.value is None
        assert document.problems[0].message.endswith("nested more than 5 levels deep")
        assert document.problems[0].hint == TOO_DEEP


def test_depth_of_a_json_list_in_an_object() -> None:
    """Lists inside JSON objects count as levels too."""
    assert values(b'{"a": [[[1]]]}', Limits(max_depth=4)) == [{"a": [[[1]]]}]
    assert only(b'{"a": [[[[]]]]}', Limits(max_depth=4)).value is None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"a: " + b"x" * 100, id="yaml"),
        pytest.param(b'{"a": "' + b"x" * 100 + b'"}', id="json"),
        pytest.param(b'a: kind\nb: "kind: List ' + b"x" * 100 + b'"', id="list-only-in-text"),
        pytest.param(b'{"kind": ["List"], "a": "' + b"x" * 100 + b'"}', id="kind-is-no-text"),
    ],
)
def test_size_of_a_document(data: bytes) -> None:
    """A document over the limit has no value; the ones around it do."""
    separator = b"\n---\n"
    found = read(b"a: 1" + separator + data + separator + b"c: 3", Limits(max_document_bytes=99))
    assert [document.value for document in found] == [{"a": 1}, None, {"c": 3}]
    assert "bytes are more than the limit of 99 for one object" in found[1].problems[0].message
    assert values(data, Limits(max_document_bytes=len(data))) == values(data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"apiVersion: v1\nkind: List\nitems: [" + b"1, " * 50 + b"]", id="yaml"),
        pytest.param(b"'kind': \"PodList\"\r\nitems: [" + b"1, " * 50 + b"]", id="yaml-quoted"),
        pytest.param(b'{"kind": "QueueList", "items": [' + b"1, " * 50 + b"1]}", id="json"),
    ],
)
def test_a_list_may_be_larger(data: bytes) -> None:
    """The limit is for one object, and a List holds many."""
    [value] = values(data, Limits(max_document_bytes=99))
    assert len(value["items"]) >= 50


def test_size_counts_bytes() -> None:
    """The size of a document is that of its UTF-8, not the number of its characters."""
    assert values("a: äää".encode(), Limits(max_document_bytes=9)) == [{"a": "äää"}]
    assert only("a: äää".encode(), Limits(max_document_bytes=8)).value is None


def test_a_file_that_is_too_large_is_refused_as_a_whole() -> None:
    """Nothing of it is read, and the answer names the setting."""
    with pytest.raises(UnreadableInput, match="5 bytes are more than the limit of 4") as refused:
        read(b"a: 12", Limits(max_file_bytes=4))
    assert "input.maxFileBytes" in refused.value.hint


@pytest.mark.parametrize(
    ("data", "byte"),
    [
        pytest.param(b"a: \xff", 3, id="no-such-byte"),
        pytest.param(b"a: \xc3", 3, id="cut-off"),
        pytest.param(b"\xff\xfea\x00", 0, id="utf-16"),
        pytest.param(b"ab\xed\xa0\x80", 2, id="surrogate"),
    ],
)
def test_what_is_no_text_is_refused_as_a_whole(data: bytes, byte: int) -> None:
    """Bytes that are no UTF-8 are no documents, and the answer says where they stop to be."""
    with pytest.raises(UnreadableInput, match=rf"not UTF-8 text \(byte {byte}\)"):
        read(data)


@pytest.mark.parametrize(
    ("path", "key", "expected"),
    [
        pytest.param("", "spec", "spec", id="first"),
        pytest.param("spec", "subGroups", "spec.subGroups", id="word"),
        pytest.param("spec.subGroups", 2, "spec.subGroups[2]", id="item"),
        pytest.param("metadata.labels", "kai.scheduler/queue", 'metadata.labels["kai.scheduler/queue"]', id="dots"),
        pytest.param("", "a b", '["a b"]', id="first-with-space"),
        pytest.param("a", "", 'a[""]', id="empty"),
        pytest.param("a", "\x1b[31m", 'a["\\u001b[31m"]', id="control"),
        pytest.param("a", "x" * 100, f'a["{"x" * 57}..."]', id="long"),
    ],
)
def test_paths(path: str, key: str | int, expected: str) -> None:
    """A path reads like code, and a key that is no plain word stands in brackets."""
    assert child_path(path, key) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("a", '"a"', id="text"),
        pytest.param("ä", '"ä"', id="letters"),
        pytest.param("a\nb\u202e", '"a\\nb\\u202e"', id="control"),
        pytest.param("x" * 61, f'"{"x" * 57}..."', id="long"),
        pytest.param(None, "null", id="null"),
        pytest.param(True, "true", id="true"),
        pytest.param(1.5, "1.5", id="number"),
        pytest.param(10**5000, "a very large number", id="huge"),
        pytest.param({"a": 1}, "a mapping", id="mapping"),
        pytest.param([1], "a list", id="list"),
    ],
)
def test_shown(value: object, expected: str) -> None:
    """A value in a sentence is short and can be printed."""
    assert shown(value) == expected
