"""Base offsets at which a copied log is rolled, so that it keeps the segments of its source."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from brokerless.format.read.batch_headers import Batches


class SegmentBoundaries:
    """Base offsets of segments that are still to begin, the next one first."""

    def __init__(self, base_offsets: Iterable[int] = ()) -> None:
        self._left = sorted(set(base_offsets), reverse=True)

    def row(self, batches: Batches, start: int, base_offset: int) -> int:
        """Return the first row from ``start`` on that is in the next segment after the one at ``base_offset``;
        ``len(batches)`` if none is."""
        while self._left and self._left[-1] <= base_offset:
            self._left.pop()
        if not self._left:
            return len(batches)
        # Where a v0 or v1 wrapper begins is not in its header; its last offset serves as well.
        offsets = np.where(batches.is_legacy, batches.last_offset, batches.entry_offset)[start:]
        found = np.flatnonzero(offsets >= self._left[-1])
        return start + int(found[0]) if len(found) else len(batches)

    def take(self) -> int:
        return self._left.pop()

    def take_all(self) -> list[int]:
        """Return what is left when there are no more batches: empty segments."""
        left, self._left = self._left[::-1], []
        return left
