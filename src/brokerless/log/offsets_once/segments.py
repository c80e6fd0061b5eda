"""Decides which of several segments that overlap has an offset: the first of them, or the one whose name has it.

Both are what a consumer gets: one that reads on, and one that begins at the offset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT64
from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.format.read.batch_headers import Batches
from brokerless.log.directory import SegmentPaths
from brokerless.log.live_segments import OpenSegment, open_listed
from brokerless.log.offsets_once.findings import segments_overlap
from brokerless.log.offsets_once.records import are_within, have_common, offsets_of_records
from brokerless.log.seek import last_offset
from brokerless.offset_spans import Span, union


class RepeatedOffsets(ABC):
    """What of a segment is passed over, because another segment has it."""

    base_offset: int
    is_reported: bool

    @property
    @abstractmethod
    def expected(self) -> tuple[str, str]:
        """Which offsets the segment is to have, and what has those that are passed over."""

    @abstractmethod
    def elsewhere(self, lowest: int, highest: int) -> Sequence[Span]:
        """Return what other segments have of ``lowest`` to ``highest``, in order of first offsets."""

    @abstractmethod
    def overlapping(self, batches: Batches) -> NDArray[np.bool_] | None:
        """Return which of some batches may have records that are passed over; None for none."""

    def repeated(self, batches: Batches) -> NDArray[np.bool_] | None:
        """Return which of the segment's next batches are passed over as a whole; None for none."""
        firsts, lasts = batches.entry_offset, batches.end_of_records
        if not len(batches) or not (spans := self.elsewhere(int(firsts.min()), int(lasts.max()))):
            return None
        # A wrapper's own offset is its last one.
        is_repeated = are_within(spans, firsts, lasts) & ~batches.is_wrapper
        return is_repeated if is_repeated.any() else None

    def rows(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Return which of some records are not passed over; None for all."""
        if not len(offsets) or not (spans := self.elsewhere(int(offsets.min()), int(offsets.max()))):
            return None
        is_new = ~are_within(spans, offsets, offsets)
        return None if is_new.all() else is_new

    def finding(self, path: str, position: int, first: int) -> Finding | None:
        """Return what is reported of the first batch that is passed over; None once it was."""
        if self.is_reported:
            return None
        self.is_reported = True
        expected, whose = self.expected
        return segments_overlap(path, position, first, base_offset=self.base_offset, expected=expected, whose=whose)


@dataclass
class FirstSegmentWins(RepeatedOffsets):
    """For who reads on, one segment after the other: a consumer goes on after the last offset that it got, so that what
    earlier segments have is passed over in later ones.

    Offsets outside of what a segment spans are still new: its name may be wrong, or an offset damaged.
    """

    base_offset: int = 0
    is_reported: bool = False
    highest: int = -1
    _spans: list[Span] = field(default_factory=list[Span])
    _first: int | None = None
    _before: int = -1
    _last: tuple[int, int] = (0, -1)
    _reach: int = -1

    def begin(self, opened: OpenSegment) -> None:
        """Goes on to a segment. Of one that has taken the place of others that were read, nothing is wrong where their
        offsets come again."""
        if self._first is not None:
            # A damaged offset is most likely that of a single batch, which must not hide the next segment.
            is_beyond = self._first <= self._before < opened.segment.base_offset <= self._last[1]
            spans = [(self._first, self._before + 1)] if is_beyond else [(self._first, self._last[1] + 1)]
            spans += [(self._last[0], self._last[1] + 1)] if is_beyond else []
            self._add(spans)
            self.highest = max(self.highest, *(end - 1 for _, end in spans))
        self.base_offset, self._first, self.is_reported = opened.segment.base_offset, None, opened.is_merged

    def end(self, opened: OpenSegment) -> None:
        """Ends a segment. Where its headers reach into the next one, it is read again for the offsets that its records
        have: of a batch whose last records a cleaner removed, the header says more."""
        following = opened.next_base_offset
        if self._first is None or following is None or following > self._reach:
            return
        self._add([(self._first, following), *offsets_of_records(opened.file, following)])
        self.highest = max([self.highest, *(end - 1 for _, end in self._spans)])
        self._first = None

    def _add(self, spans: Sequence[Span]) -> None:
        """Adds what a segment has, and keeps it apart: a batch is passed over as a whole if one segment has it."""
        self._spans = sorted([*self._spans, *(each for each in spans if each[0] < each[1])])

    @property
    def expected(self) -> tuple[str, str]:
        return f"an offset above {self.highest}", "an earlier segment has"

    def elsewhere(self, lowest: int, highest: int) -> Sequence[Span]:
        return self._spans if lowest <= self.highest else ()

    def overlapping(self, batches: Batches) -> NDArray[np.bool_] | None:
        firsts = np.where(batches.is_wrapper, 0, batches.entry_offset)
        if not len(batches) or not self._spans or int(firsts.min()) > self.highest:
            return None
        return have_common(self._spans, firsts, batches.end_of_records)

    def repeated(self, batches: Batches) -> NDArray[np.bool_] | None:
        """Return which batches are repeated, and remember what this segment has."""
        found = super().repeated(batches)
        if not len(batches):
            return None
        firsts, lasts = batches.entry_offset, batches.end_of_records
        lowest = int(firsts.min())
        if batches.is_wrapper.any():  # whose own offset is its last one
            lowest = min(lowest, self.base_offset)
        before = lowest - 1 if self._first is None else self._last[1]
        self._first = lowest if self._first is None else min(self._first, lowest)
        self._before = int(lasts[-2]) if len(batches) > 1 else before
        self._last = int(firsts[-1]), int(lasts[-1])
        self._reach = max(self._reach, int(lasts.max()))
        return found


@dataclass
class NamedSegmentWins(RepeatedOffsets):
    """The rule for a reader of one segment by itself, such as a Spark task. The segment's own offsets are
    ``[base_offset, end_offset)``; others are passed over where another segment has them.

    An offset is returned by the last of the segments with an intact batch for it whose base offset is not above it, as
    to a consumer that begins there; or else by the first of the others. So a segment needs to know of others only where
    it has offsets that are not its own: of a healthy log nothing more is read.
    """

    base_offset: int
    """The offset in the segment's name."""
    end_offset: int | None
    """The offset in the next segment's name, None for the last segment."""
    list_others: Callable[[], Sequence[SegmentPaths] | None]
    """Lists the segments, in order. It returns None where ``end_offset`` begins no segment any more, as a broker has
    merged segments since the plan: then later tasks read all that is after it, by offset."""
    is_reported: bool = False
    _others: Sequence[SegmentPaths] | None = None
    _is_listed: bool = False
    _intact: dict[int, list[Span]] = field(default_factory=dict[int, list[Span]])
    _ends: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def expected(self) -> tuple[str, str]:
        until = "" if self.end_offset is None else f", below {self._end}"
        return f"an offset from {self.base_offset} on{until}", "another segment has"

    def overlapping(self, batches: Batches) -> NDArray[np.bool_] | None:
        is_outside = (batches.entry_offset < self.base_offset) | (batches.end_of_records >= self._end)
        return is_outside if is_outside.any() else None

    def elsewhere(self, lowest: int, highest: int) -> Sequence[Span]:
        if self.base_offset <= lowest and highest < self._end:
            return ()
        if not self._is_listed:
            self._others, self._is_listed = self.list_others(), True
        if self._others is None:
            return [(self._end, MAX_INT64)]
        found: list[Span] = []
        for each in self._others:
            base = each.base_offset
            if base < self.base_offset and lowest < self.base_offset:
                found += _clip(self._offsets_of(each, lowest), 0, self.base_offset)
            elif self.base_offset < base <= highest:
                found += _clip(self._offsets_of(each, lowest), base, None)
        return union(found)

    @property
    def _end(self) -> int:
        return MAX_INT64 if self.end_offset is None else self.end_offset

    def _offsets_of(self, segment: SegmentPaths, first: int) -> list[Span]:
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
