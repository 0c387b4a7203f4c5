"""`/livez` and `/readyz`: named checks as values. Each says what is wrong in a sentence, or nothing."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from muster.telemetry import printable

_LONGEST = 300


class Check(NamedTuple):
    """Something that must be well. `ask` gives the sentence that says what is wrong; empty when nothing is.

    It is asked in the event loop, so it looks at what is known and waits for nothing.
    """

    name: str
    ask: Callable[[], str]


class Finding(NamedTuple):
    """What a check said."""

    name: str
    problem: str


def ask_all(checks: Sequence[Check], without: Sequence[str] = ()) -> list[Finding]:
    """All checks but some, in their order. One that fails to answer has failed."""
    found = []
    for check in checks:
        if check.name in without:
            continue
        try:
            problem = check.ask()
        except Exception as error:
            problem = f"the check itself failed: {type(error).__name__}: {error}"
        found.append(Finding(check.name, printable(problem)[:_LONGEST]))
    return found


def in_words(what: str, findings: Sequence[Finding]) -> str:
    """The findings as Kubernetes writes them, one line each."""
    lines = [f"[-]{one.name} failed: {one.problem}" if one.problem else f"[+]{one.name} ok" for one in findings]
    failed = any(one.problem for one in findings)
    return "\n".join([*lines, f"{what} check {'failed' if failed else 'passed'}", ""])


def health_handler(what: str, checks: Sequence[Check]) -> Handler:
    """Answers 200 `ok`, or 503 with every check; `?verbose` shows them always, `?exclude=NAME` leaves one out."""

    async def answer(request: web.Request) -> web.Response:
        findings = ask_all(checks, request.query.getall("exclude", []))
        failed = any(one.problem for one in findings)
        text = in_words(what, findings) if failed or "verbose" in request.query else "ok"
        return web.Response(text=text, status=503 if failed else 200, headers={"Cache-Control": "no-store"})

    return answer
