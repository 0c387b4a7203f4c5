"""Whether this process may act: it leads, knows what was there when it began to, and is not about to end."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from muster.controllers.comparer import Comparer
from muster.errors import ApiError, BadObject, Call, MusterError, NotFound
from muster.kube.lease import Election
from muster.telemetry import SILENT, Log, Metrics

# What is written by those who do not lead, too: the Lease itself, and the authority of the own certificate.
_ANYBODYS = ("leases", "validatingwebhookconfigurations")
_AGAIN_S = 1.0


class Leading:
    """Holds the Lease, if there is an election; else this is the only one, and leads.

    `may_act` is asked before anything is begun, `guard` by the client right before each write.
    """

    def __init__(self, election: Election | None, *, log: Log = SILENT, metrics: Metrics | None = None) -> None:
        self._election, self._log = election, log
        self._caught_up = election is None
        self._stopping = False
        if metrics is not None:
            metrics.leader.set_function(lambda: float(self.leads))

    @property
    def leads(self) -> bool:
        """Whether nobody else does."""
        return self._election is None or self._election.is_leader()

    def may_act(self) -> bool:
        """Whether something new may be begun."""
        return self._caught_up and not self._stopping and self.leads

    async def guard(self, call: Call) -> str:
        """Why something must not be written; empty when it may. What was begun may be ended while we lead."""
        if self._election is None or call.resource in _ANYBODYS or await self._election.may_write():
            return ""
        return "this process does not lead any more"

    def stop(self) -> None:
        """Begins nothing new."""
        self._stopping = True

    async def run(self, is_synced: Callable[[], bool], comparer: Comparer, woken: Callable[[], None]) -> None:
        """Returns when the Lease was lost. When it is cancelled, it is given back."""
        election = self._election
        if election is None:
            await asyncio.Event().wait()
            return
        holding = asyncio.ensure_future(election.run())
        try:
            waiting = asyncio.ensure_future(self._standing_by(election))
            await asyncio.wait([holding, waiting], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if not holding.done():
                self._log.info("leading", identity=election.identity)
                following = asyncio.ensure_future(self._catch_up(is_synced, comparer))
                await asyncio.wait([holding, following], return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    following.result()
                following.cancel()
                woken()
            await self._stay(holding, woken)
        finally:
            holding.cancel()
            with suppress(asyncio.CancelledError):
                await holding

    async def _stay(self, holding: asyncio.Future[None], woken: Callable[[], None]) -> None:
        """Until the Lease was lost; says when it can't be renewed, and when it can again."""
        before = True
        while not holding.done():
            await asyncio.wait([holding], timeout=_AGAIN_S)
            if self.leads != before and not holding.done():
                before = self.leads
                if before:
                    self._log.info("leading again")
                    woken()
                else:
                    self._log.warning("the Lease was not renewed in time: nothing is written until it is")
        await holding

    async def _standing_by(self, election: Election) -> None:
        """Until we lead; says who does, and what is wrong, once each."""
        elected = asyncio.ensure_future(election.elected())
        told = ""
        try:
            while not elected.done():
                await asyncio.wait([elected], timeout=_AGAIN_S)
                error = election.last_error
                said = str(error) or type(error).__name__ if error is not None else election.holder
                if said and said != told and not elected.done():
                    if error is not None:
                        self._log.warning("the Lease can't be taken", error=said, hint=_hint(error))
                    else:
                        self._log.info("standing by", leader=said)
                told = said
        finally:
            elected.cancel()

    async def _catch_up(self, is_synced: Callable[[], bool], comparer: Comparer) -> None:
        """What the one before did last is known before anything is done, however long that takes: also when all was
        listed a moment ago, for the one before may have led until later than that.
        """
        while not is_synced():
            await asyncio.sleep(0.02)
        while not self._caught_up:
            try:
                await comparer.compare()
                self._caught_up = True
            except (ApiError, BadObject) as error:
                self._log.warning("what was there when we began to lead could not be read", error=error.message)
                await asyncio.sleep(_AGAIN_S)


def _hint(error: Exception) -> str:
    """What to do when the Lease can't be taken. Only in a namespace that is not there it can't be found nor made."""
    if isinstance(error, NotFound):
        return (
            f"create the namespace {error.call.namespace}, or name another with --lease-namespace; "
            "a single process does without the Lease: --no-leader-election"
        )
    return error.hint if isinstance(error, MusterError) else ""
