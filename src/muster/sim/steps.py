"""The steps of a story while it is played: what they bring, and whether what is settled in is what they expect.

A step expects something of one cycle, whose plan is carried out: binds happen, and who is evicted terminates, until a
step says that it is gone. So a cluster that comes to rest after a step shows what the step expects, all of it.
"""

from fnmatch import fnmatchcase

from muster.embedded.server import Server
from muster.sim import stage
from muster.sim.expecting import Document, Moves, differs, look
from muster.sim.scenario import Expected, Step

_NOTHING = Expected()


class Steps:
    """Plays the steps of a story on its server. Where `muster` is at work before the first one, it has this name."""

    def __init__(self, steps: list[Step], server: Server, *, muster: str = "") -> None:
        self._steps, self._server, self._muster = steps, server, muster
        self._stage, self._send = stage.on(server, muster=muster), stage.sender(server)
        self._moves = Moves()
        self._close = server.core.store.subscribe(self._moves.changed)

    def wait_s(self, number: int) -> float | None:
        """How much later than the step before it this one happens, if the file says so."""
        if number >= len(self._steps) or self._steps[number].now is None:
            return None
        times = [0, *(step.now for step in self._steps[: number + 1] if step.now is not None)]
        return float(times[-1] - times[-2])

    def happen(self, number: int) -> None:
        """Objects go, what terminates is gone, objects come."""
        step, self._stage.is_on = self._steps[number], bool(self._muster) or number > 0
        for pattern in step.delete:
            self._delete(pattern)
        if step.gone:
            self._let_go()
        self._stage.put(step.apply.all())

    def end(self) -> None:
        """After the last step nothing lingers."""
        if self._steps:
            self._let_go()
        self._close()

    def _let_go(self) -> None:
        for pod in self._server.core.store.list("pods").items:
            if pod["metadata"].get("deletionTimestamp"):
                self._send("DELETE", _path(pod), {"gracePeriodSeconds": 0})

    def left_out(self, number: int) -> str:
        """Why nothing can be compared after a step; empty: it can."""
        step = self._steps[number]
        if step.actions is not None:
            return "it allows only some actions, and muster takes all: not compared"
        if step.fleeting:
            return "it expects what only one cycle shows: not compared"
        return "it expects nothing" if step.expect == _NOTHING else ""

    def judge(self, number: int) -> list[str]:
        """Nothing moves any more: what is not as expected. What moves from now on belongs to the next step."""
        seen = look(self._send, self._moves.bound, self._moves.evicted)
        self._moves.begin()
        return [] if self.left_out(number) else differs(self._steps[number].expect, seen)

    def _delete(self, pattern: str) -> None:
        kind, _, rest = pattern.partition("/")
        if kind.lower() == "pod":
            # Nobody is to make it anew: whoever looked after it lets go of it first.
            space, _, name = rest.rpartition("/")
            for pod in self._server.core.store.list("pods", space or stage.SPACE).items:
                if fnmatchcase(pod["metadata"]["name"], name):
                    self._send("PATCH", _path(pod), {"metadata": {"ownerReferences": None}}, stage.MERGE)
        self._stage.delete(pattern)


def _path(pod: Document) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
