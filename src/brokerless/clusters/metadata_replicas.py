"""Replicas of ``__cluster_metadata``: how far each is intact, its voters, and which one knows the most.

Of a replica with damage, what is before it counts: KRaft truncates its log there (``KafkaMetadataLog``, 4.4.0). A whole
snapshot counts up to the offset in its name, also where the log before it is gone (KIP-630).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from brokerless import arrow
from brokerless.findings import Finding, Kind
from brokerless.format.control import decode_control
from brokerless.internals.metadata.cluster import (
    Cluster,
    is_complete_snapshot,
    metadata_gap,
    read_cluster,
    snapshot_not_whole,
)
from brokerless.log import names
from brokerless.log.checkpoint.quorum_state import load_quorum_state
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.ranges import Range
from brokerless.log.segment import wrong_checksum
from brokerless.progress import Report, ignore
from brokerless.tables.partition_tables import read_batches, read_records
from brokerless.tables.read_options import ReadOptions

Voter = dict[str, object]
_COLUMNS = [
    "file",
    "position",
    "baseOffset",
    "lastOffset",
    "partitionLeaderEpoch",
    "maxTimestamp",
    "checksum",
    "isValid",
]
_CONTROL = ["key", "value", "isControl"]


@dataclass(frozen=True, slots=True)
class Batch:
    """An intact batch of a metadata log."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp: int
    """The latest of its records, in ms."""
    checksum: int


@dataclass(frozen=True, slots=True)
class MetadataReplica:
    """One replica of the cluster's metadata."""

    paths: PartitionPath
    batches: tuple[Batch, ...]
    end_offset: int
    """The offset after the last that is known, of an intact log or a whole snapshot."""
    epoch: int
    """The leader epoch of the last offset that is known."""
    timestamp: int | None
    """The newest timestamp that is known (ms)."""
    snapshot: tuple[str, int] | None
    """The newest whole snapshot, and the first offset after it."""
    damage: tuple[Finding, ...]
    """The damage that ends the log before its last byte."""
    voters: tuple[Voter, ...]
    """The voters in KRaft's control records, or else the IDs in ``quorum-state``."""
    kraft_version: int
    """1 where voters are in the log (KIP-853)."""

    def load_cluster(self, max_batch_bytes: int | None, on_damage: Report = ignore) -> Cluster:
        """Return the state of the cluster at the end that counts. Raises UnreadableError."""
        return read_cluster(self.paths, on_damage, self.end_offset, max_batch_bytes)


def load_replica(paths: PartitionPath, max_batch_bytes: int | None = None) -> MetadataReplica:
    """Reads the headers and checksums of a replica, and its control records. Raises UnreadableError."""
    damage: list[Finding] = []
    batches = tuple(_intact_batches(paths, damage))
    end, epoch = (batches[-1].last_offset + 1, batches[-1].epoch) if batches else (paths.start_offset or 0, -1)
    snapshot = None
    for file in reversed(paths.snapshots):
        name = names.parse_segment_file(file.name)
        (inside,) = resolve(file.location).partitions
        if name is not None and is_complete_snapshot(inside, max_batch_bytes):
            snapshot = file.path, name.offset
            if name.offset > end:
                end, epoch = name.offset, name.epoch or 0
            break
        damage.append(snapshot_not_whole(file.path).in_scope("cluster"))
    timestamp = max((each.timestamp for each in batches), default=None)
    voters, version = _quorum(paths, None if snapshot is None else snapshot[0], end, max_batch_bytes)
    return MetadataReplica(
        paths,
        batches,
        end,
        epoch=epoch,
        timestamp=timestamp,
        snapshot=snapshot,
        damage=tuple(damage),
        voters=voters,
        kraft_version=version,
    )


def best_of(replicas: Iterable[MetadataReplica]) -> MetadataReplica | None:
    """Return the replica with the longest log, as a voter's log has to be at least as long to win an election: the
    epoch of its end counts first (KIP-595)."""
    return max(replicas, key=lambda each: (each.epoch, each.end_offset), default=None)


def describe_end(end_offset: int, epoch: int) -> str:
    """Return for people how far a replica goes. The log of a directory that was only formatted is empty: what
    ``kafka-storage format`` wrote is in a snapshot at offset 0 (Kafka 4.4)."""
    return f"up to offset {end_offset - 1:,} in epoch {epoch}" if end_offset else "whose log is empty"


def compare_replicas(best: MetadataReplica, others: Sequence[MetadataReplica]) -> Iterator[Finding]:
    """Yield where other replicas have something else at the same offsets, as after an unclean election, or after the
    end of what the quorum had committed."""
    known = {each.base_offset: each for each in best.batches}
    for other in others:
        for each in other.batches:
            same = known.get(each.base_offset)
            if same is not None and (same.checksum, same.epoch) != (each.checksum, each.epoch):
                text = f"from this offset on, the metadata is not that of {best.paths.path}"
                expected, found = f"epoch {same.epoch}", f"epoch {each.epoch}"
                yield Kind.METADATA_DIFFERS.at(
                    other.paths.path, text, offset=each.base_offset, expected=expected, found=found
                )
                break


def _intact_batches(paths: PartitionPath, damage: list[Finding]) -> Iterator[Batch]:
    """Batches up to the first that is damaged, or not where the one before it ends."""
    following: int | None = None
    for batch in read_batches([paths], _COLUMNS, on_damage=damage.append):
        for row in arrow.rows(batch):
            if not row["isValid"]:
                consequence = "nothing from here on counts"
                damage.append(wrong_checksum(row["file"], row["position"], row["baseOffset"], consequence))
                return
            if following is not None and row["baseOffset"] != following:
                gap = metadata_gap(row["file"], row["baseOffset"], following, row["position"])
                damage.append(gap.in_scope("cluster"))
                return
            following = row["lastOffset"] + 1
            time = -1 if row["maxTimestamp"] is None else row["maxTimestamp"]
            yield Batch(
                row["baseOffset"],
                row["lastOffset"],
                row["partitionLeaderEpoch"],
                timestamp=time,
                checksum=row["checksum"],
            )


def _quorum(
    paths: PartitionPath, snapshot: str | None, end_offset: int, max_batch_bytes: int | None
) -> tuple[tuple[Voter, ...], int]:
    """The voters, and ``kraft.version``: by the last control records of the snapshot and the log."""
    voters: tuple[Voter, ...] = ()
    version = 0
    logs = [] if snapshot is None else resolve(paths.location.at(snapshot)).partitions
    for log in (*logs, paths):
        options = ReadOptions(
            _CONTROL, Range(None, end_offset if log is paths else None), control=True,
            max_batch_bytes=max_batch_bytes, on_damage=ignore,
        )  # fmt: skip
        for batch in read_records([log], options):
            for row in arrow.rows(batch):
                control = decode_control(row["key"], row["value"]) if row["isControl"] else None
                if control is not None and control.type == "KRAFT_VOTERS" and control.data is not None:
                    voters = tuple(control.data["voters"])
                if control is not None and control.type == "KRAFT_VERSION" and control.data is not None:
                    version = int(control.data["kRaftVersion"])
    vote = paths.quorum_state
    if voters or vote is None:
        return voters, version
    return tuple({"voterId": each} for each in load_quorum_state(vote.location).voters), version
