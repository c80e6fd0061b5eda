"""What to read, planned on the driver: paths -> partitions -> ranges of offsets -> byte ranges -> tasks.

Only names, indexes and headers are read here; for ``read_committed`` also transaction markers. Every query is planned
in a process of its own, so what imports kernels is imported only where a plan needs it.
"""

from __future__ import annotations

import glob
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from brokerless.errors import DamageError, Finding, UnreadableError, UsageError
from brokerless.log.directory import PartitionPath
from brokerless.log.names import parse_partition_directory
from brokerless.log.ranges import EVERYTHING, Range
from brokerless.log.segment import open_segments
from brokerless.log.storage import Entry, StorageOptions, directory_name, exists, expand, is_directory
from brokerless.logs import Partition, open
from brokerless.spark.options import EARLIEST, LATEST, Limit, Options, TopicPartition
from brokerless.spark.splits import Split, Task, cut

if TYPE_CHECKING:
    from brokerless.log.transactions import Transactions

_OPEN_COST = 4 << 20
"""What opening a file counts as, in bytes, when small files share a task; as Spark's own readers have it."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a query's filters leave to read; None is without restriction."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    files: frozenset[str] | None = None
    bounds: Range = EVERYTHING

    def have(self, partition: Partition | Split) -> bool:
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )


def plan(options: Options, pushed: Pushed | None = None) -> list[InputPartition]:
    """The tasks of a query. Raises UsageError or UnreadableError where options or paths cannot be followed.

    What cannot be opened, and damage that hides a transaction's end, fails a query in FAILFAST mode; in the others it
    is logged and left out, and PERMISSIVE has a split for it, which becomes a row.
    """
    pushed = pushed or Pushed()
    found = _find_partitions(options)
    _check_named(options, found)
    told: list[Split] = []
    chosen: list[Partition] = []
    for each in (partition for partition in found if pushed.have(partition) or _is_unknown(partition)):
        left = _leave_out_unreadable(each, options, _teller(each, options, told))
        if left.segment_paths or not (each.segment_paths or each.paths.findings):
            chosen.append(left)
    if options.table == "transactions":
        splits = [_whole(each) for each in chosen if each.segment_paths]
    else:
        ranges = [(each, _range(each, options)) for each in chosen]
        pairs = [(each, own.narrow(pushed.bounds)) for each, own in ranges if own is not None]
        size = _split_bytes(options, [each for each, _ in pairs])
        splits = [
            one
            for each, own in pairs
            for one in _splits(each, own, options, pushed, size, _teller(each, options, told))
        ]
    if pushed.files is not None:
        told = [each for each in told if each.findings[0].file in pushed.files]
    told = [each for each in told if pushed.have(each)]
    return [Task(tuple(group)) for group in _group([*splits, *told], options)] or [Task(())]


def _teller(partition: Partition, options: Options, told: list[Split]) -> Callable[[Finding], None]:
    """What planning does about an error in a partition, by mode."""

    def tell(finding: Finding) -> None:
        if finding.severity != "error":
            return
        if options.mode == "FAILFAST":
            raise UnreadableError(str(finding)) if finding.kind.startswith("unreadable") else DamageError(finding)
        _log.warning("damaged and not read: %s", finding)
        if options.mode == "PERMISSIVE":
            told.append(Split(partition.topic, partition.partition, None, findings=(finding,)))

    return tell


def _leave_out_unreadable(partition: Partition, options: Options, tell: Callable[[Finding], None]) -> Partition:
    """The partition without segments that cannot be opened, which are told.

    In FAILFAST mode a task fails where it comes to one; only where planning itself reads the whole log is it looked
    for here, as what it hides would be missed without a word.
    """
    reads_all = options.committed or options.table == "transactions"
    reads_all |= any(each.timestamp is not None or each.timestamps is not None for each in (options.start, options.end))
    if options.mode == "FAILFAST" and not reads_all:
        for finding in partition.paths.findings:
            tell(finding)
        return partition
    segments = tuple(each for each, _ in open_segments(partition.paths, tell, None, partition.storage_options))
    return Partition(replace(partition.paths, segments=segments), partition.storage_options)


def _find_partitions(options: Options) -> list[Partition]:
    storage = options.storage or None
    found: list[Partition] = []
    for pattern in options.paths:
        paths = expand(pattern, storage)
        for path in paths:
            if glob.has_magic(pattern) and not _is_log_or_directory(path, storage):
                continue
            try:
                log = open(path, include=options.include, storage_options=storage)  # type: ignore[arg-type]
            except UnreadableError as error:
                if not glob.has_magic(pattern):
                    raise
                found.append(_unreadable(path, str(error).removeprefix(f"{path}: "), options))
                continue
            found += log.partitions
            found += [
                _unreadable(each.path, "there is no such file or directory", options)
                for each in log.directory.foreign
                if _is_dangling_partition(each, options)
            ]
    _check_there(options, found)
    return [each for each in found if options.topics.have(each.topic, each.partition) or _is_unknown(each)]


def _is_log_or_directory(path: str, storage: StorageOptions | None) -> bool:
    """A pattern also meets a partition's indexes, a log directory's checkpoints, and links that lead nowhere."""
    if path.endswith((".log", ".checkpoint")) or is_directory(path, storage):
        return True
    return parse_partition_directory(directory_name(path)) is not None and not exists(path, storage)


def _unreadable(path: str, reason: str, options: Options) -> Partition:
    """A partition of which nothing is known but why it cannot be read."""
    named = parse_partition_directory(directory_name(path))
    finding = Finding("error", "unreadable-file", path, None, None, reason)
    topic, partition = (None, None) if named is None else (named.topic, named.partition)
    return Partition(PartitionPath(topic, partition, path, findings=(finding,)), options.storage or None)


def _is_unknown(partition: Partition) -> bool:
    """Whether it could not be opened, and so may hold anything."""
    return partition.topic is None and bool(partition.paths.findings)


def _is_dangling_partition(entry: Entry, options: Options) -> bool:
    """Whether a link that leads nowhere is named as the directory of a partition that is asked for."""
    named = parse_partition_directory(entry.name)
    is_dangling = not entry.is_directory and entry.size is None
    return is_dangling and named is not None and named.state in ("live", *options.include)


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
    assigned = frozenset(_name(each) for each in found if not _is_unknown(each))
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


def _split_bytes(options: Options, partitions: list[Partition]) -> int:
    if options.min_partitions is None:
        return options.split_bytes
    total = sum(segment.log.size or 0 for each in partitions for segment in each.segment_paths)
    return max(1, min(options.split_bytes, -(-total // options.min_partitions)))


def _whole(partition: Partition) -> Split:
    cost = sum(segment.log.size or 0 for segment in partition.segment_paths)
    return Split(partition.topic, partition.partition, None, partition.paths, cost=cost)


def _splits(
    partition: Partition,
    wanted: Range,
    options: Options,
    pushed: Pushed,
    size: int,
    tell: Callable[[Finding], None],
) -> Iterator[Split]:
    storage = partition.storage_options
    transactions: Transactions | None = None
    found: list[Finding] = []
    if options.committed and options.table == "records":
        from brokerless.log.partition import transactions_of

        transactions = transactions_of(partition.paths, storage, found.append)
        for finding in found:
            tell(finding)
    segments = partition.segment_paths
    following = {one.base_offset: two.base_offset for one, two in pairwise(segments)}
    for segment in wanted.segments(segments):
        if pushed.files is not None and segment.log.path not in pushed.files:
            continue
        after = following.get(segment.base_offset)
        own = None if transactions is None else _compact(transactions, segment.base_offset, after)
        whole = Split(
            partition.topic,
            partition.partition,
            segment,
            bounds=wanted,
            transactions=own,
            cost=segment.log.size or 0,
            findings=tuple(each for each in found if each.file == segment.log.path),
        )
        if options.table == "segments":
            yield whole
        elif segment.log.size is None or segment.log.size > size or options.max_records is not None:
            yield from cut(whole, size, options.max_records, storage)
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
    return type(transactions)(aborted, dict(list(first.items())[:1]))


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
