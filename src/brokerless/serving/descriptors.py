"""Finds how many clients the process may have: each needs a descriptor, and another one while a file is sent to it.

Some are kept for the files that are read meanwhile, so that clients never take those.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress

MOST_CONNECTIONS = 2000
_RESERVE = 128
"""Descriptors for files: those of worker threads, of libraries, and connections to an object store."""
_SHARE = 4
"""Where fewer are left than these need, every fourth is for files."""
_OF_EACH = 2


def raise_limit() -> None:
    """Let this process open as many files as it may: the soft limit is usually 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # as where the system has no such limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def most_connections() -> int:
    """Return how many clients may be connected, by the descriptors that are left now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    left = max(0, soft - _open())
    return max(1, min(MOST_CONNECTIONS, (left - min(_RESERVE, left // _SHARE)) // _OF_EACH))


def _open() -> int:
    for directory in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            return len(os.listdir(directory))  # noqa: PTH208 - names suffice
    return 0
