"""`muster plan` and `muster explain` where clusters are shared: evictions, queues, what a what-if means for others."""

import json
from dataclasses import replace

import pytest
import yaml

from muster.cli import cluster
from muster.plan.outcome import Action, Eviction, UnitKind

GPU = "nvidia.com/gpu"


def node(name="n", gpus=4):
    has = {"cpu": "8", GPU: str(gpus)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": has}}


def queue(name, parent="", annotations=None, **gpu):
    spec = {**({"parentQueue": parent} if parent else {}), **({"resources": {"gpu": gpu}} if gpu else {})}
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata, "spec": spec}


def gang(name="g", **spec):
    metadata = {"name": name}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def pods(gang, count, on="", first=0, gpus=1):
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{gang}-{number}", "annotations": {"pod-group-name": gang}},
            "spec": {
                "containers": [{"resources": {"requests": {GPU: str(gpus)}}}],
                **({"nodeName": on} if on else {}),
            },
        }
        for number in range(first, first + count)
    ]


def written(documents):
    return "---\n".join(json.dumps(one) + "\n" for one in documents)


@pytest.fixture
def plan(muster):
    def run(*documents, args=(), form="table"):
        return muster("plan", "-f", "-", "-o", form, *args, stdin=written(documents))

    return run


@pytest.fixture
def evicting(monkeypatch):
    """Whatever the engine decides, these pods are evicted: (gang, pod, action, beneficiary or None, more)."""

    def evict(*evictions):
        original = cluster._run

        def run(*args):
            made = original(*args)
            number = {one.key[1]: at for at, one in enumerate(made.snapshot.gangs)}
            gone = (
                Eviction(number[name], 0, pod, action, number[winner] if winner else -1, **more)
                for name, pod, action, winner, more in evictions
            )
            return replace(made, evictions=tuple(gone))

        monkeypatch.setattr(cluster, "_run", run)

    return evict


RUNNING = [
    *(node(gpus=4), gang("runs", minMember=1, preemptibility="preemptible"), *pods("runs", 4, on="n")),
    *(gang("first", minMember=1, priorityClassName="train"), *pods("first", 1, gpus=0)),
]
SURPLUS = {"kind": UnitKind.SURPLUS_POD, "considered": 3, "exact": True}


def test_evictions_are_a_table(plan, evicting):
    """Which pods, by which action, for whom, and why these in one line; the summary counts by action."""
    evicting(
        ("runs", 3, Action.PREEMPT, "first", SURPLUS),
        ("runs", 2, Action.PREEMPT, "first", SURPLUS),
        ("runs", 1, Action.STALE, None, {}),
    )
    run = plan(*RUNNING)
    assert "\nevictions\n" in run.out
    assert (
        "  default/runs-2, runs-3   preempt   default/first   2 surplus pods; priority 50 comes before 0 in queue "
        "default-queue\n" in run.out
    )
    assert "  default/runs-1           stale     -               what is left of the gang (1 pod)" in run.out
    assert "3 evicted (2 preempt, 1 stale)" in run.err
    data = plan(*RUNNING, form="json").json
    assert [(one["pod"], one["action"], one["for"]) for one in data["evictions"]] == [
        *(("runs-1", "stale", None), ("runs-2", "preempt", "default/first"), ("runs-3", "preempt", "default/first")),
    ]


def test_a_moved_pod_is_told_with_its_new_node(plan, evicting):
    evicting(("runs", 3, Action.CONSOLIDATE, "first", {**SURPLUS, "to": 1}))
    run = plan(*RUNNING, node("other", 1))
    assert "  default/runs-3   consolidate   default/first   a surplus pod; room is kept for it on other" in run.out
    assert "1 nominated, 1 evicted (1 consolidate)" in run.err


def test_many_evictions_are_told_in_part(plan, evicting):
    """A terminal is not flooded; the rest is a form away."""
    crowd = [one for at in range(30) for one in (gang(f"x{at:02}"), *pods(f"x{at:02}", 1, on="n", gpus=0))]
    evicting(*((f"x{at:02}", 0, Action.PREEMPT, "first", {}) for at in range(30)))
    run = plan(*RUNNING, *crowd)
    assert "  and 10 more: -o json" in run.out
    assert "default/x19-0" in run.out
    assert "default/x20-0" not in run.out


def test_nothing_is_said_where_nothing_is_evicted(plan):
    run = plan(*RUNNING)
    assert "evictions" not in run.out
    assert "0 evicted\n" in run.err


def test_who_is_evicted_for_somebody_else_is_no_no(plan, evicting):
    """It had its minimum and does not stay below it: its pods are gone. The exit code is about those that wait."""
    evicting(*(("runs", at, Action.PREEMPT, "first", {}) for at in range(4)))
    assert plan(*RUNNING).code == 0


def test_drained_pods_are_in_the_table(plan):
    run = plan(*RUNNING, node("m", 4), args=("--drain", "n"))
    assert "  default/runs-0, runs-1, runs-2 and 1 more   drain    -     their node is drained" in run.out
    assert "4 evicted (4 drain)" in run.err


QUEUES = [queue("dept", quota=4, limit=4), queue("a", "dept", quota=2, limit=2), queue("b", "dept", quota=2)]


def test_queues_are_a_table_on_request(plan):
    """Names in the order of the tree; allocated, fair share, quota, limit, what may not be evicted, who waits."""
    documents = [node(), *QUEUES, gang("x", queue="b", minMember=2), *pods("x", 2, on="n")]
    assert "\nqueues\n" not in plan(*documents).out
    lines = plan(*documents, form="wide").out.splitlines()
    at = lines.index("queues")
    assert lines[at + 1].split() == [
        *("QUEUE", "RESOURCE", "ALLOCATED", "FAIR", "SHARE", "QUOTA", "LIMIT", "NON-PREEMPTIBLE", "WAITING"),
    ]
    assert [text.split() for text in lines[at + 2 : at + 5]] == [
        ["dept", "gpu", "2", "2", "4", "4", "0", "-"],
        ["a", "gpu", "0", "0", "2", "2", "0", "0"],
        ["b", "gpu", "2", "2", "2", "unlimited", "0", "0"],
    ]
    assert lines[at + 3].startswith("    a ")


def test_queues_as_data(plan):
    documents = [node(), *QUEUES, gang("x", queue="b", minMember=2), *pods("x", 2, on="n")]
    data = plan(*documents, form="json").json
    assert list(data) == ["bindings", "nominations", "evictions", "podGroups", "queues"]
    assert [one["name"] for one in data["queues"]] == ["a", "b", "dept"]
    assert data["queues"][1]["allocated"] == {"cpu": 0, "memory": 0, "gpu": 2}
    assert "queues" not in plan(node(), gang("x"), *pods("x", 1), form="json").json


def test_a_quota_that_holds_something_back_shows_the_queues(plan):
    """Without being asked: the reason as a sentence, and the numbers."""
    run = plan(node(), *QUEUES, gang("x", queue="a", minMember=3), *pods("x", 3))
    assert run.code == 1
    assert "default/x   Held" in run.out
    assert "OverLimit" in run.out
    assert "the gang needs 3 GPU, and the limit of queue a is 2 · 2 left of it" in run.out
    assert "\nqueues\n" in run.out


BUSY = [node(gpus=4), gang("x", minMember=2), *pods("x", 2), gang("y", minMember=2), *pods("y", 2, on="n")]


def test_what_happens_to_the_others(plan, muster, tmp_path):
    """Every other gang that fares differently: was, would be. The gang that came is not one of them."""
    new = tmp_path / "new.yaml"
    new.write_text(written([gang("new", priorityClassName="inference", minMember=1), *pods("new", 1, gpus=2)]))
    run = plan(*BUSY, args=("--add", str(new)))
    assert run.code == 0
    assert "others (was → would be): 1 gang of 2\n  default/x   Placed, 2 pods → Infeasible, 0 pods\n" in run.out
    data = plan(*BUSY, args=("--add", str(new)), form="json").json
    assert list(data)[-1] == "others"
    assert data["others"] == [
        {
            "namespace": "default",
            "name": "x",
            "before": {"verdict": "Placed", "placed": 2},
            "after": {"verdict": "Infeasible", "placed": 0},
            "evicted": 0,
        }
    ]
    assert yaml.safe_load(plan(*BUSY, args=("--add", str(new)), form="yaml").out) == data
    small = tmp_path / "small.yaml"
    small.write_text(written([gang("new", minMember=1), *pods("new", 1, gpus=0)]))
    run = plan(*BUSY, args=("--add", str(small)))
    assert "others: nothing changes for 2 other gangs\n" in run.out
    assert plan(*BUSY, args=("--add", str(small)), form="json").json["others"] == []
    assert "others" not in plan(*BUSY, form="json").json


def test_who_gets_the_room_of_a_gang_that_is_gone(plan):
    documents = [*BUSY, gang("z", minMember=2), *pods("z", 2)]
    run = plan(*documents, args=("--without", "y"))
    assert "others (was → would be): 1 gang of 2\n  default/z   Infeasible, 0 pods → Placed, 2 pods\n" in run.out


def test_who_is_drained_is_one_of_the_others(plan):
    """Its pods are evicted and come back elsewhere, or do not."""
    data = plan(*BUSY, node("m", 4), args=("--drain", "n"), form="json").json
    assert [(one["name"], one["after"]["placed"], one["evicted"]) for one in data["others"]] == [("y", 2, 2)]
    run = plan(*BUSY, args=("--drain", "n"))
    assert "  default/y   Placed, 2 pods → Infeasible, 0 pods   2 pods evicted\n" in run.out


def test_an_object_that_is_replaced_is_compared_with_what_it_was(plan, tmp_path):
    """--add of a node that is there already is a change of it."""
    more = tmp_path / "n.yaml"
    more.write_text(written([node(gpus=2)]))
    data = plan(*BUSY, args=("--add", str(more)), form="json").json
    assert [one["name"] for one in data["others"]] == ["x"]
    assert data["others"][0]["before"]["verdict"] == "Placed"


def test_alone_there_are_no_others(plan, tmp_path):
    new = tmp_path / "new.yaml"
    new.write_text(written([gang("new", minMember=1), *pods("new", 1)]))
    assert "others: there are none\n" in plan(node(), args=("--add", str(new))).out


@pytest.fixture
def explain(muster):
    def run(name, *documents, form="table"):
        return muster("explain", name, "-f", "-", "-o", form, stdin=written(documents))

    return run


def test_an_explanation_has_both_sides(explain, evicting):
    """Who loses pods: which, for whom, why these. Who gets room: from whom."""
    evicting(("runs", 3, Action.PREEMPT, "first", SURPLUS))
    words = (
        "      preempted for default/first: a surplus pod · priority 50 comes before 0 in queue default-queue · "
        "3 units could go, every choice of them was looked at\n"
    )
    assert f"  loses\n    runs-3\n{words}" in explain("runs", *RUNNING).out
    assert f"  gets room from\n    default/runs: runs-3\n{words}" in explain("first", *RUNNING).out
    data = explain("runs", *RUNNING, form="json").json
    assert [(one["pods"], one["for"]) for one in data["loses"]] == [(["runs-3"], "default/first")]


LINE = [
    *(node(gpus=1), *QUEUES, gang("x", queue="b", minMember=2), *pods("x", 2)),
    *(gang("y", queue="b", minMember=2, priorityClassName="train"), *pods("y", 2)),
]


def test_an_explanation_has_the_place_in_the_queue_and_its_numbers(explain):
    run = explain("x", *LINE)
    assert "  2nd of 2 waiting in queue b\n" in run.out
    assert "✓ quota" in run.out
    lines = [text.split() for text in run.out.splitlines()]
    at = next(at for at, words in enumerate(lines) if words[:1] == ["QUEUE"])
    assert [words[:2] for words in lines[at + 1 : at + 3]] == [["b", "gpu"], ["dept", "gpu"]]
    data = explain("x", *LINE, form="json").json
    assert (data["queue"]["name"], data["queue"]["position"], data["queue"]["waiting"]) == ("b", 2, 2)
    assert [one["queue"] for one in data["queue"]["shares"]] == ["b", "dept"]
    assert data["queue"]["shares"][0]["limit"] is None


def test_a_gang_over_its_limit_says_what_would_help(explain):
    run = explain("x", node(), *QUEUES, gang("x", queue="a", minMember=3), *pods("x", 3))
    assert run.out.startswith(
        "default/x · Held · OverLimit\n  the gang needs 3 GPU, and the limit of queue a is 2\n  2 left of it\n"
        "  raise the limit to at least 3, or ask for less\n"
    )
    assert "✗ quota   - room" in run.out
    assert "  1st of 1 waiting in queue a\n" in run.out
    assert run.out.endswith(
        "  would fix it (each one was tried)\n    1  raise the gpu limit of queue a from 2 to 3\n       kubectl patch "
        """queues.scheduling.run.ai a --type=merge -p '{"spec": {"resources": {"gpu": {"limit": 3}}}}'\n"""
    )


@pytest.mark.parametrize(
    ("queues", "name", "code", "words"),
    [
        pytest.param(QUEUES, "dept", "QueueNotLeaf", "name one of them in spec.queue: a, b", id="not a leaf"),
        pytest.param(
            [queue("a", "gone")], "a", "QueueOrphaned", "the queue gone above the queue a does not exist", id="orphan"
        ),
        pytest.param([queue("a", "b"), queue("b", "a")], "a", "QueueCycle", "a → b → a", id="cycle"),
        pytest.param(
            [queue("a", annotations={"kai.scheduler/allowed-namespaces": "team-x, team-y"})],
            "a",
            "QueueForbidden",
            "the queue a takes no gangs of the namespace default",
            id="forbidden",
        ),
        pytest.param(QUEUES, "c", "QueueNotFound", "the queue c does not exist", id="missing"),
    ],
)
def test_a_queue_that_can_not_be_used(explain, queues, name, code, words):
    """The gang is held, and says what is wrong with the queue and how to mend it."""
    run = explain("x", node(), *queues, gang("x", queue=name, minMember=1), *pods("x", 1))
    assert run.code == 1
    assert run.out.startswith(f"default/x · Held · {code}\n")
    assert words in run.out
    assert f"✗ queue {name}" in run.out
