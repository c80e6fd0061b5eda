"""Reads, checks, inflates and decodes the intact batches of a local file in one call of a kernel for many of them.

Only v2 batches of one codec and those without a codec are read this way, up to the first that is none of these, or not
intact in any way: that one is left to those who read a buffer, check its batches and decode them.
"""

# Kernels take all columns as positional arguments, which the checker cannot count.
# pyright: reportCallIssue=false

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.codecs.decompression import Inflating
from brokerless.format.codecs.payload_kernels import INFLATE
from brokerless.format.columns import SLACK, RecordColumns
from brokerless.format.kernel import load_kernels
from brokerless.format.read.batch_headers import Batches
from brokerless.format.read.decoder import DecodedRecords, Decoder
from brokerless.format.read.intact_batch_kernels import decode_intact_batches
from brokerless.format.read.one_pass_kernels import CARE, FULL, PAGE, PASSED_OVER, read_intact_batches, read_v2_headers

STEP = 1 << 18
"""Bytes that are read at once: they stay in the second-level cache of a core until their records are decoded."""
_ENOUGH, _INFLATED = 1 << 19, 4 << 20
"""Bytes of inflated payloads that are decoded at once, and room for them: a batch that may need more is for others."""
LARGEST = 1 << 20
"""The largest batch that is read here."""
_FIRST, _MOST = 1 << 18, 16 << 20
"""Bytes of a file that one call reads, at first and at most, as reading may end soon."""
_BATCHES = 1 << 14
"""The most batches of one call."""
_SAMPLED = 1 << 16
"""Bytes of a file in which those of a byte string are counted."""
_FRAME = 15
"""Bytes of a payload that have the header of its frame."""
_ATTRIBUTES = layouts.position_of(layouts.BATCH_V2, "attributes") + 1
_NOTHING = Inflating(0, 0, lz4_header=0, output=np.empty(0, np.uint8), largest=0)


@dataclass(frozen=True, slots=True)
class Passed:
    """Intact batches whose records are in the decoder's columns, but do not count until they are chosen."""

    batches: Batches
    """All that were read; their positions count from where reading began."""
    size: int
    """Bytes of the batches."""
    is_stopped: bool
    """Whether the next batch is left to others."""
    _given: NDArray[np.int32]
    _columns: RecordColumns
    _used: NDArray[np.int64]
    _decoder: Decoder
    _is_full: bool

    def records(self, decoder: Decoder, chosen: Batches, base: int) -> Iterator[DecodedRecords] | None:
        """Return columns of ``decoder`` that are full, if these batches were read for it and those of them that were
        decoded are exactly ``chosen``; None otherwise. ``base``: where reading began (bytes)."""
        wanted = self._given != PASSED_OVER
        if decoder is not self._decoder or not np.array_equal(chosen.positions, self.batches.positions[wanted]):
            return None
        self._columns.used[:] = self._used
        rows = self._given >= 0
        self._decoder.add(self.batches.take(rows), self._given[rows], base)
        return self._decoder.full() if self._is_full else iter(())


class OnePass:
    """Reads for one decoder, which it fills. ``control``: control records are decoded, too."""

    def __init__(self, decoder: Decoder, *, control: bool = True) -> None:
        self._decoder, self._control = decoder, control
        self._usual = _FIRST
        self._memory: _Workspace | None = None
        self._codec, self._inflating = layouts.NO_CODEC, _NOTHING
        self._search: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]] | None = None

    def read(self, descriptor: int, start: int, until: int, size: int) -> Passed | None:
        """The batches that begin in ``[start, until)`` of an open file that has ``size`` bytes, or the first of them,
        as far as they are intact; None if the first is left to others."""
        if self._memory is None:
            self._memory = _Workspace.allocate()
        if not self._prepare(descriptor, start):
            return None
        memory, until = self._memory, min(until, start + self._usual)
        _announce(descriptor, start, min(until, size) - start)
        codec, inflating = self._codec, self._inflating
        columns = self._decoder.begin(min(until, size) - start, is_compressed=codec != layouts.NO_CODEC)
        used = columns.used.copy()
        found, stopped_at, why = read_intact_batches(
            descriptor, start, until, size, STEP, memory.window,
            *self._searched(descriptor, start), self._control, codec, inflating.function, inflating.context,
            inflating.lz4_header, _ENOUGH, inflating.largest, inflating.output, memory.bounds, memory.state,
            memory.positions, memory.heads, memory.given, *memory.of_window, self._decoder.selected,
            *columns.arrays(),
        )  # fmt: skip
        filled = columns.used.copy()
        columns.used[:] = used
        if found == 0:
            return None
        self._usual = min(8 * self._usual, _MOST)
        heads = memory.heads[: found * layouts.BATCH_V2_SIZE].copy().reshape(-1, layouts.BATCH_V2_SIZE)
        return Passed(
            v2_batches(memory.positions[:found].copy(), heads, size - start),
            stopped_at - start,
            is_stopped=why == CARE,
            _given=memory.given[:found].copy(),
            _columns=columns,
            _used=filled,
            _decoder=self._decoder,
            _is_full=why == FULL,
        )

    def _prepare(self, descriptor: int, start: int) -> bool:
        """Loads what reads the batch at this place, and those after it; False if that is for others. Where it has no
        codec, as control batches, those after it may have that of others before."""
        head = b""
        with suppress(OSError):
            head = os.pread(descriptor, layouts.BATCH_V2_SIZE + _FRAME, start)
        codec = head[_ATTRIBUTES] & layouts.CODEC_MASK if len(head) > layouts.BATCH_V2_SIZE else layouts.NO_CODEC
        if codec not in (layouts.NO_CODEC, self._codec):
            inflating = self._decoder.inflating(codec, head[layouts.BATCH_V2_SIZE :], _INFLATED)
            if inflating is None:
                return False
            self._codec, self._inflating = codec, inflating
        load_kernels(
            [*([INFLATE[codec]] if codec else []), read_intact_batches, decode_intact_batches, read_v2_headers]
        )
        return True

    def _searched(self, descriptor: int, start: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
        """The byte strings that are searched for, where each ends, and which of their bytes are compared first."""
        if self._search is None:
            sample = b""
            with suppress(OSError):  # the kernel reads nothing either
                sample = os.pread(descriptor, _SAMPLED, start)
            self._search = self._decoder.searched(np.frombuffer(sample, np.uint8))
        return self._search


def v2_batches(positions: NDArray[np.int64], raw: NDArray[np.uint8], buffer_size: int) -> Batches:
    """Return v2 batches with the columns that readers of records look at."""
    count = len(positions)
    wide, counts, narrow = np.empty((6, count), np.int64), np.empty(count, np.int32), np.empty((6, count), np.int8)
    read_v2_headers(raw, positions, wide, counts, narrow)
    flags, neither = narrow[3:].view(np.bool_), np.zeros(count, np.bool_)
    batches = Batches(positions, raw, buffer_size)
    batches.__dict__.update(
        all_v2=True, is_legacy=neither, is_wrapper=neither, magic=np.full(count, layouts.MAGIC_V2, np.int8),
        entry_offset=wide[0], last_offset=wide[1], end_of_records=wide[2], max_timestamp=wide[3], sizes=wide[4],
        ends=wide[5], count=counts, attributes=narrow[0], codec=narrow[1], timestamp_type=narrow[2],
        is_transactional=flags[0], is_control=flags[1], goes_past_last_offset=flags[2],
    )  # fmt: skip
    return batches


def _announce(descriptor: int, start: int, length: int) -> None:
    """Tells the system what is about to be read, so that a disk reads more than a small window at once."""
    if length > STEP and hasattr(os, "posix_fadvise") and not _is_cached(descriptor, start + length - 1):
        with suppress(OSError):
            os.posix_fadvise(descriptor, start, length, os.POSIX_FADV_WILLNEED)


def _is_cached(descriptor: int, position: int) -> bool:
    """Return whether the system has a byte in memory, as far as it says so. What it has is announced at some cost."""
    if not hasattr(os, "RWF_NOWAIT"):
        return False
    try:
        return os.preadv(descriptor, [bytearray(1)], position, os.RWF_NOWAIT) == 1
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class _Workspace:
    """What the kernel writes to: a window of the file, and what is known of the batches of a call and of a window."""

    window: NDArray[np.uint8]
    positions: NDArray[np.int64]
    heads: NDArray[np.uint8]
    given: NDArray[np.int32]
    bounds: NDArray[np.int64]
    state: NDArray[np.int64]
    of_window: tuple[NDArray[np.generic], ...]

    @classmethod
    def allocate(cls) -> _Workspace:
        whole, most = np.empty(LARGEST + SLACK + 2 * PAGE, np.uint8), STEP // layouts.BATCH_V2_SIZE + 1
        wide, narrow = np.empty((5, most), np.int64), np.empty((3, most), np.int32)
        single = np.zeros((4, most), np.uint8)
        kinds = single[:2].view(np.int8)
        of_window = (*wide, narrow[0], narrow[1], kinds[0], kinds[1], narrow[2], single[2], single[3])
        begin = -whole.ctypes.data % PAGE
        return cls(
            window=whole[begin : begin + LARGEST + SLACK + PAGE],
            positions=np.empty(_BATCHES, np.int64),
            heads=np.empty(_BATCHES * layouts.BATCH_V2_SIZE, np.uint8),
            given=np.empty(_BATCHES, np.int32),
            bounds=np.empty(most + 1, np.int64),
            state=np.empty(3, np.int64),
            of_window=of_window,
        )
