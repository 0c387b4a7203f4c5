"""Open EvictionRequests become clearances: names and UIDs are looked up, whatever the request claims.

A request names its pods and its gang by UID. An object of the same name with another UID is another object: a
replacement is never a victim, and a gang that was created again is not the beneficiary.
"""

from collections.abc import Callable, Iterable, Sequence

from muster.api.evictionrequest import FINAL, GRANTED, MAX_VICTIMS, RESERVED_S, EvictionRequest, Leaver
from muster.api.tree import NONE
from muster.snapshot.arrays import Clearance, Gang, Key
from muster.snapshot.quarantine import REQUEST, Thing
from muster.snapshot.times import since_epoch_ns
from muster.snapshot.world import State, World, key_of

# The most that one cycle considers; the others wait for their turn.
MOST_OPEN = 16
_RESERVED_NS = RESERVED_S * 10**9

BENEFICIARY_NOT_FOUND = "BeneficiaryNotFound"
TOO_MANY_VICTIMS = "TooManyVictims"
NO_VICTIMS = "NoVictims"
VICTIM_NOT_FOUND = "VictimNotFound"
VICTIM_NOT_PLACED = "VictimNotPlaced"
VICTIM_NOT_MANAGED = "VictimNotManaged"

Spot = tuple[int, int, int]
Number = Callable[[Key], int]


def clearances_of(world: World, gangs: Sequence[Gang], number_of: Number) -> tuple[Clearance, ...]:
    """The open requests: granted ones first, then the oldest, and at most as many as one cycle considers."""
    if not world.requests:
        return ()
    still_open = [
        one
        for key, one in world.requests.items()
        if one.status.phase not in FINAL and Thing(REQUEST, *key) not in world.quarantine
    ]
    still_open.sort(key=_order)
    return tuple(_clearance(one, world, gangs, number_of) for one in still_open[:MOST_OPEN])


def _order(request: EvictionRequest) -> tuple[bool, int, Key]:
    made_ns = since_epoch_ns(request.metadata.creation_timestamp)
    return request.status.phase != GRANTED, made_ns, key_of(request.metadata)


def _clearance(request: EvictionRequest, world: World, gangs: Sequence[Gang], number_of: Number) -> Clearance:
    spec, granted = request.spec, request.status.phase == GRANTED
    made_ns = since_epoch_ns(request.metadata.creation_timestamp)
    # A reservation ends when the status says so, and never later than it could have been granted.
    until_ns = made_ns + _RESERVED_NS
    if granted:
        until_ns = min(since_epoch_ns(request.status.expires), until_ns + _RESERVED_NS)
    found = Clearance(key_of(request.metadata), request.metadata.uid, NONE, (), until_ns, granted)
    key = spec.beneficiary.namespace, spec.beneficiary.name
    group, number = world.groups.get(key), number_of(key)
    if group is None or group.metadata.uid != spec.beneficiary.uid or number == NONE:
        return found._replace(problem=BENEFICIARY_NOT_FOUND, detail="/".join(key))
    found = found._replace(gang=number)
    if len(spec.victims) > MAX_VICTIMS:
        return found._replace(problem=TOO_MANY_VICTIMS, detail=f"{len(spec.victims):,}")
    spots, problem, detail = _victims(spec.victims, world, gangs, number_of)
    if granted and problem in (VICTIM_NOT_FOUND, VICTIM_NOT_PLACED, NO_VICTIMS):
        # They leave one after the other.
        problem = detail = ""
    return found._replace(victims=spots, problem=problem, detail=detail)


def _victims(
    named: Iterable[Leaver], world: World, gangs: Sequence[Gang], number_of: Number
) -> tuple[tuple[Spot, ...], str, str]:
    """The victims that are placed, and the first thing that is wrong with the others."""
    spots: dict[Spot, None] = {}
    problem = detail = ""
    for one in named:
        spot, wrong = _victim(one, world, gangs, number_of)
        if spot is not None:
            spots[spot] = None
        elif not problem:
            problem, detail = wrong, f"{one.namespace}/{one.name}"
    if not spots and not problem:
        problem = NO_VICTIMS
    return tuple(sorted(spots)), problem, detail


def _victim(one: Leaver, world: World, gangs: Sequence[Gang], number_of: Number) -> tuple[Spot | None, str]:
    facts = world.pods.get((one.namespace, one.name))
    if facts is None or facts.pod.metadata.uid != one.uid:
        return None, VICTIM_NOT_FOUND
    if not facts.ours or facts.gang is None or facts.gang not in world.groups:
        return None, VICTIM_NOT_MANAGED
    if facts.state is not State.PLACED:
        return None, VICTIM_NOT_PLACED
    number = number_of(facts.gang)
    for leaf, placed in gangs[number].placed.items() if number != NONE else ():
        if one.name in placed.pods:
            return (number, leaf, placed.pods.index(one.name)), ""
    # Set aside, or on a node that is not there.
    return None, VICTIM_NOT_PLACED
