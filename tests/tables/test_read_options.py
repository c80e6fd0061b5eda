"""ReadOptions: what is no option, and how many threads decode."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from brokerless.errors import UsageError
from brokerless.log.ranges import EVERYTHING, Range
from brokerless.ordered_threads import processors
from brokerless.schemas import RECORDS
from brokerless.tables.read_options import ReadOptions, range_of


def test_by_default_everything_is_read() -> None:
    options = ReadOptions()
    assert options.schema() == RECORDS
    assert options.range == EVERYTHING


def test_columns_come_in_the_order_of_the_request() -> None:
    assert ReadOptions(["value", "offset"]).schema().names == ["value", "offset"]


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("columns", ["offset", "ofset"], "ofset"),
        ("isolation", "committed", "isolation: 'committed' is neither 'read_uncommitted' nor 'read_committed'"),
        ("limit", -1, "limit: -1 is not a number of records"),
        ("jobs", 0, "jobs: 0 is not a number of threads"),
        ("jobs", "2", "jobs: '2' is not a number of threads"),
        ("filter", "x", r"no brokerless.RecordFilter; .* write filter=brokerless.RecordFilter\(where='x'\)"),
        ("filter", ["k"], "is no brokerless.RecordFilter, which has keys"),
    ],
)
def test_what_is_no_option_is_refused(option: str, value: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ReadOptions(**{option: value}).schema()


@pytest.mark.parametrize(
    ("size", "limit", "jobs", "threads"),
    [
        (1 << 20, None, None, 1),
        (1 << 30, None, None, processors()),
        (1 << 30, 10, None, 1),
        (1 << 30, 1_000_000, None, processors()),
        (1 << 10, None, 3, 3),
        (1 << 30, None, 1, 1),
    ],
)
def test_threads_decode_where_there_is_much_to_read(
    size: int, limit: int | None, jobs: int | None, threads: int
) -> None:
    assert ReadOptions(limit=limit, jobs=jobs).threads(size) == threads


def test_times_of_a_range_are_milliseconds() -> None:
    day = datetime(2026, 1, 2, tzinfo=UTC)
    assert range_of(1, None, day, 1_800_000_000_000) == Range(1, None, 1_767_312_000_000, 1_800_000_000_000)
