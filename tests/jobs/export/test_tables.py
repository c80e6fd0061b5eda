"""Tables of Iceberg and Delta: every reader gets what Kafka's readers get of the log, each record once."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from google.protobuf.timestamp_pb2 import Timestamp
from tests.golden import broker_data, broker_expected, json_lines, of_type
from tests.jobs.export.test_job import as_expected
from tests.jobs.tables import DAY, FORMATS, READERS, Rows, avro, delta, exported, iceberg, log_of, table

from brokerless.api.log import open as open_log
from brokerless.errors import UsageError
from brokerless.findings import Finding
from brokerless.jobs.export import tasks
from brokerless.jobs.export.job import export, plan
from brokerless.jobs.export.plan import ExportPlan
from brokerless.jobs.export.tasks import Export
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.table_formats.catalog import Catalog, TableFormat, table_name
from brokerless.table_formats.delta.tables import DeltaTables
from brokerless.table_formats.export_state import ExportState
from brokerless.table_formats.iceberg.tables import IcebergTables
from brokerless.table_formats.store import open_store
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
def test_a_field_with_another_name_goes_on_in_the_column_that_an_alias_names(form: TableFormat, tmp_path: Path) -> None:
    def record(version: int, *fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "record", "name": "R", "doc": str(version), "fields": list(fields)}

    text: dict[str, Any] = {"type": "string"}
    v1 = record(1, {"name": "name", **text})
    v2 = record(2, {"name": "title", **text, "aliases": ["name"]})
    v3 = record(
        3, {"name": "label", **text, "aliases": ["title", "name"]}, {"name": "new", "type": "int", "default": 0}
    )
    to, source = tmp_path / "out", tmp_path / "orders-0"
    log_of(source, [avro(v1, 1, {"name": "a"})])
    exported(source, to, form, decoding=Decoding(schemas(tmp_path / "schemas", _1=v1)))
    log_of(source, [avro(v2, 2, {"title": "b"}), avro(v1, 1, {"name": "c"})], first=1)
    exported(source, to, form, decoding=Decoding(schemas(tmp_path / "schemas", _2=v2)))
    log_of(source, [avro(v3, 3, {"label": "d", "new": 1}), avro(v2, 2, {"title": "e"})], first=3)
    exported(source, to, form, decoding=Decoding(schemas(tmp_path / "schemas", _3=v3)))
    for read in READERS:
        found = [row["value"] for row in read(to, "orders", form)]
        assert [row["name"] for row in found] == ["a", "b", "c", "d", "e"]
        assert set(found[-1]) == {"name", "new"}


@each_format
def test_a_new_field_with_the_name_of_one_that_was_renamed_is_another_column(form: TableFormat, tmp_path: Path) -> None:
    def record(version: int, *fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "record", "name": "R", "doc": str(version), "fields": list(fields)}

    v1 = record(1, {"name": "a", "type": "int"})
    renamed = {"name": "b", "type": "int", "aliases": ["a"]}
    v2 = record(2, renamed)
    v3 = record(3, renamed, {"name": "a", "type": "string", "default": "new"})
    to, source = tmp_path / "out", tmp_path / "orders-0"
    values = [avro(v1, 1, {"a": 1}), avro(v2, 2, {"b": 2}), avro(v3, 3, {"b": 3, "a": "x"})]
    for night, (value, schema) in enumerate(zip(values, (v1, v2, v3), strict=True)):
        log_of(source, [value], first=night)
        exported(source, to, form, decoding=Decoding(schemas(tmp_path / "schemas", **{f"_{night + 1}": schema})))
    log_of(source, [avro(v1, 1, {"a": 4})], first=3)
    exported(source, to, form, decoding=Decoding(str(tmp_path / "schemas")))
    exported(source, tmp_path / "once", form, decoding=Decoding(str(tmp_path / "schemas")))
    for read in READERS:
        found = [row["value"] for row in read(to, "orders", form)]
        assert [(row["a"], row["a_2"]) for row in found] == [(1, None), (2, None), (3, "x"), (4, None)]
        found = [row["value"] for row in read(tmp_path / "once", "orders", form)]
        assert [(row["b"], row["a"]) for row in found] == [(1, "new"), (2, "new"), (3, "x"), (4, "new")]
    states = [json.loads(each).get("valuesNamedBy") for each in states_of(to, "orders", form)]
    assert states == [None, [1, 2], [1, 2, 3], [1, 2, 3]]


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


@each_format
def test_values_that_one_column_cannot_take_are_one_finding(
    form: TableFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the field, the count, the first offset and what to do, however many different values, and tasks."""
    monkeypatch.setattr(tasks, "_TASK_BYTES", 1)
    to, source = tmp_path / "out", log_of(tmp_path / "orders-0", [b'{"a": {"b": [1]}}'])
    exported(source, to, form, decoding=Decoding())
    findings: list[Finding] = []
    values = [b'{"a": {"b": [1, %d.5]}}' % number for number in range(70)]
    log_of(source, [b"\xff", *values[:40]], first=1)
    rest = log_of(tmp_path / "rest", [*values[40:], b"12\xff"], first=42)
    shutil.copy(rest / f"{0:020}.log", source / f"{42:020}.log")
    exported(source, to, form, findings, decoding=Decoding())
    (other, one) = findings
    assert (one.severity, one.offset) == ("warning", 2)
    assert one.message.startswith("70 values were not decoded: field a.b[]: a floating-point number does not fit into")
    assert "the bytes are kept (the first at offset 2)" in one.message
    assert "exported to a new directory or namespace" in one.message
    kept = "the bytes are kept (the first at offset 1)"
    assert other.message == f"2 values were not decoded: no UTF-8: invalid start byte; {kept}"


@each_format
def test_unexpected_values_alone_stay_bytes_and_the_others_evolve_the_table(form: TableFormat, tmp_path: Path) -> None:
    """An array among objects, an object as another field's array, and names that no table has beside those there."""
    first = [b"[3]", b'{"a": 1, "b": {"c": 1}, "l": [{"d": 1}]}', b"[4]"]
    to, source = tmp_path / "out", log_of(tmp_path / "orders-0", first)
    exported(source, to, form, findings := list[Finding](), decoding=Decoding())
    assert [each.message.split(":")[0] for each in findings] == ["2 values were not decoded"]
    assert [row["valueRaw"] for row in table(to, "orders", form)] == [b"[3]", None, b"[4]"]
    findings.clear()
    bad = [b"[1,2]", b'{"a.b": 1}', b'{"A": 1}', b'{"b": [1]}', b'{"b": 5}', b'{"l": {"d": 2}}']
    good = [b'{"z": true}', b'{"b": {"c": 3, "d": "new"}}', b'{"l": [{"e": 1.5}]}']
    log_of(source, [*bad, *good], first=len(first))
    exported(source, to, form, findings, decoding=Decoding())
    found = table(to, "orders", form)[len(first) :]
    assert [row["valueRaw"] for row in found] == [*bad, None, None, None]
    assert all(row["valueError"] for row in found[: len(bad)])
    one, two, three = (row["value"] for row in found[len(bad) :])
    assert (one["z"], two["b"], three["l"][0]["e"]) == (True, {"c": 3, "d": "new"}, 1.5)
    assert len(findings) == len(bad)


def test_python_exports_a_log_and_a_partition(tmp_path: Path) -> None:
    source = log_of(tmp_path / "logs" / "orders-0", [b"a", b"b"])
    log = open_log(source.parent)
    (first,) = log.export(tmp_path / "out", as_="iceberg", catalog=Catalog(namespace="raw"))
    assert (first.records, first.table) == (2, "raw.orders")
    (again,) = log.partition("orders", 0).export(tmp_path / "out", as_="delta", decode=True)
    assert again.table == str(tmp_path / "out" / "orders")


def planned(source: Path, to: Path, form: TableFormat, **settings: Any) -> ExportPlan:
    return plan(
        resolve(Location(str(source))).partitions, [str(source)], Location.of(to), Export(form=form, **settings)
    )


@each_format
def test_of_two_exports_at_the_same_time_one_commits(form: TableFormat, tmp_path: Path) -> None:
    source, to = log_of(tmp_path / "orders-0", [b"a"]), tmp_path / "out"
    exported(source, to, form)
    log_of(source, [b"b", b"c"], first=1)
    late = planned(source, to, form)
    exported(source, to, form)
    with pytest.raises(UsageError, match="another export has been here meanwhile"):
        list(export(late, pytest.fail))
    assert [row["value"] for row in table(to, "orders", form)] == [b"a", b"b", b"c"]
    assert len(data_files(to, form)) == 2


def data_files(to: Path, form: TableFormat) -> list[Path]:
    root = to / "orders" if form == "delta" else to / "kafka" / "orders" / "data"
    return sorted(root.rglob("*.parquet"))


def append_by_others(to: Path, form: TableFormat) -> None:
    """A commit by the format's own library: in Delta, with the table's rows once more."""
    if form == "iceberg":
        with iceberg(to, "orders").transaction() as own:
            own.update_snapshot().fast_append().commit()
    else:
        write_deltalake(delta(to, "orders"), delta(to, "orders").to_pyarrow_table(), mode="append")


@each_format
def test_commits_of_others_meanwhile_do_not_matter(
    form: TableFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction, say: here rows that somebody adds, while the commit is on its way."""
    source, to = log_of(tmp_path / "orders-0", [b"a"]), tmp_path / "out"
    exported(source, to, form)
    log_of(source, [b"b"], first=1)
    store = IcebergTables if form == "iceberg" else DeltaTables
    state_of = store._state
    others: list[int] = []

    def state_and_then_another_commits(self: Any, opened: Any, topic: str) -> ExportState:
        found = state_of(self, opened, topic)
        if not others:
            others.append(1)
            append_by_others(to, form)
        return found

    late = planned(source, to, form)
    monkeypatch.setattr(store, "_state", state_and_then_another_commits)
    assert [each.records for each in export(late, pytest.fail)] == [1]
    monkeypatch.undo()
    assert others
    rows = {"iceberg": [b"a", b"b"], "delta": [b"a", b"a", b"b"]}
    assert [row["value"] for row in table(to, "orders", form)] == rows[form]
    assert exported(source, to, form) == []


def test_a_table_that_was_rolled_back_gets_the_records_again(tmp_path: Path) -> None:
    source, to = log_of(tmp_path / "orders-0", [b"a"]), tmp_path / "out"
    exported(source, to, "iceberg")
    first = iceberg(to, "orders").current_snapshot().snapshot_id
    log_of(source, [b"b"], first=1)
    exported(source, to, "iceberg")
    iceberg(to, "orders").manage_snapshots().rollback_to_snapshot(first).commit()
    assert [row["value"] for row in table(to, "orders", "iceberg")] == [b"a"]
    (again,) = exported(source, to, "iceberg")
    assert (again.start_offset, again.next_offset) == (1, 2)
    assert [row["value"] for row in table(to, "orders", "iceberg")] == [b"a", b"b"]
    own = iceberg(to, "orders")
    assert all(own.scan(snapshot_id=each.snapshot_id).to_arrow().num_rows for each in own.metadata.snapshots)


def test_a_table_that_was_restored_gets_the_records_again(tmp_path: Path) -> None:
    source, to = log_of(tmp_path / "orders-0", [b"a"]), tmp_path / "out"
    exported(source, to, "delta")
    first = delta(to, "orders").version()
    log_of(source, [b"b"], first=1)
    exported(source, to, "delta")
    delta(to, "orders").restore(first)
    (again,) = exported(source, to, "delta")
    assert (again.start_offset, again.next_offset) == (1, 2)
    assert [row["value"] for row in table(to, "orders", "delta")] == [b"a", b"b"]
    before = DeltaTable(str(to / "orders"), version=first + 1)
    assert len(pa.table(before.to_pyarrow_table())) == 2


def test_what_was_exported_is_known_when_the_snapshots_that_say_it_have_expired(tmp_path: Path) -> None:
    source, to = log_of(tmp_path / "orders-0", [b"a"]), tmp_path / "out"
    exported(source, to, "iceberg")
    append_by_others(to, "iceberg")
    own = iceberg(to, "orders")
    own.maintenance.expire_snapshots().by_id(own.current_snapshot().parent_snapshot_id).commit()
    assert len(iceberg(to, "orders").metadata.snapshots) == 1
    assert exported(source, to, "iceberg") == []


def test_what_was_exported_is_known_when_deltas_log_was_cleaned_up(tmp_path: Path) -> None:
    source, to = log_of(tmp_path / "orders-0", [b"a", b"b"]), tmp_path / "out"
    exported(source, to, "delta")
    append_by_others(to, "delta")
    delta(to, "orders").create_checkpoint()
    for each in sorted((to / "orders" / "_delta_log").glob("*.json"))[:-1]:
        each.unlink()
    assert not states_of(to, "orders", "delta")
    assert exported(source, to, "delta") == []
    log_of(source, [b"c"], first=2)
    (third,) = exported(source, to, "delta")
    assert (third.start_offset, third.next_offset) == (2, 3)


@each_format
def test_offsets_that_retention_deleted_before_they_were_exported_are_reported(
    form: TableFormat, tmp_path: Path
) -> None:
    source, to = log_of(tmp_path / "orders-0", [b"a"]), tmp_path / "out"
    exported(source, to, form)
    (source / "00000000000000000000.log").unlink()
    log_of(source, [b"d"], first=5)
    (source / "00000000000000000000.log").rename(source / "00000000000000000005.log")
    findings: list[Finding] = []
    (second,) = exported(source, to, form, findings)
    assert {each.kind for each in findings} == {"missing-offsets"}
    assert second.missing == ((1, 5),)
    assert [row["kafka"]["offset"] for row in table(to, "orders", form)] == [0, 5]
    before = open_store(form, Location(str(to))).load("orders")
    assert before is not None
    assert before.state.partitions[0].missing == ((1, 5),)


@each_format
def test_a_dry_run_writes_nothing(form: TableFormat, tmp_path: Path) -> None:
    source, to = log_of(tmp_path / "orders-0", [b"a"]), tmp_path / "out"
    (only,) = exported(source, to, form, dry_run=True)
    assert (only.records, only.next_offset) == (1, 1)
    assert not to.exists()


@each_format
def test_tables_of_other_topics_and_of_others_are_refused(form: TableFormat, tmp_path: Path) -> None:
    source, other = log_of(tmp_path / "a.b-0", [b"a"]), log_of(tmp_path / "a_b-0", [b"b"])
    to = tmp_path / "out"
    with pytest.raises(UsageError, match=r"the topics a\.b and a_b would have one table, a_b"):
        exported([str(source), str(other)], to, form)
    exported(source, to, form)
    with pytest.raises(UsageError, match=r"this is the table of the topic a\.b"):
        exported(other, to, form)
    open_store(form, Location(str(to))).append_rows("orders", pa.table({"x": [1]}))
    with pytest.raises(UsageError, match="a table that no export made"):
        exported(log_of(tmp_path / "orders-0", [b"a"]), to, form)


@each_format
def test_runs_that_would_mix_are_refused(form: TableFormat, tmp_path: Path) -> None:
    source, to = log_of(tmp_path / "orders-0", [b"a"]), tmp_path / "out"
    exported(source, to, form)
    with pytest.raises(UsageError, match="keys and values as bytes"):
        exported(source, to, form, decoding=Decoding())
    with pytest.raises(UsageError, match="isolation read_uncommitted"):
        exported(source, to, form, isolation="read_committed")


@each_format
def test_times_that_a_table_cannot_have_are_kept_beside(form: TableFormat, tmp_path: Path) -> None:
    times = [-1, 253_402_300_800_000, 253_402_300_799_999, -62_135_596_800_000, (1 << 63) - 1, 0]
    source, to = tmp_path / "orders-0", tmp_path / "out"
    for offset, each in enumerate(times):
        log_of(source, [b"a"], first=offset, start_ms=each - offset * DAY // 4)
    findings: list[Finding] = []
    exported(source, to, form, findings)
    assert {each.kind for each in findings} == {"timestamp-before-1970"}  # which load does not take
    found = [row["kafka"] for row in table(to, "orders", form)]
    assert [row["timestampRaw"] for row in found] == [-1, 253_402_300_800_000, None, None, (1 << 63) - 1, None]
    assert [row["timestamp"] and row["timestamp"].isoformat() for row in found] == [
        None, None, "9999-12-31T23:59:59.999000+00:00", "0001-01-01T00:00:00+00:00", None, "1970-01-01T00:00:00+00:00",
    ]  # fmt: skip


@each_format
def test_times_finer_than_microseconds_are_cut_and_keep_their_bytes(form: TableFormat, tmp_path: Path) -> None:
    nanos = {"type": "long", "logicalType": "timestamp-nanos"}
    schema = {"type": "record", "name": "T", "fields": [{"name": "at", "type": {"type": "array", "items": nanos}}]}
    plain = {"type": "record", "name": "T", "fields": [{"name": "at", "type": {"type": "array", "items": "long"}}]}
    times = [[1_700_000_000_000_001_000], [5_000, 1_700_000_000_000_001_001], []]
    values = [avro(plain, 1, {"at": each}) for each in times]
    source, to = log_of(tmp_path / "orders-0", values), tmp_path / "out"
    findings: list[Finding] = []
    exported(source, to, form, findings, decoding=Decoding(schemas(tmp_path / "schemas", _1=schema)))
    found = table(to, "orders", form)
    cut = datetime(2023, 11, 14, 22, 13, 20, 1, UTC)
    assert [row["value"]["at"] for row in found] == [[cut], [datetime(1970, 1, 1, 0, 0, 0, 5, UTC), cut], []]
    assert [row["valueRaw"] for row in found] == [None, values[1], None]
    assert found[1]["valueError"] == "field at[]: what is finer than a microsecond is left out"
    assert [(each.kind, each.offset) for each in findings] == [("value-not-decoded", 1)]


EARLIEST, LATEST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
YEARS = [EARLIEST, *(datetime(each, 1, 1, tzinfo=UTC) for each in (1600, 1677, 1678, 1969, 2262, 2263, 9999)), LATEST]


@each_format
def test_times_that_nanoseconds_do_not_hold_are_there_as_a_table_has_microseconds(
    form: TableFormat, tmp_path: Path
) -> None:
    proto = (
        'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp at = 1; }'
    )
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "1.proto").write_text(proto)
    times = [_timestamp(each, each.microsecond * 1000) for each in YEARS]
    times += [_timestamp(LATEST, 999_999_999), Timestamp(seconds=-62_135_596_801), Timestamp(seconds=(1 << 63) - 1)]
    bodies = [each.SerializeToString() for each in times]
    values = [b"\0\0\0\0\1\0\x0a" + bytes([len(each)]) + each for each in bodies]
    source, to, findings = log_of(tmp_path / "orders-0", values), tmp_path / "out", list[Finding]()
    exported(source, to, form, findings, decoding=Decoding(str(tmp_path / "schemas")))
    for read in READERS:
        assert [row["value"]["at"] for row in read(to, "orders", form)] == [*YEARS, LATEST, None, None]
    found = table(to, "orders", form)
    assert [row["valueRaw"] for row in found] == [None] * len(YEARS) + values[len(YEARS) :]
    assert [row["valueError"] for row in found[len(YEARS) :]] == [
        "field at: what is finer than a microsecond is left out",
        "field at: a timestamp outside of the years 1 to 9999 is left out",
        "field at: a time that timestamp[us, tz=UTC] does not hold is left out",
    ]
    assert [each.offset for each in findings] == [9, 10, 11]


def _timestamp(at: datetime, nanos: int) -> Timestamp:
    return Timestamp(seconds=(at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1), nanos=nanos)


@each_format
def test_json_whose_names_no_table_can_have_is_text(form: TableFormat, tmp_path: Path) -> None:
    values = [b'{"a": {"x.y": 1, "z": null}, "b": {"Id": 1, "id": 2}, "t": {}}']
    source, to = log_of(tmp_path / "orders-0", values), tmp_path / "out"
    exported(source, to, form, decoding=Decoding())
    for read in READERS:
        (row,) = read(to, "orders", form)
        assert row["value"] == {"a": '{"x.y":1,"z":null}', "b": '{"Id":1,"id":2}', "t": "{}"}


@pytest.mark.slow(reason="killed again and again")
@each_format
def test_killed_runs_lose_and_duplicate_nothing(form: TableFormat) -> None:
    """More of them: ``python -m tests.jobs.export.killed_tables``."""
    command = [sys.executable, "-m", "tests.jobs.export.killed_tables", "3", "1", form]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=600, check=True
    )
    *wrong, seen = done.stdout.splitlines()
    assert not wrong
    assert json.loads(seen)[f"{form}-killed"] >= 3


@pytest.mark.parametrize("is_in_warehouse", [True, False])
def test_files_of_a_catalogue_of_ones_own_on_this_machine_are_durable(
    is_in_warehouse: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own file is, so that what it names has to be there after a power failure."""
    synced: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(os.fstat(descriptor).st_ino))
    warehouse = tmp_path / "warehouse"
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/mine.db",
        "warehouse": warehouse.as_uri(),
    }
    log_of(tmp_path / "orders-0", [b"v"])
    to = None if is_in_warehouse else tmp_path / "to"
    (result,) = open_log(tmp_path / "orders-0").export(to, as_="iceberg", catalog=Catalog("mine", properties))
    assert result.records == 1
    directory = warehouse if is_in_warehouse else tmp_path / "to"
    written = {each: each.stat().st_ino for each in directory.rglob("*") if each.is_file()}
    assert {each.suffix for each in written} == {".parquet", ".avro", ".json"}
    assert {each.name for each, inode in written.items() if inode not in synced} == set()


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_stays_open_after_an_export(form: TableFormat, tmp_path: Path) -> None:
    """A process that exports every minute would run out of descriptors, or of those below 1,024."""
    counts: list[int] = []
    gc.collect()
    gc.disable()  # or what is collected by chance closes files, of tests before this one as well
    try:
        for number in range(4):
            log_of(tmp_path / "orders-0", [b"%d" % number], first=number)
            assert [each.records for each in open_log(tmp_path / "orders-0").export(tmp_path / "to", as_=form)] == [1]
            counts.append(len(list(Path("/dev/fd").iterdir())))
    finally:
        gc.enable()
    assert len(set(counts[1:])) == 1, counts
