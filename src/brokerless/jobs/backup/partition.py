"""Backs up one partition: what is new since the snapshot before, or all that is not stored unchanged.

A log goes on from a snapshot if its leader epochs say so, and the last batch that was stored is there; what is before
that is not read again. Otherwise, and where a log is compacted, everything is read, and segments stay whose batches are
the same, by SHA-256.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from brokerless.findings import Finding, Kind
from brokerless.jobs.backup.cut import without_gone
from brokerless.jobs.backup.erased import ErasedFilter
from brokerless.jobs.backup.lineage import (
    damaged_spans,
    has_batch,
    last_batch_of,
    lineage_of,
    losses_of,
    lost_spans,
    meets,
    reach_of,
    span_of,
)
from brokerless.jobs.backup.previous import PreviousPartition
from brokerless.jobs.backup.segments import IntactBatches, StoredLog, Storing, unchanged_ranges, with_last_producers
from brokerless.jobs.merge.leader_epochs import earliest
from brokerless.jobs.merge.merged_log import MergedLog, read_merged_log
from brokerless.jobs.merge.outcome import divergences
from brokerless.jobs.recovered.damaged_regions import FindingCollector
from brokerless.jobs.recovered.losses import Loss
from brokerless.jobs.recovered.open_files import LogFile, OpenFiles, PinnedFiles, with_open_files
from brokerless.jobs.recovered.reading import PartitionFiles, list_files_again
from brokerless.jobs.recovered.writing import groups_of, intact_bytes
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.backups.replaced import ErasedPlaces
from brokerless.log.backups.snapshot import (
    LastBatch,
    LostRange,
    MissingPartition,
    OngoingTransaction,
    SnapshotPartition,
    SnapshotSegment,
)
from brokerless.log.checkpoint.leader_epochs import Epochs, truncate_from_end, truncation_offset
from brokerless.log.config import LogConfig
from brokerless.log.live_segments import deleted_meanwhile
from brokerless.log.storage.segment_files import drop_cached
from brokerless.log.tiered.writing.objects import ObjectFormat, UploadPlace
from brokerless.log.write.follower_append import whole_batches
from brokerless.offset_spans import Span, without
from brokerless.progress import Done, Report
from brokerless.text import count_of

_SMALL = 1 << 20
"""Bytes of a segment that is stored again, together with what is new."""


@dataclass(frozen=True, slots=True)
class SourceReplica:
    """A replica on a disk."""

    files: PartitionFiles
    node_id: int
    """The ID of the disk's node; -1 where it is not known."""
    directory: str
    """The path of the log directory."""


@dataclass(frozen=True, slots=True)
class BackupTask:
    """One partition to back up."""

    place: UploadPlace
    replicas: tuple[SourceReplica, ...]
    previous: PreviousPartition | None
    is_compacted: bool
    """Whether it is compacted by the topic's settings."""
    is_alone: bool
    """Whether one replica is taken as a whole, whatever others have."""
    config: LogConfig
    how: ObjectFormat
    max_batch_bytes: int
    dry_run: bool
    cut_at: int | None = None
    """Where the log of a running broker ended at the cut; after that, it is read to whole transactions, up to the limit
    of ``replicas``. None for other logs."""
    cut_epochs: Epochs = ()
    """The leader epochs of the log at the cut."""
    erased: ErasedPlaces | None = None
    """What was erased of the partition in the backup."""
    base_offsets: tuple[int, ...] = ()
    """Where segments begin, in addition to those that ``config`` makes necessary."""

    @property
    def name(self) -> str:
        return names.partition_directory(self.place.topic, self.place.partition)

    @property
    def files(self) -> tuple[PartitionFiles, ...]:
        return tuple(each.files for each in self.replicas)

    @property
    def size(self) -> int:
        """Bytes to read, at most."""
        return sum(each.files.size for each in self.replicas)


@dataclass(frozen=True, slots=True)
class BackupTaskResult:
    """A partition of the new snapshot and its segments, or the reason why the snapshot lacks it."""

    partition: SnapshotPartition | None
    """The partition of the snapshot; None where it is missing."""
    missing: MissingPartition | None
    """The partition that is missing, with the reason; None where the snapshot has it."""
    segments: tuple[SnapshotSegment, ...]
    findings: tuple[Finding, ...]
    markers: Mapping[int, int] = field(default_factory=dict[int, int])
    """How many markers of each producer came after the cut, by producer ID."""

    @property
    def place(self) -> TopicPartition:
        """The topic's ID, and the partition's number."""
        found = self.partition or self.missing
        assert found is not None
        return found.topic_id, found.partition


def run_task(task: BackupTask, done: Done, pinned: PinnedFiles | None = None) -> BackupTaskResult:
    """Back up a partition. ``pinned``: files that are open already. Raises :class:`UnwritableError`; what cannot be
    read is among the findings and losses."""
    report, found = FindingCollector(), None
    if (start := _first_needed(task)) is not None:
        found = _opened(task, pinned, start, partial(_go_on, task, report=report, done=done))
    if found is None:
        report = FindingCollector()
        found = _opened(task, pinned, 0, partial(_take_whole, task, report=report, done=done))
    if isinstance(found, int):
        task = replace(task, replicas=(task.replicas[found],), is_alone=True)
        report = FindingCollector()
        found = _opened(task, pinned, 0, partial(_take_whole, task, report=report, done=done))
    if task.cut_at is not None:
        _forget_cached(task)
    if isinstance(found, _Taken):
        partition, segments = _described(task, found)
        _report_deleted(task, partition, found, report)
        _report_erased(task, found, report)
        return BackupTaskResult(partition, None, segments, _findings(task, report), markers=found.markers)
    reason = "no replica can be read"
    missing = MissingPartition(task.place.topic, task.place.topic_id, task.place.partition, reason)
    return BackupTaskResult(None, missing, (), _findings(task, report))


def _forget_cached(task: BackupTask) -> None:
    """Have what was read leave the page cache, where brokers have what consumers read next: all but active segments."""
    start = _first_needed(task) or 0
    for each in task.files:
        drop_cached(
            segment.log.path for paths in each.paths for segment in paths.segments[:-1] if segment.base_offset >= start
        )


def _findings(task: BackupTask, report: FindingCollector) -> tuple[Finding, ...]:
    found = report.findings(task.name)
    # What lies beside logs that are pinned, and went with its directory.
    paths = [] if task.cut_at is None else [path for each in task.files for path in each.paths]
    return without_gone(found, paths)


@dataclass(frozen=True, slots=True)
class _Taken:
    """What is taken of a partition: the stored segments, and what the snapshot says of its log."""

    stored: StoredLog
    """The segments that stay and those that were written."""
    merged: MergedLog
    replica: SourceReplica
    """The replica with the history that counts."""
    start: int
    end: int
    """The offset after the last one of the log."""
    epochs: Epochs
    losses: Sequence[Loss]
    is_compacted: bool
    last_batch: LastBatch | None
    markers: Mapping[int, int]


_Found = _Taken | int | None
"""What was taken; the replica to take as a whole; or None, as nothing can be read, or a log does not go on."""


def _opened(
    task: BackupTask,
    pinned: PinnedFiles | None,
    start: int,
    work: Callable[[tuple[PartitionFiles, ...], OpenFiles], _Found],
) -> _Found:
    """``work`` with the files that may have offsets from ``start`` on, which are open."""

    def sources(listed: tuple[PartitionFiles, ...]) -> list[LogFile]:
        return [file for each in listed for file in _from(each, start).files]

    def opened_from(listed: tuple[PartitionFiles, ...], opened: OpenFiles) -> _Found:
        return work(tuple(_from(each, start) for each in listed), opened)

    return with_open_files(
        task.files, sources, lambda listed: tuple(map(list_files_again, listed)), opened_from, pinned=pinned
    )


def _from(files: PartitionFiles, start: int) -> PartitionFiles:
    """Return those of a partition's files that may have offsets from ``start`` on."""
    first = max((each.base_offset for each in files.files if each.base_offset <= start), default=0)
    return replace(files, files=tuple(each for each in files.files if each.base_offset >= first))


def _first_needed(task: BackupTask) -> int | None:
    """The offset from which on a log is read that goes on from the snapshot before: the tail that may be stored again,
    and the last batch. None where all of it is read."""
    previous = task.previous
    if previous is None or task.is_compacted or task.is_alone or not (previous.segments and previous.is_whole):
        return None
    known = previous.partition
    if known.is_compacted or known.lost or not known.epochs or known.last_batch is None:
        return None
    if any(each.cleaned_until is not None for each in task.files):
        return None
    new = max(sum(file.size for file in _from(each, known.last_batch.first_offset).files) for each in task.files)
    tail = previous.segments[_joined(task, previous.segments, new, 0) :]
    return min([known.last_batch.first_offset, *(each.start_offset for each in tail)])


def _joined(task: BackupTask, segments: Sequence[SnapshotSegment], new: int, begin: int) -> int:
    """Return how many segments stay, if those after them are stored again with ``new`` bytes: the last one, while it is
    smaller than what comes after it or than :data:`_SMALL`, and the producers before it are known. ``begin``: from
    where on the source is whole."""
    most, is_encrypted = task.config.segment_bytes, task.how.data_key is not None
    kept = len(segments) if new else 0
    while new and kept:
        last = segments[kept - 1]
        is_small = last.size_in_bytes < max(new, _SMALL) and last.size_in_bytes + new <= most
        is_known = kept == 1 or not is_encrypted or segments[kept - 2].producers is not None
        if not is_small or last.start_offset < begin or not is_known:
            break
        kept, new = kept - 1, new + last.size_in_bytes
    return kept if new else len(segments)


def _go_on(
    task: BackupTask, files: tuple[PartitionFiles, ...], opened: OpenFiles, *, report: Report, done: Done
) -> _Taken | None:
    """Return what is new of a log that goes on from the snapshot before; None where nothing shows that it does."""
    assert task.previous is not None
    known, segments = task.previous.partition, task.previous.segments
    last = known.last_batch
    assert last is not None
    merged = read_merged_log(files, opened, task.max_batch_bytes, report=report, done=done)
    if any(each.is_compacted for each in merged.replicas) or all(each.is_unreadable for each in files):
        return None
    end = last.last_offset + 1
    leading = merged.replicas[merged.leading]
    epochs = earliest(leading.starts)
    source = task.replicas[merged.leading]
    now = files[merged.leading]
    listed = now.paths[0].segments
    begin = listed[0].base_offset if listed else merged.begin
    damaged = damaged_spans(merged)
    if truncation_offset(epochs, reach_of(leading.reach, damaged, end), known.epochs, end) != end:
        return None
    batches = merged.filled.batches
    if begin <= last.first_offset and not has_batch(batches, last) and not meets(damaged, last.first_offset, end):
        return None
    start = max(begin, now.checkpointed_start or 0, known.start_offset)
    if begin > end:
        text = f"{begin - end:,} offsets were deleted before they were backed up"
        report(Kind.OFFSETS_MISSED.at(source.files.paths[0].path, text, offset=end))
    new = int(batches["size"][batches["first"] >= end].sum())
    # What is damaged on the disks, and stored, is not stored again.
    whole_from = max([begin, *(until for first, until in damaged if first < end)])
    kept = segments[: _joined(task, segments, new, whole_from)]
    base = max(begin, kept[-1].end_offset + 1 if kept else segments[0].start_offset)
    rows = batches[batches["first"] >= base]
    lineage = lineage_of(known.epochs, merged.recorded, rows, base)
    stored = StoredLog(_storing(task, source, files, opened, report=report, done=done))
    stored.keep(kept)
    taken = stored.write(rows, base, lineage)
    _report_divergences(merged, files, report)
    return _Taken(
        stored, merged, source, start, end=max(merged.end, start), epochs=lineage,
        losses=losses_of(merged, rows[~taken], base), is_compacted=False,
        last_batch=last_batch_of(rows[taken], stored, task.previous), markers=_markers(task, batches, opened),
    )  # fmt: skip


def _take_whole(
    task: BackupTask, files: tuple[PartitionFiles, ...], opened: OpenFiles, *, report: Report, done: Done
) -> _Found:
    """All of a log, but for segments that are stored unchanged; or which replica is to be taken by itself."""
    merged = read_merged_log(files, opened, task.max_batch_bytes, report=report, done=done)
    if all(each.is_unreadable for each in files):
        return None
    is_compacted = task.is_compacted or any(each.is_compacted for each in merged.replicas)
    if is_compacted and not task.is_alone and len(files) > 1:
        return _best_alone(task, merged)
    rows, base = merged.filled.batches, merged.begin
    lineage = lineage_of((), merged.recorded, rows, base)
    source = task.replicas[merged.leading]
    how = _storing(task, source, files, opened, report=report, done=done)
    stored, refused = StoredLog(how), [rows[:0]]
    known = () if task.previous is None else task.previous.segments
    agreed = _report_change(task, merged, lineage, report)
    # A compacted log that lacks records is not filled with older ones: a value could come back.
    damaged = () if is_compacted else damaged_spans(merged)
    filling = {each for each in known if each.end_offset < agreed and meets(damaged, *span_of(each))}
    kept: list[Span] = []
    lost = [] if task.previous is None else lost_spans(task.previous.partition)
    for segment, own in unchanged_ranges(rows, known, how, filling):
        if segment is not None:
            stored.keep([segment], own)
            kept += [span_of(segment)] if segment in filling else []
            base = segment.end_offset + 1
        else:
            taken = stored.write(own, base, lineage)
            refused.append(own[~taken])
            base = int(own["last"][-1]) + 1
    _report_divergences(merged, files, report)
    end = max(merged.end, merged.start)
    return _Taken(
        stored, merged, source, merged.start, end=end, epochs=lineage,
        losses=losses_of(merged, np.concatenate(refused), merged.start, without(kept, lost)), is_compacted=is_compacted,
        last_batch=last_batch_of(rows, stored, task.previous), markers=_markers(task, rows, opened),
    )  # fmt: skip


def _best_alone(task: BackupTask, merged: MergedLog) -> int:
    """The replica of a compacted log that is taken as a whole: one that ends where the leading one does, and that is
    intact; of these that of the snapshot before. Parts of two are never put together, as a value could come back whose
    tombstone is in the other."""
    leading = merged.replicas[merged.leading]
    before = None if task.previous is None else task.previous.partition.directory

    def key(number: int) -> tuple[bool, bool, bool]:
        replica = merged.replicas[number]
        return bool(replica.losses), task.replicas[number].directory != before, number != merged.leading

    ends = [(each.last_epoch, each.reach) for each in merged.replicas]
    in_sync = [number for number, end in enumerate(ends) if end == (leading.last_epoch, leading.reach)]
    return min(in_sync, key=key)


def _markers(task: BackupTask, batches: IntactBatches, opened: OpenFiles) -> dict[int, int]:
    """Count the markers of each producer that a log has since the cut: after where it ended then, or of an epoch that
    the log had not there, as another leader has cut it back."""
    found: dict[int, int] = {}
    if task.cut_at is None:
        return found
    known = np.array(task.cut_epochs or ((-1, 0),), np.int64)
    rows = np.searchsorted(known[:, 1], batches["first"], "right") - 1
    is_other = bool(task.cut_epochs) & (known[np.maximum(rows, 0), 0] != batches["epoch"]) & (batches["magic"] >= 2)
    new = batches[(batches["first"] >= task.cut_at) | is_other]
    for start, end in groups_of(new):
        for buffer in intact_bytes(new[start:end], opened, task.max_batch_bytes):
            headers = whole_batches(buffer)
            for each in headers.producer_id[headers.is_control & headers.is_transactional].tolist():
                found[each] = found.get(each, 0) + 1
    return found


def _report_deleted(task: BackupTask, partition: SnapshotPartition, taken: _Taken, report: Report) -> None:
    """Report where a log was deleted from its start on between the cut and its turn."""
    paths = taken.replica.files.paths[0]
    start = paths.start_offset
    if task.cut_at is not None and start is not None and partition.start_offset > start:
        text = "offsets were deleted before it was their turn; what is stored begins where the log began then"
        report(deleted_meanwhile(paths.path, text, start, partition.start_offset, severity="info"))


def _report_erased(task: BackupTask, taken: _Taken, report: Report) -> None:
    """Report records that were erased in the backup, and that a disk has."""
    erased = taken.stored.how.erased
    if erased is not None and erased.found:
        path = taken.replica.files.paths[0].path
        text = f"{count_of(len(erased.found), 'record')} here that an erasure took out of the backup; not stored again"
        report(Kind.ERASED_ON_DISK.at(path, text, offset=min(erased.found)))


def _storing(
    task: BackupTask,
    source: SourceReplica,
    files: Sequence[PartitionFiles],
    opened: OpenFiles,
    *,
    report: Report,
    done: Done,
) -> Storing:
    indexed = [segment for each in files for path in each.paths for segment in path.segments]
    return Storing(
        replace(task.place, broker_id=source.node_id), opened, task.config, task.max_batch_bytes, indexed=indexed,
        how=task.how, report=report, done=done, dry_run=task.dry_run, base_offsets=task.base_offsets,
        erased=None if task.erased is None else ErasedFilter(task.erased, task.max_batch_bytes),
    )  # fmt: skip


def _report_divergences(merged: MergedLog, files: Sequence[PartitionFiles], report: Report) -> None:
    for each in divergences(merged.replicas, merged.agreements):
        text = f"not backed up: up to offset {each.last_offset}, this replica has records of another history"
        report(Kind.REPLICA_DIVERGES.at(files[each.replica].paths[0].path, text, offset=each.offset))


def _report_change(task: BackupTask, merged: MergedLog, epochs: Epochs, report: Report) -> int:
    """Report where a log is another one than the snapshot before has, as after an unclean election; and return up to
    where leader epochs show that it is the same one."""
    known = None if task.previous is None else task.previous.partition
    if known is None or known.last_batch is None or not known.epochs:
        return 0
    end = known.last_batch.last_offset + 1
    agreed = truncation_offset(epochs, reach_of(merged.reach, damaged_spans(merged), end), known.epochs, end)
    if agreed is not None and agreed < end:
        text = "from here on, the log is another one than the snapshot before has, which stays as it is"
        report(Kind.HISTORY_CHANGED.at(task.replicas[merged.leading].files.paths[0].path, text, offset=agreed))
    return agreed or 0


def _described(task: BackupTask, taken: _Taken) -> tuple[SnapshotPartition, tuple[SnapshotSegment, ...]]:
    segments = with_last_producers([each for each in taken.stored.segments if each.end_offset >= taken.start])
    end = max([taken.end, *(each.end_offset + 1 for each in segments[-1:])])
    partition = SnapshotPartition(
        task.place.topic, task.place.topic_id, task.place.partition, start_offset=taken.start, end_offset=end,
        committed=-1 if taken.merged.committed is None else taken.merged.committed,
        records=sum(each.records for each in segments), size_in_bytes=sum(each.size_in_bytes for each in segments),
        new_size_in_bytes=taken.stored.new_size, is_compacted=taken.is_compacted, node_id=taken.replica.node_id,
        directory=taken.replica.directory, epochs=truncate_from_end(taken.epochs, end), last_batch=taken.last_batch,
        open_transactions=_open_transactions(task, taken),
        lost=tuple(LostRange(each.first_offset, each.last_offset, each.causes) for each in taken.losses),
    )  # fmt: skip
    return partition, tuple(segments)


def _open_transactions(task: BackupTask, taken: _Taken) -> tuple[OngoingTransaction, ...]:
    state = None if task.dry_run else taken.stored.producers()
    found = [] if state is None else [(each, state.producers[each].txn_first_offset) for each in state.open_producers]
    return tuple(OngoingTransaction(*each) for each in sorted(found, key=lambda one: one[1]))
