"""What a record names as its schema decides, in whatever reads it; the subject of the topic's name is a hint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.schema_registry_client import Schema
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable
from tests.typed.logs import write_log
from tests.typed.registries import client, registry_records, schema_record

import brokerless
from brokerless.findings import Finding
from brokerless.typed import resolve
from brokerless.typed.blanking.schemas import RegistrySchemas, SchemaKey
from brokerless.typed.framing import CONFLUENT
from brokerless.typed.protobuf.files import message_types
from brokerless.typed.registry import Schema as OwnSchema
from brokerless.typed.schema_source import load_registry
from brokerless.typed.topic_type import Decoding, Scan

PROTO = 'syntax = "proto3"; package p; message First { int32 x = 1; } message Second { string b = 1; }'
SECOND = OwnSchema("events-value", 1, 1, "PROTOBUF", PROTO)
USER = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}
CITY = {"type": "record", "name": "City", "fields": [{"name": "city", "type": "string"}]}
EVENTS = SerializationContext("events", MessageField.VALUE)
MIXED = SerializationContext("mixed", MessageField.VALUE)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    """A topic of a file's second message, and one of whose records some name another subject's schema; and what
    Confluent's deserializers make of them."""
    registry = client()
    make = message_types(SECOND).message_class((1,))
    write = ProtobufSerializer(make, registry, {"use.deprecated.format": False})
    messages = [make() for _ in range(3)]
    for message, text in zip(messages, "xyz", strict=True):
        message.b = text
    protobuf = [write(each, EVENTS) for each in messages]
    registry.register_schema("mixed-value", Schema(json.dumps(USER), "AVRO"))
    own = AvroSerializer(registry, json.dumps(USER))({"name": "ann"}, MIXED)
    other = AvroSerializer(registry, json.dumps(CITY), conf={"subject.name.strategy": lambda *_: "shop.City"})
    avro = [own, other({"city": "Oslo"}, MIXED)]
    read_protobuf = ProtobufDeserializer(make, {"use.deprecated.format": False})
    read_avro = AvroDeserializer(registry)
    topics = {
        "_schemas": registry_records(registry),
        "events": [(b"k", each) for each in protobuf],
        "mixed": [(b"k", each) for each in avro],
    }
    theirs = {
        "events": [{"b": read_protobuf(each, EVENTS).b} for each in protobuf],
        "mixed": [{"name": None, "city": None} | read_avro(each, MIXED) for each in avro],  # type: ignore[operator]
    }
    return write_log(tmp_path_factory.mktemp("named") / "log", topics), theirs


def decoded(log: Path, topic: str, decode: Any) -> tuple[list[Any], list[Any]]:
    rows = brokerless.open(log).partition(topic, 0).records(decode=decode, on_damage=lambda _: None).read_all()
    return rows["value"].to_pylist(), rows["valueError"].to_pylist()


@pytest.mark.parametrize("topic", ["events", "mixed"])
def test_all_that_read_records_decode_by_what_they_name(
    log: tuple[Path, dict[str, list[Any]]], topic: str, tmp_path: Path
) -> None:
    directory, theirs = log
    wanted = theirs[topic]
    by_scan: tuple[Scan, ...] = ("always", "auto")
    for scan in by_scan:
        assert decoded(directory, topic, Decoding(scan=scan)) == (wanted, [None] * len(wanted))
    answer = brokerless.open(directory).sql(f'SELECT value, valueError FROM {topic} ORDER BY "offset"').read_all()
    assert answer.to_pylist() == [{"value": each, "valueError": None} for each in wanted]
    brokerless.pipeline([directory], str(tmp_path), as_="delta", decode=True, report=False)
    rows = DeltaTable(str(tmp_path / topic)).to_pyarrow_table().to_pylist()
    assert [row["value"] for row in sorted(rows, key=lambda row: row["kafka"]["offset"])] == wanted


def test_a_type_by_the_subject_alone_has_the_fields_of_all_messages(log: tuple[Path, dict[str, list[Any]]]) -> None:
    values, errors = decoded(log[0], "events", Decoding(scan="never"))
    assert (values, errors) == ([{"x": None} | each for each in log[1]["events"]], [None] * 3)


def test_of_a_large_topic_records_are_looked_at_here_and_there(
    log: tuple[Path, dict[str, list[Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, theirs = log
    decoding = Decoding(key_format="string", scan="auto")
    monkeypatch.setattr(resolve, "WHOLE_BYTES", 0)
    assert decoded(directory, "events", decoding)[0] == theirs["events"]
    monkeypatch.setattr(resolve, "_OF_SEGMENT", 1)
    assert decoded(directory, "mixed", decoding)[0] == theirs["mixed"]  # its last one was looked at
    monkeypatch.setattr(resolve, "_read_beginnings", lambda *_: iter(()))
    values, errors = decoded(directory, "mixed", decoding)
    assert values == [{"name": "ann"}, None]
    assert errors[0] is None
    assert "no record that was read for the topic's type names the schema id" in errors[1]


def test_of_two_schemas_with_one_id_the_topics_own_is_meant(tmp_path: Path) -> None:
    schemas = [
        schema_record(subject, 1, 1, Schema(json.dumps(schema), "AVRO"))
        for subject, schema in (("users-value", USER), ("cities-value", CITY))
    ]
    user, city = b"\0\0\0\0\1\6ann", b"\0\0\0\0\1\x08Oslo"
    log = write_log(tmp_path / "log", {"_schemas": schemas, "users": [(b"k", user)], "cities": [(b"k", city)]})
    for topic, wanted in (("users", {"name": "ann"}), ("cities", {"city": "Oslo"})):
        findings: list[Finding] = []
        own = brokerless.open(log).partition(topic, 0).records(decode=True, on_damage=findings.append).read_all()
        assert own["value"].to_pylist() == [wanted]
        (finding,) = findings
        assert (finding.severity, finding.kind) == ("warning", "schema-id-shared")
        assert "users-value 1" in finding.message
        assert "cities-value 1" in finding.message
    registry = load_registry(str(log), [])
    for topic, name in (("users", "User"), ("cities", "City")):  # what an erasure of fields goes by
        schema = RegistrySchemas(registry).find(SchemaKey(topic, CONFLUENT, 1))
        assert schema is not None
        assert json.loads(schema.text)["name"] == name
    report = brokerless.open(log).schema()
    assert {(each["subject"], each["records"]) for each in report.subjects()} == {
        ("users-value", 1),
        ("cities-value", 1),
    }
    assert {each.kind for each in report.findings} == {"schema-id-shared"}


def test_one_schema_of_two_subjects_is_no_finding(tmp_path: Path) -> None:
    texts = {"a": json.dumps(USER), "users-value": json.dumps(USER, indent=2)}
    schemas = [schema_record(name, 1, 1, Schema(text, "AVRO")) for name, text in texts.items()]
    log = write_log(tmp_path / "log", {"_schemas": schemas, "users": [(b"k", b"\0\0\0\0\1\6ann")]})
    findings: list[Finding] = []
    own = brokerless.open(log).partition("users", 0).records(decode=True, on_damage=findings.append).read_all()
    assert (own["value"].to_pylist(), findings) == ([{"name": "ann"}], [])


def test_a_registry_whose_schemas_were_all_deleted_is_one(tmp_path: Path) -> None:
    key, _ = schema_record("users-value", 1, 1, Schema(json.dumps(USER), "AVRO"))
    log = write_log(tmp_path / "log", {"_schemas": [(key, None)], "users": [(b"k", b"\0\0\0\0\1\6ann")]})
    own = brokerless.open(log).partition("users", 0)
    for schemas in (None, str(log), str(log / "_schemas-0")):
        rows = own.records(decode=Decoding(schemas), on_damage=lambda _: None).read_all()
        assert rows["value"].to_pylist() == [b"\0\0\0\0\1\6ann"]


OBJECTS = [b'{"n":%d}' % number for number in range(1000)]


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (b"null", None),
        (b"", "no JSON: Expecting value"),
        (b" ", "no JSON: Expecting value"),
        (b'\xef\xbb\xbf{"n":1}', "no JSON: Unexpected UTF-8 BOM"),
        (b'{"n":1,"n":2}', "a JSON object has one name twice"),
    ],
)
@pytest.mark.parametrize("at", [0, 500, 1000])
def test_among_objects_of_json_one_odd_value_keeps_its_bytes_and_all_others_are_structs(
    odd: bytes, reason: str | None, at: int, tmp_path: Path
) -> None:
    values = [*OBJECTS[:at], odd, *OBJECTS[at:]]
    found: list[Finding] = []
    log = brokerless.open(write_log(tmp_path, {"t": [(b"k", each) for each in values]}))
    rows = log.records(decode=True, on_damage=found.append).read_all().to_pylist()
    assert [row["value"] for row in rows] == [None if each is odd else json.loads(each) for each in values]
    assert [(row["valueRaw"]) for row in rows] == [odd if each is odd else None for each in values]
    (error,) = (row["valueError"] for row in rows if row["valueRaw"] is not None)
    assert error is reason is None or (reason is not None and error.startswith(reason))


@pytest.mark.parametrize("space", [b" ", b"\n\t", b"\r\n"])
def test_json_after_spaces_is_json(space: bytes, tmp_path: Path) -> None:
    records = [(b"k", OBJECTS[0]), (b"k", space + b'{"n":7,"m":8}'), (b"k", OBJECTS[1] + space)]
    rows = brokerless.open(write_log(tmp_path, {"t": records})).records(["value"], decode=True).read_all().to_pylist()
    assert [row["value"] for row in rows] == [{"n": 0, "m": None}, {"n": 7, "m": 8}, {"n": 1, "m": None}]


@pytest.mark.parametrize("other", [b"hello", b'{"n":', b"", b"null", b'{"n":1,"n":2}'])
def test_where_most_are_no_objects_all_are_text(other: bytes, tmp_path: Path) -> None:
    records = [(b"k", each) for each in (OBJECTS[0], other, other)]
    rows = brokerless.open(write_log(tmp_path, {"t": records})).records(["value"], decode=True).read_all().to_pylist()
    assert [row["value"] for row in rows] == [value.decode() for _, value in records]
