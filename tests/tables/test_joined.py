"""Small record batches are joined, with all rows in their order."""

from __future__ import annotations

import itertools

import pyarrow as pa

from brokerless.tables.joined import Size, joined

SMALL, ENOUGH = Size(4096, 256 << 10), Size(1 << 16, 1 << 20)


def test_small_record_batches_are_joined_in_order_and_large_ones_are_handed_over_unchanged() -> None:
    sizes = [1, 3, 70_000, 1, 5000, 2, 4, 4096, *[4000] * 40, 1]
    ends = list(itertools.accumulate(sizes))
    batches = [pa.record_batch({"offset": range(end - size, end)}) for size, end in zip(sizes, ends, strict=True)]
    made = list(joined(iter(batches), SMALL, ENOUGH))
    assert pa.Table.from_batches(made).equals(pa.Table.from_batches(batches).combine_chunks())
    assert [each.num_rows for each in made[:5]] == [4, 70_000, 1, 5000, 2 + 4 + 4096 + 16 * 4000]
    assert made[1] is batches[2]
    assert [each.num_rows for each in made[5:]] == [17 * 4000, 7 * 4000 + 1]


def test_small_record_batches_are_joined_up_to_a_size_in_bytes() -> None:
    large = pa.record_batch({"value": [b"x" * (200 << 10)]})
    assert [each.num_rows for each in joined(itertools.repeat(large, 10), SMALL, ENOUGH)] == [6, 4]


def test_record_batches_without_columns_are_joined() -> None:
    empty = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    assert sum(each.num_rows for each in joined(itertools.repeat(empty, 2), SMALL, ENOUGH)) == 6
