"""What `export` of a log does: new records as Parquet files, or as tables of Iceberg and Delta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from brokerless.api.jobs import bound
from brokerless.errors import raise_errors
from brokerless.kafka_names import Isolation
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.names import is_internal
from brokerless.log.storage.location import Location
from brokerless.progress import Report
from brokerless.text import ShownList

if TYPE_CHECKING:
    from brokerless.jobs.export.job import ExportedPartition
    from brokerless.jobs.export.tasks import ExportForm
    from brokerless.jobs.run.types import Spark
    from brokerless.table_formats.catalog import Catalog
    from brokerless.typed.topic_type import Decoding


def export(
    directory: LogDirectory,
    selected: Sequence[PartitionPath] | None,
    to: Location | None,
    *,
    as_: ExportForm = "parquet",
    catalog: Catalog | str | None = None,
    by_date: bool,
    isolation: Isolation,
    compression: str,
    file_bytes: int | None,
    allow_removed: bool,
    dry_run: bool,
    max_batch_bytes: int | None,
    on_damage: Report | None,
    decode: Decoding | str | bool | None = None,
    spark: Spark = "none",
) -> list[ExportedPartition]:
    from brokerless.jobs.export.job import Export, export, plan
    from brokerless.jobs.export.plan import plan_topics
    from brokerless.table_formats.catalog import Catalog
    from brokerless.table_formats.parquet_files import FILE_BYTES
    from brokerless.typed.topic_type import decoding_of

    bytes_ = bound(max_batch_bytes)
    parquet_bytes, typed = file_bytes or FILE_BYTES, decoding_of(decode)
    own_catalog = catalog if isinstance(catalog, Catalog) else Catalog(catalog)
    settings = Export(
        by_date,
        isolation,
        compression,
        file_bytes=parquet_bytes,
        max_batch_bytes=bytes_,
        dry_run=dry_run,
        allow_removed=allow_removed,
        decoding=typed,
        form=as_,
        catalog=own_catalog,
    )
    is_whole = selected is None and directory.kind == "log-directory"
    partitions = directory.partitions if selected is None else selected
    partitions = [each for each in partitions if not (is_whole and is_internal(each.topic))]
    paths = [directory.path]
    if on_damage is None:
        planned = plan(partitions, paths, to, settings)
    else:
        planned = plan_topics(partitions, paths, to, export=settings, report=on_damage)
    return ShownList(export(planned, on_damage or raise_errors, spark=spark, processes=1))
