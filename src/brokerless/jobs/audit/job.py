"""Audits logs in one pass over their files, and reports findings by severity.

:func:`audit_partition` is a task of its own: paths in, values out. What verify finds is part of it; what is added is
about the log as a whole: offsets, epochs, producers, transactions, timestamps, and the log directory's checkpoints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from brokerless import clock
from brokerless.clusters.directory_state import (
    DirectoryState,
    Lines,
    check_directory,
    check_lines,
    check_state,
    compare_topic_ids,
    running_broker,
)
from brokerless.clusters.epoch_checks import LeaderEpochCheck, check_epochs
from brokerless.clusters.placement import state_finding
from brokerless.clusters.start.partition_files import unloadable_by_listing
from brokerless.clusters.start.start import StartOutcome
from brokerless.errors import UnreadableError
from brokerless.findings import NOT_OPENED, Finding, Kind
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.internals.records import TOPICS
from brokerless.internals.remote.storage import load_remote_storage
from brokerless.internals.tables import state_rows
from brokerless.jobs.audit.gaps import GapCheck
from brokerless.jobs.audit.internal_topics import TABLES, LivePartition, check_internal_topics
from brokerless.jobs.audit.next_start import check_start
from brokerless.jobs.audit.sequences import SequenceCheck
from brokerless.jobs.audit.timestamps import TimestampCheck
from brokerless.jobs.audit.transactions import OpenTransaction, TransactionCheck
from brokerless.jobs.run.job import in_order, run
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.jobs.segment_checks import (
    SegmentScan,
    are_indexes_needed,
    check_indexes,
    check_metadata_files,
    graded_by_place,
    persisting,
    verify_file,
)
from brokerless.log import names
from brokerless.log.checkpoint.partition_metadata import topic_id_of
from brokerless.log.directory import LogDirectory, PartitionPath, SegmentPaths
from brokerless.log.index.checks import keeping_indexes
from brokerless.log.live_segments import open_segments
from brokerless.log.offset_gaps import check_listing, missing_head, missing_offsets, missing_segment, replaced_offsets
from brokerless.log.producer.recorded_aborts import RecordedAborts
from brokerless.log.ranges import from_log_start
from brokerless.log.recovery.misleading_indexes import orphaned_aborts
from brokerless.log.seek import log_start_after_end
from brokerless.log.segment import Chunk
from brokerless.log.storage.paths import is_remote
from brokerless.log.tiered.detection import is_joined, is_tiered
from brokerless.log.tiered.segments import DAMAGED_SEGMENT
from brokerless.progress import Done, ignore
from brokerless.tables.segment_summary import SegmentSummary, add_chunk
from brokerless.text import short_html, short_repr

MOST_OF_A_KIND = 1000
"""Findings of one kind that are kept of one partition; the rest is counted."""


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    """A partition's audit: what its log contains, and the findings about it. The log has
    ``start_offset <= offset < end_offset``."""

    topic: str | None
    partition: int | None
    path: str
    state: names.PartitionState
    segments: int
    summary: SegmentSummary
    """The sums over the batches that are as they were written; records count from the log start offset on."""
    start_offset: int
    end_offset: int
    batches_by_magic: dict[int, int]
    """How many batches have each format."""
    committed: int
    """How many transactions were committed."""
    aborted: int
    """How many transactions were aborted."""
    open: tuple[OpenTransaction, ...]
    """The transactions that have not ended."""
    transactions_without_data: int
    """How many transactions have nothing in the log but their marker."""
    topic_id: tuple[str, str] | None
    """The topic's ID, and the path of the file that says so."""
    findings: tuple[Finding, ...]
    left_out: dict[str, int]
    """By kind, how many findings are not in ``findings``, as there are too many."""
    missing_offsets: int | None
    """How many offsets before the end or the high watermark are in no intact batch; None where that is not known, as
    compaction may have taken them."""

    __repr__ = short_repr
    _repr_html_ = short_html


def audit_partition(
    partition: PartitionPath,
    lines: Lines,
    now_ms: int | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    done: Done = ignore,
    *,
    was_clean: bool = False,
) -> PartitionAudit:
    """Reads all of one partition. ``lines`` are its own in its log directory's checkpoints; ``now_ms`` (since the
    epoch; now by default) decides which timestamps are from the future; ``max_batch_bytes``: bytes that one batch may
    inflate to. ``done`` is called with the bytes that were read. ``was_clean``: the log directory has the mark of a
    clean stop.

    Raises :class:`UnreadableError` if the partition is one file, and cannot be opened.
    """
    follower = _PartitionFollower.of(partition, lines, now_ms or clock.now(), max_batch_bytes)
    kept: list[Finding] = []
    counts: Counter[str] = Counter()
    for finding in _findings(
        partition, follower, lines, max_batch_bytes=max_batch_bytes, done=done, was_clean=was_clean
    ):
        counts[finding.kind] += 1
        if counts[finding.kind] <= MOST_OF_A_KIND:
            kept.append(finding.at_worst())
    metadata = partition.partition_metadata
    topic_id = topic_id_of(partition.partition_metadata)
    return PartitionAudit(
        partition.topic,
        partition.partition,
        partition.path,
        state=partition.state,
        segments=len(partition.segments),
        summary=follower.summary,
        start_offset=follower.start_offset,
        end_offset=follower.end_offset,
        batches_by_magic=dict(sorted(follower.magics.items())),
        committed=follower.transactions.committed,
        aborted=follower.transactions.aborted,
        open=tuple(follower.transactions.open(partition.segments)),
        transactions_without_data=follower.transactions.without_data,
        topic_id=None if metadata is None or topic_id is None else (topic_id, metadata.path),
        findings=tuple(kept),
        left_out={kind: count - MOST_OF_A_KIND for kind, count in counts.items() if count > MOST_OF_A_KIND},
        missing_offsets=follower.missing_offsets(lines),
    )


@dataclass(frozen=True, slots=True)
class AuditTask:
    """One partition to audit; see :func:`audit_partition`."""

    partition: PartitionPath
    lines: Lines
    now_ms: int
    max_batch_bytes: int
    was_clean: bool

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.partition.size


def audit_partitions(
    partitions: Sequence[PartitionPath],
    state: DirectoryState,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    running: RunOptions = HERE,
) -> Generator[PartitionAudit | UnreadableError]:
    """Yield what :func:`audit_partition` says of each partition, in this order, or the error that it raises."""
    now_ms = clock.now()
    tasks = [
        AuditTask(each, state.of(each), now_ms, max_batch_bytes=max_batch_bytes, was_clean=state.was_clean)
        for each in partitions
    ]
    with closing(run(audit_task, tasks, running, name="brokerless audit")) as results:
        yield from in_order(results)


def errors_of(audits: Iterable[PartitionAudit]) -> dict[tuple[str, int], int]:
    """Return how many errors were found and offsets are missing in each partition that is served, by topic and
    partition; 1 or more where that is not known. Damaged remote segments that have an intact copy count as well: that
    one is needed."""
    return {
        (each.topic, each.partition or 0): sum(
            one.severity == "error" or one.kind in DAMAGED_SEGMENT for one in each.findings
        )
        + (1 if each.missing_offsets is None else each.missing_offsets)
        for each in audits
        if each.topic is not None and each.state == "live"
    }


def audit_task(task: AuditTask, done: Done) -> PartitionAudit | UnreadableError:
    """Audits a partition; what cannot be opened is a value."""
    try:
        limits = task.now_ms, task.max_batch_bytes
        return audit_partition(task.partition, task.lines, *limits, done, was_clean=task.was_clean)
    except UnreadableError as error:
        return UnreadableError("", str(error), error.kind)


def audit_directory(
    directory: LogDirectory, state: DirectoryState, audits: Iterable[PartitionAudit], start: StartOutcome | None = None
) -> Iterator[Finding]:
    """Yield what is to say of a log directory as a whole, its partitions having been read; what a broker's start makes
    of it; and what Kafka's own topics in it say of those partitions. Nothing of another path. ``start``: of a broker
    with all its log directories; planned for this one alone where it is not passed and all partitions were audited."""
    audits = list(audits)
    of_partitions = {_fact(each) for audit in audits for each in audit.findings}
    starting = check_start(directory, [each.path for each in audits], start)
    starting = [each for each in starting if _fact(each) not in of_partitions]
    of_start, placed = {_fact(each) for each in starting}, {each.file for each in starting}
    others = [each for each in _of_directory(directory, state, audits, start) if _fact(each) not in of_start]
    # Where the cluster's metadata is known, it says of which topic a directory is, and what becomes of one that moves.
    known = (Kind.TOPIC_ID_MISMATCH, Kind.FUTURE_DIRECTORY)
    others = [each for each in others if each.kind not in known or each.file not in placed]
    for finding in (*starting, *others):
        yield finding.at_worst()


def _fact(finding: Finding) -> tuple[str, str, int | None]:
    """Return what a finding is about: what a start reports as well is reported once. A name at which a broker ends is
    no foreign file besides."""
    kind = Kind.FOREIGN_FILE if finding.kind == Kind.DIRECTORY_NAME else finding.kind
    return kind, finding.file, finding.position


def _of_directory(
    directory: LogDirectory, state: DirectoryState, audits: Sequence[PartitionAudit], start: StartOutcome | None
) -> Iterator[Finding]:
    elsewhere = () if start is None else start.elsewhere
    yield from check_directory(directory, state, running_broker(state) is not None, elsewhere)
    if directory.is_local_log_directory and not is_joined(directory.location):
        reported = {
            each.path for each in directory.partitions for one in each.findings if one.kind == Kind.REMOTE_OFFSETS
        }
        others = [each for each in directory.partitions if each.start_offset != 0 and each.path not in reported]
        if others:
            yield from filter(None, map(load_remote_storage(directory.location).finding, others))
    yield from compare_topic_ids(
        (each.topic, *each.topic_id)
        for each in audits
        if each.topic is not None and each.topic_id is not None and each.state == "live"
    )
    yield from filter(None, (state_finding("future", each.path) for each in audits if each.state == "future"))
    yield from _internal_topics(directory, audits)


def _internal_topics(directory: LogDirectory, audits: Iterable[PartitionAudit]) -> Iterator[Finding]:
    if directory.kind != "log-directory":
        return
    own = [each for each in directory.partitions if each.topic in TOPICS]
    if not own:
        return
    found: list[Finding] = []
    tables = state_rows(own, TABLES, found.append)
    # Damage there is reported of its partition.
    yield from (each for each in found if each.kind == Kind.COORDINATOR_MOVED)
    replicas = {
        (each.topic, each.partition or 0): LivePartition(
            each.path, each.start_offset, each.end_offset, open_transactions=each.open
        )
        for each in audits
        if each.topic is not None
        and each.state == "live"
        and all(one.kind != Kind.PERMISSION_DENIED for one in each.findings)  # where its end is not known
    }
    there = [each.place for each in directory.partitions if each.state == "live"]
    yield from check_internal_topics(tables, replicas, there)


@dataclass(slots=True)
class _PartitionFollower:
    """All that is followed through a partition's batches."""

    partition: PartitionPath
    gaps: GapCheck
    timestamps: TimestampCheck
    transactions: TransactionCheck
    summary: SegmentSummary
    max_batch_bytes: int
    sequences: SequenceCheck = field(default_factory=SequenceCheck)
    epochs: LeaderEpochCheck = field(default_factory=LeaderEpochCheck)
    magics: Counter[int] = field(default_factory=Counter[int])
    is_end_denied: bool = False
    """Whether this user may not read the last segment, or all of it: where the log ends is not known then."""

    @classmethod
    def of(cls, partition: PartitionPath, lines: Lines, now_ms: int, max_batch_bytes: int) -> _PartitionFollower:
        by_brokers = partition.topic in names.COMPACTED_BY_KAFKA
        return cls(
            partition,
            GapCheck(names.CLEANER_CHECKPOINT in lines, partition.log_start_offset, by_brokers),
            TimestampCheck(now_ms),
            TransactionCheck(partition.producer_snapshots, by_brokers, RecordedAborts(partition.segments)),
            SegmentSummary(partition.size),
            max_batch_bytes,
        )

    def watch(self, chunk: Chunk, path: str) -> Iterator[Finding]:
        start = from_log_start(self.partition).start_offset or 0
        # What is too large is reported by verify_file.
        add_chunk(self.summary, chunk, path, report=ignore, start_offset=start, max_batch_bytes=self.max_batch_bytes)
        magics, counts = np.unique(chunk.batches.magic, return_counts=True)
        self.magics.update(dict(zip(magics.tolist(), counts.tolist(), strict=True)))
        absent = self.gaps.follow(chunk, path)
        self.timestamps.follow(chunk, path)
        yield from self.epochs.follow(chunk, path)
        yield from self.sequences.follow(chunk, path, absent)
        yield from self.transactions.follow(chunk, path, self.is_whole)

    @property
    def is_whole(self) -> bool:
        return not self.gaps.absent and not self.gaps.is_compacted

    @property
    def start_offset(self) -> int:
        """The log start offset; where the log ends before it, a broker serves nothing."""
        return min(self.partition.start_offset or 0, self.end_offset)

    @property
    def end_offset(self) -> int:
        last = self.partition.segments[-1].base_offset if self.partition.segments else 0
        return max(last, self.gaps.next_offset or 0)

    @property
    def goes_on(self) -> bool:
        """Whether the log goes on, or may, after what is read of it."""
        return bool(self.partition.uncommitted) or self.is_end_denied

    def missing_offsets(self, lines: Lines) -> int | None:
        """Return how many offsets are in no intact batch, up to the high watermark in ``lines``; None if not known."""
        _, committed = ("", 0) if self.goes_on else lines.get(names.HIGH_WATERMARK_CHECKPOINT, ("", 0))
        return self.gaps.missing + max(0, committed - self.end_offset) if self.gaps.is_counted else None


def _findings(
    partition: PartitionPath,
    follower: _PartitionFollower,
    lines: Lines,
    max_batch_bytes: int,
    done: Done,
    was_clean: bool,
) -> Iterator[Finding]:
    is_partition = partition.topic is not None
    if partition.state != "future":  # of which the log directory says more
        yield from check_state(partition)
    for offsets, finding in check_listing(partition):
        if offsets and (not partition.segments or offsets.start < partition.segments[0].base_offset):
            follower.gaps.pass_over(offsets)
        if finding.kind != Kind.LOG_START_UNKNOWN:  # which is reported of the log directory
            yield finding
    if is_partition and not is_remote(partition.path):
        yield from unloadable_by_listing(partition)
    if (missing := missing_head(partition)) is not None:
        follower.gaps.missing += len(missing_offsets(missing))
        yield missing
    if (after_end := log_start_after_end(partition)) is not None:
        yield after_end
    last_offset: int | None = None
    unreadable: list[Finding] = []
    missing_ranges: list[range] = []
    without_findings = replace(partition, findings=())
    for each in open_segments(without_findings, unreadable.append):
        segment = each.segment
        missing_ranges += _pass_over_unread(unreadable, segment.base_offset, follower.gaps)
        if names.parse_segment_file(segment.log.name) is not None and not each.is_merged:
            yield from follower.gaps.at_segment(segment.base_offset, segment.log.path)
        seen = SegmentScan(segment.base_offset, last_offset, watch=follower.watch, needs_bytes=True)
        findings = verify_file(each.file, seen, max_batch_bytes, done=done, start=each.start)
        yield from graded_by_place(findings, partition, is_last=each.is_last, was_clean=was_clean)
        last_offset = seen.last_offset
        if each.is_merged:  # what is beside it is about all of those whose place it has taken
            continue
        if is_partition:
            absent = persisting(segment, _missing_indexes)
            yield from keeping_indexes(absent) if are_indexes_needed(segment, seen.last_offsets) else absent
        for finding in check_indexes(each, seen):
            if finding.kind != Kind.INDEX_NOT_TRIMMED or finding.severity != "info":  # which is as it should be
                yield finding
        yield from follower.transactions.at_segment_end(segment, is_partition, missing_ranges, each.next_base_offset)
        if (missing := missing_segment(each)) is not None:
            missing_ranges.append(missing_offsets(missing))
            follower.gaps.pass_over(missing_ranges[-1])
            yield missing
        follower.gaps.pass_over_spans(replaced_offsets(each.partition))
    follower.is_end_denied = _is_end_denied(partition, unreadable)
    # A consumer that is as far has lost these records as well: nothing is wrong with the log.
    yield from (replace(each, severity="info") if each.kind == Kind.DELETED_MEANWHILE else each for each in unreadable)
    for snapshot in partition.snapshots:
        try:
            with snapshot.location.open() as file:
                yield from verify_file(file, None, max_batch_bytes)
        except UnreadableError as error:
            yield error.finding(snapshot.path)
    yield from check_metadata_files(partition)
    yield from orphaned_aborts(partition)
    yield from follower.gaps.findings(partition.segments[-1] if partition.segments else None)
    yield from follower.timestamps.findings()
    at_end = [
        *check_epochs(partition, follower.epochs, follower.end_offset, is_partition),
        *follower.transactions.findings(partition.segments, follower.end_offset, follower.is_whole),
        *check_lines(lines, follower.start_offset, follower.end_offset),
    ]
    yield from (each for each in at_end if not (follower.goes_on and each.kind in _BEYOND_END))
    yield from _formats(partition.path, follower)


_BEYOND_END = (
    Kind.LEADER_EPOCH_BEYOND_END, Kind.PRODUCER_SNAPSHOT_BEYOND_END, Kind.RECOVERY_POINT_BEYOND_END,
    Kind.HIGH_WATERMARK_BEYOND_END, Kind.CLEANER_CHECKPOINT_BEYOND_END,
)  # fmt: skip


def _missing_indexes(segment: SegmentPaths) -> Iterator[Finding]:
    """Report missing indexes. An empty log needs none: a broker makes them with the first batch (``LazyIndex``,
    4.1.1)."""
    severity = "warning" if segment.size else "info"
    texts = (
        "the segment has no offset index; a broker rebuilds it at its next start",
        "the segment has no time index; a broker makes an empty one, unless it recovers the segment",
    )
    if is_tiered(segment.log.location):
        texts = ("the remote segment has no offset index", "the remote segment has no time index")
    indexes = {"offset": segment.offset_index, "time": segment.time_index}
    for (case, index), text in zip(indexes.items(), texts, strict=True):
        if index is None:
            missing = Kind.INDEX_MISSING.at(segment.log.path, text, severity=severity, offset=segment.base_offset)
            yield missing.in_case(case)


def _pass_over_unread(unreadable: Sequence[Finding], until: int, gaps: GapCheck) -> Iterator[range]:
    """Yield the offsets of the segments before ``until`` that cannot be opened, which are reported by themselves."""
    for each in unreadable:
        first = each.offset or 0
        if each.kind in NOT_OPENED and (gaps.next_offset or 0) <= first < until:
            gaps.pass_over(range(first, until), is_lost=each.kind != Kind.PERMISSION_DENIED)
            yield range(first, until)


def _is_end_denied(partition: PartitionPath, unreadable: Sequence[Finding]) -> bool:
    if not partition.segments:
        return partition.unreadable is not None and partition.unreadable.kind == Kind.PERMISSION_DENIED
    last = partition.segments[-1].base_offset
    return any(each.kind == Kind.PERMISSION_DENIED and each.offset == last for each in unreadable)


def _formats(path: str, follower: _PartitionFollower) -> Iterator[Finding]:
    old = {magic: count for magic, count in follower.magics.items() if 0 <= magic < 2}
    if old:
        text = "messages in old formats: Kafka 4 still reads them, and converts them no more for old clients"
        found = ", ".join(f"{count} of v{magic}" for magic, count in sorted(old.items()))
        yield Kind.LEGACY_FORMAT.at(path, text, expected="v2", found=found)
    if follower.timestamps.has_none:
        text = "batches without timestamps: retention goes by the time of the file, which copying changes"
        yield Kind.NO_TIMESTAMPS.at(path, text, severity="info")
