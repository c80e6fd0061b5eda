"""Which of all sound batches make one log: each offset once, and none whose offset cannot be right.

No checksum covers a batch's offset. But its neighbours in the file know better: between two batches that are in order
and have room for it, a batch belongs into that room.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32, MAX_INT64

Rows = NDArray[np.int64]

_NONE = -1


@dataclass(frozen=True, slots=True)
class BatchSelection:
    """Rows of the sound batches, int64. ``taken``: those of the log, by offset. ``misplaced``: their offsets cannot be
    right. ``repeated``: the same batch was taken from another place. ``overlapping``: other batches have their
    offsets."""

    taken: Rows
    misplaced: Rows
    repeated: Rows
    overlapping: Rows


def choose(sound: NDArray[np.void], base_offsets: NDArray[np.int64], noted_end: int | None = None) -> BatchSelection:
    """Chooses among all sound batches of a partition, which are in the order of preference: by file, then position.

    ``base_offsets``: that of each file by its name. ``noted_end``: where the log ends by its log directory's
    checkpoints, if they say so.
    """
    wrong = _misplaced(sound, base_offsets, noted_end)
    good = np.flatnonzero(~wrong)
    good = good[np.argsort(sound["first"][good], kind="stable")]
    first, last = sound["first"][good], sound["last"][good]
    reach = np.maximum.accumulate(last)
    begins = np.ones(len(good), np.bool_)  # a cluster of batches that have offsets in common
    begins[1:] = first[1:] > reach[:-1]
    taken = np.ones(len(good), np.bool_)
    starts = np.flatnonzero(begins)
    sizes = np.diff(np.append(starts, len(good)))
    supported = _is_supported(sound)
    for start, size in zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        rows = good[start : start + size]
        taken[start : start + size] = _take_each_offset_once(sound, rows, supported)
    chosen, rest = good[taken], good[~taken]
    known = {_identity(sound, row) for row in chosen[np.isin(sound["first"][chosen], sound["first"][rest])].tolist()}
    repeated = np.array([_identity(sound, row) in known for row in rest.tolist()], np.bool_)
    return BatchSelection(chosen, np.flatnonzero(wrong), np.sort(rest[repeated]), np.sort(rest[~repeated]))


def _neighbours(sound: NDArray[np.void]) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Rows, Rows]:
    """Whether a sound batch is right before and right behind each; where it ends, and where it begins, as offsets."""
    before = sound["follows"]
    behind = np.append(before[1:], False)
    end = np.append(_NONE, sound["last"][:-1] + 1)
    following = np.append(sound["first"][1:], _NONE)
    return before, behind, end, following


def _misplaced(sound: NDArray[np.void], base_offsets: NDArray[np.int64], noted_end: int | None) -> NDArray[np.bool_]:
    if not len(sound):
        return np.zeros(0, np.bool_)
    before, behind, end, following = _neighbours(sound)
    base = base_offsets[sound["file"]]
    first, last = sound["first"], sound["last"]
    begins_file = sound["position"] == 0
    end = np.where(begins_file, base, end)
    judged = (before | begins_file) & behind & (end <= following)
    outside = (first < end) | (last >= following)
    wrong = judged & outside & (last - first < following - end)
    wrong |= last - base > MAX_INT32  # indexes have no more bits for an offset in its segment
    if noted_end is not None:
        # With no batch behind it, nothing speaks for a leap to where the log has never been.
        wrong |= before & ~behind & (first > end) & (first >= noted_end)
    return wrong


def _is_supported(sound: NDArray[np.void]) -> NDArray[np.bool_]:
    """Whether a neighbour in the file goes on where a batch ends, or ends where it begins."""
    before, behind, end, following = _neighbours(sound)
    return (before & (end == sound["first"])) | (behind & (following == sound["last"] + 1))


def _take_each_offset_once(sound: NDArray[np.void], rows: Rows, supported: NDArray[np.bool_]) -> NDArray[np.bool_]:
    taken = np.zeros(len(rows), np.bool_)
    spans: list[tuple[int, int]] = []
    order = np.lexsort((rows, ~supported[rows]))
    for at in order.tolist():
        first, last = int(sound["first"][rows[at]]), int(sound["last"][rows[at]])
        place = bisect_right(spans, (last, MAX_INT64))
        if not place or spans[place - 1][1] < first:
            insort(spans, (first, last))
            taken[at] = True
    return taken


def _identity(sound: NDArray[np.void], row: int) -> tuple[int, ...]:
    each = sound[row]
    return int(each["first"]), int(each["last"]), int(each["size"]), int(each["checksum"])
