"""Logs that brokers stored or left behind, and that readers find hard: small ones, in plain Python.

Each is the files of one partition, by name. A real consumer of them is in ``tests/kafka/test_consumed_cases.py``.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.format.twin import write_batch, write_record

Files = dict[str, bytes]
T = 1_700_000_000_000
GZIP = 1


def log_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def batch(
    base_offset: int,
    records: Sequence[tuple[bytes, bytes]],
    timestamp: int = T,
    *,
    last_offset_delta: int | None = None,
    epoch: int = 0,
    codec: int = 0,
    deltas: Sequence[int] | None = None,
) -> bytes:
    """A v2 batch of records, each a key and a value, at one offset after the other, or as ``deltas`` say."""
    deltas = range(len(records)) if deltas is None else deltas
    payload = b"".join(
        write_record(key, value, offset_delta=delta) for delta, (key, value) in zip(deltas, records, strict=True)
    )
    return write_batch(
        gzip.compress(payload, mtime=0) if codec == GZIP else payload,
        base_offset=base_offset,
        partition_leader_epoch=epoch,
        attributes=codec,
        last_offset_delta=max(deltas, default=0) if last_offset_delta is None else last_offset_delta,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        count=len(records),
    )


def message(
    magic: int, key: bytes | None, value: bytes, timestamp: int = T, codec: int = 0, *, wrong_crc: bool = False
) -> bytes:
    """A v0 or v1 message, without its offset and size."""
    body = struct.pack(">bb", magic, codec) + (struct.pack(">q", timestamp) if magic else b"")
    body += struct.pack(">i", -1) if key is None else struct.pack(">i", len(key)) + key
    body += struct.pack(">i", len(value)) + value
    return struct.pack(">I", zlib.crc32(body) ^ (0x55 if wrong_crc else 0)) + body


def entry(offset: int, message: bytes) -> bytes:
    return struct.pack(">qi", offset, len(message)) + message


def wrapper(offset: int, magic: int, inner: Iterable[tuple[int, bytes]], timestamp: int = T) -> bytes:
    """A gzip wrapper message around messages with their (in v1: relative) offsets."""
    payload = b"".join(entry(each, one) for each, one in inner)
    return entry(offset, message(magic, None, gzip.compress(payload, mtime=0), timestamp, GZIP))


def numbered(first: int, end: int, text: str = "first") -> list[tuple[bytes, bytes]]:
    return [(b"k%d" % each, b"%s %d" % (text.encode(), each)) for each in range(first, end)]


def v1_set(first: int, last: int, text: str = "v") -> bytes:
    """A v1 wrapper of the messages ``first`` to ``last``."""
    inner = [
        (each - first, message(1, b"k%d" % each, b"%s%d" % (text.encode(), each), T + each))
        for each in range(first, last + 1)
    ]
    return wrapper(last, 1, inner, T + last)


def last_offset_delta_zero() -> Files:
    """Batches of clients that left lastOffsetDelta 0: a broker of 1.0 assigned offsets by it (KAFKA-6554)."""
    data, end = b"", 0
    for count in (3, 2, 4, 1, 5):
        data += batch(end + count - 1, numbered(end, end + count, "value"), T + end, last_offset_delta=0)
        end += count
    return {log_name(0): data}


def overlapping_batches() -> Files:
    """Offsets that go back in a leader's log (KAFKA-19407)."""
    data = batch(0, numbered(0, 10)) + batch(10, numbered(10, 21), T + 10)
    data += batch(10, numbered(10, 16, "second"), T + 20) + batch(16, numbered(16, 30, "second"), T + 30)
    return {log_name(0): data + batch(30, numbered(30, 40), T + 40)}


def overlapping_rests() -> Files:
    """Batches that begin inside of the ones before them, and go on after them, up to the end of the log."""
    data = batch(0, numbered(0, 20)) + batch(15, numbered(15, 25, "second"), T + 10, codec=GZIP)
    return {log_name(0): data + batch(25, numbered(25, 30), T + 20) + batch(28, numbered(28, 36, "second"), T + 30)}


def overlapping_segments() -> Files:
    """Segments of which each begins below the end of the one before, with records of its own at those offsets."""
    first, second = batch(0, numbered(0, 8)) + batch(8, numbered(8, 20)), batch(10, numbered(10, 16, "second"), T + 10)
    third = batch(25, numbered(25, 40, "third"), T + 30)
    return {
        log_name(0): first,
        log_name(10): second + batch(16, numbered(16, 30, "second"), T + 20),
        log_name(25): third,
    }


def last_offset_past_records(codec: int = 0) -> Files:
    """Batches whose headers go on after their last records, over offsets that the batch or segment after has."""
    data = batch(0, numbered(0, 10), last_offset_delta=19, codec=codec)
    data += batch(10, numbered(10, 20, "second"), T + 10, codec=codec)
    data += batch(20, numbered(20, 30), T + 20, last_offset_delta=19, codec=codec)
    after = batch(30, numbered(30, 40, "second"), T + 30, codec=codec) + batch(40, numbered(40, 45), T + 40)
    return {log_name(0): data, log_name(30): after}


def overlapping_wrapper_segments() -> Files:
    """v1 wrappers, of which each has offsets of two segments."""
    second = v1_set(3, 4, "second ") + v1_set(4, 7, "second ")
    return {log_name(0): v1_set(0, 3), log_name(3): second, log_name(6): v1_set(6, 9, "third ")}


def overlapping_compacted() -> Files:
    """Batches of which a cleaner has removed records, and that overlap by their headers, and in one offset."""
    data = batch(0, numbered(0, 3), last_offset_delta=9, deltas=[0, 2, 4])
    data += batch(5, numbered(3, 6, "second"), T + 5, deltas=[0, 1, 6])
    return {log_name(0): data + batch(11, numbered(6, 9, "third"), T + 11, deltas=[0, 1, 3])}


def gaps_that_others_fill() -> Files:
    """Segments whose first has, after a gap, offsets above those with which the second begins."""
    first = batch(0, numbered(0, 10)) + batch(20, numbered(20, 30), T + 20)
    return {
        log_name(0): first,
        log_name(10): batch(10, numbered(10, 20, "second"), T + 10) + batch(30, numbered(30, 35)),
    }


def overlapping_wrappers() -> Files:
    """A v1 wrapper whose first messages lie below the one before (KAFKA-3919)."""
    data = v1_set(100, 101) + v1_set(102, 103) + v1_set(104, 105) + v1_set(103, 120, "big ")
    return {log_name(100): data + v1_set(121, 122) + v1_set(123, 124)}


def overflowing_segment() -> Files:
    """A compacted segment whose offsets lie more than 2^31 apart, as cleaners before 1.0 left them (KAFKA-6264)."""
    data = batch(0, [(b"a", b"1"), (b"b", b"2")]) + batch(2_000_000_000, [(b"c", b"3")], T + 1)
    data += batch(3_000_000_000, [(b"d", b"4"), (b"e", b"5")], T + 2) + batch(5_000_000_000, [(b"f", b"6")], T + 3)
    return {log_name(0): data, log_name(5_000_000_100): batch(5_000_000_100, [(b"g", b"7")], T + 4)}


def overflowing_messages() -> Files:
    """The same of v1 messages."""
    offsets = (0, 2_000_000_000, 3_000_000_000, 5_000_000_000)
    data = b"".join(entry(each, message(1, b"k%d" % row, b"v", T + row)) for row, each in enumerate(offsets))
    return {log_name(0): data, log_name(5_000_000_100): entry(5_000_000_100, message(1, b"last", b"v", T + 4))}


def wrong_inner_crc(magic: int) -> Files:
    """A compressed set whose second message has a wrong CRC; the wrapper's is right (KAFKA-8722)."""
    inner = [
        (each + (1 - magic), message(magic, b"k%d" % (each + 1), b"v", T + each, wrong_crc=each == 1))
        for each in range(3)
    ]
    data = entry(0, message(magic, b"k0", b"v", T)) + wrapper(3, magic, inner, T + 3)
    return {log_name(0): data + entry(4, message(magic, b"k4", b"v", T + 4))}


def repeating_wrapper(magic: int) -> Files:
    """A compressed set of which messages have the same offset, after and before plain messages."""
    texts = ((10, b"first"), (10, b"second"), (12, b"third"), (12, b"fourth"))
    inner = [(at - 10 * magic, message(magic, text, text, T + at)) for at, text in texts]
    data = entry(0, message(magic, b"a", b"before", T)) + wrapper(12, magic, inner, T + 12)
    return {log_name(0): data + entry(13, message(magic, b"z", b"after", T + 13))}


def records_at_one_offset() -> Files:
    """A v2 batch whose records have the same offset delta, which nothing checks when it is read."""
    deltas = ((0, b"first"), (0, b"second"), (4, b"third"), (4, b"fourth"))
    payload = b"".join(write_record(b"k", text, offset_delta=delta) for delta, text in deltas)
    times = {"base_timestamp": T, "max_timestamp": T}
    data = write_batch(payload, base_offset=1, last_offset_delta=4, count=len(deltas), **times)
    return {log_name(0): batch(0, [(b"k", b"before")]) + data + batch(6, [(b"k", b"after")])}


def wrong_size(end: int) -> Files:
    """Five batches of which the second has a size that leads to the end of another one, exactly."""
    parts = [bytearray(batch(3 * each, numbered(3 * each, 3 * each + 3), T + each)) for each in range(5)]
    parts[1][8:12] = struct.pack(">i", sum(map(len, parts[1:end])) - 12)
    return {log_name(0): b"".join(parts)}


def falling_offsets() -> bytes:
    """A batch whose records are not in the order of their offsets."""
    return batch(10, numbered(10, 15), deltas=[0, 3, 2, 1, 4])


ODD_LOGS: dict[str, Files] = {
    "last-offset-delta-zero": last_offset_delta_zero(),
    "overlapping-batches": overlapping_batches(),
    "overlapping-rests": overlapping_rests(),
    "overlapping-wrappers": overlapping_wrappers(),
    "overlapping-segments": overlapping_segments(),
    "overlapping-headers": last_offset_past_records(),
    "overlapping-headers-gzip": last_offset_past_records(GZIP),
    "overlapping-segments-of-wrappers": overlapping_wrapper_segments(),
    "overlapping-compacted": overlapping_compacted(),
    "overlapping-gaps-of-segments": gaps_that_others_fill(),
    "repeating-wrapper-v0": repeating_wrapper(0),
    "repeating-wrapper-v1": repeating_wrapper(1),
    "records-at-one-offset": records_at_one_offset(),
    "wrong-size-over-one": wrong_size(3),
    "wrong-size-to-the-end": wrong_size(5),
    "overflowing-segment": overflowing_segment(),
    "overflowing-messages": overflowing_messages(),
    "wrong-inner-crc-v0": wrong_inner_crc(0),
    "wrong-inner-crc-v1": wrong_inner_crc(1),
}


def write_odd_log(name: str, directory: Path, partition: str = "odd-0") -> Path:
    """A partition's directory with one of these logs."""
    path = directory / partition
    path.mkdir(parents=True)
    for file, data in ODD_LOGS[name].items():
        (path / file).write_bytes(data)
    return path
