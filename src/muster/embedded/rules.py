"""What the real server refuses of built-in kinds, as far as anybody here could run into it."""

import re
from collections.abc import Callable
from typing import Any

from muster.embedded.exchange import denied, duplicate, required, shown, too_long, unsupported, wrong
from muster.embedded.naming import IMMUTABLE, LABEL_SAID, SUBDOMAIN_SAID, is_label, is_subdomain, label_causes
from muster.embedded.nodes import node_causes
from muster.embedded.objects import same_value
from muster.embedded.occurrences import event_causes
from muster.embedded.quantities import amount
from muster.embedded.refusals import Cause
from muster.embedded.selectors import selector
from muster.embedded.structure import definition_causes

Document = dict[str, Any]
Check = Callable[[Document, Document | None], list[Cause]]
# Of one owner.
MOST_PODS = 10_000
SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
_POLICIES = ("Always", "OnFailure", "Never")
_NATIVE = ("cpu", "memory", "ephemeral-storage")


def causes(kind: str, new: Document, old: Document | None, group: str = "") -> list[Cause]:
    """What is wrong with a document of a built-in kind, apart from its metadata; `old` is what it would replace."""
    if kind == "Event":
        return event_causes(new, old, group)
    check = _BY_KIND.get(kind)
    return check(new, old) if check else []


def pod_spec_causes(spec: Document, path: str, policies: tuple[str, ...]) -> list[Cause]:
    """What is wrong with a pod, or the pod in a template."""
    found: list[Cause] = []
    volumes: set[str] = set()
    for row, volume in enumerate(spec.get("volumes") or ()):
        found += _named(volume, f"{path}.volumes[{row}].name", volumes)
    if not spec.get("containers"):
        found.append(required(f"{path}.containers"))
    taken: set[str] = set()
    for field in ("containers", "initContainers"):
        for row, container in enumerate(spec.get(field) or ()):
            found += _container_causes(container, f"{path}.{field}[{row}]", taken, volumes)
    if spec.get("restartPolicy") not in policies:
        found.append(unsupported(f"{path}.restartPolicy", spec.get("restartPolicy"), policies))
    found += label_causes(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    node = spec.get("nodeName")
    if node and not is_subdomain(node):
        found.append(wrong(f"{path}.nodeName", node, SUBDOMAIN_SAID))
    gates: set[str] = set()
    for row, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") in gates:
            found.append(duplicate(f"{path}.schedulingGates[{row}]", gate.get("name")))
        gates.add(gate.get("name") or "")
    return found + _toleration_causes(spec, path) + _deadline_causes(spec, path)


_LONGEST = 2**31 - 1


def _deadline_causes(spec: Document, path: str) -> list[Cause]:
    value = spec.get("activeDeadlineSeconds")
    if value is None or 1 <= value <= _LONGEST:
        return []
    return [wrong(f"{path}.activeDeadlineSeconds", value, f"must be between 1 and {_LONGEST}, inclusive")]


def _deadline_change(spec: Document, before: Document) -> list[Cause]:
    """The deadline of a pod may come, and come nearer."""
    path, value, had = (
        "spec.activeDeadlineSeconds",
        spec.get("activeDeadlineSeconds"),
        before.get("activeDeadlineSeconds"),
    )
    if value is None and had is not None:
        return [wrong(path, None, "must not update from a positive integer to nil value")]
    if value is not None and had is not None and value > had:
        return [wrong(path, value, "must be less than or equal to previous value")]
    return _deadline_causes(spec, "spec")


def _named(one: Document, path: str, taken: set[str]) -> list[Cause]:
    """What is wrong with the name of a part; names are taken once."""
    name = one.get("name") or ""
    if not name:
        return [required(path)]
    if not is_label(name):
        return [wrong(path, name, LABEL_SAID)]
    if name in taken:
        return [duplicate(path, name)]
    taken.add(name)
    return []


def _toleration_causes(spec: Document, path: str) -> list[Cause]:
    found = []
    for row, one in enumerate(spec.get("tolerations") or ()):
        place = f"{path}.tolerations[{row}].operator"
        how = one.get("operator") or ""
        if not one.get("key") and how != "Exists":
            said = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            found.append(wrong(place, how, said))
        if how == "Exists" and one.get("value"):
            found.append(wrong(place, one["value"], "value must be empty when `operator` is 'Exists'"))
    return found


def _container_causes(container: Document, path: str, taken: set[str], volumes: set[str]) -> list[Cause]:
    found = _named(container, f"{path}.name", taken)
    if not container.get("image"):
        found.append(required(f"{path}.image"))
    for row, mount in enumerate(container.get("volumeMounts") or ()):
        if mount.get("name") not in volumes:
            place = f"{path}.volumeMounts[{row}].name"
            found.append(Cause("FieldValueNotFound", f"Not found: {shown(mount.get('name'))}", place))
    return found + _resource_causes(container.get("resources") or {}, f"{path}.resources")


def _resource_causes(resources: Document, path: str) -> list[Cause]:
    found = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, text in sorted(amounts.items()):
            found += _amount_causes(f"{path}.{field}[{name}]", name, str(text))
    for name, text in sorted(requests.items()):
        if name not in limits:
            if "/" in name:
                found.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
            continue
        value, most = amount(str(text)), amount(str(limits[name]))
        if value is None or most is None:
            continue
        if "/" in name and value != most:
            found.append(wrong(f"{path}.requests", text, f"must be equal to {name} limit of {limits[name]}"))
        elif value > most:
            said = f"must be less than or equal to {name} limit of {limits[name]}"
            found.append(wrong(f"{path}.requests", text, said))
    return found


def _amount_causes(path: str, name: str, text: str) -> list[Cause]:
    if "/" not in name and name not in _NATIVE and not name.startswith("hugepages-"):
        words = ("must be a standard resource type or fully qualified", "must be a standard resource for containers")
        return [wrong(path, name, said) for said in words]
    value = amount(text)
    if value is not None and value < 0:
        return [wrong(path, text, "must be greater than or equal to 0")]
    if value is not None and "/" in name and value.denominator != 1:
        return [wrong(path, text, "must be an integer")]
    return []


_CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)


def _pod(new: Document, old: Document | None) -> list[Cause]:
    spec = new.get("spec") or {}
    if old is not None:
        return _pod_update(spec, old.get("spec") or {})
    found = pod_spec_causes(spec, "spec", _POLICIES)
    if spec.get("nodeName") and spec.get("schedulingGates"):
        found.append(denied("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return found


def _pod_update(spec: Document, before: Document) -> list[Cause]:
    found: list[Cause] = []
    for field in ("containers", "initContainers"):
        if len(spec.get(field) or ()) != len(before.get(field) or ()):
            return [denied(f"spec.{field}", "pod updates may not add or remove containers")]
    gates = [one.get("name") for one in before.get("schedulingGates") or ()]
    for row, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") not in gates:
            said = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            found.append(denied(f"spec.schedulingGates[{row}].name", said))
    for row, container in enumerate(spec.get("containers") or ()):
        if not container.get("image"):
            found.append(required(f"spec.containers[{row}].image"))
    if any(one not in (spec.get("tolerations") or ()) for one in before.get("tolerations") or ()):
        said = "existing toleration can not be modified except its tolerationSeconds"
        found.append(denied("spec.tolerations", said))
    found += _deadline_change(spec, before)
    free = {"tolerations", "activeDeadlineSeconds", "schedulingGates"}
    if gates:
        free |= {"nodeSelector", "affinity"}
        wanted, had = spec.get("nodeSelector") or {}, before.get("nodeSelector") or {}
        if any(wanted.get(key) != value for key, value in had.items()):
            said = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            found.append(wrong("spec.nodeSelector", wanted, said))
    if not found and not same_value(_fixed(spec, free), _fixed(before, free)):
        found.append(denied("spec", _CHANGEABLE))
    return found


def _fixed(spec: Document, free: set[str]) -> Document:
    found = {key: value for key, value in spec.items() if key not in free}
    for field in ("containers", "initContainers"):
        if found.get(field):
            found[field] = [{**one, "image": ""} for one in found[field]]
    return found


def _template_causes(spec: Document, policies: tuple[str, ...]) -> list[Cause]:
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    found = label_causes(labels, "spec.template.labels")
    return found + pod_spec_causes(template.get("spec") or {}, "spec.template.spec", policies)


def _selected(spec: Document, kind: str) -> list[Cause]:
    wanted = spec.get("selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if wanted is None:
        missing = [required("spec.selector")]
        said = "`selector` does not match template `labels`"
        return [*missing, wrong("spec.template.metadata.labels", labels, said)] if labels or kind else missing
    if not wanted.get("matchLabels") and not wanted.get("matchExpressions"):
        return [wrong("spec.selector", wanted, f"empty selector is invalid for {kind}")]
    if not selector(wanted)({"metadata": {"labels": labels}}):
        return [wrong("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")]
    return []


def _not_negative(spec: Document, *names: str) -> list[Cause]:
    said = "must be greater than or equal to 0"
    asked = {name: spec.get(name) for name in names}
    return [wrong(f"spec.{name}", one, said) for name, one in asked.items() if isinstance(one, int) and one < 0]


def _too_many(spec: Document, old: Document | None, name: str) -> list[Cause]:
    """More pods than the controllers of this server make of one owner; what was more before may stay so."""
    asked, before = spec.get(name), ((old or {}).get("spec") or {}).get(name)
    if not isinstance(asked, int) or asked <= MOST_PODS or asked == before:
        return []
    return [wrong(f"spec.{name}", asked, f"must be less than or equal to {MOST_PODS}: this server makes no more pods")]


def _job_selector_causes(job: Document) -> list[Cause]:
    """What is wrong with the selector of a new Job, which is its own unless somebody else sees to it."""
    spec, uid = job["spec"], job["metadata"].get("uid")
    wanted, labels = spec.get("selector"), ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    found = [] if wanted is not None else [required("spec.selector")]
    if not spec.get("manualSelector") and wanted != {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}:
        found.append(wrong("spec.selector", wanted, "`selector` not auto-generated"))
    if wanted is None or not selector(wanted)({"metadata": {"labels": labels}}):
        said = "`selector` does not match template `labels`"
        found.append(wrong("spec.template.metadata.labels", dict(sorted(labels.items())), said))
    return found


def _job(new: Document, old: Document | None) -> list[Cause]:
    spec = new.get("spec") or {}
    found = _not_negative(spec, "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit")
    found += _not_negative(spec, "ttlSecondsAfterFinished") + _too_many(spec, old, "parallelism")
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        found.append(required("spec.completions", "when completion mode is Indexed"))
    pod = (spec.get("template") or {}).get("spec") or {}
    if old is None:
        found += _job_selector_causes(new)
        if pod.get("restartPolicy") in (None, "", "Always"):
            found += _template_causes(spec, ("Always", "OnFailure", "Never"))
            found.append(required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
        else:
            found += _template_causes(spec, ("OnFailure", "Never"))
        return found
    before = old.get("spec") or {}
    fixed = ["completions", "selector", "template", "completionMode"]
    if spec.get("completionMode") == "Indexed" and spec.get("completions") in (None, spec.get("parallelism")):
        fixed.remove("completions")
    if before.get("suspend") and not (old.get("status") or {}).get("startTime"):
        fixed.remove("template")
    for name in fixed:
        if not same_value(spec.get(name), before.get(name)):
            found.append(wrong(f"spec.{name}", spec.get(name), IMMUTABLE))
    return found


_SET_FREE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_SET_FIELDS = frozenset(re.findall("'([A-Za-z]+)'", _SET_FREE))


def _stateful_set(new: Document, old: Document | None) -> list[Cause]:
    spec = new.get("spec") or {}
    found = _not_negative(spec, "replicas", "minReadySeconds") + _too_many(spec, old, "replicas")
    found += _selected(spec, "statefulset") + _template_causes(spec, ("Always",))
    if old is not None:
        before = old.get("spec") or {}
        one, other = ({key: value for key, value in each.items() if key not in _SET_FIELDS} for each in (spec, before))
        if not same_value(one, other):
            found.append(denied("spec", _SET_FREE))
    return found


def _deployment(new: Document, old: Document | None) -> list[Cause]:
    spec = new.get("spec") or {}
    found = _not_negative(spec, "replicas", "minReadySeconds")
    found += _selected(spec, new.get("kind", "").lower()) + _template_causes(spec, ("Always",))
    if old is not None and not same_value(spec.get("selector"), (old.get("spec") or {}).get("selector")):
        found.append(wrong("spec.selector", spec.get("selector"), IMMUTABLE))
    return found


_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def _is_over_all(digits: str) -> bool:
    return len(digits) > 3 or int(digits or 0) > 100


def _selector_causes(spec: Document) -> list[Cause]:
    """What is wrong with the expressions of a selector."""
    found = []
    for row, one in enumerate((spec.get("selector") or {}).get("matchExpressions") or ()):
        place, how = f"spec.selector.matchExpressions[{row}]", one.get("operator") or ""
        if how not in ("In", "NotIn", "Exists", "DoesNotExist"):
            found.append(wrong(f"{place}.operator", how, "not a valid selector operator"))
        elif how in ("In", "NotIn") and not one.get("values"):
            found.append(required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif how not in ("In", "NotIn") and one.get("values"):
            said = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(denied(f"{place}.values", said))
    return found


def _budget(new: Document, old: Document | None) -> list[Cause]:
    del old
    spec = new.get("spec") or {}
    found = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        said = "minAvailable and maxUnavailable cannot be both set"
        found.append(Cause("FieldValueInvalid", f"Invalid value: {shown(spec)}: {said}", "spec"))
    for name in ("minAvailable", "maxUnavailable"):
        value = spec.get(name)
        if isinstance(value, int) and value < 0:
            found.append(wrong(f"spec.{name}", value, "must be greater than or equal to 0"))
        if isinstance(value, str) and not re.fullmatch("[0-9]+%", value):
            found.append(wrong(f"spec.{name}", value, _PERCENT))
        elif isinstance(value, str) and _is_over_all(value[:-1].lstrip("0")):
            found.append(wrong(f"spec.{name}", value, "must not be greater than 100%"))
    return found + _selector_causes(spec)


def _priority_class(new: Document, old: Document | None) -> list[Cause]:
    value = new.get("value") or 0
    name = (new.get("metadata") or {}).get("name") or ""
    if old is not None:
        found = [] if value == (old.get("value") or 0) else [denied("value", "may not be changed in an update.")]
        if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
            found.append(wrong("preemptionPolicy", new.get("preemptionPolicy"), IMMUTABLE))
        return found
    if name.startswith("system-"):
        why = _not_of_the_system(name, new)
        said = "priority class names with 'system-' prefix are reserved for system use only. error: "
        return [denied("metadata.name", f"{said}{why}")] if why else []
    if value > 1_000_000_000:
        return [denied("value", "maximum allowed value of a user defined priority is 1000000000")]
    return []


def _not_of_the_system(name: str, new: Document) -> str:
    """Why a PriorityClass is none of the two that every cluster has; nothing when it is one."""
    if name not in SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    if new.get("value") != SYSTEM_PRIORITIES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if new.get("globalDefault") else ""


def _lease(new: Document, old: Document | None) -> list[Cause]:
    del old
    spec = new.get("spec") or {}
    found = []
    if isinstance(spec.get("leaseDurationSeconds"), int) and spec["leaseDurationSeconds"] <= 0:
        found.append(wrong("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"))
    return found + _not_negative(spec, "leaseTransitions")


def _role_binding(new: Document, old: Document | None) -> list[Cause]:
    if old is not None and not same_value(new.get("roleRef"), old.get("roleRef")):
        return [wrong("roleRef", new.get("roleRef"), "cannot change roleRef")]
    return []


_KEY = "[-._a-zA-Z0-9]+"
_KEY_SAID = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    f"'key-name', regex used for validation is '{_KEY}')"
)
_MOST_DATA = 1024 * 1024


def _key_causes(data: Document, field: str) -> list[Cause]:
    return [wrong(f"{field}[{key}]", key, _KEY_SAID) for key in sorted(data) if not re.fullmatch(_KEY, key)]


def _secret(new: Document, old: Document | None) -> list[Cause]:
    del old
    data = new.get("data") or {}
    found = _key_causes(data, "data")
    if sum(len(value) * 3 // 4 for value in data.values()) > _MOST_DATA:
        found.append(too_long("data", _MOST_DATA))
    return found


def _config_map(new: Document, old: Document | None) -> list[Cause]:
    data, binary = new.get("data") or {}, new.get("binaryData") or {}
    found = _key_causes(data, "data") + _key_causes(binary, "binaryData")
    if sum(len(one.encode()) for one in data.values()) + sum(len(one) * 3 // 4 for one in binary.values()) > _MOST_DATA:
        found.append(too_long("[]", _MOST_DATA))
    return found + _fixed_causes(new, old)


def _fixed_causes(new: Document, old: Document | None) -> list[Cause]:
    if old is not None and old.get("immutable"):
        said = "field is immutable when `immutable` is set"
        if not new.get("immutable"):
            return [denied("immutable", said)]
        if not same_value(new.get("data"), old.get("data")):
            return [denied("data", said)]
    return []


def _definition(new: Document, old: Document | None) -> list[Cause]:
    spec = new.get("spec") or {}
    names, name = spec.get("names") or {}, (new.get("metadata") or {}).get("name")
    found = []
    if name != f"{names.get('plural')}.{spec.get('group')}":
        found.append(wrong("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        found.append(unsupported("spec.scope", spec.get("scope") or "", ("Cluster", "Namespaced")))
    storing = [one for one in spec.get("versions") or () if one.get("storage")]
    if len(storing) != 1:
        said = "must have exactly one version marked as storage version"
        found.append(wrong("spec.versions", spec.get("versions"), said))
    found += [required(f"spec.names.{field}") for field in ("plural", "kind") if not names.get(field)]
    found += definition_causes(spec)
    for field in ("scope", "group") if old is not None else ():
        if spec.get(field) != ((old or {}).get("spec") or {}).get(field):
            found.append(wrong(f"spec.{field}", spec.get(field), IMMUTABLE))
    if old is not None and names.get("kind") != ((old.get("spec") or {}).get("names") or {}).get("kind"):
        found.append(wrong("spec.names.kind", names.get("kind"), IMMUTABLE))
    return found


_BY_KIND: dict[str, Check] = {
    "Pod": _pod,
    "Node": node_causes,
    "Job": _job,
    "StatefulSet": _stateful_set,
    "Deployment": _deployment,
    "ReplicaSet": _deployment,
    "PodDisruptionBudget": _budget,
    "PriorityClass": _priority_class,
    "Lease": _lease,
    "RoleBinding": _role_binding,
    "ClusterRoleBinding": _role_binding,
    "ConfigMap": _config_map,
    "Secret": _secret,
    "CustomResourceDefinition": _definition,
}
