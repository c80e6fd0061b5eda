"""Small files, written so that a crash leaves either the old one or the new one.

As Kafka does it: the new file is written beside the old one as ``NAME.tmp``, synced, and renamed; then the directory is
synced, without which the new name could be lost. Local paths only.

Sources: ``CheckpointFile``, ``PartitionMetadataFile`` and ``Utils.atomicMoveWithFallback`` (4.1.1).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

SUFFIX = ".tmp"
"""What Kafka adds to the name of a file that is not whole yet; a leftover is overwritten by the next attempt."""


def write_file(path: str | Path, data: bytes) -> None:
    """Makes ``data`` the whole content of ``path``, durably. After an OSError it is the old or the new file even so."""
    beside = Path(f"{path}{SUFFIX}")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        rename(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def rename(source: str | Path, target: str | Path) -> None:
    """Renames a file or directory, durably, in place of a file that has the name already. Raises OSError.

    What is in ``source`` must have been synced before.
    """
    sync_directory(Path(source).replace(target).parent)


def sync_directory(path: str | Path) -> None:
    """Makes durable what was created, renamed or removed in a directory (``Utils.flushDir``). Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
