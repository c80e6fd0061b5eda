"""Findings: each is one observation at one place in a file, of one of the kinds that are listed here.

``findings.toml``, next to this module, has the severities, the page, a sentence and the advice of each kind. A finding
is made by its kind, as in ``Kind.TOPIC_UNKNOWN.at(path, expected=topic_id)``, and takes from there what is not passed.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from enum import StrEnum
from importlib import resources
from typing import Any, Literal, NamedTuple

from brokerless.text import html_table, name_options

Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""The worst first."""

Scope = Literal["log", "start", "cluster"]
"""What a severity is about: whether a command yields all that the log has, what a broker's start does to these bytes,
and what is left of the cluster if all disks start."""
_SCOPES: tuple[Scope, ...] = ("log", "start", "cluster")


class Severities(NamedTuple):
    """The severity of a finding in each scope."""

    log: Severity
    start: Severity
    cluster: Severity

    @property
    def worst(self) -> Severity:
        return min(self, key=SEVERITIES.index)


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
    BATCH_ALONE = "batch-alone"
    NOT_BLANKED = "not-blanked"
    DAMAGE_SKIPPED = "damage-skipped"
    OUT_OF_FILES = "out-of-files"
    ANSWER_TOO_LARGE = "answer-too-large"
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
    ABORT_MARKER_MISSING = "abort-marker-missing"
    TRANSACTION_OPEN = "transaction-open"
    TRANSACTION_HANGING = "transaction-hanging"
    TRANSACTION_ONGOING = "transaction-ongoing"
    TRANSACTION_DECIDED = "transaction-decided"
    TRANSACTION_ORPHANED = "transaction-orphaned"
    TIMESTAMP_ABOVE_HEADER = "timestamp-above-header"
    TIMESTAMP_FUTURE = "timestamp-future"
    TIMESTAMP_UNIT = "timestamp-unit"
    TIMESTAMP_OUT_OF_RANGE = "timestamp-out-of-range"
    TIMESTAMP_BEFORE_1970 = "timestamp-before-1970"
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
    PERMISSION_DENIED = "permission-denied"
    UNREADABLE = "unreadable"
    FILE_SHRUNK = "file-shrunk"
    FILE_CHANGED = "file-changed"
    DELETED_MEANWHILE = "deleted-meanwhile"
    UNCOMMITTED = "uncommitted"
    LEFTOVER_FILE = "leftover-file"
    SWAP_FILE = "swap-file"
    SEGMENT_REPLACED = "segment-replaced"
    ORPHAN_INDEX = "orphan-index"
    FOREIGN_FILE = "foreign-file"
    FILE_NAME = "file-name"
    DIRECTORY_NAME = "directory-name"
    STRAY_DIRECTORY = "stray-directory"
    FUTURE_DIRECTORY = "future-directory"
    FUTURE_PROMOTED = "future-promoted"
    FUTURE_EMPTIED = "future-emptied"
    DELETED_DIRECTORY = "deleted-directory"
    TOPIC_NAME_CUT = "topic-name-cut"
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
    REMOTE_KEY_MISSING = "remote-key-missing"
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
    REPLICA_UNREADABLE = "replica-unreadable"
    DISK_WITHOUT_NODE = "disk-without-node"
    RECOVERY_CUTS = "recovery-cuts"
    RETENTION_MISREAD = "retention-misread"
    LOG_REFUSED = "log-refused"
    LOG_END_DAMAGED = "log-end-damaged"
    UNCLEAN_LEADER = "unclean-leader"
    FEWER_REPLICAS = "fewer-replicas"
    TOPIC_ID_LOST = "topic-id-lost"
    TOPIC_SETTINGS_LOST = "topic-settings-lost"
    GROUP_OFFSET_BEYOND_END = "group-offset-beyond-end"
    GROUP_OFFSET_BEFORE_START = "group-offset-before-start"
    POSITION_PAST_END = "position-past-end"
    COORDINATOR_MOVED = "coordinator-moved"
    GROUP_LAG = "group-lag"
    NOT_COMPARED = "not-compared"

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
    TARGET_TOPIC_MISSING = "target-topic-missing"
    TARGET_PARTITION_MISSING = "target-partition-missing"
    REPLICAS_NOT_GIVEN = "replicas-not-given"
    PARTITION_EXISTS = "partition-exists"
    TARGET_NOT_EMPTY = "target-not-empty"
    TOO_FEW_PARTITIONS = "too-few-partitions"
    TOO_FEW_REPLICAS = "too-few-replicas"
    TARGET_TOPIC_REFUSED = "target-topic-refused"
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
    VALUES_COMPACTED = "values-compacted"
    CONFIGS_UNKNOWN = "configs-unknown"
    CONFIG_DIFFERS = "config-differs"
    WRITTEN_BY_OTHERS = "written-by-others"
    GROUP_OFFSET_AFTER_END = "group-offset-after-end"
    SHARE_GROUP_TOPIC_IDS = "share-group-topic-ids"
    TOPIC_IDS_COMPRESSED = "topic-ids-compressed"
    OFFSETS_MISSED = "offsets-missed"
    HISTORY_CHANGED = "history-changed"
    TRANSACTION_CUT_OPEN = "transaction-cut-open"
    PARTITION_CHANGED_MEANWHILE = "partition-changed-meanwhile"
    REPLICA_DIVERGES = "replica-diverges"
    STORED_OFFSETS_LOST = "stored-offsets-lost"
    SNAPSHOT_SHRINKS = "snapshot-shrinks"
    OBJECT_NOT_REMOVED = "object-not-removed"
    SNAPSHOT_UNREADABLE = "snapshot-unreadable"
    ERASED_ON_DISK = "erased-on-disk"
    ERASED_TWICE = "erased-twice"
    ERASED_NOT_PRUNED = "erased-not-pruned"
    SNAPSHOT_UNSIGNED = "snapshot-unsigned"
    SEALED_DIFFERS = "sealed-differs"
    STORED_OBJECT_DIFFERS = "stored-object-differs"
    RESTORED_DIFFERS = "restored-differs"

    def __repr__(self) -> str:
        return repr(self.value)

    def at(
        self,
        file: str,
        message: str | None = None,
        *,
        severity: Severity | Severities | None = None,
        position: int | None = None,
        offset: int | None = None,
        expected: str | None = None,
        found: str | None = None,
    ) -> Finding:
        """Return a finding of this kind.

        Parameters
        ----------
        file
            The path of the file or directory, or what else the finding is about.
        message
            What was found; by default the sentence of the kind, without its full stop.
        severity
            In the scope ``log``, or in each one; by default that of the kind, of several the worst.
        position
            In bytes from the start of ``file``.
        offset
            A Kafka offset.
        expected, found
            For people.
        """
        kind = describe_kinds()[self]
        if message is None:
            message = kind.sentence[0].lower() + kind.sentence[1:].removesuffix(".")
        severity = severity or kind.by_scope or kind.severities[0]
        known = severity if isinstance(severity, Severities) else None
        return Finding(
            severity.log if isinstance(severity, Severities) else severity, self, file,
            position=position, offset=offset, message=message, expected=expected, found=found,
            by_scope=None if known == kind.by_scope else known,
        )  # fmt: skip


NOT_OPENED = (Kind.UNREADABLE_FILE, Kind.PERMISSION_DENIED, Kind.REMOTE_KEY_MISSING)
"""A file that was not read, whatever is in it."""
NOT_DECODED = {"key": Kind.KEY_NOT_DECODED, "value": Kind.VALUE_NOT_DECODED}
BEFORE_FIRST_SEGMENT = (Kind.REMOTE_OFFSETS, Kind.REMOTE_OFFSETS_MISSING)
"""Offsets of a log before the first segment that is read."""


@dataclass(frozen=True, slots=True)
class KindDescription:
    """Describes a kind, as ``brokerless help KIND`` shows it."""

    severities: tuple[Severity, ...]
    """Those that findings of this kind may have."""
    page: str
    """A page of the documents, without suffix."""
    sentence: str
    advice: str
    cases: Mapping[str, str] = field(default_factory=dict[str, str])
    """What to do in place of that, by the case of a finding, or its severity."""
    remedy: str | None = None
    """What to do before a start where this is why a broker does not start, or does not serve a partition."""
    concerns: Literal["records", "indexes"] | None = None
    """Records, or indexes that a broker builds from them."""
    by_scope: Severities | None = None
    """The severities in each scope, where they differ."""
    leaves_out: tuple[Severity, ...] = ()
    """The severities at which something requested is not in the output of a command that reads."""
    is_unread: bool = False
    """Whether whole files or objects are left out: what was not read was not verified either."""


@functools.cache
def describe_kinds() -> Mapping[str, KindDescription]:
    """Return the description of each kind by its name, in the order in which they are listed."""
    texts = tomllib.loads(resources.files("brokerless").joinpath("findings.toml").read_text())
    return {name: _describe(each) for name, each in texts.items()}


def _describe(row: Mapping[str, Any]) -> KindDescription:
    """``severity`` is one for all, those that circumstances decide on, or one for each scope."""
    severity = row["severity"]
    by_scope = Severities(**severity) if isinstance(severity, dict) else None
    severities = (severity,) if isinstance(severity, str) else by_scope or severity
    return KindDescription(
        tuple(each for each in SEVERITIES if each in (*severities, *row.get("sometimes", ()))),
        row["page"],
        row["sentence"],
        advice=row["advice"],
        **{name: row[name] for name in ("cases", "remedy", "concerns") if name in row},
        by_scope=by_scope,
        leaves_out=tuple(row.get("leaves_out", ())),
        is_unread=row.get("unread", False),
    )


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
    kind = cause if isinstance(cause, str) else cause.deciding_kind
    if (remedy := describe_kinds()[kind].remedy) is None:
        raise KeyError(kind)
    return remedy


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation about one place in one file. ``expected`` and ``found`` are texts for people."""

    severity: Severity
    kind: Kind
    file: str
    _: KW_ONLY
    position: int | None = None
    """In bytes from the start of ``file``."""
    offset: int | None = None
    """Kafka's offset, where one is known."""
    message: str
    expected: str | None = None
    found: str | None = None
    scope: Scope = "log"
    """The scope that ``severity`` is for."""
    by_scope: Severities | None = None
    """The severities in each scope, where they are not those of the kind."""
    case: str | None = None
    """What decides the advice: a case of its kind in ``findings.toml``, or another kind, whose advice it then has."""

    @property
    def advice(self) -> str | None:
        """What to do about it; None for an unknown kind, such as one that another version wrote."""
        described = describe_kinds().get(self.deciding_kind)
        return described and described.cases.get(self.case or self.severity, described.advice)

    @property
    def deciding_kind(self) -> str:
        """The kind that has its advice and remedy: its own, unless ``case`` is another kind."""
        return self.case if self.case is not None and self.case in describe_kinds() else self.kind

    @property
    def severities(self) -> Severities:
        """Its severities in the scopes ``log``, ``start`` and ``cluster``."""
        described = describe_kinds().get(self.kind)
        known = self.by_scope or (described.by_scope if described else None)
        return known or Severities(self.severity, self.severity, self.severity)

    @property
    def leaves_out(self) -> bool:
        """Whether something requested is not in the output of a command that reads."""
        described = describe_kinds().get(self.kind)
        return self.severity == "error" or (described is not None and self.severity in described.leaves_out)

    @property
    def is_unread(self) -> bool:
        """Whether whole files or objects that were expected are not read, and so not verified."""
        return self.leaves_out and (described := describe_kinds().get(self.kind)) is not None and described.is_unread

    def with_severities(self, severities: Severities) -> Finding:
        """Return the finding with other severities than those of its kind.

        Parameters
        ----------
        severities
            One for each scope.

        Returns
        -------
        Finding
            In the same scope.
        """
        return replace(self, severity=getattr(severities, self.scope), by_scope=severities)

    def in_scope(self, scope: Scope) -> Finding:
        """Return the finding with its severity in another scope.

        Parameters
        ----------
        scope
            ``log``, ``start`` or ``cluster``.

        Returns
        -------
        Finding
            The same finding, with that severity.
        """
        return replace(self, severity=getattr(self.severities, scope), scope=scope)

    def in_case(self, case: str) -> Finding:
        """Return the finding with the advice of a case.

        Parameters
        ----------
        case
            A case of its kind, or another kind, whose advice it then has.

        Returns
        -------
        Finding
            The same finding, in that case.
        """
        return replace(self, case=case)

    def at_worst(self) -> Finding:
        """Return the finding with the worst of its severities.

        Returns
        -------
        Finding
            In the scope that has this severity.
        """
        known = self.severities
        return self if known.worst == self.severity else self.in_scope(_SCOPES[known.index(known.worst)])

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name not in ("by_scope", "case")}

    def __str__(self) -> str:
        place = self.file if self.position is None else f"{self.file}, position {self.position}"
        text = f"{place}: {self.message}"
        details = [f"{name} {value}" for name, value in (("expected", self.expected), ("found", self.found)) if value]
        return name_options(f"{text} ({', '.join(details)})" if details else text)

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = [(name, value) for name, value in self.as_dict().items() if value is not None]
        return html_table(f"{self.severity}: {self.kind}", ("field", "value"), rows)
