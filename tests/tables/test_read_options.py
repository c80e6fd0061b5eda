"""ReadOptions: what is no option, and how many threads decode."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
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
        ("columns", "offset", "columns: 'offset' is no list of names"),
        ("columns", 5, "columns: 5 is no list of names"),
        ("limit", "3", "limit: '3' is not a whole number"),
        ("limit", 3.0, "limit: 3.0 is not a whole number"),
        ("max_batch_bytes", "1GB", "max_batch_bytes: '1GB' is not a whole number"),
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


@pytest.mark.parametrize(("name", "value"), [("start_offset", "5"), ("end_offset", 5.5), ("end_offset", b"5")])
def test_an_offset_is_a_whole_number(name: str, value: Any) -> None:
    given: dict[str, Any] = {"start_offset": None, "end_offset": None, name: value}
    with pytest.raises(UsageError, match=f"{name}: {value!r} is not a whole number"):
        range_of(given["start_offset"], given["end_offset"], None, None)


def test_numbers_of_numpy_are_whole_numbers() -> None:
    assert range_of(np.int64(5), np.uint16(7), None, None) == Range(5, 7)
    assert ReadOptions(limit=np.int32(3)).schema() == RECORDS  # type: ignore[arg-type]
