"""Finds the offsets that could not be saved, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from brokerless.format.arrays import RowNumbers
from brokerless.jobs.recovered.damaged_regions import BoundedList, PlacedRegion, Region

NOT_THERE = "no-such-offsets"
"""The cause where no bytes are damaged: a segment is missing, or its end is."""
TO_THE_END = 1 << 62
"""Stands for the offset before which a region was that is at the end of the log."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets that were not saved."""

    first_offset: int
    last_offset: int | None
    """The last of the offsets; None where nothing shows how far the log went."""
    after: int | None
    """The timestamp (ms) of what was saved before them, if anything was."""
    before: int | None
    """The timestamp (ms) of what was saved after them, if anything was."""
    regions: tuple[Region, ...]
    """The damaged bytes that were there; none if whole files are missing."""
    upper_bound: bool = False
    """Whether compaction may have taken some of these offsets."""
    missing: int | None = None
    """How many of the offsets were not saved, where that is not all, as several gaps are reported as one."""
    gaps: int = 1
    """How many gaps are reported as this one."""

    @property
    def offsets(self) -> int | None:
        if self.last_offset is None or self.missing is not None:
            return self.missing
        return self.last_offset + 1 - self.first_offset

    @property
    def bytes(self) -> int:
        return sum(region.size for region in self.regions)

    @property
    def causes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(region.kind for region in self.regions)) or (NOT_THERE,)


def find_losses(
    saved: NDArray[np.void],
    regions: Sequence[PlacedRegion],
    start_offset: int,
    end_offset: int,
    is_compacted: bool,
    is_end_empty: bool = False,
) -> Iterator[Loss]:
    """Yield what is missing in ``[start_offset, end_offset)``, in order.

    ``is_end_empty``: nothing says that a record was between the last one and ``end_offset``, where a segment begins
    that is empty: then compaction may have taken all before it.

    ``saved``: intact batches by offset. ``regions``: what is damaged, each with the offset before which it was in its
    file, or :data:`TO_THE_END`. Where there is no damage, a compacted log is not expected to have every offset, and
    none is missing between adjacent batches.
    """
    first = np.append(saved["first"], max(end_offset, int(saved["last"][-1]) + 1 if len(saved) else start_offset))
    end = np.concatenate([[start_offset], saved["last"] + 1])
    rows = np.flatnonzero((first > end) & (first > start_offset))
    spans = _Spans(regions, start_offset)
    begins, stops = spans.candidates(end[rows], first[rows])
    is_normal = np.append(are_side_by_side(saved) | is_compacted, is_compacted and is_end_empty)[rows]
    is_listed = ~is_normal | (begins < stops)
    listed: set[Region] = set()
    for at in np.flatnonzero(is_listed).tolist():
        row = int(rows[at])
        inside = spans.inside(int(begins[at]), int(stops[at]), int(end[row]))
        if not inside and is_normal[at]:
            continue
        listed.update(inside)
        begin, last, is_last = max(int(end[row]), start_offset), int(first[row]) - 1, row == len(saved)
        yield Loss(begin, last, *_around(saved, row), inside, is_compacted and not is_last)
    tail = tuple(region for region in spans.tail if region not in listed)
    if any(not region.is_empty for region in tail):
        yield Loss(int(first[-1]), None, *_around(saved, len(saved)), tail)


def are_side_by_side(saved: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return whether each is directly after the one before it in a file, so that no bytes can be missing; bool."""
    found = np.zeros(len(saved), np.bool_)
    same_file = saved["file"][1:] == saved["file"][:-1]
    found[1:] = same_file & (saved["position"][1:] == saved["position"][:-1] + saved["size"][:-1])
    return found


class _Spans:
    """The offsets ``[low, high)`` that lost regions had, as far as the batches next to them show."""

    def __init__(self, regions: Sequence[PlacedRegion], start_offset: int) -> None:
        spans = [(start_offset if region.after is None else region.after, before) for region, before in regions]
        low = np.array([min(span) for span in spans], np.int64)
        order = np.argsort(low, kind="stable")
        self._regions = [regions[row][0] for row in order.tolist()]
        self._rank = order
        self._low, self._high = low[order], np.array([max(span) for span in spans], np.int64)[order]
        self._reach = np.maximum.accumulate(self._high)

    def candidates(self, first: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[RowNumbers, RowNumbers]:
        """Return which of them may have offsets in common with each of some ``[first, end)``; none where the first is
        not before the second."""
        return np.searchsorted(self._reach, first, side="right"), np.searchsorted(self._low, end)

    def inside(self, begin: int, stop: int, first: int) -> tuple[Region, ...]:
        """Those among candidates that reach beyond ``first``, as they were given."""
        return self._take(np.flatnonzero(self._high[begin:stop] > first) + begin)

    @property
    def tail(self) -> tuple[Region, ...]:
        """Those after which nothing is, as they were given."""
        return self._take(np.flatnonzero(self._high == TO_THE_END))

    def _take(self, rows: RowNumbers) -> tuple[Region, ...]:
        return tuple(self._regions[row] for row in rows[np.argsort(self._rank[rows])].tolist())


def summed(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Return the losses in bounded memory: neighbours are reported as one where there are too many."""
    bounded = BoundedList(_together, lambda loss: (loss.last_offset is None, loss.upper_bound), lambda loss: loss.gaps)
    bounded.add(losses)
    return tuple(bounded.items)


def _together(one: Loss, other: Loss) -> Loss:
    return replace(
        one,
        last_offset=other.last_offset,
        before=other.before,
        regions=tuple(dict.fromkeys((*one.regions, *other.regions))),
        missing=(one.offsets or 0) + (other.offsets or 0),
        gaps=one.gaps + other.gaps,
    )


def _around(saved: NDArray[np.void], row: int) -> tuple[int | None, int | None]:
    after = int(saved["max_timestamp"][row - 1]) if row else None
    before = int(saved["base_timestamp"][row]) if row < len(saved) else None
    return after, before
