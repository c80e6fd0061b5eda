"""Leaves out the records of a file whose offsets earlier batches of it have, as a consumer gets each offset once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT64
from brokerless.format.codecs.decompression import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.read.batch_headers import read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.jobs.recovered.partial_batches import part_of_batch
from brokerless.log.offset_checks import first_and_repeated_offsets, overlaps, repeated_offsets, repeats_within
from brokerless.log.segment import Chunk, Report
from brokerless.log.storage.files import File
from brokerless.offset_spans import Span, without


class OffsetsOnce:
    """Takes the chunks of one file in order, and yields them so that each offset comes once. Of a batch that overlaps
    those before it (KAFKA-19407, KAFKA-3919), the rest is written as a batch of its own, and so are the first messages
    at each offset of a wrapper whose offsets repeat; that is reported.

    The file is read again, once, where batches overlap.
    """

    def __init__(self, file: File, report: Report, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> None:
        self._file, self._report, self._limit = file, report, max_batch_bytes
        self._highest = -1
        self._repeated: dict[int, list[Span]] | None = None

    def take(self, chunk: Chunk) -> Chunk:
        """The same batches, whose checksums the caller has checked, without what others have."""
        if not len(chunk.batches):
            return chunk
        ends = np.maximum.accumulate(np.concatenate([[self._highest], chunk.batches.end_of_records]))
        self._highest = int(ends[-1])
        firsts, repeats = first_and_repeated_offsets(chunk)
        if not repeats and not (firsts <= ends[:-1]).any():
            return chunk
        if self._repeated is None:
            self._repeated = repeated_offsets(self._file)
        if not repeats and not np.isin(chunk.positions, list(self._repeated)).any():
            return chunk
        buffer = np.concatenate([np.empty(0, np.uint8), *self._parts(chunk, firsts, repeats, self._repeated)])
        return Chunk(buffer, chunk.base, read_headers(buffer, scan_batches(buffer).positions))

    def _parts(
        self,
        chunk: Chunk,
        firsts: NDArray[np.int64],
        repeats: dict[int, NDArray[np.int64]],
        repeated: dict[int, list[Span]],
    ) -> Iterator[NDArray[np.uint8]]:
        batches = chunk.batches
        for row, position in enumerate(chunk.positions.tolist()):
            whole = chunk.buffer[int(batches.positions[row]) : int(batches.ends[row])]
            if row in repeats:
                self._report(repeats_within(self._file.path, position, repeats[row]))
                whole = part_of_batch(whole, 0, MAX_INT64, self._limit) if position not in repeated else whole
            if position not in repeated:
                yield whole
                continue
            spans = repeated[position]
            self._report(overlaps(self._file.path, position, spans[0][0], spans[-1][1] - 1))
            for first, end in without([(int(firsts[row]), int(batches.end_of_records[row]) + 1)], spans):
                yield part_of_batch(whole, first, end - 1, self._limit)
