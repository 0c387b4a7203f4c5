"""Keeps the authority of this replica in the `caBundle` of the webhook configuration, beside those of the others.

It needs two rights on one object by its name: get and patch. Somebody who writes at the same time is a conflict, and it
is read again then. What an administrator resets is put back at the next look.
"""

import base64
import binascii
import datetime
from collections.abc import Sequence
from typing import Any

from muster.errors import ApiError, BadObject, Conflict, Forbidden, Invalid, NotFound
from muster.kube.client import JSON_PATCH, Client
from muster.kube.clock import Clock
from muster.kube.resources import Resource
from muster.serve.webhook.certificates import SelfSigned, merged_bundle
from muster.telemetry import Log

CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
# So long API servers may take to hear of a change.
SETTLE_S = 3.0
_MOST_TRIES = 5


def bundles_in(document: Any) -> list[bytes]:
    """The bundle of each webhook of a configuration; empty where there is none that can be read."""
    webhooks = document.get("webhooks") if isinstance(document, dict) else None
    return [_bundle_of(one) for one in webhooks] if isinstance(webhooks, list) else []


def _bundle_of(webhook: Any) -> bytes:
    client = webhook.get("clientConfig") if isinstance(webhook, dict) else None
    text = client.get("caBundle") if isinstance(client, dict) else None
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""


def bundle_patch(document: Any, ours: Sequence[bytes], now: datetime.datetime) -> list[dict[str, Any]]:
    """The JSON patch that brings our authorities into every webhook of a configuration; empty when all are there.

    It names the version that was read, so that a change of somebody else's is a conflict and not lost.
    """
    found: list[dict[str, Any]] = []
    for at, there in enumerate(bundles_in(document)):
        wanted = merged_bundle(there, ours, now)
        if wanted != there:
            text = base64.b64encode(wanted).decode()
            found.append({"op": "add", "path": f"/webhooks/{at}/clientConfig/caBundle", "value": text})
    if not found:
        return []
    version = document["metadata"]["resourceVersion"]
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *found]


class Publisher:
    """Looks at the configuration now and then, and tells the source of certificates what API servers know."""

    def __init__(
        self,
        client: Client,
        name: str,
        source: SelfSigned,
        clock: Clock,
        log: Log,
        *,
        every_s: float = 30.0,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._client, self._name, self._source = client, name, source
        self._clock, self._log = clock, log
        self._every_s, self._settle_s = every_s, settle_s
        self._problem = "the webhook configuration was not looked at yet"
        # Whether there is, as far as we can know, nobody who could ask this replica and not trust it.
        self._unasked = False

    @property
    def problem(self) -> str:
        """Why API servers may not trust this replica; empty when they do."""
        return self._problem or self._source.problem

    @property
    def unready(self) -> str:
        """For the readiness check: the same, if somebody may ask this replica. Without a configuration nobody does; and
        one that we may not see is told about, but scheduling does not depend on it.
        """
        return "" if self._unasked else self.problem

    async def run(self) -> None:
        """For ever; a problem is logged once."""
        while True:
            before = self._problem
            await self.look()
            if self._problem and self._problem != before:
                self._log.warning("the webhook's authority can't be published", problem=self._problem)
            await self._clock.sleep(self._every_s)

    async def look(self) -> None:
        """Once: patches what is missing, and waits until it is known."""
        refused: Invalid | None = None
        try:
            for _ in range(_MOST_TRIES):
                try:
                    if await self._is_there():
                        self._problem = ""
                        return
                    refused = None
                except Invalid as error:
                    # A webhook that went between our reading and our writing looks like this, too.
                    refused = error
                self._unasked = False
            if refused is not None:
                raise refused
            self._problem = f"others keep changing the ValidatingWebhookConfiguration {self._name}"
        except NotFound:
            self._unasked = True
            self._problem = (
                f"there is no ValidatingWebhookConfiguration {self._name}: apply what muster manifests prints"
            )
        except ApiError as error:
            self._unasked = self._unasked or isinstance(error, Forbidden)
            self._problem = error.message + (f"; {error.hint}" if error.hint else "")
        except BadObject as error:
            self._problem = f"the ValidatingWebhookConfiguration {self._name} can't be read: {error.message}"

    async def _is_there(self) -> bool:
        document = await self._client.get(CONFIGURATIONS, "", self._name)
        now = self._clock.wall()
        bundles = bundles_in(document)
        self._unasked = not bundles
        if not bundles:
            self._source.seen(b"", now)
            return True
        patch = bundle_patch(document, self._source.authorities(now), now)
        if not patch:
            # Known where all webhooks know it: they have the same bundle but for what others put there.
            self._source.seen(bundles[0], now)
            return True
        try:
            await self._client.patch(CONFIGURATIONS, "", self._name, patch, content=JSON_PATCH)
            self._log.info("the webhook's authority is published", configuration=self._name)
        except Conflict:
            return False
        await self._clock.sleep(self._settle_s)
        return False
