"""The batch headers of a local file and nothing else: through the map, or by one read for each, whichever is faster.

A page fault maps pages around it: next to nothing where the system keeps a file in large pieces, as it does what it
read from a disk, but twice as much as a read where pages lie one by one, as they do in what was just written. On a
disk, what lies between small batches is read sooner than the next header is found; between large ones it is not.
None of this can be asked for, so both ways are tried, and the clock decides.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UnreadableError
from brokerless.format import layouts
from brokerless.format.batches import (
    Batches,
    Stop,
    Walk,
    count_plain_walk,
    plain_walks_left,
    read_headers,
    walk,
    walk_plainly,
)
from brokerless.log.storage import MappedFile

_HEADER_SIZE = layouts.BATCH_V2_SIZE
_MOST = 1 << 14
"""Batches of one chunk that are read one by one."""
_TRIAL = 8 << 20
"""Bytes of log in which a way is tried."""
_FADES = 0.95
"""What a way took is believed less with each chunk, so that one that was disturbed gets another chance."""

HeaderReader = Callable[[int, int, int], tuple[Walk, Batches]]


def header_reader(file: MappedFile) -> HeaderReader:
    """What reads, of a file that has ``end`` bytes, the batches that begin in ``[start, until)``, or the first of them,
    as far as they are a chain; called with these three. Positions (bytes) count from ``start``.

    It raises :class:`UnreadableError` where the system does not read.
    """
    took = {headers_by_reads: 0.0, headers_by_map: 0.0}  # seconds for each byte of log

    def read(start: int, until: int, end: int) -> tuple[Walk, Batches]:
        way = min(took, key=lambda each: took[each])
        began = time.perf_counter()
        walked, batches = way(file, start, until if took[way] else min(until, start + _TRIAL), end)
        for each in took:
            took[each] *= _FADES
        took[way] = (time.perf_counter() - began) / max(1, walked.stopped_at)
        return walked, batches

    return read


def headers_by_map(file: MappedFile, start: int, until: int, end: int) -> tuple[Walk, Batches]:
    """Through the map, whose pages are handed back."""
    buffer = file.read(start, end - start)
    walked = walk(buffer, max_bytes=until - start)
    batches = read_headers(buffer, walked.positions)
    file.release(start, walked.stopped_at)
    return walked, batches


def headers_by_reads(file: MappedFile, start: int, until: int, end: int) -> tuple[Walk, Batches]:
    """By a read for each header, which does not kill the process if a broker shortens the file."""
    read = _read_few if plain_walks_left() else _read_many
    try:
        positions, heads, stopped_at, stop = read(file.descriptor, start, until, end)
    except OSError as error:
        raise UnreadableError(f"{file.path}: {error.strerror}") from error
    positions -= start
    return Walk(positions, stopped_at - start, stop), Batches(positions, heads.reshape(-1, _HEADER_SIZE), end - start)


_Read = tuple[NDArray[np.int64], NDArray[np.uint8], int, Stop]


def _read_many(descriptor: int, start: int, until: int, end: int) -> _Read:
    from brokerless.format.chain import NOT_READ, read_chain

    positions, heads = np.empty(_MOST, np.int64), np.empty(_MOST * _HEADER_SIZE, np.uint8)
    found, at, stop = read_chain(descriptor, start, until, end, positions, heads)
    if stop == NOT_READ:  # asked in Python, the system says why
        return _read_few(descriptor, start, until, end)
    return positions[:found].copy(), heads[: found * _HEADER_SIZE].copy(), at, Stop(stop)


def _read_few(descriptor: int, at: int, until: int, end: int) -> _Read:
    """The kernel's work in plain Python."""
    heads = bytearray()

    def size_at(position: int) -> int | None:
        head = os.pread(descriptor, min(_HEADER_SIZE, end - position), position)
        if len(head) < min(_HEADER_SIZE, end - position):
            return None
        heads.extend(head.ljust(_HEADER_SIZE, b"\0"))
        return int.from_bytes(head[8:12], "big", signed=True)

    walked = walk_plainly(size_at, at, _MOST, until, end)
    found = len(walked.positions)
    count_plain_walk(found)
    return walked.positions, np.frombuffer(heads, np.uint8)[: found * _HEADER_SIZE], walked.stopped_at, walked.stop
