"""Varints byte by byte are those that the kernels read."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.format.varint_kernels import READERS

from brokerless.explanation.varints import Varint, read_varint


@pytest.mark.parametrize("bits", [32, 64])
def test_any_bytes_are_read_as_the_kernels_read_them(bits: int) -> None:
    chance = random.Random(7)
    for _ in range(3000):
        data = bytes(chance.choice((chance.randrange(256), 0x80, 0xFF, 0x7F)) for _ in range(chance.randint(0, 12)))
        found = read_varint(data, 0, len(data), bits)
        value, after = READERS[bits](np.frombuffer(data, np.uint8), 0, len(data))
        if isinstance(found, str):
            assert after == -1
        else:
            assert (found.value, found.length) == (int(value), int(after))


def test_each_byte_adds_seven_bits_and_zigzag_is_undone() -> None:
    found = read_varint(b"\xf5\x06", 0, 2)
    assert isinstance(found, Varint)
    assert found.groups == (0b1110101, 0b0000110)
    assert (found.raw, found.value) == (885, -443)
    assert found.derivation == "0000110 1110101 = 885, ZigZag -443"
    assert [(each.bits, each.name, each.value) for each in found.parts] == [
        ("0-6", "byte f5", "1110101"),
        ("7-13", "byte 06", "0000110"),
    ]


def test_where_there_is_none_what_was_expected_is_said() -> None:
    assert read_varint(b"\x80\x80", 0, 2) == "a varint, whose last byte is below 0x80"
    assert read_varint(b"\x80" * 6, 0, 6) == "a varint of at most 5 bytes: one of them below 0x80"
