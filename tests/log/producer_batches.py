"""Batches as producers and coordinators write them: headers that mean something, and as much inside as is looked at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches, read_headers
from brokerless.format.read.batch_scan import scan_batches

COMMIT, ABORT = 1, 0


def batch(
    offset: int,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = -1,
    count: int = 1,
    transactional: bool = False,
    timestamp: int = 0,
) -> bytes:
    """A batch of ``count`` records, of which nothing but the header is there."""
    header = np.zeros(1, layouts.BATCH_V2)
    header["size"], header["magic"] = layouts.BATCH_V2_SIZE - layouts.LOG_ENTRY_SIZE, layouts.MAGIC_V2
    header["base_offset"], header["last_offset_delta"], header["count"] = offset, count - 1, count
    header["producer_id"], header["producer_epoch"], header["base_sequence"] = producer_id, epoch, sequence
    header["attributes"] = layouts.TRANSACTIONAL_BIT if transactional else 0
    header["base_timestamp"] = header["max_timestamp"] = timestamp
    return header.tobytes()


def marker(
    offset: int,
    producer_id: int,
    epoch: int = 0,
    type_id: int = COMMIT,
    coordinator_epoch: int = 0,
    timestamp: int = 0,
    key: bytes | None = None,
    value: bytes | None = None,
) -> bytes:
    """A control batch with one record, as a transaction coordinator lets a leader write it."""
    key = key if key is not None else np.array([0, type_id], ">i2").tobytes()
    value = value if value is not None else b"\0\0" + np.array(coordinator_epoch, ">i4").tobytes()
    body = bytes([0, 0, 0, 2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\0"
    return control(offset, producer_id, epoch, 1, timestamp, bytes([2 * len(body)]) + body)


def control(offset: int, producer_id: int, epoch: int, count: int, timestamp: int = 0, records: bytes = b"") -> bytes:
    """A control batch with ``records`` as they are given."""
    header = np.frombuffer(batch(offset, producer_id, epoch, -1, 1, True, timestamp), layouts.BATCH_V2).copy()
    header["attributes"] |= layouts.CONTROL_BIT
    header["count"] = count
    header["size"] += len(records)
    return header.tobytes() + records


def parse(data: bytes) -> tuple[Batches, NDArray[np.uint8]]:
    """The headers of batches one after the other, and the buffer that they are in."""
    buffer = np.frombuffer(data, np.uint8)
    return read_headers(buffer, scan_batches(buffer).positions), buffer
