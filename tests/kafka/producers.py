"""The same records written by three clients, librdkafka, aiokafka and Kafka's own, and read back by a consumer."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from aiokafka import AIOKafkaProducer
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.kafka.broker import KafkaBroker
from tests.kafka.jars import check, run

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Isolation = Literal["read_committed", "read_uncommitted"]
Transaction = Literal["none", "commit", "abort", "open"]
"""``open``: leave it without a marker, as a producer that hangs does. Only librdkafka can be made to."""

numbers = itertools.count()


@dataclass(frozen=True)
class Record:
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    """Milliseconds; None is the time of the client's clock."""
    partition: int = 0


@dataclass(frozen=True)
class Consumed:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def produce_confluent(
    broker: KafkaBroker,
    topic: str,
    records: Iterable[Record],
    codec: str = "none",
    transaction: Transaction = "none",
    **settings: object,
) -> list[int]:
    """Writes with librdkafka. ``settings`` are its settings with ``_`` for the dots. Returns each record's offset."""
    conf = {
        "bootstrap.servers": broker.bootstrap,
        "compression.type": codec,
        "linger.ms": 50,
        "log_level": 3,
        **dotted(settings),
    }
    if transaction != "none":
        conf |= {"transactional.id": transactional_id(), "transaction.timeout.ms": 600_000}
    producer = Producer(conf)
    delivered: dict[int, int] = {}

    def note(number: int) -> Callable[[KafkaError | None, Message], None]:
        def delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            delivered[number] = message.offset()

        return delivery

    if transaction != "none":
        producer.init_transactions(30)
        producer.begin_transaction()
    for number, record in enumerate(records):
        when = {} if record.timestamp is None else {"timestamp": record.timestamp}
        content = {"key": record.key, "value": record.value, "headers": list(record.headers)}
        producer.produce(topic, partition=record.partition, on_delivery=note(number), **content, **when)
        producer.poll(0)
    if (left := producer.flush(60)) > 0:
        raise RuntimeError(f"{left} records were not delivered to {topic}")
    if transaction == "commit":
        producer.commit_transaction(30)
    if transaction == "abort":
        producer.abort_transaction(30)
    return [offset for _, offset in sorted(delivered.items())]


def produce_aiokafka(
    broker: KafkaBroker,
    topic: str,
    records: Iterable[Record],
    codec: str = "none",
    transaction: Transaction = "none",
    **settings: Any,
) -> list[int]:
    """Writes with aiokafka. ``settings`` are the arguments of its producer. Returns each record's offset."""
    if transaction == "open":
        raise ValueError("aiokafka cannot leave a transaction open")
    conf = {"linger_ms": 50, **settings}
    if codec != "none":
        conf["compression_type"] = codec
    if transaction != "none":
        conf["transactional_id"] = transactional_id()

    async def produce() -> list[int]:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **conf) as producer:
            if transaction != "none":
                await producer.begin_transaction()
            sent = [
                await producer.send(
                    topic,
                    record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                    headers=list(record.headers),
                )
                for record in records
            ]
            offsets = [metadata.offset for metadata in await asyncio.gather(*sent)]
            if transaction == "commit":
                await producer.commit_transaction()
            if transaction == "abort":
                await producer.abort_transaction()
            return offsets

    return asyncio.run(produce())


def produce_java(
    broker: KafkaBroker,
    topic: str,
    records: Iterable[Record],
    codec: str = "none",
    transaction: Transaction = "none",
    **settings: object,
) -> list[int]:
    """Writes with Kafka's own producer. ``settings`` as :func:`produce_confluent` has them."""
    if transaction == "open":
        raise ValueError("Kafka's producer aborts an open transaction when it closes")
    conf = {
        "bootstrap.servers": broker.bootstrap,
        "compression.type": codec,
        "linger.ms": 50,
        **dotted(settings),
    }
    if transaction != "none":
        conf["transactional.id"] = transactional_id()
    lines = (
        json.dumps(
            {
                "partition": record.partition,
                "timestamp": record.timestamp,
                "key": base64_or_null(record.key),
                "value": base64_or_null(record.value),
                "headers": [[name, base64_or_null(value)] for name, value in record.headers],
            }
        )
        for record in records
    )
    arguments = [topic, transaction, *(f"{name}={value}" for name, value in conf.items())]
    done = run("Produce", *arguments, version=broker.version, stdin="\n".join(lines).encode(), helper=True)
    return [int(line) for line in check(done).split()]


PRODUCERS: dict[str, Callable[..., list[int]]] = {
    "confluent": produce_confluent,
    "aiokafka": produce_aiokafka,
    "java": produce_java,
}


def consume(
    broker: KafkaBroker,
    topic: str,
    partition: int = 0,
    isolation: Isolation = "read_uncommitted",
) -> list[Consumed]:
    """All records that librdkafka's consumer gets from a partition, from its beginning to where the isolation ends."""
    conf = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": f"tests-{os.getpid()}-{next(numbers)}",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "fetch.wait.max.ms": 10,  # at the end, the broker waits for as long
        "log_level": 3,
    }
    consumer = Consumer(conf)
    found: list[Consumed] = []
    try:
        consumer.list_topics(topic, timeout=30)  # or else it finds no leader at first, and asks again 0.5 s later
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(30)
            if message is None:
                raise RuntimeError(f"no answer from the broker about {topic}-{partition} in 30 s")
            error = message.error()
            if error is None:
                found.append(consumed(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(error)
    finally:
        consumer.close()


def consumed(message: Message) -> Consumed:
    type_, timestamp = message.timestamp()
    when = -1 if type_ == TIMESTAMP_NOT_AVAILABLE else timestamp
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Consumed(message.offset(), when, message.key(), message.value(), headers)


def transactional_id() -> str:
    return f"tests-{os.getpid()}-{next(numbers)}"


def dotted(settings: dict[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def base64_or_null(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
