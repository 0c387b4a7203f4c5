"""Whether muster may delete pods: asked of the API server while a Queue wants disruption budgets to be ignored.

RBAC is the switch. Without the right no plan chooses pods that only a deletion could remove.
"""

from collections.abc import Callable

from muster.errors import ApiError, BadObject
from muster.kube.client import Client
from muster.kube.clock import Clock
from muster.kube.resources import MAY_I
from muster.kube.rights import DELETING, asks, review_of
from muster.snapshot.world import World
from muster.telemetry import Log

# How soon a Queue that wants it is noticed, and how often the question is asked again.
_SOON_S, _AGAIN_S = 2.0, 60.0


class Deleting:
    """Keeps `world.may_delete` as it is, until it is cancelled. `changed` is called when it is another."""

    def __init__(self, client: Client, world: World, *, clock: Clock, changed: Callable[[], None], log: Log) -> None:
        self._client, self._world, self._clock = client, world, clock
        self._changed, self._log = changed, log
        world.may_delete = False
        # When it was asked last; None: never.
        self._asked_s: float | None = None

    async def run(self) -> None:
        """Asks when a Queue wants it, and again after a while."""
        while True:
            now_s = self._clock.now_s()
            is_due = self._asked_s is None or now_s - self._asked_s >= _AGAIN_S
            if is_due and any(queue.ignores_budgets for queue in self._world.queues.values()):
                await self._ask()
                self._asked_s = self._clock.now_s()
            await self._clock.sleep(_SOON_S)

    async def _ask(self) -> None:
        """What can't be asked stays as it is."""
        (ask,) = asks(DELETING, "")
        body = {"apiVersion": MAY_I.api_version, "kind": MAY_I.name, "spec": review_of(ask)}
        try:
            told = await self._client.review(MAY_I, body)
        except (ApiError, BadObject) as error:
            self._log.warning("it is not known whether muster may delete pods", error=error.message)
            return
        status = told.get("status")
        allowed = isinstance(status, dict) and status.get("allowed") is True
        if not allowed and (self._world.may_delete or self._asked_s is None):
            self._log.warning(
                "a Queue wants disruption budgets to be ignored, and muster may not delete pods",
                hint="muster manifests --ignore-budgets has the right",
            )
        if allowed != self._world.may_delete:
            self._world.may_delete = allowed
            self._changed()
