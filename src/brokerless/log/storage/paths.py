"""Paths and URLs: opens, lists and joins them, locally or through fsspec.

A path is a ``str`` everywhere: a local path (also as ``file:///...``), or anything that fsspec knows (``s3://...``,
``memory://...``, ``zip://member::s3://...``). fsspec is imported only when a path needs it. ``storage_options`` are
handed to fsspec's file system. What keeps a path from being read is an :class:`UnreadableError` that names the path.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerless.errors import UnreadableError
from brokerless.log.storage.files import File, LocalFile, RemoteFile, unreadable

StorageOptions = Mapping[str, Any]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)")
_FILE_URL = re.compile(r"file:(//)?(?=/)")
_LIST_TRIES = 20
"""How often a directory is listed again, each time because a file went meanwhile."""


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One file or directory in a directory. ``path`` is the directory's path as it was given, joined with ``name``;
    ``size`` in bytes (None for directories and what cannot be asked), ``modified`` in ms since the epoch, if known.
    ``identity``: the inode number of a local file, the ETag of an object, where there is one."""

    name: str
    path: str
    is_directory: bool
    size: int | None = None
    modified: int | None = None
    identity: int | str | None = None


def open_file(path: str, storage_options: StorageOptions | None = None) -> File:
    """Opens a file for reading; the caller closes it.

    Raises :class:`UnreadableError` for what is missing, not permitted, no regular file, or of an unknown protocol.
    """
    if is_remote(path):
        with unreadable(path, Exception):
            fs, inner = file_system(path, storage_options)
            handle, info = _open_remote(fs, inner)
            try:
                if info["type"] == "directory":
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                if info["size"] is None:
                    raise OSError("the storage does not say how large the file is")
            except BaseException:
                handle.close()
                raise
            return RemoteFile(path, handle, int(info["size"]), fs, info.get("ETag"))
    with unreadable(path, OSError, ValueError):
        # A pipe without a writer would keep a blocking open waiting for ever.
        descriptor = os.open(local(path), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not stat.S_ISREG(mode):
                raise OSError("it is not a regular file")
            return LocalFile(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise


def _open_remote(fs: Any, inner: Any) -> tuple[Any, Any]:
    """A handle, and what the storage says of the file. Object stores are asked for that when it is opened, and once is
    enough: each request takes tens of milliseconds."""
    try:
        handle = fs.open(inner, "rb", cache_type="none")
    except Exception:
        if fs.info(inner)["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) from None
        raise
    return handle, getattr(handle, "details", None) or fs.info(inner)


def read_bytes(path: str, limit: int, storage_options: StorageOptions | None = None) -> bytes:
    """A whole file, copied, for the small companions of a log (a broker may shrink them at any time).

    Raises :class:`UnreadableError` as :func:`open_file` does, and for a file of more than ``limit`` bytes.
    """
    with open_file(path, storage_options) as file:
        if file.size > limit:
            raise UnreadableError(path, f"{file.size} bytes are more than the {limit} that such a file may have")
        return file.read(0, file.size).tobytes()


def list_directory(path: str, storage_options: StorageOptions | None = None) -> list[DirectoryEntry]:
    """What is in a directory, sorted by name. Raises :class:`UnreadableError` for what is no readable directory."""
    if not is_remote(path):
        with unreadable(path, OSError, ValueError):
            return sorted(_local_entries(path), key=lambda entry: entry.name)
    with unreadable(path, Exception):
        fs, inner = file_system(path, storage_options)
        fs.invalidate_cache(inner)
        entries: list[DirectoryEntry] = []
        for info in fs.ls(inner, detail=True):
            name = str(info["name"]).rstrip("/").rpartition("/")[2]
            if str(info["name"]).strip("/") == str(inner).strip("/"):
                if info["type"] == "file" and fs.isfile(inner):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
                continue  # object stores list the marker of the "directory" itself
            directory = info["type"] == "directory"
            size = None if directory else info["size"]
            entries.append(DirectoryEntry(name, join(path, name), directory, size, identity=info.get("ETag")))
        return sorted(entries, key=lambda entry: entry.name)


def find_entry(directory: str, name: str) -> DirectoryEntry | None:
    """One file of a directory of this machine, as :func:`list_directory` has it; None where it is not there."""
    return _local_entry(directory, Path(local(join(directory, name))))


def is_directory(path: str, storage_options: StorageOptions | None = None) -> bool:
    """Whether there is a directory; False as well where there is nothing or nothing that may be asked."""
    if not is_remote(path):
        with suppress(OSError, ValueError):
            return stat.S_ISDIR(os.stat(local(path)).st_mode)  # noqa: PTH116 - paths are strings here
        return False
    with unreadable(path, Exception):
        fs, inner = file_system(path, storage_options)
        fs.invalidate_cache(inner)
        return bool(fs.isdir(inner))


def exists(path: str, storage_options: StorageOptions | None = None) -> bool:
    """Whether there is a file or directory."""
    if not is_remote(path):
        with suppress(OSError, ValueError):
            os.stat(local(path))  # noqa: PTH116 - paths are strings here
            return True
        return False
    with unreadable(path, Exception):
        fs, inner = file_system(path, storage_options)
        fs.invalidate_cache(inner)
        return bool(fs.exists(inner))


def expand(path: str, storage_options: StorageOptions | None = None) -> list[str]:
    """The paths that a pattern (``*``, ``?``, ``[...]``) matches, sorted; a path without one is itself, there or not.

    Raises :class:`UnreadableError` if a pattern matches nothing.
    """
    if not glob.has_magic(path) or (not is_remote(path) and exists(path)):
        return [path]
    if is_remote(path):
        with unreadable(path, Exception):
            fs, inner = file_system(path, storage_options)
            first, *rest = path.split("::")
            protocol = first.partition("://")[0]
            matches = sorted("::".join([f"{protocol}://{str(each).lstrip('/')}", *rest]) for each in fs.glob(inner))
    else:
        matches = sorted(glob.glob(local(path)))  # noqa: PTH207 - paths are strings here
    if not matches:
        raise UnreadableError(path, "no path matches this pattern")
    return matches


def join(path: str, name: str) -> str:
    """A name in a directory, as a path; in a chained URL the path inside comes first and gets the name."""
    if not is_remote(path):
        return os.path.join(path, name)  # noqa: PTH118 - a Path would drop what the user gave ("./")
    parts = path.split("::")
    at = next((index for index, part in enumerate(parts) if "://" in part), 0)
    parts[at] += name if parts[at].endswith("/") else "/" + name
    return "::".join(parts)


def directory_name(path: str) -> str:
    """The name of the directory that a path leads to: ``.`` and ``..`` and trailing slashes are resolved."""
    if is_remote(path):
        part = next((part for part in path.split("::") if "://" in part), path)
        return part.rstrip("/").rpartition("/")[2]
    return os.path.basename(os.path.abspath(local(path)))  # noqa: PTH100, PTH119 - links keep their own name


def parent_directory(path: str) -> str | None:
    """The directory that a path is in; None for what is a whole archive, or a bucket."""
    if is_remote(path):
        parts = path.split("::")
        at = next((index for index, part in enumerate(parts) if "://" in part), 0)
        parts[at] = parts[at].rstrip("/").rpartition("/")[0]
        return None if parts[at].endswith((":/", "/")) or "://" not in parts[at] else "::".join(parts)
    return os.path.dirname(os.path.abspath(local(path)))  # noqa: PTH100, PTH120 - links keep their own name


def containing_directory(path: str) -> str | None:
    """The directory that a directory is in, links followed; None for a whole archive, or a bucket."""
    return parent_directory(path if is_remote(path) else str(Path(local(path)).resolve()))


def is_local_within(path: str, directory: str) -> bool:
    """Whether a path of this machine is a directory or in it, links followed; False for a URL, or what is no path."""
    with suppress(OSError, ValueError, RuntimeError):
        if not is_remote(path) and not is_remote(directory):
            inner, outer = Path(local(path)).resolve(), Path(local(directory)).resolve()
            return inner == outer or outer in inner.parents
    return False


def is_remote(path: str) -> bool:
    """Whether fsspec reads this path: a URL, but not of this machine's files."""
    return _URL.match(path) is not None and (_FILE_URL.match(path) is None or "::" in path)


def local(path: str) -> str:
    """A path of this machine as its system knows it: without ``file:``."""
    return _FILE_URL.sub("", path, count=1)


def full_path(path: str) -> str:
    """A path that is right wherever it is read."""
    return path if is_remote(path) else os.path.abspath(local(path))  # noqa: PTH100 - links keep their own name


def _local_entries(directory: str) -> list[DirectoryEntry]:
    """Listed again where a file went, or got another name, between its listing and the question for its size."""
    entries: list[DirectoryEntry | None] = []
    for _ in range(_LIST_TRIES):
        with os.scandir(local(directory)) as found:
            entries = [_local_entry(directory, each) for each in found]
        if None not in entries:
            break
    return [each for each in entries if each is not None]


def _local_entry(directory: str, each: os.DirEntry[str] | Path) -> DirectoryEntry | None:
    """None for what is not there any more. A link that leads nowhere has no size."""
    path = join(directory, each.name)
    try:
        status = each.stat()
    except FileNotFoundError:
        return DirectoryEntry(each.name, path, is_directory=False) if each.is_symlink() else None
    except OSError:
        return DirectoryEntry(each.name, path, is_directory=False)
    is_a_directory = stat.S_ISDIR(status.st_mode)
    size = None if is_a_directory else status.st_size
    return DirectoryEntry(each.name, path, is_a_directory, size, status.st_mtime_ns // 1_000_000, status.st_ino)


def file_system(path: str, storage_options: StorageOptions | None) -> tuple[Any, Any]:
    """fsspec's file system of a URL, and how that calls the path."""
    import fsspec.core  # pyright: ignore[reportMissingTypeStubs]

    core: Any = fsspec.core
    return core.url_to_fs(path, **(storage_options or {}))
