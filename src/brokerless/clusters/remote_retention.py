"""Forecasts which remote segments a broker deletes by the retention of their topic.

A leader looks for them every ``remote.log.manager.task.interval.ms`` (30 seconds). Source: ``RemoteLogManager``
(``RLMExpirationTask``, 4.4.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Protocol

from brokerless.findings import Finding, Kind
from brokerless.internals.topic_settings import read_topic_settings
from brokerless.log.config import DEFAULTS
from brokerless.log.directory import PartitionPath
from brokerless.log.settings.topic import TopicSettings
from brokerless.log.tiered.detection import is_tiered
from brokerless.text import count_of, format_bytes


class Segment(Protocol):
    """A segment in remote storage, with ``start_offset <= offset <= end_offset``; ``size`` in bytes, ``max_timestamp``
    in ms."""

    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def size(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Expired:
    """Remote segments of a partition, the first one first, that go for one reason."""

    partition: PartitionPath
    reason: str
    segments: tuple[Segment, ...]

    @property
    def size(self) -> int:
        """Bytes of logs."""
        return sum(each.size for each in self.segments)

    @property
    def offsets(self) -> tuple[int, int]:
        """The first and the last one."""
        return min(each.start_offset for each in self.segments), max(each.end_offset for each in self.segments)

    @property
    def finding(self) -> Finding:
        text = f"{count_of(len(self.segments), 'remote segment')} ({format_bytes(self.size)}) {self.reason}"
        kind, offset = Kind.REMOTE_SEGMENT_EXPIRED, self.segments[0].start_offset
        return kind.at(self.partition.path, text, severity="info", offset=offset)


def expired_segments(partition: PartitionPath, segments: Sequence[Segment], now: int) -> Iterator[Expired]:
    """Yield those of the remote ``segments`` of a partition, which begin with the first one, that a broker deletes, by
    why it does. ``now`` in ms."""
    start = partition.log_start_offset
    before = [each for each in segments if each.end_offset < start]
    if before:
        yield Expired(partition, f"before the log start offset {start}", tuple(before))
    left = [each for each in segments if each.end_offset >= start]
    settings = read_topic_settings(partition.location, partition.topic or "")
    age, by_age = _limit(settings, "retention.ms", DEFAULTS.retention_ms)
    if age >= 0:
        is_old = [0 <= each.max_timestamp < now - age for each in left]
        if any(is_old):
            yield Expired(partition, by_age, tuple(compress(left, is_old)))
        left = [each for each, old in zip(left, is_old, strict=True) if not old]
    most, by_size = _limit(settings, "retention.bytes", DEFAULTS.retention_bytes)
    if most >= 0:
        end = max((each.end_offset for each in segments), default=-1)
        own = [each for each in partition.segments if not is_tiered(each.log.location) and each.base_offset > end]
        total = sum(each.size for each in left) + sum(each.size for each in own)
        over: list[Segment] = []
        for each in left:
            if total - each.size < most:
                break
            total -= each.size
            over.append(each)
        if over:
            yield Expired(partition, by_size, tuple(over))


def _limit(settings: TopicSettings | None, name: str, default: int) -> tuple[int, str]:
    """A topic's setting, and what is said of what is past it; -1 where the topic is not known."""
    if settings is None:
        return -1, ""
    try:
        limit = int(settings.get(name, default))
    except ValueError:
        limit = -1
    is_default = "" if name in settings else " (Kafka's default)"
    return limit, f"past {name}={limit}{is_default}"
