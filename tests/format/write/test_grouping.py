"""Which records may share a batch, and what the header of that batch says."""

from __future__ import annotations

import numpy as np
import pytest
from tests.format.test_convert import buffer_of, convert, records

from brokerless.format import layouts
from brokerless.format.columns import allocate
from brokerless.format.convert import ConversionTarget
from brokerless.format.read.batch_headers import read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.write.encoder import Encoder, build_headers


def batch_of(offsets: list[int], **header: int) -> np.ndarray:
    """A v2 batch with a null record for each offset; ``header``: fields of its header."""
    columns = allocate(len(offsets), 0, 0)
    columns.used[0] = len(offsets)
    columns.offset[:] = offsets
    columns.timestamp[:] = 1000
    for each in (columns.key_ends, columns.value_ends, columns.header_ends, columns.timestamp_type):
        each[:] = 0
    columns.key_null[:] = columns.value_null[:] = 1
    starts = np.array([0, len(offsets)])
    headers = build_headers(columns, starts)
    for name, value in header.items():
        headers[name] = value
    return Encoder().encode(columns, starts, headers)


PRODUCER = {"producer_id": 7, "producer_epoch": 0}
APPEND_TIME = layouts.TIMESTAMP_TYPE_BIT


@pytest.mark.parametrize(
    ("one", "other", "is_one_batch"),
    [
        ({}, {}, True),
        ({"partition_leader_epoch": 3}, {"partition_leader_epoch": 3}, True),
        ({"partition_leader_epoch": 3}, {"partition_leader_epoch": 4}, False),
        ({**PRODUCER, "base_sequence": 5}, {**PRODUCER, "base_sequence": 7}, True),
        ({**PRODUCER, "base_sequence": 5}, {**PRODUCER, "base_sequence": 8}, False),
        ({**PRODUCER, "base_sequence": 2**31 - 2}, {**PRODUCER, "base_sequence": 0}, True),
        ({**PRODUCER, "base_sequence": 5}, {**PRODUCER, "producer_epoch": 1, "base_sequence": 7}, False),
        ({**PRODUCER, "base_sequence": 5}, {}, False),
        ({**PRODUCER, "base_sequence": 5}, {**PRODUCER, "base_sequence": 7, "attributes": 0x10}, False),
        ({**PRODUCER, "base_sequence": 5, "last_offset_delta": 2}, {**PRODUCER, "base_sequence": 8}, False),
        ({"attributes": APPEND_TIME}, {"attributes": APPEND_TIME}, True),
        ({"attributes": APPEND_TIME}, {"attributes": APPEND_TIME, "max_timestamp": 2000}, False),
        ({"attributes": APPEND_TIME}, {}, False),
        ({"attributes": layouts.DELETE_HORIZON_BIT}, {"attributes": layouts.DELETE_HORIZON_BIT}, True),
        ({"attributes": layouts.DELETE_HORIZON_BIT}, {}, False),
        ({**PRODUCER, "attributes": 0x30}, {**PRODUCER, "attributes": 0x30}, False),
    ],
    ids=str,
)
def test_batches_are_merged_only_if_nothing_that_they_say_of_all_their_records_differs(
    one: dict[str, int], other: dict[str, int], is_one_batch: bool
) -> None:
    data = np.concatenate([batch_of([10, 11], **one), batch_of([12, 13], **other)]).tobytes()
    converted, totals = convert(data, ConversionTarget(2, batch_size=1000))
    assert totals.batches_out == (1 if is_one_batch else 2)
    assert records(buffer_of(converted)) == records(buffer_of(data))


def test_a_batch_that_is_cut_keeps_its_outer_offsets_and_its_sequences() -> None:
    """Compaction took its first and its last record."""
    whole = batch_of([11, 12, 14, 15], base_offset=10, last_offset_delta=7, base_sequence=100, **PRODUCER)
    converted, _ = convert(whole.tobytes(), ConversionTarget(2, batch_size=1))
    result = read_headers(buffer_of(converted), scan_batches(buffer_of(converted)).positions)
    assert result.entry_offset.tolist() == [10, 12, 14, 15]
    assert result.last_offset.tolist() == [11, 12, 14, 17]
    assert result.base_sequence.tolist() == [100, 102, 104, 105]
    assert records(buffer_of(converted)) == records(whole)


@pytest.mark.parametrize("batch_size", [None, 20_000])
def test_a_batch_with_more_than_a_chunk_of_columns_holds_stays_one(batch_size: int | None) -> None:
    count = 300_000  # rows; a chunk has 131,072
    data = np.concatenate([batch_of([5]), batch_of(list(range(10, 10 + count))), batch_of([10 + count])]).tobytes()
    converted, totals = convert(data, ConversionTarget(2, "zstd", batch_size=batch_size))
    assert totals.batches_out == 3 or batch_size
    assert totals.records_out == count + 2
    assert convert(converted, ConversionTarget(2, "none"))[0] == data or batch_size
    result = read_headers(buffer_of(converted), scan_batches(buffer_of(converted)).positions)
    assert int(result.count.sum()) == count + 2
    assert (result.entry_offset[1:] > result.last_offset[:-1]).all()
