"""Chance comes from the seed alone, and each fault has its own."""

from muster.sim.faults import Weather
from muster.sim.story import Fault


def strokes(faults: list[Fault], seed: int = 7, passings: int = 200, at_s: float = 0.0) -> list[str]:
    """What happens at binds, one after the other."""
    weather = Weather(faults, seed, lambda: at_s)
    found = [weather.strikes("bind", 0, "pods") for _ in range(passings)]
    return [stroke.name if stroke else "" for stroke in found]


SOME = Fault(point="bind", does="lose", chance=0.2)
OTHER = Fault(point="evict", does="refuse", chance=0.5, code=500)


def test_the_same_seed_draws_the_same_and_another_seed_does_not() -> None:
    assert strokes([SOME]) == strokes([SOME])
    assert strokes([SOME]) != strokes([SOME], seed=8)
    assert 20 < strokes([SOME]).count("bind lose") < 60


def test_a_fault_that_is_left_out_changes_nothing_about_the_others() -> None:
    never = Fault(point="bind", does="late", chance=0.0)
    assert strokes([OTHER, never, SOME]) == strokes([SOME])
    assert strokes([SOME, SOME]) != strokes([SOME])


def test_the_nth_passing_is_the_one() -> None:
    third = Fault(point="bind", does="lose", nth=3, chance=0.0)
    assert strokes([third], passings=5) == ["", "", "bind lose", "", ""]


def test_a_fault_has_its_time_its_process_and_its_kind() -> None:
    assert "bind lose" not in strokes([Fault(point="bind", does="lose", since=10)], at_s=9.9)
    assert "bind lose" in strokes([Fault(point="bind", does="lose", since=10)], at_s=10)
    assert "bind lose" not in strokes([Fault(point="bind", does="lose", until=5)], at_s=5)
    assert "bind lose" not in strokes([Fault(point="bind", does="lose", process=1)])
    assert "bind lose" not in strokes([Fault(point="bind", does="lose", plural="nodes")])


def test_after_the_end_nothing_goes_wrong() -> None:
    weather = Weather([Fault(point="bind", does="lose")], 0, lambda: 0.0)
    assert weather.strikes("bind", 0, "pods")
    weather.end()
    assert weather.strikes("bind", 0, "pods") is None
