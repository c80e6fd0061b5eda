"""The kernel against the rules of Kafka's ``LogSegment`` and ``TimeIndex`` (4.1.1), told once more in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from brokerless.log.write import segment_numbers as at
from brokerless.log.write.segment_roll_kernels import place_batches


@dataclass
class Segment:
    base_offset: int
    size: int = 0
    since_entry: int = 0
    max_timestamp: int = -1
    max_timestamp_offset: int = 0
    first_timestamp: int = -1
    offset_index: list[tuple[int, int]] = field(default_factory=list)
    time_index: list[tuple[int, int]] = field(default_factory=list)

    def should_roll(self, size: int, last_offset: int, timestamp: int, limits: np.ndarray) -> bool:
        waited = timestamp - self.first_timestamp if self.size and self.first_timestamp >= 0 else limits[at.AGE]
        return (
            (self.size > 0 and self.size > limits[at.SEGMENT_BYTES] - size)  # a larger one is alone in its own
            or (self.size > 0 and waited > limits[at.SEGMENT_MS])
            or len(self.offset_index) >= limits[at.MOST_OFFSET_ENTRIES]
            or len(self.time_index) >= limits[at.MOST_TIME_ENTRIES] - 1
            or not 0 <= last_offset - self.base_offset < 2**31
        )

    def append(self, row: int, size: int, last_offset: int, timestamp: int, interval: int) -> None:
        if not self.size:
            self.first_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = timestamp, last_offset
        if self.since_entry > interval:
            self.offset_index.append((row, self.size))
            if self.max_timestamp > (self.time_index[-1][0] if self.time_index else -1):
                self.time_index.append((self.max_timestamp, self.max_timestamp_offset))
            self.since_entry = 0
        self.since_entry += size
        self.size += size


BATCHES = st.lists(
    st.tuples(st.integers(61, 300), st.sampled_from([0, 1, 5, 2**30]), st.integers(-1, 60)), min_size=1, max_size=60
)


@given(
    batches=BATCHES,
    segment_bytes=st.sampled_from([100, 300, 1000, 10**6]),
    segment_ms=st.sampled_from([5, 40, 10**6]),
    entries=st.sampled_from([3, 5, 1000]),
    interval=st.sampled_from([0, 100, 500]),
    age=st.sampled_from([0, 50]),
)
def test_batches_go_where_kafka_puts_them(
    batches: list[tuple[int, int, int]], segment_bytes: int, segment_ms: int, entries: int, interval: int, age: int
) -> None:
    sizes, gaps, timestamps = (np.array(column, np.int64) for column in zip(*batches, strict=True))
    last_offsets = np.cumsum(gaps + 1)
    limits = np.array([segment_bytes, segment_ms, entries, entries, interval, age], np.int64)
    row, base_offset = 0, 0
    while row < len(batches):
        segment = Segment(base_offset, max_timestamp_offset=base_offset)
        state = np.zeros(at.STATE, np.int64)
        state[at.BASE_OFFSET] = state[at.MAX_TIMESTAMP_OFFSET] = base_offset
        state[[at.MAX_TIMESTAMP, at.FIRST_TIMESTAMP, at.LAST_TIME_ENTRY]] = -1
        rows, times, time_offsets = (np.zeros(len(batches), np.int64) for _ in range(3))
        end, offset_count, time_count = place_batches(
            sizes, last_offsets, timestamps, row, state, limits, rows, times, time_offsets
        )
        for each in range(row, end):
            values = (int(sizes[each]), int(last_offsets[each]), int(timestamps[each]))
            assert not segment.should_roll(*values, limits)
            segment.append(each, *values, interval)
        if end < len(batches):
            assert segment.should_roll(int(sizes[end]), int(last_offsets[end]), int(timestamps[end]), limits)
        assert rows[:offset_count].tolist() == [row for row, _ in segment.offset_index]
        assert list(zip(times[:time_count], time_offsets[:time_count], strict=True)) == segment.time_index
        numbers = (segment.size, segment.since_entry, segment.max_timestamp, segment.max_timestamp_offset)
        places = [at.SIZE, at.SINCE_ENTRY, at.MAX_TIMESTAMP, at.MAX_TIMESTAMP_OFFSET]
        assert tuple(state[places].tolist()) == numbers
        assert state[at.OFFSET_ENTRIES] == offset_count
        assert state[at.TIME_ENTRIES] == time_count
        if end == row:  # one that does not even fit into a new segment that begins with it
            assert not 0 <= int(last_offsets[end]) - base_offset < 2**31
        row, base_offset = end, int(last_offsets[end]) if end < len(batches) else 0
