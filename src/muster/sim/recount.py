"""Counts gangs and queues anew from plain documents, and compares with what their statuses tell people (U1, U2)."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from muster.api.quantity import base_units
from muster.api.tree import NONE, Tree, core, minimum_pods, satisfied
from muster.embedded.store import Store
from muster.sim import facts
from muster.sim.books import CHARGES, QUEUES, UNITS, Books, charged, summed
from muster.sim.facts import FAILED, GATED, PLACED, SUCCEEDED, WAITING, Group, Member

_PENDING, _SCHEDULED, _COMPLETED, _INVALID, _STALE = "Pending", "Scheduled", "Completed", "Invalid", "Stale"
_COLUMNS = ("total", "pending", "placed", "succeeded")


def told_wrongly(group: Group, books: Books) -> Iterator[str]:
    """Everything in the status of a gang that is not so."""
    status = group.status
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    if group.wrong or group.tree is None:
        if status.get("phase") != _INVALID or conditions.get("Accepted", {}).get("status") != "False":
            yield f"it is invalid ({group.wrong}) and its phase is {status.get('phase')}"
        return
    tree = group.tree
    counts = _counts(group, books)
    met = satisfied(tree, [counts["placed"][row] + counts["succeeded"][row] for row in range(len(tree.nodes))])
    every = _upwards(tree, counts)
    yield from _summary(group, every, met, conditions)
    yield from _rows(group, every, met)
    yield from _core(group, counts, books)
    yield from _domains(group, books)
    yield from _resources(group, books)


def _counts(group: Group, books: Books) -> dict[str, list[int]]:
    """Pods of each leaf by what they do."""
    assert group.tree is not None
    found = {column: [0] * len(group.tree.nodes) for column in (*_COLUMNS, "waiting", "deleted")}
    for pod in books.gang(group.key).values():
        leaf = group.leaf_of(pod)
        if leaf == NONE or not books.is_of(pod):
            continue
        waits = _waits(pod)
        found["total"][leaf] += pod.state != FAILED
        found["pending"][leaf] += waits or pod.state == GATED
        found["waiting"][leaf] += waits
        found["placed"][leaf] += pod.state == PLACED and books.node(pod.node) is not None
        found["succeeded"][leaf] += pod.state == SUCCEEDED
    for leaf, done in enumerate(books.done(group)):
        found["succeeded"][leaf] += done
        found["deleted"][leaf] = done
    return found


def _waits(pod: Member) -> bool:
    """One that can't be read waits for its author, not for room."""
    return pod.state == WAITING and facts.is_readable(pod.spec)


def _upwards(tree: Tree, counts: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """Pods below every tree node."""
    found = {column: list(row) for column, row in counts.items()}
    for row in range(len(tree.nodes) - 1, 0, -1):
        for column in found.values():
            column[tree.nodes[row].parent] += column[row]
    return found


def _summary(
    group: Group, every: Mapping[str, list[int]], met: list[bool], conditions: Mapping[str, Any]
) -> Iterator[str]:
    status, tree = group.status, group.tree
    assert tree is not None
    root = tree.nodes[0]
    pods = f"{every['placed'][0]}/{minimum_pods(tree)[0]}/{every['total'][0]}"
    ready = f"{sum(met[child] for child in root.children)}/{root.minimum}" if root.children else f"{int(met[0])}/1"
    for field, wanted in (("podsSummary", pods), ("ready", ready)):
        if status.get(field) != wanted:
            yield f"its {field} is {status.get(field)} and should be {wanted}"
    phase = status.get("phase")
    if met[0]:
        done = every["succeeded"][0] and every["succeeded"][0] - every["deleted"][0] == every["total"][0]
        wanted = _COMPLETED if done else _SCHEDULED
        if phase != wanted:
            yield f"its minimum is placed and its phase is {phase}, not {wanted}"
        if status.get("reason"):
            yield f"its minimum is placed and it has the reason {status['reason']}"
        if not status.get("startTime"):
            yield "its minimum is placed and it has no startTime"
    else:
        if phase not in (_PENDING, _STALE):
            yield f"its minimum is not placed and its phase is {phase}"
        if not status.get("reason"):
            yield "its minimum is not placed and it has no reason"
    told = conditions.get("Scheduled", {})
    if (told.get("status") == "True") != met[0]:
        yield f"its condition Scheduled is {told.get('status')}, and its minimum is {'' if met[0] else 'not '}placed"
    if not met[0] and not told.get("reason"):
        yield "its condition Scheduled has no reason"
    present = satisfied(tree, _could(tree, every))[0]
    said = conditions.get("PodsPresent", {}).get("status")
    if (said == "True") != present:
        yield f"its condition PodsPresent is {said}, and it should be {present}"


def _could(tree: Tree, every: Mapping[str, list[int]]) -> list[int]:
    leaves = set(tree.leaves)
    return [
        every["placed"][row] + every["succeeded"][row] + every["waiting"][row] if row in leaves else 0
        for row in range(len(tree.nodes))
    ]


def _rows(group: Group, every: Mapping[str, list[int]], met: list[bool]) -> Iterator[str]:
    tree, rows = group.tree, group.status.get("subGroups") or []
    assert tree is not None
    names, told_of = [node.name for node in tree.nodes], [one.get("name", "") for one in rows]
    if told_of != names:
        yield f"its status tells of {told_of}, not of {names}"
        return
    for row, (node, told) in enumerate(zip(tree.nodes, rows, strict=True)):
        who = node.name or "the root"
        for column in _COLUMNS:
            said = (told.get("pods") or {}).get(column, 0)
            if said != every[column][row]:
                yield f"{who} has {every[column][row]} pods {column}, and its status says {said}"
        children = sum(met[child] for child in node.children)
        pairs = (
            ("satisfied", bool(told.get("satisfied")), met[row]),
            ("minimum", told.get("minimum", 0), node.minimum),
            ("children satisfied", (told.get("children") or {}).get("satisfied", 0), children),
        )
        for what, said, wanted in pairs:
            if said != wanted:
                yield f"{who}: {what} is {wanted}, and its status says {said}"


def _core(group: Group, counts: Mapping[str, list[int]], books: Books) -> Iterator[str]:
    """What the status calls core or joined is what follows from it: it does not flip."""
    tree = group.tree
    assert tree is not None
    named = {one.get("name", "") for one in group.status.get("subGroups") or () if one.get("core")}
    was = [node.name in named for node in tree.nodes]
    joined = books.joined(group, counts["placed"])
    told = {one.get("name", "") for one in group.status.get("subGroups") or () if one.get("joined")}
    names = {node.name for node, now in zip(tree.nodes, joined, strict=True) if now}
    if names != told:
        yield f"joined are {sorted(names)}, and its status says {sorted(told)}"
    found = core(tree, counts["placed"], counts["succeeded"], was, joined).nodes
    if list(found) != was:
        wanted = [node.name for node, is_core in zip(tree.nodes, found, strict=True) if is_core]
        yield f"its core is {wanted}, and its status says {sorted(named)}"


def _is_back(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> bool:
    """Whether a joined child has its minimum again."""
    return bool(before and now and before.get("joined") and now.get("satisfied") and not before.get("satisfied"))


def flipped(before: Group, now: Group) -> str:
    """A child that was core and is as satisfied as before, and is core no longer (SPEC §6: membership is sticky)."""
    if before.tree is None or now.tree is None or before.uid != now.uid:
        return ""
    had, has = ({one.get("name", ""): one for one in group.status.get("subGroups") or ()} for group in (before, now))
    for name, one in had.items():
        at, was = now.tree.row_of.get(name, NONE), before.tree.row_of.get(name, NONE)
        if not name or NONE in (at, was) or name not in has:
            continue
        parent, then = now.tree.nodes[now.tree.nodes[at].parent], before.tree.nodes[before.tree.nodes[was].parent]
        # The minimum that the status was told under: the spec may say another one since.
        told = had.get(then.name, {}).get("minimum", then.minimum)
        same = parent.name == then.name and parent.minimum >= max(told, then.minimum)
        both_core = bool(has.get(parent.name, {}).get("core") and had.get(parent.name, {}).get("core"))
        # What has joined is core for as long; what stood in for a joined child is core until that one is satisfied.
        parted = bool(one.get("joined") and not has[name].get("joined"))
        siblings = [now.tree.nodes[row].name for row in parent.children]
        parted = parted or any(_is_back(had.get(sibling), has.get(sibling)) for sibling in siblings)
        stays = bool(one.get("core") and one.get("satisfied") and has[name].get("satisfied")) and not parted
        if same and both_core and stays and not has[name].get("core"):
            return str(name)
    return ""


def _domains(group: Group, books: Books) -> Iterator[str]:
    """Where the pods of a required level are."""
    tree = group.tree
    assert tree is not None
    rows = {one.get("name", ""): one for one in group.status.get("subGroups") or ()}
    placed = books.placed(group)
    for row, node in enumerate(tree.nodes):
        if node.constraint is None or not node.constraint.required or node.constraint.preferred:
            continue
        labels = facts.labels_of(node.constraint, books.topologies.now)
        pods = [pod for leaf in tree.leaves_below(row) for pod in placed.get(leaf, ())]
        if labels is None or not pods:
            continue
        found = {facts.domain_of(there, labels) for pod in pods if (there := books.node(pod.node)) is not None}
        domain = next(iter(found)) if len(found) == 1 else None
        wanted = "/".join(domain) if domain is not None else ""
        said = rows.get(node.name, {}).get("domain", "")
        if said != wanted:
            yield f"{node.name or 'the root'} lies in {wanted or 'no one domain'}, and its status says {said}"


def _resources(group: Group, books: Books) -> Iterator[str]:
    placed = books.placed(group)
    here = [pod for pods in placed.values() for pod in pods]
    waiting = [pod for pod in books.gang(group.key).values() if _waits(pod) and group.leaf_of(pod) != NONE]
    told = group.status.get("resourcesStatus") or {}
    pairs = (
        ("requested", [*here, *waiting]),
        ("allocated", here),
        ("allocatedNonPreemptible", books.firm(group, placed)),
    )
    for field, pods in pairs:
        wanted = {name: amount for name, amount in summed(pods).items() if name != "pods" and amount}
        said = {name: base_units(name, amount) for name, amount in (told.get(field) or {}).items()}
        if said != wanted:
            yield f"its resourcesStatus.{field} is {said} and should be {wanted}"


def queues_told_wrongly(store: Store, books: Books) -> Iterator[tuple[str, str]]:
    """Queues whose status does not add up: their name, and what is wrong."""
    held: dict[str, tuple[list[Member], list[Member]]] = {}
    unknown: set[str] = set()
    for key in books.groups:
        group = books.group(key)
        if group is None or group.tree is None:
            # Of what makes no tree nobody can say what belongs to it.
            unknown.update(books.path(books.queue_of(group)) if group is not None else ())
            continue
        placed = books.placed(group)
        for queue in books.path(books.queue_of(group)):
            here, firm = held.setdefault(queue, ([], []))
            # Who was placed before it was set aside still has what it has.
            here += [pod for pod in books.gang(key).values() if pod.state == PLACED and books.counts(pod)]
            firm += books.firm(group, placed)
    for document in store.list(QUEUES).items:
        name = document["metadata"]["name"]
        if not books.path(name) or name in unknown:
            continue
        status = document.get("status") or {}
        here, firm = held.get(name, ([], []))
        strays = list(books.strays(name))
        here = [*here, *strays]
        for field, pods in (("allocated", here), ("allocatedNonPreemptible", firm)):
            wanted = charged(pods)
            for charge in CHARGES:
                said = (status.get(field) or {}).get(charge, 0)
                unit = UNITS[charge]
                # Sevenths of a GPU are rounded in a status.
                if abs(Fraction(str(said)) - Fraction(wanted[charge], unit)) >= Fraction(1, 10**5):
                    yield name, f"its {field} of {charge} is {said}, and its gangs have {wanted[charge] / unit:g}"
