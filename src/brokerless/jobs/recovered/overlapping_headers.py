"""Ends batches at their last records where their headers go on over the offsets of other batches.

A cleaner keeps a batch's last offset when it removes the last records, and clients have sent such batches. A consumer
gets what comes after them in the file all the same.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from brokerless.format.read.batch_headers import read_headers
from brokerless.jobs.recovered.intact_batches import decode_batch
from brokerless.jobs.recovered.open_files import LogFile, OpenFiles
from brokerless.log import names


def end_at_last_records(
    intact: NDArray[np.void], sources: Sequence[LogFile], opened: OpenFiles, first: int, max_batch_bytes: int
) -> NDArray[np.void]:
    """The same intact batches, by file and position. ``last`` of one whose header says more is changed to that of its
    last record, where another batch of the same log begins within its offsets and goes on after that record; one
    without records is left out where others have its offsets. ``first``: the number of the first of ``sources`` in
    ``opened``."""
    of_log = _logs(sources)[intact["file"]]
    # What no longer is a part of the log may have the very records that a cleaner removed.
    rows = np.flatnonzero(of_log >= 0)
    is_sparse = (intact["records"] <= intact["last"] - intact["first"]) & ~intact["partial"]
    if not is_sparse[rows].any():
        return intact
    rows = rows[np.lexsort((intact["first"][rows], of_log[rows]))]
    kept = np.ones(len(intact), np.bool_)
    for each in np.split(rows, np.flatnonzero(np.diff(of_log[rows])) + 1):
        firsts, ends = intact["first"][each], intact["last"][each].copy()
        begin, until = np.searchsorted(firsts, firsts, "left"), np.searchsorted(firsts, ends, "right")
        for at in np.flatnonzero(is_sparse[each] & (until - begin > 1)).tolist():
            row, others = int(each[at]), np.delete(ends[begin[at] : until[at]], at - begin[at])
            if not intact["records"][row]:
                kept[row] = False
                continue
            last = _last_record(intact[row : row + 1], opened, first, max_batch_bytes)
            if last < intact["last"][row] and (others > last).any():
                intact["last"][row], intact["partial"][row], intact["complete"][row] = last, True, True
    return intact[kept]


def _logs(sources: Sequence[LogFile]) -> NDArray[np.int64]:
    """To which log each file belongs: a number for each directory; -1 for files that wait for their deletion."""
    directories: dict[str, int] = {}
    logs = np.full(len(sources), -1, np.int64)
    for number, each in enumerate(sources):
        directory, name = os.path.split(each.path)
        named = names.parse_segment_file(name)
        if named is None or named.state == "live":
            logs[number] = directories.setdefault(directory, len(directories))
    return logs


def _last_record(batch: NDArray[np.void], opened: OpenFiles, first: int, max_batch_bytes: int) -> int:
    """The highest offset of a batch's records; the one that its header says where it cannot be read any more."""
    number, position, size, last = (int(batch[name][0]) for name in ("file", "position", "size", "last"))
    buffer = opened.get(first + number).read(position, size)
    if len(buffer) < size:
        return last
    columns = decode_batch(buffer, read_headers(buffer, np.zeros(1, np.int64)), max_batch_bytes)
    return last if columns is None else int(columns.offset[: columns.rows].max())
