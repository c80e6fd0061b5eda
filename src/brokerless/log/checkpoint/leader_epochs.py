"""``leader-epoch-checkpoint`` (KIP-101): parsed, formatted, and updated as a log grows or is truncated.

The functions on :data:`Epochs` are pure. They return the same object if nothing changed, so that ``is not`` decides
whether the checkpoint has to be rewritten.

Sources: ``LeaderEpochCheckpointFile`` (3.9.1, 4.1.1), ``LeaderEpochFileCache``, ``UnifiedLog.append``,
``LogSegment.recover`` and ``AbstractFetcherThread`` (4.1.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from brokerless.findings import Kind
from brokerless.format.arrays import Int64s
from brokerless.format.read.batch_headers import Batches
from brokerless.log.checkpoint.text_files import (
    FileFindings,
    format_checkpoint,
    parse_entries,
    parse_integer,
    read_lines,
)
from brokerless.log.storage.location import DirectoryEntry, Location

Epochs = tuple[tuple[int, int], ...]
"""Leader epochs, each with its first offset, in order."""

_LEGACY, _NONE_BEFORE = -(2**30), -(2**30) - 1
"""Stand for an epoch where there is none; v2 batches may be stamped with -1."""


@dataclass(frozen=True, slots=True)
class LeaderEpochs:
    """``leader-epoch-checkpoint`` (KIP-101): the first offset of each leader epoch; int64 arrays of one length."""

    file: str
    epochs: Int64s
    start_offsets: Int64s
    findings: FileFindings = ()


def load_leader_epochs(location: Location) -> LeaderEpochs:
    """Reads a ``leader-epoch-checkpoint``."""
    rows, findings = read_lines(location, _parse, [], Kind.CHECKPOINT_CORRUPT)
    columns = np.array(rows, np.int64).reshape(-1, 2)
    epochs, start_offsets = columns[:, 0].copy(), columns[:, 1].copy()
    falls = np.flatnonzero((epochs[1:] <= epochs[:-1]) | (start_offsets[1:] <= start_offsets[:-1])) + 1
    if len(falls):
        at = int(falls[0])
        text = (
            "leader epochs and their start offsets must grow; a broker drops what does not fit when it reads this file"
        )
        expected = f"more than epoch {epochs[at - 1]} from offset {start_offsets[at - 1]}"
        found = f"epoch {epochs[at]} from offset {start_offsets[at]}"
        offset = int(start_offsets[at])
        findings = (
            Kind.CHECKPOINT_NOT_SORTED.at(location.path, text, offset=offset, expected=expected, found=found),
            *findings,
        )
    return LeaderEpochs(location.path, epochs, start_offsets, findings)


def _parse(lines: list[str]) -> list[tuple[int, int]]:
    entries = parse_entries(lines, 2)
    return [(parse_integer(epoch, epoch), parse_integer(offset, offset, 64)) for epoch, offset in entries]


def leader_epoch_checkpoint(epochs: Iterable[tuple[int, int]]) -> bytes:
    """Return a ``leader-epoch-checkpoint`` (KIP-101): pairs of an epoch and its first offset, both growing."""
    return format_checkpoint(f"{epoch} {offset}" for epoch, offset in epochs)


def epochs_of(checkpoint: LeaderEpochs) -> Epochs:
    """Return the entries of a checkpoint as a broker takes them: one that does not fit drops those before it."""
    epochs: Epochs = ()
    for epoch, offset in zip(checkpoint.epochs.tolist(), checkpoint.start_offsets.tolist(), strict=True):
        epochs = assign(epochs, epoch, offset)
    return epochs


def load_epochs(checkpoint: DirectoryEntry | None) -> Epochs:
    """Return the entries of a partition's checkpoint as a broker takes them; none where it has no checkpoint."""
    return () if checkpoint is None else epochs_of(load_leader_epochs(checkpoint.location))


def assign(epochs: Epochs, epoch: int, offset: int) -> Epochs:
    """Return the epoch begins at this offset, unless it is the latest one and began before. Later epochs, and epochs
    that begin at this offset or later, are forgotten. Negative numbers change nothing."""
    if epoch < 0 or offset < 0 or (epochs and epochs[-1][0] == epoch and epochs[-1][1] <= offset):
        return epochs
    kept = len(epochs)
    while kept and (epochs[kept - 1][0] >= epoch or epochs[kept - 1][1] >= offset):
        kept -= 1
    return (*epochs[:kept], (epoch, offset))


def assign_batches(epochs: Epochs, batches: Batches) -> Epochs:
    """Assign the epochs of batches that are appended: whatever another epoch is stamped with is assigned, and messages
    v0 and v1, which have no epoch, make the log forget all epochs, as only its high watermark can then be trusted."""
    for epoch, offset in _changes(batches):
        epochs = () if epoch == _LEGACY else assign(epochs, epoch, offset)
    return epochs


def recover_batches(epochs: Epochs, batches: Batches) -> Epochs:
    """Assign the epochs of batches that are found when a log is recovered: only an epoch larger than the latest is
    assigned."""
    for epoch, offset in _changes(batches):
        if not epochs or epoch > epochs[-1][0]:
            epochs = assign(epochs, epoch, offset)
    return epochs


def _changes(batches: Batches) -> list[tuple[int, int]]:
    """The epoch and offset of each batch whose epoch is not that of the batch before."""
    stamped = np.where(batches.is_legacy, np.int32(_LEGACY), batches.partition_leader_epoch)
    rows = np.flatnonzero(stamped != np.concatenate([[np.int32(_NONE_BEFORE)], stamped[:-1]]))
    return list(zip(stamped[rows].tolist(), batches.entry_offset[rows].tolist(), strict=True))


def truncate_from_end(epochs: Epochs, end_offset: int) -> Epochs:
    """Return the epochs of a log that was cut off at ``end_offset``: those that began there or later are gone."""
    kept = len(epochs)
    while kept and epochs[kept - 1][1] >= end_offset >= 0:
        kept -= 1
    return epochs[:kept]


def truncate_from_start(epochs: Epochs, start_offset: int) -> Epochs:
    """Return the epochs of a log that now begins at ``start_offset``: its epoch begins there, and those before are
    gone.

    A log that begins before its first epoch keeps all unchanged.
    """
    passed = sum(offset <= start_offset for _, offset in epochs)
    if not passed or epochs[passed - 1][1] == start_offset == epochs[0][1]:
        return epochs
    return ((epochs[passed - 1][0], start_offset), *epochs[passed:])


def end_offset_for(epochs: Epochs, epoch: int, log_end_offset: int) -> tuple[int, int] | None:
    """Return what a leader answers to a follower that asks where its last epoch ended (``OffsetsForLeaderEpoch``): the
    largest epoch up to this one, and its end. None if there is no epoch from this one on. Before the first epoch, it is
    this one, with the offset where the first one begins."""
    if epoch < 0 or not epochs or epochs[-1][0] < epoch:
        return None
    if epochs[-1][0] == epoch:
        return epoch, log_end_offset
    later = next(at for at, (each, _) in enumerate(epochs) if each > epoch)
    return (epochs[later - 1][0] if later else epoch), epochs[later][1]


def rank(epochs: Epochs, end_offset: int) -> tuple[int, int]:
    """Return what replicas of a partition are ordered by: the greatest has the history of the last leader (KIP-101).
    It is that with the greatest last epoch, -1 without any, and of these the longest."""
    return (epochs[-1][0] if epochs else -1), end_offset


def truncation_offset(leader: Epochs, leader_end: int, follower: Epochs, follower_end: int) -> int | None:
    """Return where a follower cuts its log off before it fetches from a leader: what is before is in both logs
    (KIP-101, KIP-279). ``leader_end`` and ``follower_end``: the logs' end offsets. None if epochs do not show it; a
    follower then goes by its high watermark."""
    while follower:
        answer = end_offset_for(leader, follower[-1][0], leader_end)
        own = None if answer is None else end_offset_for(follower, answer[0], follower_end)
        if answer is None or own is None:
            return None
        if own[0] == answer[0]:
            return min(own[1], answer[1], follower_end)
        # The follower has never heard of that epoch: it goes back to the one before, and asks again.
        follower_end = min(own[1], follower_end)
        follower = truncate_from_end(follower, follower_end)
    return None
