"""Clients that keep brokers busy, and what brokers acknowledged to them."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.kafka.broker import KafkaBroker
from tests.kafka.cluster import Cluster, wait_for
from tests.kafka.producers import Isolation, consume

TOPICS = {
    "plain": {"internal_segment_bytes": 20_000},
    "left": {"internal_segment_bytes": 20_000},
    "right": {"internal_segment_bytes": 20_000},
    "table": {"internal_segment_bytes": 8192, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01},
}
"""Those that :func:`clients` write to, of one partition each, with their settings."""
KEYS = 7
_WITHIN = 60


@dataclass
class Load:
    """What clients have: ``acknowledged``, values by topic; ``ended``, transactions, and whether they were committed.
    ``errors``: what ended a client."""

    acknowledged: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    ended: dict[bytes, bool] = field(default_factory=dict[bytes, bool])
    errors: list[Exception] = field(default_factory=list[Exception])

    def copy(self) -> Load:
        return Load({topic: list(own) for topic, own in self.acknowledged.items()}, dict(self.ended))

    def wait_for(self, records: int, transactions: int) -> None:
        """Until as many records are acknowledged, and as many transactions are ended."""

        def is_so() -> bool:
            if self.errors:
                raise self.errors[0]
            return len(self.acknowledged["plain"]) >= records and len(self.ended) >= transactions

        wait_for(is_so, lambda: f"{len(self.acknowledged['plain'])} records, {len(self.ended)} transactions")


@contextmanager
def clients(bootstrap: str) -> Iterator[Load]:
    """An idempotent producer, and two transactional ones that write to two topics, until this is left."""
    load, stopped = Load(), threading.Event()

    def produce() -> None:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1, "log_level": 2}
        )
        number = 0
        while not stopped.is_set():
            made: list[tuple[str, bytes]] = []
            failed: list[KafkaError] = []

            def delivered(error: KafkaError | None, _: Message, failed: list[KafkaError] = failed) -> None:
                failed.extend([] if error is None else [error])

            for topic in ("plain", "table"):
                for _ in range(20):
                    number += 1
                    value = b"%d" % number
                    producer.produce(topic, key=b"%d" % (number % KEYS), value=value, on_delivery=delivered)
                    made.append((topic, value))
            if producer.flush(_WITHIN) or failed:
                raise KafkaException(*failed)
            for topic, value in made:
                load.acknowledged[topic].append(value)
            stopped.wait(0.01)

    def transact(name: str) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 2})
        producer.init_transactions(_WITHIN)
        number = 0
        while not stopped.is_set():
            number += 1
            value = b"%s-%d" % (name.encode(), number)
            producer.begin_transaction()
            for topic in ("left", "right"):
                producer.produce(topic, value=value)
            producer.flush(_WITHIN)
            try:
                if number % 4:
                    producer.commit_transaction(_WITHIN)
                else:
                    producer.abort_transaction(_WITHIN)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction(_WITHIN)  # after a kill: nobody knows which records are there
                continue
            load.ended[value] = bool(number % 4)

    def run(work: object, *arguments: str) -> None:
        try:
            work(*arguments)  # type: ignore[operator]
        except Exception as error:
            load.errors.append(error)

    threads = [threading.Thread(target=run, args=each) for each in ((produce,), (transact, "a"), (transact, "b"))]
    for each in threads:
        each.start()
    try:
        yield load
    finally:
        stopped.set()
        for each in threads:
            each.join()
    if load.errors:
        raise load.errors[0]


def check_served(broker: KafkaBroker, load: Load) -> None:
    """A consumer gets all that was acknowledged, in order, and transactions whole, in both isolation levels."""
    plain = [each.value for each in consume(broker, "plain")]
    assert plain[: len(load.acknowledged["plain"])] == load.acknowledged["plain"]
    newest = {each.key: each.value for each in consume(broker, "table")}
    for key, value in {b"%d" % (int(each) % KEYS): each for each in load.acknowledged["table"]}.items():
        assert int(newest[key] or b"") >= int(value)
    committed = {topic: _values(broker, topic, "read_committed") for topic in ("left", "right")}
    written = {topic: _values(broker, topic, "read_uncommitted") for topic in ("left", "right")}
    assert committed["left"] == committed["right"]
    assert {value for value, is_committed in load.ended.items() if is_committed} <= committed["left"]
    assert not {value for value, is_committed in load.ended.items() if not is_committed} & committed["left"]
    assert load.ended.keys() <= written["left"] & written["right"]


def _values(broker: KafkaBroker, topic: str, isolation: Isolation) -> set[bytes | None]:
    return {each.value for each in consume(broker, topic, isolation=isolation)}


def create_topics(cluster: Cluster) -> None:
    """Three replicas each, two of which acknowledge; each with another first leader."""
    for at, (topic, settings) in enumerate(TOPICS.items()):
        replicas = [(at + each) % 3 + 1 for each in range(3)]
        more = {"min_insync_replicas": 2, "unclean_leader_election_enable": "false"}
        cluster.create_topic(topic, [replicas], **settings, **more)
