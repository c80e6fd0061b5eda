"""What a restore reads and what becomes of it, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from brokerless.findings import Finding
from brokerless.text import short_html, short_repr

TopicConfigs = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a target topic's settings let in and keep, in ms since the epoch and bytes; None where there is no limit.

    ``expired_before``: older records are deleted by retention. ``earliest``, ``latest``: timestamps that a broker
    accepts. ``largest``: bytes of a batch (the smaller one of ``max.message.bytes`` and ``segment.bytes``)."""

    expired_before: int | None = None
    earliest: int | None = None
    latest: int | None = None
    largest: int | None = None


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """What is restored of one partition, and how much of it meets the target's :class:`Limits`.

    Offsets ``start_offset <= offset < end_offset``; ``records`` and ``size`` (bytes of keys, values and headers) are
    those that are restored. ``largest``: bytes of the largest record, and its offset. ``expired``: records and bytes
    that retention deletes. ``late``: records from ``end_offset`` on that are older than the point in time.
    ``undecided``: the first offset of a transaction that is open, which ends what is restored (None without one), and
    how many records are in it and after it."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    records: int = 0
    size: int = 0
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    largest: tuple[int, int] = (0, -1)
    expired: tuple[int, int] = (0, 0)
    out_of_range: int = 0
    too_large: int = 0
    without_key: int = 0
    at_zero: int = 0
    unnameable: int = 0
    late: int = 0
    undecided: tuple[int, int] | None = None
    codec: str = "none"


@dataclass(frozen=True, slots=True)
class TopicRestore:
    """One topic: what is restored, and what the target has. ``configs``: its own settings, as the source's metadata
    knows them (None where there is none). ``target``: the settings that count on the target. ``exists``: whether it is
    there already. ``partition_count``: how many partitions it has, or gets. ``replicas``: how many of a partition are
    in sync, or will be, of the partition with the fewest; None where that is not known."""

    topic: str
    partitions: tuple[SourcePartition, ...]
    partition_count: int
    configs: TopicConfigs | None
    target: TopicConfigs
    exists: bool
    replicas: int | None = None

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
    """The committed offset of a group in one partition, translated; ``target_offset`` is None where nothing is
    committed, and ``reason`` says why."""

    group: str
    topic: str
    partition: int
    source_offset: int
    target_offset: int | None
    reason: str = ""

    __repr__ = short_repr
    _repr_html_ = short_html


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """What was restored of one partition: by this run, and by earlier ones that it went on from. ``matched``: records
    that an earlier run had sent, and that were found on the target. Offsets are the target's."""

    topic: str
    partition: int
    records: int
    earlier: int
    matched: int
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
    created: tuple[str, ...] = field(default=())

    __repr__ = short_repr
    _repr_html_ = short_html
