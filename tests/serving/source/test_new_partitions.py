"""A real broker makes topics while its directory is served: consumers get them, in groups of both protocols."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Record, produce_confluent

import brokerless
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.serving.source.new_partitions import NewPartitions as Looked

pytestmark = pytest.mark.xdist_group("kafka")

DEMO = Path(__file__).parents[3] / "demo" / "data"


def test_what_was_made_since_is_found_once_when_it_is_complete(tmp_path: Path) -> None:
    disk = Path(shutil.copytree(DEMO, tmp_path / "disk"))
    new = Looked.since([resolve(Location(str(disk)))], lambda topic, _: topic != "unwanted")
    assert new.look() == []
    (disk / "made-0").mkdir()
    (disk / "notes").mkdir()
    assert new.look() == []
    for name in ("made-0", "unwanted-0", "made-1.0123456789abcdef0123456789abcdef-delete"):
        shutil.copytree(disk / "orders-0", disk / name, dirs_exist_ok=True)
    assert [(each.topic, each.partition) for each in new.look()] == [("made", 0)]
    assert new.look() == []
    shutil.rmtree(disk)
    assert new.look() == []


def wait(question: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not question():
        assert time.monotonic() < give_up
        time.sleep(0.1)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumers_get_the_partitions_that_a_broker_makes(kafka: KafkaBroker, protocol: str) -> None:
    topic, broker = f"made-for-{protocol}", kafka
    if not (broker.log_dir / "made-first-0").exists():
        broker.create_topic("made-first")
    with brokerless.serve(broker.log_dir, topics="made*", on_damage=lambda _: None) as server:
        bootstrap = server.bootstrap_servers
        watched = AdminClient({"bootstrap.servers": bootstrap})
        topics = [f"unwanted-{protocol}", topic]
        for each in topics:
            broker.create_topic(each)
        sent = [Record(b"key", b"%d" % number, partition=number // 10) for number in range(20)]
        produce_confluent(broker, topic, sent[:10])
        wait(lambda: topic in watched.list_topics(timeout=30).topics)
        assert topics[0] not in watched.list_topics(timeout=30).topics
        settings = {
            "bootstrap.servers": bootstrap, "group.id": f"new-{protocol}", "group.protocol": protocol,
            "auto.offset.reset": "earliest", "topic.metadata.refresh.interval.ms": 500, "log_level": 3,
        }  # fmt: skip
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        assert received(consumer, 10) == {(0, each.value) for each in sent[:10]}
        admin = broker.admin()  # kept alive until its future is done
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
        broker.wait_for_leaders(topic, 2)
        produce_confluent(broker, topic, sent[10:])
        assert received(consumer, 10) == {(1, each.value) for each in sent[10:]}
        assert {each.partition for each in consumer.assignment()} == {0, 1}
        assert consumer.get_watermark_offsets(TopicPartition(topic, 1), timeout=30) == (0, 10)
        consumer.close()


def test_settings_that_a_broker_changes_are_answered(kafka: KafkaBroker) -> None:
    kafka.create_topic("made-for-settings")
    with brokerless.serve(kafka.log_dir, topics="made*", on_damage=lambda _: None) as server:
        watched = AdminClient({"bootstrap.servers": server.bootstrap_servers})

        def retention() -> str | None:
            resource = ConfigResource(ConfigResource.Type.TOPIC, "made-for-settings")
            return watched.describe_configs([resource])[resource].result(30)["retention.ms"].value

        assert retention() == "604800000"
        entry = ConfigEntry("retention.ms", "123456789", incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(ConfigResource.Type.TOPIC, "made-for-settings", incremental_configs=[entry])
        admin = kafka.admin()
        admin.incremental_alter_configs([changed])[changed].result(30)
        wait(lambda: retention() == "123456789")


def received(consumer: Consumer, count: int) -> set[tuple[int | None, bytes | None]]:
    found: set[tuple[int | None, bytes | None]] = set()
    give_up = time.monotonic() + 60
    while len(found) < count and time.monotonic() < give_up:
        message = consumer.poll(1)
        if message is not None:
            error = message.error()
            assert error is None or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART, error
            found.add((message.partition(), message.value()))
    return found
