"""Erases in log directories as a whole: the partitions, the manifest, places with copies, and replicas beside another.

This is all that ``brokerless erase`` does, so that Python does the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from brokerless.jobs.erase.copies import Copy, find_copies
from brokerless.jobs.erase.field_counts import TopicField
from brokerless.jobs.erase.job import ErasedPartition, Erasure, erase, plan, recover_targets
from brokerless.jobs.erase.recording import ManifestWriter, topic_fields
from brokerless.jobs.erase.replicas import ReplicaComparison, compare_replicas
from brokerless.jobs.rewrite.plan import Source
from brokerless.jobs.run.types import NONE, Spark
from brokerless.log.storage.location import Location
from brokerless.progress import Done, Report, Say, ignore
from brokerless.text import ShownList

Phase = Callable[[str, int | None], AbstractContextManager[Done]]
"""Begins a part of the work, of so many bytes if that is known."""


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """``named``: topics that the user has named, for Kafka's own are copied otherwise. ``manifest``: the path that a
    manifest is written to; ``sign_key``: the file with the key that signs it. Without a manifest, a run that was
    stopped is repeated from the start."""

    sources: Sequence[Source]
    to: Location
    erasure: Erasure
    named: Collection[str] = ()
    manifest: str | os.PathLike[str] | None = None
    sign_key: str | os.PathLike[str] | None = None


class ErasedLogs(ShownList[ErasedPartition]):
    """The partitions of an erasure, and what was found beside them.

    ``fields``: counts of the fields that were to be blanked, by topic. ``copies``: places that hold selected records,
    or may hold some. ``replicas``: comparisons of the replicas that were written. ``finished``: how many partitions an
    earlier run of the manifest had written.
    """

    fields: list[TopicField]
    copies: list[Copy]
    replicas: list[ReplicaComparison]
    finished: int


def erase_logs(
    request: ErasureRequest,
    report: Report,
    phase: Phase = lambda name, size: nullcontext(ignore),
    *,
    spark: Spark = NONE,
    say: Say = ignore,
    processes: int | None = None,
) -> ErasedLogs:
    """Erases, and writes the manifest if there is to be one.

    ``report`` is called with every finding of the partitions, before they are committed; what it raises ends the job.
    ``spark``, ``say``, ``processes``: as :func:`brokerless.jobs.run.job.run` takes them. Raises :class:`UsageError` for
    what cannot be written, UnreadableError, and UnwritableError.
    """
    sources, to, erasure, writer = request.sources, request.to, request.erasure, None
    if not erasure.dry_run:
        recover_targets([each.directory for each in sources], to)
        if request.manifest is not None:
            paths = [each.directory.path for each in sources]
            writer = ManifestWriter(request.manifest, paths, to, erasure=erasure, sign_key=request.sign_key)
    finished = {} if writer is None else writer.finished
    planned = plan(sources, to, erasure, request.named, finished, is_hashed=writer is not None)
    with phase("looking for copies", None) as done:
        copies = find_copies(sources, erasure, done, named=request.named)
    with phase("reading", planned.size) as done:
        write = ignore if writer is None else lambda partitions: writer.write(partitions, copies)
        results = ErasedLogs(
            erase(planned, report, done, spark=spark, say=say, write_manifest=write, processes=processes)
        )
    is_written = not erasure.dry_run and not any(each.damages for each in results)
    results.replicas = list(compare_replicas(results)) if is_written else []
    if writer is not None:
        writer.complete([each.directory for each in planned.targets], copies)
    results.copies, results.finished, results.fields = copies, len(finished), topic_fields(results, writer)
    return results
