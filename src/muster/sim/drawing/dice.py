"""Chance for drawing stories, and the one table of how often each ingredient is in them."""

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K")

# How often, of all stories (or nodes, queues, gangs, workloads) to which it could happen. Whole kinds of things are
# drawn by weight: trees in `trees.TREES`, happenings in `happenings.HAPPENINGS`, faults in `weather.HAZARDS`, and every
# other story has one of `themes.THEMES`.
SHARES = {
    # Of all stories: how the cluster is.
    "a second topology": 0.15,
    "hostname as the last level": 0.15,
    "nodes of different sizes": 0.2,
    "nodes without gpus": 0.08,
    "few pods per node": 0.15,
    "nodes without labels": 0.15,
    "a node that lacks the narrowest label": 0.12,
    "a label that is an empty text": 0.1,
    "tainted nodes": 0.15,
    "a node that is away at first": 0.08,
    "two namespaces": 0.2,
    # Of all stories: what else there is.
    "budgets": 0.2,
    "a StatefulSet": 0.08,
    "pods of other schedulers": 0.25,
    "pods of other schedulers come later": 0.06,
    "a class that is not there": 0.03,
    # Of all stories: how muster runs. `pure` has no faults at all: what happens is enough.
    "several processes": 0.3,
    "one process with a Lease": 0.1,
    "pure": 0.1,
    # Of queues.
    "a limit": 0.35,
    "a weight": 0.3,
    "a queue's priority": 0.25,
    "a minimum runtime": 0.2,
    "cpu is charged too": 0.15,
    "a queue without end": 0.15,
    "a bound of priorities": 0.1,
    "a queue that ignores budgets": 0.2,
    # Of gangs.
    "required at the root": 0.3,
    "required below": 0.4,
    "preferred at the root": 0.2,
    "preferred below": 0.2,
    "the topology is named": 0.5,
    "the other topology": 0.4,
    "takes what it can get": 0.5,
    "a priority class": 0.75,
    "a preemptibility": 0.6,
    "a staleness grace": 0.7,
    "a preemption delay": 0.1,
    "a backoff of one failure": 0.08,
    "nothing is marked": 0.05,
    "a queue that is not there": 0.03,
    "too few pods": 0.06,
    "kept together": 0.25,
    # Of workloads.
    "a Job": 0.2,
    "ends by itself": 0.25,
    "ends badly": 0.15,
    "starts slowly": 0.2,
    "goes slowly": 0.45,
    "goes very slowly": 0.06,
    "the same names again": 0.4,
    "nobody anew": 0.08,
    "one pod after the other": 0.2,
    "asks for cpus too": 0.3,
    "a selector": 0.05,
    "gated": 0.04,
    "there from the start": 0.5,
}


class Dice:
    """One stream of chance of a seed: what is drawn from others changes nothing about it."""

    def __init__(self, seed: int, stream: str) -> None:
        self._random = random.Random(f"{seed}/drawing/{stream}")  # noqa: S311

    def has(self, what: str) -> bool:
        """Whether this ingredient is in, by the table."""
        return self.likely(SHARES[what])

    def likely(self, share: float) -> bool:
        """Yes, so often."""
        return self._random.random() < share

    def one_of(self, some: Sequence[T]) -> T:
        """One of them."""
        return self._random.choice(some)

    def some_of(self, some: Sequence[T], count: int) -> list[T]:
        """Different ones, at most so many."""
        return self._random.sample(list(some), min(count, len(some)))

    def weighted(self, weights: Mapping[K, float]) -> K:
        """One of them, by weight."""
        return self._random.choices(list(weights), list(weights.values()))[0]

    def whole(self, low: int, high: int) -> int:
        """A whole number, both ends included; the low end when there is nothing between."""
        return self._random.randint(low, max(low, high))

    def between(self, low: float, high: float) -> float:
        """A number, as people would write it."""
        return round(self._random.uniform(low, high), 2)

    def soon(self, at: float) -> float:
        """A moment after another: a few milliseconds, or a few seconds."""
        return round(at + 10 ** self._random.uniform(-2.3, 0.5), 3)
