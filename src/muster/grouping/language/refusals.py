"""What jq has and the language has not, with what to write instead."""

from muster.api.nearest import Nearest
from muster.errors import BadExpression
from muster.grouping.language.tokens import Token

# The functions of the language, and with how many arguments.
FUNCTIONS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("length", "add", "min", "max", "keys", "to_entries", "type", "tonumber", "tostring"), (0,)),
    **dict.fromkeys(("ascii_downcase", "floor", "ceil", "not"), (0,)),
    **dict.fromkeys(("has", "index", "select", "map", "startswith", "endswith", "ltrimstr", "rtrimstr"), (1,)),
    **dict.fromkeys(("split", "join"), (1,)),
    "first": (0, 1),
    "any": (0, 1, 2),
    "all": (0, 1, 2),
    "range": (1, 2, 3),
}
CONSTANTS = {"true": True, "false": False, "null": None}

_TEXT = "use startswith, endswith, ltrimstr, rtrimstr, split, join or index"
_READS = "expressions only read the object"
_ROOT = "an expression reads the object, and variables that are declared"
_PATH = "name the path, with [] for every item"
_WORDS = {
    "def": ("`def` defines a function", "write the expression out, or name parts of it under `let`"),
    "reduce": ("`reduce` is a loop", "use `[ … ] | add`, `min`, `max`, `any` or `all`"),
    "foreach": ("`foreach` is a loop", "use `map`, or the field `foreach` of the entry"),
    "try": ("`try` is not in the language", "put `?` after what may fail"),
    "catch": ("`catch` is not in the language", "put `?` after what may fail, and `//` for another value"),
    "label": ("`label` is not in the language", "use `first( … )`"),
    "break": ("`break` is not in the language", "use `first( … )`"),
    "import": ("`import` reads files", _ROOT),
    "include": ("`include` reads files", _ROOT),
    "module": ("`module` is not in the language", _ROOT),
    "__loc__": ("`__loc__` is not in the language", "errors say the column themselves"),
}
_OPERATORS = {
    "..": ("`..` descends into everything", _PATH),
    "?//": ("`?//` is not in the language", "for a default write `? //` with a space"),
    "{": ("objects are not built here", "build arrays with [ … ], or text with \\( … )"),
    **{
        operator: (f"`{operator}` assigns", f"{_READS}; compare with ==")
        for operator in ("=", "|=", "+=", "-=", "*=", "/=", "%=", "//=")
    },
}
_INSTEAD = {
    **dict.fromkeys(("recurse", "walk", "paths", "leaf_paths", "path", "getpath", "pick", "tostream"), _PATH),
    **dict.fromkeys(("env", "input", "inputs", "input_filename", "input_line_number", "now"), _ROOT),
    **dict.fromkeys(("debug", "stderr", "halt", "halt_error", "builtins", "get_search_list", "modulemeta"), _ROOT),
    **dict.fromkeys(
        ("test", "match", "capture", "scan", "splits", "sub", "gsub", "ascii", "explode", "implode"), _TEXT
    ),
    **dict.fromkeys(("trim", "ltrim", "rtrim", "trimstr", "ascii_upcase"), _TEXT),
    **dict.fromkeys(("del", "delpaths", "setpath", "map_values", "with_entries", "from_entries"), _READS),
    **dict.fromkeys(("while", "until", "repeat", "combinations"), "use range(n), n within the limit, and select"),
    **dict.fromkeys(("limit", "skip", "isempty", "nth"), "use `first( … )`, or [n]"),
    **dict.fromkeys(("sort", "sort_by", "min_by", "max_by", "unique", "unique_by", "group_by"), "use min, max or keys"),
    **dict.fromkeys(("contains", "inside", "IN", "in"), "use `any( … ; . == $x)`, `index` or `has`"),
    **dict.fromkeys(("round", "trunc", "sqrt", "pow", "log", "exp", "significand"), "use floor or ceil"),
    **dict.fromkeys(("abs", "fabs"), "use length, or if"),
    **dict.fromkeys(("tojson", "fromjson"), "use tostring or tonumber"),
    **dict.fromkeys(("nan", "infinite", "isnan", "isinfinite", "isnormal"), "only finite numbers can be used"),
    "error": "compare, and let the value be null",
    "empty": "use select(false)",
    "last": "use .[-1]",
    "keys_unsorted": "use keys",
    "values": "use select(. != null)",
    "nulls": "use select(. == null)",
    "arrays": 'use select(type == "array")',
    "objects": 'use select(type == "object")',
    "strings": 'use select(type == "string")',
    "numbers": 'use select(type == "number")',
    "booleans": 'use select(type == "boolean")',
    "scalars": 'use select(type != "array" and type != "object")',
    "iterables": 'use select(type == "array" or type == "object")',
    "reverse": "use .[-1], .[-2] and so on",
    "flatten": "use .[][]",
    "transpose": "use [] and range",
    "utf8bytelength": "use length",
    "toarray": "use [ … ]",
}
# Words of jq that are not in the language, each with what to write instead.
REFUSED = frozenset({*_WORDS, *_INSTEAD})
_ALL = "the functions are " + " ".join(FUNCTIONS)


def unexpected(token: Token, wanted: str = "") -> BadExpression:
    """Why the language stops at this token."""
    if token.kind in _WORDS:
        what, instead = _WORDS[token.kind]
        return BadExpression(what, token.column, instead)
    if token.kind in _OPERATORS:
        what, instead = _OPERATORS[token.kind]
        return BadExpression(what, token.column, instead)
    if token.kind == "number" and token.value.startswith("."):
        return BadExpression(f"{token} is not expected here", token.column, "write items of arrays as [0]")
    if token.kind == "format":
        return BadExpression(f"{token} is a format", token.column, "use tostring, or insert with \\( … )")
    if token.kind == ";":
        return BadExpression("`;` separates arguments of a function", token.column, "use | or ,")
    if token.kind == ":":
        return BadExpression("`:` is not in the language", token.column, "use `if … then … else … end` for a choice")
    return BadExpression(f"{token} is not expected here", token.column, wanted or "see what comes before it")


def bad_call(name: Token, arguments: int) -> BadExpression:
    """Why this is no call of a function of the language."""
    known = FUNCTIONS.get(name.value)
    if known:
        counts = " or ".join(str(count) for count in known)
        text = f"`{name.value}` takes {counts} argument{'' if known == (1,) else 's'}, not {arguments}"
        hint = "use `[ … ] | add`" if name.value == "add" else "arguments are separated by ;"
        if name.value == "split":
            hint = "it splits at a text; there are no regular expressions"
        return BadExpression(text, name.column, hint)
    if name.value in _INSTEAD:
        return BadExpression(f"`{name.value}` is not in the language", name.column, _INSTEAD[name.value])
    hint = Nearest([*FUNCTIONS, *CONSTANTS]).hint(name.value) or _ALL
    return BadExpression(f"there is no function `{name.value[:60]}`", name.column, hint)


def check_variable(token: Token) -> None:
    """Raises BadExpression for variables that jq sets itself."""
    hints = {"ENV": "reads the environment of the process", "__loc__": "is not in the language"}
    if token.value in hints:
        raise BadExpression(f"`${token.value}` {hints[token.value]}", token.column, _ROOT)


def unknown_variable(token: Token, known: list[str]) -> BadExpression:
    """Nobody has declared it."""
    names = ", ".join(f"${name}" for name in known[:8])
    hint = Nearest(f"${name}" for name in known).hint(f"${token.value}")
    hint = hint or (f"there is {names}" if names else "bind it before: `… as $x | …`")
    return BadExpression(f"the variable {token} is not known", token.column, hint)
