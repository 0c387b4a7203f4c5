"""The ring of scenes: versions, deltas that make the frame of now out of any that was given, decisions, marks."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.plan.cycle import Memory, Policy, schedule
from muster.serve.page.history import History
from muster.serve.views.frame import frame_of
from muster.serve.views.scene import scene_of
from muster.serve.views.seeing import Rights, seen_by
from muster.sim.scenario import load
from scenarios.story import Story
from small_cluster import TOPOLOGY, gang, node, pod
from unit.serve.scenes import HERE, Stage, applied, encoded, pods_of, slots_on

FILES = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))
SOON = "2026-01-01T00:00:00Z"
FIRST = (node("n1", 4), node("n2", 4), gang(minMember=2), *(pod(f"g-{i}") for i in range(2)))


def bound(document, where):
    return {**document, "spec": {**document["spec"], "nodeName": where}}


def test_nothing_yet():
    history = History(HERE)
    assert (history.version(), history.scene(), history.frame(), history.delta(0), history.decision(1)) == (
        0,
        *[None] * 4,
    )
    assert history.timeline() == {"first": 0, "cycles": [], "lanes": {}}


def test_versions_count_what_looks_different():
    """A cycle that changes nothing is none that anybody has to be told."""
    stage, history = Stage(*FIRST), History(HERE, first=100)
    assert history.note(stage.cycle())
    assert not history.note(stage.cycle())
    stage.apply(pod("g-2"))
    assert history.note(stage.cycle())
    assert history.version() == 101
    assert [history.frame(version)["version"] for version in (100, 101)] == [100, 101]
    assert history.frame(99) is None
    assert history.frame(102) is None


def test_a_delta_over_several_cycles_tells_them_all():
    """Who keeps the timeline by deltas has the cycles that it would be given anew, and knows from where on."""
    stage, history = Stage(*FIRST), History(HERE, most=4)
    for number in range(6):
        stage.apply(pod(f"more-{number}"))
        history.note(stage.cycle())
        if number == 3:
            history.frame()
    delta, line = history.delta(4), history.timeline()
    assert [version for version, _, _ in delta["cycles"]] == [5, 6]
    assert delta["cycles"] == line["cycles"][-2:]
    assert delta["first"] == line["first"] == 3
    assert {mark["version"] for mark in delta["marks"]} == {5, 6}


def test_marks_are_of_the_scene_before_although_that_is_not_kept_any_more():
    stage, history = Stage(*FIRST), History(HERE, most=1)
    history.note(stage.cycle())
    stage.apply(gang("new", minMember=9))
    history.note(stage.cycle())
    kinds = {(mark["gang"], mark["kind"]) for mark in history.timeline()["lanes"]["default/new"]["marks"]}
    assert kinds == {("default/new", "created"), ("default/new", "waiting")}


def test_the_oldest_go_first():
    stage, history = Stage(*FIRST), History(HERE, most=3)
    for number in range(5):
        stage.apply(pod(f"more-{number}"))
        history.note(stage.cycle())
    assert [version for version, _, _ in history.timeline()["cycles"]] == [3, 4, 5]
    assert (history.frame(2), history.scene(2), history.decision(2)) == (None, None, None)
    assert history.frame(3) is not None


def test_namespaces_are_those_of_all_that_is_kept():
    """Also those whose last gang went, as long as it can be looked at."""
    there = [{**gang("g"), "metadata": {"name": "g", "namespace": name}} for name in "abc"]
    stage, history = Stage(node("n", 1), there[0]), History(HERE, most=2)
    assert history.namespaces() == frozenset()
    history.note(stage.cycle())
    assert history.namespaces() == frozenset("a")
    stage.delete(there[0])
    stage.apply(there[1])
    history.note(stage.cycle())
    assert history.namespaces() == frozenset("ab")
    stage.apply(there[2])
    history.note(stage.cycle())
    assert history.namespaces() == frozenset("bc")
    assert history.hidden(Rights(frozenset("c"))).namespaces == frozenset("b")


def test_a_large_cluster_is_kept_for_fewer_cycles():
    """What all scenes may weigh together is bounded; the newest is always there."""
    stage, history = Stage(*FIRST), History(HERE, most_bytes=20_000)
    for number in range(30):
        stage.apply(pod(f"more-{number}"))
        history.note(stage.cycle())
    assert history.version() == 30
    assert 1 <= len(history.timeline()["cycles"]) < 10


def test_a_delta_tells_what_changed():
    stage, history = Stage(*FIRST), History(HERE)
    history.note(stage.cycle(decision="d-1"))
    before = history.frame()
    stage.apply(*(bound(pod(f"g-{i}"), "n1") for i in range(2)))
    history.note(stage.cycle(decision="d-2"))
    delta = history.delta(1)
    assert (delta["version"], delta["from"], delta["decision"]) == (2, 1, "d-2")
    assert set(delta["gangs"]["set"]) == {"default/g"}
    assert delta["nodes"] == {"set": {}, "gone": []}
    assert [mark["kind"] for mark in delta["marks"]] == ["bound"]
    assert encoded(applied(before, delta)) == encoded(history.frame())
    assert "topologies" not in delta
    assert "unit" not in delta


def test_a_node_more_is_no_reason_to_tell_of_the_others():
    there = [bound(pod(f"g-{i}"), "n1") for i in range(2)]
    stage, history = Stage(*FIRST[:3], *there), History(HERE)
    history.note(stage.cycle())
    history.frame()
    stage.apply(node("n3", 1))
    stage.delete(node("n2", 4))
    history.note(stage.cycle())
    delta = history.delta(1)
    assert (set(delta["nodes"]["set"]), delta["nodes"]["gone"]) == ({"n3"}, ["n2"])
    assert delta["gangs"]["set"] == {}


def test_pods_of_a_gang_that_is_gone_are_others():
    """The PodGroup went, its pods are still there."""
    there = [bound(pod(f"g-{i}"), "n1") for i in range(2)]
    stage, history = Stage(*FIRST[:3], *there), History(HERE)
    history.note(stage.cycle())
    before = history.frame()
    stage.delete(FIRST[2])
    history.note(stage.cycle())
    after = applied(before, history.delta(1))
    assert (after["gangs"], after["nodes"]["n1"]["others"], after["nodes"]["n1"]["free"]) == ({}, 2, 2)
    assert encoded(after) == encoded(frame_of(stage.scene, HERE, 2))


def test_who_waits_moves_up():
    """Nothing of the second one changes but its place."""
    waiting = [one for name in "ab" for one in (gang(name), pod(f"{name}-0", name, gpus=9))]
    stage, history = Stage(node("n", 1), *waiting), History(HERE)
    history.note(stage.cycle())
    assert history.frame()["gangs"]["default/b"]["position"] == 2
    stage.delete(*waiting[:2])
    history.note(stage.cycle())
    assert history.delta(1)["gangs"]["set"]["default/b"]["position"] == 1


def test_who_has_left_is_not_seen_leaving():
    going = bound(pod("g-1"), "n1")
    going["metadata"] |= {"deletionTimestamp": SOON}
    stage, history = Stage(node("n1", 4), gang(), bound(pod("g-0"), "n1"), going), History(HERE)
    history.note(stage.cycle())
    assert set(pods_of(history.frame(), "default/g")) == {("g-0", "core"), ("g-1", "leaving")}
    assert not history.note(stage.cycle())
    stage.delete(going)
    history.note(stage.cycle())
    assert set(pods_of(history.frame(), "default/g")) == {("g-0", "core")}
    assert history.frame()["nodes"]["n1"]["free"] == 3


def test_only_who_was_given_a_version_can_go_on_from_it():
    """Nobody was given version 2 while it was the newest; of a version that is not kept nothing is known."""
    stage, history = Stage(*FIRST), History(HERE, most=3)
    history.note(stage.cycle())
    assert history.frame() is not None
    for number in range(2):
        stage.apply(pod(f"more-{number}"))
        history.note(stage.cycle())
    assert history.delta(1) is not None
    assert history.delta(2) is None
    assert history.delta(77) is None
    stage.apply(pod("last"))
    history.note(stage.cycle())
    assert history.delta(1) is None
    assert history.delta(3) is not None


def test_the_past_looks_as_it_looked():
    """Whatever was asked in between, and in whichever order."""
    stage, history, then = Stage(*FIRST), History(HERE), []
    for number in range(6):
        stage.apply(node(f"more-{number}", number), pod(f"p-{number}"))
        then.append(stage.cycle())
        history.note(then[-1])
    for at in (3, 2, 5, 0, 4, 1):
        assert encoded(history.frame(at + 1)) == encoded(frame_of(then[at], HERE, at + 1))


def test_a_kept_scene_answers_what_its_cycle_did():
    """What only the cycle needed is gone; the plan says the same of every gang."""
    stage, history = Stage(*FIRST), History(HERE)
    plan = stage.cycle().plan
    history.note(stage.scene)
    kept = history.scene().plan
    assert list(kept.outcomes) == list(plan.outcomes)
    assert kept.of(("default", "g"))[1] is plan.outcomes[0]


def cores(name, cpu, **spec):
    """A pod without devices that takes some cores."""
    return pod(name, "", containers=[{"resources": {"requests": {"cpu": cpu}}}], **spec)


@pytest.mark.parametrize(("queues", "cpu"), [pytest.param(0, "6", id="words"), pytest.param(1, "40", id="shares")])
def test_what_only_changes_words_or_shares_is_another_version(queues, cpu):
    """Cores come free where slots are GPUs: not enough for who waits for them, and his queue is due more of them."""
    small = {"resources": {"cpu": {"quota": 1000, "limit": -1}, "gpu": {"quota": -1, "limit": -1}}}
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}, "spec": small}
    wide = {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}
    strangers = [cores(f"s-{i}", "8", nodeName="n1") for i in range(4)]
    stage, history = Stage(*FIRST[:1], *strangers), History(HERE)
    stage.apply(*[queue][:queues], gang(minMember=5, queue="q"), *({**pod(f"g-{i}"), "spec": wide} for i in range(5)))
    history.note(stage.cycle())
    before = history.frame()
    for stranger in strangers[:3]:
        stage.delete(stranger)
        assert history.note(stage.cycle(seconds=20))
        before = applied(before, history.delta(before["version"]))
        assert encoded(before) == encoded(frame_of(stage.scene, HERE, history.version()))


def test_larger_nodes_change_what_is_said():
    """The reason is the same in numbers: there is room for none. But such a pod could now be placed one day."""
    stage, history = (
        Stage(node("n", 4), gang(), pod("g-0", gpus=9), pod("s-0", "", gpus=4, nodeName="n")),
        History(HERE),
    )
    history.note(stage.cycle())
    assert "large enough" in history.frame()["gangs"]["default/g"]["message"]
    stage.apply(node("n", 9), pod("s-1", "", gpus=5, nodeName="n"))
    history.note(stage.cycle())
    assert "large enough" not in history.frame()["gangs"]["default/g"]["message"]


def test_who_was_to_be_evicted_and_stays_is_shown_as_before():
    """The one that needed his room is gone before anybody was evicted."""
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    stage, history = Stage(node("n", 1), high, gang("low"), pod("low-0", "low", nodeName="n")), History(HERE)
    history.note(stage.cycle())
    before = history.frame()["gangs"]["default/low"]
    stage.apply(gang("top", priorityClassName="high"), pod("top-0", "top"))
    history.note(stage.cycle())
    assert history.frame()["gangs"]["default/low"]["state"] == "leaving"
    stage.delete(gang("top"), pod("top-0", "top"))
    history.note(stage.cycle())
    assert history.frame()["gangs"]["default/low"] == before


def cycles_of(path):
    """The scenes of a scenario: its steps, and a while after them, when everything that was decided happens."""
    story = Story(load(path))
    memory, before = Memory(), None
    for at in range(len(story.scenario.steps) + 4):
        if at < len(story.scenario.steps):
            story._happen(story.scenario.steps[at])
        else:
            story.now += 10
            story._carry_out()
            story._end()
        story.plan, memory = schedule(story._builder.build(story.now_ns), Policy(), memory)
        flying = list(story._world.pods)[:2] if at % 2 else ()
        before = scene_of(story.plan, story._world, decision=f"d-{at}", flying=flying, before=before)
        yield before


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_deltas_make_the_frame_of_now(path):
    """Applied in order to the first frame, for who may see everything and for who may see nothing, they give exactly
    the frames that are made of their scenes alone. Slots are free, others' or listed.
    """
    nobody = Rights(frozenset())
    history, followed, blind, sparse = History(HERE), None, None, None
    for number, scene in enumerate(cycles_of(path)):
        fresh = frame_of(scene, HERE)
        if not history.note(scene):
            continue
        version = history.version()
        if followed is None:
            followed, blind, sparse = history.frame(), history.frame(rights=nobody), history.frame()
        else:
            followed = applied(followed, history.delta(version - 1))
            blind = applied(blind, history.delta(version - 1, nobody))
        if number % 3 == 2:
            sparse = applied(sparse, history.delta(sparse["version"]))
            assert encoded(sparse) == encoded(followed)
        fresh["version"] = version
        assert encoded(followed) == encoded(fresh)
        # However it came about: to the byte, in the same order.
        assert msgspec.json.encode(history.frame()) == msgspec.json.encode(fresh)
        assert encoded(blind) == encoded(seen_by(fresh, nobody))
        for seen in (followed, blind):
            for name, one in seen["nodes"].items():
                held = one["free"] + one["others"] + slots_on(seen, name)
                assert held == pytest.approx(one["slots"]) or (held > one["slots"] and one["free"] == 0)
        for mark in (mark for lane in history.timeline()["lanes"].values() for mark in lane["marks"]):
            assert mark["text"], mark


EVENT = st.one_of(
    st.tuples(st.just("pod"), st.integers(0, 5), st.integers(0, 2), st.sampled_from(["", "n0", "n1"])),
    st.tuples(st.just("unpod"), st.integers(0, 5), st.integers(0, 2), st.just("")),
    st.tuples(st.just("gang"), st.integers(0, 5), st.integers(1, 3), st.just("")),
    st.tuples(st.just("ungang"), st.integers(0, 5), st.just(0), st.just("")),
    st.tuples(st.just("node"), st.integers(0, 2), st.integers(0, 4), st.sampled_from(["", "r1", "r2"])),
    st.tuples(st.just("unnode"), st.integers(0, 2), st.just(0), st.just("")),
    st.tuples(st.just("topology"), st.just(0), st.just(0), st.just("")),
)


def happen(stage, what, one, other, text):
    member = {**pod(f"p{one}-{other}", f"g{one}"), "metadata": {"name": f"p{one}-{other}", "namespace": f"ns{one}"}}
    member["metadata"]["annotations"] = {"pod-group-name": f"g{one}"}
    group = {**gang(f"g{one}", minMember=max(other, 1)), "metadata": {"name": f"g{one}", "namespace": f"ns{one}"}}
    if what == "pod":
        stage.apply(bound(member, text) if text else member)
    elif what == "unpod":
        stage.delete(member)
    elif what in ("gang", "ungang"):
        (stage.apply if what == "gang" else stage.delete)(group)
    elif what == "node":
        stage.apply(node(f"n{one}", other, rack=text))
    elif what == "unnode":
        stage.delete(node(f"n{one}", other))
    else:
        stage.apply(TOPOLOGY)


@settings(max_examples=60)
@given(
    st.lists(st.lists(EVENT, max_size=6), min_size=2, max_size=6),
    st.frozensets(st.sampled_from([f"ns{i}" for i in range(6)])),
)
def test_any_sequence_of_deltas(steps, namespaces):
    """Whatever comes and goes, what a browser has is what there is; and nobody is told a name that is not his."""
    rights = Rights(namespaces)
    stage, history, followed, seen = Stage(node("n0", 2), node("n1", 3)), History(HERE), None, None
    for step in steps:
        for event in step:
            happen(stage, *event)
        scene = stage.cycle()
        if not history.note(scene):
            continue
        version = history.version()
        followed = history.frame() if followed is None else applied(followed, history.delta(version - 1))
        delta = history.delta(version - 1, rights) if seen is not None else None
        seen = history.frame(rights=rights) if seen is None else applied(seen, delta)
        fresh = frame_of(scene, HERE, version)
        assert encoded(followed) == encoded(fresh)
        assert msgspec.json.encode(history.frame()) == msgspec.json.encode(fresh)
        assert encoded(seen) == encoded(seen_by(fresh, rights))
        told = encoded([seen, delta, history.timeline(rights), history.decision(version, rights=rights)])
        assert not [f"ns{i}" for i in range(6) if f"ns{i}" not in namespaces and f"ns{i}" in told]


def test_a_decision_names_who_goes_where():
    first = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    stage, history = Stage(node("n", 2), first, gang("low", minMember=2)), History(HERE)
    stage.apply(*(pod(f"low-{i}", "low") for i in range(2)))
    history.note(stage.cycle(decision="d-1"))
    assert history.decision(1)["bindings"] == [
        {"namespace": "default", "pod": f"low-{i}", "node": "n", "gang": "default/low"} for i in range(2)
    ]
    stage.apply(*(pod(f"low-{i}", "low", nodeName="n") for i in range(2)))
    stage.apply(gang("top", minMember=1, priorityClassName="high"), pod("top-0", "top"))
    history.note(stage.cycle(decision="d-2"))
    found = history.decision(2)
    assert (found["version"], found["decision"], found["bindings"]) == (2, "d-2", [])
    assert found["nominations"] == [{"namespace": "default", "pod": "top-0", "node": "n", "gang": "default/top"}]
    assert [(one["pod"], one["action"], one["for"]) for one in found["evictions"]] == [
        ("low-0", "preempt", "default/top"),
        ("low-1", "preempt", "default/top"),
    ]
    assert all(one["why"].startswith("preempted for default/top: the whole gang") for one in found["evictions"])
    assert {one["gang"]: one["reason"] for one in found["words"]} == {
        "default/low": "Evicted",
        "default/top": "WaitingForRoom",
    }
    assert history.decision(2, "default/low")["nominations"] == []
    assert [one["gang"] for one in history.decision(2, "default/low")["words"]] == ["default/low"]
    assert len(history.decision(2, "default/top")["evictions"]) == 2


def test_two_gangs_whose_keys_read_the_same_break_nothing():
    """No cluster has such a namespace; a file may."""
    twins = [{**gang("b/c"), "metadata": {"name": "b/c", "namespace": "a"}}]
    twins.append({**gang("c"), "metadata": {"name": "c", "namespace": "a/b"}})
    stage, history = Stage(node("n", 2)), History(HERE)
    for twin in (*twins, *twins):
        stage.apply(twin)
        history.note(stage.cycle())
        assert history.frame() is not None
    stage.delete(twins[0])
    history.note(stage.cycle())
    assert list(history.frame()["gangs"]) == ["a/b/c"]
    assert history.timeline()["lanes"]


def test_what_flies_is_being_bound_until_it_is_seen():
    stage, history = Stage(*FIRST), History(HERE)
    history.note(stage.cycle())
    stage.apply(*(bound(pod(f"g-{i}"), "n1") for i in range(2)))
    history.note(stage.cycle(flying=[("default", "g-0")]))
    assert set(pods_of(history.frame(), "default/g")) == {("g-0", "binding"), ("g-1", "core")}
    history.note(stage.cycle())
    assert set(pods_of(history.frame(), "default/g")) == {("g-0", "core"), ("g-1", "core")}
    assert [
        (mark["version"], mark["kind"], mark["pods"]) for mark in history.timeline()["lanes"]["default/g"]["marks"]
    ] == [
        (1, "placed", 2),
        (2, "bound", 1),
        (3, "bound", 1),
    ]
