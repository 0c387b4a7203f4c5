"""Writes src/muster/embedded/fields.json: names and types of the fields of the built-in kinds, as a real server says.

`PYTHONPATH=tests .venv/bin/python -m fidelity.fields` starts a control plane (docs/e2e.md), reads its OpenAPI documents
and keeps what a machine needs of them: types, keys of lists, required fields. No sentences are kept.
"""

import json
from pathlib import Path
from typing import Any

from e2e.plane import ControlPlane

TARGET = Path(__file__).parents[2] / "src" / "muster" / "embedded" / "fields.json"
# Group and version, and the kinds that the embedded server has of it.
KINDS = {
    "api/v1": (
        "Pod Node Namespace Event ServiceAccount ConfigMap Secret Service Binding Eviction PersistentVolume"
        " PersistentVolumeClaim"
    ),
    "apis/batch/v1": "Job",
    "apis/apps/v1": "StatefulSet ReplicaSet Deployment",
    "apis/coordination.k8s.io/v1": "Lease",
    "apis/policy/v1": "PodDisruptionBudget",
    "apis/scheduling.k8s.io/v1": "PriorityClass",
    "apis/events.k8s.io/v1": "Event",
    "apis/apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "apis/rbac.authorization.k8s.io/v1": "Role RoleBinding ClusterRole ClusterRoleBinding",
    "apis/admissionregistration.k8s.io/v1": (
        "ValidatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"
    ),
    "apis/storage.k8s.io/v1": "StorageClass CSINode CSIDriver",
    "apis/resource.k8s.io/v1": "DeviceClass",
    "apis/networking.k8s.io/v1": "NetworkPolicy",
    "apis/authentication.k8s.io/v1": "SelfSubjectReview",
    "apis/authorization.k8s.io/v1": "SelfSubjectAccessReview",
}
PREFIX = "#/components/schemas/"
# Kinds of volumes that nobody uses here: any object will do.
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "hostPath", "name", "persistentVolumeClaim"}
VOLUMES |= {"projected", "secret"}
ANYTHING: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
SPECIAL: dict[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"x-kubernetes-int-or-string": True, "format": "quantity"},
    # Times with fractions of a second, which others lose.
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": {"type": "string", "format": "micro-time"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"x-kubernetes-int-or-string": True},
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": {"type": "object", **ANYTHING},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object", **ANYTHING},
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": ANYTHING,
    # A schema of schemas contains itself.
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps": {"type": "object", **ANYTHING},
}
KEPT = ("type", "format", "enum", "required")


def reduced(schema: dict[str, Any], needed: list[str]) -> dict[str, Any]:
    """What a machine needs of a schema; the definitions it refers to are added to `needed`."""
    for part in schema.get("allOf", ()):
        schema = {**schema, **part}
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(PREFIX)
        needed.append(name)
        return {"$ref": name, **{key: value for key, value in schema.items() if key.startswith("x-")}}
    found = {key: schema[key] for key in KEPT if key in schema}
    found |= {key: value for key, value in schema.items() if key.startswith("x-")}
    if schema.get("default") not in (None, "", {}, 0, False):
        found["default"] = schema["default"]
    for key in ("items", "additionalProperties"):
        if key in schema:
            found[key] = reduced(schema[key], needed)
    if "properties" in schema:
        found["properties"] = {name: reduced(value, needed) for name, value in schema["properties"].items()}
    return found


def definition(name: str, schema: dict[str, Any], needed: list[str]) -> dict[str, Any]:
    """One definition, reduced."""
    if name in SPECIAL:
        return SPECIAL[name]
    found = reduced(schema, needed)
    found.pop("x-kubernetes-unions", None)
    if name.endswith(".core.v1.Volume"):
        for source in set(found["properties"]) - VOLUMES:
            found["properties"][source] = {"type": "object", **ANYTHING}
    return found


def main() -> None:
    """Read the documents of a fresh control plane and write the file."""
    kept: dict[str, Any] = {}
    with ControlPlane() as plane:
        for path, names in KINDS.items():
            schemas = plane.request("GET", f"/openapi/v3/{path}").body["components"]["schemas"]
            group, _, version = path.removeprefix("apis/").removeprefix("api/").rpartition("/")
            wanted = [
                {"group": "policy" if kind == "Eviction" else group, "version": version, "kind": kind}
                for kind in names.split()
            ]
            found = [
                name
                for name, schema in schemas.items()
                if any(kind in wanted for kind in schema.get("x-kubernetes-group-version-kind", ()))
            ]
            assert len(found) == len(wanted), (path, found)
            while found:
                name = found.pop()
                if name not in kept:
                    needed: list[str] = []
                    kept[name] = definition(name, schemas[name], needed)
                    # Leave out the volumes that were dropped.
                    text = json.dumps(kept[name])
                    found += [one for one in needed if f'"{one}"' in text]
    lines = [f" {json.dumps(name)}: {json.dumps(kept[name], separators=(',', ':'))}" for name in sorted(kept)]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
