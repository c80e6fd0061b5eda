"""SHA-256 of what an erasure leaves unchanged: whole batches, and the other records of touched ones."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from brokerless.format.columns import RecordColumns
from brokerless.format.read.batch_headers import Batches
from brokerless.format.write.column_slices import filter_rows, replace_values


class UntouchedHash:
    """The SHA-256 of all batches that are not touched, one after the other as they are in the log."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def add(self, buffer: NDArray[np.uint8], batches: Batches, is_touched: NDArray[np.bool_]) -> None:
        """Takes the batches of a buffer but those that are touched (bool)."""
        kept = np.flatnonzero(~is_touched)
        starts, ends = batches.positions[kept], batches.ends[kept]
        borders = np.flatnonzero(starts[1:] != ends[:-1]) + 1
        firsts, lasts = np.append(0, borders), np.append(borders, len(kept)) - 1
        if len(kept):
            for start, end in zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True):
                self._sha256.update(buffer[start:end].data)

    def hexdigest(self) -> str:
        return self._sha256.hexdigest()


def digest_kept(columns: RecordColumns, selected: NDArray[np.bool_], *, is_blanked: bool) -> str:
    """The digest of a touched batch's records without the ``selected`` ones (bool), or, where these are blanked, with
    null for their values; it is the same before and after an erasure."""
    return digest_records(replace_values(columns, selected) if is_blanked else filter_rows(columns, ~selected))


def digest_records(columns: RecordColumns) -> str:
    """SHA-256 (hexadecimal) of records: the number of records (int32), their offsets and timestamps (int64), the
    lengths of their keys (int32, -1 for null) and the bytes of all keys, the same of values; the number of headers of
    each record (int32), and lengths and bytes of all headers' keys, and of their values. Integers are big-endian."""
    rows = columns.rows
    sha256 = hashlib.sha256(rows.to_bytes(4, "big"))
    for numbers in (columns.offset, columns.timestamp):
        sha256.update(numbers[:rows].astype(">i8").tobytes())
    _add_values(sha256, columns.key_ends, columns.key_null, columns.key_data, 0, rows)
    _add_values(sha256, columns.value_ends, columns.value_null, columns.value_data, 0, rows)
    first, last = int(columns.header_ends[0]), int(columns.header_ends[rows])
    sha256.update(np.diff(columns.header_ends[: rows + 1]).astype(">i4").tobytes())
    _add_values(sha256, columns.header_key_ends, None, columns.header_key_data, first, last)
    _add_values(sha256, columns.header_value_ends, columns.header_value_null, columns.header_value_data, first, last)
    return sha256.hexdigest()


def _add_values(
    sha256: hashlib._Hash,  # pyright: ignore[reportPrivateUsage]
    ends: NDArray[np.int32],
    null: NDArray[np.uint8] | None,
    data: NDArray[np.uint8],
    first: int,
    last: int,
) -> None:
    lengths = np.diff(ends[first : last + 1])
    if null is not None:
        lengths = np.where(null[first:last] != 0, -1, lengths)
    sha256.update(lengths.astype(">i4").tobytes())
    sha256.update(np.ascontiguousarray(data[int(ends[first]) : int(ends[last])]).data)
