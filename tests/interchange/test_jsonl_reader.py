"""JSON Lines become the rows that ``cat --json`` wrote, and what is no such line is refused with its number."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.golden import broker_data

import brokerless
from brokerless.errors import UnreadableError
from brokerless.interchange import jsonl_reader, jsonl_writer
from brokerless.interchange.jsonl_reader import read_lines
from brokerless.schemas import RECORDS


def read(*lines: str | bytes, mode: Any = "auto") -> list[dict[str, Any]]:
    text = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
    return [row for batch in read_lines(io.BytesIO(text), "f", mode) for row in batch.to_pylist()]


def refused(*lines: str | bytes, mode: Any = "auto") -> str:
    with pytest.raises(UnreadableError) as error:
        read(*lines, mode=mode)
    return str(error.value)


BYTES = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "topic": st.sampled_from(["t", "a.b"]),
            "partition": st.integers(0, 2**31 - 1),
            "offset": st.integers(0, 2**63 - 1),
            "timestamp": st.integers(-1, 2**63 - 1),
            "timestampType": st.sampled_from([-1, 0, 1]),
            "key": BYTES,
            "value": BYTES,
            "headers": HEADERS.map(lambda pairs: [{"key": key, "value": value} for key, value in pairs]),
            "isControl": st.just(False),
        }
    ),
    min_size=1,
    max_size=10,
)
NAMES = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers", "isControl"]


@given(rows=ROWS, mode=st.sampled_from(["auto", "base64"]))
def test_what_was_written_is_read_again(rows: list[dict[str, Any]], mode: Any) -> None:
    schema = pa.schema([RECORDS.field(name) for name in NAMES])
    batch = pa.RecordBatch.from_pylist(rows, schema)
    text = b"".join(bytes(piece) for piece in jsonl_writer.records(batch, mode))
    (found,) = read_lines(io.BytesIO(text), "f", mode)
    types = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
    assert found.select(NAMES).to_pylist() == [row | {"timestampType": types[row["timestampType"]]} for row in rows]


def test_what_a_terminal_may_obey_is_escaped_and_read_back_at_once() -> None:
    codes = [*range(0x7F, 0xA1), 0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
    text = "".join(f"a{chr(code)}" for code in codes)
    row = {"key": text.encode(), "value": text.encode() * 9, "headers": [{"key": text, "value": text.encode()}]}
    batch = pa.RecordBatch.from_pylist([row], pa.schema([RECORDS.field(name) for name in row]))
    written = b"".join(bytes(piece) for piece in jsonl_writer.records(batch))
    assert written.decode().count("\\u") == 12 * (len(codes) - 1)  # U+00A0 is a space
    for line in (written, json.dumps(json.loads(written), separators=(",", ":")).encode() + b"\n"):
        rows = at_once(line, "auto")
        assert rows == one_by_one(line, "auto")
        assert rows is not None
        assert {name: rows[0][name] for name in row} == row


def one_by_one(text: bytes, mode: Any) -> list[dict[str, Any]] | None:
    """The rows of lines that are parsed one by one; None if one of them is refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl_reader, "_read_at_once", lambda *_: None)
        try:
            (batch,) = read_lines(io.BytesIO(text), "f", mode)
        except UnreadableError:
            return None
    return batch.to_pylist()


def at_once(text: bytes, mode: Any) -> list[dict[str, Any]] | None:
    batch = jsonl_reader._read_at_once(text, mode)
    if batch is not None:
        batch.validate(full=True)
    return batch and batch.to_pylist()


TEXTS = st.text(max_size=12) | st.text('\\"/\0\x1f\x7fü\u20ac🦀n', max_size=12)
MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "file": TEXTS,
    "topic": st.none() | TEXTS,
    "partition": st.none() | st.integers(0, 9),
    "batchPosition": st.integers(0, 10**18 - 1),
    "offset": st.none() | st.integers(-(10**18) + 1, 10**18 - 1),
    "timestamp": st.integers(-1, 10**13),
    "timestampType": st.sampled_from([None, "CreateTime", "?"]),
    "key": st.none() | TEXTS | st.builds(lambda data: {"base64": b64encode(data).decode()}, st.binary(max_size=9)),
    "value": st.none() | TEXTS,
    "headers": st.none() | st.lists(st.tuples(TEXTS, st.none() | TEXTS), max_size=3),
    "sequence": st.integers(-1, 9),
    "isControl": st.booleans(),
}


@st.composite
def written(draw: st.DrawFn) -> bytes:
    """Lines without spaces, with the same members in any order."""
    others = draw(st.lists(st.sampled_from(sorted({*MEMBERS} - {"value"})), unique=True))
    names = draw(st.permutations([*others, "value"]))
    rows = draw(st.lists(st.fixed_dictionaries({name: MEMBERS[name] for name in names}), min_size=1, max_size=4))
    is_ascii = draw(st.booleans())
    lines = [json.dumps(row, ensure_ascii=is_ascii, separators=(",", ":")) for row in rows]
    return "".join(line + "\n" for line in lines).encode(errors="surrogatepass")


@examples(300)
@given(text=written())
def test_lines_without_spaces_are_read_at_once_and_as_one_by_one(text: bytes) -> None:
    found = at_once(text, "auto")
    assert found is not None
    assert found == one_by_one(text, "auto")


@examples(300)
@given(
    text=written(),
    at=st.floats(0, 1),
    by=st.sampled_from([*b'\\"{}[],:0n-u/= \n', 0, 0x80, 0xED]),
    mode=st.sampled_from(["auto", "base64"]),
)
def test_what_is_read_at_once_is_never_what_would_be_refused(text: bytes, at: float, by: int, mode: Any) -> None:
    broken = bytearray(text)
    broken[min(int(at * len(text)), len(text) - 1)] = by
    found = at_once(bytes(broken), mode)
    assert found is None or found == one_by_one(bytes(broken), mode)


def test_what_cat_writes_is_read_at_once() -> None:
    log = brokerless.open(broker_data("clean"))
    for mode in ("auto", "base64"):
        pieces = [
            bytes(piece) for batch in log.partition("txn", 0).records() for piece in jsonl_writer.records(batch, mode)
        ]
        text = b"".join(pieces)
        found = at_once(text, mode)
        assert found is not None
        assert found == one_by_one(text, mode)


def test_only_a_value_has_to_be_there() -> None:
    assert read('{"value":"v"}', '{"value":null}') == [
        {"key": None, "value": value, "headers": [], "isControl": False} for value in (b"v", None)
    ]


def test_any_json_of_a_record_is_read_whoever_wrote_it() -> None:
    (row,) = read('  {"headers" : null ,"value"\t: "\\u00fc\\ud83e\\udd80\\/\\n", "offset": -0, "file": 5}\r')
    assert (row["value"], row["offset"], row["headers"]) == ("ü🦀/\n".encode(), 0, [])


def test_strings_are_base64_where_that_is_said() -> None:
    line = '{"key":"AP8=","value":{"base64":"/w=="},"headers":[["k","AA=="]]}'
    (row,) = read(line, mode="base64")
    assert row["key"], row["value"] == (b"\x00\xff", b"\xff")
    assert row["headers"] == [{"key": "k", "value": b"\0"}]
    assert read(line)[0]["key"] == b"AP8="


def test_a_line_that_says_what_a_control_record_is_becomes_one() -> None:
    rows = read(
        '{"value":"","control":{"type":"COMMIT"}}', '{"value":"","control":null}', '{"value":"","isControl":true}'
    )
    assert [row["isControl"] for row in rows] == [True, False, True]


@pytest.mark.parametrize("size", [0, 1, 2, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_lines_of_any_length_and_a_last_one_without_its_end(size: int) -> None:
    lines = [json.dumps({"value": "x" * size}), '{"value":"y"}', json.dumps({"value": "z" * size})]
    stream = io.BytesIO("\n".join(lines).encode())
    values = [row["value"] for batch in read_lines(stream, "f") for row in batch.to_pylist()]
    assert values == [b"x" * size, b"y", b"z" * size]
    assert read() == []


@pytest.mark.parametrize("most", [100, 1 << 20, 2_500_000])
@pytest.mark.parametrize("end", [b"\n", b""])
@pytest.mark.parametrize("before", [0, 1, 100, 150_000])
def test_a_line_longer_than_the_limit_is_refused_with_its_number(most: int, end: bytes, before: int) -> None:
    def lines(size: int) -> io.BytesIO:
        line = b'{"value":"' + b"x" * (size - len(b'{"value":""}')) + b'"}'
        assert len(line) == size
        return io.BytesIO(b'{"value":"short"}\n' * before + line + end)

    batches = list(read_lines(lines(most), "f", max_line_bytes=most))
    assert sum(batch.num_rows for batch in batches) == before + 1
    found: list[pa.RecordBatch] = []
    with pytest.raises(UnreadableError, match=f"^f, line {before + 8}: it is longer than {most} bytes"):
        found.extend(read_lines(lines(most + 1), "f", lines_before=lambda: 7, max_line_bytes=most))


def test_lines_before_one_that_is_too_long_are_read() -> None:
    batches = read_lines(io.BytesIO(b'{"value":"a"}\n' * 100_000 + b"x" * 200 + b"\n"), "f", max_line_bytes=100)
    rows: list[int] = []
    with pytest.raises(UnreadableError, match=r"^f, line 100001: it is longer"):
        rows.extend(batch.num_rows for batch in batches)
    assert sum(rows) == 100_000


REFUSED = [
    (b"", "this line is empty"),
    (b'{"value":"a"', "this is not JSON"),
    (b'{"value":"a"} {"value":"b"}', "this is not JSON"),
    (b'{"value":"\xff"}', "this is not JSON"),
    (b'{"value":"a\tb"}', "this is not JSON"),
    (b'{"value":NaN}', "this is not JSON"),
    (b'{"value":' + b"[" * 100_000, "this is not JSON"),
    (b'{"offset":' + b"9" * 10_000 + b"}", "this is not JSON"),
    (b"null", "this is not a JSON object"),
    (b"[1]", "this is not a JSON object"),
    (b'{"key":"k"}', "there is no 'value'"),
    (b'{"value":"v","val":1}', "a record has no 'val'"),
    (b'{"value":"v","value":"w"}', "a JSON object has one name twice"),
    (b'{"value":5}', "'value' is neither a string nor null nor {\"base64\": \"...\"}"),
    (b'{"value":{"base64":"AA==","x":1}}', "'value' is neither"),
    (b'{"value":{"base64":5}}', "'value' is neither"),
    (b'{"value":{"length":5,"hash":"x"}}', "'value' is neither"),
    (b'{"value":{"base64":"A"}}', "'value' is not base64"),
    (b'{"value":{"base64":"AA==AA=="}}', "'value' is not base64"),
    (b'{"value":{"base64":"A\\u00fc=="}}', "'value' is not base64"),
    (b'{"value":"v","key":"\\ud800"}', "'key' has half a surrogate pair"),
    (b'{"value":"v","headers":"a"}', "'headers' is not a list of pairs"),
    (b'{"value":"v","headers":[["a"]]}', "'headers' is not a list of pairs"),
    (b'{"value":"v","headers":[[null,"a"]]}', "'headers' is not a list of pairs"),
    (b'{"value":"v","headers":[["a",1]]}', "'headers' is neither"),
    (b'{"value":"v","headers":{"a":"b"}}', "'headers' is not a list of pairs"),
    (b'{"value":"v","offset":1.0}', "'offset' is not a 64-bit integer"),
    (b'{"value":"v","offset":true}', "'offset' is not a 64-bit integer"),
    (b'{"value":"v","offset":"1"}', "'offset' is not a 64-bit integer"),
    (b'{"value":"v","timestamp":9223372036854775808}', "'timestamp' is not a 64-bit integer"),
    (b'{"value":"v","topic":5}', "'topic' is not a string"),
    (b'{"value":"v","isControl":1}', "'isControl' is neither true nor false"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "reason"), REFUSED)
def test_a_line_that_is_no_record_is_refused_with_its_number(line: bytes, reason: str) -> None:
    text = refused('{"value":"a"}', '{"value":"b"}', line, '{"value":"c"}')
    assert text.startswith(f"f, line 3: {reason}")


def test_strings_that_should_be_base64_and_are_not_are_refused() -> None:
    assert refused('{"value":"not base64"}', mode="base64") == "f, line 1: 'value' is not base64"


def test_lines_are_counted_over_all_that_is_read() -> None:
    good = [json.dumps({"value": "x" * 999})] * 5000
    assert refused(*good, "{}").startswith("f, line 5001: ")
