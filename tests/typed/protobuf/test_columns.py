"""What the kernel decodes is what Google's parser makes of it, and what it leaves is decoded row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.examples import some_quick
from tests.typed.protobuf import random_messages
from tests.typed.protobuf.test_decoder import OWN

from brokerless.arrow import Column
from brokerless.typed.avro.program import NoProgramError
from brokerless.typed.protobuf import decoder as protobuf
from brokerless.typed.protobuf.columns import decode_messages
from brokerless.typed.protobuf.files import message_types
from brokerless.typed.protobuf.program import compile_program

LINE = (1, 1)


@pytest.mark.parametrize("seed", some_quick(range(32)))
def test_random_messages_are_decoded_as_row_by_row(seed: int) -> None:
    assert random_messages.try_seed(seed)["messages"]


def decoded(payloads: list[bytes], indexes: tuple[int, ...] = (1,)) -> tuple[Column, list[bool]]:
    type_ = protobuf.protobuf_arrow_type(OWN, indexes)
    program = compile_program(message_types(OWN).descriptor(indexes), type_, type_)
    ends = np.cumsum([len(each) for each in payloads])
    starts = ends - [len(each) for each in payloads]
    column, is_left = decode_messages(program, np.frombuffer(b"".join(payloads) + b" ", np.uint8), starts, ends)
    return column, is_left.tolist()


def line(**fields: Any) -> bytes:
    return message_types(OWN).message_class(LINE)(**fields).SerializeToString()  # type: ignore[call-arg]


def test_what_serializers_write_is_not_left_to_be_decoded_by_rows() -> None:
    order = message_types(OWN).message_class((1,))
    whole = order(id=-5, note="", counts={"x": 1, "y": 2}, state=1, air=b"\xff")  # type: ignore[call-arg]
    whole.lines.add(sku="a", price=0.5)
    whole.lines.add()
    whole.at.FromNanoseconds(1_500_000_000_000_000_001)
    column, is_left = decoded([whole.SerializeToString(), b"", order(post="x").SerializeToString()])  # type: ignore[call-arg]
    assert is_left == [False, False, False]
    first, empty, posted = column.to_pylist()
    assert (first["id"], first["note"], first["state"]) == (-5, "", "PAID")
    assert first["lines"] == [{"sku": "a", "price": 0.5}, {"sku": "", "price": 0.0}]
    assert (empty["id"], empty["note"], empty["lines"], empty["state"], empty["total"]) == (0, None, [], "NEW", None)
    assert (posted["post"], posted["air"]) == ("x", None)


@pytest.mark.parametrize(
    "payload",
    [
        line(sku="a") + line(sku="b"),
        b"\x08\x01",
        b"\x0b\x0c",
        b"\x0a\x01\xff",
        b"\x0a\x05ab",
        b"\x11abc",
        b"\x80",
        b"\x00",
        b"\x0a" + b"\xff" * 10,
        b"\x0f",
    ],
)
def test_what_is_not_plain_is_left(payload: bytes) -> None:
    column, is_left = decoded([line(sku="before"), payload, line(sku="after")], LINE)
    assert is_left == [False, True, False]
    assert [each and each["sku"] for each in column.to_pylist()] == ["before", None, "after"]


def test_unknown_fields_are_passed_over() -> None:
    unknown = b"\xf8\x7f\x01" + b"\xfa\x7f\x02hi" + b"\xf9\x7f12345678" + b"\xfd\x7f1234"
    column, is_left = decoded([unknown + line(sku="a") + unknown], LINE)
    assert not any(is_left)
    assert column.to_pylist() == [{"sku": "a", "price": 0.0}]


def test_a_message_within_itself_is_left_where_it_is_there() -> None:
    order = message_types(OWN).message_class((1,))()
    order.part.id = 2
    assert decoded([b"", order.SerializeToString()])[1] == [False, True]


def test_all_are_left_where_a_map_has_a_key_twice() -> None:
    entry = b"\x22\x05\x0a\x01x\x10\x01"
    assert decoded([entry, entry + entry, b""])[1] == [True, True, True]
    assert decoded([entry, entry + b"\x22\x05\x0a\x01y\x10\x01", b""])[1] == [False, False, False]


def test_a_type_that_lacks_a_field_has_no_program() -> None:
    type_ = protobuf.protobuf_arrow_type(OWN, LINE)
    descriptor = message_types(OWN).descriptor(LINE)
    assert compile_program(descriptor, type_, type_).code.depth
    with pytest.raises(NoProgramError, match="no field price"):
        compile_program(descriptor, pa.struct([type_.field("sku")]), type_)
