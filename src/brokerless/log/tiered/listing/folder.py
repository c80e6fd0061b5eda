"""The objects of one partition in a bucket."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from brokerless.findings import Finding
from brokerless.log import names
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.tiered.manifest import Manifest
from brokerless.log.tiered.object_names import ObjectKind, PartitionName
from brokerless.log.tiered.segments import RemoteLog

FolderObjects = dict[tuple[int, str], dict[ObjectKind, DirectoryEntry]]
"""The objects of segments, by start offset and segment ID."""


@dataclass
class Folder:
    """The objects of one partition."""

    name: PartitionName
    location: Location
    objects: FolderObjects
    log: RemoteLog | None = None
    """The log, once the manifests were read."""
    manifests: dict[DirectoryEntry, Manifest | Finding] = field(
        default_factory=dict[DirectoryEntry, "Manifest | Finding"]
    )
    findings: list[Finding] = field(default_factory=list[Finding])
    files: dict[str, Any] | None = None
    """What the file system has made of it."""
    left_out: FolderObjects = field(default_factory=dict[tuple[int, str], "dict[ObjectKind, DirectoryEntry]"])
    limits: tuple[int, int] | None = None
    """In a snapshot of a backup, the log's first offset and the one after its last."""

    @property
    def directory(self) -> str:
        """The name that the partition's directory has in a log directory."""
        return names.partition_directory(self.name.topic, self.name.partition)
