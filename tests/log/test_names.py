"""Oracle: the names that brokers gave (the golden data folders), and those that Kafka's ``LogFileUtils`` describes."""

from __future__ import annotations

import pytest
from tests.golden import BROKERS, broker_data

from brokerless.log.names import (
    PartitionDirectory,
    SegmentFile,
    SegmentFileKind,
    SegmentFileState,
    is_log_directory_file,
    is_partition_file,
    parse_partition_directory,
    parse_segment_file,
    parse_unknown_file,
    partition_directory,
    segment_file,
)


@pytest.mark.parametrize("broker", BROKERS)
def test_every_name_that_a_broker_gave_is_understood_and_given_back(broker: str) -> None:
    for entry in broker_data(broker).iterdir():
        if not entry.is_dir():
            assert is_log_directory_file(entry.name), entry
            continue
        directory = parse_partition_directory(entry.name)
        assert directory is not None
        assert directory.state == "live"
        assert partition_directory(directory.topic, directory.partition) == entry.name
        for path in entry.iterdir():
            file = parse_segment_file(path.name)
            assert (file is None) == is_partition_file(path.name), path
            if file is not None:
                assert segment_file(file.offset, file.kind, file.state, file.epoch) == path.name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", PartitionDirectory("orders", 0)),
        ("orders-11", PartitionDirectory("orders", 11)),
        ("a-b-c-7", PartitionDirectory("a-b-c", 7)),
        ("orders-1-2", PartitionDirectory("orders-1", 2)),
        ("-0", None),
        ("--0", PartitionDirectory("-", 0)),
        ("_.dots-and_under.scores-0-0", PartitionDirectory("_.dots-and_under.scores-0", 0)),
        (
            "orders-3.0a1b2c3d4e5f60718293a4b5c6d7e8f9-delete",
            PartitionDirectory("orders", 3, "delete", "0a1b2c3d4e5f60718293a4b5c6d7e8f9"),
        ),
        ("a.b-3.e8f9-future", PartitionDirectory("a.b", 3, "future", "e8f9")),
        ("orders-3.e8f9-stray", PartitionDirectory("orders", 3, "stray", "e8f9")),
    ],
)
def test_the_last_dash_of_a_directory_divides_topic_and_partition(
    name: str, expected: PartitionDirectory | None
) -> None:
    assert parse_partition_directory(name) == expected


@pytest.mark.parametrize(
    "name",
    ["", "orders", "orders-", "orders-a", "orders-01", "orders--1x", "or ders-0", ".-0", "..-0", "a/b-0", "ä-0",
     "t-\u0663", "orders-2147483648", "orders-0.delete", "orders-0.x-gone", "a" * 250 + "-0"],
)  # fmt: skip
def test_other_directories_are_foreign(name: str) -> None:
    assert parse_partition_directory(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("00000000000000000042.log", SegmentFile(42, "log")),
        ("00000000000000000042.index", SegmentFile(42, "offset-index")),
        ("00000000000000000042.timeindex", SegmentFile(42, "time-index")),
        ("00000000000000000042.txnindex", SegmentFile(42, "transaction-index")),
        ("00000000000000000042.snapshot", SegmentFile(42, "producer-snapshot")),
        ("00000000000000000042.log.cleaned", SegmentFile(42, "log", "cleaned")),
        ("00000000000000000042.log.swap", SegmentFile(42, "log", "swap")),
        ("00000000000000000042.timeindex.deleted", SegmentFile(42, "time-index", "deleted")),
        ("09223372036854775807.log", SegmentFile(2**63 - 1, "log")),
        ("00000000000000000042-0000000003.checkpoint", SegmentFile(42, "kraft-snapshot", "live", 3)),
        ("00000000000000000042-0000000003.checkpoint.deleted", SegmentFile(42, "kraft-snapshot", "deleted", 3)),
    ],
)
def test_a_file_says_where_its_segment_starts_and_what_it_is(name: str, expected: SegmentFile) -> None:
    assert parse_segment_file(name) == expected
    assert segment_file(expected.offset, expected.kind, expected.state, expected.epoch) == name


def test_an_unfinished_kraft_snapshot_has_a_random_number_in_its_name() -> None:
    name = "00000000000000000042-0000000003-1234567890123456789.checkpoint.part"
    assert parse_segment_file(name) == SegmentFile(42, "kraft-snapshot", "partial", 3)


@pytest.mark.parametrize(
    "name",
    ["", "42.log", "000000000000000000042.log", "0000000000000000004x.log", "00000000000000000042",
     "\u0660" * 20 + ".log", "00000000000000000042.log.bak", "00000000000000000042.LOG", "99999999999999999999.log",
     "-0000000000000000042.log", "00000000000000000042.checkpoint", "00000000000000000042-0000000003.log",
     "00000000000000000042.log\n",
     "00000000000000000042-0000000003.checkpoint.swap", "00000000000000000042-0000000003.checkpoint.part"],
)  # fmt: skip
def test_other_files_are_foreign(name: str) -> None:
    assert parse_segment_file(name) is None


@pytest.mark.parametrize("state", ["live", "cleaned", "swap", "deleted"])
def test_a_segments_file_of_a_kind_that_nobody_knows_yet_has_an_offset_and_a_state(state: SegmentFileState) -> None:
    suffix = "" if state == "live" else f".{state}"
    name = f"00000000000000000042.deliverafterindex{suffix}"
    assert parse_segment_file(name) is None
    assert parse_unknown_file(name) == SegmentFile(42, "unknown", state)


@pytest.mark.parametrize(
    "name", ["", "42.bloom", f"{42:020}", f"{42:020}.", f"{42:020}.log", "9" * 20 + ".bloom", "copy.bloom"]
)
def test_other_names_are_of_no_segment(name: str) -> None:
    assert parse_unknown_file(name) is None


def test_what_kafka_keeps_beside_the_segments_is_known_also_while_it_is_replaced() -> None:
    assert is_partition_file("leader-epoch-checkpoint.tmp")
    assert is_log_directory_file("replication-offset-checkpoint.tmp")
    assert not is_partition_file("meta.properties")
    assert not is_log_directory_file("notes.txt")


@pytest.mark.parametrize("kind", ["log", "offset-index", "time-index", "transaction-index", "producer-snapshot"])
@pytest.mark.parametrize("state", ["live", "cleaned", "swap", "deleted"])
def test_names_are_given_as_they_are_read(kind: SegmentFileKind, state: SegmentFileState) -> None:
    assert parse_segment_file(segment_file(7, kind, state)) == SegmentFile(7, kind, state)
