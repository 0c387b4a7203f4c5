"""A defect of ours costs one gang its turn, never the cycle: others get what they would get without it.

Whatever raises on the way of a decision, and whenever the checker refuses one, room, queues and table are as if the
gang had never had its turn.
"""

import importlib
from functools import cache

import pytest

from muster.model.reasons import Code
from muster.plan import cycle
from muster.plan.books import Books
from muster.plan.cycle import Policy, schedule
from muster.plan.order import turns_of
from muster.plan.outcome import ACTIONS, Action, Verdict
from muster.plan.reserved import Reserved
from muster.snapshot.build import build
from oracle.engine import said, world_of
from scenarios.story import unlike
from short_forms import documents_of, gone, lone, merged, ns, number_of, snapshot_of

CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 90}
EARLY, BAD, LATE = ({"priorityClassName": name} for name in ("high", "build-preemptible", "train"))
MANY = 13


def nodes(pool, *gpus):
    return {"nodes": [{"name": f"{pool}{at}", "gpus": size, "labels": {"pool": pool}} for at, size in enumerate(gpus)]}


def gang(name, pool, count=1, minimum=None, gpus=1, queue="q", **spec):
    """Pods that go to a pool of nodes and nowhere else."""
    pods = {"gang": name, "count": count, "gpus": gpus, "spec": {"nodeSelector": {"pool": pool}}}
    return {"gangs": {name: {"minMember": minimum or count, "queue": queue, **spec}}, "pods": [pods]}


def singles(names, pool, on="", queue="q", **more):
    return lone(names, on, queue=queue, spec={"nodeSelector": {"pool": pool}}, **more)


def running(name, node, gpus=1, queue="q", controlled=False):
    return lone(name, node, queue=queue, gpus=gpus, controlled=controlled)


VICTIMS = " ".join(f"v{at:02}" for at in range(MANY))
# In every pool there is room for one of two: for a gang that comes first and fails, or for one that comes later.
POOLS = merged(
    {"documents": [CLASS]},
    {"queues": {"q": {"quota": 4, "limit": 60}, "s": {"quota": 0, "weight": 0}, "t": {"quota": 1}}},
    nodes("now", 4),
    gang("early", "now", 2, **EARLY),
    gang("late", "now", 2, **LATE),
    nodes("soon", 2),
    {"pods": [{"name": "old", "gpus": 2, "on": "soon0", "terminating": True}]},
    gang("late-soon", "soon", gpus=2, **LATE),
    nodes("full", 1, 1, 1, 1, 1),
    *(running(f"full-{at}", f"full{at}") for at in range(5)),
    gang("early-full", "full", 2, **EARLY),
    gang("late-full", "full", 3, **LATE),
    nodes("move", 2, 2, 2),
    running("stays", "move0"),
    running("moves", "move1", controlled=True),
    running("fixed", "move2", gpus=2),
    gang("late-move", "move", gpus=2, **LATE),
    nodes("their", 1),
    running("theirs", "their0", queue="s"),
    gang("late-their", "their", queue="t", **LATE),
    nodes("lone", 1),
    singles("late-lone", "lone", **LATE),
    nodes("many", *[1] * MANY),
    *(running(name, f"many{at}") for at, name in enumerate(VICTIMS.split())),
    singles("late-many0 late-many1", "many", **LATE),
)
KINDS = {
    "bind": gang("bad", "now", 2, **BAD),
    "surplus": merged(
        nodes("else", 1), gang("bad", "now", 2, 1, **BAD), {"pods": [{"gang": "bad", "name": "b", "on": "else0"}]}
    ),
    "nominate": gang("bad", "soon", 2, **BAD),
    "evict": gang("bad", "full", 2, **BAD),
    "move": gang("bad", "move", gpus=2, **BAD),
    "reclaim": gang("bad", "their", queue="t", **BAD),
    "lone": singles("bad", "lone", **BAD),
    "many": singles("bad bad-too", "many", **BAD),
}


def found_at(path):
    """Something of muster.plan, with what it belongs to and its name there."""
    module, *inside, name = path.split(".")
    owner = importlib.import_module(f"muster.plan.{module}")
    for one in inside:
        owner = getattr(owner, one)
    return owner, getattr(owner, name), name


class Run:
    """One cycle over the pools and a gang that fails; its books are looked at in the end."""

    def __init__(self, monkeypatch, kind):
        self.snapshot = snapshot_of(merged(POOLS, KINDS[kind]))
        self.bad = {number for number, one in enumerate(self.snapshot.gangs) if one.key[1] == "bad"}
        self.reached = 0
        # Where nobody can be moved, many are served at once.
        moves = () if kind == "many" else (Action.CONSOLIDATE,)
        self._policy = Policy(actions=frozenset(set(ACTIONS) - {Action.CONSOLIDATE} | set(moves)))
        self._patch, self._turn, self._books = monkeypatch, False, []
        books = cycle.Books
        monkeypatch.setattr(cycle, "Books", lambda *args: self._books.append(books(*args)) or self._books[-1])
        face, recover = Reserved.face, Books.give_up

        def faced(reserved, one):
            self._turn = self.snapshot.gangs.index(one) in self.bad
            return face(reserved, one)

        def gives_up(books, number):
            self._turn = False
            return recover(books, number)

        monkeypatch.setattr(Reserved, "face", faced)
        monkeypatch.setattr(Books, "give_up", gives_up)

    def without(self):
        """The gang has no turn."""
        self._patch.setattr(
            cycle,
            "turns_of",
            lambda *args, **how: [one for one in turns_of(*args, **how) if one[1].gang not in self.bad],
        )
        return self

    def failing(self, path, answer=None):
        """Something raises in the turn of the gang, or gives an answer."""
        owner, real, name = found_at(path)

        def fails(*args, **how):
            if not self._turn:
                return real(*args, **how)
            self.reached += 1
            if answer is None:
                raise ZeroDivisionError("a defect")
            return answer

        self._patch.setattr(owner, name, fails)
        return self

    def go(self):
        self.plan, _ = schedule(self.snapshot, self._policy)
        (self.books,) = self._books
        return self

    @property
    def told(self):
        """The plan, without what is said of the gang."""
        found = said(self.plan)
        return {**found, "outcomes": {key: one for key, one in found["outcomes"].items() if key != "default/bad"}}

    @property
    def accounts(self):
        """Room, now and soon, and what queues hold."""
        books = self.books
        soon = books.open_soon().ledger.free.tolist()
        return (
            books.at_once.ledger.free.tolist(),
            soon,
            books.accounts.allocated,
            books.accounts.firm,
            books.accounts.outcomes(),
        )

    @property
    def table(self):
        """What may still go, and how many a budget lets go, after everything was made anew from what was decided."""
        self.books.give_up(next(iter(self.bad)))
        table = self.books.evictor.table
        return [(table[at], bool(table.left[at])) for at in range(len(table))]


def played(kind, path="", answer=None, *, without=False):
    with pytest.MonkeyPatch.context() as patch:
        run = Run(patch, kind)
        for one in path.split("+") if path else ():
            run.failing(one, answer)
        return (run.without() if without else run).go()


@cache
def without(kind):
    """The cycle in which the gang has no turn."""
    return played(kind, without=True)


@cache
def healthy(kind):
    """The cycle without a defect."""
    return played(kind)


EVERYBODY = "attempt.Engine.minimum books.Books.release books.Books.bind"
ASKS = "attempt.Engine.wanted evictor.Evictor.may_ask evictor.Evictor.find books.Books.evict"
SEARCHES = "victims.Search.find victims.ranked rights.Rights.all_legal accounts.Accounts.refusal"
# On the way to a decision: nothing is decided then.
BEFORE = {
    "bind": f"{EVERYBODY} books.Books.state invariants.Checker.faults",
    "surplus": "attempt.Engine.surplus books.Books.release books.Books.bind invariants.Checker.faults",
    "nominate": f"{EVERYBODY} books.Books.nominate books.Books.open_soon invariants.Checker.faults",
    "evict": f"{EVERYBODY} {ASKS} {SEARCHES} invariants.Checker.faults",
    "move": f"{ASKS} {SEARCHES} trial.rehome invariants.Checker.faults",
    "reclaim": f"{ASKS} {SEARCHES} rights.Terms.most invariants.Checker.faults",
    "lone": "lone.over_nodes accounts.Accounts.refusal invariants.Checker.faults_of_lone_pods",
    "many": "evictor.Evictor.find_many evictor.bundles_of evictor.thinned books.Books.serve "
    "invariants.Checker.faults_of_lone_pods",
}
# While the checker enters it: nothing is decided then either.
INSIDE = {
    "bind": "leaving.Charged.enter",
    "nominate": "leaving.Leaving.enter leaving.Charged.enter",
    "evict": "leaving.Leaving.enter leaving.Charged.enter",
    "move": "leaving.Leaving.enter leaving.Charged.enter",
    "lone": "leaving.Leaving.enter",
    "many": "leaving.Leaving.enter",
}
# When the checker has agreed: the decision stands.
AFTER = {
    "bind": "accounts.Accounts.charge evictor.Evictor.spare progress.Progress.place",
    "surplus": "accounts.Accounts.charge evictor.Evictor.spare progress.Progress.place",
    "nominate": "accounts.Accounts.charge accounts.Accounts.await_ progress.Progress.reserve",
    "evict": "accounts.Accounts.await_ evictor.Evictor.spare evictor.Evictor.take units.Table.take "
    "progress.Progress.reserve",
    "move": "evictor.Evictor.take accounts.Accounts.await_",
    "reclaim": "evictor.Evictor.take accounts.Accounts.await_",
    "many": "evictor.Evictor.take units.Table.take",
}
# What the checker is asked: it says no.
REFUSALS = {
    **dict.fromkeys(("bind", "surplus", "nominate", "evict", "move", "reclaim"), "invariants.Checker.faults"),
    "lone": "invariants.Checker.faults_of_lone_pods+invariants.Checker.faults",
}


def pairs(of):
    return [pytest.param(kind, path, id=f"{kind}: {path}") for kind, paths in of.items() for path in paths.split()]


def check(kind, run):
    """The cycle went on, and all but the gang are as if it had not been tried."""
    assert run.reached, "it is not on the way of this decision"
    expected = without(kind)
    assert unlike(run.told, expected.told) == []
    assert run.accounts == expected.accounts
    assert run.table == expected.table
    for number in run.bad:
        codes = [reason.code for reason in run.plan.outcomes[number].reasons]
        assert Code.SCHEDULER_ERROR in codes, "and it is told"
        assert not run.plan.outcomes[number].satisfied or kind == "surplus"


@pytest.mark.parametrize("kind", KINDS)
def test_the_gang_is_in_the_way_of_others(kind):
    """Without a defect the gang gets what others would get: so that what is left of it in any book is seen."""
    run = healthy(kind)
    assert unlike(run.told, without(kind).told)
    assert all(run.plan.outcomes[number].verdict is Verdict.PLACED for number in run.bad)


@pytest.mark.parametrize(("kind", "path"), pairs(BEFORE))
def test_a_defect_on_the_way_to_a_decision_costs_one_turn(kind, path):
    """Whatever raises in the turn of a gang: others are placed, and books and table are as if it had not been there."""
    check(kind, played(kind, path))


@pytest.mark.parametrize(("kind", "path"), pairs(INSIDE))
def test_a_defect_of_the_checker_leaves_nothing_in_it(kind, path):
    """It is made anew from what was decided before, and others find it as if the gang had not been there."""
    check(kind, played(kind, path))


@pytest.mark.parametrize(("kind", "path"), pairs(AFTER))
def test_a_defect_after_a_decision_leaves_all_of_it(kind, path):
    """What the checker has agreed to stands, with its evictions, in every book; it is told, and others go on."""
    run, expected = played(kind, path), healthy(kind)
    assert run.reached, "it is not on the way of this decision"
    assert unlike(run.told, expected.told) == []
    assert run.accounts == expected.accounts
    assert run.table == expected.table
    for number in run.bad if kind != "many" else ():
        assert Code.SCHEDULER_ERROR in [reason.code for reason in run.plan.outcomes[number].reasons], "and it is told"


@pytest.mark.parametrize(("kind", "path"), pairs(REFUSALS))
def test_a_decision_that_the_checker_refuses_never_was(kind, path):
    """It is told, and others are placed as if the gang had not been there."""
    check(kind, played(kind, path, ["it is wrong"]))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_made_anew_is_what_was(kind):
    """Room, queues and table, made anew from what was decided, are what they were."""
    run = played(kind)
    before = run.accounts
    assert run.table
    assert run.accounts == before


STALE = merged(
    {"nodes": [{"name": "n", "gpus": 9}]},
    {"gangs": {name: {"minMember": 3, "stalenessGracePeriod": "0s"} for name in ("bad", "other")}},
    {"pods": [{"gang": name, "count": 2, "on": "n"} for name in ("bad", "other")]},
)


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        pytest.param("evictor.Evictor.is_undisturbed", None, id="is_undisturbed raises"),
        pytest.param("invariants.Checker.faults_of_stale", None, id="the checker raises"),
        pytest.param("invariants.Checker.faults_of_stale", ["it is wrong"], id="the checker refuses"),
    ],
)
def test_a_defect_in_what_is_stale_costs_only_that(path, answer):
    """Others that are stale go, and the one that does not is told."""
    snapshot = snapshot_of(STALE)
    with pytest.MonkeyPatch.context() as patch:
        owner, real, name = found_at(path)
        bad = number_of(snapshot, "bad")

        def fails(self, *args):
            if any(one.gang == bad for one in args[-1]):
                if answer is None:
                    raise ZeroDivisionError("a defect")
                return answer
            return real(self, *args)

        patch.setattr(owner, name, fails)
        plan, _ = schedule(snapshot)
    assert gone(snapshot, plan.evictions) == ["other-0", "other-1"]
    assert Code.SCHEDULER_ERROR in [reason.code for reason in plan.outcomes[bad].reasons]
    assert plan.outcomes[bad].rows[0].stale_since_ns == snapshot.now_ns, "and its clock runs"


def test_a_clock_that_raises_costs_only_that(monkeypatch):
    """Others that are stale go all the same."""
    snapshot, real = snapshot_of(STALE), cycle.lacking
    bad = snapshot.gangs[number_of(snapshot, "bad")]
    monkeypatch.setattr(cycle, "lacking", lambda gang, *args: real(gang, *args) if gang is not bad else 1 / 0)
    plan, _ = schedule(snapshot)
    assert gone(snapshot, plan.evictions) == ["other-0", "other-1"]


@pytest.mark.parametrize("nominated", [False, True])
def test_a_nomination_that_can_not_be_renewed_leaves_nothing_in_the_ledgers(nominated):
    """The victim of the last cycle is still there: the gang preempts it again, as if it had not been nominated."""
    documents = documents_of(
        merged(
            {"nodes": [{"name": "n", "gpus": 4}]}, lone("v", "n", gpus=2), gang("r", "", 2, gpus=2, queue="", **LATE)
        )
    )
    for one in documents:
        if one["metadata"]["name"].startswith("r-"):
            one["spec"].pop("nodeSelector")
            one["status"] = {"nominatedNodeName": "n"} if nominated else {}
    plan, _ = schedule(build(world_of(documents), ns(0)))
    assert gone(plan.snapshot, plan.evictions) == ["v"]
    assert [one.nominated for one in plan.placements] == [True]
