"""A tiered topic that was deleted and created again is rebuilt of a copy of its objects, while all else of the cluster
stays: brokers serve its records at their offsets, and go on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import brokerless
from tests.kafka.broker import KafkaBroker
from tests.kafka.live import some_records
from tests.kafka.producers import consume, produce_confluent
from tests.kafka.test_bucket_rebuilt import mapping, node_of
from tests.kafka.tiered import objects, serves_remote, tiered_settings, wait_for

pytestmark = pytest.mark.xdist_group("tiered")

SETTINGS = {"remote_storage_enable": "true", "local_retention_bytes": 1, "internal_segment_bytes": 6000}
TOPICS = ("lost", "kept")


def is_uploaded(broker: KafkaBroker, bucket: Path, topic: str) -> bool:
    return len(broker.logs(topic)) == 1 and objects(bucket)[f"{topic}-0"] > 0


def delete_topic(broker: KafkaBroker, topic: str) -> None:
    admin = broker.admin()  # kept alive until its future is done
    admin.delete_topics([topic])[topic].result(30)


def test_a_deleted_topic_takes_the_place_of_the_one_that_was_created_again(kafka_jars: Path, tmp_path: Path) -> None:
    bucket, versions = tmp_path / "bucket", tmp_path / "versions"
    broker = KafkaBroker(tmp_path / "broker", tiered_settings(bucket))
    with broker:
        for topic in TOPICS:
            broker.create_topic(topic, **SETTINGS)
            produce_confluent(broker, topic, some_records(len(topic), 400, largest=900), batch_size=2000)
        for topic in TOPICS:
            wait_for(lambda topic=topic: is_uploaded(broker, bucket, topic), "all but the active segment is remote")
        known = {topic: consume(broker, topic) for topic in TOPICS}
        end = int(broker.logs("lost")[0].stem)
        shutil.copytree(bucket, versions)
        delete_topic(broker, "lost")
        wait_for(lambda: not objects(bucket)["lost-0"], "its objects are deleted")
        broker.create_topic("lost", **SETTINGS)
        produce_confluent(broker, "lost", some_records(9, 5))
    for directory in versions.glob("lost-0-*"):
        shutil.copytree(directory, bucket / directory.name, dirs_exist_ok=True)
    options = {"from_bucket": bucket, "topics": "lost", "mapping": mapping(tmp_path / "nodes.json")}
    rebuilt = brokerless.rebuild(broker.log_dir, tmp_path / "to", apply=True, **options)
    assert any("topic lost with ID" in each and "takes its place" in each for each in rebuilt.lost)
    assert not any("kept" in each for each in rebuilt.lost)
    start = brokerless.open(tmp_path / "to" / "node-1").restart(remote=bucket).directory
    assert start is not None
    assert (start.remote_deletions, start.remote_log_starts) == ((), ())
    stored = objects(bucket)
    node = node_of(rebuilt, tmp_path, bucket)
    with node:
        for topic in TOPICS:
            wait_for(lambda topic=topic: serves_remote(node, topic, 0), "remote records are served")
        assert consume(node, "kept") == known["kept"]
        assert consume(node, "lost") == [each for each in known["lost"] if each.offset < end]
        produce_confluent(node, "lost", some_records(10, 400, largest=900), batch_size=2000)
        wait_for(lambda: objects(bucket)["lost-0"] > stored["lost-0"], "new segments are uploaded")
        assert len(consume(node, "lost")) == end + 400
    assert all(objects(bucket)[each] >= count for each, count in stored.items())
