"""Reads one side of a comparison: its batches in the order of their offsets, each offset once, and where it cannot be
read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT64
from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.format.arrays import Bools, Int64s
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.columns import RecordColumns
from brokerless.format.read.batch_headers import Batches
from brokerless.format.read.decoder import DecodedRecords, Decoder, decode_whole, load_decoding_kernels
from brokerless.jobs.diff.alignment.blocks import Block
from brokerless.jobs.diff.copied_partition import CopiedPartition, Unread
from brokerless.log.directory import PartitionPath
from brokerless.log.live_segments import OpenSegment, open_segments
from brokerless.log.offset_gaps import shows_compaction
from brokerless.log.offsets_once.batches import OffsetsOnce
from brokerless.log.offsets_once.findings import falls_within, misplaced
from brokerless.log.offsets_once.records import first_offsets
from brokerless.log.partition import transactions_of
from brokerless.log.producer.transactions import Transactions
from brokerless.log.ranges import Range
from brokerless.log.segment import Chunk, check_checksums, damage_finding, scan, scan_headers
from brokerless.log.walk import start_of
from brokerless.progress import Done, Report, ignore

_GROUP_BYTES = 1 << 20
"""Bytes of batches that are decoded at once, at most, where there are several."""
_MOST_PRODUCERS = 1 << 16
"""Producers whose last sequence is known at the same time."""
_MOST_UNREAD = 1000
"""Places that cannot be read which are distinguished."""
_NOT_DECODED = MAX_INT64


@dataclass(frozen=True, slots=True)
class SideSettings:
    """How a side is read."""

    start: int
    """The first of the common offsets."""
    end: int
    """The offset after the last of the common offsets."""
    quick: bool = False
    """Whether batches are compared by their headers, and only those that differ are read, so that no other checksum is
    verified."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    to_the_end: bool = False
    """Whether the side itself ends at ``end``, so that what follows is of interest as well."""
    recode: Callable[[RecordColumns], RecordColumns] | None = None
    """Puts other bytes in place of keys and values, by which records are compared."""
    last_headers: Sequence[Chunk] = ()
    """The headers of the last segment, where they were read before."""


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Valid batches of one file, by offset, which are adjacent rows of a chunk."""

    chunk: Chunk
    path: str
    all_firsts: Int64s
    """The first offset of each batch of the chunk (int64)."""
    all_ends: Int64s
    """The offset after the last one of each batch of the chunk (int64)."""
    at: int
    """The row of the first of these batches in the chunk."""
    stop: int
    """The row after that of the last of these batches."""

    def __len__(self) -> int:
        return self.stop - self.at

    @property
    def firsts(self) -> Int64s:
        return self.all_firsts[self.at : self.stop]

    @property
    def ends(self) -> Int64s:
        return self.all_ends[self.at : self.stop]

    @property
    def sizes(self) -> Int64s:
        """Bytes of each batch."""
        return self.chunk.batches.sizes[self.at : self.stop]

    @property
    def raw(self) -> NDArray[np.uint8]:
        """The header of each batch, as :class:`Batches` has it."""
        return self.chunk.batches.raw[self.at : self.stop]

    def between(self, start: int, stop: int) -> BatchRows:
        """Return the batches in rows ``start`` to ``stop`` of these; nothing is copied."""
        return replace(self, at=self.at + start, stop=self.at + stop)

    def batches(self) -> Batches:
        """These batches alone."""
        return self.chunk.batches.take(slice(self.at, self.stop))


class SideReader:
    """One side of a partition. Batches are taken in order (:meth:`peek`, :meth:`skip`), or decoded (:meth:`pull`).

    Each batch that was peeked is preceded by all that is to say of the offsets before it.
    """

    def __init__(self, partition: PartitionPath, settings: SideSettings, report: Report, done: Done) -> None:
        self.partition, self.settings = partition, settings
        self.unread: list[Unread] = []
        """Where the side cannot be read, so far."""
        self.gone: list[tuple[int, int]] = []
        """Offsets that were deleted while it was read: the first of each range, and the one after its last."""
        self.unknown: list[tuple[str, Int64s]] = []
        """Records that have no common offset: the cause, and their offsets on this side."""
        self.is_sparse = self.was_cleaned = False
        """Whether batches have fewer records than offsets. ``was_cleaned`` is whether batches have a delete horizon,
        which only the cleaner sets."""
        self.last: BatchRows | None = None
        """The batch that was taken last without being decoded."""
        self._report, self._done = report, done
        self._why: Finding | None = None
        self._reached = settings.start
        self._rows: BatchRows | None = None
        self._source = self._read()
        self._decoder = Decoder(max_batch_bytes=settings.max_batch_bytes)
        self._decoding: Iterator[Block] | None = None
        self._decoded_to = 0
        self._queue: deque[Block] = deque()
        self._sequences: dict[int, tuple[int, int]] = {}
        for each in partition.unread if isinstance(partition, CopiedPartition) else ():
            report(each.finding)
            self._add_unread(*each)

    # Offsets

    has_same_offsets = True
    """Whether the offsets of this side are those of the other one, so that batches can be compared."""

    has_own_batches = True
    """Whether the batches are those of the log, and not of a copy of its records."""

    def own_offset(self, offset: int) -> int:
        """Return the offset of a record on this side by the common one."""
        return offset

    def common_offsets(self, offsets: Int64s) -> Int64s:
        """Return the common offset of each record of this side; negative where it has none."""
        return offsets

    def count(self, start: int, end: int) -> int:
        """Return how many records there are at common offsets ``[start, end)``; none in those of control records."""
        return count_records(self.partition, start, end, self.settings.max_batch_bytes)

    # Batches

    def peek(self) -> BatchRows | None:
        """Return the batches that come next, as far as they are in memory; None at the end."""
        while self._rows is None or not len(self._rows):
            self._rows = next(self._source, None)
            if self._rows is None:
                return None
        return self._rows

    def skip(self, count: int) -> None:
        """Go on after so many batches, which are not decoded."""
        assert self._rows is not None
        taken = self._rows.between(0, count)
        self._follow(taken.batches())
        self.last = taken.between(count - 1, count)
        self._rows = self._rows.between(count, len(self._rows))

    # Records

    @property
    def frontier(self) -> int:
        """The offset before which all records have been decoded, or were in batches that were skipped."""
        if self._decoding is not None:
            return self._decoded_to
        rows = self.peek()
        return _NOT_DECODED if rows is None else int(rows.firsts[0])

    @property
    def is_idle(self) -> bool:
        """Whether no batch is decoded in part, and no record waits."""
        return self._decoding is None and not self._queue

    def pull(self, until: int, most: int) -> bool:
        """Decode more: batches that begin before ``until``, ``most`` of them, and at least one. Return whether these
        are others than those that are decoded in part."""
        is_new = self._decoding is None
        if self._decoding is None:
            rows = self.peek()
            if rows is None:
                return False
            count = min(max(1, int(np.searchsorted(rows.firsts, until))), most, len(rows))
            sizes = np.cumsum(rows.sizes[:count])
            count = max(1, int(np.searchsorted(sizes, _GROUP_BYTES, side="right")))
            self._rows = rows.between(count, len(rows))
            self._decoded_to = int(rows.firsts[0])
            self._decoding = self._decode(rows.between(0, count))
        block = next(self._decoding, None)
        if block is None:
            self._decoding = None
        elif block.rows:
            self._queue.append(block)
        return is_new

    def take_until(self, offset: int) -> list[Block]:
        """Return the decoded records before an offset, which do not wait any more."""
        taken: list[Block] = []
        while self._queue:
            block = self._queue[0]
            stop = int(np.searchsorted(block.offsets, offset))
            if stop:
                taken.append(block.between(0, stop))
            if stop < block.rows:
                self._queue[0] = block.between(stop, block.rows)
                break
            self._queue.popleft()
        return taken

    def last_record(self) -> Block | None:
        """Return the last record before those that were decoded, if its batch was skipped."""
        block = None
        if self.last is not None:
            decoder = Decoder(max_batch_bytes=self.settings.max_batch_bytes)
            chunk = replace(self.last.chunk, batches=self.last.batches())
            for part in chunk.load(ignore):
                for decoded in decode_whole(decoder, part.buffer, part.batches, part.base):
                    block = _block(decoded, part, np.zeros(len(part.batches), np.bool_))
        self.last = None
        return None if block is None or not block.rows else block.between(block.rows - 1, block.rows)

    @cached_property
    def transactions(self) -> Transactions:
        """The transactions of the whole side."""
        return transactions_of(self.partition)

    def close(self) -> None:
        """Close the file that is open."""
        self._decoding = None
        self._source.close()

    # Reading

    def _note(self, finding: Finding) -> None:
        if finding.kind == Kind.DELETED_MEANWHILE and finding.offset is not None and finding.found is not None:
            self._add_gone(finding.offset, int(finding.found))
        elif finding.leaves_out and self._why is None:
            self._why = finding
        self._report(finding)

    def _add_unread(self, first: int, end: int, finding: Finding) -> None:
        """Note offsets; of very many places, the last ones are one."""
        if len(self.unread) >= _MOST_UNREAD:
            last = self.unread[-1]
            self.unread[-1] = Unread(last.first, max(last.end, end), last.finding)
        else:
            self.unread.append(Unread(first, end, finding))

    def _add_gone(self, first: int, end: int) -> None:
        self.gone.append((first, end))

    def _read(self) -> Generator[BatchRows]:
        settings = self.settings
        for opened in open_segments(self.partition, self._note, Range(settings.start)):
            for chunk in self._chunks(opened):
                yield from self._placed(chunk, opened)
                self._done(int(chunk.batches.sizes.sum()))
                if self._reached >= settings.end and not settings.to_the_end:
                    return
        if self._why is not None:
            self._add_unread(self._reached, MAX_INT64, self._why)

    def _chunks(self, opened: OpenSegment) -> Iterator[Chunk]:
        """The valid batches of a segment, each offset once; what is not valid comes between two chunks."""
        file, settings = opened.file, self.settings
        note, start = opened.graded(self._note), start_of(opened, Range(settings.start))
        once = OffsetsOnce.of_segment(opened, self._report, self._reached, settings.max_batch_bytes)
        is_read = settings.quick and start == 0 and opened.next_base_offset is None and settings.last_headers
        chunks = (scan_headers if settings.quick else scan)(file, note, start)
        for chunk in (replace(each, file=file) for each in settings.last_headers) if is_read else chunks:
            if not settings.quick:
                load_decoding_kernels(chunk.batches)
            for each in [chunk] if settings.quick else self._valid_runs(chunk, file.path):
                taken = once.take(each)
                if len(taken.batches):
                    yield taken

    def _valid_runs(self, chunk: Chunk, path: str) -> Iterator[Chunk]:
        found: list[Finding] = []
        valid = check_checksums(chunk, path, found.append)
        if valid.all():
            yield chunk
            return
        borders = np.flatnonzero(np.diff(valid, prepend=False, append=False)).tolist()
        reported = 0
        for start, stop in [*zip(borders[::2], borders[1::2], strict=True), (len(valid), len(valid))]:
            while reported < start - int(valid[:start].sum()):
                self._note(found[reported])
                reported += 1
            if start < stop:
                yield replace(chunk, batches=chunk.batches.take(slice(start, stop)))

    def _placed(self, chunk: Chunk, opened: OpenSegment) -> Iterator[BatchRows]:
        """The batches of a chunk whose offsets go up, as far as they are in the common offsets."""
        settings = self.settings
        firsts, ends = first_offsets(chunk), chunk.batches.end_of_records + 1
        rows = BatchRows(chunk, opened.file.path, firsts, ends, at=0, stop=len(chunk.batches))
        limit = MAX_INT64 if opened.next_base_offset is None else opened.next_base_offset
        for run in self._ascending(rows, limit):
            if self._why is not None:
                if int(run.firsts[0]) > self._reached:
                    self._add_unread(self._reached, int(run.firsts[0]), self._why)
                self._why = None
            self._reached = max(self._reached, int(run.ends[-1]))
            batches = run.batches()
            self.is_sparse |= shows_compaction(batches)
            self.was_cleaned |= bool(batches.has_delete_horizon.any())
            first = int(np.searchsorted(run.ends, settings.start, side="right"))
            stop = int(np.searchsorted(run.firsts, settings.end))
            if first < stop:
                yield run.between(first, stop)

    def _ascending(self, rows: BatchRows, limit: int) -> Iterator[BatchRows]:
        """Runs of batches of which each begins where the one before ends, or later. A batch that is between others and
        whose offsets are not is reported: no checksum covers its base offset."""
        firsts, ends = rows.firsts, rows.ends
        before = np.append(self._reached, ends[:-1]) if self._reached > self.settings.start else np.append(0, ends[:-1])
        if (firsts >= before).all() and firsts[-1] < limit:
            yield rows
            return
        reached, start = int(before[0]), 0
        for row in range(len(rows)):
            following = int(firsts[row + 1]) if row + 1 < len(rows) else limit
            is_beyond = reached <= following <= int(firsts[row])
            if reached <= int(firsts[row]) and not is_beyond:
                reached = int(ends[row])
                continue
            if start < row:
                yield rows.between(start, row)
            start, position = row + 1, int(rows.chunk.positions[row])
            first, last = int(firsts[row]), int(ends[row]) - 1
            self._note(misplaced(rows.path, position, first, last=last, start=reached, end=max(following, reached + 1)))
        if start < len(rows):
            yield rows.between(start, len(rows))

    def _decode(self, rows: BatchRows) -> Iterator[Block]:
        for part in replace(rows.chunk, batches=rows.batches()).load(self._note):
            if self.settings.quick:
                part = part.take(self._check_late(part, rows))
            repeats = self._repeats(part.batches)
            for decoded in decode_whole(self._decoder, part.buffer, part.batches, part.base):
                self._add_damages(decoded, part, rows)
                block = self._ascending_records(_block(decoded, part, repeats), part, rows.path)
                recode = self.settings.recode
                yield block if recode is None else replace(block, columns=recode(block.columns))

    def _check_late(self, part: Chunk, rows: BatchRows) -> Bools:
        """Verify checksums of batches that are decoded, where none was verified before."""
        found: list[Finding] = []
        valid = check_checksums(part, rows.path, found.append)
        for row, finding in zip(np.flatnonzero(~valid).tolist(), found, strict=True):
            self._report(finding)
            first, end = int(part.batches.entry_offset[row]), int(part.batches.end_of_records[row]) + 1
            self._add_unread(first, end, finding)
        return valid

    def _add_damages(self, decoded: DecodedRecords, part: Chunk, rows: BatchRows) -> None:
        """Record what is after the damage within a batch as unread."""
        stops = np.cumsum(decoded.given)
        for damage in decoded.damages:
            finding = damage_finding(rows.path, damage)
            self._report(finding)
            batch = int(np.searchsorted(rows.chunk.positions[rows.at : rows.stop], damage.position))
            at = np.flatnonzero(decoded.positions == damage.position)
            first = max(int(rows.firsts[batch]), self._decoded_to)
            if len(at) and decoded.given[at[-1]]:
                first = int(decoded.columns.offset[stops[at[-1]] - 1]) + 1
            if first < int(rows.ends[batch]):
                self._add_unread(first, int(rows.ends[batch]), finding)

    def _ascending_records(self, block: Block, part: Chunk, path: str) -> Block:
        """The records of a block but those whose offsets go back within a batch."""
        offsets = block.offsets
        if not len(offsets):
            return block
        before = np.maximum.accumulate(np.append(self._decoded_to - 1, offsets[:-1]))
        if (rises := offsets > before).all():
            self._decoded_to = int(offsets[-1]) + 1
            return block
        row = int(np.argmin(rises))
        position = int(part.positions[block.batch_of[row]])
        self._report(falls_within(path, position, int(before[row]), int(offsets[row])))
        self._decoded_to = max(self._decoded_to, int(offsets.max()) + 1)
        return block.take(rises)

    def _follow(self, batches: Batches) -> None:
        """Follow the sequences of producers over batches that are the same on the other side."""
        has_sequence = (batches.producer_id > layouts.NO_PRODUCER_ID) & (batches.base_sequence >= 0)
        rows = np.flatnonzero(has_sequence)[::-1]
        last = rows[np.unique(batches.producer_id[rows], return_index=True)[1]]
        columns = batches.producer_id, batches.producer_epoch, batches.last_sequence
        for producer, epoch, sequence in zip(*(column[last].tolist() for column in columns), strict=True):
            self._remember(producer, epoch, sequence)

    def _repeats(self, batches: Batches) -> Bools:
        """Follow sequences over others; return which repeat the sequences that their producer wrote before."""
        repeats = np.zeros(len(batches), np.bool_)
        rows = np.flatnonzero((batches.producer_id > layouts.NO_PRODUCER_ID) & (batches.base_sequence >= 0))
        columns = batches.producer_id, batches.producer_epoch, batches.base_sequence, batches.last_sequence
        values = zip(rows.tolist(), *(column[rows].tolist() for column in columns), strict=True)
        for row, producer, epoch, first, last in values:
            known = self._sequences.get(producer)
            if known is not None and known[0] == epoch and first <= last <= known[1]:
                repeats[row] = True
            else:
                self._remember(producer, epoch, last)
        return repeats

    def _remember(self, producer: int, epoch: int, sequence: int) -> None:
        self._sequences.pop(producer, None)
        self._sequences[producer] = epoch, sequence
        if len(self._sequences) > _MOST_PRODUCERS:
            del self._sequences[next(iter(self._sequences))]


def count_records(partition: PartitionPath, start: int, end: int, max_batch_bytes: int) -> int:
    """Return how many records a partition has at offsets ``[start, end)``, by headers as far as these say it; none in
    those of control records."""
    if start >= end:
        return 0
    found = 0
    decoder = Decoder(keys=False, values=False, headers=False, max_batch_bytes=max_batch_bytes)
    for opened in open_segments(partition, ignore, Range(start, end)):
        for chunk in scan_headers(opened.file, ignore, start_of(opened, Range(start))):
            batches = chunk.batches
            firsts, ends = batches.entry_offset, batches.end_of_records + 1
            is_within = (firsts >= start) & (ends <= end) & ~batches.is_wrapper
            counts = np.where(batches.is_legacy, 1, np.maximum(batches.count, 0))
            found += int(counts[is_within & ~batches.is_control].sum())
            is_border = ~is_within & ~batches.is_control & (ends > start) & ((firsts < end) | batches.is_wrapper)
            for part in chunk.take(is_border).load(ignore) if is_border.any() else ():
                for decoded in decode_whole(decoder, part.buffer, part.batches, part.base):
                    offsets = decoded.columns.offset[: decoded.columns.rows]
                    found += int(((offsets >= start) & (offsets < end)).sum())
            if firsts[0] >= end:
                break
    return found


def _block(decoded: DecodedRecords, part: Chunk, repeats: Bools) -> Block:
    batch_of = np.repeat(np.searchsorted(part.positions, decoded.positions), decoded.given)
    return Block(decoded.columns, batch_of, part.batches, repeats)
