from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.format.twin import COMPRESS, write_batch, write_record
from tests.golden import broker_data
from tests.internals.written import topic_record, write_partition
from tests.lock_holder import held_by_another


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Partitions of a clean broker without its notes; in one of them, a segment is cut off."""
    for name in ("segments-0", "codec-lz4-1", "empty-0"):
        shutil.copytree(broker_data("clean") / name, tmp_path / name, copy_function=shutil.copyfile)
    log = tmp_path / "segments-0" / f"{169:020}.log"
    log.write_bytes(log.read_bytes()[:-1])
    return tmp_path


def test_a_dry_run_says_what_would_be_lost_and_changes_nothing(run: Run, damaged: Path) -> None:
    before = {path: path.read_bytes() for path in damaged.rglob("*") if path.is_file()}
    result = run("restart", "--json", damaged)
    assert result.exit_code == 1
    rows = {(each["topic"], each["partition"]): each for each in result.json}
    assert rows["empty", 0]["lostBytes"] == rows["codec-lz4", 1]["lostBytes"] == 0
    segments = rows["segments", 0]
    assert [Path(each["file"]).name for each in segments["truncated"]] == [f"{169:020}.log"]
    assert [Path(each["file"]).name for each in segments["deleted"]] == [f"{342:020}.log", f"{543:020}.log"]
    assert (segments["firstLostOffset"], segments["lastLostOffset"]) == (342, 699)
    assert segments["lostRecords"] == 700 - 342
    text = run("restart", damaged)
    assert any(f"deletes {342:020}.log" in line for line in text.lines)
    assert {path: path.read_bytes() for path in damaged.rglob("*") if path.is_file()} == before


def test_a_dry_run_where_nothing_would_be_lost_is_a_success(run: Run) -> None:
    assert run("restart", broker_data("clean")).exit_code == 0


def test_internal_topics_are_read_within_the_bound_that_is_given(run: Run, tmp_path: Path) -> None:
    records = [topic_record(f"topic-{number}", number) for number in range(1, 100)]
    payload = b"".join(write_record(key, value, (), number) for number, (key, value) in enumerate(records))
    last = len(records) - 1
    data = write_batch(COMPRESS["gzip"](payload), last_offset_delta=last, count=len(records), attributes=1)
    write_partition(tmp_path, "__cluster_metadata", data)
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    for bound, is_known in ((None, True), (len(payload), True), (len(payload) - 1, False)):
        options = () if bound is None else ("--max-batch-bytes", bound)
        (row,) = [each for each in run("restart", "--json", *options, tmp_path).json if each["topic"] is None]
        assert row["isStateKnown"] is is_known


def test_a_deleted_partition_would_be_gone(run: Run, damaged: Path) -> None:
    name = "codec-lz4-1.9f0c6ae1b2f64e5d8a7b3c1d2e4f5a6b-delete"
    (damaged / "codec-lz4-1").rename(damaged / name)
    (row,) = [each for each in run("restart", "--include", "delete", "--json", damaged).json
              if each["topic"] == "codec-lz4"]  # fmt: skip
    assert row["lostRecords"] == 152


def test_the_last_line_says_how_many_partitions_change_and_whether_a_broker_starts(run: Run, damaged: Path) -> None:
    clean = "partitions, 0 of them changed"
    assert run("restart", broker_data("clean")).lines[-1].endswith(clean)
    text = "3 partitions, 1 of them changed; a broker does not start on this directory"  # without meta.properties
    assert run("restart", damaged).lines[-2:] == ["", text]
    assert run("restart", damaged, "-q").lines == [text]


def test_zeros_at_the_end_of_a_log_that_was_closed_end_a_broker(run: Run, tmp_path: Path) -> None:
    """Also one with another log directory: Kafka throws CorruptRecordException, as 4.4.0 was seen to do."""
    shutil.copytree(broker_data("clean"), tmp_path / "disk")
    log = max((tmp_path / "disk" / "segments-0").glob("*.log"))
    log.write_bytes(log.read_bytes() + bytes(100))
    (tmp_path / "disk" / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    lines = run("restart", tmp_path / "disk").lines
    assert any(line.startswith("  the broker cannot load it, and ends: ") for line in lines)
    assert lines[-1].endswith("1 of them changed; a broker does not start on this directory")


def test_a_dry_run_needs_a_directory(run: Run, damaged: Path) -> None:
    result = run("restart", damaged / "segments-0" / f"{0:020}.log")
    assert result.exit_code == 2
    assert "local directory only" in result.err


def test_a_dry_run_beside_a_running_broker_says_so(run: Run, damaged: Path) -> None:
    alone = run("restart", damaged)
    with held_by_another(damaged):
        for path in (damaged, damaged / "segments-0"):
            assert f"{damaged}: a broker is running on this directory" in run("restart", path).err
        beside = run("restart", damaged)
    assert (beside.out, beside.exit_code) == (alone.out, alone.exit_code)
    assert "running" not in alone.err


def test_partitions_that_lose_nothing_are_counted_where_there_are_many(run: Run, tmp_path: Path) -> None:
    for number in range(30):
        directory = tmp_path / f"quiet-{number}"
        directory.mkdir()
        (directory / f"{0:020}.log").write_bytes(b"")
        (directory / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAAQ")
    (tmp_path / "quiet-29" / f"{0:020}.log").write_bytes(b"no batch at all, and so it is cut")
    lines = run("restart", tmp_path).lines
    rows = [line.split()[0] for line in lines if line.startswith("quiet-")]
    assert len(rows) == 11
    assert "quiet-29" in rows
    assert any(line.startswith("... and 19 more partitions that lose nothing") for line in lines)
    of_partitions = [each for each in run("restart", "--json", tmp_path).json if "lostBytes" in each]
    assert len(of_partitions) == 30


def test_only_what_is_harmful_is_shown_and_quietly_only_the_summary(run: Run) -> None:
    data = broker_data("unclean")
    every = run("restart", data)
    harmful = run("restart", "--min-severity", "error", data)
    assert len(harmful.lines) < len(every.lines)
    assert harmful.exit_code == every.exit_code == run("restart", "-q", data).exit_code
    assert run("restart", "-q", "--json", data).lines == []


def test_records_that_a_clean_start_does_not_see_change_the_exit_code(run: Run, tmp_path: Path) -> None:
    """By an index that points past the end of a cut log, a broker takes the segment for empty, and cuts nothing."""
    shutil.copytree("demo/data", tmp_path / "disk", copy_function=shutil.copyfile)
    (log,) = (tmp_path / "disk" / "payments-0").glob("*.log")
    log.write_bytes(log.read_bytes()[:53_117])
    result = run("restart", tmp_path / "disk")
    assert result.exit_code == 1
    assert "8 partitions, 1 of them changed" in result.out.decode()
    row = next(each for each in run("restart", tmp_path / "disk", "--json").json if each.get("topic") == "payments")
    assert (row["lostBytes"], row["lostRecords"]) == (0, 1553)
