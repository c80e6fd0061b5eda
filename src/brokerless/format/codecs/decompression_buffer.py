"""The buffer that payloads inflate into: it grows, is reused, and holds each payload to a limit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DEFAULT_MAX_BATCH_BYTES = 128 << 20
"""Bytes that one batch may inflate to, unless the caller says otherwise."""
MAX_LARGE_PAYLOADS = 8
"""How many payloads may inflate to more than a quarter of the limit. More of them are made to keep a processor busy."""
_INITIAL_CAPACITY, _RETAINED_CAPACITY = 1 << 20, 32 << 20


class CodecError(Exception):
    """A compressed payload that Kafka would not read; the message says what is wrong with it."""


class LimitError(CodecError):
    """A payload that would inflate past the limit."""


class InflateBuffer:
    """Bytes of inflated payloads, one after another: the first ``used`` of ``buffer`` (uint8).

    One payload inflates to at most ``limit`` bytes; after eight that inflated to more than a quarter of it, only to a
    quarter (of the default limit, where ``limit`` is less).
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.large = max(limit, DEFAULT_MAX_BATCH_BYTES) // 4
        self._large_left = MAX_LARGE_PAYLOADS
        self._start = 0
        self.used = 0
        self.buffer: NDArray[np.uint8] = np.empty(_INITIAL_CAPACITY, dtype=np.uint8)
        self.view = self.buffer.data

    def clear(self) -> None:
        """Drops all results, and the memory that one huge batch has taken."""
        self.used = 0
        if len(self.buffer) > _RETAINED_CAPACITY:
            self._resize(_INITIAL_CAPACITY)

    def begin(self) -> int:
        """Begins a payload, whose bytes count towards the limit; returns its position."""
        self._start = self.used
        return self._start

    def reserve(self, size: int, minimum: int | None = None) -> memoryview:
        """The next ``size`` free bytes; near the limit fewer, if ``minimum`` are enough. Raises :class:`LimitError`."""
        if minimum is not None:
            size = max(minimum, min(size, self._start + self.limit - self.used))
        end = self.used + size
        if end - self._start > self.limit:
            raise self._limit_error()
        if end > len(self.buffer):
            self.grow(size)
        return self.view[self.used : end]

    def grow(self, size: int) -> None:
        """Makes room for ``size`` more bytes, whatever the limit is."""
        end = self.used + size
        self._resize(max(end, 2 * len(self.buffer) if end < 32 << 20 else end + (8 << 20)))

    def make_room(self, size: int) -> None:
        """Makes a buffer of at least ``size`` bytes where nothing is in it yet."""
        if len(self.buffer) < size:
            self.buffer = np.empty(size, np.uint8)
            self.view = self.buffer.data

    def append(self, data: bytes | memoryview) -> None:
        self.reserve(len(data))[:] = data
        self.used += len(data)

    def count_large(self) -> None:
        """Counts a payload that inflated to more than ``large`` bytes."""
        self._large_left -= 1
        if not self._large_left:
            self.limit = min(self.limit, self.large)

    def _resize(self, capacity: int) -> None:
        # In place where the system can: two buffers at a time would double the peak of one huge batch.
        self.buffer.resize(capacity, refcheck=False)
        self.view = self.buffer.data

    def _limit_error(self) -> LimitError:
        after = "" if self._large_left > 0 else f", after {MAX_LARGE_PAYLOADS} batches that did"
        return LimitError(
            f"the payload inflates past the limit of {self.limit} bytes{after}; --max-batch-bytes raises it"
        )
