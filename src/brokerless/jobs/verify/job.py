"""Verifies logs: a task for each segment, then one for the rest of each partition.

A segment's findings depend on those before it in one way only: its offsets have to be above theirs. A task takes that
for given, and says where its offsets begin; where it was wrong, the driver reads the segment again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from brokerless import clock
from brokerless.clusters.epoch_checks import LeaderEpochCheck
from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.jobs.ledger import Checked, path_of, version_of
from brokerless.jobs.run.job import in_order, run, started
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.jobs.segment_checks import SegmentScan
from brokerless.jobs.verify.partition import check_directory, verify_epochs, verify_rest, verify_segment
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.progress import Done, ignore

if TYPE_CHECKING:
    from brokerless.jobs.turns import Turn

MOST = 1000
"""Findings of one segment that a task keeps; where there are more, the driver reads it again and gives them one by
one."""
_BELOW_ALL = -(1 << 62)


@dataclass(frozen=True, slots=True)
class VerifyTask:
    """One segment of a partition."""

    partition: PartitionPath
    segment: SegmentPaths
    max_batch_bytes: int

    @property
    def size(self) -> int:
        return self.segment.size

    @property
    def is_first(self) -> bool:
        return self.segment is self.partition.segments[0]


@dataclass(frozen=True, slots=True)
class VerifyTaskResult:
    """The result of verifying one path: what was found, and between which offsets."""

    findings: tuple[Finding, ...]
    is_all: bool
    """Whether these are all findings."""
    first_offset: int | None
    last_offset: int | None
    has_transactions: bool
    unreadable: UnreadableError | None = None
    """Why the path cannot be read at all; None if it can."""
    epochs: LeaderEpochCheck = field(default_factory=LeaderEpochCheck)
    """Where the leader epochs of its batches begin."""


_Read = tuple[VerifyTask, VerifyTaskResult]


@dataclass(frozen=True, slots=True)
class VerifyRestTask:
    """A partition with transactions, whose segments were read."""

    partition: PartitionPath

    @property
    def size(self) -> int:
        """About what reading only headers comes to."""
        return self.partition.size // 16


def verify(
    partitions: Sequence[PartitionPath],
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    running: RunOptions = HERE,
    *,
    turn: Turn | None = None,
) -> Generator[Finding | UnreadableError]:
    """Yield what :func:`verify_partition` finds in each partition, one after the other; where it would raise, the
    error.

    ``turn``: which segments are verified; what is said of a partition as a whole comes with its last one.
    """
    try:
        yield from _verify(partitions, max_batch_bytes, running, turn)
    finally:
        if turn is not None:
            turn.end()


def _verify(
    partitions: Sequence[PartitionPath],
    max_batch_bytes: int,
    running: RunOptions,
    turn: Turn | None,
) -> Generator[Finding | UnreadableError]:
    chosen = [
        [each for each in partition.segments if turn is None or _is_chosen(each, turn)] for partition in partitions
    ]
    tasks = [
        VerifyTask(each, segment, max_batch_bytes)
        for each, segments in zip(partitions, chosen, strict=True)
        for segment in segments
    ]
    late: list[tuple[PartitionPath, list[_Read], bool]] = []
    with started(running, tasks, "brokerless verify") as place:
        running = replace(running, spark=place)
        with closing(run(verify_segment_task, tasks, running)) as results:
            values = zip(tasks, in_order(results), strict=True)
            for partition, segments in zip(partitions, chosen, strict=True):
                own = list(islice(values, len(segments))) if late else []
                if not late:
                    yield from check_directory(partition)
                    own = yield from _findings(islice(values, len(segments)), turn)
                if turn is not None and partition.segments[-1:] != tuple(segments[-1:]):
                    if late:
                        late.append((partition, own, False))
                elif late or _has_transactions(partition, own):
                    late.append((partition, own, _has_transactions(partition, own)))
                else:
                    yield from verify_rest(partition, False)
                    yield from _check_epochs(partition, own)
        rests = [VerifyRestTask(partition) for partition, _, has_transactions in late if has_transactions]
        found = in_order(run(verify_rest_task, rests, replace(running, done=ignore)))
        for number, (partition, own, has_transactions) in enumerate(late):
            if number:
                yield from check_directory(partition)
                yield from _findings(own, turn)
            if has_transactions:
                yield from next(found)
            elif turn is None or all(_is_chosen(each, turn) for each in partition.segments[-1:]):
                yield from verify_rest(partition, False)
            yield from _check_epochs(partition, own)


def _is_chosen(segment: SegmentPaths, turn: Turn) -> bool:
    return path_of(segment.log.path) in turn.chosen


def verify_segment_task(task: VerifyTask, done: Done) -> VerifyTaskResult:
    """Reads a segment as if all before it were below it; the first one is read without that."""
    segment, epochs = task.segment, LeaderEpochCheck()
    seen = SegmentScan(segment.base_offset, None if task.is_first else _BELOW_ALL, watch=epochs.watch)
    kept: list[Finding] = []
    is_all = True
    try:
        for finding in verify_segment(task.partition, segment, seen, max_batch_bytes=task.max_batch_bytes, done=done):
            if len(kept) == MOST:
                is_all = False
            else:
                kept.append(finding)
    except UnreadableError as error:
        return VerifyTaskResult((), True, None, last_offset=None, has_transactions=False, unreadable=error)
    last = None if seen.first_offset is None else seen.last_offset
    return VerifyTaskResult(
        tuple(kept), is_all, seen.first_offset, last_offset=last, has_transactions=seen.has_transactions, epochs=epochs
    )


def checked_segment(task: VerifyTask, value: VerifyTaskResult, run_id: str, *, has_ranges: bool = True) -> Checked:
    """Return what a ledger has of a segment that was verified now."""
    return Checked(
        "segment",
        path_of(task.segment.log.path),
        version_of(task.segment),
        verified=clock.now(),
        runId=run_id,
        topic=task.partition.topic,
        partition=task.partition.partition,
        firstOffset=value.first_offset,
        lastOffset=value.last_offset,
        hasTransactions=value.has_transactions,
        findings=value.findings,
        has_ranges=has_ranges,
    )


def verify_rest_task(task: VerifyRestTask, done: Done) -> list[Finding]:
    """Findings of a partition's transaction markers and metadata files."""
    return list(verify_rest(task.partition, True))


def _check_epochs(partition: PartitionPath, read: Sequence[_Read]) -> list[Finding]:
    """The leader epochs of a partition of which all segments were read."""
    if len(read) != len(partition.segments) or any(value.unreadable is not None for _, value in read):
        return []
    epochs = LeaderEpochCheck()
    for _, value in read:
        epochs.add(value.epochs)
    last = max((value.last_offset for _, value in read if value.last_offset is not None), default=None)
    return verify_epochs(partition, epochs, last)


def _has_transactions(partition: PartitionPath, read: Iterable[_Read]) -> bool:
    return any(value.has_transactions for _, value in read) or any(
        segment.transaction_index is not None for segment in partition.segments
    )


def _findings(read: Iterable[_Read], turn: Turn | None) -> Generator[Finding | UnreadableError, None, list[_Read]]:
    """The findings of a partition's segments; returns what was taken."""
    last: int | None = None
    taken: list[_Read] = []
    for task, value in read:
        taken.append((task, replace(value, findings=())))
        if value.unreadable is not None:
            yield value.unreadable
        before = task.segment.base_offset - 1 if last is None else last
        is_above = task.is_first or value.first_offset is None or value.first_offset > before
        found = value.findings
        if value.is_all and is_above:
            yield from found
            last = last if value.last_offset is None else max(before, value.last_offset)
        else:
            seen = SegmentScan(task.segment.base_offset, last)
            yield from verify_segment(task.partition, task.segment, seen, task.max_batch_bytes)
            last = seen.last_offset
        if turn is not None and value.unreadable is None:
            has_ranges = all(each.severity == "info" for each in found)
            turn.add(checked_segment(task, value, turn.run_id, has_ranges=has_ranges))
    return taken
