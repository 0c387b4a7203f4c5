"""A cluster out of files, or the live one: documents become a World that can be planned, with what-ifs applied. For
`plan`, `explain`, `snapshot`, `replay` and all that looks at a cluster without changing it.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from muster.api.cluster import POD_GROUP_ANNOTATION, SUBGROUP_LABEL, Node, Pod
from muster.api.documents import Problem
from muster.api.gpus import SHARED, GpuWeights
from muster.api.interface import ResourceInterface
from muster.api.kinds import POD_GROUP, Kind, kind_of, read_core, read_object
from muster.api.nearest import Nearest
from muster.api.podgroup import KEEP_ANNOTATION, PodGroup, is_grouped
from muster.api.queue import Queue
from muster.api.storage import PersistentVolume, PersistentVolumeClaim
from muster.api.topology import Topology
from muster.api.validation import ERROR, Judgement, Violation
from muster.cli.files import Source, read_objects
from muster.cli.grouping import NOTHING, groupable, registry_for
from muster.cli.judging import Checked, about_warnings, check_all, name_of, plural
from muster.cli.meant import gang_meant
from muster.cli.options import Server, is_live
from muster.config import Config
from muster.controllers.suspects import run_without_stumbling
from muster.decisions.plan import DRAIN, Evict
from muster.errors import UsageError
from muster.grouping.grouper import Assignment, Grouping
from muster.grouping.owners import Objects
from muster.plan.cycle import Policy, schedule
from muster.plan.outcome import ACTIONS, Plan
from muster.snapshot.build import Builder
from muster.snapshot.queues import Costs
from muster.snapshot.referred import NOT_IN_INPUT, REFERRED
from muster.snapshot.world import DEFAULT_NAMESPACE, Key, PodFacts, State, World, key_of, unread_amount_of

if TYPE_CHECKING:
    from muster.cli.unknown import Unknown

NewLookup = Callable[[], Objects]

# Of these a file may hold ten thousands.
_MANY = (Pod, Node, PersistentVolumeClaim, PersistentVolume)
_MOST_PROBLEMS = 5
INPUT, CLUSTER = "the input", "the cluster"


@dataclass(frozen=True)
class Loaded:
    """A cluster as files tell it, and what there is to say about the files."""

    config: Config
    world: World
    # Every object that is not a plain Pod or Node, and every one with an error.
    checked: Sequence[Checked] = ()
    notes: Sequence[str] = ()
    # Gangs that came, or got pods, with --add.
    added: frozenset[Key] = frozenset()
    evictions: tuple[Evict, ...] = ()
    # Workloads that came without their pods.
    unknown: tuple["Unknown", ...] = ()
    # Whether pods came that could not be grouped.
    ungrouped: bool = False
    # The kinds of objects that own pods.
    owners: frozenset[str] = frozenset()
    # The cluster as it is, when the other one is what if.
    before: World | None = None
    # Where it was read, in words.
    place: str = INPUT
    # The namespace of what names none.
    home: str = DEFAULT_NAMESPACE

    @property
    def wrong(self) -> list[Checked]:
        """The objects that have errors."""
        return [one for one in self.checked if not one.judgement.valid]


class WhatIf(NamedTuple):
    """What is assumed beside the files."""

    add: Sequence[str] = ()
    drain: Sequence[str] = ()
    without: Sequence[str] = ()


def load(
    names: Sequence[str],
    config: Config,
    what_if: WhatIf | None = None,
    *,
    strict: bool = True,
    compare: bool = False,
    server: Server | None = None,
) -> Loaded:
    """The cluster that the files hold, or without files the one of a server; to `compare`, also without the what-if.

    One bad document never costs another. Raises UsageError when a file is not there, or a what-if names nothing;
    ApiError when the server can't be asked.
    """
    what_if = what_if or WhatIf()
    live = server is not None and is_live(names, server)
    # An API server gives only fields that it knows, and others may know more than we do.
    strict = strict and not live
    world = World(config.scheduler_names)
    before = World(config.scheduler_names) if compare and any(what_if) else None
    with _collector_at_rest():
        coming = read_objects(what_if.add, config.input) if what_if.add else []
        lookup: NewLookup | None = None
        told: list[str] = []
        home = DEFAULT_NAMESPACE
        if live and server is not None:
            sources, told, lookup, coming, home, hidden, closed = _live(server, config, coming)
            for one in filter(None, (world, before)):
                for kind in hidden:
                    one.hide(kind.struct, f"{kind.plural} may not be listed")
                for resource, why in closed.items():
                    one.close(resource, why)
        else:
            sources = read_objects(names, config.input)
            for one in filter(None, (world, before)):
                one.referred.absent = NOT_IN_INPUT
        coming, assumed = _with_pods(coming, config, sources)
        told = [*told, *assumed]
        given = len(sources)
        sources += coming
        judged = check_all([one for one in sources if not _is_one_of_many(one)], config, strict=strict)
        reading = _Reading(world, before, judged)
        for number, source in enumerate(sources):
            reading.take(source, added=number >= given)
        grouped = _group(world, sources, judged, config, lookup)
        if before is not None:
            _group(before, sources[:given], judged, config, lookup)
        for one in filter(None, (world, before)):
            told += _seen_live(one) if live else _renew(one, sources, judged, config)
    notes = (*told, *_about_input(reading), *_about_groups(grouped))
    loaded = Loaded(
        *(config, world, reading.checked, notes, _gangs_added(coming, reading, grouped)),
        unknown=_unknown(coming, sources[:given], world, judged, config),
        ungrouped=_is_ungrouped(coming, grouped),
        owners=grouped.kinds,
        before=before,
        place=CLUSTER if live else INPUT,
        home=home,
    )
    return assume(loaded, what_if)


def come_too(loaded: Loaded, coming: Sequence[Source], interfaces: Sequence[ResourceInterface] = ()) -> Loaded:
    """What if these came too, as with --add, to a cluster that is loaded already and stays as it is: it becomes the one
    before. `interfaces` are those of users that are there.
    """
    there, config = loaded.world, loaded.config
    known: dict[str, Mapping[str, Any]] = {
        "Topology": there.topologies,
        "Queue": there.queues,
        "PriorityClass": there.priority_classes,
    }
    world = there.copy()
    coming, assumed = _with_pods(coming, config, world=there)
    judged = check_all([one for one in coming if not _is_one_of_many(one)], config, strict=True, there=known)
    reading = _Reading(world, None, judged)
    for source in coming:
        reading.take(source, added=True)
    grouped = _group(world, coming, judged, config, interfaces=interfaces)
    loaded = replace(
        loaded,
        world=world,
        checked=reading.checked,
        notes=(*assumed, *_about_input(reading), *_about_groups(grouped)),
        added=_gangs_added(coming, reading, grouped),
        unknown=_unknown(coming, (), world, judged, config, interfaces),
        ungrouped=_is_ungrouped(coming, grouped),
        owners=grouped.kinds,
        before=there,
    )
    before = set(_remarks(there, loaded.place))
    loaded = assume(loaded, WhatIf())
    # What there is to say without them, too, is nothing new.
    return replace(loaded, notes=[note for note in loaded.notes if note not in before])


def _with_pods(
    coming: Sequence[Source], config: Config, given: Sequence[Source] = (), world: World | None = None
) -> tuple[list[Source], list[str]]:
    """What comes, with the pods that controllers would make of it, and notes about that."""
    if not coming:
        return [], []
    # Only who assumes something waits for the controllers.
    from muster.cli.making import owners_in, owners_of, with_pods

    owned = owners_of(world) if world is not None else owners_in(one.value for one in given)
    return with_pods(coming, frozenset(owned), config.scheduler_names)


def _is_ungrouped(coming: Sequence[Source], grouped: Grouping) -> bool:
    """Whether some pod that came could not be grouped: it is in no gang that is planned."""
    lost = {(problem.namespace or DEFAULT_NAMESPACE, pod) for problem in grouped.problems for pod in problem.pods}
    return bool(lost) and any(name_of(one.value)[::-1] in lost for one in coming if _is_one_of_many(one))


def _unknown(
    coming: Sequence[Source],
    given: Sequence[Source],
    world: World,
    judged: Sequence[Checked],
    config: Config,
    interfaces: Sequence[ResourceInterface] = (),
) -> tuple["Unknown", ...]:
    """What came and can't be answered."""
    if not coming:
        return ()
    # Only a what-if asks.
    from muster.cli.unknown import without_pods

    return without_pods(coming, given, world, lambda: registry_for(judged, config, interfaces))


def _gangs_added(coming: Sequence[Source], reading: "_Reading", grouped: Grouping) -> frozenset[Key]:
    """The gangs that came, or got pods."""
    pods = {name_of(source.value)[::-1] for source in coming if _is_one_of_many(source)}
    return frozenset(reading.added | {(pod.namespace, pod.pod_group) for pod in grouped.pods if pod[:2] in pods})


class _Live(NamedTuple):
    """The objects of a server, what to say about them, and how owners are found among them; what comes besides."""

    sources: list[Source]
    notes: list[str]
    lookup: NewLookup
    coming: list[Source]
    home: str
    # The kinds that may not be read.
    hidden: tuple[Kind, ...]
    # Kinds that pods refer to and that can't be read, with the reason.
    closed: Mapping[str, str]


def _live(server: Server, config: Config, coming: Sequence[Source]) -> _Live:
    # Only who asks for a live cluster waits for what speaks to one.
    from muster.cli.live import at_home, connected, fetch_cluster
    from muster.cli.owners import Known

    connection = connected(server)
    settled = [at_home(source, connection.namespace) for source in coming]
    found = fetch_cluster(connection, config, settled)
    lookup = partial(Known, forbidden=found.forbidden)
    return _Live(found.sources, found.notes, lookup, settled, connection.namespace, found.hidden, found.closed)


def _group(
    world: World,
    sources: Sequence[Source],
    judged: Sequence[Checked],
    config: Config,
    lookup: NewLookup | None = None,
    interfaces: Sequence[ResourceInterface] = (),
) -> Grouping:
    """Gives a gang to the pods of ours that have none (SPEC §9). Those that have succeeded count in the gang of others,
    and make none by themselves.
    """
    bare = {key: facts.state for key, facts in world.pods.items() if facts.ours and facts.gang is None}
    done = {key for key, state in bare.items() if state is State.SUCCEEDED}
    alone = {key for key, state in bare.items() if state not in (State.SUCCEEDED, State.FAILED)}
    if not alone:
        return NOTHING

    def grouped(pods: set[Key], given: Sequence[Source]) -> Grouping:
        lookups = lookup() if lookup else None
        return groupable(given, judged, config, only=pods, lookup=lookups, interfaces=interfaces).group()

    found = grouped(alone, sources)
    if done and found.groups:
        there = {(one.namespace, one.pod_group) for one in found.pods}
        unfinished = [source._replace(value=_unfinished(source.value)) for source in sources]
        for assigned in grouped(done, unfinished).pods:
            if (assigned.namespace, assigned.pod_group) in there:
                world.apply(_member(world.pods[assigned[:2]].pod, assigned))
    for made in found.groups:
        if made.changed:
            world.apply(read_object(made.document, POD_GROUP, strict=False)[0])
    for assigned in found.pods:
        world.apply(_member(world.pods[assigned[:2]].pod, assigned))
    return found


def _seen_live(world: World) -> list[str]:
    """A bound pod without a mark counts on a cluster only where no pod has one."""
    world.ask_for_marks_in_use()
    return []


def _renew(world: World, sources: Sequence[Source], judged: Sequence[Checked], config: Config) -> list[str]:
    """PodGroups that the grouper of an earlier version wrote for what starts in an order: as it writes them now, and as
    the one of a cluster brings them up to date when it starts. What to say about it.
    """
    old = {key for key, group in world.groups.items() if _is_of_before(group)}
    pods = {key for key, facts in world.pods.items() if facts.ours and facts.gang in old}
    said = _unite(world, sources, judged, config)
    if not pods:
        return said
    found = groupable(sources, judged, config, only=pods).group()
    renewed = [made.document for made in found.groups if KEEP_ANNOTATION in made.document["metadata"]["annotations"]]
    for document in renewed:
        world.apply(read_object(document, POD_GROUP, strict=False)[0])
    return [*said, _renewed(len(renewed))] if renewed else said


def _renewed(count: int) -> str:
    return f"{plural(count, 'PodGroup')} of an earlier version taken as the grouper writes it now: {KEEP_ANNOTATION}"


def _unite(world: World, sources: Sequence[Source], judged: Sequence[Checked], config: Config) -> list[str]:
    """Workloads of which a grouper of before made several PodGroups, and this one makes a single one that is kept
    together: their pods are of that one. On a cluster pods that run stay in their PodGroup until the workload ends.
    """
    siblings: dict[tuple[str, str], set[Key]] = {}
    for key, group in world.groups.items():
        owners = group.metadata.owner_references
        if (
            is_grouped(group)
            and len(owners) == 1
            and owners[0].uid
            and KEEP_ANNOTATION not in group.metadata.annotations
        ):
            siblings.setdefault((key[0], owners[0].uid), set()).add(key)
    parted = {key: owner for owner, keys in siblings.items() if len(keys) > 1 for key in keys}
    members = {key: facts.gang for key, facts in world.pods.items() if facts.ours and facts.gang in parted}
    if not members:
        return []
    bare = [source._replace(value=_without_gang(source.value)) for source in sources]
    found = groupable(bare, judged, config, only=members.keys()).group()
    made = {name_of(one.document)[::-1]: one.document for one in found.groups}
    united: dict[tuple[str, str], set[Key]] = {}
    for one in found.pods:
        united.setdefault(parted[members[one[:2]]], set()).add((one.namespace, one.pod_group))
    whole = {next(iter(keys)) for keys in united.values() if len(keys) == 1} & {
        key for key, document in made.items() if KEEP_ANNOTATION in document["metadata"]["annotations"]
    }
    old = {members[one[:2]] for one in found.pods if (one.namespace, one.pod_group) in whole}
    for key in sorted(whole):
        world.apply(read_object(made[key], POD_GROUP, strict=False)[0])
    for one in found.pods:
        if (one.namespace, one.pod_group) in whole:
            world.apply(_member(world.pods[one[:2]].pod, one))
    for key in sorted(old):
        world.apply(world.groups[key], deleted=True)
    said = f"{plural(len(old), 'PodGroup')} of an earlier grouper taken as {len(whole):,}, as the grouper makes it now"
    return [said] if whole else []


def _unfinished(document: Any) -> Any:
    """A pod as it was when it came; all else as it is."""
    if not isinstance(document, dict) or document.get("kind") != "Pod":
        return document
    return {key: value for key, value in document.items() if key != "status"}


def _without_gang(document: Any) -> Any:
    """A pod as it was before it was grouped; all else as it is."""
    if not isinstance(document, dict) or document.get("kind") != "Pod":
        return document
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        return document
    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict) or POD_GROUP_ANNOTATION not in annotations:
        return document
    left = {key: value for key, value in annotations.items() if key != POD_GROUP_ANNOTATION}
    return {**document, "metadata": {**metadata, "annotations": left}}


def _is_of_before(group: PodGroup) -> bool:
    """Whether the grouper wrote it, some children are enough, and it does not say whether they are kept together."""
    minimums = [group.spec.min_sub_group, *(one.min_sub_group for one in group.spec.sub_groups or ())]
    said = KEEP_ANNOTATION in group.metadata.annotations
    return is_grouped(group) and not said and any(minimum is not None for minimum in minimums)


def _member(pod: Pod, assigned: Assignment) -> Pod:
    """The pod, as a member of its gang."""
    annotations = {**pod.metadata.annotations, POD_GROUP_ANNOTATION: assigned.pod_group}
    labels = {**pod.metadata.labels, SUBGROUP_LABEL: assigned.sub_group} if assigned.sub_group else pod.metadata.labels
    return structs.replace(pod, metadata=structs.replace(pod.metadata, annotations=annotations, labels=labels))


def _about_groups(grouped: Grouping) -> Iterator[str]:
    """Which gangs were made for pods that had none, and which pods could not be helped."""
    if grouped.groups:
        pods, groups = plural(len(grouped.pods), "pod"), plural(len(grouped.groups), "PodGroup")
        yield f"{pods} without a gang grouped into {groups} by owner: muster group says how"
    for problem in grouped.problems[:_MOST_PROBLEMS]:
        first = f"{problem.namespace or DEFAULT_NAMESPACE}/{problem.name}"
        pods = plural(len(problem.pods), "pod")
        yield f"{problem.kind} {first}: {pods} not grouped: {problem.message}"
    if len(grouped.problems) > _MOST_PROBLEMS:
        yield f"{len(grouped.problems) - _MOST_PROBLEMS:,} more workloads could not be grouped: muster group"
    yield from grouped.warnings[:_MOST_PROBLEMS]


def _about_input(reading: "_Reading") -> Iterator[str]:
    """What people should know about the files, although it is no error."""
    if reading.twice:
        more = f" and {len(reading.twice) - 3:,} more" if len(reading.twice) > 3 else ""
        yield f"{', '.join(list(reading.twice)[:3])}{more}: more than once in the input, the last one counts"
    yield from about_warnings(reading.checked)


def assume(loaded: Loaded, what_if: WhatIf) -> Loaded:
    """The cluster without some gangs and with some nodes drained; with the notes that are due then."""
    world, notes, place, home = loaded.world, list(loaded.notes), loaded.place, loaded.home
    for name in dict.fromkeys(what_if.without):
        _take_out(world, gang_meant(name, world, place, home))
    evictions = [eviction for name in dict.fromkeys(what_if.drain) for eviction in _drain(world, name, notes, place)]
    notes += [*_remarks(world, place), *_about_shared(world, loaded.config)]
    return replace(loaded, notes=tuple(notes), evictions=(*loaded.evictions, *evictions))


def policy_of(config: Config, actions: Sequence[str] = ACTIONS) -> Policy:
    """How to place, as the configuration says, and what a cycle may do."""
    search = config.search
    return Policy(config.placement.strategy, search.steps_per_gang, search.steps_per_cycle, actions=frozenset(actions))


def costs_of(config: Config) -> Costs:
    """What queues count, as the configuration says."""
    return Costs(GpuWeights(tuple(config.queues.gpu_weights)))


def run_cycle(loaded: Loaded, now_ns: int, actions: Sequence[str] = ACTIONS) -> Plan:
    """One scheduling cycle."""
    return _run(loaded.world, loaded.config, now_ns, actions)


def run_before(loaded: Loaded, now_ns: int, actions: Sequence[str] = ACTIONS) -> Plan | None:
    """The same cycle without the what-if; None when there is none."""
    return _run(loaded.before, loaded.config, now_ns, actions) if loaded.before is not None else None


def _run(world: World, config: Config, now_ns: int, actions: Sequence[str]) -> Plan:
    policy = policy_of(config, actions)

    def planned(of: World) -> Plan:
        builder = Builder(
            of,
            default_queue=config.default_queue,
            settings=config.validation,
            priorities=config.priorities,
            costs=costs_of(config),
        )
        return schedule(builder.build(now_ns), policy)[0]

    return run_without_stumbling(world, planned)


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """What is read stays: looking through it for garbage again and again takes longer than reading it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclass
class _Reading:
    """Objects on their way into the world; what is not added, also into the world before it."""

    world: World
    before: World | None
    judged: Sequence[Checked]
    checked: list[Checked] = field(default_factory=list)
    added: set[Key] = field(default_factory=set)
    # Objects that came more than once, as people write them.
    twice: dict[str, None] = field(default_factory=dict)
    _seen: set[tuple[str, str, str]] = field(default_factory=set)
    _next: int = 0

    def take(self, source: Source, *, added: bool) -> None:
        if _is_one_of_many(source):
            one = _checked(source)
        else:
            one = self.judged[self._next]
            self._next += 1
        found = one.judgement.object
        if found is not None and not one.name:
            what = Violation(ERROR, "metadata.name", "is missing", "an object that is planned has a name")
            if not any(violation.path == what.path for violation in one.judgement.violations):
                one = one._replace(judgement=one.judgement._replace(violations=[*one.judgement.violations, what]))
        if one.judgement.violations or not isinstance(found, _MANY):
            self.checked.append(one)
        if found is not None and one.name:
            kind = one.judgement.kind
            named = kind.resource if kind is not None else one.kind
            key = (named, one.namespace if kind is not None and kind.namespaced else "", one.name)
            if key in self._seen:
                self.twice[one.title] = None
            self._seen.add(key)
            errors = [error for error in one.judgement.violations if error.severity == ERROR]
            _apply(self.world, found, errors)
            if self.before is not None and not added:
                _apply(self.before, found, errors)
            if added:
                self._added(found)

    def _added(self, found: Any) -> None:
        """The gang that came, or that a pod came to."""
        if isinstance(found, PodGroup):
            self.added.add(key_of(found.metadata))
        facts = self.world.pods.get(key_of(found.metadata)) if isinstance(found, Pod) else None
        if facts is not None and facts.gang is not None:
            self.added.add(facts.gang)


def _apply(world: World, found: Any, errors: Sequence[Violation]) -> None:
    if isinstance(found, PodGroup):
        world.apply(found, error=_in_words(errors[0]) if errors else "")
    elif isinstance(found, Pod):
        # Half of a waiting pod's rules could be the wrong half; what a placed one holds is held.
        if not errors or found.spec.node_name:
            world.apply(found)
    elif isinstance(found, Queue):
        # A wrong parent has reasons of its own.
        errors = [error for error in errors if error.path != "spec.parentQueue"]
        world.apply(found, error=_in_words(errors[0]) if errors else "")
    elif errors and isinstance(found, REFERRED):
        world.refer_unread(type(found), found.metadata, _in_words(errors[0]))
    elif not (errors and isinstance(found, Topology)):
        world.apply(found)


def _is_one_of_many(source: Source) -> bool:
    kind = kind_of(source.value)
    return isinstance(kind, Kind) and kind.struct in _MANY


def _checked(source: Source) -> Checked:
    """A pod or node, read fast."""
    kind = kind_of(source.value)
    assert isinstance(kind, Kind)
    found, problems = read_core(source.value, kind)
    name, namespace = name_of(source.value)
    violations = [_violation(problem) for problem in (*source.problems, *problems)]
    return Checked(source, Judgement(kind, found, violations), name, namespace)


def _violation(problem: Problem) -> Violation:
    return Violation(ERROR, problem.path, problem.message, problem.hint)


def _in_words(violation: Violation) -> str:
    return f"{violation.path} {violation.message}".strip()


def _take_out(world: World, key: Key) -> None:
    """The gang and all its pods, as if they had never been."""
    world.apply(world.groups[key], deleted=True)
    for facts in list(world.members.get(key, {}).values()):
        world.apply(facts.pod, deleted=True)


def _drain(world: World, name: str, notes: list[str], place: str) -> Iterator[Evict]:
    """The node is cordoned; its pods of ours wait again, those of others are gone."""
    node = world.nodes.get(name)
    if node is None:
        names = sorted(world.nodes)
        hint = Nearest(names).hint(name) or (f"there are: {', '.join(names[:5])}" if names else "there is none")
        raise UsageError(f"there is no node {name} in {place}", hint)
    world.apply(structs.replace(node, spec=structs.replace(node.spec, unschedulable=True)))
    strangers = 0
    for key, facts in list(world.pods.items()):
        if facts.pod.spec.node_name != name or facts.state is not State.PLACED:
            continue
        if facts.ours:
            world.apply(_waiting_again(facts.pod))
            yield Evict(*key, DRAIN)
        else:
            world.apply(facts.pod, deleted=True)
            strangers += 1
    if strangers:
        notes.append(f"{plural(strangers, 'pod')} of other schedulers on {name} left too; where to is theirs to say")


def _waiting_again(pod: Pod) -> Pod:
    status = structs.replace(pod.status, phase="", nominated_node_name="", start_time=None)
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=""), status=status)


def _about_shared(world: World, config: Config) -> Iterator[str]:
    """Queues with pods that ask for a shared GPU whose weight is not set: once for each."""
    weights = costs_of(config).gpus
    found: dict[str, str] = {}
    for facts in world.pods.values():
        shared = [resource for resource in facts.request if resource.endswith(".shared")]
        group = world.groups.get(facts.gang) if shared and facts.gang is not None else None
        if group is not None:
            for resource in shared:
                if weights.entry_of(resource) == SHARED:
                    found.setdefault(group.spec.queue or config.default_queue, resource)
    for queue, resource in sorted(found.items())[:_MOST_PROBLEMS]:
        why = "how many pods share one is not in its name"
        yield f"queue {queue}: {resource} counts as a whole GPU each, because {why}: set a weight in queues.gpuWeights"


def _remarks(world: World, place: str) -> Iterator[str]:
    """What a plan of this world leaves out, and what looks like a mistake."""
    if not world.nodes:
        hint = "; add what kubectl get nodes -o yaml prints" if place == INPUT else ""
        yield f"no nodes in {place}: nothing can be placed{hint}"
    unread = {name: resource for name, node in world.nodes.items() if (resource := unread_amount_of(node))}
    if unread:
        first = min(unread)
        rest = f" and {plural(len(unread) - 1, 'more node')}" if len(unread) > 1 else ""
        yield f"{unread[first]} of node {first}{rest} is no quantity: it counts as none"
    blind = [key for key, one in world.pods.items() if one.problem and one.pod.spec.node_name]
    if blind:
        yield f"{_named_pods(blind)} on a node with amounts that can't be read: what they hold is not counted"
    orphans = Counter(gang for gang in world.members if gang not in world.groups)
    for number, (namespace, name) in enumerate(sorted(orphans)):
        if number == 5:
            yield f"{len(orphans) - 5:,} more gangs are named by pods and not there"
            break
        pods = plural(len(world.members[namespace, name]), "pod")
        yield f"{pods} of PodGroup {namespace}/{name}, which is not in {place}: not planned"
    facts = world.pods.items()
    alone = [key for key, one in facts if one.ours and one.gang is None and one.state is State.WAITING]
    if alone:
        yield f"{_named_pods(alone)} without a gang: not planned; muster group says why"
    wishing = [key for key, one in facts if one.wishes and one.state is State.WAITING and one.gang is not None]
    if wishing:
        fields = sorted({one for key in wishing for one in world.pods[key].wishes})
        more = ", …" if len(fields) > 1 else ""
        yield f"{_named_pods(wishing)} with wishes about other pods, which change no placement: {fields[0]}{more}"
    lost = [key for key, one in facts if one.state is State.PLACED and _is_lost(one, world)]
    if lost:
        yield f"{_named_pods(lost)} on nodes that are not in {place}: not counted as placed"


def _is_lost(facts: PodFacts, world: World) -> bool:
    return facts.ours and facts.pod.spec.node_name not in world.nodes


def _named_pods(keys: Sequence[Key]) -> str:
    first = min(keys)
    return plural(len(keys), "pod") + (
        f" ({first[0]}/{first[1]})" if len(keys) == 1 else f" (first {first[0]}/{first[1]})"
    )
