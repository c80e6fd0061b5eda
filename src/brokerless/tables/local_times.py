"""Converts local times to points in time, as Java and Spark's cast do: where a clock is set forward, a time that it
skips is moved on by as much; where it is set back, a time that comes twice is the first one."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.arrow import Column
from brokerless.errors import UsageError

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{1,2}))?(?::?([0-9]{2}))?")
_SECOND, _DAY = 1_000_000, 86_400_000_000
_CYCLE = 146_097
"""Days of 400 years, after which dates fall on the same days of the week: rules of clocks repeat."""
_FIRST, _LAST = date(1, 1, 2).toordinal(), date(9998, 12, 31).toordinal()
_EPOCH = date(1970, 1, 1).toordinal()


def in_zone(column: Column, zone: str) -> Column:
    """Return timestamps in microseconds without a time zone, as those of a zone. Raises :class:`UsageError` for an
    unknown zone."""
    own, local = _zone(zone), arrow.numbers(column.view(pa.int64()), np.int64)
    valid = arrow.is_valid(column)
    days, seconds = np.where(valid, local, 0) // _DAY, np.where(valid, local, 0) // _SECOND
    offsets = np.zeros(len(local), np.int64)
    for day in np.unique(days):
        rows = days == day
        first, last = (_offset(own, int(each), 0) for each in (day, day + 1))
        if first == last:
            offsets[rows] = first
            continue
        for second in np.unique(seconds[rows]):
            offsets[seconds == second] = _offset(own, int(day), int(second) % 86_400)
    return arrow.column_of_numbers(pa.timestamp("us", "UTC"), local - offsets, _null(valid))


def _null(valid: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    return None if valid.all() else ~valid


def _offset(zone: tzinfo, day: int, second: int) -> int:
    """The microseconds that a zone's clock is ahead of UTC at a local time. ``day``: since 1970."""
    ordinal = day + _EPOCH
    if ordinal > _LAST:
        ordinal -= -(-(ordinal - _LAST) // _CYCLE) * _CYCLE
    at = datetime.combine(date.fromordinal(max(ordinal, _FIRST)), time(), zone) + timedelta(seconds=second)
    found: Any = zone.utcoffset(at)
    return found // timedelta(microseconds=1)


def _zone(name: str) -> tzinfo:
    if name in ("Z", "UTC", "GMT", "UT"):
        return timezone.utc  # noqa: UP017 - the others are of this class
    if (match := _OFFSET.fullmatch(name)) is not None:
        hours, minutes, seconds = (int(each or 0) for each in match.groups()[1:])
        ahead = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-ahead if match[1] == "-" else ahead)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        text = "is no time zone that is known here, and a timestamp_ntz needs one; cast it to timestamp"
        raise UsageError(f"{name!r} {text}") from error
