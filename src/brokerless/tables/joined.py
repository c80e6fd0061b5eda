"""Joins adjacent small Arrow record batches, as each costs time of its own wherever it goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa


class Size(NamedTuple):
    """The size of one record batch, or of several together."""

    rows: int
    bytes: int


def joined(batches: Iterator[pa.RecordBatch], small: Size, enough: Size) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order, in larger batches. A batch is joined to others if it has at most ``small``
    rows and bytes, until they have ``enough`` of either together. Others are not copied."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0

    def take_waiting() -> Iterator[pa.RecordBatch]:
        nonlocal rows, size
        if len(waiting) == 1:
            yield waiting.pop()
        elif waiting:
            table = pa.Table.from_batches(waiting)
            waiting.clear()
            yield from table.combine_chunks().to_batches()
        rows = size = 0

    for batch in batches:
        if batch.num_rows <= small.rows and batch.nbytes <= small.bytes:
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= enough.rows or size >= enough.bytes:
                yield from take_waiting()
            continue
        yield from take_waiting()
        yield batch
        del batch  # freed before the next one is read
    yield from take_waiting()
