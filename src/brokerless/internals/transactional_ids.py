"""The current state of ``__transaction_state``: transactional ids, their producers and transactions.

Sources: ``TransactionLog`` and ``TransactionState`` (4.1.1), KIP-890.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from brokerless.internals.entries import RawRecord
from brokerless.internals.records import InternalRecord

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""By ``transactionStatus``."""


def transactional_id_rows(records: Iterable[tuple[RawRecord, InternalRecord]]) -> list[dict[str, Any]]:
    """Return the rows of the table ``transactionalIds``, from the last record of each key."""
    rows: list[dict[str, Any]] = []
    for entry, record in records:
        data = record.data
        if data is None:
            continue
        status, start = data["transactionStatus"], data["transactionStartTimestampMs"]
        rows.append(
            {
                "transactionalId": record.key_data["transactionalId"],
                "state": STATES[status] if 0 <= status < len(STATES) else f"unknown ({status})",
                "producerId": data["producerId"],
                "producerEpoch": data["producerEpoch"],
                "previousProducerId": data.get("previousProducerId", -1),
                "nextProducerId": data.get("nextProducerId", -1),
                "nextProducerEpoch": data.get("nextProducerEpoch", -1),
                "transactionTimeoutMs": data["transactionTimeoutMs"],
                "transactionPartitions": data["transactionPartitions"] or [],
                "transactionStartTimestamp": None if start < 0 else start,
                "transactionLastUpdateTimestamp": data["transactionLastUpdateTimestampMs"],
                "clientTransactionVersion": data.get("clientTransactionVersion", 0),
                "recordOffset": entry.offset,
            }
        )
    return rows
