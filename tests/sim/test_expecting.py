"""What a file expects is looked at: who is named and not there, or lost everything, makes it untrue; and in words."""

import pytest

from muster.sim.loading import parse, takes
from muster.sim.play import play

STORY = """
claim: c
topologies: {net: [zone, rack]}
nodes: [{name: a, gpus: 1, zone: z, rack: r1}, {name: b, gpus: 1, zone: z, rack: r2}]
queues: {q: {quota: 2}}
workloads:
  w:
    gang: {queue: q, subGroups: [{name: x, minMember: 1}, {name: y, minMember: 1}]}
    pods: {x: 1, y: 1}
lasts: 4
happens: [{at: 2, delete: [workload/w]}]
"""
ENDS = "ends: {gangs: {w: {verdict: Placed, %s}}}\n"


def broken(text: str) -> list[str]:
    return [one.says for take in takes(parse(text.encode())) for one in play(take.story).violations]


def kept(expected: str) -> list[str]:
    """What is not as expected of a gang that stays."""
    text = STORY.replace("delete: [workload/w]", "says: nothing")
    return [one.removeprefix("in the end: ") for one in broken(text + expected)]


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("ends: {queues: {q: {allocated: 2}}}", []),
        ("ends: {queues: {nosuch: {allocated: 0}}}", ["queue nosuch: it is not there"]),
        ("ends: {where: [{pods: w-*, nodes: '*'}]}", []),
        ("ends: {where: [{pods: zzz-*, nodes: a}]}", ["no pod is called zzz-*"]),
        ("ends: {where: [{pods: zzz-*, nodes: a, count: 0}]}", []),
        ("ends: {evictions: 1}", ["evictions: expected 1, found 0"]),
        (ENDS % "together: [{subGroups: [x, y], level: zone, topology: net}]", []),
        (
            ENDS % "together: [{subGroups: [x, y], level: rackx}]",
            ["w: the Topology net has no level rackx, but zone, rack"],
        ),
        (ENDS % "together: [{subGroups: [x, y], level: zone, topology: n}]", ["w: there is no Topology n, but net"]),
        (ENDS % "together: [{subGroups: [x, y], level: rack}]", ["w: x, y lie in z/r1, z/r2"]),
        (ENDS % "together: [{subGroups: [x, y], level: zone, apart: true}]", ["w: x, y share a zone"]),
        (ENDS % "reasons: [{code: OverLimit, subGroup: x}]", ["w: no reason OverLimit of x, but none"]),
    ],
)
def test_what_is_not_as_expected_is_said(expected, found):
    assert kept(expected) == found


def test_reasons_that_nobody_expects_are_told_in_words():
    text = STORY.replace("delete: [workload/w]", "cordon: [a, b], remove: [w-x-0]")
    told = broken(text + "ends: {gangs: {w: {verdict: Infeasible, reasons: []}}}")
    assert told == ["in the end: w: there are reasons: InsufficientResources of the root"]


@pytest.mark.parametrize(
    "when", ["happens: [{at: 3, expect: {unchanged: true}}, ", "ends: {unchanged: true}\nhappens: ["]
)
def test_who_came_and_went_has_changed(when):
    """Whoever was bound since the beginning did not stay as it was, also when nothing of it is left."""
    assert [one.partition(": ")[2] for one in broken(STORY.replace("happens: [", when))] == ["w was not to change"]


def test_binds_of_a_gang_count_from_the_beginning_also_of_pods_that_are_gone():
    text = STORY.replace("delete: [workload/w]", "remove: ['w-x-*']")
    assert broken(text + "ends: {bindings: 3, gangs: {w: {verdict: Placed, bindings: 3}}}") == []
