"""JSON Lines of records: Python's own json and base64 say what a line must be, byte for byte."""

from __future__ import annotations

import base64
import json
import re
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.examples import examples
from tests.views.rows import NAMES, Row, batch_of, record

from brokerless import schemas
from brokerless.interchange import jsonl_writer

OBEYED = [*range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
"""Code points that a terminal may obey; JSON does not ask for them to be escaped, issue 16 does."""
COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
OBEYED_CHARACTER = re.compile(f"[{''.join(map(chr, OBEYED))}]")

int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
# Those that are escaped, and the ones beside them in UTF-8, are met often.
near = sorted({chr(code + step) for code in OBEYED for step in (-1, 0, 1)})
texts = st.text(st.characters(codec="utf-8") | st.sampled_from(near), max_size=80)
data = st.binary(max_size=40) | texts.map(str.encode)
nullable = st.none() | data
rows = st.lists(
    st.fixed_dictionaries(
        {
            "key": nullable,
            "value": nullable,
            "topic": st.sampled_from([None, "orders", 'wei"rd']),
            "partition": st.none() | st.integers(0, 2),
            "offset": int64,
            "timestamp": int64,
            "timestampType": st.sampled_from([-1, 0, 1]),
            "headers": st.lists(
                st.fixed_dictionaries({"key": texts, "value": nullable}),
                max_size=3,
            ),
            "file": st.sampled_from(["a.log", "ü/b.log"]),
            "batchPosition": int64,
            "sequence": int32,
            "isControl": st.booleans(),
        }
    ),
    min_size=1,
    max_size=12,
)


def twin_of_bytes(value: bytes | None, mode: str) -> Any:
    if value is None:
        return None
    encoded = base64.b64encode(value).decode()
    if mode == "base64":
        return encoded
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": encoded}


def twin(row: Row, columns: Sequence[str], mode: str) -> str:
    line = {name: row[name] for name in jsonl_writer.COLUMNS if name in columns}
    if "timestampType" in line:
        line["timestampType"] = schemas.TIMESTAMP_TYPES[line["timestampType"]]
    for name in ("key", "value"):
        if name in line:
            line[name] = twin_of_bytes(line[name], mode)
    if "headers" in line:
        line["headers"] = [[header["key"], twin_of_bytes(header["value"], mode)] for header in line["headers"]]
    return escaped(COMPACT.encode(line)) + "\n"


def escaped(line: str) -> str:
    return OBEYED_CHARACTER.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def written(batch: pa.RecordBatch, *args: Any) -> str:
    return b"".join(bytes(piece) for piece in jsonl_writer.records(batch, *args)).decode()


@examples(300)
@given(rows, st.sampled_from(["auto", "base64"]), st.sets(st.sampled_from(NAMES)), st.integers(0, 3))
def test_each_record_is_the_line_that_pythons_json_writes(
    rows: list[Row], mode: str, left_out: set[str], skipped: int
) -> None:
    columns = [name for name in NAMES if name not in left_out]
    if not columns:
        return
    batch = batch_of(rows, columns).slice(skipped)
    lines = written(batch, mode)
    assert lines == "".join(twin(row, columns, mode) for row in rows[skipped:])
    assert not set(map(ord, lines)) & {*OBEYED}
    if "value" in columns:
        assert [json.loads(line)["value"] for line in lines.split("\n")[:-1]] == [
            twin_of_bytes(row["value"], mode) for row in rows[skipped:]
        ]


@examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows, st.sampled_from(["auto", "base64"]))
def test_lines_that_outgrow_the_buffer_are_the_same(
    monkeypatch: pytest.MonkeyPatch, rows: list[Row], mode: str
) -> None:
    monkeypatch.setattr(jsonl_writer, "_CAPACITY", 700)
    monkeypatch.setattr(jsonl_writer, "_SLICE", 9)
    assert written(batch_of(rows), mode) == "".join(twin(row, NAMES, mode) for row in rows)


def test_what_is_escaped_is_found_at_every_place_of_a_value_and_at_the_end_of_the_data() -> None:
    texts = [
        "a" * place + special + "b" * (length - place)
        for length in (0, 1, 7, 31, 32, 33, 63, 64, 65, 99)
        for place in range(length + 1)
        for special in ('"', "\\", "\n", "\x00\x1f", "é", '"' * 40, "\x7f", "\x80", "\u061c\u2066é", "\u202e" * 40)
    ]
    rows = [record(value=text.encode()) for text in texts]
    assert written(batch_of(rows, ["value"])) == "".join(twin(row, ["value"], "auto") for row in rows)
    for row in rows[-12:]:  # each as the end of its data
        assert written(batch_of([row], ["value"])) == twin(row, ["value"], "auto")


def test_every_code_point_is_written_and_escaped_where_a_terminal_may_obey_it() -> None:
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    rows = [record(value="".join(map(chr, codes[start : start + 50])).encode()) for start in range(0, len(codes), 50)]
    assert written(batch_of(rows, ["value"])) == "".join(twin(row, ["value"], "auto") for row in rows)


def test_what_is_escaped_is_no_part_of_the_next_value() -> None:
    texts = [b"a" * 40 + b"\xc2", b"\x85" + b"b" * 40, b"c" * 31 + b"\xe2\x80", b"\xae" + b"d" * 99]
    rows = [record(value=text) for text in texts]
    assert written(batch_of(rows, ["value"])) == "".join(twin(row, ["value"], "auto") for row in rows)


def test_numbers_of_every_length_are_written_whole() -> None:
    powers = [10**digits + more for digits in range(19) for more in (-1, 0, 1)]
    numbers = [*powers, *(-number for number in powers), 2**63 - 1, -(2**63)]
    rows = [record(offset=number) for number in numbers]
    lines = written(batch_of(rows, ["offset"])).splitlines()
    assert lines == [f'{{"offset":{number}}}' for number in numbers]


EDGES = [0x00, 0x22, 0x5C, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC]
EDGES += [0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
"""First and last bytes of every range in the Unicode Standard's table of well-formed UTF-8."""


def test_utf8_is_accepted_exactly_where_pythons_strict_decoder_does() -> None:
    values = [bytes([first, second]) for first in range(256) for second in range(256)]
    values += [bytes([first, *second]) for first in EDGES for second in np.ndindex(2, 2)]
    for first in EDGES:
        for second in EDGES:
            values += [bytes([first, second, third, fourth]) for third in EDGES for fourth in (0x41, 0x80, 0xBF, 0xC2)]
    rows = [{"value": b"12345" + value} for value in values]
    assert written(batch_of(rows, ["value"])) == "".join(twin(row, ["value"], "auto") for row in rows)


def test_values_may_be_json_already() -> None:
    row = record(key=b"[1]", value=None, headers=[{"key": "h", "value": b'{"a":1}'}])
    line = json.loads(written(batch_of([row]), "verbatim"))
    assert (line["key"], line["value"], line["headers"]) == ([1], None, [["h", {"a": 1}]])


def test_control_records_say_what_they_control() -> None:
    rows = [record(value=b"1"), record(key=b"k", value=b"v", isControl=True), record(value=b"2")]

    said = [None, {"type": "COMMIT"}, None]
    lines = [json.loads(line) for line in written(batch_of(rows), "auto", said).splitlines()]
    assert [line.get("control") for line in lines] == said
    assert list(lines[1]) == [*jsonl_writer.COLUMNS, "control"]
    assert "control" not in written(batch_of(rows))


@pytest.mark.parametrize("mode", ["auto", "base64"])
def test_one_value_of_100_mb_takes_little_memory_beside_itself(mode: jsonl_writer.BytesMode) -> None:
    size = 100_000_000
    ends = pa.py_buffer(np.array([0, size], dtype=np.int32))
    value = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(np.zeros(size, dtype=np.uint8))])
    batch = pa.RecordBatch.from_arrays([value], names=["value"])
    sum(len(piece) for piece in jsonl_writer.records(batch.slice(0, 0)))
    tracemalloc.start()
    written = sum(len(piece) for piece in jsonl_writer.records(batch, mode))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert written == len('{"value":""}\n') + (6 * size if mode == "auto" else (size + 2) // 3 * 4)
    assert peak < 32 << 20


def test_other_tables_are_written_with_nulls_names_and_milliseconds() -> None:
    row: Row = dict.fromkeys(schemas.SEGMENTS.names)
    row |= {"file": "ä.log", "baseOffset": 7, "sizeInBytes": 9, "validBytes": 8, "batches": 1, "records": None}
    row |= {"magics": [0, 2], "compressions": ["none"], "hasOffsetIndex": True, "hasTimeIndex": False}
    row |= {"hasTransactionIndex": False}
    table = pa.Table.from_pylist([row | {"maxTimestamp": 1600000000123}], schema=schemas.SEGMENTS)
    (batch,) = table.to_batches()
    assert [json.loads(line) for line in b"".join(jsonl_writer.rows(batch)).splitlines()] == [
        row | {"maxTimestamp": 1600000000123}
    ]


def test_a_file_name_that_is_no_utf8_is_escaped() -> None:
    assert jsonl_writer.dumps("a\udcff.log") == '"a\\\\xff.log"'


def test_what_a_terminal_may_obey_is_escaped_in_names_and_findings() -> None:
    codes = [*range(0x80), *range(0x7F, 0xA1), 0x61B, 0x61C, *range(0x200D, 0x2011), *range(0x2029, 0x2030)]
    text = "".join(map(chr, [*codes, *range(0x2065, 0x206B), 0x1F600]))
    written = jsonl_writer.dumps({text: [text]})
    assert json.loads(written) == {text: [text]}
    bidirectional = {0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
    assert not [char for char in written if ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 or ord(char) in bidirectional]
    assert "\u2065" in written
    assert jsonl_writer.dumps("grüße \x7f\x9b\u202e") == '"grüße \\u007f\\u009b\\u202e"'


def test_pieces_that_are_kept_take_about_as_much_memory_as_their_lines() -> None:
    rows = [record(value=b"v"), record(key=b"k", value=b"v", isControl=True)] * 500
    batch, said = batch_of(rows), [{"type": "COMMIT"}] * len(rows)
    before = pa.total_allocated_bytes()
    kept = list(jsonl_writer.records(batch, "auto", said))
    assert b"".join(kept).count(b"\n") == len(rows)
    assert pa.total_allocated_bytes() - before < 8 << 20
