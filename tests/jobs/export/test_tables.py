"""Tables of Iceberg and Delta: every reader gets what Kafka's readers get of the log, each record once."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.golden import broker_data, broker_expected, json_lines, of_type
from tests.jobs.export.test_job import as_expected
from tests.jobs.tables import FORMATS, READERS, Rows, avro, delta, exported, iceberg, log_of, table

from brokerless.api.log import open as open_log
from brokerless.errors import Finding
from brokerless.interchange.table_formats.catalog import Catalog, TableFormat, table_name
from brokerless.typed.topic_type import Decoding

pytestmark = pytest.mark.xdist_group("exported")
NAMES = ("segments-0", "txn-1", "codec-lz4-2", "append-time-0")
PATHS = [str(broker_data("clean") / name) for name in NAMES]
V1 = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": "string"}]}
V2 = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": "string"},
    {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
        {"name": "sku", "type": "string"}]}}, "default": []},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
]}  # fmt: skip
each_format = pytest.mark.parametrize("form", FORMATS)


def wanted_of(name: str) -> Rows:
    lines = of_type(json_lines(broker_expected("clean") / name / "expected.jsonl"), "record")
    return [line for line in lines if line.get("control") is None and line["file"].endswith(".log")]


@each_format
def test_all_readers_get_what_kafkas_readers_get(form: TableFormat, tmp_path: Path) -> None:
    results = exported(PATHS, tmp_path, form)
    assert {f"{each.topic}-{each.partition}" for each in results} == set(NAMES)
    for name in NAMES:
        topic, _, partition = name.rpartition("-")
        wanted = wanted_of(name)
        for read in READERS:
            found = read(tmp_path, table_name(topic), form)
            assert {(row["kafka"]["topic"], row["kafka"]["partition"]) for row in found} == {(topic, int(partition))}
            assert len(found) == len(wanted)
            assert all(as_expected({**row, **row["kafka"]}, line) for row, line in zip(found, wanted, strict=True))


@each_format
def test_a_run_exports_what_is_new_in_one_commit_that_says_which_offsets(form: TableFormat, tmp_path: Path) -> None:
    source, to = log_of(tmp_path / "orders-0", [b"a", b"b", b"c"]), tmp_path / "out"
    (first,) = exported(source, to, form)
    assert (first.start_offset, first.next_offset, first.records) == (0, 3, 3)
    assert exported(source, to, form) == []
    log_of(source, [b"d", b"e"], first=3)
    (second,) = exported(source, to, form)
    assert (second.start_offset, second.next_offset, second.records) == (3, 5, 2)
    assert [row["value"] for row in table(to, "orders", form)] == [b"a", b"b", b"c", b"d", b"e"]
    states = [json.loads(each) for each in states_of(to, "orders", form)]
    assert [each["partitions"]["0"]["nextOffset"] for each in states] == [3, 5]
    assert {each["topicId"] for each in states} == {"AAAAAAAAAAAAAAAAAAAAAQ"}


def states_of(to: Path, name: str, form: TableFormat) -> list[str]:
    """What the table's own commits record, the oldest first."""
    if form == "iceberg":
        found = [each.summary.additional_properties for each in iceberg(to, name).metadata.snapshots]
    else:
        found = list(reversed(delta(to, name).history()))
    return [each["brokerless.export"] for each in found if "brokerless.export" in each]


def schemas(directory: Path, **files: dict[str, Any]) -> str:
    directory.mkdir(exist_ok=True)
    for name, schema in files.items():
        (directory / f"{name[1:]}.avsc").write_text(json.dumps(schema))
    return str(directory)


@each_format
def test_a_schema_that_evolves_in_a_topic_evolves_the_table(form: TableFormat, tmp_path: Path) -> None:
    to, source = tmp_path / "out", log_of(tmp_path / "orders-0", [avro(V1, 1, {"id": 7, "note": "old"})])
    first = Decoding(schemas(tmp_path / "schemas", _1=V1))
    exported(source, to, form, decoding=first)
    new = {"id": 1 << 40, "note": "new", "lines": [{"sku": "x"}], "at": 1_700_000_000_123}
    log_of(source, [avro(V2, 2, new)], first=1)
    exported(source, to, form, decoding=Decoding(schemas(tmp_path / "schemas", _2=V2)))
    at = datetime.fromtimestamp(1_700_000_000.123, UTC)
    for read in READERS:
        old, found = [row["value"] for row in read(to, "orders", form)]
        assert found == {"id": 1 << 40, "note": "new", "lines": [{"sku": "x"}], "at": at}
        assert {"id": old["id"], "note": old["note"]} == {"id": 7, "note": "old"}
        assert old["at"] is None
        assert not old["lines"]  # pyiceberg 0.12 reads a null list of structs as an empty one
    if form == "iceberg":
        own = iceberg(to, "orders")
        assert [each.schema_id for each in own.metadata.snapshots] == [0, 1]
        fields = [
            {field.name: str(field.field_type) for field in own.schemas()[number].find_type("value").fields}
            for number in (0, 1)
        ]
        assert fields[0] == {"id": "int", "note": "string"}
        assert fields[1]["id"] == "long"
        assert list(fields[1]) == ["id", "note", "lines", "at"]


@each_format
def test_what_does_not_fit_keeps_its_bytes_and_a_reason(form: TableFormat, tmp_path: Path) -> None:
    to, source = tmp_path / "out", log_of(tmp_path / "orders-0", [b'{"a": 1}', b'{"a": 2}'])
    decoding = Decoding()
    exported(source, to, form, decoding=decoding)
    findings: list[Finding] = []
    log_of(source, [b'{"a": "text"}', b"no JSON", b'{"a": 3, "b": true}'], first=2)
    exported(source, to, form, findings, decoding=decoding)
    for read in READERS:
        found = read(to, "orders", form)
        assert [row["value"] and row["value"]["a"] for row in found] == [1, 2, None, None, 3]
        assert [row["valueRaw"] for row in found] == [None, None, b'{"a": "text"}', b"no JSON", None]
        assert [row["valueError"] is not None for row in found] == [False, False, True, True, False]
        assert found[4]["value"]["b"] is True
    assert {each.kind for each in findings} == {"value-not-decoded"}


def test_python_exports_a_log_and_a_partition(tmp_path: Path) -> None:
    source = log_of(tmp_path / "logs" / "orders-0", [b"a", b"b"])
    log = open_log(source.parent)
    (first,) = log.export(tmp_path / "out", as_="iceberg", catalog=Catalog(namespace="raw"))
    assert (first.records, first.table) == (2, "raw.orders")
    again = log.partition("orders", 0).export(tmp_path / "out", as_="delta", decode=True)
    assert again is not None
    assert again.table == str(tmp_path / "out" / "orders")
