"""Produce requests as clients send them, and as they should not: seeded, of all formats and codecs, for topics of any
settings; put together byte by byte."""

from __future__ import annotations

import base64
import random
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from tests.format import twin

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOW = 1_700_000_000_000
MOST = 2**63 - 1
KEYS = (None, b"", b"k", b"key", "Schl\N{LATIN SMALL LETTER U WITH DIAERESIS}ssel".encode(), b"\x00\xff")
HEADER_KEYS = (b"", b"h", b"h", b"\xc3\x28", b"\xed\xa0\x80\xed", b"\xe2\x82", b"\xf0\x9f\x92\xa9\xf0\x9f", b"\xf5\x80")


@dataclass
class Request:
    """One partition's part of a produce request, the topic's settings, and what the broker knows."""

    data: bytes
    source: str
    target: str
    to_magic: int
    timestamp_type: str = "CreateTime"
    before: int = MOST
    after: int = MOST
    compacted: bool = False
    origin: str = "client"
    first_offset: int = 0
    epoch: int = 0
    now: int = NOW

    def as_json(self) -> dict[str, Any]:
        return {
            "buffer": base64.b64encode(self.data).decode(),
            "sourceCompression": self.source,
            "targetCompression": self.target,
            "toMagic": self.to_magic,
            "timestampType": self.timestamp_type,
            "timestampBeforeMaxMs": self.before,
            "timestampAfterMaxMs": self.after,
            "compacted": self.compacted,
            "origin": self.origin,
            "firstOffset": self.first_offset,
            "partitionLeaderEpoch": self.epoch,
            "nowMs": self.now,
        }


def message(
    magic: int,
    key: bytes | None,
    value: bytes | None,
    offset: int = 0,
    timestamp: int = NOW,
    attributes: int = 0,
    crc: int = 0,
    key_length: int | None = None,
    value_length: int | None = None,
) -> bytes:
    """A v0 or v1 message; ``crc`` is what its checksum is off by, the lengths are what it says in place of the true."""

    def field(data: bytes | None, length: int | None) -> bytes:
        true = -1 if data is None else len(data)
        return struct.pack(">i", true if length is None else length) + (data or b"")

    body = struct.pack(">bB", magic, attributes) + (struct.pack(">q", timestamp) if magic != 0 else b"")
    body += field(key, key_length) + field(value, value_length)
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body) ^ crc) + body


def some_request(chance: random.Random) -> Request:
    """One of any kind: a third as clients send it, the others with something odd in it."""
    magic = chance.choice((0, 1, 1, 2, 2, 2))
    codec = chance.choice(CODECS if magic == 2 else CODECS[:4])
    odd = chance.random() < 0.66
    target = codec if chance.random() < 0.6 else chance.choice(CODECS)
    request = Request(b"", codec, target, magic if chance.random() < 0.6 else chance.randrange(3))
    request.first_offset, request.epoch = chance.choice((0, 1, 5_000_000_000)), chance.randrange(100)
    request.timestamp_type = "LogAppendTime" if chance.random() < 0.3 else "CreateTime"
    if odd:
        request.compacted = chance.random() < 0.2
        request.origin = chance.choice(("client", "client", "client", "coordinator", "replication"))
        request.before = chance.choice((MOST, MOST, 1000, 0))
        request.after = chance.choice((MOST, 3_600_000, 0))
    batches = chance.choice((1, 1, 1, 1, 2)) if odd else 1
    data = b"".join(some_batch(chance, magic, codec, odd, request) for _ in range(batches))
    if odd and chance.random() < 0.15:
        other = chance.randrange(3)
        data += some_batch(chance, other, "none", True, request)
    if odd and chance.random() < 0.15:
        data = with_a_bad_end(chance, data)
    request.data = data
    return request


def with_a_bad_end(chance: random.Random, data: bytes) -> bytes:
    match chance.randrange(4):
        case 0:
            return data + data[: chance.randrange(len(data))]
        case 1:
            return data + struct.pack(">qi", 0, chance.choice((-1, 0, 13, 2**31 - 1, 2**31 - 13))) + b"\0" * 9
        case 2:
            return data + struct.pack(">qiib", 0, 1000, 0, chance.choice((3, -1, 2))) + b"\0" * chance.randrange(99)
        case _:
            return data[: chance.randrange(len(data))]


def some_timestamp(chance: random.Random, odd: bool) -> int:
    usual = NOW + chance.randrange(-5000, 5000)
    if not odd:
        return usual if chance.random() < 0.9 else -1
    return chance.choice((usual, usual, usual, usual, usual, -1, NOW, 0, NOW + 10**7, NOW - 10**7, -2, MOST, -MOST))


def some_value(chance: random.Random) -> bytes | None:
    return chance.choice(
        (None, b"", b"value", b"text " * chance.randrange(200), chance.randbytes(chance.randrange(99)))
    )


def some_batch(chance: random.Random, magic: int, codec: str, odd: bool, request: Request) -> bytes:
    """A v2 batch, a wrapper message, or some messages."""
    count = chance.randrange(1, 12)
    mild = odd and chance.random() < 0.5
    timestamps = [some_timestamp(chance, mild) for _ in range(count)]
    if odd and chance.random() < 0.1:
        timestamps = [-1] * count
    keys = [chance.choice(KEYS if not request.compacted or odd else KEYS[1:]) for _ in range(count)]
    if request.compacted and chance.random() < 0.7:
        keys = [b"k" if key is None else key for key in keys]
    values = [some_value(chance) for _ in range(count)]
    if magic == 2:
        return some_v2(chance, codec, odd, keys, values, timestamps)
    attributes = 8 if odd and chance.random() < 0.15 else 0
    if codec == "none":
        return b"".join(
            some_message(chance, magic, odd, key, value, chance.choice((number, 0, 99)), timestamp, attributes)
            for number, (key, value, timestamp) in enumerate(zip(keys, values, timestamps, strict=True))
        )
    return some_wrapper(chance, magic, codec, odd, keys, values, timestamps, attributes)


def some_message(
    chance: random.Random,
    magic: int,
    odd: bool,
    key: bytes | None,
    value: bytes | None,
    offset: int,
    timestamp: int,
    attributes: int = 0,
    inner: bool = False,
) -> bytes:
    wrong: dict[str, int] = {}
    if odd and chance.random() < 0.04:
        wrong["key_length"] = chance.choice((-2, 0, 1000, 2**31 - 1))
    if odd and chance.random() < 0.04:
        wrong["value_length"] = chance.choice((-2, 0, 1000, 2**31 - 1))
    if odd and inner and chance.random() < 0.03:
        wrong["crc"] = 1
    if odd and inner and chance.random() < 0.03:
        attributes |= chance.choice((1, 3, 4, 6))
    if odd and inner and chance.random() < 0.04:
        magic = chance.choice((0, 1, 2, 3))
    made = message(magic, key, value, offset, timestamp, attributes, **wrong)
    if odd and chance.random() < 0.03:  # a message that ends early
        cut = made[: chance.randrange(26, len(made) + 1)]
        made = cut[:8] + struct.pack(">iI", len(cut) - 12, zlib.crc32(cut[16:])) + cut[16:]
    return made


def some_wrapper(
    chance: random.Random,
    magic: int,
    codec: str,
    odd: bool,
    keys: list[bytes | None],
    values: list[bytes | None],
    timestamps: list[int],
    attributes: int,
) -> bytes:
    count = len(keys)
    offsets = list(range(count))
    if odd and chance.random() < 0.2:
        offsets = chance.choice(([0] * count, [number * 2 for number in range(count)], [5 + n for n in range(count)]))
    parts = zip(keys, values, offsets, timestamps, strict=True)
    inner = b"".join(some_message(chance, magic, odd, *part, inner=True) for part in parts)
    if odd and chance.random() < 0.1:
        inner = chance.choice((b"", inner[:-3], inner + bytes(12), inner + struct.pack(">qi", 0, 13), inner + bytes(5)))
    payload: bytes | None = twin.COMPRESS[codec](inner)
    if odd and chance.random() < 0.1:
        payload = damaged(chance, payload)
    if odd and chance.random() < 0.03:
        payload = None
    number = CODECS.index(codec)
    if odd and chance.random() < 0.04 and magic == 1:
        number, payload = 4, twin.COMPRESS["zstd"](inner)
    offset = offsets[-1]
    if odd and chance.random() < 0.15:
        offset = chance.choice((0, count - 1, count + 7, 1))
    largest = max(timestamps) if chance.random() < 0.8 or not odd else some_timestamp(chance, True)
    key = b"key" if odd and chance.random() < 0.05 else None
    wrong = {"value_length": 100_000} if odd and chance.random() < 0.02 else {}
    return message(magic, key, payload, offset, largest, attributes | number, **wrong)


def some_v2(
    chance: random.Random,
    codec: str,
    odd: bool,
    keys: list[bytes | None],
    values: list[bytes | None],
    timestamps: list[int],
) -> bytes:
    count = len(keys)
    with_headers = chance.random() < 0.4
    deltas = list(range(count))
    if odd and chance.random() < 0.1:
        deltas = [number + chance.randrange(2) for number in deltas]
    base = timestamps[0]
    records = []
    for key, value, timestamp, delta in zip(keys, values, timestamps, deltas, strict=True):
        headers = []
        if with_headers:
            headers = [(chance.choice(HEADER_KEYS), chance.choice(KEYS)) for _ in range(chance.randrange(3))]
        records.append(twin.write_record(key, value, headers, delta, twin.as_int64(timestamp - base)))
    if odd and chance.random() < 0.12:
        records = with_a_bad_record(chance, records)
    payload = twin.COMPRESS[codec](b"".join(records))
    if odd and chance.random() < 0.1:
        payload = damaged(chance, payload)
    fields = {
        "attributes": CODECS.index(codec),
        "last_offset_delta": count - 1,
        "base_timestamp": base,
        "max_timestamp": max(timestamps),
        "count": count,
        "partition_leader_epoch": -1,
    }
    if chance.random() < 0.3:
        fields |= {"producer_id": 4000, "producer_epoch": 3, "base_sequence": chance.choice((0, 17, 2**31 - 2))}
        fields["attributes"] |= chance.choice((0, 0x10))
    if odd:
        for name, values_ in ODD_FIELDS.items():
            if chance.random() < 0.06:
                fields[name] = chance.choice(values_)
        for bit in (0x08, 0x10, 0x20, 0x40, 0x80, 0x100):
            if chance.random() < 0.05:
                fields["attributes"] |= bit
    return twin.write_batch(payload, **fields)


ODD_FIELDS = {
    "base_offset": (0, 1, 500, -1),
    "last_offset_delta": (-1, 0, 3, 11, 2**31 - 1),
    "base_timestamp": (-1, 0, NOW, -5),
    "max_timestamp": (-1, 0, NOW, -5),
    "producer_id": (-1, -2, 0, 7),
    "producer_epoch": (-1, 0),
    "base_sequence": (-1, -2, 0),
    "count": (-1, 0, 1, 2, 5, 100),
}


def with_a_bad_record(chance: random.Random, records: list[bytes]) -> list[bytes]:
    """One record changed: a byte of it, its length, or its end."""
    at = chance.randrange(len(records))
    record = bytearray(records[at])
    match chance.randrange(5):
        case 0:
            record[chance.randrange(len(record))] ^= 1 << chance.randrange(8)
        case 1:
            record = bytearray(twin.write_varint(chance.choice((-1, 0, 3, 100, 5000)))) + record[1:]
        case 2:
            del record[chance.randrange(len(record)) :]
        case 3:
            record = bytearray(b"\xff" * 6) + record
        case _:
            record += bytes(chance.randrange(1, 9))
    return [*records[:at], bytes(record), *records[at + 1 :]]


def damaged(chance: random.Random, payload: bytes) -> bytes:
    changed = bytearray(payload)
    match chance.randrange(3):
        case 0:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        case 1:
            del changed[chance.randrange(len(changed)) :]
        case _:
            changed += chance.randbytes(chance.randrange(1, 9))
    return bytes(changed)


def source_of(data: bytes) -> str:
    """The codec that a broker would say a request has: its last compressed batch's, as far as batches can be found."""
    found, at = 0, 0
    while len(data) - at > 17:
        size, magic = struct.unpack_from(">i", data, at + 8)[0], data[at + 16]
        if size < 14 or magic > 2 or len(data) - at < 12 + size:
            break
        attributes = struct.unpack_from(">h", data, at + 21)[0] if magic == 2 else data[at + 17]
        found = attributes & 7 or found
        at += 12 + size
    return CODECS[found]
