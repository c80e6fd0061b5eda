"""Plans what goes of a log directory, says what it costs, and removes it as ``DeleteRecords`` would.

The plan is for a broker that does not start as its disk is full: nothing is written before something is removed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from brokerless.clusters.directory_state import load_directory_state
from brokerless.errors import UnwritableError, UsageError
from brokerless.internals.metadata.cluster import read_cluster
from brokerless.internals.records import CONSUMER_OFFSETS
from brokerless.internals.tables import state_rows
from brokerless.jobs.trim.candidates import TrimLimits, TrimmedSegment, candidates, choose, refusal, waiting
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import (
    epochs_of,
    leader_epoch_checkpoint,
    load_leader_epochs,
    truncate_from_start,
)
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets, read_checkpoints, write_checkpoints
from brokerless.log.commit.commit import recover_commit
from brokerless.log.directory import LogDirectory, PartitionPath, resolve
from brokerless.log.live_segments import as_it_lies, directory_as_it_lies
from brokerless.log.names import CLUSTER_METADATA
from brokerless.log.settings.topic import TopicSettings
from brokerless.log.storage.atomic import sync_directory, write_file
from brokerless.log.storage.directory_lock import lock_directory, only_writer
from brokerless.log.storage.guarded_files import open_own
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import directory_name
from brokerless.log.storage.write_errors import unwritable
from brokerless.log.write.segment_state import put_aside
from brokerless.progress import ignore
from brokerless.tables.partition_tables import segment_rows
from brokerless.text import short_html, short_repr


@dataclass(frozen=True, slots=True)
class TrimmedPartition:
    """A partition's part of a trim: what is removed of it, and what that costs."""

    topic: str
    partition: int
    path: str
    segments: tuple[TrimmedSegment, ...]
    start_offset: int
    log_start_offset: int
    """Where the log begins afterwards."""
    records: int | None
    """How many records go that consumers could still get; None where old messages are compressed, which are not
    counted."""
    first_timestamp: int | None
    """The first timestamp of these records (ms); None where there are none."""
    last_timestamp: int | None
    """The last timestamp of these records (ms); None where there are none."""
    unread: Mapping[str, int]
    """By group, how many offsets are between what it has committed and the new log start."""

    @property
    def size(self) -> int:
        """Bytes that become free."""
        return sum(each.size for each in self.segments)


@dataclass(frozen=True, slots=True)
class Trim:
    """A trim of a log directory: what is removed."""

    path: str
    partitions: tuple[TrimmedPartition, ...]
    waiting: tuple[tuple[str, int], ...] = ()
    """Files that a broker removes anyway, with their bytes."""
    retained: Mapping[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    """Topics of which nothing may go, with their bytes, and why."""
    missing: int = 0
    """How many bytes are short of the request."""
    is_applied: bool = False
    """Whether it is done."""
    is_resumed: bool = False
    """Whether it is what is left of an earlier plan, whose run was cut short."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def size(self) -> int:
        """Bytes that become free."""
        return sum(each.size for each in self.partitions) + sum(size for _, size in self.waiting)


@dataclass(frozen=True, slots=True)
class _KnownSettings:
    """The settings and committed offsets in a broker's log directories."""

    settings: Mapping[str, TopicSettings]
    """The settings of each topic."""
    committed: Mapping[tuple[str, int], Mapping[str, int]]
    """For each partition, the groups' committed offsets."""


def plan(
    directory: LogDirectory,
    limits: TrimLimits,
    *,
    partitions: Collection[PartitionPath] | None = None,
    named: Collection[str] = (),
    others: Iterable[LogDirectory] = (),
) -> Trim:
    """Return what would go of a log directory; nothing is changed. ``partitions``: only of these. ``named``: topics
    that the user has named. ``others``: the broker's other log directories, which may have the cluster's metadata and
    the groups' offsets.

    Raises :class:`UsageError` for anything but a local log directory, and :class:`UnreadableError`.
    """
    if not directory.is_local_log_directory:
        raise UsageError(f"{directory.path}: give a broker's log directory on this machine, of which segments can go")
    directory = directory_as_it_lies(directory)
    if names.TRIM_MARK in directory.files:
        return _left(directory)
    partitions = None if partitions is None else [as_it_lies(each) for each in partitions]
    known, state = _read_known([directory, *others]), load_directory_state(directory)
    compacted = state.offsets.get(names.CLEANER_CHECKPOINT, {})
    allowed: dict[str, PartitionPath] = {}
    retained: dict[str, tuple[int, str]] = {}
    for each in directory.partitions if partitions is None else partitions:
        if each.state != "live" or each.topic is None or each.partition is None:
            continue
        settings = known.settings.get(each.topic)
        why = refusal(each, settings, each.topic in named, (each.topic, each.partition) in compacted)
        why = _unreadable(each) or why
        if why is None:
            allowed[each.path] = each
        else:
            retained[each.topic] = retained.get(each.topic, (0, why))[0] + each.size, why
    found = {
        path: candidates(each, known.settings.get(each.topic or ""), state, limits.now_ms)
        for path, each in allowed.items()
    }
    deleted = [each for each in directory.others if each.state == "delete" and not each.is_unfinished]
    gone = waiting(directory.partitions, deleted) if partitions is None else waiting(partitions, ())
    chosen = choose(found, limits, sum(size for _, size in gone))
    trimmed = tuple(_costs(allowed[path], chosen[path], known) for path in allowed if path in chosen)
    trim = Trim(directory.path, trimmed, tuple(gone), retained)
    return replace(trim, missing=max(0, (limits.free or 0) - trim.size))


def _left(directory: LogDirectory) -> Trim:
    """Return what a run that was cut short has left to remove. A plan that was made again would free as much again."""
    deleted = [each for each in directory.others if each.state == "delete" and not each.is_unfinished]
    return Trim(directory.path, (), tuple(waiting(directory.partitions, deleted)), is_resumed=True)


def _unreadable(partition: PartitionPath) -> str | None:
    """Return why nothing of a partition can be removed, or it is not known what; None where that is no reason."""
    name = directory_name(partition.path)
    if Path(partition.path).is_symlink():
        return f"{name} is a symbolic link, and links are not followed"
    if partition.unreadable is not None:
        return f"{name} cannot be read: {partition.unreadable.message}"
    unopened = next((each.log.name for each in partition.segments if each.log.size is None), None)
    return None if unopened is None else f"{unopened} of {name} cannot be opened"


def _read_known(directories: Sequence[LogDirectory]) -> _KnownSettings:
    readers = [each for directory in directories for each in directory.partitions]
    settings: dict[str, TopicSettings] = {}
    for each in readers:
        if each.topic == CLUSTER_METADATA:
            settings |= read_cluster(each, ignore).settings_by_topic()
    committed: dict[tuple[str, int], dict[str, int]] = {}
    offsets = [each for each in readers if each.topic == CONSUMER_OFFSETS]
    for row in state_rows(offsets, ("offsets",), ignore)["offsets"]:
        committed.setdefault((row["topic"], row["partition"]), {})[row["group"]] = row["offset"]
    return _KnownSettings(settings, committed)


def _costs(partition: PartitionPath, segments: Sequence[TrimmedSegment], known: _KnownSettings) -> TrimmedPartition:
    topic, number = partition.place
    bases = {each.base_offset for each in segments}
    going = tuple(each for each in partition.segments if each.base_offset in bases)
    rows = list(segment_rows(replace(partition, segments=going), on_damage=ignore))
    counts = [row["records"] for row in rows]
    firsts = [row["minTimestamp"] for row in rows if row["minTimestamp"] is not None]
    lasts = [row["maxTimestamp"] for row in rows if row["maxTimestamp"] is not None]
    before, after = partition.start_offset or 0, segments[-1].end_offset
    start = max(before, after)
    unread = {
        group: start - max(offset, before)
        for group, offset in sorted(known.committed.get((topic, number), {}).items())
        if offset < start
    }
    return TrimmedPartition(
        topic,
        number,
        partition.path,
        segments=tuple(segments),
        start_offset=before,
        log_start_offset=start,
        records=None if None in counts else sum(counts),
        first_timestamp=min(firsts, default=None),
        last_timestamp=max(lasts, default=None),
        unread=unread,
    )


def trim(
    directory: LogDirectory,
    limits: TrimLimits,
    *,
    partitions: Collection[PartitionPath] | None = None,
    named: Collection[str] = (),
    others: Iterable[LogDirectory] = (),
    apply: bool = False,
) -> Trim:
    """Plans as :func:`plan`, and with ``apply`` does it.

    Raises :class:`UsageError` also if a broker runs on the directory, and :class:`UnwritableError`.
    """
    with ExitStack() as stack:
        if apply and directory.is_local_log_directory:
            stack.enter_context(unwritable(directory.path))
            stack.enter_context(lock_directory(directory.path, exclusive=True))
            recover_commit(Path(directory.path))
            directory = resolve(directory.location, as_it_lies=True)
            wanted = None if partitions is None else {each.path for each in partitions}
            partitions = None if wanted is None else [each for each in directory.partitions if each.path in wanted]
        planned = plan(directory, limits, partitions=partitions, named=named, others=others)
        if not apply:
            return planned
        _apply(planned, directory)
    return replace(planned, is_applied=True)


def _apply(planned: Trim, before: LogDirectory) -> None:
    """All files that go are renamed to ``.deleted`` first, the segments of a partition from the oldest on: whenever
    this is killed, logs begin later and have no gap. Until all are renamed, a plan that is made again is the same one,
    as it counts them. Then a mark says that they are the plan, and they are removed. A broker takes the first segment
    for a log's start, so that checkpoints can follow, when there is space for them.

    Renaming, and a file without content, take no space on a full disk."""
    directory, mark = Path(planned.path), Path(planned.path) / names.TRIM_MARK
    doomed = [Path(path) for path, _ in planned.waiting]
    starts = {each.path: each.log_start_offset for each in planned.partitions}
    for each in planned.partitions:
        path = Path(each.path)
        if path.is_symlink():
            raise UnwritableError(f"{path}: this is a symbolic link, and links are not followed here")
        with only_writer(path):
            doomed += put_aside(path, [segment.base_offset for segment in each.segments])
    if not planned.is_resumed:
        os.close(open_own(mark, os.O_WRONLY | os.O_CREAT))
        sync_directory(directory)
    for path in doomed:
        path.unlink(missing_ok=True)
    lines: dict[tuple[str, int], PartitionOffsets] = {}
    for each in before.partitions:
        start = _first_offset(each) if planned.is_resumed else starts.get(each.path)
        if start is not None and each.state == "live" and each.topic is not None and each.partition is not None:
            with only_writer(Path(each.path)):
                _begin_epochs_at(Path(each.path), start)
            place = each.topic, each.partition
            lines[place] = _raised(read_checkpoints(directory, *place), start, _first_base(Path(each.path)))
    if lines:
        write_checkpoints(directory, lines)
    mark.unlink()
    sync_directory(directory)


def _first_offset(partition: PartitionPath) -> int | None:
    """Return where the log of a partition begins; None for one whose start is not known, or that is not trimmed."""
    is_own = partition.topic is not None and names.is_internal(partition.topic)
    return None if is_own or partition.unreadable is not None else partition.start_offset


def _first_base(path: Path) -> int:
    return min((int(each.stem) for each in path.glob("*.log") if each.stem.isdecimal()), default=0)


def _begin_epochs_at(path: Path, log_start_offset: int) -> None:
    checkpoint = path / names.LEADER_EPOCH_CHECKPOINT
    if checkpoint.is_file() and not checkpoint.is_symlink():
        epochs = epochs_of(load_leader_epochs(Location(str(checkpoint))))
        kept = truncate_from_start(epochs, log_start_offset)
        if kept is not epochs:
            write_file(checkpoint, leader_epoch_checkpoint(kept))


def _raised(lines: PartitionOffsets, start: int, first_segment: int) -> PartitionOffsets:
    """Return a partition's lines. Kafka records a log start only where the first segment does not say the same."""
    recovery_point, high_watermark = lines.recovery_point, lines.high_watermark
    return PartitionOffsets(
        None if recovery_point is None else max(recovery_point, start),
        start if start > first_segment else None,
        None if high_watermark is None else max(high_watermark, start),
    )
