"""Files that the user of a test may not read. Root may read everything, unless it gives up the capability to."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

OWNER = 65534
_VERSION = 0x20080522
"""``_LINUX_CAPABILITY_VERSION_3``: two words for each set."""
_READING = 1 << 1 | 1 << 2
"""``CAP_DAC_OVERRIDE`` and ``CAP_DAC_READ_SEARCH``."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def forbid(path: Path) -> None:
    """Take the permission to read a file, or to list a directory, from everybody but a broker."""
    if os.geteuid() == 0:
        os.chown(path, OWNER, OWNER)
        path.chmod(0o700 if path.is_dir() else 0o600)
    else:
        path.chmod(0)


@contextmanager
def as_another_user() -> Generator[None]:
    """Give up what only root may read; this thread, those that it starts, and the processes that it forks."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = _Header(_VERSION, 0), (_Sets * 2)()
    assert libc.capget(ctypes.byref(header), sets) == 0
    before = sets[0].effective
    sets[0].effective = before & ~_READING
    assert libc.capset(ctypes.byref(header), sets) == 0
    try:
        yield
    finally:
        sets[0].effective = before
        assert libc.capset(ctypes.byref(header), sets) == 0
