"""What must not change when a question is asked another way, and what a cycle leaves for the next (SPEC §5.6, §11)."""

import copy
import os
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.plan.cycle import Policy, schedule
from muster.plan.layout import SPREAD
from muster.plan.outcome import Verdict
from muster.plan.proof import Certificate, Choices
from muster.plan.recount import refutes
from muster.snapshot.build import Builder, build
from muster.snapshot.world import World
from oracle import instances, milp
from oracle.engine import after, apply, ask, said, sent, world_of
from oracle.instances import GPU, LARGE, SMALL, node, topology
from oracle.problem import Problem, read

EXAMPLES = int(os.environ.get("MUSTER_TEST_EXAMPLES", "200"))
FULL = replace(LARGE, terminating=True, preferred=True)
few = settings(max_examples=max(1, EXAMPLES // 4))


def verdict_of(documents) -> Verdict:
    return ask(documents).outcome.verdict


@few
@given(st.one_of(instances.problems(FULL), instances.tight()), st.randoms(use_true_random=False))
def test_the_order_of_documents_means_nothing(documents, random):
    """Nodes, pods and groups in any order: the same plan, to the last reason."""
    shuffled = random.sample(documents, len(documents))
    assert said(ask(shuffled).plan) == said(ask(documents).plan)


@few
@given(st.one_of(instances.problems(FULL), instances.tight()), st.randoms(use_true_random=False))
def test_names_decide_nothing_but_ties(documents, random):
    """Other names of nodes and pods: the same verdict."""
    names = [one["metadata"]["name"] for one in documents if one["kind"] in ("Node", "Pod")]
    other = dict(zip(names, random.sample(names, len(names)), strict=True))
    renamed = copy.deepcopy(documents)
    for one in renamed:
        if one["kind"] in ("Node", "Pod"):
            one["metadata"]["name"] = other[one["metadata"]["name"]]
        if one["kind"] == "Pod" and "nodeName" in one["spec"]:
            one["spec"]["nodeName"] = other[one["spec"]["nodeName"]]
    assert verdict_of(renamed) is verdict_of(documents)


@few
@given(st.one_of(instances.problems(FULL), instances.tight()), st.sampled_from(["", "a", "ab"]))
def test_one_more_empty_node_never_hurts(documents, path):
    """What is placed stays placed when there is more room."""
    if verdict_of(documents) is Verdict.PLACED:
        assert verdict_of([*documents, node("another", 8, *path)]) is Verdict.PLACED


@few
@given(st.one_of(instances.problems(FULL), instances.tight()), st.randoms(use_true_random=False))
def test_two_shapes_that_mean_the_same_are_one(documents, random):
    """A toleration that nobody needs, on some of the pods, changes no verdict."""
    split = copy.deepcopy(documents)
    for one in split:
        if one["kind"] == "Pod" and random.random() < 0.5:
            one["spec"].setdefault("tolerations", []).append({"key": "nobody", "operator": "Exists"})
    assert verdict_of(split) is verdict_of(documents)


@few
@given(st.one_of(instances.problems(FULL), instances.tight()))
def test_how_nodes_are_filled_decides_nothing(documents):
    """Spread or binpack: the same verdict, and both pass the oracle's check."""
    packed, spread = ask(documents), ask(documents, Policy(strategy=SPREAD))
    assert spread.outcome.verdict is packed.outcome.verdict
    if spread.bound:
        assert read(documents).faults(spread.bound) == []


@few
@given(st.one_of(instances.problems(FULL), instances.tight()))
def test_surplus_pods_decide_nothing(documents):
    """Without the pods that the minimum can do without, the verdict is the same."""
    asked, problem = ask(documents), read(documents)
    if asked.outcome.verdict is not Verdict.PLACED or asked.nominated:
        return
    counted = problem.counted(asked.bound)
    spare = {member.name for member in problem.waiting() if member.name not in asked.bound}
    for name in sorted(asked.bound):
        leaf = next(member.leaf for member in problem.members if member.name == name)
        if problem.satisfied({**counted, leaf: counted[leaf] - 1}):
            counted[leaf] -= 1
            spare.add(name)
    left = [one for one in documents if one["metadata"]["name"] not in spare]
    assert verdict_of(left) is Verdict.PLACED


@st.composite
def crowds(draw, size=SMALL) -> list[dict]:
    """Two or three gangs on one cluster, of different priorities; every name once."""
    documents = draw(instances.problems(size))
    nodes = [one["metadata"]["name"] for one in documents if one["kind"] == "Node"]
    for other in draw(st.sampled_from(["b", "bc"])):
        spec = draw(instances.trees(size, 4))
        spec["priorityClassName"] = draw(st.sampled_from(["", "train", "inference"]))
        group = instances.group(**spec)
        group["metadata"]["name"] = other
        documents.append(group)
        for pod in draw(instances.members(spec, nodes, size)):
            pod["metadata"]["name"] = other + pod["metadata"]["name"]
            pod["metadata"]["annotations"] = {"pod-group-name": other}
            documents.append(pod)
    return documents


def alone(documents: list[dict], gang: str) -> list[dict]:
    """The documents as one gang sees them: the pods of others are just there."""
    return [one for one in documents if one["kind"] != "PodGroup" or one["metadata"]["name"] == gang]


@few
@given(crowds(replace(SMALL, nodes=7, preferred=True)))
def test_one_cycle_does_all_that_can_be_done(documents):
    """When its binds have happened the next cycle has nothing to add (SPEC §11.11), and nobody who fits was refused."""
    plan, _ = schedule(build(world_of(documents), 0))
    later = after(documents, plan)
    again, _ = schedule(build(world_of(later), 0))
    assert sent(again, key=None) == {}
    for gang, before, now in zip(plan.snapshot.gangs, plan.outcomes, again.outcomes, strict=True):
        assert (gang.key, now.verdict) == (gang.key, before.verdict)
        assert (gang.key, now.satisfied) == (gang.key, before.satisfied)
        problem = read(alone(later, gang.key[1]))
        if before.verdict is Verdict.INFEASIBLE:
            assert milp.place(problem) is None
        moved = sent(plan, key=gang.key)
        seen = read(alone([one for one in later if one["metadata"]["name"] not in moved], gang.key[1]))
        assert not moved or before.satisfied
        assert seen.children == problem.children


@few
@given(crowds(replace(SMALL, nodes=7, terminating=True)))
def test_nominations_stand_while_nothing_changes(documents):
    """The next cycle reserves the same room for the same pods, and binds nothing."""
    plan, _ = schedule(build(world_of(documents), 0))
    if not sent(plan, nominated=True, key=None):
        return
    again, _ = schedule(build(world_of(after(documents, plan)), 0))
    assert sent(again, key=None) == {}
    assert sent(again, nominated=True, key=None) == sent(plan, nominated=True, key=None)


@given(instances.problems(replace(LARGE, terminating=True)), st.randoms(use_true_random=False))
def test_a_nomination_of_its_own_is_no_reason_to_refuse_a_gang(documents, random):
    """Old nominations, sensible or not, change no verdict; what is decided passes the oracle's check all the same."""
    nodes = [one["metadata"]["name"] for one in documents if one["kind"] == "Node"]
    hinted = copy.deepcopy(documents)
    for one in hinted:
        if one["kind"] == "Pod" and not one["spec"].get("nodeName") and random.random() < 0.5:
            one.setdefault("status", {})["nominatedNodeName"] = random.choice([*nodes, "gone"])
    asked, problem, later = ask(hinted), read(documents), read(documents, soon=True)
    assert asked.outcome.verdict is verdict_of(documents)
    if asked.bound:
        assert problem.faults(asked.bound) == []
    if asked.nominated:
        assert later.faults({**asked.bound, **asked.nominated}) == []


@few
@given(crowds(replace(SMALL, nodes=7, terminating=True)))
def test_room_is_given_once(documents):
    """Whatever the gangs are told together, no node is over-committed by it."""
    plan, _ = schedule(build(world_of(documents), 0))
    room = {name: machine.room for name, machine in read(alone(documents, "g"), soon=True).machines.items()}
    mine = {one["metadata"]["name"]: one for one in documents if one["kind"] == "Pod"}
    where = {**sent(plan, key=None), **sent(plan, nominated=True, key=None)}
    for name, one in mine.items():
        on = where.get(name, one["spec"].get("nodeName", ""))
        placed_before = name not in where and one["metadata"].get("annotations", {}).get("pod-group-name") == "g"
        running = one.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        if on in room and running and "deletionTimestamp" not in one["metadata"] and (placed_before or name in where):
            asks = one["spec"]["containers"][0]["resources"]["requests"]
            for resource, asked in asks.items():
                room[on][resource] -= int(asked) * 1000
                assert name not in where or not int(asked) or room[on][resource] >= 0
            room[on]["pods"] -= 1000


@st.composite
def loners(draw) -> list[dict]:
    """Many gangs of one pod, most of them alike, which are placed together; and some that are not."""
    documents = [*draw(instances.clusters(5)), topology(), topology("net")]
    nodes = [one["metadata"]["name"] for one in documents if one["kind"] == "Node"]
    for index in range(draw(st.integers(1, 12))):
        minimum = 2 if draw(st.integers(0, 5)) == 0 else 1
        priority = draw(st.sampled_from(["", "", "train", "inference"]))
        one = instances.group(minMember=minimum, priorityClassName=priority)
        name = one["metadata"]["name"] = f"g{index:02}"
        shape = draw(st.sampled_from([{"gpus": 1}, {"gpus": 1}, {"gpus": 2}, {"gpus": 1, "zone": "a"}, {"gpus": 0}]))
        documents.append(one)
        documents += [instances.pod(f"{name}-{pod}", gang=name, **shape) for pod in range(minimum)]
    for index in range(draw(st.integers(0, 2))):
        where, gone = draw(st.sampled_from(nodes)), draw(st.booleans())
        documents.append(instances.pod(f"o{index}", "", 1, 0, where, "Running", gang="", terminating=gone))
    return documents


@given(loners())
def test_many_small_gangs_are_served_in_order(documents):
    """Nobody is left behind who fits, nobody before his turn, and the order of documents means nothing."""
    plan, _ = schedule(build(world_of(documents), 0))
    assert said(schedule(build(world_of(documents[::-1]), 0))[0]) == said(plan)
    later = after(documents, plan)
    again, _ = schedule(build(world_of(later), 0))
    assert sent(again, key=None) == {}
    promised = copy.deepcopy(later)
    for one in promised:
        nominated = one.get("status", {}).get("nominatedNodeName")
        if nominated:
            one["spec"]["nodeName"] = nominated
    refused: dict[object, list[tuple[int, str]]] = {}
    for gang, outcome in zip(plan.snapshot.gangs, plan.outcomes, strict=True):
        (batch,) = gang.waiting
        turn = (-gang.priority, gang.key[1])
        if outcome.verdict is Verdict.INFEASIBLE:
            assert milp.place(read(alone(promised, gang.key[1]), soon=True)) is None
            refused.setdefault((batch.shape, len(batch.pods)), []).append(turn)
    for gang, outcome in zip(plan.snapshot.gangs, plan.outcomes, strict=True):
        (batch,) = gang.waiting
        earlier = refused.get((batch.shape, len(batch.pods)), [])
        if outcome.verdict is Verdict.PLACED:
            assert all((-gang.priority, gang.key[1]) < turn for turn in earlier)


@st.composite
def stories(draw) -> tuple[list[dict], list[tuple[dict, bool]]]:
    """Some documents, and events after them: objects come, go and change, pods run and end."""
    documents = draw(crowds(replace(SMALL, terminating=True, preferred=True)))
    events = []
    for _ in range(draw(st.integers(1, 8))):
        one = copy.deepcopy(draw(st.sampled_from(documents)))
        how = draw(st.sampled_from(["gone", "same", "changed", "changed"]))
        if how == "changed" and one["kind"] == "Node":
            one["status"]["allocatable"][GPU] = str(draw(st.integers(0, 8)))
            one["spec"] = {"unschedulable": True} if draw(st.booleans()) else {}
        elif how == "changed" and one["kind"] == "Pod":
            one["status"] = {"phase": draw(st.sampled_from(["", "Running", "Succeeded", "Failed"]))}
            names = [other["metadata"]["name"] for other in documents if other["kind"] == "Node"]
            one["spec"]["nodeName"] = draw(st.sampled_from(["", *names]))
            if not one["spec"]["nodeName"]:
                one["status"]["nominatedNodeName"] = draw(st.sampled_from(["", *names]))
        elif how == "changed" and one["kind"] == "PodGroup":
            one["spec"].pop("topologyConstraint", None)
        events.append((one, how == "gone"))
    return documents, events


def key_of(document: dict) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


@few
@given(stories())
def test_step_by_step_is_as_from_scratch(story):
    """A builder that follows events gives the plan of one that starts with the last state; so does a memory."""
    documents, events = story
    world = World()
    for one in documents:
        apply(world, one)
    builder, state, memory = Builder(world), {key_of(one): one for one in documents}, None
    builder.build(0)
    for one, deleted in events:
        apply(world, one, deleted=deleted)
        state.pop(key_of(one), None)
        if not deleted:
            state[key_of(one)] = one
        snapshot = builder.build(0)
        plan, _ = schedule(snapshot)
        fresh, _ = schedule(build(world_of(list(state.values())), 0))
        assert said(plan) == said(fresh)
        remembered, memory = schedule(snapshot, memory=memory)
        assert [one.verdict for one in remembered.outcomes] == [one.verdict for one in plan.outcomes]
        assert remembered.placements == plan.placements


def certificates(proof) -> list[Certificate]:
    """All certificates in a proof; one about several choices has many."""
    if isinstance(proof, Choices):
        below = [*proof.refuted, *(one for _, one in proof.barred)]
        return [found for one in below for found in certificates(one)]
    return [proof] if isinstance(proof, Certificate) else []


@few
@given(st.one_of(instances.problems(LARGE), instances.problems(replace(LARGE, terminating=True)), instances.tight()))
def test_certificates_can_be_checked_again(documents):
    """The checker, which counts for itself, agrees with every certificate, and not when less is asked for."""
    asked = ask(documents)
    snapshot = asked.plan.snapshot
    free = snapshot.free + snapshot.releasing
    for proof in certificates(asked.outcome.proof):
        assert refutes(snapshot, free, proof)
        domains = [len(snapshot.topologies[bound.topology].levels[bound.level].paths) for bound in proof.bounds]
        if proof.shortages and all(domains):
            nothing = proof._replace(parts=tuple(part._replace(pods=0) for part in proof.parts))
            assert not refutes(snapshot, free, nothing)


def has_choice(problem: Problem) -> bool:
    """Whether there is more than one way to choose children and pods; without, a certificate is about the only one."""
    if problem.floor or any(problem.minimum[name] < len(below) for name, below in problem.children.items()):
        return True
    counted, waiting = problem.counted({}), [member.leaf for member in problem.waiting()]
    return any(counted.get(leaf, 0) + waiting.count(leaf) != problem.minimum[leaf] for leaf in set(waiting))


@few
@given(instances.problems(LARGE), st.integers(0, 3), st.integers(0, 3))
def test_a_certificate_does_not_outlive_its_reason(documents, gpus, cpus):
    """With more room the checker still believes it only if the solver says so too."""
    asked, problem = ask(documents), read(documents)
    proof = asked.outcome.proof
    if not isinstance(proof, Certificate) or has_choice(problem):
        return
    richer = copy.deepcopy(documents)
    for one in richer:
        if one["kind"] == "Node":
            have = one["status"]["allocatable"]
            have.update({GPU: str(int(have[GPU]) + gpus), "cpu": str(int(have["cpu"]) + cpus), "pods": "110"})
    now = build(world_of(richer), 0)
    if refutes(now, now.free, proof):
        assert milp.place(read(richer)) is None
