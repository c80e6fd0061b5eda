"""Local times become points in time as Java's do; tests/spark/test_sink.py compares with Spark's cast."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from brokerless.errors import UsageError
from brokerless.tables.local_times import in_zone


def column(*times: str | None) -> pa.Array:
    return pa.array([None if each is None else datetime.fromisoformat(each) for each in times], pa.timestamp("us"))


@pytest.mark.parametrize(
    ("zone", "local", "expected"),
    [
        ("America/New_York", "2024-03-10T01:59:59.999999", "2024-03-10T06:59:59.999999"),
        ("America/New_York", "2024-03-10T02:30", "2024-03-10T07:30"),  # skipped: 03:30 of the clock
        ("America/New_York", "2024-03-10T03:00", "2024-03-10T07:00"),
        ("America/New_York", "2024-11-03T01:30", "2024-11-03T05:30"),  # comes twice
        ("America/New_York", "2024-11-03T02:00", "2024-11-03T07:00"),
        ("America/New_York", "2061-07-01T00:00", "2061-07-01T04:00"),
        ("America/Sao_Paulo", "2018-11-04T00:00", "2018-11-04T03:00"),  # midnight is skipped
        ("Africa/Monrovia", "1972-01-07T00:44:45", "1972-01-07T00:44:45"),
        ("Africa/Monrovia", "1972-01-07T00:44:15", "1972-01-07T01:28:45"),
        ("Pacific/Apia", "2011-12-30T12:00", "2011-12-30T22:00"),  # a day is skipped
        ("+05:30", "2024-01-01T00:00", "2023-12-31T18:30"),
        ("UTC-3", "2024-01-01T00:00", "2024-01-01T03:00"),
        ("-01:02:03", "2024-01-01T00:00", "2024-01-01T01:02:03"),
        ("Z", "2024-01-01T00:00", "2024-01-01T00:00"),
    ],
)
def test_a_local_time_is_that_of_javas_rules(zone: str, local: str, expected: str) -> None:
    found = in_zone(column(local, None, local), zone)
    assert found.type == pa.timestamp("us", "UTC")
    utc = datetime.fromisoformat(expected).replace(tzinfo=UTC)
    assert found.to_pylist() == [utc, None, utc]


def test_years_beyond_9999_go_by_the_same_rules() -> None:
    summers = [(year - 1970) * 365 + (year - 1969) // 4 - (year - 1901) // 100 + (year - 1601) // 400 + 181
               for year in (2000, 10_400, 200_000)]  # fmt: skip
    found = in_zone(pa.array([day * 86_400_000_000 for day in summers], pa.timestamp("us")), "Europe/Berlin")
    assert found.view(pa.int64()).to_pylist() == [day * 86_400_000_000 - 7_200_000_000 for day in summers]
    assert in_zone(pa.array([-(1 << 62)], pa.timestamp("us")), "UTC").view(pa.int64()).to_pylist() == [-(1 << 62)]


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "", "PST"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match="cast it to timestamp"):
        in_zone(column("2024-01-01T00:00"), zone)
