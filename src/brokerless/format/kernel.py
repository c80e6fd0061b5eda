"""How a kernel is made: compiled for explicit types, cached for each machine, without the GIL.

Importing a module of kernels imports Numba and loads (or, the first time on a machine, compiles) its kernels, so such
modules are imported only where a kernel is first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba  # pyright: ignore[reportMissingTypeStubs]

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: Any = {"nogil": True, "boundscheck": False, "error_model": "numpy", "_nrt": False}
"""Without Numba's run time, which allocates, arrays are not counted at each call of a helper: a fifth of the time."""


def kernel(signature: str) -> Callable[[F], F]:
    """Compiles a function for ``signature`` (Numba's notation, for instance ``"int64(uint8[::1], int64)"``).

    Kernels take arrays and numbers, allocate nothing, raise nothing and check no bounds beyond what they do themselves.
    """
    decorate = numba.njit(signature, cache=True, **_OPTIONS)  # pyright: ignore
    return cast("Callable[[F], F]", decorate)


def inlined(function: F) -> F:
    """A helper for kernels of any argument types, compiled into its callers."""
    return cast("F", numba.njit(forceinline=True, **_OPTIONS)(function))  # pyright: ignore
