"""Compares topics by the keys of their records, where their partitions or offsets are others: each topic is a task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from brokerless.errors import ClusterError, UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.jobs.compact.key_offsets import KeyHasher
from brokerless.jobs.diff.alignment.blocks import HashedRows
from brokerless.jobs.diff.alignment.keys import KeyedDifference, KeyedRecords, compare_keyed
from brokerless.jobs.diff.alignment.tally import Tally
from brokerless.jobs.diff.causes import What
from brokerless.jobs.diff.copied_partition import CopiedPartition
from brokerless.jobs.diff.copies import at_hand
from brokerless.jobs.diff.exported.decoding import DecodedHashes, TableDecoding
from brokerless.jobs.diff.exported.topic_decoding import topic_decodings
from brokerless.jobs.diff.exported.value_hashes import ValueHasher
from brokerless.jobs.diff.job import DiffTask, summarize
from brokerless.jobs.diff.pairs import Side, by_name
from brokerless.jobs.diff.partition_diff import HANDS, Hand, PartitionDiff, SideSummary, Uncompared
from brokerless.log.commit.partition_writer import scratch_directory
from brokerless.log.directory import PartitionPath
from brokerless.log.storage.write_errors import unwritable
from brokerless.progress import Done
from brokerless.requests.comparing import DiffRequest
from brokerless.typed.topic_type import Decoding

_MOST_ROWS = 1 << 20
"""Records that differ which are put in order at once, so that neighbours are one difference."""


@dataclass(frozen=True, slots=True)
class TopicPair:
    """A topic's partitions on both sides."""

    topic: str
    left: Mapping[int, PartitionPath]
    """The partitions of the left side, by their numbers."""
    right: Mapping[int, PartitionPath]
    """The partitions of the right side, by their numbers."""
    decoding: TableDecoding | None = None
    """How the bytes of one side are decoded, where the other one is a decoded table."""

    @property
    def partitions(self) -> list[PartitionPath]:
        """Those of both sides."""
        return [*self.left.values(), *self.right.values()]


def pair_topics(left: Side, right: Side) -> list[TopicPair]:
    """Return the topics of both sides, by name."""
    found: dict[str, tuple[dict[int, PartitionPath], dict[int, PartitionPath]]] = defaultdict(lambda: ({}, {}))
    for at, side in enumerate((left, right)):
        for (topic, number), each in by_name(side.partitions).items():
            found[topic][at][number] = each
    return [TopicPair(topic, *sides) for topic, sides in sorted(found.items())]


def decoded_topics(pairs: Sequence[TopicPair], asked: Decoding) -> list[TopicPair]:
    """Return topics with how bytes are decoded that are compared with a decoded table. ``asked``: as
    :func:`topic_decodings` takes it, which raises the same."""
    both = ((one, other) for each in pairs for one in each.left.values() for other in each.right.values())
    found = topic_decodings(both, asked)
    return [replace(each, decoding=found.get(each.topic)) for each in pairs]


def diff_topic_task(task: DiffTask[TopicPair], done: Done) -> list[PartitionDiff | UnreadableError]:
    """Compare a topic; what cannot be opened is a value. Records that the left side has are counted in its partitions,
    others in those of the right side."""
    pair = task.pair
    if not pair.left or not pair.right:
        problem, hand = ("only-right", "right") if not pair.left else ("only-left", "left")
        text = f"this topic is on the {hand} only"
        return [
            PartitionDiff(
                pair.topic, number, left=_summary(pair.left, number), right=_summary(pair.right, number),
                problem=problem, explanation=text,
            )
            for number in sorted(pair.left.keys() | pair.right.keys())
        ]  # fmt: skip
    try:
        with ExitStack() as stack:
            return list(_compare(task, stack, done))
    except (UnreadableError, ClusterError) as error:
        return [UnreadableError("", str(error))]


def by_key(request: DiffRequest) -> bool:
    """Return whether records are paired by their keys. Raises :class:`UsageError` for what does not go with that."""
    others = request.offset_map is not None or request.offset_syncs is not None or request.quick
    if request.align == "key" and others:
        text = "records that are paired by keys are all read"
        raise UsageError(f"{text}; with --align, give no offset map, no offset syncs and no --quick")
    return request.align == "key"


def _compare(task: DiffTask[TopicPair], stack: ExitStack, done: Done) -> Iterable[PartitionDiff]:
    pair, settings, scratch = task.pair, task.settings, scratch_directory(stack)
    values = ValueHasher()
    hasher, sides, damaged = KeyHasher(), list[KeyedRecords](), dict[tuple[Hand, int], list[Finding]]()
    with unwritable(scratch):
        for hand, side in zip(HANDS, (pair.left, pair.right), strict=True):
            records = KeyedRecords(scratch / hand, hasher)
            for number, partition in sorted(side.items()):
                with ExitStack() as copy:
                    own = damaged[hand, number] = []
                    there = at_hand(partition, copy, values, has_aborted=False)
                    decoding = None if isinstance(there, CopiedPartition) else pair.decoding
                    recode = None if decoding is None else DecodedHashes(decoding.columns, values).in_log(decoding, {})
                    records.add(there, settings.max_batch_bytes, own.append, done, recode=recode)
            sides.append(records)
        tallies = {
            number: Tally(settings.allowed, settings.limit) for number in sorted(pair.left.keys() | pair.right.keys())
        }
        _count(compare_keyed(sides[0], sides[1], settings.allowed), tallies)
    for number, tally in tallies.items():
        of_left = sum(count for (what, _), count in tally.counted.items() if what != "extra")
        tally.add_same(sides[0].counts.get(number, 0) - of_left)
        findings = [*damaged.get(("left", number), ()), *damaged.get(("right", number), ())]
        result = PartitionDiff(pair.topic, number, _summary(pair.left, number), _summary(pair.right, number))
        uncompared = tuple(_uncompared(number, damaged, pair))
        yield replace(tally.add_to(result), uncompared=uncompared, findings=tuple(findings))


def _count(found: Iterable[KeyedDifference], tallies: Mapping[int, Tally]) -> None:
    """Count what differs by partition; neighbours come together, as far as memory has them."""
    waiting: dict[tuple[What, str], list[HashedRows]] = defaultdict(list)

    def flush() -> None:
        for (what, cause), parts in waiting.items():
            rows = np.concatenate(parts)
            rows = rows[np.lexsort((rows["offset"], rows["partition"]))]
            for number in np.unique(rows["partition"]).tolist():
                offsets = rows["offset"][rows["partition"] == number].copy()
                tallies[number].add(what, cause, offsets)
        waiting.clear()

    for each in found:
        if len(each.rows):
            waiting[each.what, each.cause].append(each.rows)
        if sum(len(rows) for parts in waiting.values() for rows in parts) > _MOST_ROWS:
            flush()
    flush()


def _uncompared(
    number: int, damaged: Mapping[tuple[Hand, int], Sequence[Finding]], pair: TopicPair
) -> Iterable[Uncompared]:
    """Yield that a partition could not be read as a whole: what it lacks by that may be missing or extra anywhere."""
    for hand, side in zip(HANDS, (pair.left, pair.right), strict=True):
        finding = next((each for each in damaged.get((hand, number), ()) if each.leaves_out), None)
        if finding is not None and (summary := _summary(side, number)) is not None:
            first = summary.start_offset if finding.offset is None else finding.offset
            yield Uncompared(hand, first, None, records=0, finding=finding)


def _summary(side: Mapping[int, PartitionPath], number: int) -> SideSummary | None:
    return summarize(side[number]) if number in side else None
