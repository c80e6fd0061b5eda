"""Decides when a segment rolls, and which batches get index entries (kernel).

One pass over the batches, with nothing but numbers, so that a call can take millions of them. The rules are those of
``UnifiedLog.maybeRoll``, ``LogSegment.shouldRoll`` and ``LogSegment.append`` of 4.1.1, as if each batch had been
appended by itself; one that is larger than a segment may be is alone in its own. (Until 4.0, an append of several
batches made one entry at most, with the last one's offset.) ``LogSegment.recover`` comes to the same entries.
"""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportReturnType=false, reportArgumentType=false, reportAssignmentType=false

from __future__ import annotations

from brokerless.bounds import MAX_INT32
from brokerless.format.arrays import Int64s
from brokerless.format.kernel import kernel
from brokerless.log.write.segment_numbers import (
    AGE,
    BASE_OFFSET,
    FIRST_TIMESTAMP,
    INDEX_INTERVAL,
    LAST_TIME_ENTRY,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_OFFSET,
    MOST_OFFSET_ENTRIES,
    MOST_TIME_ENTRIES,
    OFFSET_ENTRIES,
    SEGMENT_BYTES,
    SEGMENT_MS,
    SINCE_ENTRY,
    SIZE,
    TIME_ENTRIES,
)


@kernel(
    "UniTuple(int64, 3)(int64[::1], int64[::1], int64[::1], int64, int64[::1], int64[::1], "
    "int64[::1], int64[::1], int64[::1])"
)
def place_batches(
    sizes: Int64s,
    last_offsets: Int64s,
    max_timestamps: Int64s,
    row: int,
    state: Int64s,
    limits: Int64s,
    offset_entries: Int64s,
    time_entries: Int64s,
    time_entry_offsets: Int64s,
) -> tuple[int, int, int]:
    """Puts batches from ``row`` on into the segment ``state`` until one needs a new segment, or to the end.

    Fills ``offset_entries`` with the rows whose batches get an entry in the offset index, and ``time_entries`` (ms) and
    ``time_entry_offsets`` with the time index's entries. Returns the row that was not placed any more, and how many
    entries there are of either kind.
    """
    offset_count, time_count = 0, 0
    while row < len(sizes):
        size, last_offset, timestamp = sizes[row], last_offsets[row], max_timestamps[row]
        waited = limits[AGE]
        if state[SIZE] > 0 and state[FIRST_TIMESTAMP] >= 0:
            waited = timestamp - state[FIRST_TIMESTAMP]
        relative = last_offset - state[BASE_OFFSET]
        if (
            (state[SIZE] > 0 and state[SIZE] > limits[SEGMENT_BYTES] - size)
            or (state[SIZE] > 0 and waited > limits[SEGMENT_MS])
            or state[OFFSET_ENTRIES] >= limits[MOST_OFFSET_ENTRIES]
            or state[TIME_ENTRIES] >= limits[MOST_TIME_ENTRIES] - 1
            or relative < 0
            or relative > MAX_INT32
        ):
            break
        if state[SIZE] == 0:
            state[FIRST_TIMESTAMP] = timestamp
        if timestamp > state[MAX_TIMESTAMP]:
            state[MAX_TIMESTAMP] = timestamp
            state[MAX_TIMESTAMP_OFFSET] = last_offset
        if state[SINCE_ENTRY] > limits[INDEX_INTERVAL]:
            offset_entries[offset_count] = row
            offset_count += 1
            state[OFFSET_ENTRIES] += 1
            if state[MAX_TIMESTAMP] > state[LAST_TIME_ENTRY]:
                time_entries[time_count] = state[MAX_TIMESTAMP]
                time_entry_offsets[time_count] = state[MAX_TIMESTAMP_OFFSET]
                time_count += 1
                state[TIME_ENTRIES] += 1
                state[LAST_TIME_ENTRY] = state[MAX_TIMESTAMP]
            state[SINCE_ENTRY] = 0
        state[SINCE_ENTRY] += size
        state[SIZE] += size
        row += 1
    return row, offset_count, time_count
