"""Choices of units that can be skipped without being looked at are only those that would not have been taken."""

from itertools import combinations
from random import Random

import pytest

from muster.plan.choices import hopeful, units_in


def test_a_choice_is_its_bits():
    assert units_in(0b1011, [7, 5, 3, 9]) == [7, 5, 9]


@pytest.mark.parametrize("seed", range(60))
def test_the_first_that_is_enough_is_the_same_with_and_without_looking_at_all(seed):
    """Whatever is allowed, and whatever it takes for enough: each unit gives something somewhere."""
    chance = Random(seed)  # noqa: S311
    numbers = list(range(chance.randint(1, 7)))
    choices = [list(some) for many in range(1, len(numbers) + 1) for some in combinations(numbers, many)]
    allowed = {tuple(some) for some in choices if chance.random() < 0.4}
    places = [{chance.randrange(4) for _ in range(chance.randint(1, 2))} for _ in numbers]
    needs = [set(chance.sample(range(4), chance.randint(1, 4))) for _ in range(chance.randint(1, 2))]

    def legal(some):
        return tuple(some) in allowed

    def gives(some):
        given = set().union(*(places[number] for number in some))
        return any(need <= given for need in needs)

    found = [some for some in hopeful(choices, numbers, legal, gives) if gives(some)]
    plain = [some for some in choices if legal(some) and gives(some)]
    assert found == plain


def test_what_everybody_needs_is_found_without_looking_at_every_choice():
    """Twelve units, of which nothing is enough without all of them: a dozen questions, not four thousand."""
    numbers = list(range(12))
    choices = [units_in(chosen, numbers) for chosen in range(1, 2**12)]
    asked = []

    def gives(some):
        asked.append(some)
        return len(some) == len(numbers)

    assert list(hopeful(choices, numbers, lambda _: True, gives)) == [numbers]
    assert len(asked) == 13
