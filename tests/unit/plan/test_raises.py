"""What a queue would have to allow: every raise was run through the cycle, and the gang is placed after it."""

from dataclasses import replace

import pytest

from muster.plan.cycle import schedule
from muster.plan.outcome import Verdict
from muster.plan.raises import Raise, _raised, raises
from muster.snapshot.queues import PARTS
from small_cluster import gang, node, planned, pod

GPU = 2
FIRM, SOFT = "non-preemptible", "preemptible"


def queue(name, parent="", memory=None, **gpu):
    resources = {**({"gpu": gpu} if gpu else {}), **({"memory": memory} if memory else {})}
    spec = {**({"parentQueue": parent} if parent else {}), "resources": resources}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def waiting(name, pods, kind=SOFT, queue="a", **more):
    return [
        gang(name, queue=queue, minMember=pods, preemptibility=kind),
        *(pod(f"{name}-{i}", name, **more) for i in range(pods)),
    ]


def asked(plan, name="g", **more):
    number = next(at for at, one in enumerate(plan.snapshot.gangs) if one.key[1] == name)
    return raises(plan, number, **more), number


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        pytest.param([queue("a", quota=2, limit=3), *waiting("g", 5)], [(0, False, 3, 5)], id="a limit"),
        pytest.param([queue("a", quota=2), *waiting("g", 5, FIRM)], [(0, True, 2, 5)], id="a quota"),
        pytest.param(
            [queue("a", quota=2, limit=3), *waiting("g", 5, FIRM)], [(0, False, 3, 5), (0, True, 2, 5)], id="both"
        ),
        pytest.param(
            [queue("top", limit=4), queue("a", "top", limit=3), *waiting("g", 5)],
            [(1, False, 3, 5), (0, False, 4, 5)],
            id="a queue above as well",
        ),
        pytest.param(
            [queue("a", limit=3), *waiting("first", 4), *waiting("g", 4)], [(0, False, 3, 8)], id="others come first"
        ),
        pytest.param([queue("a", limit=3), *waiting("g", 9)], [], id="there is no room either"),
        pytest.param([queue("a", limit=9), *waiting("g", 5)], [], id="nothing holds it back"),
        pytest.param([queue("a"), queue("b", "a"), *waiting("g", 5)], [], id="not a matter of amounts"),
    ],
)
def test_what_would_be_enough(documents, expected):
    """What lets the cycle place the gang, whoever else it helps; nothing when no raise does."""
    plan = planned(node("n", 8), *documents)
    found, number = asked(plan)
    assert {one.charge for one in found} <= {GPU}
    raised = [(one.queue, one.quota, one.before / PARTS, one.after / PARTS) for one in found]
    assert sorted(raised) == sorted(expected)
    queues = plan.snapshot.queues
    for one in found:
        queues = _raised(queues, one)
    if found:
        after, _ = schedule(replace(plan.snapshot, queues=queues))
        assert after.outcomes[number].verdict is Verdict.PLACED


def test_a_raise_is_in_the_units_of_the_queue():
    """Rounded up: 1.5 units of 10^6 bytes are 2."""
    documents = [node("n", 8), queue("a", memory={"limit": 1}), *waiting("g", 1)]
    documents[-1]["spec"]["containers"][0]["resources"]["requests"]["memory"] = 1_500_000
    found, _ = asked(planned(*documents), units=(1, 10**6, 1))
    assert found == (Raise(0, 1, False, 10**6, 2 * 10**6),)


def test_cycles_that_are_long_are_not_run_again(monkeypatch):
    """Where very many wait, explaining one gang must not take minutes."""
    monkeypatch.setattr("muster.plan.raises._MOST_TURNS", 0)
    found, _ = asked(planned(node("n", 8), queue("a", limit=3), *waiting("g", 5)))
    assert found == ()
