"""Bounds of the integers in Kafka's formats, and checks of arguments: a wrong one is an error that names it."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

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
        _check_all(function, names, args, kwargs)
        return function(*args, **kwargs)

    return checked


def check_after_failure(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function as :func:`check_arguments` does, if it is called for each record: its arguments are checked
    where it fails, which it has to do before it changes anything."""
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (TypeError, AttributeError, OverflowError):
            _check_all(function, names, args, kwargs)
            raise

    return checked


def _check_all(
    function: Callable[..., Any], names: Iterable[str], args: Iterable[Any], kwargs: Mapping[str, Any]
) -> None:
    hints = _hints_of(function)
    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        if name in hints:
            hints[name].check(name, value)


def check_fields(value: object) -> None:
    """Raise :class:`UsageError` for a field of a dataclass that has a wrong type; for ``__post_init__``."""
    for name, hint in _hints_of(type(value)).items():
        hint.check(name, getattr(value, name))


class _Hint:
    """An annotation, and what says whether a value has its type."""

    def __init__(self, hint: Any) -> None:
        self._hint, self._is_a = hint, _test_of(hint)

    def check(self, name: str, value: Any) -> None:
        if not self._is_a(value):
            shown = repr(value)
            shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
            raise UsageError(f"{name}: {shown} is not {_describe(self._hint)}")


@cache
def _hints_of(annotated: Callable[..., Any]) -> dict[str, _Hint]:
    if isinstance(annotated, type):
        hints = get_type_hints(annotated)
    else:
        named: Any = {name: hint for name, hint in annotated.__annotations__.items() if name != "return"}
        of_parameters: Any = types.SimpleNamespace(__annotations__=named)
        hints = get_type_hints(of_parameters, annotated.__globals__)  # what it returns may be known to checkers alone
    return {name: _Hint(hint) for name, hint in hints.items()}


def _test_of(hint: Any) -> Callable[[Any], bool]:
    """Return what says whether a value has the type of an annotation. True and False are no numbers; NumPy's numbers
    are."""
    import numpy as np  # which the help of commands does without

    also: Mapping[Any, tuple[type, ...]] = {
        int: (int, np.integer), float: (int, float, np.number), bool: (bool, np.bool_),
        bytes: (bytes, bytearray, memoryview),
    }  # fmt: skip
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        tests = [_test_of(each) for each in inner]
        return lambda value: type(value) in inner or any(test(value) for test in tests)
    if origin is Literal:
        return lambda value: any(type(value) is type(each) and value == each for each in inner)
    if origin is np.ndarray:
        (wanted,) = get_args(inner[1])
        return lambda value: (
            isinstance(value, np.ndarray) and (not isinstance(wanted, type) or np.issubdtype(value.dtype, wanted))
        )
    if origin is tuple:
        of_items = [_test_of(each) for each in inner]
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == len(of_items)
            and all(test(each) for test, each in zip(of_items, value, strict=True))
        )
    if origin is not None and issubclass(origin, Iterable):
        of_item = _test_of(inner[0])
        return lambda value: (
            isinstance(value, origin)
            and not isinstance(value, (str, bytes))
            and (not isinstance(value, (list, tuple)) or all(map(of_item, value)))
        )
    if not isinstance(hint, type):
        return lambda _: True
    accepted = also.get(hint, hint)
    if hint in (int, float):
        return lambda value: type(value) is hint or (isinstance(value, accepted) and not isinstance(value, bool))
    return lambda value: isinstance(value, accepted)


def _describe(hint: Any) -> str:
    """Return an annotation as words."""
    import numpy as np

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
