"""What is damaged on a side is named as a range that could not be compared, and is never a difference."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.jobs.diff.planted import PLANTS, Batches, random_log, write

import brokerless
from brokerless.format import layouts

SEEDS = 40


def positions(partition: Path) -> list[tuple[Path, int, int, int]]:
    """File, position, size and first offset of each batch."""
    columns = ["file", "position", "sizeInBytes", "baseOffset"]
    table = brokerless.open(partition).batches(columns, on_damage=lambda _: None).read_all()
    return [(Path(row["file"]), row["position"], row["sizeInBytes"], row["baseOffset"]) for row in table.to_pylist()]


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x55
    path.write_bytes(data)


def two_copies(tmp_path: Path, log: Batches, seed: int) -> tuple[Path, Path]:
    return write(tmp_path / "left", log, random.Random(seed)), write(tmp_path / "right", log, random.Random(seed + 1))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_damaged_batch_could_not_be_compared(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    log = random_log(chance)
    left, right = two_copies(tmp_path, log, seed)
    side = chance.choice([left, right])
    path, position, size, first = chance.choice(positions(side))
    flip(path, position + layouts.BATCH_CRC_START + chance.randrange(size - layouts.BATCH_CRC_START))
    (partition,) = brokerless.diff(left, right).partitions
    (batch,) = [each for each in log if each.first == first]
    assert partition.differences == ()
    assert not partition.is_same
    (uncompared,) = partition.uncompared
    assert uncompared.side == side.parent.name
    assert uncompared.records == len(batch.records)
    assert uncompared.first_offset <= first <= batch.records[-1].offset <= (uncompared.last_offset or 0)
    assert partition.same == sum(len(each.records) for each in log if each is not batch)
    assert uncompared.finding.kind == "checksum-mismatch"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_flipped_byte_is_no_difference(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    left, right = two_copies(tmp_path, random_log(chance), seed)
    path, position, size, _ = chance.choice(positions(right))
    flip(path, position + chance.randrange(size))
    (partition,) = brokerless.diff(left, right).partitions
    assert {*(partition.causes or {})} <= {"restamped"}
    assert partition.is_same == (not partition.uncompared)


def test_damage_on_both_sides_at_once_could_not_be_compared_either(tmp_path: Path) -> None:
    left, right = two_copies(tmp_path, random_log(random.Random(5)), 5)
    for side in (left, right):
        path, position, size, _ = positions(side)[7]
        flip(path, position + size - 1)
    (partition,) = brokerless.diff(left, right).partitions
    assert [(each.side, each.records) for each in partition.uncompared] == [("left", 0), ("right", 0)]
    assert not partition.is_same
    assert partition.differences == ()


def test_a_lost_end_is_no_lag(tmp_path: Path) -> None:
    log = random_log(random.Random(6))
    left, right = two_copies(tmp_path, log, 6)
    path, position, size, first = positions(right)[-1]
    os.truncate(path, position + size - 3)
    (partition,) = brokerless.diff(left, right).partitions
    assert partition.causes == {}
    (uncompared,) = partition.uncompared
    assert uncompared.side == "right"
    assert uncompared.first_offset <= first == log[-1].first
    assert uncompared.last_offset == log[-1].records[-1].offset
    assert uncompared.records == len(log[-1].records)


def test_a_segment_that_cannot_be_opened_could_not_be_compared(tmp_path: Path) -> None:
    log = random_log(random.Random(8))
    left, right = (write(tmp_path / name, log, random.Random(1), segments=4) for name in ("left", "right"))
    segments = sorted(right.glob("*.log"))
    segments[1].unlink()
    segments[1].symlink_to("nowhere")
    (partition,) = brokerless.diff(left, right).partitions
    first, end = (int(each.stem) for each in segments[1:3])
    (uncompared,) = partition.uncompared
    assert first in range(uncompared.first_offset, first + 1)
    assert uncompared.last_offset == end - 1
    assert partition.differences == ()


@pytest.mark.parametrize("name", ["missing", "changed", "duplicate_by_sequence", "regrouped"])
def test_a_difference_is_found_beside_damage(name: str, tmp_path: Path) -> None:
    chance = random.Random(name)
    planted = PLANTS[name](chance, random_log(chance))
    left, right = write(tmp_path / "left", planted.left, chance), write(tmp_path / "right", planted.right, chance)
    path, position, size, _ = positions(left)[0]
    flip(path, position + size - 1)
    (partition,) = brokerless.diff(left, right).partitions
    assert partition.causes == planted.causes
    assert len(partition.uncompared) == 1


def test_quick_finds_damage_only_where_batches_differ(tmp_path: Path) -> None:
    left, right = two_copies(tmp_path, random_log(random.Random(9)), 9)
    path, position, size, _ = positions(right)[3]
    flip(path, position + size - 1)
    assert brokerless.diff(left, right, quick=True).is_same
    flip(path, position + layouts.BATCH_CRC_START)
    (partition,) = brokerless.diff(left, right, quick=True).partitions
    assert len(partition.uncompared) == 1
    assert partition.differences == ()


def test_a_growing_side_is_compared_up_to_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from brokerless.jobs.diff import job

    log = random_log(random.Random(3))
    left, right = two_copies(tmp_path, log[:-5], 3)
    real = job.summarize
    summaries: list[object] = []

    def summarize(*arguments: object) -> object:
        summaries.append(real(*arguments))  # type: ignore[arg-type]
        if len(summaries) == 2:
            last = sorted(right.glob("*.log"))[-1]
            with last.open("ab") as file:
                file.write(b"".join(each.encoded() for each in log[-5:]))
        return summaries[-1]

    monkeypatch.setattr(job, "summarize", summarize)
    (partition,) = brokerless.diff(left, right).partitions
    assert partition.is_same
    assert partition.causes == {}


def test_what_is_deleted_meanwhile_is_retention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from brokerless.jobs.diff.alignment import sides

    log = random_log(random.Random(8))
    left, right = (write(tmp_path / name, log, random.Random(1), segments=4) for name in ("left", "right"))
    segments = sorted(right.glob("*.log"))
    real = sides.count_records

    def count_records(*arguments: object) -> int:
        for each in segments[:2]:
            each.unlink(missing_ok=True)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(sides, "count_records", count_records)
    (partition,) = brokerless.diff(left, right).partitions
    assert partition.is_same
    assert {*(partition.causes or {})} == {"retention"}
