"""Leaves out the records of a file that an earlier batch of it has, as a consumer gets the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MIN_INT64
from brokerless.findings import Finding
from brokerless.format.read.batch_headers import Batches
from brokerless.log.offsets_once.findings import batches_overlap, falls_within, not_above, repeats_within
from brokerless.log.offsets_once.records import are_within, is_first_at_offset, repeated_offsets
from brokerless.log.storage.files import File
from brokerless.offset_spans import Span

if TYPE_CHECKING:  # it imports kernels
    from brokerless.format.read.decoder import DecodedRecords


class FileOverlaps:
    """Finds the records of a file whose offsets an earlier intact batch of the same file has. A consumer gets each
    offset once: of a batch that overlaps those before it, it takes the rest, from the first offset that is missing.

    ``highest``: of the batches before those that are read. The file is read again, once, where batches overlap.
    """

    def __init__(self, file: File, highest: int = -1) -> None:
        self._file, self._highest = file, highest
        self._positions, self._before = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._repeated: dict[int, list[Span]] | None = None
        self._reported: set[int] = set()
        self._decoded_to, self._repeats_at = (-1, MIN_INT64), -1  # the last batch and its highest offset: it may go on

    def follow(self, batches: Batches, base: int) -> bool:
        """Adds the intact batches of the next chunk, which begins at ``base`` (bytes), before they are decoded. Returns
        whether the header of one says that it begins at an offset that was there before."""
        if not len(batches):
            return False
        highest = np.maximum.accumulate(np.concatenate([[self._highest], batches.end_of_records]))
        self._positions = np.concatenate([self._positions, batches.positions + base])
        self._before = np.concatenate([self._before, highest[:-1]])
        self._highest = int(highest[-1])
        return bool((batches.entry_offset <= highest[:-1]).any())

    def rows(self, decoded: DecodedRecords) -> tuple[NDArray[np.bool_] | None, list[Finding]]:
        """Return which decoded records are the first at their offsets, None for all; and a finding for each batch of
        which some are not."""
        has_rows = decoded.given > 0
        positions, given = decoded.positions[has_rows], decoded.given[has_rows]
        if not len(positions):
            return None, []
        starts = np.cumsum(given) - given
        firsts = decoded.columns.offset[starts]
        at = np.searchsorted(self._positions, positions)
        highest = self._before[at]
        overlapping = np.flatnonzero(firsts <= highest)
        self._positions, self._before = self._positions[at[-1] :], self._before[at[-1] :]
        offsets = decoded.columns.offset[: decoded.columns.rows]
        before = self._highest_before(positions, starts, offsets)
        falls = np.flatnonzero(offsets[1:] <= offsets[:-1]) + 1
        if not len(falls) and not len(overlapping) and firsts[0] > before:
            return None, []
        new, findings = np.ones(len(offsets), np.bool_), list[Finding]()
        for row in np.unique(np.append(np.searchsorted(starts, falls, "right") - 1, 0)).tolist():
            rows = slice(int(starts[row]), int(starts[row] + given[row]))
            of_batch = offsets[rows]
            is_first, is_lower = is_first_at_offset(of_batch), of_batch[1:] < of_batch[:-1]  # a difference may wrap
            if not row:
                is_first &= of_batch > before
            if is_first.all() and not is_lower.any():
                continue
            new[rows] = is_first
            if (position := int(positions[row])) != self._repeats_at:
                self._repeats_at = position
                if not is_first.all():
                    findings.append(repeats_within(self._file.path, position, of_batch[~is_first]))
                else:
                    at = int(np.argmax(is_lower))
                    findings.append(falls_within(self._file.path, position, int(of_batch[at]), int(of_batch[at + 1])))
        for row in overlapping.tolist():
            rows = slice(int(starts[row]), int(starts[row] + given[row]))
            finding = self._overlap_of(int(positions[row]), int(highest[row]), offsets[rows], new[rows])
            findings += [] if finding is None else [finding]
        return (None if new.all() else new), findings

    def _highest_before(
        self, positions: NDArray[np.int64], starts: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> int:
        """The highest offset of the first batch in rows that were given before: a huge one comes in several parts."""
        (position, highest), last = self._decoded_to, int(positions[-1])
        before = highest if position == int(positions[0]) else MIN_INT64
        self._decoded_to = last, max(int(offsets[int(starts[-1]) :].max()), before if last == position else MIN_INT64)
        return before

    def _overlap_of(
        self, position: int, highest: int, offsets: NDArray[np.int64], new: NDArray[np.bool_]
    ) -> Finding | None:
        """Clears in ``new`` the records of a batch that batches before it have; what is reported of it, once.
        ``highest``: the highest offset of those before it."""
        if self._repeated is None:
            self._repeated = repeated_offsets(self._file)
        spans = self._repeated.get(position)
        is_repeated = are_within(spans or (), offsets, offsets)
        new &= ~is_repeated
        if position in self._reported:
            return None
        if is_repeated.any():
            self._reported.add(position)
            left_out = offsets[is_repeated]
            return batches_overlap(self._file.path, position, int(left_out.min()), int(left_out.max()))
        if spans == []:
            self._reported.add(position)
            return not_above(self._file.path, position, int(offsets[0]), highest)
        return None
