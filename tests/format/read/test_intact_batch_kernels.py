"""Whole batches that Kafka's clients wrote take the fast kernel alone; where it leaves one, nothing of it remains."""

from __future__ import annotations

from typing import Any

import pytest
from tests.format import twin
from tests.format.twin import COMPRESS, write_batch, write_record
from tests.golden import cases

from brokerless.format.columns import Damage
from brokerless.format.read import decoder
from brokerless.format.read.decoder import Decoder

HEADERS = [(b"name", b"x"), (b"", None)]
PLAIN = [write_record(b"key", b"value" * number, HEADERS, number, 10 * number) for number in range(9)]
RARE = {
    "a length above 1 MiB": write_record(None, bytes(2 << 20)),
    "a distant offset": write_record(b"", b"", (), 1 << 30),
    "broken": write_record(b"key", b"value")[:-1] + b"\x02",
}


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The batches that are left to the other kernel, by their place among those of a call."""
    places: list[int] = []
    other = decoder.decode_batches

    def decode_batches(*arguments: Any) -> int:
        places.append(arguments[1])
        return other(*arguments)

    monkeypatch.setattr(decoder, "decode_batches", decode_batches)
    return places


def test_what_clients_write_is_intact(left: list[int]) -> None:
    read: list[list[Damage]] = []
    for case in cases("formats"):
        if "v2-" in case.name:
            read += [twin.decode(log.read_bytes())[1] for log in case.logs]
    assert (read, left) == ([[]] * len(read), [])
    assert len(read) == 10  # each codec, CreateTime and LogAppendTime


@pytest.mark.parametrize("timestamp", [1 << 21, -(1 << 40), (1 << 62) - 1])
def test_timestamps_may_be_far_apart(timestamp: int, left: list[int]) -> None:
    records = [*PLAIN, write_record(b"key", None, (), 9, timestamp)]
    found, damages = twin.decode(write_batch(b"".join(records), count=10))
    assert (left, damages) == ([], [])
    assert [each.timestamp - found[0][0].timestamp for each in found[0][-2:]] == [80, timestamp]


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("rare", RARE)
def test_a_batch_that_is_left_is_decoded_from_its_first_record(rare: str, codec: str, left: list[int]) -> None:
    number = {"none": 0, "zstd": 4}[codec]
    batches = [
        write_batch(COMPRESS[codec](b"".join(records)), attributes=number, count=len(records))
        for records in (PLAIN, [*PLAIN, RARE[rare], *PLAIN], PLAIN)
    ]
    first, second, third = twin.decode(b"".join(batches), Decoder())[0].values()
    assert left == [1]
    assert first == third == second[:9]
    assert len(second) == (9 if rare == "broken" else 19)


def test_columns_are_made_as_large_as_a_batch_needs(left: list[int]) -> None:
    """A small file that inflates to far more than expected needs no other kernel."""
    records = b"".join(write_record(b"key", bytes(100), (), number) for number in range(5000))
    found, _ = twin.decode(write_batch(COMPRESS["zstd"](records), attributes=4, count=5000))
    assert (len(found[0]), left) == (5000, [])
