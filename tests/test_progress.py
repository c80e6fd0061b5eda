"""What is called with the bytes that were read can hold up who reads."""

from __future__ import annotations

import pytest

from brokerless.progress import ignore, limited


class Clock:
    """A clock that goes on while somebody sleeps, and when it is told to."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


def test_no_more_is_read_than_the_rate_in_the_long_run() -> None:
    clock, read = Clock(), list[int]()
    done = limited(read.append, 1000, now=lambda: clock.time, sleep=clock.sleep)
    for _ in range(100):
        done(500)
    assert (sum(read), clock.time) == (50_000, pytest.approx(49))


def test_what_is_slower_never_waits() -> None:
    clock = Clock()
    done = limited(ignore, 1000, now=lambda: clock.time, sleep=clock.sleep)
    for _ in range(10):
        clock.time += 1
        done(1000)
    assert clock.slept == []


def test_a_pause_allows_one_second_and_no_more() -> None:
    clock = Clock()
    done = limited(ignore, 1000, now=lambda: clock.time, sleep=clock.sleep)
    clock.time = 3600
    done(3000)
    assert clock.slept == [pytest.approx(2)]


def test_without_a_rate_it_is_the_same() -> None:
    assert limited(ignore, None) is ignore
