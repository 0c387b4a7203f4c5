"""The priority of a gang: what its class says, as far as that counts where the gang is (SPEC §14)."""

from collections.abc import Collection, Iterable, Mapping

from muster.api.cluster import BUILT_IN_PRIORITIES, Pod, PriorityClass
from muster.api.once import once
from muster.api.priorities import HIGHEST_OF_USERS
from muster.model.reasons import Code
from muster.snapshot.arrays import Issue
from muster.snapshot.queues import Standing
from muster.snapshot.world import PodFacts, State

# Pods in these states are still to run, or run.
_LIVE = frozenset({State.WAITING, State.GATED, State.PLACED})


def values_of(classes: Mapping[str, PriorityClass]) -> dict[str, int]:
    """The priorities by name, with those that are known without objects."""
    return {**BUILT_IN_PRIORITIES, **{name: one.value for name, one in classes.items()}}


def default_of(classes: Mapping[str, PriorityClass]) -> int:
    """The priority without a class. Of several global defaults the lowest counts, as in the API server."""
    return min((one.value for one in classes.values() if one.global_default), default=0)


def priority_of(pod: Pod, classes: Mapping[str, PriorityClass]) -> int:
    """The priority of a pod that is of no gang. The API server writes it into the spec; files may only name a class."""
    if pod.spec.priority is not None:
        return pod.spec.priority
    default = default_of(classes)
    return values_of(classes).get(pod.spec.priority_class_name, default)


class Ranks:
    """PriorityClasses, and where which of them count."""

    def __init__(
        self, queues: Standing, classes: Mapping[str, PriorityClass], system_namespaces: Collection[str]
    ) -> None:
        self._queues, self._classes, self._system_namespaces = queues, classes, system_namespaces

    @once
    def _values(self) -> Mapping[str, int]:
        return values_of(self._classes)

    @once
    def default(self) -> int:
        """The priority of what names no class."""
        return default_of(self._classes)

    def of(
        self,
        namespace: str,
        queue: str,
        name: str,
        pods: Iterable[PodFacts],
        held: list[Issue],
        notes: list[Issue],
    ) -> int:
        """The priority that counts. One that is not allowed holds the gang, and protects nothing of it that runs:
        instead of a system class the default counts, and nothing counts more than the queue admits.
        """
        stated = self._values.get(name)
        if name and stated is None:
            notes.append(Issue(Code.PRIORITY_NOT_FOUND, 0, name))
        priority = self.default if stated is None else stated
        most = self._queues.max_priority_of(queue)
        if priority > HIGHEST_OF_USERS and (issue := self._refusal(namespace, name, pods)) is not None:
            held.append(issue)
            priority = self.default
        elif most is not None and priority > most:
            held.append(Issue(Code.PRIORITY_NOT_ALLOWED, 0, name, asked=priority, most=most))
        return priority if most is None else min(priority, most)

    def _refusal(self, namespace: str, name: str, pods: Iterable[PodFacts]) -> Issue | None:
        """Why a system class does not count; None when it does."""
        if namespace not in self._system_namespaces:
            return Issue(Code.PRIORITY_NOT_ALLOWED, 0, name)
        for facts in pods:
            if facts.state in _LIVE and facts.pod.spec.priority_class_name != name:
                return Issue(Code.PRIORITY_NOT_ALLOWED, 0, name, facts.pod.metadata.name)
        return None
