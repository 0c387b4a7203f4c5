"""Tries every placement, one pod after the other, and nothing cleverer than not trying equal pods twice."""

from oracle.problem import UNMET, Member, Problem


def place(problem: Problem) -> dict[str, str] | None:
    """A placement of the goal's minimum, or None when there is none. For a handful of pods on a handful of nodes."""
    below = problem.leaves(problem.goal)
    waiting = [member for member in problem.waiting() if member.leaf in below]
    waiting.sort(key=lambda member: (member.same_as(), member.name))
    return _place(problem, waiting, 0, {})


def _place(problem: Problem, waiting: list[Member], at: int, placed: dict[str, str]) -> dict[str, str] | None:
    if problem.satisfied(problem.counted(placed), problem.goal):
        return dict(placed) if not problem.faults(placed) else None
    if at == len(waiting):
        return None
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
                found = _place(problem, waiting, at + 1, placed)
                if found is not None:
                    return found
            del placed[member.name]
    return _place(problem, waiting, at + 1, placed)


def _broken(problem: Problem, placed: dict[str, str]) -> bool:
    """Whether something is wrong that no further pod can mend."""
    return any(fault != UNMET for fault in problem.faults(placed))
