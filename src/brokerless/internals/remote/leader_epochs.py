"""Finds tiered partitions whose ``leader-epoch-checkpoint`` lets a broker delete their remote segments.

A leader deletes the segments whose leader epochs are all before its first one, and all of them where it has none
(``RemoteLogManager``, 3.9.1, 4.4.0; tried in ``tests/kafka/test_remote_start.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from brokerless.findings import Finding, Kind
from brokerless.internals.remote.storage import (
    RemoteLogSegment,
    begun_segments,
    deleted_by_epochs,
)
from brokerless.internals.remote.unread_segments import load_remote_metadata
from brokerless.internals.topic_settings import read_topic_settings, topic_id_in_metadata
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import epochs_of, load_leader_epochs
from brokerless.log.checkpoint.partition_metadata import topic_id_of
from brokerless.log.directory import PartitionPath
from brokerless.log.settings.topic import has_remote_storage
from brokerless.log.tiered.detection import is_tiered, without_remote


def check_remote_epochs(partition: PartitionPath, damage: Finding | None = None) -> Finding | None:
    """Return whether a start deletes remote segments of a partition, by its leader epochs; None where it is not tiered.
    ``damage``: why the checkpoint cannot be parsed."""
    location = partition.location
    if partition.topic is None or partition.state != "live" or is_tiered(location):
        return None
    entry = partition.leader_epoch_checkpoint
    if entry is not None and is_tiered(entry.location):  # of a bucket that goes on after the local log
        entry = location.find_entry(names.LEADER_EPOCH_CHECKPOINT)
    epochs = () if entry is None else epochs_of(load_leader_epochs(entry.location))
    is_tiered_topic, segments = _remote_segments(partition, partition.topic)
    segments = [each for each in segments if each.end_offset >= partition.log_start_offset]
    count = len(segments)
    if epochs:
        segments = deleted_by_epochs(segments, epochs[0][0])
        is_lost = bool(segments)
    else:
        has_begun = any(each.base_offset or each.size for each in partition.local_segments)
        is_lost = bool(segments) or (is_tiered_topic and (has_begun or damage is not None))
    if not is_lost:
        return None
    if damage is not None:
        what, expected, found = damage.message, damage.expected, damage.found
    elif epochs:
        last = max(max(each.epochs, default=-1) for each in segments)
        first = min(min(each.epochs, default=last) for each in segments)
        what, expected, found = (
            "its first leader epochs are missing",
            f"epoch {first} or before",
            f"epoch {epochs[0][0]} first",
        )
    else:
        what, expected, found = "it has no leader epochs", "a line for each leader epoch", None
    which = f"its {count} remote segment{'s' * (count != 1)}" if segments else "its remote segments"
    if 0 < len(segments) < count:
        which = f"{len(segments)} of {which}"
    text = f"{what}; the topic is tiered, and a leader without its leader epochs deletes {which} from the bucket"
    path = (location / names.LEADER_EPOCH_CHECKPOINT).path if entry is None else entry.path
    return Kind.REMOTE_EPOCHS_LOST.at(path, text, expected=expected, found=found)


def _remote_segments(partition: PartitionPath, topic: str) -> tuple[bool, Sequence[RemoteLogSegment]]:
    """Return whether a topic is tiered by the metadata beside a partition, and what that partition has in remote
    storage."""
    location = without_remote(partition.location)
    settings = read_topic_settings(location, topic)
    is_enabled = settings is not None and has_remote_storage(settings)
    if settings is not None and not is_enabled:
        return False, ()
    topic_id = topic_id_in_metadata(location, topic) or topic_id_of(partition.partition_metadata)
    if topic_id is None:
        return is_enabled, ()
    begun = begun_segments(load_remote_metadata(location).metadata)
    return is_enabled, begun.get((topic_id, partition.partition or 0), ())
