"""Copies ``meta.properties`` and other files of a node, so that a broker starts on the new directory.

It comes last: without ``meta.properties`` no broker starts, and one that started on half of the partitions would create
the others again, empty. Checkpoints are not among these files, as each commit writes its own lines of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from brokerless.log import names
from brokerless.log.checkpoint.meta_properties import load_meta_properties
from brokerless.log.directory import LogDirectory
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.write_errors import unwritable
from brokerless.progress import Say

_FILES = (names.BOOTSTRAP_CHECKPOINT, names.META_PROPERTIES)
_LIMIT = 64 << 20


def complete_directories(
    directories: Sequence[LogDirectory], written: Collection[str], to: Destination
) -> tuple[LogDirectory, ...]:
    """Return those with a ``meta.properties`` of which all partitions are ``written`` (paths of their directories), or
    are in the target already."""
    return tuple(
        replace(each, partitions=(), others=(), foreign=())  # each of a job's tasks has these
        for each in directories
        if names.META_PROPERTIES in each.files
        and all(at.path in written or to.exists(names.partition_directory(*at.place)) for at in each.partitions)
    )


def copy_node_files(directories: Sequence[LogDirectory], to: Destination) -> str | None:
    """Gives the target the files of these directories' node, unless it has some. Of several nodes or directories there
    is none that is the target's: then this says so. Raises UnreadableError, UnwritableError and OSError."""
    if not directories or to.exists(names.META_PROPERTIES):
        return None
    properties = [load_meta_properties(each.files[names.META_PROPERTIES].location) for each in directories]
    if any(each.findings or each.properties != properties[0].properties for each in properties):
        paths = ", ".join(each.file for each in properties)
        return f"there is no {names.META_PROPERTIES} in {to}: copy that of the node that is to start there ({paths})"
    for name in _FILES:
        entry = directories[0].files.get(name)
        if entry is not None:
            to.write(name, entry.location.read(_LIMIT))
    return None


def complete(directories: Sequence[LogDirectory], to: Destination, say: Say) -> None:
    """Complete the files at the end of a job; ``say`` is called if there are no files that are the target's."""
    with unwritable(to):
        reason = copy_node_files(directories, to)
    if reason is not None:
        say(reason)
