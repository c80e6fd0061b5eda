"""Blanked values: null, and fields of values with a schema, which confluent-kafka's deserializers read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from scripts import verify_erasure
from tests.golden import broker_data
from tests.typed.blanking.test_avro import ADA, PERSON
from tests.typed.blanking.test_protobuf import ada, person
from tests.typed.logs import write_log
from tests.typed.registries import client, registry_records

import brokerless
from brokerless.cli import main
from brokerless.errors import DamageError, UsageError
from brokerless.jobs.erase.blanking import Blanking


def test_paths_without_a_name_are_refused() -> None:
    with pytest.raises(UsageError, match=r"'a\.' is not the path of a field"):
        Blanking(("a.",))


def test_a_blanked_value_is_null_and_all_else_of_the_record_stays(tmp_path: object) -> None:
    source = brokerless.open(broker_data("old-formats") / "v1-lz4-0")
    source.erase(f"{tmp_path}/to", where='"offset" % 2 = 0', blank=True)
    columns = ["offset", "timestamp", "timestampType", "key", "value", "headers"]
    rows = source.records(columns).read_all().to_pylist()
    for row in rows:
        row["value"] = row["value"] if row["offset"] % 2 else None
    assert brokerless.open(f"{tmp_path}/to").records(columns).read_all().to_pylist() == rows


LETTER = {
    "title": "Letter", "type": "object", "required": ["to", "kind", "size"],
    "properties": {
        "to": {"type": "string"}, "note": {"type": ["string", "null"]}, "kind": {"enum": ["private", "work"]},
        "size": {"type": "integer", "minimum": 3}, "lines": {"type": "array", "items": {"type": "string"}},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A log directory with topics of each format, and the registry that its ``_schemas`` are of."""
    registry = client()
    avro = AvroSerializer(registry, json.dumps(PERSON).replace("logicalType", "none"))
    proto = ProtobufSerializer(person().__class__, registry, {"use.deprecated.format": False})
    letters = JSONSerializer(json.dumps(LETTER), registry)
    letter = {"to": "Ada", "note": "Dear Ada", "kind": "work", "size": 9, "lines": ["Dear Ada", "x"]}
    connect = {
        "schema": {"type": "struct", "optional": False, "fields": [
            {"field": "name", "type": "string", "optional": False}, {"field": "age", "type": "int32", "optional": True},
        ]},
        "payload": {"name": "Ada", "age": 36},
    }  # fmt: skip
    values = {
        "people": avro(ADA, context("people")),
        "persons": proto(ada(), context("persons")),
        "letters": letters(letter, context("letters")),
        "connected": json.dumps(connect).encode(),
        "plain": b'{"name": "Ada", "age": 36}',
    }
    topics = {topic: [(b"ada", value), (b"bob", value), (b"ada", None)] for topic, value in values.items()}
    directory = tmp_path_factory.mktemp("typed") / "from"
    write_log(directory, {**topics, "_schemas": registry_records(registry)})
    return directory, registry


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def values_of(directory: Path, topic: str) -> list[bytes | None]:
    return brokerless.open(directory / f"{topic}-0").records(["value"]).read_all().column("value").to_pylist()


FIELDS = ["name", "email", "places.street", "tags.phone", "age", "home.street", "to", "note", "kind", "size", "lines"]


@pytest.fixture(scope="module")
def erased(typed: tuple[Path, Any]) -> Path:
    to = typed[0].with_name("to")
    brokerless.open(typed[0]).erase(to, keys=["ada"], blank_fields=FIELDS, manifest=to.with_name("proof.json"))
    return to


def test_values_of_every_format_are_read_by_confluents_deserializers_without_the_fields(
    typed: tuple[Path, Any], erased: Path
) -> None:
    source, registry = typed
    own = {topic: values_of(erased, topic) for topic in ("people", "persons", "letters", "connected", "plain")}
    for topic, (_, other, null) in own.items():
        assert (other, null) == (values_of(source, topic)[1], None), "only the selected record changed"
    blanked_ada = {
        **ADA, "name": None, "email": "", "age": 0, "kind": "NEW", "tags": {"phone": None, "x": None},
        "places": [each | {"street": ""} for each in ADA["places"]], "home": {**ADA["home"], "street": ""},
    }  # fmt: skip
    assert AvroDeserializer(registry)(own["people"][0], context("people")) == blanked_ada
    message = ada()
    message.ClearField("name")
    del message.tags["phone"]
    message.places[0].street = message.home.street = ""
    read = ProtobufDeserializer(person().__class__, {"use.deprecated.format": False}, registry)
    assert read(own["persons"][0], context("persons")) == message
    letter = JSONDeserializer(None, schema_registry_client=registry)(own["letters"][0], context("letters"))
    assert letter == {"to": "", "note": None, "kind": "private", "size": 3, "lines": []}
    assert json.loads(own["connected"][0] or b"")["payload"] == {"name": "", "age": None}
    assert own["plain"][0] == b'{"name": null, "age": null}'


def test_both_verifiers_prove_it_without_the_registry(typed: tuple[Path, Any], erased: Path) -> None:
    path = erased.with_name("proof.json")
    manifest = json.loads(path.read_bytes())
    assert manifest["action"]["fields"] == FIELDS
    assert manifest["action"]["schemasFrom"].endswith("_schemas-0")
    assert {each["topic"] for each in manifest["schemas"]} == {"people", "persons", "letters"}
    assert not any(text in path.read_bytes() for text in (b"Ada", b"ada@example.org", b"Long street", b"Dear"))
    assert brokerless.prove(path).holds
    proof = brokerless.prove(path, source=typed[0])
    assert proof.holds
    assert proof.searched > 5
    assert verify_erasure.main([str(path)]) == 0
    assert verify_erasure.main([str(path), "--source", str(typed[0])]) == 0


@pytest.mark.parametrize("topic", ["people", "persons", "letters", "plain"])
def test_both_find_a_value_that_somebody_with_the_key_put_back(
    typed: tuple[Path, Any], erased: Path, topic: str, tmp_path: Path
) -> None:
    """All hashes of files in the manifest are those of the files."""
    manifest = json.loads(erased.with_name("proof.json").read_bytes())
    fewer = {"people": ["name"], "persons": ["name"], "letters": ["to"], "plain": ["name"]}[topic]
    brokerless.open(typed[0] / f"{topic}-0").erase(
        tmp_path / "to", keys=["ada"], blank_fields=fewer, manifest=tmp_path / "fewer.json", schemas=str(typed[0])
    )
    other = json.loads((tmp_path / "fewer.json").read_bytes())
    mine = next(each for each in manifest["partitions"] if each["topic"] == topic)
    for each, claim in zip(other["partitions"][0]["touched"], mine["touched"], strict=True):
        each["edits"] = claim["edits"]
    other["action"]["fields"] = FIELDS
    (tmp_path / "fewer.json").write_text(json.dumps(other))
    for source in ([], ["--source", str(typed[0])]):
        assert verify_erasure.main([str(tmp_path / "fewer.json"), *source]) == 1
    kinds = {each.kind for each in brokerless.prove(tmp_path / "fewer.json").findings if each.severity == "error"}
    assert kinds == {"value-present"}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\0\0\0\0\1\x02", "is not as its schema says (the payload is cut off)"),
        (b"\0\0\0\3\xe7\x02", "has a schema that is not known, confluent id 999: give it as --schemas PATH"),
        (b"\xff\xfe", "is not JSON"),
    ],
)
def test_a_value_that_cannot_be_decoded_keeps_its_partition_from_being_written(
    typed: tuple[Path, Any], value: bytes, reason: str, tmp_path: Path
) -> None:
    source = write_log(tmp_path / "from", {"people": [(b"bob", b"{}"), (b"ada", value)]})
    erase = brokerless.open(source).erase
    with pytest.raises(DamageError, match="the value of offset 1 ") as raised:
        erase(tmp_path / "to", keys=["ada"], blank_fields=["name"], schemas=str(typed[0]))
    assert reason in str(raised.value)
    assert not (tmp_path / "to" / "people-0").exists()


def test_values_that_name_no_schema_have_that_of_their_topic(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "people-value.avsc").write_text(json.dumps({
        "type": "record", "name": "P", "fields": [{"name": "name", "type": "string"}, {"name": "n", "type": "int"}],
    }))  # fmt: skip
    source = write_log(tmp_path / "from", {"people": [(b"ada", b"\x06Ada\x02")]})
    erase, path = brokerless.open(source).erase, tmp_path / "proof.json"
    erase(
        tmp_path / "to", keys=["ada"], blank_fields=["name"], schemas=tmp_path / "schemas", value_format="avro",
        manifest=path,
    )  # fmt: skip
    assert values_of(tmp_path / "to", "people") == [b"\0\x02"]
    assert brokerless.prove(path, source=source).holds


def test_formats_that_there_are_not_and_schemas_without_fields_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'xml' is none of auto"):
        Blanking(("a",), "xml")
    source = write_log(tmp_path / "from", {"people": [(b"ada", b"{}")]})
    with pytest.raises(UsageError, match="use --blank-fields"):
        brokerless.open(source).erase(tmp_path / "to", keys=["ada"], blank=True, value_format="avro")


def test_fields_in_which_no_selected_value_has_anything_are_reported(
    typed: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keys").write_text("ada\n")
    command = ["erase", str(typed[0]), "--to", str(tmp_path / "to"), "--keys", str(tmp_path / "keys"), "--dry-run"]
    assert main([*command, "--blank-fields", "name,emial,places.street,places.none"]) == 1
    err = capsys.readouterr().err.splitlines()
    assert sum("stayed unchanged: nothing is in the fields that were named" in line for line in err) == 1
    lines = [line for line in err if "has anything in" in line]
    assert [line.rpartition("the field ")[2] for line in lines] == [
        "emial: check its name",
        "places.none: check its name",
    ]
