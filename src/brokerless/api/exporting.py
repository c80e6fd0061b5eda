"""What `export` of a log does: new records as Parquet files, or as tables of Iceberg and Delta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from brokerless.errors import raise_errors
from brokerless.jobs.run.types import RunOptions
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.names import is_internal
from brokerless.log.storage.location import Location
from brokerless.requests.writing import ExportRequest
from brokerless.text import ShownList

if TYPE_CHECKING:
    from brokerless.jobs.export.job import ExportedPartition


def export(
    directory: LogDirectory, selected: Sequence[PartitionPath] | None, request: ExportRequest
) -> list[ExportedPartition]:
    from brokerless.jobs.export.job import export, plan
    from brokerless.jobs.export.plan import plan_topics
    from brokerless.jobs.export.tasks import settings_of

    settings, on_damage = settings_of(request), request.on_damage
    to = None if request.to is None else Location.of(request.to, request.storage_options)
    is_whole = selected is None and directory.kind == "log-directory"
    partitions = directory.partitions if selected is None else selected
    partitions = [each for each in partitions if not (is_whole and is_internal(each.topic))]
    paths = [directory.path]
    if on_damage is None:
        planned = plan(partitions, paths, to, settings)
    else:
        planned = plan_topics(partitions, paths, to, export=settings, report=on_damage)
    return ShownList(export(planned, on_damage or raise_errors, RunOptions(spark=request.spark, processes=1)))
