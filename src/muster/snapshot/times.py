"""Times of objects as whole nanoseconds since 1970."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def since_epoch_ns(time: datetime | None) -> int:
    """Nanoseconds since 1970; an object that does not say when it was made is as old as can be."""
    if time is None:
        return 0
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND * 1000
