"""Assigns offsets, leader epochs and timestamps to validated batches.

Only headers change where that is enough; otherwise records are rewritten. Of these fields, the checksum covers only the
timestamp type and the max timestamp; payloads are never decompressed for them.
Sources: ``DefaultRecordBatch.setMaxTimestamp`` and ``setLastOffset``, ``AbstractLegacyRecordBatch``,
``MemoryRecordsBuilder`` as ``LogValidator`` uses it (3.9.1, 4.1.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.append.types import AppendContext, AppendResult, refuse
from brokerless.format.arrays import Int64s
from brokerless.format.columns import RecordColumns
from brokerless.format.read.batch_headers import Batches, read_headers
from brokerless.format.write.encoder import Encoder
from brokerless.text import java_text

_FLAGS = layouts.CODEC_MASK | layouts.TRANSACTIONAL_BIT | layouts.CONTROL_BIT | layouts.DELETE_HORIZON_BIT


def assign_batch(buffer: NDArray[np.uint8], batch: Batches, timestamps: Int64s, context: AppendContext) -> AppendResult:
    """Sets the header of one v2 batch, whose records have these timestamps."""
    from brokerless.format.crc.kernels import crc32c_ranges

    at, end = int(batch.positions[0]), int(batch.ends[0])
    changed = buffer[:end].copy()
    header: Any = changed[at : at + layouts.BATCH_V2_SIZE].view(layouts.BATCH_V2)[0]
    next_offset = context.first_offset + len(timestamps)
    timestamp = context.max_timestamp(timestamps)
    header["base_offset"] = next_offset - 1 - int(header["last_offset_delta"])
    if context.to_magic >= layouts.MAGIC_V2:
        header["partition_leader_epoch"] = context.partition_leader_epoch
    if int(batch.timestamp_type[0]) != context.is_append_time or int(header["max_timestamp"]) != timestamp:
        header["attributes"] = int(batch.attributes[0]) & _FLAGS | layouts.TIMESTAMP_TYPE_BIT * context.is_append_time
        header["max_timestamp"] = timestamp
        checksum = np.empty(1, np.uint32)
        crc32c_ranges(changed, np.array([at + layouts.BATCH_CRC_START]), np.array([end]), checksum)
        header["crc"] = checksum[0]
    return AppendResult(
        changed, context.first_offset, next_offset, max_timestamp=timestamp, in_place=True, records_converted=0
    )


def assign_batches(
    buffer: NDArray[np.uint8],
    positions: Int64s,
    offsets: Int64s,
    max_timestamps: Int64s,
    is_unchanged: NDArray[np.bool_],
    context: AppendContext,
) -> None:
    """Sets the headers of many v2 batches, in place. ``offsets`` are added to their base offsets; the leader epoch is
    set, and so are the timestamps of batches whose records are as the producer sent them (``is_unchanged``)."""
    from brokerless.format.crc.kernels import crc32c_ranges

    batches = read_headers(buffer, positions)
    header: Any = batches.v2
    header["base_offset"] += offsets
    header["partition_leader_epoch"] = context.partition_leader_epoch
    scatter(buffer, positions, header)
    is_kept = (batches.timestamp_type == context.is_append_time) & (batches.max_timestamp == max_timestamps)
    rows = np.flatnonzero(is_unchanged & ~is_kept)
    flags = layouts.CODEC_MASK | layouts.TRANSACTIONAL_BIT | layouts.DELETE_HORIZON_BIT
    changed = header[rows]
    changed["attributes"] = batches.attributes[rows] & flags | layouts.TIMESTAMP_TYPE_BIT * context.is_append_time
    changed["max_timestamp"] = max_timestamps[rows]
    scatter(buffer, positions[rows], changed)
    checksums = np.empty(len(rows), np.uint32)
    crc32c_ranges(buffer, positions[rows] + layouts.BATCH_CRC_START, batches.ends[rows], checksums)
    scatter(buffer, positions[rows] + layouts.position_of(layouts.BATCH_V2, "crc"), checksums.astype(">u4"))


def assign_wrapper(
    buffer: NDArray[np.uint8], wrapper: Batches, timestamps: Int64s, context: AppendContext
) -> AppendResult:
    """Sets the header of one v1 wrapper message, whose inner messages have these timestamps."""
    next_offset = context.first_offset + len(timestamps)
    timestamp = context.max_timestamp(timestamps)
    changed = _set_messages(
        buffer, wrapper, np.array([next_offset - 1]), timestamps=np.array([timestamp]), context=context
    )
    return AppendResult(
        changed, context.first_offset, next_offset, max_timestamp=timestamp, in_place=True, records_converted=0
    )


def assign_messages(buffer: NDArray[np.uint8], messages: Batches, context: AppendContext) -> AppendResult:
    """Sets the headers of uncompressed v0 or v1 messages."""
    count = len(messages)
    timestamps = np.maximum(messages.max_timestamp, layouts.NO_TIMESTAMP)
    if context.is_append_time and context.to_magic > layouts.MAGIC_V0:
        timestamps = np.full(count, context.now_ms)
    changed = _set_messages(
        buffer, messages, context.first_offset + np.arange(count), timestamps=timestamps, context=context
    )
    return AppendResult(
        changed,
        context.first_offset,
        context.first_offset + count,
        max_timestamp=int(timestamps.max()),
        in_place=True,
        records_converted=0,
    )


def _set_messages(
    buffer: NDArray[np.uint8], messages: Batches, offsets: Int64s, timestamps: Int64s, context: AppendContext
) -> NDArray[np.uint8]:
    from brokerless.format.crc.kernels import crc32_ranges

    buffer = buffer[: int(messages.ends[-1])].copy()
    scatter(buffer, messages.positions, offsets.astype(">i8"))
    if context.to_magic == layouts.MAGIC_V0:
        return buffer
    kept = (messages.timestamp_type == context.is_append_time) & (messages.max_timestamp == timestamps)
    rows = np.flatnonzero(~kept)
    positions, checksums = messages.positions[rows], np.empty(len(rows), np.uint32)
    attributes = messages.codec[rows] | np.int8(layouts.TIMESTAMP_TYPE_BIT * context.is_append_time)
    scatter(buffer, positions + layouts.position_of(layouts.MESSAGE_V1, "attributes"), attributes)
    scatter(buffer, positions + layouts.position_of(layouts.MESSAGE_V1, "timestamp"), timestamps[rows].astype(">i8"))
    crc32_ranges(buffer, positions + layouts.MESSAGE_CRC_START, messages.ends[rows], checksums)
    scatter(buffer, positions + layouts.position_of(layouts.MESSAGE_V1, "crc"), checksums.astype(">u4"))
    return buffer


def scatter(buffer: NDArray[np.uint8], positions: Int64s, items: NDArray[Any]) -> None:
    """Writes items of a fixed size at any positions."""
    size = items.dtype.itemsize
    buffer[positions[:, np.newaxis] + np.arange(size)] = items.view(np.uint8).reshape(-1, size)


def check_writable(columns: RecordColumns, rows: int, to_magic: int) -> None:
    """Refuse what ``MemoryRecordsBuilder`` refuses to append, in the first ``rows`` records."""
    if (columns.timestamp[:rows] < layouts.NO_TIMESTAMP).any():
        refuse("IllegalArgumentException", "a timestamp below -1")
    if to_magic < layouts.MAGIC_V2 and rows and columns.header_ends[rows]:
        refuse("IllegalArgumentException", f"v{to_magic} has no record headers")


def rewrite_records(columns: RecordColumns, first: Batches, codec: int, context: AppendContext) -> AppendResult:
    """Return all records as one batch of the topic's format and a codec, or as messages. ``first``: the first of the
    batches that they come from, whose producer they keep. Changes the columns."""
    count, to_magic, first_offset = columns.rows, context.to_magic, context.first_offset
    codec_name, batch = layouts.CODECS[codec], first.take(slice(0, 1))
    if to_magic < layouts.MAGIC_V2 and codec_name == "zstd":
        refuse("IllegalArgumentException", f"v{to_magic} has no zstd")
    check_writable(columns, count, to_magic)
    _check_producer(batch, to_magic)
    timestamps = columns.timestamp[:count]
    timestamp = context.max_timestamp(timestamps)
    if to_magic == layouts.MAGIC_V0 and not context.is_append_time:
        timestamp = layouts.NO_TIMESTAMP
    if count == 0:
        if context.is_append_time and (codec or to_magic == layouts.MAGIC_V2):
            refuse("NullPointerException", "there is no record to rewrite, which Kafka does not expect")
        return AppendResult(
            np.empty(0, np.uint8),
            first_offset,
            first_offset,
            max_timestamp=timestamp,
            in_place=False,
            records_converted=0,
        )
    columns.offset[:count] = first_offset + np.arange(count)
    if to_magic == layouts.MAGIC_V2:
        normalize_header_keys(columns)
    transactional = layouts.TRANSACTIONAL_BIT * bool(batch.is_transactional[0])
    header = np.zeros(1, layouts.BATCH_V2)
    header["base_offset"], header["last_offset_delta"], header["count"] = first_offset, count - 1, count
    header["base_timestamp"], header["max_timestamp"] = timestamps[0], timestamp
    header["attributes"] = layouts.TIMESTAMP_TYPE_BIT * context.is_append_time | transactional
    header["partition_leader_epoch"] = context.partition_leader_epoch
    header["producer_id"], header["producer_epoch"] = batch.producer_id, batch.producer_epoch
    header["base_sequence"] = batch.base_sequence
    level = context.config.level if codec_name == context.config.codec else None
    buffer = Encoder(to_magic, codec_name, level).encode(columns, np.array([0, count]), header)
    return AppendResult(
        buffer, first_offset, first_offset + count, max_timestamp=timestamp, in_place=False, records_converted=count
    )


def _check_producer(batch: Batches, to_magic: int) -> None:
    """``MemoryRecordsBuilder.validateProducerState``."""
    if int(batch.producer_id[0]) == layouts.NO_PRODUCER_ID:
        if batch.is_transactional[0]:
            refuse("IllegalArgumentException", "a transaction without a producer id")
    elif int(batch.producer_epoch[0]) == layouts.NO_PRODUCER_EPOCH:
        refuse("IllegalArgumentException", "a producer id without an epoch")
    elif int(batch.base_sequence[0]) < 0:
        refuse("IllegalArgumentException", "a producer id without a sequence number")
    elif to_magic < layouts.MAGIC_V2:
        refuse("IllegalArgumentException", f"v{to_magic} has no producer ids")


def normalize_header_keys(columns: RecordColumns) -> None:
    """Replaces invalid UTF-8 in header keys: they become Java's strings where Kafka rewrites records."""
    count = int(columns.used[3])
    ends, data = columns.header_key_ends, columns.header_key_data
    if not count or not bool((data[: ends[count]] >= 0x80).any()):
        return
    whole, borders = data[: ends[count]].tobytes(), ends[: count + 1].tolist()
    keys = [java_text(whole[borders[i] : borders[i + 1]]).encode() for i in range(count)]
    columns.header_key_ends = np.cumsum([0, *map(len, keys)]).astype(np.int32)
    columns.header_key_data = np.frombuffer(b"".join(keys) + bytes(64), np.uint8)
    columns.used[4] = int(columns.header_key_ends[-1])
