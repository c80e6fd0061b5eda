from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from brokerless.errors import UsageError
from brokerless.jobs.load.routing import Routing
from brokerless.log.config import LogConfig
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location
from brokerless.spark.sink_options import SinkOptions, parse_sink_options
from brokerless.tables.batcher import BatchSettings


def test_names_are_kafkas_in_any_case() -> None:
    given = {
        "Path": "file:///tmp/log",
        "topic": "Orders",
        "PARTITIONS": "12",
        "compression.type": "ZSTD",
        "compression.zstd.level": "-5",
        "compression.gzip.level": "9",
        "segment.bytes": "1048576",
        "segment.ms": "60000",
        "segment.index.bytes": "4096",
        "index.interval.bytes": "0",
        "batch.size": "0",
        "message.timestamp.type": "LogAppendTime",
        "message.format.version": "3.0-IV1",
        "checkpointLocation": "/tmp/checkpoint",
    }
    expected = SinkOptions(
        Destination(Location("/tmp/log")),
        Routing("Orders", partitions=12),
        BatchSettings("zstd", -5, 0, 2, "LogAppendTime"),
        LogConfig(1 << 20, 60_000, 4096, 0),
    )
    for names in (str, str.lower, str.upper):
        assert parse_sink_options({names(name): value for name, value in given.items()}) == expected


def test_without_any_they_are_kafkas_defaults() -> None:
    assert parse_sink_options({"path": "log"}) == SinkOptions(
        Destination(Location(str(Path("log").absolute()))), Routing(), BatchSettings(), LogConfig()
    )
    assert BatchSettings() == BatchSettings("none", None, 16384, 2, "CreateTime")


def test_what_was_said_to_a_broker_is_heard_or_passed_over() -> None:
    given = {"kafka.bootstrap.servers": "a:9092", "kafka.acks": "all", "kafka.compression.type": "lz4", "topic": "t"}
    options = parse_sink_options({"path": "log", "includeHeaders": "true", **given})
    assert options.settings.compression_type == "lz4"
    with pytest.raises(UsageError, match=r"compression.type: it is given twice, as 'lz4' and as 'gzip'"):
        parse_sink_options({"path": "log", "kafka.compression.type": "lz4", "compression.type": "gzip"})


@pytest.mark.parametrize(
    ("version", "magic"), [("0.8.2", 0), ("0.9.0", 0), ("0.10.2-IV0", 1), ("0.11.0", 2), ("1.0", 2), ("4.1", 2)]
)
def test_a_version_says_which_message_format(version: str, magic: int) -> None:
    assert parse_sink_options({"path": "log", "message.format.version": version}).settings.message_format == magic


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("path", "", "no path: give save"),
        ("path", "zip://log::s3://bucket/a.zip", "logs cannot be written into an archive"),
        ("storageOptions", "[1]", "option storageOptions: this is not a JSON object"),
        ("topic", "a b", "'a b' is not a valid topic name"),
        ("partition", "-1", "partition: -1 is not from 0"),
        ("partitions", "0", "partitions: 0 is not from 1"),
        ("partitions", "many", "option partitions: 'many' is not a whole number"),
        ("compression.type", "brotli", "'brotli' is none of none, gzip, snappy, lz4, zstd"),
        ("compression.type", "producer", "'producer' is none of none"),
        ("compression.gzip.level", "11", "gzip has no level 11; it has 1 to 9"),
        ("compression.lz4.level", "0", "lz4 has no level 0"),
        ("compression.zstd.level", "1.5", "option compression.zstd.level: '1.5' is not a whole number"),
        ("segment.bytes", "13", "segment_bytes: 13 is not in what Kafka allows"),
        ("segment.bytes", "1g", "option segment.bytes: '1g' is not a whole number"),
        ("segment.ms", "0", "segment_ms: 0 is not in what Kafka allows"),
        ("segment.index.bytes", "1", "segment_index_bytes: 1 is not in what Kafka allows"),
        ("index.interval.bytes", "-1", "index_interval_bytes: -1 is not in what Kafka allows"),
        ("batch.size", "-1", "a batch size is from 0"),
        ("message.timestamp.type", "CreatedTime", "there is no timestamp type 'CreatedTime'"),
        ("message.format.version", "v2", "'v2' is not a version of Kafka"),
        ("message.format.version", "0.7", "'0.7' is not a version of Kafka"),
        ("compresion.type", "lz4", "there is no option 'compresion.type'; is 'compression.type' meant?"),
        ("kafka.compression.typ", "lz4", "is 'compression.type' meant?"),
        ("retention.ms", "1", "there is no option 'retention.ms'; there are topic, partition"),
    ],
)
def test_what_cannot_be_is_refused(option: str, value: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_sink_options({"path": "log", option: value})


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no partition 3 among 3"):
        parse_sink_options({"path": "log", "partition": "3", "partitions": "3"})
    with pytest.raises(UsageError, match="zstd"):
        parse_sink_options({"path": "log", "compression.type": "zstd", "message.format.version": "0.10"})
    with pytest.raises(UsageError, match="v0 has no timestamps, so no LogAppendTime"):
        parse_sink_options({"path": "log", "message.timestamp.type": "LogAppendTime", "message.format.version": "0.9"})


@pytest.mark.parametrize("module", ["source", "sink"])
def test_what_plans_a_query_waits_for_no_kernels(module: str) -> None:
    """Spark starts a process to plan, and one to commit."""
    code = f"import sys, brokerless.spark.{module}; print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"
