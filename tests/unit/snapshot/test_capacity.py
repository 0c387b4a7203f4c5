"""What queues count: what a shape costs, and what there is for gangs in all."""

import pytest

from muster.snapshot.build import build
from muster.snapshot.queues import PARTS, UNLIMITED
from muster.snapshot.requests import LARGEST
from oracle.engine import world_of
from oracle.instances import GPU, group, node, pod

NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}], "allocatable": {GPU: "8", "cpu": "64"}}


def snapshot_of(*documents):
    return build(world_of(list(documents)), 0)


def with_spec(document, **spec):
    return {**document, "spec": {**document["spec"], **spec}}


def with_status(document, **status):
    return {**document, "status": status}


def test_what_a_shape_costs_its_queue():
    """Cores, bytes, and the devices of all makers together."""
    waiting = pod("p", gpus=2, cpus=3)
    waiting["spec"]["containers"][0]["resources"]["requests"] |= {
        "amd.com/gpu": "1",
        "memory": "1Ki",
        "x.com/fpga": "5",
    }
    found = snapshot_of(node("n", 8), group(minMember=1), waiting, pod("q", gpus=0, on="n", phase="Running"))
    assert sorted(found.charges.tolist()) == [[1000, 0, 0], [3000, 1024, 3 * PARTS]]


@pytest.mark.parametrize(
    ("documents", "cores", "devices"),
    [
        pytest.param([], 0, 0, id="no nodes"),
        pytest.param([node("n", 8), node("m", 4, cpus=2)], 66, 12, id="the sum of the nodes"),
        pytest.param(
            [node("n", 8), with_status(node("m", 8), **NOT_READY)], 64, 8, id="not of those that are not ready"
        ),
        pytest.param([node("n", 8, cordoned=True)], 64, 8, id="also of those that are cordoned"),
        pytest.param([node("n", 8), pod("p", on="n", gang="")], 63, 7, id="less what others hold"),
        pytest.param(
            [node("n", 8), with_spec(pod("p", on="n"), schedulerName="other"), group(minMember=1)],
            63,
            7,
            id="also with the name of a gang",
        ),
        pytest.param(
            [node("n", 8), with_spec(pod("p", on="n", gang=""), schedulerName="kai-scheduler")],
            63,
            7,
            id="less what pods of ours without a gang hold",
        ),
        pytest.param([node("n", 8), pod("p", on="n")], 63, 7, id="less what pods hold whose gang is not there"),
        pytest.param([node("n", 8), pod("p", on="n"), group(minMember=1)], 64, 8, id="what gangs hold is theirs"),
        pytest.param(
            [node("n", 8), pod("p", on="n", terminating=True), group(minMember=1)], 64, 8, id="also while it ends"
        ),
        pytest.param([node("n", 8), pod("p", gang="")], 64, 8, id="who waits holds nothing"),
        pytest.param([node("n", 8), pod("p", on="gone", gang="")], 64, 8, id="nor who is on a node that is gone"),
        pytest.param(
            [node("n", 2, cpus=2), node("m", 2, cpus=2), pod("p", gpus=5, cpus=5, on="n", gang="")],
            2,
            2,
            id="a node with less than nothing takes nothing from others",
        ),
    ],
)
def test_capacity(documents, cores, devices):
    assert snapshot_of(*documents).capacity == (1000 * cores, 0, devices * PARTS)


def test_devices_that_nobody_asks_for_are_capacity():
    machine = node("n", 8)
    machine["status"]["allocatable"] |= {"amd.com/gpu": "4", "memory": "1Ki"}
    assert snapshot_of(machine).capacity == (64000, 1024, 12 * PARTS)


def test_sums_of_hostile_amounts_have_an_end():
    nodes = [node(f"n{number}", 0, cpus=10**18) for number in range(UNLIMITED // LARGEST + 1)]
    assert snapshot_of(*nodes).capacity == (UNLIMITED, 0, 0)
