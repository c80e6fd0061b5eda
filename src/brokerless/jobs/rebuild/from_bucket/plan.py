"""Plans what a rebuilt cluster has of a bucket: topics with their IDs, stand-ins for partitions, and what is lost."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from brokerless.clusters.disk import Disk
from brokerless.clusters.missing_partitions import partition_missing
from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind, Severity
from brokerless.internals.metadata.cluster import Cluster, ResourceType
from brokerless.internals.remote.storage import remote_offsets_missing
from brokerless.jobs.rebuild.adopted_topics import settings_lost
from brokerless.jobs.rebuild.from_bucket.partitions import BucketPartition, describe_replaced, read_partitions
from brokerless.jobs.rebuild.from_bucket.stand_ins import BucketTransaction, FromBucket, StandIn
from brokerless.jobs.rebuild.nodes import Node, TargetDirectory, brokers_of, new_ids
from brokerless.jobs.rebuild.partition_states import partition_row
from brokerless.kafka_names import TopicIdPartition, TopicPartition
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import recorded_offset
from brokerless.log.checkpoint.topic_ids import random_id
from brokerless.log.directory import resolve
from brokerless.log.names import REMOTE_LOG_METADATA
from brokerless.log.settings.topic import REMOTE_STORAGE
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import without_credentials
from brokerless.log.tiered.bucket import of_another_topic
from brokerless.log.tiered.detection import is_tiered, snapshot_path
from brokerless.log.tiered.listing.folder import Folder
from brokerless.log.tiered.options import with_tiered_options
from brokerless.progress import Report
from brokerless.requests.recovery import RebuildRequest
from brokerless.values import Row

_METADATA_PARTITIONS = 50
"""``TopicBasedRemoteLogMetadataManagerConfig``: the default."""
_METADATA_REPLICAS = 3
"""Kafka's default (``remote.log.metadata.topic.replication.factor``)."""
_METADATA_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "-1", "remote.storage.enable": "false"}
"""``TopicBasedRemoteLogMetadataManager.newRemoteLogMetadataTopic`` (4.4.0)."""
_KEPT = {"remote.storage.enable": "true", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings with which nothing of a topic is deleted."""


@dataclass(frozen=True, slots=True)
class BucketOptions:
    """The options of a rebuild of a bucket's topics."""

    location: Location
    """The bucket, with its options."""
    log_starts: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    """First offsets that consumers get, by topic and partition."""
    abort_open: bool = False
    """Whether transactions that are open at the bucket's end are ended."""
    topics: tuple[str, ...] = ()
    """Names or patterns of the topics that are rebuilt, where all else of the cluster stays; without any, all of the
    bucket. After a name, ``:ID`` says which of several topics of this name."""
    is_snapshot: bool = False
    """Whether the bucket is that of a backup, of which the rest of the cluster is as well."""
    copy_to: Location | None = None
    """Where brokers get the bucket's objects; None where they read the bucket itself."""
    can_delete: bool = True
    """Whether brokers that read the backup itself may delete there."""


def bucket_options(request: RebuildRequest) -> BucketOptions | None:
    """Return what was requested of a bucket; None without one. Raises :class:`UsageError` for options that are of a
    bucket, where there is none, or of another one."""
    aborts = request.abort_open_transactions
    if request.from_bucket is None and (request.log_starts or request.topics):
        raise UsageError("--topic and --log-start are for --from-bucket")
    if request.from_bucket is None and aborts and request.until is None and request.offsets is None:
        raise UsageError("--abort-open-transactions is for --from-bucket, --until and --offsets")
    if not request.in_bucket and (request.copy_to is not None or request.read_only_credentials):
        raise UsageError("--copy-to and --read-only-credentials are for --in-bucket")
    if request.in_bucket:
        return _options_in_bucket(request)
    if request.from_bucket is None:
        return None
    location = Location(os.fspath(request.from_bucket), request.storage_options)
    location = with_tiered_options(location, request.key_pairs, None, None)
    topics = (request.topics,) if isinstance(request.topics, str) else tuple(request.topics)
    return BucketOptions(location, dict(request.log_starts or {}), aborts, topics)


def _options_in_bucket(request: RebuildRequest) -> BucketOptions:
    if request.from_bucket is not None:
        raise UsageError("--in-bucket has the topics of a snapshot; --from-bucket is for the bucket of brokers")
    if request.copy_to is not None and request.read_only_credentials:
        text = "of a copy, brokers delete what retention ends; of the backup itself, they must not be able to"
        raise UsageError(f"give one of --copy-to and --read-only-credentials: {text}")
    copy_to = None if request.copy_to is None else Location.of(request.copy_to, request.storage_options)
    return BucketOptions(Location(""), is_snapshot=True, copy_to=copy_to, can_delete=not request.read_only_credentials)


@dataclass(frozen=True, slots=True)
class BucketTopics:
    """The topics of a bucket that a rebuilt cluster gets, and what of them was in an old cluster's metadata."""

    options: BucketOptions
    partitions: tuple[BucketPartition, ...]
    replaced: tuple[Folder, ...] = ()
    """The partitions of topics that are not taken, as others of the same names are."""
    rows: Mapping[TopicIdPartition, Row] = field(default_factory=dict[TopicIdPartition, Row])
    """The rows of partitions in the old cluster's metadata."""
    starts: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    """The log starts that the old cluster's disks have."""
    has_metadata: bool = False
    """Whether the cluster goes on with its own metadata of remote segments."""

    @property
    def names(self) -> dict[str, str]:
        """The names of the topics, by their IDs."""
        return {each.topic_id: each.topic for each in self.partitions}


def read_bucket(options: BucketOptions) -> BucketTopics:
    """Return the topics of a bucket. Raises :class:`UnreadableError`, and :class:`UsageError` for another layout, and
    for two topics of one name of which none is chosen."""
    location = resolve(options.location).location
    if not is_tiered(location):
        raise UsageError(f"{options.location}: these are no remote segments; give the bucket of tiered topics")
    file_system, _ = location.file_system()
    found, others = read_partitions(file_system.bucket, lambda topic, ids: _id_of(topic, ids, options.topics))
    if not found and options.topics:
        there = ", ".join(sorted({each.name.topic for each in file_system.bucket.folders().values()})[:8])
        raise UsageError(f"{options.location}: there is no topic {', '.join(options.topics)} (there are {there})")
    unnamed = next((each for each in found if not each.topic_id), None)
    if unnamed is not None:
        raise UsageError(f"{unnamed.name}: these are copies of segments, which no broker reads; use convert")
    there = {(each.topic, each.partition): each for each in found}
    for topic, partition in options.log_starts:
        each = there.get((topic, partition))
        if each is None:
            raise UsageError(f"log start: the bucket has no partition {topic}-{partition}")
        if options.log_starts[topic, partition] > each.end_offset:
            raise UsageError(f"log start: {each.name} ends at offset {each.end_offset}")
    return BucketTopics(options, tuple(found), tuple(others))


def _id_of(topic: str, ids: Collection[str], patterns: Sequence[str]) -> str | None:
    """Return which topic of a name is taken, None for no one. Raises :class:`UsageError` where that is not clear."""
    chosen = [each.partition(":")[::2] for each in patterns]
    own = [topic_id for pattern, topic_id in chosen if fnmatchcase(topic, pattern)]
    if patterns and not own:
        return None
    known, there = {each for each in own if each}, " and ".join(sorted(ids))
    if not known <= set(ids):
        raise UsageError(f"{topic}: the bucket has no topic of this name with ID {min(known - set(ids))}, but {there}")
    if len(known) > 1 or (not known and len(ids) > 1):
        text = (
            f"{topic}: of this name, the bucket has topics with IDs {there}, and one cluster has one of them; choose "
        )
        rest = "" if patterns else ", and --topic '*' for all others"
        raise UsageError(f"{text}with --topic {topic}:ID{rest}")
    return min(known or ids)


def take_out(
    bucket: BucketTopics, cluster: Cluster, disks: Sequence[Disk], lost: list[str]
) -> tuple[BucketTopics, Sequence[Disk]]:
    """Takes the topics of a bucket, and the metadata of remote segments, out of an old cluster's state and disks, for
    stand-ins take their place; the state is changed. Raises :class:`UsageError` where that has another ID for one, or
    the disks have one that was to be attached."""
    options, topics = bucket.options, bucket.names
    for topic_id, topic in topics.items():
        known_id = cluster.id_of(topic)
        if known_id not in (None, topic_id) and not options.topics:
            text = f"the bucket has it with ID {topic_id}, and the metadata with {known_id}"
            raise UsageError(
                f"{topic}: {text}; with --topic, that of the bucket takes its place; else give another directory, or "
                "--without-metadata"
            )
    if options.topics and topics.keys() & cluster.topics.keys() and not options.is_snapshot:
        _refuse_present(topics, disks)
    has_metadata = bool(options.topics) and not options.is_snapshot and cluster.id_of(REMOTE_LOG_METADATA) is not None
    taken = {*topics.values(), *(() if has_metadata else (REMOTE_LOG_METADATA,))}
    rows: dict[TopicIdPartition, Row] = {}
    for topic_id in [each for each, name in cluster.topics.items() if name in taken]:
        rows |= {(topic_id, number): row for number, row in cluster.partitions.pop(topic_id, {}).items()}
        if topic_id not in topics and cluster.topics[topic_id] != REMOTE_LOG_METADATA:
            name = cluster.remove_topic(topic_id)
            lost.append(f"topic {name} with ID {topic_id}: the one in the bucket takes its place")
    ends = {(each.topic, each.partition): each for each in bucket.partitions}
    starts: dict[TopicPartition, int] = {}
    kept: list[Disk] = []
    for disk in disks:
        own = [each for each in disk.replicas if each.topic in taken]
        kept.append(replace(disk, replicas=tuple(each for each in disk.replicas if each.topic not in taken)))
        for each in own:
            place = each.topic, each.partition
            if each.topic_id is not None and each.topic in topics.values() and each.topic_id not in topics:
                lost.append(f"records in {each.paths.path}, which are of that topic")
                continue
            start = recorded_offset(each.paths.location, *place, names.LOG_START_OFFSET_CHECKPOINT)
            if start is not None:
                starts[place] = max(start, starts.get(place, 0))
            there = ends.get(place)
            if there is not None and (each.end_offset or 0) > there.end_offset:
                span = f"{there.end_offset}..{(each.end_offset or 0) - 1}"
                lost.append(f"offsets {span} of {there.name}, which {each.paths.path} has and the bucket has not")
    return replace(bucket, rows=rows, starts=starts, has_metadata=has_metadata), kept


def _refuse_present(topics: Mapping[str, str], disks: Sequence[Disk]) -> None:
    """Refuses a topic that is on the disks: stand-ins in its place have nothing that was not uploaded."""
    for each in (replica for disk in disks for replica in disk.replicas):
        if each.state == "live" and each.topic_id is not None and topics.get(each.topic_id) == each.topic:
            text = f"{each.topic}: {each.paths.path} has the topic with this ID ({each.topic_id}), and what was not "
            text += (
                "uploaded; there is nothing to attach: read both with --remote, and compare them with audit --remote"
            )
            raise UsageError(f"{text}; only where the directory is worthless, move it away and try again")


def put_in(
    bucket: BucketTopics,
    cluster: Cluster,
    nodes: Sequence[Node],
    directories: Sequence[TargetDirectory],
    report: Report,
    lost: list[str],
) -> FromBucket:
    """Puts the topics of a bucket into a cluster's state; each partition gets one replica, or, of a snapshot, those
    that it had. Stand-ins are in the first log directory of a broker."""
    options = bucket.options
    brokers = sorted(each.node_id for each in brokers_of(nodes))
    of_old_ids = new_ids(brokers_of(nodes))
    directory_ids = {each.node_id: each.directory_id for each in directories if each.is_first}
    directory_ids = {node: directory_ids[node] for node in brokers}
    place = options.location if options.copy_to is None else options.copy_to
    url = snapshot_path(place) or without_credentials(place.path)[0]
    if options.copy_to is None:
        text = "copy the bucket, or switch on versions of its objects, before a first start on what is rebuilt of it; "
        text += f"the records in it are not read here: brokerless verify {url} says first whether they are intact"
        report(Kind.REMOTE_FIRST_START.at(url, text))
    for each in bucket.replaced:
        text = describe_replaced(each)
        report(replace(of_another_topic(each), message=f"not taken: {text}"))
        lost.append(text)
    stand_ins: list[StandIn] = []
    there = {(each.topic_id, each.partition): each for each in bucket.partitions}
    for topic_id, topic in sorted(bucket.names.items(), key=lambda each: each[1]):
        numbers = [number for of_topic, number in (*there, *bucket.rows) if of_topic == topic_id]
        cluster.add_topic(topic_id, topic)
        own = cluster.partitions.setdefault(topic_id, {})
        for number in range(max(numbers) + 1):
            each, row = there.get((topic_id, number)), bucket.rows.get((topic_id, number), {})
            old = row.get("replicas", ()) if options.is_snapshot else ()
            replicas = [of_old_ids[one] for one in old if one in of_old_ids] or [brokers[number % len(brokers)]]
            epoch = max(-1 if each is None else each.newest_epoch, row.get("leaderEpoch", -1)) + 1
            ids = [directory_ids[node] for node in replicas]
            own[number] = partition_row(topic_id, number, replicas, replicas, directory_ids=ids, leader_epoch=epoch)
            if each is None:
                report(partition_missing(url, f"{topic}-{number}", "bucket"))
                continue
            stand_in = _stand_in(bucket, each, replicas[0], url=url, report=report)
            stand_ins += (replace(stand_in, node_id=node) for node in replicas)
            if not options.is_snapshot:  # which is compared with its list of segments
                lost += _report_missing(each, stand_in, report)
                lost.append(f"records of {each.name} from offset {each.end_offset} on, as far as there were any")
        if options.is_snapshot:
            cluster.configs.setdefault((ResourceType.TOPIC, topic), {})[REMOTE_STORAGE] = "true"
        else:
            _set_settings(cluster, topic, url, report)
    metadata_id, metadata_nodes = _put_metadata(bucket, cluster, directory_ids)
    return FromBucket(
        url,
        tuple(stand_ins),
        metadata_id,
        metadata_nodes,
        has_metadata=bucket.has_metadata,
        is_snapshot=options.is_snapshot,
    )


def _report_missing(each: BucketPartition, stand_in: StandIn, report: Report) -> Iterator[str]:
    """Reports what of a partition is in no segment, and yields it for people; not what is before a known log start."""
    for missing in each.missing:
        if stand_in.is_log_start_known and missing.end is not None and missing.end <= stand_in.log_start:
            continue
        text = missing.text(each.name)
        report(remote_offsets_missing(missing.file, missing.first, text))
        yield text


def _set_settings(cluster: Cluster, topic: str, url: str, report: Report) -> None:
    settings = cluster.configs.setdefault((ResourceType.TOPIC, topic), {})
    before = {name: settings[name] for name in _KEPT if name in settings}
    settings.update(_KEPT)
    settings.pop("cleanup.policy", None)
    report(settings_lost(url, topic, _KEPT, before))


def _stand_in(bucket: BucketTopics, each: BucketPartition, node: int, url: str, report: Report) -> StandIn:
    for finding in each.findings:
        report(finding)
    place = each.topic, each.partition
    known = bucket.options.log_starts.get(place, bucket.starts.get(place))
    start = each.start_offset if known is None else min(known, each.end_offset)
    if known is None:
        text = f"the log start of {each.name} is in no bucket: it is the first offset there, {start}; records that "
        text += "were deleted up to a later one come back, unless --log-start says where it was"
        report(Kind.REMOTE_LOG_START_UNKNOWN.at(url, text, offset=start))
    else:
        _report_expired(each, start, url, report)
    transactions = tuple(_open_transactions(each))
    is_ended = bucket.options.abort_open
    for one in transactions:
        text = f"the transaction of producer {one.producer_id} in {each.name} is open where the bucket ends"
        if is_ended:
            report(transaction_open(url, f"{text}; it is aborted", one.first_offset, "info"))
        else:
            text += ": consumers with read_committed stop at it, unless --abort-open-transactions ends it"
            report(transaction_open(url, text, one.first_offset, "warning"))
    return StandIn(
        each, node, start, is_log_start_known=known is not None, transactions=transactions, is_ended=is_ended
    )


def transaction_open(place: str, text: str, first_offset: int, severity: Severity) -> Finding:
    """Return the finding about a transaction that is open where a bucket ends. ``text`` says what becomes of it."""
    return Kind.REMOTE_TRANSACTION_OPEN.at(place, text, severity=severity, offset=first_offset)


def _report_expired(each: BucketPartition, start: int, url: str, report: Report) -> None:
    """Reports the segments before a log start, which a broker deletes (``RemoteLogManager``, 4.4.0)."""
    counts = [count for segment, count in zip(each.segments, each.objects, strict=True) if segment.end_offset < start]
    if counts:
        segments = "1 remote segment" if len(counts) == 1 else f"{len(counts)} remote segments"
        text = f"the first start deletes {segments} ({sum(counts)} objects) of {each.name}, which end before its log "
        text += f"start, {start}"
        report(Kind.REMOTE_SEGMENT_EXPIRED.at(url, text, severity="warning", offset=each.start_offset))


def _open_transactions(each: BucketPartition) -> list[BucketTransaction]:
    entries = each.producers
    if entries is None:
        return []
    columns = (
        entries.producer_ids, entries.producer_epochs, entries.coordinator_epochs, entries.current_txn_first_offsets,
    )  # fmt: skip
    found = (BucketTransaction(*map(int, row)) for row in zip(*columns, strict=True))
    return [one for one in found if one.first_offset >= 0]


def _put_metadata(
    bucket: BucketTopics, cluster: Cluster, directory_ids: Mapping[int, str]
) -> tuple[str, tuple[tuple[int, ...], ...]]:
    """Puts the topic of remote segments' metadata into a state; returns its ID, and each partition's nodes: as many as
    :data:`_METADATA_REPLICAS`, if there are."""
    metadata_id = cluster.id_of(REMOTE_LOG_METADATA) or random_id()
    if bucket.has_metadata:
        own = sorted(cluster.partitions[metadata_id].items())
        return metadata_id, tuple((row["isr"][0],) for _, row in own)
    rows = {number: row for (topic_id, number), row in bucket.rows.items() if topic_id == metadata_id}
    count, brokers = len(rows) or _METADATA_PARTITIONS, sorted(directory_ids)
    replicas = range(min(_METADATA_REPLICAS, len(brokers)))
    nodes = tuple(tuple(brokers[(number + each) % len(brokers)] for each in replicas) for number in range(count))
    cluster.add_topic(metadata_id, REMOTE_LOG_METADATA)
    cluster.partitions[metadata_id] = {}
    for number, own in enumerate(nodes):
        ids, epoch = [directory_ids[node] for node in own], rows.get(number, {}).get("leaderEpoch", 0) + 1
        cluster.partitions[metadata_id][number] = partition_row(
            metadata_id, number, own, isr=own, directory_ids=ids, leader_epoch=epoch
        )
    cluster.configs.setdefault((ResourceType.TOPIC, REMOTE_LOG_METADATA), {}).update(_METADATA_SETTINGS)
    return metadata_id, nodes
