"""The state of each partition in the rebuilt metadata: replicas, in-sync replicas, epochs, directories.

No partition has a leader: the controller elects one of the in-sync replicas when its broker comes. In sync are, of the
replicas that were, those whose logs go as far as the longest: which other replicas had everything is not known, as the
disks may be of different moments. Leader epochs are above those of all logs, so that no broker cuts off records whose
epoch the cluster does not know. Sources: ``ReplicationControlManager`` and ``PartitionChangeBuilder`` (4.4.0), KIP-101.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brokerless.findings import Kind
from brokerless.internals.metadata.cluster import Cluster
from brokerless.jobs.rebuild.nodes import Node
from brokerless.jobs.rebuild.replicas import HeldReplica
from brokerless.kafka_names import TopicPartition
from brokerless.progress import Report
from brokerless.values import Row

UNASSIGNED = "A" * 21 + "Q"
"""``DirectoryId.UNASSIGNED``: the broker chooses the log directory."""
_NO_LEADER, _RECOVERED = -1, 0


def rebuild_partitions(
    cluster: Cluster,
    nodes: Sequence[Node],
    held: Mapping[TopicPartition, Sequence[HeldReplica]],
    directory_ids: Mapping[int, Sequence[str]],
    directory_of: Mapping[str, str],
    place: str,
    report: Report,
) -> None:
    """Changes a cluster's partitions to those that the nodes can serve. ``directory_ids``: of each broker;
    ``directory_of``: the directory id that each disk's replicas will be in; ``place``: what findings name."""
    new_ids = {node.was: node.node_id for node in nodes if node.is_broker and node.was is not None}
    brokers = [node.node_id for node in nodes if node.is_broker]
    for topic_id, partitions in cluster.partitions.items():
        for number, row in partitions.items():
            name = f"{cluster.topics.get(topic_id, topic_id)}-{number}"
            there = {each.node: each for each in held.get((topic_id, number), ())}
            was_known = row["partitionEpoch"] >= 0  # else it was taken in from the disks, with their nodes' new ids
            old, old_isr = (
                [new_ids[each] for each in row[key] if each in new_ids] if was_known else list(row[key])
                for key in ("replicas", "isr")
            )
            replicas = old or sorted(there) or [brokers[number % len(brokers)]]
            if not was_known or not row["isr"]:
                old_isr = replicas
            isr = _in_sync(replicas, old_isr, there)
            finding = _finding(name, row, there, replicas=replicas, old_isr=old_isr, isr=isr)
            if finding is not None:
                severity, kind, text = finding
                report(kind.at(place, text, severity=severity))  # type: ignore[arg-type]
            last = max((each.last_epoch for each in there.values()), default=-1)
            ids = [_directory(node, there, directory_ids, directory_of) for node in replicas]
            partitions[number] = {
                **row,
                "replicas": replicas,
                "isr": isr,
                "removingReplicas": [new_ids[each] for each in row["removingReplicas"] if each in new_ids],
                "addingReplicas": [new_ids[each] for each in row["addingReplicas"] if each in new_ids],
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
    name: str,
    row: Row,
    there: Mapping[int, HeldReplica],
    replicas: Sequence[int],
    old_isr: Sequence[int],
    isr: Sequence[int],
) -> tuple[str, str, str] | None:
    if not any(node in there for node in replicas):
        if row["partitionEpoch"] < 0:
            return None  # was reported as it was taken in
        return "error", Kind.PARTITION_MISSING, f"no disk has a replica of {name}: it begins again, empty"
    if any(each.disk.is_snapshot for each in there.values()):
        return None  # its log is the one that counts, and which nodes have it was chosen
    if not set(isr) & set(old_isr):
        text = (
            f"none of the in-sync replicas of {name} is on the disks; node {isr[0]} has the longest log of the others"
        )
        return "warning", Kind.UNCLEAN_LEADER, f"{text}, and what only the others had is lost"
    lost = len(row["replicas"]) - len(replicas)
    if lost > 0:
        text = (
            f"{name} has {len(replicas)} replicas instead of {len(row['replicas'])}: nodes of the others are not given"
        )
        return "info", Kind.FEWER_REPLICAS, text
    return None


def _directory(
    node: int,
    there: Mapping[int, HeldReplica],
    directory_ids: Mapping[int, Sequence[str]],
    directory_of: Mapping[str, str],
) -> str:
    if node in there:
        return directory_of[there[node].disk.path]
    own = directory_ids.get(node, ())
    return own[0] if len(own) == 1 else UNASSIGNED
