"""Which segments a start recovers; ``tests/states`` has a real broker's answers to the same."""

from __future__ import annotations

from pathlib import Path

from tests.kafka.jars import NEWEST
from tests.log.recovery.partitions import index

from brokerless.log.recovery.trust import Flushed, trusted
from brokerless.log.storage.segment_files import list_files


def reasons(partition: Path, flushed: Flushed, as_kafka: str | None = NEWEST) -> list[str | None]:
    return [each.reason for each in trusted(list_files(partition), flushed, as_kafka=as_kafka)]


def test_after_a_clean_stop_all_segments_are_trusted(partition: Path) -> None:
    assert reasons(partition, Flushed(0, was_clean=True)) == [None] * 4


def test_without_one_segments_up_to_the_recovery_point_are(partition: Path) -> None:
    assert reasons(partition, Flushed(73, was_clean=False)) == [None, None, "not-flushed", "not-flushed"]


def test_a_segment_without_an_offset_index_is_recovered(partition: Path) -> None:
    index(partition, 1, "index").unlink()
    assert reasons(partition, Flushed(0, was_clean=True)) == [None, "index-missing", None, None]


def test_a_broken_end_is_trusted_by_kafka_and_recovered_by_us(partition: Path) -> None:
    with index(partition, 142, "log").open("ab") as log:
        log.write(b"garbage")
    clean = Flushed(0, was_clean=True)
    assert reasons(partition, clean) == [None] * 4
    assert reasons(partition, clean, as_kafka=None) == [None, None, None, "not-closed"]
