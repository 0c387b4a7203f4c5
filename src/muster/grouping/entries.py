"""Where each entry of an interface stands: what is repeated above it, and what its conditions mean there."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from muster.grouping.language.expression import Binder
from muster.grouping.model import Condition, Entry, Question, Template
from muster.grouping.reader import Reader


@dataclass(frozen=True, eq=False, kw_only=True)
class Spot:
    """An entry and the entries above it, the outermost first.

    `repeats` are the variables of those that are repeated, this one's included. `chosen` are those that a `when` here
    or above asks for: then not every repetition is there. `depends` decide which pods it claims. Both also by way of
    the lists that variables come from.
    """

    entry: Entry
    above: tuple[Entry, ...]
    repeated: bool
    repeats: tuple[str, ...]
    chosen: frozenset[str]
    depends: frozenset[str]

    @property
    def chain(self) -> tuple[Entry, ...]:
        """From the outermost entry to this one."""
        return (*self.above, self.entry)

    @property
    def known(self) -> bool:
        """Whether its conditions could be read."""
        return all(one.question is None or one.question.expressions for one in self.entry.conditions or ())

    def is_beside(self, other: "Spot") -> bool:
        """Whether the two are there at the same time: one of them always, or both under the same conditions."""
        common = _common(self, other)
        mine, theirs = _circumstances(self.chain[common:]), _circumstances(other.chain[common:])
        return not mine or not theirs or mine == theirs

    def is_told_beside(self, other: "Spot") -> bool:
        """Whether validation has told of their names already: it compares the texts of one list."""
        if len(self.above) != len(other.above) or _common(self, other) < len(self.above):
            return False
        texts = [one.name.expressions[0].text if one.name.expressions else one.name.literal for one in self._and(other)]
        return texts[0] == texts[1] and not any(one.foreach for one in self._and(other))

    def _and(self, other: "Spot") -> tuple[Entry, Entry]:
        return self.entry, other.entry


class Sources(dict[str, frozenset[str]]):
    """For the variable of each repeated entry: itself, and all variables that its list is found with."""

    def behind(self, names: Iterable[str]) -> frozenset[str]:
        """The variables, and all that they come from."""
        return frozenset().union(*(self.get(name, frozenset({name})) for name in names))

    def inner(self, binder: Binder) -> "Sources":
        """The same with one more variable."""
        return Sources({**self, binder.name: self.behind(binder.expression.variables) | {binder.name}})


class _Above(NamedTuple):
    """What the entries above an entry say to it."""

    entries: tuple[Entry, ...] = ()
    repeats: tuple[str, ...] = ()
    chosen: frozenset[str] = frozenset()
    sources: Sources = Sources()


def spots(entries: Sequence[Entry], reader: Reader) -> Iterator[Spot]:
    """All entries, in document order."""
    waiting = [(one, _Above()) for one in reversed(entries)]
    while waiting:
        entry, above = waiting.pop()
        here, repeated, binder = above, False, entry.foreach
        if binder is not None:
            repeated = reader.repeats(binder.expression)
            here = above._replace(
                sources=above.sources.inner(binder),
                repeats=(*above.repeats, binder.name) if repeated else above.repeats,
            )
        if entry.when is not None:
            here = here._replace(chosen=here.chosen | here.sources.behind(variables_of(entry.when)))
        asked = (one.question for one in entry.conditions or () if one.question is not None)
        yield Spot(
            entry=entry,
            above=above.entries,
            repeated=repeated,
            repeats=here.repeats,
            chosen=here.chosen,
            depends=here.sources.behind({name for question in asked for name in variables_of(question)}),
        )
        here = here._replace(entries=(*above.entries, entry))
        waiting.extend((child, here) for child in reversed(entry.children))


def variables_of(question: Question) -> frozenset[str]:
    """All variables that it may need."""
    return frozenset(name for expression in question.expressions for name in expression.variables)


def _common(one: Spot, other: Spot) -> int:
    """How many of the entries above are the same."""
    least = min(len(one.above), len(other.above))
    return next((at for at in range(least) if one.above[at] is not other.above[at]), least)


def _circumstances(entries: Sequence[Entry]) -> list[str]:
    """The conditions under which the last of these entries is there, as they are written."""
    whens = [one.when.expressions[0].text for one in entries if one.when is not None and one.when.expressions]
    return whens + [one.foreach.expression.text for one in entries if one.foreach is not None]


class Meanings:
    """Numbers for what conditions mean: two with one number mean the same, wherever they stand."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        # By the entry that binds it: what a variable means is found once.
        self._of_binder: dict[int, int] = {}

    def of_template(self, template: Template) -> frozenset[int] | None:
        """What must hold for its pods; None when that could not be read."""
        questions = [one.question for one in template.conditions or ()]
        if any(one is not None and not one.expressions for one in (template.when, *questions)):
            return None
        found = {self._of_condition(one, ()) for one in template.conditions or ()}
        if template.when is not None:
            found.add(self._number(("when", self._of_question(template.when, ()))))
        return frozenset(found)

    def of_values(self, condition: Condition, spot: Spot) -> int | None:
        """What the values of a condition are, when only the workload tells."""
        return None if condition.question is None else self._of_question(condition.question, spot.chain)

    def leaves_nothing(self, first: Spot, second: Spot) -> bool:
        """Whether the first leaf is there whenever the second is, and claims all its pods."""
        common = _common(first, second)
        mine, theirs = (self._presence(one.chain, common) for one in (first, second))
        if not mine <= theirs:
            return False
        wide = {self._of_condition(one, first.chain) for one in first.entry.conditions or ()}
        narrow = {self._of_condition(one, second.chain) for one in second.entry.conditions or ()}
        return wide <= narrow

    def _presence(self, chain: tuple[Entry, ...], common: int) -> set[int]:
        found = set()
        for at, entry in enumerate(chain[common:], common):
            if entry.when is not None:
                found.add(self._number(("when", self._of_question(entry.when, chain[: at + 1]))))
            if entry.foreach is not None:
                found.add(self._number(("foreach", self._of_variable(entry.foreach.name, chain[: at + 1]))))
        return found

    def _number(self, meaning: Hashable) -> int:
        return self._numbers.setdefault(meaning, len(self._numbers))

    def _of_condition(self, condition: Condition, chain: tuple[Entry, ...]) -> int:
        values: Hashable = frozenset(condition.values)
        if condition.question is not None:
            values = self._of_question(condition.question, chain)
        return self._number((condition.key, condition.operator, values))

    def _of_question(self, question: Question, chain: tuple[Entry, ...]) -> int:
        texts = tuple(expression.text for expression in question.expressions)
        names = sorted(variables_of(question))
        return self._number((texts, tuple(self._of_variable(name, chain) for name in names)))

    def _of_variable(self, name: str, chain: tuple[Entry, ...]) -> int:
        """A variable means what its list means; one that no entry binds is the same everywhere."""
        for at in range(len(chain) - 1, -1, -1):
            binder = chain[at].foreach
            if binder is not None and binder.name == name:
                bound = id(chain[at])
                if bound not in self._of_binder:
                    names = sorted(binder.expression.variables)
                    sources = tuple(self._of_variable(one, chain[:at]) for one in names)
                    self._of_binder[bound] = self._number((binder.expression.text, sources))
                return self._of_binder[bound]
        return self._number(name)
