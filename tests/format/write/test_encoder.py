"""What was decoded is encoded as Kafka had written it; any records come through any format as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.golden import Case, cases

from brokerless import UsageError
from brokerless.format import layouts
from brokerless.format.codecs.decompression import Inflater
from brokerless.format.columns import RecordColumns, allocate
from brokerless.format.read.batch_headers import Batches, checksums_match, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.read.decoder import Decoder
from brokerless.format.write import encoder
from brokerless.format.write.encoder import Encoder, build_headers, cut_batches
from brokerless.schemas import RECORDS
from brokerless.tables.record_batches import columns_of

OVERHEADS = {0: 26, 1: 34, 2: 61}


def batches_in(buffer: np.ndarray) -> Batches:
    return read_headers(buffer, scan_batches(buffer).positions)


def decoded(buffer: np.ndarray, batch: Batches) -> RecordColumns | None:
    """The records of one batch; None if it is broken inside, or too large for one chunk."""
    decoder = Decoder()
    parts = [*decoder.decode(buffer, batch), decoder.flush()]
    found = [part for part in parts if part is not None]
    if any(part.damages for part in found):
        return None
    filled = [part.columns for part in found if part.columns.rows]
    if len(filled) > 1:  # a record of a megabyte in a few bytes gets columns of its own
        return None
    return filled[0] if filled else allocate(0, 0, 0)


def payload(buffer: np.ndarray, batch: Batches, row: int = 0) -> bytes:
    inflater = Inflater()
    start = batch.positions[row] + OVERHEADS[int(batch.magic[row])]
    view = buffer.data[start : batch.ends[row]]
    begin, end, error = inflater.inflate(int(batch.codec[row]), int(batch.magic[row]), view)
    assert error is None
    return inflater.buffer[begin:end].tobytes()


def a_header(batch: Batches, columns: RecordColumns) -> np.ndarray:
    """What is to be said of a batch as it is, in any format."""
    if batch.magic[0] == 2:
        return batch.v2.copy()
    header = np.zeros(1, layouts.BATCH_V2)
    header["base_offset"] = columns.offset[0]
    header["attributes"] = batch.attributes & layouts.TIMESTAMP_TYPE_BIT
    header["max_timestamp"] = batch.max_timestamp
    return header


@pytest.mark.parametrize("case", cases("formats", "articles", "specials"), ids=str)
def test_every_batch_of_kafkas_is_encoded_as_it_was(case: Case) -> None:
    """Byte for byte without a codec, and with one before compressing. Not for LogAppendTime in v2: there the records
    still have the producer's times, which no reader gives."""
    compared = 0
    for log in case.logs:
        buffer = np.frombuffer(log.read_bytes(), np.uint8)
        batches = batches_in(buffer)
        for row in np.flatnonzero(checksums_match(buffer, batches)).tolist():
            batch = batches.take(np.array([row]))
            columns = decoded(buffer, batch)
            magic, codec = int(batch.magic[0]), layouts.CODECS[int(batch.codec[0])]
            if columns is None or (magic == 2 and batch.timestamp_type[0] == layouts.LOG_APPEND_TIME):
                continue
            before = buffer[batch.positions[0] : batch.ends[0]]
            after = Encoder(magic, codec).encode(columns, np.array([0, columns.rows]), a_header(batch, columns))
            again = batches_in(after)
            assert checksums_match(after, again).all()
            if codec == "none":
                assert after.tobytes() == before.tobytes()
            else:
                assert payload(after, again) == payload(buffer, batch)
                ours, theirs = (x.v2 if magic == 2 else x.legacy for x in (again, batch))
                for name in set(theirs.dtype.names or ()) - {"size", "crc"} - ({"timestamp"} if magic == 0 else set()):
                    assert ours[name] == theirs[name], name
            compared += 1
    assert compared or "append" in case.name or case.path.joinpath("expected.jsonl").stat().st_size < 1000


RECORD = st.fixed_dictionaries(
    {
        "key": st.one_of(st.none(), st.binary(max_size=40)),
        "value": st.one_of(st.none(), st.binary(max_size=40), st.sampled_from([b"x" * 300, b"y" * 9000])),
        "timestamp": st.one_of(st.integers(0, 10_000), st.integers(0, 2**62)),
        "gap": st.one_of(st.just(0), st.integers(0, 5)),
        "headers": st.lists(
            st.fixed_dictionaries({"key": st.text(max_size=5), "value": st.one_of(st.none(), st.binary(max_size=9))}),
            max_size=3,
        ),
    }
)


def as_batch(records: list[dict[str, Any]], base_offset: int = 0) -> pa.RecordBatch:
    names = ["key", "value", "offset", "timestamp", "headers"]
    rows, offset = [], base_offset
    for record in records:
        offset += record["gap"]
        rows.append({**record, "offset": offset})
        offset += 1
    return pa.RecordBatch.from_pylist(rows, pa.schema([RECORDS.field(name) for name in names]))


@examples(150)
@given(
    records=st.lists(RECORD, min_size=1, max_size=30),
    magic=st.sampled_from([0, 1, 2]),
    codec=st.sampled_from(layouts.CODECS),
    size=st.sampled_from([0, 100, 1000, 1 << 20]),
    base_offset=st.sampled_from([0, 7, 2**50]),
)
def test_another_client_reads_what_was_written(
    records: list[dict[str, Any]], magic: int, codec: str, size: int, base_offset: int
) -> None:
    if codec == "zstd" and magic < 2:
        codec = "lz4"
    if (magic, codec) == (0, "lz4"):  # aiokafka reads no lz4 of v0
        codec = "gzip"
    table = as_batch(records, base_offset)
    columns = columns_of(table)
    starts = cut_batches(columns, size, None if codec == "none" else 0.5, magic=magic)
    data = Encoder(magic, codec).encode(columns, starts, build_headers(columns, starts)).tobytes()
    found = []
    reader = MemoryRecords(data)
    while (batch := reader.next_batch()) is not None:
        assert batch.validate_crc()
        found += list(batch)
    expected = table.drop_columns("timestamp").to_pylist()  # Python's dates do not reach as far
    assert [each.offset for each in found] == [row["offset"] for row in expected]
    assert [each.key for each in found] == [row["key"] for row in expected]
    assert [each.value for each in found] == [row["value"] for row in expected]
    if magic:
        assert [each.timestamp for each in found] == table["timestamp"].cast(pa.int64()).to_pylist()
    if magic == 2:
        headers = [[(header["key"], header["value"]) for header in row["headers"]] for row in expected]
        assert [list(each.headers) for each in found] == headers


def some_columns(*offsets: int) -> RecordColumns:
    records = [{"key": None, "value": b"v", "timestamp": 5, "headers": [], "offset": offset} for offset in offsets]
    names = ["key", "value", "offset", "timestamp", "headers"]
    return columns_of(pa.RecordBatch.from_pylist(records, pa.schema([RECORDS.field(name) for name in names])))


def test_a_batch_begins_where_it_has_to() -> None:
    columns = some_columns(0, 1, 2, 3)
    breaks = np.array([False, False, True, False])
    assert cut_batches(columns, 16384, breaks=breaks).tolist() == [0, 2, 4]


def test_a_batch_begins_where_offsets_are_too_far_apart() -> None:
    assert cut_batches(some_columns(1, 2**31, 2**31 + 1), 16384).tolist() == [0, 2, 3]


def test_cutting_goes_on_where_it_was() -> None:
    columns = some_columns(*range(10))
    assert cut_batches(columns, 0, most=3).tolist() == [0, 1, 2, 3]
    assert cut_batches(columns, 0, first=8).tolist() == [8, 9, 10]
    assert cut_batches(columns, 0, first=10).tolist() == [10]


def test_a_batch_without_rows_has_no_codec() -> None:
    header = np.zeros(1, layouts.BATCH_V2)
    header["base_offset"], header["last_offset_delta"], header["max_timestamp"] = 5, 3, 77
    data = Encoder(2, "gzip").encode(allocate(0, 0, 0), np.array([0, 0]), header)
    batch = batches_in(data)
    assert (len(data), batch.codec[0], batch.count[0], batch.last_offset[0]) == (61, 0, 0, 8)
    assert len(Encoder(1, "gzip").encode(allocate(0, 0, 0), np.array([0, 0]), header)) == 0


def test_offsets_that_no_batch_can_have_are_refused() -> None:
    columns = some_columns(5, 2**31 + 5)
    starts = np.array([0, 2])
    with pytest.raises(UsageError, match="do not fit into a batch from offset 5 on"):
        Encoder().encode(columns, starts, build_headers(columns, starts))
    header = build_headers(columns, np.array([0, 1]))
    header["base_offset"] = 6
    with pytest.raises(UsageError, match="do not fit into a batch from offset 6 on"):
        Encoder().encode(columns, np.array([0, 1]), header)


def test_a_batch_of_two_gigabytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "LARGEST", 60)
    columns = some_columns(0)
    columns.value_data, columns.value_ends = np.full(100, 65, np.uint8), np.array([0, 100], np.int32)
    starts = np.array([0, 1])
    for magic in (1, 2):
        with pytest.raises(UsageError, match="set a smaller batch size"):
            Encoder(magic).encode(columns, starts, build_headers(columns, starts))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((3,), "no message format v3"), ((2, "brotli"), "no codec 'brotli'"), ((1, "zstd"), "v1 has no zstd"),
     ((2, "none", 3), "no levels"), ((2, "snappy", 3), "snappy has no levels"), ((2, "gzip", 10), "1 to 9"),
     ((2, "lz4", 0), "1 to 17"), ((2, "zstd", 23), "-131072 to 22")],
)  # fmt: skip
def test_what_kafka_does_not_have_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Encoder(*arguments)
