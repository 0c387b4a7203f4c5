"""What goes together to make room for one more pod on a node, in the order of the harm that it does."""

import numpy as np
import pytest

from muster.plan.bundles import Bundles, bundles_of, thinned
from muster.plan.ledger import Ledger, Taking
from muster.plan.units import Table
from short_forms import lone, merged, number_of, pod_of, snapshot_of

LOW, MIDDLE = {}, {"priorityClassName": "train"}


class Made:
    """The bundles for the gang g, by the names of pods."""

    def __init__(self, *parts, nodes=None):
        self.snapshot = snapshot_of(merged(*parts))
        self.table, self.ledger = Table(self.snapshot), Ledger(self.snapshot)
        self.shape = self.snapshot.gangs[number_of(self.snapshot, "g")].waiting[0].shape
        pool = np.flatnonzero(self.table.left)
        mask = None if nodes is None else np.isin(self.snapshot.nodes, nodes.split())
        self.found = bundles_of(self.table, pool, self.shape, self.ledger, mask)

    def name(self, number):
        unit = self.table[number]
        return "+".join(pod_of(self.snapshot, unit.gang, leaf, at) for leaf, at in unit.pods)

    @property
    def bundles(self):
        return [" ".join(self.name(number) for number in bundle) for bundle in self.found]

    @property
    def rest(self):
        return [self.name(number) for number in self.found.rest.tolist()]

    def units(self, names):
        known = {self.name(number): number for number in range(len(self.table))}
        return [known[name] for name in names.split()]


def waits(gpus):
    return lone("g", gpus=gpus, priorityClassName="build-preemptible")


def node(name, gpus):
    return {"nodes": [{"name": name, "gpus": gpus}]}


def gang(name, on, count, **spec):
    return {"gangs": {name: {"minMember": count, **spec}}, "pods": [{"gang": name, "count": count, "on": on}]}


@pytest.mark.parametrize(
    ("parts", "gpus", "bundles", "gains", "rest"),
    [
        pytest.param([node("n", 2), lone("a b", "n")], 1, ["a", "b"], [1, 1], [], id="one for one"),
        pytest.param([node("n", 2), lone("a b", "n")], 2, ["a b"], [1], [], id="two for one"),
        pytest.param([node("n", 3), lone("a b", "n")], 2, ["a"], [1], ["b"], id="with what is free"),
        pytest.param([node("n", 4), lone("a", "n", gpus=4)], 2, ["a"], [2], [], id="one for two"),
        pytest.param([node("n", 1), lone("a", "n")], 2, [], [], ["a"], id="all of it is not enough"),
        pytest.param(
            [node("n", 4), lone("a b", "n"), lone("z", "n", gpus=2)],
            2,
            ["z", "a b"],
            [1, 1],
            [],
            id="large ones first",
        ),
        pytest.param(
            [node("n", 3), lone("a b", "n", **MIDDLE), lone("z", "n")], 1, ["z", "a", "b"], [1, 1, 1], [], id="priority"
        ),
        pytest.param(
            [node("n", 2), lone("a", "n", **MIDDLE), lone("z", "n"), lone("y", "m"), node("m", 1)],
            1,
            ["y", "z", "a"],
            [1, 1, 1],
            [],
            id="priority on other nodes too",
        ),
        pytest.param(
            [node("n", 2), gang("v", "n", 2)], 1, ["v-0+v-1"] * 2, [1, 1], [], id="a gang, for each of its pods"
        ),
        pytest.param(
            [node("n", 1), node("m", 2), lone("x", "n"), gang("v", "m", 2)],
            1,
            ["x", "v-0+v-1", "v-0+v-1"],
            [1, 1, 1],
            [],
            id="fewer pods first",
        ),
    ],
)
def test_bundles_come_in_the_order_of_harm(parts, gpus, bundles, gains, rest):
    """Minimum, priority, kind, pods for each pod more, age; what makes no room comes last."""
    made = Made(*parts, waits(gpus))
    assert made.bundles == bundles
    assert made.found.gain.tolist() == gains
    assert made.rest == rest


def test_the_youngest_of_equals_goes_first():
    history = {"history": {name: {"created": -age} for name, age in (("a", 5), ("b", 9), ("c", 1))}}
    made = Made(node("n", 3), lone("a b c", "n"), history, waits(1))
    assert made.bundles == ["c", "a", "b"]


def test_surplus_goes_before_a_minimum_and_no_more_of_it_than_there_is():
    """Of a leaf with one pod to spare no two are bundled, however many stand on the node."""
    three = {"gangs": {"v": {"minMember": 2}}, "pods": [{"gang": "v", "count": 3, "on": "n"}]}
    made = Made(node("n", 4), three, lone("a", "n"), waits(1))
    assert list(dict.fromkeys(made.bundles)) == ["v-2", "a", "v-0+v-1+v-2"]
    made = Made(node("n", 3), three, waits(2))
    assert all("v-0 v-1" not in bundle and "v-2 v-1" not in bundle for bundle in made.bundles)


def test_only_nodes_that_are_asked_about_and_allowed_count():
    """A mask, a selector of the pod, and units that are not in the pool."""
    parts = [node("n", 1), node("m", 1), lone("a", "n"), lone("b", "m")]
    assert Made(*parts, waits(1), nodes="m").bundles == ["b"]
    chosen = lone("g", spec={"nodeSelector": {"kubernetes.io/hostname": "n"}})
    assert Made(*parts, chosen).bundles == ["a"]
    assert Made(node("n", 1), lone("a", "n", preemptibility="non-preemptible"), waits(1)).bundles == []


def test_who_has_gone_makes_no_room():
    made = Made(node("n", 2), lone("a b", "n"), waits(1))
    made.table.take(made.units("a"))
    pool = np.flatnonzero(made.table.left)
    found = bundles_of(made.table, np.arange(len(made.table)), made.shape, made.ledger)
    assert [list(bundle) for bundle in found] == [pool.tolist()]


@pytest.mark.parametrize("gpus", [1, 2, 3])
def test_gains_are_what_the_ledger_counts(gpus):
    """On every node, bundle after bundle: as many pods more as the bundle says have room once it is gone."""
    sizes = {"n": (7, [1, 3, 2, 1]), "m": (5, [2, 1, 1]), "o": (3, [3])}
    parts = [node(name, size) for name, (size, _) in sizes.items()]
    for name, (_, pods) in sizes.items():
        for at, pod in enumerate(pods):
            parts.append(lone(f"{name}{at}", name, gpus=pod, **(MIDDLE if at % 2 else LOW)))
    made = Made(*parts, waits(gpus))
    seen = set()
    for bundle, gain, at in zip(made.found, made.found.gain.tolist(), made.found.node.tolist(), strict=True):
        before = int(made.ledger.fits(made.shape)[at])
        for unit in bundle:
            (row,) = made.table.rows([unit]).tolist()
            assert made.table.node[row] == at
            taking = Taking(int(made.table.shape[row]), np.array([at]), np.array([1]))
            made.ledger.give_back(taking)
            seen.add(unit)
        assert int(made.ledger.fits(made.shape)[at]) - before == gain
    assert seen | set(made.found.rest.tolist()) == set(range(len(made.table)))


@pytest.mark.parametrize(("pods", "bundles"), [(0, 1), (1, 1), (2, 1), (3, 2), (4, 3), (9, 4)])
def test_how_many_bundles_are_enough(pods, bundles):
    """The first that together have room for so many; one more than there are when all are not enough."""
    assert Bundles(gain=np.array([2, 1, 1])).bundles_for(pods) == bundles


def test_the_cheapest_domains_come_first():
    """Domains where enough room can be made, by what it costs: none, few pods, a low priority; others are left out."""
    parts = [node(name, 2) for name in ("n0", "n1", "n2", "n3")]
    parts += [lone("a b", "n0"), lone("c d", "n1", **MIDDLE), lone("e", "n2", gpus=2)]
    made = Made(*parts, waits(1))
    domain_of = np.array([0, 1, 2, 3])
    assert made.found.cheapest([2, 2, 2, 0], domain_of) == [3, 2, 0, 1]
    assert made.found.cheapest([3, 2, 2, 1], domain_of) == [2, 1], "no room for so many"
    assert made.found.cheapest([2, 2, 2], np.array([-1, 1, 2, -1])) == [2, 1], "nodes outside of all domains"
    assert made.found.cheapest([4, 9], np.array([0, 0, 1, 1])) == [0]


@pytest.mark.parametrize(
    ("units", "spare", "kept"),
    [
        pytest.param("a", 0, "a", id="one is needed"),
        pytest.param("a z", 0, "z", id="the large one is enough"),
        pytest.param("z a", 0, "z", id="whatever the order"),
        pytest.param("a b", 0, "a b", id="both are needed"),
        pytest.param("a b z", 0, "a b z", id="all are needed for two pods"),
        pytest.param("a b z", 1, "a b", id="one pod less: the dearest is spared"),
        pytest.param("z a b", 1, "z", id="the last are the dearest"),
    ],
)
def test_nobody_of_a_bundle_goes_who_is_not_needed_for_its_gain(units, spare, kept):
    """For as many pods as the bundle makes room for, less those that are not wanted."""
    made = Made(node("n", 4), lone("a b", "n"), lone("z", "n", gpus=2), waits(2))
    found = thinned(made.units(units), 0, made.shape, made.table, made.ledger, spare=spare)
    assert [made.name(number) for number in found] == kept.split()
