"""Directories that are made once, and then shared by all test processes and runs."""

from __future__ import annotations

import fcntl
import hashlib
import io
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import zstandard


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """``target``, which ``make`` fills if it is not there yet: under a lock, beside, and renamed at last, so that it is
    there either whole or not at all."""
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
                made = Path(scratch) / target.name
                made.mkdir()
                make(made)
                made.rename(target)
    return target


def unpacked_once(archive: Path, cache: Path, prefix: str = "", clear: Callable[[Path], None] | None = None) -> Path:
    """A directory below ``cache`` with the files of an archive (``.tar.zst``), which tests do not change; unpacked once
    for each version of the archive. ``clear``: called with the directory before that."""
    content = archive.read_bytes()

    def unpack(target: Path) -> None:
        if clear is not None:
            clear(target)
        with (
            zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(io.BytesIO(content)) as stream,
            tarfile.open(fileobj=stream, mode="r|") as tar,
        ):
            tar.extractall(target, filter="data")

    return made_once(cache / f"{prefix}{hashlib.sha256(content).hexdigest()[:16]}", unpack)
