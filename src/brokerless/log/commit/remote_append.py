"""Appends to partitions in an object store, under the journal of a commit (:mod:`brokerless.log.commit.commit`).

The end of a log (its last segment and its checkpoints) is downloaded into a temporary log directory, where it is a log
like any other: it is recovered after an unclean stop, rolled, and appended to. The new segments are uploaded once the
journal makes readers skip them. Older segments are not written again, except where recovery has truncated them.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from brokerless.log import names
from brokerless.log.checkpoint.commit_journal import Journal, remove_journal, write_journal
from brokerless.log.checkpoint.leader_epochs import (
    epochs_of,
    leader_epoch_checkpoint,
    load_leader_epochs,
    truncate_from_end,
)
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets, read_checkpoints, write_checkpoints
from brokerless.log.commit.staged_append import append_staged, begin_growing
from brokerless.log.config import LogConfig
from brokerless.log.recovery.log_loader import load_log
from brokerless.log.storage.destination import Destination

if TYPE_CHECKING:
    from brokerless.log.commit.types import StagedPartition

_EMPTIED = ("log", "offset-index", "time-index")
"""The files of a segment in which nothing is."""


def grow_remote(
    at: Destination, journal: Journal, growing: Mapping[tuple[str, int], Sequence[StagedPartition]], config: LogConfig
) -> Journal:
    """Appends staged partitions to those of an object store; returns the journal that hides what was sent, undecided.

    Raises :class:`UsageError` for what cannot follow the log's end, UnreadableError for a log that Kafka would refuse
    to load, and UnwritableError. Then all is undone, or the next writer does it.
    """
    try:
        for (topic, partition), staged in growing.items():
            with tempfile.TemporaryDirectory(prefix="brokerless-", ignore_cleanup_errors=True) as scratch:
                journal = _grow(at, Path(scratch), journal, place=(topic, partition), staged=staged, config=config)
    except BaseException:
        with suppress(Exception):
            if journal.growing:
                undo_remote(at, journal)
        raise
    return journal


def undo_remote(at: Destination, journal: Journal) -> Sequence[str]:
    """Take away what was sent of a commit that was not decided; return what that was, in words. A segment that was
    begun stays, empty."""
    removed: list[str] = []
    for each in journal.growing:
        there = {file: entry for entry in at.entries(each.name) if (file := names.parse_segment_file(entry.name))}
        begun = {file.offset for file in there if file.kind == "log"}
        for file, entry in sorted(there.items(), key=lambda item: -item[0].offset):
            path = f"{each.name}/{entry.name}"
            if file.offset < each.base_offset or file.state != "live" or file.kind == "kraft-snapshot":
                continue
            if file.offset == each.base_offset and file.kind == "producer-snapshot":
                continue  # of what was before
            if file.kind == "log" and entry.size:
                removed.append(f"{path} was {'emptied' if file.offset == each.base_offset else 'removed'}")
            if file.offset == each.base_offset and file.kind in _EMPTIED and each.base_offset in begun:
                at.write(path, b"")
            else:
                at.remove(path)
        _forget_epochs(at, each.name, each.end_offset)
        recorded = read_checkpoints(at, each.topic, each.partition)
        lines = PartitionOffsets(each.end_offset, recorded.log_start_offset, each.end_offset)
        write_checkpoints(at, {(each.topic, each.partition): lines})
    remove_journal(at)
    return removed


def _forget_epochs(at: Destination, directory: str, end_offset: int) -> None:
    """Takes leader epochs that begin where the log ends, or later, out of a partition's checkpoint."""
    path = f"{directory}/{names.LEADER_EPOCH_CHECKPOINT}"
    if not at.exists(path):
        return
    epochs = epochs_of(load_leader_epochs(at.location / directory / names.LEADER_EPOCH_CHECKPOINT))
    kept = truncate_from_end(epochs, end_offset)
    if kept != epochs:
        at.write(path, leader_epoch_checkpoint(kept))


def _grow(
    at: Destination,
    scratch: Path,
    journal: Journal,
    place: tuple[str, int],
    staged: Sequence[StagedPartition],
    config: LogConfig,
) -> Journal:
    directory = names.partition_directory(*place)
    local = scratch / directory
    last = _fetch(at, scratch, place)
    before = _contents(local, last)
    with load_log(scratch, *place, config, was_clean=at.exists(names.CLEAN_SHUTDOWN)) as log:
        begun = begin_growing(log, place)
        for each_staged in staged:
            append_staged(log, at, each_staged, begun.leader_epoch)
        end = log.log_end_offset
    after = _contents(local, last)
    changed = [name for name, content in after.items() if before.get(name) != content]
    sent = [name for name in changed if _is_of(name, begun.base_offset) or name == names.LEADER_EPOCH_CHECKPOINT]
    # What recovery has changed comes first, as for every writer: what readers see does not depend on it.
    for name in before.keys() - after.keys():
        at.remove(f"{directory}/{name}")
    for name in changed:
        if name not in sent:
            at.send(local / name, directory, name)
    journal = journal.grow(begun)
    write_journal(at, journal)
    for name in sent:
        at.send(local / name, directory, name)
    write_checkpoints(at, {place: PartitionOffsets(end, read_checkpoints(at, *place).log_start_offset, end)})
    return journal


def _fetch(at: Destination, scratch: Path, place: tuple[str, int]) -> int:
    """Brings what a log's end is made of, and gives where its last segment begins. For all segments before stands an
    empty one, so that the log does not seem to begin there, and what is known of producers is believed."""
    directory = names.partition_directory(*place)
    local = scratch / directory
    local.mkdir()
    entries = [entry.name for entry in at.entries(directory)]
    parsed = [names.parse_segment_file(name) for name in entries]
    segments = sorted(file.offset for file in parsed if file and (file.kind, file.state) == ("log", "live"))
    last = segments[-1] if segments else 0
    for name in entries:
        if name in names.PARTITION_FILES or _is_of(name, last):
            at.fetch(directory, name, local / name)
    for kind in _EMPTIED if len(segments) > 1 else ():
        (local / names.segment_file(segments[0], kind)).touch()
    write_checkpoints(scratch, {place: read_checkpoints(at, *place)})
    return last


def _is_of(name: str, base_offset: int) -> bool:
    """Return whether a file is of the segment that begins there, or of a later one."""
    file = names.parse_segment_file(name)
    return file is not None and file.state == "live" and file.offset >= base_offset


def _contents(directory: Path, last: int) -> dict[str, tuple[int, str]]:
    """Return the size (bytes) of each file, logs first, and a hash of those that may change without another size."""
    found: dict[str, tuple[int, str]] = {}
    for path in sorted(directory.iterdir(), key=lambda each: (each.suffix != ".log", each.name)):
        if path.name in names.PARTITION_FILES or _is_of(path.name, last):
            is_log = path.suffix == ".log"  # is appended to, or cut
            found[path.name] = path.stat().st_size, "" if is_log else hashlib.sha256(path.read_bytes()).hexdigest()
    return found
