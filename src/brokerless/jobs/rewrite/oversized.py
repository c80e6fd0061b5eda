"""Counts batches that are larger than a segment was to be: each is alone in its own.

No setting leaves out intact records. Kafka's cleaner, too, keeps a segment that is larger than ``segment.bytes`` by
itself (``Cleaner.groupSegmentsBySize``, 4.4.0).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Kind
from brokerless.format.read.batch_headers import Batches
from brokerless.log.config import LogConfig
from brokerless.progress import Report


@dataclass(slots=True)
class OversizedBatches:
    """Those of one partition: how many, the bytes of the largest, and the offset of the first."""

    config: LogConfig
    count: int = 0
    largest: int = 0
    first_offset: int = 0

    def add(self, batches: Batches) -> None:
        self.add_sizes(batches.sizes, batches.entry_offset)

    def add_sizes(self, sizes: NDArray[np.integer], offsets: NDArray[np.integer]) -> None:
        """Counts those of some batches, by their sizes in bytes and their offsets."""
        rows = np.flatnonzero(sizes > self.config.segment_bytes)
        if not len(rows):
            return
        if not self.count:
            self.first_offset = int(offsets[rows[0]])
        self.count += len(rows)
        self.largest = max(self.largest, int(sizes[rows].max()))

    def report(self, path: str, report: Report) -> None:
        """Reports them as one finding of the partition at ``path``, if there are any."""
        if not self.count:
            return
        limit = self.config.segment_bytes
        text = (
            f"{self.count:,} batches are larger than a segment was to be, up to {self.largest:,} bytes: each is alone "
            "in its segment"
        )
        if self.count == 1:
            text = f"a batch has {self.largest:,} bytes, more than a segment was to have: it is alone in its segment"
        report(Kind.BATCH_ALONE.at(path, text, offset=self.first_offset, expected=f"at most {limit:,} bytes"))


def report_oversized(
    sizes: NDArray[np.integer], offsets: NDArray[np.integer], config: LogConfig, path: str, report: Report
) -> None:
    """Reports those of all batches of a partition."""
    oversized = OversizedBatches(config)
    oversized.add_sizes(sizes, offsets)
    oversized.report(path, report)
