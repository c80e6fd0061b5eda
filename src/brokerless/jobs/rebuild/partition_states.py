"""The state of each partition in the rebuilt metadata: replicas, in-sync replicas, epochs, directories.

No partition has a leader: the controller elects one of the in-sync replicas when its broker comes. In sync are, of the
replicas that were, those whose logs go as far as the longest: which other replicas had everything is not known, as the
disks may be of different moments. Leader epochs are above those of all logs, so that no broker cuts off records whose
epoch the cluster does not know. Sources: ``ReplicationControlManager`` and ``PartitionChangeBuilder`` (4.4.0), KIP-101.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from brokerless.clusters.missing_partitions import partition_missing
from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import Cluster
from brokerless.jobs.rebuild.nodes import Node, TargetDirectory, brokers_of, new_ids
from brokerless.jobs.rebuild.replicas import HeldReplica
from brokerless.kafka_names import TopicIdPartition
from brokerless.progress import Report
from brokerless.values import Row

UNASSIGNED = "A" * 21 + "Q"
"""``DirectoryId.UNASSIGNED``: the broker chooses the log directory."""
_NO_LEADER, _RECOVERED = -1, 0


def partition_row(
    topic_id: str,
    number: int,
    replicas: Sequence[int],
    isr: Sequence[int] = (),
    directory_ids: Sequence[str] = (),
    leader_epoch: int = -1,
) -> Row:
    """Return the state of a partition that the metadata does not have yet. Without ``directory_ids``, those of the
    replicas, its epochs are for :func:`rebuild_partitions` to begin."""
    return {
        "partitionId": number, "topicId": topic_id, "replicas": [*replicas], "isr": [*isr], "removingReplicas": [],
        "addingReplicas": [], "leader": _NO_LEADER, "leaderRecoveryState": _RECOVERED, "leaderEpoch": leader_epoch,
        "partitionEpoch": 0 if directory_ids else -1, "directories": [*directory_ids],
        "eligibleLeaderReplicas": None, "lastKnownElr": None,
    }  # fmt: skip


def rebuild_partitions(
    cluster: Cluster,
    nodes: Sequence[Node],
    held: Mapping[TopicIdPartition, Sequence[HeldReplica]],
    directories: Sequence[TargetDirectory],
    place: str,
    report: Report,
) -> None:
    """Changes a cluster's partitions to those that the nodes can serve. ``place``: what findings name."""
    of_old_ids = new_ids(brokers_of(nodes))

    def taken_over(ids: Sequence[int]) -> list[int]:
        return [of_old_ids[each] for each in ids if each in of_old_ids]

    brokers = [node.node_id for node in brokers_of(nodes)]
    of_disks = {each.disk.path: each.directory_id for each in directories if each.disk is not None}
    of_nodes: dict[int, list[str]] = defaultdict(list)
    for each in directories:
        of_nodes[each.node_id].append(each.directory_id)
    for topic_id, partitions in cluster.partitions.items():
        for number, row in partitions.items():
            name = f"{cluster.topics.get(topic_id, topic_id)}-{number}"
            there = {each.node: each for each in held.get((topic_id, number), ())}
            was_known = row["partitionEpoch"] >= 0  # else it was taken in from the disks, with their nodes' new ids
            old, old_isr = (taken_over(row[key]) if was_known else list(row[key]) for key in ("replicas", "isr"))
            replicas = old or sorted(there) or [brokers[number % len(brokers)]]
            if not was_known or not row["isr"]:
                old_isr = replicas
            isr = _in_sync(replicas, old_isr, there)
            finding = _finding(place, name, row, there, replicas=replicas, old_isr=old_isr, isr=isr)
            if finding is not None:
                report(finding)
            last = max((each.last_epoch for each in there.values()), default=-1)
            ids = [of_disks[there[node].disk.path] if node in there else _only(of_nodes[node]) for node in replicas]
            partitions[number] = {
                **row,
                "replicas": replicas,
                "isr": isr,
                "removingReplicas": taken_over(row["removingReplicas"]),
                "addingReplicas": taken_over(row["addingReplicas"]),
                "leader": _NO_LEADER,
                "leaderRecoveryState": _RECOVERED,
                "leaderEpoch": max(row["leaderEpoch"], last) + 1,
                "partitionEpoch": row["partitionEpoch"] + 1,
                "directories": ids,
                "eligibleLeaderReplicas": None,
                "lastKnownElr": None,
            }


def _in_sync(replicas: Sequence[int], old_isr: Sequence[int], there: Mapping[int, HeldReplica]) -> list[int]:
    candidates = [node for node in replicas if node in there and (node in old_isr or there[node].disk.is_snapshot)]
    candidates = candidates or [node for node in replicas if node in there]
    if not candidates:
        return [replicas[0]]
    best = max(there[node].end for node in candidates)
    return [node for node in candidates if there[node].end == best]


def _finding(
    place: str,
    name: str,
    row: Row,
    there: Mapping[int, HeldReplica],
    replicas: Sequence[int],
    old_isr: Sequence[int],
    isr: Sequence[int],
) -> Finding | None:
    if not any(node in there for node in replicas):
        if row["partitionEpoch"] < 0:
            return None  # was reported as it was taken in
        return partition_missing(place, name, "topic")
    if any(each.disk.is_snapshot for each in there.values()):
        return None  # its log is the one that counts, and which nodes have it was chosen
    if not set(isr) & set(old_isr):
        text = (
            f"none of the in-sync replicas of {name} is on the disks; node {isr[0]} has the longest log of the others"
        )
        return Kind.UNCLEAN_LEADER.at(place, f"{text}, and what only the others had is lost", severity="warning")
    lost = len(row["replicas"]) - len(replicas)
    if lost > 0:
        text = (
            f"{name} has {len(replicas)} replicas instead of {len(row['replicas'])}: nodes of the others are not given"
        )
        return Kind.FEWER_REPLICAS.at(place, text, severity="info")
    return None


def _only(directory_ids: Sequence[str]) -> str:
    """The ID of a node's directory, if it has one alone."""
    return directory_ids[0] if len(directory_ids) == 1 else UNASSIGNED
