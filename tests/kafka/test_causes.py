"""What real clients and brokers make of the same records has the cause that it has, and no other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.schema_registry_client import Schema
from confluent_kafka.serialization import MessageField, SerializationContext

import brokerless
from brokerless.jobs.diff.partition_diff import PartitionDiff
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Record, produce_confluent, produce_java
from tests.typed.logs import write_log
from tests.typed.registries import client, registry_records

pytestmark = pytest.mark.xdist_group("causes")
COUNT, TIME = 200, 1_700_000_000_000
RECORDS = [Record(b"k%d" % number, b"value %d" % number * 5, (("h", b"1"),), TIME + number) for number in range(COUNT)]
SETTINGS: dict[str, dict[str, object]] = {
    "stamped": {"message_timestamp_type": "LogAppendTime"},
    "compressed": {"compression_type": "zstd"},
}
"""What a broker does to the batches of a producer."""
WRITTEN = {
    "base": RECORDS,
    "stamped": RECORDS,
    "compressed": RECORDS,
    "traced": [replace(each, headers=(*each.headers, ("traceparent", b"00"))) for each in RECORDS],
    "swapped": [*RECORDS[:10], RECORDS[11], RECORDS[10], *RECORDS[12:]],
    "corrected": [*RECORDS[:50], replace(RECORDS[50], value=b"other"), *RECORDS[51:]],
    "shorter": RECORDS[:-20],
    "made-again": RECORDS,
}
EXPECTED = {
    "stamped": {"timestamps": COUNT},
    "compressed": {"recompressed": COUNT},
    "traced": {"headers": COUNT},
    "swapped": {"order": 2},
    "corrected": {"changed": 1},
    "shorter": {"lagging": 20},
    "ungrouped": {"regrouped": COUNT},
    "elected": {"restamped": COUNT},
}


USER = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}
REGISTRIES: dict[str, tuple[dict[str, Any], int]] = {
    "typed": (USER, 0),
    "typed-elsewhere": (USER, 3),
    "typed-otherwise": ({**USER, "fields": [{"name": "mail", "type": "string"}]}, 5),
}
"""Topics whose producer has a registry of its own: the schema of its values, and how many others are known there."""


def registry_with(others: int) -> Any:
    registry = client()
    for number in range(others):
        schema = {"type": "enum", "name": f"E{number}", "symbols": ["A"]}
        registry.register_schema(f"other-{number}", Schema(json.dumps(schema), "AVRO"))
    return registry


def typed(registry: Any, schema: dict[str, Any], number: int) -> Record:
    """A record as confluent-kafka's serializer makes it."""
    context = SerializationContext("typed", MessageField.VALUE)
    value = AvroSerializer(registry, json.dumps(schema))({schema["fields"][0]["name"]: f"user {number}"}, context)
    return Record(b"k%d" % number, value, (), TIME + number)


OF_BATCHES = {"regrouped", "recompressed", "restamped"}


@pytest.fixture(scope="module")
def disks(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The disk before and after a topic was made again."""
    directory = tmp_path_factory.mktemp("causes")
    broker = KafkaBroker(directory / "broker")
    with broker:
        for topic in (*WRITTEN, *REGISTRIES, "ungrouped", "elected", "idempotent"):
            broker.create_topic(topic, 1, **SETTINGS.get(topic, {}))
        for topic, (schema, before) in REGISTRIES.items():
            registry = registry_with(before)
            produce_confluent(broker, topic, [typed(registry, schema, number) for number in range(COUNT)], "none")
            write_log(directory / "registries" / topic, {"_schemas": registry_records(registry)})
        for first in range(0, COUNT, 20):
            produce_java(broker, "idempotent", RECORDS[first : first + 20], "none")
        for topic, records in WRITTEN.items():
            produce_confluent(broker, topic, records, "none")
        for first in range(0, COUNT, 20):
            produce_confluent(broker, "ungrouped", RECORDS[first : first + 20], "none")
        broker.copy_log_dir(directory / "before")
        admin = broker.admin()  # kept until it is done
        admin.delete_topics(["made-again"])["made-again"].result(30)
        broker.create_topic("made-again", 1)
        produce_confluent(broker, "made-again", RECORDS, "none")
    with broker:  # another leader epoch
        produce_confluent(broker, "elected", RECORDS, "none")
    return directory / "before", broker.log_dir


def compare(disk: Path, topic: str) -> PartitionDiff:
    (found,) = brokerless.diff(disk / "base-0", disk / f"{topic}-0", allow=["another-topic"]).partitions
    return found


@pytest.mark.parametrize("topic", EXPECTED)
def test_a_cause_is_what_a_client_or_a_broker_did(topic: str, disks: tuple[Path, Path]) -> None:
    found, expected = compare(disks[1], topic), EXPECTED[topic]
    of_batches = {} if {*expected} <= OF_BATCHES else dict.fromkeys(OF_BATCHES)  # beside which others are in a batch
    assert {cause: count for cause, count in (found.causes or {}).items() if cause not in of_batches} == expected
    assert found.is_same == ({*expected} <= OF_BATCHES)


@pytest.mark.parametrize(("topic", "cause"), [("typed-elsewhere", "schema-id"), ("typed-otherwise", "schema-changed")])
def test_the_id_that_another_registry_gave_is_named(topic: str, cause: str, disks: tuple[Path, Path]) -> None:
    registries = disks[0].parent / "registries"
    sides = disks[1] / "typed-0", disks[1] / f"{topic}-0"
    options: dict[str, Any] = {"schemas": registries / "typed", "right_schemas": registries / topic}
    (found,) = brokerless.diff(*sides, allow=["another-topic"], **options).partitions
    assert {name: count for name, count in (found.causes or {}).items() if name not in OF_BATCHES} == {cause: COUNT}
    assert found.changed == COUNT
    (found,) = brokerless.diff(*sides, allow=["another-topic"]).partitions
    assert found.changed == (found.causes or {})["changed"] == COUNT, "without the registries"


def test_a_batch_that_is_there_twice_is_a_duplicate_by_its_sequence(disks: tuple[Path, Path], tmp_path: Path) -> None:
    """As a broker stored it: what follows has later offsets, which no checksum covers. Between both is another one, so
    that no neighbour is its equal."""
    (segment,) = (disks[1] / "idempotent-0").glob("*.log")
    columns = ["position", "sizeInBytes", "baseOffset", "count", "producerId", "baseSequence"]
    rows = brokerless.open(segment.parent).batches(columns).read_all().to_pylist()
    assert all(row["producerId"] >= 0 and row["baseSequence"] >= 0 for row in rows)
    data, at = segment.read_bytes(), 3
    batches = [data[row["position"] : row["position"] + row["sizeInBytes"]] for row in rows]
    count, again = rows[at]["count"], rows[at + 1]["baseOffset"] + rows[at + 1]["count"]

    def moved(number: int, offset: int) -> bytes:
        return offset.to_bytes(8, "big") + batches[number][8:]

    later = [moved(number, rows[number]["baseOffset"] + count) for number in range(at + 2, len(rows))]
    for name, between in (("once", []), ("twice", [moved(at, again)])):
        partition = tmp_path / name / "idempotent-0"
        partition.mkdir(parents=True)
        (partition / segment.name).write_bytes(b"".join([*batches[: at + 2], *between, *later]))
    for names in (("once", "twice"), ("twice", "once")):
        (found,) = brokerless.diff(*(tmp_path / name for name in names)).partitions
        assert (found.causes, found.same) == ({"duplicate": count}, COUNT)
        assert found.differences[0].first_offset == again


def test_a_topic_that_was_made_again_is_another_one(disks: tuple[Path, Path]) -> None:
    (found,) = brokerless.diff(*disks, topics=["made-again"]).partitions
    assert found.problem == "another-topic"
    (found,) = brokerless.diff(*(each / "made-again-0" for each in disks)).partitions
    assert found.problem == "another-topic"
    (found,) = brokerless.diff(disks[1] / "base-0", disks[1] / "shorter-0").partitions
    assert found.problem == "another-topic", "whatever their names are"
    (found,) = brokerless.diff(*disks, topics=["made-again"], allow=["another-topic"]).partitions
    assert (found.same, found.is_same) == (COUNT, True)
