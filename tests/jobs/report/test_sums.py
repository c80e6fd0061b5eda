"""Sums are exact, and of bounded size whatever the headers say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from brokerless.clock import HOUR_MS
from brokerless.jobs.report.sums import MOST_PRODUCERS, MOST_TIMES, ProducerSums, Sums, TimeSums


def test_sums_are_exact_above_what_a_float_holds():
    sums = Sums()
    sums.add(np.zeros(2, np.int64), np.array([2**60, 1]), np.array([1, 2**61]))
    assert dict(sums.rows()) == {0: {"batches": 2, "records": 2**60 + 1, "sizeInBytes": 2**61 + 1}}


def test_too_many_hours_become_days_and_then_months():
    times = TimeSums()
    hours = np.arange(MOST_TIMES, dtype=np.int64) * HOUR_MS
    ones = np.ones_like(hours)
    times.add(hours, ones, ones)
    assert times.width_ms == HOUR_MS
    times.add(hours + MOST_TIMES * HOUR_MS, ones, ones)
    assert times.width_ms == 24 * HOUR_MS
    days = np.arange(2 * MOST_TIMES, dtype=np.int64) * 24 * HOUR_MS
    times.add(days, np.ones_like(days), np.ones_like(days))
    assert times.width_ms == 30 * 24 * HOUR_MS
    rows = list(times.rows())
    assert len(rows) <= MOST_TIMES
    assert sum(row["records"] for row in rows) == 4 * MOST_TIMES


def test_impossible_times_are_counted_together():
    times = TimeSums()
    at = np.array([-1, -(2**63), 2**63 - 1, 2**62, 5], np.int64)
    times.add(at, np.ones_like(at), np.ones_like(at))
    assert [(row["start"], row["end"], row["records"]) for row in times.rows()] == [(None, None, 4), (0, HOUR_MS, 1)]


def test_producers_after_the_first_thousand_are_counted_together():
    count = MOST_PRODUCERS + 5
    headers: Any = SimpleNamespace(
        producer_id=np.arange(count),
        producer_epoch=np.zeros(count, np.int16),
        sizes=np.full(count, 100),
        max_timestamp=np.arange(count),
        is_transactional=np.zeros(count, np.bool_),
    )
    producers = ProducerSums()
    for _ in range(2):
        producers.add(headers, np.full(count, 3))
    rows = list(producers.rows())
    assert len(rows) == MOST_PRODUCERS + 1
    (others,) = [row for row in rows if row["producerId"] is None]
    assert (others["batches"], others["records"], others["minTimestamp"]) == (10, 30, MOST_PRODUCERS)
