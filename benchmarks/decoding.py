"""Typed values into Arrow beside the deserializers of confluent-kafka, over the same payloads, on one core; plain JSON
beside the parser of Python."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

from benchmarks.measure import Workload, python, warm_process

ROWS = 100_000
"""Records of a pass; both sides take all of them."""
SCHEMA = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"}, {"name": "user", "type": "string"}, {"name": "amount", "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SENT"]}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "count", "type": "int"}]}}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "isGift", "type": "boolean"},
    ],
}  # fmt: skip


_PROTO = """
syntax = "proto3";
package shop;
enum State { NEW = 0; PAID = 1; SENT = 2; }
message Line { string sku = 1; int32 count = 2; }
message Order {
  int64 id = 1; string user = 2; double amount = 3; optional string note = 4; int64 at = 5; State state = 6;
  repeated Line lines = 7; map<string, string> tags = 8; bool is_gift = 9;
}
"""
_TEXT, _LONG = {"type": "string"}, {"type": "integer"}
_JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object", "properties": {
        "id": _LONG, "user": _TEXT, "amount": {"type": "number"}, "note": _TEXT, "at": _LONG,
        "state": {"type": "string", "enum": ["NEW", "PAID", "SENT"]},
        "lines": {"type": "array", "items": {
            "type": "object", "properties": {"sku": _TEXT, "count": _LONG}, "required": ["sku", "count"]}},
        "tags": {"type": "object", "properties": {"channel": _TEXT}}, "isGift": {"type": "boolean"},
    },
    "required": ["id", "user", "amount", "at", "state", "lines", "tags", "isGift"], "additionalProperties": False,
}  # fmt: skip


def workloads(records: int) -> Iterator[Workload]:
    del records  # a deserializer that makes objects takes too long for all of them
    version = importlib.metadata.version("confluent-kafka")
    for kind, anchor in (
        ("avro", f"confluent-kafka {version}, AvroDeserializer"),
        ("protobuf", f"confluent-kafka {version}, ProtobufDeserializer"),
        ("json-schema", f"confluent-kafka {version}, JSONDeserializer"),
        ("json", "json.loads"),
    ):
        yield Workload(
            f"decode-{kind}",
            "records/s",
            ours=lambda kind=kind: warm_process(python(f"{__name__}:decode", kind)),
            anchor=anchor,
            theirs=lambda kind=kind: warm_process(python(f"{__name__}:deserialize", kind)),
            runs=5,
        )


def row(number: int) -> dict[str, Any]:
    return {
        "id": number, "user": f"user-{number % 10_000}", "amount": number / 7, "at": 1_700_000_000_000 + number,
        "note": None if number % 3 else "leave at the door", "state": ("NEW", "PAID", "SENT")[number % 3],
        "lines": [{"sku": f"sku-{number % 977}", "count": at + 1} for at in range(number % 4)],
        "tags": {"channel": "web"} if number % 2 else {}, "isGift": number % 5 == 0,
    }  # fmt: skip


@cache
def _order() -> Any:
    """Protobuf's class of messages."""
    from brokerless.typed.protobuf.files import message_types

    return message_types(_schema("protobuf")).message_class((1,))


def _schema(kind: str) -> Any:
    from brokerless.typed.registry import Schema

    text = {"avro": json.dumps(SCHEMA), "protobuf": _PROTO, "json-schema": json.dumps(_JSON)}[kind]
    kinds: Any = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
    return Schema("orders-value", 1, 1, kinds[kind], text)


def message(number: int) -> Any:
    found = row(number)
    return _order()(**{("is_gift" if name == "isGift" else name): value for name, value in found.items()})


def document(number: int) -> dict[str, Any]:
    return {name: value for name, value in row(number).items() if value is not None}


@cache
def payloads(kind: str) -> tuple[Any, list[bytes]]:
    """A registry's client, and values as confluent-kafka's serializers write them."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

    if kind == "json":
        return None, [json.dumps(document(number), separators=(",", ":")).encode() for number in range(ROWS)]
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    make: Any = {"avro": row, "protobuf": message, "json-schema": document}[kind]
    avro, protobuf, json_schema = cast(Any, (AvroSerializer, ProtobufSerializer, JSONSerializer))
    serialize = {
        "avro": lambda: avro(client, json.dumps(SCHEMA)),
        "protobuf": lambda: protobuf(_order(), client, {"use.deprecated.format": False}),
        "json-schema": lambda: json_schema(json.dumps(_JSON), client),
    }[kind]()
    return client, [serialize(make(number), _context()) for number in range(ROWS)]


def _context() -> Any:
    from confluent_kafka.serialization import MessageField, SerializationContext

    return SerializationContext("orders", MessageField.VALUE)


@cache
def _batch(kind: str) -> tuple[Any, Any]:
    import pyarrow as pa

    from brokerless.typed.registry import Registry
    from brokerless.typed.resolve import resolve_topic
    from brokerless.typed.topic_type import Decoding

    registry = Registry()
    if kind != "json":
        schema = _schema(kind)
        registry.versions["orders-value", 1] = schema
        registry.by_id[".", 1] = schema
    values = pa.array(payloads(kind)[1], pa.binary())
    batch = pa.RecordBatch.from_arrays([pa.nulls(len(values), pa.binary()), values], names=["key", "value"])
    return resolve_topic("orders", [], Decoding(), registry, batches=[batch]), batch


def decode(kind: str) -> int:
    """From a column of bytes, framing included, to a column of structs."""
    from brokerless.typed.decode import decode_batch

    decoded = decode_batch(*_batch(kind))
    assert decoded.column("valueError").null_count == ROWS
    assert decoded.column("value").type.num_fields == len(row(0))
    return decoded.num_rows


@cache
def _deserializer(kind: str) -> Any:
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer

    client = payloads(kind)[0]
    avro, protobuf, json_schema = cast(Any, (AvroDeserializer, ProtobufDeserializer, JSONDeserializer))
    if kind == "json":
        return lambda value, _: json.loads(value)
    if kind == "avro":
        return avro(client)
    if kind == "protobuf":
        return protobuf(_order(), {"use.deprecated.format": False}, client)
    return json_schema(json.dumps(_JSON), schema_registry_client=client)


def deserialize(kind: str) -> int:
    """From bytes to a dict or a message, for each value."""
    found, context = _deserializer(kind), _context()
    count = 0
    for value in payloads(kind)[1]:
        count += found(value, context) is not None
    return count
