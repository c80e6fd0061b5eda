"""Plans what loading a log does with orphaned files: unclean-shutdown remnants in a partition's directory.

A pure plan, by names and by what finished compactions hold: temporary files go, the output of a compaction that was
finished takes the place of what it replaces, and indexes without a log go.

Source: ``LogLoader`` (``removeTempFilesAndCollectSwapFiles``, ``load``, ``loadSegmentFiles``), 4.1.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from brokerless.log import names
from brokerless.log.names import SegmentFile
from brokerless.log.storage.location import DirectoryEntry

_INDEXES = ("offset-index", "time-index", "transaction-index")


@dataclass(frozen=True, slots=True)
class OrphanedFiles:
    """``remove``: names of files that go; ``rename``: what each ``.swap`` file is called afterwards, once those are
    gone. Files that are in neither stay unchanged."""

    remove: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()


def plan_orphaned_files(
    entries: Sequence[DirectoryEntry], next_offset: Callable[[DirectoryEntry], int]
) -> OrphanedFiles:
    """Return what is done about the files of a partition's directory. ``next_offset`` finds the offset after the last
    batch of a ``.log.swap`` file."""
    files = [
        (entry, file)
        for entry in entries
        if not entry.is_directory and (file := names.parse_segment_file(entry.name)) is not None
    ]
    # KRaft's snapshots are the business of whoever reads them, not of the log.
    files = [(entry, file) for entry, file in files if file.kind != "kraft-snapshot"]
    unfinished = names.first_unfinished(file for _, file in files)
    swaps: list[tuple[DirectoryEntry, SegmentFile]] = []
    remove: list[str] = []
    for entry, file in files:
        is_unfinished = file.state == "swap" and unfinished is not None and file.offset >= unfinished
        if file.state in ("deleted", "cleaned") or is_unfinished:
            remove.append(entry.name)
        elif file.state == "swap":
            swaps.append((entry, file))
    replaced = [(file.offset, next_offset(entry)) for entry, file in swaps if file.kind == "log"]
    start = min((start for start, _ in replaced), default=0)
    end = max((end for _, end in replaced), default=0)
    live = [(entry, file) for entry, file in files if file.state == "live"]
    gone = {entry.name for entry, file in live if start <= file.offset < end}
    rename = tuple((entry.name, names.segment_file(file.offset, file.kind)) for entry, file in swaps)
    kept = {file.offset for entry, file in live if file.kind == "log" and entry.name not in gone}
    logs = kept | {file.offset for _, file in swaps if file.kind == "log"}
    orphans = {entry.name for entry, file in live if file.kind in _INDEXES and file.offset not in logs}
    remove += sorted(gone | orphans)
    # An index that was swapped in without its log is an orphan as well.
    remove += (entry.name for entry, file in swaps if file.kind in _INDEXES and file.offset not in logs)
    return OrphanedFiles(tuple(remove), tuple(pair for pair in rename if pair[0] not in remove))
