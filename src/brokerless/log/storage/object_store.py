"""Writes objects through fsspec: each one appears in its store when it is complete, or never."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from brokerless.clock import epoch_ms
from brokerless.log.storage.atomic import replacing, sync_directory
from brokerless.log.storage.guarded_files import make_directory
from brokerless.log.storage.location import Location
from brokerless.log.storage.side_by_side import side_by_side
from brokerless.log.storage.write_errors import storage_errors

BLOCK = 8 << 20
"""Bytes that are sent at once: S3 takes 10,000 of them for an object, and segments have 2 GiB at most."""


def fresh_file_system(location: Location) -> tuple[Any, str]:
    """Return fsspec's file system of a URL, without cached listings, and its name for the path."""
    fs, inner = location.file_system()
    fs.invalidate_cache()
    return fs, str(inner).rstrip("/")


def put_object(location: Location, data: bytes) -> None:
    """Makes ``data`` the whole content of an object."""
    with storage_errors(location.path):
        fs, inner = fresh_file_system(location)
        fs.pipe_file(inner, data)


def remove_object(location: Location) -> None:
    """Removes an object, which may have gone already."""
    with storage_errors(location.path), suppress(FileNotFoundError):
        fs, inner = fresh_file_system(location)
        fs.rm_file(inner)


def open_object(location: Location) -> Any:
    """Return a binary file whose content becomes an object by ``close()`` and ``commit()``, or is dropped by
    ``discard()``."""
    fs, inner = fresh_file_system(location)
    return fs.open(inner, "wb", autocommit=False, block_size=BLOCK)


@contextmanager
def new_object(location: Location) -> Generator[BinaryIO]:
    """Yield a binary file that becomes an object, or a file of a directory, when all is written; nothing is there if
    anything is raised. Directories above it are made. Raises :class:`UnwritableError`."""
    with storage_errors(location.path):
        if not location.is_remote:
            make_directory(location.local.parent)
            with replacing(location.local) as file:
                yield file
            return
        sink = open_object(location)
        try:
            yield sink
            sink.close()
            sink.commit()
        except BaseException:
            with suppress(Exception):
                sink.discard()
            raise


def upload(local: Path, location: Location) -> None:
    """Copies a file of this machine to an object."""
    with storage_errors(location.path), local.open("rb") as file, new_object(location) as sink:
        shutil.copyfileobj(file, sink, BLOCK)


def create_object(location: Location, data: bytes) -> bool:
    """Makes ``data`` the whole content of an object that is not there; False where one is there already. Raises
    :class:`UnwritableError`."""
    with storage_errors(location.path):
        if not location.is_remote:
            return _create_file(location.local, data)
        fs, inner = fresh_file_system(location)
        try:
            fs.pipe_file(inner, data, mode="create")
        except FileExistsError:
            return False
        return True


def _create_file(path: Path, data: bytes) -> bool:
    """Create a file, which is linked to its name when it is whole; return False where one is there."""
    make_directory(path.parent)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    with replacing(beside) as file:
        file.write(data)
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    finally:
        beside.unlink()
        sync_directory(path.parent)
    return True


def copy_object(location: Location, target: Location) -> None:
    """Has the store copy an object."""
    with storage_errors(target.path):
        fs, inner = fresh_file_system(location)
        fs.cp_file(inner, fresh_file_system(target)[1])


@dataclass(frozen=True, slots=True)
class HeldObject:
    """An object that the store protects from being removed (Object Lock)."""

    location: Location
    until: int | None
    """In ms since the epoch; None without an end (legal hold)."""


def held_objects(place: Location, objects: Sequence[Location], at: int) -> tuple[list[HeldObject], str | None]:
    """Return which of the objects of a place Object Lock holds at a time (ms since the epoch); and why that is not
    known, if it is not. One request says whether a bucket has it, and then one for each object."""
    if not place.is_remote or not objects:
        return [], None
    fs, inner = fresh_file_system(place)
    if not hasattr(fs, "call_s3"):
        return [], "of this store it is not known here"
    bucket, _, _ = fs.split_path(inner)
    try:
        fs.call_s3("get_object_lock_configuration", Bucket=bucket)
        found = list(side_by_side(lambda each: _held(fs, each, at), objects, is_remote=True))
    except FileNotFoundError:  # no configuration
        return [], None
    except Exception as error:  # what a store says that does not know the request, or forbids it
        if "ObjectLockConfigurationNotFound" in str(error):
            return [], None
        return [], f"the store does not say so: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
    return [each for each in found if each is not None], None


def _held(fs: Any, location: Location, at: int) -> HeldObject | None:
    bucket, key, _ = fs.split_path(str(location.file_system()[1]))
    try:
        head = fs.call_s3("head_object", Bucket=bucket, Key=key)
    except FileNotFoundError:
        return None
    if head.get("ObjectLockLegalHoldStatus") == "ON":
        return HeldObject(location, None)
    until = head.get("ObjectLockRetainUntilDate")
    held_until = None if until is None else epoch_ms(until)
    return None if held_until is None or held_until <= at else HeldObject(location, held_until)


def remove_objects(location: Location) -> None:
    """Removes all objects below a path, as far as they are there and can be removed."""
    with suppress(Exception):
        fs, inner = fresh_file_system(location)
        fs.rm(inner, recursive=True)
