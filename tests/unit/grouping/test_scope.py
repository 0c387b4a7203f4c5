"""Asking a workload: which of several values counts, what variables mean, and what is told when nothing fits."""

import pytest

from muster.grouping.language import expression
from muster.grouping.language.limits import Limits, Meter
from muster.grouping.model import Question
from muster.grouping.scope import Heard, Listener, Scope
from muster.grouping.trouble import Trouble

ROOT = {
    "zero": 0,
    "one": 1,
    "two": 2.0,
    "half": 0.5,
    "minus": -1,
    "huge": 1e300,
    "null": None,
    "text": "a",
    "empty": "",
    "yes": True,
    "no": False,
    "counts": [3, None, 4],
    "zeros": [0, 0],
    "nulls": [None, None],
    "nothing": [],
    "same": ["b", "b", None],
    "mixed": ["b", 1, True, 0.5],
    "object": {"k": 1},
}


def nobody(name):
    raise AssertionError(f"nobody asked for ${name}")


def scope(find=nobody, listener=None, limits=None, **variables):
    return Scope(ROOT, Meter(limits or Limits()), find, listener, variables)


def question(*texts, **fields):
    return Question("spec.here", expressions=tuple(expression.compile(text) for text in texts), **fields)


def refused(ask, *arguments):
    with pytest.raises(Trouble) as caught:
        ask(*arguments)
    assert caught.value.retry is False
    return caught.value


class TestCount:
    @pytest.mark.parametrize(
        ("paths", "count"),
        [
            pytest.param([".one"], 1, id="a number"),
            pytest.param([".two"], 2, id="a whole float"),
            pytest.param([".zero", ".one"], 0, id="zero is a value"),
            pytest.param([".null", ".one"], 1, id="null is none"),
            pytest.param([".missing.deep", ".one"], 1, id="a missing field is none"),
            pytest.param([".nothing[]", ".one"], 1, id="no value is none"),
            pytest.param([".nulls[]", ".one"], 1, id="nulls alone are none"),
            pytest.param([".one", ".text"], 1, id="what comes after the first that gives a value is not asked"),
            pytest.param([".counts[]"], 7, id="several values add up, nulls are passed over"),
            pytest.param([".counts[]", ".one"], 7, id="also the first of several"),
            pytest.param([".null", ".missing"], None, id="nothing at all"),
        ],
    )
    def test_the_first_value_counts(self, paths, count):
        found = scope().count(question(*paths))
        assert found == count
        assert type(found) is type(count)

    @pytest.mark.parametrize(
        ("paths", "count"),
        [
            pytest.param([".zero", ".one"], 1, id="zero is passed over"),
            pytest.param([".zeros[]", ".null", ".two"], 2, id="a sum of zero too"),
            pytest.param([".one", ".two"], 1, id="the first that is positive"),
            pytest.param([".null", ".zero"], 0, id="nothing but zero is zero"),
            pytest.param([".zero", ".null"], 0, id="zero, and then nothing"),
            pytest.param([".null"], None, id="nothing at all"),
        ],
    )
    def test_first_positive(self, paths, count):
        assert scope().count(question(*paths, positive=True)) == count

    def test_literals_and_what_is_not_asked(self):
        assert scope().count(Question("p", literal=3)) == 3
        assert scope().count(Question("p", literal="3")) == 3
        assert scope().count(Question("p", literal=0)) == 0
        assert scope().count(None) is None

    @pytest.mark.parametrize("path", [".half", ".minus", ".huge", ".text", ".yes", ".object", ".counts", ".mixed[]"])
    def test_what_is_no_count_is_told_with_its_place(self, path):
        trouble = refused(scope().count, question(".null", path))
        assert trouble.path == "spec.here"
        assert trouble.message.startswith(f"{path}: ")

    def test_an_error_inside_names_the_path_of_the_list_and_the_column(self):
        """A list of one is written without a number, as people write it."""
        trouble = refused(scope().count, question(".null", ".one | .text"))
        assert trouble.path == "spec.here[1]"
        assert "column" in trouble.message
        assert refused(scope().count, question(".text.deep")).path == "spec.here"


class TestText:
    @pytest.mark.parametrize(
        ("paths", "text"),
        [
            pytest.param([".text"], "a", id="a text"),
            pytest.param([".empty", ".text"], "", id="an empty text is a value"),
            pytest.param([".null", ".text"], "a", id="null is none"),
            pytest.param([".nulls[]", ".text"], "a", id="nulls alone are none"),
            pytest.param([".same[]"], "b", id="several that agree"),
            pytest.param([".one"], "1", id="a number"),
            pytest.param([".two"], "2", id="a whole float as jq writes it"),
            pytest.param([".half"], "0.5", id="a fraction"),
            pytest.param([".yes"], "true", id="true"),
            pytest.param([".no", ".text"], "false", id="false is a value"),
            pytest.param([".missing"], None, id="nothing"),
        ],
    )
    def test_the_first_value_counts(self, paths, text):
        assert scope().text(question(*paths)) == text

    def test_literals_and_what_is_not_asked(self):
        assert scope().text(Question("p", literal="x")) == "x"
        assert scope().text(Question("p", literal="")) == ""
        assert scope().text(None) is None

    def test_several_that_differ_are_told(self):
        trouble = refused(scope().text, question(".null", ".mixed[]"))
        assert trouble.message == '.mixed[] gives several values that differ: "b", "1", "true", "0.5"'
        assert trouble.hint
        assert trouble.path == "spec.here"
        refused(scope().text, question(".text, .same[]"))

    @pytest.mark.parametrize("path", [".object", ".counts"])
    def test_only_plain_values_are_texts(self, path):
        trouble = refused(scope().text, question(path))
        assert trouble.message.startswith(f"{path} gives ")
        assert "where a text is needed" in trouble.message
        assert trouble.path == "spec.here"


class TestTexts:
    @pytest.mark.parametrize(
        ("paths", "texts"),
        [
            pytest.param([".text"], ("a",), id="one"),
            pytest.param([".same"], ("b", "b"), id="an array stands for its items"),
            pytest.param([".mixed[]"], ("b", "1", "true", "0.5"), id="several values"),
            pytest.param([".nothing", ".nulls", ".text"], ("a",), id="the first that gives any"),
            pytest.param([".text, .same"], ("a", "b", "b"), id="values and arrays"),
            pytest.param([".null"], (), id="none"),
        ],
    )
    def test_all_texts_of_one_path(self, paths, texts):
        assert scope().texts(question(*paths)) == texts

    def test_a_literal(self):
        assert scope().texts(Question("p", literal="x")) == ("x",)

    def test_only_plain_values_are_texts(self):
        assert "where a text is needed" in refused(scope().texts, question("[.counts]")).message


class TestTruth:
    @pytest.mark.parametrize(
        ("text", "holds"),
        [
            (".yes", True),
            (".zero", True),
            (".empty", True),
            (".object", True),
            (".no", False),
            (".null", False),
            (".nothing[]", False),
            (".no, .yes", False),
            (".yes, .no", True),
        ],
    )
    def test_as_jq_sees_it(self, text, holds):
        """Null and false do not hold, everything else does; the first value decides."""
        assert scope().truth(question(text)) is holds

    def test_no_condition_holds(self):
        assert scope().truth(None) is True


class TestValue:
    def test_the_only_one(self):
        assert scope().value(question(".object")) == {"k": 1}
        assert scope().value(question(".nothing[]")) is None
        assert scope().value(Question("p", literal="x")) == "x"

    def test_several_are_told(self):
        trouble = refused(scope().value, question(".counts[]"))
        assert trouble.message == ".counts[] gives 3 values where one is needed"
        assert trouble.path == "spec.here"
        assert trouble.hint


class TestVariables:
    def test_they_are_found_when_they_are_needed_and_once(self):
        asked = []

        def find(name):
            asked.append(name)
            return 7

        here = scope(find)
        assert here.count(question(".one")) == 1
        assert asked == []
        inner = here.inner("x", 1)
        assert inner.count(question("$n + $x")) == 8
        assert inner.inner("y", 1).count(question("$n")) == here.count(question("$n")) == 7
        assert asked == ["n"]

    def test_an_inner_place_hides_nothing_and_changes_nothing_outside(self):
        outer = scope(x="out", y="far")
        inner = outer.inner("x", "in")
        assert inner.texts(question("$x, $y")) == ("in", "far")
        assert outer.texts(question("$x, $y")) == ("out", "far")

    def test_a_variable_may_be_null(self):
        assert scope(nobody, x=None).text(question("$x", ".text")) == "a"

    def test_repeated(self):
        """Each value in order, with the place where the variable has it."""
        binder = expression.compile_binder(".counts[] as $n")
        found = [(value, inner["n"], inner["z"]) for value, inner in scope(z=0).repeated(binder, "spec.each.foreach")]
        assert found == [(3, 3, 0), (None, None, 0), (4, 4, 0)]
        missing = expression.compile_binder(".missing[] as $n")
        assert list(scope().repeated(missing, "spec.each.foreach")) == []
        trouble = refused(list, scope().repeated(expression.compile_binder(".text[] as $n"), "spec.each.foreach"))
        assert trouble.path == "spec.each.foreach"


def test_one_meter_for_all_questions():
    """A hundred questions that are cheap one by one come to their end together, and the end names the setting."""
    here = scope(limits=Limits(steps=100))
    asked = question(".one + .two + $x")
    assert here.inner("x", 1).count(asked) == 4
    trouble = refused(lambda: [here.inner("x", 1).count(asked) for _ in range(100)])
    assert trouble.path == "spec.here"
    assert "grouping.expressions.steps" in trouble.message + trouble.hint


def test_a_long_expression_is_told_short():
    text = ".text[" + " " * 500 + "0]"
    message = refused(scope().count, question(text)).message
    assert len(message) < 300
    assert "..." in message


def test_a_listener_hears_every_expression_with_its_values():
    listener = Listener()
    here = scope(listener=listener)
    listener.place = "workers"
    here.count(question(".null", ".one", ".two"))
    listener.place = ""
    here.inner("x", 5).text(question("$x"))
    assert listener.heard == [
        Heard("workers", "spec.here[0]", ".null", (None,)),
        Heard("workers", "spec.here[1]", ".one", (1,)),
        Heard("", "spec.here", "$x", (5,)),
    ]
