"""Stores what of a log directory is no record: whose it is, its checkpoints, and the snapshots of the metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import structs

from brokerless.clusters.metadata_replicas import MetadataReplica
from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.jobs.backup.plan import BackupPlan
from brokerless.jobs.recovered.quorum import quorum_files
from brokerless.log import names
from brokerless.log.backups.snapshot import SnapshotFile
from brokerless.log.directory import LogDirectory
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.storage.object_store import new_object
from brokerless.log.tiered.listing.stored_objects import file_differs, sizes_in
from brokerless.log.tiered.writing.encryption import encrypt_file

_KEPT = (names.META_PROPERTIES, names.BOOTSTRAP_CHECKPOINT, names.CLEAN_SHUTDOWN, *names.OFFSET_CHECKPOINTS)
_LARGEST = 1 << 30
"""Bytes of a file: a snapshot of the metadata has some megabytes."""


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The files without records of one log directory, as a snapshot has them."""

    files: tuple[SnapshotFile, ...]
    findings: tuple[Finding, ...]
    """Findings about files that cannot be read, and about stored ones that were cut."""


def store_files(
    plan: BackupPlan, number: int, directory: LogDirectory, metadata: MetadataReplica | None
) -> StoredFiles:
    """Store the files of a log directory that have no records. ``number``: of the disk, from 1 on. ``metadata``: its
    replica, if that is backed up. What is stored already is not written again, unless it was cut, which is reported.
    Raises :class:`UnwritableError`."""
    found: list[SnapshotFile] = []
    findings: list[Finding] = []
    place, data_key = plan.place, plan.how.data_key
    sizes = sizes_in(place.file_directory)
    for name, entry in _entries(directory, metadata):
        try:
            data = entry.location.read(_LARGEST)
        except UnreadableError as error:
            findings.append(error.finding(entry.path))
            continue
        sha256 = hashlib.sha256(data).hexdigest()
        name = f"disk-{number}/{name}"
        if (known := plan.files.get(sha256)) is not None and known.stored_sha256 in sizes:
            if sizes[known.stored_sha256] in (None, known.stored_size_in_bytes):
                found.append(structs.replace(known, name=name))
                continue
            findings.append(file_differs(place.file(known.stored_sha256).path, name))
        stored = data if data_key is None else encrypt_file(data, data_key)
        own = hashlib.sha256(stored).hexdigest()
        file = SnapshotFile(name, sha256, len(data), stored_sha256=own, stored_size_in_bytes=len(stored))
        if not plan.options.dry_run and sizes.get(file.stored_sha256, -1) not in (None, len(stored)):
            with new_object(place.file(file.stored_sha256)) as sink:
                sink.write(stored)
        found.append(file)
    return StoredFiles(tuple(found), tuple(findings))


def _entries(directory: LogDirectory, metadata: MetadataReplica | None) -> Iterator[tuple[str, DirectoryEntry]]:
    for name in _KEPT:
        if name in directory.files:
            yield name, directory.files[name]
    if metadata is not None:
        own = names.partition_directory(names.CLUSTER_METADATA, 0)
        yield from ((f"{own}/{each.name}", each) for each in quorum_files(metadata.paths))
