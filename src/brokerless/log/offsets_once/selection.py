"""Selects the recovered batches for one log: each offset once, and no impossible offset.

No checksum covers a batch's offset. But its neighbours in the file know better: between two batches that are in order
and have room for it, a batch belongs into that room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.format.arrays import RowNumbers
from brokerless.offset_spans import Span, add, touching, union, without

_NONE = -1


@dataclass(frozen=True, slots=True)
class BatchSelection:
    """A selection of intact batches: the row numbers of each kind, int64."""

    taken: RowNumbers
    """Batches of the log, by offset."""
    misplaced: RowNumbers
    """Batches whose offsets cannot be right."""
    repeated: RowNumbers
    """Batches of which the same was taken from another place."""
    overlapping: RowNumbers
    """Batches whose offsets other batches have."""
    cut: RowNumbers
    """Batches in ``taken`` of which only some offsets are, as other batches have the rest."""
    lost: Mapping[int, list[Span]]
    """By row of ``overlapping``, the offsets that no batch of the log has."""


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs that files belong to, and the offsets of their records."""

    base_offsets: NDArray[np.int64]
    """The base offset in each file's name."""
    numbers: NDArray[np.int64]
    """The log of each file: one number for each directory, -1 for files that are no part of a log any more."""
    runs: Callable[[NDArray[np.void]], list[Span]]
    """Returns the offsets of the records of an intact batch (a row)."""
    checkpointed_end: int | None = None
    """Where the log ends by its log directory's checkpoints, None where they do not say so."""


def choose(intact: NDArray[np.void], logs: Logs) -> tuple[NDArray[np.void], BatchSelection]:
    """Chooses among all intact batches of a partition, which are in the order of preference: by file, then position.
    Returns them with what was chosen of them: ``first``, ``last`` and ``partial`` of batches of which only a part is
    taken are changed, and where it is several parts, the others are added at the end.
    """
    wrong = _misplaced(intact, logs.base_offsets, logs.checkpointed_end)
    good = np.flatnonzero(~wrong)
    good = good[np.argsort(intact["first"][good], kind="stable")]
    first, last = intact["first"][good], intact["last"][good]
    reach = np.maximum.accumulate(last)
    begins = np.ones(len(good), np.bool_)  # a cluster of batches that have offsets in common
    begins[1:] = first[1:] > reach[:-1]
    taken = np.ones(len(good), np.bool_)
    parts: dict[int, _BatchPart] = {}
    lost: dict[int, list[Span]] = {}
    starts = np.flatnonzero(begins)
    sizes = np.diff(np.append(starts, len(good)))
    supported = _is_supported(intact, logs.base_offsets)
    for start, size in zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        rows = good[start : start + size]
        cluster = _OverlappingBatches(intact, rows, logs)
        of_cluster = cluster.take_each_offset_once(supported)
        lost |= cluster.lost
        taken[start : start + size] = [row in of_cluster for row in rows.tolist()]
        parts |= {row: part for row, part in of_cluster.items() if part is not None}
    chosen, rest = good[taken], good[~taken]
    known = {_identity(intact, row) for row in chosen[np.isin(intact["first"][chosen], intact["first"][rest])].tolist()}
    repeated = np.array([_identity(intact, row) in known for row in rest.tolist()], np.bool_)
    overlapping = rest[~repeated & (intact["records"][rest] > 0)]
    intact, added = _with_parts(intact, parts)
    cut = np.array([row for row, part in parts.items() if not part.is_complete], np.int64)
    chosen = np.concatenate([chosen, added])
    chosen = chosen[np.argsort(intact["first"][chosen], kind="stable")]
    return intact, BatchSelection(
        chosen, np.flatnonzero(wrong), np.sort(rest[repeated]), overlapping=np.sort(overlapping), cut=cut, lost=lost
    )


@dataclass(frozen=True, slots=True)
class _BatchPart:
    """The part that is taken of a batch that is not taken unchanged."""

    offsets: list[Span]
    is_complete: bool
    """Whether all of the batch's records are taken."""


class _OverlappingBatches:
    """Batches (``rows``) that have offsets in common with others, by their headers."""

    def __init__(self, intact: NDArray[np.void], rows: RowNumbers, logs: Logs) -> None:
        self._intact, self._rows, self._logs = intact, rows, logs
        self._log_of: dict[int, int] = {row: int(logs.numbers[intact["file"][row]]) for row in rows.tolist()}
        self._found: dict[int, list[Span]] = {}
        self._are_alike = len({_identity(intact, row) for row in rows.tolist()}) == 1
        self._occupied: dict[int, list[Span]] = {log: [] for log in self._log_of.values()}
        """By log: what its batches cannot have any more."""
        self.lost: dict[int, list[Span]] = {}
        """By row: the offsets of a batch of the log that was not taken, and that no other one has."""

    def take_each_offset_once(self, supported: NDArray[np.bool_]) -> dict[int, _BatchPart | None]:
        """Return which rows are taken, and of which only parts are: a consumer takes the rest of a batch."""
        order = self._rows[np.lexsort((self._rows, ~supported[self._rows]))]
        taken = dict(self._take(order, supported))
        everything = union(span for spans in taken.values() for span in spans)
        rejected = ((row, touching(everything, *self._header(row))) for row in self.lost)
        self.lost = {row: rest for row, others in rejected if (rest := without(self.lost[row], others))}
        everything = union([*everything, *(span for spans in self.lost.values() for span in spans)])
        found: dict[int, _BatchPart | None] = {}
        for row, offsets in taken.items():
            records, header = self._records(row), self._header(row)
            is_complete = offsets == records
            gaps = [] if records == [header] else without([header], records)
            is_crowded = bool(gaps) and without(gaps, touching(everything, *header)) != gaps
            found[row] = None if is_complete and not is_crowded else _BatchPart(offsets, is_complete)
        return found

    def _take(self, order: RowNumbers, supported: NDArray[np.bool_]) -> Iterator[tuple[int, list[Span]]]:
        for row in order.tolist():
            log, records, header = self._log_of[row], self._records(row), self._header(row)
            free = without(records, touching(self._occupied[log], *header))
            if free and (free == records or supported[row]):
                for other, occupied in self._occupied.items():
                    add(occupied, free if other == log else [header])
                yield row, free
            elif free and log >= 0:
                self.lost[row] = free

    def _header(self, row: int) -> Span:
        return int(self._intact["first"][row]), int(self._intact["last"][row]) + 1

    def _records(self, row: int) -> list[Span]:
        """The offsets that a batch has. Where a cleaner removed records, what no longer is part of the log, or is of
        another replica, may have them still: there, all that the header says counts."""
        first, end = self._header(row)
        is_sparse = int(self._intact["records"][row]) < end - first and not self._intact["partial"][row]
        if self._are_alike or not is_sparse or self._log_of[row] < 0:
            return [(first, end)]
        if row not in self._found:
            self._found[row] = self._logs.runs(self._intact[row : row + 1])
        return self._found[row]


def _with_parts(intact: NDArray[np.void], parts: dict[int, _BatchPart]) -> tuple[NDArray[np.void], RowNumbers]:
    """The batches with the first part of each in its place, and the others at the end; the rows of these."""
    more: list[NDArray[np.void]] = []
    for row, part in parts.items():
        whole = intact[row : row + 1].copy()
        for at, (first, end) in enumerate(part.offsets):
            one = intact[row : row + 1] if not at else whole.copy()
            one["partial"], one["complete"] = True, part.is_complete
            one["first"], one["last"] = first, end - 1
            one["records"] = min(int(whole["records"][0]), end - first)
            more += [one] if at else []
    return np.concatenate([intact, *more]), np.arange(len(intact), len(intact) + len(more))


def _neighbours(intact: NDArray[np.void]) -> tuple[NDArray[np.bool_], NDArray[np.bool_], RowNumbers, RowNumbers]:
    """Return whether an intact batch is right before and directly after each; where it ends, and where it begins, as
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
    """Return whether a batch, or the one before or after it, has records past its last offset: their base offset is
    wrong as well, but it is what a broker has assigned."""
    near = intact["past_last"].copy()
    near[1:] |= intact["past_last"][:-1]
    near[:-1] |= intact["past_last"][1:]
    return near


def _is_supported(intact: NDArray[np.void], base_offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether a file shows that a batch belongs where it is: it begins the file at its base offset, or a
    neighbour goes on where it ends, or ends where it begins, or it has offsets in common with such a batch directly
    before it and goes on after it (KAFKA-19407)."""
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


def _identity(intact: NDArray[np.void], row: int) -> tuple[int, ...]:
    each = intact[row]
    return int(each["first"]), int(each["last"]), int(each["size"]), int(each["checksum"])
