"""A log is compared with a table of its decoded keys and values: by what its bytes decode to for that table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable
from tests.typed.logs import Record, write_log
from tests.typed.registries import client, registry_records

import brokerless
from brokerless.jobs.diff.partition_diff import PartitionDiff

FORMS = [None, "iceberg", "delta"]
TOPIC = "t"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "user", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "noon", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "lines", "type": {"type": "array", "items": ["null", "float"]}},
        {"name": "tags", "type": {"type": "map", "values": "long"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
WIDER = {**ORDER, "fields": [*ORDER["fields"], {"name": "more", "type": ["null", "boolean"], "default": None}]}


def order(number: int) -> dict[str, Any]:
    from datetime import UTC, datetime, time
    from decimal import Decimal

    return {
        "id": number,
        "user": f"user {number}",
        "at": datetime(2026, 11, 1, 12, number % 60, tzinfo=UTC),
        "noon": time(12, number % 60),
        "price": Decimal(number) / 100,
        "lines": [None if each % 2 else each / 4 for each in range(number % 5)],
        "tags": {f"tag-{each}": each for each in range(number % 3)},
        "note": None if number % 3 else f"note {number}",
    }


def avro_log(directory: Path, change: Callable[[int], dict[str, Any]] = order, count: int = 60) -> Path:
    """A third of the values has a schema with another field; one key is no text, one value names no known schema."""
    registry = client()
    context = SerializationContext(TOPIC, MessageField.VALUE)
    serialize = [AvroSerializer(registry, json.dumps(each)) for each in (ORDER, WIDER)]
    records: list[Record] = [(b"key-%d" % at, serialize[at % 3 == 1](change(at), context)) for at in range(count)]
    records[7] = records[7][0], None
    records[9] = records[9][0], b"\0\0\0\3\xe7none"
    return write_log(directory, {TOPIC: records, "_schemas": registry_records(registry)})


def json_log(directory: Path, change: Callable[[dict[str, Any]], Any] = dict) -> Path:
    rows = [{"a": at, "b": [at / 2, None], "c": {"d": str(at)}, "e": None} for at in range(60)]
    return write_log(
        directory, {TOPIC: [(b"%d" % at, json.dumps(change(each)).encode()) for at, each in enumerate(rows)]}
    )


def export(log: Path, to: Path, form: str | None, **options: Any) -> Path:
    brokerless.open(log).topic(TOPIC).export(to, decode=True, **({} if form is None else {"as_": form}), **options)
    return to


def compare(left: Path, right: Path, **options: Any) -> PartitionDiff:
    """Logs that were changed are others, with an ID of their own."""
    options = {"allow": ["another-topic"], "topics": [TOPIC], "only": ["records"]} | options
    (found,) = brokerless.diff(left, right, **options).partitions
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", [avro_log, json_log])
def test_a_decoded_table_has_the_records_of_its_log(
    make: Callable[[Path], Path], form: str | None, tmp_path: Path
) -> None:
    log = make(tmp_path / "log")
    to = export(log, tmp_path / "to", form)
    for sides in ((log, to), (to, log)):
        found = compare(*sides)
        assert (found.causes, found.same, found.is_same) == ({}, 60, True)
    assert compare(log, to, align="key").is_same


@pytest.mark.parametrize("form", FORMS)
def test_a_value_that_decodes_to_another_one_is_changed(form: str | None, tmp_path: Path) -> None:
    """In each field, at any depth; and nothing else is named."""
    to = export(avro_log(tmp_path / "log"), tmp_path / "to", form)
    changes: list[dict[str, Any]] = [
        {"id": 1000}, {"user": "another"}, {"note": "new"}, {"lines": [0.0, 1.0]}, {"tags": {"tag-0": 1}},
        {"price": order(1)["price"]}, {"at": order(1)["at"]}, {"noon": order(1)["noon"]},
    ]  # fmt: skip
    changed = avro_log(tmp_path / "changed", lambda at: order(at) | (changes[at - 20] if 20 <= at < 28 else {}))
    found = compare(changed, to)
    assert found.causes == {"changed": len(changes)}
    assert (found.differences[0].first_offset, found.differences[0].last_offset) == (20, 27)


@pytest.mark.parametrize("form", FORMS)
def test_what_others_did_to_a_decoded_table_is_found(form: str | None, tmp_path: Path) -> None:
    log = json_log(tmp_path / "log")
    to = export(log, tmp_path / "to", form)
    if form == "delta":
        table = DeltaTable(str(to / TOPIC))
        table.delete("kafka.offset >= 50")
        table.update(predicate="kafka.offset = 7", updates={"key": "'other'"})
        expected = {"missing": 10, "changed": 1}
    else:
        for path in to.rglob("*.parquet"):
            rows = pq.ParquetFile(path).read()
            own = [each["offset"] for each in (rows.column("kafka") if form else rows).to_pylist()]
            pq.write_table(
                rows.take([at for at, each in enumerate(own) if each < 50] + [3]).sort_by("offset")
                if form is None
                else rows.take([at for at, each in enumerate(own) if each < 50]),
                path,
            )
        expected = {"missing": 10} | ({"duplicate": 1} if form is None else {})
    assert compare(log, to).causes == expected


@pytest.mark.parametrize("form", FORMS)
def test_a_value_that_was_not_decoded_is_compared_by_its_bytes(form: str | None, tmp_path: Path) -> None:
    """Also where its schema is known by now; and its key is found as such."""
    log = avro_log(tmp_path / "log")
    to = export(log, tmp_path / "to", form)
    known = tmp_path / "known"
    known.mkdir()
    registry = client()
    for schema in (ORDER, WIDER):
        AvroSerializer(registry, json.dumps(schema))(order(1), SerializationContext(TOPIC, MessageField.VALUE))
    records = registry_records(registry)
    lines = [json.dumps({"key": key.decode(), "value": value.decode()}) for key, value in records]
    late = json.loads(records[0][1]) | {"id": 999, "version": 9, "schema": '{"type": "bytes"}'}
    key = json.loads(records[0][0]) | {"version": 9}
    lines.append(json.dumps({"key": json.dumps(key), "value": json.dumps(late)}))
    (known / "schemas.jsonl").write_text("\n".join(lines))
    found = compare(log, to, schemas=known / "schemas.jsonl")
    assert (found.causes, found.same) == ({}, 60)


@pytest.mark.parametrize("form", FORMS)
def test_keys_of_a_decoded_table_are_shown_as_the_log_has_them(form: str | None, tmp_path: Path) -> None:
    to = export(json_log(tmp_path / "log"), tmp_path / "to", form)
    changed = json_log(tmp_path / "changed", lambda each: each | {"a": -1} if each["a"] == 9 else each)
    for sides in ((changed, to), (to, changed)):
        found = compare(*sides, show_keys=True)
        assert found.causes == {"changed": 1}
        assert found.differences[0].key == b"9"


def test_a_batch_of_another_type_is_the_same_where_its_values_are(tmp_path: Path) -> None:
    """As other engines write the same rows: with large strings, dictionaries, wider numbers."""
    log = json_log(tmp_path / "log")
    to = export(log, tmp_path / "to", None)
    for path in to.rglob("*.parquet"):
        rows = pq.ParquetFile(path).read()
        key = rows.column("key").cast(pa.large_string()).dictionary_encode()
        at = rows.schema.get_field_index("key")
        pq.write_table(rows.set_column(at, "key", key), path)
    assert compare(log, to).is_same
