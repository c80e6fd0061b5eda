"""Finds the end of a growing log, and its last stable offset, without reading it from its start.

A broker may be writing at this very moment: what counts is up to the last complete batch with a valid checksum; what
follows it is not there yet. A batch with a wrong checksum before that one is damage, which others report.

The place of that batch is kept, and the next look starts there, if the batch is still at that place: a broker that
recovers cuts a log back, and then writes other batches. Of a log that was not read before, the offset index gives a
place near the end. Transactions are followed from the offset on where reading starts: those that ended before it do
not matter, and of those that were open there, only what comes later is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from brokerless.format import layouts
from brokerless.format.read.batch_headers import checksums_match
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import open_listed
from brokerless.log.positions import first_position, last_indexed
from brokerless.log.producer.recorded_aborts import RecordedAborts
from brokerless.log.producer.transactions import Transactions, follow
from brokerless.log.ranges import Range
from brokerless.log.segment import Chunk, scan_headers
from brokerless.log.storage.files import File
from brokerless.progress import Report, ignore


@dataclass(frozen=True, slots=True)
class Tail:
    """A log's end, as it was found."""

    base_offset: int
    """The base offset of the last segment."""
    end_offset: int
    """The next offset that will be there."""
    position: int = 0
    """The bytes of the segment up to here are complete batches."""
    last: tuple[int, bytes] | None = None
    """Where the segment's last batch is, and its first bytes; None in a segment without one."""
    size: int | None = None
    """Bytes of the segment's log."""
    modified: int | None = None
    """When the segment's log was modified (ms)."""
    transactions: Transactions | None = None
    """The transactions from the offset on where following them began, if they are followed."""

    @property
    def stable_offset(self) -> int:
        """Where reading ends: the last stable offset, where transactions are followed, or else the log's end."""
        stable = None if self.transactions is None else self.transactions.last_stable_offset
        return self.end_offset if stable is None else min(stable, self.end_offset)


def look(paths: PartitionPath, before: Tail | None = None) -> Tail:
    """Return where the log ends. ``before``: what the last look gave. The partition must have a segment.

    Raises :class:`UnreadableError` if the last segment cannot be opened, as :class:`ReplacedError` if it is not what
    was listed.
    """
    active = paths.segments[-1]
    if before is not None and _is_as_it_was(before, active):
        return before
    with open_listed(active, True) as file:
        return look_into(file, active, before)


def look_into(file: File, active: SegmentPaths, before: Tail | None = None) -> Tail:
    """Find the end in the last segment's log, which is open."""
    start = Tail(active.base_offset, active.base_offset)
    if before is not None and before.base_offset == active.base_offset and _holds(before, file):
        start = before
    elif position := last_indexed(file, active):
        start = Tail(active.base_offset, active.base_offset, position)
    return _end(file, start, active)


def look_committed(
    paths: PartitionPath, before: Tail | None = None, start_offset: int | None = None, report: Report = ignore
) -> Tail:
    """Find the end with transactions followed: from ``start_offset`` on (None: from the beginning), or on from
    ``before``.

    Damaged batches of transactions are reported: without its marker, a transaction stays open.
    """
    if before is not None and _is_as_it_was(before, paths.segments[-1]):
        return before
    earlier = None if before is None else _still_valid(paths, before)
    now = look(paths, earlier)
    if earlier is not None and earlier.transactions is not None:
        # A copy: a look that ends halfway is not to leave its traces.
        known, first = earlier.transactions, earlier.base_offset
        transactions = Transactions(list(known.ended), {each: replace(one) for each, one in known.open.items()})
    else:
        transactions, earlier = Transactions(), None
        first = paths.segments[0].base_offset if start_offset is None else start_offset
    segments = Range(start_offset=first).segments(paths.segments)
    recorded = RecordedAborts(segments, None if earlier is None else earlier.end_offset)

    def chunks() -> Iterator[tuple[str, Chunk]]:
        for segment in segments:
            with open_listed(segment, segment is paths.segments[-1]) as file:
                start, end = 0, now.position if segment.base_offset == now.base_offset else None
                if earlier is not None and segment.base_offset == earlier.base_offset:
                    start = earlier.position
                elif earlier is None and first > segment.base_offset:
                    start = first_position(file, segment, first)
                for chunk in scan_headers(file, ignore, start, end):
                    yield file.path, chunk

    follow(transactions, chunks(), report, recorded)
    return replace(now, transactions=transactions)


def _is_as_it_was(before: Tail, active: SegmentPaths) -> bool:
    """Return whether a file is unchanged by name, size and time; an incomplete tail is read again in any case."""
    log = active.log
    same = (before.base_offset, before.size, before.modified) == (active.base_offset, log.size, log.modified)
    return same and before.position == before.size


def _still_valid(paths: PartitionPath, before: Tail) -> Tail | None:
    """``before``, if the batch that was the last one then is still in its place."""
    for segment in paths.segments:
        if segment.base_offset == before.base_offset:
            with open_listed(segment, segment is paths.segments[-1]) as file:
                return before if _holds(before, file) else None
    return None


def _holds(before: Tail, file: File) -> bool:
    if before.last is None:
        return before.position == 0
    position, head = before.last
    return file.size >= before.position and file.read(position, len(head)).tobytes() == head


def _end(file: File, start: Tail, active: SegmentPaths) -> Tail:
    """The last complete, valid batch from a position on."""
    end_offset, position, last = start.end_offset, start.position, start.last
    for chunk in scan_headers(file, ignore, start.position):
        rows = np.arange(len(chunk.batches))
        for row in rows[::-1].tolist():
            batch = chunk.batches.take(slice(row, row + 1))
            if any(checksums_match(one.buffer, one.batches).any() for one in chunk.take(rows == row).load(ignore)):
                at = int(chunk.positions[row])
                end_offset, position = int(batch.last_offset[0]) + 1, at + int(batch.sizes[0])
                last = (at, file.read(at, layouts.BATCH_V2_SIZE).tobytes())
                break
    return Tail(active.base_offset, end_offset, position, last=last, size=file.size, modified=active.log.modified)
