"""``brokerless.open``: the tables of real Kafka's files are what Kafka's own reader says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import brokerless
from brokerless import Finding
from brokerless.schemas import BATCHES, RECORDS
from tests.golden import BROKERS, broker_data, broker_expected, cases, json_lines, of_type

TIMES = ("baseTimestamp", "maxTimestamp", "timestamp")


def to_rows(batches: list[pa.RecordBatch], schema: pa.Schema) -> list[dict[str, Any]]:
    for batch in batches:
        assert batch.schema == schema
        batch.validate(full=True)
    table = pa.Table.from_batches(batches, schema)
    for name in TIMES:
        if name in table.column_names:
            at = table.column_names.index(name)
            table = table.set_column(at, name, table[name].cast(pa.int64()))
    return table.to_pylist()


def check_batches(log: Path, expected: list[dict[str, Any]]) -> None:
    rows = to_rows(list(brokerless.open(log).batches(on_damage=lambda _: None)), BATCHES)
    wanted = list(of_type(expected, "batch", log.name))
    assert len(rows) == len(wanted)
    for row, want in zip(rows, wanted, strict=True):
        assert row["file"] == str(log)
        for key in want.keys() & row.keys() - {"file"}:
            assert row[key] == want[key], (key, row, want)


@pytest.mark.parametrize("category", ["formats", "articles", "specials", "framing", "damaged"])
def test_batches_are_kafkas(category: str) -> None:
    for case in cases(category):
        for log in case.logs:
            try:
                check_batches(log, case.expected())
            except BaseException as error:
                error.add_note(f"in {log}")
                raise


@pytest.mark.parametrize("broker", BROKERS)
def test_batches_and_records_of_a_brokers_directory_are_kafkas(broker: str) -> None:
    for expected in sorted(broker_expected(broker).glob("*/expected.jsonl")):
        directory = broker_data(broker) / expected.parent.name
        lines = json_lines(expected)
        for log in sorted(directory.glob("*.log")):
            check_batches(log, lines)
        found: list[Finding] = []
        log = brokerless.open(directory)
        batches = list(log.records(["file", "offset"], control=True, on_damage=found.append))
        rows = to_rows(batches, pa.schema([RECORDS.field("file"), RECORDS.field("offset")]))
        ours = [(Path(row["file"]).name, row["offset"]) for row in rows]
        theirs = [(line["file"], line["offset"]) for line in of_type(lines, "record") if line["file"].endswith(".log")]
        assert ours == theirs, directory


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_isolation_gives_what_a_consumer_of_the_live_broker_got(isolation: str) -> None:
    expected = json.loads((broker_expected("clean") / "read-committed.json").read_bytes())[isolation]
    assert expected
    for name, want in expected.items():
        log = brokerless.open(broker_data("clean") / name)
        batches = list(log.records(["offset"], isolation=isolation))
        offsets = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
        assert offsets == want["offsets"], name
