"""Files open for reading by position: ``pread`` for local ones, ranged requests through fsspec for others.

Nothing is mapped: a broker cuts indexes and logs back while they are read, and who touches a page of a map past the
end of its file is killed (SIGBUS). A file that became shorter gives fewer bytes.
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from brokerless.errors import OutOfFilesError, UnreadableError
from brokerless.findings import Finding, Kind

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
_BEFORE, _NEAR, _KEPT = 1 << 16, 1 << 18, 16
"""Bytes before a small range and in all that are requested with it of an object store, and how many of these are kept:
batches that an index knows are read one after the other."""
_OUT_OF_FILES = {
    errno.EMFILE: "this process has as many files open as it may (ulimit -n); raise the limit, or do less at a time",
    errno.ENFILE: "the system has as many files open as it may (sysctl fs.file-max); try again when it has fewer",
}
_MOST_CAUSES = 10
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
        self._memory = _Memory()

    @property
    def is_local(self) -> bool:
        return True

    def again(self) -> LocalFile:
        """Return another handle of the same file, whatever has its name now, in the size that it has now."""
        with unreadable(self.path, OSError):
            return LocalFile(self.path, os.dup(self.descriptor))

    def read(self, position: int, length: int) -> NDArray[np.uint8]:
        """Return at most ``length`` bytes from ``position`` on, read-only; shorter at the end of the file, also where
        that is now, if the file became shorter after it was opened.

        Raises :class:`UnreadableError` where the system does not read.
        """
        _check_range(self.path, position, length)
        length = min(length, self.size - position)
        if length <= 0:
            return _array(b"")
        with unreadable(self.path, OSError):
            if length <= _SMALL:
                return _array(os.pread(self.descriptor, length, position))
        return self.read_with_headroom(position, length, 0)[1]

    def read_with_headroom(self, position: int, length: int, headroom: int) -> tuple[memoryview, NDArray[np.uint8]]:
        """Return what :meth:`read` gives, after ``headroom`` bytes that are free to be written, and the memory of both.

        Raises :class:`UnreadableError` where the system does not read.
        """
        _check_range(self.path, position, length)
        length = max(0, min(length, self.size - position))
        room, buffer = self._memory.take(headroom + length, position - headroom)
        done = 0
        with unreadable(self.path, OSError):
            while done < length and (
                got := os.preadv(self.descriptor, [room[headroom + done : headroom + length]], position + done)
            ):
                done += got
        return room, buffer[: headroom + done]

    def expect_windows(self, count: int) -> None:
        """So many will be referred to at a time; the memory of that many is used again."""
        self._memory.most = max(self._memory.most, count)

    def size_now(self) -> int:
        """Return how many bytes it has; less than :attr:`size` if the file became shorter after it was opened."""
        with unreadable(self.path, OSError):
            return min(self.size, os.fstat(self.descriptor).st_size)

    def next_data(self, position: int) -> int:
        """Return the first position from this one on that is in no hole, as far as the system says; the size if none
        is."""
        if position >= self.size or not hasattr(os, "SEEK_DATA"):
            return min(position, self.size)
        try:
            return min(os.lseek(self.descriptor, position, os.SEEK_DATA), self.size)
        except OSError as error:
            return self.size if error.errno == errno.ENXIO else position

    def data_end(self) -> int:
        """Return where the last data ends, as far as the system says: nothing but a hole follows."""
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
        """Return no findings: only a remote file has some."""
        return []

    def release(self) -> None:
        """Gives back the memory of its windows; the next read takes some again."""
        self._memory.clear()

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        self._memory.clear()
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Memory:
    """Memory of windows, used again when nobody refers to them any more. ``most``: how many are referred to at a
    time."""

    def __init__(self) -> None:
        self.most = _ROOMS
        self._lock = threading.Lock()
        self._rooms: list[tuple[memoryview, weakref.ref[NDArray[np.uint8]]]] = []

    def take(self, length: int, position: int) -> tuple[memoryview, NDArray[np.uint8]]:
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
                if len(self._rooms) >= self.most:
                    self._rooms.pop(free[0] if free else 0)
                room = np.empty(length + _PAGE, np.uint8).data
            placed, buffer = _placed(room, position, length)
            self._rooms.append((room, weakref.ref(buffer)))
            return placed, buffer

    def clear(self) -> None:
        with self._lock:
            self._rooms.clear()


class RemoteFile:
    """A file of an fsspec file system, read by ranges, or one that is made of another. ``size`` (bytes) and
    ``identity`` (an object's ETag) are those at opening.

    Where a range is a request to an object store, a small one is requested with what is near, and that is kept."""

    def __init__(self, path: str, handle: Any, size: int, file_system: Any, identity: int | str | None = None) -> None:
        self.path = path
        self.size = size
        self.modified: int | None = None
        self.identity = identity
        self._handle = handle
        self._file_system = file_system  # an archive's one closes the archive when nobody needs it any more
        self._request = _ranges_of(handle, file_system)
        self._read_into = getattr(handle, "read_into", None)
        self._lock = threading.Lock()
        self._memory = _Memory()
        self._near: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self._read_until = 0
        self._findings: list[Finding] = []

    @property
    def is_local(self) -> bool:
        return False

    @property
    def is_far(self) -> bool:
        """Whether several ranges are requested at a time: of an object store, each takes time, however small it is."""
        return self._request is not None or getattr(self._handle, "is_far", False)

    @property
    def has_parts(self) -> bool:
        """Whether it is made of another file, which takes a processor's time, in any thread."""
        return self._read_into is not None

    @property
    def block(self) -> int:
        """Bytes of the parts of which each is read as a whole, and begins at a multiple; 1 where there are none."""
        return 1 if self._read_into is None else self._handle.chunk_size

    def read(self, position: int, length: int) -> NDArray[np.uint8]:
        """Return at most ``length`` bytes from ``position`` on, read-only; shorter at the end of the file, also where
        that is now.

        Raises :class:`UnreadableError` where the storage fails.
        """
        _check_range(self.path, position, length)
        length = min(length, self.size - position)
        if length <= 0:
            return _array(b"")
        self.count_as_read(position + length)
        with unreadable(self.path, Exception):
            if self._request is None:
                return self._read(position, length)
            near = self._near_to(position, length)
            if near is None and length > _SMALL:
                return self._read(position, length)
            if near is None:
                start = max(0, position - _BEFORE)
                near = start, self._request(start, min(self.size, start + _NEAR))
                self._near.append(near)
            start, data = near
            return _array(data)[position - start : position - start + length]

    def read_with_headroom(self, position: int, length: int, headroom: int) -> tuple[memoryview, NDArray[np.uint8]]:
        """Read as a local file does; :meth:`take_findings` has what is found meanwhile once :meth:`count_as_read` is
        called.

        Raises :class:`UnreadableError` where the storage fails.
        """
        _check_range(self.path, position, length)
        length = max(0, min(length, self.size - position))
        room, array = self._memory.take(headroom + length, position - headroom)
        with unreadable(self.path, Exception):
            if self._read_into is not None:
                done = self._read_into(position, room[headroom:])
            else:
                read = self._read(position, length)
                done = len(read)
                room[headroom : headroom + done] = read.data
        return room, array[: headroom + done]

    def expect_windows(self, count: int) -> None:
        """Keep memory for windows, as a local file does."""
        self._memory.most = max(self._memory.most, count)

    def kept_after(self, position: int) -> int:
        """Return how many bytes from a position on can be read without a request."""
        if self._read_into is not None:
            return self._handle.kept_after(position)
        near = self._near_to(position, 1)
        return 0 if near is None else near[0] + len(near[1]) - position

    def _near_to(self, position: int, length: int) -> tuple[int, bytes] | None:
        """A range that was requested before, with these bytes in it."""
        for start, data in reversed(tuple(self._near)):  # other threads add to it
            if start <= position and position + length <= start + len(data):
                return start, data
        return None

    def count_as_read(self, end: int) -> None:
        """All up to a position (bytes) is of interest, and so is what is found of it."""
        self._read_until = max(self._read_until, end)

    def _read(self, position: int, length: int) -> NDArray[np.uint8]:
        if self._read_into is not None:
            room, array = self._memory.take(length, position)
            return array[: self._read_into(position, room)]
        if self._request is not None:
            return _array(self._request(position, position + length))
        with self._lock:
            self._handle.seek(position)
            parts: list[bytes] = []
            while length > 0 and (part := self._handle.read(length)):
                parts.append(part)
                length -= len(part)
        return _array(parts[0] if len(parts) == 1 else b"".join(parts))

    def size_now(self) -> int:
        """Return what it was at opening: to ask again is a round trip, and a read that is short says as much."""
        return self.size

    def next_data(self, position: int) -> int:
        """Return ``position``, at most the size: of holes, nothing is known here."""
        return min(position, self.size)

    def data_end(self) -> int:
        return self.size

    def take_findings(self) -> list[Finding]:
        """Return what of the bytes read since the last call is not what was stored, and was read as zeros."""
        found = self._findings + getattr(self._handle, "take_findings", list[Finding])()
        self._findings = [each for each in found if (each.position or 0) >= self._read_until]
        return [each for each in found if (each.position or 0) < self._read_until]

    def close(self) -> None:
        with suppress(Exception):
            self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


File = LocalFile | RemoteFile


def _ranges_of(handle: Any, file_system: Any) -> Callable[[int, int], bytes] | None:
    """Return what requests a range of an object by its start and end (bytes), in any thread; None where one handle is
    read by one thread. File systems that fsspec calls asynchronous run all requests in a thread of their own."""
    return getattr(handle, "_fetch_range", None) if getattr(file_system, "async_impl", False) else None


def _array(read: bytes) -> NDArray[np.uint8]:
    import numpy as np

    return np.frombuffer(read, np.uint8)


def _placed(room: memoryview, position: int, length: int) -> tuple[memoryview, NDArray[np.uint8]]:
    """Return so much of ``room``, also as a read-only array, that begins in its page where ``position`` does in a
    file's."""
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
    """Turns what a storage raises into one error that says which path it was: :class:`UnreadableError`, or
    :class:`OutOfFilesError` where that says nothing about the file."""
    try:
        yield
    except (UnreadableError, OutOfFilesError):
        raise
    except errors as error:
        raise unreadable_error(path, error) from error


def unreadable_error(path: str, error: Exception) -> UnreadableError | OutOfFilesError:
    """Return what an error of the system, or of a library that reads a URL, means for a path that was to be read."""
    if (reason := out_of_files(error)) is not None:
        return OutOfFilesError(path, reason)
    if isinstance(error, PermissionError):
        return UnreadableError(path, _without_permission(path, error), Kind.PERMISSION_DENIED)
    return UnreadableError(path, _reason(error, path))


def limit_exceeded(path: str, text: str, size: int, limit: int, position: int | None = None) -> Finding:
    """Return the finding about what is larger than the limit (bytes) that protects memory, and was not read."""
    return Kind.LIMIT_EXCEEDED.at(
        path, text, position=position, expected=f"at most {limit} bytes", found=f"{size} bytes"
    )


def _without_permission(path: str, error: PermissionError) -> str:
    """Return who may read a file or directory: whoever it belongs to, if this user may at least see that."""
    if "://" in path:
        return f"no permission: {_first_line(error)}; use credentials that may read this"
    with suppress(OSError):
        owner = Path(path).stat().st_uid
        if owner != os.geteuid():
            return f"no permission for {user_name(os.geteuid())}; run this as the broker's user, {user_name(owner)}"
    return "no permission; run this as the broker's user"


def user_name(user: int) -> str:
    """Return a user's name and ID, as far as this machine knows them."""
    import pwd

    try:
        return f"{pwd.getpwuid(user).pw_name} (user ID {user})"
    except KeyError:
        return f"user ID {user}"


def out_of_files(error: BaseException | None) -> str | None:
    """Return why no file could be opened where as many are open as may be, here or in the library that was called; None
    for any other error."""
    for _ in range(_MOST_CAUSES):
        if isinstance(error, OSError) and error.errno in _OUT_OF_FILES:
            return _OUT_OF_FILES[error.errno]
        error = None if error is None else error.__cause__ or error.__context__
    return None


def _reason(error: Exception, path: str) -> str:
    match error:
        case FileNotFoundError():
            return "there is no such file or directory"
        case IsADirectoryError():
            if path.startswith(("tar://", "zip://")) and "::" not in path:
                protocol = path.partition("://")[0]
                return f"no archive is named; its file follows ::, as in {protocol}://orders-0::backup.{protocol}"
            return "this is a directory; give a file in it"
        case NotADirectoryError():
            return "this is not a directory"
        case OSError(strerror=str() as text) if text:
            return text
        case _:
            return _first_line(error)


def _first_line(error: Exception) -> str:
    """Return the first line of an error: others have every place where a library was searched, for example."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
