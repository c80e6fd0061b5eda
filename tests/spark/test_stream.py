"""A running broker's directory as a stream, while clients produce into it: each record comes once and in order, by the
account of a consumer, whatever is rolled, restarted, stopped or killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import DataFrame, Row, SparkSession
from tests.kafka.broker import KafkaBroker
from tests.kafka.live import some_records
from tests.kafka.producers import Consumed, consume, produce_confluent
from tests.spark import stream_job
from tests.spark.test_follow import Query

from brokerless.errors import UnreadableError

PATTERN = "stream-live.*"
WITHIN = 240.0


def wait(until: Callable[[], Any], what: str) -> None:
    give_up = time.monotonic() + WITHIN
    while not until():
        assert time.monotonic() < give_up, what
        time.sleep(0.1)


def expected(broker: KafkaBroker, partitions: dict[str, int]) -> dict[tuple[str, int], list[Consumed]]:
    return {
        (topic, partition): consume(broker, topic, partition, "read_committed")
        for topic, count in partitions.items()
        for partition in range(count)
    }


def consumed(row: Row) -> Consumed:
    headers = tuple((name, None if value is None else bytes(value)) for name, value in row.headers or ())
    key, value = (None if each is None else bytes(each) for each in (row.key, row.value))
    return Consumed(row.offset, row.timestamp // 1000, key, value, headers)


def retention(kafka: KafkaBroker) -> Callable[[], None]:
    """Records that the broker is told to delete; it removes their segments when it starts. Gives what to ask then."""
    topic = "stream-retained"
    kafka.create_topic(topic, 1, internal_segment_bytes=4096)
    produce_confluent(kafka, topic, some_records(12, 400, largest=1000), batch_size=1000)
    third = int(kafka.logs(topic)[2].stem)
    strict, lenient = (
        Query(kafka.log_dir, {topic: {"0": 1}}, subscribe=topic, failOnDataLoss=fails) for fails in ("true", "false")
    )
    admin = kafka.admin()
    for done in admin.delete_records([TopicPartition(topic, 0, third)]).values():
        done.result(30)

    def check() -> None:
        wait(lambda: int(kafka.logs(topic)[0].stem) >= third, "the broker removes segments")
        with pytest.raises(UnreadableError, match=f"offset 1 comes next, but the log begins at {third} by now"):
            strict.trigger()
        assert [offset for _, _, offset in lenient.trigger()] == [each.offset for each in consume(kafka, topic)]

    return check


@pytest.fixture
def restarted(kafka: KafkaBroker) -> Iterator[KafkaBroker]:
    """The broker that all share, for a test that restarts it: it runs afterwards, whatever happens."""
    yield kafka
    if kafka.process is None:
        kafka.start()


def test_each_record_of_a_live_broker_comes_once_and_in_order(
    restarted: KafkaBroker, spark: SparkSession, tmp_path: Path
) -> None:
    kafka, batches = restarted, dict[int, list[Row]]()

    def note(frame: DataFrame, number: int) -> None:
        # A micro-batch that is done again, after a restart, takes the place of what it gave before.
        batches[number] = (
            frame.selectExpr("*", "unix_micros(timestamp) as at")
            .drop("timestamp")
            .withColumnRenamed("at", "timestamp")
            .collect()
        )

    options = {"subscribePattern": PATTERN, "startingOffsets": "earliest", "includeHeaders": "true"}
    options |= {"kafka.isolation.level": "read_committed", "maxOffsetsPerTrigger": "300"}
    writer = (
        spark.readStream.format("brokerless")
        .options(**options)
        .load(str(kafka.log_dir))
        .writeStream.foreachBatch(note)
        .option("checkpointLocation", str(tmp_path))
    )
    kafka.create_topic("stream-live", 2, internal_segment_bytes=16_384, index_interval_bytes=1000)
    produce_confluent(kafka, "stream-live", some_records(1, 150, 2), "lz4", "commit")
    query = writer.trigger(processingTime="100 milliseconds").start()
    produce_confluent(kafka, "stream-live", some_records(2, 150, 2), "zstd", "abort")
    produce_confluent(kafka, "stream-live", some_records(3, 200, 2), "none")
    wait(lambda: query.exception() or sum(map(len, batches.values())) > 100, "the query reads")
    check_retention = retention(kafka)
    kafka.stop()
    kafka.start()
    kafka.wait_for_leaders("stream-live", 2)
    produce_confluent(kafka, "stream-live", some_records(4, 200, 2), "snappy", "commit")
    kafka.create_topic("stream-live-later", 1)
    produce_confluent(kafka, "stream-live-later", some_records(5, 50), "gzip")
    wait(
        lambda: query.exception() or any(row.topic == "stream-live-later" for each in batches.values() for row in each),
        "it reads the new topic",
    )
    produce_confluent(kafka, "stream-live", some_records(6, 150, 2), "gzip")
    query.stop()
    check_retention()
    produce_confluent(kafka, "stream-live", some_records(7, 150, 2), "lz4", "commit")
    produce_confluent(kafka, "stream-live", some_records(8, 10), "none", "open")
    produce_confluent(kafka, "stream-live", some_records(9, 50, 2), "lz4")
    last = writer.trigger(availableNow=True).start()
    last.awaitTermination()
    assert last.recentProgress[-1]["sources"][0]["endOffset"]
    found: dict[tuple[str, int], list[Consumed]] = {}
    for number in sorted(batches):
        for row in batches[number]:
            found.setdefault((row.topic, row.partition), []).append(consumed(row))
    assert found == expected(kafka, {"stream-live": 2, "stream-live-later": 1})
    assert len(kafka.logs("stream-live")) > 3
    assert len(batches) > 3


def test_a_killed_driver_goes_on_from_its_checkpoint(kafka: KafkaBroker, spark: SparkSession, tmp_path: Path) -> None:
    topic = "stream-killed"
    kafka.create_topic(topic, 1, internal_segment_bytes=16_384)
    produce_confluent(kafka, topic, some_records(10, 400), "lz4", batch_size=4000)
    arguments = [str(kafka.log_dir), topic, str(tmp_path)]
    job = subprocess.Popen(
        [sys.executable, stream_job.__file__, *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        commits = tmp_path / "checkpoint" / "commits"
        wait(lambda: job.poll() is not None or (commits / "1").exists(), "two micro-batches are done")
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    produce_confluent(kafka, topic, some_records(11, 100), "zstd", batch_size=4000)
    done = [int(each.name) for each in commits.iterdir() if each.name.isdigit()]
    assert 2 <= len(done) < 20
    writer = stream_job.to_parquet(spark, *arguments).trigger(once=True)
    writer.start(f"{tmp_path}/files").awaitTermination()
    writer.trigger(once=True).start(f"{tmp_path}/files").awaitTermination()
    offsets = [row.offset for row in spark.read.parquet(f"{tmp_path}/files").select("offset").collect()]
    assert sorted(offsets) == [each.offset for each in consume(kafka, topic)] == list(range(500))
