from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data
from tests.internals.remote.metadata import broker_directory, events
from tests.log.tiered import golden

DEMO = Path(__file__).parents[3] / "demo" / "data"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Partitions of a clean broker without its notes; in one of them, a segment is cut off."""
    for name in ("segments-0", "codec-lz4-1", "empty-0"):
        shutil.copytree(broker_data("clean") / name, tmp_path / name, copy_function=shutil.copyfile)
    log = tmp_path / "segments-0" / f"{169:020}.log"
    log.write_bytes(log.read_bytes()[:-1])
    return tmp_path


def test_nothing_but_infos_is_a_success(run: Run) -> None:
    result = run("audit", broker_data("clean"))
    assert result.exit_code == 0
    assert result.lines[0] == "ok"
    assert [line for line in result.lines if "transaction of producer 1013 is open" in line]


def test_each_finding_has_its_place_its_grade_and_advice(run: Run, damaged: Path) -> None:
    result = run("audit", "--json", damaged)
    assert result.exit_code == 1
    keys = "severity kind file position offset message expected found topic partition advice"
    for finding in result.json:
        assert {*keys.split()} <= finding.keys()
        assert finding["advice"]
        assert (finding["topic"], finding["partition"]) == ("segments", 0)
    assert {(each["severity"], each["kind"]) for each in result.json} >= {
        ("error", "truncated-batch"),
        ("warning", "offset-gap"),
    }
    told = [each for each in result.json if each["severity"] != "info"]
    assert len(result.err.splitlines()) == len(told)


def test_for_people_a_summary_comes_first_then_damaged_partitions_and_the_worst_finding(
    run: Run, damaged: Path
) -> None:
    result = run("audit", damaged)
    assert result.exit_code == 1
    assert result.lines[0].startswith("1 error, ")
    summary = dict(line.split(None, 1) for line in result.lines[1:4])
    assert summary["lost"].endswith("of segments-0")
    assert summary["start"].startswith("not known")
    head = next(at for at, line in enumerate(result.lines) if line.startswith("partition "))
    assert head == 5
    assert result.lines[head + 1].startswith("segments-0 ")
    assert "... and 2 partitions without warnings or errors" in result.lines[head + 2]
    findings = [line for line in result.lines[head:] if line.startswith(("error ", "warning ", "info "))]
    assert findings[0].startswith("error    segments-0/00000000000000000169.log")
    assert run("audit", damaged, "-t", "codec-lz4").exit_code == 0


def test_what_is_lost_is_what_was_there_and_is_in_no_batch(run: Run, tmp_path: Path) -> None:
    shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "segments-0", copy_function=shutil.copyfile)
    log = tmp_path / "segments-0" / f"{169:020}.log"
    before = {each["offset"] for each in run("cat", "--json", "--control", tmp_path).json}
    log.write_bytes(log.read_bytes()[:-1])
    after = {each["offset"] for each in run("cat", "--json", "--control", tmp_path).json}
    (line,) = (line for line in run("audit", tmp_path).lines if line.startswith("lost"))
    assert line.split(None, 1)[1].startswith(f"{len(before - after)} offset")
    log.unlink()  # and its indexes, so that only the offsets say so
    for name in (".index", ".timeindex"):
        log.with_suffix(name).unlink(missing_ok=True)
    after = {each["offset"] for each in run("cat", "--json", "--control", tmp_path).json}
    (line,) = (line for line in run("audit", tmp_path).lines if line.startswith("lost"))
    assert line.split(None, 1)[1].startswith(f"{len(before - after)} offset")


def test_all_shows_partitions_that_are_in_order_and_each_finding(run: Run, damaged: Path) -> None:
    lines = run("audit", damaged, "--all").lines
    head = next(at for at, line in enumerate(lines) if line.startswith("partition "))
    assert [line.split()[0] for line in lines[head + 1 : head + 4]] == ["codec-lz4-1", "empty-0", "segments-0"]
    assert lines[head + 1].endswith("ok")
    findings = [line for line in lines if line.startswith(("error ", "warning ", "info "))]
    assert len(findings) == len(run("audit", damaged, "--json").json)


def test_broken_indexes_count_apart_and_come_after_lost_records(run: Run, damaged: Path) -> None:
    for index in sorted((damaged / "codec-lz4-1").glob("*.index")):
        index.write_bytes(bytes(7))
    result = run("audit", damaged)
    assert result.lines[0].startswith("1 error, ")
    assert "; of indexes: " in result.lines[0]
    assert ".index" in result.out.decode()
    findings = [line for line in result.lines if line.startswith(("error ", "warning "))]
    places = [".index" in line for line in findings]
    assert places == sorted(places)
    assert run("audit", damaged, "-t", "codec-lz4").exit_code == 1  # as before


def test_a_start_is_foreseen_of_a_brokers_own_directory(run: Run, tmp_path: Path) -> None:
    shutil.copytree(broker_data("clean"), tmp_path / "disk", copy_function=shutil.copyfile)

    def start() -> str:
        (line,) = (line for line in run("audit", tmp_path / "disk").lines if line.startswith("start "))
        return line.split(None, 1)[1]

    assert start().startswith("a broker starts")
    (tmp_path / "disk" / "lost+found").mkdir()
    assert start().startswith("a broker does not start: ")
    assert "lost+found" in start()
    assert not [line for line in run("audit", tmp_path / "disk", "-t", "segments").lines if line.startswith("start ")]


def test_records_that_a_start_does_not_see_any_more_are_named_though_nothing_is_cut_off(
    run: Run, tmp_path: Path
) -> None:
    """After a clean stop a broker takes the end without recovery, here for empty, as ``restart`` says."""
    disk = tmp_path / "disk"
    shutil.copytree(DEMO, disk)
    log = max((disk / "payments-0").glob("*.log"))
    log.chmod(0o644)
    log.write_bytes(log.read_bytes()[:-30])
    (line,) = [each for each in run("audit", disk).lines if each.startswith("start ")]
    assert "a broker starts: 1,553 records not seen any more" in line
    (payments,) = [each for each in run("restart", "--json", disk).json if each["topic"] == "payments"]
    assert payments["logEndOffset"] == 0


def test_partitions_are_chosen_as_elsewhere(run: Run, damaged: Path) -> None:
    lines = run("audit", damaged, "-p", "1", "--all").lines
    (head,) = (at for at, line in enumerate(lines) if line.startswith("partition "))
    assert [line.split()[0] for line in lines[head + 1 : head + 2]] == ["codec-lz4-1"]
    assert run("audit", damaged, "-t", "nowhere").exit_code == 2


def test_an_unreadable_path_does_not_hide_the_others(run: Run, damaged: Path) -> None:
    result = run("audit", "--json", "nowhere", damaged)
    assert result.exit_code == 2
    assert result.json


BUCKET = "bucket    4 segments (5.2 MB, 0.12 a month) that brokers read; 4 orphans (4.7 MB, 0.11 a month)"


def test_orphans_of_a_bucket_have_bytes_and_costs(tmp_path: Path, run: Run) -> None:
    data, bucket = broker_directory("killed", tmp_path / "data"), golden() / "killed" / "bucket"
    result = run("audit", data, "--remote", bucket, "--price-per-gb", "23")
    assert result.exit_code == 1
    assert BUCKET in result.lines
    rows = run("audit", data, "--remote", bucket, "--json").json
    finished = {one["segmentId"] for one in events("killed") if one["state"] == "COPY_SEGMENT_FINISHED"}
    orphans = [each for each in rows if each["kind"] == "remote-segment-orphaned"]
    assert sum(each["sizeInBytes"] for each in orphans) == sum(
        path.stat().st_size
        for each in {one["segmentId"] for one in events("killed")} - finished
        for path in bucket.rglob(f"*{each}.*")
    )
    narrowed = run("audit", data, "--remote", bucket, "-t", "__remote_log_metadata")
    assert "bucket    0 segments (0 B) that brokers read" in narrowed.lines
    for wrong in ("0", "-1", "abc", "inf", "nan"):
        assert run("audit", data, "--price-per-gb", wrong).exit_code == 2, wrong
