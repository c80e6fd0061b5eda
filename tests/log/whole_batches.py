"""Batches v2 that are whole: with their records and checksums, in plain Python."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.crc.kernels import crc32c_ranges


def zigzag(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def record(offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes) -> bytes:
    body = b"\0" + zigzag(timestamp_delta) + zigzag(offset_delta)
    body += zigzag(-1) if key is None else zigzag(len(key)) + key
    body += zigzag(len(value)) + value + zigzag(0)
    return zigzag(len(body)) + body


def batch(
    base_offset: int,
    count: int = 1,
    timestamp: int = 1_600_000_000_000,
    value: bytes = b"value",
    *,
    epoch: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
    key: bytes | None = None,
    step: int = 1,
) -> NDArray[np.uint8]:
    """One batch of ``count`` records, a ms from one to the next, ``step`` offsets from one to the next. ``producer``:
    ID, epoch and first sequence."""
    records = b"".join(record(step * row, row, key, value) for row in range(count))
    header = np.zeros(1, layouts.BATCH_V2)
    header["base_offset"], header["partition_leader_epoch"], header["magic"] = base_offset, epoch, 2
    header["size"] = layouts.BATCH_V2_SIZE - layouts.LOG_ENTRY_SIZE + len(records)
    header["attributes"], header["last_offset_delta"], header["count"] = attributes, step * (count - 1), count
    header["base_timestamp"], header["max_timestamp"] = timestamp, timestamp + count - 1
    header["producer_id"], header["producer_epoch"], header["base_sequence"] = producer
    made = np.concatenate([header.view(np.uint8), np.frombuffer(records, np.uint8)])
    crc = np.zeros(1, np.uint32)
    crc32c_ranges(made, np.array([layouts.BATCH_CRC_START]), np.array([len(made)]), crc)
    made[: layouts.BATCH_V2_SIZE].view(layouts.BATCH_V2)["crc"] = crc
    return made


def marker(
    base_offset: int, producer: tuple[int, int], *, commit: bool, timestamp: int = 1_600_000_000_000, epoch: int = 0
) -> NDArray[np.uint8]:
    """An end-transaction marker of a producer (ID and epoch)."""
    key = bytes([0, 0, 0, 1 if commit else 0])
    bits = layouts.TRANSACTIONAL_BIT | layouts.CONTROL_BIT
    return batch(base_offset, 1, timestamp, bytes(6), key=key, producer=(*producer, -1), attributes=bits, epoch=epoch)


def with_largest(made: NDArray[np.uint8], timestamp: int) -> NDArray[np.uint8]:
    """The batch with another largest timestamp (ms) in its header, and the checksum of that."""
    made[: layouts.BATCH_V2_SIZE].view(layouts.BATCH_V2)["max_timestamp"] = timestamp
    crc = np.zeros(1, np.uint32)
    crc32c_ranges(made, np.array([layouts.BATCH_CRC_START]), np.array([len(made)]), crc)
    made[: layouts.BATCH_V2_SIZE].view(layouts.BATCH_V2)["crc"] = crc
    return made


def batches(*made: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Several batches, one behind the other."""
    return np.concatenate([np.empty(0, np.uint8), *made])


def shifted(offset: int, by: int) -> bytes:
    """A batch of ten records whose base offset is another one than it was, which no checksum covers."""
    return (offset + by).to_bytes(8, "big") + batch(offset, 10).tobytes()[8:]
