"""The rules of a Queue, alone and among the others (SPEC §2, §4), both sides of each."""

from typing import Any

import pytest

from muster.api.kinds import QUEUE, read_object
from muster.api.validation import Context, Violation, validate, validate_delete

E, W = "error", "warning"
# Severity, path, a word of the message, a word of the hint.
Expected = tuple[str, str, str, str]


def queue(name: str = "q", parent: str = "", **gpu: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"parentQueue": parent} if parent else {}
    if gpu:
        spec["resources"] = {"gpu": gpu}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def among(*written: dict[str, Any], admission: bool = False) -> Context:
    queues = {}
    for one in written:
        found, problems = read_object(one, QUEUE)
        assert problems == []
        queues[found.metadata.name] = found
    return Context(queues=queues, admission=admission)


def check(found: list[Violation], expected: list[Expected]) -> None:
    """Exactly these violations, in any order, each with its word and its hint."""
    assert sorted((one.severity, one.path) for one in found) == sorted(one[:2] for one in expected), found
    for severity, path, word, hint in expected:
        same_place = [one for one in found if (one.severity, one.path) == (severity, path)]
        assert any(word in one.message and hint in one.hint for one in same_place), same_place


def with_spec(**spec: Any) -> dict[str, Any]:
    return {**queue(), "spec": spec}


GPU = "spec.resources.gpu"


@pytest.mark.parametrize(
    ("broken", "expected", "legal"),
    [
        pytest.param(
            queue(quota=-2), [(E, f"{GPU}.quota", "less than -1", "")], queue(quota=-1), id="quota below unlimited"
        ),
        pytest.param(queue(quota=-0.5), [(E, f"{GPU}.quota", "-1", "")], queue(quota=0), id="quota between -1 and 0"),
        pytest.param(queue(limit=-0.5), [(E, f"{GPU}.limit", "-1", "")], queue(limit=0), id="limit between -1 and 0"),
        pytest.param(
            queue(limit=-3), [(E, f"{GPU}.limit", "less than -1", "")], queue(limit=-1), id="limit below unlimited"
        ),
        pytest.param(
            queue(overQuotaWeight=-1),
            [(E, f"{GPU}.overQuotaWeight", "negative", "")],
            queue(overQuotaWeight=0),
            id="negative weight",
        ),
        pytest.param(
            queue(quota="8"), [(E, f"{GPU}.quota", "number", "quotes")], queue(quota=8), id="a number that is text"
        ),
        pytest.param(
            queue(quota=float("nan")), [(E, f"{GPU}.quota", "number", "")], queue(quota=0.5), id="NaN; halves are fine"
        ),
        pytest.param(
            queue(quota=float("inf")), [(E, f"{GPU}.quota", "number", "")], queue(quota=1e9), id="infinity is no number"
        ),
        pytest.param(
            queue(quotas=8),
            [(E, f"{GPU}.quotas", "known field", "did you mean quota?")],
            queue(quota=8),
            id="unknown field",
        ),
        pytest.param(
            with_spec(resources={"gpus": {"quota": 8}}),
            [(E, "spec.resources.gpus", "known field", "did you mean gpu?")],
            with_spec(resources={"gpu": {"quota": 8}}),
            id="unknown resource",
        ),
        pytest.param(
            with_spec(priority="high"),
            [(E, "spec.priority", "whole number", "")],
            with_spec(priority=-5),
            id="priority that is text",
        ),
        pytest.param(
            with_spec(preemptMinRuntime="4 hours"),
            [(E, "spec.preemptMinRuntime", "duration", "1h30m")],
            with_spec(preemptMinRuntime="4h"),
            id="preemptMinRuntime",
        ),
        pytest.param(
            with_spec(reclaimMinRuntime="h"),
            [(E, "spec.reclaimMinRuntime", "duration", "")],
            with_spec(reclaimMinRuntime="1h30m"),
            id="reclaimMinRuntime",
        ),
        pytest.param(queue("Team_A"), [(E, "metadata.name", "DNS name", "")], queue("team-a"), id="bad name"),
        pytest.param(
            queue(quota=8, limit=4),
            [(W, f"{GPU}.quota", "more than the limit", "limit")],
            queue(quota=8, limit=8),
            id="quota over limit",
        ),
        pytest.param(
            queue(quota=8, limit=0),
            [(W, f"{GPU}.quota", "more than the limit", "")],
            queue(quota=8, limit=-1),
            id="quota over a limit of nothing; -1 is unlimited",
        ),
    ],
)
def test_a_queue_alone(broken: dict[str, Any], expected: list[Expected], legal: dict[str, Any]) -> None:
    """-1 is unlimited, 0 and more is an amount, all else is an error."""
    check(validate(broken, Context()).violations, expected)
    check(validate(legal, Context()).violations, [])


MOST = "muster.dev/max-priority"


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        *(pytest.param(text, [], id=text) for text in ("0", "-5", "1000000000", "2147483647", "train")),
        *(
            pytest.param(text, [(E, "must be an integer of 32 bits", "write a number")], id=repr(text))
            for text in ("", "1.5", "2147483648", "1e3", "Train", " 5", "0x10", "x" * 300, "train,build", "9" * 5000)
        ),
        pytest.param("trian", [(W, "does not exist", "did you mean train?")], id="no such class"),
        pytest.param("zzz", [(W, "does not exist", "held")], id="no such class, nothing is near"),
    ],
)
def test_the_highest_priority_of_a_queue(stated: str, expected: list[tuple[str, str, str]]) -> None:
    """A number or a PriorityClass; anything else makes the queue invalid."""
    broken = queue()
    broken["metadata"]["annotations"] = {MOST: stated}
    path = f"metadata.annotations[{MOST}]"
    found = validate(broken, Context(priority_classes={"train": 50})).violations
    check(found, [(severity, path, *words) for severity, *words in expected])
    assert len(found) == 0 or len(found[0].message) < 200


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("IgnoreBudgets", []),
        *(
            (text, [(E, "must be IgnoreBudgets", "remove it")])
            for text in ("", "ignorebudgets", "HonorBudgets", "x" * 999)
        ),
    ],
)
def test_the_reclaim_policy_of_a_queue(stated: str, expected: list[tuple[str, str, str]]) -> None:
    broken = queue()
    broken["metadata"]["annotations"] = {"muster.dev/reclaim-policy": stated}
    path = "metadata.annotations[muster.dev/reclaim-policy]"
    found = validate(broken, Context()).violations
    check(found, [(severity, path, *words) for severity, *words in expected])
    assert all(len(one.message) < 200 for one in found)


def test_every_resource_is_judged() -> None:
    """cpu, memory and gpu, all in one answer."""
    spec = {"resources": {name: {"quota": -2, "limit": -0.5} for name in ("cpu", "memory", "gpu")}}
    paths = {one.path for one in validate(with_spec(**spec), Context()).violations}
    assert paths == {f"spec.resources.{name}.{field}" for name in spec["resources"] for field in ("quota", "limit")}


@pytest.mark.parametrize(
    ("parent", "context", "expected"),
    [
        pytest.param(
            "team", among(queue("teams")), [(W, "spec.parentQueue", '"team"', "did you mean teams?")], id="unknown"
        ),
        pytest.param("x", among(), [(W, "spec.parentQueue", '"x"', "held")], id="unknown, nothing is near"),
        pytest.param("teams", among(queue("teams")), [], id="known"),
        pytest.param("", among(queue("teams")), [], id="none"),
        pytest.param("team", Context(), [], id="nothing is known"),
    ],
)
def test_parent(parent: str, context: Context, expected: list[Expected]) -> None:
    """A parent may come later: a warning."""
    check(validate(queue(parent=parent), context).violations, expected)


@pytest.mark.parametrize(
    ("judged", "context", "cycle"),
    [
        pytest.param(queue("a", "a"), among(), "a → a", id="its own parent"),
        pytest.param(queue("a", "b"), among(queue("b", "a")), "a → b → a", id="two"),
        pytest.param(queue("a", "b"), among(queue("b", "c"), queue("c", "a")), "a → b → c → a", id="three"),
        pytest.param(queue("a", "b"), among(queue("a"), queue("b", "a")), "a → b → a", id="an update closes the cycle"),
        pytest.param(queue("a", "b"), among(queue("b", "c"), queue("c")), "", id="none"),
        pytest.param(queue("a"), among(queue("a", "b"), queue("b", "a")), "", id="an update opens the cycle"),
        pytest.param(queue("a", "b"), among(queue("b", "c"), queue("c", "b")), "", id="above a cycle, not in it"),
    ],
)
def test_cycle(judged: dict[str, Any], context: Context, cycle: str) -> None:
    """Parents that lead back to the queue are an error, and the cycle is said."""
    check(validate(judged, context).violations, [(E, "spec.parentQueue", cycle, "")] if cycle else [])


def test_a_long_cycle_ends() -> None:
    """A thousand queues in a cycle are one short error."""
    ring = among(*(queue(f"q{at}", f"q{(at + 1) % 1000}") for at in range(1000)))
    (found,) = validate(queue("q0", "q1"), ring).violations
    assert (found.severity, found.path) == (E, "spec.parentQueue")
    assert len(found.message) < 200


@pytest.mark.parametrize(
    ("judged", "context", "warned"),
    [
        pytest.param(queue("p", quota=8), among(queue("a", "p", quota=5), queue("b", "p", quota=4)), True, id="over"),
        pytest.param(queue("p", quota=9), among(queue("a", "p", quota=5), queue("b", "p", quota=4)), False, id="equal"),
        pytest.param(queue("p", quota=8), among(queue("a", "p", quota=5), queue("b", quota=4)), False, id="another's"),
        pytest.param(queue("p", quota=-1), among(queue("a", "p", quota=99)), False, id="unlimited parent"),
        pytest.param(queue("p"), among(queue("a", "p", quota=99)), False, id="resource absent is unlimited"),
        pytest.param(queue("p", limit=99), among(queue("a", "p", quota=1)), True, id="quota absent is 0"),
        pytest.param(
            queue("p", quota=8), among(queue("p", quota=99), queue("a", "p", quota=9)), True, id="an update lowers it"
        ),
    ],
)
def test_quotas_of_the_children(judged: dict[str, Any], context: Context, warned: bool) -> None:
    """The sum of the children's quotas over the parent's is a warning at the parent."""
    expected = [(W, f"{GPU}.quota", "sum up to", "quota")] if warned else []
    check(validate(judged, context).violations, expected)


@pytest.mark.parametrize(
    ("quota", "admission", "warned"),
    [
        pytest.param(5, True, True, id="over, admitted alone"),
        pytest.param(4, True, False, id="equal, admitted alone"),
        pytest.param(5, False, False, id="over, beside its parent: told there"),
    ],
)
def test_a_child_hears_of_its_siblings_when_admitted_alone(quota: int, admission: bool, warned: bool) -> None:
    """The last child that makes the sum too large is the one that is told at admission."""
    context = among(queue("p", quota=8), queue("a", "p", quota=4), admission=admission)
    expected = [(W, f"{GPU}.quota", "of p", "")] if warned else []
    check(validate(queue("b", "p", quota=quota), context).violations, expected)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        pytest.param(
            among(queue("p"), queue("a", "p"), queue("b", "p")),
            [(E, "metadata.name", "a, b", "delete or move")],
            id="children",
        ),
        pytest.param(among(queue("p"), queue("a")), [], id="no children"),
        pytest.param(Context(), [], id="nothing is known"),
    ],
)
def test_delete(context: Context, expected: list[Expected]) -> None:
    """A queue with children stays."""
    check(validate_delete(queue("p"), context).violations, expected)


def test_other_kinds_may_always_be_deleted() -> None:
    """Even an invalid object can go."""
    broken = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "spec": {"minMember": -1}}
    assert validate_delete(broken, Context()).violations == []
    assert validate_delete({"kind": "Deployment"}, Context()).violations == []


def test_every_violation_in_one_answer() -> None:
    """Amounts, parents and sums are judged together."""
    spec = {
        "parentQueue": "p",
        "priority": "x",
        "resources": {"cpu": {"quota": -2}, "gpu": {"quota": 1, "limit": 0}, "disk": {}},
    }
    context = among(queue("q", "p"), queue("p", "q"), queue("a", "q", quota=2))
    check(
        validate(with_spec(**spec), context).violations,
        [
            (E, "spec.priority", "whole number", ""),
            (E, "spec.resources.cpu.quota", "less than", ""),
            (E, "spec.resources.disk", "known field", ""),
            (E, "spec.parentQueue", "q → p → q", ""),
            (W, f"{GPU}.quota", "more than the limit", ""),
            (W, f"{GPU}.quota", "sum up to 2", ""),
        ],
    )
