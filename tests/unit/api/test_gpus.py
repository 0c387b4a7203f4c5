"""What one unit of a resource costs of a queue's gpu."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.gpus import MIG_PROFILE, GpuWeight, GpuWeights, QueuesConfig, check_weights
from muster.api.queue import GPU_PARTS
from muster.errors import UsageError

RTX = GpuWeight(resource="nvidia.com/mig-1g.24gb", weight="1/4")


@pytest.mark.parametrize(
    ("resource", "gpus"),
    [
        ("nvidia.com/gpu", 1),
        ("amd.com/gpu", 1),
        ("nvidia.com/mig-1g.10gb", Fraction(1, 7)),
        ("nvidia.com/mig-1g.5gb.me", Fraction(1, 7)),
        ("nvidia.com/mig-2g.20gb", Fraction(2, 7)),
        ("nvidia.com/mig-3g.40gb", Fraction(3, 7)),
        ("nvidia.com/mig-3g.40gb.shared", Fraction(3, 7)),
        ("nvidia.com/mig-7g.80gb", 1),
        ("nvidia.com/mig-1c.3g.40gb", Fraction(1, 7)),
        ("nvidia.com/mig-of-tomorrow", 1),
        ("nvidia.com/gpu.shared", 1),
        ("nvidia.com/gpumem", 0),
        ("x.com/fpga", 0),
        ("gpu", 0),
        ("cpu", 0),
    ],
)
def test_the_usual_table(resource, gpus):
    """Slices by the number in their name; what is shared, and a slice that can't be read, as a whole GPU."""
    assert GpuWeights().parts_of(resource) == gpus * GPU_PARTS


def test_seven_slices_are_exactly_one_gpu():
    assert 7 * GpuWeights().parts_of("nvidia.com/mig-1g.10gb") == GPU_PARTS


@pytest.mark.parametrize(
    ("weight", "parts"),
    [
        pytest.param(1, 20160, id="a whole number"),
        pytest.param(0, 0, id="nothing"),
        pytest.param(0.25, 5040, id="a decimal"),
        pytest.param("1/4", 5040, id="a fraction"),
        pytest.param("0.5/7", 1440, id="a fraction of a decimal"),
        pytest.param("1/11", 1833, id="rounded up"),
        pytest.param("1/64", 315, id="64ths are exact"),
    ],
)
def test_a_weight_is_exact(weight, parts):
    assert GpuWeights((GpuWeight(resource="x.com/y", weight=weight),)).parts_of("x.com/y") == parts


def test_the_first_entry_that_matches_wins():
    """The rest of the table is for what it does not name."""
    table = GpuWeights((RTX, *GpuWeights().table))
    assert table.parts_of("nvidia.com/mig-1g.24gb") == GPU_PARTS // 4
    assert table.parts_of("nvidia.com/mig-1g.10gb") == GPU_PARTS // 7
    whole = GpuWeights((GpuWeight(resource="nvidia.com/mig-*", by=MIG_PROFILE, slices=1),))
    assert whole.parts_of("nvidia.com/mig-3g.40gb") == 3 * GPU_PARTS


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        pytest.param(GpuWeight(resource="a.com/b"), "says neither weight nor by; write weight: 1", id="nothing said"),
        pytest.param(GpuWeight(resource="a.com/b", weight=1, by=MIG_PROFILE), "says weight and by", id="both"),
        pytest.param(GpuWeight(resource="a.com/b", weight="much"), "weight 'much' is not understood", id="no number"),
        pytest.param(GpuWeight(resource="a.com/b", weight=-1), "weight -1 is not understood", id="below zero"),
        pytest.param(GpuWeight(resource="a.com/b", weight="1/0"), "weight '1/0' is not understood", id="by nothing"),
        pytest.param(GpuWeight(resource="a.com/b", weight=10**6), "at most 1,000", id="too much"),
        pytest.param(GpuWeight(resource="a.com/b", weight=float("nan")), "is not understood", id="nan"),
        pytest.param(GpuWeight(resource="a.com/b", weight=1, slices=7), "slices counts only beside by", id="slices"),
        pytest.param(GpuWeight(resource="gpu?", weight=1), "is no name of a resource", id="no name"),
    ],
)
def test_an_entry_that_can_not_be_used_is_named(entry, said):
    with pytest.raises(UsageError) as error:
        check_weights([RTX, entry])
    assert "queues.gpuWeights[1]: " in error.value.message
    assert said in error.value.message


def test_the_usual_table_is_right():
    check_weights(QueuesConfig().gpu_weights)


@given(st.text("ab*", max_size=8), st.text("ab", max_size=12))
def test_a_star_stands_for_anything(pattern, name):
    """As by trying every place of every star."""

    def matches(pattern, name):
        if not pattern:
            return not name
        if pattern[0] == "*":
            return any(matches(pattern[1:], name[at:]) for at in range(len(name) + 1))
        return name[:1] == pattern[0] and matches(pattern[1:], name[1:])

    table = GpuWeights((GpuWeight(resource=pattern, weight=1),))
    assert bool(table.parts_of(name)) == matches(pattern, name)
