"""`muster evict --for`: room for one gang in place of surplus of others, which their owners can't take back."""

import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from muster.api.duration import parse_ns
from muster.api.evictionrequest import Beneficiary, Leaver
from muster.cli.cluster import Loaded, WhatIf, load, policy_of, run_cycle
from muster.cli.evicting import Came
from muster.cli.installation import NAMESPACE
from muster.cli.meant import gang_meant
from muster.cli.options import Server, load_config, with_cluster, with_config, with_files, with_output
from muster.cli.plan import moment_of, tell_unread
from muster.cli.render import JSON, TABLE, YAML, columns, say, say_data, tell
from muster.decisions.changes import evict_command
from muster.decisions.explanation import message_of
from muster.errors import BadObject, UsageError
from muster.plan.outcome import Plan, Verdict
from muster.plan.remedies import Making, making_room
from muster.snapshot.world import Key

CLIENT, SERVER, NONE = "client", "server", "none"
_S = 10**9


class Place(NamedTuple):
    """A pod on a node, its gang and uid, and what controls it: `Job/train`; empty without a controller."""

    pod: str
    node: str
    gang: str
    uid: str
    owner: str = ""


@click.command(epilog="Example: muster evict --for default/nightly -f examples/cluster")
@click.option("--for", "name", metavar="GANG", required=True, help="The gang that is to get the room.")
@click.option("-n", "--namespace", metavar="NAME", default="", help="The namespace of GANG where it names none.")
@with_files
@click.option(
    "--dry-run",
    "dry_run",
    type=click.Choice((CLIENT, SERVER, NONE)),
    default=CLIENT,
    show_default=True,
    help="client: say what would be done. server: also ask the API server whether it would allow it. none: do it.",
)
@click.option("--timeout", metavar="DURATION", default="5m", show_default=True, help="How long to wait for the room.")
@click.option(
    "--muster-namespace", metavar="NAME", default=NAMESPACE, show_default=True, help="The namespace of muster."
)
@click.option("--now", metavar="TIME", help="The time of the cycle, as 2026-01-31T12:00:00Z. Default: now.")
@with_output(TABLE, JSON, YAML)
@with_cluster
@with_config
@click.pass_context
def evict(
    ctx: click.Context,
    name: str,
    namespace: str,
    names: Sequence[str],
    dry_run: str,
    timeout: str,
    muster_namespace: str,
    now: str | None,
    server: Server,
    form: str,
    config_file: str | None,
    flags: tuple[str, ...],
) -> None:
    """Make room for a waiting gang: evict surplus of others, with the room reserved before the first pod goes.

    First it says which pods go and what the gang gets; by default nothing else happens. With --dry-run=none it creates
    an EvictionRequest in muster's namespace, waits until the scheduler has reserved the room, and evicts with your own
    rights through the Eviction API. The owners of the evicted pods may create them again at once: they wait. Ctrl-C
    gives up, and the room is reserved no longer.

    No pod is evicted when a right is missing, a disruption budget does not allow it, or the scheduler refuses.
    Exits with 1 when no eviction helps, or the gang did not get its room.
    """
    if names and dry_run != CLIENT:
        raise UsageError("-f is about files: nothing can be evicted there", "leave --dry-run out")
    timeout_s = _seconds(timeout)
    config = load_config(config_file, flags).config
    loaded = load(names, config, WhatIf(), strict=True, server=server)
    if names:
        tell_unread(loaded)
    made = run_cycle(loaded, moment_of(now))
    home = namespace or loaded.home
    key = gang_meant(name, loaded.world, loaded.place, home, only_home=bool(namespace))
    wanted = _wanted(key, loaded, made)
    if form == TABLE and wanted.go:
        _say(wanted, dry_run)
    came = Came(wanted.good, wanted.result, wanted.message)
    if wanted.go and dry_run != CLIENT:
        came = _carried_out(wanted, loaded, server, muster_namespace, timeout_s, rehearsal=dry_run == SERVER)
    if form != TABLE:
        say_data(_document(wanted, came, dry_run), form)
    else:
        (say if came.good else tell)(came.message)
        if wanted.go and dry_run == CLIENT and not names:
            where = "" if muster_namespace == NAMESPACE else f"--muster-namespace {shlex.quote(muster_namespace)}"
            tell(f"next: {' '.join(filter(None, (evict_command(key), where, server.flags)))}")
    ctx.exit(0 if came.good else 1)


class Wanted(NamedTuple):
    """A gang, the pods that are to go for it and what it gets; none when no pod is to go, and why."""

    key: Key
    good: bool
    result: str
    message: str
    go: Sequence[Place] = ()
    gets: Sequence[Place] = ()


def _wanted(key: Key, loaded: Loaded, made: Plan) -> Wanted:
    """What would be done for the gang. Nothing is."""
    number = next(at for at, gang in enumerate(made.snapshot.gangs) if gang.key == key)
    found = making_room(made, number, policy_of(loaded.config))
    if found is None:
        good, why = _nothing_to_evict(made, number)
        return Wanted(key, good, "NothingToEvict", why)
    message = "nothing was done: this was a dry run"
    return Wanted(key, True, "Planned", message, _victims(found, made, loaded), _places(found, number, loaded))


def _document(wanted: Wanted, came: Came, dry_run: str) -> dict[str, Any]:
    return {
        "namespace": wanted.key[0],
        "name": wanted.key[1],
        "dryRun": dry_run,
        "evict": [one._asdict() for one in wanted.go],
        "gets": [one._asdict() for one in wanted.gets],
        "evicted": list(came.evicted),
        "result": came.reason,
        "message": came.message,
    }


def _seconds(text: str) -> float:
    try:
        found = parse_ns(text) / _S
    except BadObject as error:
        raise UsageError(f"--timeout {error.message}", "write it as 90s or 2m") from None
    if found <= 0:
        raise UsageError("--timeout must be more than 0", "write it as 90s or 2m")
    return found


def _nothing_to_evict(made: Plan, number: int) -> tuple[bool, str]:
    """Whether all is well without, and why no pod is to go."""
    gang, outcome = made.snapshot.gangs[number], made.outcomes[number]
    named = "/".join(gang.key)
    new = sum(len(one.pods) for one in made.placements if one.gang == number)
    message = message_of(gang, outcome, made.snapshot, new)
    if outcome.verdict is Verdict.PLACED:
        return True, f"nothing to evict for {named}: {message}"
    if outcome.verdict is Verdict.HELD:
        return False, f"no eviction helps {named}: {message}"
    return False, f"no surplus of other gangs makes room for {named} that it could keep: {message}"


def _victims(found: Making, made: Plan, loaded: Loaded) -> Sequence[Place]:
    snapshot = made.snapshot
    places = []
    for one in found.remedy.victims:
        gang = snapshot.gangs[one.gang]
        placed = gang.placed[one.leaf]
        pod = gang.key[0], placed.pods[one.pod]
        metadata = loaded.world.pods[pod].pod.metadata
        owner = next((f"{by.kind}/{by.name}" for by in metadata.owner_references if by.controller), "")
        node = snapshot.nodes[placed.nodes[one.pod]]
        places.append(Place("/".join(pod), node, "/".join(gang.key), metadata.uid, owner))
    return sorted(places)


def _places(found: Making, number: int, loaded: Loaded) -> Sequence[Place]:
    """What the gang gets: its pods and their nodes."""
    plan = found.reserves
    gang = plan.snapshot.gangs[number]
    places = []
    for placement in plan.placements:
        batch = gang.waiting[placement.batch] if placement.gang == number else None
        for at, node in zip(placement.pods, placement.nodes, strict=True) if batch is not None else ():
            assert batch is not None
            pod = gang.key[0], batch.pods[at]
            uid = loaded.world.pods[pod].pod.metadata.uid
            places.append(Place("/".join(pod), plan.snapshot.nodes[node], "/".join(gang.key), uid))
    return sorted(places)


def _say(wanted: Wanted, dry_run: str) -> None:
    gang = "/".join(wanted.key)
    say(f"for {gang}, these pods {'are' if dry_run == NONE else 'would be'} evicted:")
    rows = [("  POD", "NODE", "OF"), *((f"  {one.pod}", one.node, one.owner or one.gang) for one in wanted.go)]
    for line in columns(rows):
        say(line)
    say(f"{gang} gets:")
    for line in columns([("  POD", "NODE"), *((f"  {one.pod}", one.node) for one in wanted.gets)]):
        say(line)


def _carried_out(
    wanted: Wanted, loaded: Loaded, server: Server, namespace: str, timeout_s: float, *, rehearsal: bool
) -> Came:
    # Only who asks for a live cluster waits for what speaks to one.
    from muster.cli.evicting import Asked, carry_out, rehearse
    from muster.cli.live import connected, open_client, run_alone

    key, go = wanted.key, wanted.go
    group = loaded.world.groups[key]
    if not group.metadata.uid or not all(one.uid for one in go):
        # A gang that muster has not made yet, or a server that gives no uids.
        hint = "wait until muster has made it: kubectl get podgroups"
        raise UsageError(f"there is no PodGroup {'/'.join(key)} on the cluster yet", hint)
    beneficiary = Beneficiary(namespace=key[0], name=key[1], uid=group.metadata.uid)
    leavers = [Leaver(namespace=one.pod.partition("/")[0], name=one.pod.partition("/")[2], uid=one.uid) for one in go]
    asked = Asked(beneficiary, tuple(leavers), namespace)

    async def work() -> Came:
        async with open_client(connected(server)) as client:
            return await (rehearse(client, asked) if rehearsal else carry_out(client, asked, timeout_s, tell))

    return run_alone(work())
