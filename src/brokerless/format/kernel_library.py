"""Runs kernels out of a library that was compiled before, as wheels have it: nothing is compiled, and Numba not needed.

``scripts/build_kernels.py`` makes the library and, beside it, a manifest of its kernels and of the sources that they
were compiled from. Each kernel is called through ctypes, without the GIL, with the tuple of its arguments, out of which
the library itself takes the arrays, and with a block of its numbers, which gets the results.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import numpy as np

ENVIRONMENT = "BROKERLESS_KERNELS"
"""Names the directory of the library to use, or ``numba``; without it, the library beside the package, if any."""
PACKAGE = Path(__file__).parents[1]
DIRECTORY = PACKAGE / "kernels"
MANIFEST = "kernels.json"

CHECK_BOUNDS = os.environ.get("BROKERLESS_CHECK_BOUNDS", "0") != "0"
"""Whether kernels raise IndexError for an access outside an array: for tests, as the check takes time."""

_LEVELS = {
    "x86-64-v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    "x86-64-v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
}
"""Linux's names of what the processor has to have, the best first; each includes those after it."""
_FORMATS = {"float32": "f4x", "float64": "d", "uint64": "Q"}


@dataclass(frozen=True)
class KernelLibrary:
    """A library of compiled kernels."""

    path: Path
    """The library's file."""
    kernels: dict[str, dict[str, Any]]
    """By ``module:name``, the types of a kernel's arguments and results; an array is ``[dtype, dimensions, whether it
    is read only]``."""

    @cached_property
    def _functions(self) -> ctypes.CDLL:
        return ctypes.CDLL(str(self.path))

    def kernel(self, name: str) -> Callable[..., Any]:
        """The function of a kernel ``module:name``."""
        spec = self.kernels.get(name)
        if spec is None:
            raise ImportError(f"kernel {name} is not in {self.path}: make the library again")
        return _bind(self._functions["kernel_" + symbol(name)], name, spec)


def symbol(name: str) -> str:
    """Return what the library calls a kernel ``module:name``."""
    return name.replace(":", "__").replace(".", "_")


def digest(files: Sequence[str]) -> str:
    """Return the digest of the sources that kernels are compiled from, by their paths in the package; that of nothing
    where there are none, as in a frozen application."""
    if not files:
        return ""
    found = hashlib.sha256()
    for each in files:
        try:
            found.update(b"%s\0%s\0" % (each.encode(), (PACKAGE / each).read_bytes()))
        except FileNotFoundError:
            return ""
    return found.hexdigest()


def find_library() -> KernelLibrary | str:
    """The library that kernels run from, or why Numba compiles them. One that is named and cannot be used is an
    ImportError."""
    named = os.environ.get(ENVIRONMENT, "")
    if named == "numba":
        return f"{ENVIRONMENT}={named}"
    found = _open(Path(named) if named else DIRECTORY)
    if named and isinstance(found, str):
        raise ImportError(f"{ENVIRONMENT}={named}: {found}")
    return found


def _open(directory: Path) -> KernelLibrary | str:
    """The library in a directory, or why it cannot be used."""
    try:
        manifest = cast("dict[str, Any]", json.loads((directory / MANIFEST).read_bytes()))
    except OSError as error:
        return f"no library of kernels: {error.strerror}"
    if manifest["checks_bounds"] != CHECK_BOUNDS:
        return f"kernels that {'check' if manifest['checks_bounds'] else 'do not check'} bounds"
    if digest(manifest["sources"]) not in ("", manifest["digest"]):
        return "kernels of other sources than these"
    target = next((each for each in _targets() if each in manifest["libraries"]), None)
    if target is None:
        return f"kernels for {', '.join(manifest['libraries'])}, and not for this processor"
    if not _has_known_layout():
        return "this Python or NumPy has another layout of arrays"
    return KernelLibrary(directory / manifest["libraries"][target], manifest["kernels"])


def _targets() -> list[str]:
    """Names of what this processor runs, the best first."""
    machine = platform.machine().lower()
    system = platform.system().lower()
    if machine not in ("x86_64", "amd64"):
        return [f"{system}-{machine}"]
    if system != "linux":
        return [f"{system}-x86-64-v2"]
    flags = _flags()
    has_v2 = _LEVELS["x86-64-v2"] <= flags
    return [f"linux-{level}" for level, needed in _LEVELS.items() if has_v2 and needed <= flags]


def _flags() -> set[str]:
    with open("/proc/cpuinfo", "rb") as file:  # noqa: PTH123 - only its beginning, as each processor takes time
        for line in file.read(8192).splitlines():
            if line.startswith(b"flags"):
                return set(line.decode().split(":", 1)[1].split())
    return set()


def _has_known_layout() -> bool:
    """Return whether the library finds in a tuple and in NumPy's arrays what it reads there."""
    array = np.zeros((2, 3), np.int64)
    arguments = (array,)
    if tuple.__basicsize__ != 24 or np.ndarray.__basicsize__ < 72 or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    words = (ctypes.c_int64 * 9).from_address(id(array))
    shape = (ctypes.c_int64 * 2).from_address(words[4])
    return (
        (ctypes.c_int64 * 4).from_address(id(arguments))[3] == id(array)
        and words[1] == id(np.ndarray)
        and words[2] == array.ctypes.data
        and words[3] & 0xFFFFFFFF == array.ndim
        and tuple(shape) == array.shape
        and words[7] == id(array.dtype)
        and _kind_of(array.dtype).to_bytes(8, "little", signed=True)
        == b"%s%s%s\0" % (array.dtype.kind.encode(), array.dtype.char.encode(), b"=")
        + array.dtype.num.to_bytes(4, "little")
        and words[8] & 0x501 == 0x501
    )


def _bind(function: Any, name: str, spec: dict[str, Any]) -> Callable[..., Any]:
    """A Python function that calls a kernel."""
    kinds, results = spec["arguments"], spec["results"]
    numbers = [place for place, kind in enumerate(kinds) if isinstance(kind, str)]
    block_type = ctypes.c_int64 * max(len(numbers), len(results), 1)
    dtypes = [np.dtype(kind[0]) for kind in kinds if not isinstance(kind, str)]
    identities = (ctypes.c_int64 * (1 + len(dtypes)))(id(np.ndarray), *map(_kind_of, dtypes))
    pack = struct.Struct("=" + "".join(_FORMATS.get(kinds[place], "q") for place in numbers)).pack_into
    # Of one number, itemgetter makes no tuple.
    pick = itemgetter(*numbers) if len(numbers) > 1 else lambda arguments: [arguments[place] for place in numbers]
    result = _RESULTS[results[0] if len(results) == 1 else str(len(results))]
    count = len(kinds)
    function.argtypes, function.restype = (ctypes.py_object, block_type, type(identities)), ctypes.c_int64

    def call(*arguments: Any) -> Any:
        if len(arguments) != count:
            raise TypeError(f"{name} takes {count} arguments, not {len(arguments)}")
        block = block_type()
        try:
            pack(block, 0, *pick(arguments))
        except struct.error as error:
            raise TypeError(f"No matching definition: {name}: {error}") from None
        while status := function(arguments, block, identities):
            if status > 0:
                raise IndexError(f"{name} reaches out of an array")
            place = -status - 1
            array = _of_known_type(arguments[place], kinds[place], f"argument {place + 1} of {name}")
            arguments = (*arguments[:place], array, *arguments[place + 1 :])
        return result(block)

    return call


def _kind_of(dtype: np.dtype[Any]) -> int:
    """Return what the library knows a dtype by: its kind, order of bytes and number, where NumPy's object has them."""
    return ctypes.c_int64.from_address(id(dtype) + 24).value & ~0xFF000000


def _of_known_type(given: Any, kind: tuple[str, int, bool], what: str) -> Any:
    """Return the array with the dtype that is expected, of several that are equal; anything else is an error."""
    dtype, dimensions, read_only = np.dtype(kind[0]), kind[1], kind[2]
    if not isinstance(given, np.ndarray):
        raise TypeError(f"No matching definition: {what} is {type(given).__name__}, and no array")
    flags = given.flags
    fits = flags.c_contiguous and flags.aligned and (flags.writeable or read_only)
    if given.dtype != dtype or given.ndim != dimensions or not fits:
        found = f"{given.dtype} of {given.ndim} dimensions" + ("" if fits else ", read only or not in order")
        raise TypeError(f"No matching definition: {what} is {found}, and not {kind}")
    return given.view(np.ndarray).view(dtype)


_RESULTS: dict[str, Callable[[Any], Any]] = {
    "0": lambda _: None,
    "boolean": lambda block: bool(block[0]),
    "int64": lambda block: block[0],
    "int32": lambda block: block[0],
    "uint8": lambda block: block[0],
    "uint32": lambda block: block[0],
    "uint64": lambda block: block[0] & 0xFFFFFFFFFFFFFFFF,
    "float64": lambda block: struct.unpack("=d", struct.pack("=q", block[0]))[0],
    "2": lambda block: (block[0], block[1]),
    "3": lambda block: (block[0], block[1], block[2]),
}
