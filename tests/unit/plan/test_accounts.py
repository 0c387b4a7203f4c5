"""What queues hold, may have and are due while a cycle goes on; and which part of a gang is firm (SPEC §6, §7)."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from muster.api.tree import NONE
from muster.plan.accounts import NOTHING, Accounts, core_counts, core_pods, minimum_of, plus
from muster.plan.progress import Progress
from muster.snapshot.queues import PARTS
from short_forms import CPU, GPU, MEMORY, lone, merged, number_of, snapshot_of

QUEUES = {"queues": {"p": {"limit": 8, "quota": 6}, "a": {"parent": "p", "quota": 2, "limit": 5}, "b": {"parent": "p"}}}
NODES = {"nodes": [{"name": "n", "gpus": 12}]}
SEMI = {"minMember": 2, "preemptibility": "semi-preemptible", "queue": "a"}
FIRM = {"minMember": 1, "preemptibility": "non-preemptible", "queue": "b"}
HOLDS = {
    "gangs": {"semi": SEMI, "firm": FIRM, "free": {"minMember": 1, "queue": "b"}},
    "pods": [
        {"gang": "semi", "count": 3, "on": "n"},
        {"gang": "firm", "count": 2, "on": "n", "cpus": 3},
        {"gang": "free", "count": 1, "on": "n"},
    ],
}
ASKS = {
    "gangs": {
        "asks": {"minMember": 1, "queue": "b"},
        "unready": {"minMember": 9, "queue": "b"},
        "held": {"minMember": 1, "queue": "nowhere"},
    },
    "pods": [{"gang": name, "count": 2} for name in ("asks", "unready", "held")],
}


def accounts_of(*parts):
    return Accounts(snapshot_of(merged(QUEUES, NODES, *parts)))


def row(accounts, name):
    return accounts.queues.row_of[name]


def gpus(table, accounts):
    return {name: table[at][GPU] // PARTS for at, name in enumerate(accounts.queues.names)}


def test_what_is_charged_to_a_queue_is_charged_to_all_above_it():
    """Placed pods are allocated, their core or all of them is firm, and only ready gangs that nothing holds ask."""
    accounts = accounts_of(HOLDS, ASKS)
    assert gpus(accounts.allocated, accounts) == {"p": 6, "a": 3, "b": 3}
    assert gpus(accounts.firm, accounts) == {"p": 4, "a": 2, "b": 2}
    assert gpus(accounts.requested, accounts) == {"p": 8, "a": 3, "b": 5}
    assert [accounts.allocated[row(accounts, name)][CPU] for name in ("p", "a", "b")] == [6000, 0, 6000]


def test_a_restart_forgets_the_cycle():
    """Whatever was charged or nominated, the accounts are as before the cycle then."""
    accounts, fresh = accounts_of(HOLDS, ASKS), accounts_of(HOLDS, ASKS)
    accounts.charge(row(accounts, "a"), (0, 0, PARTS), (0, 0, PARTS))
    accounts.await_(row(accounts, "a"), (0, 0, PARTS), (0, 0, PARTS))
    assert [one._replace(awaited=NOTHING) for one in accounts.outcomes()] == list(fresh.outcomes()), (
        "what is charged and nominated is not placed"
    )
    assert accounts.allocated != fresh.allocated, "and counts all the same"
    accounts.restart()
    assert (accounts.allocated, accounts.firm) == (fresh.allocated, fresh.firm)
    assert [one._replace(awaited=NOTHING) for one in accounts.outcomes()] == list(fresh.outcomes())


@pytest.mark.parametrize("where", ["on", "waits"])
def test_hostile_amounts_add_up_exactly(where):
    """Amounts that are more than 64 bits hold in all are still sums, at the queue and above it."""
    many = {"gang": "g", "count": 3, **({"on": "n"} if where == "on" else {})}
    found = merged(QUEUES, NODES, {"gangs": {"g": {"minMember": 1, "queue": "b"}}, "pods": [many]})
    snapshot = snapshot_of(found)
    accounts = Accounts(replace(snapshot, charges=np.full_like(snapshot.charges, 2**62)))
    table, total = accounts.allocated if where == "on" else accounts.requested, 3 * 2**62
    assert [table[row(accounts, name)][MEMORY] for name in ("b", "p", "a")] == [total, total, 0]
    assert min(amount for share in accounts.fair for amount in share) >= 0


@pytest.mark.parametrize(
    ("queue", "amount", "firm", "refused"),
    [
        pytest.param("a", 2, 0, None, id="within"),
        pytest.param("a", 3, 0, ("a", 3, 2, 5, False), id="the queue is full"),
        pytest.param("a", 6, 0, ("a", 6, 2, 5, False), id="more than its limit at once"),
        pytest.param("b", 3, 0, ("p", 3, 2, 8, False), id="the queue above is full"),
        pytest.param("b", 9, 0, ("p", 9, 2, 8, False), id="more than the limit above"),
        pytest.param("a", 1, 1, ("a", 1, 0, 2, True), id="the quota is used"),
        pytest.param("a", 1, 3, ("a", 3, 0, 2, True), id="more than the quota at once"),
        pytest.param("b", 2, 2, None, id="the quota above has just enough"),
        pytest.param("b", 2, 3, ("p", 3, 2, 6, True), id="the quota above is used"),
        pytest.param("a", 5, 1, ("a", 5, 2, 5, False), id="of two the first"),
        pytest.param("a", 3, 7, ("a", 7, 0, 2, True), id="what can never be comes before what is full"),
        pytest.param("a", 0, 0, None, id="nothing"),
    ],
)
def test_a_queue_refuses_what_is_more_than_it_or_one_above_may_have(queue, amount, firm, refused):
    """Limit for all, quota for what is firm, at the queue and at every one above it."""
    accounts = accounts_of(HOLDS)
    found = accounts.refusal(row(accounts, queue), (0, 0, amount * PARTS), (0, 0, firm * PARTS))
    amounts = (found.asked, found.left, found.most) if found else ()
    told = found and (accounts.queues.names[found.queue], *(one // PARTS for one in amounts), found.quota)
    assert told == refused


@pytest.mark.parametrize(
    ("kind", "leave", "left", "quota_left"),
    [
        pytest.param("preemptible", 2, 3, 2, id="preemptible"),
        pytest.param("non-preemptible", 2, 3, 0, id="non-preemptible"),
        pytest.param("semi-preemptible", 3, 2, 0, id="a core and one more pod"),
    ],
)
def test_what_leaves_leaves_less_to_what_is_bound_at_once(kind, leave, left, quota_left):
    """A nomination may count on it; a nomination itself takes nothing from what is bound at once."""
    gang = {"minMember": 2, "preemptibility": kind, "queue": "a"}
    accounts = accounts_of(
        {"gangs": {"g": gang}, "pods": [{"gang": "g", "count": leave, "on": "n", "terminating": True}]}
    )
    a = row(accounts, "a")
    for at, firm in ((left, 0), (min(left, quota_left), quota_left)):
        assert accounts.refusal_now(a, (0, 0, at * PARTS), (0, 0, firm * PARTS)) is None
    assert accounts.refusal_now(a, (0, 0, (left + 1) * PARTS), NOTHING).left == left * PARTS
    assert accounts.refusal_now(a, (0, 0, PARTS), (0, 0, (quota_left + 1) * PARTS)).quota
    assert accounts.refusal(a, (0, 0, 5 * PARTS), (0, 0, 2 * PARTS)) is None
    accounts.charge(a, (0, 0, 5 * PARTS), (0, 0, 2 * PARTS))
    accounts.await_(a, (0, 0, 5 * PARTS), (0, 0, 2 * PARTS))
    assert accounts.refusal_now(a, (0, 0, PARTS), NOTHING) == accounts.refusal(a, (0, 0, PARTS), NOTHING), (
        "what is nominated is not given to others"
    )


def test_who_is_above_its_limit_already_may_have_what_is_not_limited():
    """A limit of GPUs, however much it is exceeded, says nothing about a pod without GPUs."""
    over = {"gangs": {"g": {"minMember": 1, "queue": "a"}}, "pods": [{"gang": "g", "count": 9, "on": "n"}]}
    accounts = accounts_of(over)
    assert accounts.refusal(row(accounts, "a"), (1000, 0, 0), NOTHING) is None
    assert accounts.refusal(row(accounts, "a"), (0, 0, PARTS), NOTHING).left == 0
    assert accounts.refusal(NONE, (0, 0, 100 * PARTS), (0, 0, 100 * PARTS)) is None, (
        "who has no queue is limited by none"
    )


# Fair shares of 12 GPUs: a and b hold and ask as below; both have quota 2 and weight 1.
def shared(a_holds, a_asks, b_holds, b_asks, gpus=12):
    found = {"queues": {name: {"quota": 2} for name in "ab"}, "nodes": [{"name": "n", "gpus": gpus}]}
    for name, holds, asks in (("a", a_holds, a_asks), ("b", b_holds, b_asks)):
        for kind, count in (("h", holds), ("w", asks)):
            where = {"on": "n"} if kind == "h" else {}
            if count:
                found = merged(found, {"gangs": {name + kind: {"minMember": 1, "queue": name}}})
                found = merged(found, {"pods": [{"gang": name + kind, "count": count, **where}]})
    return Accounts(snapshot_of(found))


@pytest.mark.parametrize(
    ("amounts", "fair", "under", "dominant", "within", "above", "above_quota"),
    [
        pytest.param((0, 9, 0, 9), 6, True, 0.0, 6, -6, -2, id="nothing yet"),
        pytest.param((3, 6, 0, 9), 6, True, 0.5, 3, -3, 1, id="half of it"),
        pytest.param((6, 3, 0, 6), 6, False, 1.0, 0, 0, 4, id="all of it"),
        pytest.param((8, 1, 0, 4), 8, False, 1.0, 0, 0, 6, id="what others do not ask for"),
        pytest.param((8, 1, 0, 9), 6, False, 8 / 6, 0, 2, 6, id="more than it"),
        pytest.param((3, 0, 0, 9), 3, True, 1.0, 0, 0, 1, id="who asks for nothing more has less of nothing"),
    ],
)
def test_what_a_queue_has_is_compared_with_what_it_is_due(amounts, fair, under, dominant, within, above, above_quota):
    """Under its share, its part of it, how much more fits into it, and how far it is above it."""
    accounts = shared(*amounts)
    at = row(accounts, "a")
    assert accounts.fair[at][GPU] == fair * PARTS
    assert accounts.is_under(at) is under
    assert accounts.dominant_share(at) == dominant
    assert accounts.within_share(at, (0, 0, PARTS)) == within
    assert accounts.within_share(at, (0, 0, 2 * PARTS)) == within // 2
    assert accounts.above(at, GPU, quota=False) == above * PARTS
    assert accounts.above(at, GPU, quota=True) == above_quota * PARTS
    for more in range(8):
        assert accounts.ends_within(at, (0, 0, more * PARTS), quota=False) is (more == 0 or above + more <= 0)
        assert accounts.ends_within(at, (0, 0, more * PARTS), quota=True) is (more == 0 or above_quota + more <= 0)


def test_who_holds_what_it_is_not_due_has_no_smaller_part():
    """A queue without any share of what it holds comes after all that have one."""
    accounts = shared(3, 0, 2, 0, gpus=2)
    accounts.fair[row(accounts, "a")] = NOTHING
    assert accounts.dominant_share(row(accounts, "a")) == inf


def test_a_share_is_bounded_by_those_above():
    """What fits into the share of a queue is no more than what fits into those of the queues above it."""
    found = merged(QUEUES, {"nodes": [{"name": "n", "gpus": 4}]}, lone("x", "n", queue="a"), lone("y", queue="b"))
    accounts = Accounts(snapshot_of(found))
    child, parent = row(accounts, "b"), row(accounts, "p")
    accounts.fair[child], accounts.fair[parent] = (0, 0, 9 * PARTS), (0, 0, 4 * PARTS)
    assert accounts.within_share(child, (0, 0, PARTS)) == 3
    assert accounts.within_share(child, NOTHING) > 10**6, "what costs nothing is always within it"


TREE = {
    "minMember": 4,
    "subGroups": [{"name": "x", "minMember": 1}, {"name": "y", "minMember": 1}],
    "preemptibility": "semi-preemptible",
}
CHOICE = {
    "minSubGroup": 1,
    "subGroups": [{"name": "x", "minMember": 1}, {"name": "y", "minMember": 2}],
    "preemptibility": "semi-preemptible",
}


def tree_of(spec, history=None, **leaves):
    pods = []
    for leaf, sizes in leaves.items():
        for index, (size, age) in enumerate(sizes):
            one = {"gang": "g", "subGroup": leaf, "name": f"{leaf}{index}", "gpus": size, "age": age}
            pods.append({**one, **({"on": "n"} if age else {"phase": "Succeeded", "on": "n"})})
    found = {"gangs": {"g": spec}, "pods": pods, **({"history": {"g": history}} if history else {})}
    snapshot = snapshot_of(merged({"nodes": [{"name": "n", "gpus": 99}]}, found))
    return snapshot, snapshot.gangs[number_of(snapshot, "g")]


X, Y = 1, 2


@pytest.mark.parametrize(
    ("spec", "history", "leaves", "kept"),
    [
        pytest.param(CHOICE, None, {"x": [(1, 9)], "y": [(1, 8), (1, 7)]}, {X: 1, Y: 0}, id="the first child"),
        pytest.param(
            CHOICE, {"core": ["y"]}, {"x": [(1, 9)], "y": [(1, 8), (1, 7)]}, {X: 0, Y: 2}, id="the child that was core"
        ),
        pytest.param(CHOICE, None, {"y": [(1, 8), (1, 7), (1, 6)]}, {Y: 2}, id="the oldest pods of it"),
        pytest.param(
            TREE, None, {"x": [(1, 9), (1, 8), (1, 7)], "y": [(1, 6), (1, 5)]}, {X: 3, Y: 1}, id="a floor: the oldest"
        ),
        pytest.param(
            TREE, None, {"x": [(1, 6), (1, 5)], "y": [(1, 9), (1, 8), (1, 7)]}, {X: 1, Y: 3}, id="wherever they are"
        ),
        pytest.param(
            TREE, None, {"x": [(1, 6), (1, 0)], "y": [(1, 9), (1, 8), (1, 7)]}, {X: 0, Y: 3}, id="who succeeded counts"
        ),
    ],
)
def test_the_core_is_as_few_of_the_oldest_pods_as_the_minimum_needs(spec, history, leaves, kept):
    """Per leaf so many, with a floor the oldest further ones of all leaves."""
    _, gang = tree_of(spec, history, **leaves)
    assert core_counts(gang) == kept
    assert sorted(leaf for leaf, _ in core_pods(gang)) == [leaf for leaf, count in kept.items() for _ in range(count)]


@pytest.mark.parametrize(
    ("kind", "firm", "rises"),
    [
        pytest.param("preemptible", 0, [0, 0, 0], id="nothing of a preemptible gang"),
        pytest.param("non-preemptible", 5, [1, 2, 3], id="all of a non-preemptible one"),
        pytest.param("semi-preemptible", 2, [1, 1, 1], id="the core of a semi-preemptible one"),
    ],
)
def test_what_is_placed_raises_the_firm_part(kind, firm, rises):
    """The firm part of what is placed, and by how much it rises when so many more are."""
    spec = {"minMember": 2, "preemptibility": kind}
    pods = [{"gang": "g", "name": "old", "gpus": 2, "on": "n", "age": 9}]
    if kind == "non-preemptible":
        pods.append({"gang": "g", "name": "old1", "gpus": 3, "on": "n", "age": 8})
    pods.append({"gang": "g", "name": "new", "count": 3, "age": 1})
    snapshot = snapshot_of(merged(NODES, {"gangs": {"g": spec}, "pods": pods}))
    accounts, gang = Accounts(snapshot), snapshot.gangs[0]
    assert accounts.firm_of(gang)[GPU] == firm * PARTS
    progress = Progress(gang, snapshot)
    for count, rise in enumerate(rises, start=1):
        assert accounts.firm_more(progress, {0: count}, (0, 0, count * PARTS))[GPU] == rise * PARTS
    progress.place(0, [0])
    assert accounts.firm_more(progress, {0: 1}, (0, 0, PARTS))[GPU] == (rises[1] - rises[0]) * PARTS


SMALL = {"minSubGroup": 1, "subGroups": [{"name": "x", "minMember": 1}, {"name": "y", "minMember": 2}]}


@pytest.mark.parametrize(
    ("spec", "leaves", "at", "minimum"),
    [
        pytest.param(SMALL, {"x": [(1, 9), (1, 8)], "y": [(1, 7)] * 3}, 0, {X: 1, Y: 0}, id="of the gang"),
        pytest.param(SMALL, {"x": [(1, 9)], "y": [(1, 7)] * 3}, Y, {Y: 2}, id="of a child"),
        pytest.param(SMALL, {"x": [(1, 9)], "y": [(1, 7), (1, 6), (1, 0)]}, Y, {Y: 1}, id="of which one succeeded"),
    ],
)
def test_the_minimum_of_what_goes_is_what_goes_last(spec, leaves, at, minimum):
    """Of a gang or child that goes whole: how many of the oldest pods of every leaf are its minimum."""
    _, gang = tree_of(spec, **leaves)
    assert minimum_of(gang, at) == minimum


def test_sums():
    assert plus((1, 2, 3), (4, 5, 6)) == (5, 7, 9)
    assert plus((1, 2, 3), (4, 5, 6), -2) == (-7, -8, -9)
