"""Which gangs and pods are to be looked at again when an object changed: who looked at what."""

from collections.abc import Iterable
from typing import NamedTuple

# In a place: whatever there is.
ANY = "*"


class Place(NamedTuple):
    """Where an object is, or was looked for. Without a name: all of the kind in a namespace were asked for.

    An object of the whole cluster is in no namespace; who looks for it does so from its own.
    """

    group: str
    kind: str
    namespace: str
    name: str


class Who(NamedTuple):
    """Who looked: a gang, or a pod that has none yet."""

    is_gang: bool
    namespace: str
    name: str


class Dependents:
    """Who looked at which places. A place is known here only as long as somebody looks at it."""

    def __init__(self) -> None:
        self._at: dict[Place, set[Who]] = {}
        self._by: dict[Who, frozenset[Place]] = {}
        self._of_kind: dict[tuple[str, str], set[Place]] = {}

    def __len__(self) -> int:
        return len(self._by)

    def note(self, who: Who, places: Iterable[Place], *, instead: bool) -> None:
        """Somebody looked at these, too, or `instead` of all before."""
        before = self._by.get(who, frozenset())
        now = frozenset(places) if instead else before.union(places)
        for place in before - now:
            self._leave(place, who)
        for place in now - before:
            self._at.setdefault(place, set()).add(who)
            self._of_kind.setdefault(place[:2], set()).add(place)
        if now:
            self._by[who] = now
        else:
            self._by.pop(who, None)

    def looks_at(self, group: str, kind: str) -> bool:
        """Whether somebody looked at an object of this kind."""
        return (group, kind) in self._of_kind

    def forget(self, who: Who) -> None:
        """Nobody asks about this one any more."""
        for place in self._by.pop(who, ()):
            self._leave(place, who)

    def _leave(self, place: Place, who: Who) -> None:
        there = self._at[place]
        there.discard(who)
        if not there:
            del self._at[place]
            of_kind = self._of_kind[place[:2]]
            of_kind.discard(place)
            if not of_kind:
                del self._of_kind[place[:2]]

    def of(self, changed: Place) -> set[Who]:
        """Everybody who looked there."""
        if changed.name != ANY and changed.namespace:
            places: Iterable[Place] = (changed, changed._replace(name=""))
        else:
            places = [
                place
                for place in self._of_kind.get(changed[:2], ())
                if changed.name in (ANY, place.name) or not place.name
            ]
        return {who for place in places for who in self._at.get(place, ())}
