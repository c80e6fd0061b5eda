"""Requests of what reads a log, says what is in it, and changes nothing but, at most, which segments are left."""

from __future__ import annotations

import os
from collections.abc import Collection

from brokerless.clock import Time
from brokerless.kafka_names import COMPRESSION_TYPES
from brokerless.requests import shared
from brokerless.requests.option_types import (
    AMOUNT,
    ANY_SIZE,
    DIRECTORY,
    FLAG,
    MESSAGE_FORMATS,
    NAME_LIST,
    NUMBERS,
    PATH,
    PATH_LIST,
    PRICE,
    RECORD_COUNTS,
    SAMPLE,
    SIZES,
    TEXT,
    TIME,
    URL,
    Paths,
    Spark,
    several_of,
)
from brokerless.requests.options import given, request

_KAFKA = "3.9, 4.0, 4.1, 4.2, 4.3 or 4.4"


@request
class VerifyRequest:
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    spark: Spark = given(shared.SPARK, default="none")
    budget: int | None = given(AMOUNT, "verify at most so many bytes in this run, as 50GB; needs --state", default=None)
    state: str | os.PathLike[str] | None = given(
        DIRECTORY,
        "directory that records what was verified when, for --budget; not within a log directory",
        default=None,
    )


@request
class AuditRequest:
    kafka: str | None = given(
        TEXT, f"the version of Kafka whose start is predicted (default: the newest that starts): {_KAFKA}", "VERSION",
        default=None, kw_only=False,
    )  # fmt: skip
    log_dirs: Collection[str | os.PathLike[str]] = given(shared.LOG_DIRS, default=())
    price_per_gb: float | None = given(
        PRICE, "price of 10^9 bytes in the bucket for a month, to show costs; needs --remote, or a bucket to audit",
        default=None,
    )  # fmt: skip
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    spark: Spark = given(shared.SPARK, default="none")


@request
class RestartRequest:
    kafka: str | None = given(
        TEXT, f"the version of Kafka that starts (default: the newest, with what others refuse): {_KAFKA}", "VERSION",
        default=None, kw_only=False,
    )  # fmt: skip
    log_dirs: Collection[str | os.PathLike[str]] = given(shared.LOG_DIRS, default=())
    remote: Paths | None = given(shared.BUCKET, default=None)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)


@request
class SizeRequest:
    sample: float | None = given(
        SAMPLE, "bytes of each topic to read, or a share of it (default: 4 %, at most 4 MiB)", default=None
    )
    full: bool = given(FLAG, "read everything, for exact sizes: as slow as converting for each choice", default=False)
    message_formats: Collection[int] = given(
        MESSAGE_FORMATS,
        "a message format to compare (default: all); can be repeated",
        flag="--format",
        is_repeated=True,
        default=(),
    )
    codecs: Collection[str] = given(
        several_of(*COMPRESSION_TYPES), "a compression.type to compare (default: all); can be repeated",
        flag="--codec", is_repeated=True, default=(),
    )  # fmt: skip
    levels: Collection[int] = given(
        NUMBERS, "a compression level to compare (default: Kafka's, and a few more for v2); can be repeated", "N",
        flag="--level", is_repeated=True, default=(),
    )  # fmt: skip
    batch_sizes: Collection[int] = given(
        SIZES, "a batch.size to compare (default: 16KiB, 128KiB, 1MiB); can be repeated",
        flag="--batch-size", is_repeated=True, default=(),
    )  # fmt: skip
    batch_records: Collection[int] = given(
        RECORD_COUNTS, "a number of records in a batch to compare (default: 1, 10, 100, 1000); can be repeated",
        is_repeated=True, default=(),
    )  # fmt: skip
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    spark: Spark = given(shared.SPARK, default="none")


@request
class ReportRequest:
    to: str | os.PathLike[str] = given(
        PATH, "the page to write, such as report.html", flag="-o --output", kw_only=False
    )
    backup: str | os.PathLike[str] | None = given(
        URL, "a backup of this cluster, of which the last complete snapshot is shown", "URL", default=None
    )
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)


@request
class TrimRequest:
    free: int | str | None = given(ANY_SIZE, "bytes that are to become free, as 500MB or 20GiB", default=None)
    retention: bool = given(
        FLAG, "segments that a broker would delete now by retention.ms and retention.bytes of each topic", default=False
    )
    before: Time | None = given(TIME, "segments whose records are all before a time", default=None)
    topics: Collection[str] | None = given(NAME_LIST, "only these topics, by name", flag=None, default=None)
    log_dirs: Collection[str | os.PathLike[str]] = given(
        PATH_LIST, "another log directory of the same broker, for what it has of topics and groups; can be repeated",
        "DIRECTORY", flag="--log-dir", is_repeated=True, default=(),
    )  # fmt: skip
    apply: bool = given(FLAG, "remove the segments; without it, nothing is changed", default=False)
