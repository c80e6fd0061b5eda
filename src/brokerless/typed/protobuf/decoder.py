"""Decodes Protobuf payloads by their schema: message indexes, then the message.

A message is a struct with a field for each of its fields: one that was not set is null where Protobuf knows that
(messages, ``optional``, ``oneof``), else its default. Enums are names, ``uint64`` is a decimal, wrappers are their
value, ``google.protobuf.Timestamp`` is a timestamp in ns. Messages within themselves, and ``google.protobuf.Struct``,
``Value`` and ``ListValue``, are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless.arrow import Column
from brokerless.typed.framing import Frame
from brokerless.typed.merge import UnfitError, conform
from brokerless.typed.payloads import PayloadDecoder, column_of_rows, reason_of
from brokerless.typed.protobuf.files import MessageTypes, message_types
from brokerless.typed.protobuf.indexes import MOST, Indexes, MessageFinder
from brokerless.typed.protobuf.values import WRAPPERS, Convert, converter
from brokerless.typed.reasons import Reasons, unfit_reason
from brokerless.typed.registry import Schema
from brokerless.typed.times import Moment, as_written, cut

_MAX_FIELDS = 4096
_WELL_KNOWN = "google.protobuf."
_AS_JSON = ("Struct", "Value", "ListValue")
_TIMESTAMP = pa.timestamp("ns", tz="UTC")
_UINT64 = pa.decimal128(20, 0)
_TYPES: dict[int, pa.DataType] = {  # google.protobuf.descriptor.FieldDescriptor.CPPTYPE_*
    1: pa.int32(), 2: pa.int64(), 3: pa.int64(), 4: _UINT64, 5: pa.float64(), 6: pa.float32(), 7: pa.bool_(),
    8: pa.string(), 9: pa.string(),
}  # fmt: skip
_MESSAGE, _ENUM, _TYPE_BYTES = 10, 8, 12
_MOST_KINDS = 4
"""Messages among the payloads of a batch that a kernel decodes; those of others are decoded row by row."""
_LONGEST_INDEXES = 512
"""Bytes in which message indexes end."""


def protobuf_arrow_type(schema: Schema, indexes: tuple[int, ...] = (0,)) -> pa.DataType:
    """Return the Arrow type of one of a schema's messages. Raises ValueError for one that is not there."""
    return _message_type(message_types(schema).descriptor(indexes), (), [0])


def _message_type(descriptor: Any, above: tuple[str, ...], count: list[int]) -> pa.DataType:
    known = _well_known(descriptor)
    if known is not None:
        return known
    if descriptor.full_name in above or len(above) > MOST:
        return pa.string()
    count[0] += len(descriptor.fields)
    if count[0] > _MAX_FIELDS:
        raise ValueError(f"more than {_MAX_FIELDS} fields")
    inner = (*above, descriptor.full_name)
    return pa.struct([pa.field(each.name, _field_type(each, inner, count)) for each in descriptor.fields])


def _well_known(descriptor: Any) -> pa.DataType | None:
    name = descriptor.full_name
    if not name.startswith(_WELL_KNOWN):
        return None
    short = name.removeprefix(_WELL_KNOWN)
    if short == "Timestamp":
        return _TIMESTAMP
    if short in _AS_JSON:
        return pa.string()
    if name in WRAPPERS:
        return _scalar_type(descriptor.fields_by_name["value"])
    return None


def _scalar_type(field: Any) -> pa.DataType:
    return pa.binary() if field.type == _TYPE_BYTES else _TYPES[field.cpp_type]


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _field_type(field: Any, above: tuple[str, ...], count: list[int]) -> pa.DataType:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return pa.map_(_scalar_type(entry["key"]), _field_type(entry["value"], above, count))
    own = _message_type(field.message_type, above, count) if field.cpp_type == _MESSAGE else _scalar_type(field)
    return pa.list_(own) if field.is_repeated else own


def _message_value(message: Any, target: Any) -> Any:
    """A message as Python's values, as ``conform`` takes them for ``target``."""
    descriptor = message.DESCRIPTOR
    name = descriptor.full_name.removeprefix(_WELL_KNOWN) if descriptor.full_name.startswith(_WELL_KNOWN) else ""
    is_text = pa.types.is_string(target)
    if name == "Timestamp" and not is_text:
        return Moment(message.seconds * 1_000_000_000 + message.nanos, _TIMESTAMP)
    if name and name != "Timestamp" and _well_known(descriptor) is not None and name not in _AS_JSON:
        return message.value
    if name in _AS_JSON or is_text:
        from google.protobuf import json_format

        try:
            text = json_format.MessageToJson(message, indent=None, preserving_proto_field_name=True)
        except json_format.Error as error:  # as of a time that is none
            raise ValueError(f"no JSON: {error}") from None
        is_plain = name not in _AS_JSON and text.startswith('"')  # as of a Timestamp or a Duration
        return json.loads(text) if is_plain else text
    if not pa.types.is_struct(target):
        raise UnfitError(unfit_reason("a message", target))
    found: dict[str, Any] = {}
    for field in descriptor.fields:
        at = target.get_field_index(field.name)
        if field.has_presence and not message.HasField(field.name):
            continue
        inner = pa.string() if at < 0 else target.field(at).type  # without a column, it is left out
        found[field.name] = _field_value(field, getattr(message, field.name), inner)
    if descriptor.is_extendable:
        found |= {f"[{field.full_name}]": "" for field, _ in message.ListFields() if field.is_extension}
    return found


def _field_value(field: Any, value: Any, target: Any) -> Any:
    if _is_map(field):
        entry = field.message_type.fields_by_name["value"]
        if pa.types.is_struct(target):
            raise UnfitError(unfit_reason("a map", "a record"))
        item = target.item_type if pa.types.is_map(target) else target
        return {key: _one(entry, each, item) for key, each in value.items()}
    if field.is_repeated:
        item = target.value_type if pa.types.is_list(target) else target
        return [_one(field, each, item) for each in value]
    return _one(field, value, target)


def _one(field: Any, value: Any, target: Any) -> Any:
    if field.cpp_type == _MESSAGE:
        return _message_value(value, target)
    if field.cpp_type == _ENUM:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value


def protobuf_decoder(schema: Schema, target: pa.DataType, *, is_unsigned: bool = False) -> PayloadDecoder:
    """Return the decoder of a schema's payloads into ``target``. ``is_unsigned``: whether their message indexes are.
    Raises ValueError for a schema that is none."""
    from google.protobuf.message import DecodeError

    types = message_types(schema)
    finder = MessageFinder(types, is_unsigned=is_unsigned)
    converts: dict[Indexes, Convert | None] = {}

    def parse(data: bytes, prefix: bytes, has_indexes: bool, left_out: list[UnfitError]) -> Any:
        indexes, _, message = finder.parse(data, prefix, has_indexes=has_indexes)
        if indexes not in converts:
            converts[indexes] = compiled(indexes)
        if (convert := converts[indexes]) is not None:
            with suppress(UnfitError):  # whose reason says where, below
                return convert(message, left_out)
            left_out.clear()
        return conform(_message_value(message, target), target, left_out)

    def compiled(indexes: tuple[int, ...]) -> Convert | None:
        try:
            descriptor = types.descriptor(indexes)
            return converter(descriptor, target, _message_type(descriptor, (), [0]), _message_value)
        except UnfitError:
            return None

    def by_rows(
        frame: Frame, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[Column, Reasons]:
        values: list[Any] = []
        reasons: Reasons = {}
        has_indexes = _has_indexes(frame)
        for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            left_out: list[UnfitError] = []
            try:
                values.append(parse(data[start:end].tobytes(), frame.message, has_indexes, left_out))
                if left_out:
                    reasons[row] = left_out[0].reason
            except (DecodeError, ValueError, LookupError, TypeError, RecursionError) as error:
                values.append(None)
                reasons[row] = reason_of(error)
        return column_of_rows(values, target, reasons), reasons

    return _KernelDecoder(types, finder, target, by_rows=by_rows).decode


def _has_indexes(frame: Frame) -> bool:
    return frame.framing == "confluent" or bool(frame.message)


class _KernelDecoder:
    """Decodes what the kernel takes, and by rows what it leaves."""

    def __init__(self, types: MessageTypes, finder: MessageFinder, target: Any, by_rows: PayloadDecoder) -> None:
        self._types, self._finder, self._target, self._by_rows = types, finder, target, by_rows
        self._programs: dict[Indexes, Any] = {}

    def decode(
        self, frame: Frame, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[Column, Reasons]:
        parts: list[Column] = []
        reasons: Reasons = {}
        places = np.full(len(starts), -1, np.int64)
        for rows, at, program in self._groups(frame, data, starts, ends=ends):
            from brokerless.typed.protobuf.columns import decode_messages

            column, is_left = decode_messages(program, data, starts[rows] + at, ends[rows])
            if program.code.output.type != self._target:
                column, finer = cut(column)
                reasons |= {int(rows[row]): reason for row, reason in finer.items()}
            places[rows] = np.where(is_left, -1, np.arange(len(rows)) + sum(map(len, parts)))
            parts.append(column)
        left = np.flatnonzero(places < 0)
        if len(left) == len(starts):
            return self._by_rows(frame, data, starts, ends)
        if len(left):
            column, found = self._by_rows(frame, data, starts[left], ends[left])
            places[left] = np.arange(len(left)) + sum(map(len, parts))
            parts.append(column)
            reasons |= {int(left[row]): reason for row, reason in found.items()}
        if len(parts) == 1:
            return parts[0], reasons
        return pa.concat_arrays(parts).take(pa.array(places)), reasons

    def _groups(
        self, frame: Frame, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], int, Any]]:
        """Payloads of one message with the same bytes before it: their rows, how many bytes these are, and the
        message's program."""
        if not _has_indexes(frame) or frame.message:
            indexes = (0,) if not frame.message else self._indexes_of(frame.message)[0]
            if indexes is not None and (program := self._program(indexes)) is not None and len(starts):
                yield np.arange(len(starts)), 0, program
            return
        rows = np.arange(len(starts))
        for _ in range(_MOST_KINDS):
            if not len(rows):
                return
            first = slice(int(starts[rows[0]]), int(min(ends[rows[0]], starts[rows[0]] + _LONGEST_INDEXES)))
            begin = data[first].tobytes()
            indexes, size = self._indexes_of(begin)
            if indexes is None:
                rows = rows[1:]
                continue
            is_same = ends[rows] - starts[rows] >= size
            for at in range(size):
                is_same[is_same] = data[starts[rows[is_same]] + at] == begin[at]
            if (program := self._program(indexes)) is not None:
                yield rows[is_same], size, program
            rows = rows[~is_same]

    def _indexes_of(self, data: bytes) -> tuple[Indexes | None, int]:
        """The indexes at the beginning of a payload, and where they end; None where they are none, or a guess."""
        try:
            found = next(self._finder.candidates(data))
        except ValueError:
            return None, 0
        return (None, 0) if found.is_guess else (found.indexes, found.start)

    def _program(self, indexes: Indexes) -> Any:
        """The program of a message; None for one that is decoded by rows."""
        if indexes not in self._programs:
            from brokerless.typed.avro.program import NoProgramError
            from brokerless.typed.protobuf.program import compile_program

            try:
                descriptor = self._types.descriptor(indexes)
                own = _message_type(descriptor, (), [0])
                program = compile_program(descriptor, as_written(self._target, own), own)
            except (NoProgramError, ValueError):
                program = None
            self._programs[indexes] = program
        return self._programs[indexes]
