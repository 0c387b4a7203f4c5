"""What is known of each kind that is watched: whether it was listed, when it was last heard of, and what is wrong.

A trouble is said once, until it is another one or over: the watch itself tries again for ever.
"""

from collections.abc import Iterable
from functools import partial

from muster.kube.clock import Clock, SystemClock
from muster.kube.watch import Listed, Restarted, Watched
from muster.telemetry import SILENT, Log, Metrics

# A watch ends now and then.
_ORDINARY = ("end", "gone")
_HINTS = {
    "forbidden": "muster doctor says which rights are missing",
    "not-found": "install the definitions: muster crds | kubectl apply --server-side -f -",
}
_MOST_NAMED = 3
# What is no trouble with a kind that need not be there.
_ABSENT = ("forbidden", "not-found")
_HELD = "only pods that refer to such objects are held; muster doctor lists missing rights"


class Sights:
    """Takes everything that watches say. The resources are known from the start: each must be listed once, or be one of
    the optional ones, and forbidden.

    Of those that are `spare` it is enough that the server has answered something: they need not be there at all.
    """

    def __init__(
        self,
        resources: Iterable[str],
        *,
        optional: Iterable[str] = (),
        spare: Iterable[str] = (),
        log: Log = SILENT,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._log, self._metrics, self._clock = log, metrics, clock or SystemClock()
        self._unlisted, self._optional, self._spare = set(resources), frozenset(optional), frozenset(spare)
        now_s = self._clock.now_s()
        self._heard_s = dict.fromkeys(self._unlisted, now_s)
        self._unlisted |= self._spare
        self._troubles: dict[str, str] = {}
        # Since when the server does not answer.
        self._away_s: float | None = None
        for resource in self._heard_s:
            self._measure(resource)

    def _measure(self, resource: str) -> None:
        if self._metrics is not None:
            self._metrics.cache_staleness.labels(resource).set_function(partial(self.staleness_s, resource))

    @property
    def is_synced(self) -> bool:
        """Whether everything was listed once."""
        return not self._unlisted

    @property
    def problem(self) -> str:
        """What was not listed yet, and why not; empty when everything was."""
        missing = sorted(self._unlisted)
        why = next((self._troubles[one] for one in missing if one in self._troubles), "")
        more = len(missing) - _MOST_NAMED
        named = ", ".join(missing[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"not listed yet: {named}" + (f" ({why})" if why else "") if missing else ""

    def is_listed(self, resource: str) -> bool:
        """Whether it was listed once."""
        return resource in self._heard_s and resource not in self._unlisted

    def staleness_s(self, resource: str) -> float:
        """How long ago something was heard of it: so old may be what we know. Servers say something every minute."""
        return max(0.0, self._clock.now_s() - self._heard_s[resource])

    def answered(self) -> None:
        """The server answered something, whatever that was."""
        if self._away_s is not None:
            self._log.info("the API server answers again", after_s=round(self._clock.now_s() - self._away_s, 1))
            self._away_s = None

    def take(self, resource: str, change: Watched) -> None:
        """Something that a watch said."""
        if isinstance(change, Restarted):
            self._restarted(resource, change)
            return
        if resource not in self._heard_s:
            # One that need not be there, and is.
            self._measure(resource)
        self._heard_s[resource] = self._clock.now_s()
        self.answered()
        if isinstance(change, Listed):
            self._unlisted.discard(resource)
        if resource in self._troubles:
            del self._troubles[resource]
            self._log.info("a watch goes on", resource=resource)

    def _restarted(self, resource: str, change: Restarted) -> None:
        if self._metrics is not None:
            self._metrics.watch_restarts.labels(resource, change.cause).inc()
        said = change.error.message if change.error is not None else change.cause
        refused = change.cause == "forbidden" and resource in self._optional
        if refused or (change.error is not None and resource in self._spare):
            self._unlisted.discard(resource)
        if change.cause in _ORDINARY:
            self._log.debug("a watch began anew", resource=resource, cause=change.cause)
        elif change.cause == "unreachable":
            # It is the same for all: said once.
            self._troubles.setdefault(resource, said)
            if self._away_s is None:
                self._away_s = self._clock.now_s()
                self._log.warning("the API server does not answer", error=said, hint=_hint(change))
        elif resource in self._spare and change.cause in _ABSENT:
            if self._troubles.get(resource) != said:
                self._troubles[resource] = said
                self._log.info("an optional kind can't be read", resource=resource, cause=change.cause, hint=_HELD)
        elif self._troubles.get(resource) != said:
            self._troubles[resource] = said
            self._log.warning(
                "a watch has trouble", resource=resource, cause=change.cause, error=said, hint=_hint(change)
            )


def _hint(change: Restarted) -> str:
    return _HINTS.get(change.cause) or (change.error.hint if change.error is not None else "")
