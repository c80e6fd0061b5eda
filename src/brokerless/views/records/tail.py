"""Finds the last records of a partition without reading all of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow

ReadFrom = Callable[[int | None], Iterable[pa.RecordBatch]]
"""Reads a partition's records from an offset on; all of them from None on."""


def tail(count: int, headers: Iterable[pa.RecordBatch], read: ReadFrom) -> Iterator[pa.RecordBatch]:
    """Yield the last ``count`` records that ``read`` gives.

    ``headers``: the partition's batches, with ``lastOffset`` and ``count``. They determine where to begin; since
    some records may be filtered out (aborted, out of a range), more are read where too few came.
    """
    starts = _starts(headers)
    requested = count
    while True:
        start = _start(*starts, requested)
        kept: deque[pa.RecordBatch] = deque()
        rows = 0
        for batch in read(start):
            kept.append(batch)
            rows += batch.num_rows
            while kept and rows - kept[0].num_rows >= count:
                rows -= kept.popleft().num_rows
        if rows >= count or start is None:
            break
        requested *= 4
    if rows > count and kept:
        kept[0] = kept[0].slice(rows - count)
    yield from kept


def _starts(headers: Iterable[pa.RecordBatch]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each batch an offset that it does not begin before, and how many records there are from it on; at least, as a
    wrapper message counts as one."""
    lasts: list[int] = [-1]
    counts: list[int] = []
    for batch in headers:
        lasts += (-1 if last is None else last for last in arrow.values(batch.column("lastOffset")))
        counts += (1 if count is None else max(count, 0) for count in arrow.values(batch.column("count")))
    starts = np.maximum.accumulate(np.array(lasts[:-1], np.int64)) + 1
    return starts, np.cumsum(np.array(counts[::-1], np.int64))[::-1]


def _start(starts: NDArray[np.int64], rows: NDArray[np.int64], requested: int) -> int | None:
    enough = np.flatnonzero(rows >= requested)
    return int(starts[enough[-1]]) if len(enough) and enough[-1] > 0 else None
