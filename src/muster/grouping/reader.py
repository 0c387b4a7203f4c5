"""Reads the expressions of one interface, and says what is wrong with them where they stand.

Every text is read once, however often it stands there. What a constant expression gives is known at once; so one that
fails, or asks for a range that is too long, is told before any workload comes.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from muster.api.documents import shown
from muster.api.validation.violation import Report
from muster.errors import BadExpression, ExpressionError
from muster.grouping.facts import Facts, Mention, facts_of
from muster.grouping.language.expression import Binder, Expression
from muster.grouping.language.limits import Limits, Meter
from muster.grouping.language.parse import parse, parse_binder
from muster.grouping.language.refusals import CONSTANTS, FUNCTIONS, REFUSED, unknown_variable
from muster.grouping.language.tokens import VARIABLE, Token
from muster.grouping.model import OWNER, POD

# Fields of metadata that people look for at the root; an owner of any kind may have the others.
_OF_METADATA = frozenset({"labels", "annotations", "name", "namespace", "uid", "generateName", "ownerReferences"})
_OF_SPEC = frozenset({"replicas", "template"})
_OF_POD = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# So many problems with expressions are told in full, then the others are not looked for.
_MOST_PROBLEMS = 500
# All expressions of an interface together, each text once: far more than anybody writes.
_MOST_CHARACTERS = 200_000
# Looking for the nearest name takes time, so only the first few get one.
_MOST_NEAREST = 32


class Place(NamedTuple):
    """What expressions mean somewhere in an interface: the variables, each with where it comes from, and the root.

    `hidden` are variables that are known elsewhere: why not here, and what to do. An `open` place has variables that
    could not be read, so that none can be called unknown.
    """

    variables: Mapping[str, str]
    root: str = OWNER
    hidden: Mapping[str, tuple[str, str]] = {}
    open: bool = False

    def inner(self, name: str, source: str) -> "Place":
        """The same place with one more variable."""
        return self._replace(variables={**self.variables, name: source})


class _Parsed(NamedTuple):
    expression: Expression
    name: str
    facts: Facts


class Reader:
    """Reads expressions, and keeps what is known about them."""

    def __init__(self, report: Report, limits: Limits) -> None:
        self._report, self._limits = report, limits
        self._parsed: dict[tuple[str, bool], _Parsed | ExpressionError] = {}
        self._facts: dict[Expression, Facts] = {}
        self._constants: dict[Expression, list[Any] | ExpressionError | None] = {}
        # What all constants together may still cost.
        self._steps = 2 * limits.steps
        self._characters = 0
        self._problems = 0

    def expression(self, text: str, path: str, place: Place) -> Expression | None:
        """The expression, or None when it was reported."""
        found = self._read(text, path, place, binder=False)
        return found.expression if found else None

    def binder(self, text: str, path: str, place: Place) -> Binder | None:
        """`<expression> as $name`, or None when it was reported."""
        found = self._read(text, path, place, binder=True)
        return Binder(found.expression, found.name) if found else None

    def facts(self, expression: Expression) -> Facts:
        """What is known of an expression that was read here."""
        return self._facts[expression]

    def constant(self, expression: Expression) -> list[Any] | None:
        """The values of an expression that are the same for every workload; None when they are not, or not known."""
        found = self._constants.get(expression)
        return found if isinstance(found, list) else None

    def repeats(self, expression: Expression) -> bool:
        """Whether it may give more than one value."""
        values = self.constant(expression)
        return self._facts[expression].several if values is None else len(values) > 1

    def _read(self, text: str, path: str, place: Place, *, binder: bool) -> _Parsed | None:
        key = (text, binder)
        if self._problems >= _MOST_PROBLEMS or self._characters > _MOST_CHARACTERS:
            return None
        if key not in self._parsed:
            self._characters += len(text)
            if self._characters > _MOST_CHARACTERS:
                message = f"its expressions have more than {_MOST_CHARACTERS:,} characters; the rest is not read"
                self._report.error("spec", message, "repeat entries with foreach, and name expressions with let")
                return None
            self._parsed[key] = self._parse(text, binder)
        found = self._parsed[key]
        if isinstance(found, ExpressionError):
            self._tell(path, found, _level(text, path) or self._right_root(text, place, found, binder))
            return None
        fine = self._check_variables(found.facts.variables, path, place)
        fine = self._check_root(found.facts.fields, text, path, place) and fine
        failed = self._constants.get(found.expression)
        if isinstance(failed, ExpressionError):
            self._tell(path, failed)
            fine = False
        return found if fine else None

    def _parse(self, text: str, binder: bool) -> _Parsed | ExpressionError:
        try:
            tree, name = parse_binder(text, None, self._limits) if binder else (parse(text, None, self._limits), "")
        except ExpressionError as error:
            return error
        facts = facts_of(tree)
        expression = Expression(text, tree)
        self._facts[expression] = facts
        if facts.constant:
            self._constants[expression] = self._evaluate(expression)
        else:
            for part in facts.ranges:
                values = self._evaluate(Expression(text, part))
                if isinstance(values, ExpressionError):
                    self._constants[expression] = values
        return _Parsed(expression, name, facts)

    def _evaluate(self, expression: Expression) -> list[Any] | ExpressionError | None:
        meter = Meter(self._limits)
        if self._steps <= 0:
            # Too many costly constants to know them all: what is wrong with the rest shows when they are asked.
            return None
        try:
            values = expression.values(None, {}, meter)
        except ExpressionError as error:
            return error
        finally:
            self._steps -= sum((self._limits.steps - meter.steps, 2 * (self._limits.visited - meter.visited), 1))
        return values

    def _check_variables(self, variables: tuple[Mention, ...], path: str, place: Place) -> bool:
        unknown = [mention for mention in variables if mention.name not in place.variables and not place.open]
        for mention in unknown:
            if mention.name in place.hidden:
                why, hint = place.hidden[mention.name]
                self._tell(path, BadExpression(f"${mention.name} {why}", mention.column, hint))
            else:
                near = self._problems < _MOST_NEAREST
                known = sorted(place.variables) if near else []
                self._tell(path, unknown_variable(Token(VARIABLE, *mention), known))
        return not unknown

    def _check_root(self, fields: tuple[Mention, ...], text: str, path: str, place: Place) -> bool:
        """Whether paths start with a field that the root has. Of an owner only the usual mistakes are known."""
        fine = True
        for field in fields:
            above = "metadata" if field.name in _OF_METADATA else "spec" if field.name in _OF_SPEC else ""
            hint = f"write {_shortened(text, field, above)}" if above else ""
            if place.root == POD and field.name not in _OF_POD:
                hint = hint or "a Pod has metadata, spec and status"
                what = f"a Pod has no field {shown(field.name)}: this path is rooted at the pod"
                self._tell(path, BadExpression(what, field.column, hint))
                fine = False
            elif place.root == OWNER and above:
                what = f"few objects have {shown(field.name)} at their root (column {field.column})"
                self._report.warn(path, what, f"perhaps {hint[6:]}")
        return fine

    def _right_root(self, text: str, place: Place, error: ExpressionError, binder: bool) -> str:
        """How to write a path that lacks its root, or has the one of another language; nothing if that is not it."""
        if not isinstance(error, BadExpression) or self._problems >= _MOST_NEAREST:
            return ""
        word = _WORD.match(text)
        candidates = []
        if word and word[0] in place.variables:
            candidates.append(f"${text}")
        if word and word[0] not in FUNCTIONS and word[0] not in CONSTANTS and word[0] not in REFUSED:
            candidates.append(f".{text}")
        if text.startswith("$."):
            candidates.append(text[1:])
        if text.startswith("{") and text.endswith("}"):
            candidates += [text[1:-1], f".{text[1:-1]}"]
        for candidate in candidates:
            try:
                _ = parse_binder(candidate, None, self._limits) if binder else parse(candidate, None, self._limits)
            except ExpressionError:
                continue
            return f"write {candidate if len(candidate) <= 80 else candidate[:77] + '...'}"
        return ""

    def _tell(self, path: str, error: ExpressionError, hint: str = "") -> None:
        self._problems += 1
        where = f" (column {error.column})" if error.column else ""
        self._report.error(path, f"{error.message}{where}", hint or error.hint)
        if self._problems == _MOST_PROBLEMS:
            message = f"has {_MOST_PROBLEMS} problems in its expressions; further ones are not looked for"
            self._report.error("spec", message, "mend these first")


def _level(text: str, path: str) -> str:
    """How to write a level or a topology by its name, where an expression is expected."""
    if "opology" not in path or not re.fullmatch(r"[a-z0-9][-a-z0-9./]*", text):
        return ""
    return f"""for {text} itself write '"{text}"', for a field .{text}"""


def _shortened(text: str, field: Mention, above: str) -> str:
    """The text with the field where it belongs, cut to what fits in a sentence."""
    at = field.column - 1
    right = f"{text[:at]}.{above}{text[at:]}"
    return right if len(right) <= 80 else f".{above}.{field.name}"
