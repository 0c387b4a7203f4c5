"""Which gang a name means: its PodGroup, its pod or its workload, as people know them (SPEC §10)."""

from collections.abc import Collection, Iterator, Mapping

from muster.api.cluster import POD_GROUP_ANNOTATION
from muster.api.model import OwnerReference
from muster.api.nearest import Nearest
from muster.api.podgroup import PodGroup
from muster.cli.judging import plural
from muster.errors import UsageError
from muster.snapshot.arrays import Key
from muster.snapshot.world import DEFAULT_NAMESPACE, World

POD_GROUP, POD = "podgroup", "pod"
# The short names that kubectl knows of kinds that own pods.
_SHORT = {
    "pg": POD_GROUP,
    "po": POD,
    "cj": "cronjob",
    "deploy": "deployment",
    "ds": "daemonset",
    "lws": "leaderworkerset",
    "pcs": "podcliqueset",
    "rs": "replicaset",
    "sts": "statefulset",
    "wf": "workflow",
}
_MOST_NAMED = 5


def gang_meant(name: str, world: World, place: str, home: str = DEFAULT_NAMESPACE, *, only_home: bool = False) -> Key:
    """The gang that is meant by `NAMESPACE/NAME`, `NAME` or `KIND/NAME`. `home` is the namespace of what names none; a
    NAME that is only in another namespace is found too, unless `only_home`.

    Raises UsageError, which says what there is.
    """
    before, slash, short = name.rpartition("/")
    if slash and (before, short) not in world.groups:
        kind = _kind(before)
        found = sorted(_of_kind(kind, short, home, world))
        if not found and not only_home:
            spaces = {key[0] for key in world.groups} - {home}
            found = sorted({key for space in spaces for key in _of_kind(kind, short, space, world)})
        if len(found) > 1:
            listed = _listed(f"{one[0]}/{one[1]}" for one in found)
            raise UsageError(f"{name} has {len(found)} gangs", f"say which: {listed}")
        if found:
            return found[0]
        if kind in (POD_GROUP, POD) or kind in _kinds(world):
            raise UsageError(f"there is no gang of {name} in {place}{_in(home)}", _hint(f"{home}/{short}", world))
    return _by_name(name, world, place, home, only_home=only_home)


def _by_name(name: str, world: World, place: str, home: str, *, only_home: bool) -> Key:
    """The gang of that name; without a namespace, the one at home, else the only one of that name."""
    namespace, slash, short = name.rpartition("/")
    key = (namespace or home, short)
    if key in world.groups:
        return key
    alike = sorted(key for key in world.groups if key[1] == short) if not slash and not only_home else []
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise UsageError(f"several gangs are called {name}", f"say which: {_listed(map('/'.join, alike))}")
    lost = len(world.members.get(key, ()))
    if lost:
        raise UsageError(
            f"{plural(lost, 'pod')} name{'s' if lost == 1 else ''} the gang {'/'.join(key)}, "
            f"and no PodGroup of that name exists in {place}",
            f"create the PodGroup, or correct the annotation {POD_GROUP_ANNOTATION}",
        )
    if not slash:
        # A workload by its name alone: its PodGroup has a longer one.
        owned = sorted(_owned(short, home, world))
        if len(owned) == 1:
            return owned[0]
    raise UsageError(f"there is no gang {name} in {place}", _hint("/".join(key), world))


def _hint(name: str, world: World) -> str:
    names = [f"{one[0]}/{one[1]}" for one in sorted(world.groups)]
    return Nearest(names).hint(name) or (f"there are: {_listed(names)}" if names else "there is none")


def _in(home: str) -> str:
    return f", namespace {home}" if home != DEFAULT_NAMESPACE else ""


def _listed(names: Collection[str] | Iterator[str]) -> str:
    found = list(names)
    more = f" and {len(found) - _MOST_NAMED:,} more" if len(found) > _MOST_NAMED else ""
    return ", ".join(found[:_MOST_NAMED]) + more


def _kind(word: str) -> str:
    """A kind as people type it, without its group: `lws`, `RayCluster`, `jobs.batch`."""
    kind = word.partition(".")[0].casefold()
    if kind in _SHORT:
        return _SHORT[kind]
    return kind[:-1] if kind.endswith("s") and not kind.endswith("ss") else kind


def _of_kind(kind: str, name: str, home: str, world: World) -> Iterator[Key]:
    if kind == POD_GROUP:
        yield from ({(home, name)} & world.groups.keys())
    elif kind == POD:
        facts = world.pods.get((home, name))
        if facts is not None and facts.gang in world.groups:
            yield facts.gang
    else:
        yield from _owned(name, home, world, kind)


def _owned(name: str, home: str, world: World, kind: str = "") -> set[Key]:
    """The gangs in a namespace that a workload owns, itself or through its pods."""

    def owns(owners: Collection[OwnerReference]) -> bool:
        return any(one.name == name and kind in ("", _kind(one.kind)) for one in owners)

    return {
        key
        for key, group in world.groups.items()
        if key[0] == home and (owns(group.metadata.owner_references) or any(map(owns, _owners_of_pods(key, world))))
    }


def _owners_of_pods(key: Key, world: World) -> Iterator[list[OwnerReference]]:
    return (facts.pod.metadata.owner_references for facts in world.members.get(key, {}).values())


def _kinds(world: World) -> set[str]:
    """The kinds of all workloads that have a gang."""
    groups: Mapping[Key, PodGroup] = world.groups
    found = {_kind(one.kind) for group in groups.values() for one in group.metadata.owner_references}
    found |= {_kind(one.kind) for key in groups for owners in _owners_of_pods(key, world) for one in owners}
    return found | set(_SHORT.values())
