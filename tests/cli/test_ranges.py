from __future__ import annotations

import pytest

from brokerless.cli.ranges import parse_offsets, parse_time
from brokerless.errors import UsageError

NOW = 1_700_000_000_000


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


@pytest.mark.parametrize("text", ["", "yesterday", "-1y", "12h", "2020-13-01", "9" * 30])
def test_what_is_no_time_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(UsageError, match="2024-05-01T12:00:00Z"):
        parse_time(text, NOW)


@pytest.mark.parametrize("text", ["2026", "202611", "-1", "1600000000", "9999999999"])
def test_a_small_number_may_be_meant_otherwise_and_is_refused_with_how_to_write_a_date(text: str) -> None:
    with pytest.raises(UsageError, match=r"1970-04-26.* 2026-01-01"):
        parse_time(text, NOW)


@pytest.mark.parametrize(
    ("text", "offsets"), [("42", (42, None)), ("42:50", (42, 50)), (":50", (None, 50)), ("42:", (42, None))]
)
def test_offsets_are_a_start_an_end_or_both(text: str, offsets: tuple[int | None, int | None]) -> None:
    assert parse_offsets(text) == offsets


@pytest.mark.parametrize("text", ["", ":", "-1", "x", "1:2:3", "9223372036854775808", "700:656"])
def test_what_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="offset"):
        parse_offsets(text)
