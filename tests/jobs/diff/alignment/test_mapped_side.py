"""A restored log is compared by the offset map: records, what was restored twice or not at all, groups' positions."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.jobs.diff.beside.test_groups import DEMO, move
from tests.jobs.diff.planted import Batches, ModelBatch, ModelRecord, random_log, write

import brokerless
from brokerless.errors import UsageError
from brokerless.jobs.diff.partition_diff import PartitionDiff
from brokerless.jobs.named_partitions import topic_id_of_partition
from brokerless.jobs.restore.live.offset_map import open_map

Records = list[tuple[int, ModelRecord]]
"""Records with their target offsets."""


def write_map(directory: Path, topic: str, number: int, offsets: list[tuple[int, int]], topic_id: str = "") -> Path:
    topics = {topic: {"topicId": topic_id, "starts": {str(number): offsets[0][1]}}}
    with open_map(directory, {"topics": topics}) as map_:
        for source, target in offsets:
            map_.add((topic, number), source, target)
        map_.write()
    return directory


def restored(log: Batches, chance: random.Random) -> Records:
    """The records of a log at the offsets that a target gives them: it has others before, and between."""
    found: Records = []
    target = 700
    for batch in log:
        for each in batch.records:
            found.append((target, each))
            target += 1 + (chance.random() < 0.05)
    return found


def batches_of(records: Records, chance: random.Random) -> Batches:
    """Other batches than before, none of which has a gap, as a leader writes them."""
    found: Batches = []
    for target, each in records:
        record = replace(each, offset=target)
        goes_on = bool(found) and found[-1].records[-1].offset + 1 == target and chance.random() < 0.9
        if goes_on:
            found[-1] = replace(found[-1], records=(*found[-1].records, record))
        else:
            found.append(ModelBatch((record,), chance.choice(["none", "lz4"])))
    return found


def compare(
    tmp_path: Path, seed: int, change: Callable[[Records], Records] = lambda records: records
) -> tuple[PartitionDiff, Records]:
    chance = random.Random(seed)
    log = random_log(chance)
    records = restored(log, chance)
    left = write(tmp_path / "left", log, chance)
    offsets = [(each.offset, target) for target, each in records]
    map_ = write_map(tmp_path / "map", "topic", 0, offsets)
    right = write(tmp_path / "right", batches_of(change(list(records)), chance), chance)
    (partition,) = brokerless.diff(left, right, offset_map=map_).partitions
    return partition, records


@pytest.mark.parametrize("seed", range(8))
def test_a_restored_log_is_the_same(seed: int, tmp_path: Path) -> None:
    partition, records = compare(tmp_path, seed)
    assert (partition.is_same, partition.causes) == (True, {})
    assert partition.records == partition.same == len(records)


@pytest.mark.parametrize("seed", range(8))
def test_a_record_that_is_missing_or_changed_is_named_by_its_old_offset(seed: int, tmp_path: Path) -> None:
    at = 20 + seed

    def lose(records: Records) -> Records:
        records[at + 5] = records[at + 5][0], replace(records[at + 5][1], value=b"other")
        return records[:at] + records[at + 1 :]

    partition, records = compare(tmp_path, seed, lose)
    assert partition.causes == {"missing": 1, "changed": 1}
    missing, changed = partition.differences
    assert (missing.what, missing.first_offset) == ("missing", records[at][1].offset)
    assert (changed.what, changed.first_offset) == ("changed", records[at + 5][1].offset)
    assert changed.left is not None
    assert changed.right is not None
    assert changed.left.timestamp == changed.right.timestamp == records[at + 5][1].timestamp


@pytest.mark.parametrize("seed", range(4))
def test_a_record_that_the_map_does_not_have_is_extra(seed: int, tmp_path: Path) -> None:
    """Between those that were restored; what comes before and after them is of others."""

    def add(records: Records) -> Records:
        gap = next(at for at in range(10, len(records)) if records[at][0] > records[at - 1][0] + 1)
        inside = records[gap - 1][0] + 1, records[0][1]
        before, after = (600, records[1][1]), (records[-1][0] + 9, records[2][1])
        return [before, *records[:gap], inside, *records[gap:], after]

    partition, records = compare(tmp_path, seed, add)
    assert partition.causes == {"extra": 1}
    assert partition.same == len(records)


def test_a_target_that_lost_its_end_or_deleted_its_start(tmp_path: Path) -> None:
    partition, records = compare(tmp_path / "end", 3, lambda each: each[:-7])
    assert partition.causes == {"lagging": 7}
    assert partition.missing == 7
    partition, records = compare(tmp_path / "start", 3, lambda each: each[7:])
    assert partition.causes == {"retention": 7}
    assert (partition.is_same, partition.same) == (True, len(records) - 7)


def test_positions_of_groups_are_translated(tmp_path: Path) -> None:
    """The demo's group is at offset 500 of orders-2; on the target, records begin at offset 100."""
    rows = brokerless.open(DEMO).partition("orders", 2).records(["offset"]).read_all()["offset"].to_pylist()
    to = tmp_path / "to"
    brokerless.open(DEMO).convert(to)
    map_ = write_map(tmp_path / "map", "orders", 2, [(each, each + 100) for each in rows])
    for offset, expected in ((600, ()), (590, ("earlier",)), (605, ("later",))):
        (group,) = brokerless.diff(DEMO, move(to, offset), offset_map=map_, only=["groups"]).groups
        assert tuple(each.cause for each in group.differences) == expected


def test_a_map_of_another_topic_or_none_is_refused(tmp_path: Path) -> None:
    log = random_log(random.Random(1))
    left, right = (write(tmp_path / name, log, random.Random(1)) for name in ("left", "right"))
    (right / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    offsets = [(one.offset, one.offset) for each in log for one in each.records]
    map_ = write_map(tmp_path / "map", "topic", 0, offsets, topic_id="AAAAAAAAAAAAAAAAAAAAAg")
    (partition,) = brokerless.diff(left, right, offset_map=map_).partitions
    assert partition.problem == "another-topic"
    with pytest.raises(UsageError, match="there is no offset map"):
        brokerless.diff(left, right, offset_map=tmp_path)
    other = write_map(tmp_path / "other", "elsewhere", 0, offsets)
    with pytest.raises(UsageError, match="the offset map has no partition of these"):
        brokerless.diff(left, right, offset_map=other)


def test_a_partition_that_was_not_restored_is_named_unless_it_is_empty(tmp_path: Path) -> None:
    shutil.copytree("demo/data", tmp_path / "left")
    shutil.copytree("demo/data", tmp_path / "right")
    topic_id = topic_id_of_partition(brokerless.open("demo/data").partition("orders", 0).paths[0])
    map_ = write_map(tmp_path / "map", "orders", 0, [(offset, offset) for offset in range(1265)], topic_id or "")
    (tmp_path / "left" / "empty-0").mkdir()
    (tmp_path / "left" / "empty-0" / f"{0:020}.log").touch()
    found = brokerless.diff(tmp_path / "left", tmp_path / "right", offset_map=map_).partitions
    assert {each.name: each.problem for each in found if each.problem is not None} == dict.fromkeys(
        ("orders-1", "orders-2", "payments-0", "users-0"), "not-restored"
    )
    assert {each.name for each in found if each.is_same} == {"empty-0", "orders-0"}
