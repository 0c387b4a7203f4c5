"""Binds and evictions that were sent and that no watch has shown yet.

The world counts them as done from the moment they are sent, so that the next cycle plans with them: a bound pod holds
its room, an evicted one is leaving. Only two things end that: the watch shows what became of the pod, or the API server
says that nothing did. An answer that is not known changes nothing until the pod was read.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec import structs

from muster.api.cluster import ADMITTED_ANNOTATION, Pod
from muster.snapshot.world import Key, State, World, key_of, state_of

# A pod that ended keeps the node it had.
_ENDED = (State.SUCCEEDED, State.FAILED)
# Nobody asks when a pod began to leave.
_LEAVING = datetime.fromtimestamp(0, UTC)


@dataclass
class Flight:
    """One write on its way. `node` is where the pod goes; empty when it leaves. `real` is the pod as last seen."""

    uid: str
    node: str
    sent_ns: int
    real: Pod
    gang: Key | None
    # When the API server said yes: what is missing since then is only the sight of it.
    answered_ns: int | None = None
    # Nobody knows whether it happened; `why` is what was said instead.
    unknown: bool = False
    why: str = ""
    # What the pod was last seen with that could not be read.
    error: str = ""
    # The admission mark that goes with a bind.
    mark: str = ""


class Flights:
    """Keeps a world in step with what was seen and what was sent."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._flights: dict[Key, Flight] = {}
        # How many are on their way for each gang.
        self._of_gang: Counter[Key] = Counter()

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, key: Key) -> bool:
        return key in self._flights

    def keys(self) -> Collection[Key]:
        """The pods that writes are on their way for."""
        return self._flights.keys()

    def unsure(self) -> Collection[Key]:
        """The pods on their way to a node of which the API server has not said yes yet: they may never have one."""
        return [key for key, flight in self._flights.items() if flight.node and flight.answered_ns is None]

    def gangs(self) -> Collection[Key]:
        """The gangs of the pods that writes are on their way for."""
        return self._of_gang.keys()

    def real(self, key: Key) -> Pod | None:
        """A pod as it was last seen, whatever was sent since then."""
        flight, facts = self._flights.get(key), self._world.pods.get(key)
        return flight.real if flight is not None else facts.pod if facts is not None else None

    def see(self, pod: Pod, *, deleted: bool = False, error: str = "") -> None:
        """A pod came, changed or went. While a write for it is on its way, it is seen as that write will leave it."""
        key = key_of(pod.metadata)
        flight = self._flights.get(key)
        if flight is not None and (deleted or pod.metadata.uid != flight.uid or _shows(pod, flight)):
            self._drop(key)
            flight = None
        if flight is None:
            self._world.apply(pod, deleted=deleted, error=error)
            return
        flight.real, flight.error = pod, error
        self._overlay(flight)

    def bind(self, key: Key, node: str, now_ns: int, mark: str = "") -> Flight:
        """A bind is about to be sent, with this admission mark."""
        return self._send(key, node, now_ns, mark)

    def leave(self, key: Key, now_ns: int) -> Flight:
        """An eviction is about to be sent."""
        return self._send(key, "", now_ns)

    def _send(self, key: Key, node: str, now_ns: int, mark: str = "") -> Flight:
        assert key not in self._flights, "one write for a pod at a time"
        facts = self._world.pods[key]
        pod = facts.pod
        flight = self._flights[key] = Flight(pod.metadata.uid, node, now_ns, pod, facts.gang, mark=mark)
        if facts.gang is not None:
            self._of_gang[facts.gang] += 1
        self._overlay(flight)
        return flight

    def _overlay(self, flight: Flight) -> None:
        """The pod is seen as the write will leave it. One that ended first is what it is until the API server says yes,
        and is gone then.
        """
        if not flight.node and state_of(flight.real) in _ENDED:
            self._world.apply(flight.real, deleted=flight.answered_ns is not None, error=flight.error)
        else:
            self._world.apply(_overlaid(flight.real, flight), error=flight.error)

    def answered(self, key: Key, uid: str, now_ns: int | None = None) -> None:
        """The API server said yes."""
        flight = self._of(key, uid)
        if flight is not None:
            flight.answered_ns, flight.unknown = flight.sent_ns if now_ns is None else now_ns, False
            if state_of(flight.real) in _ENDED:
                self._overlay(flight)

    def lost(self, key: Key, uid: str, why: str = "") -> None:
        """No answer, or one that leaves open what happened."""
        flight = self._of(key, uid)
        if flight is not None:
            flight.unknown, flight.why = True, why

    def refused(self, key: Key, uid: str) -> Flight | None:
        """It did not happen: the pod is as it was last seen. Gives what did not happen, if that is news."""
        flight = self._of(key, uid)
        if flight is not None:
            self._drop(key)
            self._world.apply(flight.real, error=flight.error)
        return flight

    def unknown(self) -> set[Key]:
        """The gangs with pods of which nobody knows whether they were bound."""
        return {flight.gang for flight in self._flights.values() if flight.unknown and flight.gang is not None}

    def unanswered(self) -> set[Key]:
        """The gangs with pods that were sent to a node, and the API server has not said yes yet."""
        flights = self._flights.values()
        return {one.gang for one in flights if one.node and one.answered_ns is None and one.gang is not None}

    def leaving(self) -> dict[Key, Key | None]:
        """Pods that were told to go, and the API server has not said yes yet: they may stay. And their gangs."""
        return {
            pod: flight.gang for pod, flight in self._flights.items() if not flight.node and flight.answered_ns is None
        }

    def doubtful(self, before_ns: int) -> Iterator[tuple[Key, Flight]]:
        """Those whose pods must be read: the answer is not known, or was a yes that the watch has not shown since
        `before_ns`. Who waits for an answer is not read: what it shows could still change.
        """
        for key, flight in list(self._flights.items()):
            if flight.unknown or (flight.answered_ns is not None and flight.answered_ns <= before_ns):
                yield key, flight

    def read(self, key: Key, uid: str, pod: Pod | None) -> Flight | None:
        """A doubtful pod was read, consistently; None: it is gone. What it shows is the truth.

        Gives what did not happen after all.
        """
        flight = self._of(key, uid)
        if flight is None:
            return None
        self._drop(key)
        if pod is None:
            self._world.apply(flight.real, deleted=True)
        else:
            self._world.apply(pod)
            if pod.metadata.uid == uid and not _shows(pod, flight):
                return flight
        return None

    def _drop(self, key: Key) -> None:
        gang = self._flights.pop(key).gang
        if gang is not None:
            self._of_gang[gang] -= 1
            if not self._of_gang[gang]:
                del self._of_gang[gang]

    def _of(self, key: Key, uid: str) -> Flight | None:
        flight = self._flights.get(key)
        return flight if flight is not None and flight.uid == uid else None


def _shows(pod: Pod, flight: Flight) -> bool:
    """Whether the pod is past what was sent, whatever came of it."""
    if pod.metadata.deletion_timestamp is not None:
        return True
    return bool(flight.node) and (bool(pod.spec.node_name) or state_of(pod) in _ENDED)


def _overlaid(pod: Pod, flight: Flight) -> Pod:
    """The pod as the write will leave it."""
    if flight.node:
        bound = structs.replace(pod, spec=structs.replace(pod.spec, node_name=flight.node))
        return _marked(bound, flight.mark) if flight.mark else bound
    leaving = pod.metadata.deletion_timestamp or _LEAVING
    return structs.replace(pod, metadata=structs.replace(pod.metadata, deletion_timestamp=leaving))


def _marked(pod: Pod, mark: str) -> Pod:
    annotations = {**pod.metadata.annotations, ADMITTED_ANNOTATION: mark}
    return structs.replace(pod, metadata=structs.replace(pod.metadata, annotations=annotations))
