"""Erasing, as a method of a log and of a partition, by the options of ``brokerless erase``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from brokerless.api.jobs import bound
from brokerless.errors import UsageError
from brokerless.log.directory import LogDirectory
from brokerless.log.storage.location import Location
from brokerless.progress import Report

if TYPE_CHECKING:
    from brokerless.jobs.erase.erased_logs import ErasedLogs
    from brokerless.jobs.run.types import Spark


def erase(
    directories: Sequence[LogDirectory],
    to: Location,
    *,
    keys: Iterable[bytes | str] | None,
    where: str | None,
    header: tuple[str, bytes | str] | None,
    blank: bool,
    blank_fields: Sequence[str],
    schemas: str | os.PathLike[str] | None,
    value_format: str,
    manifest: str | os.PathLike[str] | None,
    sign_key: str | os.PathLike[str] | None,
    dry_run: bool,
    max_batch_bytes: int | None,
    on_damage: Report | None,
    spark: Spark = "none",
) -> ErasedLogs:
    from brokerless.jobs.erase.blanking import blanking_of
    from brokerless.jobs.erase.erased_logs import ErasureRequest, erase_logs
    from brokerless.jobs.erase.job import Erasure
    from brokerless.jobs.erase.key_set import given_keys
    from brokerless.jobs.erase.selection import Selection
    from brokerless.jobs.rewrite.plan import Source
    from brokerless.jobs.rewrite.reading import raise_damage
    from brokerless.tables.record_filter import given_header

    if isinstance(blank_fields, str):
        raise UsageError(f"blank_fields: {blank_fields!r} is no list of fields; give [{blank_fields!r}]")
    if blank and blank_fields:
        raise UsageError("blank and blank_fields exclude each other; use one of them")
    own_keys = None if keys is None else given_keys(keys)
    own_header = None if header is None else given_header(header)
    blanking = None
    if blank or blank_fields or schemas is not None or value_format != "auto":
        path = None if schemas is None else os.fspath(schemas)
        partitions = [each for directory in directories for each in directory.partitions]
        blanking = blanking_of(blank_fields, value_format, path, partitions)
    erasure = Erasure(Selection(own_keys, where, own_header), blanking, bound(max_batch_bytes), dry_run)
    sources = list(map(Source.all_of, directories))
    request = ErasureRequest(sources, to, erasure, manifest=manifest, sign_key=sign_key)
    results = erase_logs(request, on_damage or raise_damage, spark=spark, processes=1)
    if on_damage is not None:
        for each in results.fields:
            finding = each.finding()
            if finding is not None:
                on_damage(finding)
    return results
