"""Whole numbers with a title of Connect's times, as Confluent's JsonSchemaConverter writes them, are times."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.jobs.tables import FORMATS, exported, log_of, table

from brokerless.table_formats.catalog import TableFormat
from brokerless.typed.framing import Frame
from brokerless.typed.json.schema import json_arrow_type, json_decoder
from brokerless.typed.merge import merge
from brokerless.typed.plain import CONNECT_TIMES
from brokerless.typed.registry import Schema
from brokerless.typed.topic_type import Decoding

CONNECT = "org.apache.kafka.connect.data."
TIMESTAMP_MS, DATE, TIME_MS = (pa.timestamp("ms", "UTC"), pa.date32(), pa.time32("ms"))


def of(name: str, index: int, *, is_optional: bool = False) -> dict[str, Any]:
    """A field as ``JsonSchemaData.fromConnectSchema`` writes it."""
    kind = "int64" if name == "Timestamp" else "int32"
    own = {"type": "integer", "title": CONNECT + name, "connect.version": 1, "connect.type": kind}
    if is_optional:
        return {"connect.index": index, "oneOf": [{"type": "null"}, own]}
    return {**own, "connect.index": index}


def schema_of(**fields: Any) -> Schema:
    document = {"type": "object", "title": "Order", "properties": fields}
    return Schema("orders-value", 1, 1, "JSON", json.dumps(document))


TIMES = schema_of(
    at=of("Timestamp", 0), day=of("Date", 1, is_optional=True), opens=of("Time", 2), count={"type": "integer"},
    all={"type": "array", "items": of("Timestamp", 0)},
)  # fmt: skip
TYPE = json_arrow_type(TIMES)
ROW = {"at": 1_700_000_000_123, "day": 19_000, "opens": 3_600_000, "count": 5, "all": [0, 1]}
READ = {
    "at": datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC), "day": date(2022, 1, 8), "opens": time(1), "count": 5,
    "all": [datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)],
}  # fmt: skip


def decode(schema: Schema, target: pa.DataType, *rows: Any) -> tuple[list[Any], dict[int, str]]:
    texts = [json.dumps(row).encode() for row in rows]
    ends = np.cumsum([len(each) for each in texts])
    starts = np.concatenate([[0], ends[:-1]])
    data = np.frombuffer(b"".join(texts), np.uint8)
    column, reasons = json_decoder(schema, target)(Frame("confluent", 1), data, starts, ends)
    assert column.type == target
    return column.to_pylist(), {row: str(reason) for row, reason in reasons.items()}


def test_titles_of_connects_classes_are_times_wherever_they_are() -> None:
    types = {"at": TIMESTAMP_MS, "day": DATE, "opens": TIME_MS, "count": pa.int64(), "all": pa.list_(TIMESTAMP_MS)}
    assert {each.name: each.type for each in TYPE} == types
    without = {"at": -1, "day": None, "opens": 0, "all": []}
    found, reasons = decode(TIMES, TYPE, ROW, without)
    assert (found[0], reasons) == (READ, {})
    assert (found[1]["at"], found[1]["day"]) == (datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC), None)
    values = schema_of(times={"type": "object", "additionalProperties": of("Date", 0)})
    (found, _) = decode(values, json_arrow_type(values), {"times": {"a": 0}})
    assert dict(found[0]["times"]) == {"a": date(1970, 1, 1)}


def test_numbers_that_are_no_such_time_leave_out_themselves() -> None:
    found, reasons = decode(TIMES, TYPE, {**ROW, "day": 1 << 40}, ROW)
    assert (found, reasons) == (
        [{**READ, "day": None}, READ],
        {0: "field day: a time that date32[day] does not hold is left out"},
    )
    found, reasons = decode(TIMES, TYPE, {**ROW, "at": "2023-11-14"}, ROW)
    assert (found, reasons) == ([None, READ], {0: 'not as its schema says: $.at: against type: "integer"'})


@pytest.mark.parametrize("rule", [
    {"type": "string", "title": CONNECT + "Timestamp"}, {"type": "integer", "title": "Timestamp"},
    {"type": "number", "title": CONNECT + "Timestamp"}, {"type": "integer", "title": ["Timestamp"]},
])  # fmt: skip
def test_other_titles_and_types_are_no_times(rule: dict[str, Any]) -> None:
    assert json_arrow_type(schema_of(at=rule)).field("at").type not in CONNECT_TIMES.values()


def test_a_number_of_an_earlier_version_and_a_time_are_text_in_one_column() -> None:
    numbers = schema_of(at={"type": "integer"})
    both = merge(TYPE, json_arrow_type(numbers))
    assert decode(TIMES, both, ROW)[0][0]["at"] == "2023-11-14T22:13:20.123Z"
    assert decode(numbers, both, {"at": 5})[0][0]["at"] == "5"


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_that_has_numbers_for_them_goes_on_with_numbers(form: TableFormat, tmp_path: Path) -> None:
    """As of an earlier version of brokerless."""
    for night, schema in enumerate((schema_of(at={"type": "integer"}), schema_of(at=of("Timestamp", 0)))):
        key = {"keytype": "SCHEMA", "subject": "orders-value", "version": 1, "magic": 1}
        value = {"subject": "orders-value", "version": 1, "id": 1, "schemaType": "JSON", "schema": schema.text}
        line = json.dumps({"key": json.dumps(key), "value": json.dumps({**value, "deleted": False})})
        (tmp_path / "schemas.jsonl").write_text(line)
        log_of(tmp_path / "orders-0", [b"\0\0\0\0\1" + json.dumps({"at": night}).encode()], first=night)
        exported(tmp_path / "orders-0", tmp_path / "to", form, decoding=Decoding(str(tmp_path / "schemas.jsonl")))
    assert [row["value"] for row in table(tmp_path / "to", "orders", form)] == [{"at": 0}, {"at": 1}]
