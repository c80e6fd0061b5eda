"""Opens the log of a remote segment, and finds its last offset."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches, checksums_match, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.log.storage.files import File, RemoteFile
from brokerless.log.tiered.chunk_file import ChunkFile
from brokerless.log.tiered.decryption import DecryptionError, KeyPairs, decryptor
from brokerless.log.tiered.manifest import IndexName
from brokerless.log.tiered.segments import LocalSegment, RemoteSegment, manifest_invalid, place_of

_WINDOW = 16 << 20
"""Bytes of a log that are validated at a time; more only for a batch that is larger."""
_LONGEST_TAIL = 64 << 20
"""Bytes after the last entry of an offset index that are read for a segment's end."""
_LONGEST_INDEX = 64 << 20


def open_log(segment: RemoteSegment, path: str, keys: KeyPairs) -> File:
    """Return a segment's log, where it is damaged that of a copy. ``path``: as findings name it. Raises
    :class:`UnreadableError`, also without its key."""
    if not segment.copies:
        return _open_one(segment, path, keys)
    copies = CopiedLog(segment, path, keys)
    return RemoteFile(path, copies, min(segment.size, copies.size), None)


def _open_one(segment: RemoteSegment, path: str, keys: KeyPairs) -> File:
    manifest = segment.manifest
    file = segment.log.location.open()
    if manifest is None or manifest.is_plain:
        file.size = min(file.size, segment.size)
        return file
    try:
        decrypt = None if manifest.encryption is None else decryptor(manifest.encryption, keys)
    except DecryptionError as error:
        file.close()
        raise UnreadableError("", str(error), Kind.REMOTE_KEY_MISSING) from error  # the same for all that lack it
    return RemoteFile(path, ChunkFile(path, file, manifest, decrypt=decrypt, size=segment.size), segment.size, None)


class CopiedLog:
    """The log of a segment that a bucket has more than once, for :class:`RemoteFile`: with ``seek``, ``read`` and
    ``close``. Each range is compared with that of the other copies; where they differ, the first one that is intact is
    read from there on, and a finding names the damaged one."""

    def __init__(self, segment: RemoteSegment, path: str, keys: KeyPairs) -> None:
        """Raises :class:`UnreadableError` where none of them can be opened."""
        self._segment, self._position, self._is_chosen = segment, 0, False
        self._open: list[tuple[RemoteSegment, File]] = []
        self._findings: list[Finding] = []
        errors: list[UnreadableError] = []
        for each in (segment, *segment.copies):
            try:
                self._open.append((each, _open_one(each, path, keys)))
            except UnreadableError as error:
                errors.append(error)
        if not self._open:
            raise errors[0]
        if self._open[0][0] is not segment:
            self._report(errors[0].reason_for(segment.log.path))

    @property
    def size(self) -> int:
        """Bytes of the longest one."""
        return max(file.size for _, file in self._open)

    def seek(self, position: int) -> None:
        self._position = position

    def read(self, length: int) -> bytes:
        """Return at most so many bytes from the position on. Raises :class:`UnreadableError` where the storage
        fails."""
        if not self._is_chosen and len(self._open) > 1 and self._differ(length):
            self._choose()
        data = b""
        for _, file in self._open:  # after the end of a shorter one, the rest of a longer one
            at = self._position + len(data)
            data += file.read(at, min(length - len(data), max(0, file.size - at))).tobytes()
        self._position += len(data)
        return data

    def _differ(self, length: int) -> bool:
        """Return whether copies have other bytes at the position, as far as each of them goes."""
        ranges = [self._read(file, length) for _, file in self._open if file.size > self._position]
        shortest = min((len(each) for each in ranges if each is not None), default=0)
        return len({each if each is None else each[:shortest] for each in ranges}) > 1

    def _read(self, file: File, length: int) -> bytes | None:
        try:
            return file.read(self._position, length).tobytes()
        except UnreadableError:
            return None

    def _choose(self) -> None:
        """Leaves open the first copy that is intact, and those that are longer."""
        at = next((at for at, (each, file) in enumerate(self._open) if _is_intact(each, file)), 0)
        chosen, size = self._open[at], self._open[at][1].size
        longer = [each for each in self._open if each[1].size > size]
        for _, file in (each for each in self._open if each is not chosen and each not in longer):
            file.close()
        self._open, self._is_chosen = [chosen, *longer], True
        if chosen[0] is not self._segment:
            chosen[1].take_findings()
            self._report("its batches are not what was written")

    def _report(self, reason: str) -> None:
        text = f"this remote segment is damaged ({reason}); its copy {self._open[0][0].segment_id} is read"
        path, offset = self._segment.log.path, self._segment.start_offset
        self._findings.append(Kind.REMOTE_SEGMENT_DAMAGED.at(path, text, offset=offset))

    def take_findings(self) -> list[Finding]:
        """Return the findings of the file; what is wrong with copies that are not read is not among them."""
        taken, self._findings = self._findings, []
        return [*taken, *self._open[0][1].take_findings()]

    def close(self) -> None:
        for _, file in self._open:
            file.close()


def _is_intact(segment: RemoteSegment, file: File) -> bool:
    try:
        return _has_only_intact_batches(segment, file)
    except UnreadableError:
        return False


def _has_only_intact_batches(segment: RemoteSegment, file: File) -> bool:
    read, before = 0, segment.start_offset - 1
    for buffer, batches in _batches_from(file, 0):
        lasts = np.concatenate([[before], batches.last_offset])
        if not checksums_match(buffer, batches).all() or (batches.entry_offset <= lasts[:-1]).any():
            return False
        before, read = int(lasts[-1]), read + int(batches.ends.max())
    return read >= file.size and segment.end_offset in (None, before) and not file.take_findings()


def _batches_from(file: File, at: int) -> Iterator[tuple[NDArray[np.uint8], Batches]]:
    """Yield the batches from a position (bytes) on, a window at a time, up to where none begins."""
    window = _WINDOW
    while at < file.size:
        buffer = file.read(at, window)
        batches = read_headers(buffer, scan_batches(buffer).positions)
        if len(batches):
            yield buffer, batches
            at += int(batches.ends.max())
        elif len(buffer) == window < _LONGEST_TAIL:
            window *= 2
        else:
            return


def read_index(segment: RemoteSegment, name: IndexName, keys: KeyPairs) -> bytes:
    """Return an index of a segment with a manifest. Raises :class:`UnreadableError`."""
    manifest, entry = segment.manifest, segment.objects.get("indexes")
    if manifest is None or entry is None or name not in manifest.indexes:
        raise UnreadableError(segment.log.path, f"there is no {name} index of this remote segment")
    position, size = manifest.indexes[name]
    if not size:
        return b""
    data = entry.read(position, size)
    if len(data) < size:
        raise UnreadableError(entry.path, f"the object ends before its {name} index does")
    if manifest.encryption is None:
        return data
    try:
        decrypt = decryptor(manifest.encryption, keys)
    except DecryptionError as error:
        raise UnreadableError("", str(error), Kind.REMOTE_KEY_MISSING) from error
    try:
        return decrypt(data)
    except DecryptionError as error:
        raise UnreadableError(entry.path, f"its {name} index cannot be decrypted: {error}") from error


def check_ends(segments: list[RemoteSegment], keys: KeyPairs) -> tuple[list[RemoteSegment], list[Finding]]:
    """Return the segments, with their true last offsets where a manifest's would let one replace another, and findings
    about manifests that are wrong there: what is in no other segment would be lost."""
    ends: dict[str, int] = {}
    findings: list[Finding] = []
    for before, after in pairwise(sorted(segments, key=place_of)):
        if before.end_offset is None or before.end_offset < after.start_offset:
            continue
        end = last_offset(before, keys)
        if end is not None and end != before.end_offset:
            ends[before.segment_id] = end
            text = "the manifest's endOffset is not the last one of the segment"
            path = before.objects["rsm-manifest"].path
            expected, found = f"endOffset {end}", str(before.end_offset)
            findings.append(manifest_invalid(path, text, before.start_offset, expected=expected, found=found))
    return [_with_end(each, ends.get(each.segment_id)) for each in segments], findings


def _with_end(segment: RemoteSegment, end: int | None) -> RemoteSegment:
    if end is None or segment.manifest is None:
        return segment
    return replace(segment, manifest=replace(segment.manifest, end_offset=end))


def last_offset(segment: RemoteSegment, keys: KeyPairs) -> int | None:
    """Return the last offset of a segment by its batches' headers, from the last entry of its offset index on; None
    where it cannot be read."""
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


def end_of_local(segment: LocalSegment) -> int:
    """Return the offset after the last batch of a local segment, by headers from the last entry of its offset index on;
    its base offset where it cannot be read."""
    end = segment.base_offset
    with suppress(UnreadableError), segment.log.location.open() as file:
        for _, batches in _batches_from(file, _last_indexed(segment, file)):
            end = max(end, int(batches.end_of_records.max()) + 1)
    return end


def _last_indexed(segment: LocalSegment, file: File) -> int:
    """The position (bytes) of the last batch that the offset index of a local segment knows, if one is there, or 0."""
    if segment.offset_index is None:
        return 0
    data = segment.offset_index.location.read(_LONGEST_INDEX)
    entries = np.frombuffer(data[: len(data) // 8 * 8], layouts.OFFSET_INDEX_ENTRY)
    positions = entries["position"][entries["position"] > 0]  # zeros follow, as brokers allocate the file beforehand
    at = int(positions[-1]) if len(positions) else 0
    buffer = file.read(at, _WINDOW) if at < file.size else np.empty(0, np.uint8)
    batches = read_headers(buffer, scan_batches(buffer).positions)
    return at if len(batches) and bool(checksums_match(buffer, batches)[0]) else 0
