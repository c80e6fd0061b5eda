"""Slices, filters and concatenates record columns, and replaces values in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.format.columns import SLACK, RecordColumns, allocate_array

BinaryColumn = tuple[NDArray[np.int32], NDArray[np.uint8]]

_FEW_RUNS = 16
"""Up to so many runs of rows, copying each as a whole is faster than gathering rows."""
MOST_BYTES = MAX_INT32
"""Of keys, of values, ... in one ``RecordColumns``, whose ends are int32."""


def slice_rows(columns: RecordColumns, start: int, stop: int) -> RecordColumns:
    """Return rows ``start`` to ``stop`` as a view: nothing is copied, and ends do not begin at 0."""
    headers = int(columns.header_ends[stop])
    filled = [columns.key_ends[stop], columns.value_ends[stop], headers]
    filled += [columns.header_key_ends[headers], columns.header_value_ends[headers]]
    return replace(
        columns,
        offset=columns.offset[start:stop],
        timestamp=columns.timestamp[start:stop],
        sequence=columns.sequence[start:stop],
        timestamp_type=columns.timestamp_type[start:stop],
        key_ends=columns.key_ends[start : stop + 1],
        key_null=columns.key_null[start:stop],
        value_ends=columns.value_ends[start : stop + 1],
        value_null=columns.value_null[start:stop],
        header_ends=columns.header_ends[start : stop + 1],
        used=np.array([stop - start, *filled], np.int64),
    )


def filter_rows(columns: RecordColumns, rows: NDArray[np.bool_]) -> RecordColumns:
    """Return the rows where ``rows`` (bool) is true; a view where they are consecutive."""
    borders = np.flatnonzero(np.diff(rows, prepend=False, append=False)).tolist()
    if len(borders) > 2 * _FEW_RUNS:
        return _gather_rows(columns, np.flatnonzero(rows))
    parts = [slice_rows(columns, start, stop) for start, stop in zip(borders[::2], borders[1::2], strict=True)]
    return concat_columns(parts) if parts else slice_rows(columns, 0, 0)


def _gather_rows(columns: RecordColumns, rows: NDArray[np.int64]) -> RecordColumns:
    """A copy of some rows, in ascending order."""
    key_ends, key_data = _gather(rows, columns.key_ends, columns.key_data)
    value_ends, value_data = _gather(rows, columns.value_ends, columns.value_data)
    counts = np.diff(columns.header_ends[: columns.rows + 1])
    first = int(columns.header_ends[0])
    is_chosen = np.zeros(columns.rows, np.bool_)
    is_chosen[rows] = True
    headers = np.flatnonzero(np.repeat(is_chosen, counts)) + first
    header_ends = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(counts[rows], out=header_ends[1:])
    header_key_ends, header_key_data = _gather(headers, columns.header_key_ends, columns.header_key_data)
    header_value_ends, header_value_data = _gather(headers, columns.header_value_ends, columns.header_value_data)
    return RecordColumns(
        offset=columns.offset[rows],
        timestamp=columns.timestamp[rows],
        sequence=columns.sequence[rows],
        timestamp_type=columns.timestamp_type[rows],
        key_ends=key_ends,
        key_null=columns.key_null[rows],
        key_data=key_data,
        value_ends=value_ends,
        value_null=columns.value_null[rows],
        value_data=value_data,
        header_ends=header_ends,
        header_key_ends=header_key_ends,
        header_key_data=header_key_data,
        header_value_ends=header_value_ends,
        header_value_null=columns.header_value_null[headers],
        header_value_data=header_value_data,
        used=np.array(
            [len(rows), key_ends[-1], value_ends[-1], len(headers), header_key_ends[-1], header_value_ends[-1]],
            np.int64,
        ),
    )


def _gather(rows: NDArray[np.int64], ends: NDArray[np.int32], data: NDArray[np.uint8]) -> BinaryColumn:
    from brokerless.format.write.column_slices_kernels import gather_values

    total = int((ends[rows + 1].astype(np.int64) - ends[rows]).sum()) if len(rows) else 0
    target, target_ends = allocate_array(total + SLACK, np.uint8), np.zeros(len(rows) + 1, np.int32)
    gathered = gather_values(rows, ends, data, target_ends, target)
    if gathered != len(rows):
        raise ValueError(f"row {rows[gathered]} of the columns is not within their bytes")
    return target_ends, target


def replace_values(
    columns: RecordColumns, rows: NDArray[np.bool_], values: Sequence[bytes | None] | None = None
) -> RecordColumns:
    """Return the columns with other values in the rows where ``rows`` (bool) is true: null, or those of ``values``, one
    for each such row. All else is shared. Raises ValueError for another number of values."""
    count = int(rows.sum())
    given: list[bytes | None] = [None] * count if values is None else list(values)
    if len(given) != count:
        raise ValueError(f"{len(given)} values for {count} rows")
    total, places = columns.rows, np.flatnonzero(rows)
    new = b"".join(each or b"" for each in given)
    old_data = columns.value_data[columns.value_ends[0] : columns.value_ends[total]]
    lengths = np.diff(columns.value_ends[: total + 1]).astype(np.int64)
    lengths[places] = [len(each or b"") for each in given]
    ends = np.zeros(total + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    if int(ends[-1]) > MOST_BYTES:
        raise ValueError("the values would take more than 2 GiB")
    null = columns.value_null[:total].copy()
    null[places] = [each is None for each in given]
    parts, at, used = list[NDArray[np.uint8]](), 0, 0
    old_ends = columns.value_ends[: total + 1].astype(np.int64) - int(columns.value_ends[0])
    replacement = np.frombuffer(new, np.uint8)
    for place in places.tolist():
        parts += [old_data[at : old_ends[place]], replacement[used : used + lengths[place]]]
        at, used = int(old_ends[place + 1]), used + int(lengths[place])
    parts.append(old_data[at:])
    filled = columns.used.copy()
    filled[2] = ends[-1]
    data = np.concatenate([*parts, np.zeros(SLACK, np.uint8)])
    return replace(columns, value_ends=ends.astype(np.int32), value_null=null, value_data=data, used=filled)


def data_size(columns: RecordColumns) -> int:
    """Return how many bytes keys or values have, whichever have more."""
    rows = columns.rows
    keys = int(columns.key_ends[rows]) - int(columns.key_ends[0])
    return max(keys, int(columns.value_ends[rows]) - int(columns.value_ends[0]))


def concat_columns(parts: Sequence[RecordColumns]) -> RecordColumns:
    """Return the rows of all, in order; a copy if there are more than one.

    The bytes of keys, and of values, must be at most :data:`MOST_BYTES`.
    """
    if len(parts) == 1:
        return parts[0]
    key_ends, key_data = _join([(each.key_ends[: each.rows + 1], each.key_data) for each in parts])
    value_ends, value_data = _join([(each.value_ends[: each.rows + 1], each.value_data) for each in parts])
    spans = [slice(int(each.header_ends[0]), int(each.header_ends[each.rows])) for each in parts]
    with_headers = list(zip(parts, spans, strict=True))
    header_key_ends, header_key_data = _join(
        [(each.header_key_ends[span.start : span.stop + 1], each.header_key_data) for each, span in with_headers]
    )
    header_value_ends, header_value_data = _join(
        [(each.header_value_ends[span.start : span.stop + 1], each.header_value_data) for each, span in with_headers]
    )
    rows = sum(each.rows for each in parts)
    header_ends = _ends([each.header_ends[: each.rows + 1] for each in parts])
    return RecordColumns(
        offset=np.concatenate([each.offset[: each.rows] for each in parts]),
        timestamp=np.concatenate([each.timestamp[: each.rows] for each in parts]),
        sequence=np.concatenate([each.sequence[: each.rows] for each in parts]),
        timestamp_type=np.concatenate([each.timestamp_type[: each.rows] for each in parts]),
        key_ends=key_ends,
        key_null=np.concatenate([each.key_null[: each.rows] for each in parts]),
        key_data=key_data,
        value_ends=value_ends,
        value_null=np.concatenate([each.value_null[: each.rows] for each in parts]),
        value_data=value_data,
        header_ends=header_ends,
        header_key_ends=header_key_ends,
        header_key_data=header_key_data,
        header_value_ends=header_value_ends,
        header_value_null=np.concatenate([each.header_value_null[span] for each, span in with_headers]),
        header_value_data=header_value_data,
        used=np.array(
            [rows, key_ends[-1], value_ends[-1], header_ends[-1], header_key_ends[-1], header_value_ends[-1]], np.int64
        ),
    )


def concat_buffers(buffers: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Return bytes one after the other, in memory of Arrow's pool: fresh pages would cost more than the copy."""
    if len(buffers) == 1:
        return buffers[0]
    return (
        np.concatenate(buffers, out=allocate_array(sum(map(len, buffers)), np.uint8))
        if buffers
        else np.empty(0, np.uint8)
    )


def _join(parts: list[BinaryColumn]) -> BinaryColumn:
    data = concat_buffers([data[ends[0] : ends[-1]] for ends, data in parts])
    return _ends([ends for ends, _ in parts]), data


def _ends(parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    sizes = np.concatenate([np.diff(ends) for ends in parts])
    ends = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    return ends
