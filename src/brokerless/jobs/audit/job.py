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
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.format.codecs.decompression import DEFAULT_MAX_BATCH_BYTES
from brokerless.internals.records import TOPICS
from brokerless.internals.remote.storage import load_remote_storage
from brokerless.internals.tables import state_rows
from brokerless.jobs.audit.gaps import GapCheck
from brokerless.jobs.audit.internal_topics import TABLES, DirectoryOwner, LivePartition, check_internal_topics
from brokerless.jobs.audit.next_start import check_start
from brokerless.jobs.audit.remote import local_part
from brokerless.jobs.audit.sequences import SequenceCheck
from brokerless.jobs.audit.timestamps import TimestampCheck
from brokerless.jobs.audit.transactions import OpenTransaction, TransactionCheck
from brokerless.jobs.directory_state import (
    DirectoryState,
    Lines,
    check_directory,
    check_lines,
    check_state,
    compare_topic_ids,
    running_broker,
)
from brokerless.jobs.epoch_checks import LeaderEpochCheck, check_epochs
from brokerless.jobs.run.job import in_order, run
from brokerless.jobs.run.types import NONE, Done, Say, Spark, ignore
from brokerless.jobs.segment_checks import SegmentScan, check_indexes, check_metadata_files, persisting, verify_file
from brokerless.log import names
from brokerless.log.checkpoint.meta_properties import load_meta_properties
from brokerless.log.checkpoint.topic_ids import topic_id_of
from brokerless.log.directory import LogDirectory, PartitionPath, SegmentPaths, check_names
from brokerless.log.live_segments import open_segments
from brokerless.log.offset_gaps import missing_head, missing_logs, missing_offsets, missing_segment
from brokerless.log.ranges import from_log_start
from brokerless.log.segment import Chunk, graded_within_log
from brokerless.log.storage.paths import is_remote
from brokerless.log.tiered.detection import is_joined, is_tiered
from brokerless.log.tiered.segments import DAMAGED_SEGMENT
from brokerless.tables.partition_reader import PartitionReader
from brokerless.tables.segment_summary import SegmentSummary, add_chunk
from brokerless.text import short_html, short_repr

MOST_OF_A_KIND = 1000
"""Findings of one kind that are kept of one partition; the rest is counted."""


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    """What is in one partition, and what is to say of it.

    ``summary`` adds up the batches that are as they were written; records count from the log start offset on.
    The log has ``start_offset <= offset < end_offset``. ``batches_by_magic``: how many batches have which format.
    ``committed``, ``aborted``, ``open``: transactions; of ``transactions_without_data`` there is nothing but the
    marker. ``left_out``: how many findings of a kind are not in ``findings``, as there are too many.
    ``missing_offsets``: how many offsets before the end or the high watermark are in no intact batch; None where that
    is not known, as compaction may have taken them.
    """

    topic: str | None
    partition: int | None
    path: str
    state: names.PartitionState
    segments: int
    summary: SegmentSummary
    start_offset: int
    end_offset: int
    batches_by_magic: dict[int, int]
    committed: int
    aborted: int
    open: tuple[OpenTransaction, ...]
    transactions_without_data: int
    topic_id: tuple[str, str] | None
    """The topic's ID, and the path of the file that says so."""
    findings: tuple[Finding, ...]
    left_out: dict[str, int]
    missing_offsets: int | None

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
            kept.append(finding)
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
    *,
    spark: Spark = NONE,
    done: Done = ignore,
    say: Say = ignore,
    processes: int | None = None,
) -> Generator[PartitionAudit | UnreadableError]:
    """Yield what :func:`audit_partition` says of each partition, in this order, or the error that it raises. ``spark``,
    ``done``, ``say``, ``processes``: as :func:`brokerless.jobs.run.job.run` takes them."""
    now_ms = clock.now()
    tasks = [
        AuditTask(each, state.of(each), now_ms, max_batch_bytes=max_batch_bytes, was_clean=state.was_clean)
        for each in partitions
    ]
    name = "brokerless audit"
    results = run(audit_task, tasks, spark=spark, done=done, say=say, name=name, processes=processes)
    with closing(results):
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
        return UnreadableError("", str(error))


def audit_directory(
    directory: LogDirectory, state: DirectoryState, audits: Iterable[PartitionAudit]
) -> Iterator[Finding]:
    """Yield what is to say of a log directory as a whole, its partitions having been read; also what Kafka's own topics
    in it say of those partitions. Nothing of another path."""
    audits = list(audits)
    starting = list(check_start(local_part(directory), state))
    named = {each.file for each in starting}
    for finding in check_directory(directory, state, running_broker(state) is not None):
        if finding.kind != Kind.FOREIGN_FILE or finding.file not in named:
            yield finding
    yield from starting
    if directory.kind == "log-directory" and not is_remote(directory.path) and not is_joined(directory.location):
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
    yield from _internal_topics(directory, state, audits)


def _internal_topics(
    directory: LogDirectory, state: DirectoryState, audits: Iterable[PartitionAudit]
) -> Iterator[Finding]:
    if directory.kind != "log-directory":
        return
    own = [PartitionReader(each) for each in directory.partitions if each.topic in TOPICS]
    if not own:
        return
    tables = state_rows(own, TABLES, lambda _: None)  # what is damaged there is reported of its partition
    replicas = {
        (each.topic, each.partition or 0): LivePartition(
            each.path,
            each.start_offset,
            each.end_offset,
            topic_id=each.topic_id and each.topic_id[0],
            open_transactions=each.open,
        )
        for each in audits
        if each.topic is not None and each.state == "live"
    }
    there = [(each.topic or "", each.partition or 0) for each in directory.partitions if each.state == "live"]
    node = DirectoryOwner(None, None)
    if names.META_PROPERTIES in state.files:
        meta = load_meta_properties(state.files[names.META_PROPERTIES].location)
        node = DirectoryOwner(meta.node_id, meta.directory_id)
    yield from check_internal_topics(tables, replicas, there, node=node, path=directory.path)


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

    @classmethod
    def of(cls, partition: PartitionPath, lines: Lines, now_ms: int, max_batch_bytes: int) -> _PartitionFollower:
        by_brokers = partition.topic in names.COMPACTED_BY_KAFKA
        return cls(
            partition,
            GapCheck(names.CLEANER_CHECKPOINT in lines, partition.log_start_offset, by_brokers),
            TimestampCheck(now_ms),
            TransactionCheck(partition.producer_snapshots, by_brokers),
            SegmentSummary(partition.size),
            max_batch_bytes,
        )

    def watch(self, chunk: Chunk, path: str) -> Iterator[Finding]:
        start = from_log_start(self.partition).start_offset or 0
        # What is too large is reported by verify_file.
        add_chunk(
            self.summary, chunk, path, report=lambda _: None, start_offset=start, max_batch_bytes=self.max_batch_bytes
        )
        magics, counts = np.unique(chunk.batches.magic, return_counts=True)
        self.magics.update(dict(zip(magics.tolist(), counts.tolist(), strict=True)))
        holes = self.gaps.follow(chunk, path)
        self.timestamps.follow(chunk, path)
        yield from self.epochs.follow(chunk, path)
        yield from self.sequences.follow(chunk, path, holes)
        yield from self.transactions.follow(chunk, path, self.is_whole)

    @property
    def is_whole(self) -> bool:
        return not self.gaps.holes and not self.gaps.is_compacted

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
        """Whether the log goes on after what is read of it, as a commit is not finished."""
        return bool(self.partition.uncommitted)

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
    yield from check_state(partition)
    for finding in check_names(partition):
        if finding.kind != Kind.LOG_START_UNKNOWN:  # which is reported of the log directory
            yield finding
    for offsets, finding in missing_logs(partition):
        if not partition.segments or offsets.start < partition.segments[0].base_offset:
            follower.gaps.pass_over(offsets)
        yield finding
    if (missing := missing_head(partition)) is not None:
        follower.gaps.missing += len(missing_offsets(missing))
        yield missing
    last_offset: int | None = None
    unreadable: list[Finding] = []
    missing_ranges: list[range] = []
    without_findings = replace(partition, findings=())
    for each in open_segments(without_findings, unreadable.append):
        segment = each.segment
        if names.parse_segment_file(segment.log.name) is not None and not each.is_merged:
            yield from follower.gaps.at_segment(segment.base_offset, segment.log.path)
        seen = SegmentScan(segment.base_offset, last_offset, watch=follower.watch)
        findings = verify_file(each.file, seen, max_batch_bytes, done=done, start=each.start)
        yield from _graded(findings, each.is_last, partition.state == "live" and not was_clean)
        last_offset = seen.last_offset
        if each.is_merged:  # what is beside it is about all of those whose place it has taken
            continue
        if is_partition:
            yield from persisting(segment, _missing_indexes)
        for finding in check_indexes(each, seen):
            if finding.kind != Kind.INDEX_NOT_TRIMMED or finding.severity != "info":  # which is as it should be
                yield finding
        yield from follower.transactions.at_segment_end(segment, is_partition, missing_ranges)
        if (missing := missing_segment(each.partition, segment, each.file)) is not None:
            missing_ranges.append(missing_offsets(missing))
            follower.gaps.pass_over(missing_ranges[-1])
            yield missing
    # A consumer that is as far has lost these records as well: nothing is wrong with the log.
    yield from (replace(each, severity="info") if each.kind == Kind.DELETED_MEANWHILE else each for each in unreadable)
    for snapshot in partition.snapshots:
        try:
            with snapshot.location.open() as file:
                yield from verify_file(file, None, max_batch_bytes)
        except UnreadableError as error:
            reason = error.reason_for(snapshot.path)
            yield Finding("error", Kind.UNREADABLE_FILE, snapshot.path, message=reason)
    yield from check_metadata_files(partition)
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


def _graded(findings: Iterable[Finding], is_last: bool, is_recovered: bool) -> Iterator[Finding]:
    """The last segment of a log that a broker recovers at its next start may end in zeros (``log.preallocate``) and
    within a batch. After a clean stop, which trims the file, a broker does not start on such zeros: ``readNextOffset``
    of ``LogSegment`` throws CorruptRecordException (4.4.0). In other segments, data is lost."""
    for finding in findings:
        if finding.kind == Kind.ZERO_TAIL and is_last and is_recovered:
            finding = replace(finding, severity="info")
        elif not is_last:
            finding = graded_within_log(finding)
        yield finding


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
    for index, text in zip((segment.offset_index, segment.time_index), texts, strict=True):
        if index is None:
            yield Finding(severity, Kind.INDEX_MISSING, segment.log.path, offset=segment.base_offset, message=text)


def _formats(path: str, follower: _PartitionFollower) -> Iterator[Finding]:
    old = {magic: count for magic, count in follower.magics.items() if 0 <= magic < 2}
    if old:
        text = "messages in old formats: Kafka 4 still reads them, and converts them no more for old clients"
        found = ", ".join(f"{count} of v{magic}" for magic, count in sorted(old.items()))
        yield Finding("info", Kind.LEGACY_FORMAT, path, message=text, expected="v2", found=found)
    if follower.timestamps.has_none:
        text = "batches without timestamps: retention goes by the time of the file, which copying changes"
        yield Finding("info", Kind.NO_TIMESTAMPS, path, message=text)
