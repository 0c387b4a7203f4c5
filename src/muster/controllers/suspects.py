"""Which objects a cycle fails on: found by trials without some of them, in a bounded number of trials.

Most defects are met where one object is looked at, and that object is known at once. This is for all other places.
"""

from collections.abc import Callable, Collection, Generator, Sequence
from typing import TypeVar

from muster.snapshot.quarantine import (
    BUDGET,
    GANG,
    NODE,
    POD,
    QUEUE,
    REQUEST,
    TOPOLOGY,
    Quarantined,
    Thing,
    said_of,
)
from muster.snapshot.world import Key, PodFacts, World

# The most trials for one failure. When they are spent, what is still suspect is left out together.
MOST_TRIALS = 64


T = TypeVar("T")


def run_without_stumbling(world: World, run: Callable[[World], T]) -> T:
    """Runs something on a world; when it fails, without the objects on which it fails. They are left out from then on.

    Raises what it failed with when that is no object's fault.
    """
    try:
        return run(world)
    except Exception as defect:
        why = said_of(defect)

        def works(of: World) -> bool:
            try:
                run(of)
            except Exception:
                return False
            return True

        found = Search(world.copy(), works, why).run()
        if not found:
            raise
        for thing in found:
            world.leave_out(thing, Quarantined(why, searched=True))
        world.look_again()
        return run(world)


class Search:
    """Looks for the objects without which a cycle works. `works` runs one on the world that it is given, which is a
    copy: nothing else may change it. `first` are things that are suspected before all others.

    Take `steps` one by one, each is a trial; then `found` is what is to be left out. Nothing: it works as it is, or it
    is no object's fault.
    """

    def __init__(
        self,
        world: World,
        works: Callable[[World], bool],
        why: str,
        first: Collection[Thing] = (),
        most: int = MOST_TRIALS,
    ) -> None:
        self._world, self._works, self._left = world, works, most
        self._entry = Quarantined(why, searched=True)
        self._known = dict(world.quarantine)
        pods = world.pods_beside_gangs
        self._first = [thing for thing in first if thing.kind != POD or (thing.namespace, thing.name) in pods]
        # The pods that are hidden at the moment, and what is known of them.
        self._hidden: dict[Key, PodFacts] = {}
        self.found: set[Thing] = set()

    def steps(self) -> Generator[None, None, None]:
        """The trials."""
        if (yield from self._try(())):
            return
        groups = self._groups()
        for group in groups:
            if group and (yield from self._try(group)):
                yield from self._isolate(group)
                return
        every = [thing for group in groups[1:] for thing in group]
        if every and (yield from self._try(every)):
            yield from self._isolate(every)

    def run(self) -> set[Thing]:
        """All trials at once."""
        for _ in self.steps():
            pass
        return self.found

    def _groups(self) -> list[list[Thing]]:
        """Suspects of one sort each, the likeliest first."""
        world = self._world
        gangs = [Thing(GANG, *key) for key in sorted(world.groups)]
        found = [
            gangs,
            [Thing(POD, *key) for key in sorted(world.pods_beside_gangs)],
            [Thing(REQUEST, *key) for key in sorted(world.requests)],
            [Thing(QUEUE, "", name) for name in sorted(world.queues)],
            [Thing(BUDGET, *key) for key in sorted(world.budgets)],
            [Thing(TOPOLOGY, "", name) for name in sorted(world.topologies)],
            [Thing(NODE, "", name) for name in sorted(world.nodes)],
        ]
        return [sorted(self._first), *([thing for thing in group if thing not in self._known] for group in found)]

    def _try(self, more: Collection[Thing]) -> Generator[None, None, bool]:
        """Whether it works without these, and without what was found so far."""
        self._left -= 1
        self._world.quarantine = self._known | dict.fromkeys((*self.found, *more), self._entry)
        self._hide({(thing.namespace, thing.name) for thing in (*self.found, *more) if thing.kind == POD})
        self._world.queue_changes += 1
        self._world.look_again()
        works = self._works(self._world)
        yield
        return works

    def _hide(self, pods: set[Key]) -> None:
        """Nothing is used of these pods, and of no others."""
        for key in self._hidden.keys() - pods:
            self._world.show_pod(key, self._hidden.pop(key))
        for key in sorted(pods - self._hidden.keys()):
            self._hidden[key] = self._world.hide_pod(key, self._entry.why)

    def _isolate(self, things: Sequence[Thing]) -> Generator[None, None, None]:
        """Of things without which it works, those that it fails on; each halving is one or two trials."""
        open_parts: list[tuple[Sequence[Thing], Sequence[Thing]]] = [(things, ())]
        while open_parts:
            part, beside = open_parts.pop()
            # Beside those that are left out for the moment, and will be looked at later.
            if len(part) == 1 or self._left <= 0:
                self.found.update(part)
                continue
            one, other = part[: len(part) // 2], part[len(part) // 2 :]
            if (yield from self._try((*one, *beside))):
                open_parts.append((one, beside))
            elif (yield from self._try((*other, *beside))):
                open_parts.append((other, beside))
            else:
                open_parts += [(other, beside), (one, (*other, *beside))]
