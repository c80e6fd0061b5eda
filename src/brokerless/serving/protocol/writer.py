"""Responses as pieces: bytes, and ranges of files that are sent without being read here."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from brokerless.format.messages.layouts import Message
from brokerless.format.messages.writer import encode_pieces
from brokerless.log.directory import SegmentPaths


@dataclass(frozen=True, slots=True)
class FileRange:
    """``length`` bytes from ``position`` on in the log of a segment."""

    segment: SegmentPaths
    is_last: bool
    """Whether this is the last segment, which may have grown meanwhile."""
    position: int
    length: int

    def __len__(self) -> int:
        return self.length


Piece = bytes | FileRange
LARGEST_ANSWER = 64 << 20
"""Bytes of a response, without ranges of files."""
_SHORT = 200
_NESTED = 4
"""How many elements, and in how many levels, a response has that takes no time to be encoded."""


def in_memory(pieces: Iterable[Piece]) -> int:
    """Return the bytes of pieces that are not in files."""
    return sum(len(each) for each in pieces if not isinstance(each, FileRange))


def is_short(values: Any) -> bool:
    """Return whether a response is encoded in no time."""
    return _count(values, _SHORT, _NESTED) <= _SHORT


def _count(value: Any, most: int, nested: int) -> int:
    """Count the elements of all arrays in a value, up to a few more than ``most``."""
    if isinstance(value, dict):
        fields: list[Any] = list(cast("dict[str, Any]", value).values())
        count = 0
    elif isinstance(value, list):
        fields = cast("list[Any]", value)
        count = len(fields)
    else:
        return most + 1 if isinstance(value, Iterator) else 0
    for each in fields:
        if count > most or not nested:
            break
        if isinstance(each, dict | list | Iterator):
            count += _count(each, most - count, nested - (not isinstance(value, dict)))
    return count


def encode(message: Message, version: int, values: dict[str, Any]) -> list[Piece]:
    """Return the pieces of a response. Raises :class:`TooLargeError`."""
    return cast("list[Piece]", encode_pieces(message, version, values, LARGEST_ANSWER))


def response_head(correlation_id: int, is_flexible: bool) -> bytes:
    """Return the head of a response: of version 1 where ``is_flexible``, else of version 0."""
    return struct.pack(">i", correlation_id) + (b"\0" if is_flexible else b"")
