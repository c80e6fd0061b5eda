"""Formats records by a template in the notation of kcat's ``-f``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np
import pyarrow as pa

from brokerless import arrow
from brokerless.arrow import Column
from brokerless.errors import UsageError
from brokerless.views.text import escaped

HELP = (
    "%t topic, %p partition, %o offset, %T timestamp in ms, %k key, %s value, %h headers as name=value,..., "
    "%K and %S their length in bytes (-1: null), %R the value's length as 4 bytes, %% a percent sign; "
    r"\n, \r, \t, \\, \0 and \x41 (hexadecimal)"
)

_ROWS = 1024
_LARGE = 8 << 20
_COLUMNS = {
    "t": "topic",
    "p": "partition",
    "o": "offset",
    "T": "timestamp",
    "k": "key",
    "K": "key",
    "s": "value",
    "S": "value",
    "R": "value",
    "h": "headers",
}
_TOKEN = re.compile(r"%(?P<field>.?)|\\(?:x(?P<hex>[0-9a-fA-F]{1,2})|(?P<escape>.?))|(?P<text>[^%\\]+)", re.DOTALL)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: literal text (bytes), and the letters of fields (str)."""

    parts: tuple[bytes | str, ...]

    @property
    def columns(self) -> list[str]:
        """The columns of ``schemas.RECORDS`` that are needed."""
        return sorted({_COLUMNS[part] for part in self.parts if isinstance(part, str)})


def parse(text: str) -> Template:
    """Raises :class:`UsageError` for what kcat does not know."""
    parts: list[bytes | str] = []
    for token in _TOKEN.finditer(text):
        field, escape = token["field"], token["escape"]
        if token["text"] is not None:
            parts.append(token["text"].encode(errors="surrogateescape"))  # the bytes that were given
        elif token["hex"] is not None:
            parts.append(bytes([int(token["hex"], 16)]))
        elif field == "%":
            parts.append(b"%")
        elif field is not None and field in _COLUMNS:
            parts.append(field)
        elif escape is not None and escape in _ESCAPES:
            parts.append(_ESCAPES[escape])
        else:
            raise UsageError(f"the template has {token[0]!r}, which means nothing; there are: {HELP}")
    return Template(tuple(parts))


def render(
    batch: pa.RecordBatch, template: Template, original: pa.RecordBatch | None = None, *, to_terminal: bool = False
) -> Iterator[bytes]:
    """Yield the records of ``batch``, which has the template's columns; nothing is put between them.

    Bytes are written unchanged, as kcat does; but ``to_terminal`` the records' contents are escaped, as in
    :func:`text.records`: a terminal would obey them. The template's own text is the user's, and is not escaped.

    A null is empty, and the null value of a header as ``NULL``, as kcat does. ``original``: the records
    before they were redacted, whose lengths ``%K`` and ``%S`` are; ``%R`` is what it takes to read ``%s`` again.
    """
    for start in range(0, batch.num_rows, _ROWS):
        part = batch.slice(start, _ROWS)
        lengths = part if original is None else original.slice(start, _ROWS)
        columns = [_column(lengths if piece in ("K", "S") else part, piece) for piece in template.parts]
        if to_terminal:
            rows = (zip(template.parts, row, strict=True) for row in zip(*columns, strict=False))
            pieces = chain.from_iterable(
                (text,) if isinstance(piece, bytes) else escaped(text) for row in rows for piece, text in row
            )
        else:
            pieces = chain.from_iterable(zip(*columns, strict=False))
        if part.nbytes > _LARGE:
            yield from pieces
        else:
            yield b"".join(pieces)


def _column(batch: pa.RecordBatch, part: bytes | str) -> Sequence[bytes] | Iterator[bytes]:
    if isinstance(part, bytes):
        return repeat(part, batch.num_rows)
    return _FIELDS[part](batch.column(_COLUMNS[part]))


def _numbers(column: Column) -> list[bytes]:
    return [b"" if value is None else b"%d" % value for value in arrow.integers(column)]


def _lengths(column: Column) -> list[int]:
    lengths = np.diff(arrow.ends(column)).tolist()
    return [length if valid else -1 for length, valid in zip(lengths, arrow.is_valid(column), strict=True)]


def _lengths_as_text(column: Column) -> list[bytes]:
    return [b"%d" % length for length in _lengths(column)]


def _lengths_as_bytes(column: Column) -> list[bytes]:
    return [length.to_bytes(4, "big", signed=True) for length in _lengths(column)]


def _names(column: Column) -> list[bytes]:
    return [b"" if value is None else value.encode() for value in arrow.values(column)]


def _values(column: Column) -> list[bytes]:
    return [value or b"" for value in arrow.values(column)]


def _headers(column: Column) -> list[bytes]:
    return [b",".join(_header(**header) for header in headers) for headers in arrow.values(column)]


def _header(key: str, value: bytes | None) -> bytes:
    return key.encode() + b"=" + (b"NULL" if value is None else value)


_FIELDS: dict[str, Callable[[Any], list[bytes]]] = {
    "t": _names,
    "p": _numbers,
    "o": _numbers,
    "T": _numbers,
    "k": _values,
    "K": _lengths_as_text,
    "s": _values,
    "S": _lengths_as_text,
    "R": _lengths_as_bytes,
    "h": _headers,
}
