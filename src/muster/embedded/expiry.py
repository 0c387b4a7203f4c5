"""Events expire: a real API server keeps each for an hour after its last write."""

import heapq

from muster.embedded.garbage import Turn
from muster.embedded.mirror import Caller, Mirror, Place
from muster.embedded.server import Server

EVENTS_S = 3600.0
# When a deletion failed.
_AGAIN_S = 1.0


class Expiry:
    """Deletes each Event `after_s` seconds after the step in which its last write was seen."""

    def __init__(self, server: Server, after_s: float) -> None:
        self._after_s = after_s
        self._store = server.core.store
        self.caller = Caller(server, "event-expiry")
        self._events = Mirror(server, "events")
        # When each Event ends; in the heap it stands once for each of its writes, and the last of them counts.
        self._ends: dict[Place, float] = {}
        self._queue: list[tuple[float, Place]] = []

    def close(self) -> None:
        """Follow the server no longer."""
        self._events.close()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do before the time that `step` named."""
        return self._events.is_current

    def step(self, now: float) -> float | None:
        """Delete what is due, a bounded number at a time; when something is due next, if anything is."""
        for moved in self._events.look():
            if moved.now is None:
                self._ends.pop(moved.place, None)
                continue
            self._ends[moved.place] = now + self._after_s
            heapq.heappush(self._queue, (now + self._after_s, moved.place))
        turn = Turn(self._store)
        while self._queue and not turn.is_over():
            end, place = self._queue[0]
            is_last = self._ends.get(place) == end
            if is_last and end > now:
                break
            if is_last and not self._delete(place):
                return now + _AGAIN_S
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def _delete(self, place: Place) -> bool:
        """False when the server could not keep the deletion, as on a full disk: the next step tries again."""
        uid = self._events.objects[place]["metadata"]["uid"]
        path = f"/api/v1/namespaces/{place[0]}/events/{place[1]}"
        return self.caller.tell("DELETE", path, {"preconditions": {"uid": uid}}) < 500
