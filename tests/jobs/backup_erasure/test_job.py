"""Erased records are in no snapshot, earlier or later, and a disk that still has them brings none back."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.backup.disks import DEMO, REPLICAS, ROOT, batches_of, earlier, objects_in, rows_of
from tests.jobs.backup.rsa_keys import key_files
from tests.s3 import S3

import brokerless
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.backup_erasure import job
from brokerless.jobs.backup_erasure.job import BackupErasure
from brokerless.jobs.forget.prune import prune
from brokerless.log.backups.names import SnapshotName
from brokerless.log.backups.place import BackupPlace
from brokerless.log.storage.location import Location

KEYS = ("u-0048", "o-101230", "u-0035")
TOPICS = ("orders", "users")
SMALL = 20_000
LATE = 1_900_000_000_000


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A backup with two snapshots, the first of an earlier disk."""
    place = tmp_path / "backup"
    brokerless.backup(earlier(tmp_path / "earlier", 3), place, name="first", segment_size=SMALL)
    brokerless.backup(DEMO, place, name="second", segment_size=SMALL)
    return place


def erase(place: Path, manifest: Path | None = None, **options: Any) -> BackupErasure:
    where = place.parent / "erased.json" if manifest is None else manifest
    return brokerless.Backup(place).erase(
        **{"keys": KEYS, "topics": TOPICS, "manifest": where, "apply": True, **options}
    )


def without(rows: Mapping[Any, Any], keys: tuple[str, ...] = KEYS, topics: tuple[str, ...] = TOPICS) -> dict[Any, Any]:
    erased = {each.encode() for each in keys}
    return {
        place: [each for each in own if place[0] not in topics or each["key"] not in erased]
        for place, own in rows.items()
    }


def test_each_snapshot_reads_all_other_records(place: Path, tmp_path: Path) -> None:
    result = erase(place)
    assert (result.findings, result.selected > len(KEYS)) == ((), True)
    assert rows_of(f"{place}@first") == without(rows_of(tmp_path / "earlier"))
    assert rows_of(f"{place}@second") == without(rows_of(DEMO))
    checked = brokerless.Backup(place).check("all")
    assert (checked.findings, checked.unnamed) == ((), 3 * len(result.replaced))


def test_the_batches_are_those_of_an_erased_disk(place: Path, tmp_path: Path) -> None:
    erase(place)
    brokerless.open(DEMO).topic("orders").erase(tmp_path / "erased", keys=KEYS)
    orders = {name: own for name, own in batches_of(place).items() if name[0] == "orders"}
    assert orders == batches_of(tmp_path / "erased")
    assert not [each for each in brokerless.open(place).verify() if each.severity != "info"]


def test_nothing_changes_without_apply(place: Path, tmp_path: Path) -> None:
    before = sorted(place.rglob("*"))
    result = erase(place, apply=False)
    assert sorted(place.rglob("*")) == before
    assert not (tmp_path / "erased.json").exists()
    assert erase(place).selected == result.selected
    again = erase(place, tmp_path / "again.json")
    assert (again.selected, again.list_id) == (0, None)


def test_sizes_and_counts_are_those_of_what_is_read(place: Path) -> None:
    erase(place)
    for snapshot in brokerless.Backup(place).snapshots():
        opened = brokerless.open(f"{place}@{snapshot.id}")
        for each in snapshot.partitions:
            (log,) = [one for one in opened.partitions if one.topic_partition == (each.topic, each.partition)]
            batches = log.batches(["count", "sizeInBytes"]).read_all()
            assert each.size_in_bytes == sum(batches["sizeInBytes"].to_pylist())
            assert each.records == sum(batches["count"].to_pylist())


class TestTheNextRun:
    def test_it_stores_nothing_of_a_disk_that_has_the_records(self, place: Path) -> None:
        erase(place)
        result = brokerless.backup(DEMO, place, name="third", segment_size=SMALL)
        assert result.snapshot.new_size == 0
        assert {(each.kind, each.file.rpartition("/")[2]) for each in result.findings} == {
            ("erased-on-disk", "users-0")
        }
        assert rows_of(f"{place}@third") == without(rows_of(DEMO))

    def test_it_goes_on_from_a_disk_that_was_erased(self, place: Path, tmp_path: Path) -> None:
        erase(place)
        brokerless.open(DEMO).erase(tmp_path / "erased", keys=KEYS)
        shutil.rmtree(tmp_path / "erased" / "payments-0")
        shutil.copytree(DEMO / "payments-0", tmp_path / "erased" / "payments-0")
        result = brokerless.backup(tmp_path / "erased", place, name="third", segment_size=SMALL)
        assert (result.snapshot.new_size, result.findings) == (0, ())

    def test_what_it_stores_again_lacks_the_records(self, place: Path, tmp_path: Path) -> None:
        """As where the cleaner has changed every segment of a topic since."""
        erase(place)
        brokerless.open(DEMO).topic("users").compact(tmp_path / "cleaned", now=LATE, delete_retention_ms=0)
        shutil.copytree(DEMO, tmp_path / "disk")
        shutil.rmtree(tmp_path / "disk" / "users-0")
        cleaned = tmp_path / "disk" / "users-0"
        shutil.copytree(tmp_path / "cleaned" / "users-0", cleaned)
        brokerless.backup(tmp_path / "disk", place, name="third", segment_size=SMALL // 2)
        assert rows_of(f"{place}@third", ["users"]) == without(rows_of(tmp_path / "disk", ["users"]))

    def test_a_first_run_of_another_size_of_segments_brings_none_back(self, place: Path, tmp_path: Path) -> None:
        """Every segment that it knows was lost, so that all is read of the disk."""
        erase(place)
        for each in objects_in(place):
            (place / each).unlink()
        result = brokerless.backup(DEMO, place, name="third", segment_size=2 * SMALL)
        assert rows_of(f"{place}@third") == without(rows_of(DEMO))
        assert sum(each.kind == "erased-on-disk" for each in result.findings) == 2
        again = brokerless.backup(DEMO, place, name="fourth", segment_size=2 * SMALL)
        assert again.snapshot.new_size == 0

    def test_another_record_at_the_offset_stays(self, place: Path, tmp_path: Path) -> None:
        """A record is known by its leader epoch as well: after an unclean election, it is another one."""
        listed = BackupPlace(Location(str(place)))
        erase(place)
        (erased,) = (each for each in listed.replacements().erased().values() if len(each.offsets) > 2)
        first, last = erased.offsets, erased.offsets
        assert len(erased.within(first, last, erased.epochs)[0]) == len(first)
        assert not len(erased.within(first, last, erased.epochs + 1)[0])


@pytest.mark.parametrize("message_format", [0, 1])
def test_old_formats_have_no_empty_batches_and_keep_their_end(message_format: int, tmp_path: Path) -> None:
    disk, place = tmp_path / "disk", tmp_path / "backup"
    brokerless.open(DEMO).topic("users").convert(disk, message_format=message_format)
    brokerless.backup(disk, place)
    rows = rows_of(disk)
    (last,) = {own[-1]["key"].decode() for own in rows.values()}
    assert erase(place, keys=[last, "u-0048"]).findings == ()
    assert rows_of(place) == without(rows, (last, "u-0048"))
    assert brokerless.open(place).partitions[0].end_offset == brokerless.open(disk).partitions[0].end_offset
    brokerless.backup(disk, place, name="again")
    assert rows_of(f"{place}@again") == without(rows, (last, "u-0048"))


def test_kafkas_own_topics_have_to_be_named(place: Path) -> None:
    everything = erase(place, topics=None, apply=False)
    assert {each.topic for each in everything.partitions} == {"orders", "payments", "users"}
    assert erase(place, topics=["__consumer_offsets"], apply=False).partitions
    with pytest.raises(UsageError, match="KRaft's own log"):
        erase(place, topics=["__cluster_metadata"])
    with pytest.raises(UsageError, match="no snapshot has such a partition"):
        erase(place, topics=["none"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"manifest": None}, "apply= needs manifest="),
        ({"manifest": None, "apply": False, "sign_key": "key.pem"}, "sign_key= needs manifest="),
        ({"keys": None}, "exactly one of"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], says: str, place: Path) -> None:
    with pytest.raises(UsageError, match=says):
        brokerless.Backup(place).erase(**{"keys": KEYS, "topics": TOPICS, "apply": True, **options})
    with pytest.raises(UsageError, match="in all snapshots"):
        brokerless.Backup(f"{place}@first").erase(keys=KEYS)


class TestEncrypted:
    @pytest.mark.parametrize("compress", [False, True])
    def test_who_read_it_reads_what_is_left(self, compress: bool, tmp_path: Path) -> None:
        private, public = key_files(tmp_path, "ops", "safe")
        place = tmp_path / "backup"
        brokerless.backup(DEMO, place, public_keys=public, compress=compress, segment_size=SMALL)
        with pytest.raises(UsageError, match="this backup is encrypted"):
            erase(place)
        keys = sorted((place / ".brokerless" / "keys").iterdir())
        assert erase(place, key_pairs={"safe": private["safe"]}).findings == ()
        assert sorted((place / ".brokerless" / "keys").iterdir()) == keys
        prune(Location(str(place)), grace_ms=0, apply=True, now=LATE)
        for name in ("ops", "safe"):
            opened = brokerless.open(place, key_pairs={name: private[name]})
            assert rows_of(opened) == without(rows_of(DEMO))
        result = brokerless.backup(DEMO, place, public_keys=public, compress=compress, segment_size=SMALL)
        assert result.snapshot.new_size == 0
        assert not brokerless.Backup(place).check("all").findings

    def test_another_key_writes_nothing(self, tmp_path: Path) -> None:
        _, public = key_files(tmp_path, "ops", "safe")
        other, _ = key_files(tmp_path, "other")
        place = tmp_path / "backup"
        brokerless.backup(DEMO, place, public_keys=public)
        with pytest.raises(UnreadableError, match="key pair ops does not fit"):
            erase(place, key_pairs={"ops": other["other"]})
        assert not (place / ".brokerless" / "replaced").exists()


class TestPrune:
    def test_readers_that_began_before_have_the_grace(self, place: Path) -> None:
        result = erase(place)
        backup = brokerless.Backup(place)
        assert backup.prune(apply=True).objects == 0
        assert backup.prune(grace=0, apply=True).objects == 3 * len(result.replaced)
        assert (backup.check("all").findings, backup.check().unnamed) == ((), 0)
        assert rows_of(f"{place}@second") == without(rows_of(DEMO))

    def test_a_list_stays_while_a_snapshot_has_the_partition(self, tmp_path: Path) -> None:
        """No snapshot reads the segment any more that the erasure wrote, and the disk has the record still."""
        place, lists = tmp_path / "backup", tmp_path / "backup" / ".brokerless" / "replaced"
        disk = earlier(tmp_path / "earlier", 1)
        brokerless.backup(disk, place, name="first")
        (key, *_) = sorted({row["key"].decode() for own in rows_of(disk, ["orders"]).values() for row in own})
        (replaced, *_) = erase(place, keys=[key], topics=["orders"]).replaced
        brokerless.backup(DEMO, place, name="second")  # it joins small segments with what is new
        brokerless.Backup(f"{place}@first").forget(apply=True)
        brokerless.Backup(place).prune(grace=0, apply=True)
        assert not list(place.glob(f"*/*/*{replaced.new.segment_id}*"))
        for each in objects_in(place):
            (place / each).unlink()
        brokerless.backup(DEMO, place, name="third")
        assert rows_of(f"{place}@third") == without(rows_of(DEMO), (key,), ("orders",))
        for name in ("second", "third"):
            assert len(list(lists.iterdir())) == 1
            brokerless.Backup(f"{place}@{name}").forget(apply=True)
            brokerless.Backup(place).prune(grace=0, apply=True)
        assert not list(lists.iterdir())

    def test_a_forgotten_snapshot_that_is_moved_back_has_none(self, place: Path, tmp_path: Path) -> None:
        brokerless.Backup(f"{place}@first").forget(apply=True)
        erase(place)
        brokerless.Backup(place).prune(grace=0, apply=False)
        for each in (place / ".brokerless" / "forgotten").iterdir():
            each.rename(place / ".brokerless" / "snapshots" / each.name)
        assert rows_of(f"{place}@first") == without(rows_of(tmp_path / "earlier"))


class TestDamage:
    def test_a_damaged_segment_is_named_and_stays(self, place: Path) -> None:
        (log,) = place.glob("users-*/0/*.log")
        data = bytearray(log.read_bytes())
        data[-20] ^= 1
        log.write_bytes(data)
        result = erase(place)
        assert "checksum-mismatch" in {each.kind for each in result.findings}
        assert {each.new.topic for each in result.replaced} == {"orders"}

    def test_an_exchanged_segment_is_not_made_a_true_one(self, place: Path) -> None:
        (log,) = place.glob("users-*/0/*.log")
        brokerless.open(DEMO).topic("users").erase(log.parent.parent.parent / "other", keys=["u-0001"])
        shutil.copy(next((log.parent.parent.parent / "other" / "users-0").glob("*.log")), log)
        shutil.rmtree(log.parent.parent.parent / "other")
        kinds = {each.kind for each in erase(place).findings}
        assert kinds & {"stored-object-differs", "remote-object-size", "truncated-batch"}

    def test_a_list_that_is_not_what_was_written_is_named(self, place: Path) -> None:
        erase(place)
        (file,) = (place / ".brokerless" / "replaced").iterdir()
        file.write_bytes(file.read_bytes()[:-50])
        with pytest.raises(UnreadableError, match="list of segments that an erasure replaced"):
            rows_of(f"{place}@second")
        assert [each.kind for each in brokerless.Backup(place).check().findings] == ["snapshot-unreadable"]
        with pytest.raises(UnreadableError):
            brokerless.backup(DEMO, place)
        with pytest.raises(UnreadableError, match="nothing is removed"):
            brokerless.Backup(place).prune(grace=0, apply=True)


def test_two_at_the_same_time_are_named(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second list comes between the plan of the first run and its list."""
    commit = job._commit

    def later(*arguments: Any) -> BackupErasure:
        monkeypatch.setattr(job, "_commit", commit)
        assert not erase(place, tmp_path / "other.json", keys=["u-0001"]).findings
        return commit(*arguments)

    monkeypatch.setattr(job, "_commit", later)
    assert [each.kind for each in erase(place).findings] == ["erased-twice"]
    assert [each.kind for each in brokerless.Backup(place).check().findings] == ["erased-twice"]
    erase(place, keys=["u-0001"], manifest=tmp_path / "again.json")
    assert rows_of(f"{place}@second") == without(rows_of(DEMO), (*KEYS, "u-0001"))
    assert not brokerless.Backup(place).check("all").findings
    brokerless.Backup(place).prune(grace=0, apply=True)
    assert not brokerless.Backup(place).check("all").findings
    for name, keys in (("erased", KEYS), ("other", ["u-0001"]), ("again", ["u-0001"])):
        assert brokerless.prove(tmp_path / f"{name}.json", keys=keys, only=TOPICS).holds


def test_what_two_erased_at_the_same_time_is_no_finding(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = job._commit

    def later(*arguments: Any) -> BackupErasure:
        monkeypatch.setattr(job, "_commit", commit)
        erase(place, tmp_path / "other.json")
        return commit(*arguments)

    monkeypatch.setattr(job, "_commit", later)
    assert not erase(place).findings
    assert not brokerless.Backup(place).check("all").findings


def test_what_nothing_reads_any_more_is_no_finding(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment that one of them left is of forgotten snapshots alone, and its objects are gone at last."""
    commit = job._commit

    def later(*arguments: Any) -> BackupErasure:
        monkeypatch.setattr(job, "_commit", commit)
        erase(place, tmp_path / "other.json", keys=["u-0001"], topics=["users"])
        return commit(*arguments)

    monkeypatch.setattr(job, "_commit", later)
    assert [each.kind for each in erase(place).findings] == ["erased-twice"]
    brokerless.backup(earlier(tmp_path / "small", 1), place, name="third", topics=["orders"])
    for name in ("first", "second"):
        brokerless.Backup(f"{place}@{name}").forget(apply=True)
    assert not brokerless.Backup(place).check("all").findings
    assert "erased-twice" in {each.kind for each in brokerless.prove(tmp_path / "erased.json").findings}
    brokerless.Backup(place).prune(grace=0, apply=True)
    assert "erased-twice" not in {each.kind for each in brokerless.prove(tmp_path / "erased.json").findings}


def test_a_name_that_is_there_is_not_replaced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = BackupPlace(Location(str(place)))
    name = SnapshotName(LATE, "0" * 8)
    file = listed.replaced_file(name)
    erase(place, keys=["u-0001"])
    monkeypatch.setattr(job, "SnapshotName", lambda *_: name)
    erase(place, keys=["u-0002"], manifest=place.parent / "two.json")
    before = file.read(1 << 20)
    with pytest.raises(UsageError, match="never replaced"):
        erase(place, keys=["u-0003"], manifest=place.parent / "three.json")
    assert file.read(1 << 20) == before


@pytest.mark.xdist_group("s3")
def test_the_same_in_an_object_store(s3: S3, tmp_path: Path) -> None:
    where, options = s3.url("backup/erased"), {"storage_options": s3.storage_options}
    brokerless.backup(DEMO, where, **options)
    backup = brokerless.Backup(where, **options)
    assert backup.erase(keys=KEYS, topics=TOPICS, manifest=tmp_path / "erased.json", apply=True).findings == ()
    assert rows_of(brokerless.open(where, **options)) == without(rows_of(DEMO))
    assert prune(Location(where, s3.storage_options), grace_ms=0, apply=True, now=LATE).objects
    proof = brokerless.prove(tmp_path / "erased.json", keys=KEYS, only=TOPICS, **options)
    assert proof.holds


@pytest.mark.slow(reason="a process that is killed many times")
def test_a_run_that_is_killed_leaves_snapshots_whole(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.jobs.backup_erasure.killed", str(tmp_path), "6"]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    *wrong, last = killed.stdout.splitlines()
    assert not wrong
    assert int(last.split()[0]) > 5


def test_replicas_of_three_disks_are_filtered_alike(tmp_path: Path) -> None:
    place = tmp_path / "backup"
    brokerless.backup(REPLICAS, place)
    before = rows_of(place)
    key = next(row["key"].decode() for own in before.values() for row in own if row["key"])
    topics = tuple({name for name, _, _ in before if not name.startswith("__")})
    erase(place, keys=[key], topics=topics)
    assert rows_of(place) == without(before, (key,), topics)
    result = brokerless.backup(REPLICAS, place)
    assert result.snapshot.new_size == 0
