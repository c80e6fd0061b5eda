"""Turns the errors of the operating system and of object stores into :class:`UnwritableError`."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from brokerless.errors import UnreadableError, UnwritableError
from brokerless.log.storage import paths
from brokerless.log.storage.files import user_name

RIGHTS = (errno.EACCES, errno.EPERM, errno.EROFS)
NEXT = "run this as a user who may, or name another directory"
AGAIN = {
    errno.ENOSPC: "make room on this disk, and do this again",
    errno.EDQUOT: "remove what counts for this quota, and do this again",
    errno.EIO: "see the system's log (dmesg), and do this again when the disk works",
}
"""What to do about errors that have nothing to do with the path: the same call again ends what this one began."""


@contextmanager
def unwritable(path: object) -> Generator[None]:
    """Turns an OSError into an :class:`UnwritableError` that names the path."""
    try:
        yield
    except OSError as error:
        raise refused_write(error, path) from error


def refused_write(error: OSError, path: object = None) -> UnwritableError:
    """Return the error that says what the system refused, of which path (its own, else ``path``), and what to do.
    Where this user may not write, the directory that it is about, and whose it is."""
    own = path if error.filename is None else error.filename
    text = error.strerror or str(error)
    if error.errno in AGAIN:
        text = f"{text}: {AGAIN[error.errno]}"
    named = os.fsdecode(own) if isinstance(own, bytes) else str(own)
    is_right = own is not None and error.errno in RIGHTS and not paths.is_remote(named)
    if is_right:
        text = _of_rights(error, named, text)
    text = text if own is None else f"{named}: {text}"
    return UnwritableError(text, number=error.errno, has_remedy=is_right or error.errno in AGAIN)


def _of_rights(error: OSError, named: str, text: str) -> str:
    refusing = next((each for each in (Path(named), *Path(named).parents) if os.path.lexists(each)), Path(named))
    if error.errno == errno.EROFS:
        return f"{text}: nothing can be written into {refusing}; name another directory"
    what = f"into {refusing}" if refusing.is_dir() else f"to {refusing}"
    if refusing.is_file() and not _may_write(refusing.parent):
        refusing, what = refusing.parent, f"into {refusing.parent}"
    with suppress(OSError):
        owner = refusing.stat().st_uid
        if owner != os.geteuid():
            what = f"{what}, {'a directory' if refusing.is_dir() else 'a file'} of {user_name(owner)}"
    return f"{text}: {user_name(os.geteuid())} may not write {what}; {NEXT}"


def _may_write(directory: Path) -> bool:
    own = os.access in os.supports_effective_ids
    return os.access(directory, os.W_OK | os.X_OK, effective_ids=own)


def refuse_directory(path: str | os.PathLike[str], advice: str) -> None:
    """Raise :class:`UnwritableError` for a directory where a file is to be written, and for a file in none, or in one
    where this user may not write, before there is anything to write. ``advice``: what to name."""
    if not os.fspath(path):
        raise UnwritableError(f"an empty text names no file; name {advice}")
    if Path(path).is_dir():
        raise UnwritableError(f"{os.fspath(path)}: this is a directory; name {advice}")
    if not Path(path).parent.is_dir():
        raise UnwritableError(f"{os.fspath(path)}: there is no directory {Path(path).parent}; make it, or name another")
    if not _may_write(Path(path).parent):
        is_read_only = bool(os.statvfs(Path(path).parent).f_flag & os.ST_RDONLY)
        number = errno.EROFS if is_read_only else errno.EACCES
        raise refused_write(OSError(number, os.strerror(number)), path)


@contextmanager
def storage_errors(path: str) -> Generator[None]:
    """Turns what a local or remote storage raises into an :class:`UnwritableError` that names the path."""
    try:
        yield
    except (UnwritableError, UnreadableError):
        raise
    except OSError as error:
        if paths.is_remote(path):
            raise UnwritableError(f"{path}: {_reason(error)}", number=error.errno) from error
        raise refused_write(error, path) from error
    except (ValueError, ImportError) as error:
        raise UnwritableError(f"{path}: {_reason(error)}") from error
    except Exception as error:
        if not paths.is_remote(path):
            raise
        raise UnwritableError(f"{path}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
