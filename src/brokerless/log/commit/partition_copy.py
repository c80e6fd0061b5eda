"""Copies a partition file by file, as a new partition: for Kafka's own topics, whose batches must not change.

After anything but a clean stop, the copy is recovered as a broker would do it, so that what is committed is as after a
clean one. KRaft recovers its own log at each start, whatever is recorded, so that is left unchanged.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from brokerless import clock
from brokerless.errors import UnreadableError
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import (
    Epochs,
    LeaderEpochs,
    assign_batches,
    leader_epoch_checkpoint,
    load_leader_epochs,
    truncate_from_end,
)
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets, recorded_offset
from brokerless.log.checkpoint.partition_metadata import partition_metadata, topic_id_of
from brokerless.log.commit.partition_writer import scratch_directory, send_staged, unfinished_name
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import LogConfig
from brokerless.log.directory import PartitionPath
from brokerless.log.live_segments import PAUSE_S, TRIES
from brokerless.log.recovery.misleading_indexes import misled
from brokerless.log.recovery.plan import RecoveryPlan, apply_recovery, plan_recovery
from brokerless.log.recovery.segment import OffsetOverflowError
from brokerless.log.recovery.split import split_segment
from brokerless.log.segment import scan_headers
from brokerless.log.settings.definitions import versions
from brokerless.log.storage.atomic import sync_directory, write_file
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.directory_lock import lock_directory, was_clean_shutdown
from brokerless.log.storage.guarded_files import make_inner_directory, open_own, sync
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.paths import local
from brokerless.log.storage.write_errors import unwritable
from brokerless.progress import ignore

_BLOCK = 8 << 20
_CHECKPOINTS = (names.RECOVERY_POINT_CHECKPOINT, names.LOG_START_OFFSET_CHECKPOINT)


def files_of(source: PartitionPath) -> list[DirectoryEntry]:
    """Return the files of a partition that are Kafka's."""
    return [
        each for each in source.location.entries() if not each.is_directory and names.is_file_of_partition(each.name)
    ]


@dataclass(frozen=True, slots=True)
class Copying:
    """Options by which a partition is copied."""

    cleaned_until: int | None = None
    """The offset up to which the partition was compacted, for the cleaner's checkpoint."""
    owner: str = ""
    """The owner of the staged copy, see :func:`unfinished_name`."""
    link: bool = False
    """Whether logs of flushed segments, except for the last, become hard links to the source's files. Both have to be
    local, and on one file system."""
    remote_epochs: Epochs = ()
    """The leader epochs of the partition's remote segments, each with its first offset, for where its own are damaged
    or missing."""


def copy_partition(
    source: PartitionPath, directory: Destination, topic_id: str, end_offset: int, copying: Copying
) -> StagedPartition:
    """Copies a partition whose log is intact, under a name that readers pass over; ``end_offset`` is where that ends.
    ``topic_id``: of one that has no ``partition.metadata`` that can be read.

    Raises UsageError if a broker runs on ``directory``, UnreadableError, UnwritableError.
    """
    topic, partition = source.place
    recovery_point, log_start = (
        recorded_offset(source.location, source.topic, source.partition, each) for each in _CHECKPOINTS
    )
    checkpoints = PartitionOffsets(recovery_point, log_start, cleaner=copying.cleaned_until)
    clean = was_clean_shutdown(source.location)
    with ExitStack() as stack, unwritable(directory):
        log_directory = scratch_directory(stack) if directory.is_remote else directory.local
        stack.enter_context(lock_directory(log_directory, exclusive=False))
        path = log_directory / unfinished_name(topic, partition, copying.owner)
        try:
            make_inner_directory(path)
            linked = _unchanging(source, None if clean else recovery_point or 0) if copying.link else frozenset[str]()
            _copy_current(source, path, linked)
            if topic_id_of(source.partition_metadata) is None:
                write_file(path / names.PARTITION_METADATA, partition_metadata(topic_id))
            _mend_epochs(path, copying.remote_epochs)
            recorded = PartitionOffsets(end_offset, checkpoints.log_start_offset, end_offset, checkpoints.cleaner)
            start_offset = max(source.segments[0].base_offset if source.segments else 0, recorded.log_start_offset or 0)
            if topic == names.CLUSTER_METADATA:
                recorded = PartitionOffsets()
            elif not clean:
                plan = _plan_with_splits(path, checkpoints)
                apply_recovery(plan)
                start_offset, end_offset = plan.log_start_offset, plan.log_end_offset
                recorded_end = min(recorded.high_watermark or 0, end_offset)
                recorded = replace(recorded, recovery_point=recorded_end, high_watermark=recorded_end)
            else:
                _mend_indexes(source, path, checkpoints)
            sync_directory(path)
            files = Destination.of(log_directory).files(path.name)
            unfinished = StagedPartition(
                path.name,
                topic,
                partition,
                log_start_offset=start_offset,
                log_end_offset=end_offset,
                checkpoints=recorded,
                files=files,
            )
            send_staged(directory, unfinished, path)
            return unfinished
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise


def _plan_with_splits(path: Path, checkpoints: PartitionOffsets) -> RecoveryPlan:
    """The recovery of a copy; segments whose offsets are too far apart for one are split first, as a broker does."""
    while True:
        try:
            return plan_recovery(path, LogConfig(), checkpoints, clock.now(), clean=False)
        except OffsetOverflowError as error:
            split_segment(path, error.base_offset)


def _mend_indexes(source: PartitionPath, path: Path, checkpoints: PartitionOffsets) -> None:
    """Makes the indexes of a copy again that a broker would believe after a clean stop, and that are wrong; those of a
    damaged segment stay, as a recovery would cut it."""
    plan_start = partial(
        plan_recovery,
        path,
        config=LogConfig(),
        checkpoints=checkpoints,
        now_ms=clock.now(),
        clean=True,
        as_kafka=versions()[-1],
    )
    plan = plan_start()
    wrong = {each.base_offset for each in misled(source, plan.files, plan.considered)}
    if not wrong:
        return
    plan = plan_start(again=wrong)
    cut = {each.base_offset for each in plan.recovered if each.result.is_cut}
    if cut & wrong:
        plan = plan_start(again=wrong - cut)
    if not any(each.result.is_cut for each in plan.recovered):
        apply_recovery(plan)


def _mend_epochs(path: Path, remote: Epochs) -> None:
    """Writes a ``leader-epoch-checkpoint`` that a broker cannot parse, and ends at, again from those of the remote
    segments and the batches; also one that has nothing, where there are remote segments."""
    checkpoint = path / names.LEADER_EPOCH_CHECKPOINT
    loaded = load_leader_epochs(Location(str(checkpoint))) if checkpoint.exists() else None
    if is_damaged(loaded) or (remote and (loaded is None or not len(loaded.epochs))):
        logs = [Location(str(each)) for each in sorted(path.glob("*.log"))]
        write_file(checkpoint, leader_epoch_checkpoint(epochs_again(logs, remote)))


def is_damaged(epochs: LeaderEpochs | None) -> bool:
    """Return whether a broker cannot parse a ``leader-epoch-checkpoint``."""
    return epochs is not None and any(each.severity == "error" for each in epochs.findings)


def epochs_again(logs: Sequence[Location], remote: Epochs) -> Epochs:
    """Return the leader epochs of a log by its batches, after those of its remote segments that began before. ``logs``:
    of its local segments, in order. Raises UnreadableError."""
    bases = (names.parse_segment_file(each.name) for each in logs)
    first = min((each.offset for each in bases if each is not None), default=None)
    epochs = remote if first is None else truncate_from_end(remote, first)
    for log in logs:
        with log.open() as file:
            for chunk in scan_headers(file, ignore):
                epochs = assign_batches(epochs, chunk.batches)
    return epochs


def _unchanging(source: PartitionPath, recovery_point: int | None) -> frozenset[str]:
    """The names of logs that neither a recovery nor an append changes: those of segments that end at the recovery point
    or before it, of all but the last one without a recovery."""
    return frozenset(
        segment.log.name
        for segment, following in pairwise(source.segments)
        if recovery_point is None or following.base_offset <= recovery_point
    )


def _copy_current(source: PartitionPath, target: Path, linked: frozenset[str]) -> None:
    """Copies the files of a partition, again if a broker replaced or deleted some of them meanwhile. ``linked``: names
    of those that are hard links."""
    for number in range(TRIES + 1):
        if number:
            for path in target.iterdir():
                path.unlink()
            time.sleep(PAUSE_S)
        before, is_whole = files_of(source), True
        for entry in before:
            try:
                if entry.name in linked:
                    os.link(local(entry.path), target / entry.name, follow_symlinks=False)
                else:
                    copy_file(entry, target / entry.name)
            except UnreadableError as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
                is_whole = is_whole and entry.name.endswith(_PASSING)
        if is_whole and _are_unchanged(before, files_of(source)):
            return
    raise UnreadableError(source.path, "its files were replaced each time that they were copied; run this again")


_PASSING = (".deleted", ".tmp")
"""Files that may go without anything being lost."""


def _are_unchanged(before: Sequence[DirectoryEntry], after: Sequence[DirectoryEntry]) -> bool:
    """Return whether the segments are the same files, but for the last one, which may have grown."""
    was, now = (
        {
            each.name: (each.size, each.modified, each.identity)
            for each in entries
            if names.parse_segment_file(each.name) is not None and not each.name.endswith(_PASSING)
        }
        for entries in (before, after)
    )
    active = max((name for name in was if name.endswith(".log")), default="").removesuffix(".log")
    differing = {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)}
    return all(name in was and name in now and name.startswith(f"{active}.") for name in differing)


def copy_directory(source: Path, target: Path) -> None:
    """Copies a partition's directory into a new one; nothing is left of that if it fails. Raises as
    :func:`copy_file`."""
    try:
        make_inner_directory(target)
        for each in Location(str(source)).entries():
            copy_file(each, target / each.name)
        sync_directory(target)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def copy_file(entry: DirectoryEntry, target: Path) -> None:
    """Copies a file under a new name, with its time. Raises UnreadableError, UnwritableError, OSError."""
    created = open_own(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(created, "wb") as copy, entry.location.open() as file:
        for position in range(0, file.size, _BLOCK):
            block = file.read(position, min(_BLOCK, file.size - position))
            if len(block) < min(_BLOCK, file.size - position):
                raise UnreadableError(entry.path, "the file was cut while it was copied; run this again")
            copy.write(block.data)
        copy.flush()
        sync(copy.fileno())
    if entry.modified is not None:  # by which retention goes where there are no timestamps
        os.utime(target, ns=(entry.modified * 1_000_000, entry.modified * 1_000_000))
