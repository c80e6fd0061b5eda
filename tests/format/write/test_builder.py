"""Batches are built byte for byte as Kafka's own builder builds them: record by record, and from columns.

Where a codec is at work the bytes before compressing are compared, as two libraries need not compress alike.
"""

from __future__ import annotations

import base64
import functools
import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kafka.jars import OLD_FORMATS, KafkaUnavailableError, check, run
from tests.require import require

from brokerless import UsageError
from brokerless.format import layouts
from brokerless.format.codecs.decompression import Inflater
from brokerless.format.columns import RecordColumns
from brokerless.format.plain_varint import encode_zigzag
from brokerless.format.read.batch_headers import Batches, checksums_match, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.write.builder import BatchAttributes, BatchBuilder
from brokerless.format.write.compression_ratio import CompressionRatioEstimator
from brokerless.format.write.encoder import Encoder, build_headers, cut_batches
from brokerless.format.write.open_batch import OpenBatch
from brokerless.schemas import RECORDS
from brokerless.tables.record_batches import columns_of

Record = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


class Case(NamedTuple):
    magic: int
    codec: str
    batch_size: int
    ratio: float
    facts: BatchAttributes
    records: list[Record]

    def for_kafka(self) -> dict[str, Any]:
        facts = self.facts
        return {
            "magic": self.magic,
            "codec": self.codec,
            "batchSize": self.batch_size,
            "ratio": self.ratio,
            "baseOffset": facts.base_offset,
            "appendTime": -1 if facts.append_time is None else facts.append_time,
            "producerId": facts.producer_id,
            "producerEpoch": facts.producer_epoch,
            "baseSequence": facts.base_sequence,
            "isTransactional": facts.is_transactional,
            "leaderEpoch": facts.partition_leader_epoch,
            "records": [
                [timestamp, in_base64(key), in_base64(value), [[name, in_base64(each)] for name, each in headers]]
                for timestamp, key, value, headers in self.records
            ],
        }


def in_base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def some_case(seed: int) -> Case:
    """A case of its own for each seed: all formats and codecs, sizes around what fits, odd keys, values and times."""
    rng = random.Random(seed)
    magic = rng.choice([0, 1, 2, 2, 2])
    codec = rng.choice(["none", "none", "gzip", "snappy", "lz4", *(["zstd"] if magic == 2 else [])])

    def content(most: int) -> bytes | None:
        kind = rng.random()
        if kind < 0.15:
            return None if kind < 0.1 else b""
        size = rng.choice([rng.randrange(1, 20), rng.randrange(most), 63, 64, 8191 if kind > 0.97 else 5])
        return bytes(rng.choices(b"abcdef" if kind < 0.8 else range(256), k=size))

    def headers() -> list[tuple[str, bytes | None]]:
        if magic < 2 or rng.random() < 0.6:
            return []
        return [(rng.choice(["", "a", "trace-id", "schlüssel"]), content(50)) for _ in range(rng.randrange(4))]

    now = rng.choice([0, 1_700_000_000_000, 2**62])
    time = rng.choice([lambda: now, lambda: now + rng.randrange(10_000), lambda: rng.choice([-1, now])])
    records = [(time(), content(80), content(300), headers()) for _ in range(rng.randrange(1, 120))]
    facts = BatchAttributes(
        base_offset=rng.choice([0, 5, 2**40]), append_time=now + 7 if magic and rng.random() < 0.3 else None
    )
    if magic == 2 and rng.random() < 0.4:
        sequence = rng.choice([0, 17, 2**31 - 2])
        facts = BatchAttributes(facts.base_offset, facts.append_time, 2**33, 3, sequence, rng.random() < 0.5, False, 12)
    size = rng.choice([0, 1, 61, 400, 3000, 16384])
    return Case(magic, codec, size, rng.choice([1.0, 0.3, 0.777]), facts, records)


@functools.cache
def some_cases() -> list[Case]:
    return [some_case(seed) for seed in range(300)]


@pytest.fixture(scope="module")
def kafkas(kafka_jars: Path) -> list[list[bytes]]:
    """The batches that Kafka 3.9's builder makes of each case (4.x's writes no v0 and v1)."""
    text = "".join(json.dumps(case.for_kafka()) + "\n" for case in some_cases())
    try:
        lines = check(run("BuildBatches", version=OLD_FORMATS, stdin=text.encode(), helper=True)).split(b"\n")
    except KafkaUnavailableError as error:
        require(False, str(error))
    return [[base64.b64decode(batch) for batch in line.split(b" ")] for line in lines[: len(some_cases())]]


def a_ratio(estimate: float) -> CompressionRatioEstimator:
    ratio = CompressionRatioEstimator()
    ratio.estimate = np.float32(estimate)
    return ratio


def built(case: Case) -> list[bytes]:
    """With :class:`BatchBuilder`, a new batch whenever one has no room."""
    batches: list[bytes] = []
    builder: BatchBuilder | None = None
    offset = case.facts.base_offset
    for timestamp, key, value, headers in case.records:
        if builder is not None and not builder.has_room_for(timestamp, key, value, headers):
            batches.append(builder.close())
            builder = None
        if builder is None:
            facts = BatchAttributes(offset, *fields(case.facts)[1:])
            builder = BatchBuilder(case.batch_size, case.magic, case.codec, attributes=facts, ratio=a_ratio(case.ratio))
        assert builder.append(timestamp, key, value, headers) == offset
        offset += 1
    assert builder is not None
    return [*batches, builder.close()]


def fields(facts: BatchAttributes) -> tuple[Any, ...]:
    return tuple(getattr(facts, name) for name in BatchAttributes.__dataclass_fields__)


def as_columns(case: Case) -> RecordColumns:
    names = ["key", "value", "offset", "timestamp", "timestampType", "headers"]
    schema = pa.schema([RECORDS.field(name) for name in names])
    rows = [
        {
            "key": key,
            "value": value,
            "offset": case.facts.base_offset + row,
            "timestamp": timestamp,
            "timestampType": 0 if case.facts.append_time is None else 1,
            "headers": [{"key": name, "value": content} for name, content in headers],
        }
        for row, (timestamp, key, value, headers) in enumerate(case.records)
    ]
    return columns_of(pa.RecordBatch.from_pylist(rows, schema))


def encoded(case: Case) -> list[bytes]:
    """From columns, all batches at once."""
    columns, facts = as_columns(case), case.facts
    starts = cut_batches(columns, case.batch_size, None if case.codec == "none" else case.ratio, magic=case.magic)
    headers = build_headers(columns, starts)
    if facts.append_time is not None:
        headers["max_timestamp"] = facts.append_time
    headers["attributes"] |= np.int16(layouts.TRANSACTIONAL_BIT * facts.is_transactional)
    headers["producer_id"], headers["producer_epoch"] = facts.producer_id, facts.producer_epoch
    headers["base_sequence"], headers["partition_leader_epoch"] = facts.base_sequence, facts.partition_leader_epoch
    data = Encoder(case.magic, case.codec).encode(columns, starts, headers).tobytes()
    batches = headers_in(data)
    if case.magic < 2 and case.codec == "none":
        return [data]
    return [data[start:end] for start, end in zip(batches.positions.tolist(), batches.ends.tolist(), strict=True)]


def headers_in(data: bytes) -> Batches:
    buffer = np.frombuffer(data, np.uint8)
    found = scan_batches(buffer)
    assert found.stopped_at == len(data)
    return read_headers(buffer, found.positions)


def inflated(data: bytes) -> tuple[dict[str, Any], bytes]:
    """A batch's header without what follows from the compressed bytes, and its payload before they were compressed."""
    batch = headers_in(data)
    assert len(batch) == 1
    assert checksums_match(np.frombuffer(data, np.uint8), batch).all()
    is_v2 = batch.magic[0] == 2
    start = layouts.BATCH_V2_SIZE if is_v2 else (26 if batch.magic[0] == 0 else 34)
    inflater = Inflater()
    begin, end, error = inflater.inflate(int(batch.codec[0]), int(batch.magic[0]), memoryview(data)[start:])
    assert error is None
    fields = batch.v2 if is_v2 else batch.legacy
    not_compared = {"size", "crc"} | ({"timestamp"} if batch.magic[0] == 0 else set())
    names = [name for name in fields.dtype.names or () if name not in not_compared]
    return {name: fields[name][0].item() for name in names}, inflater.buffer[begin:end].tobytes()


def compare(case: Case, ours: list[bytes], theirs: list[bytes]) -> None:
    if case.codec == "none":
        assert b"".join(ours) == b"".join(theirs)
    else:
        assert [inflated(batch) for batch in ours] == [inflated(batch) for batch in theirs]


@pytest.mark.xdist_group("kafka")
def test_record_by_record(kafkas: list[list[bytes]]) -> None:
    for case, theirs in zip(some_cases(), kafkas, strict=True):
        ours = built(case)
        assert len(ours) == len(theirs)
        compare(case, ours, theirs)


@pytest.mark.xdist_group("kafka")
def test_from_columns(kafkas: list[list[bytes]]) -> None:
    for case, theirs in zip(some_cases(), kafkas, strict=True):
        compare(case, encoded(case), theirs)


@pytest.mark.xdist_group("kafka")
def test_filled_as_rows_come(kafkas: list[list[bytes]]) -> None:
    compared = 0
    for case, theirs in zip(some_cases(), kafkas, strict=True):
        if (case.magic, case.codec, case.facts) == (2, "none", BatchAttributes(case.facts.base_offset)):
            filler = OpenBatch(case.batch_size)
            compare(case, [bytes(part) for part in (*filler.add(as_columns(case)), *filler.finish())], theirs)
            compared += 1
    assert compared > 15


def test_a_closed_batch_stays_as_it_is() -> None:
    builder = BatchBuilder()
    builder.append(5, b"k", b"v")
    batch = builder.close()
    assert builder.close() == batch
    assert (len(batch), builder.estimated_size, builder.is_full) == (61 + 9, 70, True)
    with pytest.raises(UsageError, match="closed"):
        builder.append(6, None, None)


def test_nothing_appended_is_no_batch() -> None:
    assert BatchBuilder().close() == b""


def test_the_first_record_may_be_larger_than_the_batch_size() -> None:
    builder = BatchBuilder(batch_size=100)
    assert builder.has_room_for(0, None, b"x" * 1000)
    builder.append(0, None, b"x" * 1000)
    assert builder.is_full
    assert not builder.has_room_for(0, None, b"")


def test_offsets_may_have_gaps() -> None:
    builder = BatchBuilder(attributes=BatchAttributes(base_offset=10))
    assert [builder.append(0, None, b"a", offset=12), builder.append(0, None, b"b")] == [12, 13]
    batch = headers_in(builder.close())
    assert (batch.entry_offset[0], batch.last_offset[0], batch.count[0]) == (10, 13, 2)


@pytest.mark.parametrize(
    ("magic", "attributes", "message"),
    [
        (3, BatchAttributes(), "no message format v3"),
        (1, BatchAttributes(producer_id=5, producer_epoch=0, base_sequence=0), "no producer ids"),
        (0, BatchAttributes(is_control=True), "no producer ids, transactions and control batches"),
        (1, BatchAttributes(delete_horizon=5), "no delete horizon"),
        (2, BatchAttributes(is_transactional=True), "needs a producer id"),
        (2, BatchAttributes(producer_id=5, base_sequence=0), "producer epoch"),
        (2, BatchAttributes(producer_id=5, producer_epoch=0), "base sequence"),
    ],
)
def test_what_a_format_does_not_have_is_refused(magic: int, attributes: BatchAttributes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        BatchBuilder(magic=magic, attributes=attributes)


def test_what_no_batch_can_hold_is_refused() -> None:
    builder = BatchBuilder(attributes=BatchAttributes(base_offset=3))
    builder.append(0, None, None)
    for arguments, message in [
        ((-2, None, None, (), None), "only -1"),
        ((0, None, None, (), 3), "must increase"),
        ((0, None, None, (), 2**31 + 3), "too far"),
    ]:
        with pytest.raises(UsageError, match=message):
            builder.append(*arguments)
    with pytest.raises(UsageError, match="no record headers"):
        BatchBuilder(magic=1).append(0, None, None, [("a", None)])


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_varint_is_as_short_as_it_can_be(number: int) -> None:
    bits = max(1, (number if number >= 0 else ~number).bit_length() + 1)
    assert len(encode_zigzag(number)) == -(-bits // 7)
