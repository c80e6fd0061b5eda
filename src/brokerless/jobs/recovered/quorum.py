"""Finds the intact files of KRaft's own log beside its segments: snapshots and ``quorum-state``."""

from __future__ import annotations

from collections.abc import Sequence

from brokerless.errors import UnreadableError
from brokerless.internals.metadata.cluster import is_complete_snapshot
from brokerless.log import names
from brokerless.log.checkpoint.quorum_state import load_quorum_state
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.location import DirectoryEntry


def newest_quorum_files(copies: Sequence[PartitionPath]) -> tuple[DirectoryEntry, ...]:
    """Those of the replica with the newest snapshot; none of other topics."""
    own = [quorum_files(each) for each in copies]
    return max(
        own, key=lambda files: max((each.name for each in files if each.name.endswith(".checkpoint")), default="")
    )


def quorum_files(partition: PartitionPath) -> tuple[DirectoryEntry, ...]:
    """Return the complete snapshots of the cluster's metadata, and the vote (``quorum-state``) if that can be read.
    Other topics have none."""
    if partition.topic != names.CLUSTER_METADATA:
        return ()
    found = [each for each in partition.snapshots if _is_complete(each)]
    vote = partition.quorum_state
    if vote is not None and not load_quorum_state(vote.location).findings:
        found.append(vote)
    return tuple(found)


def _is_complete(snapshot: DirectoryEntry) -> bool:
    try:
        (partition,) = resolve(snapshot.location).partitions
        return is_complete_snapshot(partition)
    except UnreadableError:
        return False
