"""Tokens become a tree. The grammar is what jq 1.7 and 1.8 agree on, and stops with a column at everything else.

From loose to tight: `|`, `,`, `//`, `or`, `and`, one comparison, `+ -`, `* / %`, minus, and a term with its path.
`<term> as $x | …` stands where a pipe or comma leaves room for a whole expression, and reaches to the end of it.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, TypeVar

from muster.errors import BadExpression
from muster.grouping.language import syntax, tokens
from muster.grouping.language.limits import Limits, over
from muster.grouping.language.numbers import read_number
from muster.grouping.language.refusals import (
    CONSTANTS,
    FUNCTIONS,
    bad_call,
    check_variable,
    unexpected,
    unknown_variable,
)
from muster.grouping.language.syntax import Node
from muster.grouping.language.tokens import Token

N = TypeVar("N", bound=Node)

# How tightly the operators hold. Comparisons do not chain, `//` groups to the right, the rest to the left.
_ALTERNATIVE, _OR, _AND, _COMPARISON, _SUM, _PRODUCT = range(1, 7)
_TIGHTNESS = {
    "//": _ALTERNATIVE,
    "or": _OR,
    "and": _AND,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), _COMPARISON),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/%", _PRODUCT),
}


def parse(text: str, variables: Collection[str] | None, limits: Limits) -> Node:
    """The tree of an expression. `variables` are those in scope; None allows every name."""
    parser = _Parser(_tokens(text, limits), variables, limits)
    return parser.whole()


def parse_binder(text: str, variables: Collection[str] | None, limits: Limits) -> tuple[Node, str]:
    """The tree of `<expression> as $x`, where the last ` as $x` names what each value is, and the name.

    A list that is missing is empty here, which it is not to jq.
    """
    found = _tokens(text, limits)
    if len(found) < 4 or found[-3].kind != "as" or found[-2].kind != tokens.VARIABLE:
        raise BadExpression('must end with " as $name"', found[-1].column, 'for example ".spec.groups[] as $g"')
    name = found[-2]
    check_variable(name)
    parser = _Parser([*found[:-3], Token(tokens.END, "as", found[-3].column)], variables, limits)
    parser.missing = True
    return parser.whole(), name.value


def _tokens(text: str, limits: Limits) -> list[Token]:
    if len(text) > limits.characters:
        over(f"is {len(text)} characters long", "characters", limits, limits.characters + 1)
    return tokens.tokens(text)


class _Parser:
    """Recursive descent over the tokens. `level` counts what is open, so that no nesting can exhaust the stack."""

    def __init__(self, found: list[Token], variables: Collection[str] | None, limits: Limits) -> None:
        self.tokens, self.at, self.level = found, 0, 0
        self.variables, self.limits = variables, limits
        self.bound: list[str] = []
        # From which to which token the last whole term reached.
        self.last_term = (0, 0)
        # Whether null has no items.
        self.missing = False

    def whole(self) -> Node:
        """Everything up to the end."""
        if self.current.kind == tokens.END:
            raise BadExpression("the expression is empty", 1, "write . for the object itself")
        node = self.pipe()
        if self.current.kind == "as":
            raise self._misplaced_as()
        if self.current.kind != tokens.END:
            raise unexpected(self.current)
        return node

    @property
    def current(self) -> Token:
        return self.tokens[self.at]

    def take(self, *kinds: str) -> Token | None:
        """The current token, if it is of one of the kinds; then the next is current."""
        token = self.tokens[self.at]
        if token.kind not in kinds:
            return None
        self.at += 1
        return token

    def need(self, kind: str, wanted: str) -> Token:
        """The current token, which must be of this kind."""
        token = self.take(kind)
        if token is None:
            if self.current.kind == "as":
                raise self._misplaced_as()
            raise unexpected(self.current, wanted)
        return token

    def made(self, kind: Callable[..., N], column: int, *parts: Any, deeper: int = 1) -> N:
        """A node, with the depth and size that its parts give it."""
        nodes: list[Node] = []
        for part in parts:
            nodes.extend(part if isinstance(part, tuple) else [part] if isinstance(part, Node) else [])
        depth = deeper + max((node.depth for node in nodes), default=0)
        if depth > self.limits.nesting:
            self._too_deep(column)
        return kind(column, depth, 1 + sum(node.size for node in nodes), *parts)

    def _too_deep(self, column: int) -> None:
        over("is nested too deep", "nesting", self.limits, column)

    def pipe(self) -> Node:
        """`a | b | …`: the loosest form."""
        parts = [self.comma()]
        while self.take("|"):
            parts.append(self.comma())
        node = parts.pop()
        while parts:
            left = parts.pop()
            node = self.made(syntax.Pipe, left.column, left, node)
        return node

    def comma(self) -> Node:
        """`a, b, …`"""
        parts = [self.element()]
        while self.take(","):
            parts.append(self.element())
        if len(parts) == 1:
            return parts[0]
        return self.made(syntax.Comma, parts[0].column, tuple(parts))

    def element(self) -> Node:
        """An operand of a comma: operators, or `<term> as $x | …`, which takes all that follows."""
        start = self.at
        node = self.operators(_ALTERNATIVE)
        if self.current.kind != "as":
            return node
        if self.last_term != (start, self.at):
            raise self._misplaced_as()
        self.take("as")
        name = self.take(tokens.VARIABLE)
        if name is None:
            hint = "take the parts out by path" if self.current.kind in ("[", "{") else "write `as $x | …`"
            raise BadExpression("`as` binds one variable", self.current.column, hint)
        check_variable(name)
        self.need("|", "write `as $x | …`")
        self.bound.append(name.value)
        body = self.pipe()
        self.bound.pop()
        return self.made(syntax.Bind, node.column, node, name.value, body)

    def _misplaced_as(self) -> BadExpression:
        what = "`as` needs a term on its left, and versions of jq disagree on anything else"
        return BadExpression(what, self.current.column, "put what is left of it in parentheses: `( … ) as $x | …`")

    def operators(self, tightness: int) -> Node:
        """Operands and the operators between them that hold at least this tightly."""
        self.level += 1
        if self.level > self.limits.nesting:
            self._too_deep(self.current.column)
        minus = self.take("-")
        if minus:
            left: Node = self.made(syntax.Negate, minus.column, self.operators(_PRODUCT))
        else:
            left = self.term()
        compared = False
        while True:
            operator = self.current
            holds = _TIGHTNESS.get(operator.kind, 0)
            if holds < tightness or not holds:
                break
            if holds == _COMPARISON and compared:
                raise BadExpression("comparisons do not chain", operator.column, "join two of them with `and`")
            compared = holds == _COMPARISON
            self.at += 1
            right = self.operators(holds if holds == _ALTERNATIVE else holds + 1)
            left = self._joined(operator, left, right)
        self.level -= 1
        return left

    def _joined(self, operator: Token, left: Node, right: Node) -> Node:
        column = operator.column
        if operator.kind == "//":
            return self.made(syntax.Alternative, column, left, right)
        kind = syntax.Logic if operator.kind in ("and", "or") else syntax.Binary
        return self.made(kind, column, operator.kind, left, right)

    def term(self) -> Node:
        """One thing, and the path that follows it."""
        start, token = self.at, self.current
        self.at += 1
        match token.kind:
            case tokens.FIELD:
                node = self._index(token.column, self._here(token), self._key(token))
            case ".":
                node = (
                    self._after_dot(token, self._here(token))
                    if self.current.kind == tokens.QUOTE
                    else self._here(token)
                )
            case tokens.NUMBER:
                node = self.made(syntax.Literal, token.column, read_number(token.value, token.column))
            case tokens.QUOTE:
                node = self._string(token)
            case tokens.VARIABLE:
                node = self._variable(token)
            case "(":
                node = self.pipe()
                self.need(")", "close the parenthesis with )")
            case "[":
                node = self._array(token)
            case "if":
                node = self._choice(token)
            case tokens.NAME:
                node = self._name(token)
            case _:
                wanted = "an expression is missing before it" if token.kind != tokens.END else "something is missing"
                raise unexpected(token, wanted)
        node = self._path(node, step=token.kind in (tokens.FIELD, "."))
        self.last_term = (start, self.at)
        return node

    def _here(self, token: Token) -> Node:
        return self.made(syntax.Here, token.column)

    def _key(self, token: Token) -> Node:
        return self.made(syntax.Literal, token.column, token.value)

    def _index(self, column: int, of: Node, key: Node) -> Node:
        return self.made(syntax.Index, column, of, key, False, deeper=0 if isinstance(key, syntax.Literal) else 1)

    def _path(self, node: Node, step: bool) -> Node:
        """The steps after a term. `step`: the term's last part is itself a step, so that `?` is about that alone."""
        while True:
            token = self.current
            if token.kind == tokens.FIELD:
                self.at += 1
                node, step = self._index(token.column, node, self._key(token)), True
            elif token.kind == ".":
                self.at += 1
                node, step = self._after_dot(token, node), True
            elif token.kind == "[":
                self.at += 1
                node, step = self._bracket(token, node), True
            elif token.kind == "?":
                self.at += 1
                if step and isinstance(node, syntax.Index | syntax.Each):
                    node, step = replace(node, optional=True, depth=node.depth + 1), False
                else:
                    node = self.made(syntax.Attempt, token.column, node)
            else:
                return node

    def _after_dot(self, dot: Token, of: Node) -> Node:
        """`."key"` and `.[…]` after a term."""
        quote = self.take(tokens.QUOTE)
        if quote:
            return self._index(dot.column, of, self._string(quote))
        bracket = self.take("[")
        if bracket:
            return self._bracket(bracket, of)
        raise unexpected(self.current, 'a name, a "string" or [ must follow the dot at once')

    def _bracket(self, bracket: Token, of: Node) -> Node:
        """`[]`, `[0]`, `[-1]`, `["key"]`, `[$x]`"""
        if self.take("]"):
            return self.made(syntax.Each, bracket.column, of, False, self.missing)
        minus = self.take("-")
        token = self.current
        if token.kind == ":":
            raise self._slice(token)
        if token.kind in (tokens.NUMBER, tokens.VARIABLE, tokens.QUOTE) and (not minus or token.kind == tokens.NUMBER):
            self.at += 1
            key = self._index_key(token, bool(minus))
            if self.current.kind == "]":
                self.at += 1
                return self._index(bracket.column, of, key)
            if self.current.kind == ":":
                raise self._slice(self.current)
        if token.kind in (tokens.END, "]"):
            raise unexpected(token, 'an index is missing: [0], ["key"], [$x], or [] for every item')
        hint = "bind it: `( … ) as $x | .list[$x]`"
        raise BadExpression("an index is a number, a string or a variable", token.column, hint)

    def _index_key(self, token: Token, negative: bool) -> Node:
        if token.kind == tokens.QUOTE:
            return self._string(token)
        if token.kind == tokens.VARIABLE:
            return self._variable(token)
        number = read_number(token.value, token.column)
        if not isinstance(number, int):
            raise BadExpression(f"{token} is no index", token.column, "count from 0, or from -1 at the end")
        return self.made(syntax.Literal, token.column, -number if negative else number)

    def _slice(self, token: Token) -> BadExpression:
        return BadExpression("slices are not in the language", token.column, "take single items, or `range` over them")

    def _string(self, quote: Token) -> Node:
        """What stands between the quotes, from the token after the first."""
        parts: list[Node] = []
        while not self.take(tokens.UNQUOTE):
            token = self.current
            self.at += 1
            if token.kind == tokens.INSERT:
                parts.append(self.pipe())
                self.need(tokens.INSERTED, "close \\( with )")
            else:
                parts.append(self._key(token))
        if not parts:
            return self.made(syntax.Literal, quote.column, "")
        if len(parts) == 1 and isinstance(parts[0], syntax.Literal) and self.tokens[self.at - 2].kind == tokens.TEXT:
            return parts[0]
        return self.made(syntax.Template, quote.column, tuple(parts))

    def _variable(self, token: Token) -> Node:
        check_variable(token)
        known = self.variables
        if known is not None and token.value not in self.bound and token.value not in known:
            raise unknown_variable(token, sorted({*self.bound, *known}))
        return self.made(syntax.Variable, token.column, token.value)

    def _array(self, bracket: Token) -> Node:
        if self.take("]"):
            return self.made(syntax.Array, bracket.column, None)
        body = self.pipe()
        self.need("]", "close the array with ]")
        return self.made(syntax.Array, bracket.column, body)

    def _choice(self, start: Token) -> Node:
        """From the condition to `end`; each `elif` is a choice in the place of `else`."""
        pairs: list[tuple[Token, Node, Node]] = []
        word: Token | None = start
        while word:
            condition = self.pipe()
            self.need("then", "write `if … then … end`")
            pairs.append((word, condition, self.pipe()))
            word = self.take("elif")
        otherwise = self.pipe() if self.take("else") else None
        self.need("end", "close `if` with end")
        for word, condition, then in reversed(pairs):
            otherwise = self.made(syntax.Choice, word.column, condition, then, otherwise)
        assert otherwise is not None
        return otherwise

    def _name(self, name: Token) -> Node:
        """A constant, or a call of a function."""
        if self.current.kind == "(" and name.value in FUNCTIONS:
            self.at += 1
            arguments = [self.pipe()]
            while self.take(";"):
                arguments.append(self.pipe())
            self.need(")", "close the arguments with )")
        else:
            arguments = []
            if name.value in CONSTANTS and self.current.kind != "(":
                return self.made(syntax.Literal, name.column, CONSTANTS[name.value])
        if name.value not in FUNCTIONS or len(arguments) not in FUNCTIONS[name.value]:
            raise bad_call(name, len(arguments))
        return self.made(syntax.Call, name.column, name.value, tuple(arguments))
