from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.jobs.size.topics import STORED, event, write_topic

from brokerless.findings import Finding
from brokerless.jobs.size.places import places_of
from brokerless.jobs.size.sample import Sample, read_sample
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.location import Location


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> PartitionPath:
    to = tmp_path_factory.mktemp("topic")
    write_topic(to, 1, event, "skewed", 1_500_000, STORED[3])
    return resolve(Location(str(to))).partitions[0]


def sampled(partition: PartitionPath, budget: int) -> tuple[Sample, list[Finding]]:
    findings: list[Finding] = []
    return read_sample(places_of([partition]), budget, findings.append), findings


def test_a_sample_is_spread_evenly_and_reads_no_more_than_its_budget(topic: PartitionPath) -> None:
    sample, findings = sampled(topic, 60_000)
    assert not findings
    assert 0.8 * 60_000 < sample.touched < 1.05 * 60_000
    assert 9 <= len(sample.groups) <= 12
    assert sample.bytes_read == pytest.approx(sum(int(each.batches.sizes.sum()) for each in sample.groups))
    offsets = [int(each.batches.entry_offset[0]) for each in sample.groups]
    of_each = np.histogram(offsets, 4, (0, int(topic.segments[-1].base_offset) or max(offsets) * 1.02))[0]
    assert of_each.min() >= 2


def test_the_same_log_has_the_same_sample(topic: PartitionPath) -> None:
    one, other = (sampled(topic, 40_000)[0] for _ in range(2))
    assert (one.columns.timestamp == other.columns.timestamp).all()


def test_runs_are_laid_one_after_the_other(topic: PartitionPath) -> None:
    sample, _ = sampled(topic, 60_000)
    assert (np.diff(sample.columns.offset[: sample.rows]) == 1).all()
    assert (np.diff(sample.columns.timestamp[: sample.rows]) >= 0).all()
    assert not sample.breaks[1:].any()
    assert sample.runs.tolist() == sorted(sample.runs.tolist())


def test_without_an_index_batches_are_searched_for(topic: PartitionPath, tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    log = tmp_path / "t-0" / "00000000000000000000.log"
    log.write_bytes(Path(topic.segments[0].log.path).read_bytes())
    sample, findings = sampled(resolve(Location(str(tmp_path / "t-0"))).partitions[0], 60_000)
    assert not findings
    assert len(sample.groups) >= 10
    assert sample.touched < 1.2 * 60_000


def test_a_damaged_batch_is_reported_and_left_out(topic: PartitionPath, tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    data = bytearray(Path(topic.segments[0].log.path).read_bytes())
    data[500::1100] = bytes(each ^ 1 for each in data[500::1100])  # most batches
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(data)
    sample, findings = sampled(resolve(Location(str(tmp_path / "t-0"))).partitions[0], 200_000)
    assert "checksum-mismatch" in {finding.kind for finding in findings}
    assert 0 < sample.bytes_read < 150_000
