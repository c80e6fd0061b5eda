"""Keys go where Kafka's own producer sends them."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from brokerless.tables.partitioner import murmur2, partition_for_key, sticky_partition

NUMBERS = [1, 2, 3, 12, 50, 1000, 2**31 - 1]


def keys() -> list[bytes]:
    random = np.random.default_rng(1)
    lengths = [*range(70), *random.integers(0, 300, 500)]
    texts = ["", "user-1", "Straße", "日本語", "🦀", "\0", "\N{LATIN SMALL LETTER E}\N{COMBINING ACUTE ACCENT}"]
    return [random.bytes(int(n)) for n in lengths] + [bytes([255]) * n for n in range(9)] + [t.encode() for t in texts]


@pytest.fixture(scope="module")
def told(kafka_jars: Path) -> list[list[int]]:
    """For each key, Kafka's hash and its partition for each of ``NUMBERS``."""
    from tests.kafka.jars import check, run

    lines = b"".join(base64.b64encode(key) + b"\n" for key in keys())
    out = check(run("Partition", *map(str, NUMBERS), stdin=lines, helper=True))
    return [[int(number) for number in line.split()] for line in out.splitlines()]


def test_hashes_are_kafkas(told: list[list[int]]) -> None:
    assert murmur2(pa.array(keys(), pa.binary())).tolist() == [line[0] for line in told]
    assert any(line[0] < 0 for line in told), "negative hashes are where partitioners differ"


def test_partitions_are_kafkas(told: list[list[int]]) -> None:
    column = pa.array(keys(), pa.binary())
    for at, number in enumerate(NUMBERS, 1):
        assert partition_for_key(column, number).tolist() == [line[at] for line in told]


def test_a_slice_is_hashed_as_its_rows_are(told: list[list[int]]) -> None:
    column = pa.array(keys(), pa.binary())
    assert murmur2(column[17:40]).tolist() == [line[0] for line in told[17:40]]


def test_only_null_keys_have_no_partition() -> None:
    column = pa.array([b"a", None, b"", None], pa.binary())
    assert (partition_for_key(column, 5) < 0).tolist() == [False, True, False, True]
    assert partition_for_key(column[1:2], 5).tolist() == [-1]
    assert partition_for_key(column[:0], 5).tolist() == []


def test_records_without_a_key_stick_to_a_partition_for_a_batch() -> None:
    sizes = np.full(10, 50, np.int64)
    chosen, counted = sticky_partition(sizes, 0, 100, 3)
    assert (chosen.tolist(), counted) == ([0, 0, 1, 1, 2, 2, 0, 0, 1, 1], 500)
    assert sticky_partition(sizes[4:], 200, 100, 3)[0].tolist() == [2, 2, 0, 0, 1, 1]
    assert sticky_partition(sizes[:0], 200, 100, 3)[1] == 200


@pytest.mark.parametrize("size", [100, 101, 300, 10_000])
def test_large_records_without_a_key_take_each_partition_in_turn(size: int) -> None:
    chosen, counted = sticky_partition(np.full(6, size, np.int64), 0, 100, 3)
    assert (chosen.tolist(), counted) == ([0, 1, 2, 0, 1, 2], 600)
    assert sticky_partition(np.full(3, size, np.int64), 0, 0, 2)[0].tolist() == [0, 1, 0]


def test_keys_in_memory_that_nobody_may_change_are_hashed() -> None:
    """Such as a map of a file."""
    keys = pa.array([b"a", b"bcd"], pa.binary())
    fixed = pa.Array.from_buffers(
        pa.binary(), 2, [None, *(pa.py_buffer(each.to_pybytes()) for each in keys.buffers()[1:])]
    )
    assert murmur2(fixed).tolist() == murmur2(keys).tolist()
