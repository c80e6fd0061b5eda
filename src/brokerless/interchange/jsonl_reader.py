"""Reads JSON Lines as ``brokerless cat --json`` writes them, as Arrow record batches.

Keys, values and header values are strings, ``{"base64": "..."}`` or null; headers are pairs; timestamps are in ms.
"""

from __future__ import annotations

import binascii
import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NoReturn, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless.arrow import Column, bits, column_of, column_of_flags, column_of_numbers, column_of_values
from brokerless.bounds import MAX_INT64, MIN_INT64
from brokerless.errors import UnreadableError
from brokerless.format.columns import SLACK
from brokerless.interchange.jsonl_writer import BytesMode
from brokerless.schemas import RECORDS
from brokerless.tables.rows import headers_column
from brokerless.values import RepeatedNameError, distinct_members

MAX_LINE_BYTES = 64 << 20
"""What a line may have, unless the caller says otherwise."""
_BLOCK = 1 << 20
_LARGE = 8 << 20
"""Bytes of a line that is examined before Python's parser makes an object of each of its values."""
_MOST_OUTSIDE = 1 << 20
"""Bytes of a large line that are outside its strings, one for each string included: what is inside is what matters."""
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A string, or what begins as one: always matches to its end, so that time grows with the line only."""
_SHORTEST_HEADER = len('["",""]')
_INTEGERS = ("partition", "offset", "timestamp")
_STRINGS = ("topic", "timestampType")


class _LineError(ValueError):
    """What is wrong with a line."""


def read_lines(
    stream: BinaryIO,
    name: str,
    mode: BytesMode = "auto",
    lines_before: Callable[[], int] = lambda: 0,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a stream of lines, about 1 MiB of text at a time, with the columns that the lines have.

    ``mode``: ``base64`` takes every string of a key, value or header value for base64. Lines with a member ``control``
    become rows whose ``isControl`` is true. ``lines_before``: how many lines of the file come before the stream; asked
    if something is wrong. ``max_line_bytes``: what one line may have; a large one takes a few times that in memory.
    Raises :class:`UnreadableError` with ``name`` and the line for one that is no record, or longer than that.
    """
    number = 0
    try:
        for block in _blocks(stream, max_line_bytes):
            batch = _read_at_once(block, mode)
            if batch is None:
                rows: list[dict[str, Any]] = []
                for line in _lines(block):
                    rows.append(_row(line, mode))
                    number += 1
                    del line
                batch = _batch(rows)
                del rows
            else:
                number += batch.num_rows
            del block  # neither a large line nor its batch is to stay beside what the caller makes of it
            given = [batch]
            del batch
            yield given.pop()
    except _LineError as error:
        raise UnreadableError("", f"{name}, line {lines_before() + number + 1}: {error}") from None


def _read_at_once(block: bytes, mode: BytesMode) -> pa.RecordBatch | None:
    """The records of whole lines, if they are as ``cat`` writes them; what is not is parsed line by line, thirty times
    slower."""
    from brokerless.interchange import jsonl_reader_kernels as kernels

    if not (block.isascii() or _is_utf8(block)):
        return None
    end = b"" if block.endswith(b"\n") else b"\n"
    padded = np.frombuffer(b"".join([block, end, bytes(SLACK)]), np.uint8)
    size = len(block) + len(end)
    rows, most_headers = block.count(b"\n") + len(end), size // _SHORTEST_HEADER + 1
    data = np.empty((7, size + SLACK), np.uint8)
    filled = np.zeros(9, np.int64)
    ends, pair_ends, header_ends = (np.zeros(shape, np.int32) for shape in ((4, rows + 1), (2, most_headers), rows + 1))
    null, numbers = np.zeros((8, rows), np.uint8), np.zeros((3, rows), np.int64)
    pair_null = np.zeros(most_headers, np.uint8)
    found = kernels.read_rows(
        padded, size, mode == "base64", data, filled, ends, null, numbers, header_ends, pair_ends, pair_null
    )
    if found != rows or not filled[8] >> kernels.VALUE & 1:
        return None

    def contents(at: int, ends: NDArray[np.int32], null: NDArray[np.uint8], type_: pa.DataType) -> Column:
        valid = bits(null == 0) if null.any() else None
        return column_of(type_, len(null), [valid, ends, data[at, : ends[-1]]])

    def row_contents(at: int, type_: pa.DataType) -> Column:
        return contents(at, ends[at], null[at], type_)

    pairs = int(filled[7])
    keys = contents(kernels.HEADER_KEYS, pair_ends[0, : pairs + 1], np.zeros(pairs, np.uint8), pa.string())
    values = contents(kernels.HEADER_VALUES, pair_ends[1, : pairs + 1], pair_null[:pairs], pa.binary())
    columns: dict[str, Column] = {
        "key": row_contents(kernels.KEYS, pa.binary()),
        "value": row_contents(kernels.VALUES, pa.binary()),
        "headers": headers_column(header_ends, keys, values),
    }
    present = [name for bit, name in enumerate(kernels.NAMES) if filled[8] >> bit & 1]
    for at, name in enumerate(_INTEGERS):
        if name in present:
            columns[name] = column_of_numbers(pa.int64(), numbers[at], null[4 + at].view(np.bool_))
    for at, name in enumerate(_STRINGS):
        if name in present:
            columns[name] = row_contents(at, pa.string())
    columns["isControl"] = column_of_flags(null[7].view(np.bool_))
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _is_utf8(block: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()  # as a whole, one emoji makes four bytes of every character
    view = memoryview(block)
    try:
        for at in range(0, len(block), _BLOCK):
            decoder.decode(view[at : at + _BLOCK], at + _BLOCK >= len(block))
    except UnicodeDecodeError:
        return False
    return True


def _blocks(stream: BinaryIO, max_line_bytes: int) -> Iterator[bytes]:
    """Whole lines, some at a time; one that is longer than what is read at once comes alone."""
    rest = bytearray()
    while chunk := stream.read(_BLOCK):
        first = chunk.find(b"\n") + 1
        if len(rest) + (first - 1 if first else len(chunk)) > max_line_bytes:
            raise _too_long(max_line_bytes)
        if len(rest) > _BLOCK and first:
            rest += chunk[:first]
            yield _taken(rest)
            chunk = chunk[first:]
        end = chunk.rfind(b"\n") + 1
        rest += chunk[:end]
        if end:
            yield from _short_lines(_taken(rest), max_line_bytes)
        rest += chunk[end:]
        if len(rest) > max_line_bytes:
            raise _too_long(max_line_bytes)
    if rest:
        yield _taken(rest)


def _taken(rest: bytearray) -> bytes:
    taken = bytes(rest)
    rest.clear()
    return taken


def _short_lines(block: bytes, max_line_bytes: int) -> Iterator[bytes]:
    """The block, as far as its lines are no longer than that."""
    if len(block) > max_line_bytes:
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
        long = np.flatnonzero(np.diff(ends, prepend=-1) - 1 > max_line_bytes)
        if len(long):
            if long[0]:
                yield block[: int(ends[long[0] - 1]) + 1]
            raise _too_long(max_line_bytes)
    yield block


def _too_long(max_line_bytes: int) -> _LineError:
    return _LineError(
        f"it is longer than {max_line_bytes} bytes; if it is a record, --max-line-bytes raises this limit"
    )


def _lines(block: bytes) -> Iterator[bytes]:
    end = len(block) - block.endswith(b"\n")
    if block.find(b"\n", 0, end) < 0:  # a large one is not copied
        yield block
    else:
        yield from block[:end].split(b"\n")


def _check_large(line: bytes) -> None:
    """Each value may take twenty times its bytes when it is parsed, while of a record only strings are large."""
    outside = at = 0
    for string in _STRING.finditer(line):
        outside += string.start() - at + 1
        at = string.end()
        if outside > _MOST_OUTSIDE:
            break
    if outside + len(line) - at > _MOST_OUTSIDE:
        raise _LineError(f"of its {len(line)} bytes, more than {_MOST_OUTSIDE} are outside of strings")


_KCAT = (
    "jq -c '{topic, partition, offset, timestamp: .ts, key, value: .payload, "
    "headers: [(.headers // []) as $h | range(0; $h | length; 2) | $h[.:. + 2]]}'"
)
_GUARDIAN = "jq -c '{topic, partition, offset, timestamp, key, value}', and --bytes base64"

_LABELS = {
    "timestamp": re.compile(rb"(?:CreateTime|LogAppendTime):-?[0-9]+|NO_TIMESTAMP"),
    "partition": re.compile(rb"Partition:[0-9]+"),
    "offset": re.compile(rb"Offset:[0-9]+"),
    "delivery": re.compile(rb"Delivery:\w+"),
    "epoch": re.compile(rb"Epoch:\w+"),
}
"""What Kafka's console consumer prints before headers, key and value, in this order (DefaultMessageFormatter, Kafka
4.4)."""


def _of_console(line: bytes) -> str | None:
    """Return what is wrong with a line of Kafka's console consumer, and how lines become records; None for another."""
    fields, found = line.rstrip(b"\r\n").split(b"\t"), list[str]()
    for name, label in _LABELS.items():
        if label.fullmatch(fields[len(found)] if len(found) < len(fields) else b""):
            found.append(name)
    if not found:
        return None
    members = [
        f'{name}: (.[{at}] | split(":")[1] | tonumber)'
        for at, name in enumerate(found)
        if name in ("timestamp", "partition", "offset") and fields[at] != b"NO_TIMESTAMP"
    ]
    at = len(found) + (fields[len(found) : len(found) + 1] == [b"NO_HEADERS"])
    if len(fields) > at + 1:
        members.append(f"key: (.[{at}] | own)")
        at += 1
    members.append(f'value: (.[{at}:] | join("\\t") | own)')
    null = 'def own: if . == "null" then null else . end;'
    program = f"jq -cR '{null} split(\"\\t\") | {{{', '.join(members)}}}'"
    text = "this is what kafka-console-consumer prints, not JSON: headers, line ends and bytes that are no text are not"
    return f"{text} whole in it, which kcat -J has. Where there are none, lines become records by {program}"


def _of_others(row: dict[str, Any]) -> str:
    """Return which columns there are, and how the lines of other tools get them."""
    known = "; it has topic, partition, offset, timestamp, timestampType, key, value and headers"
    if "payload" in row:
        return f"{known}. Of kcat's lines: {_KCAT}"
    return f"{known}. Of Guardian's: {_GUARDIAN}" if "timestamp_type" in row else f"{known}: rename or leave out others"


def _row(line: bytes, mode: BytesMode) -> dict[str, Any]:
    """A line's members as they go into columns."""
    if len(line) > _LARGE:
        _check_large(line)
    try:
        members = json.loads(line, object_pairs_hook=distinct_members, parse_constant=_no_constant)
    except _LineError:
        raise
    except RepeatedNameError as error:
        raise _LineError(str(error)) from None
    except (ValueError, RecursionError) as error:
        if (text := _of_console(line)) is not None:
            raise _LineError(text) from None
        text = f"this is not JSON, of which each line is an object, and no Parquet file: {error}"
        raise _LineError(text if line.strip() else "this line is empty") from None
    if not isinstance(members, dict):
        text = "; a file that is one array becomes lines by jq -c '.[] | values'" if line[:1] == b"[" else ""
        raise _LineError(f"this is not a JSON object{text}")
    row = cast("dict[str, Any]", members)
    is_control = row.pop("control", None) is not None
    unknown = [name for name in row if name not in RECORDS.names]
    if unknown:
        raise _LineError(f"a record has no {unknown[0]!r}{_of_others(row)}")
    if "value" not in row:
        raise _LineError("there is no 'value' (null, if the record has none)")
    for name in ("key", "value"):
        if name in row:
            row[name] = _bytes(name, row[name], mode)
    if "headers" in row:
        row["headers"] = _headers(row["headers"], mode)
    for name in _INTEGERS:
        if name in row and not _is_integer(row[name]):
            raise _LineError(f"{name!r} is not a 64-bit integer")
    for name in _STRINGS:
        if name in row and row[name] is not None and not isinstance(row[name], str):
            raise _LineError(f"{name!r} is not a string")
    flag = row.get("isControl", is_control)
    if not isinstance(flag, bool):
        raise _LineError("'isControl' is neither true nor false")
    row["isControl"] = flag or is_control
    return row


def _no_constant(name: str) -> NoReturn:
    raise _LineError(f"this is not JSON: {name}")


def _is_integer(value: Any) -> bool:
    return value is None or (type(value) is int and MIN_INT64 <= value <= MAX_INT64)


def _bytes(name: str, value: Any, mode: BytesMode) -> bytes | None:
    match value:
        case None:
            return None
        case str() if mode == "base64":
            return _decode(name, value)
        case str():
            try:
                return value.encode()
            except UnicodeEncodeError:
                raise _LineError(f"{name!r} has half a surrogate pair, which no UTF-8 has") from None
        case {"base64": str() as text, **rest} if not rest:
            return _decode(name, text)
        case _:
            raise _LineError(f"""{name!r} is neither a string nor null nor {{"base64": "..."}}""")


def _decode(name: str, text: str) -> bytes:
    try:
        return binascii.a2b_base64(text.encode(), strict_mode=True)
    except ValueError:
        raise _LineError(f"{name!r} is not base64") from None


def _headers(headers: Any, mode: BytesMode) -> list[tuple[bytes, bytes | None]]:
    pairs: list[tuple[bytes, bytes | None]] = []
    for pair in cast("list[Any]", [] if headers is None else headers if isinstance(headers, list) else [None]):
        match pair:
            case [str() as key, value]:
                pairs.append((cast("bytes", _bytes("headers", key, "auto")), _bytes("headers", value, mode)))
            case _:
                raise _LineError("'headers' is not a list of pairs of a string and a value")
    return pairs


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    present = {name for row in rows for name in row}
    columns: dict[str, Any] = {}
    for name in ("key", "value"):
        columns[name] = column_of_values([row.get(name) for row in rows], pa.binary())
    headers = [row.get("headers") or () for row in rows]
    pairs = [pair for each in headers for pair in each]
    keys = column_of_values([key for key, _ in pairs], pa.binary()).view(pa.string())
    values = column_of_values([value for _, value in pairs], pa.binary())
    columns["headers"] = headers_column(np.cumsum([0, *map(len, headers)], dtype=np.int32), keys, values)
    for name in _INTEGERS:
        if name in present:
            columns[name] = column_of_values([row.get(name) for row in rows], pa.int64())
    for name in _STRINGS:
        if name in present:
            columns[name] = column_of_values([row.get(name) for row in rows], pa.string())
    columns["isControl"] = column_of_values([row["isControl"] for row in rows], pa.bool_())
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
