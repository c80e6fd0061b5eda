"""Reads windows of a file before what is in them is known: in parallel, by threads, each byte once.

Windows follow one another without regard to batches. The beginning of a batch that the end of a window cuts is copied
to where the next one begins, as each window has free space before its first byte.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from brokerless.errors import UnreadableError
from brokerless.log.storage.files import File, RemoteFile
from brokerless.ordered_threads import processors

if TYPE_CHECKING:  # NumPy takes most of the time of `--help`, which reads no file
    import numpy as np
    from numpy.typing import NDArray

HEADROOM = 1 << 20
"""Bytes before a window: about the largest batch that brokers take by default (``message.max.bytes``). What is cut of a
larger one is read again."""
_AHEAD = 32 << 20
"""Bytes of a remote file that are requested at once."""
_SMALLEST = 1 << 16
"""Bytes of a window that is not requested, as all of it is there."""


@dataclass(slots=True)
class Window:
    """Bytes of a file from ``position`` on. Both ``memory`` and ``array`` begin with :data:`HEADROOM` free bytes."""

    position: int
    length: int
    """How many bytes there are once it is read, unless the file ends before."""
    memory: memoryview | None = None
    """Writable."""
    array: NDArray[np.uint8] | None = None
    """Not writable."""

    @property
    def end(self) -> int:
        return self.position + self.length


class ReadAhead:
    """Windows of ``file[start:end]`` that are read by :meth:`fetch` before :meth:`read` takes them.

    ``first`` and ``most``: their bytes, at first and at most, as reading may end soon. ``block``: they end at multiples
    of it (bytes). While one thread calls :meth:`plan`, another one may call :meth:`read`, and any others :meth:`fetch`.
    """

    def __init__(self, file: File, start: int, end: int, first: int, most: int, block: int = 1) -> None:
        self._file, self._next, self._end, self._block = file, start, end, block
        self._usual, self._most = min(first, most), most
        self._planned: deque[Window] = deque()
        self._last: tuple[int, NDArray[np.uint8]] | None = None
        self._lock = Lock()

    def plan(self) -> Window | None:
        """Return the next window, which the caller has to fetch before it reads; None where the file ends."""
        with self._lock:
            length = min(self._usual - self._next % self._block, self._end - self._next)
            if length <= 0:
                return None
            window = Window(self._next, length)
            self._planned.append(window)
            self._next, self._usual = window.end, min(8 * self._usual, self._most)
            return window

    def fetch(self, window: Window) -> None:
        """Reads a window. Where the system does not read, it stays empty: :meth:`read` says why."""
        try:
            window.memory, window.array = self._file.read_with_headroom(window.position, window.length, HEADROOM)
        except UnreadableError:
            window.memory = window.array = None

    def read(self, position: int, _: int, least: int) -> tuple[NDArray[np.uint8], int]:
        """Return the bytes from a position on, and how many these should be: as far as the window reaches that was
        fetched, but ``least`` at least. They are fewer where the file became shorter.

        Raises :class:`UnreadableError` where the system does not read.
        """
        while self._planned and self._planned[0].end <= position:
            self._planned.popleft()
        buffer, length = self._fetched(position, least)
        if buffer is None:
            length = max(least, self._most)
            buffer = self._file.read(position, length)
            with self._lock:
                self._next = max(self._next, position + len(buffer))
        self._last = position, buffer
        return buffer, length

    def _fetched(self, position: int, least: int) -> tuple[NDArray[np.uint8] | None, int]:
        window = self._planned[0] if self._planned else None
        if window is None or window.array is None or window.memory is None or position + least > window.end:
            return None, 0
        at, length = HEADROOM + position - window.position, window.end - position
        if at < HEADROOM:
            cut = self._cut(position, window.position)
            if cut is None:
                return None, 0
            window.memory[at:HEADROOM] = cut
        self._planned.popleft()
        return window.array[at:], length

    def _cut(self, position: int, end: int) -> memoryview | None:
        """Return what was read last of these bytes, if that is all of them and not too much."""
        if self._last is None or end - position > HEADROOM:
            return None
        began, buffer = self._last
        return buffer[position - began :].data if began <= position and began + len(buffer) == end else None


class RemoteWindows:
    """Windows of a remote file up to ``end`` (bytes), requested before they are needed: the longer reading goes on, the
    more at once. ``usual``: their bytes, but for one that is needed as a whole."""

    def __init__(self, file: RemoteFile, end: int, usual: int) -> None:
        self._file, self._end = file, end
        self._block = file.block
        self._usual = max(usual // self._block, 1) * self._block
        self._most = max(1, _AHEAD // self._usual) if file.is_far or file.has_parts else 0
        if not file.is_far:
            self._most = min(self._most, processors())
        self._depth = 0
        file.expect_windows(self._most + 3)
        self._ahead: ReadAhead | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._fetching: deque[tuple[Window, Future[None]]] = deque()

    def read(self, position: int, _: int, least: int) -> tuple[NDArray[np.uint8], int]:
        """Return the bytes from a position on, ``least`` at least, and how many these should be, as
        :meth:`ReadAhead.read` has them. Raises :class:`UnreadableError` where the storage fails."""
        if self._ahead is None:
            kept = self._file.kept_after(position)
            if self._most == 0 or kept >= max(least, _SMALLEST):
                length = kept if kept >= max(least, _SMALLEST) else max(least, self._usual)
                return self._file.read(position, length), length
            self._ahead = ReadAhead(
                self._file, position, self._end, first=self._usual, most=self._usual, block=self._block
            )
        self._request(self._ahead)
        while self._fetching and self._fetching[0][0].end <= position:
            self._fetching.popleft()[1].cancel()
        if self._fetching and self._fetching[0][0].position <= position + HEADROOM:
            self._fetching.popleft()[1].result()
        buffer, length = self._ahead.read(position, 0, least)
        self._file.count_as_read(position + len(buffer))
        return buffer, length

    def _request(self, ahead: ReadAhead) -> None:
        self._depth = min(max(1, 2 * self._depth), self._most)
        if self._most == 1:
            if (window := ahead.plan()) is not None:
                ahead.fetch(window)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most)
        while len(self._fetching) < self._depth and (window := ahead.plan()) is not None:
            self._fetching.append((window, self._pool.submit(ahead.fetch, window)))

    def close(self) -> None:
        """Requests nothing more; what is on its way is lost."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
