"""Who is evicted for whom, on small clusters with queues: an oracle tries every set of victims (SPEC §8, §11).

Every instance is a scenario: a failure prints it as a file that can be put into tests/scenarios.
"""

import os
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, note, settings
from hypothesis import strategies as st

from muster.plan.outcome import Plan, Verdict
from oracle import victims
from oracle.instances import one_in
from oracle.queues import CHARGES, total
from oracle.victims import CONSOLIDATE, PREEMPT, RECLAIM, Cluster
from scenarios.carry import evicted_of, sent_of
from scenarios.format import Scenario
from scenarios.story import Story

EXAMPLES = int(os.environ.get("MUSTER_TEST_EXAMPLES", "200"))
# Units to choose from, up to which the choice is the best there is (SPEC §8).
EXACT = 12
Objects = dict[str, Any]
CLASSES = ["", "train", "train", "build-preemptible"]
KINDS = ["preemptible", "preemptible", "preemptible", "preemptible", "semi-preemptible", "non-preemptible"]


def some(share: float) -> settings:
    """A share of the usual number of examples."""
    return settings(max_examples=max(1, int(EXAMPLES * share)))


@st.composite
def queue_trees(draw: st.DrawFn) -> Objects:
    """No queues at all, two or three, or some below a parent."""
    if one_in(draw, 3):
        return {}

    def queue(**more: Any) -> Objects:
        found: Objects = {"quota": draw(st.sampled_from([0, 0, 1, 2, 3, 4])), **more}
        if one_in(draw, 10):
            found["limit"] = draw(st.sampled_from([2, 3, 4, 6]))
        if one_in(draw, 4):
            found["weight"] = draw(st.sampled_from([0, 2, 3]))
        if one_in(draw, 6):
            found["priority"] = 200
        if one_in(draw, 6):
            found[draw(st.sampled_from(["preemptMinRuntime", "reclaimMinRuntime"]))] = "60s"
        return found

    names = ["a", "b", "c"][: draw(st.integers(2, 3))]
    parent = {"parent": "top"} if one_in(draw, 3) else {}
    found = {name: queue(**(parent if name != "c" else {})) for name in names}
    return {**found, **({"top": queue()} if parent else {})}


@st.composite
def specs(draw: st.DrawFn, most: int) -> tuple[Objects, dict[str, int]]:
    """The spec of a gang, and the minimum of every leaf ("" when it is flat)."""
    if most < 2 or draw(st.integers(0, 2)) == 0:
        minimum = draw(st.integers(1, min(3, most)))
        return {"minMember": minimum}, {"": minimum}
    names = ["x", "y", "z"][: draw(st.integers(2, 3))]
    leaves = {name: draw(st.sampled_from([1, 1, 2])) for name in names}
    below = [{"name": name, "minMember": minimum} for name, minimum in leaves.items()]
    spec: Objects = {"subGroups": below}
    if one_in(draw, 5):
        # One level more: the first leaves are below a branch.
        below[0]["parent"] = below[1]["parent"] = "w"
        spec["subGroups"] = [{"name": "w", "minSubGroup": draw(st.integers(1, 2))}, *below]
    direct = sum("parent" not in one for one in spec["subGroups"])
    choice = draw(st.sampled_from(["some", "some", "all", "floor"]))
    if choice == "some":
        spec["minSubGroup"] = draw(st.integers(1, direct))
    elif choice == "floor":
        spec["minMember"] = sum(leaves.values()) + (draw(st.integers(0, 1)) if most > 2 else 0)
    return spec, leaves


@st.composite
def crowds(draw: st.DrawFn, waiting: int = 1, most: int = 8) -> Objects:
    """A small cluster that running gangs fill but for some holes, and who waits: `g`, and with two of them `h`."""
    names = [f"n{index}" for index in range(draw(st.integers(2, 6 if waiting > 1 else 4)))]
    used = dict.fromkeys(names, 0)
    queues = draw(queue_trees())
    gangs: Objects = {}
    history: Objects = {}
    pods: list[Objects] = []

    def gang(name: str, spec: Objects, priorities: list[str], kinds: list[str]) -> None:
        gangs[name] = {**spec, "preemptibility": draw(st.sampled_from(kinds))}
        if queues:
            gangs[name]["queue"] = draw(st.sampled_from(sorted(set(queues) - {"top"})))
        if priority := draw(st.sampled_from(priorities)):
            gangs[name]["priorityClassName"] = priority
        history[name] = {"created": -10 * (len(gangs) + 1) if one_in(draw, 2) else -100 + len(gangs)}

    for name in ["l0", "l1", "l2", "l3"][: draw(st.integers(1, 4))]:
        spec, leaves = draw(specs(3))
        gang(name, spec, CLASSES, KINDS)
        if one_in(draw, 4):
            history[name]["started"] = draw(st.sampled_from([-30, -90]))
        for leaf, minimum in leaves.items():
            size = draw(st.sampled_from([1, 1, 1, 2]))
            for _ in range(minimum + draw(st.sampled_from([0, 0, 0, 0, 1, 1, 1, 2, -1]))):
                if len(pods) < most:
                    where = draw(st.sampled_from(names))
                    used[where] += size
                    pods.append(_pod(draw, name, leaf, len(pods), size, where))
    for name in ["g", "h"][:waiting]:
        spec, leaves = draw(specs(2))
        gang(name, spec, ["", "train", "build-preemptible", "build-preemptible"], ["preemptible"] * 5 + KINDS[-2:])
        if one_in(draw, 3):
            gangs[name]["topologyConstraint"] = {"topology": "dc", "requiredTopologyLevel": "rack"}
        if one_in(draw, 8):
            gangs[name]["preemptionDelay"] = draw(st.sampled_from(["1m", "10m"]))
        for leaf, minimum in leaves.items():
            size = draw(st.sampled_from([1, 1, 2, 2, 3]))
            for number in range(minimum):
                pods.append({"gang": name, "name": f"{name}{leaf}{number}", "gpus": size, **_leaf(leaf)})
    holes = [draw(st.sampled_from([0, 0, 0, 1, 1, 2])) for _ in names]
    budgets = {"web": {"selects": {"app": "web"}, "allowed": draw(st.integers(0, 1))}} if one_in(draw, 6) else {}
    return {
        "topologies": {"dc": ["zone", "rack"]},
        "nodes": [
            {"name": name, "gpus": used[name] + hole, "zone": "z", "rack": f"r{index % 2}"}
            for index, (name, hole) in enumerate(zip(names, holes, strict=True))
        ],
        "queues": queues,
        "gangs": gangs,
        "history": history,
        "pods": pods,
        "budgets": budgets,
    }


def _leaf(leaf: str) -> Objects:
    return {"subGroup": leaf} if leaf else {}


def _pod(draw: st.DrawFn, gang: str, leaf: str, number: int, size: int, where: str) -> Objects:
    pod: Objects = {"gang": gang, "name": f"p{number}-{gang}{leaf}", "gpus": size, "on": where, **_leaf(leaf)}
    if one_in(draw, 2):
        pod["age"] = draw(st.integers(0, 50))
    if one_in(draw, 8):
        pod["controlled"] = False
    if one_in(draw, 3):
        pod["labels"] = {"app": "web"}
    return pod


def shown(objects: Objects) -> str:
    """The instance as a scenario file."""
    header = {"claim": "Found by hypothesis", "why": "w", **{key: value for key, value in objects.items() if value}}
    return yaml.safe_dump({**header, "steps": [{"expect": {}}]}, sort_keys=False, default_flow_style=None, width=140)


def played(objects: Objects) -> Story:
    """One cycle over the instance: the oracle finds no fault, and the order of documents means nothing."""
    note(shown(objects))
    scenario = msgspec.convert({"claim": "c", "why": "w", **objects, "steps": [{"expect": {}}]}, Scenario)
    story = Story(scenario)
    story.play()
    return story


def cluster_of(story: Story) -> Cluster:
    """The oracle's view of the instance; it understands all of them."""
    cluster = victims.of(list(story.documents.values()), story.now_ns)
    assert cluster is not None
    return cluster


def voluntary(plan: Plan) -> dict[str, str]:
    """Pods that go for the minimum of g, by action; once it has that, its surplus may take more."""
    _, outcome = plan.of(("default", "g"))
    if outcome.satisfied:
        return {}
    return {one.pod[1]: one.action for one in evicted_of(plan) if one.beneficiary is not None}


@given(st.integers(1, 2).flatmap(lambda waiting: crowds(waiting, 12)))
def test_nobody_is_wronged(objects):
    """Invariants 5, 6 and 7 of SPEC §11, by an oracle that reads the documents for itself."""
    played(objects)


@some(0.5)
@given(st.integers(1, 2).flatmap(lambda waiting: crowds(waiting, 12)))
def test_it_comes_to_rest(objects):
    """Carried out again and again, nobody goes and comes: ten cycles in the end change nothing."""
    played(objects).rest()


@given(crowds())
def test_victims_are_found_when_there_are_any(objects):
    """Nobody is refused whose minimum some legal set of victims makes fit; and nobody goes when there is none."""
    story = played(objects)
    cluster, going = cluster_of(story), voluntary(story.plan)
    _, outcome = story.plan.of(("default", "g"))
    if outcome.verdict in (Verdict.HELD, Verdict.UNDECIDED):
        assert outcome.verdict is Verdict.HELD, "nothing is undecided at this size"
        assert not going
    if cluster.fits("g"):
        assert not going
        assert outcome.verdict is Verdict.PLACED
        return
    for action in (CONSOLIDATE, RECLAIM, PREEMPT):
        answers = cluster.answers("g", action)
        if action in going.values():
            return
        assert not answers, f"{action}: {sorted(min(answers, key=lambda one: one.rank).pods)} could go for g"
    assert outcome.verdict is not Verdict.PLACED


@given(crowds())
def test_no_victim_can_be_spared(objects):
    """The victims of a gang are minimal: no smaller legal set of them makes it fit (SPEC §8)."""
    story = played(objects)
    going = voluntary(story.plan)
    if not going:
        return
    (action,) = set(going.values())
    cluster = cluster_of(story)
    fewer = [one for one in cluster.answers("g", action) if one.pods < set(going)]
    assert not fewer, f"of {sorted(going)} {sorted(fewer[0].pods)} are enough"


@given(crowds(most=6))
def test_the_best_victims_are_chosen(objects):
    """Where there are few units the choice is the best of all: surplus, low priorities, few pods, young (SPEC §8)."""
    story = played(objects)
    going = voluntary(story.plan)
    if not going:
        return
    (action,) = set(going.values())
    cluster = cluster_of(story)
    exact = all(one.exact for one in story.plan.evictions if one.beneficiary >= 0)
    if cluster.units("g", action) <= EXACT:
        assert exact, "so few units, and not all choices were looked at"
    best = min(cluster.answers("g", action), key=lambda one: (one.rank, sorted(one.pods)), default=None)
    if exact and best is not None:
        found = cluster.rank(going)
        assert found <= best.rank, f"{sorted(going)} {found} go, and {sorted(best.pods)} {best.rank} would be better"


@some(0.5)
@given(st.integers(1, 2).flatmap(lambda waiting: crowds(waiting, 12)))
def test_what_queues_hold_is_what_their_pods_hold(objects):
    """Sums are conserved: a queue has what its placed pods cost, and a parent what its children have (SPEC §2)."""
    story = played(objects)
    cluster, plan = cluster_of(story), story.plan
    gone = {one.pod[1] for one in evicted_of(plan)}
    bound = {pod for (_, pod), (_, nominated) in sent_of(plan).items() if not nominated}

    def after(gang):
        return [one for one in gang.placed if one.name not in gone] + [one for one in gang.waiting if one.name in bound]

    def asked(gang):
        return [*gang.placed, *(gang.waiting if gang.ready() and not cluster.held(gang) else [])]

    def firm(gang):
        names = gang.firm(after(gang))
        return total(one.charge for one in after(gang) if one.name in names)

    expected = {
        "allocated": cluster.allocated(lambda gang: total(one.charge for one in after(gang))),
        "non_preemptible": cluster.allocated(firm),
        "requested": cluster.allocated(lambda gang: total(one.charge for one in asked(gang))),
        "fair_share": cluster.shares,
    }
    if not objects["queues"]:
        return
    found = dict(zip(plan.snapshot.queues.names, plan.queues, strict=True))
    assert set(found) == set(cluster.queues.queues)
    wrong = [
        f"{what} of queue {name} is {tuple(getattr(found[name], what))}, not {amount} ({', '.join(CHARGES)})"
        for what, amounts in expected.items()
        for name, amount in amounts.items()
        if tuple(getattr(found[name], what)) != amount
    ]
    assert wrong == [], "; ".join(wrong)


# Two pods on one node, and one that wants it: each line is a way to be protected.
@pytest.mark.parametrize(
    ("spec", "more"),
    [
        pytest.param({"preemptibility": "non-preemptible"}, {}, id="non-preemptible"),
        pytest.param({"preemptibility": "semi-preemptible"}, {}, id="core"),
        pytest.param({"priorityClassName": "build-preemptible"}, {}, id="priority"),
        pytest.param({}, {"budgets": {"web": {"selects": {"app": "web"}, "allowed": 1}}}, id="budget"),
    ],
)
def test_the_oracle_has_teeth(spec, more):
    """A plan that does what is not allowed is found out; and what is allowed is not."""
    objects = {
        "nodes": [{"name": "n", "gpus": 2}],
        "gangs": {"low": {"minMember": 2}, "g": {"minMember": 2, "priorityClassName": "build-preemptible"}},
        "pods": [{"gang": "low", "count": 2, "on": "n", "labels": {"app": "web"}}, {"gang": "g", "count": 2}],
    }
    story = played(objects)
    done = victims.Done(
        {pod: where for (_, pod), where in sent_of(story.plan).items()},
        [victims.Leaving(one.pod[1], one.action, one.beneficiary[1]) for one in evicted_of(story.plan)],
    )
    assert len(done.evicted) == 2
    assert cluster_of(story).faults(done) == []
    assert cluster_of(story).faults(victims.Done(done.sent, done.evicted[:1])) != []
    assert cluster_of(story).faults(victims.Done({}, done.evicted)) != []
    guarded = {**objects, **more, "gangs": {**objects["gangs"], "low": {"minMember": 2, **spec}}}
    assert cluster_of(played(guarded)).faults(done) != []
