"""Whatever is taken away, cut, exchanged or flipped in a backup is found, by the level that claims it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.backup.disks import DEMO, REPLICAS, earlier

import brokerless
from brokerless.errors import UnreadableError, UsageError


@pytest.fixture
def place(tmp_path: Path) -> Path:
    brokerless.backup(earlier(tmp_path / "earlier", 2), tmp_path / "backup", name="first", segment_size=20_000)
    brokerless.backup(DEMO, tmp_path / "backup", name="second", segment_size=20_000)
    return tmp_path / "backup"


def object_of(place: Path, suffix: str, at: int = 0) -> Path:
    return sorted(place.glob(f"orders-*/0/*.{suffix}"))[at]


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_backup_that_nobody_touched_is_whole(place: Path) -> None:
    backup = brokerless.Backup(place)
    for read in (None, "all"):
        checked = backup.check(read)
        assert not checked.findings
        assert [each.name for each in checked.snapshots] == ["first", "second"]
        assert checked.unnamed == 0
        assert checked.is_read == (read == "all")
    assert checked.objects == sum(".brokerless" not in each.parts for each in place.glob("*/*/*")) + len(
        list((place / ".brokerless" / "files").iterdir())
    )


def test_all_bytes_are_read_and_counted(place: Path) -> None:
    sizes: list[int] = []
    checked = brokerless.Backup(place).check("all", done=sizes.append)
    files = sum(each.stat().st_size for each in (place / ".brokerless" / "files").iterdir())
    assert sum(sizes) == checked.size - files


@pytest.mark.parametrize("suffix", ["log", "indexes", "rsm-manifest"])
@pytest.mark.parametrize(
    ("change", "kind", "is_seen_by_size"),
    [
        (remove, "remote-object-missing", True),
        (cut, "stored-object-differs", True),
        (flip, "stored-object-differs", False),
    ],
)
def test_a_changed_object_is_found(
    change: Callable[[Path], None], kind: str, is_seen_by_size: bool, suffix: str, place: Path
) -> None:
    path = object_of(place, suffix)
    change(path)
    for read in (None, "all"):
        found = brokerless.Backup(place).check(read).findings
        expected = [(kind, str(path))] if read or is_seen_by_size else []
        assert [(each.kind, each.file) for each in found] == expected


@pytest.mark.parametrize("suffix", ["log", "indexes", "rsm-manifest"])
def test_exchanged_objects_are_found(suffix: str, place: Path) -> None:
    one, other = object_of(place, suffix, 0), object_of(place, suffix, 1)
    size = min(one.stat().st_size, other.stat().st_size)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second[:size].ljust(len(first), b"\0"))
    other.write_bytes(first[:size].ljust(len(second), b"\0"))
    found = brokerless.Backup(place).check("all").findings
    assert {each.file for each in found} == {str(one), str(other)}


@pytest.mark.parametrize(("change", "is_seen_by_size"), [(remove, True), (cut, True), (flip, False)])
def test_so_is_a_changed_file(change: Callable[[Path], None], is_seen_by_size: bool, place: Path) -> None:
    path = min((place / ".brokerless" / "files").iterdir())
    change(path)
    assert len(brokerless.Backup(place).check().findings) == is_seen_by_size
    assert len(brokerless.Backup(place).check("all").findings) == 1


@pytest.mark.parametrize("suffix", ["json", "parquet"])
@pytest.mark.parametrize("change", [cut, flip, remove])
def test_so_is_a_changed_snapshot(change: Callable[[Path], None], suffix: str, place: Path) -> None:
    path = min((place / ".brokerless" / "snapshots").glob(f"*.{suffix}"))
    change(path)
    found = brokerless.Backup(place).check().findings
    if suffix == "json" and change is not cut:  # without it, there is no such snapshot, and no hash is of it
        return
    assert [each.file for each in found] == [str(path)], found


def test_readers_say_what_is_missing_and_read_the_rest(place: Path) -> None:
    path = object_of(place, "log", 1)
    path.unlink()
    (partition, *_) = brokerless.open(f"{place}@second").topic("orders").partitions
    found = [each for each in partition.verify() if each.severity == "error"]
    assert {each.kind for each in found} >= {"remote-object-missing"}
    offset = int(path.name[:20])
    offsets = [
        row for batch in partition.records(["offset"], on_damage=lambda _: None) for row in batch["offset"].to_pylist()
    ]
    assert offset not in offsets
    assert 0 in offsets
    assert 1264 in offsets


def test_a_snapshot_alone_is_checked_for_what_it_names(place: Path) -> None:
    last = sorted(place.glob("orders-*/2/*.log"))[-1]
    last.unlink()
    assert not brokerless.Backup(f"{place}@first").check("all").findings
    checked = brokerless.Backup(f"{place}@second").check()
    assert [each.file for each in checked.findings] == [str(last)]
    assert checked.unnamed is None


def test_what_no_snapshot_names_is_counted(place: Path) -> None:
    path = object_of(place, "log")
    shutil.copy(path, path.with_name(path.name[:21] + "A" * 22 + ".log"))
    checked = brokerless.Backup(place).check()
    assert (checked.unnamed, checked.unnamed_size) == (1, path.stat().st_size)
    assert not checked.findings


def test_snapshots_are_found_by_id_name_and_time(place: Path) -> None:
    first, second = brokerless.Backup(place).snapshots()
    for text in (first.id, first.id[:5], "first", str(first.created), str(second.created - 1)):
        assert [each.id for each in brokerless.Backup(f"{place}@{text}").snapshots()] == [first.id]
    for text in (second.id, "second", "latest", "2100-01-01"):
        assert [each.id for each in brokerless.Backup(f"{place}@{text}").snapshots()] == [second.id]


@pytest.mark.parametrize(("text", "reason"), [("third", "no snapshot is called"), ("2001-01-01", "the first is")])
def test_a_snapshot_that_is_not_there_is_one_sentence(text: str, reason: str, place: Path) -> None:
    with pytest.raises(UsageError, match=reason):
        brokerless.open(f"{place}@{text}")


def test_a_file_of_that_name_wins(place: Path) -> None:
    shutil.copytree(REPLICAS[0], f"{place}@first")
    assert [each.topic for each in brokerless.open(f"{place}@first").paths] == ["orders"]


@pytest.mark.parametrize("path", [DEMO, DEMO.parent / "bucket", DEMO / "nothing"])
def test_what_is_no_backup_is_one_sentence(path: Path) -> None:
    for call in (brokerless.Backup(path).snapshots, brokerless.Backup(path).check):
        with pytest.raises(UnreadableError, match="no backup here"):
            call()


def test_a_backup_is_not_the_bucket_of_brokers(place: Path) -> None:
    for remote in (place, f"{place}@first"):
        with pytest.raises(UsageError, match="is a backup, and not the bucket of brokers"):
            brokerless.open(DEMO, remote=remote)


def test_runs_with_a_budget_read_all_in_turns_and_what_is_wrong_in_each(place: Path) -> None:
    backup = brokerless.Backup(place)
    budget, changed = backup.check().size // 4, object_of(place, "log", -1)
    flip(changed)
    read, found = 0, list[str]()
    for _ in range(12):
        checked = backup.check(budget)
        assert checked.turn is not None
        assert not checked.is_read
        assert checked.turn.bytes <= budget or len(checked.turn.chosen) == 1
        read += checked.turn.bytes
        found += [each.file for each in checked.findings]
        if checked.turn.oldest is not None:
            break
    assert set(found) == {str(changed)}
    assert checked.turn is not None
    assert checked.turn.total == checked.size <= read
    again = backup.check(1)
    assert [each.file for each in again.findings] == [str(changed)], "what is wrong is read in each run"
    assert len(list((place / ".brokerless" / "checks").glob("*.parquet"))) == 1


def test_what_another_snapshot_stores_is_not_forgotten_by_a_check_of_one(place: Path) -> None:
    backup = brokerless.Backup(place)
    backup.check(1 << 40)
    brokerless.Backup(f"{place}@first").check(1 << 40)
    checked = backup.check(1)
    assert checked.turn is not None
    assert checked.turn.verified_bytes == checked.turn.total


def test_what_was_read_is_no_object_of_a_snapshot_and_outlives_a_prune(place: Path) -> None:
    backup = brokerless.Backup(place)
    backup.check(1 << 40)
    assert backup.check().unnamed == 0
    backup.prune(grace=0, apply=True)
    checked = backup.check(1)
    assert checked.turn is not None
    assert checked.turn.oldest is not None


@pytest.mark.parametrize("read", [0, -5, "some", 1.5])
def test_what_is_to_be_read_is_all_or_a_number_of_bytes(read: Any, place: Path) -> None:
    with pytest.raises(UsageError, match=r"read: .* is not all, or a number of bytes above 0"):
        brokerless.Backup(place).check(read)
