"""Tracks a log directory for a streaming query: partitions, their ends, the splits of each micro-batch.

A listing is not of one moment. A file that is created meanwhile may be missing in it although a later one is there, and
so may one that a compaction is about to replace. So segments are listed again where there are new ones, up to the
newest that was there before, and while a compaction is seen to be replacing some.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePath
from typing import TypeVar

from pyspark.sql.datasource import InputPartition

from brokerless.errors import DamageError, UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.jobs.named_partitions import topic_id_of_partition
from brokerless.kafka_names import TopicPartition
from brokerless.log.checkpoint.partition_metadata import topic_id_of
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import ReplacedError, open_listed
from brokerless.log.offset_gaps import missing_after
from brokerless.log.positions import end_position, first_position
from brokerless.log.ranges import FileSpan, Range
from brokerless.log.storage.files import File
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.tail import Tail, look, look_committed
from brokerless.progress import Report
from brokerless.spark.discovery import check_named, find_partitions, name_of
from brokerless.spark.options import EARLIEST, LATEST, Options
from brokerless.spark.plan import compact, first_since, reporter, tasks_of, timestamp_of
from brokerless.spark.split import Split, cut, first_batch, split_bytes
from brokerless.spark.stream.positions import Identity, Positions, TopicIdsByName
from brokerless.tables.last_record import LastRecord, last_record, other_record

Partitions = dict[TopicPartition, PartitionPath]
SegmentEnds = dict[int, int | None]
"""Base offset -> size (bytes)."""

ResultT = TypeVar("ResultT")
_TRIES, _PAUSE = 20, 0.05
"""How often, and after how many seconds, it is looked again while files change places, which a broker does in some
milliseconds."""
_log = logging.getLogger(__name__)


class LogTracker:
    """Keeps where partitions ended, so that the next look goes on there. Raises :class:`UnreadableError` for lost data
    where the options want that, and otherwise logs it, once."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._tails: dict[TopicPartition, Tail] = {}
        self._listed: dict[TopicPartition, SegmentEnds] = {}
        self._planned: dict[TopicPartition, SegmentEnds] = {}
        self._logged = set[str]()
        self._metadata: dict[DirectoryEntry, str | None] = {}
        """Topic IDs by the file that has them, as it was listed: it is read once."""
        self._there: Partitions = {}
        """Those of the last look."""
        self._same: dict[TopicPartition, tuple[LastRecord, SegmentEnds]] = {}
        """In which state of its log the last record of a partition was found as it was read."""
        self.topic_ids: dict[str, str] = {}
        """Of the topics that were there at the last look, as far as they have one."""

    def initial(self) -> dict[TopicPartition, int]:
        """Return where a new query begins. Topics and partitions that are named in the options have to be there."""
        partitions = self._list(must_be_there=True)
        check_named(self.options, list(partitions.values()))
        return {each: self._initial(each, partition) for each, partition in partitions.items()}

    def ends(
        self, start: Positions, committed: bool | None = None, known: Identity | None = None
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return where each partition ends now, and where reading it begins: ``start``, and for a new one its first
        offset.

        ``committed``: at the last stable offset; by default as the options say. Partitions of ``start`` that are not
        there any more end where they were. ``known``: of the logs of ``start``. A topic that was deleted and made
        again is lost data, and begins at its first offset, or its log's; one that was cut back begins where it was
        cut."""
        committed = self.options.committed if committed is None else committed
        return self._again(lambda is_last: self._ends(start, known or Identity(), committed, is_last))

    def plan(
        self, start: Positions, end: Positions, at_start: Identity | None = None, at_end: Identity | None = None
    ) -> list[InputPartition]:
        """Return the tasks that read from ``start`` up to and without ``end``; partitions that ``start`` does not have
        are read from their first offset on, and so are those of a topic that was another one at ``start``. Of one that
        was another one at ``end``, nothing is read."""
        known = at_start or Identity(), at_end or Identity()
        return tasks_of(self._again(lambda _: self._plan(start, end, *known)), self.options)

    def identity(self, ends: Positions, start: Positions | None = None, known: Identity | None = None) -> Identity:
        """Return what identifies the logs of the last look at some positions. ``known``: at ``start``; it stays where a
        position did not change, as Spark would take another text for news."""
        start, known = start or {}, known or Identity()
        last = {each: record for each, record in known.last_records.items() if start.get(each) == ends.get(each)}
        for each, offset in ends.items():
            if start.get(each) != offset and each in self._there:
                record = last_record(self._there[each], offset)
                last |= {} if record is None else {each: record}
        return Identity({**known.topic_ids, **self.topic_ids}, last)

    def forget(self, before: Positions) -> None:
        """Transactions that ended before these offsets matter no more."""
        for each, tail in self._tails.items():
            if tail.transactions is not None and each in before:
                ended = tail.transactions.ended
                ended[:] = [one for one in ended if one.last_offset >= before[each]]

    def _again(self, work: Callable[[bool], ResultT]) -> ResultT:
        """Does what may meet files that are gone since they were listed, and so in a new listing, too."""
        others = 0
        for _ in range(_TRIES):
            try:
                return work(False)
            except ReplacedError:
                pass
            except UnreadableError:
                others += 1
                if others == 2:
                    break
            time.sleep(_PAUSE)
        return work(True)

    def _list(self, must_be_there: bool = False) -> Partitions:
        found: Partitions = {}
        for attempt in range(_TRIES):
            found = self._named(must_be_there)
            if any(self._listed.get(each, {}).keys() != _segments(one).keys() for each, one in found.items()):
                again = self._named(must_be_there)
                pairs = [(each, one, again[each]) for each, one in found.items() if each in again]
                if not all(_newest(one) in _segments(two) for _, one, two in pairs):
                    continue  # compaction has put the newest into another: where the log ends is not known by this
                found = {each: _up_to(one, two) for each, one, two in pairs}
            if attempt or not any(self._has_gaps(each, one) for each, one in found.items()):
                break
            time.sleep(_PAUSE)
        for finding in (each for one in found.values() for each in one.findings):
            if finding.kind == Kind.SEGMENT_REPLACED:
                self._lose(str(finding))
        self._listed = {each: _segments(one) for each, one in found.items()}
        ids = dict[str, str | None]()
        for (topic, _), one in found.items():
            if ids.get(topic) is None:
                ids[topic] = self._topic_id(one, is_first=topic not in ids)
        self.topic_ids = {topic: known for topic, known in ids.items() if known is not None}
        self._there = found
        return found

    def _topic_id(self, partition: PartitionPath, is_first: bool) -> str | None:
        """Return the ID of a partition's topic. ``is_first``: none was asked of its topic before; the cluster's
        metadata says the same of all of them."""
        metadata = partition.partition_metadata
        if metadata is None:
            return topic_id_of_partition(partition) if is_first else None
        if metadata not in self._metadata:
            self._metadata[metadata] = topic_id_of(metadata)
        return self._metadata[metadata]

    def _of_same_topics(self, positions: Positions, ids: TopicIdsByName) -> dict[TopicPartition, int]:
        """The positions without those of topics that have another ID now: their offsets are of the topic that was
        deleted, of which nothing is left to read."""
        again = {each for each, known in ids.items() if self.topic_ids.get(each, known) != known}
        for each in sorted(again):
            what = f"it had the topic ID {ids[each]}, and has {self.topic_ids[each]} now"
            self._lose(f"{each}: it was deleted and made again since it was read: {what}")
        for each in [one for one in self._tails if one[0] in again]:
            self._tails.pop(each)
            self._planned.pop(each, None)
        return {each: offset for each, offset in positions.items() if each[0] not in again}

    def _of_same_logs(self, partitions: Partitions, positions: Positions, known: Identity) -> dict[TopicPartition, int]:
        """The positions; where another record is now at the offset of the last one that was read, where the log was cut
        back to, or the first offset of another log."""
        found = dict(positions)
        for each, last in known.last_records.items():
            if each not in found or each not in partitions:
                continue
            partition, seen = partitions[each], (last, _segments(partitions[each]))
            if self._same.get(each) == seen:
                continue
            other = other_record(partition, last)
            if other is None:
                self._same[each] = seen
                continue
            found[each] = (partition.start_offset or 0) if other.cut_at is None else other.cut_at
            self._lose(f"{_text(each)}: {other.reason}; the next offset is {found[each]}")
            self._tails.pop(each, None)
            self._planned.pop(each, None)
        return found

    def _named(self, must_be_there: bool) -> Partitions:
        found: Partitions = {}
        for each in find_partitions(self.options, may_be_empty=True, may_be_missing=not must_be_there):
            for finding in each.findings:
                if finding.severity != "error":  # a commit that has not ended, say: that is not there yet
                    continue
                if self.options.mode == "FAILFAST":
                    raise UnreadableError("", str(finding))
                self._warn(f"not read: {finding}")
            if not each.segments:
                continue
            if each.topic is None:
                raise UsageError(f"{each.path}: one file does not grow into a log; give its partition's directory")
            other = found.setdefault(name_of(each), each)
            if other is not each:
                raise UsageError(
                    f"{each.topic}-{each.partition} is in two directories, {other.path} and {each.path}; a stream can "
                    "follow only one of them"
                )
        return found

    def _has_gaps(self, each: TopicPartition, partition: PartitionPath) -> bool:
        """Return whether segments are missing that were there, and that retention did not take: it begins with the
        first."""
        now, before = _segments(partition), self._listed.get(each, {})
        return any(base > next(iter(now)) for base in before if base not in now)

    def _initial(self, each: TopicPartition, partition: PartitionPath) -> int:
        start, first = self.options.start, partition.start_offset or 0
        requested = LATEST
        if (timestamp := timestamp_of(start, partition)) is not None:
            since = first_since(partition, timestamp, self.options)
            requested = LATEST if since is None else since
        elif start.offsets is not None:
            requested = start.offsets[each]
        elif start.edge == "earliest":
            requested = EARLIEST
        if requested == LATEST:
            return self._look(each, partition, None, self.options.committed).stable_offset
        end = self._look(each, partition, None, False).end_offset
        if requested != EARLIEST and not first <= requested <= end:
            self._lose(
                f"{_text(each)}: offset {requested} is requested, but the log has {first} to {end - 1} "
                f"(the next is {end})"
            )
        return first if requested == EARLIEST else max(first, min(requested, end))

    def _look(self, each: TopicPartition, partition: PartitionPath, start: int | None, committed: bool) -> Tail:
        before = self._tails.get(each)
        if committed:
            if before is not None and before.transactions is None:
                before = None
            tail = look_committed(partition, before, start, self._report)
        else:
            tail = look(partition, before)
        # What is known of transactions is not to be lost by a look without them.
        if committed or before is None or before.transactions is None:
            self._tails[each] = tail
        return tail

    def _ends(
        self, start: Positions, known: Identity, committed: bool, is_last: bool
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        partitions = self._list()
        start = self._of_same_logs(partitions, self._of_same_topics(start, known.topic_ids), known)
        ends: dict[TopicPartition, int] = {}
        begins = dict(start)
        for each, partition in partitions.items():
            begin = start.get(each, partition.start_offset or 0)
            try:
                tail = self._look(each, partition, begin, committed)
            except UnreadableError as error:
                if not is_last or self.options.mode == "FAILFAST":
                    raise
                self._warn(f"not read: {error}")
                continue
            if tail.end_offset < begin:
                self._lose(f"{_text(each)}: offset {begin} comes next, but the log was cut back to {tail.end_offset}")
                self._tails.pop(each)
                begin = tail.end_offset
            stable = tail.stable_offset if committed else tail.end_offset
            ends[each] = min(tail.end_offset, max(begin, stable))
            begins[each] = begin
        for each in start.keys() - partitions.keys():
            self._lose(f"{_text(each)}: it was read up to offset {start[each]}, and is not there any more")
        return {**start, **ends}, begins

    def _plan(self, start: Positions, end: Positions, at_start: Identity, at_end: Identity) -> list[Split]:
        partitions = self._list()
        left = self._of_same_topics(end, at_end.topic_ids)
        gone = {topic for topic, _ in end.keys() - left.keys()}
        same = self._of_same_logs(partitions, left, at_end)
        left = {each: offset for each, offset in left.items() if same[each] == offset}
        others = end.keys() - left.keys()
        start = {each: offset for each, offset in start.items() if each not in others and each[0] not in gone}
        start, end = self._of_same_logs(partitions, self._of_same_topics(start, at_start.topic_ids), at_start), left
        reported = list[Split]()
        spans = list[tuple[PartitionPath, Range, list[Split]]]()
        for each in start.keys() - end.keys():
            self._lose(f"{_text(each)}: it was read up to offset {start[each]}, and is not there any more")
        for each, after in sorted(end.items()):
            if start.get(each, -1) >= after:
                if start[each] > after:
                    self._lose(f"{_text(each)}: offset {start[each]} comes next, but the log was cut back to {after}")
                continue
            if each not in partitions:
                self._lose(f"{_text(each)}: it is to be read up to offset {after}, and is not there any more")
                continue
            partition = partitions[each]
            begin = self._begin(each, partition, start)
            if self._look(each, partition, begin, False).end_offset < after:
                self._lose(f"{_text(each)}: it is to be read up to offset {after}, but the log ends before that")
            if begin < after:
                spans.append(
                    (
                        partition,
                        Range(begin, after),
                        list(self._spans(each, partition, begin, after=after, reported=reported)),
                    )
                )
        splits = [split for _, _, found in spans for split in found]
        size, most = split_bytes(self.options, sum(each.cost for each in splits)), self.options.max_records
        cuts = [
            one
            for split in splits
            for one in (cut(split, size, most) if split.cost > size or most is not None else (split,))
        ]
        return [*cuts, *reported]

    def _begin(self, each: TopicPartition, partition: PartitionPath, start: Positions) -> int:
        """Return where reading begins: at the position, or where the log begins now."""
        is_new = each not in start
        first = partition.start_offset or 0
        begin = start.get(each, 0)
        if is_new and first:
            self._lose(f"{_text(each)}: it is new, but begins at offset {first}; what was before was not read")
        elif begin < first:
            self._lose(f"{_text(each)}: offset {begin} comes next, but the log now begins at {first}")
        self._check_late(each, partition, begin)
        self._planned[each] = _segments(partition)
        return max(begin, first)

    def _check_late(self, each: TopicPartition, partition: PartitionPath, begin: int) -> None:
        """Segments that come, or grow, after what follows them was read: a backup is filled in another order. One that
        grows as others are gone between it and the next has their records, as compaction puts segments together."""
        before = self._planned.get(each, {})
        followed = dict(pairwise(before))
        for segment, following in pairwise(partition.segments):
            base, after = segment.base_offset, following.base_offset
            if not before or after > begin:
                return
            has_grown = followed.get(base) == after and segment.size > (before[base] or 0)
            if base not in before or has_grown:
                self._lose(f"{segment.log.path}: this came into the log after what follows it was read")

    def _spans(
        self, each: TopicPartition, partition: PartitionPath, begin: int, after: int, reported: list[Split]
    ) -> Iterator[Split]:
        """Yield what of each segment has the offsets from ``begin`` up to and without ``after``."""
        report, bounds = reporter(partition, self.options, reported), Range(begin, after)
        transactions = None
        if self.options.committed:
            transactions = self._look(each, partition, begin, True).transactions
        segments = bounds.segments(partition.segments)
        following = {one.base_offset: two for one, two in pairwise(partition.segments)}
        for segment, file in self._open(partition, segments, report):
            base, behind = segment.base_offset, following.get(segment.base_offset)
            next_base = None if behind is None else behind.base_offset
            first = first_position(file, segment, begin) if begin > base else 0
            # All of a segment that was passed, with what follows its last batch; of the others the requested range.
            is_whole = next_base is not None and next_base <= after
            if is_whole and behind is not None:
                self._check_whole(partition, segment, behind, file)
            end = file.size if is_whole else end_position(file, segment, after)
            if first < end:
                yield Split(
                    partition.topic,
                    partition.partition,
                    segment,
                    start=first,
                    end=None if is_whole else end,
                    bounds=bounds,
                    transactions=None if transactions is None else compact(transactions, base, next_base),
                    cost=end - first,
                    span=FileSpan(begin, after, first),
                    is_followed=behind is not None,
                    directory=partition.location,
                    offsets=bounds.narrow(Range(base, next_base)),
                    first=first_batch(file, first),
                )

    def _open(
        self, partition: PartitionPath, segments: tuple[SegmentPaths, ...], report: Report
    ) -> Iterator[tuple[SegmentPaths, File]]:
        """Segments with their logs, as they were listed; those that cannot be opened are reported."""
        for segment in segments:
            is_last = segment is partition.segments[-1]
            try:
                file = open_listed(segment, is_last)
            except ReplacedError:
                raise
            except UnreadableError as error:
                report(error.finding(segment.log.path, segment.base_offset))
                continue
            with file:
                yield segment, file

    def _check_whole(self, partition: PartitionPath, segment: SegmentPaths, behind: SegmentPaths, file: File) -> None:
        """A backup is filled in another order, or goes on: what is passed over would not be read later."""
        missing = missing_after(partition, segment, behind, file)
        if missing is not None:
            self._lose(
                f"{segment.log.path}: offsets {missing.start} to {missing.stop - 1} are not there, neither in this nor "
                f"in {PurePath(behind.log.path).name}, and nothing says that compaction took them"
            )

    def _report(self, finding: Finding) -> None:
        """Damage among transactions; its rows are reported where it is read, if that is ever reached."""
        if finding.severity == "error" and self.options.mode == "FAILFAST":
            raise DamageError(finding)
        if finding.severity == "error":
            self._warn(f"damaged, so that a transaction may stay open: {finding}")

    def _lose(self, text: str) -> None:
        if self.options.fail_on_data_loss:
            more = "with failOnDataLoss=false the query continues with the data that is left"
            raise UnreadableError("", f"{text}; {more}")
        self._warn(f"{text}; the query continues with the data that is left")

    def _warn(self, text: str) -> None:
        if text not in self._logged:
            _log.warning("%s", text)
            self._logged.add(text)


def _segments(partition: PartitionPath) -> SegmentEnds:
    return {each.base_offset: each.log.size for each in partition.segments}


def _up_to(listed: PartitionPath, again: PartitionPath) -> PartitionPath:
    """The second listing without segments that are newer than the newest of the first."""
    newest = listed.segments[-1].base_offset
    segments = tuple(each for each in again.segments if each.base_offset <= newest)
    return replace(again, segments=segments or again.segments)


def _newest(partition: PartitionPath) -> int:
    return partition.segments[-1].base_offset


def _text(each: TopicPartition) -> str:
    return f"{each[0]}-{each[1]}"
