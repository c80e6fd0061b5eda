from __future__ import annotations

import math
from collections import Counter

from brokerless.jobs.size.choices import Choice
from brokerless.jobs.size.contents import Contents
from brokerless.jobs.size.estimate import Estimate
from brokerless.jobs.size.result import TopicSize, sum_estimates

SIZES = {
    Choice(1, "gzip", batch_bytes=16384): 80,
    Choice(2, "zstd", batch_records=1000): 90,
    Choice(2, "zstd", batch_bytes=16384): 110,
    Choice(2, "lz4", batch_bytes=16384): 130,
    Choice(2, "lz4"): 200,
}


def topic(kinds: dict[tuple[int, int], float]) -> TopicSize:
    sizes = {choice: Estimate(size, size - 5, size + 5) for choice, size in SIZES.items()}
    contents = Contents(2, 10, 200, kinds=Counter(kinds), by_hour=Counter({2: 200.0}), by_key=Counter({b"\xff": 200.0}))
    return TopicSize("t", 1, 200, False, 20, Estimate(10, 9, 11), sizes, contents, 0, {(1, "none"): 3})


def test_the_best_loses_nothing_and_is_one_that_convert_writes() -> None:
    assert topic({(2, 3): 200}).best == Choice(2, "zstd", batch_bytes=16384)


def test_other_batches_are_compared_where_nearly_all_is_of_one_kind() -> None:
    assert topic({(2, 3): 199, (2, 0): 1}).best_batches == Choice(2, "lz4", batch_bytes=16384)
    assert topic({(2, 3): 150, (2, 0): 50}).best_batches is None
    assert topic({}).best_batches is None


def test_each_line_says_what_it_is_of() -> None:
    now, *choices = topic({(2, 3): 200}).as_dicts(price_per_gb=1e9)
    assert (now["format"], now["compression"], now["batchRecords"], now["monthlyCost"]) == ("v2", "lz4", 5, 200)
    assert now["heaviest"]["hours"] == [{"name": 7_200_000, "sizeInBytes": 200}]
    assert now["heaviest"]["keys"] == [{"name": {"base64": "/w=="}, "sizeInBytes": 200}]
    assert now["smallerFrom"] == [{"format": "v1", "compression": "none", "records": 3}]
    assert [each["sizeInBytes"] for each in choices] == [*SIZES.values()]
    assert all(each["low"] < each["sizeInBytes"] < each["high"] for each in choices)
    assert [each["isBest"] for each in choices] == [False, False, True, False, False]


def test_errors_of_topics_are_independent() -> None:
    both = sum_estimates([Estimate(10, 7, 14), Estimate(20, 16, 23)])
    assert (both.bytes, both.low, both.high) == (30, 30 - 5, 30 + math.hypot(4, 3))
