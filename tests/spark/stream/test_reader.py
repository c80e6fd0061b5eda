"""A running broker's directory as a stream, while clients produce into it: each record comes once and in order, by the
account of a consumer, whatever is rolled, restarted, stopped or killed meanwhile; and a directory that we write to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import DataFrame, Row, SparkSession
from tests.kafka.broker import KafkaBroker
from tests.kafka.live import some_records
from tests.kafka.producers import Consumed, Record, consume, produce_confluent
from tests.spark import stream_job
from tests.spark.limits import at_most, needs_limits
from tests.spark.stream.test_log_tracker import Query

from brokerless.api.loading import load
from brokerless.errors import UnreadableError
from brokerless.jobs.load.routing import Routing
from brokerless.log.checkpoint.commit_journal import Journal, write_journal
from brokerless.log.commit import commit as committing
from brokerless.log.commit.job_commit import commit_staged
from brokerless.log.names import COMMIT_JOURNAL
from brokerless.log.storage.destination import Destination
from brokerless.spark.sink import write_rows
from brokerless.spark.sink_options import parse_sink_options

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
    """Records that the broker is told to delete; it removes their segments when it starts, and has noted then up to
    where within the next one it deleted. Gives what to ask then."""
    topic = "stream-retained"
    kafka.create_topic(topic, 1, internal_segment_bytes=4096)
    produce_confluent(kafka, topic, some_records(12, 400, largest=1000), batch_size=1000)
    third = int(kafka.logs(topic)[2].stem)
    begin = third + 5
    strict, lenient = (
        Query(kafka.log_dir, {topic: {"0": 1}}, subscribe=topic, failOnDataLoss=fails) for fails in ("true", "false")
    )
    admin = kafka.admin()
    for done in admin.delete_records([TopicPartition(topic, 0, begin)]).values():
        done.result(30)

    def check() -> None:
        wait(lambda: int(kafka.logs(topic)[0].stem) >= third, "the broker removes segments")
        with pytest.raises(UnreadableError, match=f"offset 1 comes next, but the log now begins at {begin}"):
            strict.trigger()
        consumed = [each.offset for each in consume(kafka, topic)]
        assert consumed[0] == begin
        assert [offset for _, _, offset in lenient.trigger()] == consumed
        options = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
        committed = Query(kafka.log_dir, subscribe=topic, **options)
        assert [offset for _, _, offset in committed.trigger()] == consumed

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
    options |= {"kafka.isolation.level": "read_committed", **at_most(300)}
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


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_topic_is_read_on_while_it_is_compacted(codec: str, kafka: KafkaBroker) -> None:
    """Segments that the cleaner puts together grow behind what was read, and their offsets have holes."""
    topic = f"stream-compacted-{codec}"
    settings = {"min_cleanable_dirty_ratio": 0.01, "min_compaction_lag_ms": 0, "delete_retention_ms": 0}
    kafka.create_topic(topic, 1, cleanup_policy="compact", internal_segment_bytes=4096, segment_ms=1000, **settings)
    query = Query(kafka.log_dir, subscribe=topic, startingOffsets="earliest")
    before, cleaned, number = list[Path](), 0, 0
    until = time.monotonic() + 120
    while cleaned < 3:
        assert time.monotonic() < until, "the cleaner puts segments together"
        number += 1
        records = [
            Record(key=b"%d" % (each % 20 if each % 5 else number * 100 + each), value=b"v" * each)
            for each in range(60)
        ]
        produce_confluent(kafka, topic, records, codec, batch_num_messages=1 if codec == "none" else 20)
        query.trigger()
        logs = kafka.logs(topic)
        cleaned += any(path not in logs for path in before[1:])
        before = logs
    offsets = [offset for _, _, offset in query.rows]
    assert offsets == sorted(set(offsets))
    assert {each.offset for each in consume(kafka, topic)} <= set(offsets)


@needs_limits
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


class Killed(BaseException):
    """What ends a commit where a kill would."""


def sink(spark: SparkSession, directory: Path, values: range) -> None:
    rows = spark.range(values.start, values.stop, numPartitions=2).selectExpr(
        "cast(id as string) as key", "cast(id as string) as value"
    )
    rows.write.format("brokerless").mode("append").options(topic="t", partitions=2).save(str(directory))


def rows_of(values: range, **more: str) -> pa.RecordBatch:
    text = [str(each) for each in values]
    others = {name: [each] * len(text) for name, each in more.items()}
    return pa.RecordBatch.from_pydict({"key": text, "value": text, **others})


def cut_short(directory: Path, *rows: pa.RecordBatch) -> None:
    """What the sink's driver does with what its tasks have written, up to where it is killed."""
    options = parse_sink_options({"path": str(directory), "partitions": "2"})
    with pytest.raises(Killed):
        commit_staged(directory, write_rows(iter(rows), options, "job"))
    assert (directory / COMMIT_JOURNAL).exists()


def test_a_query_follows_a_directory_into_which_others_commit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record comes once, and none of a commit before it has ended. Commits that were cut short are not minded: one
    that the next writer undoes, whose offsets others get, and one that it completes. That the query has looked
    meanwhile is known by a partition with one record, which is moved into the directory."""
    log, found = tmp_path / "log", list[tuple[str, int, int, int]]()

    def note(frame: DataFrame, _: int) -> None:
        rows = frame.selectExpr("topic", "partition", "offset", "int(string(value))").collect()
        found.extend(tuple(row) for row in rows)

    def seen() -> list[int]:
        return sorted(value for *_, value in found)

    def wait_for(*values: int) -> None:
        wait(lambda: query.exception() or {*values} <= {*seen()}, f"the query reads {values}: {found}")
        assert query.exception() is None

    def look(number: int) -> None:
        load([rows_of(range(number, number + 1))], str(tmp_path / "beside"), Routing(f"look{-number}"))
        (tmp_path / "beside" / f"look{-number}-0").rename(log / f"look{-number}-0")
        wait_for(number)

    sink(spark, log, range(100))
    stream = spark.readStream.format("brokerless").option("startingOffsets", "earliest").load(str(log))
    writer = stream.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        wait_for(*range(100))
        sink(spark, log, range(100, 200))
        load([rows_of(range(200, 250))], str(log), Routing("loaded", partitions=2))
        wait_for(*range(250))

        def undecided(directory: Destination, journal: Journal) -> None:
            if journal.is_decided:
                raise Killed
            write_journal(directory, journal)

        with monkeypatch.context() as patch:
            patch.setattr(committing, "write_journal", undecided)
            cut_short(log, rows_of(range(1000, 1100), topic="t"), rows_of(range(1100, 1150), topic="new"))
        look(-1)
        assert seen() == [-1, *range(250)]
        sink(spark, log, range(250, 400))  # and undoes that first
        wait_for(*range(400))

        move = Destination.move
        named: list[str] = []

        def half(directory: Destination, name: str, target: str) -> bool:
            if named:
                raise Killed
            named.append(target)
            return move(directory, name, target)

        with monkeypatch.context() as patch:
            patch.setattr(Destination, "move", half)
            cut_short(log, rows_of(range(400, 500), topic="t"), rows_of(range(500, 550), topic="newer"))
        assert named == ["newer-0"]
        look(-2)
        assert seen() == [-2, -1, *range(400)]
        load([rows_of(range(550, 600))], str(log), Routing("last"))  # and completes that first
        wait_for(*range(600))
    finally:
        query.stop()
    assert seen() == [-2, -1, *range(600)]
    places = {(topic, partition) for topic, partition, *_ in found}
    assert len(places) == 9
    for place in places:
        offsets = [offset for topic, partition, offset, _ in found if (topic, partition) == place]
        assert offsets == list(range(len(offsets)))
    assert len(list(log.glob("t-*"))) > 2  # what killed writers left
