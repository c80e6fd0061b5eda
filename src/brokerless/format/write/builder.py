"""Builds one batch record by record, as Kafka's producer does.

For many records at once, see :mod:`brokerless.format.write.encoder`. Records are appended to one growing buffer after
the reserved header; closing compresses them once and writes the header. Source: ``MemoryRecordsBuilder`` (4.1.1).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from brokerless.bounds import MAX_INT32, check_after_failure, check_arguments, check_fields
from brokerless.errors import UsageError
from brokerless.format import layouts
from brokerless.format.codecs.compression import make_compressor
from brokerless.format.crc.kernels import crc32c_ranges
from brokerless.format.plain_varint import encode_zigzag
from brokerless.format.write.compression_ratio import CompressionRatioEstimator

DEFAULT_BATCH_SIZE = 16384
"""Bytes: the producer's ``batch.size``."""
RATE_FACTOR = np.float32(1.05)
"""``COMPRESSION_RATE_ESTIMATION_FACTOR``: compressing may turn out slightly worse than estimated."""
_NO_KEY_AND_VALUE = layouts.MESSAGE_V0_HEADER_SIZE + 4, layouts.MESSAGE_V1_HEADER_SIZE + 4

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class BatchAttributes:
    """The header fields of a batch that hold for all its records; names and defaults as in :data:`layouts.BATCH_V2`.

    Parameters
    ----------
    append_time
        The timestamp of all records (LogAppendTime), in ms; None for CreateTime.
    delete_horizon
        In ms; None for none.
    """

    base_offset: int = 0
    append_time: int | None = None
    producer_id: int = layouts.NO_PRODUCER_ID
    producer_epoch: int = layouts.NO_PRODUCER_EPOCH
    base_sequence: int = layouts.NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
    partition_leader_epoch: int = layouts.NO_PARTITION_LEADER_EPOCH
    delete_horizon: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


class BatchBuilder:
    """Fills one batch; :meth:`close` returns its bytes.

    Parameters
    ----------
    batch_size
        Bytes at which the batch is full.
    magic
        The message format: 0, 1 or 2.
    codec
        none, gzip, snappy, lz4 or zstd.
    level
        As ``compression.gzip.level`` and so on; None for Kafka's default.
    attributes
        The header's fields.
    ratio
        Estimates the compression ratio. Share one among the batches of a topic: each closed batch improves it.

    Raises
    ------
    UsageError
        For an unknown codec or level, and for attributes that the format does not have.
    """

    @check_arguments
    def __init__(
        self,
        batch_size: int = DEFAULT_BATCH_SIZE,
        magic: int = layouts.MAGIC_V2,
        codec: str = "none",
        level: int | None = None,
        attributes: BatchAttributes | None = None,
        ratio: CompressionRatioEstimator | None = None,
    ) -> None:
        self.attributes = attributes or BatchAttributes()
        self.magic, self.batch_size, self.ratio = magic, batch_size, ratio or CompressionRatioEstimator()
        self._compress = None if codec == "none" else make_compressor(codec, magic, level)
        self._codec = layouts.CODECS.index(codec)
        _check(self.attributes, magic)
        self._header_size = layouts.BATCH_V2_SIZE
        if magic < layouts.MAGIC_V2:
            self._header_size = _NO_KEY_AND_VALUE[magic] if self._compress else 0
        self._buffer = bytearray(self._header_size)
        self.count = 0
        self._base_timestamp = self.attributes.delete_horizon
        self._max_timestamp = layouts.NO_TIMESTAMP
        self._last_offset = self.attributes.base_offset - 1
        self._closed: bytes | None = None

    @property
    def estimated_size(self) -> int:
        """The estimated size of the batch in bytes; exact without a codec or once it is closed."""
        if self._closed is not None:
            return len(self._closed)
        written = len(self._buffer) - self._header_size
        if self._compress:
            written = int(np.float32(written) * self.ratio.estimate * RATE_FACTOR)
        return self._header_size + written

    @property
    def is_full(self) -> bool:
        return self._closed is not None or (self.count > 0 and self.batch_size <= self.estimated_size)

    @check_after_failure
    def has_room_for(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
    ) -> bool:
        """Return whether a record fits; the first always does."""
        if self.is_full or not self.count:
            return not self.is_full
        record = self._record(self._last_offset + 1, timestamp, key, value=value, headers=headers)
        return self.batch_size >= self.estimated_size + len(record)

    @check_after_failure
    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        offset: int | None = None,
    ) -> int:
        """Append a record, even if the batch is full, and return its offset: ``offset``, by default the next one.

        ``timestamp`` is in ms, -1 for none. Raises :class:`UsageError` for an offset that is not after the last one, a
        timestamp below -1, and headers where the format has none.
        """
        if self._closed is not None:
            raise UsageError("the batch is closed; begin another")
        offset = self._last_offset + 1 if offset is None else offset
        if offset <= self._last_offset:
            raise UsageError(f"offset {offset} after offset {self._last_offset}: offsets must increase")
        if offset - self.attributes.base_offset > MAX_INT32:
            raise UsageError(f"offset {offset} is too far from the batch's base offset {self.attributes.base_offset}")
        if timestamp < layouts.NO_TIMESTAMP:
            raise UsageError(f"timestamp {timestamp}: only -1 may be negative, for none")
        if headers and self.magic < layouts.MAGIC_V2:
            raise UsageError(f"message format v{self.magic} has no record headers")
        base_timestamp = timestamp if self._base_timestamp is None else self._base_timestamp
        if self.magic < layouts.MAGIC_V2 and self.attributes.append_time is not None:
            timestamp = self.attributes.append_time
        self._buffer += self._record(offset, timestamp, key, value=value, headers=headers)
        self._base_timestamp = base_timestamp
        self._last_offset = offset
        self.count += 1
        if self.magic:
            self._max_timestamp = max(self._max_timestamp, timestamp)
        return offset

    def close(self) -> bytes:
        """Return the batch, empty if nothing was appended. Further calls return the same bytes."""
        if self._closed is None:
            self._closed = self._close() if self.count else b""
        return self._closed

    def _record(
        self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
    ) -> bytes:
        if self.magic < layouts.MAGIC_V2:
            is_relative = self.magic == layouts.MAGIC_V1 and self._compress is not None
            stored = offset - self.attributes.base_offset if is_relative else offset
            attributes = layouts.TIMESTAMP_TYPE_BIT if self.magic and self.attributes.append_time is not None else 0
            return _message(self.magic, stored, attributes, timestamp=timestamp, key=key, value=value)
        base_timestamp = timestamp if self._base_timestamp is None else self._base_timestamp
        body = bytearray(1)
        body += encode_zigzag(timestamp - base_timestamp) + encode_zigzag(offset - self.attributes.base_offset)
        body += _nullable(key) + _nullable(value) + encode_zigzag(len(headers))
        for name, content in headers:
            body += _nullable(name.encode()) + _nullable(content)
        return encode_zigzag(len(body)) + bytes(body)

    def _close(self) -> bytes:
        written = len(self._buffer) - self._header_size
        payload = self._buffer
        if self._compress:
            compressed = self._compress(memoryview(self._buffer)[self._header_size :])
            payload = self._buffer[: self._header_size] + compressed
            self.ratio.update(len(compressed), written)
        if self.magic == layouts.MAGIC_V2:
            self._write_header(payload)
        elif self._compress:
            payload[: self._header_size] = self._wrapper_header(payload)
        return bytes(payload)

    def _write_header(self, batch: bytearray) -> None:
        attributes = self.attributes
        header: Any = np.zeros(1, layouts.BATCH_V2)
        header["base_offset"], header["size"] = attributes.base_offset, len(batch) - layouts.LOG_ENTRY_SIZE
        header["partition_leader_epoch"], header["magic"] = attributes.partition_leader_epoch, self.magic
        header["attributes"] = (
            self._codec
            | layouts.TIMESTAMP_TYPE_BIT * (attributes.append_time is not None)
            | layouts.TRANSACTIONAL_BIT * attributes.is_transactional
            | layouts.CONTROL_BIT * attributes.is_control
            | layouts.DELETE_HORIZON_BIT * (attributes.delete_horizon is not None)
        )
        header["last_offset_delta"] = self._last_offset - attributes.base_offset
        header["base_timestamp"] = self._base_timestamp
        header["max_timestamp"] = self._max_timestamp if attributes.append_time is None else attributes.append_time
        header["producer_id"], header["producer_epoch"] = attributes.producer_id, attributes.producer_epoch
        header["base_sequence"], header["count"] = attributes.base_sequence, self.count
        batch[: layouts.BATCH_V2_SIZE] = header.tobytes()
        checksum = np.empty(1, np.uint32)
        crc32c_ranges(
            np.frombuffer(batch, np.uint8), np.array([layouts.BATCH_CRC_START]), np.array([len(batch)]), checksum
        )
        at = layouts.position_of(layouts.BATCH_V2, "crc")
        batch[at : at + 4] = checksum.astype(">u4").tobytes()

    def _wrapper_header(self, wrapper: bytearray) -> bytes:
        attributes = self._codec | layouts.TIMESTAMP_TYPE_BIT * bool(
            self.magic and self.attributes.append_time is not None
        )
        timestamp = self._max_timestamp if self.attributes.append_time is None else self.attributes.append_time
        value = bytes(wrapper[self._header_size :])
        return _message(self.magic, self._last_offset, attributes, timestamp=timestamp, key=None, value=value)[
            : self._header_size
        ]


def _check(attributes: BatchAttributes, magic: int) -> None:
    layouts.check_magic(magic)
    has_producer = attributes.producer_id != layouts.NO_PRODUCER_ID
    if magic < layouts.MAGIC_V2 and (has_producer or attributes.is_transactional or attributes.is_control):
        raise UsageError(f"message format v{magic} has no producer ids, transactions and control batches")
    if magic < layouts.MAGIC_V2 and attributes.delete_horizon is not None:
        raise UsageError(f"message format v{magic} has no delete horizon")
    if attributes.is_transactional and not has_producer:
        raise UsageError("a transactional batch needs a producer id")
    if has_producer and attributes.producer_epoch < 0:
        raise UsageError("a producer id needs a producer epoch of 0 or more")
    if has_producer and attributes.base_sequence < 0 and not attributes.is_control:
        raise UsageError("a producer id needs a base sequence of 0 or more")


def _nullable(content: bytes | None) -> bytes:
    return encode_zigzag(-1) if content is None else encode_zigzag(len(content)) + content


def _message(magic: int, offset: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    """A v0 or v1 message with its log entry header."""
    covered = bytes([magic, attributes])
    if magic:
        covered += timestamp.to_bytes(8, "big", signed=True)
    for content in (key, value):
        covered += (-1 if content is None else len(content)).to_bytes(4, "big", signed=True) + (content or b"")
    head = offset.to_bytes(8, "big", signed=True) + (len(covered) + 4).to_bytes(4, "big")
    return head + zlib.crc32(covered).to_bytes(4, "big") + covered
