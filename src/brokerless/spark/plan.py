"""Plans a query on the driver: finds partitions, narrows ranges, cuts segments into splits, groups them into tasks.

Only names, indexes and headers are read here; for ``read_committed`` also transaction markers. Every query is planned
in a process of its own, so what imports kernels is imported only where a plan needs it.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from brokerless.errors import DamageError, UnreadableError, UsageError
from brokerless.findings import NOT_OPENED, Finding, Kind
from brokerless.kafka_names import Isolation
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import ReplacedError, open_listed, with_current_listing
from brokerless.log.ranges import EVERYTHING, Range, from_log_start
from brokerless.log.seek import end_offset, log_start_after_end
from brokerless.log.storage.paths import is_remote
from brokerless.log.storage.side_by_side import side_by_side
from brokerless.log.walk import check_ends
from brokerless.progress import Report
from brokerless.spark.discovery import check_named, find_partitions, is_unknown, name_of
from brokerless.spark.options import EARLIEST, LATEST, Limit, Options
from brokerless.spark.split import ReadTask, Split, cut, split_bytes, task_rounds
from brokerless.tables.partition_tables import offset_for_time

if TYPE_CHECKING:
    from brokerless.log.producer.transactions import Transactions

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

    def have(self, partition: PartitionPath | Split) -> bool:
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )


def plan(options: Options, pushed: Pushed | None = None) -> list[InputPartition]:
    """Return the tasks of a query. Raises UsageError or UnreadableError where options or paths cannot be followed.

    What cannot be opened, and damage that hides a transaction's end, fails a query in FAILFAST mode; in the others it
    is logged and left out, and PERMISSIVE has a split for it, which becomes a row.
    """
    pushed = pushed or Pushed()
    found = find_partitions(options)
    check_named(options, found)
    candidates = [each for each in found if pushed.have(each) or is_unknown(each)]
    is_far = any(is_remote(each.path) for each in candidates)
    looked_at = list(side_by_side(lambda each: _look_at(each, options), candidates, is_far))
    reported = [split for _, of_one in looked_at for split in of_one]
    chosen = [left for left, _ in looked_at if left is not None]
    if options.table == "transactions":
        splits = [_whole(each) for each in chosen if each.segments]
    else:
        ranges = zip(chosen, side_by_side(lambda each: _range(each, options), chosen, is_far), strict=True)
        pairs = {each.path: (each, own.narrow(pushed.bounds)) for each, own in ranges if own is not None}
        size = split_bytes(options, sum(segment.size for each, _ in pairs.values() for segment in each.segments))
        listed = {each.path: each for each in found}

        def cut_one(each: PartitionPath) -> tuple[list[Split], list[Split]]:
            return _current_splits(
                each, pairs[each.path][1], options, pushed=pushed, size=size, listed=listed[each.path]
            )

        splits: list[Split] = []
        for found_splits, reported_here in side_by_side(cut_one, [each for each, _ in pairs.values()], is_far):
            splits += found_splits
            reported += reported_here
    if pushed.files is not None:
        reported = [each for each in reported if each.findings[0].file in pushed.files]
    reported = [each for each in reported if pushed.have(each)]
    return tasks_of([*splits, *reported], options) or [ReadTask(())]


def _look_at(partition: PartitionPath, options: Options) -> tuple[PartitionPath | None, list[Split]]:
    """The partition without what cannot be opened, None if nothing is left, and splits for what is reported."""
    reported: list[Split] = []
    report = reporter(partition, options, reported)
    if (finding := log_start_after_end(partition)) is not None:
        report(finding)
    left = _leave_out_unreadable(partition, options, report)
    is_left = left.segments or not (partition.segments or partition.findings)
    return (left if is_left else None), reported


def reporter(partition: PartitionPath, options: Options, reported: list[Split]) -> Report:
    """Return what planning does about an error in a partition, by mode, and about offsets that are not read."""

    def report(finding: Finding) -> None:
        if finding.severity != "error" and finding.kind != Kind.SEGMENT_REPLACED:
            return
        if options.mode == "FAILFAST":
            if finding.kind in (Kind.UNREADABLE_DIRECTORY, *NOT_OPENED):
                raise UnreadableError("", str(finding), finding.kind)
            raise DamageError(finding)
        _log.warning("damaged and not read: %s", finding)
        if options.mode == "PERMISSIVE":
            reported.append(Split(partition.topic, partition.partition, None, findings=(finding,)))

    return report


def _leave_out_unreadable(partition: PartitionPath, options: Options, report: Report) -> PartitionPath:
    """The partition without segments that cannot be opened, which are reported.

    In FAILFAST mode a task fails where it comes to one; only where planning itself reads the whole log is it looked
    for here, as what it hides would be missed without a word.
    """
    reads_all = options.committed or options.table == "transactions"
    reads_all |= any(each.timestamp is not None or each.timestamps is not None for each in (options.start, options.end))
    if options.mode == "FAILFAST" and not reads_all:
        for finding in partition.findings:
            report(finding)
        return partition

    def leave_out(paths: PartitionPath) -> PartitionPath:
        there: list[SegmentPaths] = []
        findings = list(paths.findings)
        for segment in paths.segments:
            try:
                open_listed(segment, segment is paths.segments[-1]).close()
            except ReplacedError:
                raise
            except UnreadableError as error:
                if segment.log.path == paths.path:
                    raise
                findings.append(error.finding(segment.log.path, segment.base_offset))
            else:
                there.append(segment)
        for finding in findings:
            report(finding)
        return replace(paths, segments=tuple(there))

    return with_current_listing(partition, leave_out)


def _range(partition: PartitionPath, options: Options) -> Range | None:
    """The offsets to read of a partition; None for nothing."""
    start, end, begin = options.start, options.end, begin_of(partition, options)
    first: int | None = None
    if (timestamp := timestamp_of(start, partition)) is not None:
        first = first_since(partition, timestamp, options)
        if first is None:
            return None
    elif start.offsets is not None:
        first = start.offsets[name_of(partition)]
        first = None if first == EARLIEST else _there(first, begin, partition, options)
    if options.table == "records" and not (log := from_log_start(partition)).is_everything:
        first = max(first or 0, log.start_offset or 0)
    last: int | None = None
    if (timestamp := timestamp_of(end, partition)) is not None:
        last = offset_for_time(partition, timestamp, isolation_of(options), options.max_batch_bytes)
    elif end.offsets is not None:
        last = end.offsets[name_of(partition)]
        last = None if last == LATEST else _there(last, begin, partition, options)
    return Range(first, last)


def timestamp_of(limit: Limit, partition: PartitionPath) -> int | None:
    """Return the timestamp (ms) at which reading of a partition is to start or end, if any."""
    return limit.timestamp if limit.timestamps is None else limit.timestamps[name_of(partition)]


def first_since(partition: PartitionPath, timestamp: int, options: Options) -> int | None:
    """Return the first offset at or after the starting timestamp (ms); None where there is none and the user accepts
    that."""
    first = offset_for_time(partition, timestamp, isolation_of(options), options.max_batch_bytes)
    if first is None and not options.latest_without_match:
        raise UsageError(
            f"no record of {partition.topic}-{partition.partition} is at or after the starting timestamp "
            f"{timestamp}; with startingOffsetsByTimestampStrategy=latest nothing is read of such partitions"
        )
    return first


def begin_of(partition: PartitionPath, options: Options) -> int:
    """Return the first offset that there is for a query: that of files, or for records the log start offset."""
    if options.table == "records" or not partition.segments:
        return partition.start_offset or 0
    return partition.segments[0].base_offset


def isolation_of(options: Options) -> Isolation:
    """Return the isolation level of a query."""
    return "read_committed" if options.committed else "read_uncommitted"


def _there(offset: int, begin: int, partition: PartitionPath, options: Options) -> int:
    """An offset that the log has from ``begin`` on or ends before; otherwise what the user expects to be there is
    not."""
    after = end_offset(partition) or 0
    if not begin <= offset <= after:
        text = (
            f"{partition.topic}-{partition.partition}: offset {offset} is requested, but the log has {begin} to "
            f"{after - 1} (the next is {after})"
        )
        if options.fail_on_data_loss:
            raise UnreadableError("", f"{text}; with failOnDataLoss=false the data that is left is read")
        _log.warning("%s; the data that is left is read", text)
    return offset


def _whole(partition: PartitionPath) -> Split:
    cost = sum(segment.size for segment in partition.segments)
    return Split(partition.topic, partition.partition, None, partition, cost=cost)


def _current_splits(
    partition: PartitionPath, requested: Range, options: Options, pushed: Pushed, size: int, listed: PartitionPath
) -> tuple[list[Split], list[Split]]:
    """The splits of a partition, and those for what planning met, which a broker may change while it is planned.
    ``listed``: as for :func:`_splits`."""

    def work(paths: PartitionPath) -> tuple[list[Split], list[Split]]:
        reported = list[Split]()
        whole = listed if paths is partition else paths
        return list(
            _splits(
                paths,
                requested,
                options,
                pushed=pushed,
                size=size,
                report=reporter(paths, options, reported),
                listed=whole,
            )
        ), reported

    return with_current_listing(partition, work)


def _splits(
    partition: PartitionPath,
    requested: Range,
    options: Options,
    pushed: Pushed,
    size: int,
    report: Report,
    listed: PartitionPath,
) -> Iterator[Split]:
    """Yield the splits of a partition. ``listed``: the partition with those segments, too, that cannot be opened and
    are not missing, therefore."""
    transactions: Transactions | None = None
    found: list[Finding] = []
    if options.committed and options.table == "records":
        from brokerless.log.partition import transactions_of

        transactions = transactions_of(partition, found.append)
        requested = requested.narrow(Range(end_offset=transactions.end_offset))
        for finding in found:
            report(finding)
    segments = partition.segments
    following = {one.base_offset: two.base_offset for one, two in pairwise(segments)}
    check_ends(listed, report, requested)
    wholes: list[Split] = []
    for segment in requested.segments(segments):
        if pushed.files is not None and segment.log.path not in pushed.files:
            continue
        after = following.get(segment.base_offset)
        own = None if transactions is None else compact(transactions, segment.base_offset, after)
        whole = Split(
            partition.topic,
            partition.partition,
            segment,
            bounds=requested,
            transactions=own,
            cost=segment.size,
            findings=tuple(each for each in found if each.file == segment.log.path),
            is_followed=after is not None,
            start_offset=from_log_start(partition).start_offset or 0,
            following=None if pushed.files is not None else _with_next(listed, segment),
            directory=partition.location,
            offsets=Range(segment.base_offset, after),
            own=Range(segment.base_offset, after),
            query=requested,
        )
        wholes.append(whole)
    for cut_up in side_by_side(lambda whole: _cut(whole, options, size), wholes, is_remote(partition.path)):
        yield from cut_up


def _cut(whole: Split, options: Options, size: int) -> list[Split]:
    """The splits of one segment, whose file is opened only if it is large."""
    assert whole.segment is not None
    segment = whole.segment
    if options.table == "segments":
        return [whole]
    if segment.log.size is None or segment.log.size > size or options.max_records is not None:
        splits = list(cut(whole, size, options.max_records))
        reaches_end = any(one.end is None and one.following is not None for one in splits)
        if not reaches_end and whole.following is not None:  # nothing of it but what follows its last batch
            splits.append(replace(whole, start=segment.size, cost=0))
        return splits
    return [whole] if segment.log.size or whole.following is not None else []


def _with_next(paths: PartitionPath, segment: SegmentPaths) -> PartitionPath | None:
    """The partition with a segment and the one after it alone; None for the last one."""
    at = bisect_right(paths.segments, segment.base_offset, key=lambda each: each.base_offset)
    return None if at == len(paths.segments) else replace(paths, segments=paths.segments[at - 1 : at + 1])


def compact(transactions: Transactions, start: int, end: int | None) -> Transactions:
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


def tasks_of(splits: list[Split], options: Options) -> list[InputPartition]:
    """Return the tasks that read the splits; none for none."""
    return [ReadTask(tuple(group)) for group in _group(splits, options)]


def _group(splits: list[Split], options: Options) -> Iterator[list[Split]]:
    """Small splits share a task, in order; unless the user says how many records one may have."""
    if options.max_records is not None:
        yield from ([each] for each in splits)
        return
    if options.min_partitions is not None:
        yield from balance(splits, options.min_partitions * task_rounds(options, sum(each.cost for each in splits)))
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


def balance(splits: list[Split], tasks: int) -> Iterator[list[Split]]:
    """So many groups of about the same cost, in order; fewer only if there are not as many splits."""
    left = sum(each.cost + _OPEN_COST for each in splits)
    group, size = list[Split](), 0
    for row, each in enumerate(splits):
        cost = each.cost + _OPEN_COST
        is_full = size + cost / 2 > left / tasks or len(splits) - row < tasks
        if group and tasks > 1 and is_full:
            yield group
            group, size, left, tasks = [], 0, left - size, tasks - 1
        group.append(each)
        size += cost
    if group:
        yield group
