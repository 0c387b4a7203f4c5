"""Patterns of schemas mean what they mean in Go, and no text takes them more than linear time."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.embedded.patterns import Pattern, Unreadable
from unit.embedded.cluster import Cluster
from unit.embedded.test_server import DEFINITIONS, THINGS, thing, things

CRDS = yaml.safe_load_all((Path(__file__).parents[3] / "deploy" / "crds.yaml").read_text())


def patterns_in(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {text for one in schema for text in patterns_in(one)}
    if not isinstance(schema, dict):
        return set()
    found = {text for one in schema.values() for text in patterns_in(one)}
    return found | ({schema["pattern"]} if isinstance(schema.get("pattern"), str) else set())


OURS = sorted({text for crd in CRDS for text in patterns_in(crd)})


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^(a+)+$", "a" * 10_000 + "!", False),
        ("^(a|aa)*(b|a*)*$", "a" * 10_000 + "!", False),
        ("^[[:alpha:]]+$", "abc", True),
        ("[[:^alpha:]]", "a", False),
        (r"^\w+\z", "abc", True),
        (r"^\pL+$", "é", True),
        (r"^\p{Lu}\PL$", "É1", True),
        (r"^\p{^Lu}$", "É", False),
        (r"^\d+$", "٣", False),
        (r"^\s$", "\v", False),
        ("a$", "a\n", False),
        ("(?m)a$", "a\n", True),
        ("a.b", "a\nb", False),
        ("(?s)a.b", "a\nb", True),
        ("a[^x]b", "a\nb", True),
        (r"\bfoo\b", "a foo", True),
        (r"\bfoo\b", "afoo", False),
        (r"o\B", "fo", False),
        ("(?i)^KEL$", "\u212ael", True),
        ("(?i)^[^k]$", "\u212a", False),
        ("^(?:(?i)a)b$", "AB", False),
        ("^(?i:a)b$", "Ab", True),
        ("^(?i)a(?-i)b$", "Ab", True),
        ("^a{2,3}?$", "aaaa", False),
        ("^a{2,}$", "aaaa", True),
        ("^a{2}$", "aa", True),
        ("^a{,3}$", "a{,3}", True),
        ("^(|a|b(c|d)?)*$", "abcab", True),
        ("[]a]", "]", True),
        ("[^]a]", "]", False),
        (r"^[\d-]+$", "1-2", True),
        (r"^[\.\-\]a-]+$", ".-]a", True),
        ("", "", True),
        (r"^\Qa.b\E+$", "a.bbb", True),
        ("^(a{0,0})b$", "b", True),
        (r"^\x41\x{42}\103$", "ABC", True),
        ("^(?P<one>a)(?<two>b)$", "ab", True),
        ("a|^b", "cb", False),
    ],
)
def test_a_pattern_means_what_it_means_in_go(pattern: str, text: str, matches: bool) -> None:
    assert Pattern(pattern).matches(text) is matches


UNREADABLE = [
    "([", "(", "a)", "*", "a**", "a*?+", "a{2,1}", "a{1001}", "(a{100}){100}", r"\1", "(?=a)", "(?<!a)", r"\Z", "[b-a]",
    "[[:foo:]]", r"\p{Nobody}", "\\", "[a", "a|*", "(" * 200 + ")" * 200, r"[\b]", "(?", "(?<n",
    "[a-\\d]", r"\x{110000}", r"\xg", "a" * 30_000, "(" * 90 + "a" + "{2})" * 90, r"\é", r"\p{L", "(){1000}" * 2000,
]  # fmt: skip


@pytest.mark.parametrize("pattern", UNREADABLE, ids=lambda text: text[:12])
def test_what_go_can_not_read_is_unreadable(pattern: str) -> None:
    with pytest.raises(Unreadable):
        Pattern(pattern)


TEXTS = st.text("abzAZ019-_./*+:eEmnKiMGsuhµμ \n", max_size=12)


@pytest.mark.parametrize("pattern", OURS)
@given(data=st.data())
def test_our_own_patterns_match_as_they_do_in_python(pattern: str, data: st.DataObject) -> None:
    """They have nothing that the two languages read differently, but `$`."""
    same = re.compile(pattern.removesuffix("$") + r"\Z", re.ASCII)
    found = Pattern(pattern)
    for text in (data.draw(st.from_regex(same)), data.draw(TEXTS)):
        assert found.matches(text) is (same.search(text) is not None)


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "^", "$", r"\b", r"\d", r"\w", r"\S", "(?i:A)"])
TREES = st.recursive(
    ATOMS,
    lambda below: st.one_of(
        st.tuples(below, below).map("".join),
        st.tuples(below, below).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(below, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}?", "*?"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
    ),
    max_leaves=8,
)


@given(pattern=TREES, text=st.text("abA1 \n", max_size=8))
def test_any_pattern_matches_as_it_does_in_python(pattern: str, text: str) -> None:
    same = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    assert Pattern(pattern).matches(text) is (same.search(text) is not None)


def test_what_is_kept_of_many_characters_is_bounded_and_forgetting_does_no_harm() -> None:
    found = Pattern("^(?:..)*x$")
    text = "".join(chr(code) for code in range(0x100, 0xA000))
    assert [found.matches(text + "x" * more) for more in (1, 2, 3)] == [True, False, True]


def _schema(**spec: Any) -> dict[str, Any]:
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}}


def test_a_definition_whose_pattern_can_not_be_read_is_refused() -> None:
    refused = Cluster()("POST", DEFINITIONS, things(schema=_schema(s={"type": "string", "pattern": "(["})))
    assert (refused["_code"], refused["details"]["causes"]) == (
        422,
        [
            {
                "reason": "FieldValueInvalid",
                "field": "spec.validation.openAPIV3Schema.properties[spec].properties[s].pattern",
                "message": 'Invalid value: "([": must be a valid regular expression, but isn\'t: error parsing regexp: '
                "missing closing ]: `[`",
            }
        ],
    )


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        ({"type": 5}, 400),
        ({"type": "text"}, 422),
        ({"type": "string", "pattern": 5}, 400),
        ({"type": "string", "maxLength": "5"}, 400),
        ({"type": "object", "properties": {"a": 5}}, 400),
        ({"type": "object", "required": "a"}, 400),
        ({"type": "array", "items": [{"type": "string"}]}, 422),
        ({"type": "object", "x-kubernetes-validations": [{"rule": 5}]}, 400),
        ({"anyOf": [{"pattern": "(["}]}, 422),
    ],
)
def test_a_definition_with_a_broken_schema_is_refused(broken: dict[str, Any], code: int) -> None:
    assert Cluster()("POST", DEFINITIONS, things(schema=_schema(s=broken)))["_code"] == code


def test_a_value_that_would_take_others_for_ever_is_refused_at_once() -> None:
    cluster = Cluster()
    cluster.create(DEFINITIONS, things(schema=_schema(s={"type": "string", "pattern": "^(a+)+$"})))
    assert cluster("POST", THINGS, thing("no", s="a" * 55 + "!"))["_code"] == 422
    assert cluster("POST", THINGS, thing("yes", s="a" * 55))["_code"] == 201
