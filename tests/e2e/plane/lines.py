"""The lines of the engine and queue issues that must come out as said, as scenario files, and how one is played.

Step by step on a control plane: each step must settle in what it expects, or in what the line says here where one cycle
is not the end of it.
"""

import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from e2e.plane.shown import Shown
from e2e.plane.world import Document, World
from muster.sim.scenario import Expected, Scenario, Step, load

SCENARIOS = Path(__file__).parents[2] / "scenarios"
# So long nothing may move until a state is the one that was settled in; so long it may take to get there.
CALM_S, PATIENCE_S = 0.8, 30.0


class Line(NamedTuple):
    """A scenario file, of which only so many `steps` are played.

    `fresh` are steps that begin anew with what has come until then; `then` is what is shown in the end of a step (else
    what the step expects), after so long a calm.
    """

    name: str
    fresh: tuple[int, ...] = ()
    steps: int | None = None
    then: dict[int, str] = {}
    calm_s: float = CALM_S


ENGINE = [
    Line("siblings-are-tried-against-each-other"),
    Line("siblings-are-tried-against-each-other-whatever-their-order-in-the-spec", fresh=(2,)),
    Line("bin-packing-that-largest-first-gets-wrong-is-placed"),
    Line("a-set-does-not-steal-the-only-domain-of-another"),
    Line("a-set-does-not-steal-the-only-domain-of-another-whatever-the-order-in-the-spec", fresh=(2,)),
    Line("any-k-of-n-skips-a-child-that-does-not-fit"),
    Line("mixed-sizes-are-counted-as-they-are"),
    Line("pods-are-tried-against-each-other-on-nodes"),
    Line("three-of-four-prefill-replicas-start-and-the-fourth-follows-when-a-rack-frees"),
    Line("a-new-replica-waits-when-the-zone-of-its-gang-is-full"),
    Line("a-recreated-pod-returns-to-the-block-of-its-siblings", fresh=(3,)),
    Line("zone-for-all-and-block-for-workers-and-rack-for-each-worker-kind"),
    Line("one-node-less-in-the-only-fitting-block-is-named-with-the-shortfall"),
    Line("leaves-may-land-in-different-racks-while-their-set-keeps-one-block", fresh=(2,)),
    Line("a-flat-podgroup-is-placed-whole"),
    Line("a-flat-podgroup-is-placed-whole-or-not-at-all"),
    Line("a-flat-podgroup-grows-by-what-fits"),
    Line("a-replica-that-is-added-joins-whole-or-not-at-all"),
    Line("a-replica-that-is-added-joins-whole-inside-the-pinned-domain"),
    Line(
        "pods-of-a-replica-that-was-taken-out-are-set-aside-and-say-so",
        then={
            2: """
bindings: 0
evictions: 0
gangs:
  g:
    verdict: Placed
    satisfied: true
    placed: {"": 1, replica-0: 1}
    reasons: [{code: SetAside, pod: g-replica-3-0, detail: replica-3 (and 1 more)}]
"""
        },
    ),
]

QUEUES = [
    Line("the-core-counts-against-quota-and-the-surplus-runs-over-it"),
    Line(
        "a-reclaimer-takes-one-whole-surplus-replica-and-never-a-part",
        then={
            1: """
bindings: 8
evictions: [{pods: "g-r3-?", action: reclaim, for: h, count: 8}]
queues: {team: {allocated: 24, nonPreemptible: 16, fairShare: 24}, other: {allocated: 8, fairShare: 8}}
gangs:
  h: {verdict: Placed, satisfied: true}
  g:
    verdict: Placed
    satisfied: true
    core: {r0: true, r1: true, r2: false, r3: false}
    met: {r0: true, r1: true, r2: true, r3: false}
    pending: {r3: 8}
""",
            2: "{bindings: 0, evictions: 0}",
            3: """
bindings: 4
evictions: [{pods: "g-r2-?", action: reclaim, for: i, count: 8}]
queues: {team: {allocated: 16, nonPreemptible: 16}, other: {allocated: 12}}
gangs:
  i: {verdict: Placed, satisfied: true}
  g: {verdict: Placed, satisfied: true, met: {r0: true, r1: true, r2: false, r3: false}, placed: {r0: 8, r1: 8, r2: 0}}
""",
        },
    ),
    Line(
        "three-workers-beyond-the-minimum-can-go-one-by-one-and-the-master-never",
        then={
            1: """
bindings: 1
evictions: [{pods: w-4, action: preempt, for: u1, count: 1}]
gangs: {u1: {verdict: Placed, satisfied: true}, g: {verdict: Placed, placed: {master: 1, workers: 4}}}
""",
            2: """
bindings: 2
evictions: [{pods: "w-[23]", action: preempt, for: u2, count: 2}]
gangs: {u2: {verdict: Placed, satisfied: true}, g: {verdict: Placed, placed: {master: 1, workers: 2}}}
""",
            3: """
bindings: 0
evictions: 0
gangs:
  u3: {verdict: Infeasible, satisfied: false}
  g: {verdict: Placed, satisfied: true, placed: {master: 1, workers: 2}}
""",
        },
    ),
    Line(
        "surplus-pods-go-before-anything-else-and-the-newest-first",
        then={
            1: """
bindings: 2
evictions: [{pods: "e-[13]", action: preempt, for: urgent, count: 2}]
gangs:
  urgent: {verdict: Placed, satisfied: true}
  elastic: {verdict: Placed, satisfied: true, placed: {"": 2}, pending: {"": 2}}
  single: {verdict: Placed, satisfied: true}
"""
        },
    ),
    Line(
        "a-whole-surplus-child-goes-before-a-whole-gang",
        then={
            1: """
bindings: 1
evictions: [{pods: "tree-b-?", action: preempt, for: urgent, count: 2}]
gangs:
  urgent: {verdict: Placed, satisfied: true}
  tree: {verdict: Placed, satisfied: true, placed: {a: 2, b: 0}, pending: {b: 2}}
  pair: {verdict: Placed, satisfied: true}
"""
        },
    ),
    Line(
        "a-whole-gang-goes-when-nothing-less-is-enough",
        then={
            1: """
bindings: 2
evictions: [{pods: "low-?", action: preempt, for: urgent, count: 3}]
gangs:
  urgent: {verdict: Placed, satisfied: true}
  low: {verdict: Infeasible, satisfied: false, placed: {"": 0}, pending: {"": 3}}
"""
        },
    ),
    Line(
        "one-pod-from-each-leaf-is-enough-for-a-large-pod",
        then={
            1: """
bindings: 1
evictions:
  - {pods: x-new, action: preempt, for: urgent, count: 1}
  - {pods: y-new, action: preempt, for: urgent, count: 1}
gangs: {urgent: {verdict: Placed}, g: {verdict: Placed, satisfied: true, placed: {x: 1, y: 1}, pending: {x: 1, y: 1}}}
"""
        },
    ),
    Line(
        "a-gang-without-surplus-goes-whole-for-a-large-pod",
        then={
            1: """
bindings: 1
evictions: [{pods: "g-?-?", action: preempt, for: urgent, count: 4}]
gangs: {urgent: {verdict: Placed}, g: {verdict: Infeasible, satisfied: false, placed: {"": 0}}}
"""
        },
    ),
    Line(
        "consolidation-moves-the-fewest-pods-into-the-holes",
        steps=1,
        then={
            1: """
bindings: 5
evictions: [{pods: m, action: consolidate, for: g, count: 1}]
where: [{pods: "g-*", nodes: "a-*", count: 4}, {pods: "m*", nodes: "b-*", count: 1}]
gangs: {g: {verdict: Placed, satisfied: true, domain: {"": z/a}}, m: {verdict: Placed, satisfied: true}}
"""
        },
    ),
    Line("nobody-is-moved-who-has-no-place-to-go"),
    Line(
        "two-queues-of-equal-weight-converge-to-equal-shares-and-stay-there",
        steps=2,
        then={
            2: """
bindings: 4
evictions: [{pods: "in-a-?", action: reclaim, for: in-b, count: 4}]
queues: {a: {fairShare: 4, allocated: 4, requested: 8}, b: {fairShare: 4, allocated: 4, requested: 8}}
gangs: {in-a: {verdict: Placed, placed: {"": 4}}, in-b: {verdict: Placed, placed: {"": 4}}}
"""
        },
        # Longer than the longest pause between two cycles.
        calm_s=6,
    ),
    Line(
        "a-queue-below-its-quota-gets-it-back",
        steps=1,
        then={
            1: """
bindings: 4
evictions: [{pods: "in-a-?", action: reclaim, for: in-b, count: 4}]
queues: {a: {fairShare: 4, allocated: 4}, b: {fairShare: 4, allocated: 4}}
gangs: {in-a: {verdict: Placed, satisfied: true, placed: {"": 4}}, in-b: {verdict: Placed, satisfied: true}}
"""
        },
    ),
    Line(
        "lowering-minsubgroup-of-a-running-semi-preemptible-gang-frees-the-rest",
        then={
            3: """
bindings: 2
evictions: [{pods: "g-y-?", action: preempt, for: urgent, count: 2}]
queues: {a: {nonPreemptible: 2}}
gangs:
  urgent: {verdict: Placed, satisfied: true}
  g: {verdict: Placed, satisfied: true, core: {x: true, y: false}, placed: {x: 2, y: 0}}
"""
        },
    ),
]


def settled(world: World, expected: Expected, before: list[Document], what: str, calm_s: float = CALM_S) -> None:
    """Waits until the cluster shows what is expected and nothing moves any more; then it must be so."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        faults = Shown(world, before).faults(expected)
        calm = world.recorder.calm_s >= calm_s
        if (calm and not faults) or time.monotonic() > end_s:
            break
        time.sleep(0.1)
    shown = Shown(world, before)
    faults = [*shown.faults(expected), *shown.never()]
    assert faults == [], f"{what}: " + "; ".join(faults)
    assert calm, f"{what}: it does not come to rest"


def played(world: World, line: Line) -> None:
    """Step by step, as the file says."""
    scenario = load(SCENARIOS / f"{line.name}.yaml")
    world.recorder.begin()
    before: list[Document] = [one for one in scenario.all() if one["kind"] == "Pod"]
    world.put(scenario.all())
    for number, step in enumerate(scenario.steps[: line.steps], start=1):
        if number in line.fresh:
            world.clear()
            before = _begin_anew(world, scenario, number)
        elif number > 1:
            before = world.objects("Pod")
            world.recorder.begin()
            _happen(world, step)
        expected = msgspec.yaml.decode(line.then[number], type=Expected) if number in line.then else step.expect
        settled(world, expected, before, f"step {number} {step.says}", line.calm_s)


def _happen(world: World, step: Step) -> None:
    for pattern in step.delete:
        world.delete(pattern)
    world.put(step.apply.all())


def _begin_anew(world: World, scenario: Scenario, number: int) -> list[Document]:
    """Everything that has come until this step, as if nothing had been done about it."""
    found = {(one["kind"], one["metadata"]["name"]): one for one in scenario.all()}
    for step in scenario.steps[:number]:
        gone = [tuple(pattern.split("/")) for pattern in step.delete]
        found = {key: one for key, one in found.items() if (key[0].lower(), key[1]) not in gone}
        found |= {(one["kind"], one["metadata"]["name"]): one for one in step.apply.all()}
    world.put(found.values())
    return [one for one in found.values() if one["kind"] == "Pod"]
