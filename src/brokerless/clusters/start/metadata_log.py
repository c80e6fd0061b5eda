"""Predicts what a broker knows of its cluster after its start, by the metadata that is left once KRaft has loaded it.

KRaft empties its log where the newest snapshot is after the log's end. Where there is neither a log nor a snapshot, the
only voter begins a new cluster, to which no partition belongs: all become stray. A record that cannot be applied, or
that a version does not know, ends a node. Sources: ``KafkaRaftLog.truncateToLatestSnapshot``, ``KafkaMetadataLog``,
``MetadataLoader``, ``QuorumController`` (3.9.1, 4.4.0). Each was tried with both
(``tests/kafka/test_metadata_start.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from brokerless.clusters.placement import BrokerNode, Placement, place
from brokerless.clusters.start.directory_files import loaded_directories
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import Cluster, read_cluster
from brokerless.internals.metadata.versions import (
    LEVELS,
    METADATA_VERSION,
    describe_level,
    has_feature,
    level_name,
)
from brokerless.log import names
from brokerless.log.checkpoint.quorum_state import load_quorum_state
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.recovery.plan import RecoveryPlan
from brokerless.progress import ignore

_ENDING = (Kind.RECORD_INAPPLICABLE, Kind.RECORD_TYPE_UNKNOWN, Kind.RECORD_VERSION_UNKNOWN, Kind.RECORD_UNREADABLE)


@dataclass(frozen=True, slots=True)
class KnownState:
    """The cluster's state as a start knows it."""

    state: Cluster | None = None
    """The content of the metadata, None if that is not known here."""
    unknown: str | None = None
    """Why the state is not known."""
    refusals: tuple[Finding, ...] = ()
    """Records at which a node ends."""
    restarts_cluster: bool = False
    """Whether the only voter has no metadata, and begins a new cluster."""


def emptied_at(partition: PartitionPath, plan: RecoveryPlan) -> int | None:
    """Return the offset of the newest snapshot, if that is after the end of KRaft's log, which is then emptied and
    begins there."""
    file = names.parse_segment_file(partition.snapshots[-1].name) if partition.snapshots else None
    if partition.topic != names.CLUSTER_METADATA or file is None:
        return None
    latest_epoch = plan.epochs[-1][0] if plan.epochs else 0
    is_after = (file.epoch or 0, file.offset) > (latest_epoch, plan.log_end_offset)
    return file.offset if is_after else None


def read_known_state(
    partition: PartitionPath | None,
    end_offset: int | None,
    node_id: int | None,
    version: str,
    max_batch_bytes: int | None = None,
) -> KnownState:
    """Return the state by KRaft's own log, which ends at ``end_offset`` after its recovery. ``partition``: None where
    the directories have none. ``version``: of the Kafka that starts."""
    if partition is None:
        text = "there is no __cluster_metadata here; if no other controller has it, all partitions become stray"
        return KnownState(unknown=text)
    found: list[Finding] = []
    try:
        reader = partition
        state = read_cluster(reader, found.append, end_offset, max_batch_bytes)
    except UnreadableError as error:
        return KnownState(unknown=f"the cluster's metadata cannot be read: {error}")
    refusals = [replace(each, severity="error") for each in found if each.kind in _ENDING]
    # A directory that was only formatted has features already (KIP-1170), and neither topics nor brokers.
    refusals += _refused_features(state, partition.path, version)
    if not state.is_empty:
        return KnownState(state, refusals=tuple(refusals[:1]))
    if any(each.size for each in partition.segments):
        text = "the cluster's metadata has neither topics nor brokers, as far as it can be read"
        return KnownState(unknown=text, refusals=tuple(refusals[:1]))
    return replace(_without_metadata(partition, node_id), refusals=tuple(refusals[:1]))


def place_by(metadata: PartitionPath, directory: LogDirectory, node: BrokerNode) -> list[Placement]:
    """Return where a log directory's replicas are by the cluster's metadata beside them; nothing where that says
    nothing, or cannot be read, which is reported of its partition."""
    with suppress(UnreadableError):
        cluster = read_cluster(metadata, ignore)
        if not cluster.is_empty:
            return list(place(loaded_directories(directory)[0], cluster, node))
    return []


def _without_metadata(partition: PartitionPath, node_id: int | None) -> KnownState:
    quorum = partition.quorum_state
    voters: Sequence[int] = () if quorum is None else load_quorum_state(quorum.location).voters
    if node_id is not None and list(voters) == [node_id]:
        return KnownState(Cluster(), restarts_cluster=True)
    others = ", ".join(str(each) for each in voters if each != node_id)
    whose = f"unless one of the controllers {others} has it" if others else "if this node is the only controller"
    return KnownState(unknown=f"the log of the cluster's metadata is empty; {whose}, all partitions become stray")


def _refused_features(state: Cluster, path: str, version: str) -> Iterator[Finding]:
    """Features at levels that a version of Kafka does not know."""
    least, most = LEVELS[version]
    level = state.features.get(METADATA_VERSION)
    if level is not None and not least <= level <= most:
        text = f"Kafka {version} does not know the cluster's metadata.version, and ends"
        expected = f"{level_name(least)} to {level_name(most)}"
        yield Kind.METADATA_VERSION_UNKNOWN.at(path, text, expected=expected, found=describe_level(level))
    for name, number in state.features.items():
        if name != METADATA_VERSION and not has_feature(version, name, number):
            text = f"Kafka {version} does not know the feature {name} at level {number}, and ends"
            yield Kind.FEATURE_UNKNOWN.at(path, text)
