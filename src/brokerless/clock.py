"""Times in milliseconds since the epoch, as Kafka counts them."""

from __future__ import annotations

import operator
import re
import time
from datetime import UTC, datetime, timedelta

from brokerless.errors import UsageError

HOUR_MS = 3_600_000
Time = int | datetime | str
"""Milliseconds since the epoch, a datetime with a time zone, or what :func:`parse_time` takes."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
TIME = "2024-05-01T12:00:00Z (UTC without a time zone), 2024-05-01, ms since the epoch, or -90m, -12h, -7d"
_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_RELATIVE = re.compile(r"-(\d{1,9})([smhdw])")
_MILLISECONDS = re.compile(r"-?\d{1,18}")
_EARLIEST_MILLISECONDS, _EARLIEST = 10**10, "1970-04-26T17:46:40Z"
"""A smaller number is rather a year, a month, or seconds (0 is the epoch); write so old a time as a date."""


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def milliseconds(at: Time | None) -> int | None:
    """Milliseconds since the epoch of a time. Raises :class:`UsageError` for a datetime without a time zone, a text
    that is no time, and for anything but these and a whole number."""
    if at is None:
        return None
    if isinstance(at, str):
        return parse_time(at, now())
    if not isinstance(at, datetime):
        try:
            return operator.index(at)
        except TypeError as error:
            text = f"is not a time; give a datetime with a time zone, or a text such as {TIME}"
            raise UsageError(f"{at!r} {text}") from error
    if at.tzinfo is None:
        text = "a time needs a time zone, such as datetime(2026, 1, 31, 12, tzinfo=timezone.utc)"
        raise UsageError(f"{at.isoformat()}: {text}")
    return epoch_ms(at)


def parse_time(text: str, now: int) -> int:
    """Milliseconds since the epoch of a text as :data:`TIME` has it; ``now``: those that relative times are before.
    Raises :class:`UsageError`."""
    relative = _RELATIVE.fullmatch(text)
    if relative:
        return now - int(relative[1]) * _UNITS[relative[2]]
    if _MILLISECONDS.fullmatch(text) and not re.fullmatch(r"\d{8}", text):  # 20240501 is a date
        if int(text) != 0 and int(text) < _EARLIEST_MILLISECONDS:
            date = f"{text}-01-01" if re.fullmatch(r"\d{4}", text) else "2026-01-01"
            raise UsageError(
                f"{text!r} as ms since the epoch is before {_EARLIEST}; write a date as {date}, a time as {TIME}"
            )
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a time; use one such as {TIME}") from None
    return epoch_ms(at if at.tzinfo else at.replace(tzinfo=UTC))


def epoch_ms(at: datetime) -> int:
    """Return the whole milliseconds since the epoch of a datetime with a time zone, rounded down."""
    return (at - _EPOCH) // _MILLISECOND
