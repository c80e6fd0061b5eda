"""Decoded records equal what confluent-kafka's own deserializers give for the same bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaReference
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.schema_registry_client import Schema
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.typed.registries import client, registry_of

from brokerless.schemas import HEADERS
from brokerless.typed.decode import decode_batch
from brokerless.typed.registry import Registry, read_registry
from brokerless.typed.resolve import resolve_topic
from brokerless.typed.topic_type import Decoding, KnownColumn, SideType, TopicType

VALUE = SerializationContext("orders", MessageField.VALUE)


def batch(values: list[bytes | None], keys: list[bytes | None] | None = None, headers: Any = None) -> pa.RecordBatch:
    columns = {
        "key": pa.array(keys or [None] * len(values), pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array(headers or [[]] * len(values), HEADERS),
    }
    return pa.RecordBatch.from_pydict(columns)


def decoded(
    values: list[bytes | None], registry: Registry, decoding: Decoding | None = None, **given: Any
) -> tuple[TopicType, list[dict[str, Any]]]:
    own = batch(values, **given)
    topic_type = resolve_topic("orders", [], decoding or Decoding(), registry, batches=[own])
    found = decode_batch(topic_type, own)
    found.validate(full=True)
    assert found.schema == topic_type.schema(own.schema)
    return topic_type, found.to_pylist()


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)})


V1 = record({"name": "id", "type": "int"}, {"name": "user", "type": "string"}, {"name": "old", "type": "bytes"})
V2 = record({"name": "id", "type": "long"}, {"name": "user", "type": "string"},
            {"name": "note", "type": ["null", "string"], "default": None})  # fmt: skip
V3 = record({"name": "id", "type": "long"}, {"name": "customer", "type": "string", "aliases": ["user"]},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "lines", "type": {"type": "array", "items": "double"}, "default": [1.5]})  # fmt: skip


def test_three_versions_of_a_subject_are_one_type_with_all_their_fields() -> None:
    registry = client()
    rows = [
        (V1, {"id": 1, "user": "ann", "old": b"\x00\xff"}),
        (V2, {"id": 1 << 40, "user": "bob", "note": "hi"}),
        (V3, {"id": 3, "customer": "cy", "note": None, "lines": [0.25, -1.0]}),
    ]
    values = [AvroSerializer(registry, schema)(value, VALUE) for schema, value in rows]
    topic_type, found = decoded([*values, None], registry_of(registry))
    assert [(field.name, field.type) for field in topic_type.value.type] == [
        ("id", pa.int64()), ("customer", pa.string()), ("note", pa.string()), ("lines", pa.list_(pa.float64())),
        ("old", pa.binary()),
    ]  # fmt: skip
    deserialize = AvroDeserializer(registry)
    for value, own in zip(values, found, strict=False):
        theirs = deserialize(value, VALUE)
        assert theirs is not None
        theirs["customer"] = theirs.pop("user", theirs.get("customer"))
        assert own["value"] == {"note": None, "lines": [1.5], "old": None} | theirs
        assert (own["valueRaw"], own["valueError"]) == (None, None)
    assert (found[3]["value"], found[3]["valueRaw"], found[3]["valueError"]) == (None, None, None)
    assert sorted((each.id, each.records) for each in topic_type.value.schemas) == [(1, 1), (2, 1), (3, 1)]


def test_references_are_resolved_within_the_registry() -> None:
    registry = client()
    address = {"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "city", "type": "string"}]}
    registry.register_schema("address", Schema(json.dumps(address), "AVRO"))
    order = Schema(
        record({"name": "to", "type": "shop.Address"}), "AVRO", [SchemaReference("shop.Address", "address", 1)]
    )
    value = AvroSerializer(registry, order)({"to": {"city": "Oslo"}}, VALUE)
    _, found = decoded([value], registry_of(registry))
    assert found[0]["value"] == AvroDeserializer(registry)(value, VALUE) == {"to": {"city": "Oslo"}}


def test_what_cannot_be_decoded_keeps_its_bytes_and_says_why() -> None:
    registry = client()
    good = AvroSerializer(registry, V1)({"id": 1, "user": "ann", "old": b""}, VALUE)
    assert good is not None
    values = [good, good[:-3], good + b"!", b"\x00\x00\x00\x00\x63" + good[5:], b"plain", b"\x00"]
    topic_type, found = decoded(values, registry_of(registry))
    assert [each["valueError"] for each in found] == [
        None,
        "a length that goes past the payload's end",
        "bytes are left after the value",
        "unknown schema id 99 (confluent)",
        "no schema id: the bytes begin with none, and there is none in the headers",
        "no schema id: the bytes begin with none, and there is none in the headers",
    ]
    assert [each["valueRaw"] for each in found] == [None, *values[1:]]
    assert {(each.id, each.records, each.schema is None) for each in topic_type.value.schemas} == {
        (1, 3, False), (99, 1, True)
    }  # fmt: skip


def test_a_schema_that_cannot_be_used_is_not_called_unknown() -> None:
    key = json.dumps({"keytype": "SCHEMA", "subject": "orders-value", "version": 1, "magic": 1}).encode()
    for schema in ('{"type": "fixed", "name": "F", "size": -1}', '["null", ["null", "int"]]', "5", "{"):
        value = json.dumps({"subject": "orders-value", "version": 1, "id": 1, "schema": schema}).encode()
        _, (row,) = decoded([b"\0\0\0\0\1\2"], read_registry([(key, value)]))
        assert row["valueRaw"] == b"\0\0\0\0\1\2"
        assert row["valueError"].startswith("schema 1 cannot be used: ")


def test_json_by_its_schema() -> None:
    registry = client()
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object",
        "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["id"],
    }  # fmt: skip
    value = JSONSerializer(json.dumps(schema), registry)({"id": 5, "tags": ["a", "b"]}, VALUE)
    assert value is not None
    bad = value[:5] + b'{"tags": []}'
    topic_type, found = decoded([value, bad], registry_of(registry))
    theirs = JSONDeserializer(None, schema_registry_client=registry)
    assert found[0]["value"] == theirs(value, VALUE) == {"id": 5, "tags": ["a", "b"]}
    assert found[1]["valueError"] == "not as its schema says: $: 'id' is a required property"
    assert topic_type.value.type == pa.struct([("id", pa.int64()), ("tags", pa.list_(pa.string()))])


SLOW = "^(a+)+$"
"""Of which Python's ``re`` tries 2^40 ways to match forty times a, and b."""
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("rules", "good", "bad"),
    [
        ({"pattern": SLOW}, "aa", "a" * 40 + "b"),
        ({"$schema": DRAFT_7, "pattern": SLOW}, "aa", "a" * 40 + "b"),
        ({"propertyNames": {"pattern": SLOW}}, {"aa": 1}, {"a" * 40 + "b": 1}),
        ({"patternProperties": {SLOW: {}}, "additionalProperties": False}, {"aa": 1}, {"a" * 40 + "b": 1}),
        ({"patternProperties": {SLOW: {}}, "additionalProperties": {"type": "string"}}, {"aa": 1}, {"a" * 40 + "b": 1}),
    ],
)  # fmt: skip
def test_patterns_of_json_schema_take_linear_time(rules: dict[str, Any], good: Any, bad: Any) -> None:
    registry = client()
    schema = {"$schema": DRAFT_7, "title": "Order", "type": "object", "properties": {"a": rules}}
    value = JSONSerializer(json.dumps(schema), registry)({"a": good}, VALUE)
    assert value is not None
    _, found = decoded([value, value[:5] + json.dumps({"a": bad}).encode()], registry_of(registry))
    assert JSONDeserializer(None, schema_registry_client=registry)(value, VALUE) == {"a": good}
    assert [each["valueError"] is None for each in found] == [True, False]
    assert found[1]["valueError"].startswith("not as its schema says: $.a")


def test_values_without_a_schema_are_json_or_text_or_stay_bytes() -> None:
    for values, format_, type_ in (
        ([b'{"a": 1}', b'{"a": 2.5, "b": null}'], "json", pa.struct([("a", pa.float64()), ("b", pa.string())])),
        ([b"one", "zw\u00f6lf".encode()], "string", pa.string()),
        ([struct.pack(">q", 5)], "bytes", pa.binary()),
        ([b"\xff\xfe"], "bytes", pa.binary()),
    ):
        topic_type, found = decoded(values, read_registry([]))
        assert (topic_type.value.format, topic_type.value.type) == (format_, type_)
        assert all(each["valueError"] is None for each in found)


def test_connect_json_has_the_types_of_its_schema() -> None:
    schema = {"type": "struct", "fields": [
        {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
        {"field": "raw", "type": "bytes"}, {"field": "n", "type": "int32"}]}  # fmt: skip
    value = json.dumps({"schema": schema, "payload": {"at": 1000, "raw": "aGk=", "n": 3}}).encode()
    topic_type, found = decoded([value], read_registry([]))
    assert topic_type.value.format == "connect-json"
    assert topic_type.value.type.field("at").type == pa.timestamp("ms", tz="UTC")
    assert found[0]["value"]["raw"] == b"hi"
    assert found[0]["value"]["n"] == 3


def test_windowed_keys_of_streams() -> None:
    key = b"user-1" + struct.pack(">q", 60_000)
    session = b"user-1" + struct.pack(">qq", 90_000, 60_000)
    for format_, own in (("time-windowed:string", key), ("session-windowed:string", session)):
        _, found = decoded([b"x"], read_registry([]), Decoding(key_format=format_), keys=[own])
        assert found[0]["key"]["key"] == "user-1"
        assert found[0]["key"]["start"].timestamp() == 60
        if format_.startswith("session"):
            assert found[0]["key"]["end"].timestamp() == 90


def test_one_windowed_key_of_another_kind_does_not_change_the_type_that_a_table_has() -> None:
    keys = [each + struct.pack(">q", 60_000) for each in (b'{"id": 1}', b'["odd"]', b'{"id": 2, "new": true}')]
    batch = pa.RecordBatch.from_arrays([pa.array(keys, pa.binary()), pa.nulls(3, pa.binary())], names=["key", "value"])
    decoding = Decoding(key_format="time-windowed:json")
    key = pa.struct([("id", pa.int64())])
    window = pa.struct([("key", key), ("start", pa.timestamp("ms", tz="UTC"))])
    known = {"key": KnownColumn(window), "value": KnownColumn(pa.binary())}
    found = resolve_topic("t", [], decoding, read_registry([]), batches=[batch], known=known)
    assert found.key.type.field("key").type == pa.struct([("id", pa.int64()), ("new", pa.bool_())])
    rows = decode_batch(found, batch).to_pylist()
    assert [row["key"] and row["key"]["key"] for row in rows] == [{"id": 1, "new": None}, None, {"id": 2, "new": True}]
    assert [row["keyError"] is None for row in rows] == [True, False, True]


def test_an_id_in_a_header_counts() -> None:
    registry = client()
    value = AvroSerializer(registry, V1)({"id": 1, "user": "ann", "old": b""}, VALUE)
    assert value is not None
    headers = [[{"key": "x", "value": b""}, {"key": "__value_schema_id", "value": value[:5]}]]
    _, found = decoded([value[5:]], registry_of(registry), headers=headers)
    assert found[0]["value"]["user"] == "ann"


PIECES = [
    b"", b"a", "äé".encode(), "\U0001f600".encode(), b"\0", b"\xff", b"\xed\xa0\x80", b"\xc0\x80",
    b"\xf4\x90\x80\x80", b"\xe2\x82",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=3).map(b"".join)


def by_python(payload: bytes | None, form: str) -> tuple[Any, Any, Any]:
    """The value, its bytes if it has none, and why."""
    if payload is None or form == "bytes":
        return payload, None, None
    try:
        return payload.decode(), None, None
    except UnicodeDecodeError as error:
        return None, payload, f"no UTF-8: {error.reason}"


@pytest.mark.parametrize("form", ["string", "bytes"])
@given(st.lists(st.none() | TEXTS, max_size=8), st.integers(0, 2))
@examples(150)
def test_text_is_what_python_decodes(form: str, payloads: list[bytes | None], first: int) -> None:
    """Also of a slice of a column."""
    column = pa.array(payloads, pa.binary())[first:]
    side = SideType(form, pa.string() if form == "string" else pa.binary())
    batch = pa.record_batch({"value": column})
    found = decode_batch(TopicType(None, side, side), batch)
    found.validate(full=True)
    assert [tuple(row.values()) for row in found.select(["value", "valueRaw", "valueError"]).to_pylist()] == [
        by_python(each, form) for each in payloads[first:]
    ]


@given(st.lists(TEXTS, min_size=1, max_size=3), st.integers(60, 70))
@examples(50)
def test_one_value_that_is_no_text_makes_a_topic_bytes(last: list[bytes], texts: int) -> None:
    """However late it comes; a zero byte begins numbers, and no text."""
    is_text = all(by_python(each, "string")[2] is None and not each.startswith(b"\0") for each in last)
    found, _ = decoded([b"text"] * texts + last, read_registry([]), Decoding())
    assert found.value.format == ("string" if is_text else "bytes")
