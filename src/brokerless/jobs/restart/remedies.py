"""What to do about each cause for which a broker does not start, or does not serve a partition."""

from __future__ import annotations

from brokerless.errors import Finding

_REBUILD = "brokerless rebuild, with all log directories of the cluster,"
_METADATA = f"put __cluster_metadata-0 of another node in its place, or {_REBUILD} writes it"
_OLDER = f"start a Kafka that knows it; {_REBUILD} and --metadata-version makes a cluster for an older one, if it can"
_ONE_OF_TWO = "keep the one that the metadata names, or else the one that ends later, and move the other one away"
_NODE = "leave directories of other nodes out of log.dirs; of a copied directory, keep the one whose logs end later"

LOG_REFUSED, LOG_END_DAMAGED = "log-refused", "log-end-damaged"
"""Causes that are no kind of finding: a log whose recovery fails, and one whose end is damaged after a clean stop."""

REMEDIES = {
    # The node
    "meta-properties-missing": f"{_REBUILD} writes one; without it in log.dirs, the others start",
    "meta-properties-corrupt": f"correct it by that of the node's other directories, or {_REBUILD} writes one",
    "meta-properties-incomplete": f"add what is missing, as in the node's other directories, or {_REBUILD} writes one",
    "meta-properties-differ": _NODE,
    "directory-id-repeated": _NODE,
    "directory-id-reserved": f"{_REBUILD} gives the directory another ID",
    "node-id-mismatch": "correct node.id in meta.properties and server.properties",
    "checkpoint-corrupt": "move the file away before the start: a broker writes it again",
    "bootstrap-checkpoint": f"copy it from another node of the cluster; what {_REBUILD} writes needs none",
    "unreadable-file": "check permissions and the disk",
    "directory-name": "move it out of the log directory",
    "cleaner-checkpoint-repeated": "remove the line of the directory without the partition, while the broker is down",
    # The cluster's metadata
    "metadata-version-unknown": _OLDER,
    "feature-unknown": _OLDER,
    "record-inapplicable": f"{_REBUILD} writes the state without it",
    "record-type-unknown": _OLDER,
    "record-version-unknown": _OLDER,
    "record-unreadable": _METADATA,
    "setting-refused": "change it by kafka-configs with a Kafka that takes it, or in tables for rebuild --from",
    "snapshot-not-whole": _METADATA,
    "metadata-gap": _METADATA,
    "foreign-metadata-batch": _METADATA,
    "quorum-state-corrupt": "move the file away before the start: the quorum writes it again",
    # Partitions' directories
    "partition-repeated": _ONE_OF_TWO,
    "future-repeated": _ONE_OF_TWO,
    "file-name": "move it out of the partition's directory",
    "partition-metadata-missing": f"write one with the ID of the topic before the start; {_REBUILD} does",
    "partition-metadata-corrupt": f"write one with the ID of the topic before the start; {_REBUILD} does",
    "topic-unknown": f"move it away before the start, as it is deleted later; {_REBUILD} with --adopt takes it in",
    "partition-unknown": f"move it away before the start, as it is deleted later; {_REBUILD} with --adopt takes it in",
    "replica-elsewhere": "move it away before the start, if its records are needed: it is deleted later",
    "topic-id-mismatch": "give it the name of the topic of its ID, or the partition.metadata of its topic",
    "topics-not-applied": "give the directory that is named the name of the topic of its ID, before the start",
    "directory-id-mismatch": f"add the missing directory to log.dirs; if it is lost, {_REBUILD} assigns this one",
    "segment-oversized": "brokerless convert divides it",
    LOG_REFUSED: "brokerless salvage writes what is intact, as a log that loads",
    LOG_END_DAMAGED: "remove .kafka_cleanshutdown: the log is recovered, and cut; brokerless salvage keeps the rest",
}


def remedy_of(cause: Finding | str) -> str:
    """Return what to do about a finding, or about one of a kind."""
    return REMEDIES[cause if isinstance(cause, str) else cause.kind]
