"""Selects the recovered batches for one log: each offset once, and no impossible offset.

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
    """Rows of the intact batches, int64. ``taken``: those of the log, by offset. ``misplaced``: their offsets cannot be
    right. ``repeated``: the same batch was taken from another place. ``overlapping``: other batches have their
    offsets."""

    taken: Rows
    misplaced: Rows
    repeated: Rows
    overlapping: Rows


def choose(
    intact: NDArray[np.void], base_offsets: NDArray[np.int64], checkpointed_end: int | None = None
) -> BatchSelection:
    """Chooses among all intact batches of a partition, which are in the order of preference: by file, then position.

    ``base_offsets``: that of each file by its name. ``checkpointed_end``: where the log ends by its log directory's
    checkpoints, if they say so.
    """
    wrong = _misplaced(intact, base_offsets, checkpointed_end)
    good = np.flatnonzero(~wrong)
    good = good[np.argsort(intact["first"][good], kind="stable")]
    first, last = intact["first"][good], intact["last"][good]
    reach = np.maximum.accumulate(last)
    begins = np.ones(len(good), np.bool_)  # a cluster of batches that have offsets in common
    begins[1:] = first[1:] > reach[:-1]
    taken = np.ones(len(good), np.bool_)
    starts = np.flatnonzero(begins)
    sizes = np.diff(np.append(starts, len(good)))
    supported = _is_supported(intact)
    for start, size in zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        rows = good[start : start + size]
        taken[start : start + size] = _take_each_offset_once(intact, rows, supported)
    chosen, rest = good[taken], good[~taken]
    known = {_identity(intact, row) for row in chosen[np.isin(intact["first"][chosen], intact["first"][rest])].tolist()}
    repeated = np.array([_identity(intact, row) in known for row in rest.tolist()], np.bool_)
    return BatchSelection(chosen, np.flatnonzero(wrong), np.sort(rest[repeated]), np.sort(rest[~repeated]))


def _neighbours(intact: NDArray[np.void]) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Rows, Rows]:
    """Whether an intact batch is right before and directly after each; where it ends, and where it begins, as
    offsets."""
    before = intact["follows"]
    has_next = np.append(before[1:], False)
    end = np.append(_NONE, intact["last"][:-1] + 1)
    following = np.append(intact["first"][1:], _NONE)
    return before, has_next, end, following


def _misplaced(
    intact: NDArray[np.void], base_offsets: NDArray[np.int64], checkpointed_end: int | None
) -> NDArray[np.bool_]:
    if not len(intact):
        return np.zeros(0, np.bool_)
    before, has_next, end, following = _neighbours(intact)
    base = base_offsets[intact["file"]]
    first, last = intact["first"], intact["last"]
    begins_file = intact["position"] == 0
    end = np.where(begins_file, base, end)
    judged = (before | begins_file) & has_next & (end <= following)
    outside = (first < end) | (last >= following)
    wrong = judged & outside & (last - first < following - end)
    wrong |= last - base > MAX_INT32  # indexes have no more bits for an offset in its segment
    if checkpointed_end is not None:
        # With no batch after it, nothing speaks for a leap to where the log has never been.
        wrong |= before & ~has_next & (first > end) & (first >= checkpointed_end)
    return wrong


def _is_supported(intact: NDArray[np.void]) -> NDArray[np.bool_]:
    """Whether a neighbour in the file goes on where a batch ends, or ends where it begins."""
    before, has_next, end, following = _neighbours(intact)
    return (before & (end == intact["first"])) | (has_next & (following == intact["last"] + 1))


def _take_each_offset_once(intact: NDArray[np.void], rows: Rows, supported: NDArray[np.bool_]) -> NDArray[np.bool_]:
    taken = np.zeros(len(rows), np.bool_)
    spans: list[tuple[int, int]] = []
    order = np.lexsort((rows, ~supported[rows]))
    for at in order.tolist():
        first, last = int(intact["first"][rows[at]]), int(intact["last"][rows[at]])
        place = bisect_right(spans, (last, MAX_INT64))
        if not place or spans[place - 1][1] < first:
            insort(spans, (first, last))
            taken[at] = True
    return taken


def _identity(intact: NDArray[np.void], row: int) -> tuple[int, ...]:
    each = intact[row]
    return int(each["first"]), int(each["last"]), int(each["size"]), int(each["checksum"])
