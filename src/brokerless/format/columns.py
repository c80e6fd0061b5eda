"""Record columns that kernels fill, and the reasons why a batch's records may end early.

Variable-length columns have Arrow's layout: the bytes of row ``i`` are ``data[ends[i]:ends[i + 1]]``.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from threading import RLock
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless.findings import Kind

T = TypeVar("T", bound=np.generic)

LENGTH_INVALID = 1
LENGTH_PAST_END = 2
FIELD_INVALID = 3
HEADER_COUNT_INVALID = 4
HEADER_KEY_NEGATIVE = 5
LENGTH_MISMATCH = 6
BYTES_LEFT = 7
COUNT_NEGATIVE = 8
MESSAGE_TOO_SMALL = 9
MESSAGE_COMPRESSED = 10
NO_MESSAGES = 11
WRAPPER_OFFSET = 12
NULL_WRAPPER = 13
WRAPPER_CODEC = 14
WRAPPER_MAGIC = 15
MESSAGE_FIELD_INVALID = 16
MESSAGE_TOO_LARGE = 17
TOO_MANY_HEADERS = 18
MESSAGE_CRC = 19

REASONS: dict[int, tuple[Kind, str]] = {
    LENGTH_INVALID: (
        Kind.RECORD_INVALID,
        "the next record's length is not a varint, or the records end before their count",
    ),
    LENGTH_PAST_END: (Kind.RECORD_INVALID, "a record reaches past the end of its batch"),
    FIELD_INVALID: (Kind.RECORD_INVALID, "a field of a record is not a varint, or reaches past the record's end"),
    HEADER_COUNT_INVALID: (Kind.RECORD_INVALID, "a record's header count is negative or larger than what is left"),
    HEADER_KEY_NEGATIVE: (Kind.RECORD_INVALID, "a header key's length is negative"),
    LENGTH_MISMATCH: (Kind.RECORD_INVALID, "a record's fields take more or fewer bytes than its length says"),
    BYTES_LEFT: (Kind.RECORD_COUNT_MISMATCH, "bytes are left after the number of records that the header declares"),
    COUNT_NEGATIVE: (Kind.RECORD_COUNT_MISMATCH, "the header declares a negative number of records"),
    TOO_MANY_HEADERS: (Kind.LIMIT_EXCEEDED, "a record with more headers than the limit"),
    MESSAGE_TOO_SMALL: (Kind.MESSAGE_INVALID, "an inner message's size is below the smallest message"),
    MESSAGE_FIELD_INVALID: (Kind.MESSAGE_INVALID, "a message's key or value reaches past its end"),
    MESSAGE_TOO_LARGE: (Kind.MESSAGE_INVALID, "an inner message's size is beyond what any reader could hold"),
    MESSAGE_COMPRESSED: (Kind.MESSAGE_INVALID, "an inner message is compressed itself"),
    MESSAGE_CRC: (
        Kind.MESSAGE_CHECKSUM_MISMATCH,
        "the checksum of an inner message does not match; a consumer throws there, and the message was not read",
    ),
    NO_MESSAGES: (Kind.WRAPPER_INVALID, "a wrapper message without inner messages"),
    WRAPPER_OFFSET: (Kind.WRAPPER_INVALID, "a wrapper's offset is smaller than its last inner offset"),
    NULL_WRAPPER: (Kind.WRAPPER_INVALID, "a wrapper message with a null value"),
    WRAPPER_CODEC: (Kind.WRAPPER_INVALID, "a codec that v0 and v1 do not have"),
    WRAPPER_MAGIC: (Kind.WRAPPER_INVALID, "a wrapper message of neither v0 nor v1"),
}
"""For each status: the finding's kind and message."""

COLUMNS_SIGNATURE = (
    "int64[::1], int64[::1], int32[::1], int8[::1], int32[::1], uint8[::1], uint8[::1], int32[::1], uint8[::1], "
    "uint8[::1], int32[::1], int32[::1], uint8[::1], int32[::1], uint8[::1], uint8[::1], int64[::1]"
)
"""Numba's types of :meth:`RecordColumns.arrays`."""

_READ_ONLY = {name: f"Array({name}, 1, 'C', readonly=True)" for name in ("int64", "int32", "uint8")}
CONTENTS_SIGNATURE = ", ".join(
    _READ_ONLY[name]
    for name in (
        "int64",
        "int64",
        *("int32", "uint8", "uint8") * 2,
        "int32",
        "int32",
        "uint8",
        "int32",
        "uint8",
        "uint8",
    )
)
"""Numba's types of :meth:`RecordColumns.contents`."""

HUGE = 32 << 20
"""Columns of more bytes have their memory released to the system rather than pooled for the next ones."""
_REUSED_FROM, _REUSED_TO, _MOST_UNUSED = 1 << 16, 16 << 20, 256 << 20
"""Bytes of an array whose memory is used again, and of all such memory that is kept: a third of it is ever written."""
SLACK = 64
"""Bytes after the last value of a column, and after the last batch of a buffer, so that kernels read and copy in wide
steps."""


@dataclass(frozen=True, slots=True)
class Damage:
    """The damage due to which a batch's records end early."""

    kind: Kind
    position: int
    """Where the batch is (bytes)."""
    base_offset: int
    """The base offset of the batch."""
    message: str
    found: str | None = None


@dataclass(slots=True)
class RecordColumns:
    """Growing record columns of fixed capacity."""

    offset: NDArray[np.int64]
    timestamp: NDArray[np.int64]
    sequence: NDArray[np.int32]
    timestamp_type: NDArray[np.int8]
    key_ends: NDArray[np.int32]
    key_null: NDArray[np.uint8]
    key_data: NDArray[np.uint8]
    value_ends: NDArray[np.int32]
    value_null: NDArray[np.uint8]
    value_data: NDArray[np.uint8]
    header_ends: NDArray[np.int32]
    header_key_ends: NDArray[np.int32]
    header_key_data: NDArray[np.uint8]
    header_value_ends: NDArray[np.int32]
    header_value_null: NDArray[np.uint8]
    header_value_data: NDArray[np.uint8]
    used: NDArray[np.int64] = field(default_factory=lambda: np.zeros(6, dtype=np.int64))
    """The fill: rows, key bytes, value bytes, headers, header key bytes, header value bytes."""

    @property
    def rows(self) -> int:
        return int(self.used[0])

    @property
    def size(self) -> int:
        """Bytes that are filled."""
        rows, keys, values, headers, header_keys, header_values = self.used.tolist()
        return keys + values + header_keys + header_values + 31 * rows + 9 * headers

    @property
    def is_huge(self) -> bool:
        """Whether their memory is released to the system (:func:`release_memory`) after use, rather than pooled."""
        return sum(each.nbytes for each in self.arrays()) > HUGE

    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        """Return all columns, in the order in which the kernels take them."""
        return (
            self.offset,
            self.timestamp,
            self.sequence,
            self.timestamp_type,
            self.key_ends,
            self.key_null,
            self.key_data,
            self.value_ends,
            self.value_null,
            self.value_data,
            self.header_ends,
            self.header_key_ends,
            self.header_key_data,
            self.header_value_ends,
            self.header_value_null,
            self.header_value_data,
            self.used,
        )

    def contents(self) -> tuple[NDArray[np.generic], ...]:
        """Return the columns that writing reads, in the order in which the kernels take them; they are not changed."""
        return (
            self.offset,
            self.timestamp,
            self.key_ends,
            self.key_null,
            self.key_data,
            self.value_ends,
            self.value_null,
            self.value_data,
            self.header_ends,
            self.header_key_ends,
            self.header_key_data,
            self.header_value_ends,
            self.header_value_null,
            self.header_value_data,
        )


def empty_columns() -> RecordColumns:
    """Return columns without records, not to be filled: cheaper than :func:`allocate` where many are needed."""
    ends, data = np.zeros(1, np.int32), np.empty(0, np.uint8)
    return RecordColumns(
        offset=np.empty(0, np.int64),
        timestamp=np.empty(0, np.int64),
        sequence=np.empty(0, np.int32),
        timestamp_type=np.empty(0, np.int8),
        key_ends=ends,
        key_null=data,
        key_data=data,
        value_ends=ends,
        value_null=data,
        value_data=data,
        header_ends=ends,
        header_key_ends=ends,
        header_key_data=data,
        header_value_ends=ends,
        header_value_null=data,
        header_value_data=data,
    )


class ReusedArrays:
    """Uninitialized arrays whose memory is used again when nothing refers to an array any more, in whichever thread.

    Where another thread releases memory, Arrow's pool returns it to the system, and fresh pages would cost as much as
    decoding into them.
    """

    def __init__(self, most: int = _MOST_UNUSED) -> None:
        """Create an empty pool of arrays. ``most``: bytes that are retained while nothing uses them."""
        self._most, self._unused = most, 0
        self._free: dict[tuple[str, int], list[pa.Buffer]] = {}
        self._lock = RLock()  # an array may be freed, too, while its thread is in here

    def allocate(self, column: str, length: int, dtype: type[T]) -> NDArray[T]:
        """Return an array for a column: one column's memory is not another one's, of which less may be filled."""
        size = length * np.dtype(dtype).itemsize
        if not _REUSED_FROM <= size <= _REUSED_TO:
            return allocate_array(length, dtype)
        with self._lock:
            free = self._free.get((column, size), [])
            room = free.pop() if free else None  # used last, so that it may be in a cache still
            if room is not None:
                self._unused -= size
            if not free:
                self._free.pop((column, size), None)
        if room is None:
            room = pa.allocate_buffer(size)
        array = np.frombuffer(room, dtype)
        weakref.finalize(array, self._keep, column, room).atexit = False
        return array

    def _keep(self, column: str, room: pa.Buffer) -> None:
        with self._lock:
            key, first = (column, room.size), list[pa.Buffer]()
            rooms = self._free.pop(key, first)
            rooms.append(room)
            self._free[key] = rooms  # as the last one
            self._unused += room.size
            while self._unused > self._most:
                longest_unused = next(iter(self._free))
                rooms = self._free[longest_unused]
                self._unused -= rooms.pop(0).size
                if not rooms:
                    del self._free[longest_unused]


REUSED = ReusedArrays()
"""Those of all threads and readers of this process."""


def allocate(rows: int, data: int, headers: int, reused: ReusedArrays | None = None) -> RecordColumns:
    """Return columns with capacity for ``rows`` records, ``headers`` headers, and ``data`` bytes in each column of
    bytes."""

    if data > HUGE:
        release_memory()  # The pool may still hold the memory of an earlier huge record.

    def array(column: str, length: int, dtype: type[T]) -> NDArray[T]:
        return allocate_array(length, dtype) if reused is None else reused.allocate(column, length, dtype)

    def ends(column: str, n: int) -> NDArray[np.int32]:
        made = array(column, n + 1, np.int32)
        made[0] = 0
        return made

    return RecordColumns(
        offset=array("offset", rows, np.int64),
        timestamp=array("timestamp", rows, np.int64),
        sequence=array("sequence", rows, np.int32),
        timestamp_type=array("timestamp_type", rows, np.int8),
        key_ends=ends("key_ends", rows),
        key_null=array("key_null", rows, np.uint8),
        key_data=array("key_data", data + SLACK, np.uint8),
        value_ends=ends("value_ends", rows),
        value_null=array("value_null", rows, np.uint8),
        value_data=array("value_data", data + SLACK, np.uint8),
        header_ends=ends("header_ends", rows),
        header_key_ends=ends("header_key_ends", headers),
        header_key_data=array("header_key_data", data + SLACK, np.uint8),
        header_value_ends=ends("header_value_ends", headers),
        header_value_null=array("header_value_null", headers, np.uint8),
        header_value_data=array("header_value_data", data + SLACK, np.uint8),
    )


def release_memory() -> None:
    """Returns unused memory of Arrow's pool to the system."""
    pa.default_memory_pool().release_unused()


def allocate_array(length: int, dtype: type[T]) -> NDArray[T]:
    """Return an uninitialized array from Arrow's memory pool, which reuses freed pages: fresh pages from the system
    would cost as much as decoding into them."""
    buffer = pa.allocate_buffer(length * np.dtype(dtype).itemsize)
    return np.frombuffer(buffer, dtype) if length else np.empty(0, dtype)
