"""Times of day and whole numbers, which are one type in tables: no run takes one for the other."""

from __future__ import annotations

import json
from datetime import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.jobs.tables import FORMATS, READERS, Rows, avro, delta, exported, iceberg, log_of, table

from brokerless.findings import Finding
from brokerless.table_formats.catalog import TableFormat
from brokerless.table_formats.times_of_day import with_times
from brokerless.typed.topic_type import Decoding

pytestmark = pytest.mark.xdist_group("exported")
each_format = pytest.mark.parametrize("form", FORMATS)
MILLIS = {"type": "int", "logicalType": "time-millis"}
MICROS = {"type": "long", "logicalType": "time-micros"}
NOON_MS, NOON_US = 43_200_000, 43_200_000_000


class Runs:
    """One topic, of which each record has a schema of its own and is exported by a run of its own."""

    def __init__(self, root: Path, form: TableFormat, *, spark: Any = "none") -> None:
        self.root, self.form, self.payloads, self.findings = root, form, list[bytes](), list[Finding]()
        self.spark = spark
        (root / "schemas").mkdir()

    def add(self, type_: Any, value: Any) -> list[Finding]:
        """The findings of a run with one record more. ``value``: as fastavro writes it without logical types."""
        number = len(self.payloads) + 1
        schema = {"type": "record", "name": "T", "fields": [{"name": "f", "type": type_}]}
        (self.root / "schemas" / f"{number}.avsc").write_text(json.dumps(schema))
        text = json.dumps(schema)
        for logical in (MILLIS, MICROS):
            text = text.replace(json.dumps(logical), json.dumps(logical["type"]))
        self.payloads.append(avro(json.loads(text), number, {"f": value}))
        log_of(self.root / "logs" / "t-0", self.payloads[-1:], first=number - 1)
        return self.run()

    def run(self) -> list[Finding]:
        found: list[Finding] = []
        decoding = Decoding(str(self.root / "schemas"))
        exported(self.root / "logs", self.root / "to", self.form, found, decoding=decoding, spark=self.spark)
        return found

    def rows(self) -> Rows:
        return table(self.root / "to", "t", self.form)

    def check(self, *expected: Any) -> None:
        """``expected``: the values of ``f``; ``...`` for one that has its bytes and a reason instead."""
        rows = self.rows()
        assert len(rows) == len(expected)
        for row, payload, value in zip(rows, self.payloads, expected, strict=True):
            if value is ...:
                assert (row["value"], row["valueRaw"]) == (None, payload)
                assert "does not fit into" in row["valueError"]
            else:
                assert (row["value"]["f"], row["valueRaw"], row["valueError"]) == (value, None, None)


@each_format
def test_a_column_of_times_takes_times_alone(form: TableFormat, tmp_path: Path) -> None:
    runs = Runs(tmp_path, form)
    assert runs.add(MILLIS, NOON_MS) == []
    (found,) = runs.add("int", 5)
    assert (found.kind, found.offset) == ("value-not-decoded", 1)
    assert "field f: a whole number does not fit into time64[us]" in found.message
    assert runs.add(MICROS, NOON_US + 1) == []
    assert len(runs.add("long", NOON_US)) == 1
    runs.check(NOON_US, ..., NOON_US + 1, ...)


@each_format
def test_a_column_of_whole_numbers_takes_no_times(form: TableFormat, tmp_path: Path) -> None:
    runs = Runs(tmp_path, form)
    assert runs.add("long", 5) == []
    (found,) = runs.add(MICROS, NOON_US)
    assert "field f: time64[us] does not fit into int64" in found.message
    assert len(runs.add(MILLIS, 7)) == 1
    assert runs.add("int", 6) == []
    runs.check(5, ..., ..., 6)


@each_format
def test_a_column_that_comes_later_is_what_its_first_values_are(form: TableFormat, tmp_path: Path) -> None:
    def record(inner: Any) -> Any:
        fields = [{"name": "a", "type": "long"}, *([] if inner is None else [{"name": "g", "type": inner}])]
        return {"type": "record", "name": "R", "fields": fields}

    runs = Runs(tmp_path, form)
    assert runs.add(record(None), {"a": 1}) == []
    assert runs.add(record(MILLIS), {"a": 2, "g": NOON_MS}) == []
    assert len(runs.add(record("long"), {"a": 3, "g": 4})) == 1
    runs.check({"a": 1, "g": None}, {"a": 2, "g": NOON_US}, ...)


@pytest.mark.parametrize("text", [None, "", "{", "[1]", '["value.g", "key", "value"]', '{"value.f": 1}', "[" * 5000])
def test_a_property_that_somebody_broke_names_nothing(text: str | None) -> None:
    schema = pa.schema([pa.field("value", pa.struct([pa.field("f", pa.int64())]))])
    assert with_times(schema, text) == schema


@each_format
def test_a_table_that_went_back_to_before_its_times(form: TableFormat, tmp_path: Path) -> None:
    runs = Runs(tmp_path, form)
    assert runs.add({"type": "record", "name": "R", "fields": []}, {}) == []
    to = tmp_path / "to"
    first = iceberg(to, "t").current_snapshot().snapshot_id if form == "iceberg" else delta(to, "t").version()
    (tmp_path / "schemas" / "2.avsc").unlink(missing_ok=True)
    assert len(runs.add({"type": "array", "items": MICROS}, [NOON_US])) == 0  # the record is text
    if form == "iceberg":
        iceberg(to, "t").manage_snapshots().rollback_to_snapshot(first).commit()
    else:
        delta(to, "t").restore(first)
    assert runs.run() == []
    runs.check("{}", '["12:00:00.000000"]')


@each_format
def test_times_that_were_taken_back_come_again(form: TableFormat, tmp_path: Path) -> None:
    runs = Runs(tmp_path, form)
    record = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    runs.add(record, {"a": 1})
    to = tmp_path / "to"
    first = iceberg(to, "t").current_snapshot().snapshot_id if form == "iceberg" else delta(to, "t").version()
    runs.add({**record, "fields": [*record["fields"], {"name": "g", "type": MICROS}]}, {"a": 2, "g": NOON_US})
    if form == "iceberg":
        iceberg(to, "t").manage_snapshots().rollback_to_snapshot(first).commit()
    else:
        delta(to, "t").restore(first)
    assert runs.run() == []
    assert (
        len(runs.add({**record, "fields": [*record["fields"], {"name": "g", "type": "long"}]}, {"a": 3, "g": 4})) == 1
    )
    runs.check({"a": 1, "g": None}, {"a": 2, "g": NOON_US}, ...)


def test_files_of_parquet_have_the_type_of_their_run(tmp_path: Path) -> None:
    runs = Runs(tmp_path, "iceberg")
    runs.form = "parquet"  # type: ignore[assignment]
    assert [runs.add(MICROS, NOON_US), runs.add("long", 5)] == [[], []]
    one, two = sorted((tmp_path / "to").rglob("*.parquet"))
    (first,), (second,) = (pq.ParquetFile(each).read(["value"]).to_pylist() for each in (one, two))
    assert first["value"]["f"] == time(12)
    assert second["value"]["f"] in (5, "5")


@each_format
def test_all_readers_get_numbers(form: TableFormat, tmp_path: Path) -> None:
    Runs(tmp_path, form).add(MILLIS, NOON_MS)
    for read in READERS:
        assert read(tmp_path / "to", "t", form)[0]["value"] == {"f": NOON_US}
