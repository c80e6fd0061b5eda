"""The replicas on the disks, each on its node of the rebuilt cluster: of which partition, and how far they go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from brokerless.arrow import integers
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import Cluster
from brokerless.jobs.cluster.disks import Disk, DiskReplica
from brokerless.jobs.rebuild.nodes import Node
from brokerless.jobs.restart.job import RecoveredLogs
from brokerless.jobs.restart.results import Restart
from brokerless.log.checkpoint.leader_epochs import Epochs, load_epochs
from brokerless.log.checkpoint.producer_snapshot import load_producer_snapshot
from brokerless.log.live_segments import open_segments
from brokerless.tables.partition_reader import PartitionReader

Place = tuple[str, int]
"""A topic's id and a partition's number."""


@dataclass(frozen=True, slots=True)
class HeldReplica:
    """A replica that a node of the rebuilt cluster has. ``last_epoch``: the newest leader epoch of its log after its
    recovery, -1 for none; ``topic_id``: as it will be. ``restart``: what its recovery does, None where that is not
    known."""

    node: int
    disk: Disk
    replica: DiskReplica
    topic_id: str
    last_epoch: int
    restart: Restart | None = None

    @property
    def limits(self) -> tuple[int, int]:
        """The first offset after the recovery, and the one after the last."""
        if self.restart is None:
            return self.replica.start_offset or 0, self.replica.end_offset or 0
        return self.restart.log_start_offset, self.restart.log_end_offset

    @property
    def epochs(self) -> Epochs:
        """The leader epochs of its log after the recovery, each with its first offset."""
        return load_epochs(self.replica.paths.leader_epoch_checkpoint) if self.restart is None else self.restart.epochs

    @property
    def end(self) -> tuple[int, int]:
        """What logs are compared by, as in an election: the last epoch, and the end offset."""
        return self.last_epoch, self.limits[1]

    @property
    def end_before(self) -> int:
        """The offset after the last one on the disk, whatever is damaged before it."""
        last = None if self.restart is None else self.restart.lost.last_offset
        return max(self.limits[1], self.replica.end_offset or 0, -1 if last is None else last + 1)


def topic_ids_of(disks: Sequence[Disk]) -> dict[str, str]:
    """The id of each topic by ``partition.metadata``: where there are several, that of most directories."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for disk in disks:
        for each in disk.replicas:
            if each.state == "live" and each.topic_id is not None:
                counts[each.topic][each.topic_id] += 1
    return {topic: max(sorted(ids), key=lambda known: ids[known]) for topic, ids in counts.items()}


def held_replicas(
    disks: Sequence[Disk], nodes: Sequence[Node], cluster: Cluster, report: Callable[[Finding], None]
) -> dict[Place, list[HeldReplica]]:
    """The replicas that the rebuilt cluster has, by partition, at most one of each node. What the cluster's metadata
    does not know is left out, and reported; so are directories without ``partition.metadata`` of unknown topics, and
    replicas of which a file cannot be opened."""
    recovered = RecoveredLogs({each.path: each.checkpoints for each in disks})
    owners = {path: node.node_id for node in nodes if node.is_broker for path in node.disks}
    by_name = {name: topic_id for topic_id, name in cluster.topics.items()}
    found: dict[Place, list[HeldReplica]] = defaultdict(list)
    for disk in disks:
        if disk.path not in owners:
            if disk.replicas:
                text = "no broker of the rebuilt cluster has this disk, so that its replicas are left out"
                report(Finding("warning", Kind.DISK_WITHOUT_NODE, disk.path, message=text))
            continue
        for each in disk.replicas:
            if each.state != "live":
                continue
            topic_id = by_name.get(each.topic) if each.topic_id is None else each.topic_id
            if topic_id is None or cluster.topics.get(topic_id) != each.topic:
                text = (
                    "the metadata has no such topic, or has it with another id: the rebuilt cluster does not have this"
                )
                report(Finding("warning", Kind.REPLICA_UNKNOWN, each.paths.path, message=text, found=each.topic_id))
            elif each.partition not in cluster.partitions.get(topic_id, {}):
                text = "the metadata has no such partition of this topic: the rebuilt cluster does not have this"
                report(Finding("warning", Kind.REPLICA_UNKNOWN, each.paths.path, message=text, found=topic_id))
            elif (file := _unreadable_file(each)) is not None:
                text = "this cannot be read, so that the replica is left out; salvage writes what is readable"
                report(Finding("error", Kind.REPLICA_UNREADABLE, file.file, message=text, found=file.message))
            else:
                # Both files are written where they cannot be read.
                paths = replace(each.paths, partition_metadata=None, leader_epoch_checkpoint=None)
                restart = recovered.of(paths)
                if (refused := recovered.refused(paths)) is not None and refused.refused_by is not None:
                    text = f"a broker refuses this log, and does not start: {refused.refused}"
                    report(Finding("error", Kind(refused.refused_by), each.paths.path, message=text))
                end = restart.log_end_offset if restart is not None and _is_cut(restart) else None
                held = HeldReplica(
                    owners[disk.path], disk, each, topic_id=topic_id, last_epoch=last_epoch(each, end), restart=restart
                )
                _add(found[topic_id, each.partition], held, report)
    return dict(found)


def _unreadable_file(replica: DiskReplica) -> Finding | None:
    """The first log of a replica that cannot be opened."""
    found: list[Finding] = []
    for _ in open_segments(replica.paths, found.append):
        pass
    return next((each for each in found if each.kind == Kind.UNREADABLE_FILE), None)


def _add(there: list[HeldReplica], held: HeldReplica, report: Callable[[Finding], None]) -> None:
    """Add a replica; of two on one node, the longer one: a broker ends at its start where it finds both."""
    same = next((each for each in there if each.node == held.node), None)
    if same is not None:
        worse, better = sorted((same, held), key=lambda each: each.end)
        there.remove(same)
        held = better
        text = (
            f"another disk of node {held.node} has this partition as well, up to a later offset; this one is left out"
        )
        report(Finding("warning", Kind.REPLICA_TWICE, worse.replica.paths.path, message=text))
    there.append(held)


def report_cuts(held: Mapping[Place, Sequence[HeldReplica]], report: Callable[[Finding], None]) -> Iterator[str]:
    """Report what the recovery of each replica cuts off, and yield what no other replica has."""
    for there in held.values():
        for each in there:
            restart = each.restart
            if restart is None or not _is_cut(restart):
                continue
            is_elsewhere = any(other.limits[1] >= each.end_before for other in there if other is not each)
            text = _cut_text(each, restart)
            file, position = restart.path, None
            if restart.cut:
                file, position = restart.cut[0].file, restart.cut[0].kept
            expected, found = f"up to offset {each.end_before}", f"up to offset {restart.log_end_offset}"
            is_loss = not is_elsewhere and each.end_before > restart.log_end_offset
            advice = "another replica has them" if is_elsewhere else "salvage this partition first"
            report(
                Finding(
                    "error" if is_loss else "warning",
                    Kind.RECOVERY_CUTS,
                    file,
                    position=position,
                    offset=restart.log_end_offset,
                    message=f"{text}; {advice}",
                    expected=expected,
                    found=found,
                )
            )
            if not is_elsewhere:
                yield text


def _is_cut(restart: Restart) -> bool:
    return bool(restart.lost_bytes or restart.lost.batches)


def _cut_text(held: HeldReplica, restart: Restart) -> str:
    name, lost = f"{restart.topic}-{restart.partition}", restart.lost
    reason = f", as {restart.cut[0].reason}" if restart.cut and restart.cut[0].reason else ""
    gone = f"{restart.lost_bytes:,} bytes"
    if held.end_before > restart.log_end_offset:
        gone = f"offsets {restart.log_end_offset}..{held.end_before - 1} of {name} ({gone})"
    else:
        gone = f"{gone} after offset {restart.log_end_offset} of {name}"
    intact = "no intact batch is after that"
    if lost.batches:
        intact = f"{lost.batches:,} intact batches with {lost.records:,} records are after that, which salvage keeps"
    return f"recovery cuts {gone}{reason}; {intact}"


def last_epoch(replica: DiskReplica, end_offset: int | None = None) -> int:
    """Return the newest leader epoch of a log before ``end_offset``, by its checkpoint and the batches of its last
    segment."""
    epochs: list[int] = [-1]
    try:
        known = load_epochs(replica.paths.leader_epoch_checkpoint)
        epochs += [epoch for epoch, start in known if end_offset is None or start < end_offset]
        last = PartitionReader(replace(replica.paths, segments=replica.paths.segments[-1:]))
        for batch in last.batches(["baseOffset", "partitionLeaderEpoch"], on_damage=lambda _: None):
            starts, found = (integers(batch.column(name)) for name in ("baseOffset", "partitionLeaderEpoch"))
            epochs += (
                epoch
                for start, epoch in zip(starts, found, strict=True)
                if epoch is not None and (end_offset is None or (start is not None and start < end_offset))
            )
    except UnreadableError:
        pass
    return max(epochs)


def largest_producer_id(replicas: Mapping[Place, Sequence[HeldReplica]], *, thorough: bool) -> int:
    """The largest id of a producer that wrote into the logs, -1 for none: by producer snapshots, and if ``thorough`` by
    all batch headers as well."""
    found = -1
    for each in (held for there in replicas.values() for held in there):
        paths = each.replica.paths
        for file in paths.producer_snapshots:
            found = max(found, int(load_producer_snapshot(file.location).producer_ids.max(initial=-1)))
        if thorough:
            for batch in PartitionReader(paths).batches(["producerId"], on_damage=lambda _: None):
                found = max(found, *(each for each in integers(batch.column("producerId")) if each is not None), -1)
    return found


def assigned(
    held: Mapping[Place, Sequence[HeldReplica]], cluster: Cluster, report: Callable[[Finding], None]
) -> dict[Place, list[HeldReplica]]:
    """Those of the replicas that the metadata assigns to their node; the others are reported."""
    found: dict[Place, list[HeldReplica]] = defaultdict(list)
    for (topic_id, number), replicas in held.items():
        nodes = cluster.partitions[topic_id][number]["replicas"]
        for each in replicas:
            if each.node in nodes:
                found[topic_id, number].append(each)
            else:
                text = f"the metadata does not assign this to node {each.node}: the rebuilt cluster does not have it"
                report(Finding("warning", Kind.REPLICA_UNASSIGNED, each.replica.paths.path, message=text))
    return dict(found)


def left_out(disks: Sequence[Disk], cluster: Cluster, held: Mapping[Place, Sequence[HeldReplica]]) -> Iterator[Finding]:
    """Directories that no broker serves: stray, deleted and future ones. A warning, where what is not deleted may be
    all that is left of a partition."""
    by_name = {name: topic_id for topic_id, name in cluster.topics.items()}
    for each in (replica for disk in disks for replica in disk.replicas if replica.state != "live"):
        kind, text = _NOT_LIVE[each.state]
        topic_id = by_name.get(each.topic, "") if each.topic_id is None else each.topic_id
        if each.state == "delete" or held.get((topic_id, each.partition)):
            yield Finding("info", kind, each.paths.path, message=f"{text}, and is left out", found=each.topic_id)
        else:
            text = f"{text}, and is left out, though the rebuilt cluster has no other replica of this partition"
            yield Finding("warning", kind, each.paths.path, message=text, found=each.topic_id)


_NOT_LIVE = {
    "stray": (Kind.STRAY_DIRECTORY, "this is a replica that the cluster no longer had here"),
    "future": (Kind.FUTURE_DIRECTORY, "this is a replica that was being moved to this disk"),
    "delete": (Kind.DELETED_DIRECTORY, "this is a replica that was to be deleted"),
}
