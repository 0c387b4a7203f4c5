"""Who may take what from whom (SPEC §8): preempt, reclaim, consolidate, protection and budgets."""

import pytest

from muster.plan.accounts import Accounts
from muster.plan.outcome import Action
from muster.plan.rights import Rights, Terms
from muster.plan.units import Table
from muster.snapshot.queues import PARTS
from short_forms import GPU, lone, merged, number_of, pod_of, snapshot_of

NODE = {"nodes": [{"name": "n", "gpus": 8}]}
TREE = {
    "q": {"parent": "p", "quota": 2},
    "r": {"parent": "p", "quota": 0},
    "p": {"quota": 4},
    "s": {"quota": 0, "weight": 0},
}
ASKER = lone("g", queue="q", priorityClassName="train")


class Asked:
    """The rights of the gang g to so many GPUs by an action."""

    def __init__(self, action, *parts, gpus=1, now=0):
        self.snapshot = snapshot_of(merged(NODE, ASKER, *parts), now)
        self.accounts, self.table = Accounts(self.snapshot), Table(self.snapshot)
        number = number_of(self.snapshot, "g")
        self.terms = Terms(self.snapshot.gangs[number], (0, 0, gpus * PARTS), self.accounts)
        budgets = self.snapshot.disruptions
        self.rights = Rights(action, number, self.terms, self.table, self.snapshot, budgets)

    def name(self, number):
        unit = self.table[number]
        return "+".join(pod_of(self.snapshot, unit.gang, leaf, at) for leaf, at in unit.pods)

    @property
    def candidates(self):
        return {self.name(number) for number in self.rights.candidates.tolist()}

    def units(self, names):
        known = {self.name(number): number for number in range(len(self.table))}
        return [known[name] for name in names.split()]

    def queue(self, name):
        return self.snapshot.queues.row_of[name]


VICTIMS = merged(
    {"queues": TREE},
    lone("same", "n", queue="q"),
    lone("equal", "n", queue="q", priorityClassName="train"),
    lone("firm", "n", queue="q", preemptibility="non-preemptible"),
    lone("near", "n", queue="r", priorityClassName="build-preemptible"),
    lone("far", "n", queue="s"),
    lone("loose", "n", queue="s", controlled=False),
    lone("lost", "n", queue="nowhere"),
)


@pytest.mark.parametrize(
    ("action", "takes"),
    [
        pytest.param(Action.PREEMPT, {"same"}, id="preempt: lower priorities of the same queue"),
        pytest.param(Action.RECLAIM, {"near", "far", "loose"}, id="reclaim: other queues above what they are due"),
        pytest.param(Action.CONSOLIDATE, {"same", "equal", "near", "far"}, id="consolidate: whoever comes back"),
    ],
)
def test_who_may_be_taken_at_all(action, takes):
    """Each by itself: never what is not preemptible, never the gang itself, nobody who is spared."""
    # Nobody but the victims of reclaim asks or holds: q has none of its quota.
    asked = Asked(action, merged(VICTIMS, {"queues": {"q": {"parent": "p", "quota": 4}}}))
    assert asked.candidates == takes
    spared = Asked(action, merged(VICTIMS, {"queues": {"q": {"parent": "p", "quota": 4}}}))
    spared.table.spare(number_of(spared.snapshot, sorted(takes)[0]))
    assert spared.candidates == takes - {sorted(takes)[0]}


RUNS = lone("v", "n", queue="q")
SURPLUS = {"gangs": {"v": {"minMember": 1, "queue": "q"}}, "pods": [{"gang": "v", "count": 2, "on": "n"}]}


@pytest.mark.parametrize(
    ("action", "queue", "setting", "started", "victim", "taken"),
    [
        pytest.param("preempt", "q", "preemptMinRuntime", -59, RUNS, set(), id="not yet"),
        pytest.param("preempt", "q", "preemptMinRuntime", -60, RUNS, {"v"}, id="just"),
        pytest.param("preempt", "q", "preemptMinRuntime", None, RUNS, {"v"}, id="nobody knows since when"),
        pytest.param("preempt", "q", "reclaimMinRuntime", -1, RUNS, {"v"}, id="the other protection"),
        pytest.param("preempt", "q", "preemptMinRuntime", -1, SURPLUS, {"v-0", "v-1"}, id="surplus is not protected"),
        pytest.param("reclaim", "s", "reclaimMinRuntime", -59, RUNS, set(), id="reclaim: not yet"),
        pytest.param("reclaim", "s", "reclaimMinRuntime", -60, RUNS, {"v"}, id="reclaim: just"),
        pytest.param("reclaim", "s", "preemptMinRuntime", -1, RUNS, {"v"}, id="reclaim: the other protection"),
        pytest.param("consolidate", "q", "preemptMinRuntime", -1, RUNS, set(), id="moved inside a queue"),
        pytest.param("consolidate", "q", "reclaimMinRuntime", -1, RUNS, {"v"}, id="moved inside: the other"),
        pytest.param("consolidate", "s", "reclaimMinRuntime", -1, RUNS, set(), id="moved across queues"),
        pytest.param("consolidate", "s", "preemptMinRuntime", -1, RUNS, {"v"}, id="moved across: the other"),
    ],
)
def test_a_minimum_is_safe_for_as_long_as_its_queue_promises(action, queue, setting, started, victim, taken):
    """By the runtime for this action; surplus never is."""
    queues = {**TREE, queue: {**TREE[queue], setting: "60s"}}
    gangs = {"v": {**victim["gangs"]["v"], "queue": queue}}
    history = {"history": {"v": {"started": started}}} if started is not None else {}
    asked = Asked(action, {**victim, "gangs": gangs}, {"queues": queues}, history)
    assert asked.candidates == taken


def crowd(count, queue, gpus=1, **spec):
    names = " ".join(f"{queue}{index}" for index in range(count))
    return lone(names, "n", queue=queue, gpus=gpus, **spec)


@pytest.mark.parametrize(
    ("parts", "gpus", "due", "gives"),
    [
        pytest.param([crowd(8, "s")], 2, True, {"s"}, id="s has more than its share"),
        pytest.param([crowd(8, "s")], 9, False, set(), id="more than the share of q"),
        pytest.param([crowd(4, "r"), crowd(4, "s")], 2, True, {"r"}, id="the queue above has no more of its own"),
        pytest.param([crowd(2, "r"), crowd(6, "s")], 1, True, {"r", "s"}, id="r has more than its quota"),
        pytest.param([crowd(2, "q"), crowd(6, "s")], 1, True, {"s"}, id="beyond quota, within the share"),
    ],
)
def test_queues_give_what_they_are_not_due(parts, gpus, due, gives):
    """The asker's queues end within their share, or their quota, and the other's have more than that."""
    asked = Asked(Action.RECLAIM, {"queues": TREE}, *parts, gpus=gpus)
    assert asked.terms.is_due is due
    found = {name for name in ("r", "s") if asked.terms.may_give(asked.queue(name), (0, 0, PARTS), {})}
    assert found == gives
    assert {asked.snapshot.queues.names[at] for at in asked.terms.below(asked.queue("r"))} == {"r"}
    assert {asked.snapshot.queues.names[at] for at in asked.terms.below(asked.queue("s"))} == {"s"}


def test_nobody_takes_from_the_queue_above():
    """What the queue above has is its own as well; and what is freed must be what is asked for."""
    asked = Asked(Action.RECLAIM, {"queues": TREE}, crowd(8, "s"))
    assert not asked.terms.may_give(asked.queue("p"), (0, 0, PARTS), {})
    assert not asked.terms.may_give(asked.queue("q"), (0, 0, PARTS), {})
    assert not asked.terms.may_give(asked.queue("s"), (1000, 0, 0), {})
    taken = {asked.queue("s"): [0, 0, 8 * PARTS]}
    assert not asked.terms.may_give(asked.queue("s"), (0, 0, PARTS), taken)


def test_units_go_until_their_queue_is_down_to_what_it_is_due():
    """One after the other, each while its queue has more than its share before it; and no less may be had."""
    queues = {"q": {"quota": 0}, "s": {"quota": 0}}
    asked = Asked(Action.RECLAIM, {"queues": queues}, crowd(8, "s"), lone("w1 w2 w3", queue="q"), gpus=4)
    assert asked.accounts.fair[asked.queue("s")][GPU] == 4 * PARTS
    numbers = asked.rights.candidates.tolist()
    taken = list(asked.rights.legal([number] for number in numbers))
    assert len(taken) == 4
    assert asked.rights.all_legal(numbers[:4])
    assert not asked.rights.all_legal(numbers[:5])
    assert asked.terms.most({asked.queue("s"): (0, 0, PARTS)})[GPU] >= 4 * PARTS


def test_the_last_unit_may_be_larger_than_what_is_too_much():
    """Above its share by one, a queue may lose a gang of three: before it goes the queue has more than its share."""
    queues = {"q": {"quota": 0}, "s": {"quota": 0}}
    three = {"gangs": {"v": {"minMember": 3, "queue": "s"}}, "pods": [{"gang": "v", "count": 3, "on": "n"}]}
    asked = Asked(Action.RECLAIM, {"queues": queues}, three, crowd(2, "s"), lone("w1 w2 w3", queue="q"), gpus=4)
    whole = asked.units("v-0+v-1+v-2")
    assert asked.accounts.above(asked.queue("s"), GPU, quota=False) == PARTS
    assert asked.rights.all_legal(whole)
    assert not asked.rights.all_legal([*whole, *asked.units("s0")])
    assert asked.terms.most({asked.queue("s"): (0, 0, 3 * PARTS)})[GPU] // PARTS == 3


def test_of_a_gang_with_surplus_the_minimum_goes_last():
    """A gang of four with a minimum of one goes whole only while its queue is above its share before the last pod."""
    queues = {"q": {"quota": 0}, "s": {"quota": 0}}
    four = {"gangs": {"v": {"minMember": 1, "queue": "s"}}, "pods": [{"gang": "v", "count": 4, "on": "n"}]}
    waits = lone("w1 w2 w3", queue="q")
    for others, allowed in ((2, False), (4, True)):
        asked = Asked(Action.RECLAIM, {"queues": queues}, four, crowd(others, "s"), waits, gpus=4)
        assert asked.accounts.fair[asked.queue("s")][GPU] == 4 * PARTS
        (whole,) = (number for number in range(len(asked.table)) if asked.table.pods[number] == 4)
        assert asked.rights.all_legal([whole]) is allowed


def test_a_bundle_goes_whole_or_not_at_all():
    """One that may not go as a whole is left out, counts for nothing, and the next one is looked at."""
    queues = {"q": {"quota": 0}, "s": {"quota": 0}}
    asked = Asked(Action.RECLAIM, {"queues": queues}, crowd(8, "s"), lone("w1 w2 w3", queue="q"), gpus=4)
    one, *others = asked.rights.candidates.tolist()
    bundles = [[one], others[:5], others[:3], [one], others[5:]]
    assert list(asked.rights.legal(bundles)) == [[one], others[:3]]


@pytest.mark.parametrize(
    ("allowed", "some", "legal"),
    [
        pytest.param(1, "a", True, id="one of one"),
        pytest.param(1, "a b", False, id="two of one"),
        pytest.param(0, "a", False, id="none"),
        pytest.param(0, "free", True, id="whom no budget guards"),
        pytest.param(2, "a b free", True, id="two of two"),
        pytest.param(2, "two-0+two-1", True, id="both pods of a gang"),
        pytest.param(1, "two-0+two-1", False, id="a gang counts all its pods"),
    ],
)
def test_disruption_budgets_are_drawn_pod_by_pod(allowed, some, legal):
    """All that go together draw on the same budgets."""
    web = {"labels": {"app": "web"}}
    asked = Asked(
        Action.PREEMPT,
        {"queues": TREE, "budgets": {"b": {"selects": {"app": "web"}, "allowed": allowed}}},
        lone("a b", "n", queue="q", **web),
        lone("free", "n", queue="q"),
        {"gangs": {"two": {"minMember": 2, "queue": "q"}}, "pods": [{"gang": "two", "count": 2, "on": "n", **web}]},
    )
    assert asked.rights.all_legal(asked.units(some)) is legal


def test_what_was_refused_draws_nothing():
    """A bundle that a budget stops half way gives back what it drew."""
    web = {"labels": {"app": "web"}}
    asked = Asked(
        Action.PREEMPT,
        {"queues": TREE, "budgets": {"b": {"selects": {"app": "web"}, "allowed": 2}}},
        lone("a b c", "n", queue="q", **web),
    )
    a, b, c = ([number] for number in asked.units("a b c"))
    assert list(asked.rights.legal([a, [*b, *c], b, c])) == [a, b]


def test_no_half_of_a_minimum_goes():
    """Surplus pods of a gang, one by one, as many as it has; then only the whole gang, with what went already."""
    three = {"gangs": {"v": {"minMember": 2, "queue": "q"}}, "pods": [{"gang": "v", "count": 3, "on": "n"}]}
    asked = Asked(Action.PREEMPT, {"queues": TREE}, three)
    single, whole = asked.units("v-2 v-1 v-0"), asked.units("v-0+v-1+v-2")
    assert list(asked.rights.legal([[number] for number in single])) == [single[:1]]
    assert list(asked.rights.legal([single[:1], whole])) == [single[:1], whole]
    assert not asked.rights.all_legal(single[:2])
    assert asked.rights.all_legal([*single[:1], *whole])
    assert not asked.rights.all_legal([*single[:2], *whole]), "what goes before may be no half either"
