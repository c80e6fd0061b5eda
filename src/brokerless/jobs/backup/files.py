"""Stores what of a log directory is no record: whose it is, its checkpoints, and the snapshots of the metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from brokerless.clusters.metadata_replicas import MetadataReplica
from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.jobs.recovered.quorum import quorum_files
from brokerless.log import names
from brokerless.log.directory import LogDirectory
from brokerless.log.snapshots.place import BackupPlace
from brokerless.log.snapshots.snapshot import SnapshotFile
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.storage.object_store import new_object
from brokerless.log.tiered.listing.stored_objects import file_differs, sizes_in

_KEPT = (names.META_PROPERTIES, names.BOOTSTRAP_CHECKPOINT, names.CLEAN_SHUTDOWN, *names.OFFSET_CHECKPOINTS)
_LARGEST = 1 << 30
"""Bytes of a file: a snapshot of the metadata has some megabytes."""


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """``findings``: about those that cannot be read."""

    files: tuple[SnapshotFile, ...]
    findings: tuple[Finding, ...]


def store_files(
    place: BackupPlace, number: int, directory: LogDirectory, metadata: MetadataReplica | None, *, dry_run: bool
) -> StoredFiles:
    """``number``: of the disk, from 1 on. ``metadata``: its replica, if that is backed up. What is stored already is
    not written again, unless it was cut, which is reported. Raises :class:`UnwritableError`."""
    found: list[SnapshotFile] = []
    findings: list[Finding] = []
    sizes = sizes_in(place.file_directory)
    for name, entry in _entries(directory, metadata):
        try:
            data = entry.location.read(_LARGEST)
        except UnreadableError as error:
            findings.append(error.finding(entry.path))
            continue
        sha256 = hashlib.sha256(data).hexdigest()
        file = SnapshotFile(f"disk-{number}/{name}", sha256, len(data))
        if sizes.get(sha256, -1) not in (None, len(data)):
            findings += [file_differs(place.file(sha256).path, file.name)] if sha256 in sizes else []
            if not dry_run:
                with new_object(place.file(sha256)) as sink:
                    sink.write(data)
        found.append(file)
    return StoredFiles(tuple(found), tuple(findings))


def _entries(directory: LogDirectory, metadata: MetadataReplica | None) -> Iterator[tuple[str, DirectoryEntry]]:
    for name in _KEPT:
        if name in directory.files:
            yield name, directory.files[name]
    if metadata is not None:
        own = names.partition_directory(names.CLUSTER_METADATA, 0)
        yield from ((f"{own}/{each.name}", each) for each in quorum_files(metadata.paths))
