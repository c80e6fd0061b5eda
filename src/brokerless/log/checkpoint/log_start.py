"""Where partitions begin after records were deleted (KIP-107): their lines in ``log-start-offset-checkpoint``.

A broker serves nothing before the log start offset, although the segment that has it still holds what was deleted.
Sources: ``UnifiedLog.maybeIncrementLogStartOffset``, ``LogManager.checkpointLogStartOffsetsInDir`` (4.1.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from brokerless.errors import UnreadableError
from brokerless.log import names
from brokerless.log.checkpoint.readers import OffsetCheckpoint, load_offset_checkpoint
from brokerless.log.storage.paths import Entry, StorageOptions, exists, is_remote, join, local, parent_directory

if TYPE_CHECKING:
    from brokerless.log.directory import PartitionPath

UNKNOWN = "log-start-unknown"


class LogStarts:
    """The log start offsets of partitions; each checkpoint is read once. ``files`` are a log directory's own.
    ``is_ignored``: deleted records are included, so that partitions begin with their first segments."""

    def __init__(self, is_ignored: bool, files: Mapping[str, Entry], storage_options: StorageOptions | None) -> None:
        self._is_ignored, self._storage_options = is_ignored, storage_options
        self._loaded: dict[str, OffsetCheckpoint | None] = {}
        if (entry := files.get(names.LOG_START_OFFSET_CHECKPOINT)) is not None and not is_ignored:
            self._loaded[parent_directory(entry.path) or ""] = load_offset_checkpoint(entry.path, storage_options)

    def set(self, partition: PartitionPath) -> PartitionPath:
        """The partition with its log start offset. Lone files, deleted and stray partitions have no line."""
        if self._is_ignored or partition.topic is None or partition.state not in ("live", "future"):
            return partition
        checkpoint = self._of(partition)
        if checkpoint is None:
            return partition
        offset = checkpoint.offsets.get((partition.topic, partition.partition or 0), 0)
        text = "records that were deleted may be read, as the log start offset is not known: "
        findings = tuple(
            replace(each, severity="warning", kind=UNKNOWN, message=text + each.message) for each in checkpoint.findings
        )
        if not offset and not findings:
            return partition
        return replace(partition, log_start_offset=max(0, offset), findings=(*partition.findings, *findings))

    def _of(self, partition: PartitionPath) -> OffsetCheckpoint | None:
        """That of the directory that it is in, as for a broker; else a link leads to the one beside its target."""
        found = self._beside(partition.path)
        if found is None and not is_remote(partition.path) and Path(local(partition.path)).is_symlink():
            return self._beside(str(Path(local(partition.path)).resolve()))
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
