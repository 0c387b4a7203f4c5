"""Tables below a plan: who is evicted and why, what queues hold and are due, what a what-if means for the others."""

from collections.abc import Iterator, Sequence

from muster.cli.judging import plural
from muster.cli.render import columns, sayable
from muster.decisions.amounts import charge_alone, listed
from muster.decisions.losses import losses
from muster.decisions.others import Change, Lot
from muster.decisions.plan import Evict
from muster.decisions.queues import Share, line, shares
from muster.plan.outcome import Plan
from muster.snapshot.queues import CHARGES

_NOTHING = "-"
_MOST_EVICTIONS, _MOST_PODS, _MOST_QUEUES, _MOST_OTHERS = 20, 3, 60, 20


def eviction_lines(plan: Plan, beside: Sequence[Evict] = ()) -> Iterator[str]:
    """What is evicted, a unit a line: pods, action, for whom, and why these. `beside` came with the input."""
    rows = [
        (
            _pods(loss.loser.partition("/")[0], loss.pods),
            loss.action,
            loss.winner or _NOTHING,
            _joined(loss.what, loss.why),
        )
        for loss in losses(plan)
    ]
    drained: dict[str, list[str]] = {}
    for one in beside:
        drained.setdefault(one.namespace, []).append(one.pod)
    for namespace, pods in sorted(drained.items()):
        rows.append((_pods(namespace, sorted(pods)), beside[0].action, _NOTHING, "their node is drained"))
    if not rows:
        return
    yield "evictions"
    for text in columns([("POD", "ACTION", "FOR", "WHY"), *rows[:_MOST_EVICTIONS]]):
        yield sayable(f"  {text}")
    if len(rows) > _MOST_EVICTIONS:
        yield f"  and {len(rows) - _MOST_EVICTIONS:,} more: -o json"


def _pods(namespace: str, pods: Sequence[str]) -> str:
    return f"{namespace}/{listed(pods, _MOST_PODS)}"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def queue_lines(plan: Plan) -> Iterator[str]:
    """Every queue with what it holds, is due and may have; the tree of queues by indentation."""
    found = list(shares(plan))
    rows = [("QUEUE", "RESOURCE", "ALLOCATED", "FAIR SHARE", "QUOTA", "LIMIT", "NON-PREEMPTIBLE", "WAITING")]
    below = plan.snapshot.queues.children
    for amounts in found[:_MOST_QUEUES]:
        for at, one in enumerate(amounts):
            leaf = plan.snapshot.queues.row_of[one.queue] not in below
            waiting = f"{len(line(plan, one.queue)):,}" if leaf else _NOTHING
            name = "  " * one.depth + one.queue
            rows.append((name if at == 0 else "", *share_cells(one), waiting if at == 0 else ""))
    yield "queues"
    for text in columns(rows):
        yield sayable(f"  {text}")
    if len(found) > _MOST_QUEUES:
        yield f"  and {len(found) - _MOST_QUEUES:,} more: -o json"


def share_cells(one: Share) -> tuple[str, str, str, str, str, str]:
    """One charge of one queue: what it is, allocated, fair share, quota, limit, non-preemptible."""
    amounts = (one.allocated, one.fair_share, one.quota, one.limit, one.non_preemptible)
    allocated, fair, quota, limit, firm = (charge_alone(one.charge, amount) for amount in amounts)
    return CHARGES[one.charge], allocated, fair, quota, limit, firm


def other_lines(changes: Sequence[Change], gangs: int) -> Iterator[str]:
    """Every other gang that fares differently: was, would be; or that nothing changes for any of them."""
    if not changes:
        yield f"others: nothing changes for {plural(gangs, 'other gang')}" if gangs else "others: there are none"
        return
    yield sayable(f"others (was → would be): {plural(len(changes), 'gang')} of {gangs:,}")
    rows = []
    for one in changes[:_MOST_OTHERS]:
        evicted = f"{plural(one.evicted, 'pod')} evicted" if one.evicted else ""
        rows.append((f"  {'/'.join(one.key)}", f"{_lot(one.before)} → {_lot(one.after)}", evicted))
    for text in columns(rows):
        yield sayable(text)
    if len(changes) > _MOST_OTHERS:
        yield f"  and {len(changes) - _MOST_OTHERS:,} more: -o json"


def change_in_words(one: Change) -> str:
    """What a what-if means for another gang, as a sentence."""
    evicted = f", {plural(one.evicted, 'pod')} evicted" if one.evicted else ""
    return f"{'/'.join(one.key)}: {_lot(one.before)} → {_lot(one.after)}{evicted}"


def _lot(lot: Lot) -> str:
    return f"{lot.verdict.value}, {plural(lot.placed, 'pod')}"
