"""Marks: what became different for a gang from one cycle to the next, each told once."""

from muster.decisions.words import foremost
from muster.serve.page.history import History
from muster.serve.views import timeline
from muster.serve.views.timeline import Mark, mark_document, marks_between
from small_cluster import gang, node, pod
from unit.serve.scenes import HERE, Stage, pods_of

HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}


def stated(name, minimum, **status):
    return {**gang(name, minMember=minimum, stalenessGracePeriod="10s"), "status": status}


def running(name, count, **spec):
    return [pod(f"{name}-{i}", name, **spec) for i in range(count)]


def told(before, now):
    return [(mark.gang.partition("/")[2], mark.kind, mark.pods) for mark in marks_between(before, now)]


def test_the_first_scene_tells_what_its_plan_does():
    """Nobody knows what came before: nothing was created, satisfied or bound in it."""
    stage = Stage(
        node("n", 2), gang("a"), pod("a-0", "a"), gang("b"), pod("b-0", "b", nodeName="n"), gang("c", minMember=9)
    )
    assert told(None, stage.cycle()) == [("a", "placed", 1), ("c", "waiting", 0)]


def test_created_placed_bound_gone():
    stage = Stage(node("n", 2))
    empty = stage.cycle()
    stage.apply(gang("a", minMember=2))
    made = stage.cycle()
    assert told(empty, made) == [("a", "created", 0), ("a", "waiting", 0)]
    assert marks_between(empty, made)[0].text == "created in queue default-queue: minimum 2 pods"
    stage.apply(*running("a", 2))
    placed = stage.cycle()
    assert told(made, placed) == [("a", "placed", 2), ("a", "satisfied", 2)]
    assert marks_between(made, placed)[0].text == "2 pods are being bound"
    stage.apply(*running("a", 2, nodeName="n"))
    flying = stage.cycle(flying=[("default", "a-0"), ("default", "a-1")])
    assert told(placed, flying) == []
    there = stage.cycle()
    assert told(flying, there) == [("a", "bound", 2)]
    stage.delete(gang("a", minMember=2))
    assert told(there, stage.cycle()) == [("a", "gone", 2)]


def test_what_nobody_carries_out_is_told_once():
    """A page that only looks on makes the same plan in every cycle."""
    stage = Stage(node("n", 2), HIGH, gang("a", minMember=2), *running("a", 2, nodeName="n"))
    stage.apply(gang("b", priorityClassName="high"), pod("b-0", "b"))
    before = stage.cycle(decision="")
    assert ("a", "evicted", 2) in told(None, before)
    now = stage.cycle(decision="")
    assert now.plan.evictions
    assert told(before, now) == []


# Two gangs, and the higher one needs the room of the other.
SQUEEZED = (node("n", 2), HIGH, gang("a", minMember=2), *running("a", 2, nodeName="n"))
TOP = (gang("b", priorityClassName="high"), pod("b-0", "b"))


def squeezed(**how):
    """The scene before, and the one in which the lower gang has to go."""
    stage = Stage(*SQUEEZED)
    before = stage.cycle()
    stage.apply(*TOP)
    return stage, before, stage.cycle(**how)


def test_what_nobody_carries_out_would_be():
    """In a file, and where somebody else leads. It is not below its minimum by that."""
    _, before, now = squeezed(decision="")
    marks = [mark for mark in marks_between(before, now) if mark.gang == "default/a"]
    (mark,) = marks
    assert (mark.kind, mark.would) == ("evicted", True)
    assert mark.text.startswith("would be preempted for default/b: the whole gang (2 pods)")
    assert mark.discreet.startswith("would be preempted for a gang of others: ")
    assert mark_document(mark, 1, 0)["would"] is True


def test_so_do_the_words_about_the_gang():
    """In the list, and at its tree; who acts says that it is so."""
    for decision, verb in (("", "would be evicted"), ("d", "are evicted")):
        history = History(HERE)
        history.note(squeezed(decision=decision)[2])
        found = history.frame()["gangs"]["default/a"]
        reasons = [one for row in found["tree"] for one in row["reasons"]]
        words = [found["message"], *(one["message"] for one in reasons if one["code"] == "Evicted")]
        assert len(words) == 2
        assert all(verb in one for one in words), words
        marks = history.timeline()["lanes"]["default/a"]["marks"]
        assert [mark["text"].startswith("would be ") for mark in marks if mark["kind"] == "evicted"] == [not decision]


def test_who_is_not_told_to_go_stays():
    """A cycle may plan evictions and order none: when pods could not be read, or are still on their way."""
    _, before, now = squeezed(going=())
    assert not now.plan.evictions
    assert told(before, now) == [("b", "created", 0), ("b", "waiting", 1)]
    history = History(HERE)
    history.note(now)
    frame = history.frame()
    assert frame["decision"]
    assert frame["gangs"]["default/a"]["state"] == "running"
    assert {state for _, state in pods_of(frame, "default/a")} == {"core"}
    assert "evicted" not in frame["gangs"]["default/a"]["message"]
    assert frame["gangs"]["default/b"]["state"] == "pending"
    assert history.decision(1)["evictions"] == []


def test_who_goes_later_is_marked_then():
    """Also when the same plan was made before and not ordered, or by one that only looked on."""
    for how in ({"going": ()}, {"decision": ""}):
        stage, _, before = squeezed(**how)
        now = stage.cycle(going=[("default", "a-0"), ("default", "a-1")])
        assert ("a", "evicted", 2) in told(before, now), how
        history = History(HERE)
        assert history.note(before)
        assert history.note(now), how


def test_marks_and_their_words_are_made_when_they_are_read(monkeypatch):
    """A cycle that is noted costs nobody any words, however many gangs wait."""
    made = []
    monkeypatch.setattr(timeline, "message_of", lambda *how, **more: made.append(how) or "because")
    monkeypatch.setattr(timeline, "foremost", lambda outcome: made.append(outcome) or foremost(outcome))
    stage, history = Stage(node("n", 1), *(gang(f"g{i}", minMember=9) for i in range(5))), History(HERE)
    history.note(stage.cycle())
    assert not made
    monkeypatch.setattr(timeline, "foremost", foremost)
    marks = marks_between(None, stage.scene)
    assert (len(marks), made) == (5, [])
    assert marks[0].text == marks[0].discreet == "because"
    assert len(made) == 1
    made.clear()
    history.timeline()
    history.timeline()
    assert len(made) == 5


def test_evictions_say_by_whom_for_whom_and_why():
    stage = Stage(node("n", 2), HIGH, gang("a", minMember=2), *running("a", 2, nodeName="n"))
    before = stage.cycle()
    stage.apply(gang("b", priorityClassName="high"), pod("b-0", "b"))
    marks = {(mark.gang, mark.kind): mark for mark in marks_between(before, stage.cycle())}
    lost = marks["default/a", "evicted"]
    assert (lost.pods, lost.action, lost.beneficiary) == (2, "preempt", "default/b")
    assert lost.text.startswith("preempted for default/b: the whole gang (2 pods)")
    assert lost.discreet.startswith("preempted for a gang of others: the whole gang (2 pods)")
    below = marks["default/a", "below"]
    assert "default/b" in below.text
    assert "default/b" not in below.discreet
    assert ("default/b", "waiting") in marks


def test_moves_are_marked_as_such():
    """Consolidation takes nothing away: the pod comes back elsewhere."""
    owned = {
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
        ]
    }
    small = {**pod("a-0", "a", nodeName="n1")}
    small["metadata"] |= owned
    stage = Stage(node("n1", 2), node("n2", 2), gang("a"), small, gang("c"), pod("c-0", "c", nodeName="n2"))
    before = stage.cycle()
    stage.apply(gang("b"), pod("b-0", "b", gpus=2))
    assert ("a", "moved", 1) in told(before, stage.cycle())


def test_stale_and_below_and_whole_again():
    status = {"subGroups": [{"name": "", "satisfied": True, "minimum": 2, "pods": {"placed": 2, "total": 2}}]}
    stage = Stage(node("n", 2), stated("a", 2, **status), *running("a", 2, nodeName="n"))
    whole = stage.cycle()
    stage.delete(pod("a-1", "a", nodeName="n"))
    stale = stage.cycle()
    assert {kind for _, kind, _ in told(whole, stale)} == {"stale", "below"}
    assert told(stale, stage.cycle()) == []
    stage.apply(pod("a-1", "a", nodeName="n"))
    assert told(stale, stage.cycle()) == [("a", "satisfied", 2)]


def test_another_reason_is_another_mark():
    stage = Stage(node("n", 2), gang("a", minMember=3))
    before = stage.cycle()
    stage.apply(*running("a", 3))
    (mark,) = marks_between(before, stage.cycle())
    assert (mark.kind, mark.pods) == ("waiting", 3)
    assert mark.text.startswith("the gang needs room for 3 pods")


def test_a_mark_as_the_browser_gets_it():
    mark = Mark("ns/a", "evicted", lambda: ("for ns/b", "for somebody"), 2, "preempt", "ns/b")
    document = {
        "version": 4,
        "at": "1970-01-01T00:00:01Z",
        "gang": "ns/a",
        "kind": "evicted",
        "pods": 2,
        "by": "preempt",
    }
    assert mark_document(mark, 4, 10**9) == {**document, "text": "for ns/b", "for": "ns/b"}
    assert mark_document(mark, 4, 10**9, discreet=True) == {**document, "text": "for somebody", "for": None}
