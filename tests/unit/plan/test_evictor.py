"""Who is asked to go for whom, action by action; what is remembered, and that nothing changes by asking."""

import numpy as np
import pytest

from muster.model.reasons import Code
from muster.plan.cycle import Policy, schedule
from muster.plan.outcome import ACTIONS, Action, Verdict
from muster.snapshot.build import Builder
from oracle.engine import apply, world_of
from short_forms import books_of, documents_of, going, gone, lone, merged, ns, number_of, snapshot_of, wanted_by

HIGH = {"priorityClassName": "build-preemptible"}
Q = {"queues": {"q": {"quota": -1}}}


def node(gpus, name="n"):
    return {"nodes": [{"name": name, "gpus": gpus}]}


def digest(books):
    """Everything that asking could change."""
    table = books.evictor.table
    ledgers = [engine.ledger.free.copy() for engine in (books.at_once, books.open_soon())]
    accounts = [list(map(list, one)) for one in (books.accounts.allocated, books.accounts.firm)]
    return (
        ledgers,
        accounts,
        table.left.copy(),
        table.there.copy(),
        [e.ledger.mark() for e in (books.at_once, books.soon)],
    )


def same(one, other):
    return all(
        all(map(np.array_equal, a, b)) if isinstance(a, list) else np.array_equal(a, b)
        for a, b in zip(one, other, strict=True)
    )


MOVES = [node(2, "n"), node(2, "m"), lone("a", "n", queue="q"), lone("b", "m", queue="q")]


@pytest.mark.parametrize(
    ("parts", "asker", "actions", "action", "pods"),
    [
        pytest.param([Q, *MOVES], {"gpus": 2}, ACTIONS, Action.CONSOLIDATE, 1, id="moving comes first"),
        pytest.param([Q, *MOVES], {"gpus": 2}, ["preempt"], Action.PREEMPT, 1, id="when it is not among the actions"),
        pytest.param([Q, *MOVES], {"gpus": 3}, ACTIONS, None, 0, id="no node is so large"),
        pytest.param(
            [
                {"queues": {"q": {"quota": 1}, "r": {"quota": 1, "weight": 0}}},
                node(2),
                lone("a", "n", queue="q"),
                lone("b", "n", queue="r"),
            ],
            {"gpus": 1},
            ACTIONS,
            Action.PREEMPT,
            1,
            id="a share that is used: only its own queue",
        ),
        pytest.param(
            [
                {"queues": {"q": {"quota": 2}, "r": {"quota": 0, "weight": 0}}},
                node(2),
                lone("a", "n", queue="q"),
                lone("b", "n", queue="r"),
            ],
            {"gpus": 1},
            ACTIONS,
            Action.RECLAIM,
            1,
            id="a share comes before a priority",
        ),
        pytest.param(
            [Q, node(2), lone("a b", "n", queue="q")], {"gpus": 2}, ["reclaim"], None, 0, id="nobody to take from"
        ),
    ],
)
def test_actions_are_tried_in_their_order(parts, asker, actions, action, pods):
    """Consolidate, reclaim, preempt, as far as they are asked for; and by asking nothing changes."""
    snapshot = snapshot_of(merged(*parts, lone("g", queue="q", **asker, **HIGH)))
    books = books_of(snapshot, actions)
    before = digest(books)
    found = books.evictor.find(wanted_by(books, snapshot, "g"), books.open_soon())
    assert same(digest(books), before)
    if action is None:
        assert found is None
        return
    assert found.action == action
    assert len(found.evictions) == pods
    assert {one.beneficiary for one in found.evictions} == {number_of(snapshot, "g")}
    assert all((one.to >= 0) == (action == Action.CONSOLIDATE) for one in found.evictions)


def test_what_raises_in_a_search_leaves_nothing_behind():
    """The room that was given back for a try is taken again, and so are the queues."""
    snapshot = snapshot_of(
        merged(
            Q,
            node(14),
            lone(" ".join(f"v{i}" for i in range(14)), "n", queue="q"),
            lone("g", queue="q", gpus=3, **HIGH),
        )
    )
    fails = 0
    for last in range(1, 99):
        books = books_of(snapshot, ["preempt"])
        before, asked = digest(books), []
        wanted = wanted_by(books, snapshot, "g")

        def ask(engine, progress, wanted=wanted, asked=asked, last=last):
            asked.append(1)
            if len(asked) == last:
                raise ZeroDivisionError
            return wanted.ask(engine, progress)

        try:
            found = books.evictor.find(wanted._replace(ask=ask), books.open_soon())
        except ZeroDivisionError:
            fails += 1
        assert same(digest(books), before)
        if len(asked) < last:
            break
    assert len(found.evictions) == 3
    assert fails == last - 1 > 2, "every question of the search failed once"


@pytest.mark.parametrize(("queue", "action"), [("q", "preempt"), ("r", "reclaim")])
def test_many_are_found_without_a_change(queue, action):
    """Who would go for whom is told; nothing is taken before the checker agrees."""
    queues = {"queues": {"q": {"quota": 9}, "r": {"quota": 0, "weight": 0}}}
    victims = lone(" ".join(f"v{i:02}" for i in range(14)), "n", queue=queue)
    snapshot = snapshot_of(merged(queues, node(14), victims, lone("g h", queue="q", **HIGH)))
    books = books_of(snapshot, [action])
    before = digest(books)
    served = books.evictor.find_many([wanted_by(books, snapshot, name) for name in "gh"], books.open_soon())
    assert [one.number for one in served] == [number_of(snapshot, name) for name in "gh"]
    assert len({unit for one in served for unit in one.units}) == 2
    assert same(digest(books), before)


@pytest.mark.parametrize(
    ("delay", "waits", "asks"),
    [
        pytest.param(None, None, True, id="no delay"),
        pytest.param("60s", -59, False, id="too early"),
        pytest.param("60s", -60, True, id="long enough"),
    ],
)
def test_who_has_not_waited_asks_nobody(delay, waits, asks):
    spec = {"preemptionDelay": delay} if delay else {}
    history = {"history": {"g": {"waits": waits}}} if waits else {}
    snapshot = snapshot_of(merged(node(1), lone("v", "n"), lone("g", **HIGH, **spec), history))
    books = books_of(snapshot)
    wanted = wanted_by(books, snapshot, "g")
    assert books.evictor.may_ask(wanted) is asks
    assert (books.evictor.find(wanted, books.open_soon()) is not None) is asks
    assert not books_of(snapshot, ["allocate", "stale"]).evictor.may_ask(wanted), "and without actions nobody asks"


@pytest.mark.parametrize(
    ("kinds", "second"),
    [
        pytest.param(("non-preemptible", "preemptible"), True, id="another preemptibility, another question"),
        pytest.param(("preemptible", "preemptible"), True, id="who got something does not speak for others"),
        pytest.param(("non-preemptible", "non-preemptible"), False, id="the same question"),
    ],
)
def test_what_was_asked_in_vain_is_true_only_of_equals(kinds, second):
    """A queue with limit 4 and quota 2 is full: one that may not be evicted is refused by the quota, not the other."""
    objects = merged(
        {"queues": {"q": {"quota": 2, "limit": 4}}, "nodes": [{"name": "n", "gpus": 4}, {"name": "m", "gpus": 4}]},
        lone("v", "n", queue="q", gpus=2),
        lone("f", "n", queue="q", gpus=2, preemptibility="non-preemptible", **HIGH),
        {
            "gangs": {
                f"g{at}": {"minMember": 2, "queue": "q", "preemptibility": kind, **HIGH}
                for at, kind in enumerate(kinds)
            }
        },
        {"pods": [{"gang": f"g{at}", "count": 2} for at in range(2)]},
        {"history": {"g0": {"created": -2}, "g1": {"created": -1}}},
    )
    plan, _ = schedule(snapshot_of(objects))
    placed = [plan.outcomes[number_of(plan.snapshot, f"g{at}")].verdict is Verdict.PLACED for at in range(2)]
    assert any(placed) is second
    assert bool(plan.evictions) is second
    assert sum(placed) <= 1
    if kinds[0] != kinds[1]:
        assert placed == [False, True]


def test_surplus_that_waits_is_asked_about_by_every_shape():
    """The first pod that waits can't be helped, the second can once queues change: it does not wait for ever."""
    objects = merged(
        {"nodes": [{"name": "n", "gpus": 2}]},
        {"gangs": {"v": {"minMember": 1, "queue": "b"}, "g": {"minMember": 1, "queue": "a"}}},
        {"pods": [{"gang": "v", "name": "v0", "on": "n"}, {"gang": "g", "name": "g0", "on": "n", "age": 9}]},
        {
            "pods": [
                {"gang": "g", "name": "g1", "gpus": 0, "cpus": 500, "age": 8},
                {"gang": "g", "name": "g2", "age": 7},
            ]
        },
    )
    queues = [documents_of({"queues": {"a": {"quota": a}, "b": {"quota": 2 - a}}}) for a in (1, 2)]
    world = world_of([*documents_of(objects), *queues[0]])
    builder = Builder(world)
    plan, memory = schedule(builder.build(ns(0)))
    assert plan.evictions == ()
    for one in queues[1]:
        apply(world, one)
    snapshot = builder.build(ns(1))
    for known in (memory, None):
        plan, _ = schedule(snapshot, None, known)
        assert gone(snapshot, plan.evictions) == ["v0"]


def test_a_gang_that_got_something_is_spared():
    """Also when the table was made before; and who was taken is not there again."""
    snapshot = snapshot_of(merged(Q, node(2), lone("a b", "n", queue="q"), lone("g", queue="q", **HIGH)))
    for early in (False, True):
        books = books_of(snapshot, ["preempt"])
        if early:
            assert books.evictor.table.left.all()
        books.evictor.spare(number_of(snapshot, "b"))
        found = books.evictor.find(wanted_by(books, snapshot, "g"), books.open_soon())
        assert gone(snapshot, found.evictions) == ["a"]
        books.evictor.take(found.units, found.evictions)
        assert books.evictor.find(wanted_by(books, snapshot, "g"), books.open_soon()) is None


@pytest.mark.parametrize(
    ("allowed", "taken", "pods", "undisturbed"),
    [
        pytest.param(2, "", "a b", True, id="as many as allowed"),
        pytest.param(1, "", "a b", False, id="more"),
        pytest.param(2, "a", "b", True, id="after one has gone"),
        pytest.param(1, "a", "b", False, id="when all have gone"),
        pytest.param(0, "", "c", True, id="who is not guarded"),
        pytest.param(1, "a", "c", True, id="who is not guarded, when all have gone"),
    ],
)
def test_budgets_are_drawn_by_who_goes(allowed, taken, pods, undisturbed):
    budgets = {"budgets": {"b": {"selects": {"app": "web"}, "allowed": allowed}}}
    snapshot = snapshot_of(merged(node(3), lone("a b", "n", labels={"app": "web"}), lone("c", "n"), budgets))
    books = books_of(snapshot)
    books.evictor.take((), going(snapshot, taken, Action.STALE))
    assert books.evictor.is_undisturbed(going(snapshot, pods, Action.STALE)) is undisturbed


def test_a_moved_gang_still_counts_in_its_queue():
    """m of a full queue is moved for another queue; another gang of it does not get its place under the limit."""
    objects = merged(
        {"queues": {"q": {"quota": 0, "limit": 3}, "r": {"quota": -1}}},
        {"nodes": [{"name": "a", "gpus": 2}, {"name": "b", "gpus": 2}, {"name": "c", "gpus": 1}]},
        {"nodes": [{"name": "d", "gpus": 1, "labels": {"only": "x"}}]},
        lone("m", "a", queue="q"),
        lone("o", "b", queue="q", controlled=False),
        lone("p", "c", queue="q", controlled=False),
        lone("g", queue="r", gpus=2, **HIGH),
        lone("x", queue="q", spec={"nodeSelector": {"only": "x"}}),
    )
    plan, _ = schedule(snapshot_of(objects))
    assert gone(plan.snapshot, plan.evictions) == ["m"]
    outcome = plan.outcomes[number_of(plan.snapshot, "x")]
    assert outcome.verdict is Verdict.HELD
    assert [reason.code for reason in outcome.reasons] == [Code.OVER_LIMIT]


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        pytest.param({}, True, id="it comes back"),
        pytest.param({"queue": "gone"}, False, id="its queue is missing"),
        pytest.param({"queue": "full"}, False, id="its queue has more than its limit"),
        pytest.param({"minMember": 2, "stalenessGracePeriod": "-1s"}, False, id="it is not ready without it"),
    ],
)
def test_nobody_is_moved_who_would_not_come_back(change, moved):
    objects = merged(
        {"queues": {"q": {"quota": -1}, "full": {"limit": 0, "quota": 0}}},
        {"nodes": [{"name": "a", "gpus": 2}, {"name": "b", "gpus": 2}]},
        lone("m", "a", **{"queue": "q", **change}),
        lone("o", "b", queue="q", controlled=False),
        lone("g", queue="q", gpus=2),
    )
    plan, _ = schedule(snapshot_of(objects), Policy(actions=frozenset([Action.ALLOCATE, Action.CONSOLIDATE])))
    assert bool(plan.evictions) is moved
