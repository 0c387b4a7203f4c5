"""Which ResourceInterfaces are asked about a kind, and in which order. Where two could be meant, one is, and that is
told.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from muster.api.documents import shown
from muster.api.interface import FORBIDDEN_KINDS, KindReference
from muster.api.nearest import Nearest
from muster.errors import UsageError
from muster.grouping.model import Interface
from muster.grouping.owners import ANY_VERSION, split_version

USER, BUILT_IN = "user", "built-in"

_KIND = re.compile(r"([A-Z][A-Za-z0-9]*)(?:\.([a-z0-9](?:[-a-z0-9.]*[a-z0-9])?))?")
_MOST_SEARCHES = 32
_OLDEST = datetime.min.replace(tzinfo=UTC)


class Candidates(NamedTuple):
    """The interfaces for a kind, in the order in which they are asked, and what should be known about the choice.

    `broken` says which user's one can't be used, when there is no other of a user.
    """

    interfaces: tuple[Interface, ...] = ()
    warnings: tuple[str, ...] = ()
    broken: str = ""


class Preference(NamedTuple):
    """Whose interface is asked first: for all kinds, and for those, by group and kind, for which it is said."""

    everywhere: str = USER
    kinds: Mapping[tuple[str, str], str] = {}


class _Unused(NamedTuple):
    """An interface that is there and can't be used."""

    name: str
    target: KindReference
    why: str
    built_in: bool = False

    @property
    def warning(self) -> str:
        owner = " (built in)" if self.built_in else ""
        return f"ResourceInterface {shown(self.name)}{owner} for {kind_title(self.target)} is not used: {self.why}"


def check_prefer(items: Sequence[str]) -> Preference:
    """What `grouping.prefer` says. Raises UsageError: what nobody understands should not be passed over."""
    said: dict[tuple[str, str] | None, str] = {}
    for item in items:
        target, _, word = item.rpartition("=")
        kind = _KIND.fullmatch(target)
        if word not in (USER, BUILT_IN) or not (kind or item == word):
            raise UsageError(
                f"grouping.prefer: {shown(item)} is not understood",
                f"write {USER} or {BUILT_IN} for all kinds, or RayCluster.ray.io={BUILT_IN}, Pod={USER} for one kind",
            )
        key = (kind[2] or "", kind[1]) if kind else None
        if said.setdefault(key, word) != word:
            what = shown(target) if kind else "all kinds"
            raise UsageError(
                f"grouping.prefer: both {USER} and {BUILT_IN} are preferred for {what}", "keep one of the two"
            )
    everywhere = said.pop(None, USER)
    return Preference(everywhere, {key: word for key, word in said.items() if key is not None})


def is_for(target: KindReference, api_version: str, kind: str) -> bool:
    """Whether an interface with this target is for objects of that kind and version."""
    group, version = split_version(api_version)
    return target.kind == kind and target.group == group and target.version in (version, ANY_VERSION)


def kind_title(target: KindReference) -> str:
    """A kind in a sentence: `RayCluster.ray.io`, with `/v1` when the version matters."""
    version = "" if target.version == ANY_VERSION else f"/{target.version}"
    return f"{target.kind}{'.' + target.group if target.group else ''}{version}"


class Registry:
    """All interfaces: the catalog's and the users'. The order in which they are given does not matter, but of two
    users' ones with one name, the later counts.

    `invalid` are those that could not be compiled: name → target and why.
    """

    def __init__(
        self,
        built_in: Iterable[Interface],
        users: Iterable[Interface],
        *,
        invalid: Mapping[str, tuple[KindReference, str]] | None = None,
        prefer: Sequence[str] = (USER,),
    ) -> None:
        self._prefer = check_prefer(prefer)
        self._unused = [_Unused(name, target, why) for name, (target, why) in (invalid or {}).items()]
        self._built_in = self._usable({interface.name: interface for interface in built_in})
        self._users = self._usable({interface.name: interface for interface in users})
        self._by_kind: dict[tuple[str, str], list[Interface]] = {}
        for interface in (*self._users.values(), *self._built_in.values()):
            self._by_kind.setdefault((interface.target.group, interface.target.kind), []).append(interface)
        self._unused_by_kind: dict[tuple[str, str], list[_Unused]] = {}
        for unused in sorted(self._unused, key=lambda unused: (unused.built_in, unused.name, unused.why)):
            self._unused_by_kind.setdefault((unused.target.group, unused.target.kind), []).append(unused)
        self._versions = {
            (*key, one.target.version)
            for of_kind in (self._by_kind, self._unused_by_kind)
            for key, them in of_kind.items()
            for one in them
        }
        self._candidates: dict[tuple[str, str, str], Candidates] = {}
        self._nearest = Nearest(sorted({*self._users, *self._built_in}), _MOST_SEARCHES)
        self._hints: dict[str, str] = {}

    def _usable(self, interfaces: Mapping[str, Interface]) -> dict[str, Interface]:
        usable = {}
        for name, interface in interfaces.items():
            target = interface.target
            # Validation refuses them, and so does this.
            if target.group == "" and target.kind in FORBIDDEN_KINDS:
                self._unused.append(_Unused(name, target, f"{target.kind} is no target", interface.built_in))
            else:
                usable[name] = interface
        return usable

    def candidates(self, api_version: str, kind: str) -> Candidates:
        """The interfaces for a kind: at most one of the users' and one built in."""
        group, version = split_version(api_version)
        if (group, kind) not in self._by_kind and (group, kind) not in self._unused_by_kind:
            return Candidates()
        # Versions that nobody names are all alike. This keeps what is remembered as small as what was loaded.
        key = (group, kind, version if (group, kind, version) in self._versions else ANY_VERSION)
        if key not in self._candidates:
            self._candidates[key] = self._ranked(*key)
        return self._candidates[key]

    def _ranked(self, group: str, kind: str, version: str) -> Candidates:
        interfaces, warnings = [], []
        versions = (version, ANY_VERSION)
        of_kind = [one for one in self._by_kind.get((group, kind), []) if one.target.version in versions]
        first = self._prefer.kinds.get((group, kind), self._prefer.everywhere) == BUILT_IN
        for built_in in (first, not first):
            ranked = sorted((one for one in of_kind if one.built_in == built_in), key=_rank)
            interfaces += ranked[:1]
            # The catalog may have one for a version and one for the others: that is no accident.
            if len(ranked) > 1 and not (built_in and ranked[0].target.version != ranked[1].target.version):
                warnings.append(_conflict(ranked))
        unused = [one for one in self._unused_by_kind.get((group, kind), []) if one.target.version in versions]
        warnings += [one.warning for one in unused]
        theirs = [one.warning for one in unused if not one.built_in]
        broken = theirs[0] if theirs and all(one.built_in for one in interfaces) else ""
        return Candidates(tuple(interfaces), tuple(warnings), broken)

    def named(self, name: str) -> Interface | None:
        """The interface of that name: a user's, else the built-in one."""
        return self._users.get(name) or self._built_in.get(name)

    def unusable(self, name: str) -> str:
        """Why an interface of that name is not used, in a sentence; nothing when there is no such one."""
        return next((unused.warning for unused in self._unused if unused.name == name), "")

    def nearest(self, name: str) -> str:
        """`did you mean X?`, or nothing."""
        # A typing mistake in one workload comes back with each of its pods.
        if name not in self._hints:
            if len(self._hints) >= _MOST_SEARCHES:
                return ""
            self._hints[name] = self._nearest.hint(name)
        return self._hints[name]


def _rank(interface: Interface) -> tuple[bool, datetime, str]:
    return interface.target.version == ANY_VERSION, _created(interface), interface.name


def _created(interface: Interface) -> datetime:
    """One that does not say when it was made is as old as can be."""
    try:
        created = datetime.fromisoformat(interface.created)
        return created.replace(tzinfo=UTC) if created.tzinfo is None else created.astimezone(UTC)
    except (ValueError, OverflowError):
        return _OLDEST


def _conflict(ranked: Sequence[Interface]) -> str:
    winner, second = ranked[0], ranked[1]
    if winner.target.version != second.target.version:
        reason = f"it names the version {winner.target.version}"
    elif _created(winner) != _created(second):
        reason = "it is older"
    else:
        reason = "its name comes first"
    losers = ", ".join(shown(loser.name) for loser in ranked[1:])
    return (
        f"{len(ranked)} ResourceInterfaces{' (built in)' if winner.built_in else ''} are for "
        f"{kind_title(winner.target)}: {shown(winner.name)} is asked, because {reason}, instead of {losers}"
    )
