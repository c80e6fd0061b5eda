"""Values without a registry: Connect's JSON has what Connect's own converter was given."""

from __future__ import annotations

import struct
from ctypes import c_float
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from tests.kafka import jars

from brokerless.typed.merge import conform
from brokerless.typed.plain import connect_type, connect_value, parse_json


def bits(number: float) -> bytes:
    return struct.pack(">d", number)


def test_connects_converter_writes_decimals_and_no_numbers_that_are_read_as_they_were_put_in(kafka_jars: Path) -> None:
    lines = jars.run_with_connect(jars.CONNECT_VALUES).decode().splitlines()
    assert len(lines) == 2 * 4 * 7
    for line in lines:
        decimal, number, text = line.split("\t")
        type_ = connect_type(parse_json(text.encode())["schema"])
        (found,) = pa.array([conform(connect_value(text.encode()), type_)], type_).to_pylist()
        expected = Decimal(decimal)
        assert (found["decimal"], found["decimals"]) == (expected, [("a", [expected])])
        assert found["decimal"].as_tuple() == expected.as_tuple()
        ((key, _),) = found["pairs"]
        assert bits(found["double"]) == bits(key) == bits(float(number))
        assert bits(found["float"]) == bits(c_float(float(number)).value)


@pytest.mark.parametrize("text", ["1E-999999999", "12.345", "1E36", "1E+999999999", '"12.34"', "true"])
def test_a_decimal_that_its_scale_does_not_hold_is_refused_not_rounded(text: str) -> None:
    schema = '{"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}'
    with pytest.raises(ValueError, match=r"does not fit|base64"):
        conform(connect_value(f'{{"schema": {schema}, "payload": {text}}}'.encode()), pa.decimal128(38, 2))
