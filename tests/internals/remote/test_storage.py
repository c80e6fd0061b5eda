"""What is in remote storage, by a 3.9.1 broker's metadata; ``tests/kafka/test_remote_start.py`` has live brokers."""

from __future__ import annotations

from pathlib import Path

from brokerless.internals.remote.storage import RemoteSegment, RemoteStorage, deleted_by_epochs
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

ID = "HgTP-yCeTxanOEnWWBin1A"


def storage(*ranges: tuple[int, int], is_known: bool = True) -> RemoteStorage:
    segments = [RemoteSegment(str(first), first, last, 100, (0,)) for first, last in ranges]
    return RemoteStorage({ID: "orders"}, {(ID, 0): segments}, is_known)


def message(tmp_path: Path, base_offset: int, found: RemoteStorage, topic: str = "orders") -> str | None:
    directory = tmp_path / f"{topic}-0"
    directory.mkdir()
    (directory / f"{base_offset:020}.log").write_bytes(b"")
    (partition,) = resolve(Location(str(directory))).partitions
    finding = found.finding(partition)
    return None if finding is None else finding.message


def test_offsets_before_the_first_local_segment_are_named(tmp_path: Path) -> None:
    text = "offsets 10..959 are in remote storage and were not read"
    assert message(tmp_path, 960, storage((10, 499), (500, 1200))) == text


def test_what_is_local_too_is_not_named(tmp_path: Path) -> None:
    assert message(tmp_path, 0, storage((0, 499))) is None


def test_a_topic_that_is_not_tiered_is_not_named(tmp_path: Path) -> None:
    assert message(tmp_path, 960, storage((0, 959)), "others") is None


def test_a_tiered_topic_without_the_metadata_of_its_segments_is_named(tmp_path: Path) -> None:
    assert "is not known: its __remote_log_metadata is not here" in str(message(tmp_path, 960, storage(is_known=False)))


def test_segments_whose_epochs_are_all_before_the_first_local_one_go() -> None:
    segments = [RemoteSegment(str(at), at, at, 1, epochs) for at, epochs in enumerate([(0,), (0, 1), (1, 2), (3,)])]
    assert [each.start_offset for each in deleted_by_epochs(segments, 2)] == [0, 1]
    assert [each.start_offset for each in deleted_by_epochs(segments, 4)] == [0, 1, 2, 3]
