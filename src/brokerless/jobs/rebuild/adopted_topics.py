"""Topics of which only directories are left: their ids and partitions, and what is lost of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from brokerless.clusters.disk import Disk, topic_ids_of
from brokerless.clusters.missing_partitions import partition_missing
from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import Cluster, ResourceType
from brokerless.jobs.rebuild.nodes import Node, brokers_of, owners
from brokerless.jobs.rebuild.partition_states import partition_row
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import load_offset_checkpoint
from brokerless.log.checkpoint.topic_ids import random_id
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import join
from brokerless.progress import Report

_SEGMENT_BYTES = "104857600"
_MIN_INSYNC = 2
_OF_KAFKA: dict[str, dict[str, str]] = {
    "__consumer_offsets": {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": _SEGMENT_BYTES,
    },
    "__transaction_state": {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(_MIN_INSYNC),
        "segment.bytes": _SEGMENT_BYTES,
        "unclean.leader.election.enable": "false",
    },
    "__share_group_state": {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": str(_MIN_INSYNC),
        "retention.ms": "-1",
        "segment.bytes": _SEGMENT_BYTES,
    },
}
"""The settings with which brokers create their own topics, where theirs are not set otherwise
(``groupMetadataTopicConfigs``, ``transactionStateTopicConfigs``, ``shareGroupStateTopicConfigs``, 4.4.0 and 3.9.1)."""


def adopt_topics(cluster: Cluster, disks: Sequence[Disk], nodes: Sequence[Node], report: Report) -> list[str]:
    """Takes topics and partitions into a cluster's state that only the disks have; returns the topics' names. Leaders,
    in-sync replicas and epochs are for the caller. What cannot be known is reported."""
    node_of = owners(nodes)
    known = set(cluster.topics.values())
    ids = {topic: cluster.id_of(topic) or topic_id for topic, topic_id in topic_ids_of(disks).items()}
    ids |= {topic: topic_id for topic_id, topic in cluster.topics.items() if topic not in ids}
    holders: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for disk in disks:
        for each in disk.replicas if disk.path in node_of else ():
            if each.state == "live" and each.topic_id in (None, ids.get(each.topic)):
                holders[each.topic][each.partition].append(node_of[disk.path])
    adopted, compacted = list[str](), _compacted(disks)
    brokers = [each.node_id for each in brokers_of(nodes)]
    for topic, partitions in sorted(holders.items()):
        if topic not in ids:
            ids[topic] = random_id()
            text = f"no partition of {topic} has a partition.metadata: the topic gets a new id"
            report(Kind.TOPIC_ID_LOST.at(_first_path(disks, topic), text, found=ids[topic]))
        topic_id = ids[topic]
        there = cluster.partitions.setdefault(topic_id, {})
        if topic not in known:
            cluster.add_topic(topic_id, topic)
            most = max(len(set(holding)) for holding in partitions.values())
            settings = _settings(topic, topic in compacted, most)
            cluster.configs.setdefault((ResourceType.TOPIC, topic), {}).update(settings)
            if not names.is_internal(topic):
                report(settings_lost(_first_path(disks, topic), topic, settings))
            adopted.append(topic)
        for number in range(max(partitions) + 1):
            if number in there:
                continue
            holding = sorted(set(partitions.get(number, ())))
            if not holding:
                report(partition_missing(_first_path(disks, topic), f"{topic}-{number}", "topic"))
                holding = [brokers[number % len(brokers)]]
            at = number % len(holding)
            there[number] = partition_row(topic_id, number, holding[at:] + holding[:at])  # the first one leads first
    return adopted


def _first_path(disks: Sequence[Disk], topic: str) -> str:
    return next((each.paths.path for disk in disks for each in disk.replicas if each.topic == topic), disks[0].path)


def _settings(topic: str, was_compacted: bool, replicas: int) -> dict[str, str]:
    """The settings of a topic of which only directories are left: those with which nothing of it is deleted."""
    if topic not in _OF_KAFKA:
        return {"cleanup.policy": "compact"} if was_compacted else {"retention.ms": "-1"}
    own = dict(_OF_KAFKA[topic])
    if "min.insync.replicas" in own:
        own["min.insync.replicas"] = str(min(_MIN_INSYNC, replicas))
    return own


def settings_lost(
    path: str, topic: str, settings: Mapping[str, str], before: Mapping[str, str] | None = None
) -> Finding:
    """Return the finding about settings that are written in the place of others: with a broker's default, retention
    would delete what is older than a week as soon as it starts. ``before``: what these were; None where they are
    lost."""
    written, was = (", ".join(f"{name}={value}" for name, value in each.items()) for each in (settings, before or {}))
    text = f"{written} is set for {topic}, so that no record is deleted; set others when it runs"
    if before is None:
        text, was = f"the settings of {topic} are lost: {text}", "settings, given with --from"
    return Kind.TOPIC_SETTINGS_LOST.at(path, text, expected=was or None, found=written)


def _compacted(disks: Sequence[Disk]) -> set[str]:
    """Topics that a cleaner has compacted, as its checkpoint has lines of them."""
    found: set[str] = set()
    for disk in disks:
        path = join(disk.path, names.CLEANER_CHECKPOINT)
        found |= (
            {topic for topic, _ in load_offset_checkpoint(Location(path)).offsets} if Location(path).exists() else set()
        )
    return found
