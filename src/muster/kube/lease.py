"""Leader election on a Lease, with the rules of client-go, so that both can share one.

Who leads has until `renew_deadline_s` after its last renewal began; others take over no sooner than `duration_s` after
they saw the Lease change, each by its own clock. Timestamps in the Lease are for people.
"""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from muster.errors import AlreadyExists, ApiError, BadObject, Conflict, NotFound
from muster.kube.client import Client
from muster.kube.clock import micro_time, within
from muster.kube.resources import LEASE

# When we heard nothing of our own clock for so long, the machine or the process stood still: the Lease is looked at
# again before anything is written.
GAP_S = 5.0
_BEAT_S = 1.0


# Where the Lease says for which term all bound pods had their admission marks.
MARKED_ANNOTATION = "muster.dev/marked-term"


class Timing(NamedTuple):
    """How long a Lease holds, how long its holder may act without renewing it, and how often it tries.

    `look_period_s` is how often those who wait look whether it was given back; less, so that not all look at once.
    """

    duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    look_period_s: float = 1.0

    def check(self) -> "Timing":
        """Itself. Two leaders at a time are only ruled out in this order."""
        assert self.duration_s > self.renew_deadline_s > self.retry_period_s * 1.2 > 0.0
        assert self.duration_s >= 1.0
        assert self.look_period_s > 0.0
        return self


class _Record(NamedTuple):
    """What a Lease says."""

    holder: str = ""
    duration_s: float = 0.0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0
    # The last term, by its number in `transitions`, whose leader saw to it that all bound pods have admission marks.
    marked: int = -1


class Election:
    """One candidate. `run` it; ask `is_leader` before anything is begun, `may_write` right before each write."""

    def __init__(
        self, client: Client, namespace: str, name: str, identity: str, *, timing: Timing | None = None
    ) -> None:
        assert identity
        self._client = client
        self._clock = client.clock
        self._namespace = namespace
        self._name = name
        self.identity = identity
        self.timing = (timing or Timing()).check()
        # What was seen last, since when by our clock, and its version.
        self._seen = _Record()
        self._seen_s = float("-inf")
        self._version = ""
        self._leading = False
        self._until_s = float("-inf")
        # Whether the Lease was ours and is only to be kept; whether somebody else has had it since.
        self._kept = False
        self._is_lost = False
        # Whether it was given back, or lost: then it is not renewed, whoever asks.
        self._is_over = False
        self._elected = asyncio.Event()
        # When we last looked at the clock, and when we saw that it had gone on without us.
        self._beat_s = self._clock.now_s()
        self._gap_s: float | None = None
        self._turn = asyncio.Lock()
        # Whether all pods that were bound before admission marks have theirs: then a pod without was bound by others.
        # Known from when we lead; an unbroken chain of leaders hands it on.
        self.is_marked = False
        self.last_error: ApiError | BadObject | TimeoutError | None = None
        # False: something that we sent is still on its way, so whoever comes next has to wait the Lease out.
        self.gives_back = True

    def is_leader(self) -> bool:
        """Whether we may act now. False from the moment that the deadline passed, even while a renewal hangs."""
        return self._leading and self._clock.now_s() < self._until_s

    async def may_write(self) -> bool:
        """Whether we lead. After a gap of our clock, in which others may have taken over, the Lease is renewed."""
        self._look_at_clock()
        if self._is_in_doubt():
            async with self._turn:
                if self._is_in_doubt():
                    await self._attempt_now(min(self.remaining_s, self.timing.renew_deadline_s / 2.0))
        return self._gap_s is None and self.is_leader()

    def _is_in_doubt(self) -> bool:
        return self._gap_s is not None and self.is_leader()

    def _look_at_clock(self) -> None:
        now_s = self._clock.now_s()
        if now_s - self._beat_s > GAP_S:
            self._gap_s = now_s
        self._beat_s = now_s

    async def _beat(self) -> None:
        while True:
            self._look_at_clock()
            await self._clock.sleep(_BEAT_S)

    @property
    def holder(self) -> str:
        """Who held the Lease when it was last looked at; nothing when nobody did."""
        return self._seen.holder

    @property
    def remaining_s(self) -> float:
        """For how long we may act without another renewal."""
        return max(0.0, self._until_s - self._clock.now_s()) if self._leading else 0.0

    async def elected(self) -> None:
        """Waits until we lead."""
        await self._elected.wait()

    async def run(self) -> None:
        """Takes the Lease as soon as it is free and keeps it; returns when somebody else has it. On cancellation, and
        only then, it is given back, so that the next one need not wait.

        Who can't renew it in time does not lead from then on, but goes on trying: when the Lease is still ours, nobody
        led meanwhile, and nothing was lost. So an API server that is away ends no process.
        """
        self._is_over = False
        beating = asyncio.ensure_future(self._beat())
        try:
            while not await self._attempt(self.timing.renew_deadline_s):
                await self._clock.sleep(self._pause_s())
            self._elected.set()
            self._kept = True
            while await self._keep():
                pass
        except asyncio.CancelledError:
            await self.release()
            raise
        finally:
            beating.cancel()
            self._is_over = True
            self._leading = self._kept = self._is_lost = False
            self._elected.clear()

    async def _keep(self) -> bool:
        """The next renewal. Whether the Lease is still nobody else's."""
        await self._clock.sleep(self.timing.retry_period_s)
        if not self._is_lost:
            # One request that hangs must leave time for another.
            half_s = self.timing.renew_deadline_s / 2.0
            await self._attempt(min(self.remaining_s, half_s) if self.is_leader() else half_s)
        return not self._is_lost

    def _pause_s(self) -> float:
        """Until the next look at a Lease that others hold; longer after a failure, so that a busy server is spared."""
        period_s = self.timing.look_period_s if self.last_error is None else self.timing.retry_period_s
        return period_s * (1.0 + self._client.jitter()) / 2.0

    async def release(self) -> None:
        """Gives the Lease back, if it is ours. We no longer lead from the start of this, whatever comes of it."""
        mine, self._leading, self._is_over = self.is_leader(), False, True
        if not mine or not self.gives_back:
            return
        # Whoever comes next waits out the Lease if this fails: that costs time, not safety.
        with suppress(ApiError, BadObject, TimeoutError):
            await within(self._clock, self.timing.retry_period_s, self._give_back())

    async def _give_back(self) -> None:
        now = micro_time(self._clock.wall())
        async with self._turn:
            record = self._noting(_Record("", 1.0, now, now, self._seen.transitions))
            try:
                await self._write(record)
            except Conflict:
                # A renewal that was broken off may have been done all the same.
                if (await self._look()).holder == self.identity:
                    await self._write(record)

    async def _attempt(self, budget_s: float) -> bool:
        """One try to take or renew the Lease, one at a time."""
        async with self._turn:
            return await self._attempt_now(budget_s)

    async def _attempt_now(self, budget_s: float) -> bool:
        """What we may do is counted from before it was asked for."""
        if self._is_over:
            return False
        self._look_at_clock()
        began_s = self._clock.now_s()
        try:
            held = await within(self._clock, budget_s, self._take())
        except (ApiError, BadObject, TimeoutError) as error:
            self.last_error = error
            return False
        self.last_error = None
        self._leading = held and not self._is_over
        self._look_at_clock()
        if held:
            self._until_s = began_s + self.timing.renew_deadline_s
            if self._gap_s is not None and self._gap_s <= began_s:
                self._gap_s = None
        return held

    async def _take(self) -> bool:
        """Somebody else's is waited out from when it was seen, not since we asked: it may be renewed meanwhile."""
        if self._kept and self._version and self._seen.holder == self.identity:
            # Nobody else may write it while it is ours, so the version that we wrote is the current one.
            try:
                return await self._renew(self._seen)
            except (Conflict, NotFound):
                pass
        try:
            seen = await self._look()
        except NotFound:
            return await self._create()
        if seen != self._seen:
            self._seen, self._seen_s = seen, self._clock.now_s()
        if not self._kept:
            # One in between that does not know marks counts terms, and not this.
            self.is_marked = seen.marked == seen.transitions
        if self._kept and seen.holder != self.identity:
            self._is_lost = True
            return False
        if seen.holder and seen.holder != self.identity and self._clock.now_s() < self._seen_s + seen.duration_s:
            return False
        try:
            return await self._renew(seen)
        except Conflict:
            return False

    async def _look(self) -> _Record:
        lease = await self._client.get(LEASE, self._namespace, self._name, lane="lease")
        self._version = lease.get("metadata", {}).get("resourceVersion", "")
        return _read(lease)

    async def _renew(self, seen: _Record) -> bool:
        now = micro_time(self._clock.wall())
        mine = seen.holder == self.identity
        transitions = seen.transitions if mine else seen.transitions + 1
        acquired = seen.acquired if mine and seen.acquired else now
        await self._write(self._noting(_Record(self.identity, self.timing.duration_s, acquired, now, transitions)))
        return True

    def _noting(self, record: _Record) -> _Record:
        return record._replace(marked=record.transitions if self.is_marked else self._seen.marked)

    async def _create(self) -> bool:
        now = micro_time(self._clock.wall())
        record = _Record(self.identity, self.timing.duration_s, now, now, 0)
        metadata = {"name": self._name, "namespace": self._namespace}
        body = {"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": metadata, "spec": _spec(record)}
        try:
            written = await self._client.create(LEASE, self._namespace, body, lane="lease")
        except AlreadyExists:
            return False
        self._note(record, written.resource_version)
        return True

    async def _write(self, record: _Record) -> None:
        """Writes over the version that we know; any other is a Conflict."""
        metadata: dict[str, Any] = {"resourceVersion": self._version}
        if record.marked == record.transitions:
            metadata["annotations"] = {MARKED_ANNOTATION: str(record.marked)}
        body = {"metadata": metadata, "spec": _spec(record)}
        written = await self._client.patch(LEASE, self._namespace, self._name, body, lane="lease")
        self._note(record, written.resource_version)

    def _note(self, record: _Record, version: str) -> None:
        self._seen, self._seen_s, self._version = record, self._clock.now_s(), version


def _spec(record: _Record) -> Mapping[str, Any]:
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": max(1, int(record.duration_s)),
        "acquireTime": record.acquired,
        "renewTime": record.renewed,
        "leaseTransitions": record.transitions,
    }


def _read(lease: Any) -> _Record:
    """What the Lease says, as far as it can be read: others may have written it."""
    spec = lease.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    texts = [spec.get(key) for key in ("holderIdentity", "acquireTime", "renewTime")]
    holder, acquired, renewed = (text if isinstance(text, str) else "" for text in texts)
    numbers = [spec.get(key) for key in ("leaseDurationSeconds", "leaseTransitions")]
    duration, transitions = (number if isinstance(number, int) else 0 for number in numbers)
    return _Record(holder, float(duration), acquired, renewed, transitions, _marked_in(lease))


def _marked_in(lease: Any) -> int:
    metadata = lease.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(MARKED_ANNOTATION) if isinstance(annotations, dict) else None
    return int(text) if isinstance(text, str) and re.fullmatch(r"[0-9]{1,9}", text) else -1
