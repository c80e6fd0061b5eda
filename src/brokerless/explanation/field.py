"""A field of a file as a value: where it is, its bytes, its value, and where that comes from.

Fields form a tree: those of a group follow one another without a gap, and make up the whole of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FieldValue = int | float | str | bytes | bool | None


@dataclass(frozen=True, slots=True)
class Part:
    """Bits of a field's number, 0 being the lowest: a flag, or what one byte of a varint adds to it."""

    bits: str
    name: str
    value: FieldValue


@dataclass(frozen=True, slots=True)
class Inflated:
    """The contents of a compressed field."""

    codec: str
    size: int
    """Bytes of the inflated contents."""
    fields: tuple[Field, ...]
    """At positions in the inflated bytes."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field, or a group of fields."""

    name: str
    position: int
    """In bytes from the start of the file, or of the inflated bytes that it is in."""
    length: int
    """In bytes."""
    own: bytes = b""
    """The bytes of a field without ``children``."""
    value: FieldValue = None
    """What the bytes say, decoded."""
    note: str = ""
    """Where the value comes from, and what it means."""
    expected: str | None = None
    """What should be here instead, if the bytes make no sense; otherwise None."""
    parts: tuple[Part, ...] = ()
    children: tuple[Field, ...] = ()
    inflated: Inflated | None = None

    @property
    def raw(self) -> bytes:
        """The bytes of the field, or of the whole group."""
        return b"".join(each.raw for each in self.children) if self.children else self.own

    @property
    def end(self) -> int:
        """The position after the last byte."""
        return self.position + self.length


def leaves(fields: Sequence[Field], above: str = "") -> Iterator[tuple[str, Field]]:
    """Yield the fields without children, in the order of their bytes, each with the names of the groups around it, as
    in ``batch.record[0].key``. What is inside inflated fields is left out."""
    for each in fields:
        path = f"{above}.{each.name}" if above else each.name
        if each.children:
            yield from leaves(each.children, path)
        else:
            yield path, each


def problems(fields: Sequence[Field], above: str = "") -> Iterator[tuple[str, Field]]:
    """Yield all fields and groups that are not as expected, with their names as in :func:`leaves`; also inflated
    ones."""
    for each in fields:
        path = f"{above}.{each.name}" if above else each.name
        if each.expected is not None:
            yield path, each
        yield from problems(each.children, path)
        if each.inflated is not None:
            yield from problems(each.inflated.fields, f"{path}.inflated")
