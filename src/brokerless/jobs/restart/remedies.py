"""What to do about each cause for which a broker does not start, or does not serve a partition."""

from __future__ import annotations

from brokerless.findings import Finding, Kind

_REBUILD = "brokerless rebuild, with all log directories of the cluster,"
_METADATA = f"put __cluster_metadata-0 of another node in its place, or {_REBUILD} writes it"
_OLDER = f"start a Kafka that knows it; {_REBUILD} and --metadata-version makes a cluster for an older one, if it can"
_ONE_OF_TWO = "keep the one that the metadata names, or else the one that ends later, and move the other one away"
_NODE = "leave directories of other nodes out of log.dirs; of a copied directory, keep the one whose logs end later"

LOG_REFUSED, LOG_END_DAMAGED = "log-refused", "log-end-damaged"
"""Causes that are no kind of finding: a log whose recovery fails, and one whose end is damaged after a clean stop."""

REMEDIES = {
    # The node
    Kind.META_PROPERTIES_MISSING: f"{_REBUILD} writes one; without it in log.dirs, the others start",
    Kind.META_PROPERTIES_CORRUPT: f"correct it by that of the node's other directories, or {_REBUILD} writes one",
    Kind.META_PROPERTIES_INCOMPLETE: f"add what is missing, as in the node's other directories, or "
    f"{_REBUILD} writes one",
    Kind.META_PROPERTIES_DIFFER: _NODE,
    Kind.DIRECTORY_ID_REPEATED: _NODE,
    Kind.DIRECTORY_ID_RESERVED: f"{_REBUILD} gives the directory another ID",
    Kind.NODE_ID_MISMATCH: "correct node.id in meta.properties and server.properties",
    Kind.CHECKPOINT_CORRUPT: "move the file away before the start: a broker writes it again",
    Kind.BOOTSTRAP_CHECKPOINT: f"copy it from another node of the cluster; what {_REBUILD} writes needs none",
    Kind.UNREADABLE_FILE: "check permissions and the disk",
    Kind.DIRECTORY_NAME: "move it out of the log directory",
    Kind.CLEANER_CHECKPOINT_REPEATED: "remove the line of the directory without the partition, "
    "while the broker is down",
    # The cluster's metadata
    Kind.METADATA_VERSION_UNKNOWN: _OLDER,
    Kind.FEATURE_UNKNOWN: _OLDER,
    Kind.RECORD_INAPPLICABLE: f"{_REBUILD} writes the state without it",
    Kind.RECORD_TYPE_UNKNOWN: _OLDER,
    Kind.RECORD_VERSION_UNKNOWN: _OLDER,
    Kind.RECORD_UNREADABLE: _METADATA,
    Kind.SETTING_REFUSED: "change it by kafka-configs with a Kafka that takes it, or in tables for rebuild --from",
    Kind.SNAPSHOT_NOT_WHOLE: _METADATA,
    Kind.METADATA_GAP: _METADATA,
    Kind.FOREIGN_METADATA_BATCH: _METADATA,
    Kind.QUORUM_STATE_CORRUPT: "move the file away before the start: the quorum writes it again",
    # Partitions' directories
    Kind.PARTITION_REPEATED: _ONE_OF_TWO,
    Kind.FUTURE_REPEATED: _ONE_OF_TWO,
    Kind.FILE_NAME: "move it out of the partition's directory",
    Kind.PARTITION_METADATA_MISSING: f"write one with the ID of the topic before the start; {_REBUILD} does",
    Kind.PARTITION_METADATA_CORRUPT: f"write one with the ID of the topic before the start; {_REBUILD} does",
    Kind.TOPIC_UNKNOWN: f"move it away before the start, as it is deleted later; {_REBUILD} with --adopt takes it in",
    Kind.PARTITION_UNKNOWN: f"move it away before the start, as it is deleted later; "
    f"{_REBUILD} with --adopt takes it in",
    Kind.REPLICA_ELSEWHERE: "move it away before the start, if its records are needed: it is deleted later",
    Kind.TOPIC_ID_MISMATCH: "give it the name of the topic of its ID, or the partition.metadata of its topic",
    Kind.TOPICS_NOT_APPLIED: "give the directory that is named the name of the topic of its ID, before the start",
    Kind.DIRECTORY_ID_MISMATCH: f"add the missing directory to log.dirs; if it is lost, {_REBUILD} assigns this one",
    Kind.SEGMENT_OVERSIZED: "brokerless convert divides it",
    LOG_REFUSED: "brokerless salvage writes what is intact, as a log that loads",
    LOG_END_DAMAGED: "remove .kafka_cleanshutdown: the log is recovered, and cut; brokerless salvage keeps the rest",
}


def remedy_of(cause: Finding | str) -> str:
    """Return what to do about a finding, or about one of a kind."""
    return REMEDIES[cause if isinstance(cause, str) else cause.kind]
