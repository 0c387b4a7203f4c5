"""What `muster doctor` looks at, as functions: objects of a cluster in, findings out. Nothing is asked for here."""

import base64
import binascii
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from cryptography import x509

from muster.api.cluster import POD_GROUP_ANNOTATION
from muster.api.kinds import OUR_KINDS, POD_GROUP, QUEUE, RESOURCE_INTERFACE, TOPOLOGY, Kind
from muster.api.validation import ERROR
from muster.cli.judging import Checked, name_of, plural
from muster.config import Config
from muster.errors import DEFECT
from muster.grouping.owners import ANY_VERSION
from muster.model.reasons import Code
from muster.snapshot.queues import (
    Standing,
)

OK, WARN, FAIL = "ok", "warn", "fail"
_MOST_NAMES = 3
_EXPIRES_SOON = timedelta(days=14)
_OUR_GROUPS = frozenset(kind.group for kind in OUR_KINDS)
_INSTALL = "muster crds | kubectl apply --server-side -f -"
# Other schedulers by the group of a CRD that only they have, and what it means that they are here.
_OTHERS = {
    "schedulingshards.kai.scheduler": ("KAI", "it takes pods of the same schedulerName: let only one of them run"),
    "bindrequests.scheduling.run.ai": ("KAI", "it takes pods of the same schedulerName: let only one of them run"),
    "podgroups.scheduling.volcano.sh": ("Volcano", ""),
    "workloads.kueue.x-k8s.io": ("Kueue", ""),
}
_SCHEDULER_NAME = re.compile(r"--?scheduler-name[= ]+(\S+)")

Document = Mapping[str, Any]


class Finding(NamedTuple):
    """One thing that was looked at: how it is, and how to mend it."""

    check: str
    state: str
    message: str
    hint: str = ""


def named(names: Iterable[str], noun: str) -> str:
    """`3 nodes (a, b and 1 more)`."""
    found = sorted(names)
    rest = f" and {len(found) - _MOST_NAMES:,} more" if len(found) > _MOST_NAMES else ""
    return f"{plural(len(found), noun)} ({', '.join(found[:_MOST_NAMES])}{rest})"


def part(document: Any, *path: str) -> Any:
    """A value inside a document; an empty dict where there is none on the way."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return {} if document is None else document


def full_name(document: Any) -> str:
    """`namespace/name` of an object."""
    name, namespace = name_of(document)
    return f"{namespace}/{name}"


# Definitions


def check_definition(shipped: Document, installed: Document | None) -> Finding:
    """One of our CRDs, beside the one that this muster ships."""
    name, version = shipped["metadata"]["name"], shipped["spec"]["versions"][0]
    check = f"crd {name}"
    if installed is None:
        return Finding(check, FAIL, "not installed", _INSTALL)
    conditions = {one.get("type"): one.get("status") for one in part(installed, "status", "conditions") or ()}
    if conditions.get("Established") != "True":
        return Finding(check, FAIL, "not established: the API server does not serve it", f"kubectl describe crd {name}")
    versions = {one.get("name"): one for one in part(installed, "spec", "versions") or ()}
    served = versions.get(version["name"])
    if served is None or not served.get("served"):
        others = ", ".join(sorted(map(str, versions)))
        return Finding(check, FAIL, f"has no version {version['name']}, only {others}", _INSTALL)
    path = ("schema", "openAPIV3Schema")
    lacking = sorted(_fields(part(version, *path)) - _fields(part(served, *path)))
    if lacking:
        fields = [field for field in lacking if not any(field.startswith(f"{one}.") for one in lacking)]
        says = (
            f"older than this muster, or somebody else's: lacks {named(fields, 'field')}, which are lost when written"
        )
        return Finding(check, FAIL, says, _INSTALL)
    if "status" in part(version, "subresources") and "status" not in part(served, "subresources"):
        return Finding(check, FAIL, "has no subresource status: nothing can be said there", _INSTALL)
    return Finding(check, OK, f"{version['name']}, with all fields of this muster")


def _fields(schema: Any, path: str = "") -> frozenset[str]:
    """The paths of all fields of a schema."""
    if not isinstance(schema, dict):
        return frozenset()
    found: set[str] = set()
    for name, below in part(schema, "properties").items():
        here = f"{path}.{name}".lstrip(".")
        found |= {here, *_fields(below, here)}
    for inside in (schema.get("items"), schema.get("additionalProperties")):
        found |= _fields(inside, f"{path}[]") if isinstance(inside, dict) else frozenset()
    return frozenset(found)


# Nodes and topologies


def check_nodes(nodes: Sequence[Document]) -> Iterator[Finding]:
    """There are nodes, and they have something to give."""
    if not nodes:
        yield Finding("nodes", FAIL, "there is no node", "nothing can be placed until one joins")
        return
    empty = [name_of(node)[0] for node in nodes if not part(node, "status", "allocatable")]
    if empty:
        hint = "their kubelets have not reported yet: kubectl describe node"
        yield Finding("nodes", WARN, f"{named(empty, 'node')} without allocatable", hint)
    away = [name_of(node)[0] for node in nodes if not _is_ready(node)]
    if away:
        yield Finding("nodes", WARN, f"{named(away, 'node')} not ready: they take nobody", "kubectl describe node")
    if not empty and not away:
        yield Finding("nodes", OK, f"{plural(len(nodes), 'node')}, all ready")


def _is_ready(node: Document) -> bool:
    conditions = part(node, "status", "conditions") or ()
    return all(one.get("status") == "True" for one in conditions if one.get("type") == "Ready")


def check_topology(topology: Document, nodes: Sequence[Document]) -> Finding:
    """Whether the nodes carry the labels of the levels."""
    check = f"topology {name_of(topology)[0]}"
    levels = [
        str(level.get("nodeLabel")) for level in part(topology, "spec", "levels") or () if isinstance(level, dict)
    ]
    bare = {
        label: [name_of(node)[0] for node in nodes if label not in part(node, "metadata", "labels")] for label in levels
    }
    lacking = {label: names for label, names in bare.items() if names}
    if not lacking or not nodes:
        return Finding(check, OK, f"{plural(len(levels), 'level')}, every node has its labels")
    says = "; ".join(f"{label} is missing on {named(names, 'node')}" for label, names in lacking.items())
    none = any(len(names) == len(nodes) for names in lacking.values())
    example = next(iter(lacking))
    hint = f"kubectl label node {lacking[example][0]} {example}=…; gangs that require the level never use such a node"
    return Finding(check, FAIL if none else WARN, says, hint)


# Our own objects

_CHECKS = {POD_GROUP: "podgroups", TOPOLOGY: "topologies", RESOURCE_INTERFACE: "interfaces", QUEUE: "queues"}


def check_objects(checked: Sequence[Checked], kinds: Collection[Kind], config: Config) -> Iterator[Finding]:
    """PodGroups, Topologies, ResourceInterfaces and Queues that are wrong, of the kinds that could be read."""
    for kind, check in _CHECKS.items():
        if kind in kinds:
            yield _about(check, [one for one in checked if one.judgement.kind is kind], kind.name)
    if QUEUE in kinds:
        groups = [one for one in checked if one.judgement.kind is POD_GROUP and one.judgement.object is not None]
        yield from _check_queues([one for one in checked if one.judgement.kind is QUEUE], groups, config)


def _check_queues(queues: Sequence[Checked], groups: Sequence[Checked], config: Config) -> Iterator[Finding]:
    """Parents that are not there, gangs in queues that are no leaves, and the default queue."""
    orphans = [
        one.name
        for one in queues
        if any(v.path == "spec.parentQueue" and v.severity != ERROR for v in one.judgement.violations)
    ]
    if orphans:
        hint = "their gangs are held: create the parent, or take spec.parentQueue out"
        yield Finding("queues", FAIL, f"{named(orphans, 'queue')} below a parent that is not there", hint)
    known = {one.name: one.judgement.object for one in queues if one.judgement.object is not None}
    standing = Standing(known, {one.name: "it is invalid" for one in queues if not one.judgement.valid})
    yield from _check_leaves(standing, groups)
    if not queues:
        yield Finding("default queue", WARN, "there are no Queues: every queue name counts, without limit", _QUEUE_HINT)
    else:
        below = [name for name, one in known.items() if one.spec.parent_queue == config.default_queue]
        yield _check_default(standing, below, config.default_queue)


def _check_leaves(standing: Standing, groups: Sequence[Checked]) -> Iterator[Finding]:
    """Queues that gangs name although there are queues below."""
    inside: dict[str, list[str]] = {}
    for one in groups:
        queue = one.judgement.object.spec.queue
        problem = standing.problem_of(queue, one.namespace) if queue else None
        if problem is not None and problem.code == Code.QUEUE_NOT_LEAF:
            inside.setdefault(queue, []).append(f"{one.namespace}/{one.name}")
    for queue, gangs in sorted(inside.items()):
        says = f"{named(gangs, 'gang')} in queue {queue}, which has queues below it: they are held"
        yield Finding("queues", WARN, says, f"name a queue below {queue} in spec.queue of the PodGroup")


def _check_default(standing: Standing, below: Sequence[str], name: str) -> Finding:
    """Whether gangs can be in the queue of those that name none."""
    problem = standing.problem_of(name, "")
    if problem is None or problem.code == Code.QUEUE_FORBIDDEN:
        return Finding("default queue", OK, f"{name} is there")
    other = "set defaultQueue in the configuration to another queue"
    leaf = f"{other} (one without queues below it), or give those below another spec.parentQueue"
    said: dict[str, tuple[str, str]] = {
        Code.QUEUE_NOT_FOUND: ("is not there", _QUEUE_HINT),
        Code.QUEUE_NOT_LEAF: (f"has {named(below, 'queue')} below it, so that no gang can be in it", leaf),
        Code.QUEUE_ORPHANED: (
            f"is below {problem.detail}, which is not there",
            f"create {problem.detail}, or take spec.parentQueue out; or {other}",
        ),
        Code.QUEUE_CYCLE: (f"is in or below a cycle ({problem.detail})", f"correct spec.parentQueue; or {other}"),
    }
    says, hint = said.get(problem.code, (f"can't be used: {problem.detail}", f"correct it; or {other}"))
    return Finding("default queue", FAIL, f"{name} {says}: gangs that name no queue are held", hint)


_QUEUE_HINT = "muster manifests has one; or set defaultQueue in the configuration"


def _about(check: str, ours: Sequence[Checked], noun: str) -> Finding:
    wrong = [one for one in ours if not one.judgement.valid]
    if not wrong:
        return Finding(check, OK, f"{plural(len(ours), noun)}, all valid" if ours else f"there is no {noun}")
    first = wrong[0]
    error = next(violation for violation in first.judgement.violations if violation.severity == ERROR)
    says = f"{plural(len(wrong), noun)} of {len(ours):,} invalid: {first.title}: {error.path} {error.message}"
    kind = first.judgement.kind
    assert kind is not None
    where = f" -n {first.namespace}" if kind.namespaced else ""
    command = f"kubectl get {kind.plural}.{kind.group} {first.name}{where} -o yaml | muster validate -f -"
    return Finding(check, FAIL, says, f"{error.hint}; {command}" if error.hint else command)


# Pods


def check_pods(pods: Sequence[Document], groups: Sequence[Document] | None, config: Config) -> Iterator[Finding]:
    """Pods of ours that wait and belong to no gang, or to one that is not there."""
    ours = _waiting(pods, config)
    known = {full_name(group) for group in groups or ()}
    alone, astray = [], []
    for pod in ours:
        gang = part(pod, "metadata", "annotations").get(POD_GROUP_ANNOTATION)
        if not gang:
            alone.append(full_name(pod))
        elif groups is not None and f"{name_of(pod)[1]}/{gang}" not in known:
            astray.append(full_name(pod))
    if alone:
        hint = "muster group -A says why; the grouper of muster run gives them one"
        yield Finding("pending pods", WARN, f"{named(alone, 'pod')} of ours without a gang", hint)
    if astray:
        hint = f"create the PodGroup, or correct the annotation {POD_GROUP_ANNOTATION}"
        yield Finding("pending pods", WARN, f"{named(astray, 'pod')} of a PodGroup that is not there", hint)
    if not alone and not astray:
        yield Finding("pending pods", OK, f"{plural(len(ours), 'pod')} of ours waiting, each in a gang")


def check_left_out(objects: Iterable[Document]) -> Finding:
    """Objects that say that muster stumbles on them: PodGroups and Queues in their status, pods in a condition."""
    found = []
    for one in objects:
        conditions = part(one, "status").get("conditions") or ()
        told = (str(condition.get("message")) for condition in conditions if isinstance(condition, dict))
        if any(DEFECT in message for message in told):
            found.append(f"{one.get('kind')} {full_name(one)}")
    if not found:
        return Finding("defects", OK, "no object is left out because of a defect in muster")
    says = f"{found[0]} is left out because of a {DEFECT}"
    says += f", and {len(found) - 1:,} more" if len(found) > 1 else ""
    hint = "muster explain says which; report it with muster snapshot. Each is tried again at least every 5 minutes"
    return Finding("defects", FAIL, says, hint)


def check_strangers(pods: Sequence[Document], config: Config) -> Iterator[Finding]:
    """Pods that wait for a scheduler of which nothing can be seen: it placed nobody, and told none of them anything."""
    waiting: dict[str, list[str]] = {}
    seen = set(config.scheduler_names)
    for pod in pods:
        name = str(part(pod, "spec").get("schedulerName") or "default-scheduler")
        told = {one.get("type") for one in part(pod, "status", "conditions") or ()}
        if part(pod, "spec").get("nodeName") or "PodScheduled" in told:
            seen.add(name)
        elif part(pod, "status").get("phase") not in ("Succeeded", "Failed"):
            waiting.setdefault(name, []).append(full_name(pod))
    for name, pods_of in sorted(waiting.items()):
        if name not in seen:
            says = f"{named(pods_of, 'pod')} of scheduler {name}, which seems not to run here"
            ours = config.scheduler_names[0]
            hint = f"muster leaves them alone: if they are meant for it, set spec.schedulerName to {ours}"
            yield Finding("pending pods", WARN, says, hint)


def _waiting(pods: Sequence[Document], config: Config) -> list[Document]:
    """Pods of ours that are on no node yet."""
    return [
        pod
        for pod in pods
        if part(pod, "spec").get("schedulerName") in config.scheduler_names
        and not part(pod, "spec").get("nodeName")
        and part(pod, "status").get("phase") not in ("Succeeded", "Failed")
    ]


# Kinds that muster has to read


class Needed(NamedTuple):
    """A kind that is to be read, what for, and whether things go on without it."""

    api_version: str
    kind: str
    why: str
    optional: bool


def kinds_read(interfaces: Sequence[Document]) -> Iterator[Needed]:
    """What ResourceInterfaces are about and refer to: without it their pods wait."""
    for one in interfaces:
        references = part(one, "spec", "references") or ()
        for gvk in (part(one, "spec", "targetGVK"), *(part(reference, "gvk") for reference in references)):
            if not isinstance(gvk, dict) or not gvk:
                continue
            version = "/".join(filter(None, (str(gvk.get("group") or ""), str(gvk.get("version") or ANY_VERSION))))
            yield Needed(version, str(gvk.get("kind")), f"ResourceInterface {name_of(one)[0]} reads it", optional=False)


def kinds_waiting(pods: Sequence[Document], config: Config) -> Iterator[Needed]:
    """The kinds of owners of pods that wait."""
    for pod in _waiting(pods, config):
        for owner in part(pod, "metadata", "ownerReferences") or ():
            why = f"it owns pods that wait ({full_name(pod)})"
            yield Needed(str(owner.get("apiVersion")), str(owner.get("kind")), why, optional=True)


# Others


class Surroundings(NamedTuple):
    """What could tell of other schedulers: names of CRDs, pods, Leases; and the namespaces that are ours."""

    definitions: Iterable[str]
    pods: Sequence[Document]
    leases: Sequence[Document]
    own: Collection[str]


def check_others(around: Surroundings, config: Config, now: datetime) -> Iterator[Finding]:
    """Schedulers beside us; one that takes pods of the same schedulerName is a failure."""
    rivals = {}
    for pod in around.pods:
        said = _SCHEDULER_NAME.search(" ".join(_arguments(pod)))
        running = part(pod, "status").get("phase") == "Running" and name_of(pod)[1] not in around.own
        if said and running and said[1] in config.scheduler_names:
            rivals[f"pod {full_name(pod)}"] = said[1]
    for lease in around.leases:
        name, namespace = name_of(lease)
        held = namespace not in around.own and check_lease(lease, name, now).state == OK
        if held and name in config.scheduler_names:
            rivals[f"{part(lease, 'spec').get('holderIdentity')} with Lease {namespace}/{name}"] = name
    if rivals:
        first = min(rivals)
        says = f"{first} schedules for {rivals[first]} too"
        says += f", and {len(rivals) - 1:,} more" if len(rivals) > 1 else ""
        yield Finding("other schedulers", FAIL, says, "stop it, or set schedulerNames to another name")
    present = dict(_OTHERS[name] for name in sorted(around.definitions) if name in _OTHERS)
    for scheduler, meaning in present.items():
        state = WARN if meaning and "kai-scheduler" in config.scheduler_names else OK
        yield Finding("other schedulers", state, f"{scheduler} is installed", meaning if state == WARN else "")
    if not rivals and not present:
        yield Finding("other schedulers", OK, "none found")


def _arguments(pod: Document) -> Iterator[str]:
    for container in part(pod, "spec", "containers") or ():
        for field in ("command", "args"):
            yield from map(str, part(container, field) or ())


# Webhook and lease


def ours_of(configurations: Sequence[Document]) -> list[Document]:
    """The webhooks that are asked about our kinds, of all configurations; each knows whose it is."""
    return [
        {**webhook, "configuration": name_of(one)[0]}
        for one in configurations
        for webhook in part(one, "webhooks") or ()
        if any(_OUR_GROUPS & set(rule.get("apiGroups") or ()) for rule in webhook.get("rules") or ())
    ]


def check_webhook(webhook: Document, ready: int | None, now: datetime) -> Iterator[Finding]:
    """One webhook of ours: its authority, and who answers. `ready` endpoints; None: not known."""
    check = f"webhook {webhook['configuration']}/{webhook.get('name')}"
    service = part(webhook, "clientConfig", "service")
    trouble = _authority(str(part(webhook, "clientConfig").get("caBundle") or ""), now)
    if trouble is not None:
        state, says = trouble
        yield Finding(check, state, says, "muster run renews its own; with cert-manager: look at its Certificate")
    if service and ready == 0:
        blocks = webhook.get("failurePolicy", "Fail") == "Fail"
        where = f"{service.get('namespace')}/{service.get('name')}"
        says = f"nobody answers: Service {where} has no ready endpoint" + ("; changes are refused" if blocks else "")
        yield Finding(check, FAIL, says, f"kubectl get pods -n {service.get('namespace')}")
    touched = {resource for rule in webhook.get("rules") or () for resource in rule.get("resources") or ()}
    if touched & {"*", "*/*", "pods"}:
        yield Finding(check, WARN, "is asked about pods too: its absence can stop everybody", "muster manifests --help")
    if trouble is None and not (service and ready == 0):
        known = f", {plural(ready, 'ready endpoint')}" if ready is not None else ""
        yield Finding(check, OK, f"its certificate authority is valid{known}")


def _authority(bundle: str, now: datetime) -> tuple[str, str] | None:
    """What is wrong with a CA bundle in base64, or None."""
    if not bundle:
        return FAIL, "has no caBundle: the API server can't trust it"
    try:
        found = x509.load_pem_x509_certificates(base64.b64decode(bundle))
    except (binascii.Error, ValueError):
        return FAIL, "its caBundle is not PEM"
    last = max(found, key=lambda one: one.not_valid_after_utc)
    ends = last.not_valid_after_utc
    if ends <= now:
        return FAIL, f"its certificate authority expired on {ends:%Y-%m-%d}"
    if _ends_soon(last, now):
        return WARN, f"its certificate authority expires on {ends:%Y-%m-%d}"
    return None


def _ends_soon(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it should have been renewed by now: what lives for hours is renewed by the hour."""
    ends = certificate.not_valid_after_utc
    return ends - now < min(_EXPIRES_SOON, (ends - certificate.not_valid_before_utc) / 4)


def check_expiry(check: str, pem: bytes, now: datetime) -> Finding | None:
    """A certificate of one's own that ends soon, or has ended."""
    try:
        found = x509.load_pem_x509_certificate(pem)
    except ValueError:
        return None
    if not _ends_soon(found, now):
        return None
    ends = found.not_valid_after_utc
    word = "expired" if ends <= now else "expires"
    return Finding(check, WARN, f"your client certificate {word} on {ends:%Y-%m-%d}", "get a new kubeconfig in time")


def check_lease(lease: Document | None, name: str, now: datetime) -> Finding:
    """Whether somebody leads."""
    if lease is None:
        return Finding("leader", WARN, f"there is no Lease {name}: muster does not run here", "muster manifests")
    spec = part(lease, "spec")
    holder, renewed = spec.get("holderIdentity"), _moment(spec.get("renewTime"))
    if not holder or renewed is None:
        return Finding("leader", WARN, f"nobody holds the Lease {name}", "muster does not run, or has just stopped")
    age_s = (now - renewed).total_seconds()
    if age_s > float(spec.get("leaseDurationSeconds") or 15):
        says = f"{holder} has not renewed the Lease {name} for {age_s:,.0f} s"
        return Finding("leader", FAIL, says, "its process is gone or can't reach the API server: look at its log")
    return Finding("leader", OK, f"{holder} leads")


def _moment(text: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
