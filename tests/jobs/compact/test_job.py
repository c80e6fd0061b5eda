"""Compaction leaves what Kafka's own cleaner leaves: the same records, empty batches and delete horizons."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.jobs.compact.judge import compare, compare_golden, golden_logs
from tests.kafka.jars import NEWEST, OLD_FORMATS
from tests.kafka.written import START
from tests.sources import sources_of

import brokerless
from brokerless.format.write.builder import BatchAttributes, BatchBuilder
from brokerless.jobs.compact import decided_batches, key_offsets
from brokerless.jobs.compact.job import compact, plan
from brokerless.jobs.compact.settings import KEY_BYTES, CompactOptions
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter
from brokerless.log.config import LogConfig

DEMO = Path(__file__).parents[3] / "demo" / "data"
TARGETS = ("much", "little")

SEEDS = (*range(12), 74, 75, 95)
RULES = {NEWEST: "4.4", OLD_FORMATS: "3.9"}


@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize("version", RULES)
def test_generated_logs_are_cleaned_as_kafka_cleans_them(version: str, tmp_path: Path) -> None:
    """Twice: two days later, tombstones and markers are gone, and producers forgotten. ``python -m
    tests.jobs.compact.judge 300`` does it with as many logs."""
    compare(SEEDS, tmp_path, version)


@pytest.mark.usefixtures("kafka_jars")
def test_batches_that_stay_are_copied_one_by_one_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As elsewhere runs of at least sixteen."""
    monkeypatch.setattr(decided_batches, "_FEWEST", 1)
    compare(range(20, 30), tmp_path, NEWEST)


@pytest.mark.usefixtures("kafka_jars")
def test_keys_beyond_the_memory_are_found_in_more_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for three keys at once: several passes over the same logs, which Kafka cleans in one."""
    monkeypatch.setattr(key_offsets, "_FIRST_SLOTS", 4)
    results = compare((6, 10, 33, 75), tmp_path, NEWEST, key_bytes=0)
    assert max(each.totals.passes for each in results) > 8


def test_many_keys_in_little_memory_are_cleaned_as_in_much(tmp_path: Path) -> None:
    """Of 30,000 keys a table has room for 3,072."""
    chance = random.Random(7)
    (tmp_path / "from").mkdir()
    with PartitionWriter(NewPartition(tmp_path / "from", "topic", 0, LogConfig(segment_bytes=1 << 20))) as output:
        for first in range(0, 60_000, 200):
            builder = BatchBuilder(codec="lz4", attributes=BatchAttributes(first))
            for _ in range(200):
                builder.append(START, b"key-%d" % chance.randrange(30_000), b"value", [])
            output.append(np.frombuffer(builder.close(), np.uint8))
        output.commit()
    for to, key_bytes in zip(TARGETS, (KEY_BYTES, 1 << 17), strict=True):
        options = CompactOptions(START, key_bytes=key_bytes)
        tasks = plan(sources_of(tmp_path / "from"), tmp_path / to, options, named={"topic"})
        (result,) = compact(tasks, print)
        assert (result.totals.passes > 8) == (to == "little")
    files = [{path.name: path.read_bytes() for path in (tmp_path / to / "topic-0").glob("*.log")} for to in TARGETS]
    assert files[0] == files[1]
    assert 0 < result.totals.records_out == result.totals.keys < 30_000


@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize("version", RULES)
def test_logs_that_kafka_wrote_are_cleaned_as_kafka_cleans_them(version: str, tmp_path: Path) -> None:
    """Some of the golden ones; the judge's command takes all of them."""
    compare_golden(golden_logs()[:: len(golden_logs()) // 16], tmp_path, version)


def test_a_topic_whose_settings_are_not_known_is_copied_and_reported(tmp_path: Path) -> None:
    shutil.copytree(DEMO / "orders-0", tmp_path / "from" / "orders-0")
    found: list[brokerless.Finding] = []
    (copied,) = brokerless.open(tmp_path / "from").compact(tmp_path / "to", on_damage=found.append)
    assert copied.task.is_copied
    assert [each.kind for each in found] == ["settings-unknown"]
    assert len(brokerless.open(tmp_path / "from").compact(tmp_path / "again")) == 1
