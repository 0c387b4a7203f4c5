"""A plan as one page that needs no server: the map and the reasons, to attach to a ticket."""

from collections.abc import Iterator
from typing import Any

from muster.cli.asking import Asking
from muster.cli.files import write_text
from muster.cli.judging import plural
from muster.cli.render import tell
from muster.decisions.queues import stands_in_line
from muster.decisions.words import waits
from muster.errors import UsageError
from muster.plan.outcome import Plan
from muster.serve.page.frozen import frozen
from muster.serve.page.history import History
from muster.serve.views.frame import Notes, Source
from muster.serve.views.scene import scene_of
from muster.snapshot.world import World

# Each takes a search of its own.
_MOST_EXPLAINED = 60


def freeze(file: str, made: Plan, world: World, asking: Asking, command: str, notes: Notes) -> None:
    """The page of a plan, with an explanation of every gang that waits. Raises UsageError: it can't be written.

    `command` made the plan; `asking` explains its gangs; `notes` are about the files that were read.
    """
    if file == "-":
        raise UsageError("the page can't go to standard output", "name a file: --html page.html")
    scene = scene_of(made, world)
    history = History(Source("frozen", command), notes=notes)
    history.note(scene)
    version, names = history.version(), list(_explained_first(made))
    shown: dict[str, Any] = {
        "frame": history.frame(version),
        "timeline": history.timeline(),
        "explanations": {name: asking.explanation(name, scene, now=True)() for name in names[:_MOST_EXPLAINED]},
        "decisions": {str(version): history.decision(version)},
    }
    write_text(file, frozen(shown, title=command))
    tell(f"wrote {file}: open it in a browser")
    if len(names) > _MOST_EXPLAINED:
        told, more = plural(_MOST_EXPLAINED, "gang"), len(names) - _MOST_EXPLAINED
        tell(f"note: the page explains {told}, those that wait first, and not {more:,} more: muster explain does")


def _explained_first(made: Plan) -> Iterator[str]:
    """Who waits, then those whose surplus does, then everybody else."""
    pairs = zip(made.snapshot.gangs, made.outcomes, strict=True)
    ranked = [(not waits(outcome), not stands_in_line(outcome), "/".join(gang.key)) for gang, outcome in pairs]
    yield from (name for *_, name in sorted(ranked))
