"""The queues as the page shows them: what each has, is due and may have, core and surplus apart, and who waits."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from muster.api.tree import NONE
from muster.decisions import queues
from muster.decisions.amounts import in_queue_units
from muster.decisions.queues import Share
from muster.decisions.words import queue_in_words
from muster.plan.outcome import Plan
from muster.serve.views.gangs import BINDING, CORE, NO_SURPLUS, SURPLUS, Document, Entry
from muster.serve.views.scene import Scene
from muster.snapshot.queues import CHARGES


def queue_documents(
    scene: Scene, lines: Mapping[str, Sequence[int]], entries: Collection[Entry]
) -> dict[str, Document]:
    """Every queue, each before those below it; last those that nothing can be charged to.

    `lines` are the gangs that wait in each, by number. Where nobody wrote Queues down there are no shares, but what the
    gangs of each hold, in slots.
    """
    plan = scene.plan
    tree, gangs = plan.snapshot.queues, plan.snapshot.gangs
    told = queues.are_told(plan)
    shares = {found[0].queue: found for found in queues.shares(plan) if found} if told else {}
    crowd = [entry for entry in entries if entry.surplus is not NO_SURPLUS] if told else []
    surplus = _surplus(plan, crowd)
    firm = _surplus(plan, (entry for entry in crowd if entry.gang.is_firm))
    counts = Counter(gang.queue for gang in gangs)
    held = {} if told else _held(entries)
    found: dict[str, Document] = {}
    for row, depth in queues.in_order(tree):
        name, parent = tree.names[row], tree.parent_of[row]
        found[name] = {
            "parent": tree.names[parent] if parent != NONE else None,
            "depth": depth,
            "order": len(found),
            "problem": "",
            **_more(name, scene, counts, held),
            "shares": [_share(one, surplus[row][one.charge], firm[row][one.charge]) for one in shares.get(name, ())],
            "waiting": ["/".join(gangs[number].key) for number in lines.get(name, ())],
        }
    for name, problem in sorted(tree.cut_off.items()):
        words = queue_in_words(name, problem.code, problem.detail)
        nothing: Document = {"parent": None, "depth": 0, "order": len(found), "problem": words}
        found[name] = {**nothing, **_more(name, scene, counts, held), "shares": [], "waiting": []}
    return found


def _more(name: str, scene: Scene, counts: Mapping[str, int], held: Mapping[str, float]) -> Document:
    """How many gangs are in a queue, its name for people if it has one, and what they hold if that is known."""
    found: Document = {"gangs": counts.get(name, 0)}
    if name in scene.titles:
        found["displayName"] = scene.titles[name]
    if name in held:
        found["held"] = held[name]
    return found


def _held(entries: Iterable[Entry]) -> dict[str, float]:
    """Per queue the slots of pods that have their place, or get it in this cycle."""
    found: dict[str, float] = {}
    for entry in entries:
        slots = sum(pod[3] for pod in entry.document["pods"] if pod[4] in (CORE, SURPLUS, BINDING))
        found[entry.gang.queue] = round(found.get(entry.gang.queue, 0) + slots, 3)
    return found


def _surplus(plan: Plan, entries: Iterable[Entry]) -> list[list[int]]:
    """Per queue and charge: what placed pods hold that no minimum needs."""
    tree = plan.snapshot.queues
    found = [[0] * len(CHARGES) for _ in tree.names]
    for entry in entries:
        row = tree.row_of.get(entry.gang.queue, NONE)
        if row != NONE:
            for at in tree.paths[row]:
                found[at] = [have + more for have, more in zip(found[at], entry.surplus, strict=True)]
    return found


def _share(one: Share, surplus: int, firm: int) -> Document:
    """One charge of a queue, in the units of a Queue; null for no end. Of its surplus `firm` is not preemptible.

    What is allocated has its place; what is awaited comes on top of it.
    """
    amounts = {
        "allocated": one.allocated,
        "nonPreemptible": one.non_preemptible,
        "surplus": surplus,
        "surplusNonPreemptible": firm,
        "awaited": one.awaited,
        "requested": one.requested,
        "fairShare": one.fair_share,
        "quota": one.quota,
        "limit": one.limit,
    }
    return {
        "resource": CHARGES[one.charge],
        **{name: in_queue_units(one.charge, have) for name, have in amounts.items()},
    }
