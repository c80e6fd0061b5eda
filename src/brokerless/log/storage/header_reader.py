"""Reads the batch headers of a local file: by large windows, or one small read for each.

A read takes some time, however little it reads: where batches are small, a window of many takes less. On a disk, what
lies between small batches is read sooner than the next header is found; between large ones it is not. None of this can
be queried, so both ways are tried, and the clock decides, or processor time where nothing was waited for.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches, read_headers
from brokerless.format.read.batch_scan import (
    BatchScan,
    ScanStop,
    count_python_scans,
    python_scans_left,
    scan_batches,
    scan_in_python,
)
from brokerless.log.storage.files import LocalFile, unreadable_error

_HEADER_SIZE = layouts.BATCH_V2_SIZE
_MOST = 1 << 14
"""Batches of one chunk, and those of a window more."""
_WINDOW, _LEAST_WINDOW = 1 << 20, 1 << 16
"""Bytes that are read at once; the second where no more is requested."""
_TRIAL = 4 << 20
"""Bytes of log in which a way is tried."""
_FADES = 0.95
"""What a way took is believed less with each chunk, so that one that was disturbed gets another chance."""

HeaderReader = Callable[[int, int, int], tuple[BatchScan, Batches]]


def header_reader(file: LocalFile) -> HeaderReader:
    """Return what reads, of a file that has ``end`` bytes, the batches that begin in ``[start, until)``, or the first
    of them, as far as they are a chain; called with these three. Positions (bytes) count from ``start``.

    It raises :class:`UnreadableError` where the system does not read.
    """
    took = {headers_by_reads: 0.0, headers_by_windows: 0.0}  # seconds for each byte of log
    last = headers_by_reads

    def read(start: int, until: int, end: int) -> tuple[BatchScan, Batches]:
        nonlocal last
        way = min(took, key=lambda each: took[each])
        is_known = took[way] > 0 and way is last
        last, began = way, _times()
        walked, batches = way(file, start, until if is_known else min(until, start + _TRIAL), end)
        for each in took:
            took[each] *= _FADES
        took[way] = seconds_between(began, _times()) / max(1, walked.stopped_at)
        return walked, batches

    return read


class Times(NamedTuple):
    """Seconds by the clock, and of this thread on a processor; and how often the thread has waited, None where the
    system does not say."""

    clock: float
    thread: float
    waits: int | None


def _times() -> Times:
    waits = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw if hasattr(resource, "RUSAGE_THREAD") else None
    return Times(time.perf_counter(), time.thread_time(), waits)


def seconds_between(one: Times, other: Times) -> float:
    """Return what something took: processor time where it waited for nothing, as all was in memory, lest a turn of
    another process count; else by the clock."""
    if one.waits is not None and one.waits == other.waits:
        return other.thread - one.thread
    return other.clock - one.clock


def headers_by_windows(file: LocalFile, start: int, until: int, end: int) -> tuple[BatchScan, Batches]:
    """Read by windows, of which headers are gathered; a batch that is larger than one is found by its header alone."""
    positions: list[NDArray[np.int64]] = []
    heads: list[NDArray[np.uint8]] = []
    at, stop, found = start, ScanStop.LIMIT, 0
    while at < until and stop == ScanStop.LIMIT and found < _MOST:
        requested = min(_WINDOW, end - at, max(until - at, _LEAST_WINDOW))
        buffer = file.read(at, requested)
        walked = scan_batches(buffer, max_bytes=until - at)
        is_cut = walked.stop == ScanStop.END and len(buffer) == requested < end - at
        if is_cut:
            walked = without_cut_header(walked, len(buffer))
        if len(walked.positions) or not is_cut:
            batches = read_headers(buffer, walked.positions)
        else:
            walked, batches = headers_by_reads(file, at, at + 1, end)
        positions.append(walked.positions + (at - start))
        heads.append(batches.raw)
        found += len(walked.positions)
        at += walked.stopped_at
        stop = ScanStop.LIMIT if is_cut and len(walked.positions) else walked.stop
    together = np.concatenate(positions)
    return BatchScan(together, at - start, stop), Batches(together, np.concatenate(heads), end - start)


def without_cut_header(walked: BatchScan, size: int) -> BatchScan:
    """Return a walk through a window without a last batch so short that what a header may take reaches past the
    window."""
    positions = walked.positions
    if len(positions) < 2 or positions[-1] + layouts.BATCH_V2_SIZE <= size:
        return walked
    return BatchScan(positions[:-1], int(positions[-1]), walked.stop)


def headers_by_reads(file: LocalFile, start: int, until: int, end: int) -> tuple[BatchScan, Batches]:
    """Read each header, of 61 bytes."""
    read = _read_few if python_scans_left() else _read_many
    try:
        positions, heads, stopped_at, stop = read(file.descriptor, start, until, end)
    except OSError as error:
        raise unreadable_error(file.path, error) from error
    positions -= start
    return BatchScan(positions, stopped_at - start, stop), Batches(
        positions, heads.reshape(-1, _HEADER_SIZE), end - start
    )


_Read = tuple[NDArray[np.int64], NDArray[np.uint8], int, ScanStop]


def _read_many(descriptor: int, start: int, until: int, end: int) -> _Read:
    from brokerless.format.read.batch_scan_kernels import NOT_READ, scan_file

    positions, heads = np.empty(_MOST, np.int64), np.empty(_MOST * _HEADER_SIZE, np.uint8)
    found, at, stop = scan_file(descriptor, start, until, end, positions, heads)
    if stop == NOT_READ:  # asked in Python, the system says why
        return _read_few(descriptor, start, until, end)
    return positions[:found].copy(), heads[: found * _HEADER_SIZE].copy(), at, ScanStop(stop)


def _read_few(descriptor: int, at: int, until: int, end: int) -> _Read:
    """The kernel's work in plain Python."""
    heads = bytearray()

    def size_at(position: int) -> int | None:
        head = os.pread(descriptor, min(_HEADER_SIZE, end - position), position)
        if len(head) < min(_HEADER_SIZE, end - position):
            return None
        heads.extend(head.ljust(_HEADER_SIZE, b"\0"))
        return int.from_bytes(head[8:12], "big", signed=True)

    walked = scan_in_python(size_at, at, _MOST, until=until, end=end)
    found = len(walked.positions)
    count_python_scans(found)
    return walked.positions, np.frombuffer(heads, np.uint8)[: found * _HEADER_SIZE], walked.stopped_at, walked.stop
