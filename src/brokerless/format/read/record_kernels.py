"""The kernel that decodes v2 records of decompressed batches into record columns, and says what is wrong with them.

Batches that are intact and have room are decoded by :mod:`~brokerless.format.read.intact_batch_kernels`, at more speed.

A record is a varint length and, in so many bytes: attributes (int8, ignored), timestamp delta (varlong), offset delta
(varint), key and value (varint length, below 0 for null, and bytes), header count and headers (KIP-82; varint key
length and UTF-8, varint value length and bytes).

What is accepted and refused is what ``DefaultRecord.readFrom`` and ``DefaultRecordBatch.RecordIterator`` (3.9.1) do.
"""

# Intrinsics take what Numba gives them.
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.columns import (
    BYTES_LEFT,
    COLUMNS_SIGNATURE,
    COUNT_NEGATIVE,
    FIELD_INVALID,
    HEADER_COUNT_INVALID,
    HEADER_KEY_NEGATIVE,
    LENGTH_INVALID,
    LENGTH_MISMATCH,
    LENGTH_PAST_END,
)
from brokerless.format.intrinsics import copy_value
from brokerless.format.kernel import inlined, kernel
from brokerless.format.layouts import LOG_APPEND_TIME
from brokerless.format.varint import read_varint, read_varlong

BATCHES_SIGNATURE = (
    "Array(uint8, 1, 'C', readonly=True), int64, int64[::1], int64[::1], int32[::1], int64[::1], int64[::1], int8[::1],"
    " int32[::1], uint8[::1], uint8[::1], " + COLUMNS_SIGNATURE + ", int32[::1]"
)
"""Numba's types of what both kernels take, from ``buffer`` to ``given``."""


@kernel(f"int64({BATCHES_SIGNATURE}, int8[::1], int64[::1], int64[::1])")
def decode_batches(
    buffer: NDArray[np.uint8],
    first: int,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    counts: NDArray[np.int32],
    base_offsets: NDArray[np.int64],
    base_timestamps: NDArray[np.int64],
    timestamp_types: NDArray[np.int8],
    base_sequences: NDArray[np.int32],
    incomplete: NDArray[np.uint8],
    selected: NDArray[np.uint8],
    offset: NDArray[np.int64],
    timestamp: NDArray[np.int64],
    sequence: NDArray[np.int32],
    timestamp_type: NDArray[np.int8],
    key_ends: NDArray[np.int32],
    key_null: NDArray[np.uint8],
    key_data: NDArray[np.uint8],
    value_ends: NDArray[np.int32],
    value_null: NDArray[np.uint8],
    value_data: NDArray[np.uint8],
    header_ends: NDArray[np.int32],
    header_key_ends: NDArray[np.int32],
    header_key_data: NDArray[np.uint8],
    header_value_ends: NDArray[np.int32],
    header_value_null: NDArray[np.uint8],
    header_value_data: NDArray[np.uint8],
    used: NDArray[np.int64],
    given: NDArray[np.int32],
    status: NDArray[np.int8],
    stopped_at: NDArray[np.int64],
    resume: NDArray[np.int64],
) -> int:
    """Decodes batches ``first``, ``first + 1``, ... whose records are ``buffer[starts[b]:ends[b]]``, until all are
    decoded or the next record does not fit into the columns; returns the batch to continue with.

    Where ``timestamp_types`` is LogAppendTime, ``base_timestamps`` has the timestamp of every record. ``incomplete``:
    decompressing the payload failed, so the batch cannot be whole. ``selected``: three flags, whether keys, values
    and headers are copied (they are checked all the same). ``used``: the fill of the columns (rows, key bytes, value
    bytes, headers, header key bytes, header value bytes), which grows.

    For each batch: ``given`` records (of this call), ``status`` (0 or what stopped it) and ``stopped_at``, the position
    in ``buffer``. ``resume``: the record of batch ``first`` to continue with and its position, 0 and 0 for a new batch;
    on return the same for the batch returned, and the bytes and headers of its next record.
    """
    rows, keys, values = used[0], used[1], used[2]
    headers, header_keys, header_values = used[3], used[4], used[5]
    has_keys, has_values, has_headers = selected[0] != 0, selected[1] != 0, selected[2] != 0
    total = len(starts)
    batch = first
    while batch < total:
        at, end, count = starts[batch], ends[batch], np.int64(counts[batch])
        record = np.int64(0)
        if resume[0] > 0:
            record, at = resume[0], resume[1]
            resume[0] = 0
        full = False
        code = 0
        if count < 0:
            code = COUNT_NEGATIVE
        base_offset, base_timestamp, base_sequence = base_offsets[batch], base_timestamps[batch], base_sequences[batch]
        keeps_delta = timestamp_types[batch] != LOG_APPEND_TIME
        batch_start_rows = rows
        record_start = at
        # Where the columns stood before the last record, to take it back.
        before_keys, before_values = keys, values
        before_headers, before_header_keys, before_header_values = headers, header_keys, header_values
        while record < count and code == 0:
            record_start = at
            before_keys, before_values = keys, values
            before_headers, before_header_keys, before_header_values = headers, header_keys, header_values
            length, at = read_varint(buffer, at, end)
            if at < 0:
                code = LENGTH_INVALID
                break
            if length > end - at:
                code = LENGTH_PAST_END
                break
            if (
                rows == len(offset)
                or (has_keys and keys + length > len(key_data) - 64)
                or (has_values and values + length > len(value_data) - 64)
                or (has_headers and header_keys + length > len(header_key_data) - 64)
                or (has_headers and header_values + length > len(header_value_data) - 64)
            ):
                full = True
                resume[2], resume[3] = length, 0
                break
            body, record_end = at, at + length
            delta, at = read_varlong(buffer, at + 1, end)
            if at < 0:
                code = FIELD_INVALID
                break
            offset_delta, at = read_varint(buffer, at, end)
            if at < 0:
                code = FIELD_INVALID
                break
            key_length, at = read_varint(buffer, at, end)
            if at < 0 or key_length > record_end - at:
                code = FIELD_INVALID
                break
            if key_length >= 0:
                if has_keys:
                    copy_value(key_data, keys, buffer, at, key_length)
                    keys += key_length
                at += key_length
            value_length, at = read_varint(buffer, at, end)
            if at < 0 or value_length > record_end - at:
                code = FIELD_INVALID
                break
            if value_length >= 0:
                if has_values:
                    copy_value(value_data, values, buffer, at, value_length)
                    values += value_length
                at += value_length
            header_count, at = read_varint(buffer, at, end)
            if at < 0:
                code = FIELD_INVALID
                break
            if header_count < 0 or header_count > (end - at) >> 1:  # two bytes are the shortest header
                code = HEADER_COUNT_INVALID
                break
            if has_headers and headers + header_count > len(header_value_null):
                full = True
                resume[2], resume[3] = length, header_count
                break
            for _ in range(header_count):
                header_key_length, at = read_varint(buffer, at, end)
                if at < 0 or header_key_length > record_end - at:
                    code = FIELD_INVALID
                    break
                if header_key_length < 0:
                    code = HEADER_KEY_NEGATIVE
                    break
                header_key = at
                at += header_key_length
                header_value_length, at = read_varint(buffer, at, end)
                if at < 0 or header_value_length > record_end - at:
                    code = FIELD_INVALID
                    break
                if has_headers:
                    copy_value(header_key_data, header_keys, buffer, header_key, header_key_length)
                    header_keys += header_key_length
                    if header_value_length > 0:
                        copy_value(header_value_data, header_values, buffer, at, header_value_length)
                        header_values += header_value_length
                    header_value_null[headers] = header_value_length < 0
                    header_key_ends[headers + 1] = header_keys
                    header_value_ends[headers + 1] = header_values
                    headers += 1
                if header_value_length > 0:
                    at += header_value_length
            if code != 0:
                break
            if at - body != length:
                code = LENGTH_MISMATCH
                break
            row, one = np.uint64(rows), np.uint64(1)
            offset[row] = base_offset + offset_delta
            timestamp[row] = base_timestamp + delta if keeps_delta else base_timestamp
            timestamp_type[row] = timestamp_types[batch]
            sequence[row] = next_sequence(base_sequence, offset_delta)
            key_null[row] = key_length < 0
            value_null[row] = value_length < 0
            key_ends[row + one] = keys
            value_ends[row + one] = values
            header_ends[row + one] = headers
            rows += 1
            record += 1
        if code == 0 and not full and count > 0 and (at != end or incomplete[batch] != 0):
            # Kafka checks for the end before it returns the last record.
            code = BYTES_LEFT
            rows -= 1
            record -= 1
            record_start = at
        if full or (code != 0 and code != COUNT_NEGATIVE):
            keys, values = before_keys, before_values
            headers, header_keys, header_values = before_headers, before_header_keys, before_header_values
        given[batch] = np.int32(rows - batch_start_rows)
        status[batch] = code
        stopped_at[batch] = record_start
        if full:
            resume[0], resume[1] = record, record_start
            break
        batch += 1
    used[0], used[1], used[2] = rows, keys, values
    used[3], used[4], used[5] = headers, header_keys, header_values
    return batch


@inlined
def next_sequence(base_sequence: int, offset_delta: int) -> int:
    """DefaultRecordBatch.incrementSequence, in Java's 32-bit arithmetic; -1 where a batch has no sequence."""
    if base_sequence < 0:
        return np.int32(-1)
    if np.int64(base_sequence) > np.int64(np.int32(2147483647 - offset_delta)):
        return np.int32(offset_delta - (2147483647 - base_sequence) - 1)
    return np.int32(base_sequence + offset_delta)
