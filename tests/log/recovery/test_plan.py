"""Oracle: what a real broker made of a killed one's folder (``recovered.json``), and ``LogSegment.recover`` of damaged
files (``recovery`` in ``case.json``)."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.examples import some_quick
from tests.golden import Case, broker_data, broker_expected, cases
from tests.log.whole_batches import batch, batches, marker

from brokerless.errors import UnreadableError
from brokerless.format import layouts
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets
from brokerless.log.commit.log_opener import open_log
from brokerless.log.config import LogConfig
from brokerless.log.recovery.plan import RecoveryPlan, plan_recovery

NOW = 1_795_233_000_000
RECOVERED = json.loads((broker_expected("unclean") / "recovered.json").read_bytes())
DAMAGED = [
    case for case in cases("damaged", "framing") if case.case_json().get("recovery") and case.log.suffix == ".log"
]


def copied(source: Path, target: Path) -> Path:
    """A copy that can be written to."""
    shutil.copytree(source, target)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def split(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


# The broker went on appending to its metadata log at once, so what is there is more than what was recovered.
@pytest.mark.parametrize("name", sorted({*RECOVERED} - {"__cluster_metadata-0"}))
def test_a_killed_brokers_partition_is_recovered_as_the_broker_did(name: str, tmp_path: Path) -> None:
    copied(broker_data("unclean"), tmp_path / "data")
    with open_log(tmp_path / "data", *split(name), at_ms=NOW) as log:
        assert log.log_end_offset == RECOVERED[name]["logEndOffset"]
    segments = {
        path.name: (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in (tmp_path / "data" / name).glob("*.log")
    }
    expected = RECOVERED[name]["segments"]
    assert segments == {file: (segment["size"], segment["sha256"]) for file, segment in expected.items()}


@pytest.mark.parametrize("case", some_quick(DAMAGED, 8), ids=str)
def test_as_much_of_a_damaged_segment_stays_as_with_kafka(case: Case, tmp_path: Path) -> None:
    expected = case.case_json()["recovery"]
    partition = tmp_path / "damaged-0"
    partition.mkdir()
    shutil.copy(case.log, partition)
    if "error" in expected and "NullPointer" not in expected["error"]["class"]:
        with pytest.raises(UnreadableError, match="Kafka refuses to load this log"):
            plan_recovery(partition, LogConfig(), PartitionOffsets(), NOW, clean=False)
        return
    plan = plan_recovery(partition, LogConfig(), PartitionOffsets(), NOW, clean=False)
    if "error" in expected:  # where Kafka crashes, the log ends with the marker that made it
        assert [stop.kind for stop in plan.stops] == ["recovery-stops"]
        return
    assert (plan.active.size, plan.log_end_offset) == (expected["validBytes"], expected["nextOffset"])
    assert bool(plan.stops) == bool(expected["truncatedBytes"])


INTERVALS = {"segments-0": 1024, "txn-0": 700, "txn-1": 700}


@pytest.mark.parametrize("name", ["segments-0", "txn-0", "txn-1", "codec-lz4-1", "append-time-0"])
def test_lost_indexes_are_rebuilt_as_the_broker_had_made_them(name: str, tmp_path: Path) -> None:
    source = broker_data("clean") / name
    partition = copied(source, tmp_path / "data" / name)
    (tmp_path / "data" / names.RECOVERY_POINT_CHECKPOINT).write_bytes(b"0\n0\n")
    indexes = [path.name for path in source.iterdir() if path.suffix in (".index", ".timeindex", ".txnindex")]
    for path in partition.iterdir():
        if path.name in indexes or path.suffix == ".snapshot":
            path.unlink()
    config = LogConfig(index_interval_bytes=INTERVALS.get(name, 4096))
    open_log(tmp_path / "data", *split(name), config, at_ms=NOW).close()
    made = {
        path.name
        for path in partition.iterdir()
        if (partition / path.name).read_bytes() == (source / path.name).read_bytes()
    }
    assert {*indexes} - made <= of_interrupted_segments(source)


def of_interrupted_segments(partition: Path) -> set[str]:
    """The indexes of segments in which the broker was stopped: it began to count bytes anew, so their entries are
    elsewhere than where recovery makes them."""
    bases = sorted(int(path.stem) for path in partition.glob("*.log"))
    stops = {int(path.stem) for path in partition.glob("*.snapshot")} - {*bases}
    ends = [*bases[1:], max({*stops, bases[-1]})]
    interrupted = [base for base, end in zip(bases, ends, strict=True) if any(base < stop < end for stop in stops)]
    return {f"{base:020}.{kind}" for base in interrupted for kind in ("index", "timeindex")}


def written(directory: Path, *segments: list[np.ndarray], config: LogConfig | None = None) -> Path:
    """A closed log with these segments, without the mark of a clean stop."""
    with open_log(directory, "orders", 0, config or LogConfig()) as log:
        for segment in segments:
            log.roll()
            log.append(batches(*segment))
    (directory / names.CLEAN_SHUTDOWN).unlink()
    return directory / "orders-0"


def plan(
    partition: Path, recovery_point: int | None = None, *, clean: bool = False, start: int | None = None
) -> RecoveryPlan:
    return plan_recovery(partition, LogConfig(), PartitionOffsets(recovery_point, start), NOW, clean=clean)


def log_file(partition: Path, base_offset: int) -> Path:
    return partition / names.segment_file(base_offset, "log")


THREE = [[batch(0), batch(1)], [batch(2), batch(3)], [batch(4), batch(5)]]


def test_a_plan_changes_nothing(tmp_path: Path) -> None:
    partition = written(tmp_path, *THREE)
    with log_file(partition, 2).open("r+b") as file:
        file.truncate(100)
    (partition / "00000000000000000009.log.deleted").write_bytes(b"x")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in partition.iterdir()}
    assert plan(partition, 0).deleted == (4,)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in partition.iterdir()} == before


def test_segments_before_the_recovery_point_are_believed(tmp_path: Path) -> None:
    partition = written(tmp_path, *THREE)
    log_file(partition, 0).write_bytes(b"no batch at all" * 10)
    assert [each.base_offset for each in plan(partition, 2).recovered] == [2, 4]
    assert [each.base_offset for each in plan(partition, 4).recovered] == [4]
    assert [each.base_offset for each in plan(partition, 6).recovered] == [4]  # the last one always is
    assert [each.base_offset for each in plan(partition, 1).recovered] == [0]
    assert plan(partition, 1).deleted == (2, 4)


def test_after_a_clean_stop_nothing_is_recovered(tmp_path: Path) -> None:
    partition = written(tmp_path, *THREE)
    log_file(partition, 2).write_bytes(b"no batch at all" * 10)
    assert not plan(partition, 0, clean=True).recovered
    assert plan(partition, 0, clean=True).recovery_point == 6
    assert plan(partition, 3).recovery_point == 2  # where the log ends now


def test_a_last_segment_with_more_than_batches_is_recovered_even_so(tmp_path: Path) -> None:
    partition = written(tmp_path, *THREE)
    with log_file(partition, 4).open("ab") as file:
        file.write(bytes(100))
    found = plan(partition, 6, clean=True)
    assert [(each.base_offset, each.reason) for each in found.recovered] == [(4, "not-closed")]
    assert found.log_end_offset == 6


def test_all_segments_after_the_first_bad_batch_are_deleted(tmp_path: Path) -> None:
    partition = written(tmp_path, *THREE)
    whole = log_file(partition, 2).read_bytes()
    log_file(partition, 2).write_bytes(whole[:-3])
    with open_log(tmp_path, "orders", 0) as log:  # the checkpoint says that all is flushed
        assert log.log_end_offset == 6
    (tmp_path / names.RECOVERY_POINT_CHECKPOINT).unlink()
    with open_log(tmp_path, "orders", 0) as log:
        assert (log.log_end_offset, log.segments) == (3, (0, 2))
        log.append(batch(3))
    assert log_file(partition, 2).read_bytes() == batches(batch(2), batch(3)).tobytes()
    assert {path.name for path in partition.iterdir() if path.name.startswith(f"{4:020}")} == {f"{4:020}.snapshot"}


def test_producers_transactions_and_epochs_are_recovered(tmp_path: Path) -> None:
    transactional = layouts.TRANSACTIONAL_BIT
    first = [batch(0, 2, producer=(1, 0, 0), attributes=transactional), batch(2, producer=(2, 0, 0), epoch=1)]
    second = [marker(3, (1, 0), commit=False), batch(4, producer=(3, 0, 0), attributes=transactional, epoch=2)]
    with open_log(tmp_path, "orders", 0, at_ms=0) as log:
        log.append(batches(*first))
        log.roll()
        log.append(batches(*second))
        producers = log.producers.snapshot()
    (tmp_path / names.CLEAN_SHUTDOWN).unlink()
    (tmp_path / names.RECOVERY_POINT_CHECKPOINT).unlink()
    partition = tmp_path / "orders-0"
    index = (partition / f"{3:020}.txnindex").read_bytes()
    for kind in ("txnindex", "snapshot"):
        (partition / f"{3:020}.{kind}").unlink()
    (partition / names.LEADER_EPOCH_CHECKPOINT).unlink()
    with open_log(tmp_path, "orders", 0, at_ms=0) as log:
        assert log.producers.snapshot() == producers
        assert log.leader_epochs == ((0, 0), (1, 2), (2, 4))
        assert log.last_stable_offset == 4
    assert (partition / f"{3:020}.txnindex").read_bytes() == index


def test_a_segment_without_an_offset_index_is_recovered_whatever_the_recovery_point_is(tmp_path: Path) -> None:
    partition = written(tmp_path, *THREE)
    (partition / f"{2:020}.index").unlink()
    assert [(each.base_offset, each.reason) for each in plan(partition, 6, clean=True).recovered] == [
        (2, "index-missing")
    ]


def test_a_transaction_index_that_does_not_fit_is_rebuilt(tmp_path: Path) -> None:
    partition = written(tmp_path, *THREE)
    entry = np.zeros(1, layouts.TRANSACTION_INDEX_ENTRY)
    entry["last_offset"] = 1
    (partition / f"{2:020}.txnindex").write_bytes(entry.tobytes())
    found = plan(partition, 6, clean=True)
    assert [(each.base_offset, each.reason) for each in found.recovered] == [(2, "transaction-index-corrupt")]
    assert found.recovered[0].result.transaction_index == b""


@pytest.mark.parametrize("last_offset", [1, 3])
@pytest.mark.parametrize("version", [0x0500, 1, -25613])
def test_a_transaction_index_of_an_unknown_version_keeps_kafka_from_starting(
    tmp_path: Path, version: int, last_offset: int
) -> None:
    partition = written(tmp_path, *THREE)
    entries = np.zeros(2, layouts.TRANSACTION_INDEX_ENTRY)
    entries["last_offset"] = [3, last_offset]
    entries["version"][1] = version
    (partition / f"{2:020}.txnindex").write_bytes(entries.tobytes() + bytes(5))
    with pytest.raises(UnreadableError, match=f"entry 1 is of version {version}; Kafka refuses to load this log"):
        plan(partition, 6, clean=True)
    entries["last_offset"][0] = 1  # at this one Kafka makes the index anew, and does not come to the next
    (partition / f"{2:020}.txnindex").write_bytes(entries.tobytes())
    assert [each.reason for each in plan(partition, 6, clean=True).recovered] == ["transaction-index-corrupt"]


def test_a_broken_size_in_a_flushed_segment_that_producers_are_read_from_keeps_kafka_from_starting(
    tmp_path: Path,
) -> None:
    partition = written(tmp_path, *THREE)
    for snapshot in partition.glob("*.snapshot"):
        snapshot.unlink()
    with log_file(partition, 0).open("r+b") as file:
        file.seek(8)
        file.write((3).to_bytes(4, "big"))
    with pytest.raises(UnreadableError, match="Kafka refuses to load this log"):
        plan(partition, 4)


def test_offsets_that_do_not_grow_cost_the_segment(tmp_path: Path) -> None:
    partition = written(tmp_path, *THREE)
    log_file(partition, 2).write_bytes(batches(*(batch(at, value=bytes(5000)) for at in (2, 5, 4, 6))).tobytes())
    found = plan(partition, 2)
    assert found.active.size == 0
    assert (found.log_end_offset, found.deleted) == (2, (4,))
    assert [stop.kind for stop in found.stops] == ["offset-not-increasing"]


def test_a_log_that_ends_before_its_start_offset_begins_again_there(tmp_path: Path) -> None:
    partition = written(tmp_path, *THREE)
    found = plan(partition, 0, start=9)
    assert (found.deleted, found.segments, found.log_start_offset, found.log_end_offset) == ((0, 2, 4), (), 9, 9)
    (tmp_path / names.LOG_START_OFFSET_CHECKPOINT).write_bytes(b"0\n1\norders 0 9\n")
    with open_log(tmp_path, "orders", 0) as log:
        assert (log.segments, log.log_start_offset, log.leader_epochs) == ((9,), 9, ())


def test_epochs_of_what_is_gone_are_gone(tmp_path: Path) -> None:
    partition = written(tmp_path, [batch(0, epoch=1), batch(1, epoch=2)], [batch(2, epoch=3)])
    log_file(partition, 2).write_bytes(b"")
    assert plan(partition, 0).epochs == ((1, 0), (2, 1))
    assert plan(partition, 0, start=1).epochs == ((2, 1),)


def test_a_partition_without_segments_gets_one(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    with open_log(tmp_path, "orders", 0) as log:
        assert (log.segments, log.log_end_offset) == ((0,), 0)


def test_what_was_unfinished_is_cleared(tmp_path: Path) -> None:
    partition = written(tmp_path, *THREE)
    for name in ("00000000000000000009.log.deleted", "00000000000000000002.log.cleaned", "00000000000000000099.index"):
        (partition / name).write_bytes(b"")
    with open_log(tmp_path, "orders", 0) as log:
        assert log.segments == (0, 2, 4)
    assert not [path for path in partition.iterdir() if path.suffix in (".deleted", ".cleaned") or "99" in path.name]


def test_a_finished_compaction_takes_the_place_of_what_it_replaced(tmp_path: Path) -> None:
    partition = written(tmp_path, *THREE)
    # What was in the first two segments is compacted into one.
    (partition / f"{0:020}.log.swap").write_bytes(batches(batch(1), batch(3)).tobytes())
    for kind in ("index", "timeindex"):
        (partition / f"{0:020}.{kind}.swap").write_bytes(b"")
    found = plan(partition, 6)
    assert (found.segments, found.log_end_offset) == ((0, 4), 6)
    with open_log(tmp_path, "orders", 0) as log:
        assert log.segments == (0, 4)
    assert log_file(partition, 0).read_bytes() == batches(batch(1), batch(3)).tobytes()
    assert not list(partition.glob("*.swap"))
