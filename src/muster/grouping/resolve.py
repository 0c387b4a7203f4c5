"""Which object of an owner chain a gang is about, and which ResourceInterface makes it: from the top owner down, the
first kind that resolves decides.
"""

from collections.abc import Sequence
from typing import NamedTuple

from muster.api.documents import shown
from muster.api.interface import DEFAULT, GROUP, HANDOFF, SKIP, Defaults
from muster.grouping.metadata import INTERFACE_ANNOTATION
from muster.grouping.model import Interface
from muster.grouping.owners import Identity, Link, annotations_of, identity_of, split_version
from muster.grouping.registry import Registry, is_for, kind_title
from muster.grouping.trouble import ROLE_HINT, Trouble, right_to_read

_DEFAULT_WORD = "default"


class Resolved(NamedTuple):
    """Who decides about a chain.

    `link_index` is the object of the chain that the PodGroup is about; without an interface it is a gang of minimum 1.
    `defaults` come in order of precedence. `steps` say how it came to this, a sentence each. `broken` is the interface
    that somebody meant for it and that can't be used: a PodGroup that is there stays as it is then.
    """

    link_index: int
    interface: Interface | None
    defaults: tuple[Defaults, ...] = ()
    warnings: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    broken: str = ""


class _Way:
    """The way down a chain, and what was found on it. `wish` is the interface that the annotation names."""

    def __init__(self, chain: Sequence[Link]) -> None:
        self.chain = chain
        self.identities = [identity_of(link.object) for link in chain]
        self.wish: Interface | None = None
        self.heeded = self.skipped = False
        self.broken = ""
        self.defaults: list[Defaults] = []
        self.warnings: list[str] = []
        self.steps: list[str] = []

    def keep(self, interface: Interface) -> None:
        if interface.defaults != Defaults():
            self.defaults.append(interface.defaults)

    def resolved(self, index: int, interface: Interface | None) -> Resolved:
        if self.wish is not None and not self.heeded:
            self.warnings.append(
                f"annotation {INTERFACE_ANNOTATION} names {self.wish.title}, which is not asked: "
                f"{self.identities[index].title} decides before any {kind_title(self.wish.target)}"
            )
        # One kind may stand in a chain twice, and is told about once.
        warnings = tuple(dict.fromkeys(self.warnings))
        return Resolved(index, interface, tuple(self.defaults), warnings, tuple(self.steps), self.broken)


def resolve(chain: Sequence[Link], registry: Registry) -> Resolved:
    """Who decides about a chain, top owner first. Raises Trouble."""
    way = _Way(chain)
    asked = next(
        (index for index, link in enumerate(chain) if INTERFACE_ANNOTATION in annotations_of(link.object)), None
    )
    if asked is not None:
        carrier = way.identities[asked]
        said = annotations_of(chain[asked].object)[INTERFACE_ANNOTATION]
        way.steps.append(f"{carrier.title}: annotation {INTERFACE_ANNOTATION} says {shown(said)}")
        if said == _DEFAULT_WORD:
            return way.resolved(asked, None)
        try:
            way.wish = _wish(way, f"{carrier.title}: annotation {INTERFACE_ANNOTATION}", said, registry)
        except Trouble as trouble:
            trouble.about = carrier.kind, carrier.namespace, carrier.name
            raise
    for index in range(len(chain)):
        found = _ask(way, index, registry)
        if found is not None:
            return found
    way.steps.append(
        f"no object of the chain decides: {way.identities[0].title}, the top owner, is a gang of minimum 1"
    )
    return way.resolved(0, None)


def _ask(way: _Way, index: int, registry: Registry) -> Resolved | None:
    """What the interfaces for one object say; nothing when they give way."""
    identity = way.identities[index]
    title = identity.title
    interfaces, warnings, broken = registry.candidates(identity.api_version, identity.kind)
    wish = way.wish
    if wish is not None and is_for(wish.target, identity.api_version, identity.kind):
        way.heeded, broken = True, ""
        interfaces = (wish, *(one for one in interfaces if one is not wish))
    elif index and not way.skipped and index == len(way.chain) - 1 and _is_pod(identity):
        # An interface for pods is for those that nobody owns, or whose owners step aside. Were it asked about others, a
        # kind that nobody has heard of would fall into as many gangs as it has pods.
        way.steps.append(f"{title}: is not asked itself, since it has owners and none of them says Skip")
        return None
    way.warnings += warnings
    if broken and not interfaces:
        # What would be left is a gang of one: pods of the workload would start alone.
        hint = "mend it: until then, workloads of this kind wait"
        raise Trouble(broken, hint, retry=True, about=(identity.kind, identity.namespace, identity.name))
    way.broken = way.broken or broken
    if not interfaces:
        way.steps.append(f"{title}: there is no ResourceInterface for this kind")
    for interface in interfaces:
        action = _action(interface)
        way.keep(interface)
        silent = " (it has no gangScheduling)" if action == HANDOFF != interface.action else ""
        way.steps.append(f"{title}: {interface.title} says {action}{silent}")
        if action == DEFAULT:
            return way.resolved(index, None)
        if action == GROUP:
            if way.chain[index].bare:
                raise _unreadable(identity, interface)
            return way.resolved(index, interface)
        if action == SKIP:
            way.skipped = True
            break
    return None


def _is_pod(identity: Identity) -> bool:
    return identity.kind == "Pod" and split_version(identity.api_version)[0] == ""


def _action(interface: Interface) -> str:
    """What the interface says. One that says to group and nothing about gangs hands over."""
    if interface.action in (DEFAULT, SKIP, HANDOFF):
        return interface.action
    return GROUP if interface.templates else HANDOFF


def _wish(way: _Way, here: str, name: object, registry: Registry) -> Interface:
    """The interface that an annotation names."""
    if not isinstance(name, str) or not name:
        raise Trouble(
            f"{here} is {shown(name)}, which names nothing",
            f"write the name of a ResourceInterface, or {_DEFAULT_WORD}",
        )
    interface, unusable = registry.named(name), registry.unusable(name)
    if interface is None:
        if unusable:
            raise Trouble(f"{here} can't be followed: {unusable}", "correct it, or name another ResourceInterface")
        raise Trouble(
            f"{here} names {shown(name)}, and there is no ResourceInterface of that name",
            registry.nearest(name) or f"name one that is there, or write {_DEFAULT_WORD}",
        )
    if not any(is_for(interface.target, one.api_version, one.kind) for one in way.identities):
        owners = ", ".join(f"{one.title} ({shown(one.api_version)})" for one in way.identities)
        raise Trouble(
            f"{here} names {interface.title}, which is for {kind_title(interface.target)}; here are only {owners}",
            f"name a ResourceInterface for one of these kinds, or write {_DEFAULT_WORD}",
        )
    if unusable:
        way.warnings.append(unusable)
    return interface


def _unreadable(identity: Identity, interface: Interface) -> Trouble:
    group = split_version(identity.api_version)[0]
    remedy = right_to_read(group, identity.kind)
    return Trouble(
        f"{identity.title} may not be read, and {interface.title} needs it: {remedy}",
        ROLE_HINT,
        retry=True,
        about=(identity.kind, identity.namespace, identity.name),
    )
