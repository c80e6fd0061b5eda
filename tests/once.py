"""Directories that are made once, and then shared by all test processes and runs."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable
from pathlib import Path


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
