"""Checks leader epochs (KIP-101): they never fall from batch to batch, and the checkpoint agrees with the batches.

Followers ask the checkpoint where they differ from the leader, so a wrong one makes them cut off too much or too
little (``LeaderEpochFileCache``, 4.1.1).

An epoch begins at the base offset of a batch, or, where nothing was written in it, at the end of the log
(``UnifiedLog.append``, ``Partition.makeLeader``): no entry lies within a batch, nor between batches of one epoch. Only
the first one may, as it moves to the log start offset (``truncateFromStart``). An entry between batches of different
epochs proves nothing: compaction may have removed what was there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from brokerless.findings import Finding, Kind
from brokerless.log.checkpoint.leader_epochs import LeaderEpochs, load_leader_epochs
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import has_changed, segment_now
from brokerless.log.segment import Chunk
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.storage.paths import is_remote


@dataclass(slots=True)
class EpochRun:
    """Batches of one leader epoch, one after the other."""

    epoch: int
    start_offset: int
    last_offset: int
    """The last offset of the last batch."""
    path: str
    """The file of the first batch."""
    position: int
    """The position of the first batch in that file (bytes)."""


@dataclass(slots=True)
class LeaderEpochCheck:
    """A check of leader epochs: it follows a partition's intact batches, and retains the runs of each epoch."""

    _last: int = -1
    runs: list[EpochRun] = field(default_factory=list[EpochRun])
    has_legacy: bool = False
    """The batches include messages v0 or v1."""

    def follow(self, chunk: Chunk, path: str) -> Iterator[Finding]:
        batches = chunk.batches
        if not batches.all_v2:
            # Messages v0 and v1 have no epoch, and make the log forget those before.
            self.runs.clear()
            self.has_legacy = True
        stamped = batches.partition_leader_epoch
        changed = (np.flatnonzero(stamped[1:] != stamped[:-1]) + 1).tolist()
        for row, following in zip([0, *changed], [*changed, len(stamped)], strict=True):
            epoch, last_offset = int(stamped[row]), int(batches.last_offset[following - 1])
            if epoch < 0:
                continue
            if epoch == self._last and self.runs:
                self.runs[-1].last_offset = last_offset
                continue
            position, offset = int(chunk.positions[row]), int(batches.entry_offset[row])
            if epoch < self._last:
                text = (
                    "a leader epoch before that of the batches before it: two logs were mixed, or a header was changed"
                )
                expected, found = f"epoch {self._last} or more", f"epoch {epoch}"
                yield Kind.LEADER_EPOCH_ORDER.at(
                    path, text, severity="warning", position=position, offset=offset, expected=expected, found=found
                )
            self.runs.append(EpochRun(epoch, offset, last_offset, path=path, position=position))
            self._last = epoch

    def watch(self, chunk: Chunk, path: str) -> tuple[Finding, ...]:
        """Follows without findings about the order of epochs."""
        for _ in self.follow(chunk, path):
            pass
        return ()

    def add(self, following: LeaderEpochCheck) -> None:
        """Goes on with the batches of the next segment, which were followed by themselves."""
        if following.has_legacy:
            self.runs.clear()
            self.has_legacy = True
        runs = list(following.runs)
        if self.runs and runs and runs[0].epoch == self.runs[-1].epoch:
            self.runs[-1] = replace(self.runs[-1], last_offset=runs.pop(0).last_offset)
        self.runs += runs

    def findings(self, checkpoint: LeaderEpochs | None, end_offset: int, is_partition: bool) -> Iterator[Finding]:
        """Yield the checkpoint against the batches, when all were followed. ``end_offset`` of the log;
        ``is_partition``: this is a partition's directory, in which a broker keeps a checkpoint."""
        if checkpoint is None:
            if self.runs and is_partition:
                first = self.runs[0]
                text = "batches have a leader epoch, but there is no leader-epoch-checkpoint beside them"
                yield Kind.LEADER_EPOCH_CHECKPOINT_MISSING.at(
                    first.path, text, severity="info", position=first.position, offset=first.start_offset
                )
            return
        if checkpoint.findings:
            return
        yield from filter(None, (_mismatch(run, checkpoint) for run in self.runs))
        starts, epochs = checkpoint.start_offsets, checkpoint.epochs
        if len(starts) and int(starts[-1]) > end_offset:
            text = "the last leader epoch begins after the end of the log: what was written in it is not there"
            expected, found = f"at most offset {end_offset}", f"epoch {epochs[-1]} from offset {starts[-1]}"
            kind = Kind.LEADER_EPOCH_BEYOND_END
            yield kind.at(
                checkpoint.file, text, severity="warning", offset=int(starts[-1]), expected=expected, found=found
            )


def epochs_disagree(
    file: str, text: str, *, offset: int, expected: str, position: int | None = None, found: str | None = None
) -> Finding:
    """Return the finding about leader epochs of which a checkpoint and the batches say different things."""
    return Kind.LEADER_EPOCH_MISMATCH.at(
        file, text, severity="warning", position=position, offset=offset, expected=expected, found=found
    )


def _mismatch(run: EpochRun, checkpoint: LeaderEpochs) -> Finding | None:
    """Return how the checkpoint contradicts the batches of a run, if it does: the epoch at its first offset, else an
    entry that begins after that and within the run."""
    starts, epochs = checkpoint.start_offsets, checkpoint.epochs
    following, after = np.searchsorted(starts, (run.start_offset, run.last_offset), side="right").tolist()
    is_before_all = not following and len(epochs) and run.epoch <= int(epochs[0])
    if not is_before_all and (not following or int(epochs[following - 1]) != run.epoch):
        expected = "no epoch" if not following else f"epoch {epochs[following - 1]} from offset {starts[following - 1]}"
        return epochs_disagree(
            run.path,
            f"this batch has another leader epoch than {checkpoint.file} says",
            position=run.position,
            offset=run.start_offset,
            expected=expected,
            found=f"epoch {run.epoch}",
        )
    if is_before_all and int(epochs[0]) == run.epoch:
        following = 1  # records before it were deleted, and with them their epochs
    if following >= after:
        return None
    return epochs_disagree(
        checkpoint.file,
        "a leader epoch begins within batches of another one",
        offset=int(starts[following]),
        expected=f"epoch {run.epoch} up to offset {run.last_offset}",
        found=f"epoch {epochs[following]} from offset {starts[following]}",
    )


def check_leader_epochs(partition: PartitionPath) -> Iterator[Finding]:
    """Yield what is wrong with a partition's ``leader-epoch-checkpoint``, or with its absence, by itself."""
    entry = partition.leader_epoch_checkpoint
    loaded = None if entry is None else load_leader_epochs(entry.location)
    findings = () if loaded is None else loaded.findings
    if loaded is None or not len(loaded.epochs):
        from brokerless.internals.remote.leader_epochs import check_remote_epochs

        damage = next((each for each in findings if each.severity == "error"), None)
        if (lost := check_remote_epochs(partition, damage)) is not None:
            findings = (lost,)
    yield from findings


def check_epochs(
    partition: PartitionPath, check: LeaderEpochCheck, end_offset: int, is_partition: bool
) -> Iterator[Finding]:
    """Yield a partition's checkpoint against its batches, when all were followed: what contradicts them, or that a
    start deletes its remote segments. As :meth:`LeaderEpochCheck.findings`."""
    entry = partition.leader_epoch_checkpoint
    checkpoint = None if entry is None else load_leader_epochs(entry.location)
    wrong = list(check.findings(checkpoint, end_offset, is_partition))
    last = partition.segments[-1] if wrong and partition.segments else None
    if last is not None and _has_changed(last):  # a broker appends to it, or truncates it, and writes its checkpoint
        wrong = [each for each in wrong if each.offset is not None and each.offset < last.base_offset]
        wrong = [] if entry is None or _is_rewritten(entry) else wrong
    if _has_remote_offsets(partition) or any(each.kind in _DEADLY for each in wrong):
        from brokerless.internals.remote.leader_epochs import check_remote_epochs

        if (lost := check_remote_epochs(partition)) is not None:
            is_known = checkpoint is None or not len(checkpoint.epochs)  # by check_leader_epochs
            wrong = [each for each in wrong if each.kind not in _DEADLY]
            wrong += [] if is_known else [lost]
    yield from wrong


def _has_remote_offsets(partition: PartitionPath) -> bool:
    """Return whether the log has segments of a bucket, or begins before those that are here."""
    own = partition.local_segments
    return len(own) < len(partition.segments) or bool(own and partition.log_start_offset < own[0].base_offset)


def _has_changed(segment: SegmentPaths) -> bool:
    """Return whether a log on this machine is not what was listed any more."""
    if is_remote(segment.log.path):
        return False
    now, _ = segment_now(segment)
    return now is None or has_changed(now.log, segment.log)


def _is_rewritten(listed: DirectoryEntry) -> bool:
    """Return whether a file on this machine is not what was listed any more."""
    directory = listed.location.at(listed.path.removesuffix(listed.name))
    now = directory.find_entry(listed.name)
    return now is None or has_changed(now, listed)


_DEADLY = (Kind.LEADER_EPOCH_MISMATCH, Kind.LEADER_EPOCH_CHECKPOINT_MISSING)
"""Where a partition is tiered."""
