"""Draws what happens: to workloads, to nodes, to what people have written, to the processes of muster.

Each kind of happening is one small function of the dice and the draft. To add one, write it and give it a weight.
"""

import copy
from collections.abc import Callable
from typing import Any

from muster.sim.drawing.dice import Dice
from muster.sim.drawing.draft import Draft
from muster.sim.objects import Objects
from muster.sim.story import Fault, Workload

Document = dict[str, Any]
Kind = Callable[[Dice, Draft], None]


def some_time(dice: Dice, draft: Draft) -> float:
    """Any moment, or one right after something else: that is when it hurts."""
    if dice.likely(0.4) or not draft.moments():
        return dice.between(0.1, draft.lasts * 0.9)
    return dice.soon(dice.one_of(draft.moments()))


def one_pod(dice: Dice, name: str, workload: Workload) -> str:
    """A pattern of one pod of a workload, whichever is in its place by then."""
    if workload.gang is None:
        return f"{name}-[{dice.one_of(['b-f', 'g-m', 'n-z', '2-9'])}]*"
    leaf = dice.one_of(sorted(workload.pods))
    base = "-".join(filter(None, (name, leaf)))
    return f"{base}-{dice.whole(0, workload.pods[leaf] - 1)}*"


def _anybody(dice: Dice, draft: Draft) -> tuple[str, Workload]:
    name = dice.one_of(sorted(draft.workloads))
    return name, draft.workloads[name]


def _after(dice: Dice, draft: Draft, name: str) -> float:
    """A moment when this workload has come: right then, or later."""
    at = draft.arrives[name]
    return dice.soon(at) if dice.likely(0.4) else dice.between(at + 0.5, max(at + 1, draft.lasts * 0.9))


def _gangs(draft: Draft) -> list[str]:
    return [name for name, workload in draft.workloads.items() if workload.gang is not None]


# Workloads.


def scales(dice: Dice, draft: Draft) -> None:
    """More pods or fewer in a leaf; often back again."""
    name, workload = _anybody(dice, draft)
    leaf = dice.one_of(sorted(workload.pods))
    at = _after(dice, draft, name)
    draft.happen(at, scale={name: {leaf: max(0, workload.pods[leaf] + dice.one_of([-2, -1, 1, 2]))}})
    if dice.likely(0.4):
        draft.happen(at + dice.between(3, 40), scale={name: {leaf: workload.pods[leaf]}})


def finishes(dice: Dice, draft: Draft) -> None:
    """A workload is done: its pods end well, one by one or nearly at once."""
    name, workload = _anybody(dice, draft)
    at = dice.between(draft.arrives[name] + 2, draft.lasts)
    if dice.likely(0.4):
        draft.happen(at, finish=[f"{name}-*"])
        return
    for leaf, count in sorted(workload.pods.items()):
        base = "-".join(filter(None, (name, leaf)))
        for number in range(count):
            at += dice.between(0, 4)
            draft.happen(at, finish=[f"{base}-{number}*" if workload.gang is not None else f"{name}-*"])


def breaks(dice: Dice, draft: Draft) -> None:
    """Pods end badly."""
    name, workload = _anybody(dice, draft)
    for _ in range(dice.whole(1, 2)):
        draft.happen(_after(dice, draft, name), break_=[one_pod(dice, name, workload)])


def removes(dice: Dice, draft: Draft) -> None:
    """Somebody deletes pods."""
    name, workload = _anybody(dice, draft)
    for _ in range(dice.whole(1, 3)):
        draft.happen(_after(dice, draft, name), remove=[one_pod(dice, name, workload)])


def removes_all(dice: Dice, draft: Draft) -> None:
    """Somebody deletes all pods of a workload at once."""
    name, _ = _anybody(dice, draft)
    draft.happen(_after(dice, draft, name), remove=[f"{name}-*"])


def is_deleted(dice: Dice, draft: Draft) -> None:
    """A workload is deleted, perhaps while it is bound; sometimes it comes again."""
    name, workload = _anybody(dice, draft)
    at = _after(dice, draft, name)
    draft.happen(at, delete=[f"workload/{name}"])
    if dice.likely(0.4):
        draft.happen(at + dice.between(0.1, 20), workloads={name: workload})


def loses_its_group(dice: Dice, draft: Draft) -> None:
    """Somebody deletes the PodGroup alone; its operator makes another."""
    gangs = _gangs(draft)
    if gangs:
        name = dice.one_of(gangs)
        pattern = f"podgroup/{draft.workloads[name].namespace}/{name}"
        draft.happen(_after(dice, draft, name), delete=[pattern])


def opens_gates(dice: Dice, draft: Draft) -> None:
    """What was held back may go."""
    for name, workload in draft.workloads.items():
        if workload.spec.get("schedulingGates"):
            at = draft.arrives[name] + dice.between(1, 30)
            draft.happen(at, change={f"pod/{workload.namespace}/{name}-*": {"spec": {"schedulingGates": None}}})


# Nodes.


def _perhaps(share: float, dice: Dice, draft: Draft, at: float, wait_s: tuple[float, float], **what: object) -> None:
    """In so many cases this happens some time after `at`."""
    if dice.likely(share):
        draft.happen(at + dice.between(*wait_s), **what)


def fails(dice: Dice, draft: Draft) -> None:
    """One or two nodes fail; usually they answer again, before or after their pods are lost."""
    names = dice.some_of(draft.node_names, dice.whole(1, 2))
    at = some_time(dice, draft)
    draft.happen(at, fail=names)
    _perhaps(0.75, dice, draft, at, (0.5, 50), recover=names)


def fails_with_its_rack(dice: Dice, draft: Draft) -> None:
    """A whole domain fails."""
    some = dice.one_of(draft.nodes)
    level = dice.one_of([level for level in ("zone", "block", "rack") if getattr(some, level)] or [""])
    if level:
        at = some_time(dice, draft)
        names = [f"{level}={getattr(some, level)}"]
        draft.happen(at, fail=names)
        _perhaps(0.8, dice, draft, at, (1, 60), recover=names)


def vanishes(dice: Dice, draft: Draft) -> None:
    """A node is deleted; perhaps it comes back under its name."""
    name = dice.one_of(draft.node_names)
    at = some_time(dice, draft)
    draft.happen(at, vanish=[name])
    _perhaps(0.7, dice, draft, at, (0.2, 50), recover=[name])


def is_cordoned(dice: Dice, draft: Draft) -> None:
    """Nobody new may come, for a while or for good."""
    names = dice.some_of(draft.node_names, dice.whole(1, 3))
    at = some_time(dice, draft)
    draft.happen(at, cordon=names)
    _perhaps(0.75, dice, draft, at, (0.5, 50), uncordon=names)


def is_relabelled(dice: Dice, draft: Draft) -> None:
    """A node moves to another domain, to an empty one, or out of all of them; perhaps it comes back."""
    some = dice.one_of(draft.nodes)
    levels = [level for level in ("zone", "block", "rack") if getattr(some, level) is not None]
    if not levels:
        return
    level = dice.one_of(levels)
    others = [getattr(one, level) for one in draft.nodes if getattr(one, level) is not None]
    name = some.name if some.count is None else f"{some.name}-{dice.whole(0, some.count - 1)}"
    value = dice.one_of([*others, "elsewhere", "", None])
    at = some_time(dice, draft)
    draft.happen(at, change={f"node/{name}": {"metadata": {"labels": {level: value}}}})
    if dice.likely(0.5):
        back = {"metadata": {"labels": {level: getattr(some, level)}}}
        draft.happen(at + dice.between(0.2, 40), change={f"node/{name}": back})


def drifts(dice: Dice, draft: Draft) -> None:
    """A node moves to another domain while gangs lie on it, and right after that some of them lose a pod."""
    at = dice.between(2, draft.lasts * 0.7)
    some = dice.one_of(draft.nodes)
    level = dice.one_of(["zone", "block", "rack"])
    name = some.name if some.count is None else f"{some.name}-0"
    draft.happen(at, change={f"node/{name}": {"metadata": {"labels": {level: "elsewhere"}}}})
    for who in dice.some_of(sorted(draft.workloads), 3):
        draft.happen(dice.soon(at), remove=[one_pod(dice, who, draft.workloads[who])])


def shrinks(dice: Dice, draft: Draft) -> None:
    """A node says that it has less, and perhaps more again: a device was lost."""
    some = dice.one_of(draft.nodes)
    name = some.name if some.count is None else f"{some.name}-{dice.whole(0, some.count - 1)}"
    if not some.gpus:
        return
    at = some_time(dice, draft)
    left = {"status": {"allocatable": {"nvidia.com/gpu": str(dice.whole(0, some.gpus - 1))}}}
    draft.happen(at, change={f"node/{name}": left})
    if dice.likely(0.6):
        back = {"status": {"allocatable": {"nvidia.com/gpu": str(some.gpus)}}}
        draft.happen(at + dice.between(1, 40), change={f"node/{name}": back})


# What people have written.


def another_minimum(dice: Dice, draft: Draft) -> None:
    """The minimum of a gang is raised or lowered."""
    gangs = _gangs(draft)
    if not gangs:
        return
    name = dice.one_of(gangs)
    workload = draft.workloads[name]
    assert workload.gang is not None
    spec = copy.deepcopy(workload.gang)
    parts = spec.get("subGroups", [])
    meant = dice.one_of([one for one in parts if "minMember" in one] or [spec])
    field = "minSubGroup" if "minSubGroup" in spec and dice.likely(0.4) else "minMember"
    where = spec if field == "minSubGroup" else meant
    where[field] = max(1, where.get(field, 1) + dice.one_of([-1, -1, 1, 2]))
    patch = {key: spec[key] for key in ("minMember", "minSubGroup", "subGroups") if key in spec}
    draft.happen(_after(dice, draft, name), change={_group(name, workload): {"spec": patch}})


def another_child(dice: Dice, draft: Draft) -> None:
    """A replica is added to a gang, or taken out of it."""
    gangs = [name for name in _gangs(draft) if any("r" in leaf for leaf in draft.workloads[name].pods)]
    gangs = [name for name in gangs if (draft.workloads[name].gang or {}).get("subGroups")]
    if not gangs:
        return
    name = dice.one_of(gangs)
    workload = draft.workloads[name]
    assert workload.gang is not None
    parts = copy.deepcopy(workload.gang["subGroups"])
    leaves = [one for one in parts if "minMember" in one]
    last = leaves[-1]
    at = _after(dice, draft, name)
    if dice.likely(0.6):
        new = {**last, "name": "more"}
        scale = {name: {"more": workload.pods.get(last["name"], 1)}}
        draft.happen(at, change={_group(name, workload): {"spec": {"subGroups": [*parts, new]}}}, scale=scale)
    elif len(leaves) > 1:
        left = [one for one in parts if one is not last]
        draft.happen(
            at, change={_group(name, workload): {"spec": {"subGroups": left}}}, scale={name: {last["name"]: 0}}
        )


def another_queue(dice: Dice, draft: Draft) -> None:
    """A gang changes its queue, or its priority, or whether it may be preempted."""
    gangs = _gangs(draft)
    if not gangs:
        return
    name = dice.one_of(gangs)
    choices: list[Document] = [{"preemptibility": dice.one_of(["preemptible", "non-preemptible", "semi-preemptible"])}]
    if draft.leaves:
        choices += [{"queue": dice.one_of(draft.leaves)}] * 3
    if draft.classes:
        choices.append({"priorityClassName": dice.one_of(draft.classes)})
    key = _group(name, draft.workloads[name])
    draft.happen(_after(dice, draft, name), change={key: {"spec": dice.one_of(choices)}})


def a_queue_changes(dice: Dice, draft: Draft) -> None:
    """Another quota or limit; or the queue is deleted, and perhaps made again."""
    if not draft.leaves:
        return
    name = dice.one_of(draft.leaves)
    at = some_time(dice, draft)
    if dice.likely(0.5):
        amount = dice.whole(0, draft.amount()) * (1 if draft.charge == "gpus" else 1000)
        charge = "gpu" if draft.charge == "gpus" else "cpu"
        patch = {"spec": {"resources": {charge: {dice.one_of(["quota", "limit"]): amount}}}}
        draft.happen(at, change={f"queue/{name}": patch})
        return
    draft.happen(at, delete=[f"queue/{name}"])
    if dice.likely(0.8):
        draft.happen(at + dice.between(0.1, 30), apply=Objects(queues={name: draft.queues[name]}))


def the_topology_goes(dice: Dice, draft: Draft) -> None:
    """A Topology is deleted, and usually made again, perhaps with fewer levels."""
    at = some_time(dice, draft)
    draft.happen(at, delete=["topology/t"])
    if dice.likely(0.85):
        levels = draft.levels if dice.likely(0.7) else draft.levels[-1:]
        draft.happen(at + dice.between(0.05, 20), apply=Objects(topologies={"t": levels}))


# Processes, and the server.


def crashes(dice: Dice, draft: Draft) -> None:
    """A process ends without a word."""
    draft.happen(some_time(dice, draft), crash=[dice.whole(0, draft.processes - 1)])


def restarts(dice: Dice, draft: Draft) -> None:
    """A process is told to end, and started again."""
    at, number = some_time(dice, draft), dice.whole(0, draft.processes - 1)
    draft.happen(at, stop=[number])
    draft.happen(at + dice.between(2, 20), start=[number])


def pauses(dice: Dice, draft: Draft) -> None:
    """A process stands still."""
    number = dice.whole(0, draft.processes - 1)
    draft.happen(some_time(dice, draft), pause={number: dice.between(0.5, 30)})


def jumps(dice: Dice, draft: Draft) -> None:
    """The clock of a process is set."""
    seconds = dice.one_of([-3600.0, 3600.0, -30.0, 30.0])
    draft.happen(some_time(dice, draft), jump={dice.whole(0, draft.processes - 1): seconds})


def is_cut(dice: Dice, draft: Draft) -> None:
    """Watches end."""
    some = dice.one_of([["*"], ["pods"], ["nodes"], ["podgroups"], ["pods", "podgroups"]])
    draft.happen(some_time(dice, draft), cut=some)


def forgets(dice: Dice, draft: Draft) -> None:
    """The server forgets its history, and often ends watches then, so that they are told so."""
    draft.happen(some_time(dice, draft), compact=True, cut=["*"] if dice.likely(0.7) else [])


def is_away(dice: Dice, draft: Draft) -> None:
    """The server answers nobody."""
    draft.happen(some_time(dice, draft), away=dice.between(0.5, 60) if dice.likely(0.4) else dice.between(0.2, 8))


HAPPENINGS: dict[Kind, float] = {
    scales: 10,
    finishes: 6,
    breaks: 8,
    removes: 8,
    removes_all: 3,
    is_deleted: 7,
    loses_its_group: 3,
    opens_gates: 2,
    fails: 8,
    fails_with_its_rack: 3,
    vanishes: 5,
    is_cordoned: 4,
    is_relabelled: 6,
    drifts: 3,
    shrinks: 3,
    another_minimum: 6,
    another_child: 3,
    another_queue: 4,
    a_queue_changes: 4,
    the_topology_goes: 3,
}
# What goes wrong on the way, not in the world: drawn only where faults are.
TROUBLES: dict[Kind, float] = {
    crashes: 10,
    restarts: 4,
    pauses: 8,
    jumps: 4,
    is_cut: 4,
    forgets: 4,
    is_away: 5,
}


def _group(name: str, workload: Workload) -> str:
    return f"podgroup/{workload.namespace}/{name}"


# So long a leader renews nothing: not long enough for anybody to take over, and nearly so long that it has to stop. In
# the last part of it there is something to bind.
_UNRENEWED_S, _BUSY_S = (8.0, 10.0), (5.5, 10.0)


def renewals_are_lost(dice: Dice, draft: Draft) -> None:
    """Each process can't renew the Lease for a while, just when there is something to bind."""
    for number in range(draft.processes):
        since = dice.between(2, max(3.0, draft.lasts - 15))
        until = round(since + dice.between(*_UNRENEWED_S), 2)
        draft.faults.append(
            Fault(point="lease", does="lose", seconds=1.0, since=round(since, 2), until=until, process=number)
        )
        for _ in range(dice.whole(3, 6)):
            name, workload = _anybody(dice, draft)
            draft.happen(since + dice.between(*_BUSY_S), remove=[one_pod(dice, name, workload)])
