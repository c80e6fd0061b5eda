"""Makes logs of several replicas (``brokerless.merge``), and of bytes of any content (``brokerless.carve``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless.api.jobs import list_paths, open_logs, sources_of
from brokerless.jobs.run.types import RunOptions
from brokerless.progress import ignore
from brokerless.requests.options import asks
from brokerless.requests.recovery import CarveRequest, MergeRequest
from brokerless.text import ShownList

if TYPE_CHECKING:
    from brokerless.jobs.merge.job import MergeResult
    from brokerless.jobs.salvage.carve import Carved

_NO_PATHS = "give at least one path"


@asks(MergeRequest)
def merge(request: MergeRequest) -> list[MergeResult]:
    """Combine the replicas of each partition, from several brokers' disks, into one log, as ``brokerless merge``.

    The sources are never written to, and offsets never change.

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

    logs = open_logs(request.paths, _NO_PATHS, request.storage_options, request.include)
    sources = sources_of(logs, request.topics)
    return ShownList(
        merge(
            plan(sources, request.to, Merge.of(request)),
            request.on_damage or ignore,
            RunOptions(request.done, request.spark, processes=1),
        )
    )


@asks(CarveRequest)
def carve(request: CarveRequest) -> list[Carved]:
    """Extract batches from files of any content, such as the image of a disk, as ``brokerless carve``.

    The sources are never written to. Batches become partitions ``carved-N`` of a log directory, or Parquet files.

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
    from brokerless.jobs.salvage.carve import carve, carvings_of, check

    carvings = carvings_of(request, list_paths(request.paths, _NO_PATHS))
    for each in carvings:
        open_lone(each.location).close()  # one that is not there is a mistake, not damage
    check(carvings)
    return ShownList(carve(carvings, request.on_damage or ignore, request.done))
