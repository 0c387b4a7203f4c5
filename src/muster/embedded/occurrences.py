"""What the real server refuses of events: what those that say when they happened must say too."""

from typing import Any

from muster.embedded.exchange import required, wrong
from muster.embedded.naming import key_causes
from muster.embedded.refusals import Cause

Document = dict[str, Any]
_OLD_FIELDS = ("firstTimestamp", "lastTimestamp", "count", "source")


def event_causes(new: Document, old: Document | None, group: str) -> list[Cause]:
    """What is wrong with an event, as it is kept; `group` is the one in which it was sent."""
    about, name = new.get("involvedObject") or {}, (new.get("metadata") or {}).get("namespace")
    space = about.get("namespace") or ""
    found = []
    if space != name and not (not space and name == "default"):
        found.append(wrong("involvedObject.namespace", space, "does not match event.namespace"))
    if new.get("eventTime"):
        found += _timed_causes(new, "reportingController" if group else "reportingComponent")
    return found + _new_causes(new) if group and old is None else found


def _timed_causes(event: Document, reporter: str) -> list[Cause]:
    """Who says when something happened also says who did what, and why."""
    who = event.get("reportingComponent") or ""
    found = [required(field) for field in ("reportingInstance", "action", "reason") if not event.get(field)]
    return found + ([] if who else [required(reporter)]) + key_causes(reporter, who)


def _new_causes(event: Document) -> list[Cause]:
    """What must be so in the newer group alone."""
    found = [] if event.get("eventTime") else [required("eventTime")]
    kind = event.get("type") or ""
    if kind not in ("Normal", "Warning"):
        found.append(wrong("type", "", f"has invalid value: {kind}"))
    return found + [wrong(field, "", "needs to be unset") for field in _OLD_FIELDS if event.get(field)]
