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
from brokerless.format.batches import checksums_match, read_headers, walk
from brokerless.format.convert import Converted, Converter, DownConverted, Target, Totals, down_convert
from brokerless.format.decode import Decoder


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


@pytest.mark.parametrize(("version", "targets"), [("3.9.1", OLD), ("4.1.1", NEW)], ids=["3.9.1", "4.1.1"])
def test_kafkas_reader_finds_every_record_of_its_logs_in_every_format_and_codec(
    version: str, targets: list[Target], kafka_jars: Path, tmp_path: Path
) -> None:
    expected: dict[Path, tuple[str, Target, list[Line]]] = {}
    for number, (name, data, lines) in enumerate(sources()):
        is_large = re.match("clean|old-formats|specials/many", name)
        for target in [targets[number % len(targets)]] if is_large else targets:
            path = tmp_path / f"{len(expected)}.log"
            converted, totals = convert(data, target)
            path.write_bytes(converted)
            expected[path] = name, target, as_converted(lines, target)
            assert totals.bytes_out == len(converted)
            assert totals.records_out == len(expected[path][2]), (name, target)
    for path, lines in read_logs(expected, version).items():
        name, target, theirs = expected[path]
        assert [comparable(line) for line in of_type(lines, "record")] == theirs, (name, target)
        assert not list(of_type(lines, "error")), (name, target)
        for batch in of_type(lines, "batch"):
            assert batch["isValid"]
            assert target.magic is None or batch["magic"] == target.magic
            assert (
                target.codec is None
                or batch["compression"] == target.codec
                or batch["isControl"]
                or batch["count"] == 0
            )
