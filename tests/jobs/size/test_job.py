from __future__ import annotations

from pathlib import Path

import pytest
from tests.jobs.size.topics import STORED, event, noise, write_topic

from brokerless.errors import UsageError
from brokerless.jobs.run.types import RunOptions
from brokerless.jobs.size.choices import Choice, choices_of
from brokerless.jobs.size.exact import measure_partition
from brokerless.jobs.size.job import SizeSettings, plan, size, work_of
from brokerless.jobs.size.result import TopicSize, sum_estimates, total
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.location import Location

CHOICES = tuple(choices_of([2], ["none", "lz4"], [], [100], [16384, 131072]))


@pytest.fixture(scope="module")
def partitions(tmp_path_factory: pytest.TempPathFactory) -> tuple[PartitionPath, ...]:
    to = tmp_path_factory.mktemp("topics")
    write_topic(to, 1, event, "skewed", 1_400_000, STORED[0])
    (to / "other").mkdir()
    write_topic(to / "other", 2, noise, "small", 40_000, STORED[1])
    (to / "other" / "t-0").rename(to / "t-1")
    write_topic(to / "other", 3, event, "small", 20_000, STORED[2])
    (to / "other" / "t-0").rename(to / "small-0")
    return resolve(Location(str(to))).partitions


def of(partitions: tuple[PartitionPath, ...], settings: SizeSettings) -> dict[str | None, TopicSize]:
    return {each.topic: each for each in size(partitions, settings)}


def test_large_topics_are_sampled_and_small_ones_read(partitions: tuple[PartitionPath, ...]) -> None:
    found = of(partitions, SizeSettings(CHOICES))
    assert [*found] == ["small", "t"]
    assert (found["small"].is_exact, found["t"].is_exact) == (True, False)
    assert found["t"].partitions == 2
    assert found["t"].bytes == sum(each.size for each in partitions if each.topic == "t")
    assert found["t"].bytes_read < 0.05 * found["t"].bytes
    assert [*found["t"].sizes] == [*CHOICES]


def test_reading_everything_adds_up_what_each_partition_takes(partitions: tuple[PartitionPath, ...]) -> None:
    done: list[int] = []
    settings = SizeSettings(CHOICES, is_full=True)
    (topic,) = size([each for each in partitions if each.topic == "t"], settings, RunOptions(done.append))
    assert topic.is_exact
    own = [measure_partition(each, CHOICES, lambda _: None, lambda _: None) for each in partitions if each.topic == "t"]
    for choice in CHOICES:
        expected = sum(each.bytes[choice] for each in own)
        assert topic.sizes[choice] == sum_estimates([topic.sizes[choice]])
        assert (topic.sizes[choice].low, topic.sizes[choice].bytes, topic.sizes[choice].high) == (expected,) * 3
    assert topic.records.bytes == sum(each.contents.records for each in own)
    sampled = next(size([each for each in partitions if each.topic == "t"], SizeSettings(CHOICES)))
    assert sampled.records.low <= topic.records.bytes <= sampled.records.high
    for part in ("keys", "values", "overhead"):
        assert getattr(sampled.contents, part) == pytest.approx(getattr(topic.contents, part), rel=0.25)


def test_progress_reaches_its_end(partitions: tuple[PartitionPath, ...]) -> None:
    done: list[int] = []
    settings = SizeSettings(CHOICES)
    list(size(partitions, settings, RunOptions(done.append)))
    assert sum(done) == pytest.approx(work_of(plan(partitions, settings)), rel=0.1)


def test_the_sample_is_as_large_as_requested(partitions: tuple[PartitionPath, ...]) -> None:
    for sample, expected in ((0.2, 0.2), (100_000.0, 0.06)):
        (_, _, (task,)) = plan(partitions, SizeSettings(CHOICES, sample))[1]
        assert task.budget is not None
        assert task.budget / sum(each.size for each in task.partitions) == pytest.approx(expected, rel=0.3)
    assert plan(partitions, SizeSettings(CHOICES, 1e9))[1][2][0].choices == ()  # all is read


def test_all_topics_together_are_their_sum(partitions: tuple[PartitionPath, ...]) -> None:
    topics = [*of(partitions, SizeSettings(CHOICES)).values()]
    together = total(topics)
    choice = CHOICES[0]
    assert together.bytes == sum(each.bytes for each in topics)
    assert together.sizes[choice].bytes == sum(each.sizes[choice].bytes for each in topics)
    assert together.sizes[choice].low <= together.sizes[choice].bytes <= together.sizes[choice].high


def test_a_directory_without_records_takes_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "empty-0" / "00000000000000000000.log").touch()
    (topic,) = size(resolve(Location(str(tmp_path))).partitions, SizeSettings((Choice(2, "zstd"),)))
    assert (topic.bytes, topic.records.bytes, topic.findings) == (0, 0, ())
    assert [line["bytesPerRecord"] for line in topic.as_dicts()] == [None, None]


def test_a_comparison_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to compare"):
        SizeSettings(())
    with pytest.raises(UsageError, match="more than 0 bytes"):
        SizeSettings(CHOICES, 0)
