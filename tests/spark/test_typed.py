"""The option ``decode``: keys and values are typed columns, known before a row is read, and equal Python's."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path

import fastavro
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.typed.logs import write_log

import brokerless
from brokerless.typed.registry import Schema

FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "counts", "type": {"type": "map", "values": "int"}},
]
TEXT = json.dumps({"type": "record", "name": "Order", "fields": FIELDS})
ROW = {"id": 7, "price": Decimal("1.50"), "at": 1_700_000_000_000, "day": 3, "tags": [], "counts": {"a": 1}}


def payload(row: dict[str, object], text: str = TEXT) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), row)
    return b"\0\0\0\0\7" + out.getvalue()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = Schema("orders-value", 1, 7, "AVRO", TEXT)
    key = json.dumps({"keytype": "SCHEMA", "subject": own.subject, "version": 1, "magic": 1}).encode()
    value = json.dumps({"subject": own.subject, "version": 1, "id": 7, "schema": TEXT, "deleted": False}).encode()
    orders = [(b"k", payload(ROW)), (None, None), (b"k", b"\0\0\0\0\x08?")]
    topics = {"_schemas": [(key, value)], "orders": orders, "texts": [(b"k", b"text")]}
    return write_log(tmp_path_factory.mktemp("typed") / "log", topics)


def test_rows_are_those_of_python(spark: SparkSession, log: Path) -> None:
    frame = spark.read.format("brokerless").option("decode", "true").option("subscribe", "orders").load(str(log))
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,price:decimal(9,2),at:timestamp,day:date,tags:array<string>,counts:map<string,int>>"
    )
    rows = frame.orderBy("offset").collect()
    ours = brokerless.open(log).partition("orders", 0).records(decode=True, on_damage=lambda _: None).read_all()
    first = ours["value"][0].as_py()
    assert rows[0].value.asDict() | {"at": None} == first | {"counts": dict(first["counts"]), "at": None}
    assert rows[0].value.at.timestamp() == pytest.approx(first["at"].timestamp())
    assert [row.key for row in rows] == ["k", None, "k"]
    assert [row.valueError for row in rows] == [None, None, "unknown schema id 8 (confluent)"]
    assert bytes(rows[2].valueRaw) == b"\0\0\0\0\x08?"
    assert frame.where("value.id = 7").count() == 1


def test_topics_of_different_types_are_refused(spark: SparkSession, log: Path) -> None:
    reader = spark.read.format("brokerless").option("decode", "auto").option("subscribe", "orders,texts")
    with pytest.raises(AnalysisException, match="have different types"):
        reader.load(str(log))


def test_records_are_the_messages_that_they_name(spark: SparkSession, tmp_path: Path) -> None:
    proto = 'syntax = "proto3"; package p; message First { int32 x = 1; } message Second { string b = 1; }'
    key = json.dumps({"keytype": "SCHEMA", "subject": "events-value", "version": 1, "magic": 1}).encode()
    schema = {"subject": "events-value", "version": 1, "id": 1, "schemaType": "PROTOBUF", "schema": proto}
    second = b"\0\0\0\0\1\2\2" + b"\x0a\1x"  # the second message of the file, whose first field is x
    log = write_log(tmp_path, {"_schemas": [(key, json.dumps(schema).encode())], "events": [(b"k", second)]})
    frame = spark.read.format("brokerless").option("decode", "true").option("subscribe", "events").load(str(log))
    assert [(row.value.asDict(), row.valueError) for row in frame.collect()] == [({"b": "x"}, None)]


def test_times_that_spark_has_no_value_for_are_null_and_keep_their_bytes(spark: SparkSession, tmp_path: Path) -> None:
    fields = [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ns", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
    ]
    text = json.dumps({"type": "record", "name": "T", "fields": fields})
    rows = [{"at": -1, "day": 5, "ns": -1000}, {"at": (1 << 63) - 1, "day": (1 << 31) - 1, "ns": -1}]
    values = [payload(row, text) for row in rows]
    key = json.dumps({"keytype": "SCHEMA", "subject": "t-value", "version": 1, "magic": 1}).encode()
    schema = json.dumps({"subject": "t-value", "version": 1, "id": 7, "schema": text}).encode()
    log = write_log(tmp_path, {"_schemas": [(key, schema)], "t": [(b"k", each) for each in values]})
    frame = spark.read.format("brokerless").option("decode", "true").option("subscribe", "t").load(str(log))
    numbers = frame.orderBy("offset").selectExpr(
        "unix_micros(value.at) AS at", "unix_date(value.day) AS day", "unix_micros(value.ns) AS ns", "valueRaw"
    )
    assert [tuple(row) for row in numbers.collect()] == [(-1000, 5, -1, None), (None, None, -1, values[1])]


def test_times_that_nanoseconds_do_not_hold_are_read_as_spark_has_microseconds(
    spark: SparkSession, tmp_path: Path
) -> None:
    proto = (
        'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp at = 1; }'
    )
    key = json.dumps({"keytype": "SCHEMA", "subject": "t-value", "version": 1, "magic": 1}).encode()
    schema = {"subject": "t-value", "version": 1, "id": 1, "schemaType": "PROTOBUF", "schema": proto}
    first, last = -62_135_596_800, 253_402_300_799  # of the years 1 to 9999
    times = [(first, 0), (last, 999_999_000), (last, 999_999_999), (first - 1, 0)]
    bodies = [Timestamp(seconds=seconds, nanos=nanos).SerializeToString() for seconds, nanos in times]
    values = [b"\0\0\0\0\1\0\x0a" + bytes([len(each)]) + each for each in bodies]
    log = write_log(
        tmp_path, {"_schemas": [(key, json.dumps(schema).encode())], "t": [(b"k", each) for each in values]}
    )
    frame = spark.read.format("brokerless").option("decode", "true").option("subscribe", "t").load(str(log))
    found = frame.orderBy("offset").selectExpr("unix_micros(value.at)", "valueRaw", "valueError").collect()
    latest = last * 10**6 + 999_999
    assert [tuple(row) for row in found] == [
        (first * 10**6, None, None),
        (latest, None, None),
        (latest, values[2], "field at: what is finer than a microsecond is left out"),
        (None, values[3], "field at: a timestamp outside of the years 1 to 9999 is left out"),
    ]


def test_a_field_with_the_name_of_one_that_was_renamed_is_a_column_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    new = [{"name": "b", "type": "int", "aliases": ["a"]}, {"name": "a", "type": "string", "default": "new"}]
    texts = [
        json.dumps({"type": "record", "name": "R", "fields": fields})
        for fields in ([{"name": "a", "type": "int"}], new)
    ]
    registered: list[tuple[bytes, bytes]] = []
    for number, text in enumerate(texts, 1):
        key = {"keytype": "SCHEMA", "subject": "t-value", "version": number, "magic": 1}
        schema = {"subject": "t-value", "version": number, "id": number, "schema": text}
        registered.append((json.dumps(key).encode(), json.dumps(schema).encode()))
    values = [b"\0\0\0\0\1\2", b"\0\0\0\0\2\4\2x"]
    log = write_log(tmp_path, {"_schemas": registered, "t": [(b"k", each) for each in values]})
    frame = spark.read.format("brokerless").option("decode", "true").option("subscribe", "t").load(str(log))
    assert [row.value.asDict() for row in frame.orderBy("offset").collect()] == [
        {"b": 1, "a": "new"},
        {"b": 2, "a": "x"},
    ]
