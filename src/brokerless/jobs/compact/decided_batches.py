"""Finds batches that need not be decoded again: those whose records all stay, or all go, as their keys say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.format.arrays import Bools
from brokerless.format.filter import WholeBatches
from brokerless.format.read.batch_headers import Batches
from brokerless.jobs.compact.row_flags import RowFlags

_FEWEST = 16
"""So many neighbours that stay are copied unchanged; fewer are decoded with those around them."""


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Batches in order, which are either all written unchanged or all decoded."""

    batches: Batches
    is_intact: bool
    """Whether they are neighbours that stay unchanged; others have to be decoded."""
    superseded: Bools | None
    """The flags of the rows of batches that are decoded (bool); None where those are not known yet."""


@dataclass(frozen=True, slots=True)
class DecidedRuns:
    """Runs of batches to write, and counts of what goes."""

    runs: tuple[BatchRun, ...]
    gone: int
    """How many batches have no record that stays, and are in none of ``runs``."""
    gone_records: int
    """How many records these batches have."""
    gone_bytes: int
    """The size of these batches in bytes."""


class DecidedBatches:
    """Knows which batches are plain: of which nothing but the keys of their records decides what becomes of them."""

    def __init__(self) -> None:
        self._plain = RowFlags()

    def note(self, number: int, whole: WholeBatches, chosen: Bools) -> None:
        """Follows the batches from ``number`` on; ``chosen``: the rows whose keys supersede others."""
        batches, counts, rows = whole.batches, whole.counts, whole.columns.rows
        decided = whole.rows_of(chosen & (whole.columns.value_null[:rows] == 0))
        plain = ~batches.is_legacy & ~batches.is_control & ~batches.has_delete_horizon
        self._plain.set(number, plain & (counts > 0) & (decided == counts) & (batches.count == counts))

    def runs(self, number: int, batches: Batches, superseded: Bools, stays_empty: Bools) -> DecidedRuns:
        """Return what to do with batches of v2, the first of which has this number. ``superseded``: a flag for each of
        their rows; ``stays_empty``: for each batch, whether it is retained without records."""
        plain, counts = self._plain.get(number, len(batches)), batches.count.astype(np.int64)
        ends = np.cumsum(counts)
        sums = np.concatenate([[0], np.cumsum(superseded)])
        lost = sums[ends] - sums[ends - counts]
        gone, stays = plain & (lost == counts) & ~stays_empty, plain & (lost == 0)
        firsts = np.flatnonzero(np.diff(stays, prepend=False))
        bounds = [each for each in _pairs(firsts, len(stays)) if each[1] - each[0] >= _FEWEST]
        runs: list[BatchRun] = []
        at = 0
        for start, end in (*bounds, (len(batches), len(batches))):
            rows = np.flatnonzero(~gone[at:start]) + at
            if len(rows):
                flags = superseded[_rows_of(rows, ends, counts)] if len(rows) < start - at else None
                every = superseded[int(ends[at] - counts[at]) : int(ends[start - 1])]
                runs.append(BatchRun(batches.take(rows), False, every if flags is None else flags))
            if end > start:
                runs.append(BatchRun(batches.take(slice(start, end)), True, None))
            at = end
        return DecidedRuns(tuple(runs), int(gone.sum()), int(counts[gone].sum()), int(batches.sizes[gone].sum()))


def _pairs(changes: NDArray[np.int64], count: int) -> list[tuple[int, int]]:
    """Return the bounds of each run of true flags."""
    edges = changes.tolist()
    if len(edges) % 2:
        edges.append(count)
    return list(zip(edges[::2], edges[1::2], strict=True))


def _rows_of(batches: NDArray[np.int64], ends: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of the rows of some batches."""
    chosen = counts[batches]
    starts = np.cumsum(chosen) - chosen
    return np.repeat(ends[batches] - chosen - starts, chosen) + np.arange(int(chosen.sum()))
