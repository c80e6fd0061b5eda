"""The names that topics have had: also those of topics that were deleted, as long as the metadata log or a snapshot
has them."""

from __future__ import annotations

from brokerless.internals.entries import decode_entry, read_entries
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.names import CLUSTER_METADATA
from brokerless.progress import ignore


def topic_names(metadata: PartitionPath) -> dict[str, str]:
    """Return the names of all topics by their IDs, by all snapshots and the whole log. What is damaged of these is
    reported where the metadata itself is read. Raises UnreadableError."""
    found: dict[str, str] = {}
    snapshots = [each for file in metadata.snapshots for each in resolve(file.location).partitions]
    for each in (*snapshots, metadata):
        for entry in read_entries(each, CLUSTER_METADATA, ignore):
            record = decode_entry(entry, CLUSTER_METADATA, ignore)
            if record.type == "TOPIC_RECORD" and record.data is not None:
                found[record.data["topicId"]] = record.data["name"]
    return found
