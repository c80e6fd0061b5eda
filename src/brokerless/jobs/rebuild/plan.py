"""Plans the rebuilding of a cluster: its state, its nodes, and the log directories of each; nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from brokerless import clock
from brokerless.clusters.disk import Disk, cluster_id_of
from brokerless.clusters.metadata_replicas import MetadataReplica, Voter, best_of, compare_replicas, describe_end
from brokerless.clusters.start.directory_files import check_directory_ids
from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind
from brokerless.internals.groups.positions import LostPosition, ResetTo
from brokerless.internals.metadata.cluster import Cluster, read_cluster
from brokerless.internals.metadata.records import MetadataRecord, cluster_records
from brokerless.internals.metadata.versions import (
    DYNAMIC_QUORUM,
    KRAFT_VERSION,
    METADATA_VERSION,
    level_name,
    parse_level,
)
from brokerless.internals.remote.segment_metadata import remote_epochs
from brokerless.jobs.rebuild.adopted_topics import adopt_topics
from brokerless.jobs.rebuild.from_bucket.plan import (
    BucketOptions,
    BucketTopics,
    bucket_options,
    put_in,
    read_bucket,
    take_out,
)
from brokerless.jobs.rebuild.from_bucket.stand_ins import FromBucket
from brokerless.jobs.rebuild.from_snapshot.disks import (
    missing_offsets,
    narrow,
    refuse_uncovered,
    spread,
    with_only_broker,
)
from brokerless.jobs.rebuild.from_snapshot.point_in_time import PointInTime
from brokerless.jobs.rebuild.from_snapshot.retention import PausedRetention, pause_retention, retention_findings
from brokerless.jobs.rebuild.from_snapshot.stored_topics import remaining_in_bucket
from brokerless.jobs.rebuild.group_positions import positions_past_end
from brokerless.jobs.rebuild.nodes import (
    ALONE,
    Node,
    TargetDirectory,
    brokers_of,
    known_nodes,
    load_nodes,
    plan_directories,
    server_properties,
)
from brokerless.jobs.rebuild.partition_states import rebuild_partitions
from brokerless.jobs.rebuild.proven_features import choose_level, settings_refused_at
from brokerless.jobs.rebuild.registrations import register_brokers, voters_of
from brokerless.jobs.rebuild.replicas import (
    HeldReplica,
    assigned,
    held_replicas,
    largest_producer_id,
    left_out,
    report_cuts,
)
from brokerless.jobs.rebuild.table_rows import is_tables, load_tables
from brokerless.jobs.rebuild.tiered import (
    broken_epochs,
    bucket_settings,
    load_remote_segments,
    remote_findings,
    tiered_settings,
)
from brokerless.kafka_names import TopicIdPartition
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import Epochs
from brokerless.log.checkpoint.topic_ids import random_id
from brokerless.log.directory import resolve
from brokerless.log.seek import end_offset
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import full_path
from brokerless.progress import Report
from brokerless.requests.recovery import Data, RebuildRequest
from brokerless.text import short_html, short_repr
from brokerless.values import Row

_PRODUCER_ID_BLOCK = 1000
"""``ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE``."""
_MOST_POSITIONS = 20
_LOST = ("configs of topics and brokers", "ACLs", "SCRAM users", "quotas", "delegation tokens", "feature levels")


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """A request to rebuild a cluster, and what its texts and files say."""

    request: RebuildRequest
    level: int | None = None
    """The metadata version; None for the old cluster's."""
    bucket: BucketOptions | None = None
    point: PointInTime | None = None
    is_chosen: Callable[[str, int], bool] | None = None
    """Returns whether a partition of a snapshot is rebuilt, by topic and number; None for all."""

    @classmethod
    def of(cls, request: RebuildRequest, is_chosen: Callable[[str, int], bool] | None = None) -> RebuildOptions:
        """Return what was requested. Raises :class:`UsageError` for options that do not go together."""
        bucket = bucket_options(request)
        level = None if request.metadata_version is None else parse_level(request.metadata_version)
        return cls(request, level, bucket, point=PointInTime.of(request), is_chosen=is_chosen)

    @property
    def is_in_place(self) -> bool:
        return self.request.data == "in-place"


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A rebuilt cluster: what is written, and, once ``is_applied``, what was."""

    cluster_id: str
    level: int
    """The feature level of the metadata version."""
    nodes: tuple[Node, ...]
    directories: tuple[TargetDirectory, ...]
    cluster: Cluster
    """The state that the metadata's snapshot has."""
    offset: int
    """The offset in the snapshot's name."""
    epoch: int
    """The epoch in the snapshot's name."""
    timestamp_ms: int
    voters: tuple[Row, ...] | None
    """The voters of a dynamic quorum; None for a static one."""
    held: Mapping[TopicIdPartition, Sequence[HeldReplica]]
    """The replicas that are kept, by partition."""
    lost: tuple[str, ...]
    """What could not be recovered, as texts for people."""
    findings: tuple[Finding, ...]
    origin: str
    """Where the state is from."""
    data: Data
    is_applied: bool = False
    positions: tuple[LostPosition, ...] = ()
    """The positions of groups past the end of their partition."""
    reset_to: ResetTo | None = None
    now_ms: int = 0
    from_bucket: FromBucket | None = None
    remote_epochs: Mapping[TopicIdPartition, Epochs] = field(default_factory=dict[TopicIdPartition, Epochs])
    """The leader epochs of remote segments, for partitions whose own are damaged."""
    paused: tuple[PausedRetention, ...] = ()
    """The topics whose ``retention.ms`` was set to -1."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def ended(self) -> tuple[HeldReplica, ...]:
        """One replica of each partition that ends before the snapshot's."""
        own = (there[0] for there in self.held.values() if there)
        return tuple(each for each in own if each.replica.end_in_log is not None)

    def records(self) -> list[MetadataRecord]:
        """Return the records of the snapshot. Raises :class:`UsageError` for what this version cannot express."""
        return list(cluster_records(self.cluster, self.level))

    def server_properties(self, node_id: int) -> dict[str, str]:
        """Return a node's ``server.properties`` by name, with absolute paths. Raises UsageError for an unknown node."""
        node = next((each for each in self.nodes if each.node_id == node_id), None)
        if node is None:
            raise UsageError(f"the rebuilt cluster has no node {node_id}")
        log_dirs = [full_path(each.path) for each in self.directories if each.node_id == node_id]
        settings = server_properties(node, self.nodes, log_dirs, is_dynamic=self.voters is not None)
        is_bucket_alone = self.from_bucket is not None and not self.from_bucket.is_snapshot
        more = bucket_settings(self.nodes) if is_bucket_alone and node.is_broker else {}
        return {**settings, **tiered_settings(self.cluster, node), **more}


@dataclass(frozen=True, slots=True)
class _RebuildState:
    cluster: Cluster
    origin: str
    offset: int
    epoch: int
    timestamp_ms: int
    replica: MetadataReplica | None
    is_dynamic: bool


def _refuse_repeated(disks: Sequence[Disk]) -> None:
    properties = [each.properties for each in disks if each.properties is not None]
    for repeated in check_directory_ids(properties, "too"):
        raise UsageError(f"{repeated}; give one of both")


def plan_rebuild(disks: Sequence[Disk], options: RebuildOptions) -> Rebuild:
    """Plan a rebuild. Raises UnreadableError, and UsageError for disks of several clusters and what is not writable."""
    request, is_in_place, limit = options.request, options.is_in_place, options.request.max_batch_bytes
    to = os.fspath(request.to)
    if request.reset_positions is not None and is_in_place:
        raise UsageError("in place no log is changed, and positions are in logs; give --data copy or link")
    findings: list[Finding] = [
        each for disk in disks for each in disk.findings if disk.metadata is None or each not in disk.metadata.damage
    ]
    own_id = cluster_id_of(disks)
    _refuse_repeated(disks)
    state = _state(disks, request, findings)
    cluster = state.cluster if options.is_chosen is None else narrow(state.cluster, options.is_chosen)
    lost = [text for each in disks for text in missing_offsets(each)]
    disks = spread(disks[0], cluster) if request.spread else disks
    nodes = _nodes(request, disks, cluster, () if state.replica is None else state.replica.voters)
    lost += _adopt(request, disks, cluster, nodes=nodes, findings=findings)
    paused = pause_retention(cluster) if request.pause_retention else ()
    bucket = _read_bucket(options, disks, cluster, findings.append)
    if bucket is not None:
        bucket, disks = take_out(bucket, cluster, disks, lost)
    held = held_replicas(disks, nodes, cluster, findings.append)
    twice = next((each for each in findings if each.kind == Kind.PARTITION_REPEATED), None)
    if twice is not None and is_in_place:
        text = "another disk of this node has this partition as well, and no broker starts on both"
        raise UsageError(f"{twice.file}: {text}; move it away, or give --data copy")
    directories = plan_directories(disks, nodes, to, in_place=is_in_place)
    register_brokers(cluster, nodes, directories, disks=disks, lost=lost)
    place = disks[0].path if disks else to
    rebuild_partitions(cluster, nodes, held, directories, place=place, report=findings.append)
    held = assigned(held, cluster, findings.append)
    lost += report_cuts(held, findings.append)
    findings += left_out(disks, cluster, held)
    remote = load_remote_segments(held, limit)
    epochs = {} if is_in_place else remote_epochs(remote)
    findings += broken_epochs(held, cluster, epochs, in_place=is_in_place)
    from_bucket = None
    if bucket is not None:  # what is found there comes first
        of_bucket: list[Finding] = []
        from_bucket = put_in(bucket, cluster, nodes, directories, report=of_bucket.append, lost=lost)
        findings[:0] = of_bucket
    findings[:0] = remote_findings(
        cluster, nodes, held, place=to, metadata=remote, remote=epochs, from_bucket=from_bucket
    )
    limits = {} if from_bucket is None else from_bucket.limits
    positions = tuple(positions_past_end(cluster, held, limits, report=findings.append, max_batch_bytes=limit))
    findings += (_position_finding(*each, request.reset_positions) for each in positions)
    lost += [str(each) for each, _ in positions[:_MOST_POSITIONS] if request.reset_positions is None]
    stored = next((each.snapshot for each in disks if each.snapshot is not None), None)
    findings += () if stored is None else retention_findings(stored, cluster, clock.now(), place)
    level = choose_level(cluster, options.level, disks, limit)
    is_dynamic = request.quorum == "dynamic" if request.quorum else state.is_dynamic
    if is_dynamic and level < DYNAMIC_QUORUM:
        raise UsageError(f"a dynamic quorum needs metadata version 3.9 or newer, and this is {level_name(level)}")
    cluster.features[METADATA_VERSION] = level
    cluster.features.pop(KRAFT_VERSION, None)
    findings += settings_refused_at(cluster, level, state.origin.partition(",")[0])
    _raise_producer_id(cluster, held, from_bucket)
    marks = [row["brokerEpoch"] for row in cluster.brokers.values()]
    rebuild = Rebuild(
        request.cluster_id or own_id or random_id(), level, nodes, directories=directories, cluster=cluster,
        offset=max(state.offset, *marks, 0) + 1, epoch=state.epoch + 1, timestamp_ms=state.timestamp_ms,
        voters=tuple(voters_of(nodes, directories)) if is_dynamic else None,
        held=held, lost=tuple(lost), findings=tuple(findings), origin=state.origin, data=request.data,
        positions=tuple(each for each, _ in positions), reset_to=request.reset_positions, now_ms=clock.now(),
        from_bucket=from_bucket, remote_epochs=epochs, paused=paused,
    )  # fmt: skip
    rebuild.records()  # refused here, before anything is written
    return rebuild


def _raise_producer_id(
    cluster: Cluster, held: Mapping[TopicIdPartition, Sequence[HeldReplica]], from_bucket: FromBucket | None
) -> None:
    """Let the next producer ID be above all that the logs have."""
    used = largest_producer_id(held, thorough=cluster.next_producer_id is None)
    used = max(used, -1 if from_bucket is None else from_bucket.largest_producer_id)
    if used >= (cluster.next_producer_id or 0):
        cluster.next_producer_id = (used // _PRODUCER_ID_BLOCK + 1) * _PRODUCER_ID_BLOCK


def _read_bucket(
    options: RebuildOptions, disks: Sequence[Disk], cluster: Cluster, report: Report
) -> BucketTopics | None:
    if options.bucket is None:
        return None
    if options.is_in_place:
        raise UsageError("from a bucket, directories are new; give --data copy or link")
    if options.bucket.is_snapshot:
        return remaining_in_bucket(options.bucket, disks, cluster, report)
    return read_bucket(options.bucket)


def _nodes(
    request: RebuildRequest, disks: Sequence[Disk], cluster: Cluster, voters: Sequence[Voter]
) -> tuple[Node, ...]:
    if request.mapping:
        nodes = load_nodes(os.fspath(request.mapping), disks)
        nodes = with_only_broker(nodes, disks) if any(each.is_snapshot for each in disks) else nodes
    else:
        nodes = known_nodes(disks, cluster, voters) if disks else (ALONE,)
    if not brokers_of(nodes):
        raise UsageError("no node of the rebuilt cluster is a broker; give one in the mapping file")
    refuse_uncovered(nodes, [each for each in disks if each.is_snapshot])
    return nodes


def _adopt(
    request: RebuildRequest, disks: Sequence[Disk], cluster: Cluster, nodes: Sequence[Node], findings: list[Finding]
) -> Iterator[str]:
    """Takes in topics that only the disks have; yields what of the old state is lost."""
    nothing = not cluster.topics
    if nothing or request.adopt:
        adopted = adopt_topics(cluster, disks, nodes, findings.append)
        if nothing and request.state is None:
            yield from _LOST
            yield from () if disks else ("positions of groups",)
        yield from (f"settings of topic {each}" for each in adopted)


def _position_finding(position: LostPosition, path: str, reset_to: ResetTo | None) -> Finding:
    found = position.finding(path)
    if reset_to is None:
        return replace(found, message=f"{found.message}; --reset-positions sets it to the end or the start of this")
    return replace(found, severity="info", message=f"{position}; it is set to the {reset_to} of what is left")


def _state(disks: Sequence[Disk], request: RebuildRequest, findings: list[Finding]) -> _RebuildState:
    """The state to rebuild: of a file that was given, of the best replica on the disks, or nothing."""
    replicas = [each.metadata for each in disks if each.metadata is not None]
    best, now = best_of(replicas), clock.now()
    of_disks = _RebuildState(
        Cluster(), "directories of partitions alone" if disks else "the bucket alone",
        offset=0 if best is None else best.end_offset, epoch=0 if best is None else max(best.epoch, 0),
        timestamp_ms=now, replica=best, is_dynamic=best is not None and best.kraft_version > 0,
    )  # fmt: skip
    if request.state is not None:
        source = os.fspath(request.state)
        if is_tables(source):
            return replace(of_disks, cluster=load_tables(source), origin=source)
        logs = resolve(Location(source)).partitions
        if len(logs) != 1:
            raise UsageError(f"--state: {source} has {len(logs):,} partitions; give that of the metadata")
        (log,) = logs
        cluster = read_cluster(log, findings.append, None, request.max_batch_bytes)
        end, epoch = end_offset(log) or 0, of_disks.epoch
        name = names.parse_segment_file(source.rsplit("/", 1)[-1])
        if name is not None:
            end = max(end, name.offset) if name.kind == "kraft-snapshot" else end
            epoch = max(epoch, name.epoch or 0)
        return replace(of_disks, cluster=cluster, origin=source, offset=end, epoch=epoch, is_dynamic=False)
    if best is None or request.without_metadata:
        return of_disks
    cluster = best.load_cluster(request.max_batch_bytes, findings.append)
    findings += compare_replicas(best, [each for each in replicas if each is not best])
    findings += best.damage
    place = disks[0].path if disks[0].is_snapshot else best.paths.path
    origin = f"{place}, {describe_end(best.end_offset, best.epoch)}"
    timestamp = now if best.timestamp is None else best.timestamp
    return replace(of_disks, cluster=cluster, origin=origin, timestamp_ms=timestamp)
