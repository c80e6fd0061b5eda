"""What a restore reads and what becomes of it, as values."""

from __future__ import annotations

from dataclasses import dataclass

from brokerless.findings import Finding
from brokerless.kafka_names import TopicPartition
from brokerless.log.settings.topic import TopicSettings
from brokerless.text import short_html, short_repr


@dataclass(frozen=True, slots=True)
class Limits:
    """A target topic's limits by its settings: what it accepts and retains. None where there is no limit."""

    expired_before: int | None = None
    """Records older than this are deleted by retention (ms since the epoch)."""
    earliest: int | None = None
    """The first timestamp that a broker accepts (ms since the epoch)."""
    latest: int | None = None
    """The last timestamp that a broker accepts (ms since the epoch)."""
    largest: int | None = None
    """The largest batch in bytes (the smaller one of ``max.message.bytes`` and ``segment.bytes``)."""


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """A partition that is restored, and how much of it meets the target's :class:`Limits`. Offsets are
    ``start_offset <= offset < end_offset``."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    records: int = 0
    """How many records are restored."""
    size: int = 0
    """The bytes of the keys, values and headers that are restored."""
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    largest: tuple[int, int] = (0, -1)
    """The bytes of the largest record, and its offset."""
    expired: tuple[int, int] = (0, 0)
    """How many records retention deletes, and their bytes."""
    out_of_range: int = 0
    """How many records have timestamps that the target refuses."""
    too_large: int = 0
    """How many records are larger than the target accepts."""
    without_key: int = 0
    """How many records have no key."""
    at_zero: int = 0
    """How many records have the timestamp 0, which librdkafka cannot send."""
    unnameable: int = 0
    """How many headers have a zero byte in their names, which librdkafka cannot send."""
    late: int = 0
    """How many records from ``end_offset`` on are older than the point in time."""
    undecided: tuple[int, int] | None = None
    """The first offset of an open transaction, which ends what is restored, and how many records are in it and after
    it; None without one."""
    codec: str = "none"

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class TopicRestore:
    """A topic that is restored: its partitions, and what the target has."""

    topic: str
    partitions: tuple[SourcePartition, ...]
    partition_count: int
    """How many partitions it has on the target, or gets."""
    configs: TopicSettings | None
    """Its own settings, as the source's metadata knows them; None where there is no metadata."""
    target: TopicSettings
    """The settings that count on the target."""
    exists: bool
    """Whether it is on the target already."""
    replicas: int | None = None
    """How many replicas are in sync, or will be, of the partition with the fewest; None where that is not known."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions)

    @property
    def size(self) -> int:
        """Bytes of keys, values and headers."""
        return sum(each.size for each in self.partitions)


@dataclass(frozen=True, slots=True)
class GroupRestore:
    """The committed offset of a group in one partition, translated."""

    group: str
    topic: str
    partition: int
    source_offset: int
    target_offset: int | None
    """The offset that is committed on the target; None where nothing is committed."""
    reason: str = ""
    """Why nothing is committed."""

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition

    __repr__ = short_repr
    _repr_html_ = short_html


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """A partition that was restored. Offsets are the target's."""

    topic: str
    partition: int
    records: int
    """How many records this run restored."""
    earlier: int
    """How many records earlier runs restored, from which this one went on."""
    matched: int
    """How many records an earlier run had sent that were found on the target."""
    first_offset: int | None
    end_offset: int


@dataclass(frozen=True, slots=True)
class Restore:
    """A restore into a running cluster: its plan, and, once ``is_applied``, what it did."""

    target: str
    topics: tuple[TopicRestore, ...]
    findings: tuple[Finding, ...]
    groups: tuple[GroupRestore, ...] = ()
    partitions: tuple[RestoredPartition, ...] = ()
    map_directory: str | None = None
    is_applied: bool = False
    is_resumed: bool = False
    created: tuple[str, ...] = ()

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def is_whole(self) -> bool:
        """Whether all committed offsets that were requested are committed."""
        return not any(each.reason for each in self.groups)
