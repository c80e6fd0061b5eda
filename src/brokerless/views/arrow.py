"""Arrow's buffers as NumPy arrays, without a copy, and back.

Views use these rather than ``to_numpy`` and ``pa.array``: those import pandas where it is there, for 0.3 seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Column = Any
"""A ``pa.Array``, of whose types the published stubs know little."""

_NO_BYTES = np.empty(0, dtype=np.uint8)


def numbers(column: Column, dtype: type[np.generic]) -> NDArray[Any]:
    """The values of a column of numbers (whatever they are where it is null), shape ``(len(column),)``."""
    return np.frombuffer(column.buffers()[1], dtype)[column.offset : column.offset + len(column)]


def flags(column: Column) -> NDArray[np.uint8]:
    """The values of a column of booleans as 0 and 1."""
    bits = np.unpackbits(np.frombuffer(column.buffers()[1], np.uint8), bitorder="little")
    return bits[column.offset : column.offset + len(column)]


def ends(column: Column) -> NDArray[np.int32]:
    """Of a column of bytes, strings or lists: row ``i`` is from ``ends[i]`` to ``ends[i + 1]`` of its data."""
    return np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]


def data(column: Column) -> NDArray[np.uint8]:
    """The data of a column of bytes or strings."""
    buffer = column.buffers()[2]
    return _NO_BYTES if buffer is None else np.frombuffer(buffer, np.uint8)


def validity(column: Column) -> NDArray[np.uint8]:
    """A bit for each row, from bit ``column.offset`` on; empty if all rows are valid."""
    buffer = column.buffers()[0] if column.null_count else None
    return _NO_BYTES if buffer is None else np.frombuffer(buffer, np.uint8)


def bytes_column(values: Sequence[bytes | None]) -> Column:
    """A column of bytes."""
    bits = np.packbits(np.array([value is not None for value in values], np.bool_), bitorder="little")
    new_ends = np.cumsum([0, *(len(value or b"") for value in values)], dtype=np.int32)
    joined = b"".join(value or b"" for value in values)
    return column_of(pa.binary(), len(values), [bits, new_ends, joined])


def column_of(
    type_: pa.DataType, rows: int, buffers: Sequence[NDArray[Any] | bytes | None], children: Sequence[Column] = ()
) -> Column:
    """A column of any type from its buffers, which are adopted."""
    adopted: Any = [None if buffer is None else pa.py_buffer(memoryview(buffer)) for buffer in buffers]  # pyright: ignore
    return pa.Array.from_buffers(type_, rows, adopted, children=list(children) or None)
