"""Decides which of several overlapping segments' records a query returns, although each is read by a task of its
own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.format.read.batch_headers import Batches
from brokerless.log.directory import SegmentPaths
from brokerless.log.live_segments import open_listed
from brokerless.log.offset_checks import offsets_of_records, overlap
from brokerless.log.seek import last_offset
from brokerless.offset_spans import Span, union


@dataclass
class OverlappingSegments:
    """Passes over offsets outside of ``[base_offset, end_offset)``, a segment's own by its name and the next one's
    (None for the last), where another segment returns them.

    An offset is returned by the last of the segments with an intact batch for it whose base offset is not above it, as
    to a consumer that begins there; or else by the first of the others. So a segment needs to know of others only
    where it has offsets that are not its own: of a healthy log nothing more is read. ``list_others``: lists the
    segments, in order; None where ``end_offset`` begins none any more, as a broker has merged segments since the plan:
    then later tasks read all that is after it, by offset.
    """

    base_offset: int
    end_offset: int | None
    list_others: Callable[[], Sequence[SegmentPaths] | None]
    _others: Sequence[SegmentPaths] | None = None
    _is_listed: bool = False
    _intact: dict[int, list[Span]] = field(default_factory=dict[int, list[Span]])
    _ends: dict[int, int] = field(default_factory=dict[int, int])
    _is_reported: bool = False

    def repeated(self, batches: Batches) -> NDArray[np.bool_] | None:
        """Return which of the segment's batches are returned by another segment; None for none."""
        firsts, lasts = batches.entry_offset, batches.end_of_records
        if not len(batches) or self._are_own(int(firsts.min()), int(lasts.max())):
            return None
        is_repeated = np.zeros(len(batches), np.bool_)
        outside = np.flatnonzero((firsts < self.base_offset) | (lasts >= self._end))
        elsewhere = self._returned_elsewhere(int(firsts[outside].min()), int(lasts[outside].max()))
        if not elsewhere:
            return None
        starts, ends = np.array(elsewhere, np.int64).T
        span = np.searchsorted(starts, firsts[outside], side="right") - 1
        is_repeated[outside] = (span >= 0) & (lasts[outside] < ends[span])
        is_repeated &= ~batches.is_wrapper  # whose own offset is its last one
        return is_repeated if is_repeated.any() else None

    def overlapping(self, batches: Batches) -> NDArray[np.bool_] | None:
        """Return which of some batches have offsets that are not the segment's own; None for none."""
        is_outside = (batches.entry_offset < self.base_offset) | (batches.end_of_records >= self._end)
        return is_outside if is_outside.any() else None

    def rows(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Return which of some records are returned; None for all."""
        if not len(offsets) or self._are_own(int(offsets.min()), int(offsets.max())):
            return None
        is_returned = np.ones(len(offsets), np.bool_)
        outside = offsets[(offsets < self.base_offset) | (offsets >= self._end)]
        for first, end in self._returned_elsewhere(int(outside.min()), int(outside.max())):
            is_returned &= (offsets < first) | (offsets >= end)
        return None if is_returned.all() else is_returned

    def finding(self, path: str, position: int, first: int) -> Finding | None:
        """Return what is reported of the first batch that is passed over, once."""
        if self._is_reported:
            return None
        self._is_reported = True
        expected = f"an offset from {self.base_offset} on" + ("" if self.end_offset is None else f", below {self._end}")
        return overlap(
            path, position, first, base_offset=self.base_offset, expected=expected, whose="another segment has"
        )

    @property
    def _end(self) -> int:
        return np.iinfo(np.int64).max if self.end_offset is None else self.end_offset

    def _are_own(self, lowest: int, highest: int) -> bool:
        return self.base_offset <= lowest and highest < self._end

    def _returned_elsewhere(self, first: int, last: int) -> list[Span]:
        """The spans of offsets around ``first`` to ``last`` that other segments return."""
        if not self._is_listed:
            self._others, self._is_listed = self.list_others(), True
        if self._others is None:
            return [(self._end, np.iinfo(np.int64).max)]
        found: list[Span] = []
        for each in self._others:
            base = each.base_offset
            if base < self.base_offset and first < self.base_offset:
                found += _clip(self._spans(each, first), 0, self.base_offset)
            elif self.base_offset < base <= last:
                found += _clip(self._spans(each, first), base, None)
        return union(found)

    def _spans(self, segment: SegmentPaths, first: int) -> list[Span]:
        """Return the offsets of a segment's intact records; none where it ends before ``first``."""
        base = segment.base_offset
        try:
            if base not in self._ends:
                with open_listed(segment, True) as file:
                    last = last_offset(file, segment)
                self._ends[base] = -1 if last is None else last
            if self._ends[base] < first:
                return []
            if base not in self._intact:
                with open_listed(segment, True) as file:
                    self._intact[base] = offsets_of_records(file)
        except UnreadableError:  # which the task that reads it reports
            return []
        return self._intact[base]


def _clip(spans: Sequence[Span], start: int, end: int | None) -> list[Span]:
    return [(max(one, start), two if end is None else min(two, end)) for one, two in spans]
