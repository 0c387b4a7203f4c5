"""Programs of the expression language, documents for them, and broken texts: made from choices that somebody hands in.

`pick` is all the chance there is: a hypothesis draw in the property test, `random.Random.choice` in a long run.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

Pick = Callable[[Sequence[Any]], Any]

NAMES = ("a", "b", "c", "name", "spec", "replicas")
NUMBERS = ("0", "1", "2", "3", "10", "0.5", "2.5", "9007199254740992", "100")
STRINGS = ('""', '"a"', '"b"', '"ab"', '"a-b-1"', '"1"', '"é"', '"\\n\\u0041"', '"A,b"', '"10"', '"x y"', '"0.5"')
NULLARY = (
    *("length", "add", "min", "max", "first", "any", "all", "keys", "to_entries", "type", "tonumber", "tostring"),
    *("ascii_downcase", "floor", "ceil", "not"),
)
OPERATORS = ("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "and", "or", "//", "//", "+", "-", "==")
VARIABLES = {"v": {"a": [1, 2, {"b": "x"}], "name": "vee"}, "n": 3, "s": "a"}


class Programs:
    """Writes programs; `scope` holds the variables that may be used."""

    def __init__(self, pick: Pick) -> None:
        self.pick = pick
        self.scope = list(VARIABLES)

    def program(self, depth: int) -> str:
        """A whole expression: a pipe, a comma, a binding, or operators."""
        form = self.pick("ooooopppcbb") if depth else "o"
        if form == "p":
            return f"{self.program(depth - 1)} | {self.program(depth - 1)}"
        if form == "c":
            return f"{self.program(depth - 1)}, {self.operators(depth - 1)}"
        if form == "b":
            name, source = self.pick("xyz"), self.term(depth - 1)
            self.scope.append(name)
            body = self.program(depth - 1)
            self.scope.pop()
            return f"{source} as ${name} | {body}"
        return self.operators(depth)

    def operators(self, depth: int) -> str:
        """Terms with operators between them."""
        form = self.pick("tttoooo-") if depth else "t"
        if form == "o":
            # Comparisons do not chain, so the operands are terms, or in brackets now and then.
            left = self.term(depth - 1)
            right = self.operators(depth - 1) if self.pick((False, False, True)) else self.term(depth - 1)
            return f"{left} {self.pick(OPERATORS)} {right}"
        if form == "-":
            return f"-{self.term(depth - 1)}"
        return self.term(depth)

    def term(self, depth: int) -> str:
        """Something, and a path after it, with a space where the dot of a step would be taken for another."""
        head, steps = self.head(depth), "".join(self.step() for _ in range(self.pick((0, 0, 0, 1, 1, 2))))
        return f"{head} {steps}" if head[-1] in ".0123456789" else head + steps

    def step(self) -> str:
        """One step of a path."""
        step = self.pick(
            (".a", ".b", ".name", ".spec", '["b"]', '."a"', "[]", "[0]", "[-1]", ".[1]", "[$n]", "[$s]", "[$v]")
        )
        return step + self.pick(("", "", "?", "?", "??"))

    def head(self, depth: int) -> str:
        """What a term starts with."""
        form = self.pick("...fffvvnnsslk" + "((((if[[[gggttt" * (depth > 0))
        if form == "(":
            return f"({self.program(depth - 1)})"
        if form == "[":
            return f"[{self.program(depth - 1)}]"
        if form == "i":
            return self._choice(depth - 1)
        if form == "g":
            return self._call(depth - 1)
        if form == "t":
            inserted = (f"\\({self.program(depth - 1)})" for _ in range(self.pick((1, 1, 2))))
            return '"' + self.pick(("", "w-", "\\t")).join(["", *inserted, self.pick(("", "z"))]) + '"'
        if form == "f":
            return f".{self.pick(NAMES)}{self.pick(('', '', '?', '[]', '[]?'))}"
        if form == "v":
            return f"${self.pick(self.scope)}"
        if form == "k":
            return str(self.pick(NULLARY))
        return str(self.pick({".": (".",), "n": NUMBERS, "s": STRINGS, "l": ("null", "true", "false", "[]")}[form]))

    def _choice(self, depth: int) -> str:
        parts = [f"if {self.program(depth)} then {self.program(depth)}"]
        if self.pick((False, False, True)):
            parts.append(f"elif {self.program(depth)} then {self.program(depth)}")
        if self.pick((True, True, False)):
            parts.append(f"else {self.program(depth)}")
        return " ".join([*parts, "end"])

    def _call(self, depth: int) -> str:
        name = self.pick(
            (
                *("select", "select", "map", "map", "first", "any", "all", "any2", "all2", "range", "range2", "range3"),
                *("has", "index", "startswith", "endswith", "ltrimstr", "rtrimstr", "split", "join"),
            )
        )
        if name in ("any2", "all2", "range2"):
            return f"{name[:-1]}({self.program(depth)}; {self.program(depth)})"
        if name == "range3":
            return f"range({self.program(depth)}; {self.program(depth)}; {self.program(depth)})"
        if name in ("has", "index", "startswith", "endswith", "ltrimstr", "rtrimstr", "split", "join"):
            argument = self.pick((*STRINGS, "0", "1", "$s", "$n", "")) or self.program(depth)
            return f"{name}({argument})"
        return f"{name}({self.program(depth)})"


def document(pick: Pick, depth: int) -> Any:
    """A value of JSON, as Kubernetes would send it: whole numbers have no point."""
    kind = pick("nbifssaaooo" if depth else "nbifss")
    if kind == "a":
        return [document(pick, depth - 1) for _ in range(pick((0, 1, 2, 3)))]
    if kind == "o":
        return {pick(NAMES): document(pick, depth - 1) for _ in range(pick((0, 1, 2, 3, 4)))}
    return pick(
        {
            "n": (None,),
            "b": (True, False),
            "i": (0, 1, 2, 3, -1, 7, 2**53, 2**53 + 1),
            "f": (0.5, -1.5, 2.25, 1e300),
            "s": tuple(json.loads(text) for text in STRINGS),
        }[kind]
    )


_PIECES = (
    *(
        "|",
        ",",
        "//",
        "?",
        "?//",
        ".",
        "..",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        '"',
        "\\(",
        "\\u00",
        "$",
        "$x",
        "as",
        " as $x |",
    ),
    *("-", "+", "=", "|=", "==", "!=", "<", "and", "or", "not", "if", "then", "end", ";", ":", "@text", "#", "'", "!"),
    *("1", "0.5", "1.", ".5", "1e3", "00", "e", "E+1", "_", "def f: 1;", "reduce", "empty", "$__loc__", "$ENV", "::"),
    *(
        "\n",
        "\t",
        "\r",
        " ",
        "é",
        "\x00",
        "\x7f",
        "try",
        "limit(1;.)",
        "input",
        "env",
        "first",
        "range",
        "label",
        "%",
        "*",
    ),
)


def mutated(pick: Pick, text: str) -> str:
    """The text with a few pieces put in, taken out, doubled or swapped."""
    for _ in range(pick((1, 1, 2, 3))):
        at, other = pick(range(len(text) + 1)), pick(range(len(text) + 1))
        low, high = min(at, other), min(max(at, other), min(at, other) + 8)
        text = pick(
            (
                text[:at] + pick(_PIECES) + text[at:],
                text[:low] + text[high:],
                text[:high] + text[low:],
                text[:low] + pick(_PIECES) + text[high:],
                text.replace(" ", "", 1) if pick((True, False)) else text.replace(" ", ""),
            )
        )
    return text
