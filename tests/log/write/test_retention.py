"""What Kafka's ``UnifiedLog`` does is compared in ``test_against_kafka.py``; here is what decides it."""

from __future__ import annotations

import pytest

from brokerless.errors import UsageError
from brokerless.log.config import LogConfig
from brokerless.log.write.retention import ClosedSegment, before_start, expired

FOUR = [
    ClosedSegment(0, 100, 1000),
    ClosedSegment(10, 100, 3000),
    ClosedSegment(20, 100, 2000),
    ClosedSegment(30, 50, 4000),
]
KEEP = LogConfig(retention_ms=-1)


@pytest.mark.parametrize(("start", "count"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3), (99, 3)])
def test_segments_wholly_before_the_log_start_offset_go_whatever_the_policy_is(start: int, count: int) -> None:
    assert before_start(FOUR, start) == count
    assert expired(FOUR, start, LogConfig(cleanup_policy="compact"), 10**15) == count


@pytest.mark.parametrize(("now", "count"), [(1500, 0), (1501, 1), (3500, 1), (3501, 3), (4500, 3), (4501, 4)])
def test_segments_go_from_the_oldest_on_while_all_is_older_than_the_retention(now: int, count: int) -> None:
    # The third has waited long enough at 2501, but not the second.
    assert expired(FOUR, 0, LogConfig(retention_ms=500), now) == count


@pytest.mark.parametrize(("size", "count"), [(351, 0), (350, 0), (251, 0), (250, 1), (51, 2), (50, 3), (1, 3), (0, 4)])
def test_segments_go_while_enough_is_left(size: int, count: int) -> None:
    assert expired(FOUR, 0, LogConfig(retention_ms=-1, retention_bytes=size), 0) == count


def test_size_and_time_go_by_what_is_left() -> None:
    config = LogConfig(retention_ms=500, retention_bytes=250)
    assert expired(FOUR, 0, config, 1501) == 1
    assert expired(FOUR, 10, config, 3501) == 3


def test_an_empty_last_segment_stays() -> None:
    segments = [*FOUR, ClosedSegment(40, 0, 0)]
    assert expired(segments, 0, LogConfig(retention_ms=0, retention_bytes=0), 10**15) == 4
    assert expired(segments[-1:], 0, LogConfig(retention_ms=0, retention_bytes=0), 10**15) == 0
    assert expired([], 0, KEEP, 0) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"segment_bytes": 13},
        {"segment_bytes": 2**31},
        {"segment_ms": 0},
        {"segment_index_bytes": 23},
        {"index_interval_bytes": -1},
        {"retention_ms": -2},
        {"retention_bytes": -2},
        {"cleanup_policy": "forget"},
    ],
)
def test_settings_that_kafka_does_not_take_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        LogConfig(**wrong)
