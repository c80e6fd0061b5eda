"""Copies partitions whose batches must not change, such as those of Kafka's own topics, if they are intact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.format.convert import ConversionTotals
from brokerless.jobs.manifest import ManifestFile, describe_directory, describe_file
from brokerless.jobs.rewrite.plan import PartitionTask
from brokerless.jobs.rewrite.reading import RewriteReader
from brokerless.log.commit.partition_copy import Copying, copy_partition, files_of
from brokerless.log.commit.types import StagedPartition
from brokerless.log.directory import PartitionPath
from brokerless.progress import Done


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A task's result, which the driver gets. Offsets are those of the log."""

    totals: ConversionTotals
    start_offset: int
    """The first offset that a reader gets."""
    end_offset: int
    """The offset after the last one."""
    damages: tuple[Finding, ...]
    findings: tuple[Finding, ...]
    staged: StagedPartition | None = None
    """What was written; None if there is ``damages`` or nothing is to be written."""
    inputs: tuple[ManifestFile, ...] = ()
    """The files that were read, of a job with a manifest."""
    outputs: tuple[ManifestFile, ...] = ()
    """The files that were written, of a job with a manifest."""


def copy_unchanged(task: PartitionTask, done: Done, *, dry_run: bool, is_hashed: bool) -> Rewritten:
    """Reads a partition, and copies its files if they are intact. ``is_hashed``: for a manifest."""
    findings: list[Finding] = []
    source = task.source
    reading, totals = RewriteReader(source, "read_uncommitted", findings.append), ConversionTotals()
    reading.look(totals, done)
    start, end, damages = min(source.start_offset or 0, reading.end_offset), reading.end_offset, reading.damages
    if damages or dry_run:
        return Rewritten(totals, start, end, damages=tuple(damages), findings=tuple(findings))
    copying = Copying(cleaned_until=reading.compacted_until, owner=task.owner)
    staged = copy_partition(source, task.directory, task.topic_id, end_offset=end, copying=copying)
    inputs = tuple(_described_now(source)) if is_hashed else ()
    outputs = describe_directory(task.directory, staged.directory, task.name) if is_hashed else ()
    return Rewritten(
        totals, start, end, damages=(), findings=tuple(findings), staged=staged, inputs=inputs, outputs=outputs
    )


def _described_now(source: PartitionPath) -> Iterator[ManifestFile]:
    for each in files_of(source):
        try:
            yield describe_file(each)
        except UnreadableError as error:  # a broker deleted it, so that a later run copies the partition again
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
