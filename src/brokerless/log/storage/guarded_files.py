"""Opens, creates and removes files in directories of others: no link is followed, and the owner stays the owner.

What lies in a directory may be from anybody, and a link under one of our names would lead a write, or a removal, out of
it. So a name is opened relative to a descriptor of its directory, with ``O_NOFOLLOW``, and a new file with ``O_EXCL``.
Only the path that the user gives may have links in it. Local paths only.

A log directory is its broker's, which runs as a user of its own. A new file or directory gets the owner, the group and
the mode of the directory that it is in (:func:`_move_in`), whoever writes it and whatever its umask; a file that
replaces another one gets those of that one. Where the system refuses that, nothing is written.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from brokerless.errors import UnreadableError, UnwritableError
from brokerless.log import names
from brokerless.log.storage.files import unreadable_error, user_name
from brokerless.log.storage.location import Location

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""A pipe under one of our names would keep a blocking open waiting for ever."""
_LINK = "this is a symbolic link, and links are not followed here; remove it, or move what it leads to here"
_OTHER = "this is not a regular file; move it away"


_is_together: ContextVar[bool] = ContextVar("_is_together", default=False)


def sync(descriptor: int) -> None:
    """Makes durable what was written to a file, or renamed in a directory; within :func:`synced_together` its end
    does. Raises OSError."""
    if not _is_together.get():
        os.fsync(descriptor)


def sync_path(path: str | Path, flags: int = 0) -> None:
    """Sync a file or directory by its path. ``flags``: those of ``os.open`` beside reading."""
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def synced_together(root: str | Path) -> Generator[None]:
    """Makes durable, at its end and at once, what this thread writes on the file system of ``root`` meanwhile: for many
    new files that nobody sees before, each of which would wait for the disk. Raises OSError."""
    token = _is_together.set(True)
    try:
        yield
    finally:
        _is_together.reset(token)
    sync_all(root)


def sync_all(root: str | Path) -> None:
    """Makes durable what was written on the file system of a directory. Raises OSError."""
    descriptor = os.open(root, _DIRECTORY)
    try:
        sync_file_system(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(descriptor: int) -> None:
    """Writes out a whole file system, where the system can (syncfs of Linux, which reports errors), else all of them.
    Raises OSError."""
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
    elif syncfs(descriptor) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def make_directory(path: str | Path) -> None:
    """Makes a directory, and those above it that are not there, durably: without its name in the directory above, what
    is in it would be lost with it. Raises OSError."""
    own = Path(path)
    lacking = [each for each in (own, *own.parents) if not os.path.lexists(each)]
    for each in reversed(lacking):
        with open_directory(each.parent) as above, suppress(FileExistsError):
            # The user's umask decides about who may read it: nobody says that the directory above is a broker's.
            _make_in(above, each, with_mode=False)
            sync(above)
    own.mkdir(exist_ok=True)


def make_inner_directory(path: str | Path) -> None:
    """Makes a directory in one that is there, with the same owner, group and mode. Raises OSError, and
    :class:`UnwritableError` where the owner cannot be the same."""
    with open_directory(Path(path).parent) as above:
        _make_in(above, Path(path))


def _make_in(above: int, path: Path, *, with_mode: bool = True) -> None:
    try:
        os.mkdir(path.name, dir_fd=above)
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        descriptor = _open_inner(above, path.name, path)
        try:
            _move_in(descriptor, above, path, with_mode=with_mode)
        finally:
            os.close(descriptor)
    except BaseException:
        os.rmdir(path.name, dir_fd=above)
        raise


def _move_in(descriptor: int, directory: int, path: Path, *, with_mode: bool = True) -> None:
    """Gives a new file or directory the owner, the group and the mode of what is in its directory."""
    above = os.fstat(directory)
    if above.st_mode & stat.S_ISVTX:  # such as /tmp, which is nobody's
        return
    owner, group = above.st_uid, above.st_gid
    if owner == 0:  # a volume that was mounted for a broker: who wrote its first file?
        with suppress(OSError):
            first = os.stat(names.META_PROPERTIES, dir_fd=directory, follow_symlinks=False)
            owner, group = first.st_uid, first.st_gid
        if owner == 0 and os.geteuid() != 0:
            owner, group = -1, -1
    mode = None
    if with_mode:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        mode = above.st_mode & 0o755 | 0o700 if is_directory else above.st_mode & 0o644 | 0o600
    _give(descriptor, path, owner=owner, group=group, mode=mode)


def give_to_owner(path: str | Path) -> None:
    """Give a file or directory that a library made the owner, the group and the mode of the directory that it is in.
    Raises OSError, and :class:`UnwritableError` where the owner cannot be the same."""
    path = Path(path)
    with open_directory(path.parent) as above:
        descriptor = os.open(path.name, os.O_RDONLY | _FILE, dir_fd=above)
        try:
            _move_in(descriptor, above, path)
        finally:
            os.close(descriptor)


def give_as(descriptor: int, directory: int, path: Path) -> None:
    """Give a file that is to replace ``path`` its owner, group and mode. Raises :class:`UnwritableError` where it
    cannot have the same owner; nothing is done where there is no such file."""
    with suppress(FileNotFoundError):
        found = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode):
            mode = stat.S_IMODE(found.st_mode) & 0o777
            _give(descriptor, path, owner=found.st_uid, group=found.st_gid, mode=mode)


def _give(descriptor: int, path: Path, *, owner: int, group: int, mode: int | None) -> None:
    """Change the owner, group and mode of a file. ``owner`` and ``group``: -1 for those that it has."""
    found = os.fstat(descriptor)
    if owner not in (-1, found.st_uid) or group not in (-1, found.st_gid):
        try:
            os.fchown(descriptor, owner, group)
        except PermissionError as error:
            if owner != found.st_uid:  # a group alone is no reason: the owner can open it
                raise UnwritableError(f"{path}: {_foreign(owner)}") from error
    if mode is not None and stat.S_IMODE(found.st_mode) & 0o777 != mode:
        os.fchmod(descriptor, mode | found.st_mode & stat.S_ISGID)


def _foreign(owner: int) -> str:
    """Return why a file cannot be written for another user."""
    text = f"files here are those of {user_name(owner)}, who could not open what {user_name(os.geteuid())} writes"
    return f"{text}; run this as that user, or as root. Nothing was written"


@contextmanager
def open_directory(root: str | Path, *inner: str, make: bool = False) -> Generator[int]:
    """Yield the descriptor of a directory: of ``root``, or of ``inner``, names that lead on from there, none of them a
    link. With ``make``, directories that are not there are made.

    Raises :class:`UnwritableError` for a link, or what is no directory; OSError.
    """
    path = Path(root)
    descriptor = os.open(path, _DIRECTORY)
    try:
        for name in inner:
            path /= name
            if make:
                with suppress(FileExistsError):
                    _make_in(descriptor, path)
                    sync(descriptor)
            following = _open_inner(descriptor, name, path)
            os.close(descriptor)
            descriptor = following
        yield descriptor
    finally:
        os.close(descriptor)


def _open_inner(directory: int, name: str, path: Path) -> int:
    try:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(directory, name):
            raise UnwritableError(f"{path}: {_LINK}") from error
        if error.errno == errno.ENOTDIR:
            raise UnwritableError(f"{path}: this is not a directory; move it away") from error
        error.filename = str(path)
        raise


def open_own(path: str | Path, flags: int) -> int:
    """Opens a regular file for what ``flags`` say (as :func:`os.open`), or makes it with ``O_CREAT``.

    Raises :class:`UnwritableError` for a link, or what is no regular file; OSError.
    """
    path = Path(path)
    with open_directory(path.parent) as directory:
        return _open_regular(directory, path, flags)


def _open_regular(directory: int, path: Path, flags: int) -> int:
    if flags & os.O_CREAT:
        with suppress(FileExistsError):
            return _create(directory, path, flags)
        if flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    try:
        descriptor = os.open(path.name, flags | _FILE, 0o644, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP or _is_link(directory, path.name):
            raise UnwritableError(f"{path}: {_LINK}") from error
        if error.errno in (errno.ENXIO, errno.EISDIR):
            raise UnwritableError(f"{path}: {_OTHER}") from error
        error.filename = str(path)
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnwritableError(f"{path}: {_OTHER}")
    return descriptor


def _create(directory: int, path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path.name, flags | os.O_EXCL | _FILE, 0o644, dir_fd=directory)
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        _move_in(descriptor, directory, path)
    except BaseException:
        os.close(descriptor)
        os.unlink(path.name, dir_fd=directory)
        raise
    return descriptor


def create(directory: int, path: Path) -> int:
    """Opens a new file, which is ``path`` in ``directory``, for writing, in place of a regular file of that name: what
    else is known by another name, too, stays unchanged. Raises as :func:`open_own`."""
    with suppress(FileNotFoundError):
        mode = os.stat(path.name, dir_fd=directory, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode):
            raise UnwritableError(f"{path}: {_LINK if stat.S_ISLNK(mode) else _OTHER}")
        os.unlink(path.name, dir_fd=directory)
    return _open_regular(directory, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def read_own(location: Location, limit: int) -> bytes:
    """Return the content of one of our own files, or of one at a URL, of at most ``limit`` bytes.

    Raises :class:`UnreadableError` for one that is larger, not there or a link.
    """
    if location.is_remote:
        return location.read(limit)
    try:
        descriptor = open_own(location.local, os.O_RDONLY)
    except UnwritableError as error:
        raise UnreadableError("", str(error)) from error
    except (OSError, ValueError) as error:
        raise unreadable_error(location.path, error) from error
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size <= limit:
            return file.read(limit)
    raise UnreadableError(
        location.path, f"{size} bytes are more than the {limit} that such a file may have; move it away"
    )


def remove_tree(directory: int, name: str) -> None:
    """Removes a directory in ``directory`` and all in it, as far as that is possible; links are removed, not followed.
    Nothing happens to what is no directory."""
    shutil.rmtree(name, ignore_errors=True, dir_fd=directory)


def is_own_directory(path: str | Path) -> bool:
    """Return whether there is a directory, which is no link."""
    with suppress(OSError):
        return stat.S_ISDIR(os.lstat(path).st_mode)
    return False


def refuse_links(partition: Path) -> None:
    """Looks at a partition's directory before it is written to: neither it nor a file of Kafka's in it may be a link,
    or anything else that is no regular file. Raises :class:`UnwritableError`, and OSError."""
    with open_directory(partition.parent, partition.name) as directory, os.scandir(directory) as entries:
        for entry in entries:
            if names.is_file_of_partition(entry.name) and not entry.is_file(follow_symlinks=False):
                text = _LINK if entry.is_symlink() else _OTHER
                raise UnwritableError(f"{partition / entry.name}: {text}")


def _is_link(directory: int, name: str) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    return False
