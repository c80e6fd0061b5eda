"""Predicts where a start moves the log start of a tiered partition, as its remote segments are not known.

A leader looks for the first remote segment of each leader epoch that it knows, in their order. Where
``__remote_log_metadata`` has none, the log begins with the first local segment: what is before it stays in the bucket,
and no consumer gets it any more. Source: ``RemoteLogManager.findLogStartOffset`` (3.9.1, 4.4.0); it was tried with both
(``tests/kafka/test_remote_start.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from brokerless.clusters.start.remote_deletions import leads
from brokerless.internals.remote.segment_events import metadata_partition
from brokerless.internals.remote.storage import RemoteStorage
from brokerless.kafka_names import TopicPartition
from brokerless.log.checkpoint.leader_epochs import Epochs
from brokerless.log.names import REMOTE_LOG_METADATA


@dataclass(frozen=True, slots=True)
class RemoteLogStart:
    """A log start that is moved from ``before`` to ``after``."""

    topic: str
    partition: int
    before: int
    after: int
    objects: int | None = None
    """How many objects the bucket has of this partition, None where no bucket was named."""


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """A tiered partition once it is loaded: where it begins by its checkpoint, and on the disk, and its leader epochs,
    each with its first offset."""

    log_start: int
    local_start: int
    epochs: Epochs


def remote_log_starts(
    storage: RemoteStorage,
    topics: Mapping[str, str],
    rows: Mapping[tuple[str, int], Mapping[str, Any]],
    node_id: int | None,
    loaded: Mapping[TopicPartition, LoadedLog],
) -> Iterator[RemoteLogStart]:
    """Yield the log starts that a node moves, of the partitions that it alone leads. ``topics``: all names by ID;
    ``rows``: of the cluster's metadata, by topic ID and partition; ``loaded``: its tiered partitions."""
    ids = {name: topic_id for topic_id, name in topics.items()}
    metadata_id = ids.get(REMOTE_LOG_METADATA)
    count = sum(topic_id == metadata_id for topic_id, _ in rows)
    for (topic, partition), log in loaded.items():
        topic_id = ids.get(topic, "")
        row = rows.get((topic_id, partition))
        if topic_id not in storage.topics or row is None or not leads(row, node_id):
            continue
        if metadata_id is not None and count:
            own = rows.get((metadata_id, metadata_partition(topic_id, partition, count)))
            if own is not None and not leads(own, node_id):
                continue  # another node has its events
        after = _first_offset(storage, (topic_id, partition), log)
        if after > log.log_start:
            yield RemoteLogStart(topic, partition, log.log_start, after)


def _first_offset(storage: RemoteStorage, place: tuple[str, int], log: LoadedLog) -> int:
    for epoch, _ in log.epochs:
        found = [each.start_offset for each in storage.begun.get(place, ()) if epoch in each.epochs]
        if found:
            return min(found)
    return log.local_start


def log_start_line(moved: Collection[RemoteLogStart]) -> str:
    """For people, what is said after the deletions."""
    places = [f"{each.topic}-{each.partition} from {each.before} to {each.after}" for each in moved]
    shown = ", ".join(places[:5]) + (f" and {len(places) - 5} more" if len(places) > 5 else "")
    objects = ""
    if all(each.objects is not None for each in moved):
        objects = f", of which the bucket has {sum(each.objects or 0 for each in moved)} objects,"
    which = "the log start of a tiered partition" if len(moved) == 1 else f"the log starts of {len(moved)} partitions"
    return (
        f"this start would move {which} ({shown}): __remote_log_metadata has no remote segments{objects} before that, "
        "and no consumer gets these records again; write it again, or give it back, before the start"
    )
