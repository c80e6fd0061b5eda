"""Finds the segments of a log directory that may go, in the order in which they go.

Only whole segments from the oldest on, never a partition's last one, and only up to the high watermark. Kafka deletes
no records of a topic that is only compacted, and neither does this.

Sources: ``UnifiedLog.deletableSegments``, ``ReplicaManager.deleteRecordsOnLocalLog`` (4.4.0); KIP-107.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

from brokerless import clock
from brokerless.clock import milliseconds
from brokerless.clusters.directory_state import DirectoryState
from brokerless.errors import UsageError
from brokerless.log import names
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.settings.topic import TopicSettings, has_remote_storage, retention_config
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.storage.segment_files import list_files
from brokerless.log.write.retention import ClosedSegment, before_start, expired
from brokerless.log.write.segment_state import describe_for_retention
from brokerless.requests.checking import TrimRequest
from brokerless.text import parse_bytes

TrimReason = Literal["deleted-records", "retention", "before", "oldest"]
"""Why a segment goes: its records are deleted already; the topic's retention; all records are before a time; it is the
oldest one."""

_INDEXES = ("offset-index", "time-index", "transaction-index")

_COMPACTED = "compacted: the oldest record of a key may be its only one"
DELETED, EXPIRED, LIVE = 0, 1, 2
"""The order in which segments go."""
_ORDER: tuple[TrimReason, ...] = ("deleted-records", "retention", "oldest")


@dataclass(frozen=True, slots=True)
class TrimmedSegment:
    """A segment that is to be removed."""

    base_offset: int
    end_offset: int
    """The offset at which the next segment begins."""
    file: str
    size: int
    """The bytes of its log and of what belongs to it."""
    largest_timestamp: int
    """The largest timestamp by its time index (ms)."""
    reason: TrimReason


@dataclass(frozen=True, slots=True)
class TrimLimits:
    """The limits by which segments are removed: one of ``free`` and ``before``, or else retention."""

    free: int | None
    """The bytes to free."""
    before: int | None
    """The time before which records are removed (ms since the epoch)."""
    now_ms: int
    """When retention is measured (ms since the epoch)."""

    @classmethod
    def one_of(cls, free: int | None, before: int | None, *, retention: bool, now_ms: int | None = None) -> TrimLimits:
        """Return the limits of a request. ``now_ms`` is when retention is measured, by default now. Raises
        :class:`UsageError` for none of the three, and for several."""
        if [free is not None, retention, before is not None].count(True) != 1:
            raise UsageError("trim: give one of free, retention and before")
        return cls(free, before, clock.now() if now_ms is None else now_ms)

    @classmethod
    def of(cls, request: TrimRequest) -> TrimLimits:
        """Return the limits that were requested. Raises :class:`UsageError` for what is no number of bytes."""
        free = parse_bytes(request.free) if isinstance(request.free, str) else request.free
        if request.free is not None and (free is None or free < 1):
            text = "is not a number of bytes above 0; use one such as 1000000, '500MB' or '1GiB'"
            raise UsageError(f"free={request.free!r} {text}")
        return cls.one_of(free, milliseconds(request.before), retention=request.retention)


def refusal(
    partition: PartitionPath, settings: TopicSettings | None, is_named: bool, was_compacted: bool
) -> str | None:
    """Return why nothing of a partition may go; None if it may. ``settings``: its topic's, None where they are not
    known; ``is_named``: the user has named the topic."""
    if names.is_internal(partition.topic):
        return "Kafka's own topic"
    if settings is None:
        if was_compacted:
            return _COMPACTED
        return None if is_named else "its settings are not known, so that it may be compacted; name it with -t"
    if has_remote_storage(settings):
        return "tiered: segments may not be in the remote storage yet"
    config = retention_config(settings)
    if config is None:
        return "its settings cannot be read"
    # By an empty policy nothing goes by itself (KIP-1161, 4.2), as where retention has no bound.
    return _COMPACTED if "compact" in config.cleanup_policy and not config.deletes else None


def candidates(
    partition: PartitionPath, settings: TopicSettings | None, state: DirectoryState, now_ms: int
) -> list[tuple[int, TrimmedSegment]]:
    """Return the segments of one partition that may go, from the oldest on, each with its place in the order."""
    lines = state.of(partition)
    high_watermark = lines[names.HIGH_WATERMARK_CHECKPOINT][1] if names.HIGH_WATERMARK_CHECKPOINT in lines else None
    closed = describe_for_retention(list_files(Path(partition.path)), [each.base_offset for each in partition.segments])
    start = partition.start_offset or 0
    deleted = before_start(closed, start)
    config = None if settings is None else retention_config(settings)
    gone = deleted if config is None else expired(closed, start, config, now_ms)
    found: list[tuple[int, TrimmedSegment]] = []
    for row, (each, following) in enumerate(pairwise(closed)):
        if high_watermark is not None and following.base_offset > high_watermark:
            break
        stage = DELETED if row < deleted else EXPIRED if row < gone else LIVE
        segment = _trimmed(partition.segments[row], each, following.base_offset, _ORDER[stage])
        found.append((stage, segment))
    return found


def _trimmed(paths: SegmentPaths, closed: ClosedSegment, end_offset: int, reason: TrimReason) -> TrimmedSegment:
    size = sum(each.size or 0 for each in _files(paths))
    return TrimmedSegment(
        closed.base_offset,
        end_offset,
        paths.log.path,
        size=size,
        largest_timestamp=closed.largest_timestamp,
        reason=reason,
    )


def _files(paths: SegmentPaths) -> list[DirectoryEntry]:
    """A segment's log, and those companions that exist."""
    files = (paths.log, paths.offset_index, paths.time_index, paths.transaction_index, paths.producer_snapshot)
    return [each for each in files if each is not None]


def choose(
    candidates_by_path: Mapping[str, Sequence[tuple[int, TrimmedSegment]]], limits: TrimLimits, freed: int
) -> dict[str, list[TrimmedSegment]]:
    """Return the segments that go, by their partition's path. ``freed``: bytes that are free without them."""
    chosen: dict[str, list[TrimmedSegment]] = {}
    for path, segment in _in_order(candidates_by_path, limits):
        if limits.free is not None and freed >= limits.free:
            break
        chosen.setdefault(path, []).append(segment)
        freed += segment.size
    return chosen


def _in_order(
    candidates_by_path: Mapping[str, Sequence[tuple[int, TrimmedSegment]]], limits: TrimLimits
) -> Iterator[tuple[str, TrimmedSegment]]:
    """Yield deleted and expired segments first, then the oldest ones; those of each partition from the first segment
    on."""
    heads: list[tuple[int, int, str, int]] = []

    def add(path: str, row: int) -> None:
        if row < len(candidates_by_path[path]):
            stage, segment = candidates_by_path[path][row]
            if _may_go(stage, segment, limits):
                heapq.heappush(heads, (stage, segment.largest_timestamp, path, row))

    for path in candidates_by_path:
        add(path, 0)
    while heads:
        stage, _, path, row = heapq.heappop(heads)
        segment = candidates_by_path[path][row][1]
        yield path, segment if stage != LIVE or limits.before is None else replace(segment, reason="before")
        add(path, row + 1)


def _may_go(stage: int, segment: TrimmedSegment, limits: TrimLimits) -> bool:
    if stage == DELETED or limits.free is not None:
        return True
    if limits.before is not None:
        return segment.largest_timestamp < limits.before
    return stage == EXPIRED


def waiting(partitions: Collection[PartitionPath], deleted: Collection[PartitionPath]) -> list[tuple[str, int]]:
    """Files that a broker removes anyway, with their bytes: segments that are deleted already, indexes without a log,
    and what is in ``deleted``, partitions whose directory waits for its deletion."""
    found = [
        (each.path, each.size or 0)
        for partition in (*partitions, *deleted)
        for each in partition.orphaned_files
        if (name := names.parse_segment_file(each.name)) is not None
        and (name.state == "deleted" or (name.state == "live" and name.kind in _INDEXES))
    ]
    for partition in deleted:
        for each in partition.segments:
            found += [(file.path, file.size or 0) for file in _files(each)]
    return found
