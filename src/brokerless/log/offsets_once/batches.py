"""Makes batches of a segment that have each offset once, as those are written that a job carries over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT64
from brokerless.errors import UnreadableError
from brokerless.format import layouts
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.read.batch_headers import read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.log.live_segments import OpenSegment, open_listed
from brokerless.log.offsets_once.findings import batches_overlap, repeats_within
from brokerless.log.offsets_once.parts import part_of_batch
from brokerless.log.offsets_once.records import first_and_repeated_offsets, offsets_of_records, repeated_offsets
from brokerless.log.positions import header_at
from brokerless.log.seek import last_offset
from brokerless.log.segment import Chunk
from brokerless.log.storage.files import File
from brokerless.offset_spans import Span, union, without
from brokerless.progress import Report


class OffsetsOnce:
    """Takes the chunks of one segment in order, and yields them so that each offset comes once, and no header goes on
    over what comes next. Of a batch that overlaps those before it (KAFKA-19407, KAFKA-3919), the rest is written as a
    batch of its own, and so are the first messages at each offset of a wrapper whose offsets repeat; that is reported.
    A batch whose header goes on over the next one's offsets ends at its last record.

    ``earlier``: the offsets from the segment's first one on that earlier segments have. ``next_base_offset``: of the
    segment after it. The file is read again, once, where batches overlap.
    """

    def __init__(
        self,
        file: File,
        report: Report,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        earlier: Sequence[Span] = (),
        next_base_offset: int | None = None,
    ) -> None:
        self._file, self._report, self._limit = file, report, max_batch_bytes
        self._earlier, self._next = earlier, MAX_INT64 if next_base_offset is None else next_base_offset
        self._highest = max((end for _, end in earlier), default=0) - 1
        self._repeated: dict[int, list[Span]] | None = None

    @classmethod
    def of_segment(
        cls, opened: OpenSegment, report: Report, reached: int, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    ) -> OffsetsOnce:
        """Return what follows a segment of a log that was read up to the offset ``reached`` before."""
        earlier = earlier_offsets(opened) if reached > opened.segment.base_offset else ()
        return cls(opened.file, report, max_batch_bytes, earlier=earlier, next_base_offset=opened.next_base_offset)

    def take(self, chunk: Chunk) -> Chunk:
        """Return the batches, whose checksums the caller has checked, without what others have."""
        if not len(chunk.batches):
            return chunk
        ends = np.maximum.accumulate(np.concatenate([[self._highest], chunk.batches.end_of_records]))
        self._highest = int(ends[-1])
        firsts, repeats = first_and_repeated_offsets(chunk)
        is_over_next = self._are_over_next(chunk, firsts)
        is_changed = bool(repeats) or is_over_next.any()
        if not is_changed and not (firsts <= ends[:-1]).any():
            return chunk
        if self._repeated is None:
            self._repeated = repeated_offsets(self._file, self._earlier)
        if not is_changed and not any(map(self._repeated.get, chunk.positions.tolist())):
            return chunk
        buffer = np.concatenate([np.empty(0, np.uint8), *self._parts(chunk, firsts, repeats, is_over_next)])
        return Chunk(buffer, chunk.base, read_headers(buffer, scan_batches(buffer).positions))

    def _are_over_next(self, chunk: Chunk, firsts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which batches have fewer records than offsets, and reach to where the next one begins."""
        batches = chunk.batches
        is_sparse = ~batches.is_legacy & (batches.count <= batches.end_of_records - batches.entry_offset)
        is_over_next = is_sparse.copy()
        is_over_next[:-1] &= batches.end_of_records[:-1] >= firsts[1:]
        if is_sparse[-1]:
            following = header_at(self._file, chunk.base + int(batches.ends[-1]), least=layouts.BATCH_V2_SIZE)
            is_there = following is not None and int(following.sizes[0]) > 0
            first_of_next = int(following.entry_offset[0]) if following is not None and is_there else self._next
            is_over_next[-1] = int(batches.end_of_records[-1]) >= first_of_next
        return is_over_next

    def _parts(
        self,
        chunk: Chunk,
        firsts: NDArray[np.int64],
        repeats: dict[int, NDArray[np.int64]],
        is_over_next: NDArray[np.bool_],
    ) -> Iterator[NDArray[np.uint8]]:
        batches, repeated = chunk.batches, self._repeated or {}
        for row, position in enumerate(chunk.positions.tolist()):
            start, stop = int(batches.positions[row]), int(batches.ends[row])
            is_read = chunk.file is None  # and not a chunk of headers alone
            whole = chunk.buffer[start:stop] if is_read else self._file.read(position, stop - start)
            if row in repeats:
                self._report(repeats_within(self._file.path, position, repeats[row]))
            if not (spans := repeated.get(position)):
                is_changed = row in repeats or is_over_next[row]
                yield part_of_batch(whole, 0, None, self._limit) if is_changed else whole
                continue
            self._report(batches_overlap(self._file.path, position, spans[0][0], spans[-1][1] - 1))
            end_of_batch = int(batches.end_of_records[row]) + 1
            for first, end in without([(int(firsts[row]), end_of_batch)], spans):
                is_shortened = is_over_next[row] and end == end_of_batch
                yield part_of_batch(whole, first, None if is_shortened else end - 1, self._limit)


def earlier_offsets(opened: OpenSegment) -> list[Span]:
    """Return the offsets from a segment's base offset on that segments before it have, as far as each reaches there."""
    base_offset, found = opened.segment.base_offset, list[Span]()
    before = [each for each in opened.partition.segments if each.base_offset < base_offset]
    for segment in reversed(before):
        try:
            with open_listed(segment, False) as file:
                last = last_offset(file, segment)
                if last is None or last < base_offset:
                    break
                found += offsets_of_records(file, base_offset)
        except UnreadableError:  # which is reported where it is read
            break
    return union(found)
