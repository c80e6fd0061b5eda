"""Logs without damage that are awkward to carry over: what Kafka may store, and other formats may not hold.

Each is the files of one partition, by name, in plain Python. ``tests/kafka/test_consumed_cases.py`` holds what is
written of them in other formats against what a real consumer gets of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.format.twin import COMPRESS, write_batch, write_record
from tests.log.odd_logs import Files, T, batch, entry, log_name, message, v1_set, wrapper

from brokerless.bounds import MAX_INT64

Record = tuple[int, int, bytes | None, bytes | None, Sequence[tuple[bytes, bytes | None]]]
"""Its offset delta, timestamp, key, value and headers."""
CODECS = tuple(COMPRESS)
APPEND_TIME = 8


def record(
    delta: int,
    timestamp: int = T,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Sequence[tuple[bytes, bytes | None]] = (),
) -> Record:
    return delta, timestamp, key, value, headers


def stored(
    base_offset: int,
    records: Sequence[Record],
    codec: str = "none",
    *,
    append_time: int | None = None,
    last_offset_delta: int | None = None,
) -> bytes:
    """A v2 batch of records; without any, one that compaction emptied. ``append_time``: LogAppendTime, in ms."""
    base = records[0][1] if records else -1
    times = [each[1] for each in records]
    payload = b"".join(
        write_record(key, value, headers, delta, 0 if append_time is not None else timestamp - base)
        for delta, timestamp, key, value, headers in records
    )
    return write_batch(
        COMPRESS[codec](payload) if records else b"",
        base_offset=base_offset,
        partition_leader_epoch=0,
        attributes=(CODECS.index(codec) if records else 0) | (0 if append_time is None else APPEND_TIME),
        last_offset_delta=(records[-1][0] if records else 0) if last_offset_delta is None else last_offset_delta,
        base_timestamp=base,
        max_timestamp=max(times, default=-1) if append_time is None else append_time,
        count=len(records),
    )


def headers() -> Files:
    found: list[Sequence[tuple[bytes, bytes | None]]] = [
        [(b"a", None)],
        [(b"a", b"")],
        [(b"", b"\x00\xff\xfe")],
        [(b"a", b"1"), (b"a", None), (b"a", b"1")],
        [("h\u00e9\U0001f600".encode(), b"\xc3")],
        [(b"\x00", b"\x00")],
        [(b"n" * 40_000, b"v" * 100_000)],
        [(b"h%d" % each, None) for each in range(3000)],
    ]
    records = [record(row, headers=each) for row, each in enumerate(found)]
    contents = [(None, None), (b"", b""), (None, b""), (b"", None), (b"\xff\x00", b"\xed\xa0\x80")]
    records += [record(len(found) + row, T, *each) for row, each in enumerate(contents)]
    return {log_name(0): stored(0, records) + stored(100, records, "zstd")}


def times() -> Files:
    """Also beyond what other formats take for a year."""
    known = (-1, 0, 1, T, MAX_INT64, MAX_INT64 - 1, 253_402_300_800_000, 1 << 62, -1)
    pairs = [stored(2 * row, [record(0, each), record(1, each)], "lz4") for row, each in enumerate(known)]
    falling = stored(100, [record(0, MAX_INT64), record(1, 0), record(2, -1), record(3, T)])
    return {log_name(0): b"".join(pairs) + falling}


def append_times() -> Files:
    data = stored(0, [record(0), record(1)], "gzip", append_time=-1) + stored(2, [record(0)], append_time=MAX_INT64)
    return {log_name(0): data + stored(3, [record(0), record(1)], append_time=T) + stored(5, [record(0, 7)])}


def gaps() -> Files:
    """Offsets that compaction left far apart, and batches of which nothing is left."""
    data = stored(5, [record(0), record(7), record(1000)], "snappy", last_offset_delta=2000)
    data += stored(3000, [], last_offset_delta=10) + stored((1 << 31) - 10, [record(0), record(5)])
    far = stored(1 << 40, [record(0)], "gzip") + stored((1 << 40) + (1 << 31) - 2, [record(0)])
    return {log_name(5): data, log_name(1 << 40): far, log_name(1 << 61): stored(1 << 61, [record(0), record(1)])}


def old_messages(magic: int) -> Files:
    """Messages and a compressed set, with offsets and times that are awkward."""
    plain = [(0, None, b"", T), (1, b"", b"x", -1), (5, b"k", b"y", MAX_INT64), (20, b"k", bytes(3000), 0)]
    data = b"".join(entry(offset, message(magic, key, value, each)) for offset, key, value, each in plain)
    known = (-1, MAX_INT64, 0, T)
    inner = [(row if magic else 30 + row, message(magic, b"%d" % row, b"v", each)) for row, each in enumerate(known)]
    return {log_name(0): data + wrapper(33, magic, inner, MAX_INT64) + entry(40, message(magic, b"a", b"b"))}


def mixed_formats() -> Files:
    data = entry(0, message(0, b"a", b"0")) + entry(1, message(1, b"a", b"1")) + stored(2, [record(0)])
    data += v1_set(3, 6) + stored(7, [record(0), record(1)], "zstd") + entry(9, message(0, b"a", b"2"))
    return {log_name(0): data}


def tiny_batches() -> Files:
    return {log_name(0): b"".join(batch(each, [(b"%d" % (each % 100), b"")], T + each % 7) for each in range(5000))}


def large_records() -> Files:
    size = 400_000
    large = [
        record(1, value=bytes(size)),
        record(2, key=b"k" * size, value=None),
        record(3, headers=[(b"h", bytes(size))]),
    ]
    return {log_name(0): stored(0, [record(0), *large, record(4)], "lz4")}


AWKWARD_LOGS: dict[str, Files] = {
    "headers": headers(),
    "times": times(),
    "append-times": append_times(),
    "gaps": gaps(),
    "old-messages-v0": old_messages(0),
    "old-messages-v1": old_messages(1),
    "mixed-formats": mixed_formats(),
    "tiny-batches": tiny_batches(),
    "large-records": large_records(),
}
