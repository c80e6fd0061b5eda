"""A real broker serves what ``brokerless load`` wrote, by offset and by time, and appends to it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition

from brokerless.cli import main
from brokerless.log.checkpoints import load_partition_metadata
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Record, consume, produce_confluent

COUNT, PARTITIONS, START = 20_000, 3, 1_767_225_600_000


def key(number: int) -> bytes:
    return b"user-%d" % (number % 500)


def test_a_broker_serves_what_was_loaded(kafka_jars: Path, tmp_path: Path) -> None:
    columns = {
        "key": [key(number) for number in range(COUNT)],
        "value": [b"value %d" % number for number in range(COUNT)],
        "timestamp": [START + number for number in range(COUNT)],
        "headers": [[{"key": "number", "value": b"%d" % number}] for number in range(COUNT)],
    }
    pq.write_table(pa.table(columns), tmp_path / "records.parquet")
    broker = KafkaBroker(tmp_path / "broker")
    with broker:
        broker.create_topic("loaded", PARTITIONS, retention_ms=-1)
    metadata = load_partition_metadata(str(broker.log_dir / "loaded-0" / "partition.metadata"))
    for partition in range(PARTITIONS):
        shutil.rmtree(broker.log_dir / f"loaded-{partition}")
    arguments = ["load", str(tmp_path / "records.parquet"), "--to", str(broker.log_dir), "--topic", "loaded"]
    arguments += ["--topic-id", str(metadata.topic_id), "--partitions", str(PARTITIONS)]
    assert main([*arguments, "--codec", "lz4", "--segment-bytes", "100000"]) == 0
    with broker:
        broker.wait_for_leaders("loaded", PARTITIONS)
        found = {partition: consume(broker, "loaded", partition) for partition in range(PARTITIONS)}
        values = sorted(int(each.value[6:]) for records in found.values() for each in records if each.value)
        assert values == list(range(COUNT))
        for partition, records in found.items():
            assert [each.offset for each in records] == list(range(len(records)))
            for each in records:
                number = int((each.value or b"")[6:])
                assert (each.key, each.timestamp) == (key(number), START + number)
                assert each.headers == (("number", b"%d" % number),)
            assert len(broker.logs("loaded", partition)) > 1
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "times"})
        for partition, records in found.items():
            middle = records[len(records) // 2]
            (at,) = consumer.offsets_for_times([TopicPartition("loaded", partition, middle.timestamp)], timeout=30)
            assert at.offset == middle.offset
        consumer.close()
        more = [Record(b"k", b"behind what was loaded", (), START)]
        assert produce_confluent(broker, "loaded", more) == [len(found[0])]
