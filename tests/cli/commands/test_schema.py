"""`brokerless schema`, and `cat --decode`: schemas, who uses them, and records as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.cli.conftest import Run
from tests.log.whole_batches import batch
from tests.typed.logs import write_log
from tests.typed.registries import client, registry_records
from tests.typed.test_decode import V1, V2, V3, VALUE

import brokerless
from brokerless.typed.schema_source import load_registry

ROWS = [
    (V1, {"id": 1, "user": "ann", "old": b"\x00\xff"}),
    (V2, {"id": 1 << 40, "user": "bob", "note": "hi"}),
    (V3, {"id": 3, "customer": "cy", "note": None, "lines": [0.25]}),
]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    registry = client()
    values = [AvroSerializer(registry, schema)(value, VALUE) for schema, value in ROWS]
    orders = [(f"k{at}".encode(), value) for at, value in enumerate([*values, None, b"\0\0\0\0\x63?"])]
    topics = {"_schemas": [(b'{"keytype":"NOOP","magic":0}', None), *registry_records(registry)], "orders": orders}
    return write_log(tmp_path_factory.mktemp("typed") / "log", topics)


def test_each_version_has_its_use_and_an_unknown_id_is_counted(run: Run, log: Path) -> None:
    result = run("schema", log, "--json")
    assert result.exit_code == 1
    rows = result.json
    assert [(row["subject"], row["version"], row["records"]) for row in rows if row["table"] == "subjects"] == [
        ("orders-value", 1, 1), ("orders-value", 2, 1), ("orders-value", 3, 1),
    ]  # fmt: skip
    uses = {row["id"]: (row["records"], row["version"]) for row in rows if row["table"] == "uses"}
    assert uses == {1: (1, 1), 2: (1, 2), 3: (1, 3), 99: (1, None)}
    types = {(row["topic"], row["side"]): row for row in rows if row["table"] == "types"}
    assert types["orders", "key"]["format"] == "string"
    assert (types["orders", "value"]["framed"], types["orders", "value"]["null"]) == (4, 1)
    assert "used by:" in run("schema", log).lines


def test_cat_prints_values_as_json_and_says_what_it_could_not_decode(run: Run, log: Path) -> None:
    result = run("cat", log, "-t", "orders", "--decode", "--json")
    assert result.exit_code == 0
    assert "unknown schema id 99" in result.err
    values = [line["value"] for line in result.json]
    assert values[0] == {"id": 1, "customer": "ann", "note": None, "lines": [1.5], "old": {"base64": "AP8="}}
    assert values[3:] == [None, "\0\0\0\0c?"]
    assert [line.get("valueError") for line in result.json] == [None] * 4 + ["unknown schema id 99 (confluent)"]
    text = run("cat", log, "-t", "orders", "--decode", "--tail", "3", "-f", r"%k %s\n")
    assert text.lines[0] == 'k2 {"id":3,"customer":"cy","note":null,"lines":[0.25],"old":null}'


def test_the_registry_may_be_an_export_of_its_topic(run: Run, log: Path, tmp_path: Path) -> None:
    export = tmp_path / "schemas.jsonl"
    export.write_bytes(run("cat", log, "-t", "_schemas", "--json").out)
    assert load_registry(str(export), []).versions == load_registry(str(log), []).versions
    here = run("cat", log, "-t", "orders", "--schemas", export, "--json").json
    assert here == run("cat", log, "-t", "orders", "--decode", "--json").json


def test_records_in_python_have_typed_columns(log: Path) -> None:
    findings: list[brokerless.Finding] = []
    partition = brokerless.open(log).partition("orders", 0)
    table = partition.records(["offset", "value", "valueRaw"], decode=True, on_damage=findings.append).read_all()
    assert table.column_names == ["offset", "value", "valueRaw"]
    raw = partition.records(["value"]).read_all()["value"].to_pylist()
    theirs = AvroDeserializer(_client_of(log))(raw[1], VALUE)
    assert theirs == ROWS[1][1]
    assert table["value"][1].as_py()["id"] == theirs["id"]
    assert table["valueRaw"].to_pylist() == [None] * 4 + [raw[4]]
    assert [each.kind for each in findings] == ["value-not-decoded"]


def _client_of(log: Path) -> object:
    from confluent_kafka.schema_registry.schema_registry_client import Schema

    registry = client()
    for schema in load_registry(str(log), []).of_subject("orders-value"):
        registry.register_schema(schema.subject, Schema(schema.text, schema.type))
    return registry


def test_a_format_that_there_is_not_is_a_usage_error(run: Run, log: Path) -> None:
    result = run("cat", log, "--value-format", "xml")
    assert result.exit_code == 2
    assert "none of auto, schema" in result.err
    assert json.dumps(result.lines) == "[]"


def test_an_export_has_typed_columns_and_does_not_mix_with_bytes(run: Run, log: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    result = run("export", log, "-t", "orders", "--to", tmp_path / "out", "--decode", "--json")
    assert result.exit_code == 0
    assert "a value was not decoded: unknown schema id 99" in result.err
    table = pq.read_table(tmp_path / "out" / "topic=orders" / Path(result.json[0]["files"][0]).name)
    decoded = brokerless.open(log).partition("orders", 0).records(decode=True, on_damage=lambda _: None).read_all()
    for name in ("key", "value", "valueRaw", "valueError", "keyError"):
        assert table[name].to_pylist() == decoded[name].to_pylist()
    refused = run("export", log, "-t", "orders", "--to", tmp_path / "out")
    assert refused.exit_code == 2
    assert "with keys and values decoded" in refused.err


def test_whole_numbers_and_times_before_values_are_no_ids(run: Run, tmp_path: Path) -> None:
    """A long as key, and what Kafka Streams' stores with timestamps write: neither is Confluent's framing."""

    def store(name: str, moved_ms: int) -> None:
        (tmp_path / f"{name}-0").mkdir()
        with (tmp_path / f"{name}-0" / "00000000000000000000.log").open("wb") as file:
            for offset in range(5):
                time = 1_713_000_000_000 + offset * (5 << 24)
                value = (time + moved_ms).to_bytes(8, "big") + b"{}"
                file.write(batch(offset, 1, time, value, key=(0xFFF0 + offset).to_bytes(8, "big")).tobytes())

    store("app-store-changelog", 0)
    done = run("schema", tmp_path, "--json")
    assert done.exit_code == 0
    assert {(row["side"], row["format"], row["framed"], row["unframed"]) for row in done.json} == {
        ("key", "bytes", 0, 5), ("value", "bytes", 0, 5)
    }  # fmt: skip
    store("other", 400 * 86_400_000)
    done = run("schema", tmp_path, "-t", "other", "--json")
    assert done.exit_code == 1
    assert {row["framing"] for row in done.json if row["table"] == "uses"} == {"confluent"}


def test_types_of_what_is_no_record_are_shown(run: Run, tmp_path: Path) -> None:
    registry, topics = client(), dict[str, list[tuple[bytes | None, bytes | None]]]()
    for name, schema, value in (("long", '"long"', 5), ("list", '{"type":"array","items":"string"}', ["a"])):
        context = SerializationContext(name, MessageField.VALUE)
        topics[name] = [(b"k", AvroSerializer(registry, schema)(value, context))]
    log = write_log(tmp_path / "log", {"_schemas": registry_records(registry), **topics})
    lines = [line.strip() for line in run("schema", log).lines]
    assert "long value: schema, int64" in lines
    assert "list value: schema, list<item: string>" in lines
    assert "long key: string" in lines


def test_schemas_that_were_all_deleted_are_said_to_be_and_still_decode(run: Run, tmp_path: Path) -> None:
    registry = client()
    value = AvroSerializer(registry, V1)(ROWS[0][1], VALUE)
    ((key, schema),) = registry_records(registry)
    old = json.dumps({"subject": "orders-value", "version": 1, "magic": 0, "keytype": "SCHEMA"}).encode()
    for name, records, line in (
        ("gone", [(key, schema), (key, None)], "its one schema was deleted for good"),
        ("none", [(b'{"keytype":"NOOP","magic":0}', None)], "no record of it is of one"),
    ):
        log = write_log(tmp_path / name, {"_schemas": records, "orders": [(b"k", value)]})
        first = run("schema", log).lines[0]
        assert first.startswith(f"no {'subjects' if name == 'gone' else 'schemas'} in {log / '_schemas-0'}: ")
        assert line in first
    (row,) = run("cat", tmp_path / "gone", "-t", "orders", "--decode", "--json").json
    assert (row["value"]["user"], row.get("valueError")) == ("ann", None)
    assert run("sql", "select value.user from orders", tmp_path / "gone", "--json").json == [{"user": "ann"}]
    log = write_log(tmp_path / "back", {"_schemas": [(old, schema), (key, None)], "orders": [(b"k", value)]})
    result = run("schema", log)
    assert result.exit_code == 0
    assert "the schema orders-value 1 was deleted for good by a key of another form than its own" in result.err
