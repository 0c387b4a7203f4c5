"""What only pods have: binding to a node, and eviction that respects PodDisruptionBudgets."""

from typing import Any

from muster.embedded import applying, objects
from muster.embedded.admission import admit
from muster.embedded.core import Asked, Core, Document, Options, Target
from muster.embedded.deleting import Deletion, check_preconditions, delete, deletion_of
from muster.embedded.exchange import Said, bad_request, conflict, not_found, other_namespace, required
from muster.embedded.refusals import Cause
from muster.embedded.selectors import selector
from muster.embedded.store import Key, Stale

SUCCESS: Document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BUDGETS = "poddisruptionbudgets.policy"


def bind(core: Core, target: Target, binding: Document, asked: Options) -> Document:
    """Assign a pod to a node: 409 when it has one, is on its way out, is gated, or is not the pod that was meant."""
    metadata = binding.get("metadata") or {}
    name, node = metadata.get("name") or "", (binding.get("target") or {}).get("name") or ""
    if name != target.name:
        raise bad_request("name in URL does not match name in Binding object")
    _of_this_namespace(target, metadata)
    kind = (binding.get("target") or {}).get("kind") or ""
    if kind not in ("", "Node"):
        cause = Cause(
            "FieldValueNotSupported", f'Unsupported value: "{kind}": supported values: "Node", "<empty>"', "target.kind"
        )
        raise Said(500, "", str(cause))
    if not node:
        raise Said(500, "", str(required("target.name")))
    admit(core, Asked("CREATE", target, binding, None, asked.user, asked.dry_run))
    pod = core.store.get(target.key)
    if pod is None:
        raise not_found(target.resource, target.name)
    _meant(target, pod, metadata)
    why = _unbindable(pod)
    if why:
        message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
        raise Said(409, "Conflict", message, {"name": name, "kind": "pods/binding"})
    if asked.dry_run:
        return SUCCESS
    _store(core, target, pod, _bound(core, pod, node, metadata))
    return SUCCESS


def _of_this_namespace(target: Target, metadata: Document) -> None:
    if (metadata.get("namespace") or target.namespace) != target.namespace:
        raise other_namespace()


def _meant(target: Target, pod: Document, metadata: Document) -> None:
    for field, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        said, there = metadata.get(field), pod["metadata"][field]
        if said and said != there:
            why = f"Precondition failed: {word} in precondition: {said}, {word} in object meta: {there}"
            raise conflict(target.resource, target.name, why)


def _unbindable(pod: Document) -> str:
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _bound(core: Core, pod: Document, node: str, metadata: Document) -> Document:
    found = core.store.get(Key("nodes", "", node)) or {"metadata": {}}
    places = {key: value for key, value in (found["metadata"].get("labels") or {}).items() if key in (ZONE, REGION)}
    labels = {**(pod["metadata"].get("labels") or {}), **places, **(metadata.get("labels") or {})}
    annotations = {**(pod["metadata"].get("annotations") or {}), **(metadata.get("annotations") or {})}
    status = {key: value for key, value in (pod.get("status") or {}).items() if key != "nominatedNodeName"}
    status["conditions"] = with_condition(status.get("conditions"), "PodScheduled", core.now())
    generation = pod["metadata"].get("generation")
    new = objects.with_metadata(pod, labels=labels or None, annotations=annotations or None, generation=generation)
    return {**new, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def with_condition(conditions: Any, kind: str, now: str, reason: str = "", message: str = "") -> list[Document]:
    """The conditions of a pod with one that is true."""
    wanted: Document = {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    if reason:
        wanted["reason"] = reason
    if message:
        wanted["message"] = message
    found = list(conditions or ())
    for row, one in enumerate(found):
        if one.get("type") == kind:
            if one.get("status") == "True":
                wanted["lastTransitionTime"] = one.get("lastTransitionTime")
            found[row] = wanted
            return found
    return [*found, wanted]


def _store(core: Core, target: Target, old: Document, new: Document) -> Document:
    try:
        return core.store.replace(target.key, new, old["metadata"]["resourceVersion"])
    except Stale as stale:
        raise conflict(target.resource, target.name) from stale


def evict(core: Core, target: Target, eviction: Document, asked: Options) -> Document:
    """Delete a pod if the budget that covers it allows; 429 if not now, 500 if two cover it."""
    metadata = eviction.get("metadata") or {}
    if (metadata.get("name") or "") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    _of_this_namespace(target, metadata)
    options = deletion_of(eviction.get("deleteOptions"), {})
    options = options._replace(dry_run=options.dry_run or asked.dry_run, user=asked.user)
    pod = core.store.get(target.key)
    if pod is None:
        raise not_found(target.resource, target.name)
    phase = (pod.get("status") or {}).get("phase")
    if phase not in ("Succeeded", "Failed", "Pending") and not pod["metadata"].get("deletionTimestamp"):
        budgets = _budgets(core, pod)
        if len(budgets) > 1:
            said = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise Said(500, "", said)
        if budgets and not _may_go_unhealthy(pod, budgets[0]):
            _charge(core, pod, budgets[0], options.dry_run)
    _remove(core, target, pod, options)
    return SUCCESS


def _remove(core: Core, target: Target, pod: Document, options: Deletion) -> None:
    check_preconditions(target.resource, target.name, pod, options)
    if not options.dry_run:
        status = dict(pod.get("status") or {})
        status["conditions"] = with_condition(
            status.get("conditions"),
            "DisruptionTarget",
            core.now(),
            "EvictionByEvictionAPI",
            "Eviction API: evicting",
        )
        _store(core, target, pod, {**pod, "status": status})
    delete(core, target, options._replace(uid="", version=""))


def _budgets(core: Core, pod: Document) -> list[Document]:
    space = pod["metadata"]["namespace"]
    if not pod["metadata"].get("labels"):
        return []
    found = core.store.list(BUDGETS, space).items
    return [one for one in found if selector((one.get("spec") or {}).get("selector"))(pod)]


def _may_go_unhealthy(pod: Document, budget: Document) -> bool:
    """A pod that is not ready may go if the policy says so, or if enough others are."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
        return False
    status = budget.get("status") or {}
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= desired > 0)


def _charge(core: Core, pod: Document, budget: Document, dry_run: bool) -> None:
    """Take one disruption off a budget, or say that none is left."""
    metadata, status = budget["metadata"], budget.get("status") or {}
    name = metadata["name"]
    refusal = "Cannot evict pod as it would violate the pod's disruption budget."
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise _too_many(refusal, why, 10)
    left = status.get("disruptionsAllowed", 0)
    if left <= 0:
        desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        why = f"The disruption budget {name} does not allow evicting pods currently"
        if healthy <= desired:
            why = f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        raise _too_many(refusal, why, 0)
    if dry_run:
        return
    disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: core.now()}
    key = Key(BUDGETS, metadata["namespace"], name)
    # Who reads the budget sees by its condition whether more may go.
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if left > 1 else "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": core.now(),
        "reason": "SufficientPods" if left > 1 else "InsufficientPods",
        "message": "",
    }
    others = [one for one in status.get("conditions") or () if one.get("type") != "DisruptionAllowed"]
    changed = {"disruptionsAllowed": left - 1, "disruptedPods": disrupted, "conditions": [*others, condition]}
    resource = core.kinds.find("policy", "v1", "poddisruptionbudgets")
    assert resource
    new = applying.updated(
        budget,
        {**budget, "status": {**status, **changed}},
        manager="kube-apiserver",
        operation="Update",
        schema=resource.schema,
        time=core.now(),
        subresource="status",
    )
    core.store.replace(key, new, metadata["resourceVersion"])


def _too_many(message: str, why: str, seconds: int) -> Said:
    details = {"retryAfterSeconds": seconds} if seconds else {}
    return Said(429, "TooManyRequests", message, details, [Cause("DisruptionBudget", why, "")])
