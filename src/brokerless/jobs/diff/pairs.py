"""Pairs the partitions of two sides by name, with the offset map between them if there is one; of several replicas on
the disks of a side, the one that counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from brokerless.bounds import MAX_INT64
from brokerless.errors import UnreadableError, UsageError
from brokerless.format.arrays import Bools, Int64s
from brokerless.jobs.diff.copied_partition import CopiedPartition
from brokerless.jobs.diff.exported.decoding import TableDecoding
from brokerless.jobs.diff.exported.listing import table_form
from brokerless.jobs.diff.live.cluster import ClientConfig, is_live, undescribed_topics
from brokerless.jobs.named_partitions import topic_id_of_partition
from brokerless.jobs.prove.claims import PartitionClaim
from brokerless.jobs.restore.live.offset_map import is_map, load_map_start, read_runs
from brokerless.kafka_names import TopicPartition
from brokerless.log.checkpoint.leader_epochs import load_epochs, rank
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.seek import end_offset
from brokerless.log.segment_end import named_contents


@dataclass(frozen=True)
class OffsetRuns:
    """The runs of one partition, by which an offset map pairs offsets of the source with those of the target."""

    runs: Int64s
    """In order, for each run the first offset of the source, the one after the last, and the first offset of the
    target: int64, shape ``(n, 3)``."""
    topic_id: str | None = None
    """The ID of the target's topic."""

    @property
    def source_first(self) -> Int64s:
        return self.runs[:, 0]

    @property
    def source_end(self) -> Int64s:
        return self.runs[:, 1]

    @property
    def target_first(self) -> Int64s:
        return self.runs[:, 2]

    @property
    def target_end(self) -> Int64s:
        return self.runs[:, 2] + self.runs[:, 1] - self.runs[:, 0]

    @property
    def limits(self) -> tuple[int, int]:
        """The first source offset of the map, and the one after its last."""
        return int(self.runs[0, 0]), int(self.runs[-1, 1])

    def source_bound(self, target: int) -> int:
        """Return the source offset of the first record at a target offset or after it; MAX_INT64 where the map ends."""
        row = int(np.searchsorted(self.target_end, target, side="right"))
        if row == len(self.runs):
            return MAX_INT64
        return int(max(self.target_first[row], target) - self.target_first[row] + self.source_first[row])

    def target_bound(self, source: int) -> int:
        """Return the target offset of the first record at a source offset or after it; the end where there is none."""
        if source == MAX_INT64:
            return MAX_INT64
        row = int(np.searchsorted(self.source_end, source, side="right"))
        if row == len(self.runs):
            return int(self.target_end[-1])
        return int(max(self.source_first[row], source) - self.source_first[row] + self.target_first[row])

    def sources(self, targets: Int64s) -> tuple[Int64s, Bools]:
        """Return the source offset of each record by its target offset, and whether the map has it."""
        rows = np.searchsorted(self.target_end, targets, side="right")
        within = np.minimum(rows, len(self.runs) - 1)
        has = (rows < len(self.runs)) & (targets >= self.target_first[within])
        return targets - self.target_first[within] + self.source_first[within], has

    def count(self, start: int, end: int) -> int:
        """Return how many records the map has at source offsets ``[start, end)``."""
        firsts, ends = np.maximum(self.source_first, start), np.minimum(self.source_end, end)
        return int(np.maximum(ends - firsts, 0).sum())


def load_offset_runs(directory: str) -> dict[TopicPartition, OffsetRuns]:
    """Return the map of a restore by partition. Raises :class:`UsageError` for a directory without one."""
    path = Path(directory)
    if not is_map(path):
        raise UsageError(f"{directory}: there is no offset map of a restore")
    topics = load_map_start(path)["topics"]
    found: dict[TopicPartition, list[tuple[int, int, int]]] = {}
    for each in read_runs(path):
        run = each.source_first, each.source_last + 1, each.target_first
        found.setdefault((each.topic, each.partition), []).append(run)
    return {
        name: OffsetRuns(np.array(runs, np.int64), topics.get(name[0], {}).get("topicId"))
        for name, runs in found.items()
    }


@dataclass(frozen=True, slots=True)
class ErasureClaims:
    """What the manifest of an erasure has of a partition."""

    claims: tuple[PartitionClaim, ...]
    """The claim about each of the partition's replicas; none in a manifest with ``offsets``."""
    is_blanking: bool
    """Whether values, or fields of them, became null; else records were removed."""
    offsets: Int64s | None = None
    """The offsets of records that an erasure in a backup removed, ascending, of segments that the right side has."""


@dataclass(frozen=True, slots=True)
class EqualSegments:
    """The segments that both sides begin with."""

    start: int
    """Their first offset."""
    end: int
    """The offset after their last one."""
    records: int
    """How many records they have, with control records."""
    is_all: bool = False
    """Whether neither side has any other segment."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A partition of both sides."""

    topic: str | None
    partition: int | None
    left: PartitionPath | None
    """The partition on the left side; None if that is without it. ``right`` is the same of the right side."""
    right: PartitionPath | None
    topic_ids: tuple[str, str] | None = None
    """The topic IDs of both sides, where they are two."""
    runs: OffsetRuns | None = None
    """Which records of the right side are which of the left one; None where their offsets are the same."""
    is_restored: bool = True
    """Whether an offset map, if there is one, has something of it."""
    limit: int | None = None
    """The offset before which both are compared; None for all that both should have."""
    is_replica: bool = False
    """Whether both are replicas of one cluster."""
    anchors: Int64s | None = None
    """Pairs of offsets that are one record, where the offsets of both sides are others and their order is the same:
    int64, shape ``(n, 2)``."""
    is_undescribed: bool = False
    """Whether the side without it is a running cluster that does not describe its topic to this client."""
    erasure: ErasureClaims | None = None
    """What was erased of the left side, for the right one."""
    equal: EqualSegments | None = None
    """The segments that both begin with, by their SHA-256; they are not read."""
    decoding: TableDecoding | None = None
    """How the bytes of one side are decoded, where the other one is a decoded table."""
    is_table_lacking: bool = False
    """Whether the side without it is tables, which have no partition without records."""

    @property
    def place(self) -> TopicPartition:
        """The topic and number, as far as they are known."""
        return self.topic or "", self.partition or 0

    @property
    def partitions(self) -> list[PartitionPath]:
        """Those that there are."""
        return [each for each in (self.left, self.right) if each is not None]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison."""

    directories: Sequence[LogDirectory]
    """Its paths."""
    partitions: Sequence[PartitionPath]
    """The partitions of its paths that are compared."""
    client: ClientConfig = None
    """The settings by which a running cluster is reached."""

    def __post_init__(self) -> None:
        if self.url is not None and len(self.directories) > 1:
            raise UsageError(f"{self.url}: a running cluster is a side by itself; give no disk beside it")

    @property
    def url(self) -> str | None:
        """The URL of a running cluster, if the side is one."""
        return next((each.path for each in self.directories if is_live(each.path)), None)

    @property
    def is_tables(self) -> bool:
        """Whether it is what ``export`` wrote."""
        return all(table_form(each.location) is not None for each in self.directories)

    @property
    def is_one_partition(self) -> bool:
        """Whether a partition or a file was named, and not a log directory."""
        return all(each.kind != "log-directory" for each in self.directories)


def pair(left: Side, right: Side) -> list[Pair]:
    """Return the partitions of both sides, by topic and number. Two that were named themselves are a pair whatever
    their names are; of a log directory next to one of these, only the partition of that name is compared.

    Raises :class:`UsageError` for one without a name next to several, and :class:`UnreadableError` for a file that is
    no log."""
    _check_files((*left.directories, *right.directories))
    if left.is_one_partition and right.is_one_partition and len(left.partitions) == len(right.partitions) == 1:
        one, other = left.partitions[0], right.partitions[0]
        named = one if one.topic is not None else other
        return [pair_of((named.topic, named.partition), one, other)]
    nameless = next((each for each in (*left.partitions, *right.partitions) if each.topic is None), None)
    if nameless is not None:
        text = "nothing says which partition this is; compare it with one partition, or with a file"
        raise UsageError(f"{nameless.path}: {text}")
    ours, theirs = (by_name(each.partitions) for each in (left, right))
    chosen = ours.keys() | theirs.keys()
    for side, own in ((left, ours), (right, theirs)):
        if side.is_one_partition:
            chosen &= own.keys()
    unknown = _undescribed(left, theirs.keys() - ours.keys()) | _undescribed(right, ours.keys() - theirs.keys())
    lacking = {
        name
        for side, own in ((left, ours), (right, theirs))
        if chosen - own.keys() and side.is_tables
        for name in chosen - own.keys()
    }
    return [
        replace(
            pair_of(name, ours.get(name), theirs.get(name)),
            is_undescribed=name[0] in unknown,
            is_table_lacking=name in lacking,
        )
        for name in sorted(chosen)
    ]


def _undescribed(side: Side, lacking: Iterable[TopicPartition]) -> set[str]:
    """The topics that a running cluster may have, and does not describe to this client."""
    topics = {topic for topic, _ in lacking}
    return set() if side.url is None else undescribed_topics(side.url, side.client, topics)


def _check_files(directories: Iterable[LogDirectory]) -> None:
    """Raise :class:`UnreadableError` for a file that is something else, such as an archive. Its first bytes may read as
    a damaged batch."""
    for each in directories:
        if each.kind == "file" and each.path != "-":
            with each.location.open() as file:
                contents = named_contents(file)
            if contents is not None:
                raise UnreadableError(each.path, contents)


def pair_by_map(left: Side, right: Side, runs: Mapping[TopicPartition, OffsetRuns]) -> list[Pair]:
    """Return the left side's partitions, and what an offset map says of them. The right side's topic has to be the one
    that was restored to.

    Raises :class:`UsageError` where the map has none of them."""
    found: list[Pair] = []
    for each in pair(left, right):
        own = None if each.topic is None else runs.get(each.place)
        if own is not None:
            restored = None if each.right is None else _topic_id(each.right)
            are_two = own.topic_id is not None and restored is not None and own.topic_id != restored
            ids = (own.topic_id or "", restored or "") if are_two else None
            found.append(replace(each, topic_ids=ids, runs=own))
        elif each.left is not None:
            found.append(replace(each, topic_ids=None, is_restored=False))
    if left.partitions and not any(each.is_restored for each in found):
        raise UsageError("the offset map has no partition of these, so that nothing can be compared by it")
    return found


def replicas_of(side: Side, topics: Collection[str] | None) -> dict[TopicPartition, PartitionPath]:
    """Return the partitions on the disks of a side, also of those that are not compared: of some topics, or all."""
    partitions = [each for directory in side.directories for each in directory.partitions]
    return by_name(each for each in partitions if topics is None or each.topic in topics)


def pair_of(
    name: tuple[str | None, int | None],
    left: PartitionPath | None,
    right: PartitionPath | None,
    *,
    limit: int | None = None,
    is_replica: bool = False,
) -> Pair:
    """Return two partitions as a pair, with the IDs of their topics where these are two, whatever their names are."""
    ids = [None if each is None else _topic_id(each) for each in (left, right)]
    differ = (ids[0], ids[1]) if ids[0] is not None and ids[1] is not None and ids[0] != ids[1] else None
    return Pair(*name, left, right, topic_ids=differ, limit=limit, is_replica=is_replica)


def _topic_id(partition: PartitionPath) -> str | None:
    return partition.topic_id if isinstance(partition, CopiedPartition) else topic_id_of_partition(partition)


def ranked(replicas: Sequence[PartitionPath]) -> list[PartitionPath]:
    """Return replicas of a partition, that first which has the history that counts."""
    return sorted(replicas, key=_rank, reverse=True) if len(replicas) > 1 else list(replicas)


def by_name(partitions: Iterable[PartitionPath]) -> dict[TopicPartition, PartitionPath]:
    """Return the partitions of a side by topic and number, of several replicas the one that counts."""
    found: dict[TopicPartition, list[PartitionPath]] = {}
    for each in partitions:
        found.setdefault(each.place, []).append(each)
    return {name: ranked(replicas)[0] for name, replicas in found.items()}


def _rank(partition: PartitionPath) -> tuple[int, int]:
    """The last leader epoch of a replica, and where it ends: the greatest has the history that counts."""
    try:
        end = end_offset(partition) or 0
    except UnreadableError:  # which is reported where it is read
        end = -1
    return rank(load_epochs(partition.leader_epoch_checkpoint), end)
