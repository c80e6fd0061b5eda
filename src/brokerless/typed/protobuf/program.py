"""Compiles a message's descriptor into the operations that the kernel runs, for a given Arrow type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from brokerless.typed.avro.program import NoProgramError, OutputColumn, Program, ProgramBuilder
from brokerless.typed.protobuf import kernels as k
from brokerless.typed.protobuf.values import WRAPPERS

_MOST_NUMBERS = 1 << 16
"""Entries of all tables of fields' and symbols' numbers."""
_MOST_FIELDS = 62
"""Fields of a message that are not repeated, each of which is a bit."""
_MESSAGE, _GROUP = 11, 10
_KINDS = {  # google.protobuf.descriptor.FieldDescriptor.TYPE_*
    1: (k.FIXED64, 1), 2: (k.FIXED32, 5), 3: (k.VARINT, 0), 4: (k.UNSIGNED, 0), 5: (k.VARINT32, 0),
    6: (k.UNSIGNED_FIXED64, 1), 7: (k.UNSIGNED_FIXED32, 5), 8: (k.BOOLEAN, 0), 9: (k.STRING, 2), 12: (k.BYTES, 2),
    13: (k.UNSIGNED32, 0), 14: (k.ENUM, 0), 15: (k.FIXED32, 5), 16: (k.FIXED64, 1), 17: (k.SIGNED32, 0),
    18: (k.SIGNED, 0),
}  # fmt: skip
_TIMESTAMP = "google.protobuf.Timestamp"


@dataclass(frozen=True, slots=True)
class MessageProgram:
    """A program for :func:`kernels.run_messages`."""

    code: Program
    has_maps: bool
    """Whether some column is a map, whose keys may come twice."""


@dataclass(slots=True)
class _MessageBuilder(ProgramBuilder):
    depth: int = 1
    has_maps: bool = False

    def op(self, **fields: int) -> int:
        made = [0] * (k.CLOSED + 1)
        made[k.COLUMN] = made[k.LIST] = -1
        for name, value in fields.items():
            made[getattr(k, name)] = value
        self.ops.append(made)
        return len(self.ops) - 1

    def listed(self, values: list[int]) -> int:
        """Add some numbers to the kids; return where they begin."""
        self.kids += values
        if len(self.kids) > _MOST_NUMBERS:
            raise NoProgramError("too many numbers of fields")
        return len(self.kids) - len(values)

    def message(self, descriptor: Any, output: OutputColumn, natural: Any, depth: int) -> dict[str, int]:
        """Return what an operation says of a message with a struct of its own."""
        if descriptor.is_extendable or not pa.types.is_struct(output.type) or not pa.types.is_struct(natural):
            raise NoProgramError("extensions, or a message in another form")
        columns = {own.name: child for own, child in zip(output.type, output.children, strict=True)}
        if len(columns) != len(output.children):
            raise NoProgramError("two columns of one name")
        is_entry = bool(descriptor.GetOptions().map_entry)
        nodes: dict[int, int] = {}
        bit = 0
        groups: dict[str, int] = {}
        for each in descriptor.fields:
            if each.name not in columns:
                raise NoProgramError(f"the type has no field {each.name}")
            if each.is_required:
                raise NoProgramError("a field that is required")
            own = natural.field(each.name).type
            nodes[each.number] = self.field(each, columns.pop(each.name), own, is_entry=is_entry, depth=depth)
            made = self.ops[nodes[each.number]]
            if made[k.LIST] >= 0:
                continue
            if bit > _MOST_FIELDS:
                raise NoProgramError("too many fields")
            made[k.BIT] = made[k.CONFLICT] = 1 << bit
            bit += 1
            if each.containing_oneof is not None:
                name = each.containing_oneof.name
                groups[name] = groups.get(name, 0) | made[k.BIT]
        for each in descriptor.fields:
            if each.containing_oneof is not None:
                self.ops[nodes[each.number]][k.CONFLICT] = groups[each.containing_oneof.name]
        others = [self.absent(child) for child in columns.values()]
        numbers = [nodes.get(number, -1) for number in range(max(nodes, default=-1) + 1)]
        every = [*nodes.values(), *others]
        return self.tables(numbers, every) | {"CLOSED": int(is_entry)}

    def tables(self, numbers: list[int], every: list[int]) -> dict[str, int]:
        return {
            "FIRST": self.listed(numbers), "COUNT": len(numbers),
            "FIELDS": self.listed(every), "FIELD_COUNT": len(every),
        }  # fmt: skip

    def nulls(self, output: OutputColumn) -> dict[str, int]:
        columns = output.rows_of_null
        return {"NULLS": self.listed(columns), "NULL_COUNT": len(columns)}

    def absent(self, output: OutputColumn) -> int:
        """Return a column that no message fills."""
        return self.op(KIND=k.BY_ROWS, COLUMN=output.number, ABSENT=k.NULL, **self.nulls(output))

    def field(self, each: Any, output: OutputColumn, natural: Any, *, is_entry: bool, depth: int) -> int:
        """Return the operation of a field, or of a map's key or value."""
        own_list: dict[str, int] = {}
        if pa.types.is_map(natural) or each.is_repeated:
            kind = pa.types.is_map if pa.types.is_map(natural) else pa.types.is_list
            if not kind(output.type) or (pa.types.is_map(natural) and output.type.key_type != natural.key_type):
                raise NoProgramError("a repeated field in another form")
            self.has_maps |= pa.types.is_map(natural)
            own_list, own_type = {"LIST": output.number}, output.type
            output = output.children[0]
            if pa.types.is_map(natural):
                natural, output = _entry_type(natural), replace(output, type=_entry_type(own_type))
            else:
                natural = natural.value_type
        absent = k.NULL if each.has_presence and not is_entry else k.DEFAULT
        if each.type in (_MESSAGE, _GROUP):
            absent = k.LEFT if is_entry else absent
            return self.of_message(each, output, natural, own_list | {"ABSENT": absent}, depth=depth)
        kind, wire = _KINDS[each.type]
        if output.type != natural:
            raise NoProgramError(f"{natural} as {output.type}")
        symbols = self.symbols(each.enum_type, absent) if kind == k.ENUM else {}
        made = own_list | symbols | self.nulls(output)
        return self.op(KIND=kind, COLUMN=output.number, WIRE=wire, ABSENT=absent, **made)

    def of_message(self, each: Any, output: OutputColumn, natural: Any, made: dict[str, int], depth: int) -> int:
        self.depth = max(self.depth, depth + 1)
        own, made = each.message_type, made | self.nulls(output)
        is_wrapper = own.full_name in WRAPPERS
        if each.type == _GROUP or (pa.types.is_string(natural) and not is_wrapper):
            return self.op(KIND=k.BY_ROWS, COLUMN=output.number, WIRE=2, **made)
        if own.full_name == _TIMESTAMP:
            if output.type != natural:
                raise NoProgramError(f"{natural} as {output.type}")
            return self.op(KIND=k.TIMESTAMP, COLUMN=output.number, WIRE=2, **made)
        if is_wrapper:  # whose column is that of its value
            value = own.fields_by_name["value"]
            inner = self.field(value, output, natural, is_entry=True, depth=depth + 1)
            self.ops[inner][k.BIT] = self.ops[inner][k.CONFLICT] = 1
            return self.op(KIND=k.MESSAGE, WIRE=2, **made, **self.tables([-1, inner], [inner]))
        tables = self.message(own, output, natural, depth + 1)
        return self.op(KIND=k.MESSAGE, COLUMN=output.number, WIRE=2, **made, **tables)

    def symbols(self, enum: Any, absent: int) -> dict[str, int]:
        """Return the names of an enum by its numbers."""
        names = {number: each.name.encode() for number, each in enum.values_by_number.items()}
        low, high = min(names), max(names)
        if high - low >= _MOST_NUMBERS or (absent == k.DEFAULT and 0 not in names):
            raise NoProgramError("an enum of far numbers, or without 0")
        first = len(self.kids)
        for number in range(low, high + 1):
            name = names.get(number)
            if name is not None:
                self.places.append(len(self.kids))
            self.listed([len(self.constants), -1 if name is None else len(name)])
            self.constants += name or b""
        return {"FIRST": first, "COUNT": high - low + 1, "ZERO": low}


def _entry_type(map_type: Any) -> pa.DataType:
    """The type of a map's entries, by the names that their fields have as messages."""
    return pa.struct([("key", map_type.key_type), ("value", map_type.item_type)])


def compile_program(descriptor: Any, target: pa.DataType, natural: pa.DataType) -> MessageProgram:
    """Return the program that decodes messages into columns of ``target``; ``natural``: the message's own type. Raises
    :class:`NoProgramError` for what has to be decoded row by row."""
    builder = _MessageBuilder()
    output = builder.output(target)
    tables = builder.message(descriptor, output, natural, 1)
    root = builder.op(KIND=k.MESSAGE, COLUMN=output.number, **tables, **builder.nulls(output))
    return MessageProgram(builder.program(output, root, builder.depth + 1), builder.has_maps)
