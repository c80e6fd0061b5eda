"""File and directory names <-> topics, partitions, offsets and kinds.

Kafka keeps its catalogue in names: a partition's directory says which partition it is, a segment's file says at which
offset it starts, and a suffix says that a file or directory is on its way in or out. These functions read and write
such names and touch no file. A name that Kafka would not give is *foreign*: then they return ``None``, and never raise.

Sources: ``LogFileUtils``, ``LocalLog`` (``parseTopicPartitionName``), ``UnifiedLog`` and ``LogManager`` of 3.9.1,
``org.apache.kafka.snapshot.Snapshots`` (KIP-630); KIP-113 (future replicas), KIP-858 and KAFKA-14616 (stray replicas).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from brokerless.bounds import MAX_INT32, MAX_INT64

PartitionState = Literal["live", "future", "delete", "stray"]
"""``live``; ``future`` (a replica that moves to this log directory), ``delete`` (waits for its deletion), ``stray``
(left over from a replica that the cluster no longer has here)."""

Include = Literal["future", "delete", "stray", "deleted"]
INCLUDE: tuple[Include, ...] = ("future", "delete", "stray", "deleted")
"""What is read only if it is selected: partitions in these states, and records that were deleted."""

SegmentFileKind = Literal[
    "log", "offset-index", "time-index", "transaction-index", "producer-snapshot", "kraft-snapshot", "unknown"
]
"""``unknown`` is only in what :func:`parse_unknown_file` returns."""

SegmentFileState = Literal["live", "cleaned", "swap", "deleted", "partial"]
"""``cleaned`` is a compaction's unfinished output, ``swap`` its finished output before it took its place, ``deleted``
waits for its deletion, ``partial`` is an unfinished KRaft snapshot. All but ``live`` are orphaned files."""

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
QUORUM_STATE = "quorum-state"
PARTITION_FILES = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, QUORUM_STATE})
"""What a partition's directory holds beside its segments; ``quorum-state`` only in ``__cluster_metadata-0``."""

CLUSTER_METADATA = "__cluster_metadata"
"""The topic of KRaft's own log."""
CLUSTER_METADATA_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""Its ID, in every cluster (``Uuid.METADATA_TOPIC_ID``)."""
REMOTE_LOG_METADATA = "__remote_log_metadata"
INTERNAL_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", REMOTE_LOG_METADATA, CLUSTER_METADATA}
)
"""Kafka's own topics (``Topic.isInternal``, 4.1, and the two that only brokers and controllers use). A name that merely
begins with ``__`` is a user's, such as those of Debezium's heartbeats."""
COMPACTED_BY_KAFKA = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Those that brokers make with ``cleanup.policy=compact``, whatever else is known of them; only coordinators, which are
brokers, write to them."""
META_PROPERTIES = "meta.properties"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
UNFINISHED = "b0ce1e55"
"""The last digits of the unique ID where we gave a partition's directory its ``-delete``, as it was not finished: what
it has was never in the log, and is nobody's deleted data."""
OF_COMMAND = "b0ce10ad"
"""The first digits of that ID where a command's run writes, which holds the log directory's lock until it commits: when
nobody does, nobody will."""
OFFSET_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    CLEANER_CHECKPOINT,
)
COMMIT_JOURNAL = ".brokerless-commit"
COMMIT_LOCK = ".brokerless-lock"
COMMITTED_QUERIES = ".brokerless-queries"
RUN_RECORD = ".brokerless-run"
TRIM_MARK = ".brokerless-trim"
"""Our own files in a log directory (``checkpoint/commit_journal.py``, ``commit/run_record.py``, ``jobs/trim``): Kafka
ignores files that it does not know."""
LOG_DIRECTORY_FILES = frozenset(
    {
        META_PROPERTIES,
        *OFFSET_CHECKPOINTS,
        BOOTSTRAP_CHECKPOINT,
        CLEAN_SHUTDOWN,
        LOCK,
        COMMIT_JOURNAL,
        COMMIT_LOCK,
        COMMITTED_QUERIES,
        RUN_RECORD,
        TRIM_MARK,
    }
)
"""What a log directory holds beside its partitions. ``bootstrap.checkpoint`` is a log of batches (KIP-630's snapshot
format); the ``*-offset-checkpoint`` files are text, one line for each partition."""

_SUFFIXES: dict[str, SegmentFileKind] = {
    ".log": "log",
    ".index": "offset-index",
    ".timeindex": "time-index",
    ".txnindex": "transaction-index",
    ".snapshot": "producer-snapshot",
    ".checkpoint": "kraft-snapshot",
}
_SUFFIX_OF: dict[SegmentFileKind, str] = {kind: suffix for suffix, kind in _SUFFIXES.items()}
_STATES: dict[str, SegmentFileState] = {
    "": "live",
    ".cleaned": "cleaned",
    ".swap": "swap",
    ".deleted": "deleted",
    ".part": "partial",
}
_STATE_SUFFIX_OF: dict[SegmentFileState, str] = {state: suffix for suffix, state in _STATES.items()}

_PARTITION_STATES: dict[str, PartitionState] = {"": "live", "future": "future", "delete": "delete", "stray": "stray"}

_SEGMENT_FILE = re.compile(
    r"(?P<offset>[0-9]{20})(?:-(?P<epoch>[0-9]{10})(?P<random>-[0-9]+)?)?"
    r"(?P<kind>\.(?:log|index|timeindex|txnindex|snapshot|checkpoint))(?P<state>\.(?:cleaned|swap|deleted|part))?"
)
_UNKNOWN_FILE = re.compile(r"(?P<offset>[0-9]{20})\.[^/]+?(?P<state>\.(?:cleaned|swap|deleted))?")
_PARTITION_DIRECTORY = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})"
    r"(?:\.(?P<unique_id>[^\s/]+)-(?P<state>delete|future|stray))?"
)
_LONGEST_NAME = 255
"""Characters of a file's name, on the file systems that Kafka runs on (``UnifiedLog.logDirNameWithSuffixCappedLength``,
4.4.0, of KAFKA-4893)."""
_UNFINISHED_ID = re.compile(f"[0-9a-f]{{{32 - len(UNFINISHED)}}}{UNFINISHED}")


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """A partition's directory, by its name."""

    topic: str
    partition: int
    state: PartitionState = "live"
    unique_id: str | None = None
    """The part by which ``-delete``, ``-future`` and ``-stray`` directories of one partition differ; Kafka cuts a very
    long topic in a name with it."""

    @property
    def is_unfinished(self) -> bool:
        """Whether this is ours, and is being written or was left by an interrupted write."""
        return self.state == "delete" and _UNFINISHED_ID.fullmatch(self.unique_id or "") is not None


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A file in a partition's directory, by its name."""

    offset: int
    """The base offset of the segment; for a producer snapshot and a KRaft snapshot, the first offset that is not in
    it."""
    kind: SegmentFileKind
    state: SegmentFileState = "live"
    epoch: int | None = None
    """For KRaft snapshots only."""


def parse_partition_directory(name: str) -> PartitionDirectory | None:
    """Parse ``orders-0`` into topic ``orders``, partition 0; the last dash divides: topics may have dashes. None if
    foreign."""
    match = _PARTITION_DIRECTORY.fullmatch(name)
    if match is None or match["topic"] in (".", "..") or int(match["partition"]) > MAX_INT32:
        return None
    state = _PARTITION_STATES[match["state"] or ""]
    return PartitionDirectory(match["topic"], int(match["partition"]), state, match["unique_id"])


def is_partition(topic: str, partition: int) -> bool:
    """Return whether Kafka takes a partition of this name (``org.apache.kafka.common.internals.Topic``, 4.1.1)."""
    return parse_partition_directory(partition_directory(topic, partition)) == PartitionDirectory(topic, partition)


def may_be_cut(name: str) -> bool:
    """Return whether Kafka may have cut the topic in the name of a directory that it renamed."""
    found = parse_partition_directory(name)
    return found is not None and found.state != "live" and len(name) >= _LONGEST_NAME


def is_internal(topic: str | None) -> bool:
    """Return whether this is one of Kafka's own topics."""
    return topic in INTERNAL_TOPICS


def partition_directory(topic: str, partition: int) -> str:
    """Return the name of a live partition's directory."""
    return f"{topic}-{partition}"


@lru_cache(maxsize=1 << 14)
def parse_segment_file(name: str) -> SegmentFile | None:
    """Parse ``00000000000000000042.timeindex.deleted`` into offset 42, time index, deleted. None if foreign."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None or int(match["offset"]) > MAX_INT64:
        return None
    kind, state = _SUFFIXES[match["kind"]], _STATES[match["state"] or ""]
    is_snapshot = kind == "kraft-snapshot"
    if is_snapshot != (match["epoch"] is not None) or (state == "partial") != (match["random"] is not None):
        return None
    if is_snapshot and (state in ("cleaned", "swap") or int(match["epoch"]) > MAX_INT32):
        return None
    return SegmentFile(int(match["offset"]), kind, state, int(match["epoch"]) if is_snapshot else None)


def parse_unknown_file(name: str) -> SegmentFile | None:
    """Parse ``00000000000000000042.deliverafterindex.swap`` into offset 42, unknown, swap: what a name says whose
    suffix no Kafka has that we know, as an index of a newer one (KIP-1277). To a broker, only the last suffix
    counts."""
    match = _UNKNOWN_FILE.fullmatch(name)
    if match is None or int(match["offset"]) > MAX_INT64 or parse_segment_file(name) is not None:
        return None
    return SegmentFile(int(match["offset"]), "unknown", _STATES[match["state"] or ""])


def segment_file(offset: int, kind: SegmentFileKind, state: SegmentFileState = "live", epoch: int | None = None) -> str:
    """Return the name of a file by what it is; ``epoch`` for KRaft snapshots."""
    prefix = f"{offset:020d}" if epoch is None else f"{offset:020d}-{epoch:010d}"
    return prefix + _SUFFIX_OF[kind] + _STATE_SUFFIX_OF[state]


def is_partition_file(name: str) -> bool:
    """Return whether Kafka keeps a file of this name beside a partition's segments (``.tmp``: one that is being
    replaced)."""
    return name.removesuffix(".tmp") in PARTITION_FILES


def is_file_of_partition(name: str) -> bool:
    """Return whether Kafka gives a file in a partition's directory this name."""
    return parse_segment_file(name) is not None or is_partition_file(name)


def is_log_directory_file(name: str) -> bool:
    """Return whether Kafka or brokerless keeps a file of this name in a log directory, beside the partitions."""
    return name.removesuffix(".tmp") in LOG_DIRECTORY_FILES
