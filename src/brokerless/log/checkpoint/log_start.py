"""Looks up the log start offsets that ``log-start-offset-checkpoint`` records after records were deleted (KIP-107).

A broker serves nothing before the log start offset, although the segment that has it still holds what was deleted.
Sources: ``UnifiedLog.maybeIncrementLogStartOffset``, ``LogManager.checkpointLogStartOffsetsInDir`` (4.1.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import OffsetCheckpoint, load_offset_checkpoint
from brokerless.log.storage.location import DirectoryEntry, Location


class LogStartOffsets:
    """The log start offsets of partitions; each checkpoint is read once. ``files`` are a log directory's own.
    ``is_ignored``: deleted records are included, so that partitions begin with their first segments."""

    def __init__(self, is_ignored: bool, files: Mapping[str, DirectoryEntry]) -> None:
        self._is_ignored = is_ignored
        self._loaded: dict[Location | None, OffsetCheckpoint | None] = {}
        if (entry := files.get(names.LOG_START_OFFSET_CHECKPOINT)) is not None and not is_ignored:
            self._loaded[entry.location.parent] = load_offset_checkpoint(entry.location)

    def find(self, directory: Location, topic: str, partition: int) -> tuple[int, tuple[Finding, ...]]:
        """Return the log start offset of the partition in a directory, 0 where none is recorded, and why it is not
        known."""
        checkpoint = None if self._is_ignored else self._of(directory)
        if checkpoint is None:
            return 0, ()
        text = "records that were deleted may be read, as the log start offset is not known: "
        findings = tuple(
            replace(each, severity="warning", kind=Kind.LOG_START_UNKNOWN, message=text + each.message)
            for each in checkpoint.findings
        )
        return max(0, checkpoint.offsets.get((topic, partition), 0)), findings

    def _of(self, directory: Location) -> OffsetCheckpoint | None:
        """Return the checkpoint of a partition's own log directory, as a broker reads it; for a link without one, that
        next to its target."""
        found = self._beside(directory)
        if found is None and not directory.is_remote and directory.local.is_symlink():
            return self._beside(directory.at(str(directory.local.resolve())))
        return found

    def _beside(self, directory: Location) -> OffsetCheckpoint | None:
        above = directory.parent
        if above is None:
            return None
        if above not in self._loaded:
            checkpoint = above / names.LOG_START_OFFSET_CHECKPOINT
            self._loaded[above] = load_offset_checkpoint(checkpoint) if _is_there(checkpoint) else None
        return self._loaded[above]


def _is_there(location: Location) -> bool:
    try:
        return location.exists()
    except UnreadableError:  # of a URL, it may be that only a part may be read
        return False
