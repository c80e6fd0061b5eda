"""Detects batches with impossible base offsets, which no checksum covers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import Finding
from brokerless.format.read.batch_headers import Batches
from brokerless.log.ranges import Span
from brokerless.log.segment import Chunk


def not_above(path: str, position: int, first: int, highest: int, text: str | None = None) -> Finding:
    """A batch that begins at or below an offset that was there before. Kafka's reader gives its records all the
    same."""
    text = text or "offsets do not go up: a batch begins at or below an offset that was there before"
    expected = f"an offset above {highest}"
    return Finding("warning", "offset-order", path, position, first, text, expected, str(first))


def misplaced(path: str, position: int, first: int, last: int, start: int, end: int) -> Finding:
    """A batch whose offsets, which no checksum covers, are outside of ``[start, end)``, those that can be here."""
    text = "left out: the offsets of this batch cannot be here (brokerless salvage may find where they belong)"
    expected = f"offsets from {start} to {end - 1}"
    return Finding("error", "offset-order", path, position, first, text, expected, f"{first} to {last}")


def all_misplaced(path: str, chunk: Chunk, valid: NDArray[np.bool_], span: Span) -> Iterator[Finding]:
    """The batches of a chunk that are outside of a span. Where reading begins too early, as such a batch looked like
    the first of the span, what comes before it was reported with the span before."""
    batches, is_within = chunk.batches, span.range.batches(chunk.batches)
    known = 0
    if len(batches) and chunk.positions[0] == span.start:
        rows = np.flatnonzero(is_within & valid)
        leading = slice(0, int(rows[0]) if len(rows) else len(batches))
        passed = np.flatnonzero(valid[leading] & (batches.last_offset[leading] < span.start_offset))
        known = int(passed[-1]) + 1 if len(passed) else 0
    for row in known + np.flatnonzero((valid & ~is_within)[known:]):
        position, first, last = chunk.positions[row], batches.entry_offset[row], batches.last_offset[row]
        yield misplaced(path, int(position), int(first), int(last), span.start_offset, span.end_offset)


def overlap(
    path: str, position: int, first: int, base_offset: int, expected: str, whose: str = "an earlier segment has"
) -> Finding:
    """A batch that is passed over. A broker refuses a segment that begins below its base offset."""
    text = f"passed over: from this batch on, offsets are repeated that {whose}"
    severity = "error" if first < base_offset else "warning"
    return Finding(severity, OFFSET_ORDER, path, position, first, text, expected, str(first))


OFFSET_ORDER = "offset-order"


class RepeatedOffsets(Protocol):
    """What of a segment is passed over, as another one returns it."""

    def repeated(self, batches: Batches, /) -> NDArray[np.bool_] | None:
        """Which of the segment's next batches are; None for none."""
        ...

    def rows(self, offsets: NDArray[np.int64], /) -> NDArray[np.bool_] | None:
        """Which of some records are not; None for all."""
        ...

    def finding(self, path: str, position: int, first: int, /) -> Finding | None:
        """What is reported of the first batch that is; None once it was."""
        ...


@dataclass
class SeenOffsets:
    """Offsets that the segments so far have. A consumer goes on after the last offset that it got, so that of segments
    that overlap it gets each offset once: what earlier segments have is passed over in later ones.

    Offsets outside of what a segment spans are still new: its name may be wrong, or an offset damaged.
    """

    highest: int = -1
    _spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    _base_offset: int = 0
    _first: int | None = None
    _before: int = -1
    _last: tuple[int, int] = (0, -1)
    _is_reported: bool = False

    def begin(self, base_offset: int) -> None:
        """Goes on to the segment with this base offset."""
        if self._first is not None:
            # A damaged offset is most likely that of a single batch, which must not hide the next segment.
            is_beyond = self._first <= self._before < base_offset <= self._last[1]
            spans = [(self._first, self._before), self._last] if is_beyond else [(self._first, self._last[1])]
            self._spans += spans
            self.highest = max(self.highest, *(last for _, last in spans))
        self._base_offset, self._first, self._is_reported = base_offset, None, False

    def repeated(self, batches: Batches) -> NDArray[np.bool_] | None:
        """Which of a segment's next batches are wholly among the offsets of earlier segments; None for none."""
        firsts, lasts = batches.entry_offset, batches.last_offset
        if not len(batches):
            return None
        is_repeated, lowest = None, int(firsts.min())
        if lowest <= self.highest:
            is_repeated = np.zeros(len(batches), np.bool_)
            for first, last in self._overlapping(lowest, int(lasts.max())):
                is_repeated |= (firsts >= first) & (lasts <= last)
        before = lowest - 1 if self._first is None else self._last[1]
        self._first = lowest if self._first is None else min(self._first, lowest)
        self._before = int(lasts[-2]) if len(batches) > 1 else before
        self._last = int(firsts[-1]), int(lasts[-1])
        return is_repeated if is_repeated is not None and is_repeated.any() else None

    def rows(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which of some records are new; None for all."""
        if not self._spans or not len(offsets) or int(offsets.min()) > self.highest:
            return None
        is_new = np.ones(len(offsets), np.bool_)
        for first, last in self._overlapping(int(offsets.min()), int(offsets.max())):
            is_new &= (offsets < first) | (offsets > last)
        return None if is_new.all() else is_new

    def _overlapping(self, first: int, last: int) -> list[tuple[int, int]]:
        return [each for each in self._spans if each[0] <= last and each[1] >= first]

    def finding(self, path: str, position: int, first: int) -> Finding | None:
        """What is reported of a segment's first batch that is passed over."""
        if self._is_reported:
            return None
        self._is_reported = True
        return overlap(path, position, first, self._base_offset, f"an offset above {self.highest}")
