"""Of twenty different topics, what a conversion of all writes lies within the intervals that a sample of 4 % gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.jobs.size.topics import kinds, write_topic

from brokerless.jobs.size.batch_finder import offsets_of
from brokerless.jobs.size.choices import Choice
from brokerless.jobs.size.estimate import Estimator, Population
from brokerless.jobs.size.exact import measure_partition
from brokerless.jobs.size.places import places_of
from brokerless.jobs.size.sample import SHARE, read_sample
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

SEED = 2026
CHOICES = [
    Choice(1, "none"),
    Choice(2, "none", batch_bytes=16384),
    Choice(2, "none", batch_records=10),
    Choice(2, "gzip"),
    Choice(2, "lz4", batch_bytes=16384),
    Choice(2, "lz4", batch_bytes=131072),
    Choice(2, "zstd", batch_records=100),
    Choice(2, "zstd", batch_bytes=16384),
    Choice(2, "zstd", batch_bytes=1 << 20),
]


@pytest.mark.slow(reason="twenty topics, converted nine times each")
def test_the_size_of_a_conversion_lies_within_the_interval_in_95_percent_of_cases(tmp_path: Path) -> None:
    held: Counter[Choice] = Counter()
    missed: list[str] = []
    of_records = 0
    widths: list[float] = []
    for number, (values, sizes, settings, keys) in enumerate(kinds()):
        to = tmp_path / str(number)
        write_topic(to, SEED + number, values, sizes, 1_500_000, settings, keys)
        (partition,) = resolve(Location(str(to))).partitions
        places = places_of([partition])
        sample = read_sample(places, int(SHARE * partition.size), lambda finding: None)
        assert sample.touched < 0.05 * partition.size or len(sample.groups) == 4  # large batches: four of them
        estimator = Estimator(sample, Population((partition.size,), len(places), offsets_of(places)))
        truth = measure_partition(partition, CHOICES, lambda _: None, lambda _: None, with_contents=True)
        records = estimator.records()
        of_records += records.low <= truth.contents.records <= records.high
        for choice in CHOICES:
            estimate, true = estimator.estimate(choice), truth.bytes[choice]
            widths.append((estimate.high - estimate.low) / 2 / estimate.bytes)
            if estimate.low <= true <= estimate.high:
                held[choice] += 1
            else:
                missed.append(f"{number} {choice}: {true} is not in {estimate}")
    assert sum(held.values()) >= 0.95 * 20 * len(CHOICES), missed
    assert of_records == 20
    assert min(held[choice] for choice in CHOICES) >= 18, missed
    assert sum(widths) / len(widths) < 0.2
