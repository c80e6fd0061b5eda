"""Finds missing offsets and overlapping segments.

A log that was only appended to has every offset. Compaction leaves gaps, and other signs of itself: batches with
fewer records than offsets, or a line in the cleaner's checkpoint. Holes without any such sign are lost data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Finding, Kind
from brokerless.log.directory import SegmentPaths
from brokerless.log.offset_gaps import shows_compaction
from brokerless.log.segment import Chunk
from brokerless.offset_spans import Span

_MOST = 1000
"""Gaps that are kept to be reported one by one."""


@dataclass(slots=True)
class GapCheck:
    """Follows a partition's intact batches, and finds the offsets that are missing between them."""

    is_compacted: bool = False
    """Whether there is a sign of compaction so far, or one is known beforehand."""
    log_start_offset: int = 0
    """Only what is missing after this offset is reported, and counted in ``missing``."""
    is_always_compacted: bool = False
    """Whether the topic is compacted, so that no gap is reported."""
    absent: int = 0
    """How many offsets between batches are in no batch."""
    missing: int = 0
    """How many of the absent offsets are after the log start offset."""
    has_wrappers: bool = False
    """Whether there are wrapper messages (of v0 and v1), before which gaps do not show."""
    next_offset: int | None = None
    _found: list[Finding] = field(default_factory=list[Finding])

    def follow(self, chunk: Chunk, path: str) -> NDArray[np.int64]:
        """Return the number of absent offsets before each batch: int64, shape ``(n,)``."""
        batches = chunk.batches
        # Where records go past the last offset, it is the base offset that is too high: by as much.
        firsts = batches.entry_offset - (batches.end_of_records - batches.last_offset)
        ends = np.maximum.accumulate(batches.end_of_records + 1)
        before = np.concatenate([[firsts[0] if self.next_offset is None else self.next_offset], ends[:-1]])
        self.next_offset = int(max(before[0], ends[-1]))
        before = np.maximum(before, before[0])
        # A wrapper message does not say where it begins.
        missing = np.where(batches.is_wrapper, 0, np.maximum(firsts - before, 0))
        self.is_compacted = self.is_compacted or shows_compaction(batches)
        # Before the log start offset, nothing is missing.
        is_missing = (missing > 0) & (firsts > self.log_start_offset)
        self.missing += int((firsts - np.maximum(before, self.log_start_offset))[is_missing].sum())
        self.has_wrappers = self.has_wrappers or bool(batches.is_wrapper.any())
        for row in np.flatnonzero(is_missing)[: _MOST - len(self._found)].tolist():
            text = "offsets are missing before this batch, and nothing says that compaction took them"
            position, offset = int(chunk.positions[row]), int(firsts[row])
            expected = f"offset {max(int(before[row]), self.log_start_offset)}"
            self._found.append(
                Kind.OFFSET_GAP.at(
                    path, text, position=position, offset=offset, expected=expected, found=f"offset {offset}"
                )
            )
        sums = self.absent + np.cumsum(missing)
        self.absent = int(sums[-1])
        return sums

    def pass_over(self, missing: range, *, is_lost: bool = True) -> None:
        """Counts offsets that are reported as a missing segment, or, where nothing is lost, as one that is not read."""
        self.absent += len(missing)
        self.missing += len(missing) if is_lost else 0
        self.next_offset = missing.stop

    def pass_over_spans(self, missing: Iterable[Span]) -> None:
        """Pass over those spans of offsets in which the log goes on."""
        for first, end in missing:
            if self.next_offset is not None and first <= self.next_offset < end:
                self.pass_over(range(self.next_offset, end))

    @property
    def is_counted(self) -> bool:
        """Whether all that is missing is in ``missing``: neither compaction nor wrappers hide any of it."""
        return not (self.is_compacted or self.is_always_compacted or self.has_wrappers)

    def findings(self, last: SegmentPaths | None) -> Iterator[Finding]:
        """Yield what is missing, when all was followed; ``last`` is the last segment."""
        if self.is_compacted or self.is_always_compacted:
            return
        yield from self._found
        if last is not None and self.next_offset is not None and self.next_offset < last.base_offset:
            text = "offsets are missing before this empty segment, and nothing says that compaction took them"
            expected, found = f"offset {self.next_offset}", f"a segment that begins at {last.base_offset}"
            yield Kind.OFFSET_GAP.at(
                last.log.path, text, position=0, offset=last.base_offset, expected=expected, found=found
            )

    def at_segment(self, base_offset: int, path: str) -> Iterator[Finding]:
        """A segment begins. One that begins before the end of the last one hides the end of it: a broker looks for an
        offset in the last segment that begins at or before it."""
        if self.next_offset is None:
            self.next_offset = base_offset
        elif self.next_offset > base_offset:
            text = "the segment before this one goes on beyond where this one begins; a broker does not serve that part"
            expected, found = (
                f"a segment that begins at {self.next_offset} or later",
                f"one that begins at {base_offset}",
            )
            yield Kind.SEGMENT_OVERLAP.at(
                path, text, severity="error", offset=base_offset, expected=expected, found=found
            )
