"""Verify: the checksum and structure of every batch, also of those behind a place where Kafka's reader stops.

The first error is where Kafka's reader first throws; what it takes no notice of (a cut-off end, for instance) is a
warning at most, and so is what is wrong in batches that it would never come to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import Finding
from brokerless.format.codecs.inflate import DEFAULT_LIMIT
from brokerless.format.read.decoder import Decoder
from brokerless.format.read.resync import search
from brokerless.log.checkpoint.readers import load_leader_epochs, load_partition_metadata, load_producer_snapshot
from brokerless.log.directory import PartitionPath, SegmentPaths, check_names
from brokerless.log.index.checks import SegmentBatches, check_offset_index, check_time_index, check_transaction_index
from brokerless.log.index.readers import load_offset_index, load_time_index, load_transaction_index
from brokerless.log.live_segments import OpenSegment, is_unchanged, open_segments
from brokerless.log.offset_checks import not_above
from brokerless.log.offset_gaps import missing_head, missing_segment
from brokerless.log.partition import damage_finding, transactions_of
from brokerless.log.ranges import Range
from brokerless.log.seek import log_start_after_end
from brokerless.log.segment import LARGEST_WINDOW, SHRUNK, Chunk, check_checksums, is_zero, scan
from brokerless.log.storage.paths import File, StorageOptions, exists
from brokerless.log.transactions import Transaction

Watch = Callable[[Chunk, str], Iterable[Finding]]
"""Is shown each chunk with those batches whose checksums are right, and its file's path; says what it makes of them."""


def verify_partition(
    partition: PartitionPath, storage_options: StorageOptions | None = None, limit: int = DEFAULT_LIMIT
) -> Iterator[Finding]:
    """What is wrong or odd in a partition's directory: its names, then each segment's log and indexes, in order, then
    what Kafka notes beside them.

    A log that cannot be opened is a finding, unless it is the very path that was asked for: then it raises
    :class:`UnreadableError`.
    """
    yield from check_directory(partition, storage_options)
    seen = SegmentScan(0)
    has_transactions = False
    for segment in partition.segments:
        seen = SegmentScan(segment.base_offset, seen.last_offset)
        yield from verify_segment(partition, segment, seen, limit, storage_options)
        has_transactions = has_transactions or seen.has_transactions
    yield from verify_rest(partition, has_transactions, storage_options)


def check_directory(partition: PartitionPath, storage_options: StorageOptions | None = None) -> Iterator[Finding]:
    """What names tell of a partition's directory, and whether it has its first segments and its log start offset."""
    yield from check_names(partition)
    for finding in (missing_head(partition, storage_options), log_start_after_end(partition, storage_options)):
        if finding is not None:
            yield finding


def verify_segment(
    partition: PartitionPath,
    segment: SegmentPaths,
    seen: SegmentScan,
    limit: int = DEFAULT_LIMIT,
    storage_options: StorageOptions | None = None,
    done: Callable[[int], object] = lambda _: None,
) -> Iterator[Finding]:
    """What is wrong or odd in one segment, and its indexes. ``seen``: up to which offset the log went before, and then
    what was in this one. ``done`` is called with the bytes that were read. Raises as :func:`verify_partition`."""
    unreadable: list[Finding] = []
    alone = replace(partition, findings=())
    after = next((each.base_offset for each in partition.segments if each.base_offset > segment.base_offset), None)
    for each in open_segments(alone, unreadable.append, Range(segment.base_offset, after), storage_options):
        yield from verify_file(each.file, seen, limit, done, each.start)
        if not each.start:
            yield from check_indexes(each, seen, storage_options)
        if (missing := missing_segment(each.partition, each.segment, each.file, storage_options)) is not None:
            yield missing
    yield from unreadable


def verify_rest(
    partition: PartitionPath, has_transactions: bool, storage_options: StorageOptions | None = None
) -> Iterator[Finding]:
    """What is to be said of a partition when all its segments were read."""
    if has_transactions or any(segment.transaction_index is not None for segment in partition.segments):
        yield from _check_transaction_indexes(partition, storage_options)  # reads the markers in a pass of its own
    yield from check_metadata_files(partition, storage_options)


def verify_file(
    file: File,
    seen: SegmentScan | None = None,
    limit: int = DEFAULT_LIMIT,
    done: Callable[[int], object] = lambda _: None,
    start: int = 0,
) -> Iterator[Finding]:
    """The findings of one log file from ``start`` (bytes) on, where a batch begins, by position. ``done`` is called
    with the bytes that were read."""
    is_reached = True
    while True:
        findings: list[Finding] = []
        end = start
        decoder = Decoder(keys=False, values=False, headers=False, limit=limit)
        for chunk in scan(file, findings.append, start):
            ends = findings[:]
            findings.clear()
            yield from _soften(is_reached, _verify_chunk(chunk, file.path, decoder, seen if is_reached else None))
            findings.extend(ends)
            end = chunk.base + int(chunk.batches.ends[-1])
            done(end - chunk.base)
        yield from _soften(is_reached, findings)
        kinds = {each.kind for each in findings}
        if SHRUNK in kinds:
            if seen is not None:
                seen.is_complete = False
            return
        is_reached = is_reached and all(each.severity == "error" and each.kind != "no-batches" for each in findings)
        if "zero-tail" in kinds and seen is not None and is_reached:
            seen.ends_in_zeros = True
        if "zero-tail" in kinds or end >= file.size:
            return
        found = find_next_batch(file, end + 1)
        if found is None:
            return
        text = f"{found - end} bytes before this were skipped; batches go on here"
        yield Finding("info", "batches-resume", file.path, found, None, text)
        start = found


def find_next_batch(file: File, position: int) -> int | None:
    """The position (bytes) of the next true batch at or after ``position``, found by structure and checksum."""
    return search(file.read, file.size, position, file.size, LARGEST_WINDOW, file.next_data)


def _verify_chunk(chunk: Chunk, path: str, decoder: Decoder, seen: SegmentScan | None) -> list[Finding]:
    findings: list[Finding] = []
    valid = check_checksums(chunk, path, findings.append)
    sound = chunk.batches.take(valid)
    for decoded in decoder.decode(chunk.buffer, sound, chunk.base):
        findings.extend(damage_finding(path, damage) for damage in decoded.damages)
    rest = decoder.flush()
    if rest is not None:
        findings.extend(damage_finding(path, damage) for damage in rest.damages)
    if seen is not None:
        findings.extend(seen.add(chunk, valid, path))
    return sorted(findings, key=lambda each: each.position or 0)


def _soften(is_reached: bool, findings: list[Finding]) -> Iterator[Finding]:
    """Behind a place where Kafka's reader silently ends, nothing is an error: it would never come there."""
    for finding in findings:
        yield finding if is_reached or finding.severity != "error" else replace(finding, severity="warning")


def check_indexes(opened: OpenSegment, seen: SegmentScan, storage_options: StorageOptions | None) -> Iterator[Finding]:
    """A segment's offset and time index against its log, of which ``seen`` has seen all."""
    segment, file = opened.segment, opened.file
    yield from of_unchanged(
        segment, _compare_indexes(segment, seen, file, opened.is_last, storage_options), storage_options
    )


def of_unchanged(
    segment: SegmentPaths, findings: Iterable[Finding], storage_options: StorageOptions | None
) -> list[Finding]:
    """Findings of a segment's indexes; none where a broker has changed or replaced its log since it was listed, as the
    indexes are then not those of what was read."""
    found = list(findings)
    return found if not found or is_unchanged(segment, storage_options) else []


def _compare_indexes(
    segment: SegmentPaths, seen: SegmentScan, file: File, is_last: bool, storage_options: StorageOptions | None
) -> Iterator[Finding]:
    batches = seen.batches(file)
    if segment.offset_index is not None:
        offset_index = load_offset_index(segment.offset_index.path, segment.base_offset, storage_options)
        yield from offset_index.findings
        if seen.is_complete:
            yield from check_offset_index(offset_index, batches, is_last)
    if segment.time_index is not None:
        time_index = load_time_index(segment.time_index.path, segment.base_offset, storage_options)
        yield from time_index.findings
        if seen.is_complete:
            yield from check_time_index(time_index, batches, is_last)


def _check_transaction_indexes(partition: PartitionPath, storage_options: StorageOptions | None) -> Iterator[Finding]:
    """Every aborted transaction is in the index of the segment that has its marker."""
    odd: list[Finding] = []
    transactions = transactions_of(partition, storage_options, odd.append)
    is_whole = all(each.kind != SHRUNK for each in odd)
    aborted = [each for each in transactions.ended if each.state == "aborted"]
    for segment, following in zip_longest(partition.segments, partition.segments[1:]):
        end = 1 << 63 if following is None else following.base_offset
        own = [each for each in aborted if segment.base_offset <= each.last_offset < end]
        if (partition.topic is None and segment.transaction_index is None) or not is_whole:
            continue  # a lone file has no companions to miss, and a log that is being cut ends no transaction
        yield from of_unchanged(segment, _compare_transaction_index(segment, own, storage_options), storage_options)


def _compare_transaction_index(
    segment: SegmentPaths, aborted: list[Transaction], storage_options: StorageOptions | None
) -> Iterator[Finding]:
    index = None
    path = segment.log.path.removesuffix(".log") + ".txnindex"
    if segment.transaction_index is not None:
        path = segment.transaction_index.path
        index = load_transaction_index(path, segment.base_offset, storage_options)
        yield from index.findings
    yield from check_transaction_index(
        index,
        path,
        np.array([each.producer_id for each in aborted], np.int64),
        np.array([-1 if each.first_offset is None else each.first_offset for each in aborted], np.int64),
        np.array([each.last_offset for each in aborted], np.int64),
    )


def check_metadata_files(partition: PartitionPath, storage_options: StorageOptions | None) -> Iterator[Finding]:
    """Leader epoch checkpoint, ``partition.metadata`` and producer snapshots, each by itself."""
    if partition.leader_epoch_checkpoint is not None:
        yield from load_leader_epochs(partition.leader_epoch_checkpoint.path, storage_options).findings
    if partition.partition_metadata is not None:
        yield from load_partition_metadata(partition.partition_metadata.path, storage_options).findings
    for snapshot in partition.producer_snapshots:
        findings = load_producer_snapshot(snapshot.path, storage_options).findings
        if findings and exists(snapshot.path, storage_options):  # a broker may have removed it
            yield from findings


@dataclass
class SegmentScan:
    """What a segment's batches were, as far as Kafka's reader comes: for the order of offsets, and for the indexes."""

    base_offset: int
    last_offset: int | None = None
    """The highest of the log up to here."""
    first_offset: int | None = None
    """The lowest at which one of the segment's batches begins."""
    is_complete: bool = True
    """Whether no batch was passed over unread."""
    has_transactions: bool = False
    """Whether a batch, sound or not, says that it is of a transaction."""
    ends_in_zeros: bool = False
    """Whether nothing but zeros follows the last batch, as in a preallocated file."""
    watch: Watch | None = None
    _chunks: list[tuple[NDArray[Any], ...]] = field(default_factory=list[tuple[NDArray[Any], ...]])
    _end: int = 0

    def add(self, chunk: Chunk, valid: NDArray[np.bool_], path: str) -> Iterator[Finding]:
        """Adds a chunk's batches; a finding for each whose offset is not above all before it."""
        batches, base, positions = chunk.batches, chunk.base, chunk.positions
        self.has_transactions = self.has_transactions or bool(batches.is_transactional.any())
        self.is_complete = self.is_complete and int(positions[0]) == self._end
        self._end = base + int(batches.ends[-1])
        self._chunks.append((positions, batches.last_offset, batches.max_timestamp, batches.is_legacy, valid))
        chunk = chunk.take(valid)
        sound = chunk.batches
        if not len(sound):
            return
        if self.watch is not None:
            yield from self.watch(chunk, path)
        firsts, lasts = sound.entry_offset, sound.last_offset
        highest = self.base_offset - 1 if self.last_offset is None else max(self.base_offset - 1, self.last_offset)
        before = np.maximum.accumulate(np.concatenate([[highest], lasts[:-1]]))
        for row in np.flatnonzero(firsts <= before).tolist():
            is_below = firsts[row] < self.base_offset
            text = "a batch begins below the offset that its file is named after" if is_below else None
            yield not_above(path, int(sound.positions[row]) + base, int(firsts[row]), int(before[row]), text)
        self.last_offset = int(max(before[-1], lasts[-1]))
        lowest = int(firsts.min())
        self.first_offset = lowest if self.first_offset is None else min(self.first_offset, lowest)

    def batches(self, file: File) -> SegmentBatches:
        nothing = (*([np.empty(0, np.int64)] * 3), *([np.empty(0, np.bool_)] * 2))
        positions, last_offsets, max_timestamps, is_legacy, valid = map(
            np.concatenate, zip(*(self._chunks or [nothing]), strict=True)
        )
        size = self._end if self.ends_in_zeros or is_zero(file, self._end) else file.size
        return SegmentBatches(positions, last_offsets, max_timestamps, is_legacy, valid, self._end, size)
