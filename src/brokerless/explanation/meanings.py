"""What the header fields of batches and messages mean, and what their values lead to.

The fields themselves are those of ``format/layouts.py``; a test checks that each of them has its meaning here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from brokerless.explanation.builder import Describe, Said
from brokerless.explanation.field import Part
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches, compute_checksums, read_headers
from brokerless.schemas import TIMESTAMP_TYPES

NONE = "none"


def time_of(timestamp: int) -> str:
    """Return milliseconds since 1970 as a time; -1 is none."""
    if timestamp == layouts.NO_TIMESTAMP:
        return NONE
    time = np.datetime64(timestamp, "ms")
    return "no time" if np.isnat(time) else f"{time}Z"


def codec_name(attributes: int) -> str:
    """Return the codec by the lowest bits of attributes."""
    return layouts.codec_name(attributes & layouts.CODEC_MASK)


def expected_codec(attributes: int, magic: int) -> str | None:
    """Return what is expected in the place of a codec that the message format does not have."""
    codecs = layouts.CODECS if magic >= layouts.MAGIC_V2 else layouts.CODECS[:-1]
    if attributes & layouts.CODEC_MASK < len(codecs):
        return None
    return f"a codec of {', '.join(codecs[1:])}, which {'v2 has' if magic >= layouts.MAGIC_V2 else 'v0 and v1 have'}"


def attribute_parts(attributes: int, magic: int) -> tuple[Part, ...]:
    """Return the bits of attributes by name. Of two bytes, Kafka uses the lower one only."""
    parts = [Part("0-2", "compression", codec_name(attributes))]
    append = bool(attributes & layouts.TIMESTAMP_TYPE_BIT)
    if magic == layouts.MAGIC_V0:
        return (*parts, Part("3-7", "unused", (attributes & 0xFF) >> 3))
    parts.append(Part("3", "timestampType", TIMESTAMP_TYPES[int(append)]))
    if magic < layouts.MAGIC_V2:
        return (*parts, Part("4-7", "unused", (attributes & 0xFF) >> 4))
    flags = {
        "4": ("isTransactional", layouts.TRANSACTIONAL_BIT),
        "5": ("isControl", layouts.CONTROL_BIT),
        "6": ("hasDeleteHorizon", layouts.DELETE_HORIZON_BIT),
    }
    parts += [Part(bit, name, bool(attributes & mask)) for bit, (name, mask) in flags.items()]
    return (*parts, Part("7-15", "unused", (attributes & 0xFFFF) >> 7))


def describe_entry(data: bytes, position: int, is_inner: bool = False) -> Describe:
    """Return what is said of the header of the batch or message that ``data`` is, which begins at ``position``
    (bytes)."""
    batches = read_headers(np.frombuffer(data, np.uint8), np.zeros(1, np.int64))
    describe = _describe_message if bool(batches.is_legacy[0]) else _describe_batch

    def said(name: str, values: dict[str, int]) -> Said:
        if name == "size":
            return _size(values["size"], len(data), position, bool(batches.is_legacy[0]))
        if name == "crc":
            return _crc(values["crc"], data, position, batches)
        return describe(name, values, is_inner)

    return said


def _size(size: int, available: int, position: int, is_legacy: bool) -> Said:
    first = position + layouts.LOG_ENTRY_SIZE
    smallest = layouts.MESSAGE_V0_OVERHEAD if is_legacy else layouts.BATCH_V2_SIZE - layouts.LOG_ENTRY_SIZE
    note = f"bytes that follow, from {first} to {first + size - 1}" if size > 0 else "bytes that follow"
    if size < layouts.MESSAGE_V0_OVERHEAD:
        return Said(note, f"{layouts.MESSAGE_V0_OVERHEAD} or more, the smallest message")
    if size < smallest:
        return Said(note, f"{smallest} or more, the rest of a batch's header")
    if size > available - layouts.LOG_ENTRY_SIZE:
        return Said(note, f"at most {max(0, available - layouts.LOG_ENTRY_SIZE)}, as many as there are")
    return Said(note)


def _crc(stored: int, data: bytes, position: int, batches: Batches) -> Said:
    is_legacy = bool(batches.is_legacy[0])
    name, start = ("CRC-32", layouts.MESSAGE_CRC_START) if is_legacy else ("CRC-32C", layouts.BATCH_CRC_START)
    end = int(batches.sizes[0])
    note = f"{name} of the bytes from {position + start} to {position + end - 1}: {stored:#010x}"
    if end > len(data) or end < (layouts.HEADER_SIZE_UP_TO_MAGIC if is_legacy else layouts.BATCH_V2_SIZE):
        return Said(f"{note}, which are not all there" if end > len(data) else f"{name}: {stored:#010x}")
    computed = int(compute_checksums(np.frombuffer(data, np.uint8), batches)[0])
    if computed == stored:
        return Said(f"{note}, matches")
    return Said(note, f"{computed:#010x}, the checksum of these bytes")


def _describe_batch(name: str, values: dict[str, int], _: bool) -> Said:
    value, note, expected, parts = values[name], "", None, ()
    match name:
        case "base_offset":
            note = "the first record's offset, when the batch was written; not covered by the checksum"
        case "partition_leader_epoch":
            note = NONE if value == layouts.NO_PARTITION_LEADER_EPOCH else "of the leader that appended it (KIP-101)"
        case "magic":
            note = f"message format v{value}" + (", read as v2 by Kafka" if value > layouts.MAGIC_V2 else "")
            expected = "0, 1 or 2" if value > layouts.MAGIC_V2 else None
        case "attributes":
            parts = attribute_parts(value, layouts.MAGIC_V2)
        case "last_offset_delta":
            note = f"base_offset {values['base_offset']} + {value} = last offset {values['base_offset'] + value}"
        case "base_timestamp":
            is_horizon = values["attributes"] & layouts.DELETE_HORIZON_BIT
            note = f"{'the delete horizon (KIP-534), ' if is_horizon else ''}ms since 1970: {time_of(value)}"
        case "max_timestamp":
            is_append = values["attributes"] & layouts.TIMESTAMP_TYPE_BIT
            note = f"{'of all records (LogAppendTime)' if is_append else 'the largest'}: {time_of(value)}"
        case "producer_id":
            note = NONE if value == layouts.NO_PRODUCER_ID else "of an idempotent producer (KIP-98)"
        case "producer_epoch":
            note = NONE if value == layouts.NO_PRODUCER_EPOCH else "of this producer id"
        case "base_sequence":
            note = NONE if value == layouts.NO_SEQUENCE else "the first record's sequence number"
        case _:  # count
            note, expected = "records that follow", "0 or more" if value < 0 else None
    return Said(note, expected, parts)


def _describe_message(name: str, values: dict[str, int], is_inner: bool) -> Said:
    value, note, expected, parts = values[name], "", None, ()
    match name:
        case "offset":
            note = "" if is_inner else "of the message, or the last one inside of a wrapper"
        case "magic":
            note = f"message format v{value}" if value >= 0 else "read as v1 by Kafka"
            expected = "0, 1 or 2" if value < 0 else None
        case "attributes":
            parts = attribute_parts(value, values["magic"])
        case "timestamp":
            note = f"ms since 1970: {time_of(value)}"
        case _:  # key_length
            note = "null" if value < 0 else "bytes of the key"
    return Said(note, expected, parts)


def layout_of(magic: int) -> np.dtype[Any]:
    """Return the header by the magic byte, as Kafka's file reader takes it: below 0 as v1, above 2 as v2."""
    if magic >= layouts.MAGIC_V2:
        return layouts.BATCH_V2
    return layouts.MESSAGE_V0 if magic == layouts.MAGIC_V0 else layouts.MESSAGE_V1
