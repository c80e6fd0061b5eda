from __future__ import annotations

import os
import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.log.whole_batches import batch, batches

import brokerless
from brokerless.errors import RefusedError, UsageError
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets, load_offset_checkpoint, read_checkpoints
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.commit.commit import commit, discard
from brokerless.log.commit.log_opener import open_log
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter, output_directory, unfinished_name
from brokerless.log.config import LogConfig
from brokerless.log.names import parse_partition_directory
from brokerless.log.storage.directory_lock import is_locked
from brokerless.log.storage.location import Location

TEN = batches(*(batch(offset, producer=(7, 0, offset)) for offset in range(10)))
SMALL = LogConfig(segment_bytes=300)


def listed(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_partition_is_there_when_it_is_committed(tmp_path: Path) -> None:
    with PartitionWriter(NewPartition(tmp_path, "orders", 3, SMALL)) as output:
        output.append(TEN)
        with pytest.raises(UsageError, match="no partition"):
            brokerless.open(tmp_path).partition("orders", 3)
        assert output.log_end_offset == 10
        output.commit()
    records = brokerless.open(tmp_path).partition("orders", 3).records(["offset"])
    assert [offset for each in records for offset in each["offset"].to_pylist()] == list(range(10))


def test_it_is_as_after_a_clean_stop(tmp_path: Path) -> None:
    with PartitionWriter(
        NewPartition(tmp_path / "", "orders", 3, SMALL, topic_id="P4KqAlm-RcmdL3bLO8vOmg"), start_offset=0
    ) as output:
        output.append(TEN)
        output.commit()
    assert read_checkpoints(tmp_path, "orders", 3) == PartitionOffsets(10, None, 10)
    assert (
        load_partition_metadata(Location(str(tmp_path / "orders-3" / "partition.metadata"))).topic_id
        == "P4KqAlm-RcmdL3bLO8vOmg"
    )
    assert (tmp_path / "orders-3" / f"{10:020}.snapshot").exists()
    before = listed(tmp_path)
    open_log(tmp_path, "orders", 3, SMALL, at_ms=0).close()
    assert listed(tmp_path) == before


def test_it_is_the_same_as_what_a_log_writer_leaves(tmp_path: Path) -> None:
    for name in ("bulk", "log"):
        (tmp_path / name).mkdir()
    with PartitionWriter(NewPartition(tmp_path / "bulk", "orders", 0, SMALL)) as output:
        output.append(TEN)
        output.commit()
    with open_log(tmp_path / "log", "orders", 0, SMALL) as log:
        log.append(TEN)
    bulk, written = listed(tmp_path / "bulk"), listed(tmp_path / "log")
    del bulk["orders-0/partition.metadata"], written["orders-0/partition.metadata"]
    assert bulk == written


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system has no posix_fadvise")
def test_a_large_log_goes_to_the_disk_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[int, list[tuple[int, int]]] = {}
    advise = os.posix_fadvise

    def note(descriptor: int, start: int, length: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_DONTNEED
        given.setdefault(os.fstat(descriptor).st_ino, []).append((start, start + length))
        advise(descriptor, start, length, advice)

    monkeypatch.setattr(os, "posix_fadvise", note)
    mebibyte = 1 << 20
    numbered = [batch(offset, value=bytes(mebibyte)) for offset in range(42)]
    with open_log(tmp_path / "", "orders", 1) as log:
        for each in numbered:
            log.append(each)
    assert not given, "a log that is read meanwhile stays in memory"
    with PartitionWriter(NewPartition(tmp_path, "orders", 0, LogConfig(segment_bytes=40 * mebibyte))) as output:
        for each in numbered:
            output.append(each)
        output.commit()
    written, last = sorted((tmp_path / "orders-0").glob("*.log"))
    assert last.stat().st_ino not in given
    ranges = given[written.stat().st_ino]
    assert ranges[0][0] == 0
    for before, after in pairwise(ranges):
        assert before[1] - 32 * mebibyte <= after[0] <= before[1] < after[1], "each range overlaps with those before"
    assert written.stat().st_size - ranges[-1][1] < 5 * mebibyte
    assert len(ranges) == 9
    assert written.read_bytes() + last.read_bytes() == b"".join(each.tobytes() for each in numbered)


def test_without_a_commit_nothing_is_left(tmp_path: Path) -> None:
    before = listed(tmp_path)
    with PartitionWriter(NewPartition(tmp_path, "orders", 0)) as output:
        output.append(TEN)
        with pytest.raises(RefusedError):
            output.append(TEN)
    assert {*listed(tmp_path)} - {*before} == {names.LOCK}
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_an_unfinished_partition_has_a_name_that_a_broker_deletes(tmp_path: Path) -> None:
    output = PartitionWriter(NewPartition(tmp_path, "orders", 0))
    (directory,) = [path.name for path in tmp_path.iterdir() if path.is_dir()]
    parsed = parse_partition_directory(directory)
    assert parsed is not None
    assert (parsed.topic, parsed.partition, parsed.state) == ("orders", 0, "delete")
    output.abandon()
    assert len(unfinished_name("t" * 249, 12)) == 255
    parsed = parse_partition_directory(unfinished_name("t" * 249, 12))
    assert parsed is not None
    assert (parsed.partition, parsed.state) == (12, "delete")


def test_a_partition_that_exists_is_refused(tmp_path: Path) -> None:
    first, second = (
        PartitionWriter(NewPartition(tmp_path, "orders", 0)),
        PartitionWriter(NewPartition(tmp_path, "orders", 0)),
    )
    first.commit()
    with pytest.raises(UsageError, match="exists already"):
        second.commit()
    second.abandon()
    with pytest.raises(UsageError, match="exists already"):
        PartitionWriter(NewPartition(tmp_path, "orders", 0))
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["orders-0"]


@pytest.mark.parametrize("name", ["", "s3://", "s3:///", "memory://"])
def test_a_directory_without_a_name_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as that of a variable that is not set; it is not taken for a local path."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"a path is empty|names no bucket or directory"):
        output_directory(Location.of(name))


@pytest.mark.parametrize("topic", ["", "..", "a/b", "a b", "t" * 250])
def test_impossible_names_are_refused(tmp_path: Path, topic: str) -> None:
    with pytest.raises(UsageError, match="not a partition's name"):
        PartitionWriter(NewPartition(tmp_path, topic, 0))
    with pytest.raises(UsageError, match="not a partition's name"):
        open_log(tmp_path, "orders", -1)


def test_other_partitions_lines_in_the_checkpoints_stay(tmp_path: Path) -> None:
    (tmp_path / names.RECOVERY_POINT_CHECKPOINT).write_bytes(b"0\n2\nother 1 7\norders 0 99\n")
    with PartitionWriter(NewPartition(tmp_path, "orders", 0)) as output:
        output.append(TEN)
        output.commit()
    offsets = load_offset_checkpoint(Location(str(tmp_path / names.RECOVERY_POINT_CHECKPOINT))).offsets
    assert offsets == {("other", 1): 7, ("orders", 0): 10}


def test_a_checkpoint_that_is_no_checkpoint_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / names.RECOVERY_POINT_CHECKPOINT).write_bytes(b"what is this\n")
    with (
        pytest.raises(UsageError, match="move the file away"),
        PartitionWriter(NewPartition(tmp_path, "orders", 0)) as output,
    ):
        output.commit()
    assert (tmp_path / names.RECOVERY_POINT_CHECKPOINT).read_bytes() == b"what is this\n"
    assert not (tmp_path / "orders-0").exists()


def test_the_mark_of_a_clean_stop_is_only_made_where_there_was_nothing(tmp_path: Path) -> None:
    for name, others in (("empty", ()), ("used", ("other-0",))):
        directory = tmp_path / name
        for each in (".", *others):
            (directory / each).mkdir()
        with PartitionWriter(NewPartition(directory, "orders", 0)) as output:
            output.commit()
    assert (tmp_path / "empty" / names.CLEAN_SHUTDOWN).exists()
    assert not (tmp_path / "used" / names.CLEAN_SHUTDOWN).exists()


def test_a_log_may_begin_at_any_offset(tmp_path: Path) -> None:
    with PartitionWriter(NewPartition(tmp_path, "orders", 0), start_offset=1000) as output:
        output.append(batch(1200))
        output.commit()
    with open_log(tmp_path, "orders", 0) as log:
        assert (log.log_start_offset, log.log_end_offset, log.segments) == (1000, 1201, (1000,))


def test_many_batches_a_call_and_many_calls_come_to_the_same(tmp_path: Path) -> None:
    made = [
        batch(offset, 1 + offset % 3, timestamp=1000 + (offset * 7919) % 100, step=1) for offset in range(0, 300, 3)
    ]
    config = LogConfig(segment_bytes=1000, index_interval_bytes=200)
    for name, pieces in (("one", [batches(*made)]), ("many", made)):
        (tmp_path / name).mkdir()
        with PartitionWriter(NewPartition(tmp_path / name, "orders", 0, config)) as output:
            for piece in pieces:
                output.append(np.asarray(piece))
            output.commit()
    one, many = listed(tmp_path / "one"), listed(tmp_path / "many")
    del one["orders-0/partition.metadata"], many["orders-0/partition.metadata"]
    assert one == many


def test_what_is_finished_gets_its_name_from_whoever_has_the_value(tmp_path: Path) -> None:
    with PartitionWriter(NewPartition(tmp_path, "orders", 0, SMALL, owner="c0ffee")) as output:
        output.append(TEN)
        unfinished = pickle.loads(pickle.dumps(output.finish()))
    assert not is_locked(tmp_path)
    assert ".c0ffee" in unfinished.directory
    assert not (tmp_path / "orders-0").exists()
    assert (unfinished.log_start_offset, unfinished.log_end_offset, unfinished.size) == (0, 10, len(TEN))
    commit(tmp_path, [unfinished])
    before = listed(tmp_path)
    open_log(tmp_path, "orders", 0, SMALL, at_ms=0).close()
    assert listed(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["orders-0"]


def test_what_changed_since_it_was_finished_is_not_committed(tmp_path: Path) -> None:
    with PartitionWriter(NewPartition(tmp_path, "orders", 0, SMALL)) as output:
        output.append(TEN)
        unfinished = output.finish()
    (tmp_path / unfinished.directory / "00000000000000000000.index").unlink()
    with pytest.raises(UsageError, match="not as it was written"):
        commit(tmp_path, [unfinished])
    discard(tmp_path, [unfinished])
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_where_the_last_records_are_missing_an_empty_batch_leads_to_the_end(tmp_path: Path) -> None:
    with PartitionWriter(NewPartition(tmp_path, "orders", 3)) as output:
        output.append(TEN)
        output.set_limits(2, 15, ((0, 0), (4, 7), (9, 15)))
        output.commit()
    partition = brokerless.open(tmp_path).partition("orders", 3)
    rows = [row for each in partition.batches() for row in each.to_pylist()]
    assert [(row["baseOffset"], row["lastOffset"], row["count"]) for row in rows[-2:]] == [(9, 9, 1), (14, 14, 0)]
    assert (rows[-1]["partitionLeaderEpoch"], rows[-1]["isValid"]) == (4, True)
    assert partition.end_offset == 15


def test_formats_without_empty_batches_end_with_an_empty_segment(tmp_path: Path) -> None:
    with PartitionWriter(NewPartition(tmp_path, "orders", 3)) as output:
        output.append(TEN)
        output.set_limits(0, 15, (), magic=1)
        output.commit()
    assert sorted(path.name for path in (tmp_path / "orders-3").glob("*.log")) == [f"{at:020}.log" for at in (0, 15)]
