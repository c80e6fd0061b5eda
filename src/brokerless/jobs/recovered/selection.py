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
    offsets. ``cut``: those of ``taken`` of which only some offsets are, as other batches have the rest."""

    taken: Rows
    misplaced: Rows
    repeated: Rows
    overlapping: Rows
    cut: Rows


def choose(
    intact: NDArray[np.void], base_offsets: NDArray[np.int64], checkpointed_end: int | None = None
) -> BatchSelection:
    """Chooses among all intact batches of a partition, which are in the order of preference: by file, then position.

    ``base_offsets``: that of each file by its name. ``checkpointed_end``: where the log ends by its log directory's
    checkpoints, if they say so. ``first``, ``last`` and ``partial`` of batches of which only a part is taken are
    changed.
    """
    wrong = _misplaced(intact, base_offsets, checkpointed_end)
    good = np.flatnonzero(~wrong)
    good = good[np.argsort(intact["first"][good], kind="stable")]
    first, last = intact["first"][good], intact["last"][good]
    reach = np.maximum.accumulate(last)
    begins = np.ones(len(good), np.bool_)  # a cluster of batches that have offsets in common
    begins[1:] = first[1:] > reach[:-1]
    taken = np.ones(len(good), np.bool_)
    parts: list[tuple[int, int, int]] = []
    starts = np.flatnonzero(begins)
    sizes = np.diff(np.append(starts, len(good)))
    supported = _is_supported(intact, base_offsets)
    for start, size in zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        rows = good[start : start + size]
        taken[start : start + size] = _take_each_offset_once(intact, rows, supported, parts)
    chosen, rest = good[taken], good[~taken]
    known = {_identity(intact, row) for row in chosen[np.isin(intact["first"][chosen], intact["first"][rest])].tolist()}
    repeated = np.array([_identity(intact, row) in known for row in rest.tolist()], np.bool_)
    for row, begin, end in parts:
        intact["partial"][row], intact["complete"][row] = True, False
        intact["first"][row], intact["last"][row] = begin, end
        intact["records"][row] = min(int(intact["records"][row]), end - begin + 1)
    cut = np.array([row for row, _, _ in parts], np.int64)
    chosen = chosen[np.argsort(intact["first"][chosen], kind="stable")]
    return BatchSelection(chosen, np.flatnonzero(wrong), np.sort(rest[repeated]), np.sort(rest[~repeated]), cut)


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
    wrong &= ~_is_near_past_last(intact)
    # Indexes have no more bits for an offset in its segment; but cleaners before 1.0 left such (KAFKA-6264), in order.
    bases = np.append(np.sort(base_offsets), _NONE)
    end_of_file = bases[np.searchsorted(bases[:-1], base, side="right")]
    is_in_order = (before | begins_file) & (end <= first) & (last < np.where(has_next, following, end_of_file))
    wrong |= (last - base > MAX_INT32) & ~is_in_order
    if checkpointed_end is not None:
        # With no batch and no file after it, nothing speaks for a leap to where the log has never been; but a batch
        # that fits into it does, whatever its offset is.
        is_last = before & ~has_next & (base == base_offsets.max()) & (first > end) & (first >= checkpointed_end)
        is_last[1:] &= ~wrong[:-1]
        for row in np.flatnonzero(is_last).tolist():
            in_file = intact["file"][:row] == intact["file"][row]
            wrong[row] |= first[row] > last[:row][in_file].max() + 1  # where the log ends, if batches overlap
    return wrong


def _is_near_past_last(intact: NDArray[np.void]) -> NDArray[np.bool_]:
    """Whether a batch, or the one before or after it, has records past its last offset: their base offset is wrong as
    well, but it is what a broker has assigned."""
    near = intact["past_last"].copy()
    near[1:] |= intact["past_last"][:-1]
    near[:-1] |= intact["past_last"][1:]
    return near


def _is_supported(intact: NDArray[np.void], base_offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a file shows that a batch belongs where it is: it begins the file at its base offset, or a neighbour
    goes on where it ends, or ends where it begins, or it has offsets in common with such a batch directly before it
    and goes on after it (KAFKA-19407)."""
    if not len(intact):
        return np.zeros(0, np.bool_)
    before, has_next, end, following = _neighbours(intact)
    first, last = intact["first"], intact["last"]
    first_before = np.append(_NONE, first[:-1])
    overlaps = before & (first_before <= first) & (first < end) & (last >= end)
    begins_file = (intact["position"] == 0) & (first == base_offsets[intact["file"]])
    shown = (before & (end == first)) | (has_next & (following == last + 1)) | begins_file | intact["past_last"]
    shown |= before & (end < first) & np.append(overlaps[1:], False)
    # Wrong offsets overlap as well: an overlap counts only after a batch that belongs where it is.
    rows = np.arange(len(intact))
    return shown[np.maximum.accumulate(np.where(shown | ~overlaps, rows, 0))]


def _take_each_offset_once(
    intact: NDArray[np.void], rows: Rows, supported: NDArray[np.bool_], parts: list[tuple[int, int, int]]
) -> NDArray[np.bool_]:
    """Which of some rows are taken. ``parts`` gets those of which only some offsets are (row, first, last): a consumer
    takes the rest of a batch, from the first offset that is missing."""
    taken = np.zeros(len(rows), np.bool_)
    spans: list[tuple[int, int]] = []
    order = np.lexsort((rows, ~supported[rows]))
    for at in order.tolist():
        first, last = int(intact["first"][rows[at]]), int(intact["last"][rows[at]])
        place = bisect_right(spans, (last, MAX_INT64))
        if not place or spans[place - 1][1] < first:
            insort(spans, (first, last))
            taken[at] = True
        elif supported[rows[at]] and (part := _first_free(spans, first, last)) is not None:
            insort(spans, part)
            taken[at] = True
            parts.append((int(rows[at]), *part))
    return taken


def _first_free(spans: list[tuple[int, int]], first: int, last: int) -> tuple[int, int] | None:
    """The first run of offsets from ``first`` to ``last`` that are in none of the spans, which are in order."""
    place = max(0, bisect_right(spans, (first, MAX_INT64)) - 1)
    for begin, end in spans[place:]:
        if begin > last or first < begin:
            break
        first = max(first, end + 1)
    following = bisect_right(spans, (first, MAX_INT64))
    last = min(last, spans[following][0] - 1) if following < len(spans) else last
    return (first, last) if first <= last else None


def _identity(intact: NDArray[np.void], row: int) -> tuple[int, ...]:
    each = intact[row]
    return int(each["first"]), int(each["last"]), int(each["size"]), int(each["checksum"])
