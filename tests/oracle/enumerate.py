"""Tries every placement, one pod after the other, and nothing cleverer than not trying equal pods twice."""

from collections.abc import Collection, Iterator

from oracle.problem import UNMET, Member, Problem


def place(problem: Problem) -> dict[str, str] | None:
    """A placement of the goal's minimum, or None when there is none. For a handful of pods on a handful of nodes."""
    return next(placements(problem), None)


def placements(problem: Problem) -> Iterator[dict[str, str]]:
    """Every placement of the goal's minimum that stops as soon as the minimum is met."""
    below = problem.leaves(problem.goal)
    return _placements(problem, _in_order(member for member in problem.waiting() if member.leaf in below), 0, {})


def all_of(problem: Problem, names: Collection[str]) -> Iterator[dict[str, str]]:
    """Every placement of exactly these pods, whether or not a minimum is met by it."""
    return _all_of(problem, _in_order(member for member in problem.waiting() if member.name in names), {})


def _in_order(members: Iterator[Member]) -> list[Member]:
    return sorted(members, key=lambda member: (member.same_as(), member.name))


def _placements(problem: Problem, waiting: list[Member], at: int, placed: dict[str, str]) -> Iterator[dict[str, str]]:
    if problem.satisfied(problem.counted(placed), problem.goal):
        if not problem.faults(placed):
            yield dict(placed)
        return
    if at == len(waiting):
        return
    member = waiting[at]
    twin = at > 0 and waiting[at - 1].same_as() == member.same_as()
    before = placed.get(waiting[at - 1].name, "") if twin else ""
    # Equal pods go to nodes in the order of names, and once one of them stays behind, so do the rest.
    if not (twin and waiting[at - 1].name not in placed):
        for name in sorted(problem.machines):
            if name < before or not problem.may_go(member, problem.machines[name]):
                continue
            placed[member.name] = name
            if not _broken(problem, placed):
                yield from _placements(problem, waiting, at + 1, placed)
            del placed[member.name]
    yield from _placements(problem, waiting, at + 1, placed)


def _all_of(problem: Problem, waiting: list[Member], placed: dict[str, str]) -> Iterator[dict[str, str]]:
    if len(placed) == len(waiting):
        yield dict(placed)
        return
    member = waiting[len(placed)]
    for name in sorted(problem.machines):
        if problem.may_go(member, problem.machines[name]):
            placed[member.name] = name
            if not _broken(problem, placed):
                yield from _all_of(problem, waiting, placed)
            del placed[member.name]


def _broken(problem: Problem, placed: dict[str, str]) -> bool:
    """Whether something is wrong that no further pod can mend."""
    return any(fault != UNMET for fault in problem.faults(placed))
