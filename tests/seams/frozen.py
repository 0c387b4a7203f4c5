"""Digests of decisions: of plans and page documents of all scenarios, and of the traces of seeds.

A digest covers all but sentences for people, so that words may change and nothing else. A difference is a defect, or it
is meant: then `python -m seams freeze` records the new digests, and the commit says why they differ.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import Pool
from pathlib import Path
from typing import Any
from unittest import mock

from muster.decisions.plan import document_of
from muster.embedded.store import Change
from muster.plan.cycle import Policy, schedule
from muster.plan.memory import Memory
from muster.plan.outcome import Plan
from muster.serve.views.frame import Source, frame_of
from muster.serve.views.scene import scene_of
from muster.sim import play as playing
from muster.sim.drawing import story_of
from muster.sim.scenario import load
from muster.sim.trace import Trace
from scenarios.story import Story

SCENARIOS = Path(__file__).parents[1] / "scenarios"
RECORD = Path(__file__).with_name("frozen.json")
FIRST_SEED, SEEDS = 4_000_000, 200
# Keys of documents under which sentences stand.
_SENTENCES = frozenset({"message", "why", "note", "says"})
_HERE = Source("file", "frozen")


def bare(value: Any) -> Any:
    """A document without its sentences."""
    if isinstance(value, dict):
        return {key: bare(one) for key, one in value.items() if key not in _SENTENCES}
    if isinstance(value, list | tuple):
        return [bare(one) for one in value]
    return value


def digest(values: Iterator[Any]) -> str:
    """One hash over some documents."""
    found = hashlib.sha256()
    for value in values:
        found.update(json.dumps(bare(value), sort_keys=True, default=str).encode())
    return found.hexdigest()[:16]


def plans_of(path: Path) -> Iterator[tuple[Plan, Story]]:
    """The plans of a scenario: of its steps, and of a while after them, when everything that was decided happens."""
    story = Story(load(path))
    memory = Memory()
    for at in range(len(story.scenario.steps) + 4):
        if at < len(story.scenario.steps):
            story._happen(story.scenario.steps[at])
        else:
            story.now += 10
            story._carry_out()
            story._end()
        story.plan, memory = schedule(story._builder.build(story.now_ns), Policy(), memory)
        yield story.plan, story


def plan_digest(path: Path) -> str:
    """Of what `muster plan -o json` prints."""
    return digest(document_of(plan) for plan, _ in plans_of(path))


def page_digest(path: Path) -> str:
    """Of what the page shows."""

    def frames() -> Iterator[Any]:
        before = None
        for at, (plan, story) in enumerate(plans_of(path)):
            before = scene_of(plan, story._world, decision=f"d-{at}", flying=(), before=before)
            yield frame_of(before, _HERE)

    return digest(frames())


class _Bare(Trace):
    """A trace that also has a hash without sentences."""

    latest = ""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._bare = hashlib.sha256()

    def change(self, change: Change, who: str) -> None:
        super().change(change, who)
        self._bare.update(f"{self._now():.6f} {who} {change.type} ".encode())
        self._bare.update(json.dumps(bare(change.document), sort_keys=True, default=str).encode())
        _Bare.latest = self._bare.hexdigest()[:16]


def seed_digest(seed: int) -> str:
    """Of everything that was written while the story of a seed was played."""
    with mock.patch.object(playing, "Trace", _Bare):
        playing.play(story_of(seed))
    return _Bare.latest


def _named(job: tuple[str, Callable[[Any], str], Any]) -> tuple[str, str]:
    name, make, of = job
    return name, make(of)


def jobs(*, seeds: int = SEEDS) -> Iterator[tuple[str, Callable[[Any], str], Any]]:
    """Everything that is frozen: its name, and what makes its digest."""
    for path in sorted(SCENARIOS.glob("*.yaml")):
        yield f"plan/{path.stem}", plan_digest, path
        yield f"page/{path.stem}", page_digest, path
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        yield f"seed/{seed}", seed_digest, seed


def digests(*, seeds: int = SEEDS) -> dict[str, str]:
    """All digests as they are now."""
    with Pool(2) as pool:
        return dict(pool.imap_unordered(_named, jobs(seeds=seeds), chunksize=8))


def recorded() -> dict[str, str]:
    """All digests as they were recorded."""
    found: dict[str, str] = json.loads(RECORD.read_text())["digests"]
    return found


def freeze(commit: str) -> int:
    """Records what is so now; gives the number of digests."""
    found = digests()
    RECORD.write_text(json.dumps({"commit": commit, "digests": found}, indent=1, sort_keys=True) + "\n")
    return len(found)


def differences(now: Mapping[str, str], then: Mapping[str, str]) -> list[str]:
    """What is not as it was recorded. New scenarios are no difference, and gone ones are."""
    changed = [f"{name}: differs" for name in sorted(then.keys() & now.keys()) if then[name] != now[name]]
    return changed + [f"{name}: is gone" for name in sorted(then.keys() - now.keys())]
