"""Compiles kernels with Numba: for explicit types, cached for each machine, without the GIL.

Importing a module of kernels imports Numba and loads (or, the first time on a machine, compiles) its kernels, so such
modules are imported only where a kernel is first needed.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba  # pyright: ignore[reportMissingTypeStubs]

F = TypeVar("F", bound=Callable[..., Any])

CHECK_BOUNDS = os.environ.get("BROKERLESS_CHECK_BOUNDS", "0") != "0"
"""Whether kernels raise IndexError for an access outside an array: for tests, as the check takes time."""

if CHECK_BOUNDS and not numba.config.CACHE_DIR:  # pyright: ignore
    # Numba's cache does not distinguish kernels compiled with checks from those without.
    raise ImportError("BROKERLESS_CHECK_BOUNDS needs a directory of its own for compiled kernels: set NUMBA_CACHE_DIR")

_OPTIONS: Any = {"nogil": True, "boundscheck": CHECK_BOUNDS, "error_model": "numpy", "_nrt": False}
"""Without Numba's run time, which allocates, arrays are not counted at each call of a helper: a fifth of the time."""

compiled = 0
"""How many kernels this process compiled, as no cache had them. It may take minutes, which progress reports."""


def kernel(signature: str) -> Callable[[F], F]:
    """Compiles a function for ``signature`` (Numba's notation, for instance ``"int64(uint8[::1], int64)"``).

    Kernels take arrays and numbers, allocate nothing, raise nothing and check no bounds beyond what they do themselves.
    """

    def decorate(function: F) -> F:
        try:
            dispatcher: Any = numba.njit(signature, cache=True, **_OPTIONS)(function)  # pyright: ignore
        except RuntimeError:
            # Neither the sources' directory nor the home directory is writable.
            place = _own_directory()
            if place is not None:
                numba.config.CACHE_DIR = place  # pyright: ignore
            dispatcher = numba.njit(signature, cache=place is not None, **_OPTIONS)(function)  # pyright: ignore
        _count(dispatcher)
        return cast("F", dispatcher)

    return decorate


def _count(dispatcher: Any) -> None:
    global compiled
    compiled += not dispatcher.stats.cache_hits


def _own_directory() -> str | None:
    """A directory for temporary files that nobody else can write to, the same for every process of this user."""
    path = Path(tempfile.gettempdir()) / f"brokerless-kernels-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError:
        return None
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return str(path) if is_own else None


def inlined(function: F) -> F:
    """A helper for kernels of any argument types, compiled into its callers."""
    return cast("F", numba.njit(forceinline=True, **_OPTIONS)(function))  # pyright: ignore
