"""``brokerless.open``: the tables of real Kafka's files are what Kafka's own reader says."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import brokerless
from brokerless import DamageError, Finding, UnreadableError
from brokerless.schemas import BATCHES, RECORDS, SEGMENTS
from tests.format.twin import write_batch, write_record
from tests.golden import BROKERS, broker_data, broker_expected, case, cases, json_lines, of_type

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
    for each in cases(category):
        for log in each.logs:
            try:
                check_batches(log, each.expected())
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
        log = brokerless.open(directory, include="deleted")
        batches = list(log.records(["file", "offset"], control=True, on_damage=found.append))
        rows = to_rows(batches, pa.schema([RECORDS.field("file"), RECORDS.field("offset")]))
        ours = [(Path(row["file"]).name, row["offset"]) for row in rows]
        theirs = [(line["file"], line["offset"]) for line in of_type(lines, "record") if line["file"].endswith(".log")]
        assert ours == theirs, directory


def test_a_consumer_gets_nothing_before_the_log_start_offset() -> None:
    """Which the log directory records when records were deleted; the files have them until their segment goes."""
    name = "head-deleted-0"

    def offsets(include: Any, isolation: Any) -> list[list[int]]:
        one, all_of_it = (brokerless.open(broker_data("clean") / each, include=include) for each in (name, ""))
        partitions = one.partitions[0], all_of_it.partition("head-deleted", 0)
        assert [each.start_offset for each in partitions] == ([74, 74] if include else [105, 105])
        tables = (pa.Table.from_batches(each.records(["offset"], isolation=isolation)) for each in partitions)
        return [table["offset"].to_pylist() for table in tables]

    for isolation in ("read_uncommitted", "read_committed"):
        every = offsets("deleted", isolation)
        assert every[0][0] == every[1][0] == 74
        assert offsets((), isolation) == [[offset for offset in each if offset >= 105] for each in every]
    file = min((broker_data("clean") / name).glob("*.log"))
    assert next(brokerless.open(file).records(["offset"]))["offset"][0].as_py() == 74


def test_a_log_that_ends_before_its_log_start_offset_gives_nothing_and_says_so(tmp_path: Path) -> None:
    """As of a broker, which deletes all of it."""
    shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "segments-0")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nsegments 0 701\n")
    found: list[Finding] = []
    assert not list(brokerless.open(tmp_path).records(on_damage=found.append))
    assert [(each.severity, each.kind, each.offset) for each in found] == [("error", "log-start-beyond-end", 700)]
    with pytest.raises(DamageError, match="the log ends before its start offset"):
        list(brokerless.open(tmp_path).records())
    assert sum(batch.num_rows for batch in brokerless.open(tmp_path, include="deleted").records()) == 700


def test_where_the_log_start_offset_cannot_be_known_a_warning_says_so(tmp_path: Path) -> None:
    shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "segments-0")
    (tmp_path / "log-start-offset-checkpoint").write_text("garbage\n")
    found: list[Finding] = []
    assert sum(batch.num_rows for batch in brokerless.open(tmp_path).records(on_damage=found.append)) == 700
    assert [(each.severity, each.kind) for each in found] == [("warning", "log-start-unknown")]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_isolation_gives_what_a_consumer_of_the_live_broker_got(isolation: str) -> None:
    expected = json.loads((broker_expected("clean") / "read-committed.json").read_bytes())[isolation]
    assert expected
    for name, want in expected.items():
        log = brokerless.open(broker_data("clean") / name)
        batches = list(log.records(["offset"], isolation=isolation))
        offsets = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
        assert offsets == want["offsets"], name


def test_a_batch_whose_checksum_is_wrong_is_listed_and_reported_where_someone_listens() -> None:
    damaged = case("damaged/all-crcs-wrong")
    wrong = {line["position"] for line in damaged.expected() if line["type"] == "error"}
    found: list[Finding] = []
    log = brokerless.open(damaged.log)
    rows = [row for batch in log.batches(["position", "isValid"], on_damage=found.append) for row in batch.to_pylist()]
    assert {row["position"] for row in rows if not row["isValid"]} == wrong
    assert [finding.position for finding in found] == sorted(wrong)
    assert {finding.kind for finding in found} == {"checksum-mismatch"}
    assert all(finding.expected != finding.found for finding in found)
    assert sum(batch.num_rows for batch in log.batches()) == len(rows)
    assert sum(batch.num_rows for batch in log.batches(["position"], on_damage=found.append)) == len(rows)
    assert len(found) == len(wrong)


def test_segments_are_one_table_over_all_partitions() -> None:
    log = brokerless.open(broker_data("clean"))
    table = log.segments()
    assert table.schema == SEGMENTS
    assert table.num_rows == sum(len(partition.segment_paths) for partition in log.partitions)
    assert table["file"].to_pylist() == [row["file"] for each in log.partitions for row in each.segment_rows()]


def test_a_segment_that_cannot_be_opened_does_not_hide_the_next(tmp_path: Path) -> None:
    log = shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "segments-0")
    path = min(log.glob("*.log"))
    path.unlink()
    path.symlink_to("nowhere")
    partition = brokerless.open(log).partition("segments", 0)
    first, *others = partition.segment_paths
    told: list[UnreadableError] = []
    rows = list(partition.segment_rows(on_unreadable=told.append))
    assert [row["file"] for row in rows] == [each.log.path for each in others]
    assert [first.log.path in str(error) for error in told] == [True]
    with pytest.raises(UnreadableError):
        partition.segments()


@pytest.mark.parametrize("read", ["records", "batches"])
def test_a_segment_that_ends_within_a_batch_is_damaged_if_the_log_goes_on(read: str, tmp_path: Path) -> None:
    """Kafka's reader takes a cut-off batch for the end of a file, and of the last one a broker may write the rest."""
    logs = sorted(Path(shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "segments-0")).glob("*.log"))

    def given() -> list[pa.RecordBatch]:
        (partition,) = brokerless.open(tmp_path).partitions
        return list(getattr(partition, read)())

    logs[-1].write_bytes(logs[-1].read_bytes()[:-20])
    assert given()
    logs[1].write_bytes(logs[1].read_bytes()[:-20])
    with pytest.raises(DamageError, match=f"{logs[1].name}, position .*the file ends within a batch"):
        given()


@pytest.mark.parametrize("broker", BROKERS)
def test_every_plain_column_can_be_grouped_and_sorted_by(broker: str) -> None:
    log = brokerless.open(broker_data(broker))
    tables = [
        pa.Table.from_batches(log.records(control=True, on_damage=lambda _: None), RECORDS),
        pa.Table.from_batches(log.batches(on_damage=lambda _: None), BATCHES),
        log.segments(on_damage=lambda _: None),
        log.transactions(),
    ]
    assert len(set(tables[0]["topic"].to_pylist())) > 3  # several files and topics, of which each batch has one
    for table in tables:
        for field in table.schema:
            if pa.types.is_list(field.type):  # Arrow has no order of lists
                continue
            column = table[field.name].cast(pa.int64()) if pa.types.is_timestamp(field.type) else table[field.name]
            values = column.to_pylist()
            groups = table.group_by(field.name).aggregate([([], "count_all")])
            keys = groups[field.name].cast(column.type).to_pylist()
            assert dict(zip(keys, groups["count_all"].to_pylist(), strict=True)) == Counter(values)
            found = table.sort_by(field.name)[field.name].cast(column.type).to_pylist()
            assert found == sorted(values, key=lambda value: (value is None, value))


def test_rows_that_take_less_than_their_files_name_come_in_batches_of_bounded_size(tmp_path: Path) -> None:
    directory = tmp_path.joinpath(*["d" * 250] * 12)
    directory.mkdir(parents=True)
    path = directory / f"{0:020}.log"
    record = write_record(None, None)
    path.write_bytes(write_batch(record * 20_000, count=20_000, last_offset_delta=19_999))
    batches = list(brokerless.open(path).records())
    assert sum(batch.num_rows for batch in batches) == 20_000
    assert max(batch.nbytes for batch in batches) < 10 << 20
    assert {batch.column("file")[row].as_py() for batch in batches for row in (0, -1)} == {str(path)}
