"""Writes some of a batch's records as a batch of their own: those that can be read, or that no other batch has."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT64
from brokerless.format import layouts
from brokerless.format.codecs.decompression import Inflater
from brokerless.format.columns import RecordColumns
from brokerless.format.read.batch_headers import Batches, increment_sequence, read_headers
from brokerless.format.read.decoder import Decoder, decode_whole
from brokerless.format.read.wrappers import find_wrapper_values, inspect_wrappers
from brokerless.format.write.column_slices import concat_columns
from brokerless.format.write.encoder import Encoder


def part_of_batch(buffer: NDArray[np.uint8], first: int, last: int | None, max_batch_bytes: int) -> NDArray[np.uint8]:
    """Return the records of a batch with ``first <= offset <= last``, uncompressed: a v2 batch, or single v0 or v1
    messages for those of a wrapper message; no bytes if there are none. ``last``: None for that of the last record."""
    batch = read_headers(buffer, np.zeros(1, np.int64))
    if batch.is_legacy[0]:
        last = MAX_INT64 if last is None else last
        return np.frombuffer(
            b"".join(_messages(buffer, batch, first, last=last, max_batch_bytes=max_batch_bytes)), np.uint8
        )
    columns = decode_batch(buffer, batch, max_batch_bytes)
    if columns is None:
        return np.empty(0, np.uint8)
    offsets = columns.offset[: columns.rows]
    last = int(offsets.max()) if last is None else last
    begin, end = int(np.searchsorted(offsets, first)), int(np.searchsorted(offsets, last, "right"))
    if begin == end:
        return np.empty(0, np.uint8)
    header, base_offset = batch.v2.copy(), int(columns.offset[begin])
    skipped = base_offset - int(batch.entry_offset[0])
    header["base_offset"], header["count"], header["last_offset_delta"] = base_offset, end - begin, last - base_offset
    if skipped and batch.base_sequence[0] != layouts.NO_SEQUENCE:
        header["base_sequence"] = increment_sequence(batch.base_sequence, np.array([skipped], np.int32))
    if not batch.timestamp_type[0]:
        header["max_timestamp"] = columns.timestamp[begin:end].max()
    return Encoder().encode(columns, np.array([begin, end], np.int64), header)


def decode_batch(buffer: NDArray[np.uint8], batch: Batches, max_batch_bytes: int) -> RecordColumns | None:
    """Return the records of one batch, as far as they decode; None if there are none."""
    decoder = Decoder(max_batch_bytes=max_batch_bytes)
    parts = [each.columns for each in decode_whole(decoder, buffer, batch) if each.columns.rows]
    return concat_columns(parts) if parts else None


def _messages(
    buffer: NDArray[np.uint8], wrapper: Batches, first: int, last: int, max_batch_bytes: int
) -> Iterator[bytes]:
    """The messages in a wrapper whose own checksums are right, each with its offset, and each offset once."""
    _, starts, ends = find_wrapper_values(buffer, wrapper)
    inflater, payload = Inflater(max_batch_bytes), buffer.data[starts[0] : ends[0]]
    start, end, _ = inflater.inflate(int(wrapper.codec[0]), int(wrapper.magic[0]), payload)
    data, at, shift = inflater.buffer[start:end].tobytes(), 0, None
    known = set[int]()
    while len(data) - at >= layouts.LOG_ENTRY_SIZE:
        inner_offset, size = struct.unpack_from(">qi", data, at)
        message = data[at + layouts.LOG_ENTRY_SIZE : at + layouts.LOG_ENTRY_SIZE + size]
        if len(message) < size:
            return
        if shift is None:  # v1: offsets count from the wrapper's
            shift = int(inspect_wrappers(buffer, wrapper, max_batch_bytes).base_offset[0]) - inner_offset
        offset = inner_offset + shift
        is_intact = zlib.crc32(message[4:]) == int.from_bytes(message[:4], "big")
        if first <= offset <= last and is_intact and offset not in known:
            known.add(offset)
            yield struct.pack(">qi", offset, size) + _with_timestamp_of(wrapper, message)
        at += layouts.LOG_ENTRY_SIZE + size


def _with_timestamp_of(wrapper: Batches, message: bytes) -> bytes:
    """A message by itself: with LogAppendTime, its timestamp was that of the wrapper."""
    if wrapper.timestamp_type[0] != layouts.LOG_APPEND_TIME or message[4] != layouts.MAGIC_V1:
        return message
    attributes = message[5] | layouts.TIMESTAMP_TYPE_BIT
    body = struct.pack(">bBq", layouts.MAGIC_V1, attributes, int(wrapper.max_timestamp[0])) + message[14:]
    return struct.pack(">I", zlib.crc32(body)) + body
