"""Detects batches with impossible offsets (the offset is outside of the checksum)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import Finding
from brokerless.log.ranges import Span
from brokerless.log.segment import Chunk


def not_above(path: str, position: int, first: int, highest: int, text: str | None = None) -> Finding:
    """A batch that begins at or below an offset that was there before. Kafka's reader gives its records all the
    same."""
    text = text or "offsets do not go up: a batch begins at or below an offset that was there before"
    expected = f"an offset above {highest}"
    return Finding("warning", "offset-order", path, position, first, text, expected, str(first))


def misplaced(path: str, position: int, first: int, last: int, start: int, end: int) -> Finding:
    """A batch whose offsets, which no checksum covers, are outside of ``[start, end)``, those that can be here."""
    text = "left out: the offsets of this batch cannot be here (brokerless salvage may find where they belong)"
    expected = f"offsets from {start} to {end - 1}"
    return Finding("error", "offset-order", path, position, first, text, expected, f"{first} to {last}")


def all_misplaced(path: str, chunk: Chunk, valid: NDArray[np.bool_], span: Span) -> Iterator[Finding]:
    """The batches of a chunk that are outside of a span. Where reading begins too early, as such a batch looked like
    the first of the span, what comes before it was told another time."""
    batches, is_within = chunk.batches, span.range.batches(chunk.batches)
    known = 0
    if len(batches) and chunk.positions[0] == span.start:
        rows = np.flatnonzero(is_within & valid)
        leading = slice(0, int(rows[0]) if len(rows) else len(batches))
        passed = np.flatnonzero(valid[leading] & (batches.last_offset[leading] < span.start_offset))
        known = int(passed[-1]) + 1 if len(passed) else 0
    for row in known + np.flatnonzero((valid & ~is_within)[known:]):
        position, first, last = chunk.positions[row], batches.entry_offset[row], batches.last_offset[row]
        yield misplaced(path, int(position), int(first), int(last), span.start_offset, span.end_offset)
