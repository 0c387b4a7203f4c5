"""What the page asks, answered by what `muster explain` and `muster plan --add` do: one rule for both.

Each question is taken in the event loop, where references to the objects of the world are copied, and answered in a
thread. The world of a scheduler that runs meanwhile is never touched.
"""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from muster.api.documents import Limits
from muster.api.interface import ResourceInterface
from muster.api.kinds import POD_GROUP, Kind, Unknown, kind_of
from muster.api.validation import ERROR
from muster.cli.cluster import CLUSTER, Loaded, come_too, run_before, run_cycle
from muster.cli.explain import document_with, explained, for_cluster, leaving_in
from muster.cli.files import Source, objects_in
from muster.cli.judging import Checked, plural
from muster.cli.making import can_have_pods
from muster.cli.plan import is_yes
from muster.cli.tables import change_in_words
from muster.config import Config
from muster.decisions.losses import evictions_of, losses
from muster.decisions.others import others
from muster.errors import UsageError
from muster.plan.outcome import Plan
from muster.serve.page.app import MAX_BODY_BYTES, Work
from muster.serve.views.frame import gangs_of
from muster.serve.views.gangs import Document
from muster.serve.views.scene import Scene, scene_of
from muster.snapshot.arrays import Key
from muster.snapshot.draining import EVERYTHING_GOES, draining_of
from muster.snapshot.world import DEFAULT_NAMESPACE, World

_NAME = "the manifest"
_LIMITS = Limits(max_file_bytes=MAX_BODY_BYTES, max_documents=10_000)
# Of so many gangs it is told why; each takes a search of its own.
_MOST_EXPLAINED, _MOST_OTHERS, _MOST_WRONG = 12, 50, 20
# So many may come at once: each takes a search, and others wait.
_MOST_ADDED = 200


class Asking:
    """Answers about a world. `flags` name it on a command line; `home` is the namespace of what names none;
    `interfaces` are those of users that are there. `replays` is the command for a cluster that no flags can name.
    """

    def __init__(
        self,
        config: Config,
        world: World,
        *,
        flags: str = "",
        place: str = CLUSTER,
        home: str = DEFAULT_NAMESPACE,
        interfaces: Callable[[], Sequence[ResourceInterface]] = lambda: (),
        now_ns: Callable[[], int] = time.time_ns,
        replays: str = "",
    ) -> None:
        self._config, self._world, self._flags, self._replays = config, world, flags, replays
        self._place, self._interfaces, self._now_ns = place, interfaces, now_ns
        # What an example of a manifest should say, to be somebody's and ours.
        self.home, self.scheduler = home, config.scheduler_names[0]

    def explanation(self, gang: str, scene: Scene, *, now: bool) -> Work:
        """As `muster explain -o json`, about the plan of the scene, with the command that says the same. Of the past
        nobody knows the names of the pods that were leaving.
        """
        namespace, _, name = gang.partition("/")
        key = (namespace, name)
        group = self._world.groups.get(key) if now else None
        decision = group.status.decision if group is not None else ""
        leaving = leaving_in(self._world) if now else []
        draining = draining_of(self._world) if now else EVERYTHING_GOES
        command = self._replays or " ".join(filter(None, ("muster explain", shlex.quote(gang), self._flags)))

        def work() -> Document:
            found = explained(key, scene.plan, self._config, leaving, draining, sent=bool(scene.decision))
            found = for_cluster(found, self._flags)
            return {**document_with(found, scene.plan, decision), "command": command}

        return work

    def what_if(self, text: bytes) -> Work:
        """As `muster plan --add`: what would become of the gangs of a manifest, and of everybody else."""
        there, interfaces, now_ns = self._world.copy(), self._interfaces(), self._now_ns()

        def work() -> Document:
            coming = [_at_home(source, self.home) for source in objects_in(text, _LIMITS, _NAME)]
            _refuse_unreadable(coming)
            base = Loaded(self._config, there, place=self._place, home=self.home)
            loaded = come_too(base, coming, interfaces)
            if len(loaded.added) > _MOST_ADDED:
                hint = f"ask about {_MOST_ADDED:,} at a time, or use muster plan --add FILE"
                raise UsageError(f"{_NAME} has {len(loaded.added):,} gangs", hint)
            found = self._answer(loaded, now_ns)
            return {**found, "touches": _touched(coming, found["gangs"], self._config.default_queue)}

        return work

    def _answer(self, loaded: Loaded, now_ns: int) -> Document:
        made, before = run_cycle(loaded, now_ns), run_before(loaded, now_ns)
        assert before is not None
        added, draining = sorted(loaded.added & {gang.key for gang in made.snapshot.gangs}), draining_of(loaded.world)
        gangs = gangs_of(scene_of(made, loaded.world), added)
        changes = list(others(before, made, loaded.added))
        more = len(changes) - _MOST_OTHERS
        return {
            "ok": bool(added) and is_yes(made, loaded),
            "gangs": gangs,
            "pods": [[gang, *pod] for gang, entry in gangs.items() for pod in entry["pods"]],
            "victims": list(_victims(made, before)),
            "others": [
                *map(change_in_words, changes[:_MOST_OTHERS]),
                *([f"and {plural(more, 'more gang')}"] if more > 0 else []),
            ],
            "explanations": {
                "/".join(key): document_with(explained(key, made, self._config, (), draining), made, "")
                for key in added[:_MOST_EXPLAINED]
            },
            "notes": [*_notes(loaded, added)],
            "command": self._replays or " ".join(filter(None, ("muster plan", self._flags, "--add FILE"))),
        }


def _at_home(source: Source, namespace: str) -> Source:
    from muster.cli.live import at_home

    return at_home(source, namespace) if isinstance(source.value, dict) else source


def _touched(coming: Sequence[Source], gangs: Mapping[str, Document], default_queue: str) -> Document:
    """What a manifest speaks of, as `seeing.Touched` has it."""
    namespaces, kinds = {key.partition("/")[0] for key in gangs}, set()
    queues = {gang["queue"] for gang in gangs.values()}
    for source in coming:
        if not isinstance(source.value, dict):
            continue
        kind = kind_of(source.value)
        metadata, spec = (
            one if isinstance(one := source.value.get(part), dict) else {} for part in ("metadata", "spec")
        )
        if isinstance(kind, Kind) and not kind.namespaced:
            kinds.add(kind.plural)
        elif isinstance(metadata.get("namespace"), str):
            namespaces.add(metadata["namespace"])
        if kind is POD_GROUP and isinstance(spec.get("queue"), str):
            queues.add(spec["queue"])
    return {"namespaces": namespaces, "queues": queues - {default_queue, ""}, "kinds": kinds}


def _refuse_unreadable(coming: Sequence[Source]) -> None:
    """Raises UsageError when there is nothing that could be looked at."""
    if all(source.value is None for source in coming):
        problem = coming[0].problems[0]
        raise UsageError(f"{_NAME} can't be read: {problem.path} {problem.message}".replace("  ", " "), problem.hint)


def _victims(made: Plan, before: Plan) -> Iterator[Document]:
    """Who goes because of what came; not those who would go anyway."""
    anyway = {str(one) for one in _evictions(before)}
    yield from (one for one in _evictions(made) if str(one) not in anyway)


def _evictions(plan: Plan) -> list[Document]:
    return [document for loss in losses(plan) for document in evictions_of(loss)]


def _notes(loaded: Loaded, added: Sequence[Key]) -> Iterator[str]:
    """What is wrong with the manifest, and what of it was passed over."""
    wrong = [text for one in loaded.wrong for text in _errors(one)]
    yield from wrong[:_MOST_WRONG]
    if len(wrong) > _MOST_WRONG:
        yield f"and {plural(len(wrong) - _MOST_WRONG, 'more error')}: muster validate says everything"
    yield from loaded.notes
    other = (one for one in loaded.checked if isinstance(kind_of(one.source.value), Unknown))
    yield from (f"{one.title}: Unknown: {one.message}" for one in loaded.unknown[:_MOST_WRONG])
    known = {*loaded.owners, *(one.kind for one in loaded.unknown), ""}
    kinds = {one.kind for one in other if not can_have_pods(one.source.value)} - known
    if kinds:
        says = "a workload counts by its pods: add those too, where its controller is not one of Kubernetes' own"
        yield f"passed over: {', '.join(sorted(kinds))} ({says})"
    if not added and not loaded.unknown:
        yield "no gang came with it: it takes a PodGroup with its pods, or a workload with its pods"
    elif len(added) > _MOST_EXPLAINED:
        yield f"explained are the first {_MOST_EXPLAINED} of {len(added):,} gangs"


def _errors(one: Checked) -> Iterator[str]:
    for violation in one.judgement.violations:
        if violation.severity == ERROR:
            hint = f" ({violation.hint})" if violation.hint else ""
            yield f"{one.title}: {violation.path} {violation.message}{hint}".replace(":  ", ": ")
