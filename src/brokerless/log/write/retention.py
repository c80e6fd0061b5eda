"""Selects the segments that retention deletes: by time, by size, and those before the log start offset.

Pure: descriptions of segments in, a number of segments from the oldest on out. The active segment goes as well if its
turn comes and there is anything in it; the log is then rolled first, as it must always have one.

Source: ``UnifiedLog.deleteOldSegments``, ``deletableSegments`` and the predicates that it is called with (4.1.1). All
of the log counts as replicated: nobody else appends to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brokerless.log.config import LogConfig


@dataclass(frozen=True, slots=True)
class ClosedSegment:
    """A segment as retention sees it."""

    base_offset: int
    size: int
    """In bytes."""
    largest_timestamp: int
    """In ms; the time of the log file's last change where no batch has a timestamp."""


def expired(segments: Sequence[ClosedSegment], log_start_offset: int, config: LogConfig, now_ms: int) -> int:
    """Return how many segments go, from the oldest on, at ``now_ms`` (since the epoch)."""
    gone = before_start(segments, log_start_offset)
    if config.deletes:
        gone += _beyond_size(segments[gone:], config)
        gone += _beyond_time(segments[gone:], config, now_ms)
    return gone


def before_start(segments: Sequence[ClosedSegment], log_start_offset: int) -> int:
    """Return how many segments lie wholly before the log start offset."""
    following = segments[1:]
    return next((row for row, each in enumerate(following) if each.base_offset > log_start_offset), len(following))


def _beyond_size(segments: Sequence[ClosedSegment], config: LogConfig) -> int:
    surplus = sum(segment.size for segment in segments) - config.retention_bytes
    if config.retention_bytes < 0 or surplus < 0:
        return 0
    for row, segment in enumerate(segments):
        surplus -= segment.size
        if surplus < 0 or _is_empty_and_last(segments, row):
            return row
    return len(segments)


def _beyond_time(segments: Sequence[ClosedSegment], config: LogConfig, now_ms: int) -> int:
    if config.retention_ms < 0:
        return 0
    for row, segment in enumerate(segments):
        if now_ms - segment.largest_timestamp <= config.retention_ms or _is_empty_and_last(segments, row):
            return row
    return len(segments)


def _is_empty_and_last(segments: Sequence[ClosedSegment], row: int) -> bool:
    return row == len(segments) - 1 and segments[row].size == 0
