"""Compares what was rebuilt with a snapshot's vector: where each partition starts and ends, and how many records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.kafka_names import TopicPartition
from brokerless.log.backups.snapshot import SnapshotPartition
from brokerless.log.directory import PartitionPath
from brokerless.log.live_segments import open_segments
from brokerless.log.seek import end_offset
from brokerless.log.segment import Chunk
from brokerless.progress import ignore
from brokerless.tables.segment_summary import summarize


@dataclass(slots=True)
class _Markers:
    """Control records, which a snapshot counts, and summaries leave out."""

    records: int = 0

    def add(self, chunk: Chunk) -> None:
        batches = chunk.batches
        self.records += int(batches.count[batches.is_control & ~batches.is_legacy].sum())


def compare_offsets(
    vector: Sequence[SnapshotPartition],
    replicas: Mapping[TopicPartition, Sequence[PartitionPath]],
    place: str,
    max_batch_bytes: int,
) -> tuple[dict[str, int], list[Finding]]:
    """Return how much was compared, and what differs. ``vector``: but for the
    metadata, whose state is rebuilt; ``replicas``: of each partition, by topic and number; ``place``:
    what people call the snapshot."""
    counts = {"partitions": 0, "records": 0}
    found: list[Finding] = []
    for each in vector:
        counts["partitions"] += 1
        own = replicas.get((each.topic, each.partition), ())
        if not own:
            found.append(Kind.RESTORED_DIFFERS.at(place, f"{each.name} was not rebuilt", offset=each.start_offset))
        for replica in own:
            try:
                limits, records = _limits(replica), count_with_markers(replica, max_batch_bytes)
            except UnreadableError as error:
                found.append(error.finding(replica.path, each.start_offset))
                continue
            counts["records"] += records
            expected = _text(each.start_offset, each.end_offset, each.records)
            if (actual := _text(*limits, records)) != expected:
                text = f"{each.name} was rebuilt with other offsets or records than the snapshot has"
                found.append(
                    Kind.RESTORED_DIFFERS.at(place, text, offset=each.start_offset, expected=expected, found=actual)
                )
    return counts, list(dict.fromkeys(found))


def count_with_markers(partition: PartitionPath, max_batch_bytes: int) -> int:
    """Return how many records a log has, control records among them, as far as headers say. Raises
    :class:`UnreadableError` for a segment that cannot be read."""
    markers, records = _Markers(), 0
    failed: list[Finding] = []
    for each in open_segments(partition, failed.append):
        summary = summarize(each.file, ignore, 0, max_batch_bytes, watch=markers.add, is_last=each.is_last)
        records += summary.records
    if failed:
        raise UnreadableError(failed[0].file, failed[0].message, Kind(failed[0].kind))
    return records + markers.records


def _limits(partition: PartitionPath) -> tuple[int, int]:
    start = partition.start_offset or 0
    return start, max(start, end_offset(partition) or 0)


def _text(start: int, end: int, records: int) -> str:
    return f"{records:,} records in offsets {start} to {end}"
