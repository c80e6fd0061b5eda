"""Each client reads the same from ``serve`` as from a broker on the same files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as Place
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

import brokerless
from tests.golden import broker_data
from tests.kafka.jars import check, run
from tests.log.producer.gone_marker_logs import INDEXED, consumed, log_directory
from tests.serving.differential import Pair

pytestmark = pytest.mark.xdist_group("serving")

DEMO = Path(__file__).parents[2] / "demo" / "data"

Read = dict[tuple[str, int], list[tuple[Any, ...]]]


def by_librdkafka(
    bootstrap: str, places: list[tuple[str, int]], isolation: str = "read_uncommitted", **others: str
) -> Read:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 10,
            "log_level": 3,
            **{name.replace("_", "."): value for name, value in others.items()},
        }
    )
    found: Read = {place: [] for place in places}
    left = set(places)
    try:
        consumer.list_topics(timeout=30)
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
        while left:
            message = consumer.poll(30)
            assert message is not None
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            place = message.topic(), message.partition()
            if error is not None:
                left.discard(place)
                continue
            content = message.timestamp(), message.key(), message.value(), message.headers()
            found[place].append((message.offset(), *content))
    finally:
        consumer.close()
    return found


async def by_aiokafka(bootstrap: str, places: list[tuple[str, int]], isolation: str) -> Read:
    found: Read = {place: [] for place in places}
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        partitions = [Place(*place) for place in places]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(each) < ends[each] for each in partitions]):
            for place, records in (await consumer.getmany(timeout_ms=100)).items():
                found[place.topic, place.partition] += [
                    (each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in records
                ]
    return found


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_librdkafka_reads_the_same(both: Pair, isolation: str) -> None:
    places = [(each.topic, each.partition) for each in both.places]
    theirs, ours = (by_librdkafka(each, places, isolation) for each in both.bootstraps)
    assert theirs == ours
    assert sum(map(len, ours.values())) > 4000


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_aiokafka_reads_the_same(both: Pair, isolation: str) -> None:
    places = [(each.topic, each.partition) for each in both.places]
    theirs, ours = (asyncio.run(by_aiokafka(each, places, isolation)) for each in both.bootstraps)
    assert theirs == ours
    assert sum(map(len, ours.values())) > 4000


@pytest.mark.parametrize("place", [("txn", 0), ("codec-zstd", 2), ("compacted-none", 0), ("append-time", 1)])
def test_kafkas_consumer_reads_the_same(both: Pair, place: tuple[str, int]) -> None:
    topic, partition = place
    start = next(each.start for each in both.places if (each.topic, each.partition) == place)
    words = (topic, str(partition), "read_committed", str(start), "1600000300000", "1795230000000", "0")
    theirs, ours = (check(run("Consume", each, *words, helper=True)).splitlines() for each in both.bootstraps)
    assert theirs == ours
    assert len(ours) > 10


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafkas_consumer_reads_as_a_group(both: Pair, protocol: str) -> None:
    words = (both.bootstraps[1], "codec-lz4", f"java-{protocol}", protocol)
    lines = check(run("ConsumeGroup", *words, "604", helper=True))
    assert sorted(lines.split(b"\n")[:-1]) == sorted(
        f"{each.partition} {offset}".encode()
        for each in both.places
        if each.topic == "codec-lz4"
        for offset in range(each.end)
    )
    with brokerless.serve(broker_data("clean")) as server:
        assert by_librdkafka(server.bootstrap_servers, [("codec-lz4", 0)])["codec-lz4", 0]
    consumer = Consumer({"bootstrap.servers": both.bootstraps[1], "group.id": f"java-{protocol}", "log_level": 3})
    committed = consumer.committed([TopicPartition("codec-lz4", each) for each in range(4)], timeout=30)
    consumer.close()
    assert [each.offset for each in committed] == [148, 152, 152, 152]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumers_of_a_group_share_the_partitions(both: Pair, protocol: str) -> None:
    """One joins after the other, and the first leaves."""
    settings = {
        "bootstrap.servers": both.bootstraps[1],
        "group.id": f"sharing-{protocol}",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "log_level": 3,
    }
    first, second = Consumer(settings), Consumer(settings)
    first.subscribe(["codec-gzip"])
    wait_for(first, lambda: len(first.assignment()) == 4)
    second.subscribe(["codec-gzip"])
    wait_for(first, lambda: (second.poll(0.05), len(second.assignment()) == len(first.assignment()) == 2)[1])
    own = {each.partition for consumer in (first, second) for each in consumer.assignment()}
    assert own == {0, 1, 2, 3}
    first.close()
    wait_for(second, lambda: len(second.assignment()) == 4)
    second.close()


def wait_for(consumer: Consumer, is_done: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 40
    while not is_done():
        assert time.monotonic() < give_up
        consumer.poll(0.05)


def test_the_console_consumer_reads_the_same(both: Pair) -> None:
    words = ("--topic", "segments", "--from-beginning", "--max-messages", "700", "--timeout-ms", "30000")
    main = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    theirs, ours = (
        check(run(main, "--bootstrap-server", each, *words, alone=True)).splitlines() for each in both.bootstraps
    )
    assert sorted(theirs) == sorted(ours)
    assert len(ours) >= 700  # values have line ends


def test_kafkas_tools_describe_groups_and_topics(both: Pair) -> None:
    main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    texts = [
        check(run(main, "--bootstrap-server", each, "--describe", "--group", "group-rdkafka", alone=True)).split()
        for each in both.bootstraps
    ]
    assert texts[0] == texts[1]
    assert b"group-rdkafka" in texts[1]


def test_messages_of_old_formats_go_out_unchanged() -> None:
    data = broker_data("old-formats")
    log = brokerless.open(data)
    with brokerless.serve(data) as server:
        places = [each.topic_partition for each in log.partitions if each.name[:1] in ("v", "c", "u")]
        found = by_librdkafka(server.bootstrap_servers, places)
    for topic, partition in places:
        table = log.partition(topic, partition).records(["offset", "key", "value"]).read_all()
        ours = [(offset, key, value) for offset, _, key, value, _ in found[topic, partition]]
        assert ours == [tuple(each.values()) for each in table.to_pylist()], topic
    assert sum(map(len, found.values())) > 3000


def test_groups_go_on_where_the_dead_cluster_stopped() -> None:
    with brokerless.serve(DEMO) as server:
        consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "shipping", "log_level": 3})
        (committed,) = consumer.committed([TopicPartition("orders", 2)], timeout=30)
        assert committed.offset == 500
        consumer.assign([TopicPartition("orders", 2)])
        message = consumer.poll(30)
        assert message is not None
        assert message.offset() == 500
        consumer.close()


def test_producers_fail_at_once() -> None:
    with brokerless.serve(DEMO) as server:
        producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 3})
        errors: list[Any] = []
        producer.produce("orders", b"new", partition=0, on_delivery=lambda error, _: errors.append(error.code()))
        assert producer.flush(20) == 0
        assert errors == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_partitions_on_other_disks_have_no_leader(tmp_path: Path) -> None:
    (tmp_path / "orders-1").symlink_to(DEMO / "orders-1")
    (tmp_path / "__cluster_metadata-0").symlink_to(DEMO / "__cluster_metadata-0")
    with brokerless.serve(tmp_path) as server:
        topic = AdminClient({"bootstrap.servers": server.bootstrap_servers}).list_topics(timeout=30).topics["orders"]
        assert {number: each.leader for number, each in topic.partitions.items()} == {0: -1, 1: 0, 2: -1}


def test_clients_see_settings(both: Pair) -> None:
    found: list[dict[str, Any]] = []
    for bootstrap in both.bootstraps:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "compacted-none")]).values()
        dynamic = 1
        found.append({name: each.value for name, each in future.result(30).items() if each.source == dynamic})
    assert found[0] == found[1]
    assert found[1]["cleanup.policy"] == "compact"


@pytest.mark.parametrize("topic", INDEXED)
def test_aborted_records_without_a_marker_stay_hidden(tmp_path: Path, topic: str) -> None:
    """What is committed after them is not, whatever one answer holds; a broker's consumer passes over it as well."""
    with brokerless.serve(log_directory(tmp_path / "data")) as server:
        found = by_librdkafka(server.bootstrap_servers, [(topic, 0)], "read_committed")
        assert [each[0] for each in found[topic, 0]] == consumed(topic)
        found = by_librdkafka(server.bootstrap_servers, [(topic, 0)])
        assert {0, 1, 2} < {each[0] for each in found[topic, 0]}
