"""Pods that were bound before there were admission marks get theirs, once (SPEC §7).

A leader that follows one which knew marks finds in the Lease that this is done. Any other, after an upgrade or a
rollback, adopts what runs: each bound pod of a gang is charged to the queue that the status of its gang names, which
only muster writes; else to the queue that the gang names, if that admits its namespace.
"""

import asyncio

from muster.api.admitted import Mark
from muster.api.cluster import ADMITTED_ANNOTATION
from muster.api.kinds import POD
from muster.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from muster.kube.backoff import doubled_s
from muster.kube.client import Client
from muster.kube.lease import Election
from muster.model.reasons import Code
from muster.snapshot.queues import Standing
from muster.snapshot.world import Key, State, World
from muster.telemetry import SILENT, Log

# Writes at a time; and how long those that failed wait, at first and at most.
_AT_ONCE, _AGAIN_S, _LONGEST_AGAIN_S = 16, 1.0, 30.0
# How often in a row all that is left must be refused (403) to be given up.
_MOST_REFUSALS = 4


def adoptable(world: World, default_queue: str) -> dict[tuple[Key, str], Mark]:
    """The marks of bound pods without one, by name and UID."""
    standing = Standing(world.queues, world.invalid_queues)
    queues: dict[Key, str] = {}
    for key, group in world.groups.items():
        wanted = group.spec.queue or default_queue
        problem = standing.problem_of(wanted, key[0])
        is_closed = problem is not None and problem.code == Code.QUEUE_FORBIDDEN
        queues[key] = group.status.admitted_queue or ("" if is_closed else wanted)
    return {
        (key, facts.pod.metadata.uid): Mark(queues[facts.gang], world.groups[facts.gang].metadata.uid)
        for key, facts in sorted(world.pods.items())
        if facts.pod.spec.node_name and facts.mark is None and facts.state is not State.FAILED
        if facts.gang is not None and queues.get(facts.gang)
    }


class Adopter:
    """Adopts when this process begins to lead; without an `election`, when no pod has a mark yet."""

    def __init__(
        self, client: Client, world: World, election: Election | None, default_queue: str, *, log: Log = SILENT
    ) -> None:
        self._client, self._world, self._election, self._log = client, world, election, log
        self._default_queue = default_queue
        self._begun = asyncio.Event()
        self._left: dict[tuple[Key, str], Mark] = {}
        # Those that the API server refused the last time.
        self._refused: set[tuple[Key, str]] = set()

    def begin(self, *, leads: bool) -> None:
        """Before a cycle. From the first of a leader on, bound pods without a mark are of no gang; one that only looks
        on believes them until the leader has adopted.
        """
        if self._begun.is_set() or not (leads or self._is_done()):
            return
        self._left = {} if self._is_done() else adoptable(self._world, self._default_queue)
        if leads or not self._world.asks_for_marks:
            self._world.ask_for_marks(self._left)
        if leads:
            self._begun.set()

    def _is_done(self) -> bool:
        if self._election is not None:
            return self._election.is_marked
        return any(facts.mark is not None for facts in self._world.pods.values())

    async def run(self) -> None:
        """Writes the marks; then the Lease says so. Never ends."""
        await self._begun.wait()
        pods, failures = len(self._left), 0
        while self._left:
            before, self._refused = len(self._left), set()
            limit = asyncio.Semaphore(_AT_ONCE)
            await asyncio.gather(*(self._write(limit, *one) for one in self._left.items()))
            failures = failures + 1 if len(self._left) == before else 0
            if failures == _MOST_REFUSALS and len(self._left) < pods and self._left.keys() == self._refused:
                # Others could be marked, so the right is there: these are refused for what is in them. Adoption ends
                # without them; else the next leader would adopt what tenants bind meanwhile.
                break
            if self._left:
                await self._client.clock.sleep(doubled_s(_AGAIN_S, failures, _LONGEST_AGAIN_S))
        if pods:
            self._log.info("pods that ran before have their admission marks", pods=pods)
        if self._election is not None:
            self._election.is_marked = True
        await asyncio.Event().wait()

    async def _write(self, limit: asyncio.Semaphore, pod: tuple[Key, str], mark: Mark) -> None:
        key, uid = pod
        body = {"metadata": {"uid": uid, "annotations": {ADMITTED_ANNOTATION: mark.text}}}
        async with limit:
            try:
                await self._client.patch(POD, *key, body)
            except NotFound:
                pass
            except Invalid as error:
                # Its owner has filled it up: no pod may keep adoption from its end.
                self._tell(key, error)
            except Conflict as error:
                facts = self._world.pods.get(key)
                if facts is not None and facts.pod.metadata.uid == uid:
                    self._tell(key, error)
                    return
            except ApiError as error:
                # Also 403: a right or a webhook that is late. Without its mark the pod would be charged to no queue.
                self._tell(key, error)
                if isinstance(error, Forbidden):
                    self._refused.add(pod)
                return
        self._left.pop(pod, None)

    def _tell(self, key: Key, error: ApiError) -> None:
        self._log.warning("a pod can't be marked as admitted", pod="/".join(key), error=error.message)
