"""What one unit of a resource costs a queue of its `gpu`: a table of patterns, in parts of a GPU that add up."""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil
from typing import Annotated

import msgspec

from muster.api.model import note
from muster.api.queue import GPU_PARTS
from muster.errors import UsageError

MIG_PROFILE = "migProfile"
# Compute slices of the GPUs that most people have: of an A30 or an RTX PRO there are 4.
_USUAL_SLICES = 7
_HIGHEST_WEIGHT = 1_000

_PATTERN = re.compile(r"[A-Za-z0-9*][-A-Za-z0-9._/*]*")
_WEIGHT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(?:/([1-9][0-9]{0,8}))?")
# Of mig-3g.40gb 3 slices; of mig-1c.3g.40gb, a compute instance of such a slice, 1.
_PROFILE = re.compile(r"(?:([0-9]{1,3})c\.)?([0-9]{1,3})g\.[0-9]{1,6}gb(?:\..*)?")


class GpuWeight(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """What one unit of some resources costs: a number of GPUs, or what the name says of the slice."""

    resource: Annotated[str, note("The name of a resource, with * for anything: */gpu.", minLength=1, maxLength=316)]
    weight: Annotated[str | int | float | None, note("GPUs for one unit: 1, 0.25 or 1/4. 0 costs nothing.")] = None
    by: Annotated[str, note("migProfile: the slices in the name, as 3 of mig-3g.40gb.", enum=["", MIG_PROFILE])] = ""
    slices: Annotated[int | None, note("How many slices make a GPU. Unset: 7.", minimum=1, maximum=1_000)] = None


# How many pods share one replica of gpu.shared can't be read from its name: a whole GPU is safe.
SHARED = GpuWeight(resource="*.shared", weight=1)
USUAL = (
    GpuWeight(resource="nvidia.com/mig-*", by=MIG_PROFILE, slices=_USUAL_SLICES),
    SHARED,
    GpuWeight(resource="*/gpu", weight=1),
)


class QueuesConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What queues count."""

    gpu_weights: Annotated[
        list[Annotated[GpuWeight, note("Some resources, and what a unit of them costs.")]],
        note(
            "What a unit of a resource costs of a queue's gpu. The first entry that matches wins; what matches none "
            "costs none.",
            maxItems=256,
        ),
    ] = msgspec.field(default_factory=lambda: list(USUAL))


def check_weights(table: Sequence[GpuWeight]) -> None:
    """Raises UsageError that names every entry that can't be used."""
    wrong = [f"queues.gpuWeights[{at}]: {one}" for at, entry in enumerate(table) for one in _wrong(entry)]
    if wrong:
        raise UsageError(
            "the configuration is wrong:\n  " + "\n  ".join(wrong), "docs/reference.md has the default table"
        )


def _wrong(entry: GpuWeight) -> Iterator[str]:
    if not _PATTERN.fullmatch(entry.resource):
        yield f"{entry.resource!r} is no name of a resource; write letters, digits, . - / and * for anything"
    if (entry.weight is None) == (not entry.by):
        yield "says weight and by; keep one" if entry.by else "says neither weight nor by; write weight: 1"
    if entry.weight is not None and _fraction(entry.weight) is None:
        yield f"weight {entry.weight!r} is not understood; write 1, 0.25 or 1/4, at most {_HIGHEST_WEIGHT:,}"
    if entry.slices is not None and not entry.by:
        yield f"slices counts only beside by: {MIG_PROFILE}; leave it out"


def _fraction(weight: str | float) -> Fraction | None:
    """The number as it is written: 0.1 is a tenth."""
    matched = _WEIGHT.fullmatch(str(weight))
    if matched is None:
        return None
    found = Fraction(matched[1]) / int(matched[2] or 1)
    return found if found <= _HIGHEST_WEIGHT else None


class GpuWeights(msgspec.Struct, frozen=True):
    """The table as it is asked: parts of a GPU for one unit of a resource."""

    table: tuple[GpuWeight, ...] = USUAL

    def entry_of(self, resource: str) -> GpuWeight | None:
        """The entry that counts for a resource, if any does."""
        return next((entry for entry in self.table if _matches(entry.resource, resource)), None)

    def parts_of(self, resource: str) -> int:
        """Parts of a GPU that one unit costs, rounded up; 0 for what is no GPU."""
        entry = self.entry_of(resource)
        return 0 if entry is None else ceil(_gpus(entry, resource) * GPU_PARTS)


def _gpus(entry: GpuWeight, resource: str) -> Fraction:
    if entry.by:
        profile = _PROFILE.fullmatch(resource.rpartition("mig-")[2])
        # A profile that can't be read may be all of a GPU.
        return Fraction(int(profile[1] or profile[2]), entry.slices or _USUAL_SLICES) if profile else Fraction(1)
    found = _fraction(entry.weight if entry.weight is not None else 1)
    return Fraction(1) if found is None else found


def _matches(pattern: str, name: str) -> bool:
    """Whether a name is of a pattern in which each * stands for anything. Takes no longer than the name is long."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *middle, last = rest
    at, end = len(first), len(name) - len(last)
    if not name.startswith(first) or not name.endswith(last) or end < at:
        return False
    for part in middle:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
