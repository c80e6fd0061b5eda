"""Finds batches whose records are later than the largest timestamp of their header.

By these headers, Kafka and all readers of a range of times pass over batches. Some clients wrote them too small, or -1
(Sarama before 1.17).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Finding, Kind
from brokerless.format.read.batch_headers import Batches

if TYPE_CHECKING:  # it imports kernels
    from brokerless.format.read.decoder import DecodedRecords


_FEW = 16
"""Records of a batch below which it takes longer to reduce each than to repeat its header's time for all rows."""


PASSED_OVER = ", by which others may have been passed over: --no-prune reads all"
"""Ends the message where batches are passed over by their headers."""


class HeaderTimes:
    """Compares the decoded records of a file with the headers of their batches. ``after``: how the message ends."""

    def __init__(self, path: str, after: str = "") -> None:
        self.path, self._after = path, after
        self._first: Finding | None = None
        self._count = 0
        self._positions, self._latest = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def follow(self, batches: Batches, base: int) -> None:
        """Add the intact batches of the next chunk, which begins at ``base`` (bytes), before they are decoded."""
        self._positions = np.concatenate([self._positions, batches.positions + base])
        self._latest = np.concatenate([self._latest, batches.max_timestamp])

    def compare(self, decoded: DecodedRecords) -> Finding | None:
        """Return the finding about the file's first such batch, once."""
        positions, given = decoded.positions, decoded.given
        timestamps = decoded.columns.timestamp[: decoded.columns.rows]
        if not len(timestamps):
            return None
        latest = self._latest_of(positions)
        if not (has_rows := given > 0).all():
            positions, given, latest = positions[has_rows], given[has_rows], latest[has_rows]
        ends = np.cumsum(given)
        if len(timestamps) < _FEW * len(given) and not (timestamps > np.repeat(latest, given)).any():
            return None
        rows = np.flatnonzero(np.maximum.reduceat(timestamps, ends - given) > latest)
        if not len(rows):
            return None
        self._count += len(rows)
        if self._first is not None:
            return None
        row = int(rows[0])
        own = slice(int(ends[row] - given[row]), int(ends[row]))
        self._first = Kind.TIMESTAMP_ABOVE_HEADER.at(
            self.path, f"a record is later than the largest timestamp in the header of its batch{self._after}",
            position=int(positions[row]), offset=int(decoded.columns.offset[own.start]),
            expected=f"{int(latest[row])} at most", found=str(timestamps[own].max()),
        )  # fmt: skip
        return self._first

    def _latest_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The largest timestamps in the headers of decoded batches, which is mostly all that were followed."""
        count = len(positions)
        if np.array_equal(self._positions[:count], positions):
            latest, last = self._latest[:count], count - 1
        else:
            at = np.searchsorted(self._positions, positions)
            latest, last = self._latest[at], int(at[-1])
        self._positions, self._latest = self._positions[last:], self._latest[last:]
        return latest

    def findings(self) -> Iterator[Finding]:
        """Yield one for the whole file, at its first such batch."""
        if self._first is not None:
            more = "" if self._count == 1 else f", in {self._count} batches"
            yield replace(self._first, message=self._first.message + more)
