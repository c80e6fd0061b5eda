"""Looks into v0 and v1 wrapper messages: where their compressed values are, and what only inner messages show."""

# Kernels take all columns as positional arguments, which the checker cannot count.
# pyright: reportCallIssue=false

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Kind
from brokerless.format import columns as reasons
from brokerless.format import layouts
from brokerless.format.codecs.decompression import Inflater
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES, LimitError
from brokerless.format.columns import Damage, allocate
from brokerless.format.read.batch_headers import Batches
from brokerless.format.read.message_kernels import decode_wrappers


@dataclass(frozen=True, slots=True)
class WrapperContents:
    """Facts that only inner messages of wrappers show, for ``n`` batches. For other batches, it has what their headers
    say."""

    base_offset: NDArray[np.int64]
    """int64, meaningful where ``has_base_offset``."""
    has_base_offset: NDArray[np.bool_]
    count: NDArray[np.int32]
    """Messages that can be read, each offset once (int32)."""
    repeats: dict[int, NDArray[np.int64]]
    """By row, the offsets that messages before in the same wrapper have, where there are such messages."""
    damages: tuple[Damage, ...]
    """Wrappers that inflate past the limit, so that their contents are not known, and wrappers with a message at whose
    checksum a consumer throws."""


def inspect_wrappers(
    buffer: NDArray[np.uint8], batches: Batches, max_batch_bytes: int | None = None
) -> WrapperContents:
    """Inflates v0 and v1 wrapper messages as far as their base offsets and counts need it. ``max_batch_bytes``: bytes
    that one may inflate to (:data:`DEFAULT_MAX_BATCH_BYTES`)."""
    base_offset, has_base_offset = batches.entry_offset.copy(), np.ones(len(batches), np.bool_)
    count = np.where(batches.is_legacy, np.int32(1), batches.count)
    rows = np.flatnonzero(batches.is_wrapper)
    has_base_offset[rows], count[rows] = False, 0
    wrappers = batches.take(rows)
    wrong, starts, ends = find_wrapper_values(buffer, wrappers)
    inflater, view, nothing = Inflater(max_batch_bytes or DEFAULT_MAX_BATCH_BYTES), buffer.data, np.zeros(3, np.uint8)
    given, status = np.zeros(1, np.int32), np.zeros(1, np.int8)
    stopped_at, first_offset, has_offset = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.uint8)
    damages: list[Damage] = []
    repeats: dict[int, NDArray[np.int64]] = {}
    for row in range(len(wrappers)):
        if row in wrong:
            continue
        inflater.clear()
        one = slice(row, row + 1)
        payload = view[starts[row] : ends[row]]
        start, end, error = inflater.inflate(int(wrappers.codec[row]), int(wrappers.magic[row]), payload)
        place = int(wrappers.positions[row]), int(wrappers.entry_offset[row])
        if isinstance(error, LimitError):
            damages.append(Damage(Kind.LIMIT_EXCEEDED, *place, str(error)))
        if error is not None:
            continue
        columns = allocate((end - start) // 26 + 1, 0, 0)
        decode_wrappers(
            inflater.buffer, 0, np.array([start]), np.array([end]), wrappers.entry_offset[one], wrappers.magic[one],
            wrappers.timestamp_type[one], wrappers.max_timestamp[one], nothing,
            *columns.arrays(), given, status, stopped_at, first_offset, has_offset,
        )  # fmt: skip
        base_offset[rows[row]], has_base_offset[rows[row]] = first_offset[0], has_offset[0] != 0
        count[rows[row]] = given[0]
        offsets = columns.offset[: given[0]]
        if (offsets[1:] <= offsets[:-1]).any():
            repeated = np.delete(offsets, np.unique(offsets, return_index=True)[1])
            if len(repeated):
                repeats[int(rows[row])] = repeated
                count[rows[row]] -= len(repeated)
        if status[0] == reasons.MESSAGE_CRC:
            kind, message = reasons.REASONS[reasons.MESSAGE_CRC]
            damages.append(Damage(kind, *place, message))
    return WrapperContents(base_offset, has_base_offset, count, repeats=repeats, damages=tuple(damages))


def find_wrapper_values(
    buffer: NDArray[np.uint8], run: Batches
) -> tuple[dict[int, int], NDArray[np.int64], NDArray[np.int64]]:
    """Return where the compressed values of wrapper messages start and end (int64, by row), and the status of those
    rows that have no value to inflate."""
    count = len(run)
    starts, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
    wrong: dict[int, int] = {}
    view = buffer.data
    for row, (start, end, magic, codec) in enumerate(
        zip(run.positions.tolist(), run.ends.tolist(), run.magic.tolist(), run.codec.tolist(), strict=True)
    ):
        key = start + (layouts.MESSAGE_V0_HEADER_SIZE if magic == layouts.MAGIC_V0 else layouts.MESSAGE_V1_HEADER_SIZE)
        value = key + max(0, int.from_bytes(view[key - 4 : key], "big", signed=True)) + 4
        size = int.from_bytes(view[value - 4 : value], "big", signed=True)
        if magic < 0:
            wrong[row] = reasons.WRAPPER_MAGIC
        elif value > end or value + max(0, size) > end:
            wrong[row] = reasons.MESSAGE_FIELD_INVALID
        elif size < 0:
            wrong[row] = reasons.NULL_WRAPPER
        elif codec > layouts.LZ4:
            wrong[row] = reasons.WRAPPER_CODEC
        else:
            starts[row], ends[row] = value, value + size
    return wrong, starts, ends
