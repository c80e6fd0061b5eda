"""Finds the transactions that the coordinator completes when it runs again.

Sources: ``TransactionStateManager.loadTransactionMetadata``, ``TransactionCoordinator.abortTimedOutTransactions``
(4.1.1). Both were tried with a broker (``tests/kafka/test_directory_restart.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from brokerless.internals.records import TRANSACTION_STATE
from brokerless.internals.tables import state_rows
from brokerless.kafka_names import TopicPartition
from brokerless.log.directory import PartitionPath
from brokerless.progress import ignore


@dataclass(frozen=True, slots=True)
class EndedTransaction:
    """A transaction that is ended."""

    transactional_id: str
    producer_id: int
    state: str
    """The transaction's state; Ongoing where it is aborted as its time is over."""
    outcome: Literal["commit", "abort"]
    partitions: tuple[TopicPartition, ...]
    """The partitions that get a marker each, so that their logs end one offset later."""


def completions(
    partitions: Iterable[PartitionPath], there: set[TopicPartition], now_ms: int, max_batch_bytes: int | None = None
) -> Iterator[EndedTransaction]:
    """Yield the transactions that a start ends. ``partitions``: those of ``__transaction_state`` that a broker loads;
    ``there``: what it serves of the others."""
    own = [each for each in partitions if each.topic == TRANSACTION_STATE]
    if not own:
        return
    for row in state_rows(own, ["transactionalIds"], ignore, max_batch_bytes)["transactionalIds"]:
        outcome = _outcome(row, now_ms)
        if outcome is not None:
            topics = row["transactionPartitions"]
            places = ((each["topic"], number) for each in topics for number in each["partitionIds"])
            yield EndedTransaction(
                row["transactionalId"],
                row["producerId"],
                row["state"],
                outcome=outcome,
                partitions=tuple(sorted(place for place in places if place in there)),
            )


def _outcome(row: Mapping[str, Any], now_ms: int) -> Literal["commit", "abort"] | None:
    started = row["transactionStartTimestamp"]
    is_over = started is not None and started + row["transactionTimeoutMs"] < now_ms
    match row["state"]:
        case "PrepareCommit":
            return "commit"
        case "PrepareAbort" | "PrepareEpochFence":
            return "abort"
        # Those before end as they are loaded, this one by TransactionCoordinator.abortTimedOutTransactions.
        case "Ongoing" if is_over:
            return "abort"
        case _:
            return None
