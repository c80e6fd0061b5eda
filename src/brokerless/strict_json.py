"""Parses untrusted JSON strictly, with a type check for each member.

Python's reader accepts more than JSON, and keeps the last of two members of one name. Anything unexpected is a
:class:`WrongJsonError` that names the member; nothing else is raised, for any bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar, cast

from brokerless.bounds import MAX_INT64

Item = TypeVar("Item")


class WrongJsonError(ValueError):
    """What is wrong with a document; the message has no more of its content than the names of members."""


def parse_object(data: bytes) -> dict[str, Any]:
    """A document that is one object, as :func:`parse_json` reads it."""
    return as_object(parse_json(data), "the document")


def parse_json(data: bytes) -> Any:
    """A document: UTF-8, without members that come twice, NaN or infinities."""
    try:
        return json.loads(
            data.decode(), object_pairs_hook=_members, parse_constant=_refuse_constant, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise WrongJsonError(str(error) if isinstance(error, WrongJsonError) else "this is not JSON") from error


def member(found: Mapping[str, Any], name: str) -> Any:
    if name not in found:
        raise WrongJsonError(f"there is no {name}")
    return found[name]


def as_object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WrongJsonError(f"{name} is not an object")
    return cast("dict[str, Any]", value)


def as_list(value: Any, name: str, item: Callable[[Any, str], Item]) -> tuple[Item, ...]:
    if not isinstance(value, list):
        raise WrongJsonError(f"{name} is not an array")
    return tuple(item(each, f"{name}[{number}]") for number, each in enumerate(cast("list[Any]", value)))


def as_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise WrongJsonError(f"{name} is not a string")
    return value


def as_flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise WrongJsonError(f"{name} is neither true nor false")
    return value


def as_integer(value: Any, name: str, least: int = 0, most: int = MAX_INT64) -> int:
    if type(value) is not int or not least <= value <= most:
        raise WrongJsonError(f"{name} is not an integer from {least} to {most}")
    return value


def optional(value: Any, name: str, item: Callable[[Any, str], Item]) -> Item | None:
    return None if value is None else item(value, name)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise WrongJsonError("a member comes twice")
    return found


def _refuse_constant(_: str) -> NoReturn:
    raise WrongJsonError("a number is none of JSON's")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise WrongJsonError("a number is too large")
    return value
