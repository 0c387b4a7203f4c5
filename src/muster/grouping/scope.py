"""The one place where expressions are asked about a workload: what variables mean, and which of several values counts.

Lets and references are found when somebody asks for them, once. What an expression can't answer is a Trouble that names
the field it stands in. A listener, if there is one, hears every expression with its values.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from muster.api.documents import shown
from muster.errors import BadValue, ExpressionError
from muster.grouping.language.expression import Binder, Expression
from muster.grouping.language.limits import Meter
from muster.grouping.language.numbers import as_count
from muster.grouping.language.values import text_of
from muster.grouping.model import Object, Question
from muster.grouping.trouble import Trouble

T = TypeVar("T")

_PLAIN = (str, int, float, bool)


class Heard(NamedTuple):
    """An expression that was asked, and what it gave. `place` is the SubGroup that it was asked for, if it was one."""

    place: str
    path: str
    expression: str
    values: tuple[Any, ...]


class Listener:
    """Hears every expression that is asked, and remembers it."""

    def __init__(self) -> None:
        self.place = ""
        self.heard: list[Heard] = []

    def hear(self, path: str, expression: Expression, values: Sequence[Any]) -> None:
        """An expression was asked for the SubGroup at `place`."""
        self.heard.append(Heard(self.place, path, expression.text, tuple(values)))


class Scope(dict[str, Any]):
    """The variables at one place of an interface, and the questions that can be asked there.

    `find` gives lets and references by name when they are first needed; `root` is what `.` means.
    """

    def __init__(
        self,
        root: Object,
        meter: Meter,
        find: Callable[[str], Any],
        listener: Listener | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(variables or {})
        self._root, self._meter, self._find, self._listener = root, meter, find, listener
        # The place around this one, the variable that is only known here, and what was asked here from further in.
        self._outer: Scope | None = None
        self._bound = ""
        self._answers: dict[tuple[Any, str], tuple[Any, list[Heard]]] = {}

    def __missing__(self, name: str) -> Any:
        value = self[name] = self._find(name)
        return value

    def inner(self, name: str, value: Any) -> "Scope":
        """The same place with one more variable."""
        scope = Scope(self._root, self._meter, self.__getitem__, self._listener)
        scope.update(self)
        scope[name] = value
        scope._outer, scope._bound = self, name
        return scope

    def _once(self, question: Question, ask: "Callable[[Scope, Question], T]") -> T:
        """Asks where the last variable of the question is known: what is the same in all repetitions is asked once."""
        home = self
        while home._outer is not None and not any(home._bound in one.variables for one in question.expressions):
            home = home._outer
        if home is self:
            return ask(self, question)
        key, listener = (ask, question.path), self._listener
        answer: T
        if key not in home._answers:
            before = len(listener.heard) if listener else 0
            answer = ask(home, question)
            home._answers[key] = answer, listener.heard[before:] if listener else []
            return answer
        answer, heard = home._answers[key]
        if listener is not None:
            # Heard for each place, at no more cost: to explain a gang must not exhaust what its expressions may cost.
            listener.heard += [one._replace(place=listener.place) for one in heard]
        return answer

    def count(self, question: Question | None) -> int | None:
        """A number of things; several values of one path add up. None when nothing gives a number."""
        if question is None:
            return None
        if question.literal is not None:
            return int(question.literal)
        return self._once(question, Scope._count)

    def _count(self, question: Question) -> int | None:
        found = None
        for expression, values in self._asked(question):
            try:
                counts = [as_count(value) for value in values if value is not None]
            except BadValue as error:
                raise _trouble(question.path, expression, error) from None
            if counts:
                found = sum(counts)
                if found > 0 or not question.positive:
                    break
        return found

    def text(self, question: Question | None) -> str | None:
        """A text; several values of one path must agree. None when nothing gives one."""
        if question is None:
            return None
        if question.literal is not None:
            return str(question.literal)
        return self._once(question, Scope._text)

    def _text(self, question: Question) -> str | None:
        for expression, values in self._asked(question):
            found = dict.fromkeys(self._plain(value, question, expression) for value in values if value is not None)
            if len(found) > 1:
                several = ", ".join(shown(text) for text in list(found)[:4])
                message = f"{expression.text} gives several values that differ: {several}"
                raise Trouble(message, "choose one, for example with first(…)", path=question.path)
            if found:
                return next(iter(found))
        return None

    def texts(self, question: Question) -> tuple[str, ...]:
        """All texts of the first path that gives any; an array stands for its items."""
        if question.literal is not None:
            return (str(question.literal),)
        return self._once(question, Scope._texts)

    def _texts(self, question: Question) -> tuple[str, ...]:
        for expression, values in self._asked(question):
            flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
            found = tuple(self._plain(value, question, expression) for value in flat if value is not None)
            if found:
                return found
        return ()

    def truth(self, question: Question | None) -> bool:
        """Whether a condition holds; a question that nobody asked does. Null and false do not, nor does no value."""
        return question is None or self._once(question, Scope._truth)

    def _truth(self, question: Question) -> bool:
        return any(
            value is not None and value is not False for _, values in self._asked(question) for value in values[:1]
        )

    def value(self, question: Question) -> Any:
        """The only value; null when there is none. Several are a Trouble."""
        for expression, values in self._asked(question):
            if len(values) > 1:
                message = f"{expression.text} gives {len(values)} values where one is needed"
                raise Trouble(message, "put [ ] around it to get one array", path=question.path)
            return values[0] if values else None
        return question.literal

    def repeated(self, binder: Binder, path: str) -> Iterator[tuple[Any, "Scope"]]:
        """What an entry is repeated for, each with the place where its variable has that value."""
        values = self._values(path, binder.expression)
        if len(values) == 1 and isinstance(values[0], list) and "[]" not in binder.expression.text:
            source = binder.expression.text.rpartition(" as ")[0].strip()
            message = f"{binder.expression.text} gives one array, and an entry is repeated for each value"
            raise Trouble(message, f"write {source}[] as ${binder.name}", path=path)
        for value in values:
            yield value, self.inner(binder.name, value)

    def _asked(self, question: Question) -> Iterator[tuple[Expression, list[Any]]]:
        several = len(question.expressions) > 1
        for number, expression in enumerate(question.expressions):
            yield expression, self._values(f"{question.path}[{number}]" if several else question.path, expression)

    def _values(self, path: str, expression: Expression) -> list[Any]:
        try:
            values = expression.values(self._root, self, self._meter)
        except ExpressionError as error:
            raise _trouble(path, expression, error) from None
        if self._listener is not None:
            self._listener.hear(path, expression, values)
        return values

    def _plain(self, value: Any, question: Question, expression: Expression) -> str:
        if not isinstance(value, _PLAIN):
            message = f"{expression.text} gives {shown(value)} where a text is needed"
            raise Trouble(message, "name a field of it", path=question.path)
        try:
            return text_of(value, self._meter, 0)
        except ExpressionError as error:
            raise _trouble(question.path, expression, error) from None


def _trouble(path: str, expression: Expression, error: ExpressionError) -> Trouble:
    where = f" (column {error.column})" if error.column else ""
    text = expression.text if len(expression.text) <= 120 else expression.text[:117] + "..."
    return Trouble(f"{text}: {error.message}{where}", error.hint, path=path)
