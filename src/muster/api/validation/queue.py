"""The rules of a Queue, alone and among the others."""

import math

from muster.api.documents import shown
from muster.api.priorities import MAX_PRIORITY_ANNOTATION, bound_of, resolved
from muster.api.queue import IGNORE_BUDGETS, RECLAIM_POLICY_ANNOTATION, UNLIMITED, Queue, QueueResource
from muster.api.validation.context import Context, QueueTree
from muster.api.validation.violation import Report
from muster.errors import BadObject

RESOURCES = ("cpu", "memory", "gpu")


def check_queue(queue: Queue, report: Report, context: Context) -> None:
    """Amounts make sense, the parent exists, parents form no cycle, children ask for no more than there is."""
    for name in RESOURCES:
        resource: QueueResource | None = getattr(queue.spec.resources, name)
        if resource is not None:
            _check_amounts(resource, f"spec.resources.{name}", report)
    known = context.queues or {}
    tree = context.queue_tree
    if known.get(queue.metadata.name) != queue:
        tree = QueueTree({**known, queue.metadata.name: queue})
    parent = queue.spec.parent_queue
    if parent and parent not in tree.queues and context.queues is not None:
        hint = context.nearest_queue.hint(parent) or "its gangs are held until the parent exists"
        report.warn("spec.parentQueue", f"the queue {shown(parent)} does not exist", hint)
    if queue.metadata.name in tree.cycle_of:
        message = f"parents form a cycle: {tree.cycle_in_words(queue.metadata.name)}"
        report.error("spec.parentQueue", message, "one of them has no parent")
    _check_max_priority(queue, report, context)
    stated = queue.metadata.annotations.get(RECLAIM_POLICY_ANNOTATION, IGNORE_BUDGETS)
    if stated != IGNORE_BUDGETS:
        path = f"metadata.annotations[{RECLAIM_POLICY_ANNOTATION}]"
        report.error(
            path, f"must be {IGNORE_BUDGETS}, not {shown(stated)}", "or remove it: then disruption budgets are honoured"
        )
    _check_quota_sum(queue, tree, report, "")
    if context.admission and parent in tree.queues:
        _check_quota_sum(tree.queues[parent], tree, report, f" of {parent}")


def check_delete(queue: Queue, report: Report, context: Context) -> None:
    """A queue with children stays."""
    children = sorted(child.metadata.name for child in context.queue_tree.children.get(queue.metadata.name, []))
    if children:
        names = ", ".join(children[:5]) + (f" and {len(children) - 5} more" if len(children) > 5 else "")
        report.error("metadata.name", f"has child queues: {names}", "delete or move them first")


def _check_max_priority(queue: Queue, report: Report, context: Context) -> None:
    stated = queue.metadata.annotations.get(MAX_PRIORITY_ANNOTATION)
    if stated is None:
        return
    try:
        bound = bound_of(stated)
    except BadObject as error:
        report.error(error.path, error.message, "write a number, or the name of a PriorityClass, in quotes")
        return
    if context.priority_classes is not None and resolved(bound, context.priority_classes) is None:
        hint = context.nearest_priority_class.hint(stated) or "the gangs of the queue are held until it exists"
        path = f"metadata.annotations[{MAX_PRIORITY_ANNOTATION}]"
        report.warn(path, f"the PriorityClass {shown(stated)} does not exist", hint)


def _check_amounts(resource: QueueResource, path: str, report: Report) -> None:
    for field in ("quota", "limit"):
        value = getattr(resource, field)
        if -1 < value < 0:
            report.error(f"{path}.{field}", f"must be -1 (unlimited) or 0 or more, not {value}")
    if 0 <= resource.limit < resource.quota:
        report.warn(f"{path}.quota", "is more than the limit, which is never exceeded", "raise the limit")


def _check_quota_sum(parent: Queue, tree: QueueTree, report: Report, whose: str) -> None:
    children = tree.children.get(parent.metadata.name, [])
    for name in RESOURCES:
        own: QueueResource | None = getattr(parent.spec.resources, name)
        if own is None or own.quota < 0:
            continue
        resources = [getattr(child.spec.resources, name) for child in children]
        quotas = [resource.quota for resource in resources if resource is not None]
        total = math.inf if UNLIMITED in quotas else sum(quota for quota in quotas if quota > 0)
        if children and total > own.quota:
            words = "are unlimited" if total == math.inf else f"sum up to {total:g}"
            report.warn(
                f"spec.resources.{name}.quota",
                f"the child queues' quotas{whose} {words}, more than the {own.quota:g} of the parent",
                "the guarantees can't all be kept: raise the parent's quota or lower the children's",
            )
