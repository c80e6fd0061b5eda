"""Kernels that decode v0 and v1 messages, and the inner messages of wrappers, into record columns.

A message is a log entry (offset, size) and, in ``size`` bytes: crc, magic, attributes, a timestamp (v1), key and value,
each with an int32 length, below 0 for null. A wrapper message's value is a compressed sequence of messages.

What is accepted and refused is what ``LegacyRecord`` and ``AbstractLegacyRecordBatch.DeepRecordsIterator`` (3.9.1) do:
an inner message that is cut off ends the sequence silently, and a value may be shorter than its message. Kafka's file
reader does not look at inner checksums, but a consumer does, and throws (``CompletedFetch.maybeEnsureValid``, 4.4.0):
a message whose own is wrong is left out.
"""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportReturnType=false, reportArgumentType=false, reportAssignmentType=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.columns import (
    COLUMNS_SIGNATURE,
    MESSAGE_COMPRESSED,
    MESSAGE_CRC,
    MESSAGE_FIELD_INVALID,
    MESSAGE_TOO_LARGE,
    MESSAGE_TOO_SMALL,
    NO_MESSAGES,
    WRAPPER_OFFSET,
)
from brokerless.format.crc.kernels import crc32
from brokerless.format.intrinsics import copy_value, load_u32_be, load_u64_be
from brokerless.format.kernel import inlined, kernel
from brokerless.format.layouts import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP, NO_TIMESTAMP_TYPE

_LARGEST = 1 << 30
"""Kafka's reader allocates an inner message before it reads it; this size it never gets."""


@inlined
def _int32(buffer: NDArray[np.uint8], at: int) -> int:
    return np.int64(np.int32(load_u32_be(buffer, at)))


@inlined
def _read_message(
    buffer, at, end, offset_of, wrapper_type, wrapper_timestamp, selected,
    offset, timestamp, sequence, timestamp_type, key_ends, key_null, key_data, value_ends, value_null, value_data,
    header_ends, used,
) -> int:  # fmt: skip
    """One message, whose crc is at ``at``, as the next row; returns 0 or what is wrong with it.

    ``wrapper_type``: the timestamp type of the wrapper around it, or -2 for none.
    """
    row = used[0]
    magic = np.int8(buffer[at + 4])
    is_v0 = magic == 0
    key_at = at + 6 if is_v0 else at + 14
    if key_at + 4 > end:
        return MESSAGE_FIELD_INVALID
    key_length = _int32(buffer, key_at)
    value_at = key_at + 4 + max(0, key_length)
    if value_at + 4 > end:
        return MESSAGE_FIELD_INVALID
    value_length = _int32(buffer, value_at)
    if value_at + 4 + max(0, value_length) > end:
        return MESSAGE_FIELD_INVALID
    if wrapper_type != -2:
        timestamp_type[row] = wrapper_type
    elif is_v0:
        timestamp_type[row] = NO_TIMESTAMP_TYPE
    else:
        timestamp_type[row] = LOG_APPEND_TIME if buffer[at + 5] & 8 else CREATE_TIME
    if is_v0:
        timestamp[row] = NO_TIMESTAMP
    elif wrapper_type == LOG_APPEND_TIME and magic == 1:
        timestamp[row] = wrapper_timestamp
    else:
        timestamp[row] = np.int64(load_u64_be(buffer, at + 6))
    offset[row] = offset_of
    sequence[row] = -1
    if key_length > 0 and selected[0] != 0:
        copy_value(key_data, used[1], buffer, key_at + 4, key_length)
        used[1] += key_length
    if value_length > 0 and selected[1] != 0:
        copy_value(value_data, used[2], buffer, value_at + 4, value_length)
        used[2] += value_length
    key_null[row], value_null[row] = key_length < 0, value_length < 0
    key_ends[row + 1], value_ends[row + 1] = used[1], used[2]
    header_ends[row + 1] = used[3]
    used[0] += 1
    return 0


@kernel(
    "int64(Array(uint8, 1, 'C', readonly=True), int64, int64[::1], int64[::1], int64[::1], uint8[::1], "
    + COLUMNS_SIGNATURE
    + ", int32[::1], int8[::1])"
)
def decode_messages(
    buffer, first, starts, ends, offsets, selected,
    offset, timestamp, sequence, timestamp_type, key_ends, key_null, key_data, value_ends, value_null, value_data,
    header_ends, header_key_ends, header_key_data, header_value_ends, header_value_null, header_value_data, used,
    given, status,
) -> int:  # fmt: skip
    """Decodes uncompressed messages ``first``, ... (log entries at ``buffer[starts[i]:ends[i]]``) until all are decoded
    or one may not fit; returns the message to continue with. ``given`` and ``status`` as in
    :func:`brokerless.format.read.record_kernels.decode_batches`."""
    message = first
    while message < len(starts):
        size = ends[message] - starts[message]
        if (
            used[0] + 1 > len(offset)
            or (selected[0] != 0 and used[1] + size + 32 > len(key_data))
            or (selected[1] != 0 and used[2] + size + 32 > len(value_data))
        ):
            break
        status[message] = _read_message(
            buffer, starts[message] + 12, ends[message], offsets[message], -2, 0, selected,
            offset, timestamp, sequence, timestamp_type, key_ends, key_null, key_data, value_ends, value_null,
            value_data, header_ends, used,
        )  # fmt: skip
        given[message] = status[message] == 0
        message += 1
    return message


@kernel(
    "int64(Array(uint8, 1, 'C', readonly=True), int64, int64[::1], int64[::1], int64[::1], int8[::1], int8[::1],"
    " int64[::1], uint8[::1], " + COLUMNS_SIGNATURE + ", int32[::1], int8[::1], int64[::1], int64[::1], uint8[::1])"
)
def decode_wrappers(
    buffer, first, starts, ends, offsets, magics, timestamp_types, timestamps, selected,
    offset, timestamp, sequence, timestamp_type, key_ends, key_null, key_data, value_ends, value_null, value_data,
    header_ends, header_key_ends, header_key_data, header_value_ends, header_value_null, header_value_data, used,
    given, status, stopped_at, base_offsets, has_base_offset,
) -> int:  # fmt: skip
    """Decodes the inner messages at ``buffer[starts[w]:ends[w]]`` of wrappers ``first``, ... until all are decoded or
    one may not fit; returns the wrapper to continue with.

    ``offsets``, ``magics``, ``timestamp_types`` and ``timestamps`` are the wrappers' own. Also sets the first inner
    message's absolute offset (``RecordBatch.baseOffset``), where there is one.
    """
    wrapper = first
    while wrapper < len(starts):
        start, end = starts[wrapper], ends[wrapper]
        size = end - start
        if (
            used[0] + size // 26 + 1 > len(offset)
            or (selected[0] != 0 and used[1] + size + 32 > len(key_data))
            or (selected[1] != 0 and used[2] + size + 32 > len(value_data))
        ):
            break
        given[wrapper], status[wrapper], has_base_offset[wrapper] = 0, 0, 0
        # First a scan: offsets need the last inner offset, and an invalid size fails the whole wrapper.
        at, messages, last_inner_offset = start, 0, np.int64(0)
        while end - at >= 12:
            inner_size = _int32(buffer, at + 8)
            if inner_size < 14 or inner_size >= _LARGEST:
                status[wrapper] = MESSAGE_TOO_SMALL if inner_size < 14 else MESSAGE_TOO_LARGE
                break
            if inner_size > end - at - 12:
                break
            last_inner_offset = np.int64(load_u64_be(buffer, at))
            messages += 1
            at += 12 + inner_size
        stopped_at[wrapper] = at
        base = np.int64(0)
        if status[wrapper] == 0:
            if messages == 0:
                status[wrapper] = NO_MESSAGES
            elif magics[wrapper] == 1 and offsets[wrapper] != 0:
                # A wrapper offset of 0 comes from some versions of librdkafka, whose inner offsets count from 0.
                base = offsets[wrapper] - last_inner_offset
                if offsets[wrapper] < last_inner_offset:
                    status[wrapper] = WRAPPER_OFFSET
        if status[wrapper] == 0:
            at, wrong_at = start, np.int64(-1)
            for message in range(messages):
                if buffer[at + 17] & 7:
                    status[wrapper] = MESSAGE_COMPRESSED
                    break
                inner_offset = base + np.int64(load_u64_be(buffer, at))
                if message == 0:
                    base_offsets[wrapper], has_base_offset[wrapper] = inner_offset, 1
                inner_end = at + 12 + _int32(buffer, at + 8)
                if np.uint32(crc32(buffer, at + 16, inner_end)) != np.uint32(load_u32_be(buffer, at + 12)):
                    if wrong_at < 0:
                        wrong_at = at
                    at = inner_end
                    continue
                status[wrapper] = _read_message(
                    buffer, at + 12, inner_end, inner_offset, timestamp_types[wrapper], timestamps[wrapper], selected,
                    offset, timestamp, sequence, timestamp_type, key_ends, key_null, key_data, value_ends, value_null,
                    value_data, header_ends, used,
                )  # fmt: skip
                if status[wrapper] != 0:
                    break
                given[wrapper] += 1
                at = inner_end
            stopped_at[wrapper] = at
            if status[wrapper] == 0 and wrong_at >= 0:
                status[wrapper], stopped_at[wrapper] = MESSAGE_CRC, wrong_at
        wrapper += 1
    return wrapper
