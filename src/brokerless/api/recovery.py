"""Makes logs of several replicas (``brokerless.merge``), and of bytes of any content (``brokerless.carve``)."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

from brokerless.api.jobs import Paths, bound, list_paths
from brokerless.clusters.listing import open_directory
from brokerless.errors import UsageError
from brokerless.log.config import LogConfig
from brokerless.log.names import Include
from brokerless.log.storage.location import Location, StorageOptions
from brokerless.progress import Done, Report, ignore
from brokerless.tables.arguments import checked
from brokerless.text import ShownList

if TYPE_CHECKING:
    from brokerless.jobs.merge.job import MergeResult
    from brokerless.jobs.run.types import Spark
    from brokerless.jobs.salvage.carve import Carved

_NO_PATHS = "give at least one path"


@checked
def merge(
    paths: Paths,
    to: str | os.PathLike[str],
    *,
    topics: Collection[str] | None = None,
    committed_only: bool = False,
    segment_bytes: int | None = None,
    dry_run: bool = False,
    include: Collection[Include] | Include = (),
    max_batch_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
    on_damage: Report | None = None,
    done: Done = ignore,
    spark: Spark = "none",
) -> list[MergeResult]:
    """Combine the replicas of each partition, from several brokers' disks, into one log, as ``brokerless merge``.

    The sources are never written to, and offsets never change.

    Parameters
    ----------
    paths : path or list of paths
        Log directories or partitions' directories, one for each replica.
    to : path or URL
        The log directory that is written.
    topics : collection of str, optional
        Of these topics alone.
    committed_only : bool, default False
        Leave out what is not known to be committed.
    segment_bytes : int, optional
        Where segments end (1 GiB).
    dry_run : bool, default False
        Read and compare everything, and write nothing.
    include, storage_options
        As :func:`open` takes them, of ``paths``.
    max_batch_bytes : int, optional
        Bytes that one batch may inflate to (128 MiB).
    on_damage : callable, optional
        Called with each :class:`Finding`.
    done : callable, optional
        Called with the bytes that were read or written since the last call.
    spark : str, SparkSession or SparkContext, default "none"
        A session to run on, or a master such as ``"local[4]"`` for which one is started; a partition is a task. By
        default this process does it all.

    Returns
    -------
    list of MergeResult
        For each partition, ``is_whole``, ``losses``, ``divergences`` and ``contributions``.

    Raises
    ------
    UsageError, UnreadableError, UnwritableError
        For what cannot be read or written; nothing is written then.

    Examples
    --------
    >>> import brokerless
    >>> merged = brokerless.merge(["demo/data"], "/tmp/merged", topics=["orders"], dry_run=True)
    >>> [each.is_whole for each in merged]
    [True, True, True]
    """
    from brokerless.jobs.merge.job import Merge, merge, plan
    from brokerless.jobs.rewrite.plan import Source

    logs = [open_directory(Location(path, storage_options), include) for path in list_paths(paths, _NO_PATHS)]
    there = {each.topic for log in logs for each in log.partitions}
    missing = sorted(set(topics or ()) - there)
    if missing:
        raise UsageError(f"there is no topic {missing[0]!r}; topics: {', '.join(sorted(filter(None, there)))}")
    settings = Merge(_config(segment_bytes), bound(max_batch_bytes), dry_run, committed_only)
    sources = [Source(log, [each for each in log.partitions if topics is None or each.topic in topics]) for log in logs]
    return ShownList(merge(plan(sources, to, settings), on_damage or ignore, done, spark=spark, processes=1))


@checked
def carve(
    paths: Paths,
    to: str | os.PathLike[str],
    *,
    as_: Literal["segments", "parquet"] = "segments",
    segment_bytes: int | None = None,
    dry_run: bool = False,
    max_batch_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
    on_damage: Report | None = None,
    done: Done = ignore,
) -> list[Carved]:
    """Extract batches from files of any content, such as the image of a disk, as ``brokerless carve``.

    The sources are never written to. Batches become partitions ``carved-N`` of a log directory, or Parquet files.

    Parameters
    ----------
    paths : path or list of paths
        Files, local or URLs.
    to : path
        The log directory, or directory of tables, that is written.
    as_ : {"segments", "parquet"}
        Logs, or Parquet files.
    segment_bytes : int, optional
        Where segments end (1 GiB).
    dry_run : bool, default False
        Read and report everything, and write nothing.
    max_batch_bytes : int, optional
        Bytes that one batch may inflate to (128 MiB).
    storage_options : dict, optional
        fsspec's options of ``paths`` that are URLs.
    on_damage : callable, optional
        Called with each :class:`Finding`.
    done : callable, optional
        Called with the bytes that were read since the last call.

    Returns
    -------
    list of Carved
        For each group of batches, ``partition``, its number, and ``runs``, where in the file they are.

    Raises
    ------
    UsageError, UnreadableError, UnwritableError
        For what cannot be read or written.
    """
    from brokerless.jobs.recovered.open_files import open_lone
    from brokerless.jobs.salvage.carve import Carving, carve, carve_directory, check

    if as_ == "parquet" and segment_bytes is not None:
        raise UsageError("segment_bytes does not apply to as_='parquet'; use one of them")
    files = list_paths(paths, _NO_PATHS)
    directory, config, is_parquet = carve_directory(Location.of(to), files), _config(segment_bytes), as_ == "parquet"
    carvings = [
        Carving(
            Location(path, storage_options),
            directory,
            config,
            max_batch_bytes=bound(max_batch_bytes),
            dry_run=dry_run,
            parquet=is_parquet,
        )
        for path in files
    ]
    for each in carvings:
        open_lone(each.location).close()  # one that is not there is a mistake, not damage
    check(carvings)
    return ShownList(carve(carvings, on_damage or ignore, done))


def _config(segment_bytes: int | None) -> LogConfig:
    return LogConfig() if segment_bytes is None else LogConfig(segment_bytes=segment_bytes)
