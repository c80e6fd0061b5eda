"""Compares partitions with Kafka's internal topics: open transactions, and committed offsets.

Open transactions by the transaction state, committed offsets by where logs begin and end. Sources:
``TransactionStateManager``, ``TransactionCoordinator``, ``OffsetMetadataManager`` (4.1.1); KIP-890.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from brokerless.findings import Finding, Kind
from brokerless.internals.records import TRANSACTION_STATE
from brokerless.jobs.audit.transactions import OpenTransaction
from brokerless.kafka_names import TopicPartition

TopicRows = list[dict[str, Any]]

TABLES = ("offsets", "transactionalIds", "topics")
"""The tables of :mod:`brokerless.internals` that are asked."""


@dataclass(frozen=True, slots=True)
class LivePartition:
    """A live partition: where it is, the offsets ``start_offset <= offset < end_offset`` of its log, and its open
    transactions."""

    path: str
    start_offset: int
    end_offset: int
    open_transactions: tuple[OpenTransaction, ...] = ()


def check_internal_topics(
    tables: Mapping[str, TopicRows],
    replicas: Mapping[TopicPartition, LivePartition],
    there: Iterable[TopicPartition],
) -> Iterator[Finding]:
    """Yield findings about open transactions and committed offsets, by comparing partitions with the internal topics.

    ``tables`` are those of :data:`TABLES`, of the same log directory; ``replicas`` are what was read of it, and
    ``there`` all live partitions that it has.
    """
    there = frozenset(there)
    yield from _transactions(tables, replicas, there)
    yield from _groups(tables, replicas)


def _transactions(
    tables: Mapping[str, TopicRows], replicas: Mapping[TopicPartition, LivePartition], there: Iterable[TopicPartition]
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


def _transaction(place: TopicPartition, opened: OpenTransaction, row: dict[str, Any] | None) -> Finding:
    of_producer = f"the transaction of producer {opened.producer_id} that is open from offset {opened.first_offset} on"
    if row is None:
        text = f"{of_producer} is of no transactional id that is known: nobody will end it"
        return Kind.TRANSACTION_ORPHANED.at(
            opened.file, text, offset=opened.first_offset, expected="a transactional id", found="none"
        )
    name, state = row["transactionalId"], row["state"]
    takes_part = any(
        each["topic"] == place[0] and place[1] in each["partitionIds"] for each in row["transactionPartitions"]
    )
    if takes_part and state == "Ongoing":
        text = f"{of_producer} is that of transactional id {name!r}: its coordinator aborts it, "
        text += f"{row['transactionTimeoutMs']} ms after it began, unless its producer ends it"
        return Kind.TRANSACTION_ONGOING.at(opened.file, text, severity="info", offset=opened.first_offset)
    if takes_part and state in ("PrepareCommit", "PrepareAbort"):
        end = state.removeprefix("Prepare").lower()
        text = f"{of_producer} is that of transactional id {name!r}, and it is decided: its coordinator writes the "
        return Kind.TRANSACTION_DECIDED.at(
            opened.file, f"{text}{end} marker when it runs again", severity="info", offset=opened.first_offset
        )
    text = f"{of_producer} is that of transactional id {name!r}, whose coordinator has done with it: nobody will end it"
    found = state if takes_part or state != "Ongoing" else "Ongoing, without this partition"
    return Kind.TRANSACTION_ORPHANED.at(opened.file, text, offset=opened.first_offset, expected="Ongoing", found=found)


def _groups(tables: Mapping[str, TopicRows], replicas: Mapping[TopicPartition, LivePartition]) -> Iterator[Finding]:
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
            yield Kind.GROUP_OFFSET_BEYOND_END.at(
                replica.path, text, severity=severity, offset=offset, expected=expected, found=f"offset {offset}"
            )
        elif offset < replica.start_offset:
            lost = replica.start_offset - offset
            text = f"group {group!r} had not read the {lost} offsets before the log's first one"
            expected = f"{replica.start_offset} or more, where the log begins"
            yield Kind.GROUP_OFFSET_BEFORE_START.at(
                replica.path, text, offset=offset, expected=expected, found=f"offset {offset}"
            )
        if replica.end_offset > offset:
            lag = replica.end_offset - max(offset, replica.start_offset)
            partition_lags.setdefault((group, row["topic"]), {})[row["partition"]] = lag
    for (group, topic), lags in partition_lags.items():
        paths = [replicas[topic, number].path for number in lags]
        each = ", ".join(f"{topic}-{number}: {lag}" for number, lag in sorted(lags.items()))
        text = f"group {group!r} is {sum(lags.values())} offsets behind in {topic} ({each})"
        yield Kind.GROUP_LAG.at(paths[0], text)
