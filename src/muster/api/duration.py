"""Durations as Go and Kubernetes write them (`90s`, `1h30m`, `-1s`), in whole nanoseconds."""

import re

from muster.errors import BadObject

_UNITS_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_MAX_LENGTH = 64
_INT64_NS = range(-(2**63), 2**63)


def parse_ns(text: str) -> int:
    """The duration in nanoseconds; a fraction finer than that is cut. Raises BadObject when it is no duration."""
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text[1:] if text[:1] == "+" else text)
    if rest == "0":
        return 0
    total, at = 0, 0
    while at < len(rest) <= _MAX_LENGTH:
        part = _PART.match(rest, at)
        if part is None or not (part[1] or part[2]):
            break
        unit, fraction = _UNITS_NS[part[3]], part[2] or ""
        total += int(part[1] or "0") * unit + int(fraction or "0") * unit // 10 ** len(fraction)
        at = part.end()
    if not rest or at < len(rest) or sign * total not in _INT64_NS:
        raise BadObject("", f"{text[:40]!r} is not a duration", "write it as 30s, 5m or 1h30m")
    return sign * total
