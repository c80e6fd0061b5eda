"""Bounds of the integers in Kafka's formats, and checks of arguments: a wrong one is an error that names it."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from brokerless.errors import UsageError

MAX_INT32 = 2**31 - 1
MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1
LAST_OFFSET = MAX_INT64 - 1
"""The largest offset of a record: the one after it has to be an offset as well."""

P = ParamSpec("P")
R = TypeVar("R")

_SHOWN = 80
"""Characters of a value in a message."""
_NAMES = {
    int: "a whole number", float: "a number", bool: "True or False", str: "a text", bytes: "bytes", type(None): "None",
}  # fmt: skip


def check_number(name: str, value: Any, least: int, most: int | None, *, allowed: str) -> None:
    """Raise :class:`UsageError` for a value that is no whole number from ``least`` to ``most``, if there is one.
    ``allowed``: what a message says of others, such as ``is not from 0 to 5``."""
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise UsageError(f"{name}: {value!r} is not a whole number")
    if value < least or (most is not None and value > most):
        raise UsageError(f"{name}: {value} {allowed}")


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function, or ``__init__``, so that it raises :class:`UsageError` for an argument of a wrong type.

    For functions that have no request, whose options are checked by their own types (:mod:`brokerless.requests`)."""
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        hints = _hints_of(function)
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in hints:
                _check(name, value, hints[name])
        return function(*args, **kwargs)

    return checked


def check_fields(value: object) -> None:
    """Raise :class:`UsageError` for a field of a dataclass that has a wrong type; for ``__post_init__``."""
    for name, hint in _hints_of(type(value)).items():
        _check(name, getattr(value, name), hint)


@cache
def _hints_of(annotated: Callable[..., Any]) -> dict[str, Any]:
    if isinstance(annotated, type):
        return get_type_hints(annotated)
    named = {name: hint for name, hint in annotated.__annotations__.items() if name != "return"}
    of_parameters: Any = types.SimpleNamespace(__annotations__=named)  # what it returns may be known to checkers alone
    return get_type_hints(of_parameters, annotated.__globals__)


def _check(name: str, value: Any, hint: Any) -> None:
    if type(value) is not hint and not _is_a(value, hint):
        shown = repr(value)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        raise UsageError(f"{name}: {shown} is not {_describe(hint)}")


def _is_a(value: Any, hint: Any) -> bool:
    """Return whether a value has the type of an annotation. True and False are no numbers; NumPy's numbers are."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_is_a(value, each) for each in inner)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in inner)
    if origin is np.ndarray:
        (wanted,) = get_args(inner[1])
        return isinstance(value, np.ndarray) and (not isinstance(wanted, type) or np.issubdtype(value.dtype, wanted))
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(_is_a, value, inner))
    if origin is not None and issubclass(origin, Iterable):
        is_one = isinstance(value, origin) and not isinstance(value, (str, bytes))
        return is_one and (not isinstance(value, (list, tuple)) or all(_is_a(each, inner[0]) for each in value))
    if hint is int:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if hint is bool:
        return isinstance(value, (bool, np.bool_))
    if hint is bytes:
        return isinstance(value, (bytes, bytearray, memoryview))
    return isinstance(value, hint) if isinstance(hint, type) else True


def _describe(hint: Any) -> str:
    """Return an annotation as words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_describe, inner))
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin is np.ndarray:
        (wanted,) = get_args(inner[1])
        return f"a NumPy array of {'a structured type' if wanted is np.void else getattr(wanted, '__name__', wanted)}"
    if origin is tuple:
        return f"a tuple of {' and '.join(map(_describe, inner))}"
    if origin is not None:
        return f"a {'mapping' if issubclass(origin, Mapping) else 'sequence'} of {_describe(inner[0])}"
    name = getattr(hint, "__name__", str(hint))
    return _NAMES.get(hint) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
