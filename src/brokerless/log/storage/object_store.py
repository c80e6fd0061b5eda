"""Writes objects through fsspec: each one appears in its store when it is complete, or never."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from brokerless.log.storage import paths
from brokerless.log.storage.paths import StorageOptions
from brokerless.log.storage.write_errors import storage_errors

BLOCK = 8 << 20
"""Bytes that are sent at once: S3 takes 10,000 of them for an object, and segments have 2 GiB at most."""


def fresh_file_system(path: str, storage_options: StorageOptions | None) -> tuple[Any, str]:
    """fsspec's file system of a URL, without cached listings, and its name for the path."""
    fs, inner = paths.file_system(path, storage_options)
    fs.invalidate_cache()
    return fs, str(inner).rstrip("/")


def put_object(path: str, data: bytes, storage_options: StorageOptions | None) -> None:
    """Makes ``data`` the whole content of an object."""
    with storage_errors(path):
        fs, inner = fresh_file_system(path, storage_options)
        fs.pipe_file(inner, data)


def remove_object(path: str, storage_options: StorageOptions | None) -> None:
    """Removes an object, which may have gone already."""
    with storage_errors(path), suppress(FileNotFoundError):
        fs, inner = fresh_file_system(path, storage_options)
        fs.rm_file(inner)


def open_object(path: str, storage_options: StorageOptions | None) -> Any:
    """A binary file whose content becomes an object by ``close()`` and ``commit()``, or is dropped by ``discard()``."""
    fs, inner = fresh_file_system(path, storage_options)
    return fs.open(inner, "wb", autocommit=False, block_size=BLOCK)


def upload(local: Path, path: str, storage_options: StorageOptions | None) -> None:
    """Copies a file of this machine to an object."""
    with storage_errors(path), local.open("rb") as file:
        sink = open_object(path, storage_options)
        try:
            shutil.copyfileobj(file, sink, BLOCK)
            sink.close()
            sink.commit()
        except BaseException:
            with suppress(Exception):
                sink.discard()
            raise


def copy_object(path: str, target: str, storage_options: StorageOptions | None) -> None:
    """Has the store copy an object."""
    with storage_errors(target):
        fs, inner = fresh_file_system(path, storage_options)
        fs.cp_file(inner, fresh_file_system(target, storage_options)[1])


def remove_objects(path: str, storage_options: StorageOptions | None) -> None:
    """Removes all objects below a path, as far as they are there and can be removed."""
    with suppress(Exception):
        fs, inner = fresh_file_system(path, storage_options)
        fs.rm(inner, recursive=True)
