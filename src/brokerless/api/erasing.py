"""Erasing, as a method of a log and of a partition, by the options of ``brokerless erase``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from brokerless.api.jobs import bound
from brokerless.log.directory import LogDirectory
from brokerless.log.read_progress import ignore
from brokerless.log.storage.location import Location
from brokerless.tables.partition_reader import OnDamage

if TYPE_CHECKING:
    from brokerless.jobs.erase.job import ErasedPartition
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
    on_damage: OnDamage | None,
    spark: Spark = "none",
) -> list[ErasedPartition]:
    from brokerless.jobs.erase.blanking import blanking_of
    from brokerless.jobs.erase.copies import find_copies
    from brokerless.jobs.erase.job import Erasure, erase, plan, settle_targets
    from brokerless.jobs.erase.key_set import given_keys
    from brokerless.jobs.erase.recording import ManifestWriter, topic_fields
    from brokerless.jobs.erase.selection import Selection
    from brokerless.jobs.rewrite.plan import Source
    from brokerless.jobs.rewrite.reading import raise_damage
    from brokerless.tables.record_filter import given_header

    own_keys = None if keys is None else given_keys(keys)
    own_header = None if header is None else given_header(header)
    blanking = None
    if blank or blank_fields or schemas is not None or value_format != "auto":
        path = None if schemas is None else os.fspath(schemas)
        partitions = [each for directory in directories for each in directory.partitions]
        blanking = blanking_of(blank_fields, value_format, path, partitions)
    erasure = Erasure(Selection(own_keys, where, own_header), blanking, bound(max_batch_bytes), dry_run)
    sources = list(map(Source.all_of, directories))
    writer = None
    if manifest is not None and not dry_run:
        settle_targets(directories, to)
        writer = ManifestWriter(manifest, [each.path for each in directories], to, erasure, sign_key)
    finished = {} if writer is None else writer.finished
    planned = plan(sources, to, erasure, finished=finished, is_hashed=writer is not None)
    copies = [] if writer is None else find_copies(sources, erasure)
    write = ignore if writer is None else lambda partitions: writer.write(partitions, copies)
    results = erase(planned, on_damage or raise_damage, spark=spark, write_manifest=write, processes=1)
    if on_damage is not None:
        for each in topic_fields(results, writer):
            finding = each.finding()
            if finding is not None:
                on_damage(finding)
    if writer is not None:
        writer.complete([each.directory for each in planned.targets], copies)
    return results
