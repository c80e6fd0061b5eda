"""Turns the errors of the operating system and of object stores into :class:`UnwritableError`."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from brokerless.errors import UnreadableError, UnwritableError
from brokerless.log.storage import paths


@contextmanager
def unwritable(path: object) -> Generator[None]:
    """Turns an OSError into an :class:`UnwritableError` that names the path."""
    try:
        yield
    except OSError as error:
        raise UnwritableError(f"{error.filename or path}: {error.strerror or error}") from error


def refuse_directory(path: str | os.PathLike[str], advice: str) -> None:
    """Raise :class:`UnwritableError` for a directory where a file is to be written, and for a file in none, before
    there is anything to write. ``advice``: what to name."""
    if not os.fspath(path):
        raise UnwritableError(f"an empty text names no file; name {advice}")
    if Path(path).is_dir():
        raise UnwritableError(f"{os.fspath(path)}: this is a directory; name {advice}")
    if not Path(path).parent.is_dir():
        raise UnwritableError(f"{os.fspath(path)}: there is no directory {Path(path).parent}; make it, or name another")


@contextmanager
def storage_errors(path: str) -> Generator[None]:
    """Turns what a local or remote storage raises into an :class:`UnwritableError` that names the path."""
    try:
        yield
    except (UnwritableError, UnreadableError):
        raise
    except (OSError, ValueError, ImportError) as error:
        raise UnwritableError(f"{path}: {_reason(error)}") from error
    except Exception as error:
        if not paths.is_remote(path):
            raise
        raise UnwritableError(f"{path}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
