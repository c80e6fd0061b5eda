"""Buffers rows and sorts them by partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.format.arrays import Int64s
from brokerless.tables.rows import RowError, normalize

COLUMNS = ("key", "value", "headers", "offset", "timestamp", "timestampType")
"""Those of a row that are written; its topic and partition are where it is written to."""


@dataclass(slots=True)
class RowBuffer:
    """Rows that are not yet written, by partition."""

    _rows: list[pa.RecordBatch] = field(default_factory=list[pa.RecordBatch])
    _places: list[NDArray[np.int32]] = field(default_factory=list[NDArray[np.int32]])
    """The partition of each row, by the router's number."""
    _numbers: list[Int64s] = field(default_factory=list[Int64s])
    """The number of each row in the input."""
    size: int = 0
    """The bytes of the rows."""

    def add(self, rows: pa.RecordBatch, places: NDArray[np.int32], numbers: Int64s, size: int) -> None:
        self._rows.append(rows)
        self._places.append(places)
        self._numbers.append(numbers)
        self.size += size

    def take_by_partition(self) -> Iterator[tuple[int, pa.RecordBatch, Int64s]]:
        """Empties the buffer: the rows of each partition, in the order of the input, with their numbers."""
        if not self._rows:
            return
        rows = self._rows[0] if len(self._rows) == 1 else pa.concat_batches(self._rows)
        places, numbers = np.concatenate(self._places), np.concatenate(self._numbers)
        self._rows, self._places, self._numbers, self.size = [], [], [], 0
        if (places == places[0]).all():
            yield int(places[0]), rows, numbers
            return
        order = np.argsort(places.astype(np.uint16) if places.max() < 1 << 16 else places, kind="stable")
        places, numbers = places[order], numbers[order]
        rows = rows.take(arrow.column_of_numbers(pa.int64(), order))
        starts = np.flatnonzero(np.diff(places, prepend=-1))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(places)], strict=True):
            yield int(places[start]), rows.slice(start, end - start), numbers[start:end]


def records_of(batch: pa.RecordBatch, first_row: int, timestamp: int | None) -> tuple[pa.RecordBatch, Int64s]:
    """Return the rows that are written, as :func:`rows.normalize` gives them, so without control records; and the
    number of each in the input, where ``first_row`` is that of the first one in ``batch``."""
    rows = normalize(batch, first_row, timestamp)
    numbers = np.arange(first_row, first_row + rows.num_rows)
    if "isControl" not in rows.schema.names:
        return rows, numbers
    is_record = ~arrow.flags(rows.column("isControl")).view(np.bool_)
    if not is_record.all():
        rows, numbers = rows.filter(arrow.column_of_flags(is_record)), numbers[is_record]
    return rows, numbers


def check_same(columns: Sequence[str], others: Sequence[str], row: int) -> None:
    """Raises :class:`RowError` for the row from which on there are other columns than before."""
    for name in COLUMNS:
        if (name in columns) != (name in others):
            raise RowError(row, name, "is there in some parts of the input and not in others")
