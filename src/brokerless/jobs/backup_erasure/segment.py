"""Looks for selected records in one segment of a backup, and writes it again without them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.format.read.decoder import Decoder, decode_whole
from brokerless.jobs.backup.segments import as_remote, describe_stored
from brokerless.jobs.erase.eraser import Eraser
from brokerless.jobs.erase.selection import Matcher, Selection
from brokerless.jobs.rewrite.reading import is_damage
from brokerless.log.backups.replaced import OldSegment, ReplacedSegment
from brokerless.log.backups.snapshot import SnapshotSegment
from brokerless.log.segment import Chunk, check_checksums, damage_finding, scan
from brokerless.log.tiered.decryption import KeyPairs, unwrap
from brokerless.log.tiered.listing.stored_objects import object_differs
from brokerless.log.tiered.manifest import IndexName, Manifest
from brokerless.log.tiered.segment_log import open_log, read_index
from brokerless.log.tiered.segments import RemoteSegment
from brokerless.log.tiered.writing.encryption import DataKey
from brokerless.log.tiered.writing.objects import ObjectFormat, UploadPlace
from brokerless.log.upload.rewritten_segment import rewrite_segment
from brokerless.progress import Done, Report

_KEPT: tuple[IndexName, ...] = ("producerSnapshot", "leaderEpoch", "transaction")


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """A segment in which records are searched and erased."""

    place: UploadPlace
    segment: SnapshotSegment
    selection: Selection
    keys: KeyPairs
    max_batch_bytes: int
    apply: bool
    """Whether it is written again if it has a selected record."""

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.segment.size_in_bytes


@dataclass(frozen=True, slots=True)
class SegmentTaskResult:
    """What was found in a segment, and what was written in its place."""

    segment: SnapshotSegment
    selected: int
    """How many records are, or are to be, erased."""
    replaced: ReplacedSegment | None
    """What was written; None if nothing was."""
    findings: tuple[Finding, ...] = ()
    """What kept the segment from being read, or from being written."""


def run_task(task: SegmentTask, done: Done) -> SegmentTaskResult:
    """Reads a segment, and again to write it, where it has a selected record. Raises :class:`UnwritableError`."""
    findings: list[Finding] = []
    path = str(task.place.directory)
    try:
        remote = as_remote(task.segment, task.place)
        path = remote.log.path
        selected = _count(task, remote, findings.append, done)
        if findings or not selected or not task.apply:
            return SegmentTaskResult(task.segment, selected, None, tuple(findings))
        replaced = _write(task, remote, findings.append)
        return SegmentTaskResult(task.segment, selected, None if findings else replaced, tuple(findings))
    except UnreadableError as error:
        return SegmentTaskResult(task.segment, 0, None, (error.finding(path, task.segment.start_offset),))


def _count(task: SegmentTask, remote: RemoteSegment, report: Report, done: Done) -> int:
    """Count the selected records, as far as the segment is intact."""
    selection = task.selection
    matcher = Matcher(selection, task.segment.topic, task.segment.partition)
    decoder = Decoder(selection.needs_keys, selection.needs_values, selection.needs_headers, task.max_batch_bytes)
    count, sha256 = 0, hashlib.sha256()
    for chunk in _chunks(task, remote, report):
        sha256.update(chunk.buffer[int(chunk.batches.positions[0]) : int(chunk.batches.ends[-1])].data)
        for decoded in decode_whole(decoder, chunk.buffer, chunk.batches, chunk.base):
            for damage in decoded.damages:
                report(damage_finding(remote.log.path, damage))
            count += int(matcher.match(decoded).sum())
            del decoded
        done(int(chunk.batches.sizes.sum()))
    if sha256.hexdigest() != task.segment.sha256:
        # Written again, it would pass for what was stored.
        expected = f"SHA-256 {task.segment.sha256}"
        report(object_differs(remote.log.path, task.segment, expected, sha256.hexdigest()))
    return count


def _chunks(task: SegmentTask, remote: RemoteSegment, report: Report) -> Iterator[Chunk]:
    """Yield whole batches up to the first damage, which is reported."""
    damages: list[Finding] = []

    def take(finding: Finding) -> None:
        if is_damage(finding):
            damages.append(finding)
            report(finding)

    with open_log(remote, remote.log.path, task.keys) as file:
        for chunk in scan(file, take):
            if not len(chunk.batches):
                continue
            check_checksums(chunk, remote.log.path, take)
            for finding in file.take_findings():
                take(finding)
            if damages:
                return
            yield chunk


def _write(task: SegmentTask, remote: RemoteSegment, report: Report) -> ReplacedSegment | None:
    """Return what was written in place of a segment; None where damage was reported."""
    manifest = remote.manifest
    assert manifest is not None
    selection, segment = task.selection, task.segment
    eraser = Eraser(
        Matcher(selection, segment.topic, segment.partition), None, task.max_batch_bytes,
        needs=(selection.needs_keys, selection.needs_values, selection.needs_headers),
    )  # fmt: skip
    epochs: list[int] = []

    def buffers() -> Iterator[NDArray[np.uint8]]:
        for chunk in _chunks(task, remote, report):
            known = len(eraser.totals.touched)
            for converted in eraser.convert(chunk.buffer, chunk.batches, chunk.base):
                for damage in converted.damages:
                    report(damage_finding(remote.log.path, damage))
                yield converted.buffer
            for each in eraser.totals.touched[known:]:
                row = int(np.searchsorted(chunk.batches.last_offset, each.last_offset))
                epochs.extend([int(chunk.batches.partition_leader_epoch[row])] * len(each.offsets))

    indexed: list[IndexName] = [name for name in _KEPT if name in manifest.indexes]
    kept: dict[IndexName, bytes] = {name: read_index(remote, name, task.keys) for name in indexed}
    place = replace(task.place, broker_id=manifest.broker_id)
    stored = rewrite_segment(place, manifest, kept, buffers(), how=_format_of(manifest, task.keys))
    offsets = [offset for each in eraser.totals.touched for offset in each.offsets.tolist()]
    new = describe_stored(stored, place, segment.records - len(offsets))
    old = OldSegment(
        segment.segment_id, segment.sha256, segment.size_in_bytes, segment.records,
        erased_offsets=tuple(offsets), erased_epochs=tuple(epochs),
    )  # fmt: skip
    return ReplacedSegment(old, new)


def _format_of(manifest: Manifest, keys: KeyPairs) -> ObjectFormat:
    """Return how a segment was stored, so that it is stored so again: those who can read the one read the other."""
    encryption, data_key = manifest.encryption, None
    if encryption is not None:
        data_key = DataKey(unwrap(encryption, keys), {encryption.key_id: encryption.data_key})
    compression = "all" if manifest.is_compressed else "none"
    return ObjectFormat(manifest.chunks.chunk_size, compression, data_key)
