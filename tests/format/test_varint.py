"""Varints are Kafka's: ZigZag in base 128, in the sizes that its documentation gives, lenient and strict as it is."""

from __future__ import annotations

import numpy as np
import pytest
from aiokafka.record import util
from hypothesis import example, given
from hypothesis import strategies as st
from tests.examples import examples
from tests.format import twin
from tests.format.varint_kernels import READERS, size_of_int32, size_of_int64

from brokerless.format.varint import MAX_VARINT_SIZE, MAX_VARLONG_SIZE

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
EXTREMES = [0, -1, 1, 63, -64, 64, 8191, 8192, 1048575, 1048576, 2**31 - 1, -(2**31)]


def read(data: bytes, at: int = 0, bits: int = 32) -> tuple[int, int]:
    value, after = READERS[bits](np.frombuffer(data, np.uint8), at, len(data))
    return int(value), int(after)


def by_aiokafka(value: int) -> bytes:
    out = bytearray()
    util.encode_varint(value, out.append)
    return bytes(out)


@pytest.mark.parametrize(("largest", "size"), [(63, 1), (8191, 2), (1048575, 3), (134217727, 4), (2**31 - 1, 5)])
def test_sizes_are_those_of_kafkas_documentation(largest: int, size: int) -> None:
    assert size_of_int32(largest) == size_of_int64(largest) == size
    assert size_of_int32(-largest - 1) == size_of_int64(-largest - 1) == size  # no dearer
    if size < 5:
        assert size_of_int32(largest + 1) == size + 1


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_the_largest_int64_takes_ten_bytes(value: int) -> None:
    assert size_of_int64(value) == MAX_VARLONG_SIZE
    assert read(twin.write_varint(value), bits=64) == (value, 10)


@examples(200)
@given(value=INT64)
def test_what_another_client_wrote_is_read_as_int64(value: int) -> None:
    data = by_aiokafka(value)
    assert data == twin.write_varint(value)
    assert read(b"\x80" + data + b"\x80", 1, 64) == (value, 1 + len(data))
    assert size_of_int64(value) == len(data) == util.size_of_varint(value)


@examples(200)
@given(value=st.one_of(INT32, st.sampled_from(EXTREMES)))
def test_what_another_client_wrote_is_read_as_int32(value: int) -> None:
    data = by_aiokafka(value)
    assert read(data) == (value, len(data))
    assert read(b"\xff" * 3 + data + b"\xff" * 9, 3) == (value, 3 + len(data))
    assert size_of_int32(value) == len(data)


@pytest.mark.parametrize("bits", [32, 64])
@examples(400)
@given(
    data=st.one_of(
        st.binary(max_size=12),
        st.lists(st.sampled_from(b"\x00\x01\x7f\x80\x81\xff"), max_size=12).map(bytes),
        st.binary(max_size=11).map(lambda high: bytes(byte | 128 for byte in high) + b"\x01"),
    ),
    at=st.integers(0, 3),
)
@example(data=b"\xff\xff\xff\xff\x7f", at=0)  # bits past the 32nd are dropped
@example(data=b"\xff" * 9 + b"\x7f", at=0)
@example(data=b"\x80\x80\x00", at=0)  # longer than need be
def test_any_bytes_are_read_as_the_twin_reads_them(bits: int, data: bytes, at: int) -> None:
    try:
        expected = twin.read_varint(data, at, bits)
    except twin.BrokenError:
        assert read(data, at, bits)[1] == -1
    else:
        assert read(data, at, bits) == expected


@pytest.mark.parametrize(("bits", "longest"), [(32, MAX_VARINT_SIZE), (64, MAX_VARLONG_SIZE)])
def test_the_longest_is_read_and_one_byte_more_is_an_error(bits: int, longest: int) -> None:
    assert read(b"\x80" * (longest - 1) + b"\x00", bits=bits) == (0, longest)
    assert read(b"\x80" * longest + b"\x00", bits=bits)[1] == -1


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("value", EXTREMES)
def test_a_cut_varint_is_an_error_wherever_it_is_cut(bits: int, value: int) -> None:
    data = np.frombuffer(twin.write_varint(value) + b"\x00" * 8, np.uint8)
    for end in range(len(twin.write_varint(value))):
        assert READERS[bits](data, 0, end)[1] == -1
