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
from itertools import pairwise
from pathlib import Path

from brokerless.findings import Finding
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
from brokerless.log.completion.files import Completion, complete
from brokerless.log.config import LogConfig
from brokerless.log.producer.loading import LoadedProducers, advance, load_producers
from brokerless.log.producer.recorded_aborts import RecordedAborts
from brokerless.log.producer.state import ProducerState, aborted_entry
from brokerless.log.recovery.segment import (
    OffsetOverflowError,
    SegmentRecovery,
    check_split,
    recover_segment,
    recover_split_segment,
)
from brokerless.log.recovery.trust import Distrust, Flushed, TrustedSegment, trusted
from brokerless.log.storage.atomic import sync_directory, write_file
from brokerless.log.storage.guarded_files import open_own, sync
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.segment_files import SegmentFiles
from brokerless.log.write.active_segment import SegmentState
from brokerless.log.write.segment_state import describe_segment, remove_segments


@dataclass(frozen=True, slots=True)
class RecoveredSegment:
    """A segment that is followed batch by batch, and what comes of it."""

    base_offset: int
    reason: Distrust
    result: SegmentRecovery

    @property
    def last_base_offset(self) -> int:
        """The base offset of the last segment that comes of it: a broker may split it."""
        return max((self.base_offset, *self.result.parts))


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """A plan of what loading the log in ``directory`` does."""

    directory: Path
    completion: Completion
    """What is done about orphaned files."""
    files: SegmentFiles
    """The files that are left after that."""
    considered: tuple[TrustedSegment, ...]
    """All segments in ``files``, and why each is recovered, if it is."""
    recovered: tuple[RecoveredSegment, ...]
    segments: tuple[int, ...]
    """Base offsets of the segments that stay; an empty log has none and gets a new one."""
    deleted: tuple[int, ...]
    """Base offsets of segments that are deleted because an earlier one is cut or because the log ends before its start
    offset."""
    active: SegmentState
    """The state of the last segment after loading."""
    log_start_offset: int
    recovery_point: int
    log_end_offset: int
    epochs: Epochs
    is_epochs_changed: bool
    snapshots: dict[int, bytes]
    """Producer snapshots that are written, by offset."""
    dropped_snapshots: tuple[int, ...]
    """Offsets of the producer snapshots that are deleted."""

    @property
    def trusted(self) -> tuple[int, ...]:
        """The base offsets of segments that stay, and that are taken as their files say."""
        recovered = {each.base_offset for each in self.recovered}
        return tuple(each for each in self.segments if each not in recovered)

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
    as_kafka: str | None = None,
    again: Collection[int] = (),
) -> RecoveryPlan:
    """Return what loading the partition in ``directory`` does to it. ``checkpoints`` are its lines in its log
    directory's, ``clean`` whether that has the mark of a clean stop; ``now_ms`` (since the epoch) decides which
    producers are known. ``as_kafka``: a version that loads it. After a clean stop it takes the last segment unchecked,
    and it splits a segment whose offsets are too far apart; without one, the last segment is recovered if it is not as
    such a stop leaves it, and the other is refused. ``again``: base offsets of segments whose indexes are made again,
    whatever they say.

    Raises :class:`UnreadableError` for what cannot be read, or what Kafka would refuse to load.
    """
    entries = Location(str(directory)).entries()
    completion = complete(entries)
    files = _completed_files(Path(directory), entries, completion)
    log_start, segments = checkpoints.log_start_offset or 0, files.offsets("log")
    epochs_before = _load_epochs(Path(directory))
    considered = trusted(files, Flushed(checkpoints.recovery_point or 0, clean), as_kafka=as_kafka)
    considered = tuple(
        TrustedSegment(each.base_offset, "index-mismatch")
        if each.reason is None and each.base_offset in again
        else each
        for each in considered
    )
    reasons: dict[int, Distrust] = {each.base_offset: each.reason for each in considered if each.reason is not None}
    recovered, producers, epochs = _recover(
        files,
        reasons,
        config,
        log_start=log_start,
        epochs=epochs_before,
        now_ms=now_ms,
        split=None if as_kafka is None else (),
    )
    kept = segments
    # LogLoader.recoverLog deletes what follows a cut; a segment that is only recovered for its indexes, as in
    # loadSegmentFiles, is cut alone.
    if recovered and recovered[-1].result.is_cut and recovered[-1].reason == "not-flushed":
        kept = [base for base in segments if base <= recovered[-1].base_offset]
    active, end = SegmentState(log_start), log_start
    if kept and (last := _last_recovered(recovered, kept[-1])) is not None:
        active, end = last.result.state, last.result.next_offset
    elif kept:
        active, end = describe_segment(files, kept[-1])
    snapshots = files.offsets("producer-snapshot")
    # Before a segment is recovered, truncateAndReload drops snapshots outside of (log start, base offset].
    dropped = [] if not reasons else [each for each in snapshots if each > min(reasons) or each <= log_start]
    if kept and end < log_start:
        # Segment files were taken away: nothing before the log start offset is of any use
        # (LogLoader.deleteSegmentsIfLogStartGreaterThanLogEnd).
        kept, active, end, epochs, producers, dropped = [], SegmentState(log_start), log_start, (), None, snapshots
    epochs = truncate_from_start(truncate_from_end(epochs, end), log_start)
    parts = {each.base_offset: each.result.parts for each in recovered if each.result.parts}
    first = parts.get(kept[0], kept)[0] if kept else log_start
    return RecoveryPlan(
        Path(directory),
        completion,
        files,
        considered=considered,
        recovered=recovered,
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
    for name in plan.completion.removed_names:
        (directory / name).unlink(missing_ok=True)
    for source, target in plan.completion.renamed_names:
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


def _completed_files(directory: Path, entries: Sequence[DirectoryEntry], completion: Completion) -> SegmentFiles:
    """The files that are left once those that a stop interrupted are completed."""
    changed = {*completion.removed_names, *(source for source, _ in completion.renamed_names)}
    others = {entry.name for entry in entries if not entry.is_directory} - changed
    return SegmentFiles(
        directory, {name: name for name in others} | {target: source for source, target in completion.renamed_names}
    )


def _load_epochs(directory: Path) -> Epochs:
    checkpoint = directory / names.LEADER_EPOCH_CHECKPOINT
    return epochs_of(load_leader_epochs(Location(str(checkpoint)))) if checkpoint.exists() else ()


def _recover(
    files: SegmentFiles,
    reasons: dict[int, Distrust],
    config: LogConfig,
    log_start: int,
    epochs: Epochs,
    now_ms: int,
    split: Collection[int] | None,
) -> tuple[tuple[RecoveredSegment, ...], LoadedProducers | None, Epochs]:
    """Recover segments in order. ``split``: those that are split, None where none may be; at each, a broker begins
    again (``LogLoader.retryOnOffsetOverflow``). A broker rebuilds transaction indexes by markers alone; where this
    is not what one does, entries stay whose marker is not in the log any more."""
    recovered: list[RecoveredSegment] = []
    producers: LoadedProducers | None = None
    segments = files.offsets("log")
    following = dict(pairwise(segments))
    is_foreseen = split is not None and "index-mismatch" not in reasons.values()
    recorded = RecordedAborts() if is_foreseen else RecordedAborts.of_files(files)
    epochs_before = epochs
    for base, reason in reasons.items():
        if producers is None:
            producers = load_producers(files, segments, log_start, end_offset=base, now_ms=now_ms)
            producers.state.recorded = recorded
        else:
            if producers.state.end_offset <= log_start:
                # Up to the log start offset no snapshot is taken, so Kafka knows nothing when it comes to the next one.
                producers.state = ProducerState(log_start, recorded=recorded)
            producers.state.expire(now_ms)
            advance(producers, files, segments, log_start_offset=log_start, end_offset=base)
        with files.location(base, "log").open() as file:
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
        if base in following and not result.is_cut:
            ended = b"".join(map(aborted_entry, producers.state.skip(following[base])))
            result = replace(result, transaction_index=result.transaction_index + ended)
        recovered.append(RecoveredSegment(base, reason, result))
        # LogLoader.recoverSegment takes one unless LogSegment.recover throws.
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
