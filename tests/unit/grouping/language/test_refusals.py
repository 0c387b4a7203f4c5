"""What is not in the language is refused where it stands, with what it is and what to write instead."""

import pytest

from jq_process import JQ, THERE, WHY_NOT
from muster.errors import BadExpression
from muster.grouping.language import expression
from muster.grouping.language.refusals import FUNCTIONS

ROOT = "an expression reads the object"
TEXT = "use startswith"
READS = "expressions only read the object"
FIRST = "use `first( … )`"

# Text, column, part of the message, part of the hint.
REFUSED = [
    # What jq has.
    ("def f: 1; f", 1, "`def` defines a function", "`let`"),
    (".a | def f: 1; f", 6, "`def` defines a function", "`let`"),
    ("reduce .a[] as $x (0; . + $x)", 1, "`reduce` is a loop", "| add"),
    ("foreach .a[] as $x (0; . + $x)", 1, "`foreach` is a loop", "`map`"),
    ("..", 1, "`..` descends into everything", "name the path"),
    (".a | ..", 6, "`..` descends into everything", "name the path"),
    (".a..b", 3, "`..` descends into everything", "name the path"),
    ("recurse", 1, "`recurse` is not in the language", "name the path"),
    ("recurse(.a)", 1, "`recurse` is not in the language", "name the path"),
    ("[paths]", 2, "`paths` is not in the language", "name the path"),
    ('getpath(["a"])', 1, "`getpath` is not in the language", "name the path"),
    ("env", 1, "`env` is not in the language", ROOT),
    ("$ENV", 1, "`$ENV` reads the environment", ROOT),
    (".a + $ENV.HOME", 6, "`$ENV` reads the environment", ROOT),
    ("1 as $ENV | 2", 6, "`$ENV` reads the environment", ROOT),
    ("$__loc__", 1, "`$__loc__` is not in the language", ROOT),
    ("input", 1, "`input` is not in the language", ROOT),
    ("[inputs]", 2, "`inputs` is not in the language", ROOT),
    ("debug", 1, "`debug` is not in the language", ROOT),
    ("now", 1, "`now` is not in the language", ROOT),
    ("halt_error", 1, "`halt_error` is not in the language", ROOT),
    ('import "a" as a; .', 1, "`import` reads files", ROOT),
    ('include "a"; .', 1, "`include` reads files", ROOT),
    ("a::b", 2, "`::` names a module", "built in"),
    ("$a::b", 3, "`::` names a module", "built in"),
    ('test("a")', 1, "`test` is not in the language", TEXT),
    ('match("a")', 1, "`match` is not in the language", TEXT),
    ('.a | sub("a"; "b")', 6, "`sub` is not in the language", TEXT),
    ('gsub("a"; "b")', 1, "`gsub` is not in the language", TEXT),
    ('split("a"; null)', 1, "`split` takes 1 argument, not 2", "no regular expressions"),
    ("ascii_upcase", 1, "`ascii_upcase` is not in the language", TEXT),
    (".a = 1", 4, "`=` assigns", READS),
    (".a |= 1", 4, "`|=` assigns", READS),
    (".a += 1", 4, "`+=` assigns", READS),
    (".a -= 1", 4, "`-=` assigns", READS),
    (".a *= 1", 4, "`*=` assigns", READS),
    (".a /= 1", 4, "`/=` assigns", READS),
    (".a %= 1", 4, "`%=` assigns", READS),
    (".a //= 1", 4, "`//=` assigns", READS),
    ("del(.a)", 1, "`del` is not in the language", READS),
    ("with_entries(.)", 1, "`with_entries` is not in the language", READS),
    ("{}", 1, "objects are not built here", "arrays"),
    (".a // {}", 7, "objects are not built here", "arrays"),
    ("{a: 1}", 1, "objects are not built here", "arrays"),
    ("limit(1; .a[])", 1, "`limit` is not in the language", FIRST),
    ("until(. > 1; . + 1)", 1, "`until` is not in the language", "range(n)"),
    ("while(true; .)", 1, "`while` is not in the language", "range(n)"),
    ("[repeat(.)]", 2, "`repeat` is not in the language", "range(n)"),
    ("label $f | 1", 1, "`label` is not in the language", FIRST),
    ("break $f", 1, "`break` is not in the language", FIRST),
    ("try .a", 1, "`try` is not in the language", "put `?` after"),
    (".a catch .", 4, "`catch` is not in the language", "put `?` after"),
    ("error", 1, "`error` is not in the language", "null"),
    ("empty", 1, "`empty` is not in the language", "select(false)"),
    ("last", 1, "`last` is not in the language", ".[-1]"),
    ("sort_by(.a)", 1, "`sort_by` is not in the language", "min, max"),
    ("group_by(.a)", 1, "`group_by` is not in the language", "min, max"),
    ('contains("a")', 1, "`contains` is not in the language", "any("),
    ("values", 1, "`values` is not in the language", "select(. != null)"),
    ("tojson", 1, "`tojson` is not in the language", "tostring"),
    ("@base64", 1, "`@base64` is a format", "tostring"),
    ('@text "a"', 1, "`@text` is a format", "tostring"),
    (".a[1:2]", 5, "slices are not in the language", "single items"),
    (".a[:2]", 4, "slices are not in the language", "single items"),
    (".a[.b]", 4, "an index is a number, a string or a variable", "as $x"),
    (".a[1, 2]", 4, "an index is a number, a string or a variable", "as $x"),
    (".a[-$x]", 5, "an index is a number, a string or a variable", "as $x"),
    (".a[0.5]", 4, "`0.5` is no index", "count from 0"),
    (". as [$a] | $a", 6, "`as` binds one variable", "by path"),
    (". as {a: $a} | $a", 6, "`as` binds one variable", "by path"),
    (".a ?// 1", 4, "`?//` is not in the language", "with a space"),
    (".a?//1", 3, "`?//` is not in the language", "with a space"),
    (".a # why", 4, "comments are not in the language", "YAML"),
    ("add(.a[])", 1, "`add` takes 0 arguments, not 1", "| add"),
    ("1.0", 1, "`1.0` is not the plain form", "write it as 1"),
    ("1e3", 1, "`1e3` is not the plain form", "write it as 1000"),
    ("range(1e12)", 7, "`1e12` is not the plain form", "write it as 1000000000000"),
    (".a + 0.10", 6, "`0.10` is not the plain form", "write it as 0.1"),
    (".5", 1, "`.5` is not the plain form", "write digits"),
    ("007", 1, "`007` is not the plain form", "write digits"),
    ("9007199254740993", 1, "`9007199254740993` is not the plain form", "write it as 9007199254740992"),
    ("1e999999999", 1, "`1e999999999` is not the plain form", "write digits"),
    # What versions of jq read differently.
    (".a + 1 as $x | $x", 8, "`as` needs a term on its left", "parentheses"),
    ("-1 as $x | $x", 4, "`as` needs a term on its left", "parentheses"),
    (".a // 1 as $x | $x", 9, "`as` needs a term on its left", "parentheses"),
    ("1 == 2 == 3", 8, "comparisons do not chain", "and"),
    ("1 < 2 < 3", 7, "comparisons do not chain", "and"),
    # What is no jq.
    ("", 1, "the expression is empty", "write ."),
    (" \n", 1, "the expression is empty", "write ."),
    ("foo", 1, "there is no function `foo`", ""),
    ("lenght", 1, "there is no function `lenght`", "did you mean length?"),
    (".a | True", 6, "there is no function `True`", "did you mean true?"),
    ("has", 1, "`has` takes 1 argument, not 0", "separated by ;"),
    ('has("a"; "b")', 1, "`has` takes 1 argument, not 2", "separated by ;"),
    ("length(.a)", 1, "`length` takes 0 arguments, not 1", "separated by ;"),
    ("range(1; 2; 3; 4)", 1, "`range` takes 1 or 2 or 3 arguments, not 4", "separated by ;"),
    ("true(1)", 1, "there is no function `true`", ""),
    (".a b", 4, "`b` is not expected here", ""),
    (".a.", 4, "the end is not expected here", "must follow the dot"),
    (". a", 3, "`a` is not expected here", ""),
    (".a.0", 3, "`.0` is not expected here", "as [0]"),
    (".a . b", 6, "`b` is not expected here", "must follow the dot"),
    ("1 1", 3, "`1` is not expected here", ""),
    ('"a" "b"', 5, "a string is not expected here", ""),
    (".a |", 5, "the end is not expected here", "missing"),
    ("| .a", 1, "`|` is not expected here", "missing"),
    (".a, , .b", 5, "`,` is not expected here", "missing"),
    ("[1,]", 4, "`]` is not expected here", "missing"),
    ("()", 2, "`)` is not expected here", "missing"),
    ("(.a", 4, "the end is not expected here", "close the parenthesis"),
    ("[.a", 4, "the end is not expected here", "close the array"),
    (".a[", 4, "the end is not expected here", "an index is missing"),
    ("map(.a", 7, "the end is not expected here", "close the arguments"),
    (".a)", 3, "`)` closes nothing", ""),
    ("(.a]", 4, "`]` closes `(`", "`)`"),
    ('"a', 1, "the string does not end", "close it"),
    ('"a\\(.b"', 7, "the string does not end", "close it"),
    ('"\\q"', 2, "`\\q` is no escape", "the escapes are"),
    ('"\\u12"', 2, "`\\u` needs four", ""),
    ('"\\ud83d"', 2, "half a surrogate pair", ""),
    ('"\\udc00"', 2, "half a surrogate pair", ""),
    ('"\\ud83d\\u0041"', 2, "half a surrogate pair", ""),
    ('"\\()"', 4, "`)` is not expected here", "missing"),
    ('"a\x00b"', 3, '"\\u0000" can\'t stand in a string', "\\uXXXX"),
    ('"\ud800"', 2, "can't stand in a string", "\\uXXXX"),
    (".a\x00", 3, '"\\u0000" is not in the language', ""),
    (".é", 2, '"é" is not in the language', ""),
    ("'a'", 1, '"\'" is not in the language', "double quotes"),
    (".a && .b", 4, '"&" is not in the language', "`and`"),
    ("!.a", 1, '"!" is not in the language', "`not`"),
    ("$", 1, '"$" is not in the language', "$name"),
    (".a ; .b", 4, "`;` separates arguments", "use |"),
    (".a ? 1 : 2", 6, "`1` is not expected here", ""),
    (".a : 2", 4, "`:` is not in the language", "if"),
    ("if .a", 6, "the end is not expected here", "then"),
    ("if .a then 1", 13, "the end is not expected here", "close `if`"),
    ("if .a else 1 end", 7, "`else` is not expected here", "then"),
    ("then", 1, "`then` is not expected here", ""),
    ("1 as x | 2", 6, "`as` binds one variable", "as $x"),
    ("1 as $x", 8, "the end is not expected here", "as $x | …"),
    ("$y", 1, "the variable `$y` is not known", "there is $wg"),
    ("$gw.name", 1, "the variable `$gw` is not known", ""),
    ("(1 as $x | 2) + $x", 17, "the variable `$x` is not known", ""),
]


@pytest.mark.parametrize(("text", "column", "message", "hint"), REFUSED, ids=[repr(case[0]) for case in REFUSED])
def test_is_refused(text, column, message, hint):
    with pytest.raises(BadExpression) as caught:
        expression.compile(text, variables=["wg"])
    assert message in caught.value.message
    assert caught.value.column == column
    assert hint in caught.value.hint
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        (".spec.groups[]", 15, 'must end with " as $name"'),
        (".spec.groups[] as $g | 1", 25, 'must end with " as $name"'),
        ("as $g", 6, 'must end with " as $name"'),
        (".a as $g)", 9, "closes nothing"),
        ("(.a as $g", 5, "`as` is not expected here"),
        (".a as $ENV", 7, "`$ENV` reads the environment"),
        (".a as $x as $g", 10, "`as` is not expected here"),
        ("", 1, "must end with"),
    ],
)
def test_a_binder_is_refused(text, column, message):
    with pytest.raises(BadExpression) as caught:
        expression.compile_binder(text)
    assert message in caught.value.message
    assert caught.value.column == column
    assert caught.value.hint


def test_a_message_stays_short():
    with pytest.raises(BadExpression) as caught:
        expression.compile("x" * 500)
    assert len(caught.value.message) < 100


@pytest.mark.skipif(not THERE, reason=WHY_NOT)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_is_one_of_jq(name):
    for arguments in FUNCTIONS[name]:
        text = name + ("(" + "; ".join("." * arguments) + ")" if arguments else "")
        assert expression.compile(text)
        assert JQ.ask(text, None, {}, run=False).refused is None
