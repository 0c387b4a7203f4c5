"""A plan as one page that needs no server: the map and the reasons, to attach to a ticket."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from muster.cli.cluster import Loaded
from muster.cli.explain import document_with, explained, leaving_in
from muster.cli.files import write_text
from muster.cli.judging import plural
from muster.cli.render import tell
from muster.plan.outcome import Plan, Verdict
from muster.serve.page.frozen import frozen
from muster.serve.page.history import History
from muster.serve.views.frame import Source
from muster.serve.views.scene import scene_of
from muster.snapshot.world import Key

# Each takes a search of its own.
_MOST_EXPLAINED = 60


def freeze(file: str, made: Plan, loaded: Loaded, command: str, explain: Callable[[str], str]) -> None:
    """The page of a plan, with an explanation of every gang that waits. Raises UsageError: it can't be written.

    `command` made the plan; `explain` is the one that explains a gang of this name.
    """
    history = History(Source("frozen", command))
    history.note(scene_of(made, loaded.world))
    version = history.version()
    keys = list(_explained_first(made))
    shown: dict[str, Any] = {
        "frame": history.frame(version),
        "timeline": history.timeline(),
        "explanations": dict(_explanations(keys[:_MOST_EXPLAINED], made, loaded, explain)),
        "decisions": {str(version): history.decision(version)},
    }
    write_text(file, frozen(shown, title=command))
    tell(f"wrote {file}: open it in a browser")
    if len(keys) > _MOST_EXPLAINED:
        told, more = plural(_MOST_EXPLAINED, "gang"), len(keys) - _MOST_EXPLAINED
        tell(f"note: the page explains {told}, those that wait first, and not {more:,} more: muster explain does")


def _explained_first(made: Plan) -> Iterator[Key]:
    """Who waits, then everybody else."""
    pairs = list(zip(made.snapshot.gangs, made.outcomes, strict=True))
    for waits in (True, False):
        yield from (gang.key for gang, outcome in pairs if (outcome.verdict is not Verdict.PLACED) is waits)


def _explanations(
    keys: Sequence[Key], made: Plan, loaded: Loaded, explain: Callable[[str], str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    leaving = leaving_in(loaded.world)
    for key in keys:
        name, status = "/".join(key), loaded.world.groups[key].status
        document = document_with(explained(key, made, loaded.config, leaving), made, status.decision)
        yield name, {**document, "command": explain(name)}
