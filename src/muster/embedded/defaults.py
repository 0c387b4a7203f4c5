"""What the real server fills in: the defaults of built-in kinds, and what its admission adds to new objects."""

import base64
from collections.abc import Callable
from typing import Any

Document = dict[str, Any]
Default = Callable[[Document], None]

# These functions change the document in place: it is the server's own copy.


def defaulted(kind: str, document: Document) -> None:
    """Fill in the defaults of a built-in kind."""
    found = _BY_KIND.get(kind)
    if found:
        found(document)


def _pod(document: Document) -> None:
    spec = document.setdefault("spec", {})
    pod_spec(spec)
    for container in _containers(spec):
        resources = container["resources"]
        limits = resources.get("limits") or {}
        if limits:
            asked = resources.setdefault("requests", {})
            for name, value in limits.items():
                asked.setdefault(name, value)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in _containers(spec):
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort"))
    document.setdefault("status", {})


def _containers(spec: Document) -> list[Document]:
    return [one for field in ("initContainers", "containers") for one in spec.get(field) or () if isinstance(one, dict)]


def pod_spec(spec: Document) -> None:
    """The defaults of a pod, or of the pod in a template."""
    spec.setdefault("containers", None)
    for container in _containers(spec):
        _container(container)
    for name, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
    ):
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    for volume in spec.get("volumes") or ():
        _volume(volume)


def _container(container: Document) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = container.get("image") or ""
    tag = image.rsplit("/", 1)[-1].partition(":")[2]
    fixed = tag not in ("", "latest") or "@" in image
    container.setdefault("imagePullPolicy", "IfNotPresent" if fixed else "Always")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for one in container.get("env") or ():
        reference = (one.get("valueFrom") or {}).get("fieldRef")
        if reference:
            reference.setdefault("apiVersion", "v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(name), dict):
            _probe(container[name])


def _probe(probe: Document) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe.setdefault(name, value)
    request = probe.get("httpGet")
    if isinstance(request, dict):
        request.setdefault("path", "/")
        request.setdefault("scheme", "HTTP")


def _volume(volume: Document) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        if isinstance(volume.get(source), dict):
            volume[source].setdefault("defaultMode", 420)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")


def _template(document: Document) -> Document:
    spec: Document = document.setdefault("spec", {})
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    pod_spec(template.setdefault("spec", {}))
    document.setdefault("status", {})
    return spec


def _job(document: Document) -> None:
    spec = _template(document)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    if "backoffLimitPerIndex" in spec:
        spec.setdefault("backoffLimit", 2147483647)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    failed = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", failed)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not document.get("metadata", {}).get("labels"):
        # One and the same: what is added to the template's later shows here too.
        document.setdefault("metadata", {})["labels"] = labels


def _stateful_set(document: Document) -> None:
    spec = _template(document)
    spec.setdefault("replicas", 1)
    spec.setdefault("serviceName", "")
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    kept = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    kept.setdefault("whenDeleted", "Retain")
    kept.setdefault("whenScaled", "Retain")
    document["status"].setdefault("replicas", 0)
    document["status"].setdefault("availableReplicas", 0)


def _deployment(document: Document) -> None:
    spec = _template(document)
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _replica_set(document: Document) -> None:
    spec = _template(document)
    spec.setdefault("replicas", 1)
    document["status"].setdefault("replicas", 0)


def _namespace(document: Document) -> None:
    document.setdefault("metadata", {}).setdefault("labels", {})
    name = document["metadata"].get("name")
    if name:
        document["metadata"]["labels"] = {**document["metadata"]["labels"], "kubernetes.io/metadata.name": name}
    document.setdefault("spec", {})
    document.setdefault("status", {}).setdefault("phase", "Active")


_NODE_INFO = [
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
]


def _node(document: Document) -> None:
    document.setdefault("spec", {})
    status = document.setdefault("status", {})
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
    info = status.setdefault("nodeInfo", {})
    for name in _NODE_INFO:
        info.setdefault(name, "")
    # What a kubelet does not say is what there is.
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _event(document: Document) -> None:
    document.setdefault("source", {})
    for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
        document.setdefault(name, None)
    document.setdefault("involvedObject", {})
    document.setdefault("reportingComponent", "")
    document.setdefault("reportingInstance", "")


def _budget(document: Document) -> None:
    document.setdefault("spec", {})
    status = document.setdefault("status", {})
    for name in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        status.setdefault(name, 0)


def _priority_class(document: Document) -> None:
    document.setdefault("value", 0)
    document.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _lease(document: Document) -> None:
    document.setdefault("spec", {})


def _secret(document: Document) -> None:
    document.setdefault("type", "Opaque")
    texts = document.pop("stringData", None)
    if texts:
        coded = {name: base64.b64encode(str(text).encode()).decode() for name, text in texts.items()}
        document["data"] = {**(document.get("data") or {}), **coded}


def _service(document: Document) -> None:
    spec = document.setdefault("spec", {})
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    document.setdefault("status", {}).setdefault("loadBalancer", {})


def _role_binding(document: Document) -> None:
    for subject in document.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def _role(document: Document) -> None:
    document.setdefault("rules", None)


def _webhooks(document: Document) -> None:
    for hook in document.get("webhooks") or ():
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (hook.get("clientConfig") or {}).get("service")
        if service:
            service.setdefault("port", 443)


def _definition(document: Document) -> None:
    spec = document.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})
    status = document.setdefault("status", {})
    status.setdefault("conditions", None)
    status.setdefault("acceptedNames", {"plural": "", "kind": ""})
    kept = [one.get("name") for one in spec.get("versions") or () if one.get("storage")]
    status.setdefault("storedVersions", kept)


def _claim(document: Document) -> None:
    document.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    document["spec"].setdefault("resources", {})
    document.setdefault("status", {}).setdefault("phase", "Pending")


def _persistent_volume(document: Document) -> None:
    spec = document.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    document.setdefault("status", {}).setdefault("phase", "Pending")


def _storage_class(document: Document) -> None:
    document.setdefault("reclaimPolicy", "Delete")
    document.setdefault("volumeBindingMode", "Immediate")


def _csi_node(document: Document) -> None:
    drivers = document.setdefault("spec", {}).setdefault("drivers", None)
    for driver in drivers or ():
        driver.setdefault("topologyKeys", None)


def _csi_driver(document: Document) -> None:
    spec = document.setdefault("spec", {})
    for field in ("attachRequired", "seLinuxMount", "podInfoOnMount", "requiresRepublish", "storageCapacity"):
        spec.setdefault(field, field == "attachRequired")
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


def _device_class(document: Document) -> None:
    document.setdefault("spec", {})


_BY_KIND: dict[str, Default] = {
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _persistent_volume,
    "StorageClass": _storage_class,
    "CSINode": _csi_node,
    "CSIDriver": _csi_driver,
    "DeviceClass": _device_class,
    "Pod": _pod,
    "Job": _job,
    "StatefulSet": _stateful_set,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "Namespace": _namespace,
    "Node": _node,
    "Event": _event,
    "PodDisruptionBudget": _budget,
    "PriorityClass": _priority_class,
    "Lease": _lease,
    "Secret": _secret,
    "Service": _service,
    "RoleBinding": _role_binding,
    "ClusterRoleBinding": _role_binding,
    "Role": _role,
    "ClusterRole": _role,
    "ValidatingWebhookConfiguration": _webhooks,
    "CustomResourceDefinition": _definition,
}
