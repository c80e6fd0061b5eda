"""Checks one segment: every batch's checksum and structure, the order of offsets, and the indexes.

The first error is where Kafka's reader first throws, or ends although intact batches follow; what it does not notice at
the end (a truncated one, for instance) is a warning at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerless.clusters.epoch_checks import check_leader_epochs
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.read.decoder import Decoder
from brokerless.format.read.one_pass import OnePass
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.checkpoint.quorum_state import load_quorum_state
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.index.checks import (
    SegmentBatches,
    check_offset_index,
    check_time_index,
    has_unmarked,
    keeping_indexes,
)
from brokerless.log.index.header_times import HeaderTimes
from brokerless.log.index.readers import load_offset_index, load_time_index, load_transaction_index
from brokerless.log.live_segments import PAUSE_S, TRIES, OpenSegment, has_changed, is_unchanged, segment_now
from brokerless.log.offsets_once.findings import not_above, report_past_last
from brokerless.log.offsets_once.in_file import FileOverlaps
from brokerless.log.producer.snapshot import load_producer_snapshot
from brokerless.log.recovery.misleading_indexes import Aborted, check_segment
from brokerless.log.segment import (
    Chunk,
    all_decoded,
    check_checksums,
    damage_finding,
    graded_within_log,
    scan_in_one_pass,
)
from brokerless.log.segment_end import is_zero
from brokerless.log.storage.directory_lock import was_clean_shutdown
from brokerless.log.storage.files import File
from brokerless.log.storage.paths import is_remote
from brokerless.progress import Done, ignore

Watch = Callable[[Chunk, str], Iterable[Finding]]
"""Is shown each chunk with those batches whose checksums are right, and its file's path; says what it makes of them."""


def verify_file(
    file: File,
    seen: SegmentScan | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    done: Done = ignore,
    start: int = 0,
) -> Iterator[Finding]:
    """Yield the findings of one log file from ``start`` (bytes) on, where a batch begins, by position. ``done`` is
    called with the bytes that were read."""
    findings: list[Finding] = []
    decoder = Decoder(keys=False, values=False, headers=False, max_batch_bytes=max_batch_bytes)
    overlaps, times = FileOverlaps(file), HeaderTimes(file.path)
    one_pass = OnePass(decoder) if seen is None or not seen.needs_bytes else None
    for chunk in scan_in_one_pass(file, findings.append, one_pass, start):
        yield from findings
        findings.clear()
        yield from _verify_chunk(chunk, decoder, overlaps, times=times, seen=seen)
        done(int(chunk.batches.ends[-1]))
    kinds = {each.kind for each in findings}
    yield from findings
    yield from times.findings()
    if seen is not None:
        seen.is_complete = seen.is_complete and Kind.FILE_SHRUNK not in kinds
        seen.ends_in_zeros = Kind.ZERO_TAIL in kinds


def graded_by_place(
    findings: Iterable[Finding], partition: PartitionPath, *, is_last: bool, was_clean: bool | None = None
) -> Iterator[Finding]:
    """Yield findings of a segment by where it is in its log: at the end of one that is not the last, offsets are lost,
    and zeros at the end of a log that a broker recovers at its next start are no damage.

    Those are space that was preallocated (``log.preallocate``), and recovery cuts them off. After a clean stop, which
    trims the file, a broker does not start on such zeros: ``readNextOffset`` of ``LogSegment`` throws
    CorruptRecordException (4.4.0). ``was_clean``: whether the log directory has the mark of a clean stop; by default
    it is looked for where zeros are. Of a file by itself, nothing is known."""
    for finding in findings:
        if finding.kind == Kind.ZERO_TAIL and is_last and partition.state == "live" and partition.topic is not None:
            if was_clean is None:
                was_clean = was_clean_shutdown(partition.location)
            if not was_clean:
                text = "nothing but zeros from here on: space that a broker preallocated, which its recovery cuts off"
                yield replace(finding, severity="info", message=text)
                continue
        yield finding if is_last else graded_within_log(finding)


def _verify_chunk(
    chunk: Chunk, decoder: Decoder, overlaps: FileOverlaps, times: HeaderTimes, seen: SegmentScan | None
) -> list[Finding]:
    path, findings = times.path, list[Finding]()
    valid = check_checksums(chunk, path, findings.append)
    intact = chunk.batches.take(valid)
    overlaps.follow(intact, chunk.base)
    times.follow(intact, chunk.base)
    report_past_last(chunk.take(valid), path, findings.append)
    for row in np.flatnonzero(intact.magic > layouts.MAGIC_V2).tolist():
        text = "a batch of a format that no Kafka has: its file reader takes it for v2, but a consumer throws there"
        findings.append(
            Kind.MAGIC_UNKNOWN.at(
                path,
                text,
                position=chunk.base + int(intact.positions[row]),
                offset=int(intact.entry_offset[row]),
                expected="at most 2",
                found=str(int(intact.magic[row])),
            )
        )
    for decoded in all_decoded(decoder, chunk, intact, findings.append):
        findings.extend(damage_finding(path, damage) for damage in decoded.damages)
        findings.extend(overlaps.rows(decoded)[1])
        times.compare(decoded)
    if seen is not None:
        known = {each.position for each in findings if each.kind == Kind.OFFSET_OVERLAP}
        findings.extend(each for each in seen.add(chunk, valid, path) if each.position not in known)
    return sorted(findings, key=lambda each: each.position or 0)


def check_indexes(opened: OpenSegment, seen: SegmentScan) -> list[Finding]:
    """A segment's offset and time index against its log, of which ``seen`` has seen all."""
    listed, is_last = opened.segment, opened.is_last

    def judge(segment: SegmentPaths) -> list[Finding]:
        if is_last and has_changed(segment.log, listed.log):
            return []  # it grows, and its indexes with it
        if segment.log != listed.log:
            with suppress(UnreadableError), segment.log.location.open() as file:
                again = SegmentScan(segment.base_offset)
                for _ in verify_file(file, again):
                    pass  # these findings are of another log than the one that was read
                return keep(segment, again, _compare_indexes(segment, again, file, is_last))
        return keep(segment, seen, _compare_indexes(segment, seen, opened.file, is_last))

    def keep(segment: SegmentPaths, seen: SegmentScan, findings: Iterable[Finding]) -> list[Finding]:
        found = list(findings)
        return keeping_indexes(found) if found and are_indexes_needed(segment, seen.last_offsets) else found

    return persisting(listed, judge)


def are_indexes_needed(segment: SegmentPaths, last_offsets: NDArray[np.int64]) -> bool:
    """Return whether the transaction index of a segment has what its log does not say any more, so that its indexes are
    not to be rebuilt. ``last_offsets``: of the segment's intact batches."""
    entry = segment.transaction_index
    if entry is None or not entry.size:
        return False
    return has_unmarked(load_transaction_index(entry.location, segment.base_offset), last_offsets)


def check_transaction_index(listed: SegmentPaths, aborted: Sequence[Aborted], is_partition: bool) -> list[Finding]:
    """A segment's transaction index against the aborted transactions that end in its log. A lone file has no index to
    miss."""

    def judge(segment: SegmentPaths) -> list[Finding]:
        if has_changed(segment.log, listed.log):
            return []  # other transactions may end in it
        if segment.transaction_index is None and not is_partition:
            return []
        return check_segment(segment, aborted)

    return persisting(listed, judge)


def persisting(segment: SegmentPaths, judge: Callable[[SegmentPaths], Iterable[Finding]]) -> list[Finding]:
    """Return what ``judge`` finds of the files beside a segment's log, and still finds when no broker is replacing
    them.

    A broker renames a segment's files one by one, so that they may belong to different logs, or be missing, for a
    moment. Where one of them is not what it was, or others lie beside it that a broker renames, the segment is judged
    again, as it is now. What is found in files that do not change is always reported, and so is what is found again
    and again: some file systems make up what tells files apart.
    """
    found = list(judge(segment))
    if found and is_remote(segment.log.path):
        return found if is_unchanged(segment) else []
    before, tries = (segment, ()), 0
    while found and tries < TRIES:
        if tries:
            time.sleep(PAUSE_S)
        now = segment_now(segment)
        if now == before:
            break
        again = [] if now[0] is None else list(judge(now[0]))
        if tries and again == found:
            break
        found, before, tries = again, now, tries + 1
    return found


def _compare_indexes(segment: SegmentPaths, seen: SegmentScan, file: File, is_last: bool) -> Iterator[Finding]:
    batches = seen.batches(file)
    if segment.offset_index is not None:
        offset_index = load_offset_index(segment.offset_index.location, segment.base_offset)
        yield from offset_index.findings
        if seen.is_complete:
            yield from check_offset_index(offset_index, batches, is_last)
    if segment.time_index is not None:
        time_index = load_time_index(segment.time_index.location, segment.base_offset)
        yield from time_index.findings
        if seen.is_complete:
            yield from check_time_index(time_index, batches, is_last)


def check_metadata_files(partition: PartitionPath) -> Iterator[Finding]:
    """Leader epoch checkpoint, ``partition.metadata``, ``quorum-state`` and producer snapshots, each by itself."""
    yield from check_leader_epochs(partition)
    if partition.partition_metadata is not None:
        yield from load_partition_metadata(partition.partition_metadata.location).findings
    if partition.quorum_state is not None:
        yield from load_quorum_state(partition.quorum_state.location).findings
    for snapshot in partition.producer_snapshots:
        findings = load_producer_snapshot(snapshot.location).findings
        if findings and not snapshot.size:  # a broker may be writing it
            time.sleep(PAUSE_S)
            findings = load_producer_snapshot(snapshot.location).findings
        if findings and snapshot.location.exists():  # a broker may have removed it
            yield from findings


@dataclass
class SegmentScan:
    """The batches of a segment, as far as Kafka's reader comes: for the order of offsets, and for the indexes."""

    base_offset: int
    last_offset: int | None = None
    """The highest of the log up to here."""
    first_offset: int | None = None
    """The lowest at which one of the segment's batches begins."""
    is_complete: bool = True
    """Whether no batch was passed over unread."""
    has_transactions: bool = False
    """Whether a batch, intact or not, says that it is of a transaction."""
    ends_in_zeros: bool = False
    """Whether nothing but zeros follows the last batch, as in a preallocated file."""
    watch: Watch | None = None
    needs_bytes: bool = False
    """Whether ``watch`` looks at the bytes of batches: chunks have them then."""
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
        intact = chunk.batches
        if not len(intact):
            return
        if self.watch is not None:
            yield from self.watch(chunk, path)
        firsts, lasts = intact.entry_offset, intact.end_of_records
        highest = self.base_offset - 1 if self.last_offset is None else max(self.base_offset - 1, self.last_offset)
        before = np.maximum.accumulate(np.concatenate([[highest], lasts[:-1]]))
        for row in np.flatnonzero(firsts <= before).tolist():
            is_below = firsts[row] < self.base_offset
            text = "a batch begins below the offset that its file is named after" if is_below else None
            yield not_above(
                path, int(intact.positions[row]) + base, int(firsts[row]), highest=int(before[row]), text=text
            )
        self.last_offset = int(max(before[-1], lasts[-1]))
        lowest = int(firsts.min())
        self.first_offset = lowest if self.first_offset is None else min(self.first_offset, lowest)

    @property
    def last_offsets(self) -> NDArray[np.int64]:
        """Those of the intact batches."""
        found = [lasts[valid] for _, lasts, _, _, valid in self._chunks]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def batches(self, file: File) -> SegmentBatches:
        nothing = (*([np.empty(0, np.int64)] * 3), *([np.empty(0, np.bool_)] * 2))
        positions, last_offsets, max_timestamps, is_legacy, valid = map(
            np.concatenate, zip(*(self._chunks or [nothing]), strict=True)
        )
        size = self._end if self.ends_in_zeros or is_zero(file, self._end) else file.size
        return SegmentBatches(
            positions, last_offsets, max_timestamps, is_legacy=is_legacy, valid=valid, end=self._end, size=size
        )
