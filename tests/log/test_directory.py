"""Oracle: the data folders as brokers left them."""

from __future__ import annotations

import shutil
from pathlib import Path

import fsspec
import pytest
from tests.golden import BROKERS, broker_data, case, cases
from tests.log.cleaner import write_log, write_segment

from brokerless.errors import UnreadableError, UsageError
from brokerless.log.commit.partition_writer import unfinished_name
from brokerless.log.directory import resolve
from brokerless.log.offset_gaps import check_names
from brokerless.log.storage.location import Location

DELETE = "txn-1.0a1b2c3d4e5f60718293a4b5c6d7e8f9-delete"
STRAY = "txn-1.1a1b2c3d4e5f60718293a4b5c6d7e8f9-stray"
FUTURE = "txn-0.2a1b2c3d4e5f60718293a4b5c6d7e8f9-future"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory of two partitions, to be changed."""
    root = tmp_path / "data"
    for name in ("txn-0", "txn-1"):
        shutil.copytree(broker_data("clean") / name, root / name)
    shutil.copy(broker_data("clean") / "meta.properties", root)
    return root


@pytest.mark.parametrize("broker", BROKERS)
def test_a_brokers_data_folder_is_its_partitions_and_its_own_files(broker: str) -> None:
    root = broker_data(broker)
    found = resolve(Location(str(root)))
    directories = sorted(path.name for path in root.iterdir() if path.is_dir())
    assert found.kind == "log-directory"
    assert sorted(f"{each.topic}-{each.partition}" for each in found.partitions) == directories
    assert sorted(found.files) == sorted(path.name for path in root.iterdir() if path.is_file())
    assert (found.others, found.foreign) == ((), ())


@pytest.mark.parametrize("broker", BROKERS)
def test_every_file_of_a_brokers_partition_has_its_place(broker: str) -> None:
    for partition in resolve(Location(str(broker_data(broker)))).partitions:
        placed = {
            partition.leader_epoch_checkpoint,
            partition.partition_metadata,
            partition.quorum_state,
            *partition.producer_snapshots,
            *partition.snapshots,
        }
        for segment in partition.segments:
            placed |= {segment.log, segment.offset_index, segment.time_index, segment.transaction_index}
        paths = {each.path for each in placed if each is not None}
        assert paths == {str(path) for path in Path(partition.path).iterdir()}
        assert list(check_names(partition)) == []
        bases = [segment.base_offset for segment in partition.segments]
        assert bases == sorted(bases)


def test_a_segment_has_those_companions_that_exist() -> None:
    partition = resolve(Location(str(broker_data("clean") / "txn-0"))).partitions[0]
    first, second = partition.segments[:2]
    assert (first.base_offset, first.log.name, first.log.size) == (0, f"{0:020}.log", first.log.size)
    assert first.transaction_index is None
    assert first.producer_snapshot is None
    assert second.transaction_index is not None
    assert second.transaction_index.path == f"{partition.path}/{10:020}.txnindex"
    assert second.producer_snapshot is not None
    # The one of the log's end belongs to no segment.
    assert partition.producer_snapshots[-1].name == f"{465:020}.snapshot"


@pytest.mark.parametrize("given", ["{data}/txn-1", "{data}/txn-1/", "{data}/./txn-1/.", "file://{data}/txn-1"])
def test_a_partitions_directory_is_that_partition_however_it_is_written(data: Path, given: str) -> None:
    path = given.format(data=data)
    found = resolve(Location(path))
    (partition,) = found.partitions
    assert (found.kind, partition.topic, partition.partition, partition.state) == ("partition", "txn", 1, "live")
    assert (found.path, partition.path) == (path, path)
    assert partition.segments[0].log.path == f"{path.rstrip('/')}/{0:020}.log"


def test_the_current_directory_is_a_partition_as_well(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data / "txn-1")
    (partition,) = resolve(Location(".")).partitions
    assert (partition.topic, partition.partition) == ("txn", 1)
    assert partition.segments[0].log.path == f"./{0:020}.log"


def test_a_partitions_directory_of_another_name_can_be_read_without_a_topic(data: Path) -> None:
    (data / "txn-1").rename(data / "backup of txn")
    (partition,) = resolve(Location(str(data / "backup of txn"))).partitions
    assert (partition.topic, partition.partition) == (None, None)
    assert [segment.base_offset for segment in partition.segments] == [0, 1, 73, 142]


def test_a_lone_log_has_no_topic_and_the_base_offset_of_its_name(data: Path) -> None:
    path = str(data / "txn-1" / f"{73:020}.log")
    found = resolve(Location(path))
    (partition,) = found.partitions
    (segment,) = partition.segments
    assert (found.kind, partition.topic, partition.partition) == ("file", None, None)
    assert (segment.base_offset, segment.log.path, segment.offset_index) == (73, path, None)
    assert segment.log.size == Path(path).stat().st_size


def test_every_log_of_the_archive_can_be_given_by_itself() -> None:
    for each in cases("damaged", "specials"):
        for log in each.logs:
            (partition,) = resolve(Location(str(log))).partitions
            assert [segment.log.path for segment in partition.segments] == [str(log)]


def test_a_kraft_snapshot_is_a_log_of_its_own() -> None:
    path = case("specials/kraft-snapshot-none").logs[0]
    assert path.suffix == ".checkpoint"
    (partition,) = resolve(Location(str(path.parent))).partitions
    assert [each.name for each in partition.snapshots] == [path.name]
    assert partition.segments == ()


def test_the_bootstrap_snapshot_of_a_log_directory_is_a_log() -> None:
    (partition,) = resolve(Location(str(broker_data("clean") / "bootstrap.checkpoint"))).partitions
    assert partition.segments[0].log.name == "bootstrap.checkpoint"


def test_partitions_on_their_way_in_or_out_are_read_only_if_asked_for(data: Path) -> None:
    for name in (DELETE, STRAY, FUTURE):
        shutil.copytree(data / "txn-1", data / name)
    found = resolve(Location(str(data)))
    assert [each.state for each in found.partitions] == ["live", "live"]
    assert [(each.topic, each.partition, each.state) for each in found.others] == [
        ("txn", 0, "future"),
        ("txn", 1, "delete"),
        ("txn", 1, "stray"),
    ]
    found = resolve(Location(str(data)), include=["stray", "delete"])
    assert [each.state for each in found.partitions] == ["live", "live", "delete", "stray"]
    assert [each.state for each in found.others] == ["future"]
    given = resolve(Location(str(data / DELETE)))
    assert [each.state for each in given.partitions] == ["delete"]


def test_what_was_not_finished_is_no_deleted_data(data: Path) -> None:
    shutil.copytree(data / "txn-1", data / unfinished_name("txn", 1, "0123456789abcdef"))
    found = resolve(Location(str(data)), include=["delete"])
    assert [each.state for each in found.partitions] == ["live", "live"]
    assert [each.state for each in found.others] == ["delete"]


def test_a_state_that_does_not_exist_is_a_wrong_argument(data: Path) -> None:
    with pytest.raises(UsageError, match="'gone'; there are 'future', 'delete', 'stray' and 'deleted'"):
        resolve(Location(str(data)), include=["gone"])  # type: ignore[list-item]


def test_orphaned_files_of_a_cut_short_compaction_or_deletion_are_reported(data: Path) -> None:
    partition = data / "txn-1"
    for name in (
        f"{0:020}.log.swap",
        f"{73:020}.log.cleaned",
        f"{142:020}.log.swap",
        f"{7:020}.log.deleted",
        f"{9:020}.index",
    ):
        (partition / name).write_bytes(b"")
    (partition / "leader-epoch-checkpoint.tmp").write_bytes(b"")
    (partition / "notes.txt").write_bytes(b"")
    (partition / "12.log").write_bytes(b"")
    (found,) = resolve(Location(str(partition))).partitions
    assert [segment.base_offset for segment in found.segments] == [0, 1, 73, 142]
    assert {Path(each.file).name: (each.severity, each.kind) for each in check_names(found)} == {
        f"{0:020}.log.swap": ("info", "swap-file"),
        f"{0:020}.log": ("warning", "segment-replaced"),
        f"{73:020}.log.cleaned": ("info", "leftover-file"),
        f"{142:020}.log.swap": ("info", "leftover-file"),  # behind an unfinished one
        f"{7:020}.log.deleted": ("info", "leftover-file"),
        f"{9:020}.index": ("warning", "orphan-index"),
        "leader-epoch-checkpoint.tmp": ("info", "leftover-file"),
        "notes.txt": ("info", "foreign-file"),
        "12.log": ("info", "foreign-file"),
    }


def test_a_partition_is_listed_as_the_next_start_completes_it(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    write_segment(path, 10, [10, 12, 25], ".swap")
    (found,) = resolve(Location(str(path))).partitions
    assert [each.base_offset for each in found.segments] == [0, 10, 30, 40]
    files = (found.segments[1].log, found.segments[1].offset_index, found.segments[1].time_index)
    assert [each and each.name for each in files] == [f"{10:020}.{kind}.swap" for kind in ("log", "index", "timeindex")]
    assert {each.name[:20] for each in found.orphaned_files} == {f"{10:020}", f"{20:020}"}
    assert found.findings == ()


def test_a_partition_can_be_listed_as_it_lies(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    write_segment(path, 10, [10, 12, 25], ".swap")
    (found,) = resolve(Location(str(path)), as_it_lies=True).partitions
    assert [each.log.name for each in found.segments] == [f"{base:020}.log" for base in range(0, 50, 10)]
    assert [each.name for each in found.orphaned_files] == [
        f"{10:020}.{each}.swap" for each in ("index", "log", "timeindex")
    ]


def test_no_file_is_opened_unless_a_compaction_left_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, opened = write_log(tmp_path / "t-0"), list[str]()
    open_file = Location.open
    monkeypatch.setattr(Location, "open", lambda each: (opened.append(each.name), open_file(each))[1])
    resolve(Location(str(tmp_path)))
    write_segment(path, 10, [10], ".cleaned")
    (path / f"{99:020}.log.deleted").write_bytes(b"")
    resolve(Location(str(tmp_path)))
    assert opened == []


def test_what_cannot_be_read_takes_no_segments_place(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    (path / f"{10:020}.log.swap").symlink_to(tmp_path / "nowhere")
    (found,) = resolve(Location(str(path))).partitions
    assert [each.base_offset for each in found.segments] == [0, 10, 20, 30, 40]
    assert [(each.severity, each.kind) for each in found.findings] == [("error", "unreadable-file")]
    assert [each.name for each in found.orphaned_files] == [f"{10:020}.log.swap"]


def test_what_is_not_kafkas_in_a_log_directory_is_foreign(data: Path) -> None:
    (data / "lost+found").mkdir()
    (data / "photos-2024").mkdir()
    (data / "photos-2024" / "beach.jpg").write_bytes(b"")
    (data / "notes.txt").write_bytes(b"")
    found = resolve(Location(str(data)))
    assert [each.name for each in found.foreign] == ["lost+found", "notes.txt", "photos-2024"]
    assert len(found.partitions) == 2


def test_a_partition_whose_disk_is_not_there_is_reported(data: Path, tmp_path: Path) -> None:
    (data / "payments-3").symlink_to("nowhere")
    (found,) = (each for each in resolve(Location(str(data))).partitions if each.topic == "payments")
    assert (found.partition, found.segments) == (3, ())
    assert [(each.kind, each.file) for each in found.findings] == [("unreadable-directory", str(data / "payments-3"))]
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "summer-2024").symlink_to("nowhere")
    with pytest.raises(UnreadableError, match="holds no Kafka log"):
        resolve(Location(str(tmp_path / "photos")))


def test_an_empty_partitions_directory_is_a_partition_without_segments(data: Path) -> None:
    (data / "new-0").mkdir()
    found = resolve(Location(str(data)))
    assert [(each.topic, bool(each.segments)) for each in found.partitions] == [
        ("new", False),
        ("txn", True),
        ("txn", True),
    ]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("missing", "there is no such file or directory"),
        ("empty", "the directory is empty"),
        ("photos", "the directory holds no Kafka log"),
        ("renamed", "no file in it is named as a segment .* but .*orders.log can be given by itself"),
        (f"txn-1/{0:020}.index", f"this is an offset index, not a log; its log would be {0:020}.log"),
        (f"txn-1/{73:020}.txnindex", "this is a transaction index, not a log"),
        ("meta.properties", "this is one of Kafka's metadata files, not a log"),
        ("txn-1/partition.metadata", "this is one of Kafka's metadata files, not a log"),
    ],
)
def test_where_there_is_nothing_to_read_the_error_says_what_to_give(data: Path, given: str, reason: str) -> None:
    (data / "empty").mkdir()
    (data / "photos").mkdir()
    (data / "photos" / "beach.jpg").write_bytes(b"")
    (data / "renamed").mkdir()
    (data / "renamed" / "orders.log").write_bytes(b"")
    with pytest.raises(UnreadableError, match=reason) as raised:
        resolve(Location(str(data / given)))
    assert str(raised.value).startswith(f"{data / given}: ")


def test_a_remote_log_directory_is_described_as_a_local_one(data: Path) -> None:
    fs = fsspec.filesystem("memory")
    root = "memory://test_directory"
    fs.put(str(data), root, recursive=True)
    try:
        local, remote = resolve(Location(str(data))), resolve(Location(root))
    finally:
        fs.rm(root, recursive=True)
    assert [each.topic for each in remote.partitions] == [each.topic for each in local.partitions]
    for ours, theirs in zip(local.partitions, remote.partitions, strict=True):
        sizes = [(each.base_offset, each.log.name, each.log.size) for each in ours.segments]
        assert [(each.base_offset, each.log.name, each.log.size) for each in theirs.segments] == sizes
        assert theirs.path == f"{root}/{theirs.topic}-{theirs.partition}"
