"""JSON that Arrow reads is what Python reads, value by value; all else comes from Python."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from brokerless.typed.framing import Frame
from brokerless.typed.json.columns import json_decoder, lines_of, not_of_type
from brokerless.typed.merge import merge_types, without_nulls
from brokerless.typed.payloads import rows_decoder
from brokerless.typed.plain import infer, parse_json

FRAME = Frame("", 0)
names = st.sampled_from(["a", "b", "A", "é", 'q"', "\\", "\n", ""])
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.integers(-(1 << 70), 1 << 70), st.text(max_size=4),
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([-0.0, 1e300, 5e-324, 1e16, 0.1]),
)  # fmt: skip
members = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)
objects = st.dictionaries(names, members, max_size=4)


def texts(value: Any) -> st.SearchStrategy[bytes]:
    ways: list[dict[str, Any]] = [{}, {"ensure_ascii": False}, {"separators": (",", ":")}, {"indent": 1}]
    return st.sampled_from(ways).map(lambda way: json.dumps(value, **way).encode(errors="surrogatepass"))


ODD = [
    b"",
    b"{}",
    b"{",
    b"}",
    b"[]",
    b'{"a":1}{"a":2}',
    b'{"a":1',
    b'{"a":1}}',
    b'{"a":1,"a":2}',
    b'{"a":1} ',
    b' {"a":1}',
    b'{"a":01}',
    b'{"a":-0}',
    b'{"a":-0.0}',
    b'{"a":1.}',
    b'{"a":.5}',
    b'{"a":+1}',
    b'{"a":1e400}',
    b'{"a":1E2}',
    b'{"a":NaN}',
    b'{"a":-Infinity}',
    b'{"a":"\\ud800"}',
    b'{"a":"\\ud83d\\ude00"}',
    b'{"a":"\\u0000"}',
    b'{"a":"\\x"}',
    b'{"a":"\x01"}',
    b'{"a":"\xff"}',
    b'{"\xc3":1}',
    b"{'a':1}",
    b'{"a":1,}',
    b'{"a":[1,]}',
    b'{"a":1/**/}',
    b'{"a" : 1 , "b":true}',
    b'{"a":tru}',
    b'{"a":9223372036854775807}',
    b'{"a":9223372036854775808}',
    b'{"a":12345678901234567890.5}',
    b'{"a":"2026-01-01"}',
    b'{"a":-}',
    b'{"a":--1}',
    b'{"a":1-2}',
    b'{"a":1.2.3}',
    b'{"a":"x}',
    b'{"a":"\\"}',
    b'{"a":{"b":[{"a":null}]}}',
    b'\xef\xbb\xbf{"a":1}',
    b'{"a":Inf}',
    b'{"a":nan}',
    b'{"a":null,"b":null}',
    b'{"a":1}\n',
    b'{"a":\t1}',
    b'{"a":1;"b":true}',
    b'{"a":[1}]',
]
payloads = st.lists(objects.flatmap(texts) | st.sampled_from(ODD), max_size=12)


def columns(values: list[bytes]) -> Any:
    ends = np.cumsum([0, *map(len, values)])
    return np.frombuffer(b"".join(values), np.uint8), ends[:-1].astype(np.int64), ends[1:].astype(np.int64)


def type_of(values: list[bytes]) -> pa.DataType:
    found: list[pa.DataType] = []
    for value in values:
        try:
            found.append(infer(parse_json(value)))
        except (ValueError, RecursionError):
            continue
    return merge_types(found)


@examples(200)
@given(payloads, payloads)
def test_columns_are_those_of_rows(typing: list[bytes], values: list[bytes]) -> None:
    for type_ in (type_of(typing), type_of(values)):
        own = without_nulls(type_)
        found, reasons = json_decoder(own)(FRAME, *columns(values))
        expected, why = rows_decoder(parse_json, own)(FRAME, *columns(values))
        assert repr(found.to_pylist()) == repr(expected.to_pylist())
        assert (found.type, reasons) == (expected.type, why)
        others = not_of_type(type_, *columns(values)).tolist()
        known = [value for row, value in enumerate(values) if row not in others]
        assert merge_types([type_, type_of(known)]) == type_


@pytest.mark.parametrize("value", ODD)
def test_odd_ones_alone(value: bytes) -> None:
    type_ = pa.struct([("a", pa.float64()), ("b", pa.bool_())])
    found, reasons = json_decoder(type_)(FRAME, *columns([value]))
    expected, why = rows_decoder(parse_json, type_)(FRAME, *columns([value]))
    assert (repr(found.to_pylist()), reasons) == (repr(expected.to_pylist()), why)


def test_of_many_rows_those_that_arrow_refuses_are_parsed_by_themselves() -> None:
    values = [json.dumps({"a": row, "b": [{"c": "x" * (row % 7)}]}).encode() for row in range(3000)]
    type_ = type_of(values)
    values[700], values[2500] = b'{"a":"text"}', b"no JSON"
    values[900] = b'{"a":1}{"a":2}'
    found, reasons = json_decoder(type_)(FRAME, *columns(values))
    assert sorted(reasons) == [700, 900, 2500]
    assert [row["a"] for row in found.to_pylist() if row] == [row for row in range(3000) if row not in reasons]
    assert {700, 900, 2500} <= set(not_of_type(type_, *columns(values)).tolist())


def test_lines_are_those_of_single_objects() -> None:
    lines, ends = lines_of(*columns([b'{"a":1}', b"", b'{"b":"{"}', b'{"a":1} ', b"{}"]))
    assert lines.tobytes() == b'{"a":1}\n{"b":"{"}\n{}\n'
    assert ends.tolist() == [8, -1, 18, -1, 21]
