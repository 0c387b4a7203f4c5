"""What was derived before, kept while the objects that it came from stay the same.

What was not used for longest goes first when there is too much, so that a process that never ends stays small.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from muster.grouping.derive import Blueprint, Reading, is_current, pod_names
from muster.grouping.language.limits import Limits
from muster.grouping.model import POD, Interface, Object, Template
from muster.grouping.owners import Lookup, identity_of, namespace_of
from muster.grouping.trouble import Trouble

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# So many readings, and so many gangs of each. Beyond that they are derived again, which is only slower.
MOST_KEPT = 20_000
# What came of asking an interface.
DERIVED, WAITING, FAILED = "derived", "waiting", "failed"


@dataclass
class Kept:
    """What was found about one owner before."""

    owners: tuple[Object, ...]
    reading: Reading
    blueprints: dict[tuple[str, tuple[str, ...]], Blueprint | Trouble] = field(default_factory=dict)


class Memory:
    """The readings of a grouper, and the gangs that came out of them.

    `looked` is called, each time that an answer is given, with everything that it was looked up from: a `Wanted`, or
    what a selection was asked. `evaluations` counts by interface and result how often one was asked.
    """

    def __init__(
        self,
        lookup: Lookup,
        limits: Limits,
        *,
        explain: bool = False,
        most: int = MOST_KEPT,
        looked: Callable[[Any], None] | None = None,
    ) -> None:
        self._lookup, self._limits, self._explain, self._most = lookup, limits, explain, most
        self._looked = looked
        self.evaluations: Counter[tuple[str, str]] = Counter()
        # Those that were used last stand last.
        self._kept: dict[tuple[Any, ...], Kept] = {}
        # Those that are known to be current since the last `begin`.
        self._current: set[tuple[Any, ...]] = set()

    def begin(self) -> None:
        """The world may have changed: what is kept is compared with it once more before it is used."""
        self._current.clear()

    def values(self) -> Iterable[Kept]:
        """Everything that is kept."""
        return self._kept.values()

    def blueprint(self, interface: Interface, owners: tuple[Object, ...], pod: Object | None) -> Blueprint:
        """What an interface makes of the owners, nearest first, found once. Raises Trouble."""
        kept = self._reading(interface, owners, pod)
        try:
            return self._blueprint(kept, pod)
        finally:
            if self._looked is not None:
                for asked, _ in kept.reading.used:
                    self._looked(asked)

    def _blueprint(self, kept: Kept, pod: Object | None) -> Blueprint:
        template, key = kept.reading.template_of(pod)
        if template.owner == POD:
            # Each pod has its own.
            return self._derive(kept.reading, template, key, pod)
        found = kept.blueprints.get((template.name, key))
        if found is None:
            try:
                found = self._derive(kept.reading, template, key, pod)
            except Trouble as trouble:
                found = trouble
            _keep(kept.blueprints, (template.name, key), found, self._most)
        if isinstance(found, Trouble):
            # Raised for every pod: without this it would remember all the ways it came.
            raise found.with_traceback(None)
        return found

    def _derive(self, reading: Reading, template: Template, key: tuple[str, ...], pod: Object | None) -> Blueprint:
        result = FAILED
        try:
            found = reading.derive(template, key, pod)
            result = DERIVED
            return found
        except Trouble as trouble:
            result = WAITING if trouble.retry else FAILED
            raise
        finally:
            self.evaluations[reading.interface.name, result] += 1

    def _reading(self, interface: Interface, owners: tuple[Object, ...], pod: Object | None) -> Kept:
        """What is known of these owners, or a new reading of them."""
        names = pod_names(interface, pod, self._limits) if pod is not None else None
        # An owner of the whole cluster has pods in many namespaces, and each refers to what is in its own.
        namespace = namespace_of(pod if pod is not None else owners[0])
        key = (identity_of(owners[0]), interface.built_in, interface.name, names, namespace)
        kept = self._kept.pop(key, None)
        # Equal, not only the same: an owner that may not be read is made of the reference to it, each time anew.
        same = kept is not None and kept.owners == owners and kept.reading.interface is interface
        if kept is None or not same or not (key in self._current or is_current(kept.reading, self._lookup)):
            reading = Reading(interface, owners, pod, self._lookup, self._limits, explain=self._explain)
            kept = Kept(owners, reading)
        _keep(self._kept, key, kept, self._most)
        self._current.add(key)
        return kept


def _keep(found: dict[K, V], key: K, value: V, most: int) -> None:
    """Puts it last, and lets the first one go when there are too many."""
    found[key] = value
    if len(found) > most:
        del found[next(iter(found))]
