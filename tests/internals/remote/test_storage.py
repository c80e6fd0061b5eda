"""What is in remote storage, by a 3.9.1 broker's metadata; ``tests/kafka/test_remote_start.py`` has live brokers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.internals.remote.metadata import broker_directory
from tests.log.tiered import copy_of, golden

import brokerless
from brokerless import DamageError, Kind
from brokerless.findings import BEFORE_FIRST_SEGMENT
from brokerless.internals.remote.storage import RemoteLogSegment, RemoteStorage, deleted_by_epochs
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

ID = "HgTP-yCeTxanOEnWWBin1A"


def storage(*ranges: tuple[int, int], is_known: bool = True) -> RemoteStorage:
    segments = [RemoteLogSegment(str(first), first, last, 100, (0,)) for first, last in ranges]
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
    segments = [RemoteLogSegment(str(at), at, at, 1, epochs) for at, epochs in enumerate([(0,), (0, 1), (1, 2), (3,)])]
    assert [each.start_offset for each in deleted_by_epochs(segments, 2)] == [0, 1]
    assert [each.start_offset for each in deleted_by_epochs(segments, 4)] == [0, 1, 2, 3]


def without_first_offset(topic: str, bucket: Path) -> int:
    """Removes the objects of the segments that begin at offset 0; the first offset that is left."""
    directory = next(bucket.glob(f"**/*{topic}-*/0"))
    for each in directory.glob(f"{0:020}-*"):
        each.unlink()
    return min(int(each.name[:20]) for each in directory.glob("*.log"))


@pytest.mark.parametrize(("set_", "topic"), [("killed", "killed"), ("plain", "epochs")])
def test_first_offsets_that_the_bucket_should_have_are_an_error(set_: str, topic: str, tmp_path: Path) -> None:
    data, bucket = broker_directory(set_, tmp_path / "data"), copy_of(set_, tmp_path / "bucket")
    end = without_first_offset(topic, bucket)
    log = brokerless.open(data, remote=bucket)
    for path in (log, brokerless.open(data / f"{topic}-0", remote=bucket)):
        (found,) = [each for each in path.verify() if each.kind == Kind.REMOTE_OFFSETS_MISSING]
        assert (found.severity, found.offset) == ("error", 0)
        assert f"offsets 0..{end - 1} are in remote storage; nothing that can be read" in found.message
        with pytest.raises(DamageError, match=r"offsets 0\.\."):
            list(path.partition(topic, 0).records())


def test_a_part_of_a_bucket_is_not_asked_for_other_topics(tmp_path: Path) -> None:
    data = broker_directory("plain", tmp_path / "data")
    bucket = next((golden() / "plain" / "bucket").glob("**/*trimmed-*"))
    found = [each for each in brokerless.open(data, remote=bucket).verify() if each.kind in BEFORE_FIRST_SEGMENT]
    assert {(each.kind, each.severity) for each in found} == {(Kind.REMOTE_OFFSETS, "warning")}
