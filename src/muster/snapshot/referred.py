"""Objects that pods refer to: claims and what is behind them, PodGroups of Kubernetes, classes of devices.

They are filed by the pods that wait for them, so that a change of one touches the gangs that it concerns and no other.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from muster.api.cluster import PodSpec
from muster.api.native import DeviceClass, NativePodGroup
from muster.api.storage import STORED, CSIDriver, CSINode, PersistentVolumeClaim
from muster.snapshot.arrays import Doubt
from muster.snapshot.claims import Obstacle, Storage, Tie, Use, uses_of

Key = tuple[str, str]

REFERRED = (*STORED, NativePodGroup, DeviceClass)
# What is said of an object that is not there.
NOT_FOUND, NOT_IN_INPUT = "is not found", "is not in the input"
# Kinds of which a missing object would allow something.
_PERMISSIVE: dict[type, str] = {CSINode: "csinodes", CSIDriver: "csidrivers", DeviceClass: "deviceclasses"}
NATIVE_GROUPS = "podgroups.scheduling.k8s.io"
# How a pod asks for devices of a class that names no resource.
_IMPLICIT = "deviceclass.resource.kubernetes.io/"
# The most resources of one pod that are named as doubtful.
_MOST_DOUBTS = 16
_ASKED = " (spec.containers.resources)"
_DEVICES = "take it out of the pod, or let nodes offer enough of it by device plugin"


class References(NamedTuple):
    """What a pod refers to: claims, and a PodGroup of Kubernetes by name."""

    claims: tuple[Use, ...] = ()
    group: str = ""

    def __bool__(self) -> bool:
        """Whether it refers to anything."""
        return bool(self.claims or self.group)


NO_REFERENCES = References()


def references_of(spec: PodSpec) -> References:
    """The objects that a pod's spec names."""
    group = spec.scheduling_group.pod_group_name if spec.scheduling_group is not None else ""
    if not group and not spec.volumes:
        return NO_REFERENCES
    found = References(uses_of(spec), group)
    return found or NO_REFERENCES


class Referred:
    """The objects by kind and name, the kinds that can't be read, and the pods that wait for an object."""

    def __init__(self) -> None:
        self.storage = Storage()
        self.groups: dict[Key, NativePodGroup] = {}
        self.classes: dict[str, DeviceClass] = {}
        # Kinds that can't be read, by resource, with the reason in words; also those of which one object can't be
        # read, where a missing object would allow something.
        self.closed: dict[str, str] = {}
        self._shut: dict[str, str] = {}
        self._broken: dict[str, str] = {}
        self._unread: dict[tuple[type, str], str] = {}
        self.absent = NOT_FOUND
        self._pods: dict[tuple[type, Key], set[Key]] = {}
        # Resources that pods may get as devices, with the class.
        self._offered: dict[str, str] | None = None

    def copy(self) -> "Referred":
        """Another one with the same objects; pods are filed anew by the one who copies."""
        other = Referred()
        other.storage, other.groups, other.classes = self.storage.copy(), dict(self.groups), dict(self.classes)
        other.closed, other.absent = dict(self.closed), self.absent
        other._unread, other._shut, other._broken = dict(self._unread), dict(self._shut), dict(self._broken)
        other._pods = {place: set(pods) for place, pods in self._pods.items()}
        return other

    def kept(self, struct: Any) -> dict[Any, Any]:
        """The objects of a kind."""
        if struct is NativePodGroup:
            return self.groups
        return self.classes if struct is DeviceClass else self.storage.kept(struct)

    def file(self, pod: Key, references: References, *, waits: bool) -> None:
        """A pod waits for what it refers to, or does not any more."""
        for place in _places(pod[0], references):
            if waits:
                self._pods.setdefault(place, set()).add(pod)
            elif place in self._pods:
                self._pods[place].discard(pod)
                if not self._pods[place]:
                    del self._pods[place]

    def apply(self, key: Key, found: Any, *, deleted: bool) -> set[Key] | None:
        """An object that came, changed or went: the pods that it concerns. None: any pod."""
        if self._unread.pop((type(found), key[1]), None) is not None:
            self._tell_unread(type(found))
            self.apply(key, found, deleted=deleted)
            return None
        if isinstance(found, NativePodGroup):
            before = self.groups.get(key)
            _keep(self.groups, key, found, deleted)
            same = before is not None and not deleted and before.beyond_pods == found.beyond_pods
            return set() if same else set(self._pods.get((NativePodGroup, key), ()))
        if isinstance(found, DeviceClass):
            known = self.offered
            _keep(self.classes, key[1], found, deleted)
            self._offered = None
            return set() if known == self.offered else None
        claims = self.storage.apply(key, found, deleted=deleted)
        return self._waiting_for(claims)

    def apply_unread(self, struct: type, key: Key, why: str, *, deleted: bool) -> None:
        """An object that can't be read is as if it were not there; where that would allow something, nothing of its
        kind is known.
        """
        known = self.kept(struct).get(key if struct in (PersistentVolumeClaim, NativePodGroup) else key[1])
        if known is not None:
            self.apply(key, known, deleted=True)
        if struct in _PERMISSIVE:
            self._unread.pop((struct, key[1]), None)
            if not deleted:
                self._unread[struct, key[1]] = why
            self._tell_unread(struct)

    def _tell_unread(self, struct: type) -> None:
        first = min((name for one, name in self._unread if one is struct), default="")
        why = f"{struct.__name__} {first} can't be read: {self._unread[struct, first]}" if first else ""
        _keep(self._broken, _PERMISSIVE[struct], why, not why)
        self.closed = {**self._broken, **self._shut}

    def close(self, resource: str, why: str) -> bool:
        """A kind can't be read, and why; without a reason it can. Whether that is something new."""
        if self._shut.get(resource, "") == why:
            return False
        _keep(self._shut, resource, why, not why)
        self.closed = {**self._broken, **self._shut}
        return True

    def _waiting_for(self, claims: Iterable[Key] | None) -> set[Key]:
        if claims is None:
            claims = [key for struct, key in self._pods if struct is PersistentVolumeClaim]
        return {pod for claim in claims for pod in self._pods.get((PersistentVolumeClaim, claim), ())}

    @property
    def offered(self) -> Mapping[str, str]:
        """Resources that pods may get as devices, each with the class that offers it."""
        if self._offered is None:
            named = sorted(self.classes.items())
            self._offered = {f"{_IMPLICIT}{name}": name for name, _ in named}
            for name, one in named:
                if one.spec.extended_resource_name:
                    self._offered.setdefault(one.spec.extended_resource_name, name)
        return self._offered

    def look(self, namespace: str, references: References) -> tuple[list[Obstacle], list[Tie]]:
        """What keeps a pod from being placed yet, and the claims that bind it to some nodes."""
        obstacles, ties = self.storage.look(namespace, references.claims, self.closed, self.absent)
        if references.group:
            obstacles += self._group_holds((namespace, references.group))
        return obstacles, ties

    def _group_holds(self, key: Key) -> Iterator[Obstacle]:
        """A PodGroup of Kubernetes that asks for more than its pods do one by one is not torn apart."""
        path, name = "spec.schedulingGroup", f"podgroup.scheduling.k8s.io/{key[1]}"
        group = self.groups.get(key)
        if NATIVE_GROUPS in self.closed:
            yield Obstacle(path, f"its group {key[1]} can't be read: {self.closed[NATIVE_GROUPS]}", _READ_GROUPS)
        elif group is None:
            yield Obstacle(path, f"{name} {self.absent}", "add the PodGroup of scheduling.k8s.io that the pod names")
        elif group.beyond_pods:
            why = f"{name} has spec.{group.beyond_pods}, and its pods are not placed one by one"
            yield Obstacle(path, why, "use a PodGroup of scheduling.run.ai, or kube-scheduler")

    def doubts(self, request: Mapping[str, int]) -> Iterator[Doubt]:
        """What a pod asks for that it may get as devices, by resource: of this nobody says that it does not fit."""
        if not self.offered and "deviceclasses" not in self.closed:
            return
        found = self._doubts(request)
        yield from islice(found, _MOST_DOUBTS)
        if (more := next(found, None)) is not None:
            # What is not looked at may be offered: the doubt remains, whatever nodes have.
            yield more._replace(alone=False)

    def _doubts(self, request: Mapping[str, int]) -> Iterator[Doubt]:
        for resource in sorted(request):
            if resource in self.offered:
                why = f"DeviceClass {self.offered[resource]} offers {resource}, which muster can't honour yet"
                yield Doubt(resource, f"{why}, and nodes have too little of it by device plugin{_ASKED}", _DEVICES)
            elif "deviceclasses" in self.closed and (_is_extended(resource) or resource.startswith(_IMPLICIT)):
                why = f"no node has {resource}, and whether a DeviceClass offers it is not known"
                why = f"{why}: {self.closed['deviceclasses']}{_ASKED}"
                yield Doubt(resource, why, "grant get, list and watch on deviceclasses.resource.k8s.io", alone=True)
            elif self.classes and resource.startswith(_IMPLICIT):
                why = f"DeviceClass {resource.removeprefix(_IMPLICIT)} {self.absent}{_ASKED}"
                yield Doubt(resource, why, "add the DeviceClass, or take the resource out of the pod")


_READ_GROUPS = "serve that kind and let muster read it (muster doctor), or use a PodGroup of scheduling.run.ai"


def _is_extended(resource: str) -> bool:
    """Whether a resource is none of Kubernetes' own."""
    return "/" in resource and "kubernetes.io/" not in resource


def _places(namespace: str, references: References) -> Iterator[tuple[type, Key]]:
    for use in references.claims:
        yield PersistentVolumeClaim, (namespace, use.claim)
    if references.group:
        yield NativePodGroup, (namespace, references.group)


def _keep(objects: dict[Any, Any], key: Any, found: Any, deleted: bool) -> None:
    if deleted:
        objects.pop(key, None)
    else:
        objects[key] = found
