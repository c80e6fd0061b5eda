"""Times in milliseconds since the epoch, as Kafka counts them."""

from __future__ import annotations

import operator
import os
import re
import time
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from datetime import time as clock_time
from pathlib import Path

from brokerless.errors import UsageError

HOUR_MS = 3_600_000
Time = int | datetime | str
"""Milliseconds since the epoch, a datetime with a time zone, or what :func:`parse_time` takes."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
TIME = "2024-05-01T12:00:00Z (UTC without a time zone), 2024-05-01, yesterday 14:00, ms since the epoch, or -90m, -7d"
_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_RELATIVE = re.compile(r"-(\d{1,9})([smhdw])")
_DAY = re.compile(r"(today|yesterday)(?:[ T](\d{1,2}):(\d{2})(?::(\d{2}))?)?")
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")
_LOCAL = Path("/etc/localtime")
_MILLISECONDS = re.compile(r"-?\d{1,18}")
_EARLIEST_MILLISECONDS, _EARLIEST = 10**10, "1970-04-26T17:46:40Z"
"""A smaller number is rather a year, a month, or seconds (0 is the epoch); write so old a time as a date."""


def now() -> int:
    """Return the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def milliseconds(at: Time | None) -> int | None:
    """Return the milliseconds since the epoch of a time. Raises :class:`UsageError` for a datetime without a time zone,
    a text that is no time, and for anything but these and a whole number."""
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


def time_zone(name: str) -> tzinfo:
    """Return a time zone by its name: ``Europe/Berlin``, ``+02:00``, ``UTC``, or ``local`` for that of this machine.
    Raises :class:`UsageError` for one that this machine does not know."""
    from zoneinfo import ZoneInfo

    known = "local" if name.lower() == "local" else name
    if known == "local":
        known = os.environ.get("TZ", "").lstrip(":") or str(_LOCAL.resolve()).rpartition("zoneinfo/")[2] or "UTC"
        known = "UTC" if known == str(_LOCAL) else known  # a file without a name, as in some images
    if known in ("UTC", "Z"):
        return UTC
    if offset := _OFFSET.fullmatch(known):
        minutes = int(offset[2]) * 60 + int(offset[3])
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=minutes if offset[1] == "+" else -minutes))
    try:
        return ZoneInfo(known)
    except (ValueError, OSError, KeyError):  # the last one where there is none of this name
        text = "is no time zone that is known here; use one such as Europe/Berlin, +02:00 or local"
        raise UsageError(f"{name!r} {text}") from None


def parse_time(text: str, now: int, zone: tzinfo = UTC) -> int:
    """Return the milliseconds since the epoch of a text as :data:`TIME` has it; ``now``: those that relative times are
    before. ``zone``: that of times which name none. Raises :class:`UsageError`."""
    day = _DAY.fullmatch(text)
    if day:
        date = datetime.fromtimestamp(now / 1000, zone).date() - timedelta(days=day[1] == "yesterday")
        hour, minute, second = (int(each or 0) for each in day.groups()[1:])
        try:
            return epoch_ms(datetime.combine(date, clock_time(hour, minute, second), zone))
        except ValueError:
            raise UsageError(f"{text!r} is not a time; use one such as {TIME}") from None
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
    return epoch_ms(at if at.tzinfo else at.replace(tzinfo=zone))


def in_zone(at_ms: int, zone: tzinfo, timespec: str = "milliseconds") -> str | None:
    """Return a time in ISO 8601 with its distance from UTC; None for one that Python has no value for."""
    try:
        return (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(zone).isoformat(timespec=timespec)
    except OverflowError:
        return None


def epoch_ms(at: datetime) -> int:
    """Return the whole milliseconds since the epoch of a datetime with a time zone, rounded down."""
    return (at - _EPOCH) // _MILLISECOND
