"""Which resources the API server has: from an apiVersion and a kind to the name in the URL. Remembered for a while.

Anybody may write any apiVersion into a pod. The server is asked which groups it has, and about no other: what is
invented costs no request.
"""

import asyncio

import msgspec

from muster.errors import BadObject, Call, Forbidden, NotFound, ServerFault
from muster.grouping.owners import ANY_VERSION
from muster.kube.client import Client
from muster.kube.resources import Resource, segment

# Kinds come when somebody installs a CRD; until then nobody should ask for them with every pod.
_KNOWN_S = 600.0
_MISSING_S = 30.0
# So many groups are remembered. Servers have less than a hundred.
_MOST_GROUPS = 1_000


class _ApiResource(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""
    kind: str = ""
    namespaced: bool = False
    verbs: list[str] = []


class _ApiResources(msgspec.Struct, frozen=True, kw_only=True):
    resources: list[_ApiResource] | None = None


class _Version(msgspec.Struct, frozen=True):
    version: str = ""


class _ApiGroup(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    preferred_version: _Version = _Version()
    versions: list[_Version] = []

    def named(self) -> list[str]:
        """Its versions, the server's favourite first."""
        named = (one.version for one in (self.preferred_version, *self.versions))
        return [version for version in dict.fromkeys(named) if version]


class _ApiGroups(msgspec.Struct, frozen=True):
    groups: list[_ApiGroup] = []


class Discovery:
    """The resources of one server. Each group is asked for once, however many want to know."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._groups: dict[str, tuple[float, dict[str, Resource]]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        # When the server was last asked for its groups, and their versions; None: it does not tell.
        self._served: tuple[float, dict[str, list[str]] | None] | None = None
        self._serving = asyncio.Lock()

    async def find(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a kind, or None when the server has none. Raises ApiError when it can't be asked."""
        return (await self._group(api_version)).get(kind)

    async def find_served(self, api_version: str, kind: str) -> Resource | None:
        """The resource in the version that is named, else in one that is served; `ray.io/*` names none."""
        group, _, version = api_version.rpartition("/")
        named = await self.find(api_version, kind) if version != ANY_VERSION else None
        if named is not None:
            return named
        for served in await self._versions(group) if group else ["v1"]:
            other = await self.find(f"{group}/{served}".lstrip("/"), kind)
            if other is not None:
                return other
        return None

    async def _versions(self, group: str) -> list[str]:
        """The versions of a group, the server's favourite first."""
        served = await self._groups_served()
        if served is not None:
            return served.get(group, [])
        try:
            listed = msgspec.json.decode(await self._client.get_path(f"/apis/{segment(group)}"), type=_ApiGroup)
        except (NotFound, BadObject, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return []
        return listed.named()

    async def _groups_served(self) -> dict[str, list[str]] | None:
        """The versions of every group; None when the server does not tell."""
        async with self._serving:
            now_s = self._client.clock.now_s()
            if self._served is None or now_s - self._served[0] >= _MISSING_S:
                self._served = now_s, await self._ask_groups()
            return self._served[1]

    async def _ask_groups(self) -> dict[str, list[str]] | None:
        try:
            listed = msgspec.json.decode(await self._client.get_path("/apis"), type=_ApiGroups)
        except (NotFound, Forbidden, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None
        return {one.name: one.named() for one in listed.groups} or None

    def forget(self) -> None:
        """Asks the server again from now on."""
        self._groups.clear()
        self._served = None

    async def _group(self, api_version: str) -> dict[str, Resource]:
        known = self._known(api_version)
        if known is not None:
            return known
        try:
            path = "/".join(segment(part) for part in api_version.split("/"))
        except BadObject:
            return {}
        group, _, version = api_version.rpartition("/")
        if (not group and version != "v1") or "/" in group:
            return {}
        served = await self._groups_served() if group else None
        if served is not None and version not in served.get(group, ()):
            return {}
        async with self._locks.setdefault(api_version, asyncio.Lock()):
            known = self._known(api_version)
            if known is None:
                known = await self._ask(api_version, ("/apis/" if "/" in api_version else "/api/") + path)
                self._groups[api_version] = (self._client.clock.now_s(), known)
                while len(self._groups) > _MOST_GROUPS:
                    del self._groups[next(iter(self._groups))]
        self._locks.pop(api_version, None)
        return known

    def _known(self, api_version: str) -> dict[str, Resource] | None:
        asked_s, found = self._groups.get(api_version, (0.0, None))
        if found is None:
            return None
        age_s = self._client.clock.now_s() - asked_s
        return found if age_s < (_KNOWN_S if found else _MISSING_S) else None

    async def _ask(self, api_version: str, path: str) -> dict[str, Resource]:
        try:
            body = await self._client.get_path(path)
        except NotFound:
            return {}
        try:
            listed = msgspec.json.decode(body, type=_ApiResources).resources or []
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise ServerFault(Call("get", path), f"{path} is not a list of resources: {error}") from None
        # A name with a slash is a part of another resource.
        return {
            one.kind: Resource(api_version, one.kind, one.name, one.namespaced)
            for one in listed
            if one.name and "/" not in one.name and "get" in one.verbs
        }
