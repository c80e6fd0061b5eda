"""What the dry run of a broker's next start expects: of a partition, and of a log directory as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from brokerless.clusters.placement import Absent, Placement, Verdict
from brokerless.clusters.remote_retention import Expired
from brokerless.clusters.start.remote_deletions import RemoteDeletion
from brokerless.clusters.start.remote_log_starts import RemoteLogStart
from brokerless.clusters.start.retention_forecast import Retention
from brokerless.clusters.start.transactions import EndedTransaction
from brokerless.findings import Finding, Kind
from brokerless.internals.groups.positions import LostPosition
from brokerless.kafka_names import TopicPartition
from brokerless.log.checkpoint.leader_epochs import Epochs
from brokerless.log.recovery.misleading_indexes import IndexEffect
from brokerless.log.settings.topic import TopicSettings
from brokerless.offset_spans import Span
from brokerless.text import short_html, short_repr

READ_IN_VAIN = (Kind.CHECKPOINT_CORRUPT, Kind.PARTITION_METADATA_CORRUPT)
"""Kinds of a partition's files for which Kafka throws IOException, so that the log directory goes offline; for others,
such as the name of a file, a broker ends."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """A log file that is cut."""

    file: str
    size: int
    """Bytes of the file."""
    kept: int
    """How many bytes, from the first on, stay."""
    reason: str
    """Why it is cut."""


@dataclass(frozen=True, slots=True)
class LostRecords:
    """What is readable now, and would not be: intact batches at or after the end of what stays, and those of files that
    are removed although no other one has their offsets. Offsets are None if there are none."""

    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Restart:
    """The result of a broker's next start for one partition: paths of files, offsets, and bytes.

    The log then has ``log_start_offset <= offset < log_end_offset``.
    """

    topic: str | None
    partition: int | None
    path: str
    refused: str | None = None
    """Why the broker would not load the log at all, and so end, or take its whole log directory offline where it has
    another one."""
    refused_by: str | None = None
    """The kind of that, by which findings.toml has what to do."""
    refusal: Finding | None = None
    """The finding, where it has a place of its own."""
    ends: bool | None = None
    """Whether a broker ends at that, or starts without the log directory; None where its other ones are not known."""
    split: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Logs of segments whose offsets are too far apart for one, and the base offsets of the segments that it makes of
    each."""
    recovered: tuple[tuple[int, str], ...] = ()
    """Base offsets of segments that it would read batch by batch, and why."""
    cut: tuple[Truncation, ...] = ()
    """Log files that it cuts."""
    deleted: tuple[tuple[str, int], ...] = ()
    """Log files that it deletes, and their sizes."""
    rebuilt: tuple[str, ...] = ()
    """Index files that it rebuilds."""
    emptied: tuple[str, ...] = ()
    """Time indexes that are not there, and that it makes without entries: flushed segments are not read for that."""
    removed: tuple[str, ...] = ()
    """Orphaned files that it removes."""
    replaced: tuple[tuple[str, int, tuple[Span, ...]], ...] = ()
    """Of ``removed``, the log files and their sizes that have offsets which no file that stays has, and these."""
    replaced_findings: tuple[Finding, ...] = ()
    """The finding of each of these."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Orphaned files that it renames, and their new names."""
    beyond_end: Finding | None = None
    """Of a log that ends before its log start offset, all of which it deletes."""
    log_start_offset: int = 0
    log_end_offset: int = 0
    unclosed: tuple[str, ...] = ()
    """What is unexpected about the end of the last segment, which it accepts unchanged as the stop was clean, and
    appends after it."""
    misled: tuple[IndexEffect, ...] = ()
    """What it gets wrong by indexes of segments that it does not recover, apart from their age (``retention``)."""
    lost: LostRecords = LostRecords()
    stray: Finding | None = None
    """Why its directory is renamed to ``-stray``; if it is one of the cluster's, it is created again, empty."""
    unserved: Finding | None = None
    """Why the partition is not served, though its directory stays."""
    markers: int = 0
    """How many markers are appended at ``log_end_offset``, one for each transaction that the coordinator ends."""
    epochs: Epochs = ()
    """The leader epochs of the log then, each with its first offset."""
    retention: Retention | None = None
    """What retention deletes soon afterwards, which is no harm that the start does unless it is by a damaged index.
    None of a directory that becomes stray or is not served: a broker deletes nothing of it for its age."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def is_harmless(self) -> bool:
        """Whether all that can be read now is served afterwards."""
        is_misread = self.retention is not None and bool(self.retention.misread)
        is_lossy = bool(self.lost_bytes or self.lost.batches)
        return not (is_lossy or self.refused or self.stray or self.unserved or is_misread or self.misled)

    @property
    def is_fatal(self) -> bool:
        """Whether a broker ends at it, with other log directories too: only for an IOException does one go offline
        (``LogManager.loadLogs``, 4.4.0), and Kafka throws CorruptRecordException for a damaged end."""
        return self.ends is True or self.refused_by in (Kind.LOG_REFUSED, Kind.LOG_END_DAMAGED)

    @property
    def lost_bytes(self) -> int:
        """Bytes of log that would be gone, whatever they hold."""
        gone = (*(size for _, size in self.deleted), *(size for _, size, _ in self.replaced))
        return sum(each.size - each.kept for each in self.cut) + sum(gone)


@dataclass(frozen=True, slots=True)
class DirectoryRestart:
    """The result of a broker's next start for a log directory, apart from what is in its partitions' segments."""

    path: str
    refused: tuple[Finding, ...] = ()
    """Why no broker starts on it."""
    stray: Mapping[str, Finding] = field(default_factory=dict[str, Finding])
    """By the paths of partitions' directories, as in :class:`Restart`."""
    unserved: Mapping[str, Finding] = field(default_factory=dict[str, Finding])
    """By the paths of partitions' directories, as in :class:`Restart`."""
    deleted: tuple[tuple[str, int], ...] = ()
    """Directories that wait for their deletion, and bytes of their logs."""
    completed: tuple[EndedTransaction, ...] = ()
    """Transactions that the coordinator ends."""
    is_state_known: bool = False
    """Whether the cluster's metadata is there; without it, of strays only those are known that have no
    ``partition.metadata``."""
    placements: tuple[Placement, ...] = ()
    """Where its replicas are by the cluster's metadata."""
    absent: tuple[Absent, ...] = ()
    """The replicas of the cluster that should be here and are not; they are begun empty."""
    settings: Mapping[str, TopicSettings] = field(default_factory=dict[str, TopicSettings])
    """The settings of each topic on this broker, by the cluster's metadata."""
    warnings: tuple[Finding, ...] = ()
    """What a broker starts with, and still does not work then."""
    unknown: str | None = None
    """Why it is not known which partitions become stray; None where it is, or where there are no partitions."""
    restarts_cluster: bool = False
    """Whether the node has lost the cluster's metadata, and begins a new cluster as its only voter."""
    remote_deletions: tuple[RemoteDeletion, ...] = ()
    """Segments of tiered topics in remote storage that the start deletes; reported of the node's first directory."""
    remote_log_starts: tuple[RemoteLogStart, ...] = ()
    """Log starts of tiered topics that it moves, as it knows no remote segments before; reported as these are."""
    remote_expired: tuple[Expired, ...] = ()
    """Remote segments of its partitions that retention deletes soon after the start."""
    version: str = ""
    """Of the Kafka that starts."""
    offline: Finding | None = None
    """Why a broker with other directories starts without this one."""
    has_others: bool = False
    """Whether other directories of the broker are known."""
    lost_positions: tuple[LostPosition, ...] = ()
    """Positions of groups past the end of a partition after the start; reported of the node's first directory."""

    __repr__ = short_repr
    _repr_html_ = short_html

    def ends_at(self, kind: Kind) -> bool | None:
        """Return whether a broker ends at a partition that it cannot load for a reason of this kind; None where that
        depends on directories that are not known."""
        return None if not self.has_others else self.offline is None or kind not in READ_IN_VAIN

    @property
    def created(self) -> tuple[TopicPartition, ...]:
        """The partitions of ``absent``."""
        return tuple(each.place for each in self.absent)

    @property
    def promoted(self) -> tuple[tuple[str, str | None], ...]:
        """Directories of replicas that were being moved here and take their name, and of those that they replace."""
        found = (each for each in self.placements if each.verdict == Verdict.PROMOTED)
        return tuple((each.replica.path, None if each.other is None else each.other.path) for each in found)

    @property
    def overwritten(self) -> tuple[str, ...]:
        """Directories of replicas that were being moved here from one that is gone: they are emptied."""
        return tuple(each.replica.path for each in self.placements if each.verdict == Verdict.EMPTIED)

    @property
    def places(self) -> Mapping[str, TopicPartition]:
        """The topic and partition of each directory that a broker loads, by its path."""
        return {each.replica.path: each.place for each in self.placements}

    @property
    def is_harmless(self) -> bool:
        """Whether all that can be read now is served afterwards."""
        is_replaced = any(replaced is not None for _, replaced in self.promoted)
        positions = [each for each in self.lost_positions if not each.was_past_end]
        lost = self.refused, self.stray, self.unserved, self.created, self.deleted, self.remote_deletions
        lost = *lost, self.remote_log_starts
        return self.unknown is None and not is_replaced and not any((*lost, positions, self.offline))
