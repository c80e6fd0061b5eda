"""Plans and applies the recovery of a log, as a broker does when it loads it.

After a clean stop that is next to nothing. After an unclean one, orphaned files are removed, and the segments from the
recovery point on are read batch by batch: the log ends before the first invalid one, later segments are deleted, and
indexes are rebuilt. The plan describes all of this as values and changes nothing.

Source: ``LogLoader`` (4.1.1).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Literal

import numpy as np

from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.format import layouts
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import (
    Epochs,
    epochs_of,
    leader_epoch_checkpoint,
    load_leader_epochs,
    truncate_from_end,
    truncate_from_start,
)
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets
from brokerless.log.config import LogConfig
from brokerless.log.index.readers import has_unknown_version
from brokerless.log.producer.loading import LoadedProducers, advance, load_producers
from brokerless.log.producer.state import ProducerState
from brokerless.log.recovery.orphaned_files import OrphanedFiles, plan_orphaned_files
from brokerless.log.recovery.segment import (
    OffsetOverflowError,
    SegmentRecovery,
    check_split,
    recover_segment,
    recover_split_segment,
)
from brokerless.log.segment import ignore, scan_headers
from brokerless.log.storage.atomic import sync_directory, write_file
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.own_files import open_own, sync
from brokerless.log.storage.segment_files import SegmentFiles
from brokerless.log.write.active_segment import SegmentState
from brokerless.log.write.segment_state import describe_segment, remove_segments

Reason = Literal["not-flushed", "index-missing", "transaction-index-corrupt", "not-closed"]
"""Why a segment is recovered: it is not before the recovery point; it has no offset index; its transaction index does
not fit it; it is the last one, and although the stop was clean, its end or its indexes are not as a closed one's."""


@dataclass(frozen=True, slots=True)
class RecoveredSegment:
    """A segment that is followed batch by batch, and what comes of it."""

    base_offset: int
    reason: Reason
    result: SegmentRecovery

    @property
    def last_base_offset(self) -> int:
        """The base offset of the last segment that comes of it: a broker may split it."""
        return max((self.base_offset, *self.result.parts))


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What loading the log in ``directory`` does. ``segments`` are the base offsets of those that stay; an empty log
    has none and gets a new one. ``active`` is what is in the last one afterwards.

    ``deleted`` are base offsets of segments that go because an earlier one is cut or because the log ends before its
    start offset. ``files``: those that are left once orphaned files are cleared. ``snapshots`` are producer snapshots
    that are written, by offset; those at ``dropped_snapshots`` go.
    """

    directory: Path
    orphaned_files: OrphanedFiles
    files: SegmentFiles
    recovered: tuple[RecoveredSegment, ...]
    segments: tuple[int, ...]
    deleted: tuple[int, ...]
    active: SegmentState
    log_start_offset: int
    recovery_point: int
    log_end_offset: int
    epochs: Epochs
    is_epochs_changed: bool
    snapshots: dict[int, bytes]
    dropped_snapshots: tuple[int, ...]

    @property
    def stops(self) -> tuple[Finding, ...]:
        """Why recovered segments are cut."""
        return tuple(each.result.stop for each in self.recovered if each.result.stop is not None)


def plan_recovery(
    directory: str | Path,
    config: LogConfig,
    checkpoints: PartitionOffsets,
    now_ms: int,
    *,
    clean: bool,
    trusting: bool = False,
) -> RecoveryPlan:
    """Return what loading the partition in ``directory`` does to it. ``checkpoints`` are its lines in its log
    directory's, ``clean`` whether that has the mark of a clean stop; ``now_ms`` (since the epoch) decides which
    producers are known. ``trusting``: after a clean stop the last segment is taken unchecked, as Kafka does; else it is
    recovered if it is not as such a stop leaves it. A segment whose offsets are too far apart is split, as Kafka does;
    else it is refused.

    Raises :class:`UnreadableError` for what cannot be read, or what Kafka would refuse to load.
    """
    entries = Location(str(directory)).entries()
    orphaned_files = plan_orphaned_files(entries, _next_offset)
    files = _after(Path(directory), entries, orphaned_files)
    log_start, segments = checkpoints.log_start_offset or 0, files.offsets("log")
    epochs_before = _load_epochs(Path(directory))
    reasons = _reasons(files, checkpoints.recovery_point or 0, clean, trusting)
    recovered, producers, epochs = _recover(
        files, reasons, config, log_start=log_start, epochs=epochs_before, now_ms=now_ms, split=() if trusting else None
    )
    kept = segments
    if recovered and recovered[-1].result.is_cut and recovered[-1].reason == "not-flushed":
        kept = [base for base in segments if base <= recovered[-1].base_offset]
    active, end = SegmentState(log_start), log_start
    if kept and (last := _last_recovered(recovered, kept[-1])) is not None:
        active, end = last.result.state, last.result.next_offset
    elif kept:
        active, end = describe_segment(files, kept[-1])
    snapshots = files.offsets("producer-snapshot")
    dropped = [] if not reasons else [each for each in snapshots if each > min(reasons) or each <= log_start]
    if kept and end < log_start:
        # Segment files were taken away: nothing before the log start offset is of any use.
        kept, active, end, epochs, producers, dropped = [], SegmentState(log_start), log_start, (), None, snapshots
    epochs = truncate_from_start(truncate_from_end(epochs, end), log_start)
    parts = {each.base_offset: each.result.parts for each in recovered if each.result.parts}
    first = parts.get(kept[0], kept)[0] if kept else log_start
    return RecoveryPlan(
        Path(directory),
        orphaned_files,
        files,
        recovered,
        segments=tuple(kept),
        deleted=tuple(base for base in segments if base not in kept),
        active=active,
        log_start_offset=max(log_start, first) if kept else log_start,
        recovery_point=end if clean and kept else min(checkpoints.recovery_point or 0, end),
        log_end_offset=end,
        epochs=epochs,
        is_epochs_changed=epochs != epochs_before,
        snapshots={} if producers is None else producers.write,
        dropped_snapshots=tuple(dropped if producers is None else sorted({*dropped, *producers.corrupt})),
    )


def apply_recovery(plan: RecoveryPlan) -> None:
    """Does what a plan says. Raises OSError; whatever was done by then, the next plan goes on from there."""
    directory = plan.directory
    for name in plan.orphaned_files.remove:
        (directory / name).unlink(missing_ok=True)
    for source, target in plan.orphaned_files.rename:
        (directory / source).rename(directory / target)
    # Before the damage is cut off, for the damage shows that they must go: without it, they would stay after a crash.
    remove_segments(directory, reversed(plan.deleted))
    for segment in plan.recovered:
        if segment.base_offset not in plan.deleted:
            _rewrite(directory, segment)
    for offset in plan.dropped_snapshots:
        (directory / names.segment_file(offset, "producer-snapshot")).unlink(missing_ok=True)
    for offset, snapshot in plan.snapshots.items():
        write_file(directory / names.segment_file(offset, "producer-snapshot"), snapshot)
    if plan.is_epochs_changed:
        write_file(directory / names.LEADER_EPOCH_CHECKPOINT, leader_epoch_checkpoint(plan.epochs))
    sync_directory(directory)


def _next_offset(entry: DirectoryEntry) -> int:
    """The offset after the last batch of a log file; that of its name if it has none."""
    file = names.parse_segment_file(entry.name)
    end = 0 if file is None else file.offset
    with entry.location.open() as opened:
        for chunk in scan_headers(opened, ignore, chain_only=True):
            end = int(chunk.batches.last_offset[-1]) + 1
    return end


def _after(directory: Path, entries: list[DirectoryEntry], orphaned_files: OrphanedFiles) -> SegmentFiles:
    """The files that are left once orphaned files are cleared."""
    swapped = {source for source, _ in orphaned_files.rename}
    kept = {entry.name for entry in entries if not entry.is_directory} - {*orphaned_files.remove} - swapped
    return SegmentFiles(
        directory, {name: name for name in kept} | {target: source for source, target in orphaned_files.rename}
    )


def _load_epochs(directory: Path) -> Epochs:
    checkpoint = directory / names.LEADER_EPOCH_CHECKPOINT
    return epochs_of(load_leader_epochs(Location(str(checkpoint)))) if checkpoint.exists() else ()


def _reasons(files: SegmentFiles, recovery_point: int, clean: bool, trusting: bool) -> dict[int, Reason]:
    """Return which segments are recovered, by base offset, in order.

    Kafka reads the end of a ``.log.swap`` through its offset index, and creates an empty one where there is none: such
    a segment is not recovered for want of it (``LogLoader.load``, 4.4.0).
    """
    segments = files.offsets("log")
    reasons: dict[int, Reason] = {}
    for base, following in zip_longest(segments, segments[1:]):
        is_unflushed = following is None or following > recovery_point
        is_recovered_anyway = is_unflushed and not clean
        is_swapped = files.path(base, "log").suffix == ".swap"
        is_index_created = is_swapped and (trusting or is_recovered_anyway)
        if not files.has(base, "offset-index") and not is_index_created:
            reasons[base] = "index-missing"
        elif _is_transaction_index_corrupt(files, base):
            reasons[base] = "transaction-index-corrupt"
        elif is_recovered_anyway:
            reasons[base] = "not-flushed"
        elif following is None and not (clean and trusting) and not _is_closed(files, base):
            reasons[base] = "not-closed"
    return reasons


def _is_transaction_index_corrupt(files: SegmentFiles, base_offset: int) -> bool:
    """Return whether a transaction ended before the segment begins (``TransactionIndex.sanityCheck``); nothing else is
    checked. Raises :class:`UnreadableError` for an entry of an unknown version, unless Kafka would not come to it."""
    if not files.has(base_offset, "transaction-index"):
        return False
    path, entry = str(files.path(base_offset, "transaction-index")), layouts.TRANSACTION_INDEX_ENTRY
    with Location(path).open() as file:
        data = file.read(0, file.size)
    entries = data[: len(data) - len(data) % entry.itemsize].view(entry)
    is_before, is_unknown = entries["last_offset"] < base_offset, has_unknown_version(entries)
    if not (is_before | is_unknown).any():
        return False
    at = int(np.argmax(is_before | is_unknown))
    if not is_before[at] or is_unknown[at]:
        version = int(entries["version"][at])
        raise UnreadableError(path, f"entry {at} is of version {version}; Kafka refuses to load this log")
    return True


def _is_closed(files: SegmentFiles, base_offset: int) -> bool:
    """Return whether what is appended to a segment will be found after its present batches."""
    findings: list[Finding] = []
    state, _ = describe_segment(files, base_offset, findings.append)
    return not findings and state.size == files.path(base_offset, "log").stat().st_size


def _recover(
    files: SegmentFiles,
    reasons: dict[int, Reason],
    config: LogConfig,
    log_start: int,
    epochs: Epochs,
    now_ms: int,
    split: Collection[int] | None,
) -> tuple[tuple[RecoveredSegment, ...], LoadedProducers | None, Epochs]:
    """Recover segments in order. ``split``: those that are split, None where none may be; at each, a broker begins
    again (``LogLoader.retryOnOffsetOverflow``)."""
    recovered: list[RecoveredSegment] = []
    producers: LoadedProducers | None = None
    segments = files.offsets("log")
    epochs_before = epochs
    for base, reason in reasons.items():
        if producers is None:
            producers = load_producers(files, segments, log_start, end_offset=base, now_ms=now_ms)
        else:
            if producers.state.end_offset <= log_start:
                # Up to the log start offset no snapshot is taken, so Kafka knows nothing when it comes to the next one.
                producers.state = ProducerState(log_start)
            producers.state.expire(now_ms)
            advance(producers, files, segments, log_start_offset=log_start, end_offset=base)
        with Location(str(files.path(base, "log"))).open() as file:
            try:
                if split and base in split:
                    result, epochs = recover_split_segment(file, base, producers.state, epochs)
                else:
                    result, epochs = recover_segment(file, base, config, producers=producers.state, epochs=epochs)
            except OffsetOverflowError:
                if split is None:
                    raise
                check_split(file, base)
                return _recover(
                    files,
                    reasons,
                    config,
                    log_start=log_start,
                    epochs=epochs_before,
                    now_ms=now_ms,
                    split={*split, base},
                )
        if result.parts and reason != "not-flushed":  # what comes of it has indexes, and is not recovered
            result = replace(result, state=replace(result.state, size=result.size), stop=None)
        recovered.append(RecoveredSegment(base, reason, result))
        if not result.is_dropped:
            producers.take_snapshot()
        if result.is_cut and reason == "not-flushed":
            break
    return tuple(recovered), producers, epochs


def _last_recovered(recovered: Sequence[RecoveredSegment], last_base: int) -> RecoveredSegment | None:
    """The recovered segment with which the log ends, of which the last one that was there begins at ``last_base``: what
    a broker splits may go on after it."""
    found = max(recovered, key=lambda each: each.last_base_offset, default=None)
    return None if found is None or found.last_base_offset < last_base else found


def _rewrite(directory: Path, segment: RecoveredSegment) -> None:
    result = segment.result
    indexes: tuple[tuple[names.SegmentFileKind, bytes], ...] = (
        ("offset-index", result.offset_index),
        ("time-index", result.time_index),
        ("transaction-index", result.transaction_index),
    )
    for kind, entries in indexes:
        path = directory / names.segment_file(segment.base_offset, kind)
        if entries or kind != "transaction-index" or path.exists():
            _replace(path, entries)
    descriptor = os.open(directory / names.segment_file(segment.base_offset, "log"), os.O_WRONLY | os.O_NOFOLLOW)
    try:
        if result.is_cut:
            os.ftruncate(descriptor, result.state.size)
        sync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: Path, content: bytes) -> None:
    with os.fdopen(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.write(content)
        file.flush()
        sync(file.fileno())
