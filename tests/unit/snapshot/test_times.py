"""Times of objects become numbers that no sum or difference of two of them makes too large."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from muster.snapshot.times import LATEST_NS, since_epoch_ns

_FAR_EAST = timezone(timedelta(hours=14))


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        pytest.param(None, 0, id="not stated"),
        pytest.param(datetime(2026, 1, 31, tzinfo=UTC), 1769817600 * 10**9, id="now"),
        pytest.param(datetime(2026, 1, 31), 1769817600 * 10**9, id="without a zone"),
        pytest.param(datetime(1, 1, 1, tzinfo=UTC), 1, id="the first of all"),
        pytest.param(datetime(1, 1, 1, tzinfo=_FAR_EAST), 1, id="before the first of all"),
        pytest.param(datetime(1969, 12, 31, tzinfo=UTC), 1, id="before 1970"),
        pytest.param(datetime(1970, 1, 1, tzinfo=UTC), 1, id="1970 is stated"),
        pytest.param(datetime(2300, 1, 1, tzinfo=UTC), LATEST_NS, id="after 2262"),
        pytest.param(datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(-timedelta(hours=14))), LATEST_NS, id="last"),
    ],
)
def test_a_time_is_cut_off(time, expected):
    assert since_epoch_ns(time) == expected


def test_two_times_add_up_within_64_bits():
    assert 2 * LATEST_NS < 2**63 + 1
    assert LATEST_NS - 1 < 2**63
