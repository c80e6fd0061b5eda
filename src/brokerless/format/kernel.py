"""Declares kernels: functions of arrays and numbers that run as machine code, without the GIL.

In a wheel they come out of a library (:mod:`brokerless.format.kernel_library`); where there is none for these sources,
as in a clone, Numba compiles them (:mod:`brokerless.format.compiler`). A module that declares kernels, or helpers and
intrinsics for them, imports what it needs from here, and nothing of Numba's.

Numba takes a quarter of a second to import, so such modules are imported only where a kernel is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from brokerless.errors import UsageError
from brokerless.format.kernel_library import CHECK_BOUNDS, KernelLibrary, find_library

__all__ = [
    "CHECK_BOUNDS",
    "begin_compiling",
    "cgutils",
    "describe_kernels",
    "external_function",
    "inlined",
    "intrinsic",
    "ir",
    "kernel",
    "load_kernels",
    "separate",
    "types",
]

F = TypeVar("F", bound=Callable[..., Any])

_LIBRARY = find_library()

if TYPE_CHECKING or not isinstance(_LIBRARY, KernelLibrary):
    try:
        from brokerless.format.compiler import (
            begin_compiling,
            cgutils,
            describe_kernels,
            external_function,
            inlined,
            intrinsic,
            ir,
            kernel,
            load_kernels,
            separate,
            types,
        )
    except ModuleNotFoundError as error:
        what = f"{_LIBRARY}, and {error.name}, which compiles it, is not installed"
        raise UsageError(f"brokerless has no machine code: {what}") from error
else:
    ir: Any = None
    types: Any = None
    cgutils: Any = None

    def kernel(signature: str) -> Callable[[F], F]:
        """The library's function of this name; ``signature`` is what it was compiled for."""
        return lambda function: _LIBRARY.kernel(f"{function.__module__}:{function.__name__}")

    def inlined(function: F) -> F:
        """Part of the kernels in the library."""
        return function

    separate = intrinsic = inlined

    def external_function(name: str, signature: str) -> None:
        """Part of the kernels in the library."""

    def load_kernels(kernels: Sequence[Callable[..., Any]]) -> None:
        """Does nothing: they are loaded."""

    begin_compiling = load_kernels

    def describe_kernels() -> str:
        """Return where kernels come from."""
        return str(_LIBRARY.path)
