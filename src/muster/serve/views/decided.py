"""One decision as the page shows it: who goes where, who leaves for whom, and what everybody concerned is told."""

from collections.abc import Collection, Iterator

from muster.decisions.explanation import message_of
from muster.decisions.losses import Loss, evictions_of, losses, why_evicted
from muster.decisions.plan import Bind, Nominate, decide
from muster.decisions.words import foremost
from muster.plan.outcome import Plan
from muster.serve.views.gangs import Document
from muster.serve.views.scene import Scene
from muster.serve.views.seeing import Rights, answer_seen_by, hidden_of
from muster.serve.views.timeline import SOMEBODY
from muster.snapshot.arrays import Gang, Key


def decided(scene: Scene, gang: str, marked: Collection[str], rights: Rights) -> Document:
    """What a cycle does, of one gang or (empty) of all; with the words for those, and for who is `marked` in it."""
    plan = scene.plan
    owner = _owners(plan)
    wanted = [one for one in decide(plan) if gang in ("", owner[one.namespace, one.pod])]
    lost = [loss for loss in losses(plan) if gang in ("", loss.loser, loss.winner)]
    seen = [one for one in lost if rights.sees_key(one.loser)]
    concerned = {gang} if gang else {*marked, *(owner[one.namespace, one.pod] for one in wanted)}
    unseen = sum(len(one.pods) for one in lost) - sum(len(one.pods) for one in seen)
    found: Document = {
        "bindings": [_place(one, owner) for one in wanted if isinstance(one, Bind) and rights.sees(one.namespace)],
        "nominations": [
            _place(one, owner) for one in wanted if isinstance(one, Nominate) and rights.sees(one.namespace)
        ],
        "evictions": [document for loss in seen for document in _evictions(loss, rights)],
        "words": list(_words(scene, {name for name in concerned if rights.sees_key(name)})),
        # Pods of gangs that the caller may not see go too.
        **({"unseen": unseen} if unseen else {}),
    }
    return answer_seen_by(found, hidden_of(plan.snapshot, rights))


def _owners(plan: Plan) -> dict[Key, str]:
    """The gang of every pod that a plan does something with."""
    gangs, found = plan.snapshot.gangs, dict[Key, str]()
    for placement in plan.placements:
        gang = gangs[placement.gang]
        pods = gang.waiting[placement.batch].pods
        found.update(((gang.key[0], pods[pod]), "/".join(gang.key)) for pod in placement.pods)
    for eviction in plan.evictions:
        gang = gangs[eviction.gang]
        found[gang.key[0], gang.placed[eviction.leaf].pods[eviction.pod]] = "/".join(gang.key)
    return found


def _place(one: Bind | Nominate, owner: dict[Key, str]) -> Document:
    return {**one._asdict(), "gang": owner[one.namespace, one.pod]}


def _evictions(loss: Loss, rights: Rights) -> Iterator[Document]:
    known = loss.winner is None or rights.sees_key(loss.winner)
    told = loss if known else loss._replace(winner=SOMEBODY)
    for document in evictions_of(loss if known else loss._replace(winner=None)):
        yield {**document, "why": why_evicted(told)}


def _words(scene: Scene, names: Collection[str]) -> Iterator[Document]:
    plan = scene.plan
    new: dict[int, int] = {}
    for placement in plan.placements:
        new[placement.gang] = new.get(placement.gang, 0) + len(placement.pods)
    for number, gang in enumerate(plan.snapshot.gangs):
        if "/".join(gang.key) in names:
            yield _word(gang, number, plan, new.get(number, 0), sent=bool(scene.decision))


def _word(gang: Gang, number: int, plan: Plan, new: int, *, sent: bool) -> Document:
    outcome = plan.outcomes[number]
    first = foremost(outcome)
    return {
        "gang": "/".join(gang.key),
        "verdict": outcome.verdict.value,
        "reason": first.reason.code if first is not None else None,
        "message": message_of(gang, outcome, plan.snapshot, new, sent=sent),
    }
