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


FIELDS = [
    "name",
    "email",
    "mail",
    "places.street",
    "tags.phone",
    "age",
    "home.street",
    "to",
    "note",
    "kind",
    "size",
    "lines",
]


@pytest.fixture(scope="module")
def erased(typed: tuple[Path, Any]) -> Path:
    to = typed[0].with_name("to")
    brokerless.open(typed[0]).erase(to, keys=["ada"], blank_fields=FIELDS, manifest=to.with_name("proof.json"))
    return to


def test_a_comparison_with_the_source_finds_what_was_blanked_and_nothing_else(
    typed: tuple[Path, Any], erased: Path
) -> None:
    found = brokerless.diff(typed[0], erased, erasure=erased.with_name("proof.json"))
    assert found.is_same
    assert sum((each.causes or {}).get("erased", 0) for each in found.partitions) > 4


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
    message.ClearField("mail")
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
    assert manifest["action"]["fields"] == [each.split(".") for each in FIELDS]
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
    other["action"] = manifest["action"]
    (tmp_path / "fewer.json").write_text(json.dumps(other))
    for source in ([], ["--source", str(typed[0])]):
        assert verify_erasure.main([str(tmp_path / "fewer.json"), *source]) == 1
    kinds = {each.kind for each in brokerless.prove(tmp_path / "fewer.json").findings if each.severity == "error"}
    assert kinds == {"value-present"}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\0\0\0\0\1\x02", "is not as its schema says (the payload is cut off)"),
        (b"\0\0\0\3\xe7\x02", "has a schema that is not known, confluent id 999: give it as schemas=PATH"),
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
    with pytest.raises(UsageError, match="use blank_fields="):
        brokerless.open(source).erase(tmp_path / "to", keys=["ada"], blank=True, value_format="avro")


def test_of_each_field_values_that_hold_it_and_values_that_lack_it_are_counted(
    typed: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bob's value holds more than what is named, Eve's says null already."""
    values = [
        b'{"email": "a", "home": {"street": "b"}}',
        b'{"e-mail": "c", "home": null}',
        b'{"email": null, "home": []}',
    ]
    records = [*((name, value) for name, value in zip((b"ada", b"bob", b"eve"), values, strict=True)), (b"ada", None)]
    source = write_log(tmp_path / "from", {"users": records, "others": [(b"nobody", b"{}")]})
    (tmp_path / "keys").write_text("ada\nbob\neve\n")
    command = ["erase", str(source), "--to", str(tmp_path / "to"), "--keys", str(tmp_path / "keys")]
    command += ["--blank-fields", "email,home.street"]
    assert main([*command, "--dry-run", "--json"]) == 1
    out, err = capsys.readouterr()
    found = [line["field"] for line in map(json.loads, out.splitlines()) if "field" in line and "topic" not in line]
    counts = {(each["topic"], each["field"]): (each["held"], each["empty"], each["lacking"]) for each in found}
    assert counts["users", "email"] == (1, 1, 1)
    assert counts["users", "home.street"] == (1, 2, 0)
    assert found[-2]["firstLacking"] == {"path": str(source / "users-0"), "offset": 1}
    (line,) = err.splitlines()
    assert "1 selected value of users, the first at offset 1, lacks the field email (1 held it, in 1 it is null" in line
    assert main(command) == 1
    table = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("users  ")]
    assert table == [["users", "email", "1", "1", "1"], ["users", "home.street", "1", "2", "0"]]
    assert main(command) == 1, "the partitions were done before, and what they lack is still so"
    assert "lacks the field email" in capsys.readouterr().err
    damages: list[Any] = []
    results = brokerless.open(source).erase(
        tmp_path / "again", keys=["ada", "bob"], blank_fields=["email"], on_damage=damages.append
    )
    (count,) = next(each for each in results if each.task.topic == "users").totals.fields
    assert (count.held, count.empty, count.lacking, count.first_lacking) == (1, 0, 1, 1)
    assert [(each.kind, each.offset) for each in damages] == [("field-lacking", 1)]


def test_what_a_schema_permits_to_be_left_out_is_not_lacking(typed: tuple[Path, Any], tmp_path: Path) -> None:
    """The JSON Schema has optional notes, Connect's schema an age, and Person more than its message."""
    registry = typed[1]
    letters = JSONSerializer(json.dumps(LETTER), registry)
    letter = letters({"to": "Ada", "kind": "work", "size": 9}, context("letters"))
    connect = json.dumps({
        "schema": {"type": "struct", "fields": [{"field": "age", "type": "int32", "optional": True}, {"field": "b"}]},
        "payload": {"b": None},
    }).encode()  # fmt: skip
    message = ProtobufSerializer(person().__class__, registry, {"use.deprecated.format": False})
    topics = {"letters": letter, "connected": connect, "persons": message(person(), context("persons"))}
    source = write_log(tmp_path / "from", {name: [(b"ada", value)] for name, value in topics.items()})
    fields = ["note", "age", "home.street", "other"]
    results = brokerless.open(source).erase(
        tmp_path / "to", keys=["ada"], blank_fields=fields, schemas=str(typed[0]), on_damage=lambda _: None
    )
    found = {each.task.topic: [one.field for one in each.totals.fields if one.empty] for each in results}
    assert found == {"letters": ["note"], "connected": ["age"], "persons": ["home.street"]}
    assert all(one.empty + one.lacking == 1 for each in results for one in each.totals.fields)


def test_references_of_json_schema_are_followed_and_anchors_do_no_harm(tmp_path: Path) -> None:
    """The address is optional by a pointer; what the anchor leads to is not looked up, and so it lacks a phone."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"home": {"$ref": "#/$defs/place"}, "work": {"$ref": "#office"}},
        "$defs": {
            "place": {"allOf": [{"properties": {"street": {"type": ["string", "null"]}}}]},
            "office": {"$anchor": "office", "properties": {"phone": {"type": "string"}}},
        },
    }
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "5.json").write_text(json.dumps(schema))
    value = b"\0\0\0\0\x05" + b'{"home": {"zip": 1}, "work": {"zip": 2, "name": "Ada"}}'
    source = write_log(tmp_path / "from", {"letters": [(b"ada", value)]})
    (result,) = brokerless.open(source).erase(
        tmp_path / "to", keys=["ada"], blank_fields=["home.street", "work.phone", "work.name"],
        schemas=tmp_path / "schemas",
    )  # fmt: skip
    counts = [(each.held, each.empty, each.lacking) for each in result.totals.fields]
    assert counts == [(0, 1, 0), (0, 0, 1), (1, 0, 0)]
    assert values_of(tmp_path / "to", "letters") == [value.replace(b'"Ada"', b"null")]


RENAMED = {
    "files by id": ("7.avsc", "8.avsc", "9.avsc"),
    "files of the topic": ("7.avsc", "people-value.v2.avsc", "9.avsc"),
}


@pytest.mark.parametrize("files", RENAMED.values(), ids=RENAMED)
def test_a_field_goes_by_all_its_names_in_every_schema_of_the_topic(files: tuple[str, ...], tmp_path: Path) -> None:
    """It was called mail, then email, then contact; a record of another name has a field contact, too."""
    (tmp_path / "schemas").mkdir()
    names = [{"name": "mail"}, {"name": "email", "aliases": ["mail"]}, {"name": "contact", "aliases": ["email"]}]
    for file, name in zip(files, names, strict=True):
        schema = {"type": "record", "name": "a.P", "fields": [{**name, "type": "string"}]}
        (tmp_path / "schemas" / file).write_text(json.dumps(schema))
    phone = {"name": "phone", "type": "string", "aliases": ["mail"]}
    other = {"type": "record", "name": "a.Q", "fields": [phone, {"name": "contact", "type": "string"}]}
    (tmp_path / "schemas" / "10.avsc").write_text(json.dumps(other))
    ids = [int(each.partition(".")[0]) if each[0].isdigit() else 0 for each in files]
    values = [b"\0" + number.to_bytes(4, "big") + b"\x06Ada" for number in ids if number]
    source = write_log(tmp_path / "from", {"people": [(b"ada", each) for each in values]})
    for at, name in enumerate(("mail", "email", "contact")):
        path = tmp_path / f"{at}.json"
        (result,) = brokerless.open(source).erase(
            tmp_path / f"to{at}", keys=["ada"], blank_fields=[name], schemas=tmp_path / "schemas", manifest=path
        )
        assert values_of(tmp_path / f"to{at}", "people") == [each[:5] + b"\0" for each in values]
        (count,) = result.totals.fields
        assert (count.held, count.lacking) == (len(values), 0)
        assert brokerless.prove(path, source=source).holds


def test_names_with_dots_and_commas_are_escaped(tmp_path: Path) -> None:
    value = b'{"a.b": {"c,d": 1, "e": 2}, "f\\\\g": 3, "a": {"b": 4}}'
    source = write_log(tmp_path / "from", {"plain": [(b"ada", value)]})
    (tmp_path / "keys").write_text("ada\n")
    command = ["erase", str(source), "--to", str(tmp_path / "to"), "--keys", str(tmp_path / "keys")]
    path = tmp_path / "to.erasure.json"
    assert main([*command, "--blank-fields", r"a\.b.c\,d,f\\g"]) == 0
    assert values_of(tmp_path / "to", "plain") == [b'{"a.b": {"c,d": null, "e": 2}, "f\\\\g": null, "a": {"b": 4}}']
    assert json.loads(path.read_bytes())["action"]["fields"] == [["a.b", "c,d"], ["f\\g"]]
    assert brokerless.prove(path, source=source).holds
    assert verify_erasure.main([str(path), "--source", str(source)]) == 0


def test_an_erased_value_that_is_elsewhere_in_a_selected_record_is_an_error(tmp_path: Path) -> None:
    """A value in another record, and one that may be there by chance, are warnings."""
    values = [b'{"mail": "ada@example.org", "n": 1234, "on": true, "cc": "x"}', b'{"cc": "ada@example.org"}']
    severities = {b'"cc": "x"': "warning", b'"cc": "ada@example.org"': "error", b'"cc": [1234, true]': "warning"}
    for at, (other, severity) in enumerate(severities.items()):
        own = [values[0].replace(b'"cc": "x"', other), values[1]]
        source = write_log(tmp_path / f"from{at}", {"plain": [(b"ada", own[0]), (b"bob", own[1])]})
        path = tmp_path / f"{at}.json"
        brokerless.open(source).erase(
            tmp_path / f"to{at}", keys=["ada"], blank_fields=["mail", "n", "on"], manifest=path
        )
        found = [each for each in brokerless.prove(path, source=source).findings if each.kind == "bytes-found"]
        assert {each.severity for each in found if each.offset == 1} == {"warning"}
        assert {each.severity for each in found if each.offset == 0} <= {severity}
        assert any(each.offset == 0 for each in found) == (at > 0)
