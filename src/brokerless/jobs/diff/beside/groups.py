"""Compares where groups are on both sides: at the same record or not, and what each reads again or loses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace

from brokerless.errors import UnreadableError
from brokerless.findings import Kind
from brokerless.internals.groups.positions import GroupPosition, read_positions
from brokerless.internals.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from brokerless.jobs.diff.alignment.sides import count_records
from brokerless.jobs.diff.beside.cluster_state import ClusterState
from brokerless.jobs.diff.copied_partition import CopiedPartition
from brokerless.jobs.diff.live.cluster import RunningCluster
from brokerless.jobs.diff.pairs import Side, replicas_of
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.directory import PartitionPath
from brokerless.log.seek import end_offset
from brokerless.progress import Report
from brokerless.text import count_of, short_list

OF_GROUPS = (CONSUMER_OFFSETS, SHARE_GROUP_STATE)
GroupKey = tuple[str, bool]
"""A group's name, and whether it is a share group."""


@dataclass(frozen=True, slots=True)
class PositionDifference:
    """A group's position that is another one on the right."""

    topic: str
    partition: int
    cause: str
    """One of the causes of positions in :data:`CAUSES`."""
    left_offset: int | None
    right_offset: int | None
    records: int = 0
    """How many records the group reads again, or does not get; 0 where that is not the difference."""

    def __str__(self) -> str:
        where = f"{names.partition_directory(self.topic, self.partition)}"
        number = count_of(self.records, "record")
        return {
            "earlier": f"{where} {number} earlier (read again)",
            "later": f"{where} {number} later (lost to the group)",
            "past-end": f"{where} past the end, at offset {self.right_offset}",
            "no-position": f"{where} without a position on the {'right' if self.right_offset is None else 'left'}",
        }[self.cause]


@dataclass(frozen=True, slots=True)
class GroupDiff:
    """A group on both sides."""

    group: str
    is_share_group: bool
    positions: int
    """How many positions it has on either side."""
    same: int
    """How many of the positions are at the same record."""
    differences: tuple[PositionDifference, ...] = ()
    """The positions that are not at the same record, and whose causes are not allowed."""

    @property
    def is_same(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        kind = "share group" if self.is_share_group else "group"
        more = "".join(f"; {each}" for each in self.differences)
        return f"{kind} {self.group}: {self.same} of {count_of(self.positions, 'position')} at the same record{more}"


@dataclass(frozen=True, slots=True)
class Counterpart:
    """Where positions in a partition of the left side are on the right one: in which partition, and at which offset."""

    place: TopicPartition
    offset_of: Callable[[int], int]


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """How groups are compared."""

    allowed: Collection[str]
    topics: Collection[str] | None
    """The topics whose positions are compared; None for all."""
    max_batch_bytes: int
    targets: Mapping[TopicPartition, Counterpart] | None = None
    """Where positions of the left side are, if offsets or names are others on the right one; those in other partitions
    are left out then."""
    partitions: Collection[int] = ()
    """The numbers of the partitions whose positions are compared; empty for all."""

    def has(self, position: GroupPosition) -> bool:
        """Return whether a position is in one of the partitions that are compared."""
        return self.has_place(position.topic, position.partition)

    def has_place(self, topic: str, partition: int) -> bool:
        """Return whether a partition is compared."""
        is_of_topics = self.topics is None or topic in self.topics
        return is_of_topics and (not self.partitions or partition in self.partitions)


@dataclass(slots=True)
class _SidePartitions:
    """The partitions of a side."""

    replicas: Mapping[TopicPartition, PartitionPath]
    max_batch_bytes: int
    others: Mapping[TopicPartition, PartitionPath] = field(default_factory=dict[TopicPartition, PartitionPath])
    """The partitions of the other side where its offsets are the same, in which the records of a live partition are
    counted."""
    ends: dict[TopicPartition, int | None] = field(default_factory=dict[TopicPartition, "int | None"])

    def end_of(self, place: TopicPartition) -> int | None:
        """Return where a partition ends; None where that is not known."""
        if place not in self.ends:
            replica = self.replicas.get(place)
            try:
                self.ends[place] = replica and (
                    replica.end if isinstance(replica, CopiedPartition) else end_offset(replica)
                )
            except UnreadableError:  # which is reported where its records are compared
                self.ends[place] = None
        return self.ends[place]

    def is_past_end(self, place: TopicPartition, offset: int) -> bool:
        """Return whether a position is past the end of its partition, as far as that is known."""
        end = self.end_of(place)
        return end is not None and offset > end

    def records_between(self, place: TopicPartition, start: int, end: int) -> int:
        """Return how many records there are; of a partition that cannot be read, how many offsets."""
        replica = self.replicas.get(place)
        replica = self.others.get(place) if isinstance(replica, CopiedPartition) else replica
        if replica is None or isinstance(replica, CopiedPartition):
            return end - start
        return count_records(replica, start, end, self.max_batch_bytes)


def compare_groups(
    sides: tuple[Side, Side],
    clusters: tuple[ClusterState, ClusterState],
    settings: GroupSettings,
    report: Report,
) -> Iterator[GroupDiff]:
    """Yield each group that has a position on either side, by name. ``clusters``: what both know of themselves. A
    running cluster says nothing of share groups here, so that these are left out next to one, and reported."""
    targets = settings.targets
    known = settings if targets is None else replace(settings, topics=None)  # of the left side's names
    left, right = (
        _positions(side, cluster, how, report)
        for side, cluster, how in zip(sides, clusters, (settings, known), strict=True)
    )
    ours, theirs = (replicas_of(each, None) for each in sides)
    others = ours if targets is None else {}
    if targets is not None:
        right = _within(right, {targets[place].place for place in targets if settings.has_place(*place)})
        left = _within(left, targets.keys())
    before, log = (
        _SidePartitions(ours, settings.max_batch_bytes),
        _SidePartitions(theirs, settings.max_batch_bytes, others),
    )
    running = next((each for each in clusters if isinstance(each, RunningCluster)), None)
    groups = left.keys() | right.keys()
    shared = [group for group, is_shared in sorted(groups) if is_shared]
    if running is not None and shared:
        text = "confluent-kafka does not ask a running cluster for their positions"
        text = f"share groups are not compared ({short_list(shared)}): {text}"
        report(replace(UnreadableError(running.url, text, Kind.NOT_COMPARED).finding(running.url), severity="warning"))
        groups = {each for each in groups if not each[1]}
    for group in sorted(groups):
        ours, theirs = left.get(group, {}), right.get(group, {})
        if targets is not None:
            ours = {targets[place].place: targets[place].offset_of(offset) for place, offset in ours.items()}
        places = sorted(ours.keys() | theirs.keys())
        differences = [each for place in places for each in _differences(place, ours, theirs, before, log=log)]
        kept = tuple(each for each in differences if each.cause not in settings.allowed)
        yield GroupDiff(*group, positions=len(places), same=len(places) - len(differences), differences=kept)


def has_groups(side: Side, cluster: ClusterState) -> bool:
    """Return whether positions of groups are on the disks of a side, or a running cluster has said them."""
    return cluster.groups is not None if isinstance(cluster, RunningCluster) else bool(replicas_of(side, OF_GROUPS))


def _positions(
    side: Side, cluster: ClusterState, settings: GroupSettings, report: Report
) -> dict[GroupKey, dict[TopicPartition, int]]:
    found: dict[GroupKey, dict[TopicPartition, int]] = defaultdict(dict)
    if isinstance(cluster, RunningCluster):
        for group, positions in (cluster.groups or {}).items():
            own = {place: offset for place, offset in positions.items() if settings.has_place(*place)}
            if own:
                found[group, False] = own
        return found
    partitions = replicas_of(side, OF_GROUPS).values()
    topics = {} if cluster is None else cluster.topics
    for each in read_positions(partitions, topics, report, settings.max_batch_bytes):
        if settings.has(each):
            found[_group(each)][each.topic, each.partition] = each.offset
    return found


def _within(
    groups: Mapping[GroupKey, Mapping[TopicPartition, int]], places: Set[TopicPartition]
) -> dict[GroupKey, dict[TopicPartition, int]]:
    """Return the positions in some partitions, of groups that have any there."""
    found = {
        group: {place: offset for place, offset in positions.items() if place in places}
        for group, positions in groups.items()
    }
    return {group: positions for group, positions in found.items() if positions}


def _group(position: GroupPosition) -> GroupKey:
    return position.group, position.is_shared


def _differences(
    place: TopicPartition,
    left: Mapping[TopicPartition, int],
    right: Mapping[TopicPartition, int],
    before: _SidePartitions,
    *,
    log: _SidePartitions,
) -> Iterator[PositionDifference]:
    """Yield how a position differs, if it does. ``before``: the left side; ``log``: the right one, in which records are
    counted. A position that is past the end on both sides, as one that was set by hand may be, is the same."""
    ours, theirs = left.get(place), right.get(place)
    if ours is None or theirs is None:
        yield PositionDifference(*place, "no-position", left_offset=ours, right_offset=theirs)
    elif log.is_past_end(place, theirs) and not (ours == theirs and before.is_past_end(place, ours)):
        yield PositionDifference(*place, "past-end", left_offset=ours, right_offset=theirs)
    elif ours != theirs:
        cause = "earlier" if theirs < ours else "later"
        records = log.records_between(place, min(ours, theirs), max(ours, theirs))
        if records:
            yield PositionDifference(*place, cause, left_offset=ours, right_offset=theirs, records=records)
