"""Which resources the API server has: from an apiVersion and a kind to the name in the URL. Remembered for a while."""

import asyncio

import msgspec

from muster.errors import BadObject, Call, NotFound, ServerFault
from muster.grouping.owners import ANY_VERSION
from muster.kube.client import Client
from muster.kube.resources import Resource, segment

# Kinds come when somebody installs a CRD; until then nobody should ask for them with every pod.
_KNOWN_S = 600.0
_MISSING_S = 30.0


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
    preferred_version: _Version = _Version()
    versions: list[_Version] = []


class Discovery:
    """The resources of one server. Each group is asked for once, however many want to know."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._groups: dict[str, tuple[float, dict[str, Resource]]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

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
        try:
            listed = msgspec.json.decode(await self._client.get_path(f"/apis/{segment(group)}"), type=_ApiGroup)
        except (NotFound, BadObject, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return []
        named = (one.version for one in (listed.preferred_version, *listed.versions))
        return [version for version in dict.fromkeys(named) if version]

    def forget(self) -> None:
        """Asks the server again from now on."""
        self._groups.clear()

    async def _group(self, api_version: str) -> dict[str, Resource]:
        known = self._known(api_version)
        if known is not None:
            return known
        try:
            path = "/".join(segment(part) for part in api_version.split("/"))
        except BadObject:
            return {}
        if api_version.count("/") > 1:
            return {}
        async with self._locks.setdefault(api_version, asyncio.Lock()):
            known = self._known(api_version)
            if known is None:
                known = await self._ask(api_version, ("/apis/" if "/" in api_version else "/api/") + path)
                self._groups[api_version] = (self._client.clock.now_s(), known)
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
