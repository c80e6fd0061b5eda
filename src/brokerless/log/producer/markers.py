"""Reads end-transaction markers: the control records that commit or abort a transaction.

Sources: ``EndTransactionMarker``, ``ControlRecordType`` and ``ProducerAppendInfo.append`` (4.1.1), which check the
first record of a control batch only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.format.columns import RecordColumns
from brokerless.format.control import ABORT, COMMIT
from brokerless.format.read.batch_headers import Batches


@dataclass(frozen=True, slots=True)
class Marker:
    """A transaction marker."""

    is_abort: bool
    coordinator_epoch: int
    timestamp: int
    """The timestamp of the control record (ms)."""


@dataclass(frozen=True, slots=True)
class NoMarker:
    """A control batch in which Kafka would find no marker: the name of its exception, and why in our words."""

    exception: str
    message: str


def read_markers(buffer: NDArray[np.uint8], batches: Batches) -> list[Marker | NoMarker | None]:
    """Return the marker of each control batch; None for an empty one, which is what compaction left of a transaction's
    end."""
    # Numba is not imported before there are markers to be read.
    from brokerless.format.read.decoder import Decoder

    decoder = Decoder(headers=False, rows=1 << 10, data=1 << 16)
    chunks = [*decoder.decode(buffer, batches), decoder.flush()]
    found: dict[int, Marker | NoMarker] = {}
    for chunk in chunks:
        if chunk is None:
            continue
        # A batch that goes on in this chunk has given its first record before.
        rows = np.cumsum(chunk.given) - chunk.given
        for position, row in zip(
            chunk.positions[chunk.given > 0].tolist(), rows[chunk.given > 0].tolist(), strict=True
        ):
            found.setdefault(position, _marker(chunk.columns, row))
    counts = batches.count.tolist()
    broken = NoMarker("InvalidRecordException", "the marker cannot be read")
    return [
        found.get(position, None if count == 0 else broken)
        for position, count in zip(batches.positions.tolist(), counts, strict=True)
    ]


def _marker(columns: RecordColumns, row: int) -> Marker | NoMarker:
    key = b"" if columns.key_null[row] else _bytes(columns.key_ends, columns.key_data, row)
    value = b"" if columns.value_null[row] else _bytes(columns.value_ends, columns.value_data, row)
    if len(key) < 4 or _int16(key, 0) < 0:
        return NoMarker("InvalidRecordException", "the control record's key is too short, or its version is negative")
    if _int16(key, 2) not in (ABORT, COMMIT):
        return NoMarker("IllegalArgumentException", f"a control record of type {_int16(key, 2)} ends no transaction")
    if len(value) < 6 or _int16(value, 0) < 0:
        return NoMarker("InvalidRecordException", "the marker's value is too short, or its version is negative")
    epoch = int.from_bytes(value[2:6], "big", signed=True)
    return Marker(_int16(key, 2) == ABORT, epoch, int(columns.timestamp[row]))


def _bytes(ends: NDArray[np.int32], data: NDArray[np.uint8], row: int) -> bytes:
    return data[ends[row] : ends[row + 1]].tobytes()


def _int16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big", signed=True)
