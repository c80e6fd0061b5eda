"""Compiles an Avro schema into the program that the kernel runs, for a given Arrow type."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless.typed.avro import kernels as k
from brokerless.typed.avro.schema import (
    MAX_NODES,
    AvroType,
    arrow_type,
    branch_names,
    default_bytes,
    is_wrapped,
    missing_fields,
    reader_branch,
    reader_field,
)

MAX_DEPTH = 128
_FIXED, _DATA, _LIST, _NONE = range(4)
_LEAVES = {
    "boolean": k.BOOLEAN, "int": k.INT, "long": k.LONG, "float": k.FLOAT, "double": k.DOUBLE, "bytes": k.BYTES,
    "string": k.STRING, "fixed": k.FIXED, "enum": k.ENUM,
}  # fmt: skip
_PROMOTED = {
    ("int", pa.int64()): k.AS_INT64, ("int", pa.float64()): k.AS_DOUBLE, ("long", pa.float64()): k.AS_DOUBLE,
    ("float", pa.float64()): k.AS_DOUBLE,
}  # fmt: skip


_ENTRY = AvroType("entry")
"""A map's entry, which takes a place on the kernel's stack."""


class NoProgramError(ValueError):
    """A schema that is decoded row by row: a type within itself, or one that the target holds in another form."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the output, with those below it."""

    number: int
    """The column's number among all columns, those below others included."""
    type: pa.DataType
    children: tuple[OutputColumn, ...] = ()

    @property
    def rows_of_null(self) -> list[int]:
        """The columns that get a row where this one is null: those in lists do not."""
        below = self.children if pa.types.is_struct(self.type) else ()
        return [self.number, *(number for each in below for number in each.rows_of_null)]


@dataclass(frozen=True, slots=True)
class Program:
    """The program that a kernel runs."""

    ops: NDArray[np.int64]
    kids: NDArray[np.int64]
    columns: NDArray[np.int64]
    output: OutputColumn
    root: int
    """The operation from which it runs."""
    depth: int
    constants: bytes
    """Bytes that are appended to the data."""
    symbols: NDArray[np.bool_]
    """Which of ``kids`` are places in ``constants``."""

    def with_constants(self, data: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return data with the constants after it, and the kids with their places there."""
        if not self.constants:
            return np.ascontiguousarray(data), self.kids
        kids = self.kids.copy()
        kids[self.symbols] += len(data)
        return np.concatenate([data, np.frombuffer(self.constants, np.uint8)]), kids


@dataclass(frozen=True, slots=True)
class AvroProgram:
    """A program for :func:`kernels.run_program`."""

    code: Program
    root_fill: int
    defaults: NDArray[np.int64]
    """The operations of ``code`` that have places in its constants."""


@dataclass(slots=True)
class ProgramBuilder:
    """A program that is being made."""

    columns: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """For each column of the output, its kind, and its width or the column of its items."""
    ops: list[list[int]] = field(default_factory=list[list[int]])
    kids: list[int] = field(default_factory=list[int])
    constants: bytearray = field(default_factory=bytearray)
    places: list[int] = field(default_factory=list[int])
    """Which of ``kids`` are places in ``constants``."""

    def program(self, output: OutputColumn, root: int, depth: int) -> Program:
        """Return what was made, whose operation ``root`` fills ``output``."""
        symbols = np.zeros(max(len(self.kids), 1), np.bool_)
        symbols[self.places] = True
        ops, kids = np.array(self.ops, np.int64), np.array(self.kids or [0], np.int64)
        columns, constants = np.array(self.columns, np.int64), bytes(self.constants)
        return Program(ops, kids, columns, output, root=root, depth=depth, constants=constants, symbols=symbols)

    def output(self, type_: pa.DataType) -> OutputColumn:
        """Return a column for a type, and those below it."""
        t = pa.types
        number = len(self.columns)
        if number > MAX_NODES:
            raise NoProgramError("too many columns")
        self.columns.append((_NONE, 0))
        inner: list[pa.DataType] = []
        if t.is_struct(type_):
            inner = [each.type for each in type_]
        elif t.is_list(type_):
            inner = [type_.value_type]
        elif t.is_map(type_):
            inner = [pa.struct([type_.key_field, type_.item_field])]
        children = tuple(self.output(each) for each in inner)
        if t.is_list(type_) or t.is_map(type_):
            self.columns[number] = _LIST, children[0].number
        elif t.is_string(type_) or t.is_binary(type_):
            self.columns[number] = _DATA, 0
        elif t.is_boolean(type_):
            self.columns[number] = _FIXED, 1
        elif not t.is_struct(type_) and not t.is_null(type_):
            self.columns[number] = _FIXED, type_.bit_width // 8
        return OutputColumn(number, type_, children)


@dataclass(slots=True)
class _Builder(ProgramBuilder):
    def op(
        self, kind: int, column: int, first: int = 0, count: int = 0, store: int = 0, high: int = 0, low: int = 0
    ) -> int:
        self.ops.append([kind, column, first, count, store, high, low, 0])
        return len(self.ops) - 1

    def sequence(self, kind: int, column: int, nodes: list[int]) -> int:
        first = len(self.kids)
        self.kids += nodes
        return self.op(kind, column, first, len(nodes))

    def depth_of(self, node: int, known: dict[int, int]) -> int:
        """Return how many records and arrays are open at once below an operation, itself included."""
        if node not in known:
            kind, _, first, count, *_ = self.ops[node]
            inner = self.kids[first : first + count] if kind in (k.RECORD, k.UNION) else ()
            inner = [first] if kind in (k.ARRAY, k.DEFAULT) else inner
            known[node] = (kind != k.UNION) + max((self.depth_of(each, known) for each in inner), default=0)
        return known[node]

    def fill(self, output: OutputColumn) -> int:
        return self.sequence(k.FILL, -1, output.rows_of_null)

    def compile(
        self, type_: AvroType, output: OutputColumn, reader: AvroType | None, above: tuple[AvroType, ...]
    ) -> int:
        """Return the operation that reads a type into a column."""
        if type_ in above or len(above) > MAX_DEPTH - 4 or len(self.ops) > 4 * MAX_NODES:
            raise NoProgramError("a type within itself")
        if type_.kind == "null":
            return self.fill(output)
        if type_.kind == "union":
            return self._union(type_, output, reader, above)
        if is_wrapped(type_, reader) and pa.types.is_struct(output.type):
            return self._branch(type_, output, reader, above)
        if type_.kind == "record":
            return self._record(type_, output, reader, (*above, type_))
        if type_.kind in ("array", "map"):
            return self._items(type_, output, reader, (*above, type_))
        return self._leaf(type_, output)

    def _union(
        self, type_: AvroType, output: OutputColumn, reader: AvroType | None, above: tuple[AvroType, ...]
    ) -> int:
        nodes: list[int] = []
        for each in type_.branches:
            if each.kind == "null":
                nodes.append(self.fill(output))
            elif len(type_.others) == 1:
                nodes.append(self.compile(each, output, reader, above))
            else:
                name = branch_names(type_)[type_.others.index(each)]
                nodes.append(self._branch(each, output, reader, above=above, name=name))
        return self.sequence(k.UNION, -1, nodes)

    def _branch(
        self, type_: AvroType, output: OutputColumn, reader: AvroType | None, above: tuple[AvroType, ...],
        name: str | None = None,
    ) -> int:  # fmt: skip
        """One branch of a union: its field of the struct, all others null."""
        if not pa.types.is_struct(output.type):
            raise NoProgramError("a union as text")
        nodes: list[int] = []
        for own, column in zip(output.type, output.children, strict=True):
            is_own = own.name == (name or type_.label)
            nodes.append(
                self.compile(type_, column, reader_branch(reader, type_), above) if is_own else self.fill(column)
            )
        if sum(own.name == (name or type_.label) for own in output.type) != 1:
            raise NoProgramError("a union without this branch")
        return self.sequence(k.RECORD, output.number, nodes)

    def _record(
        self, type_: AvroType, output: OutputColumn, reader: AvroType | None, above: tuple[AvroType, ...]
    ) -> int:
        if output.type == pa.string() and not type_.fields:
            return self._constant(AvroType("string"), b"\4{}", output, above)
        if not pa.types.is_struct(output.type):
            raise NoProgramError("a record as text")
        columns = {own.name: column for own, column in zip(output.type, output.children, strict=True)}
        nodes: list[int] = []
        for each in type_.fields:
            if each.name not in columns:
                raise NoProgramError(f"the type has no field {each.name}")
            other = reader_field(reader, type_, each.name)
            nodes.append(self.compile(each.type, columns.pop(each.name), other, above))
        defaults = {each.name: each for each in missing_fields(type_, reader)}
        for name, column in columns.items():
            missing = defaults.get(name)
            default = None if missing is None else default_bytes(missing)
            if missing is None or default is None:
                nodes.append(self.fill(column))
                continue
            nodes.append(self._constant(missing.type, default, column, above))
        return self.sequence(k.RECORD, output.number, nodes)

    def _constant(self, type_: AvroType, data: bytes, output: OutputColumn, above: tuple[AvroType, ...]) -> int:
        """A value that is not in the payload."""
        start = len(self.constants)
        self.constants += data
        end = len(self.constants)
        return self.op(k.DEFAULT, -1, self.compile(type_, output, type_, above), high=start, low=end)

    def _items(
        self, type_: AvroType, output: OutputColumn, reader: AvroType | None, above: tuple[AvroType, ...]
    ) -> int:
        is_map = type_.kind == "map"
        if not (pa.types.is_map if is_map else pa.types.is_list)(output.type):
            raise NoProgramError(f"a {type_.kind} in another form")
        assert type_.items is not None
        other = reader_branch(reader, type_)
        inner = None if other is None else other.items
        if not is_map:
            item = self.compile(type_.items, output.children[0], inner, (*above, type_))
        else:
            entries = output.children[0]
            key = self._leaf(AvroType("string"), entries.children[0])
            value = self.compile(type_.items, entries.children[1], inner, (*above, type_, _ENTRY))
            item = self.sequence(k.RECORD, entries.number, [key, value])
        return self.op(k.ARRAY, output.number, item)

    def _leaf(self, type_: AvroType, output: OutputColumn) -> int:
        target, own = output.type, arrow_type(type_, None, (), [0])
        kind = _LEAVES[type_.kind]
        if type_.logical == "decimal" and target == own:
            limit = 10**type_.precision
            parts = [part - (1 << 64) if part >> 63 else part for part in (limit >> 64, limit & ((1 << 64) - 1))]
            kind = k.DECIMAL if type_.kind == "bytes" else k.DECIMAL_FIXED
            return self.op(kind, output.number, type_.size, high=parts[0], low=parts[1])
        store = _PROMOTED.get((type_.kind, target)) if type_.logical is None else None
        is_text = {own, target} == {pa.string(), pa.binary()} and target == pa.binary()
        if (type_.kind, type_.logical) == ("fixed", "uuid") or (target != own and store is None and not is_text):
            raise NoProgramError(f"{type_.kind} as {target}")
        if type_.kind == "long" and store == k.AS_DOUBLE:
            kind = k.LONG_AS_DOUBLE
        if store is None:
            is_narrow = type_.kind == "int"
            store = k.AS_FLOAT if kind == k.FLOAT else k.AS_INT32 if is_narrow else k.AS_INT64
        if kind == k.ENUM:
            first = len(self.kids)
            for symbol in type_.symbols:
                data = symbol.encode()
                self.places.append(len(self.kids))
                self.kids += [len(self.constants), len(data)]
                self.constants += data
            return self.op(kind, output.number, first, len(type_.symbols))
        return self.op(kind, output.number, type_.size, store=store)


def compile_program(type_: AvroType, target: pa.DataType, reader: AvroType | None) -> AvroProgram:
    """Return the program that reads ``type_`` into columns of ``target``; ``reader`` is the newest schema, whose
    defaults and aliases count. Raises :class:`NoProgramError` for what has to be decoded row by row."""
    builder = _Builder()
    output = builder.output(target)
    root = builder.compile(type_, output, reader, ())
    root_fill = builder.fill(output)
    code = builder.program(output, root, builder.depth_of(root, {}) + 1)
    return AvroProgram(code, root_fill, np.flatnonzero(code.ops[:, k.KIND] == k.DEFAULT))
