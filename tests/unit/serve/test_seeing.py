"""What somebody may see: gangs of hidden namespaces are room that others hold, and their names are nowhere."""

import pytest

from muster.decisions.explanation import document_of, explain
from muster.plan.remedies import remedies
from muster.serve.page.history import History
from muster.serve.views.frame import frame_of
from muster.serve.views.seeing import EVERYTHING, Discreet, Rights, answer_seen_by, hidden_in, mark_seen_by, seen_by
from small_cluster import TOPOLOGY, gang, node, pod
from unit.serve.scenes import HERE, Stage, applied, encoded, slots_on

HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
MINE = Rights(frozenset({"mine"}))


def of(namespace, document):
    return {**document, "metadata": {**document["metadata"], "namespace": namespace}}


def crew(namespace, name, count, **spec):
    return [of(namespace, pod(f"{name}-{i}", name, **spec)) for i in range(count)]


SECRET = (
    *(node("n1", 4), node("n2", 4), HIGH),
    *(of("mine", gang("ours", minMember=2)), *crew("mine", "ours", 2, nodeName="n1")),
    *(of("secret", gang("theirs", minMember=2)), *crew("secret", "theirs", 2, nodeName="n1")),
    *(of("secret", gang("hush", minMember=9)), *crew("secret", "hush", 9)),
    *(of("mine", gang("open", minMember=9)), *crew("mine", "open", 9)),
)


def test_hidden_gangs_are_others():
    """Their pods hold room of nobody; only how many of them wait is told."""
    whole = frame_of(Stage(*SECRET).cycle(), HERE)
    seen = seen_by(whole, MINE)
    assert "secret" not in encoded(seen)
    assert set(seen["gangs"]) == {"mine/ours", "mine/open"}
    assert (whole["nodes"]["n1"]["others"], seen["nodes"]["n1"]["others"]) == (0, 2)
    assert seen["nodes"]["n2"] == whole["nodes"]["n2"]
    for name, one in seen["nodes"].items():
        assert one["slots"] == one["free"] + one["others"] + slots_on(seen, name)
    assert seen["queues"]["default-queue"]["waiting"] == ["mine/open"]
    assert seen["queues"]["default-queue"]["unseen"] == 1
    assert seen["summary"] | {"gangs": 2, "running": 1, "pending": 1, "unseen": 2, "slots": 8} == seen["summary"]


def test_hidden_gangs_that_are_held_are_not_counted():
    whole = frame_of(Stage(*SECRET, of("secret", gang("sick", minMember=2))).cycle(), HERE)
    assert whole["summary"]["held"] == 1
    assert "held" not in seen_by(whole, MINE)["summary"]


def test_who_may_see_everything_sees_the_frame_itself():
    whole = frame_of(Stage(*SECRET).cycle(), HERE)
    assert seen_by(whole, EVERYTHING) is whole
    assert History(HERE).hidden(EVERYTHING).namespaces == frozenset()


@pytest.mark.parametrize(("rights", "empty"), [(Rights(nodes=False), "nodes"), (Rights(queues=False), "queues")])
def test_nodes_and_queues_can_be_hidden_too(rights, empty):
    stage, history = Stage(*SECRET), History(HERE)
    history.note(stage.cycle())
    seen = history.frame(rights=rights)
    assert ("free" in seen["summary"]) == rights.nodes
    assert not rights.all
    assert seen[empty] == {}
    assert len(seen["gangs"]) == 4
    if empty == "nodes":
        assert "n1" not in encoded([seen, history.decision(1, rights=rights)["bindings"]])
    stage.delete(node("n2", 4))
    history.note(stage.cycle())
    assert history.delta(1, rights)[empty] == {"set": {}, "gone": []}


def test_a_hidden_pod_that_takes_the_place_of_another_is_seen():
    """The node has as much free as before; who may not see the newcomer is told that others hold more of it."""
    stage, history = Stage(*SECRET), History(HERE)
    history.note(stage.cycle())
    before = history.frame(rights=MINE)
    stage.delete(*crew("mine", "ours", 1, nodeName="n1"))
    stage.apply(of("secret", pod("theirs-9", "theirs", nodeName="n1")))
    history.note(stage.cycle())
    assert "n1" not in history.delta(1)["nodes"]["set"]
    seen = applied(before, history.delta(1, MINE))
    assert seen["nodes"]["n1"]["others"] == 3
    assert encoded(seen) == encoded(history.frame(rights=MINE))


def preempted():
    stage, history = Stage(node("n", 2), HIGH, of("mine", gang("low", minMember=2))), History(HERE)
    stage.apply(*crew("mine", "low", 2, nodeName="n"))
    history.note(stage.cycle())
    history.frame(rights=MINE)
    stage.apply(of("secret", gang("boss", priorityClassName="high")), of("secret", pod("boss-0", "boss")))
    history.note(stage.cycle())
    return history


def test_who_loses_something_is_not_told_for_whom():
    """He is told that he does, and by which action; in frames, marks and decisions."""
    history = preempted()
    frame, delta, decision = history.frame(rights=MINE), history.delta(1, MINE), history.decision(2, rights=MINE)
    for told in (frame, delta, history.timeline(MINE), decision):
        assert "secret" not in encoded(told)
        assert "boss" not in encoded(told)
    assert "evicted for a gang of others (preempt)" in frame["gangs"]["mine/low"]["message"]
    (evicted,) = [mark for mark in delta["marks"] if mark["kind"] == "evicted"]
    assert (evicted["by"], evicted["for"]) == ("preempt", None)
    assert evicted["text"].startswith("preempted for a gang of others")
    assert [(one["pod"], one["for"]) for one in decision["evictions"]] == [("low-0", None), ("low-1", None)]
    theirs = history.decision(2, rights=Rights(frozenset({"secret"})))
    assert (theirs["evictions"], theirs["unseen"]) == ([], 2)
    assert "mine" not in encoded(theirs)


def test_an_explanation_names_nobody_else():
    """Who holds the nearest place, for whom pods go, whom one waits for, and remedies at others' cost."""
    rack = {"topology": "dc", "requiredTopologyLevel": "rack"}
    stage = Stage(
        *(TOPOLOGY, node("n1", 4, rack="r1"), node("n2", 2, rack="r2")),
        *(of("secret", gang("theirs", minMember=2)), *crew("secret", "theirs", 2, nodeName="n1")),
        *(of("mine", gang("ours", minMember=4, topologyConstraint=rack)), *crew("mine", "ours", 4)),
    )
    plan = stage.cycle().plan
    history = History(HERE)
    history.note(stage.scene)
    number = next(at for at, one in enumerate(plan.snapshot.gangs) if one.key[1] == "ours")
    whole = document_of(explain(plan, number, remedies(plan, number)), plan.snapshot)
    assert "secret" in encoded(whole["nearest"])
    assert "secret" in encoded(whole["remedies"])
    seen = answer_seen_by(whole, history.hidden(MINE))
    assert "secret" not in encoded(seen)
    assert seen["nearest"][0]["heldBy"] == ["a gang of others (2 pods)"]
    assert [one["kind"] for one in seen["remedies"]] == [
        one["kind"] for one in whole["remedies"] if "secret" not in encoded(one)
    ]
    assert answer_seen_by(whole, history.hidden(EVERYTHING)) == whole


@pytest.mark.parametrize("theirs", ["other", "r1"], ids=["alike", "the same"])
def test_a_domain_may_be_called_like_a_namespace_of_others(theirs):
    """A zone `secret` is no secret. Only where a hidden gang has the very name of a domain, nobody can tell."""
    rack = {"topology": "dc", "requiredTopologyLevel": "rack"}
    stage = Stage(
        *(TOPOLOGY, *(node(f"n{i}", 2, zone="secret", rack=f"r{i}") for i in range(2))),
        *(of("mine", gang("ours", minMember=3, topologyConstraint=rack)), *crew("mine", "ours", 3)),
        *(of("secret", gang(theirs, minMember=1)), *crew("secret", theirs, 1, nodeName="n0")),
    )
    history = History(HERE)
    history.note(stage.cycle())
    plan = stage.scene.plan
    whole = document_of(explain(plan, 0, remedies(plan, 0)), plan.snapshot)
    assert "nearest secret/r1: 2 of 3" in whole["message"]
    seen = answer_seen_by(whole, history.hidden(MINE))
    assert [one["where"] for one in seen["nearest"]] == [one["where"] for one in whole["nearest"]]
    (words,) = [one["message"] for one in history.decision(1, rights=MINE)["words"]]
    for said in (seen["message"], words):
        assert ("nearest secret/r1: 2 of 3" in said) == (theirs != "r1")
    assert ("secret/r1" in seen["proof"]) == (theirs != "r1")
    if theirs != "r1":
        assert history.frame(rights=MINE)["gangs"]["mine/ours"]["message"] == whole["message"]
    assert f"secret/{theirs} (" not in encoded(seen)


def test_a_remedy_is_left_out_when_it_touches_what_is_hidden():
    def remedy(kind, message="", command=""):
        return {"kind": kind, "message": message, "command": command}

    whole = [
        remedy("evict", "evict surplus of secret/x (x-0)", "muster evict --for mine/g --dry-run=none"),
        remedy("evict", "evict surplus of others", "kubectl delete pod -n 'secret' x-0"),
        remedy("evict", "evict surplus of mine/z (z-0)", "muster evict --for mine/g --dry-run=none"),
        *(remedy("uncordon", "uncordon n"), remedy("free", "clear n of other pods: mine/z"), remedy("raise")),
        *(remedy("relax", "hold secret in one zone instead of one rack"), remedy("lower")),
    ]

    def kinds(rights):
        hidden = hidden_in(["secret/x"], rights)
        return [one["kind"] for one in answer_seen_by({"remedies": whole}, hidden)["remedies"]]

    assert kinds(MINE) == ["evict", "uncordon", "free", "raise", "relax", "lower"]
    assert kinds(MINE._replace(nodes=False)) == ["evict", "raise", "relax", "lower"]
    assert kinds(Rights(queues=False)) == ["evict", "evict", "evict", "uncordon", "free", "relax", "lower"]


def test_what_stands_in_the_way_of_reclaiming_tells_of_queues():
    document = {"checks": [], "notes": ["reclaim from other queues: q would hold 3", "preempt: nothing"]}
    assert answer_seen_by(document, hidden_in([], Rights(queues=False)))["notes"] == ["preempt: nothing"]
    assert answer_seen_by(document, hidden_in([], Rights(nodes=False))) == document


def test_who_may_not_see_nodes_is_not_told_where_room_is_kept():
    said = "moved for mine/z: a surplus pod · room is kept for it on n7, n8 · nothing else could go"
    hidden = hidden_in([], Rights(nodes=False))
    assert Discreet(hidden).of(said) == "moved for mine/z: a surplus pod · room is kept for it · nothing else could go"
    assert Discreet(hidden).of("room is kept for them on n7") == "room is kept for them"
    mark = {"kind": "moved", "text": said}
    assert "n7" not in mark_seen_by(mark, Rights(nodes=False))["text"]
    assert mark_seen_by(mark, MINE) is mark


def test_rights_are_told_apart():
    """By what is seen; not by what was not asked yet."""
    some = [Rights(), MINE, Rights(frozenset()), Rights(nodes=False), Rights(queues=False), MINE._replace(nodes=False)]
    assert len({one.digest for one in some}) == len(some)
    assert (Rights().digest, MINE.digest) == ("", MINE._replace(unasked=3).digest)
    assert Rights(frozenset("ab")).digest != Rights(frozenset({"a, b"})).digest


def test_answers_of_any_shape_are_made_discreet():
    hidden = hidden_in(["secret/x", "sec/y", "mine/z"], MINE)
    assert hidden.namespaces == {"secret", "sec"}
    answer = {
        "victims": [{"gang": "secret/x", "pod": "x-0", "node": "n", "for": "mine/z"}],
        "displaces": [{"gang": "secret/x", "pods": ["x-0"], "for": "sec/y", "message": "for sec/y: 2"}],
        "waitsFor": [{"node": "n", "pods": ["mine/a", "secret/b", "nobody/c"]}],
        "others": ["mine/z: Placed, 1 pod → Held, 0 pods", "secret/x: Placed, 6 pods → Held, 5 pods"],
        "notes": ["secret/x. and secret/x-1, mine/secret/x, zone-secret/x, secret/lon…"],
        "count": 3,
    }
    somebody = "a gang of others"
    assert Discreet(hidden).of(answer) == {
        "victims": [{"gang": somebody, "pod": "", "node": "n", "for": "mine/z"}],
        "displaces": [{"gang": somebody, "pods": [], "for": None, "message": f"for {somebody}: 2"}],
        "waitsFor": [{"node": "n", "pods": ["mine/a"]}],
        "others": ["mine/z: Placed, 1 pod → Held, 0 pods", "and gangs of others"],
        "notes": [f"{somebody}. and {somebody}, mine/secret/x, zone-secret/x, {somebody}"],
        "count": 3,
    }
