"""Forecasts which remote segments a broker deletes by the retention of their topic.

Source: ``RemoteLogManager`` (``RLMExpirationTask``, 4.4.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress

from brokerless.internals.remote.segment_metadata import SegmentMetadata
from brokerless.internals.topic_settings import read_topic_setting
from brokerless.log.directory import PartitionPath
from brokerless.log.tiered.detection import is_tiered


def expired_segments(
    partition: PartitionPath, segments: Sequence[SegmentMetadata], now: int
) -> Iterator[tuple[str, list[SegmentMetadata]]]:
    """Yield why, and the remote ``segments`` of a partition that a broker deletes for it at its next task. ``now`` in
    ms."""
    start = partition.log_start_offset
    before = [each for each in segments if each.end_offset < start]
    if before:
        yield f"before the log start offset {start}", before
    left = [each for each in segments if each.end_offset >= start]
    limits = {name: _number(read_topic_setting(partition.location, partition.topic or "", name))
              for name in ("retention.ms", "retention.bytes")}  # fmt: skip
    if (age := limits["retention.ms"]) is not None and age >= 0:
        is_old = [0 <= each.max_timestamp < now - age for each in left]
        if any(is_old):
            yield f"past retention.ms={age}", list(compress(left, is_old))
        left = [each for each, old in zip(left, is_old, strict=True) if not old]
    if (most := limits["retention.bytes"]) is not None and most >= 0:
        end = max((each.end_offset for each in segments), default=-1)
        own = [each for each in partition.segments if not is_tiered(each.log.location) and each.base_offset > end]
        total = sum(each.size for each in left) + sum(each.size for each in own)
        over: list[SegmentMetadata] = []
        for each in left:
            if total - each.size < most:
                break
            total -= each.size
            over.append(each)
        if over:
            yield f"past retention.bytes={most}", over


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
