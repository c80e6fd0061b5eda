"""Many requests at once become what they become one after the other."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.examples import some_quick
from tests.format import twin
from tests.format.produce_requests import CODECS, MOST, NOW, Request, message, some_batch

from brokerless.format.append import bulk as module
from brokerless.format.append.bulk import BulkAppendResult, append_bulk
from brokerless.format.append.leader import append
from brokerless.format.append.types import AppendConfig, AppendResult, Refusal
from brokerless.format.read.batch_headers import checksums_match, read_headers
from brokerless.format.read.batch_scan import scan_batches


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def one_by_one(batches: list[bytes], config: AppendConfig, first_offset: int, *rest: Any) -> BulkAppendResult:
    offset, position, largest, converted = first_offset, 0, -1, 0
    buffers, first_offsets, refusals = [b""], [], {}
    for number, data in enumerate(batches):
        found = append(array(data), config, offset, *rest)
        if isinstance(found, AppendResult):
            buffers.append(found.buffer.tobytes())
            first_offsets.append(offset if len(found.buffer) else -1)
            largest = max(largest, found.max_timestamp) if len(found.buffer) else largest
            converted += found.records_converted
            offset = found.next_offset
        else:
            first_offsets.append(-1)
            place = None if found.position is None else found.position + position
            refusals[number] = replace(found, position=place)
        position += len(data)
    return BulkAppendResult(
        array(b"".join(buffers)), first_offset, offset, largest, converted, np.array(first_offsets), refusals
    )


def same(found: BulkAppendResult, expected: BulkAppendResult) -> None:
    assert found.first_offsets.tolist() == expected.first_offsets.tolist()
    assert {number: str(each) for number, each in found.refusals.items()} == {
        number: str(each) for number, each in expected.refusals.items()
    }
    assert [each.position for each in found.refusals.values()] == [each.position for each in expected.refusals.values()]
    assert (found.first_offset, found.next_offset) == (expected.first_offset, expected.next_offset)
    assert (found.max_timestamp, found.records_converted) == (expected.max_timestamp, expected.records_converted)
    assert found.buffer.tobytes() == expected.buffer.tobytes()


def split(data: bytes) -> list[bytes]:
    walked = scan_batches(array(data))
    edges = [*walked.positions.tolist(), walked.stopped_at]
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize("seed", some_quick(range(40)))
def test_many_requests_become_what_they_become_one_after_the_other(seed: int) -> None:
    chance = random.Random(seed)
    target, to_magic = chance.choice(("producer", "producer", *CODECS)), chance.choice((2, 2, 2, 2, 1, 0))
    config = AppendConfig(
        to_magic,
        target,
        timestamp_type=chance.choice(("CreateTime", "LogAppendTime")),
        timestamp_before_max_ms=chance.choice((MOST, 5000)),
        timestamp_after_max_ms=chance.choice((MOST, 3000)),
        compacted=chance.random() < 0.3,
        max_message_bytes=chance.choice((1_048_588, 600)),
    )
    origin = chance.choice(("client", "client", "coordinator"))
    oddity, magic_of = chance.choice((0, 0.1, 0.5)), chance.choice(((2,), (2,), (0, 1, 2)))
    batches: list[bytes] = []
    for _ in range(chance.randrange(50)):
        magic = chance.choice(magic_of)
        about = Request(b"", "none", "none", 2, compacted=config.compacted)
        codec = chance.choice(CODECS[: 5 if magic == 2 else 4])
        batches += split(some_batch(chance, magic, codec, chance.random() < oddity, about))
    rest = config, chance.choice((0, 12345)), 3, NOW, origin
    same(append_bulk(array(b"".join(batches)), *rest), one_by_one(batches, *rest))


def some_v2(number: int, codec: str) -> bytes:
    value = b"value" * number
    records = b"".join(twin.write_record(b"key", value, (), row, row) for row in range(number % 7 + 1))
    fields = {"base_timestamp": NOW, "max_timestamp": NOW + number % 7, "count": number % 7 + 1}
    fields |= {"last_offset_delta": number % 7, "attributes": CODECS.index(codec)}
    return twin.write_batch(twin.COMPRESS[codec](records), **fields)


@pytest.mark.parametrize("target", some_quick(["producer", "none", "lz4"]))
def test_groups_of_any_size_make_no_difference(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [some_v2(number, CODECS[number // 30 % 5]) for number in range(300)]
    config = AppendConfig(codec=target)
    expected = one_by_one(batches, config, 7, 1, NOW)
    for size in (1, 1000, 1 << 21):
        monkeypatch.setattr(module, "_GROUP", size)
        same(append_bulk(array(b"".join(batches)), config, 7, 1, NOW), expected)


def test_what_is_as_usual_is_not_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> AppendResult | Refusal:
        raise AssertionError

    monkeypatch.setattr(module, "append", never)
    data = array(b"".join(some_v2(number, CODECS[number % 5]) for number in range(100)))
    for config in (AppendConfig(), AppendConfig(codec="zstd"), AppendConfig(timestamp_type="LogAppendTime")):
        found = append_bulk(data, config, 0, 1, NOW)
        written = read_headers(found.buffer, scan_batches(found.buffer).positions)
        assert checksums_match(found.buffer, written).all()
        assert written.entry_offset.tolist() == found.first_offsets.tolist()
        assert not found.refusals


def test_a_broken_chain_is_the_refusal_of_what_would_come_next() -> None:
    whole = some_v2(3, "none")
    found = append_bulk(array(whole + message(2, None, None)[:8] + bytes(30)), AppendConfig(), 0, 1, NOW)
    assert found.next_offset == 4
    assert {number: each.error for number, each in found.refusals.items()} == {1: "CorruptRecordException"}
    assert found.refusals[1].position == len(whole)


def test_nothing_becomes_nothing() -> None:
    found = append_bulk(array(b""), AppendConfig(), 5, 1, NOW)
    assert (len(found.buffer), found.next_offset, len(found.first_offsets), found.refusals) == (0, 5, 0, {})
