"""Disks of the demo's broker at earlier and later moments, and what a reader gets of a log."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import brokerless
from brokerless import Log
from brokerless.kafka_names import Isolation

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "demo" / "data"
REPLICAS = sorted((ROOT / "demo" / "replicas").iterdir())
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint")
COLUMNS = ["offset", "timestamp", "timestampType", "key", "value", "headers", "sequence"]
Rows = Mapping[tuple[str, int, Isolation], Sequence[Any]]


def rows_of(log: Log | Path | str, topics: Sequence[str] = ()) -> Rows:
    """All records, by partition and isolation level."""
    opened = log if isinstance(log, Log) else brokerless.open(log)
    levels: tuple[Isolation, ...] = ("read_uncommitted", "read_committed")
    return {
        (*(each.topic_partition or ("", 0)), level): [
            row for batch in each.records(COLUMNS, isolation=level) for row in batch.to_pylist()
        ]
        for each in opened.partitions
        if not topics or each.paths[0].topic in topics
        for level in levels
    }


def batches_of(log: Log | Path | str) -> Mapping[tuple[str, int], Sequence[Any]]:
    """The headers of all batches, by partition."""
    columns = ["baseOffset", "lastOffset", "partitionLeaderEpoch", "producerId", "sizeInBytes", "checksum"]
    opened = log if isinstance(log, Log) else brokerless.open(log)
    return {
        each.topic_partition: [row for batch in each.batches(columns) for row in batch.to_pylist()]
        for each in opened.partitions
    }


def earlier(target: Path, segments: int, topic: str = "orders") -> Path:
    """The demo's disk when each partition of a topic had so many segments; it has no checkpoints of the end."""
    shutil.copytree(DEMO, target)
    for name in CHECKPOINTS:
        (target / name).unlink()
    for partition in target.glob(f"{topic}-*"):
        for log in sorted(partition.glob("*.log"))[segments:]:
            for each in partition.glob(f"{log.stem}.*"):
                each.unlink()
        max(partition.glob("*.snapshot")).unlink()  # that of the clean stop
    return target


def without_first(target: Path, segments: int, topic: str = "orders") -> Path:
    """The demo's disk after retention has deleted so many segments of each partition of a topic."""
    shutil.copytree(DEMO, target)
    for partition in target.glob(f"{topic}-*"):
        for log in sorted(partition.glob("*.log"))[:segments]:
            for each in partition.glob(f"{log.stem}.*"):
                each.unlink()
    return target


def objects_in(place: Path) -> set[str]:
    """The objects of segments, by their names."""
    return {str(each.relative_to(place)) for each in place.glob("*/*/*") if ".brokerless" not in each.parts}
