"""A topic and a registry's ``_schemas`` as a real broker wrote them, decoded as confluent-kafka's consumer does.

The records of ``_schemas`` are those of its documented format, in a compacted topic, with a deletion; no registry runs.
"""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from scripts import verify_erasure

import brokerless
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Record, consume, produce_confluent
from tests.typed.registries import client, registry_records
from tests.typed.test_decode import V1, V2, V3

TOPIC = "typed-orders"
ROUNDS = 200


def test_a_brokers_topic_and_its_registry(kafka: KafkaBroker, tmp_path: Path) -> None:
    registry = client()
    context = SerializationContext(TOPIC, MessageField.VALUE)
    schemas = [AvroSerializer(registry, text) for text in (V1, V2, V3)]
    values: list[bytes | None] = []
    for number in range(ROUNDS):
        rows = (
            {"id": number, "user": f"u{number}", "old": bytes([number])},
            {"id": number << 33, "user": "\u00fc" * number, "note": None if number % 2 else "n"},
            {"id": -number, "customer": "c", "note": "x", "lines": [float(number)] * (number % 4)},
        )
        values += [serialize(row, context) for serialize, row in zip(schemas, rows, strict=True)]
    kafka.create_topic(TOPIC, 1)
    kafka.create_topic("_schemas", 1, cleanup_policy="compact")
    deletion = {"keytype": "DELETE_SUBJECT", "subject": f"{TOPIC}-value", "magic": 0}
    deleted = json.dumps(deletion).encode(), json.dumps({"subject": f"{TOPIC}-value", "version": 1}).encode()
    noop = json.dumps({"keytype": "NOOP", "magic": 0}).encode(), None
    records = [noop, *registry_records(registry), deleted]
    produce_confluent(kafka, "_schemas", [Record(key, value, (), None, 0) for key, value in records], "none")
    keys = [b"erased" if number % 7 == 3 else b"k" for number in range(len(values))]
    rows = [Record(key, value, (), None, 0) for key, value in zip(keys, values, strict=True)]
    produce_confluent(kafka, TOPIC, rows, "lz4")
    consumed = [each.value for each in consume(kafka, TOPIC, 0, "read_uncommitted")]
    copy = kafka.copy_log_dir(tmp_path / "copy")
    directory = tmp_path / "copy" if copy is None else copy
    table = brokerless.open(directory).partition(TOPIC, 0).records(["value", "valueError"], decode=True).read_all()
    assert table["valueError"].null_count == len(consumed) == 3 * ROUNDS
    deserialize = AvroDeserializer(registry)
    for own, value in zip(table["value"].to_pylist(), consumed, strict=True):
        theirs = deserialize(value, context)
        assert theirs is not None
        theirs["customer"] = theirs.pop("user", theirs.get("customer"))
        assert own == {"note": None, "lines": [1.5], "old": None} | theirs

    path = tmp_path / "proof.json"
    (erased,) = brokerless.open(directory / f"{TOPIC}-0").erase(
        tmp_path / "to", keys=["erased"], blank_fields=["customer", "note", "lines"], manifest=path
    )  # fmt: skip
    assert erased.totals.selected == keys.count(b"erased") > 80
    blanked = brokerless.open(tmp_path / "to" / f"{TOPIC}-0").records(["value"]).read_all()["value"].to_pylist()
    for key, value, before in zip(keys, blanked, consumed, strict=True):
        expected = deserialize(before, context)
        assert expected is not None
        if key == b"erased":
            empty = {"user": "", "customer": "", "note": None, "lines": []}
            expected |= {name: each for name, each in empty.items() if name in expected}
        assert deserialize(value, context) == expected
    assert brokerless.prove(path, source=directory).holds
    assert verify_erasure.main([str(path), "--source", str(directory)]) == 0
