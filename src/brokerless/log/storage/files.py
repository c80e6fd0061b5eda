"""Files open for reading by position: ``pread`` for local ones, ranged requests through fsspec for others.

Nothing is mapped: a broker cuts indexes and logs back while they are read, and who touches a page of a map past the
end of its file is killed (SIGBUS). A file that became shorter gives fewer bytes.
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from brokerless.errors import UnreadableError
from brokerless.findings import Finding

if TYPE_CHECKING:  # NumPy takes most of the time of `--help`, which reads no file
    import numpy as np
    from numpy.typing import NDArray

_SMALL = 1 << 16
"""Bytes of a read that gets memory of its own."""
_LARGE = 16 << 20
"""The same of one that is too large for its memory to be kept."""
_ROOMS = 2
"""While one window is read, what was made of the one before may still refer to that. Threads need more."""
_EXTENTS = 64
"""Extents of a file with holes that are searched for where its data ends."""
_PAGE = 4096
"""Bytes of a page. What is read lies in its pages as in those of the file: to 16 bytes further on, where large arrays
begin, a processor copies at half the speed, as it compares the lowest twelve bits of addresses to see overlaps."""


class LocalFile:
    """A local file, read by ``pread``: nothing of it is mapped, so that a broker that cuts it back does no harm.

    ``size`` (bytes), ``modified`` (ms since the epoch) and ``identity`` (the inode's number) are those at opening. What
    :meth:`read` gives is a copy of its own and stays what it is; its memory is used again when nobody refers to it any
    more.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        status = os.fstat(descriptor)
        self.size = status.st_size
        self.modified: int | None = status.st_mtime_ns // 1_000_000
        self.identity: int | str | None = status.st_ino
        self._lock = threading.Lock()
        self._most_rooms = _ROOMS
        self._rooms: list[tuple[memoryview, weakref.ref[NDArray[np.uint8]]]] = []

    @property
    def is_local(self) -> bool:
        return True

    def read(self, position: int, length: int) -> NDArray[np.uint8]:
        """At most ``length`` bytes from ``position`` on, read-only; shorter at the end of the file, also where that is
        now, if the file became shorter after it was opened.

        Raises :class:`UnreadableError` where the system does not read.
        """
        _check_range(self.path, position, length)
        length = min(length, self.size - position)
        if length <= 0:
            return _array(b"")
        with unreadable(self.path, OSError):
            if length <= _SMALL:
                return _array(os.pread(self.descriptor, length, position))
        return self.read_after_space(position, length, 0)[1]

    def read_after_space(self, position: int, length: int, space: int) -> tuple[memoryview, NDArray[np.uint8]]:
        """What :meth:`read` gives, after ``space`` bytes that are free to be written, and the memory of both.

        Raises :class:`UnreadableError` where the system does not read.
        """
        _check_range(self.path, position, length)
        length = max(0, min(length, self.size - position))
        room, buffer = self._room(space + length, position - space)
        done = 0
        with unreadable(self.path, OSError):
            while done < length and (
                got := os.preadv(self.descriptor, [room[space + done : space + length]], position + done)
            ):
                done += got
        return room, buffer[: space + done]

    def _room(self, length: int, position: int) -> tuple[memoryview, NDArray[np.uint8]]:
        """Memory for a read, and the array that is handed out: all that refers to any of it keeps that array alive."""
        import numpy as np

        if length > _LARGE:
            return _placed(np.empty(length + _PAGE, np.uint8).data, position, length)
        with self._lock:
            # By their places: memory that is compared is compared byte by byte.
            free = [place for place, (_, user) in enumerate(self._rooms) if user() is None]
            fitting = [place for place in free if len(self._rooms[place][0]) >= length + _PAGE]
            if fitting:
                room, _ = self._rooms.pop(fitting[-1])  # used last, so that it may be in a cache still
            else:
                if len(self._rooms) >= self._most_rooms:
                    self._rooms.pop(free[0] if free else 0)
                room = np.empty(length + _PAGE, np.uint8).data
            placed, buffer = _placed(room, position, length)
            self._rooms.append((room, weakref.ref(buffer)))
            return placed, buffer

    def expect_windows(self, count: int) -> None:
        """So many will be referred to at a time; the memory of that many is used again."""
        self._most_rooms = max(self._most_rooms, count)

    def size_now(self) -> int:
        """Bytes; less than :attr:`size` if the file became shorter after it was opened."""
        with unreadable(self.path, OSError):
            return min(self.size, os.fstat(self.descriptor).st_size)

    def next_data(self, position: int) -> int:
        """The first position from this one on that is in no hole, as far as the system says; the size if none is."""
        if position >= self.size or not hasattr(os, "SEEK_DATA"):
            return min(position, self.size)
        try:
            return min(os.lseek(self.descriptor, position, os.SEEK_DATA), self.size)
        except OSError as error:
            return self.size if error.errno == errno.ENXIO else position

    def data_end(self) -> int:
        """Where the last data ends, as far as the system says: nothing but a hole follows."""
        end = 0
        for _ in range(_EXTENTS):
            data = self.next_data(end)
            if data >= self.size or not hasattr(os, "SEEK_HOLE"):
                return end if data >= self.size else self.size
            try:
                end = os.lseek(self.descriptor, data, os.SEEK_HOLE)
            except OSError:  # it became shorter meanwhile
                return self.size
        return self.size

    def take_findings(self) -> list[Finding]:
        """As of a remote file; a local one has none."""
        return []

    def release(self) -> None:
        """Gives back the memory of its windows; the next read takes some again."""
        with self._lock:
            self._rooms.clear()

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        self._rooms.clear()
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteFile:
    """A file of an fsspec file system, read by ranges and not cached. ``size`` (bytes) and ``identity`` (an object's
    ETag) are those at opening."""

    def __init__(self, path: str, handle: Any, size: int, file_system: Any, identity: int | str | None = None) -> None:
        self.path = path
        self.size = size
        self.modified: int | None = None
        self.identity = identity
        self._handle = handle
        self._file_system = file_system  # an archive's one closes the archive when nobody needs it any more
        self._lock = threading.Lock()

    @property
    def is_local(self) -> bool:
        return False

    def read(self, position: int, length: int) -> NDArray[np.uint8]:
        """At most ``length`` bytes from ``position`` on, read-only; shorter at the end of the file, also where that is
        now.

        Raises :class:`UnreadableError` where the storage fails.
        """
        _check_range(self.path, position, length)
        length = min(length, self.size - position)
        if length <= 0:
            return _array(b"")
        with unreadable(self.path, Exception), self._lock:
            self._handle.seek(position)
            parts: list[bytes] = []
            while length > 0 and (part := self._handle.read(length)):
                parts.append(part)
                length -= len(part)
        return _array(parts[0] if len(parts) == 1 else b"".join(parts))

    def size_now(self) -> int:
        """What it was at opening: to ask again is a round trip, and a read that is short says as much."""
        return self.size

    def next_data(self, position: int) -> int:
        """As of a local file; of holes, nothing is known here."""
        return min(position, self.size)

    def data_end(self) -> int:
        return self.size

    def take_findings(self) -> list[Finding]:
        """What of the bytes read since the last call is not what was stored, and was read as zeros."""
        return getattr(self._handle, "take_findings", list[Finding])()

    def close(self) -> None:
        with suppress(Exception):
            self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


File = LocalFile | RemoteFile


def _array(read: bytes) -> NDArray[np.uint8]:
    import numpy as np

    return np.frombuffer(read, np.uint8)


def _placed(room: memoryview, position: int, length: int) -> tuple[memoryview, NDArray[np.uint8]]:
    """So much of ``room``, also as a read-only array, that begins in its page where ``position`` does in a file's."""
    import numpy as np

    start = (position - np.frombuffer(room, np.uint8).ctypes.data) % _PAGE
    array = np.frombuffer(room[start : start + length], np.uint8)  # which all slices of it refer to
    array.flags.writeable = False
    return room[start : start + length], array


def _check_range(path: str, position: int, length: int) -> None:
    if position < 0 or length < 0:
        raise ValueError(f"{path}: cannot read {length} bytes at position {position}")


@contextmanager
def unreadable(path: str, *errors: type[Exception]) -> Generator[None]:
    """Turns what a storage raises into one error that says which path it was."""
    try:
        yield
    except UnreadableError:
        raise
    except errors as error:
        raise UnreadableError(path, _reason(error)) from error


def _reason(error: Exception) -> str:
    match error:
        case FileNotFoundError():
            return "there is no such file or directory"
        case IsADirectoryError():
            return "this is a directory; give a file in it"
        case NotADirectoryError():
            return "this is not a directory"
        case PermissionError():
            return "Permission denied"
        case OSError(strerror=str() as text) if text:
            return text
        case _:
            return str(error) or type(error).__name__
