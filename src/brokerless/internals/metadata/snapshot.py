"""Writes a KRaft snapshot: a header, the voters where they are part of the log, records, and a footer (KIP-630).

A snapshot stands for all of the log before the offset in its name. With ``kraft.version`` 1 its first batch has the
voters as well (KIP-853). Sources: ``RecordsSnapshotWriter`` and ``Formatter.writeDynamicQuorumSnapshot`` (3.9.1,
4.4.0), ``BatchAccumulator`` for the sizes of batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from brokerless.format.control import KRAFT_VERSION, KRAFT_VOTERS, SNAPSHOT_FOOTER, SNAPSHOT_HEADER, encode_data
from brokerless.format.write.builder import BatchAttributes, BatchBuilder
from brokerless.internals.metadata.records import MetadataRecord, encode_record

BATCH_SIZE = 1 << 20
"""Bytes of a batch of records; KRaft reads those of up to 8 MiB (``KafkaRaftClient.MAX_BATCH_SIZE_BYTES``)."""


def snapshot_batches(
    records: Iterable[MetadataRecord], *, epoch: int, timestamp_ms: int, voters: Sequence[dict[str, Any]] | None = None
) -> Iterator[bytes]:
    """Yield the batches of a snapshot, in order. ``epoch``: the leader epoch in its name. ``timestamp_ms``: that of the
    last record that it stands for. ``voters``: of a quorum whose voters are in its log, as in ``KRAFT_VOTERS``; None
    where they are in each node's configuration.

    Raises :class:`UsageError` for records that cannot be written.
    """
    head: list[tuple[int, dict[str, Any]]] = [
        (SNAPSHOT_HEADER, {"version": 0, "lastContainedLogTimestamp": timestamp_ms})
    ]
    if voters is not None:
        head.append((KRAFT_VERSION, {"version": 0, "kRaftVersion": 1}))
        head.append((KRAFT_VOTERS, {"version": 0, "voters": list(voters)}))
    yield _controls(head, 0, timestamp_ms, epoch)
    offset = len(head)
    batch = _batch(offset, epoch)
    for type_, version, data in records:
        value = encode_record(type_, version, data)
        if not batch.has_room_for(timestamp_ms, None, value):
            yield batch.close()
            batch = _batch(offset, epoch)
        batch.append(timestamp_ms, None, value)
        offset += 1
    if batch.count:
        yield batch.close()
    yield _controls([(SNAPSHOT_FOOTER, {"version": 0})], offset, timestamp_ms, epoch)


def _batch(offset: int, epoch: int, is_control: bool = False) -> BatchBuilder:
    attributes = BatchAttributes(base_offset=offset, partition_leader_epoch=epoch, is_control=is_control)
    return BatchBuilder(BATCH_SIZE, attributes=attributes)


def _controls(records: Sequence[tuple[int, dict[str, Any]]], offset: int, timestamp_ms: int, epoch: int) -> bytes:
    batch = _batch(offset, epoch, is_control=True)
    for type_id, data in records:
        batch.append(timestamp_ms, b"\0\0" + type_id.to_bytes(2, "big"), encode_data(type_id, data))
    return batch.close()
