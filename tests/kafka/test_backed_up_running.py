"""Backups of a broker that runs, under load: brokers that start on one serve what was acknowledged before it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer

import brokerless
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Isolation, consume
from tests.kafka.rebuilt import mapping, nodes_of, running

SETTINGS = {"log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "200"}
TOPICS = {
    "plain": {"internal_segment_bytes": 20_000},
    "left": {"internal_segment_bytes": 20_000},
    "right": {"internal_segment_bytes": 20_000},
    "table": {"internal_segment_bytes": 8192, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01},
}
ROUNDS = 5


@dataclass
class Load:
    """What clients have: ``acknowledged``, values by topic; ``ended``, transactions that were committed or aborted."""

    acknowledged: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    ended: dict[bytes, bool] = field(default_factory=dict[bytes, bool])


@contextmanager
def clients(broker: KafkaBroker) -> Iterator[Load]:
    """An idempotent producer, and two transactional ones that write to two topics, until this is left."""
    load, stopped = Load(), threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 1})
        number = 0
        while not stopped.is_set():
            made: list[tuple[str, bytes]] = []
            for topic in ("plain", "table"):
                for _ in range(20):
                    number += 1
                    producer.produce(topic, key=b"%d" % (number % 7), value=b"%d" % number)
                    made.append((topic, b"%d" % number))
            assert not producer.flush(30)
            for topic, value in made:
                load.acknowledged[topic].append(value)
            stopped.wait(0.01)

    def transact(name: str) -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
        producer.init_transactions(30)
        number = 0
        while not stopped.is_set():
            number += 1
            value = b"%s-%d" % (name.encode(), number)
            producer.begin_transaction()
            for topic in ("left", "right"):
                producer.produce(topic, value=value)
            assert not producer.flush(30)
            if number % 4:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
            load.ended[value] = bool(number % 4)

    threads = [threading.Thread(target=produce), *(threading.Thread(target=transact, args=(each,)) for each in "ab")]
    for each in threads:
        each.start()
    try:
        yield load
    finally:
        stopped.set()
        for each in threads:
            each.join()


def values(broker: KafkaBroker, topic: str, isolation: Isolation) -> set[bytes | None]:
    return {each.value for each in consume(broker, topic, isolation=isolation)}


def test_what_was_acknowledged_before_a_backup_is_served_after_it(kafka_jars: Path, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    with KafkaBroker(tmp_path / "broker", SETTINGS) as broker:
        for topic, settings in TOPICS.items():
            broker.create_topic(topic, **settings)
        with clients(broker) as load:
            for number in range(ROUNDS):
                while len(load.acknowledged["plain"]) < 200 * (number + 1) or len(load.ended) < 10 * (number + 1):
                    threading.Event().wait(0.02)
                before = {topic: list(own) for topic, own in load.acknowledged.items()}, dict(load.ended)
                result = brokerless.backup(broker.log_dir, place, name=f"run-{number}")
                assert result.snapshot.is_complete, result.findings
                assert not [each for each in result.findings if each.severity != "info"]
    assert not brokerless.Backup(place).check(read="all").findings
    brokerless.merge(f"{place}@run-{ROUNDS - 1}", tmp_path / "restored")
    nodes = mapping(tmp_path / "nodes.json", (1,), (1,))
    rebuilt = brokerless.rebuild(tmp_path / "restored", tmp_path / "to", mapping=nodes, apply=True)
    acknowledged, ended = before
    with running(nodes_of(tmp_path, rebuilt)) as restored:
        plain = [each.value for each in consume(restored, "plain")]
        assert plain[: len(acknowledged["plain"])] == acknowledged["plain"]
        newest = {each.key: each.value for each in consume(restored, "table")}
        for key, value in {b"%d" % (int(each) % 7): each for each in acknowledged["table"]}.items():
            assert int(newest[key] or b"") >= int(value)
        committed = {topic: values(restored, topic, "read_committed") for topic in ("left", "right")}
        written = {topic: values(restored, topic, "read_uncommitted") for topic in ("left", "right")}
    assert committed["left"] == committed["right"]
    assert {value for value, is_committed in ended.items() if is_committed} <= committed["left"]
    assert not {value for value, is_committed in ended.items() if not is_committed} & committed["left"]
    assert ended.keys() <= written["left"] & written["right"]
