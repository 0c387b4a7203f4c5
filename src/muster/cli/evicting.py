"""An EvictionRequest from its creation to its end: ask for rights, ask the scheduler, evict, wait, clean up.

No pod is evicted before everything that can be known is known: the caller's rights, what admission and disruption
budgets say to each eviction, and the scheduler's yes, which means that the room is reserved.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from muster.api.evictionrequest import (
    DONE,
    EXPIRED,
    FINAL,
    GRANTED,
    Beneficiary,
    EvictionRequest,
    EvictionRequestSpec,
    Leaver,
)
from muster.api.kinds import EVICTION_REQUEST, POD
from muster.decisions.amounts import pods_in_words
from muster.errors import ApiError, BudgetRefused, Conflict, Forbidden, NotFound, UsageError
from muster.kube.client import Client
from muster.kube.resources import Resource
from muster.kube.rights import OPERATOR, Ask

_MAY_I = Resource("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False)
_INSTALL = "muster crds | kubectl apply --server-side -f -"
# How often the answer is looked for, and how soon a refused eviction is tried again.
_POLL_S, _AGAIN_S = 0.3, 5.0
# How long the scheduler may take for its answer. Cycles take seconds at most.
_ANSWER_S = 60.0
# A name of a gang may be as long as a name can be.
_LONGEST_NAME = 200


class Asked(NamedTuple):
    """Which pods are to go for which gang, and in which namespace muster is asked."""

    beneficiary: Beneficiary
    victims: tuple[Leaver, ...]
    namespace: str

    @property
    def gang(self) -> str:
        """The beneficiary, as people name it."""
        return f"{self.beneficiary.namespace}/{self.beneficiary.name}"


class Came(NamedTuple):
    """How it came out: whether the gang has its room, why in one word and in one sentence, and the pods that went."""

    good: bool
    reason: str
    message: str
    evicted: tuple[str, ...] = ()


class Refusal(NamedTuple):
    """A pod that may not be evicted now, and what the API server says."""

    pod: str
    error: ApiError


async def rehearse(client: Client, asked: Asked) -> Came:
    """Everything that a server can say beforehand. Raises what it refuses. Nothing is changed."""
    await _may(client, asked)
    await _installed(client, client.rehearse(EVICTION_REQUEST, asked.namespace, _document(asked, "rehearsal")), asked)
    refused = await _refusals(client, asked.victims)
    if refused:
        return Came(False, "EvictionRefused", _refused_in_words(refused))
    return Came(True, "Rehearsed", f"{pods_in_words(len(asked.victims))} may be evicted for {asked.gang}")


async def carry_out(client: Client, asked: Asked, timeout_s: float, tell: Callable[[str], None]) -> Came:
    """The whole of it. Raises ApiError or UsageError before the first eviction. The request is deleted at the end."""
    found = await rehearse(client, asked)
    if not found.good:
        return found
    name = f"{asked.beneficiary.name[:_LONGEST_NAME]}-{secrets.token_hex(4)}"
    body = _document(asked, name)
    made = await _installed(client, client.create(EVICTION_REQUEST, asked.namespace, body), asked)
    tell(f"asked the scheduler: EvictionRequest {asked.namespace}/{name}")
    try:
        return await _follow(client, asked, name, timeout_s, tell)
    finally:
        # Whatever is not there yet is reserved no longer. What was evicted for stays nominated.
        try:
            await client.delete(EVICTION_REQUEST, asked.namespace, name, uid=made.uid)
        except (NotFound, Conflict):
            pass
        except ApiError as error:
            # The outcome matters more; the request expires by itself.
            tell(f"EvictionRequest {asked.namespace}/{name} could not be deleted: {error.message}")


async def _follow(client: Client, asked: Asked, name: str, timeout_s: float, tell: Callable[[str], None]) -> Came:
    patience_s = min(timeout_s, _ANSWER_S)
    answer = await _answered(client, asked, name, patience_s)
    if answer is None:
        hint = f"does a muster that leads run, with its Lease in namespace {asked.namespace}? muster doctor says"
        return Came(False, "NoAnswer", f"no answer within {patience_s:g} s, and no pod was evicted: {hint}")
    if answer.status.phase != GRANTED:
        return Came(False, answer.status.reason, f"refused: {answer.status.message}; no pod was evicted")
    until = answer.status.expires
    tell(f"granted: the room is reserved for {asked.gang}" + (f" until {until:%H:%M:%SZ}" if until else ""))
    refused = await _refusals(client, asked.victims)
    if refused:
        return Came(False, "EvictionRefused", _refused_in_words(refused))
    gone: list[str] = []
    left = await _evict(client, asked.victims, gone, tell)
    deadline_s = client.clock.now_s() + timeout_s
    again_s = client.clock.now_s() + _AGAIN_S
    while True:
        found = await _get(client, asked, name)
        phase = found.status.phase if found is not None else EXPIRED
        if phase == DONE:
            return Came(True, found.status.reason if found else "", f"{asked.gang} has its room", tuple(gone))
        if phase in FINAL or client.clock.now_s() >= deadline_s:
            return Came(False, "NotPlaced", _unfinished(asked, gone, left, phase), tuple(gone))
        if left and client.clock.now_s() >= again_s:
            again_s = client.clock.now_s() + _AGAIN_S
            left = await _evict(
                client, [one for one in asked.victims if _named(one) in {r.pod for r in left}], gone, tell
            )
        await client.clock.sleep(_POLL_S)


def _unfinished(asked: Asked, gone: Sequence[str], left: Sequence[Refusal], phase: str) -> str:
    """What there is to know when the gang has not got its room in time."""
    said = f"{asked.gang} is not placed yet, and {len(gone)} of {pods_in_words(len(asked.victims))} went"
    if left:
        return f"{said}; {left[0].pod} stayed: {left[0].error.message}; the room is reserved no longer"
    if phase in FINAL:
        return f"{said}; the reservation is over: muster explain {asked.gang} says what it waits for"
    return f"{said}: their room stays reserved while they terminate"


async def _answered(client: Client, asked: Asked, name: str, timeout_s: float) -> EvictionRequest | None:
    """The request with its answer; None when there is none in time."""
    end_s = client.clock.now_s() + timeout_s
    while client.clock.now_s() < end_s:
        found = await _get(client, asked, name)
        if found is None:
            raise UsageError(f"the EvictionRequest {asked.namespace}/{name} was deleted meanwhile", "ask again")
        if found.status.phase == GRANTED or found.status.phase in FINAL:
            return found
        await client.clock.sleep(_POLL_S)
    return None


async def _get(client: Client, asked: Asked, name: str) -> EvictionRequest | None:
    try:
        found: EvictionRequest = await client.get(EVICTION_REQUEST, asked.namespace, name)
    except NotFound:
        return None
    return found


async def _may(client: Client, asked: Asked) -> None:
    """Raises UsageError when a right is missing that is needed before the end."""
    group, resource = EVICTION_REQUEST.group, EVICTION_REQUEST.plural
    needed = [Ask(verb, group, resource, "", asked.namespace) for verb in ("create", "get", "delete")]
    spaces = sorted({one.namespace for one in asked.victims})
    needed += [Ask("create", "", "pods", "eviction", namespace) for namespace in spaces]
    allowed = await asyncio.gather(*(_is_allowed(client, one) for one in needed))
    missing = [str(one) for one, good in zip(needed, allowed, strict=True) if not good]
    if missing:
        hint = (
            f"the Role {OPERATOR} in namespace {asked.namespace} allows the requests; evicting needs rights on the pods"
        )
        raise UsageError(f"not allowed to {', nor to '.join(missing)}: no pod was evicted", hint)


async def _is_allowed(client: Client, ask: Ask) -> bool:
    attributes = {"verb": ask.verb, "group": ask.group, "resource": ask.resource, "subresource": ask.subresource}
    attributes["namespace"] = ask.namespace
    spec = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    body = {"apiVersion": _MAY_I.api_version, "kind": _MAY_I.name, "spec": spec}
    told = await client.review(_MAY_I, body)
    return isinstance(told.get("status"), dict) and told["status"].get("allowed") is True


async def _installed(client: Client, work: Any, asked: Asked) -> Any:
    """The result of a write of a request; what is missing on the cluster is told with what to do."""
    try:
        return await work
    except NotFound as error:
        if asked.namespace in error.message and "namespaces" in error.message:
            hint = "name the namespace of muster with --muster-namespace"
            raise UsageError(f"there is no namespace {asked.namespace}", hint) from None
        hint = f"install the definitions: {_INSTALL}"
        raise UsageError(f"{client.connection.server} has no EvictionRequests", hint) from None


async def _refusals(client: Client, victims: Sequence[Leaver]) -> list[Refusal]:
    """The evictions that the API server would refuse now."""
    return await _evictions(client, victims, dry_run=True)


async def _evict(
    client: Client, victims: Sequence[Leaver], gone: list[str], tell: Callable[[str], None]
) -> list[Refusal]:
    """Evicts; gives what was refused. What is gone already is as good as evicted."""
    refused = await _evictions(client, victims, dry_run=False)
    stayed = {one.pod for one in refused}
    for one in victims:
        if _named(one) not in stayed:
            gone.append(_named(one))
            tell(f"evicted pod {_named(one)}")
    for refusal in refused:
        tell(
            f"pod {refusal.pod} was not evicted: {refusal.error.message}; it is tried again while the room is reserved"
        )
    return refused


async def _evictions(client: Client, victims: Sequence[Leaver], *, dry_run: bool) -> list[Refusal]:
    async def evict(one: Leaver) -> Refusal | None:
        try:
            await client.evict(one.namespace, one.name, one.uid, dry_run=dry_run)
        except (NotFound, Conflict):
            return None
        except ApiError as error:
            return Refusal(_named(one), error) if not await _is_gone(client, one, error) else None
        return None

    return [one for one in await asyncio.gather(*map(evict, victims)) if one is not None]


async def _is_gone(client: Client, one: Leaver, error: ApiError) -> bool:
    """Whether an eviction without a known outcome happened."""
    if not error.unknown:
        return False
    try:
        pod = await client.get(POD, one.namespace, one.name)
    except NotFound:
        return True
    except ApiError:
        return False
    return bool(pod.metadata.uid != one.uid or pod.metadata.deletion_timestamp is not None)


def _refused_in_words(refused: Sequence[Refusal]) -> str:
    first, more = refused[0], len(refused) - 1
    others = f" (and {more} more)" if more else ""
    why = "a PodDisruptionBudget" if isinstance(first.error, BudgetRefused) else "the API server"
    if isinstance(first.error, Forbidden):
        why = "admission, or a right that is missing,"
    return f"{why} does not allow to evict {first.pod}{others}: {first.error.message}; no pod was evicted"


def _named(one: Leaver) -> str:
    return f"{one.namespace}/{one.name}"


def _document(asked: Asked, name: str) -> dict[str, Any]:
    spec = EvictionRequestSpec(beneficiary=asked.beneficiary, victims=list(asked.victims))
    return {
        "apiVersion": EVICTION_REQUEST.api_version,
        "kind": EVICTION_REQUEST.name,
        "metadata": {"name": name, "namespace": asked.namespace},
        "spec": msgspec.to_builtins(spec),
    }
