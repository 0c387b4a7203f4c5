"""`muster doctor`: what is missing or wrong on a cluster, and how to mend it. Nothing is changed."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click
import msgspec

from muster.api.crd import custom_resource_definitions
from muster.api.kinds import OUR_KINDS, POD_GROUP, QUEUE, RESOURCE_INTERFACE, TOPOLOGY, Kind
from muster.api.queue import IGNORE_BUDGETS, RECLAIM_POLICY_ANNOTATION
from muster.cli.checkup import (
    FAIL,
    OK,
    WARN,
    Document,
    Finding,
    Surroundings,
    check_definition,
    check_expiry,
    check_lease,
    check_left_out,
    check_nodes,
    check_objects,
    check_others,
    check_pods,
    check_strangers,
    check_topology,
    check_webhook,
    kinds_read,
    kinds_waiting,
    ours_of,
    part,
)
from muster.cli.files import Source
from muster.cli.forging import CHECK, check_marks
from muster.cli.judging import check_all, name_of, plural
from muster.cli.live import NODE, POD, PRIORITY_CLASS, connected, open_client, read_list
from muster.cli.options import Server, load_config, with_cluster, with_config, with_output
from muster.cli.owners import together
from muster.cli.render import JSON, TABLE, YAML, columns, say, say_data, signs, tell
from muster.config import Config
from muster.errors import ApiError, Forbidden, Invalid, NotFound, Unauthorized, Unreachable, UsageError
from muster.grouping.built_in import built_in_interfaces
from muster.grouping.trouble import AGGREGATE_LABEL
from muster.kube.client import Client
from muster.kube.connection import Connection
from muster.kube.discovery import Discovery
from muster.kube.resources import LEASE, MAY_I, Resource
from muster.kube.rights import (
    DELETING,
    GROUPER,
    LEASE_NAME,
    PAGE,
    READ,
    RIGHTS,
    WORKLOADS,
    Ask,
    Right,
    asks,
    review_of,
)

_STYLES: dict[str, dict[str, Any]] = {OK: {"fg": "green"}, WARN: {"fg": "yellow"}, FAIL: {"fg": "red"}}
# The first with ValidatingAdmissionPolicies, which the manifests have.
_OLDEST = (1, 30)
_OLDER_HINT = "muster is not tested there; muster manifests --without guard leaves out what such a server does not know"
_AGGREGATE_HINT = (
    f'grant them with a ClusterRole with the label {AGGREGATE_LABEL}: "true" (docs/install.md has one to copy)'
)

_SELF = Resource("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False)
_MAY_THEY = Resource("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
_CRD = Resource("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
_WEBHOOKS = Resource(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
_SLICES = Resource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
_LISTED = (NODE, POD, PRIORITY_CLASS, *OUR_KINDS)
# What there is of each kind, or why that is not known.
Lists = Mapping[Kind, list[Source] | ApiError]


class Patient(NamedTuple):
    """What is examined: a cluster, with whose rights, and where muster and its Lease are."""

    client: Client
    config: Config
    namespace: str
    lease_namespace: str
    # `NAMESPACE/NAME` of a service account; nothing: whoever asks.
    account: str = ""


@click.command(epilog="Example: muster doctor --as-service-account muster-system/muster")
@click.option(
    "-n", "--namespace", metavar="NAME", default="muster-system", show_default=True, help="The namespace of muster."
)
@click.option(
    "--lease-namespace", metavar="NAMESPACE", default="", help="Where the Lease is. Default: the namespace of muster."
)
@click.option(
    "--as-service-account", "account", metavar="NS/NAME", default="", help="Check its rights instead of your own."
)
@with_output(TABLE, JSON, YAML)
@with_cluster
@with_config
@click.pass_context
def doctor(
    ctx: click.Context,
    namespace: str,
    lease_namespace: str,
    account: str,
    server: Server,
    form: str,
    config_file: str | None,
    flags: tuple[str, ...],
) -> None:
    """Say what is missing or wrong on a cluster for muster, and how to mend it. Nothing is changed.

    Checked are the server and your credentials, our CRDs, every right that muster needs (yours, or those of a service
    account), nodes and the labels of Topologies, Queues and the other objects of ours, the webhook and its certificate,
    admission marks, other schedulers, the leader, and pods that wait without a gang. Exits with 1 when one failed.
    """
    config = load_config(config_file, flags).config
    if account and (account.count("/") != 1 or not all(account.split("/"))):
        raise UsageError(f"--as-service-account {account} is no service account", "write it as NAMESPACE/NAME")
    where = namespace, lease_namespace or namespace
    findings = asyncio.run(_examine(connected(server, ""), config, where, account))
    if form in (JSON, YAML):
        say_data([finding._asdict() for finding in findings], form)
    else:
        _say(findings)
    failed = any(finding.state == FAIL for finding in findings)
    if form == TABLE:
        _tell_outcome(findings, server)
    ctx.exit(1 if failed else 0)


def _say(findings: Sequence[Finding]) -> None:
    lines = list(
        columns([(one.state.upper() if one.state == FAIL else one.state, one.check, one.message) for one in findings])
    )
    hints = [*(finding.hint for finding in findings[1:]), ""]
    for finding, line, after in zip(findings, lines, hints, strict=True):
        say(line, **_STYLES[finding.state])
        # What several lack in a row is mended in one way.
        if finding.hint and finding.state != OK and finding.hint != after:
            say(f"       {signs()['arrow']} {finding.hint}")


def _tell_outcome(findings: Sequence[Finding], server: Server) -> None:
    counts = Counter(finding.state for finding in findings)
    tell(f"{plural(len(findings), 'check')}: " + ", ".join(f"{counts[state]} {state}" for state in (OK, WARN, FAIL)))
    given = f" {server.flags}" if server.flags else ""
    again = f"mend what is said above, then muster doctor{given}" if counts[FAIL] else f"muster plan{given}"
    tell(f"next: {again}")


async def _examine(connection: Connection, config: Config, where: tuple[str, str], account: str) -> list[Finding]:
    """All findings. When the server can't be asked at all, only that."""
    async with open_client(connection) as client:
        patient = Patient(client, config, *where, account)
        findings = [await _server(client)]
        if findings[0].state != FAIL:
            findings.append(await _credentials(client))
        if any(finding.state == FAIL for finding in findings):
            return findings
        definitions = await _installed(client)
        names = definitions.keys() if isinstance(definitions, dict) else ()
        try:
            lists = dict(zip(_LISTED, await together(_list(client, kind) for kind in _LISTED), strict=True))
            objects = _objects(patient, lists, names)
        except ApiError as error:
            lists, objects = {}, _failed("objects", error)
        works = {
            "rights": _rights(patient, list(_workloads(definitions)), lists),
            "objects": objects,
            "webhook": _webhook(patient),
            CHECK: _marks(patient),
            "leader": _leader(patient),
        }
        rest = [_definitions(definitions), *await together(_told(check, work) for check, work in works.items())]
        return [*findings, *(finding for found in rest for finding in found)]


async def _told(check: str, work: Awaitable[list[Finding]]) -> list[Finding]:
    """The findings. A server that fails in the middle costs one check, not the report."""
    try:
        return await work
    except ApiError as error:
        return await _failed(check, error)


async def _failed(check: str, error: ApiError) -> list[Finding]:
    return [Finding(check, FAIL, f"not checked: {error.message}", error.hint)]


async def _server(client: Client) -> Finding:
    server = client.connection.server
    try:
        told = msgspec.json.decode(await client.get_path("/version"))
    except Unreachable as error:
        return Finding("server", FAIL, error.message.removeprefix("can't get /version: "), error.hint)
    except Unauthorized as error:
        if not error.status:
            # Nothing was sent.
            return Finding("credentials", FAIL, error.message.removeprefix("can't get /version: "), error.hint)
        return Finding("server", OK, f"{server} answers; its version is not told: {error.message}")
    except ApiError as error:
        # Who may not even know the version may know the rest.
        state = OK if isinstance(error, Forbidden) else FAIL
        hint = "" if state == OK else "look at the server in the kubeconfig, and at what is on the way to it"
        return Finding("server", state, f"{server} answers; its version is not told: {error.message}", hint)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Finding("server", FAIL, f"{server} is no Kubernetes API server", "look at the server in the kubeconfig")
    version = str(part(told, "gitVersion"))
    numbers = tuple(int("".join(filter(str.isdigit, str(part(told, name)))) or 0) for name in ("major", "minor"))
    if numbers < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        return Finding("server", WARN, f"Kubernetes {version} is older than {oldest}", _OLDER_HINT)
    return Finding("server", OK, f"{server}, Kubernetes {version}")


async def _credentials(client: Client) -> Finding:
    try:
        told = await client.review(_SELF, {"apiVersion": _SELF.api_version, "kind": _SELF.name})
    except (Unauthorized, Unreachable) as error:
        return Finding("credentials", FAIL, error.message, error.hint or "get a new kubeconfig")
    except ApiError as error:
        return Finding("credentials", WARN, f"who you are was not told: {error.message}")
    pair = (await client.connection.credentials.secret()).pair
    ending = check_expiry("credentials", pair.certificate, datetime.now(UTC)) if pair is not None else None
    if ending is not None:
        return ending
    user = part(told, "status", "userInfo").get("username")
    return Finding("credentials", OK, f"you are {user}, context {client.connection.context}")


# Definitions


async def _installed(client: Client) -> dict[str, Document] | ApiError:
    """Every CustomResourceDefinition, by name."""
    try:
        return {name_of(one)[0]: one for one in (await client.list(_CRD, limit=50)).items}
    except ApiError as error:
        return error


def _definitions(installed: dict[str, Document] | ApiError) -> list[Finding]:
    if isinstance(installed, ApiError):
        return [_unknown("crds", installed)]
    return [check_definition(one, installed.get(one["metadata"]["name"])) for one in custom_resource_definitions()]


def _workloads(installed: dict[str, Document] | ApiError) -> Iterator[Right]:
    """Reading the kinds of the catalog that are installed here."""
    known = {(one.target.group, one.target.kind) for one in built_in_interfaces()}
    for one in installed.values() if isinstance(installed, dict) else ():
        names, group = part(one, "spec", "names"), str(part(one, "spec").get("group"))
        if (group, names.get("kind")) in known:
            yield Right(group, str(names.get("plural")), READ, GROUPER, "an owner of pods", optional=True)


def _unknown(check: str, error: ApiError) -> Finding:
    if isinstance(error, Forbidden):
        return Finding(
            check, WARN, f"not checked: you may not {error.call}", "ask for the right, or let an admin run this"
        )
    return Finding(check, WARN, f"not checked: {error.message}", error.hint)


# Rights


async def _rights(patient: Patient, catalog: Sequence[Right], lists: Lists) -> list[Finding]:
    """One finding for all that is there, one for each resource where something lacks."""
    who = f"service account {patient.account}" if patient.account else "you"
    shows = PAGE if patient.config.page.enabled == "always" else ()
    deletes = (DELETING,) if _ignoring(lists) else ()
    known = (*RIGHTS, *shows, *deletes, *WORKLOADS, *catalog)
    further = await _further(patient, lists, {right.title for right in known if set(READ) <= set(right.verbs)})
    wanted = [(right, ask) for right in (*known, *further) for ask in asks(right, patient.lease_namespace)]
    try:
        allowed = await together(_may(patient, ask) for _, ask in wanted)
    except ApiError as error:
        return [_unknown("rights", error)]
    refused: dict[tuple[str, bool], list[tuple[Right, Ask]]] = {}
    for (right, ask), yes in zip(wanted, allowed, strict=True):
        if not yes:
            refused.setdefault((right.title, right.optional), []).append((right, ask))
    if not refused:
        have = "has" if patient.account else "have"
        return [Finding("rights", OK, f"{who} {have} all {len(wanted)} rights that muster needs")]
    # What has to be there stands first.
    return [_lacking(who, missing) for _, missing in sorted(refused.items(), key=lambda item: item[0][1])]


def _ignoring(lists: Lists) -> bool:
    """Whether some Queue asks that disruption budgets be ignored."""
    queues = _documents(lists.get(QUEUE, [])) or ()
    return any(part(one, "metadata", "annotations").get(RECLAIM_POLICY_ANNOTATION) == IGNORE_BUDGETS for one in queues)


async def _further(patient: Patient, lists: Lists, known: Collection[str]) -> list[Right]:
    """Reading the kinds that ResourceInterfaces are about, and those of owners of pods that wait."""
    discovery = Discovery(patient.client)
    found: dict[str, Right] = {}
    interfaces, pods = (_documents(lists.get(kind, [])) or () for kind in (RESOURCE_INTERFACE, POD))
    needed = {one[:2]: one for one in (*kinds_waiting(pods, patient.config), *kinds_read(interfaces))}
    for api_version, kind, why, optional in needed.values():
        resource = await discovery.find_served(api_version, kind)
        if resource is not None:
            group = resource.api_version.rpartition("/")[0]
            right = Right(group, resource.plural, READ, GROUPER, why, optional=optional)
            # In several versions: what pods wait for counts most.
            if right.title not in found or not optional:
                found[right.title] = right
    return [right for title, right in found.items() if title not in known]


def _lacking(who: str, missing: Sequence[tuple[Right, Ask]]) -> Finding:
    """Everything that lacks of one resource."""
    right, ask = missing[0]
    verbs = ", ".join(dict.fromkeys(one.verb for _, one in missing))
    why = "; ".join(dict.fromkeys(one.why for one, _ in missing))
    where = f" in namespace {ask.namespace}" if ask.namespace else ""
    hint = "muster manifests has the roles; --as-service-account NS/NAME checks those of muster itself"
    if right is DELETING:
        hint = "muster manifests --ignore-budgets has it; without it these queues wait as others do"
    if right.part == GROUPER and right not in (*RIGHTS, *WORKLOADS):
        hint = _AGGREGATE_HINT
    return Finding(
        "rights", WARN if right.optional else FAIL, f"{who} may not {verbs} {right.title}{where}: {why}", hint
    )


async def _may(patient: Patient, ask: Ask) -> bool:
    spec = review_of(ask)
    kind = MAY_I
    if patient.account:
        kind = _MAY_THEY
        namespace, name = patient.account.split("/")
        spec["user"] = f"system:serviceaccount:{namespace}:{name}"
        spec["groups"] = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    told = await patient.client.review(kind, {"apiVersion": kind.api_version, "kind": kind.name, "spec": spec})
    return part(told, "status").get("allowed") is True


# Objects


async def _objects(patient: Patient, found: Lists, installed: Collection[str]) -> list[Finding]:
    """Nodes, topologies, our objects, pods, and who else schedules."""
    findings = [_unknown(kind.plural, one) for kind, one in found.items() if isinstance(one, Forbidden)]
    nodes, pods, groups = (_documents(found[kind]) for kind in (NODE, POD, POD_GROUP))
    if nodes is not None:
        findings += check_nodes(nodes)
        findings += [check_topology(one, nodes) for one in _documents(found[TOPOLOGY]) or ()]
    ours = [source for kind in (PRIORITY_CLASS, *OUR_KINDS) for source in _sources(found[kind])]
    kinds_read = [kind for kind in OUR_KINDS if isinstance(found[kind], list)]
    findings += check_objects(check_all(ours, patient.config, strict=False), kinds_read, patient.config)
    if pods is not None:
        findings += check_pods(pods, groups, patient.config)
        findings += check_strangers(pods, patient.config)
    told = (*(groups or ()), *(pods or ()), *(_documents(found[QUEUE]) or ()))
    findings.append(check_left_out(told))
    leases = await _leases(patient.client)
    around = Surroundings(installed, pods or (), leases, (patient.namespace, patient.lease_namespace))
    findings += check_others(around, patient.config, datetime.now(UTC))
    return findings


async def _leases(client: Client) -> Sequence[Document]:
    try:
        return (await client.list(LEASE)).items
    except Forbidden:
        return ()


async def _list(client: Client, kind: Kind) -> list[Source] | ApiError:
    return await read_list(client, kind)


def _sources(found: list[Source] | ApiError) -> list[Source]:
    return found if isinstance(found, list) else []


def _documents(found: list[Source] | ApiError) -> list[dict[str, Any]] | None:
    """The objects; None when they may not be read."""
    if isinstance(found, Forbidden):
        return None
    return [source.value for source in _sources(found) if isinstance(source.value, dict)]


# Webhook and leader

# What no schema minds: only muster itself refuses it.
_MISTAKEN = {"subGroups": [{"name": "a", "minMember": 1, "parent": "b"}]}


async def _webhook(patient: Patient) -> list[Finding]:
    try:
        found = ours_of((await patient.client.list(_WEBHOOKS)).items)
    except Forbidden as error:
        return [_unknown("webhook", error)]
    if not found:
        if isinstance(await _rehearsed(patient.client, _MISTAKEN), Invalid):
            return [Finding("webhook", OK, "the API server asks muster without one: mistakes in objects are refused")]
        says = "none is installed: mistakes in objects are told in their status, not when they are written"
        return [Finding("webhook", WARN, says, "muster manifests has one")]
    findings: list[Finding] = []
    for webhook in found:
        ready = await _ready(patient.client, part(webhook, "clientConfig", "service"))
        findings += check_webhook(webhook, ready, datetime.now(UTC))
    answers = await _answers(patient.client)
    return [*findings, answers] if answers is not None else findings


async def _answers(client: Client) -> Finding | None:
    """Whether a PodGroup could be written now: the API server asks the webhook as it always does.

    None: that may not be tried, or there are no PodGroups.
    """
    refusal = await _rehearsed(client, {"minMember": 1})
    if isinstance(refusal, (Forbidden, NotFound)):
        return None
    if refusal is not None:
        hint = "look at the log of muster run; kubectl delete validatingwebhookconfiguration muster does without it"
        return Finding("webhook answers", FAIL, f"no PodGroup can be written: {refusal.message}", hint)
    return Finding("webhook answers", OK, "a PodGroup could be written now (tried without writing it)")


async def _rehearsed(client: Client, spec: Document) -> ApiError | None:
    """What is said against a PodGroup with this spec, without writing it; None: nothing."""
    metadata = {"generateName": "muster-doctor-", "namespace": "default"}
    tried = {"apiVersion": POD_GROUP.api_version, "kind": POD_GROUP.name, "metadata": metadata, "spec": spec}
    try:
        await client.rehearse(POD_GROUP, "default", tried)
    except ApiError as refusal:
        return refusal
    return None


async def _ready(client: Client, service: Document) -> int | None:
    """How many endpoints of a service are ready; None when that may not be known."""
    if not service:
        return None
    selector = f"kubernetes.io/service-name={service.get('name')}"
    try:
        slices = (await client.list(_SLICES, str(service.get("namespace")), label_selector=selector)).items
    except Forbidden:
        return None
    endpoints = [one for found in slices for one in part(found, "endpoints") or ()]
    return sum(part(one, "conditions").get("ready") is not False for one in endpoints)


async def _marks(patient: Patient) -> list[Finding]:
    return [await check_marks(patient.client, patient.config.scheduler_names[0])]


async def _leader(patient: Patient) -> list[Finding]:
    name = f"{patient.lease_namespace}/{LEASE_NAME}"
    try:
        lease = await patient.client.get(LEASE, patient.lease_namespace, LEASE_NAME)
    except NotFound:
        lease = None
    except Forbidden as error:
        return [_unknown("leader", error)]
    return [check_lease(lease, name, datetime.now(UTC))]
