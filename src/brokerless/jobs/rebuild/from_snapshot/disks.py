"""The disks that a snapshot of a backup stands for: one with all partitions, or those of each node of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from msgspec import structs

from brokerless.clusters.disk import Disk, DiskReplica, load_disk
from brokerless.clusters.placement import assigned_directory
from brokerless.errors import UsageError
from brokerless.internals.metadata.cluster import Cluster, ResourceType
from brokerless.jobs.rebuild.from_snapshot.point_in_time import PointInTime, end_at
from brokerless.jobs.rebuild.nodes import Node, brokers_of, owners
from brokerless.log import names
from brokerless.log.backups.state import SnapshotState
from brokerless.log.checkpoint.meta_properties import MetaProperties
from brokerless.log.directory import LogDirectory
from brokerless.log.tiered.detection import shown_path, snapshot_of
from brokerless.offset_spans import union
from brokerless.text import count_of


def is_snapshot(directory: LogDirectory) -> bool:
    """Return whether a log directory is a snapshot of a backup."""
    return snapshot_of(directory.location) is not None


def load_snapshot(
    directory: LogDirectory,
    max_batch_bytes: int | None = None,
    is_chosen: Callable[[str, int], bool] | None = None,
    point: PointInTime | None = None,
) -> Disk:
    """Return the disk that a snapshot is, whose path is ``URL@SNAPSHOT``. ``is_chosen``: whether it is of a partition,
    by topic and number; None for all. The metadata is always there. ``point``: where its logs end. Raises
    :class:`UsageError` for a point that it does not have."""
    file_system, _ = directory.location.file_system()
    state = cast("SnapshotState", file_system.bucket.snapshot_state())
    if is_chosen is not None:
        own = tuple(
            each for each in directory.partitions if each.topic == names.CLUSTER_METADATA or is_chosen(*each.place)
        )
        directory = replace(directory, partitions=own)
        chosen = tuple(each for each in state.snapshot.partitions if is_chosen(each.topic, each.partition))
        state = replace(state, snapshot=structs.replace(state.snapshot, partitions=chosen))
    disk = load_disk(directory, max_batch_bytes)
    findings = [each for replica in disk.replicas for each in replica.paths.findings if each not in disk.findings]
    if point is not None:
        point.check(state.snapshot.partitions)
        ended = [end_at(each, state, point, max_batch_bytes) for each in disk.replicas]
        disk = replace(disk, replicas=tuple(each for each, _ in ended))
        findings += (finding for _, own in ended for finding in own)
    return replace(disk, path=shown_path(directory.location), findings=(*disk.findings, *findings), snapshot=state)


def narrow(cluster: Cluster, is_chosen: Callable[[str, int], bool]) -> Cluster:
    """Take the partitions that are not chosen out of a cluster's state, and topics without any; return it."""
    for topic_id, name in list(cluster.topics.items()):
        rows = cluster.partitions.get(topic_id, {})
        cluster.partitions[topic_id] = {number: row for number, row in rows.items() if is_chosen(name, number)}
        if not cluster.partitions[topic_id]:
            cluster.remove_topic(topic_id)
            del cluster.partitions[topic_id]
            cluster.configs.pop((ResourceType.TOPIC, name), None)
    return cluster


def missing_offsets(disk: Disk) -> Iterator[str]:
    """Yield for people what a backup lacks of each partition: segments without their objects, and what it never had."""
    state = disk.snapshot
    if state is None:
        return
    there = {
        (each.topic_id, each.partition): {segment.base_offset for segment in each.paths.segments}
        for each in disk.replicas
    }
    for each in state.snapshot.partitions:
        own = there.get(each.place, ())
        gone = [(one.start_offset, one.end_offset + 1) for one in state.segments.get(each.place, ())]
        gone = [(first, end) for first, end in gone if first not in own]
        to_the_end = [one.first_offset for one in each.lost if one.last_offset is None]
        gone += [(one.first_offset, one.last_offset + 1) for one in each.lost if one.last_offset is not None]
        yield from (not_stored(first, end - 1, each.name) for first, end in union(gone)) if each.place in there else ()
        yield from (not_stored(first, None, each.name) for first in to_the_end)


def not_stored(first: int, last: int | None, name: str) -> str:
    """Return for people that a backup does not have some offsets of a partition."""
    return f"offsets {first}{' and after' if last is None else f'..{last}'} of {name}: not in the backup"


def spread(disk: Disk, cluster: Cluster) -> list[Disk]:
    """Return a disk for each log directory of the cluster that a snapshot is of, with the replicas that the metadata
    assigns to it; those of partitions that it does not know are on the first. A replica whose directory is not known is
    in the first of its node. Raises :class:`UsageError` where the metadata has no nodes."""
    of_nodes: dict[int, dict[str, list[DiskReplica]]] = {
        node: {directory: [] for directory in row["logDirs"]} for node, row in cluster.brokers.items()
    }
    unknown: list[DiskReplica] = []
    for each in disk.replicas:
        row = cluster.partitions.get(each.topic_id or "", {}).get(each.partition)
        if row is None:
            unknown.append(each)
            continue
        for node in row["replicas"]:
            own = of_nodes.setdefault(node, {})
            first = next(iter(own), "")
            own.setdefault(assigned_directory(row, node) or first, []).append(each)
    if not of_nodes:
        raise UsageError("which node had which replica is not known without the metadata; leave out --spread")
    found = [each for node, own in sorted(of_nodes.items()) for each in _disks(disk, node, own)]
    return [replace(found[0], replicas=(*found[0].replicas, *unknown)), *found[1:]]


def _disks(disk: Disk, node: int, directories: dict[str, list[DiskReplica]]) -> Iterator[Disk]:
    """Yield the disks of a node that have replicas, or its first one."""
    used = [each for each in directories.items() if each[1]] or [next(iter(directories.items()), ("", []))]
    cluster_id = None if disk.properties is None else disk.properties.cluster_id
    for number, (directory, replicas) in enumerate(used, 1):
        path = f"{disk.path} of node {node}" + (f", directory {number}" if len(used) > 1 else "")
        properties = MetaProperties(path, 1, cluster_id, node_id=node, directory_id=directory or None)
        yield replace(disk, path=path, properties=properties, replicas=tuple(replicas), findings=())


def with_only_broker(nodes: Sequence[Node], disks: Sequence[Disk]) -> tuple[Node, ...]:
    """Give a snapshot that is of no node to the broker of a mapping file, if that is the only one."""
    brokers = brokers_of(nodes)
    if len(brokers) == 1 and len(disks) == 1 and not any(each.disks for each in nodes):
        return tuple(replace(each, disks=(disks[0].path,)) if each is brokers[0] else each for each in nodes)
    return tuple(nodes)


def refuse_uncovered(nodes: Sequence[Node], disks: Sequence[Disk]) -> None:
    """Raises :class:`UsageError` for partitions that a snapshot has, and no node of the rebuilt cluster would have. It
    names as many nodes as are needed for all of them."""
    owned = owners(nodes)
    covered = {(each.topic_id, each.partition) for disk in disks if disk.path in owned for each in disk.replicas}
    found: list[DiskReplica] = []
    needed: dict[int | None, None] = {}
    for disk in disks:
        if lacking := [each for each in disk.replicas if (each.topic_id, each.partition) not in covered]:
            found += lacking
            needed[disk.node_id] = None
            covered |= {(each.topic_id, each.partition) for each in disk.replicas}
    if found:
        more = f" and {count_of(len(found) - 1, 'other partition')}" if len(found) > 1 else ""
        text = f"no broker of the rebuilt cluster is one of those that had {found[0].topic}-{found[0].partition}{more}"
        named = f"node{'s' if len(needed) > 1 else ''} {', '.join(map(str, needed))}"
        advice = f"name {named} in the mapping file, each as id or as was"
        alone = "; or leave out --spread, and give one broker, which has all" if len(disks) > 1 else ""
        raise UsageError(f"{text}; {advice}{alone}")
