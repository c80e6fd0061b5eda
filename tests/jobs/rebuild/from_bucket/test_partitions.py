"""What is read of golden buckets is what their brokers wrote into the metadata of remote segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.internals.remote.metadata import broker_directory, metadata
from tests.log.tiered import copy_of, golden

import brokerless
from brokerless import UnreadableError
from brokerless.internals.remote.segment_metadata import SegmentMetadata, read_remote_metadata
from brokerless.jobs.rebuild.from_bucket.partitions import BucketPartition
from brokerless.jobs.rebuild.from_bucket.plan import BucketOptions, read_bucket
from brokerless.log.checkpoint.leader_epochs import load_epochs, truncate_from_start
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.log.tiered.options import with_tiered_options


def partitions_of(set_: str, **key_pairs: Path) -> tuple[BucketPartition, ...]:
    location = with_tiered_options(Location(str(golden() / set_ / "bucket")), key_pairs, None, None)
    return read_bucket(BucketOptions(location)).partitions


def without_history(segment: SegmentMetadata) -> SegmentMetadata:
    """What a bucket does not have: custom metadata, and when the copy was finished."""
    return replace(
        segment, custom_metadata=None, changed_at=0, metadata_partition=-1, metadata_offset=-1, is_referenced=False
    )


@pytest.mark.parametrize("set_", ["plain", "prefix"])
def test_each_field_of_a_segment_is_what_its_broker_wrote(set_: str) -> None:
    read = read_remote_metadata(resolve(Location(str(metadata() / set_ / "data"))).partitions, lambda _: None)
    found = partitions_of(set_)
    assert found
    for partition in found:
        known = read.of(partition.topic_id, partition.partition)
        theirs = [without_history(each) for each in known.values() if each.state == "COPY_SEGMENT_FINISHED"]
        assert [without_history(each) for each in partition.segments] == theirs


def test_leader_epochs_are_those_of_the_broker_up_to_the_end_of_the_bucket(tmp_path: Path) -> None:
    directory = resolve(Location(str(broker_directory("plain", tmp_path / "data"))))
    here = {(each.topic, each.partition): load_epochs(each.leader_epoch_checkpoint) for each in directory.partitions}
    found = [each for each in partitions_of("plain") if (each.topic, each.partition) in here]
    assert any(len(each.epochs) > 1 for each in found)
    for each in found:
        whole = here[each.topic, each.partition]
        of_broker = tuple(entry for entry in whole if entry[1] < each.end_offset)
        assert truncate_from_start(each.epochs, whole[0][1]) == of_broker
        assert each.newest_epoch >= max(epoch for epoch, _ in each.epochs)


def test_of_two_copies_of_a_range_one_counts() -> None:
    (partition,) = partitions_of("killed")
    spans = [(each.start_offset, each.end_offset) for each in partition.segments]
    assert [start for start, _ in spans[1:]] == [end + 1 for _, end in spans[:-1]]


def test_without_the_key_of_a_partition_nothing_is_rebuilt() -> None:
    with pytest.raises(UnreadableError, match="key1"):
        partitions_of("encrypted")
    assert all(each.epochs for each in partitions_of("encrypted", key1=golden() / "keys" / "key1.pem"))


SETS = ("compressed", "heuristic", "killed", "local", "plain", "prefix")


@pytest.mark.parametrize("set_", SETS)
def test_nothing_is_missing_of_what_brokers_left(set_: str) -> None:
    """Also where uploads did not end, and were done again."""
    assert not any(each.missing for each in partitions_of(set_))


def damaged(tmp_path: Path, set_: str, at: int, kind: str, change: Callable[[Path], object]) -> tuple[Path, list[int]]:
    """A bucket in which an object of one segment is changed; and where the segments of its partition begin."""
    bucket = copy_of(set_, tmp_path / "bucket")
    directory = max((each.parent for each in bucket.rglob("*.log")), key=lambda each: len([*each.glob("*.log")]))
    logs = sorted(directory.glob("*.log"))
    change(logs[at].with_suffix(kind))
    return bucket, [int(each.name[:20]) for each in logs]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])


@pytest.mark.parametrize(("set_", "kind", "change", "reason"), [
    ("local", ".log", Path.unlink, "without its log"),
    ("local", ".log", cut, "cut or damaged"),
    ("local", ".leader_epoch_checkpoint", Path.unlink, "its log is intact"),
    ("local", ".snapshot", Path.unlink, "its log is intact"),
    ("plain", ".log", Path.unlink, "without its log"),
    ("plain", ".log", cut, "another size than its manifest says"),
    ("plain", ".rsm-manifest", Path.unlink, "without its manifest"),
])  # fmt: skip
@pytest.mark.parametrize("at", [1, -1])
def test_what_is_missing_between_segments_or_at_the_end_is_an_error_and_lost(
    tmp_path: Path, set_: str, kind: str, change: Callable[[Path], object], reason: str, at: int
) -> None:
    bucket, starts = damaged(tmp_path, set_, at, kind, change)
    planned = brokerless.rebuild([], tmp_path / "to", from_bucket=bucket)
    (error,) = [each for each in planned.findings if each.kind == "remote-offsets-missing"]
    assert (error.severity, error.offset) == ("error", starts[at])
    assert error.message in planned.lost
    assert reason in error.message
    if at == 1:
        assert f"offsets {starts[1]}..{starts[2] - 1} of " in error.message


def test_a_segment_of_which_no_object_is_left_is_missing(tmp_path: Path) -> None:
    def remove_all(file: Path) -> None:
        for each in file.parent.glob(f"{file.stem}.*"):
            each.unlink()

    bucket, starts = damaged(tmp_path, "plain", 1, ".log", remove_all)
    planned = brokerless.rebuild([], tmp_path / "to", from_bucket=bucket)
    (error,) = [each for each in planned.findings if each.severity == "error"]
    assert f"offsets {starts[1]}..{starts[2] - 1} of " in error.message
    assert planned.from_bucket is not None
    (partition,) = [each for each in planned.from_bucket.stand_ins if each.partition.missing]
    place = partition.partition.topic, partition.partition.partition
    later = brokerless.rebuild([], tmp_path / "to", from_bucket=bucket, log_starts={place: starts[2]})
    assert not [each for each in later.findings if each.severity == "error"]
