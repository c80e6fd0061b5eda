"""Topics full of what clients can do, written into a running broker, and a copy of its log directory."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import CODECS, PRODUCERS, Record, produce_aiokafka, produce_confluent, produce_java

TOPICS = {
    "live-mixed": 2,
    "live-segments": 1,
    "live-append-time": 1,
    "live-recompressed": 1,
    "live-transactions": 1,
}
TIME = 1_700_000_000_000


@dataclass(frozen=True)
class Live:
    broker: KafkaBroker
    data: Path
    """A copy of the running broker's log directory."""
    sent: dict[tuple[str, int], dict[int, Record]]
    """By topic and partition, then by the offset that the broker answered: what a client was given to write."""


def write_everything(broker: KafkaBroker) -> dict[tuple[str, int], dict[int, Record]]:
    sent: dict[tuple[str, int], dict[int, Record]] = defaultdict(dict)

    def note(topic: str, records: list[Record], offsets: list[int]) -> None:
        for record, offset in zip(records, offsets, strict=True):
            sent[topic, record.partition][offset] = record

    broker.create_topic("live-mixed", TOPICS["live-mixed"])
    for number, (client, codec) in enumerate(itertools.product(PRODUCERS, CODECS)):
        records = some_records(number, 60, TOPICS["live-mixed"], largest=200_000)
        note("live-mixed", records, PRODUCERS[client](broker, "live-mixed", records, codec))

    broker.create_topic("live-segments", internal_segment_bytes=16_384, index_interval_bytes=500)
    for number, codec in enumerate(CODECS):
        records = some_records(100 + number, 200, largest=400)
        offsets = produce_confluent(broker, "live-segments", records, codec, batch_size=2000, enable_idempotence=True)
        note("live-segments", records, offsets)

    broker.create_topic("live-append-time", message_timestamp_type="LogAppendTime")
    records = some_records(200, 40)
    note("live-append-time", records, produce_confluent(broker, "live-append-time", records, "lz4"))
    note("live-append-time", records, produce_aiokafka(broker, "live-append-time", records))

    broker.create_topic("live-recompressed", compression_type="zstd")
    note("live-recompressed", records, produce_java(broker, "live-recompressed", records, "gzip"))
    note("live-recompressed", records, produce_aiokafka(broker, "live-recompressed", records, "snappy"))

    write_transactions(broker, "live-transactions")
    return dict(sent)


def write_transactions(broker: KafkaBroker, topic: str) -> None:
    """Committed, aborted, interleaved, and at last one that nobody ends, with records of others in between."""
    records = some_records(300, 12, largest=200)
    broker.create_topic(topic, internal_segment_bytes=4096)
    produce_confluent(broker, topic, records, "lz4", "commit")
    produce_java(broker, topic, records, "zstd", "abort", batch_size=500)
    produce_aiokafka(broker, topic, records, "gzip", "commit")
    produce_confluent(broker, topic, records, "none")
    produce_confluent(broker, topic, records, "snappy", "abort")
    interleave(broker, topic)
    produce_java(broker, topic, records, "none", "commit")
    produce_confluent(broker, topic, records[:3], "none", "open")
    produce_confluent(broker, topic, records[:5], "lz4")
    produce_confluent(broker, topic, records[:2], "lz4", "commit")


def interleave(broker: KafkaBroker, topic: str) -> None:
    """Two transactions at a time: the one that starts first is aborted last."""
    conf = {"bootstrap.servers": broker.bootstrap, "log_level": 3}
    producers = [Producer({**conf, "transactional.id": f"{topic}-interleaved-{number}"}) for number in range(2)]
    for producer in producers:
        producer.init_transactions(30)
        producer.begin_transaction()
    for number in range(6):
        producer = producers[number % 2]
        producer.produce(topic, key=f"interleaved {number}", value=f"of transaction {number % 2}")
        producer.flush(30)
    producers[1].commit_transaction(30)
    producers[0].produce(topic, key="late", value="of transaction 0")
    producers[0].abort_transaction(30)


def some_records(seed: int, count: int, partitions: int = 1, largest: int = 2000) -> list[Record]:
    """Keys and values null, empty, text and binary; headers with null values, empty, equal and unicode keys."""
    chance = random.Random(seed)
    keys = (None, b"", b"key", "Schl\N{LATIN SMALL LETTER U WITH DIAERESIS}ssel".encode(), b"\x00\xff\xfe")
    headers = (("a", b"1"), ("a", b"2"), ("", b""), ("null", None), ("\N{SNOWMAN}", b"\xc3\x28"))
    records: list[Record] = []
    for number in range(count):
        key = chance.choice(keys)
        kind = chance.randrange(5) if key is not None else 1 + chance.randrange(4)  # aiokafka refuses both null
        size = largest if number == count // 2 else chance.randrange(1 + largest // 10)
        value = (None, b"", b"text " * (size // 5), chance.randbytes(size), b"%d" % number)[kind]
        chosen = tuple(chance.choices(headers, k=chance.choice((0, 0, 1, 3))))
        timestamp = chance.choice((TIME + number * 1000, TIME + number * 1000, TIME - number * 100_000, 1))
        records.append(Record(key, value, chosen, timestamp, chance.randrange(partitions)))
    return records
