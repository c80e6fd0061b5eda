"""Erases whole log directories: their partitions, the manifest, places with copies, and the comparison of replicas.

This is all that ``brokerless erase`` does, so that Python does the same.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from brokerless.errors import UsageError
from brokerless.jobs.erase.blanking import blanking_of
from brokerless.jobs.erase.copies import Copy, find_copies
from brokerless.jobs.erase.field_counts import TopicField
from brokerless.jobs.erase.job import ErasedPartition, Erasure, erase, plan, recover_targets
from brokerless.jobs.erase.recording import ManifestWriter, topic_fields
from brokerless.jobs.erase.replicas import ReplicaComparison, compare_replicas
from brokerless.jobs.erase.selection import selected_by
from brokerless.jobs.rewrite.plan import Source
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.log.directory import PartitionPath
from brokerless.log.storage.location import Location
from brokerless.progress import Phase, Report, ignore, no_phase
from brokerless.requests.writing import EraseRequest
from brokerless.tables.read_options import bound
from brokerless.text import ShownList


class ErasedLogs(ShownList[ErasedPartition]):
    """The partitions of an erasure, and what was found next to them."""

    fields: list[TopicField]
    """Counts of the fields that were to be blanked, by topic."""
    copies: list[Copy]
    """Places that hold selected records, or may hold some."""
    replicas: list[ReplicaComparison]
    """Comparisons of the replicas that were written."""
    finished: int
    """How many partitions an earlier run of the manifest had written."""


def erase_logs(
    sources: Sequence[Source],
    request: EraseRequest,
    report: Report,
    phase: Phase = no_phase,
    *,
    named: Collection[str] = (),
    running: RunOptions = HERE,
) -> ErasedLogs:
    """Erases, and writes the manifest if there is to be one: without it, a run that was stopped is repeated.

    ``named``: topics that the user has named, for Kafka's own are copied otherwise. ``report`` is called with every
    finding of the partitions, before they are committed; what it raises ends the job. ``running``:
    but for ``done``, which is that of a phase. Raises :class:`UsageError` for what cannot be written or excludes each
    other, UnreadableError, and UnwritableError.
    """
    to, writer = Location.of(request.to, request.storage_options), None
    erasure = _erasure(request, [each for source in sources for each in source.partitions])
    if not erasure.dry_run:
        recover_targets([each.directory for each in sources], to)
        if request.manifest is not None:
            paths = [each.directory.path for each in sources]
            writer = ManifestWriter(request.manifest, paths, to, erasure=erasure, sign_key=request.sign_key)
    finished = {} if writer is None else writer.finished
    planned = plan(sources, to, erasure, named, finished, is_hashed=writer is not None)
    with phase("looking for copies", None) as done:
        copies = find_copies(sources, erasure, done, named=named)
    with phase("reading", planned.size) as done:
        write = ignore if writer is None else lambda partitions: writer.write(partitions, copies)
        results = ErasedLogs(erase(planned, report, replace(running, done=done), write_manifest=write))
    is_written = not erasure.dry_run and not any(each.damages for each in results)
    results.replicas = list(compare_replicas(results)) if is_written else []
    if writer is not None:
        writer.complete([each.directory for each in planned.targets], copies)
    results.copies, results.finished, results.fields = copies, len(finished), topic_fields(results, writer)
    return results


def _erasure(request: EraseRequest, partitions: Sequence[PartitionPath]) -> Erasure:
    selection = selected_by(request.keys, request.where, request.header)
    if request.sign_key is not None and request.manifest is None:
        raise UsageError("--sign-key needs --manifest, which it signs")
    fields: Any = request.blank_fields
    if isinstance(fields, str):
        raise UsageError(f"blank_fields: {fields!r} is no list of fields; give [{fields!r}]")
    if request.blank and fields:
        raise UsageError("--blank and --blank-fields exclude each other; use one of them")
    is_typed = request.schemas is not None or request.value_format != "auto"
    blanking = None
    if request.blank or fields or is_typed:
        schemas = None if request.schemas is None else os.fspath(request.schemas)
        blanking = blanking_of(fields, request.value_format, schemas, partitions)
    return Erasure(selection, blanking, bound(request.max_batch_bytes), request.dry_run)
