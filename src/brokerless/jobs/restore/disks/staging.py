"""Writes a partition for the brokers that will serve it: once, and then copied byte for byte for the other replicas.

Batches stay unchanged but for their leader epoch, which no checksum covers: it may not be later than the one that the
target's metadata knows, or followers would find their own logs diverged (KIP-101, KIP-320). In ``__consumer_offsets``,
topics' ids become those of the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from brokerless.clusters.directory_state import load_directory_state
from brokerless.format import layouts
from brokerless.jobs.recovered.damaged_regions import FindingCollector
from brokerless.jobs.recovered.losses import Loss, summed
from brokerless.jobs.recovered.open_files import OpenFiles, with_open_files
from brokerless.jobs.recovered.reading import (
    PartitionFiles,
    RecoveredLog,
    describe_files,
    find_log,
    list_files_again,
    recorded_epochs,
)
from brokerless.jobs.recovered.writing import PartitionContents, cut, write_unfinished
from brokerless.jobs.restore.disks.committed_topic_ids import ChangedTopicIds, translate
from brokerless.jobs.restore.disks.targets import PartitionTarget
from brokerless.jobs.restore.source import SourceReading
from brokerless.log.checkpoint.leader_epochs import Epochs, assign, truncate_from_end
from brokerless.log.commit.partition_copy import copy_directory
from brokerless.log.commit.partition_writer import NewPartition, unfinished_name
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import UNBOUNDED
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.atomic import sync_directory
from brokerless.log.storage.destination import Destination
from brokerless.tables.read_options import bound

OWNER = "b0ce1e57"
"""The first digits in the names of what a restore has staged; there is one at a time in a log directory."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A partition that lacks nothing but its names: by log directory, the directory that it has for now."""

    placement: PartitionTarget
    partition: StagedPartition
    directories: dict[Path, str]
    losses: tuple[Loss, ...]
    records: int


def stage(
    placement: PartitionTarget,
    source: PartitionPath,
    end: int | None,
    reading: SourceReading,
    topic_ids: ChangedTopicIds | None = None,
) -> Staged:
    """Writes a partition into all of its directories. ``end``: the offset before which it ends, if that is not where
    the source does. ``topic_ids``: those that change in its records. Raises what PartitionOutput does."""
    state = load_directory_state(resolve(source.location))
    files = describe_files([source], state, ())
    limit, done = bound(reading.max_batch_bytes), reading.done
    collector = FindingCollector()

    def write(listed: PartitionFiles, opened: OpenFiles) -> Staged:
        found = find_log(listed, opened, limit, partial=False, report=collector, done=done)
        first, *others = placement.replicas
        place = NewPartition(
            Destination.of(first.path),
            placement.topic,
            placement.partition,
            config=UNBOUNDED,
            topic_id=placement.topic_id,
            owner=OWNER,
            may_exist=True,
        )
        contents, epochs = _contents(found, opened, placement, end)
        taken, staged = write_unfinished(place, contents, epochs, report=collector, done=done, max_batch_bytes=limit)
        if topic_ids:
            translate(first.path / staged.directory, topic_ids, reading.on_damage)
        directories = {first.path: staged.directory}
        for each in others:
            name = unfinished_name(placement.topic, placement.partition, OWNER)
            copy_directory(first.path / staged.directory, each.path / name)
            sync_directory(each.path)
            directories[each.path] = name
        regions = found.with_unsaved(contents.batches, taken)
        saved = contents.batches[taken]
        losses = summed(each for each in found.losses(saved, regions) if each.first_offset < contents.end)
        return Staged(placement, staged, directories, losses=losses, records=int(saved["records"].sum()))

    staged = with_open_files(files, lambda listed: listed.files, list_files_again, write)
    for finding in collector.findings(source.path):
        reading.on_damage(finding)
    return staged


def _contents(
    found: RecoveredLog, opened: OpenFiles, placement: PartitionTarget, end: int | None
) -> tuple[PartitionContents, Epochs]:
    batches, until = found.saved, found.end
    if end is not None and end < until:
        until = max(end, found.start)
        batches = cut(batches, until)
    bases = [each.base_offset for each in found.files.files if each.base_offset <= until]
    epochs: Epochs = ()
    for epoch, offset in truncate_from_end(recorded_epochs(found.files, found.end), until):
        epochs = assign(epochs, min(epoch, placement.leader_epoch), offset)
    cleaned = found.files.cleaned_until
    contents = PartitionContents(
        with_epochs_up_to(batches, placement.leader_epoch),
        opened,
        found.begin,
        start=found.start,
        end=until,
        base_offsets=bases,
        cleaned_until=None if cleaned is None else min(cleaned, until),
        indexed=[one for each in found.files.paths for one in each.segments],
    )
    return contents, epochs


def with_epochs_up_to(batches: NDArray[np.void], leader_epoch: int) -> NDArray[np.void]:
    """Batches whose leader epochs are not later than this one."""
    late = (batches["epoch"] > leader_epoch) & (batches["magic"] >= layouts.MAGIC_V2)
    if not late.any():
        return batches
    batches = batches.copy()
    batches["epoch"][late], batches["restamped"][late] = leader_epoch, True
    return batches
