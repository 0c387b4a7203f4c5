"""What labels and annotations say about a PodGroup as a whole: its queue, priority, preemptibility and delays.

The owners are asked first, nearest first, then the pod, then the defaults of the ResourceInterface. What can't be used
is passed over with a warning, and the next one is asked.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from muster.api.cluster import QUEUE_LABEL, SKIP_ANNOTATION, SUBGROUP_LABEL
from muster.api.documents import shown
from muster.api.duration import parse_ns
from muster.api.interface import Defaults
from muster.api.model import INT32_MAX
from muster.api.nearest import Nearest
from muster.api.podgroup import GROUPER_ANNOTATION, NON_PREEMPTIBLE, PREEMPTIBLE, SEMI_PREEMPTIBLE
from muster.errors import BadObject
from muster.grouping.model import Object
from muster.grouping.owners import annotations_of, identity_of, labels_of
from muster.grouping.trouble import Trouble

PREFIX = "kai.scheduler/"
# On a workload: the name of the interface to use, or `default`.
INTERFACE_ANNOTATION = "kai.scheduler/resource-interface"
# On a PodGroup: a hash of the constraints that were written last. When others are there, somebody edited them.
CONSTRAINTS_ANNOTATION = "kai.scheduler/derived-constraints"
PROJECT_LABEL = "project"
NODE_POOL_LABEL = "kai.scheduler/node-pool"
PRIORITY_LABEL = "priorityClassName"
PREEMPTIBILITY = "kai.scheduler/preemptibility"
DELAY_ANNOTATION = "kai.scheduler/preemption-delay"
GRACE_ANNOTATION = "kai.scheduler/staleness-grace-period"
# Who pays; it is passed on for accounting.
USER = "user"
# The PriorityClass of a workload that asks for none.
FALLBACK_PRIORITY = "train"

LABELS, ANNOTATIONS, _SPEC = "labels", "annotations", "spec"
_READ = {LABELS: labels_of, ANNOTATIONS: annotations_of}
_PREEMPTIBILITIES = (PREEMPTIBLE, NON_PREEMPTIBLE, SEMI_PREEMPTIBLE)
# What is said to the grouper or about one pod, and what schedulers note down for themselves.
_NOT_PASSED_ON = frozenset(
    {
        SKIP_ANNOTATION,
        INTERFACE_ANNOTATION,
        GROUPER_ANNOTATION,
        SUBGROUP_LABEL,
        "kai.scheduler/podgroup",
        "kai.scheduler/kept-room",
        CONSTRAINTS_ANNOTATION,
        "kai.scheduler/ignore-workload-api",
        "kai.scheduler/last-start-timestamp",
        "kai.scheduler/last-eviction-timestamp",
        "kai.scheduler/stale-podgroup-timestamp",
        "kai.scheduler/numa-placement-predicted",
        "kai.scheduler/numa-placement-observed",
    }
)
_KEY = re.compile(r"(?:[a-z0-9][-a-z0-9.]{0,252}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_MOST_DIGITS = 10
_PLAIN = re.compile(r"[-A-Za-z0-9._:/]{1,320}")


class Derived(NamedTuple):
    """What a PodGroup is given. Empty texts and None say that nobody asked for anything.

    `weak` names the fields that no owner decided, but one of many pods or a default: a PodGroup that exists keeps what
    it has there.
    """

    queue: str
    priority_class_name: str
    preemptibility: str
    preemption_delay: str | None
    staleness_grace_period: str | None
    labels: dict[str, str]
    annotations: dict[str, str]
    weak: frozenset[str]
    warnings: tuple[str, ...]


class Said(NamedTuple):
    """An annotation, and the object that carries it."""

    source: Object
    key: str
    value: str

    def __str__(self) -> str:
        return f"{place(self.source, ANNOTATIONS, self.key)} is {shown(self.value)}"

    def whole(self, least: int = 1) -> int:
        """The number: `least` or more. Raises Trouble."""
        digits = self.value.isascii() and self.value.isdigit() and len(self.value) <= _MOST_DIGITS
        count = int(self.value) if digits else -1
        if least <= count <= INT32_MAX:
            return count
        what = "which asks for nothing" if count == 0 else f"which is no whole number from {least} to {INT32_MAX}"
        raise Trouble(f"{self}, {what}", f"write {least} or more")

    def name(self, most: int) -> str:
        """The name of something, of at most so many characters. Raises Trouble."""
        if len(self.value) <= most:
            return self.value
        raise Trouble(f"{self}, which is longer than a name can be", f"write at most {most} characters")


def place(source: Object, where: str, key: str) -> str:
    """A label or annotation in words: `Job default/train: the label user`."""
    return f"{identity_of(source).title}: " + (f"spec.{key}" if where == _SPEC else f"the {where[:-1]} {plain(key)}")


def plain(text: str) -> str:
    """A key or name inside a sentence; in quotes when it is none."""
    return text if _PLAIN.fullmatch(text) else shown(text)


def texts(source: Object, field: str) -> dict[str, str]:
    """The labels or annotations of an object, as far as they are text."""
    return {key: value for key, value in _READ[field](source).items() if type(key) is type(value) is str}


def nearest(sources: Iterable[Object], key: str, warnings: list[str]) -> Said | None:
    """An annotation of the nearest object that has it. An empty one says nothing, as if it were not there."""
    for source in sources:
        value = annotations_of(source).get(key)
        if value and isinstance(value, str):
            return Said(source, key, value)
        if value is not None and value != "":
            warnings.append(_no_text(source, ANNOTATIONS, key, value))
    return None


def derived(
    sources: Sequence[Object],
    pod: Object | None,
    defaults: Sequence[Defaults],
    *,
    classes: Set[str] | None,
    default_queue: str,
    given_class: str = "",
) -> Derived:
    """What a PodGroup is given. `sources` are its owners, nearest first; `given_class` is the PriorityClass that a
    field of the workload gives.

    A pod that owns the PodGroup may be among the sources; it is asked last then too. `classes` are the PriorityClasses
    that exist, None when nobody knows.
    """
    search = _Search(sources, pod)
    queue = _queue(search)
    priority = _priority(search, defaults, classes, given_class)
    preemptibility = search.first(
        "preemptibility", ((LABELS, PREEMPTIBILITY), (ANNOTATIONS, PREEMPTIBILITY)), _preemptibility_fault
    )
    if preemptibility is None:
        preemptibility = next((default.preemptibility for default in defaults if default.preemptibility), "")
        if preemptibility:
            search.weak.add("preemptibility")
    delay = search.first("preemption_delay", ((ANNOTATIONS, DELAY_ANNOTATION),), _delay_fault)
    grace = search.first("staleness_grace_period", ((ANNOTATIONS, GRACE_ANNOTATION),), _duration_fault)
    labels = search.collected(LABELS, lambda key, value: _LABEL_VALUE.fullmatch(value) is not None)
    annotations = search.collected(ANNOTATIONS, lambda key, _: key.startswith(PREFIX) or key == USER)
    return Derived(
        queue=queue or default_queue,
        priority_class_name=priority,
        preemptibility=preemptibility,
        preemption_delay=delay,
        staleness_grace_period=grace,
        labels=labels,
        annotations=annotations,
        weak=frozenset(search.weak),
        warnings=tuple(dict.fromkeys(search.warnings)),
    )


def _queue(search: "_Search") -> str:
    """The queue that is asked for. A queue label that is there but empty asks for the default one."""
    queue = search.first("queue", ((LABELS, QUEUE_LABEL),), empty=True)
    if queue is not None:
        return queue
    project = search.first("queue", ((LABELS, PROJECT_LABEL),))
    if project is None:
        return ""
    pool = texts(search.pod, LABELS).get(NODE_POOL_LABEL) if search.pod is not None else None
    if not pool:
        return project
    if search.pod_is_guest:
        search.weak.add("queue")
    return f"{project}-{pool}"


def _priority(search: "_Search", defaults: Sequence[Defaults], classes: Set[str] | None, given: str) -> str:
    near = Nearest(sorted(classes or ()))

    def fault(name: str) -> str:
        if classes is None or name in classes:
            return ""
        hint = near.hint(name)
        return f"there is no such PriorityClass{'; ' if hint else ''}{hint}"

    found = search.first("priority_class_name", ((LABELS, PRIORITY_LABEL), (_SPEC, PRIORITY_LABEL)), fault)
    if found is not None:
        return found
    for name in (given, *(default.priority_class_name for default in defaults)):
        if name and fault(name):
            search.warnings.append(
                f"ResourceInterface: defaults.priorityClassName is {shown(name)}: {fault(name)}; it is passed over"
            )
        elif name:
            if name != given:
                search.weak.add("priority_class_name")
            return name
    search.weak.add("priority_class_name")
    return FALLBACK_PRIORITY if classes is None or FALLBACK_PRIORITY in classes else ""


def _preemptibility_fault(value: str) -> str:
    if value in _PREEMPTIBILITIES:
        return ""
    return f"write {PREEMPTIBLE}, {NON_PREEMPTIBLE} or {SEMI_PREEMPTIBLE}"


def _duration_fault(value: str, least: int | None = None) -> str:
    try:
        duration = parse_ns(value)
    except BadObject as error:
        return f"it is no duration; {error.hint}"
    return "a delay can't be negative; write 0s or more" if least is not None and duration < least else ""


def _delay_fault(value: str) -> str:
    return _duration_fault(value, 0)


def _nothing_wrong(_: str) -> str:
    return ""


class _Search:
    """Asks the owners, then the pod. Keeps what was passed over, and what only the pod said."""

    def __init__(self, sources: Sequence[Object], pod: Object | None) -> None:
        self.pod = pod
        self.owners = [source for source in sources if pod is None or not _same(source, pod)]
        # A pod that owns the PodGroup speaks for it; any other is one of many.
        self.pod_is_guest = pod is not None and len(self.owners) == len(sources)
        self.warnings: list[str] = []
        self.weak: set[str] = set()

    def first(
        self,
        field: str,
        places: Sequence[tuple[str, str]],
        fault: Callable[[str], str] = _nothing_wrong,
        *,
        empty: bool = False,
    ) -> str | None:
        """The first text without a fault at one of the places; an empty one only counts with `empty`."""
        for source in [*self.owners, *([] if self.pod is None else [self.pod])]:
            for where, key in places:
                value = self._text(source, where, key)
                if value is None or not (value or empty):
                    continue
                what = fault(value)
                if what:
                    self.warnings.append(f"{place(source, where, key)} is {shown(value)}: {what}; it is passed over")
                    continue
                if source is self.pod and self.pod_is_guest:
                    self.weak.add(field)
                return value
        return None

    def collected(self, field: str, wanted: Callable[[str, str], bool]) -> dict[str, str]:
        """The labels or annotations that the PodGroup takes over, the nearest owner's first; of a pod that does not
        own it only the user.
        """
        found: dict[str, str] = {}
        for source in [*self.owners, *([] if self.pod is None or self.pod_is_guest else [self.pod])]:
            for key, value in texts(source, field).items():
                if key not in found and key not in _NOT_PASSED_ON and wanted(key, value) and _KEY.fullmatch(key):
                    found[key] = value
        user = texts(self.pod, field).get(USER) if self.pod is not None else None
        if user is not None and USER not in found and wanted(USER, user):
            found[USER] = user
            self.weak.add(field)
        return found

    def _text(self, source: Object, where: str, key: str) -> str | None:
        if where == _SPEC:
            spec = source.get("spec") if source is self.pod else None
            value = spec.get(key) if isinstance(spec, Mapping) else None
        else:
            value = _READ[where](source).get(key)
        if value is None or isinstance(value, str):
            return value
        self.warnings.append(_no_text(source, where, key, value))
        return None


def _same(source: Object, pod: Object) -> bool:
    """Whether both are one object, perhaps read twice."""
    uid = identity_of(source).uid
    return source is pod or (uid != "" and uid == identity_of(pod).uid)


def _no_text(source: Object, where: str, key: str, value: object) -> str:
    return f"{place(source, where, key)} is {shown(value)}: it is no text, write it in quotes; it is passed over"
