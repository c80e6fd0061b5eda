"""``partition.metadata`` (KIP-516): the topic ID of a partition.

Sources: ``PartitionMetadataReadBuffer`` (3.9.1), ``PartitionMetadata`` (4.1.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from brokerless.findings import Kind
from brokerless.log.checkpoint.text_files import (
    FileFindings,
    MalformedFileError,
    parse_integer,
    parse_uuid,
    read_lines,
    shorten,
)
from brokerless.log.storage.location import DirectoryEntry, Location

_NO_UUID = "A" * 22


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The content of ``partition.metadata`` (KIP-516)."""

    file: str
    version: int | None = None
    topic_id: str | None = None
    """As Kafka writes it, in base64."""
    findings: FileFindings = ()


def load_partition_metadata(location: Location) -> PartitionMetadata:
    """Reads a ``partition.metadata``."""
    parsed, findings = read_lines(location, _parse, (None, None), Kind.PARTITION_METADATA_CORRUPT)
    return PartitionMetadata(location.path, *parsed, findings)


def topic_id_of(metadata: DirectoryEntry | None) -> str | None:
    """Return the topic ID in a ``partition.metadata``; None if there is no such file, or it cannot be read."""
    return None if metadata is None else load_partition_metadata(metadata.location).topic_id


def _parse(lines: list[str]) -> tuple[int | None, str | None]:
    values: list[str] = []
    for line in [*lines, "", ""][:2]:
        words = re.split(r":[ \t\x0b\f]+", line)
        if len(words) != 2:
            raise MalformedFileError("a malformed line", "a name, a colon and a value", shorten(line))
        values.append(words[1])
    version = parse_integer(values[0], lines[0])
    topic_id = parse_uuid(values[1], lines[1])
    if version < 0 or topic_id == _NO_UUID:
        raise MalformedFileError("the topic has no ID", "version 0 or more and an ID", shorten(" ".join(values)))
    return version, topic_id


def partition_metadata(topic_id: str) -> bytes:
    """Return a ``partition.metadata`` (KIP-516), version 0. ``topic_id``: 16 bytes in base64 for URLs, without
    padding."""
    return f"version: 0\ntopic_id: {topic_id}".encode()
