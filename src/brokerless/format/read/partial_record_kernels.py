"""A kernel that reads only the offset, timestamp and null key of v2 records, of many batches at a call.

This is what a broker reads of compressed batches that it will not rewrite: other fields are skipped one by one, and a
record's length is read and not used (``DefaultRecord.readPartiallyFrom``, 4.1.1).
"""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportReturnType=false, reportArgumentType=false, reportAssignmentType=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.kernel import kernel
from brokerless.format.layouts import LOG_APPEND_TIME
from brokerless.format.varint import MAX_VARINT_SIZE, MAX_VARLONG_SIZE, read_varint, read_varlong

ENDED, INVALID, BYTES_LEFT = 1, 2, 3
"""Why a batch's records cannot be read: its bytes end within one, one is malformed, or bytes remain after the last."""


@kernel(
    "void(Array(uint8, 1, 'C', readonly=True), int64[::1], int64[::1], int32[::1], int64[::1], int64[::1], int8[::1],"
    " int64[::1], int64[::1], uint8[::1], int64[::1], int8[::1])"
)
def read_partial_records(
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    counts: NDArray[np.int32],
    base_offsets: NDArray[np.int64],
    base_timestamps: NDArray[np.int64],
    timestamp_types: NDArray[np.int8],
    offset: NDArray[np.int64],
    timestamp: NDArray[np.int64],
    key_null: NDArray[np.uint8],
    row_ends: NDArray[np.int64],
    status: NDArray[np.int8],
) -> None:
    """Reads the records at ``buffer[starts[b]:ends[b]]`` of each batch.

    ``offset``, ``timestamp`` and ``key_null`` have capacity for all of them: at most one for every 7 bytes of a batch.
    Where ``timestamp_types`` is LogAppendTime, ``base_timestamps`` has the timestamp of every record. Batch ``b`` has
    the rows ``row_ends[b]`` to ``row_ends[b + 1]``; ``status``: 0, or why reading stopped.
    """
    row = np.int64(0)
    row_ends[0] = 0
    for batch in range(len(starts)):
        at, end = starts[batch], ends[batch]
        keeps_delta = timestamp_types[batch] != LOG_APPEND_TIME
        code = 0
        record = np.int64(0)
        while record < counts[batch] and code == 0:
            key_length, value_length, header_count = np.int64(-1), np.int64(-1), np.int64(0)
            field = at
            _, at = read_varint(buffer, field, end)
            if at < 0:
                code = ENDED if end - field < MAX_VARINT_SIZE else INVALID
                break
            field = at + 1
            delta, at = read_varlong(buffer, field, end)
            if at < 0:
                code = ENDED if end - field < MAX_VARLONG_SIZE else INVALID
                break
            field = at
            offset_delta, at = read_varint(buffer, field, end)
            if at < 0:
                code = ENDED if end - field < MAX_VARINT_SIZE else INVALID
                break
            field = at
            key_length, at = read_varint(buffer, field, end)
            if at < 0:
                code = ENDED if end - field < MAX_VARINT_SIZE else INVALID
                break
            if key_length > end - at:
                code = ENDED
                break
            field = at = at + max(0, key_length)
            value_length, at = read_varint(buffer, field, end)
            if at < 0:
                code = ENDED if end - field < MAX_VARINT_SIZE else INVALID
                break
            if value_length > end - at:
                code = ENDED
                break
            field = at = at + max(0, value_length)
            header_count, at = read_varint(buffer, field, end)
            if at < 0:
                code = ENDED if end - field < MAX_VARINT_SIZE else INVALID
                break
            if header_count < 0:
                code = INVALID
                break
            for _ in range(header_count):
                for part in range(2):
                    field = at
                    length, at = read_varint(buffer, field, end)
                    if at < 0:
                        code = ENDED if end - field < MAX_VARINT_SIZE else INVALID
                    elif part == 0 and length < 0:
                        code = INVALID
                    elif length > end - at:
                        code = ENDED
                    else:
                        at += max(0, length)
                    if code != 0:
                        break
                if code != 0:
                    break
            if code == 0:
                offset[row] = base_offsets[batch] + offset_delta
                timestamp[row] = base_timestamps[batch] + delta if keeps_delta else base_timestamps[batch]
                key_null[row] = key_length < 0
                row += 1
                record += 1
        if code == 0 and at != end and counts[batch] > 0:
            code = BYTES_LEFT
        status[batch] = code
        row_ends[batch + 1] = row
