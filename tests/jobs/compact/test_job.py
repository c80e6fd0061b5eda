"""Compaction leaves what Kafka's own cleaner leaves: the same records, empty batches and delete horizons."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.jobs.compact.judge import compare, compare_golden, golden_logs
from tests.kafka.jars import NEWEST, OLD_FORMATS

SEEDS = (*range(12), 74, 75, 95)
RULES = {NEWEST: "4.4", OLD_FORMATS: "3.9"}


@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize("version", RULES)
def test_generated_logs_are_cleaned_as_kafka_cleans_them(version: str, tmp_path: Path) -> None:
    """Twice: two days later, tombstones and markers are gone, and producers forgotten. ``python -m
    tests.jobs.compact.judge 300`` does it with as many logs."""
    compare(SEEDS, tmp_path, version)


@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize("version", RULES)
def test_logs_that_kafka_wrote_are_cleaned_as_kafka_cleans_them(version: str, tmp_path: Path) -> None:
    """Some of the golden ones; the judge's command takes all of them."""
    compare_golden(golden_logs()[:: len(golden_logs()) // 16], tmp_path, version)
