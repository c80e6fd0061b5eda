"""DataFrames become partitions that Kafka's own reader takes for its own: all of them at once, or nothing."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from tests.golden import broker_data
from tests.kafka.oracle import read_logs
from tests.spark.sink_job import ROWS, SIZE

import brokerless
from brokerless.errors import UsageError
from brokerless.log import names
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.storage.directory_lock import lock_directory
from brokerless.log.storage.location import Location
from brokerless.spark.row_order import arrange
from brokerless.spark.sink import Writer, commit_written
from brokerless.spark.sink_options import parse_sink_options
from brokerless.tables.partitioner import partition_for_key

ROOT = Path(__file__).parents[2]
TOPICS = ["segments", "edges", "codec-lz4", "append-time", "txn", "_.dots-and_under.scores-0"]
COLUMNS = "topic string, partition int, offset long, value string"


def save(df: DataFrame, directory: Path, **options: Any) -> None:
    df.write.format("brokerless").mode("append").options(**options).save(str(directory))


def by_kafka(directory: Path, *topics: str) -> dict[str, list[dict[str, Any]]]:
    """What Kafka's reader gives of each partition, without what depends on how records are grouped into batches."""
    logs = sorted(log for topic in topics for log in directory.glob(f"{topic}-?/*.log"))
    found: dict[str, list[dict[str, Any]]] = {}
    for path, lines in read_logs(logs).items():
        assert [line for line in lines if line["type"] in ("error", "disagreement")] == []
        records = [line for line in lines if line["type"] == "record" and not line.get("control")]
        for line in records:
            kept = {name: each for name, each in line.items() if name not in ("file", "batchPosition", "sequence")}
            found.setdefault(path.parent.name, []).append(kept)
    return found


def offsets(directory: Path) -> dict[str, list[int]]:
    return {
        each.name: [offset for batch in each.records(["offset"]) for offset in batch["offset"].to_pylist()]
        for each in brokerless.open(directory).partitions
    }


def values(directory: Path) -> Counter[bytes]:
    return Counter(
        value for batch in brokerless.open(directory).records(["value"]) for value in batch["value"].to_pylist()
    )


def leftovers(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if path.is_dir() and path.name.endswith("-delete")]


def errors(directory: Path) -> list[str]:
    return [str(each) for each in brokerless.open(directory).verify() if each.severity != "info"]


def test_what_was_read_is_written_as_it_was(spark: SparkSession, kafka_jars: Path, tmp_path: Path) -> None:
    source = broker_data("clean")
    options = {"subscribe": ",".join(TOPICS), "includeHeaders": True}
    df = spark.read.format("brokerless").options(**options).load(str(source))
    save(arrange(df), tmp_path, **{"compression.type": "zstd"})
    expected = by_kafka(source, *TOPICS)
    assert sum(map(len, expected.values())) > 1000
    assert by_kafka(tmp_path, *TOPICS) == expected
    assert {kind for each in expected.values() for line in each for kind in [line["timestampType"]]} == {
        "CreateTime",
        "LogAppendTime",
    }
    again = spark.read.format("brokerless").options(**options).load(str(tmp_path))
    assert again.exceptAll(df).count() == df.exceptAll(again).count() == 0
    assert errors(tmp_path) == leftovers(tmp_path) == []
    assert (tmp_path / names.CLEAN_SHUTDOWN).exists()
    ids: dict[str, set[str | None]] = {}
    for path in tmp_path.glob("*/partition.metadata"):
        ids.setdefault(path.parent.name.rpartition("-")[0], set()).add(
            load_partition_metadata(Location(str(path))).topic_id
        )
    assert {len(each) for each in ids.values()} == {1}
    assert len({*map(str, ids.values())}) == len(ids)


def test_keys_decide_as_for_kafkas_producers_and_appending_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(3000, numPartitions=3).selectExpr(
        "if(id % 10 = 0, null, concat('key-', id % 97)) as key", "cast(id as string) as value"
    )
    before = int(time.time() * 1000)
    save(df, tmp_path, topic="t", partitions=4, **{"batch.size": 1000})
    first = offsets(tmp_path)
    assert [*first] == ["t-0", "t-1", "t-2", "t-3"]
    save(arrange(df, 4), tmp_path, topic="t")
    found: dict[bytes, set[int]] = {}
    without_key = [0] * 4
    for partition in brokerless.open(tmp_path).partitions:
        assert partition.topic_partition is not None
        _, number = partition.topic_partition
        for batch in partition.records(["key", "timestamp"]):
            assert min(batch["timestamp"].cast(pa.int64()).to_pylist()) >= before
            for key in batch["key"].to_pylist():
                if key is None:
                    without_key[number] += 1
                else:
                    found.setdefault(key, set()).add(number)
    keys = pa.array(list(found), pa.binary())
    assert found == {key: {int(to)} for key, to in zip(found, partition_for_key(keys, 4), strict=True)}
    assert sum(without_key) == 600
    assert sum(count > 0 for count in without_key) >= 3  # each task begins with another one
    for name, each in offsets(tmp_path).items():
        assert each == list(range(2 * len(first[name])))
    assert values(tmp_path) == Counter({b"%d" % number: 2 for number in range(3000)})
    assert errors(tmp_path) == leftovers(tmp_path) == []
    assert (tmp_path / names.CLEAN_SHUTDOWN).exists()


def test_options_are_kafkas(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(2000, numPartitions=1).selectExpr("repeat(cast(id as string), 10) as value", "0 as partition")
    common = {"segment.bytes": 20_000, "index.interval.bytes": 0, "batch.size": 1000}
    save(df, tmp_path, topic="a", **common, **{"message.timestamp.type": "LogAppendTime"})
    save(df, tmp_path, topic="b", **{"compression.type": "gzip", "compression.gzip.level": 1, "batch.size": 64 << 10})
    save(df, tmp_path, topic="c", **{"compression.type": "gzip", "compression.gzip.level": 9, "batch.size": 64 << 10})
    save(df, tmp_path, topic="d", partition=3, **{"message.format.version": "0.10", "compression.type": "snappy"})
    tables = {each.name: pa.Table.from_batches(each.batches()) for each in brokerless.open(tmp_path).partitions}
    assert [*tables] == ["a-0", "b-0", "c-0", "d-3"]
    assert {name: {*each["compression"].to_pylist()} for name, each in tables.items()} == {
        "a-0": {"none"}, "b-0": {"gzip"}, "c-0": {"gzip"}, "d-3": {"snappy"},
    }  # fmt: skip
    assert {name: {*each["magic"].to_pylist()} for name, each in tables.items()} == {
        "a-0": {2}, "b-0": {2}, "c-0": {2}, "d-3": {1},
    }  # fmt: skip
    assert {*tables["a-0"]["timestampType"].to_pylist()} == {"LogAppendTime"}
    assert max(tables["a-0"]["sizeInBytes"].to_pylist()) <= 1000 < max(tables["b-0"]["sizeInBytes"].to_pylist())
    assert sum(tables["c-0"]["sizeInBytes"].to_pylist()) < sum(tables["b-0"]["sizeInBytes"].to_pylist())
    logs = sorted((tmp_path / "a-0").glob("*.log"))
    assert len(logs) > 3
    assert all(log.stat().st_size <= 20_000 for log in logs)
    batches = sum(tables["a-0"]["baseOffset"].to_pylist()[row] < int(logs[1].stem) for row in range(len(tables["a-0"])))
    assert logs[0].with_suffix(".index").stat().st_size == 8 * (batches - 1)


def test_tasks_that_share_a_partition_are_put_together_in_their_order(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(400, numPartitions=4).selectExpr("'t' as topic", "0 as partition", "cast(id as string) as value")
    save(df, tmp_path / "counted")
    records = pa.Table.from_batches(brokerless.open(tmp_path / "counted").records(["offset", "value"]))
    assert records["value"].to_pylist() == [b"%d" % number for number in range(400)]
    assert records["offset"].to_pylist() == list(range(400))
    given = df.selectExpr("*", "cast(2 * cast(value as long) + 50 as long) as offset")
    save(given.union(df.limit(0).selectExpr("*", "0L")), tmp_path / "given")
    assert offsets(tmp_path / "given") == {"t-0": list(range(50, 850, 2))}
    # What comes behind an end keeps its gap; what does not is refused, and so is what reaches into another task's.
    save(given.selectExpr("topic", "partition", "value", "offset + 1000 as offset"), tmp_path / "given")
    assert offsets(tmp_path / "given")["t-0"] == [*range(50, 850, 2), *range(1050, 1850, 2)]
    with pytest.raises(Exception, match=r"t-0: the first new record has offset 50, and the partition ends at 1849"):
        save(given, tmp_path / "given")
    mixed = given.selectExpr("topic", "partition", "value", "cast(cast(value as int) % 100 as long) + 5000 as offset")
    with pytest.raises(Exception, match=r"offsets 5000 to 5099, and another .* brokerless.spark.arrange\(df\)"):
        save(mixed, tmp_path / "given")
    assert len(offsets(tmp_path / "given")["t-0"]) == 800
    assert leftovers(tmp_path / "given") == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            "('t', 0, 5L, 'a'), ('t', 0, 4L, 'b')",
            "row 1 of it .*, topic t, partition 0, offset 4, column offset: is 4",
        ),
        ("('t', 0, 5L, 'a'), ('t', 0, 5L, 'b')", "column offset: is 5 and follows 5 in its partition; .*arrange"),
        (
            "('t', 0, 5L, 'a'), ('t', 0, null, 'b')",
            "row 1 of it .*, topic t, partition 0, column offset: is null.*; fill it in, or leave the column out: then",
        ),
        ("('t', 0, -5L, 'a')", "column offset: is -5, and offsets are not negative"),
        ("('t', 0, 0L, 'a'), (null, 0, 1L, 'b')", "row 1 of it .*, partition 0, offset 1, column topic: is null"),
        ("('t t', 0, 0L, 'a')", "column topic: 't t' is not a valid topic name"),
        (
            "('t', 0, 0L, 'a'), ('t', null, 1L, 'b')",
            "row 1 of it .*, topic t, offset 1, column partition: is null",
        ),
        ("('t', -1, 0L, 'a')", "column partition: is -1, which is not from 0"),
    ],
)
def test_rows_that_cannot_be_are_refused_with_their_place(
    spark: SparkSession, rows: str, message: str, tmp_path: Path
) -> None:
    df = spark.sql(f"select * from values {rows} as t(topic, partition, offset, value)").coalesce(1)
    with pytest.raises(PythonException, match=f"task 0, {message}" if message.startswith("row") else message):
        save(df, tmp_path / "log")
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("'a' as key", {"topic": "t", "partition": 0}, "there is no column 'value'"),
        ("'a' as value, 1 as ofset", {"topic": "t", "partition": 0}, "a record has no column 'ofset'"),
        ("'a' as value, 'b' as value", {"topic": "t", "partition": 0}, "two columns 'value'"),
        (
            "1 as value",
            {"topic": "t", "partition": 0},
            "column 'value' is of type int32; it has to be binary or string",
        ),
        ("'a' as value, '1' as offset", {"topic": "t", "partition": 0}, "column 'offset' is of type"),
        (
            "'a' as value, date'2020-01-01' as timestamp",
            {"topic": "t", "partition": 0},
            "column 'timestamp' is of type",
        ),
        ("'a' as value, array(1) as headers", {"topic": "t", "partition": 0}, "column 'headers' is of type"),
        ("'a' as value", {"partition": 0}, "there is no column 'topic'; say which topic it is .option topic"),
        ("'a' as value", {"topic": "t", "partitons": 3}, "there is no option 'partitons'; is 'partitions' meant?"),
    ],
)
def test_columns_and_options_are_checked_before_anything_runs(
    spark: SparkSession, columns: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(AnalysisException, match=re.escape(message).replace(r"\.option", ".option")):
        save(spark.sql(f"select {columns}"), tmp_path / "log", **options)
    assert not (tmp_path / "log").exists()


def test_modes_and_directories_that_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql("select 't' as topic, 0 as partition, 'a' as value")
    with pytest.raises(AnalysisException, match=r'mode\("overwrite"\) is not possible: a log is appended to'):
        df.write.format("brokerless").mode("overwrite").save(str(tmp_path / "log"))
    with pytest.raises(AnalysisException, match="no path: give save"):
        df.write.format("brokerless").mode("append").save()
    (tmp_path / "file").touch()
    with pytest.raises(AnalysisException, match="file: this is a file; give a directory"):
        save(df, tmp_path / "file")
    save(df, tmp_path / "log")
    with pytest.raises(AnalysisException, match="t-0: this is a partition; give the log directory that it is in"):
        save(df, tmp_path / "log" / "t-0")
    with (
        lock_directory(tmp_path / "log", exclusive=True),
        pytest.raises(AnalysisException, match="a broker, or another process that writes, is running"),
    ):
        save(df, tmp_path / "log")
    assert offsets(tmp_path / "log") == {"t-0": [0]}


def test_no_rows_make_a_log_directory_without_partitions(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql("select 't' as topic, 0 as partition, 'a' as value").where("value = 'b'")
    save(df, tmp_path / "log")
    save(df.repartition(3), tmp_path / "log")
    assert brokerless.open(tmp_path / "log").partitions == []
    assert spark.read.format("brokerless").load(str(tmp_path / "log")).count() == 0


LOCAL_TIMES = [
    "2024-01-01 00:00:00", "2024-07-01 00:00:00.123456", "2024-03-10 01:59:59.999", "2024-03-10 02:30:00",
    "2024-03-10 03:00:00", "2024-11-03 01:30:00", "2024-11-03 02:00:00", "2024-10-06 02:15:00", "2024-04-07 01:45:00",
    "2018-11-04 00:00:00", "1972-01-07 00:44:45", "2011-12-30 12:00:00", "2061-07-01 12:00:00", "9999-07-01 12:00:00",
    "12345-06-07 08:09:10",
]  # fmt: skip


def test_timestamps_without_a_zone_are_what_sparks_cast_makes_of_them(spark: SparkSession, tmp_path: Path) -> None:
    zones = ["America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]
    rows = ", ".join(f"('{each}')" for each in LOCAL_TIMES)
    seen: set[tuple[int, ...]] = set()
    try:
        for number, zone in enumerate(zones):
            spark.conf.set("spark.sql.session.timeZone", zone)
            df = spark.sql(f"select value, cast(value as timestamp_ntz) as timestamp from values {rows} as t(value)")
            expected = df.selectExpr("value", "unix_millis(cast(timestamp as timestamp)) as millis").collect()
            save(df, tmp_path / f"batch-{number}", topic="t", partition=0)
            if number == 0:
                df.write.parquet(str(tmp_path / "in"))
                stream = spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
                write = stream.writeStream.format("brokerless").trigger(availableNow=True)
                query = write.options(topic="t", partition=0, checkpointLocation=str(tmp_path / "checkpoint"))
                query.start(str(tmp_path / "stream")).awaitTermination()
            for name in [f"batch-{number}", *(["stream"] if number == 0 else [])]:
                table = brokerless.open(tmp_path / name).records(["value", "timestamp"]).read_all()
                millis = table["timestamp"].cast(pa.int64()).to_pylist()
                found = dict(zip((each.decode() for each in table["value"].to_pylist()), millis, strict=True))
                assert found == {row["value"]: row["millis"] for row in expected}
            seen.add(tuple(row["millis"] for row in expected))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert len(seen) == len(zones)


def test_names_of_columns_are_of_any_case(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql(
        "select 't' as Topic, 'a' as VALUE, 'k' as Key, timestamp_millis(7) as timestamp, 1 as timestamptype"
    )
    save(arrange(df, 2), tmp_path)
    columns = ["value", "key", "timestamp", "timestampType"]
    (row,) = [row for batch in brokerless.open(tmp_path).records(columns) for row in batch.to_pylist()]
    assert (row["value"], row["key"], row["timestampType"]) == (b"a", b"k", 1)
    with pytest.raises(AnalysisException, match="there are two columns 'value'"):
        save(spark.range(1).selectExpr("'a' as value", "'b' as Value"), tmp_path, topic="t", partition=0)


def test_a_task_that_ran_twice_counts_once(tmp_path: Path) -> None:
    """As with speculation: Spark takes one attempt's message; what the other one wrote is removed."""
    from pyspark.sql.types import StructType

    options = parse_sink_options({"path": str(tmp_path), "topic": "t", "partition": "0"})
    writer = Writer(options, StructType().add("value", "string"))
    rows = pa.record_batch({"value": [b"a", b"b"]})
    tmp_path.mkdir(exist_ok=True)
    first, second = writer.write(iter([rows])), writer.write(iter([rows]))
    other = Writer(options, StructType().add("value", "string")).write(iter([rows]))
    assert len(leftovers(tmp_path)) == 3
    assert first.staged != second.staged
    writer.commit([second])
    assert offsets(tmp_path) == {"t-0": [0, 1]}
    assert leftovers(tmp_path) == [each.directory for each in other.staged]  # another job's is its own business
    with pytest.raises(UsageError, match="not as it was written"):
        commit_written(options, [first], "whoever", None)
    assert offsets(tmp_path) == {"t-0": [0, 1]}
    assert errors(tmp_path) == []


@pytest.mark.slow(reason="writes 500 MB")
def test_a_task_and_a_commit_take_bounded_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.spark.sink_memory", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=240)
    before, task, commit = map(int, done.stdout.split())
    assert sum(path.stat().st_size for path in tmp_path.glob("*/*.log")) > 500 << 20
    assert max(task, commit) - before < 150, (before, task, commit)


def test_values_alone_go_to_one_partition_unless_the_topic_has_several(spark: SparkSession, tmp_path: Path) -> None:
    values = spark.range(10, numPartitions=3).selectExpr("cast(id as string) as value")
    save(values, tmp_path / "log", topic="t")
    save(values, tmp_path / "log", topic="t")
    (partition,) = brokerless.open(tmp_path / "log").partitions
    rows = [row for batch in partition.records(["offset", "value"]) for row in batch.to_pylist()]
    assert partition.topic_partition == ("t", 0)
    assert [row["offset"] for row in rows] == list(range(20))
    assert [int(row["value"]) for row in rows] == [*range(10), *range(10)]
    save(values, tmp_path / "log", topic="t", partition=1)
    with pytest.raises(AnalysisException, match="the topic has several; say how many partitions it has"):
        save(values, tmp_path / "log", topic="t")


def test_arranged_rows_are_of_one_partition_in_one_task(spark: SparkSession) -> None:
    rows = spark.range(500, numPartitions=5).selectExpr(
        "concat('topic-', id % 3) as topic", "cast(id % 4 as int) as partition", "499 - id as offset", "'v' as value"
    )
    placed = arrange(rows).selectExpr("*", "spark_partition_id() as task", "monotonically_increasing_id() as place")
    assert placed.select("topic", "partition", "task").distinct().count() == 12
    found = [row.offset for row in placed.where("topic = 'topic-1' and partition = 2").orderBy("place").collect()]
    assert found == sorted(found)
    assert len(found) > 40
    assert arrange(rows.drop("partition"), 7).columns == ["topic", "offset", "value", "partition"]
    with pytest.raises(UsageError, match="there is no column 'partition'; say how many partitions"):
        arrange(rows.drop("partition"))
    with pytest.raises(UsageError, match="partitions: 0 is not from 1"):
        arrange(rows, 0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB. Where none can be mounted, ``tests.spark.failed_sink`` has the same by another means."""
    directory = tmp_path / "disk"
    directory.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(directory)]
    if shutil.which("mount") is None or subprocess.run(line, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a file system")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def test_a_disk_that_is_full_is_the_reason_that_spark_reports(
    spark: SparkSession, small_disk: Path, tmp_path: Path
) -> None:
    to, options = small_disk / "logs", {"topic": "t", "partitions": "2"}
    few, many = (spark.range(count).selectExpr(f"rpad(id, {SIZE}, 'x') as value") for count in (100, 2500))
    save(few, to, **options)
    before = values(to)
    with pytest.raises(PySparkException, match=os.strerror(errno.ENOSPC)):
        save(many, to, **options)
    (tmp_path / "in").mkdir()
    many.write.parquet(str(tmp_path / "in" / "many"))
    stream = spark.readStream.schema(many.schema).parquet(str(tmp_path / "in" / "*")).writeStream.format("brokerless")
    query = stream.options(**options, checkpointLocation=str(tmp_path / "checkpoint")).trigger(availableNow=True)
    with pytest.raises(PySparkException, match=os.strerror(errno.ENOSPC)):
        query.start(str(to)).awaitTermination()
    assert (values(to), leftovers(to), errors(to)) == (before, [], [])
    save(few, to, **options)
    assert values(to) == before + before


def run_job(what: str, directory: Path) -> subprocess.Popen[bytes]:
    """``sink_job.py`` in a process group of its own, with the JVM and Python workers that it starts."""
    command = [sys.executable, "-m", "tests.spark.sink_job", what, str(directory)]
    return subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdout=subprocess.PIPE)


def test_a_failed_attempt_leaves_nothing_and_a_job_that_fails_neither(quick_spark: str, tmp_path: Path) -> None:
    """With three attempts for each task: the first of some fails in the middle; then all of one."""
    with run_job("fail", tmp_path) as job:
        out, _ = job.communicate(timeout=240)
    assert job.returncode == 0
    assert b"failed attempts left something: True" in out  # there was something to remove
    assert b"failed for good" in out
    assert values(tmp_path / "once") == Counter((b"%d " % number).ljust(SIZE, b"x") for number in range(ROWS))
    assert leftovers(tmp_path / "once") == errors(tmp_path / "once") == []
    assert not (tmp_path / "never").exists()


def test_a_killed_driver_leaves_nothing_that_is_seen_and_the_job_can_run_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    directory = tmp_path / "log"
    df = spark.sql("select 'old' as topic, 0 as partition, 'a' as value")
    save(df, directory)
    with run_job("wait", tmp_path) as job:
        try:
            until = time.monotonic() + 240
            while not any(log.stat().st_size for log in directory.glob("*-delete/*.log")):
                assert job.poll() is None
                assert time.monotonic() < until
                time.sleep(0.05)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
    assert leftovers(directory)
    assert offsets(directory) == {"old-0": [0]}
    save(df, directory)
    assert offsets(directory) == {"old-0": [0, 1]}
    assert errors(directory) == []
    shutil.rmtree(directory, ignore_errors=True)  # a worker of the killed driver may not have ended yet
