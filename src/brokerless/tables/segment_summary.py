"""Totals of a segment, from its batch headers: records, batches, offsets, timestamps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.log.offsets_once.findings import repeats_within, report_past_last
from brokerless.log.offsets_once.records import repeated_records
from brokerless.log.offsets_once.segments import RepeatedOffsets
from brokerless.log.seek import scan_headers_to_end
from brokerless.log.segment import Chunk, all_decoded, report_damages, scan_headers
from brokerless.log.storage.files import File
from brokerless.progress import Report, ignore


@dataclass(slots=True)
class SegmentSummary:
    """Sums over one segment. Timestamps are in ms, offsets absolute; None where there is nothing to take one from."""

    size: int
    """In bytes."""
    valid_bytes: int = 0
    """Bytes of the log as far as the chain of batches holds."""
    batches: int = 0
    records: int = 0
    """The records that the headers declare, without control records. Only v0 and v1 wrapper messages are read, as they
    do not say, and the batch that the log start offset is in, if its header does not show how many."""
    first_offset: int | None = None
    last_offset: int | None = None
    min_timestamp: int | None = None
    """The smallest base timestamp: that of a batch's first record."""
    max_timestamp: int | None = None
    goes_back: bool = False
    """Whether a batch begins at or below an offset of those before it."""
    magics: set[int] = field(default_factory=set[int])
    compressions: set[str] = field(default_factory=set[str])


def summarize(
    file: File,
    report: Report,
    start_offset: int = 0,
    max_batch_bytes: int | None = None,
    seen: RepeatedOffsets | None = None,
    watch: Callable[[Chunk], None] | None = None,
    *,
    is_last: bool = False,
) -> SegmentSummary:
    """Adds up a segment's log, of which nothing but headers is read (and v0/v1 wrapper messages). ``start_offset``: the
    log start offset; records, offsets and timestamps are of what is from there on. ``max_batch_bytes``: what a wrapper
    message may inflate to; a larger one is reported, and its records are not counted, nor those that
    ``seen`` passes over. ``watch`` is called with each chunk of headers. ``is_last``: of the log; then its last batch
    is checked, as one with a wrong size may lead over intact batches to the end of the file."""
    summary = SegmentSummary(file.size)
    for chunk in (scan_headers_to_end if is_last else scan_headers)(file, report):
        if watch is not None:
            watch(chunk)
        report_past_last(chunk, file.path, report)
        add_chunk(summary, chunk, file.path, report=report, start_offset=start_offset, max_batch_bytes=max_batch_bytes)
        repeated = None if seen is None else seen.repeated(chunk.batches)
        if seen is None:
            continue
        if repeated is not None:
            passed = SegmentSummary(file.size)
            add_chunk(
                passed,
                chunk.take(repeated),
                file.path,
                report=ignore,
                start_offset=start_offset,
                max_batch_bytes=max_batch_bytes,
            )
            summary.records -= passed.records
            at = int(np.argmax(repeated))
            _report_repeated(
                seen, file.path, int(chunk.positions[at]), first=int(chunk.batches.entry_offset[at]), report=report
            )
        summary.records -= _repeated_in_part(
            chunk, seen, repeated, path=file.path, report=report, start_offset=start_offset
        )
    for finding, records in repeated_records(file, start_offset) if summary.goes_back else ():
        report(finding)
        summary.records -= records
    return summary


def _report_repeated(seen: RepeatedOffsets, path: str, position: int, first: int, report: Report) -> None:
    if (finding := seen.finding(path, position, first)) is not None:
        report(finding)


def _repeated_in_part(
    chunk: Chunk,
    seen: RepeatedOffsets,
    repeated: NDArray[np.bool_] | None,
    path: str,
    report: Report,
    start_offset: int,
) -> int:
    """Return how many records from ``start_offset`` on ``seen`` passes over, of batches that it does not pass over as a
    whole; the first of them is reported."""
    is_partial = seen.overlapping(chunk.batches)
    if is_partial is None:
        return 0
    from brokerless.format.read.decoder import Decoder

    is_partial = is_partial & ~chunk.batches.is_control
    count = 0
    for one in chunk.take(is_partial if repeated is None else is_partial & ~repeated).load(ignore):
        for decoded in all_decoded(Decoder(keys=False, values=False, headers=False), one, one.batches):
            offsets = decoded.columns.offset[: decoded.columns.rows]
            is_new = seen.rows(offsets)
            left_out = [] if is_new is None else np.flatnonzero(~is_new & (offsets >= start_offset)).tolist()
            if left_out:
                row = int(np.searchsorted(np.cumsum(decoded.given), left_out[0], "right"))
                _report_repeated(
                    seen, path, int(decoded.positions[row]), first=int(offsets[left_out[0]]), report=report
                )
            count += len(left_out)
            del decoded, offsets
    return count


def add_chunk(
    summary: SegmentSummary,
    chunk: Chunk,
    path: str,
    report: Report,
    start_offset: int = 0,
    max_batch_bytes: int | None = None,
) -> None:
    """Adds a chunk of the file ``path`` that has at least one batch."""
    summary.valid_bytes = chunk.base + int(chunk.batches.ends[-1])
    summary.batches += len(chunk.batches)
    summary.magics.update(chunk.batches.magic.tolist())  # np.unique would import masked arrays, a tenth of `ls`
    codecs = [codec for codec in {*chunk.batches.codec.tolist()} if codec < len(layouts.CODECS)]
    summary.compressions.update(layouts.CODECS[codec] for codec in codecs)
    if start_offset and bool((chunk.batches.end_of_records < start_offset).any()):
        chunk = chunk.take(chunk.batches.end_of_records >= start_offset)
        if not len(chunk.batches):
            return
    batches = chunk.batches
    firsts, counts = batches.entry_offset, np.where(batches.is_legacy, 1, batches.count)
    if batches.is_wrapper.any():
        from brokerless.format.read.wrappers import inspect_wrappers

        wrappers = inspect_wrappers(chunk.buffer, batches, max_batch_bytes)
        counts = wrappers.count
        for row, repeated in wrappers.repeats.items():
            report(repeats_within(path, int(chunk.positions[row]), repeated))
        firsts = np.where(wrappers.has_base_offset, wrappers.base_offset, firsts)
        report_damages(wrappers.damages, path, chunk.base, report)
    if summary.first_offset is None:
        summary.first_offset = max(int(firsts[0]), start_offset)
    counts = np.where(batches.is_control, 0, np.maximum(counts, 0))
    if start_offset and summary.last_offset is None:
        counts[0] = _count_from(chunk, int(counts[0]), start_offset)
    before = -1 if summary.last_offset is None else summary.last_offset
    ends = np.maximum.accumulate(np.concatenate([[before], batches.end_of_records]))
    summary.goes_back = summary.goes_back or bool((firsts <= ends[:-1]).any())
    last = int(batches.end_of_records.max())
    summary.last_offset = last if summary.last_offset is None else max(summary.last_offset, last)
    summary.records += int(counts.sum(dtype=np.int64))
    # With a delete horizon, a batch no longer says when its first record was written.
    own = batches.is_legacy | batches.has_delete_horizon
    base = np.where(own, batches.max_timestamp, batches.base_timestamp)
    times, base = (each[each != layouts.NO_TIMESTAMP] for each in (batches.max_timestamp, base))
    if len(times):
        largest = int(times.max())
        summary.max_timestamp = largest if summary.max_timestamp is None else max(summary.max_timestamp, largest)
    if len(base):
        least = int(base.min())
        summary.min_timestamp = least if summary.min_timestamp is None else min(summary.min_timestamp, least)


def _count_from(chunk: Chunk, count: int, start_offset: int) -> int:
    """Return how many of the ``count`` records of a chunk's first batch have ``start_offset`` or more."""
    batch = chunk.batches.take(slice(0, 1))
    first, last = int(batch.entry_offset[0]), int(batch.end_of_records[0])
    if not count or (first >= start_offset and not batch.is_wrapper[0]):
        return count
    if not batch.is_wrapper[0] and count == last - first + 1:
        return last - start_offset + 1
    from brokerless.format.read.decoder import Decoder, decode_whole

    decoder = Decoder(keys=False, values=False, headers=False)
    is_first = np.arange(len(chunk.batches)) == 0
    loaded = chunk.take(is_first).load(ignore)
    decoded = (each.columns for one in loaded for each in decode_whole(decoder, one.buffer, one.batches))
    return sum(int((np.unique(each.offset[: each.rows]) >= start_offset).sum()) for each in decoded)
