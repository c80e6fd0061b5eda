"""Chooses the segments that are cleaned, and which of them become one (``LogCleanerManager``, ``Cleaner``, 4.4.0)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brokerless.bounds import MAX_INT32
from brokerless.jobs.compact.history import History
from brokerless.jobs.compact.settings import CompactSettings
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.ranges import from_log_start

SegmentGroup = tuple[SegmentPaths, ...]


@dataclass(frozen=True, slots=True)
class CleanableRange:
    """The part of a log that can be cleaned, and its segments."""

    first_dirty: int
    """The offset from which on keys are looked for."""
    first_uncleanable: int
    """The offset before which keys are looked for."""
    groups: tuple[SegmentGroup, ...]
    """The segments to clean; of each group, one segment is made."""
    rest: SegmentGroup
    """The segments that stay."""
    legacy_horizon_ms: int
    """Tombstones of v0 and v1 go in segments that were changed no later than this (ms since the epoch)."""

    @property
    def cleaned(self) -> SegmentGroup:
        return tuple(each for group in self.groups for each in group)


def find_cleanable(
    source: PartitionPath, history: History, settings: CompactSettings, checkpoint: int | None
) -> CleanableRange:
    """Return the range that can be cleaned. ``checkpoint`` is the offset up to which the log was cleaned before."""
    segments = from_log_start(source).segments(source.segments)
    log_start = source.start_offset or 0
    first_dirty = log_start if checkpoint is None or settings.from_start else checkpoint
    if not log_start <= first_dirty <= history.end_offset:
        first_dirty = log_start
    active = history.end_offset
    if settings.keep_active and segments:
        active = segments[-1].base_offset
    bounds = [history.last_stable_offset, active]
    if settings.min_compaction_lag_ms > 0:
        bounds += _too_young(segments, history, first_dirty, active=active, settings=settings)
    first_uncleanable = max(first_dirty, min(bounds))
    if first_uncleanable < active:  # the segment that holds it stays as a whole
        first_uncleanable = max(
            (each.base_offset for each in segments if each.base_offset <= first_uncleanable), default=first_uncleanable
        )
    else:
        first_uncleanable = active
    cleaned = [each for each in segments if each.base_offset < first_uncleanable]
    if first_uncleanable <= first_dirty:
        return CleanableRange(first_dirty, first_dirty, (), rest=segments, legacy_horizon_ms=0)
    before = [each for each in segments if each.base_offset < first_dirty]
    horizon = (before[-1].log.modified or 0) - settings.delete_retention_ms if before else 0
    groups = group_segments(cleaned, settings.segment_bytes, settings.segment_index_bytes, first_uncleanable)
    return CleanableRange(
        first_dirty, first_uncleanable, groups, rest=segments[len(cleaned) :], legacy_horizon_ms=horizon
    )


def _too_young(
    segments: SegmentGroup, history: History, first_dirty: int, active: int, settings: CompactSettings
) -> list[int]:
    """The base offset of the first dirty segment with a record that is younger than ``min.compaction.lag.ms``."""
    since = settings.now_ms - settings.min_compaction_lag_ms
    for place, each in enumerate(segments):
        following = segments[place + 1].base_offset if place + 1 < len(segments) else active
        if following <= first_dirty or each.base_offset >= active:
            continue
        largest = history.largest_timestamps.get(each.base_offset, -1)
        if (largest if largest >= 0 else each.log.modified or 0) > since:
            return [each.base_offset]
    return []


def group_segments(
    segments: Sequence[SegmentPaths], max_bytes: int, max_index_bytes: int, first_uncleanable: int
) -> tuple[SegmentGroup, ...]:
    """Neighbours that fit into one segment, by their bytes, those of their indexes, and their offsets."""
    groups: list[list[SegmentPaths]] = []
    sizes = (0, 0, 0)
    for place, each in enumerate(segments):
        own = (each.size, _index_size(each, "offset"), _index_size(each, "time"))
        following = segments[place + 1].base_offset if place + 1 < len(segments) else first_uncleanable
        together = tuple(one + other for one, other in zip(sizes, own, strict=True))
        fits = together[0] <= max_bytes and max(together[1:]) <= max_index_bytes
        if groups and fits and (each.size == 0 or following - 1 - groups[-1][0].base_offset <= MAX_INT32):
            groups[-1].append(each)
            sizes = (together[0], together[1], together[2])
        else:
            groups.append([each])
            sizes = own
    return tuple(map(tuple, groups))


def _index_size(segment: SegmentPaths, kind: str) -> int:
    entry = segment.offset_index if kind == "offset" else segment.time_index
    return 0 if entry is None else entry.size or 0
