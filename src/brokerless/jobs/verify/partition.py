"""Verifies one partition: its segments, also after a place where Kafka's reader stops, and the files beside them.

The first error is where Kafka's reader first throws, or ends although intact batches follow; what it takes no notice
of at the end (a cut-off one, for instance) is a warning at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from brokerless.clusters.epoch_checks import LeaderEpochCheck, check_epochs
from brokerless.findings import Finding, Kind
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.jobs.segment_checks import (
    SegmentScan,
    check_indexes,
    check_metadata_files,
    check_transaction_index,
    graded_by_place,
    verify_file,
)
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import is_gone, open_segments
from brokerless.log.offset_gaps import check_listing, missing_head, missing_segment
from brokerless.log.partition import transactions_of
from brokerless.log.ranges import Range
from brokerless.log.recovery.misleading_indexes import check_transaction_indexes, orphaned_aborts
from brokerless.log.seek import log_start_after_end
from brokerless.progress import Done, ignore


def verify_partition(partition: PartitionPath, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> Iterator[Finding]:
    """Yield what is wrong or unexpected in a partition's directory: its names, then each segment's log and indexes, in
    order, then the metadata files beside them.

    A log that cannot be opened is a finding, unless it is the very path that was passed: then it raises
    :class:`UnreadableError`.
    """
    yield from check_directory(partition)
    seen, epochs = SegmentScan(0), LeaderEpochCheck()
    has_transactions = False
    for segment in partition.segments:
        seen = SegmentScan(segment.base_offset, seen.last_offset, watch=epochs.watch)
        yield from verify_segment(partition, segment, seen, max_batch_bytes)
        has_transactions = has_transactions or seen.has_transactions
    yield from verify_rest(partition, has_transactions)
    yield from verify_epochs(partition, epochs, seen.last_offset)


def check_directory(partition: PartitionPath) -> Iterator[Finding]:
    """Findings by the names in a partition's directory, and whether it has its first segments and its log start
    offset."""
    yield from (finding for _, finding in check_listing(partition))
    for finding in (missing_head(partition), log_start_after_end(partition)):
        if finding is not None:
            yield finding


def verify_segment(
    partition: PartitionPath,
    segment: SegmentPaths,
    seen: SegmentScan,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    done: Done = ignore,
) -> Iterator[Finding]:
    """Yield what is wrong or unexpected in one segment, and its indexes. ``seen``: up to which offset the log went
    before, and then what was in this one. ``done`` is called with the bytes that were read. Raises as
    :func:`verify_partition`."""
    unreadable: list[Finding] = []
    alone = replace(partition, findings=())
    after = next((each.base_offset for each in partition.segments if each.base_offset > segment.base_offset), None)
    for each in open_segments(alone, unreadable.append, Range(segment.base_offset, after)):
        found = verify_file(each.file, seen, max_batch_bytes, done=done, start=each.start)
        yield from graded_by_place(found, partition, is_last=each.is_last)
        if not each.start:
            yield from check_indexes(each, seen)
        if (missing := missing_segment(each)) is not None:
            yield missing
    yield from () if unreadable and is_gone(partition) else unreadable


def verify_rest(partition: PartitionPath, has_transactions: bool) -> Iterator[Finding]:
    """Yield what is to be said of a partition when all its segments were read; nothing of one that was deleted
    meanwhile."""
    found = list(_verify_rest(partition, has_transactions))
    yield from () if found and is_gone(partition) else found


def verify_epochs(partition: PartitionPath, epochs: LeaderEpochCheck, last_offset: int | None) -> list[Finding]:
    """Return what of a partition's ``leader-epoch-checkpoint`` contradicts its batches, when all segments were read;
    nothing of one that was deleted meanwhile."""
    last = partition.segments[-1].base_offset if partition.segments else 0
    end = max(last, -1 if last_offset is None else last_offset + 1)
    found = list(check_epochs(partition, epochs, end, is_partition=False))
    return [] if found and is_gone(partition) else found


def _verify_rest(partition: PartitionPath, has_transactions: bool) -> Iterator[Finding]:
    if has_transactions or any(segment.transaction_index is not None for segment in partition.segments):
        yield from _check_transaction_indexes(partition)  # reads the markers in a pass of its own
    yield from check_metadata_files(partition)


def _check_transaction_indexes(partition: PartitionPath) -> Iterator[Finding]:
    """Every aborted transaction is in the index of the segment that has its marker."""
    findings: list[Finding] = []
    transactions = transactions_of(partition, findings.append)
    if any(each.kind == Kind.FILE_SHRUNK for each in findings):
        return  # a log that is being cut ends no transaction
    yield from (each for each in findings if each.kind == Kind.ABORT_MARKER_MISSING)
    yield from orphaned_aborts(partition)
    check = partial(check_transaction_index, is_partition=partition.topic is not None)
    yield from (finding for _, finding in check_transaction_indexes(partition, transactions, check))
