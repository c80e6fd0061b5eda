"""Small files become larger ones, old states expire, and no reader sees a record twice or misses one."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.types import LongType
from tests.jobs.pipeline.works import pipeline, segments, table_offsets
from tests.jobs.tables import own_catalog

from brokerless.jobs.pipeline import maintenance
from brokerless.jobs.pipeline.maintenance import maintain_delta, maintain_iceberg


def runs(tmp_path: Path, count: int, **settings: Any) -> None:
    for number in range(count):
        segments(tmp_path / "logs" / "t-0", *(range(at * 50, at * 50 + 50) for at in range(number + 1)), wrong=(20,))
        pipeline(tmp_path / "logs", tmp_path / "to", **settings)


def iceberg(to: Path) -> Any:
    return own_catalog(to).load_table(("kafka", "t"))


@pytest.mark.parametrize("form", ["iceberg", "delta"])
def test_files_of_many_runs_become_one(tmp_path: Path, form: str) -> None:
    runs(tmp_path, 5, form=form)
    assert sorted(table_offsets(tmp_path / "to", "t", 0, form)) == [*range(20), *range(30, 250)]
    if form == "iceberg":
        files = [task.file.record_count for task in iceberg(tmp_path / "to").scan().plan_files()]
        assert sorted(files) == [50, 190]
        scan = iceberg(tmp_path / "to").scan("kafka.timestamp > '2000-01-01T00:00:00+00:00'")
        assert scan.to_arrow().num_rows == 240  # files are found by their days still
    else:
        assert len(DeltaTable(str(tmp_path / "to" / "t")).file_uris()) == 2
    assert not pipeline(tmp_path / "logs", tmp_path / "to", form=form).is_new  # what was exported is known still


def test_only_small_files_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(tmp_path, 3, form="iceberg")
    monkeypatch.setattr(maintenance, "_FEW", 2)
    for file_bytes, expected in ((100, [40, 50, 50]), (1 << 20, [140])):
        maintain_iceberg(iceberg(tmp_path / "to"), file_bytes, 86_400)
        files = iceberg(tmp_path / "to").scan().plan_files()
        assert sorted(each.file.record_count for each in files) == expected


def test_fields_that_got_other_names_are_merged_by_their_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may be another field's by now, also within lists and maps."""
    catalog = load_catalog("own", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    pair = pa.struct([("a", pa.int32()), ("b", pa.string())])
    types = pa.schema([("s", pair), ("l", pa.list_(pair)), ("m", pa.map_(pa.string(), pair)), ("x", pa.int32())])
    one, other = {"a": 1, "b": "one"}, {"a": 2, "b": None}
    rows = [{"s": one, "l": [one, other], "m": [("k", other)], "x": 3}, {"s": None, "l": [], "m": None, "x": None}]
    table = catalog.create_table("n.t", types)
    table.append(pa.Table.from_pylist(rows, types))
    structs = ("s", "l.element", "m.value")
    with table.update_schema() as schema:
        for above in structs:
            schema.rename_column(f"{above}.b", "c")
        schema.update_column("x", field_type=LongType())
    with table.update_schema() as schema:
        for above in structs:
            schema.move_first(f"{above}.c")
        schema.add_column(("l", "b"), LongType())
        schema.add_column(("s", "b"), LongType())
        schema.delete_column("m.value.a")
    table.append(table.scan().to_arrow())
    before = table.scan().to_arrow().to_pylist()
    assert before[0]["l"][0] == {"c": "one", "a": 1, "b": None}
    monkeypatch.setattr(maintenance, "_FEW", 2)
    maintain_iceberg(table, 1 << 20, 86_400)
    assert table.scan().to_arrow().to_pylist() == before
    assert len(list(table.scan().plan_files())) == 1
    catalog.close()


def test_of_deltas_days_those_with_many_files_are_merged(tmp_path: Path) -> None:
    for number in range(4):
        days = pa.array([date(2026, 1, 1), None, date(2026, 2, 1 + number)], pa.date32())
        write_deltalake(tmp_path, pa.table({"x": [number] * 3, "date": days}), mode="append", partition_by=["date"])
    maintain_delta(DeltaTable(tmp_path), 1 << 20, 3600)
    table = DeltaTable(tmp_path)
    assert (len(table.file_uris()), pa.table(table.to_pyarrow_table()).num_rows) == (6, 12)
    maintain_delta(table, 1 << 20, 3600)
    assert DeltaTable(tmp_path).version() == table.version()


def test_states_expire_and_only_what_none_needs_is_removed(tmp_path: Path) -> None:
    runs(tmp_path, 5, form="iceberg")
    table = iceberg(tmp_path / "to")
    assert len(table.metadata.snapshots) == 6
    directory = tmp_path / "to" / "kafka" / "t"
    (directory / "data" / "being-written.parquet").write_bytes(b"new")
    (directory / "notes.txt").write_text("not ours")
    (tmp_path / "victim.parquet").write_bytes(b"precious")
    (directory / "data" / "link.parquet").symlink_to(tmp_path / "victim.parquet")
    for path in directory.rglob("*"):
        if path.name != "being-written.parquet" and path.is_file():
            os.utime(path, (1_000_000_000, 1_000_000_000))
    for each in table.metadata.snapshots:
        object.__setattr__(each, "timestamp_ms", each.timestamp_ms - 3_600_000)
    maintain_iceberg(table, 1 << 20, 600)
    names = {path.name for path in (directory / "data").rglob("*.parquet")}
    needed = {Path(task.file.file_path).name for task in iceberg(tmp_path / "to").scan().plan_files()}
    assert names == needed | {"being-written.parquet", "link.parquet"}
    assert (directory / "notes.txt").exists()
    assert (tmp_path / "victim.parquet").read_bytes() == b"precious"
    assert sorted(table_offsets(tmp_path / "to", "t", 0, "iceberg")) == [*range(20), *range(30, 250)]
    runs(tmp_path, 6, form="iceberg")
    assert sorted(table_offsets(tmp_path / "to", "t", 0, "iceberg")) == [*range(20), *range(30, 300)]
