"""The columns of `kubectl get` for the built-in kinds, and how their cells come about."""

from collections.abc import Callable
from typing import Any, NamedTuple

from muster.embedded.objects import seconds_of

Document = dict[str, Any]
Cell = str | int | float | bool | None
NONE, UNKNOWN = "<none>", "<unknown>"
Column = tuple[str, str, str, int]


class Columns(NamedTuple):
    """The columns of a kind: name, type, format, priority; and the cells of one object at a time."""

    columns: tuple[Column, ...]
    cells: Callable[[Document, float], list[Cell]]


def duration(seconds: float) -> str:
    """A duration as people read it: 90s, 5m, 3h10m, 4d2h, 2y30d."""
    left = int(seconds)
    if left < -1:
        return "<invalid>"
    if left < 0:
        return "0s"
    minutes, hours, days = left // 60, left // 3600, left // 86400
    if left < 120:
        return f"{left}s"
    if minutes < 10:
        return f"{minutes}m{left % 60}s" if left % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    if days < 365 * 8:
        return f"{days // 365}y{days % 365}d" if days % 365 else f"{days // 365}y"
    return f"{days // 365}y"


def age_of(text: Any, now: float) -> str:
    """How long ago a time was."""
    if not isinstance(text, str) or not text:
        return UNKNOWN
    try:
        return duration(now - seconds_of(text))
    except ValueError:
        return "<invalid>"


def _name(document: Document) -> str:
    return str(document["metadata"]["name"])


def _age(document: Document, now: float) -> str:
    return age_of(document["metadata"].get("creationTimestamp"), now)


def _spec(document: Document) -> Document:
    return document.get("spec") or {}


def _status(document: Document) -> Document:
    return document.get("status") or {}


def _columns(*texts: str) -> tuple[Column, ...]:
    """`Name`, `Value:integer`, `IP+` (only in wide)."""
    found = []
    for text in texts:
        name, _, kind = text.rstrip("+").partition(":")
        found.append((name, kind or "string", "name" if name == "Name" else "", int(text.endswith("+"))))
    return tuple(found)


def _pod(document: Document, now: float) -> list[Cell]:
    spec, status = _spec(document), _status(document)
    init = status.get("initContainerStatuses") or []
    running = status.get("containerStatuses") or []
    ready = sum(1 for one in running if one.get("ready") and "running" in (one.get("state") or {}))
    restarts = sum(one.get("restartCount", 0) for one in running)
    reason = _pod_reason(document, init, running)
    gates = spec.get("readinessGates") or []
    passed = {one.get("type") for one in status.get("conditions") or () if one.get("status") == "True"}
    return [
        _name(document),
        f"{ready}/{len(spec.get('containers') or ())}",
        reason,
        str(restarts),
        _age(document, now),
        (status.get("podIPs") or [{}])[0].get("ip") or status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{sum(one.get('conditionType') in passed for one in gates)}/{len(gates)}" if gates else NONE,
    ]


def _pod_reason(document: Document, init: list[Document], running: list[Document]) -> str:
    status = _status(document)
    reason = status.get("reason") or status.get("phase") or ""
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    for row, one in enumerate(init):
        state = one.get("state") or {}
        ended = state.get("terminated")
        if ended and not ended.get("exitCode"):
            continue
        if ended:
            reason = "Init:" + (ended.get("reason") or f"ExitCode:{ended.get('exitCode')}")
        elif (state.get("waiting") or {}).get("reason") not in (None, "", "PodInitializing"):
            reason = "Init:" + state["waiting"]["reason"]
        else:
            reason = f"Init:{row}/{len(_spec(document).get('initContainers') or ())}"
        break
    else:
        reason = _running_reason(reason, running, status)
    if document["metadata"].get("deletionTimestamp"):
        done = status.get("phase") in ("Succeeded", "Failed")
        reason = (
            UNKNOWN.strip("<>").title() if status.get("reason") == "NodeLost" else reason if done else "Terminating"
        )
    return str(reason)


def _running_reason(reason: str, running: list[Document], status: Document) -> str:
    any_running = False
    for one in reversed(running):
        state = one.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            signal, code = ended.get("signal"), ended.get("exitCode", 0)
            reason = ended.get("reason") or (f"Signal:{signal}" if signal else f"ExitCode:{code}")
        elif one.get("ready") and "running" in state:
            any_running = True
    if reason == "Completed" and any_running:
        ready = any(
            one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ()
        )
        return "Running" if ready else "NotReady"
    return reason


_ROLE = "node-role.kubernetes.io/"


def _node(document: Document, now: float) -> list[Cell]:
    status, labels = _status(document), document["metadata"].get("labels") or {}
    said = [
        one["type"] if one.get("status") == "True" else f"Not{one['type']}"
        for one in status.get("conditions") or ()
        if one.get("type") == "Ready"
    ] or ["Unknown"]
    if _spec(document).get("unschedulable"):
        said.append("SchedulingDisabled")
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    info = status.get("nodeInfo") or {}
    addresses = {one.get("type"): one.get("address") for one in reversed(status.get("addresses") or ())}
    return [
        _name(document),
        ",".join(said),
        ",".join(sorted(roles)) or NONE,
        _age(document, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _event(document: Document, now: float) -> list[Cell]:
    first = document.get("firstTimestamp") or document.get("eventTime")
    series = document.get("series") or {}
    last = series.get("lastObservedTime") or document.get("lastTimestamp") or first
    count = series.get("count") or document.get("count") or (1 if not document.get("lastTimestamp") else 0)
    about = document.get("involvedObject") or {}
    source = document.get("source") or {}
    target = str(about.get("kind") or "").lower() + (f"/{about['name']}" if about.get("name") else "")
    component = source.get("component") or document.get("reportingComponent") or ""
    host = source.get("host") or document.get("reportingInstance") or ""
    return [
        age_of(last, now),
        document.get("type") or "",
        document.get("reason") or "",
        target,
        about.get("fieldPath") or "",
        f"{component}, {host}" if host else component,
        (document.get("message") or "").strip(),
        age_of(first, now),
        count,
        _name(document),
    ]


def selector_text(selector: Document | None) -> str:
    """A label selector as one line."""
    if not selector:
        return NONE
    found = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for one in selector.get("matchExpressions") or ():
        key, values = one.get("key"), ",".join(one.get("values") or ())
        words = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        found.append(str(words.get(one.get("operator"), key)))
    return ",".join(sorted(found)) or NONE


def _template(document: Document) -> tuple[str, str]:
    containers = ((_spec(document).get("template") or {}).get("spec") or {}).get("containers") or []
    return ",".join(one.get("name", "") for one in containers), ",".join(one.get("image", "") for one in containers)


def _job(document: Document, now: float) -> list[Cell]:
    spec, status = _spec(document), _status(document)
    conditions = {one.get("type"): one.get("status") == "True" for one in status.get("conditions") or ()}
    said = "Running"
    for kind, word in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if conditions.get(kind):
            said = word
            break
    else:
        said = "Terminating" if document["metadata"].get("deletionTimestamp") else "Running"
    done = status.get("succeeded", 0)
    parallel = spec.get("parallelism") or 0
    total = (
        str(spec["completions"]) if spec.get("completions") is not None else f"1 of {parallel}" if parallel > 1 else "1"
    )
    took = ""
    if status.get("startTime"):
        end = seconds_of(status["completionTime"]) if status.get("completionTime") else now
        took = duration(end - seconds_of(status["startTime"]))
    names, images = _template(document)
    return [
        _name(document),
        said,
        f"{done}/{total}",
        took,
        _age(document, now),
        names,
        images,
        selector_text(spec.get("selector")),
    ]


def _stateful_set(document: Document, now: float) -> list[Cell]:
    ready = f"{_status(document).get('readyReplicas', 0)}/{_spec(document).get('replicas', 0)}"
    return [_name(document), ready, _age(document, now), *_template(document)]


def _replica_set(document: Document, now: float) -> list[Cell]:
    status, spec = _status(document), _spec(document)
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [_name(document), *counts, _age(document, now), *_template(document), selector_text(spec.get("selector"))]


def _deployment(document: Document, now: float) -> list[Cell]:
    status, spec = _status(document), _spec(document)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    return [
        _name(document),
        ready,
        *counts,
        _age(document, now),
        *_template(document),
        selector_text(spec.get("selector")),
    ]


def _priority_class(document: Document, now: float) -> list[Cell]:
    value, is_default = document.get("value", 0), bool(document.get("globalDefault"))
    return [_name(document), value, is_default, _age(document, now), document.get("preemptionPolicy") or ""]


def _budget(document: Document, now: float) -> list[Cell]:
    spec = _spec(document)
    least = str(spec["minAvailable"]) if spec.get("minAvailable") is not None else "N/A"
    most = str(spec["maxUnavailable"]) if spec.get("maxUnavailable") is not None else "N/A"
    return [_name(document), least, most, _status(document).get("disruptionsAllowed", 0), _age(document, now)]


def _service(document: Document, now: float) -> list[Cell]:
    spec = _spec(document)
    ports = ",".join(f"{one.get('port')}/{one.get('protocol')}" for one in spec.get("ports") or ()) or NONE
    chosen = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items())) or NONE
    address = spec.get("clusterIP") or NONE
    return [_name(document), spec.get("type", ""), address, NONE, ports, _age(document, now), chosen]


def _binding(document: Document, now: float) -> list[Cell]:
    role = document.get("roleRef") or {}
    found: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for one in document.get("subjects") or ():
        text = f"{one.get('namespace')}/{one['name']}" if one["kind"] == "ServiceAccount" else one["name"]
        found.setdefault(one["kind"], []).append(text)
    listed = [", ".join(found[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [_name(document), f"{role.get('kind')}/{role.get('name')}", _age(document, now), *listed]


def _data(document: Document) -> int:
    return len(document.get("data") or ()) + len(document.get("binaryData") or ())


def _created(document: Document, now: float) -> list[Cell]:
    del now
    return [_name(document), document["metadata"].get("creationTimestamp")]


def _plain(document: Document, now: float) -> list[Cell]:
    return [_name(document), _age(document, now)]


_SUBJECTS = Columns(_columns("Name", "Role", "Age", "Users+", "Groups+", "ServiceAccounts+"), _binding)
_CREATED = Columns(_columns("Name", "Created At:date"), _created)
BUILT_IN: dict[str, Columns] = {
    "": Columns(_columns("Name", "Age"), _plain),
    "Pod": Columns(
        _columns("Name", "Ready", "Status", "Restarts", "Age", "IP+", "Node+", "Nominated Node+", "Readiness Gates+"),
        _pod,
    ),
    "Node": Columns(
        _columns(
            *("Name", "Status", "Roles", "Age", "Version", "Internal-IP+", "External-IP+", "OS-Image+"),
            *("Kernel-Version+", "Container-Runtime+"),
        ),
        _node,
    ),
    "Namespace": Columns(
        _columns("Name", "Status", "Age"),
        lambda document, now: [_name(document), _status(document).get("phase", ""), _age(document, now)],
    ),
    "Event": Columns(
        _columns(
            *(
                "Last Seen",
                "Type",
                "Reason",
                "Object",
                "Subobject+",
                "Source+",
                "Message",
                "First Seen+",
                "Count+",
                "Name+",
            )
        ),
        _event,
    ),
    "Lease": Columns(
        _columns("Name", "Holder", "Age"),
        lambda document, now: [_name(document), _spec(document).get("holderIdentity") or "", _age(document, now)],
    ),
    "Job": Columns(
        _columns("Name", "Status", "Completions", "Duration", "Age", "Containers+", "Images+", "Selector+"), _job
    ),
    "StatefulSet": Columns(_columns("Name", "Ready", "Age", "Containers+", "Images+"), _stateful_set),
    "ReplicaSet": Columns(
        _columns(
            *(
                "Name",
                "Desired:integer",
                "Current:integer",
                "Ready:integer",
                "Age",
                "Containers+",
                "Images+",
                "Selector+",
            )
        ),
        _replica_set,
    ),
    "Deployment": Columns(
        _columns("Name", "Ready", "Up-to-date", "Available", "Age", "Containers+", "Images+", "Selector+"), _deployment
    ),
    "PriorityClass": Columns(
        _columns("Name", "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy"), _priority_class
    ),
    "PodDisruptionBudget": Columns(
        _columns("Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"), _budget
    ),
    "ConfigMap": Columns(
        _columns("Name", "Data", "Age"), lambda document, now: [_name(document), _data(document), _age(document, now)]
    ),
    "Secret": Columns(
        _columns("Name", "Type", "Data", "Age"),
        lambda document, now: [_name(document), document.get("type", ""), _data(document), _age(document, now)],
    ),
    "Service": Columns(_columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector+"), _service),
    "CustomResourceDefinition": _CREATED,
    "Role": _CREATED,
    "ClusterRole": _CREATED,
    "RoleBinding": _SUBJECTS,
    "ClusterRoleBinding": _SUBJECTS,
    "ValidatingWebhookConfiguration": Columns(
        _columns("Name", "Webhooks:integer", "Age"),
        lambda document, now: [_name(document), len(document.get("webhooks") or ()), _age(document, now)],
    ),
}
