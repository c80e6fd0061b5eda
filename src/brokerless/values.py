"""Values that are kept as JSON: Structs whose fields are the members of a document, read strictly.

What may be in a member is in the type of its field: :data:`Int64`, :data:`Sha256`. What a type cannot say, such as that
a name is one of a partition, is checked in ``__post_init__``, which raises :class:`WrongJsonError`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
from msgspec import Meta

from brokerless.bounds import MAX_INT32, MAX_INT64

ValueT = TypeVar("ValueT")
Int32 = Annotated[int, Meta(ge=0, le=MAX_INT32)]
"""Numbers of partitions and nodes, and whatever else is not negative in 32 bits."""
Int64 = Annotated[int, Meta(ge=0, le=MAX_INT64)]
"""Offsets, sizes in bytes, times since the epoch, counts."""
Int32OrNone = Annotated[int, Meta(ge=-1, le=MAX_INT32)]
"""Leader epochs and the like; -1 without one."""
Int64OrNone = Annotated[int, Meta(ge=-1, le=MAX_INT64)]
"""Offsets and the like; -1 without one."""
Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Uuid = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{22}\Z")]
"""IDs of topics and of remote segments, in base64 as Kafka writes them."""
LONGEST_REASON = 500

Row = dict[str, Any]
"""A row of a table, or a message of Kafka, by the names of its fields."""


class WrongJsonError(ValueError):
    """What is wrong with a document. The message has at most :data:`LONGEST_REASON` characters, and of the content
    names alone: those of members, and one that is none of those that may be there."""


class RepeatedNameError(WrongJsonError):
    """An object of JSON that has one name twice."""


class Value(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A document of ours, or a part of one: immutable, members in camelCase, and none that it does not know."""


class LenientValue(msgspec.Struct, frozen=True, rename="camel"):
    """A document that others write, or a later version of ours: members that it does not know are passed over."""


def from_json(data: bytes, kind: type[ValueT]) -> ValueT:
    """Return a value out of a document. Raises :class:`WrongJsonError`, and nothing else, for any bytes."""
    return from_members(parse_json(data), kind)


def from_members(parsed: Any, kind: type[ValueT]) -> ValueT:
    """Return a value out of what :func:`parse_json` returned. Raises :class:`WrongJsonError`."""
    try:
        return msgspec.convert(parsed, kind, str_keys=True)
    except UnicodeError as error:  # of msgspec, which compares texts as UTF-8
        raise WrongJsonError("a text has half of a surrogate pair") from error
    except (msgspec.ValidationError, RecursionError) as error:
        raise WrongJsonError(str(error)[:LONGEST_REASON]) from error


def members(value: Any) -> Any:
    """Return what ``json.dumps`` takes: a value as objects and arrays."""
    return msgspec.to_builtins(value)


def to_json(value: Any, indent: int | None = None) -> bytes:
    """Return the document of a value, with a line end. A name that is no UTF-8 is in it as escapes of its
    surrogates."""
    return json.dumps(members(value), indent=indent).encode() + b"\n"


def parse_object(data: bytes) -> dict[str, Any]:
    """Return a document that is one object, as :func:`parse_json` reads it."""
    return from_json(data, dict[str, Any])


def parse_json(data: bytes) -> Any:
    """Return a document: UTF-8, without members that come twice, NaN or infinities, which Python's reader takes. Raises
    :class:`WrongJsonError`."""
    try:
        return json.loads(
            data.decode(), object_pairs_hook=distinct_members, parse_constant=_refuse_constant, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise WrongJsonError(str(error) if isinstance(error, WrongJsonError) else "this is not JSON") from error


def distinct_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object of JSON, as an ``object_pairs_hook``. Raises :class:`RepeatedNameError`."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RepeatedNameError("a JSON object has one name twice")
    return found


def _refuse_constant(_: str) -> NoReturn:
    raise WrongJsonError("a number is none of JSON's")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise WrongJsonError("a number is too large")
    return value
