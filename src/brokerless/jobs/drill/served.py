"""Compares what a broker serves of a rebuilt cluster with the snapshot: a consumer reads each partition twice.

All records are compared with those of the snapshot, as :mod:`brokerless.jobs.diff` does. With ``read_committed``, a
consumer has to get the offsets that this reads of the snapshot, up to the first transaction that is open in it: a
coordinator ends these as soon as it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from brokerless.findings import Finding
from brokerless.jobs.diff.job import DiffSettings, diff, diff_task
from brokerless.jobs.diff.live.cluster import RunningPartition, connect, list_partitions
from brokerless.jobs.diff.live.copy import consumed
from brokerless.jobs.diff.pairs import Side, pair
from brokerless.jobs.run.job import values_or_raise
from brokerless.jobs.run.types import ALONE
from brokerless.log import names
from brokerless.log.backups.snapshot import SnapshotPartition
from brokerless.log.directory import LogDirectory
from brokerless.log.ranges import Range
from brokerless.log.storage.paths import RUNNING_CLUSTER
from brokerless.progress import ignore
from brokerless.tables.partition_tables import read_records
from brokerless.tables.read_options import ReadOptions


@dataclass(frozen=True, slots=True)
class Served:
    """What a broker serves of a snapshot's partitions, compared with the snapshot."""

    partitions: int
    records: int
    """How many a consumer got with ``read_uncommitted``."""
    committed: int
    """How many a consumer got with ``read_committed``."""
    findings: tuple[Finding, ...]
    lost: tuple[str, ...]
    """What a consumer got otherwise than the snapshot has it, as texts for people."""


def compare_served(
    snapshot: LogDirectory, vector: Sequence[SnapshotPartition], bootstrap: str, max_batch_bytes: int
) -> Served:
    """Compare what a broker serves with a snapshot. ``vector``: the partitions that are compared, but for Kafka's own.
    Raises :class:`ClusterError`, and UnreadableError where there is no room for the copy of a partition (TMPDIR)."""
    known = {(each.topic, each.partition): each for each in vector if not names.is_internal(each.topic)}
    live = list_partitions(connect(f"{RUNNING_CLUSTER}{bootstrap}"))
    sides = [
        Side([each], [one for one in each.partitions if (one.topic, one.partition) in known])
        for each in (snapshot, live)
    ]
    findings: list[Finding] = []
    lost: list[str] = []
    records = committed = 0
    settings = DiffSettings(max_batch_bytes=max_batch_bytes)
    with closing(values_or_raise(diff(pair(*sides), settings, work=diff_task, running=ALONE))) as results:
        for each in results:
            records += each.records - (each.causes or {}).get("control", 0)
            findings += each.findings
            lost += () if each.is_same else each.lines()
    running = {(each.topic, each.partition): each for each in live.partitions if isinstance(each, RunningPartition)}
    stored = {(each.topic, each.partition): each for each in snapshot.partitions}
    for place, own in sorted(known.items()):
        served = running.get(place)
        if served is None:  # which was said above
            continue
        if served.begin != own.start_offset or served.end < own.end_offset:
            text = f"served from offset {served.begin} to {served.end}, and not from {own.start_offset}"
            lost.append(f"{own.name}: {text} to {own.end_offset}")
        end = min((each.first_offset for each in own.open_transactions), default=own.end_offset)
        theirs = _summary(_consumed(replace(served, end=min(end, served.end))))
        options = ReadOptions(
            ["offset"],
            Range(own.start_offset, end),
            "read_committed",
            max_batch_bytes=max_batch_bytes,
            on_damage=ignore,
        )
        ours = _summary(read_records([stored[place]], options))
        committed += theirs[0]
        if theirs != ours:
            text = f"a consumer with read_committed got {theirs[0]:,} records up to offset {end}"
            others = f", and the snapshot has {ours[0]:,}" if theirs[0] != ours[0] else ", at other offsets"
            lost.append(f"{own.name}: {text}{others}")
    return Served(len(known), records, committed, findings=tuple(dict.fromkeys(findings)), lost=tuple(lost))


def _consumed(partition: RunningPartition) -> Iterator[pa.RecordBatch]:
    with consumed(partition, "read_committed") as source:
        yield from source.batches()


def _summary(batches: Iterable[pa.RecordBatch]) -> tuple[int, int]:
    """Return how many records there are, and the sum of their offsets modulo 2^64."""
    count = total = 0
    for each in batches:
        count += each.num_rows
        total += int(each.column("offset").to_numpy(zero_copy_only=False).view(np.uint64).sum(dtype=np.uint64))
    return count, total % (1 << 64)
