"""The dry run of a start for the log directories of one broker: does it start, and which replicas does it serve.

Which replica is where is the judgement of :mod:`brokerless.clusters.placement`; what becomes of a partition's files is
in :mod:`brokerless.clusters.start.job`. Sources: ``LogManager.loadLogs``, ``ReplicaManager``, ``KafkaMetadataLog``
(4.1.1, 4.4.0), KIP-858, and those in this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from brokerless import clock
from brokerless.clusters.directory_state import load_directory_state, no_metadata
from brokerless.clusters.placement import (
    MADE_STRAY,
    UNSERVED,
    Absent,
    BrokerNode,
    Placement,
    Verdict,
    absent,
    place,
)
from brokerless.clusters.positions import positions_past_end
from brokerless.clusters.start import directory_files
from brokerless.clusters.start.job import RecoveredLogs, StartAt, parent_of, plan_restart
from brokerless.clusters.start.metadata_log import KnownState, read_known_state
from brokerless.clusters.start.refused_settings import refused_settings
from brokerless.clusters.start.remote_effects import remote_effects, stored_objects
from brokerless.clusters.start.results import DirectoryRestart
from brokerless.clusters.start.transactions import completions
from brokerless.findings import Finding, Kind
from brokerless.internals.groups.positions import LostPosition
from brokerless.internals.metadata.cluster import Cluster
from brokerless.kafka_names import TopicPartition
from brokerless.log.checkpoint.meta_properties import MetaProperties
from brokerless.log.directory import LogDirectory, PartitionPath, metadata_of
from brokerless.log.settings.definitions import find_version, versions
from brokerless.log.storage.paths import refuse_repeated
from brokerless.log.tiered.options import Remote


def plan_directories(
    directories: Sequence[LogDirectory],
    now_ms: int | None = None,
    max_batch_bytes: int | None = None,
    version: str | None = None,
    bucket: Remote | None = None,
) -> list[DirectoryRestart]:
    """Return the dry run for all log directories of one broker, as in its ``log.dirs``; partitions' directories and
    files among them, and what is not local, are passed over. ``now_ms`` (since the epoch) decides which transactions'
    time is over. ``max_batch_bytes``: what one batch of Kafka's own topics may inflate to (128 MiB). ``version``: of
    the Kafka that starts, the newest that is known by default; ``bucket``: of tiered topics, or several, whose objects
    are counted. Raises :class:`UsageError` for a version that is not known, and :class:`UnreadableError` for a
    bucket."""
    own = [each for each in directories if each.is_local_log_directory]
    refuse_repeated((each.path for each in own), "a broker ends at a log directory that it has twice")
    now_ms = clock.now() if now_ms is None else now_ms
    kafka = versions()[-1] if version is None else find_version(version)
    node = _load_node(own, now_ms, kafka, max_batch_bytes)
    placed = _place(node)
    findings, warnings = _check(node, placed, kafka)
    served = _by_place(each for each in node.partitions if each.path not in {**placed.stray, **placed.unserved})
    recovered = RecoveredLogs({each.path: load_directory_state(each) for each in own}, StartAt(kafka, now_ms))
    of_nobody = _by_place(each for each in node.partitions if each.path in placed.unserved)
    objects = stored_objects(own, bucket)
    cluster, broker = node.known.state, node.broker
    remote = remote_effects(
        cluster, broker.node_id, served, of_nobody, restart_of=recovered.of, objects=objects, now_ms=now_ms
    )
    completed = tuple(completions(served.values(), set(served), now_ms, max_batch_bytes))
    emptied = {(each.topic, each.partition) for each in node.loaded if each.path in placed.stray}
    positions: tuple[LostPosition, ...] = ()
    if cluster is not None:
        emptied |= {each.place for each in placed.absent}
        lost = positions_past_end(
            cluster,
            broker,
            served,
            emptied,
            limits=recovered.limits,
            end_of=recovered.end_of,
            max_batch_bytes=max_batch_bytes,
        )
        positions = tuple(lost)
    return [
        DirectoryRestart(
            each.path,
            tuple(finding for finding in findings if _is_in(finding.file, path)),
            {at: finding for at, finding in placed.stray.items() if _is_in(at, path)},
            unserved={at: finding for at, finding in placed.unserved.items() if _is_in(at, path)},
            deleted=tuple((at.path, at.size) for at in each.others if directory_files.is_deleted(at)),
            completed=tuple(at for at in completed if any(_is_in(served[place].path, path) for place in at.partitions)),
            is_state_known=cluster is not None,
            placements=tuple(at for at in placed.placements if _is_in(at.replica.path, path)),
            absent=tuple(at for at in placed.absent if at.path == path),
            settings={} if cluster is None else cluster.settings_by_topic(broker.node_id),
            warnings=tuple(each for each in warnings if _is_in(each.file, path)),
            unknown=node.known.unknown if any(_is_in(at.path, path) for at in node.loaded) else None,
            restarts_cluster=node.known.restarts_cluster,
            remote_deletions=remote.deletions if each is own[0] else (),
            remote_log_starts=remote.log_starts if each is own[0] else (),
            remote_expired=tuple(at for at in remote.expired if _is_in(at.partition.path, path)),
            version=kafka,
            offline=node.offline.get(path),
            has_others=len(own) > 1,
            lost_positions=positions if each is own[0] else (),
        )
        for each, path in zip(own, node.properties, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _NodeDisks:
    """The log directories of one broker, as they are read before anything is judged."""

    directories: tuple[LogDirectory, ...]
    properties: Mapping[str, MetaProperties | None]
    """By the directory's path, without a slash at its end."""
    broker: BrokerNode
    partitions: tuple[PartitionPath, ...]
    """The live ones."""
    metadata: PartitionPath | None
    known: KnownState
    loaded: tuple[directory_files.LoadedDirectory, ...]
    refused: tuple[Finding, ...]
    """What keeps a broker from starting on the names and files of directories that it loads."""
    offline: Mapping[str, Finding]
    """Directories, by path, without which it starts."""
    holder: str
    """The directory whose loss ends the broker: that with the cluster's metadata."""

    @property
    def readable(self) -> list[MetaProperties]:
        return [each for each in self.properties.values() if each is not None and not each.findings]

    def is_loaded(self, path: str) -> bool:
        """Return whether a broker loads the partitions of a directory, be it that it goes offline then."""
        properties = self.properties.get(path)
        return path not in self.offline or properties is None or not properties.findings


def _load_node(own: Sequence[LogDirectory], now_ms: int, version: str, max_batch_bytes: int | None) -> _NodeDisks:
    properties = {_path(each): directory_files.load_properties(each) for each in own}
    broker = node_of(properties)
    partitions = tuple(each for directory in own for each in directory.partitions if each.state == "live")
    metadata = metadata_of(partitions)
    known = _known_state(metadata, StartAt(version, now_ms), broker.node_id, max_batch_bytes)
    # Without metadata.log.dir, the cluster's metadata is in the first of log.dirs.
    holder = next(iter(properties), "") if metadata is None else parent_of(metadata.path)
    offline = directory_files.offline_directories(own, properties, holder, max_batch_bytes)
    loaded: list[directory_files.LoadedDirectory] = []
    refused: list[Finding] = []
    for each in own:
        found, findings = directory_files.loaded_directories(each)
        loaded += found
        path = _path(each)
        of_node = properties[path]
        is_offline = path in offline
        if not is_offline or of_node is None or not of_node.findings:
            refused += findings
            refused += directory_files.check_node_files(each, of_node, max_batch_bytes, is_offline=is_offline)
    return _NodeDisks(
        tuple(own),
        properties,
        broker,
        partitions,
        metadata=metadata,
        known=known,
        loaded=tuple(loaded),
        refused=tuple(refused),
        offline=offline,
        holder=holder,
    )


@dataclass(frozen=True, slots=True)
class _NodePlacements:
    """The places of a node's replicas by the cluster's metadata."""

    placements: tuple[Placement, ...] = ()
    absent: tuple[Absent, ...] = ()
    stray: Mapping[str, Finding] = field(default_factory=dict[str, Finding])
    """By the paths of directories."""
    unserved: Mapping[str, Finding] = field(default_factory=dict[str, Finding])
    """By the paths of directories."""
    refused: tuple[Finding, ...] = ()
    """Replicas at which a start ends, or fails to rename."""


def _place(node: _NodeDisks) -> _NodePlacements:
    cluster = node.known.state
    placements = place(node.loaded, cluster, node.broker)
    stray: dict[str, Finding] = {}
    unserved: dict[str, Finding] = {}
    refused: list[Finding] = []
    for each in placements:
        path, finding = each.replica.path, each.finding
        if each.verdict == Verdict.TWICE:
            # LogManager.loadLog throws "Duplicate log directories".
            if finding is not None and _is_twice(each, node):
                refused.append(finding.in_scope("start"))
        elif (offline := node.offline.get(parent_of(path))) is not None:
            if cluster is not None and node.readable and each.replica.state == "live":
                unserved[path] = offline
        elif finding is not None:
            finding = finding.in_scope("start")
            if each.verdict in MADE_STRAY:
                stray[path] = finding
            elif each.verdict in UNSERVED and node.readable:
                unserved[path] = finding
            elif each.verdict == Verdict.BLOCKED:
                refused.append(finding)
    # Without a meta.properties no broker starts, and of a disk that is not mounted nothing is known.
    is_unknown = any(each is None for each in node.properties.values())
    return _NodePlacements(
        tuple(placements),
        () if cluster is None or is_unknown else tuple(absent(placements, cluster, node.broker)),
        stray,
        unserved,
        refused=tuple(refused),
    )


def _is_twice(each: Placement, node: _NodeDisks) -> bool:
    """Return whether a broker loads both replicas of a partition."""
    return all(replica is None or node.is_loaded(parent_of(replica.path)) for replica in (each.replica, each.other))


def _check(node: _NodeDisks, placed: _NodePlacements, version: str) -> tuple[list[Finding], list[Finding]]:
    """Return why a broker does not start, and what it starts with and still does not work then."""
    known = [each for each in node.properties.values() if each is not None]
    findings = [*node.refused, *directory_files.check_agreement(known), *node.known.refusals, *placed.refused]
    warnings = [
        *directory_files.check_cleaner_checkpoints(node.directories, version),
        *directory_files.check_commits(node.directories),
    ]
    cluster = node.known.state
    if cluster is not None:
        findings += check_owners(node.readable, cluster)
        warnings += check_topics_applied(placed.unserved)
        if node.metadata is not None:
            for each in refused_settings(cluster, node.metadata.path.rstrip("/"), version):
                (findings if each.severity == "error" else warnings).append(each)
    elif node.metadata is None and node.loaded and node.readable and all(each.version for each in node.readable):
        warnings.append(no_metadata(_path(node.directories[0])))  # of a node of KRaft
    return findings, warnings


def _by_place(partitions: Iterable[PartitionPath]) -> dict[TopicPartition, PartitionPath]:
    return {each.place: each for each in partitions}


def _path(directory: LogDirectory) -> str:
    return directory.path.rstrip("/")


def _known_state(
    metadata: PartitionPath | None, start: StartAt, node_id: int | None, max_batch_bytes: int | None
) -> KnownState:
    """Return the state that KRaft's own log has, up to where it ends after its recovery."""
    end_offset = None
    if metadata is not None and metadata.segments:
        restart = plan_restart(metadata, {}, start, clean=False, max_batch_bytes=max_batch_bytes)
        end_offset = None if restart.refused else restart.log_end_offset
    return read_known_state(metadata, end_offset, node_id, version=start.version, max_batch_bytes=max_batch_bytes)


def _is_in(path: str, directory: str) -> bool:
    return f"{path}/".startswith(f"{directory}/")


def node_of(properties: Mapping[str, MetaProperties | None]) -> BrokerNode:
    """``properties`` by the directory's path."""
    ids = {path: None if each is None else each.directory_id for path, each in properties.items()}
    known = (each.node_id for each in properties.values() if each is not None and not each.findings)
    return BrokerNode(next(known, None), ids)


def check_owners(properties: Iterable[MetaProperties], cluster: Cluster) -> Iterator[Finding]:
    """Yield findings about directories that another broker registered as its own."""
    owners = {each: number for number, broker in cluster.brokers.items() for each in broker["logDirs"]}
    for each in properties:
        owner = None if each.directory_id is None else owners.get(each.directory_id)
        if owner is not None and each.node_id is not None and owner != each.node_id:
            text = f"the node.id is {each.node_id}, but the cluster knows this directory as broker {owner}'s"
            expected, found = f"node.id={owner}", f"node.id={each.node_id}"
            yield Kind.NODE_ID_MISMATCH.at(each.file, text, expected=expected, found=found)


def check_topics_applied(unserved: Mapping[str, Finding]) -> Iterator[Finding]:
    """Yield a topic's directory with the ID of another topic: a broker gives up to apply the topics where it comes to
    it (InconsistentTopicIdException, "metadata publishing fault"), and all that it had not applied by then is not
    served. That are others in each state; of 15 partitions, 7 to 13 were seen (3.9.1, 4.4.0)."""
    for path, finding in unserved.items():
        if finding.kind == Kind.TOPIC_ID_MISMATCH:
            text = f"a broker gives up to apply the topics at {path}, so that clients may get nothing of "
            text += "many other partitions either, Kafka's own among them"
            yield Kind.TOPICS_NOT_APPLIED.at(finding.file, text, severity="error")
