"""Times are milliseconds since the epoch; a datetime needs a time zone."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokerless.clock import milliseconds, now
from brokerless.errors import UsageError

EARLIEST = (datetime(1, 1, 2, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
LATEST = (datetime(9999, 12, 30, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


@given(st.integers(EARLIEST, LATEST), st.integers(-12, 12))
@example(137_438_953_471, 0)  # a float of seconds has none that is this time
@example(-1, 0)
def test_a_datetime_is_its_milliseconds_in_any_zone(at_ms: int, hours: int) -> None:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    assert milliseconds(at.astimezone(timezone(timedelta(hours=hours)))) == at_ms


def test_a_part_of_a_millisecond_counts_for_the_one_that_it_is_in() -> None:
    assert milliseconds(datetime(1970, 1, 1, 0, 0, 0, 1_999, tzinfo=UTC)) == 1
    assert milliseconds(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1


def test_numbers_and_none_do_not_change() -> None:
    assert [milliseconds(at) for at in (-1, 0, 1_700_000_000_000, None)] == [-1, 0, 1_700_000_000_000, None]


def test_a_datetime_without_a_time_zone_is_refused() -> None:
    with pytest.raises(UsageError, match="time zone"):
        milliseconds(datetime(2024, 1, 1))


@pytest.mark.parametrize("at", ["2026-12-01", 1.5, b"1"])
def test_what_is_no_time_is_refused(at: Any) -> None:
    with pytest.raises(UsageError, match="not a time"):
        milliseconds(at)


def test_now_is_in_whole_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_999_999)
    assert now() == 1_700_000_000_123
