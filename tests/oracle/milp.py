"""The same question as a mixed-integer programme for HiGHS: how many pods of each kind go to each node."""

import highspy

from oracle.problem import Problem, Together


class Undecided(Exception):
    """The solver ran out of time."""


class _Model:
    """A thin layer over HiGHS: whole-number variables and linear conditions."""

    def __init__(self) -> None:
        self.solver = highspy.Highs()
        self.solver.setOptionValue("output_flag", False)
        self.solver.setOptionValue("threads", 1)
        self.solver.setOptionValue("random_seed", 1)

    def whole(self, most: int, least: int = 0) -> int:
        """A new variable between `least` and `most`."""
        column = self.solver.getNumCol()
        self.solver.addVar(least, most)
        self.solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        return column

    def between(self, least: float, terms: dict[int, float], most: float) -> None:
        """The weighted sum lies in between."""
        self.solver.addRow(least, most, len(terms), list(terms), list(terms.values()))

    def solve(self, seconds: float) -> list[float] | None:
        """The variables' values, None when there are none."""
        self.solver.setOptionValue("time_limit", seconds)
        self.solver.run()
        status = self.solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise Undecided(str(status))
        return list(self.solver.getSolution().col_value)


def place(problem: Problem, seconds: float = 60.0) -> dict[str, str] | None:
    """A placement of the goal's minimum, or None when there is none."""
    model = _Model()
    kinds: dict[tuple, list] = {}
    below = problem.leaves(problem.goal)
    for member in problem.waiting():
        if member.leaf in below:
            kinds.setdefault(member.same_as(), []).append(member)
    sent = {
        (kind, name): model.whole(len(twins))
        for kind, twins in kinds.items()
        for name, machine in problem.machines.items()
        if problem.may_go(twins[0], machine)
    }
    for kind, twins in kinds.items():
        model.between(0, {sent[kind, name]: 1 for name in problem.machines if (kind, name) in sent}, len(twins))
    for name, left in problem.free().items():
        for resource in {resource for twins in kinds.values() for resource in twins[0].ask}:
            terms = {
                sent[kind, name]: twins[0].ask[resource]
                for kind, twins in kinds.items()
                if (kind, name) in sent and twins[0].ask.get(resource)
            }
            if terms:
                # A node that is over-full already takes nothing more.
                model.between(0, terms, max(0, left.get(resource, 0)))
    _add_minimum(model, problem, kinds, sent)
    for together in problem.together:
        _add_together(model, problem, together, kinds, sent)
    values = model.solve(seconds)
    return None if values is None else _named(kinds, sent, values)


def _add_minimum(model: _Model, problem: Problem, kinds: dict, sent: dict) -> None:
    counted = problem.counted({})
    met = {name: model.whole(1, 1 if name == problem.goal else 0) for name in problem.minimum}
    for name, least in problem.minimum.items():
        below = problem.children.get(name, [])
        terms: dict[int, float] = {met[child]: 1 for child in below}
        if not below:
            terms = {column: 1 for (kind, _), column in sent.items() if kind[0] == name}
        terms[met[name]] = -(least - (0 if below else counted.get(name, 0)))
        model.between(0, terms, highspy.kHighsInf)
    if problem.floor and not problem.goal:
        missing = problem.floor - sum(counted.values())
        model.between(missing, dict.fromkeys(sent.values(), 1), highspy.kHighsInf)


def _add_together(model: _Model, problem: Problem, together: Together, kinds: dict, sent: dict) -> None:
    """One domain is chosen, and only its nodes get pods of these leaves; placed pods have chosen already."""
    domain_of = {name: problem.domain(together, machine) for name, machine in problem.machines.items()}
    domains = {domain for domain in domain_of.values() if domain is not None}
    placed = {
        domain_of[member.node]
        for member in problem.members
        if member.leaf in together.leaves and member.node in problem.machines and not member.succeeded
    }
    open_domains = domains if not placed else (placed & domains if len(placed) == 1 else set())
    chosen = {domain: model.whole(1) for domain in open_domains}
    model.between(0, dict.fromkeys(chosen.values(), 1), 1)
    for (kind, name), column in sent.items():
        if kind[0] in together.leaves:
            terms: dict[int, float] = {column: 1}
            if domain_of[name] in chosen:
                terms[chosen[domain_of[name]]] = -len(kinds[kind])
            model.between(-highspy.kHighsInf, terms, 0)


def _named(kinds: dict, sent: dict, values: list[float]) -> dict[str, str]:
    placed = {}
    for kind, twins in kinds.items():
        names = [name for (other, name), column in sent.items() if other == kind for _ in range(round(values[column]))]
        placed.update({member.name: name for member, name in zip(twins, names, strict=False)})
    return placed
