"""What expressions mean, by example; where real jq is there, every example is asked of it too."""

from typing import Any

import pytest

from jq_process import JQ, THERE, WHY_NOT
from muster.errors import BadValue, Refused
from muster.grouping.language import expression
from muster.grouping.language.limits import Meter
from muster.grouping.language.numbers import as_count

POD: dict[str, Any] = {
    "kind": "RayCluster",
    "metadata": {
        "name": "ray-1",
        "labels": {"ray.io/group": "gpu", "x.y/z": "1"},
        "annotations": {"kai.scheduler/batch-min-member": "4"},
    },
    "spec": {
        "replicas": 3,
        "suspend": False,
        "half": 0.5,
        "none": None,
        "big": 9007199254740993,
        "groups": [
            {"name": "a", "min": 2, "max": 4},
            {"name": "b", "min": 0},
            {"name": "c", "min": 5, "names": ["x", "y"]},
        ],
        "words": ["b", "a", "c"],
        "mixed": [None, False, True, 1, "x", [1], {"k": 1}],
    },
}
VARIABLES = {"n": 2, "wg": {"groupName": "gpu-workers", "minReplicas": 4}, "none": None, "key": "kind"}

CASES: list[tuple[str, list[Any]]] = [
    # Paths.
    (".", [POD]),
    (".kind", ["RayCluster"]),
    (".spec.replicas", [3]),
    (".spec.missing", [None]),
    (".missing.deeper.still", [None]),
    ('.metadata.labels["ray.io/group"]', ["gpu"]),
    ('.metadata.labels."ray.io/group"', ["gpu"]),
    ('.["metadata"]["name"]', ["ray-1"]),
    ('."metadata"."name"', ["ray-1"]),
    ('. "kind"', ["RayCluster"]),
    (".metadata .name", ["ray-1"]),
    (". .kind", ["RayCluster"]),
    (".spec.groups[0].name", ["a"]),
    (".spec.groups[-1].name", ["c"]),
    (".spec.groups[- 1].name", ["c"]),
    (".spec.groups[7]", [None]),
    (".spec.groups[-7]", [None]),
    (".spec.groups.[1].name", ["b"]),
    (".spec.groups[].name", ["a", "b", "c"]),
    (".spec.groups.[].name", ["a", "b", "c"]),
    (".spec.groups[].max", [4, None, None]),
    (".metadata.labels[]", ["gpu", "1"]),
    (".spec.none[]?", []),
    (".spec.replicas[]?", []),
    (".spec.groups[].names[]?", ["x", "y"]),
    (".kind.deeper?", []),
    (".kind[0]?", []),
    (".kind.deeper??", []),
    ("(.kind.deeper.still)?", []),
    (".kind?.deeper?", []),
    ("[.kind, .kind.deeper?]", [["RayCluster"]]),
    (".spec.if", [None]),
    (".[$key]", ["RayCluster"]),
    (".spec.words[$n]", ["c"]),
    ('.metadata["na\\("me")"]', ["ray-1"]),
    ('.["\\("kind", "none")"]', ["RayCluster", None]),
    # Variables and bindings.
    ("$n", [2]),
    ("$wg.groupName", ["gpu-workers"]),
    ('$wg["minReplicas"]', [4]),
    ("$none.x", [None]),
    (".spec.replicas as $r | $r * $n", [6]),
    (".spec.groups[] as $g | $g.min", [2, 0, 5]),
    ("[.spec.groups[] as $g | (1, 2) as $i | $g.min * $i]", [[2, 4, 0, 0, 5, 10]]),
    ("1 as $x | 2 as $x | $x", [2]),
    ("1 as $x | (2 as $x | $x), $x", [2, 1]),
    ("1, 2 as $x | $x, 3", [1, 2, 3]),
    ("1 as $n | $n", [1]),
    ("[.spec.groups[] | .name as $x | [1, 2] | map($x)] | add", [["a", "a", "b", "b", "c", "c"]]),
    ("1 as $if | $if", [1]),
    # Literals and strings.
    ("1", [1]),
    ("0.5", [0.5]),
    ("9007199254740992", [9007199254740992]),
    ('""', [""]),
    ('"a\\u00e9\\n\\/\\"\\\\"', ['aé\n/"\\']),
    ('"\\uD83D\\uDE00" | length', [1]),
    ('"a\tb"', ["a\tb"]),
    ("true, false, null", [True, False, None]),
    ('"\\(.spec.replicas)-\\(.kind)"', ["3-RayCluster"]),
    ('"\\(1, 2)-\\(3, 4)"', ["1-3", "2-3", "1-4", "2-4"]),
    ('"\\("in\\("ner")")"', ["inner"]),
    ('"\\(.spec.mixed)"', ['[null,false,true,1,"x",[1],{"k":1}]']),
    ('"\\(null) \\(true) \\(0.5)"', ["null true 0.5"]),
    # Arithmetic.
    ("1 + 2 * 3 - 4 / 2", [5]),
    ("7 % 3, -7 % 3, 7 % -3, 7.9 % 3.9", [1, -1, 1, 1]),
    ("1 / 4", [0.25]),
    ("6 / 3", [2]),
    ("0.1 + 0.2", [0.30000000000000004]),
    ("-(1) - -1", [0]),
    ("- 2 * 3", [-6]),
    ("10 - 2 - 3", [5]),
    ("2 * -3", [-6]),
    ("[-(.spec.groups[].min + 1)]", [[-3, -1, -6]]),
    ("9007199254740992 + 1", [9007199254740992]),
    ("9007199254740992 * 2 > 9007199254740992", [True]),
    ("[(1, 2) + (10, 20)]", [[11, 12, 21, 22]]),
    ("null + 1, 1 + null, null + null", [1, 1, None]),
    ('"a" + "b" + null', ["ab"]),
    ("[1] + [2, [3]]", [[1, 2, [3]]]),
    ("[1, 2, 1, 3] - [1, 4]", [[2, 3]]),
    (".metadata.labels + .metadata.annotations | keys", [["kai.scheduler/batch-min-member", "ray.io/group", "x.y/z"]]),
    ('"a,b,c" / ","', [["a", "b", "c"]]),
    # Comparison and logic.
    ("1 == 1, 1 == 2, 1 != 2", [True, False, True]),
    ("1 == true, 0 == false, null == false", [False, False, False]),
    ('"1" == 1', [False]),
    ("[1, [2]] == [1, [2]]", [True]),
    (".spec.groups[0] == .spec.groups[0], .spec.groups[0] == .spec.groups[1]", [True, False]),
    ('null < false, false < true, true < 0, 0 < "", "" < []', [True] * 5),
    ("[] < .metadata", [True]),
    ('"a" < "b", "B" < "a", "é" > "z", "a" <= "a", "b" >= "c"', [True, True, True, True, False]),
    ("[1, 2] < [1, 3], [1] < [1, 0], [2] < [1, 5]", [True, True, False]),
    (".spec.groups[1] < .spec.groups[0], .spec.groups[0] <= .spec.groups[0]", [False, True]),
    (".metadata.labels > .metadata.annotations", [True]),
    ('true and null, 1 and 0, false or null, false or ""', [False, True, False, True]),
    ("[(true, false) and (true, false)]", [[True, False, False]]),
    ("[(true, false) or (true, false)]", [[True, True, False]]),
    ("false and .kind.deeper, true or .kind.deeper", [False, True]),
    ("true or false and false", [True]),
    ("null | not", [True]),
    ("1 == 1 and 2 < 3 or false", [True]),
    # Alternatives.
    (".spec.missing // 5", [5]),
    (".spec.suspend // true", [True]),
    (".spec.missing // .spec.none // 7", [7]),
    ("[.spec.groups[].max // 9]", [[4]]),
    ("[.spec.groups[] | .max // 9]", [[4, 9, 9]]),
    ("[(null, 1, false, 2) // 3]", [[1, 2]]),
    ("[(null, false) // (1, 2)]", [[1, 2]]),
    ("[.kind.x? // 1]", [[1]]),
    ("null // null", [None]),
    ("1 // .kind.deeper", [1]),
    # Choices.
    ('if .spec.replicas > 2 then "many" else "few" end', ["many"]),
    ("if .spec.none then 1 elif .spec.suspend then 2 elif .kind then 3 else 4 end", [3]),
    ("if false then 1 end | .kind", ["RayCluster"]),
    ("if (true, false) then 1 else 2 end", [1, 2]),
    ("if true then (1, 2) end", [1, 2]),
    ("if true then .spec else . end.replicas", [3]),
    ("if 1 then 2 end as $x | $x", [2]),
    # Arrays, comma, pipe.
    ("[]", [[]]),
    ("[.spec.groups[].name]", [["a", "b", "c"]]),
    ("[.spec.groups[] | select(.min > 0) | .name]", [["a", "c"]]),
    ("1, 2 | . + 1", [2, 3]),
    ("[1, 2, 3][1]", [2]),
    ("[1, [2, 3]] | .[1][0]", [2]),
    # Range.
    ("[range(3)]", [[0, 1, 2]]),
    ("[range(-3)]", [[]]),
    ("[range(2; 5)]", [[2, 3, 4]]),
    ("[range(0; 10; 4)]", [[0, 4, 8]]),
    ("[range(5; 0; -2)]", [[5, 3, 1]]),
    ("[range(0; 1; 0.25)]", [[0, 0.25, 0.5, 0.75]]),
    ("[range(0; 3; 0)]", [[]]),
    ("[range(1.5)]", [[0, 1]]),
    ("[range(0, 1; 3, 4)]", [[0, 1, 2, 0, 1, 2, 3, 1, 2, 1, 2, 3]]),
    ('[range(.spec.replicas) as $i | "w-\\($i)"]', [["w-0", "w-1", "w-2"]]),
    # Functions.
    ('[null, -2.5, "aé", [1, 2], .spec.groups[0] | length]', [[0, 2.5, 2, 2, 3]]),
    ("[.spec.groups[].min] | add, min, max", [7, 0, 5]),
    ("[] | add, min, max, first", [None, None, None, None]),
    (".metadata.labels | add", ["gpu1"]),
    ('["a", null, "b"] | add', ["ab"]),
    ("[[1], [2, 3]] | add", [[1, 2, 3]]),
    (".spec.mixed | min, max", [None, {"k": 1}]),
    ("[1, 2] | first", [1]),
    ("null | first", [None]),
    ("first(.spec.groups[].name)", ["a"]),
    ("[first(select(false))]", [[]]),
    ("first(1, .kind.deeper)", [1]),
    ("[true, false] | any, all", [True, False]),
    ("[] | any, all", [False, True]),
    (".spec.groups | any(.min == 0), all(.min >= 0)", [True, True]),
    ('any(.spec.groups[]; has("names")), all(.spec.groups[]; has("names"))', [True, False]),
    ("any(1, .kind.deeper; .)", [True]),
    ("all(false, .kind.deeper; .)", [False]),
    ('has("kind"), has("none")', [True, False]),
    (".spec.words | has(0), has(3), has(-1)", [True, False, False]),
    ('null | has("x")', [False]),
    (".metadata | keys", [["annotations", "labels", "name"]]),
    (".spec.words | keys", [[0, 1, 2]]),
    (".metadata.labels | to_entries", [[{"key": "ray.io/group", "value": "gpu"}, {"key": "x.y/z", "value": "1"}]]),
    (".metadata.labels | to_entries[] | .key", ["ray.io/group", "x.y/z"]),
    ('["x"] | to_entries', [[{"key": 0, "value": "x"}]]),
    ('.spec.words | index("a"), index("z")', [1, None]),
    ("[null, 1, 1.5] | index(null), index(1.5)", [0, 2]),
    ('"a-b-c" | index("-"), index("z"), index("")', [1, None, None]),
    ('null | index("a")', [None]),
    (".spec.groups | map(.min)", [[2, 0, 5]]),
    (".spec.groups | map(select(.min > 0).name)", [["a", "c"]]),
    (".spec.groups | map(.name, .min) | length", [6]),
    (".metadata.labels | map(length)", [[3, 1]]),
    (".spec.mixed | map(type)", [["null", "boolean", "boolean", "number", "string", "array", "object"]]),
    ('"4", 4, "-1.5", "0" | tonumber', [4, 4, -1.5, 0]),
    ('.metadata.annotations["kai.scheduler/batch-min-member"] | tonumber', [4]),
    ('1, 0.5, "x", null, true | tostring', ["1", "0.5", "x", "null", "true"]),
    (".spec.groups[0] | tostring", ['{"name":"a","min":2,"max":4}']),
    ('["\\u007f\\u0001\\n\\u00e9<\\"\\\\"] | tostring', ['["\\u007f\\u0001\\né<\\"\\\\"]']),
    ('"WorkER-É" | ascii_downcase', ["worker-É"]),
    ("5.5, -5.5, 3 | floor", [5, -6, 3]),
    ("5.5, -5.5, 3 | ceil", [6, -5, 3]),
    ('"abc" | startswith("ab"), startswith("b"), endswith("bc"), endswith("")', [True, False, True, True]),
    ('"abab" | ltrimstr("ab"), ltrimstr("x"), rtrimstr("b"), rtrimstr("")', ["ab", "abab", "aba", "abab"]),
    ('"a-b-" | split("-")', [["a", "b", ""]]),
    ('"" | split("-")', [[]]),
    ('"aé" | split("")', [["a", "é"]]),
    ('["a", 1, null, true] | join("-")', ["a-1--true"]),
    ('[] | join("-")', [""]),
    ('.metadata.name | rtrimstr("-" + (split("-") | .[-1]))', ["ray"]),
    ("\t.kind\r\n| .", ["RayCluster"]),
]


def values(text: str, root: Any = POD, **variables: Any) -> list[Any]:
    given = {**VARIABLES, **variables}
    return expression.compile(text, variables=given).values(root, given, Meter())


def same(one: Any, other: Any) -> bool:
    """As `==`, but 1 is not true."""
    return repr(one) == repr(other)


@pytest.mark.parametrize(("text", "wanted"), CASES, ids=[text for text, _ in CASES])
def test_means(text, wanted):
    assert same(values(text), wanted)


@pytest.mark.skipif(not THERE, reason=WHY_NOT)
@pytest.mark.parametrize(("text", "wanted"), CASES, ids=[text for text, _ in CASES])
def test_means_what_jq_means(text, wanted):
    answer = JQ.ask(text, POD, VARIABLES)
    expected = [POD | {"spec": POD["spec"] | {"big": 2**53}}] if text == "." else wanted
    assert answer.values == expected


# Text, part of the message, column.
FAILURES = [
    (".kind.deeper", 'can\'t read "deeper" of the string "RayCluster"', 6),
    (".spec.replicas.x", 'can\'t read "x" of the number 3', 15),
    (".kind.a.b?", 'can\'t read "a"', 6),
    (".spec.groups.name", 'can\'t read "name" of an array', 13),
    (".spec[0]", "the number 0 is no index of an object", 6),
    (".spec.words[$key]", 'can\'t read "kind" of an array', 12),
    (".kind[]", 'can\'t go over the string "RayCluster"', 6),
    (".spec.none[]", "can't go over null", 11),
    ('1 + "a"', 'can\'t add the number 1 and the string "a"', 3),
    ("true + true", "can't add the boolean true", 6),
    ("null - 1", "can't subtract null and the number 1", 6),
    ("[] * []", "can't multiply an array and an array", 4),
    ("null / 1", "can't divide null", 6),
    ("[] % 2", "can't divide an array", 4),
    ("1 / 0", "can't divide 1 by zero", 3),
    ("5 % 0.5", "can't divide 5 by zero", 3),
    ('-"a"', 'the string "a" can\'t be negated', 1),
    ("true | length", "a boolean has no length", 8),
    ("1 | min", "the number 1 has no smallest", 5),
    ("null | add", "can't go over null", 8),
    ("null | keys", "null has no keys", 8),
    ('"x" | to_entries', 'the string "x" has no keys', 7),
    ('"x" | map(.)', "can't go over the string", 7),
    ("1 | any", "can't go over the number 1", 5),
    ("1 | all(.)", "can't go over the number 1", 5),
    ('.spec.words | has("x")', 'an array can\'t have the string "x"', 15),
    (". | has(0)", "an object can't have the number 0", 5),
    ("1 | index(1)", "can't look for the number 1 in the number 1", 5),
    ('"x" | tonumber', '"x" is not a number', 7),
    ('"" | tonumber', '"" is not a number', 6),
    ('"10-20" | tonumber', '"10-20" is not a number', 11),
    ("[] | tonumber", "an array is not a number", 6),
    ("1 | ascii_downcase", "the number 1 is not a string", 5),
    ('"x" | floor', 'the string "x" is not a number', 7),
    ('1 | startswith("a")', "can't look for", 5),
    ('"a" | endswith(1)', "can't look for", 7),
    ('1 | split(",")', "can't split the number 1", 5),
    ('[[1]] | join(",")', "can't join an array", 9),
    ('range("x")', 'a range can\'t use the string "x"', 1),
    ("1 | first", "the number 0 is no index of the number 1", 5),
    ("[1, .kind.x] | first", 'can\'t read "x"', 10),
    ('"\\(.kind.x)"', 'can\'t read "x"', 9),
]


@pytest.mark.parametrize(("text", "message", "column"), FAILURES, ids=[case[0] for case in FAILURES])
def test_fails(text, message, column):
    """There is no value, as in jq; the error says what and where, and `?` makes nothing of it."""
    with pytest.raises(BadValue) as caught:
        values(text)
    assert message in caught.value.message
    assert caught.value.column == column
    assert caught.value.hint
    assert values(f"[({text})?]") == [[]]


@pytest.mark.skipif(not THERE, reason=WHY_NOT)
@pytest.mark.parametrize("text", [case[0] for case in FAILURES])
def test_fails_where_jq_fails(text):
    assert JQ.ask(text, POD, VARIABLES).failed


# jq would answer, and not the same in every version or as anybody would think.
NO_PROMISE = [
    ('"ab" * 3', "a string is not repeated"),
    ('0 * "ab"', "a string is not repeated"),
    (".spec * .metadata", "objects are not merged"),
    (".spec.big + 1", "beyond 2**53"),
    (".spec.big == 1", "beyond 2**53"),
    (".spec.big | tostring", "beyond 2**53"),
    ("[.spec.big, 1] | max", "beyond 2**53"),
    ('"9007199254740993" | tonumber', "plain form"),
    ('"1.0", "1e3" | tonumber', "plain form"),
    ('"007" | tonumber', "plain form"),
    ('" 1 " | tonumber', "plain form"),
    ('"nan" | tonumber', "plain form"),
    ('"+1" | tonumber', "plain form"),
    ('"1." | tonumber', "plain form"),
    ("0 * -1 | tostring", "print -0.0 differently"),
    ("-(0) | tostring", "print -0.0 differently"),
    ("9007199254740992 * 2 | tostring", "differently"),
    ("1 / 3000000 | tostring", "differently"),
    ("9007199254740992 * 3 % 7", "within 2**53"),
    (".spec.words | has(0.5)", "no index"),
    ("0.5 as $i | .spec.words[$i]", "no index"),
    (".spec.none[$wg]", "an object is no index of null"),
    (".spec.none[$none]", "null is no index of null"),
    (".spec.words[$wg]", "an object is no index of an array"),
    ("[1] as $x | .spec.words[$x]", "an array is no index of an array"),
    ('. | index("kind")', "does not look for"),
    ("[[1]] | index([1])", "does not look for"),
    ('"éa" | index("a")', "beyond ASCII"),
    ('1 | ltrimstr("a")', "can't trim"),
    ('"a" | rtrimstr(1)', "can't trim"),
    ("[1, 2] | join(null)", "can't join with null"),
    ("[range(null; 3; 1)]", "a range can't use null"),
]


@pytest.mark.parametrize(("text", "message"), NO_PROMISE, ids=[case[0] for case in NO_PROMISE])
def test_promises_nothing(text, message):
    """Such a value is refused, and neither `?` nor `//` hides it, which would give it another meaning."""
    for form in (text, f"[({text})?]", f"({text}) // 1"):
        with pytest.raises(Refused) as caught:
            values(form)
        assert message in caught.value.message
        assert caught.value.column
        assert caught.value.hint


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("text", [". + 1", ". == 1", ". < 1", "tostring", "floor", "[.] | max", "range(.)", "length"])
def test_numbers_that_json_has_not_are_not_used(text, number):
    with pytest.raises(Refused):
        values(text, number)


@pytest.mark.parametrize(("value", "count"), [(0, 0), (4, 4), (4.0, 4), (-0.0, 0), (2**53, 2**53)])
def test_a_count_is_a_whole_number(value, count):
    assert as_count(value) == count
    assert type(as_count(value)) is int


@pytest.mark.parametrize("value", [-1, 0.5, "4", None, True, [], {}, float("nan"), float("inf"), 2**53 + 1, 1e300])
def test_anything_else_is_no_count(value):
    with pytest.raises(BadValue, match="is not a count") as caught:
        as_count(value, 7)
    assert caught.value.column == 7
    assert ("tonumber" in caught.value.hint) == (value == "4")


def test_whole_numbers_of_yaml_are_as_kubernetes_sends_them():
    """4.0 in a file becomes 4 on its way through an API server; here it prints the same."""
    assert values("tostring", 4.0) == ["4"]
    assert same(values(". + 1", 4.0), [5])
    assert values(".[$n]", [0, 1, 2], n=2.0) == [2]


def test_an_expression_knows_its_variables():
    found = expression.compile("$a as $x | $b[$x] + $a")
    assert found.variables == {"a", "b"}
    assert found.text == "$a as $x | $b[$x] + $a"
    assert repr(found) == "Expression('$a as $x | $b[$x] + $a')"
    assert found.values(None, {"a": 0, "b": [5]}, Meter()) == [5]


def test_an_expression_is_used_again_and_keeps_nothing():
    found = expression.compile(".a as $x | [.b[] | . * $x]")
    assert found.values({"a": 2, "b": [1, 2]}, {}, Meter()) == [[2, 4]]
    assert found.values({"a": 3, "b": [1]}, {}, Meter()) == [[3]]


@pytest.mark.parametrize(
    ("text", "name", "wanted"),
    [
        (".spec.groups[] as $g", "g", ["a", "b", "c"]),
        ("range(2) as $i", "i", [0, 1]),
        ('.spec.groups[] | select(.name as $x | ["a"] | index($x)) as $g', "g", ["a"]),
        ('.spec.words[], "z" as $w', "w", ["b", "a", "c", "z"]),
        (".spec.missing // [1] | .[] as $x", "x", [1]),
    ],
)
def test_a_binder_names_what_comes_before_the_last_as(text, name, wanted):
    binder = expression.compile_binder(text, variables=())
    assert binder.name == name
    found = binder.expression.values(POD, {}, Meter())
    assert [value["name"] if isinstance(value, dict) else value for value in found] == wanted
