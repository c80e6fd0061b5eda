"""What a broker would not load is known from the names and sizes of files; nothing else of them is read."""

from __future__ import annotations

import os
from pathlib import Path

from brokerless.clusters.start.partition_files import unloadable_by_listing
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

LARGEST = (1 << 31) - 1


def test_a_segment_is_at_most_as_large_as_kafka_opens(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    for base, size in ((0, LARGEST), (9, LARGEST + 1)):
        (partition / f"{base:020}.log").touch()
        os.truncate(partition / f"{base:020}.log", size)
    (found,) = unloadable_by_listing(resolve(Location(str(partition))).partitions[0])
    assert (found.kind, found.severity, found.offset) == ("segment-oversized", "error", 9)
    assert (found.expected, found.found) == (f"at most {LARGEST} bytes", f"{LARGEST + 1} bytes")
    assert found.message == "the segment is larger than Kafka opens; brokerless convert --segment-bytes 1GiB divides it"
