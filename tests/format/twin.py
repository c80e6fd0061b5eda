"""A slow twin of the format core: the format's rules in plain Python, one value at a time, for tests to compare with.

Written from KIP-98 and KIP-82, and from what ``ByteUtils``, ``FileLogInputStream``, ``DefaultRecordBatch`` and
``DefaultRecord`` (3.9.1) do with bytes that are wrong.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from aiokafka.codec import lz4_encode, snappy_encode, zstd_encode
from aiokafka.record.util import calc_crc32c

from brokerless.format.columns import Damage, RecordColumns
from brokerless.format.read.batch_headers import read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.read.decoder import Decoder

INT32, INT64 = 1 << 32, 1 << 64


class Header(NamedTuple):
    """A v2 batch's 61 bytes."""

    base_offset: int
    size: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int


HEADER = struct.Struct(">qiibIhiqqqhii")


class Record(NamedTuple):
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    sequence: int = -1


class BrokenError(Exception):
    """Where Kafka's reader throws."""


def as_int32(value: int) -> int:
    return (value + INT32 // 2) % INT32 - INT32 // 2


def as_int64(value: int) -> int:
    return (value + INT64 // 2) % INT64 - INT64 // 2


def write_varint(value: int) -> bytes:
    """ZigZag and base 128, with the fewest bytes; for int32 and int64 alike."""
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw >= 128:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def read_varint(data: bytes, at: int, bits: int = 32) -> tuple[int, int]:
    """A value of so many bits, and the position after it."""
    raw = 0
    for place in range(-(-bits // 7)):
        if at + place >= len(data):
            raise BrokenError("cut off")
        byte = data[at + place]
        raw |= (byte & 127) << 7 * place
        if byte < 128:
            raw %= 1 << bits
            return (raw >> 1) ^ -(raw & 1), at + place + 1
    raise BrokenError("too long")


def chain(data: bytes) -> tuple[list[int], int, bool]:
    """Where batches start by the chain of sizes, where it ends, and whether Kafka's reader throws there."""
    positions, at = [], 0
    while len(data) - at > 17:
        (size,) = struct.unpack_from(">i", data, at + 8)
        if size < 14:
            return positions, at, True
        if size > len(data) - at - 12:
            break
        positions.append(at)
        at += 12 + size
    return positions, at, False


def increment_sequence(sequence: int, increment: int) -> int:
    """``DefaultRecordBatch.incrementSequence``, in Java's arithmetic."""
    largest = INT32 // 2 - 1
    if sequence > as_int32(largest - increment):
        return as_int32(increment - as_int32(largest - sequence) - 1)
    return as_int32(sequence + increment)


def read_record(data: bytes, at: int, batch: Header) -> tuple[Record, int]:
    """The v2 record at ``at`` in a batch's (decompressed) payload, and the position after it."""
    size, at = read_varint(data, at)
    if size > len(data) - at:
        raise BrokenError("a record past the batch's end")
    start = at
    at += 1

    def field(at: int) -> tuple[bytes | None, int]:
        length, at = read_varint(data, at)
        if length < 0:
            return None, at
        if length > len(data) - at:
            raise BrokenError("a field past the batch's end")
        return data[at : at + length], at + length

    delta, at = read_varint(data, at, 64)
    offset_delta, at = read_varint(data, at)
    key, at = field(at)
    value, at = field(at)
    count, at = read_varint(data, at)
    if count < 0 or count > len(data) - at:
        raise BrokenError("a header count")
    headers = []
    for _ in range(count):
        name, at = field(at)
        if name is None:
            raise BrokenError("a header without a key")
        header, at = field(at)
        headers.append((name, header))
    if at - start != size:
        raise BrokenError("a record of another length")
    append = batch.attributes & 8
    timestamp = batch.max_timestamp if append else as_int64(batch.base_timestamp + delta)
    sequence = increment_sequence(batch.base_sequence, offset_delta) if batch.base_sequence >= 0 else -1
    offset = as_int64(batch.base_offset + offset_delta)
    return Record(offset, timestamp, int(append > 0), key, value, tuple(headers), sequence), at


def read_records(batch: Header, payload: bytes) -> tuple[list[Record], bool]:
    """A batch's records as far as Kafka's reader hands them out, and whether it hands out all without throwing."""
    records: list[Record] = []
    if batch.count < 0:
        return records, False
    at = 0
    try:
        for number in range(batch.count):
            record, at = read_record(payload, at, batch)
            if number == batch.count - 1 and at != len(payload):
                return records, False
            records.append(record)
    except BrokenError:
        return records, False
    return records, True


def read_header(data: bytes, at: int = 0) -> Header:
    return Header(*HEADER.unpack_from(data, at))


def write_batch(payload: bytes, **fields: int) -> bytes:
    """A v2 batch around a payload (compressed, if the attributes say so), with the right size and checksum."""
    defaults = Header(0, 49 + len(payload), 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)
    data = bytearray(HEADER.pack(*defaults._replace(**fields)) + payload)
    data[17:21] = calc_crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def write_record(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
    offset_delta: int = 0,
    timestamp_delta: int = 0,
) -> bytes:
    def field(data: bytes | None) -> bytes:
        return b"\x01" if data is None else write_varint(len(data)) + data

    body = b"\0" + write_varint(timestamp_delta) + write_varint(offset_delta) + field(key) + field(value)
    body += write_varint(len(headers)) + b"".join(field(name) + field(header) for name, header in headers)
    return write_varint(len(body)) + body


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "snappy": snappy_encode,
    "lz4": lz4_encode,
    "zstd": zstd_encode,
}
"""The codecs by the id in the attributes, as another client compresses."""


def records_of(columns: RecordColumns) -> list[Record]:
    """The rows of kernels' columns, as the twin has them."""

    def field(data: Any, ends: Any, null: Any, row: int) -> bytes | None:
        return None if null is not None and null[row] else data[ends[row] : ends[row + 1]].tobytes()

    c = columns
    found = []
    for row in range(c.rows):
        headers = tuple(
            (
                field(c.header_key_data, c.header_key_ends, None, header) or b"",
                field(c.header_value_data, c.header_value_ends, c.header_value_null, header),
            )
            for header in range(c.header_ends[row], c.header_ends[row + 1])
        )
        found.append(
            Record(
                int(c.offset[row]),
                int(c.timestamp[row]),
                int(c.timestamp_type[row]),
                field(c.key_data, c.key_ends, c.key_null, row),
                field(c.value_data, c.value_ends, c.value_null, row),
                headers,
                int(c.sequence[row]),
            )
        )
    return found


def decode(data: bytes, decoder: Decoder | None = None) -> tuple[dict[int, list[Record]], list[Damage]]:
    """What brokerless decodes: the records of each batch by its position, and damages. Checksums are not looked at."""
    buffer = np.frombuffer(data, np.uint8)
    decoder = decoder or Decoder()
    batches = read_headers(buffer, scan_batches(buffer).positions)
    found: dict[int, list[Record]] = {}
    damages: list[Damage] = []
    for chunk in [*decoder.decode(buffer, batches), decoder.flush()]:
        if chunk is None:
            continue
        rows = iter(records_of(chunk.columns))
        for position, given in zip(chunk.positions.tolist(), chunk.given.tolist(), strict=True):
            found.setdefault(position, []).extend(next(rows) for _ in range(given))
        assert next(rows, None) is None
        damages.extend(chunk.damages)
    return found, damages
