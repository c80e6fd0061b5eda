"""What stands for a tiered partition: an empty log at the end of the bucket, or one of ABORT markers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import brokerless
from brokerless.jobs.rebuild.from_bucket.partitions import BucketPartition
from brokerless.jobs.rebuild.from_bucket.stand_ins import BucketTransaction, FromBucket, StandIn, write_stand_ins
from brokerless.log.checkpoint.offset_checkpoints import load_offset_checkpoint
from brokerless.log.producer.state import ProducerState
from brokerless.log.storage.location import Location

NOW = 1_800_000_000_000
PARTITION = BucketPartition("orders", "T" * 21 + "A", 0, (), ((0, 0), (3, 40)), 100, None, 3, ())


def written(directory: Path, stand_in: StandIn) -> Path:
    found = FromBucket("bucket", (stand_in,), "M" * 21 + "A", ((1,), (2, 1), (2,)))
    write_stand_ins(found, 1, directory, NOW)
    return directory / "orders-0"


def names_of(path: Path) -> set[str]:
    return {each.name for each in path.iterdir()}


def test_an_empty_log_begins_after_the_bucket(tmp_path: Path) -> None:
    path = written(tmp_path, StandIn(PARTITION, 1, 12, is_log_start_known=True))
    assert (path / f"{100:020}.log").stat().st_size == 0
    assert (path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 40\n"
    own = {each for each in names_of(tmp_path) if each.startswith("__")}
    assert own == {"__remote_log_metadata-0", "__remote_log_metadata-1"}
    lines = {
        name: load_offset_checkpoint(Location(str(tmp_path / name))).offsets["orders", 0]
        for name in ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "replication-offset-checkpoint")
    }
    assert list(lines.values()) == [12, 100, 100]


@pytest.mark.parametrize("is_ended", [False, True])
def test_open_transactions_are_ended_if_that_is_wanted(is_ended: bool, tmp_path: Path) -> None:
    snapshot = ProducerState(100).snapshot()
    open_ones = BucketTransaction(7, 2, 5, 40), BucketTransaction(9, 0, -1, 60)
    stand_in = StandIn(replace(PARTITION, snapshot=snapshot), 1, 0, True, open_ones, is_ended)
    path = written(tmp_path, stand_in)
    assert (path / f"{100:020}.snapshot").read_bytes() == snapshot
    rows = [row for batch in brokerless.open(path).batches() for row in batch.to_pylist()]
    ended = [(row["baseOffset"], row["producerId"], row["producerEpoch"], row["isControl"]) for row in rows]
    assert ended == ([(100, 7, 2, True), (101, 9, 0, True)] if is_ended else [])
