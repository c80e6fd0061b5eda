"""Typed values: Avro into Arrow beside confluent-kafka's deserializer, over the same payloads, on one core."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

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


def workloads(records: int) -> Iterator[Workload]:
    del records  # a deserializer that makes objects takes too long for all of them
    version = importlib.metadata.version("confluent-kafka")
    yield Workload(
        "decode-avro",
        "records/s",
        ours=lambda: warm_process(python(f"{__name__}:decode")),
        anchor=f"confluent-kafka {version}, AvroDeserializer",
        theirs=lambda: warm_process(python(f"{__name__}:deserialize")),
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
def payloads() -> tuple[Any, list[bytes]]:
    """A registry's client, and values as confluent-kafka's serializer writes them."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient.new_client({"url": "mock://"})
    serialize: Any = AvroSerializer(client, json.dumps(SCHEMA))
    context = SerializationContext("orders", MessageField.VALUE)
    return client, [serialize(row(number), context) for number in range(ROWS)]


@cache
def _batch() -> tuple[Any, Any]:
    import pyarrow as pa

    from brokerless.typed.registry import Registry, Schema
    from brokerless.typed.resolve import resolve_topic
    from brokerless.typed.topic_type import Decoding

    registry = Registry()
    schema = Schema("orders-value", 1, 1, "AVRO", json.dumps(SCHEMA))
    registry.versions["orders-value", 1] = schema
    registry.by_id[".", 1] = schema
    values = pa.array(payloads()[1], pa.binary())
    batch = pa.RecordBatch.from_arrays([pa.nulls(len(values), pa.binary()), values], names=["key", "value"])
    return resolve_topic("orders", [], Decoding(), registry, batches=[batch]), batch


def decode() -> int:
    """From a column of bytes, framing included, to a column of structs."""
    from brokerless.typed.decode import decode_batch

    decoded = decode_batch(*_batch())
    assert decoded.column("valueError").null_count == ROWS
    return decoded.num_rows


@cache
def _deserializer() -> tuple[Any, Any]:
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    return AvroDeserializer(payloads()[0]), SerializationContext("orders", MessageField.VALUE)


def deserialize() -> int:
    """From bytes to a dict, for each value."""
    found, context = _deserializer()
    count = 0
    for value in payloads()[1]:
        count += found(value, context) is not None
    return count
