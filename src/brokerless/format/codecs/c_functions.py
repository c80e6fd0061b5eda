"""The codecs' C functions, by their addresses, for kernels that inflate many payloads in one call without the GIL.

The extension modules of the packages ``lz4``, ``zstandard`` and ``deflate`` export what they are linked with. Where one
does not (another build of it, say), its codec is called payload by payload, which does the same.
"""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

from brokerless.format.layouts import GZIP, LZ4, SNAPPY, ZSTD


@dataclass(frozen=True, slots=True)
class CodecFunction:
    """The function of a codec that inflates one block."""

    address: int
    """The address of the function."""
    context: int
    """The function's first argument, or 0."""


_IN_KERNELS = CodecFunction(0, 0)
"""Snappy's blocks are inflated by a kernel of ours: no library exports a function."""
_EXPORTS = {
    LZ4: ("lz4.block._block", ("LZ4_decompress_safe",)),
    ZSTD: ("zstandard._cffi", ("ZSTD_decompressDCtx", "ZSTD_createDCtx", "ZSTD_freeDCtx")),
    GZIP: (
        "deflate._deflate",
        ("libdeflate_gzip_decompress_ex", "libdeflate_alloc_decompressor", "libdeflate_free_decompressor"),
    ),
}


def codec_function(codec: int, owner: object) -> CodecFunction | None:
    """The function of a codec, with a context that lives as long as ``owner``; None where there is none."""
    if codec == SNAPPY:
        return _IN_KERNELS
    functions = _exported(codec)
    if functions is None:
        return None
    address = ctypes.cast(functions[0], ctypes.c_void_p).value or 0
    if len(functions) == 1:
        return CodecFunction(address, 0)
    _, make, free = functions
    context = make()
    if not context:
        return None
    weakref.finalize(owner, free, ctypes.c_void_p(context)).atexit = False  # a thread may use it still
    return CodecFunction(address, context)


@cache
def _exported(codec: int) -> tuple[Any, ...] | None:
    if codec not in _EXPORTS or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    module, names = _EXPORTS[codec]
    try:
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            return None
        library = ctypes.CDLL(spec.origin)
        functions = tuple(getattr(library, name) for name in names)
    except (ImportError, OSError, AttributeError):
        return None
    for make in functions[1:2]:
        make.restype, make.argtypes = ctypes.c_void_p, ()
    for free in functions[2:3]:
        free.restype, free.argtypes = None, (ctypes.c_void_p,)
    return functions
