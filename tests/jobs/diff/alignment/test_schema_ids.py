"""Records that differ by the ID of their schema alone are named so, by the schemas of both registries."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry.schema_registry_client import Schema
from tests.jobs.diff.planted import START, ModelBatch, ModelRecord, write
from tests.typed.logs import write_log
from tests.typed.registries import client, registry_records

import brokerless
from brokerless.jobs.diff.partition_diff import PartitionDiff

USER = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}
OTHER = {"type": "record", "name": "User", "fields": [{"name": "mail", "type": "string"}]}


def schemas(directory: Path, schema: dict[str, Any], before: int) -> Path:
    """A registry's topic with some schemas before that of the topic's values."""
    registry = client()
    for number in range(before):
        other = {"type": "enum", "name": f"E{number}", "symbols": ["A"]}
        registry.register_schema(f"other-{number}", Schema(json.dumps(other), "AVRO"))
    registry.register_schema("topic-value", Schema(json.dumps(schema, indent=before), "AVRO"))
    registry.register_schema("topic-key", Schema(json.dumps(schema, indent=before), "AVRO"))
    return write_log(directory, {"_schemas": registry_records(registry)})


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def log(directory: Path, records: list[tuple[bytes | None, bytes | None]], headers: Any = lambda _: ()) -> Path:
    own = [ModelRecord(offset, START + offset, *each, headers(offset)) for offset, each in enumerate(records)]
    write(directory, [ModelBatch(tuple(own[first : first + 7])) for first in range(0, len(own), 7)], random.Random(1))
    return directory


def compare(left: Path, right: Path, **options: object) -> PartitionDiff:
    (found,) = brokerless.diff(left, right, topics=["topic"], only=["records"], **options).partitions  # type: ignore[arg-type]
    return found


def sides(tmp_path: Path, right: dict[str, Any]) -> tuple[Path, Path]:
    """Two logs with their registries: an ID is 1 on the left and 4 on the right."""
    for name, number in (("left", 1), ("right", 4)):
        log(tmp_path / name, [(b"k", framed(number, b"\6ann%d" % offset)) for offset in range(30)])
    return schemas(tmp_path / "left", USER, 0), schemas(tmp_path / "right", right, 3)


def test_another_id_of_the_same_schema_is_the_only_difference(tmp_path: Path) -> None:
    found = compare(*sides(tmp_path, USER))
    assert (found.causes, found.changed, found.is_same) == ({"schema-id": 30}, 30, False)
    assert compare(tmp_path / "left", tmp_path / "right", allow=["schema-id"]).is_same


def test_the_id_of_another_schema_is_a_change_of_the_schema(tmp_path: Path) -> None:
    assert compare(*sides(tmp_path, OTHER)).causes == {"schema-changed": 30}


def test_without_the_schemas_of_both_sides_the_values_are_changed(tmp_path: Path) -> None:
    left, right = sides(tmp_path, USER)
    for each in (right / "_schemas-0").iterdir():
        each.unlink()
    (right / "_schemas-0").rmdir()
    assert compare(left, right).causes == {"changed": 30}
    assert compare(left, right, schemas=left).causes == {"changed": 30}, "its IDs are not those of the right side"
    own = schemas(tmp_path / "elsewhere", USER, 3)
    assert compare(left, right, schemas=left, right_schemas=own).causes == {"schema-id": 30}
    assert compare(left, right, right_schemas=own).causes == {"schema-id": 30}


def test_whatever_else_differs_is_the_cause(tmp_path: Path) -> None:
    """A payload, a length, a value without a schema, a null; and bytes that are no ID of either registry."""
    left = [framed(1, b"\6ann%d" % offset) for offset in range(12)]
    right: list[bytes | None] = [framed(4, each[5:]) for each in left]
    right[2], right[3], right[4], right[5] = framed(4, b"\6bob2"), framed(4, b"\6ann"), b"\6ann4", None
    right[6] = framed(99, left[6][5:])
    schemas(log(tmp_path / "left", [(b"k", each) for each in left]), USER, 0)
    schemas(log(tmp_path / "right", [(b"k", each) for each in right]), USER, 3)
    assert compare(tmp_path / "left", tmp_path / "right").causes == {"schema-id": 7, "changed": 5}


def test_ids_of_keys_and_in_headers_count_as_well(tmp_path: Path) -> None:
    """Keys by their first bytes, values by a header, next to another header that is the same or not."""

    def headers(number: int, other: int) -> Any:
        return lambda offset: (
            ("trace", b"%d" % (offset if offset != other else 99)), ("__value_schema_id", framed(number, b"")),
        )  # fmt: skip

    def records(number: int) -> list[tuple[bytes | None, bytes | None]]:
        return [(framed(number, b"\2k"), b"\6ann%d" % offset) for offset in range(10)]

    schemas(log(tmp_path / "left", records(1), headers(1, -1)), USER, 0)
    schemas(log(tmp_path / "right", records(4), headers(4, 7)), USER, 3)
    found = compare(tmp_path / "left", tmp_path / "right")
    assert found.causes == {"schema-id": 9, "changed": 1}
