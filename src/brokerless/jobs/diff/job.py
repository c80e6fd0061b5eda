"""Compares two logs: each partition is a task, paths in, values out; the records of both sides are never held as a
whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from brokerless.bounds import MAX_INT64
from brokerless.errors import ClusterError, UnreadableError
from brokerless.findings import BEFORE_FIRST_SEGMENT, Finding
from brokerless.format.arrays import Int64s
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.columns import RecordColumns
from brokerless.jobs.diff.alignment.erased_records import ErasedRecords
from brokerless.jobs.diff.alignment.mapped_side import MappedSide
from brokerless.jobs.diff.alignment.offsets import OffsetAlignment
from brokerless.jobs.diff.alignment.schema_ids import SchemaIds, SchemaPaths
from brokerless.jobs.diff.alignment.sequence import SequenceAlignment
from brokerless.jobs.diff.alignment.sides import SideReader, SideSettings
from brokerless.jobs.diff.alignment.tally import Tally
from brokerless.jobs.diff.causes import ALLOWED, allowed_causes
from brokerless.jobs.diff.copied_partition import CopiedPartition
from brokerless.jobs.diff.copies import at_hand
from brokerless.jobs.diff.exported.decoding import DecodedHashes
from brokerless.jobs.diff.exported.offset_file import RecordedOffsets, repeated_offsets
from brokerless.jobs.diff.exported.value_hashes import ValueHasher
from brokerless.jobs.diff.pairs import OffsetRuns, Pair
from brokerless.jobs.diff.partition_diff import (
    HANDS,
    ONLY_ON,
    OTHER,
    Difference,
    Hand,
    PartitionDiff,
    RecordView,
    SideSummary,
    Uncompared,
)
from brokerless.jobs.run.job import in_order, run
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.log.directory import PartitionPath
from brokerless.log.partition import Reading, read_partition
from brokerless.log.ranges import Range
from brokerless.log.seek import end_offset
from brokerless.log.segment import Chunk
from brokerless.progress import Done, ignore
from brokerless.requests.comparing import DiffRequest, ReplicasRequest
from brokerless.tables.read_options import bound

LISTED = 10
"""Differences of a partition that are listed, unless another number is requested."""
_MOST_FINDINGS = 1000


@dataclass(frozen=True, slots=True)
class DiffSettings:
    """How logs are compared."""

    allowed: Collection[str] = ALLOWED
    """Causes by which logs may differ."""
    limit: int | None = LISTED
    """How many differences of a partition are listed; None for all."""
    show_keys: bool = False
    """Whether the differences that are listed have their keys."""
    quick: bool = False
    """Whether batches whose headers agree are the same."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    schemas: SchemaPaths | None = None
    """Where the schemas of both sides are; None where nothing is known of them."""

    @classmethod
    def of(cls, request: DiffRequest | ReplicasRequest) -> DiffSettings:
        """Return what was requested, but schemas. Raises :class:`UsageError` for an unknown cause."""
        return cls(
            allowed_causes(request.allow),
            request.limit,
            show_keys=request.show_keys,
            quick=request.quick,
            max_batch_bytes=bound(request.max_batch_bytes),
        )


class _ComparedPartition(Protocol):
    @property
    def partitions(self) -> list[PartitionPath]: ...


PairT = TypeVar("PairT", bound=_ComparedPartition)


@dataclass(frozen=True)
class DiffTask(Generic[PairT]):
    """What is compared at once: a partition, or a topic."""

    pair: PairT
    settings: DiffSettings

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(each.size for each in self.pair.partitions)


def diff(
    pairs: Sequence[PairT],
    settings: DiffSettings,
    *,
    work: Callable[[DiffTask[PairT], Done], list[PartitionDiff | UnreadableError]],
    running: RunOptions = HERE,
) -> Generator[PartitionDiff | UnreadableError]:
    """Yield the comparisons of each pair, in this order, or why a side of it cannot be read. ``work``: what compares
    one, :func:`diff_task` for partitions."""
    tasks = [DiffTask(each, settings) for each in pairs]
    with closing(run(work, tasks, running, name="brokerless diff")) as results:
        for found in in_order(results):
            yield from found


def diff_task(task: DiffTask[Pair], done: Done) -> list[PartitionDiff | UnreadableError]:
    """Compare a partition; what cannot be opened is a value."""
    try:
        return [compare_pair(task.pair, task.settings, done)]
    except UnreadableError as error:
        return [UnreadableError("", str(error), error.kind)]
    except ClusterError as error:
        return [UnreadableError("", str(error))]


def compare_pair(pair: Pair, settings: DiffSettings, done: Done = ignore) -> PartitionDiff:
    """Compare the two sides of a partition.

    Raises :class:`UnreadableError` if a side is one file, and cannot be opened.
    """
    with ExitStack() as stack:
        return _compare_pair(pair, settings, stack, done)


def _compare_pair(pair: Pair, settings: DiffSettings, stack: ExitStack, done: Done) -> PartitionDiff:
    equal, own = pair.equal, (pair.left, pair.right)
    headers: dict[Hand, list[Chunk]] = {"left": [], "right": []}
    if equal is not None and equal.is_all:
        left, right = (None if each is None else SideSummary(each.path, equal.start, equal.end) for each in own)
    else:
        left, right = (
            None if each is None else summarize(each, pair.limit, headers[hand] if settings.quick else None)
            for hand, each in zip(HANDS, own, strict=True)
        )
    result = PartitionDiff(pair.topic, pair.partition, left, right, is_replica=pair.is_replica)
    if not pair.is_restored and left is not None:
        if left.start_offset == left.end_offset:
            return result
        text = "the offset map has nothing of it: not restored"
        if pair.anchors is not None:
            text = "the offset syncs have nothing of it: not mirrored"
        return replace(result, problem="not-restored", explanation=text)
    if left is None or right is None:
        if pair.is_table_lacking and all(each is None or each.is_empty for each in (left, right)):
            return result
        problem, hand = ("only-right", "right") if left is None else ("only-left", "left")
        if pair.is_undescribed:
            text = f"this client may not describe the topic on the {OTHER[hand]}, so that it was not compared"
            return replace(result, problem="not-described", explanation=text)
        return replace(result, problem=problem, explanation=f"this partition is on the {hand} only")
    if pair.topic_ids is not None and "another-topic" not in settings.allowed:
        text = (
            "another topic: it was made again, or is of another cluster; its ID is {} on the left and {} on the "
            "right; allow another-topic to compare it all the same"
        )
        return replace(result, problem="another-topic", explanation=text.format(*pair.topic_ids))
    if equal is not None and equal.is_all:
        done(sum(each.size for each in pair.partitions))
        return replace(result, records=equal.records, same=equal.records)
    hasher = ValueHasher()
    partitions: dict[Hand, PartitionPath] = {
        hand: at_hand(each, stack, hasher) for hand, each in zip(HANDS, own, strict=True) if each is not None
    }
    summaries: dict[Hand, SideSummary] = {
        hand: summarize(each) if isinstance(each, CopiedPartition) else known
        for (hand, each), known in zip(partitions.items(), (left, right), strict=True)
    }
    left, right = summaries["left"], summaries["right"]
    result = replace(result, left=left, right=right)
    comparison = _PairComparison(
        pair, settings, done, hasher, partitions=partitions, summaries=summaries, headers=headers
    )
    if pair.anchors is not None:
        return _compare_sequence(comparison, result, pair.anchors)
    if pair.runs is not None:
        right = summaries["right"] = _by_source(right, pair.runs)
    start, end = max(left.start_offset, right.start_offset), min(left.end_offset, right.end_offset)
    if left.is_empty or right.is_empty:
        end = max(start, end)  # what the other side has is before its start, or after its end
    if start > end:
        text = f"no offset in common: {left} on the left, {right} on the right"
        return replace(result, problem="no-common-offset", explanation=text)
    return _compare(comparison, result, (start, end))


def _by_source(right: SideSummary, runs: OffsetRuns) -> SideSummary:
    """Return where a restored side begins and ends by the offsets that its records had."""
    first, end = runs.limits
    start, stop = max(first, runs.source_bound(right.start_offset)), min(end, runs.source_bound(right.end_offset))
    return replace(right, start_offset=min(start, stop), end_offset=stop)


def summarize(partition: PartitionPath, limit: int | None = None, headers: list[Chunk] | None = None) -> SideSummary:
    """Return where a side begins and ends, as far as that is known now: a log may grow while it is compared. ``limit``:
    an offset before which it ends, for what is compared; ``headers``: as :func:`end_offset` takes it."""
    if isinstance(partition, CopiedPartition):
        return SideSummary(partition.url, partition.begin, partition.end)
    try:
        end = end_offset(partition, headers)
    except UnreadableError:  # which is reported where it is read
        end = partition.segments[-1].base_offset if partition.segments else 0
    start = partition.start_offset or 0
    end = max(start, end or 0)
    if limit is None:
        return SideSummary(partition.path, start, end)
    return SideSummary(partition.path, min(start, limit), min(end, limit))


@dataclass(slots=True)
class _PairComparison:
    """The comparison of a partition of both sides, which are at hand."""

    pair: Pair
    settings: DiffSettings
    done: Done
    hasher: ValueHasher
    partitions: Mapping[Hand, PartitionPath]
    summaries: Mapping[Hand, SideSummary]
    """Where both sides begin and end, by common offsets."""
    headers: Mapping[Hand, Sequence[Chunk]]
    """The headers of both sides' last segments, where they were read before."""
    tally: Tally = field(init=False)
    sides: dict[Hand, SideReader] = field(default_factory=dict[Hand, SideReader])
    found: list[Finding] = field(default_factory=list[Finding])
    """What is found while both sides are read, each finding once."""

    def __post_init__(self) -> None:
        self.tally = Tally(self.settings.allowed, self.settings.limit)

    def report(self, finding: Finding) -> None:
        if len(self.found) < _MOST_FINDINGS and finding not in self.found:
            self.found.append(finding)

    def recoding(self, hand: Hand) -> Callable[[RecordColumns], RecordColumns] | None:
        """Return what puts hashes of decoded values in place of the bytes of a side, if the other one is a decoded
        table, whose copy has them."""
        own, table, pair = self.partitions[hand], self.partitions[OTHER[hand]], self.pair
        if pair.decoding is None or isinstance(own, CopiedPartition) or not isinstance(table, CopiedPartition):
            return None
        has_same_offsets = pair.runs is None and pair.anchors is None
        undecoded = {name: RecordedOffsets(path) for name, path in table.undecoded.items()} if has_same_offsets else {}
        return DecodedHashes(pair.decoding.columns, self.hasher).in_log(pair.decoding, undecoded)

    def align(self, alignment: OffsetAlignment | SequenceAlignment) -> None:
        """Compare all of both sides, and close them."""
        try:
            alignment.run()
        finally:
            for side in self.sides.values():
                side.close()

    def counted(
        self, result: PartitionDiff, uncompared: Iterable[Uncompared], right_offset: Callable[[int], int | None]
    ) -> PartitionDiff:
        """Return the result with what was counted. ``right_offset``: where the record is on the right side that is at
        an offset of the left one."""
        for hand, side in self.sides.items():  # rows of a table of which it has one with the same offset before
            for offsets in repeated_offsets(side.partition).parts():
                self.tally.add(ONLY_ON[hand], "duplicate", side.common_offsets(offsets))
        result = self.tally.add_to(result)
        return replace(
            result,
            differences=tuple(self._with_records(each, right_offset) for each in result.differences),
            uncompared=tuple(sorted(uncompared, key=lambda each: each.first_offset)),
            findings=tuple(self.found),
        )

    def _with_records(self, difference: Difference, right_offset: Callable[[int], int | None]) -> Difference:
        """Add the first record of a difference, of each side that has it, as far as its offset is known."""
        first = difference.first_offset
        offsets: dict[Hand, int | None] = {"left": None if difference.what == "extra" else first, "right": None}
        if difference.what == "changed":
            offsets["right"] = right_offset(first)
        if difference.what == "extra" and self.sides["right"].has_same_offsets:
            offsets["right"] = first
        left, right = (
            None if offset is None else _view(self.sides[hand].partition, offset, self.settings)
            for hand, offset in offsets.items()
        )
        return replace(difference, left=left, right=right)


def _compare(comparison: _PairComparison, result: PartitionDiff, common: tuple[int, int]) -> PartitionDiff:
    pair, settings, tally = comparison.pair, comparison.settings, comparison.tally
    partitions, summaries, sides = comparison.partitions, comparison.summaries, comparison.sides
    start, end = common
    begin = start
    if pair.equal is not None and start == pair.equal.start:
        begin = min(pair.equal.end, end)
        tally.add_same(pair.equal.records)
    not_read: list[Uncompared] = []
    for hand in HANDS:
        to_the_end = summaries[hand].end_offset == end and end != pair.limit
        own = SideSettings(
            begin, end, settings.quick, settings.max_batch_bytes, to_the_end=to_the_end,
            recode=comparison.recoding(hand), last_headers=comparison.headers[hand],
        )  # fmt: skip
        if hand == "right" and pair.runs is not None:
            sides[hand] = MappedSide(partitions[hand], own, comparison.report, comparison.done, runs=pair.runs)
        else:
            sides[hand] = SideReader(partitions[hand], own, comparison.report, comparison.done)
        sides[hand].has_own_batches = not isinstance(partitions[hand], CopiedPartition)
        first = summaries[hand].start_offset
        before = sides[hand].count(first, start)
        remote = _in_remote_storage(partitions[OTHER[hand]])
        if remote is None:
            tally.add_span(Difference(ONLY_ON[hand], "retention", first, start - 1, records=before))
        else:
            unread = partitions[OTHER[hand]].log_start_offset, summaries[OTHER[hand]].start_offset - 1
            not_read.append(Uncompared(OTHER[hand], *unread, records=before, finding=remote))
    left, right = sides["left"], sides["right"]
    erased = None if pair.erasure is None else ErasedRecords(pair.erasure, left, right)
    is_decoded = pair.decoding is not None
    schema_ids = None if settings.schemas is None or is_decoded else SchemaIds(settings.schemas, pair.topic)
    alignment = OffsetAlignment(left, right, tally, erased=erased, schema_ids=schema_ids)
    if begin == start or begin < end:
        comparison.align(alignment)
    uncompared = [*not_read, *_uncompared(alignment, summaries, common)]
    for hand in HANDS:
        last = summaries[hand].end_offset
        after = sides[hand].count(end, last)
        tail = next((each for each in uncompared if each.side == OTHER[hand] and each.last_offset is None), None)
        if tail is None:
            tally.add_span(Difference(ONLY_ON[hand], "lagging", end, last - 1, records=after))
        elif after:
            uncompared.remove(tail)
            uncompared.append(replace(tail, last_offset=last - 1, records=tail.records + after))
    uncompared = [each for each in uncompared if each.last_offset is not None]
    for cause, offsets in sides["right"].unknown:
        tally.add("extra", cause, offsets)
    return comparison.counted(result, uncompared, sides["right"].own_offset)


def _compare_sequence(comparison: _PairComparison, result: PartitionDiff, anchors: Int64s) -> PartitionDiff:
    """Compare two sides with the same records in the same order, and other offsets."""
    for hand, summary in comparison.summaries.items():
        own = SideSettings(
            summary.start_offset, summary.end_offset, False, comparison.settings.max_batch_bytes,
            recode=comparison.recoding(hand),
        )  # fmt: skip
        comparison.sides[hand] = SideReader(comparison.partitions[hand], own, comparison.report, comparison.done)
    alignment = SequenceAlignment(comparison.sides["left"], comparison.sides["right"], comparison.tally, anchors)
    comparison.align(alignment)
    uncompared = list(alignment.uncompared())
    is_empty = any(each.is_empty for each in comparison.summaries.values())
    if not (alignment.has_met or uncompared or is_empty):
        return replace(result, problem="no-common-offset", explanation="no record in common: no mirror of this log")
    return comparison.counted(result, uncompared, alignment.right_offsets.get)


def _in_remote_storage(partition: PartitionPath) -> Finding | None:
    """Return the finding about offsets before the first segment that are in a bucket which is not read: these are no
    matter of retention."""
    return next((each for each in partition.findings if each.kind in BEFORE_FIRST_SEGMENT), None)


def _uncompared(
    alignment: OffsetAlignment, summaries: Mapping[Hand, SideSummary], common: tuple[int, int]
) -> Iterable[Uncompared]:
    """Yield the common offsets at which a side cannot be read. ``last_offset`` is None where it cannot be read from
    there to its end, and that is where the common offsets end."""
    start, end = common
    for hand in HANDS:
        for place, each in enumerate(alignment.sides[hand].unread):
            first, last = max(each.first, start), min(each.end, end) - 1
            count = alignment.unread[hand].get(place, 0)
            is_tail = each.end == MAX_INT64 and summaries[hand].end_offset == end
            if is_tail and summaries[OTHER[hand]].end_offset > end:
                yield Uncompared(hand, first, None, records=count, finding=each.finding)
            elif first <= last:
                yield Uncompared(hand, first, last, records=count, finding=each.finding)


def _view(partition: PartitionPath, offset: int, settings: DiffSettings) -> RecordView | None:
    is_decoded = isinstance(partition, CopiedPartition) and bool(partition.undecoded)  # its copy has hashes
    has_keys = settings.show_keys and not is_decoded
    reading = Reading(
        Range(offset, offset + 1), values=False, keys=has_keys, control=True,
        max_batch_bytes=settings.max_batch_bytes,
    )  # fmt: skip
    for each in read_partition(partition, reading, ignore):
        columns = each.decoded.columns
        row = int(np.argmax(each.rows)) if each.rows is not None else 0
        key = None
        if has_keys and not columns.key_null[row]:
            key = columns.key_data[columns.key_ends[row] : columns.key_ends[row + 1]].tobytes()
        header_names = tuple(
            columns.header_key_data[columns.header_key_ends[at] : columns.header_key_ends[at + 1]]
            .tobytes()
            .decode(errors="replace")
            for at in range(int(columns.header_ends[row]), int(columns.header_ends[row + 1]))
        )
        return RecordView(int(columns.timestamp[row]), key, header_names)
    return None
