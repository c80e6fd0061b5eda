"""Oracle: the checkpoints that brokers wrote, byte for byte, and where their logs end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.golden import BROKERS, broker_data, broker_expected

from brokerless.log.checkpoint.offset_checkpoints import load_offset_checkpoint, offset_checkpoint
from brokerless.log.storage.location import Location

CHECKPOINTS = ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"]


@pytest.mark.parametrize("broker", BROKERS)
def test_offset_checkpoints_name_partitions_of_their_log_directory(broker: str) -> None:
    data = broker_data(broker)
    partitions = {path.name for path in data.iterdir() if path.is_dir()}
    for path in sorted(data.glob("*-offset-checkpoint")):
        read = load_offset_checkpoint(Location(str(path)))
        assert read.findings == ()
        assert {f"{topic}-{partition}" for topic, partition in read.offsets} <= partitions
        assert len(read.offsets) == max(0, len(path.read_text().splitlines()) - 2)


def test_the_recovery_point_after_a_clean_stop_is_the_end_of_each_log() -> None:
    read = load_offset_checkpoint(Location(str(broker_data("clean") / "recovery-point-offset-checkpoint")))
    for (topic, partition), offset in read.offsets.items():
        expected = (broker_expected("clean") / f"{topic}-{partition}" / "expected.jsonl").read_text().splitlines()
        batches = [line for line in map(json.loads, expected) if line["type"] == "batch"]
        assert offset == (batches[-1]["lastOffset"] + 1 if batches else 0)


def test_the_log_start_after_delete_records_is_checkpointed() -> None:
    read = load_offset_checkpoint(Location(str(broker_data("clean") / "log-start-offset-checkpoint")))
    assert read.offsets == {("head-deleted", 0): 105}


def test_an_empty_checkpoint_has_no_entries_and_nothing_wrong_as_for_kafka() -> None:
    read = load_offset_checkpoint(Location(str(broker_data("unclean") / "cleaner-offset-checkpoint")))
    assert (read.offsets, read.findings) == ({}, ())


def test_a_checkpoint_of_bytes_that_are_no_text_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_bytes(b"0\n1\n\xff\xfe 0 0\n")
    read = load_offset_checkpoint(Location(str(path)))
    assert read.offsets == {}
    assert [each.kind for each in read.findings] == ["checkpoint-corrupt"]


@pytest.mark.parametrize("broker", BROKERS)
def test_what_a_broker_wrote_for_its_log_directory_is_written_byte_for_byte(broker: str) -> None:
    for name in CHECKPOINTS:
        path = broker_data(broker) / name
        assert offset_checkpoint(load_offset_checkpoint(Location(str(path))).offsets) == path.read_bytes()
