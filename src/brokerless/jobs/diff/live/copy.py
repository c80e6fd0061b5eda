"""Reads the records of a live partition by a consumer that commits nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from brokerless.errors import ClusterError
from brokerless.jobs.diff.live.cluster import CLIENT_ID, RunningPartition, topic_ids
from brokerless.jobs.restore.live.connection import ClusterConnection, describe, load_library
from brokerless.kafka_names import Isolation

_AT_FIRST, _AT_ONCE, _AT_ONCE_BYTES = 100, 10_000, 16 << 20
"""Messages of the first record batch, and of each, by the sizes of those before; and about so many bytes."""
_SILENCE_S = 60.0
"""How long nothing may come."""
_WAIT_S = 0.2
_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


@dataclass(frozen=True, slots=True)
class Consumed:
    """A partition that a consumer reads."""

    batches: Callable[[], Iterator[pa.RecordBatch]]
    begin: Callable[[], int]
    """Asks for the log start offset, as records may be deleted meanwhile."""
    stable: Callable[[], int]
    """Asks for the offset up to which a consumer of this isolation gets records."""


@contextmanager
def consumed(partition: RunningPartition, isolation: Isolation = "read_uncommitted") -> Generator[Consumed]:
    """Open a consumer of one partition. Raises :class:`ClusterError`, also at the end, where the topic is not the one
    that was listed."""
    connection = ClusterConnection(partition.bootstrap, partition.client, client_id=CLIENT_ID)
    connection.open()
    consumer = _consumer(connection, isolation)

    def limits() -> tuple[int, int]:
        place = load_library().TopicPartition(*partition.place)
        return connection.ask(lambda left: consumer.get_watermark_offsets(place, timeout=left))

    try:
        yield Consumed(lambda: _batches(connection, consumer, partition), lambda: limits()[0], lambda: limits()[1])
    finally:
        consumer.close()
    _refuse_another_topic(connection, partition)


@contextmanager
def consumed_unaborted(partition: RunningPartition) -> Generator[Consumed]:
    """As :func:`consumed`, without the records of transactions that were aborted; those of one that is open come, and
    what is after them."""
    with consumed(partition, "read_committed") as source:
        stable = min(source.stable(), partition.end)
    decided, others = replace(partition, end=stable), replace(partition, begin=max(partition.begin, stable))
    with consumed(decided, "read_committed") as one, consumed(others) as other:
        yield Consumed(lambda: chain(one.batches(), other.batches()), one.begin, other.stable)


def _consumer(connection: ClusterConnection, isolation: Isolation) -> Any:
    settings = connection.settings(
        group_id=CLIENT_ID, enable_auto_commit=False, auto_offset_reset="earliest", enable_partition_eof=True,
        isolation_level=isolation, check_crcs=True,
    )  # fmt: skip
    return connection.create(lambda: load_library().Consumer(settings))


def _refuse_another_topic(connection: ClusterConnection, partition: RunningPartition) -> None:
    """Raise :class:`ClusterError` where the topic is not the one that was listed: a consumer does not say so."""
    topic, _ = partition.place
    if partition.topic_id is not None and topic_ids(connection, [topic]).get(topic) != partition.topic_id:
        raise ClusterError(f"{partition.url}: the topic was deleted or made again while it was read; do this again")


def _batches(connection: ClusterConnection, consumer: Any, partition: RunningPartition) -> Iterator[pa.RecordBatch]:
    """Yield the records before the end of a partition, in order. Raises :class:`ClusterError`."""
    library = load_library()
    reached, heard = partition.begin, time.monotonic()
    consumer.assign([library.TopicPartition(*partition.place, partition.begin)])
    most = _AT_FIRST
    while reached < partition.end:
        messages: list[Any] = consumer.consume(min(most, partition.end - reached), _WAIT_S)
        taken: list[Any] = []
        for each in messages:
            error = each.error()
            if error is None:
                reached = each.offset() + 1
                if each.offset() < partition.end:
                    taken.append(each)
            elif error.code() == library.KafkaError._PARTITION_EOF:
                reached = max(reached, each.offset())
            elif error.fatal() or each.topic() is not None:  # not what is of the group, which is not used
                raise ClusterError(f"{partition.url}: {describe(library.KafkaException(error))}")
        if messages:
            heard = time.monotonic()
        elif connection.denied is not None or time.monotonic() - heard > _SILENCE_S:
            raise _silence(connection, partition, reached)
        if taken:
            most = max(1, min(_AT_ONCE, _AT_ONCE_BYTES * len(taken) // max(1, sum(map(_size, taken)))))
            yield _rows(taken)


def _silence(connection: ClusterConnection, partition: RunningPartition, reached: int) -> ClusterError:
    """Return why no more records come, as far as that is known."""
    if connection.denied is not None:
        return ClusterError(f"{partition.url}: {connection.denied}")
    try:
        _refuse_another_topic(connection, partition)
    except ClusterError as error:
        return error
    said = f" ({connection.problems[-1]})" if connection.problems else ""
    return ClusterError(f"{partition.url}: no record came for {_SILENCE_S:.0f} s after offset {reached - 1}{said}")


def _size(message: Any) -> int:
    return len(message.key() or b"") + len(message.value() or b"")


def _rows(messages: list[Any]) -> pa.RecordBatch:
    times = [each.timestamp() for each in messages]
    columns: dict[str, pa.Array] = {
        "offset": pa.array([each.offset() for each in messages], pa.int64()),
        "timestamp": pa.array([-1 if kind == 0 else ms for kind, ms in times], pa.int64()),
        "key": pa.array([each.key() for each in messages], pa.binary()),
        "value": pa.array([each.value() for each in messages], pa.binary()),
    }
    headers = [each.headers() for each in messages]
    if any(headers):
        rows = [[{"key": key, "value": value} for key, value in own or ()] for own in headers]
        columns["headers"] = pa.array(rows, _HEADERS)
    return pa.RecordBatch.from_pydict(columns)
