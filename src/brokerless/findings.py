"""Findings: each is one observation at one place in a file, of one of the kinds that are listed here.

``findings.toml``, beside this module, has the severity, the page, a sentence and the advice of each kind.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass
from enum import StrEnum
from importlib import resources
from typing import Any, Literal

from brokerless.text import html_table

Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""The worst first."""


class Kind(StrEnum):
    """Names each kind of finding. The value is a stable identifier in kebab-case, as programs read it."""

    # Batches and records
    CHECKSUM_MISMATCH = "checksum-mismatch"
    BATCH_SIZE_INVALID = "batch-size-invalid"
    RECORD_INVALID = "record-invalid"
    MAGIC_UNKNOWN = "magic-unknown"
    RECORD_COUNT_MISMATCH = "record-count-mismatch"
    MESSAGE_INVALID = "message-invalid"
    MESSAGE_CHECKSUM_MISMATCH = "message-checksum-mismatch"
    WRAPPER_INVALID = "wrapper-invalid"
    DECOMPRESSION_FAILED = "decompression-failed"
    LIMIT_EXCEEDED = "limit-exceeded"
    TRUNCATED_BATCH = "truncated-batch"
    ZERO_TAIL = "zero-tail"
    TRAILING_ZEROS = "trailing-zeros"
    BATCHES_RESUME = "batches-resume"
    NO_BATCHES = "no-batches"
    BATCH_REFUSED = "batch-refused"
    NOT_BLANKED = "not-blanked"
    DAMAGE_SKIPPED = "damage-skipped"
    OFFSETS_NOT_WRITTEN = "offsets-not-written"

    # Offsets, leader epochs and producers
    OFFSET_ORDER = "offset-order"
    OFFSET_OVERLAP = "offset-overlap"
    OFFSET_MISPLACED = "offset-misplaced"
    RECORDS_PAST_LAST_OFFSET = "records-past-last-offset"
    OFFSET_GAP = "offset-gap"
    MISSING_SEGMENT = "missing-segment"
    MISSING_LOG = "missing-log"
    MISSING_LOG_END = "missing-log-end"
    MISSING_OFFSETS = "missing-offsets"
    SEGMENT_OVERLAP = "segment-overlap"
    LEADER_EPOCH_ORDER = "leader-epoch-order"
    LEADER_EPOCH_WRONG = "leader-epoch-wrong"
    SEQUENCE_GAP = "sequence-gap"
    SEQUENCE_REPEATED = "sequence-repeated"
    PRODUCER_EPOCH_ORDER = "producer-epoch-order"
    OUTSIDE_OF_TRANSACTION = "outside-of-transaction"
    MARKER_BROKEN = "marker-broken"
    TRANSACTION_OPEN = "transaction-open"
    TRANSACTION_HANGING = "transaction-hanging"
    TRANSACTION_ONGOING = "transaction-ongoing"
    TRANSACTION_DECIDED = "transaction-decided"
    TRANSACTION_ORPHANED = "transaction-orphaned"
    TIMESTAMP_FUTURE = "timestamp-future"
    TIMESTAMP_UNIT = "timestamp-unit"
    TIMESTAMP_OUT_OF_RANGE = "timestamp-out-of-range"
    NO_TIMESTAMPS = "no-timestamps"
    LEGACY_FORMAT = "legacy-format"

    # Indexes, producer snapshots and checkpoints of a partition
    INDEX_MISSING = "index-missing"
    INDEX_CORRUPT = "index-corrupt"
    INDEX_NOT_SORTED = "index-not-sorted"
    INDEX_NOT_TRIMMED = "index-not-trimmed"
    INDEX_NOT_CHECKED = "index-not-checked"
    OFFSET_INDEX_MISMATCH = "offset-index-mismatch"
    TIME_INDEX_MISMATCH = "time-index-mismatch"
    TRANSACTION_INDEX_MISMATCH = "transaction-index-mismatch"
    PRODUCER_SNAPSHOT_CORRUPT = "producer-snapshot-corrupt"
    PRODUCER_SNAPSHOT_MISMATCH = "producer-snapshot-mismatch"
    PRODUCER_SNAPSHOT_BEYOND_END = "producer-snapshot-beyond-end"
    LEADER_EPOCH_MISMATCH = "leader-epoch-mismatch"
    LEADER_EPOCH_BEYOND_END = "leader-epoch-beyond-end"
    LEADER_EPOCH_CHECKPOINT_MISSING = "leader-epoch-checkpoint-missing"
    CHECKPOINT_CORRUPT = "checkpoint-corrupt"
    CHECKPOINT_NOT_SORTED = "checkpoint-not-sorted"
    PARTITION_METADATA_CORRUPT = "partition-metadata-corrupt"
    PARTITION_METADATA_MISSING = "partition-metadata-missing"

    # Files and directories
    UNREADABLE_FILE = "unreadable-file"
    UNREADABLE_DIRECTORY = "unreadable-directory"
    UNREADABLE = "unreadable"
    FILE_SHRUNK = "file-shrunk"
    FILE_CHANGED = "file-changed"
    DELETED_MEANWHILE = "deleted-meanwhile"
    UNCOMMITTED = "uncommitted"
    LEFTOVER_FILE = "leftover-file"
    SWAP_FILE = "swap-file"
    ORPHAN_INDEX = "orphan-index"
    FOREIGN_FILE = "foreign-file"
    FILE_NAME = "file-name"
    DIRECTORY_NAME = "directory-name"
    STRAY_DIRECTORY = "stray-directory"
    FUTURE_DIRECTORY = "future-directory"
    DELETED_DIRECTORY = "deleted-directory"
    UNFINISHED_DIRECTORY = "unfinished-directory"
    PARTITION_MISSING = "partition-missing"
    FIELD_UNEXPECTED = "field-unexpected"

    # Log directories and what a start reads
    META_PROPERTIES_CORRUPT = "meta-properties-corrupt"
    META_PROPERTIES_MISSING = "meta-properties-missing"
    META_PROPERTIES_INCOMPLETE = "meta-properties-incomplete"
    META_PROPERTIES_DIFFER = "meta-properties-differ"
    BOOTSTRAP_CHECKPOINT = "bootstrap-checkpoint"
    QUORUM_STATE_CORRUPT = "quorum-state-corrupt"
    DIRECTORY_ID_RESERVED = "directory-id-reserved"
    DIRECTORY_ID_REPEATED = "directory-id-repeated"
    DIRECTORY_ID_MISMATCH = "directory-id-mismatch"
    NODE_ID_MISMATCH = "node-id-mismatch"
    PARTITION_REPEATED = "partition-repeated"
    FUTURE_REPEATED = "future-repeated"
    TOPIC_ID_MISMATCH = "topic-id-mismatch"
    SEGMENT_OVERSIZED = "segment-oversized"
    FOREIGN_METADATA_BATCH = "foreign-metadata-batch"
    SNAPSHOT_NOT_WHOLE = "snapshot-not-whole"
    METADATA_GAP = "metadata-gap"
    METADATA_VERSION_UNKNOWN = "metadata-version-unknown"
    FEATURE_UNKNOWN = "feature-unknown"
    RECORD_INAPPLICABLE = "record-inapplicable"
    RECORD_TYPE_UNKNOWN = "record-type-unknown"
    RECORD_VERSION_UNKNOWN = "record-version-unknown"
    RECORD_UNREADABLE = "record-unreadable"
    SETTING_REFUSED = "setting-refused"
    TOPICS_NOT_APPLIED = "topics-not-applied"
    BROKER_RUNNING = "broker-running"
    UNCLEAN_STOP = "unclean-stop"
    RECOVERY_STOPS = "recovery-stops"
    OFFSET_NOT_INCREASING = "offset-not-increasing"
    OFFSET_OVERFLOW = "offset-overflow"
    RECOVERY_POINT_BEYOND_END = "recovery-point-beyond-end"
    HIGH_WATERMARK_BEYOND_END = "high-watermark-beyond-end"
    HIGH_WATERMARK_BEFORE_START = "high-watermark-before-start"
    LOG_START_BEYOND_END = "log-start-beyond-end"
    LOG_START_BEFORE_SEGMENTS = "log-start-before-segments"
    LOG_START_UNKNOWN = "log-start-unknown"
    CLEANER_CHECKPOINT_BEYOND_END = "cleaner-checkpoint-beyond-end"
    CLEANER_CHECKPOINT_REPEATED = "cleaner-checkpoint-repeated"
    REMOTE_OFFSETS = "remote-offsets"
    REMOTE_AHEAD = "remote-ahead"
    REMOTE_OBJECTS_UNREAD = "remote-objects-unread"
    REMOTE_OBJECT_MISSING = "remote-object-missing"
    REMOTE_OBJECT_SIZE = "remote-object-size"
    REMOTE_MANIFEST_INVALID = "remote-manifest-invalid"
    REMOTE_CHUNK_INVALID = "remote-chunk-invalid"
    REMOTE_SEGMENT_DAMAGED = "remote-segment-damaged"
    REMOTE_SEGMENT_UNFINISHED = "remote-segment-unfinished"
    REMOTE_SEGMENT_LOST = "remote-segment-lost"
    REMOTE_SEGMENT_ORPHANED = "remote-segment-orphaned"
    REMOTE_SEGMENT_NEEDED = "remote-segment-needed"
    REMOTE_SEGMENT_EXPIRED = "remote-segment-expired"
    REMOTE_OFFSETS_MISSING = "remote-offsets-missing"
    REMOTE_SEGMENT_DELETED = "remote-segment-deleted"
    REMOTE_SEGMENT_DANGLING = "remote-segment-dangling"
    REMOTE_SEGMENT_REPEATED = "remote-segment-repeated"
    REMOTE_TOPIC_REPLACED = "remote-topic-replaced"
    REMOTE_SEGMENTS_DELETED = "remote-segments-deleted"
    REMOTE_EPOCHS_LOST = "remote-epochs-lost"
    REMOTE_FIRST_START = "remote-first-start"
    REMOTE_LOG_START_UNKNOWN = "remote-log-start-unknown"
    REMOTE_TRANSACTION_OPEN = "remote-transaction-open"
    REMOTE_STORAGE_SETTINGS = "remote-storage-settings"

    # Clusters
    CLUSTER_ID_DIFFERS = "cluster-id-differs"
    METADATA_MISSING = "metadata-missing"
    METADATA_DIFFERS = "metadata-differs"
    TOPIC_UNKNOWN = "topic-unknown"
    PARTITION_UNKNOWN = "partition-unknown"
    REPLICA_ELSEWHERE = "replica-elsewhere"
    REPLICA_MISSING = "replica-missing"
    REPLICA_UNKNOWN = "replica-unknown"
    REPLICA_UNASSIGNED = "replica-unassigned"
    REPLICA_UNREADABLE = "replica-unreadable"
    REPLICA_TWICE = "replica-twice"
    DISK_WITHOUT_NODE = "disk-without-node"
    RECOVERY_CUTS = "recovery-cuts"
    LOG_REFUSED = "log-refused"
    LOG_END_DAMAGED = "log-end-damaged"
    UNCLEAN_LEADER = "unclean-leader"
    FEWER_REPLICAS = "fewer-replicas"
    TOPIC_ID_LOST = "topic-id-lost"
    TOPIC_SETTINGS_LOST = "topic-settings-lost"
    GROUP_OFFSET_BEYOND_END = "group-offset-beyond-end"
    GROUP_OFFSET_BEFORE_START = "group-offset-before-start"
    POSITION_PAST_END = "position-past-end"
    GROUP_LAG = "group-lag"

    # Merging replicas
    REPLICAS_DIFFER = "replicas-differ"
    NO_LEADER_EPOCHS = "no-leader-epochs"
    NOTHING_KNOWN_TO_BE_COMMITTED = "nothing-known-to-be-committed"
    SNAPSHOTS_LEFT_OUT = "snapshots-left-out"

    # Tables, schemas and pipelines
    NOT_EXPORTED = "not-exported"
    TOPIC_REFUSED = "topic-refused"
    RUN_NOT_RECORDED = "run-not-recorded"
    LOG_END_BEFORE_EXPORT = "log-end-before-export"
    EXPORTED_FILES_MISSING = "exported-files-missing"
    TOO_MANY_FIELDS = "too-many-fields"
    KEY_NOT_DECODED = "key-not-decoded"
    VALUE_NOT_DECODED = "value-not-decoded"
    SCHEMA_KEY_FORM = "schema-key-form"
    SCHEMA_ID_SHARED = "schema-id-shared"

    # Compaction, erasure and its proof
    SETTINGS_UNKNOWN = "settings-unknown"
    FIELD_LACKING = "field-lacking"
    BYTES_FOUND = "bytes-found"
    RECORDS_LEFT = "records-left"
    RECORD_PRESENT = "record-present"
    VALUE_PRESENT = "value-present"
    RECORDS_DIFFER = "records-differ"
    BATCHES_DIFFER = "batches-differ"
    BATCH_TWICE = "batch-twice"
    EDITS_DIFFER = "edits-differ"
    SELECTION_DIFFERS = "selection-differs"
    COPIED_PARTITION = "copied-partition"
    COPY_DIFFERS = "copy-differs"
    COPY_IN_SOURCE = "copy-in-source"
    OUTSIDE_OF_PROOF = "outside-of-proof"
    FILE_MISSING = "file-missing"
    DIRECTORY_UNKNOWN = "directory-unknown"
    FILE_UNKNOWN = "file-unknown"
    NO_PARTITIONS = "no-partitions"
    NOT_WRITTEN = "not-written"
    NOT_FINISHED = "not-finished"
    NOT_SIGNED = "not-signed"
    KEY_UNCONFIRMED = "key-unconfirmed"
    SIGNATURE_WRONG = "signature-wrong"

    # Restoring
    PARTITION_EXISTS = "partition-exists"
    TARGET_NOT_EMPTY = "target-not-empty"
    TOO_FEW_PARTITIONS = "too-few-partitions"
    PARTITIONS_MISSING = "partitions-missing"
    TARGET_COMPACTS = "target-compacts"
    RETENTION_DELETES = "retention-deletes"
    TIMESTAMPS_REPLACED = "timestamps-replaced"
    TIMESTAMP_REFUSED = "timestamp-refused"
    TIMESTAMP_ZERO = "timestamp-zero"
    HEADER_NAME = "header-name"
    RECORD_TOO_LARGE = "record-too-large"
    KEY_MISSING = "key-missing"
    LATE_RECORDS = "late-records"
    CONFIGS_UNKNOWN = "configs-unknown"
    CONFIG_DIFFERS = "config-differs"
    WRITTEN_BY_OTHERS = "written-by-others"
    GROUP_OFFSET_AFTER_END = "group-offset-after-end"
    SHARE_GROUP_TOPIC_IDS = "share-group-topic-ids"
    TOPIC_IDS_COMPRESSED = "topic-ids-compressed"

    def __repr__(self) -> str:
        return repr(self.value)


NOT_DECODED = {"key": Kind.KEY_NOT_DECODED, "value": Kind.VALUE_NOT_DECODED}
BEFORE_FIRST_SEGMENT = (Kind.REMOTE_OFFSETS, Kind.REMOTE_OFFSETS_MISSING)
"""Offsets of a log before the first segment that is read."""


@dataclass(frozen=True, slots=True)
class KindDescription:
    """Describes a kind, as ``brokerless help KIND`` shows it. ``page`` is a page of the documents without suffix.
    ``remedy``: what to do before a start where this is why a broker does not start, or does not serve a partition.
    ``concerns``: records, or indexes that a broker builds from them."""

    severities: tuple[Severity, ...]
    page: str
    sentence: str
    advice: str
    remedy: str | None = None
    concerns: Literal["records", "indexes"] | None = None


@functools.cache
def describe_kinds() -> Mapping[str, KindDescription]:
    """Return the description of each kind by its name, in the order in which they are listed."""
    texts = tomllib.loads(resources.files("brokerless").joinpath("findings.toml").read_text())
    return {
        name: KindDescription(
            tuple(each["severity"]),
            each["page"],
            each["sentence"],
            advice=each["advice"],
            remedy=each.get("remedy"),
            concerns=each.get("concerns"),
        )
        for name, each in texts.items()
    }


def advice_of(kind: str) -> str | None:
    """Return what to do about a finding; None if its kind is not known, as one that another version wrote."""
    known = describe_kinds().get(kind)
    return None if known is None else known.advice


def harm_of(severity: Severity, kind: str) -> tuple[int, int, int]:
    """Return where a finding comes among others, those with the lowest first: by severity, records before what a broker
    does not start on, and that before the rest. Errors of indexes come after all warnings, as no record is lost."""
    rank, described = SEVERITIES.index(severity), describe_kinds().get(kind)
    if described is None:
        return rank, 2, rank
    if described.concerns == "indexes":
        return max(rank, 1), 3, rank
    return rank, 0 if described.concerns == "records" else 1 if described.remedy else 2, rank


def remedy_of(cause: Finding | str) -> str:
    """Return what to do before a start about a finding, or about one of a kind, for which a broker does not start or
    does not serve a partition. Raises KeyError for a kind that is no such cause."""
    kind = cause if isinstance(cause, str) else cause.kind
    remedy = describe_kinds()[kind].remedy
    if remedy is None:
        raise KeyError(kind)
    return remedy


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation about one place in one file.

    ``position`` is in bytes from the start of ``file``; ``offset`` is a
    Kafka offset, where one is known; ``expected`` and ``found`` are for people.
    """

    severity: Severity
    kind: Kind
    file: str
    _: KW_ONLY
    position: int | None = None
    offset: int | None = None
    message: str
    expected: str | None = None
    found: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        place = self.file if self.position is None else f"{self.file}, position {self.position}"
        text = f"{place}: {self.message}"
        details = [f"{name} {value}" for name, value in (("expected", self.expected), ("found", self.found)) if value]
        return f"{text} ({', '.join(details)})" if details else text

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = [(name, value) for name, value in self.as_dict().items() if value is not None]
        return html_table(f"{self.severity}: {self.kind}", ("field", "value"), rows)
