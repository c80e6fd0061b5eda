"""What real clients and brokers make of the same records has the cause that it has, and no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import brokerless
from brokerless.jobs.diff.partition_diff import PartitionDiff
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Record, produce_confluent

pytestmark = pytest.mark.xdist_group("causes")
COUNT, TIME = 200, 1_700_000_000_000
RECORDS = [Record(b"k%d" % number, b"value %d" % number * 5, (("h", b"1"),), TIME + number) for number in range(COUNT)]
SETTINGS: dict[str, dict[str, object]] = {
    "stamped": {"message_timestamp_type": "LogAppendTime"},
    "compressed": {"compression_type": "zstd"},
}
"""What a broker does to the batches of a producer."""
WRITTEN = {
    "base": RECORDS,
    "stamped": RECORDS,
    "compressed": RECORDS,
    "traced": [replace(each, headers=(*each.headers, ("traceparent", b"00"))) for each in RECORDS],
    "swapped": [*RECORDS[:10], RECORDS[11], RECORDS[10], *RECORDS[12:]],
    "corrected": [*RECORDS[:50], replace(RECORDS[50], value=b"other"), *RECORDS[51:]],
    "shorter": RECORDS[:-20],
    "made-again": RECORDS,
}
EXPECTED = {
    "stamped": {"timestamps": COUNT},
    "compressed": {"recompressed": COUNT},
    "traced": {"headers": COUNT},
    "swapped": {"order": 2},
    "corrected": {"changed": 1},
    "shorter": {"lagging": 20},
    "ungrouped": {"regrouped": COUNT},
    "elected": {"restamped": COUNT},
}


OF_BATCHES = {"regrouped", "recompressed", "restamped"}


@pytest.fixture(scope="module")
def disks(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The disk before and after a topic was made again."""
    directory = tmp_path_factory.mktemp("causes")
    broker = KafkaBroker(directory / "broker")
    with broker:
        for topic in (*WRITTEN, "ungrouped", "elected"):
            broker.create_topic(topic, 1, **SETTINGS.get(topic, {}))
        for topic, records in WRITTEN.items():
            produce_confluent(broker, topic, records, "none")
        for first in range(0, COUNT, 20):
            produce_confluent(broker, "ungrouped", RECORDS[first : first + 20], "none")
        broker.copy_log_dir(directory / "before")
        admin = broker.admin()  # kept until it is done
        admin.delete_topics(["made-again"])["made-again"].result(30)
        broker.create_topic("made-again", 1)
        produce_confluent(broker, "made-again", RECORDS, "none")
    with broker:  # another leader epoch
        produce_confluent(broker, "elected", RECORDS, "none")
    return directory / "before", broker.log_dir


def compare(disk: Path, topic: str) -> PartitionDiff:
    (found,) = brokerless.diff(disk / "base-0", disk / f"{topic}-0", allow=["another-topic"]).partitions
    return found


@pytest.mark.parametrize("topic", EXPECTED)
def test_a_cause_is_what_a_client_or_a_broker_did(topic: str, disks: tuple[Path, Path]) -> None:
    found, expected = compare(disks[1], topic), EXPECTED[topic]
    of_batches = {} if {*expected} <= OF_BATCHES else dict.fromkeys(OF_BATCHES)  # beside which others are in a batch
    assert {cause: count for cause, count in (found.causes or {}).items() if cause not in of_batches} == expected
    assert found.is_same == ({*expected} <= OF_BATCHES)


def test_a_topic_that_was_made_again_is_another_one(disks: tuple[Path, Path]) -> None:
    (found,) = brokerless.diff(*disks, topics=["made-again"]).partitions
    assert found.problem == "another-topic"
    (found,) = brokerless.diff(*(each / "made-again-0" for each in disks)).partitions
    assert found.problem == "another-topic"
    (found,) = brokerless.diff(disks[1] / "base-0", disks[1] / "shorter-0").partitions
    assert found.problem == "another-topic", "whatever their names are"
    (found,) = brokerless.diff(*disks, topics=["made-again"], allow=["another-topic"]).partitions
    assert (found.same, found.is_same) == (COUNT, True)
