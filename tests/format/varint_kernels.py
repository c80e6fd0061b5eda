"""Helpers of kernels that read and measure varints, as kernels that Python can call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.kernel import kernel
from brokerless.format.varint import read_varint, read_varlong, size_of_varint, size_of_varlong

READ = "UniTuple(int64, 2)(Array(uint8, 1, 'C', readonly=True), int64, int64)"


@kernel(READ)
def read_int32(buffer: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    return read_varint(buffer, at, end)


@kernel(READ)
def read_int64(buffer: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    return read_varlong(buffer, at, end)


@kernel("int64(int64)")
def size_of_int32(value: int) -> int:
    return size_of_varint(value)


@kernel("int64(int64)")
def size_of_int64(value: int) -> int:
    return size_of_varlong(value)


READERS = {32: read_int32, 64: read_int64}
