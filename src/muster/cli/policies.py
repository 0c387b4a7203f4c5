"""What RBAC has no words for, as admission policies that the API server itself applies.

Two say what muster may change of an object that it may patch: RBAC can't tell a label from a container. One protects
admission marks, and the membership of bound pods, from all others. `serve/webhook/guarding.py` says the same for the
embedded server.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from muster.api.cluster import ADMITTED_ANNOTATION, DISRUPTION_TARGET, POD_GROUP_ANNOTATION, SUBGROUP_LABEL
from muster.api.podgroup import GROUPER_ANNOTATION, KEPT_ROOM_ANNOTATION
from muster.cli.roles import ADMISSION
from muster.kube.events import CONTROLLER
from muster.snapshot.world import DEFAULT_SCHEDULERS

Document = dict[str, Any]

PODS_POLICY, GANGS_POLICY, EVENTS_POLICY, MARKS_POLICY = (
    *("muster-pods", "muster-podgroups", "muster-events"),
    "muster-admitted",
)
DELETIONS_POLICY = "muster-deletions"
# Labels and annotations under these, and the one that names the gang of a pod, are muster's to write.
_OURS = ("kai.scheduler/", "muster.dev/")
# Of the status of a pod.
_CONDITIONS = ("PodScheduled", "muster.dev/Accepted", DISRUPTION_TARGET)


def guards(user: str) -> list[Document]:
    """What muster, who is `user` to the API server, may change of pods, PodGroups and events."""
    return [
        *_policy(PODS_POLICY, [("", "v1", ["pods", "pods/status"], ["UPDATE"])], _is(user), _OF_PODS, _VARIABLES),
        *_policy(
            GANGS_POLICY,
            [("scheduling.run.ai", "v2alpha2", ["podgroups"], ["UPDATE", "DELETE"])],
            _is(user),
            _OF_GANGS,
            _VARIABLES,
        ),
        *_policy(EVENTS_POLICY, [("events.k8s.io", "v1", ["events"], ["CREATE", "UPDATE"])], _is(user), _OF_EVENTS),
    ]


def deletions(user: str, schedulers: Iterable[str] | str = DEFAULT_SCHEDULERS) -> list[Document]:
    """Which pods muster may delete, where it may delete any: those of its schedulers that it has admitted."""
    return _policy(
        DELETIONS_POLICY,
        [("", "v1", ["pods"], ["DELETE"])],
        _is(user),
        [
            (
                "oldObject.spec.schedulerName in variables.schedulers && "
                f"'{ADMITTED_ANNOTATION}' in variables.wasannotations",
                "muster may delete pods of its own schedulers that it has bound (annotation "
                f"{ADMITTED_ANNOTATION}), and no others",
            )
        ],
        [_VARIABLES[-1], ("schedulers", _listed(schedulers))],
    )


def protection(user: str, schedulers: Iterable[str] | str = DEFAULT_SCHEDULERS) -> list[Document]:
    """What all but muster may not change: admission marks, and which gang a bound pod of these schedulers is of.

    `schedulers` as a text is a template that gives a list.
    """
    pods = ["pods", "pods/status", "pods/ephemeralcontainers", "pods/resize"]
    rules = [("", "v1", pods, ["CREATE", "UPDATE"]), ("", "v1", ["pods/binding", "bindings"], ["CREATE"])]
    mark = f"annotations['{ADMITTED_ANNOTATION}']"
    bound = "oldObject != null && has(oldObject.spec) && has(oldObject.spec.nodeName) && oldObject.spec.nodeName != ''"
    ours = "has(oldObject.spec.schedulerName) && oldObject.spec.schedulerName in variables.schedulers"
    member = _unchanged("annotations", POD_GROUP_ANNOTATION), _unchanged("labels", SUBGROUP_LABEL)
    only = f"only {user} may"
    validations = [
        (_unchanged("annotations", ADMITTED_ANNOTATION), f"{only} set or change metadata.{mark}: leave it out"),
        (
            f"!(({bound}) && (({ours}) || '{ADMITTED_ANNOTATION}' in variables.wasannotations)) || "
            f"({member[0]} && {member[1]})",
            f"{only} change the annotation {POD_GROUP_ANNOTATION} and the label {SUBGROUP_LABEL} of a bound pod: "
            "delete the pod, and create another one",
        ),
    ]
    return _policy(
        MARKS_POLICY,
        rules,
        f"request.userInfo.username != '{user}'",
        validations,
        [*_VARIABLES, ("schedulers", _listed(schedulers))],
    )


def _listed(schedulers: Iterable[str] | str) -> str:
    return schedulers if isinstance(schedulers, str) else msgspec.json.encode(list(schedulers)).decode()


def _is(user: str) -> str:
    return f"request.userInfo.username == '{user}'"


def _unchanged(part: str, key: str) -> str:
    """One label or annotation is what it was, also when there was none."""
    now, was = f"variables.{part}", f"variables.was{part}"
    return f"('{key}' in {now} ? '{key}' in {was} && {now}['{key}'] == {was}['{key}'] : !('{key}' in {was}))"


def _none(of: str) -> str:
    return f"has({of}) ? {of} : {{}}"


_VARIABLES = [
    ("labels", _none("object.metadata.labels")),
    ("annotations", _none("object.metadata.annotations")),
    ("waslabels", "oldObject != null && has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}"),
    (
        "wasannotations",
        "oldObject != null && has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}",
    ),
]


def _only(now: str, was: str, allowed: str) -> tuple[str, str]:
    """A map has changed only at keys `k` that are allowed: what came or changed, and what went.

    Each is an expression by itself, and asks first whether anything is another: an API server ends one that costs too
    much, and a pod may have very many annotations.
    """
    return (
        f"({now} == {was} || {now}.all(k, (k in {was} && {was}[k] == {now}[k]) || {allowed}))",
        f"({now} == {was} || {was}.all(k, k in {now} || {allowed}))",
    )


_IS_OURS = " || ".join([*(f"k.startsWith('{prefix}')" for prefix in _OURS), f"k == '{POD_GROUP_ANNOTATION}'"])
_NAMED = (
    "muster may only change labels and annotations under kai.scheduler/ and muster.dev/, and the annotation "
    f"{POD_GROUP_ANNOTATION}"
)
_MARKS = [
    (expression, _NAMED)
    for of in ("labels", "annotations")
    for expression in _only(f"variables.{of}", f"variables.was{of}", f"({_IS_OURS})")
]


def _same_list(path: str) -> str:
    return f"(has(object.{path}) ? object.{path} : []) == (has(oldObject.{path}) ? oldObject.{path} : [])"


def _foreign_conditions(of: str) -> str:
    listed = ", ".join(f"'{one}'" for one in _CONDITIONS)
    return f"(has({of}.status.conditions) ? {of}.status.conditions.filter(c, !(c.type in [{listed}])) : [])"


_STATUS, _WAS_STATUS = (f"(has({of}.status) ? dyn({of}.status) : {{}})" for of in ("object", "oldObject"))
_OWNERS = ("metadata.ownerReferences", "muster may not change who owns an object")
_FINALIZERS = (_same_list("metadata.finalizers"), "muster may not change finalizers")

_WRITTEN_STATUS = " && ".join(_only(_STATUS, _WAS_STATUS, "k in ['conditions', 'nominatedNodeName']"))
_ONLY_KEPT_ROOM = " && ".join(
    _only("variables.annotations", "variables.wasannotations", f"k == '{KEPT_ROOM_ANNOTATION}'")
)

_OF_PODS = [
    ("object.spec == oldObject.spec", "muster may label and annotate pods, and never change what they run"),
    *_MARKS,
    (_same_list(_OWNERS[0]), _OWNERS[1]),
    _FINALIZERS,
    (
        f"{_WRITTEN_STATUS} && {_foreign_conditions('object')} == {_foreign_conditions('oldObject')}",
        f"muster may only change nominatedNodeName and the conditions {', '.join(_CONDITIONS)} of a pod's status",
    ),
]
# A PodGroup that muster did not derive from a workload is its author's.
_MADE = f"'{GROUPER_ANNOTATION}' in variables.wasannotations"
_ON_UPDATE_OF_GANGS = [
    (
        f"{_MADE} || (object.spec == oldObject.spec && variables.labels == variables.waslabels && {_ONLY_KEPT_ROOM})",
        "muster may not change a PodGroup that it did not make",
    ),
    (f"({_MADE} && !has(oldObject.metadata.ownerReferences)) || {_same_list(_OWNERS[0])}", _OWNERS[1]),
    _FINALIZERS,
]
_OF_GANGS = [
    (f"object != null || {_MADE}", "muster may delete PodGroups that it made, and no others"),
    *((f"object == null || ({expression})", message) for expression, message in _ON_UPDATE_OF_GANGS),
]
_OF_EVENTS = [
    (
        f"object.reportingController == '{CONTROLLER}' && "
        f"(oldObject == null || oldObject.reportingController == '{CONTROLLER}')",
        "muster may write its own events, and no others",
    )
]


def _policy(
    name: str,
    rules: list[tuple[str, str, list[str], list[str]]],
    condition: str,
    validations: list[tuple[str, str]],
    variables: list[tuple[str, str]] | None = None,
) -> list[Document]:
    resources = [
        {"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": plurals}
        for group, version, plurals, operations in rules
    ]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": resources},
        "matchConditions": [{"name": "who", "expression": condition}],
        **({"variables": [{"name": one, "expression": text} for one, text in variables]} if variables else {}),
        "validations": [{"expression": text, "message": message} for text, message in validations],
    }
    bound = {"policyName": name, "validationActions": ["Deny"]}
    version, metadata = f"{ADMISSION}/v1", {"name": name}
    return [
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec},
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": bound},
    ]
