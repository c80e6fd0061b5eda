"""How long the files of a deleted partition stay.

A broker renames the directory of a deleted partition to ``-delete``, and removes it ``file.delete.delay.ms`` later; one
that is stopped before removes it so long after its next start (``LogManager.asyncDelete``, ``addLogToBeDeleted``,
4.4.0). It looks for such directories once in that time (``LogManager.deleteLogs``), so that they stay up to twice as
long. A rename changes the time of a directory's inode, which nothing else does to a partition that is not written to.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerless.log.directory import PartitionPath
from brokerless.log.storage.directory_lock import is_locked

DELAY_MS = 60_000
"""``file.delete.delay.ms`` by default. What a deleted topic had is no longer in the metadata."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The time at which a deleted partition goes."""

    deleted_ms: int | None
    """When it was deleted, where a broker runs here; None where none does, so that nothing goes before a start."""

    @property
    def removed_ms(self) -> int | None:
        """The earliest time at which the broker removes the files."""
        return None if self.deleted_ms is None else self.deleted_ms + DELAY_MS


def deletion_of(partition: PartitionPath) -> Deletion | None:
    """Return when a partition's files go; None for one that is not deleted, and where nobody deletes: in a bucket or an
    archive."""
    location = partition.location
    if partition.state != "delete" or location.is_remote:
        return None
    if not is_locked(location.local.parent):
        return Deletion(None)
    try:
        return Deletion(location.local.stat().st_ctime_ns // 1_000_000)
    except OSError:  # removed meanwhile
        return None
