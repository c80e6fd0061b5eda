"""Finds where the batches of a buffer start, by following the sizes in their headers.

The scan ends exactly where Kafka's does (``FileLogInputStream``, 3.9.1): an entry that is cut off by the end of the
file ends it silently, a size below the smallest message is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts

_BEFORE_NUMBA = 1 << 19
"""How many batches a process scans in plain Python, at about 1 µs each, before importing Numba pays off."""
_BEFORE_KERNEL = 1 << 12
"""The same where Numba is already imported for other kernels."""
_scanned_in_python = 0


class ScanStop(IntEnum):
    """Why a scan ended."""

    LIMIT = 0
    """As many batches as were requested; there may be more."""
    END = 1
    """Fewer bytes are left than the next entry needs: the end, or a cut-off tail. Kafka's reader is silent."""
    SIZE_TOO_SMALL = 2
    """The next entry's size is below :data:`layouts.MESSAGE_V0_OVERHEAD`. Kafka's reader throws here."""


@dataclass(frozen=True, slots=True)
class BatchScan:
    """Where the batches of a buffer start (int64, bytes from its beginning), and where and why the scan ended."""

    positions: NDArray[np.int64]
    stopped_at: int
    stop: ScanStop


def python_scans_left() -> int:
    """Return how many more batches a process scans in plain Python before loading kernels pays off."""
    return max(0, (_BEFORE_KERNEL if "brokerless.format.kernel" in sys.modules else _BEFORE_NUMBA) - _scanned_in_python)


def count_python_scans(batches: int) -> None:
    global _scanned_in_python
    _scanned_in_python += batches


def scan_batches(
    buffer: NDArray[np.uint8], start: int = 0, limit: int = 1 << 62, max_bytes: int = 1 << 62
) -> BatchScan:
    """Scans from ``start`` until the batches end or a size is invalid, or ``limit`` batches were found, or a batch
    begins ``max_bytes`` or more after ``start``."""
    few, until = min(limit, python_scans_left()), start + max_bytes
    first = _scan_few(buffer, start, few, until)
    count_python_scans(len(first.positions))
    if first.stop != ScanStop.LIMIT or few == limit or first.stopped_at >= until:
        return first
    rest = _scan_many(buffer, first.stopped_at, limit - few, until)
    return BatchScan(np.concatenate([first.positions, rest.positions]), rest.stopped_at, rest.stop)


def _scan_few(buffer: NDArray[np.uint8], at: int, limit: int, until: int) -> BatchScan:
    view = buffer.data

    def size_at(position: int) -> int:
        return int.from_bytes(view[position + 8 : position + 12], "big", signed=True)

    return scan_in_python(size_at, at, limit, until=until, end=len(view))


def scan_in_python(size_at: Callable[[int], int | None], at: int, limit: int, until: int, end: int) -> BatchScan:
    """The scan in plain Python, up to ``end``. ``size_at`` returns the size in the header at a position, or None where
    it cannot be read, which ends the scan."""
    found: list[int] = []
    stop = ScanStop.LIMIT
    while len(found) < limit and at < until:
        size = size_at(at) if at < end - layouts.HEADER_SIZE_UP_TO_MAGIC else None
        if size is not None and size < layouts.MESSAGE_V0_OVERHEAD:
            stop = ScanStop.SIZE_TOO_SMALL
            break
        if size is None or at > end - layouts.LOG_ENTRY_SIZE - size:
            stop = ScanStop.END
            break
        found.append(at)
        at += layouts.LOG_ENTRY_SIZE + size
    return BatchScan(np.array(found, dtype=np.int64), at, stop)


def _scan_many(buffer: NDArray[np.uint8], at: int, limit: int, until: int) -> BatchScan:
    from brokerless.format.read.batch_scan_kernels import scan_buffer

    buffers: list[NDArray[np.int64]] = []
    stop = int(ScanStop.LIMIT)
    while limit > 0 and stop == ScanStop.LIMIT and at < until:
        positions = np.empty(min(limit, 1 << 20), dtype=np.int64)
        count, at, stop = scan_buffer(buffer, at, until, positions)
        buffers.append(positions[:count])
        limit -= count
    return BatchScan(np.concatenate(buffers), at, ScanStop(stop))
