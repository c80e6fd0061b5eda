"""Salvage writes each offset once: of a batch that overlaps others, the rest, in a form that Kafka reads.

What is right was judged by a real consumer in ``tests/kafka/test_consumed_cases.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.format.twin import write_batch, write_record
from tests.log.odd_logs import T, message, wrapper, write_odd_log

import brokerless
from brokerless import Finding
from brokerless.cli import main
from brokerless.format.read.batch_headers import checksums_match, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.log.offsets_once.parts import part_of_batch

LIMIT = 1 << 20
SAVED = {
    "last-offset-delta-zero": [2, 3, 4, 5, 8, 9, 10, 11, 14, 15, 16, 17, 18],
    "overlapping-batches": [*range(40)],
    "overlapping-rests": [*range(36)],
    "overlapping-wrappers": [*range(100, 125)],
    "overflowing-segment": [0, 1, 2_000_000_000, 3_000_000_000, 3_000_000_001, 5_000_000_000, 5_000_000_100],
    "overflowing-messages": [0, 2_000_000_000, 3_000_000_000, 5_000_000_000, 5_000_000_100],
    "wrong-inner-crc-v0": [0, 1, 3, 4],
    "wrong-inner-crc-v1": [0, 1, 3, 4],
}


def rows(path: Path, on_damage: Any) -> list[dict[str, Any]]:
    columns = ["offset", "timestamp", "key", "value"]
    reader = brokerless.open(path).records(columns, on_damage=on_damage)
    return [row for batch in reader for row in batch.to_pylist()]


@pytest.mark.parametrize("name", SAVED)
def test_what_is_salvaged_is_what_a_consumer_gets(name: str, tmp_path: Path) -> None:
    source, to = write_odd_log(name, tmp_path / "source"), tmp_path / "to"
    leaves_out = name.startswith(("wrong", "overlapping", "last"))
    assert main(["salvage", str(source.parent), "--to", str(to)]) == (1 if leaves_out else 0)
    before: list[Finding] = []
    after: list[Finding] = []
    saved = rows(to, after.append)
    assert [row["offset"] for row in saved] == SAVED[name]
    assert saved == rows(source, before.append)
    assert after == []
    assert [each for each in brokerless.open(to).verify() if each.severity != "info"] == []


def test_part_of_a_v2_batch_keeps_its_producer() -> None:
    payload = b"".join(write_record(b"k", b"%d" % row, offset_delta=row, timestamp_delta=row) for row in range(10))
    data = write_batch(
        payload, base_offset=100, last_offset_delta=9, count=10, base_timestamp=T, max_timestamp=T + 9, producer_id=7,
        producer_epoch=2, base_sequence=50, partition_leader_epoch=4,
    )  # fmt: skip
    part = part_of_batch(np.frombuffer(data, np.uint8), 103, 106, LIMIT)
    header = read_headers(part, np.zeros(1, np.int64))
    assert checksums_match(part, header).all()
    found = [int(each[0]) for each in (header.entry_offset, header.last_offset, header.count, header.base_sequence)]
    assert found == [103, 106, 4, 53]
    assert (int(header.producer_id[0]), int(header.max_timestamp[0])) == (7, T + 6)
    assert int(header.partition_leader_epoch[0]) == 4


@pytest.mark.parametrize("is_append_time", [False, True])
def test_part_of_a_wrapper_is_messages_of_their_own(is_append_time: bool, tmp_path: Path) -> None:
    inner = [(each, message(1, b"k%d" % each, b"v", T + each)) for each in range(5)]
    data = bytearray(wrapper(104, 1, inner, T + 100))
    if is_append_time:
        from zlib import crc32

        data[17] |= 8
        data[12:16] = crc32(bytes(data[16:])).to_bytes(4, "big")
    part = part_of_batch(np.frombuffer(bytes(data), np.uint8), 101, 103, LIMIT)
    headers = read_headers(part, scan_batches(part).positions)
    assert checksums_match(part, headers).all()
    whole, rest = tmp_path / "whole.log", tmp_path / "part.log"
    whole.write_bytes(data)
    rest.write_bytes(part.tobytes())
    columns = ["offset", "timestamp", "timestampType", "key", "value"]
    read = [
        [row for batch in brokerless.open(path).records(columns) for row in batch.to_pylist()] for path in (whole, rest)
    ]
    assert read[1] == read[0][1:4]
