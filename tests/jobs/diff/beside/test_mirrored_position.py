"""A position is in the mirror after the last record before it that the mirror has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.jobs.diff.planted import START, ModelBatch, ModelRecord

from brokerless.jobs.diff.beside.mirrored_position import mirrored_position
from brokerless.jobs.diff.copied_partition import CopiedPartition
from brokerless.jobs.diff.pairs import Pair
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.location import Location


def written(directory: Path, numbers: list[int], first: int = 0, value: bytes | None = None) -> PartitionPath:
    """A log with a record for each number, which has it as its value, without gaps from an offset on."""
    directory.mkdir(parents=True)
    records = [
        ModelRecord(first + at, START + number, b"key", b"%d" % number if value is None else value)
        for at, number in enumerate(numbers)
    ]
    batches = [ModelBatch(tuple(records[at : at + 10])) for at in range(0, len(records), 10)]
    path = directory / f"{first:020}.log"
    path.write_bytes(b"".join(each.encoded() for each in batches))
    (partition,) = resolve(Location(str(directory))).partitions
    return partition


def pair(tmp_path: Path, there: list[int], anchors: list[tuple[int, int]], **options: bytes) -> Pair:
    left = written(tmp_path / "left" / "topic-0", [*range(100)], 1000, **options)
    right = written(tmp_path / "right" / "topic-0", there, **options)
    return Pair("topic", 0, left, right, anchors=np.array(anchors, np.int64))


@pytest.mark.parametrize("anchors", [[(1000, 0)], [(1040, 40)], [(1000, 0), (1099, 99)]])
@pytest.mark.parametrize("offset", [1000, 1001, 1039, 1040, 1041, 1099, 1100])
def test_as_many_records_are_before_both(offset: int, anchors: list[tuple[int, int]], tmp_path: Path) -> None:
    assert mirrored_position(pair(tmp_path, [*range(100)], anchors), offset, max_batch_bytes=1 << 20) == offset - 1000


def test_records_that_say_nothing_of_themselves_are_counted(tmp_path: Path) -> None:
    own = pair(tmp_path, [0] * 100, [(1000, 0)], value=b"same")
    assert [mirrored_position(own, offset, max_batch_bytes=1 << 20) for offset in (1030, 1100)] == [30, 100]


def test_what_was_not_mirrored_moves_the_position(tmp_path: Path) -> None:
    own = pair(tmp_path, [*range(20), *range(50, 100)], [(1000, 0)])
    assert mirrored_position(own, 1080, max_batch_bytes=1 << 20) == 50
    assert mirrored_position(own, 1040, max_batch_bytes=1 << 20) == 20, "of those before it, the last one there"


def test_of_records_that_were_mirrored_twice_the_pair_says_which(tmp_path: Path) -> None:
    twice = [*range(60), *range(40, 100)]
    for anchors, expected in (([(1000, 0)], 50), ([(1000, 0), (1040, 60)], 70)):
        own = pair(tmp_path / str(expected), twice, anchors)
        assert mirrored_position(own, 1050, max_batch_bytes=1 << 20) == expected


def test_of_a_running_cluster_pairs_alone_are_taken(tmp_path: Path) -> None:
    own = pair(tmp_path, [*range(20), *range(50, 100)], [(1000, 0)])
    assert own.left is not None
    running = CopiedPartition("topic", 0, own.left.location, url="kafka://new:9092/topic-0", begin=1000, end=1100)
    for left, right in ((running, own.right), (own.left, running)):
        there = Pair("topic", 0, left, right, anchors=own.anchors)
        assert mirrored_position(there, 1080, max_batch_bytes=1 << 20) == 80
