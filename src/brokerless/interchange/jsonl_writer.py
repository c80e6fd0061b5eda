"""Writes tables as JSON Lines: one object a line, names as in the schemas, timestamps in milliseconds.

Record batches of any table are written by :func:`rows`, records also (and fast) by :func:`records`. Both give pieces of
output, not lines: a piece may end anywhere, so that one value of 100 MB does not need six times its size.
"""

from __future__ import annotations

import json
import re
from binascii import b2a_base64
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.arrow import Column
from brokerless.format.columns import REUSED, SLACK
from brokerless.schemas import TIMESTAMP_TYPES
from brokerless.text import readable

BytesMode = Literal["auto", "base64", "verbatim"]
"""How keys, values and header values become JSON: ``auto`` gives a string where they are UTF-8 and
``{"base64": "..."}`` where not; ``base64`` a string of base64; ``verbatim`` takes them for JSON already."""

COLUMNS = (
    "file",
    "topic",
    "partition",
    "batchPosition",
    "offset",
    "timestamp",
    "timestampType",
    "key",
    "value",
    "headers",
    "sequence",
)
"""The columns of a record's line, in this order; ``control`` follows for control records."""

LineBuffer = bytes | memoryview

_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""DEL, C1 controls, and what Unicode's bidirectional algorithm obeys (UAX 9): a terminal may obey these."""
_CAPACITY = 1 << 20
_SLICE = 3 << 18
"""Bytes of one long value that are written at once; divisible by 3, so that base64 goes on without padding."""
_MODES: dict[BytesMode, int] = {"auto": 0, "base64": 1, "verbatim": 2}
_BATCH_COLUMNS = COLUMNS[:3]
_ROW_COLUMNS = COLUMNS[3:]
_NO_BYTES = np.empty(0, dtype=np.uint8)
_NO_ENDS = np.zeros(1, dtype=np.int32)


def dumps(value: Any) -> str:
    """Return JSON as it is written everywhere here: no spaces, UTF-8 unescaped, but for controls and what turns text
    around, which are escaped; what is no UTF-8 in the name of a file is written unchanged in a table (see
    :func:`printable.readable`)."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(_readable(value), ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() and "\x7f" not in text else _UNSEEN.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {name: _readable(each) for name, each in cast("dict[str, Any]", value).items()}
    return [_readable(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def rows(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Yield the lines of any table without columns of bytes, such as batches and segments, all columns in their
    order."""
    names = [dumps(name) + ":" for name in batch.schema.names]
    for start in range(0, batch.num_rows, 4096):
        part = batch.slice(start, 4096)
        columns = [[name + text for text in _texts(column)] for name, column in zip(names, part.columns, strict=True)]
        yield "".join("{" + ",".join(fields) + "}\n" for fields in zip(*columns, strict=True)).encode()


def begin_compiling() -> None:
    """Has the kernel that :func:`records` will call compiled while records are read, where no cache has it."""
    from brokerless.format import kernel
    from brokerless.interchange.jsonl_writer_kernels import write_rows

    kernel.begin_compiling([write_rows])


def records(
    batch: pa.RecordBatch, mode: BytesMode = "auto", controls: Sequence[Any] | None = None
) -> Iterator[LineBuffer]:
    """Yield the lines of records: those of :data:`COLUMNS` that ``batch`` has, in this order.

    ``batch`` has columns of ``schemas.RECORDS``. ``controls``: for each row what is written as its ``control``, where
    ``isControl`` is true (see ``controls.py``).

    A piece stays what it is: its memory is used again when nothing refers to it any more.
    """
    if not batch.num_rows:
        return
    for start, length, is_control in _runs(batch):
        part = batch.slice(start, length)
        if is_control and controls is not None:
            for row in range(length):
                yield from _one_record(part, row, mode, f',"control":{dumps(controls[start + row])}')
        else:
            yield from _run(part, mode)


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[int, int, bool]]:
    """Rows that follow one another and agree in file, topic, partition and in whether they are control records."""
    changes = np.zeros(batch.num_rows, dtype=np.bool_)
    for name in (*_BATCH_COLUMNS, "isControl"):
        if name in batch.schema.names:
            column = batch.column(name)
            if column.null_count < batch.num_rows and not arrow.is_repeated(column):
                codes = _codes(column)
                changes[1:] |= codes[1:] != codes[:-1]
    changes[0] = True
    starts = np.flatnonzero(changes)
    ends = np.append(starts[1:], batch.num_rows)
    controls = batch.column("isControl") if "isControl" in batch.schema.names else None
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield start, end - start, controls is not None and bool(controls[start].as_py())


def _codes(column: Column) -> NDArray[Any]:
    """Numbers that are equal where the column's values are; -1 for null."""
    if pa.types.is_boolean(column.type):
        return arrow.flags(column)
    if pa.types.is_string(column.type):
        numbers: dict[str | None, int] = {None: -1}
        return np.array([numbers.setdefault(text, len(numbers)) for text in arrow.values(column)], np.int64)
    if column.null_count:
        return np.array([-1 if code is None else code for code in arrow.values(column)], np.int64)
    return arrow.numbers(column, np.int32)


def _run(batch: pa.RecordBatch, mode: BytesMode) -> Iterator[LineBuffer]:
    from brokerless.interchange.jsonl_writer_kernels import write_rows

    texts, ends = _fixed_texts(batch)
    used = np.zeros(1, dtype=np.int64)
    arguments: tuple[Any, ...] = (
        *(_numbers(batch, name, np.int64) for name in ("batchPosition", "offset", "timestamp")),
        _numbers(batch, "timestampType", np.int32),
        *_nullable(_column(batch, "key")),
        *_nullable(_column(batch, "value")),
        *_headers(_column(batch, "headers")),
        _numbers(batch, "sequence", np.int32),
        _MODES[mode],
    )
    row = 0
    while row < batch.num_rows:
        out = REUSED.allocate("text", _CAPACITY + 64, np.uint8)
        row = write_rows(row, batch.num_rows, texts, ends, *arguments, out, used)  # pyright: ignore[reportCallIssue]
        text = out.data[: int(used[0])]
        # A short piece that is kept must not keep all of the buffer.
        piece: list[LineBuffer] = [text if len(text) > _CAPACITY // 2 else bytes(text)]
        del out, text  # or it would not be free when the piece is done with
        if used[0]:
            yield piece.pop()
        else:
            yield from _one_record(batch, row, mode)
            row += 1


def _fixed_texts(batch: pa.RecordBatch) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return what lines have between their values; file, topic and partition are the same in all rows."""
    names = batch.schema.names
    shared = [f"{dumps(name)}:{dumps(batch.column(name)[0].as_py())}" for name in _BATCH_COLUMNS if name in names]
    pieces = ["{" + ",".join(shared)]
    separator = "," if shared else ""
    for name in _ROW_COLUMNS:
        pieces.append(f"{separator}{dumps(name)}:" if name in names else "")
        separator = "," if name in names else separator
    pieces += [dumps(text) for text in (*TIMESTAMP_TYPES.values(), None)]
    encoded = [piece.encode() for piece in pieces]
    ends = np.cumsum([0, *(len(piece) for piece in encoded)], dtype=np.int64)
    return np.frombuffer(b"".join(encoded) + bytes(32), dtype=np.uint8), ends  # zeros: copies are wide


def _column(batch: pa.RecordBatch, name: str) -> Column | None:
    return batch.column(name) if name in batch.schema.names else None


def _numbers(batch: pa.RecordBatch, name: str, dtype: type[np.generic]) -> NDArray[Any]:
    column = _column(batch, name)
    return np.empty(0, dtype) if column is None else arrow.numbers(column, dtype)


def _nullable(column: Column | None) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.uint8], int]:
    """A column of bytes or strings: its data, ends, validity bits, and the bit of row 0."""
    if column is None or not len(column):
        return _NO_BYTES, _NO_ENDS, _NO_BYTES, 0
    return arrow.data(column), arrow.ends(column), arrow.validity(column), column.offset


def _headers(column: Column | None) -> tuple[Any, ...]:
    """Return where each row's headers end, the headers' keys (data and ends), and their values."""
    if column is None:
        return _NO_ENDS, *_nullable(None)[:2], *_nullable(None)
    keys, values = column.values.field(0), column.values.field(1)
    return arrow.ends(column), *_nullable(keys)[:2], *_nullable(values)


def _one_record(batch: pa.RecordBatch, row: int, mode: BytesMode, end: str = "") -> Iterator[LineBuffer]:
    """One line in as many pieces as it takes: for values that outgrow the buffer, and for control records."""
    separator = "{"
    for name in COLUMNS:
        column = _column(batch, name)
        if column is None:
            continue
        yield f"{separator}{dumps(name)}:".encode()
        separator = ","
        if name in ("key", "value"):
            yield from _bytes(column[row], mode)
        elif name == "headers":
            yield b"["
            for index, header in enumerate(column[row].values or ()):
                yield ("[" if index == 0 else ",[").encode()
                yield from _bytes(header["key"], "auto")
                yield b","
                yield from _bytes(header["value"], mode)
                yield b"]"
            yield b"]"
        elif name == "timestamp":
            yield str(column[row].value).encode()
        elif name == "timestampType":
            yield dumps(TIMESTAMP_TYPES.get(column[row].as_py())).encode()
        else:
            yield dumps(column[row].as_py()).encode()
    yield f"{end}}}\n".encode()


def _bytes(scalar: Any, mode: BytesMode) -> Iterator[LineBuffer]:
    from brokerless.interchange.json_string_kernels import WORST_ESCAPE
    from brokerless.interchange.jsonl_writer_kernels import escape, is_utf8

    buffer = scalar.as_buffer() if scalar.is_valid else None
    if buffer is None:
        yield b"null"
        return
    data = np.frombuffer(buffer, dtype=np.uint8) if buffer.size else _NO_BYTES
    if mode == "verbatim":
        yield data.data
    elif mode == "base64" or not is_utf8(data, 0, len(data)):
        yield b'"' if mode == "base64" else b'{"base64":"'
        for start in range(0, len(data), _SLICE):
            yield b2a_base64(data.data[start : start + _SLICE], newline=False)
        yield b'"' if mode == "base64" else b'"}'
    else:
        yield b'"'
        start = 0
        while start < len(data):
            end = _end_of_character(data, min(start + _SLICE, len(data)))
            out = np.empty(WORST_ESCAPE * (end - start) + SLACK, dtype=np.uint8)
            yield out.data[: escape(data, start, end, out)]
            start = end
        yield b'"'


def _end_of_character(data: NDArray[np.uint8], end: int) -> int:
    """The last place up to ``end`` where a character of UTF-8 ends."""
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return end


def _texts(column: Column) -> list[str]:
    """Each value of a column as JSON."""
    if pa.types.is_string(column.type):
        known = lru_cache(maxsize=1024)(dumps)
        return [known(value) for value in arrow.values(column)]
    if pa.types.is_boolean(column.type):
        return ["null" if value is None else "true" if value else "false" for value in arrow.values(column)]
    if pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
        return ["null" if value is None else str(value) for value in arrow.integers(column)]
    return [dumps(value) for value in arrow.values(column)]
