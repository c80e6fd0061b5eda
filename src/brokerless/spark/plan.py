"""What to read, planned on the driver: paths -> partitions -> ranges of offsets -> byte ranges -> tasks.

Only names, indexes and headers are read here; for ``read_committed`` also transaction markers.
"""

from __future__ import annotations

import glob
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from pyspark.sql.datasource import InputPartition

from brokerless.errors import UnreadableError, UsageError
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.indexes import load_offset_index
from brokerless.log.partition import Range, ignore, transactions_of
from brokerless.log.seek import is_batch_with, position_of_offset, split
from brokerless.log.segment import HEADERS_STEP, scan
from brokerless.log.storage import File, StorageOptions, expand, is_directory, open_file
from brokerless.log.transactions import Transactions
from brokerless.logs import Partition, open
from brokerless.spark.options import EARLIEST, LATEST, Limit, Options, TopicPartition

_OPEN_COST = 4 << 20
"""What opening a file counts as, in bytes, when small files share a task; as Spark's own readers have it."""
_MOST_PIECES = 1024
"""Into how many tasks one batch is cut at most."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a query's filters leave to read; None is without restriction."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    files: frozenset[str] | None = None
    range: Range = field(default_factory=Range)

    def have(self, partition: Partition) -> bool:
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )


@dataclass(frozen=True, slots=True)
class Split:
    """The batches of one partition that a task reads: those of ``segment`` that begin in the bytes ``[start, end)``
    (None is the end of the file). For the transactions of a partition, all of ``paths``; otherwise ``paths`` is None.

    ``cost`` is in bytes. ``transactions``, if given, are those that matter for read_committed here.
    """

    topic: str | None
    partition: int | None
    segment: SegmentPaths | None
    paths: PartitionPath | None = None
    start: int = 0
    end: int | None = None
    range: Range = field(default_factory=Range)
    transactions: Transactions | None = None
    cost: int = 0


class Task(InputPartition):
    """What one Spark task reads, in order."""

    def __init__(self, splits: tuple[Split, ...]) -> None:
        super().__init__(splits)
        self.splits = splits


def plan(options: Options, pushed: Pushed) -> list[InputPartition]:
    """The tasks of a query. Raises UsageError or UnreadableError where options or paths cannot be followed."""
    found = _find_partitions(options)
    _check_named(options, found)
    chosen = [partition for partition in found if pushed.have(partition)]
    if options.table == "transactions":
        splits = [_whole(each) for each in chosen if each.segment_paths]
    else:
        ranges = [(each, _range(each, options)) for each in chosen]
        pairs = [(each, narrow(own, pushed.range)) for each, own in ranges if own is not None]
        size = _split_bytes(options, [each for each, _ in pairs])
        splits = [one for each, own in pairs for one in _splits(each, own, options, pushed, size)]
    return [Task(tuple(group)) for group in _group(splits, options)] or [Task(())]


def _find_partitions(options: Options) -> list[Partition]:
    storage = options.storage or None
    found: list[Partition] = []
    for pattern in options.paths:
        paths = expand(pattern, storage)
        for path in paths:
            # A pattern also meets a partition's indexes and a log directory's checkpoints.
            if (
                glob.has_magic(pattern)
                and not path.endswith((".log", ".checkpoint"))
                and not is_directory(path, storage)
            ):
                continue
            found += open(path, include=options.include, storage_options=storage).partitions  # type: ignore[arg-type]
    _check_there(options, found)
    chosen = [each for each in found if options.topics.have(each.topic, each.partition)]
    for finding in (finding for each in chosen for finding in each.paths.findings):
        if options.mode == "FAILFAST":
            raise UnreadableError(str(finding))
        _log.warning("not read: %s", finding)
    return chosen


def _check_there(options: Options, found: list[Partition]) -> None:
    """What is asked for by name has to be there."""
    names = sorted({each.topic for each in found if each.topic is not None})
    there = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") if names else "none"
    for topic in sorted((options.topics.subscribe or frozenset()) - set(names)):
        raise UnreadableError(f"option subscribe: there is no topic {topic!r} in {_paths(options)}; topics: {there}")
    missing = (options.topics.assign or frozenset()) - {_name(each) for each in found}
    for topic, partition in sorted(missing):
        raise UnreadableError(
            f"option assign: there is no partition {topic}-{partition} in {_paths(options)}; topics: {there}"
        )


def _check_named(options: Options, found: list[Partition]) -> None:
    """Offsets by partition are for all partitions or none, as in spark-sql-kafka."""
    assigned = frozenset(_name(each) for each in found)
    for side, limit in (("starting", options.start), ("ending", options.end)):
        named = limit.partitions
        if named is not None and named != assigned:
            name = f"{side}OffsetsByTimestamp" if limit.timestamps is not None else f"{side}Offsets"
            told, there = (", ".join(f"{t}-{p}" for t, p in sorted(each)) for each in (named, assigned))
            raise UsageError(
                f"option {name}: it has to name all partitions that are read (offset -2 is the earliest, -1 the "
                f"latest); it names {told or 'none'}; read are {there or 'none'}"
            )


def _paths(options: Options) -> str:
    return ", ".join(options.paths[:3]) + (", ..." if len(options.paths) > 3 else "")


def _name(partition: Partition) -> TopicPartition:
    return partition.topic or "", -1 if partition.partition is None else partition.partition


def _range(partition: Partition, options: Options) -> Range | None:
    """The offsets to read of a partition; None for nothing."""
    start, end = options.start, options.end
    first: int | None = None
    if (timestamp := _timestamp(start, partition)) is not None:
        first = partition.offset_for_timestamp(timestamp)
        if first is None and options.latest_without_match:
            return None
        if first is None:
            raise UsageError(
                f"no record of {partition.topic}-{partition.partition} is at or after the starting timestamp "
                f"{timestamp}; with startingOffsetsByTimestampStrategy=latest nothing is read of such partitions"
            )
    elif start.offsets is not None:
        first = start.offsets[_name(partition)]
        first = None if first == EARLIEST else _there(first, partition, options)
    last: int | None = None
    if (timestamp := _timestamp(end, partition)) is not None:
        last = partition.offset_for_timestamp(timestamp)
    elif end.offsets is not None:
        last = end.offsets[_name(partition)]
        last = None if last == LATEST else _there(last, partition, options)
    return Range(first, last)


def _timestamp(limit: Limit, partition: Partition) -> int | None:
    return limit.timestamp if limit.timestamps is None else limit.timestamps[_name(partition)]


def _there(offset: int, partition: Partition, options: Options) -> int:
    """An offset that the log has or ends before; otherwise what the user expects to be there is not."""
    first, after = partition.start_offset or 0, partition.end_offset or 0
    if not first <= offset <= after:
        text = (
            f"{partition.topic}-{partition.partition}: offset {offset} is asked for, but the log has {first} to "
            f"{after - 1} (the next is {after})"
        )
        if options.fail_on_data_loss:
            raise UnreadableError(f"{text}; with failOnDataLoss=false what is there is read")
        _log.warning("%s; what is there is read", text)
    return offset


def narrow(one: Range, other: Range) -> Range:
    """The range of what is in both."""

    def last(a: int | None, b: int | None) -> int | None:
        return max((each for each in (a, b) if each is not None), default=None)

    def first(a: int | None, b: int | None) -> int | None:
        return min((each for each in (a, b) if each is not None), default=None)

    return Range(
        last(one.start_offset, other.start_offset),
        first(one.end_offset, other.end_offset),
        last(one.start_timestamp, other.start_timestamp),
        first(one.end_timestamp, other.end_timestamp),
    )


def _split_bytes(options: Options, partitions: list[Partition]) -> int:
    if options.min_partitions is None:
        return options.split_bytes
    total = sum(segment.log.size or 0 for each in partitions for segment in each.segment_paths)
    return max(1, min(options.split_bytes, -(-total // options.min_partitions)))


def _whole(partition: Partition) -> Split:
    cost = sum(segment.log.size or 0 for segment in partition.segment_paths)
    return Split(partition.topic, partition.partition, None, partition.paths, cost=cost)


def _splits(partition: Partition, wanted: Range, options: Options, pushed: Pushed, size: int) -> Iterator[Split]:
    storage = partition.storage_options
    transactions: Transactions | None = None
    if options.committed and options.table == "records":
        transactions = transactions_of(partition.paths, storage)
    segments = partition.segment_paths
    following = {one.base_offset: two.base_offset for one, two in pairwise(segments)}
    for segment in wanted.segments(segments):
        if pushed.files is not None and segment.log.path not in pushed.files:
            continue
        after = following.get(segment.base_offset)
        own = None if transactions is None else _compact(transactions, segment.base_offset, after)
        whole = Split(
            partition.topic, partition.partition, segment, range=wanted, transactions=own, cost=segment.log.size or 0
        )
        if options.table == "segments":
            yield whole
        elif segment.log.size is None or segment.log.size > size or options.max_records is not None:
            yield from _cut(whole, size, options.max_records, storage)
        elif segment.log.size:
            yield whole


def _compact(transactions: Transactions, start: int, end: int | None) -> Transactions:
    """Only what matters for the offsets ``[start, end)``: aborted transactions there, and the earliest open one."""
    aborted = [
        each
        for each in transactions.ended
        if each.state == "aborted"
        and each.first_offset is not None
        and each.last_offset >= start
        and (end is None or each.first_offset < end)
    ]
    stable = transactions.last_stable_offset
    first = {key: each for key, each in transactions.open.items() if each.first_offset == stable}
    return Transactions(aborted, dict(list(first.items())[:1]))


def _cut(whole: Split, size: int, max_records: int | None, storage: StorageOptions | None) -> Iterator[Split]:
    """Cuts one segment into splits of about ``size`` bytes, and of at most ``max_records`` offsets."""
    assert whole.segment is not None
    with open_file(whole.segment.log.path, storage) as file:
        start = 0
        if whole.range.start_offset is not None:
            start = position_of_offset(file, whole.segment, whole.range.start_offset, storage)
        for first, after in _byte_ranges(file, whole.segment, start, size, storage):
            if _is_behind(file, first, whole.range):
                return
            part = replace(whole, start=first, end=None if after >= file.size else after, cost=after - first)
            if max_records is None:
                yield part
            else:
                yield from _cut_by_offsets(file, part, max_records)


def _byte_ranges(
    file: File, segment: SegmentPaths, start: int, size: int, storage: StorageOptions | None
) -> list[tuple[int, int]]:
    """Ranges that start where a batch does: by the offset index where it is right, else by the chain of batches."""
    if file.size - start <= size:
        return [(start, file.size)] if start < file.size else []
    if segment.offset_index is not None:
        index = load_offset_index(segment.offset_index.path, segment.base_offset, storage)
        cuts = [start]
        # Entries lie at least some kilobytes apart: they serve where pieces are much larger.
        while file.size - cuts[-1] > size:
            slot = int(np.searchsorted(index.positions, cuts[-1] + size))
            if slot == len(index.positions) or int(index.positions[slot]) - cuts[-1] > 2 * size:
                break
            position = int(index.positions[slot])
            if not is_batch_with(file, position, int(index.offsets[slot])):
                break
            cuts.append(position)
        else:
            return list(zip(cuts, [*cuts[1:], file.size], strict=True))
    if not file.mapped:  # the chain of batches would have to be fetched as a whole
        return [(start, file.size)]
    return list(split(file, start, file.size, size))


def _is_behind(file: File, position: int, wanted: Range) -> bool:
    """Whether the batch at ``position``, and so all that follow, begin behind the offsets that are asked for."""
    if wanted.end_offset is None or not position:
        return False
    for chunk in scan(file, ignore, position, position + 1):
        return not chunk.batches.is_legacy[0] and int(chunk.batches.entry_offset[0]) >= wanted.end_offset
    return False


def _cut_by_offsets(file: File, part: Split, most: int) -> Iterator[Split]:
    """Cuts at batches where it can; a batch with more offsets than ``most`` is read by several tasks, each its part."""
    chunks = list(scan(file, ignore, part.start, part.end, HEADERS_STEP))
    if not chunks:
        yield part
        return
    positions = np.concatenate([chunk.positions for chunk in chunks])
    lasts = np.maximum.accumulate(np.concatenate([chunk.batches.last_offset for chunk in chunks]))
    base = int(chunks[0].batches.entry_offset[0])
    firsts = np.concatenate([[base], lasts[:-1] + 1])
    row, rows = 0, len(positions)
    if part.range.start_offset is not None:
        row = int(np.searchsorted(lasts, part.range.start_offset))
    while row < rows:
        first = max(int(firsts[row]), part.range.start_offset or 0)
        if part.range.end_offset is not None and first >= part.range.end_offset:
            return
        after = max(row + 1, int(np.searchsorted(lasts, first + most, side="left")))
        end = part.end if after >= rows else int(positions[after])
        piece = replace(part, start=int(positions[row]), end=end)
        last = int(lasts[after - 1])
        if last - first < most:
            yield piece
        else:
            step = max(most, -(-(last + 1 - first) // _MOST_PIECES))
            for begin in range(first, last + 1, step):
                yield replace(piece, range=narrow(part.range, Range(begin, begin + step)))
        row = after


def _group(splits: list[Split], options: Options) -> Iterator[list[Split]]:
    """Small splits share a task, in order; unless the user says how many tasks, or how large."""
    if options.min_partitions is not None or options.max_records is not None:
        yield from ([each] for each in splits)
        return
    group, size = list[Split](), 0
    for each in splits:
        if group and size + each.cost > options.split_bytes:
            yield group
            group, size = [], 0
        group.append(each)
        size += each.cost + _OPEN_COST
    if group:
        yield group
