"""``brokerless.open``: the tables of real Kafka's files are what Kafka's own reader says."""

from __future__ import annotations

import json
import pydoc
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import brokerless
from brokerless import DamageError, Finding, Log, UnreadableError, UsageError
from brokerless.cli.commands import COMMANDS
from brokerless.schemas import BATCHES, RECORDS, SEGMENTS
from brokerless.tables.partition_tables import segment_rows
from brokerless.views import audit as audit_view
from brokerless.views import restart as restart_view
from brokerless.views.jobs import salvage as salvage_view
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture
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
    told: list[Finding] = []
    rows = to_rows(list(brokerless.open(log).batches(on_damage=told.append)), BATCHES)
    wanted = list(of_type(expected, "batch", log.name))
    # Where the chain of sizes breaks, Kafka's reader ends; what follows is in tests/test_mutations.py.
    assert len(rows) == len(wanted) or any(each.kind == "batches-resume" for each in told)
    for row, want in zip(rows[: len(wanted)], wanted, strict=True):
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
    assert table.num_rows == sum(len(each.segments) for each in log.paths)
    assert table["file"].to_pylist() == [row["file"] for each in log.paths for row in segment_rows(each)]


def test_a_segment_that_cannot_be_opened_does_not_hide_the_next(tmp_path: Path) -> None:
    log = shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "segments-0")
    path = min(log.glob("*.log"))
    path.unlink()
    path.symlink_to("nowhere")
    partition = brokerless.open(log).partition("segments", 0)
    first, *others = partition.paths[0].segments
    told: list[UnreadableError] = []
    rows = list(segment_rows(partition.paths[0], on_unreadable=told.append))
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
        log.transactions(on_damage=lambda _: None),
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
    payload = b"".join(write_record(None, None, offset_delta=each) for each in range(20_000))
    path.write_bytes(write_batch(payload, count=20_000, last_offset_delta=19_999))
    batches = list(brokerless.open(path).records())
    assert sum(batch.num_rows for batch in batches) == 20_000
    assert max(batch.nbytes for batch in batches) < 10 << 20
    assert {batch.column("file")[row].as_py() for batch in batches for row in (0, -1)} == {str(path)}


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A log directory of three partitions; in the second segment of one, a byte is wrong."""
    directory = tmp_path / "damaged"
    for name in ("segments-0", "codec-lz4-1", "empty-0"):
        shutil.copytree(broker_data("clean") / name, directory / name, copy_function=shutil.copyfile)
    log = directory / "segments-0" / f"{169:020}.log"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0xFF
    log.write_bytes(content)
    return directory


def files_of(directory: Path) -> dict[str, bytes]:
    """Of a log directory; without names and contents that are made up for each run."""
    made_up = ("partition.metadata", "meta.properties")
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name not in made_up
    }


@pytest.mark.parametrize("table", ["records", "batches"])
def test_a_table_is_a_reader_whose_schema_is_known_before_it_reads(table: str, damaged: Path) -> None:
    def check(thing: brokerless.Log) -> None:
        reader = getattr(thing, table)(on_damage=lambda _: None)
        assert isinstance(reader, pa.RecordBatchReader)
        assert reader.schema == {"records": RECORDS, "batches": BATCHES}[table]
        rows = [row for batch in getattr(thing, table)(on_damage=lambda _: None) for row in batch.to_pylist()]
        assert rows
        assert reader.read_all().to_pylist() == rows
        imported = pa.RecordBatchReader.from_stream(getattr(thing, table)(on_damage=lambda _: None))
        assert imported.read_all().to_pylist() == rows, "what DuckDB and Polars get"

    log = brokerless.open(damaged)
    check(log)
    check(log.partition("segments", 0))


@pytest.mark.parametrize("read", ["read_all", "iterate", "from_batches"])
def test_an_error_while_reading_is_ours_and_keeps_its_finding(read: str, damaged: Path) -> None:
    reader = brokerless.open(damaged).records()
    readers = {"read_all": reader.read_all, "iterate": lambda: list(reader)}
    with pytest.raises(DamageError) as raised:
        readers.get(read, lambda: pa.Table.from_batches(reader))()
    assert raised.value.finding.file == str(damaged / "segments-0" / f"{169:020}.log")
    (damaged / "codec-lz4-1" / f"{0:020}.log").unlink()
    (damaged / "codec-lz4-1" / f"{0:020}.log").mkdir()
    with pytest.raises(UnreadableError):
        brokerless.open(damaged / "codec-lz4-1" / f"{0:020}.log").records().read_all()


def test_what_cannot_be_read_at_all_is_refused_before_the_first_batch(damaged: Path) -> None:
    log = brokerless.open(damaged)
    with pytest.raises(UsageError, match="colour"):
        log.records(["colour"])
    with pytest.raises(UsageError, match="isolation"):
        log.partitions[0].records(isolation="serializable")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="limit"):
        log.records(limit=-1)


def test_a_reader_has_one_file_open_until_it_is_released(tmp_path: Path) -> None:
    def open_logs() -> int:
        links = (str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
        return sum(link.startswith(str(tmp_path)) for link in links)

    shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "segments-0")
    partition = brokerless.open(tmp_path).partition("segments", 0)
    reader = partition.records(["offset"])
    assert open_logs() == 0, "nothing is opened before the first batch"
    next(reader)
    reader.read_all()
    assert open_logs() == 0
    reader = partition.batches(["position"])
    next(reader)
    assert open_logs() == 1
    del reader
    assert open_logs() == 0


@pytest.mark.parametrize("limit", [0, 1, 168, 169, 170, 699, 700, 1000])
def test_a_limit_is_a_number_of_records(limit: int) -> None:
    log = brokerless.open(broker_data("clean") / "segments-0")
    everything = log.records(["offset"]).read_all()
    assert everything.num_rows == 700
    for one in (log, log.partitions[0]):
        assert one.records(["offset"], limit=limit).read_all() == everything.slice(0, limit)
    both = brokerless.open(broker_data("clean"))
    assert both.records(["offset"], limit=limit).read_all().num_rows == limit


def test_verify_finds_what_the_command_finds(run: Run, damaged: Path) -> None:  # noqa: F811
    found = [each.as_dict() for each in brokerless.open(damaged).verify()]
    assert "error" in {each["severity"] for each in found}
    assert found == run("verify", "--json", damaged).json
    partition = damaged / "segments-0"
    found = [each.as_dict() for each in brokerless.open(partition).partitions[0].verify()]
    assert found == run("verify", "--json", partition).json


def test_audit_finds_what_the_command_finds(run: Run, damaged: Path) -> None:  # noqa: F811
    audit = brokerless.open(damaged).audit()
    rows = [audit_view.finding_row(each, one) for one in audit.partitions for each in one.findings]
    rows += [audit_view.finding_row(each, None) for each in audit.directory_findings]
    assert "error" in {each["severity"] for each in rows}
    assert rows == run("audit", "--json", damaged).json
    found = brokerless.open(damaged).partition("segments", 0).audit()
    (one,) = found.partitions
    rows = [audit_view.finding_row(each, one) for each in one.findings]
    rows += [audit_view.finding_row(each, None) for each in found.directory_findings]
    assert rows == run("audit", "--json", damaged, "-t", "segments", "-p", 0).json


def test_restart_expects_what_the_command_expects(run: Run, damaged: Path) -> None:  # noqa: F811
    restart = brokerless.open(damaged).restart()
    assert not restart.is_harmless
    assert restart.directory is not None
    rows = [*map(restart_view.row, restart.partitions), restart_view.directory_row(restart.directory)]
    assert rows == run("restart", "--json", damaged).json
    one = brokerless.open(damaged).partition("segments", 0).restart()
    assert one.directory is not None
    rows = [*map(restart_view.row, one.partitions), restart_view.directory_row(one.directory)]
    assert rows == run("restart", "--json", damaged, "-t", "segments", "-p", 0).json
    assert brokerless.open(broker_data("clean")).restart().is_harmless


def test_salvage_saves_what_the_command_saves(run: Run, damaged: Path, tmp_path: Path) -> None:  # noqa: F811
    results = brokerless.open(damaged).salvage(tmp_path / "here")
    theirs = run("salvage", damaged, "--to", tmp_path / "there", "--json").json
    assert [each["losses"] for each in theirs] != [[]] * len(theirs)
    here = json.loads(json.dumps([salvage_view.row(each) for each in results]).replace("/here", "/there"))
    assert here == theirs
    assert files_of(tmp_path / "here") == files_of(tmp_path / "there")
    (one,) = brokerless.open(damaged).partition("segments", 0).salvage(tmp_path / "tables", as_="parquet", dry_run=True)
    asked = ("--as", "parquet", "--dry-run", "--json")
    assert [salvage_view.row(one)] == run("salvage", damaged / "segments-0", "--to", tmp_path / "tables", *asked).json
    assert not (tmp_path / "tables").exists()


def test_convert_writes_what_the_command_writes(run: Run, damaged: Path, tmp_path: Path) -> None:  # noqa: F811
    with pytest.raises(DamageError):
        brokerless.open(damaged).partition("segments", 0).convert(tmp_path / "not", codec="zstd")
    clean = broker_data("clean") / "segments-0"
    options = ("--format", "v1", "--codec", "gzip", "--batch-size", 500, "--segment-bytes", 20000, "--json")
    theirs = run("convert", clean, "--to", tmp_path / "there", *options).json
    how: dict[str, Any] = {"message_format": 1, "codec": "gzip", "batch_size": 500, "segment_bytes": 20000}
    (result,) = brokerless.open(clean).convert(tmp_path / "here", **how)
    assert [result.as_dict() | {"target": theirs[0]["target"]}] == theirs
    (one,) = brokerless.open(clean).partitions[0].convert(tmp_path / "again", **how)
    assert one.totals == result.totals
    assert files_of(tmp_path / "here") == files_of(tmp_path / "there") == files_of(tmp_path / "again")
    (planned,) = brokerless.open(clean).partitions[0].convert(tmp_path / "dry", codec="lz4", dry_run=True)
    assert planned.totals.records_out == 700
    assert not (tmp_path / "dry").exists()


def test_export_leaves_out_kafkas_own_topics_unless_one_is_meant(tmp_path: Path) -> None:
    log = brokerless.open(Path(__file__).parents[2] / "demo" / "data")
    own = {each.name for each in log.topics if each.name.startswith("__")}
    assert own
    exported = log.export(tmp_path / "all", dry_run=True)
    assert {each.topic for each in exported} == {each.name for each in log.topics} - own
    one = next(each for each in log.topic("__consumer_offsets").partitions if each.paths[0].size)
    assert one.export(tmp_path / "one", dry_run=True)


def test_export_writes_what_the_command_writes(run: Run, damaged: Path, tmp_path: Path) -> None:  # noqa: F811
    with pytest.raises(DamageError):
        brokerless.open(damaged).export(tmp_path / "not")
    found: list[Finding] = []
    exported = brokerless.open(damaged).export(tmp_path / "here", by_date=True, on_damage=found.append)
    theirs = run("export", damaged, "--to", tmp_path / "there", "--by-date", "--json").json
    counts = [(each.topic, each.partition, each.next_offset, each.records, len(each.findings)) for each in exported]
    names = ("topic", "partition", "nextOffset", "records", "damages")
    assert counts == [tuple(each[name] for name in names) for each in theirs]
    assert found
    one = brokerless.open(damaged).partition("segments", 0)
    (again,) = one.export(tmp_path / "one", compression="lz4", on_damage=lambda _: None)
    assert again.records == next(each["records"] for each in theirs if each["topic"] == "segments")
    assert one.export(tmp_path / "one", on_damage=lambda _: None) == [], "nothing new"


def test_the_public_names_are_there_and_importing_them_loads_no_kernels() -> None:
    for name in brokerless.__all__:
        assert getattr(brokerless, name) is not None
        assert name in dir(brokerless)
    with pytest.raises(AttributeError, match="nothing"):
        _ = brokerless.nothing
    code = "import sys, brokerless; print(sorted({'numba', 'pandas', 'pyspark', 'fsspec'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"


def test_notebooks_show_logs_partitions_and_findings_as_tables():
    log = brokerless.open(Path(__file__).parents[2] / "demo" / "data")
    html = log._repr_html_()
    for partition in log.partitions:
        assert f">{partition.paths[0].topic}<" in html
        assert f">{partition.paths[0].size:,}<" in html
        assert f">{partition.paths[0].segments[-1].base_offset:,}<" in partition._repr_html_()
    finding = brokerless.Finding("error", "checksum-mismatch", "<a>/0.log", position=7, message="<script>")
    assert "<script>" not in finding._repr_html_()
    assert "&lt;script&gt;" in finding._repr_html_()


@pytest.mark.parametrize("jobs", [0, -1, 1.5, "2"])
def test_jobs_is_a_number_of_threads(jobs: Any) -> None:
    with pytest.raises(UsageError, match=r"is not a (number of threads|whole number)"):
        brokerless.open(case("formats/v2-none-create").log).records(jobs=jobs)


def test_topics_and_partitions_are_logs() -> None:
    log = brokerless.open(broker_data("clean"))
    topic, partition = log.topic("segments"), log.partition("segments", 0)
    assert {type(each) for each in (log, topic, partition, *topic, *log.topics)} == {Log}
    assert (log.topic_partition, topic.topic_partition) == (None, None)
    assert (partition.topic_partition, partition.name) == (("segments", 0), "segments-0")
    assert topic.partition("segments", 0) == partition == partition.partitions[0] == partition.partition("segments", 0)
    assert brokerless.open(partition.path).topic_partition == ("segments", 0)
    assert [each.name for each in partition.topics] == ["segments"]
    with pytest.raises(UsageError, match="there is no topic txn; there are segments"):
        partition.topic("txn")


def test_a_topic_has_the_lag_of_its_own_and_is_compared_by_itself() -> None:
    log = brokerless.open("demo/data")
    lag = brokerless.internals.state(log.topic("orders"), ["lag"])["lag"].to_pylist()
    assert lag == brokerless.internals.state(log, ["lag"])["lag"].to_pylist() != []
    assert brokerless.diff(log.topic("orders"), "demo/data", only=["records"]).is_same
    with pytest.raises(UsageError, match="5 is no path and no log"):
        brokerless.diff(log, 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["start_offset", "end_offset", "offset_for_timestamp", "explain"])
def test_what_is_of_one_partition_is_refused_of_several(name: str) -> None:
    log = brokerless.open(broker_data("clean"))
    with pytest.raises(UsageError, match=rf"{name} is of one partition, and here is {len(log)} partitions; use"):
        getattr(log, name) if name.endswith("_offset") else getattr(log, name)(*(("-1d",) * (name != "explain")))


def test_every_command_has_a_function_or_a_method() -> None:
    of_the_command_line = {"completion"}
    under_other_names = {"cat": "records", "ls": "segments", "internals": "dataset"}
    for name in COMMANDS.keys() - of_the_command_line:
        name = under_other_names.get(name, name)
        assert hasattr(Log, name) or hasattr(brokerless.Backup, name) or name in brokerless.__all__, name


def test_a_repr_is_a_line_that_says_what_is_there(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    data = write_batch(write_record(b"k", b"v"))
    (directory / f"{0:020}.log").write_bytes(data)
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "empty-0" / f"{7:020}.log").write_bytes(b"")
    log = brokerless.open(tmp_path)
    assert repr(log) == f"Log('{tmp_path}', 2 partitions, {len(data)} B)"
    assert repr(log.partitions) == (
        f"[Log('{tmp_path}', empty-0, empty, 1 segment),\n Log('{tmp_path}', orders-0, 0..0, 1 segment)]"
    )
    (directory / f"{0:020}.log").unlink()
    assert repr(log.partition("orders", 0)) == f"Log('{tmp_path}', orders-0, 1 segment)"
    alone = tmp_path / "copy.log"
    alone.write_bytes(data)
    assert repr(brokerless.open(alone)) == f"Log('{alone}', 0..0, 1 segment)"


def test_results_are_shown_in_a_line_each(tmp_path: Path) -> None:
    """Their plans name every file: a repr of them had 50,000 characters for eight partitions."""
    data = broker_data("clean")
    log = brokerless.open(data)
    results: list[Any] = [
        log.audit(), log.restart(), log.restart().directory, log.trim(free="1KB"), brokerless.cluster([data]),
        *log.audit().partitions[:3], *log.restart().partitions[:3],
    ]  # fmt: skip
    for number, job in enumerate((log.salvage, log.convert, log.compact, log.export)):
        results += list(job(tmp_path / str(number), dry_run=True))[:3]
    for each in results:
        assert repr(each).startswith(f"{type(each).__name__}(")
        assert len(repr(each)) < 500
        assert "\n" not in repr(each)
        assert each._repr_html_().startswith("<table><caption>")
    first, salvaged = log.partitions[0], log.salvage(tmp_path / "to", dry_run=True)[0]
    assert repr(salvaged).startswith(f"SalvageResult({first.name}, start_offset=")


def test_help_of_the_package_says_what_there_is_before_its_private_packages() -> None:
    text = pydoc.plain(pydoc.render_doc(brokerless)).partition("PACKAGE CONTENTS")[0]
    functions = [name for name in brokerless.__all__ if name[0].islower() and name != "schemas"]
    for name in [*functions, "Log", "Finding", "brokerless.writing", "brokerless.schemas"]:
        assert f"``{name}``" in text
    for name in re.findall(r"``(\w+)``", text.partition("- check:")[2]):
        assert hasattr(brokerless, name) or hasattr(brokerless.Log, name), name


def test_lists_are_tables_in_notebooks_and_a_line_each_elsewhere(tmp_path: Path) -> None:
    log = brokerless.open("demo/data")
    for found, column in (
        (log.partitions, "segments"),
        (log.topics, "partitions"),
        (log.salvage(tmp_path / "a", dry_run=True), "records"),
        (log.convert(tmp_path / "b", codec="zstd"), "partition"),
        (log.compact(dry_run=True), "partition"),
        (log.export(tmp_path / "c"), "partition"),
        (log.size(codecs=["lz4"], message_formats=[2]), "bytes"),
    ):
        assert isinstance(found, list)
        assert f">{column}</th>" in found._repr_html_()  # type: ignore[attr-defined]
        assert repr(found).count("\n") == len(found) - 1
