"""Sends a partition's records to a running cluster, and records where they went.

An idempotent producer keeps the order of each partition and repeats nothing by itself (KIP-98); the first record that
is refused ends it, so that no later one gets ahead. How far a restore has come is known from the acknowledgements.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from brokerless import arrow
from brokerless.errors import ClusterError
from brokerless.jobs.restore.live.connection import ClusterConnection, load_library
from brokerless.jobs.restore.live.offset_map import OffsetMap
from brokerless.jobs.restore.source import sizes_of
from brokerless.kafka_names import TopicPartition
from brokerless.text import format_bytes

QUEUE_BYTES = 32 << 20
"""What is sent and not acknowledged yet."""
_BATCH_BYTES = 1_000_000
_LARGEST_MESSAGE = 1_000_000_000
_JOURNAL_EVERY_S = 0.5
_TRIES = 10
_SERVE_EVERY = 256
"""Records after which acknowledgements are taken."""
PATIENCE_S = 60.0
"""How long a cluster may take no record before the restore ends; it can go on later."""
FIRST_TIMESTAMP = 1
"""librdkafka takes a timestamp of 0 for none, and puts its own time there."""


@dataclass(frozen=True, slots=True)
class LiveRecord:
    """A record in the form in which it is sent, and in which it comes back; its offset is that of where it is."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int | None
    """In ms since the epoch; None where it comes back from a topic that has the time of its own append."""
    size: int = 0
    """The bytes of key, value and headers of one that is sent."""

    @property
    def is_nameable(self) -> bool:
        """Whether librdkafka, whose names of headers are C's strings, can send it."""
        return not any("\0" in name for name, _ in self.headers)

    def is_of(self, sent: LiveRecord) -> bool:
        """Return whether one that came back is this record of the source."""
        return (self.key, self.value, self.headers) == (sent.key, sent.value, sent.headers) and self.timestamp in (
            None,
            sent.timestamp,
        )


def rows_of(batch: pa.RecordBatch) -> Iterator[LiveRecord]:
    """Yield the records of a batch with the columns of :data:`brokerless.jobs.restore.source.COLUMNS`."""
    columns = (
        arrow.values(batch.column("offset")),
        arrow.values(batch.column("key")),
        arrow.values(batch.column("value")),
        arrow.values(batch.column("headers")),
        arrow.values(batch.column("timestamp").cast(pa.int64())),
        sizes_of(batch).tolist(),
    )
    for offset, key, value, headers, timestamp, size in zip(*columns, strict=True):
        named = tuple((each["key"], each["value"]) for each in headers) if headers else ()
        yield LiveRecord(offset, key, value, headers=named, timestamp=timestamp or FIRST_TIMESTAMP, size=size)


@dataclass(slots=True)
class Pace:
    """At most ``rate`` bytes in a second; None for as fast as it goes."""

    rate: int | None
    _next: float = 0.0

    def wait_s(self, size: int) -> float:
        """Return how long to wait before so many bytes are sent."""
        if self.rate is None:
            return 0.0
        now = time.monotonic()
        wait = max(0.0, self._next - now)
        self._next = max(self._next, now) + size / self.rate
        return wait


@dataclass(slots=True)
class Production:
    """Records on their way to the cluster. Leaving it as a context manager drops what was not acknowledged."""

    connection: ClusterConnection
    map: OffsetMap
    pace: Pace
    interrupted: list[TopicPartition] = field(default_factory=list[TopicPartition])
    """Partitions in which others wrote in between."""
    _producers: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    _failure: Any = None
    _pending: int = 0
    _progress: float = 0.0
    _written: float = 0.0

    def __enter__(self) -> Production:
        self._progress = self._written = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._producers.values():
            each.purge()
            each.flush(1)
        self.map.write()

    def send(self, place: TopicPartition, row: LiveRecord, codec: str, largest: int | None) -> None:
        """Sends a record that can be sent. ``largest``: of a batch, by the topic's settings. Raises
        :class:`ClusterError` if this or an earlier one was refused, or the cluster takes none any more."""
        library, producer = load_library(), self._producer(codec, largest)
        wait = self.pace.wait_s(row.size)
        while wait > 0:
            self._serve(min(wait, 0.1))
            wait -= 0.1
        while True:
            try:
                producer.produce(
                    place[0], partition=place[1], key=row.key, value=row.value, headers=list(row.headers) or None,
                    timestamp=row.timestamp, on_delivery=partial(self._delivered, place, row.offset, row.size),
                )  # fmt: skip
                break
            except BufferError:
                self._serve(0.1)
            except library.KafkaException as error:
                self._serve(0.1)
                raise self._refused(place, row.offset, row.size, error.args[0]) from error
        self._pending += 1
        if self._pending % _SERVE_EVERY == 0:
            self._serve(0)

    def finish(self) -> None:
        """Waits until all records are acknowledged, and records it. Raises as :meth:`send`."""
        while self._pending:
            self._serve(0.1)
        self.map.write()

    def _producer(self, codec: str, largest: int | None) -> Any:
        """One for each codec and limit, as these are settings of a client."""
        batch = _BATCH_BYTES if largest is None else max(1, min(_BATCH_BYTES, largest))
        name = f"{codec} {batch}"
        if name not in self._producers:
            settings = self.connection.settings(
                enable_idempotence=True, enable_gapless_guarantee=True, acks="all", compression_codec=codec,
                message_max_bytes=_LARGEST_MESSAGE, batch_size=batch, linger_ms=20, message_timeout_ms=0,
                queue_buffering_max_kbytes=QUEUE_BYTES >> 10, queue_buffering_max_messages=200_000,
            )  # fmt: skip
            library = load_library()
            self._producers[name] = self.connection.create(lambda: library.Producer(settings))
        return self._producers[name]

    def _serve(self, timeout: float) -> None:
        """Takes acknowledgements, and writes the map now and then."""
        fatal = None
        for each in self._producers.values():
            for _ in range(_TRIES):  # which record it was comes after that it is fatal
                try:
                    each.poll(timeout)
                    break
                except load_library().KafkaException as error:
                    fatal, timeout = error, 0.1
        now = time.monotonic()
        if now - self._written > _JOURNAL_EVERY_S:
            self.map.write()
            self._written = now
        if self._failure is not None:
            raise self._refused(*self._failure)
        if fatal is not None:
            raise self.connection.failure(fatal) from fatal
        if self.connection.denied is not None:
            raise ClusterError(f"{self.connection.bootstrap}: {self.connection.denied}")
        if self._pending and now - self._progress > PATIENCE_S:
            last = f": {self.connection.problems[-1]}" if self.connection.problems else ""
            text = f"no record was acknowledged for {PATIENCE_S:.0f} s{last}. Run this again to go on from here"
            raise ClusterError(f"{self.connection.bootstrap}: {text}")

    def _delivered(self, place: TopicPartition, offset: int, size: int, error: Any, message: Any) -> None:
        self._pending -= 1
        self._progress = time.monotonic()
        if error is not None:
            self._failure = self._failure or (place, offset, size, error)
        elif self._failure is None:
            target = message.offset()
            if target != self.map.positions[place].target and place not in self.interrupted:
                self.interrupted.append(place)
            self.map.add(place, offset, target)

    def _refused(self, place: TopicPartition, offset: int, size: int, error: Any) -> ClusterError:
        codes = load_library().KafkaError
        remedies = {
            codes.MSG_SIZE_TOO_LARGE: "raise max.message.bytes of the topic with kafka-configs",
            codes.RECORD_LIST_TOO_LARGE: "raise segment.bytes of the topic with kafka-configs",
            codes.INVALID_TIMESTAMP: "raise message.timestamp.before.max.ms and message.timestamp.after.max.ms of the "
            "topic with kafka-configs",
            codes.INVALID_RECORD: "a compacted topic takes no record without a key, and the topic's settings say which "
            "timestamps it takes",
            codes.TOPIC_AUTHORIZATION_FAILED: "let this user write to the topic with kafka-acls",
        }
        remedy = remedies.get(error.code())
        text = str(error.str()) if remedy is None else f"{error.str()} ({format_bytes(size)}); {remedy}"
        name = f"{place[0]}-{place[1]}"
        again = "Run this again to go on" if remedy is None else "Then run this again to go on"
        return ClusterError(f"{self.connection.bootstrap}: {name}, offset {offset}: {text}. {again}")
