"""What is read of a snapshot is what was on the disks, whatever was stored before; what is stored stays as it is."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.jobs.backup.disks import COLUMNS, DEMO, REPLICAS, batches_of, earlier, objects_in, rows_of, without_first

import brokerless
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.jobs.backup import partition
from brokerless.jobs.backup.plan import named_id
from brokerless.jobs.backup.segments import as_remote
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.snapshot import SnapshotSegment
from brokerless.log.storage.location import Location
from brokerless.log.tiered.decryption import KeyPairs
from brokerless.log.tiered.segment_log import read_index
from brokerless.log.tiered.writing.objects import UploadPlace


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "backup"


def segments_of(place: Path, name: str = "latest") -> list[SnapshotSegment]:
    backup = BackupPlace(Location(str(place)))
    found = backup.find(name)
    return backup.segments(found, backup.snapshot(found))


def ranges_of(place: Path, topic: str, number: int, name: str = "latest") -> list[tuple[int, int]]:
    own = [each for each in segments_of(place, name) if (each.topic, each.partition) == (topic, number)]
    return [(each.start_offset, each.end_offset) for each in own]


def test_a_snapshot_reads_as_the_disk_does(place: Path) -> None:
    result = brokerless.backup(DEMO, place)
    assert result.is_complete
    assert not result.findings
    assert rows_of(f"{place}@latest") == rows_of(DEMO)
    assert batches_of(f"{place}@latest") == batches_of(DEMO)
    assert [each.topic_partition for each in brokerless.open(place).partitions] == [
        each.topic_partition for each in brokerless.open(DEMO).partitions
    ]
    assert not [each for each in brokerless.open(place).verify() if each.severity != "info"]
    ends = {each.name: each.end_offset for each in result.snapshot.partitions}
    assert ends == {each.name: each.end_offset for each in brokerless.open(DEMO).partitions}


def test_so_do_the_groups_topics_and_settings(place: Path) -> None:
    brokerless.backup(DEMO, place)
    tables = ("topics", "configs", "groups", "offsets", "features", "nodes")
    found, expected = brokerless.cluster(f"{place}@latest"), brokerless.cluster(DEMO)
    assert found.cluster_id == expected.cluster_id
    for name in tables:
        columns = [each for each in expected.table(name).column_names if each not in ("disks", "directories")]
        assert found.table(name).select(columns) == expected.table(name).select(columns), name


def test_a_second_run_stores_nothing_where_nothing_is_new(place: Path) -> None:
    brokerless.backup(DEMO, place, name="first")
    before = objects_in(place)
    again = brokerless.backup(DEMO, place)
    assert again.snapshot.new_size == 0
    assert objects_in(place) == before
    assert segments_of(place) == segments_of(place, "first")
    assert again.snapshot.parent == brokerless.Backup(place).snapshots()[0].id


@pytest.mark.parametrize("is_joined", [False, True])
def test_a_later_run_stores_what_is_new(
    is_joined: bool, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_joined:
        monkeypatch.setattr(partition, "_SMALL", 0)
    disk = earlier(tmp_path / "earlier", 3)
    expected = rows_of(disk)
    brokerless.backup(disk, place, name="first")
    read: list[int] = []
    again = brokerless.backup(DEMO, place, name="second", done=read.append)
    assert again.is_complete
    assert rows_of(f"{place}@second") == rows_of(DEMO)
    assert rows_of(f"{place}@first") == expected
    old = ranges_of(place, "orders", 1, "first")
    (last,) = ranges_of(place, "orders", 1, "second")[-1:]
    assert last == (0 if is_joined else old[-1][1] + 1, 1234)
    assert ranges_of(place, "orders", 1, "second")[:-1] == ([] if is_joined else old)
    new = {each.name: each.new_size_in_bytes for each in again.snapshot.partitions}
    assert new["payments-0"] == new["users-0"] == 0


def test_what_is_before_the_last_batch_is_not_read_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "_SMALL", 0)
    sizes: list[int] = []
    brokerless.backup(DEMO, place, topics=["orders"], done=sizes.append)
    first, last = sum(sizes), max(each.stat().st_size for each in DEMO.glob("orders-*/*.log"))
    sizes.clear()
    brokerless.backup(DEMO, place, topics=["orders"], done=sizes.append)
    assert 0 < sum(sizes) <= 3 * last < first / 2


def test_producers_are_followed_from_one_run_to_the_next(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "_SMALL", 0)
    disk = tmp_path / "earlier"
    shutil.copytree(DEMO, disk)
    log = next((disk / "payments-0").glob("*.log"))
    batches = [row for batch in brokerless.open(log).partitions[0].batches(["position"]) for row in batch.to_pylist()]
    log.write_bytes(log.read_bytes()[: batches[len(batches) // 2]["position"]])
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (disk / name).unlink()
    brokerless.backup(disk, place, topics=["payments"])
    brokerless.backup(DEMO, place, topics=["payments"])
    brokerless.backup(DEMO, tmp_path / "whole", topics=["payments"])

    def snapshot_of(place: Path, segment: SnapshotSegment) -> bytes:
        where = UploadPlace(Location(str(place)), segment.topic, segment.topic_id, segment.partition)
        return read_index(as_remote(segment, where), "producerSnapshot", KeyPairs({}))

    (_, ours), (theirs,) = segments_of(place), segments_of(tmp_path / "whole")
    assert snapshot_of(place, ours) == snapshot_of(tmp_path / "whole", theirs)
    assert rows_of(f"{place}@latest") == rows_of(DEMO, ["payments"])


def test_segments_end_where_they_are_told_to_and_each_offset_is_in_one(place: Path) -> None:
    brokerless.backup(DEMO, place, segment_size=20_000)
    ranges = ranges_of(place, "orders", 0)
    assert len(ranges) > 5
    assert [start for start, _ in ranges] == [0, *(end + 1 for _, end in ranges[:-1])]
    assert all(each.size_in_bytes <= 20_000 for each in segments_of(place))
    assert rows_of(f"{place}@latest") == rows_of(DEMO)


def test_records_that_retention_took_before_a_run_are_named(place: Path, tmp_path: Path) -> None:
    brokerless.backup(earlier(tmp_path / "earlier", 1), place, name="first")
    disk = without_first(tmp_path / "later", 2)
    result = brokerless.backup(disk, place)
    assert not result.is_complete
    missed = [each for each in result.findings if each.kind == "offsets-missed"]
    assert [Path(each.file).name for each in missed] == ["orders-0", "orders-1", "orders-2"]
    assert [each.offset for each in missed] == [
        ranges_of(place, "orders", each, "first")[-1][1] + 1 for each in range(3)
    ]
    assert rows_of(f"{place}@latest") == rows_of(disk)


def test_the_log_start_moves_with_what_is_deleted(place: Path, tmp_path: Path) -> None:
    brokerless.backup(DEMO, place, name="first", segment_size=20_000)
    disk = tmp_path / "later"
    shutil.copytree(DEMO, disk)
    (disk / "log-start-offset-checkpoint").write_text("0\n1\norders 0 700\n")
    result = brokerless.backup(disk, place, segment_size=20_000)
    assert result.snapshot.new_size == 0
    assert rows_of(f"{place}@latest") == rows_of(disk)
    assert rows_of(f"{place}@latest")["orders", 0, "read_committed"][0]["offset"] == 700
    assert ranges_of(place, "orders", 0)[0][1] >= 700
    assert rows_of(f"{place}@first") == rows_of(DEMO)


def test_after_an_unclean_election_the_new_history_counts_and_the_old_snapshot_stays(place: Path) -> None:
    old, new = REPLICAS[1], REPLICAS[2]
    brokerless.backup(old, place, name="old")
    result = brokerless.backup(new, place, name="new")
    (changed,) = [each for each in result.findings if each.kind == "history-changed"]
    assert changed.offset == 220
    assert rows_of(f"{place}@old") == rows_of(old)
    assert rows_of(f"{place}@new") == rows_of(new)


def test_the_replica_with_the_history_that_counts_is_stored_and_others_are_named(place: Path) -> None:
    result = brokerless.backup(REPLICAS, place)
    assert {(Path(each.file).parts[-2], each.kind, each.offset) for each in result.findings} == {
        ("broker-1", "replica-diverges", 120), ("broker-2", "replica-diverges", 220),
    }  # fmt: skip
    assert not result.is_complete
    assert rows_of(f"{place}@latest") == rows_of(REPLICAS[2])


def damaged(target: Path, source: Path, offset: int) -> Path:
    """A disk with a wrong byte in the batch that has an offset."""
    shutil.copytree(source, target)
    log = max(each for each in (target / "orders-0").glob("*.log") if int(each.stem) <= offset)
    columns = ["position", "sizeInBytes", "baseOffset", "lastOffset"]
    rows = [row for batch in brokerless.open(log).partitions[0].batches(columns) for row in batch.to_pylist()]
    row = next(each for each in rows if each["baseOffset"] <= offset <= each["lastOffset"])
    data = bytearray(log.read_bytes())
    data[row["position"] + row["sizeInBytes"] - 1] ^= 0xFF
    log.write_bytes(data)
    return target


def test_damage_is_filled_from_another_replica(place: Path, tmp_path: Path) -> None:
    disk = damaged(tmp_path / "broker-3", REPLICAS[2], 50)
    result = brokerless.backup([disk, *REPLICAS[:2]], place)
    assert result.snapshot.is_complete
    assert rows_of(f"{place}@latest") == rows_of(REPLICAS[2])


@pytest.mark.parametrize("offset", [50, 200, None])
@pytest.mark.parametrize("segment_size", [4_000, 1 << 20])
def test_what_is_damaged_later_stays_as_it_was_stored(
    offset: int | None, segment_size: int, place: Path, tmp_path: Path
) -> None:
    brokerless.backup(REPLICAS[2], place, name="whole", segment_size=segment_size)
    last = brokerless.open(REPLICAS[2]).partitions[0].end_offset - 1
    disk = damaged(tmp_path / "broker-3", REPLICAS[2], last if offset is None else offset)
    for _ in range(2):
        result = brokerless.backup(disk, place, segment_size=segment_size)
        assert "history-changed" not in {each.kind for each in result.findings}
        assert result.snapshot.is_complete
        assert result.snapshot.new_size == 0
        assert rows_of(f"{place}@latest") == rows_of(REPLICAS[2])
    assert brokerless.backup(REPLICAS[2], place).snapshot.new_size == 0


def test_so_does_what_is_damaged_before_an_offset_that_was_lost(place: Path, tmp_path: Path) -> None:
    first = damaged(tmp_path / "first", REPLICAS[2], 50)
    (before,) = brokerless.backup(first, place, segment_size=4_000).snapshot.partitions
    disk = damaged(tmp_path / "second", first, 200)
    (after,) = brokerless.backup(disk, place, segment_size=4_000).snapshot.partitions
    assert (after.lost, after.records, after.new_size_in_bytes) == (before.lost, before.records, 0)


def test_what_is_damaged_of_a_compacted_topic_is_named(place: Path, tmp_path: Path) -> None:
    brokerless.backup(DEMO, place, topics=["users"], segment_size=4_000)
    disk = tmp_path / "disk"
    shutil.copytree(DEMO, disk)
    log = max((disk / "users-0").glob("*.log"), key=lambda each: each.stat().st_size)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    result = brokerless.backup(disk, place, topics=["users"], segment_size=4_000)
    assert result.snapshot.partitions[0].lost
    assert "history-changed" not in {each.kind for each in result.findings}


def test_what_no_replica_has_is_named_and_a_later_run_stores_it(place: Path, tmp_path: Path) -> None:
    disk = damaged(tmp_path / "broker-3", REPLICAS[2], 50)
    result = brokerless.backup(disk, place, name="lossy")
    (only,) = result.snapshot.partitions
    (lost,) = only.lost
    assert lost.first_offset <= 50 <= (lost.last_offset or 0)
    assert lost.causes == ("checksum-mismatch",)
    assert not result.is_complete
    whole = rows_of(REPLICAS[2])["orders", 0, "read_committed"]
    expected = [each for each in whole if not lost.first_offset <= each["offset"] <= (lost.last_offset or 0)]
    found: list[Finding] = []
    (partition,) = brokerless.open(f"{place}@lossy").partitions
    read = partition.records(COLUMNS, isolation="read_committed", on_damage=found.append).read_all()
    assert read.to_pylist() == expected
    assert [(each.kind, each.severity, each.offset) for each in found] == [
        ("stored-offsets-lost", "error", lost.first_offset)
    ]
    assert brokerless.backup(REPLICAS[2], place).snapshot.is_complete
    assert rows_of(f"{place}@latest") == rows_of(REPLICAS[2])


def test_a_partition_that_no_disk_has_is_named(place: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    shutil.copytree(DEMO, disk)
    shutil.rmtree(disk / "orders-1")
    result = brokerless.backup(disk, place)
    assert [(each.topic, each.partition) for each in result.snapshot.missing] == [("orders", 1)]
    assert "nodes 1" in result.snapshot.missing[0].reason
    assert not result.is_complete
    assert brokerless.backup(disk, tmp_path / "other", topics=["users"]).is_complete


def test_of_a_compacted_topic_what_changed_is_stored(place: Path, tmp_path: Path) -> None:
    brokerless.backup(DEMO, place, segment_size=4_000, topics=["users"], name="first")
    disk = tmp_path / "cleaned"
    brokerless.open(DEMO).compact(disk, now="2026-11-24")
    result = brokerless.backup(disk, place, segment_size=4_000, topics=["users"])
    assert result.is_complete
    (users,) = result.snapshot.partitions
    assert users.is_compacted
    assert rows_of(f"{place}@latest") == rows_of(disk, ["users"])
    assert rows_of(f"{place}@first") == rows_of(DEMO, ["users"])
    again = brokerless.backup(disk, place, segment_size=4_000, topics=["users"])
    assert again.snapshot.new_size == 0


def test_a_compacted_topic_that_grew_keeps_its_segments(place: Path, tmp_path: Path) -> None:
    disk = earlier(tmp_path / "earlier", 5, "users")
    brokerless.backup(disk, place, topics=["users"], segment_size=4_000, name="first")
    result = brokerless.backup(DEMO, place, topics=["users"], segment_size=4_000)
    assert segments_of(place)[: len(segments_of(place, "first"))] == segments_of(place, "first")
    assert result.snapshot.new_size < result.snapshot.size / 2
    assert rows_of(f"{place}@latest") == rows_of(DEMO, ["users"])


def test_a_topic_of_an_older_kafka_gets_an_id_by_its_name(place: Path, tmp_path: Path) -> None:
    shutil.copytree(REPLICAS[0], tmp_path / "old")
    (tmp_path / "old" / "orders-0" / "partition.metadata").unlink()
    for _ in range(2):
        snapshot = brokerless.backup(tmp_path / "old", place).snapshot
        assert [each.topic_id for each in snapshot.partitions] == [named_id(snapshot.cluster_id, "orders")]
    assert named_id("A" * 22, "orders") != named_id(None, "orders") != named_id(None, "other")


def test_a_backup_of_a_backup_is_the_same(place: Path, tmp_path: Path) -> None:
    brokerless.backup(DEMO, place, name="first")
    result = brokerless.backup(f"{place}@first", tmp_path / "other")
    assert result.is_complete
    assert rows_of(tmp_path / "other") == rows_of(DEMO)
    (first,) = brokerless.Backup(place).snapshots()
    assert {each.path for each in result.snapshot.disks} == {f"{place}@{first.id}"}


def test_clients_read_a_snapshot_without_a_broker(place: Path) -> None:
    brokerless.backup(DEMO, place, name="served")
    offsets: list[int] = []
    with brokerless.serve(f"{place}@served") as server:
        settings = {"bootstrap.servers": server.bootstrap_servers, "group.id": "readers", "enable.partition.eof": True}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition("users", 0, 0)])
        while (message := consumer.poll(30)) is not None and message.error() is None:
            offsets.append(message.offset() or 0)
        consumer.close()
    assert offsets == [each["offset"] for each in rows_of(DEMO, ["users"])["users", 0, "read_committed"]]


def test_a_clock_that_goes_back_does_not_make_the_newest_snapshot_old(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokerless.backup(DEMO, place)
    monkeypatch.setattr("brokerless.clock.now", lambda: 1_000_000_000_000)
    result = brokerless.backup(DEMO, place)
    assert brokerless.Backup(place).snapshots()[-1].id == result.snapshot.id


def test_a_dry_run_writes_nothing(place: Path) -> None:
    planned = brokerless.backup(DEMO, place, dry_run=True)
    assert not place.exists()
    done = brokerless.backup(DEMO, place)
    assert (planned.snapshot.new_size, planned.snapshot.size) == (done.snapshot.new_size, done.snapshot.size)
    assert [each.records for each in planned.snapshot.partitions] == [each.records for each in done.snapshot.partitions]


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda place: shutil.copytree(DEMO.parent / "bucket", place), "objects of tiered storage, and no backup"),
        (lambda place: shutil.copytree(DEMO.parent / "replicas", place), "not empty, and no backup"),
        (lambda place: brokerless.backup(REPLICAS[0], place), "a backup of the cluster .* the disks are of bdhh6u6G"),
    ],
)  # fmt: skip
def test_a_place_with_anything_else_is_refused(prepare: Callable[[Path], Any], reason: str, place: Path) -> None:
    prepare(place)
    before = sorted(place.rglob("*"))
    with pytest.raises(UsageError, match=reason):
        brokerless.backup(DEMO, place)
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize(
    ("paths", "to", "reason"),
    [
        ([DEMO / "orders-0"], "backup", "not a log directory"),
        ([DEMO, DEMO], "backup", "given twice"),
        ([DEMO], str(DEMO), "within"),
        ([DEMO], str(DEMO / "inner"), "within"),
    ],
)
def test_paths_that_cannot_be_backed_up_are_refused(paths: list[Path], to: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=reason):
        brokerless.backup(paths, tmp_path / to)
    assert not (tmp_path / "backup").exists()


@pytest.mark.parametrize("suffix", ["log", "indexes", "rsm-manifest"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_segments_that_are_gone_from_the_bucket_are_named_and_stored_again(
    suffix: str, is_cut: bool, place: Path, tmp_path: Path
) -> None:
    brokerless.backup(earlier(tmp_path / "earlier", 2), place, segment_size=20_000)
    for topic in ("orders", "users"):
        file = min(place.glob(f"{topic}-*/0/*.{suffix}"))
        if is_cut:
            file.write_bytes(file.read_bytes()[:-2])
        else:
            file.unlink()
    before = objects_in(place)
    again = brokerless.backup(DEMO, place, segment_size=20_000)
    kind = "stored-object-differs" if is_cut else "remote-object-missing"
    assert [each.kind for each in again.findings] == [kind, kind]
    assert not again.is_complete
    assert before < objects_in(place)
    assert rows_of(place) == rows_of(DEMO)
    assert not brokerless.Backup(f"{place}@latest").check("all").findings
    assert not brokerless.backup(DEMO, place, segment_size=20_000).findings


def test_a_place_that_would_be_read_as_a_snapshot_is_refused(place: Path) -> None:
    brokerless.backup(DEMO, place, name="nightly", topics=["users"])
    for name in ("nightly", "other"):
        with pytest.raises(UsageError, match="would be a snapshot of the backup"):
            brokerless.backup(DEMO, f"{place}@{name}")
    assert [each.name for each in place.parent.iterdir()] == [place.name]


@pytest.mark.parametrize("name", ["", "latest", "a/b", "..", "a" * 65, "a@b"])
def test_a_name_that_no_snapshot_can_have_is_refused(name: str, place: Path) -> None:
    with pytest.raises(UsageError, match="the name of a snapshot"):
        brokerless.backup(DEMO, place, name=name)


FILE = {"sha256": "0" * 64, "sizeInBytes": 1, "storedSha256": "0" * 64, "storedSizeInBytes": 1}


def change_json(place: Path, **members: Any) -> None:
    (file,) = (place / ".brokerless" / "snapshots").glob("*.json")
    found = {**json.loads(file.read_bytes()), **members}
    del found["sha256"]
    text = json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    file.write_text(json.dumps({**found, "sha256": hashlib.sha256(text.encode()).hexdigest()}))


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"snapshot": 2}, "a later brokerless wrote this snapshot"),
        ({"id": "00000000"}, "not the one of its name"),
        ({"partitions": 5}, "no snapshot of a backup"),
        ({"files": [{**FILE, "name": "disk-1/../../x"}]}, "name is none of a file"),
        ({"segments": {"sha256": "0" * 64, "rows": 1}}, "not the list of segments"),
    ],
)  # fmt: skip
def test_a_snapshot_that_is_not_ours_is_one_sentence(members: dict[str, Any], reason: str, place: Path) -> None:
    brokerless.backup(REPLICAS[0], place)
    change_json(place, **members)
    with pytest.raises(UnreadableError, match=reason):
        brokerless.open(f"{place}@latest")


@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_the_next_run_goes_on_from_what_can_be_read(suffix: str, place: Path, tmp_path: Path) -> None:
    brokerless.backup(earlier(tmp_path / "earlier", 3), place, name="first")
    brokerless.backup(DEMO, place, name="second")
    file = max((place / ".brokerless" / "snapshots").glob(f"*.{suffix}"))
    file.write_bytes(file.read_bytes()[:-9])
    (first,) = [each for each in brokerless.Backup(f"{place}@first").snapshots() if each.name == "first"]
    with pytest.raises(UnreadableError, match=f"the snapshot before it is .*backup@{first.id}") as raised:
        brokerless.open(f"{place}@latest")
    assert raised.value.path == str(file)
    result = brokerless.backup(DEMO, place, name="third")
    assert [(each.kind, each.file) for each in result.findings] == [("snapshot-unreadable", str(file))]
    assert not result.is_complete
    assert result.snapshot.is_complete
    assert result.snapshot.new_size > 0
    assert suffix == "parquet" or result.snapshot.parent == first.id
    assert rows_of(f"{place}@third") == rows_of(DEMO)
    assert rows_of(f"{place}@latest") == rows_of(DEMO)


def test_an_edited_snapshot_is_not_read(place: Path) -> None:
    brokerless.backup(REPLICAS[0], place)
    (file,) = (place / ".brokerless" / "snapshots").glob("*.json")
    text = file.read_text()
    for edited in (text.replace('"endOffset": ', '"endOffset": 1', 1), text.replace(', "sha256"', ', "x"', 1)):
        assert edited != text
        file.write_text(edited)
        with pytest.raises(UnreadableError, match="not those that were written"):
            brokerless.open(place)
        (finding,) = brokerless.Backup(place).check().findings
        assert (finding.kind, finding.file) == ("snapshot-unreadable", str(file))
    file.write_text(json.dumps(json.loads(text), indent=2))
    assert not brokerless.Backup(place).check().findings


def test_the_latest_snapshot_is_one_of_all_topics_if_there_is_one(place: Path) -> None:
    assert brokerless.backup(DEMO, place, topics=["users"], name="users").snapshot.is_selection
    assert {each.name for each in brokerless.open(place).topics} == {"users"}
    assert not brokerless.backup(DEMO, place, name="all").snapshot.is_selection
    result = brokerless.backup(DEMO, place, topics=["orders"], name="orders")
    assert result.snapshot.id != brokerless.Backup(f"{place}@latest").snapshots()[0].id
    assert rows_of(f"{place}@latest") == rows_of(DEMO)
    assert {each.name for each in brokerless.open(f"{place}@orders").topics} == {"orders"}


def test_a_file_that_was_cut_is_stored_again(place: Path) -> None:
    brokerless.backup(DEMO, place)
    file = max((place / ".brokerless" / "files").iterdir(), key=lambda each: each.stat().st_size)
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    again = brokerless.backup(DEMO, place)
    assert [(each.kind, each.file) for each in again.findings] == [("stored-object-differs", str(file))]
    assert file.read_bytes() == data
    assert not brokerless.Backup(place).check("all").findings


def test_a_hostile_topic_is_no_path(place: Path) -> None:
    brokerless.backup(REPLICAS[0], place)
    (file,) = (place / ".brokerless" / "snapshots").glob("*.json")
    partitions = json.loads(file.read_bytes())["partitions"]
    for topic in ("..", "a/b", "orders-0\n", ""):
        change_json(place, partitions=[{**partitions[0], "topic": topic}])
        with pytest.raises(UnreadableError, match="no name of a topic"):
            brokerless.open(place)


def test_a_run_with_a_rate_stores_the_same(tmp_path: Path) -> None:
    brokerless.backup(DEMO, tmp_path / "backup", rate=100 << 20)
    assert rows_of(f"{tmp_path / 'backup'}@latest") == rows_of(DEMO)
