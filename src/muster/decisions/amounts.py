"""Amounts, times and lists as people write them. What queues count is told in decimal units, as Queues have it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from muster.api.queue import BASE_UNITS, GPU_PARTS
from muster.api.tree import NONE
from muster.plan.model import Dimension
from muster.plan.outcome import Measured
from muster.snapshot.arrays import Snapshot
from muster.snapshot.queues import CHARGES, UNLIMITED, Queues
from muster.snapshot.requests import PODS

UNLIMITED_WORD = "unlimited"

_MOST_RESOURCES, _MOST_NAMED = 3, 4
_UNITS = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_DECIMAL_UNITS = (("T", 10**12), ("G", 10**9), ("M", 10**6))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_NS = 10**9
_LARGEST_DENOMINATOR = 64


def pods_in_words(count: int) -> str:
    """`1 pod`, `2,000 pods`."""
    return f"{count:,} pod{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int = _MOST_NAMED) -> str:
    """The first few, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `13th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def counted(count: int, dimension: Dimension | None, snapshot: Snapshot) -> str:
    """A number of pods of one shape, or of times an amount of one resource."""
    pods = pods_in_words(count)
    if dimension is None:
        return pods
    if dimension.shape != NONE:
        ask = ask_in_words(dimension.shape, snapshot)
        return f"{pods} of {ask}" if ask else pods
    resource = snapshot.resources[dimension.resource]
    if dimension.amount == 1:
        return amount_in_words(resource, count)
    amount = amount_in_words(resource, dimension.amount)
    return amount if count == 1 else f"{count:,} times {amount}"


def ask_in_words(shape: int, snapshot: Snapshot) -> str:
    """What a pod of a shape asks for, devices first: `8 × nvidia.com/gpu, 2 CPU, 4Gi memory`."""
    amounts = [
        (resource in ("cpu", "memory"), resource, int(amount))
        for resource, amount in snapshot.asked(shape).items()
        if resource != PODS
    ]
    words = [amount_in_words(resource, amount) for _, resource, amount in sorted(amounts)]
    return ", ".join(words[:_MOST_RESOURCES]) + (", …" if len(words) > _MOST_RESOURCES else "")


def amount_in_words(resource: str, amount: int) -> str:
    """An amount in base units as people write it."""
    if resource == "cpu":
        return f"{_cores(amount)} CPU"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for unit, size in _UNITS:
            if amount >= size:
                return f"{round(amount / size, 1):g}{unit} {resource}"
        return f"{amount} bytes of {resource}"
    if resource == PODS:
        return pods_in_words(amount)
    return resource if resource.startswith("host port ") else f"{amount:,} × {resource}"


def _cores(amount: int) -> str:
    return f"{amount // 1000:,}" if amount % 1000 == 0 else f"{amount / 1000:,.3f}".rstrip("0")


def charge_in_words(charge: int, amount: int) -> str:
    """What a queue counts, with what it is: `8 GPU`, `2 3/7 GPUs`, `2.5 CPU`, `64G memory`."""
    unit = {"cpu": "CPU", "gpu": "GPU"}.get(CHARGES[charge], CHARGES[charge])
    plural = "s" if unit == "GPU" and GPU_PARTS < amount < UNLIMITED and amount % GPU_PARTS else ""
    return f"{charge_alone(charge, amount)} {unit}{plural}"


def charge_alone(charge: int, amount: int) -> str:
    """What a queue counts, where it is clear what: `8`, `2.5`, `64G`."""
    if amount >= UNLIMITED:
        return UNLIMITED_WORD
    if CHARGES[charge] == "cpu":
        return _cores(amount)
    if CHARGES[charge] == "memory":
        for unit, size in _DECIMAL_UNITS:
            if amount >= size:
                return f"{round(amount / size, 3):,g}{unit}"
        return f"{amount:,}B" if amount else "0"
    return _gpus(amount)


def due_in_words(one: Measured, queues: Queues, *, quota: bool) -> str:
    """What a queue may have before others take it back: `its fair share is 4`, `its quota is 2`."""
    due = charge_alone(one.charge, one.due)
    if not quota:
        return f"its fair share is {due}"
    if queues.quota[one.queue, one.charge] < UNLIMITED:
        return f"its quota is {due}"
    above = "the cluster" if queues.parent_of[one.queue] == NONE else "the queue above it"
    return f"its unlimited quota is what {above} has: {due}"


def _gpus(amount: int) -> str:
    """Whole GPUs and a fraction of one, where people would write it as a fraction."""
    whole, rest = divmod(amount, GPU_PARTS)
    if not rest:
        return f"{whole:,}"
    part = Fraction(rest, GPU_PARTS)
    if part.denominator > _LARGEST_DENOMINATOR:
        return f"{amount / GPU_PARTS:,.3f}"
    return f"{whole:,} {part}" if whole else str(part)


def in_queue_units(charge: int, amount: int) -> int | float | None:
    """An amount as a Queue has it: millicores, 10^6 bytes, devices; None for no end."""
    if amount >= UNLIMITED:
        return None
    whole, rest = divmod(amount, BASE_UNITS[CHARGES[charge]])
    return whole if not rest else amount / BASE_UNITS[CHARGES[charge]]


def moment(time_ns: int) -> str:
    """A time as Kubernetes writes it: `2026-01-31T12:00:00Z`."""
    time = _EPOCH + timedelta(seconds=time_ns // _SECOND_NS)
    return time.isoformat().replace("+00:00", "Z")


def span(length_ns: int) -> str:
    """A duration as a manifest has it, in whole seconds: `1h30m`, `90s`."""
    seconds = length_ns // _SECOND_NS
    if seconds < 120 or seconds % 60:
        minutes, rest = divmod(seconds, 60)
        return f"{seconds}s" if seconds < 120 else _hours(minutes) + f"{rest}s"
    return _hours(seconds // 60)


def _hours(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    return (f"{hours:,}h" if hours else "") + (f"{rest}m" if rest or not hours else "")
