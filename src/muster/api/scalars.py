"""What an unquoted YAML scalar means: to YAML 1.2, as muster reads it, and to kubectl, which reads YAML 1.1."""

import math
import re
from typing import Any

_NULLS = ("", "~", "null", "Null", "NULL")
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
_COMMON: dict[str, Any] = {
    **dict.fromkeys(_NULLS, None),
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_WORDS_1_1: dict[str, Any] = {
    **_COMMON,
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,30})|0x[0-9a-fA-F]{1,16}|0o[0-7]{1,22}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]{1,40}|[0-9]{1,40}(?:\.[0-9]{0,40})?)(?:[eE][-+]?[0-9]{1,4})?")
_OCTAL = re.compile(r"([-+]?)0([0-7]{1,24})")
_BASED = re.compile(r"[-+]?0(?:[xX][0-9a-fA-F]{1,16}|[oO][0-7]{1,22}|[bB][01]{1,64})")
_LONGEST = 80


def plain_scalar(text: str) -> Any:
    """YAML 1.2. Digits that start with 0 stay text: YAML versions disagree on them."""
    if text in _COMMON:
        return _COMMON[text]
    if _INT.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text) and not re.match(r"[-+]?0[0-9]", text):
        return float(text)
    return text


def kubectl_scalar(text: str) -> Any:
    """What kubectl and other readers of YAML 1.1 in Go make of it: words for booleans, old octals, digits with `_`."""
    if text in _WORDS_1_1:
        return _WORDS_1_1[text]
    digits = text.replace("_", "")
    if len(text) > _LONGEST or digits[:1] not in "+-.0123456789" or not digits:
        return text
    octal = _OCTAL.fullmatch(digits)
    if octal:
        return int(octal[1] + octal[2], 8)
    if _BASED.fullmatch(digits):
        return int(digits, 0)
    if _INT.fullmatch(digits):
        return int(digits)
    if _FLOAT.fullmatch(digits):
        return float(digits)
    return text


def is_doubtful(text: str) -> bool:
    """Whether muster and kubectl read an unquoted scalar differently."""
    one, other = plain_scalar(text), kubectl_scalar(text)
    return type(one) is not type(other) or (one != other and one == one)


def needs_quotes(text: str) -> bool:
    """Whether some reader would take this text, unquoted, for something else. Digits are quoted to be sure."""
    is_text = isinstance(kubectl_scalar(text), str) and isinstance(plain_scalar(text), str)
    return not is_text or bool(re.match(r"[-+=0-9]|\.[0-9]", text))
