"""The layouts of batches, messages, index entries and snapshots as NumPy dtypes: the format's specification.

All numbers are big-endian, as Kafka writes them. ``offset`` and ``size`` (the 12-byte log entry header) come first in
every format, so that a reader finds the next batch without knowing what is inside this one.

Sources: KIP-32 (v1), KIP-98 (v2), KIP-101 (leader epoch), KIP-534 (delete horizon); org.apache.kafka.common.record
``LegacyRecord``, ``DefaultRecordBatch`` and ``Records``, 3.9.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from brokerless.errors import UsageError
from brokerless.kafka_names import COMPRESSION_TYPES

MAGIC_V0, MAGIC_V1, MAGIC_V2 = 0, 1, 2


def check_magic(magic: int) -> None:
    """Raise :class:`UsageError` for a message format that does not exist."""
    if magic not in (MAGIC_V0, MAGIC_V1, MAGIC_V2):
        raise UsageError(f"there is no message format v{magic}; there are v0, v1 and v2")


LOG_ENTRY = np.dtype([("offset", ">i8"), ("size", ">i4")])
"""What every message, wrapper message and batch starts with; ``size`` counts the bytes after these 12."""

MESSAGE_V0 = np.dtype(
    [
        ("offset", ">i8"),
        ("size", ">i4"),
        ("crc", ">u4"),
        ("magic", "i1"),
        ("attributes", "i1"),
        ("key_length", ">i4"),
    ]
)
"""v0: crc (CRC-32) covers magic to the end; then the key, ``value_length`` (>i4) and the value."""

MESSAGE_V1 = np.dtype(
    [
        ("offset", ">i8"),
        ("size", ">i4"),
        ("crc", ">u4"),
        ("magic", "i1"),
        ("attributes", "i1"),
        ("timestamp", ">i8"),
        ("key_length", ">i4"),
    ]
)
"""v1 (KIP-32): v0 and a timestamp in ms."""

BATCH_V2 = np.dtype(
    [
        ("base_offset", ">i8"),
        ("size", ">i4"),
        ("partition_leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
"""v2 (KIP-98): 61 bytes; crc (CRC-32C) covers attributes to the end; then ``count`` records, compressed as a whole."""


def position_of(layout: np.dtype[Any], name: str) -> int:
    """Return where a field of a layout starts, in bytes."""
    fields: Any = layout.fields
    return int(fields[name][1])


LOG_ENTRY_SIZE = LOG_ENTRY.itemsize
"""12 bytes: not counted in ``size``."""
MAGIC_POSITION = 16
"""Where the magic byte is, in every format."""
HEADER_SIZE_UP_TO_MAGIC = 17
MESSAGE_V0_OVERHEAD = 14
"""The smallest ``size`` that any format allows (crc, magic, attributes and two lengths)."""
MESSAGE_V1_OVERHEAD = 22
BATCH_V2_SIZE = BATCH_V2.itemsize

MESSAGE_CRC_START = 16
"""v0 and v1: the checksum covers everything from magic on."""
BATCH_CRC_START = 21
"""v2: the checksum covers everything from attributes on, so offset and leader epoch can be set without it."""

MESSAGE_V0_HEADER_SIZE = MESSAGE_V0.itemsize
"""22 bytes: where a v0 message's key starts."""
MESSAGE_V1_HEADER_SIZE = MESSAGE_V1.itemsize
"""30 bytes: where a v1 message's key starts."""

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
"""KIP-534: the base timestamp of the batch is the time at which its tombstones or markers may go."""

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1

CODECS = COMPRESSION_TYPES
"""Codec names by the id in the attributes (org.apache.kafka.common.record.CompressionType); 5 to 7 are unknown."""
NO_CODEC, GZIP, SNAPPY, LZ4, ZSTD = range(5)


def codec_name(codec: int) -> str:
    """Return the name of a codec by its id, or that it is unknown."""
    return CODECS[codec] if codec < len(CODECS) else f"unknown compression type id {codec}"


NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1

RECORD_OVERHEAD_V2 = 7
"""The fewest bytes that a v2 record takes: length, attributes, two deltas, key length, value length, header count."""

OFFSET_INDEX_ENTRY = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
"""``.index``: the last offset of what was appended at ``position`` (bytes in the log), less the base offset."""

TIME_INDEX_ENTRY = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
"""``.timeindex`` (KIP-33): no record up to this offset, less the base offset, has a larger timestamp (ms)."""

TRANSACTION_INDEX_ENTRY = np.dtype(
    [
        ("version", ">i2"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("last_stable_offset", ">i8"),
    ]
)
"""``.txnindex`` (KIP-98): an aborted transaction from its first record to its marker, which is in this segment."""

PRODUCER_SNAPSHOT_HEADER = np.dtype([("version", ">i2"), ("crc", ">u4"), ("count", ">i4")])
"""``.snapshot`` (KIP-98): crc (CRC-32C) covers everything from ``count`` on; then ``count`` entries."""

PRODUCER_SNAPSHOT_CRC_START = 6

PRODUCER_SNAPSHOT_ENTRY = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("last_sequence", ">i4"),
        ("last_offset", ">i8"),
        ("offset_delta", ">i4"),
        ("timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("current_txn_first_offset", ">i8"),
    ]
)
"""The last batch of a producer: ``last_offset`` -1 if it has none, ``current_txn_first_offset`` -1 outside of a
transaction; ``offset_delta`` is the last offset less the first one."""
