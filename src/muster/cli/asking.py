"""What the page asks, answered by what `muster explain` and `muster plan --add` do: one rule for both.

Each question is taken in the event loop, where references to the objects of the world are copied, and answered in a
thread. The world of a scheduler that runs meanwhile is never touched.
"""

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from muster.api.documents import Limits
from muster.api.interface import ResourceInterface
from muster.api.kinds import Unknown, kind_of
from muster.api.tree import NONE
from muster.api.validation import ERROR
from muster.cli.cluster import CLUSTER, Loaded, come_too, run_before, run_cycle
from muster.cli.explain import document_with, explained, leaving_in
from muster.cli.files import Source, objects_in
from muster.cli.judging import Checked, plural
from muster.cli.plan import is_yes
from muster.cli.tables import change_in_words
from muster.config import Config
from muster.decisions.others import others
from muster.errors import UsageError
from muster.plan.outcome import Plan
from muster.serve.page.app import MAX_BODY_BYTES, Document, Work
from muster.serve.views.frame import gangs_of
from muster.serve.views.scene import Scene, scene_of
from muster.snapshot.arrays import Key
from muster.snapshot.world import DEFAULT_NAMESPACE, World

_NAME = "the manifest"
_LIMITS = Limits(max_file_bytes=MAX_BODY_BYTES, max_documents=10_000)
# Of so many gangs it is told why; each takes a search of its own.
_MOST_EXPLAINED, _MOST_OTHERS, _MOST_WRONG = 12, 50, 20


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
        self._place, self._home, self._interfaces, self._now_ns = place, home, interfaces, now_ns

    def explanation(self, gang: str, scene: Scene, *, now: bool) -> Work:
        """As `muster explain -o json`, about the plan of the scene, with the command that says the same. Of the past
        nobody knows the names of the pods that were leaving.
        """
        namespace, _, name = gang.partition("/")
        key = (namespace, name)
        group = self._world.groups.get(key) if now else None
        decision = group.status.decision if group is not None else ""
        leaving = leaving_in(self._world) if now else []
        command = self._replays or " ".join(filter(None, ("muster explain", shlex.quote(gang), self._flags)))

        def work() -> Document:
            found = explained(key, scene.plan, self._config, leaving)
            return {**document_with(found, scene.plan, decision), "command": command}

        return work

    def what_if(self, text: bytes) -> Work:
        """As `muster plan --add`: what would become of the gangs of a manifest, and of everybody else."""
        there, interfaces, now_ns = self._world.copy(), self._interfaces(), self._now_ns()

        def work() -> Document:
            coming = [_at_home(source, self._home) for source in objects_in(text, _LIMITS, _NAME)]
            _refuse_unreadable(coming)
            base = Loaded(self._config, there, place=self._place, home=self._home)
            return self._answer(come_too(base, coming, interfaces), now_ns)

        return work

    def _answer(self, loaded: Loaded, now_ns: int) -> Document:
        made, before = run_cycle(loaded, now_ns), run_before(loaded, now_ns)
        assert before is not None
        added = sorted(loaded.added & {gang.key for gang in made.snapshot.gangs})
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
                "/".join(key): document_with(explained(key, made, self._config), made, "")
                for key in added[:_MOST_EXPLAINED]
            },
            "notes": [*_notes(loaded, added)],
            "command": self._replays or " ".join(filter(None, ("muster plan", self._flags, "--add FILE"))),
        }


def _at_home(source: Source, namespace: str) -> Source:
    from muster.cli.live import at_home

    return at_home(source, namespace) if isinstance(source.value, dict) else source


def _refuse_unreadable(coming: Sequence[Source]) -> None:
    """Raises UsageError when there is nothing that could be looked at."""
    if all(source.value is None for source in coming):
        problem = coming[0].problems[0]
        raise UsageError(f"{_NAME} can't be read: {problem.path} {problem.message}".replace("  ", " "), problem.hint)


def _victims(made: Plan, before: Plan) -> Iterator[dict[str, Any]]:
    """Who goes because of what came; not those who would go anyway."""
    anyway = {tuple(one.values()) for one in _evictions(before)}
    yield from (one for one in _evictions(made) if tuple(one.values()) not in anyway)


def _evictions(plan: Plan) -> Iterator[dict[str, Any]]:
    snapshot = plan.snapshot
    for one in plan.evictions:
        gang = snapshot.gangs[one.gang]
        batch = gang.placed[one.leaf]
        yield {
            "gang": "/".join(gang.key),
            "pod": batch.pods[one.pod],
            "node": snapshot.nodes[batch.nodes[one.pod]],
            "action": one.action,
            "for": "/".join(snapshot.gangs[one.beneficiary].key) if one.beneficiary != NONE else None,
        }


def _notes(loaded: Loaded, added: Sequence[Key]) -> Iterator[str]:
    """What is wrong with the manifest, and what of it was passed over."""
    wrong = [text for one in loaded.wrong for text in _errors(one)]
    yield from wrong[:_MOST_WRONG]
    if len(wrong) > _MOST_WRONG:
        yield f"and {plural(len(wrong) - _MOST_WRONG, 'more error')}: muster validate says everything"
    yield from loaded.notes
    other = {one.kind for one in loaded.checked if isinstance(kind_of(one.source.value), Unknown)}
    kinds = other - {*loaded.owners, ""}
    if kinds:
        says = "a workload counts by its pods: add those too, where its controller is not one of Kubernetes' own"
        yield f"passed over: {', '.join(sorted(kinds))} ({says})"
    if not added:
        yield "no gang came with it: it takes a PodGroup with its pods, or a workload with its pods"
    elif len(added) > _MOST_EXPLAINED:
        yield f"explained are the first {_MOST_EXPLAINED} of {len(added):,} gangs"


def _errors(one: Checked) -> Iterator[str]:
    for violation in one.judgement.violations:
        if violation.severity == ERROR:
            hint = f" ({violation.hint})" if violation.hint else ""
            yield f"{one.title}: {violation.path} {violation.message}{hint}".replace(":  ", ": ")
