"""Random schemas and messages: the kernel's columns are what decoding row by row with Google's parser makes of them.

``python -m tests.typed.protobuf.random_messages SEEDS [FIRST]`` prints the counts; the suite tries a few. Schemas have
all kinds of fields: of proto2 and proto3, repeated ones, packed or not, ``oneof``, maps, enums with negative numbers,
groups, messages in messages and within themselves, wrappers, times and ``google.protobuf.Struct``. Messages are
serialized by Google's library, and by a client that has other fields, and some are changed: two of them after one
another, cut off, with flipped bits, with unknown fields. Columns may have more fields than a message, or lack one.
"""

from __future__ import annotations

import base64
import random
import struct
import sys
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2

from brokerless.typed.framing import Frame
from brokerless.typed.protobuf import decoder as protobuf
from brokerless.typed.protobuf.files import message_types
from brokerless.typed.registry import Schema
from brokerless.typed.times import in_microseconds

Types = descriptor_pb2.FieldDescriptorProto
SCALARS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 18]
KEYS = [3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 18]
GOOGLE = [
    "Timestamp",
    "StringValue",
    "UInt64Value",
    "Int32Value",
    "BoolValue",
    "BytesValue",
    "DoubleValue",
    "Struct",
    "Duration",
]
FILES = {"Timestamp": "timestamp", "Struct": "struct", "Duration": "duration"}
INTS = [
    0,
    1,
    -1,
    127,
    128,
    -129,
    1 << 31,
    -(1 << 31),
    (1 << 31) - 1,
    (1 << 32) - 1,
    (1 << 63) - 1,
    -(1 << 63),
    (1 << 64) - 1,
]
TEXTS = ["", "a", "é", "user-4711", "\0", "x" * 200, "\U0001f600"]
FRAME = Frame("confluent", 7)


def random_file(chance: random.Random) -> Any:
    """A file with a few messages, the first of which is the outermost."""
    file = descriptor_pb2.FileDescriptorProto(name="random.proto", package="r")
    is_new = chance.random() < 0.7
    file.syntax = "proto3" if is_new else "proto2"
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in ("timestamp", "struct", "duration", "wrappers"))
    enum = file.enum_type.add(name="E")
    numbers = [0, *chance.sample([-3, -1, 1, 2, 3, 7, 40, 1 << 20 if chance.random() < 0.2 else 5], 4)]
    for place, number in enumerate(numbers):
        enum.value.add(name=f"N{place}", number=number)
    if chance.random() < 0.3:
        enum.options.allow_alias = True
        enum.value.add(name="ALIAS", number=numbers[1])
    count = chance.randrange(1, 5)
    for place in range(count):
        _fill(chance, file.message_type.add(name=f"M{place}"), place, count, is_new=is_new)
    return file


def _fill(chance: random.Random, message: Any, place: int, count: int, *, is_new: bool) -> None:
    ways = chance.randrange(3)
    if ways:
        message.oneof_decl.add(name="way")
    synthetic: list[Any] = []
    numbers = chance.sample([*range(1, 30), 100, 2000], chance.randrange(1, 12))
    for at, number in enumerate(numbers):
        field = message.field.add(name=f"f{at}", number=number, label=Types.LABEL_OPTIONAL)
        kind = chance.random()
        if kind < 0.55:
            field.type = chance.choice(SCALARS)
        elif kind < 0.7:
            field.type, field.type_name = Types.TYPE_ENUM, ".r.E"
        elif kind < 0.8 and (place + 1 < count or chance.random() < 0.3):
            inner = (
                chance.randrange(place + 1, count) if place + 1 < count else 0
            )  # the first one is within itself then
            field.type, field.type_name = Types.TYPE_MESSAGE, f".r.M{inner}"
        elif kind < 0.9:
            field.type, field.type_name = Types.TYPE_MESSAGE, f".google.protobuf.{chance.choice(GOOGLE)}"
        elif kind < 0.95:
            _make_map(chance, message, field, place, count)
            continue
        elif not is_new and chance.random() < 0.5:
            inner = message.nested_type.add(name=f"G{at}")
            inner.field.add(name="x", number=1, type=Types.TYPE_INT32, label=Types.LABEL_OPTIONAL)
            field.type, field.type_name = Types.TYPE_GROUP, f".r.{message.name}.G{at}"
        else:
            field.type = Types.TYPE_INT64
        form = chance.random()
        if form < 0.25:
            field.label = Types.LABEL_REPEATED
            if field.type not in (9, 10, 11, 12):
                field.options.packed = chance.random() < 0.5
        elif form < 0.45 and ways and field.type != Types.TYPE_GROUP:
            field.oneof_index = 0
        elif form < 0.6 and is_new and field.type != Types.TYPE_MESSAGE:
            field.proto3_optional = True
            synthetic.append(field)
        elif form < 0.62 and not is_new:
            field.label = Types.LABEL_REQUIRED
    if ways and not any(field.HasField("oneof_index") for field in message.field):
        message.field.add(name="own", number=50, type=Types.TYPE_BOOL, label=Types.LABEL_OPTIONAL, oneof_index=0)
    for field in synthetic:
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")
    if not is_new and chance.random() < 0.05:
        message.extension_range.add(start=3000, end=4000)


def _make_map(chance: random.Random, message: Any, field: Any, place: int, count: int) -> None:
    name = f"{field.name.upper()}Entry"
    entry = message.nested_type.add(name=name)
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=chance.choice(KEYS), label=Types.LABEL_OPTIONAL)
    value = entry.field.add(name="value", number=2, label=Types.LABEL_OPTIONAL)
    if place + 1 < count and chance.random() < 0.4:
        value.type, value.type_name = Types.TYPE_MESSAGE, f".r.M{count - 1}"
    elif chance.random() < 0.2:
        value.type, value.type_name = Types.TYPE_ENUM, ".r.E"
    else:
        value.type = chance.choice(SCALARS)
    field.label, field.type, field.type_name = Types.LABEL_REPEATED, Types.TYPE_MESSAGE, f".r.{message.name}.{name}"


def other_version(chance: random.Random, file: Any) -> Any:
    """The file of another client: packed where that is not, without some fields, with others."""
    other = descriptor_pb2.FileDescriptorProto.FromString(file.SerializeToString())
    for message in other.message_type:
        for field in message.field:
            if field.options.HasField("packed"):
                field.options.packed = not field.options.packed
            if chance.random() < 0.1 and not field.type_name and not field.HasField("oneof_index"):
                field.number += 60
    return other


def messages_of(file: Any) -> Any:
    """The outermost message's class."""
    text = base64.b64encode(file.SerializeToString()).decode()
    return message_types(Schema("s", 1, 7, "PROTOBUF", text))


def fill(chance: random.Random, message: Any, depth: int = 0) -> None:
    """Set some of a message's fields."""
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.4 or (depth > 3 and field.message_type is not None):
            continue
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if is_map:
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            for _ in range(chance.choice((0, 1, 1, 2, 5))):
                if value.message_type is None:
                    getattr(message, field.name)[_scalar(chance, key)] = _scalar(chance, value)
                else:
                    fill(chance, getattr(message, field.name)[_scalar(chance, key)], depth + 1)
        elif field.is_repeated:
            for _ in range(chance.choice((0, 1, 2, 5))):
                if field.message_type is None:
                    getattr(message, field.name).append(_scalar(chance, field))
                else:
                    _fill_message(chance, getattr(message, field.name).add(), depth + 1)
        elif field.message_type is None:
            setattr(message, field.name, _scalar(chance, field))
        else:
            getattr(message, field.name).SetInParent()
            _fill_message(chance, getattr(message, field.name), depth + 1)


def _fill_message(chance: random.Random, message: Any, depth: int) -> None:
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        message.seconds = chance.choice((0, 1_700_000_000, -5, 253_402_300_799, 1 << 40, 1 << 33, 9_223_372_037))
        message.nanos = chance.choice((0, 5, 999_999_999, -1, 1_000_000_000))
    elif name == "google.protobuf.Struct":
        message.update({"a": 1, "b": [None, "x"]})
    else:
        fill(chance, message, depth)


def _scalar(chance: random.Random, field: Any) -> Any:
    if field.enum_type is not None:
        known = [each.number for each in field.enum_type.values]
        return chance.choice(known if field.enum_type.is_closed else [*known, 99, -77])
    if field.type in (1, 2):
        return chance.choice((0.0, -0.0, 1.5, float("inf"), 1e300 if field.type == 1 else 3e38, 0.1))
    if field.type == 8:
        return chance.random() < 0.5
    if field.type == 9:
        return chance.choice(TEXTS)
    if field.type == 12:
        return chance.choice((b"", b"\xff\0", b"y" * 70))
    is_unsigned, bits = field.type in (4, 6, 7, 13), 32 if field.type in (5, 7, 13, 15, 17) else 64
    low, high = (0, (1 << bits) - 1) if is_unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return chance.choice([each for each in INTS if low <= each <= high])


def payload(chance: random.Random, kinds: list[Any]) -> bytes:
    """A message as its bytes, some of them changed."""
    one, other = chance.choice(kinds)(), chance.choice(kinds)()
    fill(chance, one)
    fill(chance, other)
    data = bytearray(one.SerializePartialToString())
    form = chance.random()
    if form < 0.06:
        data += other.SerializePartialToString()
    elif form < 0.1:
        del data[chance.randrange(len(data) + 1) :]
    elif form < 0.2 and data:
        for _ in range(chance.choice((1, 3))):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif form < 0.23:
        data += bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
    elif form < 0.28:
        data += chance.choice(
            (b"\xfa\x7f\x02hi", b"\xf8\x7f\x80\x00", b"\xfb\x7f\xfc\x7f", b"\xfd\x7f\1\2\3\4", b"\xf9\x7f12345678")
        )
    return (
        b"\0" + bytes(data) if chance.random() < 0.98 else chance.choice((b"", b"\2\0", b"\2\2", b"\1\0")) + bytes(data)
    )


def random_target(chance: random.Random, type_: Any, depth: int = 0) -> Any:
    """The type with a few more fields, or one less."""
    if pa.types.is_list(type_):
        return pa.list_(random_target(chance, type_.value_type, depth + 1))
    if pa.types.is_map(type_):
        return pa.map_(type_.key_type, random_target(chance, type_.item_type, depth + 1))
    if not pa.types.is_struct(type_):
        return type_
    fields = [field.with_type(random_target(chance, field.type, depth + 1)) for field in type_]
    if chance.random() < 0.5:
        more = [
            pa.field(f"more{at}", chance.choice((pa.string(), pa.list_(pa.int64()), pa.struct([("a", pa.int32())]))))
            for at in range(2)
        ]
        fields += more
    if chance.random() < 0.03:
        fields = fields[:-1]
    return pa.struct(fields)


def plain(value: Any) -> Any:
    """A value that equals another one's where all bits are the same; maps have no order."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(each, tuple) for each in value):
            return sorted(((key, plain(each)) for key, each in value), key=lambda pair: str(pair[0]))
        return [plain(each) for each in value]
    return value


def rows_of(column: Any) -> list[Any]:
    from brokerless import arrow

    return [plain(each) for each in arrow.values(column)]


def try_seed(seed: int) -> Counter[str]:
    """Compare both on one schema; return how much there was."""
    chance, counts = random.Random(seed), Counter[str]()
    file = random_file(chance)
    text = base64.b64encode(file.SerializeToString()).decode()
    schema = Schema("s", 1, 7, "PROTOBUF", text)
    kinds = [messages_of(file).message_class((0,)), messages_of(other_version(chance, file)).message_class((0,))]
    target = random_target(chance, protobuf.protobuf_arrow_type(schema))
    if chance.random() < 0.3:
        target = in_microseconds(target)
    payloads = [payload(chance, kinds) for _ in range(40)]
    ends = np.cumsum([len(each) for each in payloads])
    starts = ends - [len(each) for each in payloads]
    data = np.frombuffer(b"".join(payloads) + b" ", np.uint8)
    by_kernel: Any = protobuf.protobuf_decoder(schema, target)
    found, reasons = by_kernel(FRAME, data, starts, ends)
    expected, of_rows = by_kernel.__self__._by_rows(FRAME, data, starts, ends)
    found.validate(full=True)
    for row, (one, other) in enumerate(zip(rows_of(found), rows_of(expected), strict=True)):
        assert one == other, (seed, row, payloads[row], one, other, file)
    assert reasons == of_rows, (seed, reasons, of_rows)
    counts["messages"] += len(payloads)
    counts["refused"] += len(reasons)
    for rows, at, program in by_kernel.__self__._groups(FRAME, data, starts, ends):
        from brokerless.typed.protobuf.columns import decode_messages

        _, is_left = decode_messages(program, data, starts[rows] + at, ends[rows])
        counts["by the kernel"] += int((~is_left).sum())
    return counts


def main(seeds: int, first: int = 0) -> None:
    counts = Counter[str]()
    for seed in range(first, first + seeds):
        counts += try_seed(seed)
    print(seeds, "seeds:", ", ".join(f"{count} {name}" for name, count in counts.items()))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
