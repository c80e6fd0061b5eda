"""From how many records on a batch of v2 is smaller than the same records in v0 and v1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from brokerless.format import layouts
from brokerless.format.write.column_slices import slice_rows
from brokerless.format.write.encoder import Encoder, build_headers
from brokerless.jobs.size.record_sizes import batch_sizes, measure
from brokerless.jobs.size.sample import Sample

MOST_RECORDS = 1024
_BATCHES = 200
"""Batches of a sample that are compressed for one number of records."""


def smaller_from(sample: Sample, magic: int, codec: str = "none") -> int | None:
    """Return the number of records from which on batches of v2 are smaller than those of ``magic`` (0 or 1), by the
    sample's records in a row; None if they are not up to :data:`MOST_RECORDS` or the sample's end."""
    sizes = _by_arithmetic(sample) if codec == "none" else _by_encoding(sample, codec)
    most = min(MOST_RECORDS, sample.rows)
    below, above = 0, 1
    while sizes(layouts.MAGIC_V2, above) >= sizes(magic, above):
        below = above
        if above == most:
            return None
        above = min(2 * above, most)
    while above - below > 1:
        middle = (below + above) // 2
        if sizes(layouts.MAGIC_V2, middle) < sizes(magic, middle):
            above = middle
        else:
            below = middle
    return above


def _by_arithmetic(sample: Sample) -> Callable[[int, int], float]:
    def size(magic: int, records: int) -> float:
        columns = slice_rows(sample.columns, 0, sample.rows // records * records)
        starts = np.arange(0, columns.rows + 1, records)
        return float(batch_sizes(columns, measure(columns), starts, magic, build_headers(columns, starts)).sum())

    return size


def _by_encoding(sample: Sample, codec: str) -> Callable[[int, int], float]:
    def size(magic: int, records: int) -> float:
        columns = slice_rows(sample.columns, 0, min(_BATCHES, sample.rows // records) * records)
        columns = replace(columns, offset=np.arange(columns.rows))  # as far from each other as batches can hold
        starts = np.arange(0, columns.rows + 1, records)
        return float(len(Encoder(magic, codec, with_zlib=True).encode(columns, starts, build_headers(columns, starts))))

    return size
