"""Slices, filters and concatenates record columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.format.columns import RecordColumns, allocate_array

Bytes = tuple[NDArray[np.int32], NDArray[np.uint8]]

MOST_BYTES = MAX_INT32
"""Of keys, of values, ... in one ``RecordColumns``, whose ends are int32."""


def slice_rows(columns: RecordColumns, start: int, stop: int) -> RecordColumns:
    """Rows ``start`` to ``stop`` as a view: nothing is copied, and ends do not begin at 0."""
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
    """The rows where ``rows`` (bool) is true; a view where they are consecutive."""
    borders = np.flatnonzero(np.diff(rows, prepend=False, append=False)).tolist()
    parts = [slice_rows(columns, start, stop) for start, stop in zip(borders[::2], borders[1::2], strict=True)]
    return concat_columns(parts) if parts else slice_rows(columns, 0, 0)


def data_size(columns: RecordColumns) -> int:
    """Bytes of keys or of values, whichever are more."""
    rows = columns.rows
    keys = int(columns.key_ends[rows]) - int(columns.key_ends[0])
    return max(keys, int(columns.value_ends[rows]) - int(columns.value_ends[0]))


def concat_columns(parts: Sequence[RecordColumns]) -> RecordColumns:
    """The rows of all, in order; a copy if there are more than one.

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
    """Bytes one after the other, in memory of Arrow's pool: fresh pages would cost more than the copy."""
    if len(buffers) == 1:
        return buffers[0]
    return (
        np.concatenate(buffers, out=allocate_array(sum(map(len, buffers)), np.uint8))
        if buffers
        else np.empty(0, np.uint8)
    )


def _join(parts: list[Bytes]) -> Bytes:
    data = concat_buffers([data[ends[0] : ends[-1]] for ends, data in parts])
    return _ends([ends for ends, _ in parts]), data


def _ends(parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    sizes = np.concatenate([np.diff(ends) for ends in parts])
    ends = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    return ends
