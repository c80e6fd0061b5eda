"""Confluent's message indexes: which message of a schema a payload is, through those that it is nested in.

Their count and each of them are varints, zigzag as of ``sint32``; a single zero stands for the first message. The
Python client wrote them unsigned, and the first message as ``1 0``, before 1.8 and where ``use.deprecated.format`` says
so (confluent-kafka-python 926).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from brokerless.format.plain_varint import decode_unsigned, undo_zigzag
from brokerless.typed.protobuf.files import MessageTypes
from brokerless.typed.topic_type import DEPRECATED

MOST = 60
"""Messages in messages."""
_WIRE_TYPES = 6
_NOR = "nor any of unsigned indexes, as Python clients before 1.8 wrote them"
_FORCED = f"the format {DEPRECATED} takes them for such"
Indexes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A message that a payload may be."""

    indexes: Indexes
    start: int
    """Where the message begins in the payload (bytes)."""
    is_guess: bool = False
    """Whether its indexes were read as unsigned, although nobody says that they are."""


class MessageFinder:
    """Finds which messages of a schema payloads are. ``is_unsigned``: whether their indexes are, which is tried last
    otherwise."""

    def __init__(self, types: MessageTypes, *, is_unsigned: bool = False) -> None:
        self._types, self._is_unsigned = types, is_unsigned
        self._known: dict[Indexes, ValueError | None] = {}
        self._classes: dict[Indexes, Callable[[], Any]] = {}

    def used(self, payloads: Iterable[bytes]) -> set[Indexes]:
        """Return the messages that payloads (or their beginnings) name, without those whose indexes are none."""
        found: set[Indexes] = set()
        for each in payloads:
            with suppress(ValueError):
                found.add(next(self.candidates(each)).indexes)
        return found

    def candidates(self, data: bytes) -> Iterator[Candidate]:
        """Yield the messages that a payload may be, the likely ones first. Raises ValueError where there is none."""
        found: list[Candidate] = []
        reason: ValueError | None = None
        for is_unsigned in (True,) if self._is_unsigned else (False, True):
            try:
                indexes, at = read_indexes(data, is_unsigned=is_unsigned)
                self._check(indexes)
            except ValueError as error:
                reason = reason or error
                continue
            candidate = Candidate(indexes, at, is_unsigned and not self._is_unsigned)
            if _may_begin(data, at):
                yield candidate
            found.append(candidate)
        yield from (each for each in found if not _may_begin(data, each.start))
        if not found:
            others = f"unsigned, as {DEPRECATED} has them" if self._is_unsigned else _NOR
            raise ValueError(f"{reason} ({others})")

    def parse(self, data: bytes, prefix: bytes = b"", *, has_indexes: bool = True) -> tuple[Indexes, int, Any]:
        """Return which message a payload is, where it begins (bytes), and the message. ``prefix``: its indexes, where
        they are in a header. Raises ValueError and DecodeError."""
        from google.protobuf.message import DecodeError

        reason: DecodeError | None = None
        for each in self.candidates(prefix or data) if has_indexes else (Candidate((0,), 0),):
            start = 0 if prefix else each.start
            if each.indexes not in self._classes:
                self._classes[each.indexes] = self._types.message_class(each.indexes)
            message = self._classes[each.indexes]()
            try:
                message.ParseFromString(data[start:])
            except DecodeError as error:
                reason = reason or error
                continue
            if not each.is_guess or not _has_unknown_fields(message):
                return each.indexes, start, message
        raise reason or ValueError(f"a message that it is by unsigned indexes only, with unknown fields; {_FORCED}")

    def _check(self, indexes: Indexes) -> None:
        """Raise ValueError where the schema has no such message."""
        if indexes not in self._known:
            self._known[indexes] = None
            try:
                self._types.descriptor(indexes)
            except ValueError as error:
                self._known[indexes] = error
        if (error := self._known[indexes]) is not None:
            raise error


def _may_begin(data: bytes, at: int) -> bool:
    """Return whether a message may begin here: by the tag of its first field, or as an empty one."""
    return at >= len(data) or (data[at] & 7 < _WIRE_TYPES and (data[at] >= 0x80 or data[at] >> 3 > 0))


def read_indexes(data: bytes, *, is_unsigned: bool = False) -> tuple[Indexes, int]:
    """Return the indexes at the beginning of a payload, and where they end (bytes). Raises ValueError."""

    def number_at(at: int) -> tuple[int, int]:
        number = decode_unsigned(data, at, len(data), 5)
        if number is None:
            raise ValueError("message indexes that are cut off, or too large")
        return number if is_unsigned else (undo_zigzag(number[0]), number[1])

    count, at = number_at(0)
    if count == 0:
        return (0,), at
    if not 0 < count <= MOST:
        raise ValueError("message indexes that are none")
    found: list[int] = []
    for _ in range(count):
        index, at = number_at(at)
        found.append(index)
    return tuple(found), at


def _has_unknown_fields(message: Any) -> bool:
    """Return whether a parsed message has fields that its schema does not know, as one that is another message."""
    from google.protobuf import unknown_fields

    return len(unknown_fields.UnknownFieldSet(message)) > 0
