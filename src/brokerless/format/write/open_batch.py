"""Fills uncompressed v2 batches: one that is not full stays open for later rows.

With a codec, how full a batch is depends on how well others were compressed, so those are cut first and encoded then
(:mod:`brokerless.format.write.encoder`). Both cut at the same rows.
"""

# Kernels take all columns as positional arguments, which the checker cannot count.
# pyright: reportCallIssue=false

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.columns import SLACK, RecordColumns, allocate_array
from brokerless.format.write.encoder import (
    LARGEST,
    build_blank_headers,
    complete_headers,
    max_encoded_size,
    too_large_error,
)

_AT_ONCE = 8 << 20
"""Bytes that are yielded at once: what is encoded should still be in the cache when it is written."""
_BATCHES_AT_ONCE = 1024
_END, _FACTS = 0, 7
"""The fields of a batch: the columns of :func:`~brokerless.format.write.record_kernels.fill_batches`."""


class OpenBatch:
    """The open batch of a partition, as ``MemoryRecordsBuilder`` (4.1.1) fills it up to ``batch_size`` bytes: what
    :func:`brokerless.format.write.encoder.cut_batches` says of a batch that is full holds here."""

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._open = np.zeros(_FACTS, np.int64)
        self._buffer = np.empty(0, np.uint8)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the open batch."""
        return int(self._open[_END])

    def add(self, columns: RecordColumns) -> Iterator[NDArray[np.uint8]]:
        """Yield the bytes of batches that are full now, one after another; some at a time. Offsets of the rows
        increase.

        A batch has one timestamp type, and with LogAppendTime one timestamp, so one ends where these change.
        Raises :class:`UsageError` for a batch that would be 2 GiB or larger.
        """
        from brokerless.format.write.record_kernels import fill_batches

        row, rows = 0, columns.rows
        while row < rows:
            self._reserve(min(_AT_ONCE, max_encoded_size(columns, row, rows, rows - row)))
            batches = np.empty((_BATCHES_AT_ONCE, _FACTS), np.int64)
            batches[0] = self._open
            reached, full = fill_batches(
                row, rows, self._batch_size, columns.timestamp_type, *columns.contents(), self._buffer, batches
            )
            self._open = batches[full].copy()
            if full:
                yield self._take(batches[:full])
            elif reached == row and len(self._buffer) > LARGEST:
                raise too_large_error(len(self._buffer))
            elif reached == row:
                self._reserve(2 * len(self._buffer))
            row = reached

    def finish(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the open batch, if there is one."""
        if self.waiting_bytes:
            batches, self._open = self._open[np.newaxis], np.zeros(_FACTS, np.int64)
            yield self._take(batches)

    def _reserve(self, size: int) -> None:
        used = self.waiting_bytes
        if used + size + SLACK > len(self._buffer):
            buffer = allocate_array(max(used + size, 2 * used) + SLACK, np.uint8)
            buffer[:used] = self._buffer[:used]
            self._buffer = buffer

    def _take(self, batches: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Full batches with their headers; the open one's bytes are retained."""
        ends, counts, first_offsets, last_offsets, first_timestamps, max_timestamps, is_append_time = batches.T
        headers = build_blank_headers(len(batches))
        headers["base_offset"] = first_offsets
        headers["last_offset_delta"] = last_offsets - first_offsets
        headers["base_timestamp"] = first_timestamps
        headers["max_timestamp"] = max_timestamps
        headers["attributes"] = np.where(is_append_time, layouts.TIMESTAMP_TYPE_BIT, 0)
        headers["count"] = counts
        ends = np.ascontiguousarray(ends)
        end = int(ends[-1])
        full, self._buffer = self._buffer, self._buffer[end : max(end, self.waiting_bytes)].copy()
        self._open[_END] = len(self._buffer)
        complete_headers(full, headers, np.append(0, ends[:-1]), ends)
        return full[:end]
