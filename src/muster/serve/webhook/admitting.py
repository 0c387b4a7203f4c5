"""Our webhook as the embedded API server asks it: the same AdmissionReview as on any cluster, without a network.

What is asked about is what `muster manifests` installs the webhook for: our kinds, not their subresources, not what
muster itself writes, not what is going away already.
"""

import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from muster.api.kinds import OUR_KINDS, QUEUE
from muster.embedded.core import Asked, Verdict
from muster.embedded.refusals import Cause
from muster.serve.webhook.answers import API_VERSION

NAME = "objects.muster.dev"
_PASSED = Verdict()


class Admitting:
    """A review of an embedded server. `ask` takes and gives an AdmissionReview as bytes; `us` is who muster is."""

    def __init__(self, ask: Callable[[bytes], bytes], us: str) -> None:
        self._ask, self._us = ask, us
        self._numbers = itertools.count(1)

    def __call__(self, asked: Asked) -> Verdict:
        """What the webhook says."""
        if asked.user == self._us or asked.target.subresource or not _concerns(asked):
            return _PASSED
        document = msgspec.json.encode(_review(asked, f"embedded-{next(self._numbers)}"))
        return _verdict(msgspec.json.decode(self._ask(document))["response"])


def _concerns(asked: Asked) -> bool:
    """Only of a Queue we want to know that it is deleted; whatever is going can always go."""
    resource = asked.target.resource
    kind = next((one for one in OUR_KINDS if (one.group, one.plural) == (resource.group, resource.plural)), None)
    if kind is None or (asked.operation == "DELETE" and kind is not QUEUE):
        return False
    return asked.new is None or not asked.new["metadata"].get("deletionTimestamp")


def _review(asked: Asked, uid: str) -> dict[str, Any]:
    target = asked.target
    kind = {"group": target.resource.group, "version": target.resource.version}
    request = {
        "uid": uid,
        "kind": {**kind, "kind": target.resource.kind},
        "resource": {**kind, "resource": target.resource.plural},
        "name": target.name,
        "namespace": target.namespace,
        "operation": asked.operation,
        "userInfo": {"username": asked.user},
        "object": asked.new,
        "oldObject": asked.old,
        "dryRun": asked.dry_run,
    }
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": request}


def _verdict(response: dict[str, Any]) -> Verdict:
    warnings = response.get("warnings") or ()
    if response["allowed"]:
        return Verdict(warnings=warnings)
    status = response["status"]
    details = {key: value for key, value in status["details"].items() if key != "causes"}
    return Verdict(
        f'admission webhook "{NAME}" denied the request: {status["message"]}',
        warnings,
        status["code"],
        status["reason"],
        [Cause(one["reason"], one["message"], one["field"]) for one in status["details"]["causes"]],
        details,
    )
