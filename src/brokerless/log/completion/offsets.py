"""Reads which offsets a log file has, by the headers of its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.log.index.readers import OffsetIndex, load_offset_index
from brokerless.log.segment import Chunk, scan_headers
from brokerless.log.storage.location import DirectoryEntry
from brokerless.offset_spans import Span, union
from brokerless.progress import ignore

_UNHARMFUL = (Kind.TRAILING_ZEROS,)


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """The offsets of a log file."""

    spans: tuple[Span, ...]
    """The offsets of each batch."""
    end: int
    """The offset after the last batch that a broker comes to."""
    is_cut: bool
    """Whether the chain of batches ends before the file does."""
    is_compacted: bool
    """Whether offsets are missing before the first batch, between two or within one, so that a compaction may have
    taken others, too."""


def end_of_log(log: DirectoryEntry, base_offset: int, index: DirectoryEntry | None = None) -> int:
    """Return the offset after the last batch of a log file as a broker finds it, from the last entry of its offset
    index on (``LogSegment.readNextOffset``, 4.4.0): the base offset where nothing is there.

    Raises :class:`UnreadableError`.
    """
    entries = None if index is None else load_offset_index(index.location, base_offset)
    with log.location.open() as file:
        end, is_found = next_offset(
            partial(scan_headers, file, ignore, chain_only=True), file.size, base_offset, entries
        )
    return end if is_found else base_offset


def next_offset(
    chunks_from: Callable[[int], Iterable[Chunk]], size: int, base_offset: int, index: OffsetIndex | None
) -> tuple[int, bool]:
    """Return the offset after the last batch from the last entry of an offset index on, and whether the entry's batch
    is there; a broker takes a segment without it for empty. ``chunks_from``: scans the log, of ``size`` bytes, from a
    position on."""
    position, last, is_found, end = 0, base_offset, True, base_offset
    if index is not None and len(index.offsets):
        last, position, is_found = int(index.offsets[-1]), int(index.positions[-1]), False
    for chunk in chunks_from(min(max(position, 0), size)):
        is_found = is_found or bool((chunk.batches.last_offset >= last).any())
        end = int(chunk.batches.last_offset[-1]) + 1
    return end, is_found


def offsets_of(log: DirectoryEntry, base_offset: int) -> LogOffsets:
    """Return the offsets of a log file, also those of batches after a place where a broker's reader ends. A file that
    cannot be read has none."""
    found: list[Finding] = []
    spans, end, is_compacted, before = list[Span](), base_offset, False, base_offset
    try:
        with log.location.open() as file:
            for chunk in scan_headers(file, found.append):
                batches = chunk.batches
                firsts = np.where(batches.is_wrapper, before, batches.entry_offset)
                ends = batches.last_offset + 1
                spans = union([*spans, *zip(firsts.tolist(), ends.tolist(), strict=True)])
                data = ~batches.is_legacy & ~batches.is_control
                is_thinned = bool((data & (batches.count < ends - batches.entry_offset)).any())
                is_compacted = is_compacted or is_thinned or bool(batches.has_delete_horizon.any())
                before = int(ends[-1])
                end = before if not found else end
    except UnreadableError:
        return LogOffsets((), base_offset, is_cut=True, is_compacted=False)
    is_cut = any(each.kind not in _UNHARMFUL for each in found)
    has_gaps = len(spans) > 1 or bool(spans and spans[0][0] > base_offset)
    return LogOffsets(tuple(spans), end, is_cut, is_compacted or has_gaps)
