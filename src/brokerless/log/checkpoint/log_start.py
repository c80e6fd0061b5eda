"""Looks up the log start offsets that ``log-start-offset-checkpoint`` records after records were deleted (KIP-107).

A broker serves nothing before the log start offset, although the segment that has it still holds what was deleted.
Sources: ``UnifiedLog.maybeIncrementLogStartOffset``, ``LogManager.checkpointLogStartOffsetsInDir`` (4.1.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import OffsetCheckpoint, load_offset_checkpoint
from brokerless.log.storage.paths import (
    DirectoryEntry,
    StorageOptions,
    exists,
    is_remote,
    join,
    local,
    parent_directory,
)


class LogStartOffsets:
    """The log start offsets of partitions; each checkpoint is read once. ``files`` are a log directory's own.
    ``is_ignored``: deleted records are included, so that partitions begin with their first segments."""

    def __init__(
        self, is_ignored: bool, files: Mapping[str, DirectoryEntry], storage_options: StorageOptions | None
    ) -> None:
        self._is_ignored, self._storage_options = is_ignored, storage_options
        self._loaded: dict[str, OffsetCheckpoint | None] = {}
        if (entry := files.get(names.LOG_START_OFFSET_CHECKPOINT)) is not None and not is_ignored:
            self._loaded[parent_directory(entry.path) or ""] = load_offset_checkpoint(entry.path, storage_options)

    def find(self, path: str, topic: str, partition: int) -> tuple[int, tuple[Finding, ...]]:
        """The log start offset of the partition in a directory, 0 where none is recorded, and why it is not known."""
        checkpoint = None if self._is_ignored else self._of(path)
        if checkpoint is None:
            return 0, ()
        text = "records that were deleted may be read, as the log start offset is not known: "
        findings = tuple(
            replace(each, severity="warning", kind=Kind.LOG_START_UNKNOWN, message=text + each.message)
            for each in checkpoint.findings
        )
        return max(0, checkpoint.offsets.get((topic, partition), 0)), findings

    def _of(self, path: str) -> OffsetCheckpoint | None:
        """That of the directory that it is in, as for a broker; else a link leads to the one beside its target."""
        found = self._beside(path)
        if found is None and not is_remote(path) and Path(local(path)).is_symlink():
            return self._beside(str(Path(local(path)).resolve()))
        return found

    def _beside(self, path: str) -> OffsetCheckpoint | None:
        above = parent_directory(path)
        if above is None:
            return None
        if above not in self._loaded:
            file, options = join(above, names.LOG_START_OFFSET_CHECKPOINT), self._storage_options
            self._loaded[above] = load_offset_checkpoint(file, options) if _is_there(file, options) else None
        return self._loaded[above]


def _is_there(path: str, storage_options: StorageOptions | None) -> bool:
    try:
        return exists(path, storage_options)
    except UnreadableError:  # of a URL, it may be that only a part may be read
        return False
