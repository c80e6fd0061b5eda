"""The current state of ``__cluster_metadata``: the newest snapshot, and the log's later records applied in order.

A record either describes all of an entity (``PARTITION_RECORD``) or what changed (``PARTITION_CHANGE_RECORD``). Records
of a metadata transaction (KIP-868) count once it ends, and never if it is aborted. A log's last records may not have
been committed by the quorum: the files do not say. Sources: ``MetadataDelta`` and the deltas of its parts,
``MetadataBatchLoader``, ``PartitionRegistration`` (4.4.0); KIP-630 for snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from brokerless import arrow
from brokerless.errors import BrokerlessError
from brokerless.findings import Finding, Kind
from brokerless.format.control import decode_control
from brokerless.internals.entries import RawRecord, decode_entry, read_entries
from brokerless.internals.metadata.applicability import inapplicable
from brokerless.internals.records import InternalRecord
from brokerless.kafka_names import ACL_NAMES
from brokerless.log import names
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.names import CLUSTER_METADATA
from brokerless.log.settings.definitions import settings_of, synonyms_of, versions
from brokerless.progress import Report, ignore
from brokerless.tables.partition_tables import read_records
from brokerless.tables.read_options import ReadOptions
from brokerless.values import Row


class ResourceType(IntEnum):
    """What has settings (``ConfigResource.Type``, 4.4.0)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


RESOURCE_TYPES = {int(each): each.name.lower().replace("_", "-") for each in ResourceType}
"""The setting of tiered topics (KIP-405)."""

SCRAM_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""``ScramMechanism`` (4.4.0)."""

_NO_LEADER_CHANGE = -2
_NO_CHANGE = -1
_CHANGED_LISTS = (
    "replicas",
    "isr",
    "removingReplicas",
    "addingReplicas",
    "directories",
    "eligibleLeaderReplicas",
    "lastKnownElr",
)
_FENCE, _UNFENCE = 1, -1


@dataclass(slots=True)
class Cluster:
    """The entities of a cluster by their keys, each as its record has it. :func:`apply` fills them."""

    topics: dict[str, str] = field(default_factory=dict[str, str])
    """Names by topic id. They are changed by :meth:`add_topic` and :meth:`remove_topic`."""
    partitions: dict[str, dict[int, Row]] = field(default_factory=dict[str, dict[int, Row]])
    """By topic id and number."""
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict[tuple[int, str], dict[str, str]])
    """By resource type and name."""
    brokers: dict[int, Row] = field(default_factory=dict[int, Row])
    controllers: dict[int, Row] = field(default_factory=dict[int, Row])
    features: dict[str, int] = field(default_factory=dict[str, int])
    quotas: dict[tuple[Any, ...], Row] = field(default_factory=dict[tuple[Any, ...], Row])
    acls: dict[str, Row] = field(default_factory=dict[str, Row])
    users: dict[tuple[str, int], Row] = field(default_factory=dict[tuple[str, int], Row])
    """SCRAM credentials, by user and mechanism."""
    tokens: dict[str, Row] = field(default_factory=dict[str, Row])
    """Delegation tokens, by their id."""
    next_producer_id: int | None = None
    _ids: dict[str, str] = field(init=False, repr=False, compare=False)
    """Topic ids by name."""

    def __post_init__(self) -> None:
        self._ids = {name: topic_id for topic_id, name in self.topics.items()}

    def add_topic(self, topic_id: str, name: str) -> None:
        """Add a topic, or give the one with this ID another name. Of two with one name, the later one has it."""
        self.remove_topic(topic_id)
        self.topics[topic_id] = name
        self._ids[name] = topic_id

    def remove_topic(self, topic_id: str) -> str | None:
        """Remove a topic's name, and return it; None where the ID has none. Its partitions and settings stay."""
        name = self.topics.pop(topic_id, None)
        if name is not None and self._ids.get(name) == topic_id:
            del self._ids[name]
        return name

    @property
    def is_empty(self) -> bool:
        """Whether the metadata names neither topics nor brokers."""
        return not (self.topics or self.brokers)

    def id_of(self, topic: str | None) -> str | None:
        """Return the ID of the topic with a name; None where there is no such topic."""
        return None if topic is None else self._ids.get(topic)

    def partitions_of(self, topic: str | None) -> Mapping[int, Row]:
        """Return the partitions of the topic with a name, by number; none where there is no such topic."""
        return self.partitions.get(self.id_of(topic) or "", {})

    def row(self, topic: str | None, number: int | None) -> Row | None:
        """Return what the metadata says of one partition; None where it does not have it."""
        return None if number is None else self.partitions_of(topic).get(number)

    def rows_by_id(self) -> dict[tuple[str, int], Row]:
        """Return what the metadata says of all partitions, by topic ID and number."""
        return {
            (topic_id, number): row
            for topic_id, partitions in self.partitions.items()
            for number, row in partitions.items()
        }

    def settings_of(self, topic: str) -> dict[str, str]:
        """Return the settings that a topic has itself."""
        return dict(self.configs.get((ResourceType.TOPIC, topic), {}))

    def settings_by_topic(self, node_id: int | None = None) -> dict[str, dict[str, str]]:
        """Return the settings that hold for each topic, as far as they were set in the running cluster: its own, or
        else those of the broker ``node_id``, or else those of all brokers. What is in a ``server.properties`` is not
        known."""
        defaults = self._topic_defaults(node_id)
        return {topic: {**defaults, **self.settings_of(topic)} for topic in self.topics.values()}

    def settings_on(self, node_id: int | None, topic: str) -> dict[str, str]:
        """Return the settings that hold for one topic; see :meth:`settings_by_topic`."""
        return {**self._topic_defaults(node_id), **self.settings_of(topic)}

    def _topic_defaults(self, node_id: int | None) -> dict[str, str]:
        of_broker = {} if node_id is None else self.configs.get((ResourceType.BROKER, str(node_id)), {})
        defaults = {**self.configs.get((ResourceType.BROKER, ""), {}), **of_broker}
        if not defaults:
            return {}
        # Of several synonyms, such as log.retention.hours, only the first can be set while a broker runs.
        called = {name: synonyms_of("topic", name)[:1] for name in settings_of("topic", versions()[-1])}
        return {name: defaults[own] for name, synonyms in called.items() for own in synonyms if own in defaults}


def read_cluster(
    partition: PartitionPath, on_damage: Report, end_offset: int | None = None, max_batch_bytes: int | None = None
) -> Cluster:
    """Return the state that a partition's snapshots and log, or a lone file, add up to. ``end_offset``: where the log
    is to end, if records after that do not count. ``max_batch_bytes``: what one batch may inflate to."""
    snapshot, start_offset = _newest_snapshot(partition, on_damage, max_batch_bytes)
    cluster = Cluster()
    if snapshot is not None:
        _replay(cluster, snapshot, None, on_damage=on_damage, end_offset=None, max_batch_bytes=max_batch_bytes)
    first = partition.start_offset
    if partition.topic is not None and first is not None and first > (start_offset or 0):
        on_damage(metadata_gap(partition.segments[0].log.path, first, start_offset or 0))
        report = on_damage
        on_damage = lambda finding: report(finding) if finding.kind != Kind.RECORD_INAPPLICABLE else None  # noqa: E731
    _replay(
        cluster, partition, start_offset, on_damage=on_damage, end_offset=end_offset, max_batch_bytes=max_batch_bytes
    )
    return cluster


def cluster_of(partitions: Iterable[PartitionPath], max_batch_bytes: int | None = None) -> Cluster | None:
    """Return what the cluster's metadata among some partitions knows; None where it is not there, or cannot be read."""
    for each in partitions:
        if each.topic == names.CLUSTER_METADATA and each.state == "live":
            with suppress(BrokerlessError):
                return read_cluster(each, ignore, None, max_batch_bytes)
    return None


def _newest_snapshot(
    partition: PartitionPath, on_damage: Report, max_batch_bytes: int | None
) -> tuple[PartitionPath | None, int | None]:
    """The newest snapshot that is whole, and the first offset that is not in it."""
    for file in reversed(partition.snapshots):
        name = names.parse_segment_file(file.name)
        assert name is not None
        (snapshot,) = resolve(file.location).partitions
        if is_complete_snapshot(snapshot, max_batch_bytes):
            return snapshot, name.offset
        on_damage(snapshot_not_whole(file.path))
    return None, None


def is_complete_snapshot(snapshot: PartitionPath, max_batch_bytes: int | None = None) -> bool:
    """Return whether a snapshot ends with its footer, and all before it can be read."""
    damage: list[Finding] = []
    last: tuple[bytes | None, bytes | None] | None = None
    columns = ["key", "value", "isControl"]
    options = ReadOptions(columns, control=True, max_batch_bytes=max_batch_bytes, on_damage=damage.append)
    for batch in read_records([snapshot], options):
        row = arrow.rows(batch.slice(batch.num_rows - 1))[0]
        last = (row["key"], row["value"]) if row["isControl"] else None
    control = None if last is None else decode_control(*last)
    return control is not None and control.type == "SNAPSHOT_FOOTER" and not damage


def metadata_gap(file: str, first: int, expected: int, position: int | None = None) -> Finding:
    """Return the finding about metadata that is missing before offset ``first``."""
    text = "records of the cluster's metadata before this offset are missing, in the log and in its snapshots"
    return Kind.METADATA_GAP.at(
        file, text, position=position, offset=first, expected=f"offset {expected}", found=f"offset {first}"
    )


def snapshot_not_whole(path: str) -> Finding:
    """Return the finding about a snapshot of the metadata that readers do not read."""
    text = "a snapshot that is damaged, or ends before its footer: an older one or the log is read in its place, and a "
    text += "broker ends at it, or begins with half of the metadata"
    return Kind.SNAPSHOT_NOT_WHOLE.at(path, text)


def _replay(
    cluster: Cluster,
    partition: PartitionPath,
    start_offset: int | None,
    on_damage: Report,
    end_offset: int | None,
    max_batch_bytes: int | None,
) -> None:
    undecided: list[tuple[RawRecord, InternalRecord]] | None = None
    for entry in read_entries(
        partition,
        CLUSTER_METADATA,
        on_damage,
        start_offset=start_offset,
        end_offset=end_offset,
        max_batch_bytes=max_batch_bytes,
    ):
        record = decode_entry(entry, CLUSTER_METADATA, on_damage)
        match record.type:
            case "BEGIN_TRANSACTION_RECORD":
                if undecided is not None:
                    on_damage(_inapplicable(entry, record, "another transaction has not ended"))
                elif entry.offset == start_offset:  # where OffsetControlManager fails to take its own snapshot
                    on_damage(_inapplicable(entry, record, "it is the first one after the newest snapshot"))
                undecided = []
            case "ABORT_TRANSACTION_RECORD" | "END_TRANSACTION_RECORD":
                if undecided is None:
                    on_damage(_inapplicable(entry, record, "no transaction has begun"))
                for each in (undecided or ()) if record.type == "END_TRANSACTION_RECORD" else ():
                    _apply_checked(cluster, *each, on_damage)
                undecided = None
            case _ if undecided is not None:
                undecided.append((entry, record))
            case _:
                _apply_checked(cluster, entry, record, on_damage)


def _apply_checked(cluster: Cluster, entry: RawRecord, record: InternalRecord, on_damage: Report) -> None:
    """Applies a record, and reports one at which a controller would end."""
    if record.data is not None and (reason := inapplicable(cluster, record.type, record.data)) is not None:
        on_damage(_inapplicable(entry, record, reason))
    apply(cluster, record)


def _inapplicable(entry: RawRecord, record: InternalRecord, reason: str) -> Finding:
    text = f"this {record.type} cannot be applied: {reason}; a controller that comes to it ends"
    return Kind.RECORD_INAPPLICABLE.at(
        entry.file, text, severity="warning", position=entry.position, offset=entry.offset
    )


def apply(cluster: Cluster, record: InternalRecord) -> None:
    """Does what one record says. What is not known here, or says something of a thing that is not there, is passed
    over."""
    data = record.data
    if data is None:
        return
    match record.type:
        case "TOPIC_RECORD":
            cluster.add_topic(data["topicId"], data["name"])
        case "REMOVE_TOPIC_RECORD":
            _remove_topic(cluster, data["topicId"])
        case "PARTITION_RECORD":
            cluster.partitions.setdefault(data["topicId"], {})[data["partitionId"]] = dict(data)
        case "PARTITION_CHANGE_RECORD":
            _change_partition(cluster.partitions.get(data["topicId"], {}).get(data["partitionId"]), data)
        case "CLEAR_ELR_RECORD":
            _clear_elr(cluster, data["topicName"])
        case "CONFIG_RECORD":
            configs = cluster.configs.setdefault((data["resourceType"], data["resourceName"]), {})
            configs.pop(data["name"], None)
            if data["value"] is not None:
                configs[data["name"]] = data["value"]
        case "FEATURE_LEVEL_RECORD":
            cluster.features.pop(data["name"], None)
            if data["featureLevel"]:
                cluster.features[data["name"]] = data["featureLevel"]
        case "PRODUCER_IDS_RECORD":
            cluster.next_producer_id = data["nextProducerId"]
        case "CLIENT_QUOTA_RECORD":
            _change_quota(cluster, data)
        case "ACCESS_CONTROL_ENTRY_RECORD":
            cluster.acls[data["id"]] = data
        case "REMOVE_ACCESS_CONTROL_ENTRY_RECORD":
            cluster.acls.pop(data["id"], None)
        case "USER_SCRAM_CREDENTIAL_RECORD":
            cluster.users[data["name"], data["mechanism"]] = data
        case "REMOVE_USER_SCRAM_CREDENTIAL_RECORD":
            cluster.users.pop((data["name"], data["mechanism"]), None)
        case "DELEGATION_TOKEN_RECORD":
            cluster.tokens[data["tokenId"]] = data
        case "REMOVE_DELEGATION_TOKEN_RECORD":
            cluster.tokens.pop(data["tokenId"], None)
        case _:
            _apply_to_nodes(cluster, record.type, data)


def _apply_to_nodes(cluster: Cluster, type_: str | None, data: Row) -> None:
    match type_:
        case "REGISTER_BROKER_RECORD":
            cluster.brokers[data["brokerId"]] = _node(
                {"inControlledShutdown": False, "logDirs": [], "cordonedLogDirs": None, **data}
            )
        case "UNREGISTER_BROKER_RECORD":
            cluster.brokers.pop(data["brokerId"], None)
        case "FENCE_BROKER_RECORD" | "UNFENCE_BROKER_RECORD":
            if data["id"] in cluster.brokers:
                cluster.brokers[data["id"]]["fenced"] = type_ == "FENCE_BROKER_RECORD"
        case "BROKER_REGISTRATION_CHANGE_RECORD":
            broker = cluster.brokers.get(data["brokerId"], {})
            if broker and data.get("fenced", 0) in (_FENCE, _UNFENCE):
                broker["fenced"] = data["fenced"] == _FENCE
            if broker and data.get("inControlledShutdown"):
                broker["inControlledShutdown"] = True
            if broker and data.get("logDirs"):
                broker["logDirs"] = data["logDirs"]
            if broker and data.get("cordonedLogDirs") is not None:
                broker["cordonedLogDirs"] = data["cordonedLogDirs"]
        case "REGISTER_CONTROLLER_RECORD":
            cluster.controllers[data["controllerId"]] = _node(data)
        case "UNREGISTER_CONTROLLER_RECORD":
            cluster.controllers.pop(data["controllerId"], None)
        case _:
            return


def _node(data: Row) -> Row:
    """A registration; the order of its features is not kept by snapshots."""
    return {**data, "features": sorted(data["features"], key=lambda each: each["name"])}


def _remove_topic(cluster: Cluster, topic_id: str) -> None:
    name = cluster.remove_topic(topic_id)
    cluster.partitions.pop(topic_id, None)
    if name is not None:
        cluster.configs.pop((ResourceType.TOPIC, name), None)


def _change_quota(cluster: Cluster, data: Row) -> None:
    entities = (
        (each["entityType"], each["entityName"] is not None, each["entityName"] or "") for each in data["entity"]
    )
    key = tuple(sorted(entities)), data["key"]
    cluster.quotas.pop(key, None)
    if not data["remove"]:
        cluster.quotas[key] = {name: data[name] for name in ("entity", "key", "value")}


def _change_partition(partition: Row | None, change: Row) -> None:
    if partition is None:
        return
    for name in _CHANGED_LISTS:
        if change.get(name) is not None:
            partition[name] = change[name]
    if change.get("leader", _NO_LEADER_CHANGE) != _NO_LEADER_CHANGE:
        partition["leader"] = change["leader"]
        partition["leaderEpoch"] = _after(partition["leaderEpoch"])
    if change.get("leaderRecoveryState", _NO_CHANGE) != _NO_CHANGE:
        partition["leaderRecoveryState"] = change["leaderRecoveryState"]
    partition["partitionEpoch"] = _after(partition["partitionEpoch"])


def _after(epoch: int) -> int:
    """The next int32, as Java counts."""
    return (epoch + 1 + 2**31) % 2**32 - 2**31


def _clear_elr(cluster: Cluster, topic: str) -> None:
    """Clear the eligible leader replicas of one topic, or of all where it has no name."""
    for topic_id, partitions in cluster.partitions.items():
        if topic and cluster.topics.get(topic_id) != topic:
            continue
        for partition in partitions.values():
            if partition.get("eligibleLeaderReplicas") or partition.get("lastKnownElr"):
                _change_partition(partition, {"eligibleLeaderReplicas": [], "lastKnownElr": []})


def cluster_rows(cluster: Cluster) -> dict[str, list[Row]]:
    """Return the rows of the tables of a cluster."""
    topics = sorted((name, topic_id) for topic_id, name in cluster.topics.items())
    return {
        "topics": [
            {"topic": name, "topicId": topic_id, "partitions": len(cluster.partitions.get(topic_id, ()))}
            for name, topic_id in topics
        ],
        "partitions": list(_partition_rows(cluster)),
        "configs": list(_config_rows(cluster)),
        "brokers": [cluster.brokers[each] for each in sorted(cluster.brokers)],
        "controllers": [cluster.controllers[each] for each in sorted(cluster.controllers)],
        "features": [{"name": name, "featureLevel": level} for name, level in sorted(cluster.features.items())],
        "quotas": [cluster.quotas[each] for each in sorted(cluster.quotas)],
        "acls": [{**cluster.acls[each], **_acl_names(cluster.acls[each])} for each in sorted(cluster.acls)],
        "users": [
            {**row, "mechanism": SCRAM_MECHANISMS.get(row["mechanism"], str(row["mechanism"]))}
            for _, row in sorted(cluster.users.items())
        ],
        "tokens": [cluster.tokens[each] for each in sorted(cluster.tokens)],
        "producerIds": [] if cluster.next_producer_id is None else [{"nextProducerId": cluster.next_producer_id}],
    }


def _acl_names(acl: Row) -> dict[str, str | None]:
    """Kafka's names of an ACL's codes, None for those of a newer Kafka."""
    return {
        f"{field}Name": names_of[acl[field]] if 0 <= acl[field] < len(names_of) else None
        for field, names_of in ACL_NAMES.items()
    }


def _partition_rows(cluster: Cluster) -> Iterator[Row]:
    for topic, topic_id in sorted((cluster.topics.get(topic_id, ""), topic_id) for topic_id in cluster.partitions):
        for number, row in sorted(cluster.partitions[topic_id].items()):
            yield {
                "topic": topic or None,
                "topicId": topic_id,
                "partition": number,
                **{name: row[name] for name in ("leader", "leaderEpoch", "partitionEpoch")},
                "leaderRecoveryState": row.get("leaderRecoveryState", 0),
                **{name: row.get(name) or [] for name in _CHANGED_LISTS},
            }


def _config_rows(cluster: Cluster) -> Iterator[Row]:
    for (type_, resource), configs in sorted(cluster.configs.items()):
        resource_type = RESOURCE_TYPES.get(type_, str(type_))
        for name, value in sorted(configs.items()):
            yield {"resourceType": resource_type, "resourceName": resource, "name": name, "value": value}
