"""Compares partitions with Kafka's internal topics: open transactions, assigned directories, committed offsets.

Open transactions by the transaction state, directories by the cluster's metadata, committed offsets by where logs begin
and end. Sources: ``TransactionStateManager``, ``TransactionCoordinator``, ``LogManager`` (stray replicas),
``OffsetMetadataManager`` (4.1.1); KIP-858, KIP-890.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from brokerless.findings import Finding, Kind
from brokerless.internals.records import CLUSTER_METADATA, TRANSACTION_STATE
from brokerless.jobs.audit.transactions import OpenTransaction

Rows = list[dict[str, Any]]
Place = tuple[str, int]

TABLES = ("offsets", "transactionalIds", "topics", "partitions")
"""The tables of :mod:`brokerless.internals` that are asked."""


@dataclass(frozen=True, slots=True)
class LivePartition:
    """A live partition: where it is, the offsets ``start_offset <= offset < end_offset`` of its log, the topic ID that
    it records, and its open transactions."""

    path: str
    start_offset: int
    end_offset: int
    topic_id: str | None
    open_transactions: tuple[OpenTransaction, ...] = ()


@dataclass(frozen=True, slots=True)
class DirectoryOwner:
    """Whose log directory it is, as ``meta.properties`` says; None where that is not known."""

    node_id: int | None
    directory_id: str | None


def check_internal_topics(
    tables: Mapping[str, Rows],
    replicas: Mapping[Place, LivePartition],
    there: Iterable[Place],
    node: DirectoryOwner,
    path: str,
) -> Iterator[Finding]:
    """``tables``: those of :data:`TABLES`, of the same log directory. ``replicas`` are what was read of it, and
    ``there`` all live partitions that it has; ``path`` is its own."""
    there = frozenset(there)
    yield from _transactions(tables, replicas, there)
    yield from _directories(tables, replicas, there, node=node, path=path)
    yield from _groups(tables, replicas)


def _transactions(
    tables: Mapping[str, Rows], replicas: Mapping[Place, LivePartition], there: Iterable[Place]
) -> Iterator[Finding]:
    states = [place for place in there if place[0] == TRANSACTION_STATE]
    if not states:
        return
    expected_partitions = {row["topic"]: row["partitions"] for row in tables["topics"]}.get(TRANSACTION_STATE)
    is_whole = expected_partitions == len(states)
    by_producer = {row["producerId"]: row for row in tables["transactionalIds"]}
    for place, replica in replicas.items():
        for each in replica.open_transactions:
            row = by_producer.get(each.producer_id)
            if row is not None or is_whole:
                yield _transaction(place, each, row)


def _transaction(place: Place, opened: OpenTransaction, row: dict[str, Any] | None) -> Finding:
    of_producer = f"the transaction of producer {opened.producer_id} that is open from offset {opened.first_offset} on"
    if row is None:
        text = f"{of_producer} is of no transactional id that is known: nobody will end it"
        return Finding(
            "warning",
            Kind.TRANSACTION_ORPHANED,
            opened.file,
            offset=opened.first_offset,
            message=text,
            expected="a transactional id",
            found="none",
        )
    name, state = row["transactionalId"], row["state"]
    takes_part = any(
        each["topic"] == place[0] and place[1] in each["partitionIds"] for each in row["transactionPartitions"]
    )
    if takes_part and state == "Ongoing":
        text = f"{of_producer} is that of transactional id {name!r}: its coordinator aborts it, "
        text += f"{row['transactionTimeoutMs']} ms after it began, unless its producer ends it"
        return Finding("info", Kind.TRANSACTION_ONGOING, opened.file, offset=opened.first_offset, message=text)
    if takes_part and state in ("PrepareCommit", "PrepareAbort"):
        end = state.removeprefix("Prepare").lower()
        text = f"{of_producer} is that of transactional id {name!r}, and it is decided: its coordinator writes the "
        return Finding(
            "info",
            Kind.TRANSACTION_DECIDED,
            opened.file,
            offset=opened.first_offset,
            message=f"{text}{end} marker when it runs again",
        )
    text = f"{of_producer} is that of transactional id {name!r}, whose coordinator has done with it: nobody will end it"
    found = state if takes_part or state != "Ongoing" else "Ongoing, without this partition"
    return Finding(
        "warning",
        Kind.TRANSACTION_ORPHANED,
        opened.file,
        offset=opened.first_offset,
        message=text,
        expected="Ongoing",
        found=found,
    )


def _directories(
    tables: Mapping[str, Rows],
    replicas: Mapping[Place, LivePartition],
    there: frozenset[Place],
    node: DirectoryOwner,
    path: str,
) -> Iterator[Finding]:
    if not tables["topics"]:
        return
    ids = {row["topic"]: row["topicId"] for row in tables["topics"]}
    topics = {topic_id: name for name, topic_id in ids.items()}
    rows = {(row["topic"], row["partition"]): row for row in tables["partitions"]}
    for place, replica in replicas.items():
        if place[0] == CLUSTER_METADATA or replica.topic_id is None:
            continue
        if replica.topic_id not in topics:
            text = "the cluster's metadata has no topic with the ID that is recorded here: a broker takes it for stray"
            if place[0] in ids:
                text += f"; {place[0]} was created again"
            expected = ids.get(place[0], "a topic of the cluster")
            yield Finding(
                "warning", Kind.TOPIC_UNKNOWN, replica.path, message=text, expected=expected, found=replica.topic_id
            )
        elif topics[replica.topic_id] != place[0]:
            text = "by its topic ID this is a partition of another topic"
            expected = topics[replica.topic_id]
            yield Finding(
                "error", Kind.TOPIC_ID_MISMATCH, replica.path, message=text, expected=expected, found=place[0]
            )
        elif not _is_here(rows.get(place), node):
            text = "the cluster's metadata has no replica of this partition here: a broker takes it for stray"
            found = str(rows[place]["replicas"]) if place in rows else "no such partition"
            expected = f"a replica on node {node.node_id}"
            yield Finding("warning", Kind.REPLICA_ELSEWHERE, replica.path, message=text, expected=expected, found=found)
    for place, row in rows.items():
        if node.node_id is not None and place not in there and _is_here(row, node):
            text = f"the cluster's metadata has a replica of {place[0]}-{place[1]} here, but there is no such directory"
            expected, found = "a directory", f"replicas {row['replicas']}, in sync {row['isr']}"
            yield Finding("warning", Kind.REPLICA_MISSING, path, message=text, expected=expected, found=found)


def _is_here(row: dict[str, Any] | None, node: DirectoryOwner) -> bool:
    """Return whether a partition has a replica on a node, and in this log directory of it; so if nothing else is
    known."""
    if row is None:
        return False
    if node.node_id is None:
        return True
    if node.node_id not in row["replicas"]:
        return False
    at = row["replicas"].index(node.node_id)
    directory = row["directories"][at] if at < len(row["directories"]) else ""
    # Kafka's reserved IDs (unassigned, lost, migrating) begin so, and leave it open which directory it is.
    return node.directory_id is None or not directory or directory.startswith("AAAA") or directory == node.directory_id


def _groups(tables: Mapping[str, Rows], replicas: Mapping[Place, LivePartition]) -> Iterator[Finding]:
    partition_lags: dict[tuple[str, str], dict[int, int]] = {}
    for row in tables["offsets"]:
        replica = replicas.get((row["topic"], row["partition"]))
        if replica is None:
            continue
        group, offset = row["group"], row["offset"]
        if offset > replica.end_offset:
            text = f"group {group!r} has read beyond the end of the log: what it has read is not there"
            expected = f"at most {replica.end_offset}, where the log ends"
            # A tool may commit any offset; a consumer records the leader epoch of what it has read.
            severity = "warning" if row["leaderEpoch"] >= 0 else "info"
            yield Finding(
                severity,
                Kind.GROUP_OFFSET_BEYOND_END,
                replica.path,
                offset=offset,
                message=text,
                expected=expected,
                found=f"offset {offset}",
            )
        elif offset < replica.start_offset:
            lost = replica.start_offset - offset
            text = f"group {group!r} had not read the {lost} offsets before the log's first one"
            expected = f"{replica.start_offset} or more, where the log begins"
            yield Finding(
                "info",
                Kind.GROUP_OFFSET_BEFORE_START,
                replica.path,
                offset=offset,
                message=text,
                expected=expected,
                found=f"offset {offset}",
            )
        if replica.end_offset > offset:
            lag = replica.end_offset - max(offset, replica.start_offset)
            partition_lags.setdefault((group, row["topic"]), {})[row["partition"]] = lag
    for (group, topic), lags in partition_lags.items():
        paths = [replicas[topic, number].path for number in lags]
        each = ", ".join(f"{topic}-{number}: {lag}" for number, lag in sorted(lags.items()))
        text = f"group {group!r} is {sum(lags.values())} offsets behind in {topic} ({each})"
        yield Finding("info", Kind.GROUP_LAG, paths[0], message=text)
