"""Internal topics as tests need them, in directories named as Kafka names them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.format.twin import write_batch, write_record

Pair = tuple[bytes | None, bytes | None]

TRANSACTIONAL, CONTROL = 16, 32
START = 1_700_000_000_000


def batch(offset: int, records: Sequence[Pair], producer_id: int = -1, control: bool = False) -> bytes:
    """One batch; with a producer id, it is transactional."""
    payload = b"".join(write_record(key, value, (), number) for number, (key, value) in enumerate(records))
    return write_batch(
        payload,
        base_offset=offset,
        last_offset_delta=len(records) - 1,
        count=len(records),
        base_timestamp=START + offset,
        max_timestamp=START + offset,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        attributes=(0 if producer_id < 0 else TRANSACTIONAL) | (CONTROL if control else 0),
    )


def marker(offset: int, producer_id: int, commit: bool) -> bytes:
    return batch(offset, [(bytes([0, 0, 0, commit]), bytes(6))], producer_id, control=True)


def write_partition(directory: Path, topic: str, *batches: bytes, base_offset: int = 0) -> Path:
    """A partition's directory with one segment."""
    path = directory / f"{topic}-0"
    path.mkdir(parents=True, exist_ok=True)
    (path / f"{base_offset:020}.log").write_bytes(b"".join(batches))
    return path


def committed(group: str, topic: str, offset: int | None, partition: int = 0) -> Pair:
    """An offset commit of version 1, which has an expiry; a tombstone without an offset."""
    key = b"\0\1" + string(group) + string(topic) + partition.to_bytes(4, "big")
    if offset is None:
        return key, None
    times = START.to_bytes(8, "big") + (START + 1000).to_bytes(8, "big")
    return key, b"\0\1" + offset.to_bytes(8, "big") + string("note") + times


def string(text: str) -> bytes:
    return len(text.encode()).to_bytes(2, "big") + text.encode()


def compact(text: str) -> bytes:
    return bytes([len(text.encode()) + 1]) + text.encode()


def topic_record(name: str, topic_id: int) -> Pair:
    return None, b"\1\2\0" + compact(name) + topic_id.to_bytes(16, "big") + b"\0"


BEGIN, END, ABORT = ((None, bytes([1, type_, 0, 0])) for type_ in (23, 24, 25))
"""KRaft's records around a metadata transaction."""
