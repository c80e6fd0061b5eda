"""Checksums are zlib's CRC-32 and the CRC-32C of RFC 3720, with the processor's instruction and without it."""

from __future__ import annotations

import subprocess
import sys
import zlib

import numpy as np
import pytest
from aiokafka.record.util import calc_crc32c_py
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.examples import examples

from brokerless.format.crc import kernels as checksum
from brokerless.format.crc import plain as plain_crc
from brokerless.format.crc.kernels import crc32_ranges, crc32c_ranges, slicing_tables
from brokerless.format.crc.plain import CRC32C_POLYNOMIAL
from brokerless.format.kernel import kernel

SIGNATURE = "void(Array(uint8, 1, 'C', readonly=True), int64[::1], int64[::1], uint32[::1])"

# RFC 3720, B.4, and the check value that catalogues of checksums give ("123456789").
PUBLISHED = [
    (b"", 0x00000000),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (
        bytes.fromhex(
            "01c000000000000000000000000000001400000000000400000000140000001828000000000000000200000000000000"
        ),
        0xD9963A56,
    ),
]


@kernel(SIGNATURE)
def crc32c_by_tables(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], checksums: NDArray[np.uint32]
) -> None:
    """What machines without the instruction run."""
    for i in range(len(starts)):
        checksums[i] = checksum._by_tables(checksum._CRC32C_TABLES, buffer, starts[i], ends[i])


CRC32C = [crc32c_ranges, crc32c_by_tables, plain_crc.crc32c_ranges]
CRC32 = [crc32_ranges, plain_crc.crc32_ranges]


def one(crc: object, data: bytes, start: int = 0, end: int | None = None) -> int:
    found = np.empty(1, np.uint32)
    ends = np.array([len(data) if end is None else end])
    crc(np.frombuffer(data, np.uint8), np.array([start]), ends, found)  # type: ignore[operator]
    return int(found[0])


@pytest.mark.parametrize("crc", CRC32C, ids=["as this machine does", "by tables", "in plain Python"])
@pytest.mark.parametrize(("data", "expected"), PUBLISHED)
def test_crc32c_has_the_published_check_values(crc: object, data: bytes, expected: int) -> None:
    assert one(crc, data) == calc_crc32c_py(data) == expected


def test_crc32_has_the_published_check_value() -> None:
    assert one(crc32_ranges, b"123456789") == 0xCBF43926


@pytest.mark.parametrize("length", [*range(0, 70), *range(760, 800), 1535, 1536, 1537, 2303, 2304, 2311, 100_000])
def test_every_length_is_right_around_the_steps_of_the_kernels(length: int) -> None:
    data = np.random.default_rng(length).bytes(length + 5)
    expected = calc_crc32c_py(data[3 : 3 + length])
    assert [one(crc, data, 3, 3 + length) for crc in CRC32C] == [expected] * 3
    assert [one(crc, data, 3, 3 + length) for crc in CRC32] == [zlib.crc32(data[3 : 3 + length])] * 2


@examples(50)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 5000), count=st.integers(0, 20))
def test_many_ranges_are_taken_at_once(seed: int, size: int, count: int) -> None:
    random = np.random.default_rng(seed)
    data = random.bytes(size)
    buffer = np.frombuffer(data, np.uint8)
    starts, ends = np.sort(random.integers(0, size + 1, (2, count)), axis=0)
    found = np.empty(count, np.uint32)
    for crc in CRC32:
        crc(buffer, starts, ends, found)
        assert found.tolist() == [zlib.crc32(data[a:b]) for a, b in zip(starts, ends, strict=True)]
    expected = [calc_crc32c_py(data[a:b]) for a, b in zip(starts, ends, strict=True)]
    for crc in CRC32C:
        crc(buffer, starts, ends, found)
        assert found.tolist() == expected


def test_few_bytes_are_checked_without_numba_and_many_with_it() -> None:
    program = """
import sys
from brokerless.format.crc.plain import is_plain_cheaper as cheaper
print(cheaper(100), cheaper(1 << 40), cheaper(8 << 20), cheaper((8 << 20) - 100), cheaper(1))
import brokerless.format.kernel
print(cheaper(0))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert ran.stdout.split() == ["True", "False", "False", "True", "False", "False"]


def test_the_tables_are_those_of_a_checksum_bit_by_bit() -> None:
    def shifted(register: int, zeros: int) -> int:
        for _ in range(8 * zeros):
            register = (register >> 1) ^ (CRC32C_POLYNOMIAL if register & 1 else 0)
        return register

    tables = slicing_tables(CRC32C_POLYNOMIAL)
    moved = checksum.zeros_tables(CRC32C_POLYNOMIAL, 40)
    for byte in range(256):
        assert [int(table[byte]) for table in tables] == [shifted(byte, zeros + 1) for zeros in range(8)]
        assert [int(table[byte]) for table in moved] == [shifted(byte << 8 * place, 40) for place in range(4)]
