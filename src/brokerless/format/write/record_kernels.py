"""Kernels that size and write the records of v2 batches and the messages of v0 and v1, and cut batches.

The layouts are those of ``DefaultRecord.writeTo`` and ``LegacyRecord.write`` (4.1.1): varints as short as they can be,
attributes 0.
"""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportReturnType=false, reportArgumentType=false, reportAssignmentType=false

from __future__ import annotations

import numpy as np

from brokerless.bounds import MAX_INT32
from brokerless.format.columns import CONTENTS_SIGNATURE
from brokerless.format.intrinsics import copy_value, store_u32_be, store_u64_be
from brokerless.format.kernel import inlined, kernel
from brokerless.format.layouts import LOG_APPEND_TIME
from brokerless.format.varint import size_of_varint, size_of_varlong, write_varint, write_varlong

LARGEST_DELTA = MAX_INT32
_BATCH_HEADER, _MESSAGE_OVERHEAD_V0, _MESSAGE_OVERHEAD_V1 = 61, 26, 34


@inlined
def _nullable_size(length: int, is_null: bool) -> int:
    return 1 if is_null else size_of_varint(length) + length


@inlined
def _record_size(
    row, offset_delta, timestamp_delta,
    key_ends, key_null, value_ends, value_null, header_ends, header_key_ends, header_value_ends, header_value_null,
) -> int:  # fmt: skip
    """Bytes of the record after its length."""
    first, last = np.int64(header_ends[row]), np.int64(header_ends[row + 1])
    size = (
        1
        + size_of_varlong(timestamp_delta)
        + size_of_varint(offset_delta)
        + _nullable_size(np.int64(key_ends[row + 1]) - key_ends[row], key_null[row] != 0)
        + _nullable_size(np.int64(value_ends[row + 1]) - value_ends[row], value_null[row] != 0)
        + size_of_varint(last - first)
    )
    for header in range(first, last):
        key_length = np.int64(header_key_ends[header + 1]) - header_key_ends[header]
        size += size_of_varint(key_length) + key_length
        size += _nullable_size(
            np.int64(header_value_ends[header + 1]) - header_value_ends[header], header_value_null[header] != 0
        )
    return size


@inlined
def _message_size(row, is_v0, key_ends, key_null, value_ends, value_null) -> int:
    """Bytes of the message with its log entry header."""
    size = _MESSAGE_OVERHEAD_V0 if is_v0 else _MESSAGE_OVERHEAD_V1
    if key_null[row] == 0:
        size += np.int64(key_ends[row + 1]) - key_ends[row]
    if value_null[row] == 0:
        size += np.int64(value_ends[row + 1]) - value_ends[row]
    return size


@inlined
def _write(buffer, at, row, ends, data) -> int:
    """A length and so many bytes; returns the position after them."""
    start = np.int64(ends[row])
    length = np.int64(ends[row + 1]) - start
    at = write_varint(buffer, at, length)
    copy_value(buffer, at, data, start, length)
    return at + length


@inlined
def _write_nullable(buffer, at, row, ends, null, data) -> int:
    if null[row] != 0:
        buffer[np.uint64(at)] = 1
        return at + 1
    return _write(buffer, at, row, ends, data)


@inlined
def _write_record(
    buffer, at, body, row, offset_delta, timestamp_delta,
    key_ends, key_null, key_data, value_ends, value_null, value_data,
    header_ends, header_key_ends, header_key_data, header_value_ends, header_value_null, header_value_data,
) -> int:  # fmt: skip
    """The record of a row, whose size after its length is ``body``; returns the position after it."""
    at = write_varint(buffer, at, body)
    buffer[np.uint64(at)] = 0
    at = write_varlong(buffer, at + 1, timestamp_delta)
    at = write_varint(buffer, at, offset_delta)
    at = _write_nullable(buffer, at, row, key_ends, key_null, key_data)
    at = _write_nullable(buffer, at, row, value_ends, value_null, value_data)
    first_header, last_header = np.int64(header_ends[row]), np.int64(header_ends[row + 1])
    at = write_varint(buffer, at, last_header - first_header)
    for header in range(first_header, last_header):
        at = _write(buffer, at, header, header_key_ends, header_key_data)
        at = _write_nullable(buffer, at, header, header_value_ends, header_value_null, header_value_data)
    return at


@inlined
def _is_full(write_limit: int, estimate: int, size: int, offset_delta: int) -> bool:
    """Return whether a batch that has records already takes no further one of ``size`` bytes."""
    return write_limit < estimate + size or write_limit <= estimate or offset_delta > LARGEST_DELTA


@kernel(f"int64(int64, int64, int64[::1], int64[::1], int64[::1], {CONTENTS_SIGNATURE}, uint8[::1], int64[::1])")
def write_records(
    first, gap, starts, base_offsets, base_timestamps,
    offset, timestamp, key_ends, key_null, key_data, value_ends, value_null, value_data,
    header_ends, header_key_ends, header_key_data, header_value_ends, header_value_null, header_value_data,
    buffer, ends,
) -> int:  # fmt: skip
    """Writes the v2 records of batches ``first``, ..., one after the other from the buffer's start on, with ``gap``
    bytes before each, until all are written or one does not fit; returns the batch to continue with.

    Batch ``b`` has the rows ``starts[b]`` to ``starts[b + 1]``; where it ends goes to ``ends[b]``. 64 bytes of the
    buffer stay free, for wide copies.
    """
    limit = len(buffer) - 64
    at = np.int64(0)
    for batch in range(first, len(ends)):
        at += gap
        if at > limit:
            return batch
        for row in range(starts[batch], starts[batch + 1]):
            offset_delta = offset[row] - base_offsets[batch]
            timestamp_delta = timestamp[row] - base_timestamps[batch]
            body = _record_size(
                row, offset_delta, timestamp_delta,
                key_ends, key_null, value_ends, value_null,
                header_ends, header_key_ends, header_value_ends, header_value_null,
            )  # fmt: skip
            if at + body + 5 > limit:
                return batch
            at = _write_record(
                buffer, at, body, row, offset_delta, timestamp_delta,
                key_ends, key_null, key_data, value_ends, value_null, value_data,
                header_ends, header_key_ends, header_key_data, header_value_ends, header_value_null, header_value_data,
            )  # fmt: skip
        ends[batch] = at
    return len(ends)


@kernel(f"int64(int64, int64, int64, {CONTENTS_SIGNATURE}, int64[::1])")
def size_messages(
    first, last, magic,
    offset, timestamp, key_ends, key_null, key_data, value_ends, value_null, value_data,
    header_ends, header_key_ends, header_key_data, header_value_ends, header_value_null, header_value_data,
    sizes,
) -> int:  # fmt: skip
    """Return how many bytes the rows ``first`` to ``last`` take as v0 or v1 messages, each with its log entry header:
    the ``sizes`` of each; returns their sum."""
    total = np.int64(0)
    for row in range(first, last):
        size = _message_size(row, magic == 0, key_ends, key_null, value_ends, value_null)
        sizes[row - first] = size
        total += size
    return total


@inlined
def _write_with_int32(buffer, at, row, ends, null, data) -> int:
    """Writes a key or value as v0 and v1 have it: a length in four bytes, -1 for null, and so many bytes."""
    if null[row] != 0:
        store_u32_be(buffer, at, np.int32(-1))
        return at + 4
    start = np.int64(ends[row])
    length = np.int64(ends[row + 1]) - start
    store_u32_be(buffer, at, np.int32(length))
    copy_value(buffer, at + 4, data, start, length)
    return at + 4 + length


@kernel(f"void(int64, int64, int64, int64, int64, int64, {CONTENTS_SIGNATURE}, int64[::1], uint8[::1])")
def write_messages(
    first, last, magic, attributes, append_time, base_offset,
    offset, timestamp, key_ends, key_null, key_data, value_ends, value_null, value_data,
    header_ends, header_key_ends, header_key_data, header_value_ends, header_value_null, header_value_data,
    positions, buffer,
) -> None:  # fmt: skip
    """Writes the rows ``first`` to ``last`` as messages at their ``positions``, in that order, all but their checksums.

    ``base_offset`` is subtracted from their offsets. ``append_time``: the timestamp of all of them where the timestamp
    type in ``attributes`` is LogAppendTime. The buffer needs 32 bytes more.
    """
    for row in range(first, last):
        at = positions[row - first]
        size = _message_size(row, magic == 0, key_ends, key_null, value_ends, value_null)
        store_u64_be(buffer, at, offset[row] - base_offset)
        store_u32_be(buffer, at + 8, np.int32(size - 12))
        buffer[np.uint64(at + 16)] = np.uint8(magic)
        buffer[np.uint64(at + 17)] = np.uint8(attributes)
        at += 18
        if magic != 0:
            store_u64_be(buffer, at, append_time if attributes & 8 else timestamp[row])
            at += 8
        at = _write_with_int32(buffer, at, row, key_ends, key_null, key_data)
        _write_with_int32(buffer, at, row, value_ends, value_null, value_data)


@kernel(f"int64(int64, int64, int64, int64, float32, uint8[::1], {CONTENTS_SIGNATURE}, int64[::1])")
def cut_rows(
    first, rows, magic, write_limit, ratio, breaks,
    offset, timestamp, key_ends, key_null, key_data, value_ends, value_null, value_data,
    header_ends, header_key_ends, header_key_data, header_value_ends, header_value_null, header_value_data,
    starts,
) -> int:  # fmt: skip
    """Return where batches begin when the rows from ``first`` on are appended until a batch is full: into ``starts``,
    until it is full or there are no more; returns how many batches. ``starts`` also gets where the last one ends.

    ``ratio``: the estimated compression ratio, 0 without a codec. ``breaks``: where a batch must begin;
    empty for nowhere.
    """
    is_v0, is_v2, is_compressed = magic == 0, magic == 2, ratio > 0
    header_size = (
        _BATCH_HEADER if is_v2 else (_MESSAGE_OVERHEAD_V0 if is_v0 else _MESSAGE_OVERHEAD_V1) if is_compressed else 0
    )
    batches, count = 0, 0
    written = np.int64(0)
    estimate = np.int64(0)
    base_offset, base_timestamp = np.int64(0), np.int64(0)
    row = first
    starts[0] = first
    while row < rows:
        if is_v2:
            delta = offset[row] - base_offset if count > 0 else 0
            body = _record_size(
                row, delta, timestamp[row] - base_timestamp if count > 0 else 0,
                key_ends, key_null, value_ends, value_null,
                header_ends, header_key_ends, header_value_ends, header_value_null,
            )  # fmt: skip
            size = size_of_varint(body) + body
        else:
            delta = offset[row] - base_offset if count > 0 else 0
            size = _message_size(row, is_v0, key_ends, key_null, value_ends, value_null)
        if count > 0 and (_is_full(write_limit, estimate, size, delta) or (len(breaks) > 0 and breaks[row] != 0)):
            batches += 1
            starts[batches] = row
            count, written = 0, 0
            if batches == len(starts) - 1:
                return batches
            continue
        if count == 0:
            base_offset, base_timestamp = offset[row], timestamp[row]
        count += 1
        written += size
        packed = np.int64(np.float32(written) * ratio * np.float32(1.05)) if is_compressed else written
        estimate = header_size + packed
        row += 1
    if count > 0:
        batches += 1
        starts[batches] = rows
    return batches


END, COUNT, FIRST_OFFSET, LAST_OFFSET, FIRST_TIMESTAMP, MAX_TIMESTAMP, IS_APPEND_TIME = range(7)
"""The columns of a batch's row in :func:`fill_batches`."""


@kernel(
    f"UniTuple(int64, 2)(int64, int64, int64, Array(int8, 1, 'C', readonly=True), {CONTENTS_SIGNATURE}, "
    "uint8[::1], int64[:, ::1])"
)
def fill_batches(
    row, rows, write_limit, timestamp_types,
    offset, timestamp, key_ends, key_null, key_data, value_ends, value_null, value_data,
    header_ends, header_key_ends, header_key_data, header_value_ends, header_value_null, header_value_data,
    buffer, batches,
) -> tuple[int, int]:  # fmt: skip
    """Appends v2 records from ``row`` on to the batch that is open, and to new ones when it is full, until all ``rows``
    are written, the buffer or ``batches`` is full; returns the row to continue with, and the batch that is then
    open.

    ``batches``: shape ``(n, 7)``, of each batch :data:`END` (where its bytes end so far; the next one's begin there),
    :data:`COUNT` and so on. The first one is open, and may have no records. Headers are not
    written, and 64 bytes at the buffer's end stay free, for wide copies.
    """
    limit = len(buffer) - 64
    batch, start = np.int64(0), np.int64(0)
    while row < rows:
        at, count = batches[batch, END], batches[batch, COUNT]
        offset_delta = timestamp_delta = np.int64(0)
        if count > 0:
            offset_delta = offset[row] - batches[batch, FIRST_OFFSET]
            timestamp_delta = timestamp[row] - batches[batch, FIRST_TIMESTAMP]
        body = _record_size(
            row, offset_delta, timestamp_delta,
            key_ends, key_null, value_ends, value_null,
            header_ends, header_key_ends, header_value_ends, header_value_null,
        )  # fmt: skip
        is_append_time = np.int64(timestamp_types[row] == LOG_APPEND_TIME)
        if count > 0 and (
            _is_full(write_limit, at - start, size_of_varint(body) + body, offset_delta)
            or is_append_time != batches[batch, IS_APPEND_TIME]
            or (is_append_time != 0 and timestamp_delta != 0)
        ):
            if batch + 1 == len(batches):
                break
            batch, start = batch + 1, at
            batches[batch, END] = at
            batches[batch, COUNT] = 0
            continue
        if count == 0:
            at += _BATCH_HEADER
        if at + body + 5 > limit:
            break
        if count == 0:
            batches[batch, FIRST_OFFSET] = offset[row]
            batches[batch, FIRST_TIMESTAMP] = batches[batch, MAX_TIMESTAMP] = timestamp[row]
            batches[batch, IS_APPEND_TIME] = is_append_time
        batches[batch, END] = _write_record(
            buffer, at, body, row, offset_delta, timestamp_delta,
            key_ends, key_null, key_data, value_ends, value_null, value_data,
            header_ends, header_key_ends, header_key_data, header_value_ends, header_value_null, header_value_data,
        )  # fmt: skip
        batches[batch, COUNT] = count + 1
        batches[batch, LAST_OFFSET] = offset[row]
        batches[batch, MAX_TIMESTAMP] = max(batches[batch, MAX_TIMESTAMP], timestamp[row])
        row += 1
    return row, batch
