from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.views.rows import batch_of, record

from brokerless import schemas
from brokerless.views.records.tail import tail

BATCHES = [(0, 4), (5, 9), (10, 10), (20, 29)]
"""First and last offsets; 11 to 19 were compacted away."""


def headers(counts: list[int | None]) -> list[pa.RecordBatch]:
    schema = pa.schema([schemas.BATCHES.field("lastOffset"), schemas.BATCHES.field("count")])
    lasts = [last for _, last in BATCHES]
    return [pa.RecordBatch.from_pydict({"lastOffset": lasts, "count": counts}, schema=schema)]


def last_offsets(count: int, counts: list[int | None], keep: int = 1) -> tuple[list[int], list[int | None]]:
    """The offsets that the tail has when only every ``keep``-th is given, and from where it was read."""
    asked: list[int | None] = []

    def read(start: int | None) -> Iterator[pa.RecordBatch]:
        asked.append(start)
        for first, last in BATCHES:
            rows = [record(offset=offset) for offset in range(first, last + 1) if offset % keep == 0]
            rows = [row for row in rows if row["offset"] >= (start or 0)]
            if rows:
                yield batch_of(rows, ["offset"])

    batches = list(tail(count, headers(counts), read))
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()], asked


ALL = [*range(11), *range(20, 30)]


@pytest.mark.parametrize(("count", "start"), [(1, 11), (10, 11), (11, 10), (12, 5), (16, 5), (17, None), (99, None)])
def test_reading_begins_with_the_last_batches_that_hold_enough(count: int, start: int | None) -> None:
    assert last_offsets(count, [5, 5, 1, 10]) == (ALL[-count:], [start])


def test_where_headers_promise_too_much_more_is_read() -> None:
    assert last_offsets(4, [5, 5, 1, 10], keep=10) == ([0, 10, 20], [11, 5, None])
    assert last_offsets(2, [5, 5, 1, 10], keep=10) == ([10, 20], [11, 11, None])


def test_wrapper_messages_count_as_one() -> None:
    assert last_offsets(3, [None, None, None, None]) == ([27, 28, 29], [5])


def test_an_empty_partition_has_no_tail() -> None:
    assert list(tail(3, [], lambda start: iter(()))) == []
