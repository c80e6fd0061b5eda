"""Recovers one segment: finds where its valid batches end, and rebuilds its indexes.

Nothing is written here: the result says how many bytes stay and what the indexes are to hold.

Source: ``LogSegment.recover`` (4.1.1). It checks sizes, checksums, offsets and transaction markers, not into records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from brokerless.bounds import MAX_INT32
from brokerless.errors import UnreadableError, refused_log
from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches
from brokerless.log.checkpoint.leader_epochs import Epochs, recover_batches
from brokerless.log.config import LogConfig
from brokerless.log.offsets_once.records import first_offsets
from brokerless.log.producer.state import CompletedTransaction, ProducerState, aborted_entry
from brokerless.log.segment import Chunk, check_checksums, scan, scan_headers
from brokerless.log.storage.files import File
from brokerless.log.write.active_segment import SegmentFollower, SegmentState, no_limits
from brokerless.progress import ignore


@dataclass(frozen=True, slots=True)
class SegmentRecovery:
    """A segment after recovery."""

    size: int
    """Bytes of the log before recovery."""
    state: SegmentState
    """The recovered segment; ``state.size`` bytes of its log stay. Of a segment that is split, the state of all its
    parts together, without indexes."""
    next_offset: int
    """The offset after the last batch that stays."""
    offset_index: bytes = b""
    time_index: bytes = b""
    transaction_index: bytes = b""
    stop: Finding | None = None
    """Why the rest of the log is cut, None if all stays."""
    parts: tuple[int, ...] = ()
    """Base offsets of the segments that a broker splits it into, as its offsets are too far apart for one (KAFKA-6264);
    none if it does not."""

    @property
    def is_dropped(self) -> bool:
        """Whether nothing at all stays, because the order of its offsets is wrong."""
        return self.stop is not None and self.stop.kind == Kind.OFFSET_NOT_INCREASING

    @property
    def is_cut(self) -> bool:
        return self.state.size < self.size


class OffsetOverflowError(UnreadableError):
    """An offset is too far after its segment's base offset: a broker splits the segment, and recovers what comes of
    it."""

    base_offset = 0
    """The base offset of the segment."""


def recover_segment(
    file: File, base_offset: int, config: LogConfig, producers: ProducerState, epochs: Epochs
) -> tuple[SegmentRecovery, Epochs]:
    """Follows a segment's batches to its end or to the first incomplete one; returns the log's leader epochs as they
    are then. ``producers`` is the state at the base offset, and is updated.

    Raises :class:`UnreadableError` for what keeps Kafka from loading a log: an offset too far from the base offset, and
    data that its producer wrote outside of its open transaction.
    """
    placement = SegmentFollower(SegmentState(base_offset), no_limits(config))
    offset_index, time_index, aborted = bytearray(), bytearray(), bytearray()
    stops: list[Finding] = []
    next_offset = base_offset
    for chunk in scan(file, stops.append, chain_only=True):
        batches = _valid_part(chunk, base_offset, file.path, stops).batches
        batches, completed = _followed(chunk, batches, file.path, producers=producers, stops=stops)
        aborted += b"".join(aborted_entry(each) for each in completed if each.is_aborted)
        if len(batches):
            placed = placement.place(batches)
            offset_index += placed.offset_index
            time_index += placed.time_index
            epochs = recover_batches(epochs, batches)
            next_offset = int(batches.last_offset[-1]) + 1
        if len(batches) < len(chunk.batches):
            break
    # OffsetIndex.append and TimeIndex.maybeAppend throw InvalidOffsetException, at which LogLoader.recoverLog empties
    # the segment.
    if _is_out_of_order(offset_index, layouts.OFFSET_INDEX_ENTRY, 1) or _is_out_of_order(
        time_index, layouts.TIME_INDEX_ENTRY, 0
    ):
        text = "offsets do not grow from one index entry to the next: recovery drops the whole segment"
        stop = Kind.OFFSET_NOT_INCREASING.at(file.path, text, position=0, offset=base_offset)
        return SegmentRecovery(file.size, SegmentState(base_offset), base_offset, stop=stop), epochs
    time_index += placement.finish()
    # Kafka counts again from here to the next index entry.
    state = replace(placement.state, since_entry=0)
    stop = stops[0] if stops and state.size < file.size else None
    return SegmentRecovery(
        file.size,
        state,
        next_offset,
        offset_index=bytes(offset_index),
        time_index=bytes(time_index),
        transaction_index=bytes(aborted),
        stop=stop,
    ), epochs


def recover_split_segment(
    file: File, base_offset: int, producers: ProducerState, epochs: Epochs
) -> tuple[SegmentRecovery, Epochs]:
    """Recover a segment that a broker splits, into segments that begin where an offset is too far after the last one's
    base offset (``UnifiedLog.splitOverflowedSegment``, ``LogSegment.appendFromFile``, 4.4.0)."""
    stops: list[Finding] = []
    state, next_offset, parts = SegmentState(base_offset), base_offset, list[tuple[int, int]]()
    for chunk in scan(file, stops.append, chain_only=True):
        intact = _valid_part(chunk, None, file.path, stops)
        batches, _ = _followed(chunk, intact.batches, file.path, producers=producers, stops=stops)
        follow_parts(parts, intact)
        if len(batches):
            epochs = recover_batches(epochs, batches)
            next_offset = int(batches.last_offset[-1]) + 1
            largest = max(state.max_timestamp, int(batches.max_timestamp.max()))
            state = replace(state, size=chunk.base + int(batches.ends[-1]), max_timestamp=largest)
        if len(batches) < len(chunk.batches):
            break
    stop = stops[0] if stops and state.size < file.size else None
    bases = tuple(base for base, _ in parts)
    return SegmentRecovery(file.size, state, next_offset, stop=stop, parts=bases), epochs


def check_split(file: File, base_offset: int) -> None:
    """Raises :class:`UnreadableError` where a broker ends when it is to split a segment: it takes nothing for too far
    apart but a last batch that is, and there has to be a batch up to the last byte
    (``UnifiedLog.splitOverflowedSegment``, ``LogSegment.hasOverflow``, 4.4.0)."""
    end, last = 0, -1
    for chunk in scan_headers(file, ignore, chain_only=True):
        end, last = chunk.base + int(chunk.batches.ends[-1]), int(chunk.batches.last_offset[-1])
    if end < file.size:
        raise refused_log(file.path, f"position {end}: a segment that has to be split ends here")
    if last - base_offset <= MAX_INT32:
        text = (
            "an offset is too far from the segment's base offset for its indexes, and its last batch is not: a broker "
            "splits no such segment"
        )
        raise refused_log(file.path, text)


def follow_parts(parts: list[tuple[int, int]], chunk: Chunk) -> None:
    """Add the base offsets and positions (bytes) of the segments that begin in a chunk, if its log is split."""
    firsts, lasts, row = first_offsets(chunk), chunk.batches.last_offset, 0
    while row < len(lasts):
        if not parts or not 0 <= int(lasts[row]) - parts[-1][0] <= MAX_INT32:
            parts.append((int(firsts[row]), int(chunk.positions[row])))
        is_far = (lasts[row:] < parts[-1][0]) | (lasts[row:] > parts[-1][0] + MAX_INT32)
        row += int(np.argmax(is_far)) if is_far.any() else len(is_far)


def _followed(
    chunk: Chunk, batches: Batches, path: str, producers: ProducerState, stops: list[Finding]
) -> tuple[Batches, list[CompletedTransaction]]:
    """The batches up to the first that their producers' state does not allow, and the transactions that they end."""
    update = producers.update(batches, chunk.buffer)
    if update.refused is not None:
        row = update.refused.row
        position = chunk.base + int(batches.positions[row])
        finding = Kind.RECOVERY_STOPS.at(path, update.refused.message, position=position, offset=update.refused.offset)
        # LogSegment.recover takes these two for the end of the log; any other ends the start.
        if update.refused.exception not in ("InvalidRecordException", "CorruptRecordException"):
            raise refused_log("", str(finding))
        # Kafka has counted the batch by then: it stays, and what follows goes.
        batches = batches.take(slice(0, row + 1))
        stops.append(finding)
    return batches, update.completed


def _valid_part(chunk: Chunk, base_offset: int | None, path: str, stops: list[Finding]) -> Chunk:
    """The batches of a chunk up to the first whose checksum is wrong. ``base_offset``: from which all may have a
    relative offset of four bytes."""
    found: list[Finding] = []
    valid = check_checksums(chunk, path, found.append)
    count = len(valid) if valid.all() else int(np.argmin(valid))
    stops += found[:1]
    intact = Chunk(chunk.buffer, chunk.base, chunk.batches.take(slice(0, count)))
    if base_offset is None:
        return intact
    relative = intact.batches.last_offset - base_offset
    far = np.flatnonzero((relative < 0) | (relative > MAX_INT32))
    if len(far):
        row = int(far[0])
        offset = int(intact.batches.last_offset[row])
        text = "an offset that is too far from the segment's base offset for its indexes"
        expected = f"{base_offset} to {base_offset + MAX_INT32}"
        finding = Kind.OFFSET_OVERFLOW.at(
            path, text, position=int(intact.positions[row]), offset=offset, expected=expected, found=str(offset)
        )
        refused = refused_log("", str(finding))
        if relative[row] < 0:
            raise refused
        error = OffsetOverflowError("", refused.reason, refused.kind)
        error.base_offset = base_offset
        raise error
    return intact


def _is_out_of_order(entries: bytearray, layout: np.dtype[np.void], least_step: int) -> bool:
    offsets = np.frombuffer(entries, layout)["relative_offset"].astype(np.int64)
    return bool((np.diff(offsets) < least_step).any())
