"""What reading records takes at least: one read of the file, CRC-32C over all batches, the codec's library over all
payloads, and one copy.

The system has the file in memory. Nothing is parsed but where blocks of a codec begin, which is known beforehand.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import cramjam
import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.codecs import lz4
from brokerless.format.codecs.c_functions import codec_function
from brokerless.format.codecs.payload_kernels import INFLATE
from brokerless.format.codecs.snappy import has_header
from brokerless.format.crc.kernels import crc32c_ranges
from brokerless.format.read.batch_headers import read_headers
from brokerless.format.read.batch_scan import scan_batches

_STEP = 2 << 20
_ROOM = 64 << 20
_XERIAL_HEADER = 16


@dataclass(frozen=True)
class _File:
    descriptor: int
    data: NDArray[np.uint8]
    """The bytes of one group."""
    records: int
    groups: list[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]]
    """Where batches of some :data:`_STEP` bytes lie in the file, and where each starts and ends in ``data``."""
    inflate: Callable[[NDArray[np.int64], NDArray[np.int64]], int] | None
    """Inflates the batches of a group to the beginning of ``inflated``; returns how many bytes that were."""
    inflated: NDArray[np.uint8]
    target: NDArray[np.uint8]


def read(path: str, *, is_copied: bool = True) -> int:
    """Does all of that once; returns the number of records."""
    file = _open(path)
    copied = 0
    for position, length, starts, ends in file.groups:
        if os.preadv(file.descriptor, [file.data[:length].data], position) != length:
            raise ValueError(f"{path} became shorter")
        checksums = np.empty(len(starts), np.uint32)
        crc32c_ranges(file.data, starts + layouts.BATCH_CRC_START, ends, checksums)
        if file.inflate is None:
            source = file.data[:length]
        else:
            source = file.inflated[: file.inflate(starts + layouts.BATCH_V2_SIZE, ends)]
        if not is_copied:
            continue
        if copied + len(source) > len(file.target):
            copied = 0
        file.target[copied : copied + len(source)] = source
        copied += len(source)
    return file.records


def search(path: str) -> int:
    """The same without the copy: what is left of looking for something that no batch has, if that took no time."""
    return read(path, is_copied=False)


@functools.cache
def _open(path: str) -> _File:
    whole = np.fromfile(path, np.uint8)
    batches = read_headers(whole, scan_batches(whole).positions)
    codec, inflated = int(batches.codec[0]), np.zeros(_ROOM, np.uint8)
    starts, ends = batches.positions, batches.ends
    each = (ends // _STEP).astype(np.int64)
    borders = [0, *(np.flatnonzero(np.diff(each)) + 1).tolist(), len(starts)]
    groups: list[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]] = []
    for first, last in itertools.pairwise(borders):
        position, end = int(starts[first]), int(ends[last - 1])
        groups.append((position, end - position, starts[first:last] - position, ends[first:last] - position))
    data = np.zeros(max(length for _, length, _, _ in groups), np.uint8)
    inflate = _inflater(data, codec, inflated)
    target = np.zeros(8 << 20, np.uint8)
    return _File(os.open(path, os.O_RDONLY), data, int(batches.count.sum()), groups, inflate, inflated, target)


def _inflater(
    data: NDArray[np.uint8], codec: int, inflated: NDArray[np.uint8]
) -> Callable[[NDArray[np.int64], NDArray[np.int64]], int] | None:
    if codec == 0:
        return None
    if codec == layouts.SNAPPY:
        return functools.partial(_snappy, data.data, inflated.data)
    function, kernel = codec_function(codec, inflated), INFLATE[codec]
    assert function is not None

    def inflate(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
        header = lz4.read_plain_header(data[starts[0] : ends[0]].data, 2) if codec == layouts.LZ4 else 0
        bounds, state = np.zeros(len(starts) + 1, np.int64), np.zeros(3, np.int64)
        done = kernel(
            function.address, function.context, data, starts, ends, header, 0, _ROOM, inflated, 0, _ROOM, bounds, state
        )
        assert done == len(starts)
        return int(bounds[-1])

    return inflate


def _snappy(data: memoryview, inflated: memoryview, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    made = 0
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        for block in _blocks(data[start:end]):
            made += cramjam.snappy.decompress_raw_into(block, inflated[made:])
    return made


def _blocks(payload: memoryview) -> Iterator[memoryview]:
    if not has_header(payload):
        yield payload
        return
    at = _XERIAL_HEADER
    while at < len(payload):
        size = int.from_bytes(payload[at : at + 4], "big")
        yield payload[at + 4 : at + 4 + size]
        at += 4 + size
