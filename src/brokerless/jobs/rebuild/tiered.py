"""Tiered topics in a rebuilt cluster: the settings that its brokers need, and what a start deletes from the bucket.

Which class stores segments, and where, is in no metadata. Sources: ``RemoteLogManagerConfig``,
``TopicBasedRemoteLogMetadataManagerConfig`` (3.9.1, 4.4.0); KIP-405.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from brokerless.clusters.start.remote_deletions import remote_deletions, remote_segments_deleted
from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import Cluster
from brokerless.internals.remote.segment_metadata import RemoteMetadata, read_remote_metadata
from brokerless.internals.remote.storage import remote_storage, tiered_topics
from brokerless.jobs.rebuild.from_bucket.stand_ins import FromBucket
from brokerless.jobs.rebuild.nodes import Node
from brokerless.jobs.rebuild.replicas import HeldReplica
from brokerless.kafka_names import TopicIdPartition
from brokerless.log.checkpoint.leader_epochs import Epochs, load_leader_epochs
from brokerless.log.commit.partition_copy import epochs_again, is_damaged
from brokerless.log.names import REMOTE_LOG_METADATA
from brokerless.progress import ignore

CLASS, PATH = "CLASS", "PATH"
"""In place of what is not known."""
_TOPIC = "rlmm.config.remote.log.metadata.topic"


def tiered_settings(cluster: Cluster, node: Node) -> dict[str, str]:
    """Return the settings of a broker's tiered storage; none where no topic is tiered, and for a controller."""
    if not node.is_broker or not tiered_topics(cluster):
        return {}
    found = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": CLASS,
        "remote.log.storage.manager.class.path": PATH,
    }
    own = [each.name for each in node.listeners if each.name != node.controller_listener]
    found["remote.log.metadata.manager.listener.name"] = own[0] if own else "PLAINTEXT"
    partitions = cluster.partitions_of(REMOTE_LOG_METADATA)
    if partitions:  # with another number, a broker ends
        replicas = max(len(row["replicas"]) for row in partitions.values())
        found |= {f"{_TOPIC}.num.partitions": str(len(partitions)), f"{_TOPIC}.replication.factor": str(replicas)}
    return found


def bucket_settings(nodes: Sequence[Node]) -> dict[str, str]:
    """Return what a broker needs as well where only the bucket is left: nothing expires, and Kafka's own topics, which
    are created again, have no more replicas than there are brokers (3 by default)."""
    replicas = min(3, sum(each.is_broker for each in nodes))
    if replicas == 3:
        return {"log.retention.ms": "-1"}
    topics = ("transaction.state.log", "share.coordinator.state.topic")
    found = {"log.retention.ms": "-1", "offsets.topic.replication.factor": str(replicas)}
    found |= {f"{each}.replication.factor": str(replicas) for each in topics}
    return found | {f"{each}.min.isr": "1" for each in topics}


def load_remote_segments(
    held: Mapping[TopicIdPartition, Sequence[HeldReplica]], max_batch_bytes: int | None = None
) -> RemoteMetadata:
    """Return what the longest replicas of ``__remote_log_metadata`` say of remote segments."""
    own = [max(each, key=lambda one: one.end) for each in held.values() if each[0].replica.topic == REMOTE_LOG_METADATA]
    return read_remote_metadata([each.replica.paths for each in own], ignore, max_batch_bytes)


def epochs_after(held: HeldReplica, remote: Mapping[TopicIdPartition, Epochs]) -> Epochs:
    """Return the leader epochs of a replica in the rebuilt cluster. ``remote``: of remote segments, by partition."""
    entry, place = held.replica.paths.leader_epoch_checkpoint, (held.topic_id, held.replica.partition)
    loaded = None if entry is None else load_leader_epochs(entry.location)
    if not is_damaged(loaded) and not (remote.get(place) and (loaded is None or not len(loaded.epochs))):
        return held.epochs
    return epochs_again([each.log.location for each in held.replica.paths.segments], remote.get(place, ()))


def broken_epochs(
    held: Mapping[TopicIdPartition, Sequence[HeldReplica]],
    cluster: Cluster,
    remote: Mapping[TopicIdPartition, Epochs],
    *,
    in_place: bool,
) -> Iterator[Finding]:
    """Yield checkpoints of leader epochs that a broker cannot parse, at which it ends. Copies get new ones; an error
    where a tiered partition's cannot be made again, as a start deletes its remote segments."""
    tiered = sorted(tiered_topics(cluster).values())
    for each in (replica for replicas in held.values() for replica in replicas):
        entry, place = each.replica.paths.leader_epoch_checkpoint, (each.topic_id, each.replica.partition)
        found = () if entry is None else load_leader_epochs(entry.location).findings
        is_lost = each.replica.topic in tiered and not remote.get(place) and (each.replica.start_offset or 0) > 0
        for error in (finding for finding in found if finding.severity == "error"):
            text = "a broker ends at its start where this cannot be parsed; "
            if in_place:
                is_tiered = each.replica.topic in tiered
                text += "take it from another replica" if is_tiered else "give --data copy, or remove it"
                yield replace(error, message=f"{text}: {error.message}")
            elif is_lost:
                text += "the leader epochs of its remote segments are not known, and without them a start deletes these"
                yield replace(error, kind=Kind.REMOTE_EPOCHS_LOST, message=f"{text}: {error.message}")
            else:
                text += "it is written from the batches" + " and the remote segments" * bool(remote.get(place))
                yield replace(error, severity="warning", message=f"{text}: {error.message}")


def remote_findings(
    cluster: Cluster,
    nodes: Sequence[Node],
    held: Mapping[TopicIdPartition, Sequence[HeldReplica]],
    place: str,
    metadata: RemoteMetadata,
    remote: Mapping[TopicIdPartition, Epochs],
    from_bucket: FromBucket | None,
) -> Iterator[Finding]:
    """Yield what a start of the rebuilt cluster deletes from the bucket, before all else, and which settings are in no
    metadata. ``place``: what findings name; ``remote``: as of :func:`epochs_after`."""
    tiered = sorted(tiered_topics(cluster).values())
    if not tiered:
        return
    replicas = [each for there in held.values() for each in there]
    storage = remote_storage(cluster, metadata)
    rows = cluster.rows_by_id()
    deletions = [
        deletion
        for node in nodes
        if node.is_broker
        for deletion in remote_deletions(
            storage,
            rows,
            node.node_id,
            epochs={
                **_stand_in_epochs(from_bucket, node.node_id),
                **{
                    (each.replica.topic, each.replica.partition): epochs_after(each, remote)
                    for each in replicas
                    if each.node == node.node_id and each.replica.topic in tiered
                },
            },
            unserved=(),
        )
    ]
    if deletions:
        yield remote_segments_deleted(place, deletions)
    text = f"topics are tiered ({', '.join(tiered[:5])}): which class stores their segments, and its settings "
    text += "(rsm.config.*), are in no metadata; take them from server.properties of the old brokers, without which a "
    text += "broker serves nothing of these topics"
    yield Kind.REMOTE_STORAGE_SETTINGS.at(place, text)


def _stand_in_epochs(found: FromBucket | None, node_id: int) -> dict[tuple[str, int], Epochs]:
    """The leader epochs of what a node has of a bucket."""
    own = [] if found is None else [each.partition for each in found.stand_ins if each.node_id == node_id]
    return {(each.topic, each.partition): each.epochs for each in own}
