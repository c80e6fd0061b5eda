"""Refuses arguments of the wrong type at public functions, by their annotations: each names itself, what was expected
and what was given.

What is of the right type and cannot be (a negative limit, a topic that is not there) is refused where it is used.
"""

from __future__ import annotations

import operator
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache, wraps
from inspect import Parameter, isfunction, signature
from typing import Any, NamedTuple, TypeVar

from brokerless.clock import TIME
from brokerless.errors import UsageError

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Expected(NamedTuple):
    """What an argument has to be: ``text`` says it. ``is_secret``: the value is in no message."""

    accepts: Callable[[Any], bool]
    text: str
    is_secret: bool = False


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")  # NumPy's as well


def _is_whole_number(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return not _is_bool(value)


def _is_number(value: Any) -> bool:
    return (_is_whole_number(value) or hasattr(value, "__float__")) and not _is_bool(value)


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _is_time(value: Any) -> bool:
    return isinstance(value, (datetime, str)) or _is_whole_number(value)


def _is_collection(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))


def _is_whole_numbers(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, (str, bytes)) and all(map(_is_whole_number, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _is_decoding(value: Any) -> bool:
    return _is_bool(value) or isinstance(value, str) or _DECODING.accepts(value)


def _is_instance(value: Any, module: str, name: str) -> bool:
    """Return whether a value is of a class whose module is only loaded where such a value is made."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name))


def _is_log(value: Any) -> bool:
    return _is_instance(value, "brokerless.api.log", "Log")


_BOOL = Expected(_is_bool, "True or False")
_INT = Expected(_is_whole_number, "a whole number")
_FLOAT = Expected(_is_number, "a number")
_STR = Expected(lambda value: isinstance(value, str), "a text")
_PATH = Expected(_is_path, "a path")
_TIME = Expected(_is_time, f"a time; give a datetime with a time zone, or a text such as {TIME}")
_PATHS = Expected(lambda value: _is_path(value) or _is_collection(value), "a path, or a list of paths")
_FUNCTION = Expected(callable, "a function")
_PATH_LIST = Expected(_is_collection, "a list of paths")
_NAMES = Expected(lambda value: isinstance(value, str) or _is_collection(value), "a list of texts")
_NAME_LIST = Expected(_is_collection, "a list of texts")
_OPTIONS = Expected(lambda value: isinstance(value, Mapping), "a dict of fsspec's options", is_secret=True)
_KEYS = Expected(lambda value: isinstance(value, Mapping), "a dict of files by the names of key pairs", is_secret=True)
_DECODE = Expected(_is_decoding, 'True, "auto", a format such as "json", or a brokerless.Decoding')
_DECODING = Expected(
    lambda value: _is_instance(value, "brokerless.typed.topic_type", "Decoding"), "a brokerless.Decoding"
)
_NUMBERS = Expected(_is_whole_numbers, "a list of whole numbers")
_LOGS = Expected(
    lambda value: _is_log(value) or (_is_collection(value) and all(map(_is_log, value))), "a log, or a list of logs"
)
_SPARK = Expected(
    lambda value: isinstance(value, str) or hasattr(value, "sparkContext") or hasattr(value, "parallelize"),
    "a master such as 'local[4]', a SparkSession or a SparkContext",
)
EXPECTED: Mapping[str, Expected] = {
    "bool": _BOOL,
    "int": _INT,
    "float": _FLOAT,
    "str": _STR,
    "str | os.PathLike[str]": _PATH,
    "Time": _TIME,
    "Paths": _PATHS,
    "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]": _PATHS,
    "Iterable[str | os.PathLike[str]] | str | os.PathLike[str]": _PATHS,
    "Iterable[str | os.PathLike[str]]": _PATH_LIST,
    "OnUnreadable": _FUNCTION,
    "Report": _FUNCTION,
    "Done": _FUNCTION,
    "Sequence[str]": _NAME_LIST,
    "Collection[str]": _NAME_LIST,
    "Collection[Include]": _NAME_LIST,
    "Iterable[str] | str": _NAMES,
    "Collection[str] | str": _NAMES,
    "Collection[Include] | Include": _NAMES,
    "Collection[int]": _NUMBERS,
    "StorageOptions": _OPTIONS,
    "Mapping[str, str | os.PathLike[str]]": _KEYS,
    "Decode": _DECODE,
    "Decoding | str | bool": _DECODE,
    "Decoding": _DECODING,
    "TableName | str": _STR,
    "Sequence[Log] | Log": _LOGS,
    "Spark": _SPARK,
}
"""By annotation, without ``None``. What has another one is checked where it is used."""
_LISTS = (_PATHS, _PATH_LIST, _NAMES, _NAME_LIST, _LOGS)


def checked(function: Function) -> Function:
    """A public function that raises :class:`UsageError` for arguments of another type than its annotations name."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        names, expected = _parameters(function)
        known = [_checked(name, value, expected.get(name)) for name, value in zip(names, arguments, strict=False)]
        named = {name: _checked(name, value, expected.get(name)) for name, value in named.items()}
        return function(*known, *arguments[len(known) :], **named)

    return call  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


@cache
def _parameters(function: Callable[..., Any]) -> tuple[list[str], dict[str, tuple[Expected, bool]]]:
    """The names of positional parameters, and what those are expected to be that are known."""
    parameters = signature(function).parameters.values()
    expected = {each.name: found for each in parameters if (found := expected_of(each)) is not None}
    return [each.name for each in parameters if each.kind in _POSITIONAL], expected


def checked_methods(class_: Class) -> Class:
    """A class whose public methods are :func:`checked`, those that it inherits as well."""
    for name in dir(class_):
        method = getattr(class_, name)
        if not name.startswith("_") and isfunction(method) and not hasattr(method, "__wrapped__"):
            setattr(class_, name, checked(method))
    return class_


def expected_of(parameter: Parameter) -> tuple[Expected, bool] | None:
    """Return what a parameter has to be by its annotation, and whether it may be None; None where that is checked
    later."""
    return _expected(str(parameter.annotation), parameter.default is None)


def _expected(annotation: str, is_optional: bool) -> tuple[Expected, bool] | None:
    text = re.sub(r" \| None$", "", annotation)
    found = EXPECTED.get(text)
    return None if found is None else (found, is_optional or text != annotation or text in _WITH_NONE)


_WITH_NONE = ("Report", "Decode", "Spark", "Report")
"""Names of types that have ``None`` in them."""


def _checked(name: str, value: Any, parameter: tuple[Expected, bool] | None) -> Any:
    """Return an argument; what can be walked once only, as a list."""
    if parameter is None:
        return value
    expected, is_optional = parameter
    if (value is None and is_optional) or (value is not None and expected.accepts(value)):
        return list(value) if expected in _LISTS and isinstance(value, Iterator) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if expected in (_NAME_LIST, _PATH_LIST) and _is_path(value):
        raise UsageError(f"{name}: {value!r} is not {expected.text}; give [{value!r}]")
    given = f"a value of type {type(value).__name__}" if expected.is_secret else repr(value)
    raise UsageError(f"{name}: {given} is not {expected.text}")
