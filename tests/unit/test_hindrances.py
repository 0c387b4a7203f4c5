"""What keeps a gang from taking room from others: the rules of the plan in words."""

from dataclasses import replace

from muster.decisions.hindrances import hindrances, least_ask
from muster.model.reasons import Code
from muster.plan.outcome import Action, Eviction, Outcome, QueueOutcome, Reason, RowOutcome, Verdict
from muster.snapshot.queues import CHARGES, PARTS
from small_cluster import gang, node, planned, pod

GPU = CHARGES.index("gpu")
G = 10**9


def queue(name, parent="", gpu=None, **spec):
    more = {**({"parentQueue": parent} if parent else {}), **({"resources": {"gpu": gpu}} if gpu else {})}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {**more, **spec},
    }


def number_of(plan, name):
    return next(at for at, one in enumerate(plan.snapshot.gangs) if one.key[1] == name)


def with_outcome(plan, name, outcome):
    outcomes = list(plan.outcomes)
    outcomes[number_of(plan, name)] = outcome
    return replace(plan, outcomes=outcomes)


def with_queues(plan, **amounts):
    """The plan with hand-made numbers of GPUs per queue: requested, allocated, non-preemptible, fair share, awaited."""
    nothing = (0,) * 4
    rows = (amounts.get(name, nothing) for name in plan.snapshot.queues.names)
    return replace(plan, queues=tuple(QueueOutcome(*((0, 0, amount * PARTS) for amount in row)) for row in rows))


def failing(plan, name="g"):
    rows = tuple(RowOutcome(False, 0, 0, 0, None, None) for _ in plan.snapshot.gangs[number_of(plan, name)].tree.nodes)
    return with_outcome(plan, name, Outcome(Verdict.INFEASIBLE, False, rows, (Reason(Code.INSUFFICIENT),)))


def notes(plan, name="g"):
    return hindrances(failing(plan, name), number_of(plan, name))


RIVALS = planned(
    *(node("n", 8), queue("a", gpu={"quota": 2}), queue("b", gpu={"quota": 6})),
    *(gang("runs", queue="b"), *(pod(f"r-{i}", "runs", nodeName="n") for i in range(6))),
    *(gang("g", queue="a", minMember=4, preemptionDelay="5m"), *(pod(f"g-{i}") for i in range(4))),
)


def test_a_queue_that_would_end_above_its_fair_share():
    """Said with what it would hold; not said when it would stay within its fair share, or within its quota."""
    full = with_queues(RIVALS, a=(4, 0, 0, 2), b=(6, 6, 0, 6))
    assert "reclaim from other queues: a would hold at least 4 GPU with it, and its fair share is 2" in notes(full)
    due = with_queues(RIVALS, a=(4, 0, 0, 4), b=(6, 6, 0, 4))
    assert not any("would hold" in note for note in notes(due))
    assert not any("reclaim" in note for note in notes(due))
    fair = with_queues(RIVALS, a=(4, 0, 0, 4), b=(6, 6, 0, 6))
    assert "reclaim: no other queue holds more than its fair share or quota of what the gang needs" in notes(fair)


def test_a_queue_above_that_is_full():
    """Where only a wider queue would end above its share, what is inside it is not meant."""
    plan = planned(
        *(
            node("n", 8),
            queue("dept", gpu={"quota": 2}),
            queue("a", "dept", gpu={"quota": 2}),
            queue("b", gpu={"quota": 6}),
        ),
        *(gang("runs", queue="b"), pod("r-0", "runs", nodeName="n")),
        *(gang("g", queue="a", minMember=2), pod("g-0"), pod("g-1")),
    )
    full = with_queues(plan, a=(2, 0, 0, 2), dept=(3, 1, 0, 2), b=(6, 6, 0, 6))
    assert notes(full)[-1] == (
        "reclaim from queues outside of dept: dept would hold at least 3 GPU with it, and its fair share is 2"
    )


def test_inside_of_a_queue_that_is_full():
    """From outside nothing can come; those inside are asked, and told about by themselves."""
    plan = planned(
        *(node("n", 8), queue("dept", gpu={"quota": 2}), queue("a", "dept", gpu={"quota": 2})),
        *(queue("c", "dept", gpu={"quota": 0}), queue("b", gpu={"quota": 6})),
        *(gang("runs", queue="c", preemptibility="preemptible"), pod("r-0", "runs", nodeName="n")),
        *(gang("g", queue="a", minMember=2), pod("g-0"), pod("g-1")),
    )
    outside = "reclaim from queues outside of dept: dept would hold at least 3 GPU with it, and its fair share is 2"
    nobody = "reclaim: no other queue in dept holds more than its fair share or quota of what the gang needs"
    full = with_queues(plan, a=(2, 0, 0, 2), dept=(3, 1, 0, 2), c=(1, 1, 0, 1), b=(6, 6, 0, 3))
    # It is above its quota, and g stays within its own.
    assert notes(full)[1:] == (outside,)
    idle = with_queues(plan, a=(2, 0, 0, 2), dept=(3, 1, 0, 2), c=(1, 0, 0, 1), b=(6, 6, 0, 3))
    assert notes(idle)[1:] == (outside, nobody)


def test_one_queue_fails_at_its_share_and_another_at_its_quota():
    """Everything is measured by one and the same: nobody gives anything when neither holds all the way."""
    plan = planned(
        *(node("n", 8), queue("dept", gpu={"quota": 1}), queue("a", "dept", gpu={"quota": 4})),
        *(queue("b", gpu={"quota": 2}), gang("runs", queue="b"), pod("r-0", "runs", nodeName="n")),
        *(gang("g", queue="a", minMember=2), pod("g-0"), pod("g-1")),
    )
    full = with_queues(plan, a=(2, 0, 0, 1), dept=(2, 0, 0, 3), b=(6, 6, 0, 2))
    assert notes(full)[-1] == (
        "reclaim from queues outside of dept: a would hold at least 2 GPU with it, and its fair share is 1; "
        "dept would hold at least 2 GPU with it, and its quota is 1"
    )


def test_of_one_queue_the_measure_that_allows_more_is_told():
    full = with_queues(RIVALS, a=(4, 0, 0, 1), b=(6, 6, 0, 6))
    assert notes(full)[-1] == "reclaim from other queues: a would hold at least 4 GPU with it, and its quota is 2"


def test_what_is_nominated_counts():
    """It is not placed, and in the way of those who come after it."""
    due = with_queues(RIVALS, a=(4, 0, 0, 4, 0), b=(6, 6, 0, 4, 0))
    assert not any("reclaim" in note for note in notes(due))
    awaited = with_queues(RIVALS, a=(4, 0, 0, 4, 1), b=(6, 6, 0, 4, 0))
    assert notes(awaited)[-1] == (
        "reclaim from other queues: a would hold at least 5 GPU with it, and its fair share is 4"
    )


def test_other_queues_with_too_much_of_what_may_not_go():
    """Non-preemptible, or a minimum that is safe for a while yet."""
    documents = [
        *(node("n", 2), queue("a", gpu={"quota": 2}), queue("b", gpu={"quota": 0}, reclaimMinRuntime="10m")),
        *(gang("runs", queue="b", preemptibility="preemptible", minMember=2), pod("r-0", "runs", nodeName="n")),
        *(pod("r-1", "runs", nodeName="n"), gang("g", queue="a", minMember=1), pod("g-0", gpus=2)),
    ]
    plan = with_queues(planned(*documents), a=(2, 0, 0, 2), b=(2, 2, 0, 0))
    runs = number_of(plan, "runs")

    def but(now_ns=0, **changes):
        gangs = list(plan.snapshot.gangs)
        gangs[runs] = replace(gangs[runs], **changes)
        return replace(plan, evictions=(), snapshot=replace(plan.snapshot, gangs=tuple(gangs), now_ns=now_ns))

    assert notes(but())[1:] == ()
    assert notes(but(preemptibility="non-preemptible"))[1:] == (
        "reclaim: nothing that may be evicted runs in queues that hold more than their fair share or quota",
    )
    assert notes(but(started_ns=60 * G, now_ns=100 * G))[1:] == (
        "reclaim: the minimum of 1 gang of other queues can't be evicted before 1970-01-01T00:11:00Z "
        "(reclaimMinRuntime)",
    )
    assert notes(but(started_ns=60 * G, now_ns=660 * G))[1:] == ()


def test_who_is_guarded_by_a_disruption_budget_may_not_go():
    """What others lost in this cycle is drawn already."""
    plan = planned(
        *(node("n", 2), gang("low", preemptibility="preemptible"), pod("l-0", "low", nodeName="n")),
        *(gang("gone", preemptibility="preemptible"), pod("o-0", "gone", nodeName="n")),
        *(gang("g", minMember=9, priorityClassName="train"), *(pod(f"g-{i}") for i in range(9))),
    )
    gangs = tuple(
        replace(one, placed={leaf: found._replace(guards=((0,),)) for leaf, found in one.placed.items()})
        for one in plan.snapshot.gangs
    )
    guarded = replace(plan, snapshot=replace(plan.snapshot, gangs=gangs, disruptions=(1,)))
    assert notes(guarded) == ()
    gone = Eviction(number_of(plan, "gone"), 0, 0, Action.PREEMPT, number_of(plan, "g"))
    nobody = ("preempt: nothing of a lower priority that may be evicted runs in queue default-queue",)
    assert notes(replace(guarded, evictions=(gone,))) == nobody
    assert notes(replace(plan, evictions=(gone,))) == ()


def test_a_delay_that_is_not_over():
    """Until when it may not evict; a gang of which nobody knows since when it waits may."""
    g = number_of(RIVALS, "g")
    assert not any("preemptionDelay" in note for note in notes(RIVALS))
    gangs = list(RIVALS.snapshot.gangs)
    gangs[g] = replace(gangs[g], pending_since_ns=60 * G)
    for now_ns, told in ((100 * G, True), (360 * G, False)):
        plan = replace(RIVALS, snapshot=replace(RIVALS.snapshot, gangs=tuple(gangs), now_ns=now_ns))
        found = [note for note in notes(plan) if "preemptionDelay" in note]
        words = "it may evict others only from 1970-01-01T00:06:00Z on: its preemptionDelay is 5m"
        assert found == ([words] if told else [])


def test_nobody_to_preempt_and_minimums_that_are_safe():
    """Lower priority in the same queue, and evictable; else it says so. Safe minimums are counted."""
    documents = [
        *(node("n", 2), queue("a", preemptMinRuntime="10m")),
        *(gang("low", queue="a", preemptibility="preemptible"), pod("l-0", "low", nodeName="n")),
        *(gang("firm", queue="a", preemptibility="non-preemptible"), pod("f-0", "firm", nodeName="n")),
        *(gang("g", queue="a", minMember=9, priorityClassName="train"), *(pod(f"g-{i}") for i in range(9))),
    ]
    plan = planned(*documents)
    assert notes(plan) == ()
    gangs = list(plan.snapshot.gangs)
    low = number_of(plan, "low")
    gangs[low] = replace(gangs[low], started_ns=60 * G)
    started = replace(plan, snapshot=replace(plan.snapshot, gangs=tuple(gangs), now_ns=100 * G))
    assert notes(started) == (
        "preempt: the minimum of 1 gang of lower priority can't be evicted before 1970-01-01T00:11:00Z "
        "(preemptMinRuntime)",
    )
    others = planned(*(one for one in documents if "low" not in str(one)))
    assert notes(others) == ("preempt: nothing of a lower priority that may be evicted runs in queue a",)


def test_a_core_and_what_has_gone_already_are_not_there_to_be_taken():
    """Of a semi-preemptible gang the surplus only, and only once."""
    plan = planned(
        *(node("n", 3), gang("semi", minMember=2, preemptibility="semi-preemptible")),
        *(pod(f"s-{i}", "semi", nodeName="n") for i in range(3)),
        *(gang("g", minMember=9, priorityClassName="train"), *(pod(f"g-{i}") for i in range(9))),
    )
    plan = replace(plan, evictions=())
    assert notes(plan) == ()
    gone = Eviction(number_of(plan, "semi"), 0, 2, Action.PREEMPT, number_of(plan, "g"))
    nobody = ("preempt: nothing of a lower priority that may be evicted runs in queue default-queue",)
    assert notes(replace(plan, evictions=(gone,))) == nobody


def test_nothing_is_said_of_whom_nobody_could_help():
    """Placed, held, or alone in the cluster."""
    assert hindrances(RIVALS, number_of(RIVALS, "runs")) == ()
    alone = planned(node("n", 1), gang(minMember=2), pod("g-0"), pod("g-1"))
    assert hindrances(alone, 0) == ()


def test_the_least_that_a_minimum_costs():
    """The cheapest children and pods that could make it up; what is there already costs nothing."""
    plan = planned(
        node("n", 8),
        gang(
            minSubGroup=2,
            subGroups=[{"name": "x", "minMember": 2}, {"name": "y", "minMember": 1}, {"name": "z", "minMember": 1}],
        ),
        *(pod("x-0", leaf="x", gpus=1), pod("x-1", leaf="x", gpus=2), pod("x-2", leaf="x", gpus=4)),
        *(pod("y-0", leaf="y", gpus=5),),
    )
    assert least_ask(plan.snapshot.gangs[0], plan.snapshot)[GPU] == 8 * PARTS
    half = planned(
        *(node("n", 8), gang(minMember=3), pod("g-0", gpus=4, nodeName="n"), pod("g-1", gpus=2), pod("g-2", gpus=1)),
        pod("g-3", gpus=3),
    )
    assert least_ask(half.snapshot.gangs[0], half.snapshot)[GPU] == 3 * PARTS


def test_a_queue_that_may_ignore_budgets_and_a_muster_that_may_not_delete():
    """Without the right the annotation has no effect, and that is said; with it the pods could go."""
    ignoring = queue("a", gpu={"quota": 2})
    ignoring["metadata"]["annotations"] = {"muster.dev/reclaim-policy": "IgnoreBudgets"}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "never"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "x"}}},
    }
    runs = pod("r-0", "runs", nodeName="n")
    runs["metadata"]["labels"] = {"app": "x"}
    plan = planned(
        *(node("n", 1), ignoring, queue("b", gpu={"quota": 0}), budget, gang("runs", queue="b"), runs),
        *(gang("g", queue="a"), pod("g-0")),
    )
    assert [one.passed for one in plan.evictions] == [(plan.snapshot.budgets.index("default/never"),)]
    undone = with_queues(replace(plan, evictions=()), a=(1, 0, 0, 1), b=(1, 1, 0, 0))
    without = replace(undone, snapshot=replace(undone.snapshot, may_delete=False))
    assert notes(without)[-1] == (
        "reclaim: muster.dev/reclaim-policy: IgnoreBudgets of the queue has no effect: muster may not delete pods; "
        "muster doctor says which right is missing"
    )
    assert not any("has no effect" in note for note in notes(undone))
