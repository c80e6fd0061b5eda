"""The hash is SipHash-2-4 with 128 bits, and the table is a dict, however little memory it has."""

from __future__ import annotations

import random

import numpy as np
import pytest

from brokerless.format.columns import RecordColumns, allocate
from brokerless.jobs.compact.key_offsets import KeyHasher, LastRows
from brokerless.jobs.compact.row_flags import RowFlags

VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
}
"""The first ones that its authors published: of so many bytes 00 01 02 ... under the key 00 01 ... 0f."""


def columns_of(keys: list[bytes]) -> RecordColumns:
    columns = allocate(len(keys), sum(map(len, keys)), 0)
    columns.used[0] = len(keys)
    for row, key in enumerate(keys):
        columns.key_ends[row + 1] = columns.key_ends[row] + len(key)
        columns.key_data[columns.key_ends[row] : columns.key_ends[row + 1]] = np.frombuffer(key, np.uint8)
    columns.offset[:] = np.arange(len(keys))
    return columns


def hashes_of(keys: list[bytes], key: bytes) -> list[str]:
    columns = columns_of(keys)
    return [row.astype("<u8").tobytes().hex() for row in KeyHasher(key).hash(columns, np.ones(len(keys), np.bool_))]


def test_the_hash_is_that_of_its_authors() -> None:
    every = hashes_of([bytes(range(length)) for length in VECTORS], bytes(range(16)))
    assert every == list(VECTORS.values())


def test_hashes_differ_with_each_byte_and_length() -> None:
    keys = [bytes(length) for length in range(40)] + [bytes([each]) * 9 for each in range(1, 256)]
    assert len(set(hashes_of(keys, b"k" * 16))) == len(keys)
    assert not set(hashes_of(keys, b"k" * 16)) & set(hashes_of(keys, b"l" * 16))


@pytest.mark.parametrize("max_bytes", [0, 1 << 18, 1 << 24])
def test_the_last_row_of_each_key_is_found_in_any_memory(max_bytes: int) -> None:
    chance = random.Random(max_bytes)
    keys = [b"key-%d" % chance.randrange(20_000) for _ in range(60_000)]
    columns, chosen = columns_of(keys), np.array([chance.random() < 0.9 for _ in keys])
    last = {key: row for row, key in enumerate(keys) if chosen[row]}
    hashes = KeyHasher().hash(columns, np.ones(len(keys), np.bool_))
    flags, looked_up, before = RowFlags(), np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.bool_)
    passes, known = 0, 0
    rest: tuple[int, int] | None = (0, (1 << 64) - 1)
    while rest is not None:
        table = LastRows(max_bytes, *rest)
        for start in range(0, len(keys), 7_000):
            table.put(chosen[start : start + 7_000], hashes[start : start + 7_000], start, flags)
        table.find_superseded(~chosen, hashes, 0, looked_up)
        table.find_superseded(chosen, hashes, -len(keys), before)
        rest, passes, known = table.rest, passes + 1, known + table.keys
    is_last = [last.get(key, -1) <= row for row, key in enumerate(keys)]
    superseded = flags.get(0, len(keys)) | looked_up
    assert superseded.tolist() == [not each for each in is_last]
    assert before.tolist() == chosen.tolist(), "what comes before all rows is superseded by any"
    assert known == len(last)
    assert (passes > 4) == (max_bytes == 0)


def test_the_most_frequent_keys_come_first() -> None:
    keys = [b"often"] * 5 + [b"once"] + [b"twice"] * 2
    columns, chosen = columns_of(keys), np.ones(8, np.bool_)
    table = LastRows(1 << 20)
    table.put(chosen, KeyHasher().hash(columns, chosen), 0, RowFlags())
    assert table.most_frequent(2) == [(4, 5), (7, 2)]
    assert table.most_frequent(9) == [(4, 5), (7, 2), (5, 1)]


@pytest.mark.parametrize("max_bytes", [0, 1 << 24])
def test_the_greatest_number_of_each_key_is_found_in_any_memory(max_bytes: int) -> None:
    chance = random.Random(max_bytes)
    keys = [b"key-%d" % chance.randrange(9_000) for _ in range(30_000)]
    numbers = np.array([chance.randrange(1 << 62) for _ in keys])
    columns, every = columns_of(keys), np.ones(len(keys), np.bool_)
    greatest: dict[bytes, int] = {}
    for key, number in zip(keys, numbers.tolist(), strict=True):
        greatest[key] = max(number, greatest.get(key, -1))
    hasher = KeyHasher(b"k" * 16)
    hashes = hasher.hash(columns, every)
    unknown = hasher.hash(columns_of([b"unknown"]), np.ones(1, np.bool_))
    found = np.full(len(keys), -1, np.int64)
    rest: tuple[int, int] | None = (0, (1 << 64) - 1)
    passes = 0
    while rest is not None:
        table = LastRows(max_bytes, *rest)
        for start in range(0, len(keys), 7_000):
            part = slice(start, start + 7_000)
            table.put_numbers(every[part], hashes[part], numbers[part])
        found = np.maximum(found, table.find_numbers(hashes))
        assert table.find_numbers(unknown).tolist() == [-1]
        rest, passes = table.rest, passes + 1
    assert found.tolist() == [greatest[key] for key in keys]
    assert (passes > 2) == (max_bytes == 0)
