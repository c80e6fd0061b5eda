"""Times are milliseconds since the epoch; a datetime needs a time zone, a text is UTC if it does not say one."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokerless.clock import in_zone, milliseconds, now, parse_time, time_zone
from brokerless.errors import UsageError

EARLIEST = (datetime(1, 1, 2, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
LATEST = (datetime(9999, 12, 30, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)

NOW = 1_700_000_000_000


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


@pytest.mark.parametrize("at", ["2026-13-01", "1", 1.5, b"1"])
def test_what_is_no_time_is_refused(at: Any) -> None:
    with pytest.raises(UsageError, match=r"not a time|is before"):
        milliseconds(at)


def test_a_text_is_the_time_that_the_command_line_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: NOW * 1_000_000)
    assert [milliseconds(at) for at in ("2020-09-13T12:26:40", "-90m")] == [1_600_000_000_000, NOW - 5_400_000]


def test_now_is_in_whole_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_999_999)
    assert now() == 1_700_000_000_123


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2020-09-13T12:26:40Z", 1_600_000_000_000),
        ("2020-09-13T12:26:40.123", 1_600_000_000_123),
        ("2020-09-13 14:26:40+02:00", 1_600_000_000_000),
        ("2020-09-13", 1_599_955_200_000),
        ("20200913", 1_599_955_200_000),
        ("1600000000000", 1_600_000_000_000),
        ("10000000000", 10_000_000_000),
        ("-90s", NOW - 90_000),
        ("-90m", NOW - 5_400_000),
        ("-12h", NOW - 43_200_000),
        ("-7d", NOW - 604_800_000),
        ("-2w", NOW - 1_209_600_000),
        ("0001-01-01", -62_135_596_800_000),
        ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999),
    ],
)
def test_times_are_milliseconds_and_utc_if_nothing_else_is_said(text: str, milliseconds: int) -> None:
    assert parse_time(text, NOW) == milliseconds


@pytest.mark.parametrize("text", ["", "lately", "yesterday 25:00", "-1y", "12h", "2020-13-01", "9" * 30])
def test_what_is_no_time_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(UsageError, match="2024-05-01T12:00:00Z"):
        parse_time(text, NOW)


@pytest.mark.parametrize("text", ["2026", "202611", "-1", "1600000000", "9999999999"])
def test_a_small_number_may_be_meant_otherwise_and_is_refused_with_how_to_write_a_date(text: str) -> None:
    with pytest.raises(UsageError, match=r"1970-04-26.* 2026-01-01"):
        parse_time(text, NOW)


BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("yesterday 14:00", "UTC", "2023-11-13T14:00:00+00:00"),
        ("yesterday", "UTC", "2023-11-13T00:00:00+00:00"),
        ("today 07:05:09", BERLIN, "2023-11-14T07:05:09+01:00"),
        ("today 0:30", "+14:00", "2023-11-15T00:30:00+14:00"),  # where it is tomorrow already
        ("2023-07-01 12:00", BERLIN, "2023-07-01T12:00:00+02:00"),
        ("2023-12-01", BERLIN, "2023-12-01T00:00:00+01:00"),
        ("2023-12-01T00:00Z", BERLIN, "2023-12-01T01:00:00+01:00"),
        ("-1h", BERLIN, "2023-11-14T22:13:20+01:00"),
    ],
)
def test_a_time_that_names_no_zone_is_of_the_zone_that_was_chosen(text: str, zone: str, expected: str) -> None:
    at_ms = parse_time(text, NOW, time_zone(zone))
    assert in_zone(at_ms, time_zone(zone), "seconds") == expected
    assert datetime.fromisoformat(expected).timestamp() * 1000 == at_ms


def test_the_zone_of_this_machine_is_that_of_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    assert in_zone(0, time_zone("local"), "minutes") == "1970-01-01T05:30+05:30"


@pytest.mark.parametrize("name", ["Europe/Belrin", "", "../etc/passwd", "+25:00", "/etc/localtime"])
def test_a_zone_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no time zone"):
        time_zone(name)


def test_a_time_that_python_has_no_value_for_is_in_no_zone() -> None:
    assert in_zone(10**16, time_zone(BERLIN)) is None
