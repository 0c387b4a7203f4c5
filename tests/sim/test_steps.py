"""Steps, moments and ends of a story are compared with what is there, and a wrong expectation is found out."""

import pytest

from muster.sim.loading import parse, takes
from muster.sim.play import play


def broken(text: str) -> list[str]:
    return [one.says for take in takes(parse(text.encode())) for one in play(take.story).violations]


STEPS = """
claim: c
why: w
nodes: [{name: n, gpus: 2}]
gangs: {low: {minMember: 1}, high: {minMember: 1, priorityClassName: train}}
pods: [{gang: low, count: 2, on: n}]
steps:
  - expect: {bindings: 0, evictions: 0, gangs: {low: {verdict: Placed, placed: {"": 2}}, high: {verdict: Held}}}
  - bind: true
    apply: {pods: [{gang: high, gpus: 1}]}
    expect:
      nominations: 1
      evictions: [{pods: low-1, action: preempt, for: high, count: 1}]
      gangs: {high: {verdict: Placed, satisfied: false}}
  - bind: true
    gone: true
    expect:
      bindings: 1
      nominations: 0
      evictions: 0
      where: [{pods: high, nodes: n, count: 1}]
      gangs: {high: {verdict: Placed, satisfied: true}}
"""


def test_what_comes_out_as_expected_is_not_told():
    assert broken(STEPS) == []


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("bindings: 0, e", "bindings: 3, e", "step 1: bindings: expected 3, found 0"),
        ('placed: {"": 2}', 'placed: {"": 1}', "step 1: low: placed of the root: expected 1, found 2"),
        ("action: preempt", "action: reclaim", "step 2: no Event for default/high (reclaim)"),
        ("low-1, action", "low-0, action", "step 2: low-1 is evicted"),
        ("nominations: 1", "nominations: 2", "step 2: nominations: expected 2, found 1"),
        ("satisfied: true", "satisfied: false", "step 3: high: satisfied: expected False, found True"),
        ("nodes: n, count", "nodes: m, count", "step 3: high is on n"),
    ],
)
def test_a_wrong_expectation_is_found(right, wrong, words):
    assert STEPS.count(right) == 1
    assert any(words in fault for fault in broken(STEPS.replace(right, wrong)))


REASONS = """
claim: c
why: w
nodes: [{name: n, gpus: 1}]
queues: {q: {limit: 2, quota: 2, cpu: {limit: 2500}}}
gangs: {room: {minMember: 2}, limit: {minMember: 3, queue: q}, cpu: {minMember: 1, queue: q}, node: {minMember: 1}}
pods:
  - {gang: room, count: 2}
  - {gang: limit, count: 3, gpus: 1}
  - {gang: cpu, gpus: 0, cpus: 3}
  - {gang: node, spec: {nodeSelector: {no: such}}}
steps:
  - expect:
      gangs:
        room: {verdict: Infeasible, reasons: [{code: Insufficient*, asked: 2, best: 1}]}
        limit: {verdict: Held, reasons: [{code: OverLimit, queue: q, resource: gpu, asked: 3, total: 2}]}
        cpu: {verdict: Held, reasons: [{code: OverLimit, queue: "*", resource: cpu, asked: 3000, total: 2500}]}
        node: {verdict: Infeasible, reasons: [{code: Insufficient*, best: 0}]}
"""


def test_reasons_come_out_as_expected():
    assert broken(REASONS) == []


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("room: {verdict: Infeasible", "room: {verdict: Undecided", "room: verdict: expected Undecided, found Infeas"),
        ("room: {verdict: Infeasible", "room: {verdict: Held", "room: verdict: expected Held, found Infeasible"),
        ("room: {verdict: Infeasible", "room: {verdict: Placed", "room: verdict: expected Placed, found Infeasible"),
        ("limit: {verdict: Held", "limit: {verdict: Undecided", "expected Undecided, found Infeasible or Held"),
        ("best: 1", "best: 0", "room: no reason InsufficientResources is expected"),
        ("asked: 2", "asked: 999", "room: no reason InsufficientResources is expected"),
        ("queue: q, resource: gpu", "queue: p, resource: gpu", "limit: no reason OverLimit is expected"),
        ("resource: gpu", "resource: memory", "limit: no reason OverLimit is expected"),
        ("total: 2}", "total: 4}", "limit: no reason OverLimit is expected"),
        ("asked: 3000", "asked: 3500", "cpu: no reason OverLimit is expected"),
        ("best: 0", "best: 1", "node: no reason InsufficientResources is expected"),
    ],
)
def test_a_wrong_verdict_or_number_is_found(right, wrong, words):
    assert REASONS.count(right) == 1
    assert any(words in fault for fault in broken(REASONS.replace(right, wrong)))


def test_what_only_one_cycle_shows_is_not_compared():
    text = STEPS.replace("bindings: 0, e", "bindings: 3, e")
    assert broken(text.replace("  - expect:", "  - fleeting: true\n    expect:")) == []


TIMED = """
claim: c
why: w
nodes: [{name: n, gpus: 2}]
gangs: {g: {minMember: 2, stalenessGracePeriod: 20s}}
pods: [{gang: g, count: 2, on: n}]
steps:
  - expect: {gangs: {g: {verdict: Placed}}}
  - {bind: true, delete: [pod/g-1], expect: {gangs: {g: {verdict: Held, stale: {"": true}}}}}
  - {bind: true, now: 19, expect: {evictions: 0}}
  - {bind: true, now: 21, expect: {evictions: [{pods: g-0, action: stale, count: 1}]}}
"""


def test_time_passes_between_steps_as_the_file_says():
    assert broken(TIMED) == []
    late = broken(TIMED.replace("now: 21", "now: 40").replace("now: 19", "now: 25"))
    assert "step 3: evictions (g-0): expected 0, found 1" in late


MOMENTS = """
claim: c
why: w
nodes: [{name: n, gpus: 2}]
workloads: {g: {gang: {minMember: 2}, pods: {"": 2}}}
happens:
  - {at: 5, expect: {bindings: 2, gangs: {g: {verdict: Placed}}}, remove: [g-0]}
  - {at: 9, expect: {bindings: 3, evictions: 0}}
lasts: 10
ends: {bindings: 3}
"""


def test_moments_and_the_end_are_compared():
    assert broken(MOMENTS) == []
    assert broken(MOMENTS.replace("bindings: 2", "bindings: 1")) == ["at 5 s: bindings: expected 1, found 2"]
    assert broken(MOMENTS.replace("ends: {bindings: 3}", "ends: {bindings: 2}")) == [
        "in the end: bindings: expected 2, found 3"
    ]


def test_a_fault_can_be_about_one_object():
    text = MOMENTS.replace("lasts: 10", "lasts: 10\nfaults: [{point: bind, does: refuse, code: 403, name: g-1}]")
    assert "at 5 s: bindings: expected 2, found 1" in broken(text)
