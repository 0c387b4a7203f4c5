"""The admission webhook: an AdmissionReview of one of our kinds in, the verdict of validation out.

Admission is for good messages; the scheduler enforces the same rules. So whatever this can't judge it lets pass, with a
warning: kinds that it does not know, and its own defects. `review` is the whole answer as data; `Webhook` is HTTP.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from muster.api.documents import shown
from muster.api.duration import parse_ns
from muster.api.kinds import Kind, kind_of
from muster.api.validation import ERROR, WARNING, Context, Judgement, Violation, validate, validate_delete
from muster.errors import BadObject, UnreadableInput
from muster.grouping.compiler import check
from muster.grouping.language.limits import DEFAULT, Limits
from muster.kube.clock import Clock, SystemClock, within
from muster.telemetry import Log, Metrics, printable

API_VERSION = "admission.k8s.io/v1"
MAX_BODY_BYTES = 3 * 1024 * 1024
# Larger reviews wait for each other in a lane of their own; nearly all objects are smaller than this.
SMALL_BYTES = 64 * 1024

# What Kubernetes asks of warnings, and what a terminal bears of errors.
LONGEST_WARNING, LONGEST_HINTED, MOST_WARNINGS = 120, 256, 10
LONGEST_CAUSE, MOST_CAUSES = 500, 25
LONGEST_MESSAGE = 4_000

ALLOWED, DENIED, UNJUDGED, FAILED = "allowed", "denied", "unjudged", "error"
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")


class Request(NamedTuple):
    """What an AdmissionReview asks, as far as we look at it."""

    uid: str
    operation: str
    subresource: str
    object: Any
    old: Any


class Verdict(NamedTuple):
    """What we say about one request: whether it passes, what is wrong, and what a metric counts it as."""

    allowed: bool
    errors: list[Violation]
    warnings: list[str]
    result: str = ALLOWED
    kind: str = ""
    # The search for errors ended after the first ones.
    stopped: bool = False


def admission_context(known: Context | None = None, limits: Limits = DEFAULT) -> Context:
    """The context of admission: what is known, and that expressions are judged too."""
    return replace(known or Context(), admission=True, check_interface=partial(check, limits=limits))


def request_of(document: Any) -> Request:
    """The request in an AdmissionReview. Raises UnreadableInput that says what is missing."""
    if not isinstance(document, dict) or document.get("kind") != "AdmissionReview":
        raise UnreadableInput("the body is not an AdmissionReview", "only the API server should send anything here")
    if document.get("apiVersion") != API_VERSION:
        said = shown(document.get("apiVersion"))
        raise UnreadableInput(f"the AdmissionReview is {said}, not {API_VERSION}", "admissionReviewVersions: [v1]")
    request = document.get("request")
    if not isinstance(request, dict):
        raise UnreadableInput("the AdmissionReview has no request")
    uid, operation = request.get("uid"), request.get("operation")
    if not isinstance(uid, str) or not 0 < len(uid) <= 256:
        raise UnreadableInput("request.uid is missing, or not a text of at most 256 characters")
    if operation not in _OPERATIONS:
        raise UnreadableInput(f"request.operation is {shown(operation)}, not one of {', '.join(_OPERATIONS)}")
    subresource = request.get("subResource")
    found = Request(
        uid,
        operation,
        subresource if isinstance(subresource, str) else "",
        request.get("object"),
        request.get("oldObject"),
    )
    judged = found.old if operation == "DELETE" else found.object
    if operation != "CONNECT" and not isinstance(judged, dict):
        field = "oldObject" if operation == "DELETE" else "object"
        raise UnreadableInput(f"request.{field} is {shown(judged)}, not an object", f"a {operation} needs one")
    return found


def review(document: Any, context: Context) -> dict[str, Any]:
    """The answer to an AdmissionReview, as a document. Raises UnreadableInput when it is none."""
    request = request_of(document)
    return answer_to(request, judge(request, context))


def judge(request: Request, context: Context) -> Verdict:
    """Whether a request passes. Subresources are not the author's writing, and what goes away is let go."""
    if request.operation == "CONNECT" or request.subresource:
        return Verdict(True, [], [])
    subject = request.old if request.operation == "DELETE" else request.object
    kind = kind_of(subject)
    if not isinstance(kind, Kind) or not kind.ours:
        return _unknown(subject)
    if request.operation == "DELETE":
        return _verdict(validate_delete(subject, context), kind.name)
    if request.operation == "CREATE" or not isinstance(request.old, dict):
        return _verdict(validate(subject, context, most=MOST_CAUSES), kind.name)
    if _is_going(subject):
        # Only finalizers are left of it: nobody's error may keep it, or its namespace, from ending.
        return Verdict(True, [], [], kind=kind.name)
    judgement = validate(subject, context, request.old, most=MOST_CAUSES)
    if not judgement.valid and subject.get("spec") == request.old.get("spec"):
        judgement = _softened(judgement, request.old, context)
    return _verdict(judgement, kind.name)


def _is_going(document: dict[str, Any]) -> bool:
    metadata = document.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))


def _softened(judgement: Judgement, old: Any, context: Context) -> Judgement:
    """A label on an object that was wrong before is no new error: what the old one broke too becomes a warning."""
    before = {one[1:3] for one in validate(old, context, most=MOST_CAUSES).violations}
    softer = [one._replace(severity=WARNING) if one[1:3] in before else one for one in judgement.violations]
    return judgement._replace(violations=softer)


def _unknown(subject: Any) -> Verdict:
    found = kind_of(subject)
    problem = None if isinstance(found, Kind) else found.problem
    if problem is None:
        words = f"muster does not know {subject.get('apiVersion')} {subject.get('kind')} and did not judge it"
    else:
        words = f"muster did not judge this: {_words(Violation(ERROR, *problem[:3]))}"
    return Verdict(True, [], [_cut(words, LONGEST_WARNING)], UNJUDGED)


def _verdict(judgement: Judgement, kind: str) -> Verdict:
    errors = [one for one in judgement.violations if one.severity == ERROR]
    warnings = [one for one in judgement.violations if one.severity != ERROR]
    shown = warnings_of(warnings, judgement.more_warnings)
    return Verdict(not errors, errors, shown, DENIED if errors else ALLOWED, kind, judgement.stopped)


def warnings_of(violations: Sequence[Violation], uncounted: int = 0) -> list[str]:
    """Few and short, as the API server wants them: of a long one the hint goes first, then its end.

    With its hint it may be longer than recommended: a "did you mean" says at once what to do. `uncounted` more warnings
    were not kept.
    """
    found: list[str] = []
    for one in violations:
        short = _words(one._replace(hint=""))
        long = _words(one)
        text = long if one.hint and len(long) <= LONGEST_HINTED else _cut(short, LONGEST_WARNING)
        if text not in found:
            found.append(text)
    if len(found) + uncounted > MOST_WARNINGS:
        more = len(found) + uncounted - MOST_WARNINGS + 1
        found = [*found[: MOST_WARNINGS - 1], f"{more} more warnings: muster validate -f FILE shows all"]
    return found


def _words(one: Violation) -> str:
    text = f"{one.path}: {one.message}" if one.path else one.message
    return printable(text + (f" ({one.hint})" if one.hint else ""))


def _cut(text: str, most: int) -> str:
    text = printable(text)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def answer_to(request: Request, verdict: Verdict) -> dict[str, Any]:
    """The verdict as an AdmissionReview."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": verdict.allowed}
    if verdict.warnings:
        response["warnings"] = verdict.warnings
    if not verdict.allowed:
        response["status"] = _status(request, verdict)
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}


def _status(request: Request, verdict: Verdict) -> dict[str, Any]:
    """Every violation in one message, and each as a cause, which is what kubectl shows line by line."""
    told = verdict.errors[:MOST_CAUSES]
    causes = [
        {
            "reason": "FieldValueInvalid",
            "field": _cut(one.path, 200) or "the object",
            "message": _cut(_words(one._replace(path="")), LONGEST_CAUSE),
        }
        for one in told
    ]
    message = _cut("; ".join(_cut(_words(one), LONGEST_CAUSE) for one in told), LONGEST_MESSAGE)
    if verdict.stopped:
        more = f"validation stopped after {len(told)} errors: muster validate -f FILE shows all"
        message = f"{message}; {more}"
        causes.append({"reason": "FieldValueInvalid", "field": "the object", "message": more})
    subject = request.old if request.operation == "DELETE" else request.object
    metadata = subject.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    details = {"kind": verdict.kind, "name": _cut(name, 253) if isinstance(name, str) else "", "causes": causes}
    return {"status": "Failure", "code": 422, "reason": "Invalid", "message": message, "details": details}


class Webhook:
    """Answers the API server. Objects are judged in threads, a bounded number at a time. Large ones have one thread of
    their own, so that a client that sends them without end makes only large ones wait. A review that would wait too
    long is refused.

    `context` gives what is known of the cluster at the moment, or None when that is nothing. It is read in threads: its
    mappings must not change any more. `unknown` is used instead of None.
    """

    def __init__(
        self,
        context: Callable[[], Context | None],
        *,
        metrics: Metrics,
        log: Log,
        clock: Clock | None = None,
        unknown: Context | None = None,
        workers: int = 2,
        most_waiting: int = 256,
        most_bytes: int = 16 * MAX_BODY_BYTES,
        deadline_s: float = 8.0,
    ) -> None:
        self._context, self._unknown = context, unknown or admission_context()
        self._metrics, self._log = metrics, log
        self._clock = clock or SystemClock()
        self._deadline_s = deadline_s
        self._small = _Lane("webhook", workers, workers + most_waiting, most_bytes)
        self._large = _Lane("webhook-large", 1, 1 + most_waiting, most_bytes)

    async def close(self) -> None:
        """No further reviews; those that wait are given up."""
        for lane in (self._small, self._large):
            lane.threads.shutdown(wait=False, cancel_futures=True)

    async def handle(self, request: web.Request) -> web.Response:
        """One POST. Whatever comes in, the answer is one sentence or an AdmissionReview, in time."""
        if request.method != "POST":
            return _refusal(405, "send an AdmissionReview by POST")
        if request.content_type != "application/json":
            return _refusal(415, "send the AdmissionReview as application/json")
        if request.headers.get("Content-Encoding", "identity") != "identity":
            return _refusal(415, "send the AdmissionReview without compression")
        # All bodies that wait are in memory; one that does not say how long it is may be as long as any.
        size = MAX_BODY_BYTES if request.content_length is None else request.content_length
        if size > MAX_BODY_BYTES:
            return _refusal(413, f"the body has more than {MAX_BODY_BYTES:,} bytes")
        lane = self._small if size <= SMALL_BYTES else self._large
        if lane.is_full(size):
            self._count("", "", FAILED)
            return _refusal(503, f"{lane.under_way} reviews are under way already; try again")
        began = self._clock.now_s()
        lane.under_way += 1
        lane.bytes += size
        try:
            return await within(self._clock, self._deadline_of(request), self._answer(request, lane))
        except TimeoutError:
            self._count("", "", FAILED)
            self._log.warning("a review took too long and was given up")
            return _refusal(503, "the review took too long; try again")
        finally:
            lane.under_way -= 1
            lane.bytes -= size
            self._metrics.webhook_duration.observe(max(0.0, self._clock.now_s() - began))

    def _deadline_of(self, request: web.Request) -> float:
        """The API server says how long it waits; an answer after that is for nobody."""
        try:
            theirs_s = parse_ns(request.query.get("timeout", "")) / 10**9
        except (BadObject, ValueError):
            return self._deadline_s
        return min(self._deadline_s, max(0.1, theirs_s * 0.9)) if theirs_s > 0 else self._deadline_s

    async def _answer(self, request: web.Request, lane: "_Lane") -> web.Response:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _refusal(413, f"the body has more than {MAX_BODY_BYTES:,} bytes")
        context = self._context() or self._unknown
        loop = asyncio.get_running_loop()
        try:
            asked, verdict, answer = await loop.run_in_executor(lane.threads, self._judged, body, context)
        except UnreadableInput as error:
            self._count("", "", FAILED)
            return _refusal(400, error.message + (f"; {error.hint}" if error.hint else ""))
        self._count(verdict.kind, asked.operation, verdict.result)
        return web.Response(body=answer, content_type="application/json")

    def answer(self, body: bytes) -> bytes:
        """The answer to an AdmissionReview of this very process, here and now."""
        asked, verdict, answer = self._judged(body, self._context() or self._unknown)
        self._count(verdict.kind, asked.operation, verdict.result)
        return answer

    def _judged(self, body: bytes, context: Context) -> tuple[Request, Verdict, bytes]:
        """From bytes to bytes; in a thread, where others wait meanwhile."""
        try:
            document = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            said = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
            raise UnreadableInput(f"the body is not JSON: {_cut(said, 200)}") from None
        request = request_of(document)
        try:
            verdict = judge(request, context)
            return request, verdict, msgspec.json.encode(answer_to(request, verdict))
        except Exception as error:
            # A defect of ours is nobody else's problem: the scheduler looks at the object again.
            self._log.error("an object could not be judged, and was let pass", error=error, operation=request.operation)
            words = "muster could not judge this object: an internal error; the scheduler will judge it"
            verdict = Verdict(True, [], [words], FAILED)
            return request, verdict, msgspec.json.encode(answer_to(request, verdict))

    def _count(self, kind: str, operation: str, result: str) -> None:
        self._metrics.webhook_requests.labels(kind or "none", operation or "none", result).inc()


class _Lane:
    """Threads, and how many reviews of how many bytes may be under way in them."""

    def __init__(self, name: str, workers: int, most: int, most_bytes: int) -> None:
        self.threads = ThreadPoolExecutor(workers, thread_name_prefix=name)
        self._most, self._most_bytes = most, most_bytes
        self.under_way, self.bytes = 0, 0

    def is_full(self, size: int) -> bool:
        """Whether a review of that size is one too many."""
        return self.under_way >= self._most or self.bytes + size > self._most_bytes


def _refusal(status: int, sentence: str) -> web.Response:
    return web.Response(status=status, text=f"{printable(sentence)}\n")
