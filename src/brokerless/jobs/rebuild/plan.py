"""Plans the rebuilding of a cluster: its state, its nodes, and the log directories of each; nothing is changed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from brokerless import clock
from brokerless.clusters.disk import Disk
from brokerless.clusters.metadata_replicas import MetadataReplica, Voter, best_of, compare_replicas, describe_end
from brokerless.clusters.placement import is_reserved
from brokerless.clusters.start.directory_files import check_directory_ids
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.internals.groups.positions import LostPosition, ResetTo
from brokerless.internals.metadata.cluster import Cluster, ResourceType, read_cluster
from brokerless.internals.metadata.records import MetadataRecord, cluster_records
from brokerless.internals.metadata.versions import (
    DYNAMIC_QUORUM,
    KRAFT_VERSION,
    METADATA_VERSION,
    level_name,
)
from brokerless.internals.remote.segment_metadata import remote_epochs
from brokerless.jobs.rebuild.adopted_topics import adopt_topics
from brokerless.jobs.rebuild.from_bucket.partitions import BucketPartition, ReplacedTopic
from brokerless.jobs.rebuild.from_bucket.plan import Bucketed, BucketOptions, put_in, read_bucket, take_out
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
    PROTOCOLS,
    Node,
    cluster_id_of,
    known_nodes,
    load_nodes,
)
from brokerless.jobs.rebuild.partition_states import rebuild_partitions
from brokerless.jobs.rebuild.proven_features import choose_level, settings_refused_at
from brokerless.jobs.rebuild.replicas import (
    HeldReplica,
    assigned,
    held_replicas,
    largest_producer_id,
    left_out,
    report_cuts,
)
from brokerless.jobs.rebuild.server_properties import server_properties
from brokerless.jobs.rebuild.table_rows import is_tables, load_tables
from brokerless.jobs.rebuild.tiered import (
    broken_epochs,
    bucket_settings,
    load_remote_segments,
    remote_findings,
    tiered_settings,
)
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import Epochs
from brokerless.log.checkpoint.topic_ids import random_id
from brokerless.log.directory import resolve
from brokerless.log.seek import end_offset
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import full_path, join
from brokerless.progress import Report
from brokerless.requests.recovery import Data, Quorum
from brokerless.text import short_html, short_repr
from brokerless.values import Row

_PRODUCER_ID_BLOCK = 1000
"""``ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE``."""
_MOST_POSITIONS = 20
_LOST = ("configs of topics and brokers", "ACLs", "SCRAM users", "quotas", "delegation tokens", "feature levels")


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """The options of a rebuild."""

    data: Data = "copy"
    mapping: str | None = None
    """The path of a mapping file."""
    level: int | None = None
    """The metadata version; None for the old cluster's."""
    quorum: Quorum | None = None
    """Voters in each node's configuration, or in the metadata (KIP-853); None for those of the old cluster."""
    source: str | None = None
    """A log, snapshot or tables as JSON Lines to take the state from, instead of the disks'."""
    without_metadata: bool = False
    """Whether the state is taken from directories alone."""
    adopt: bool = False
    """Whether topics that only the disks have are taken in, too."""
    cluster_id: str | None = None
    max_batch_bytes: int | None = None
    reset_to: ResetTo | None = None
    """Where positions of groups past the end of a partition are set to; None leaves them."""
    bucket: BucketOptions | None = None
    spread: bool = False
    """Whether a snapshot becomes the directories of all nodes that had replicas."""
    is_chosen: Callable[[str, int], bool] | None = None
    """Returns whether a partition of a snapshot is rebuilt, by topic and number; None for all."""
    point: PointInTime | None = None
    pause_retention: bool = False
    """Whether nothing is deleted by its age."""
    has_keys: bool = False
    """Whether anything was given by which objects are read."""


@dataclass(frozen=True, slots=True)
class TargetDirectory:
    """A log directory of the rebuilt cluster."""

    path: str
    node_id: int
    directory_id: str
    disk: Disk | None
    """The disk whose partitions it has; None for a new, empty one."""
    is_first: bool
    """Whether it is its node's first one, which has the metadata."""
    is_new: bool
    """Whether it is written as a new directory, and not changed in place."""


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
    held: Mapping[TopicPartition, Sequence[HeldReplica]]
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
    remote_epochs: Mapping[TopicPartition, Epochs] = field(default_factory=dict[TopicPartition, Epochs])
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


def plan_rebuild(disks: Sequence[Disk], to: str, options: RebuildOptions) -> Rebuild:
    """Plan a rebuild. Raises UnreadableError, and UsageError for disks of several clusters and what is not writable."""
    if options.reset_to is not None and options.data == "in-place":
        raise UsageError("in place no log is changed, and positions are in logs; give --data copy or link")
    findings: list[Finding] = [
        each for disk in disks for each in disk.findings if disk.metadata is None or each not in disk.metadata.damage
    ]
    own_id = cluster_id_of(disks)
    _refuse_repeated(disks)
    state = _state(disks, options, findings)
    cluster = state.cluster if options.is_chosen is None else narrow(state.cluster, options.is_chosen)
    voters = () if state.replica is None else state.replica.voters
    missing = [text for each in disks for text in missing_offsets(each)]
    disks = spread(disks[0], cluster) if options.spread else disks
    nodes = _nodes(options, disks, cluster, voters)
    lost = [*missing, *_adopt(options, disks, cluster, nodes=nodes, findings=findings)]
    paused = pause_retention(cluster) if options.pause_retention else ()
    chosen, in_bucket = _in_bucket(options, disks, cluster, findings.append)
    bucket, disks = take_out(in_bucket, chosen, cluster, disks=disks, lost=lost)
    held = held_replicas(disks, nodes, cluster, findings.append)
    twice = next((each for each in findings if each.kind == Kind.PARTITION_REPEATED), None)
    if twice is not None and options.data == "in-place":
        text = "another disk of this node has this partition as well, and no broker starts on both"
        raise UsageError(f"{twice.file}: {text}; move it away, or give --data copy")
    directories = _directories(disks, nodes, to, options.data)
    _take_over_nodes(cluster, nodes, directories, disks=disks, data=options.data, lost=lost)
    ids: dict[int, list[str]] = defaultdict(list)
    for each in directories:
        ids[each.node_id].append(each.directory_id)
    of_disks = {each.disk.path: each.directory_id for each in directories if each.disk is not None}
    place = disks[0].path if disks else to
    rebuild_partitions(
        cluster, nodes, held, directory_ids=ids, directory_of=of_disks, place=place, report=findings.append
    )
    held = assigned(held, cluster, findings.append)
    lost += report_cuts(held, findings.append)
    findings += left_out(disks, cluster, held)
    remote = load_remote_segments(held, options.max_batch_bytes)
    epochs = {} if options.data == "in-place" else remote_epochs(remote)
    findings += broken_epochs(held, cluster, epochs, in_place=options.data == "in-place")
    from_bucket = _put_in(bucket, cluster, nodes, directories=directories, findings=findings, lost=lost)
    findings[:0] = remote_findings(
        cluster, nodes, held, place=to, metadata=remote, remote=epochs, from_bucket=from_bucket
    )
    limits = {} if from_bucket is None else from_bucket.limits
    positions = tuple(
        positions_past_end(cluster, held, limits, report=findings.append, max_batch_bytes=options.max_batch_bytes)
    )
    findings += (_position_finding(*each, options.reset_to) for each in positions)
    lost += [str(each) for each, _ in positions[:_MOST_POSITIONS] if options.reset_to is None]
    stored = next((each.snapshot for each in disks if each.snapshot is not None), None)
    findings += () if stored is None else retention_findings(stored, cluster, clock.now(), place)
    level = choose_level(cluster, options.level, disks, options.max_batch_bytes)
    is_dynamic = options.quorum == "dynamic" if options.quorum else state.is_dynamic
    if is_dynamic and level < DYNAMIC_QUORUM:
        raise UsageError(f"a dynamic quorum needs metadata version 3.9 or newer, and this is {level_name(level)}")
    cluster.features[METADATA_VERSION] = level
    cluster.features.pop(KRAFT_VERSION, None)
    findings += settings_refused_at(cluster, level, state.origin.partition(",")[0])
    _raise_producer_id(cluster, held, from_bucket)
    marks = [row["brokerEpoch"] for row in cluster.brokers.values()]
    rebuild = Rebuild(
        options.cluster_id or own_id or random_id(), level, nodes, directories=directories, cluster=cluster,
        offset=max(state.offset, *marks, 0) + 1, epoch=state.epoch + 1, timestamp_ms=state.timestamp_ms,
        voters=tuple(_voters(nodes, directories)) if is_dynamic else None,
        held=held, lost=tuple(lost), findings=tuple(findings), origin=state.origin, data=options.data,
        positions=tuple(each for each, _ in positions), reset_to=options.reset_to, now_ms=clock.now(),
        from_bucket=from_bucket, remote_epochs=epochs, paused=paused,
    )  # fmt: skip
    rebuild.records()  # refused here, before anything is written
    return rebuild


def _raise_producer_id(
    cluster: Cluster, held: Mapping[TopicPartition, Sequence[HeldReplica]], from_bucket: FromBucket | None
) -> None:
    """Let the next producer ID be above all that the logs have."""
    used = largest_producer_id(held, thorough=cluster.next_producer_id is None)
    used = max(used, -1 if from_bucket is None else from_bucket.largest_producer_id)
    if used >= (cluster.next_producer_id or 0):
        cluster.next_producer_id = (used // _PRODUCER_ID_BLOCK + 1) * _PRODUCER_ID_BLOCK


def _in_bucket(
    options: RebuildOptions, disks: Sequence[Disk], cluster: Cluster, report: Report
) -> tuple[BucketOptions | None, tuple[list[BucketPartition], list[ReplacedTopic]]]:
    if options.bucket is None:
        return None, ([], [])
    if options.data == "in-place":
        raise UsageError("from a bucket, directories are new; give --data copy or link")
    if options.bucket.is_snapshot:
        return remaining_in_bucket(options.bucket, disks, cluster, report)
    return options.bucket, read_bucket(options.bucket)


def _nodes(
    options: RebuildOptions, disks: Sequence[Disk], cluster: Cluster, voters: Sequence[Voter]
) -> tuple[Node, ...]:
    if options.mapping:
        nodes = load_nodes(options.mapping, disks)
        nodes = with_only_broker(nodes, disks) if any(each.is_snapshot for each in disks) else nodes
    else:
        nodes = known_nodes(disks, cluster, voters) if disks else (ALONE,)
    if not any(each.is_broker for each in nodes):
        raise UsageError("no node of the rebuilt cluster is a broker; give one in the mapping file")
    refuse_uncovered(nodes, [each for each in disks if each.is_snapshot])
    return nodes


def _adopt(
    options: RebuildOptions, disks: Sequence[Disk], cluster: Cluster, nodes: Sequence[Node], findings: list[Finding]
) -> Iterator[str]:
    """Takes in topics that only the disks have; yields what of the old state is lost."""
    nothing = not cluster.topics
    if nothing or options.adopt:
        adopted = adopt_topics(cluster, disks, nodes, findings.append)
        if nothing and not options.source:
            yield from _LOST
            yield from () if disks else ("positions of groups",)
        yield from (f"settings of topic {each}" for each in adopted)


def _put_in(
    bucket: Bucketed | None,
    cluster: Cluster,
    nodes: Sequence[Node],
    directories: Sequence[TargetDirectory],
    findings: list[Finding],
    lost: list[str],
) -> FromBucket | None:
    """Return what the rebuilt cluster has of a bucket; findings about that come first."""
    if bucket is None:
        return None
    brokers = {each.node_id for each in nodes if each.is_broker}
    first = {each.node_id: each.directory_id for each in directories if each.is_first and each.node_id in brokers}
    found: list[Finding] = []
    new_ids = {each.was: each.node_id for each in nodes if each.is_broker and each.was is not None}
    from_bucket = put_in(bucket, cluster, first, new_ids=new_ids, report=found.append, lost=lost)
    findings[:0] = found
    return from_bucket


def _position_finding(position: LostPosition, path: str, reset_to: ResetTo | None) -> Finding:
    found = position.finding(path)
    if reset_to is None:
        return replace(found, message=f"{found.message}; --reset-positions sets it to the end or the start of this")
    return replace(found, severity="info", message=f"{position}; it is set to the {reset_to} of what is left")


def _state(disks: Sequence[Disk], options: RebuildOptions, findings: list[Finding]) -> _RebuildState:
    """The state to rebuild: of a file that was given, of the best replica on the disks, or nothing."""
    replicas = [each.metadata for each in disks if each.metadata is not None]
    best = best_of(replicas)
    state = partial(_RebuildState, replica=best, is_dynamic=_is_dynamic(best))
    now = clock.now()
    if options.source is not None and is_tables(options.source):
        offset, epoch = (0, 0) if best is None else (best.end_offset, best.epoch)
        return state(load_tables(options.source), options.source, offset, epoch=max(epoch, 0), timestamp_ms=now)
    if options.source is not None:
        logs = resolve(Location(options.source)).partitions
        if len(logs) != 1:
            raise UsageError(f"--state: {options.source} has {len(logs):,} partitions; give that of the metadata")
        (log,) = logs
        cluster = read_cluster(log, findings.append, None, options.max_batch_bytes)
        end = end_offset(log) or 0
        name = names.parse_segment_file(options.source.rsplit("/", 1)[-1])
        if name is not None and name.kind == "kraft-snapshot":
            end = max(end, name.offset)
        epoch = 0 if best is None else max(best.epoch, 0)
        epoch = max(epoch, (name.epoch or 0) if name else 0)
        return state(cluster, options.source, end, epoch=epoch, timestamp_ms=now, is_dynamic=False)
    if best is None or options.without_metadata:
        origin = "directories of partitions alone" if disks else "the bucket alone"
        offset, epoch = (0, 0) if best is None else (best.end_offset, max(best.epoch, 0))
        return state(Cluster(), origin, offset, epoch=epoch, timestamp_ms=now)
    cluster = read_cluster(best.paths, findings.append, best.end_offset, options.max_batch_bytes)
    findings += compare_replicas(best, [each for each in replicas if each is not best])
    findings += best.damage
    place = disks[0].path if disks[0].is_snapshot else best.paths.path
    origin = f"{place}, {describe_end(best.end_offset, best.epoch)}"
    timestamp = now if best.timestamp is None else best.timestamp
    return state(cluster, origin, best.end_offset, epoch=max(best.epoch, 0), timestamp_ms=timestamp)


def _is_dynamic(replica: MetadataReplica | None) -> bool:
    """Return whether voters are in the log."""
    return replica is not None and replica.kraft_version > 0


def _directories(disks: Sequence[Disk], nodes: Sequence[Node], to: str, data: Data) -> tuple[TargetDirectory, ...]:
    by_path = {each.path: each for each in disks}
    found: list[TargetDirectory] = []
    for node in nodes:
        own = [by_path[path] for path in node.disks]
        if data == "in-place":  # the disk that has the metadata stays the one that has it
            own.sort(key=lambda each: each.metadata is None)
        for number, disk in enumerate(own or [None]):
            name = f"node-{node.node_id}" + (f"-{number + 1}" if number else "")
            is_new = disk is None or data != "in-place"
            directory_id = None if disk is None or is_reserved(disk.directory_id or "") else disk.directory_id
            path = join(to, name) if disk is None or is_new else disk.path
            found.append(
                TargetDirectory(
                    path, node.node_id, directory_id or random_id(), disk=disk, is_first=not number, is_new=is_new
                )
            )
    return tuple(found)


def _take_over_nodes(
    cluster: Cluster,
    nodes: Sequence[Node],
    directories: Sequence[TargetDirectory],
    disks: Sequence[Disk],
    data: Data,
    lost: list[str],
) -> None:
    """Registrations and settings of brokers get the new ids. All are fenced until their brokers come; their epoch is
    that of the mark of a clean stop, by which the controller knows that nothing of a log is missing (KIP-966)."""
    old = dict(cluster.brokers)
    new_ids = {str(each.was): str(each.node_id) for each in nodes if each.was is not None}
    gone = sorted(set(old) - {each.was for each in nodes if each.is_broker})
    gone = [] if any(each.is_snapshot for each in disks) else gone  # all that they had is in a snapshot
    lost += [f"broker {each}, of which no disk was given" for each in gone]
    cluster.brokers = {}
    cluster.controllers = {}  # each registers when it starts
    for node in (each for each in nodes if each.is_broker):
        row = old.get(-1 if node.was is None else node.was, {})
        own = [each for each in directories if each.node_id == node.node_id]
        epoch = -1
        if data == "in-place":
            epoch = max((_mark_epoch(each.disk) for each in own if each.disk is not None), default=-1)
        listeners = [
            {"name": each.name, "host": each.host, "port": each.port, "securityProtocol": _protocol_id(each.protocol)}
            for each in node.listeners
            if each.name != node.controller_listener
        ]
        cluster.brokers[node.node_id] = {
            "features": [], "incarnationId": "A" * 22, **row, "brokerId": node.node_id, "brokerEpoch": epoch,
            "endPoints": listeners or row.get("endPoints", []), "rack": node.rack or row.get("rack"), "fenced": True,
            "inControlledShutdown": False, "logDirs": [each.directory_id for each in own], "cordonedLogDirs": None,
        }  # fmt: skip
    for type_, name in list(cluster.configs):
        if type_ in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and name:
            own_configs = cluster.configs[type_, name]
            if name not in new_ids:
                lost.append(f"settings of broker {name}, which is not of the rebuilt cluster")
            del cluster.configs[type_, name]
            if name in new_ids:
                cluster.configs[type_, new_ids[name]] = own_configs


def _protocol_id(protocol: str | None) -> int:
    return PROTOCOLS.index(protocol) if protocol in PROTOCOLS else 0


def _mark_epoch(disk: Disk) -> int:
    """The broker epoch in ``.kafka_cleanshutdown`` (``CleanShutdownFileHandler``, 4.4.0); -1 without one."""
    path = join(disk.path, names.CLEAN_SHUTDOWN)
    with suppress(UnreadableError, ValueError, TypeError, KeyError):
        if Location(path).exists():
            return int(json.loads(Location(path).read(4096))["brokerEpoch"])
    return -1


def _voters(nodes: Sequence[Node], directories: Sequence[TargetDirectory]) -> list[Row]:
    found: list[Row] = []
    for node in (each for each in nodes if each.is_controller):
        listener = node.controller_address
        if listener is None:
            text = f"the address of controller {node.node_id} is not known, and a dynamic quorum has it in its metadata"
            raise UsageError(f"{text}; give a mapping file with its listener CONTROLLER")
        first = next(each for each in directories if each.node_id == node.node_id and each.is_first)
        endpoint = {"name": listener.name, "host": listener.host, "port": listener.port}
        supported = {"minSupportedVersion": 0, "maxSupportedVersion": 1}
        found.append(
            {
                "voterId": node.node_id,
                "voterDirectoryId": first.directory_id,
                "endpoints": [endpoint],
                "kRaftVersionFeature": supported,
            }
        )
    return found
