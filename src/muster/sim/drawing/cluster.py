"""Draws the cluster: nodes along topologies, what is odd about some of them, queues, priority classes."""

import msgspec

from muster.sim.drawing.dice import Dice
from muster.sim.drawing.draft import Draft
from muster.sim.objects import Nodes, Objects, Pods, QueueEntry, Resource

HOSTNAME = "kubernetes.io/hostname"
CLASSES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
# So many levels, so often.
LEVELS = {("rack",): 20, ("zone", "rack"): 25, ("block", "rack"): 25, ("zone", "block", "rack"): 30}
QUEUES = {"none": 30, "flat": 35, "nested": 35}
TAINT = {"key": "dedicated", "value": "yes", "effect": "NoSchedule"}


def nodes(dice: Dice, draft: Draft) -> None:
    """4 to 16 nodes in racks of 1 to 4, racks in blocks, blocks in zones."""
    levels = dice.weighted(LEVELS)
    draft.topologies["t"] = [*levels, *([HOSTNAME] if dice.has("hostname as the last level") else [])]
    gpus = dice.one_of([2, 2, 4, 4, 8])
    if dice.has("nodes without gpus"):
        gpus = 0
    cpus = dice.one_of([8, 16, 64])
    pods = dice.whole(2, max(2, gpus)) if dice.has("few pods per node") else 110
    mixed = dice.has("nodes of different sizes")
    wanted, rack, there = min(dice.whole(4, 16), dice.whole(4, 16)), 0, 0
    while there < wanted:
        count = min(dice.whole(1, 4), wanted - there)
        path = {"zone": f"z{rack // 4}", "block": f"b{rack // 2}", "rack": f"r{rack}"}
        size = {"gpus": gpus, "cpus": cpus, "pods": pods}
        if mixed and dice.likely(0.4):
            size["gpus"] = gpus * 2 if gpus < 8 else gpus // 2
        place = {level: path[level] for level in levels}
        draft.nodes.append(msgspec.convert({"name": f"r{rack}", "count": count, **place, **size}, Nodes))
        there += count
        rack += 1
    for odd in (_bare, _short, _blank, _tainted, _away, _second):
        odd(dice, draft)


def _like(draft: Draft, name: str, **changes: object) -> Nodes:
    """One more node, like the others but for this."""
    return msgspec.structs.replace(draft.nodes[0], name=name, count=None, **changes)


def _bare(dice: Dice, draft: Draft) -> None:
    if dice.has("nodes without labels"):
        nothing = dict.fromkeys(("zone", "block", "rack"))
        draft.nodes.append(msgspec.structs.replace(_like(draft, "bare", **nothing), count=dice.whole(1, 2)))


def _short(dice: Dice, draft: Draft) -> None:
    if dice.has("a node that lacks the narrowest label"):
        draft.nodes.append(_like(draft, "short", rack=None))


def _blank(dice: Dice, draft: Draft) -> None:
    if dice.has("a label that is an empty text"):
        level = dice.one_of([level for level in draft.levels if level != HOSTNAME])
        draft.nodes.append(_like(draft, "blank", **{level: ""}))
        if dice.likely(0.5):
            draft.nodes.append(_like(draft, "blank-too", **{level: ""}))


def _tainted(dice: Dice, draft: Draft) -> None:
    if dice.has("tainted nodes"):
        row = dice.whole(0, len(draft.nodes) - 1)
        draft.nodes[row] = msgspec.structs.replace(draft.nodes[row], taints=[TAINT])


def _away(dice: Dice, draft: Draft) -> None:
    if dice.has("a node that is away at first"):
        draft.nodes.append(_like(draft, "late", **dice.one_of([{"cordoned": True}, {"ready": False}])))
        at = dice.between(5, 60)
        draft.happen(at, recover=["late"], uncordon=["late"])


def _second(dice: Dice, draft: Draft) -> None:
    if not dice.has("a second topology"):
        return
    draft.topologies["power"] = ["feed"]
    for row, some in enumerate(draft.nodes):
        draft.nodes[row] = msgspec.structs.replace(some, labels={"feed": f"f{dice.whole(0, 2)}"})


# Queues.


def queues(dice: Dice, draft: Draft) -> None:
    """None (then all gangs are in the default queue), a few, or two levels of them."""
    kind = dice.weighted(QUEUES)
    if kind == "none":
        return
    capacity = draft.amount()
    if kind == "flat":
        count = dice.whole(2, 3)
        for name in [f"q-{letter}" for letter in "abc"[:count]]:
            draft.queues[name] = _queue(dice, draft, capacity / count)
            draft.leaves.append(name)
        return
    for parent in ("p-a", "p-b"):
        draft.queues[parent] = _queue(dice, draft, capacity / 2)
        for name in [f"{parent}-{number}" for number in range(dice.whole(1, 2))]:
            draft.queues[name] = msgspec.structs.replace(_queue(dice, draft, capacity / 4), parent=parent)
            draft.leaves.append(name)


def _queue(dice: Dice, draft: Draft, share: float) -> QueueEntry:
    if dice.has("a queue without end"):
        return QueueEntry()
    quota = float(round(share * dice.between(0.2, 1.1)))
    limit = float(round(share * dice.between(1.0, 2.0))) if dice.has("a limit") else None
    charged = Resource(quota=quota, limit=limit, weight=float(dice.whole(0, 4)) if dice.has("a weight") else None)
    thousands = Resource(quota=quota * 1000, limit=None if limit is None else limit * 1000, weight=charged.weight)
    found: dict[str, object] = {}
    if draft.charge == "gpus":
        found |= {"quota": charged.quota, "limit": charged.limit, "weight": charged.weight}
    if draft.charge == "cpus" or dice.has("cpu is charged too"):
        found["cpu"] = thousands
    if dice.has("a queue's priority"):
        found["priority"] = dice.one_of([50, 100, 200])
    for field in ("preempt_min_runtime", "reclaim_min_runtime"):
        if dice.has("a minimum runtime"):
            found[field] = f"{dice.one_of([5, 15, 40])}s"
    return QueueEntry(**found)  # type: ignore[arg-type]


def rules_of_queues(dice: Dice, draft: Draft) -> None:
    """What queues say in annotations."""
    for name, queue in draft.queues.items():
        annotations: dict[str, str] = {}
        if dice.has("a bound of priorities"):
            annotations["muster.dev/max-priority"] = dice.one_of(["train", "60", "100", "inference"])
        if dice.has("a queue that ignores budgets"):
            annotations["muster.dev/reclaim-policy"] = "IgnoreBudgets"
        if annotations:
            draft.queues[name] = msgspec.structs.replace(queue, annotations=annotations)


def classes(draft: Draft) -> None:
    """The classes that gangs use, and whoever comes later may use."""
    for name in draft.classes:
        draft.documents.append(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": CLASSES[name],
            }
        )


def strangers(dice: Dice, draft: Draft) -> None:
    """Pods of other schedulers: there from the start, or on a node all of a sudden."""
    if dice.has("pods of other schedulers"):
        for number, node in enumerate(dice.some_of(draft.node_names, dice.whole(1, 3))):
            draft.foreign.append(_stranger(dice, draft, f"other-{number}", node))
        if dice.likely(0.4):
            draft.happen(dice.between(10, draft.lasts), remove=["other-*"])
    if dice.has("pods of other schedulers come later"):
        late = _stranger(dice, draft, "sudden", dice.one_of(draft.node_names))
        draft.happen(dice.between(5, draft.lasts), apply=Objects(pods=[late]))


def _stranger(dice: Dice, draft: Draft, name: str, node: str) -> Pods:
    asks = {"gpus": 0, "cpus": 0, draft.charge: dice.whole(1, 2)}
    return Pods(name=name, on=node, controlled=False, **asks)  # type: ignore[arg-type]
