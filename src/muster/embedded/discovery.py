"""What the server says of itself: groups, versions and resources, in the old form and in the aggregated one."""

from typing import Any

from muster.embedded.kinds import GROUPS, Kinds, Resource, stability

Document = dict[str, Any]
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# The version that this server behaves like; the suffix says that it is not one.
VERSION: Document = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.4+muster",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}


def wants_aggregated(accept: str) -> bool:
    """Whether a client prefers the aggregated form."""
    first = accept.partition(",")[0].replace(" ", "")
    return "g=apidiscovery.k8s.io" in first and "v=v2;" in first + ";" and "as=APIGroupDiscoveryList" in first


def _groups(kinds: Kinds) -> dict[str, dict[str, list[Resource]]]:
    """Group, version, resources; built-in groups first, versions in the order of preference."""
    found: dict[str, dict[str, list[Resource]]] = {name: {} for name in GROUPS}
    for resource in kinds:
        if resource.group:
            found.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    return {
        group: {version: versions[version] for version in sorted(versions, key=stability, reverse=True)}
        for group, versions in found.items()
        if versions
    }


def core_versions(address: str) -> Document:
    """/api."""
    found: Document = {"kind": "APIVersions", "versions": ["v1"]}
    found["serverAddressByClientCIDRs"] = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return found


def group_list(kinds: Kinds) -> Document:
    """/apis."""
    groups = [_group(name, list(versions)) for name, versions in _groups(kinds).items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(kinds: Kinds, name: str) -> Document | None:
    """/apis/GROUP."""
    versions = _groups(kinds).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, list(versions))} if versions else None


def _group(name: str, versions: list[str]) -> Document:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def resource_list(kinds: Kinds, name: str, version: str) -> Document | None:
    """/api/v1 and /apis/GROUP/VERSION."""
    found = sorted((one for one in kinds if (one.group, one.version) == (name, version)), key=lambda one: one.plural)
    if not found:
        return None
    resources = []
    for one in found:
        resources.append(_described(one))
        for below in sorted(one.subresources.values(), key=lambda each: each.name):
            entry: Document = {"name": f"{one.plural}/{below.name}", "singularName": "", "namespaced": one.namespaced}
            if below.api_version != one.api_version:
                entry["group"], _, entry["version"] = below.api_version.rpartition("/")
                if not entry["group"]:
                    del entry["group"], entry["version"]
            resources.append({**entry, "kind": below.kind, "verbs": list(below.verbs)})
    said: Document = {"kind": "APIResourceList"}
    if name:
        said["apiVersion"] = "v1"
    return {**said, "groupVersion": f"{name}/{version}" if name else version, "resources": resources}


def _described(one: Resource) -> Document:
    verbs = list(one.verbs)
    found: Document = {"name": one.plural, "singularName": one.singular, "namespaced": one.namespaced, "kind": one.kind}
    found["verbs"] = verbs
    if one.short_names:
        found["shortNames"] = list(one.short_names)
    if one.categories:
        found["categories"] = list(one.categories)
    return found


def aggregated(kinds: Kinds, core: bool) -> Document:
    """/api and /apis in one answer."""
    groups = {"": {"v1": [one for one in kinds if not one.group]}} if core else _groups(kinds)
    items = []
    for name, versions in groups.items():
        listed = [
            {
                "version": version,
                "resources": [_aggregated(one) for one in sorted(found, key=lambda each: each.plural)],
                "freshness": "Current",
            }
            for version, found in versions.items()
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": listed})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated(one: Resource) -> Document:
    found: Document = {
        "resource": one.plural,
        "responseKind": _kind(one, one.api_version, one.kind),
        "scope": "Namespaced" if one.namespaced else "Cluster",
        "singularResource": one.singular,
        "verbs": list(one.verbs),
    }
    if one.short_names:
        found["shortNames"] = list(one.short_names)
    if one.categories:
        found["categories"] = list(one.categories)
    if one.subresources:
        found["subresources"] = [
            {
                "subresource": below.name,
                "responseKind": _kind(one, below.api_version, below.kind),
                "verbs": list(below.verbs),
            }
            for below in sorted(one.subresources.values(), key=lambda each: each.name)
        ]
    return found


def _kind(one: Resource, api_version: str, kind: str) -> Document:
    if api_version == one.api_version and not one.custom:
        return {"group": "", "version": "", "kind": kind}
    group, _, version = api_version.rpartition("/")
    return {"group": group, "version": version, "kind": kind}
