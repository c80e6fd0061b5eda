"""Slots of the two arrays, a segment's state and its limits, that ``segment_roll_kernels.py`` takes."""

SIZE, BASE_OFFSET, SINCE_ENTRY, MAX_TIMESTAMP, MAX_TIMESTAMP_OFFSET, FIRST_TIMESTAMP = 0, 1, 2, 3, 4, 5
OFFSET_ENTRIES, TIME_ENTRIES, LAST_TIME_ENTRY = 6, 7, 8
STATE = 9
"""A segment as numbers: bytes in its log, base offset, bytes since the last index entry, largest timestamp so far and
the last offset of the first batch that has it, largest timestamp of the first batch, entries in its offset and time
index, timestamp of the time index's last entry."""

SEGMENT_BYTES, SEGMENT_MS, MOST_OFFSET_ENTRIES, MOST_TIME_ENTRIES, INDEX_INTERVAL, AGE = 0, 1, 2, 3, 4, 5
LIMITS = 6
"""What a segment may have; ``AGE`` is the time in ms since it was created, used where batches have no timestamps."""
