"""One planted difference of each kind in random logs is found with its cause, and nothing else is named."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.jobs.diff.planted import PLANTS, START, ModelBatch, ModelRecord, Planted, random_log, write

import brokerless
from brokerless.jobs.compact import key_offsets
from brokerless.jobs.diff.alignment import offsets, removed_keys, sides
from brokerless.jobs.diff.results import Diff
from brokerless.log import segment

SEEDS = 12


def compare(tmp_path: Path, planted: Planted, chance: random.Random, **options: object) -> Diff:
    end = planted.left[-1].records[-1].offset
    left = write(tmp_path / "left", planted.left, chance)
    right = write(tmp_path / "right", planted.right, chance, cleaned=end if planted.is_cleaned else None)
    return brokerless.diff(left, right, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PLANTS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_planted_difference_is_found_and_nothing_else(name: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"{name} {seed}")
    planted = PLANTS[name](chance, random_log(chance))
    found = compare(tmp_path, planted, chance, quick=seed % 3 == 0)
    (partition,) = found.partitions
    assert partition.causes == planted.causes
    counts = partition.missing, partition.extra, partition.changed
    assert counts == (planted.missing, planted.extra, planted.changed)
    assert found.is_same == (counts == (0, 0, 0))
    assert partition.uncompared == ()
    assert partition.findings == ()
    assert sum(each.records for each in partition.differences) == sum(counts)


@pytest.mark.parametrize("name", ["compaction", "missing", "order", "aborted", "duplicate_neighbour", "regrouped"])
@pytest.mark.parametrize("seed", range(4))
def test_little_memory_finds_the_same(name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for three keys at once, and few records that wait; batches come in chunks of a few, and in parts."""
    monkeypatch.setattr(key_offsets, "_FIRST_SLOTS", 4)
    monkeypatch.setattr(removed_keys, "MOST_BYTES", 0)
    monkeypatch.setattr(offsets, "_MOST_CANDIDATES", 7)
    monkeypatch.setattr(offsets, "_MOST_BATCHES", 2)
    monkeypatch.setattr(sides, "_GROUP_BYTES", 700)
    monkeypatch.setattr(segment, "STEP", 3000)
    chance = random.Random(f"{name} {seed}")
    planted = PLANTS[name](chance, random_log(chance))
    (partition,) = compare(tmp_path, planted, chance).partitions
    assert partition.causes == planted.causes


def test_a_key_that_repeats_takes_the_room_of_one(tmp_path: Path) -> None:
    """Half a million records of one key, of which the cleaner has left the last one."""
    count, each = 500_000, 1000
    records = [ModelRecord(offset, START, b"key", b"value") for offset in range(count)]
    batches = [ModelBatch(tuple(records[first : first + each]), "zstd") for first in range(0, count, each)]
    left = write(tmp_path / "left", batches, random.Random(1))
    right = write(tmp_path / "right", [ModelBatch((records[-1],))], random.Random(1), cleaned=count)
    (right / "00000000000000499999.log").rename(right / "00000000000000000000.log")
    (partition,) = brokerless.diff(left, right).partitions
    assert partition.causes == {"compaction": count - 1, "regrouped": 1}
    assert partition.is_same
    (partition,) = brokerless.diff(right, left).partitions
    assert partition.causes == {"compaction": count - 1, "regrouped": 1}


def test_records_that_are_no_compaction_are_missing_in_a_compacted_log(tmp_path: Path) -> None:
    """Where neither a later record of the key is there, nor the last one up to its end is a tombstone."""
    records = [(b"a", b"1"), (b"a", None), (b"b", b"1"), (b"a", b"2"), (b"b", b"2"), (b"c", b"1"), (b"b", None)]
    left = [ModelBatch((ModelRecord(offset, START, *each),)) for offset, each in enumerate(records)]
    kept = [left[0], left[5]]
    chance = random.Random(1)
    one = write(tmp_path / "left", left, chance)
    other = write(tmp_path / "right", kept, chance, cleaned=7)
    (partition,) = brokerless.diff(one, other, allow=["lagging"]).partitions
    assert partition.causes == {"missing": 4, "lagging": 1}


def test_a_log_that_was_never_compacted_has_lost_what_is_missing(tmp_path: Path) -> None:
    """Though a later record has the key: nothing says that a cleaner was there."""
    records = [ModelRecord(offset, START, b"key", b"%d" % offset) for offset in range(9)]
    batches = [ModelBatch((each,)) for each in records]
    left = write(tmp_path / "left", batches, random.Random(1), segments=1)
    right = write(tmp_path / "right", [*batches[:4], *batches[6:]], random.Random(1), segments=1)
    assert brokerless.diff(left, right).partitions[0].causes == {"missing": 2}
    (tmp_path / "right" / "cleaner-offset-checkpoint").write_text("0\n1\ntopic 0 9\n")
    assert brokerless.diff(left, right).partitions[0].causes == {"compaction": 2}
    assert brokerless.diff(right, left).partitions[0].causes == {"compaction": 2}


def test_a_hole_in_a_batch_is_compaction_only_where_something_says_so(tmp_path: Path) -> None:
    """Whoever erased records may have left it, where no metadata is beside the log."""
    records = [ModelRecord(offset, START, b"key", b"%d" % offset) for offset in range(9)]
    left = write(tmp_path / "left", [ModelBatch(tuple(records))], random.Random(1), segments=1)
    right = write(tmp_path / "right", [ModelBatch((*records[:4], *records[6:]))], random.Random(1), segments=1)
    for pair in ((left, right), tuple(each / f"{0:020}.log" for each in (left, right))):
        for one, other in (pair, pair[::-1]):
            found = brokerless.diff(one, other)
            assert found.partitions[0].causes == {"unproven-compaction": 2}
            assert not found.is_same
            assert "nothing says that the topic is compacted; allow compaction" in next(found.lines())
        assert brokerless.diff(*pair, allow=["compaction"]).partitions[0].causes == {"compaction": 2}
        assert brokerless.diff(*pair, allow=["unproven-compaction"]).is_same
    (tmp_path / "left" / "cleaner-offset-checkpoint").write_text("0\n1\ntopic 0 9\n")
    assert brokerless.diff(left, right).partitions[0].causes == {"unproven-compaction": 2}
    (tmp_path / "right" / "cleaner-offset-checkpoint").write_text("0\n1\ntopic 0 9\n")
    assert brokerless.diff(left, right).is_same
