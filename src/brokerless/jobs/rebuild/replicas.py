"""The replicas on the disks, each on its node of the rebuilt cluster: of which partition, and how far they go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from brokerless.arrow import integers
from brokerless.clusters.disk import Disk, DiskReplica, place_replicas
from brokerless.clusters.placement import NOT_KNOWN, NOT_LIVE, Placement, Verdict
from brokerless.clusters.start.effects import loss_finding
from brokerless.clusters.start.job import RecoveredLogs
from brokerless.clusters.start.results import Restart
from brokerless.errors import UnreadableError
from brokerless.findings import NOT_OPENED, Finding, Kind
from brokerless.internals.metadata.cluster import Cluster
from brokerless.jobs.rebuild.nodes import Node, owners
from brokerless.kafka_names import TopicIdPartition
from brokerless.log.checkpoint.leader_epochs import Epochs, load_epochs
from brokerless.log.live_segments import open_segments
from brokerless.log.producer.snapshot import load_producer_snapshot
from brokerless.progress import Report, ignore
from brokerless.tables.partition_tables import read_batches


@dataclass(frozen=True, slots=True)
class HeldReplica:
    """A replica that a node of the rebuilt cluster has."""

    node: int
    disk: Disk
    replica: DiskReplica
    topic_id: str
    """The topic's ID in the rebuilt cluster."""
    last_epoch: int
    """The newest leader epoch of its log after its recovery; -1 for none."""
    restart: Restart | None
    """What its recovery does; None where that is not known."""
    placement: Placement
    """The replica's placement by the metadata of the cluster that was."""

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


def held_replicas(
    disks: Sequence[Disk], nodes: Sequence[Node], cluster: Cluster, report: Report
) -> dict[TopicIdPartition, list[HeldReplica]]:
    """Return the replicas that the rebuilt cluster has, by partition, at most one of each node. What the cluster's
    metadata does not know is left out, and reported; so are directories without ``partition.metadata`` of unknown
    topics, and replicas of which a file cannot be opened."""
    recovered = RecoveredLogs({each.path: each.checkpoints for each in disks})
    node_of = owners(nodes)
    for disk in disks:
        if disk.path not in node_of and disk.replicas:
            text = "no broker of the rebuilt cluster has this disk, so that its replicas are left out"
            report(Kind.DISK_WITHOUT_NODE.at(disk.path, text))
    by_path = {(disk.node_id, each.path): disk for disk in disks if disk.path in node_of for each in disk.replicas}
    epochs: dict[tuple[int | None, str], int] = {}
    found: dict[TopicIdPartition, list[HeldReplica]] = defaultdict(list)
    for placed in place_replicas([each for each in disks if each.path in node_of], cluster):
        each = placed.replica
        assert isinstance(each, DiskReplica)
        if placed.verdict in (*NOT_LIVE, Verdict.TWICE):  # which :func:`left_out` and :func:`_add` report
            continue
        topic_id = _topic_id(placed, cluster)
        if placed.verdict not in (Verdict.HERE, *_REPORTED_LATER):
            report_placement(placed, report, is_taken=topic_id is not None)
        if topic_id is None:
            continue
        if (file := _unreadable_file(each)) is not None:
            text = "this cannot be read, so that the replica is left out; salvage writes what is readable"
            report(Kind.REPLICA_UNREADABLE.at(file.file, text, found=file.message))
            continue
        # Both files are written where they cannot be read.
        paths = replace(each.paths, partition_metadata=None, leader_epoch_checkpoint=None)
        restart = recovered.of(paths)
        if (refused := recovered.refused(paths)) is not None and refused.refused_by is not None:
            text = f"a broker refuses this log, and does not start: {refused.refused}"
            refusal = refused.refusal or Kind(refused.refused_by).at(each.path, severity="error")
            report(replace(refusal, message=text, severity="error"))
        end = restart.log_end_offset if restart is not None and _is_cut(restart) else None
        if (end, each.path) not in epochs:  # several nodes have what a snapshot has once
            epochs[end, each.path] = last_epoch(each, end)
        disk = by_path[placed.node.node_id, each.path]
        held = HeldReplica(
            node_of[disk.path],
            disk,
            each,
            topic_id=topic_id,
            last_epoch=epochs[end, each.path],
            restart=restart,
            placement=placed,
        )
        _add(found[topic_id, each.partition], held, report)
    return dict(found)


_REPORTED_LATER = (Verdict.ELSEWHERE, Verdict.OTHER_DIRECTORY)
"""Verdicts that the rebuilt cluster may make good: it has other nodes, and each directory an ID of its own."""


def _topic_id(placed: Placement, cluster: Cluster) -> str | None:
    """The ID of the topic whose partition a replica is: by its name where no file says so. None where the cluster does
    not have it."""
    each = placed.replica
    if placed.verdict in (Verdict.NO_ID, Verdict.ID_CORRUPT):
        return cluster.id_of(each.topic) if cluster.row(each.topic, each.partition) is not None else None
    if placed.verdict in NOT_KNOWN:
        return None
    return each.topic_id


def report_placement(placed: Placement, report: Report, *, is_taken: bool) -> None:
    """Report where a replica is, and whether the rebuilt cluster has it."""
    finding = placed.of_cluster(is_spare=False)
    if finding is not None:
        text = "the rebuilt cluster takes it by its name" if is_taken else "the rebuilt cluster does not have this"
        text = "the rebuilt cluster has it" if placed.verdict == Verdict.PROMOTED else text
        report(replace(finding, message=f"{finding.message}; {text}"))


def _unreadable_file(replica: DiskReplica) -> Finding | None:
    """The first log of a replica that cannot be opened."""
    found: list[Finding] = []
    for _ in open_segments(replica.paths, found.append):
        pass
    return next((each for each in found if each.kind in NOT_OPENED), None)


def _add(there: list[HeldReplica], held: HeldReplica, report: Report) -> None:
    """Add a replica; of two on one node, the longer one, or that which the metadata has there: a broker ends at its
    start where it finds both live."""
    same = next((each for each in there if each.node == held.node), None)
    if same is not None:
        worse, better = sorted((held, same), key=lambda each: (each.end, each.placement.is_assigned))
        there.remove(same)
        held = better
        if Verdict.PROMOTED not in (worse.placement.verdict, better.placement.verdict):
            twice = replace(worse.placement, verdict=Verdict.TWICE, other=better.replica)
            report_placement(twice, report, is_taken=False)
    there.append(held)


def report_cuts(held: Mapping[TopicIdPartition, Sequence[HeldReplica]], report: Report) -> Iterator[str]:
    """Report what the recovery of each replica cuts off, and yield what no other replica has."""
    for there in held.values():
        for each in there:
            restart = each.restart
            finding = None if restart is None else loss_finding(restart)
            if restart is None or finding is None or not _is_cut(restart):
                continue
            is_elsewhere = any(other.limits[1] >= each.end_before for other in there if other is not each)
            text = _cut_text(each, restart)
            expected, found = f"up to offset {each.end_before}", f"up to offset {restart.log_end_offset}"
            is_loss = not is_elsewhere and each.end_before > restart.log_end_offset
            advice = "another replica has them" if is_elsewhere else "salvage this partition first"
            if finding.kind != Kind.RECOVERY_CUTS:
                text = finding.message
            severities = finding.severities._replace(cluster="error" if is_loss else "warning")
            finding = finding.with_severities(severities).in_scope("cluster")
            report(replace(finding, message=f"{text}; {advice}", expected=expected, found=found))
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
        last = replace(replica.paths, segments=replica.paths.segments[-1:])
        for batch in read_batches([last], ["baseOffset", "partitionLeaderEpoch"], on_damage=ignore):
            starts, found = (integers(batch.column(name)) for name in ("baseOffset", "partitionLeaderEpoch"))
            epochs += (
                epoch
                for start, epoch in zip(starts, found, strict=True)
                if epoch is not None and (end_offset is None or (start is not None and start < end_offset))
            )
    except UnreadableError:
        pass
    return max(epochs)


def largest_producer_id(replicas: Mapping[TopicIdPartition, Sequence[HeldReplica]], *, thorough: bool) -> int:
    """Return the largest id of a producer that wrote into the logs, -1 for none: by producer snapshots, and if
    ``thorough`` by all batch headers as well."""
    found = -1
    for each in (held for there in replicas.values() for held in there):
        paths = each.replica.paths
        for file in paths.producer_snapshots:
            found = max(found, int(load_producer_snapshot(file.location).producer_ids.max(initial=-1)))
        if thorough:
            for batch in read_batches([paths], ["producerId"], on_damage=ignore):
                found = max(found, *(each for each in integers(batch.column("producerId")) if each is not None), -1)
    return found


def assigned(
    held: Mapping[TopicIdPartition, Sequence[HeldReplica]], cluster: Cluster, report: Report
) -> dict[TopicIdPartition, list[HeldReplica]]:
    """Those of the replicas that the metadata assigns to their node; the others are reported."""
    found: dict[TopicIdPartition, list[HeldReplica]] = defaultdict(list)
    for (topic_id, number), replicas in held.items():
        nodes = cluster.partitions[topic_id][number]["replicas"]
        for each in replicas:
            if each.node in nodes:
                found[topic_id, number].append(each)
            else:
                others = [other for other in replicas if other.node in nodes]
                is_spare = any(other.end >= each.end for other in others)
                finding = replace(each.placement, verdict=Verdict.ELSEWHERE).of_cluster(is_spare=is_spare)
                assert finding is not None
                text = f"the metadata does not assign this to node {each.node}: the rebuilt cluster does not have it"
                report(replace(finding, message=text, expected=f"one of {nodes}", found=str(each.node)))
    return dict(found)


def left_out(
    disks: Sequence[Disk], cluster: Cluster, held: Mapping[TopicIdPartition, Sequence[HeldReplica]]
) -> Iterator[Finding]:
    """Directories that no broker serves: stray, deleted and future ones. A warning, where what is not deleted may be
    all that is left of a partition."""
    for placed in place_replicas(disks, cluster):
        each = placed.replica
        if placed.verdict in NOT_LIVE:
            topic_id = cluster.id_of(each.topic) or "" if each.topic_id is None else each.topic_id
            is_spare = placed.verdict == Verdict.DELETED or bool(held.get((topic_id, each.partition)))
            finding = placed.of_cluster(is_spare=is_spare)
            assert finding is not None
            text = f"{finding.message}; it is left out"
            text += "" if is_spare else ", though the rebuilt cluster has no other replica of this partition"
            yield replace(finding, message=text, found=each.topic_id)
