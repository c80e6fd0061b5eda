"""Requests of what makes logs of a dead cluster's disks, buckets and images."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from brokerless.clock import TIME as TIME_TEXT
from brokerless.clock import Time
from brokerless.kafka_names import ISOLATION_LEVELS, Isolation
from brokerless.log.names import Include
from brokerless.log.storage.paths import StorageOptions
from brokerless.progress import Done, Report, ignore
from brokerless.requests import shared
from brokerless.requests.option_types import (
    AMOUNT,
    CLIENT_CONFIG,
    FLAG,
    LOG_STARTS,
    NAMES,
    PATH,
    PATH_LIST,
    PATHS,
    TEXT,
    TIME,
    URL,
    Paths,
    PathsOrLogs,
    Spark,
    one_of,
)
from brokerless.requests.options import given, request

if TYPE_CHECKING:
    from brokerless.internals.groups.positions import ResetTo

Data = Literal["link", "copy", "in-place"]
Quorum = Literal["static", "dynamic"]


@request
class MergeRequest:
    paths: PathsOrLogs = given(shared.LOGS, kw_only=False)
    to: str | os.PathLike[str] = given(shared.TO, kw_only=False)
    topics: Collection[str] | None = given(shared.TOPICS, default=None)
    committed_only: bool = given(FLAG, "leave out what is not known to be committed", default=False)
    segment_bytes: int | None = given(shared.NEW_SEGMENT_BYTES, default=None)
    dry_run: bool = given(shared.DRY_RUN, default=False)
    include: Collection[Include] | Include = given(shared.INCLUDE, default=())
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)
    on_damage: Report | None = given(shared.ON_FINDING, default=None)
    done: Done = given(shared.DONE, default=ignore)
    spark: Spark = given(shared.SPARK, default="none")


@request
class CarveRequest:
    paths: Paths = given(shared.PATHS, kw_only=False)
    to: str | os.PathLike[str] = given(shared.TO, kw_only=False)
    as_: Literal["segments", "parquet"] = given(shared.SEGMENTS_OR_PARQUET, default="segments")
    segment_bytes: int | None = given(shared.NEW_SEGMENT_BYTES, default=None)
    dry_run: bool = given(shared.DRY_RUN, default=False)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)
    on_damage: Report | None = given(shared.ON_FINDING, default=None)
    done: Done = given(shared.DONE, default=ignore)


@request
class RebuildRequest:
    paths: Paths = given(shared.PATHS, kw_only=False)
    to: str | os.PathLike[str] = given(PATH, "where the nodes' directories are written", "DIR", kw_only=False)
    spread: bool = given(shared.SPREAD, default=False)
    until: Time | None = given(
        TIME,
        "of a snapshot: let each partition, but for Kafka's own topics, end before its first record of this time or "
        f"later: {TIME_TEXT}",
        default=None,
    )
    offsets: str | os.PathLike[str] | None = given(
        PATH,
        "of a snapshot: let partitions, but for Kafka's own topics, end before the endOffset that this file has for "
        "them, as snapshots --offsets --json prints it; the others stay whole",
        default=None,
    )
    in_bucket: bool = given(
        FLAG,
        "of a snapshot: leave topics that are not compacted in the bucket, from which brokers with tiered storage "
        "serve them",
        default=False,
    )
    copy_to: str | os.PathLike[str] | None = given(
        URL, "with --in-bucket: copy their objects to this place of the same store first", "URL", default=None
    )
    read_only_credentials: bool = given(
        FLAG,
        "with --in-bucket: leave them in the backup itself; the credentials of the brokers cannot delete there",
        default=False,
    )
    pause_retention: bool = given(
        FLAG,
        "set retention.ms=-1 for topics from which records are deleted by age; what it was is shown",
        default=False,
    )
    data: Data = given(
        one_of("copy", "link", "in-place"),
        "how partitions get there: copied (the default), linked, or not at all, where their own disks are used",
        default="copy",
    )
    mapping: str | os.PathLike[str] | None = given(
        PATH, "a mapping file: the nodes of the rebuilt cluster", flag="--map", default=None
    )
    metadata_version: str | None = given(
        TEXT,
        "the metadata version, as 3.9, 4.0-IV3 or 21 (default: that of the old cluster)",
        "VERSION",
        default=None,
    )
    quorum: Quorum | None = given(
        one_of("static", "dynamic"),
        "where the voters are: static, in each node's configuration, or dynamic, in the metadata (KIP-853); as it was "
        "by default",
        default=None,
    )
    state: str | os.PathLike[str] | None = given(
        PATH, "take the state from a log, a .checkpoint or tables as .jsonl, and not from the disks", default=None
    )
    without_metadata: bool = given(
        FLAG, "rebuild from partitions' directories alone, even if the disks have metadata", default=False
    )
    adopt: bool = given(FLAG, "also take in topics that the disks have, and the metadata does not know", default=False)
    reset_positions: ResetTo | None = given(
        one_of("end", "start"),
        "set positions of groups past the end of a partition to the end or start of what is left of it",
        default=None,
    )
    from_bucket: str | os.PathLike[str] | None = given(
        URL, "the bucket of tiered topics, if nothing else is left of them", "URL", default=None
    )
    key_pairs: Mapping[str, str | os.PathLike[str]] | None = given(shared.KEY_PAIR, default=None)
    topics: Collection[str] | str = given(
        NAMES,
        "with --from-bucket: take only this topic from the bucket, as NAME, NAME:ID or 'click*', even in the "
        "place of one that was created again; all others are taken from the disks; can be repeated",
        "NAME",
        flag="-t --topic",
        is_repeated=True,
        default=(),
    )
    log_starts: Mapping[tuple[str, int], int] | None = given(
        LOG_STARTS,
        "with --from-bucket: the first offset of a partition that consumers get; can be repeated",
        flag="--log-start",
        is_repeated=True,
        default=None,
    )
    abort_open_transactions: bool = given(
        FLAG,
        "with --from-bucket, --until and --offsets: end transactions that are open where logs end then",
        default=False,
    )
    cluster_id: str | None = given(
        TEXT, "the cluster id, where no disk has one; a random one by default", "ID", default=None
    )
    apply: bool = given(FLAG, "write it; without it, nothing is changed", default=False)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)


@request
class RestoreRequest:
    paths: PathsOrLogs = given(shared.LOGS, kw_only=False)
    bootstrap_servers: str | None = given(
        TEXT, "the cluster to restore into, as Kafka's tools take it", "HOST:PORT", default=None
    )
    to: Iterable[str | os.PathLike[str]] = given(
        PATH_LIST,
        "a log directory of a stopped broker; name all that have replicas; can be repeated",
        is_repeated=True,
        default=(),
    )
    replace: bool = given(FLAG, "with --to: move partitions with records to DIRECTORY.replaced", default=False)
    metadata: str | os.PathLike[str] | None = given(
        PATH, "with --to: another log directory of the cluster, to read its metadata from", "DIRECTORY", default=None
    )
    config: Mapping[str, str] | str | os.PathLike[str] | None = given(
        CLIENT_CONFIG,
        "a properties file with a client's settings (security.protocol, sasl.jaas.config, ...)",
        flag="--command-config",
        default=None,
    )
    topics: Collection[str] | None = given(shared.TOPICS, default=None)
    offset_map: str | os.PathLike[str] | None = given(
        PATH,
        "directory of the offset map, and of the journal by which a restore goes on; needed for --apply",
        "DIRECTORY",
        default=None,
    )
    groups: bool = given(FLAG, "also commit the groups' translated offsets", default=False)
    offsets: str | os.PathLike[str] | None = given(
        PATH,
        "with --groups: a file of offsets that groups have committed later, as serve keeps it",
        default=None,
    )
    append: bool = given(FLAG, "restore into topics that have records already, after these", default=False)
    rate: int | None = given(AMOUNT, "at most so many bytes in a second, as 10MB (default: no limit)", default=None)
    until: Time | None = given(
        TIME, f"restore each partition up to its first record of this time or later: {TIME_TEXT}", default=None
    )
    isolation: Isolation = given(
        one_of(*ISOLATION_LEVELS),
        "read_uncommitted also restores aborted records and open transactions (default: read_committed)",
        default="read_committed",
    )
    apply: bool = given(FLAG, "restore; without it, nothing is changed", default=False)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)
    on_damage: Report | None = given(shared.ON_DAMAGE, default=None)
    done: Done = given(shared.DONE, default=ignore)


@request
class UndoRebuildRequest:
    paths: Paths = given(PATHS, "the directories that were changed", flag=None, kw_only=False)
    to: str | os.PathLike[str] = given(PATH, "the directory that the rebuild wrote to", flag=None, kw_only=False)
    force: bool = given(FLAG, "undo it even if brokers have run since", default=False)


@request
class ClusterRequest:
    paths: Paths = given(PATHS, "all log directories of all nodes that are left", flag=None, kw_only=False)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
