"""A table that Spark gave, beside what Kafka's reader says of the same files."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

Rows = list[dict[str, Any]]
TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
NOT_COLUMNS = {"type", "file", "batchPosition", "control", "controlError", "recordInvalid", "fieldErrors"}
_MS = 2**63 // 1000


def collect(frame: DataFrame) -> pa.Table:
    """All rows; timestamps as int64 microseconds, as Python's own cannot hold each that Kafka can."""
    columns = [f.unix_micros(name).alias(name) if type_ == "timestamp" else name for name, type_ in frame.dtypes]
    return frame.select(*columns).toArrow()


def by_file(table: pa.Table) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for row in table.to_pylist():
        found.setdefault(row["file"], []).append(row)
    return found


def milliseconds(micros: int | None) -> int | None:
    return None if micros is None else micros // 1000


def as_microseconds_hold(timestamp: int | None) -> int | None:
    """A timestamp (ms) that Spark can hold; null otherwise."""
    return timestamp if timestamp is not None and -_MS < timestamp < _MS else None


def record(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the records as a line of ``expected.jsonl``."""

    def text(name: str) -> dict[str, Any]:
        data = row[name]
        if data is None or len(data) <= 1024:
            return {name: encoded(data)}
        return {f"{name}Len": len(data), f"{name}Sha256": hashlib.sha256(data).hexdigest()}

    return {
        "offset": row["offset"],
        "timestamp": milliseconds(row["timestamp"]),
        "timestampType": TYPES[row["timestampType"]],
        **text("key"),
        **text("value"),
        "headers": [[each["key"], encoded(each["value"])] for each in row["headers"] or []],
        "sequence": row["sequence"],
    }


def encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def expected_record(line: dict[str, Any]) -> dict[str, Any]:
    line = {name: value for name, value in line.items() if name not in NOT_COLUMNS}
    return {**line, "timestamp": as_microseconds_hold(line["timestamp"])}


def compare_batches(rows: Rows, lines: Iterable[dict[str, Any]]) -> None:
    lines = list(lines)
    assert len(rows) == len(lines)
    for row, line in zip(rows, lines, strict=True):
        for name in line.keys() & row.keys() - {"file"}:
            if name.endswith("Timestamp"):
                assert milliseconds(row[name]) == as_microseconds_hold(line[name]), (name, row, line)
            else:
                assert row[name] == line[name], (name, row, line)


def compare_records(rows: Rows, lines: list[dict[str, Any]], cut: Collection[int] = ()) -> None:
    """Batch by batch: all records are Kafka's; where Kafka's reader failed, and at those positions that
    are ``cut``, only the batch's beginning counts."""
    failed = {line["position"] for line in lines if line["type"] == "error"}.union(cut)
    ours: dict[int, Rows] = {}
    theirs: dict[int, Rows] = {}
    for row in rows:
        ours.setdefault(row["batchPosition"], []).append(row)
    for line in lines:
        if line["type"] == "record":
            theirs.setdefault(line["batchPosition"], []).append(line)
    for position in ours.keys() | theirs.keys():
        our, their = ours.get(position, []), theirs.get(position, [])
        if position not in failed:
            assert len(our) == len(their), position
        for row, line in zip(our, their, strict=False):
            assert record(row) == expected_record(line)
