"""What is missing between what was saved, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.jobs.salvages.sound import Region

NOT_THERE = "no-such-offsets"
"""The cause where no bytes are damaged: a segment is missing, or its end is."""
TO_THE_END = 1 << 62
"""Stands for the offset before which a region was that is at the end of the log."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets that were not saved: ``first_offset`` to ``last_offset``, which is None where nothing tells how far the
    log went. ``after`` and ``before``: the timestamps (ms) of what was saved around it, if any. ``regions``: the
    damaged bytes that were there; none if whole files are missing. ``upper_bound``: compaction may have taken some of
    these offsets."""

    first_offset: int
    last_offset: int | None
    after: int | None
    before: int | None
    regions: tuple[Region, ...]
    upper_bound: bool = False

    @property
    def offsets(self) -> int | None:
        return None if self.last_offset is None else self.last_offset + 1 - self.first_offset

    @property
    def bytes(self) -> int:
        return sum(region.size for region in self.regions)

    @property
    def causes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(region.kind for region in self.regions)) or (NOT_THERE,)


def find_losses(
    saved: NDArray[np.void],
    regions: Sequence[tuple[Region, int]],
    start_offset: int,
    end_offset: int,
    is_compacted: bool,
) -> list[Loss]:
    """What is missing in ``[start_offset, end_offset)``, in order.

    ``saved``: sound batches by offset. ``regions``: what is damaged, each with the offset before which it was in its
    file, or :data:`TO_THE_END`. Where there is no damage, a compacted log is
    not expected to have every offset, and none is missing between batches that are side by side.
    """
    spans = [(region, *_span(region, before, start_offset)) for region, before in regions]
    first = np.append(saved["first"], max(end_offset, int(saved["last"][-1]) + 1 if len(saved) else start_offset))
    end = np.concatenate([[start_offset], saved["last"] + 1])
    side_by_side = are_side_by_side(saved)
    losses: list[Loss] = []
    told: set[Region] = set()
    for row in np.flatnonzero(first > end).tolist():
        if first[row] <= start_offset:
            continue
        inside = tuple(region for region, low, high in spans if low < first[row] and high > end[row])
        if not inside and row < len(saved) and (is_compacted or side_by_side[row]):
            continue
        told.update(inside)
        times = _around(saved, row)
        begin = max(int(end[row]), start_offset)
        losses.append(Loss(begin, int(first[row]) - 1, *times, inside, is_compacted and row < len(saved)))
    tail = tuple(region for region, _, high in spans if high == TO_THE_END and region not in told)
    if any(not region.is_empty for region in tail):
        losses.append(Loss(int(first[-1]), None, *_around(saved, len(saved)), tail))
    return losses


def are_side_by_side(saved: NDArray[np.void]) -> NDArray[np.bool_]:
    """Whether each is right behind the one before it in a file, so that no bytes can be missing; bool."""
    found = np.zeros(len(saved), np.bool_)
    same_file = saved["file"][1:] == saved["file"][:-1]
    found[1:] = same_file & (saved["position"][1:] == saved["position"][:-1] + saved["size"][:-1])
    return found


def _span(region: Region, before: int, start_offset: int) -> tuple[int, int]:
    """The offsets ``[low, high)`` that were in a region, as far as its neighbours tell."""
    after = start_offset if region.after is None else region.after
    return (after, before) if after <= before else (before, after)


def _around(saved: NDArray[np.void], row: int) -> tuple[int | None, int | None]:
    after = int(saved["max_timestamp"][row - 1]) if row else None
    before = int(saved["base_timestamp"][row]) if row < len(saved) else None
    return after, before
