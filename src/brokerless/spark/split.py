"""Splits: the byte ranges of segments that Spark tasks read, and how a large segment is divided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.datasource import InputPartition

from brokerless.findings import Finding
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.index.readers import load_offset_index
from brokerless.log.live_segments import open_listed
from brokerless.log.positions import ends_range, header_at, is_batch_up_to
from brokerless.log.ranges import EVERYTHING, FileSpan, Range
from brokerless.log.segment import Chunk, scan_headers
from brokerless.log.storage.files import File
from brokerless.log.storage.location import Location
from brokerless.progress import ignore

if TYPE_CHECKING:
    from brokerless.log.producer.transactions import Transactions
    from brokerless.spark.options import Options

_MOST_SPLITS = 1024
"""Into how many tasks one batch is cut at most."""
_NOWHERE = Location("")


@dataclass(frozen=True, slots=True)
class Split:
    """The batches of one partition that a task reads: those of ``segment``, or of all of ``paths``.

    A broker may replace the file before it is read. ``segment.log`` and ``first`` show whether it is still the one that
    was planned; if not, ``offsets`` are read of what is in ``directory`` by then.
    """

    topic: str | None
    partition: int | None
    segment: SegmentPaths | None
    paths: PartitionPath | None = None
    """The whole partition, where its transactions are needed; otherwise None."""
    start: int = 0
    """Batches are read that begin in the bytes ``[start, end)`` of the segment."""
    end: int | None = None
    """None is the end of the file."""
    bounds: Range = EVERYTHING
    transactions: Transactions | None = None
    """The transactions that matter for read_committed here, if they were read."""
    cost: int = 0
    """In bytes."""
    findings: tuple[Finding, ...] = ()
    """The findings of planning. Without a segment or paths they are to be reported; with them, they were reported
    elsewhere."""
    span: FileSpan | None = None
    """The batches that all of these are parts of, if batches outside of it are damage."""
    is_followed: bool = False
    """Whether the log goes on in another segment, so that one that ends within a batch is damaged."""
    start_offset: int = 0
    """Where the log begins, if that is within the segment, or 0."""
    following: PartitionPath | None = None
    """The partition with this segment and the next one, where missing offsets between them are searched for."""
    directory: Location = _NOWHERE
    """The partition's directory."""
    offsets: Range = EVERYTHING
    """The offsets that are read if the file was replaced."""
    first: tuple[int, int] | None = None
    """The base offset and the checksum of the batch at ``start``, where that is not 0."""
    own: Range | None = None
    """The offsets that the whole segment has by its name and the next one's; others are passed over where another
    segment of ``query`` has them."""
    query: Range = EVERYTHING
    """All that is requested."""


class ReadTask(InputPartition):
    """What one Spark task reads, in order."""

    def __init__(self, splits: tuple[Split, ...]) -> None:
        super().__init__(splits)
        self.splits = splits


def split_bytes(options: Options, total: int) -> int:
    """Return how many bytes a task is to read, of ``total`` in all: no more than ``maxPartitionBytes``, and as much as
    others where ``minPartitions`` says how many there should be."""
    if options.min_partitions is None:
        return options.split_bytes
    return max(1, -(-total // (options.min_partitions * task_rounds(options, total))))


def task_rounds(options: Options, total: int) -> int:
    """Return how many tasks there are for each one that ``minPartitions`` asks for: a whole number, as the cores that
    it counts would not all have work to the end otherwise."""
    return max(1, -(-total // ((options.min_partitions or 1) * options.split_bytes)))


def cut(whole: Split, size: int, max_records: int | None) -> Iterator[Split]:
    """Cuts a split of one segment into splits of about ``size`` bytes, and of at most ``max_records`` offsets."""
    assert whole.segment is not None
    with open_listed(whole.segment, not whole.is_followed) as file:
        start = start_of(file, whole)
        end = file.size if whole.end is None else min(whole.end, file.size)
        ranges = _byte_ranges(file, whole.segment, start, end=end, size=size)
        if not ranges:
            return
        firsts = [whole.offsets.start_offset, *(_first_at(file, first) for first, _ in ranges[1:])]
        for (first, after), offset, next_offset in zip(ranges, firsts, [*firsts[1:], None], strict=True):
            bound = whole.bounds.end_offset
            if whole.span is None and bound is not None and first and ends_range(file, first, bound):
                return
            part = replace(
                whole,
                start=first,
                end=whole.end if after >= end else after,
                cost=after - first,
                offsets=whole.offsets.narrow(Range(offset, next_offset)),
                first=first_batch(file, first),
            )
            if max_records is None:
                yield part
            else:
                yield from _cut_by_offsets(file, part, max_records)


def start_of(file: File, split: Split) -> int:
    """Return where reading a split begins: that of a whole segment, at the first batch that its bounds may leave."""
    from brokerless.log.seek import start_position

    if split.start or split.segment is None:
        return split.start
    return start_position(file, split.segment, split.bounds)


def first_batch(file: File, position: int) -> tuple[int, int] | None:
    """Base offset and checksum of the batch at ``position`` (bytes); None at a file's beginning, which its name gives,
    and where there is no batch."""
    batch = header_at(file, position) if position else None
    return None if batch is None else (int(batch.entry_offset[0]), int(batch.checksum[0]))


def _first_at(file: File, position: int) -> int | None:
    """The first offset of the batch at ``position`` (bytes)."""
    batch = header_at(file, position)
    if batch is not None and batch.is_wrapper[0]:
        return next((_first_offset(chunk) for chunk in scan_headers(file, ignore, position, position + 1)), None)
    return None if batch is None else int(batch.entry_offset[0])


def _byte_ranges(file: File, segment: SegmentPaths, start: int, end: int, size: int) -> list[tuple[int, int]]:
    """Ranges that start where a batch does: by the offset index where it is right, else by the chain of batches."""
    if end - start <= size:
        return [(start, end)] if start < end else []
    from brokerless.log.seek import split

    if segment.offset_index is not None:
        index = load_offset_index(segment.offset_index.location, segment.base_offset)
        cuts = [start]
        # Entries lie at least some kilobytes apart: they serve where splits are much larger.
        while end - cuts[-1] > size:
            slot = int(np.searchsorted(index.positions, cuts[-1] + size))
            if slot < len(index.positions) and int(index.positions[slot]) >= end:
                return list(zip(cuts, [*cuts[1:], end], strict=True))
            if slot == len(index.positions) or int(index.positions[slot]) - cuts[-1] > 2 * size:
                break
            position = int(index.positions[slot])
            if not is_batch_up_to(file, position, int(index.offsets[slot])):
                break
            cuts.append(position)
        else:
            return list(zip(cuts, [*cuts[1:], end], strict=True))
    if not file.is_local:  # the chain of batches would have to be fetched as a whole
        return [(start, end)]
    return list(split(file, start, end, size))


def _cut_by_offsets(file: File, part: Split, most: int) -> Iterator[Split]:
    """Cuts at batches where it can; a batch with more offsets than ``most`` is read by several tasks, each its part."""
    # Of each chunk no more is kept than this, as it may have a buffer.
    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    first_offset = 0
    for chunk in scan_headers(file, ignore, part.start, part.end):
        first_offset = first_offset if found else _first_offset(chunk)
        found.append((chunk.positions, chunk.batches.end_of_records))
    if not found:
        yield part
        return
    positions, last_offsets = map(np.concatenate, zip(*found, strict=True))
    lasts = np.maximum.accumulate(last_offsets)
    firsts = np.concatenate([[first_offset], lasts[:-1] + 1])
    row, rows = 0, len(positions)
    if part.bounds.start_offset is not None:
        row = int(np.searchsorted(lasts, part.bounds.start_offset))
    while row < rows:
        first = max(int(firsts[row]), part.bounds.start_offset or 0)
        if part.bounds.end_offset is not None and first >= part.bounds.end_offset:
            if part.span is not None:  # offsets that cannot be here, which is reported where they are read
                at, offsets = int(positions[row]), part.offsets.narrow(Range(int(firsts[row])))
                yield replace(part, start=at, offsets=offsets, first=first_batch(file, at))
            return
        after = max(row + 1, int(np.searchsorted(lasts, first + most, side="left")))
        end = part.end if after >= rows else int(positions[after])
        offsets = part.offsets.narrow(Range(int(firsts[row]), None if after >= rows else int(firsts[after])))
        at = int(positions[row])
        smaller = replace(part, start=at, end=end, offsets=offsets, first=first_batch(file, at))
        last = int(lasts[after - 1])
        if last - first < most:
            yield smaller
        else:
            step = max(most, -(-(last + 1 - first) // _MOST_SPLITS))
            for begin in range(first, last + 1, step):
                yield replace(smaller, bounds=part.bounds.narrow(Range(begin, begin + step)), following=None)
        row = after


def _first_offset(chunk: Chunk) -> int:
    """A wrapper message's own offset is that of its last inner message."""
    batch = chunk.batches.take(slice(0, 1))
    if not batch.is_wrapper[0]:
        return int(batch.entry_offset[0])
    from brokerless.format.read.wrappers import inspect_wrappers

    return int(inspect_wrappers(chunk.buffer, batch).base_offset[0])
