"""The engine against oracles that share no code with it (SPEC §5.5, §11.9)."""

from hypothesis import given

from muster.plan.outcome import Verdict
from oracle import enumerate as tried
from oracle import instances, milp
from oracle.engine import ask
from oracle.problem import read


@given(instances.problems())
def test_small_instances_are_decided_as_by_trying_everything(documents):
    """Placed exactly when a placement exists, and what is placed passes the oracle's check."""
    problem = read(documents)
    asked = ask(documents)
    possible = tried.place(problem) is not None
    if asked.outcome.verdict is Verdict.HELD:
        assert not possible
    else:
        assert asked.outcome.verdict is (Verdict.PLACED if possible else Verdict.INFEASIBLE)
    if asked.bound:
        assert problem.faults(asked.bound) == []


@given(instances.problems(most_nodes=12, most_pods=16))
def test_larger_instances_are_decided_as_by_the_solver(documents):
    """The same against HiGHS."""
    problem = read(documents)
    asked = ask(documents)
    possible = milp.place(problem) is not None
    if asked.outcome.verdict is Verdict.HELD:
        assert not possible
    else:
        assert asked.outcome.verdict is (Verdict.PLACED if possible else Verdict.INFEASIBLE)
    if asked.bound:
        assert problem.faults(asked.bound) == []
