"""Requests of what writes a log, or tables, from others."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from brokerless.clock import TIME as TIME_TEXT
from brokerless.clock import Time
from brokerless.kafka_names import COMPRESSION_TYPES, Isolation
from brokerless.log.names import Include
from brokerless.log.storage.location import StorageOptions
from brokerless.progress import Report
from brokerless.requests import shared
from brokerless.requests.option_types import (
    CATALOG,
    COUNT,
    FIELDS,
    FLAG,
    FUNCTION,
    HEADER,
    KEY_PAIRS,
    KEYS,
    MESSAGE_FORMAT,
    NAME_LIST,
    PATH,
    PATHS,
    SIZE,
    SIZE_OR_0,
    TEXT,
    TIME,
    URL,
    OpenedLog,
    Paths,
    Spark,
    name_of,
    one_of,
)
from brokerless.requests.options import Option, given, request

if TYPE_CHECKING:
    from brokerless.table_formats.catalog import Catalog
    from brokerless.typed.topic_type import Decoding

KEYS_TO_ERASE = Option(KEYS, "erase records with one of these keys, bytes or texts (UTF-8)", flag=None)
WHERE_TO_ERASE = Option(
    TEXT,
    "erase records for which this condition holds: DuckDB's SQL on the columns of the table of records, key_text, "
    "value_text, key_json and value_json (needs the extra erase)",
    "SQL",
)
HEADER_TO_ERASE = Option(HEADER, "erase records with this header", flag=None)
ERASURE_MANIFEST = Option(
    PATH,
    "file for the manifest, which prove checks, and by which a stopped run continues (default of the command "
    "line: DIRECTORY.erasure.json; a backup has none)",
)
SIGN_KEY = Option(PATH, "sign the manifest with this Ed25519 key (PEM; needs the extra erase)")

ExportForm = Literal["parquet", "iceberg", "delta"]


@request
class SalvageRequest:
    to: str | os.PathLike[str] = given(shared.TO, kw_only=False)
    others: Sequence[OpenedLog] | OpenedLog = given(shared.OTHERS, default=())
    as_: Literal["segments", "parquet"] = given(shared.SEGMENTS_OR_PARQUET, default="segments")
    segment_bytes: int | None = given(shared.SEGMENT_BYTES, default=None)
    partial: bool = given(
        FLAG,
        "from v2 batches that break off although their checksum is right, take the records before the break",
        default=False,
    )
    dry_run: bool = given(shared.DRY_RUN, default=False)
    include: Collection[Include] = given(
        NAME_LIST, "also read files that wait for their deletion (.deleted)", flag=None, default=()
    )
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)
    on_damage: Report | None = given(shared.ON_LOSS, default=None)
    spark: Spark = given(shared.SPARK, default="none")


@request
class ConvertRequest:
    to: str | os.PathLike[str] = given(shared.TO, kw_only=False)
    others: Sequence[OpenedLog] | OpenedLog = given(shared.OTHERS, default=())
    message_format: int | None = given(
        MESSAGE_FORMAT, "message format (default: unchanged)", flag="--format", default=None
    )
    codec: str | None = given(
        name_of(*COMPRESSION_TYPES),
        "compression.type of the batches (default: unchanged; zstd becomes gzip in v0 and v1)",
        default=None,
    )
    level: int | None = given(shared.LEVEL, default=None)
    batch_size: int | None = given(
        SIZE_OR_0,
        "pack records into batches as a producer with this batch.size does (default: batches stay unchanged)",
        default=None,
    )
    segment_bytes: int | None = given(shared.SEGMENT_BYTES, default=None)
    isolation: Isolation = given(shared.ISOLATION, default="read_uncommitted")
    dry_run: bool = given(shared.DRY_RUN, default=False)
    manifest: str | os.PathLike[str] | None = given(shared.MANIFEST, default=None)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)
    on_damage: Report | None = given(shared.ON_DAMAGE, default=None)
    spark: Spark = given(shared.SPARK, default="none")


@request
class UploadRequest:
    to: str | os.PathLike[str] = given(shared.TO, kw_only=False)
    others: Sequence[OpenedLog] | OpenedLog = given(shared.OTHERS, default=())
    compress: bool = given(
        FLAG, "with --tiered: compress (zstd) segments whose first batch is not compressed", default=False
    )
    public_keys: Mapping[str, str | os.PathLike[str]] | None = given(
        KEY_PAIRS,
        "with --tiered: encrypt the segments for this key pair of the plugin: its public key (RSA, PEM), by its name",
        flag="--public-key",
        is_repeated=True,
        default=None,
    )
    segment_bytes: int | None = given(shared.SEGMENT_BYTES, default=None)
    dry_run: bool = given(shared.DRY_RUN, default=False)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)
    on_damage: Report | None = given(shared.ON_DAMAGE, default=None)
    spark: Spark = given(shared.SPARK, default="none")


@request
class EraseRequest:
    to: str | os.PathLike[str] = given(shared.TO, kw_only=False)
    others: Sequence[OpenedLog] | OpenedLog = given(shared.OTHERS, default=())
    keys: Iterable[bytes | str] | None = given(KEYS_TO_ERASE, default=None)
    where: str | None = given(WHERE_TO_ERASE, default=None)
    header: tuple[str, bytes | str] | None = given(HEADER_TO_ERASE, default=None)
    blank: bool = given(
        FLAG,
        "keep the selected records, but make their values null (a tombstone in a compacted topic)",
        flag=None,
        default=False,
    )
    blank_fields: Sequence[str] = given(
        FIELDS,
        "keep the selected records, but make these fields of their values null, such as name,address.street (a dot or "
        "comma within a name is written \\. or \\,). For values in JSON, and in Avro, Protobuf and JSON Schema with "
        "their schemas",
        default=(),
    )
    schemas: str | os.PathLike[str] | None = given(
        URL,
        "where the values' schemas are: a log directory with the topic _schemas, JSON Lines of that topic, or a "
        "directory of .avsc, .proto and .json files (default: the topic _schemas beside the logs)",
        "PATH",
        default=None,
    )
    value_format: str = given(
        TEXT,
        "what values are: auto, schema, avro, protobuf, protobuf-deprecated, json-schema, json, connect-json "
        "(default: auto)",
        "FORMAT",
        default="auto",
    )
    manifest: str | os.PathLike[str] | None = given(ERASURE_MANIFEST, default=None)
    sign_key: str | os.PathLike[str] | None = given(SIGN_KEY, default=None)
    dry_run: bool = given(shared.DRY_RUN, default=False)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)
    on_damage: Report | None = given(shared.ON_DAMAGE, default=None)
    spark: Spark = given(shared.SPARK, default="none")


@request
class CompactRequest:
    to: str | os.PathLike[str] | None = given(shared.TO, default=None, kw_only=False)
    others: Sequence[OpenedLog] | OpenedLog = given(shared.OTHERS, default=())
    topics: Collection[str] = given(NAME_LIST, "topics to compact whatever their cleanup.policy", flag=None, default=())
    dry_run: bool = given(
        FLAG, "only report what would be left; write nothing", flag="--dry-run --what-if", default=False
    )
    what_if: bool = given(FLAG, "another name of --dry-run", flag=None, default=False)
    delete_retention_ms: int | None = given(
        COUNT, "delete.retention.ms (default: the topic's, or a day)", "MS", default=None
    )
    min_compaction_lag_ms: int | None = given(
        COUNT, "min.compaction.lag.ms (default: the topic's, or 0)", "MS", default=None
    )
    segment_bytes: int | None = given(SIZE, "segment.bytes, up to which small segments are joined", default=None)
    now: Time | None = given(TIME, f"the time for delete horizons and lags, {TIME_TEXT} (default: now)", default=None)
    keep_active: bool = given(FLAG, "leave the last segment alone, as a running broker does", default=False)
    from_start: bool = given(FLAG, "ignore cleaner-offset-checkpoint: clean all of the log again", default=False)
    kafka: Literal["3.9", "4.4"] = given(
        one_of("3.9", "4.4"),
        "version of Kafka whose rules hold: 4.4 (the default) makes v2 of v0 and v1, 3.9 keeps these formats",
        default="4.4",
    )  # fmt: skip
    key_memory: int | None = given(
        SIZE, "memory for keys, 32 bytes each; where it is not enough, keys are read again (default: 256MB)",
        default=None,
    )  # fmt: skip
    top: int = given(COUNT, "with --dry-run: list so many keys with the most records (default: 10)", default=10)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)
    on_damage: Report | None = given(shared.ON_DAMAGE, default=None)
    spark: Spark = given(shared.SPARK, default="none")


@request
class ExportRequest:
    to: str | os.PathLike[str] | None = given(shared.TO_OR_CATALOG, kw_only=False)
    as_: ExportForm = given(
        one_of("parquet", "iceberg", "delta"),
        "what to write: Parquet files (the default), or a table of Iceberg or Delta for each topic",
        default="parquet",
    )
    catalog: Catalog | str | None = given(
        CATALOG,
        "Iceberg's catalogue, by its name for pyiceberg (default: SQLite in DIRECTORY/catalog.db)",
        "NAME",
        default=None,
    )
    by_date: bool = given(FLAG, "a directory for each date of the records' timestamps (UTC) as well", default=False)
    isolation: Isolation = given(shared.ISOLATION, default="read_uncommitted")
    compression: str = given(
        name_of(*COMPRESSION_TYPES), "compression within the Parquet files (default: zstd)", default="zstd"
    )
    file_bytes: int | None = given(SIZE, "about how large a file may get (default: 256MiB)", default=None)
    allow_removed: bool = given(
        FLAG, "accept that files of earlier runs were removed on purpose; else they are reported as missing",
        default=False,
    )  # fmt: skip
    decode: Decoding | str | bool | None = given(shared.DECODE, default=None)
    dry_run: bool = given(shared.DRY_RUN, default=False)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)
    on_damage: Report | None = given(shared.ON_DAMAGE, default=None)
    spark: Spark = given(shared.SPARK, default="none")


@request
class PipelineRequest:
    path: Paths = given(PATHS, "log directories", flag=None, default=(), kw_only=False)
    to: str | os.PathLike[str] | None = given(
        URL, "the directory of the tables", flag=None, default=None, kw_only=False
    )
    settings: str | os.PathLike[str] | None = given(
        PATH, "a YAML file with all other settings; arguments have precedence", flag=None, default=None
    )
    on_finding: Report | None = given(
        FUNCTION, "called with each finding that no run has found before", flag=None, default=None
    )
    spark: Spark = given(shared.SPARK, default="none")
