"""Takes fields from bytes, one after another: each begins where the one before ended, so they never overlap."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from brokerless.explanation.field import Field, FieldValue, Inflated, Part
from brokerless.explanation.varints import Varint, read_varint

MOST_FIELDS = 200_000
"""Fields of one explanation; what comes after them is one field. A field takes some hundred times its bytes."""
UNREAD = "unread"
"""The name of bytes that no field is made of."""


class SenseEndsError(Exception):
    """Bytes that cannot be what was ``expected``. It never leaves this package: :func:`build` catches it."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected = expected


class _FullError(Exception):
    """As many fields as there may be."""


@dataclass(slots=True)
class FieldBudget:
    """How many more fields one explanation may have."""

    left: int = MOST_FIELDS


@dataclass(slots=True)
class Group:
    """A group that is being filled. Its value, note and ``expected`` may be set until it is closed."""

    name: str
    position: int
    value: FieldValue = None
    note: str = ""
    expected: str | None = None
    fields: list[Field] = field(default_factory=list[Field])


@dataclass(frozen=True, slots=True)
class Said:
    """What is said of a value: see :class:`Field`."""

    note: str = ""
    expected: str | None = None
    parts: tuple[Part, ...] = ()


Describe = Callable[[str, dict[str, int]], Said]
"""What is said of a layout's field, by its name and the values up to it."""


class FieldBuilder:
    """Takes fields from ``data``, whose first byte is at ``position`` (bytes)."""

    def __init__(self, data: bytes, position: int, budget: FieldBudget) -> None:
        self.data, self.budget = data, budget
        self.at, self._base = 0, position
        self._open = [Group("", position)]

    @property
    def fields(self) -> tuple[Field, ...]:
        """Those that are not in a group, and the groups."""
        return tuple(self._open[0].fields)

    @property
    def position(self) -> int:
        """Where the next field begins."""
        return self._base + self.at

    @property
    def left(self) -> int:
        """Bytes that no field was made of yet."""
        return len(self.data) - self.at

    def expect(self, expected: str) -> NoReturn:
        """Ends the explanation here."""
        raise SenseEndsError(expected)

    @contextmanager
    def group(self, name: str) -> Generator[Group]:
        """Make a group of what is taken inside; also of what was taken until the sense ended."""
        group = Group(name, self.position)
        self._open.append(group)
        try:
            yield group
        finally:
            self._open.pop()
            if group.fields:
                length, children = self.position - group.position, tuple(group.fields)
                self._open[-1].fields.append(
                    Field(name, group.position, length, b"", group.value, group.note, group.expected, (), children)
                )

    def take(
        self,
        name: str,
        length: int,
        value: FieldValue = None,
        said: Said = Said(),
        inflated: Inflated | None = None,
        children: tuple[Field, ...] = (),
    ) -> None:
        """Takes the next ``length`` bytes, of which there must be so many."""
        if self.budget.left <= 0:
            raise _FullError
        self.budget.left -= 1
        own = b"" if children else self.data[self.at : self.at + length]
        self._open[-1].fields.append(
            Field(name, self.position, length, own, value, said.note, said.expected, said.parts, children, inflated)
        )
        self.at += length

    def take_layout(self, layout: np.dtype[Any], describe: Describe) -> dict[str, int]:
        """Takes the fields of a layout, and returns their values; the sense ends where the bytes do."""
        values: dict[str, int] = {}

        def said(name: str, value: int) -> Said:
            values[name] = value
            return describe(name, values)

        for name in layout.names or ():
            self.take_number(name, layout[name], partial(said, name))
        return values

    def take_number(self, name: str, type_: np.dtype[Any], describe: Callable[[int], Said]) -> int:
        """Takes a number of a fixed size."""
        size = type_.itemsize
        self._require(name, size)
        value = int(np.frombuffer(self.data, type_, 1, self.at)[0])
        self.take(name, size, value, describe(value))
        return value

    def take_varint(self, name: str, describe: Callable[[int], str], bits: int = 32) -> int:
        """Takes a ZigZag varint; ``describe`` says what its value means."""
        found = self._read_varint(name, bits)
        return self._take_varint(name, found, found.value, derivation=found.derivation, describe=describe)

    def take_unsigned(self, name: str, describe: Callable[[int], str]) -> int:
        """Takes an unsigned varint of 32 bits."""
        found = self._read_varint(name, 32)
        return self._take_varint(name, found, found.raw, derivation=found.unsigned_derivation, describe=describe)

    def _read_varint(self, name: str, bits: int) -> Varint:
        found = read_varint(self.data, self.at, len(self.data), bits)
        return self.expect(f"{name}: {found}") if isinstance(found, str) else found

    def _take_varint(
        self, name: str, found: Varint, value: int, derivation: str, describe: Callable[[int], str]
    ) -> int:
        meaning = describe(value)
        self.take(name, found.length, value, Said("; ".join(filter(None, (derivation, meaning))), None, found.parts))
        return value

    def take_bytes(self, name: str, length: int, note: str = "") -> bytes:
        """Takes bytes that are a value by themselves; of no bytes, no field is made."""
        self._require(name, length)
        data = self.data[self.at : self.at + length]
        if length:
            self.take(name, length, data, Said(note))
        return data

    def take_nested(self, name: str, length: int, fill: Callable[[FieldBuilder], None], note: str = "") -> None:
        """Takes the next bytes as a group that ``fill`` makes fields of; where their sense ends, only theirs does."""
        data = self.data[self.at : self.at + length]
        fields = build(data, self.position, fill, self.budget)
        if fields:
            self.take(name, length, None, Said(note), children=fields)

    def _require(self, name: str, size: int) -> None:
        if size > self.left:
            self.expect(f"{name}, {_bytes(size)}; {_bytes(self.left) if self.left else 'none'} left")

    def take_rest(self, note: str = "", expected: str | None = None, name: str = UNREAD) -> None:
        """Takes all that is left."""
        if self.left:
            self.budget.left = max(1, self.budget.left)
            self.take(name, self.left, None, Said(note, expected))


def build(data: bytes, position: int, fill: Callable[[FieldBuilder], None], budget: FieldBudget) -> tuple[Field, ...]:
    """Return the fields that ``fill`` makes of ``data``. They make up all of it: where the sense ends, the rest is
    one."""
    builder = FieldBuilder(data, position, budget)
    try:
        fill(builder)
        builder.take_rest()
    except SenseEndsError as error:
        if builder.left:
            builder.take_rest("not read: it makes no sense here", error.expected)
        else:
            return _missing(builder.fields, error.expected)
    except _FullError:
        builder.take_rest(f"not explained: more than {MOST_FIELDS:,} fields")
    return builder.fields


def _missing(fields: tuple[Field, ...], expected: str) -> tuple[Field, ...]:
    """Return the fields where the bytes end too early: the last one says what should follow."""
    if not fields:
        return fields
    last = fields[-1]
    if last.children:
        last = replace(last, children=_missing(last.children, expected))
    else:
        last = replace(last, expected=f"after it {expected}")
    return (*fields[:-1], last)


def _bytes(count: int) -> str:
    return f"{count} byte{'' if count == 1 else 's'}"
