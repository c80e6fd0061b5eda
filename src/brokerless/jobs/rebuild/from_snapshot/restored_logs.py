"""Writes the logs of a snapshot as a broker would have them: its segments are joined, indexes and checkpoints made."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.internals.metadata.cluster import Cluster, ResourceType
from brokerless.jobs.merge.job import Merge, MergeTask, run_task
from brokerless.jobs.rebuild.from_snapshot.disks import not_stored
from brokerless.jobs.rebuild.replicas import HeldReplica
from brokerless.jobs.recovered.losses import NOT_THERE, Loss
from brokerless.jobs.recovered.reading import describe_files
from brokerless.kafka_names import TopicIdPartition
from brokerless.log.commit.partition_copy import copy_directory
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import LogConfig, with_segment_bytes
from brokerless.log.storage.destination import Destination
from brokerless.progress import ignore
from brokerless.tables.read_options import bound


class RestoredLogs:
    """The logs of a snapshot, each of which is read once."""

    def __init__(self, cluster: Cluster, max_batch_bytes: int | None) -> None:
        self.findings: list[Finding] = []
        """The findings about the logs that are written."""
        self.lost: list[str] = []
        """What is lost of the logs that are written, as texts for people."""
        self._cluster = cluster
        self._max_batch_bytes = bound(max_batch_bytes)
        self._written: dict[TopicIdPartition, tuple[Path, StagedPartition]] = {}

    def stage(self, held: HeldReplica, directory: Path) -> StagedPartition:
        """Writes a log into a log directory, under a name that readers pass over: from the snapshot, or as a copy of
        one that was staged before, whose log directory has been committed since. Raises :class:`UnreadableError` for
        one of which no object is there, UnwritableError, OSError."""
        place = held.topic_id, held.replica.partition
        if place in self._written:
            first, staged = self._written[place]
            copy_directory(first / staged.name, directory / staged.directory)
            return staged
        found = run_task(self._task(held, directory), ignore)
        if found.staged is None:
            raise UnreadableError(held.replica.paths.path, "none of its segments can be read; restore another snapshot")
        self.findings += found.findings
        self.lost += (_text(each, found.result.task.name) for each in found.result.losses)
        self._written[place] = directory, found.staged
        return found.staged

    def _task(self, held: HeldReplica, directory: Path) -> MergeTask:
        replica = held.replica
        files = describe_files([replica.paths], held.disk.checkpoints)
        known = None if held.disk.snapshot is None else held.disk.snapshot.partition(held.topic_id, replica.partition)
        if (
            known is not None and known.is_compacted
        ):  # its batches may show no gap, and begin after offsets that the cleaner took
            files = replace(files, cleaned_until=files.cleaned_until or 0)
        return MergeTask(
            topic=replica.topic,
            partition=replica.partition,
            to=Destination.of(directory),
            topic_id=held.topic_id,
            replicas=(files,),
            merge=Merge(self._config(replica.topic), self._max_batch_bytes),
            ends_at=None if replica.end_in_log is None else (replica.end_offset or 0) - len(replica.markers),
            markers=replica.markers,
        )

    def _config(self, topic: str) -> LogConfig:
        """Return how a topic's segments end, as far as its settings say so."""
        text = self._cluster.configs.get((ResourceType.TOPIC, topic), {}).get("segment.bytes", "")
        with suppress(ValueError, UsageError):
            return with_segment_bytes(int(text)) or LogConfig()
        return LogConfig()


def _text(loss: Loss, name: str) -> str:
    if loss.causes == (NOT_THERE,):
        return not_stored(loss.first_offset, loss.last_offset, name)
    last = " and after" if loss.last_offset is None else f"..{loss.last_offset}"
    return f"offsets {loss.first_offset}{last} of {name}: damaged in the backup ({', '.join(loss.causes)})"
