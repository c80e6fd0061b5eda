"""States of remote segments against the events that Kafka's serde decoded, and what RemoteLogMetadataCache does."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pytest
from tests.internals.remote.metadata import SETS, TOPIC, event, events, framed, id_of, metadata
from tests.internals.written import batch, write_partition

import brokerless
from brokerless import internals
from brokerless.findings import Finding
from brokerless.internals.remote.segment_metadata import RemoteMetadata, SegmentMetadata, read_remote_metadata
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location


def found(directory: Path) -> tuple[RemoteMetadata, dict[str, SegmentMetadata]]:
    findings: list[Finding] = []
    read = read_remote_metadata(resolve(Location(str(directory))).partitions, findings.append)
    assert not findings
    return read, {each: one for of_partition in read.segments.values() for each, one in of_partition.items()}


@pytest.mark.parametrize("set_", SETS)
def test_each_field_is_what_kafka_decoded(set_: str) -> None:
    read, segments = found(metadata() / set_ / "data")
    firsts = {each["segmentId"]: each for each in events(set_) if each["type"] == "RemoteLogSegmentMetadata"}
    lasts = {each["segmentId"]: each for each in events(set_)}
    custom = {each["segmentId"]: each["customMetadata"] for each in events(set_) if each["customMetadata"]}
    assert segments.keys() == firsts.keys() == lasts.keys()
    assert not read.discarded
    for id_, one in segments.items():
        first, last = firsts[id_], lasts[id_]
        assert (one.topic, one.topic_id, one.partition) == (first["topic"], first["topicId"], first["partition"])
        assert (one.start_offset, one.end_offset) == (first["startOffset"], first["endOffset"])
        assert (one.size, one.max_timestamp) == (first["segmentSizeInBytes"], first["maxTimestampMs"])
        assert dict(one.epochs) == {int(epoch): offset for epoch, offset in first["segmentLeaderEpochs"].items()}
        assert one.is_txn_index_empty == first["txnIdxEmpty"]
        assert (one.started_at, one.changed_at) == (first["eventTimestampMs"], last["eventTimestampMs"])
        assert (one.state, one.broker_id) == (last["state"], last["brokerId"])
        assert one.custom_metadata == (b64decode(custom[id_]) if id_ in custom else None)
        assert (one.metadata_partition, one.metadata_offset) == (last["metadataPartition"], last["metadataOffset"])
        assert one.is_referenced == (last["state"] == "COPY_SEGMENT_FINISHED")


def states(tmp_path: Path, *values: bytes) -> tuple[RemoteMetadata, dict[str, tuple[str, bool]]]:
    write_partition(tmp_path, TOPIC, *(batch(offset, [(None, value)]) for offset, value in enumerate(values)))
    read, segments = found(tmp_path)
    return read, {each.rstrip("A"): (one.state, one.is_referenced) for each, one in segments.items()}


STARTED, FINISHED, DELETING, DELETED = range(4)


def test_a_finished_event_without_its_started_one_is_discarded(tmp_path: Path) -> None:
    read, segments = states(tmp_path, event("one", FINISHED), event("two", STARTED, 0, 9))
    assert segments == {"two": ("COPY_SEGMENT_STARTED", False)}
    (discarded,) = read.discarded
    assert (discarded.segment_id, discarded.state, discarded.before) == (id_of("one"), "COPY_SEGMENT_FINISHED", None)


def test_the_copy_that_was_finished_last_takes_the_place_of_one_that_it_covers(tmp_path: Path) -> None:
    # case 1 of RemoteLogLeaderEpochState: of offsets 0..100 and 0..200, and the other way round
    first = event("one", STARTED, 0, 100), event("one", FINISHED)
    second = event("two", STARTED, 0, 200), event("two", FINISHED)
    _, segments = states(tmp_path, *first, *second)
    assert segments == {"one": ("COPY_SEGMENT_FINISHED", False), "two": ("COPY_SEGMENT_FINISHED", True)}


def test_a_copy_of_the_same_range_takes_its_place(tmp_path: Path) -> None:
    both = event("one", STARTED, 0, 9), event("two", STARTED, 0, 9), event("two", FINISHED), event("one", FINISHED)
    _, segments = states(tmp_path, *both)
    assert segments == {"one": ("COPY_SEGMENT_FINISHED", True), "two": ("COPY_SEGMENT_FINISHED", False)}


def test_overlapping_segments_are_both_referenced(tmp_path: Path) -> None:
    # case 2: 10..90, then 5..100 takes its place, and 101..200 comes after it
    values = [event("one", STARTED, 10, 90), event("one", FINISHED)]
    values += [event("two", STARTED, 5, 100), event("two", FINISHED)]
    values += [event("three", STARTED, 101, 200), event("three", FINISHED)]
    _, segments = states(tmp_path, *values)
    assert [each for each, (_, is_referenced) in segments.items() if is_referenced] == ["two", "three"]


def test_what_is_being_deleted_is_not_referenced(tmp_path: Path) -> None:
    values = [event("one", STARTED, 0, 9), event("one", FINISHED), event("one", DELETING)]
    _, segments = states(tmp_path, *values)
    assert segments == {"one": ("DELETE_SEGMENT_STARTED", False)}
    _, segments = states(tmp_path, *values, event("one", DELETED))
    assert segments == {"one": ("DELETE_SEGMENT_FINISHED", False)}


def test_an_order_that_brokers_do_not_allow_changes_nothing(tmp_path: Path) -> None:
    values = [event("one", STARTED, 0, 9), event("one", DELETED), event("one", FINISHED), event("one", STARTED, 0, 9)]
    read, segments = states(tmp_path, *values)
    assert segments == {"one": ("COPY_SEGMENT_FINISHED", True)}
    assert [(each.state, each.before) for each in read.discarded] == [
        ("DELETE_SEGMENT_FINISHED", "COPY_SEGMENT_STARTED"),
        ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"),
    ]


def test_a_partition_whose_deletion_ended_has_no_segments_left(tmp_path: Path) -> None:
    of = {"name": "orders", "id": id_of("topic"), "partition": 0}
    gone = framed(2, {"topicIdPartition": of, "brokerId": 1, "eventTimestampMs": 1, "remotePartitionDeleteState": 2})
    _, segments = states(tmp_path, event("one", STARTED, 0, 9), event("one", FINISHED), gone)
    assert segments == {"one": ("DELETE_SEGMENT_FINISHED", False)}


def test_a_state_that_is_not_known_is_a_finding(tmp_path: Path) -> None:
    values = [event("one", STARTED, 0, 9), event("one", 7), event("two", FINISHED, 10, 19)]
    write_partition(tmp_path, TOPIC, *(batch(offset, [(None, value)]) for offset, value in enumerate(values)))
    findings: list[Finding] = []
    read_remote_metadata(resolve(Location(str(tmp_path))).partitions, findings.append)
    assert [(each.kind, each.offset) for each in findings] == [("record-unreadable", 1), ("record-unreadable", 2)]


@pytest.mark.parametrize("set_", SETS)
def test_the_table_has_each_segment_and_the_history_each_event(set_: str) -> None:
    partitions = brokerless.open(metadata() / set_ / "data").partitions
    table = internals.state(partitions, ["remoteSegments"])["remoteSegments"]
    places = [(row["topic"], row["partition"], row["startOffset"]) for row in table.to_pylist()]
    assert places == sorted(places)
    lasts = {each["segmentId"]: each["state"] for each in events(set_)}
    assert {row["segmentId"]: row["state"] for row in table.to_pylist()} == lasts
    rows = [row for batch in internals.history(partitions, ["remoteSegments"]) for row in batch.to_pylist()]
    assert len(rows) == len(events(set_))
    assert {row["topic"] for row in rows} == {TOPIC}
