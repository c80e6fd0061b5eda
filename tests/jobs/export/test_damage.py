"""Exporting damaged logs: what is sound, once; and what is left out, with its offsets."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.golden import broker_data, case, cases, of_type
from tests.jobs.exports import exported, partition, raw, table
from tests.jobs.pipeline.works import table_offsets
from tests.log.whole_batches import batch, shifted

import brokerless
from brokerless.findings import Finding
from brokerless.jobs.export.tasks import Export
from brokerless.log.storage.location import Location
from brokerless.table_formats import export_state as export_state


def test_a_damaged_batch_is_left_out_once_and_reported_with_its_offsets(tmp_path: Path) -> None:
    batches = [batch(offset * 10, 10).tobytes() for offset in range(6)]
    wrong = bytearray(batches[2])
    wrong[-1] ^= 1
    source = partition(tmp_path / "t-0", b"".join([*batches[:2], bytes(wrong), *batches[3:5]]))
    findings: list[Finding] = []
    (result,) = exported(source, tmp_path / "out", found=findings)
    assert [each.kind for each in findings] == ["checksum-mismatch"]
    assert result.left_out == ((20, 29),)
    assert [row["offset"] for row in table(tmp_path / "out")] == [*range(20), *range(30, 50)]
    noted = export_state.load(Location(str(tmp_path / "out")), "t")
    assert noted is not None
    assert noted.partitions[0].left_out == ((20, 29),)
    partition(tmp_path / "t-0", b"".join([*batches[:2], bytes(wrong), *batches[3:]]))
    (result,) = exported(source, tmp_path / "out")  # the next run does not come back to it
    assert (result.start_offset, result.next_offset, result.left_out) == (50, 60, ())
    assert exported(source, tmp_path / "out") == []


FORMATS = ["parquet", "iceberg", "delta"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_an_intact_copy_fills_in_what_was_left_out_as_damaged(tmp_path: Path, form: Any, isolation: Any) -> None:
    """Also one that comes batch by batch, of which one is damaged elsewhere."""

    def log(name: str, *wrong: int) -> Path:
        batches = [bytearray(batch(offset * 10, 10).tobytes()) for offset in range(6)]
        for number in wrong:
            batches[number][-1] ^= 1
        return partition(tmp_path / name / "t-0", b"".join(batches))

    def offsets() -> list[int]:
        if form == "parquet":
            return [row["offset"] for row in table(tmp_path / "out")]
        return sorted(table_offsets(tmp_path / "out", "t", 0, form).tolist())

    settings, out = Export(form=form, isolation=isolation), tmp_path / "out"
    (first,) = exported(log("a", 1, 2, 4), out, settings, found=[])
    assert first.left_out == ((10, 29), (40, 49))
    assert exported(log("a", 1, 2, 4), out, settings) == []
    (filled,) = exported(log("b", 2, 3), out, settings)
    assert (filled.filled, filled.left_out, filled.records) == (((10, 20), (40, 50)), (), 20)
    assert offsets() == [*range(20), *range(30, 60)]
    assert exported(log("b", 2, 3), out, settings) == []
    (filled,) = exported(log("c"), out, settings)
    assert (filled.filled, filled.next_offset) == (((20, 30),), 60)
    assert offsets() == list(range(60))
    assert exported(log("c"), out, settings) == []


def test_damage_at_the_end_is_looked_at_again_until_intact_batches_follow(tmp_path: Path) -> None:
    batches = [batch(offset * 10, 10).tobytes() for offset in range(4)]
    wrong = bytearray(batches[2])
    wrong[-1] ^= 1
    for _ in range(2):
        findings: list[Finding] = []
        source = partition(tmp_path / "t-0", b"".join([*batches[:2], bytes(wrong)]))
        (result,) = exported(source, tmp_path / "out", found=findings)
        assert ([each.kind for each in findings], result.left_out) == (["checksum-mismatch"], ((20, None),))
        assert result.next_offset == 20
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "out", other)
    partition(tmp_path / "t-0", b"".join(batches))  # it was repaired
    exported(source, tmp_path / "out")
    assert [row["offset"] for row in table(tmp_path / "out")] == list(range(40))
    partition(tmp_path / "t-0", b"".join([*batches[:2], bytes(wrong), batches[3]]))  # it was not
    (result,) = exported(source, other, found=[])
    assert result.left_out == ((20, 29),)
    assert [row["offset"] for row in table(other)] == [*range(20), *range(30, 40)]


def test_what_may_be_readable_another_time_is_not_passed(tmp_path: Path) -> None:
    bomb = case("formats/v2-zstd-create")
    source = tmp_path / "t-0"
    partition(source, b"")
    (source / "00000000000000000000.log").unlink()
    shutil.copy(bomb.log, source / bomb.log.name)
    findings: list[Finding] = []
    (result,) = exported(source, tmp_path / "out", Export(max_batch_bytes=1000), findings)
    assert {each.kind for each in findings} == {"limit-exceeded"}
    assert (result.records, result.next_offset) == (0, result.start_offset)
    assert table(tmp_path / "out") == []
    (result,) = exported(source, tmp_path / "out")
    assert result.records == len(list(of_type(bomb.expected(), "record")))


@pytest.mark.slow(reason="many damaged files")
def test_damaged_logs_give_what_a_reader_gets_and_nothing_twice(tmp_path: Path) -> None:
    left_out = 0
    for each in cases("damaged")[::3]:
        for log in each.logs:
            if log.suffix != ".log":
                continue
            name = each.name.rpartition("/")[2]
            source, out = tmp_path / "in" / name / "t-0", tmp_path / "out" / name
            source.mkdir(parents=True)
            shutil.copy(log, source)
            findings: list[Finding] = []
            read: list[Finding] = []
            batches = brokerless.open(source).records(["offset", "key", "value"], on_damage=read.append)
            wanted = [(row["offset"], row["key"], row["value"]) for part in batches for row in part.to_pylist()]
            results = exported(source, out, found=findings)
            found = [(row["offset"], row["key"], row["value"]) for row in raw(out)]
            kinds = {each.kind for each in findings}
            if not results:
                assert not found
                assert not wanted or results == [], each
                continue
            if "limit-exceeded" not in kinds:
                ends = results[0].end_offset
                assert sorted(found) == sorted(row for row in wanted if results[0].start_offset <= row[0] < ends), each
                errors = [finding for finding in read if finding.severity == "error"]
                assert {(one.kind, one.position) for one in errors} <= {(one.kind, one.position) for one in findings}
            left_out += len(results[0].left_out)
            exported(source, out, found=[])
            assert [(row["offset"], row["key"], row["value"]) for row in raw(out)] == found, each
    assert left_out > 50


@pytest.mark.parametrize("ahead", [[2], [0], [1, 2], [1, 3]], ids=str)
def test_batches_at_offsets_that_cannot_be_are_reported_and_what_was_there_is_left_out(
    ahead: list[int], tmp_path: Path
) -> None:
    batches = [shifted(10 * each, 1 << 20 if each in ahead else 0) for each in range(6)]
    source = partition(tmp_path / "t-0", b"".join(batches))
    findings: list[Finding] = []
    (result,) = exported(source, tmp_path / "out", found=findings)
    assert [(each.kind, each.severity, each.position) for each in findings] == [
        ("offset-order", "error", sum(map(len, batches[:each]))) for each in ahead
    ]
    left_out = [offset for first, last in result.left_out for offset in range(first, (last or 0) + 1)]
    assert left_out == [offset for each in ahead for offset in range(10 * each, 10 * each + 10)]
    assert [row["offset"] for row in table(tmp_path / "out")] == [each for each in range(60) if each not in left_out]
    partition(source, b"".join([*batches, batch(60, 10).tobytes()]))
    (result,) = exported(source, tmp_path / "out")  # nothing is told twice
    assert (result.records, result.next_offset, result.left_out) == (10, 70, ())


def test_damage_after_a_batch_at_an_offset_that_cannot_be_is_reported(tmp_path: Path) -> None:
    wrong = bytearray(batch(30, 10).tobytes())
    wrong[-1] ^= 1
    log = [shifted(0, 0), shifted(10, 1 << 20), shifted(20, 0), bytes(wrong), shifted(40, 0)]
    findings: list[Finding] = []
    (result,) = exported(partition(tmp_path / "t-0", b"".join(log)), tmp_path / "out", found=findings)
    assert sorted(each.kind for each in findings) == ["checksum-mismatch", "offset-order"]
    assert result.left_out == ((10, 19), (30, 39))


def test_offsets_that_were_there_before_are_reported(tmp_path: Path) -> None:
    """A consumer gets each offset once, and so it is exported once."""
    findings: list[Finding] = []
    log = b"".join(batch(offset, 10).tobytes() for offset in (0, 10, 10, 20))
    (result,) = exported(partition(tmp_path / "t-0", log), tmp_path / "out", found=findings)
    assert [(each.kind, each.severity, each.offset) for each in findings] == [("offset-overlap", "warning", 10)]
    assert (result.records, result.left_out) == (30, ())


@pytest.mark.parametrize("is_live", [False, True])
def test_segments_under_each_others_names_are_reported(is_live: bool, tmp_path: Path) -> None:
    source = partition(tmp_path / "t-0", batch(20, 10).tobytes())
    (source / "00000000000000000010.log").write_bytes(batch(10, 10).tobytes())
    (source / "00000000000000000020.log").write_bytes(batch(0, 10).tobytes())
    (source / "00000000000000000030.log").write_bytes(batch(30, 10).tobytes() if is_live else b"")
    findings: list[Finding] = []
    exported(source, tmp_path / "out", found=findings)
    names = [Path(each.file).name for each in findings if each.kind == "offset-misplaced"]
    assert names == ["00000000000000000000.log", "00000000000000000020.log"]
    assert {each.severity for each in findings} <= {"error", "warning"}


LOCKING = """
import fcntl, sys

file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("", flush=True)
sys.stdin.read()
"""


def test_a_broker_that_runs_may_be_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    """Locked as a broker does it, by another process; without, the cut-off end is told."""
    source = partition(tmp_path / "data" / "t-0", batch(0).tobytes() + batch(1).tobytes()[:-1])
    findings: list[Finding] = []
    exported(source, tmp_path / "one", found=findings)
    assert [each.kind for each in findings] == ["truncated-batch"]
    command = [sys.executable, "-c", LOCKING, str(tmp_path / "data" / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        broker.stdout.readline()
        exported(source, tmp_path / "two")
        broker.communicate(b"")
    for out in ("one", "two"):
        assert [row["offset"] for row in table(tmp_path / out)] == [0]
        partition(tmp_path / "data" / "t-0", batch(0).tobytes() + batch(1).tobytes())
        exported(source, tmp_path / out)
        assert [row["offset"] for row in table(tmp_path / out)] == [0, 1]
        partition(tmp_path / "data" / "t-0", batch(0).tobytes() + batch(1).tobytes()[:-1])


def test_all_but_a_log_that_is_missing_beside_its_indexes_is_exported(tmp_path: Path) -> None:
    path = Path(shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "disk" / "segments-0"))
    bases = sorted(int(each.stem) for each in path.glob("*.log"))
    (path / f"{bases[1]:020}.log").unlink()
    findings: list[Finding] = []
    exported(path, tmp_path / "to", found=findings)
    assert [each.kind for each in findings] == ["missing-log", "missing-log", "missing-segment"]
    offsets = table_offsets(tmp_path / "to", "segments", 0).tolist()
    assert {each for each in offsets if each < bases[1]}
    assert {each for each in offsets if each >= bases[2]}
    assert not {each for each in offsets if bases[1] <= each < bases[2]}


@pytest.mark.parametrize("text", [b"yes", b"hello world " * 400], ids=["short", "long"])
@pytest.mark.parametrize("is_only", [True, False])
def test_a_last_segment_that_is_no_log_is_reported_by_each_run(text: bytes, is_only: bool, tmp_path: Path) -> None:
    source = partition(tmp_path / "t-0", text if is_only else batch(0, 10).tobytes())
    if not is_only:
        (source / f"{10:020}.log").write_bytes(text)
    for _ in range(2):
        findings: list[Finding] = []
        exported(source, tmp_path / "out", found=findings)
        assert [(each.kind, each.severity, each.position) for each in findings] == [("no-batches", "error", 0)]
    assert [row["offset"] for row in table(tmp_path / "out")] == ([] if is_only else list(range(10)))
