"""A dry run of a broker's next start: what it would truncate, delete, rebuild or refuse.

For a partition, the plan is ``log/recovery/plan.py``'s, with Kafka's default settings; here it is put into what people
ask: what is cut and deleted, which offsets consumers would lose by that, and which indexes are rebuilt. For a
directory: whether a broker starts on it at all, which partitions become stray, and what is begun empty.

Sources: ``LogManager.loadLogs``, ``LogLoader``, ``KafkaMetadataLog`` (4.1.1, 4.4.0), and those in this package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from brokerless import clock
from brokerless.bounds import MAX_INT64
from brokerless.clusters.directory_state import DirectoryState, Lines
from brokerless.clusters.placement import (
    MADE_STRAY,
    BrokerNode,
    place,
)
from brokerless.clusters.start import directory_files
from brokerless.clusters.start.metadata_log import emptied_at
from brokerless.clusters.start.partition_files import unloadable
from brokerless.clusters.start.results import DirectoryRestart, LostRecords, Restart, Truncation
from brokerless.clusters.start.retention_forecast import expiring
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.internals.topic_settings import read_topic_settings
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets
from brokerless.log.completion.findings import check_removed
from brokerless.log.completion.removed import with_lost
from brokerless.log.config import LogConfig
from brokerless.log.directory import PartitionPath
from brokerless.log.recovery.misleading_indexes import TrustedEnd, shown_aborted, trusted_end
from brokerless.log.recovery.plan import RecoveryPlan, plan_recovery
from brokerless.log.seek import log_start_after_end
from brokerless.log.segment import Chunk, check_checksums, scan
from brokerless.log.settings.definitions import versions
from brokerless.log.settings.topic import TopicSettings, has_remote_storage
from brokerless.log.storage.files import File
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import is_remote
from brokerless.offset_spans import Span
from brokerless.progress import ignore


@dataclass(frozen=True, slots=True)
class StartAt:
    """A start of a version of Kafka (the newest that is known) at a time (now; ms since the epoch)."""

    version: str = field(default_factory=lambda: versions()[-1])
    now_ms: int = field(default_factory=lambda: clock.now())


class RecoveredLogs:
    """What a start of a broker makes of the logs of some directories, each planned once."""

    def __init__(self, states: Mapping[str, DirectoryState], start: StartAt | None = None) -> None:
        """Create the dry runs, each when it is first requested. ``states``: the states of the directories, by their
        paths."""
        self._states = {path.rstrip("/"): each for path, each in states.items()}
        self._start = start
        self._known: dict[str, Restart | None] = {}
        self._refused: dict[str, Restart] = {}

    def refused(self, partition: PartitionPath) -> Restart | None:
        """Return the dry run for a partition whose log a broker refuses; None where it does not."""
        self.of(partition)
        return self._refused.get(partition.path)

    def of(self, partition: PartitionPath) -> Restart | None:
        """Return the dry run for a partition; None where that fails, or where a broker does not load it."""
        if partition.path not in self._known:
            self._known[partition.path] = self._planned(partition)
        return self._known[partition.path]

    def limits(self, partition: PartitionPath) -> tuple[int, int] | None:
        """Return the first offset of a partition after the start, and the one after its last; None as in :meth:`of`."""
        restart = self.of(partition)
        return None if restart is None else (restart.log_start_offset, restart.log_end_offset)

    def end_of(self, partition: PartitionPath) -> int | None:
        """Return the offset after the last one of a partition after the start; None as in :meth:`of`."""
        limits = self.limits(partition)
        return None if limits is None else limits[1]

    def _planned(self, partition: PartitionPath) -> Restart | None:
        state = self._states.get(parent_of(partition.path))
        if state is None or is_remote(partition.path):
            return None
        with suppress(UnreadableError):
            restart = plan_restart(partition, state.of(partition), self._start, clean=state.was_clean)
            if not restart.refused:
                return restart
            self._refused[partition.path] = restart
        return None


def parent_of(path: str) -> str:
    """Return the log directory of a partition's directory."""
    return path.rstrip("/").rpartition("/")[0]


def plan_restart(
    partition: PartitionPath,
    lines: Lines,
    start: StartAt | None = None,
    *,
    clean: bool,
    directory: DirectoryRestart | None = None,
    settings: TopicSettings | None = None,
    max_batch_bytes: int | None = None,
) -> Restart:
    """Return the dry run for one partition of a local directory. ``lines`` are its own in its log directory's
    checkpoints, and ``clean`` whether that has the mark of a clean stop. ``start``: of which Kafka and when; by default
    that of ``directory``, its log directory's dry run, if there is one, now. ``settings``: the topic's, as far as they
    are known (:func:`known_settings`), for what retention deletes. ``max_batch_bytes``: what one batch of KRaft's own
    log may inflate to (128 MiB).

    Raises :class:`UnreadableError` for a directory or file that cannot be opened.
    """
    if partition.unreadable is not None:
        raise UnreadableError("", str(partition.unreadable))
    if not Path(partition.path).is_dir():
        raise UnreadableError(partition.path, "what a restart does is known of a partition's local directory only")
    at = partition.topic, partition.partition, partition.path
    if partition.state == "delete":
        return _deleted(partition, at)
    if (damage := next(unloadable(partition, max_batch_bytes), None)) is not None:
        return _unloaded(at, damage, directory)
    recorded = (names.RECOVERY_POINT_CHECKPOINT, names.LOG_START_OFFSET_CHECKPOINT)
    checkpoints = PartitionOffsets(*(_offset(lines, each) for each in recorded))
    if partition.topic == names.CLUSTER_METADATA:  # not flushed for KRaft (KafkaMetadataLog: lastShutdownClean = false)
        checkpoints, clean = PartitionOffsets(), False
    when = start or (StartAt() if directory is None else StartAt(directory.version))
    try:
        plan = plan_recovery(partition.path, LogConfig(), checkpoints, when.now_ms, clean=clean, as_kafka=when.version)
    except UnreadableError as error:
        if error.kind != Kind.LOG_REFUSED:
            raise
        return Restart(*at, refused=str(error), refused_by=Kind.LOG_REFUSED)
    files = _PlannedFiles(plan)
    if (emptied := emptied_at(partition, plan)) is not None:
        return _emptied(at, plan, files, emptied)
    found = files.end(clean)
    if found.is_damaged:
        text = f"{found.findings[0]}; Kafka throws CorruptRecordException as it looks for the end"
        return Restart(*at, refused=text, refused_by=Kind.LOG_END_DAMAGED)
    # What is in a last segment that counts as empty, if anything, is not seen any more.
    unseen = [(files.log(found.offset), 0)] if found.is_trusted and found.offset == plan.segments[-1] else []
    cut = tuple(files.cut())
    completion = with_lost(plan.completion)
    replaced = tuple((each.entry.path, each.entry.size or 0, spans) for each, spans in completion.lost)
    deleted = tuple((path, Path(path).stat().st_size) for path in map(files.log, plan.deleted))
    beyond_end = log_start_after_end(partition)
    cut_off = [*((each.file, each.kept) for each in cut), *((path, 0) for path, _ in deleted)]
    stray, unserved = _unplaced(partition, directory)
    return Restart(
        *at,
        split=tuple((files.log(each.base_offset), each.result.parts) for each in plan.recovered if each.result.parts),
        recovered=tuple((each.base_offset, each.reason) for each in plan.recovered),
        cut=cut,
        deleted=deleted,
        rebuilt=tuple(files.rebuilt()),
        emptied=tuple(files.emptied()),
        removed=plan.completion.removed_names,
        replaced=replaced,
        replaced_findings=tuple(each.in_scope("start") for each in check_removed(completion)),
        renamed=plan.completion.renamed_names,
        beyond_end=None if beyond_end is None else beyond_end.in_scope("start"),
        log_start_offset=plan.log_start_offset,
        log_end_offset=found.offset,
        unclosed=tuple(map(str, (*found.findings, *found.of_index))),
        misled=(*shown_aborted(partition, plan.trusted, files.recovered()), *found.hidden),
        lost=_lost([*cut_off, *unseen], found.offset if beyond_end is None else 0, replaced),
        stray=stray,
        unserved=unserved,
        markers=0 if directory is None else _markers(directory, partition),
        epochs=plan.epochs,
        retention=None if stray or unserved else expiring(plan, partition.topic, settings, when.now_ms),
    )


def _unplaced(partition: PartitionPath, directory: DirectoryRestart | None) -> tuple[Finding | None, Finding | None]:
    """Return why a partition becomes stray, and why it is not served."""
    if directory is None:
        return _without_id(partition), None
    return directory.stray.get(partition.path), directory.unserved.get(partition.path)


def _unloaded(at: tuple[str | None, int | None, str], damage: Finding, directory: DirectoryRestart | None) -> Restart:
    restart = Restart(*at, refused=str(damage), refused_by=damage.kind, refusal=damage)
    if directory is None:
        return restart
    return replace(restart, ends=directory.ends_at(damage.kind), unserved=directory.unserved.get(at[2]))


def _deleted(partition: PartitionPath, at: tuple[str | None, int | None, str]) -> Restart:
    # A broker deletes it once it is loaded (LogManager.addLogToBeDeleted).
    logs = tuple((segment.log.path, segment.size) for segment in partition.segments)
    return Restart(*at, deleted=logs, lost=_lost([(path, 0) for path, _ in logs], 0))


def _emptied(at: tuple[str | None, int | None, str], plan: RecoveryPlan, files: _PlannedFiles, offset: int) -> Restart:
    """The dry run of KRaft's own log where its newest snapshot is after its end: all segments go."""
    logs = [files.log(each) for each in sorted({*plan.segments, *plan.deleted})]
    return Restart(
        *at,
        deleted=tuple((log, Path(log).stat().st_size) for log in logs if Path(log).stat().st_size),
        removed=plan.completion.removed_names,
        renamed=plan.completion.renamed_names,
        log_start_offset=offset,
        log_end_offset=offset,
        lost=_lost([(log, 0) for log in logs], offset),
    )


def plan_partition(
    partition: PartitionPath,
    state: DirectoryState,
    directory: DirectoryRestart | None,
    max_batch_bytes: int | None = None,
) -> Restart:
    """Plan the dry run for one partition by the state of the log directory that it is in, and by what its topic sets.
    Others, and what is raised, as in :func:`plan_restart`."""
    settings = known_settings(directory, partition)
    restart = plan_restart(
        partition,
        state.of(partition),
        clean=state.was_clean,
        directory=directory,
        settings=settings,
        max_batch_bytes=max_batch_bytes,
    )
    start = None if restart.refused else _tiered_start(partition, directory, settings)
    # LogLoader.load takes the checkpoint alone for the log start of a tiered log (isRemoteLogEnabled).
    return restart if start is None else replace(restart, log_start_offset=min(start, restart.log_start_offset))


def _tiered_start(
    partition: PartitionPath, directory: DirectoryRestart | None, settings: TopicSettings | None
) -> int | None:
    """Return where a tiered log begins after a start, in remote storage; None where it begins on the disk."""
    place = partition.topic or "", partition.partition or 0
    deletions = () if directory is None else directory.remote_deletions
    if not has_remote_storage(settings or {}) or any((each.topic, each.partition) == place for each in deletions):
        return None
    moved = () if directory is None else directory.remote_log_starts
    after = (each.after for each in moved if (each.topic, each.partition) == place)
    return next(after, partition.log_start_offset)


def known_settings(directory: DirectoryRestart | None, partition: PartitionPath) -> TopicSettings | None:
    """Return the settings of a partition's topic. ``directory``: of its log directory; where only the partition was
    opened, they are read from the metadata beside it. None where these do not know the topic."""
    topic = partition.topic or ""
    return read_topic_settings(partition.location, topic) if directory is None else directory.settings.get(topic)


def _without_id(partition: PartitionPath) -> Finding | None:
    """Return why a partition is stray, whatever the cluster's metadata says."""
    if partition.topic in (None, names.CLUSTER_METADATA):
        return None
    at = partition.topic or "", partition.partition or 0, partition.state, partition.path
    (placed, *_) = place([directory_files.loaded_replica(*at)], None, BrokerNode())
    finding = placed.finding
    return finding.in_scope("start") if placed.verdict in MADE_STRAY and finding is not None else None


def _markers(directory: DirectoryRestart, partition: PartitionPath) -> int:
    place = partition.topic or "", partition.partition or 0
    return sum(each.partitions.count(place) for each in directory.completed)


class _PlannedFiles:
    """What the files of a plan's segments are called before anything is done."""

    def __init__(self, plan: RecoveryPlan) -> None:
        self._plan = plan

    def log(self, base_offset: int) -> str:
        return self._path(base_offset, "log")

    def cut(self) -> Iterator[Truncation]:
        for each in self._plan.recovered:
            result = each.result
            if result.is_cut and each.base_offset not in self._plan.deleted:
                reason = "" if result.stop is None else result.stop.message
                yield Truncation(self.log(each.base_offset), result.size, result.state.size, reason)

    def end(self, clean: bool) -> TrustedEnd:
        """Return where the log ends: as recovered, or as its last segment and its index say."""
        plan = self._plan
        last_recovered = max((each.last_base_offset for each in plan.recovered), default=-1)
        if not clean or not plan.segments or plan.segments[-1] <= last_recovered:
            return TrustedEnd(plan.log_end_offset)
        return trusted_end(plan.files, plan.segments[-1])

    def recovered(self) -> list[int]:
        """Return the base offsets of the segments that stay, and whose indexes are rebuilt."""
        plan = self._plan
        return [each.base_offset for each in plan.recovered if each.base_offset not in plan.deleted]

    def rebuilt(self) -> Iterator[str]:
        """Yield the indexes that are rebuilt, whether they exist or not."""
        for each in self._plan.recovered:
            if each.base_offset not in self._plan.deleted:
                yield self._path(each.base_offset, "offset-index")
                yield self._path(each.base_offset, "time-index")
                path = self._path(each.base_offset, "transaction-index")
                if each.result.transaction_index or Path(path).exists():
                    yield path

    def emptied(self) -> Iterator[str]:
        """Yield the indexes that a segment does not have and that begin empty, as the log is not recovered."""
        for base_offset in self._plan.trusted:
            for kind in ("offset-index", "time-index"):
                if not self._plan.files.has(base_offset, kind):
                    yield str(self._plan.directory / names.segment_file(base_offset, kind))

    def _path(self, base_offset: int, kind: names.SegmentFileKind) -> str:
        return str(self._plan.files.path(base_offset, kind))


def _offset(lines: Lines, name: str) -> int | None:
    return lines[name][1] if name in lines else None


def _lost(
    lost_from: list[tuple[str, int]], end_offset: int, replaced: Sequence[tuple[str, int, Sequence[Span]]] = ()
) -> LostRecords:
    """Return what is intact in files from some position on, and not before ``end_offset``; and what is intact in those
    that are ``replaced``, in their spans."""
    batches = records = 0
    first: int | None = None
    last: int | None = None
    parts = [(path, start, [(end_offset, MAX_INT64)]) for path, start in lost_from]
    for path, start, spans in (*parts, *((path, 0, spans) for path, _, spans in replaced)):
        with Location(path).open() as file:
            for chunk in _intact(file, start):
                lasts = chunk.batches.last_offset
                is_lost = [(lasts >= begin) & (chunk.batches.entry_offset < end) for begin, end in spans]
                found = chunk.batches.take(np.any(is_lost, axis=0))
                if not len(found):
                    continue
                batches += len(found)
                # Messages v0 and v1 count as one each; what is in wrappers is not looked into.
                records += int(np.where(found.is_legacy, 1, np.maximum(found.count, 0)).sum(dtype=np.int64))
                lowest, highest = int(found.entry_offset.min()), int(found.last_offset.max())
                first = lowest if first is None else min(first, lowest)
                last = highest if last is None else max(last, highest)
    return LostRecords(batches, records, first, last)


def _intact(file: File, start: int) -> Iterator[Chunk]:
    """The batches whose checksums are right, also those after a place where a broker's reader ends."""
    for chunk in scan(file, ignore, start):
        yield chunk.take(check_checksums(chunk, file.path, ignore))
