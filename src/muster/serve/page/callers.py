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
from muster.kube.remembering import remember
from muster.kube.resources import Resource
from muster.serve.views.seeing import Rights

WHO = Resource("authentication.k8s.io/v1", "TokenReview", "tokenreviews", namespaced=False)
MAY = Resource("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)

_NODE = next(kind for kind in CORE_KINDS if kind.plural == "nodes")
# So long an answer counts.
KEEP_S = 60.0
# So many callers are remembered, and apart from them so many tokens that nobody knows: strangers push nobody out.
MOST_CALLERS, MOST_STRANGERS = 256, 256
# Of so many more namespaces one request asks whether they may be seen; of the rest the next ones do.
MOST_NAMESPACES = 500
# So many questions at a time, beside so many about tokens that were not known before.
_AT_A_TIME, _AT_THE_DOOR = 8, 4


@dataclass
class _Caller:
    """Somebody, as the API server knows them, and what they may list, as far as it was asked."""

    until_s: float
    user: dict[str, Any]
    allowed: dict[str, bool] = field(default_factory=dict)
    # The namespaces that they might see when it was last asked, and those that they might not: what to ask first.
    seen: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()


class ClusterCallers:
    """Asks the API server who comes, and what they may see. `audiences`: a token must be meant for one of them."""

    mode = "cluster"

    def __init__(self, client: Client, *, audiences: Collection[str] = ()) -> None:
        self._client, self._audiences = client, list(audiences)
        self._known: OrderedDict[bytes, _Caller] = OrderedDict()
        # Until when a token is nobody's.
        self._strangers: OrderedDict[bytes, float] = OrderedDict()
        self._turns: dict[bytes, asyncio.Lock] = {}
        self._places, self._door = asyncio.Semaphore(_AT_A_TIME), asyncio.Semaphore(_AT_THE_DOOR)

    async def rights(self, token: str, namespaces: Collection[str], first: Collection[str] = ()) -> Rights | None:
        """What somebody may see; None when nobody knows the token. Raises ApiError when nobody can say."""
        name = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        lock = self._turns.setdefault(name, asyncio.Lock())
        try:
            # Of a page that opens many requests at once, only the first asks.
            async with lock:
                caller = await self._caller(name, token)
                return None if caller is None else await self._seen(caller, namespaces, first)
        finally:
            if not lock.locked():
                self._turns.pop(name, None)

    async def _caller(self, name: bytes, token: str) -> _Caller | None:
        now_s = self._client.clock.now_s()
        found = self._known.get(name)
        if found is not None and now_s < found.until_s:
            self._known.move_to_end(name)
            return found
        if name in self._strangers and now_s < self._strangers[name]:
            return None
        async with self._door if found is None else self._places:
            user = await self._user(token)
        if user is None:
            self._known.pop(name, None)
            remember(self._strangers, name, now_s + KEEP_S, MOST_STRANGERS)
            return None
        caller = _Caller(now_s + KEEP_S, user)
        if found is not None:
            caller.seen, caller.unseen = found.seen, found.unseen
        remember(self._known, name, caller, MOST_CALLERS)
        return caller

    async def _user(self, token: str) -> dict[str, Any] | None:
        if not token.isascii() or not token.isprintable():
            return None
        spec: dict[str, Any] = {"token": token}
        if self._audiences:
            spec["audiences"] = self._audiences
        answer = await self._client.review(WHO, {"apiVersion": WHO.api_version, "kind": WHO.name, "spec": spec})
        status = _part(answer, "status")
        user = _part(status, "user")
        return user if status.get("authenticated") is True and user.get("username") else None

    async def _seen(self, caller: _Caller, namespaces: Collection[str], first: Collection[str]) -> Rights:
        """Everywhere first: only where that is refused, namespace by namespace.

        What they might see before is asked about although nothing is there now: nobody loses a right with a gang.
        """
        everywhere, nodes, queues = await asyncio.gather(
            self._may(caller, POD_GROUP), self._may(caller, _NODE), self._may(caller, QUEUE)
        )
        if everywhere:
            return Rights(None, nodes, queues)
        # Last those that they might not see; so sooner or later each has its turn.
        others = sorted(namespaces, key=lambda one: (one in caller.unseen, one))
        wanted = list(dict.fromkeys((*first, *sorted(caller.seen), *others)))
        new = [one for one in wanted if _about(POD_GROUP, one) not in caller.allowed]
        asked = new[:MOST_NAMESPACES]
        await asyncio.gather(*(self._may(caller, POD_GROUP, one) for one in asked))
        answers = {one: caller.allowed.get(_about(POD_GROUP, one)) for one in wanted}
        seen = frozenset(one for one, may in answers.items() if may)
        caller.seen = frozenset(sorted(seen)[:MOST_NAMESPACES])
        caller.unseen = frozenset(one for one in others if answers[one] is False or one in caller.unseen) - seen
        return Rights(seen, nodes, queues, len(new) - len(asked))

    async def _may(self, caller: _Caller, kind: Kind, namespace: str = "") -> bool:
        """Whether somebody may list objects of a kind."""
        about = _about(kind, namespace)
        if about not in caller.allowed:
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


def _about(kind: Kind, namespace: str) -> str:
    return f"{kind.plural}/{namespace}"


def _part(document: Any, name: str) -> dict[str, Any]:
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}
