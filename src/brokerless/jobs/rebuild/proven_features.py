"""The metadata level of a rebuilt cluster, and the levels of features that records on the disks prove, where no
metadata says which it had.

A transactional id whose last transaction was of ``transaction.version`` 2 cannot be initialized below it, and groups of
the newer protocols are refused without theirs, although their offsets are there (KIP-890, KIP-848, KIP-932, KIP-1071).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from brokerless import arrow
from brokerless.clusters.disk import Disk
from brokerless.clusters.start.refused_settings import refused_settings
from brokerless.errors import UsageError
from brokerless.findings import Finding
from brokerless.internals.metadata.cluster import Cluster, ResourceType
from brokerless.internals.metadata.versions import (
    KRAFT_VERSION,
    LEVELS,
    METADATA_VERSION,
    NEWEST,
    features_of,
    first_level_of,
    level_name,
)
from brokerless.internals.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, decode_record
from brokerless.log.directory import PartitionPath
from brokerless.progress import ignore
from brokerless.tables.partition_tables import read_records
from brokerless.tables.read_options import ReadOptions

TRANSACTIONS, GROUPS, SHARES, STREAMS = "transaction.version", "group.version", "share.version", "streams.version"
DEFAULT_LEVEL = 21
"""3.9-IV0, with which Kafka 3.9 and all of Kafka 4 start: where no metadata says which it was."""
ELR_FEATURE, _MIN_INSYNC = "eligible.leader.replicas.version", "min.insync.replicas"
"""With the one, a cluster has the other as a default of all brokers (``Formatter``, 4.4.0; KIP-966)."""
_OF_RECORDS = {"CONSUMER_GROUP_": GROUPS, "SHARE_GROUP_": SHARES, "STREAMS_GROUP_": STREAMS}
"""Features by how the types of records begin that only coordinators with them write."""


def proven_features(disks: Sequence[Disk], max_batch_bytes: int | None = None) -> dict[str, int]:
    """Return the level of each feature that a live partition of Kafka's own topics proves. Damage is passed over."""
    found: dict[str, int] = {}
    for disk in disks:
        for each in disk.replicas:
            if each.state != "live" or not each.size:
                continue
            for feature, level in _proven_by(each.paths, each.topic, max_batch_bytes):
                found[feature] = max(level, found.get(feature, 0))
    return found


def needed_level(features: Iterable[tuple[str, int]]) -> int:
    """Return the first metadata level whose Kafka knows all of some features; 0 for none."""
    return max((first_level_of(*each) or 0 for each in features), default=0)


def _proven_by(partition: PartitionPath, topic: str, max_batch_bytes: int | None) -> Iterator[tuple[str, int]]:
    if topic == SHARE_GROUP_STATE:
        yield SHARES, 1
    if topic not in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        return
    seen: set[bytes] = set()
    columns = ["key", "value"]
    for batch in read_records([partition], ReadOptions(columns, max_batch_bytes=max_batch_bytes, on_damage=ignore)):
        for key, value in zip(*(arrow.values(batch.column(name)) for name in columns), strict=True):
            if topic == TRANSACTION_STATE:
                data = decode_record(topic, key, value).data
                version = 0 if data is None else int(data.get("clientTransactionVersion", 0))
                yield from [(TRANSACTIONS, version)] if version > 0 else ()
            elif key is not None and key[:2] not in seen:
                seen.add(key[:2])
                type_ = decode_record(topic, key, None).type or ""
                yield from ((feature, 1) for start, feature in _OF_RECORDS.items() if type_.startswith(start))


def choose_level(
    cluster: Cluster, requested: int | None, disks: Sequence[Disk] = (), max_batch_bytes: int | None = None
) -> int:
    """Return the metadata level of a rebuilt cluster. Where no metadata has one, features are set as well: those of
    that level, and those that records prove. Raises :class:`UsageError` for one that is too old, or not known here."""
    known = cluster.features.get(METADATA_VERSION)
    level = known if requested is None else requested
    if known is None:
        proven = proven_features(disks, max_batch_bytes)
        needed = needed_level(proven.items())
        level = max(DEFAULT_LEVEL, needed) if requested is None else requested
        if level < needed:
            which = " and ".join(f"{name} {each}" for name, each in sorted(proven.items()))
            text = f"records on these disks are of {which}, which metadata version {level_name(level)} does not know"
            raise UsageError(f"{text}; give --metadata-version {level_name(needed)} or a newer one")
        cluster.features |= features_of(level) | proven
        if ELR_FEATURE in cluster.features:
            cluster.configs.setdefault((ResourceType.BROKER, ""), {}).setdefault(_MIN_INSYNC, "1")
    assert level is not None
    if level > NEWEST:
        text = f"the metadata version of these disks is {level}, and the newest that is known here is {NEWEST}"
        raise UsageError(f"{text} ({level_name(NEWEST)}); use a newer brokerless")
    if known is not None and level < known:
        for name, feature_level in sorted(cluster.features.items()):
            since = first_level_of(name, feature_level)
            if name not in (METADATA_VERSION, KRAFT_VERSION) and since is not None and level < since:
                text = f"metadata version {level_name(level)} is of a Kafka that does not know {name} {feature_level}"
                raise UsageError(f"{text}; give --metadata-version {level_name(since)} or a newer one")
    return level


def settings_refused_at(cluster: Cluster, level: int, path: str) -> Iterator[Finding]:
    """Yield the settings at which a Kafka ends that starts with this metadata version, with the remedy."""
    version = next((each for each, (least, most) in LEVELS.items() if least <= level <= most), None)
    if version is None:
        return
    remedy = "change it before the upgrade with kafka-configs, or here in the tables of the cluster"
    for each in refused_settings(cluster, path, version):
        yield replace(each, message=f"{each.message}; {remedy}")
