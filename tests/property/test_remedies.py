"""Every remedy is true: with the change made in the documents, by the command that is printed, the gang is placed."""

import copy
import json
import os
import shlex
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.tree import NONE
from muster.decisions.explanation import document_of, explain
from muster.plan.cycle import Policy
from muster.plan.outcome import Verdict
from muster.plan.remedies import EVICT, FREE, LOWER, RELAX, UNCORDON, Remedy, remedies
from muster.snapshot.arrays import Snapshot
from oracle import instances, milp
from oracle.engine import GANG, Asked, Document, after, ask
from oracle.instances import SMALL, one_in
from oracle.problem import read

EXAMPLES = int(os.environ.get("MUSTER_TEST_EXAMPLES", "200"))
GENTLE = [UNCORDON, EVICT, RELAX, LOWER, FREE]
POLICY = Policy()


@st.composite
def crowds(draw: st.DrawFn) -> list[Document]:
    """A gang that often does not fit, beside others that run, some with more than they need, and some that wait."""
    size = replace(SMALL, preferred=draw(st.booleans()), terminating=one_in(draw, 3))
    documents = draw(instances.problems(size))
    nodes = [one for one in documents if one["kind"] == "Node"]
    for one in nodes:
        if one_in(draw, 5):
            one["spec"]["unschedulable"] = True
    names = [one["metadata"]["name"] for one in nodes]
    for other in draw(st.sampled_from(["", "b", "bc", "bc"])):
        spec = draw(instances.trees(SMALL, 3))
        spec["priorityClassName"] = draw(st.sampled_from(["", "", "train", "inference"]))
        spec["preemptibility"] = draw(st.sampled_from(["", "preemptible", "semi-preemptible", "non-preemptible"]))
        group = instances.group(**spec)
        group["metadata"]["name"] = other
        documents.append(group)
        for pod in draw(instances.members(spec, names, SMALL)):
            pod["metadata"]["name"] = other + pod["metadata"]["name"]
            pod["metadata"]["annotations"] = {"pod-group-name": other}
            if not one_in(draw, 4):
                pod["spec"]["nodeName"] = draw(st.sampled_from(names))
                pod["status"] = {"phase": "Running"}
            documents.append(pod)
    return documents


@st.composite
def blocked(draw: st.DrawFn) -> list[Document]:
    """A gang that mostly fits exactly, but others are in its way: surplus, pods of nobody, cordons, a set, a floor."""
    documents = draw(instances.tight(replace(SMALL, nodes=6, pods=8)))
    names = [one["metadata"]["name"] for one in documents if one["kind"] == "Node"]
    (group,) = [one for one in documents if one["kind"] == "PodGroup"]
    leaves = [one["name"] for one in group["spec"]["subGroups"]]
    twist = draw(st.sampled_from(["", "set", "floor", "global"]))
    level = {"topology": "dc", "requiredTopologyLevel": draw(st.sampled_from(["block", "rack"]))}
    if twist == "set" and len(leaves) > 1:
        first = draw(st.integers(0, len(leaves) - 2))
        sets = [{"subGroups": leaves[first : first + 2], "constraint": level}]
        group["spec"]["topologyConstraints"] = {"subGroupSets": sets}
    elif twist == "global":
        group["spec"]["topologyConstraints"] = {"global": level}
    elif twist == "floor":
        group["spec"].pop("minSubGroup", None)
        group["spec"]["minMember"] = sum(one["kind"] == "Pod" for one in documents)
    children = [{"name": name, "minMember": 1} for name in ("x", "y", "z")]
    preemptibility = draw(st.sampled_from(["preemptible", "preemptible", "semi-preemptible", "non-preemptible"]))
    owner = {"b": {"minMember": 1}, "c": {"minSubGroup": 1, "subGroups": children}}
    for other, spec in owner.items():
        gang = instances.group(**spec, preemptibility=preemptibility)
        gang["metadata"]["name"] = other
        documents += [gang, instances.pod(f"{other}-home", "x" * (other == "c"), 0, 0, "home", "Running", gang=other)]
    documents.append(instances.node("home", 0))
    for index in range(draw(st.integers(1, 4))):
        where = draw(st.sampled_from(names))
        how = draw(st.sampled_from(["b", "b", "c", "stranger", "cordon"]))
        if how == "cordon":
            next(one for one in documents if one["metadata"]["name"] == where)["spec"]["unschedulable"] = True
            continue
        leaf = draw(st.sampled_from("yz")) if how == "c" else ""
        gang = how if how != "stranger" else ""
        documents.append(instances.pod(f"{how}{index}", leaf, 1, 0, where, "Running", gang=gang))
    return documents


def pods_on(documents: list[Document], nodes: set[str], *, own: bool) -> set[str]:
    """Pods that run on some nodes and do not terminate: those of the gang g, or all others."""
    return {
        one["metadata"]["name"]
        for one in documents
        if one["kind"] == "Pod"
        and one["spec"].get("nodeName") in nodes
        and "deletionTimestamp" not in one["metadata"]
        and (one["metadata"]["annotations"].get("pod-group-name") == GANG[1]) == own
    }


def victims_of(remedy: Remedy, snapshot: Snapshot) -> set[str]:
    return {snapshot.gangs[one.gang].placed[one.leaf].pods[one.pod] for one in remedy.victims}


def patched(documents: list[Document], command: str) -> list[Document]:
    """The documents after `kubectl patch --type=json` of the gang g."""
    words = shlex.split(command)
    assert words[:2] == ["kubectl", "patch"]
    assert words[3:6] == ["-n", GANG[0], GANG[1]]
    changed = copy.deepcopy(documents)
    (group,) = [one for one in changed if one["kind"] == "PodGroup" and one["metadata"]["name"] == GANG[1]]
    for change in json.loads(words[words.index("-p") + 1]):
        patch(group, change)
    return changed


def parent_of(document: Any, pointer: str) -> tuple[Any, Any]:
    """RFC 6901: what holds a value, and its key there. The holder must exist."""
    *above, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    for part in above:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document, int(last) if isinstance(document, list) else last


def patch(document: Any, change: dict[str, Any]) -> None:
    """RFC 6902, as far as it is used."""
    holder, key = parent_of(document, change["path"])
    if change["op"] == "remove":
        del holder[key]
    elif change["op"] == "move":
        before, old = parent_of(document, change["from"])
        holder[key] = before.pop(old)
    else:
        assert change["op"] in ("add", "replace")
        assert change["op"] == "add" or key in holder
        holder[key] = change["value"]


def applied(documents: list[Document], remedy: Remedy, command: str, snapshot: Snapshot) -> list[Document]:
    """The documents with the change that a remedy proposes."""
    nodes = {snapshot.nodes[node] for node in remedy.nodes}
    if remedy.kind in (RELAX, LOWER):
        return patched(documents, command)
    gone = victims_of(remedy, snapshot) if remedy.kind == EVICT else set()
    if remedy.kind == FREE:
        gone = pods_on(documents, nodes, own=False)
    changed = [copy.deepcopy(one) for one in documents if one["metadata"]["name"] not in gone]
    for one in changed if remedy.kind == UNCORDON else ():
        if one["metadata"]["name"] in nodes:
            del one["spec"]["unschedulable"]
    return changed


def requested(documents: list[Document], remedy: Remedy, snapshot: Snapshot) -> list[Document]:
    """The documents after an EvictionRequest for the remedy was carried out: the room is reserved, the victims are
    gone, and their owners have created them again.
    """
    documents = copy.deepcopy(documents)
    for one in documents:
        one["metadata"].setdefault("uid", f"uid-of-{one['metadata']['name']}")
    gone = victims_of(remedy, snapshot)
    spec = {
        "beneficiary": {"namespace": GANG[0], "name": GANG[1], "uid": f"uid-of-{GANG[1]}"},
        "victims": [{"namespace": "default", "name": name, "uid": f"uid-of-{name}"} for name in sorted(gone)],
    }
    metadata = {"name": "r", "namespace": "muster-system", "uid": "r", "creationTimestamp": "1970-01-01T00:00:00Z"}
    asks = {"apiVersion": "muster.dev/v1alpha1", "kind": "EvictionRequest", "metadata": metadata, "spec": spec}
    first = ask([*documents, asks]).plan
    assert first.answers == ()
    second = ask([*after(documents, first), asks]).plan
    assert [one.phase for one in second.answers] == ["Granted"]
    left = after(documents, second)
    for one in left:
        if one["metadata"]["name"] in gone:
            one["metadata"] |= {"name": f"{one['metadata']['name']}-again", "uid": "new"}
            del one["spec"]["nodeName"]
            one["status"] = {}
    return left


def missing_of(asked: Asked) -> str:
    """The tree node that remedies are about: the root, or the first optional child that waits with all its pods."""
    gang, outcome = asked.plan.of(GANG)
    if not outcome.satisfied:
        return ""
    for row, node in enumerate(gang.tree.nodes):
        around = node.parent
        while around != NONE and outcome.rows[around].satisfied:
            around = gang.tree.nodes[around].parent
        if around == NONE and not outcome.rows[row].satisfied and gang.ready[row]:
            return node.name
    return ""


def has_it(documents: list[Document], name: str) -> bool:
    """Whether the gang, and one of its tree nodes, is satisfied after a cycle."""
    asked = ask(documents)
    gang, outcome = asked.plan.of(GANG)
    return outcome.satisfied and outcome.rows[gang.tree.row_of[name]].satisfied


def found_for(asked: Asked) -> tuple[tuple[Remedy, ...], list[str]]:
    """The remedies and their commands."""
    number = next(at for at, gang in enumerate(asked.plan.snapshot.gangs) if gang.key == GANG)
    found = remedies(asked.plan, number, POLICY)
    told = explain(asked.plan, number, found)
    json.dumps(document_of(told, asked.plan.snapshot))
    return found, [one.command for one in told.helps]


@settings(max_examples=EXAMPLES + EXAMPLES // 4)
@given(st.one_of(crowds(), blocked()))
def test_every_remedy_is_true(documents):
    """Applied to the documents it makes the gang fit; nothing of it can be left out; the gentlest come first."""
    asked = ask(documents)
    snapshot, name = asked.plan.snapshot, missing_of(asked)
    found, commands = found_for(asked)
    if asked.outcome.verdict is Verdict.HELD or (asked.outcome.satisfied and not name):
        assert found == ()
        return
    kinds = [remedy.kind for remedy in found]
    assert kinds == sorted(set(kinds), key=GENTLE.index)
    assert len(kinds) <= 3
    for remedy, command in zip(found, commands, strict=True):
        if remedy.kind == EVICT:
            survives(requested(documents, remedy, snapshot))
        else:
            assert has_it(applied(documents, remedy, command, snapshot), name), remedy
        if remedy.kind == EVICT:
            harmless(documents, remedy, asked)
        if remedy.kind == FREE:
            assert not pods_on(documents, {snapshot.nodes[node] for node in remedy.nodes}, own=True) & set(
                placed_of(asked)
            )
        assert_minimal(documents, remedy, name, asked)


def survives(documents: list[Document]) -> None:
    """The gang gets the room that is reserved for it, and keeps it while the pods that are gone come back."""
    for _ in range(3):
        asked = ask(documents)
        assert asked.outcome.satisfied
        number = next(at for at, gang in enumerate(asked.plan.snapshot.gangs) if gang.key == GANG)
        assert all(one.gang != number for one in asked.plan.evictions)
        documents = after(documents, asked.plan)


def placed_of(asked: Asked) -> list[str]:
    gang, _ = asked.plan.of(GANG)
    return [pod for placed in gang.placed.values() for pod in placed.pods]


def harmless(documents: list[Document], remedy: Remedy, asked: Asked) -> None:
    """Victims are surplus of gangs that may be preempted: what was satisfied and needed stays so."""
    snapshot = asked.plan.snapshot
    gone = victims_of(remedy, snapshot)
    left = ask([one for one in documents if one["metadata"]["name"] not in gone]).plan.snapshot
    for victim in remedy.victims:
        before, (now,) = (
            snapshot.gangs[victim.gang],
            [g for g in left.gangs if g.key == snapshot.gangs[victim.gang].key],
        )
        assert before.key != GANG
        assert before.preemptibility != "non-preemptible"
        assert before.satisfied[0]
        assert now.satisfied[0]


def assert_minimal(documents: list[Document], remedy: Remedy, name: str, asked: Asked) -> None:
    """Once the plan is carried out, the remedy with one node or pod less does not help."""
    done, snapshot = after(documents, asked.plan), asked.plan.snapshot
    if remedy.kind in (UNCORDON, FREE):
        fewer = [remedy._replace(nodes=tuple(n for n in remedy.nodes if n != out)) for out in remedy.nodes]
    else:
        # Pods of an extra child go together.
        alone = [one for one in remedy.victims if len(snapshot.gangs[one.gang].tree.nodes) == 1]
        fewer = [remedy._replace(victims=tuple(v for v in remedy.victims if v != out)) for out in alone]
    for less in fewer:
        assert not has_it(applied(done, less, "", snapshot), name), (remedy, less)


@settings(max_examples=EXAMPLES // 2 + 1)
@given(instances.problems(SMALL))
def test_a_change_that_must_help_is_found(documents):
    """Nodes emptied of all others: when the oracle says that the gang then fits, some remedy is found."""
    asked = ask(documents)
    if asked.outcome.verdict is not Verdict.INFEASIBLE:
        return
    own = pods_on(documents, {one["metadata"]["name"] for one in documents}, own=True)
    emptied = [one for one in documents if one["kind"] != "Pod" or one["metadata"]["annotations"]]
    if not own and milp.place(read(emptied)) is not None:
        assert found_for(asked)[0]
