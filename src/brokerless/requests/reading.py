"""Requests of what reads a log: how it is opened, and its tables."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from brokerless.clock import Time
from brokerless.kafka_names import Isolation
from brokerless.log.names import Include
from brokerless.log.storage.paths import StorageOptions
from brokerless.progress import Done, Report, ignore
from brokerless.requests import shared
from brokerless.requests.option_types import (
    COUNT,
    DECODE,
    DECODING,
    FILTER,
    FLAG,
    FUNCTION,
    NAME_LIST,
    NAMES,
    NUMBER,
    ONE_PATH,
    PATH,
    PATHS,
    SIZE,
    TEXT,
    TIME,
    Paths,
)
from brokerless.requests.options import Option, given, request

if TYPE_CHECKING:
    from brokerless.tables.record_filter import RecordFilter
    from brokerless.typed.records import Decode
    from brokerless.typed.topic_type import Decoding

TableName = Literal[
    "records", "batches", "segments", "transactions", "groups", "offsets", "lag", "topics", "findings",
    "mirrorOffsetSyncs", "mirrorCheckpoints", "connectOffsets", "connectConfigs", "connectStatus",
]  # fmt: skip

COLUMNS = Option(NAME_LIST, "the columns to read, in this order; all by default", flag=None)
TOPICS = Option(NAMES, "only topics with these names or patterns, such as click*", flag=None)
ON_DAMAGE = Option(
    FUNCTION, "called with each Finding, and reading goes on; without it, the first error is raised", flag=None
)
CONTROL = Option(FLAG, "also read control records; not with read_committed")
PRUNE = Option(
    FLAG,
    "skip batches by the timestamps in headers and time indexes, as Kafka does. Where one of these is too small "
    "(kind timestamp-above-header), only False yields all records of a range of times",
    flag=None,
)


@request
class OpenRequest:
    path: str | os.PathLike[str] = given(
        ONE_PATH,
        "a local path, or a URL that fsspec knows (s3://...). It may also be a bucket of tiered storage, a directory "
        "in one, or a snapshot of a backup (URL@SNAPSHOT)",
        flag=None,
        kw_only=False,
    )
    include: Collection[Include] | Include = given(
        NAMES,
        "also read what a broker does not serve. deleted: records before the log start offset that are still in the "
        "files (a lone file is always read with them). future, delete, stray: partitions in directories of these kinds",
        flag=None,
        default=(),
    )
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)
    key_pairs: Mapping[str, str | os.PathLike[str]] | None = given(shared.KEY_PAIR, default=None)
    layout: str | None = given(
        TEXT,
        "how copies of segments are named in a bucket, such as {topic}/{partition}/{offset}-*.log",
        flag=None,
        default=None,
    )
    remote: Paths | None = given(
        PATHS, "the bucket with the remote segments of the log: both are read as one", flag=None, default=None
    )
    as_it_lies: bool = given(
        FLAG,
        "read the files as they are now; by default, an interrupted compaction is read as the next start of a broker "
        "completes it",
        flag=None,
        default=False,
    )


@request
class RecordsRequest:
    columns: Sequence[str] | None = given(COLUMNS, default=None, kw_only=False)
    topics: Iterable[str] | str | None = given(TOPICS, default=None)
    start_offset: int | None = given(NUMBER, "the first offset that is read of each partition", flag=None, default=None)
    end_offset: int | None = given(NUMBER, "the first offset that is not read", flag=None, default=None)
    start_timestamp: Time | None = given(TIME, "only records of this time or later", flag=None, default=None)
    end_timestamp: Time | None = given(TIME, "only records before this time", flag=None, default=None)
    prune: bool = given(PRUNE, default=True)
    isolation: Isolation = given(shared.ISOLATION, default="read_uncommitted")
    control: bool = given(CONTROL, default=False)
    filter: RecordFilter | None = given(
        FILTER,
        "only records that it selects, yielded as they are found. Batches that cannot have any are not decoded: of "
        "these, only damage that the checksum shows is found",
        flag=None,
        default=None,
    )
    limit: int | None = given(
        COUNT, "at most so many records of all partitions together; reading ends there", flag=None, default=None
    )
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    on_damage: Report | None = given(
        FUNCTION,
        "called with each Finding after the records that could be read before it, and reading goes on; without it, the "
        "first error is raised",
        flag=None,
        default=None,
    )
    done: Done = given(shared.DONE, default=ignore)
    decode: Decode = given(
        DECODE,
        "decode keys and values to the topic's types; several topics need the same types. The selected records are "
        "read twice, first for the schemas that they name. Four columns are added: keyRaw and valueRaw with bytes "
        "that could not be decoded, keyError and valueError with the reasons. At the end, on_damage gets a warning "
        "with their number. A TopicType is used unchanged",
        flag=None,
        default=None,
    )
    jobs: int | None = given(
        NUMBER,
        "threads that decode in parallel (1: only the caller's); by default one for each processor if there is much "
        "to read. Records and their order do not depend on it; the ends of record batches may",
        flag=None,
        default=None,
    )


@request
class BatchesRequest:
    columns: Sequence[str] | None = given(COLUMNS, default=None, kw_only=False)
    topics: Iterable[str] | str | None = given(TOPICS, default=None)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    on_damage: Report | None = given(
        FUNCTION,
        "called with each Finding; a batch whose checksum is wrong is listed all the same",
        flag=None,
        default=None,
    )
    done: Done = given(shared.DONE, default=ignore)


@request
class SegmentsRequest:
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    on_damage: Report | None = given(ON_DAMAGE, default=None)


@request
class TransactionsRequest:
    topics: Iterable[str] | str | None = given(TOPICS, default=None)
    on_damage: Report | None = given(ON_DAMAGE, default=None)


@request
class DatasetRequest:
    table: TableName | str = given(
        TEXT,
        "a table's name, such as records or batches, or that of a topic, whose keys and values are typed as in sql",
        flag=None,
        kw_only=False,
    )
    isolation: Isolation = given(shared.ISOLATION, default="read_uncommitted")
    control: bool = given(CONTROL, default=False)
    prune: bool = given(PRUNE, default=True)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    on_damage: Report | None = given(ON_DAMAGE, default=None)


@request
class SqlRequest:
    query: str = given(TEXT, "a statement of DuckDB's SQL that has a result", flag=None, kw_only=False)
    memory_limit: int | None = given(
        SIZE, "memory that DuckDB may take before it spills to disk (default: 2GiB)", default=None
    )
    schemas: str | os.PathLike[str] | None = given(
        PATH,
        "where the schemas for the views of topics are; by default in the topic _schemas of the same log",
        flag=None,
        default=None,
    )
    isolation: Isolation = given(shared.ISOLATION, default="read_uncommitted")
    control: bool = given(CONTROL, default=False)
    prune: bool = given(PRUNE, default=True)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    on_damage: Report | None = given(ON_DAMAGE, default=None)


@request
class SchemaRequest:
    decode: Decoding | None = given(
        DECODING,
        "where the schemas are, and the formats of keys and values",
        flag=None,
        default=None,
        kw_only=False,
    )
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)


@request
class ExplainRequest:
    offset: int | None = given(
        COUNT, "the batch that has this offset, or the next one; the first by default", default=None
    )
    records: int | None = given(
        COUNT,
        "how many records are explained field by field (default: 100); all others are one field together",
        default=None,
    )
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)


@request
class OffsetForTimestampRequest:
    timestamp: Time = given(TIME, "the time", flag=None, kw_only=False)
    isolation: Isolation = given(shared.ISOLATION, default="read_uncommitted")
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)


@request
class TopicRequest:
    name: str = given(TEXT, "the topic's name", flag=None, kw_only=False)


@request
class PartitionRequest:
    topic: str = given(TEXT, "the name of its topic", flag=None, kw_only=False)
    partition: int = given(COUNT, "the partition's number", flag=None, kw_only=False)
