"""Opens the log of a remote segment, and finds its last offset."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.format.read.batch_headers import read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.log.storage.files import File, RemoteFile
from brokerless.log.tiered.chunk_file import ChunkFile
from brokerless.log.tiered.decryption import DecryptionError, KeyPairs, decryptor
from brokerless.log.tiered.manifest import IndexName
from brokerless.log.tiered.segments import RemoteSegment, place_of

_LONGEST_TAIL = 64 << 20
"""Bytes after the last entry of an offset index that are read for a segment's end."""


def open_log(segment: RemoteSegment, path: str, keys: KeyPairs) -> File:
    """A segment's log. ``path``: as findings name it. Raises :class:`UnreadableError`, also without its key."""
    manifest = segment.manifest
    file = segment.log.location.open()
    if manifest is None or manifest.is_plain:
        file.size = min(file.size, segment.size)
        return file
    try:
        decrypt = None if manifest.encryption is None else decryptor(manifest.encryption, keys)
    except DecryptionError as error:
        file.close()
        raise UnreadableError("", str(error)) from error  # the same for all that lack this key
    return RemoteFile(path, ChunkFile(path, file, manifest, decrypt, segment.size), segment.size, None)


def read_index(segment: RemoteSegment, name: IndexName, keys: KeyPairs) -> bytes:
    """An index of a segment with a manifest. Raises :class:`UnreadableError`."""
    manifest, entry = segment.manifest, segment.objects.get("indexes")
    if manifest is None or entry is None or name not in manifest.indexes:
        raise UnreadableError(segment.log.path, f"there is no {name} index of this remote segment")
    position, size = manifest.indexes[name]
    if not size:
        return b""
    with entry.location.open() as file:
        data = file.read(position, size).tobytes()
    if len(data) < size:
        raise UnreadableError(entry.path, f"the object ends before its {name} index does")
    if manifest.encryption is None:
        return data
    try:
        decrypt = decryptor(manifest.encryption, keys)
    except DecryptionError as error:
        raise UnreadableError("", str(error)) from error
    try:
        return decrypt(data)
    except DecryptionError as error:
        raise UnreadableError(entry.path, f"its {name} index cannot be decrypted: {error}") from error


def check_ends(segments: list[RemoteSegment], keys: KeyPairs) -> tuple[list[RemoteSegment], list[Finding]]:
    """The segments, with their true last offsets where a manifest's would let one replace another, and findings about
    manifests that are wrong there: what is in no other segment would be lost."""
    ends: dict[str, int] = {}
    findings: list[Finding] = []
    for before, after in pairwise(sorted(segments, key=place_of)):
        if before.end_offset is None or before.end_offset < after.start_offset:
            continue
        end = last_offset(before, keys)
        if end is not None and end != before.end_offset:
            ends[before.segment_id] = end
            text = "the manifest's endOffset is not the last one of the segment"
            place = before.objects["rsm-manifest"].path, None, before.start_offset
            found = str(before.end_offset)
            findings.append(Finding("error", Kind.REMOTE_MANIFEST_INVALID, *place, text, f"endOffset {end}", found))
    return [_with_end(each, ends.get(each.segment_id)) for each in segments], findings


def _with_end(segment: RemoteSegment, end: int | None) -> RemoteSegment:
    if end is None or segment.manifest is None:
        return segment
    return replace(segment, manifest=replace(segment.manifest, end_offset=end))


def last_offset(segment: RemoteSegment, keys: KeyPairs) -> int | None:
    """The last offset of a segment by its batches' headers, from the last entry of its offset index on; None where it
    cannot be read."""
    try:
        entries = np.frombuffer(read_index(segment, "offset", keys), layouts.OFFSET_INDEX_ENTRY)
        position = int(entries["position"][-1]) if len(entries) else 0
        with open_log(segment, segment.log.path, keys) as file:
            left = file.size - position
            if not 0 < left <= _LONGEST_TAIL:
                return None
            buffer = file.read(position, left)
    except (UnreadableError, ValueError):
        return None
    batches = read_headers(buffer, scan_batches(buffer).positions)
    return int(batches.last_offset.max()) if len(batches) else None
