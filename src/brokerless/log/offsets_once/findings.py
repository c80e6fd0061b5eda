"""Findings about batches whose offsets others have, or that cannot be there: no checksum covers offsets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Finding, Kind
from brokerless.log.ranges import FileSpan
from brokerless.log.segment import Chunk
from brokerless.progress import Report


def not_above(path: str, position: int | None, first: int, highest: int, text: str | None = None) -> Finding:
    """Return a batch, or a segment of which only that is known, that begins at or below an offset that was there
    before. Kafka's reader gives its records all the same."""
    text = text or "offsets do not go up: a batch begins at or below an offset that was there before"
    expected = f"an offset above {highest}"
    return Kind.OFFSET_ORDER.at(
        path, text, severity="warning", position=position, offset=first, expected=expected, found=str(first)
    )


def misplaced(path: str, position: int, first: int, last: int, start: int, end: int) -> Finding:
    """Return a batch whose offsets, which no checksum covers, are outside of ``[start, end)``, those that can be
    here."""
    text = "left out: the offsets of this batch cannot be here (brokerless salvage may find where they belong)"
    expected = f"offsets from {start} to {end - 1}"
    return Kind.OFFSET_ORDER.at(
        path, text, severity="error", position=position, offset=first, expected=expected, found=f"{first} to {last}"
    )


def all_misplaced(path: str, chunk: Chunk, valid: NDArray[np.bool_], span: FileSpan) -> Iterator[Finding]:
    """Yield the batches of a chunk that are outside of a span. Where reading begins too early, as such a batch looked
    like the first of the span, what comes before it was reported with the span before."""
    batches, is_within = chunk.batches, span.range.batches(chunk.batches)
    known = 0
    if len(batches) and chunk.positions[0] == span.start:
        rows = np.flatnonzero(is_within & valid)
        leading = slice(0, int(rows[0]) if len(rows) else len(batches))
        passed = np.flatnonzero(valid[leading] & (batches.last_offset[leading] < span.start_offset))
        known = int(passed[-1]) + 1 if len(passed) else 0
    for row in known + np.flatnonzero((valid & ~is_within)[known:]):
        position, first, last = chunk.positions[row], batches.entry_offset[row], batches.last_offset[row]
        yield misplaced(path, int(position), int(first), last=int(last), start=span.start_offset, end=span.end_offset)


def segments_overlap(path: str, position: int, first: int, base_offset: int, expected: str, whose: str) -> Finding:
    """Return a batch that is passed over. A broker refuses a segment that begins below its base offset."""
    text = f"passed over: from this batch on, offsets are repeated that {whose}"
    severity = "error" if first < base_offset else "warning"
    return Kind.OFFSET_OVERLAP.at(
        path, text, severity=severity, position=position, offset=first, expected=expected, found=str(first)
    )


def batches_overlap(path: str, position: int, first: int, last: int) -> Finding:
    """Return a batch that overlaps earlier ones of the same file."""
    text = (
        f"overlaps batches before it: its records at offsets {first} to {last} were left out, as a consumer gets those "
        "before them"
    )
    return Kind.OFFSET_OVERLAP.at(
        path, text, severity="warning", position=position, offset=first, expected="offsets that no batch before has"
    )


def repeats_within(path: str, position: int, offsets: NDArray[np.int64]) -> Finding:
    """Return a batch of which some records have ``offsets`` that records before them in it have."""
    first, last = int(offsets.min()), int(offsets.max())
    text = (
        f"records of this batch have the same offset: those at offsets {first} to {last} that follow another one were "
        "left out, as a consumer gets the first of each"
    )
    return Kind.OFFSET_OVERLAP.at(
        path, text, severity="warning", position=position, offset=first, expected="each offset once"
    )


def falls_within(path: str, position: int, before: int, offset: int) -> Finding:
    """Return a batch with a record at ``offset`` after one at a higher one, ``before``."""
    text = "offsets of this batch's records go back: a consumer passes over those that do"
    return not_above(path, position, offset, before, text=text)


def report_past_last(chunk: Chunk, path: str, report: Report) -> None:
    """Reports the batches of a chunk that have records at offsets past their last offset."""
    batches = chunk.batches
    for row in np.flatnonzero(batches.goes_past_last_offset).tolist():
        text = (
            "a batch has records past its last offset: its client left lastOffsetDelta too low (KAFKA-6554), and a "
            "broker took offsets by that, so that its base offset is too high"
        )
        first, last, end = (
            int(each[row]) for each in (batches.entry_offset, batches.last_offset, batches.end_of_records)
        )
        report(
            Kind.RECORDS_PAST_LAST_OFFSET.at(
                path,
                text,
                position=int(chunk.positions[row]),
                offset=first,
                expected=f"a last offset of {end}",
                found=str(last),
            )
        )
