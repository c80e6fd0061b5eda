"""The topics that are served: their partitions, those that are not on these disks, their IDs and settings.

The number of partitions and the leader epochs are those of the cluster's metadata, where that is on the disks too. A
topic without an ID (before Kafka 2.8, and without metadata) gets one that is made from its name, so that clients can
fetch by ID. Of two topics of one name, that of the cluster is served. Of several replicas of a partition, the one whose
last leader epoch is greatest is served, or of these the longest: ``merge`` would lead with it.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from brokerless.errors import UnreadableError, UsageError
from brokerless.internals.records import CONSUMER_OFFSETS
from brokerless.jobs.named_partitions import topic_id_of_partition, topic_ids_of
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import Epochs, load_epochs, rank, truncation_offset
from brokerless.log.checkpoint.meta_properties import load_meta_properties
from brokerless.log.checkpoint.partition_metadata import topic_id_of
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.live_segments import list_again
from brokerless.log.seek import end_offset
from brokerless.progress import Report, ignore
from brokerless.serving.source.batch_finder import Spare
from brokerless.serving.source.partition import ServedPartition

if TYPE_CHECKING:
    from brokerless.internals.metadata.cluster import Cluster

INTERNAL = (CONSUMER_OFFSETS, "__transaction_state", "__share_group_state")
"""Topics that clients are to take for Kafka's own (``Topic.isInternal``, 4.4.0)."""
_TWO_TOPICS = "serve the directories of one of them"


@dataclass(slots=True)
class ServedTopic:
    """A topic that is served."""

    name: str
    topic_id: str
    partitions: dict[int, ServedPartition]
    """The partitions on these disks, by number."""
    count: int
    """How many partitions the topic has in all."""
    configs: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL


@dataclass(slots=True)
class Topics:
    """All topics by name and by ID."""

    cluster_id: str
    node_id: int
    """The ID of the only broker that clients see."""
    by_name: dict[str, ServedTopic]
    metadata_from: tuple[PartitionPath, ...] = ()
    """The partitions among which the cluster's metadata is."""
    offsets_from: tuple[PartitionPath, ...] = ()
    """The partitions of ``__consumer_offsets``, served or not."""
    by_id: dict[str, ServedTopic] = field(default_factory=dict[str, ServedTopic])
    cluster: Cluster | None = None

    def __post_init__(self) -> None:
        self.by_id = {each.topic_id: each for each in self.by_name.values()}

    def partition(self, topic: str, number: int) -> ServedPartition | None:
        """Return a partition on these disks; None for any other."""
        found = self.by_name.get(topic)
        return None if found is None else found.partitions.get(number)

    def has(self, topic: str, number: int) -> bool:
        """Return whether there is such a partition, be it elsewhere."""
        found = self.by_name.get(topic)
        return found is not None and 0 <= number < found.count

    @property
    def partitions(self) -> list[ServedPartition]:
        """All partitions on these disks, by topic and number."""
        return [
            topic.partitions[number] for _, topic in sorted(self.by_name.items()) for number in sorted(topic.partitions)
        ]

    def load_cluster(self) -> None:
        """Read the cluster's metadata, if it is there, and take what it knows of the topics; else their leader epochs
        are read from their partitions."""
        from brokerless.internals.metadata.cluster import (
            cluster_of,  # it imports kernels, as all does that decodes records
        )

        self.take_cluster(cluster_of(self.metadata_from))
        for each in self.partitions:
            each.announced_epoch()

    def add(self, found: Iterable[PartitionPath], report: Report, *, skips_damage: bool) -> list[ServedPartition]:
        """Serve partitions that were made since, of topics that are known or new; return them."""
        added: list[ServedPartition] = []
        for each in found:
            name, number = each.place
            topic = self.by_name.get(name)
            if topic is None:
                topic = ServedTopic(name, topic_id_of_partition(each) or made_topic_id(name), {}, 0)
                self.by_name[name] = self.by_id[topic.topic_id] = topic
            if number not in topic.partitions:
                added.append(ServedPartition(each, report, skips_damage))
                topic.partitions[number], topic.count = added[-1], max(topic.count, number + 1)
        return added

    def read_newer_cluster(self) -> Cluster | None:
        """Read the cluster's metadata where it was changed since; else return what was known."""
        from brokerless.internals.metadata.cluster import cluster_of

        listed = tuple(list_again(each, ignore) or each for each in self.metadata_from)
        if listed == self.metadata_from:
            return self.cluster
        self.metadata_from = listed
        return cluster_of(listed) or self.cluster

    def take_cluster(self, cluster: Cluster | None) -> None:
        """Take what the cluster's metadata knows of the topics, where it is there."""
        self.cluster = cluster
        if cluster is None:
            return
        for topic_id, name in cluster.topics.items():
            topic = self.by_name.get(name)
            if topic is None or topic.topic_id not in (topic_id, made_topic_id(name)):
                continue
            rows = cluster.partitions.get(topic_id, {})
            topic.topic_id, topic.count = topic_id, max([topic.count, *(number + 1 for number in rows)])
            topic.configs = cluster.settings_of(name)
            for number, partition in topic.partitions.items():
                if number in rows:
                    partition.epoch = max(0, rows[number]["leaderEpoch"])
        self.by_id = {each.topic_id: each for each in self.by_name.values()}


def only(directory: LogDirectory, chosen: Collection[str]) -> tuple[LogDirectory, frozenset[str]]:
    """Return a directory with the partitions of some paths; and the paths of others that are read all the same: the
    cluster's metadata, and the offsets that groups have committed."""
    own = (each.path for each in directory.partitions if each.topic in (names.CLUSTER_METADATA, CONSUMER_OFFSETS))
    hidden = frozenset(own) - set(chosen)
    kept = tuple(each for each in directory.partitions if each.path in chosen or each.path in hidden)
    return replace(directory, partitions=kept), hidden


def load_topics(
    directories: Sequence[LogDirectory],
    report: Report,
    *,
    skips_damage: bool = False,
    hidden: Collection[str] = (),
) -> Topics:
    """Return what some log directories hold; of their partitions, only names and sizes are read. ``hidden``: paths of
    partitions that are read and not served.

    Where partitions of one name are of several topics, the one that the cluster's metadata has is served.

    Raises :class:`UsageError` for a path that does not say which partition it is, and where there is no metadata that
    says which of several topics it is; :class:`UnreadableError` where there is nothing to serve.
    """
    replicas: dict[tuple[str, int], list[PartitionPath]] = {}
    for each in (partition for directory in directories for partition in directory.partitions):
        if each.topic is None or each.partition is None:
            text = "the name does not say which partition this is; give its directory, as orders-0"
            raise UsageError(f"{each.path}: {text}")
        if not each.is_unfinished:
            replicas.setdefault((each.topic, each.partition), []).append(each)
    everything = [each for found in replicas.values() for each in found]
    metadata = [each for each in everything if each.topic == names.CLUSTER_METADATA]
    ids: Mapping[str, tuple[str, str]] | None = None
    try:
        ids = _topic_ids(everything)
    except UsageError:  # two topics of one name
        earlier = _of_earlier_topics(directories, everything, metadata, report)
        everything = [each for each in everything if each.path not in earlier]
        replicas = {
            at: kept for at, found in replicas.items() if (kept := [each for each in found if each.path not in earlier])
        }
    chosen: dict[str, dict[int, ServedPartition]] = {}
    offsets: list[PartitionPath] = []
    counts: dict[str, int] = {}
    for (topic, number), found in sorted(replicas.items()):
        best = None if topic == names.CLUSTER_METADATA else _best(found, report)
        if best is not None and topic == CONSUMER_OFFSETS:
            offsets.append(best[0])
        if topic == names.CLUSTER_METADATA or not any(each.path not in hidden for each in found):
            continue
        counts[topic] = number + 1
        if best is not None:
            chosen.setdefault(topic, {})[number] = ServedPartition(best[0], report, skips_damage, spares=best[1])
    if not chosen:
        raise UnreadableError(", ".join(each.path for each in directories), "there is no partition to serve")
    if ids is None:
        ids = _topic_ids(each for each in everything if each.topic in counts)
    topics = {
        name: ServedTopic(name, ids[name][0] if name in ids else made_topic_id(name), chosen.get(name, {}), count)
        for name, count in counts.items()
    }
    cluster_id, node_id = _identity(directories)
    return Topics(cluster_id, node_id, topics, metadata_from=tuple(metadata), offsets_from=tuple(offsets))


def made_topic_id(name: str) -> str:
    """Return an ID for a topic that has none: the same for the same name."""
    data = bytearray(hashlib.sha256(f"brokerless:{name}".encode()).digest()[:16])
    data[6], data[8] = (
        data[6] & 0x0F | 0x80,
        data[8] & 0x3F | 0x80,
    )  # a UUID of version 8, as is made by a rule of one's own
    return urlsafe_b64encode(data).decode().rstrip("=")


def _of_earlier_topics(
    directories: Sequence[LogDirectory],
    everything: Iterable[PartitionPath],
    metadata: Sequence[PartitionPath],
    report: Report,
) -> set[str]:
    """The paths of directories whose topic has the name of another one that the cluster's metadata has in its place,
    which are reported; none without metadata."""
    if not metadata:
        return set()
    ids: dict[str, set[str]] = {}
    for each in everything:
        topic_id = topic_id_of(each.partition_metadata)
        if topic_id is not None:
            ids.setdefault(each.topic or "", set()).add(topic_id)
    repeated = {topic for topic, known in ids.items() if len(known) > 1}
    from brokerless.clusters.placement import BrokerNode, Verdict  # they import kernels
    from brokerless.clusters.start.metadata_log import place_by

    earlier: set[str] = set()
    for directory in directories:
        for each in place_by(metadata[0], directory, BrokerNode()):
            is_earlier = each.verdict in (Verdict.TOPIC_UNKNOWN, Verdict.OTHER_TOPIC)
            if is_earlier and each.replica.topic in repeated and each.finding is not None:
                report(each.finding.in_scope("log"))
                earlier.add(each.replica.path)
    return earlier


def _topic_ids(partitions: Iterable[PartitionPath]) -> Mapping[str, tuple[str, str]]:
    return topic_ids_of((each for each in partitions if each.partition_metadata), _TWO_TOPICS)


@dataclass(frozen=True, slots=True)
class _ServedReplica:
    paths: PartitionPath
    epochs: Epochs = ()
    end: int = 0

    @property
    def rank(self) -> tuple[int, int]:
        return rank(self.epochs, self.end)


def _best(replicas: Sequence[PartitionPath], report: Report) -> tuple[PartitionPath, list[Spare]] | None:
    """The replica that is served, and those that have the same history; None where none can be listed, which is
    reported."""
    listed: list[PartitionPath] = []
    for each in replicas:
        if each.unreadable is None:
            listed.append(each)
        else:
            report(each.unreadable)
    if len(listed) < 2:
        return (listed[0], []) if listed else None
    found: list[_ServedReplica] = []
    for each in listed:
        try:
            end = end_offset(each)
            found.append(_ServedReplica(each, load_epochs(each.leader_epoch_checkpoint), -1 if end is None else end))
        except UnreadableError as error:
            report(error.finding(each.path))
    if not found:
        return listed[0], []
    best = max(found, key=lambda each: each.rank)  # the first of them
    spares = ((each, _same_until(best, each)) for each in found if each is not best)
    return best.paths, [Spare(each.paths, until) for each, until in spares if until is not None]


def _same_until(best: _ServedReplica, other: _ServedReplica) -> int | None:
    """The offset before which two replicas have the same history; None where nothing says so."""
    if best.rank == other.rank:
        return best.end
    return truncation_offset(best.epochs, best.end, other.epochs, other.end)


def _identity(directories: Sequence[LogDirectory]) -> tuple[str, int]:
    """The cluster's ID, and the ID of the node: those of the first ``meta.properties``."""
    for each in directories:
        entry = each.files.get(names.META_PROPERTIES)
        if entry is not None:
            found = load_meta_properties(entry.location)
            if found.cluster_id is not None and found.node_id is not None:
                return found.cluster_id, max(0, found.node_id)
    paths = "\n".join(each.path for each in directories)
    return made_topic_id(paths), 0
