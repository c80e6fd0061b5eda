"""Compiles kernels with Numba: for explicit types, at their first call, cached for each machine, without the GIL.

This is for a clone, and for building the library that wheels have: :mod:`brokerless.format.kernel` imports it where no
library is.
"""

from __future__ import annotations

import gc
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar, cast

import numba  # pyright: ignore[reportMissingTypeStubs]
from llvmlite import ir  # pyright: ignore[reportMissingTypeStubs]
from numba.core import cgutils, event, sigutils, types  # pyright: ignore[reportMissingTypeStubs]
from numba.extending import intrinsic, typeof_impl  # pyright: ignore[reportMissingTypeStubs]

from brokerless.format.kernel_library import CHECK_BOUNDS
from brokerless.ordered_threads import processors

__all__ = [
    "begin_compiling",
    "cgutils",
    "compile_bare",
    "compile_named",
    "compiled",
    "describe_kernels",
    "external_function",
    "inlined",
    "intrinsic",
    "ir",
    "kernel",
    "load_all",
    "load_kernels",
    "separate",
    "types",
    "unkept",
]

F = TypeVar("F", bound=Callable[..., Any])

if CHECK_BOUNDS and not numba.config.CACHE_DIR:  # pyright: ignore
    # Numba's cache does not distinguish kernels compiled with checks from those without.
    raise ImportError("BROKERLESS_CHECK_BOUNDS needs a directory of its own for compiled kernels: set NUMBA_CACHE_DIR")

_OPTIONS: Any = {"nogil": True, "boundscheck": CHECK_BOUNDS, "error_model": "numpy", "_nrt": False}
"""Without Numba's run time, which allocates, arrays are not counted at each call of a helper: a fifth of the time."""
_HELPER_OPTIONS: Any = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Nothing but kernels calls helpers: what Python would call them by takes a fifth of the time of compiling."""

_COMPILER = (
    "import sys; sys.path[:] = sys.argv[1].split({0!r}); from {1} import compile_named; compile_named(sys.argv[2:])"
)

compiled = 0
"""How many kernels this process has begun to compile, as no cache had them: seconds, which progress reports."""

unkept = ""
"""Why this process could not keep what it compiled, so that the next start compiles it again; empty if it could."""

_is_bare = False
"""Whether kernels are compiled only to be put into a library, without what Python calls them by, and not cached."""

_lock = RLock()
_kernels: list[Kernel] = []
_compiling: dict[Kernel, subprocess.Popen[bytes]] = {}
"""Kernels that processes of their own compile, which were not waited for."""


class Kernel:
    """A function that is compiled for ``signature``, or loaded from the cache, when it is first called."""

    def __init__(self, function: Callable[..., Any], signature: str) -> None:
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__
        self._function, self._signature = function, signature
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._dispatcher or self.load())(*arguments)

    @property
    def is_loaded(self) -> bool:
        return self._dispatcher is not None

    def load(self, on_miss: Callable[[], object] = lambda: None) -> Any:
        """Numba's function. ``on_miss`` is called before it is compiled, if no cache has it."""
        with _lock:
            if self._dispatcher is None:
                dispatcher = self._new_dispatcher()
                if (compiler := _compiling.pop(self, None)) is not None:
                    compiler.wait()  # if it has not compiled it, this process will
                with event.install_listener("numba:compile", _Misses(dispatcher, on_miss)), _without_collections():
                    dispatcher.compile(self._signature)
                dispatcher.disable_compile()
                self._dispatcher = dispatcher
        return self._dispatcher

    def is_compiled(self) -> bool:
        """Return whether it is loaded, or the cache has it."""
        cache = None if self.is_loaded else self._new_dispatcher()._cache
        return cache is None or (hasattr(cache, "_cache_file") and _has_index(cache))

    def source_files(self) -> set[Path]:
        """Those that it is compiled from."""
        return _source_files(self._function)

    def _new_dispatcher(self) -> Any:
        if _is_bare:
            return numba.njit(**_HELPER_OPTIONS)(self._function)  # pyright: ignore
        dispatcher = _cached(self._function)
        _stamp(dispatcher, self._function)
        _load_without_refresh(dispatcher)
        return dispatcher


def describe_kernels() -> str:
    """Return where compiled kernels are kept; or why they are not."""
    try:
        return str(_cached(describe_kernels)._cache._impl.locator.get_cache_path())
    except (AttributeError, OSError, RuntimeError) as error:
        return f"not kept ({error})"


class _Misses(event.Listener):
    """Counts a kernel when its compilation begins."""

    def __init__(self, dispatcher: object, on_miss: Callable[[], object]) -> None:
        self._dispatcher, self._on_miss = dispatcher, on_miss

    def on_start(self, event: Any) -> None:
        global compiled
        if event.data["dispatcher"] is self._dispatcher:  # and not a helper of it
            compiled += 1
            self._on_miss()

    def on_end(self, event: Any) -> None:
        pass


def _has_index(cache: Any) -> bool:
    try:
        return bool(cache._cache_file._load_index())
    except OSError:
        return False


def kernel(signature: str) -> Callable[[F], F]:
    """Compiles a function for ``signature`` (Numba's notation, for instance ``"int64(uint8[::1], int64)"``).

    Kernels take arrays and numbers, allocate nothing, raise nothing and check no bounds beyond what they do themselves.
    """

    def decorate(function: F) -> F:
        made = Kernel(function, signature)
        _kernels.append(made)
        return cast("F", made)

    return decorate


@typeof_impl.register(Kernel)
def _typeof(of: Kernel, context: object) -> types.Dispatcher:
    """A kernel within another one is called, as a function with a cache of its own."""
    return types.Dispatcher(of.load())


def inlined(function: F) -> F:
    """A helper for kernels of any argument types, compiled into its callers. A call from Python would crash."""
    return cast("F", numba.njit(forceinline=True, **_HELPER_OPTIONS)(function))  # pyright: ignore


def separate(function: F) -> F:
    """Compile what a kernel seldom does, once for all calls in it."""
    return cast("F", numba.njit(forceinline=False, **_HELPER_OPTIONS)(function))  # pyright: ignore


def external_function(name: str, signature: str) -> Any:
    """A function of the C library, for kernels."""
    arguments, result = cast("tuple[Any, Any]", sigutils.normalize_signature(signature))
    return types.ExternalFunction(name, result(*arguments))


def compile_bare(modules: Sequence[str]) -> Iterator[tuple[str, Any, set[Path]]]:
    """Compiles all kernels of some modules for a library: ``module:name``, Numba's result, and the files that it was
    compiled from."""
    global _is_bare
    _is_bare = True
    names = {each.__name__ for each in map(import_module, modules)}
    for each in _kernels:
        if each.__module__ in names:
            (result,) = each.load().overloads.values()
            yield f"{each.__module__}:{each.__name__}", result, each.source_files()


def load_kernels(kernels: Sequence[Callable[..., Any]]) -> None:
    """Loads kernels that are about to be called. Those that no cache has are compiled in parallel: the first one here,
    others in processes of their own, as Numba compiles one at a time. So the one that takes longest comes first."""
    missing = [each for each in kernels if isinstance(each, Kernel) and not each.is_loaded]
    if not missing:
        return
    with _lock:
        helpers: list[subprocess.Popen[bytes]] = []
        for place, each in enumerate(missing):
            rest = missing[place + 1 :]
            each.load(lambda rest=rest: helpers or helpers.extend(_compilers(rest)))
            while helpers:
                helpers.pop().wait()  # what it has not compiled, this process will


def begin_compiling(kernels: Sequence[Callable[..., Any]]) -> None:
    """Compiles kernels that will be called later in processes of their own, meanwhile, if no cache has them."""
    with _lock:
        new = [each for each in kernels if isinstance(each, Kernel) and each not in _compiling]
        missing = [each for each in new if not each.is_compiled()]
        for place, compiler in enumerate(compilers := list(_compilers(missing))):
            _compiling.update(dict.fromkeys(missing[place :: len(compilers)], compiler))


def load_all(modules: Sequence[str]) -> None:
    """Loads all kernels of some modules and of those that they import; compiles what the cache does not have."""
    for each in modules:
        import_module(each)
    for each in _kernels:
        each.load()


def compile_named(names: Sequence[str]) -> None:
    """Puts kernels (``module:name``) into the cache."""
    for each in names:
        module, name = each.split(":")
        getattr(import_module(module), name).load()


def _compilers(kernels: Sequence[Kernel]) -> Iterator[subprocess.Popen[bytes]]:
    """Processes that compile kernels: one for each processor but this process's own."""
    most = 0 if unkept else min(processors() - 1, len(kernels))
    for place in range(most if sys.executable and not CHECK_BOUNDS else 0):
        names = [f"{each.__module__}:{each.__name__}" for each in kernels[place::most]]
        code = _COMPILER.format(os.pathsep, __name__)
        command = [sys.executable, "-c", code, os.pathsep.join(sys.path), *names]
        nothing = subprocess.DEVNULL
        with suppress(OSError):
            yield subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)


def _cached(function: Callable[..., Any]) -> Any:
    """Numba's function, whose compiled code will be where something can be written: beside the sources, else in the
    user's cache directory, else among temporary files, else nowhere."""
    global unkept
    for place in (None, _own_directory):
        directory = None if place is None else place()
        if directory is not None:
            numba.config.CACHE_DIR = directory  # pyright: ignore
        if place is None or directory is not None:
            with suppress(RuntimeError, OSError):
                return _keep_if_possible(numba.njit(cache=True, no_cfunc_wrapper=True, **_OPTIONS)(function))  # pyright: ignore
    unkept = unkept or "no directory can be written to"
    return numba.njit(no_cfunc_wrapper=True, **_OPTIONS)(function)  # pyright: ignore


def _keep_if_possible(dispatcher: Any) -> Any:
    """Return the function so that it is used also where its compiled code cannot be written, as on a full disk."""
    save = dispatcher._cache.save_overload

    def save_if_possible(signature: object, data: object) -> None:
        global unkept
        try:
            save(signature, data)
        except OSError as error:
            unkept = error.strerror or str(error)

    dispatcher._cache.save_overload = save_if_possible
    return dispatcher


def _stamp(dispatcher: Any, function: Callable[..., Any]) -> None:
    """Lets Numba's cache forget a kernel when one of its helpers changes, too; by itself it looks at one file only."""
    cache = dispatcher._cache
    if hasattr(cache, "_cache_file"):
        cache._cache_file._source_stamp = cache._cache_file._source_stamp, _sources(function)


def _sources(function: Callable[..., Any]) -> tuple[tuple[str, float, int], ...]:
    """The files of a kernel and of all helpers that are compiled into it: path, time of change, and size (bytes)."""
    paths = _source_files(function)
    status = {str(path): path.stat() for path in paths if path.exists()}  # they do not in a frozen application
    return tuple((path, status[path].st_mtime, status[path].st_size) for path in sorted(status))


def _source_files(function: Callable[..., Any]) -> set[Path]:
    found, left = {function}, [function]
    while left:
        each = left.pop()
        for name in each.__code__.co_names:
            helper = each.__globals__.get(name)
            helper = getattr(helper, "_function", getattr(helper, "py_func", getattr(helper, "_defn", None)))
            if callable(helper) and helper not in found:
                found.add(helper)
                left.append(helper)
    return {Path(each.__code__.co_filename) for each in found}


def _load_without_refresh(dispatcher: Any) -> None:
    """Lets Numba look into its cache at once. It registers all that it could compile before, which takes as long as to
    import it; machine code needs none of that, and where there is none, compiling registers it itself."""
    cache = dispatcher._cache
    if hasattr(cache, "_load_overload"):  # not where nothing can be written: there is no cache
        cache.load_overload = cache._load_overload


def _own_directory() -> str | None:
    """A directory for temporary files that nobody else can write to, the same for every process of this user."""
    try:
        path = Path(tempfile.gettempdir()) / f"brokerless-kernels-{os.getuid()}"
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError:
        return None
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return str(path) if is_own else None


@contextmanager
def _without_collections() -> Generator[None]:
    """Compiling makes so many objects that looking for garbage among them takes an eighth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
