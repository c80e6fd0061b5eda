"""Finds timestamps that mislead retention: from the future, or not in milliseconds.

Kafka deletes a segment by its largest timestamp (``UnifiedLog.deleteRetentionMsBreachedSegments``, 4.1.1): one that
is too large keeps it for ever, and one in seconds makes it look as old as 1970.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Finding, Kind
from brokerless.log.segment import Chunk

FUTURE_MS = 60 * 60 * 1000
"""The default of ``message.timestamp.after.max.ms`` (KIP-937)."""

_EARLIEST, _LATEST = 946_684_800, 4_102_444_800
"""Seconds: the years 2000 to 2100, which a timestamp in another unit is taken to be from."""
_UNITS = (("seconds", 1), ("microseconds", 10**6), ("nanoseconds", 10**9))


@dataclass(slots=True)
class TimestampCheck:
    """Follows the timestamps of a partition's intact batches."""

    now_ms: int
    """The time that counts as now (ms since the epoch)."""
    has_none: bool = False
    """Whether there were batches without a timestamp, so that Kafka goes by the file's own time."""
    _first: dict[tuple[str, str], Finding] = field(default_factory=dict[tuple[str, str], Finding])
    _counts: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def follow(self, chunk: Chunk, path: str) -> None:
        largest = chunk.batches.max_timestamp
        self.has_none = self.has_none or bool((largest < 0).any())
        low, high = int(largest.min()), int(largest.max())
        if high > self.now_ms + FUTURE_MS or low < _LATEST:
            for unit, factor in _UNITS:
                rows = (largest >= _EARLIEST * factor) & (largest < _LATEST * factor)
                text = f"a timestamp that looks like {unit}, where Kafka takes milliseconds"
                self._add(Kind.TIMESTAMP_UNIT, rows, chunk, path=path, text=text, factor=factor)
                largest = np.where(rows, 0, largest)
            rows = largest > self.now_ms + FUTURE_MS
            self._add(Kind.TIMESTAMP_FUTURE, rows, chunk, path=path, text="a timestamp from the future", factor=None)

    def _add(self, kind: Kind, rows: NDArray[np.bool_], chunk: Chunk, path: str, text: str, factor: int | None) -> None:
        count = int(np.count_nonzero(rows))
        if not count:
            return
        self._counts[kind, path] = self._counts.get((kind, path), 0) + count
        row = int(np.argmax(rows))
        time = int(chunk.batches.max_timestamp[row])
        expected = f"{_time(self.now_ms)} at most" if factor is None else f"{time * 1000 // factor}"
        position, offset = int(chunk.positions[row]), int(chunk.batches.entry_offset[row])
        finding = kind.at(
            path,
            text,
            severity="warning",
            position=position,
            offset=offset,
            expected=expected,
            found=f"{time}, which is {_time(time)}",
        )
        self._first.setdefault((kind, path), finding)

    def findings(self) -> Iterator[Finding]:
        """One for each kind in each file, at its first batch."""
        for key, finding in self._first.items():
            count = self._counts[key]
            yield finding if count == 1 else replace(finding, message=f"{finding.message}, in {count} batches")


def _time(milliseconds: int) -> str:
    return f"{np.datetime_as_string(np.datetime64(milliseconds, 'ms'), unit='s')}Z"
