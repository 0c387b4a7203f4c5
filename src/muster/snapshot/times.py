"""Times of objects as whole nanoseconds since 1970."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


# Times are cut off there, in 2116: differences and sums of two of them stay within 64 bits.
LATEST_NS = 2**62


def since_epoch_ns(time: datetime | None) -> int:
    """Nanoseconds since 1970, of a time that an object states: the one way from a time to a number.

    Whatever the object says, the number lies in 1 to LATEST_NS. It is 0 when the object says nothing: such an object is
    as old as can be, and a clock without a beginning does not run.
    """
    if time is None:
        return 0
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return min(max((aware - _EPOCH) // _MICROSECOND * 1000, 1), LATEST_NS)
