"""One function says everything that is wrong with an object (SPEC §4): the webhook, the command line and the scheduler
share it. Nothing stops at the first violation, and nothing here raises for what an object holds. Admission hears of the
first ones only, so that a large object with thousands of errors costs no more than one with a few.
"""

from typing import Any, NamedTuple

from muster.api.documents import EnoughError, Problems, refusal
from muster.api.kinds import (
    EVICTION_REQUEST,
    POD_GROUP,
    QUEUE,
    RESOURCE_INTERFACE,
    TOPOLOGY,
    Kind,
    Unknown,
    kind_of,
    read_object,
)
from muster.api.tree import Tree
from muster.api.validation import podgroup
from muster.api.validation.anykind import check_metadata, check_size
from muster.api.validation.context import Context, Settings
from muster.api.validation.evictionrequest import check_request
from muster.api.validation.interface import check_interface
from muster.api.validation.marks import check_marks
from muster.api.validation.queue import check_delete, check_queue
from muster.api.validation.topology import check_topology
from muster.api.validation.update import check_update
from muster.api.validation.violation import ERROR, WARNING, Report, Violation

__all__ = ["ERROR", "WARNING", "Context", "Judgement", "Settings", "Violation", "validate", "validate_delete"]


class Judgement(NamedTuple):
    """A document as an object, with every violation. Without a kind it is not ours to judge."""

    kind: Kind | None
    object: Any
    violations: list[Violation]
    # Of a PodGroup whose SubGroups make one.
    tree: Tree | None = None
    # There are more errors than were asked for, and this many more warnings.
    stopped: bool = False
    more_warnings: int = 0

    @property
    def valid(self) -> bool:
        """Warnings alone do not make an object invalid."""
        return not any(violation.severity == ERROR for violation in self.violations)


def validate(
    document: Any, context: Context, old: Any = None, *, strict: bool = True, most: int | None = None
) -> Judgement:
    """Judges a document that is created, or that replaces `old`. With `most`, it stops after that many errors."""
    kind = kind_of(document)
    if isinstance(kind, Unknown):
        problems = [kind.problem] if kind.problem else []
        return Judgement(None, None, Report(problems).violations)
    refused = refusal(document)
    if refused is not None:
        return Judgement(None, None, Report([refused]).violations)
    problems = Problems(most)
    try:
        found, _ = read_object(document, kind, strict=strict, problems=problems)
    except EnoughError:
        return Judgement(kind, None, _report_of(problems, kind).violations, stopped=True)
    report = _report_of(problems, kind, most)
    try:
        tree = _check(document, found, kind, context, old, report)
    except EnoughError:
        return Judgement(kind, found, report.violations, stopped=True, more_warnings=report.more_warnings)
    return Judgement(kind, found, report.violations, tree, more_warnings=report.more_warnings)


def _report_of(problems: Problems, kind: Kind, most: int | None = None) -> Report:
    """What reading found. Schedulers write the status: what can't be read of it is not used, and is no error."""
    report = Report(problems, most)
    if kind.ours:
        report.soften("status")
    return report


def _check(document: Any, found: Any, kind: Kind, context: Context, old: Any, report: Report) -> Tree | None:
    """Every rule of the kind; gives the tree of a PodGroup that has one."""
    check_metadata(found.metadata, kind, report)
    check_size(document, kind, report)
    check_marks(found, kind, report)
    before = read_object(old, kind, strict=False)[0] if isinstance(old, dict) else None
    tree = None
    if kind is POD_GROUP:
        tree = podgroup.check(found, report, context)
        if tree is not None and before is not None:
            check_update(before, podgroup.tree_of(before), tree, report)
    elif kind is TOPOLOGY:
        check_topology(found, before, report)
    elif kind is QUEUE:
        check_queue(found, report, context)
    elif kind is EVICTION_REQUEST:
        check_request(found, before, report)
    elif kind is RESOURCE_INTERFACE:
        check_interface(found, report)
        if context.check_interface is not None:
            context.check_interface(found, report)
    return tree


def validate_delete(document: Any, context: Context) -> Judgement:
    """Judges a document that is deleted."""
    kind = kind_of(document)
    if isinstance(kind, Unknown):
        return Judgement(None, None, [])
    found, _ = read_object(document, kind, strict=False)
    report = Report([])
    if kind is QUEUE:
        check_delete(found, report, context)
    return Judgement(kind, found, report.violations)
