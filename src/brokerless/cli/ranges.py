"""Offsets and times as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from brokerless.bounds import MAX_INT64
from brokerless.errors import UsageError

TIME = "2024-05-01T12:00:00Z (UTC without a time zone), 2024-05-01, ms since the epoch, or -90m, -12h, -7d"
_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RELATIVE = re.compile(r"-(\d{1,9})([smhdw])")
_MILLISECONDS = re.compile(r"-?\d{1,18}")
_EARLIEST_MILLISECONDS, _EARLIEST = 10**10, "1970-04-26T17:46:40Z"
"""A smaller number is rather a year, a month, or seconds (0 is the epoch); write so old a time as a date."""
_OFFSETS = re.compile(r"(\d{1,19})?(:(\d{1,19})?)?")


def parse_time(text: str, now: int) -> int:
    """Milliseconds since the epoch; ``now``, too, is what relative times are before. Raises :class:`UsageError`."""
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
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a time; use one such as {TIME}") from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(milliseconds=1)


def parse_offsets(text: str) -> tuple[int | None, int | None]:
    """``42`` -> from 42 on; ``42:50`` -> 42 to 49; ``:50`` -> before 50. Raises :class:`UsageError`."""
    match = _OFFSETS.fullmatch(text)
    if match is None or not text or text == ":":
        raise UsageError(
            f"{text!r} is not an offset; use the first one (42), a range (42:50, without 50), or an end (:50)"
        )
    start, end = (None if each is None else int(each) for each in (match[1], match[3]))
    if max(start or 0, end or 0) > MAX_INT64:
        raise UsageError(f"{text!r}: an offset is at most 2^63 - 1")
    if start is not None and end is not None and start > end:
        raise UsageError(f"{text!r}: the range ends before it starts; write the smaller offset first")
    return start, end
