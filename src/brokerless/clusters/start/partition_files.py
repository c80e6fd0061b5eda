"""Finds files and file names for which a broker fails to load a partition.

Sources: ``LogLoader`` (``removeTempFilesAndCollectSwapFiles``, ``loadSegmentFiles``), ``UnifiedLog.create``,
``PartitionMetadataFile``, ``CheckpointFile``, ``KafkaRaftLog``, ``FileQuorumStateStore``, ``RecordsIterator`` (4.1.1).
Each was tried with a broker (``tests/kafka/test_directory_restart.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from brokerless.arrow import ends, is_valid, numbers
from brokerless.bounds import MAX_INT32, MAX_INT64
from brokerless.clusters.directory_state import other_topic_id
from brokerless.clusters.epoch_checks import check_leader_epochs
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import is_complete_snapshot, metadata_gap, snapshot_not_whole
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import load_leader_epochs
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.checkpoint.quorum_state import load_quorum_state
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.ranges import Range
from brokerless.log.storage.location import DirectoryEntry
from brokerless.progress import ignore
from brokerless.tables.partition_tables import read_batches, read_records
from brokerless.tables.read_options import ReadOptions

_NUMBERED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".cleaned", ".swap")
"""Of files that end so, Kafka takes what is before the first dot for an offset."""
_OFFSET = re.compile(r"[+-]?[0-9]+")


def unloadable(partition: PartitionPath, max_batch_bytes: int | None = None) -> Iterator[Finding]:
    """Yield why a broker would not load a partition's directory, whatever its segments hold; what it
    does then is :meth:`DirectoryRestart.ends_at`."""
    yield from unloadable_by_listing(partition)
    checkpoint, metadata = partition.leader_epoch_checkpoint, partition.partition_metadata
    if checkpoint is not None and any(_errors(load_leader_epochs(checkpoint.location).findings)):
        yield from _errors(tuple(check_leader_epochs(partition)))
    if metadata is not None:
        loaded = load_partition_metadata(metadata.location)
        yield from loaded.findings
        is_kraft = partition.topic == names.CLUSTER_METADATA
        if is_kraft and loaded.topic_id not in (None, names.CLUSTER_METADATA_ID):
            text = "the topic ID is not that of KRaft's own log (InconsistentTopicIdException)"
            yield other_topic_id(metadata.path, text, names.CLUSTER_METADATA_ID, loaded.topic_id).in_scope("start")
    if partition.topic == names.CLUSTER_METADATA:
        yield from _unloadable_quorum(partition, max_batch_bytes)


def unloadable_by_listing(partition: PartitionPath) -> Iterator[Finding]:
    """Yield those reasons that names and sizes of files are enough for."""
    yield from check_file_names(partition.foreign)
    for segment in partition.segments:
        if segment.size > MAX_INT32:  # FileRecords
            text = "the segment is larger than Kafka opens; brokerless convert --segment-bytes 1GiB divides it"
            expected, found = f"at most {MAX_INT32} bytes", f"{segment.size} bytes"
            yield Kind.SEGMENT_OVERSIZED.at(
                segment.log.path, text, offset=segment.base_offset, expected=expected, found=found
            )


def check_file_names(entries: tuple[DirectoryEntry, ...]) -> Iterator[Finding]:
    """Files whose names end as a segment's do, but begin with no offset."""
    for each in entries:
        if not each.is_directory and each.name.endswith(_NUMBERED) and not _is_offset(each.name.split(".")[0]):
            text = "Kafka takes this for a segment's file, and its name does not begin with an offset"
            yield Kind.FILE_NAME.at(each.path, f"{text} (NumberFormatException)")


def _is_offset(text: str) -> bool:
    """Return whether Java's ``Long.parseLong`` takes this for a number."""
    return _OFFSET.fullmatch(text) is not None and -MAX_INT64 - 1 <= int(text) <= MAX_INT64


def _unloadable_quorum(partition: PartitionPath, max_batch_bytes: int | None) -> Iterator[Finding]:
    if partition.quorum_state is not None:
        yield from load_quorum_state(partition.quorum_state.location).findings
    if partition.snapshots:
        newest = partition.snapshots[-1]
        try:
            (snapshot,) = resolve(newest.location).partitions
            is_whole = is_complete_snapshot(snapshot, max_batch_bytes)
            is_whole = is_whole or (_is_first(partition) and not _is_damaged(snapshot, max_batch_bytes))
        except UnreadableError:
            is_whole = False
        if not is_whole:
            yield snapshot_not_whole(newest.path).in_scope("start")
    elif partition.segments and partition.segments[0].base_offset > 0:
        first = partition.segments[0]
        yield metadata_gap(first.log.path, first.base_offset, 0).in_scope("start")
    yield from _foreign_batches(partition, _snapshot_offset(partition), max_batch_bytes)


def _is_first(partition: PartitionPath) -> bool:
    """Return whether the newest snapshot is the one with which a directory was formatted, and the log has all after it:
    a broker starts although that one is empty, or ends before its footer."""
    log = partition.segments[0].base_offset if partition.segments else None
    return _snapshot_offset(partition) == log == 0


def _is_damaged(snapshot: PartitionPath, max_batch_bytes: int | None) -> bool:
    """Return whether a batch of it cannot be read; one that is cut off is none."""
    damage: list[Finding] = []
    options = ReadOptions(["offset"], control=True, max_batch_bytes=max_batch_bytes, on_damage=damage.append)
    for _ in read_records([snapshot], options):
        pass
    return any(each.kind != Kind.TRUNCATED_BATCH for each in damage)


def _snapshot_offset(partition: PartitionPath) -> int | None:
    """The first offset that is not in the newest snapshot; before it, the log is not read."""
    file = names.parse_segment_file(partition.snapshots[-1].name) if partition.snapshots else None
    return None if file is None else file.offset


def _foreign_batches(
    partition: PartitionPath, start_offset: int | None, max_batch_bytes: int | None
) -> Iterator[Finding]:
    """The first batch that KRaft would not have written: all of its batches are of format v2, and all records of a
    batch have one timestamp, offsets without gaps, a value, and neither a key nor headers."""
    columns = ["file", "batchPosition", "offset", "timestamp", "key", "value", "headers"]
    of_batches = ["file", "position", "baseOffset", "magic"]
    for batch in read_batches([partition], of_batches, max_batch_bytes, on_damage=ignore):
        is_read = numbers(batch.column("baseOffset"), np.int64) >= (start_offset or 0)
        old = np.flatnonzero(is_read & (numbers(batch.column("magic"), np.int8) < 2))
        if len(old):
            yield _foreign(batch, int(old[0]), "position", "baseOffset")
            return
    options = ReadOptions(columns, Range(start_offset), max_batch_bytes=max_batch_bytes, on_damage=ignore)
    for batch in read_records([partition], options):
        positions, offsets, times = (numbers(batch.column(name), np.int64) for name in columns[1:4])
        wrong = np.zeros(batch.num_rows, np.bool_)
        wrong[1:] = (np.diff(positions) == 0) & ((np.diff(times) != 0) | (np.diff(offsets) != 1))
        wrong |= is_valid(batch.column("key"))
        wrong |= (np.diff(ends(batch.column("value"))) == 0) | (np.diff(ends(batch.column("headers"))) > 0)
        if wrong.any():
            yield _foreign(batch, int(np.argmax(wrong)), "batchPosition", "offset")
            return


def _foreign(batch: pa.RecordBatch, row: int, position: str, offset: str) -> Finding:
    text = (
        "KRaft did not write this batch: it is of an old format, or its records have several timestamps, gaps, keys or "
        "headers. This log is not to be repacked or converted"
    )
    file, at, first = (batch.column(name)[row].as_py() for name in ("file", position, offset))
    return Kind.FOREIGN_METADATA_BATCH.at(file, text, position=at, offset=first)


def _errors(findings: tuple[Finding, ...]) -> Iterator[Finding]:
    return (each for each in findings if each.severity == "error")
