"""Conversion between formats: as Kafka answers old clients, and whole logs, whose records stay what they are."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples, some_quick
from tests.format.read.test_decoder import rows
from tests.golden import Case, broker_data, broker_expected, cases, json_lines, of_type
from tests.kafka.jars import NEWEST, OLD_FORMATS
from tests.kafka.oracle import read_logs

from brokerless.errors import UsageError
from brokerless.format import layouts
from brokerless.format.convert import (
    LOST,
    ConversionTarget,
    ConversionTotals,
    ConvertedBatches,
    Converter,
    DownConverted,
    down_convert,
)
from brokerless.format.read.batch_headers import checksums_match, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.read.decoder import Decoder
from brokerless.format.write.encoder import Encoder, build_headers
from brokerless.schemas import RECORDS
from brokerless.tables.record_batches import columns_of


def buffer_of(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def records(buffer: np.ndarray) -> list[dict[str, Any]]:
    batches = read_headers(buffer, scan_batches(buffer).positions)
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
    theirs, ours = (read_headers(each, scan_batches(each).positions) for each in (kafka, given.buffer))
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


def convert(data: bytes, target: ConversionTarget) -> tuple[bytes, ConversionTotals]:
    """A whole log, in chunks of a few batches."""
    converter, pieces = Converter(target), list[ConvertedBatches]()
    buffer, at = buffer_of(data), 0
    while at < len(data):
        positions = scan_batches(buffer, at, limit=17).positions
        if not len(positions):
            break
        batches = read_headers(buffer, positions)
        pieces += converter.convert(buffer, batches)
        at = int(batches.ends[-1])
    pieces += converter.flush()
    assert not any(piece.damages for piece in pieces)
    return b"".join(piece.buffer.tobytes() for piece in pieces), converter.totals


OLD = [
    *(ConversionTarget(0, codec) for codec in ("none", "gzip", "snappy", "lz4")),
    *(ConversionTarget(1, codec) for codec in ("none", "gzip", "snappy", "lz4")),
    ConversionTarget(0, batch_size=1000),
    ConversionTarget(1, batch_size=700),
    ConversionTarget(1, "gzip", batch_records=7),
    ConversionTarget(1),
]
NEW = [
    *(ConversionTarget(2, codec) for codec in ("none", "gzip", "snappy", "lz4", "zstd")),
    ConversionTarget(2, "zstd", batch_size=500),
    ConversionTarget(2, batch_size=100_000),
    ConversionTarget(2, "lz4", batch_records=3),
    ConversionTarget(2),
    ConversionTarget(codec="gzip", level=9),
]


@functools.cache
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


def as_converted(lines: list[Line], to_magic: int | None) -> list[Line]:
    """Kafka's records as a target format has them."""
    batches = {line["position"]: line for line in lines if line["type"] == "batch"}
    found = list[Line]()
    for line in of_type(lines, "record"):
        batch = batches[line["batchPosition"]]
        magic = batch["magic"] if to_magic is None else to_magic
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


@pytest.mark.parametrize(("version", "targets"), [(OLD_FORMATS, OLD), (NEWEST, NEW)], ids=[OLD_FORMATS, NEWEST])
def test_kafkas_reader_finds_every_record_of_its_logs_in_every_format_and_codec(
    version: str, targets: list[ConversionTarget], kafka_jars: Path, tmp_path: Path
) -> None:
    expected: dict[Path, tuple[str, ConversionTarget, list[Line]]] = {}
    facts: dict[Path, list[tuple[Any, ...]]] = {}
    for number, (name, data, lines) in enumerate(sources()):
        is_large = re.match("clean|old-formats|specials/many", name)
        chosen = [targets[number % len(targets)]] if is_large else targets
        theirs = {magic: as_converted(lines, magic) for magic in {target.magic for target in chosen}}
        facts_of_all = batch_facts(lines)
        for target in chosen:
            path = tmp_path / f"{len(expected)}.log"
            converted, totals = convert(data, target)
            path.write_bytes(converted)
            expected[path] = name, target, theirs[target.magic]
            facts[path] = facts_of_all
            assert totals.bytes_out == len(converted)
            assert totals.records_out == len(expected[path][2]), (name, target)
    for path, lines in read_logs(expected, version).items():
        name, target, records_of_kafka = expected[path]
        assert [comparable(line) for line in of_type(lines, "record")] == records_of_kafka, (name, target)
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


def expected_losses(lines: list[Line], target: ConversionTarget) -> dict[str, int]:
    batches = {line["position"]: line for line in lines if line["type"] == "batch"}
    v2 = [each for each in batches.values() if each["magic"] == 2]
    if target.magic == 2:
        v2 = []
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
        "headers": sum(len(line["headers"]) for line in rows) if target.magic != 2 else 0,
        "timestamps": sum(line["timestamp"] != -1 for line in rows) if target.magic == 0 else 0,
        "noTimestamps": sum(line["timestampType"] == "NoTimestampType" for line in rows) if target.magic else 0,
    }
    return {name: count for name, count in losses.items() if count}


@pytest.mark.parametrize(
    "target",
    some_quick(
        [ConversionTarget(0, "lz4"), ConversionTarget(1), ConversionTarget(1, "none"), ConversionTarget(2, "zstd")]
    ),
    ids=str,
)
def test_what_a_format_cannot_carry_is_counted(target: ConversionTarget) -> None:
    found = set[str]()
    for name, data, lines in sources():
        _, totals = convert(data, target)
        expected = expected_losses(lines, target)
        assert dict(totals.lost) == expected, name
        found |= set(expected)
        batches = [line for line in lines if line["type"] == "batch"]
        assert (totals.batches_in, totals.bytes_in) == (len(batches), sum(each["sizeInBytes"] for each in batches))
        assert totals.records_in == len(list(of_type(lines, "record"))), name
    if target.magic != 2:
        assert found | {"timestamps", "noTimestamps", "zstd"} == set(LOST)


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_a_batch_keeps_its_boundaries_and_all_that_its_header_says(codec: str) -> None:
    for name, data, _ in sources():
        source = read_headers(buffer_of(data), scan_batches(buffer_of(data)).positions)
        if source.is_legacy.any():
            continue
        converted, _ = convert(data, ConversionTarget(2, codec))
        result = read_headers(buffer_of(converted), scan_batches(buffer_of(converted)).positions)
        written = (source.codec != layouts.CODECS.index(codec)) & (source.count > 0)
        append_time = written & (source.timestamp_type == layouts.LOG_APPEND_TIME) & ~source.has_delete_horizon
        base_timestamp = np.where(append_time, source.max_timestamp, source.base_timestamp)
        np.testing.assert_array_equal(result.base_timestamp, base_timestamp, name)
        for field in set(layouts.BATCH_V2.names or ()) - {"size", "crc", "attributes", "base_timestamp"}:
            np.testing.assert_array_equal(result.v2[field], source.v2[field], f"{name} {field}")
        np.testing.assert_array_equal(result.attributes & ~7, source.attributes & ~7, name)


def test_zstd_is_no_codec_of_the_older_formats() -> None:
    with pytest.raises(UsageError, match="zstd"):
        ConversionTarget(1, "zstd")


def test_older_formats_have_gzip_instead_of_zstd() -> None:
    for case in cases("formats"):
        converted, totals = convert(case.log.read_bytes(), ConversionTarget(codec="zstd"))
        result = read_headers(buffer_of(converted), scan_batches(buffer_of(converted)).positions)
        old = result.is_legacy
        assert (result.codec == np.where(old, layouts.CODECS.index("gzip"), layouts.CODECS.index("zstd"))).all()
        assert totals.lost["zstd"] == (totals.batches_in if old.any() else 0)


def test_what_is_converted_does_not_depend_on_how_it_comes() -> None:
    for case in cases("specials"):
        for target in (ConversionTarget(2, "none", batch_size=3000), ConversionTarget(1, "none")):
            data = case.log.read_bytes()
            buffer = buffer_of(data)
            converter = Converter(target)
            batches = read_headers(buffer, scan_batches(buffer).positions)
            pieces = [*converter.convert(buffer, batches), *converter.flush()]
            assert b"".join(piece.buffer.tobytes() for piece in pieces) == convert(data, target)[0], case


TARGETS = [
    ConversionTarget(2, "lz4"),
    ConversionTarget(2, "zstd"),
    ConversionTarget(1, "gzip"),
    ConversionTarget(0, "none", batch_size=300),
    ConversionTarget(),
]


@pytest.mark.parametrize("target", some_quick(TARGETS, len(TARGETS)), ids=str)
def test_damage_is_told_and_stops_nothing(target: ConversionTarget) -> None:
    """Also within what is handed on as it is."""
    told = 0
    for case in cases("damaged", "framing"):
        for log in case.logs:
            buffer = buffer_of(log.read_bytes())
            batches = read_headers(buffer, scan_batches(buffer).positions)
            sound = batches.take(checksums_match(buffer, batches))
            converter = Converter(target, max_batch_bytes=4 << 20)
            damages = [each for piece in converter.convert(buffer, sound) for each in piece.damages]
            list(converter.flush())
            broken = {line["position"] for line in of_type(case.expected(), "error") if line["phase"] == "records"}
            dropped = set(sound.positions[(sound.is_control | (sound.count == 0)) & (target.magic != 2)].tolist())
            assert broken - dropped <= {each.position for each in damages}, case
            told += len(damages)
    assert told > 50


def row_as_converted(row: Line, magic: int) -> Line:
    if magic < 2:
        row = row | {"headers": [], "sequence": -1}
    if magic == 0:
        return row | {"timestamp": -1, "timestampType": "NoTimestampType"}
    return row | {"timestampType": row["timestampType"].replace("NoTimestampType", "CreateTime")}


def upward() -> list[Case]:
    """Kafka converts upwards only what is produced, and then it also counts offsets anew."""
    named = [(case, re.search(r"/v(\d)-(\w+-)?to-v(\d)-", case.name)) for case in cases("append")]
    found = [case for case, match in named if match is not None and match[1] < match[3]]
    return [case for case in found if case.case_json()["timestampType"] == "CreateTime"]


@pytest.mark.parametrize("case", upward(), ids=str)
def test_older_formats_become_newer_ones_as_kafka_converts_them(case: Case) -> None:
    facts = case.case_json()
    source, kafka = ((case.path / name).read_bytes() for name in ("input.bin", "output.bin"))
    converted, _ = convert(source, ConversionTarget(facts["toMagic"], facts["targetCompression"]))
    first = records(buffer_of(source))[0]["offset"]
    ours, theirs = records(buffer_of(converted)), records(buffer_of(kafka))
    moved = [row | {"offset": row["offset"] - first + facts["firstOffset"]} for row in ours]
    assert moved == theirs
    if facts["targetCompression"] == "none" and facts["toMagic"] == 2:
        # Offset and leader epoch are not in the checksum.
        assert converted[layouts.MAGIC_POSITION :] == kafka[layouts.MAGIC_POSITION :]


BYTES = st.none() | st.binary(max_size=20)
ROWS = st.lists(
    st.tuples(
        st.integers(1, 3) | st.just(2**20),
        st.just(-1) | st.integers(0, 2**42),
        BYTES,
        BYTES,
        st.lists(st.tuples(st.text(max_size=3), BYTES), max_size=2),
    ),
    min_size=1,
    max_size=8,
)
BATCHES = st.lists(
    st.tuples(ROWS, st.sampled_from(layouts.CODECS), st.booleans(), st.integers(-1, 1), st.integers(-1, 1)), max_size=6
)
ANY_TARGET = st.builds(
    ConversionTarget,
    st.sampled_from([None, 0, 1, 2]),
    st.sampled_from([None, "none", "gzip", "snappy", "lz4"]),
    st.none(),
    st.none() | st.integers(1, 500),
)


def log_of(batches: list[Any]) -> bytes:
    """v2 batches of rows, with rising offsets; a producer counts its own records."""
    offset, pieces, sequences = 0, list[bytes](), {0: 2**31 - 4, 1: 0}
    for rows_, codec, is_append_time, producer, epoch in batches:
        steps = np.cumsum([row[0] for row in rows_])
        columns = columns_of(
            pa.RecordBatch.from_pydict(
                {
                    "offset": offset + steps,
                    "timestamp": [77 if is_append_time else row[1] for row in rows_],
                    "timestampType": [int(is_append_time)] * len(rows_),
                    "key": [row[2] for row in rows_],
                    "value": [row[3] for row in rows_],
                    "headers": [[{"key": key, "value": value} for key, value in row[4]] for row in rows_],
                },
                schema=pa.schema([RECORDS.field(name) for name in ROW_COLUMNS]),
            )
        )
        starts = np.array([0, len(rows_)])
        headers = build_headers(columns, starts)
        headers["partition_leader_epoch"] = epoch
        if producer >= 0:
            headers["producer_id"], headers["producer_epoch"] = producer, 0
            headers["base_sequence"] = sequences[producer]
            sequences[producer] = (sequences[producer] + int(headers["last_offset_delta"][0]) + 1) % 2**31
        pieces.append(Encoder(2, codec).encode(columns, starts, headers).tobytes())
        offset = int(columns.offset[-1])
    return b"".join(pieces)


ROW_COLUMNS = ("offset", "timestamp", "timestampType", "key", "value", "headers")


@examples(100)
@given(BATCHES, st.lists(ANY_TARGET, min_size=1, max_size=4))
def test_any_records_survive_any_chain_of_conversions(batches: list[Any], targets: list[ConversionTarget]) -> None:
    log = log_of(batches)
    magic, expected = 2, records(buffer_of(log))
    for target in targets:
        log, totals = convert(log, target)
        magic = magic if target.magic is None else target.magic
        expected = [row_as_converted(row, magic) for row in expected]
        assert records(buffer_of(log)) == expected
        result = read_headers(buffer_of(log), scan_batches(buffer_of(log)).positions)
        assert totals.records_out == len(expected)
        assert totals.batches_out == len(result)
        assert (result.entry_offset[1:] > result.last_offset[:-1]).all()


def test_a_fetch_of_negative_timestamps_is_refused_as_by_kafkas_builder() -> None:
    log = log_of([([(1, -7, None, b"value", [])], "none", False, -1, 0)])
    with pytest.raises(UsageError, match="negative"):
        down_convert(buffer_of(log), 1, 0)
    assert records(buffer_of(convert(log, ConversionTarget(1))[0]))[0]["timestamp"] == -7
