"""What happens to a document around its validation: the server's own additions before, reviews after it."""

from typing import Any

from muster.embedded.core import DEFINITIONS, Asked, Core, Document
from muster.embedded.exchange import Said, forbidden
from muster.embedded.kinds import Resource
from muster.embedded.quantities import amount
from muster.embedded.refusals import Cause
from muster.embedded.rules import SYSTEM_PRIORITIES
from muster.embedded.store import Key

DEFAULT_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_NEVER_READY = tuple(f"node.kubernetes.io/{what}" for what in ("not-ready", "unreachable"))


def check_namespace(core: Core, resource: Resource, namespace: str, name: str) -> None:
    """404 when the namespace of a new object is not there, 403 when it is on its way out."""
    if not resource.namespaced:
        return
    found = core.store.get(Key("namespaces", "", namespace))
    if found is None:
        details = {"name": namespace, "kind": "namespaces"}
        raise Said(404, "NotFound", f'namespaces "{namespace}" not found', details)
    if found["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        said = forbidden(resource, name, why)
        text = f"namespace {namespace} is being terminated"
        raise Said(
            403, "Forbidden", said.message, said.details, [Cause("NamespaceTerminating", text, "metadata.namespace")]
        )


def check_definition(core: Core, resource: Resource, name: str) -> None:
    """403 when the definition of the kind of a new object is on its way out."""
    found = core.store.get(Key(DEFINITIONS, "", resource.stored)) if resource.custom else None
    if found is not None and found["metadata"].get("deletionTimestamp"):
        conditions = (found.get("status") or {}).get("conditions") or ()
        if any(one.get("type") == "Terminating" and one.get("status") == "True" for one in conditions):
            raise forbidden(resource, name, "create not allowed while custom resource definition is terminating")


def prepare(core: Core, resource: Resource, new: Document, old: Document | None = None) -> Document:
    """What the server itself makes of a document of a built-in kind: the status of a new one, what admission adds."""
    if resource.custom:
        if old is None and resource.has_status:
            new = {key: value for key, value in new.items() if key != "status"}
        return new
    kind = resource.kind
    if kind == "PriorityClass" and new.get("globalDefault"):
        _check_only_default(core, resource, new)
    if old is None:
        if kind == "Pod":
            return _new_pod(core, resource, new)
        if kind == "Job":
            return _new_job(new)
        if kind == "Namespace":
            return {**new, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        if kind == "Service":
            new = _new_service(new)
        if kind in _FRESH:
            return {**new, "status": dict(_FRESH[kind])}
        return new
    if kind == "Namespace":
        labels = {**(new["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": new["metadata"]["name"]}
        return {**new, "spec": old.get("spec") or {}, "metadata": {**new["metadata"], "labels": labels}}
    if kind == "Pod":
        return _changed_pod(new, old)
    return new


_FRESH: dict[str, Document] = {
    "StatefulSet": {"replicas": 0, "availableReplicas": 0},
    "ReplicaSet": {"replicas": 0},
    "Deployment": {},
    "PodDisruptionBudget": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    "Service": {"loadBalancer": {}},
}


def _check_only_default(core: Core, resource: Resource, new: Document) -> None:
    """403 when there is a default among the priority classes already."""
    name = new["metadata"].get("name") or ""
    for one in core.store.list(resource.stored).items:
        other = one["metadata"]["name"]
        if one.get("globalDefault") and other != name:
            why = f"PriorityClass {other} is already marked as default. Only one default can exist"
            raise forbidden(resource, name, why)


def _new_pod(core: Core, resource: Resource, pod: Document) -> Document:
    spec = {**pod["spec"]}
    name = spec.get("priorityClassName") or ""
    value, policy = _priority(core, resource, pod, name)
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)
    if not name:
        for found in core.store.list("priorityclasses.scheduling.k8s.io").items:
            if found.get("globalDefault"):
                spec["priorityClassName"] = found["metadata"]["name"]
                spec["priority"] = found["value"]
                spec["preemptionPolicy"] = found["preemptionPolicy"]
    said = pod["spec"].get("priority")
    if said is not None and said != spec["priority"]:
        why = f"the integer value of priority ({said}) must not be provided in pod spec; priority admission controller"
        why += f" computed {spec['priority']} from the given PriorityClass name"
        raise forbidden(resource, pod["metadata"].get("name") or "", why)
    spec["tolerations"] = _tolerations(spec)
    status: Document = {"phase": "Pending", "qosClass": quality(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": core.now(),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    return {**pod, "spec": spec, "status": status}


def _priority(core: Core, resource: Resource, pod: Document, name: str) -> tuple[int, str]:
    if not name:
        return 0, "PreemptLowerPriority"
    found = core.store.get(Key("priorityclasses.scheduling.k8s.io", "", name))
    if found is not None:
        return int(found.get("value") or 0), found.get("preemptionPolicy") or "PreemptLowerPriority"
    if name in SYSTEM_PRIORITIES:
        return SYSTEM_PRIORITIES[name], "PreemptLowerPriority"
    raise forbidden(resource, pod["metadata"].get("name") or "", f"no PriorityClass with name {name} was found")


def _tolerations(spec: Document) -> list[Document]:
    """Those of a pod, and those that every pod has: five minutes on a node that is away."""
    found = list(spec.get("tolerations") or ())
    for key in _NEVER_READY:
        if not any(_tolerates(one, key) for one in found):
            found.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    return found


def _tolerates(toleration: Document, key: str) -> bool:
    return toleration.get("key", key) in (key, "") and toleration.get("effect", "NoExecute") in ("NoExecute", "")


def quality(spec: Document) -> str:
    """The quality of service class of a pod."""
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    guaranteed = True
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        for kind, total in (("requests", requests), ("limits", limits)):
            seen = {}
            for name in ("cpu", "memory"):
                value = amount(str((resources.get(kind) or {}).get(name, "0")))
                if value:
                    seen[name] = value
                    total[name] = total.get(name, 0) + value
            if kind == "limits" and len(seen) < 2:
                guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _changed_pod(new: Document, old: Document) -> Document:
    """What a client need not repeat of a pod: the class of its status, the value of its priority."""
    status = {
        "qosClass": (old.get("status") or {}).get("qosClass") or quality(old["spec"]),
        **(new.get("status") or {}),
    }
    spec = {**new["spec"], "tolerations": _tolerations(new["spec"])}
    for field in ("priority", "preemptionPolicy"):
        if field in old["spec"]:
            spec.setdefault(field, old["spec"][field])
    return {**new, "spec": spec, "status": status}


def _new_job(job: Document) -> Document:
    spec = {**job["spec"]}
    metadata = job["metadata"]
    if not spec.get("manualSelector"):
        uid, name = metadata["uid"], metadata["name"]
        template = {**spec["template"]}
        inner = {**(template.get("metadata") or {})}
        before = inner.get("labels")
        labels = dict(before or {})
        for prefix in ("", "batch.kubernetes.io/"):
            labels[f"{prefix}controller-uid"] = uid
            labels[f"{prefix}job-name"] = name
        inner["labels"] = labels
        template["metadata"] = inner
        spec["template"] = template
        # What a client selects itself stays, so that it is refused.
        given = spec.get("selector") or {}
        own = {"batch.kubernetes.io/controller-uid": uid}
        spec["selector"] = {**given, "matchLabels": {**(given.get("matchLabels") or {}), **own}}
        if not metadata.get("labels") or metadata["labels"] is before:
            metadata = {**metadata, "labels": dict(labels)}
    return {**job, "metadata": metadata, "spec": spec, "status": {}}


def _new_service(service: Document) -> Document:
    """Nobody routes anything here: every service is a headless one."""
    spec = dict(service["spec"])
    if spec["type"] != "ExternalName":
        spec.setdefault("clusterIP", "None")
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    return {**service, "spec": spec}


def admit(core: Core, asked: Asked) -> list[str]:
    """Ask every review; the warnings of all, or the first refusal."""
    warnings: list[str] = []
    for review in core.reviews:
        verdict = review(asked)
        warnings += verdict.warnings
        if verdict.refusal:
            details = verdict.details
            if details is None and verdict.causes:
                resource = asked.target.resource
                details = {"name": asked.target.name, "group": resource.group, "kind": resource.kind}
            raise Said(verdict.status, verdict.reason, verdict.refusal, details, verdict.causes, warnings)
    return warnings
