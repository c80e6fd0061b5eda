"""The kernel that decodes whole v2 batches, if they are intact and have room: nearly all batches, at full speed.

What a record is, says :mod:`~brokerless.format.read.record_kernels`, which judges all other batches. What is decoded
here must be what that makes of it.
"""

# Intrinsics take what Numba gives them.
# pyright: reportCallIssue=false, reportReturnType=false, reportArgumentType=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.columns import SLACK
from brokerless.format.intrinsics import copy_value, keep_apart, prefetch
from brokerless.format.kernel import inlined, kernel, separate
from brokerless.format.layouts import LOG_APPEND_TIME
from brokerless.format.read.record_kernels import BATCHES_SIGNATURE, next_sequence
from brokerless.format.varint import read_varlong

NO_ROOM = -1
"""What a batch is given that the columns may have no room for."""
_AHEAD = 2048
"""How many bytes ahead of a record are fetched into the cache."""
_LEAST_RECORD = 7
"""Bytes of a record without key, value and headers."""


@kernel(f"int64({BATCHES_SIGNATURE})")
def decode_intact_batches(
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
) -> int:
    """Decodes batches ``first``, ``first + 1``, ... as :func:`~brokerless.format.read.record_kernels.decode_batches`
    does, up to the first that is to be left to that; returns which. ``given`` is :data:`NO_ROOM` where one is left
    only because the columns may have no room for it.

    Left to it is what is invalid in any way, a batch with a length above 1 MiB in it, and one that fewer than
    :data:`SLACK` bytes of the buffer follow.
    """
    rows, keys, values = used[0], used[1], used[2]
    headers, header_keys, header_values = used[3], used[4], used[5]
    has_keys, has_values, has_headers = selected[0] != 0, selected[1] != 0, selected[2] != 0
    batch = first
    while batch < len(starts):
        at, end, count = starts[batch], ends[batch], np.int64(counts[batch])
        size = end - at
        if count < 0 or count > size // _LEAST_RECORD or incomplete[batch] != 0 or end > len(buffer) - SLACK:
            break
        if (
            rows + count > len(offset)
            or (has_keys and keys + size > len(key_data) - SLACK)
            or (has_values and values + size > len(value_data) - SLACK)
            or (has_headers and header_keys + size > len(header_key_data) - SLACK)
            or (has_headers and header_values + size > len(header_value_data) - SLACK)
        ):
            given[batch] = NO_ROOM
            break
        base_offset, base_timestamp = base_offsets[batch], base_timestamps[batch]
        keeps_delta = timestamp_types[batch] != LOG_APPEND_TIME
        row, last = rows, rows + count
        while row < last:
            # The next records' positions are known too late for the processor to prefetch them by itself.
            for line in range(_AHEAD, _AHEAD + 192, 64):
                prefetch(buffer, at + line)
            length, body = _read_short(buffer, at)
            record_end = body + length
            if body < 0 or length < _LEAST_RECORD - 1 or record_end > end:
                break
            delta, position = _read_delta(buffer, body + 1, record_end)
            if position < 0:
                break
            offset_delta, position = _read_short(buffer, position)
            if position < 0:
                break
            key_length, key = _read_short(buffer, position)
            if key < 0 or key_length > record_end - key:
                break
            value_length, value = _read_short(buffer, key + max(key_length, 0))
            if value < 0 or value_length > record_end - value:
                break
            header_count, position = _read_short(buffer, value + max(value_length, 0))
            if header_count > 0 and position > 0:
                if has_headers and headers + header_count > len(header_value_null):
                    given[batch] = NO_ROOM
                    break
                position, headers, header_keys, header_values = _read_headers(
                    buffer, position, record_end, header_count, has_headers, header_key_ends, header_key_data,
                    header_value_ends, header_value_null, header_value_data, headers, header_keys, header_values,
                )  # fmt: skip
            if position != record_end or header_count < 0:
                break
            if has_keys and key_length > 0:
                copy_value(key_data, keys, buffer, key, key_length)
                keys += key_length
            if has_values and value_length > 0:
                copy_value(value_data, values, buffer, value, value_length)
                values += value_length
            here, one = np.uint64(row), np.uint64(1)
            offset[here] = base_offset + offset_delta
            timestamp[here] = base_timestamp + delta if keeps_delta else base_timestamp
            key_null[here] = key_length < 0
            value_null[here] = value_length < 0
            key_ends[here + one] = keys
            value_ends[here + one] = values
            header_ends[here + one] = headers
            row += 1
            at = record_end
        if row < last or at != end:
            break
        for row in range(rows, last):
            here = np.uint64(row)
            timestamp_type[here] = timestamp_types[batch]
            sequence[here] = next_sequence(base_sequences[batch], np.int32(offset[here] - base_offset))
        given[batch] = np.int32(count)
        rows = last
        used[0], used[1], used[2] = rows, keys, values
        used[3], used[4], used[5] = headers, header_keys, header_values
        batch += 1
    return batch


@inlined
def _read_short(buffer: NDArray[np.uint8], at: int) -> tuple[int, int]:
    """A varint of at most three bytes and the position after it; the position is -1 if it is longer."""
    byte = np.int64(buffer[np.uint64(at)])
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    second = np.int64(buffer[np.uint64(at + 1)])
    if second < 128:
        raw = (byte & 127) | (second << 7)
        return (raw >> 1) ^ -(raw & 1), at + 2
    third = np.int64(buffer[np.uint64(at + 2)])
    raw = (byte & 127) | ((second & 127) << 7) | (third << 14)
    return (raw >> 1) ^ -(raw & 1), at + 3 if third < 128 else np.int64(-1)


@inlined
def _read_delta(buffer: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """A varlong and the position after it; the position is -1 if it is not valid."""
    delta, after = _read_short(buffer, at)
    return (delta, after) if after > 0 else read_varlong(buffer, at, end)


@separate
def _read_headers(
    buffer: NDArray[np.uint8],
    at: int,
    end: int,
    count: int,
    has_headers: bool,
    header_key_ends: NDArray[np.int32],
    header_key_data: NDArray[np.uint8],
    header_value_ends: NDArray[np.int32],
    header_value_null: NDArray[np.uint8],
    header_value_data: NDArray[np.uint8],
    headers: int,
    header_keys: int,
    header_values: int,
) -> tuple[int, int, int, int]:
    """Reads the headers of a record that ends at ``end``. Returns the position after them, -1 if they are not intact,
    and how full the columns are."""
    keep_apart()
    for _ in range(count):
        if at >= end:
            return np.int64(-1), headers, header_keys, header_values
        key_length, key = _read_short(buffer, at)
        if key < 0 or key_length < 0 or key_length >= end - key:
            return np.int64(-1), headers, header_keys, header_values
        value_length, at = _read_short(buffer, key + key_length)
        if at < 0 or value_length > end - at:
            return np.int64(-1), headers, header_keys, header_values
        if has_headers:
            copy_value(header_key_data, header_keys, buffer, key, key_length)
            header_keys += key_length
            if value_length > 0:
                copy_value(header_value_data, header_values, buffer, at, value_length)
                header_values += value_length
            header_value_null[headers] = value_length < 0
            header_key_ends[headers + 1] = header_keys
            header_value_ends[headers + 1] = header_values
            headers += 1
        at += max(value_length, 0)
    return at, headers, header_keys, header_values
