"""Which records of a group, a transactional id or a share group count: those in the partition where its coordinator
looks for them.

A coordinator loads the partitions that it leads, and asks the one that the hash of a name selects. After the number of
partitions was raised, names are looked for elsewhere than before: what was written until then stays, and no broker
reads it (KAFKA-7771, KAFKA-14418). A broker takes the number from the metadata when it starts, and stays with it. The
classic group coordinator of 3.9 is another matter: it finds groups of all partitions that it loads, and of two copies
the one that it loaded first, which is chance. Sources: ``GroupCoordinatorService.partitionFor``,
``TransactionStateManager.partitionFor``, ``ShareCoordinatorService.partitionFor``,
``SharePartitionKey.asCoordinatorKey`` (4.4.0). It was tried with brokers (``tests/kafka/test_coordinators.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np

from brokerless.bounds import MIN_INT64
from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import Cluster
from brokerless.internals.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from brokerless.internals.topic_settings import cluster_beside
from brokerless.log.directory import PartitionPath

NAMES = {CONSUMER_OFFSETS: "group", TRANSACTION_STATE: "transactional id", SHARE_GROUP_STATE: "share group"}
"""What the records of each topic are about."""
_UNLIKELY = 1000
"""In so many cases chance has the names of a partition hash to it once; then its number is taken for the last one."""
_SHOWN = 3

ValueT = TypeVar("ValueT")


@lru_cache(1 << 16)
def hash_code(name: str) -> int:
    """Return Java's ``String.hashCode``, which is over the units of UTF-16."""
    found = 0
    for unit in np.frombuffer(name.encode("utf-16-le", "surrogatepass"), np.dtype("<u2")).tolist():
        found = (31 * found + unit) & 0xFFFFFFFF
    return found - (1 << 32) if found >> 31 else found


def partition_of(name: str, count: int) -> int:
    """Return the partition, of so many, in which a coordinator looks for a name."""
    found = hash_code(name)
    return (0 if found == -(1 << 31) else abs(found)) % count  # Utils.abs: Java's has no positive number for this one


def share_key(group: str, topic_id: str, partition: int) -> str:
    """Return the name that decides where a share group's position in a partition is kept."""
    return f"{group}:{topic_id}:{partition}"


def name_of(topic: str, key: Mapping[str, Any]) -> str | None:
    """Return the name that decides in which partition of a topic a record's coordinator looks for it; None where its
    key has none. ``key``: as decoded."""
    if topic == TRANSACTION_STATE:
        return key.get("transactionalId")
    if topic == CONSUMER_OFFSETS:
        return key.get("group", key.get("groupId"))
    return share_key(key["groupId"], key["topicId"], key["partition"]) if "topicId" in key else None


def partition_counts(cluster: Cluster | None) -> dict[str, int]:
    """Return how many partitions each of the coordinators' topics has by the metadata; those that it has."""
    if cluster is None:
        return {}
    return {topic: count for topic in NAMES if (count := len(cluster.partitions_of(topic)))}


def counts_beside(partitions: Iterable[PartitionPath]) -> dict[str, int]:
    """Return the same as the metadata in a log directory of some partitions has it; none where there is none."""
    for each in partitions:
        location = each.location if each.partition is not None else each.location.parent
        found = None if location is None else cluster_beside(location)
        if found is not None:
            return partition_counts(found)
    return {}


@dataclass(frozen=True, slots=True)
class Entry(Generic[ValueT]):
    """An entry for a name in a partition."""

    name: str
    partition: int
    timestamp: int
    """The timestamp of the name's newest record in the partition (ms)."""
    value: ValueT


def count_of(
    topic: str, counts: Mapping[str, int], entries: Iterable[Entry[Any]], numbers: Collection[int]
) -> int | None:
    """Return how many partitions a topic has: by the metadata (``counts``, as of :func:`partition_counts`), or else by
    the directories, if they are all there. ``numbers``: of the partitions that are there, and ``entries`` all that they
    have. None where the number is not known."""
    known = counts.get(topic)
    if known is not None or not numbers or set(numbers) != set(range(max(numbers) + 1)):
        return known
    count = len(set(numbers))
    # The last partition is as old as the number is: all its names hash to it, unless there are more partitions
    # elsewhere.
    last = {each.name for each in entries if each.partition == count - 1}
    is_proven = all(partition_of(name, count) == count - 1 for name in last)
    return count if is_proven and count ** min(len(last), _UNLIKELY) >= _UNLIKELY else None


def current(entries: Sequence[Entry[ValueT]], count: int | None) -> tuple[list[Entry[ValueT]], list[Entry[ValueT]]]:
    """Split entries into those that a coordinator loads, where a topic has so many partitions, and those that it does
    not. Where the number is not known, the partition with the newest record of a name has it."""
    newest: dict[str, tuple[int, int]] = {}
    for each in entries if count is None else ():
        newest[each.name] = max(newest.get(each.name, (MIN_INT64, -1)), (each.timestamp, each.partition))
    loaded: list[Entry[ValueT]] = []
    moved: list[Entry[ValueT]] = []
    for each in entries:
        place = newest[each.name][1] if count is None else partition_of(each.name, count)
        (loaded if each.partition == place else moved).append(each)
    return loaded, moved


def load_entries(
    topic: str,
    entries: Sequence[Entry[ValueT]],
    partitions: Mapping[int, PartitionPath],
    counts: Mapping[str, int] | None,
) -> tuple[list[Entry[ValueT]], int | None, Iterator[Finding]]:
    """Return the entries that coordinators load of the partitions of a topic, how many partitions it has (None where
    that is not known), and the findings about entries that none loads. ``counts``: how many partitions coordinators'
    topics have (:func:`partition_counts`); without it, as the metadata in the partitions' log directories has it."""
    known = counts_beside(partitions.values()) if counts is None else counts
    count = count_of(topic, known, entries, partitions)
    loaded, moved = current(entries, count)
    return loaded, count, _moved(topic, count, loaded, moved=moved, partitions=partitions)


def _moved(
    topic: str,
    count: int | None,
    loaded: Iterable[Entry[Any]],
    moved: Iterable[Entry[Any]],
    partitions: Mapping[int, PartitionPath],
) -> Iterator[Finding]:
    """Yield a finding for each partition with entries that no coordinator loads."""
    known, by_partition = {each.name for each in loaded}, dict[int, set[str]]()
    for each in moved:
        by_partition.setdefault(each.partition, set()).add(each.name)
    for number, names in sorted(by_partition.items()):
        what = NAMES[topic] + "s" * (len(names) > 1)
        shown = ", ".join([*map(repr, sorted(names)[:_SHOWN]), *(["..."] if len(names) > _SHOWN else [])])
        where = "another partition has newer ones" if count is None else f"with {count} partitions it looks in others"
        text = f"records of {len(names)} {what} that no coordinator reads here, as {where} ({shown})"
        if unknown := len(names - known):
            text += f"; of {unknown} there is no state elsewhere, so that a broker of Kafka 4 has none"
        yield Kind.COORDINATOR_MOVED.at(partitions[number].path, text)
