"""Text becomes tokens, by the longest match as in jq: also those that the language then refuses, to say so in place."""

import re
from typing import Any, NamedTuple

from muster.api.documents import shown
from muster.errors import BadExpression

# Kinds of tokens. Operators and brackets are their own kind, and so are words that are no names.
NAME, FIELD, VARIABLE, NUMBER, FORMAT = "name", "field", "variable", "number", "format"
QUOTE, TEXT, INSERT, INSERTED, UNQUOTE, END = "quote", "text", "insert", "inserted", "unquote", "the end"

WORDS = frozenset(
    {
        *("and", "as", "break", "catch", "def", "elif", "else", "end", "foreach", "if", "import", "include", "label"),
        *("__loc__", "module", "or", "reduce", "then", "try"),
    }
)
_OPERATORS = (
    *("?//", "//="),
    *("!=", "==", "//", "|=", "+=", "-=", "*=", "/=", "%=", "<=", ">=", ".."),
    *".?=;,:|+-*/%<>",
)
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_SPACE = " \t\n\r"
# None of these can backtrack: every character is decided by itself.
_WORD = re.compile(r"[a-zA-Z_][a-zA-Z_0-9]*")
_DIGITS = re.compile(r"[0-9]*")
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_IN_TEXT = '"\\'


class Token(NamedTuple):
    """A piece of the text: what it is, what it says, and its column, from 1."""

    kind: str
    value: Any
    column: int

    def __str__(self) -> str:
        match self.kind:
            case "the end":
                return f"`{self.value}`" if self.value else self.kind
            case "name" | "number":
                return f"`{self.value[:60]}`"
            case "field" | "variable" | "format":
                return f"`{_SIGILS[self.kind]}{self.value[:60]}`"
            case "quote" | "unquote" | "text":
                return "a string"
            case "inserted":
                return "`)`"
        return f"`{self.kind}`"


_SIGILS = {FIELD: ".", VARIABLE: "$", FORMAT: "@"}


def tokens(text: str) -> list[Token]:
    """All tokens of the text; the last is the end. Raises BadExpression at a character that starts none."""
    return _Scanner(text).run()


class _Scanner:
    """One pass over the text. `open` holds the brackets that wait for their end; a quote is one of them."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.found: list[Token] = []
        self.open: list[str] = []

    def run(self) -> list[Token]:
        while self.at < len(self.text):
            if self.open and self.open[-1] == '"':
                self._in_text()
            elif self.text[self.at] in _SPACE:
                self.at += 1
            else:
                self._outside()
        if '"' in self.open:
            raise BadExpression("the string does not end", self._last(QUOTE), 'close it with "')
        self._add(END, None, 0)
        return self.found

    def _add(self, kind: str, value: Any, length: int) -> None:
        self.found.append(Token(kind, value, self.at + 1))
        self.at += length

    def _last(self, kind: str) -> int:
        return max(token.column for token in self.found if token.kind == kind)

    def _outside(self) -> None:
        char = self.text[self.at]
        following = self.text[self.at + 1 : self.at + 2]
        word = _WORD.match(self.text, self.at)
        if word:
            self._word(word[0])
        elif _is_digit(char) or (char == "." and _is_digit(following)):
            self._number()
        elif char == '"':
            self.open.append(char)
            self._add(QUOTE, char, 1)
        elif char in _CLOSES:
            self.open.append(char)
            self._add(char, char, 1)
        elif char in ")]}":
            self._close(char)
        elif char in ".$@" and (word := _WORD.match(self.text, self.at + 1)):
            self._add({".": FIELD, "$": VARIABLE, "@": FORMAT}[char], word[0], len(word[0]) + 1)
            if char == "$":
                self._no_module()
        else:
            self._operator(char)

    def _word(self, word: str) -> None:
        kind = word if word in WORDS else NAME
        self._add(kind, word, len(word))
        self._no_module()

    def _no_module(self) -> None:
        if self.text.startswith("::", self.at):
            raise BadExpression("`::` names a module, and there are none", self.at + 1, "use what is built in")

    def _number(self) -> None:
        end = _DIGITS.match(self.text, self.at).end()  # type: ignore[union-attr]
        if self.text[end : end + 1] == ".":
            end = _DIGITS.match(self.text, end + 1).end()  # type: ignore[union-attr]
        if self.text[end : end + 1] in ("e", "E"):
            signed = end + 2 if self.text[end + 1 : end + 2] in ("+", "-") else end + 1
            power = _DIGITS.match(self.text, signed).end()  # type: ignore[union-attr]
            end = power if power > signed else end
        self._add(NUMBER, self.text[self.at : end], end - self.at)

    def _close(self, char: str) -> None:
        opened = self.open.pop() if self.open else ""
        if not opened:
            raise BadExpression(f"`{char}` closes nothing", self.at + 1, "remove it, or open it before")
        wanted = ")" if opened == "\\(" else _CLOSES[opened]
        if wanted != char:
            raise BadExpression(f"`{char}` closes `{opened}`", self.at + 1, f"close it with `{wanted}`")
        self._add(INSERTED if opened == "\\(" else char, char, 1)

    def _operator(self, char: str) -> None:
        for operator in _OPERATORS:
            if self.text.startswith(operator, self.at):
                self._add(operator, operator, len(operator))
                return
        hints = {
            "#": "write comments in the YAML around the expression",
            "'": 'strings are in "double quotes"',
            "$": "a variable is written $name",
            "!": "write `not`, or `!=`",
            "&": "write `and`",
        }
        what = "comments are" if char == "#" else f"{shown(char)} is"
        raise BadExpression(f"{what} not in the language", self.at + 1, hints.get(char, "remove it"))

    def _in_text(self) -> None:
        """The next piece of a string: its end, something to insert, or text up to there."""
        if self.text[self.at] == '"':
            self.open.pop()
            self._add(UNQUOTE, '"', 1)
        elif self.text.startswith("\\(", self.at):
            self.open.append("\\(")
            self._add(INSERT, "\\(", 2)
        else:
            start, parts = self.at, []
            while self.at < len(self.text) and self.text[self.at] != '"' and not self.text.startswith("\\(", self.at):
                parts.append(self._escape() if self.text[self.at] == "\\" else self._plain())
            self.found.append(Token(TEXT, "".join(parts), start + 1))

    def _plain(self) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in _IN_TEXT:
            char = self.text[self.at]
            if (char < " " and char not in _SPACE) or char == "\x7f" or "\ud800" <= char <= "\udfff":
                raise BadExpression(f"{shown(char)} can't stand in a string", self.at + 1, "write it as \\uXXXX")
            self.at += 1
        return self.text[start : self.at]

    def _escape(self) -> str:
        column, char = self.at + 1, self.text[self.at + 1 : self.at + 2]
        if char in _ESCAPES:
            self.at += 2
            return _ESCAPES[char]
        if char != "u":
            raise BadExpression(
                f"`\\{char}` is no escape", column, 'the escapes are \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX'
            )
        unit = self._unit(column)
        if 0xD800 <= unit < 0xDC00 and self.text.startswith("\\u", self.at):
            low = self._unit(self.at + 1)
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
        if 0xD800 <= unit < 0xE000:
            raise BadExpression("half a surrogate pair is no character", column, "write the character itself")
        return chr(unit)

    def _unit(self, column: int) -> int:
        digits = _HEX.match(self.text, self.at + 2)
        if not digits:
            raise BadExpression("`\\u` needs four hexadecimal digits", column, "for example \\u00e9")
        self.at += 6
        return int(digits[0], 16)


def _is_digit(char: str) -> bool:
    return "0" <= char <= "9"
