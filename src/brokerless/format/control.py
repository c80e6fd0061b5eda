"""Decodes control records, and builds control batches: transaction markers and KRaft's control records.

A control record's key is a version (int16) and a type (int16); a transaction marker's value is a version (int16) and
the coordinator's epoch (int32). Those of KRaft are messages (``messages/control.json``) in their version 0, which
Kafka writes and reads whatever their field ``version`` says (``ControlRecordUtils``, 3.9.1 and 4.1.1). Sources: KIP-98,
KIP-595, KIP-630, KIP-853; ``ControlRecordType`` and ``EndTransactionMarker`` (4.1.1), which accept unknown types and
newer versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32, MAX_INT64, check_arguments, check_number
from brokerless.format import layouts
from brokerless.format.columns import RecordColumns, allocate
from brokerless.format.messages.layouts import load_messages
from brokerless.format.messages.reader import UnreadableMessageError, decode
from brokerless.format.messages.writer import encode

ABORT, COMMIT, LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(7)

TYPES = {
    ABORT: "ABORT",
    COMMIT: "COMMIT",
    LEADER_CHANGE: "LEADER_CHANGE",
    SNAPSHOT_HEADER: "SNAPSHOT_HEADER",
    SNAPSHOT_FOOTER: "SNAPSHOT_FOOTER",
    KRAFT_VERSION: "KRAFT_VERSION",
    KRAFT_VOTERS: "KRAFT_VOTERS",
}
"""Control record types by their id; any other is ``UNKNOWN``."""
UNKNOWN = "UNKNOWN"

LARGEST = 1 << 20
"""Larger values (bytes) are not decoded: a quorum's voters take some hundred."""

MESSAGES = dict(
    zip(
        (LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS),
        load_messages(Path(__file__).with_name("messages") / "control.json"),
        strict=True,
    )
)
"""The values of KRaft's control records."""
MESSAGE_VERSION = 0


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """A decoded control record."""

    type_id: int
    type: str
    coordinator_epoch: int | None = None
    """Of transaction markers, where the value has one."""
    data: dict[str, Any] | None = None
    """The data of KRaft's records under Kafka's field names, where Kafka could read it."""


def decode_control(key: bytes | None, value: bytes | None) -> ControlRecord | None:
    """Decodes a control record; None where its key is too short for a type."""
    if key is None or len(key) < 4:
        return None
    type_id = int.from_bytes(key[2:4], "big", signed=True)
    epoch, data = None, None
    if value is not None and type_id in (ABORT, COMMIT) and len(value) >= 6:
        epoch = int.from_bytes(value[2:6], "big", signed=True)
    elif value is not None and type_id in MESSAGES:
        data = decode_data(type_id, value)
    return ControlRecord(type_id, TYPES.get(type_id, UNKNOWN), epoch, data)


def decode_data(type_id: int, value: bytes) -> dict[str, Any] | None:
    """Return the fields of the value of one of KRaft's control records, under Kafka's names; None where Kafka could not
    read it, or it is larger than :data:`LARGEST`. What follows them is passed over, as Kafka does."""
    if len(value) > LARGEST:
        return None
    try:
        return decode(MESSAGES[type_id], MESSAGE_VERSION, value)[0]
    except UnreadableMessageError:
        return None


def encode_data(type_id: int, data: dict[str, Any]) -> bytes:
    """Return the bytes that Kafka writes for what :func:`decode_data` returns. Raises :class:`UsageError`."""
    return encode(MESSAGES[type_id], MESSAGE_VERSION, data)


def decode_controls(columns: RecordColumns) -> list[ControlRecord | None]:
    """Decodes each row; all must come from control batches."""

    def value(null: NDArray[np.uint8], ends: NDArray[np.int32], data: NDArray[np.uint8], row: int) -> bytes | None:
        return None if null[row] else data[ends[row] : ends[row + 1]].tobytes()

    return [
        decode_control(
            value(columns.key_null, columns.key_ends, columns.key_data, row),
            value(columns.value_null, columns.value_ends, columns.value_data, row),
        )
        for row in range(columns.rows)
    ]


@check_arguments
def build_transaction_marker(
    producer_id: int,
    producer_epoch: int,
    offset: int,
    timestamp: int,
    commit: bool,
    coordinator_epoch: int,
    leader_epoch: int,
) -> tuple[RecordColumns, NDArray[np.void]]:
    """Make the batch that ends a transaction (``MemoryRecords.withEndTransactionMarker``, 4.1.1).

    Parameters
    ----------
    producer_id, producer_epoch
        The transaction's producer.
    offset
        The offset of the batch.
    timestamp
        In ms.
    commit
        False aborts the transaction.
    coordinator_epoch, leader_epoch
        Those of the coordinator and of the partition's leader.

    Returns
    -------
    tuple
        The columns, and the header (:data:`layouts.BATCH_V2`), for an :class:`Encoder` of v2 without a codec.
    """
    for name, number, most in (
        ("producer_id", producer_id, MAX_INT64), ("producer_epoch", producer_epoch, (1 << 15) - 1),
        ("offset", offset, MAX_INT64), ("timestamp", timestamp, MAX_INT64),
        ("coordinator_epoch", coordinator_epoch, MAX_INT32), ("leader_epoch", leader_epoch, MAX_INT32),
    ):  # fmt: skip
        check_number(name, number, -most - 1, most, allowed=f"is not from {-most - 1} to {most}")
    value = b"\0\0" + coordinator_epoch.to_bytes(4, "big", signed=True)
    columns, header = _control_batch([(COMMIT if commit else ABORT, value)], offset, timestamp, leader_epoch)
    header["attributes"] |= layouts.TRANSACTIONAL_BIT
    header["producer_id"], header["producer_epoch"] = producer_id, producer_epoch
    return columns, header


def build_kraft_controls(
    records: Sequence[tuple[int, dict[str, Any]]], offset: int, timestamp: int, leader_epoch: int
) -> tuple[RecordColumns, NDArray[np.void]]:
    """Builds a batch of KRaft control records, each a type id and its ``data``, as :func:`build_transaction_marker`.

    As ``MemoryRecords.withLeaderChangeMessage`` and its likes write one record, and the beginning of a snapshot several
    (``SNAPSHOT_HEADER``, ``KRAFT_VERSION``, ``KRAFT_VOTERS``). Raises :class:`UsageError` for data that does not fit.
    """
    values = [(type_id, encode_data(type_id, data)) for type_id, data in records]
    return _control_batch(values, offset, timestamp, leader_epoch)


def _control_batch(
    values: list[tuple[int, bytes]], offset: int, timestamp: int, leader_epoch: int
) -> tuple[RecordColumns, NDArray[np.void]]:
    from brokerless.format.write.encoder import (
        build_headers,  # kernels, which reading what controls say needs not wait for
    )

    count = len(values)
    columns = allocate(count, 4 * count + sum(len(value) for _, value in values), 0)
    columns.used[0] = count
    columns.offset[:] = np.arange(offset, offset + count)
    columns.timestamp[:] = timestamp
    columns.timestamp_type[:] = layouts.CREATE_TIME
    columns.sequence[:] = layouts.NO_SEQUENCE
    columns.key_null[:], columns.value_null[:], columns.header_ends[:] = 0, 0, 0
    for row, (type_id, value) in enumerate(values):
        _put(columns.key_data, columns.key_ends, row, b"\0\0" + type_id.to_bytes(2, "big"))
        _put(columns.value_data, columns.value_ends, row, value)
    columns.used[1], columns.used[2] = columns.key_ends[count], columns.value_ends[count]
    header = build_headers(columns, np.array([0, count]))
    header["attributes"], header["partition_leader_epoch"] = layouts.CONTROL_BIT, leader_epoch
    return columns, header


def _put(data: NDArray[np.uint8], ends: NDArray[np.int32], row: int, value: bytes) -> None:
    ends[row + 1] = ends[row] + len(value)
    data[ends[row] : ends[row + 1]] = np.frombuffer(value, np.uint8)
