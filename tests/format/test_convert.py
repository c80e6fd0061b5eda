"""Conversion between formats: as Kafka answers old clients, and whole logs, whose records stay what they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.format.test_decode import rows
from tests.golden import Case, broker_data, broker_expected, cases, json_lines, of_type
from tests.kafka.oracle import read_logs

from brokerless.errors import UsageError
from brokerless.format import layouts
from brokerless.format.batches import checksums_match, read_headers, walk
from brokerless.format.columns import allocate
from brokerless.format.convert import LOST, Converted, Converter, DownConverted, Target, Totals, down_convert
from brokerless.format.decode import Decoder
from brokerless.format.encode import Encoder, headers_of


def buffer_of(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def records(buffer: np.ndarray) -> list[dict[str, object]]:
    batches = read_headers(buffer, walk(buffer).positions)
    assert checksums_match(buffer, batches).all()
    decoder = Decoder()
    decoded = [*decoder.decode(buffer, batches), decoder.flush()]
    return [row for each in decoded if each is not None for row in rows(each.columns)]


def answered(case: Case) -> DownConverted:
    asked = case.case_json()
    return down_convert(buffer_of((case.path / "input.bin").read_bytes()), asked["toMagic"], asked["firstOffset"])


@pytest.mark.parametrize("case", cases("downconvert"), ids=str)
def test_a_fetch_in_an_older_format_is_answered_as_kafka_does(case: Case) -> None:
    asked = case.case_json()
    if asked["outcome"] != "ok":
        with pytest.raises(UsageError, match="zstd"):
            answered(case)
        return
    given = answered(case)
    assert not given.damages
    assert given.records == asked["recordsConverted"]
    kafka = buffer_of((case.path / "output.bin").read_bytes())
    theirs, ours = (read_headers(each, walk(each).positions) for each in (kafka, given.buffer))
    for name in ("magic", "codec", "entry_offset", "timestamp_type", "max_timestamp"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), name)
    expected = [
        {name: line[name] for name in line if name not in ("type", "file", "batchPosition")}
        for line in of_type(case.expected(), "record")
    ]
    assert records(given.buffer) == expected
    if not theirs.codec.any():
        assert given.buffer.tobytes() == kafka.tobytes()


Line = dict[str, Any]
OF_ALL_RECORDS = (
    "producerId", "producerEpoch", "partitionLeaderEpoch", "isTransactional", "isControl", "deleteHorizonMs"
)  # fmt: skip
NO_CONTENT = ("type", "file", "batchPosition", "control", "controlError")


def convert(data: bytes, target: Target) -> tuple[bytes, Totals]:
    """A whole log, in chunks of a few batches."""
    converter, pieces = Converter(target), list[Converted]()
    buffer, at = buffer_of(data), 0
    while at < len(data):
        positions = walk(buffer, at, limit=17).positions
        if not len(positions):
            break
        batches = read_headers(buffer, positions)
        pieces += converter.convert(buffer, batches)
        at = int(batches.ends[-1])
    pieces += converter.flush()
    assert not any(piece.damages for piece in pieces)
    return b"".join(piece.buffer.tobytes() for piece in pieces), converter.totals


OLD = [
    *(Target(0, codec) for codec in ("none", "gzip", "snappy", "lz4")),
    *(Target(1, codec) for codec in ("none", "gzip", "snappy", "lz4")),
    Target(0, batch_size=1000),
    Target(1, batch_size=700),
    Target(1),
]
NEW = [
    *(Target(2, codec) for codec in ("none", "gzip", "snappy", "lz4", "zstd")),
    Target(2, "zstd", batch_size=500),
    Target(2, batch_size=100_000),
    Target(2),
    Target(codec="gzip", level=9),
]


def sources() -> list[tuple[str, bytes, list[Line]]]:
    """Logs that Kafka wrote, and what its reader gives for them."""
    found = [(str(case), case.log.read_bytes(), case.expected()) for case in cases("formats", "specials", "articles")]
    for broker, names in (("old-formats", "*"), ("clean", "txn-*"), ("clean", "compacted-*")):
        for path in sorted(broker_expected(broker).glob(f"{names}/expected.jsonl")):
            lines = json_lines(path)
            for name in sorted({line["file"] for line in lines if line["file"].endswith(".log")}):
                data = (broker_data(broker) / path.parent.name / name).read_bytes()
                found.append((f"{broker}/{path.parent.name}/{name}", data, [e for e in lines if e["file"] == name]))
    return found


def comparable(line: Line) -> Line:
    """A record without its place; what a control record says is in its key and value."""
    return {name: line[name] for name in line if name not in NO_CONTENT}


def as_converted(lines: list[Line], target: Target) -> list[Line]:
    """Kafka's records as a target format has them."""
    batches = {line["position"]: line for line in lines if line["type"] == "batch"}
    found = list[Line]()
    for line in of_type(lines, "record"):
        batch = batches[line["batchPosition"]]
        magic = batch["magic"] if target.magic is None else target.magic
        line = comparable(line)
        if magic < 2:
            if batch["isControl"]:
                continue
            line |= {"headers": [], "sequence": -1}
        if magic == 0:
            line |= {"timestamp": -1, "timestampType": "NoTimestampType"}
        elif line["timestampType"] == "NoTimestampType":
            line["timestampType"] = "CreateTime"
        found.append(line)
    return found


def batch_facts(lines: list[Line]) -> list[tuple[Any, ...]]:
    """What the batch of each record says of all its records."""
    batches = {line["position"]: line for line in lines if line["type"] == "batch"}
    return [tuple(batches[line["batchPosition"]][name] for name in OF_ALL_RECORDS) for line in of_type(lines, "record")]


@pytest.mark.parametrize(("version", "targets"), [("3.9.1", OLD), ("4.1.1", NEW)], ids=["3.9.1", "4.1.1"])
def test_kafkas_reader_finds_every_record_of_its_logs_in_every_format_and_codec(
    version: str, targets: list[Target], kafka_jars: Path, tmp_path: Path
) -> None:
    expected: dict[Path, tuple[str, Target, list[Line]]] = {}
    facts: dict[Path, list[tuple[Any, ...]]] = {}
    for number, (name, data, lines) in enumerate(sources()):
        is_large = re.match("clean|old-formats|specials/many", name)
        for target in [targets[number % len(targets)]] if is_large else targets:
            path = tmp_path / f"{len(expected)}.log"
            converted, totals = convert(data, target)
            path.write_bytes(converted)
            expected[path] = name, target, as_converted(lines, target)
            facts[path] = batch_facts(lines)
            assert totals.bytes_out == len(converted)
            assert totals.records_out == len(expected[path][2]), (name, target)
    for path, lines in read_logs(expected, version).items():
        name, target, theirs = expected[path]
        assert [comparable(line) for line in of_type(lines, "record")] == theirs, (name, target)
        assert not list(of_type(lines, "error")), (name, target)
        assert target.magic in (0, 1) or batch_facts(lines) == facts[path], (name, target)
        for batch in of_type(lines, "batch"):
            assert batch["isValid"]
            assert target.magic is None or batch["magic"] == target.magic
            assert (
                target.codec is None
                or batch["compression"] == target.codec
                or batch["isControl"]
                or batch["count"] == 0
            )


def expected_losses(lines: list[Line], target: Target) -> dict[str, int]:
    batches = {line["position"]: line for line in lines if line["type"] == "batch"}
    v2 = [each for each in batches.values() if each["magic"] == 2]
    control = [each for each in v2 if each["isControl"]]
    empty = [each for each in v2 if not each["isControl"] and each["count"] == 0]
    data = [each for each in v2 if not each["isControl"] and each["count"]]
    rows = [line for line in of_type(lines, "record") if not batches[line["batchPosition"]]["isControl"]]
    losses = {
        "controlBatches": len(control),
        "emptyBatches": len(empty),
        "transactions": sum(each["isTransactional"] for each in data),
        "producers": sum(each["producerId"] != -1 for each in data),
        "leaderEpochs": sum(each["partitionLeaderEpoch"] != -1 for each in data),
        "deleteHorizons": sum(each["deleteHorizonMs"] is not None for each in data),
        "zstd": sum(each["compression"] == "zstd" for each in data) if target.codec is None else 0,
        "headers": sum(len(line["headers"]) for line in rows),
        "timestamps": sum(line["timestamp"] != -1 for line in rows) if target.magic == 0 else 0,
    }
    return {name: count for name, count in losses.items() if count}


@pytest.mark.parametrize("target", [Target(0, "lz4"), Target(1), Target(1, "none"), Target(2, "zstd")], ids=str)
def test_what_a_format_cannot_carry_is_counted(target: Target) -> None:
    found = set[str]()
    for name, data, lines in sources():
        _, totals = convert(data, target)
        expected = {} if target.magic == 2 else expected_losses(lines, target)
        assert dict(totals.lost) == expected, name
        found |= set(expected)
        batches = [line for line in lines if line["type"] == "batch"]
        assert (totals.batches_in, totals.bytes_in) == (len(batches), sum(each["sizeInBytes"] for each in batches))
        assert totals.records_in == len(list(of_type(lines, "record"))), name
    if target.magic != 2:
        assert found | {"timestamps", "zstd"} == set(LOST)


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_a_batch_keeps_its_boundaries_and_all_that_its_header_says(codec: str) -> None:
    for name, data, _ in sources():
        source = read_headers(buffer_of(data), walk(buffer_of(data)).positions)
        if source.is_legacy.any():
            continue
        converted, _ = convert(data, Target(2, codec))
        result = read_headers(buffer_of(converted), walk(buffer_of(converted)).positions)
        written = (source.codec != layouts.CODECS.index(codec)) & (source.count > 0)
        append_time = written & (source.timestamp_type == layouts.LOG_APPEND_TIME) & ~source.has_delete_horizon
        base_timestamp = np.where(append_time, source.max_timestamp, source.base_timestamp)
        np.testing.assert_array_equal(result.base_timestamp, base_timestamp, name)
        for field in set(layouts.BATCH_V2.names or ()) - {"size", "crc", "attributes", "base_timestamp"}:
            np.testing.assert_array_equal(result.v2[field], source.v2[field], f"{name} {field}")
        np.testing.assert_array_equal(result.attributes & ~7, source.attributes & ~7, name)


def batch_of(offsets: list[int], **header: int) -> np.ndarray:
    """A v2 batch with a record for each offset, without a codec; ``header``: fields of its header."""
    columns = allocate(len(offsets), 0, 0)
    columns.used[0] = len(offsets)
    columns.offset[:] = offsets
    columns.timestamp[:] = 1000
    for each in (columns.key_ends, columns.value_ends, columns.header_ends, columns.timestamp_type):
        each[:] = 0
    columns.key_null[:] = columns.value_null[:] = 1
    starts = np.array([0, len(offsets)])
    headers = headers_of(columns, starts)
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
    converted, totals = convert(data, Target(2, batch_size=1000))
    assert totals.batches_out == (1 if is_one_batch else 2)
    assert records(buffer_of(converted)) == records(buffer_of(data))


def test_a_batch_that_is_cut_keeps_its_outer_offsets_and_its_sequences() -> None:
    """Compaction took its first and its last record."""
    whole = batch_of([11, 12, 14, 15], base_offset=10, last_offset_delta=7, base_sequence=100, **PRODUCER)
    converted, _ = convert(whole.tobytes(), Target(2, batch_size=1))
    result = read_headers(buffer_of(converted), walk(buffer_of(converted)).positions)
    assert result.entry_offset.tolist() == [10, 12, 14, 15]
    assert result.last_offset.tolist() == [11, 12, 14, 17]
    assert result.base_sequence.tolist() == [100, 102, 104, 105]
    assert records(buffer_of(converted)) == records(whole)


@pytest.mark.parametrize("batch_size", [None, 20_000])
def test_a_batch_with_more_than_a_chunk_of_columns_holds_stays_one(batch_size: int | None) -> None:
    count = 300_000  # rows; a chunk has 131,072
    data = np.concatenate([batch_of([5]), batch_of(list(range(10, 10 + count))), batch_of([10 + count])]).tobytes()
    converted, totals = convert(data, Target(2, "zstd", batch_size=batch_size))
    assert totals.batches_out == 3 or batch_size
    assert totals.records_out == count + 2
    assert convert(converted, Target(2, "none"))[0] == data or batch_size
    result = read_headers(buffer_of(converted), walk(buffer_of(converted)).positions)
    assert int(result.count.sum()) == count + 2
    assert (result.entry_offset[1:] > result.last_offset[:-1]).all()


def test_zstd_is_no_codec_of_the_older_formats() -> None:
    with pytest.raises(UsageError, match="zstd"):
        Target(1, "zstd")


def test_what_is_converted_does_not_depend_on_how_it_comes() -> None:
    for name, data, _ in sources():
        for target in (Target(2, "none", batch_size=3000), Target(1, "none"), Target(2, "none")):
            buffer = buffer_of(data)
            converter = Converter(target)
            batches = read_headers(buffer, walk(buffer).positions)
            pieces = [*converter.convert(buffer, batches), *converter.flush()]
            assert b"".join(piece.buffer.tobytes() for piece in pieces) == convert(data, target)[0], name


@pytest.mark.parametrize("target", [Target(2, "lz4"), Target(1, "gzip", batch_size=300), Target(0, "none")], ids=str)
def test_damage_is_told_and_stops_nothing(target: Target) -> None:
    told = 0
    for case in cases("damaged", "framing"):
        for log in case.logs:
            buffer = buffer_of(log.read_bytes())
            batches = read_headers(buffer, walk(buffer).positions)
            sound = batches.take(checksums_match(buffer, batches))
            converter = Converter(target)
            damages = [each for piece in converter.convert(buffer, sound) for each in piece.damages]
            list(converter.flush())
            broken = {line["position"] for line in of_type(case.expected(), "error") if line["phase"] == "records"}
            is_same = (sound.magic == target.magic) & (sound.codec == layouts.CODECS.index(target.codec or ""))
            unread = set(sound.positions[is_same | sound.is_control | (sound.count == 0)].tolist())
            assert broken - unread <= {each.position for each in damages}, case
            told += len(damages)
    assert told > 50
