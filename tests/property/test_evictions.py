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

from muster.plan.cycle import schedule
from muster.plan.evictor import Evictor
from muster.plan.outcome import Plan, Verdict
from muster.plan.shares import fair_shares
from muster.sim.objects import BEGIN
from muster.sim.objects import Objects as FormatObjects
from muster.sim.scenario import Scenario
from muster.snapshot.build import build
from oracle import victims
from oracle.engine import world_of
from oracle.instances import one_in
from oracle.queues import CHARGES, PARTS, read_queues, total
from oracle.rights import CONSOLIDATE, PREEMPT, RECLAIM
from oracle.victims import Cluster
from scenarios.carry import evicted_of, sent_of
from scenarios.story import Story, done_by, unlike

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
    """A small cluster that running gangs fill but for some holes, and who waits: `g`, and with two of them `h`.

    With two of them more goes on: running gangs want more, lose pods, were core or stale before; nodes are cordoned.
    """
    names = [f"n{index}" for index in range(draw(st.integers(2, 6 if waiting > 1 else 4)))]
    used = dict.fromkeys(names, 0)
    queues = draw(queue_trees())
    gangs: Objects = {}
    history: Objects = {}
    keep: dict[str, str] = {}
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
        if waiting > 1 and one_in(draw, 4):
            history[name]["core"] = [leaf for leaf in leaves if leaf and draw(st.booleans())]
        if waiting > 1 and one_in(draw, 5):
            history[name]["stale"] = {draw(st.sampled_from(["", *leaves])): draw(st.sampled_from([-70, -10]))}
        if one_in(draw, 5):
            gangs[name]["topologyConstraint"] = {"topology": "dc", "requiredTopologyLevel": "rack"}
        if "" not in leaves and gangs[name]["preemptibility"] != "semi-preemptible" and one_in(draw, 3):
            # What joins a semi-preemptible gang its quota decides: the oracle does not know it.
            branch = any("parent" in one for one in spec["subGroups"])
            keep[name] = draw(st.sampled_from([".", "w", "., w"] if branch else ["."]))
            if one_in(draw, 2):
                history[name]["joined"] = [leaf for leaf in leaves if draw(st.booleans())]
        for leaf, minimum in leaves.items():
            size = draw(st.sampled_from([1, 1, 1, 2]))
            if waiting > 1 and one_in(draw, 4):
                pods.append({"gang": name, "name": f"w{len(pods)}-{name}{leaf}", "gpus": size, **_leaf(leaf)})
            for _ in range(minimum + draw(st.sampled_from([0, 0, 0, 0, 1, 1, 1, 2, -1]))):
                if len(pods) < most:
                    size = draw(st.integers(1, 2)) if one_in(draw, 6) else size
                    where = draw(st.sampled_from(names))
                    used[where] += size
                    pods.append(_pod(draw, name, leaf, len(pods), size, where))
                    if waiting > 1 and one_in(draw, 12):
                        pods[-1]["terminating"] = True
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
                size = draw(st.integers(1, 3)) if one_in(draw, 6) else size
                pods.append({"gang": name, "name": f"{name}{leaf}{number}", "gpus": size, **_leaf(leaf)})
    holes = [draw(st.sampled_from([0, 0, 0, 1, 1, 2])) for _ in names]
    shut = [waiting > 1 and one_in(draw, 12) for _ in names]
    budgets = {"web": {"selects": {"app": "web"}, "allowed": draw(st.integers(0, 1))}} if one_in(draw, 6) else {}
    return {
        "topologies": {"dc": ["zone", "rack"]},
        "nodes": [
            {
                "name": name,
                "gpus": used[name] + hole,
                "zone": "z",
                "rack": f"r{index % 2}",
                **({"cordoned": True} if shut[index] else {}),
            }
            for index, (name, hole) in enumerate(zip(names, holes, strict=True))
        ],
        "queues": queues,
        "gangs": gangs,
        "history": history,
        "keep": keep,
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


@st.composite
def rivals(draw: st.DrawFn) -> Objects:
    """A crowd in which a gang like g waits in each of several queues."""
    objects = draw(crowds().filter(lambda one: one["queues"]))
    gangs, pods = objects["gangs"], objects["pods"]
    for number, queue in enumerate(sorted(set(objects["queues"]) - {"top", gangs["g"]["queue"]})):
        name = f"g{number}"
        gangs[name] = {**gangs["g"], "queue": queue}
        objects["history"][name] = {**objects["history"]["g"]}
        pods += [{**one, "gang": name, "name": f"{name}-{one['name']}"} for one in pods if one["gang"] == "g"]
    return objects


@given(rivals())
def test_nobody_is_missed_because_of_what_another_asked_in_vain(objects):
    """No decision is missing (SPEC §11.11): the plan is the same when no question counts as asked before."""
    note(shown(objects))
    scenario = msgspec.convert({"claim": "c", "why": "w", **objects, "steps": [{"expect": {}}]}, Scenario)
    snapshot = build(world_of(scenario.all()), 0)
    remembering, _ = schedule(snapshot)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Evictor, "_signature", lambda *_: object())
        asking, _ = schedule(snapshot)
    assert unlike(done_by(remembering), done_by(asking)) == []


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


@st.composite
def floors(draw: st.DrawFn) -> Objects:
    """A gang with a floor, alone with some room, in a queue that may be too small for it."""
    leaves = {name: draw(st.integers(1, 2)) for name in ["x", "y", "z"][: draw(st.integers(2, 3))]}
    least = sum(leaves.values())
    pods: list[Objects] = []
    for leaf, minimum in leaves.items():
        for number in range(minimum + draw(st.integers(0, 2))):
            pods.append({"gang": "g", "name": f"g{leaf}{number}", "subGroup": leaf, "gpus": draw(st.integers(1, 2))})
    spec: Objects = {
        "queue": "a",
        "minMember": draw(st.integers(least, len(pods))),
        "subGroups": [{"name": leaf, "minMember": minimum} for leaf, minimum in leaves.items()],
        "preemptibility": draw(st.sampled_from(["preemptible", "semi-preemptible", "non-preemptible"])),
    }
    amounts = st.integers(least - 1, 2 * len(pods))
    queue = {"quota": draw(amounts), **({"limit": draw(amounts)} if draw(st.booleans()) else {})}
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    nodes = [{"name": f"n{index}", "gpus": size} for index, size in enumerate(sizes)]
    return {"nodes": nodes, "queues": {"a": queue}, "gangs": {"g": spec}, "pods": pods}


@given(floors())
def test_a_floor_is_filled_within_what_its_queue_allows(objects):
    """Whichever pods the floor takes: all of them together are within limit and quota, or it is not placed."""
    story = played(objects)
    _, outcome = story.plan.of(("default", "g"))
    assert (outcome.verdict is Verdict.PLACED) == cluster_of(story).fits("g")


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
@given(crowds(), st.sampled_from([1, 1, 2]))
def test_surplus_is_helped_by_preempting_and_reclaiming(objects, size):
    """One pod more than the minimum gets victims when there are any, the fewest, and nobody is moved for it."""
    spec = {key: value for key, value in objects["gangs"]["g"].items() if key not in ("subGroups", "minSubGroup")}
    runs = {"gang": "g", "name": "g-runs", "on": "own", "gpus": 1}
    pods = [*(pod for pod in objects["pods"] if pod["gang"] != "g"), runs, {"gang": "g", "name": "extra", "gpus": size}]
    nodes = [*objects["nodes"], {"name": "own", "gpus": 1, "zone": "z", "rack": "r0"}]
    story = played(
        {**objects, "nodes": nodes, "gangs": {**objects["gangs"], "g": {**spec, "minMember": 1}}, "pods": pods}
    )
    cluster = cluster_of(story)
    going = {one.pod[1]: one.action for one in evicted_of(story.plan)}
    if cluster.fits("g", "extra"):
        assert not going
        assert ("default", "extra") in sent_of(story.plan)
        return
    assert CONSOLIDATE not in going.values()
    for action in (RECLAIM, PREEMPT):
        answers = cluster.answers("g", action, extra="extra")
        if action in going.values():
            best = min((one.rank for one in answers), default=cluster.rank(going))
            assert cluster.rank(going) <= best
            assert not [one for one in answers if one.pods < set(going)]
            return
        assert not answers, (
            f"{action}: {sorted(min(answers, key=lambda one: one.rank).pods)} could go for the extra pod"
        )


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


@st.composite
def trees_of_queues(draw: st.DrawFn) -> tuple[list[Objects], dict[str, tuple[int, ...]], tuple[int, ...]]:
    """Up to nine queues to a depth of three, what the gangs of the leaves want, and what there is."""
    amounts = st.sampled_from([0, 0, 1, 2, 3, 5, 8, -1])
    queues: dict[str, Objects] = {}
    for index in range(draw(st.integers(1, 9))):
        parents = ["", *(name for name in queues if name.count("-") < 2)]
        parent = draw(st.sampled_from(parents))
        spec: Objects = {
            "parent": parent,
            "created": draw(st.integers(0, 3)),
            "priority": draw(st.sampled_from([100, 100, 200])),
        }
        for charge in CHARGES if one_in(draw, 4) else ["gpu"]:
            one = {"quota": draw(amounts), "limit": draw(st.sampled_from([-1, -1, -1, 0, 2, 4]))}
            one["weight"] = draw(st.sampled_from([1, 1, 1, 2, 3, 0, 0.5]))
            spec.update(one if charge == "gpu" else {charge: one})
        queues[f"{parent}-{index}" if parent else f"q{index}"] = spec
    leaves = [name for name in queues if not any(one["parent"] == name for one in queues.values())]
    demand = {name: tuple(draw(st.integers(0, 9)) for _ in CHARGES) for name in leaves}
    documents = msgspec.convert({"queues": queues}, FormatObjects).all()
    return documents, demand, tuple(draw(st.integers(0, 20)) for _ in CHARGES)


@given(trees_of_queues(), st.sampled_from([PARTS, PARTS // 7]))
def test_shares_are_what_the_rules_give(drawn, piece):
    """Guarantee, priority, weight, remainder, age, name, top down (SPEC §7): the same as by a plain recursion."""
    documents, devices, there = drawn
    # Devices are whole, or in sevenths.
    demand = {name: (cpu, memory, gpu * piece) for name, (cpu, memory, gpu) in devices.items()}
    capacity = (*there[:2], there[2] * piece)
    note(yaml.safe_dump_all(documents, default_flow_style=None))
    queues = build(world_of(documents), 0).queues
    tree = read_queues(documents, set())
    asked = [demand.get(name, (0, 0, 0)) for name in queues.names]
    found = dict(zip(queues.names, fair_shares(queues, capacity, asked, (1, 1, piece)), strict=True))
    assert {name: tuple(map(int, share)) for name, share in found.items()} == tree.shares(capacity, demand, piece)


# What a plan may not do: to whom it is done, and how the world is otherwise. Each is allowed without its second part.
BASE: Objects = {
    "nodes": [{"name": "n", "gpus": 2}, {"name": "m", "gpus": 2}],
    "queues": {"a": {}, "b": {}, "c": {"quota": 0}},
    "gangs": {"low": {"minMember": 2, "queue": "a"}, "g": {"minMember": 2, "queue": "a", "priorityClassName": "train"}},
    "history": {"low": {}, "g": {}},
    "pods": [{"gang": "low", "count": 2, "on": "n", "labels": {"app": "web"}}, {"gang": "g", "count": 2}],
}
ROOM = {"g-0": ("n", True), "g-1": ("n", True)}


def changed(objects: Objects, path: str, value: Any) -> Objects:
    """The objects with one thing different."""
    key, _, rest = path.partition(".")
    return {**objects, key: changed(objects.get(key, {}), rest, value) if rest else value}


@pytest.mark.parametrize(
    ("action", "changes", "says"),
    [
        pytest.param("preempt", {}, "", id="preempt"),
        pytest.param("preempt", {"gangs.low.preemptibility": "non-preemptible"}, "may not be evicted", id="firm"),
        pytest.param("preempt", {"gangs.low.preemptibility": "semi-preemptible"}, "may not be evicted", id="core"),
        pytest.param("preempt", {"gangs.low.priorityClassName": "train"}, "is preempted by", id="equal priority"),
        pytest.param("preempt", {"gangs.low.queue": "b"}, "is preempted by", id="another queue"),
        pytest.param("preempt", {"gangs.low.minMember": 1}, "", id="more than the minimum"),
        pytest.param("preempt", {"budgets": {"b": {"selects": {"app": "web"}, "allowed": 1}}}, "1 may", id="budget"),
        pytest.param(
            "preempt",
            {"queues.a.preemptMinRuntime": "60s", "history.low.started": -59},
            "not run for long enough",
            id="runtime",
        ),
        pytest.param("preempt", {"queues.a.preemptMinRuntime": "60s", "history.low.started": -61}, "", id="ran enough"),
        pytest.param(
            "preempt", {"gangs.g.preemptionDelay": "60s", "history.g.waits": -59}, "not waited", id="too early"
        ),
        pytest.param("preempt", {"gangs.g.preemptionDelay": "60s", "history.g.waits": -61}, "", id="waited"),
        pytest.param("preempt", {"queues.a.limit": 1, "queues.a.quota": -1}, "above its limit", id="limit"),
        pytest.param(
            "preempt",
            {"queues.a.quota": 1, "gangs.g.preemptibility": "non-preemptible"},
            "above its quota",
            id="quota",
        ),
        pytest.param("reclaim", {}, "inside its own queue", id="reclaim in a queue"),
        pytest.param("reclaim", {"gangs.low.queue": "b"}, "may not be reclaimed", id="within its share"),
        pytest.param(
            "reclaim", {"gangs.low.queue": "c", "gangs.low.priorityClassName": "train"}, "", id="over its share"
        ),
        pytest.param(
            "reclaim",
            {"gangs.low.queue": "c", "queues.a.quota": 0},
            "may not be reclaimed",
            id="both within their shares",
        ),
        pytest.param("consolidate", {}, "nowhere to go", id="not moved"),
        pytest.param("stale", {}, "somebody is named", id="stale for somebody"),
    ],
)
def test_the_oracle_has_teeth(action, changes, says):
    """What is not allowed is found out, and what is allowed is not, on a plan that was made by hand."""
    objects = BASE
    for path, value in changes.items():
        objects = changed(objects, path, value)
    done = victims.Done(ROOM, [victims.Leaving("low-0", action, "g"), victims.Leaving("low-1", action, "g")])
    faults = by_hand(objects).faults(done)
    assert any(says in fault for fault in faults) if says else faults == []


@pytest.mark.parametrize(
    ("sent", "going", "says"),
    [
        pytest.param(ROOM, [], "over-committed", id="room that nobody leaves"),
        pytest.param({}, ["low-0", "low-1"], "gets no room", id="for nothing"),
        pytest.param(ROOM, ["low-0"], "part of its minimum", id="half a gang"),
        pytest.param({"g-0": ("n", True)}, ["low-0", "low-1"], "below its minimum", id="for half a gang"),
        pytest.param({"g-0": ("n", False), "g-1": ("n", False)}, ["low-0", "low-1"], "over-committed", id="too soon"),
        pytest.param(ROOM, ["low-0", "low-1", "low-1"], "twice", id="twice"),
        pytest.param(ROOM, ["low-0", "low-1", "g-0"], "not placed", id="who does not run"),
    ],
)
def test_the_oracle_sees_what_is_left(sent, going, says):
    """The gang that others go for has its minimum then, and what they leave is whole."""
    done = victims.Done(sent, [victims.Leaving(pod, "preempt", "g") for pod in going])
    faults = by_hand(BASE).faults(done)
    assert any(says in fault for fault in faults), faults


def by_hand(objects: Objects) -> Cluster:
    """The oracle's view of objects that nobody has planned for."""
    documents = msgspec.convert(objects, FormatObjects).all()
    cluster = victims.of(documents, int(BEGIN.timestamp()) * 10**9)
    assert cluster is not None
    return cluster
