"""Internal topics as tests need them, in directories named as Kafka names them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.format.twin import write_batch, write_record

import brokerless
from brokerless.format.write.builder import BatchAttributes, BatchBuilder
from brokerless.log import names

Pair = tuple[bytes | None, bytes | None]

METADATA = "__cluster_metadata-0"
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


def append_values(directory: Path, *values: bytes) -> None:
    """Adds records to the log of the cluster's metadata in a log directory, each in a batch."""
    partition = brokerless.open(directory).partition(names.CLUSTER_METADATA, 0)
    last = [row for batch in partition.batches() for row in batch.to_pylist()][-1]
    log = max((directory / METADATA).glob("0*.log"))
    data, offset = log.read_bytes()[: last["position"] + last["sizeInBytes"]], last["lastOffset"] + 1
    for value in values:
        attributes = BatchAttributes(base_offset=offset, partition_leader_epoch=last["partitionLeaderEpoch"])
        batch = BatchBuilder(1 << 20, attributes=attributes)
        batch.append(1_790_000_000_000, None, value)
        data, offset = data + batch.close(), offset + 1
    log.write_bytes(data)
