"""Oracles: aiokafka's varints, and Google's of unsigned ones."""

from __future__ import annotations

import pytest
from aiokafka.record import util
from google.protobuf.internal.encoder import _VarintBytes
from hypothesis import given
from hypothesis import strategies as st

from brokerless.format.plain_varint import decode_unsigned, encode_unsigned, encode_zigzag, undo_zigzag


@given(st.integers(-(2**63), 2**63 - 1))
def test_another_client_writes_the_same(number: int) -> None:
    theirs = bytearray()
    util.encode_varint(number, theirs.append)
    assert encode_zigzag(number) == theirs
    found = decode_unsigned(b"\xff" + bytes(theirs) + b"\xff", 1, len(theirs) + 1, 10)
    assert found is not None
    assert (undo_zigzag(found[0]), found[1]) == (number, len(theirs) + 1)


@given(st.integers(0, 2**64 - 1))
def test_protobuf_writes_the_same_unsigned(number: int) -> None:
    assert encode_unsigned(number) == _VarintBytes(number)
    assert decode_unsigned(encode_unsigned(number), 0, 10, 10) == (number, len(encode_unsigned(number)))


@pytest.mark.parametrize(("data", "end", "most"), [(b"", 0, 5), (b"\x80\x01", 1, 5), (b"\x80" * 5 + b"\x01", 6, 5)])
def test_a_number_that_does_not_end_is_none(data: bytes, end: int, most: int) -> None:
    assert decode_unsigned(data, 0, end, most) is None
