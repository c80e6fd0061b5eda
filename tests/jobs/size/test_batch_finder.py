"""A sample of large batches reads little else: bytes are counted where files are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.golden import broker_data
from tests.jobs.size.topics import event, write_topic

import brokerless
from brokerless.findings import Finding
from brokerless.jobs.size.batch_finder import offsets_of
from brokerless.jobs.size.places import places_of
from brokerless.jobs.size.sample import FEWEST_RUNS, Sample, read_sample
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.files import LocalFile
from brokerless.log.storage.location import Location
from brokerless.tables.batcher import BatchSettings


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("topic")
    write_topic(to, 7, event, "skewed", 4_000_000, BatchSettings(batch_size=100_000))
    return to / "t-0"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of all that is read of logs."""
    lengths: list[int] = []
    read = LocalFile.read

    def counted(file: LocalFile, position: int, length: int) -> NDArray[np.uint8]:
        buffer = read(file, position, length)
        if file.path.endswith(".log"):
            lengths.append(len(buffer))
        return buffer

    monkeypatch.setattr(LocalFile, "read", counted)
    return lengths


def without_indexes(directory: Path, to: Path) -> PartitionPath:
    to.mkdir()
    for log in directory.glob("*.log"):
        (to / log.name).write_bytes(log.read_bytes())
    return resolve(Location(str(to))).partitions[0]


def sampled(partition: PartitionPath, budget: int) -> Sample:
    findings: list[Finding] = []
    sample = read_sample(places_of([partition]), budget, findings.append)
    assert not findings
    return sample


@pytest.mark.parametrize("is_indexed", [True, False])
def test_of_large_batches_the_fewest_are_read_once(
    directory: Path, tmp_path: Path, reads: list[int], is_indexed: bool
) -> None:
    partition = (
        resolve(Location(str(directory))).partitions[0] if is_indexed else without_indexes(directory, tmp_path / "t-0")
    )
    sizes = brokerless.open(directory).batches(["sizeInBytes"]).read_all()["sizeInBytes"].to_pylist()
    sample = sampled(partition, 40_000)
    assert len(sample.groups) == FEWEST_RUNS
    assert sum(reads) == sample.touched + 64  # the end of the last segment, for zeros
    assert sample.touched <= FEWEST_RUNS * max(sizes) + 100 * len(sizes)
    assert sample.is_over_budget
    assert not sampled(partition, 2_000_000).is_over_budget


@pytest.mark.parametrize("is_indexed", [True, False])
def test_offsets_are_counted_by_few_headers(
    directory: Path, tmp_path: Path, reads: list[int], is_indexed: bool
) -> None:
    partition = (
        resolve(Location(str(directory))).partitions[0] if is_indexed else without_indexes(directory, tmp_path / "t-0")
    )
    log = brokerless.open(directory)
    expected = sum(log.segments()["records"].to_pylist())
    reads.clear()
    assert offsets_of(places_of([partition])) == expected
    assert sum(reads) < 5000


def test_offsets_of_a_brokers_logs_reach_to_their_ends() -> None:
    partitions = brokerless.open(broker_data("clean")).partitions
    for each in partitions:
        start, end = each.start_offset, each.end_offset
        assert start is not None
        assert end is not None
        assert offsets_of(places_of(each.paths)) == end - start
    assert len(partitions) > 5
