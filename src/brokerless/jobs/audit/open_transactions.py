"""Lists open transactions, at which consumers with ``read_committed`` stop: who began each, and how to end it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from brokerless import arrow
from brokerless.internals.records import TRANSACTION_STATE
from brokerless.internals.tables import state_rows
from brokerless.jobs.audit.advice import abort_command_at
from brokerless.log.directory import PartitionPath
from brokerless.progress import Report
from brokerless.tables.partition_tables import read_transactions

TABLE = "openTransactions"


def open_transactions(
    partitions: Iterable[PartitionPath],
    others: Sequence[PartitionPath],
    on_damage: Report,
    max_batch_bytes: int | None = None,
) -> list[dict[str, Any]]:
    """Return a row for each open transaction of some partitions, the oldest first; times in ms. ``others``: partitions
    of the same log directory; ``__transaction_state`` among them has the names and states of transactional ids."""
    own = [each for each in others if each.topic == TRANSACTION_STATE]
    known = state_rows(own, ["transactionalIds"], on_damage, max_batch_bytes)["transactionalIds"] if own else []
    by_producer = {row["producerId"]: row for row in known}
    rows: list[dict[str, Any]] = []
    for partition in partitions:
        for row in arrow.rows(read_transactions(partition, on_damage)):
            if row["state"] != "open":
                continue
            state = by_producer.get(row["producerId"], {})
            rows.append(
                {
                    "topic": row["topic"],
                    "partition": row["partition"],
                    "firstOffset": row["firstOffset"],
                    "firstTimestamp": row["firstTimestamp"],
                    "lastTimestamp": row["lastTimestamp"],
                    "records": row["records"],
                    "producerId": row["producerId"],
                    "producerEpoch": row["producerEpoch"],
                    "transactionalId": state.get("transactionalId"),
                    "transactionState": state.get("state"),
                    "abortCommand": abort_command_at(row["topic"], row["partition"], row["firstOffset"]),
                }
            )
    rows.sort(key=lambda row: (row["firstTimestamp"] is None, row["firstTimestamp"]))
    return rows
