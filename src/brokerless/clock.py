"""Times in milliseconds since the epoch, as Kafka counts them."""

from __future__ import annotations

import operator
import time
from datetime import UTC, datetime, timedelta

from brokerless.errors import UsageError

HOUR_MS = 3_600_000
Time = int | datetime
"""Milliseconds since the epoch, or a datetime with a time zone."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def milliseconds(at: Time | None) -> int | None:
    """Milliseconds since the epoch of a time. Raises :class:`UsageError` for a datetime without a time zone, and for
    anything but a datetime and a whole number."""
    if at is None:
        return None
    if not isinstance(at, datetime):
        try:
            return operator.index(at)
        except TypeError as error:
            text = "is not a time; give milliseconds since the epoch, or a datetime with a time zone"
            raise UsageError(f"{at!r} {text}") from error
    if at.tzinfo is None:
        text = "a time needs a time zone, such as datetime(2026, 1, 31, 12, tzinfo=timezone.utc)"
        raise UsageError(f"{at.isoformat()}: {text}")
    return epoch_ms(at)


def epoch_ms(at: datetime) -> int:
    """Return the whole milliseconds since the epoch of a datetime with a time zone, rounded down."""
    return (at - _EPOCH) // _MILLISECOND
