"""Exporting again: what is new and nothing else, whatever became of the log, and of the run before."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from tests.examples import some_quick
from tests.golden import broker_data, broker_expected, json_lines
from tests.jobs.exports import exported, facts, listing, partition, table
from tests.log.whole_batches import batch

import brokerless
from brokerless.cli import main
from brokerless.errors import DamageError, UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.jobs.export.job import export, plan
from brokerless.jobs.export.tasks import Export
from brokerless.jobs.run.types import RunOptions
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.requests.writing import ExportForm
from brokerless.table_formats import export_state


def test_a_second_run_writes_nothing(tmp_path: Path) -> None:
    exported(broker_data("clean"), tmp_path)
    before = listing(tmp_path), {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert exported(broker_data("clean"), tmp_path) == []
    assert (listing(tmp_path), {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}) == before


GROWING = [
    ("segments-0", Export()), ("segments-0", Export(by_date=True)), ("codec-lz4-1", Export(file_bytes=2000)),
    ("compacted-txn-0", Export()), ("txn-1", Export(True, "read_committed")),
    ("txn-0", Export(isolation="read_committed")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings"), some_quick(GROWING))
def test_runs_on_a_growing_log_add_up_to_one_run_at_its_end(name: str, settings: Export, tmp_path: Path) -> None:
    source, growing = broker_data("clean") / name, tmp_path / name
    exported(source, tmp_path / "at-once", settings)
    wanted = table(tmp_path / "at-once")
    shutil.copytree(source, growing)
    for path in growing.iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
            path.unlink()
    runs = 0
    for log in sorted(source.glob("*.log")):
        data = log.read_bytes()
        steps = 4 if len(list(source.glob("*.log"))) > 3 else 25
        for step in range(1, steps + 1):  # most of them in the middle of a batch
            (growing / log.name).write_bytes(data[: len(data) * step // steps])
            before = listing(tmp_path / "out")
            exported(growing, tmp_path / "out", settings, found=[])
            assert before.items() <= listing(tmp_path / "out").items()
            seen = table(tmp_path / "out")
            last = max([-1, *(each["offset"] for each in seen)])
            assert facts(seen) == facts([row for row in wanted if row["offset"] <= last])
            runs += 1
    assert runs > 10
    assert facts(table(tmp_path / "out")) == facts(wanted)


def test_a_run_ends_where_the_first_transaction_is_open_and_the_next_one_goes_on_there(tmp_path: Path) -> None:
    name = "txn-0"
    (result,) = exported(broker_data("clean") / name, tmp_path, Export(isolation="read_committed"))
    (line,) = json_lines(broker_expected("clean") / "read-committed.json")
    assert result.next_offset == 460
    assert max(line["read_committed"][name]["offsets"]) < 460 <= max(line["read_uncommitted"][name]["offsets"])
    (again,) = exported(broker_data("clean") / name, tmp_path, Export(isolation="read_committed"))
    assert (again.start_offset, again.next_offset, again.records) == (460, 460, 0)


def test_what_was_deleted_before_it_was_exported_is_reported_once(tmp_path: Path) -> None:
    source = tmp_path / "segments-0"
    shutil.copytree(broker_data("clean") / "segments-0", source)
    logs = sorted(source.glob("*.log"))
    kept = {log.name: log.read_bytes() for log in logs[1:]}
    for file in source.iterdir():  # with its indexes, as a broker deletes a segment: else it would be missing
        if file.name[:20].isdigit() and not file.name.startswith(logs[0].stem):
            file.unlink()
    (first,) = exported(source, tmp_path / "out")
    for file in source.glob(f"{logs[0].stem}.*"):
        file.unlink()
    for name, data in list(kept.items())[2:]:
        (source / name).write_bytes(data)
    findings: list[Finding] = []
    exported(source, tmp_path / "out", found=findings)
    assert [(each.severity, each.kind) for each in findings] == [("error", "missing-offsets")]
    assert findings[0].expected == f"offset {first.next_offset}"
    assert exported(source, tmp_path / "out") == []


def test_a_log_that_was_cut_back_is_reported_and_nothing_is_exported(tmp_path: Path) -> None:
    log = [batch(offset).tobytes() for offset in range(10)]
    exported(partition(tmp_path / "t-0", b"".join(log)), tmp_path / "out")
    before = listing(tmp_path / "out")
    findings: list[Finding] = []
    assert exported(partition(tmp_path / "t-0", b"".join(log[:5])), tmp_path / "out", found=findings) == []
    assert [each.kind for each in findings] == ["log-end-before-export"]
    assert listing(tmp_path / "out") == before


TAILS = {
    "torn": (batch(2).tobytes()[:-7], "truncated-batch"),
    "overwritten": (b"overwritten by something else" * 9, "no-batches"),
    "zeros": (bytes(300), "zero-tail"),
}


@pytest.mark.parametrize("form", ["parquet", "delta"])
@pytest.mark.parametrize("tail", TAILS)
def test_what_is_wrong_at_the_end_is_reported_by_each_run_until_it_is_whole(
    tail: str, form: ExportForm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each run reads it again, as batches may follow that were not written yet; DuckDB has no record of it twice."""
    data, kind = TAILS[tail]
    whole = batch(0).tobytes() + batch(1).tobytes()
    partition(tmp_path / "t-0", whole + data)
    command = ["export", str(tmp_path / "t-0"), "--to", str(tmp_path / "out"), "--as", form]
    for _ in range(3):
        assert main(command) == 1
        assert f"position {len(whole)}" in capsys.readouterr().err
    found: list[Finding] = []
    brokerless.open(tmp_path / "t-0").export(str(tmp_path / "out"), as_=form, on_damage=found.append)
    assert [each.kind for each in found] == [kind]
    partition(tmp_path / "t-0", whole + batch(2).tobytes())
    assert [main(command), main(command)] == [0, 0]
    files = f"{tmp_path}/out/**/*.parquet"
    counts = duckdb.execute(f"SELECT count(*) FROM read_parquet('{files}', hive_partitioning = false)").fetchone()
    assert counts == (sum(len(rows) for rows in brokerless.open(tmp_path / "t-0").records(["offset"])),)


def test_offsets_that_were_left_out_are_named_by_each_run_without_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are recorded, so that a run on an intact copy fills them in."""
    parts = [batch(each).tobytes() for each in range(3)]
    broken = parts[1][:-1] + bytes([parts[1][-1] ^ 1])
    partition(tmp_path / "a" / "t-0", parts[0] + broken + parts[2])
    partition(tmp_path / "b" / "t-0", b"".join(parts))
    command = ["export", "--to", str(tmp_path / "out")]
    codes = [main([*command, str(tmp_path / each)]) for each in ("a", "a", "a", "b", "a")]
    errors = capsys.readouterr().err
    assert codes == [1, 0, 0, 0, 0]
    assert errors.count("t-0: an earlier run left out offset 1, and here they are damaged, too") == 2


# What is refused


def refused(source: Path, to: Path, match: str, settings: Export | None = None) -> None:
    before = listing(to)
    with pytest.raises(UsageError, match=match):
        exported(source, to, settings)
    assert listing(to) == before


def test_another_topic_another_layout_and_another_isolation_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    exported(partition(tmp_path / "a" / "t-0", batch(0).tobytes()), out)
    other = partition(tmp_path / "b" / "t-0", batch(0).tobytes() + batch(1).tobytes(), "AAAAAAAAAAAAAAAAAAAAAg")
    refused(other, out, "of the topic t with ID AAAAAAAAAAAAAAAAAAAAAQ, and .*/b/t-0 is of another one, with ID .*Ag;")
    refused(tmp_path / "a" / "t-0", out, "exported without dates; go on so", Export(by_date=True))
    refused(tmp_path / "a" / "t-0", out, "isolation read_uncommitted; go on so", Export(isolation="read_committed"))
    same = partition(tmp_path / "c" / "t-0", batch(0).tobytes() + batch(1).tobytes(), None)  # a copy that lost its ID
    exported(same, out)
    assert [row["offset"] for row in table(out)] == [0, 1]


@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_a_topic_that_was_made_again_without_ids_is_refused(form: ExportForm, tmp_path: Path) -> None:
    """The records of a log without ``partition.metadata`` tell: at an offset that was exported is another one."""
    out, settings = tmp_path / "out", Export(form=form)
    log = [batch(offset, 10).tobytes() for offset in range(0, 100, 10)]
    exported(partition(tmp_path / "a" / "t-0", b"".join(log), None), out, settings)
    again = [batch(offset, 10, 1_700_000_000_000).tobytes() for offset in range(0, 150, 10)]
    refused(
        partition(tmp_path / "b" / "t-0", b"".join(again), None), out,
        r"b/t-0: at offset 99 was a record of 2020-09-13T12:26:40\.009Z when it was read, and is another one now, of "
        r"2023-11-14T22:13:20\.009Z: the topic was deleted and made again, or .* export it to another directory",
        settings,
    )  # fmt: skip
    grown = [*log, batch(100, 10).tobytes()]
    (result,) = exported(partition(tmp_path / "a" / "t-0", b"".join(grown), None), out, settings)
    assert (result.start_offset, result.next_offset) == (100, 110)


def test_a_topic_without_ids_in_its_directories_has_that_of_the_metadata(tmp_path: Path) -> None:
    """A partition that lost its ``partition.metadata`` by a power cut, beside the cluster's metadata."""
    data, out = tmp_path / "data", tmp_path / "out"
    shutil.copytree(broker_data("clean"), data)
    (source,) = [each for each in data.iterdir() if each.name == "segments-0"]
    exported(source, out)
    known = export_state.load(Location.of(out), "segments")
    assert known is not None
    assert known.topic_id is not None
    (source / "partition.metadata").unlink()
    again = Path(str(out) + "-2")
    exported(source, again)
    assert export_state.load(Location.of(again), "segments") == known


@pytest.mark.parametrize("timestamp", [-1, -62_135_596_800_000, 0])
def test_a_last_record_of_any_time_and_no_epoch_is_kept(timestamp: int, tmp_path: Path) -> None:
    """No timestamp, Go's zero time, and 1970."""
    log = [batch(each, 1, timestamp, epoch=-1).tobytes() for each in range(3)]
    out = tmp_path / "out"
    findings: list[Finding] = []
    for count in (1, 2, 3):
        exported(partition(tmp_path / "t-0", b"".join(log[:count]), None), out, found=findings)
    assert {each.kind for each in findings} <= {"timestamp-before-1970"}  # which load does not take
    assert [row["offset"] for row in table(out)] == [0, 1, 2]


def test_a_ledger_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    exported(partition(tmp_path / "t-0", batch(0).tobytes(), None), out)
    ledger = out / "topic=t" / "_brokerless.json"
    document = json.loads(ledger.read_text())
    del document["partitions"]["0"]["last"]
    ledger.write_text(json.dumps(document))
    exported(partition(tmp_path / "t-0", batch(0).tobytes() + batch(1).tobytes(), None), out)
    assert [row["offset"] for row in table(out)] == [0, 1]


def test_one_topic_may_come_once_and_has_one_id(tmp_path: Path) -> None:
    one, two = (partition(tmp_path / each / "t-0", batch(0).tobytes()) for each in "ab")
    partitions = [*resolve(Location(str(one))).partitions, *resolve(Location(str(two))).partitions]
    with pytest.raises(UsageError, match=r"t-0 is both in .*/a/t-0 and in .*/b/t-0"):
        plan(partitions, [str(one), str(two)], Location.of(tmp_path / "out"), Export())
    partition(tmp_path / "a" / "t-1", batch(0).tobytes(), "AAAAAAAAAAAAAAAAAAAAAg")
    refused(tmp_path / "a", tmp_path / "out", "of another one, with ID")


def test_targets_that_are_something_else_are_refused(tmp_path: Path) -> None:
    source = partition(tmp_path / "data" / "t-0", batch(0).tobytes())
    refused(source, tmp_path / "data" / "t-0" / "out", "is within")
    broker = tmp_path / "broker"
    broker.mkdir()
    (broker / "meta.properties").write_text("")
    refused(source, broker, "is a broker's log directory")
    foreign = tmp_path / "out" / "topic=t"
    foreign.mkdir(parents=True)
    (foreign / "part-00000.parquet").write_bytes(b"")
    refused(source, tmp_path / "out", r"there are files \(part-00000.parquet\), but not _brokerless.json")
    refused(tmp_path / "data" / "t-0" / "00000000000000000000.log", tmp_path / "new", "does not say which partition")
    there = resolve(Location(str(source))).partitions
    for url, match in (("s3://", "names no bucket"), ("memory://logs/t-0/out", "is within memory://logs/t-0")):
        with pytest.raises(UsageError, match=match):
            plan(there, [str(source), "memory://logs/t-0"], Location(url), Export())
    for settings in (Export(codec="brotli"), Export(isolation="committed"), Export(file_bytes=0)):  # type: ignore[arg-type]
        refused(source, tmp_path / "new", "compression|isolation|file_bytes", settings)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"version": 1}', b"\xff", b'{"version":1,"partitions":[]}'])
def test_a_manifest_that_cannot_be_read_stops_the_run(content: bytes, tmp_path: Path) -> None:
    source = partition(tmp_path / "t-0", batch(0).tobytes())
    exported(source, tmp_path / "out")
    (tmp_path / "out" / "topic=t" / "_brokerless.json").write_bytes(content)
    with pytest.raises(UnreadableError, match=r"_brokerless\.json: this is not what says how far a topic was exported"):
        exported(source, tmp_path / "out")


def test_two_exports_at_once_to_one_directory_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = partition(tmp_path / "a-0", batch(0).tobytes())
    second = partition(tmp_path / "b-0", batch(0).tobytes())
    refusals: list[str] = []

    def meanwhile(_: int) -> None:
        try:
            exported(second, out)
        except UsageError as error:
            refusals.append(str(error))

    planned = plan(resolve(Location(str(first))).partitions, [str(first)], Location.of(out), Export())
    list(export(planned, [].append, RunOptions(meanwhile)))
    assert refusals
    assert all("another export writes here" in each for each in refusals)
    assert {row["topic"] for row in table(out)} == {"a"}


def test_a_plan_that_was_overtaken_is_refused(tmp_path: Path) -> None:
    source = partition(tmp_path / "t-0", batch(0).tobytes())
    planned = plan(resolve(Location(str(source))).partitions, [str(source)], Location.of(tmp_path / "out"), Export())
    exported(source, tmp_path / "out")
    with pytest.raises(UsageError, match="another export of t has been here meanwhile"):
        list(export(planned, [].append))
    assert len(table(tmp_path / "out")) == 1


# What a stop leaves

KILLED = """
import sys
from brokerless.jobs.export.job import Export, export, plan
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from tests.jobs.killed import kill_at_changes

source, out, kills = sys.argv[1], sys.argv[2], int(sys.argv[3])

def job(to):
    settings = Export(by_date=True, file_bytes=3000)
    planned = plan(resolve(Location(source)).partitions, [source], Location.of(to), settings)
    list(export(planned, print))

kill_at_changes(job, out, kills)
"""


@pytest.mark.slow(reason="a process for each step")
def test_a_killed_run_leaves_nothing_twice_or_half_and_the_next_one_makes_it_good(tmp_path: Path) -> None:
    """Killed when it is to change something on the disk for the first time, ..., for the last time."""
    source = tmp_path / "txn-1"
    shutil.copytree(broker_data("clean") / "txn-1", source)
    command = [sys.executable, "-c", KILLED, str(source), str(tmp_path / "out"), "16"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[3])
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 20
    wanted = facts(table(tmp_path / "out" / "whole"))
    partly = 0
    for out in (tmp_path / "out").glob("[0-9]*"):
        seen = facts(table(out))
        assert len(seen) == len(set(map(str, seen)))
        assert set(map(str, seen)) <= set(map(str, wanted))
        partly += 0 < len(seen) < len(wanted)
        exported(source, out, Export(by_date=True, file_bytes=4000))  # other files than those that were begun
        assert facts(table(out)) == wanted, out
        assert not list(out.rglob("_unfinished/*"))
    assert partly > 2


def test_what_ends_a_run_leaves_no_files_behind(tmp_path: Path) -> None:
    damaged = tmp_path / "t-0"
    data = bytearray(b"".join(batch(offset).tobytes() for offset in range(10)))
    data[-1] ^= 1
    partition(damaged, bytes(data))
    with pytest.raises(DamageError):
        brokerless.open(damaged).export(tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == ["_brokerless.json"]
    findings: list[Finding] = []
    brokerless.open(damaged).export(tmp_path / "out", on_damage=findings.append)
    assert [row["offset"] for row in table(tmp_path / "out")] == list(range(9))
