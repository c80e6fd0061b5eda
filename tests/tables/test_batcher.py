"""The rows of a partition become batches as they come; what Kafka makes of them is in
tests/jobs/load/test_loader.py."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from brokerless.errors import UsageError
from brokerless.format.read.batch_headers import Batches, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.write.compression_ratio import CompressionRatioEstimator
from brokerless.tables.batcher import Batcher, BatchSettings, Cut, Encoded, encode, observe
from brokerless.tables.rows import RowError, normalize


def rows(count: int, **columns: Any) -> pa.RecordBatch:
    value = [b"%d" % (number**3) * (number % 7) for number in range(count)]
    return normalize(pa.RecordBatch.from_pydict({"value": value} | columns))


def batcher(
    start_offset: int = 0, timestamp: int = 5, ratio: CompressionRatioEstimator | None = None, **settings: Any
) -> Batcher:
    return Batcher(BatchSettings(**settings), ratio or CompressionRatioEstimator(), start_offset, timestamp)


def take(batcher: Batcher, *parts: pa.RecordBatch) -> bytes:
    """All bytes of the parts' batches."""
    encoder, buffers, number = batcher.settings.encoder(), list[bytes](), 0

    def encoded(pieces: Iterator[Cut | Encoded]) -> None:
        for piece in pieces:
            done = piece if isinstance(piece, Encoded) else encode(encoder, piece)
            observe(batcher.ratio, done, batcher.settings)
            buffers.append(bytes(done.buffer))

    for part in parts:
        encoded(batcher.add(part, np.arange(number, number + part.num_rows)))
        number += part.num_rows
    encoded(batcher.finish())
    return b"".join(buffers)


def batches(data: bytes) -> Batches:
    buffer = np.frombuffer(data, np.uint8)
    return read_headers(buffer, scan_batches(buffer).positions)


@examples(60)
@given(
    cuts=st.lists(st.integers(1, 299), unique=True, max_size=5),
    batch_size=st.sampled_from([0, 300, 1000, 10**6]),
    magic=st.sampled_from([1, 2]),
)
def test_batches_are_the_same_however_rows_come(cuts: list[int], batch_size: int, magic: int) -> None:
    all_rows = rows(300)
    edges = [0, *sorted(cuts), 300]
    parts = [all_rows.slice(start, end - start) for start, end in pairwise(edges)]
    whole = take(batcher(batch_size=batch_size, message_format=magic), all_rows)
    assert take(batcher(batch_size=batch_size, message_format=magic), *parts) == whole
    found = batches(whole)
    assert (found.count.sum() if magic == 2 else len(found)) == 300
    assert (len(found) == 300) == (batch_size == 0 or magic == 1)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_only_what_is_of_a_batch_that_is_not_full_waits(codec: str) -> None:
    each = batcher(batch_size=1000, compression_type=codec)
    for start in range(0, 2000, 100):
        for _ in each.add(rows(100), np.arange(start, start + 100)):
            assert each.waiting_bytes <= (1000 if codec == "none" else 0)
        assert 0 < each.waiting_bytes < 5000
    assert len(list(each.finish())) == 1
    assert (each.waiting_bytes, list(each.finish())) == (0, [])


def test_offsets_are_counted_and_the_time_is_the_given_one_where_there_are_none() -> None:
    each = batcher(start_offset=40, timestamp=7)
    found = batches(take(each, rows(3), rows(2)))
    assert (found.entry_offset[0], found.last_offset[-1], set(found.max_timestamp.tolist())) == (40, 44, {7})
    assert (each.records, each.next_offset) == (5, 45)


def test_offsets_and_timestamps_are_kept_where_they_are_given() -> None:
    given = rows(4, offset=[3, 4, 2**40, 2**40 + 2**31], timestamp=[9, -1, 8, 2**62])
    found = batches(take(batcher(), given))
    # A batch spans 2^31 offsets at most.
    assert found.entry_offset.tolist() == [3, 2**40, 2**40 + 2**31]
    assert found.last_offset.tolist() == [4, 2**40, 2**40 + 2**31]
    assert found.max_timestamp.tolist() == [9, 8, 2**62]


def test_a_batch_has_one_timestamp_type_and_of_log_append_time_one_timestamp() -> None:
    given = rows(7, timestamp=[5, 6, 6, 6, 7, 7, 8], timestampType=[0, 0, 1, 1, 1, 0, -1])
    found = batches(take(batcher(), given))
    assert found.count.tolist() == [2, 2, 1, 2]
    assert found.timestamp_type.tolist() == [0, 1, 1, 0]
    assert found.max_timestamp.tolist() == [6, 6, 7, 8]


def test_the_topics_timestamp_type_is_for_records_that_do_not_say_it() -> None:
    append_time = {"message_timestamp_type": "LogAppendTime"}
    assert batches(take(batcher(**append_time), rows(3))).timestamp_type.tolist() == [1]
    assert batches(take(batcher(**append_time), rows(3, timestampType=[0, 0, 0]))).timestamp_type.tolist() == [0]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("magic", [1, 2])
def test_the_estimate_of_compression_fills_batches_better_and_better(codec: str, magic: int) -> None:
    if (codec, magic) == ("zstd", 1):
        pytest.skip("v1 has no zstd")
    ratio = CompressionRatioEstimator()
    random = np.random.default_rng(3)
    values = [b"%d" % number * 20 for number in random.integers(0, 10**6, 60_000)]
    part = normalize(pa.RecordBatch.from_pydict({"value": values}))
    data = take(batcher(batch_size=4096, compression_type=codec, message_format=magic, ratio=ratio), part)
    sizes = batches(data).sizes
    assert 2 * sizes[0] < sizes[-20:-1].mean() <= 4096
    assert ratio.estimate < 0.5


HEADER = [{"key": "k", "value": b""}]
REFUSED = [
    ({"offset": [0, 1, 1]}, {}, 2, "offset", "is 1 and follows 1 in its partition"),
    ({"offset": [5, 4, 6]}, {}, 1, "offset", "is 4 and follows 5 in its partition"),
    ({"offset": [9, 10, 11]}, {"start_offset": 10}, 0, "offset", "is 9, below the start offset 10"),
    ({"headers": [[], HEADER, []]}, {"message_format": 1}, 1, "headers", "format v1 has no headers"),
    ({"headers": [[], [], HEADER]}, {"message_format": 0}, 2, "headers", "format v0 has no headers"),
    ({"timestamp": [-1, 0, -1]}, {"message_format": 0}, 1, "timestamp", "format v0 has no timestamps"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "settings", "row", "column", "reason"), REFUSED)
def test_what_a_log_cannot_hold_is_refused(columns: Any, settings: Any, row: int, column: str, reason: str) -> None:
    with pytest.raises(RowError) as refused:
        list(batcher(**settings).add(rows(3, **columns), np.array([10, 11, 12])))
    assert (refused.value.row, refused.value.column) == (10 + row, column)
    assert refused.value.reason.startswith(reason)


def test_offsets_have_to_rise_over_all_that_came_before() -> None:
    each = batcher()
    list(each.add(rows(2, offset=[0, 7]), np.arange(2)))
    with pytest.raises(RowError, match="is 7 and follows 7"):
        list(each.add(rows(1, offset=[7]), np.arange(2, 3)))


def test_there_are_no_offsets_for_ever() -> None:
    assert batches(take(batcher(start_offset=2**63 - 2), rows(1))).last_offset.tolist() == [2**63 - 2]
    with pytest.raises(UsageError, match="have no offsets"):
        take(batcher(start_offset=2**63 - 2), rows(2))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"compression_type": "brotli"}, "there is no codec 'brotli'"),
        ({"compression_type": "gzip", "compression_level": 10}, "gzip has no level 10"),
        ({"compression_level": 1}, "without a codec there are no levels"),
        ({"compression_type": "zstd", "message_format": 1}, "message format v1 has no zstd"),
        ({"message_format": 3}, "there is no message format v3"),
        ({"batch_size": -1}, "a batch size is from 0"),
        ({"batch_size": 1 << 31}, "a batch size is from 0"),
        ({"message_timestamp_type": "NoTimestampType"}, "there is no timestamp type 'NoTimestampType'"),
        ({"message_timestamp_type": "LogAppendTime", "message_format": 0}, "message format v0 has no timestamps"),
    ],
)
def test_settings_that_there_are_not_are_refused(settings: Any, reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        BatchSettings(**settings).encoder()
    assert str(refused.value).startswith(reason)
