"""Who looks at the page of a cluster, and what they may see: their own token, and their own rights on that cluster.

The API server says whose a token is (TokenReview) and what that one may list (SubjectAccessReview). Nothing is kept
longer than a minute, and of a token only a hash.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from muster.api.kinds import CORE_KINDS, POD_GROUP, QUEUE, Kind
from muster.kube.client import Client
from muster.kube.resources import Resource
from muster.serve.views.seeing import Rights

WHO = Resource("authentication.k8s.io/v1", "TokenReview", "tokenreviews", namespaced=False)
MAY = Resource("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)

_NODE = next(kind for kind in CORE_KINDS if kind.plural == "nodes")
# So long an answer counts.
KEEP_S = 60.0
# So many callers are remembered, those who are unknown too; of so many namespaces it is asked whether they may be seen.
MOST_CALLERS, MOST_NAMESPACES = 256, 500
# So many questions at a time.
_AT_A_TIME = 8


@dataclass
class _Caller:
    """Somebody, as the API server knows them; None: nobody. What they may list, as far as it was asked."""

    until_s: float
    user: dict[str, Any] | None
    allowed: dict[str, bool] = field(default_factory=dict)


class ClusterCallers:
    """Asks the API server who comes, and what they may see. `audiences`: a token must be meant for one of them."""

    mode = "cluster"

    def __init__(self, client: Client, *, audiences: Collection[str] = ()) -> None:
        self._client, self._audiences = client, list(audiences)
        self._known: OrderedDict[bytes, _Caller] = OrderedDict()
        self._turns: dict[bytes, asyncio.Lock] = {}
        self._places = asyncio.Semaphore(_AT_A_TIME)

    async def rights(self, token: str, namespaces: Collection[str]) -> Rights | None:
        """What somebody may see; None when nobody knows the token. Raises ApiError when nobody can say."""
        name = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        lock = self._turns.setdefault(name, asyncio.Lock())
        try:
            # Of a page that opens many requests at once, only the first asks.
            async with lock:
                caller = await self._caller(name, token)
                return None if caller.user is None else await self._seen(caller, namespaces)
        finally:
            if not lock.locked():
                self._turns.pop(name, None)

    async def _caller(self, name: bytes, token: str) -> _Caller:
        now_s = self._client.clock.now_s()
        found = self._known.get(name)
        if found is None or found.until_s <= now_s:
            found = self._known[name] = _Caller(now_s + KEEP_S, await self._user(token))
            while len(self._known) > MOST_CALLERS:
                self._known.popitem(last=False)
        self._known.move_to_end(name)
        return found

    async def _user(self, token: str) -> dict[str, Any] | None:
        if not token.isascii() or not token.isprintable():
            return None
        spec: dict[str, Any] = {"token": token}
        if self._audiences:
            spec["audiences"] = self._audiences
        async with self._places:
            answer = await self._client.review(WHO, {"apiVersion": WHO.api_version, "kind": WHO.name, "spec": spec})
        status = _part(answer, "status")
        user = _part(status, "user")
        return user if status.get("authenticated") is True and user.get("username") else None

    async def _seen(self, caller: _Caller, namespaces: Collection[str]) -> Rights:
        """Everywhere first: only where that is refused, namespace by namespace."""
        everywhere, nodes, queues = await asyncio.gather(
            self._may(caller, POD_GROUP), self._may(caller, _NODE), self._may(caller, QUEUE)
        )
        if everywhere:
            return Rights(None, nodes, queues)
        asked = sorted(namespaces)[:MOST_NAMESPACES]
        answers = await asyncio.gather(*(self._may(caller, POD_GROUP, namespace) for namespace in asked))
        seen = frozenset(namespace for namespace, may in zip(asked, answers, strict=True) if may)
        return Rights(seen, nodes, queues)

    async def _may(self, caller: _Caller, kind: Kind, namespace: str = "") -> bool:
        """Whether somebody may list objects of a kind."""
        about = f"{kind.plural}/{namespace}"
        if about not in caller.allowed:
            assert caller.user is not None
            asked = {"verb": "list", "group": kind.group, "resource": kind.plural, "namespace": namespace}
            spec = {
                "user": caller.user.get("username"),
                "groups": caller.user.get("groups") or [],
                "uid": caller.user.get("uid") or "",
                "extra": caller.user.get("extra") or {},
                "resourceAttributes": {**asked, "version": kind.api_version.rpartition("/")[2]},
            }
            async with self._places:
                answer = await self._client.review(MAY, {"apiVersion": MAY.api_version, "kind": MAY.name, "spec": spec})
            status = _part(answer, "status")
            caller.allowed[about] = status.get("allowed") is True and status.get("denied") is not True
        return caller.allowed[about]


def _part(document: Any, name: str) -> dict[str, Any]:
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}
