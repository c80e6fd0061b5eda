"""Finds the offsets of the records in batches, and those that come again in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT64, MIN_INT64
from brokerless.findings import Finding
from brokerless.log.offsets_once.findings import batches_overlap
from brokerless.log.segment import Chunk, all_decoded, check_checksums, scan
from brokerless.log.storage.files import File
from brokerless.offset_spans import Span, add, touching, union, without
from brokerless.progress import ignore


def repeated_offsets(file: File, earlier: Sequence[Span] = ()) -> dict[int, list[Span]]:
    """Return, for each intact batch of a file (by position), the offsets that records before it have too, in the file
    or in ``earlier`` ones. A batch that only begins below those before it has none. What counts is the records that can
    be read: a header may say that its batch goes on after its last record (a cleaner leaves such), and a batch has
    gaps."""
    repeated: dict[int, list[Span]] = {}
    seen, highest, crowded = list(earlier), max((end for _, end in earlier), default=0), _crowded_batches(file, earlier)
    for chunk in scan(file, ignore) if crowded else ():
        intact = chunk.take(check_checksums(chunk, file.path, ignore))
        intact = intact.take(np.isin(intact.positions, list(crowded)))
        for position, runs in zip(intact.positions.tolist(), _runs_of_records(intact), strict=True):
            if not runs:
                continue
            first, end = runs[0][0], runs[-1][1]
            if first < highest:
                repeated[position] = without(runs, without(runs, touching(seen, first, end)))
            add(seen, runs)
            highest = max(highest, end)
    return repeated


def _crowded_batches(file: File, earlier: Sequence[Span]) -> set[int]:
    """The positions (bytes) of the intact batches of a file that have offsets in common with others, or begin below
    one before them, by their headers."""
    firsts, ends, positions = (np.zeros(0, np.int64) for _ in range(3))
    for chunk in scan(file, ignore):
        intact = chunk.take(check_checksums(chunk, file.path, ignore))
        firsts = np.concatenate([firsts, first_offsets(intact)])
        ends = np.concatenate([ends, intact.batches.end_of_records + 1])
        positions = np.concatenate([positions, intact.positions])
    before = np.maximum.accumulate(np.concatenate([[max((end for _, end in earlier), default=0)], ends]))[:-1]
    after = np.minimum.accumulate(np.concatenate([firsts, [MAX_INT64]])[::-1])[::-1][1:]
    return set(positions[(firsts < before) | (ends > after)].tolist())


def repeated_records(file: File, start_offset: int = 0) -> Iterator[tuple[Finding, int]]:
    """Yield the batches of a file that overlap those before them, and how many of their records from ``start_offset``
    on are left out for that."""
    from brokerless.format.read.decoder import Decoder

    repeated = repeated_offsets(file)
    decoder = Decoder(keys=False, values=False, headers=False)
    for chunk in scan(file, ignore) if repeated else ():
        for row in np.flatnonzero(np.isin(chunk.positions, list(repeated))).tolist():
            one, position = chunk.take(np.arange(len(chunk.batches)) == row), int(chunk.positions[row])
            count, least, most = 0, MAX_INT64, -1
            for decoded in all_decoded(decoder, one, one.batches):
                offsets = decoded.columns.offset[: decoded.columns.rows]
                is_repeated = are_within(repeated[position], offsets, offsets)
                if is_repeated.any():
                    left_out = np.unique(offsets[is_repeated])
                    least, most = min(least, int(left_out.min())), max(most, int(left_out.max()))
                    count += int((left_out >= start_offset).sum())
                del decoded, offsets
            if least <= most:
                yield batches_overlap(file.path, position, least, most), 0 if one.batches.is_control[0] else count


def offsets_of_records(file: File, since: int = 0) -> list[Span]:
    """Return the offsets from ``since`` on that the intact batches of a file have."""
    spans: list[Span] = []
    for chunk in scan(file, ignore):
        intact = chunk.take(check_checksums(chunk, file.path, ignore) & (chunk.batches.end_of_records >= since))
        for runs in _runs_of_records(intact):
            spans += [(max(first, since), end) for first, end in runs]
    return union(spans)


def _runs_of_records(chunk: Chunk) -> list[list[Span]]:
    """Return the offsets of the records that can be read of each batch, in order."""
    from brokerless.format.read.decoder import Decoder

    found: list[list[Span]] = [[] for _ in range(len(chunk.batches))]
    for decoded in all_decoded(Decoder(keys=False, values=False, headers=False), chunk, chunk.batches):
        starts, offsets = np.cumsum(decoded.given) - decoded.given, decoded.columns.offset[: decoded.columns.rows]
        rows = np.searchsorted(chunk.positions, decoded.positions)
        for row, start, given in zip(rows.tolist(), starts.tolist(), decoded.given.tolist(), strict=True):
            found[row] += runs_of(offsets[start : start + given])
        del decoded, offsets  # free it before the next is decoded
    return [union(each) for each in found]


def first_offsets(chunk: Chunk) -> NDArray[np.int64]:
    """Return the first offset of each batch; wrapper messages, whose own is their last one, are looked into. Of one
    that does not decode, it is the offset after its last one."""
    return first_and_repeated_offsets(chunk)[0]


def first_and_repeated_offsets(chunk: Chunk) -> tuple[NDArray[np.int64], dict[int, NDArray[np.int64]]]:
    """Return the first offset of each batch, and by row the offsets that a wrapper message has more than once."""
    if not chunk.batches.is_wrapper.any():
        return chunk.batches.entry_offset, {}
    from brokerless.format.read.wrappers import inspect_wrappers

    inside = inspect_wrappers(chunk.buffer, chunk.batches)
    return np.where(inside.has_base_offset, inside.base_offset, chunk.batches.entry_offset + 1), inside.repeats


def is_first_at_offset(offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which records of one batch are the first of it at their offsets (bool): a consumer gets no other."""
    is_first = np.zeros(len(offsets), np.bool_)
    is_first[np.unique(offsets, return_index=True)[1]] = True
    return is_first


def runs_of(offsets: NDArray[np.int64]) -> list[Span]:
    """Return offsets, which may be in any order, as spans."""
    offsets = np.unique(offsets)
    runs = np.split(offsets, np.flatnonzero(np.diff(offsets) > 1) + 1)
    return [(int(each[0]), int(each[-1]) + 1) for each in runs if len(each)]


def are_within(spans: Sequence[Span], firsts: NDArray[np.int64], lasts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which ranges of offsets, each from a first to a last one, lie in one of some spans (bool), which are in
    order of their first offsets and may overlap."""
    return _reach(spans, firsts) >= lasts


def have_common(spans: Sequence[Span], firsts: NDArray[np.int64], lasts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which ranges of offsets, as for :func:`are_within`, have an offset of some spans."""
    return _reach(spans, lasts) >= firsts


def _reach(spans: Sequence[Span], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the highest offset of the spans that begin at each of some offsets or before it, the lowest number for
    none."""
    starts, lasts = np.array([start for start, _ in spans], np.int64), [end - 1 for _, end in spans]
    reach = np.maximum.accumulate(np.array([MIN_INT64, *lasts], np.int64))  # an end may be none of int64
    return reach[np.searchsorted(starts, offsets, "right")]
