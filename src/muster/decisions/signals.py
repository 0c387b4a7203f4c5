"""Conditions on pods that wait: what an autoscaler reads, and what the author of a pod must mend.

`PodScheduled: False` has the reason `Unschedulable` only where more nodes would help; what somebody must mend has a
reason of its own, which calls for no nodes. The words stay the same while the reason does: what is missing where, in
numbers, is in the status of the gang.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from muster.api.cluster import Pod, PodCondition
from muster.api.podgroup import PodGroup
from muster.decisions.words import foremost, sentence
from muster.model.reasons import needs_somebody, nodes_help, row_of
from muster.plan.outcome import Outcome, Plan, Reason
from muster.snapshot.arrays import Gang
from muster.snapshot.world import Key, World, key_of

POD_SCHEDULED: Final = "PodScheduled"
ACCEPTED: Final = "muster.dev/Accepted"
UNSCHEDULABLE: Final = "Unschedulable"
_OURS: Final = (POD_SCHEDULED, ACCEPTED)


class Signal(NamedTuple):
    """What a pod is told from now on: conditions that are new or other ones, and types of those that are over."""

    pod: Key
    uid: str
    put: tuple[PodCondition, ...]
    drop: tuple[str, ...]


# By pod: what was ordered and has no answer yet, the first first.
Words = Mapping[Key, Sequence[Signal]]
NO_WORDS: Final[Words] = {}


def after(first: Signal, then: Signal) -> Signal:
    """Both in one, the first of which was not written: each says what is to change, and not how it is then."""
    if first.uid != then.uid:
        return then
    put = {one.type: one for one in (*first.put, *then.put) if one.type not in then.drop}
    drop = dict.fromkeys(kind for kind in (*first.drop, *then.drop) if kind not in put)
    return then._replace(put=tuple(put.values()), drop=tuple(drop))


def signals_of(plan: Plan, number: int, world: World, words: Words) -> Iterator[Signal]:
    """What is to be written to the waiting pods of one gang, by its number in the snapshot.

    `words` are on their way: such a one can only be taken back by another one.
    """
    gang, outcome = plan.snapshot.gangs[number], plan.outcomes[number]
    group = world.groups[gang.key]
    marks = _marks(gang, outcome, group)
    for at, batch in enumerate(gang.waiting):
        wanted = (marks[at],) if at in marks else ()
        for name in batch.pods:
            yield from signal(world.pods[gang.key[0], name].pod, wanted, words)
    noted = {note.pod for note in gang.notes if row_of(note.code).about_pods}
    for (_, name), facts in world.members.get(gang.key, {}).items():
        if facts.pod.spec.node_name and name not in noted and facts.pod.status.conditions:
            yield from signal(facts.pod, (), words)
    for note in gang.notes:
        meant = world.pods.get((gang.key[0], note.pod))
        if row_of(note.code).about_pods and meant is not None:
            reason = Reason(note.code, note.row, detail=note.detail, pod=note.pod)
            message = sentence(reason, gang, plan.snapshot)
            refused = PodCondition(type=ACCEPTED, status="False", reason=note.code, message=message)
            yield from signal(meant.pod, (refused,), words)


def _marks(gang: Gang, outcome: Outcome, group: PodGroup) -> dict[int, PodCondition]:
    """The batches of waiting pods for which more nodes would help, or somebody has to do something, with the word."""
    if group.spec.mark_unschedulable is False:
        return {}
    found: dict[int, PodCondition] = {}
    if not outcome.satisfied:
        first = foremost(outcome)
        if first is not None and _is_told(first.reason.code):
            found = dict.fromkeys(range(len(gang.waiting)), _mark(gang, first.reason))
        return found
    for reason in outcome.reasons:
        if reason.surplus and nodes_help(reason.code):
            for at in gang.batches_below(reason.row):
                found.setdefault(at, _mark(gang, reason))
    return found


def _is_told(code: str) -> bool:
    return nodes_help(code) or needs_somebody(code)


def _mark(gang: Gang, reason: Reason) -> PodCondition:
    word = UNSCHEDULABLE if nodes_help(reason.code) else reason.code
    return PodCondition(type=POD_SCHEDULED, status="False", reason=word, message=_words(gang, reason))


def _words(gang: Gang, reason: Reason) -> str:
    """The same as long as the reason is: pods are many, and written only when it is another one."""
    name = gang.tree.nodes[reason.row].name
    who = f"{'surplus of ' if reason.surplus else ''}{f'subgroup {name} of ' if name else ''}gang {'/'.join(gang.key)}"
    return f"{who} waits: {reason.code} · see kubectl describe pg {gang.key[1]}"


def signal(pod: Pod, wanted: tuple[PodCondition, ...], words: Words) -> Iterator[Signal]:
    """What differs from what stands there once all words have arrived. That a pod is scheduled, or accepted, nobody
    needs to be told.
    """
    key, uid = key_of(pod.metadata), pod.metadata.uid
    there = {one.type: one for one in pod.status.conditions if one.type in _OURS and one.status == "False"}
    for word in words.get(key, ()):
        if word.uid == uid:
            there = {kind: one for kind, one in there.items() if kind not in word.drop}
            there.update((one.type, one) for one in word.put)
    put = tuple(one for one in wanted if there.get(one.type) != one)
    drop = tuple(kind for kind in there if kind not in {one.type for one in wanted})
    if put or drop:
        yield Signal(key, uid, put, drop)
