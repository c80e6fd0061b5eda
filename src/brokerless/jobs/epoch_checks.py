"""Checks leader epochs (KIP-101): they never fall from batch to batch, and the checkpoint agrees with the batches.

Followers ask the checkpoint where they differ from the leader, so a wrong one makes them cut off too much or too
little (``LeaderEpochFileCache``, 4.1.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from brokerless.findings import Finding, Kind
from brokerless.log.checkpoint.leader_epochs import LeaderEpochs, load_leader_epochs
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import has_changed, segment_now
from brokerless.log.segment import Chunk
from brokerless.log.storage.paths import is_remote
from brokerless.log.tiered.detection import is_tiered

Change = tuple[int, int, str, int]
"""A batch of another epoch than the one before it: its epoch, offset, path and position."""


@dataclass(slots=True)
class LeaderEpochCheck:
    """Follows a partition's intact batches, and keeps where each epoch begins. ``has_legacy``: whether messages v0 or
    v1 were among them."""

    _last: int = -1
    changes: list[Change] = field(default_factory=list[Change])
    has_legacy: bool = False

    def follow(self, chunk: Chunk, path: str) -> Iterator[Finding]:
        batches = chunk.batches
        stamped = batches.partition_leader_epoch.astype(np.int64)
        if batches.is_legacy.any():
            # Messages v0 and v1 have no epoch, and make the log forget those before.
            self.changes.clear()
            self.has_legacy = True
        for row in np.flatnonzero(stamped != np.concatenate([[self._last], stamped[:-1]])).tolist():
            epoch = int(stamped[row])
            if epoch < 0:
                continue
            position, offset = int(chunk.positions[row]), int(batches.entry_offset[row])
            if epoch < self._last:
                text = (
                    "a leader epoch before that of the batches before it: two logs were mixed, or a header was changed"
                )
                expected, found = f"epoch {self._last} or more", f"epoch {epoch}"
                yield Finding(
                    "warning",
                    Kind.LEADER_EPOCH_ORDER,
                    path,
                    position=position,
                    offset=offset,
                    message=text,
                    expected=expected,
                    found=found,
                )
            self.changes.append((epoch, offset, path, position))
            self._last = epoch

    def watch(self, chunk: Chunk, path: str) -> tuple[Finding, ...]:
        """Follows without findings about the order of epochs."""
        for _ in self.follow(chunk, path):
            pass
        return ()

    def add(self, following: LeaderEpochCheck) -> None:
        """Goes on with the batches of the next segment, which were followed by themselves."""
        if following.has_legacy:
            self.changes.clear()
            self.has_legacy = True
        self.changes += following.changes

    def findings(self, checkpoint: LeaderEpochs | None, end_offset: int, is_partition: bool) -> Iterator[Finding]:
        """The checkpoint against the batches, when all were followed. ``end_offset`` of the log; ``is_partition``: this
        is a partition's directory, in which a broker keeps a checkpoint."""
        if checkpoint is None:
            if self.changes and is_partition:
                epoch, offset, path, position = self.changes[0]
                text = "batches have a leader epoch, but there is no leader-epoch-checkpoint beside them"
                yield Finding(
                    "info", Kind.LEADER_EPOCH_CHECKPOINT_MISSING, path, position=position, offset=offset, message=text
                )
            return
        if checkpoint.findings:
            return
        starts, epochs = checkpoint.start_offsets, checkpoint.epochs
        for epoch, offset, path, position in self.changes:
            at = int(np.searchsorted(starts, offset, side="right")) - 1
            if at < 0 and len(epochs) and epoch <= int(epochs[0]):
                continue  # records before it were deleted, and with them their epochs
            if at < 0 or int(epochs[at]) != epoch:
                text = f"this batch has another leader epoch than {checkpoint.file} says"
                expected = "no epoch" if at < 0 else f"epoch {epochs[at]} from offset {starts[at]}"
                found = f"epoch {epoch}"
                yield Finding(
                    "warning",
                    Kind.LEADER_EPOCH_MISMATCH,
                    path,
                    position=position,
                    offset=offset,
                    message=text,
                    expected=expected,
                    found=found,
                )
        if len(starts) and int(starts[-1]) > end_offset:
            text = "the last leader epoch begins after the end of the log: what was written in it is not there"
            expected, found = f"at most offset {end_offset}", f"epoch {epochs[-1]} from offset {starts[-1]}"
            kind = Kind.LEADER_EPOCH_BEYOND_END
            yield Finding(
                "warning", kind, checkpoint.file, offset=int(starts[-1]), message=text, expected=expected, found=found
            )


def check_leader_epochs(partition: PartitionPath) -> Iterator[Finding]:
    """What is wrong with a partition's ``leader-epoch-checkpoint``, or with its absence, by itself."""
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
    """A partition's checkpoint against its batches, when all were followed: what contradicts them, or that a start
    deletes its remote segments. As :meth:`LeaderEpochCheck.findings`."""
    entry = partition.leader_epoch_checkpoint
    checkpoint = None if entry is None else load_leader_epochs(entry.location)
    wrong = list(check.findings(checkpoint, end_offset, is_partition))
    last = partition.segments[-1] if wrong and partition.segments else None
    if last is not None and _has_changed(last):  # a broker appends to it, or truncates it, and writes its checkpoint
        wrong = [each for each in wrong if each.offset is not None and each.offset < last.base_offset]
    if _has_remote_offsets(partition) or any(each.kind in _DEADLY for each in wrong):
        from brokerless.internals.remote.leader_epochs import check_remote_epochs

        if (lost := check_remote_epochs(partition)) is not None:
            is_known = checkpoint is None or not len(checkpoint.epochs)  # by check_leader_epochs
            wrong = [each for each in wrong if each.kind not in _DEADLY]
            wrong += [] if is_known else [lost]
    yield from wrong


def _has_remote_offsets(partition: PartitionPath) -> bool:
    """Whether the log has segments of a bucket, or begins before those that are here."""
    own = [each for each in partition.segments if not is_tiered(each.log.location)]
    return len(own) < len(partition.segments) or bool(own and partition.log_start_offset < own[0].base_offset)


def _has_changed(segment: SegmentPaths) -> bool:
    """Whether a log on this machine is not what was listed any more."""
    if is_remote(segment.log.path):
        return False
    now, _ = segment_now(segment)
    return now is None or has_changed(now.log, segment.log)


_DEADLY = (Kind.LEADER_EPOCH_MISMATCH, Kind.LEADER_EPOCH_CHECKPOINT_MISSING)
"""Where a partition is tiered."""
