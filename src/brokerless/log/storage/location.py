"""Opens, lists and joins paths and URLs, locally or through fsspec.

A :class:`Location` is a path with what opens it. Whoever lists one gets entries that have locations of their own, so
that the options of a storage are given once, where a path comes in. They may be secrets: they are in no text of a
location, and ``json`` and :func:`dataclasses.asdict` cannot take it apart.

fsspec is imported only when a path needs it. What keeps a path from being read is an :class:`UnreadableError` that
names the path.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NoReturn

from brokerless.errors import UnreadableError, UsageError, install_command
from brokerless.log.storage import paths
from brokerless.log.storage.files import File, LocalFile, RemoteFile, unreadable
from brokerless.log.storage.paths import StorageOptions
from brokerless.log.storage.side_by_side import REQUESTS

_LIST_TRIES = 20
"""How often a directory is listed again, each time because a file went meanwhile."""
_TIERED = "brokerless.log.tiered.file_system.TieredFileSystem"
STDIN = "-"
"""The path of what :func:`spool` has taken in; a file of this name is ``./-``."""
_spooled: IO[bytes] | None = None


def spool(stream: IO[bytes]) -> None:
    """Make a stream the file that :data:`STDIN` opens in this process: itself if it can be read by position, else a
    copy in the directory for temporary files, which goes when the process ends. A second call changes nothing."""
    global _spooled
    if _spooled is not None:
        return
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        _spooled = stream
        return
    with unreadable(STDIN, OSError):
        copy = tempfile.TemporaryFile()  # noqa: SIM115 - it is open as long as the process
        shutil.copyfileobj(stream, copy, 1 << 20)
        copy.flush()
        _spooled = copy


class Location:
    """A local path (also as ``file:///...``) or anything that fsspec knows (``s3://...``, ``memory://...``,
    ``zip://member::s3://...``), with the options of its storage.

    It does not change, can be pickled, and equals another one of the same path and options. As text it is the path;
    a key or password in a URL becomes one of the options.
    """

    # No dataclass: asdict would put the options into what it makes.
    __slots__ = ("options", "path")

    path: str
    options: StorageOptions | None

    def __init__(self, path: str, options: StorageOptions | None = None) -> None:
        if options is not None and not isinstance(options, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                f"storage_options: a value of type {type(options).__name__} is not a dict of fsspec's options"
            )
        path, own = paths.without_credentials(path)
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "options", {**own, **(options or {})} or None)

    @classmethod
    def of(cls, path: str | os.PathLike[str] | Location, options: StorageOptions | None = None) -> Location:
        """Return the location of a path as a user names it; one that is a location already has its options. Raises
        :class:`UsageError` for an empty path, and for what is no path."""
        if isinstance(path, Location):
            return path
        if not isinstance(path, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] - of a caller
            raise UsageError(f"{path!r} is no path; give texts or paths")
        return cls(paths.named(os.fspath(path)), options)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a location cannot be changed: {name}")

    def __reduce__(self) -> tuple[type[Location], tuple[str, StorageOptions | None]]:
        return Location, (self.path, self.options)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Location):
            return NotImplemented
        return self.path == other.path and self.options == other.options

    def __hash__(self) -> int:
        return hash(self.path)

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"Location({self.path!r})"

    def __truediv__(self, name: str) -> Location:
        """The location of a name in a directory."""
        return Location(paths.join(self.path, name), self.options)

    def at(self, path: str) -> Location:
        """Return another path in the same storage."""
        return Location(path, self.options)

    @property
    def name(self) -> str:
        """The name of the file or directory; see :func:`paths.directory_name`."""
        return paths.directory_name(self.path)

    @property
    def parent(self) -> Location | None:
        """The directory that it is in; None for what is a whole archive, or a bucket."""
        above = paths.parent_directory(self.path)
        return None if above is None else self.at(above)

    @property
    def containing(self) -> Location | None:
        """The directory that a directory is in, links followed; None for a whole archive, or a bucket."""
        above = paths.containing_directory(self.path)
        return None if above is None else self.at(above)

    @property
    def is_remote(self) -> bool:
        """Whether fsspec reads it: a URL, but not of this machine's files."""
        return paths.is_remote(self.path)

    @property
    def local(self) -> Path:
        """The path of one that is not remote."""
        return Path(paths.local(self.path))

    @property
    def nearest(self) -> str:
        """``; did you mean orders-2?`` of a local path that is not there, to be written after a message."""
        from difflib import get_close_matches  # which no right path needs

        above = None if self.is_remote else self.local.parent
        with suppress(OSError):
            known = [] if above is None else [each.name for each in above.iterdir()]
            if above is not None and (near := get_close_matches(self.name, known, 1)):
                return f"; did you mean {os.fspath(above / near[0])}?"
        return ""

    def open(self) -> File:
        """Opens a file for reading; the caller closes it.

        Raises :class:`UnreadableError` for what is missing, not permitted, no regular file, or of an unknown protocol.
        """
        if self.is_remote:
            with unreadable(self.path, Exception):
                fs, inner = self.file_system()
                if self.path.startswith(paths.TIERED):
                    return fs.open_file(inner, self.path)
                handle, info = _open_remote(fs, inner)
                try:
                    if info["type"] == "directory":
                        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                    if info["size"] is None:
                        raise OSError("the storage does not say how large the file is")
                except BaseException:
                    handle.close()
                    raise
                return RemoteFile(self.path, handle, int(info["size"]), file_system=fs, identity=info.get("ETag"))
        if self.path == STDIN and _spooled is not None:
            return LocalFile(self.path, os.dup(_spooled.fileno()))
        with unreadable(self.path, OSError, ValueError):
            # A pipe without a writer would keep a blocking open waiting for ever.
            flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            descriptor = os.open(paths.local(self.path), flags)
            try:
                mode = os.fstat(descriptor).st_mode
                if stat.S_ISDIR(mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                if not stat.S_ISREG(mode):
                    raise OSError("it is not a regular file")
                return LocalFile(self.path, descriptor)
            except BaseException:
                os.close(descriptor)
                raise

    def read(self, limit: int) -> bytes:
        """Return a whole file, copied, for the small companions of a log (a broker may shrink them at any time).

        Raises :class:`UnreadableError` as :meth:`open` does, and for a file of more than ``limit`` bytes.
        """
        with self.open() as file:
            if file.size > limit:
                text = f"{file.size} bytes are more than the {limit} that such a file may have"
                raise UnreadableError(self.path, text)
            return file.read(0, file.size).tobytes()

    def entries(self) -> list[DirectoryEntry]:
        """Return what is in a directory, sorted by name. Raises :class:`UnreadableError` for what is no readable
        directory."""
        if not self.is_remote:
            with unreadable(self.path, OSError, ValueError):
                return sorted(_local_entries(self), key=lambda entry: entry.name)
        with unreadable(self.path, Exception):
            fs, inner = self.file_system()
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
                entries.append(
                    DirectoryEntry(name, self / name, directory, size, identity=info.get("ETag"), stored=_stored(info))
                )
            return sorted(entries, key=lambda entry: entry.name)

    def find_entries(self) -> list[DirectoryEntry]:
        """Return what is in a directory, as :meth:`entries` does; nothing where there is no directory."""
        return self.entries() if self.is_directory() else []

    def find_entry(self, name: str) -> DirectoryEntry | None:
        """Return one file of a directory of this machine, as :meth:`entries` has it; None where it is not there."""
        return _local_entry(self, Path(paths.local(paths.join(self.path, name))))

    def is_directory(self) -> bool:
        """Return whether there is a directory; False as well where there is nothing or nothing that may be asked."""
        if not self.is_remote:
            with suppress(OSError, ValueError):
                return stat.S_ISDIR(os.stat(paths.local(self.path)).st_mode)  # noqa: PTH116 - paths are strings here
            return False
        with unreadable(self.path, Exception):
            fs, inner = self.file_system()
            fs.invalidate_cache(inner)
            return bool(fs.isdir(inner))

    def exists(self) -> bool:
        """Return whether there is a file or directory."""
        if self.path == STDIN and _spooled is not None:
            return True
        if not self.is_remote:
            with suppress(OSError, ValueError):
                os.stat(paths.local(self.path))  # noqa: PTH116 - paths are strings here
                return True
            return False
        with unreadable(self.path, Exception):
            fs, inner = self.file_system()
            fs.invalidate_cache(inner)
            return bool(fs.exists(inner))

    def expand(self) -> list[Location]:
        """Return what a pattern (``*``, ``?``, ``[...]``) matches, sorted; a path without one is itself, there or not.

        Raises :class:`UnreadableError` if a pattern matches nothing.
        """
        path = self.path
        if not glob.has_magic(path) or (not self.is_remote and self.exists()):
            return [self]
        if self.is_remote:
            with unreadable(path, Exception):
                fs, inner = self.file_system()
                first, *rest = path.split("::")
                protocol = first.partition("://")[0]
                matches = sorted("::".join([f"{protocol}://{str(each).lstrip('/')}", *rest]) for each in fs.glob(inner))
        else:
            matches = sorted(glob.glob(paths.local(path)))  # noqa: PTH207 - paths are strings here
        if not matches:
            raise UnreadableError(path, "no path matches this pattern")
        return [self.at(each) for each in matches]

    def file_system(self) -> tuple[Any, Any]:
        """Return fsspec's file system of a URL, and how that calls the path."""
        import fsspec.core  # pyright: ignore[reportMissingTypeStubs]

        core: Any = fsspec.core
        options = dict(self.options or {})
        if self.path.startswith(paths.TIERED):
            fsspec.register_implementation("tiered", _TIERED, clobber=True)
        else:
            options.pop("tiered", None)
            if self.path.startswith(("s3://", "s3a://")):  # botocore has 10 connections otherwise
                own = {"max_pool_connections": REQUESTS, **(options.get("config_kwargs") or {})}
                options["config_kwargs"] = own
        try:
            return core.url_to_fs(self.path, **options)
        except ImportError as error:
            if self.path.startswith(("s3://", "s3a://")):
                raise ImportError(f"S3 needs s3fs: {install_command('s3')}") from error
            raise


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One file or directory in a directory."""

    name: str
    location: Location
    """The directory's location, joined with ``name``."""
    is_directory: bool
    size: int | None = None
    """In bytes; None for directories, and where the size cannot be found out."""
    modified: int | None = None
    """In ms since the epoch, if known."""
    identity: int | str | None = None
    """The inode number of a local file, the ETag of an object; None where there is neither."""
    stored: int | None = field(default=None, compare=False)
    """When an object was written (ms since the epoch), if known."""

    @property
    def written(self) -> int | None:
        """When a file or object was written (ms since the epoch), if known."""
        return self.stored if self.modified is None else self.modified

    @property
    def path(self) -> str:
        return self.location.path

    def read(self, position: int, length: int) -> bytes:
        """Return a part of a file. An object is read by one request. Raises :class:`UnreadableError`."""
        if not self.location.is_remote:
            with self.location.open() as file:
                return file.read(position, length).tobytes()
        with unreadable(self.path, Exception):
            fs, inner = self.location.file_system()
            return bytes(fs.cat_file(inner, start=position, end=position + length))


def _stored(info: Mapping[str, Any]) -> int | None:
    """When an object was written (ms since the epoch), by what fsspec's file systems call that."""
    found = (info.get(each) for each in ("LastModified", "last_modified", "mtime", "updated", "created"))
    at = next((each for each in found if each is not None), None)
    if isinstance(at, datetime):
        return int(at.timestamp() * 1000)
    return int(at * 1000) if isinstance(at, int | float) else None


def _open_remote(fs: Any, inner: Any) -> tuple[Any, Any]:
    """A handle, and what the storage says of the file. Object stores are queried for that when it is opened, and once
    is enough: each request takes tens of milliseconds."""
    try:
        handle = fs.open(inner, "rb", cache_type="none")
    except Exception:
        if fs.info(inner)["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) from None
        raise
    return handle, getattr(handle, "details", None) or fs.info(inner)


def _local_entries(directory: Location) -> list[DirectoryEntry]:
    """Listed again where a file went, or got another name, between its listing and the question for its size."""
    entries: list[DirectoryEntry | None] = []
    for _ in range(_LIST_TRIES):
        with os.scandir(paths.local(directory.path)) as found:
            entries = [_local_entry(directory, each) for each in found]
        if None not in entries:
            break
    return [each for each in entries if each is not None]


def _local_entry(directory: Location, each: os.DirEntry[str] | Path) -> DirectoryEntry | None:
    """Return the entry of a local file or directory; None where it is gone. A link that leads nowhere has no size."""
    location = directory / each.name
    try:
        status = each.stat()
    except FileNotFoundError:
        return DirectoryEntry(each.name, location, is_directory=False) if each.is_symlink() else None
    except OSError:
        return DirectoryEntry(each.name, location, is_directory=False)
    is_a_directory = stat.S_ISDIR(status.st_mode)
    size = None if is_a_directory else status.st_size
    return DirectoryEntry(
        each.name, location, is_a_directory, size=size, modified=status.st_mtime_ns // 1_000_000, identity=status.st_ino
    )
