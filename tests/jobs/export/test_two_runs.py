"""All pairs of types, one run after the other: the column's type stays, what is stored is what was written, and what
does not fit has its bytes and a reason. Judges are fastavro, json_format, Python's json, and arithmetic."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import json_format
from tests.examples import some_quick
from tests.jobs.tables import FORMATS, READERS, avro, exported, log_of

from brokerless import arrow
from brokerless.findings import Finding
from brokerless.schemas import HEADERS
from brokerless.table_formats.catalog import TableFormat
from brokerless.table_formats.column_types import decoded_type, evolved_type
from brokerless.table_formats.parquet_files import SCHEMA
from brokerless.table_formats.rows import RowMaker, table_schema
from brokerless.table_formats.times_of_day import dump, physical_schema, with_times
from brokerless.typed.decode import decode_batch
from brokerless.typed.protobuf.files import message_types
from brokerless.typed.registry import Registry, Schema
from brokerless.typed.resolve import resolve_topic
from brokerless.typed.topic_type import Decoding, KnownColumn

pytestmark = pytest.mark.xdist_group("exported")
EPOCH = datetime(1970, 1, 1)
Meaning = tuple[str, Any]
"""What a value is, and which one, however it is stored."""


@dataclass(frozen=True)
class Case:
    """A schema (None for plain JSON), a payload of it, and what an outside reader makes of its field ``f``."""

    name: str
    schema: Schema | None
    payload: bytes
    meaning: Meaning | None


def meaning_of(value: Any, kind: str = "") -> Meaning | None:
    """Of what fastavro, json or json_format give."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, (int, float, Decimal)):
        return "number", Fraction(value)
    if isinstance(value, datetime):
        is_local = value.tzinfo is None
        since = value.replace(tzinfo=None) - EPOCH
        return "local" if is_local else "instant", Fraction(round(since.total_seconds() * 10**6), 10**6)
    if isinstance(value, date):
        return "date", (value - EPOCH.date()).days
    if isinstance(value, time):
        return "time", value
    if isinstance(value, (str, UUID)):
        return "text", str(value)
    if isinstance(value, bytes):
        return "bytes", value
    if isinstance(value, list):
        return "list", [meaning_of(each) for each in value]
    return kind or "record", {name: meaning_of(each) for name, each in value.items()}


def avro_cases() -> list[Case]:
    def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "logicalType": name, **more}

    record = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    instant, local = datetime(2020, 1, 1, 0, 0, 0, 123000, UTC), datetime(2020, 1, 1, 0, 0, 0, 123000)
    types: list[tuple[Any, Any]] = [
        ("boolean", True), ("int", 5), ("long", 1_577_836_800_123), ("float", 1.5), ("double", 1e300),
        ("bytes", b"\xff"), ("string", "x"), ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ({"type": "fixed", "name": "F", "size": 2}, b"\xff\xfe"), (logical("int", "date"), date(2020, 1, 1)),
        (logical("int", "time-millis"), time(1, 2, 3)), (logical("long", "time-micros"), time(1, 2, 3, 5)),
        (logical("long", "timestamp-millis"), instant), (logical("long", "timestamp-micros"), instant),
        (logical("long", "local-timestamp-millis"), local), (logical("long", "local-timestamp-micros"), local),
        (logical("bytes", "decimal", precision=6, scale=2), Decimal("1.25")),
        (logical("bytes", "decimal", precision=10, scale=4), Decimal("1.2300")),
        (logical("bytes", "decimal", precision=10, scale=4), Decimal("1.2345")),
        (logical("string", "uuid"), UUID(int=5)), ({"type": "array", "items": "int"}, [1, 2]),
        ({"type": "array", "items": record}, [{"a": 1}]), ({"type": "map", "values": "long"}, {"k": 7}),
        ({"type": "array", "items": logical("int", "time-millis")}, [time(1, 2, 3)]),
        ({"type": "map", "values": logical("long", "time-micros")}, {"k": time(1, 2, 3, 5)}),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": logical("int", "time-millis")}]},
         {"a": time(1, 2, 3)}),
        (record, {"a": 1}), ({"type": "record", "name": "Q", "fields": []}, {}), (["null", "int"], None),
        (["null", "long"], 5),
    ]  # fmt: skip
    found: list[Case] = []
    for number, (type_, value) in enumerate(types, 1):
        schema = {"type": "record", "name": "T", "fields": [{"name": "f", "type": type_}]}
        parsed, out = fastavro.parse_schema(json.loads(json.dumps(schema))), io.BytesIO()
        fastavro.schemaless_writer(out, parsed, {"f": value})
        read = fastavro.schemaless_reader(io.BytesIO(out.getvalue()), parsed)["f"]
        kind = "map" if isinstance(type_, dict) and type_["type"] == "map" else "record"
        name = type_ if isinstance(type_, str) else json.dumps(type_)
        own = Schema("s", number, number, "AVRO", json.dumps(schema))
        found.append(Case(name, own, struct.pack(">bI", 0, number) + out.getvalue(), meaning_of(read, kind)))
    return found


def protobuf_cases() -> list[Case]:
    imports = "".join(
        f'import "google/protobuf/{each}.proto"; ' for each in ("timestamp", "duration", "empty", "struct", "wrappers")
    )
    types: list[tuple[str, Any, Callable[[Any], Meaning | None]]] = [
        ("int32", 5, meaning_of), ("int64", "1577836800123", lambda each: ("number", Fraction(each))),
        ("uint64", "18446744073709551615", lambda each: ("number", Fraction(each))), ("double", 1.5, meaning_of),
        ("float", 0.5, meaning_of), ("bool", True, meaning_of), ("string", "x", meaning_of),
        ("bytes", "/w==", lambda each: ("bytes", base64.b64decode(each))), ("E", "B", meaning_of),
        ("google.protobuf.Timestamp", "2020-01-01T00:00:00Z",
         lambda each: meaning_of(datetime.fromisoformat(each.replace("Z", "+00:00")))),
        ("google.protobuf.Duration", "7s",
         lambda each: ("record", {"seconds": ("number", int(each[:-1])), "nanos": ("number", 0)})),
        ("M", {"a": 1}, meaning_of), ("google.protobuf.Empty", {}, meaning_of), ("repeated int32", [1, 2], meaning_of),
        ("repeated M", [{"a": 1}], meaning_of), ("map<string, int32>", {"k": 7}, lambda each: meaning_of(each, "map")),
        ("google.protobuf.Struct", {"x": 1.0}, lambda each: ("json", each)),
        ("google.protobuf.Int64Value", "5", lambda each: ("number", Fraction(each))),
    ]  # fmt: skip
    found: list[Case] = []
    for number, (type_, value, meaning) in enumerate(types, 1):
        text = f'syntax = "proto3"; {imports} message T {{ {type_} f = 1; }} '
        text += "message M { int32 a = 1; } enum E { A = 0; B = 1; }"
        own = Schema("s", number, number, "PROTOBUF", text)
        message = json_format.ParseDict({"f": value}, message_types(own).message_class((0,))())
        read = json_format.MessageToDict(message, preserving_proto_field_name=True)["f"]
        found.append(Case(type_, own, struct.pack(">bIb", 0, number, 0) + message.SerializeToString(), meaning(read)))
    return found


def json_cases(schemas: bool) -> list[Case]:
    types: list[tuple[str, Any]] = [
        ("boolean", True), ("integer", 5), ("integer", (1 << 53) + 1), ("number", 1.5), ("string", "x"),
        ("object", {"a": 1}), ("object", {"b": "y"}), ("array", [1, 2]), ("array", ["x"]), ("array", [{"a": 1}]),
    ]  # fmt: skip
    if not schemas:
        types += [("null", None), ("object", {}), ("integer", 1 << 70), ("array", [])]
        types += [("array", each) for each in ([None], [[]], [{}], [None, 2], [[1]], [{"a": None}], [True], [1.5])]
        types += [("object", each) for each in ({"a": None}, {"a": []}, {"a": [1]}, {"a": {}}, {"a": {"b": 1}})]
    found: list[Case] = []
    for number, (kind, value) in enumerate(types, 1):
        data = json.dumps({"f": value}).encode()
        own = None
        if schemas:
            rule: dict[str, Any] = {"type": kind}
            if kind == "object":
                rule["properties"] = {name: {"type": "integer" if name == "a" else "string"} for name in value}
            if kind == "array":
                item = value[0]
                rule["items"] = {"type": {int: "integer", str: "string", dict: "object"}[type(item)]}
                if isinstance(item, dict):
                    rule["items"]["properties"] = {"a": {"type": "integer"}}
            document = {"type": "object", "properties": {"f": rule}}
            own = Schema("s", number, number, "JSON", json.dumps(document))
            data = struct.pack(">bI", 0, number) + data
        found.append(Case(f"{kind} {value}", own, data, meaning_of(value)))
    return found


CASES = {
    "avro": avro_cases,
    "protobuf": protobuf_cases,
    "json": lambda: json_cases(False),
    "json-schema": lambda: json_cases(True),
}


def run(form: TableFormat, cases: list[Case], table: pa.Schema | None) -> tuple[pa.Schema, list[dict[str, Any]], Any]:
    """A run's table, the rows that it adds, and the type of ``value`` there: what a job does, without its files."""
    registry, count = Registry(), len(cases)
    for case in cases:
        if case.schema is not None:
            registry.by_id[".", case.schema.id] = case.schema
    columns: dict[str, Any] = {
        "key": pa.array([None] * count, pa.binary()), "value": pa.array([each.payload for each in cases], pa.binary()),
        "partition": pa.array([0] * count, pa.int32()), "offset": pa.array(range(count), pa.int64()),
        "timestamp": pa.array([0] * count, pa.int64()), "timestampType": pa.array([0] * count, pa.int8()),
        "headers": pa.array([[]] * count, HEADERS),
    }  # fmt: skip
    batch = pa.RecordBatch.from_arrays([columns[each.name].cast(each.type) for each in SCHEMA], schema=SCHEMA)
    known = None if table is None else {name: KnownColumn(table.field(name).type) for name in ("key", "value")}
    decoding = Decoding(value_format="json" if cases[0].schema is None else "auto")
    found = resolve_topic("t", [], decoding, registry, batches=[batch], known=known).with_nulls()
    wanted = table_schema(found.schema(SCHEMA), form)
    if table is not None:
        types = {"key": found.key.type, "value": found.value.type}
        evolved = [evolved_type(table.field(each.name).type, types.get(each.name, each.type), form) for each in wanted]
        wanted = pa.schema([pa.field(each.name, type_) for each, type_ in zip(wanted, evolved, strict=True)])
    found = replace(
        found,
        key=replace(found.key, type=decoded_type(wanted.field("key").type, found.key.type, form)),
        value=replace(found.value, type=decoded_type(wanted.field("value").type, found.value.type, form)),
    )
    rows = RowMaker("t", physical_schema(wanted))(decode_batch(found, batch))
    rows.validate(full=True)
    assert with_times(rows.schema, dump(wanted)) == wanted  # as the next run reads it
    names = ("value", "valueRaw", "valueError")
    found_rows = zip(*(arrow.values(rows.column(name)) for name in names), strict=True)
    return wanted, [dict(zip(names, row, strict=True)) for row in found_rows], wanted.field("value").type


def stored_meaning(value: Any, type_: Any) -> Meaning | None:
    """Of a table's value, by its column's type; times are numbers."""
    t = pa.types
    if value is None:
        return None
    if t.is_struct(type_):
        return "record", {field.name: stored_meaning(value[field.name], field.type) for field in type_}
    if t.is_list(type_):
        return "list", [stored_meaning(each, type_.value_type) for each in value]
    if t.is_map(type_):
        return "map", {key: stored_meaning(each, type_.item_type) for key, each in value}
    if t.is_timestamp(type_):
        return "instant" if type_.tz else "local", Fraction(value, 10**6)
    if t.is_date(type_):
        return "date", value
    if t.is_time(type_):
        return "time", (datetime.min + timedelta(microseconds=value)).time()
    if t.is_boolean(type_):
        return "bool", value
    if t.is_string(type_):
        return "text", value
    return ("bytes", value) if t.is_binary(type_) else ("number", Fraction(value))


def is_same(stored: Meaning | None, written: Meaning | None) -> bool:
    """Whether what is stored is what was written: as text, in words or in JSON."""
    if written is None or stored is None:
        return stored is written
    if stored[0] == "text" and written[0] != "text":
        return is_text_of(stored[1], written)
    if (stored[0], written[0]) == ("bytes", "text"):
        return stored[1] == written[1].encode()
    if (stored[0], written[0]) == ("bytes", "json"):
        return json.loads(stored[1]) == written[1]
    if stored[0] != written[0]:
        return False
    if stored[0] == "list":
        pairs = zip(stored[1], written[1], strict=False)
        return len(stored[1]) == len(written[1]) and all(is_same(one, two) for one, two in pairs)
    if stored[0] in ("record", "map"):
        names = {name for name, each in stored[1].items() if each is not None} | set(written[1])
        return all(is_same(stored[1].get(name), written[1].get(name)) for name in names)
    return stored[1] == written[1]


def is_text_of(text: str, written: Meaning) -> bool:
    kind, value = written
    if kind in ("instant", "local"):
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return meaning_of(moment) == written
    if kind == "date":
        return meaning_of(date.fromisoformat(text)) == written
    if kind == "time":
        return time.fromisoformat(text) == value
    if kind == "record" and text == "7s":
        return value["seconds"] == ("number", 7)
    if kind == "number":
        digits = text.strip('"')
        return value in (Fraction(Decimal(digits)), Fraction(float(digits)))
    found = json.loads(text)
    if kind == "json":
        return found == value
    if kind == "bytes":
        return base64.b64decode(found["base64"]) == value
    return is_same(meaning_of(found, kind if kind == "map" else ""), written)


def has_to_fit(type_: Any, written: Meaning) -> bool:
    """Whether a column is made for what was written: by arithmetic."""
    t, (kind, value) = pa.types, written
    if kind == "number":
        if t.is_integer(type_):
            return value.denominator == 1 and abs(value) < 1 << type_.bit_width - 1
        if t.is_decimal(type_):
            scaled = value * 10**type_.scale
            return scaled.denominator == 1 and abs(scaled) < 10**type_.precision
        return t.is_float64(type_) and abs(value) < 10**308 and Fraction(float(value)) == value
    if kind in ("instant", "local"):
        return t.is_timestamp(type_) and (type_.tz is not None) == (kind == "instant")
    kinds = {"bool": t.is_boolean, "text": t.is_string, "bytes": t.is_binary, "date": t.is_date, "time": t.is_time}
    return kind in kinds and kinds[kind](type_)


@pytest.mark.parametrize("format_", some_quick([*CASES], len(CASES)))
@pytest.mark.parametrize("form", some_quick([*FORMATS], len(FORMATS)))
def test_a_second_run_stores_what_was_written_or_its_bytes(form: TableFormat, format_: str) -> None:
    cases = CASES[format_]()
    pairs = fitting = 0
    for one in cases:
        table, (first,), _ = run(form, [one], None)
        before = table.field("value").type
        check(one, first, before)
        for number, two in enumerate(cases):
            # A registry has no two schemas of one number; plain JSON has none.
            own = two if two.schema is None else replace(two, schema=replace(two.schema, version=100 + number))
            evolved, (row,), now = run(form, [own], table)
            kept, column = before.field("f").type, now.field("f").type
            stored = row["value"]
            pairs += 1
            fitting += stored is not None and stored["f"] is not None
            if not pa.types.is_nested(kept) and form == "delta":
                assert column == kept, (one.name, two.name)
            check(two, row, now)
            assert evolved.names == table.names
    assert pairs == len(cases) ** 2
    assert fitting > len(cases)


@pytest.mark.parametrize("format_", some_quick([*CASES], len(CASES)))
def test_one_run_stores_both(format_: str) -> None:
    """In a column that holds both types, or in text."""
    cases = CASES[format_]()
    for one in cases:
        for two in cases:
            _, rows, type_ = run("iceberg", [one, two], None)
            for case, row in zip((one, two), rows, strict=True):
                check(case, row, type_)


def check(case: Case, row: dict[str, Any], type_: Any) -> None:
    value, column = row["value"], type_.field("f").type
    if row["valueError"] is not None:
        assert row["valueRaw"] == case.payload
        assert value is None or "is left out" in row["valueError"], (case.name, row)
        assert case.meaning is not None
        binary = pa.types.is_floating(column), case.name in ("float", "double")
        decimal = pa.types.is_decimal(column), "decimal" in case.name
        is_rounded = binary == decimal[::-1] and any(binary)  # by a rule, not by its digits
        assert is_rounded or not has_to_fit(column, case.meaning), (case.name, str(column), row)
        return
    assert row["valueRaw"] is None
    assert value is not None
    assert is_same(stored_meaning(value["f"], column), case.meaning), (case.name, str(column), value)


PAIRS: tuple[tuple[Any, Any, Any, Any], ...] = (
    ({"type": "long", "logicalType": "timestamp-millis"}, 1_577_836_800_123, "long", 1_577_836_800_123),
    ({"type": "int", "logicalType": "date"}, 18_262, {"type": "long", "logicalType": "timestamp-micros"}, 5),
    ("int", 5, {"type": "array", "items": "int"}, [1]),
    ("int", 5, {"type": "map", "values": "int"}, {"k": 1}),
    ("double", 0.5, {"type": "int", "logicalType": "date"}, 18_262),
    ({"type": "array", "items": "int"}, [1], {"type": "record", "name": "R", "fields": []}, {}),
    ({"type": "int", "logicalType": "time-millis"}, 3_723_000, "long", 5),
    ("long", 5, {"type": "long", "logicalType": "time-micros"}, 3_723_000_005),
)


@pytest.mark.parametrize("form", FORMATS)
def test_what_does_not_fit_stops_no_run_of_a_job(form: TableFormat, tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    plain = {
        "timestamp-millis": "long", "timestamp-micros": "long", "date": "int", "time-millis": "int",
        "time-micros": "long",
    }  # fmt: skip
    values: list[list[bytes]] = []
    for number, (one, first, two, second) in enumerate(PAIRS):
        values.append([])
        for at, (type_, value) in enumerate(((one, first), (two, second))):
            schema = {"type": "record", "name": "T", "fields": [{"name": "f", "type": type_}]}
            schema_id = 2 * number + at + 1
            (tmp_path / "schemas" / f"{schema_id}.avsc").write_text(json.dumps(schema))
            raw = plain.get(type_.get("logicalType", ""), type_) if isinstance(type_, dict) else type_
            own = {**schema, "fields": [{"name": "f", "type": raw}]}
            values[-1].append(avro(own, schema_id, {"f": value}))
    decoding = Decoding(str(tmp_path / "schemas"))
    for offset in (0, 1):
        for number, own in enumerate(values):
            log_of(tmp_path / "logs" / f"t{number}-0", [own[offset]], first=offset)
        findings: list[Finding] = []
        exported(tmp_path / "logs", tmp_path / "out", form, findings, decoding=decoding)
        assert len(findings) == offset * len(PAIRS)
        assert all(each.offset == 1 and "field f: " in each.message for each in findings)
    for number, own in enumerate(values):
        for read in READERS[:2] if form == "iceberg" else READERS:
            old, new = read(tmp_path / "out", f"t{number}", form)
            assert (old["valueRaw"], old["valueError"]) == (None, None)
            assert (new["value"], new["valueRaw"]) == (None, own[1])
            assert "does not fit into" in new["valueError"]


def debezium(op: str, before: Any, after: Any, **source: Any) -> bytes:
    """A change as Debezium writes it without schemas."""
    return json.dumps({"op": op, "before": before, "after": after, "source": {"ts": 1, **source}}).encode()


@pytest.mark.parametrize("form", FORMATS)
def test_a_field_that_is_null_in_the_first_run_gets_its_column_later(form: TableFormat, tmp_path: Path) -> None:
    """As ``before`` is in all records of a first snapshot; judges are the tables' own libraries, and Python's json."""
    snapshot = [debezium("r", None, {"id": n, "tags": [None], "note": None}, lsn=None) for n in range(100)]
    changes = [
        debezium("u", {"id": 1, "tags": [], "note": None}, {"id": 2, "tags": [], "note": "n"}, lsn=None),
        debezium("d", {"id": 1, "tags": ["x"], "note": None}, None, lsn=77),
    ]
    late = [debezium("u", {"id": 1, "tags": ["x"], "note": "m"}, None, lsn=78)]
    at, written = 0, list[bytes]()
    for values in (snapshot, changes, late):
        written += values
        log_of(tmp_path / "logs" / "t-0", values, first=at)
        at += len(values)
        exported(tmp_path / "logs", tmp_path / "out", form, decoding=Decoding())
        for read in READERS[:2] if form == "iceberg" else READERS:
            rows = read(tmp_path / "out", "t", form)
            assert [row["valueError"] for row in rows] == [None] * at
            wanted = [json.loads(each) for each in written]
            assert [without_nulls(row["value"]) for row in rows] == [without_nulls(each) for each in wanted]
            if values is snapshot:
                assert rows[0]["value"].keys() == {"op", "after", "source"}
                assert rows[0]["value"]["after"].keys() == {"id", "tags"}
            if values is late:
                assert rows[-1]["value"]["before"] == {"id": 1, "tags": ["x"], "note": "m"}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value
